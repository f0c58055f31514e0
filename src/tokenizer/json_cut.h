/* json_cut.h - tokenizer.json without its two long lists: a document of them would take most of the
 * time and many times the memory, so they are read value by value. */
#ifndef TOKENIZER_JSON_CUT_H
#define TOKENIZER_JSON_CUT_H

#include "base/json_reader.h"

typedef struct cache_tables cache_tables;

typedef struct json_cut {
    strbuf rest; /* the file, with both lists empty */
    str vocab;   /* 'vocab' of 'model', as it stands in the file; empty when it is no list */
    str merges;
    size_t vocab_at, merges_at; /* where they stand in the file, in bytes */
    size_t n_vocab, n_merges;   /* what they hold */
    str added;                  /* 'added_tokens', as it stands in the file and in rest */
    const cache_tables *cached; /* what takes the place of the lists; NULL: nothing does */
} json_cut;

/* text is borrowed. What is no JSON, or other than expected, stays in rest as it is: whoever parses
 * that says what is wrong. NOMEM. */
weft_status json_cut_init(json_cut *c, const weft_allocator *allocator, str text, weft_error *err);
void json_cut_deinit(json_cut *c);

/* Appends text, which c was made of, with an empty 'added_tokens', too. */
void json_cut_bare(const json_cut *c, str text, strbuf *out);

#endif
