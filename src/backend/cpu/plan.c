/* plan.c - from a graph to phases: what runs together, what is fused, where values lie. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "tensor/encoding.h"

enum { CACHE_LINE = 64 };

/* Preparing, four of experts, and their sum. */
enum { PHASES_A_VALUE = 6 };

/* Of splits computed apart: 64 MiB. */
enum { PARTS_FLOATS_MOST = 1 << 24 };

typedef struct planner {
    backend *b;
    backend_plan *p;
    const graph *g;
    uint32_t
        *phase_of; /* [n_values], phase in which a value is written; UINT32_MAX: not yet planned */
    uint32_t open; /* index of the PHASE_TOKENS that can still take operations, or UINT32_MAX */
} planner;

/* Cleared, aligned to a cache line; NULL when refused. */
static void *take(backend_plan *p, size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX - CACHE_LINE) return NULL;
    unsigned char *block = arena_alloc(&p->arena, bytes + CACHE_LINE);
    if (block == NULL) return NULL;
    return block + (CACHE_LINE - (uintptr_t)block % CACHE_LINE) % CACHE_LINE;
}

void *cpu_plan_take(backend_plan *p, size_t count, size_t size)
{
    return take(p, count, size);
}

/* What cannot be counted cannot be taken either. */
static size_t times(size_t a, size_t b)
{
    size_t product;
    return size_mul(a, b, &product) ? product : SIZE_MAX;
}

static bool is_constant(graph_op op)
{
    return op == GRAPH_NONE || op == GRAPH_WEIGHT || op == GRAPH_STACK || op == GRAPH_INPUT ||
           op == GRAPH_STATE || op == GRAPH_FEED;
}

static uint32_t count_uses(const graph *g, graph_id id)
{
    uint32_t uses = 0;
    for (graph_id reader = id + 1; reader < g->n_values; reader++) {
        for (uint32_t i = 0; i < GRAPH_INPUTS; i++) uses += g->values[reader].in[i] == id;
    }
    return uses;
}

static const tensor *weight_of(const graph *g, graph_id linear)
{
    return &g->tensors[g->values[g->values[linear].in[1]].i[0]];
}

static bool is_codes(const tensor *t)
{
    return kernel_weights_of(t) == KERNEL_CODES;
}

kernel_linear_fn *cpu_linear_fn(const backend *b, const tensor *t)
{
    bool rounds = b->act != WEFT_ACT_F32;
    if (kernel_weights_of(t) == KERNEL_ANY) return b->kernels.linear_any;
    if (kernel_weights_of(t) == KERNEL_TURNED) return b->kernels.linear_turned;
    if (is_codes(t)) {
        if (b->act == WEFT_ACT_INT8) return b->kernels.linear_codes_b;
        return rounds ? b->kernels.linear_codes_q : b->kernels.linear_codes;
    }
    if (t->encoding->id == ENCODING_ID_F32) return b->kernels.linear_f32;
    if (t->encoding->id == ENCODING_ID_F16) return b->kernels.linear_f16;
    return rounds ? b->kernels.linear_bf16_h : b->kernels.linear_bf16;
}

static uint32_t add_phase(planner *pl, phase_kind kind, uint32_t rows, uint32_t first)
{
    uint32_t i = pl->p->n_phases++;
    pl->p->phases[i] = (phase){.kind = kind, .rows = rows, .first = first};
    pl->open = kind == PHASE_TOKENS ? i : UINT32_MAX;
    return i;
}

static void add_token_op(planner *pl, uint32_t rows, token_op op)
{
    backend_plan *p = pl->p;
    if (pl->open == UINT32_MAX || p->phases[pl->open].rows != rows) {
        add_phase(pl, PHASE_TOKENS, rows, p->n_token_ops);
    }
    p->token_ops[p->n_token_ops++] = op;
    p->phases[pl->open].n++;
    if (op.kind == TOKEN_VALUE) pl->phase_of[op.id] = pl->open;
}

