/* fleet.c - loading, stepping and dropping models. */
#include "server/fleet.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/generation.h"

enum {
    RETRY_MS = 10000, /* a model that failed is not tried again before */
    DRAFT_STATE_BYTES = 256 << 20,
    IDLE_NS =
        20 * 1000000, /* between steps that could do nothing: answers wait for their clients */
    /* The loop is not told of each step where steps are short, but so often; and sooner, while
     * somebody waits for a first token. Of so many steps at most: streams have room for them. */
    TELL_NS = 10 * 1000000,
    TELL_SOON_NS = 1000000,
    TELL_STEPS = 64
};

struct fleet {
    uv_loop_t *loop;
    const server_options *options;
    fleet_model *models; /* [n] */
    uint32_t n;
    fleet_model *loading; /* one at a time; NULL: none */
    uv_timer_t timer;     /* of waits that end */
    bool closing;
};

static void load_next(fleet *f);

/* ---- the stepping thread --------------------------------------------------------------------- */

/* Grows with every step that had something to do. */
static uint64_t work_of(const fleet_model *m)
{
    weft_engine_info info = {.struct_size = sizeof info};
    weft_engine_get_info(m->engine, &info, NULL);
    return info.ns_runs;
}

static void note_failure(fleet_model *m, weft_status status, const weft_error *err)
{
    if (status == WEFT_OK) return;
    m->n_failed_steps++;
    m->step_error = *err;
    m->broken |= status == WEFT_DEVICE;
}

/* What the stepping thread knows of its steps. */
typedef struct pace {
    uint64_t done;    /* the work of all so far */
    uint64_t told_ns; /* when the loop was told of them last */
    uint32_t n_untold;
    uint32_t n_active; /* behind the last one */
} pace;

/* Whether the loop is told now, and not behind the next step, which takes as long as this one did.
 * An answer that ended is told of at once. Called with the lock held. */
static bool should_tell(fleet_model *m, pace *p, uint64_t begun_ns, uint32_t n_active, bool moved)
{
    uint64_t now = clock_now_ns();
    uint64_t wait_ns = m->hasty ? TELL_SOON_NS : TELL_NS;
    bool ended = n_active < p->n_active || n_active == 0;
    p->n_active = n_active;
    p->n_untold++;
    if (!ended && moved && !m->broken && p->n_untold < TELL_STEPS &&
        now - p->told_ns + (now - begun_ns) < wait_ns)
        return false;
    p->told_ns = now;
    p->n_untold = 0;
    return true;
}

/* One step, without the lock; then whether there should be another at once. */
static void step(fleet_model *m, pace *p)
{
    uint32_t n_active = 0;
    weft_error err = {WEFT_OK, ""};
    m->kicked = false;
    m->stepping = true;
    uv_mutex_unlock(&m->lock);
    uint64_t begun_ns = clock_now_ns();
    weft_status status = weft_step(m->engine, &n_active, &err);
    uint64_t work = work_of(m);
    bool moved = work != p->done;
    p->done = work;
    uv_mutex_lock(&m->lock);
    m->stepping = false;
    note_failure(m, status, &err);
    m->untold = !should_tell(m, p, begun_ns, n_active, moved && status == WEFT_OK);
    if (!m->untold) wake_tell(&m->wake);
    uv_cond_broadcast(&m->change);
    if (n_active == 0 || m->broken) return;
    if (!moved && !m->kicked && !m->stopping) uv_cond_timedwait(&m->change, &m->lock, IDLE_NS);
    m->kicked = true;
}

static void run_steps(void *user)
{
    fleet_model *m = user;
    pace p = {.n_active = 0};
    uv_mutex_lock(&m->lock);
    while (!m->stopping) {
        if (m->kicked && m->n_holds == 0) {
            step(m, &p);
        } else {
            if (m->untold) wake_tell(&m->wake);
            m->untold = false;
            uv_cond_wait(&m->change, &m->lock);
        }
    }
    uv_mutex_unlock(&m->lock);
}

void fleet_set_hasty(fleet_model *m, bool hasty)
{
    uv_mutex_lock(&m->lock);
    m->hasty = hasty;
    uv_mutex_unlock(&m->lock);
}

void fleet_kick(fleet_model *m)
{
    uv_mutex_lock(&m->lock);
    m->kicked = true;
    uv_cond_broadcast(&m->change);
    uv_mutex_unlock(&m->lock);
}

void fleet_hold(fleet_model *m)
{
    uv_mutex_lock(&m->lock);
    m->n_holds++;
    while (m->stepping) uv_cond_wait(&m->change, &m->lock);
    uv_mutex_unlock(&m->lock);
}

void fleet_go_on(fleet_model *m)
{
    uv_mutex_lock(&m->lock);
    m->n_holds--;
    uv_cond_broadcast(&m->change);
    uv_mutex_unlock(&m->lock);
}

