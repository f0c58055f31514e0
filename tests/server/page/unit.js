// unit.js - the parts of the page that are functions: markdown, colours, events, settings, the store.
// Leaves what happened in window.results and names the page "done".

import { inline_nodes, safe_address } from '/page/inline.js';
import { MarkdownView } from '/page/markdown.js';
import { messages_of } from '/page/runs.js';
import { fault_of, request_fields } from '/page/settings.js';
import { EventParser } from '/page/sse.js';
import * as store from '/page/store.js';
import { stats_text } from '/page/message.js';
import { colour_line, find_language } from '/page/syntax.js';

const results = [];

function test(name, body) {
    const began = performance.now();
    try {
        body();
        results.push({ name, fault: '', ms: performance.now() - began });
    } catch (error) {
        results.push({ name, fault: String(error.stack || error), ms: performance.now() - began });
    }
}

function equal(got, wanted, what = '') {
    const a = JSON.stringify(got);
    const b = JSON.stringify(wanted);
    if (a !== b) throw new Error(`${what} got ${a}, wanted ${b}`);
}

function is(condition, what) {
    if (!condition) throw new Error(what);
}

const LINK = 'rel="noopener noreferrer nofollow" target="_blank"';

function inline(text, open = false) {
    const box = document.createElement('div');
    box.append(...inline_nodes(text, open));
    return box.innerHTML.replaceAll(` ${LINK}`, '');
}

function box_of(text, open = false) {
    const box = document.createElement('div');
    new MarkdownView(box).update(text, open);
    return box;
}

/** Without what is the same everywhere: frames of code and tables, attributes of links. */
function html(text, open = false) {
    return box_of(text, open).innerHTML.replaceAll(` ${LINK}`, '')
        .replaceAll(/<div class="table"[^>]*>(.*?<\/table>)<\/div>/gs, '$1');
}

const INLINE = [
    ['a *b* c', 'a <em>b</em> c'],
    ['a **b** _c_ __d__', 'a <strong>b</strong> <em>c</em> <strong>d</strong>'],
    ['***a***', '<em><strong>a</strong></em>'],
    ['**a *b* c**', '<strong>a <em>b</em> c</strong>'],
    ['*a **b** c*', '<em>a <strong>b</strong> c</em>'],
    ['5 * 3 * 2', '5 * 3 * 2'],
    ['snake_case_name', 'snake_case_name'],
    ['**bold:**text', '<strong>bold:</strong>text'],
    ['**bold', '**bold'],
    ['a ~~b~~', 'a <del>b</del>'],
    ['~5 and ~6', '~5 and ~6'],
    ['`a*b*c`', '<code>a*b*c</code>'],
    ['``a`b``', '<code>a`b</code>'],
    ['`` ` ``', '<code>`</code>'],
    ['a ` b', 'a ` b'],
    ['\\*a\\*', '*a*'],
    ['a\nb', 'a<br>b'],
    ['a<br/>b', 'a<br>b'],
    ['a &lt; b &amp; c &copy;', 'a &lt; b &amp; c &amp;copy;'],
    ['<b>x</b>', '&lt;b&gt;x&lt;/b&gt;'],
    ['[x](https://e.org/a)', '<a href="https://e.org/a">x</a>'],
    ['[**x**](https://e.org/a_(b))', '<a href="https://e.org/a_(b)"><strong>x</strong></a>'],
    ['[x](https://e.org "title")', '<a href="https://e.org/">x</a>'],
    ['[x](javascript:alert(1))', '[x](javascript:alert(1))'],
    ['[x](data:text/html,1)', '[x](data:text/html,1)'],
    ['[x](//e.org)', '[x](//e.org)'],
    ['![x](https://e.org/p.png)', '<a href="https://e.org/p.png">Image: x</a>'],
    ['a[0](1) [b]', 'a[0](1) [b]'],
    ['see https://e.org/a_b_c.', 'see <a href="https://e.org/a_b_c">https://e.org/a_b_c</a>.'],
    ['(https://e.org/x)', '(<a href="https://e.org/x">https://e.org/x</a>)'],
    ['**https://e.org**', '<strong><a href="https://e.org/">https://e.org</a></strong>'],
    ['<https://e.org/>', '<a href="https://e.org/">https://e.org/</a>'],
    ['https:// and xhttps://a', 'https:// and xhttps://a'],
    ['\\(a_1 * b_2 * c\\)', '<code class="math">a_1 * b_2 * c</code>'],
    ['\\(a', '(a'],
];

for (const [text, wanted] of INLINE) test(`inline ${text}`, () => equal(inline(text), wanted));

