/* load_gguf.c - a vocabulary from the metadata of a GGUF file, by the kind of its model.
 *
 * Of a "gpt2" vocabulary the file names the pre-tokenizer only ("tokenizer.ggml.pre"). A name
 * that is not in the table of gguf_pre.c is refused, since splitting otherwise gives other ids
 * without any sign of it.
 * Source: the GGUF specification of the ggml project, key-value pairs "Tokenizer". */
#include "tokenizer/pipeline.h"

#include <string.h>

#include "base/assert.h"
#include "tokenizer/gguf_pre.h"
#include "tokenizer/sp.h"

/* ---- arrays ---- */

/* An array of one of two element types. */
static weft_status expect_array(const weights *w, const char *key, gguf_type type, gguf_type other,
                                const gguf_value **out, weft_error *err)
{
    const gguf_value *value = weights_metadata(w, key);
    *out = value;
    if (value == NULL) return WEFT_OK;
    if (value->type != GGUF_ARRAY) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s has type %d, expected an array (%d)", key,
                       (int)value->type, (int)GGUF_ARRAY);
    }
    if (value->element != type && value->element != other) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s has elements of type %d, expected %d", key,
                       (int)value->element, (int)type);
    }
    return WEFT_OK;
}

static weft_status expect_count(const gguf_value *value, const gguf_value *tokens, weft_error *err)
{
    if (value == NULL || value->n_elements == tokens->n_elements) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer: %s has %llu elements for %llu tokens", value->key,
                   (unsigned long long)value->n_elements, (unsigned long long)tokens->n_elements);
}

typedef struct arrays {
    const gguf_value *tokens;
    const gguf_value *scores; /* these may be NULL */
    const gguf_value *types;  /* NULL: all are normal */
    const gguf_value *merges;
} arrays;

static weft_status missing(const char *key, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer: %s is missing", key);
}

static weft_status find_arrays(const weights *w, arrays *a, weft_error *err)
{
    weft_status status =
        expect_array(w, "tokenizer.ggml.tokens", GGUF_TEXT, GGUF_TEXT, &a->tokens, err);
    if (status == WEFT_OK)
        status = expect_array(w, "tokenizer.ggml.scores", GGUF_F32, GGUF_F32, &a->scores, err);
    if (status == WEFT_OK)
        status = expect_array(w, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, &a->types, err);
    if (status == WEFT_OK)
        status = expect_array(w, "tokenizer.ggml.merges", GGUF_TEXT, GGUF_TEXT, &a->merges, err);
    if (status != WEFT_OK) return status;
    if (a->tokens == NULL) return missing("tokenizer.ggml.tokens", err);
    uint64_t n_merges = a->merges == NULL ? 0 : a->merges->n_elements;
    if (a->tokens->n_elements > TOKENIZER_VOCAB || n_merges > TOKENIZER_FILE_BYTES) {
        return err_set(err, WEFT_LIMIT, "tokenizer: %llu tokens and %llu merges are too many",
                       (unsigned long long)a->tokens->n_elements, (unsigned long long)n_merges);
    }
    status = expect_count(a->scores, a->tokens, err);
    return status == WEFT_OK ? expect_count(a->types, a->tokens, err) : status;
}

static int64_t type_of(const arrays *a, uint32_t id)
{
    int64_t type = SP_NORMAL;
    if (a->types != NULL) gguf_array_i64(a->types, id, &type);
    return type;
}

static weft_status reserve(tokenizer *t, model_kind kind, const arrays *a, weft_error *err)
{
    size_t n_merges = a->merges == NULL ? 0 : (size_t)a->merges->n_elements;
    return pipeline_reserve(t, kind, (size_t)a->tokens->n_elements, n_merges, err);
}

/* How a kind of model takes one token. */
typedef weft_status put_token(tokenizer *t, int32_t id, str text, int64_t type, weft_error *err);

static weft_status read_tokens(tokenizer *t, const arrays *a, put_token *put, weft_error *err)
{
    uint64_t offset = 0;
    str text;
    weft_status status = WEFT_OK;
    for (uint32_t id = 0; status == WEFT_OK && gguf_next_text(a->tokens, &offset, &text); id++)
        status = put(t, (int32_t)id, text, type_of(a, id), err);
    return status;
}

/* User-defined tokens are found in the text as it stands. */
static weft_status put_plain(tokenizer *t, int32_t id, str text, int64_t type, weft_error *err)
{
    if (type != SP_USER_DEFINED) return sp_token(t, id, text, type, err);
    weft_status status = vocab_put(&t->vocab, id, text, VOCAB_ADDED, err);
    return status == WEFT_OK ? added_put(&t->added, text, (added_token){.id = id}, err) : status;
}

