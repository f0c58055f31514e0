/* ref.c - the reference backend.
 *
 * It runs the graph value by value, in one thread, as the formulas in graph.h stand there. Sums are
 * double and in ascending order; a value is rounded to f32 once, where it is stored. Attention
 * visits exactly the visible positions, without splits: other backends are compared with it within
 * derived bounds. */
#include "backend/ref/ref.h"

#include <math.h>
#include <string.h>

#include "backend/host.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fp.h"
#include "kv/codecs/codec.h"
#include "tensor/encoding.h"

struct backend {
    env env;
    weft_act act;
};

struct backend_plan {
    const graph *g;
    backend_limits limits;
    graph_slot *slots;  /* [n_values] */
    float *values;      /* [n_floats] */
    float *row;         /* [widest], one decoded weight row */
    float *norm_weight; /* [widest] */
    double *o;          /* [widest], one head's attention output */
    double *chooser;    /* [widest], what experts are chosen by; the sum of their outputs */
    float *gate, *up;   /* [widest], of one expert */
    float *in;          /* [widest], the input of a linear layer as that has it */
    bool *flags;        /* [widest], experts that may be chosen */
    float *scores;      /* [context], of positions, where some are selected */
    uint32_t *bins;     /* [HOST_SELECT_BINS] */
    size_t n_floats, widest, n_bytes;
};

typedef struct run_state {
    const backend *b;
    backend_plan *p;
    const backend_step *step;
} run_state;