/* Linear layers of the same input that follow one another. */
static uint32_t collect_group(const graph *g, graph_id first, graph_id *group, uint32_t capacity)
{
    uint32_t n = 0;
    for (graph_id id = first; id < g->n_values && n < capacity; id++) {
        const graph_value *v = &g->values[id];
        if (v->op == GRAPH_WEIGHT) continue;
        if (v->op != GRAPH_LINEAR || v->in[0] != g->values[first].in[0]) break;
        group[n++] = id;
    }
    return n;
}

/* The add that alone reads a linear and whose other side is there before the group runs; else 0. */
static graph_id fusable_add(const planner *pl, graph_id linear, graph_id first, graph_id *residual)
{
    const graph *g = pl->g;
    graph_id reader = graph_last_use(g, linear);
    const graph_value *v = &g->values[reader];
    if (v->op != GRAPH_ADD || count_uses(g, linear) != 1) return 0;
    *residual = v->in[0] == linear ? v->in[1] : v->in[0];
    return *residual < first && !graph_is_result(g, reader) ? reader : 0;
}

static graph_id fusable_glu(const graph *g, const graph_id *group, uint32_t n)
{
    if (n != 2) return 0;
    graph_id reader = graph_last_use(g, group[0]);
    const graph_value *v = &g->values[reader];
    bool ok = v->op == GRAPH_GLU && v->in[0] == group[0] && v->in[1] == group[1];
    if (graph_is_result(g, reader)) return 0;
    return ok && count_uses(g, group[0]) == 1 && count_uses(g, group[1]) == 1 ? reader : 0;
}

enum { GROUP_LIMIT = 16 };

static void plan_linear(planner *pl, graph_id first)
{
    backend_plan *p = pl->p;
    const graph *g = pl->g;
    graph_id group[GROUP_LIMIT];
    uint32_t n = collect_group(g, first, group, GROUP_LIMIT);
    uint32_t rows = g->values[first].rows;
    if (pl->b->act != WEFT_ACT_F32) {
        token_op op = {.kind = TOKEN_PREPARE, .id = g->values[first].in[0], .n_heads = 1};
        for (uint32_t i = 0; i < n; i++) {
            bool codes = is_codes(weight_of(g, group[i]));
            op.to_codes = op.to_codes || codes;
            op.to_bf16 = op.to_bf16 || !codes;
        }
        add_token_op(pl, rows, op);
    }
    uint32_t phase_i = add_phase(pl, PHASE_LINEAR, rows, p->n_linear_ops);
    p->phases[phase_i].n = n;
    graph_id glu = fusable_glu(g, group, n);
    p->phases[phase_i].id = glu;
    if (glu != 0) {
        pl->phase_of[glu] = phase_i;
        p->slots[glu].shares = group[0];
    }
    for (uint32_t i = 0; i < n; i++) {
        linear_op op = {
            .id = group[i], .result = group[i], .fn = cpu_linear_fn(pl->b, weight_of(g, group[i]))};
        graph_id residual = 0;
        graph_id add = glu == 0 ? fusable_add(pl, group[i], first, &residual) : 0;
        if (add != 0) {
            op.result = add;
            op.add = residual;
            pl->phase_of[add] = phase_i;
            p->slots[add].shares = group[i];
        }
        op.bias = p->decoded[g->values[group[i]].in[2]];
        pl->phase_of[group[i]] = phase_i;
        p->linear_ops[p->n_linear_ops++] = op;
    }
}

/* The forms of an input that the matrices of a stack want. */
static void add_forms(const planner *pl, graph_id stack, bool transposed, cpu_forms *forms)
{
    const graph_value *v = &pl->g->values[stack];
    if (pl->b->act == WEFT_ACT_F32) return;
    for (uint32_t i = 0; i < v->i[1]; i++) {
        bool codes = is_codes(&pl->g->tensors[v->i[0] + i]) && !transposed;
        forms->to_codes = forms->to_codes || codes;
        forms->to_bf16 = forms->to_bf16 || !codes;
    }
}

