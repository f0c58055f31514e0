// chat.js - the page: which conversation is shown, and what keys and buttons do.

import { list_models } from './api.js';
import * as composer from './composer.js';
import { by_id, el, icon } from './dom.js';
import { AnswerView, UserView } from './message.js';
import { run_of, start_run, stop_run } from './runs.js';
import { follow, to_end } from './scroll.js';
import { show_settings } from './settings.js';
import * as sidebar from './sidebar.js';
import * as store from './store.js';

const FRAME_MS = 40;
const SHARE = 4; // painting takes at most a fifth of the time, however long an answer gets
const SAVE_MS = 1000;

let chat = null; // the conversation that is shown
let views = new Map(); // node id -> view, of the path that is shown
let models = [];
let key = store.read_value('key') || '';
let leaving = false; // the page is being closed or loaded again
let spoken = null; // the answer that is read out while it is written

// ---- notices

let notice_timer = 0;

function show_notice(text, action_name, action, ms) {
    clearTimeout(notice_timer);
    const box = by_id('notice');
    const close = () => box.replaceChildren();
    const parts = [el('span', null, text)];
    if (action) {
        parts.push(el('button', { type: 'button', onclick: () => {
            close();
            action();
        } }, action_name));
    }
    parts.push(el('button', { type: 'button', className: 'icon', 'aria-label': 'Close', onclick: close },
        icon('close')));
    box.replaceChildren(el('div', null, ...parts));
    if (ms) notice_timer = setTimeout(close, ms);
}

// ---- keeping

const unsaved = new Map(); // conversation id -> conversation
const removed_ids = new Set(); // an answer that still ends does not bring them back
let save_timer = 0;
let save_gap = SAVE_MS;
let complained = false;

function save(conversation, touch) {
    unsaved.delete(conversation.id);
    if (removed_ids.has(conversation.id)) return;
    const began = performance.now();
    const result = store.save_conversation(conversation, touch);
    save_gap = Math.max(SAVE_MS, 20 * (performance.now() - began));
    if (result !== 'kept' && !complained) {
        complained = true;
        show_notice(result === 'lost' ?
            'The browser has no room left: delete conversations, or this one is not kept.' :
            'The browser has no room left: the images of this conversation are not kept.');
    }
}

function save_all() {
    clearTimeout(save_timer);
    save_timer = 0;
    for (const conversation of [...unsaved.values()]) save(conversation, false);
}

function save_soon(conversation) {
    unsaved.set(conversation.id, conversation);
    save_timer ||= setTimeout(save_all, save_gap);
}

// ---- showing

const actions = {
    retry: (node) => retry(node),
    edit: (node, text) => edit(node, text),
    choose: (node) => {
        store.choose_node(chat, node);
        save(chat, false);
        show_chat();
        views.get(node.id)?.node.scrollIntoView({ block: 'nearest' });
    },
    focus: composer.focus,
    settings: () => open_settings(),
    enter_is_line: composer.enter_is_line,
    announce: (node, text) => {
        if (node === spoken) by_id('live').append(el('p', null, text.slice(0, 5000)));
    },
};

const list_actions = {
    refresh: () => show_list(),
    rename: (id, title) => {
        const conversation = id === chat.id ? chat : run_of(id)?.chat || store.load_conversation(id);
        if (!conversation) return;
        Object.assign(conversation, { title, named: true });
        save(conversation, false);
        show_list();
        if (id === chat.id) show_title();
    },
    remove: (id, title) => {
        stop_run(id);
        const removed = id === chat.id ? chat : run_of(id)?.chat || store.load_conversation(id);
        removed_ids.add(id);
        store.delete_conversation(id);
        if (id === chat.id) new_chat();
        show_list();
        if (!removed) return;
        show_notice(`Deleted “${store.title_of(title)}”.`, 'Undo', () => {
            removed_ids.delete(id);
            save(removed, true);
            show_list();
        }, 10000);
    },
};

function show_list() {
    sidebar.show_list(chat.id, (id) => run_of(id) !== null, list_actions);
}

function show_title() {
    by_id('title').textContent = chat.title;
    document.title = chat.leaf ? `${chat.title} - weft` : 'weft';
}

function show_state() {
    const running = run_of(chat.id) !== null;
    by_id('send').hidden = running;
    by_id('stop').hidden = !running;
}

function view_of(node) {
    const siblings = store.siblings_of(chat, node);
    if (node.role === 'user') return new UserView(node, siblings, actions);
    const view = new AnswerView(node, siblings, actions);
    view.update(run_of(chat.id)?.node === node);
    return view;
}

