// scroll.js - stays at the end while an answer grows, unless the reader has gone up.

import { by_id } from './dom.js';

const NEAR = 24; // pixels from the end that count as the end

const log = by_id('log');
const button = by_id('to-end');
let sticks = true;
let last_top = 0;

const distance = () => log.scrollHeight - log.scrollTop - log.clientHeight;

function show_button() {
    button.hidden = sticks || distance() < NEAR;
}

/** Called whenever something grew. */
export function follow() {
    if (sticks) log.scrollTop = log.scrollHeight;
    last_top = log.scrollTop;
    show_button();
}

export function to_end() {
    sticks = true;
    follow();
}

log.addEventListener('scroll', () => {
    // Only a reader moves up without arriving at the end.
    if (distance() < NEAR) sticks = true;
    else if (log.scrollTop < last_top) sticks = false;
    last_top = log.scrollTop;
    show_button();
}, { passive: true });
// A wheel turned up says so before the first pixel has moved.
log.addEventListener('wheel', (event) => {
    if (event.deltaY < 0 && log.scrollHeight > log.clientHeight) sticks = false;
}, { passive: true });
button.addEventListener('click', to_end);
new ResizeObserver(follow).observe(log);
