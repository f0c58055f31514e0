// syntax.js - light colours for code, a line at a time, so that a block can grow.
//
// A language is a list of rules and what may run over the end of a line. Not a parser: what is coloured
// wrongly stays readable.

const MAX_LINE = 2000; // longer ones stay plain

const words = (text) => new Set(text.split(' '));

const C_WORDS = 'break case char const continue default do double else enum extern false float for goto ' +
    'if inline int long nullptr return short signed sizeof static struct switch true typedef union ' +
    'unsigned void volatile while NULL restrict bool auto class namespace template typename public ' +
    'private protected virtual override new delete this throw try catch using operator constexpr ' +
    'noexcept final import export package interface extends implements abstract boolean byte ' +
    'super synchronized throws instanceof null foreach in is as var string object decimal readonly ' +
    'async await yield get set out ref params internal sealed partial record where';
const JS_WORDS = 'async await break case catch class const continue debugger default delete do else ' +
    'export extends false finally for from function get if import in instanceof let new null of return ' +
    'set static super switch this throw true try typeof undefined var void while yield interface type ' +
    'enum implements private public protected readonly as declare namespace keyof any string number ' +
    'boolean never unknown';
const PY_WORDS = 'and as assert async await break class continue def del elif else except False finally ' +
    'for from global if import in is lambda match case None nonlocal not or pass raise return self True ' +
    'try while with yield';
const RUST_WORDS = 'as async await break const continue crate dyn else enum extern false fn for if impl ' +
    'in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe ' +
    'use where while func package go defer chan map range select interface var nil import switch case ' +
    'default fallthrough fun val when object data sealed override open class guard init extension ' +
    'protocol throws try catch string int bool';
const SH_WORDS = 'if then else elif fi for while until do done case esac in function select return exit ' +
    'break continue local export readonly declare set unset shift trap source alias cd echo eval exec ' +
    'test true false sudo';
const SQL_WORDS = 'select from where and or not null is in like between join left right inner outer full ' +
    'cross on using group by order having limit offset insert into values update set delete create ' +
    'table view index drop alter add column primary key foreign references unique default check as ' +
    'distinct union all exists case when then else end asc desc with recursive over partition begin ' +
    'commit rollback integer int text varchar char boolean date timestamp numeric real true false if';
const RUBY_WORDS = 'def end if elsif else unless while until for in do begin rescue ensure raise return ' +
    'yield class module self nil true false and or not then case when require require_relative puts ' +
    'attr_accessor attr_reader local function repeat elseif';

