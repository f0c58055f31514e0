/* graph.h - what a model computes, without any idea of devices.
 *
 * A value is an operation, its inputs, its dims, a few integers and floats; the array is the
 * caller's. The number of tokens stays symbolic (GRAPH_TOKENS), so one graph serves every batch.
 * Builders are total: each computes its output shape and hands it to emit(), which returns 0 once
 * anything is wrong and keeps the first error; so build functions have no error branches and the
 * caller looks once, at graph_status().
 *
 * docs/graph.md has, on paper, the build functions of families that are not here yet; new
 * operations come with a row, a shape rule, their plain form in backend/ref, and a test. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/err.h"
#include "base/str.h"
#include "tensor/tensor.h"

/* enum, printed name, inputs it takes, how many of them must be given.
 *   weight      i0 tensor index; [rows, cols]
 *   tokens      i0 graph_source, i1 r: of each token its id, its position and r, or r; [TOKENS, 1]
 *   feed        i0 which: rows that the step brings, one a token; [TOKENS, cols]
 *   embed       tokens, weight [V, d]: the rows that they say; [TOKENS, d]
 *   replace     x [TOKENS, d], feed [TOKENS, d]: the feed's row where the step marks a token, else
 *               that of x
 *   linear      x [n, in], weight [out, in], bias [out]: x W^T + b; [n, out]
 *   rms_norm    x [n, d], weight [g]; i0 group width g, f0 epsilon, f1 added to the weight:
 *               x / sqrt(mean x^2 + eps) (w + f1) over each run of g columns, without (w + f1)
 *               where there is no weight; [n, d]
 *   layer_norm  x [n, d], weight [g], or a stack of one for each group, bias [g]; i0, f0, f1 as
 *               rms_norm: (x - mean) / sqrt(mean (x - mean)^2 + eps) (w + f1) + b over each run of
 *               g columns; [n, d]
 *   rope        x [n, heads * D]; i0 D, i1 rope table: rotated by the token's position, or by where
 *               the step places it on each axis
 *   add, scale  x, y; x with f0: elementwise
 *   position_scale x [TOKENS, d]; f0 beta, f1 P: x (1 + beta ln(1 + floor(position / P)))
 *   act         x; i0 graph_act: elementwise
 *   mul         x [n, d], y [n, d] or [n, 1]: elementwise, one number of y for the whole row
 *   clamp       x; f0 lowest, f1 highest: what is beyond is that
 *   standardize x [n, d], shift [d], factor [d]: (x - shift) * factor
 *   glu         gate, up [n, I]; i0 graph_act: act(gate) * up
 *   kv_append   k [n, heads * Dk], v [n, heads * Dv]; i0 state index, i1 heads: writes the rows of
 *               the step into their sequences' state; a token for attend. Without v the state is
 *               latent: a value is the first columns of its key, which has one head; or keys
 *               alone, of one head and for select, where it has no columns
 *   attend      q [n, H * Dk], state, sinks [1, H], a list of select; i0 H, i1 1: none of later
 *               tokens, whatever the step says, f0 scale, f1 soft-cap: each token against its own
 *               sequence, with a list against the positions in it, of a state that keeps all; [n, H
 *               * Dv]. A head's sink is the score of one more key, which every query sees and which
 *               has no value
 *   select      q [n, H * Dk], w [n, H], keys alone; i0 k: of the positions that a token sees those
 *               k whose sums of w_h max(q_h . key, 0) over h are largest, the first of equals
 *               first, NaN last; all of them where there are no more than k; [n, 1 + k]: how many,
 *               then the positions, ascending, as uint32_t
 *   kv_store    k [n, heads * Dk], v [n, heads * Dv]; i0 state index, i1 heads: as kv_append, but
 *               for graphs to come: nothing in this one reads it
 *   state       i0 state index, i1 heads, i2 Dk: what another graph stored, a token for attend
 *   take        x [TOKENS, d]; i0 m: rows whose logits are wanted, each with the m rows behind it
 *               at its side, [OUTPUTS, (m + 1) d], or whose hidden states are, [HIDDEN, d]
 *   softcap     x; f0 c: c tanh(x / c)
 *   tap         x [TOKENS, d]; i0 layer: its rows, where the step wants that layer's; nothing
 *               reads it
 *   stack       i0 first tensor, i1 how many: matrices of one shape behind one another in the list
 *               of tensors, each as it is stored; [rows, cols] of one
 *   cols        x [n, heads * D]; i0 D, i1 first, i2 w: columns i1 .. i1 + w - 1 of each head
 *   concat      x [n, heads * a], y [n, heads * b]; i0 heads: those of y behind those of x, head
 *               by head
 *   linear_heads x [n, H * in], stack of H: W_h x_h for each head, or its transpose's product where
 *               i0 is 1; [n, H * out]
 *   route       s [n, E], bias [E], factor [E]; i0 k, i1 groups, i2 of them that stay, i3
 *               graph_route_flag, f0 scale: k experts a token, see graph_route; [n, 2 k]
 *   experts     x [n, d], route, stacks of E: gate, up [I, d] and down [d, I], and of their biases
 *               [1, I], [1, I], [1, d]; i0 graph_act, f0 limit: the sum over a token's experts e,
 *               as route lists them, of w_e down_e(act(gate_e x) * up_e x); [n, d]. With a limit
 *               gate_e x is at most that, up_e x within it on both sides
 *   conv        x [n, C], weight [C, K]; i0 state index, i1 graph_conv_act: silu of, or just, the
 *               sum of each column's last K numbers, of its own sequence and oldest first, times
 *               the weight's row; the state's tail [K - 1, C] holds those of earlier steps; [n, C]
 *   gated_delta x [n, 2 Hk Dk + Hv Dv], a conv of the same state: queries, keys, values; decay and
 *               rate [n, Hv]; A_log and bias [1, Hv]; i0 state index, i1 Hk, i2 graph_delta_flag,
 *               f0 epsilon; [n, Hv * Dv]. Token by token, for each value head h, whose queries and
 *               keys are those of head h Hk / Hv, or of h mod Hk, over the state's matrix S
 *               [Dv, Dk]:
 *                 q = q / sqrt(q . q + eps) / sqrt(Dk), k = k / sqrt(k . k + eps)
 *                 g = exp(-exp(A_log) ln(1 + exp(decay + bias))), b = 1 / (1 + exp(-rate))
 *                 S = g S;  S = S + b (v - S k) k^T;  y = S q
 * Numbers are computed with; token ids, states, what route gives and lists are not numbers. Which
 * positions an attend sees is not said here but by the state's layout and the step. */
