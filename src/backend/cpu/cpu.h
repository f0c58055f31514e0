/* cpu.h - the CPU backend: plan and run share these structs; nobody else looks inside.
 *
 * A plan is a list of phases. All threads walk it together with a barrier between phases:
 *   PHASE_TOKENS  operations that treat each row alone (norm, rope, append, add, preparing a linear
 *                 input): a thread takes some rows through all of them
 *   PHASE_LINEAR  one or more linear layers of one input, with what was fused onto them: a residual
 *                 added, or gate and up with their activation; threads take chunks of output rows
 *   PHASE_ATTEND  one attention; threads take (row, head, tile of queries)
 *   PHASE_HEADS   one linear_heads; threads take heads, or chunks of a head's output rows
 *   PHASE_GROUP   one experts, in four: (token, expert) pairs are sorted by expert,
 *   PHASE_INNER   gate, up and activation for each pair: threads take (expert, chunk of rows),
 *   PHASE_PAIRS   the results are prepared as inputs, a thread some pairs,
 *   PHASE_OUTER   down for each pair; a token's sum over its pairs is then an operation of its own
 *   PHASE_STREAM  or all of these, for some experts at a time, where experts are read when they are
 *                 needed
 *   PHASE_RECUR   one conv or gated_delta; threads take (row, some columns or a head), and go
 *                 through the row's tokens in order
 *   PHASE_SELECT  one select; threads take tokens, or some of the positions that a token sees
 */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/experts.h"
#include "backend/host.h"
#include "base/arena.h"
#include "base/thread.h"
#include "kv/codecs/codec.h"

extern const backend_api BACKEND_CPU;

struct backend {
    env env;
    weft_act act;
    cpu_kernels kernels;
    thread_pool *pool;
    uint32_t n_threads;
    bool streams; /* experts, as the config says */
    backend_experts experts;
};

typedef enum phase_kind {
    PHASE_TOKENS,
    PHASE_LINEAR,
    PHASE_ATTEND,
    PHASE_HEADS,
    PHASE_GROUP,
    PHASE_INNER,
    PHASE_PAIRS,
    PHASE_OUTER,
    PHASE_STREAM,
    PHASE_RECUR,
    PHASE_SELECT,
} phase_kind;

/* A step of PHASE_TOKENS: a graph value, or one of the backend's own. */
typedef enum token_op_kind { TOKEN_VALUE, TOKEN_PREPARE, TOKEN_ROPES } token_op_kind;

typedef struct token_op {
    token_op_kind kind;
    graph_id id;            /* the value; of PREPARE the input it prepares */
    bool to_bf16, to_codes; /* of PREPARE: the forms that its readers want; neither: a copy */
    uint32_t n_heads; /* of PREPARE: each is an input of its own, its rows behind one another */
} token_op;

/* One linear layer of a phase. */
typedef struct linear_op {
    graph_id id;     /* the linear */
    graph_id result; /* where its result is stored: itself, or the add it was fused with */
    graph_id add;    /* residual, or 0 */
    kernel_linear_fn *fn;
    const float *bias; /* decoded, or NULL */
} linear_op;

typedef struct phase {
    phase_kind kind;
    uint32_t rows;     /* GRAPH_TOKENS, GRAPH_OUTPUTS or GRAPH_HIDDEN */
    uint32_t first, n; /* of token_ops or linear_ops */
    /* Of ATTEND, SELECT, RECUR, HEADS and experts, or the glu fused onto the two linear_ops. */
    graph_id id;
    bool to_bf16, to_codes; /* of PAIRS: the forms that down wants */
} phase;

/* The buffers behind a kernel_input, each large enough for the widest input of a step. */
typedef struct cpu_input {
    float *f;
    uint16_t *h;
    unsigned char *codes;
} cpu_input;

/* Experts that a token goes to, as pairs sorted by expert, then token. */
typedef struct cpu_pairs {
    uint32_t *first;  /* [n_experts + 1], an expert's first pair */
    uint32_t *active; /* [n_experts], those that have pairs */
    uint32_t n_active;
    uint32_t now, end; /* of active: those at work */
    uint32_t *slots;   /* [n_experts], of a store, where those at work are; NULL: as mapped */
    uint32_t *tokens;  /* [n_pairs] */
    uint32_t *places;  /* [n_tokens, top_k], the pair of a token's k-th expert */
    float *inner, *up, *outer; /* [n_pairs, I], likewise, [n_pairs, d] */
    cpu_input input;           /* of down: the plan's, which has done its work for gate and up, but
                                  where experts are streamed and others need it again */
} cpu_pairs;

/* Tokens whose experts are guessed, spread over those of a step; operations before a router. */
enum { GUESS_TOKENS = 16, GUESS_CHAIN = 4 };

/* How the experts of a layer are guessed before its router has its input: by that router, from what
 * an earlier layer's router had. */
typedef struct cpu_guess {
    graph_id layer;              /* whose experts; 0: none are guessed */
    graph_id from;               /* the value to begin with */
    graph_id chain[GUESS_CHAIN]; /* [n_chain], values whose operations lead to the router */
    uint32_t n_chain;
} cpu_guess;

