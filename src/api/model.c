/* model.c - weft_model_*: opening, and what a model says of itself. */
#include <string.h>

#include "api/api.h"
#include "kv/config.h"

/* What cannot be computed with is reported when it is asked for; what failed for want of memory or
 * a broken medium is a failure to open. */
static bool is_fatal(weft_status status)
{
    return status == WEFT_NOMEM || status == WEFT_IO;
}

static weft_status open_text(weft_model *m, const char *cache_dir, weft_error *err)
{
    tokenizer_cache cache = {cache_dir, TOKENIZER_CACHED_BYTES};
    weft_status status =
        tokenizer_open(m->model->weights, &cache, &m->tokenizer, &m->tokenizer_error);
    if (is_fatal(status)) return err_set(err, status, "%s", m->tokenizer_error.message);
    if (status == WEFT_OK && m->tokenizer == NULL) {
        err_set(&m->tokenizer_error, WEFT_UNSUPPORTED, "the model has no tokenizer");
    }
    status = api_open_chat(m, &m->chat_error);
    if (is_fatal(status)) return err_set(err, status, "%s", m->chat_error.message);
    if (status == WEFT_OK && m->chat == NULL) {
        err_set(&m->chat_error, WEFT_UNSUPPORTED, "the model has no chat template");
    }
    return WEFT_OK;
}

