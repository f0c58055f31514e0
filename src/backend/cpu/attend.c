/* attend.c - attention over pages.
 *
 * The positions are cut at multiples of KV_SPLIT. Each split's partial result starts from nothing;
 * partials are merged in ascending order (docs/numerics.md). A task is a row, a key head and a tile
 * of its queries. With few tasks and long contexts the splits of a task are computed by different
 * threads and merged afterwards: the same operations in the same order, so the same bits. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

typedef struct attend_shape {
    const graph_value *v;
    const kv_geometry *g; /* of this layer, from the first row */
    uint32_t state_i;
    uint32_t group;      /* query heads that share a key head */
    uint32_t heads_tile; /* of the group, in a tile */
    uint32_t tokens_tile;
    const kv_codec *k_codec, *v_codec; /* of the tile at work */
    kernel_scores_fn *scores;
    kernel_values_fn *values;
} attend_shape;

/* A tile: queries q_i = token * heads + head of it. */
typedef struct tile {
    const kv_view *view;
    uint32_t kv_head;
    uint32_t first_token, n_tokens; /* of the step */
    uint32_t first_head, n_heads;   /* query heads */
    uint32_t n_q;
    backend_span any; /* positions that at least one of its queries sees */
    backend_span all; /* those that all of them see */
} tile;

/* o [v_dim], then maximum and sum, for each query. */
typedef struct partial {
    float *at;
    uint32_t stride;
} partial;

static float *part_o(partial p, uint32_t q_i)
{
    return p.at + (size_t)q_i * p.stride;
}

/* Packed rows are decoded to f32 first. */
static kernel_scores_fn *scores_fn(const cpu_kernels *k, const kv_codec *codec)
{
    if (codec->kind != KV_DENSE || codec->id == KV_BASE_F32) return k->scores_f32;
    return codec->id == KV_BASE_F16 ? k->scores_f16 : k->scores_bf16;
}

static kernel_values_fn *values_fn(const cpu_kernels *k, const kv_codec *codec)
{
    if (codec->kind != KV_DENSE || codec->id == KV_BASE_F32) return k->values_f32;
    return codec->id == KV_BASE_F16 ? k->values_f16 : k->values_bf16;
}

static attend_shape shape_of(const cpu_run *r, graph_id id)
{
    attend_shape s = {.v = &r->p->g->values[id]};
    const graph_value *state = &r->p->g->values[s.v->in[1]];
    s.state_i = state->i[0];
    s.group = s.v->i[0] / state->i[1];
    s.heads_tile = s.group < ATTEND_QUERIES ? s.group : ATTEND_QUERIES;
    s.tokens_tile = ATTEND_QUERIES / s.heads_tile;
    return s;
}

static const kv_view *view_of(const cpu_run *r, const attend_shape *s, uint32_t row_i)
{
    return &r->step->views[(size_t)s->state_i * r->step->n_rows + row_i];
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t row_tasks(const cpu_run *r, const attend_shape *s, uint32_t row_i)
{
    uint32_t n_tokens = r->step->row_starts[row_i + 1] - r->step->row_starts[row_i];
    uint32_t head_tiles =
        divide_up(s->group, s->heads_tile) * view_of(r, s, row_i)->geometry->n_heads;
    return divide_up(n_tokens, s->tokens_tile) * head_tiles;
}

static backend_span seen_by(const tile *t, const backend_step *step, uint32_t q_i)
{
    return backend_seen(step, t->view, t->first_token + q_i / t->n_heads);
}

/* Neither end falls from a token to the next. */
static void find_seen(tile *t, const backend_step *step)
{
    backend_span first = seen_by(t, step, 0);
    backend_span last = seen_by(t, step, t->n_q - 1);
    t->any = (backend_span){first.first, last.end};
    t->all = (backend_span){last.first, first.end};
}

/* Task task_i of the row: tiles of tokens, then key heads, then tiles of the group. */
static tile tile_of(const cpu_run *r, const attend_shape *s, uint32_t row_i, uint32_t task_i)
{
    const backend_step *step = r->step;
    tile t = {.view = view_of(r, s, row_i)};
    uint32_t per_head = divide_up(s->group, s->heads_tile);
    uint32_t per_token = per_head * t.view->geometry->n_heads;
    uint32_t token_tile = task_i / per_token;
    t.kv_head = task_i % per_token / per_head;
    t.first_token = step->row_starts[row_i] + token_tile * s->tokens_tile;
    t.n_tokens = step->row_starts[row_i + 1] - t.first_token;
    if (t.n_tokens > s->tokens_tile) t.n_tokens = s->tokens_tile;
    uint32_t in_group = task_i % per_head * s->heads_tile;
    t.n_heads = s->group - in_group < s->heads_tile ? s->group - in_group : s->heads_tile;
    t.first_head = t.kv_head * s->group + in_group;
    t.n_q = t.n_tokens * t.n_heads;
    find_seen(&t, step);
    return t;
}

/* The tile's queries behind one another: token by token, head by head. */
static void gather_queries(const cpu_run *r, const attend_shape *s, const tile *t, float *q)
{
    const float *x = cpu_data(r, s->v->in[0]);
    uint32_t k_dim = t->view->geometry->k_dim;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        size_t at = ((size_t)(t->first_token + i) * s->v->i[0] + t->first_head) * k_dim;
        memcpy(q + (size_t)i * t->n_heads * k_dim, x + at,
               (size_t)t->n_heads * k_dim * sizeof(float));
    }
}

