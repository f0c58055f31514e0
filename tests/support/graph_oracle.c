/* graph_oracle.c - values and bounds of a graph, operation by operation. */
#include "support/graph_oracle.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"
#include "kv/codecs/codec.h"
#include "support/test.h"
#include "tensor/encoding.h"

/* One rounding to f32. */
static const double U = 0x1p-24;

/* What cpu_kernels.h allows beside generic's own rounding. */
enum {
    LINEAR_UNITS = 66,
    SCORE_UNITS = 66,
    NORM_UNITS = 70,
    GLU_UNITS = 36,
    SOFTMAX_UNITS = 440,
    CONV_UNITS = 66,
    DELTA_UNITS = 66
};

static void *zeros(size_t count, size_t size)
{
    void *block = calloc(count == 0 ? 1 : count, size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

static const tensor *weight(const graph_oracle *o, graph_id id)
{
    return &o->g->tensors[o->g->values[id].i[0]];
}

static float *decoded_row(const tensor *t, uint64_t row)
{
    float *w = zeros((size_t)t->n_cols, sizeof *w);
    t->encoding->decode_row(t, row, w);
    return w;
}

/* x +- e rounded: the middle, and how far the ends are from it. */
typedef struct interval {
    double x, e;
} interval;

static interval rounded(double x, double e, double (*round)(double))
{
    double middle = round(x);
    double high = round(x + e) - middle;
    double low = middle - round(x - e);
    return (interval){middle, high > low ? high : low};
}

static double to_bf16(double x)
{
    return (double)fp_round_bf16((float)x);
}

static double to_f16(double x)
{
    return (double)fp_from_f16(fp_to_f16((float)x));
}

static double to_f32(double x)
{
    return (double)(float)x;
}

/* ---- linear ---- */

static bool is_codes(const tensor *t)
{
    return kernel_weights_of(t) == KERNEL_CODES;
}

/* In blocks of 32 the step is 2^-14 of the power of two of the largest; all but the small ones are
 * exact. */
static void add_block_errors(const double *x, double *e, uint32_t n)
{
    for (uint32_t b = 0; b < n; b += 32) {
        double largest = 0.0;
        for (uint32_t k = b; k < b + 32; k++) largest = fmax(largest, fabs(x[k]) + e[k]);
        if (largest == 0.0) continue;
        int exponent;
        frexp(largest, &exponent);
        if (exponent - 1 < -100) exponent = -99;
        double power = ldexp(1.0, exponent - 1);
        for (uint32_t k = b; k < b + 32; k++) {
            if (x[k] != 0.0 && fabs(x[k]) - e[k] < power * 0x1p-7) e[k] += power * 0x1p-15;
        }
    }
}

static void run_linear(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const tensor *t = weight(o, v->in[1]);
    uint32_t n_in = o->g->values[v->in[0]].cols;
    double *x = zeros((size_t)o->n * n_in, sizeof *x);
    double *e = zeros((size_t)o->n * n_in, sizeof *e);
    for (size_t i = 0; i < (size_t)o->n * n_in; i++) {
        interval r = {o->x[v->in[0]][i], o->e[v->in[0]][i]};
        if (o->act == WEFT_ACT_BF16) r = rounded(r.x, r.e, to_bf16);
        x[i] = r.x;
        e[i] = r.e;
    }
    bool blocks = o->act == WEFT_ACT_BF16 && is_codes(t);
    for (uint32_t i = 0; i < o->n && blocks; i++) {
        add_block_errors(x + (size_t)i * n_in, e + (size_t)i * n_in, n_in);
    }
    float *bias = v->in[2] != 0 ? decoded_row(weight(o, v->in[2]), 0) : NULL;
    for (uint32_t row = 0; row < v->cols; row++) {
        float *w = decoded_row(t, row);
        for (uint32_t i = 0; i < o->n; i++) {
            double sum = bias != NULL ? (double)bias[row] : 0.0;
            double terms = fabs(sum);
            double off = 0.0;
            for (uint32_t k = 0; k < n_in; k++) {
                size_t at = (size_t)i * n_in + k;
                sum += (double)w[k] * x[at];
                terms += fabs((double)w[k]) * (fabs(x[at]) + e[at]);
                off += fabs((double)w[k]) * e[at];
            }
            y[(size_t)i * v->cols + row] = sum;
            ye[(size_t)i * v->cols + row] = off + LINEAR_UNITS * U * terms;
        }
        free(w);
    }
    free(bias);
    free(x);
    free(e);
}

/* ---- one row at a time ---- */

static void run_embed(graph_oracle *o, const graph_value *v, double *y)
{
    for (uint32_t i = 0; i < o->n; i++) {
        float *row = decoded_row(weight(o, v->in[1]), (uint64_t)o->ids[i]);
        for (uint32_t k = 0; k < v->cols; k++) y[(size_t)i * v->cols + k] = (double)row[k];
        free(row);
    }
}

/* The root of a mean square changes by at most that of the errors. */
static void run_rms_norm(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    uint32_t group = v->i[0];
    float *w = decoded_row(weight(o, v->in[1]), 0);
    const double *x = o->x[v->in[0]];
    const double *e = o->e[v->in[0]];
    for (size_t at = 0; at < (size_t)o->n * v->cols; at += group) {
        double squares = 0.0;
        double errors = 0.0;
        for (uint32_t k = 0; k < group; k++) {
            squares += x[at + k] * x[at + k];
            errors += e[at + k] * e[at + k];
        }
        double root = sqrt(squares / group + (double)v->f[0]);
        double rho = sqrt(errors / group) / root;
        double grown = rho < 0.5 ? 1.0 / (1.0 - rho) : (double)INFINITY;
        for (uint32_t k = 0; k < group; k++) {
            double factor = ((double)w[k] + (double)v->f[1]) / root;
            double terms = (fabs((double)w[k]) + fabs((double)v->f[1])) / root * fabs(x[at + k]);
            y[at + k] = x[at + k] * factor;
            ye[at + k] = fabs(factor) * grown * (e[at + k] + fabs(x[at + k]) * rho) +
                         NORM_UNITS * U * terms * grown;
        }
    }
    free(w);
}

static void run_rope(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const graph_rope *rope = &o->g->ropes[v->i[1]];
    const double *x = o->x[v->in[0]];
    const double *e = o->e[v->in[0]];
    size_t n = (size_t)o->n * v->cols;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i];
        ye[i] = e[i];
    }
    for (size_t at = 0; at < n; at += v->i[0]) {
        for (uint32_t j = 0; j < rope->n_pairs; j++) {
            size_t a = at + (rope->interleaved ? 2 * j : j);
            size_t b = at + (rope->interleaved ? 2 * j + 1 : j + rope->n_pairs);
            float angle = (float)(at / v->cols) * rope->inv_freq[j];
            double c = cos((double)angle) * (double)rope->magnitude;
            double s = sin((double)angle) * (double)rope->magnitude;
            double slack =
                12 * U * (double)rope->magnitude * (fabs(x[a]) + e[a] + fabs(x[b]) + e[b]);
            y[a] = x[a] * c - x[b] * s;
            y[b] = x[b] * c + x[a] * s;
            ye[a] = fabs(c) * e[a] + fabs(s) * e[b] + slack;
            ye[b] = fabs(c) * e[b] + fabs(s) * e[a] + slack;
        }
    }
}