static weft_status make_words(weft_model *m, weft_error *err)
{
    m->words = mem_alloc_zero(&m->allocator, sizeof *m->words);
    if (m->words == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a model");
    return thread_lock_create(&m->allocator, &m->words->lock, err);
}

static void free_words(weft_model *m)
{
    if (m->words == NULL) return;
    grammar_vocab_destroy(m->words->vocab);
    thread_lock_destroy(m->words->lock);
    mem_free(&m->allocator, m->words, sizeof *m->words);
}

static weft_status open_with(const weft_model_options *options, const io *files, const char *path,
                             weft_model **out, weft_error *err)
{
    const weft_allocator *allocator =
        options->allocator != NULL ? options->allocator : mem_system();
    weft_model *m = mem_alloc_zero(allocator, sizeof *m);
    if (m == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a model");
    m->allocator = *allocator;
    if (options->log != NULL) m->log = *options->log;
    m->env = (env){&m->allocator, files, options->log != NULL ? &m->log : NULL};
    weft_status status = llm_open(&m->env, path, &m->model, err);
    if (status == WEFT_OK) status = make_words(m, err);
    if (status == WEFT_OK) status = open_text(m, options->cache_dir, err);
    if (status == WEFT_OK) {
        weights_drop_config(m->model->weights);
        *out = m;
        return WEFT_OK;
    }
    weft_model_close(m);
    /* What failed on the path itself has named it. */
    if (err != NULL && strstr(err->message, path) == NULL)
        err_context(err, "cannot open '%s': ", path);
    return status;
}

weft_status api_model_open(const char *path, const weft_model_options *options, const io *files,
                           weft_model **model, weft_error *err)
{
    err_clear(err);
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    *model = NULL;
    if (path == NULL || path[0] == '\0') return err_set(err, WEFT_ARGUMENT, "path is empty");
    weft_model_options ours = {.struct_size = sizeof ours};
    weft_status status = API_TAKE(ours, options, log, "weft_model_options", err);
    return status == WEFT_OK ? open_with(&ours, files, path, model, err) : status;
}

weft_status weft_model_open(const char *path, const weft_model_options *options, weft_model **model,
                            weft_error *err)
{
    return api_model_open(path, options, io_system(), model, err);
}

void weft_model_close(weft_model *model)
{
    if (model == NULL) return;
    weft_allocator allocator = model->allocator;
    free_words(model);
    template_destroy(model->chat);
    tokenizer_destroy(model->tokenizer);
    llm_close(model->model);
    mem_free(&allocator, model, sizeof *model);
}

weft_status weft_model_experts(const weft_model *model, weft_experts_info *info, weft_error *err)
{
    err_clear(err);
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    experts_size size = engine_experts_size(model->model);
    weft_experts_info ours = {.struct_size = sizeof ours,
                              .n_layers = size.n_layers,
                              .n_experts = size.n_experts,
                              .n_top = size.n_top,
                              .n_all = size.n_all,
                              .n_bytes = size.n_bytes,
                              .bytes_each = size.each_bytes,
                              .bytes_least = size.each_bytes * EXPERTS_LEAST};
    return API_GIVE(ours, info, bytes_least, "weft_experts_info", err);
}

static void count_tensors(const weights *w, weft_model_info *info)
{
    for (uint32_t i = 0; i < w->n_tensors; i++) info->n_bytes += tensor_bytes(&w->tensors[i]);
}

weft_status weft_model_get_info(const weft_model *model, weft_model_info *info, weft_error *err)
{
    err_clear(err);
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    const struct llm *m = model->model;
    const weft_sampling *s = &m->generation.sampling;
    weft_model_info ours = {
        .struct_size = sizeof ours,
        .family = m->family->name,
        .format = m->weights->format->name,
        .n_layers = m->params.n_layers,
        .n_embd = m->params.n_embd,
        .n_vocab = m->params.n_vocab,
        .context = m->params.context,
        .n_tensors = m->n_listed,
        .has_tokenizer = model->tokenizer != NULL,
        .has_template = model->chat != NULL,
        .stop_ids = m->generation.stop_ids,
        .n_stop_ids = m->generation.n_stop_ids,
        .temperature = s->temperature,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .top_k = s->top_k,
        .repetition_penalty = s->repetition_penalty,
        .typical_p = s->typical_p,
        .has_logits = m->graph.output != 0,
        .has_mtp = m->draft.n_values > 0,
        .has_vision = m->tower.family != NULL,
        .drafts_for = m->params.is_assistant ? m->params.target_embd : 0,
    };
    if (m->embedding.error.status == WEFT_OK) {
        ours.pooling = m->embedding.pooling;
        ours.normalize = m->embedding.normalize ? WEFT_NORMALIZE_YES : WEFT_NORMALIZE_NO;
    }
    for (uint32_t i = 0; i < m->n_listed; i++)
        ours.n_params += m->listed[i].n_rows * m->listed[i].n_cols;
    count_tensors(m->weights, &ours);
    return API_GIVE(ours, info, top_k, "weft_model_info", err);
}

weft_status weft_model_tensor(const weft_model *model, uint32_t index, weft_tensor_info *info,
                              weft_error *err)
{
    err_clear(err);
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    if (index >= model->model->n_listed) {
        return err_set(err, WEFT_ARGUMENT, "tensor %u, the model has %u", index,
                       model->model->n_listed);
    }
    const tensor *t = &model->model->listed[index];
    weft_tensor_info ours = {.struct_size = sizeof ours,
                             .name = t->name,
                             .n_dims = t->n_dims,
                             .encoding = model->model->labels[index],
                             .n_bytes = tensor_bytes(t)};
    for (uint32_t i = 0; i < t->n_dims; i++) ours.dims[i] = t->dims[i];
    return API_GIVE(ours, info, n_bytes, "weft_tensor_info", err);
}

/* A spec as the model's layers take it. */
static weft_status read_spec(const struct llm *m, const char *text, kv_spec *spec, weft_error *err)
{
    weft_status status = kv_spec_parse(text, "bf16", spec, err);
    spec->n_model_layers = m->params.n_layers;
    return status == WEFT_OK ? kv_spec_check(spec, m->kv_layers, m->n_kv_layers, err) : status;
}

/* What a layer costs a sequence: for each token, and at most. */
static void layer_cost(const struct llm *m, const kv_spec *spec, uint32_t layer,
                       uint64_t *per_token, uint64_t *fixed)
{
    const kv_layer *l = &m->kv_layers[layer];
    *per_token = *fixed = 0;
    if (l->layout == KV_LAYOUT_RECURRENT) {
        for (uint32_t i = 0; i < KV_BUFFERS; i++) *fixed += (uint64_t)l->buffers[i] * sizeof(float);
        return;
    }
    kv_spec own;
    kv_spec_at(spec, l, layer, m->n_kv_layers, &own);
    uint64_t bytes = kv_spec_bytes(&own, l);
    *(l->window == 0 ? per_token : fixed) = l->window == 0 ? bytes : bytes * l->window;
}

weft_status weft_model_kv(const weft_model *model, const char *spec, weft_kv_info *info,
                          weft_error *err)
{
    err_clear(err);
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    const struct llm *m = model->model;
    kv_spec parsed;
    weft_status status = read_spec(m, spec, &parsed, err);
    if (status != WEFT_OK) return status;
    weft_kv_info ours = {.struct_size = sizeof ours};
    for (uint32_t i = 0; i < m->n_kv_layers; i++) {
        uint64_t per_token;
        uint64_t fixed;
        layer_cost(m, &parsed, i, &per_token, &fixed);
        ours.bytes_per_token += per_token;
        ours.bytes_fixed += fixed;
        uint8_t layout = m->kv_layers[i].layout;
        ours.n_recurrent += layout == KV_LAYOUT_RECURRENT;
        ours.n_encoded += layout != KV_LAYOUT_RECURRENT && layout != KV_LAYOUT_INDEX;
    }
    return API_GIVE(ours, info, bytes_fixed, "weft_kv_info", err);
}

/* The keys by which a layer chooses positions, if it has such. */
static void add_index(const struct llm *m, const kv_spec *spec, uint32_t layer,
                      weft_kv_layer_info *info)
{
    for (uint32_t i = m->params.n_layers; i < m->n_kv_layers; i++) {
        if (m->kv_layers[i].layout != KV_LAYOUT_INDEX || m->kv_layers[i].of != layer) continue;
        kv_spec own;
        uint64_t per_token;
        uint64_t fixed;
        kv_spec_at(spec, &m->kv_layers[i], i, m->n_kv_layers, &own);
        layer_cost(m, spec, i, &per_token, &fixed);
        info->index = own.k->name;
        info->bytes_per_token += per_token;
    }
}

weft_status weft_model_kv_layer(const weft_model *model, const char *spec, uint32_t layer,
                                weft_kv_layer_info *info, weft_error *err)
{
    err_clear(err);
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    const struct llm *m = model->model;
    if (layer >= m->params.n_layers) {
        return err_set(err, WEFT_ARGUMENT, "layer %u, the model has %u", layer, m->params.n_layers);
    }
    kv_spec parsed;
    weft_status status = read_spec(m, spec, &parsed, err);
    if (status != WEFT_OK) return status;
    weft_kv_layer_info ours = {
        .struct_size = sizeof ours, .layout = "shared", .k = "", .v = "", .index = ""};
    if (layer < m->n_kv_layers) {
        const kv_layer *l = &m->kv_layers[layer];
        bool recurrent = l->layout == KV_LAYOUT_RECURRENT;
        kv_spec own;
        kv_spec_at(&parsed, l, layer, m->n_kv_layers, &own);
        ours.layout = kv_layout_by_id(l->layout)->name;
        ours.k = recurrent ? "f32" : own.k->name;
        ours.v = recurrent ? "f32" : own.v->name;
        ours.window = l->window;
        layer_cost(m, &parsed, layer, &ours.bytes_per_token, &ours.bytes_fixed);
        add_index(m, &parsed, layer, &ours);
    }
    return API_GIVE(ours, info, bytes_fixed, "weft_kv_layer_info", err);
}