bool fleet_is_well(fleet_model *m, weft_error *why)
{
    uv_mutex_lock(&m->lock);
    bool broken = m->broken;
    *why = m->step_error;
    uv_mutex_unlock(&m->lock);
    return !broken;
}

uint64_t fleet_failed_steps(fleet_model *m)
{
    uv_mutex_lock(&m->lock);
    uint64_t n = m->n_failed_steps;
    uv_mutex_unlock(&m->lock);
    return n;
}

/* ---- dropping -------------------------------------------------------------------------------- */

static void close_model(fleet_model *m)
{
    if (m->threaded) {
        uv_mutex_lock(&m->lock);
        m->stopping = true;
        uv_cond_broadcast(&m->change);
        uv_mutex_unlock(&m->lock);
        uv_thread_join(&m->thread);
        m->threaded = m->stopping = m->kicked = m->broken = false;
    }
    weft_engine_close(m->engine);
    weft_model_close(m->drafting);
    weft_model_close(m->model);
    m->engine = NULL;
    m->model = m->drafting = NULL;
}

static uint64_t bytes_loaded(const fleet *f)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const fleet_model *m = &f->models[i];
        if (m->state == FLEET_STATE_READY || m->state == FLEET_STATE_LOADING) sum += m->n_bytes;
    }
    return sum;
}

/* The one that was used longest ago. */
static fleet_model *find_idle(const fleet *f)
{
    fleet_model *found = NULL;
    for (uint32_t i = 0; i < f->n; i++) {
        fleet_model *m = &f->models[i];
        if (m->state != FLEET_STATE_READY || m->n_users > 0) continue;
        if (found == NULL || m->used_ms < found->used_ms) found = m;
    }
    return found;
}

