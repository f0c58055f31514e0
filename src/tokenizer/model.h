/* model.h - what turns a word into ids: one of the kinds below. */
#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H

#include "tokenizer/bpe.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"
#include "tokenizer/words.h"

typedef enum model_kind {
    MODEL_BPE,
    MODEL_UNIGRAM,
    MODEL_WORDPIECE,
    MODEL_WORDLEVEL /* a word is a token or unknown */
} model_kind;

typedef struct model {
    model_kind kind;
    const vocab *vocab; /* borrowed */
    bpe bpe;
    unigram unigram;
    wordpiece wordpiece;
    int32_t unknown; /* of a word level */
} model;

void model_deinit(model *m);

/* Before encoding, when the vocabulary is complete. bytes: words are bytes, not characters. */
weft_status model_finish(model *m, bool bytes, weft_error *err);

/* What a thread needs while it encodes. */
typedef struct model_scratch {
    words words;
    bpe_scratch bpe;
    unigram_scratch unigram;
} model_scratch;

/* text_bytes: of all that will be encoded. */
weft_status model_scratch_init(model_scratch *s, const weft_allocator *allocator, size_t text_bytes,
                               weft_error *err);
void model_scratch_deinit(model_scratch *s);

/* Appends the ids of one word (not empty, valid UTF-8). */
weft_status model_encode(const model *m, model_scratch *s, str word, token_list *out,
                         weft_error *err);

#endif
