/* graph.c - builders with shape rules, and the printer. */
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

typedef struct op_row {
    const char *name;
    uint32_t n_inputs, n_required;
} op_row;

static const op_row OPS[GRAPH_N_OPS] = {
#define GRAPH_OP_ROW(op, name, n_inputs, n_required) [GRAPH_##op] = {name, n_inputs, n_required},
    GRAPH_OP_MAP(GRAPH_OP_ROW)
#undef GRAPH_OP_ROW
};

void graph_init(graph *g, graph_value *values, uint32_t capacity, const tensor *tensors,
                uint32_t n_tensors)
{
    ASSERT(capacity > 1);
    *g =
        (graph){.values = values, .capacity = capacity, .tensors = tensors, .n_tensors = n_tensors};
    g->values[0] = (graph_value){.op = GRAPH_NONE};
    g->n_values = 1;
}

void graph_set_ropes(graph *g, const graph_rope *ropes, uint32_t n_ropes)
{
    g->ropes = ropes;
    g->n_ropes = n_ropes;
}

/* The one place where a value is recorded. ok: the shapes agree, as the builder saw them. */
static graph_id emit(graph *g, bool ok, graph_value value)
{
    const op_row *row = &OPS[value.op];
    if (g->error.status != WEFT_OK) return 0;
    uint32_t index = g->n_values;
    for (uint32_t i = 0; i < row->n_required && ok; i++) ok = value.in[i] != 0;
    for (uint32_t i = 0; i < GRAPH_INPUTS && ok; i++) ok = value.in[i] < index;
    if (!ok) {
        const graph_value *a = &g->values[value.in[0] < index ? value.in[0] : 0];
        const graph_value *b = &g->values[value.in[1] < index ? value.in[1] : 0];
        err_set(&g->error, WEFT_FORMAT,
                "graph value %u: %s does not fit its inputs (%s of %u columns, %s of %u by %u)",
                index, row->name, OPS[a->op].name, a->cols, OPS[b->op].name, b->rows, b->cols);
        return 0;
    }
    if (index == g->capacity) {
        err_set(&g->error, WEFT_LIMIT, "graph value %u: %s does not fit, at most %u values", index,
                row->name, g->capacity);
        return 0;
    }
    g->values[index] = value;
    g->n_values++;
    return index;
}

/* values[0] (GRAPH_NONE, no columns) for a missing input, so that shape rules need no branches. */
static const graph_value *at(const graph *g, graph_id id)
{
    return &g->values[id < g->n_values ? id : 0];
}

static bool is_state(const graph_value *v)
{
    return v->op == GRAPH_KV_APPEND || v->op == GRAPH_KV_STORE || v->op == GRAPH_STATE;
}

/* Numbers of the step: a weight has no rows of it, ids and states are not numbers to compute
 * with. */
static bool is_rows(const graph_value *v)
{
    bool numbers = v->op != GRAPH_INPUT && !is_state(v) && v->op != GRAPH_ROUTE &&
                   v->op != GRAPH_SELECT && v->op != GRAPH_TAP;
    return numbers && v->rows >= GRAPH_HIDDEN;
}

static bool is_tokens(const graph_value *v)
{
    return is_rows(v) && v->rows == GRAPH_TOKENS;
}

graph_id graph_weight(graph *g, uint32_t tensor_i)
{
    graph_value v = {.op = GRAPH_WEIGHT, .i = {tensor_i, 0}};
    bool ok = tensor_i < g->n_tensors;
    if (ok) {
        const tensor *t = &g->tensors[tensor_i];
        ok = t->n_rows < GRAPH_HIDDEN && t->n_cols < GRAPH_HIDDEN && t->n_rows > 0 && t->n_cols > 0;
        v.rows = ok ? (uint32_t)t->n_rows : 0;
        v.cols = ok ? (uint32_t)t->n_cols : 0;
    }
    return emit(g, ok, v);
}

static graph_id input(graph *g, graph_source source, uint32_t row)
{
    return emit(
        g, true,
        (graph_value){
            .op = GRAPH_INPUT, .rows = GRAPH_TOKENS, .cols = 1, .i = {(uint32_t)source, row}});
}

graph_id graph_tokens(graph *g)
{
    return input(g, GRAPH_IDS, 0);
}

graph_id graph_positions(graph *g, uint32_t first)
{
    return input(g, GRAPH_POSITIONS, first);
}

