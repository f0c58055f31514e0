// images.js - pictures as data URLs, in a form that every server reads: PNG or JPEG, and no larger than
// a model looks at. Shown on a canvas, so that the page's policy needs no exception for data URLs.

import { el } from './dom.js';

const MAX_SIDE = 1536; // pixels
const MAX_PLAIN_BYTES = 600_000; // a file up to this size is sent as it is
const THUMB_SIDE = 320;

function read_as_url(file) {
    return new Promise((resolve, reject) => {
        const reader = new FileReader();
        reader.addEventListener('load', () => resolve(reader.result));
        reader.addEventListener('error', () => reject(reader.error));
        reader.readAsDataURL(file);
    });
}

function draw(bitmap, canvas, most) {
    const scale = Math.min(1, most / Math.max(bitmap.width, bitmap.height));
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    const context = canvas.getContext('2d');
    context.fillStyle = '#fff';
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
}

/** A data URL; throws with a sentence when it is no picture. */
export async function read_image(file) {
    let bitmap;
    try {
        bitmap = await createImageBitmap(file);
    } catch {
        throw new Error(`${file.name || 'What was pasted'} is not a picture that this browser can read.`);
    }
    const fits = Math.max(bitmap.width, bitmap.height) <= MAX_SIDE;
    if (fits && file.size <= MAX_PLAIN_BYTES && /^image\/(png|jpeg)$/.test(file.type)) {
        return read_as_url(file);
    }
    const canvas = el('canvas');
    draw(bitmap, canvas, MAX_SIDE);
    return canvas.toDataURL('image/jpeg', 0.9);
}

export function image_node(url, label) {
    const canvas = el('canvas', { width: 1, height: 1, role: 'img', 'aria-label': label });
    const match = /^data:(image\/[\w.+-]+);base64,(.*)$/s.exec(url);
    if (match) {
        const bytes = Uint8Array.from(atob(match[2]), (c) => c.charCodeAt(0));
        createImageBitmap(new Blob([bytes], { type: match[1] }))
            .then((bitmap) => draw(bitmap, canvas, THUMB_SIDE), () => canvas.remove());
    }
    return canvas;
}
