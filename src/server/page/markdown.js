// markdown.js - markdown as nodes, for a text that grows.
//
// The text is cut into blocks. A block is final once the next one has begun beyond doubt; it is then never
// looked at again. Of the rest, blocks whose source did not change keep their nodes, and code and tables
// grow by lines. So a frame costs what is new in it, and what was shown stands still.

import { el, copy_button } from './dom.js';
import { inline_nodes } from './inline.js';
import { colour_line, find_language } from './syntax.js';

const MAX_DEPTH = 10; // of lists and quotes in each other
const MAX_COLUMNS = 64;
const CHUNK_LINES = 64; // of code in one box, so that layout of a long block stays cheap
const MAX_COLOURED_LINES = 3000;

const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:\*[ \t]*\*[ \t]*\*[* \t]*|-[ \t]*-[ \t]*-[- \t]*|_[ \t]*_[ \t]*_[_ \t]*)$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:([ \t]+)(?=\S)|[ \t]*$)/;
const SEPARATOR = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const FORMULA = /^ {0,3}(\$\$|\\\[)/;
// What the last line of an unfinished text may begin with, before one knows what it will be.
const UNDECIDED = /^[ >]*(?:[-*+]|-{2}|\*{2}|#{1,6}|`{1,2}|~{1,2}|\d{1,3}[.)]|\|) ?$/;

const blank = (line) => line.trim() === '';
// Tabs are four columns where structure is read; within code they stay.
const untab = (line) => line.replace(/^[ \t]*\t[ \t]*/, (x) => x.replaceAll('\t', '    '));
const columns_of = (text) => {
    let n = 0;
    for (const c of text) n += c === '\t' ? 4 : 1;
    return n;
};
const indent_of = (line) => columns_of(line.slice(0, line.length - line.trimStart().length));

/** The line without its first n columns, of which all are blank. */
function unindent(line, n) {
    let at = 0;
    let columns = 0;
    while (columns < n && (line[at] === ' ' || line[at] === '\t')) columns += line[at++] === '\t' ? 4 : 1;
    return ' '.repeat(Math.max(0, columns - n)) + line.slice(at);
}

// ---- blocks: {kind, from, to, ...}, from and to are lines

function read_fence(lines, from, match) {
    const [, indent, fence, info] = match;
    let to = from + 1;
    const text = [];
    for (; to < lines.length; to++) {
        const line = lines[to];
        const end = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line);
        if (end && end[1][0] === fence[0] && end[1].length >= fence.length) break;
        text.push(unindent(line, indent.length));
    }
    const closed = to < lines.length;
    return { kind: 'code', from, to: closed ? to + 1 : to, info: info.trim(), text, closed };
}

function read_formula(lines, from, match) {
    const closer = match[1] === '$$' ? '$$' : '\\]';
    const first = lines[from].indexOf(match[1]) + 2;
    for (let i = from; i < Math.min(lines.length, from + 50); i++) {
        const at = lines[i].indexOf(closer, i === from ? first : 0);
        if (at < 0) continue;
        if (!blank(lines[i].slice(at + 2))) return null;
        const all = lines.slice(from, i + 1).join('\n').trim();
        return { kind: 'formula', from, to: i + 1, text: all.slice(2, -2).trim() };
    }
    return null;
}

function read_quote(lines, from) {
    let to = from;
    const inner = [];
    while (to < lines.length && QUOTE.test(lines[to])) inner.push(lines[to++].replace(QUOTE, ''));
    return { kind: 'quote', from, to, lines: inner };
}

/** Cells of a row; a bar in code or behind a backslash does not divide. */
function split_row(line) {
    const cells = [];
    let cell = '';
    let in_code = false;
    const text = line.trim().replace(/^\|/, '');
    for (let i = 0; i < text.length; i++) {
        const c = text[i];
        if (c === '\\' && text[i + 1] === '|') {
            cell += '|';
            i++;
        } else if (c === '|' && !in_code) {
            cells.push(cell.trim());
            cell = '';
        } else {
            if (c === '`') in_code = !in_code && text.indexOf('`', i + 1) > 0;
            cell += c;
        }
    }
    if (cell.trim() !== '') cells.push(cell.trim());
    return cells.slice(0, MAX_COLUMNS);
}

function read_table(lines, from, open) {
    const head = lines[from];
    if (!head.includes('|') || head.trim().length < 2) return null;
    const rule = lines[from + 1];
    const last = lines.length - 1;
    // A table whose rule is being written is taken for one, or it would be a paragraph first.
    const guess = open && head.trim().startsWith('|') && (rule === undefined ||
        (from + 1 === last && /^[ \t|:-]*$/.test(rule)));
    if (!guess && (rule === undefined || !rule.includes('-') || !SEPARATOR.test(rule))) return null;
    const columns = split_row(head);
    const marks = split_row(rule || '');
    if (!guess && marks.length !== columns.length) return null;
    const aligns = columns.map((_, i) => {
        const mark = guess ? '' : marks[i];
        if (mark.endsWith(':')) return mark.startsWith(':') ? 'center' : 'right';
        return '';
    });
    let to = from + 2;
    while (to < lines.length && lines[to].includes('|') && !FENCE.test(lines[to])) to++;
    to = Math.min(to, lines.length);
    return { kind: 'table', from, to, columns, aligns, rows: lines.slice(from + 2, to), guess };
}

function interrupts(raw) {
    const line = untab(raw);
    const item = ITEM.exec(line);
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
        (item !== null && item[3] !== undefined);
}

/** Lines of one item, without their indent; to is where it ends. */
function read_item(lines, from, match) {
    const base = match[1].length;
    const spaces = match[3] === undefined || match[3].length > 4 ? 1 : match[3].length;
    const width = base + match[2].length + spaces;
    const inner = [untab(lines[from]).slice(width)];
    let to = from + 1;
    let gap = false; // a blank line before this one
    for (; to < lines.length; to++) {
        const line = lines[to];
        if (blank(line)) {
            gap = true;
            inner.push('');
            continue;
        }
        const indent = indent_of(line);
        // Models often indent by two where three are wanted: that is taken as meant.
        if (indent < Math.min(width, base + 2) && (gap || interrupts(line))) break;
        inner.push(unindent(line, width));
        gap = false;
    }
    while (inner.length > 1 && inner.at(-1) === '') {
        inner.pop();
        to--;
    }
    return { lines: inner, to, loose: inner.includes('') };
}

function read_list(lines, from, match) {
    const mark = match[2].at(-1);
    const items = [];
    let to = from;
    let next = match;
    let loose = false;
    while (next && next[2].at(-1) === mark && !(RULE.test(lines[to]) && items.length > 0)) {
        const item = read_item(lines, to, next);
        items.push(item.lines);
        to = item.to;
        let following = to;
        while (following < lines.length && blank(lines[following])) following++;
        next = following < lines.length ? ITEM.exec(untab(lines[following])) : null;
        if (next && next[1].length >= match[1].length + 4) next = null;
        loose ||= following > to && next !== null && next[2].at(-1) === mark;
        if (next && next[2].at(-1) === mark) to = following;
    }
    const ordered = /\d/.test(match[2]);
    return { kind: 'list', from, to, items, loose, start: ordered ? parseInt(match[2], 10) : null };
}

function read_paragraph(lines, from, open) {
    let to = from + 1;
    while (to < lines.length && !blank(lines[to]) && !interrupts(lines[to]) &&
        !FORMULA.test(lines[to]) && !(lines[to].includes('|') && read_table(lines, to, open))) {
        to++;
    }
    const text = lines.slice(from, to).map((line) => line.trimStart()).join('\n').trimEnd();
    return { kind: 'paragraph', from, to, text };
}

function read_block(lines, at, depth, open) {
    const line = untab(lines[at]);
    const fence = FENCE.exec(line);
    if (fence) return read_fence(lines, at, fence);
    const heading = HEADING.exec(line);
    if (heading) {
        const text = (heading[2] || '').trim();
        const end = /[ \t]#+$/.exec(text.slice(-20));
        return { kind: 'heading', from: at, to: at + 1, level: heading[1].length,
            text: end ? text.slice(0, -end[0].length) : text };
    }
    if (RULE.test(line)) return { kind: 'rule', from: at, to: at + 1 };
    const formula = FORMULA.exec(line);
    const block = (formula && read_formula(lines, at, formula)) || read_table(lines, at, open);
    if (block) return block;
    const item = depth < MAX_DEPTH ? ITEM.exec(line) : null;
    if (item) return read_list(lines, at, item);
    if (depth < MAX_DEPTH && QUOTE.test(line)) return read_quote(lines, at);
    return read_paragraph(lines, at, open);
}

export function read_blocks(lines, depth, open) {
    const blocks = [];
    let at = 0;
    while (at < lines.length) {
        if (blank(lines[at])) {
            at++;
            continue;
        }
        const block = read_block(lines, at, depth, open);
        blocks.push(block);
        at = block.to;
    }
    return blocks;
}

// ---- nodes

class CodeView {
    constructor(block) {
        this.info = block.info;
        const name = /^[\w+#.-]{1,30}/.exec(block.info)?.[0] || '';
        this.language = find_language(name);
        this.state = null;
        this.n_lines = 0;
        this.text = [];
        this.code = el('code');
        this.tail = el('span');
        this.code.append(this.tail);
        this.node = el('div', { className: 'code' },
            el('div', { className: 'code-head' }, el('span', null, name || 'text'),
                copy_button('Copy the code', () => this.text.join('\n'))),
            el('pre', { tabIndex: 0, role: 'group', 'aria-label': `Code: ${name || 'text'}` },
                this.code));
        this.grow(block);
    }

    grow(block) {
        if (block.info !== this.info || block.text.length < this.n_lines) return false;
        this.text = block.text;
        const n_final = block.closed ? block.text.length : Math.max(0, block.text.length - 1);
        for (; this.n_lines < n_final; this.n_lines++) this.add_line(block.text[this.n_lines]);
        const rest = block.closed ? '' : block.text[this.n_lines] || '';
        // A closing fence is not shown while it is written.
        this.tail.replaceChildren(...(/^ {0,3}(?:`+|~+)$/.test(rest) ? [] : this.coloured(rest)));
        return true;
    }

    coloured(line) {
        const language = this.n_lines < MAX_COLOURED_LINES ? this.language : null;
        const { pieces, state } = colour_line(language, line, this.state);
        this.next_state = state;
        return pieces.map(([kind, text]) =>
            (kind ? el('span', { className: `s-${kind}` }, text) : text));
    }

    add_line(line) {
        if (this.n_lines % CHUNK_LINES === 0) {
            this.chunk = el('span', { className: 'chunk' });
            this.tail.before(this.chunk);
        }
        this.chunk.append(...this.coloured(line), '\n');
        this.state = this.next_state;
    }
}

class TableView {
    constructor(block) {
        this.key = JSON.stringify([block.columns, block.aligns]);
        this.aligns = block.aligns;
        this.n_rows = 0;
        this.body = el('tbody');
        this.tail = null;
        this.node = el('div', { className: 'table', tabIndex: 0, role: 'group', 'aria-label': 'Table' },
            el('table', null, el('thead', null, this.row('th', block.columns)), this.body));
        this.grow(block, true);
    }

    row(tag, cells) {
        return el('tr', null, this.aligns.map((align, i) =>
            el(tag, align ? { className: align } : null, inline_nodes(cells[i] || '', false))));
    }

    grow(block, open) {
        if (JSON.stringify([block.columns, block.aligns]) !== this.key) return false;
        if (block.rows.length < this.n_rows) return false;
        this.tail?.remove();
        this.tail = null;
        const n_final = Math.max(this.n_rows, open ? block.rows.length - 1 : block.rows.length);
        for (; this.n_rows < n_final; this.n_rows++) {
            this.body.append(this.row('td', split_row(block.rows[this.n_rows])));
        }
        if (this.n_rows < block.rows.length) {
            this.tail = this.row('td', split_row(block.rows[this.n_rows]));
            this.body.append(this.tail);
        }
        return true;
    }
}

function item_node(lines, depth, open) {
    const task = /^\[([ xX])\] /.exec(lines[0]);
    const rest = task ? [lines[0].slice(4), ...lines.slice(1)] : lines;
    const node = el('li', null, nodes_of(rest, depth, open));
    if (task) {
        node.className = 'task';
        node.prepend(el('input', { type: 'checkbox', disabled: true, checked: task[1] !== ' ',
            'aria-label': task[1] === ' ' ? 'not done' : 'done' }));
    }
    return node;
}

function list_node(block, depth, open) {
    const last = block.items.length - 1;
    const node = el(block.start === null ? 'ul' : 'ol', block.loose ? { className: 'loose' } : null,
        block.items.map((lines, i) => item_node(lines, depth + 1, open && i === last)));
    if (block.start !== null) node.start = block.start;
    return node;
}

/** {node, grow}: grow(block, open) takes a longer form of the same block, or returns false. */
function make_view(block, depth, open) {
    const still = (node) => ({ node, grow: () => false });
    switch (block.kind) {
    case 'code': return new CodeView(block);
    case 'table': return new TableView(block);
    case 'rule': return still(el('hr'));
    case 'formula': return still(el('pre', { className: 'math' }, block.text));
    case 'quote': return still(el('blockquote', null, nodes_of(block.lines, depth + 1, open)));
    case 'list': return still(list_node(block, depth, open));
    case 'heading':
        // The page has h1 and h2 of its own.
        return still(el(`h${Math.min(6, block.level + 2)}`, { className: `h${block.level}` },
            inline_nodes(block.text, open)));
    default: return still(el('p', null, inline_nodes(block.text, open)));
    }
}

function nodes_of(lines, depth, open) {
    const blocks = read_blocks(lines, depth, open);
    return blocks.map((block, i) => make_view(block, depth, open && i === blocks.length - 1).node);
}

export class MarkdownView {
    #shown = ''; // the text up to where nothing changes any more is the start of it
    #n_final = 0; // chars
    #entries = []; // of blocks behind that: {kind, source, open, view}
    #closed = false;
    #on_final;

    /** on_final, when given, is called with the text of each block that will not change any more. */
    constructor(node, on_final) {
        this.node = node;
        this.#on_final = on_final;
    }

    /** open: more is to come. The text begins with the one before, or all is made anew. */
    update(text, open) {
        if (this.#closed || !text.startsWith(this.#shown.slice(0, this.#n_final))) this.#reset();
        this.#shown = text;
        this.#closed = !open;
        const lines = text.slice(this.#n_final).split('\n');
        for (let i = 0; i < lines.length; i++) {
            if (lines[i].endsWith('\r')) lines[i] = lines[i].slice(0, -1);
        }
        let blocks = read_blocks(lines, 0, open);
        const last = blocks.at(-1);
        if (open && UNDECIDED.test(lines.at(-1)) && !(last?.kind === 'code' && !last.closed)) {
            lines[lines.length - 1] = '';
            blocks = read_blocks(lines, 0, open);
        }
        this.#show(blocks, lines, open);
        this.#finish(blocks, lines, open);
    }

    #reset() {
        this.node.replaceChildren();
        this.#n_final = 0;
        this.#entries = [];
    }

    #show(blocks, lines, open) {
        blocks.forEach((block, i) => {
            const grows = block.kind === 'code' || block.kind === 'table';
            const source = grows ? '' : lines.slice(block.from, block.to).join('\n');
            const is_open = open && i === blocks.length - 1;
            const entry = this.#entries[i];
            if (entry && entry.kind === block.kind) {
                if (!grows && entry.source === source && entry.open === is_open) return;
                if (grows && entry.view.grow(block, is_open)) return;
            }
            const view = make_view(block, 0, is_open);
            if (entry) entry.view.node.replaceWith(view.node);
            else this.node.append(view.node);
            this.#entries[i] = { kind: block.kind, source, open: is_open, view };
        });
        for (const entry of this.#entries.splice(blocks.length)) entry.view.node.remove();
    }

    /** The last line may be half a line; a block before one that begins in a whole line is final. */
    #finish(blocks, lines, open) {
        let n = blocks.length;
        if (open) {
            n = blocks.length - 1;
            while (n > 0 && (blocks[n].from >= lines.length - 1 || blocks[n].guess)) n--;
        }
        if (n <= 0) return;
        for (const entry of this.#entries.splice(0, n)) this.#on_final?.(entry.view.node.textContent);
        if (!open) return;
        // Lines were changed only at their ends, so they are counted in the text itself.
        let at = this.#n_final;
        for (let i = 0; i < blocks[n].from; i++) at = this.#shown.indexOf('\n', at) + 1;
        this.#n_final = at;
    }
}