graph_id graph_one_row(graph *g, uint32_t row)
{
    return input(g, GRAPH_ONE_ROW, row);
}

graph_id graph_feed(graph *g, uint32_t feed_i, uint32_t n_cols)
{
    bool ok = feed_i < GRAPH_FEEDS && n_cols > 0 && n_cols < GRAPH_HIDDEN;
    for (uint32_t i = 1; i < g->n_values && ok; i++)
        ok = g->values[i].op != GRAPH_FEED || g->values[i].i[0] != feed_i;
    graph_id id =
        emit(g, ok,
             (graph_value){.op = GRAPH_FEED, .rows = GRAPH_TOKENS, .cols = n_cols, .i = {feed_i}});
    if (id != 0 && feed_i >= g->n_feeds) g->n_feeds = feed_i + 1;
    return id;
}

graph_id graph_replace(graph *g, graph_id x, graph_id feed)
{
    const graph_value *a = at(g, x);
    const graph_value *b = at(g, feed);
    bool ok = is_tokens(a) && b->op == GRAPH_FEED && a->cols == b->cols;
    return emit(
        g, ok,
        (graph_value){.op = GRAPH_REPLACE, .in = {x, feed}, .rows = GRAPH_TOKENS, .cols = a->cols});
}

graph_id graph_embed(graph *g, graph_id tokens, graph_id weight)
{
    const graph_value *w = at(g, weight);
    const graph_value *t = at(g, tokens);
    bool ok = t->op == GRAPH_INPUT && w->op == GRAPH_WEIGHT && t->i[1] < w->rows;
    return emit(
        g, ok,
        (graph_value){
            .op = GRAPH_EMBED, .in = {tokens, weight}, .rows = GRAPH_TOKENS, .cols = w->cols});
}

graph_id graph_linear(graph *g, graph_id x, graph_id weight, graph_id bias)
{
    const graph_value *a = at(g, x);
    const graph_value *w = at(g, weight);
    const graph_value *b = at(g, bias);
    bool ok = is_rows(a) && w->op == GRAPH_WEIGHT && a->cols == w->cols;
    ok = ok && (bias == 0 || (b->op == GRAPH_WEIGHT && b->rows == 1 && b->cols == w->rows));
    return emit(g, ok,
                (graph_value){
                    .op = GRAPH_LINEAR, .in = {x, weight, bias}, .rows = a->rows, .cols = w->rows});
}

graph_id graph_rms_norm(graph *g, graph_id x, graph_id weight, float eps, float weight_add)
{
    const graph_value *a = at(g, x);
    const graph_value *w = at(g, weight);
    bool ok = is_rows(a) && w->op == GRAPH_WEIGHT && w->rows == 1 && w->cols > 0 &&
              a->cols % w->cols == 0;
    return emit(g, ok,
                (graph_value){.op = GRAPH_RMS_NORM,
                              .in = {x, weight},
                              .rows = a->rows,
                              .cols = a->cols,
                              .i = {w->cols, 0},
                              .f = {eps, weight_add}});
}

graph_id graph_rms_norm_plain(graph *g, graph_id x, uint32_t group, float eps)
{
    const graph_value *a = at(g, x);
    bool ok = is_rows(a) && group > 0 && a->cols % group == 0;
    return emit(g, ok,
                (graph_value){.op = GRAPH_RMS_NORM,
                              .in = {x},
                              .rows = a->rows,
                              .cols = a->cols,
                              .i = {group},
                              .f = {eps, 0}});
}

graph_id graph_layer_norm_apply(graph *g, graph_id x, graph_layer_norm how)
{
    const graph_value *a = at(g, x);
    const graph_value *w = at(g, how.weight);
    const graph_value *b = at(g, how.bias);
    bool ok = is_rows(a) && how.group > 0 && a->cols % how.group == 0;
    bool each = w->op == GRAPH_STACK && ok && w->i[1] == a->cols / how.group;
    ok = ok && (how.weight == 0 ||
                ((w->op == GRAPH_WEIGHT || each) && w->rows == 1 && w->cols == how.group));
    ok = ok && (how.bias == 0 || (b->op == GRAPH_WEIGHT && b->rows == 1 && b->cols == how.group));
    return emit(g, ok,
                (graph_value){.op = GRAPH_LAYER_NORM,
                              .in = {x, how.weight, how.bias},
                              .rows = a->rows,
                              .cols = a->cols,
                              .i = {how.group},
                              .f = {how.eps, how.weight_add}});
}

