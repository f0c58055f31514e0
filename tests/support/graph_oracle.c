/* graph_oracle.c - values and bounds of a graph, operation by operation. */
#include "support/graph_oracle.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"
#include "kv/codecs/codec.h"
#include "support/oracle_attend.h"
#include "support/oracle_image.h"
#include "support/oracle_norm.h"
#include "support/oracle_parts.h"
#include "support/oracle_route.h"
#include "support/test.h"
#include "tensor/encoding.h"

/* What cpu_kernels.h allows beside generic's own rounding. */
enum { LINEAR_UNITS = 66, NORM_UNITS = 70, GLU_UNITS = 36, CONV_UNITS = 66, DELTA_UNITS = 66 };

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

/* n <= HOST_I8_COLUMNS columns that share a scale: the nearest multiples of it, and how far those
 * of numbers and scales at the ends of their intervals are away. */
static void round_i8(double *x, double *e, uint32_t n)
{
    double largest = 0.0;
    double least = 0.0;
    double most = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        largest = fmax(largest, fabs(x[k]));
        least = fmax(least, fabs(x[k]) - e[k]);
        most = fmax(most, fabs(x[k]) + e[k]);
    }
    const double slack = 0x1p-22; /* of the scale, its inverse and their products in f32 */
    double scale = largest < 1e-30 ? 0.0 : largest / HOST_I8_MOST;
    double low = least * (1.0 - slack) / HOST_I8_MOST;
    double high = most * (1.0 + slack) / HOST_I8_MOST;
    for (uint32_t k = 0; k < n; k++) {
        double y = scale > 0.0 ? rint(x[k] / scale) * scale : 0.0;
        double off = least < 2e-30 ? most : 0.0;
        for (int i = 0; i < 4 && least >= 2e-30; i++) {
            double at = x[k] + (i % 2 == 0 ? e[k] : -e[k]);
            double by = i / 2 == 0 ? low : high;
            double q = rint(at / by * (1.0 + (at > 0.0 ? slack : -slack)));
            double other = rint(at / by * (1.0 - (at > 0.0 ? slack : -slack)));
            off = fmax(off, fmax(fabs(q * low - y), fabs(q * high - y)));
            off = fmax(off, fmax(fabs(other * low - y), fabs(other * high - y)));
        }
        x[k] = y;
        e[k] = off;
    }
}

/* n rows of a linear layer's input, rounded as weights in t want them. */
static void round_input(const graph_oracle *o, const tensor *t, double *x, double *e, size_t n)
{
    uint32_t cols = (uint32_t)t->n_cols;
    if (o->act == WEFT_ACT_F32) return;
    if (o->act == WEFT_ACT_INT8 && is_codes(t)) {
        for (size_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < cols; k += HOST_I8_COLUMNS) {
                uint32_t left = cols - k < HOST_I8_COLUMNS ? cols - k : HOST_I8_COLUMNS;
                round_i8(x + i * cols + k, e + i * cols + k, left);
            }
        }
        return;
    }
    for (size_t i = 0; i < n * cols; i++) {
        interval r = rounded(x[i], e[i], to_bf16);
        x[i] = r.x;
        e[i] = r.e;
    }
    for (size_t i = 0; i < n && is_codes(t); i++)
        add_block_errors(x + i * cols, e + i * cols, cols);
}

/* Where each product is added after the other, each addition is rounded. */
static double linear_units(const tensor *t, bool turned)
{
    bool one_by_one = turned || kernel_weights_of(t) == KERNEL_TURNED;
    return LINEAR_UNITS + (one_by_one ? (double)(turned ? t->n_rows : t->n_cols) : 0.0);
}

/* sum + w x, its bound in *ye. */
static double dot(const float *w, const double *x, const double *e, uint32_t n, double sum,
                  double units, double *ye)
{
    double terms = fabs(sum);
    double off = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        sum += (double)w[k] * x[k];
        terms += fabs((double)w[k]) * (fabs(x[k]) + e[k]);
        off += fabs((double)w[k]) * e[k];
    }
    *ye = off + units * U * terms;
    return sum;
}