const STRING_2 = /"(?:[^"\\]|\\.)*"?/y;
const STRING_1 = /'(?:[^'\\]|\\.)*'?/y;
const NUMBER = /(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*/y;
const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const HASH = ['c', /#.*/y];
const SLASHES = ['c', /\/\/.*/y];
const BLOCK = { from: '/*', to: '*/', as: 'c' };
const STRINGS = [['s', STRING_2], ['s', STRING_1]];

const LANGUAGES = {};

function add(names, language) {
    for (const name of names.split(' ')) {
        LANGUAGES[name] = { over: [], rules: [], words: new Set(), ...language };
    }
}

add('c h cpp c++ cc hpp cuda cu java cs csharp c# objc dart scala groovy glsl hlsl metal', {
    over: [BLOCK],
    rules: [SLASHES, ['m', /^\s*#\s*\w+/y], ['m', /@\w+/y], ...STRINGS],
    words: words(C_WORDS),
});
add('js javascript jsx mjs ts typescript tsx json5 php', {
    over: [BLOCK, { from: '`', to: '`', as: 's' }],
    rules: [SLASHES, ['m', /@\w+/y], ...STRINGS],
    words: words(JS_WORDS),
});
add('rust rs go golang kotlin kt swift zig', {
    over: [BLOCK, { from: '`', to: '`', as: 's' }],
    rules: [SLASHES, ['m', /#!?\[[^\]]*\]/y], ['m', /@\w+/y], ['s', STRING_2],
        ['s', /'(?:[^'\\]|\\.[^']{0,8})'/y], ['m', /'\w+/y]],
    words: words(RUST_WORDS),
});
add('py python python3 starlark', {
    over: [{ from: '"""', to: '"""', as: 's' }, { from: "'''", to: "'''", as: 's' }],
    rules: [HASH, ['m', /@[\w.]+/y], ['s', /[rbfu]{1,2}(?=["'])/iy], ...STRINGS],
    words: words(PY_WORDS),
});
add('sh bash zsh shell console shellsession dockerfile make makefile cmake fish powershell ps1', {
    rules: [['c', /(?<![^\s;(])#.*/y], ['m', /\$(?:\w+|\{[^}]*\}|[(@#?*!$-])/y], ['f', /--?[a-zA-Z][\w-]*/y],
        ['s', STRING_2], ['s', /'[^']*'?/y]],
    words: words(SH_WORDS),
});
add('ruby rb lua perl pl r julia jl elixir ex', {
    rules: [['c', /--.*/y], HASH, ['m', /[@$:]\w+/y], ...STRINGS],
    words: words(RUBY_WORDS),
});
add('sql postgres postgresql mysql sqlite', {
    over: [BLOCK],
    rules: [['c', /--.*/y], ['s', /'(?:[^']|'')*'?/y], ['s', STRING_2]],
    words: words(SQL_WORDS),
    any_case: true,
});
add('json jsonc jsonl', {
    over: [BLOCK],
    rules: [['f', /"(?:[^"\\]|\\.)*"(?=\s*:)/y], ['s', STRING_2], SLASHES],
    words: words('true false null'),
});
add('yaml yml toml ini conf properties', {
    rules: [HASH, ['m', /^\s*\[[^\]]*\]{1,2}/y], ['f', /^[\s-]*[\w."'/-]+(?=\s*[:=])/y], ...STRINGS],
    words: words('true false null yes no on off'),
});
add('html xml svg vue xhtml', {
    over: [{ from: '<!--', to: '-->', as: 'c' }],
    rules: [['k', /<[/!?]?[\w:-]+|[/?]?>/y], ['s', /(?<==)(?:"[^"]*"?|'[^']*'?)/y],
        ['f', /[\w:@.-]+(?==)/y], ['n', /&#?\w+;/y]],
});
add('css scss less', {
    over: [BLOCK],
    rules: [['m', /@[\w-]+/y], ['n', /#[\da-fA-F]{3,8}\b/y], ['f', /[\w-]+(?=\s*:[^:])/y],
        ['n', /-?\d[\d.]*(?:%|[a-z]+)?/y], ...STRINGS],
});
add('diff patch', { whole: [['m', /^(?:@@|diff |index |\+\+\+ |--- )/], ['add', /^\+/], ['del', /^-/]] });

export function find_language(name) {
    const key = name.toLowerCase();
    return Object.hasOwn(LANGUAGES, key) ? LANGUAGES[key] : null;
}

class Pieces {
    list = [];

    add(kind, text) {
        if (text === '') return;
        const last = this.list.at(-1);
        if (last && last[0] === kind) last[1] += text;
        else this.list.push([kind, text]);
    }
}

function word_kind(language, word, line, end) {
    if (language.words.has(language.any_case ? word.toLowerCase() : word)) return 'k';
    if (line[end] === '(') return 'f';
    return /^[A-Z]\w*[a-z]/.test(word) ? 't' : '';
}

/** One step from `at`: adds a piece and returns where it ends, or has entered what runs over lines. */
function step(language, line, at, pieces) {
    for (const over of language.over) {
        if (line.startsWith(over.from, at)) {
            pieces.add(over.as, over.from);
            return { at: at + over.from.length, over };
        }
    }
    const rules = [...language.rules, ['n', NUMBER]];
    for (const [kind, pattern] of rules) {
        pattern.lastIndex = at;
        const match = pattern.exec(line);
        if (match && match[0] !== '') {
            pieces.add(kind, match[0]);
            return { at: at + match[0].length };
        }
    }
    WORD.lastIndex = at;
    const word = WORD.exec(line);
    if (!word) {
        pieces.add('', line[at]);
        return { at: at + 1 };
    }
    const end = at + word[0].length;
    pieces.add(word_kind(language, word[0], line, end), word[0]);
    return { at: end };
}

/** {pieces: [[kind, text]...], state}: state is what runs over the end of the line, or null. */
export function colour_line(language, line, state) {
    if (!language || line.length > MAX_LINE) return { pieces: [['', line]], state };
    if (language.whole) {
        const rule = language.whole.find(([, pattern]) => pattern.test(line));
        return { pieces: [[rule ? rule[0] : '', line]], state: null };
    }
    const pieces = new Pieces();
    let over = state;
    let at = 0;
    while (at < line.length) {
        if (over) {
            const end = line.indexOf(over.to, at);
            const stop = end < 0 ? line.length : end + over.to.length;
            pieces.add(over.as, line.slice(at, stop));
            at = stop;
            if (end >= 0) over = null;
        } else {
            const next = step(language, line, at, pieces);
            at = next.at;
            over = next.over || null;
        }
    }
    return { pieces: pieces.list, state: over };
}
