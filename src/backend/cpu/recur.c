/* recur.c - recurrent layers: conv and gated_delta over the tokens of a row, in order.
 *
 * A task is one row, and some columns of a conv or one value head of a gated_delta: no two look at
 * each other's numbers. A committed state is read, a fresh one is written, and copied where it
 * passes a mark. Where a record is wanted the inputs are left in it, [x of conv, decay, rate] a
 * token, and replay feeds the same loops from there. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

/* Columns of a conv that a thread takes at a time. */
enum { CONV_COLUMNS = 256 };

/* The tokens of a row, as an operation sees them. */
typedef struct stretch {
    const kv_view *view;
    uint32_t n;     /* tokens */
    const float *x; /* [n, x_stride] */
    size_t x_stride;
    const float *decay, *rate; /* of gated_delta: [n, gate_stride] */
    size_t gate_stride;
    float *y; /* [n, cols] */
    bool keeps_record;
    uint32_t mark; /* tokens after which the state is wanted; 0: it is not */
} stretch;

static stretch stretch_of(const cpu_run *r, const graph_value *v, float *y, uint32_t row_i)
{
    const backend_step *step = r->step;
    const graph *g = r->p->g;
    size_t first = step->row_starts[row_i];
    stretch s = {.view = &step->views[(size_t)v->i[0] * step->n_rows + row_i]};
    s.n = step->row_starts[row_i + 1] - step->row_starts[row_i];
    s.x_stride = g->values[v->in[0]].cols;
    s.x = cpu_data(r, v->in[0]) + first * s.x_stride;
    s.y = y + first * v->cols;
    s.keeps_record = s.view->record != NULL;
    s.mark = s.view->marked != NULL ? s.view->mark : 0;
    ASSERT(s.mark <= s.n);
    if (v->op == GRAPH_GATED_DELTA) {
        s.gate_stride = g->values[v->in[1]].cols;
        s.decay = cpu_data(r, v->in[1]) + first * s.gate_stride;
        s.rate = cpu_data(r, v->in[2]) + first * s.gate_stride;
    }
    return s;
}

/* Inputs and outputs of a replay: what conv gives goes where it would in a step. */
static stretch stretch_of_record(const cpu_run *r, const graph_value *v, float *y,
                                 const kv_view *view, uint32_t n)
{
    const graph *g = r->p->g;
    uint32_t x_cols = g->values[v->in[0]].cols;
    stretch s = {.view = view, .n = n, .x = kv_record(view, 0), .y = y};
    s.x_stride = s.gate_stride = view->geometry->record_bytes / sizeof(float);
    if (v->op == GRAPH_GATED_DELTA) {
        s.decay = kv_record(view, 0) + x_cols;
        s.rate = s.decay + g->values[v->in[1]].cols;
        s.x = cpu_data(r, v->in[0]);
        s.x_stride = x_cols;
    }
    return s;
}

/* Where the numbers of a token stand that lies `back` tokens before token i. */
static const float *token_before(const cpu_run *r, const graph_value *v, const stretch *s,
                                 uint32_t i, uint32_t back, uint32_t n_tail)
{
    if (back <= i) return s->x + (size_t)(i - back) * s->x_stride;
    const float *tail = kv_committed(s->view, KV_BUFFER_TAIL);
    return tail == NULL ? r->p->zeros : tail + (size_t)(n_tail + i - back) * v->cols;
}

/* What a token will see of those before it: n columns from first on. */
static void leave_tail(const cpu_run *r, graph_id id, const stretch *s, uint32_t token,
                       uint32_t first, uint32_t n, float *tail)
{
    const graph_value *v = &r->p->g->values[id];
    uint32_t n_tail = r->p->g->values[v->in[1]].cols - 1;
    for (uint32_t j = 0; j < n_tail; j++) {
        const float *from = token_before(r, v, s, token, n_tail - j, n_tail);
        memcpy(tail + (size_t)j * v->cols + first, from + first, n * sizeof *tail);
    }
}

static void conv_columns(const cpu_run *r, graph_id id, const stretch *s, uint32_t piece)
{
    const graph_value *v = &r->p->g->values[id];
    uint32_t n_taps = r->p->g->values[v->in[1]].cols;
    uint32_t first = piece * CONV_COLUMNS;
    uint32_t n = v->cols - first < CONV_COLUMNS ? v->cols - first : CONV_COLUMNS;
    const float *x[GRAPH_TAPS];
    const cpu_kernels *k = &r->b->kernels;
    kernel_conv_fn *fn = v->i[1] == GRAPH_CONV_PLAIN ? k->conv_plain : k->conv_silu;
    kernel_conv a = {
        .x = x, .w = r->p->decoded[id] + first, .n_taps = n_taps, .n = n, .stride = v->cols};
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t j = 0; j < n_taps; j++) {
            x[j] = token_before(r, v, s, i, n_taps - 1 - j, n_taps - 1) + first;
        }
        a.y = s->y + (size_t)i * v->cols + first;
        fn(&a);
        if (s->keeps_record) memcpy(kv_record(s->view, i) + first, x[n_taps - 1], n * sizeof *a.y);
    }
    leave_tail(r, id, s, s->n, first, n, kv_fresh(s->view, KV_BUFFER_TAIL));
    if (s->mark == 0) return;
    leave_tail(r, id, s, s->mark, first, n, kv_marked(s->view, KV_BUFFER_TAIL));
}

