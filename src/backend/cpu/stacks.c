/* stacks.c - products with stacks of matrices: one a head, or one an expert.
 *
 * Every matrix goes through the loops of linear layers, so an output's order of additions is what
 * it is there, however tokens are brought together. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "base/assert.h"
#include "tensor/encoding.h"

static uint32_t next_task(const cpu_run *r, uint32_t phase_i)
{
    return atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
}

static const tensor *matrix(const cpu_run *r, graph_id stack, uint32_t i)
{
    return &r->p->g->tensors[r->p->g->values[stack].i[0] + i];
}

/* ---- one matrix a head ----------------------------------------------------------------------- */

/* Whether rows can be read where they lie; else they are decoded. */
static bool lies_plain(const tensor *w)
{
    size_t size = w->encoding->id == ENCODING_ID_F32 ? sizeof(float) : sizeof(uint16_t);
    return kernel_weights_of(w) == KERNEL_PLAIN && (uintptr_t)w->planes[0] % size == 0;
}

static kernel_values_fn *values_fn(const cpu_kernels *k, const tensor *w)
{
    if (w->encoding->id == ENCODING_ID_F16) return k->values_f16;
    return w->encoding->id == ENCODING_ID_BF16 ? k->values_bf16 : k->values_f32;
}

/* The product with a matrix's transpose: x_k times row k is added for k ascending, by the loop that
 * adds values, so that the matrix is read as it lies, whatever its encoding, and an output has one
 * order. */
static void multiply_transposed(const cpu_run *r, const graph_value *v, uint32_t head,
                                uint32_t n_tokens, float *scratch)
{
    const tensor *w = matrix(r, v->in[1], head);
    uint32_t n_in = (uint32_t)w->n_rows;
    uint32_t n_out = (uint32_t)w->n_cols;
    kernel_input x = cpu_input_at(r->b, &r->p->input, (size_t)head * n_tokens, n_in);
    float *y = cpu_data(r, (graph_id)(v - r->p->g->values)) + (size_t)head * n_out;
    for (uint32_t t = 0; t < n_tokens; t++) memset(y + (size_t)t * v->cols, 0, n_out * sizeof *y);
    if (lies_plain(w)) {
        kernel_values a = {.p = x.f, .p_stride = n_in, .n_q = n_tokens, .v = w->planes[0]};
        a.n_keys = n_in;
        a.dim = n_out;
        a.o = y;
        a.o_stride = v->cols;
        a.v_stride = (size_t)w->row_bytes[0] / w->encoding->block_bytes;
        values_fn(&r->b->kernels, w)(&a);
        return;
    }
    for (uint32_t row = 0; row < n_in; row += KERNEL_ROWS) {
        uint32_t n = n_in - row < KERNEL_ROWS ? n_in - row : KERNEL_ROWS;
        for (uint32_t i = 0; i < n; i++)
            w->encoding->decode_row(w, row + i, scratch + (size_t)i * n_out);
        kernel_values a = {.p = x.f + row, .p_stride = n_in, .n_q = n_tokens, .v = scratch};
        a.n_keys = n;
        a.dim = n_out;
        a.o = y;
        a.o_stride = v->cols;
        a.v_stride = n_out;
        r->b->kernels.values_f32(&a);
    }
}

void cpu_run_heads(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    const graph_value *v = &r->p->g->values[r->p->phases[phase_i].id];
    const graph_value *stack = &r->p->g->values[v->in[1]];
    uint32_t n_tokens = cpu_n_rows(r, v->rows);
    bool transposed = v->i[0] == 1;
    uint32_t size = transposed ? stack->rows : cpu_chunk_rows(stack->rows, 1);
    uint32_t n_chunks = (stack->rows + size - 1) / size;
    float *scratch = r->p->scratch[thread_i].row;
    for (;;) {
        uint32_t task = next_task(r, phase_i);
        uint32_t head = task / n_chunks;
        if (head >= stack->i[1]) return;
        if (transposed) {
            multiply_transposed(r, v, head, n_tokens, scratch);
            continue;
        }
        uint32_t first = task % n_chunks * size;
        kernel_linear a = {
            .w = matrix(r, v->in[1], head),
            .first = first,
            .end = stack->rows - first < size ? stack->rows : first + size,
            .n_tokens = n_tokens,
            .x = cpu_input_at(r->b, &r->p->input, (size_t)head * n_tokens, stack->cols),
            .y = cpu_data(r, r->p->phases[phase_i].id) + (size_t)head * stack->rows,
            .stride = v->cols,
            .scratch = scratch,
        };
        cpu_linear_fn(r->b, a.w)(&a);
    }
}