/* What one thread needs for itself. */
typedef struct cpu_scratch {
    float *row;     /* decoded weight rows */
    cpu_input some; /* [EXPERT_TOKENS], inputs of tokens that go to one expert */
    host_router router;
    float *q;       /* [ATTEND_TASK_QUERIES, k_dim] */
    float *rows;    /* [KERNEL_ROWS, k_dim or v_dim], packed keys or values decoded */
    float *s;       /* [ATTEND_TASK_QUERIES, KV_SPLIT] */
    float *part;    /* [ATTEND_TASK_QUERIES, v_dim + 2]: o, then maximum and sum, of one split */
    float *total;   /* likewise, of all splits so far */
    uint32_t *bins; /* [HOST_SELECT_BINS], where there is a select */
    float *qk;      /* [2 * k_dim], a query and a key of gated_delta brought to length */
} cpu_scratch;

/* Tokens of an expert whose inputs are brought together at a time. */
enum { EXPERT_TOKENS = 16 };

/* Queries (tokens times heads that share a key head) of a tile; of all tiles that go through a page
 * together, and how many those may be. */
enum { ATTEND_QUERIES = 16, ATTEND_TASK_QUERIES = 64, ATTEND_TILES = 16 };

typedef struct cpu_trace cpu_trace; /* of trace.c */

struct backend_plan {
    const graph *g;
    backend_limits limits;
    size_t n_bytes;
    graph_slot *slots; /* [n_values] */
    float *values;     /* [n_floats] */
    /* [n_values], norm weights by their norm (of layer_norm with the bias behind them), others by
     * their weight, biases of experts [E, n] by their stack, of conv [taps, cols], of gated_delta
     * what keys, then queries, are multiplied by; else NULL */
    const float **decoded;
    phase *phases; /* [n_phases] */
    token_op *token_ops;
    linear_op *linear_ops;
    uint32_t n_phases, n_token_ops, n_linear_ops;
    atomic_uint *next;    /* [n_phases * 2], the work that is not yet taken */
    cpu_input input;      /* what PREPARE fills, for the linear layers of the next phase */
    cpu_pairs pairs;      /* of the experts at work */
    float *ropes;         /* [n_ropes][n_tokens, n_pairs, 2] behind one another */
    size_t *rope_offsets; /* [n_ropes] */
    float *zeros;         /* [the widest conv], a token before the first */
    float *ones;          /* [the widest act], what it multiplies */
    cpu_scratch *scratch; /* [n_threads] */
    float *parts; /* [n_parts, ATTEND_QUERIES, part_stride]: splits computed apart, merged later */
    size_t n_parts;
    uint32_t part_stride;
    float *index_scores; /* [cpu_score_rows, context], where there is a select */
    /* Where experts are streamed; else NULL. */
    expert_store *store;
    atomic_int failed;  /* WEFT_OK, or why a run stops */
    weft_error error;   /* and what of; written by the thread that changed failed */
    cpu_guess *guesses; /* [n_values], of an experts what is guessed while it is at work */
    struct {
        cpu_input input;       /* [GUESS_TOKENS] of the widest router */
        float *x;              /* likewise */
        float *scores, *route; /* [GUESS_TOKENS, n_experts], [2 * n_experts] */
        uint32_t *list;        /* [n_experts] */
        bool *listed;          /* [n_experts] */
    } guess;
    arena arena;      /* owns all of the above */
    cpu_trace *trace; /* NULL: nobody asks where time goes */
};

/* One run. */
typedef struct cpu_run {
    const backend *b;
    backend_plan *p;
    const backend_step *step;
} cpu_run;

weft_status cpu_plan(backend *b, const graph *g, const backend_limits *limits, backend_plan **plan,
                     weft_error *err);
void cpu_plan_free(backend *b, backend_plan *plan);

/* Runs every phase, as one of the pool's threads. */
void cpu_run_thread(void *user, uint32_t thread_i);

/* The attention of phase_i, for one thread; has its own barrier where splits are merged. */
void cpu_attend(const cpu_run *r, uint32_t phase_i, uint32_t thread_i);

/* The select of phase_i, for one thread; has its own barrier where few tokens are divided. */
void cpu_select(const cpu_run *r, uint32_t phase_i, uint32_t thread_i);

/* Rows of scores that a select works with: one for each thread, or for each token of few. */
static inline uint32_t cpu_score_rows(uint32_t n_threads)
{
    return n_threads == 1 ? 1 : 2 * n_threads;
}

/* How the keys of a view are read: as they lie, or decoded some rows at a time. */
typedef struct cpu_keys {
    const kv_codec *codec;
    bool decoded;
    bool prepared; /* queries against them are prepare_query's */
    kernel_scores_fn *scores;
} cpu_keys;

typedef struct cpu_span {
    uint32_t first, end;
} cpu_span;

cpu_keys cpu_keys_of(const backend *b, const kv_geometry *g);

