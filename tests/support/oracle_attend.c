/* oracle_attend.c - values and bounds of attention, and of the positions that are chosen for it. */
#include "support/oracle_attend.h"

#include "backend/cpu/cpu_kernels.h"
#include "kv/codecs/codec.h"
#include "support/oracle_parts.h"
#include "support/oracle_route.h"
#include "support/oracle_rows.h"

/* What cpu_kernels.h allows beside generic's own rounding. */
enum { SCORE_UNITS = 66, SOFTMAX_UNITS = 440 };

static void encode(const graph_oracle *o, graph_id id, uint8_t codec, double *x, double *e)
{
    size_t n = (size_t)o->n * o->g->values[id].cols;
    for (size_t i = 0; i < n; i++) {
        double (*round)(double) = codec == 1 ? to_f32 : codec == 2 ? to_f16 : to_bf16;
        interval r = rounded(o->x[id][i], o->e[id][i], round);
        x[i] = r.x;
        e[i] = r.e;
    }
}

/* The state of a layer as it is stored: n positions. */
typedef struct stored {
    const kv_geometry *g;
    double *k, *ke, *v, *ve;
    uint32_t n, heads, k_dim, v_dim;
} stored;

typedef struct score {
    double s, off;
} score;

/* The largest |x| of n from i on that there are of dim, with what it may be off by. */
static double largest_of(const double *x, const double *e, uint32_t i, uint32_t n, uint32_t dim)
{
    double most = 0.0;
    for (uint32_t d = i; d < i + n && d < dim; d++) most = fmax(most, fabs(x[d]) + e[d]);
    return most;
}

/* Against integer codes (backend/cpu/query.h) a query is off by a part of its group's largest, and
 * what is added for the group beside the codes is at most as large as the key's largest. */
static score score_of(const graph_oracle *o, const graph_value *v, const stored *st,
                      const size_t q_at, const size_t k_at)
{
    const kv_codec *c = kv_codec_by_id(st->g->k_codec);
    const bool codes = c->kind != KV_DENSE && st->g->k_coded == st->g->k_dim &&
                       kernel_takes_packed(c, st->g->base, st->k_dim);
    const double *q = o->x[v->in[0]] + q_at;
    const double *qe = o->e[v->in[0]] + q_at;
    double f = (double)v->f[0];
    double cap = (double)v->f[1];
    double dot = 0.0;
    double off = 0.0;
    double terms = 0.0;
    double q_most = 0.0;
    double k_most = 0.0;
    for (uint32_t d = 0; d < st->k_dim; d++) {
        double k = st->k[k_at + d];
        double ke = st->ke[k_at + d];
        if (codes && d % c->group == 0) {
            q_most = largest_of(q, qe, d, c->group, st->k_dim);
            k_most = largest_of(st->k + k_at, st->ke + k_at, d, c->group, st->k_dim);
        }
        dot += q[d] * k;
        off += (fabs(q[d]) + qe[d]) * ke + qe[d] * fabs(k) + exp2(-15.9) * q_most * (fabs(k) + ke);
        terms += (fabs(q[d]) + qe[d]) * (fabs(k) + ke + 2 * k_most);
    }
    score r = {f * dot, fabs(f) * (off + SCORE_UNITS * U * terms)};
    if (cap > 0.0) {
        r.off += 10 * U * fabs(r.s);
        r.s = cap * tanh(r.s / cap);
    }
    return r;
}

