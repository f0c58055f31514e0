/* stream.c - the experts of a layer where memory has no room for all: some at a time, read while
 * others are computed.
 *
 * Thread 0 says which are next and has them read; all threads compute, and wait for an expert
 * where it has not been read yet. Which experts go together changes nothing that is computed: each
 * pair of a token and an expert has results of its own, and a token's sum over them is formed
 * afterwards. */
#include "backend/cpu/cpu.h"

static void fail_run(backend_plan *p, weft_status status, const weft_error *error)
{
    int none = WEFT_OK;
    if (atomic_compare_exchange_strong(&p->failed, &none, (int)status)) p->error = *error;
}

bool cpu_wait_expert(const cpu_run *r, uint32_t slot)
{
    backend_plan *p = r->p;
    weft_error error = {WEFT_OK, ""};
    if (p->store == NULL) return true;
    weft_status status = experts_wait(p->store, slot, &error);
    if (status != WEFT_OK) fail_run(p, status, &error);
    return status == WEFT_OK;
}

/* The next experts of the layer: all that are left, or half of what there is room for, so that the
 * other half can be read meanwhile. */
static void choose_next(const cpu_run *r, uint32_t phase_i)
{
    backend_plan *p = r->p;
    cpu_pairs *pairs = &p->pairs;
    uint32_t room = experts_capacity(p->store);
    uint32_t left = pairs->n_active - pairs->end;
    pairs->now = pairs->end;
    pairs->end += left <= room ? left : room / 2;
    experts_use(p->store, p->phases[phase_i].id, pairs->active + pairs->now,
                pairs->end - pairs->now, pairs->slots + pairs->now);
    for (size_t i = 0; i < 2; i++)
        atomic_store_explicit(&p->next[2 * (size_t)phase_i + i], 0, memory_order_relaxed);
}

/* What comes behind: the rest of this layer, or what the next one is likely to want. */
static void read_ahead(const cpu_run *r, graph_id layer)
{
    const cpu_pairs *pairs = &r->p->pairs;
    uint32_t left = pairs->n_active - pairs->end;
    if (left > 0) {
        experts_ahead(r->p->store, layer, pairs->active + pairs->end, left, false);
    } else {
        cpu_guess_experts(r, layer);
    }
}

void cpu_run_stream(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    backend_plan *p = r->p;
    thread_pool *pool = r->b->pool;
    const phase *ph = &p->phases[phase_i];
    cpu_pairs *pairs = &p->pairs;
    if (thread_i == 0) {
        cpu_group_pairs(r, ph);
        experts_begin(p->store, ph->id, pairs->active, pairs->n_active);
        pairs->end = 0;
    }
    do {
        if (thread_i == 0) choose_next(r, phase_i);
        thread_pool_barrier(pool, thread_i);
        if (thread_i == 0) read_ahead(r, ph->id);
        cpu_run_inner(r, ph, &p->next[2 * (size_t)phase_i], thread_i);
        thread_pool_barrier(pool, thread_i);
        if (atomic_load_explicit(&p->failed, memory_order_relaxed) != WEFT_OK) return;
        if (r->b->act != WEFT_ACT_F32) {
            cpu_prepare_pairs(r, ph, thread_i);
            thread_pool_barrier(pool, thread_i);
        }
        cpu_run_outer(r, ph, &p->next[2 * (size_t)phase_i + 1], thread_i);
        if (pairs->end == pairs->n_active) return;
        thread_pool_barrier(pool, thread_i);
    } while (true);
}