/* ln(1 + e^x) without overflow. */
static double softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

static void delta_head(const cpu_run *r, graph_id id, const stretch *s, uint32_t head, float *qk)
{
    const graph_value *v = &r->p->g->values[id];
    graph_heads h = graph_delta_heads(r->p->g, v);
    ASSERT(s->decay != NULL && s->rate != NULL);
    size_t size = (size_t)h.v_dim * h.k_dim;
    size_t k_head = graph_key_head(&h, head);
    const float *committed = kv_committed(s->view, KV_BUFFER_MATRIX);
    const float *w = r->p->decoded[id];
    float eps = v->f[0] / (float)h.k_dim;
    double speed = graph_delta_speed(v, r->p->decoded[v->in[3]][head]);
    double bias = (double)r->p->decoded[v->in[4]][head];
    kernel_delta a = {.q = qk + h.k_dim, .k = qk, .k_dim = h.k_dim, .v_dim = h.v_dim};
    a.s = kv_fresh(s->view, KV_BUFFER_MATRIX) + head * size;
    if (committed == NULL) {
        memset(a.s, 0, size * sizeof(float));
    } else {
        memcpy(a.s, committed + head * size, size * sizeof(float));
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const float *q = s->x + i * s->x_stride + k_head * h.k_dim;
        const float *k = q + (size_t)h.n_k * h.k_dim;
        float decay = s->decay[i * s->gate_stride + head];
        float rate = s->rate[i * s->gate_stride + head];
        r->b->kernels.rms_norm(k, w, h.k_dim, eps, qk);
        r->b->kernels.rms_norm(q, w + h.k_dim, h.k_dim, eps, qk + h.k_dim);
        a.v = s->x + i * s->x_stride + (size_t)2 * h.n_k * h.k_dim + (size_t)head * h.v_dim;
        a.decay = (float)exp(-speed * softplus((double)decay + bias));
        a.rate = (float)(1.0 / (1.0 + exp(-(double)rate)));
        a.y = s->y + (size_t)i * v->cols + (size_t)head * h.v_dim;
        r->b->kernels.delta(&a);
        if (i + 1 == s->mark) {
            float *marked = kv_marked(s->view, KV_BUFFER_MATRIX) + head * size;
            memcpy(marked, a.s, size * sizeof(float));
        }
        if (s->keeps_record) {
            float *gates = kv_record(s->view, i) + r->p->g->values[v->in[0]].cols;
            gates[head] = decay;
            gates[h.n_v + head] = rate;
        }
    }
}

static uint32_t n_pieces(const graph *g, const graph_value *v)
{
    if (v->op == GRAPH_GATED_DELTA) return g->values[v->in[1]].cols;
    return (v->cols + CONV_COLUMNS - 1) / CONV_COLUMNS;
}

static void run_piece(const cpu_run *r, graph_id id, const stretch *s, uint32_t piece,
                      uint32_t thread_i)
{
    if (r->p->g->values[id].op == GRAPH_CONV) {
        conv_columns(r, id, s, piece);
    } else {
        delta_head(r, id, s, piece, r->p->scratch[thread_i].qk);
    }
}

static uint32_t next_task(const cpu_run *r, uint32_t phase_i)
{
    return atomic_fetch_add_explicit(&r->p->next[(size_t)2 * phase_i], 1, memory_order_relaxed);
}

void cpu_recur(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    graph_id id = r->p->phases[phase_i].id;
    const graph_value *v = &r->p->g->values[id];
    uint32_t n = n_pieces(r->p->g, v);
    for (;;) {
        uint32_t task_i = next_task(r, phase_i);
        if (task_i / n >= r->step->n_rows) return;
        stretch s = stretch_of(r, v, cpu_data(r, id), task_i / n);
        run_piece(r, id, &s, task_i % n, thread_i);
    }
}

typedef struct replay {
    cpu_run run;
    uint32_t state_i, n;
    const kv_view *view;
} replay;

static bool is_of_state(const backend_plan *p, uint32_t phase_i, uint32_t state_i)
{
    const phase *ph = &p->phases[phase_i];
    return ph->kind == PHASE_RECUR && p->g->values[ph->id].i[0] == state_i;
}

static void replay_thread(void *user, uint32_t thread_i)
{
    const replay *y = user;
    const cpu_run *r = &y->run;
    for (uint32_t i = 0; i < r->p->n_phases; i++) {
        if (!is_of_state(r->p, i, y->state_i)) continue;
        graph_id id = r->p->phases[i].id;
        const graph_value *v = &r->p->g->values[id];
        stretch s = stretch_of_record(r, v, cpu_data(r, id), y->view, y->n);
        uint32_t n = n_pieces(r->p->g, v);
        for (uint32_t piece = next_task(r, i); piece < n; piece = next_task(r, i)) {
            run_piece(r, id, &s, piece, thread_i);
        }
        thread_pool_barrier(r->b->pool, thread_i);
    }
}

void cpu_replay(backend *b, backend_plan *plan, uint32_t state_i, const kv_view *view, uint32_t n)
{
    ASSERT(view->record != NULL && n > 0 && n <= plan->limits.n_tokens);
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        if (!is_of_state(plan, i, state_i)) continue;
        atomic_store_explicit(&plan->next[(size_t)2 * i], 0, memory_order_relaxed);
    }
    replay y = {{b, plan, NULL}, state_i, n, view};
    thread_pool_run(b->pool, replay_thread, &y);
}