static void plan_heads(planner *pl, graph_id id)
{
    const graph_value *v = &pl->g->values[id];
    cpu_forms forms = {false, false};
    add_forms(pl, v->in[1], v->i[0] == 1, &forms);
    token_op op = {.kind = TOKEN_PREPARE,
                   .id = v->in[0],
                   .to_bf16 = forms.to_bf16,
                   .to_codes = forms.to_codes,
                   .n_heads = pl->g->values[v->in[1]].i[1]};
    add_token_op(pl, v->rows, op);
    pl->phase_of[id] = add_phase(pl, PHASE_HEADS, v->rows, 0);
    pl->p->phases[pl->phase_of[id]].id = id;
}

static void plan_experts(planner *pl, graph_id id)
{
    static const phase_kind KINDS[] = {PHASE_GROUP, PHASE_INNER, PHASE_PAIRS, PHASE_OUTER};
    static const phase_kind STREAM[] = {PHASE_STREAM};
    const phase_kind *kinds = pl->b->streams ? STREAM : KINDS;
    size_t n_kinds = pl->b->streams ? COUNT_OF(STREAM) : COUNT_OF(KINDS);
    const graph_value *v = &pl->g->values[id];
    cpu_forms inner = {false, false};
    cpu_forms outer = {false, false};
    add_forms(pl, v->in[2], false, &inner);
    add_forms(pl, v->in[3], false, &inner);
    add_forms(pl, v->in[4], false, &outer);
    bool rounds = pl->b->act != WEFT_ACT_F32;
    if (rounds) {
        token_op op = {.kind = TOKEN_PREPARE,
                       .id = v->in[0],
                       .to_bf16 = inner.to_bf16,
                       .to_codes = inner.to_codes,
                       .n_heads = 1};
        add_token_op(pl, v->rows, op);
    }
    for (size_t i = 0; i < n_kinds; i++) {
        if (kinds[i] == PHASE_PAIRS && !rounds) continue;
        phase *ph = &pl->p->phases[add_phase(pl, kinds[i], v->rows, 0)];
        ph->id = id;
        ph->to_bf16 = outer.to_bf16;
        ph->to_codes = outer.to_codes;
    }
    add_token_op(pl, v->rows, (token_op){.kind = TOKEN_VALUE, .id = id});
}

/* Elementwise operations take the storage of an input that nobody reads afterwards. */
static void share_input(planner *pl, graph_id id)
{
    const graph_value *v = &pl->g->values[id];
    bool in_place = v->op == GRAPH_ADD || v->op == GRAPH_SCALE || v->op == GRAPH_ROPE ||
                    v->op == GRAPH_RMS_NORM || v->op == GRAPH_REPLACE || v->op == GRAPH_CLAMP ||
                    v->op == GRAPH_STANDARDIZE || v->op == GRAPH_LAYER_NORM || v->op == GRAPH_ACT ||
                    v->op == GRAPH_POSITION_SCALE || v->op == GRAPH_MUL;
    graph_id from = v->op == GRAPH_ADD ? v->in[1] : v->in[0];
    if (!in_place || graph_is_result(pl->g, id) || is_constant(pl->g->values[from].op)) return;
    if (graph_last_use(pl->g, from) == id && count_uses(pl->g, from) == 1) {
        pl->p->slots[id].shares = from;
    }
}

/* A phase for one value. */
static void plan_alone(planner *pl, graph_id id, phase_kind kind)
{
    uint32_t i = add_phase(pl, kind, GRAPH_TOKENS, 0);
    pl->p->phases[i].id = id;
    pl->phase_of[id] = i;
}

