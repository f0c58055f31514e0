/* asked.c - fields of sampling. */
#include "server/asked.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/ids.h"

#define AT(field) offsetof(asked, field)

const field_row ASKED_ROWS[] = {
    {"temperature", FIELD_REAL, AT(sampling.temperature), 0, 100, NULL},
    {"top_p", FIELD_REAL, AT(sampling.top_p), 0, 1, NULL},
    {"min_p", FIELD_REAL, AT(sampling.min_p), 0, 0.999999, NULL},
    {"top_k", FIELD_REAL, AT(top_k), -1, 1 << 30, NULL},
    {"typical_p", FIELD_REAL, AT(sampling.typical_p), 0, 1, NULL},
    {"xtc_probability", FIELD_REAL, AT(sampling.xtc_probability), 0, 1, NULL},
    {"xtc_threshold", FIELD_REAL, AT(sampling.xtc_threshold), 1e-6, 0.5, NULL},
    {"repetition_penalty", FIELD_REAL, AT(sampling.repetition_penalty), 0.01, 100, NULL},
    {"repeat_penalty", FIELD_REAL, AT(sampling.repetition_penalty), 0.01, 100, NULL},
    {"presence_penalty", FIELD_REAL, AT(sampling.presence_penalty), -2, 2, NULL},
    {"frequency_penalty", FIELD_REAL, AT(sampling.frequency_penalty), -2, 2, NULL},
    {"repeat_last_n", FIELD_COUNT, AT(sampling.penalty_range), 0, 1 << 30, NULL},
    {"dry_multiplier", FIELD_REAL, AT(sampling.dry_multiplier), 0, 100, NULL},
    {"dry_base", FIELD_REAL, AT(sampling.dry_base), 1, 100, NULL},
    {"dry_allowed_length", FIELD_COUNT, AT(sampling.dry_allowed_length), 1, 1 << 30, NULL},
    {"dry_penalty_last_n", FIELD_COUNT, AT(sampling.dry_range), 0, 1 << 30, NULL},
    {"dry_sequence_breakers", FIELD_JSON, AT(dry_breakers), 0, 0, NULL},
    {"seed", FIELD_SEED, AT(seed), 0, 0, NULL},
    {"stop", FIELD_JSON, AT(stop), 0, 0, NULL},
    {"stop_token_ids", FIELD_JSON, AT(stop_ids), 0, 0, NULL},
    {"logit_bias", FIELD_JSON, AT(logit_bias), 0, 0, NULL},
    {"ignore_eos", FIELD_FLAG, AT(ignore_stop), 0, 0, NULL},
    {"min_tokens", FIELD_COUNT, AT(min_new), 0, 1 << 30, NULL},
    {"stream", FIELD_FLAG, AT(stream), 0, 0, NULL},
    {"no_cache", FIELD_FLAG, AT(no_cache), 0, 0, NULL},
    {"cache_salt", FIELD_TEXT, AT(salt), 0, 0, NULL},
    {"kv", FIELD_TEXT, AT(kv), 0, 0, NULL},
    {"draft", FIELD_TEXT, AT(draft), 0, 0, NULL},
};

const size_t N_ASKED_ROWS = COUNT_OF(ASKED_ROWS);

/* ---- lists ----------------------------------------------------------------------------------- */

void asked_init(asked *a)
{
    *a = (asked){.sampling = {.temperature = -1.0F,
                              .top_p = -1.0F,
                              .min_p = -1.0F,
                              .typical_p = -1.0F,
                              .repetition_penalty = -1.0F,
                              .xtc_threshold = 0.1F},
                 .top_k = -2.0F,
                 .n = 1,
                 .n_top = UINT32_MAX};
}

void asked_lists_init(asked_lists *l)
{
    *l = (asked_lists){.n_stops = 0};
    strbuf_init(&l->texts, mem_system(), 0);
}

void asked_lists_deinit(asked_lists *l)
{
    mem_free(mem_system(), l->stop_ids, l->n_stop_ids * sizeof *l->stop_ids);
    mem_free(mem_system(), l->biases, l->n_biases * sizeof *l->biases);
    strbuf_deinit(&l->texts);
}