/* Drops models that nobody uses until m has room. */
static weft_status make_room(fleet_model *m, weft_error *err)
{
    fleet *f = m->fleet;
    uint64_t budget = f->options->memory_bytes;
    while (budget != 0 && bytes_loaded(f) > budget) {
        fleet_model *idle = find_idle(f);
        if (idle == NULL) {
            return err_set(err, WEFT_LIMIT,
                           "'%s' needs %llu bytes, models that are in use leave %llu of %llu",
                           m->name, (unsigned long long)m->n_bytes,
                           (unsigned long long)(budget + m->n_bytes > bytes_loaded(f)
                                                    ? budget + m->n_bytes - bytes_loaded(f)
                                                    : 0),
                           (unsigned long long)budget);
        }
        close_model(idle);
        idle->state = FLEET_STATE_AWAY;
    }
    return WEFT_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Beside the model's own. Of the state as much as the engine takes where nothing is said. */
static uint64_t draft_bytes(const fleet_model *m)
{
    const weft_engine_options *o = &m->options;
    weft_model_info info = {.struct_size = sizeof info};
    if (m->drafting == NULL || weft_model_get_info(m->drafting, &info, NULL) != WEFT_OK) return 0;
    if (info.drafts_for != 0) return info.n_bytes;
    return info.n_bytes + (o->draft_memory_bytes != 0 ? o->draft_memory_bytes : DRAFT_STATE_BYTES);
}

/* What the sequences of a server may take: that of as many as may run together, of the longest
 * kind, but no more than a quarter of the machine's memory unless one alone needs it. */
static weft_status choose_memory(fleet_model *m, weft_error *err)
{
    weft_engine_options *o = &m->options;
    uint64_t each;
    uint32_t n = o->max_sequences != 0 ? o->max_sequences : 16;
    m->context = o->context != 0 ? o->context : m->info.context < 8192 ? m->info.context : 8192;
    weft_status status = weft_model_state_bytes(m->model, o, m->context, &each, err);
    if (status != WEFT_OK || o->memory_bytes != 0) return status;
    uint64_t most = mem_of_machine() / 4;
    o->memory_bytes = each > UINT64_MAX / n ? UINT64_MAX : each * n;
    if (most != 0 && o->memory_bytes > most) o->memory_bytes = most;
    if (o->memory_bytes < each) o->memory_bytes = each;
    return WEFT_OK;
}

static weft_status take_drafter(fleet_model *m, weft_error *err)
{
    const char *draft = m->fleet->options->draft;
    if (draft == NULL || strcmp(draft, "ngram") == 0) return WEFT_OK;
    if (strcmp(draft, "mtp") == 0) {
        if (m->info.has_mtp) m->options.flags |= WEFT_ENGINE_MTP;
        return WEFT_OK;
    }
    weft_status status = weft_model_open(draft, &m->fleet->options->model, &m->drafting, err);
    m->options.draft_model = m->drafting;
    return status;
}

/* In one of libuv's threads. */
static void open_model(uv_work_t *work)
{
    fleet_model *m = work->data;
    const server_options *o = m->fleet->options;
    m->info = (weft_model_info){.struct_size = sizeof m->info};
    m->options = o->engine;
    weft_status status = weft_model_open(m->path, &o->model, &m->model, &m->error);
    if (status == WEFT_OK) status = weft_model_get_info(m->model, &m->info, &m->error);
    if (status == WEFT_OK) status = take_drafter(m, &m->error);
    if (status == WEFT_OK) status = choose_memory(m, &m->error);
    m->n_bytes = m->info.n_bytes + m->options.memory_bytes + draft_bytes(m);
    m->load_status = status;
}

static void open_engine(uv_work_t *work)
{
    fleet_model *m = work->data;
    m->load_status = weft_engine_open(m->model, &m->options, &m->engine, &m->error);
}

static void answer_waits(fleet_model *m, uint32_t status)
{
    fleet_wait *waits = m->waits;
    m->waits = NULL;
    while (waits != NULL) {
        fleet_wait *w = waits;
        waits = w->next;
        bool ready = m->state == FLEET_STATE_READY;
        if (ready) m->n_users++;
        w->ready(w, ready ? m : NULL, status, &m->error);
    }
}

/* Whoever started the server may not be among those who ask for the model. */
static void note_load(const fleet_model *m)
{
    char line[640];
    const server_options *o = m->fleet->options;
    if (o->log == NULL || m->fleet->closing) return;
    snprintf(line, sizeof line, "'%.300s' is not loaded: %s", m->name, m->error.message);
    o->log(o->user, line);
}

/* status: of HTTP. */
static void fail_load(fleet_model *m, uint32_t status)
{
    note_load(m);
    close_model(m);
    m->state = FLEET_STATE_FAILED;
    m->failed_ms = uv_now(m->fleet->loop);
    /* What only lacks room is tried again at once. */
    if (status == 503) m->failed_ms -= RETRY_MS < m->failed_ms ? RETRY_MS : m->failed_ms;
    answer_waits(m, status);
}

/* What was asked for all models, and this one has not. */
static void note_no_head(const fleet_model *m)
{
    char line[320];
    const server_options *o = m->fleet->options;
    bool wanted = o->draft != NULL && strcmp(o->draft, "mtp") == 0;
    if (!wanted || m->info.has_mtp || o->log == NULL) return;
    snprintf(line, sizeof line, "'%.256s' has no head that drafts (mtp): it answers without",
             m->name);
    o->log(o->user, line);
}

static void finish_load(fleet_model *m)
{
    fleet *f = m->fleet;
    f->loading = NULL;
    weft_status status = m->load_status;
    if (status == WEFT_OK && f->closing)
        status = err_set(&m->error, WEFT_CANCELLED, "the server ends");
    if (status == WEFT_OK) {
        m->threaded = uv_thread_create(&m->thread, run_steps, m) == 0;
        if (!m->threaded) status = err_set(&m->error, WEFT_DEVICE, "no thread for '%s'", m->name);
    }
    if (status == WEFT_OK) {
        m->state = FLEET_STATE_READY;
        m->loaded_ms = uv_now(f->loop) - m->used_ms;
        m->used_ms = uv_now(f->loop);
        note_no_head(m);
        answer_waits(m, 200);
    } else {
        fail_load(m, 500);
    }
    load_next(f);
}

static void after_engine(uv_work_t *work, int cancelled)
{
    (void)cancelled;
    fleet_model *m = work->data;
    uv_update_time(m->fleet->loop);
    finish_load(m);
}

static void after_model(uv_work_t *work, int cancelled)
{
    (void)cancelled;
    fleet_model *m = work->data;
    fleet *f = m->fleet;
    if (m->load_status != WEFT_OK || f->closing) {
        f->loading = NULL;
        fail_load(m, 500);
        load_next(f);
        return;
    }
    if (make_room(m, &m->error) != WEFT_OK ||
        uv_queue_work(f->loop, &m->load, open_engine, after_engine) != 0) {
        f->loading = NULL;
        fail_load(m, 503);
        load_next(f);
    }
}

static void load_next(fleet *f)
{
    if (f->loading != NULL || f->closing) return;
    for (uint32_t i = 0; i < f->n; i++) {
        fleet_model *m = &f->models[i];
        if (m->state != FLEET_STATE_WAITING) continue;
        m->state = FLEET_STATE_LOADING;
        m->error = (weft_error){WEFT_OK, ""};
        m->used_ms = uv_now(f->loop);
        m->n_bytes = 0;
        f->loading = m;
        if (uv_queue_work(f->loop, &m->load, open_model, after_model) == 0) return;
        f->loading = NULL;
        err_set(&m->error, WEFT_DEVICE, "no thread loads '%s'", m->name);
        fail_load(m, 503);
    }
}

/* ---- holding --------------------------------------------------------------------------------- */

void fleet_acquire(fleet_model *m, fleet_wait *w)
{
    fleet *f = m->fleet;
    uint64_t now = uv_now(f->loop);
    if (m->state == FLEET_STATE_READY) {
        m->n_users++;
        w->ready(w, m, 200, NULL);
        return;
    }
    if (m->state == FLEET_STATE_FAILED && now - m->failed_ms < RETRY_MS) {
        w->ready(w, NULL, 500, &m->error);
        return;
    }
    w->deadline = now + f->options->load_wait_ms;
    w->next = m->waits;
    m->waits = w;
    if (m->state == FLEET_STATE_AWAY || m->state == FLEET_STATE_FAILED)
        m->state = FLEET_STATE_WAITING;
    load_next(f);
}

void fleet_forget(fleet_model *m, fleet_wait *w)
{
    for (fleet_wait **at = &m->waits; *at != NULL; at = &(*at)->next) {
        if (*at != w) continue;
        *at = w->next;
        return;
    }
}

void fleet_release(fleet_model *m)
{
    ASSERT(m->n_users > 0);
    m->n_users--;
    m->used_ms = uv_now(m->fleet->loop);
}

/* Who has waited long enough is told to come again. */
static void end_waits(uv_timer_t *timer)
{
    fleet *f = timer->data;
    uint64_t now = uv_now(f->loop);
    for (uint32_t i = 0; i < f->n; i++) {
        fleet_model *m = &f->models[i];
        weft_error err = {WEFT_OK, ""};
        for (fleet_wait **at = &m->waits; *at != NULL;) {
            fleet_wait *w = *at;
            if (now < w->deadline) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            err_clear(&err);
            err_set(&err, WEFT_LIMIT, "the model '%s' is being loaded; try again later", m->name);
            w->ready(w, NULL, 503, &err);
            /* The list may have changed. */
            at = &m->waits;
        }
    }
}

/* ---- the fleet ------------------------------------------------------------------------------- */

static void on_wake(void *user)
{
    generation_poll_all(user);
}

weft_status fleet_create(uv_loop_t *loop, const server_options *options, fleet **out,
                         weft_error *err)
{
    *out = NULL;
    fleet *f = mem_alloc_zero(mem_system(), sizeof *f);
    size_t n_bytes = options->n_models * sizeof *f->models;
    fleet_model *models = mem_alloc_zero(mem_system(), n_bytes);
    if (f == NULL || models == NULL) {
        mem_free(mem_system(), f, sizeof *f);
        mem_free(mem_system(), models, n_bytes);
        return err_set(err, WEFT_NOMEM, "out of memory for %u models", options->n_models);
    }
    *f = (fleet){.loop = loop, .options = options, .models = models, .n = options->n_models};
    uv_timer_init(loop, &f->timer);
    f->timer.data = f;
    uv_timer_start(&f->timer, end_waits, 100, 100);
    for (uint32_t i = 0; i < f->n; i++) {
        fleet_model *m = &models[i];
        *m = (fleet_model){
            .fleet = f, .name = options->models[i].name, .path = options->models[i].path};
        uv_mutex_init(&m->lock);
        uv_cond_init(&m->change);
        m->load.data = m;
        m->wake.file = -1;
    }
    *out = f;
    for (uint32_t i = 0; i < f->n; i++) {
        weft_status status = wake_open(&models[i].wake, loop, on_wake, &models[i], err);
        if (status == WEFT_OK) continue;
        fleet_close(f);
        return status;
    }
    models[0].state = FLEET_STATE_WAITING;
    load_next(f);
    return WEFT_OK;
}

uint32_t fleet_size(const fleet *f)
{
    return f->n;
}

fleet_model *fleet_at(const fleet *f, uint32_t i)
{
    return &f->models[i];
}

fleet_model *fleet_find(const fleet *f, str name)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (str_equal_text(name, f->models[i].name)) return &f->models[i];
    }
    return name.len == 0 || str_equal_text(name, "default") ? &f->models[0] : NULL;
}

bool fleet_is_loading(const fleet *f)
{
    return f->loading != NULL;
}

void fleet_close(fleet *f)
{
    f->closing = true;
    uv_close((uv_handle_t *)&f->timer, NULL);
    for (uint32_t i = 0; i < f->n; i++) {
        fleet_model *m = &f->models[i];
        if (m->state == FLEET_STATE_READY) close_model(m);
        wake_close(&m->wake);
    }
}

void fleet_destroy(fleet *f)
{
    if (f == NULL) return;
    for (uint32_t i = 0; i < f->n; i++) {
        uv_mutex_destroy(&f->models[i].lock);
        uv_cond_destroy(&f->models[i].change);
        close_model(&f->models[i]);
    }
    mem_free(mem_system(), f->models, f->n * sizeof *f->models);
    mem_free(mem_system(), f, sizeof *f);
}