static void plan_phases(planner *pl)
{
    const graph *g = pl->g;
    if (g->n_ropes != 0) add_token_op(pl, GRAPH_TOKENS, (token_op){.kind = TOKEN_ROPES});
    for (graph_id id = 1; id < g->n_values; id++) {
        graph_op op = g->values[id].op;
        if (is_constant(op) || pl->phase_of[id] != UINT32_MAX) continue;
        if (op == GRAPH_LINEAR) {
            plan_linear(pl, id);
        } else if (op == GRAPH_ATTEND) {
            plan_alone(pl, id, PHASE_ATTEND);
        } else if (op == GRAPH_SELECT) {
            plan_alone(pl, id, PHASE_SELECT);
        } else if (op == GRAPH_LINEAR_HEADS) {
            plan_heads(pl, id);
        } else if (op == GRAPH_EXPERTS) {
            plan_experts(pl, id);
        } else if (op == GRAPH_CONV || op == GRAPH_GATED_DELTA) {
            plan_alone(pl, id, PHASE_RECUR);
        } else {
            share_input(pl, id);
            add_token_op(pl, g->values[id].rows, (token_op){.kind = TOKEN_VALUE, .id = id});
        }
    }
}

/* A value is alive from the phase that writes it to the last that reads it: threads are apart
 * within one. */
static void set_lifetimes(planner *pl)
{
    graph_slot *slots = pl->p->slots;
    for (graph_id id = 1; id < pl->g->n_values; id++) {
        uint32_t at = pl->phase_of[id];
        slots[id].start = slots[id].end = at == UINT32_MAX ? 0 : at;
    }
    for (graph_id id = 1; id < pl->g->n_values; id++) {
        for (uint32_t i = 0; i < GRAPH_INPUTS; i++) {
            graph_id in = pl->g->values[id].in[i];
            uint32_t at = pl->phase_of[id];
            if (in != 0 && at != UINT32_MAX && at > slots[in].end) slots[in].end = at;
        }
    }
}

/* The first row of a weight. */
static float *decode_vector(backend_plan *p, const graph *g, graph_id w)
{
    const tensor *t = &g->tensors[g->values[w].i[0]];
    float *row = take(p, (size_t)t->n_cols, sizeof(float));
    if (row != NULL) t->encoding->decode_row(t, 0, row);
    return row;
}

/* What a norm multiplies by: its weight and what is added to that; ones where it has none. */
static float *norm_weight(backend_plan *p, const graph *g, const graph_value *v)
{
    const bool plain = v->in[1] == 0;
    float *row = plain ? take(p, v->i[0], sizeof(float)) : decode_vector(p, g, v->in[1]);
    for (uint64_t k = 0; k < v->i[0] && row != NULL; k++) row[k] = plain ? 1.0F : row[k] + v->f[1];
    return row;
}

/* Likewise, a row for each group where these differ; then what is added. */
static float *layer_norm_weights(backend_plan *p, const graph *g, const graph_value *v)
{
    const graph_value *of = &g->values[v->in[1]];
    size_t n = of->op == GRAPH_STACK ? of->i[1] : 1;
    size_t group = v->i[0];
    float *rows = take(p, (n + 1) * group, sizeof(float));
    for (size_t i = 0; i < n && rows != NULL; i++) {
        float *row = rows + i * group;
        const tensor *t = &g->tensors[of->i[0] + i];
        for (size_t k = 0; k < group && v->in[1] == 0; k++) row[k] = 1.0F;
        if (v->in[1] != 0) t->encoding->decode_row(t, 0, row);
        for (size_t k = 0; k < group; k++) row[k] += v->f[1];
    }
    if (rows == NULL || v->in[2] == 0) return rows;
    const tensor *bias = &g->tensors[g->values[v->in[2]].i[0]];
    bias->encoding->decode_row(bias, 0, rows + n * group);
    return rows;
}

/* Input i of a value, if there is one, as f32; false when memory is refused. */
static bool decode_input(backend_plan *p, const graph *g, const graph_value *v, uint32_t i)
{
    if (v->in[i] == 0) return true;
    p->decoded[v->in[i]] = decode_vector(p, g, v->in[i]);
    return p->decoded[v->in[i]] != NULL;
}