static weft_status add_text(const json *value, const char *name, strbuf *texts, char *param,
                            weft_error *err)
{
    if (json_kind_of(value) != JSON_KIND_TEXT)
        return field_wrong(param, name, err, "is not a string or an array of strings");
    str text = json_text(value);
    if (text.len == 0) return field_wrong(param, name, err, "has an empty string");
    if (text.len > WEFT_STOP_TEXT_BYTES) {
        return field_wrong(param, name, err, "has a string of %zu bytes, at most %d can be",
                           text.len, WEFT_STOP_TEXT_BYTES);
    }
    if (memchr(text.ptr, '\0', text.len) != NULL)
        return field_wrong(param, name, err, "has a string with a NUL");
    strbuf_add(texts, text.ptr, text.len);
    return strbuf_add_char(texts, '\0');
}

/* Adds the strings to texts, *n of them; where they are is known when texts grows no more. */
static weft_status read_texts(const json *value, const char *name, uint32_t most, strbuf *texts,
                              uint32_t *n, char *param, weft_error *err)
{
    if (value == NULL) return WEFT_OK;
    bool is_one = json_kind_of(value) == JSON_KIND_TEXT;
    if (!is_one && json_kind_of(value) != JSON_KIND_ARRAY)
        return field_wrong(param, name, err, "is not a string or an array of strings");
    size_t n_texts = is_one ? 1 : json_length(value);
    if (n_texts > most)
        return field_wrong(param, name, err, "has %zu strings, at most %u can be", n_texts, most);
    for (size_t i = 0; i < n_texts; i++) {
        weft_status status = add_text(is_one ? value : json_at(value, i), name, texts, param, err);
        if (status != WEFT_OK) return status;
    }
    *n = (uint32_t)n_texts;
    return WEFT_OK;
}

static const char *point_at(const char *text, const char **out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = text;
        text += strlen(text) + 1;
    }
    return text;
}

static weft_status read_stop_ids(const json *value, asked_lists *l, char *param, weft_error *err)
{
    size_t n = 0;
    if (value == NULL) return WEFT_OK;
    weft_status status =
        ids_read(value, "stop_token_ids", WEFT_LOGIT_BIASES, &l->stop_ids, &n, param, err);
    l->n_stop_ids = (uint32_t)n;
    return status;
}

static weft_status read_bias(str key, const json *value, weft_logit_bias *out, char *param,
                             weft_error *err)
{
    int64_t id = 0;
    bool is_id = key.len > 0 && key.len < 11;
    for (size_t i = 0; i < key.len && is_id; i++) {
        is_id = key.ptr[i] >= '0' && key.ptr[i] <= '9';
        id = id * 10 + (key.ptr[i] - '0');
    }
    double bias = json_number(value, (double)NAN);
    if (!is_id || id > INT32_MAX || !(bias >= -100.0 && bias <= 100.0)) {
        return field_wrong(param, "logit_bias", err,
                           "has '%.*s', expected token ids with numbers from -100 to 100",
                           (int)(key.len < 20 ? key.len : 20), key.ptr);
    }
    *out = (weft_logit_bias){(int32_t)id, (float)bias};
    /* OpenAI's API: -100 bans a token. */
    if (bias == -100.0) out->bias = -INFINITY;
    return WEFT_OK;
}