graph_id graph_position_scale(graph *g, graph_id x, float beta, float period)
{
    const graph_value *a = at(g, x);
    return emit(g, is_tokens(a) && period >= 1.0F,
                (graph_value){.op = GRAPH_POSITION_SCALE,
                              .in = {x},
                              .rows = a->rows,
                              .cols = a->cols,
                              .f = {beta, period}});
}

graph_id graph_act_apply(graph *g, graph_id x, graph_act act)
{
    const graph_value *a = at(g, x);
    return emit(
        g, is_rows(a) && act <= GRAPH_RELU2,
        (graph_value){
            .op = GRAPH_ACT, .in = {x}, .rows = a->rows, .cols = a->cols, .i = {(uint32_t)act}});
}

graph_id graph_rope_apply(graph *g, graph_id x, uint32_t head_dim, uint32_t rope_i)
{
    const graph_value *a = at(g, x);
    bool ok = is_tokens(a) && head_dim > 0 && a->cols % head_dim == 0 && rope_i < g->n_ropes;
    ok = ok && g->ropes[rope_i].n_pairs <= head_dim / 2;
    for (uint32_t j = 0; ok && g->ropes[rope_i].axes != NULL && j < g->ropes[rope_i].n_pairs; j++)
        ok = g->ropes[rope_i].axes[j] < GRAPH_AXES;
    return emit(g, ok,
                (graph_value){.op = GRAPH_ROPE,
                              .in = {x},
                              .rows = a->rows,
                              .cols = a->cols,
                              .i = {head_dim, rope_i}});
}

graph_id graph_add(graph *g, graph_id x, graph_id y)
{
    const graph_value *a = at(g, x);
    const graph_value *b = at(g, y);
    bool ok = is_rows(b) && is_rows(a) && a->rows == b->rows && a->cols == b->cols;
    return emit(g, ok,
                (graph_value){.op = GRAPH_ADD, .in = {x, y}, .rows = a->rows, .cols = a->cols});
}

graph_id graph_mul(graph *g, graph_id x, graph_id y)
{
    const graph_value *a = at(g, x);
    const graph_value *b = at(g, y);
    bool ok = is_rows(a) && is_rows(b) && a->rows == b->rows;
    ok = ok && (b->cols == a->cols || b->cols == 1);
    return emit(g, ok,
                (graph_value){.op = GRAPH_MUL, .in = {x, y}, .rows = a->rows, .cols = a->cols});
}

graph_id graph_scale(graph *g, graph_id x, float factor)
{
    const graph_value *a = at(g, x);
    return emit(
        g, is_rows(a),
        (graph_value){
            .op = GRAPH_SCALE, .in = {x}, .rows = a->rows, .cols = a->cols, .f = {factor, 0}});
}

graph_id graph_clamp(graph *g, graph_id x, float lowest, float highest)
{
    const graph_value *a = at(g, x);
    return emit(g, is_rows(a) && lowest <= highest,
                (graph_value){.op = GRAPH_CLAMP,
                              .in = {x},
                              .rows = a->rows,
                              .cols = a->cols,
                              .f = {lowest, highest}});
}

graph_id graph_standardize(graph *g, graph_id x, graph_id shift, graph_id factor)
{
    const graph_value *a = at(g, x);
    const graph_value *b = at(g, shift);
    const graph_value *c = at(g, factor);
    bool ok = is_rows(a) && b->op == GRAPH_WEIGHT && b->rows == 1 && b->cols == a->cols;
    ok = ok && c->op == GRAPH_WEIGHT && c->rows == 1 && c->cols == a->cols;
    return emit(
        g, ok,
        (graph_value){
            .op = GRAPH_STANDARDIZE, .in = {x, shift, factor}, .rows = a->rows, .cols = a->cols});
}

graph_id graph_glu(graph *g, graph_id gate, graph_id up, graph_act act)
{
    const graph_value *a = at(g, gate);
    const graph_value *b = at(g, up);
    bool ok = is_rows(b) && is_rows(a) && a->rows == b->rows && a->cols == b->cols;
    ok = ok && act <= GRAPH_SIGMOID;
    return emit(g, ok,
                (graph_value){.op = GRAPH_GLU,
                              .in = {gate, up},
                              .rows = a->rows,
                              .cols = a->cols,
                              .i = {(uint32_t)act, 0}});
}

/* Records what writes to state i0, or reads what another graph wrote there. A state holds keys and
 * values, or buffers, and each of these is written once. */
