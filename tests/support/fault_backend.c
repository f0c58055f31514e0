/* fault_backend.c - another backend's calls, counted, one of them failing. */
#include "support/fault_backend.h"

#include "base/mem.h"

struct backend {
    const backend_api *inner;
    backend *b;
    env env;
};

static struct {
    const backend_api *inner;
    fault_call call;
    uint32_t fail_at;
    uint32_t counts[FAULT_N_CALLS];
    uint32_t live;
    weft_status status;
    const backend_plan *plan;
    bool hit;
} wish;

void fault_backend_set(const backend_api *inner, fault_call call, uint32_t fail_at)
{
    wish.inner = inner;
    wish.call = call;
    wish.fail_at = fail_at;
    wish.hit = false;
    wish.status = WEFT_DEVICE;
    wish.plan = NULL;
    for (uint32_t i = 0; i < FAULT_N_CALLS; i++) wish.counts[i] = 0;
}

bool fault_backend_hit(void)
{
    return wish.hit;
}

void fault_backend_fail_with(weft_status status)
{
    wish.status = status;
}

const backend_plan *fault_backend_plan(void)
{
    return wish.plan;
}

uint32_t fault_backend_count(fault_call call)
{
    return wish.counts[call];
}

uint32_t fault_backend_live(void)
{
    return wish.live;
}

backend *fault_backend_wrap(const backend_api *inner, backend *b, const env *world)
{
    backend *outer = mem_alloc_zero(world->allocator, sizeof *outer);
    if (outer == NULL) return NULL;
    outer->inner = inner;
    outer->b = b;
    outer->env = *world;
    wish.live++;
    return outer;
}

static bool fails(fault_call call)
{
    uint32_t n = ++wish.counts[call];
    if (call != wish.call || n != wish.fail_at) return false;
    wish.hit = true;
    return true;
}

static weft_status injected(const char *what, weft_error *err)
{
    return err_set(err, WEFT_DEVICE, "injected failure of %s", what);
}

static weft_status fault_open(const backend_config *config, backend **out, weft_error *err)
{
    *out = NULL;
    if (fails(FAULT_OPEN)) return injected("open", err);
    backend *b = mem_alloc_zero(config->env.allocator, sizeof *b);
    if (b == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the backend");
    b->inner = wish.inner;
    b->env = config->env;
    weft_status status = b->inner->open(config, &b->b, err);
    if (status != WEFT_OK) {
        mem_free(b->env.allocator, b, sizeof *b);
        return status;
    }
    wish.live++;
    *out = b;
    return WEFT_OK;
}

static void fault_close(backend *b)
{
    if (b == NULL) return;
    wish.live--;
    b->inner->close(b->b);
    mem_free(b->env.allocator, b, sizeof *b);
}

static const char *fault_isa(const backend *b)
{
    return b->inner->isa(b->b);
}

static weft_status fault_supports(const backend *b, const graph *g, weft_error *err)
{
    if (fails(FAULT_SUPPORTS)) {
        return err_set(err, WEFT_UNSUPPORTED, "injected failure of supports");
    }
    return b->inner->supports(b->b, g, err);
}

static void *fault_alloc(backend *b, size_t n_bytes)
{
    if (fails(FAULT_ALLOC)) return NULL;
    void *block = b->inner->alloc(b->b, n_bytes);
    if (block != NULL) wish.live++;
    return block;
}

static void fault_release(backend *b, void *block, size_t n_bytes)
{
    if (block != NULL) wish.live--;
    b->inner->release(b->b, block, n_bytes);
}

static void fault_copy(backend *b, void *to, const void *from, size_t n_bytes)
{
    b->inner->copy(b->b, to, from, n_bytes);
}

static weft_status fault_plan(backend *b, const graph *g, const backend_limits *limits,
                              backend_plan **plan, weft_error *err)
{
    *plan = NULL;
    if (fails(FAULT_PLAN)) return injected("plan", err);
    weft_status status = b->inner->plan(b->b, g, limits, plan, err);
    if (status == WEFT_OK) wish.live++;
    return status;
}

static void fault_plan_free(backend *b, backend_plan *plan)
{
    if (plan != NULL) wish.live--;
    b->inner->plan_free(b->b, plan);
}

static size_t fault_plan_bytes(const backend_plan *plan)
{
    return wish.inner->plan_bytes(plan);
}

static void fault_experts(const backend_plan *plan, backend_expert_stats *stats)
{
    wish.inner->experts(plan, stats);
}

static weft_status fault_run(backend *b, backend_plan *plan, const backend_step *step,
                             weft_error *err)
{
    weft_status status = b->inner->run(b->b, plan, step, err);
    if (!fails(FAULT_RUN)) return status;
    wish.plan = plan;
    return err_set(err, wish.status, "injected failure of run");
}

static weft_status fault_wait(backend *b, weft_error *err)
{
    weft_status status = b->inner->wait(b->b, err);
    return fails(FAULT_WAIT) ? injected("wait", err) : status;
}

static void fault_convert(backend *b, const backend_conversion *c)
{
    b->inner->convert(b->b, c);
}

static void fault_replay(backend *b, backend_plan *plan, uint32_t state_i, const kv_view *view,
                         uint32_t n)
{
    b->inner->replay(b->b, plan, state_i, view, n);
}

static weft_status fault_measure_read(backend *b, const void *block, size_t n_bytes,
                                      double *bytes_per_second, weft_error *err)
{
    *bytes_per_second = 0.0;
    if (fails(FAULT_MEASURE)) return injected("measure_read", err);
    return b->inner->measure_read(b->b, block, n_bytes, bytes_per_second, err);
}

const backend_api BACKEND_FAULT = {
    .name = "fault",
    .open = fault_open,
    .close = fault_close,
    .isa = fault_isa,
    .supports = fault_supports,
    .alloc = fault_alloc,
    .release = fault_release,
    .copy = fault_copy,
    .convert = fault_convert,
    .plan = fault_plan,
    .plan_free = fault_plan_free,
    .plan_bytes = fault_plan_bytes,
    .experts = fault_experts,
    .run = fault_run,
    .wait = fault_wait,
    .replay = fault_replay,
    .measure_read = fault_measure_read,
};
