/* tokenizer.c - the pipeline from text to ids, and the functions of tokenizer.h. */
#include "tokenizer/tokenizer.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/cache.h"
#include "tokenizer/load_sp.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/token_list.h"

/* ---- making ---- */

weft_status pipeline_create(const weft_allocator *allocator, tokenizer **out, weft_error *err)
{
    tokenizer *t = mem_alloc_zero(allocator, sizeof *t);
    *out = t;
    if (t == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a tokenizer");
    t->allocator = allocator;
    t->bos = -1;
    t->eos = -1;
    weft_status status = added_init(&t->added, allocator, err);
    if (status == WEFT_OK) status = added_init(&t->added_normalized, allocator, err);
    if (status == WEFT_OK) status = normalizer_init(&t->normalizer, allocator, err);
    if (status == WEFT_OK) status = pretoken_init(&t->pretoken, allocator, err);
    if (status == WEFT_OK) status = decoder_init(&t->decoder, allocator, err);
    return status;
}

weft_status pipeline_reserve(tokenizer *t, model_kind kind, size_t n_tokens, size_t n_merges,
                             weft_error *err)
{
    model *m = &t->model;
    m->kind = kind;
    m->vocab = &t->vocab;
    m->unknown = -1;
    weft_status status = vocab_init(&t->vocab, t->allocator, n_tokens, err);
    if (status != WEFT_OK) return status;
    if (kind == MODEL_BPE) return bpe_init(&m->bpe, t->allocator, &t->vocab, n_merges, err);
    if (kind == MODEL_WORDPIECE) return wordpiece_init(&m->wordpiece, t->allocator, err);
    if (kind == MODEL_WORDLEVEL) return WEFT_OK;
    return unigram_init(&m->unigram, t->allocator, &t->vocab, n_tokens, err);
}

/* An added token of a byte-level vocabulary is not spelled in its alphabet. */
weft_status pipeline_token(const tokenizer *t, decoder_scratch *scratch, int32_t id, bool first,
                           str *bytes, weft_error *err)
{
    const vocab_entry *entry = &t->vocab.entries[id];
    bool plain = (entry->flags & VOCAB_ADDED) != 0 && t->decoder.n_steps == 1 &&
                 t->decoder.steps[0].kind == DECODE_BYTELEVEL;
    *bytes = (str){entry->text, entry->text_len};
    return plain ? WEFT_OK : decoder_token(&t->decoder, scratch, *bytes, first, bytes, err);
}

static weft_status fill_bytes(tokenizer *t, int32_t id, decoder_scratch *scratch, strbuf *word,
                              weft_error *err)
{
    str bytes;
    weft_status status = pipeline_token(t, scratch, id, false, &bytes, err);
    if (status == WEFT_OK && t->decoder.suffix.len != 0) {
        strbuf_clear(word);
        status = decoder_end_word(&t->decoder, bytes, false, word);
        if (status != WEFT_OK) return err_set(err, status, "out of memory for the vocabulary");
        bytes = (str){strbuf_text(word), word->len};
    }
    return status == WEFT_OK ? vocab_set_bytes(&t->vocab, id, bytes, err) : status;
}

weft_status pipeline_finish(tokenizer *t, weft_error *err)
{
    weft_status status = model_finish(&t->model, t->pretoken.bytes, err);
    decoder_scratch scratch;
    strbuf word;
    decoder_scratch_init(&scratch, t->allocator);
    strbuf_init(&word, t->allocator, 0);
    for (uint32_t id = 0; id < t->vocab.n && !t->restored && status == WEFT_OK; id++) {
        if (t->vocab.entries[id].flags != 0)
            status = fill_bytes(t, (int32_t)id, &scratch, &word, err);
    }
    strbuf_deinit(&word);
    decoder_scratch_deinit(&scratch);
    return status;
}

void tokenizer_destroy(tokenizer *t)
{
    if (t == NULL) return;
    model_deinit(&t->model);
    decoder_deinit(&t->decoder);
    pretoken_deinit(&t->pretoken);
    normalizer_deinit(&t->normalizer);
    added_deinit(&t->added_normalized);
    added_deinit(&t->added);
    vocab_deinit(&t->vocab);
    if (t->map.data != NULL) t->files->unmap(t->files, &t->map);
    mem_free(t->allocator, t, sizeof *t);
}

/* place: where its cache goes; NULL: none is written. */
static weft_status parse(const env *environment, const char *json_text, size_t n_bytes,
                         const cache_place *place, tokenizer **out, weft_error *err)
{
    *out = NULL;
    if (n_bytes > TOKENIZER_FILE_BYTES) {
        return err_set(err, WEFT_LIMIT, "tokenizer: %zu bytes, at most %d are supported", n_bytes,
                       TOKENIZER_FILE_BYTES);
    }
    json_doc doc = {NULL};
    json_cut cut;
    tokenizer *t = NULL;
    weft_status status =
        json_cut_init(&cut, environment->allocator, (str){json_text, n_bytes}, err);
    if (status == WEFT_OK) status = json_parse(&doc, strbuf_text(&cut.rest), cut.rest.len, err);
    if (status != WEFT_OK) {
        err_context(err, "tokenizer: ");
    } else {
        status = pipeline_create(environment->allocator, &t, err);
    }
    if (status == WEFT_OK) status = load_json(t, doc.root, &cut, err);
    if (status == WEFT_OK && place != NULL)
        cache_save(environment, place, t, &cut, (str){json_text, n_bytes});
    json_doc_free(&doc);
    json_cut_deinit(&cut);
    if (status != WEFT_OK) {
        tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

weft_status tokenizer_parse(const env *environment, const char *json_text, size_t n_bytes,
                            tokenizer **out, weft_error *err)
{
    return parse(environment, json_text, n_bytes, NULL, out, err);
}

/* ---- opening ---- */

/* A file of the folder; text NULL when it is not there. */
typedef struct sibling {
    const weft_allocator *allocator;
    char *text;
    size_t n_bytes;
} sibling;

static weft_status sibling_read(sibling *s, const weights *w, const char *name, weft_error *err)
{
    s->allocator = w->env.allocator;
    s->text = NULL;
    return weights_read_sibling(w, name, TOKENIZER_FILE_BYTES, &s->text, &s->n_bytes, err);
}

static void sibling_free(sibling *s)
{
    if (s->text != NULL) mem_free(s->allocator, s->text, s->n_bytes + 1);
}

/* *doc stays empty when there is none. */
static weft_status open_config(const weights *w, json_doc *doc, weft_error *err)
{
    static const char NAME[] = "tokenizer_config.json";
    sibling file;
    doc->root = NULL;
    weft_status status = sibling_read(&file, w, NAME, err);
    if (status != WEFT_OK || file.text == NULL) return status;
    status = json_parse(doc, file.text, file.n_bytes, err);
    if (status != WEFT_OK) err_context(err, "%s: ", NAME);
    sibling_free(&file);
    return status;
}

/* Files that a folder may have in the place of tokenizer.json, and the pre-tokenizer that goes
 * with one of tiktoken's. Whose tokenizer.model is one of those is Llama 3. */
static const struct {
    const char *name;
    const char *pre;
} FILES[] = {{"tokenizer.model", "llama3"},
             {"qwen.tiktoken", "qwen2"},
             {"tiktoken.model", "kimi-k2"},
             {"o200k_base.tiktoken", "gpt-4o"}};

static weft_status load_file(const env *world, str file, const char *pre, const json *config,
                             tokenizer **out, weft_error *err)
{
    tokenizer *t = NULL;
    *out = NULL;
    weft_status status = pipeline_create(world->allocator, &t, err);
    if (status == WEFT_OK) {
        status = load_tiktoken_looks(file) ? load_tiktoken(t, file, pre, config, err)
                                           : load_sp(t, file, config, err);
    }
    if (status != WEFT_OK) {
        tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

weft_status tokenizer_parse_model(const env *environment, str file, const char *pre,
                                  tokenizer **out, weft_error *err)
{
    return load_file(environment, file, pre, NULL, out, err);
}

static weft_status open_other(const weights *w, const json *config, tokenizer **out,
                              weft_error *err)
{
    for (size_t i = 0; i < COUNT_OF(FILES); i++) {
        sibling file;
        weft_status status = sibling_read(&file, w, FILES[i].name, err);
        if (status != WEFT_OK) return status;
        if (file.text == NULL) continue;
        str text = {file.text, file.n_bytes};
        status = load_file(&w->env, text, FILES[i].pre, config, out, err);
        sibling_free(&file);
        return status;
    }
    return WEFT_OK;
}

/* *t stays NULL when it is not there. */
static weft_status open_json(const weights *w, const tokenizer_cache *cache, tokenizer **t,
                             weft_error *err)
{
    static const char NAME[] = "tokenizer.json";
    char path[WEIGHTS_PATH_BYTES];
    cache_place place;
    bool caches = cache != NULL && cache->folder != NULL && w->format->is_folder &&
                  weights_sibling(w, NAME, path, sizeof path, NULL) == WEFT_OK;
    if (caches && cache_find(&w->env, cache, path, t)) return WEFT_OK;
    sibling file;
    weft_status status = sibling_read(&file, w, NAME, err);
    if (status != WEFT_OK || file.text == NULL) return status;
    caches = caches && file.n_bytes >= cache->least_bytes &&
             cache_place_of(cache, path, (str){file.text, file.n_bytes}, &place);
    status = parse(&w->env, file.text, file.n_bytes, caches ? &place : NULL, t, err);
    sibling_free(&file);
    return status;
}

static weft_status open_folder(const weights *w, const tokenizer_cache *cache, tokenizer **out,
                               weft_error *err)
{
    json_doc config;
    tokenizer *t = NULL;
    weft_status status = open_json(w, cache, &t, err);
    if (status != WEFT_OK) return status;
    status = open_config(w, &config, err);
    if (status == WEFT_OK && t == NULL) status = open_other(w, config.root, &t, err);
    if (status == WEFT_OK && t != NULL && config.root != NULL)
        status = load_json_config(t, config.root, err);
    json_doc_free(&config);
    if (status != WEFT_OK) {
        tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

static weft_status open_gguf(const weights *w, tokenizer **out, weft_error *err)
{
    if (!load_gguf_present(w)) return WEFT_OK;
    tokenizer *t = NULL;
    weft_status status = pipeline_create(w->env.allocator, &t, err);
    if (status == WEFT_OK) status = load_gguf(t, w, err);
    if (status != WEFT_OK) {
        tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

weft_status tokenizer_open(const weights *w, const tokenizer_cache *cache, tokenizer **out,
                           weft_error *err)
{
    *out = NULL;
    if (w->metadata != NULL) return open_gguf(w, out, err);
    return open_folder(w, cache, out, err);
}

/* ---- encoding ---- */

typedef struct encoder {
    const tokenizer *tokenizer;
    token_list *out;
    str text; /* as a whole */
    added_closed closed;
    const char *first; /* a piece of normalized text that starts here starts the whole */
    normalizer_scratch normalizer;
    pretoken_scratch pretoken;
    model_scratch model;
} encoder;

static weft_status encode_word(void *user, str word, weft_error *err)
{
    encoder *e = user;
    return model_encode(&e->tokenizer->model, &e->model, word, e->out, err);
}

static weft_status encode_normalized(void *user, str text, int32_t id, weft_error *err)
{
    encoder *e = user;
    if (id >= 0) return token_list_add(e->out, id, err);
    return pretoken_run(&e->tokenizer->pretoken, &e->pretoken, text, text.ptr == e->first,
                        encode_word, e, err);
}

static weft_status normalize(encoder *e, str text, str *result, weft_error *err)
{
    bool first = text.ptr == e->text.ptr;
    weft_status status =
        normalizer_run(&e->tokenizer->normalizer, &e->normalizer, text, first, result, err);
    e->first = first ? result->ptr : NULL;
    return status;
}

static weft_status encode_piece(void *user, str text, int32_t id, weft_error *err)
{
    encoder *e = user;
    if (id >= 0) return token_list_add(e->out, id, err);
    str normalized;
    weft_status status = normalize(e, text, &normalized, err);
    if (status != WEFT_OK) return status;
    /* Normalizing moves bytes: then a piece with a closed part is closed as a whole. */
    added_closed closed = {NULL, NULL, 0};
    if (normalized.ptr == text.ptr) {
        closed = e->closed;
    } else if (added_open_bytes(e->closed, text) < text.len) {
        return encode_normalized(e, normalized, -1, err);
    }
    return added_split(&e->tokenizer->added_normalized, normalized, closed, encode_normalized, e,
                       err);
}

static weft_status encode_plain(encoder *e, str text, weft_error *err)
{
    str normalized;
    weft_status status = normalize(e, text, &normalized, err);
    if (status != WEFT_OK) return status;
    return encode_normalized(e, normalized, -1, err);
}

static weft_status encode(const tokenizer *t, str text, uint32_t flags, added_closed closed,
                          token_list *out, weft_error *err)
{
    encoder e = {.tokenizer = t, .out = out, .text = text, .closed = closed};
    normalizer_scratch_init(&e.normalizer, out->allocator, (size_t)TOKENIZER_TEXT_BYTES * 4);
    weft_status status = model_scratch_init(&e.model, out->allocator, text.len, err);
    if (status == WEFT_OK) {
        status = pretoken_scratch_init(&e.pretoken, out->allocator, text.len, err);
        if (status == WEFT_OK && (flags & TOKENIZER_PLAIN) != 0) {
            status = encode_plain(&e, text, err);
        } else if (status == WEFT_OK) {
            status = added_split(&t->added, text, closed, encode_piece, &e, err);
        }
        pretoken_scratch_deinit(&e.pretoken);
    }
    model_scratch_deinit(&e.model);
    normalizer_scratch_deinit(&e.normalizer);
    return status;
}

static weft_status encode_checked(const tokenizer *t, str text, uint32_t flags, added_closed closed,
                                  token_list *out, weft_error *err)
{
    if (text.len > TOKENIZER_TEXT_BYTES) {
        return err_set(err, WEFT_LIMIT, "tokenizer: a text of %zu bytes, at most %d are supported",
                       text.len, TOKENIZER_TEXT_BYTES);
    }
    if (!utf8_valid(text.ptr, text.len))
        return err_set(err, WEFT_FORMAT, "tokenizer: the text is not valid UTF-8");
    bool specials = (flags & TOKENIZER_SPECIALS) != 0;
    size_t before = out->len;
    weft_status status = WEFT_OK;
    if (specials) status = token_list_add_all(out, t->around.before, t->around.n_before, err);
    if (status == WEFT_OK && text.len != 0) status = encode(t, text, flags, closed, out, err);
    if (status == WEFT_OK && specials)
        status = token_list_add_all(out, t->around.after, t->around.n_after, err);
    if (status != WEFT_OK) out->len = before;
    return status;
}

weft_status tokenizer_encode(const tokenizer *t, str text, uint32_t flags, token_list *out,
                             weft_error *err)
{
    return encode_checked(t, text, flags, (added_closed){NULL, NULL, 0}, out, err);
}

weft_status tokenizer_encode_apart(const tokenizer *t, str text, const str_span *spans,
                                   size_t n_spans, token_list *out, weft_error *err)
{
    return encode_checked(t, text, 0, (added_closed){text.ptr, spans, n_spans}, out, err);
}

/* ---- looking up ---- */

uint32_t tokenizer_n_vocab(const tokenizer *t)
{
    return t->vocab.n;
}

int32_t tokenizer_find(const tokenizer *t, str token)
{
    return vocab_find(&t->vocab, token);
}

int32_t tokenizer_bos(const tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const tokenizer *t)
{
    return t->eos;
}

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    const vocab_entry *entry = vocab_get(&t->vocab, id);
    return entry != NULL && (entry->flags & VOCAB_SPECIAL) != 0;
}

str tokenizer_token(const tokenizer *t, int32_t id)
{
    const vocab_entry *entry = vocab_get(&t->vocab, id);
    return entry == NULL ? (str){"", 0} : (str){entry->text, entry->text_len};
}

weft_status tokenizer_bytes(const tokenizer *t, int32_t id, bool specials, strbuf *out)
{
    const vocab_entry *entry = vocab_get(&t->vocab, id);
    if (entry == NULL || (!specials && (entry->flags & VOCAB_SPECIAL) != 0)) return out->status;
    return strbuf_add(out, entry->bytes, entry->bytes_len);
}