static weft_status ref_open(const backend_config *config, backend **b, weft_error *err)
{
    *b = NULL;
    if (config->isa != NULL) {
        return err_set(err, WEFT_ARGUMENT, "backend ref has no instruction set to choose, got '%s'",
                       config->isa);
    }
    if (config->experts != NULL)
        return err_set(err, WEFT_UNSUPPORTED, "backend ref does not stream experts");
    backend *new = mem_alloc_zero(config->env.allocator, sizeof *new);
    if (new == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the backend");
    new->env = config->env;
    new->act = config->act;
    *b = new;
    return WEFT_OK;
}

static void ref_close(backend *b)
{
    if (b != NULL) mem_free(b->env.allocator, b, sizeof *b);
}

static const char *ref_isa(const backend *b)
{
    (void)b;
    return "";
}

static void *ref_alloc(backend *b, size_t n_bytes)
{
    return mem_alloc(b->env.allocator, n_bytes);
}

static void ref_release(backend *b, void *block, size_t n_bytes)
{
    mem_free(b->env.allocator, block, n_bytes);
}

static void ref_plan_free(backend *b, backend_plan *plan)
{
    if (plan == NULL) return;
    const weft_allocator *a = b->env.allocator;
    mem_free(a, plan->slots, plan->g->n_values * sizeof(graph_slot));
    mem_free(a, plan->values, plan->n_floats * sizeof(float));
    mem_free(a, plan->row, plan->widest * sizeof(float));
    mem_free(a, plan->norm_weight, plan->widest * sizeof(float));
    mem_free(a, plan->o, plan->widest * sizeof(double));
    mem_free(a, plan->chooser, plan->widest * sizeof(double));
    mem_free(a, plan->gate, plan->widest * sizeof(float));
    mem_free(a, plan->up, plan->widest * sizeof(float));
    mem_free(a, plan->in, plan->widest * sizeof(float));
    mem_free(a, plan->flags, plan->widest * sizeof(bool));
    mem_free(a, plan->scores, plan->limits.context * sizeof(float));
    mem_free(a, plan->bins, HOST_SELECT_BINS * sizeof(uint32_t));
    mem_free(a, plan, sizeof *plan);
}

static weft_status ref_plan(backend *b, const graph *g, const backend_limits *limits,
                            backend_plan **plan, weft_error *err)
{
    *plan = NULL;
    const weft_allocator *a = b->env.allocator;
    backend_plan *p = mem_alloc_zero(a, sizeof *p);
    if (p == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a plan");
    p->g = g;
    p->limits = *limits;
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        if (v->cols > p->widest) p->widest = v->cols;
        /* What comes out of a matrix of a stack is no value. */
        if (v->op == GRAPH_STACK && v->rows > p->widest) p->widest = v->rows;
    }
    weft_status status = WEFT_OK;
    p->slots = mem_alloc_zero(a, g->n_values * sizeof(graph_slot));
    if (p->slots != NULL) {
        graph_lifetimes(g, p->slots);
        status = graph_place(g, backend_most_rows(limits), p->slots, &p->n_floats, err);
    }
    if (status == WEFT_OK) {
        p->values = mem_alloc(a, p->n_floats * sizeof(float));
        p->row = mem_alloc(a, p->widest * sizeof(float));
        p->norm_weight = mem_alloc(a, p->widest * sizeof(float));
        p->o = mem_alloc(a, p->widest * sizeof(double));
        p->chooser = mem_alloc(a, p->widest * sizeof(double));
        p->gate = mem_alloc(a, p->widest * sizeof(float));
        p->up = mem_alloc(a, p->widest * sizeof(float));
        p->in = mem_alloc(a, p->widest * sizeof(float));
        p->flags = mem_alloc(a, p->widest * sizeof(bool));
        p->scores = mem_alloc(a, limits->context * sizeof(float));
        p->bins = mem_alloc(a, HOST_SELECT_BINS * sizeof(uint32_t));
        bool all = p->slots && p->values && p->row && p->norm_weight && p->o && p->in;
        all = all && p->chooser && p->gate && p->up && p->flags && p->scores && p->bins;
        if (!all) status = err_set(err, WEFT_NOMEM, "out of memory for a plan");
    }
    p->n_bytes = p->n_floats * sizeof(float);
    if (status != WEFT_OK) {
        ref_plan_free(b, p);
        return status;
    }
    *plan = p;
    return WEFT_OK;
}

static size_t ref_plan_bytes(const backend_plan *plan)
{
    return plan->n_bytes;
}

static float *data(const run_state *r, graph_id id)
{
    if (graph_is_result(r->p->g, id)) return backend_result(r->step, r->p->g, id);
    if (r->p->g->values[id].op == GRAPH_FEED) return r->step->feeds[r->p->g->values[id].i[0]];
    ASSERT(r->p->slots[id].offset != SIZE_MAX);
    return r->p->values + r->p->slots[id].offset;
}

static uint32_t n_rows(const run_state *r, const graph_value *v)
{
    return graph_count(backend_step_rows(r->step), v->rows);
}

static const tensor *weight(const run_state *r, graph_id id)
{
    return &r->p->g->tensors[r->p->g->values[id].i[0]];
}

static void run_embed(const run_state *r, const graph_value *v, float *y)
{
    const graph_value *input = &r->p->g->values[v->in[0]];
    const tensor *t = weight(r, v->in[1]);
    for (uint32_t i = 0; i < r->step->n_tokens; i++) {
        t->encoding->decode_row(t, backend_embedded(r->step, input, i), y + (size_t)i * v->cols);
    }
}

static void run_replace(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    for (uint32_t i = 0; i < r->step->n_tokens; i++) {
        bool marked = r->step->marks != NULL && r->step->marks[i] != 0;
        const float *from = marked ? data(r, v->in[1]) : x;
        memmove(y + (size_t)i * v->cols, from + (size_t)i * v->cols, v->cols * sizeof(float));
    }
}

static void run_linear(const run_state *r, const graph_value *v, float *y)
{
    const tensor *t = weight(r, v->in[1]);
    const float *x = data(r, v->in[0]);
    uint32_t n_in = r->p->g->values[v->in[0]].cols;
    float *bias = r->p->norm_weight;
    if (v->in[2] != 0) {
        const tensor *bt = weight(r, v->in[2]);
        bt->encoding->decode_row(bt, 0, bias);
    }
    for (uint32_t o = 0; o < v->cols; o++) {
        t->encoding->decode_row(t, o, r->p->row);
        for (uint32_t i = 0; i < n_rows(r, v); i++) {
            host_round_input(r->b->act, t, false, x + (size_t)i * n_in, n_in, r->p->in);
            double sum = 0.0;
            for (uint32_t k = 0; k < n_in; k++) {
                sum += (double)r->p->row[k] * (double)r->p->in[k];
            }
            if (v->in[2] != 0) sum += (double)bias[o];
            y[(size_t)i * v->cols + o] = (float)sum;
        }
    }
}

/* y += W x, or its transpose's product; W row by row. y: [out], zero before. */
static void multiply(const run_state *r, const tensor *w, bool transposed, const float *x,
                     double *y)
{
    uint32_t n_in = (uint32_t)(transposed ? w->n_rows : w->n_cols);
    host_round_input(r->b->act, w, transposed, x, n_in, r->p->in);
    for (uint32_t row = 0; row < w->n_rows; row++) {
        w->encoding->decode_row(w, row, r->p->row);
        for (uint32_t k = 0; k < w->n_cols; k++) {
            double weight_k = (double)r->p->row[k];
            if (transposed) {
                y[k] += weight_k * (double)r->p->in[row];
            } else {
                y[row] += weight_k * (double)r->p->in[k];
            }
        }
    }
}

static void run_linear_heads(const run_state *r, const graph_value *v, float *y)
{
    const graph_value *stack = &r->p->g->values[v->in[1]];
    const float *x = data(r, v->in[0]);
    uint32_t n_heads = stack->i[1];
    uint32_t n_in = r->p->g->values[v->in[0]].cols / n_heads;
    uint32_t n_out = v->cols / n_heads;
    for (size_t i = 0; i < (size_t)n_rows(r, v) * n_heads; i++) {
        const tensor *w = &r->p->g->tensors[stack->i[0] + i % n_heads];
        memset(r->p->o, 0, n_out * sizeof(double));
        multiply(r, w, v->i[0] == 1, x + i * n_in, r->p->o);
        for (uint32_t k = 0; k < n_out; k++) y[i * n_out + k] = (float)r->p->o[k];
    }
}

static void run_cols(const run_state *r, const graph_value *v, float *y)
{
    uint32_t head_dim = v->i[0];
    size_t n_heads = (size_t)n_rows(r, v) * (r->p->g->values[v->in[0]].cols / head_dim);
    for (size_t h = 0; h < n_heads; h++) {
        memcpy(y + h * v->i[2], data(r, v->in[0]) + h * head_dim + v->i[1],
               v->i[2] * sizeof(float));
    }
}

static void run_concat(const run_state *r, const graph_value *v, float *y)
{
    size_t n_a = r->p->g->values[v->in[0]].cols / v->i[0];
    size_t n_b = r->p->g->values[v->in[1]].cols / v->i[0];
    for (size_t h = 0; h < (size_t)n_rows(r, v) * v->i[0]; h++) {
        memcpy(y + h * (n_a + n_b), data(r, v->in[0]) + h * n_a, n_a * sizeof(float));
        memcpy(y + h * (n_a + n_b) + n_a, data(r, v->in[1]) + h * n_b, n_b * sizeof(float));
    }
}

static void run_standardize(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    float *shift = r->p->row;
    float *factor = r->p->norm_weight;
    weight(r, v->in[1])->encoding->decode_row(weight(r, v->in[1]), 0, shift);
    weight(r, v->in[2])->encoding->decode_row(weight(r, v->in[2]), 0, factor);
    for (size_t i = 0; i < (size_t)n_rows(r, v) * v->cols; i++) {
        size_t c = i % v->cols;
        y[i] = (float)(((double)x[i] - (double)shift[c]) * (double)factor[c]);
    }
}

static void run_rms_norm(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    float *w = r->p->norm_weight;
    uint32_t group = v->i[0];
    for (uint32_t k = 0; k < group; k++) w[k] = 1.0F;
    if (v->in[1] != 0) {
        const tensor *t = weight(r, v->in[1]);
        t->encoding->decode_row(t, 0, w);
    }
    size_t n = (size_t)n_rows(r, v) * v->cols;
    for (size_t at = 0; at < n; at += group) {
        double sum = 0.0;
        for (uint32_t k = 0; k < group; k++) sum += (double)x[at + k] * (double)x[at + k];
        double inverse = 1.0 / sqrt(sum / (double)group + (double)v->f[0]);
        for (uint32_t k = 0; k < group; k++) {
            double factor = (double)w[k] + (double)v->f[1];
            y[at + k] = (float)((double)x[at + k] * inverse * factor);
        }
    }
}

/* The weight of group i: rows of a stack, a weight for all, or ones. */
static void layer_norm_weight(const run_state *r, const graph_value *v, size_t i, float *w)
{
    const graph_value *of = &r->p->g->values[v->in[1]];
    for (uint32_t k = 0; k < v->i[0]; k++) w[k] = 1.0F;
    if (v->in[1] == 0) return;
    uint32_t n = of->op == GRAPH_STACK ? of->i[1] : 1;
    const tensor *t = &r->p->g->tensors[of->i[0] + i % n];
    t->encoding->decode_row(t, 0, w);
}

static void run_layer_norm(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    float *w = r->p->norm_weight;
    float *b = r->p->row;
    uint32_t group = v->i[0];
    memset(b, 0, group * sizeof *b);
    if (v->in[2] != 0) weight(r, v->in[2])->encoding->decode_row(weight(r, v->in[2]), 0, b);
    for (size_t i = 0; i < (size_t)n_rows(r, v) * (v->cols / group); i++) {
        const float *from = x + i * group;
        double mean = 0.0;
        double sum = 0.0;
        layer_norm_weight(r, v, i % (v->cols / group), w);
        for (uint32_t k = 0; k < group; k++) mean += (double)from[k];
        mean /= (double)group;
        for (uint32_t k = 0; k < group; k++) {
            sum += ((double)from[k] - mean) * ((double)from[k] - mean);
        }
        double inverse = 1.0 / sqrt(sum / (double)group + (double)v->f[0]);
        for (uint32_t k = 0; k < group; k++) {
            double factor = (double)w[k] + (double)v->f[1];
            y[i * group + k] = (float)(((double)from[k] - mean) * inverse * factor + (double)b[k]);
        }
    }
}

static void run_position_scale(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    for (size_t i = 0; i < r->step->n_tokens; i++) {
        float factor = host_position_factor(v, r->step->positions[i]);
        for (size_t k = i * v->cols; k < (i + 1) * v->cols; k++) y[k] = x[k] * factor;
    }
}

static void rotate(const run_state *r, const graph_rope *rope, uint32_t token_i, const float *x,
                   float *y)
{
    for (uint32_t j = 0; j < rope->n_pairs; j++) {
        uint32_t a = rope->interleaved ? 2 * j : j;
        uint32_t b = rope->interleaved ? 2 * j + 1 : j + rope->n_pairs;
        float angle = (float)backend_place(r->step, rope, j, token_i) * rope->inv_freq[j];
        float c = cosf(angle) * rope->magnitude;
        float s = sinf(angle) * rope->magnitude;
        float xa = x[a];
        float xb = x[b];
        y[a] = xa * c - xb * s;
        y[b] = xb * c + xa * s;
    }
}

static void run_rope(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    uint32_t head_dim = v->i[0];
    const graph_rope *rope = &r->p->g->ropes[v->i[1]];
    memmove(y, x, (size_t)r->step->n_tokens * v->cols * sizeof(float));
    for (uint32_t i = 0; i < r->step->n_tokens; i++) {
        for (uint32_t h = 0; h < v->cols; h += head_dim) {
            float *head = y + (size_t)i * v->cols + h;
            rotate(r, rope, i, head, head);
        }
    }
}

static double activate(graph_act act, double x)
{
    if (act == GRAPH_SILU) return x / (1.0 + exp(-x));
    if (act == GRAPH_SIGMOID) return 1.0 / (1.0 + exp(-x));
    if (act == GRAPH_GPT_OSS) return x / (1.0 + exp(-(double)1.702F * x));
    if (act == GRAPH_RELU2) return x < 0.0 ? 0.0 : x * x;
    if (act == GRAPH_GELU_ERF) return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
    return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static void run_elementwise(const run_state *r, const graph_value *v, float *y)
{
    const float *a = data(r, v->in[0]);
    const float *b = v->in[1] != 0 ? data(r, v->in[1]) : a;
    bool one = v->in[1] != 0 && r->p->g->values[v->in[1]].cols == 1;
    size_t n = (size_t)n_rows(r, v) * v->cols;
    for (size_t i = 0; i < n; i++) {
        switch (v->op) {
        case GRAPH_MUL:
            y[i] = a[i] * b[one ? i / v->cols : i];
            break;
        case GRAPH_ADD:
            y[i] = a[i] + b[i];
            break;
        case GRAPH_SCALE:
            y[i] = a[i] * v->f[0];
            break;
        case GRAPH_CLAMP:
            y[i] = a[i] < v->f[0] ? v->f[0] : a[i] > v->f[1] ? v->f[1] : a[i];
            break;
        case GRAPH_GLU:
            y[i] = (float)(activate((graph_act)v->i[0], (double)a[i]) * (double)b[i]);
            break;
        case GRAPH_ACT:
            y[i] = (float)activate((graph_act)v->i[0], (double)a[i]);
            break;
        default:
            y[i] = v->f[0] * tanhf(a[i] / v->f[0]);
            break;
        }
    }
}

/* A number for each expert or head; NULL where there are none. */
static const float *a_vector(const run_state *r, graph_id id, float *to)
{
    if (id == 0) return NULL;
    weight(r, id)->encoding->decode_row(weight(r, id), 0, to);
    return to;
}

static void run_route(const run_state *r, const graph_value *v, float *y)
{
    uint32_t n = r->p->g->values[v->in[0]].cols;
    const float *s = data(r, v->in[0]);
    const float *bias = a_vector(r, v->in[1], r->p->norm_weight);
    const float *factor = a_vector(r, v->in[2], r->p->row);
    host_router router = {r->p->o, r->p->chooser, r->p->flags};
    for (uint32_t i = 0; i < n_rows(r, v); i++) {
        host_route(v, n, s + (size_t)i * n, bias, factor, router, y + (size_t)i * v->cols);
    }
}

/* Matrix e of a stack times x, and its bias. */
static void multiply_expert(const run_state *r, const graph_id stack[2], uint32_t e, const float *x,
                            float *y)
{
    const graph *g = r->p->g;
    const tensor *w = &g->tensors[g->values[stack[0]].i[0] + e];
    memset(r->p->o, 0, (size_t)w->n_rows * sizeof(double));
    multiply(r, w, false, x, r->p->o);
    memset(y, 0, (size_t)w->n_rows * sizeof *y);
    if (stack[1] != 0) {
        const tensor *bias = &g->tensors[g->values[stack[1]].i[0] + e];
        bias->encoding->decode_row(bias, 0, y);
    }
    for (uint32_t k = 0; k < w->n_rows; k++) y[k] = (float)(r->p->o[k] + (double)y[k]);
}

/* Of an expert, with what bounds its gate and up. */
static double expert_glu(const graph_value *v, float gate, float up)
{
    float limit = v->f[0];
    if (limit > 0.0F) {
        if (gate > limit) gate = limit;
        if (up > limit) up = limit;
        if (up < -limit) up = -limit;
    }
    double more = v->i[0] == GRAPH_GPT_OSS ? 1.0 : 0.0;
    return activate((graph_act)v->i[0], (double)gate) * ((double)up + more);
}

static void run_experts(const run_state *r, const graph_value *v, float *y)
{
    backend_plan *p = r->p;
    uint32_t n_inner = p->g->values[v->in[2]].rows;
    uint32_t top_k = p->g->values[v->in[1]].i[0];
    const float *x = data(r, v->in[0]);
    for (uint32_t i = 0; i < n_rows(r, v); i++, x += v->cols, y += v->cols) {
        const float *route = data(r, v->in[1]) + (size_t)i * 2 * top_k;
        memset(p->chooser, 0, v->cols * sizeof(double));
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t e = (uint32_t)route[k];
            multiply_expert(r, (const graph_id[]){v->in[2], v->in[5]}, e, x, p->gate);
            multiply_expert(r, (const graph_id[]){v->in[3], v->in[6]}, e, x, p->up);
            for (uint32_t c = 0; c < n_inner; c++)
                p->gate[c] = (float)expert_glu(v, p->gate[c], p->up[c]);
            multiply_expert(r, (const graph_id[]){v->in[4], v->in[7]}, e, p->gate, p->up);
            for (uint32_t c = 0; c < v->cols; c++)
                p->chooser[c] += (double)route[top_k + k] * (double)p->up[c];
        }
        for (uint32_t c = 0; c < v->cols; c++) y[c] = (float)p->chooser[c];
    }
}

static const kv_view *view_of(const run_state *r, uint32_t state_i, uint32_t row_i)
{
    return &r->step->views[(size_t)state_i * r->step->n_rows + row_i];
}

static void run_append(const run_state *r, const graph_value *v)
{
    const float *k = data(r, v->in[0]);
    const float *val = v->in[1] != 0 ? data(r, v->in[1]) : NULL;
    uint32_t k_cols = r->p->g->values[v->in[0]].cols;
    for (uint32_t row_i = 0; row_i < r->step->n_rows; row_i++) {
        const kv_view *view = view_of(r, v->i[0], row_i);
        for (uint32_t i = r->step->row_starts[row_i]; i < r->step->row_starts[row_i + 1]; i++) {
            uint32_t n = host_append(view, r->step->positions[i], k + (size_t)i * k_cols,
                                     val != NULL ? val + (size_t)i * v->cols : NULL);
            host_count_nonfinite(r->step, n);
        }
    }
}

/* What rotated values are turned back by: Walsh-Hadamard over the powers of two that n is made of,
 * the largest first, each over its root; then the signs. */
static void unrotate(double *x, uint32_t n)
{
    double *block = x;
    for (uint32_t size = 1U << 31; size > 0; size /= 2) {
        if ((n & size) == 0) continue;
        for (uint32_t half = 1; half < size; half *= 2) {
            for (uint32_t i = 0; i < size; i++) {
                if ((i & half) != 0) continue;
                double a = block[i];
                double b = block[i + half];
                block[i] = a + b;
                block[i + half] = a - b;
            }
        }
        for (uint32_t i = 0; i < size; i++) block[i] /= sqrt((double)size);
        block += size;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (kv_codec_sign(n, i)) x[i] = -x[i];
    }
}

/* What a query sees: positions, of which a list may have some, and a sink. */
typedef struct attend_seen {
    backend_span span;
    const uint32_t *list; /* NULL: all */
    double sink;
} attend_seen;

/* One query against what it sees of one head, or what a list has of it, and a sink where that is a
 * number above -INFINITY: y [v_dim], zeros where that is nothing. The row buffer of the plan holds
 * a decoded key or value. */
static void attend_one(const run_state *r, const graph_value *v, const kv_view *view, uint32_t head,
                       const float *q, attend_seen seen, float *y)
{
    const kv_geometry *g = view->geometry;
    const kv_codec *vc = kv_codec_by_id(g->v_codec);
    const uint32_t *list = seen.list;
    backend_span span = list != NULL ? (backend_span){0, list[0]} : seen.span;
    double max = seen.sink;
    double sum = max > (double)-INFINITY ? 1.0 : 0.0;
    double *o = r->p->o;
    memset(o, 0, g->v_dim * sizeof(double));
    for (uint32_t i = span.first; i < span.end; i++) {
        uint32_t j = list != NULL ? list[1 + i] : i;
        host_key(g, kv_key(view, head, j), r->p->row);
        double score = 0.0;
        for (uint32_t d = 0; d < g->k_dim; d++) score += (double)q[d] * (double)r->p->row[d];
        score *= (double)v->f[0];
        if (v->f[1] > 0.0F) score = (double)v->f[1] * tanh(score / (double)v->f[1]);
        double top = score > max ? score : max;
        double shrink = exp(max - top);
        double p = exp(score - top);
        vc->decode_row(vc, g->base, kv_value(view, head, j), r->p->row, g->v_dim);
        sum = sum * shrink + p;
        for (uint32_t d = 0; d < g->v_dim; d++) o[d] = o[d] * shrink + p * (double)r->p->row[d];
        max = top;
    }
    for (uint32_t d = 0; d < g->v_dim && span.first < span.end; d++) o[d] /= sum;
    if (vc->kind == KV_TV) unrotate(o, g->v_dim);
    for (uint32_t d = 0; d < g->v_dim; d++) y[d] = (float)o[d];
}

static void run_attend(const run_state *r, const graph_value *v, float *y)
{
    const graph_value *state = &r->p->g->values[v->in[1]];
    const float *q = data(r, v->in[0]);
    const float *sinks = a_vector(r, v->in[2], r->p->norm_weight);
    uint32_t n_heads = v->i[0];
    float *lists = v->in[3] != 0 ? data(r, v->in[3]) : NULL;
    for (uint32_t row_i = 0; row_i < r->step->n_rows; row_i++) {
        const kv_view *view = view_of(r, state->i[0], row_i);
        const kv_geometry *g = view->geometry;
        uint32_t group = n_heads / g->n_heads;
        for (uint32_t i = r->step->row_starts[row_i]; i < r->step->row_starts[row_i + 1]; i++) {
            attend_seen seen = {.span = backend_seen(r->step, view, i, v->i[1] == 1)};
            if (lists != NULL) seen.list = host_list(lists, i, r->p->g->values[v->in[3]].cols);
            for (uint32_t h = 0; h < n_heads; h++) {
                size_t at = (size_t)i * n_heads + h;
                seen.sink = sinks == NULL ? (double)-INFINITY : (double)sinks[h];
                attend_one(r, v, view, h / group, q + at * g->k_dim, seen, y + at * g->v_dim);
            }
        }
    }
}

/* The sum of one token and one position, whose key is in the plan's row. */
static double index_score(const run_state *r, const float *q, const float *w, uint32_t n_heads,
                          uint32_t k_dim)
{
    double sum = 0.0;
    for (uint32_t h = 0; h < n_heads; h++, q += k_dim) {
        double dot = 0.0;
        for (uint32_t d = 0; d < k_dim; d++) dot += (double)q[d] * (double)r->p->row[d];
        sum += (double)w[h] * (dot > 0.0 ? dot : 0.0);
    }
    return sum;
}

static void run_select(const run_state *r, const graph_value *v, float *y)
{
    uint32_t q_cols = r->p->g->values[v->in[0]].cols;
    uint32_t n_heads = r->p->g->values[v->in[1]].cols;
    uint32_t state_i = r->p->g->values[v->in[2]].i[0];
    for (uint32_t row_i = 0; row_i < r->step->n_rows; row_i++) {
        const kv_view *view = view_of(r, state_i, row_i);
        for (uint32_t i = r->step->row_starts[row_i]; i < r->step->row_starts[row_i + 1]; i++) {
            backend_span seen = backend_seen(r->step, view, i, false);
            const float *q = data(r, v->in[0]) + (size_t)i * q_cols;
            const float *w = data(r, v->in[1]) + (size_t)i * n_heads;
            for (uint32_t j = seen.first; j < seen.end; j++) {
                host_key(view->geometry, kv_key(view, 0, j), r->p->row);
                r->p->scores[j - seen.first] =
                    (float)index_score(r, q, w, n_heads, view->geometry->k_dim);
            }
            host_select(r->p->scores, seen.end - seen.first, seen.first, v->i[0], r->p->bins,
                        host_list(y, i, v->cols));
        }
    }
}

static void run_take(const run_state *r, const graph_value *v, float *y)
{
    const float *x = data(r, v->in[0]);
    const uint32_t *taken = backend_taken(r->step, v);
    size_t cols = v->cols / (v->i[0] + 1);
    for (uint32_t i = 0; i < n_rows(r, v); i++) {
        memcpy(y + (size_t)i * v->cols, x + taken[i] * cols, v->cols * sizeof(float));
    }
}

/* ---- recurrent states: the tokens of one row in its layer, one after the other ---- */

typedef struct stretch {
    const kv_view *view;
    uint32_t n;     /* tokens */
    const float *x; /* [n, x_stride], what the operation reads first */
    size_t x_stride;
    const float *decay, *rate; /* of gated_delta: [n, gate_stride] */
    size_t gate_stride;
    float *y;      /* [n, cols] */
    uint32_t mark; /* tokens after which the state is wanted; 0: it is not */
} stretch;

/* The number of a column `back` tokens before token i, across the step's beginning. */
static double tap(const stretch *s, size_t cols, size_t n_tail, size_t i, size_t back, size_t c)
{
    if (back <= i) return (double)s->x[(i - back) * s->x_stride + c];
    const float *tail = kv_committed(s->view, KV_BUFFER_TAIL);
    return tail == NULL ? 0.0 : (double)tail[(n_tail + i - back) * cols + c];
}

static void conv_stretch(const run_state *r, const graph_value *v, const stretch *s)
{
    const tensor *t = weight(r, v->in[1]);
    size_t n_taps = (size_t)t->n_cols;
    float *tail = kv_fresh(s->view, KV_BUFFER_TAIL);
    float *marked = s->mark > 0 ? kv_marked(s->view, KV_BUFFER_TAIL) : NULL;
    for (size_t c = 0; c < v->cols; c++) {
        t->encoding->decode_row(t, c, r->p->row);
        for (size_t i = 0; i < s->n; i++) {
            double sum = 0.0;
            for (size_t j = 0; j < n_taps; j++) {
                sum += (double)r->p->row[j] * tap(s, v->cols, n_taps - 1, i, n_taps - 1 - j, c);
            }
            if (v->i[1] == GRAPH_CONV_SILU) sum = activate(GRAPH_SILU, sum);
            s->y[i * v->cols + c] = (float)sum;
        }
        for (size_t j = 0; j + 1 < n_taps; j++) {
            /* As seen from the token behind the last. */
            size_t back = n_taps - 1 - j;
            tail[j * v->cols + c] = (float)tap(s, v->cols, n_taps - 1, s->n, back, c);
            if (marked == NULL) continue;
            marked[j * v->cols + c] = (float)tap(s, v->cols, n_taps - 1, s->mark, back, c);
        }
    }
}

static double one_over_length(const float *x, uint32_t n, double eps)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return 1.0 / sqrt(sum + eps);
}