static double activate(uint32_t act, double x)
{
    if (act == GRAPH_SILU) return x / (1.0 + exp(-x));
    if (act == GRAPH_SIGMOID) return 1.0 / (1.0 + exp(-x));
    if (act == GRAPH_GELU_ERF) return 0.5 * x * erfc(-x / sqrt(2.0));
    double u = sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}

/* No activation is steeper than 1.2. */
static void run_elementwise(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const double *a = o->x[v->in[0]];
    const double *ae = o->e[v->in[0]];
    const double *b = o->x[v->in[1]];
    const double *be = o->e[v->in[1]];
    double f = (double)v->f[0];
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        switch (v->op) {
        case GRAPH_ADD:
            y[i] = a[i] + b[i];
            ye[i] = ae[i] + be[i] + 2 * U * (fabs(a[i]) + fabs(b[i]) + ae[i] + be[i]);
            break;
        case GRAPH_SCALE:
            y[i] = a[i] * f;
            ye[i] = fabs(f) * ae[i] + U * fabs(f) * (fabs(a[i]) + ae[i]);
            break;
        case GRAPH_GLU:
            y[i] = activate(v->i[0], a[i]) * b[i];
            ye[i] = 1.2 * ae[i] * (fabs(b[i]) + be[i]) + fabs(activate(v->i[0], a[i])) * be[i] +
                    GLU_UNITS * U * fabs(y[i]) + 1e-14 * fabs(a[i] * b[i]);
            break;
        default:
            y[i] = f * tanh(a[i] / f);
            ye[i] = ae[i] + 10 * U * (fabs(y[i]) + ae[i]);
            break;
        }
    }
}

