/* words.c - a table of a size that stays in the second-level cache: a new word moves the one
 * before it to the second place and drops the one there. */
#include "tokenizer/words.h"

#include <string.h>

#include "base/hash.h"

enum { KNOWN_MAX = 1 << 14 }; /* 1 MiB */

weft_status words_init(words *w, const weft_allocator *allocator, size_t text_bytes,
                       weft_error *err)
{
    *w = (words){.allocator = allocator};
    size_t n = 0;
    if (text_bytes >= 256) n = 64;
    while (n != 0 && n < KNOWN_MAX && n < text_bytes / 8) n *= 2;
    if (n == 0) return WEFT_OK;
    w->known = mem_alloc_zero(allocator, n * sizeof *w->known);
    if (w->known == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu words", n);
    w->n_known = n;
    return WEFT_OK;
}

void words_deinit(words *w)
{
    mem_free(w->allocator, w->known, w->n_known * sizeof *w->known);
    w->known = NULL;
    w->n_known = 0;
}

known_word *words_places(const words *w, str word)
{
    return &w->known[hash_xx64(word.ptr, word.len, 0) & (w->n_known - 2)];
}

const known_word *words_find(const known_word places[2], str word)
{
    for (size_t i = 0; i < 2; i++) {
        if (places[i].n_bytes == word.len && memcmp(places[i].bytes, word.ptr, word.len) == 0)
            return &places[i];
    }
    return NULL;
}

void words_keep(known_word places[2], str word, const int32_t *ids, size_t n_ids)
{
    if (n_ids > WORD_IDS) return;
    places[1] = places[0];
    places->n_bytes = (uint8_t)word.len;
    places->n_ids = (uint8_t)n_ids;
    memcpy(places->bytes, word.ptr, word.len);
    if (n_ids != 0) memcpy(places->ids, ids, n_ids * sizeof places->ids[0]);
}
