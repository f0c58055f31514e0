/* run.c - one thread's walk through the phases of a plan. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "tensor/encoding.h"

float *cpu_data(const cpu_run *r, graph_id id)
{
    if (graph_is_result(r->p->g, id)) return backend_result(r->step, r->p->g, id);
    const graph_value *v = &r->p->g->values[id];
    if (v->op == GRAPH_FEED) return r->step->feeds[v->i[0]];
    ASSERT_HOT(r->p->slots[id].offset != SIZE_MAX);
    return r->p->values + r->p->slots[id].offset;
}

uint32_t cpu_n_rows(const cpu_run *r, uint32_t rows)
{
    return graph_count(backend_step_rows(r->step), rows);
}

static const tensor *weight(const cpu_run *r, graph_id id)
{
    return &r->p->g->tensors[r->p->g->values[id].i[0]];
}

/* ---- operations that treat each row alone: rows [first, end) --------------------------------- */

typedef struct token_range {
    uint32_t first, end;
} token_range;

static void run_ropes(const cpu_run *r, token_range t)
{
    const graph *g = r->p->g;
    for (uint32_t k = 0; k < g->n_ropes; k++) {
        const graph_rope *rope = &g->ropes[k];
        for (uint32_t i = t.first; i < t.end; i++) {
            float *cs = r->p->ropes + r->p->rope_offsets[k] + (size_t)i * rope->n_pairs * 2;
            for (uint32_t j = 0; j < rope->n_pairs; j++) {
                float angle = (float)backend_place(r->step, rope, j, i) * rope->inv_freq[j];
                cs[2 * (size_t)j] = cosf(angle) * rope->magnitude;
                cs[2 * (size_t)j + 1] = sinf(angle) * rope->magnitude;
            }
        }
    }
}

size_t cpu_codes_bytes(const backend *b, uint32_t cols)
{
    bool i8 = b->act == WEFT_ACT_INT8;
    return kernel_codes_bytes(cols / KERNEL_BLOCK, i8 ? b->kernels.form_i8 : b->kernels.form_i16);
}

void cpu_prepare_row(const backend *b, const cpu_input *in, size_t i, const float *x, uint32_t cols,
                     cpu_forms forms)
{
    const cpu_kernels *k = &b->kernels;
    if (forms.to_bf16) k->prepare_bf16(x, cols, in->f + i * cols, in->h + i * cols);
    if (forms.to_codes) {
        uint32_t n_blocks = cols / KERNEL_BLOCK;
        unsigned char *to = in->codes + i * cpu_codes_bytes(b, cols);
        (b->act == WEFT_ACT_INT8 ? k->prepare_i8 : k->prepare_i16)(x, n_blocks, to);
    }
    if (!forms.to_bf16 && !forms.to_codes) memcpy(in->f + i * cols, x, cols * sizeof *x);
}

kernel_input cpu_input_at(const backend *b, const cpu_input *in, size_t i, uint32_t cols)
{
    kernel_input at = {.f = in->f + i * cols};
    if (b->act == WEFT_ACT_F32) return at;
    at.h = in->h + i * cols;
    at.codes = in->codes + i * cpu_codes_bytes(b, cols);
    return at;
}

static void run_prepare(const cpu_run *r, const token_op *op, uint32_t n, token_range t)
{
    uint32_t cols = r->p->g->values[op->id].cols / op->n_heads;
    const float *x = cpu_data(r, op->id);
    cpu_forms forms = {op->to_bf16, op->to_codes};
    for (uint32_t i = t.first; i < t.end; i++) {
        for (uint32_t h = 0; h < op->n_heads; h++) {
            cpu_prepare_row(r->b, &r->p->input, (size_t)h * n + i,
                            x + ((size_t)i * op->n_heads + h) * cols, cols, forms);
        }
    }
}

static void run_embed(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const graph_value *input = &r->p->g->values[v->in[0]];
    const tensor *w = weight(r, v->in[1]);
    for (uint32_t i = t.first; i < t.end; i++) {
        w->encoding->decode_row(w, backend_embedded(r->step, input, i), y + (size_t)i * v->cols);
    }
}

