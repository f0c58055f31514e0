/* backend.h - the contract of a compute backend: one const struct of functions, all of them
 * required.
 *
 * A backend plans a graph once per engine and runs it once per step. It never sees a sequence: a
 * step hands it flat arrays and one kv_view a row and state. Whatever the batch, each row's result
 * is what it would be alone (docs/numerics.md). To add a backend: a folder with the struct, a line
 * in backends.c. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdatomic.h>
#include <string.h>

#include "backend/kv_view.h"
#include "base/env.h"
#include "graph/graph.h"

typedef struct backend backend;           /* each backend defines its own */
typedef struct backend_plan backend_plan; /* likewise */

/* Experts are read from the files that they are mapped from, through so many bytes of memory. */
typedef struct backend_experts {
    uint64_t n_bytes;
    const io_map *maps;       /* [n_files] */
    const char *const *paths; /* [n_files] */
    uint32_t n_files;
} backend_experts;

typedef struct backend_expert_stats {
    uint64_t n_bytes;      /* of memory for them */
    uint64_t n_used;       /* experts that layers wanted, one at a time */
    uint64_t n_hits;       /* of these, those that were there */
    uint64_t n_ahead;      /* read before it was known that they would be wanted */
    uint64_t n_ahead_used; /* of these, those that were */
    uint64_t bytes_read;
} backend_expert_stats;

typedef struct backend_config {
    env env;
    const char *isa;    /* NULL: the best there is */
    weft_act act;       /* what the input of a linear layer is rounded to */
    uint32_t n_threads; /* at least 1 */
    /* NULL: experts are used where they are mapped. Borrowed until the backend is closed. */
    const backend_experts *experts;
} backend_config;

/* Where the time of runs went: one kind of work, in all of them. */
typedef struct backend_trace_part {
    const char *work;    /* "linear", "attend"; "barrier": what is not work. Static */
    const char *weights; /* encodings of what it reads, "q4_k+q6_k"; "": none. As the trace lives */
    uint32_t n_in, n_out; /* of matrices: columns, and rows of all that are computed together */
    uint64_t n_calls;
    uint64_t n_bytes; /* of weights, or of keys and values, each once a call */
    uint64_t ns;      /* of the thread that had most to do, each time */
    uint64_t idle_ns; /* how much less the one with least had */
} backend_trace_part;

/* One step: rows are sequences, tokens are concatenated row by row. */
typedef struct backend_step {
    uint32_t n_tokens, n_rows, n_outputs, n_hidden;
    const int32_t *ids;        /* [n_tokens], checked against the vocabulary */
    const uint32_t *positions; /* [n_tokens] */
    /* [n_tokens], the highest position that each sees, at least its own and that of the token
     * before: in a block of tokens that see each other, which lies in one step, its last. NULL:
     * their own. */
    const uint32_t *highest;
    /* [GRAPH_AXES, n_tokens]: where tokens are on the axes that ropes turn by. NULL: on each axis
     * where their position says. */
    const uint32_t *places;
    /* [n_feeds of the graph], each [n_tokens, its columns]. What only replace reads need be there
     * for marked tokens only, and not at all where none is; read only. */
    float *const *feeds;
    const uint8_t *marks;       /* [n_tokens], 1: replaced; NULL: none is */
    const uint32_t *row_starts; /* [n_rows + 1], token index of each row's first token */
    const uint32_t *outputs;    /* [n_outputs], ascending token indices whose logits are wanted */
    const uint32_t *hidden_of;  /* [n_hidden], likewise those whose hidden states are wanted */
    const kv_view *views;       /* [n_states, n_rows] */
    float *logits;              /* [n_outputs, n_vocab], or as wide as the graph's output is */
    float *hidden;              /* [n_hidden, columns of the graph's hidden states] */
    /* [layers]: where what comes out of a layer goes, [n_tokens, columns], or NULL; NULL: nothing
     * does. */
    float *const *taps;
    /* Added to: numbers of keys and values that were not finite, in rows whose codec keeps finite
     * ones only. NULL: not counted. */
    _Atomic(uint64_t) *n_nonfinite;
} backend_step;

/* Tokens [first, end) of x, to where the step wants what comes out of a layer. */
static inline void backend_tap(const backend_step *step, const graph_value *tap, const float *x,
                               size_t first, size_t end)
{
    float *to = step->taps != NULL ? step->taps[tap->i[0]] : NULL;
    size_t cols = tap->cols;
    if (to != NULL) memcpy(to + first * cols, x + first * cols, (end - first) * cols * sizeof *to);
}

static inline graph_rows backend_step_rows(const backend_step *step)
{
    return (graph_rows){
        .tokens = step->n_tokens, .outputs = step->n_outputs, .hidden = step->n_hidden};
}

/* The tokens that a take goes to. */
static inline const uint32_t *backend_taken(const backend_step *step, const graph_value *take)
{
    return take->rows == GRAPH_OUTPUTS ? step->outputs : step->hidden_of;
}

/* The row of an embedding that a token has. */
static inline uint64_t backend_embedded(const backend_step *step, const graph_value *input,
                                        uint32_t token_i)
{
    if (input->i[0] == GRAPH_IDS) return (uint64_t)step->ids[token_i];
    uint64_t position = input->i[0] == GRAPH_POSITIONS ? step->positions[token_i] : 0;
    return position + input->i[1];
}

