/* attend.c - attention over pages.
 *
 * The positions are cut at multiples of KV_SPLIT. Each split's partial result starts from nothing;
 * partials are merged in ascending order (docs/numerics.md). A tile is a row, a key head and some
 * of its queries; a task is a tile, or, where tiles are small, several that lie side by side in
 * every page: those go through a page together, so that it is read from end to end, which is what
 * makes memory fast. With few tasks and long contexts the splits of a task are computed by
 * different threads and merged afterwards. It is the same operations in the same order always, so
 * the same bits. */
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
    uint32_t most_tiles; /* of a task */
    graph_id list;       /* of the positions to attend to, or 0: all */
    /* Of the tile at work: */
    cpu_keys keys;
    const kv_codec *v_codec;
    bool v_decoded; /* some rows at a time, instead of used as they lie */
    kernel_values_fn *values;
} attend_shape;

/* A tile: queries q_i = token * heads + head of it. Of a token with a list, which is alone then,
 * positions in all that follows are places in the list, so that the order of summation is that of a
 * sequence of those positions; position_at() is where they lie. */
typedef struct tile {
    const kv_view *view;
    const uint32_t *list; /* NULL: all that it sees */
    uint32_t kv_head;
    uint32_t first_token, n_tokens; /* of the step */
    uint32_t first_head, n_heads;   /* query heads */
    uint32_t n_q;
    backend_span any; /* positions that at least one of its queries sees */
    backend_span all; /* those that all of them see */
    bool causal;      /* as in the attend */
} tile;

/* o [v_dim], then maximum and sum, for each query. */
typedef struct partial {
    float *at;
    uint32_t stride;
} partial;

/* A tile of a task and its part of a thread's scratch. */
typedef struct tile_work {
    tile t;
    float *q; /* [n_q, k_dim] */
    float *s; /* [n_q, KV_SPLIT] */
    partial total, part;
} tile_work;

/* Tiles of one row and the same tokens. */
typedef struct task {
    tile_work of[ATTEND_TILES];
    uint32_t n;
} task;

static float *part_o(partial p, uint32_t q_i)
{
    return p.at + (size_t)q_i * p.stride;
}

static kernel_values_fn *values_fn(const cpu_kernels *k, const kv_codec *codec, bool decoded)
{
    if (codec->kind != KV_DENSE && !decoded) return k->values_packed;
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
    s.list = s.v->in[3];
    s.tokens_tile = s.list != 0 ? 1 : ATTEND_QUERIES / s.heads_tile;
    s.most_tiles = 1;
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

/* Of the row's tokens that go together. */
static uint32_t row_tiles(const cpu_run *r, const attend_shape *s, uint32_t row_i)
{
    return divide_up(s->group, s->heads_tile) * view_of(r, s, row_i)->geometry->n_heads;
}

/* Tiles of a task of the row. */
static uint32_t task_tiles(const cpu_run *r, const attend_shape *s, uint32_t row_i)
{
    uint32_t n_tokens = r->step->row_starts[row_i + 1] - r->step->row_starts[row_i];
    uint32_t n_q = (n_tokens < s->tokens_tile ? n_tokens : s->tokens_tile) * s->heads_tile;
    uint32_t most = s->most_tiles < ATTEND_TILES ? s->most_tiles : ATTEND_TILES;
    uint32_t n = 1;
    if (n_q > KERNEL_PACKED_QUERIES) return n;
    while (n < most && (n + 1) * n_q <= ATTEND_TASK_QUERIES) n++;
    return n;
}

static uint32_t row_tasks(const cpu_run *r, const attend_shape *s, uint32_t row_i)
{
    uint32_t n_tokens = r->step->row_starts[row_i + 1] - r->step->row_starts[row_i];
    return divide_up(n_tokens, s->tokens_tile) *
           divide_up(row_tiles(r, s, row_i), task_tiles(r, s, row_i));
}

static uint32_t position_at(const tile *t, uint32_t i)
{
    return t->list != NULL ? t->list[1 + i] : i;
}

static backend_span seen_by(const tile *t, const backend_step *step, uint32_t q_i)
{
    if (t->list != NULL) return (backend_span){0, t->list[0]};
    return backend_seen(step, t->view, t->first_token + q_i / t->n_heads, t->causal);
}

/* Neither end falls from a token to the next. */
static void find_seen(tile *t, const backend_step *step)
{
    backend_span first = seen_by(t, step, 0);
    backend_span last = seen_by(t, step, t->n_q - 1);
    t->any = (backend_span){first.first, last.end};
    t->all = (backend_span){last.first, first.end};
}

/* Tile tile_i of those of the row's tokens that go together: key heads, then tiles of the group. */
static tile tile_of(const cpu_run *r, const attend_shape *s, uint32_t row_i, uint32_t token_tile,
                    uint32_t tile_i)
{
    const backend_step *step = r->step;
    tile t = {.view = view_of(r, s, row_i), .causal = s->v->i[1] == 1};
    uint32_t per_head = divide_up(s->group, s->heads_tile);
    t.kv_head = tile_i / per_head;
    t.first_token = step->row_starts[row_i] + token_tile * s->tokens_tile;
    t.n_tokens = step->row_starts[row_i + 1] - t.first_token;
    if (t.n_tokens > s->tokens_tile) t.n_tokens = s->tokens_tile;
    uint32_t in_group = tile_i % per_head * s->heads_tile;
    t.n_heads = s->group - in_group < s->heads_tile ? s->group - in_group : s->heads_tile;
    t.first_head = t.kv_head * s->group + in_group;
    t.n_q = t.n_tokens * t.n_heads;
    if (s->list != 0)
        t.list = host_list(cpu_data(r, s->list), t.first_token, r->p->g->values[s->list].cols);
    find_seen(&t, step);
    return t;
}

/* The tile's queries, as scores want them, behind one another: token by token, head by head. */
static void gather_queries(const cpu_run *r, const attend_shape *s, const tile *t, float *q)
{
    const float *x = cpu_data(r, s->v->in[0]);
    uint32_t k_dim = t->view->geometry->k_dim;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        size_t at = ((size_t)(t->first_token + i) * s->v->i[0] + t->first_head) * k_dim;
        cpu_put_queries(r->b, &s->keys, t->view->geometry, x + at, t->n_heads,
                        q + (size_t)i * t->n_heads * k_dim);
    }
}