#define GRAPH_OP_MAP(X)                                                                            \
    X(NONE, "none", 0, 0)                                                                          \
    X(WEIGHT, "weight", 0, 0)                                                                      \
    X(INPUT, "tokens", 0, 0)                                                                       \
    X(EMBED, "embed", 2, 2)                                                                        \
    X(LINEAR, "linear", 3, 2)                                                                      \
    X(RMS_NORM, "rms_norm", 2, 1)                                                                  \
    X(ROPE, "rope", 1, 1)                                                                          \
    X(ADD, "add", 2, 2)                                                                            \
    X(SCALE, "scale", 1, 1)                                                                        \
    X(GLU, "glu", 2, 2)                                                                            \
    X(KV_APPEND, "kv_append", 2, 1)                                                                \
    X(ATTEND, "attend", 4, 2)                                                                      \
    X(TAKE, "take", 1, 1)                                                                          \
    X(SOFTCAP, "softcap", 1, 1)                                                                    \
    X(STACK, "stack", 0, 0)                                                                        \
    X(COLS, "cols", 1, 1)                                                                          \
    X(CONCAT, "concat", 2, 2)                                                                      \
    X(LINEAR_HEADS, "linear_heads", 2, 2)                                                          \
    X(ROUTE, "route", 3, 1)                                                                        \
    X(EXPERTS, "experts", 8, 5)                                                                    \
    X(CONV, "conv", 2, 2)                                                                          \
    X(GATED_DELTA, "gated_delta", 5, 5)                                                            \
    X(KV_STORE, "kv_store", 2, 2)                                                                  \
    X(STATE, "state", 0, 0)                                                                        \
    X(LAYER_NORM, "layer_norm", 3, 1)                                                              \
    X(ACT, "act", 1, 1)                                                                            \
    X(POSITION_SCALE, "position_scale", 1, 1)                                                      \
    X(MUL, "mul", 2, 2)                                                                            \
    X(SELECT, "select", 3, 3)                                                                      \
    X(FEED, "feed", 0, 0)                                                                          \
    X(REPLACE, "replace", 2, 2)                                                                    \
    X(CLAMP, "clamp", 1, 1)                                                                        \
    X(STANDARDIZE, "standardize", 3, 3)                                                            \
    X(TAP, "tap", 1, 1)

