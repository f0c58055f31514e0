/* engine.c - weft_engine_* and the calls on requests: checks, defaults, then engine/. */
#include <string.h>

#include "api/api.h"
#include "base/thread.h"

enum {
    CONTEXT_DEFAULT = 8192,
    SEQUENCES_DEFAULT = 16,
    SEQUENCES_MOST = 4096,
    CHUNK_DEFAULT = 512,
    CHUNK_MOST = 16384,
    THREADS_MOST = 256,
    DRAFTS_DEFAULT = 8,
    STATE_GIB_DEFAULT = 4,
    IMAGE_TOKENS_DEFAULT = 1280,
    IMAGE_TOKENS_MOST = 16384,
    REQUEST_FLAGS = WEFT_REQUEST_IGNORE_STOP | WEFT_REQUEST_NO_CACHE | WEFT_REQUEST_TEXT |
                    WEFT_REQUEST_SPECIALS | WEFT_REQUEST_SHOW_STOP | WEFT_REQUEST_CONTINUES,
};

static weft_status check_range(const char *name, uint32_t value, uint32_t most, weft_error *err)
{
    if (value <= most) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "%s is %u, expected at most %u", name, value, most);
}

/* A text goes through an encoder in one step, and nothing of it is kept. */
static void adapt_to_encoder(engine_options *o)
{
    if (o->chunk_tokens == 0) o->chunk_tokens = o->context < CHUNK_MOST ? o->context : CHUNK_MOST;
    o->no_cache = true;
    o->max_drafts = 0;
}

static weft_status effective(const weft_engine_options *from, const struct llm *m,
                             engine_options *o, weft_error *err)
{
    *o = (engine_options){.backend = from->backend != NULL ? from->backend : "cpu",
                          .isa = from->isa,
                          .kv = from->kv,
                          .act = from->act,
                          .n_threads = from->n_threads,
                          .context = from->context,
                          .max_sequences = from->max_sequences,
                          .chunk_tokens = from->chunk_tokens,
                          .max_outputs = from->max_outputs,
                          .max_drafts = from->max_drafts,
                          .max_image_tokens = from->max_image_tokens,
                          .memory_bytes = from->memory_bytes,
                          .cache_bytes = from->cache_bytes,
                          .expert_bytes = from->expert_bytes,
                          .no_cache = (from->flags & WEFT_ENGINE_NO_CACHE) != 0,
                          .draft_head = (from->flags & WEFT_ENGINE_MTP) != 0,
                          .draft_kv = from->draft_kv,
                          .draft_memory_bytes = from->draft_memory_bytes,
                          .state_dir = from->state_dir,
                          .state_dir_bytes = from->state_dir_bytes};
    if ((from->flags & ~(uint32_t)(WEFT_ENGINE_NO_CACHE | WEFT_ENGINE_MTP)) != 0)
        return err_set(err, WEFT_ARGUMENT, "unknown flags %x", from->flags);
    if (o->n_threads == 0) o->n_threads = thread_available();
    if (o->n_threads > THREADS_MOST && from->n_threads == 0) o->n_threads = THREADS_MOST;
    if (o->context == 0)
        o->context = m->params.context < CONTEXT_DEFAULT ? m->params.context : CONTEXT_DEFAULT;
    if (o->max_sequences == 0) o->max_sequences = SEQUENCES_DEFAULT;
    if (m->params.sees_all) adapt_to_encoder(o);
    if (o->chunk_tokens == 0) o->chunk_tokens = CHUNK_DEFAULT;
    if (o->chunk_tokens > o->context) o->chunk_tokens = o->context;
    if (o->max_drafts == 0 && !m->params.sees_all) o->max_drafts = DRAFTS_DEFAULT;
    if (o->max_image_tokens == 0) o->max_image_tokens = IMAGE_TOKENS_DEFAULT;
    if (from->max_drafts == WEFT_NO_DRAFTS) o->max_drafts = 0;
    weft_status status = check_range("max_sequences", o->max_sequences, SEQUENCES_MOST, err);
    if (status == WEFT_OK)
        status = check_range("max_image_tokens", o->max_image_tokens, IMAGE_TOKENS_MOST, err);
    if (status == WEFT_OK) status = check_range("max_drafts", o->max_drafts, DRAFTS_MOST, err);
    if (status != WEFT_OK) return status;
    if (o->max_outputs == 0) o->max_outputs = o->max_sequences + o->max_drafts;
    if (o->max_outputs < o->max_sequences) {
        return err_set(err, WEFT_ARGUMENT, "max_outputs is %u, less than max_sequences, %u",
                       o->max_outputs, o->max_sequences);
    }
    if (o->act != WEFT_ACT_BF16 && o->act != WEFT_ACT_F32 && o->act != WEFT_ACT_INT8) {
        return err_set(err, WEFT_ARGUMENT, "act is %d, expected %d, %d or %d", (int)o->act,
                       WEFT_ACT_BF16, WEFT_ACT_F32, WEFT_ACT_INT8);
    }
    status = check_range("n_threads", o->n_threads, THREADS_MOST, err);
    if (status == WEFT_OK) status = check_range("context", o->context, m->params.context, err);
    if (status == WEFT_OK) status = check_range("chunk_tokens", o->chunk_tokens, CHUNK_MOST, err);
    if (status == WEFT_OK) status = check_range("max_outputs", o->max_outputs, CHUNK_MOST, err);
    return status;
}

