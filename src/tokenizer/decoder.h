/* decoder.h - what tokens stand for.
 *
 * A decoder is a chain of steps over a list of tokens. Those here look at one token at a time, with
 * a few exceptions that a stream can know or wait for: whether it is the first, whether it repeats
 * the one before, whether it is the last (suffix), and what is taken from the ends of the whole
 * text (strip). What would need more is refused when the chain is made. */
#ifndef TOKENIZER_DECODER_H
#define TOKENIZER_DECODER_H

#include "base/arena.h"
#include "tokenizer/replace.h"

enum { DECODER_STEPS = 16, DECODER_STRIP = 64 };

typedef enum decoder_kind {
    DECODE_BYTELEVEL,     /* the byte-level alphabet, if all of the token is in it */
    DECODE_BYTE_FALLBACK, /* "<0x41>" is a byte */
    DECODE_METASPACE,     /* text is a space, dropped in the first token if flag */
    DECODE_WORDPIECE,     /* a space ahead, unless it has the prefix text, which goes */
    DECODE_JOIN,          /* a space ahead, but for the first */
    DECODE_REPLACE,
    DECODE_STRIP,  /* up to n_left and n_right of the character text from the ends */
    DECODE_CTC,    /* a token that repeats the one before it goes, and the text in any */
    DECODE_CLEANUP /* English punctuation and contractions move to the word before */
} decoder_kind;

typedef struct decoder_step {
    decoder_kind kind;
    str text;
    bool flag; /* METASPACE: not in the first token */
    uint32_t n_left, n_right;
    replace replace;
} decoder_step;

typedef struct decoder {
    arena arena;
    regex_memory memory;
    decoder_step steps[DECODER_STEPS];
    uint32_t n_steps;
    bool joined;   /* what follows works on the whole text */
    bool no_twice; /* a token that repeats the one before it is dropped */
    bool by_first; /* the first token is decoded in its own way */
    str suffix;    /* is a space, or nothing in the last token */
    str strip;     /* a character taken from the ends of the whole */
    uint32_t n_left, n_right;
} decoder;

/* Must not move afterwards. */
weft_status decoder_init(decoder *d, const weft_allocator *allocator, weft_error *err);
void decoder_deinit(decoder *d);

/* Texts are copied. LIMIT for too many steps; UNSUPPORTED for what a stream cannot decode. */
weft_status decoder_add(decoder *d, decoder_step step, weft_error *err);
weft_status decoder_replace(decoder *d, str from, bool literal, str to, weft_error *err);
weft_status decoder_suffix(decoder *d, str suffix, weft_error *err);
void decoder_fuse(decoder *d);

typedef struct decoder_scratch {
    const weft_allocator *allocator; /* borrowed */
    strbuf texts[2];
    regex_search search;
    bool searches; /* search is open */
} decoder_scratch;

/* Allocates nothing. */
void decoder_scratch_init(decoder_scratch *s, const weft_allocator *allocator);
void decoder_scratch_deinit(decoder_scratch *s);

/* *bytes is token itself or lies in the scratch. The suffix and what is taken from the whole are
 * left in. */
weft_status decoder_token(const decoder *d, decoder_scratch *s, str token, bool first, str *bytes,
                          weft_error *err);

/* Appends a text with the suffix as a space, or as nothing. */
weft_status decoder_end_word(const decoder *d, str text, bool last, strbuf *out);

#endif
