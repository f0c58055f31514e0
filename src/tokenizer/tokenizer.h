/* tokenizer.h - text to ids and back.
 *
 * Pipeline, in the terms of Hugging Face's tokenizer.json: added tokens split the text; the
 * normalizer, the pre-tokenizer and the model work on what is between them; the post-processor
 * adds specials; the decoder turns ids back into bytes. Each stage has kinds: one file a model
 * kind, tables of kinds for the others. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "base/env.h"
#include "base/str.h"
#include "formats/weights.h"

typedef struct tokenizer tokenizer;

enum {
    TOKENIZER_TEXT_BYTES = 256 << 20, /* largest text */
    TOKENIZER_FILE_BYTES = 256 << 20, /* largest tokenizer.json */
    TOKENIZER_VOCAB = 4 << 20,
    TOKENIZER_CACHED_BYTES = 1 << 20, /* smallest tokenizer.json that is worth a cache */
};

/* Where the finished tables of a tokenizer.json are kept, so that it need not be read again. */
typedef struct tokenizer_cache {
    const char *folder; /* NULL: nowhere */
    size_t least_bytes; /* of a tokenizer.json; a smaller one has none */
} tokenizer_cache;

/* From tokenizer.json of a folder, else from its tokenizer.model or vocabulary of tiktoken (and
 * tokenizer_config.json beside them for bos and eos and, with the latter two, for added tokens), or
 * from the tokenizer.ggml.* metadata of a GGUF file. *out is NULL with OK when the checkpoint has
 * none. An unknown kind of any stage is UNSUPPORTED and names it. cache may be NULL; that it cannot
 * be read or written is no failure. */
weft_status tokenizer_open(const weights *w, const tokenizer_cache *cache, tokenizer **out,
                           weft_error *err);

/* From the text of a tokenizer.json; what the fuzzer drives. */
weft_status tokenizer_parse(const env *env, const char *json_text, size_t n_bytes, tokenizer **out,
                            weft_error *err);

/* From a tokenizer.model of SentencePiece, or a vocabulary of tiktoken with the pre-tokenizer that
 * goes with it, as GGUF files name it. */
weft_status tokenizer_parse_model(const env *environment, str file, const char *pre,
                                  tokenizer **out, weft_error *err);

void tokenizer_destroy(tokenizer *t);

typedef struct token_list {
    const weft_allocator *allocator; /* borrowed */
    int32_t *ids;
    size_t len, capacity;
} token_list;

void token_list_init(token_list *list, const weft_allocator *allocator);
void token_list_deinit(token_list *list);

enum {
    TOKENIZER_PLAIN = 1,   /* added tokens in the text are not recognised */
    TOKENIZER_SPECIALS = 2 /* run the post-processor */
};

/* Appends. text is valid UTF-8, else FORMAT; time is linear in its length for any text. */
weft_status tokenizer_encode(const tokenizer *t, str text, uint32_t flags, token_list *out,
                             weft_error *err);

/* The same for a text of which some parts come from outside: an added token that would reach
 * into one of the spans (ascending, disjoint) is not recognised. The parts are still one text to
 * everything else. */
weft_status tokenizer_encode_apart(const tokenizer *t, str text, const str_span *spans,
                                   size_t n_spans, token_list *out, weft_error *err);

uint32_t tokenizer_n_vocab(const tokenizer *t); /* largest id + 1 */

/* -1 when the vocabulary or the checkpoint has none. */
int32_t tokenizer_find(const tokenizer *t, str token);
int32_t tokenizer_bos(const tokenizer *t);
int32_t tokenizer_eos(const tokenizer *t);

/* Whether id is a special (control) token. */
bool tokenizer_is_special(const tokenizer *t, int32_t id);

/* The token as its vocabulary spells it; empty for an unknown id. Borrowed. */
str tokenizer_token(const tokenizer *t, int32_t id);

/* Appends the bytes that one id stands for in the middle of a text; ids outside the vocabulary
 * add nothing. Bytes need not be whole UTF-8: detok puts them together. */
weft_status tokenizer_bytes(const tokenizer *t, int32_t id, bool specials, strbuf *out);

#endif