/* Tokens of both vocabularies, where both are known: ids mean the same. */
static weft_status check_vocabulary(const tokenizer *ours, const tokenizer *theirs, weft_error *err)
{
    if (ours == NULL || theirs == NULL) return WEFT_OK;
    uint32_t n = tokenizer_n_vocab(ours);
    if (tokenizer_n_vocab(theirs) > n) n = tokenizer_n_vocab(theirs);
    for (uint32_t i = 0; i < n; i++) {
        str a = tokenizer_token(ours, (int32_t)i);
        str b = tokenizer_token(theirs, (int32_t)i);
        if (str_equal(a, b)) continue;
        return err_set(err, WEFT_ARGUMENT, "draft_model: token %u is '%.*s', the model's is '%.*s'",
                       i, (int)(b.len < 40 ? b.len : 40), b.ptr, (int)(a.len < 40 ? a.len : 40),
                       a.ptr);
    }
    return WEFT_OK;
}

static weft_status check_drafting(const weft_model *model, const weft_model *drafting,
                                  const engine_options *o, weft_error *err)
{
    if (o->draft_head && model->model->draft.n_values == 0)
        return err_set(err, WEFT_UNSUPPORTED, "the model has no head that drafts (mtp)");
    if (drafting == NULL && (o->draft_kv != NULL || o->draft_memory_bytes != 0))
        return err_set(err, WEFT_ARGUMENT, "%s is given, but no draft_model",
                       o->draft_kv != NULL ? "draft_kv" : "draft_memory_bytes");
    bool wanted = o->draft_head || drafting != NULL;
    if (wanted && o->max_drafts == 0)
        return err_set(err, WEFT_ARGUMENT, "the engine shall draft, and max_drafts is none");
    if (drafting == NULL) return WEFT_OK;
    return check_vocabulary(model->tokenizer, drafting->tokenizer, err);
}

static weft_status check_folder(engine_options *o, weft_error *err)
{
    if (o->state_dir == NULL && o->state_dir_bytes != 0)
        return err_set(err, WEFT_ARGUMENT, "state_dir_bytes is given, but no state_dir");
    if (o->state_dir != NULL && o->no_cache)
        return err_set(err, WEFT_ARGUMENT, "state_dir is given, but nothing is kept of requests");
    if (o->state_dir_bytes == 0) o->state_dir_bytes = (uint64_t)STATE_GIB_DEFAULT << 30;
    return WEFT_OK;
}

/* What the caller's options come to for a model. */
static weft_status take_options(const weft_model *model, const weft_engine_options *options,
                                engine_options *o, weft_error *err)
{
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    if (model->model->params.is_assistant) {
        return err_set(
            err, WEFT_UNSUPPORTED,
            "the model says nothing alone: it drafts for models of width %u (draft_model)",
            model->model->params.target_embd);
    }
    weft_engine_options from = {.struct_size = sizeof from};
    weft_status status = API_TAKE(from, options, memory_bytes, "weft_engine_options", err);
    if (status == WEFT_OK) status = effective(&from, model->model, o, err);
    o->tokenizer = model->tokenizer;
    o->tokenizer_error = &model->tokenizer_error;
    if (status == WEFT_OK) status = check_drafting(model, from.draft_model, o, err);
    if (status == WEFT_OK) status = check_folder(o, err);
    if (status == WEFT_OK && from.draft_model != NULL) o->draft_model = from.draft_model->model;
    return status;
}

