/* stops.c - one automaton a text (Knuth, Morris, Pratt 1977): time is linear in what comes, and the
 * state is a number. */
#include "engine/stops.h"

#include <string.h>

static size_t memory(const stops *s)
{
    return s->starts[s->n] * (sizeof(char) + sizeof(uint16_t));
}

uint32_t stops_length(const stops *s, uint32_t i)
{
    return s->starts[i + 1] - s->starts[i];
}

static void prepare(const char *text, uint32_t n, uint16_t *shorter)
{
    uint16_t matched = 0;
    shorter[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        while (matched > 0 && text[i] != text[matched]) matched = shorter[matched - 1];
        if (text[i] == text[matched]) matched++;
        shorter[i] = matched;
    }
}

bool stops_init(stops *s, const weft_allocator *allocator, const char *const *texts, uint32_t n)
{
    *s = (stops){.n = n};
    for (uint32_t i = 0; i < n; i++) s->starts[i + 1] = s->starts[i] + (uint32_t)strlen(texts[i]);
    if (n == 0) return true;
    uint32_t n_bytes = s->starts[n];
    s->shorter = mem_alloc(allocator, memory(s));
    if (s->shorter == NULL) return false;
    s->bytes = (char *)(s->shorter + n_bytes);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(s->bytes + s->starts[i], texts[i], stops_length(s, i));
        prepare(texts[i], stops_length(s, i), s->shorter + s->starts[i]);
    }
    return true;
}

void stops_deinit(stops *s, const weft_allocator *allocator)
{
    mem_free(allocator, s->shorter, memory(s));
    *s = (stops){0};
}

static uint16_t step(const stops *s, uint32_t i, uint16_t matched, char byte)
{
    const char *text = s->bytes + s->starts[i];
    const uint16_t *shorter = s->shorter + s->starts[i];
    while (matched > 0 && byte != text[matched]) matched = shorter[matched - 1];
    return (uint16_t)(matched + (byte == text[matched]));
}

size_t stops_feed(const stops *s, stops_state *state, const char *bytes, size_t n_bytes,
                  int32_t *which)
{
    *which = -1;
    for (size_t k = 0; k < n_bytes; k++) {
        uint32_t longest = 0;
        for (uint32_t i = 0; i < s->n; i++) {
            state->matched[i] = step(s, i, state->matched[i], bytes[k]);
            if (state->matched[i] < stops_length(s, i) || stops_length(s, i) <= longest) continue;
            longest = stops_length(s, i);
            *which = (int32_t)i;
        }
        if (*which >= 0) return k + 1;
    }
    return n_bytes;
}

uint32_t stops_held(const stops *s, const stops_state *state)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (state->matched[i] > most) most = state->matched[i];
    }
    return most;
}
