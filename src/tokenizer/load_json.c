/* load_json.c - reading tokenizer.json and tokenizer_config.json of Hugging Face. 'truncation' and
 * 'padding' are not looked at: they say how a batch was made once, and their own library switches
 * them off where it is not told otherwise.
 * Source: the serialized form of tokenizers 0.23, and what it does with it. */
#include "tokenizer/load_json.h"

#include "tokenizer/cache.h"
#include "tokenizer/load_sp.h"

/* ---- what the readers share ---- */

weft_status json_wrong(const char *what, const char *expected, const json *value, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer: %s is %s, expected %s", what,
                   json_kind_name(json_kind_of(value)), expected);
}

weft_status json_expect(const json *value, json_kind kind, const char *what, weft_error *err)
{
    if (json_kind_of(value) == kind) return WEFT_OK;
    return json_wrong(what, json_kind_name(kind), value, err);
}

bool json_is_null(const json *value)
{
    return json_kind_of(value) == JSON_KIND_NULL;
}

/* A kind of some stage that this does not have. */
weft_status json_unknown(const char *stage, str kind, weft_error *err)
{
    return err_set(err, WEFT_UNSUPPORTED, "tokenizer: %s '%.*s' is not supported", stage,
                   (int)(kind.len < 80 ? kind.len : 80), kind.ptr);
}

weft_status json_read_text(const json *object, const char *key, str *text, weft_error *err)
{
    const json *value = json_get(object, key);
    *text = (str){"", 0};
    if (json_is_null(value)) return WEFT_OK;
    weft_status status = json_expect(value, JSON_KIND_TEXT, key, err);
    if (status == WEFT_OK) *text = json_text(value);
    return status;
}

/* ---- added tokens ---- */

/* A text that the model has keeps the model's id, whatever the list says. */
static weft_status add_to_vocab(tokenizer *t, const json *token, int32_t *id, weft_error *err)
{
    str text = json_text(json_get(token, "content"));
    const json *number = json_get(token, "id");
    bool special = json_bool(json_get(token, "special"), false);
    *id = vocab_find(&t->vocab, text);
    if (*id < 0) {
        if (json_kind_of(number) != JSON_KIND_INT)
            return json_wrong("'id' of an added token", "an integer", number, err);
        weft_status status = vocab_put(&t->vocab, json_int(number, -1), text, 0, err);
        if (status != WEFT_OK) return status;
        *id = (int32_t)json_int(number, -1);
    }
    vocab_entry *entry = &t->vocab.entries[*id];
    entry->flags |= special ? VOCAB_ADDED | VOCAB_SPECIAL : VOCAB_ADDED;
    return WEFT_OK;
}

static weft_status add_to_matcher(tokenizer *t, const json *token, int32_t id,
                                  normalizer_scratch *scratch, weft_error *err)
{
    str text = json_text(json_get(token, "content"));
    bool normalized = json_bool(json_get(token, "normalized"), false);
    added_token entry = {.id = id,
                         .single_word = json_bool(json_get(token, "single_word"), false),
                         .lstrip = json_bool(json_get(token, "lstrip"), false),
                         .rstrip = json_bool(json_get(token, "rstrip"), false)};
    if (!normalized) return added_put(&t->added, text, entry, err);
    weft_status status = normalizer_run(&t->normalizer, scratch, text, true, &text, err);
    if (status != WEFT_OK) return status;
    return added_put(&t->added_normalized, text, entry, err);
}

/* Special tokens first: where two are spelled alike, the first is found. */
static weft_status read_added(tokenizer *t, const json *list, weft_error *err)
{
    normalizer_scratch scratch;
    normalizer_scratch_init(&scratch, t->allocator, (size_t)TRIE_BYTES * 64);
    weft_status status = WEFT_OK;
    for (int pass = 0; pass < 2 && status == WEFT_OK; pass++) {
        for (size_t i = 0; i < json_length(list) && status == WEFT_OK; i++) {
            const json *token = json_at(list, i);
            int32_t id;
            if (json_bool(json_get(token, "special"), false) != (pass == 0)) continue;
            if (json_text(json_get(token, "content")).len == 0) continue;
            status = add_to_vocab(t, token, &id, err);
            if (status == WEFT_OK) status = add_to_matcher(t, token, id, &scratch, err);
        }
    }
    normalizer_scratch_deinit(&scratch);
    return status;
}