function show_chat() {
    const path = store.path_of(chat);
    views = new Map(path.map((node) => [node.id, view_of(node)]));
    by_id('messages').replaceChildren(...[...views.values()].map((view) => view.node));
    by_id('empty').hidden = path.length > 0;
    show_title();
    show_state();
    show_models();
}

let frame = 0;
let next_paint = 0;

function paint() {
    frame = 0;
    const run = run_of(chat.id);
    const view = run && views.get(run.node.id);
    if (!view) return;
    const began = performance.now();
    if (began < next_paint) {
        paint_soon();
        return;
    }
    view.update(true);
    follow(); // asks for the layout, so that its time counts
    next_paint = performance.now() + Math.max(FRAME_MS, SHARE * (performance.now() - began));
}

function paint_soon() {
    frame ||= requestAnimationFrame(paint);
}

// Clocks go on while nothing arrives.
setInterval(() => {
    if (chat && run_of(chat.id)) paint_soon();
}, 1000);

// ---- conversations

function set_address(id) {
    const address = location.pathname + location.search + (id ? `#${id}` : '');
    if (location.hash.slice(1) !== (id || '')) history.pushState(null, '', address);
}

function new_chat() {
    chat = store.new_conversation(store.read_value('settings') || {});
    set_address(null);
    show_chat();
    show_list();
    composer.focus();
}

function open_chat(id) {
    const found = run_of(id)?.chat || unsaved.get(id) || store.load_conversation(id);
    if (!found) {
        new_chat();
        return;
    }
    chat = found;
    for (const node of Object.values(chat.nodes)) {
        if (node.running && run_of(id)?.node !== node) {
            delete node.running;
            node.interrupted = true;
        }
    }
    show_chat();
    show_list();
    to_end();
}

function follow_address() {
    const id = location.hash.slice(1);
    if (id === (chat?.leaf ? chat.id : '')) return;
    if (id === '') new_chat();
    else open_chat(id);
}

// ---- asking

function model_name() {
    const wanted = chat.settings.model;
    return (models.find((row) => row.id === wanted) || models[0])?.id || wanted || '';
}

function on_change(run) {
    save_soon(run.chat);
    if (run.chat !== chat) return;
    spoken = run.node;
    paint_soon();
}

function on_end(run) {
    if (leaving) return; // it was kept as unfinished, which is what it is
    save(run.chat, true);
    show_list();
    if (run.chat !== chat) return;
    show_state();
    const view = views.get(run.node.id);
    view?.update(false);
    follow();
    if (!view) return;
    const live = by_id('live');
    spoken = null;
    live.append(el('p', null, run.node.error ? '' : 'End of the answer.'));
    setTimeout(() => live.replaceChildren(), 20000);
}

function answer() {
    by_id('live').replaceChildren();
    start_run(chat, model_name(), key, on_change, on_end);
    show_chat();
    show_list();
    to_end();
}

function send() {
    if (run_of(chat.id)) return;
    const message = composer.take();
    if (!message) return;
    if (!chat.leaf && !chat.named) chat.title = store.title_of(message.text || 'Image');
    store.add_node(chat, chat.leaf, { role: 'user', ...message });
    save(chat, true);
    set_address(chat.id);
    answer();
    if (composer.enter_is_line()) by_id('input').blur();
    else by_id('input').focus();
}

function edit(node, text) {
    stop_run(chat.id);
    store.add_node(chat, node.parent, { role: 'user', text, images: node.images || [] });
    if (node.parent === null && !chat.named) chat.title = store.title_of(text || 'Image');
    save(chat, true);
    answer();
    composer.focus();
}

function retry(node) {
    stop_run(chat.id);
    chat.leaf = node.parent;
    answer();
    composer.focus();
}

function stop() {
    if (!stop_run(chat.id)) return false;
    composer.focus();
    return true;
}

// ---- settings, models, colours

function open_settings() {
    show_settings({ ...chat.settings, key }, (name, value) => {
        if (name === 'key') {
            key = value.trim();
            store.write_value('key', key);
            load_models();
            return;
        }
        chat.settings[name] = value;
        store.write_value('settings', chat.settings);
        if (chat.leaf) save_soon(chat);
    });
}