/* Where nothing is marked, nothing need be fed. */
static void run_replace(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    const uint8_t *marks = r->step->marks;
    size_t row_bytes = v->cols * sizeof *y;
    for (size_t i = t.first; i < t.end; i++) {
        bool marked = marks != NULL && marks[i] != 0;
        const float *from = marked ? cpu_data(r, v->in[1]) : x;
        if (from != y) memcpy(y + i * v->cols, from + i * v->cols, row_bytes);
    }
}

static void run_standardize(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    const float *shift = r->p->decoded[v->in[1]];
    const float *factor = r->p->decoded[v->in[2]];
    for (size_t at = (size_t)t.first * v->cols; at < (size_t)t.end * v->cols; at += v->cols) {
        for (uint32_t c = 0; c < v->cols; c++) y[at + c] = (x[at + c] - shift[c]) * factor[c];
    }
}

static void run_rms_norm(const cpu_run *r, graph_id id, float *y, token_range t)
{
    const graph_value *v = &r->p->g->values[id];
    const float *x = cpu_data(r, v->in[0]);
    const float *w = r->p->decoded[id];
    uint32_t group = v->i[0];
    for (size_t at = (size_t)t.first * v->cols; at < (size_t)t.end * v->cols; at += group) {
        r->b->kernels.rms_norm(x + at, w, group, v->f[0], y + at);
    }
}

static void run_layer_norm(const cpu_run *r, graph_id id, float *y, token_range t)
{
    const graph_value *v = &r->p->g->values[id];
    const graph_value *of = &r->p->g->values[v->in[1]];
    const float *x = cpu_data(r, v->in[0]);
    size_t group = v->i[0];
    size_t n_groups = v->cols / group;
    size_t n_weights = of->op == GRAPH_STACK ? n_groups : 1;
    const float *w = r->p->decoded[id];
    for (size_t i = t.first * n_groups; i < t.end * n_groups; i++) {
        r->b->kernels.layer_norm(x + i * group, w + i % n_weights * group, w + n_weights * group,
                                 v->i[0], v->f[0], y + i * group);
    }
}

static void run_position_scale(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    for (size_t i = t.first; i < t.end; i++) {
        float factor = host_position_factor(v, r->step->positions[i]);
        for (size_t k = i * v->cols; k < (i + 1) * v->cols; k++) y[k] = x[k] * factor;
    }
}

/* As a glu of ones. */
static void run_act(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    size_t end = (size_t)t.end * v->cols;
    if (v->i[0] == GRAPH_RELU2) {
        for (size_t i = (size_t)t.first * v->cols; i < end; i++)
            y[i] = x[i] < 0.0F ? 0.0F : x[i] * x[i];
        return;
    }
    kernel_glu_fn *fn = cpu_glu_fn(&r->b->kernels, v->i[0]);
    for (size_t at = (size_t)t.first * v->cols; at < end; at += v->cols)
        fn(x + at, r->p->ones, v->cols, y + at);
}

static void run_rope(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const graph_rope *rope = &r->p->g->ropes[v->i[1]];
    kernel_rope_fn *fn =
        rope->interleaved ? r->b->kernels.rope_interleaved : r->b->kernels.rope_half;
    const float *x = cpu_data(r, v->in[0]);
    size_t first = (size_t)t.first * v->cols;
    if (x != y) memcpy(y + first, x + first, (size_t)(t.end - t.first) * v->cols * sizeof(float));
    for (uint32_t i = t.first; i < t.end; i++) {
        const float *cs = r->p->ropes + r->p->rope_offsets[v->i[1]] + (size_t)i * rope->n_pairs * 2;
        for (uint32_t h = 0; h < v->cols; h += v->i[0])
            fn(y + (size_t)i * v->cols + h, cs, rope->n_pairs);
    }
}

kernel_glu_fn *cpu_glu_fn(const cpu_kernels *k, uint32_t act)
{
    if (act == GRAPH_SILU) return k->glu_silu;
    if (act == GRAPH_SIGMOID) return k->glu_sigmoid;
    if (act == GRAPH_GPT_OSS) return k->glu_gpt_oss;
    return act == GRAPH_GELU_TANH ? k->glu_gelu_tanh : k->glu_gelu_erf;
}