/* ln(1 + e^x) without overflow. */
static double softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

/* One head and token: q and k as they come, matrix [v_dim, k_dim] is replaced. */
static void delta_token(const graph_heads *h, const float *q, const float *k, const float *v,
                        const double gates[2], double eps, float *matrix, float *y)
{
    double q_scale = one_over_length(q, h->k_dim, eps) / sqrt((double)h->k_dim);
    double k_scale = one_over_length(k, h->k_dim, eps);
    for (uint32_t i = 0; i < h->v_dim; i++) {
        float *row = matrix + (size_t)i * h->k_dim;
        double seen = 0.0;
        double out = 0.0;
        for (uint32_t j = 0; j < h->k_dim; j++)
            seen += gates[0] * (double)row[j] * (double)k[j] * k_scale;
        double change = gates[1] * ((double)v[i] - seen);
        for (uint32_t j = 0; j < h->k_dim; j++) {
            row[j] = (float)(gates[0] * (double)row[j] + change * (double)k[j] * k_scale);
            out += (double)row[j] * (double)q[j] * q_scale;
        }
        y[i] = (float)out;
    }
}

static void delta_stretch(const run_state *r, const graph_value *v, const stretch *s)
{
    graph_heads h = graph_delta_heads(r->p->g, v);
    size_t size = (size_t)h.v_dim * h.k_dim;
    const float *committed = kv_committed(s->view, KV_BUFFER_MATRIX);
    float *fresh = kv_fresh(s->view, KV_BUFFER_MATRIX);
    float *a_log = r->p->row;
    float *bias = r->p->norm_weight;
    weight(r, v->in[3])->encoding->decode_row(weight(r, v->in[3]), 0, a_log);
    weight(r, v->in[4])->encoding->decode_row(weight(r, v->in[4]), 0, bias);
    for (uint32_t head = 0; head < h.n_v; head++) {
        float *matrix = fresh + head * size;
        if (committed == NULL) {
            memset(matrix, 0, size * sizeof(float));
        } else {
            memcpy(matrix, committed + head * size, size * sizeof(float));
        }
        size_t k_head = graph_key_head(&h, head);
        for (uint32_t i = 0; i < s->n; i++) {
            const float *q = s->x + i * s->x_stride + k_head * h.k_dim;
            const float *k = q + (size_t)h.n_k * h.k_dim;
            const float *value =
                s->x + i * s->x_stride + (size_t)2 * h.n_k * h.k_dim + (size_t)head * h.v_dim;
            double a = (double)s->decay[i * s->gate_stride + head] + (double)bias[head];
            double gates[2] = {exp(-graph_delta_speed(v, a_log[head]) * softplus(a)),
                               activate(GRAPH_SIGMOID, (double)s->rate[i * s->gate_stride + head])};
            delta_token(&h, q, k, value, gates, (double)v->f[0], matrix,
                        s->y + (size_t)i * v->cols + (size_t)head * h.v_dim);
            if (i + 1 == s->mark) {
                float *marked = kv_marked(s->view, KV_BUFFER_MATRIX) + head * size;
                memcpy(marked, matrix, size * sizeof(float));
            }
        }
    }
}