static weft_status read_scores(tokenizer *t, const arrays *a, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t id = 0; id < t->vocab.n && status == WEFT_OK; id++) {
        double score = 0.0;
        gguf_array_real(a->scores, id, &score);
        status = sp_score(t, (int32_t)id, type_of(a, id), score, err);
    }
    return status;
}

static bool has_bytes(const arrays *a)
{
    for (uint32_t id = 0; id < a->tokens->n_elements; id++) {
        if (type_of(a, id) == SP_BYTE) return true;
    }
    return false;
}

/* "a b": a space is never spelled as one, so the first one that is not the first byte parts
 * them. */
static weft_status read_merges(tokenizer *t, const gguf_value *merges, weft_error *err)
{
    uint64_t offset = 0;
    str text;
    for (uint32_t rank = 0; gguf_next_text(merges, &offset, &text); rank++) {
        const char *space = text.len < 3 ? NULL : memchr(text.ptr + 1, ' ', text.len - 1);
        if (space == NULL || space + 1 == text.ptr + text.len)
            return err_set(err, WEFT_FORMAT, "tokenizer: merge %u is not a pair", rank);
        size_t at = (size_t)(space - text.ptr);
        str left = {text.ptr, at};
        str right = {space + 1, text.len - at - 1};
        weft_status status = bpe_merge(&t->model.bpe, left, right, rank, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* ---- single values ---- */

static weft_status find_pre_type(const weights *w, const gguf_pre **pre, weft_error *err)
{
    str name;
    const gguf_value *value = weights_metadata(w, "tokenizer.ggml.pre");
    if (value == NULL)
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: the file names no pre-tokenizer");
    if (!gguf_text(value, &name))
        return err_set(err, WEFT_FORMAT, "tokenizer: tokenizer.ggml.pre is no text");
    *pre = gguf_pre_find(name);
    if (*pre != NULL) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "tokenizer: pre-tokenizer '%.*s' is not supported",
                   (int)(name.len < 80 ? name.len : 80), name.ptr);
}

/* -1 when absent. */
static weft_status read_id(const tokenizer *t, const weights *w, const char *key, int32_t *id,
                           weft_error *err)
{
    uint64_t number = 0;
    const gguf_value *value = weights_metadata(w, key);
    *id = -1;
    if (value == NULL) return WEFT_OK;
    if (!gguf_u64(value, &number) || number >= t->vocab.n) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s is %llu, expected a number below %u", key,
                       (unsigned long long)number, t->vocab.n);
    }
    *id = (int32_t)number;
    return WEFT_OK;
}

static weft_status read_flag(const weights *w, const char *key, bool fallback, bool *flag,
                             weft_error *err)
{
    const gguf_value *value = weights_metadata(w, key);
    *flag = fallback;
    if (value == NULL || gguf_bool(value, flag)) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer: %s is no boolean", key);
}

/* adds_bos and adds_eos: where the file does not say. */
static weft_status read_around(tokenizer *t, const weights *w, bool adds_bos, bool adds_eos,
                               weft_error *err)
{
    bool bos;
    bool eos;
    weft_status status = read_id(t, w, "tokenizer.ggml.bos_token_id", &t->bos, err);
    if (status == WEFT_OK) status = read_id(t, w, "tokenizer.ggml.eos_token_id", &t->eos, err);
    if (status == WEFT_OK)
        status = read_flag(w, "tokenizer.ggml.add_bos_token", adds_bos, &bos, err);
    if (status == WEFT_OK)
        status = read_flag(w, "tokenizer.ggml.add_eos_token", adds_eos, &eos, err);
    if (status != WEFT_OK) return status;
    if (bos && t->bos >= 0) t->around.before[t->around.n_before++] = t->bos;
    if (eos && t->eos >= 0) t->around.after[t->around.n_after++] = t->eos;
    return WEFT_OK;
}

/* ---- models ---- */

static weft_status load_gpt2(tokenizer *t, const weights *w, const arrays *a, weft_error *err)
{
    const gguf_pre *pre = NULL;
    weft_status status = find_pre_type(w, &pre, err);
    if (status != WEFT_OK) return status;
    if (a->merges == NULL) return missing("tokenizer.ggml.merges", err);
    status = reserve(t, MODEL_BPE, a, err);
    if (status == WEFT_OK) status = read_tokens(t, a, put_plain, err);
    if (status == WEFT_OK) status = read_merges(t, a->merges, err);
    for (size_t i = 0; status == WEFT_OK && pre->splits[i] != NULL; i++) {
        status =
            pretoken_split(&t->pretoken, str_of(pre->splits[i]), false, SPLIT_ISOLATED, false, err);
    }
    if (status == WEFT_OK) status = pretoken_bytelevel(&t->pretoken, false, false, err);
    if (status == WEFT_OK) status = read_around(t, w, pre->bos, false, err);
    if (status != WEFT_OK) return status;
    t->model.bpe.whole_words = pre->whole_words;
    status = decoder_add(&t->decoder, (decoder_step){.kind = DECODE_BYTELEVEL}, err);
    return status == WEFT_OK ? pipeline_finish(t, err) : status;
}

