/* cpu.c - the CPU backend's row of functions. */
#include "backend/cpu/cpu.h"

#include "backend/host.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

static void cpu_close(backend *b)
{
    if (b == NULL) return;
    thread_pool_destroy(b->pool);
    mem_free(b->env.allocator, b, sizeof *b);
}

static weft_status cpu_open(const backend_config *config, backend **out, weft_error *err)
{
    *out = NULL;
    backend *b = mem_alloc_zero(config->env.allocator, sizeof *b);
    if (b == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the backend");
    b->env = config->env;
    b->act = config->act;
    b->n_threads = config->n_threads;
    b->streams = config->experts != NULL;
    if (b->streams) b->experts = *config->experts;
    weft_status status = cpu_kernels_select(config->isa, &b->kernels, err);
    if (status == WEFT_OK)
        status = thread_pool_create(b->env.allocator, b->n_threads, &b->pool, err);
    if (status != WEFT_OK) {
        cpu_close(b);
        return status;
    }
    *out = b;
    return WEFT_OK;
}

static const char *cpu_isa_name(const backend *b)
{
    return b->kernels.isa;
}

static void *cpu_alloc(backend *b, size_t n_bytes)
{
    return mem_alloc(b->env.allocator, n_bytes);
}

static void cpu_release(backend *b, void *block, size_t n_bytes)
{
    mem_free(b->env.allocator, block, n_bytes);
}

static size_t cpu_plan_bytes(const backend_plan *plan)
{
    return plan->n_bytes + (plan->store != NULL ? experts_scratch_bytes(plan->store) : 0);
}

static void cpu_experts(const backend_plan *plan, backend_expert_stats *stats)
{
    *stats = (backend_expert_stats){0};
    if (plan->store != NULL) experts_get_stats(plan->store, stats);
}

static weft_status cpu_run_step(backend *b, backend_plan *plan, const backend_step *step,
                                weft_error *err)
{
    ASSERT(backend_step_fits(step, &plan->limits));
    for (uint32_t i = 0; i < 2 * plan->n_phases; i++) {
        atomic_store_explicit(&plan->next[i], 0, memory_order_relaxed);
    }
    cpu_run r = {b, plan, step};
    atomic_store_explicit(&plan->failed, WEFT_OK, memory_order_relaxed);
    if (plan->trace != NULL) cpu_trace_start(plan->trace);
    thread_pool_run(b->pool, cpu_run_thread, &r);
    weft_status status = (weft_status)atomic_load_explicit(&plan->failed, memory_order_relaxed);
    if (plan->trace != NULL && status == WEFT_OK) cpu_trace_fold(&r);
    if (plan->store != NULL) experts_rest(plan->store);
    return status == WEFT_OK ? WEFT_OK : err_set(err, status, "%s", plan->error.message);
}

/* ---- the plain read -------------------------------------------------------------------------- */

enum { READ_REPEATS = 4, READ_PIECE = 1 << 20 };

typedef struct read_work {
    const backend *b;
    const unsigned char *block;
    size_t n_pieces;
    uint32_t loop;
    atomic_uint next;
    atomic_ullong sum; /* keeps the loops from being dropped */
} read_work;

static void read_pieces(void *user, uint32_t thread_i)
{
    read_work *w = user;
    uint64_t sum = thread_i;
    for (;;) {
        size_t i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (i >= w->n_pieces) break;
        sum ^= w->b->kernels.read(w->block + i * READ_PIECE, READ_PIECE, w->loop);
    }
    atomic_fetch_xor_explicit(&w->sum, sum, memory_order_relaxed);
}

static weft_status cpu_measure_read(backend *b, const void *block, size_t n_bytes,
                                    double *bytes_per_second, weft_error *err)
{
    *bytes_per_second = 0.0;
    if (n_bytes < READ_PIECE) {
        return err_set(err, WEFT_ARGUMENT, "a plain read needs at least %d bytes, got %zu",
                       READ_PIECE, n_bytes);
    }
    read_work w = {.b = b, .block = block, .n_pieces = n_bytes / READ_PIECE};
    for (uint32_t i = 0; i < KERNEL_READS * READ_REPEATS; i++) {
        w.loop = i % KERNEL_READS;
        atomic_store(&w.next, 0);
        uint64_t start = clock_now_ns();
        thread_pool_run(b->pool, read_pieces, &w);
        double seconds = (double)(clock_now_ns() - start) * 1e-9;
        double speed = (double)(w.n_pieces * READ_PIECE) / seconds;
        if (speed > *bytes_per_second) *bytes_per_second = speed;
    }
    return WEFT_OK;
}

const backend_api BACKEND_CPU = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .isa = cpu_isa_name,
    .supports = host_supports,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .copy = host_copy,
    .convert = host_convert,
    .plan = cpu_plan,
    .plan_free = cpu_plan_free,
    .plan_bytes = cpu_plan_bytes,
    .experts = cpu_experts,
    .run = cpu_run_step,
    .wait = host_wait,
    .trace = cpu_trace_set,
    .trace_part = cpu_trace_part,
    .replay = cpu_replay,
    .measure_read = cpu_measure_read,
};