typedef enum graph_op {
#define GRAPH_OP_ENUM(op, name, n_inputs, n_required) GRAPH_##op,
    GRAPH_OP_MAP(GRAPH_OP_ENUM)
#undef GRAPH_OP_ENUM
        GRAPH_N_OPS
} graph_op;

/* silu x s(x); gelu_tanh x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); gelu_erf x/2 (1 +
 * erf(x/sqrt 2)); sigmoid s(x) = 1 / (1 + e^-x); relu2 max(x, 0)^2, of act only; gpt_oss x s(1.702
 * x), times up + 1 in place of up, of experts only */
typedef enum graph_act {
    GRAPH_SILU = 0,
    GRAPH_GELU_TANH = 1,
    GRAPH_GELU_ERF = 2,
    GRAPH_SIGMOID = 3,
    GRAPH_RELU2 = 4,
    GRAPH_GPT_OSS = 5
} graph_act;

typedef enum graph_conv_act { GRAPH_CONV_SILU = 0, GRAPH_CONV_PLAIN = 1 } graph_conv_act;

/* What says which row of an embedding a token has. */
typedef enum graph_source { GRAPH_IDS = 0, GRAPH_POSITIONS = 1, GRAPH_ONE_ROW = 2 } graph_source;

/* Scores are sigmoids of their own instead of a softmax; chosen ones are divided by their sum. */
enum { GRAPH_ROUTE_SIGMOID = 1, GRAPH_ROUTE_NORMALIZE = 2 };

/* How experts are chosen. p = softmax(s) over all experts, or sigmoid(s). With bias, p + bias is
 * what chooses, and nothing else. With groups, runs of E / n_groups experts, those of the
 * n_top_groups groups whose two largest choosers have the largest sums stay. The top_k largest that
 * stay are the token's, largest first, the first of equals first; the weight of each is p, divided
 * by their sum (+ 1e-20) when normalized, times scale, times its factor. */
typedef struct graph_route {
    uint32_t top_k, n_groups, n_top_groups; /* n_groups 0 or 1: none */
    uint32_t flags;
    float scale;
} graph_route;

/* Symbolic numbers of rows. */
#define GRAPH_TOKENS 0xffffffffu
#define GRAPH_OUTPUTS 0xfffffffeu
#define GRAPH_HIDDEN 0xfffffffdu

/* How many there are of each in a step. */
typedef struct graph_rows {
    uint32_t tokens, outputs, hidden;
} graph_rows;

static inline uint32_t graph_count(graph_rows n, uint32_t rows)
{
    if (rows == GRAPH_TOKENS) return n.tokens;
    return rows == GRAPH_OUTPUTS ? n.outputs : n.hidden;
}

typedef uint32_t graph_id; /* index into values; 0 is "nothing" */

/* Inputs and integers of an operation; numbers that a conv adds up. */
enum { GRAPH_INPUTS = 8, GRAPH_INTS = 4, GRAPH_TAPS = 16 };

typedef struct graph_value {
    graph_op op;
    graph_id in[GRAPH_INPUTS];
    uint32_t rows; /* GRAPH_TOKENS, GRAPH_OUTPUTS, GRAPH_HIDDEN, or a weight's rows */
    uint32_t cols;
    uint32_t i[GRAPH_INTS];
    float f[2];
} graph_value;

/* Numbers of a token's place, where it has more than a position. */
enum { GRAPH_AXES = 3 };

/* What a graph may be fed at most. */
enum { GRAPH_FEEDS = 4 };

/* Pair j of a head turns by position * inv_freq[j]: elements (j, j + n_pairs), or (2j, 2j + 1) when
 * interleaved; elements beyond 2 n_pairs pass through. magnitude scales cosine and sine (yarn).
 * With axes, pair j turns by the token's place on axis axes[j] instead of its position. */
typedef struct graph_rope {
    const float *inv_freq; /* [n_pairs], borrowed */
    uint32_t n_pairs;
    bool interleaved;
    float magnitude;
    const uint8_t *axes; /* [n_pairs], below GRAPH_AXES, borrowed; NULL: positions */
} graph_rope;