static graph_id emit_writer(graph *g, bool ok, graph_value value)
{
    uint32_t state_i = value.i[0];
    ok = ok && state_i < 65536;
    for (uint32_t i = 1; i < g->n_values && ok; i++) {
        const graph_value *v = &g->values[i];
        bool buffers = v->op == GRAPH_CONV || v->op == GRAPH_GATED_DELTA;
        if ((!buffers && !is_state(v)) || v->i[0] != state_i) continue;
        ok = v->op != value.op && !is_state(v) && !is_state(&value);
    }
    graph_id id = emit(g, ok, value);
    if (id != 0 && state_i >= g->n_states) g->n_states = state_i + 1;
    return id;
}

static graph_id emit_rows(graph *g, graph_op op, graph_id k, graph_id v, uint32_t state_i,
                          uint32_t n_heads)
{
    const graph_value *a = at(g, k);
    const graph_value *b = at(g, v);
    bool ok = is_tokens(a) && is_tokens(b) && n_heads > 0;
    ok = ok && a->cols % n_heads == 0 && b->cols % n_heads == 0;
    return emit_writer(g, ok,
                       (graph_value){.op = op,
                                     .in = {k, v},
                                     .rows = GRAPH_TOKENS,
                                     .cols = b->cols,
                                     .i = {state_i, n_heads, ok ? a->cols / n_heads : 0}});
}

graph_id graph_kv_append(graph *g, graph_id k, graph_id v, uint32_t state_i, uint32_t n_heads)
{
    return emit_rows(g, GRAPH_KV_APPEND, k, v, state_i, n_heads);
}

graph_id graph_kv_store(graph *g, graph_id k, graph_id v, uint32_t state_i, uint32_t n_heads)
{
    return emit_rows(g, GRAPH_KV_STORE, k, v, state_i, n_heads);
}

graph_id graph_state(graph *g, uint32_t state_i, uint32_t n_heads, uint32_t k_dim, uint32_t v_dim)
{
    uint64_t k_cols = (uint64_t)n_heads * k_dim;
    uint64_t v_cols = (uint64_t)n_heads * v_dim;
    bool ok = k_cols > 0 && v_cols > 0 && k_cols < GRAPH_HIDDEN && v_cols < GRAPH_HIDDEN;
    return emit_writer(g, ok,
                       (graph_value){.op = GRAPH_STATE,
                                     .rows = GRAPH_TOKENS,
                                     .cols = (uint32_t)v_cols,
                                     .i = {state_i, n_heads, k_dim}});
}

graph_id graph_kv_append_latent(graph *g, graph_id x, uint32_t v_dim, uint32_t state_i)
{
    const graph_value *a = at(g, x);
    bool ok = is_tokens(a) && v_dim > 0 && v_dim <= a->cols;
    return emit_writer(g, ok,
                       (graph_value){.op = GRAPH_KV_APPEND,
                                     .in = {x},
                                     .rows = GRAPH_TOKENS,
                                     .cols = v_dim,
                                     .i = {state_i, 1, a->cols}});
}

graph_id graph_kv_append_keys(graph *g, graph_id k, uint32_t state_i)
{
    const graph_value *a = at(g, k);
    return emit_writer(
        g, is_tokens(a),
        (graph_value){
            .op = GRAPH_KV_APPEND, .in = {k}, .rows = GRAPH_TOKENS, .i = {state_i, 1, a->cols}});
}

static bool is_keys(const graph_value *v)
{
    return v->op == GRAPH_KV_APPEND && v->cols == 0;
}

graph_id graph_select(graph *g, graph_id q, graph_id weights, graph_id keys, uint32_t top_k)
{
    const graph_value *a = at(g, q);
    const graph_value *w = at(g, weights);
    const graph_value *s = at(g, keys);
    bool ok = is_tokens(a) && is_tokens(w) && is_keys(s) && top_k > 0 && top_k < GRAPH_HIDDEN - 1;
    ok = ok && (uint64_t)w->cols * s->i[2] == a->cols;
    return emit(g, ok,
                (graph_value){.op = GRAPH_SELECT,
                              .in = {q, weights, keys},
                              .rows = GRAPH_TOKENS,
                              .cols = ok ? 1 + top_k : 0,
                              .i = {top_k, 0}});
}

