/* json_model.c - the model in tokenizer.json, by its kind.
 * Source: the serialized form of tokenizers 0.23. */
#include <string.h>

#include "base/assert.h"
#include "tokenizer/load_json.h"

static weft_status read_vocab(tokenizer *t, const json *list, weft_error *err)
{
    json_iter iter = {NULL};
    str text;
    const json *id;
    while (json_next(list, &iter, &text, &id)) {
        if (json_kind_of(id) != JSON_KIND_INT) return json_wrong("an id", "an integer", id, err);
        weft_status status = vocab_put(&t->vocab, json_int(id, -1), text, VOCAB_MODEL, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* "a b" or ["a", "b"]. */
static weft_status read_merge(tokenizer *t, const json *value, uint32_t rank, weft_error *err)
{
    str left = json_text(json_at(value, 0));
    str right = json_text(json_at(value, 1));
    if (json_kind_of(value) == JSON_KIND_TEXT) {
        str both = json_text(value);
        const char *space = both.len == 0 ? NULL : memchr(both.ptr, ' ', both.len);
        size_t at = space == NULL ? both.len : (size_t)(space - both.ptr);
        left = (str){both.ptr, at};
        right = (str){both.ptr + at + 1, space == NULL ? 0 : both.len - at - 1};
        if (right.len != 0 && memchr(right.ptr, ' ', right.len) != NULL) right.len = 0;
    } else if (json_length(value) != 2) {
        right.len = 0;
    }
    if (left.len == 0 || right.len == 0)
        return err_set(err, WEFT_FORMAT, "tokenizer: merge %u is not a pair", rank);
    return bpe_merge(&t->model.bpe, left, right, rank, err);
}

/* A copy that lasts as long as the vocabulary. */
static weft_status keep_text(tokenizer *t, const json *source, const char *key, str *text,
                             weft_error *err)
{
    weft_status status = json_read_text(source, key, text, err);
    if (status != WEFT_OK || text->len == 0) return status;
    text->ptr = arena_copy_text(&t->vocab.arena, text->ptr, text->len);
    return text->ptr != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for the model");
}

static weft_status find_unknown(const tokenizer *t, const json *source, int32_t *id,
                                weft_error *err)
{
    str unknown;
    weft_status status = json_read_text(source, "unk_token", &unknown, err);
    if (status == WEFT_OK && unknown.len != 0) *id = vocab_find(&t->vocab, unknown);
    return status;
}

static weft_status reserve_and_read(tokenizer *t, model_kind kind, const json *source,
                                    size_t n_added, size_t n_merges, weft_error *err)
{
    const json *list = json_get(source, "vocab");
    weft_status status = json_expect(list, JSON_KIND_OBJECT, "'vocab' of the model", err);
    if (status != WEFT_OK) return status;
    status = pipeline_reserve(t, kind, json_length(list) + n_added, n_merges, err);
    return status == WEFT_OK ? read_vocab(t, list, err) : status;
}

static weft_status read_bpe(tokenizer *t, const json *source, size_t n_added, weft_error *err)
{
    const json *merges = json_get(source, "merges");
    size_t n_merges = json_length(merges);
    bpe *b = &t->model.bpe;
    if (json_number(json_get(source, "dropout"), 0.0) != 0.0)
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: 'dropout' of the model is not supported");
    if (n_merges > TOKENIZER_FILE_BYTES)
        return err_set(err, WEFT_LIMIT, "tokenizer: %zu merges are too many", n_merges);
    weft_status status = json_expect(merges, JSON_KIND_ARRAY, "'merges' of the model", err);
    if (status == WEFT_OK) status = reserve_and_read(t, MODEL_BPE, source, n_added, n_merges, err);
    if (status == WEFT_OK)
        status = keep_text(t, source, "continuing_subword_prefix", &b->prefix, err);
    if (status == WEFT_OK) status = keep_text(t, source, "end_of_word_suffix", &b->suffix, err);
    for (size_t i = 0; i < n_merges && status == WEFT_OK; i++)
        status = read_merge(t, json_at(merges, i), (uint32_t)i, err);
    if (status != WEFT_OK) return status;
    b->byte_fallback = json_bool(json_get(source, "byte_fallback"), false);
    b->whole_words = json_bool(json_get(source, "ignore_merges"), false);
    b->fuse_unknown = json_bool(json_get(source, "fuse_unk"), false);
    return find_unknown(t, source, &b->unknown, err);
}

static weft_status read_wordpiece(tokenizer *t, const json *source, size_t n_added, weft_error *err)
{
    wordpiece *w = &t->model.wordpiece;
    int64_t most = json_int(json_get(source, "max_input_chars_per_word"), 100);
    weft_status status = reserve_and_read(t, MODEL_WORDPIECE, source, n_added, 0, err);
    if (status == WEFT_OK)
        status = keep_text(t, source, "continuing_subword_prefix", &w->prefix, err);
    if (status != WEFT_OK) return status;
    w->max_chars = most < 0 ? 0 : (uint64_t)most;
    return find_unknown(t, source, &w->unknown, err);
}

static weft_status read_wordlevel(tokenizer *t, const json *source, size_t n_added, weft_error *err)
{
    weft_status status = reserve_and_read(t, MODEL_WORDLEVEL, source, n_added, 0, err);
    return status == WEFT_OK ? find_unknown(t, source, &t->model.unknown, err) : status;
}

/* A list of texts with scores, in the order of their ids. */
static weft_status read_unigram(tokenizer *t, const json *source, size_t n_added, weft_error *err)
{
    const json *list = json_get(source, "vocab");
    unigram *u = &t->model.unigram;
    size_t n = json_length(list);
    int64_t unknown = json_int(json_get(source, "unk_id"), -1);
    weft_status status = json_expect(list, JSON_KIND_ARRAY, "'vocab' of the model", err);
    if (status == WEFT_OK) status = pipeline_reserve(t, MODEL_UNIGRAM, n + n_added, 0, err);
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        const json *text = json_at(json_at(list, i), 0);
        double score = json_number(json_at(json_at(list, i), 1), 0.0);
        status = json_expect(text, JSON_KIND_TEXT, "a token of the model", err);
        unigram_put(u, (int32_t)i, score);
        if (status == WEFT_OK)
            status = vocab_put(&t->vocab, (int64_t)i, json_text(text), VOCAB_MODEL, err);
    }
    if (status != WEFT_OK) return status;
    if (unknown >= (int64_t)n) {
        return err_set(err, WEFT_FORMAT, "tokenizer: 'unk_id' %lld is not below %zu",
                       (long long)unknown, n);
    }
    u->unknown = unknown < 0 ? -1 : (int32_t)unknown;
    u->byte_fallback = json_bool(json_get(source, "byte_fallback"), false);
    return WEFT_OK;
}

/* Older files do not name the kind. */
static const char *guess_kind(const json *source)
{
    if (json_get(source, "merges") != NULL) return "BPE";
    if (json_kind_of(json_get(source, "vocab")) == JSON_KIND_ARRAY) return "Unigram";
    return json_get(source, "max_input_chars_per_word") != NULL ? "WordPiece" : "WordLevel";
}

weft_status json_read_model(tokenizer *t, const json *value, size_t n_added, weft_error *err)
{
    static const struct {
        const char *name;
        weft_status (*read)(tokenizer *t, const json *source, size_t n_added, weft_error *err);
    } KINDS[] = {{"BPE", read_bpe},
                 {"Unigram", read_unigram},
                 {"WordPiece", read_wordpiece},
                 {"WordLevel", read_wordlevel}};
    weft_status status = json_expect(value, JSON_KIND_OBJECT, "'model'", err);
    if (status != WEFT_OK) return status;
    str kind = json_text(json_get(value, "type"));
    if (json_is_null(json_get(value, "type")) && json_get(value, "vocab") != NULL)
        kind = str_of(guess_kind(value));
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (str_equal_text(kind, KINDS[i].name)) return KINDS[i].read(t, value, n_added, err);
    }
    return json_unknown("model", kind, err);
}
