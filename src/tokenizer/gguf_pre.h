/* gguf_pre.h - what the names of pre-tokenizers in GGUF files stand for. */
#ifndef TOKENIZER_GGUF_PRE_H
#define TOKENIZER_GGUF_PRE_H

#include "base/str.h"

typedef struct gguf_pre {
    const char *name;
    const char *const *splits; /* each isolates its matches; NULL at the end */
    bool whole_words;          /* a word in the vocabulary is taken without merging */
    bool bos;                  /* where the file does not say */
} gguf_pre;

/* NULL for an unknown name. */
const gguf_pre *gguf_pre_find(str name);

/* Walks the table; NULL at its end. */
const gguf_pre *gguf_pre_at(size_t i);

#endif