/* A vector of n numbers, or nothing. */
static bool is_vector(const graph *g, graph_id id, uint32_t n)
{
    const graph_value *w = at(g, id);
    return id == 0 || (w->op == GRAPH_WEIGHT && w->rows == 1 && w->cols == n);
}

/* in: queries, state, sinks, list. */
typedef struct attend_how {
    graph_id in[4];
    uint32_t n_heads;
    bool causal;
    float scale, softcap;
} attend_how;

static graph_id emit_attend(graph *g, bool ok, attend_how how)
{
    uint32_t n_heads = how.n_heads;
    const graph_value *a = at(g, how.in[0]);
    const graph_value *s = at(g, how.in[1]);
    ok = ok && (s->op == GRAPH_KV_APPEND || s->op == GRAPH_STATE) && !is_keys(s);
    ok = ok && is_vector(g, how.in[2], n_heads);
    ok = ok && is_tokens(a) && n_heads > 0 && a->cols % n_heads == 0;
    uint32_t cols = 0;
    if (ok) {
        uint32_t kv_heads = s->i[1];
        ok = n_heads % kv_heads == 0 && a->cols / n_heads == s->i[2];
        uint64_t wide = (uint64_t)n_heads * (s->cols / kv_heads);
        ok = ok && wide < GRAPH_HIDDEN;
        cols = (uint32_t)wide;
    }
    return emit(g, ok,
                (graph_value){.op = GRAPH_ATTEND,
                              .in = {how.in[0], how.in[1], how.in[2], how.in[3]},
                              .rows = GRAPH_TOKENS,
                              .cols = cols,
                              .i = {n_heads, how.causal ? 1 : 0},
                              .f = {how.scale, how.softcap}});
}

graph_id graph_attend_sinks(graph *g, graph_id q, graph_id state, graph_id sinks, uint32_t n_heads,
                            float scale, float softcap)
{
    return emit_attend(g, true, (attend_how){{q, state, sinks}, n_heads, false, scale, softcap});
}

graph_id graph_attend(graph *g, graph_id q, graph_id state, uint32_t n_heads, float scale,
                      float softcap)
{
    return graph_attend_sinks(g, q, state, 0, n_heads, scale, softcap);
}

graph_id graph_attend_causal(graph *g, graph_id q, graph_id state, uint32_t n_heads, float scale,
                             float softcap)
{
    return emit_attend(g, true, (attend_how){{q, state}, n_heads, true, scale, softcap});
}

graph_id graph_attend_listed(graph *g, graph_id q, graph_id state, graph_id list, uint32_t n_heads,
                             float scale)
{
    bool ok = at(g, list)->op == GRAPH_SELECT && at(g, state)->op == GRAPH_KV_APPEND;
    return emit_attend(g, ok, (attend_how){{q, state, 0, list}, n_heads, false, scale, 0.0F});
}

graph_id graph_take_run(graph *g, graph_id x, uint32_t n_rows)
{
    const graph_value *a = at(g, x);
    uint64_t cols = (uint64_t)a->cols * n_rows;
    bool ok = is_tokens(a) && n_rows > 0 && cols < GRAPH_HIDDEN;
    return emit(g, ok,
                (graph_value){.op = GRAPH_TAKE,
                              .in = {x},
                              .rows = GRAPH_OUTPUTS,
                              .cols = (uint32_t)cols,
                              .i = {n_rows - 1}});
}

static graph_id take(graph *g, graph_id x, uint32_t rows)
{
    const graph_value *a = at(g, x);
    return emit(g, is_tokens(a),
                (graph_value){.op = GRAPH_TAKE, .in = {x}, .rows = rows, .cols = a->cols});
}

graph_id graph_take(graph *g, graph_id x)
{
    return take(g, x, GRAPH_OUTPUTS);
}

graph_id graph_take_hidden(graph *g, graph_id x)
{
    return take(g, x, GRAPH_HIDDEN);
}

graph_id graph_tap(graph *g, graph_id x, uint32_t layer)
{
    const graph_value *a = at(g, x);
    return emit(
        g, is_tokens(a),
        (graph_value){
            .op = GRAPH_TAP, .in = {x}, .rows = GRAPH_TOKENS, .cols = a->cols, .i = {layer}});
}

graph_id graph_softcap(graph *g, graph_id x, float cap)
{
    const graph_value *a = at(g, x);
    return emit(
        g, is_rows(a) && cap > 0.0F,
        (graph_value){
            .op = GRAPH_SOFTCAP, .in = {x}, .rows = a->rows, .cols = a->cols, .f = {cap, 0}});
}