/* Positions [first, end) of a split that lie in one page; few, if they are packed. */
typedef struct run_of_keys {
    uint32_t first, end;
} run_of_keys;

static run_of_keys keys_from(const kv_geometry *g, const kv_codec *codec, uint32_t first,
                             uint32_t end)
{
    uint32_t size = codec->kind == KV_DENSE ? g->page_tokens : KERNEL_ROWS;
    uint32_t run_end = (first / size + 1) * size;
    return (run_of_keys){first, end < run_end ? end : run_end};
}

/* Rows as the loops over them want them: dense where they lie, packed ones decoded. */
static const unsigned char *rows_of(const cpu_run *r, const kernel_decode *a)
{
    if (a->codec->kind == KV_DENSE) return a->rows;
    r->b->kernels.decode_packed(a);
    return (const unsigned char *)a->to;
}

/* The columns of packed keys that are in base. */
static void decode_tails(const kv_geometry *g, const kernel_decode *a)
{
    const kv_codec *base = kv_codec_by_id(g->base);
    uint32_t n = g->k_dim - g->k_coded;
    for (uint32_t i = 0; i < a->n_rows && n > 0; i++) {
        base->decode_row(base, g->base, a->rows + i * a->row_bytes + g->k_tail,
                         a->to + i * a->stride + g->k_coded, n);
    }
}

static void score_split(const cpu_run *r, const attend_shape *s, const tile *t, uint32_t split,
                        cpu_scratch *c, run_of_keys seen)
{
    const kv_geometry *g = t->view->geometry;
    for (uint32_t at = seen.first; at < seen.end;) {
        run_of_keys keys = keys_from(g, s->k_codec, at, seen.end);
        uint32_t n_keys = keys.end - keys.first;
        const unsigned char *at_first = kv_key(t->view, t->kv_head, keys.first);
        kernel_decode rows = {s->k_codec, g->base,    at_first, g->k_row_bytes,
                              n_keys,     g->k_coded, c->rows,  g->k_dim};
        decode_tails(g, &rows);
        kernel_scores a = {c->q,    g->k_dim, t->n_q,     rows_of(r, &rows),
                           n_keys,  g->k_dim, s->v->f[0], c->s + (keys.first - split * KV_SPLIT),
                           KV_SPLIT};
        s->scores(&a);
        at = keys.end;
    }
    float cap = s->v->f[1];
    for (uint32_t q_i = 0; q_i < t->n_q; q_i++) {
        float *row = c->s + (size_t)q_i * KV_SPLIT;
        backend_span own = seen_by(t, r->step, q_i);
        for (uint32_t i = 0; i < KV_SPLIT; i++) {
            uint32_t position = split * KV_SPLIT + i;
            if (position < own.first || position >= own.end) {
                row[i] = -INFINITY;
            } else if (cap > 0.0F) {
                row[i] = cap * tanhf(row[i] / cap);
            }
        }
    }
}

/* Queries that do not all see a run of keys go one by one: a key that is masked must not even be
 * multiplied. */
