/* generation.c - how a checkpoint wants to be sampled and where its answers end.
 *
 * generation_config.json's eos_token_id wins over config.json's. Sampling is off unless do_sample
 * is true; what it leaves out then has Transformers' defaults. A repetition penalty holds without
 * it, too, as in Transformers. */
#include <math.h>

#include "base/assert.h"
#include "models/model.h"

enum { TOP_K_DEFAULT = 50 };

static weft_status add_stop(llm *m, int32_t *ids, double id, weft_error *err)
{
    if (!(id >= 0.0 && id < (double)INT32_MAX && id == floor(id))) {
        return err_set(err, WEFT_FORMAT, "end token id %g is out of range", id);
    }
    model_generation *g = &m->generation;
    for (uint32_t i = 0; i < g->n_stop_ids; i++) {
        if (ids[i] == (int32_t)id) return WEFT_OK;
    }
    if (g->n_stop_ids == MODEL_STOP_IDS)
        return err_set(err, WEFT_LIMIT, "more than %d end token ids", MODEL_STOP_IDS);
    ids[g->n_stop_ids++] = (int32_t)id;
    return WEFT_OK;
}

static weft_status read_stops(llm *m, int32_t *ids, const json *value, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (json_kind_of(value) == JSON_KIND_INT)
        return add_stop(m, ids, json_number(value, -1.0), err);
    if (json_kind_of(value) != JSON_KIND_NULL && json_kind_of(value) != JSON_KIND_ARRAY) {
        return err_set(err, WEFT_FORMAT, "eos_token_id is %s, expected a number or an array",
                       json_kind_name(json_kind_of(value)));
    }
    for (size_t i = 0; i < json_length(value) && status == WEFT_OK; i++) {
        status = add_stop(m, ids, json_number(json_at(value, i), -1.0), err);
    }
    return status;
}

/* A number between bounds, or what it is when absent. */
static weft_status read_number(const json *config, const char *key, const double bounds[2],
                               double *number, weft_error *err)
{
    const json *value = json_get(config, key);
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_NULL) return WEFT_OK;
    *number = json_number(value, (double)NAN);
    if (*number >= bounds[0] && *number <= bounds[1]) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "generation_config.json: %s is %s %g, expected %g to %g", key,
                   json_kind_name(kind), *number, bounds[0], bounds[1]);
}

static weft_status read_flag(const json *config, const char *key, bool *flag, weft_error *err)
{
    const json *value = json_get(config, key);
    json_kind kind = json_kind_of(value);
    *flag = json_bool(value, *flag);
    if (kind == JSON_KIND_NULL || kind == JSON_KIND_BOOL) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "generation_config.json: %s is %s, expected true or false",
                   key, json_kind_name(kind));
}

static weft_status read_sampling(weft_sampling *s, const json *config, weft_error *err)
{
    double repetition = 1.0;
    weft_status status =
        read_number(config, "repetition_penalty", (const double[]){0.01, 100.0}, &repetition, err);
    s->repetition_penalty = (float)repetition;
    bool samples = false;
    if (status == WEFT_OK) status = read_flag(config, "do_sample", &samples, err);
    if (status != WEFT_OK || !samples) return status;
    double temperature = 1.0;
    double top_p = 1.0;
    double typical_p = 1.0;
    double min_p = 0.0;
    double top_k = TOP_K_DEFAULT;
    status = read_number(config, "temperature", (const double[]){0.0, 100.0}, &temperature, err);
    if (status == WEFT_OK)
        status = read_number(config, "top_p", (const double[]){1e-6, 1.0}, &top_p, err);
    if (status == WEFT_OK)
        status = read_number(config, "typical_p", (const double[]){1e-6, 1.0}, &typical_p, err);
    if (status == WEFT_OK)
        status = read_number(config, "min_p", (const double[]){0.0, 0.999}, &min_p, err);
    if (status == WEFT_OK)
        status = read_number(config, "top_k", (const double[]){0.0, 1e9}, &top_k, err);
    if (status != WEFT_OK) return status;
    s->temperature = (float)temperature;
    s->top_p = (float)top_p;
    s->typical_p = (float)typical_p;
    s->min_p = (float)min_p;
    s->top_k = (uint32_t)top_k;
    return WEFT_OK;
}

static weft_status read_json(llm *m, int32_t *ids, const model_source *source, weft_error *err)
{
    char *text;
    size_t n_bytes;
    weft_status status = weights_read_sibling(m->weights, "generation_config.json",
                                              WEIGHTS_CONFIG_BYTES, &text, &n_bytes, err);
    if (status != WEFT_OK) return status;
    json_doc doc = {NULL};
    if (text != NULL) {
        status = json_parse(&doc, text, n_bytes, err);
        mem_free(m->env.allocator, text, n_bytes + 1);
        if (status != WEFT_OK) {
            err_context(err, "generation_config.json: ");
            return status;
        }
        status = read_sampling(&m->generation.sampling, doc.root, err);
        if (status == WEFT_OK) status = read_stops(m, ids, json_get(doc.root, "eos_token_id"), err);
    }
    json_doc_free(&doc);
    if (status == WEFT_OK && m->generation.n_stop_ids == 0) {
        status = read_stops(m, ids, json_get(source->config, "eos_token_id"), err);
    }
    if (status == WEFT_OK && m->generation.n_stop_ids == 0) {
        status = read_stops(m, ids, json_get(source->top, "eos_token_id"), err);
    }
    return status;
}

static weft_status read_gguf(llm *m, int32_t *ids, weft_error *err)
{
    static const char *const KEYS[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) {
        uint64_t id;
        const gguf_value *value = weights_metadata(m->weights, KEYS[i]);
        if (value == NULL) continue;
        if (!gguf_u64(value, &id))
            return err_set(err, WEFT_FORMAT, "'%s' is not a token id", KEYS[i]);
        weft_status status = add_stop(m, ids, (double)id, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

weft_status llm_read_generation(llm *m, const model_source *source, weft_error *err)
{
    m->generation.sampling =
        (weft_sampling){.top_p = 1.0F, .typical_p = 1.0F, .repetition_penalty = 1.0F};
    int32_t *ids = arena_array(&m->arena, MODEL_STOP_IDS, sizeof *ids);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for end token ids");
    m->generation.stop_ids = ids;
    return source->is_gguf ? read_gguf(m, ids, err) : read_json(m, ids, source, err);
}

uint32_t llm_end_ids(const llm *m, int32_t ids[MODEL_STOP_IDS])
{
    const model_generation *g = &m->generation;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_stop_ids; i++) {
        if ((uint32_t)g->stop_ids[i] < m->params.n_vocab) ids[n++] = g->stop_ids[i];
    }
    return n;
}
