/* files.c - what requests left behind as files, for other processes and other days. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "engine/state.h"
#include "models/fingerprint.h"

/* Counted up when a kernel's arithmetic changes, so that files made with the old one are not
 * continued with the new. */
enum { NUMERICS_REVISION = 2 };

static void add_text(hash_stream *s, const char *text)
{
    hash_stream_add_field(s, text, strlen(text));
}

/* What bits depend on: not the number of threads, steps or company (docs/numerics.md). */
static weft_status numerics_id(const weft_engine *e, unsigned char digest[STATE_DIGEST],
                               weft_error *err)
{
    char numbers[64];
    hash_stream s;
    weft_status status = hash_stream_open(&s, err);
    if (status != WEFT_OK) return status;
    snprintf(numbers, sizeof numbers, "%d %d %d", NUMERICS_REVISION, KV_SPLIT, (int)e->options.act);
    add_text(&s, e->api->name);
    add_text(&s, e->api->isa(e->backend));
    add_text(&s, numbers);
    return hash_stream_close(&s, digest, err);
}

/* All weights are read for it, once, and not before somebody asks for a file. */
weft_status files_know_origin(weft_engine *e, weft_error *err)
{
    kv_origin origin;
    if (e->has_origin) return WEFT_OK;
    weft_status status = llm_fingerprint(e->model, origin.model, err);
    if (status == WEFT_OK) status = llm_tokenizer_hash(e->model, origin.tokenizer, err);
    if (status == WEFT_OK) status = numerics_id(e, origin.numerics, err);
    if (status != WEFT_OK) return status;
    e->files.prefix = e->prefix;
    e->files.files = e->env.io;
    e->files.origin = origin;
    e->has_origin = true;
    return WEFT_OK;
}

/* The space of requests that name neither a codec nor a salt. Called with the lock held. */
static weft_status find_space(weft_engine *e, kv_space **space, weft_error *err)
{
    const engine_store *store;
    if (e->prefix == NULL) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "the engine keeps no state of requests that have ended");
    }
    if (e->stepping) return err_set(err, WEFT_ARGUMENT, "another thread is stepping this engine");
    weft_status status = files_know_origin(e, err);
    if (status == WEFT_OK) status = cache_store(e, NULL, &store, err);
    if (status != WEFT_OK) return status;
    if (store->config.n_cross > 0) {
        return err_set(err, WEFT_UNSUPPORTED, "the state of an encoder's model cannot be saved");
    }
    *space = kv_prefix_space(e->prefix, &store->config, 0);
    return *space != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for a file of state");
}

weft_status engine_state_save(weft_engine *e, const int32_t *tokens, uint32_t n, const char *path,
                              uint32_t *n_saved, weft_error *err)
{
    kv_history h = {.ids = tokens, .n = n};
    kv_space *space;
    thread_lock_take(e->lock);
    weft_status status = find_space(e, &space, err);
    if (status == WEFT_OK) status = kv_save(&e->files, space, &h, path, n_saved, err);
    thread_lock_drop(e->lock);
    return status;
}

/* A damaged file is looked at once: it gets another name. False: it could not. */
static bool set_aside(const weft_engine *e, const char *path)
{
    char aside[IO_PATH_BYTES];
    int n = snprintf(aside, sizeof aside, "%s.bad", path);
    if (n < 0 || n >= (int)sizeof aside) return false;
    return e->env.io->rename(e->env.io, path, aside, NULL) == WEFT_OK;
}

weft_status engine_state_restore(weft_engine *e, const char *path, weft_restored *out,
                                 weft_error *err)
{
    kv_space *space;
    kv_loaded loaded = {KV_MISS_NONE, 0, 0};
    thread_lock_take(e->lock);
    weft_status status = find_space(e, &space, err);
    if (status == WEFT_OK) status = kv_load(&e->files, space, path, &loaded, err);
    if (status == WEFT_OK && kv_miss_is_damage(loaded.miss)) out->set_aside = set_aside(e, path);
    thread_lock_drop(e->lock);
    if (status != WEFT_OK) return status;
    out->n_tokens = loaded.n_tokens;
    out->n_usable = loaded.n_usable;
    out->reason = loaded.miss == KV_MISS_NONE ? "" : kv_miss_text(loaded.miss);
    return WEFT_OK;
}
