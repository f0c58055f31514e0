/* load_json.c - reading tokenizer.json and tokenizer_config.json of Hugging Face.
 * Source: the serialized form of tokenizers 0.23, and what it does with it. */
#include "tokenizer/pipeline.h"

#include <string.h>

#include "base/assert.h"

static weft_status wrong(const char *what, const char *expected, const json *value, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer: %s is %s, expected %s", what,
                   json_kind_name(json_kind_of(value)), expected);
}

static weft_status expect(const json *value, json_kind kind, const char *what, weft_error *err)
{
    if (json_kind_of(value) == kind) return WEFT_OK;
    return wrong(what, json_kind_name(kind), value, err);
}

static bool is_null(const json *value)
{
    return json_kind_of(value) == JSON_KIND_NULL;
}

/* A kind of some stage that this does not have. */
static weft_status unknown_kind(const char *stage, str kind, weft_error *err)
{
    return err_set(err, WEFT_UNSUPPORTED, "tokenizer: %s '%.*s' is not supported", stage,
                   (int)(kind.len < 80 ? kind.len : 80), kind.ptr);
}

/* ---- stages that come in sequences ---- */

/* Reads one component that is no sequence. */
typedef weft_status component(tokenizer *t, str kind, const json *value, weft_error *err);

/* Calls read for a component or, in order, for those in a (nested) sequence. Null is none. */
static weft_status walk_stage(tokenizer *t, const json *value, const char *stage,
                              const char *list_key, component *read, weft_error *err)
{
    if (is_null(value)) return WEFT_OK;
    weft_status status = expect(value, JSON_KIND_OBJECT, stage, err);
    if (status != WEFT_OK) return status;
    str kind = json_text(json_get(value, "type"));
    if (!str_equal_text(kind, "Sequence")) return read(t, kind, value, err);
    const json *list = json_get(value, list_key);
    status = expect(list, JSON_KIND_ARRAY, list_key, err);
    for (size_t i = 0; i < json_length(list) && status == WEFT_OK; i++)
        status = walk_stage(t, json_at(list, i), stage, list_key, read, err);
    return status;
}

static weft_status read_normalizer(tokenizer *t, str kind, const json *value, weft_error *err)
{
    static const struct {
        const char *name;
        normalizer_step step;
    } KINDS[] = {{"NFC", NORMALIZE_NFC},
                 {"NFD", NORMALIZE_NFD},
                 {"NFKC", NORMALIZE_NFKC},
                 {"NFKD", NORMALIZE_NFKD},
                 {"Lowercase", NORMALIZE_LOWERCASE}};
    (void)value;
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (str_equal_text(kind, KINDS[i].name))
            return normalizer_add(&t->normalizer, KINDS[i].step, err);
    }
    return unknown_kind("normalizer", kind, err);
}

static weft_status read_split(tokenizer *t, const json *value, weft_error *err)
{
    static const struct {
        const char *name;
        split_behavior behavior;
    } BEHAVIORS[] = {{"Isolated", SPLIT_ISOLATED},
                     {"Removed", SPLIT_REMOVED},
                     {"Contiguous", SPLIT_CONTIGUOUS},
                     {"MergedWithPrevious", SPLIT_MERGED_PREVIOUS},
                     {"MergedWithNext", SPLIT_MERGED_NEXT}};
    const json *pattern = json_get(value, "pattern");
    const json *regex_text = json_get(pattern, "Regex");
    bool literal = regex_text == NULL;
    const json *text = literal ? json_get(pattern, "String") : regex_text;
    weft_status status = expect(text, JSON_KIND_TEXT, "pattern of 'Split'", err);
    if (status != WEFT_OK) return status;
    str behavior = json_text(json_get(value, "behavior"));
    for (size_t i = 0; i < COUNT_OF(BEHAVIORS); i++) {
        if (!str_equal_text(behavior, BEHAVIORS[i].name)) continue;
        return pretoken_split(&t->pretoken, json_text(text), literal, BEHAVIORS[i].behavior,
                              json_bool(json_get(value, "invert"), false), err);
    }
    return unknown_kind("behavior", behavior, err);
}

static weft_status read_pre_tokenizer(tokenizer *t, str kind, const json *value, weft_error *err)
{
    if (str_equal_text(kind, "Split")) return read_split(t, value, err);
    if (str_equal_text(kind, "Digits")) {
        bool individual = json_bool(json_get(value, "individual_digits"), false);
        return pretoken_split(&t->pretoken, str_of("\\p{N}"), false,
                              individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, err);
    }
    if (str_equal_text(kind, "ByteLevel")) {
        return pretoken_bytelevel(&t->pretoken,
                                  json_bool(json_get(value, "add_prefix_space"), true),
                                  json_bool(json_get(value, "use_regex"), true), err);
    }
    return unknown_kind("pre-tokenizer", kind, err);
}

