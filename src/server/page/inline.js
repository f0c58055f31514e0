// inline.js - what stands within a line of markdown: emphasis, code, links.
//
// One pass from left to right with a stack of what is made and of marks that may open something; each
// search is bounded, so that time stays linear whatever a text consists of. `open` says that the text is
// still being written: what is begun at its end is then shown as if it were closed.

import { el } from './dom.js';

const MAX_DEPTH = 24; // of elements in each other
const MAX_LOOK_BACK = 32; // openers that a closer looks at
const MAX_ADDRESS = 4000;
const SPECIAL = /[\\`*_~[\]<&\n]|!\[|https?:\/\//g;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', '#39': "'" };
const TAGS = { '*': ['em', 'strong'], _: ['em', 'strong'], '~': ['del', 'del'] };

/** The address when it is one that a page may lead to, else null. */
export function safe_address(text) {
    if (text.length > MAX_ADDRESS || !/^https?:\/\//i.test(text)) return null;
    try {
        const url = new URL(text);
        return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
    } catch {
        return null;
    }
}

function link(address, children) {
    return el('a', { href: address, rel: 'noopener noreferrer nofollow', target: '_blank' }, children);
}

class Inline {
    constructor(text, open) {
        this.text = text;
        this.open = open;
        this.items = []; // {node, depth} or {mark, n, ...}
        this.openers = []; // indexes into items
        this.brackets = []; // likewise
        this.at = 0;
        this.ticks = null; // length of a run of backticks -> where such runs stand
        this.no_math = {};
    }

    run() {
        const { text } = this;
        while (this.at < text.length) {
            SPECIAL.lastIndex = this.at;
            const match = SPECIAL.exec(text);
            if (!match) break;
            this.literal(text.slice(this.at, match.index));
            this.at = match.index;
            this.special(match[0]);
        }
        this.literal(text.slice(this.at));
        if (this.open) this.close_all();
        return this.nodes_from(0).nodes;
    }

    special(found) {
        switch (found) {
        case '\\': return this.backslash();
        case '`': return this.code();
        case '*':
        case '_':
        case '~': return this.emphasis(found);
        case '[':
        case '![': return this.bracket(found);
        case ']': return this.bracket_end();
        case '<': return this.angle();
        case '&': return this.entity();
        case '\n': return this.line_end();
        default: return this.bare_address();
        }
    }

    literal(text) {
        if (text === '') return;
        const last = this.items.at(-1);
        if (last && typeof last.node === 'string') last.node += text;
        else this.items.push({ node: text, depth: 0 });
    }

    push(node, depth) {
        this.items.push({ node, depth });
    }

    skip(n, as_text) {
        this.literal(as_text ?? this.text.slice(this.at, this.at + n));
        this.at += n;
    }

    /** Takes the items from an index on; marks that are left over are text. */
    nodes_from(index) {
        const nodes = [];
        let depth = 0;
        for (const item of this.items.splice(index)) {
            const node = item.mark ? item.mark.repeat(item.n) : item.node;
            if (typeof node === 'string' && typeof nodes.at(-1) === 'string') nodes[nodes.length - 1] += node;
            else nodes.push(node);
            depth = Math.max(depth, item.depth || 0);
        }
        while (this.openers.length > 0 && this.openers.at(-1) >= index) this.openers.pop();
        while (this.brackets.length > 0 && this.brackets.at(-1) >= index) this.brackets.pop();
        return { nodes, depth };
    }

    line_end() {
        const last = this.items.at(-1);
        if (last && typeof last.node === 'string') last.node = last.node.replace(/[ \\]$/, '').trimEnd();
        this.push(el('br'), 1);
        this.at++;
        while (this.text[this.at] === ' ') this.at++;
    }

    backslash() {
        const next = this.text[this.at + 1];
        if ((next === '(' || next === '[') && this.math(next === '(' ? '\\)' : '\\]')) return;
        if (next !== undefined && /[!-/:-@[-`{-~]/.test(next)) {
            this.literal(next);
            this.at += 2;
        } else {
            this.skip(1);
        }
    }

    /** Formulas stay as they are written: they are not set, but not mangled either. */
    math(closer) {
        if (this.no_math[closer]) return false;
        const end = this.text.indexOf(closer, this.at + 2);
        if (end < 0) {
            this.no_math[closer] = true;
            return false;
        }
        const text = this.text.slice(this.at + 2, end).trim();
        this.push(el('code', { className: 'math' }, text), 1);
        this.at = end + 2;
        return true;
    }

    find_ticks(n, from) {
        if (!this.ticks) {
            this.ticks = new Map();
            for (const run of this.text.matchAll(/`+/g)) {
                const row = this.ticks.get(run[0].length) || { places: [], next: 0 };
                row.places.push(run.index);
                this.ticks.set(run[0].length, row);
            }
        }
        const row = this.ticks.get(n);
        while (row && row.next < row.places.length && row.places[row.next] < from) row.next++;
        return row && row.next < row.places.length ? row.places[row.next] : -1;
    }

    code() {
        const { text } = this;
        let n = 1;
        while (text[this.at + n] === '`') n++;
        let end = this.find_ticks(n, this.at + n);
        if (end < 0) {
            if (!this.open) return this.skip(n);
            end = text.length;
            if (this.at + n === end) {
                this.at = end; // what follows will tell
                return undefined;
            }
        }
        let code = text.slice(this.at + n, end).replaceAll('\n', ' ');
        if (code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '') code = code.slice(1, -1);
        this.push(el('code', null, code), 1);
        this.at = Math.min(end + n, text.length);
        return undefined;
    }

    emphasis(mark) {
        const { text } = this;
        let n = 1;
        while (text[this.at + n] === mark) n++;
        const before = text[this.at - 1] ?? ' ';
        const after = text[this.at + n] ?? ' ';
        const ends = this.at + n === text.length;
        let can_open = !/\s/.test(after);
        let can_close = !/\s/.test(before);
        const word_before = /[\p{L}\p{N}]/u.test(before);
        if (mark === '_') {
            can_close &&= !/[\p{L}\p{N}]/u.test(after);
            can_open &&= !word_before;
        }
        const run = { mark, n, n_all: n, both: can_open && can_close, inside: word_before };
        this.at += n;
        if (this.open && ends && n < 3) {
            // One more character may still come, so a shorter run than the opener's closes nothing.
            const opener = this.openers.findLast((index) => this.items[index].mark === mark);
            if (opener === undefined || this.items[opener].n > n) return;
        }
        if (mark === '~' && n > 2) can_open = can_close = false;
        if (can_close) this.close(run);
        if (run.n === 0) return;
        if (can_open) {
            this.openers.push(this.items.length);
            this.items.push(run);
        } else {
            this.literal(mark.repeat(run.n));
        }
    }

    close(run) {
        let looked_at = 0;
        for (let i = this.openers.length - 1; i >= 0 && run.n > 0 && looked_at < MAX_LOOK_BACK; i--) {
            looked_at++;
            const index = this.openers[i];
            const opener = this.items[index];
            if (opener.mark !== run.mark) continue;
            if (run.mark === '~' && opener.n !== run.n) continue;
            if ((opener.both || run.both) && (opener.n_all + run.n_all) % 3 === 0 &&
                (opener.n_all % 3 !== 0 || run.n_all % 3 !== 0)) {
                continue;
            }
            if (this.wrap(index, Math.min(2, opener.n, run.n), run)) i = this.openers.length;
        }
    }

    /** Items above an opener become an element; false when that would be too deep. */
    wrap(index, take, run) {
        const opener = this.items[index];
        for (let i = index + 1; i < this.items.length; i++) {
            if (this.items[i].depth >= MAX_DEPTH) return false;
        }
        const { nodes, depth } = this.nodes_from(index + 1);
        opener.n -= take;
        if (run) run.n -= take;
        if (opener.n === 0) {
            this.items.pop();
            this.openers.pop();
        }
        if (nodes.length > 0) this.push(el(TAGS[opener.mark][take - 1], null, nodes), depth + 1);
        return true;
    }

    bracket(found) {
        this.brackets.push(this.items.length);
        this.items.push({ mark: found, n: 1 });
        this.at += found.length;
    }

    bracket_end() {
        const index = this.brackets.pop();
        if (index === undefined || this.text[this.at + 1] !== '(') return this.skip(1);
        const limit = Math.min(this.text.length, this.at + 2 + MAX_ADDRESS);
        let end = this.at + 2;
        let depth = 1;
        for (; end < limit; end++) {
            const c = this.text[end];
            if (c === '\n') break;
            if (c === '(') depth++;
            if (c === ')' && --depth === 0) break;
        }
        const cut = this.open && end === this.text.length;
        if (this.text[end] !== ')' && !cut) return this.skip(1);
        const target = this.text.slice(this.at + 2, end).trim();
        const address = cut ? null : safe_address(target.split(/\s/)[0].replace(/^<(.*)>$/, '$1'));
        const is_image = this.items[index].mark === '![';
        if (address === null && !cut) return this.skip(1);
        const { nodes, depth: inner } = this.nodes_from(index + 1);
        this.items.pop();
        const children = nodes.length > 0 ? nodes : [address ?? ''];
        // A picture from elsewhere would tell its host who reads this: it is shown as a link.
        if (is_image) children.unshift('Image: ');
        if (cut || inner >= MAX_DEPTH || nodes.some((x) => x.nodeName === 'A')) {
            for (const node of children) this.push(node, inner);
        } else {
            this.push(link(address, children), inner + 1);
            this.brackets = [];
        }
        this.at = cut ? end : end + 1;
        return undefined;
    }

    angle() {
        const rest = this.text.slice(this.at, this.at + MAX_ADDRESS);
        const line_end = /^<br\s{0,8}\/?>/i.exec(rest);
        const address = line_end ? null : /^<(https?:\/\/[^\s<>]*)>/i.exec(rest);
        const safe = address && safe_address(address[1]);
        if (line_end) {
            this.push(el('br'), 1);
            this.at += line_end[0].length;
        } else if (safe) {
            this.push(link(safe, [address[1]]), 1);
            this.at += address[0].length;
        } else {
            this.skip(1);
        }
    }

    entity() {
        const match = /^&(#?\w{1,6});/.exec(this.text.slice(this.at, this.at + 9));
        if (match && Object.hasOwn(ENTITIES, match[1])) this.skip(match[0].length, ENTITIES[match[1]]);
        else this.skip(1);
    }

    bare_address() {
        const match = /^https?:\/\/[^\s<>"`|]+/i.exec(this.text.slice(this.at, this.at + MAX_ADDRESS));
        if (!match || /[\p{L}\p{N}]/u.test(this.text[this.at - 1] ?? ' ')) {
            return this.skip(match ? 4 : this.text.indexOf('//', this.at) + 2 - this.at);
        }
        let found = match[0].replace(/[.,;:!?'*_~]{1,20}$/, '');
        const bracket = this.brackets.length > 0 ? found.indexOf(']') : -1;
        if (bracket >= 0) found = found.slice(0, bracket);
        const count = (c) => found.split(c).length;
        while (found.endsWith(')') && count(')') > count('(')) found = found.slice(0, -1);
        const address = safe_address(found);
        if (address === null) return this.skip(found.length || 4);
        this.push(link(address, [found]), 1);
        this.at += found.length;
        return undefined;
    }

    /** At the end of a text that goes on: what was opened holds for the rest. */
    close_all() {
        for (let i = 0; i < MAX_LOOK_BACK && this.openers.length > 0; i++) {
            const index = this.openers.at(-1);
            const opener = this.items[index];
            if (opener.mark === '~' && opener.n < 2) return;
            if (opener.inside || !this.wrap(index, Math.min(2, opener.n), null)) return;
        }
    }
}

export function inline_nodes(text, open) {
    return new Inline(text, open).run();
}