typedef struct graph {
    graph_value *values; /* [capacity], borrowed; values[0] is GRAPH_NONE */
    uint32_t n_values, capacity;
    const tensor *tensors; /* [n_tensors], borrowed: what i0 of a weight refers to */
    uint32_t n_tensors;
    const graph_rope *ropes; /* [n_ropes], borrowed */
    uint32_t n_ropes;
    uint32_t n_states; /* 1 + largest state index */
    uint32_t n_feeds;  /* 1 + largest index of a feed */
    graph_id output;   /* logits [OUTPUTS, V], once graph_finish was called; 0: none */
    graph_id hidden;   /* hidden states [HIDDEN, d], once graph_hidden was called; 0: none */
    bool only_stores;  /* finished without either: what it leaves are states */
    weft_error error;  /* the first */
} graph;

void graph_init(graph *g, graph_value *values, uint32_t capacity, const tensor *tensors,
                uint32_t n_tensors);
void graph_set_ropes(graph *g, const graph_rope *ropes, uint32_t n_ropes);

graph_id graph_weight(graph *g, uint32_t tensor_i);
graph_id graph_tokens(graph *g);
/* One of each feed_i in a graph. */
graph_id graph_feed(graph *g, uint32_t feed_i, uint32_t n_cols);
/* Whoever embeds them sees to it that there are enough rows. */
graph_id graph_positions(graph *g, uint32_t first);
graph_id graph_one_row(graph *g, uint32_t row);
graph_id graph_embed(graph *g, graph_id tokens, graph_id weight);
graph_id graph_replace(graph *g, graph_id x, graph_id feed);
graph_id graph_linear(graph *g, graph_id x, graph_id weight, graph_id bias);
graph_id graph_rms_norm(graph *g, graph_id x, graph_id weight, float eps, float weight_add);
graph_id graph_rms_norm_plain(graph *g, graph_id x, uint32_t group, float eps);
/* How a layer_norm works. weight: of graph_weight or graph_stack, or 0; bias likewise or 0. */
typedef struct graph_layer_norm {
    graph_id weight, bias;
    uint32_t group; /* columns that are normed together */
    float eps, weight_add;
} graph_layer_norm;

graph_id graph_layer_norm_apply(graph *g, graph_id x, graph_layer_norm how);
graph_id graph_position_scale(graph *g, graph_id x, float beta, float period);
graph_id graph_act_apply(graph *g, graph_id x, graph_act act);
graph_id graph_rope_apply(graph *g, graph_id x, uint32_t head_dim, uint32_t rope_i);
graph_id graph_add(graph *g, graph_id x, graph_id y);
graph_id graph_mul(graph *g, graph_id x, graph_id y);
graph_id graph_scale(graph *g, graph_id x, float factor);
graph_id graph_clamp(graph *g, graph_id x, float lowest, float highest);
graph_id graph_standardize(graph *g, graph_id x, graph_id shift, graph_id factor);
graph_id graph_glu(graph *g, graph_id gate, graph_id up, graph_act act);
graph_id graph_kv_append(graph *g, graph_id k, graph_id v, uint32_t state_i, uint32_t n_heads);
/* The first v_dim columns of x are its value, too. */
graph_id graph_kv_append_latent(graph *g, graph_id x, uint32_t v_dim, uint32_t state_i);
/* Keys alone. */
graph_id graph_kv_append_keys(graph *g, graph_id k, uint32_t state_i);
graph_id graph_kv_store(graph *g, graph_id k, graph_id v, uint32_t state_i, uint32_t n_heads);
graph_id graph_state(graph *g, uint32_t state_i, uint32_t n_heads, uint32_t k_dim, uint32_t v_dim);
graph_id graph_attend(graph *g, graph_id q, graph_id state, uint32_t n_heads, float scale,
                      float softcap);
/* sinks 0: none */
graph_id graph_attend_sinks(graph *g, graph_id q, graph_id state, graph_id sinks, uint32_t n_heads,
                            float scale, float softcap);
/* The same where a block of tokens that see each other does not count. */
graph_id graph_attend_causal(graph *g, graph_id q, graph_id state, uint32_t n_heads, float scale,
                             float softcap);
/* keys: of graph_kv_append_keys */
graph_id graph_select(graph *g, graph_id q, graph_id weights, graph_id keys, uint32_t top_k);
/* To the positions that select listed. */
graph_id graph_attend_listed(graph *g, graph_id q, graph_id state, graph_id list, uint32_t n_heads,
                             float scale);