weft_status weft_engine_open(const weft_model *model, const weft_engine_options *options,
                             weft_engine **out, weft_error *err)
{
    err_clear(err);
    if (out == NULL) return err_set(err, WEFT_ARGUMENT, "engine is NULL");
    *out = NULL;
    engine_options o;
    weft_status status = take_options(model, options, &o, err);
    return status == WEFT_OK ? engine_open(model->model, &o, out, err) : status;
}

weft_status weft_model_state_bytes(const weft_model *model, const weft_engine_options *options,
                                   uint32_t n_positions, uint64_t *n_bytes, weft_error *err)
{
    err_clear(err);
    if (n_bytes == NULL) return err_set(err, WEFT_ARGUMENT, "n_bytes is NULL");
    *n_bytes = 0;
    engine_options o;
    weft_status status = take_options(model, options, &o, err);
    if (status != WEFT_OK) return status;
    return engine_state_bytes(model->model, &o, n_positions, n_bytes, err);
}

void weft_engine_close(weft_engine *engine)
{
    engine_close(engine);
}

static weft_status need(const weft_engine *e, weft_error *err)
{
    err_clear(err);
    return e != NULL ? WEFT_OK : err_set(err, WEFT_ARGUMENT, "engine is NULL");
}

/* Their images as ours: [n_images]. */
static weft_status take_images(const weft_request *request, weft_image *ours, weft_error *err)
{
    const unsigned char *at = (const unsigned char *)request->images;
    uint32_t stride;
    memcpy(&stride, at, sizeof stride);
    for (uint32_t i = 0; i < request->n_images; i++) {
        ours[i].struct_size = sizeof ours[i];
        weft_status status = API_TAKE(ours[i], at + (size_t)i * stride, height, "weft_image", err);
        if (status == WEFT_OK && (ours[i].flags & ~(uint32_t)WEFT_IMAGE_AS_IS) != 0)
            status = err_set(err, WEFT_ARGUMENT, "image %u: unknown flags %x", i, ours[i].flags);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status submit_images(weft_engine *engine, weft_request *request, weft_handle *handle,
                                 weft_error *err)
{
    if (request->n_images > MEDIA_IMAGES)
        return err_set(err, WEFT_LIMIT, "%u images, at most %d", request->n_images, MEDIA_IMAGES);
    if (request->images == NULL) return err_set(err, WEFT_ARGUMENT, "images is NULL");
    const weft_allocator *a = engine_allocator(engine);
    size_t n_bytes = request->n_images * sizeof(weft_image);
    weft_image *images = mem_alloc_zero(a, n_bytes);
    if (images == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %u images", request->n_images);
    weft_status status = take_images(request, images, err);
    request->images = images;
    if (status == WEFT_OK) status = engine_submit(engine, request, handle, err);
    mem_free(a, images, n_bytes);
    return status;
}

weft_status weft_submit(weft_engine *engine, const weft_request *request, weft_handle *handle,
                        weft_error *err)
{
    weft_status status = need(engine, err);
    if (handle != NULL) *handle = 0;
    if (status != WEFT_OK) return status;
    if (handle == NULL || request == NULL) {
        return err_set(err, WEFT_ARGUMENT, "%s is NULL", handle == NULL ? "handle" : "request");
    }
    weft_request ours = {.struct_size = sizeof ours};
    status = API_TAKE(ours, request, new_logits, "weft_request", err);
    if (status != WEFT_OK) return status;
    if ((ours.flags & ~(uint32_t)REQUEST_FLAGS) != 0) {
        return err_set(err, WEFT_ARGUMENT, "unknown flags %x", ours.flags);
    }
    if (ours.n_images > 0) return submit_images(engine, &ours, handle, err);
    return engine_submit(engine, &ours, handle, err);
}

weft_status weft_engine_image_info(const weft_engine *engine, uint32_t width, uint32_t height,
                                   weft_image_info *info, weft_error *err)
{
    weft_image_info ours = {.struct_size = sizeof ours};
    weft_status status = need(engine, err);
    if (status != WEFT_OK) return status;
    status = API_GIVE(ours, info, n_tokens, "weft_image_info", err);
    if (status == WEFT_OK) status = engine_image_info(engine, width, height, &ours, err);
    return status == WEFT_OK ? API_GIVE(ours, info, n_tokens, "weft_image_info", err) : status;
}

weft_status weft_step(weft_engine *engine, uint32_t *n_active, weft_error *err)
{
    weft_status status = need(engine, err);
    uint32_t n = 0;
    if (status == WEFT_OK) status = engine_step(engine, &n, err);
    if (n_active != NULL) *n_active = n;
    return status;
}

weft_status weft_poll(weft_engine *engine, weft_handle handle, weft_event *event, weft_error *err)
{
    weft_status status = need(engine, err);
    if (status != WEFT_OK) return status;
    weft_event ours = {.struct_size = sizeof ours};
    if (event == NULL || event->struct_size < API_UP_TO(ours, error))
        return API_GIVE(ours, event, error, "weft_event", err);
    status = engine_poll(engine, handle, &ours, err);
    weft_status given = API_GIVE(ours, event, error, "weft_event", err);
    return status == WEFT_OK ? given : status;
}

weft_status weft_cancel(weft_engine *engine, weft_handle handle, weft_error *err)
{
    weft_status status = need(engine, err);
    return status == WEFT_OK ? engine_cancel(engine, handle, err) : status;
}

weft_status weft_release(weft_engine *engine, weft_handle handle, weft_error *err)
{
    weft_status status = need(engine, err);
    return status == WEFT_OK ? engine_release(engine, handle, err) : status;
}

weft_status weft_engine_get_info(const weft_engine *engine, weft_engine_info *info, weft_error *err)
{
    weft_status status = need(engine, err);
    if (status != WEFT_OK) return status;
    weft_engine_info ours = {.struct_size = sizeof ours};
    engine_info(engine, &ours);
    return API_GIVE(ours, info, scratch_bytes, "weft_engine_info", err);
}

weft_status weft_engine_drop_cache(weft_engine *engine, weft_error *err)
{
    weft_status status = need(engine, err);
    if (status == WEFT_OK) engine_drop_cache(engine);
    return status;
}

static weft_status need_path(const weft_engine *e, const char *path, weft_error *err)
{
    weft_status status = need(e, err);
    if (status != WEFT_OK) return status;
    if (path == NULL || path[0] == '\0') return err_set(err, WEFT_ARGUMENT, "path is empty");
    return WEFT_OK;
}

weft_status weft_state_save(weft_engine *engine, const int32_t *tokens, uint32_t n,
                            const char *path, uint32_t *n_saved, weft_error *err)
{
    uint32_t saved = 0;
    weft_status status = need_path(engine, path, err);
    if (status == WEFT_OK && tokens == NULL && n > 0)
        status = err_set(err, WEFT_ARGUMENT, "tokens is NULL");
    if (status == WEFT_OK) status = engine_state_save(engine, tokens, n, path, &saved, err);
    if (n_saved != NULL) *n_saved = saved;
    return status;
}

weft_status weft_state_restore(weft_engine *engine, const char *path, weft_restored *restored,
                               weft_error *err)
{
    weft_restored ours = {.struct_size = sizeof ours, .reason = ""};
    err_clear(err);
    weft_status status = API_GIVE(ours, restored, reason, "weft_restored", err);
    if (status == WEFT_OK) status = need_path(engine, path, err);
    if (status == WEFT_OK) status = engine_state_restore(engine, path, &ours, err);
    return status == WEFT_OK ? API_GIVE(ours, restored, reason, "weft_restored", err) : status;
}

weft_status weft_engine_trace(weft_engine *engine, bool on, weft_error *err)
{
    weft_status status = need(engine, err);
    return status == WEFT_OK ? engine_trace(engine, on, err) : status;
}

weft_status weft_engine_trace_part(const weft_engine *engine, uint32_t i, weft_trace_part *part,
                                   weft_error *err)
{
    weft_trace_part ours;
    weft_status status = need(engine, err);
    if (status != WEFT_OK) return status;
    uint32_t n = engine_trace_part(engine, i, &ours);
    if (i >= n) return err_set(err, WEFT_ARGUMENT, "part %u, the trace has %u", i, n);
    return API_GIVE(ours, part, idle_seconds, "weft_trace_part", err);
}

weft_status weft_engine_measure_read(weft_engine *engine, uint64_t n_bytes,
                                     double *bytes_per_second, weft_error *err)
{
    weft_status status = need(engine, err);
    if (bytes_per_second != NULL) *bytes_per_second = 0.0;
    if (status != WEFT_OK) return status;
    if (bytes_per_second == NULL) return err_set(err, WEFT_ARGUMENT, "bytes_per_second is NULL");
    return engine_measure_read(engine, n_bytes, bytes_per_second, err);
}