/* ---- attention ---- */

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

/* How far a packed row may be from what it stands for, relative to its length. */
static double packed_error(const kv_codec *c)
{
    return c->bits == 8   ? 0.03
           : c->bits == 5 ? 0.15
           : c->bits == 4 ? 0.3
           : c->bits == 3 ? 0.5
                          : 0.9;
}

/* x: the row in its own basis. */
static void check_packed(const kv_codec *c, const double *x, const double *e, float *row,
                         uint32_t dim)
{
    double off = 0.0;
    double size = 0.0;
    double slack = 0.0;
    kv_codec_finish(c, row, dim);
    for (uint32_t d = 0; d < dim; d++) {
        off += ((double)row[d] - x[d]) * ((double)row[d] - x[d]);
        size += x[d] * x[d];
        slack += e[d] * e[d];
    }
    if (sqrt(off) <= packed_error(c) * (sqrt(size) + sqrt(slack)) + sqrt(slack) + 1e-5) return;
    fail_msg("%s: a row of length %g is off by %g", c->name, sqrt(size), sqrt(off));
}

/* The rows of one side of a layer, from its pages: in the rotated basis if they are rotated. */
static void read_packed(const graph_oracle *o, graph_id id, const kv_view *view, bool key,
                        double *x)
{
    const kv_geometry *g = view->geometry;
    const kv_codec *c = kv_codec_by_id(key ? g->k_codec : g->v_codec);
    uint32_t dim = key ? g->k_dim : g->v_dim;
    float *row = zeros(dim, sizeof *row);
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t h = 0; h < g->n_heads; h++) {
            size_t at = ((size_t)i * g->n_heads + h) * dim;
            const unsigned char *record = key ? kv_key(view, h, i) : kv_value(view, h, i);
            c->decode_row(c, g->base, record, row, dim);
            for (uint32_t d = 0; d < dim; d++) x[at + d] = (double)row[d];
            check_packed(c, o->x[id] + at, o->e[id] + at, row, dim);
        }
    }
    free(row);
}

/* x +- e from the rotated basis: the matrix as its definition has it, block by block. */
static void turn_back(double *x, double *e, uint32_t n)
{
    double *y = zeros(n, sizeof *y);
    double *ye = zeros(n, sizeof *ye);
    uint32_t first = 0;
    for (uint32_t size = 1u << 31; size > 0; size /= 2) {
        if ((n & size) == 0) continue;
        double root = sqrt((double)size);
        for (uint32_t i = 0; i < size; i++) {
            double terms = 0.0;
            for (uint32_t j = 0; j < size; j++) {
                double factor = (__builtin_popcount(i & j) & 1) != 0 ? -1.0 / root : 1.0 / root;
                y[first + i] += factor * x[first + j];
                ye[first + i] += e[first + j] / root;
                terms += (fabs(x[first + j]) + e[first + j]) / root;
            }
            ye[first + i] += 2 * U * (log2((double)size) + 3) * terms;
        }
        first += size;
    }
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kv_codec_sign(n, i) ? -y[i] : y[i];
        e[i] = ye[i];
    }
    free(y);
    free(ye);
}

/* The state of a layer as it is stored. */
typedef struct stored {
    double *k, *ke, *v, *ve;
    uint32_t heads, k_dim, v_dim;
} stored;

typedef struct score {
    double s, off;
} score;

static score score_of(const graph_oracle *o, const graph_value *v, const stored *st,
                      const size_t q_at, const size_t k_at)
{
    const double *q = o->x[v->in[0]] + q_at;
    const double *qe = o->e[v->in[0]] + q_at;
    double f = (double)v->f[0];
    double cap = (double)v->f[1];
    double dot = 0.0;
    double off = 0.0;
    double terms = 0.0;
    for (uint32_t d = 0; d < st->k_dim; d++) {
        double k = st->k[k_at + d];
        double ke = st->ke[k_at + d];
        dot += q[d] * k;
        off += (fabs(q[d]) + qe[d]) * ke + qe[d] * fabs(k);
        terms += (fabs(q[d]) + qe[d]) * (fabs(k) + ke);
    }
    score r = {f * dot, fabs(f) * (off + SCORE_UNITS * U * terms)};
    if (cap > 0.0) {
        r.off += 10 * U * fabs(r.s);
        r.s = cap * tanh(r.s / cap);
    }
    return r;
}

