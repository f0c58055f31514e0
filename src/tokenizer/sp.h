/* sp.h - tokenizers as SentencePiece makes them, whatever file they come in: the kinds of their
 * tokens, their scores, and the stages around their models. */
#ifndef TOKENIZER_SP_H
#define TOKENIZER_SP_H

#include "tokenizer/pipeline.h"

/* As numbered in the files. */
typedef enum sp_type {
    SP_NORMAL = 1,
    SP_UNKNOWN = 2,
    SP_CONTROL = 3,
    SP_USER_DEFINED = 4,
    SP_UNUSED = 5,
    SP_BYTE = 6
} sp_type;

/* One token; a number that is no type counts as normal. */
weft_status sp_token(tokenizer *t, int32_t id, str text, int64_t type, weft_error *err);

/* When all tokens are there: a normal token's score says when it is merged, or how likely it is.
 * FORMAT when it is no number. */
weft_status sp_score(tokenizer *t, int32_t id, int64_t type, double score, weft_error *err);

typedef struct sp_stages {
    str charsmap;   /* empty: none */
    bool one_space; /* no space at the ends, one in a row */
    bool prefix;    /* a space ahead of a text */
    bool first;     /* only where it starts as a whole */
    bool bytes;     /* the vocabulary has tokens of bytes */
    int32_t unknown;
} sp_stages;

/* The stages, and the options of the model. */
weft_status sp_finish(tokenizer *t, const sp_stages *stages, weft_error *err);

#endif
