// composer.js - the field where a message is written, with its pictures.

import { el, by_id, icon_button } from './dom.js';
import { image_node, read_image } from './images.js';
import * as store from './store.js';

const MAX_IMAGES = 16;

const input = by_id('input');
const attached = by_id('attached');
let images = [];
let takes_images = false;
let report = () => {};

/** On a phone Enter is the only way to a new line. */
export function enter_is_line() {
    return matchMedia('(hover: none) and (pointer: coarse)').matches;
}

function fit() {
    input.style.height = 'auto';
    input.style.height = `${input.scrollHeight}px`;
}

function show_images() {
    attached.hidden = images.length === 0;
    attached.replaceChildren(...images.map((url, i) =>
        el('span', { className: 'thumb' }, image_node(url, `Image ${i + 1}`),
            icon_button('close', `Remove image ${i + 1}`, () => {
                images.splice(i, 1);
                show_images();
                input.focus();
            }))));
}

async function take_files(files) {
    const pictures = [...files].filter((file) => file.type.startsWith('image/'));
    if (pictures.length === 0) return;
    if (!takes_images) {
        report('This model does not see images.');
        return;
    }
    for (const file of pictures) {
        if (images.length >= MAX_IMAGES) {
            report(`A message takes ${MAX_IMAGES} images at most.`);
            break;
        }
        try {
            images.push(await read_image(file));
        } catch (error) {
            report(error.message);
        }
    }
    show_images();
    input.focus();
}

export function set_takes_images(value) {
    takes_images = value;
    by_id('attach').hidden = !value;
}

/** What was written, as {text, images}, or null when there is nothing. */
export function take() {
    const text = input.value.trim();
    if (text === '' && images.length === 0) return null;
    const message = { text, images };
    images = [];
    input.value = '';
    store.write_value('draft', '');
    show_images();
    fit();
    return message;
}

export function is_empty() {
    return input.value === '' && images.length === 0;
}

export function focus() {
    if (!enter_is_line()) input.focus();
}

export function begin(send, on_report) {
    report = on_report;
    by_id('composer').addEventListener('submit', (event) => {
        event.preventDefault();
        send();
    });
    input.addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing || enter_is_line()) return;
        event.preventDefault();
        send();
    });
    let timer = 0;
    input.addEventListener('input', () => {
        fit();
        clearTimeout(timer);
        timer = setTimeout(() => store.write_value('draft', input.value), 300);
    });
    input.addEventListener('paste', (event) => {
        if (event.clipboardData.files.length === 0 || event.clipboardData.types.includes('text/plain')) return;
        event.preventDefault();
        take_files(event.clipboardData.files);
    });
    const main = by_id('main');
    main.addEventListener('dragover', (event) => {
        if (event.dataTransfer.types.includes('Files')) event.preventDefault();
    });
    main.addEventListener('drop', (event) => {
        if (event.dataTransfer.files.length === 0) return;
        event.preventDefault();
        take_files(event.dataTransfer.files);
    });
    by_id('attach').addEventListener('click', () => by_id('files').click());
    by_id('files').addEventListener('change', (event) => {
        take_files([...event.target.files]);
        event.target.value = '';
    });
    if (enter_is_line()) input.enterKeyHint = 'enter';
    input.value = store.read_value('draft') || '';
    fit();
}