static void attend_one(const graph_oracle *o, const graph_value *v, const stored *st,
                       const kv_geometry *g, uint32_t token, uint32_t head, score *scores)
{
    uint32_t kv_head = head / (v->i[0] / st->heads);
    uint32_t low = 0;
    while (g->layout == KV_LAYOUT_WINDOW && token - low >= g->window) low++;
    double max = (double)-INFINITY;
    double off = 0.0;
    for (uint32_t j = low; j <= token; j++) {
        size_t k_at = ((size_t)j * st->heads + kv_head) * st->k_dim;
        scores[j] = score_of(o, v, st, ((size_t)token * v->i[0] + head) * st->k_dim, k_at);
        max = fmax(max, scores[j].s);
        off = fmax(off, scores[j].off);
    }
    double sum = 0.0;
    for (uint32_t j = low; j <= token; j++) sum += exp(scores[j].s - max);
    double grown = exp(2.0 * off);
    double units = (SOFTMAX_UNITS + 8.0 * (token / 256 + 1)) * U;
    size_t out = ((size_t)token * v->i[0] + head) * st->v_dim;
    graph_id id = (graph_id)(v - o->g->values);
    for (uint32_t d = 0; d < st->v_dim; d++) {
        double x = 0.0;
        double e = 0.0;
        for (uint32_t j = low; j <= token; j++) {
            size_t v_at = ((size_t)j * st->heads + kv_head) * st->v_dim + d;
            double w = exp(scores[j].s - max) / sum;
            double own = units + 8 * U * (max - scores[j].s + fabs(max));
            x += w * st->v[v_at];
            e += w * ((grown - 1.0 + own * grown) * (fabs(st->v[v_at]) + st->ve[v_at]) +
                      grown * st->ve[v_at]);
        }
        o->x[id][out + d] = x;
        o->e[id][out + d] = e;
    }
    if (kv_codec_by_id(g->v_codec)->kind != KV_TV) return;
    turn_back(o->x[id] + out, o->e[id] + out, st->v_dim);
}

static void run_attend(graph_oracle *o, const graph_value *v)
{
    const graph_value *state = &o->g->values[v->in[1]];
    const kv_view *view = &o->views[state->i[0]];
    const kv_geometry *g = view->geometry;
    stored st = {.heads = g->n_heads, .k_dim = g->k_dim, .v_dim = g->v_dim};
    size_t n_k = (size_t)o->n * g->n_heads * g->k_dim;
    size_t n_v = (size_t)o->n * g->n_heads * g->v_dim;
    st.k = zeros(n_k, sizeof(double));
    st.ke = zeros(n_k, sizeof(double));
    st.v = zeros(n_v, sizeof(double));
    st.ve = zeros(n_v, sizeof(double));
    if (kv_codec_by_id(g->k_codec)->kind == KV_DENSE) {
        encode(o, state->in[0], g->k_codec, st.k, st.ke);
    } else {
        read_packed(o, state->in[0], view, true, st.k);
    }
    if (kv_codec_by_id(g->v_codec)->kind == KV_DENSE) {
        encode(o, state->in[1], g->v_codec, st.v, st.ve);
    } else {
        read_packed(o, state->in[1], view, false, st.v);
    }
    score *scores = zeros(o->n, sizeof *scores);
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t h = 0; h < v->i[0]; h++) attend_one(o, v, &st, g, i, h, scores);
    }
    free(scores);
    free(st.k);
    free(st.ke);
    free(st.v);
    free(st.ve);
}

/* ---- recurrent layers: one sequence, from the first token on ---- */

static void run_cols(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    size_t n = v->i[2];
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        size_t from = i / n * v->i[0] + v->i[1] + i % n;
        y[i] = o->x[v->in[0]][from];
        ye[i] = o->e[v->in[0]][from];
    }
}

