/* words.h - ids of words seen lately. */
#ifndef TOKENIZER_WORDS_H
#define TOKENIZER_WORDS_H

#include "tokenizer/token_list.h"

enum { WORD_BYTES = 22, WORD_IDS = 10 }; /* longer ones are not kept */

typedef struct known_word {
    uint8_t n_bytes; /* 0: free */
    uint8_t n_ids;
    char bytes[WORD_BYTES];
    int32_t ids[WORD_IDS];
} known_word;

typedef struct words {
    const weft_allocator *allocator; /* borrowed */
    known_word *known;               /* [n_known], a power of two, or 0 */
    size_t n_known;
} words;

/* text_bytes: of all that will be encoded. */
weft_status words_init(words *w, const weft_allocator *allocator, size_t text_bytes,
                       weft_error *err);
void words_deinit(words *w);

/* The pair of places where a word of 1 to WORD_BYTES bytes may stand. Not without places. */
known_word *words_places(const words *w, str word);

/* NULL when it is in neither place. */
const known_word *words_find(const known_word places[2], str word);

void words_keep(known_word places[2], str word, const int32_t *ids, size_t n_ids);

#endif
