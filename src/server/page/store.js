// store.js - conversations and settings in localStorage, or in memory where a browser keeps nothing.
//
// A conversation is a tree: who edits a message or asks for another answer gets a sibling, and nothing is
// lost. `leaf` says which path is shown. The list of conversations is kept apart from them and is read
// anew before it is written, since several tabs may write it.

const LIST = 'weft.list';
const CHAT = 'weft.chat.';

const memory = new Map();
let works = true;
try {
    localStorage.setItem('weft.probe', '1');
    localStorage.removeItem('weft.probe');
} catch {
    works = false;
}

export const keeps = works;

function read(key) {
    const text = works ? localStorage.getItem(key) : memory.get(key);
    if (text === null || text === undefined) return null;
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}

/** False when there is no room. */
function write(key, value) {
    const text = JSON.stringify(value);
    if (!works) {
        memory.set(key, text);
        return true;
    }
    try {
        localStorage.setItem(key, text);
        return true;
    } catch {
        return false;
    }
}

function erase(key) {
    if (works) localStorage.removeItem(key);
    else memory.delete(key);
}

export const read_value = (name) => read(`weft.${name}`);
export const write_value = (name, value) => write(`weft.${name}`, value);

/** As theme.js reads it: plain text, nothing for null. */
export function write_theme(theme) {
    if (!works) return;
    if (theme) localStorage.setItem('weft.theme', theme);
    else localStorage.removeItem('weft.theme');
}

export function read_theme() {
    return (works && localStorage.getItem('weft.theme')) || null;
}

function new_id() {
    // randomUUID is not there on plain http from another host.
    const bytes = crypto.getRandomValues(new Uint8Array(8));
    return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

// ---- conversations

export function new_conversation(settings) {
    return { id: new_id(), title: 'New chat', named: false, settings: { ...settings }, nodes: {},
        leaf: null };
}

/** [{id, title, updated}], newest first */
export function list_conversations() {
    const list = read(LIST);
    return Array.isArray(list) ? list.sort((a, b) => b.updated - a.updated) : [];
}

function change_list(id, row) {
    const list = list_conversations().filter((x) => x.id !== id);
    if (row) list.push(row);
    return write(LIST, list);
}

export function load_conversation(id) {
    const chat = read(CHAT + id);
    if (!chat || typeof chat.nodes !== 'object' || chat.nodes === null) return null;
    chat.settings ||= {};
    return chat;
}

/** 'kept', 'no images' when there was no room for them, or 'lost'. */
export function save_conversation(chat, touch) {
    const known = list_conversations().find((x) => x.id === chat.id);
    const updated = touch || !known ? Date.now() : known.updated;
    if (!change_list(chat.id, { id: chat.id, title: chat.title, updated })) return 'lost';
    if (write(CHAT + chat.id, chat)) return 'kept';
    const nodes = {};
    let n_images = 0;
    for (const [id, node] of Object.entries(chat.nodes)) {
        n_images += node.images?.length || 0;
        nodes[id] = node.images ? { ...node, images: [], n_lost: node.images.length } : node;
    }
    return n_images > 0 && write(CHAT + chat.id, { ...chat, nodes }) ? 'no images' : 'lost';
}

export function delete_conversation(id) {
    erase(CHAT + id);
    change_list(id, null);
}

export function is_list_key(key) {
    return key === LIST;
}

export function id_of_key(key) {
    return key?.startsWith(CHAT) ? key.slice(CHAT.length) : null;
}

// ---- the tree

export function add_node(chat, parent, fields) {
    const node = { id: new_id(), parent, at: Date.now(), ...fields };
    chat.nodes[node.id] = node;
    chat.leaf = node.id;
    return node;
}

/** From the first message to the leaf. */
export function path_of(chat) {
    const path = [];
    const seen = new Set();
    let node = chat.nodes[chat.leaf];
    while (node && !seen.has(node.id)) {
        seen.add(node.id);
        path.push(node);
        node = chat.nodes[node.parent];
    }
    return path.reverse();
}

export function siblings_of(chat, node) {
    return Object.values(chat.nodes).filter((x) => x.parent === node.parent && x.role === node.role);
}

/** Shows this node, and below it what was written last. */
export function choose_node(chat, node) {
    const seen = new Set();
    let leaf = node;
    for (let next = node; next && !seen.has(next.id);) {
        leaf = next;
        seen.add(leaf.id);
        next = Object.values(chat.nodes).findLast((x) => x.parent === leaf.id);
    }
    chat.leaf = leaf.id;
}

export function title_of(text) {
    const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
    return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line || 'New chat';
}