/* Where a result of the graph goes. */
static inline float *backend_result(const backend_step *step, const graph *g, graph_id id)
{
    return id == g->output ? step->logits : step->hidden;
}

/* Positions [first, end) of a view. */
typedef struct backend_span {
    uint32_t first, end;
} backend_span;

/* What a token of a step sees: of a cross layer all there is, perhaps nothing; causal: no later
 * one of its block. */
static inline backend_span backend_seen(const backend_step *step, const kv_view *view,
                                        uint32_t token_i, bool causal)
{
    uint32_t position = step->positions[token_i];
    if (view->geometry->layout == KV_LAYOUT_CROSS) return (backend_span){0, view->len};
    uint32_t highest = step->highest == NULL || causal ? position : step->highest[token_i];
    return (backend_span){kv_lowest(view->geometry, position), highest + 1};
}

/* Where rope pair j sees a token. */
static inline uint32_t backend_place(const backend_step *step, const graph_rope *rope, uint32_t j,
                                     uint32_t token_i)
{
    if (rope->axes == NULL || step->places == NULL) return step->positions[token_i];
    return step->places[(size_t)rope->axes[j] * step->n_tokens + token_i];
}

/* What a plan must be able to run. */
typedef struct backend_limits {
    uint32_t n_tokens, n_rows, n_outputs, n_hidden;
    uint32_t context; /* positions of one sequence, or of its encoder, if those are more */
} backend_limits;

static inline graph_rows backend_most_rows(const backend_limits *limits)
{
    return (graph_rows){
        .tokens = limits->n_tokens, .outputs = limits->n_outputs, .hidden = limits->n_hidden};
}

static inline bool backend_step_fits(const backend_step *step, const backend_limits *limits)
{
    return step->n_tokens <= limits->n_tokens && step->n_outputs <= limits->n_outputs &&
           step->n_hidden <= limits->n_hidden;
}

/* Rows 0 .. n_rows - 1 of a page from one geometry to another that differs in codecs only; from's
 * are dense. */
typedef struct backend_conversion {
    const kv_geometry *from, *to;
    const unsigned char *src;
    unsigned char *dst;
    uint32_t n_rows;
    float *row; /* [the longer of k_dim and v_dim], scratch */
} backend_conversion;

typedef struct backend_api {
    const char *name;

    weft_status (*open)(const backend_config *config, backend **b, weft_error *err);
    void (*close)(backend *b); /* accepts NULL; plans are gone before */

    /* "avx512"; "" where there is no choice. */
    const char *(*isa)(const backend *b);

    /* Asked at load, never per step: UNSUPPORTED names the operation or the tensor and its
     * encoding. */
    weft_status (*supports)(const backend *b, const graph *g, weft_error *err);

    /* Memory for pages, where kernels can reach it; not cleared. NULL when refused. */
    void *(*alloc)(backend *b, size_t n_bytes);
    void (*release)(backend *b, void *block, size_t n_bytes);
    void (*copy)(backend *b, void *to, const void *from, size_t n_bytes);
    void (*convert)(backend *b, const backend_conversion *c);

    /* May allocate, and fuses as it likes. graph and its tensors are borrowed until plan_free. */
    weft_status (*plan)(backend *b, const graph *g, const backend_limits *limits,
                        backend_plan **plan, weft_error *err);
    void (*plan_free)(backend *b, backend_plan *plan);
    size_t (*plan_bytes)(const backend_plan *plan); /* without memory for experts */
    /* Of experts that are read when they are needed; may be called while a step runs. All zero
     * where there are none. */
    void (*experts)(const backend_plan *plan, backend_expert_stats *stats);

    /* Allocates nothing. DEVICE on failure, IO where an expert cannot be read; what lies beyond the
     * views' len is then undefined. */
    weft_status (*run)(backend *b, backend_plan *plan, const backend_step *step, weft_error *err);
    weft_status (*wait)(backend *b, weft_error *err);

    /* Measures where the time of the plan's runs goes, from here on and anew; off: no longer, and
     * what was measured is forgotten. NOMEM; UNSUPPORTED where nothing can be measured. */
    weft_status (*trace)(backend *b, backend_plan *plan, bool on, weft_error *err);
    /* Part i; returns how many there are, none without a trace. In the order of the plan, but that
     * the barrier is the first; their ns together are the time of the runs. */
    uint32_t (*trace_part)(const backend_plan *plan, uint32_t i, backend_trace_part *part);

    /* The fresh state of a recurrent layer anew, from its committed one and the first n positions
     * of the record that a run left in view: the bits that a step of those n alone would have made.
     * A marked state stays what the run made of it. Allocates nothing and cannot fail; n is at
     * least 1. */
    void (*replay)(backend *b, backend_plan *plan, uint32_t state_i, const kv_view *view,
                   uint32_t n);

    /* Bytes a second of a plain read over memory: the fastest of several loops with all threads.
     * block: [n_bytes] from the caller. */
    weft_status (*measure_read)(backend *b, const void *block, size_t n_bytes,
                                double *bytes_per_second, weft_error *err);
} backend_api;

/* NULL name: "cpu". ARGUMENT when there is none of that name. */
weft_status backend_find(const char *name, const backend_api **api, weft_error *err);

#endif