const OPEN = [
    ['a **bo', 'a <strong>bo</strong>'],
    ['a **', 'a '],
    ['a **bold*', 'a <strong>bold</strong>'],
    ['a `co', 'a <code>co</code>'],
    ['a `', 'a '],
    ['[tex](https://e.o', 'tex'],
    ['2*3', '2*3'],
    ['**a _b', '<strong>a <em>b</em></strong>'],
];

for (const [text, wanted] of OPEN) {
    test(`still written ${text}`, () => equal(inline(text, true), wanted));
}

const BLOCKS = [
    ['# A', '<h3 class="h1">A</h3>'],
    ['### A ##', '<h5 class="h3">A</h5>'],
    ['#hash', '<p>#hash</p>'],
    ['a\n\nb', '<p>a</p><p>b</p>'],
    ['a\n---\nb', '<p>a</p><hr><p>b</p>'],
    ['- a\n- b', '<ul><li><p>a</p></li><li><p>b</p></li></ul>'],
    ['- a\n  - b\n    - c\n- d',
        '<ul><li><p>a</p><ul><li><p>b</p><ul><li><p>c</p></li></ul></li></ul></li><li><p>d</p></li></ul>'],
    ['1. a\n  - b\n2. c',
        '<ol start="1"><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ol>'],
    ['3) a', '<ol start="3"><li><p>a</p></li></ol>'],
    ['1. a\n\n   b\n\n2. c', '<ol class="loose" start="1"><li><p>a</p><p>b</p></li><li><p>c</p></li></ol>'],
    ['- a\n\ntext', '<ul><li><p>a</p></li></ul><p>text</p>'],
    ['- [x] a\n- [ ] b', '<ul><li class="task"><input type="checkbox" disabled="" aria-label="done">' +
        '<p>a</p></li><li class="task"><input type="checkbox" disabled="" aria-label="not done">' +
        '<p>b</p></li></ul>'],
    ['text\n- a', '<p>text</p><ul><li><p>a</p></li></ul>'],
    ['> a\n> > b', '<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>'],
    ['|a|b|\n|-|-:|\n|1|2|\n|3|',
        '<table><thead><tr><th>a</th><th class="right">b</th></tr></thead><tbody>' +
        '<tr><td>1</td><td class="right">2</td></tr><tr><td>3</td><td class="right"></td></tr></tbody></table>'],
    ['a | b\n--|--\n`x|y` | c\\|d', '<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>' +
        '<tr><td><code>x|y</code></td><td>c|d</td></tr></tbody></table>'],
    ['a | b\nc', '<p>a | b<br>c</p>'],
    ['$$\na_b\n$$', '<pre class="math">a_b</pre>'],
    ['\\[ x^2 \\]', '<pre class="math">x^2</pre>'],
    ['- a\n- b\n\n\n', '<ul><li><p>a</p></li><li><p>b</p></li></ul>'],
    ['', ''],
    ['\n \n', ''],
];

for (const [text, wanted] of BLOCKS) test(`block ${text}`, () => equal(html(text), wanted));

test('a list of loose items keeps a fence in an item', () => {
    const box = box_of('1. a\n\n   ```c\n   int x;\n\n     y\n   ```\n\n2. b');
    equal(box.querySelectorAll('ol > li').length, 2);
    equal(box.querySelector('li code').textContent, 'int x;\n\n  y\n');
});

test('code is kept to the letter', () => {
    const code = 'a\n\n\tb <i>&amp;</i>\n  `c`\n';
    const box = box_of(`~~~ text\n${code}~~~\nafter`);
    equal(box.querySelector('code').textContent, code);
    equal(box.querySelector('i'), null);
    equal(box.lastChild.outerHTML, '<p>after</p>');
});

test('the table of a text that is written is a table from its first line on', () => {
    for (const text of ['| a', '| a | b |', '| a | b |\n', '| a | b |\n|-', '| a | b |\n|--|--|']) {
        is(box_of(text, true).querySelector('table'), text);
    }
    equal(box_of('| a', false).querySelector('table'), null);
});

const SHOW = ['# T\n\nSome **bold** and `code`.\n\n1. one\n   - in\n\n   more\n2. two\n\n| a | b |\n|---|--:|\n' +
    '| `1` | 2 |\n| 3 | 4 |\n\n```py\ndef f():\n    """x\n    y"""\n\n    return 1\n```\n> quote\n> more\n\n---\nend',
'- a\n- b\n\n  c\n\nd\n\n- [ ] e\n* * *\n```\nopen\n``',
'a\r\nb\r\n\r\n```\r\nx\r\n```\r\n\tq | r\r\n---|---\r\n1 | 2'];

