/* normalize.h - what a text becomes before it is cut. */
#ifndef TOKENIZER_NORMALIZE_H
#define TOKENIZER_NORMALIZE_H

#include "tokenizer/charsmap.h"
#include "tokenizer/replace.h"

enum { NORMALIZER_STEPS = 32 };

typedef enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_NO_MARKS,      /* marks of any kind go */
    NORMALIZE_NO_NONSPACING, /* marks that take no room go */
    NORMALIZE_STRIP,         /* white space goes from the ends */
    NORMALIZE_REPLACE,
    NORMALIZE_PREPEND,
    NORMALIZE_NMT,         /* as SentencePiece prepares text for translation */
    NORMALIZE_CLEAN,       /* as BERT does: no controls, every space is ' ' */
    NORMALIZE_IDEOGRAPHS,  /* each with spaces around it */
    NORMALIZE_BYTES,       /* the byte-level alphabet */
    NORMALIZE_CHARSMAP,    /* as Hugging Face's applies it */
    NORMALIZE_CHARSMAP_SP, /* as SentencePiece does */
    NORMALIZE_ONE_SPACE    /* no ' ' at the ends, one in a row; no U+2581 at the end */
} normalizer_kind;

typedef struct normalizer_step {
    normalizer_kind kind;
    bool left, right; /* STRIP: which ends */
    bool first;       /* PREPEND: only where the text as a whole starts */
    str text;         /* PREPEND: what */
    replace replace;
    charsmap map;
} normalizer_step;

typedef struct normalizer {
    arena arena;
    regex_memory memory;
    normalizer_step steps[NORMALIZER_STEPS];
    uint32_t n_steps;
} normalizer;

/* Must not move afterwards. */
weft_status normalizer_init(normalizer *n, const weft_allocator *allocator, weft_error *err);
void normalizer_deinit(normalizer *n);

/* LIMIT for too many steps. Texts are copied. */
weft_status normalizer_add(normalizer *n, normalizer_kind kind, weft_error *err);
weft_status normalizer_strip(normalizer *n, bool left, bool right, weft_error *err);
weft_status normalizer_prepend(normalizer *n, str text, bool first, weft_error *err);
weft_status normalizer_replace(normalizer *n, str from, bool literal, str to, weft_error *err);
weft_status normalizer_charsmap(normalizer *n, normalizer_kind kind, str blob, weft_error *err);

typedef struct normalizer_scratch {
    const weft_allocator *allocator; /* borrowed */
    strbuf texts[2];
    int32_t *chars; /* [n_chars] */
    size_t n_chars;
    int32_t *marks; /* [n_marks] */
    size_t n_marks;
    regex_search search;
    size_t search_bytes; /* texts that it is made for; 0: it is not open */
} normalizer_scratch;

/* limit_bytes: longest result. Allocates nothing. */
void normalizer_scratch_init(normalizer_scratch *s, const weft_allocator *allocator,
                             size_t limit_bytes);
void normalizer_scratch_deinit(normalizer_scratch *s);

/* *result is text itself or lies in the scratch until the next call. text is valid UTF-8; first:
 * it starts the text as a whole. Linear time. */
weft_status normalizer_run(const normalizer *n, normalizer_scratch *s, str text, bool first,
                           str *result, weft_error *err);

#endif
