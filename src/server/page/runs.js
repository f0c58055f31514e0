// runs.js - answers that are being written, in any number of conversations at once.

import { stream_chat } from './api.js';
import { request_fields } from './settings.js';
import { add_node, path_of } from './store.js';

const runs = new Map(); // conversation id -> {chat, node, controller}

export const run_of = (id) => runs.get(id) || null;

function content_of(node) {
    if (!node.images?.length) return node.text;
    const parts = node.images.map((url) => ({ type: 'image_url', image_url: { url } }));
    if (node.text !== '') parts.push({ type: 'text', text: node.text });
    return parts;
}

const as_parts = (content) =>
    (typeof content === 'string' ? [{ type: 'text', text: content }] : content);

/** Messages up to the leaf. Answers that failed before their first word are left out. */
export function messages_of(chat) {
    const messages = [];
    const system = (chat.settings.system || '').trim();
    if (system !== '') messages.push({ role: 'system', content: system });
    for (const node of path_of(chat)) {
        if (node.role === 'assistant' && node.text === '') continue;
        const last = messages.at(-1);
        if (last?.role === node.role) {
            // Templates want the two to take turns.
            last.content = typeof last.content === 'string' && !node.images?.length ?
                `${last.content}\n\n${node.text}` :
                [...as_parts(last.content), ...as_parts(content_of(node))];
        } else {
            messages.push({ role: node.role, content: content_of(node) });
        }
    }
    return messages;
}

function take_tools(node, deltas) {
    node.tools ||= [];
    for (const delta of deltas) {
        const index = delta.index ?? 0;
        while (node.tools.length <= index && index < 128) node.tools.push({ name: '', arguments: '' });
        const tool = node.tools[index];
        if (!tool) continue;
        tool.name += delta.function?.name || '';
        tool.arguments += delta.function?.arguments || '';
    }
}

function take_chunk(node, chunk) {
    const choice = chunk.choices?.[0];
    const delta = choice?.delta || {};
    const now = performance.now();
    if (delta.reasoning_content) node.reasoning = (node.reasoning || '') + delta.reasoning_content;
    if (delta.content) {
        if (node.reasoning && node.reasoning_ms === undefined) node.reasoning_ms = now - node.began;
        node.text += delta.content;
    }
    if (delta.tool_calls) take_tools(node, delta.tool_calls);
    if (node.first_ms === undefined && (delta.content || delta.reasoning_content || delta.tool_calls)) {
        node.first_ms = now - node.began;
    }
    if (choice?.finish_reason) node.finish = choice.finish_reason;
    if (chunk.usage) node.usage = chunk.usage;
    if (chunk.timings) node.timings = chunk.timings;
}

/** Answers the leaf of a conversation. on_change(run), on_end(run). */
export async function start_run(chat, model, key, on_change, on_end) {
    stop_run(chat.id);
    const messages = messages_of(chat);
    const node = add_node(chat, chat.leaf, { role: 'assistant', text: '', model, running: true });
    node.began = performance.now();
    const run = { chat, node, controller: new AbortController() };
    runs.set(chat.id, run);
    on_change(run);
    try {
        const body = { model, messages, ...request_fields(chat.settings) };
        await stream_chat(body, key, run.controller.signal, (chunk) => {
            take_chunk(node, chunk);
            on_change(run);
        });
    } catch (error) {
        if (run.controller.signal.aborted) {
            node.stopped = true;
        } else {
            node.error = error.message;
            node.error_status = error.status;
        }
    }
    node.total_ms = performance.now() - node.began;
    if (node.reasoning && node.reasoning_ms === undefined) node.reasoning_ms = node.total_ms;
    delete node.running;
    delete node.began;
    if (runs.get(chat.id) === run) runs.delete(chat.id);
    on_end(run);
}

/** True when there was something to stop. */
export function stop_run(id) {
    const run = runs.get(id);
    if (!run) return false;
    run.controller.abort();
    return true;
}