static double *copy_of(const double *x, size_t n)
{
    double *copy = zeros(n, sizeof *copy);
    for (size_t i = 0; i < n; i++) copy[i] = x[i];
    return copy;
}

static void run_linear(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const tensor *t = weight(o, v->in[1]);
    uint32_t n_in = o->g->values[v->in[0]].cols;
    double *x = copy_of(o->x[v->in[0]], (size_t)o->n * n_in);
    double *e = copy_of(o->e[v->in[0]], (size_t)o->n * n_in);
    round_input(o, t, x, e, o->n);
    float *bias = v->in[2] != 0 ? decoded_row(weight(o, v->in[2]), 0) : NULL;
    for (uint32_t row = 0; row < v->cols; row++) {
        float *w = decoded_row(t, row);
        for (size_t i = 0; i < o->n; i++) {
            y[i * v->cols + row] =
                dot(w, x + i * n_in, e + i * n_in, n_in, bias != NULL ? (double)bias[row] : 0.0,
                    linear_units(t, false), &ye[i * v->cols + row]);
        }
        free(w);
    }
    free(bias);
    free(x);
    free(e);
}

/* One input times one matrix, or its transpose, and a bias or NULL: y, ye [out]. */
static void multiply(const graph_oracle *o, const tensor *t, bool transposed,
                     const interval_row *in, const float *bias, double *y, double *ye)
{
    const double *from = in->x;
    const double *from_e = in->e;
    uint32_t n_in = (uint32_t)(transposed ? t->n_rows : t->n_cols);
    uint32_t n_out = (uint32_t)(transposed ? t->n_cols : t->n_rows);
    double *x = copy_of(from, n_in);
    double *e = copy_of(from_e, n_in);
    float *all = zeros((size_t)n_in * n_out, sizeof *all);
    float *w = zeros(n_in, sizeof *w);
    /* A matrix that is read as it lies has no blocks along its columns. */
    tensor plain = *t;
    plain.n_cols = n_in;
    if (transposed) plain.encoding = &ENCODING_F32;
    round_input(o, &plain, x, e, 1);
    tensor_decode(t, all);
    for (uint32_t row = 0; row < n_out; row++) {
        for (uint32_t k = 0; k < n_in; k++)
            w[k] = transposed ? all[(size_t)k * n_out + row] : all[(size_t)row * n_in + k];
        y[row] = dot(w, x, e, n_in, bias != NULL ? (double)bias[row] : 0.0,
                     linear_units(t, transposed), &ye[row]);
    }
    free(w);
    free(all);
    free(x);
    free(e);
}

static void run_linear_heads(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const graph_value *stack = &o->g->values[v->in[1]];
    size_t n_in = o->g->values[v->in[0]].cols / stack->i[1];
    size_t n_out = v->cols / stack->i[1];
    for (size_t i = 0; i < (size_t)o->n * stack->i[1]; i++) {
        const tensor *t = &o->g->tensors[stack->i[0] + i % stack->i[1]];
        interval_row in = {o->x[v->in[0]] + i * n_in, o->e[v->in[0]] + i * n_in};
        multiply(o, t, v->i[0] == 1, &in, NULL, y + i * n_out, ye + i * n_out);
    }
}

static void run_columns(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    bool concat = v->op == GRAPH_CONCAT;
    size_t n_heads = concat ? v->i[0] : o->g->values[v->in[0]].cols / v->i[0];
    size_t width = v->cols / n_heads;
    size_t n_a = o->g->values[v->in[0]].cols / n_heads;
    size_t n_b = width - n_a;
    for (size_t h = 0; h < (size_t)o->n * n_heads; h++) {
        for (size_t c = 0; c < width; c++) {
            bool second = concat && c >= n_a;
            graph_id from = v->in[second ? 1 : 0];
            size_t at = !concat ? h * n_a + v->i[1] + c : second ? h * n_b + c - n_a : h * n_a + c;
            y[h * width + c] = o->x[from][at];
            ye[h * width + c] = o->e[from][at];
        }
    }
}

