/* json_model.c - the model in tokenizer.json, by its kind.
 * Source: the serialized form of tokenizers 0.23. */
#include <string.h>

#include "base/assert.h"
#include "tokenizer/cache.h"
#include "tokenizer/load_json.h"

/* The model of the file, and the lists that were cut out of it. */
typedef struct model_source {
    const json *json;
    const json_cut *cut;
    strbuf *room; /* for texts with escapes */
    strbuf *left; /* for the left part of a merge */
} model_source;

static weft_status expect_list(str span, json_kind kind, const json *value, const char *what,
                               weft_error *err)
{
    json_kind is = json_kind_of(value);
    if (span.len != 0 && is == kind) return WEFT_OK;
    return json_wrong(what, json_kind_name(kind), value, err);
}

static weft_status wrong_kind(const char *what, const char *expected, json_reader *r,
                              weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer: %s is %s, expected %s", what,
                   json_kind_name(json_reader_kind(r)), expected);
}

static weft_status put_token(tokenizer *t, int64_t id, str text, weft_error *err)
{
    int32_t before = vocab_find(&t->vocab, text);
    if (before < 0) return vocab_put(&t->vocab, id, text, VOCAB_MODEL, err);
    return err_set(err, WEFT_FORMAT, "tokenizer: the vocabulary has '%.*s' twice, as %d and %lld",
                   (int)(text.len < 100 ? text.len : 100), text.ptr, before, (long long)id);
}

static weft_status read_vocab(tokenizer *t, const model_source *source, weft_error *err)
{
    json_reader r;
    bool first = true;
    bool more;
    json_reader_init(&r, source->cut->vocab, source->room);
    r.base = source->cut->vocab_at;
    weft_status status = json_reader_open(&r, '{', err);
    while (status == WEFT_OK) {
        str text;
        int64_t id;
        status = json_reader_more(&r, '{', &first, &more, err);
        if (status != WEFT_OK || !more) break;
        status = json_reader_key(&r, &text, err);
        if (status != WEFT_OK) break;
        if (json_reader_kind(&r) != JSON_KIND_INT)
            return wrong_kind("an id", "an integer", &r, err);
        status = json_reader_int(&r, &id, err);
        if (status == WEFT_OK) status = put_token(t, id, text, err);
    }
    return status;
}

static weft_status no_pair(uint32_t rank, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer: merge %u is not a pair", rank);
}

/* ["a", "b"], behind the bracket. The second text may take the place of the first. */
static weft_status read_pair(tokenizer *t, const model_source *source, json_reader *r,
                             uint32_t rank, weft_error *err)
{
    bool first = true;
    bool more = false;
    str part[2];
    for (int i = 0; i < 3; i++) {
        weft_status status = json_reader_more(r, '[', &first, &more, err);
        if (status != WEFT_OK) return status;
        if (more != (i < 2)) return no_pair(rank, err);
        if (i == 2) break;
        if (json_reader_kind(r) != JSON_KIND_TEXT) return no_pair(rank, err);
        status = json_reader_text(r, &part[i], err);
        if (status != WEFT_OK) return status;
        if (part[i].len == 0) return no_pair(rank, err);
        if (i == 1 || part[0].ptr != source->room->ptr) continue;
        strbuf_clear(source->left);
        status = strbuf_add(source->left, part[0].ptr, part[0].len);
        if (status != WEFT_OK) return err_set(err, status, "out of memory for merges");
        part[0].ptr = source->left->ptr;
    }
    return bpe_merge(&t->model.bpe, part[0], part[1], rank, err);
}

/* "a b" or ["a", "b"]. */
static weft_status read_merge(tokenizer *t, const model_source *source, json_reader *r,
                              uint32_t rank, weft_error *err)
{
    json_kind kind = json_reader_kind(r);
    if (kind == JSON_KIND_ARRAY) {
        weft_status status = json_reader_open(r, '[', err);
        return status == WEFT_OK ? read_pair(t, source, r, rank, err) : status;
    }
    if (kind != JSON_KIND_TEXT) return no_pair(rank, err);
    str both;
    weft_status status = json_reader_text(r, &both, err);
    if (status != WEFT_OK) return status;
    const char *space = both.len == 0 ? NULL : memchr(both.ptr, ' ', both.len);
    if (space == NULL) return no_pair(rank, err);
    str left = {both.ptr, (size_t)(space - both.ptr)};
    str right = {space + 1, both.len - left.len - 1};
    if (left.len == 0 || right.len == 0 || memchr(right.ptr, ' ', right.len) != NULL)
        return no_pair(rank, err);
    return bpe_merge(&t->model.bpe, left, right, rank, err);
}

