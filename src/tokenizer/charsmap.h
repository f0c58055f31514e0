/* charsmap.h - the precompiled normalization of SentencePiece: a double array that leads from
 * texts to the texts in their place.
 * Sources: the darts-clone double array (units of 32 bits), SentencePiece's normalizer. */
#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H

#include "base/str.h"

typedef struct charsmap {
    const unsigned char *units; /* [n_units] of 4 bytes, little endian; borrowed */
    size_t n_units;
    str texts; /* NUL-terminated, one behind the other; borrowed */
} charsmap;

/* blob: the size of the array, the array, the texts; borrowed. Nothing in it is trusted later. */
weft_status charsmap_open(charsmap *m, str blob, weft_error *err);

/* Appends the normalized text, which is valid UTF-8. SentencePiece looks for the longest text at
 * each place; Hugging Face's for any at the start of a short grapheme, else of a character, and
 * takes the shortest for the whole. Linear time. */
weft_status charsmap_longest(const charsmap *m, str text, strbuf *out);
weft_status charsmap_graphemes(const charsmap *m, str text, strbuf *out);

#endif