/* ---- one row at a time ---- */

static void run_embed(graph_oracle *o, const graph_value *v, double *y)
{
    const graph_value *input = &o->g->values[v->in[0]];
    for (uint32_t i = 0; i < o->n; i++) {
        uint64_t at = (uint64_t)input->i[1] + (input->i[0] == GRAPH_POSITIONS ? i : 0);
        if (input->i[0] == GRAPH_IDS) at = (uint64_t)o->ids[i];
        float *row = decoded_row(weight(o, v->in[1]), at);
        for (uint32_t k = 0; k < v->cols; k++) y[(size_t)i * v->cols + k] = (double)row[k];
        free(row);
    }
}

/* Of each group of columns, with its own weight where there is a stack of them. */
static void run_norm(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const graph_value *of = &o->g->values[v->in[1]];
    bool layer = v->op == GRAPH_LAYER_NORM;
    oracle_norm how = {.n = v->i[0],
                       .eps = (double)v->f[0],
                       .add = (double)v->f[1],
                       .centered = layer,
                       .error = NORM_UNITS * U};
    float *b = layer && v->in[2] != 0 ? decoded_row(weight(o, v->in[2]), 0) : NULL;
    how.b = b;
    for (size_t at = 0; at < (size_t)o->n * v->cols; at += how.n) {
        size_t i = of->op == GRAPH_STACK ? at % v->cols / how.n : 0;
        float *w = v->in[1] != 0 ? decoded_row(&o->g->tensors[of->i[0] + i], 0) : NULL;
        how.w = w;
        oracle_norm_run(&how, o->x[v->in[0]] + at, o->e[v->in[0]] + at, y + at, ye + at);
        free(w);
    }
    free(b);
}

static void run_position_scale(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        double periods = floor((double)(i / v->cols) / (double)v->f[1]);
        double factor = 1.0 + (double)v->f[0] * log(1.0 + periods);
        y[i] = o->x[v->in[0]][i] * factor;
        ye[i] =
            fabs(factor) * (o->e[v->in[0]][i] * (1.0 + 4 * U) + 4 * U * fabs(o->x[v->in[0]][i]));
    }
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
            uint32_t place = (uint32_t)(at / v->cols);
            if (rope->axes != NULL) place = oracle_place(o->ids[place], place, rope->axes[j]);
            float angle = (float)place * rope->inv_freq[j];
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
    if (act == GRAPH_RELU2) return x > 0.0 ? x * x : 0.0;
    if (act == GRAPH_GELU_ERF) return 0.5 * x * erfc(-x / sqrt(2.0));
    if (act == GRAPH_GPT_OSS) return x / (1.0 + exp(-(double)1.702F * x));
    double u = sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}

/* No activation is steeper than 1.2. */
static interval glu_of(uint32_t act, interval a, interval b)
{
    double y = activate(act, a.x) * b.x;
    double e = 1.2 * a.e * (fabs(b.x) + b.e) + fabs(activate(act, a.x)) * b.e;
    return (interval){y, e + GLU_UNITS * U * fabs(y) + 1e-14 * fabs(a.x * b.x)};
}

/* A square is as steep as it is far from 0. */
static interval act_of(uint32_t act, interval a)
{
    if (act != GRAPH_RELU2) return glu_of(act, a, (interval){1.0, 0.0});
    double y = activate(act, a.x);
    return (interval){y, a.e * (2.0 * fabs(a.x) + a.e) + 2 * U * y};
}