/* Biases of experts [E, n], if there are any, as f32; false when memory is refused. */
static bool decode_biases(backend_plan *p, const graph *g, graph_id stack)
{
    if (stack == 0) return true;
    const graph_value *v = &g->values[stack];
    float *rows = take(p, times(v->i[1], v->cols), sizeof(float));
    for (uint32_t i = 0; i < v->i[1] && rows != NULL; i++) {
        const tensor *t = &g->tensors[v->i[0] + i];
        t->encoding->decode_row(t, 0, rows + (size_t)i * v->cols);
    }
    p->decoded[stack] = rows;
    return rows != NULL;
}

/* [taps, cols], so that neighbouring columns stand side by side. */
static float *decode_taps(backend_plan *p, const graph *g, graph_id w)
{
    const tensor *t = &g->tensors[g->values[w].i[0]];
    float *taps = take(p, (size_t)(t->n_rows * t->n_cols), sizeof(float));
    float row[GRAPH_TAPS];
    for (uint64_t c = 0; c < t->n_rows && taps != NULL; c++) {
        t->encoding->decode_row(t, c, row);
        for (uint64_t j = 0; j < t->n_cols; j++) taps[j * t->n_rows + c] = row[j];
    }
    return taps;
}

/* Bringing to length is an RMS norm: x / sqrt(x . x + eps) = x / sqrt(mean x^2 + eps / D) /
 * sqrt(D). */
static float *lengths(backend_plan *p, const graph *g, const graph_value *v)
{
    uint32_t k_dim = graph_delta_heads(g, v).k_dim;
    float *w = take(p, (size_t)2 * k_dim, sizeof(float));
    for (uint32_t i = 0; i < k_dim && w != NULL; i++) {
        w[i] = (float)(1.0 / sqrt((double)k_dim));
        w[k_dim + i] = (float)(1.0 / (double)k_dim);
    }
    return w;
}

/* Fills what decoded has for a value; false when memory is refused. */
static bool decode_for(backend_plan *p, const graph *g, graph_id id)
{
    const graph_value *v = &g->values[id];
    switch (v->op) {
    case GRAPH_RMS_NORM:
        p->decoded[id] = norm_weight(p, g, v);
        return p->decoded[id] != NULL;
    case GRAPH_LAYER_NORM:
        p->decoded[id] = layer_norm_weights(p, g, v);
        return p->decoded[id] != NULL;
    case GRAPH_LINEAR:
        return decode_input(p, g, v, 2);
    case GRAPH_ROUTE:
    case GRAPH_STANDARDIZE:
        return decode_input(p, g, v, 1) && decode_input(p, g, v, 2);
    case GRAPH_ATTEND:
        return decode_input(p, g, v, 2);
    case GRAPH_EXPERTS:
        return decode_biases(p, g, v->in[5]) && decode_biases(p, g, v->in[6]) &&
               decode_biases(p, g, v->in[7]);
    case GRAPH_CONV:
        p->decoded[id] = decode_taps(p, g, v->in[1]);
        return p->decoded[id] != NULL;
    case GRAPH_GATED_DELTA:
        p->decoded[id] = lengths(p, g, v);
        return p->decoded[id] != NULL && decode_input(p, g, v, 3) && decode_input(p, g, v, 4);
    default:
        return true;
    }
}

/* Norm weights (with what is added to them), biases, what experts are chosen by, and the like, as
 * f32. */
static bool decode_constants(backend_plan *p, const graph *g)
{
    for (graph_id id = 1; id < g->n_values; id++) {
        if (!decode_for(p, g, id)) return false;
    }
    return true;
}

typedef struct sizes {
    bool rounds;  /* inputs are rounded, so all are prepared; else those of heads only */
    size_t input; /* numbers of the largest input that is prepared */
    size_t codes; /* bytes of the largest as codes */
    size_t row;   /* floats of the decoded rows that the hungriest linear works with */
    uint32_t k_dim, v_dim;
    uint32_t delta_dim; /* of keys of gated_delta */
    uint32_t conv;      /* columns of the widest */
    uint32_t act;       /* likewise */
    bool selects;
    size_t ropes;
    uint32_t n_experts, width;  /* experts of a layer, columns of what goes to them */
    size_t pairs, inner, outer; /* of one: pairs, and numbers that come of them */
} sizes;

