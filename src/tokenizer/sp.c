/* sp.c - what SentencePiece does, in the terms of the pipeline. */
#include "tokenizer/sp.h"

#include <string.h>

#define MARK "\xe2\x96\x81"

/* User-defined tokens are found in the normalized text, where spaces are marks; files have them
 * either way. Those of white space are the model's as well, so that they come about where added
 * tokens are not looked for. */
static weft_status user_defined(tokenizer *t, int32_t id, str text, weft_error *err)
{
    strbuf marked;
    uint32_t flags = VOCAB_ADDED | VOCAB_MODEL;
    strbuf_init(&marked, t->allocator, 0);
    for (size_t i = 0; i < text.len; i++) {
        bool space = text.ptr[i] == ' ';
        bool mark = text.ptr[i] == MARK[0] || text.ptr[i] == MARK[1] || text.ptr[i] == MARK[2];
        if (!space && !mark && text.ptr[i] != '\n' && text.ptr[i] != '\t') flags = VOCAB_ADDED;
        strbuf_add(&marked, space ? MARK : text.ptr + i, space ? 3 : 1);
    }
    weft_status status = marked.status;
    if (status != WEFT_OK) err_set(err, status, "out of memory for the vocabulary");
    text = (str){strbuf_text(&marked), marked.len};
    if (status == WEFT_OK) status = vocab_put(&t->vocab, id, text, flags, err);
    if (status == WEFT_OK)
        status = added_put(&t->added_normalized, text, (added_token){.id = id}, err);
    strbuf_deinit(&marked);
    return status;
}

weft_status sp_token(tokenizer *t, int32_t id, str text, int64_t type, weft_error *err)
{
    uint32_t flags = VOCAB_MODEL;
    if (type == SP_USER_DEFINED) return user_defined(t, id, text, err);
    if (type == SP_UNKNOWN) flags = VOCAB_SPECIAL;
    if (type == SP_CONTROL) flags = VOCAB_ADDED | VOCAB_SPECIAL;
    if (type == SP_UNUSED) flags = 0;
    weft_status status = vocab_put(&t->vocab, id, text, flags, err);
    if (status != WEFT_OK || type != SP_CONTROL) return status;
    return added_put(&t->added, text, (added_token){.id = id}, err);
}

/* Ranks that fall as scores rise, equal for equal scores: of the bits of a float, those of a
 * positive one rise with it. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* one zero only */
    memcpy(&bits, &score, sizeof bits);
    return (bits & 0x80000000u) != 0 ? bits : ~(bits | 0x80000000u);
}

weft_status sp_score(tokenizer *t, int32_t id, int64_t type, double score, weft_error *err)
{
    const vocab_entry *entry = vocab_get(&t->vocab, id);
    if (score != score) return err_set(err, WEFT_FORMAT, "tokenizer: the score of token %d", id);
    if (entry == NULL || (entry->flags & VOCAB_MODEL) == 0 || type == SP_BYTE) return WEFT_OK;
    if (vocab_find(&t->vocab, (str){entry->text, entry->text_len}) != id) return WEFT_OK;
    if (t->model.kind == MODEL_UNIGRAM) {
        unigram_put(&t->model.unigram, id, score);
        return WEFT_OK;
    }
    return bpe_merge_parts(&t->model.bpe, id, rank_of((float)score), err);
}

static weft_status add_normalizer(tokenizer *t, const sp_stages *stages, weft_error *err)
{
    normalizer *n = &t->normalizer;
    weft_status status = WEFT_OK;
    if (stages->charsmap.len != 0)
        status = normalizer_charsmap(n, NORMALIZE_CHARSMAP_SP, stages->charsmap, err);
    if (status == WEFT_OK && stages->one_space)
        status = normalizer_add(n, NORMALIZE_ONE_SPACE, err);
    if (status == WEFT_OK && stages->prefix)
        status = normalizer_prepend(n, str_of(MARK), stages->first, err);
    if (status != WEFT_OK) return status;
    return normalizer_replace(n, str_of(" "), true, str_of(MARK), err);
}

static weft_status add_decoder(tokenizer *t, const sp_stages *stages, weft_error *err)
{
    decoder *d = &t->decoder;
    weft_status status = decoder_replace(d, str_of(MARK), true, str_of(" "), err);
    if (status == WEFT_OK && stages->bytes)
        status = decoder_add(d, (decoder_step){.kind = DECODE_BYTE_FALLBACK}, err);
    decoder_fuse(d);
    if (status != WEFT_OK || !stages->prefix) return status;
    decoder_step step = {.kind = DECODE_STRIP, .text = str_of(" ")};
    step.n_left = stages->one_space ? DECODER_STRIP : 1; /* then none was meant */
    return decoder_add(d, step, err);
}

weft_status sp_finish(tokenizer *t, const sp_stages *stages, weft_error *err)
{
    model *m = &t->model;
    if (m->kind == MODEL_UNIGRAM) {
        m->unigram.single = true;
        m->unigram.byte_fallback = stages->bytes;
        m->unigram.unknown = stages->unknown;
    } else {
        m->bpe.byte_fallback = stages->bytes;
        m->bpe.fuse_unknown = true;
        m->bpe.unknown = stages->unknown;
    }
    weft_status status = add_normalizer(t, stages, err);
    if (status == WEFT_OK) status = add_decoder(t, stages, err);
    return status == WEFT_OK ? pipeline_finish(t, err) : status;
}