/* Positions that a token sees, or those of its list; returns how many. */
static uint32_t seen_by(const graph_oracle *o, const graph_value *v, const stored *st,
                        const kv_geometry *g, uint32_t token, uint32_t *seen)
{
    uint32_t n = 0;
    if (v->in[3] != 0) {
        const double *list = o->x[v->in[3]] + (size_t)token * o->g->values[v->in[3]].cols;
        for (; n < (uint32_t)list[0]; n++) seen[n] = (uint32_t)list[1 + n];
        return n;
    }
    uint32_t low = 0;
    while (g->layout == KV_LAYOUT_WINDOW && token - low >= g->window) low++;
    while (g->layout == KV_LAYOUT_CHUNKED && low / g->window < token / g->window) low++;
    bool causal = o->highest == NULL || v->i[1] == 1;
    uint32_t end = 1 + (causal ? token : o->highest[token]);
    if (g->layout == KV_LAYOUT_CROSS) end = st->n;
    for (uint32_t j = low; j < end; j++) seen[n++] = j;
    return n;
}

static double sink_of(const graph_oracle *o, const graph_value *v, uint32_t head)
{
    if (v->in[2] == 0) return (double)-INFINITY;
    float *sinks = decoded_row(weight(o, v->in[2]), 0);
    double sink = (double)sinks[head];
    free(sinks);
    return sink;
}

static void attend_one(const graph_oracle *o, const graph_value *v, const stored *st,
                       const kv_geometry *g, uint32_t token, uint32_t head, score *scores)
{
    uint32_t kv_head = head / (v->i[0] / st->heads);
    uint32_t *seen = zeros(st->n, sizeof *seen);
    uint32_t n = seen_by(o, v, st, g, token, seen);
    double sink = sink_of(o, v, head);
    double max = sink;
    double off = 0.0;
    for (uint32_t j = 0; j < n; j++) {
        size_t k_at = ((size_t)seen[j] * st->heads + kv_head) * st->k_dim;
        scores[j] = score_of(o, v, st, ((size_t)token * v->i[0] + head) * st->k_dim, k_at);
        max = fmax(max, scores[j].s);
        off = fmax(off, scores[j].off);
    }
    double sum = exp(sink - max);
    for (uint32_t j = 0; j < n; j++) sum += exp(scores[j].s - max);
    double grown = exp(2.0 * off);
    double units = (SOFTMAX_UNITS + 8.0 * (st->n / 256 + 1)) * U;
    size_t out = ((size_t)token * v->i[0] + head) * st->v_dim;
    graph_id id = (graph_id)(v - o->g->values);
    bool open = v->in[3] != 0 &&
                o->e[v->in[3]][(size_t)token * o->g->values[v->in[3]].cols] >= ORACLE_UNKNOWN;
    for (uint32_t d = 0; d < st->v_dim; d++) {
        double x = 0.0;
        double e = 0.0;
        for (uint32_t j = 0; j < n; j++) {
            size_t v_at = ((size_t)seen[j] * st->heads + kv_head) * st->v_dim + d;
            double w = exp(scores[j].s - max) / sum;
            double own = units + 8 * U * (max - scores[j].s + fabs(max));
            x += w * st->v[v_at];
            e += w * ((grown - 1.0 + own * grown) * (fabs(st->v[v_at]) + st->ve[v_at]) +
                      grown * st->ve[v_at]);
        }
        o->x[id][out + d] = x;
        o->e[id][out + d] = open ? ORACLE_UNKNOWN : e;
    }
    free(seen);
    if (kv_codec_by_id(g->v_codec)->kind != KV_TV) return;
    oracle_turn_back(o->x[id] + out, o->e[id] + out, st->v_dim);
}

/* A latent: keys as they are stored, values their first columns. What of a packed one is in base is
 * predicted, the rest read. */
