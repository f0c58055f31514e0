/* state.h - what the files of engine/ share: requests and the engine's struct. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "base/thread.h"
#include "engine/engine.h"
#include "kv/txn.h"
#include "sample/chain.h"

typedef enum request_phase { REQUEST_WAITING, REQUEST_ACTIVE, REQUEST_DONE } request_phase;

/* A request, from submit to release. The engine's lock guards every field but where it says
 * otherwise. */
typedef struct request {
    struct request *next; /* in order of submission */
    weft_handle handle;
    request_phase phase;
    int32_t *tokens; /* [n_prompt + max_new]: the prompt, then what was sampled */
    float *logprobs; /* [max_new] */
    int32_t *stop_ids;
    uint32_t n_prompt, max_new, n_stop_ids, flags;
    uint32_t n_tokens;    /* known so far */
    uint32_t n_polled;    /* sampled tokens that were handed out */
    uint32_t n_positions; /* most it will ever forward */
    weft_sampling sampling;
    float *prompt_logits, *new_logits; /* the caller's */
    uint32_t logits_rows;              /* of prompt_logits when it comes in pieces; else 0 */
    uint32_t piece_first, piece_rows;  /* of the piece that lies there; piece_rows 0: none */
    bool piece_polled;
    kv_seq *seq; /* while active; only the stepping thread looks inside */
    weft_finish finish;
    weft_error error;
    bool done_polled, cancelled, released;
} request;

/* A sequence's part of a step. */
typedef struct batch_row {
    request *r;
    uint32_t first_output, n_outputs;
} batch_row;

/* Flat arrays of one step, sized when the engine opens. */
typedef struct batch {
    backend_step step;
    int32_t *ids;         /* [n_tokens] */
    uint32_t *positions;  /* [n_tokens] */
    uint32_t *row_starts; /* [n_rows + 1] */
    uint32_t *outputs;    /* [n_outputs] */
    kv_view *views;       /* [n_kv_layers, n_rows] */
    kv_txn_row *txn_rows; /* [n_rows] */
    uint32_t *keep;       /* [n_rows] */
    batch_row *rows;      /* [n_rows] */
    float *logits;        /* [n_outputs, n_vocab] */
    backend_limits limits;
} batch;

struct weft_engine {
    env env;
    const llm *model; /* borrowed */
    const backend_api *api;
    backend *backend;
    backend_plan *plan;
    engine_options options;
    kv_spec kv_spec;
    char kv_text[KV_SPEC_TEXT];
    kv_config kv;
    kv_pool *pool;
    kv_txn txn;
    batch batch;
    sample_scratch scratch;
    arena arena; /* batch arrays, kv config */
    uint64_t weight_bytes_step;
    thread_lock *lock; /* guards all below and the requests */
    request *first, *last;
    uint32_t n_requests, n_active;
    weft_handle next_handle;
    bool stepping;
};

/* Chooses the rows of a step and fills the batch; false when there is nothing to run. Called with
 * the lock held; admits, drops what was cancelled. */
bool scheduler_fill(weft_engine *e);

/* After a run: commits, copies logits, samples, ends requests. Called with the lock held. */
void scheduler_publish(weft_engine *e);

/* After a failed run: nothing was forwarded, the rows' requests end with error. Called with the
 * lock held. */
void scheduler_fail(weft_engine *e, const weft_error *error);

/* Ends a request: its state is given back. Called with the lock held, outside a run. */
void request_end(weft_engine *e, request *r, weft_finish finish, const weft_error *error);

/* Unlinks and frees a released request. */
void request_free(weft_engine *e, request *r);

#endif