static void most(size_t *a, size_t b)
{
    if (b > *a) *a = b;
}

/* An input of so many rows. */
static void measure_input(sizes *s, size_t rows, size_t cols)
{
    most(&s->input, times(rows, cols));
    most(&s->codes, times(rows, kernel_codes_bytes_most((uint32_t)(cols / KERNEL_BLOCK))));
}

static void measure_weight(sizes *s, const tensor *w)
{
    most(&s->row, kernel_linear_floats(w));
}

static void measure_stack(sizes *s, const graph *g, graph_id stack)
{
    const graph_value *v = &g->values[stack];
    for (uint32_t i = 0; i < v->i[1]; i++) measure_weight(s, &g->tensors[v->i[0] + i]);
}

static void measure_heads(sizes *s, const graph *g, const graph_value *v, size_t rows)
{
    const graph_value *stack = &g->values[v->in[1]];
    measure_stack(s, g, v->in[1]);
    most(&s->row, (size_t)KERNEL_ROWS * stack->cols);
    measure_input(s, times(rows, stack->i[1]), g->values[v->in[0]].cols / stack->i[1]);
}

static void measure_experts(sizes *s, const graph *g, const graph_value *v, size_t rows)
{
    uint32_t n_experts = g->values[v->in[2]].i[1];
    size_t pairs = times(rows, g->values[v->in[1]].i[0]);
    for (uint32_t i = 2; i < 5; i++) measure_stack(s, g, v->in[i]);
    if (s->rounds) measure_input(s, rows, v->cols);
    if (s->rounds) measure_input(s, pairs, g->values[v->in[2]].rows);
    if (n_experts > s->n_experts) s->n_experts = n_experts;
    if (v->cols > s->width) s->width = v->cols;
    most(&s->pairs, pairs);
    most(&s->inner, times(pairs, g->values[v->in[2]].rows));
    most(&s->outer, times(pairs, v->cols));
}

static void measure_value(sizes *s, const backend_plan *p, const graph_value *v)
{
    const graph *g = p->g;
    size_t rows = graph_count(backend_most_rows(&p->limits), v->rows);
    if (v->op == GRAPH_LINEAR) {
        if (s->rounds) measure_input(s, rows, g->values[v->in[0]].cols);
        measure_weight(s, &g->tensors[g->values[v->in[1]].i[0]]);
    } else if (v->op == GRAPH_KV_APPEND || v->op == GRAPH_STATE) {
        uint32_t v_dim = v->cols / v->i[1];
        if (v->i[2] > s->k_dim) s->k_dim = v->i[2];
        if (v_dim > s->v_dim) s->v_dim = v_dim;
    } else if (v->op == GRAPH_SELECT) {
        s->selects = true;
    } else if (v->op == GRAPH_LINEAR_HEADS) {
        measure_heads(s, g, v, rows);
    } else if (v->op == GRAPH_ROUTE) {
        uint32_t n_experts = g->values[v->in[0]].cols;
        if (n_experts > s->n_experts) s->n_experts = n_experts;
    } else if (v->op == GRAPH_EXPERTS) {
        measure_experts(s, g, v, rows);
    } else if (v->op == GRAPH_GATED_DELTA) {
        uint32_t k_dim = graph_delta_heads(g, v).k_dim;
        if (k_dim > s->delta_dim) s->delta_dim = k_dim;
    } else if (v->op == GRAPH_CONV && v->cols > s->conv) {
        s->conv = v->cols;
    } else if (v->op == GRAPH_ACT && v->cols > s->act) {
        s->act = v->cols;
    }
}

static sizes measure(const backend *b, const backend_plan *p)
{
    const graph *g = p->g;
    sizes s = {.rounds = b->act != WEFT_ACT_F32};
    for (graph_id id = 1; id < g->n_values; id++) measure_value(&s, p, &g->values[id]);
    for (uint32_t i = 0; i < g->n_ropes; i++) {
        p->rope_offsets[i] = s.ropes;
        s.ropes += (size_t)p->limits.n_tokens * g->ropes[i].n_pairs * 2;
    }
    return s;
}