static weft_status read_biases(const json *value, asked_lists *l, char *param, weft_error *err)
{
    if (value == NULL) return WEFT_OK;
    size_t n = json_length(value);
    if (json_kind_of(value) != JSON_KIND_OBJECT || n > WEFT_LOGIT_BIASES)
        return field_wrong(param, "logit_bias", err, "is not an object of at most %d tokens",
                           WEFT_LOGIT_BIASES);
    if (n == 0) return WEFT_OK;
    l->biases = mem_alloc(mem_system(), n * sizeof *l->biases);
    if (l->biases == NULL) return err_set(err, WEFT_NOMEM, "out of memory for logit_bias");
    l->n_biases = (uint32_t)n;
    json_iter iter = {0};
    str key;
    const json *bias;
    for (size_t i = 0; json_next(value, &iter, &key, &bias); i++) {
        weft_status status = read_bias(key, bias, &l->biases[i], param, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status copy_name(str text, char *out, size_t n_bytes, const char *name, char *param,
                             weft_error *err)
{
    if (text.len >= n_bytes || (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL))
        return field_wrong(param, name, err, "has %zu bytes, at most %zu can be", text.len,
                           n_bytes - 1);
    if (text.len > 0) memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return WEFT_OK;
}

static weft_status check_draft(const asked_lists *l, char *param, weft_error *err)
{
    static const char *const NAMES[] = {"", "none", "ngram", "model", "mtp"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (strcmp(l->draft, NAMES[i]) == 0) return WEFT_OK;
    }
    return field_wrong(param, "draft", err, "is none of none, ngram, model, mtp");
}

weft_status asked_read_lists(asked *a, asked_lists *l, char *param, weft_error *err)
{
    uint32_t n_breakers = 0;
    weft_status status =
        read_texts(a->stop, "stop", WEFT_STOP_TEXTS, &l->texts, &l->n_stops, param, err);
    if (status == WEFT_OK)
        status = read_texts(a->dry_breakers, "dry_sequence_breakers", WEFT_DRY_BREAKERS, &l->texts,
                            &n_breakers, param, err);
    if (status == WEFT_OK) status = read_stop_ids(a->stop_ids, l, param, err);
    if (status == WEFT_OK) status = read_biases(a->logit_bias, l, param, err);
    if (status == WEFT_OK) status = copy_name(a->kv, l->kv, sizeof l->kv, "kv", param, err);
    if (status == WEFT_OK)
        status = copy_name(a->draft, l->draft, sizeof l->draft, "draft", param, err);
    if (status == WEFT_OK) status = check_draft(l, param, err);
    if (status == WEFT_OK) status = l->texts.status;
    if (status != WEFT_OK) return err_set(err, status, "out of memory for the request");
    const char *rest = point_at(strbuf_text(&l->texts), l->stops, l->n_stops);
    point_at(rest, l->breakers, n_breakers);
    static const char *const BREAKERS[] = {"\n", ":", "\"", "*"};
    if (a->dry_breakers == NULL) {
        n_breakers = COUNT_OF(BREAKERS);
        memcpy(l->breakers, BREAKERS, sizeof BREAKERS);
    }
    a->sampling.n_dry_breakers = a->sampling.dry_multiplier > 0.0F ? n_breakers : 0;
    return WEFT_OK;
}

static float either(float asked_for, float models)
{
    return asked_for >= 0.0F ? asked_for : models;
}

void asked_fill(const asked *a, const asked_lists *l, const weft_model_info *info,
                uint32_t answer_i, weft_request *request)
{
    weft_sampling s = a->sampling;
    s.temperature = either(s.temperature, info->temperature);
    s.top_p = either(s.top_p, info->top_p);
    s.min_p = either(s.min_p, info->min_p);
    s.typical_p = either(s.typical_p, info->typical_p);
    s.repetition_penalty = either(s.repetition_penalty, info->repetition_penalty);
    s.top_k = info->top_k;
    if (a->top_k >= -1.0F) s.top_k = a->top_k > 0.0F ? (uint32_t)a->top_k : 0;
    s.seed = a->seed + answer_i;
    s.dry_breakers = l->breakers;
    s.logit_bias = l->biases;
    s.n_logit_bias = l->n_biases;
    request->sampling = s;
    request->min_new = a->min_new;
    request->priority = a->priority;
    request->stop_texts = l->stops;
    request->n_stop_texts = l->n_stops;
    request->n_top = a->n_top != UINT32_MAX ? a->n_top : 0;
    if (a->ignore_stop) request->flags |= WEFT_REQUEST_IGNORE_STOP;
    if (a->no_cache) request->flags |= WEFT_REQUEST_NO_CACHE;
    if (l->kv[0] != '\0') request->kv = l->kv;
    if (a->salt.len > 0) request->cache_salt = hash_xx64(a->salt.ptr, a->salt.len, 1);
    if (l->draft[0] != '\0') request->draft = strcmp(l->draft, "none") == 0 ? NULL : l->draft;
}
