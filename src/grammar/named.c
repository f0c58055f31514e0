/* named.c - which token a text or a number means. */
#include "grammar/named.h"

#include "base/utf8.h"

enum { SHOWN_BYTES = 60 };

bool named_of_text(program *p, const grammar_vocab *v, str text, named_token *token)
{
    uint32_t id = 0, n = text.len > GRAMMAR_TOKEN_BYTES ? 0 : vocab_tokens_of(v, text, &id);
    int shown = (int)(text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES);
    if (n == 0) {
        program_fail(p, WEFT_ARGUMENT, "'%.*s' is no token of this model", shown, text.ptr);
        return false;
    }
    if (n > 1) {
        program_fail(p, WEFT_ARGUMENT, "'%.*s' is the text of %u tokens: name one by its id", shown,
                     text.ptr, n);
        return false;
    }
    *token = (named_token){id, vocab_is_end(v, id)};
    return true;
}

bool named_of_id(program *p, const grammar_vocab *v, int64_t id, named_token *token)
{
    if (id < 0 || id >= v->n_tokens) {
        program_fail(p, WEFT_ARGUMENT, "token %lld of a vocabulary of %u", (long long)id,
                     v->n_tokens);
        return false;
    }
    str bytes = vocab_bytes(v, (uint32_t)id);
    if (!utf8_valid(bytes.ptr, bytes.len)) {
        program_fail(p, WEFT_UNSUPPORTED, "token %u is a part of a character", (uint32_t)id);
        return false;
    }
    *token = (named_token){(uint32_t)id, vocab_is_end(v, (uint32_t)id)};
    return true;
}