graph_id graph_stack(graph *g, uint32_t tensor_i, uint32_t count)
{
    graph_value v = {.op = GRAPH_STACK, .i = {tensor_i, count}};
    bool ok = count > 0 && tensor_i < g->n_tensors && count <= g->n_tensors - tensor_i;
    for (uint32_t i = 0; i < count && ok; i++) {
        const tensor *t = &g->tensors[tensor_i + i];
        ok = t->n_rows > 0 && t->n_rows < GRAPH_HIDDEN && t->n_cols > 0 && t->n_cols < GRAPH_HIDDEN;
        if (i == 0 && ok) {
            v.rows = (uint32_t)t->n_rows;
            v.cols = (uint32_t)t->n_cols;
        }
        ok = ok && t->n_rows == v.rows && t->n_cols == v.cols;
    }
    return emit(g, ok, v);
}

graph_id graph_cols(graph *g, graph_id x, uint32_t head_dim, uint32_t first, uint32_t n_cols)
{
    const graph_value *a = at(g, x);
    bool ok = is_rows(a) && head_dim > 0 && a->cols % head_dim == 0 && n_cols > 0;
    ok = ok && n_cols <= head_dim && first <= head_dim - n_cols;
    return emit(g, ok,
                (graph_value){.op = GRAPH_COLS,
                              .in = {x},
                              .rows = a->rows,
                              .cols = ok ? a->cols / head_dim * n_cols : 0,
                              .i = {head_dim, first, n_cols}});
}

graph_id graph_concat(graph *g, graph_id x, graph_id y, uint32_t n_heads)
{
    const graph_value *a = at(g, x);
    const graph_value *b = at(g, y);
    bool ok = is_rows(a) && is_rows(b) && a->rows == b->rows && n_heads > 0;
    ok = ok && a->cols % n_heads == 0 && b->cols % n_heads == 0;
    uint64_t cols = (uint64_t)a->cols + b->cols;
    return emit(g, ok && cols < GRAPH_HIDDEN,
                (graph_value){.op = GRAPH_CONCAT,
                              .in = {x, y},
                              .rows = a->rows,
                              .cols = (uint32_t)cols,
                              .i = {n_heads}});
}

graph_id graph_linear_heads(graph *g, graph_id x, graph_id stack, bool transposed)
{
    const graph_value *a = at(g, x);
    const graph_value *w = at(g, stack);
    bool ok = is_rows(a) && w->op == GRAPH_STACK;
    uint64_t in = (uint64_t)w->i[1] * (transposed ? w->rows : w->cols);
    uint64_t out = (uint64_t)w->i[1] * (transposed ? w->cols : w->rows);
    ok = ok && a->cols == in && out < GRAPH_HIDDEN;
    return emit(g, ok,
                (graph_value){.op = GRAPH_LINEAR_HEADS,
                              .in = {x, stack},
                              .rows = a->rows,
                              .cols = (uint32_t)out,
                              .i = {transposed ? 1 : 0}});
}

graph_id graph_route_experts(graph *g, graph_id scores, graph_id bias, graph_id factor,
                             graph_route how)
{
    const graph_value *a = at(g, scores);
    uint32_t n_groups = how.n_groups == 0 ? 1 : how.n_groups;
    uint32_t n_top = n_groups == 1 ? 1 : how.n_top_groups;
    /* Ids are floats. */
    bool ok = is_rows(a) && a->cols <= 1U << 24 && a->cols % n_groups == 0;
    ok = ok && n_top > 0 && n_top <= n_groups && how.flags < 4;
    ok = ok && (n_groups == 1 || a->cols / n_groups >= 2);
    ok = ok && how.top_k > 0 && how.top_k <= a->cols / n_groups * n_top;
    ok = ok && is_vector(g, bias, a->cols) && is_vector(g, factor, a->cols);
    return emit(g, ok,
                (graph_value){.op = GRAPH_ROUTE,
                              .in = {scores, bias, factor},
                              .rows = a->rows,
                              .cols = ok ? 2 * how.top_k : 0,
                              .i = {how.top_k, n_groups, n_top, how.flags},
                              .f = {how.scale, 0}});
}

graph_id graph_experts(graph *g, graph_id x, graph_id route, const graph_id stacks[3],
                       graph_act act)
{
    const graph_id all[6] = {stacks[0], stacks[1], stacks[2]};
    return graph_experts_biased(g, x, route, all, act, 0.0F);
}