bool cpu_plan_input(const backend *b, backend_plan *p, cpu_input *in, size_t n, size_t codes_bytes)
{
    bool rounds = b->act != WEFT_ACT_F32;
    in->f = take(p, n, sizeof(float));
    in->h = take(p, rounds ? n : 0, sizeof(uint16_t));
    in->codes = take(p, rounds ? codes_bytes : 0, 1);
    return in->f && in->h && in->codes;
}

static bool take_pairs(backend_plan *p, sizes s)
{
    cpu_pairs *pairs = &p->pairs;
    pairs->first = take(p, (size_t)s.n_experts + 1, sizeof *pairs->first);
    pairs->active = take(p, s.n_experts, sizeof *pairs->active);
    pairs->slots = take(p, s.n_experts, sizeof *pairs->slots);
    pairs->tokens = take(p, s.pairs, sizeof *pairs->tokens);
    pairs->places = take(p, s.pairs, sizeof *pairs->places);
    pairs->inner = take(p, s.inner, sizeof(float));
    pairs->up = take(p, s.inner, sizeof(float));
    pairs->outer = take(p, s.outer, sizeof(float));
    return pairs->first && pairs->active && pairs->slots && pairs->tokens && pairs->places &&
           pairs->inner && pairs->up && pairs->outer;
}

static bool take_scratch(const backend *b, backend_plan *p, cpu_scratch *c, sizes s)
{
    uint32_t head_dim = s.k_dim > s.v_dim ? s.k_dim : s.v_dim;
    c->row = take(p, s.row, sizeof(float));
    c->q = take(p, (size_t)ATTEND_TASK_QUERIES * s.k_dim, sizeof(float));
    c->rows = take(p, (size_t)KERNEL_ROWS * head_dim, sizeof(float));
    c->s = take(p, (size_t)ATTEND_TASK_QUERIES * KV_SPLIT, sizeof(float));
    c->part = take(p, (size_t)ATTEND_TASK_QUERIES * p->part_stride, sizeof(float));
    c->total = take(p, (size_t)ATTEND_TASK_QUERIES * p->part_stride, sizeof(float));
    c->qk = take(p, (size_t)2 * s.delta_dim, sizeof(float));
    c->bins = take(p, s.selects ? HOST_SELECT_BINS : 0, sizeof *c->bins);
    c->router.p = take(p, s.n_experts, sizeof(double));
    c->router.chooser = take(p, s.n_experts, sizeof(double));
    c->router.stays = take(p, s.n_experts, sizeof(bool));
    size_t codes = kernel_codes_bytes_most(s.width / KERNEL_BLOCK);
    bool ok = c->row && c->q && c->rows && c->s && c->part && c->total && c->qk && c->bins;
    ok = ok && c->router.p && c->router.chooser && c->router.stays;
    return ok &&
           cpu_plan_input(b, p, &c->some, (size_t)EXPERT_TOKENS * s.width, EXPERT_TOKENS * codes);
}

static bool take_buffers(backend *b, backend_plan *p, sizes s)
{
    size_t n_splits = (size_t)p->limits.context / KV_SPLIT + 2;
    p->part_stride = s.v_dim + 2;
    size_t unit = (size_t)ATTEND_QUERIES * p->part_stride;
    size_t n_units = b->n_threads == 1 ? 0 : 2 * (size_t)b->n_threads * n_splits;
    p->n_parts = n_units < PARTS_FLOATS_MOST / unit ? n_units : PARTS_FLOATS_MOST / unit;
    p->parts = take(p, p->n_parts * unit, sizeof(float));
    p->ropes = take(p, s.ropes, sizeof(float));
    p->scratch = take(p, b->n_threads, sizeof(cpu_scratch));
    p->next = take(p, (size_t)p->n_phases * 2, sizeof(atomic_uint));
    p->zeros = take(p, s.conv, sizeof(float));
    p->ones = take(p, s.act, sizeof(float));
    for (uint32_t i = 0; i < s.act && p->ones != NULL; i++) p->ones[i] = 1.0F;
    size_t n_scores = s.selects ? times(cpu_score_rows(b->n_threads), p->limits.context) : 0;
    p->index_scores = take(p, n_scores, sizeof(float));
    bool ok = p->parts && p->ropes && p->scratch && p->next && p->zeros && p->ones;
    ok = ok && p->index_scores && take_pairs(p, s);
    ok = ok && cpu_plan_input(b, p, &p->input, s.input, s.codes);
    p->pairs.input = p->input;
    if (p->store != NULL) ok = ok && cpu_plan_input(b, p, &p->pairs.input, s.input, s.codes);
    for (uint32_t i = 0; i < b->n_threads && ok; i++) ok = take_scratch(b, p, &p->scratch[i], s);
    return ok;
}