/* Leaves the inputs of conv, then those of gated_delta, in the record. */
static void record_inputs(const run_state *r, const graph_value *v, const kv_view *view,
                          uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n && view->record != NULL; i++) {
        float *to = kv_record(view, i);
        uint32_t x_cols = r->p->g->values[v->in[0]].cols;
        if (v->op == GRAPH_CONV) {
            memcpy(to, data(r, v->in[0]) + (size_t)(first + i) * x_cols, x_cols * sizeof(float));
            continue;
        }
        uint32_t n_heads = r->p->g->values[v->in[1]].cols;
        size_t at = (size_t)(first + i) * n_heads;
        memcpy(to + x_cols, data(r, v->in[1]) + at, n_heads * sizeof(float));
        memcpy(to + x_cols + n_heads, data(r, v->in[2]) + at, n_heads * sizeof(float));
    }
}

static void run_recurrent(const run_state *r, const graph_value *v, float *y)
{
    uint32_t x_cols = r->p->g->values[v->in[0]].cols;
    for (uint32_t row_i = 0; row_i < r->step->n_rows; row_i++) {
        size_t first = r->step->row_starts[row_i];
        stretch s = {.view = view_of(r, v->i[0], row_i),
                     .n = r->step->row_starts[row_i + 1] - r->step->row_starts[row_i],
                     .x = data(r, v->in[0]) + first * x_cols,
                     .x_stride = x_cols,
                     .y = y + first * v->cols};
        if (s.view->marked != NULL) s.mark = s.view->mark;
        ASSERT(s.mark <= s.n);
        record_inputs(r, v, s.view, (uint32_t)first, s.n);
        if (v->op == GRAPH_CONV) {
            conv_stretch(r, v, &s);
            continue;
        }
        s.gate_stride = r->p->g->values[v->in[1]].cols;
        s.decay = data(r, v->in[1]) + first * s.gate_stride;
        s.rate = data(r, v->in[2]) + first * s.gate_stride;
        delta_stretch(r, v, &s);
    }
}

