/* load_json.h - what the files that read tokenizer.json share. */
#ifndef TOKENIZER_LOAD_JSON_H
#define TOKENIZER_LOAD_JSON_H

#include "tokenizer/json_cut.h"
#include "tokenizer/pipeline.h"

/* FORMAT: what is not of the expected kind. */
weft_status json_wrong(const char *what, const char *expected, const json *value, weft_error *err);
weft_status json_expect(const json *value, json_kind kind, const char *what, weft_error *err);

/* UNSUPPORTED: a kind of some stage that this does not have. */
weft_status json_unknown(const char *stage, str kind, weft_error *err);

bool json_is_null(const json *value);

/* A text, or '' when it is absent or null; another kind is FORMAT. */
weft_status json_read_text(const json *object, const char *key, str *text, weft_error *err);

/* 'model'; room is made for n_added more tokens. */
weft_status json_read_model(tokenizer *t, const json *value, const json_cut *cut, size_t n_added,
                            weft_error *err);

/* The stages; null is none. */
weft_status json_read_normalizer(tokenizer *t, const json *value, weft_error *err);
weft_status json_read_pre_tokenizer(tokenizer *t, const json *value, weft_error *err);
weft_status json_read_post_processor(tokenizer *t, const json *value, weft_error *err);
weft_status json_read_decoder(tokenizer *t, const json *value, weft_error *err);

#endif