static weft_status read_merges(tokenizer *t, const model_source *source, weft_error *err)
{
    json_reader r;
    bool first = true;
    bool more;
    json_reader_init(&r, source->cut->merges, source->room);
    r.base = source->cut->merges_at;
    weft_status status = json_reader_open(&r, '[', err);
    for (uint32_t i = 0; status == WEFT_OK; i++) {
        status = json_reader_more(&r, '[', &first, &more, err);
        if (status != WEFT_OK || !more) break;
        status = read_merge(t, source, &r, i, err);
    }
    return status;
}

/* A copy that lasts as long as the vocabulary. */
static weft_status keep_text(tokenizer *t, const model_source *source, const char *key, str *text,
                             weft_error *err)
{
    weft_status status = json_read_text(source->json, key, text, err);
    if (status != WEFT_OK || text->len == 0) return status;
    text->ptr = arena_copy_text(&t->vocab.arena, text->ptr, text->len);
    return text->ptr != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for the model");
}

static weft_status find_unknown(const tokenizer *t, const model_source *source, int32_t *id,
                                weft_error *err)
{
    str unknown;
    if (source->cut->cached != NULL) {
        *id = cache_unknown(source->cut->cached);
        return WEFT_OK;
    }
    weft_status status = json_read_text(source->json, "unk_token", &unknown, err);
    if (status == WEFT_OK && unknown.len != 0) *id = vocab_find(&t->vocab, unknown);
    return status;
}

static weft_status reserve_and_read(tokenizer *t, model_kind kind, const model_source *source,
                                    size_t n_added, size_t n_merges, weft_error *err)
{
    const json_cut *cut = source->cut;
    if (cut->cached != NULL) return cache_restore_model(cut->cached, t, kind, err);
    weft_status status = expect_list(cut->vocab, JSON_KIND_OBJECT, json_get(source->json, "vocab"),
                                     "'vocab' of the model", err);
    if (status != WEFT_OK) return status;
    status = pipeline_reserve(t, kind, cut->n_vocab + n_added, n_merges, err);
    return status == WEFT_OK ? read_vocab(t, source, err) : status;
}

static weft_status read_bpe(tokenizer *t, const model_source *source, size_t n_added,
                            weft_error *err)
{
    const json *root = source->json;
    size_t n_merges = source->cut->n_merges;
    bpe *b = &t->model.bpe;
    if (json_number(json_get(root, "dropout"), 0.0) != 0.0)
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: 'dropout' of the model is not supported");
    if (n_merges > TOKENIZER_FILE_BYTES)
        return err_set(err, WEFT_LIMIT, "tokenizer: %zu merges are too many", n_merges);
    weft_status status = WEFT_OK;
    if (source->cut->cached == NULL) {
        status = expect_list(source->cut->merges, JSON_KIND_ARRAY, json_get(root, "merges"),
                             "'merges' of the model", err);
    }
    if (status == WEFT_OK) status = reserve_and_read(t, MODEL_BPE, source, n_added, n_merges, err);
    if (status == WEFT_OK)
        status = keep_text(t, source, "continuing_subword_prefix", &b->prefix, err);
    if (status == WEFT_OK) status = keep_text(t, source, "end_of_word_suffix", &b->suffix, err);
    if (status == WEFT_OK && source->cut->cached == NULL) status = read_merges(t, source, err);
    if (status != WEFT_OK) return status;
    b->byte_fallback = json_bool(json_get(root, "byte_fallback"), false);
    b->whole_words = json_bool(json_get(root, "ignore_merges"), false);
    b->fuse_unknown = json_bool(json_get(root, "fuse_unk"), false);
    return find_unknown(t, source, &b->unknown, err);
}

static weft_status read_wordpiece(tokenizer *t, const model_source *source, size_t n_added,
                                  weft_error *err)
{
    wordpiece *w = &t->model.wordpiece;
    int64_t most = json_int(json_get(source->json, "max_input_chars_per_word"), 100);
    weft_status status = reserve_and_read(t, MODEL_WORDPIECE, source, n_added, 0, err);
    if (status == WEFT_OK)
        status = keep_text(t, source, "continuing_subword_prefix", &w->prefix, err);
    if (status != WEFT_OK) return status;
    w->max_chars = most < 0 ? 0 : (uint64_t)most;
    return find_unknown(t, source, &w->unknown, err);
}

static weft_status read_wordlevel(tokenizer *t, const model_source *source, size_t n_added,
                                  weft_error *err)
{
    weft_status status = reserve_and_read(t, MODEL_WORDLEVEL, source, n_added, 0, err);
    return status == WEFT_OK ? find_unknown(t, source, &t->model.unknown, err) : status;
}