test('a text that grows ends as one that was there at once', () => {
    for (const text of SHOW) {
        for (const step of [1, 2, 3, 7, 40]) {
            const box = document.createElement('div');
            const view = new MarkdownView(box);
            for (let n = step; n < text.length; n += step) view.update(text.slice(0, n), true);
            view.update(text, false);
            equal(box.innerHTML, box_of(text).innerHTML, `step ${step}:`);
        }
    }
});

test('what is finished is not made again', () => {
    const box = document.createElement('div');
    const finals = [];
    const view = new MarkdownView(box, (text) => finals.push(text));
    let text = '# T\n\nfirst\n\n```c\nint a;\nint b;\n';
    view.update(text, true);
    const [heading, paragraph, code] = box.children;
    const chunk = code.querySelector('.chunk');
    for (let i = 0; i < 200; i++) view.update(text += `int a${i};\n`, true);
    view.update(text += '```\nend', true);
    is(box.children[0] === heading && box.children[1] === paragraph, 'blocks were replaced');
    is(box.children[2] === code && code.querySelector('.chunk') === chunk, 'code was replaced');
    view.update(text, false);
    is(box.children[2] === code, 'code was replaced at the end');
    equal(finals.length, 4);
    equal(finals[3], 'end');
});

test('another text begins anew', () => {
    const box = document.createElement('div');
    const view = new MarkdownView(box);
    view.update('a\n\nb\n\nc\n', true);
    view.update('x', false);
    view.update('y', false);
    equal(box.innerHTML, '<p>y</p>');
});

// ---- what models or people may send

const MANY = 40000;
const HARD = {
    stars: '*a '.repeat(MANY),
    'stars and ends': '*a **b'.repeat(MANY) + 'c* d**'.repeat(MANY),
    'stars alone': '*'.repeat(5 * MANY),
    underscores: '_a __b '.repeat(MANY),
    brackets: '['.repeat(5 * MANY),
    'brackets and addresses': '[a]('.repeat(MANY),
    'images': '![a](https://e.org/'.repeat(MANY),
    ticks: Array.from({ length: 600 }, (_, i) => '`'.repeat(i + 1)).join(' '),
    'ticks alone': '` `` '.repeat(MANY),
    'formulas': '\\( \\[ '.repeat(MANY),
    'addresses': 'https://e.org/a '.repeat(MANY / 4),
    'address without end': `https://${'a('.repeat(5 * MANY)}`,
    'entities': '&amp;&#'.repeat(MANY),
    'angles': '<https://'.repeat(MANY),
    quotes: '> '.repeat(5 * MANY),
    'nested lists': Array.from({ length: 600 }, (_, i) => `${'  '.repeat(i)}- a`).join('\n'),
    'items in a line': '- '.repeat(5 * MANY),
    'numbers in a line': '1. '.repeat(3 * MANY),
    'flat list': '- a\n'.repeat(MANY / 4),
    'lists of all kinds': '- a\n* b\n+ c\n1. d\n'.repeat(2000),
    'rules': '-'.repeat(5 * MANY),
    'almost a rule': `${'- '.repeat(4 * MANY)}x`,
    'headings': '# '.repeat(4 * MANY),
    'bars': '|'.repeat(5 * MANY),
    'almost a table': '|a\n'.repeat(MANY),
    'many tables': '|a|\n|-|\n'.repeat(MANY / 20),
    'a wide table': `${'|a'.repeat(MANY)}\n${'|-'.repeat(MANY)}\n${'|b'.repeat(MANY)}`,
    'open formulas': '$$\n'.repeat(MANY),
    'one line of code': `\`\`\`js\n${'"\\'.repeat(4 * MANY)}`,
    'fences': '```\n~~~\n'.repeat(MANY / 10),
    'spaces': `# a${' '.repeat(5 * MANY)}b`,
    'spaces in code': `\`\`\`yaml\n${' '.repeat(1900)}x\n`.repeat(20),
    'blank lines': '\n'.repeat(5 * MANY),
    'controls': '\u0000\u200b\u202e\ud800'.repeat(MANY),
};

for (const [name, text] of Object.entries(HARD)) {
    for (const open of [false, true]) {
        test(`hard: ${name}${open ? ', open' : ''}`, () => {
            const began = performance.now();
            const box = box_of(text, open);
            const ms = performance.now() - began;
            is(ms < 3000, `${text.length} characters took ${ms.toFixed(0)} ms`);
            let depth = 0;
            for (let node = box; node.lastElementChild; node = node.lastElementChild) depth++;
            is(depth < 100, `${depth} elements in each other`);
        });
    }
}