static void read_latent(const graph_oracle *o, const graph_value *state, const kv_view *view,
                        stored *st)
{
    const kv_geometry *g = view->geometry;
    bool packed = kv_codec_by_id(g->k_codec)->kind != KV_DENSE;
    encode(o, state->in[0], packed ? g->base : g->k_codec, st->k, st->ke);
    const kv_codec *c = kv_codec_by_id(g->k_codec);
    float *row = zeros(g->k_coded, sizeof *row);
    for (size_t i = 0; i < o->n; i++) {
        if (packed) {
            size_t at = i * g->k_dim;
            c->decode_row(c, g->base, kv_key(view, 0, (uint32_t)i), row, g->k_coded);
            for (uint32_t d = 0; d < g->k_coded; d++) {
                st->k[at + d] = (double)row[d];
                st->ke[at + d] = 0.0;
            }
            oracle_check_packed(c, o->x[state->in[0]] + at, o->e[state->in[0]] + at, row,
                                g->k_coded);
        }
        for (uint32_t d = 0; d < g->v_dim; d++) {
            st->v[i * g->v_dim + d] = st->k[i * g->k_dim + d];
            st->ve[i * g->v_dim + d] = st->ke[i * g->k_dim + d];
        }
    }
    free(row);
}

static stored stored_of(const kv_geometry *g, uint32_t n)
{
    stored st = {.g = g, .n = n, .heads = g->n_heads, .k_dim = g->k_dim, .v_dim = g->v_dim};
    size_t rows = (size_t)n * g->n_heads;
    st.k = zeros(rows * g->k_dim, sizeof(double));
    st.ke = zeros(rows * g->k_dim, sizeof(double));
    st.v = zeros(rows * g->v_dim, sizeof(double));
    st.ve = zeros(rows * g->v_dim, sizeof(double));
    return st;
}

static void free_stored(stored *st)
{
    free(st->k);
    free(st->ke);
    free(st->v);
    free(st->ve);
}

static void read_keys(const graph_oracle *o, const graph_value *state, const kv_view *view,
                      stored *st)
{
    const kv_geometry *g = view->geometry;
    if (kv_codec_by_id(g->k_codec)->kind == KV_DENSE) {
        encode(o, state->in[0], g->k_codec, st->k, st->ke);
    } else {
        oracle_read_packed(view, true, o->n, o->x[state->in[0]], o->e[state->in[0]], st->k);
    }
}

/* Both sides of what a kv_append or kv_store writes. */
static void read_sides(const graph_oracle *o, const graph_value *state, const kv_view *view,
                       stored *st)
{
    const kv_geometry *g = view->geometry;
    read_keys(o, state, view, st);
    if (kv_codec_by_id(g->v_codec)->kind == KV_DENSE) {
        encode(o, state->in[1], g->v_codec, st->v, st->ve);
    } else {
        oracle_read_packed(view, false, o->n, o->x[state->in[1]], o->e[state->in[1]], st->v);
    }
}

static void check_within(const double *x, const double *expected, const double *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fabs(x[i] - expected[i]) <= e[i] + 1e-30) continue;
        fail_msg("stored: number %zu is %.9g, expected %.9g, %.3g allowed", i, x[i], expected[i],
                 e[i]);
    }
}

/* What this graph stores for others must lie there. */
static void run_store(const graph_oracle *o, const graph_value *v)
{
    const kv_view *view = &o->views[v->i[0]];
    stored expected = stored_of(view->geometry, o->n);
    stored found = stored_of(view->geometry, o->n);
    read_sides(o, v, view, &expected);
    oracle_read_rows(view, true, o->n, found.k);
    oracle_read_rows(view, false, o->n, found.v);
    size_t rows = (size_t)o->n * expected.heads;
    check_within(found.k, expected.k, expected.ke, rows * expected.k_dim);
    check_within(found.v, expected.v, expected.ve, rows * expected.v_dim);
    free_stored(&expected);
    free_stored(&found);
}

static void run_attend(graph_oracle *o, const graph_value *v)
{
    const graph_value *state = &o->g->values[v->in[1]];
    const kv_view *view = &o->views[state->i[0]];
    const kv_geometry *g = view->geometry;
    bool cross = state->op == GRAPH_STATE;
    stored st = stored_of(g, cross ? view->len : o->n);
    if (cross) {
        oracle_read_rows(view, true, st.n, st.k);
        oracle_read_rows(view, false, st.n, st.v);
    } else if (state->in[1] == 0) {
        assert_int_equal(g->layout, KV_LAYOUT_LATENT);
        read_latent(o, state, view, &st);
    } else {
        read_sides(o, state, view, &st);
    }
    score *scores = zeros(st.n, sizeof *scores);
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t h = 0; h < v->i[0]; h++) attend_one(o, v, &st, g, i, h, scores);
    }
    free(scores);
    free_stored(&st);
}