static void run_conv(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const tensor *t = weight(o, v->in[1]);
    size_t cols = v->cols;
    for (size_t c = 0; c < cols; c++) {
        float *w = decoded_row(t, c);
        for (size_t i = 0; i < o->n; i++) {
            double sum = 0.0;
            double off = 0.0;
            double terms = 0.0;
            for (size_t back = 0; back < t->n_cols && back <= i; back++) {
                double factor = (double)w[t->n_cols - 1 - back];
                double x = o->x[v->in[0]][(i - back) * cols + c];
                double e = o->e[v->in[0]][(i - back) * cols + c];
                sum += factor * x;
                off += fabs(factor) * e;
                terms += fabs(factor) * (fabs(x) + e);
            }
            y[i * cols + c] = activate(GRAPH_SILU, sum);
            ye[i * cols + c] = 1.2 * (off + CONV_UNITS * U * terms);
        }
        free(w);
    }
}

/* n numbers brought to a length of scale, in place. */
static void bring_to_length(double *x, double *e, uint32_t n, double eps, double scale)
{
    double squares = 0.0;
    double errors = 0.0;
    for (uint32_t j = 0; j < n; j++) {
        squares += x[j] * x[j];
        errors += e[j] * e[j];
    }
    double root = sqrt(squares + eps);
    double rho = sqrt(errors) / root;
    double grown = rho < 0.5 ? 1.0 / (1.0 - rho) : (double)INFINITY;
    for (uint32_t j = 0; j < n; j++) {
        e[j] = scale / root * grown * (e[j] + fabs(x[j]) * (rho + NORM_UNITS * U));
        x[j] *= scale / root;
    }
}

/* What a token brings to a head. */
typedef struct delta_token {
    double *q, *qe, *k, *ke; /* [k_dim] */
    double decay, decay_off, rate, rate_off;
} delta_token;

/* One row of S and its errors; returns what it gives, and in *off how far that may be off. */
static double delta_row(const delta_token *t, uint32_t n, double v, double ve, double *s,
                        double *se, double *off)
{
    double seen = 0.0;
    double seen_off = 0.0;
    double terms = 0.0;
    for (uint32_t j = 0; j < n; j++) {
        se[j] = t->decay * se[j] + t->decay_off * (fabs(s[j]) + se[j]);
        s[j] *= t->decay;
        seen += s[j] * t->k[j];
        seen_off += se[j] * (fabs(t->k[j]) + t->ke[j]) + fabs(s[j]) * t->ke[j];
        terms += (fabs(s[j]) + se[j]) * (fabs(t->k[j]) + t->ke[j]);
    }
    double change = t->rate * (v - seen);
    double change_off = t->rate * (ve + seen_off) + t->rate_off * (fabs(v) + ve + terms);
    double y = 0.0;
    *off = 0.0;
    for (uint32_t j = 0; j < n; j++) {
        double k = fabs(t->k[j]) + t->ke[j];
        double size = fabs(s[j]) + se[j] + t->rate * (fabs(v) + ve + terms) * k;
        se[j] += change_off * k + fabs(change) * t->ke[j] + DELTA_UNITS * U * size;
        s[j] += change * t->k[j];
        y += s[j] * t->q[j];
        *off += se[j] * (fabs(t->q[j]) + t->qe[j]) + fabs(s[j]) * t->qe[j] +
                DELTA_UNITS * U * size * (fabs(t->q[j]) + t->qe[j]);
    }
    return y;
}

/* Errors of a gate go through at most a quarter of it, those of a decay through exp. */
static void delta_gates(const graph_oracle *o, const graph_value *v, size_t at, double a_log,
                        double bias, delta_token *t)
{
    double a = o->x[v->in[1]][at] + bias;
    double speed = exp(a_log);
    t->decay = exp(-speed * log1p(exp(a)));
    t->decay_off = t->decay * (expm1(speed * o->e[v->in[1]][at]) + 4 * U);
    t->rate = activate(GRAPH_SIGMOID, o->x[v->in[2]][at]);
    t->rate_off = 0.25 * o->e[v->in[2]][at] + 2 * U * t->rate;
}