/* ["text", score], behind the bracket; what else is there is not looked at. */
static weft_status read_piece(tokenizer *t, json_reader *r, uint32_t id, weft_error *err)
{
    bool first = true;
    bool more;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK; i++) {
        str text;
        size_t n;
        double score = 0.0;
        status = json_reader_more(r, '[', &first, &more, err);
        if (status != WEFT_OK || !more)
            return i == 0 && status == WEFT_OK
                       ? err_set(err, WEFT_FORMAT, "tokenizer: piece %u is empty", id)
                       : status;
        if (i == 0) {
            if (json_reader_kind(r) != JSON_KIND_TEXT)
                return wrong_kind("a token of the model", "text", r, err);
            status = json_reader_text(r, &text, err);
            unigram_put(&t->model.unigram, (int32_t)id, 0.0);
            if (status == WEFT_OK) status = vocab_put(&t->vocab, id, text, VOCAB_MODEL, err);
        } else if (i == 1 && json_reader_kind(r) == JSON_KIND_INT) {
            status = json_reader_number(r, &score, err);
            unigram_put(&t->model.unigram, (int32_t)id, score);
        } else {
            status = json_reader_skip(r, &text, &n, err);
        }
    }
    return status;
}

/* A list of texts with scores, in the order of their ids. */
static weft_status read_pieces(tokenizer *t, const model_source *source, weft_error *err)
{
    json_reader r;
    bool first = true;
    bool more;
    json_reader_init(&r, source->cut->vocab, source->room);
    r.base = source->cut->vocab_at;
    weft_status status = json_reader_open(&r, '[', err);
    for (uint32_t i = 0; status == WEFT_OK; i++) {
        status = json_reader_more(&r, '[', &first, &more, err);
        if (status != WEFT_OK || !more) break;
        if (json_reader_kind(&r) != JSON_KIND_ARRAY)
            return wrong_kind("a token of the model", "array", &r, err);
        status = json_reader_open(&r, '[', err);
        if (status == WEFT_OK) status = read_piece(t, &r, i, err);
    }
    return status;
}

static weft_status reserve_and_read_pieces(tokenizer *t, const model_source *source, size_t n_added,
                                           weft_error *err)
{
    const json_cut *cut = source->cut;
    if (cut->cached != NULL) return cache_restore_model(cut->cached, t, MODEL_UNIGRAM, err);
    weft_status status = expect_list(cut->vocab, JSON_KIND_ARRAY, json_get(source->json, "vocab"),
                                     "'vocab' of the model", err);
    if (status == WEFT_OK)
        status = pipeline_reserve(t, MODEL_UNIGRAM, cut->n_vocab + n_added, 0, err);
    return status == WEFT_OK ? read_pieces(t, source, err) : status;
}

static weft_status read_unigram(tokenizer *t, const model_source *source, size_t n_added,
                                weft_error *err)
{
    const json *root = source->json;
    unigram *u = &t->model.unigram;
    size_t n = source->cut->n_vocab;
    int64_t unknown = json_int(json_get(root, "unk_id"), -1);
    weft_status status = reserve_and_read_pieces(t, source, n_added, err);
    if (status != WEFT_OK) return status;
    if (unknown >= (int64_t)n) {
        return err_set(err, WEFT_FORMAT, "tokenizer: 'unk_id' %lld is not below %zu",
                       (long long)unknown, n);
    }
    u->unknown = unknown < 0 ? -1 : (int32_t)unknown;
    u->byte_fallback = json_bool(json_get(root, "byte_fallback"), false);
    return WEFT_OK;
}

/* Older files do not name the kind. */
static const char *guess_kind(const json *source)
{
    if (json_get(source, "merges") != NULL) return "BPE";
    if (json_kind_of(json_get(source, "vocab")) == JSON_KIND_ARRAY) return "Unigram";
    return json_get(source, "max_input_chars_per_word") != NULL ? "WordPiece" : "WordLevel";
}

weft_status json_read_model(tokenizer *t, const json *value, const json_cut *cut, size_t n_added,
                            weft_error *err)
{
    static const struct {
        const char *name;
        weft_status (*read)(tokenizer *t, const model_source *source, size_t n_added,
                            weft_error *err);
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
        if (!str_equal_text(kind, KINDS[i].name)) continue;
        strbuf room;
        strbuf left;
        strbuf_init(&room, t->allocator, 0);
        strbuf_init(&left, t->allocator, 0);
        model_source source = {value, cut, &room, &left};
        status = KINDS[i].read(t, &source, n_added, err);
        strbuf_deinit(&room);
        strbuf_deinit(&left);
        return status;
    }
    return json_unknown("model", kind, err);
}