/* Positions [first, end) of a split that lie in one page; few, if they are decoded. */
static cpu_span keys_from(const tile *t, bool decoded, uint32_t first, uint32_t end)
{
    if (t->list == NULL) return cpu_run_of_keys(t->view->geometry, decoded, first, end);
    uint32_t position = position_at(t, first);
    uint32_t most = position + (end - first);
    cpu_span run = cpu_run_of_keys(t->view->geometry, decoded, position, most);
    uint32_t n = 1;
    while (n < run.end - position && position_at(t, first + n) == position + n) n++;
    return (cpu_span){first, first + n};
}

/* What a query does not see is left out, the rest bounded softly where cap says so. */
static void mask_scores(float *row, uint32_t split, backend_span seen, float cap)
{
    uint32_t begin = split * KV_SPLIT;
    uint32_t first = seen.first > begin ? seen.first - begin : 0;
    uint32_t end = seen.end > begin ? seen.end - begin : 0;
    if (end > KV_SPLIT) end = KV_SPLIT;
    if (first > end) first = end;
    for (uint32_t i = 0; i < first; i++) row[i] = -INFINITY;
    for (uint32_t i = end; i < KV_SPLIT; i++) row[i] = -INFINITY;
    for (uint32_t i = first; i < end && cap > 0.0F; i++) row[i] = cap * tanhf(row[i] / cap);
}

/* Positions of a split that lie in one page, and what is read when they have been. */
typedef struct reading {
    uint32_t first, end;
    kernel_ahead ahead;
} reading;

/* The scores of a run of keys of a split. */
static void score_run(const cpu_run *r, const attend_shape *s, const tile_work *w, uint32_t split,
                      const cpu_scratch *c, reading keys)
{
    const kv_geometry *g = w->t.view->geometry;
    kernel_scores a = {.q = w->q,
                       .q_stride = g->k_dim,
                       .n_q = w->t.n_q,
                       .k = kv_key(w->t.view, w->t.kv_head, position_at(&w->t, keys.first)),
                       .n_keys = keys.end - keys.first,
                       .scale = s->v->f[0],
                       .s = w->s + (keys.first - split * KV_SPLIT),
                       .s_stride = KV_SPLIT,
                       .ahead = keys.ahead};
    cpu_score_keys(r->b, &s->keys, g, c->rows, a);
}