graph_id graph_experts_biased(graph *g, graph_id x, graph_id route, const graph_id stacks[6],
                              graph_act act, float limit)
{
    const graph_value *a = at(g, x);
    const graph_value *r = at(g, route);
    const graph_value *gate = at(g, stacks[0]);
    const graph_value *up = at(g, stacks[1]);
    const graph_value *down = at(g, stacks[2]);
    uint32_t n_experts = at(g, r->in[0])->cols;
    bool ok = is_rows(a) && r->op == GRAPH_ROUTE && a->rows == r->rows && limit >= 0.0F;
    ok = ok && (act <= GRAPH_GELU_ERF || act == GRAPH_GPT_OSS);
    for (uint32_t i = 0; i < 6 && ok; i++) {
        const graph_value *w = at(g, stacks[i]);
        ok = w->op == GRAPH_STACK && w->i[1] == n_experts;
        if (i >= 3) ok = stacks[i] == 0 || (ok && w->rows == 1);
        if (i >= 3 && ok && stacks[i] != 0) ok = w->cols == at(g, stacks[i - 3])->rows;
    }
    ok = ok && gate->cols == a->cols && up->cols == a->cols && up->rows == gate->rows;
    ok = ok && down->cols == gate->rows && down->rows == a->cols;
    return emit(g, ok,
                (graph_value){.op = GRAPH_EXPERTS,
                              .in = {x, route, stacks[0], stacks[1], stacks[2], stacks[3],
                                     stacks[4], stacks[5]},
                              .rows = a->rows,
                              .cols = a->cols,
                              .i = {(uint32_t)act},
                              .f = {limit, 0}});
}

graph_id graph_conv(graph *g, graph_id x, graph_id weight, uint32_t state_i, graph_conv_act act)
{
    const graph_value *a = at(g, x);
    const graph_value *w = at(g, weight);
    bool ok = is_tokens(a) && w->op == GRAPH_WEIGHT && w->rows == a->cols && w->cols > 1;
    return emit_writer(g, ok && w->cols <= GRAPH_TAPS && act <= GRAPH_CONV_PLAIN,
                       (graph_value){.op = GRAPH_CONV,
                                     .in = {x, weight},
                                     .rows = GRAPH_TOKENS,
                                     .cols = a->cols,
                                     .i = {state_i, (uint32_t)act}});
}

graph_id graph_gated_delta(graph *g, const graph_delta *d)
{
    const graph_value *x = at(g, d->x);
    const graph_value *decay = at(g, d->decay);
    const graph_value *rate = at(g, d->rate);
    const graph_value *a_log = at(g, d->a_log);
    const graph_value *bias = at(g, d->bias);
    uint32_t n_heads = decay->cols;
    uint64_t keys = (uint64_t)2 * d->n_k_heads * d->k_dim;
    bool ok = x->op == GRAPH_CONV && x->i[0] == d->state_i && is_tokens(decay) && is_tokens(rate) &&
              rate->cols == n_heads;
    ok = ok && a_log->op == GRAPH_WEIGHT && a_log->rows == 1 && a_log->cols == n_heads;
    ok = ok && bias->op == GRAPH_WEIGHT && bias->rows == 1 && bias->cols == n_heads;
    ok = ok && d->k_dim < 65536 && n_heads > 0 && keys > 0 && n_heads % d->n_k_heads == 0 &&
         keys < x->cols && d->flags <= (GRAPH_DELTA_TILED | GRAPH_DELTA_SPEED);
    uint32_t cols = ok ? x->cols - (uint32_t)keys : 0;
    return emit_writer(g, ok && cols % n_heads == 0,
                       (graph_value){.op = GRAPH_GATED_DELTA,
                                     .in = {d->x, d->decay, d->rate, d->a_log, d->bias},
                                     .rows = GRAPH_TOKENS,
                                     .cols = cols,
                                     .i = {d->state_i, d->n_k_heads, d->flags},
                                     .f = {d->eps, 0}});
}

graph_heads graph_delta_heads(const graph *g, const graph_value *v)
{
    uint32_t n_v = g->values[v->in[1]].cols;
    uint32_t keys = g->values[v->in[0]].cols - v->cols;
    return (graph_heads){.n_k = v->i[1],
                         .n_v = n_v,
                         .k_dim = keys / 2 / v->i[1],
                         .v_dim = v->cols / n_v,
                         .tiled = (v->i[2] & GRAPH_DELTA_TILED) != 0};
}