static void sum_values(const cpu_run *r, const attend_shape *s, const tile *t, uint32_t split,
                       const cpu_scratch *c, run_of_keys keys, partial out)
{
    const kv_geometry *g = t->view->geometry;
    bool together = keys.first >= t->all.first && keys.end <= t->all.end;
    bool dense = s->v_codec->kind == KV_DENSE;
    size_t row_bytes = dense ? g->v_row_bytes : g->v_dim * sizeof(float);
    size_t stride = dense ? g->v_row_bytes * 8 / s->v_codec->bits : g->v_dim;
    kernel_decode packed = {s->v_codec,
                            g->base,
                            kv_value(t->view, t->kv_head, keys.first),
                            g->v_row_bytes,
                            keys.end - keys.first,
                            g->v_dim,
                            c->rows,
                            g->v_dim};
    const unsigned char *rows = rows_of(r, &packed);
    for (uint32_t q_i = 0; q_i < (together ? 1 : t->n_q); q_i++) {
        backend_span own = together ? t->all : seen_by(t, r->step, q_i);
        uint32_t low = own.first < keys.first ? keys.first : own.first;
        uint32_t high = own.end > keys.end ? keys.end : own.end;
        if (low >= high) continue;
        kernel_values a = {c->s + (size_t)q_i * KV_SPLIT + (low - split * KV_SPLIT),
                           KV_SPLIT,
                           together ? t->n_q : 1,
                           rows + (low - keys.first) * row_bytes,
                           high - low,
                           g->v_dim,
                           part_o(out, q_i),
                           out.stride,
                           stride};
        s->values(&a);
    }
}

/* A split of which all that is seen is not a number must not pass for one that sees nothing. */
static float largest_score(const cpu_run *r, const float *row)
{
    float max = r->b->kernels.max(row, KV_SPLIT);
    for (uint32_t i = 0; i < KV_SPLIT && max == -INFINITY; i++) {
        if (isnan(row[i])) max = row[i];
    }
    return max;
}

/* One split from nothing: o, maximum and sum of each query; maximum -INFINITY where it sees
 * nothing. */
static void attend_split(const cpu_run *r, const attend_shape *s, const tile *t, uint32_t split,
                         cpu_scratch *c, partial out)
{
    const kv_geometry *g = t->view->geometry;
    run_of_keys seen = {split * KV_SPLIT, (split + 1) * KV_SPLIT};
    if (seen.first < t->any.first) seen.first = t->any.first;
    if (seen.end > t->any.end) seen.end = t->any.end;
    score_split(r, s, t, split, c, seen);
    for (uint32_t q_i = 0; q_i < t->n_q; q_i++) {
        float *row = c->s + (size_t)q_i * KV_SPLIT;
        float *o = part_o(out, q_i);
        memset(o, 0, g->v_dim * sizeof(float));
        float max = largest_score(r, row);
        o[g->v_dim] = max;
        o[g->v_dim + 1] = max == -INFINITY ? 0.0F : r->b->kernels.exp_sum(row, KV_SPLIT, max);
    }
    for (uint32_t at = seen.first; at < seen.end;) {
        run_of_keys keys = keys_from(g, s->v_codec, at, seen.end);
        sum_values(r, s, t, split, c, keys, out);
        at = keys.end;
    }
}

/* total = total merged with part; an empty split is skipped, the first one taken as it is. */
static void merge(const tile *t, partial total, partial part, bool first)
{
    uint32_t dim = t->view->geometry->v_dim;
    for (uint32_t q_i = 0; q_i < t->n_q; q_i++) {
        float *a = part_o(total, q_i);
        const float *b = part_o(part, q_i);
        if (first || a[dim] == -INFINITY) {
            memcpy(a, b, (dim + 2) * sizeof(float));
            continue;
        }
        if (b[dim] == -INFINITY) continue;
        float max = isnan(a[dim]) || a[dim] > b[dim] ? a[dim] : b[dim];
        float scale_a = expf(a[dim] - max);
        float scale_b = expf(b[dim] - max);
        for (uint32_t d = 0; d < dim; d++) a[d] = a[d] * scale_a + b[d] * scale_b;
        a[dim + 1] = a[dim + 1] * scale_a + b[dim + 1] * scale_b;
        a[dim] = max;
    }
}

/* What sees nothing is 0. */
static void store(const cpu_run *r, const attend_shape *s, graph_id id, const tile *t,
                  partial total)
{
    uint32_t dim = t->view->geometry->v_dim;
    const kv_codec *codec = kv_codec_by_id(t->view->geometry->v_codec);
    float *y = cpu_data(r, id);
    for (uint32_t q_i = 0; q_i < t->n_q; q_i++) {
        const float *o = part_o(total, q_i);
        size_t token = t->first_token + q_i / t->n_heads;
        float *to = y + (token * s->v->i[0] + t->first_head + q_i % t->n_heads) * dim;
        if (t->any.first == t->any.end) {
            memset(to, 0, dim * sizeof *to);
            continue;
        }
        for (uint32_t d = 0; d < dim; d++) to[d] = o[d] / o[dim + 1];
        kv_codec_finish(codec, to, dim);
    }
}