static void run_elementwise(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    size_t first = (size_t)t.first * v->cols;
    size_t n = (size_t)t.end * v->cols;
    const float *a = cpu_data(r, v->in[0]);
    const float *b = v->in[1] != 0 ? cpu_data(r, v->in[1]) : a;
    if (v->op == GRAPH_ADD) {
        for (size_t i = first; i < n; i++) y[i] = a[i] + b[i];
    } else if (v->op == GRAPH_SCALE) {
        for (size_t i = first; i < n; i++) y[i] = a[i] * v->f[0];
    } else if (v->op == GRAPH_CLAMP) {
        for (size_t i = first; i < n; i++)
            y[i] = a[i] < v->f[0] ? v->f[0] : a[i] > v->f[1] ? v->f[1] : a[i];
    } else if (v->op == GRAPH_GLU) {
        /* Row by row: where a number stands in a call must not depend on the batch. */
        kernel_glu_fn *fn = cpu_glu_fn(&r->b->kernels, v->i[0]);
        for (size_t at = first; at < n; at += v->cols) fn(a + at, b + at, v->cols, y + at);
    } else {
        for (size_t i = first; i < n; i++) y[i] = v->f[0] * tanhf(a[i] / v->f[0]);
    }
}

static void run_mul(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *a = cpu_data(r, v->in[0]);
    const float *b = cpu_data(r, v->in[1]);
    size_t cols = v->cols;
    if (r->p->g->values[v->in[1]].cols == cols) {
        for (size_t i = t.first * cols; i < t.end * cols; i++) y[i] = a[i] * b[i];
        return;
    }
    for (size_t i = t.first; i < t.end; i++) {
        for (size_t c = 0; c < cols; c++) y[i * cols + c] = a[i * cols + c] * b[i];
    }
}