uint32_t graph_key_head(const graph_heads *h, uint32_t v_head)
{
    return h->tiled ? v_head % h->n_k : v_head / (h->n_v / h->n_k);
}

double graph_delta_speed(const graph_value *v, float number)
{
    return (v->i[2] & GRAPH_DELTA_SPEED) != 0 ? -(double)number : exp((double)number);
}

static bool stores(const graph *g)
{
    bool found = false;
    for (graph_id id = 1; id < g->n_values; id++) found |= g->values[id].op == GRAPH_KV_STORE;
    return found;
}

void graph_hidden(graph *g, graph_id x)
{
    if (g->error.status != WEFT_OK) return;
    if (x >= g->n_values || g->values[x].rows != GRAPH_HIDDEN || g->hidden != 0) {
        err_set(&g->error, WEFT_FORMAT, "graph: value %u is not the one matrix of hidden states",
                x);
        return;
    }
    g->hidden = x;
}

/* Results are read by the caller alone, all else by somebody. */
static weft_status check_readers(graph *g)
{
    for (graph_id id = 1; id < g->n_values; id++) {
        graph_op op = g->values[id].op;
        if (op == GRAPH_KV_STORE || op == GRAPH_TAP || id == g->output) continue;
        bool unread = graph_last_use(g, id) == id;
        if (unread == (id == g->hidden)) continue;
        return err_set(&g->error, WEFT_FORMAT, "graph value %u: %s reads this %s", id,
                       unread ? "nothing" : "a value behind hidden states",
                       OPS[g->values[id].op].name);
    }
    return WEFT_OK;
}

void graph_finish(graph *g, graph_id logits)
{
    if (g->error.status != WEFT_OK) return;
    bool only_stores = logits == 0 && g->hidden == 0 && stores(g);
    bool only_hidden = logits == 0 && g->hidden != 0;
    bool wanted = logits != 0 && logits < g->n_values && g->values[logits].rows == GRAPH_OUTPUTS;
    if (!wanted && !only_stores && !only_hidden) {
        err_set(&g->error, WEFT_FORMAT, "graph: value %u is not a matrix of wanted rows", logits);
        return;
    }
    g->output = logits;
    g->only_stores = only_stores;
    check_readers(g);
}

weft_status graph_status(const graph *g, weft_error *err)
{
    if (g->error.status != WEFT_OK) return err_set(err, g->error.status, "%s", g->error.message);
    if (g->output == 0 && g->hidden == 0 && !g->only_stores)
        return err_set(err, WEFT_FORMAT, "graph: no output");
    return WEFT_OK;
}

const char *graph_op_name(graph_op op)
{
    return op < GRAPH_N_OPS ? OPS[op].name : "unknown";
}

graph_id graph_last_use(const graph *g, graph_id id)
{
    for (graph_id reader = g->n_values - 1; reader > id; reader--) {
        for (uint32_t i = 0; i < GRAPH_INPUTS; i++) {
            if (g->values[reader].in[i] == id) return reader;
        }
    }
    return id;
}

uint64_t graph_stack_bytes(const graph *g, graph_id stack)
{
    const graph_value *v = &g->values[stack];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < v->i[1]; i++) bytes += tensor_bytes(&g->tensors[v->i[0] + i]);
    return bytes;
}

static void print_rows(uint32_t rows, strbuf *out)
{
    if (rows == GRAPH_TOKENS) {
        strbuf_add_text(out, "tokens");
    } else if (rows == GRAPH_OUTPUTS) {
        strbuf_add_text(out, "outputs");
    } else if (rows == GRAPH_HIDDEN) {
        strbuf_add_text(out, "hidden");
    } else {
        strbuf_printf(out, "%u", rows);
    }
}

weft_status graph_print(const graph *g, strbuf *out)
{
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        strbuf_printf(out, "%%%u %s [", id, OPS[v->op].name);
        print_rows(v->rows, out);
        strbuf_printf(out, ", %u]", v->cols);
        for (uint32_t i = 0; i < GRAPH_INPUTS; i++) {
            if (v->in[i] != 0) strbuf_printf(out, " %%%u", v->in[i]);
        }
        bool named = v->op == GRAPH_WEIGHT || v->op == GRAPH_STACK;
        if (named) strbuf_printf(out, " %s", g->tensors[v->i[0]].name);
        strbuf_add_char(out, '\n');
    }
    return out->status;
}