/* The same from the record; outputs go where those of a step would. */
static void ref_replay(backend *b, backend_plan *plan, uint32_t state_i, const kv_view *view,
                       uint32_t n)
{
    const graph *g = plan->g;
    run_state r = {b, plan, NULL};
    ASSERT(view->record != NULL && n <= plan->limits.n_tokens);
    stretch s = {.view = view, .n = n, .x = kv_record(view, 0)};
    s.x_stride = s.gate_stride = view->geometry->record_bytes / sizeof(float);
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        bool conv = v->op == GRAPH_CONV;
        if ((!conv && v->op != GRAPH_GATED_DELTA) || v->i[0] != state_i) continue;
        s.y = plan->values + plan->slots[id].offset;
        if (conv) {
            conv_stretch(&r, v, &s);
            continue;
        }
        uint32_t x_cols = g->values[v->in[0]].cols;
        s.decay = kv_record(view, 0) + x_cols;
        s.rate = s.decay + g->values[v->in[1]].cols;
        s.x = plan->values + plan->slots[v->in[0]].offset;
        s.x_stride = x_cols;
        delta_stretch(&r, v, &s);
    }
}

/* Nothing is computed. */
static void run_moves(const run_state *r, const graph_value *v, float *y)
{
    if (v->op == GRAPH_COLS) {
        run_cols(r, v, y);
    } else if (v->op == GRAPH_TAKE) {
        run_take(r, v, y);
    } else {
        run_concat(r, v, y);
    }
}

