// message.js - how one message is shown.

import { el, icon, icon_button, copy_button } from './dom.js';
import { image_node } from './images.js';
import { MarkdownView } from './markdown.js';

const count = (n) => Number(n).toLocaleString('en-US');
const plural = (n, what) => `${count(n)} ${what}${n === 1 ? '' : 's'}`;

export function seconds(ms) {
    const s = ms / 1000;
    if (s >= 100) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
    return s >= 10 ? `${s.toFixed(0)} s` : `${s.toFixed(s >= 1 ? 1 : 2)} s`;
}

const whole_seconds = (ms) => `${Math.floor(ms / 1000)} s`;

/** "42 tokens, 55 tok/s, first token 0.02 s, 1,310 of 1,320 prompt tokens cached" */
export function stats_text(node) {
    const parts = [];
    const { usage, timings } = node;
    const n = usage?.completion_tokens ?? timings?.predicted_n;
    if (n !== undefined) parts.push(plural(n, 'token'));
    let rate = timings?.predicted_per_second;
    if (rate === undefined && n > 1 && node.total_ms > node.first_ms) {
        rate = (n - 1) / ((node.total_ms - node.first_ms) / 1000);
    }
    if (rate > 0) parts.push(`${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} tok/s`);
    if (node.first_ms !== undefined) parts.push(`first token ${seconds(node.first_ms)}`);
    if (usage?.prompt_tokens !== undefined) {
        const cached = usage.prompt_tokens_details?.cached_tokens;
        parts.push(cached === undefined ? plural(usage.prompt_tokens, 'prompt token') :
            `${count(cached)} of ${plural(usage.prompt_tokens, 'prompt token')} cached`);
    }
    return parts.join(', ');
}

function end_text(node) {
    if (node.interrupted) return 'Cut: the page was closed.';
    if (node.stopped) return 'Stopped.';
    if (node.finish === 'length') return 'Cut: the limit of tokens was reached.';
    if (node.finish === 'content_filter') return 'Cut by a filter.';
    return '';
}

function pretty(json) {
    try {
        return JSON.stringify(JSON.parse(json), null, 2);
    } catch {
        return json;
    }
}

function branch_nav(node, siblings, on_choose) {
    if (siblings.length < 2) return [];
    const at = siblings.findIndex((x) => x.id === node.id);
    const step = (name, label, to) => {
        const button = icon_button(name, label, () => on_choose(siblings[to]));
        button.disabled = to < 0 || to >= siblings.length;
        return button;
    };
    return [el('span', { className: 'branch' }, step('left', 'Version before', at - 1),
        el('span', null, `${at + 1}/${siblings.length}`), step('right', 'Version after', at + 1))];
}

// ---- what a person wrote

export class UserView {
    constructor(node, siblings, actions) {
        this.message = node;
        this.actions = actions;
        this.siblings = siblings;
        this.node = el('article', { className: 'user', 'aria-label': 'You' });
        this.show();
    }

    show() {
        const { message, actions } = this;
        const images = (message.images || []).map((url, i) => image_node(url, `Image ${i + 1}`));
        const parts = [];
        if (images.length > 0) parts.push(el('div', { className: 'attached' }, ...images));
        if (message.n_lost) {
            parts.push(el('p', { className: 'muted' }, `${plural(message.n_lost, 'image')} not kept`));
        }
        if (message.text !== '') parts.push(el('div', { className: 'bubble' }, message.text));
        parts.push(el('div', { className: 'actions' },
            ...branch_nav(message, this.siblings, actions.choose),
            copy_button('Copy the message', () => message.text),
            icon_button('pencil', 'Edit the message', () => this.edit())));
        this.node.replaceChildren(...parts);
    }

    edit() {
        const area = el('textarea', { rows: 1, value: this.message.text, 'aria-label': 'Edit the message' });
        const fit = () => {
            area.style.height = 'auto';
            area.style.height = `${area.scrollHeight + 2}px`;
        };
        const cancel = () => {
            this.show();
            this.actions.focus();
        };
        const send = () => {
            if (area.value.trim() === '' && !this.message.images?.length) return;
            this.actions.edit(this.message, area.value.trim());
        };
        area.addEventListener('input', fit);
        area.addEventListener('keydown', (event) => {
            if (event.isComposing) return;
            if (event.key === 'Escape') {
                event.stopPropagation();
                cancel();
            } else if (event.key === 'Enter' && !event.shiftKey && !this.actions.enter_is_line()) {
                event.preventDefault();
                send();
            }
        });
        const images = this.node.querySelector('.attached');
        this.node.replaceChildren(...(images ? [images] : []), el('div', { className: 'edit' }, area,
            el('div', { className: 'row' },
                el('button', { type: 'button', onclick: cancel }, 'Cancel'),
                el('button', { type: 'button', className: 'solid', onclick: send }, 'Send'))));
        fit();
        area.focus();
        area.setSelectionRange(area.value.length, area.value.length);
    }
}