static uint32_t first_split(const tile *t)
{
    return t->any.first / KV_SPLIT;
}

static uint32_t n_splits(const tile *t)
{
    return divide_up(t->any.end, KV_SPLIT) - first_split(t);
}

static void attend_tile(const cpu_run *r, attend_shape *s, graph_id id, const tile *t,
                        cpu_scratch *c)
{
    partial total = {c->total, r->p->part_stride};
    partial part = {c->part, r->p->part_stride};
    gather_queries(r, s, t, c->q);
    for (uint32_t i = 0; i < n_splits(t); i++) {
        attend_split(r, s, t, first_split(t) + i, c, i == 0 ? total : part);
        if (i > 0) merge(t, total, part, false);
    }
    store(r, s, id, t, total);
}

/* Codecs may differ from row to row. */
static void pick_kernels(const cpu_run *r, attend_shape *s, const tile *t)
{
    s->k_codec = kv_codec_by_id(t->view->geometry->k_codec);
    s->v_codec = kv_codec_by_id(t->view->geometry->v_codec);
    s->scores = scores_fn(&r->b->kernels, s->k_codec);
    s->values = values_fn(&r->b->kernels, s->v_codec);
}

/* Finds the row of a task number that counts through all rows. */
static tile nth_tile(const cpu_run *r, const attend_shape *s, uint32_t task_i)
{
    uint32_t row_i = 0;
    for (;; row_i++) {
        uint32_t n = row_tasks(r, s, row_i);
        if (task_i < n) break;
        task_i -= n;
    }
    return tile_of(r, s, row_i, task_i);
}

/* Few tasks: units are the splits of all tasks, computed in any order, then each task merges its
 * own. */
static void attend_apart(const cpu_run *r, attend_shape *s, uint32_t phase_i, uint32_t thread_i,
                         uint32_t n_tasks)
{
    cpu_scratch *c = &r->p->scratch[thread_i];
    size_t stride = (size_t)ATTEND_QUERIES * r->p->part_stride;
    graph_id id = r->p->phases[phase_i].id;
    for (;;) {
        uint32_t unit =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        uint32_t before = 0;
        uint32_t task_i = 0;
        tile t = {0};
        for (; task_i < n_tasks; task_i++) {
            t = nth_tile(r, s, task_i);
            if (unit < before + n_splits(&t)) break;
            before += n_splits(&t);
        }
        if (task_i == n_tasks) break;
        pick_kernels(r, s, &t);
        gather_queries(r, s, &t, c->q);
        partial out = {r->p->parts + unit * stride, r->p->part_stride};
        attend_split(r, s, &t, first_split(&t) + (unit - before), c, out);
    }
    thread_pool_barrier(r->b->pool, thread_i);
    uint32_t unit = 0;
    for (uint32_t task_i = 0; task_i < n_tasks; task_i++) {
        tile t = nth_tile(r, s, task_i);
        bool mine = task_i % r->b->n_threads == thread_i;
        partial total = {c->total, r->p->part_stride};
        for (uint32_t i = 0; i < n_splits(&t); i++, unit++) {
            partial part = {r->p->parts + unit * stride, r->p->part_stride};
            if (mine) merge(&t, total, part, i == 0);
        }
        if (mine) store(r, s, id, &t, total);
    }
}

void cpu_attend(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    graph_id id = r->p->phases[phase_i].id;
    attend_shape s = shape_of(r, id);
    uint32_t n_tasks = 0;
    uint32_t most_splits = 0;
    size_t n_units = 0;
    for (uint32_t row_i = 0; row_i < r->step->n_rows; row_i++) n_tasks += row_tasks(r, &s, row_i);
    if (n_tasks < 2 * r->b->n_threads) {
        for (uint32_t i = 0; i < n_tasks; i++) {
            tile t = nth_tile(r, &s, i);
            if (n_splits(&t) > most_splits) most_splits = n_splits(&t);
            n_units += n_splits(&t);
        }
    }
    /* What does not fit is done a task a thread: the same order of additions, so the same bits. */
    if (r->b->n_threads > 1 && most_splits > 1 && n_units <= r->p->n_parts) {
        attend_apart(r, &s, phase_i, thread_i, n_tasks);
        return;
    }
    for (;;) {
        uint32_t task_i =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        if (task_i >= n_tasks) return;
        tile t = nth_tile(r, &s, task_i);
        pick_kernels(r, &s, &t);
        attend_tile(r, &s, id, &t, &r->p->scratch[thread_i]);
    }
}
