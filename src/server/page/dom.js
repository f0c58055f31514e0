// dom.js - nodes, and nothing but nodes: no text of a model is ever parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';

// Strokes on a field of 20 by 20.
const ICONS = {
    menu: 'M3 6h14M3 10h14M3 14h14',
    plus: 'M10 4v12M4 10h12',
    close: 'M5 5l10 10M15 5L5 15',
    sliders: 'M3 6h7M14 6h3M12 4v4M3 14h3M10 14h7M8 12v4',
    up: 'M10 16V4M5 9l5-5 5 5',
    down: 'M10 4v12M5 11l5 5 5-5',
    stop: 'M6 6h8v8H6z',
    image: 'M3 4h14v12H3zM3 13l4-4 4 4 2-2 4 4M13 7.5v.1',
    copy: 'M7 7h9v9H7zM4 13V4h9',
    check: 'M4 10.5l4 4 8-9',
    retry: 'M16 10a6 6 0 1 1-2-4.5M16 3v4h-4',
    pencil: 'M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3',
    trash: 'M4 6h12M8 6V4h4v2M5.5 6l1 11h7l1-11',
    left: 'M12 5l-5 5 5 5',
    right: 'M8 5l5 5-5 5',
    sun: 'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M10 2v2M10 16v2M2 10h2M16 10h2M4.5 4.5L6 6' +
        'M14 14l1.5 1.5M4.5 15.5L6 14M14 6l1.5-1.5',
    moon: 'M16 12A7 7 0 0 1 8 4a6.5 6.5 0 1 0 8 8z',
    auto: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14v14M10 6h4M10 10h6M10 14h4',
};

/**
 * An element; props are DOM properties, or attributes where a name has a dash or is 'role'. Children are
 * nodes, texts and lists of these: a long list as arguments would overflow the stack.
 */
export function el(tag, props, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
        if (name.includes('-') || name === 'role') node.setAttribute(name, value);
        else node[name] = value;
    }
    for (const child of children.flat()) node.append(child);
    return node;
}

export function icon(name) {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', '0 0 20 20');
    svg.setAttribute('aria-hidden', 'true');
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('d', ICONS[name]);
    svg.append(path);
    return svg;
}

export function icon_button(name, label, on_click) {
    const button = el('button', { type: 'button', className: 'icon', 'aria-label': label }, icon(name));
    button.title = label;
    button.addEventListener('click', on_click);
    return button;
}

export function by_id(id) {
    return document.getElementById(id);
}

/** True when the text is on the clipboard. Plain http on another host has no navigator.clipboard. */
export async function copy_text(text) {
    if (navigator.clipboard) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch {
            // Refused, as without focus: the old way is left.
        }
    }
    const before = document.activeElement;
    const area = el('textarea', { value: text, className: 'hidden', readOnly: true });
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    before?.focus();
    return copied;
}

export function copy_button(label, get_text) {
    const button = icon_button('copy', label, async () => {
        const copied = await copy_text(get_text());
        button.replaceChildren(icon(copied ? 'check' : 'close'));
        button.setAttribute('aria-label', copied ? 'Copied' : 'Not copied');
        setTimeout(() => {
            button.replaceChildren(icon('copy'));
            button.setAttribute('aria-label', label);
        }, 1500);
    });
    return button;
}