/* ---- choosing positions ---- */

/* What is known of one that may be chosen. */
typedef struct candidate {
    double x, e;
    uint32_t at;
} candidate;

/* By what is known of one position: sum_h w_h max(q_h . key, 0). */
static candidate index_score(const graph_oracle *o, const graph_value *v, const stored *st,
                             uint32_t token, uint32_t position)
{
    uint32_t n_heads = o->g->values[v->in[1]].cols;
    const graph_value plain = {.in = {v->in[0]}, .f = {1.0F, 0.0F}};
    const double *w = o->x[v->in[1]] + (size_t)token * n_heads;
    const double *we = o->e[v->in[1]] + (size_t)token * n_heads;
    candidate c = {.at = position};
    double terms = 0.0;
    for (uint32_t h = 0; h < n_heads; h++) {
        score s = score_of(o, &plain, st, ((size_t)token * n_heads + h) * st->k_dim,
                           (size_t)position * st->k_dim);
        if (s.s + s.off <= 0.0) continue; /* surely nothing */
        double x = fmax(s.s, 0.0);
        c.x += w[h] * x;
        c.e += (fabs(w[h]) + we[h]) * s.off + we[h] * x;
        terms += (fabs(w[h]) + we[h]) * (x + s.off);
    }
    c.e += (n_heads + 2) * U * terms;
    return c;
}

/* The largest first, the first of equals. */
static int by_score(const void *a, const void *b)
{
    const candidate *p = a;
    const candidate *q = b;
    if (p->x != q->x) return p->x < q->x ? 1 : -1;
    return p->at < q->at ? -1 : 1;
}

static int by_position(const void *a, const void *b)
{
    const candidate *p = a;
    const candidate *q = b;
    return p->at < q->at ? -1 : 1;
}

/* Whether the first k of n that are sorted are surely the first: what both sides of the edge may be
 * does not overlap, or they are equal without a doubt. */
static bool is_sure(const candidate *c, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        for (uint32_t j = k; j < n; j++) {
            bool exact = c[i].e == 0.0 && c[j].e == 0.0;
            if (!exact && c[i].x - c[i].e <= c[j].x + c[j].e) return false;
        }
    }
    return true;
}

static void run_select(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const graph_value *keys = &o->g->values[v->in[2]];
    const kv_view *view = &o->views[keys->i[0]];
    assert_int_equal(view->geometry->layout, KV_LAYOUT_INDEX);
    stored st = stored_of(view->geometry, o->n);
    read_keys(o, keys, view, &st);
    candidate *c = zeros(o->n, sizeof *c);
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t n = 1 + (o->highest == NULL ? i : o->highest[i]);
        uint32_t k = n < v->i[0] ? n : v->i[0];
        for (uint32_t j = 0; j < n; j++) c[j] = index_score(o, v, &st, i, j);
        qsort(c, n, sizeof *c, by_score);
        ye[(size_t)i * v->cols] = is_sure(c, n, k) ? 0.0 : ORACLE_UNKNOWN;
        qsort(c, k, sizeof *c, by_position);
        y[(size_t)i * v->cols] = k;
        for (uint32_t j = 0; j < k; j++) y[(size_t)i * v->cols + 1 + j] = c[j].at;
    }
    free(c);
    free_stored(&st);
}

void oracle_over_state(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    if (v->op == GRAPH_KV_STORE) {
        run_store(o, v);
    } else if (v->op == GRAPH_ATTEND) {
        run_attend(o, v);
    } else {
        run_select(o, v, y, ye);
    }
}
