/* run.c - one thread's walk through the phases of a plan. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "tensor/encoding.h"

float *cpu_data(const cpu_run *r, graph_id id)
{
    if (id == r->p->g->output) return r->step->logits;
    ASSERT_HOT(r->p->slots[id].offset != SIZE_MAX);
    return r->p->values + r->p->slots[id].offset;
}

static uint32_t n_rows(const cpu_run *r, uint32_t rows)
{
    return rows == GRAPH_TOKENS ? r->step->n_tokens : r->step->n_outputs;
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
            float position = (float)r->step->positions[i];
            for (uint32_t j = 0; j < rope->n_pairs; j++) {
                float angle = position * rope->inv_freq[j];
                cs[2 * (size_t)j] = cosf(angle) * rope->magnitude;
                cs[2 * (size_t)j + 1] = sinf(angle) * rope->magnitude;
            }
        }
    }
}

static void run_prepare(const cpu_run *r, const token_op *op, token_range t)
{
    uint32_t cols = r->p->g->values[op->id].cols;
    const float *x = cpu_data(r, op->id);
    const cpu_kernels *k = &r->b->kernels;
    cpu_input *in = &r->p->input;
    for (uint32_t i = t.first; i < t.end; i++) {
        size_t at = (size_t)i * cols;
        if (op->to_bf16) k->prepare_bf16(x + at, cols, in->f + at, in->h + at);
        if (op->to_i16) {
            uint32_t n_blocks = cols / KERNEL_BLOCK;
            size_t bytes = kernel_codes_bytes(n_blocks, k->code_blocks);
            k->prepare_i16(x + at, n_blocks, in->codes + i * bytes);
        }
    }
}

static void run_embed(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const tensor *w = weight(r, v->in[1]);
    for (uint32_t i = t.first; i < t.end; i++) {
        w->encoding->decode_row(w, (uint64_t)r->step->ids[i], y + (size_t)i * v->cols);
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

static kernel_glu_fn *glu_fn(const cpu_kernels *k, uint32_t act)
{
    if (act == GRAPH_SILU) return k->glu_silu;
    if (act == GRAPH_SIGMOID) return k->glu_sigmoid;
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
    } else if (v->op == GRAPH_GLU) {
        /* Row by row: where a number stands in a call must not depend on the batch. */
        kernel_glu_fn *fn = glu_fn(&r->b->kernels, v->i[0]);
        for (size_t at = first; at < n; at += v->cols) fn(a + at, b + at, v->cols, y + at);
    } else {
        for (size_t i = first; i < n; i++) y[i] = v->f[0] * tanhf(a[i] / v->f[0]);
    }
}

/* The sequence that token i belongs to. */
static uint32_t row_of(const backend_step *step, uint32_t token_i)
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
    const float *value = cpu_data(r, v->in[1]);
    for (uint32_t i = t.first; i < t.end; i++) {
        uint32_t row_i = row_of(r->step, i);
        const kv_view *view = &r->step->views[(size_t)v->i[0] * r->step->n_rows + row_i];
        const kv_geometry *g = view->geometry;
        const kv_codec *kc = kv_codec_by_id(g->k_codec);
        const kv_codec *vc = kv_codec_by_id(g->v_codec);
        uint32_t position = r->step->positions[i];
        for (uint32_t h = 0; h < g->n_heads; h++) {
            size_t at = (size_t)i * g->n_heads + h;
            kc->encode_row(kc, g->base, kv_key(view, h, position), key + at * g->k_dim, g->k_dim);
            vc->encode_row(vc, g->base, kv_value(view, h, position), value + at * g->v_dim,
                           g->v_dim);
        }
    }
}

static void run_take(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    const float *x = cpu_data(r, v->in[0]);
    for (uint32_t i = t.first; i < t.end; i++) {
        memcpy(y + (size_t)i * v->cols, x + (size_t)r->step->outputs[i] * v->cols,
               v->cols * sizeof(float));
    }
}

static void run_cols(const cpu_run *r, const graph_value *v, float *y, token_range t)
{
    size_t n = v->i[2];
    size_t n_groups = v->cols / n;
    const float *x = cpu_data(r, v->in[0]);
    for (size_t i = t.first * n_groups; i < t.end * n_groups; i++) {
        memcpy(y + i * n, x + i * v->i[0] + v->i[1], n * sizeof(float));
    }
}

static void run_value(const cpu_run *r, graph_id id, token_range t)
{
    const graph_value *v = &r->p->g->values[id];
    switch (v->op) {
    case GRAPH_EMBED:
        run_embed(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_RMS_NORM:
        run_rms_norm(r, id, cpu_data(r, id), t);
        break;
    case GRAPH_ROPE:
        run_rope(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_KV_APPEND:
        run_append(r, v, t);
        break;
    case GRAPH_TAKE:
        run_take(r, v, cpu_data(r, id), t);
        break;
    case GRAPH_COLS:
        run_cols(r, v, cpu_data(r, id), t);
        break;
    default:
        run_elementwise(r, v, cpu_data(r, id), t);
        break;
    }
}

static void run_tokens(const cpu_run *r, const phase *ph, uint32_t thread_i)
{
    uint64_t n = n_rows(r, ph->rows);
    token_range t = {(uint32_t)(n * thread_i / r->b->n_threads),
                     (uint32_t)(n * (thread_i + 1) / r->b->n_threads)};
    if (t.first == t.end) return;
    for (uint32_t i = 0; i < ph->n; i++) {
        const token_op *op = &r->p->token_ops[ph->first + i];
        if (op->kind == TOKEN_VALUE) {
            run_value(r, op->id, t);
        } else if (op->kind == TOKEN_PREPARE) {
            run_prepare(r, op, t);
        } else {
            run_ropes(r, t);
        }
    }
}

/* ---- linear layers: chunks of output rows ---------------------------------------------------- */

/* Rows that a thread takes at a time: some pieces per thread even out what other programs take from
 * it, and whole cache lines of outputs keep threads apart. */
static uint32_t chunk_rows(uint32_t rows, uint32_t n_threads)
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
        .n_tokens = n_rows(r, ph->rows),
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
    kernel_glu_fn *fn = glu_fn(&r->b->kernels, v->i[0]);
    for (uint32_t t = 0; t < n_rows(r, ph->rows); t++) {
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
        sizes[i] = chunk_rows(rows, r->b->n_threads);
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

void cpu_run_thread(void *user, uint32_t thread_i)
{
    const cpu_run *r = user;
    for (uint32_t i = 0; i < r->p->n_phases; i++) {
        const phase *ph = &r->p->phases[i];
        if (i != 0) thread_pool_barrier(r->b->pool, thread_i);
        if (n_rows(r, ph->rows) == 0) continue;
        if (ph->kind == PHASE_TOKENS) {
            run_tokens(r, ph, thread_i);
        } else if (ph->kind == PHASE_LINEAR) {
            run_linear(r, i, thread_i);
        } else if (ph->kind == PHASE_RECUR) {
            cpu_recur(r, i, thread_i);
        } else {
            cpu_attend(r, i, thread_i);
        }
    }
}
