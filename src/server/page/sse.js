// sse.js - server-sent events out of chunks of bytes, however they are cut.

const MAX_EVENT_CHARS = 8 << 20;

export class EventParser {
    #decoder = new TextDecoder();
    #rest = ''; // of a line that is not complete
    #data = [];
    #n_chars = 0;

    /** The data of every event that these bytes complete. */
    push(bytes) {
        const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
        // A CR at the end may be half of a CR LF: it waits.
        const lines = text.split(/\r\n|\n|\r(?!$)/);
        this.#rest = lines.pop();
        if (this.#rest.length > MAX_EVENT_CHARS) throw new Error('an event is longer than 8 MiB');
        const events = [];
        for (const line of lines) this.#take(line, events);
        return events;
    }

    #take(line, events) {
        if (line === '') {
            if (this.#data.length > 0) events.push(this.#data.join('\n'));
            this.#data = [];
            this.#n_chars = 0;
            return;
        }
        const colon = line.indexOf(':');
        if ((colon < 0 ? line : line.slice(0, colon)) !== 'data') return;
        const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
        this.#n_chars += value.length;
        if (this.#n_chars > MAX_EVENT_CHARS) throw new Error('an event is longer than 8 MiB');
        this.#data.push(value);
    }
}