/* What all vocabularies of SentencePiece have; prefix: where the file does not say. */
static weft_status read_sp(tokenizer *t, const weights *w, const arrays *a, bool prefix,
                           sp_stages *stages, weft_error *err)
{
    *stages = (sp_stages){.bytes = has_bytes(a), .unknown = -1};
    weft_status status = read_tokens(t, a, sp_token, err);
    if (status == WEFT_OK)
        status = read_flag(w, "tokenizer.ggml.add_space_prefix", prefix, &stages->prefix, err);
    if (status != WEFT_OK) return status;
    return read_id(t, w, "tokenizer.ggml.unknown_token_id", &stages->unknown, err);
}

static weft_status load_llama(tokenizer *t, const weights *w, const arrays *a, weft_error *err)
{
    sp_stages stages;
    if (a->scores == NULL) return missing("tokenizer.ggml.scores", err);
    weft_status status = reserve(t, MODEL_BPE, a, err);
    if (status == WEFT_OK) status = read_sp(t, w, a, true, &stages, err);
    if (status == WEFT_OK) status = read_scores(t, a, err);
    if (status == WEFT_OK) status = read_around(t, w, true, false, err);
    return status == WEFT_OK ? sp_finish(t, &stages, err) : status;
}

/* The same with merges in the place of scores. */
static weft_status load_gemma4(tokenizer *t, const weights *w, const arrays *a, weft_error *err)
{
    sp_stages stages;
    if (a->merges == NULL) return missing("tokenizer.ggml.merges", err);
    weft_status status = reserve(t, MODEL_BPE, a, err);
    if (status == WEFT_OK) status = read_sp(t, w, a, false, &stages, err);
    if (status == WEFT_OK) status = read_merges(t, a->merges, err);
    if (status == WEFT_OK) status = read_around(t, w, true, false, err);
    return status == WEFT_OK ? sp_finish(t, &stages, err) : status;
}

static weft_status read_charsmap(const weights *w, str *blob, weft_error *err)
{
    static const char KEY[] = "tokenizer.ggml.precompiled_charsmap";
    const gguf_value *value;
    weft_status status = expect_array(w, KEY, GGUF_U8, GGUF_I8, &value, err);
    if (status == WEFT_OK && value != NULL)
        *blob = (str){(const char *)value->data, (size_t)value->n_bytes};
    return status;
}

static weft_status load_t5(tokenizer *t, const weights *w, const arrays *a, weft_error *err)
{
    static const char COLLAPSE[] = "tokenizer.ggml.remove_extra_whitespaces";
    sp_stages stages;
    if (a->scores == NULL) return missing("tokenizer.ggml.scores", err);
    weft_status status = reserve(t, MODEL_UNIGRAM, a, err);
    if (status == WEFT_OK) status = read_sp(t, w, a, true, &stages, err);
    if (status == WEFT_OK) status = read_scores(t, a, err);
    if (status == WEFT_OK) status = read_flag(w, COLLAPSE, false, &stages.one_space, err);
    if (status == WEFT_OK) status = read_charsmap(w, &stages.charsmap, err);
    if (status == WEFT_OK) status = read_around(t, w, false, true, err);
    return status == WEFT_OK ? sp_finish(t, &stages, err) : status;
}

/* ---- BERT's model ---- */

/* Tokens that start a word stand with a U+2581 ahead, those that go on with one without their
 * "##"; names in brackets are as they were. */
static weft_status put_bert(tokenizer *t, int32_t id, str text, int64_t type, weft_error *err)
{
    strbuf buf;
    strbuf_init(&buf, t->allocator, 0);
    if (str_starts(text, "\xe2\x96\x81")) {
        text = (str){text.ptr + 3, text.len - 3};
    } else if (!str_starts(text, "[") || !str_ends(text, "]")) {
        strbuf_add_text(&buf, "##");
    }
    weft_status status = strbuf_add(&buf, text.ptr, text.len);
    if (status == WEFT_OK) {
        status = put_plain(t, id, (str){strbuf_text(&buf), buf.len}, type, err);
    } else {
        err_set(err, status, "out of memory for the vocabulary");
    }
    strbuf_deinit(&buf);
    return status;
}

