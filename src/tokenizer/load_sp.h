/* load_sp.h - reading the vocabulary files that stand in a folder instead of tokenizer.json. */
#ifndef TOKENIZER_LOAD_SP_H
#define TOKENIZER_LOAD_SP_H

#include "tokenizer/pipeline.h"

/* SentencePiece's tokenizer.model: a message of protocol buffers. config: tokenizer_config.json's
 * content, or NULL. */
weft_status load_sp(tokenizer *t, str file, const json *config, weft_error *err);

/* Lines of base64 and rank; pre: the pre-tokenizer that goes with them, as GGUF files name it. */
weft_status load_tiktoken(tokenizer *t, str file, const char *pre, const json *config,
                          weft_error *err);

/* Whether a file starts as load_tiktoken wants it. */
bool load_tiktoken_looks(str file);

/* The tokens that tokenizer_config.json adds to those of such a file; how many they are. */
weft_status load_json_added(tokenizer *t, const json *config, weft_error *err);
size_t load_json_n_added(const json *config);

#endif