/* n queries x [n, k_dim] as scores of these keys want them -> to, likewise. */
void cpu_put_queries(const backend *b, const cpu_keys *keys, const kv_geometry *g, const float *x,
                     uint32_t n, float *to);

/* Whether values of n_cols columns are decoded before so many queries use them. */
bool cpu_is_decoded(const kv_codec *codec, const kv_geometry *g, uint32_t n_q, uint32_t n_cols);

/* Positions from first on, up to end, that lie in one page; few, if they are decoded. */
cpu_span cpu_run_of_keys(const kv_geometry *g, bool decoded, uint32_t first, uint32_t end);

/* Scores of a's queries, as cpu_put_queries left them, with the n_keys rows of one page that a.k
 * points to. rows: [KERNEL_ROWS, k_dim], scratch; dim and packed of a are filled here. */
void cpu_score_keys(const backend *b, const cpu_keys *keys, const kv_geometry *g, float *rows,
                    kernel_scores a);

/* The phases of linear_heads and of experts. */
void cpu_run_heads(const cpu_run *r, uint32_t phase_i, uint32_t thread_i);
void cpu_group_pairs(const cpu_run *r, const phase *ph);
void cpu_run_inner(const cpu_run *r, const phase *ph, atomic_uint *next, uint32_t thread_i);
void cpu_prepare_pairs(const cpu_run *r, const phase *ph, uint32_t thread_i);
void cpu_run_outer(const cpu_run *r, const phase *ph, atomic_uint *next, uint32_t thread_i);

/* All of a layer's experts, some at a time, for one thread; has barriers of its own. When it
 * returns all threads see the same r->p->failed. */
void cpu_run_stream(const cpu_run *r, uint32_t phase_i, uint32_t thread_i);

/* Whether what a slot of the store has can be computed with, once it has been read; false makes the
 * run fail. True without a store. */
bool cpu_wait_expert(const cpu_run *r, uint32_t slot);

/* How experts are guessed: before values get their places, as what is needed for it has to stay
 * until phase_of [n_values] its layer. False when memory is refused. */
bool cpu_plan_guesses(const backend *b, backend_plan *p, const uint32_t *phase_of);

/* Reads ahead what the layer behind one is likely to want. */
void cpu_guess_experts(const cpu_run *r, graph_id layer);

/* Cleared memory of the plan, aligned to a cache line; NULL when refused. */
void *cpu_plan_take(backend_plan *p, size_t count, size_t size);
bool cpu_plan_input(const backend *b, backend_plan *p, cpu_input *in, size_t n, size_t codes_bytes);

/* Where the time of runs goes: backend_api.trace and trace_part. */
weft_status cpu_trace_set(backend *b, backend_plan *plan, bool on, weft_error *err);
uint32_t cpu_trace_part(const backend_plan *plan, uint32_t i, backend_trace_part *part);

/* What a run with a trace calls: before and after, and each thread as it begins and ends a phase,
 * and has done an operation of PHASE_TOKENS. */
void cpu_trace_start(cpu_trace *t);
void cpu_trace_fold(const cpu_run *r);
void cpu_trace_begin(cpu_trace *t, uint32_t phase_i, uint32_t thread_i);
void cpu_trace_end(const cpu_run *r, uint32_t phase_i, uint32_t thread_i);
void cpu_trace_op(cpu_trace *t, uint32_t op_i, uint32_t thread_i);

/* The recurrence of phase_i, for one thread. */
void cpu_recur(const cpu_run *r, uint32_t phase_i, uint32_t thread_i);

/* backend_api.replay */
void cpu_replay(backend *b, backend_plan *plan, uint32_t state_i, const kv_view *view, uint32_t n);

/* Storage of a value in this run. */
float *cpu_data(const cpu_run *r, graph_id id);

/* The sequence that token i belongs to. */
uint32_t cpu_row_of(const backend_step *step, uint32_t token_i);

/* Rows of this step. */
uint32_t cpu_n_rows(const cpu_run *r, uint32_t rows);

/* Rows that a thread takes of so many: some pieces per thread even out what other programs take
 * from it, and whole cache lines of outputs keep threads apart. */
uint32_t cpu_chunk_rows(uint32_t rows, uint32_t n_threads);

kernel_glu_fn *cpu_glu_fn(const cpu_kernels *k, uint32_t act);

/* The loop for weights of an encoding. */
kernel_linear_fn *cpu_linear_fn(const backend *b, const tensor *t);

/* Row i of a prepared input is x. */
typedef struct cpu_forms {
    bool to_bf16, to_codes;
} cpu_forms;

/* From one token's codes to the next's. */
size_t cpu_codes_bytes(const backend *b, uint32_t cols);

void cpu_prepare_row(const backend *b, const cpu_input *in, size_t i, const float *x, uint32_t cols,
                     cpu_forms forms);

/* Rows from i on, as loops want them. */
kernel_input cpu_input_at(const backend *b, const cpu_input *in, size_t i, uint32_t cols);

#endif
