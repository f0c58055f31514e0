/* generation.c - how a checkpoint wants to be sampled and where its answers end.
 *
 * generation_config.json's eos_token_id wins over config.json's. Sampling is off unless do_sample
 * is true; what it leaves out then has Transformers' defaults. */
#include "base/assert.h"
#include "models/model.h"

enum { STOP_IDS = 64, TOP_K_DEFAULT = 50 };

static weft_status add_stop(llm *m, int32_t *ids, double id, weft_error *err)
{
    if (!(id >= 0.0 && id < (double)INT32_MAX)) {
        return err_set(err, WEFT_FORMAT, "end token id %g is out of range", id);
    }
    model_generation *g = &m->generation;
    for (uint32_t i = 0; i < g->n_stop_ids; i++) {
        if (ids[i] == (int32_t)id) return WEFT_OK;
    }
    if (g->n_stop_ids == STOP_IDS)
        return err_set(err, WEFT_LIMIT, "more than %d end token ids", STOP_IDS);
    ids[g->n_stop_ids++] = (int32_t)id;
    return WEFT_OK;
}

static weft_status read_stops(llm *m, int32_t *ids, const json *value, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (json_kind_of(value) == JSON_KIND_INT)
        return add_stop(m, ids, json_number(value, -1.0), err);
    for (size_t i = 0; i < json_length(value) && status == WEFT_OK; i++) {
        status = add_stop(m, ids, json_number(json_at(value, i), -1.0), err);
    }
    return status;
}

static void read_sampling(weft_sampling *s, const json *config)
{
    if (!json_bool(json_get(config, "do_sample"), false)) return;
    s->temperature = (float)json_number(json_get(config, "temperature"), 1.0);
    s->top_p = (float)json_number(json_get(config, "top_p"), 1.0);
    s->min_p = (float)json_number(json_get(config, "min_p"), 0.0);
    int64_t top_k = json_int(json_get(config, "top_k"), TOP_K_DEFAULT);
    s->top_k = top_k > 0 && top_k < UINT32_MAX ? (uint32_t)top_k : 0;
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
        read_sampling(&m->generation.sampling, doc.root);
        status = read_stops(m, ids, json_get(doc.root, "eos_token_id"), err);
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
        if (!gguf_u64(weights_metadata(m->weights, KEYS[i]), &id)) continue;
        weft_status status = add_stop(m, ids, (double)id, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

weft_status llm_read_generation(llm *m, const model_source *source, weft_error *err)
{
    m->generation.sampling = (weft_sampling){.top_p = 1.0F};
    int32_t *ids = arena_array(&m->arena, STOP_IDS, sizeof *ids);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for end token ids");
    m->generation.stop_ids = ids;
    return source->is_gguf ? read_gguf(m, ids, err) : read_json(m, ids, source, err);
}
