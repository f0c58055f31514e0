/* stops.h - texts that end an answer, looked for as bytes come: what is found does not depend on
 * how the bytes were divided. */
#ifndef ENGINE_STOPS_H
#define ENGINE_STOPS_H

#include "base/mem.h"

typedef struct stops {
    uint32_t n;
    uint32_t starts[WEFT_STOP_TEXTS + 1]; /* of each text in bytes */
    char *bytes;                          /* all texts, one behind the other */
    uint16_t *shorter; /* for each byte: how much of the text's beginning ends there, if not all */
} stops;

/* Of each text, how many bytes from its beginning on were the last ones that came. */
typedef struct stops_state {
    uint16_t matched[WEFT_STOP_TEXTS];
} stops_state;

/* Copies n texts, which are checked; false when memory was refused. n may be 0. */
bool stops_init(stops *s, const weft_allocator *allocator, const char *const *texts, uint32_t n);
void stops_deinit(stops *s, const weft_allocator *allocator);

uint32_t stops_length(const stops *s, uint32_t i);

/* Takes bytes up to the one that completes a text, and returns how many those are: *which is the
 * longest text that ends there; -1: none does, and all were taken. state begins as zeros. */
size_t stops_feed(const stops *s, stops_state *state, const char *bytes, size_t n_bytes,
                  int32_t *which);

/* How many of the last bytes may be the beginning of a text. */
uint32_t stops_held(const stops *s, const stops_state *state);

#endif