uint32_t cpu_row_of(const backend_step *step, uint32_t token_i)
{
    uint32_t low = 0;
    uint32_t high = step->n_rows;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (step->row_starts[middle] <= token_i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void run_append(const cpu_run *r, const graph_value *v, token_range t)
{
    const float *key = cpu_data(r, v->in[0]);
    const float *value = v->in[1] != 0 ? cpu_data(r, v->in[1]) : NULL;
    uint32_t k_cols = r->p->g->values[v->in[0]].cols;
    uint32_t n = 0;
    for (uint32_t i = t.first; i < t.end; i++) {
        uint32_t row_i = cpu_row_of(r->step, i);
        const kv_view *view = &r->step->views[(size_t)v->i[0] * r->step->n_rows + row_i];
        n += host_append(view, r->step->positions[i], key + (size_t)i * k_cols,
                         value != NULL ? value + (size_t)i * v->cols : NULL);
    }
    host_count_nonfinite(r->step, n);
}

static void run_take(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    const uint32_t *taken = backend_taken(r->step, v);
    size_t cols = v->cols / (v->i[0] + 1);
    for (uint32_t i = t.first; i < t.end; i++) {
        memcpy(y + (size_t)i * v->cols, x + taken[i] * cols, v->cols * sizeof(float));
    }
}

static void run_cols(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    size_t n_heads = r->p->g->values[v->in[0]].cols / v->i[0];
    for (size_t h = t.first * n_heads; h < t.end * n_heads; h++) {
        memcpy(y + h * v->i[2], x + h * v->i[0] + v->i[1], v->i[2] * sizeof(float));
    }
}

static void run_concat(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *a = cpu_data(r, v->in[0]);
    const float *b = cpu_data(r, v->in[1]);
    size_t n_heads = v->i[0];
    size_t n_a = r->p->g->values[v->in[0]].cols / n_heads;
    size_t n_b = r->p->g->values[v->in[1]].cols / n_heads;
    for (size_t h = t.first * n_heads; h < t.end * n_heads; h++) {
        float *to = y + h * (n_a + n_b);
        memcpy(to, a + h * n_a, n_a * sizeof(float));
        memcpy(to + n_a, b + h * n_b, n_b * sizeof(float));
    }
}

static void run_route(const cpu_run *r, const graph_value *v, float *y, token_range t,
                      host_router router)
{
    const float *s = cpu_data(r, v->in[0]);
    uint32_t n = r->p->g->values[v->in[0]].cols;
    for (uint32_t i = t.first; i < t.end; i++) {
        host_route(v, n, s + (size_t)i * n, r->p->decoded[v->in[1]], r->p->decoded[v->in[2]],
                   router, y + (size_t)i * v->cols);
    }
}

/* Of each token over its pairs, in the order in which route lists them. */
static void run_sum(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const graph_value *route = &r->p->g->values[v->in[1]];
    const cpu_pairs *p = &r->p->pairs;
    size_t top_k = route->i[0];
    for (size_t i = t.first; i < t.end; i++) {
        const float *w = cpu_data(r, v->in[1]) + i * 2 * top_k + top_k;
        float *sum = y + i * v->cols;
        for (size_t k = 0; k < top_k; k++) {
            const float *x = p->outer + p->places[i * top_k + k] * (size_t)v->cols;
            for (uint32_t c = 0; c < v->cols; c++) {
                sum[c] = k == 0 ? w[k] * x[c] : sum[c] + w[k] * x[c];
            }
        }
    }
}

static void run_value(const cpu_run *r, graph_id id, token_range t, uint32_t thread_i)
{
    const graph_value *v = &r->p->g->values[id];
    switch (v->op) {
    case GRAPH_EMBED:
        run_embed(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_REPLACE:
        run_replace(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_STANDARDIZE:
        run_standardize(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_RMS_NORM:
        run_rms_norm(r, id, cpu_data(r, id), t);
        break;
    case GRAPH_LAYER_NORM:
        run_layer_norm(r, id, cpu_data(r, id), t);
        break;
    case GRAPH_POSITION_SCALE:
        run_position_scale(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_ACT:
        run_act(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_ROPE:
        run_rope(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_KV_APPEND:
    case GRAPH_KV_STORE:
        run_append(r, v, t);
        break;
    case GRAPH_TAP:
        backend_tap(r->step, v, cpu_data(r, v->in[0]), t.first, t.end);
        break;
    case GRAPH_MUL:
        run_mul(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_TAKE:
        run_take(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_COLS:
        run_cols(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_CONCAT:
        run_concat(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_ROUTE:
        run_route(r, v, cpu_data(r, id), t, r->p->scratch[thread_i].router);
        break;
    case GRAPH_EXPERTS:
        run_sum(r, v, cpu_data(r, id), t);
        break;
    default:
        run_elementwise(r, v, cpu_data(r, id), t);
        break;
    }
}

static void run_tokens(const cpu_run *r, const phase *ph, uint32_t thread_i)
{
    uint64_t n = cpu_n_rows(r, ph->rows);
    token_range t = {(uint32_t)(n * thread_i / r->b->n_threads),
                     (uint32_t)(n * (thread_i + 1) / r->b->n_threads)};
    if (t.first == t.end) return;
    for (uint32_t i = 0; i < ph->n; i++) {
        const token_op *op = &r->p->token_ops[ph->first + i];
        if (op->kind == TOKEN_VALUE) {
            run_value(r, op->id, t, thread_i);
        } else if (op->kind == TOKEN_PREPARE) {
            run_prepare(r, op, (uint32_t)n, t);
        } else {
            run_ropes(r, t);
        }
        if (r->p->trace != NULL) cpu_trace_op(r->p->trace, ph->first + i, thread_i);
    }
}

/* ---- linear layers: chunks of output rows ---------------------------------------------------- */

uint32_t cpu_chunk_rows(uint32_t rows, uint32_t n_threads)
{
    uint32_t chunk = rows / (n_threads * 8);
    chunk = chunk / 16 * 16;
    return chunk < 16 ? 16 : chunk;
}

static void run_linear_rows(const cpu_run *r, const phase *ph, const linear_op *op,
                            token_range rows, float *scratch)
{
    const graph *g = r->p->g;
    const graph_value *v = &g->values[op->id];
    const cpu_input *in = &r->p->input;
    kernel_linear a = {
        .w = weight(r, v->in[1]),
        .first = rows.first,
        .end = rows.end,
        .n_tokens = cpu_n_rows(r, ph->rows),
        .x = {in->f, in->h, in->codes},
        .bias = op->bias,
        .add = op->add != 0 ? cpu_data(r, op->add) : NULL,
        .y = cpu_data(r, op->result),
        .stride = v->cols,
        .scratch = scratch,
    };
    if (r->b->act == WEFT_ACT_F32) a.x.f = cpu_data(r, v->in[0]);
    op->fn(&a);
}

/* Gate and up of the same rows are at hand: their product goes where the gate was. */
static void run_fused_glu(const cpu_run *r, const phase *ph, token_range rows)
{
    const graph_value *v = &r->p->g->values[ph->id];
    float *gate = cpu_data(r, v->in[0]);
    const float *up = cpu_data(r, v->in[1]);
    kernel_glu_fn *fn = cpu_glu_fn(&r->b->kernels, v->i[0]);
    for (uint32_t t = 0; t < cpu_n_rows(r, ph->rows); t++) {
        size_t at = (size_t)t * v->cols + rows.first;
        fn(gate + at, up + at, rows.end - rows.first, gate + at);
    }
}

static void run_linear(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    const phase *ph = &r->p->phases[phase_i];
    const linear_op *ops = &r->p->linear_ops[ph->first];
    float *scratch = r->p->scratch[thread_i].row;
    uint32_t total = 0;
    uint32_t chunks[16] = {0};
    uint32_t sizes[16] = {0};
    uint32_t n_kinds = ph->id != 0 ? 1 : ph->n;
    for (uint32_t i = 0; i < n_kinds; i++) {
        uint32_t rows = r->p->g->values[ops[i].id].cols;
        sizes[i] = cpu_chunk_rows(rows, r->b->n_threads);
        chunks[i] = (rows + sizes[i] - 1) / sizes[i];
        total += chunks[i];
    }
    for (;;) {
        uint32_t c =
            atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
        if (c >= total) return;
        uint32_t i = 0;
        while (c >= chunks[i]) c -= chunks[i++];
        uint32_t rows = r->p->g->values[ops[i].id].cols;
        token_range range = {c * sizes[i], c * sizes[i] + sizes[i]};
        if (range.end > rows) range.end = rows;
        run_linear_rows(r, ph, &ops[i], range, scratch);
        if (ph->id != 0) {
            run_linear_rows(r, ph, &ops[1], range, scratch);
            run_fused_glu(r, ph, range);
        }
    }
}

static void run_phase(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    const phase *ph = &r->p->phases[phase_i];
    atomic_uint *next = &r->p->next[(size_t)2 * phase_i];
    switch (ph->kind) {
    case PHASE_TOKENS:
        run_tokens(r, ph, thread_i);
        break;
    case PHASE_LINEAR:
        run_linear(r, phase_i, thread_i);
        break;
    case PHASE_RECUR:
        cpu_recur(r, phase_i, thread_i);
        break;
    case PHASE_ATTEND:
        cpu_attend(r, phase_i, thread_i);
        break;
    case PHASE_SELECT:
        cpu_select(r, phase_i, thread_i);
        break;
    case PHASE_HEADS:
        cpu_run_heads(r, phase_i, thread_i);
        break;
    case PHASE_GROUP:
        if (thread_i == 0) cpu_group_pairs(r, ph);
        break;
    case PHASE_INNER:
        cpu_run_inner(r, ph, next, thread_i);
        break;
    case PHASE_PAIRS:
        cpu_prepare_pairs(r, ph, thread_i);
        break;
    case PHASE_OUTER:
        cpu_run_outer(r, ph, next, thread_i);
        break;
    case PHASE_STREAM:
        cpu_run_stream(r, phase_i, thread_i);
        break;
    }
}

void cpu_run_thread(void *user, uint32_t thread_i)
{
    const cpu_run *r = user;
    cpu_trace *trace = r->p->trace;
    for (uint32_t i = 0; i < r->p->n_phases; i++) {
        if (i != 0) thread_pool_barrier(r->b->pool, thread_i);
        /* Set by PHASE_STREAM only, and seen by all alike. */
        if (atomic_load_explicit(&r->p->failed, memory_order_relaxed) != WEFT_OK) return;
        if (cpu_n_rows(r, r->p->phases[i].rows) == 0) continue;
        if (trace != NULL) cpu_trace_begin(trace, i, thread_i);
        run_phase(r, i, thread_i);
        if (trace != NULL) cpu_trace_end(r, i, thread_i);
    }
}
