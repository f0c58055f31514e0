/* disk.c - the folder that the prefix cache's state goes to, and comes from.
 *
 * A request that waits and whose tokens the folder knows better than memory does is passed by
 * others while its state is fetched, some of it in each step. So is one for which others' state has
 * to be written first. */
#include "engine/state.h"

weft_status disk_open(weft_engine *e, weft_error *err)
{
    const engine_options *o = &e->options;
    if (o->state_dir == NULL) return WEFT_OK;
    weft_status status = files_know_origin(e, err);
    if (status == WEFT_OK) {
        status = kv_disk_open(&e->disk, &e->env, e->prefix, &e->files.origin, o->state_dir,
                              o->state_dir_bytes, err);
    }
    if (status != WEFT_OK) err_context(err, "state_dir: ");
    return status;
}

void disk_close_begin(weft_engine *e)
{
    if (e->disk.env != NULL) e->disk.closing = true;
}

void disk_close(weft_engine *e)
{
    if (e->disk.env == NULL) return;
    kv_disk_flush(&e->disk);
    kv_disk_close(&e->disk);
}

static engine_fetch *find_fetch(weft_engine *e, const request *r)
{
    for (uint32_t i = 0; i < ENGINE_FETCHES; i++) {
        if (e->fetches[i].r == r) return &e->fetches[i];
    }
    return NULL;
}

/* One that lost a file looks again, for what is left. */
static void go_on(engine_fetch *f)
{
    fetch_result result = kv_fetch_step(&f->fetch);
    if (result == FETCH_WAIT) return;
    f->r->looked = result == FETCH_DONE;
    f->r = NULL;
}

void disk_step(weft_engine *e)
{
    if (e->disk.env == NULL) return;
    kv_disk_step(&e->disk);
    for (uint32_t i = 0; i < ENGINE_FETCHES; i++) {
        if (e->fetches[i].r != NULL) go_on(&e->fetches[i]);
    }
    kv_disk_ahead(&e->disk);
}

static kv_space *space_of(weft_engine *e, const request *r)
{
    return kv_prefix_space(e->prefix, &r->store->config, r->salt);
}

bool disk_has(weft_engine *e, request *r)
{
    kv_history h = request_history(r, r->n_tokens);
    kv_space *space = space_of(e, r);
    r->looked = space == NULL || !kv_fetch_finds(&e->disk, space, &h);
    return !r->looked;
}

disk_look disk_look_for(weft_engine *e, request *r)
{
    if (e->disk.env == NULL || r->looked || !cache_finds(e, r)) return DISK_LOOK_NONE;
    if (find_fetch(e, r) != NULL) return DISK_LOOK_WAIT;
    kv_history h = request_history(r, r->n_tokens);
    kv_space *space = space_of(e, r);
    if (space == NULL || !kv_fetch_is_wanted(space, &h)) return DISK_LOOK_NONE;
    uint64_t bytes = kv_config_bytes(&r->store->config, r->n_tokens);
    if (bytes > kv_pool_bytes_left(e->pool)) return DISK_LOOK_ROOM;
    /* Nobody waits for the fetches of others. */
    engine_fetch *f = find_fetch(e, NULL);
    fetch_result result = FETCH_NONE;
    kv_disk_wait(&e->disk, true);
    if (f != NULL) result = kv_fetch_open(&f->fetch, &e->disk, space, &h);
    kv_disk_wait(&e->disk, false);
    r->looked = result == FETCH_NONE;
    if (result == FETCH_NONE) return DISK_LOOK_NONE;
    if (f->fetch.disk == NULL) return DISK_LOOK_WAIT;
    f->r = r;
    go_on(f);
    return r->looked ? DISK_LOOK_NONE : DISK_LOOK_WAIT;
}

void disk_end(weft_engine *e, const request *r)
{
    engine_fetch *f = find_fetch(e, r);
    if (f == NULL) return;
    kv_fetch_close(&f->fetch);
    f->r = NULL;
}

weft_status disk_begin(weft_engine *e, request *r, uint32_t n_positions, bool *later,
                       weft_error *err)
{
    *later = false;
    if (e->disk.env == NULL) return cache_begin(e, r, n_positions, err);
    kv_disk_wait(&e->disk, true);
    weft_status status = cache_begin(e, r, n_positions, err);
    *later = kv_disk_refused(&e->disk);
    kv_disk_wait(&e->disk, false);
    return status;
}

void disk_info(const weft_engine *e, weft_engine_info *info)
{
    const kv_disk_stats *s = &e->disk.stats;
    info->n_disk_hits = s->n_hits;
    info->n_disk_tokens = s->n_tokens;
    info->disk_bytes = s->bytes;
    info->disk_bytes_read = s->bytes_read;
    info->disk_bytes_written = s->bytes_written;
    info->n_disk_skipped = s->n_skipped;
    info->n_disk_damaged = s->n_damaged;
}
