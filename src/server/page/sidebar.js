// sidebar.js - the list of conversations: a column on a wide screen, a drawer on a narrow one.

import { el, by_id, icon_button } from './dom.js';
import * as store from './store.js';

const wide = matchMedia('(min-width: 800px)');
const side = by_id('sidebar');
const opener = by_id('open-side');

function is_open() {
    return wide.matches ? !document.body.classList.contains('side-closed') :
        document.body.classList.contains('side-open');
}

function reflect() {
    const open = is_open();
    const drawer = open && !wide.matches;
    side.inert = !open;
    by_id('main').inert = drawer;
    by_id('shade').hidden = !drawer;
    opener.setAttribute('aria-expanded', String(open));
}

export function set_open(open) {
    if (wide.matches) {
        document.body.classList.toggle('side-closed', !open);
        store.write_value('side', open);
    } else {
        document.body.classList.toggle('side-open', open);
    }
    reflect();
    if (open && !wide.matches) by_id('new-chat').focus();
}

/** After something was chosen: a drawer closes, a column stays. */
export function close_drawer() {
    if (!wide.matches && is_open()) set_open(false);
}

export function close_by_key() {
    if (wide.matches || !is_open()) return false;
    set_open(false);
    opener.focus();
    return true;
}

function rename(row, item, actions) {
    const input = el('input', { value: row.title, 'aria-label': 'Name of the conversation',
        maxLength: 200 });
    let done = false;
    const finish = (keep) => {
        if (done) return;
        done = true;
        input.blur(); // or the list would be left alone
        const title = input.value.trim();
        if (keep && title !== '' && title !== row.title) actions.rename(row.id, title);
        else actions.refresh();
    };
    input.addEventListener('keydown', (event) => {
        if (event.isComposing) return;
        if (event.key === 'Enter') finish(true);
        if (event.key === 'Escape') {
            event.stopPropagation();
            finish(false);
        }
    });
    input.addEventListener('blur', () => finish(true));
    item.replaceChildren(input);
    input.select();
}

function item_of(row, current, running, actions) {
    const link = el('a', { href: `#${row.id}`, title: row.title }, row.title);
    if (row.id === current) link.setAttribute('aria-current', 'page');
    const item = el('li', null, link);
    if (running) item.append(el('span', { className: 'dot', role: 'img', 'aria-label': 'answering' }));
    item.append(
        icon_button('pencil', `Rename ${row.title}`, () => rename(row, item, actions)),
        icon_button('trash', `Delete ${row.title}`, () => actions.remove(row.id, row.title)));
    link.addEventListener('click', close_drawer);
    link.addEventListener('dblclick', (event) => {
        event.preventDefault();
        rename(row, item, actions);
    });
    return item;
}

export function show_list(current, is_running, actions) {
    const list = by_id('list');
    if (list.contains(document.activeElement) && document.activeElement.nodeName === 'INPUT') return;
    const rows = store.list_conversations();
    list.replaceChildren(...rows.map((row) => item_of(row, current, is_running(row.id), actions)));
    by_id('list-empty').hidden = rows.length > 0;
}

export function begin() {
    document.body.classList.toggle('side-closed', store.read_value('side') === false);
    opener.addEventListener('click', () => set_open(!is_open()));
    by_id('close-side').addEventListener('click', () => {
        set_open(false);
        opener.focus();
    });
    by_id('shade').addEventListener('click', () => set_open(false));
    wide.addEventListener('change', reflect);
    reflect();
}
