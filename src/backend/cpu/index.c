/* index.c - choosing the positions that a token attends to: scores of all that it sees, then the
 * largest of them (host_select).
 *
 * A token's scores are computed KV_SPLIT positions at a time, by one thread or, where a step has
 * few tokens, by several; each is the same operations wherever it is computed. They lie in a row
 * for as long as it takes to choose among them. */
#include "backend/cpu/cpu.h"

#include <string.h>

typedef struct index_shape {
    const graph_value *v;
    uint32_t n_heads, k_dim, state_i;
} index_shape;

static index_shape shape_of(const cpu_run *r, const graph_value *v)
{
    const graph_value *keys = &r->p->g->values[v->in[2]];
    return (index_shape){v, r->p->g->values[v->in[1]].cols, keys->i[2], keys->i[0]};
}

static const kv_view *view_of(const cpu_run *r, const index_shape *s, uint32_t token_i)
{
    return &r->step->views[(size_t)s->state_i * r->step->n_rows + cpu_row_of(r->step, token_i)];
}

/* Whether there is a choice to make. */
static bool is_choice(const index_shape *s, backend_span seen)
{
    return seen.end - seen.first > s->v->i[0];
}

/* Splits of what a token sees, where it has a choice. */
static uint32_t n_splits(const cpu_run *r, const index_shape *s, uint32_t token_i)
{
    backend_span seen = backend_seen(r->step, view_of(r, s, token_i), token_i, false);
    return is_choice(s, seen) ? (seen.end - 1) / KV_SPLIT - seen.first / KV_SPLIT + 1 : 0;
}

/* Scores of the n-th split of what a token sees into its row of scores. */
static void score_split(const cpu_run *r, const index_shape *s, uint32_t token_i, uint32_t n,
                        const cpu_scratch *c, float *scores)
{
    const kv_view *view = view_of(r, s, token_i);
    const kv_geometry *g = view->geometry;
    backend_span seen = backend_seen(r->step, view, token_i, false);
    uint32_t begin = (seen.first / KV_SPLIT + n) * KV_SPLIT;
    cpu_span part = {begin > seen.first ? begin : seen.first,
                     seen.end - begin < KV_SPLIT ? seen.end : begin + KV_SPLIT};
    kernel_relu_sum sum = {.s = c->s, .s_stride = KV_SPLIT, .n = part.end - part.first};
    sum.y = scores + (part.first - seen.first);
    memset(sum.y, 0, sum.n * sizeof(float));
    const float *q = cpu_data(r, s->v->in[0]) + (size_t)token_i * s->n_heads * s->k_dim;
    const float *w = cpu_data(r, s->v->in[1]) + (size_t)token_i * s->n_heads;
    for (uint32_t h = 0; h < s->n_heads; h += ATTEND_TASK_QUERIES) {
        uint32_t left = s->n_heads - h;
        sum.n_rows = left < ATTEND_TASK_QUERIES ? left : ATTEND_TASK_QUERIES;
        sum.w = w + h;
        cpu_keys keys = cpu_keys_of(r->b, g);
        cpu_put_queries(r->b, &keys, g, q + (size_t)h * s->k_dim, sum.n_rows, c->q);
        for (uint32_t at = part.first; at < part.end;) {
            cpu_span run = cpu_run_of_keys(g, keys.decoded, at, part.end);
            kernel_scores a = {.q = c->q,
                               .q_stride = s->k_dim,
                               .n_q = sum.n_rows,
                               .k = kv_key(view, 0, at),
                               .n_keys = run.end - at,
                               .scale = 1.0F,
                               .s = c->s + (at - part.first),
                               .s_stride = KV_SPLIT};
            cpu_score_keys(r->b, &keys, g, c->rows, a);
            at = run.end;
        }
        r->b->kernels.relu_sum(&sum);
    }
}

static void choose(const cpu_run *r, const index_shape *s, graph_id id, uint32_t token_i,
                   const cpu_scratch *c, const float *scores)
{
    backend_span seen = backend_seen(r->step, view_of(r, s, token_i), token_i, false);
    host_select(scores, seen.end - seen.first, seen.first, s->v->i[0], c->bins,
                host_list(cpu_data(r, id), token_i, s->v->cols));
}

static float *score_row(const cpu_run *r, uint32_t row_i)
{
    return r->p->index_scores + (size_t)row_i * r->p->limits.context;
}

/* Few tokens: units are the splits of all of them, then threads take tokens. */
static void select_apart(const cpu_run *r, const index_shape *s, uint32_t phase_i,
                         uint32_t thread_i)
{
    const cpu_scratch *c = &r->p->scratch[thread_i];
    uint32_t n_tokens = r->step->n_tokens;
    for (;;) {
        uint32_t unit =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        uint32_t token_i = 0;
        for (; token_i < n_tokens; token_i++) {
            uint32_t n = n_splits(r, s, token_i);
            if (unit < n) break;
            unit -= n;
        }
        if (token_i == n_tokens) break;
        score_split(r, s, token_i, unit, c, score_row(r, token_i));
    }
    thread_pool_barrier(r->b->pool, thread_i);
    for (uint32_t i = thread_i; i < n_tokens; i += r->b->n_threads)
        choose(r, s, r->p->phases[phase_i].id, i, c, score_row(r, i));
}

void cpu_select(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    graph_id id = r->p->phases[phase_i].id;
    index_shape s = shape_of(r, &r->p->g->values[id]);
    if (r->b->n_threads > 1 && r->step->n_tokens <= cpu_score_rows(r->b->n_threads)) {
        select_apart(r, &s, phase_i, thread_i);
        return;
    }
    const cpu_scratch *c = &r->p->scratch[thread_i];
    float *scores = score_row(r, thread_i);
    for (;;) {
        uint32_t token_i =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        if (token_i >= r->step->n_tokens) return;
        for (uint32_t n = 0; n < n_splits(r, &s, token_i); n++)
            score_split(r, &s, token_i, n, c, scores);
        choose(r, &s, id, token_i, c, scores);
    }
}