static void run_elementwise(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const double *a = o->x[v->in[0]];
    const double *ae = o->e[v->in[0]];
    const double *b = o->x[v->in[1]];
    const double *be = o->e[v->in[1]];
    double f = (double)v->f[0];
    bool one = o->g->values[v->in[1]].cols == 1;
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        size_t j = one ? i / v->cols : i;
        switch (v->op) {
        case GRAPH_MUL:
            y[i] = a[i] * b[j];
            ye[i] = ae[i] * (fabs(b[j]) + be[j]) + fabs(a[i]) * be[j] +
                    U * (fabs(a[i]) + ae[i]) * (fabs(b[j]) + be[j]);
            break;
        case GRAPH_ADD:
            y[i] = a[i] + b[i];
            ye[i] = ae[i] + be[i] + 2 * U * (fabs(a[i]) + fabs(b[i]) + ae[i] + be[i]);
            break;
        case GRAPH_SCALE:
            y[i] = a[i] * f;
            ye[i] = fabs(f) * ae[i] + U * fabs(f) * (fabs(a[i]) + ae[i]);
            break;
        case GRAPH_CLAMP:
            y[i] = fmin(fmax(a[i], f), (double)v->f[1]);
            ye[i] = ae[i];
            break;
        case GRAPH_GLU: {
            interval h = glu_of(v->i[0], (interval){a[i], ae[i]}, (interval){b[i], be[i]});
            y[i] = h.x;
            ye[i] = h.e;
            break;
        }
        case GRAPH_ACT: {
            interval h = act_of(v->i[0], (interval){a[i], ae[i]});
            y[i] = h.x;
            ye[i] = h.e;
            break;
        }
        default:
            y[i] = f * tanh(a[i] / f);
            ye[i] = ae[i] + 10 * U * (fabs(y[i]) + ae[i]);
            break;
        }
    }
}

/* ---- experts ---- */

/* Within low and high, which are as near as x is to what it stands for, or nearer. */
static interval bounded(interval a, float low, float high)
{
    if (high <= 0.0F) return a;
    return (interval){fmax(fmin(a.x, (double)high), (double)low), a.e};
}

/* One expert of one token, added to y with weight w +- we. */
static void add_expert(const graph_oracle *o, const graph_value *v, uint32_t expert, size_t token,
                       interval w, double *y, double *ye)
{
    const graph *g = o->g;
    const tensor *t[3];
    float *bias[3] = {NULL};
    for (uint32_t i = 0; i < 3; i++) {
        t[i] = &g->tensors[g->values[v->in[2 + i]].i[0] + expert];
        graph_id stack = v->in[5 + i];
        if (stack != 0) bias[i] = decoded_row(&g->tensors[g->values[stack].i[0] + expert], 0);
    }
    size_t width = (size_t)t[0]->n_rows;
    double *gate = zeros(4 * width, sizeof *gate);
    double *gate_e = gate + width;
    double *up = gate_e + width;
    double *up_e = up + width;
    double *out = zeros(2 * (size_t)v->cols, sizeof *out);
    double *out_e = out + v->cols;
    interval_row x = {o->x[v->in[0]] + token * v->cols, o->e[v->in[0]] + token * v->cols};
    interval_row inner = {gate, gate_e};
    multiply(o, t[0], false, &x, bias[0], gate, gate_e);
    multiply(o, t[1], false, &x, bias[1], up, up_e);
    for (size_t i = 0; i < width; i++) {
        interval a = bounded((interval){gate[i], gate_e[i]}, -INFINITY, v->f[0]);
        interval b = bounded((interval){up[i], up_e[i]}, -v->f[0], v->f[0]);
        if (v->i[0] == GRAPH_GPT_OSS) b = (interval){b.x + 1.0, b.e + 2 * U * (fabs(b.x) + 1.0)};
        interval h = glu_of(v->i[0], a, b);
        gate[i] = h.x;
        gate_e[i] = h.e;
    }
    multiply(o, t[2], false, &inner, bias[2], out, out_e);
    for (uint32_t i = 0; i < 3; i++) free(bias[i]);
    for (uint32_t i = 0; i < v->cols; i++) {
        y[i] += w.x * out[i];
        ye[i] += (fabs(w.x) + w.e) * out_e[i] + w.e * fabs(out[i]);
        ye[i] += 40 * U * fabs(w.x) * (fabs(out[i]) + out_e[i]);
    }
    free(gate);
    free(out);
}