// ---- what the model wrote

export class AnswerView {
    constructor(node, siblings, actions) {
        this.message = node;
        this.siblings = siblings;
        this.actions = actions;
        this.body = el('div', { className: 'text' });
        this.markdown = new MarkdownView(this.body, (text) => actions.announce(node, text));
        this.think = el('details', { className: 'think', hidden: true });
        this.think_title = el('summary', null, 'Thinking');
        this.think_body = el('div', { className: 'text' });
        this.think_markdown = new MarkdownView(this.think_body);
        this.think.append(this.think_title, this.think_body);
        this.think.addEventListener('toggle', () => this.update(this.running));
        this.tools = el('div', { className: 'tools' });
        this.wait = el('p', { className: 'wait muted', hidden: true });
        this.error = el('div', { className: 'error', role: 'alert', hidden: true });
        this.foot = el('div', { className: 'actions' });
        this.node = el('article', { className: 'answer', 'aria-label': node.model || 'Answer' },
            this.think, this.body, this.tools, this.wait, this.error, this.foot);
        this.shown = {};
    }

    update(running) {
        const { message } = this;
        this.running = running;
        this.node.setAttribute('aria-busy', String(running));
        this.update_thinking();
        if (this.shown.text !== message.text || this.shown.running !== running) {
            this.markdown.update(message.text, running);
        }
        this.update_tools();
        const waits = running && message.text === '' && !message.reasoning && !message.tools;
        this.wait.hidden = !waits;
        if (waits) {
            const ms = performance.now() - (message.began ?? performance.now());
            this.wait.textContent = ms < 2000 ? 'Reading' : `Reading, ${whole_seconds(ms)}`;
        }
        if (this.shown.running !== running) this.update_foot();
        this.shown = { text: message.text, running };
    }

    update_thinking() {
        const { message } = this;
        this.think.hidden = !message.reasoning;
        if (!message.reasoning) return;
        const going = this.running && message.reasoning_ms === undefined;
        const ms = going ? performance.now() - message.began : message.reasoning_ms;
        this.think.classList.toggle('going', going);
        let title = ms === undefined ? 'Thought' : `Thought for ${seconds(ms)}`;
        if (going) title = ms < 1000 ? 'Thinking' : `Thinking, ${whole_seconds(ms)}`;
        if (this.think_title.textContent !== title) this.think_title.textContent = title;
        const key = `${message.reasoning.length} ${going}`;
        if (this.think.open && this.shown_thinking !== key) {
            this.shown_thinking = key;
            this.think_markdown.update(message.reasoning, going);
        }
    }

    update_tools() {
        const key = JSON.stringify(this.message.tools || null);
        if (key === this.shown_tools) return;
        this.shown_tools = key;
        this.tools.replaceChildren(...(this.message.tools || []).map((tool) =>
            el('details', { className: 'tool', open: true },
                el('summary', null, 'Calls ', el('code', null, tool.name)),
                el('pre', { tabIndex: 0 }, pretty(tool.arguments)))));
    }

    update_foot() {
        const { message, actions } = this;
        this.foot.replaceChildren();
        this.error.hidden = this.running || !message.error;
        if (!this.error.hidden) {
            const parts = [el('p', null, message.error)];
            if (message.error_status === 401 || message.error_status === 403) {
                parts.push(el('button', { type: 'button', onclick: actions.settings }, 'Set the API key'));
            }
            parts.push(el('button', { type: 'button', onclick: () => actions.retry(message) },
                icon('retry'), 'Try again'));
            this.error.replaceChildren(...parts);
        }
        if (this.running) return;
        const end = end_text(message);
        const stats = stats_text(message);
        this.foot.append(...branch_nav(message, this.siblings, actions.choose));
        if (message.error && message.text === '') return;
        this.foot.append(copy_button('Copy the answer', () => message.text),
            icon_button('retry', 'Another answer', () => actions.retry(message)),
            el('span', { className: 'stats' }, [end, stats].filter(Boolean).join(' ')));
    }
}