/* ---- one matrix an expert -------------------------------------------------------------------- */

void cpu_group_pairs(const cpu_run *r, const phase *ph)
{
    const graph_value *v = &r->p->g->values[ph->id];
    const float *route = cpu_data(r, v->in[1]);
    uint32_t top_k = r->p->g->values[v->in[1]].i[0];
    uint32_t n_experts = r->p->g->values[v->in[2]].i[1];
    uint32_t n_tokens = cpu_n_rows(r, v->rows);
    cpu_pairs *p = &r->p->pairs;
    memset(p->first, 0, ((size_t)n_experts + 1) * sizeof *p->first);
    p->n_active = 0;
    p->now = 0;
    for (uint32_t i = 0; i < n_tokens; i++) {
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t e = (uint32_t)route[(size_t)i * 2 * top_k + k];
            ASSERT(e < n_experts);
            p->first[e + 1]++;
        }
    }
    for (uint32_t e = 0; e < n_experts; e++) {
        if (p->first[e + 1] != 0) p->active[p->n_active++] = e;
        p->first[e + 1] += p->first[e];
    }
    /* Each pair takes its expert's next place; afterwards first is moved back. */
    for (uint32_t i = 0; i < n_tokens; i++) {
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t e = (uint32_t)route[(size_t)i * 2 * top_k + k];
            uint32_t place = p->first[e]++;
            p->tokens[place] = i;
            p->places[(size_t)i * top_k + k] = place;
        }
    }
    for (uint32_t e = n_experts; e > 0; e--) p->first[e] = p->first[e - 1];
    p->first[0] = 0;
    p->end = p->n_active;
}

/* Inputs of n pairs from pair on, as one: where they lie, or brought together. */
static kernel_input inputs_of(const cpu_run *r, graph_id x, uint32_t pair, uint32_t n,
                              const cpu_input *some)
{
    const uint32_t *tokens = r->p->pairs.tokens + pair;
    uint32_t cols = r->p->g->values[x].cols;
    size_t bytes = cpu_codes_bytes(r->b, cols);
    bool f32 = r->b->act == WEFT_ACT_F32;
    cpu_input all = r->p->input;
    if (f32) all.f = cpu_data(r, x);
    if (n == 1) return cpu_input_at(r->b, &all, tokens[0], cols);
    for (size_t i = 0; i < n; i++) {
        memcpy(some->f + i * cols, all.f + (size_t)tokens[i] * cols, cols * sizeof *all.f);
        if (f32) continue;
        memcpy(some->h + i * cols, all.h + (size_t)tokens[i] * cols, cols * sizeof *all.h);
        memcpy(some->codes + i * bytes, all.codes + tokens[i] * bytes, bytes);
    }
    return cpu_input_at(r->b, some, 0, cols);
}

/* What a task of PHASE_INNER and PHASE_OUTER is: rows of an expert's matrices. */
typedef struct expert_rows {
    uint32_t expert, first, end;
    uint32_t slot; /* of the store, where there is one */
} expert_rows;

/* False when there are no more, or when an expert cannot be read. */
static bool next_rows(const cpu_run *r, atomic_uint *next, uint32_t n_rows, expert_rows *rows)
{
    const cpu_pairs *p = &r->p->pairs;
    /* Few experts may have work; a chunk is worth bringing its inputs together. */
    uint32_t size = cpu_chunk_rows(n_rows, r->b->n_threads);
    if (size < 64) size = 64;
    uint32_t n_chunks = (n_rows + size - 1) / size;
    uint32_t task = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
    if (task / n_chunks >= p->end - p->now) return false;
    uint32_t place = p->now + task / n_chunks;
    rows->expert = p->active[place];
    rows->slot = r->p->store == NULL ? 0 : p->slots[place];
    rows->first = task % n_chunks * size;
    rows->end = n_rows - rows->first < size ? n_rows : rows->first + size;
    return cpu_wait_expert(r, rows->slot);
}