static void run_experts(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    const graph_value *route = &o->g->values[v->in[1]];
    uint32_t top_k = route->i[0];
    for (size_t i = 0; i < o->n; i++) {
        const double *r = o->x[v->in[1]] + i * route->cols;
        const double *re = o->e[v->in[1]] + i * route->cols;
        for (uint32_t k = 0; k < top_k; k++) {
            interval w = {r[top_k + k], re[top_k + k]};
            add_expert(o, v, (uint32_t)r[k], i, w, y + i * v->cols, ye + i * v->cols);
        }
        for (uint32_t c = 0; c < v->cols && re[top_k] >= ORACLE_UNKNOWN; c++)
            ye[i * v->cols + c] = ORACLE_UNKNOWN;
    }
}

/* ---- recurrent layers: one sequence, from the first token on ---- */

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
            bool plain = v->i[1] == GRAPH_CONV_PLAIN;
            y[i * cols + c] = plain ? sum : activate(GRAPH_SILU, sum);
            ye[i * cols + c] = (plain ? 1.0 : 1.2) * (off + CONV_UNITS * U * terms);
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
    double speed = (v->i[2] & GRAPH_DELTA_SPEED) != 0 ? -a_log : exp(a_log);
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
    bool tiled = (v->i[2] & GRAPH_DELTA_TILED) != 0;
    size_t q_at = (size_t)(tiled ? head % h->n_k : head * h->n_k / h->n_v) * h->k_dim;
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

static void run_by_position(graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    if (v->op == GRAPH_ROPE) {
        run_rope(o, v, y, ye);
    } else {
        run_position_scale(o, v, y, ye);
    }
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
    case GRAPH_LAYER_NORM:
        run_norm(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_ROPE:
    case GRAPH_POSITION_SCALE:
        run_by_position(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_ADD:
    case GRAPH_SCALE:
    case GRAPH_CLAMP:
    case GRAPH_MUL:
    case GRAPH_GLU:
    case GRAPH_ACT:
    case GRAPH_SOFTCAP:
        run_elementwise(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_FEED:
    case GRAPH_REPLACE:
    case GRAPH_STANDARDIZE:
    case GRAPH_TAKE:
        oracle_run_image(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_SELECT:
    case GRAPH_ATTEND:
    case GRAPH_KV_STORE:
        oracle_over_state(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_CONV:
        run_conv(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_GATED_DELTA:
        run_delta(o, v);
        break;
    case GRAPH_COLS:
    case GRAPH_CONCAT:
        run_columns(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_LINEAR_HEADS:
        run_linear_heads(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_ROUTE:
        oracle_route(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_EXPERTS:
        run_experts(o, v, o->x[id], o->e[id]);
        break;
    case GRAPH_NONE:
    case GRAPH_WEIGHT:
    case GRAPH_STACK:
    case GRAPH_INPUT:
    case GRAPH_KV_APPEND:
    case GRAPH_STATE:
    case GRAPH_TAP:
        break;
    default:
        fail_msg("the oracle does not know operation %u", (unsigned)v->op);
    }
}

void graph_oracle_run(graph_oracle *o, const graph *g, const kv_view *views, weft_act act,
                      const int32_t *ids, const uint32_t *highest, uint32_t n)
{
    *o = (graph_oracle){.g = g, .views = views, .act = act, .ids = ids, .highest = highest, .n = n};
    o->x = zeros(g->n_values, sizeof *o->x);
    o->e = zeros(g->n_values, sizeof *o->e);
    for (graph_id id = 1; id < g->n_values; id++) {
        if (g->values[id].op == GRAPH_WEIGHT || g->values[id].op == GRAPH_STACK) continue;
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