static weft_status read_decoder(tokenizer *t, str kind, const json *value, weft_error *err)
{
    (void)t;
    (void)value;
    return str_equal_text(kind, "ByteLevel") ? WEFT_OK : unknown_kind("decoder", kind, err);
}

/* ---- post-processors ---- */

/* The ids that a template's special token stands for, appended to ids. */
static weft_status template_ids(const tokenizer *t, const json *specials, str name, around *ids,
                                bool behind, weft_error *err)
{
    const json *list = NULL;
    json_iter iter = {NULL};
    str key;
    const json *value;
    while (json_next(specials, &iter, &key, &value)) {
        if (str_equal(key, name)) list = json_get(value, "ids");
    }
    weft_status status = expect(list, JSON_KIND_ARRAY, "ids of a template's special token", err);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < json_length(list); i++) {
        int64_t id = json_int(json_at(list, i), -1);
        if (id < 0 || id >= (int64_t)t->vocab.n) {
            return err_set(err, WEFT_FORMAT,
                           "tokenizer: template id %lld is not below the vocabulary's %u",
                           (long long)id, t->vocab.n);
        }
        if (ids->n_before + ids->n_after == PIPELINE_AROUND) {
            return err_set(err, WEFT_LIMIT, "tokenizer: templates with more than %d ids",
                           PIPELINE_AROUND);
        }
        if (behind) {
            ids->after[ids->n_after++] = (int32_t)id;
        } else {
            ids->before[ids->n_before++] = (int32_t)id;
        }
    }
    return WEFT_OK;
}

/* Puts the template's ids around those of the processors before it. */
static weft_status wrap_around(tokenizer *t, const around *ids, weft_error *err)
{
    around old = t->around;
    around all = *ids;
    if (ids->n_before + ids->n_after + old.n_before + old.n_after > PIPELINE_AROUND) {
        return err_set(err, WEFT_LIMIT, "tokenizer: templates with more than %d ids",
                       PIPELINE_AROUND);
    }
    for (uint32_t i = 0; i < old.n_before; i++) all.before[all.n_before++] = old.before[i];
    all.n_after = 0;
    for (uint32_t i = 0; i < old.n_after; i++) all.after[all.n_after++] = old.after[i];
    for (uint32_t i = 0; i < ids->n_after; i++) all.after[all.n_after++] = ids->after[i];
    t->around = all;
    return WEFT_OK;
}

static weft_status read_template(tokenizer *t, const json *value, weft_error *err)
{
    const json *single = json_get(value, "single");
    weft_status status = expect(single, JSON_KIND_ARRAY, "'single' of a template", err);
    around ids = {.n_before = 0};
    uint32_t n_texts = 0;
    for (size_t i = 0; i < json_length(single) && status == WEFT_OK; i++) {
        const json *special = json_get(json_at(single, i), "SpecialToken");
        const json *text = json_get(json_at(single, i), "Sequence");
        if (special != NULL) {
            status = template_ids(t, json_get(value, "special_tokens"),
                                  json_text(json_get(special, "id")), &ids, n_texts != 0, err);
        } else if (str_equal_text(json_text(json_get(text, "id")), "A")) {
            n_texts++;
        } else {
            return err_set(err, WEFT_FORMAT, "tokenizer: part %zu of a template is unknown", i);
        }
    }
    if (status != WEFT_OK) return status;
    if (n_texts != 1) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: a template with the text %u times is not supported", n_texts);
    }
    return wrap_around(t, &ids, err);
}

/* ByteLevel moves offsets only. */
static weft_status read_post(tokenizer *t, str kind, const json *value, weft_error *err)
{
    if (str_equal_text(kind, "TemplateProcessing")) return read_template(t, value, err);
    return str_equal_text(kind, "ByteLevel") ? WEFT_OK : unknown_kind("post-processor", kind, err);
}

/* ---- the model ---- */