function show_models() {
    const name = model_name();
    const select = by_id('model');
    select.hidden = models.length < 2;
    by_id('model-name').hidden = models.length > 1;
    by_id('model-name').textContent = name;
    select.replaceChildren(...models.map((row) => el('option', { value: row.id }, row.id)));
    select.value = name;
    composer.set_takes_images(models.find((row) => row.id === name)?.images || false);
}

let load_number = 0;

async function load_models() {
    const number = ++load_number;
    try {
        const rows = await list_models(key);
        if (number !== load_number) return;
        models = rows;
        by_id('notice').replaceChildren();
    } catch (error) {
        if (number !== load_number) return;
        if (by_id('settings').open) return;
        if (error.status === 401 || error.status === 403) {
            show_notice('The server wants an API key.', 'Set the API key', open_settings);
        } else {
            show_notice(error.message, 'Try again', load_models);
        }
    }
    show_models();
}

function show_theme() {
    const theme = store.read_theme() || document.documentElement.dataset.theme || 'auto';
    const button = by_id('theme');
    const names = { auto: 'as the system', light: 'light', dark: 'dark' };
    button.replaceChildren(icon({ auto: 'auto', light: 'sun', dark: 'moon' }[theme]));
    button.title = `Colours: ${names[theme]}`;
    button.setAttribute('aria-label', button.title);
    return theme;
}

function next_theme() {
    const next = { auto: 'light', light: 'dark', dark: 'auto' }[show_theme()];
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    store.write_theme(next === 'auto' ? null : next);
    show_theme();
}

// ---- keys

function is_field(node) {
    return node instanceof HTMLElement && (node.isContentEditable ||
        ['INPUT', 'TEXTAREA', 'SELECT'].includes(node.nodeName));
}

function edit_last() {
    const last = store.path_of(chat).findLast((node) => node.role === 'user');
    if (!last || run_of(chat.id)) return false;
    views.get(last.id).edit();
    return true;
}

function on_key(event) {
    if (event.isComposing || by_id('settings').open) return;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        sidebar.close_drawer();
        new_chat();
    } else if (event.key === 'Escape') {
        if (sidebar.close_by_key() || stop()) event.preventDefault();
    } else if (event.key === '/' && plain && !is_field(event.target)) {
        event.preventDefault();
        by_id('input').focus();
    } else if (event.key === 'ArrowUp' && plain && event.target === by_id('input') &&
        composer.is_empty() && edit_last()) {
        event.preventDefault();
    }
}

function on_storage(event) {
    if (store.is_list_key(event.key)) show_list();
    if (chat && store.id_of_key(event.key) === chat.id && !run_of(chat.id) && event.newValue) {
        open_chat(chat.id);
    }
}

function begin() {
    for (const button of document.querySelectorAll('[data-icon]')) {
        button.prepend(icon(button.dataset.icon));
    }
    if (/Mac|iP/.test(navigator.platform)) by_id('new-key').textContent = '⌘ K';
    sidebar.begin();
    composer.begin(send, (text) => show_notice(text, null, null, 6000));
    by_id('new-chat').addEventListener('click', () => {
        sidebar.close_drawer();
        new_chat();
    });
    by_id('stop').addEventListener('click', stop);
    by_id('theme').addEventListener('click', next_theme);
    by_id('open-settings').addEventListener('click', open_settings);
    by_id('settings').addEventListener('click', (event) => {
        if (event.target === by_id('settings')) by_id('settings').close();
    });
    by_id('model').addEventListener('change', (event) => {
        chat.settings.model = event.target.value;
        store.write_value('settings', chat.settings);
        if (chat.leaf) save_soon(chat);
        show_models();
    });
    by_id('skip').addEventListener('click', (event) => {
        event.preventDefault();
        by_id('input').focus();
    });
    addEventListener('keydown', on_key);
    addEventListener('hashchange', follow_address);
    addEventListener('popstate', follow_address);
    addEventListener('storage', on_storage);
    addEventListener('pagehide', () => {
        save_all();
        leaving = true;
    });
    addEventListener('pageshow', () => {
        leaving = false;
    });
    addEventListener('visibilitychange', save_all);
    // Where the keyboard covers the page instead of shrinking it.
    visualViewport?.addEventListener('resize', () => {
        const height = visualViewport.height * visualViewport.scale; // the same when zoomed
        document.documentElement.style.setProperty('--height', `${height}px`);
        scrollTo(0, 0);
    });
    show_theme();
    by_id('state').hidden = store.keeps;
    if (location.hash.length > 1) open_chat(location.hash.slice(1));
    else new_chat();
    load_models();
}

begin();