test('no text makes an element that it should not', () => {
    const bad = ['<script>x</script>', '<img src=x onerror=y>', '<a href="javascript:x">y</a>',
        '[a](javascript:x)', '[a](jav\tascript:x)', '[a]( javascript:x)', '<javascript:x>',
        '[a](https://e.org"onclick="x)', '```"><script>x</script>\n<script>\n```', '<iframe src=x>',
        '| <script> |\n|---|\n| <img src=x onerror=y> |', '![a](javascript:x)', '[![a](x)](vbscript:x)'];
    for (const open of [true, false]) {
        const box = box_of(bad.join('\n\n'), open);
        equal(box.querySelectorAll('script, img, iframe, style, object, embed, link').length, 0);
        for (const a of box.querySelectorAll('a')) {
            is(/^https?:\/\//.test(a.href), a.href);
            equal(a.rel, 'noopener noreferrer nofollow');
        }
        for (const node of box.querySelectorAll('*')) {
            for (const { name } of node.attributes) is(!name.startsWith('on'), name);
        }
    }
});

test('addresses', () => {
    equal(safe_address('https://e.org/ä'), 'https://e.org/%C3%A4');
    for (const text of ['javascript:x', 'ftp://e.org', 'https//e', 'e.org', '', 'http://',
        `https://e.org/${'a'.repeat(5000)}`]) {
        equal(safe_address(text), null, text);
    }
});

// ---- colours

test('colours leave every character where it is', () => {
    const lines = ['int main(void) { return "a\\"b" + 0x1F; } // end', '/* open', 'still */ x = \'c\';',
        '<a href="x">don\'t &amp;</a> <!-- c', '# not -- a $VAR "str', '{"key": [1, true, "v"]}',
        "'''doc", '`${x}`', '', ' ', '\u0000é漢', '-- sql \'it\'\'s\'', 'key: value # c', '+a', '@@ -1 +1 @@'];
    for (const name of ['c', 'js', 'python', 'rust', 'sh', 'ruby', 'sql', 'json', 'yaml', 'html', 'css',
        'diff', 'none']) {
        let state = null;
        for (const line of lines) {
            const coloured = colour_line(find_language(name), line, state);
            equal(coloured.pieces.map((x) => x[1]).join(''), line, name);
            state = coloured.state;
        }
    }
});

test('colours say what is what', () => {
    const kinds = (name, line) => colour_line(find_language(name), line, null).pieces
        .filter((x) => x[0]).map((x) => x.join(' '));
    equal(kinds('c', 'return f("x"); // y'), ['k return', 'f f', 's "x"', 'c // y']);
    equal(kinds('python', 'def g(n): return None # z'), ['k def', 'f g', 'k return', 'k None', 'c # z']);
    equal(kinds('json', '{"a": 1, "b": "c"}'), ['f "a"', 'n 1', 'f "b"', 's "c"']);
    equal(kinds('SQL', 'SELECT a FROM b'), ['k SELECT', 'k FROM']);
    const first = colour_line(find_language('c'), 'a /* b', null);
    const second = colour_line(find_language('c'), 'c */ int', first.state);
    equal(second.pieces[0], ['c', 'c */']);
    equal(second.state, null);
    equal(find_language('constructor'), null);
});

// ---- events

const STREAM = 'data: {"a":"é漢"}\n\n: note\nevent: x\ndata: b\ndata:c\n\ndata: d\r\n\r\ndata\n\ndata: e\r\rid: 1\n\n';
const EVENTS = ['{"a":"é漢"}', 'b\nc', 'd', '', 'e'];

test('events, however they are cut', () => {
    const bytes = new TextEncoder().encode(STREAM);
    for (let step = 1; step < bytes.length; step++) {
        const parser = new EventParser();
        const events = [];
        for (let at = 0; at < bytes.length; at += step) {
            events.push(...parser.push(bytes.slice(at, at + step)));
        }
        equal(events, EVENTS, `step ${step}:`);
    }
});

test('an event without end is refused', () => {
    for (const line of ['a', 'data: a\n']) {
        const parser = new EventParser();
        const bytes = new TextEncoder().encode(line.repeat(1 << 20));
        let fault = '';
        try {
            for (let i = 0; i < 80; i++) parser.push(bytes);
        } catch (error) {
            fault = error.message;
        }
        equal(fault, 'an event is longer than 8 MiB');
    }
});

// ---- settings, messages, figures

test('settings become fields', () => {
    equal(request_fields({}), {});
    equal(request_fields({ temperature: '0', top_k: '40', seed: '7', min_p: '', stop: 'a\n\nb c',
        thinking: 'off', schema: '{"type":"object"}', system: 'x', key: 'secret' }), {
        temperature: 0, top_k: 40, seed: 7, stop: ['a', 'b c'],
        response_format: { type: 'json_schema',
            json_schema: { name: 'answer', strict: true, schema: { type: 'object' } } },
        chat_template_kwargs: { enable_thinking: false },
    });
    equal(fault_of({ name: 'schema' }, '{'), 'this is not JSON');
    equal(fault_of({ name: 'schema' }, '3'), 'a schema is an object');
    equal(fault_of({ name: 'schema' }, ''), '');
});

test('a conversation becomes messages', () => {
    const chat = store.new_conversation({ system: ' be short ' });
    const first = store.add_node(chat, null, { role: 'user', text: 'a' });
    store.add_node(chat, first.id, { role: 'assistant', text: 'b', reasoning: 'r' });
    store.add_node(chat, chat.leaf, { role: 'user', text: 'c' });
    const failed = store.add_node(chat, chat.leaf, { role: 'assistant', text: '', error: 'x' });
    store.add_node(chat, failed.id, { role: 'user', text: 'd', images: ['data:image/png;base64,AA=='] });
    equal(messages_of(chat), [{ role: 'system', content: 'be short' }, { role: 'user', content: 'a' },
        { role: 'assistant', content: 'b' }, { role: 'user', content: [{ type: 'text', text: 'c' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
            { type: 'text', text: 'd' }] }]);
});

test('an edit is a sibling, and nothing is lost', () => {
    const chat = store.new_conversation({});
    const a = store.add_node(chat, null, { role: 'user', text: 'a' });
    const b = store.add_node(chat, a.id, { role: 'assistant', text: 'b' });
    const c = store.add_node(chat, null, { role: 'user', text: 'c' });
    equal(store.path_of(chat).map((x) => x.text), ['c']);
    equal(store.siblings_of(chat, c).map((x) => x.text), ['a', 'c']);
    store.choose_node(chat, a);
    equal(chat.leaf, b.id);
    equal(store.save_conversation(chat, true), 'kept');
    equal(store.load_conversation(chat.id), chat);
    is(store.list_conversations().some((x) => x.id === chat.id), 'not listed');
    store.delete_conversation(chat.id);
    equal(store.load_conversation(chat.id), null);
});

test('a conversation that was tampered with opens or is none', () => {
    const chat = store.new_conversation({});
    chat.nodes = { a: { id: 'a', parent: 'b', role: 'user', text: 'x' },
        b: { id: 'b', parent: 'a', role: 'user', text: 'y' } };
    chat.leaf = 'a';
    equal(store.path_of(chat).length, 2);
    store.choose_node(chat, chat.nodes.a);
    localStorage.setItem('weft.chat.bad', '{"nodes":');
    equal(store.load_conversation('bad'), null);
    localStorage.removeItem('weft.chat.bad');
});

test('when there is no room, images go first', () => {
    const image = `data:image/png;base64,${'A'.repeat(6_000_000)}`;
    const chat = store.new_conversation({});
    store.add_node(chat, null, { role: 'user', text: 'look', images: [image] });
    equal(store.save_conversation(chat, true), 'no images');
    const back = store.load_conversation(chat.id);
    equal([back.nodes[chat.leaf].text, back.nodes[chat.leaf].n_lost], ['look', 1]);
    chat.nodes[chat.leaf].text = 'x'.repeat(6_000_000);
    equal(store.save_conversation(chat, true), 'lost');
    store.delete_conversation(chat.id);
});

test('figures', () => {
    equal(stats_text({ first_ms: 20, usage: { prompt_tokens: 1320, completion_tokens: 42,
        prompt_tokens_details: { cached_tokens: 1310 } }, timings: { predicted_per_second: 55.04 } }),
    '42 tokens, 55 tok/s, first token 0.02 s, 1,310 of 1,320 prompt tokens cached');
    equal(stats_text({ first_ms: 1500, total_ms: 2500, usage: { prompt_tokens: 1, completion_tokens: 5 } }),
        '5 tokens, 4.0 tok/s, first token 1.5 s, 1 prompt token');
    equal(stats_text({}), '');
});

test('titles', () => {
    equal(store.title_of('  a  b\nc'), 'a b');
    equal(store.title_of('x'.repeat(100)).length, 58);
    equal(store.title_of(''), 'New chat');
});

window.results = results;
document.title = 'done';