static weft_status build(backend *b, backend_plan *p, weft_error *err)
{
    const graph *g = p->g;
    size_t n = g->n_values;
    p->slots = take(p, n, sizeof(graph_slot));
    p->decoded = take(p, n, sizeof(float *));
    p->phases = take(p, PHASES_A_VALUE * n + 2, sizeof(phase));
    p->token_ops = take(p, 2 * n + 2, sizeof(token_op));
    p->linear_ops = take(p, n, sizeof(linear_op));
    p->rope_offsets = take(p, g->n_ropes + 1, sizeof(size_t));
    planner pl = {.b = b, .p = p, .g = g, .open = UINT32_MAX};
    pl.phase_of = take(p, n, sizeof(uint32_t));
    bool ok =
        p->slots && p->decoded && p->phases && p->token_ops && p->linear_ops && p->rope_offsets;
    if (!ok || pl.phase_of == NULL || !decode_constants(p, g)) {
        return err_set(err, WEFT_NOMEM, "out of memory for a plan");
    }
    memset(pl.phase_of, 0xff, n * sizeof(uint32_t));
    plan_phases(&pl);
    set_lifetimes(&pl);
    if (p->store != NULL && !cpu_plan_guesses(b, p, pl.phase_of))
        return err_set(err, WEFT_NOMEM, "out of memory for a plan");
    size_t n_floats = 0;
    weft_status status = graph_place(g, backend_most_rows(&p->limits), p->slots, &n_floats, err);
    if (status != WEFT_OK) return status;
    p->values = take(p, n_floats, sizeof(float));
    if (p->values == NULL || !take_buffers(b, p, measure(b, p))) {
        return err_set(err, WEFT_NOMEM, "out of memory for a plan of %u tokens",
                       p->limits.n_tokens);
    }
    return WEFT_OK;
}

static bool has_experts(const graph *g)
{
    bool has = false;
    for (graph_id id = 1; id < g->n_values; id++) has = has || g->values[id].op == GRAPH_EXPERTS;
    return has;
}

weft_status cpu_plan(backend *b, const graph *g, const backend_limits *limits, backend_plan **plan,
                     weft_error *err)
{
    *plan = NULL;
    backend_plan *p = mem_alloc_zero(b->env.allocator, sizeof *p);
    if (p == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a plan");
    p->g = g;
    p->limits = *limits;
    arena_init(&p->arena, b->env.allocator, 0);
    weft_status status = WEFT_OK;
    if (b->streams && has_experts(g))
        status = experts_create(&b->env, g, &b->experts, &p->store, err);
    if (status == WEFT_OK) status = build(b, p, err);
    p->n_bytes = p->arena.taken;
    if (status != WEFT_OK) {
        cpu_plan_free(b, p);
        return status;
    }
    *plan = p;
    return WEFT_OK;
}

void cpu_plan_free(backend *b, backend_plan *plan)
{
    if (plan == NULL) return;
    cpu_trace_set(b, plan, false, NULL);
    experts_destroy(plan->store);
    arena_deinit(&plan->arena);
    mem_free(b->env.allocator, plan, sizeof *plan);
}