static void run_delta_head(graph_oracle *o, const graph_value *v, const graph_heads *h,
                           uint32_t head, double gates[2])
{
    size_t wide = o->g->values[v->in[0]].cols;
    graph_id id = (graph_id)(v - o->g->values);
    double *s = zeros((size_t)h->v_dim * h->k_dim, sizeof *s);
    double *se = zeros((size_t)h->v_dim * h->k_dim, sizeof *se);
    double *qk = zeros((size_t)4 * h->k_dim, sizeof *qk);
    delta_token t = {
        qk, qk + h->k_dim, qk + (size_t)2 * h->k_dim, qk + (size_t)3 * h->k_dim, 0, 0, 0, 0};
    size_t q_at = (size_t)(head / (h->n_v / h->n_k)) * h->k_dim;
    size_t k_at = q_at + (size_t)h->n_k * h->k_dim;
    size_t v_at = (size_t)2 * h->n_k * h->k_dim + (size_t)head * h->v_dim;
    for (size_t i = 0; i < o->n; i++) {
        const double *x = o->x[v->in[0]] + i * wide;
        const double *e = o->e[v->in[0]] + i * wide;
        for (uint32_t j = 0; j < h->k_dim; j++) {
            t.q[j] = x[q_at + j];
            t.qe[j] = e[q_at + j];
            t.k[j] = x[k_at + j];
            t.ke[j] = e[k_at + j];
        }
        bring_to_length(t.q, t.qe, h->k_dim, (double)v->f[0], 1.0 / sqrt((double)h->k_dim));
        bring_to_length(t.k, t.ke, h->k_dim, (double)v->f[0], 1.0);
        delta_gates(o, v, i * h->n_v + head, gates[0], gates[1], &t);
        for (uint32_t r = 0; r < h->v_dim; r++) {
            size_t out = i * v->cols + (size_t)head * h->v_dim + r;
            size_t row = (size_t)r * h->k_dim;
            o->x[id][out] = delta_row(&t, h->k_dim, x[v_at + r], e[v_at + r], s + row, se + row,
                                      &o->e[id][out]);
        }
    }
    free(s);
    free(se);
    free(qk);
}

static void run_delta(graph_oracle *o, const graph_value *v)
{
    graph_heads h = graph_delta_heads(o->g, v);
    float *a_log = decoded_row(weight(o, v->in[3]), 0);
    float *bias = decoded_row(weight(o, v->in[4]), 0);
    for (uint32_t head = 0; head < h.n_v; head++) {
        double gates[2] = {(double)a_log[head], (double)bias[head]};
        run_delta_head(o, v, &h, head, gates);
    }
    free(a_log);
    free(bias);
}

static void run_value(graph_oracle *o, graph_id id)
{
    const graph_value *v = &o->g->values[id];
    switch (v->op) {
    case GRAPH_EMBED:
        run_embed(o, v, o->x[id]);
        break;
    case GRAPH_LINEAR:
        run_linear(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_RMS_NORM:
        run_rms_norm(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_ROPE:
        run_rope(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_ADD:
    case GRAPH_SCALE:
    case GRAPH_GLU:
    case GRAPH_SOFTCAP:
        run_elementwise(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_ATTEND:
        run_attend(o, v);
        break;
    case GRAPH_COLS:
        run_cols(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_CONV:
        run_conv(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_GATED_DELTA:
        run_delta(o, v);
        break;
    case GRAPH_TAKE:
        for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
            o->x[id][i] = o->x[v->in[0]][i];
            o->e[id][i] = o->e[v->in[0]][i];
        }
        break;
    case GRAPH_NONE:
    case GRAPH_WEIGHT:
    case GRAPH_INPUT:
    case GRAPH_KV_APPEND:
        break;
    case GRAPH_N_OPS:
    default:
        fail_msg("the oracle does not know operation %u", (unsigned)v->op);
    }
}

void graph_oracle_run(graph_oracle *o, const graph *g, const kv_view *views, weft_act act,
                      const int32_t *ids, uint32_t n)
{
    *o = (graph_oracle){.g = g, .views = views, .act = act, .ids = ids, .n = n};
    o->x = zeros(g->n_values, sizeof *o->x);
    o->e = zeros(g->n_values, sizeof *o->e);
    for (graph_id id = 1; id < g->n_values; id++) {
        if (g->values[id].op == GRAPH_WEIGHT) continue;
        o->x[id] = zeros((size_t)n * g->values[id].cols, sizeof(double));
        o->e[id] = zeros((size_t)n * g->values[id].cols, sizeof(double));
        run_value(o, id);
    }
}

void graph_oracle_free(graph_oracle *o)
{
    for (graph_id id = 1; id < o->g->n_values; id++) {
        free(o->x[id]);
        free(o->e[id]);
    }
    free(o->x);
    free(o->e);
}
