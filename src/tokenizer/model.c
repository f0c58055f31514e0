/* model.c - choosing among the kinds of models, behind one table of words seen lately. */
#include "tokenizer/model.h"

void model_deinit(model *m)
{
    bpe_deinit(&m->bpe);
    unigram_deinit(&m->unigram);
    wordpiece_deinit(&m->wordpiece);
}

weft_status model_finish(model *m, bool bytes, weft_error *err)
{
    if (bytes && m->kind != MODEL_BPE) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: 'ByteLevel' words with a model other than 'BPE' are not "
                       "supported");
    }
    if (m->kind == MODEL_BPE) bpe_finish(&m->bpe, bytes);
    if (m->kind == MODEL_UNIGRAM) return unigram_finish(&m->unigram, err);
    if (m->kind == MODEL_WORDPIECE) return wordpiece_fill(&m->wordpiece, m->vocab, err);
    return WEFT_OK;
}

weft_status model_scratch_init(model_scratch *s, const weft_allocator *allocator, size_t text_bytes,
                               weft_error *err)
{
    bpe_scratch_init(&s->bpe, allocator);
    s->unigram = (unigram_scratch){.allocator = allocator};
    return words_init(&s->words, allocator, text_bytes, err);
}

void model_scratch_deinit(model_scratch *s)
{
    words_deinit(&s->words);
    bpe_scratch_deinit(&s->bpe);
    unigram_scratch_deinit(&s->unigram);
}

static weft_status encode(const model *m, model_scratch *s, str word, token_list *out,
                          weft_error *err)
{
    int32_t id;
    switch (m->kind) {
    case MODEL_BPE:
        return bpe_encode(&m->bpe, &s->bpe, word, out, err);
    case MODEL_UNIGRAM:
        return unigram_encode(&m->unigram, &s->unigram, word, out, err);
    case MODEL_WORDPIECE:
        return wordpiece_encode(&m->wordpiece, word, out, err);
    case MODEL_WORDLEVEL:
        id = vocab_find_plain(m->vocab, word);
        if (id < 0) id = m->unknown;
        return id < 0 ? WEFT_OK : token_list_add(out, id, err);
    }
    return WEFT_OK;
}

static weft_status encode_part(const model *m, model_scratch *s, str word, token_list *out,
                               weft_error *err)
{
    if (s->words.n_known == 0 || word.len > WORD_BYTES) return encode(m, s, word, out, err);
    known_word *places = words_places(&s->words, word);
    const known_word *hit = words_find(places, word);
    if (hit != NULL) return token_list_add_all(out, hit->ids, hit->n_ids, err);
    size_t before = out->len;
    weft_status status = encode(m, s, word, out, err);
    if (status != WEFT_OK || out->len == before) return status;
    words_keep(places, word, out->ids + before, out->len - before);
    return WEFT_OK;
}

weft_status model_encode(const model *m, model_scratch *s, str word, token_list *out,
                         weft_error *err)
{
    weft_status status = WEFT_OK;
    while (word.len != 0 && status == WEFT_OK) {
        size_t n = m->kind == MODEL_BPE ? bpe_part(&m->bpe, word) : word.len;
        status = encode_part(m, s, (str){word.ptr, n}, out, err);
        word.ptr += n;
        word.len -= n;
    }
    return status;
}