/* Queries that do not all see a run of keys go one by one: a key that is masked must not even be
 * multiplied. */
static void sum_values(const cpu_run *r, const attend_shape *s, const tile_work *w, uint32_t split,
                       const cpu_scratch *c, reading keys)
{
    const tile *t = &w->t;
    const partial out = w->part;
    const kv_geometry *g = t->view->geometry;
    bool together = keys.first >= t->all.first && keys.end <= t->all.end;
    const unsigned char *rows = kv_value(t->view, t->kv_head, position_at(t, keys.first));
    kernel_values a = {.p_stride = KV_SPLIT, .dim = g->v_dim, .o_stride = out.stride};
    a.ahead = keys.ahead;
    a.packed = (kernel_packed){s->v_codec, g->v_row_bytes, g->base};
    a.v_stride = g->v_row_bytes * 8 / s->v_codec->bits;
    size_t row_bytes = g->v_row_bytes;
    if (s->v_decoded) {
        kernel_decode packed = {s->v_codec, g->base, rows,    g->v_row_bytes, keys.end - keys.first,
                                g->v_dim,   c->rows, g->v_dim};
        r->b->kernels.decode_packed(&packed);
        rows = (const unsigned char *)c->rows;
        row_bytes = g->v_dim * sizeof(float);
        a.v_stride = g->v_dim;
    }
    for (uint32_t q_i = 0; q_i < (together ? 1 : t->n_q); q_i++) {
        backend_span own = together ? t->all : seen_by(t, r->step, q_i);
        uint32_t low = own.first < keys.first ? keys.first : own.first;
        uint32_t high = own.end > keys.end ? keys.end : own.end;
        if (low >= high) continue;
        a.p = w->s + (size_t)q_i * KV_SPLIT + (low - split * KV_SPLIT);
        a.n_q = together ? t->n_q : 1;
        a.v = rows + (low - keys.first) * row_bytes;
        a.n_keys = high - low;
        a.o = part_o(out, q_i);
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

/* Weights of a split from its scores; o, maximum and sum of each query from nothing, the maximum
 * -INFINITY where it sees nothing. */
static void weigh(const cpu_run *r, const attend_shape *s, const tile_work *w, uint32_t split)
{
    uint32_t dim = w->t.view->geometry->v_dim;
    for (uint32_t q_i = 0; q_i < w->t.n_q; q_i++) {
        float *row = w->s + (size_t)q_i * KV_SPLIT;
        float *o = part_o(w->part, q_i);
        mask_scores(row, split, seen_by(&w->t, r->step, q_i), s->v->f[1]);
        memset(o, 0, dim * sizeof(float));
        float max = largest_score(r, row);
        o[dim] = max;
        o[dim + 1] = max == -INFINITY ? 0.0F : r->b->kernels.exp_sum(row, KV_SPLIT, max);
    }
}

/* Where the keys or values of a position begin. */
static const void *row_at(const tile *t, bool values, uint32_t position)
{
    uint32_t at = position_at(t, position);
    return values ? kv_value(t->view, t->kv_head, at) : kv_key(t->view, t->kv_head, at);
}

/* What a task reads after its tiles' runs of keys, or of values: their heads lie behind one another
 * in a page; then come the next page's, at the end of the split values from its first position on,
 * and then the keys of the next split. */
static kernel_ahead ahead_of(const task *k, cpu_span seen, cpu_span now, bool values)
{
    const tile *t = &k->of[0].t;
    const kv_geometry *g = t->view->geometry;
    size_t row_bytes = values ? g->v_row_bytes : g->k_row_bytes;
    const unsigned char *last = row_at(&k->of[k->n - 1].t, values, now.first);
    kernel_ahead a = {last + (now.end - now.first) * row_bytes, NULL};
    if (now.end < seen.end) {
        a.next = row_at(t, values, now.end);
    } else if (!values) {
        a.next = row_at(t, true, seen.first);
    } else if (now.end < t->any.end) {
        a.next = row_at(t, false, now.end);
    }
    return a;
}

/* One split of every tile into its part. */
static void attend_split(const cpu_run *r, const attend_shape *s, const task *k, uint32_t split,
                         const cpu_scratch *c)
{
    const tile *t = &k->of[0].t;
    cpu_span seen = {split * KV_SPLIT, (split + 1) * KV_SPLIT};
    if (seen.first < t->any.first) seen.first = t->any.first;
    if (seen.end > t->any.end) seen.end = t->any.end;
    for (uint32_t pass = 0; pass < 2; pass++) {
        bool values = pass == 1;
        for (uint32_t at = seen.first; at < seen.end;) {
            cpu_span keys = keys_from(t, values ? s->v_decoded : s->keys.decoded, at, seen.end);
            reading run = {keys.first, keys.end, ahead_of(k, seen, keys, values)};
            for (uint32_t i = 0; i < k->n; i++) {
                if (values) {
                    sum_values(r, s, &k->of[i], split, c, run);
                } else {
                    score_run(r, s, &k->of[i], split, c, run);
                }
            }
            at = keys.end;
        }
        for (uint32_t i = 0; i < k->n && !values; i++) weigh(r, s, &k->of[i], split);
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
        uint32_t d = 0;
        /* So many that the compiler makes vectors of them. */
        for (; dim - d >= 8; d += 8) {
            for (uint32_t i = d; i < d + 8; i++) a[i] = a[i] * scale_a + b[i] * scale_b;
        }
        for (; d < dim; d++) a[d] = a[d] * scale_a + b[d] * scale_b;
        a[dim + 1] = a[dim + 1] * scale_a + b[dim + 1] * scale_b;
        a[dim] = max;
    }
}

/* A sink is merged like a split, the last one, that has no value. */
static void merge_sink(float *o, uint32_t dim, float sink)
{
    float max = isnan(o[dim]) || o[dim] > sink ? o[dim] : sink;
    float scale = expf(o[dim] - max);
    for (uint32_t d = 0; d < dim; d++) o[d] *= scale;
    o[dim + 1] = o[dim + 1] * scale + expf(sink - max);
}

/* What sees nothing is 0. */
static void store(const cpu_run *r, const attend_shape *s, graph_id id, const tile *t,
                  partial total)
{
    uint32_t dim = t->view->geometry->v_dim;
    const kv_codec *codec = kv_codec_by_id(t->view->geometry->v_codec);
    const float *sinks = r->p->decoded[s->v->in[2]];
    float *y = cpu_data(r, id);
    for (uint32_t q_i = 0; q_i < t->n_q; q_i++) {
        float *o = part_o(total, q_i);
        size_t token = t->first_token + q_i / t->n_heads;
        uint32_t head = t->first_head + q_i % t->n_heads;
        float *to = y + (token * s->v->i[0] + head) * dim;
        if (t->any.first == t->any.end) {
            memset(to, 0, dim * sizeof *to);
            continue;
        }
        if (sinks != NULL) merge_sink(o, dim, sinks[head]);
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

static void attend_task(const cpu_run *r, const attend_shape *s, graph_id id, task *k,
                        const cpu_scratch *c)
{
    uint32_t first = first_split(&k->of[0].t);
    for (uint32_t n = 0; n < n_splits(&k->of[0].t); n++) {
        attend_split(r, s, k, first + n, c);
        for (uint32_t i = 0; i < k->n; i++) {
            merge(&k->of[i].t, k->of[i].total, k->of[i].part, n == 0);
        }
    }
    for (uint32_t i = 0; i < k->n; i++) store(r, s, id, &k->of[i].t, k->of[i].total);
}

/* Codecs may differ from row to row. */
static void pick_kernels(const cpu_run *r, attend_shape *s, const tile *t)
{
    const kv_geometry *g = t->view->geometry;
    s->keys = cpu_keys_of(r->b, g);
    s->v_codec = kv_codec_by_id(g->v_codec);
    s->v_decoded = cpu_is_decoded(s->v_codec, g, t->n_q, g->v_dim);
    s->values = values_fn(&r->b->kernels, s->v_codec, s->v_decoded);
}

/* Task task_i, counted through all rows: of a row tiles of tokens, then tiles of heads. */
static void nth_task(const cpu_run *r, const attend_shape *s, uint32_t task_i, task *k)
{
    uint32_t row_i = 0;
    for (;; row_i++) {
        uint32_t n = row_tasks(r, s, row_i);
        if (task_i < n) break;
        task_i -= n;
    }
    uint32_t most = task_tiles(r, s, row_i);
    uint32_t n_tiles = row_tiles(r, s, row_i);
    uint32_t per_token = divide_up(n_tiles, most);
    uint32_t first = task_i % per_token * most;
    k->n = n_tiles - first < most ? n_tiles - first : most;
    uint32_t i = 0;
    do {
        k->of[i].t = tile_of(r, s, row_i, task_i / per_token, first + i);
        i++;
    } while (i < k->n);
}

/* The scratch of its tiles, filled with queries. */
static void begin_task(const cpu_run *r, const attend_shape *s, const cpu_scratch *c, task *k)
{
    uint32_t stride = r->p->part_stride;
    size_t q_i = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        tile_work *w = &k->of[i];
        w->q = c->q + q_i * w->t.view->geometry->k_dim;
        w->s = c->s + q_i * KV_SPLIT;
        w->part = (partial){c->part + q_i * stride, stride};
        w->total = (partial){c->total + q_i * stride, stride};
        gather_queries(r, s, &w->t, w->q);
        q_i += w->t.n_q;
    }
}

/* Few tasks: units are the splits of all tasks, computed in any order, then each task merges its
 * own. */
static void attend_apart(const cpu_run *r, attend_shape *s, uint32_t phase_i, uint32_t thread_i,
                         uint32_t n_tasks)
{
    const cpu_scratch *c = &r->p->scratch[thread_i];
    size_t stride = (size_t)ATTEND_QUERIES * r->p->part_stride;
    graph_id id = r->p->phases[phase_i].id;
    task k;
    for (;;) {
        uint32_t unit =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        uint32_t before = 0;
        uint32_t task_i = 0;
        for (; task_i < n_tasks; task_i++) {
            nth_task(r, s, task_i, &k);
            if (unit < before + n_splits(&k.of[0].t)) break;
            before += n_splits(&k.of[0].t);
        }
        if (task_i == n_tasks) break;
        pick_kernels(r, s, &k.of[0].t);
        begin_task(r, s, c, &k);
        k.of[0].part.at = r->p->parts + unit * stride;
        attend_split(r, s, &k, first_split(&k.of[0].t) + (unit - before), c);
    }
    thread_pool_barrier(r->b->pool, thread_i);
    uint32_t unit = 0;
    for (uint32_t task_i = 0; task_i < n_tasks; task_i++) {
        nth_task(r, s, task_i, &k);
        bool mine = task_i % r->b->n_threads == thread_i;
        partial total = {c->total, r->p->part_stride};
        for (uint32_t i = 0; i < n_splits(&k.of[0].t); i++, unit++) {
            partial part = {r->p->parts + unit * stride, r->p->part_stride};
            if (mine) merge(&k.of[0].t, total, part, i == 0);
        }
        if (mine) store(r, s, id, &k.of[0].t, total);
    }
}

static uint32_t count_tasks(const cpu_run *r, const attend_shape *s)
{
    uint32_t n = 0;
    for (uint32_t row_i = 0; row_i < r->step->n_rows; row_i++) n += row_tasks(r, s, row_i);
    return n;
}

void cpu_attend(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    graph_id id = r->p->phases[phase_i].id;
    attend_shape s = shape_of(r, id);
    uint32_t n_tasks = count_tasks(r, &s);
    uint32_t most_splits = 0;
    size_t n_units = 0;
    task k;
    if (n_tasks < 2 * r->b->n_threads) {
        for (uint32_t i = 0; i < n_tasks; i++) {
            nth_task(r, &s, i, &k);
            uint32_t n = n_splits(&k.of[0].t);
            if (n > most_splits) most_splits = n;
            n_units += n;
        }
    }
    /* What does not fit is done a task a thread: the same order of additions, so the same bits. */
    if (r->b->n_threads > 1 && most_splits > 1 && n_units <= r->p->n_parts) {
        attend_apart(r, &s, phase_i, thread_i, n_tasks);
        return;
    }
    /* Larger tasks, but two at least for each thread where there is more than one. */
    uint32_t n_threads = r->b->n_threads;
    if (n_threads <= 1) {
        s.most_tiles = ATTEND_TILES;
    } else if (n_tasks / n_threads > 2) {
        s.most_tiles = n_tasks / n_threads / 2;
    }
    n_tasks = count_tasks(r, &s);
    for (;;) {
        uint32_t task_i =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        if (task_i >= n_tasks) return;
        const cpu_scratch *c = &r->p->scratch[thread_i];
        nth_task(r, &s, task_i, &k);
        pick_kernels(r, &s, &k.of[0].t);
        begin_task(r, &s, c, &k);
        attend_task(r, &s, id, &k, c);
    }
}