graph_id graph_take(graph *g, graph_id x);
graph_id graph_take_hidden(graph *g, graph_id x);
graph_id graph_take_run(graph *g, graph_id x, uint32_t n_rows);
graph_id graph_softcap(graph *g, graph_id x, float cap);
graph_id graph_stack(graph *g, uint32_t tensor_i, uint32_t count);
graph_id graph_cols(graph *g, graph_id x, uint32_t head_dim, uint32_t first, uint32_t n_cols);
graph_id graph_concat(graph *g, graph_id x, graph_id y, uint32_t n_heads);
graph_id graph_linear_heads(graph *g, graph_id x, graph_id stack, bool transposed);
graph_id graph_route_experts(graph *g, graph_id scores, graph_id bias, graph_id factor,
                             graph_route how);
/* stacks: gate, up, down */
graph_id graph_experts(graph *g, graph_id x, graph_id route, const graph_id stacks[3],
                       graph_act act);
/* stacks: gate, up, down, and their biases, each 0 where there is none. limit 0: none */
graph_id graph_experts_biased(graph *g, graph_id x, graph_id route, const graph_id stacks[6],
                              graph_act act, float limit);
graph_id graph_conv(graph *g, graph_id x, graph_id weight, uint32_t state_i, graph_conv_act act);

/* How value heads and A_log are stored, if not as they stand in graph_gated_delta. */
typedef enum graph_delta_flag {
    GRAPH_DELTA_TILED = 1, /* value head h has the queries and keys of head h mod Hk */
    GRAPH_DELTA_SPEED = 2  /* in place of A_log there is -exp(A_log) */
} graph_delta_flag;

/* Inputs of graph_gated_delta, and how its state is indexed. */
typedef struct graph_delta {
    graph_id x, decay, rate, a_log, bias;
    uint32_t state_i, n_k_heads, k_dim;
    uint32_t flags; /* of graph_delta_flag */
    float eps;
} graph_delta;

graph_id graph_gated_delta(graph *g, const graph_delta *d);

/* Heads of a gated_delta, and their sizes. */
typedef struct graph_heads {
    uint32_t n_k, n_v, k_dim, v_dim;
    bool tiled;
} graph_heads;

graph_heads graph_delta_heads(const graph *g, const graph_value *v);

/* Whose queries and keys a value head has. */
uint32_t graph_key_head(const graph_heads *h, uint32_t v_head);

/* exp(A_log), of a number of the tensor in its place. */
double graph_delta_speed(const graph_value *v, float number);

/* What comes out of a layer, for a step that wants it. */
graph_id graph_tap(graph *g, graph_id x, uint32_t layer);

/* Marks hidden states, the second thing that a graph may end in, with wanted rows of its own: what
 * they cost does not depend on logits, nor logits on them. Nothing else may read x. Before
 * graph_finish. */
void graph_hidden(graph *g, graph_id x);

/* Marks the logits, or nothing, 0, if the graph ends in hidden states or stores what it computes;
 * every value but these must have been used. */
void graph_finish(graph *g, graph_id logits);

/* Whether a value is what the step gives back: it lies in the caller's memory. */
static inline bool graph_is_result(const graph *g, graph_id id)
{
    return id != 0 && (id == g->output || id == g->hidden);
}

/* OK, or the first error with the operation and index it happened at. */
weft_status graph_status(const graph *g, weft_error *err);

const char *graph_op_name(graph_op op);

/* One line a value: "%12 linear [tokens, 576] %11 %5". */
weft_status graph_print(const graph *g, strbuf *out);

/* Where a value lies during a step. start and end are moments of any clock that runs with the
 * values: their indices, or the phases of a backend that runs several together. */
typedef struct graph_slot {
    uint32_t start, end; /* first written, last read */
    graph_id shares;     /* an earlier value whose storage it takes, or 0 */
    /* In floats, a multiple of 16; SIZE_MAX: no storage (weights, tokens, states, results). */
    size_t offset;
    size_t size; /* in floats */
} graph_slot;

/* Fills start and end by index, shares 0. slots: [n_values]. */
void graph_lifetimes(const graph *g, graph_slot *slots);

/* Places the values of a step of at most so many rows in one block: two values overlap only if one
 * is dead before the other is first written. A value that shares extends the life of the one it
 * shares with. *total in floats; LIMIT on overflow. */
weft_status graph_place(const graph *g, graph_rows most, graph_slot *slots, size_t *total,
                        weft_error *err);

/* Index of the last value that reads id; id itself when none does. */
graph_id graph_last_use(const graph *g, graph_id id);

/* Of all matrices of a stack. */
uint64_t graph_stack_bytes(const graph *g, graph_id stack);

#endif