/* Factors of columns or of positions. */
static void run_factors(const run_state *r, const graph_value *v, float *y)
{
    if (v->op == GRAPH_STANDARDIZE) {
        run_standardize(r, v, y);
    } else {
        run_position_scale(r, v, y);
    }
}

/* What stands for a token. */
static void run_rows(const run_state *r, const graph_value *v, float *y)
{
    if (v->op == GRAPH_EMBED) {
        run_embed(r, v, y);
    } else {
        run_replace(r, v, y);
    }
}

static void run_over_state(const run_state *r, const graph_value *v, float *y)
{
    if (v->op == GRAPH_ATTEND) {
        run_attend(r, v, y);
    } else if (v->op == GRAPH_SELECT) {
        run_select(r, v, y);
    } else {
        run_recurrent(r, v, y);
    }
}
static void run_value(const run_state *r, graph_id id)
{
    const graph_value *v = &r->p->g->values[id];
    switch (v->op) {
    case GRAPH_EMBED:
    case GRAPH_REPLACE:
        run_rows(r, v, data(r, id));
        break;
    case GRAPH_STANDARDIZE:
    case GRAPH_POSITION_SCALE:
        run_factors(r, v, data(r, id));
        break;
    case GRAPH_LINEAR:
        run_linear(r, v, data(r, id));
        break;
    case GRAPH_RMS_NORM:
        run_rms_norm(r, v, data(r, id));
        break;
    case GRAPH_LAYER_NORM:
        run_layer_norm(r, v, data(r, id));
        break;
    case GRAPH_ROPE:
        run_rope(r, v, data(r, id));
        break;
    case GRAPH_ADD:
    case GRAPH_SCALE:
    case GRAPH_CLAMP:
    case GRAPH_MUL:
    case GRAPH_GLU:
    case GRAPH_ACT:
    case GRAPH_SOFTCAP:
        run_elementwise(r, v, data(r, id));
        break;
    case GRAPH_KV_APPEND:
    case GRAPH_KV_STORE:
        run_append(r, v);
        break;
    case GRAPH_TAP:
        backend_tap(r->step, v, data(r, v->in[0]), 0, r->step->n_tokens);
        break;
    case GRAPH_COLS:
    case GRAPH_CONCAT:
    case GRAPH_TAKE:
        run_moves(r, v, data(r, id));
        break;
    case GRAPH_LINEAR_HEADS:
        run_linear_heads(r, v, data(r, id));
        break;
    case GRAPH_ROUTE:
        run_route(r, v, data(r, id));
        break;
    case GRAPH_EXPERTS:
        run_experts(r, v, data(r, id));
        break;
    case GRAPH_ATTEND:
    case GRAPH_SELECT:
    case GRAPH_CONV:
    case GRAPH_GATED_DELTA:
        run_over_state(r, v, data(r, id));
        break;
    case GRAPH_NONE:
    case GRAPH_WEIGHT:
    case GRAPH_STACK:
    case GRAPH_INPUT:
    case GRAPH_FEED:
    case GRAPH_STATE:
    case GRAPH_N_OPS:
        break;
    }
}