/* Matrix i of gate, up and down of v, an experts. */
static void multiply(const cpu_run *r, const graph_value *v, uint32_t i, expert_rows rows,
                     kernel_linear a)
{
    const expert_store *store = r->p->store;
    const tensor *w =
        store == NULL ? matrix(r, v->in[2 + i], rows.expert) : experts_matrix(store, rows.slot, i);
    const float *biases = r->p->decoded[v->in[5 + i]];
    if (biases != NULL) a.bias = biases + (size_t)rows.expert * w->n_rows;
    a.w = w;
    a.first = rows.first;
    a.end = rows.end;
    a.stride = (size_t)w->n_rows;
    cpu_linear_fn(r->b, w)(&a);
}

/* NaN stays. */
static void bound(float *gate, float *up, uint32_t n, float limit)
{
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = gate[i] > limit ? limit : gate[i];
        up[i] = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
    }
}

void cpu_run_inner(const cpu_run *r, const phase *ph, atomic_uint *next, uint32_t thread_i)
{
    const graph_value *v = &r->p->g->values[ph->id];
    const cpu_scratch *c = &r->p->scratch[thread_i];
    const cpu_pairs *p = &r->p->pairs;
    kernel_glu_fn *glu = cpu_glu_fn(&r->b->kernels, v->i[0]);
    size_t width = r->p->g->values[v->in[2]].rows;
    expert_rows rows;
    while (next_rows(r, next, (uint32_t)width, &rows)) {
        uint32_t end = p->first[rows.expert + 1];
        for (uint32_t pair = p->first[rows.expert]; pair < end; pair += EXPERT_TOKENS) {
            uint32_t n = end - pair < EXPERT_TOKENS ? end - pair : EXPERT_TOKENS;
            kernel_linear a = {
                .n_tokens = n, .x = inputs_of(r, v->in[0], pair, n, &c->some), .scratch = c->row};
            a.y = p->inner + pair * width;
            multiply(r, v, 0, rows, a);
            a.y = p->up + pair * width;
            multiply(r, v, 1, rows, a);
            for (uint32_t i = 0; i < n; i++) {
                size_t at = (pair + i) * width + rows.first;
                if (v->f[0] > 0.0F)
                    bound(p->inner + at, p->up + at, rows.end - rows.first, v->f[0]);
                glu(p->inner + at, p->up + at, rows.end - rows.first, p->inner + at);
            }
        }
    }
}

void cpu_prepare_pairs(const cpu_run *r, const phase *ph, uint32_t thread_i)
{
    const graph_value *v = &r->p->g->values[ph->id];
    const cpu_pairs *p = &r->p->pairs;
    uint32_t width = r->p->g->values[v->in[2]].rows;
    cpu_forms forms = {ph->to_bf16, ph->to_codes};
    for (uint32_t k = p->now; k < p->end; k++) {
        /* Every n-th, whichever expert it is of: few pairs are spread, too. */
        size_t i = p->first[p->active[k]];
        size_t end = p->first[p->active[k] + 1];
        i += (r->b->n_threads + thread_i - i % r->b->n_threads) % r->b->n_threads;
        for (; i < end; i += r->b->n_threads)
            cpu_prepare_row(r->b, &p->input, i, p->inner + i * width, width, forms);
    }
}

void cpu_run_outer(const cpu_run *r, const phase *ph, atomic_uint *next, uint32_t thread_i)
{
    const graph_value *v = &r->p->g->values[ph->id];
    const cpu_pairs *p = &r->p->pairs;
    uint32_t width = r->p->g->values[v->in[2]].rows;
    cpu_input inner = p->input;
    if (r->b->act == WEFT_ACT_F32) inner.f = p->inner;
    expert_rows rows;
    while (next_rows(r, next, v->cols, &rows)) {
        uint32_t pair = p->first[rows.expert];
        kernel_linear a = {.n_tokens = p->first[rows.expert + 1] - pair,
                           .x = cpu_input_at(r->b, &inner, pair, width),
                           .y = p->outer + pair * (size_t)v->cols,
                           .scratch = r->p->scratch[thread_i].row};
        multiply(r, v, 2, rows, a);
    }
}