static weft_status read_bert_around(tokenizer *t, const weights *w, weft_error *err)
{
    int32_t cls;
    int32_t sep;
    weft_status status = read_id(t, w, "tokenizer.ggml.bos_token_id", &t->bos, err);
    if (status == WEFT_OK) status = read_id(t, w, "tokenizer.ggml.eos_token_id", &t->eos, err);
    if (status == WEFT_OK) status = read_id(t, w, "tokenizer.ggml.cls_token_id", &cls, err);
    if (status == WEFT_OK) status = read_id(t, w, "tokenizer.ggml.seperator_token_id", &sep, err);
    if (status != WEFT_OK) return status;
    if (cls < 0) cls = t->bos;
    if (cls < 0) cls = vocab_find(&t->vocab, str_of("[CLS]"));
    if (sep < 0) sep = t->eos;
    if (sep < 0) sep = vocab_find(&t->vocab, str_of("[SEP]"));
    if (cls >= 0) t->around.before[t->around.n_before++] = cls;
    if (sep >= 0) t->around.after[t->around.n_after++] = sep;
    return WEFT_OK;
}

/* As the tokenizer of uncased models, which is what such a file can say. */
static weft_status add_bert_stages(tokenizer *t, weft_error *err)
{
    static const normalizer_kind STEPS[] = {NORMALIZE_CLEAN, NORMALIZE_IDEOGRAPHS, NORMALIZE_NFD,
                                            NORMALIZE_NO_NONSPACING, NORMALIZE_LOWERCASE};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(STEPS) && status == WEFT_OK; i++)
        status = normalizer_add(&t->normalizer, STEPS[i], err);
    if (status == WEFT_OK) status = pretoken_class(&t->pretoken, char_is_space, SPLIT_REMOVED, err);
    if (status == WEFT_OK)
        status = pretoken_class(&t->pretoken, char_is_punctuation, SPLIT_ISOLATED, err);
    decoder_step step = {.kind = DECODE_WORDPIECE, .text = str_of("##")};
    if (status == WEFT_OK) status = decoder_add(&t->decoder, step, err);
    if (status != WEFT_OK) return status;
    return decoder_add(&t->decoder, (decoder_step){.kind = DECODE_CLEANUP}, err);
}

static weft_status load_bert(tokenizer *t, const weights *w, const arrays *a, weft_error *err)
{
    wordpiece *model_of = &t->model.wordpiece;
    weft_status status = reserve(t, MODEL_WORDPIECE, a, err);
    if (status == WEFT_OK) status = read_tokens(t, a, put_bert, err);
    if (status == WEFT_OK)
        status = read_id(t, w, "tokenizer.ggml.unknown_token_id", &model_of->unknown, err);
    if (status == WEFT_OK) status = read_bert_around(t, w, err);
    if (status == WEFT_OK) status = add_bert_stages(t, err);
    if (status != WEFT_OK) return status;
    model_of->prefix = str_of("##");
    if (model_of->unknown < 0) model_of->unknown = vocab_find(&t->vocab, str_of("[UNK]"));
    return pipeline_finish(t, err);
}

/* ---- the file ---- */

bool load_gguf_present(const weights *w)
{
    str kind;
    const gguf_value *value = weights_metadata(w, "tokenizer.ggml.model");
    if (value == NULL) return false;
    if (!gguf_text(value, &kind)) return true;
    return !str_equal_text(kind, "none") && !str_equal_text(kind, "no_vocab");
}

weft_status load_gguf(tokenizer *t, const weights *w, weft_error *err)
{
    static const struct {
        const char *name;
        weft_status (*load)(tokenizer *t, const weights *w, const arrays *a, weft_error *err);
    } KINDS[] = {{"gpt2", load_gpt2},
                 {"llama", load_llama},
                 {"gemma4", load_gemma4},
                 {"bert", load_bert},
                 {"t5", load_t5}};
    str kind;
    arrays a = {0};
    if (!gguf_text(weights_metadata(w, "tokenizer.ggml.model"), &kind))
        return err_set(err, WEFT_FORMAT, "tokenizer: tokenizer.ggml.model is no text");
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (!str_equal_text(kind, KINDS[i].name)) continue;
        weft_status status = find_arrays(w, &a, err);
        return status == WEFT_OK ? KINDS[i].load(t, w, &a, err) : status;
    }
    return err_set(err, WEFT_UNSUPPORTED, "tokenizer: model '%.*s' is not supported",
                   (int)(kind.len < 80 ? kind.len : 80), kind.ptr);
}
