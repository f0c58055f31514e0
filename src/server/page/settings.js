// settings.js - the panel, and what settings become in a request.

import { el, by_id } from './dom.js';

const number = (name, label, min, max, step) => ({ name, label, kind: 'number', min, max, step });

const FIELDS = [
    { name: 'system', label: 'System prompt', kind: 'text', rows: 4 },
    { name: 'thinking', label: 'Thinking', kind: 'choice',
        choices: [['', 'as the model does'], ['on', 'on'], ['off', 'off']] },
    number('temperature', 'Temperature', 0, 5, 'any'),
    number('top_p', 'Top p', 0, 1, 'any'),
    number('top_k', 'Top k', 0, 100000, 1),
    number('min_p', 'Min p', 0, 1, 'any'),
    number('max_tokens', 'Most tokens', 1, 1e7, 1),
    number('seed', 'Seed', 0, Number.MAX_SAFE_INTEGER, 1),
    { name: 'stop', label: 'Stop at', kind: 'text', rows: 2, help: 'one text a line' },
    { name: 'schema', label: 'JSON schema', kind: 'text', rows: 3, mono: true,
        help: 'the answer is held to it' },
    { name: 'key', label: 'API key', kind: 'secret', help: 'kept in this browser, for all chats' },
];

/** What to say of a value, or '' when it is fine. */
export function fault_of(field, text) {
    if (field.name === 'schema' && text.trim() !== '') {
        try {
            const value = JSON.parse(text);
            if (typeof value !== 'object' || value === null) return 'a schema is an object';
        } catch {
            return 'this is not JSON';
        }
    }
    return '';
}

function input_of(field, value) {
    const id = `set-${field.name}`;
    switch (field.kind) {
    case 'text':
        return el('textarea', { id, rows: field.rows, value, spellcheck: field.name === 'system',
            className: field.mono ? 'mono' : '' });
    case 'choice': {
        const select = el('select', { id }, ...field.choices.map(([key, text]) =>
            el('option', { value: key }, text)));
        select.value = value;
        return select;
    }
    case 'secret':
        return el('input', { id, type: 'password', value, autocomplete: 'off' });
    default:
        return el('input', { id, type: 'number', inputMode: 'decimal', value, min: field.min,
            max: field.max, step: field.step, placeholder: 'default' });
    }
}

/** Fills the panel; on_change(name, text) is called for every value that holds. */
export function show_settings(values, on_change) {
    const box = by_id('fields');
    box.replaceChildren(...FIELDS.map((field) => {
        const input = input_of(field, values[field.name] ?? '');
        const fault = el('span', { className: 'fault', role: 'alert' });
        const help = el('span', { className: 'muted', id: `${input.id}-help` }, field.help || '');
        if (field.help) input.setAttribute('aria-describedby', help.id);
        input.addEventListener('input', () => {
            const text = fault_of(field, input.value) || (input.validity.valid ? '' :
                input.validationMessage);
            fault.textContent = text;
            if (text === '') on_change(field.name, input.value);
        });
        return el('div', { className: `field ${field.kind}` },
            el('label', { htmlFor: input.id }, field.label), help, input, fault);
    }));
    by_id('settings').showModal();
}

const given = (text) => text !== undefined && text !== null && String(text).trim() !== '';

/** Fields of the request's body. */
export function request_fields(settings) {
    const body = {};
    for (const field of FIELDS) {
        if (field.kind === 'number' && given(settings[field.name])) {
            body[field.name] = Number(settings[field.name]);
        }
    }
    const stop = (settings.stop || '').split('\n').filter((line) => line !== '');
    if (stop.length > 0) body.stop = stop;
    if (given(settings.schema)) {
        body.response_format = { type: 'json_schema',
            json_schema: { name: 'answer', strict: true, schema: JSON.parse(settings.schema) } };
    }
    if (settings.thinking) {
        body.chat_template_kwargs = { enable_thinking: settings.thinking === 'on' };
    }
    return body;
}
