// api.js - what the page asks of the server. Addresses are relative, so a path in front may vary.

import { EventParser } from './sse.js';

export class ApiError extends Error {
    constructor(message, status, type) {
        super(message);
        this.status = status;
        this.type = type;
    }
}

function headers(key) {
    return key ? { Authorization: `Bearer ${key}` } : {};
}

function sentence(text) {
    const trimmed = String(text).trim();
    return trimmed === '' ? 'The server gave no reason.' : trimmed;
}

async function error_of(response) {
    const text = await response.text().catch(() => '');
    try {
        const error = JSON.parse(text).error;
        if (typeof error === 'string') return new ApiError(sentence(error), response.status, '');
        return new ApiError(sentence(error.message), response.status, error.type);
    } catch {
        return new ApiError(`The server answered ${response.status} ${response.statusText}`.trim() +
            (text && text.length < 300 && !text.includes('<') ? `: ${text}` : '.'), response.status, '');
    }
}

async function ask(path, options) {
    let response;
    try {
        response = await fetch(path, options);
    } catch (error) {
        if (error.name === 'AbortError') throw error;
        throw new ApiError('The server cannot be reached.', 0, 'network');
    }
    if (!response.ok) throw await error_of(response);
    return response;
}

/** [{id, images}] */
export async function list_models(key) {
    const response = await ask('v1/models', { headers: headers(key) });
    const { data } = await response.json();
    return data.map((row) => ({
        id: String(row.id),
        images: Array.isArray(row.modalities) && row.modalities.includes('image'),
    }));
}

function chunk_of(event) {
    let chunk;
    try {
        chunk = JSON.parse(event);
    } catch {
        throw new ApiError('The server sent something that is not JSON.', 0, '');
    }
    if (chunk.error) throw new ApiError(sentence(chunk.error.message ?? chunk.error), 0, chunk.error.type);
    return chunk;
}

async function read_chunks(reader, on_chunk) {
    const parser = new EventParser();
    let finished = false;
    for (;;) {
        const { done, value } = await reader.read().catch((error) => {
            if (error.name === 'AbortError') throw error;
            throw new ApiError('The connection was lost before the answer was complete.', 0, 'network');
        });
        if (done) break;
        for (const event of parser.push(value)) {
            if (event === '[DONE]') return;
            const chunk = chunk_of(event);
            finished ||= Boolean(chunk.choices?.[0]?.finish_reason);
            on_chunk(chunk);
        }
    }
    if (!finished) {
        throw new ApiError('The connection ended before the answer was complete.', 0, 'network');
    }
}

/**
 * Calls on_chunk with every chunk of the answer. Throws ApiError, or AbortError when stopped;
 * an answer that ends without a reason to end is an error too.
 */
export async function stream_chat(body, key, signal, on_chunk) {
    const response = await ask('v1/chat/completions', {
        method: 'POST',
        headers: { ...headers(key), 'Content-Type': 'application/json' },
        body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
        signal,
    });
    const reader = response.body.getReader();
    try {
        await read_chunks(reader, on_chunk);
    } finally {
        reader.cancel().catch(() => {}); // the server need not write on
    }
}