static weft_status ref_run(backend *b, backend_plan *plan, const backend_step *step,
                           weft_error *err)
{
    (void)err;
    ASSERT(backend_step_fits(step, &plan->limits));
    run_state r = {b, plan, step};
    for (graph_id id = 1; id < plan->g->n_values; id++) run_value(&r, id);
    return WEFT_OK;
}

static weft_status ref_measure_read(backend *b, const void *block, size_t n_bytes,
                                    double *bytes_per_second, weft_error *err)
{
    (void)b;
    (void)err;
    const unsigned char *bytes = block;
    uint64_t start = clock_now_ns();
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= n_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        sum ^= word;
    }
    uint64_t elapsed = clock_now_ns() - start;
    /* The sum is used, so that the loop stays. */
    if (sum == 1) elapsed++;
    *bytes_per_second = elapsed == 0 ? 0.0 : (double)n_bytes * 1e9 / (double)elapsed;
    return WEFT_OK;
}

const backend_api BACKEND_REF = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .isa = ref_isa,
    .supports = host_supports,
    .alloc = ref_alloc,
    .release = ref_release,
    .copy = host_copy,
    .convert = host_convert,
    .plan = ref_plan,
    .plan_free = ref_plan_free,
    .plan_bytes = ref_plan_bytes,
    .experts = host_no_experts,
    .run = ref_run,
    .wait = host_wait,
    .trace = host_no_trace,
    .trace_part = host_no_trace_part,
    .replay = ref_replay,
    .measure_read = ref_measure_read,
};