static weft_status read_vocab(tokenizer *t, const json *list, weft_error *err)
{
    json_iter iter = {NULL};
    str text;
    const json *id;
    while (json_next(list, &iter, &text, &id)) {
        if (json_kind_of(id) != JSON_KIND_INT) return wrong("an id", "an integer", id, err);
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
    return bpe_merge(&t->bpe, left, right, rank, err);
}

/* What would change ids and is not done here. */
static weft_status refuse_options(const json *model, weft_error *err)
{
    static const char *const AFFIXES[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < COUNT_OF(AFFIXES); i++) {
        if (json_text(json_get(model, AFFIXES[i])).len != 0) {
            return err_set(err, WEFT_UNSUPPORTED, "tokenizer: '%s' of the model is not supported",
                           AFFIXES[i]);
        }
    }
    if (json_number(json_get(model, "dropout"), 0.0) != 0.0)
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: 'dropout' of the model is not supported");
    if (json_bool(json_get(model, "byte_fallback"), false)) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: 'byte_fallback' of the model is not supported");
    }
    return WEFT_OK;
}

static weft_status read_model(tokenizer *t, const json *model, size_t n_added, weft_error *err)
{
    weft_status status = expect(model, JSON_KIND_OBJECT, "'model'", err);
    if (status != WEFT_OK) return status;
    const json *merges = json_get(model, "merges");
    const json *kind = json_get(model, "type");
    if (!str_equal_text(json_text(kind), "BPE") && !(kind == NULL && merges != NULL))
        return unknown_kind("model", json_text(kind), err);
    status = refuse_options(model, err);
    const json *list = json_get(model, "vocab");
    if (status == WEFT_OK) status = expect(list, JSON_KIND_OBJECT, "'vocab' of the model", err);
    if (status == WEFT_OK) status = expect(merges, JSON_KIND_ARRAY, "'merges' of the model", err);
    if (status != WEFT_OK) return status;
    size_t n_merges = json_length(merges);
    if (n_merges > TOKENIZER_FILE_BYTES)
        return err_set(err, WEFT_LIMIT, "tokenizer: %zu merges are too many", n_merges);
    status = pipeline_reserve(t, json_length(list) + n_added, n_merges, err);
    if (status == WEFT_OK) status = read_vocab(t, list, err);
    for (size_t i = 0; i < n_merges && status == WEFT_OK; i++)
        status = read_merge(t, json_at(merges, i), (uint32_t)i, err);
    if (status != WEFT_OK) return status;
    t->bpe.whole_words = json_bool(json_get(model, "ignore_merges"), false);
    t->bpe.fuse_unknown = json_bool(json_get(model, "fuse_unk"), false);
    str unknown = json_text(json_get(model, "unk_token"));
    if (unknown.len != 0) t->bpe.unknown = vocab_find(&t->vocab, unknown);
    return WEFT_OK;
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
            return wrong("'id' of an added token", "an integer", number, err);
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
    weft_status status = normalizer_run(&t->normalizer, scratch, text, &text, err);
    if (status != WEFT_OK) return status;
    return added_put(&t->added_normalized, text, entry, err);
}

/* Special tokens first: where two are spelled alike, the first is found. */
static weft_status read_added(tokenizer *t, const json *list, weft_error *err)
{
    normalizer_scratch scratch;
    normalizer_scratch_init(&scratch, t->allocator, 0);
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

weft_status load_json(tokenizer *t, const json *root, weft_error *err)
{
    weft_status status = expect(root, JSON_KIND_OBJECT, "the file", err);
    if (status != WEFT_OK) return status;
    const json *list = json_get(root, "added_tokens");
    if (!is_null(list)) status = expect(list, JSON_KIND_ARRAY, "'added_tokens'", err);
    if (status == WEFT_OK) status = read_model(t, json_get(root, "model"), json_length(list), err);
    if (status == WEFT_OK) {
        status = walk_stage(t, json_get(root, "normalizer"), "normalizer", "normalizers",
                            read_normalizer, err);
    }
    if (status == WEFT_OK) status = read_added(t, list, err);
    if (status == WEFT_OK) {
        status = walk_stage(t, json_get(root, "pre_tokenizer"), "pre-tokenizer", "pretokenizers",
                            read_pre_tokenizer, err);
    }
    if (status == WEFT_OK) {
        status = walk_stage(t, json_get(root, "post_processor"), "post-processor", "processors",
                            read_post, err);
    }
    const json *decoder = json_get(root, "decoder");
    if (status == WEFT_OK)
        status = walk_stage(t, decoder, "decoder", "decoders", read_decoder, err);
    if (status != WEFT_OK) return status;
    /* Without a decoder, spellings are read as they were written. */
    return pipeline_finish(t, !is_null(decoder) || t->pretoken.bytes, err);
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
    weft_status status = expect(root, JSON_KIND_OBJECT, "tokenizer_config.json", err);
    if (status != WEFT_OK) return status;
    t->bos = config_token(t, json_get(root, "bos_token"));
    t->eos = config_token(t, json_get(root, "eos_token"));
    return WEFT_OK;
}