/* ---- the file ---- */

weft_status load_json(tokenizer *t, const json *root, const json_cut *cut, weft_error *err)
{
    weft_status status = json_expect(root, JSON_KIND_OBJECT, "the file", err);
    if (status != WEFT_OK) return status;
    const json *list = json_get(root, "added_tokens");
    if (!json_is_null(list)) status = json_expect(list, JSON_KIND_ARRAY, "'added_tokens'", err);
    if (status == WEFT_OK)
        status = json_read_model(t, json_get(root, "model"), cut, json_length(list), err);
    if (status == WEFT_OK) status = json_read_normalizer(t, json_get(root, "normalizer"), err);
    if (status == WEFT_OK) status = read_added(t, list, err);
    if (status == WEFT_OK && cut->cached != NULL) status = cache_restore_added(cut->cached, t, err);
    if (status == WEFT_OK)
        status = json_read_pre_tokenizer(t, json_get(root, "pre_tokenizer"), err);
    if (status == WEFT_OK)
        status = json_read_post_processor(t, json_get(root, "post_processor"), err);
    if (status == WEFT_OK) status = json_read_decoder(t, json_get(root, "decoder"), err);
    return status == WEFT_OK ? pipeline_finish(t, err) : status;
}

/* ---- tokenizer_config.json ---- */

size_t load_json_n_added(const json *config)
{
    return json_length(json_get(config, "added_tokens_decoder"));
}

/* "12", below all ids; -1 else. */
static int64_t id_of(str text)
{
    int64_t id = 0;
    if (text.len == 0 || text.len > 9) return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') return -1;
        id = id * 10 + (text.ptr[i] - '0');
    }
    return id;
}

/* A token that the file has at this id stays what it is there, but for being special. */
static weft_status add_config_token(tokenizer *t, int64_t id, const json *token, weft_error *err)
{
    str text = json_text(json_get(token, "content"));
    bool special = json_bool(json_get(token, "special"), false);
    added_token entry = {.id = (int32_t)id,
                         .single_word = json_bool(json_get(token, "single_word"), false),
                         .lstrip = json_bool(json_get(token, "lstrip"), false),
                         .rstrip = json_bool(json_get(token, "rstrip"), false)};
    if (text.len == 0 || vocab_find(&t->vocab, text) >= 0) return WEFT_OK;
    if (vocab_get(&t->vocab, entry.id) != NULL) return WEFT_OK;
    uint32_t flags = special ? VOCAB_ADDED | VOCAB_SPECIAL : VOCAB_ADDED;
    weft_status status = vocab_put(&t->vocab, id, text, flags, err);
    return status == WEFT_OK ? added_put(&t->added, text, entry, err) : status;
}

weft_status load_json_added(tokenizer *t, const json *config, weft_error *err)
{
    json_iter iter = {NULL};
    str key;
    const json *token;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK &&
           json_next(json_get(config, "added_tokens_decoder"), &iter, &key, &token))
        status = add_config_token(t, id_of(key), token, err);
    return status;
}

/* A text, or the object of an added token. */
static int32_t config_token(const tokenizer *t, const json *value)
{
    str text =
        json_text(json_kind_of(value) == JSON_KIND_OBJECT ? json_get(value, "content") : value);
    return text.len == 0 ? -1 : vocab_find(&t->vocab, text);
}

weft_status load_json_config(tokenizer *t, const json *root, weft_error *err)
{
    weft_status status = json_expect(root, JSON_KIND_OBJECT, "tokenizer_config.json", err);
    if (status != WEFT_OK) return status;
    int32_t bos = config_token(t, json_get(root, "bos_token"));
    int32_t eos = config_token(t, json_get(root, "eos_token"));
    if (bos >= 0) t->bos = bos; /* else what the vocabulary says, if anything */
    if (eos >= 0) t->eos = eos;
    return WEFT_OK;
}
