/* draft.h - drafts that graphs make, for requests that name such a drafter (drafters/drafter.h).
 *
 * A step with drafts goes so, by engine.c and scheduler.c:
 *
 *   fill (lock)    draft_prepare, then for each row that decodes draft_plan: how many drafts there
 *                  will be, for which the row has places; draft_fill
 *   draft_propose  a draft model reads what is new and writes drafts into those places; an
 *                  assistant makes all of them, a head further ones out of its first
 *   run, settle    as without drafts: verify.c says what stays
 *   draft_follow   a head goes over what stays, which gives its first draft of the next step; an
 *                  assistant keeps the hidden state that the next ones are made of
 *   commit (lock)  draft_commit
 *
 * What fails costs drafts and no request, unless it is the device: then the step has failed.
 *
 * Nothing of this changes what a row gives, so no answer depends on it. What lies between fill and
 * commit runs without the lock but for what touches a pool. */
#ifndef ENGINE_DRAFT_H
#define ENGINE_DRAFT_H

#include "engine/drafters/drafter.h"
#include "kv/prefix.h"
#include "models/model.h"

typedef struct request request;
typedef struct batch_row batch_row;

/* What drafts of a graph need of a request; the stepping thread's. */
typedef struct request_draft {
    uint32_t n_planned; /* drafts of this step */
    uint32_t n_tried;   /* of them, those that the answer's constraint has taken for a while */
    float *hidden;      /* [n_embd], of a head or an assistant: that its next draft is made of */
    int32_t first;      /* the first draft; of a head that behind first_at tokens, */
    uint32_t first_at;  /* 0: there is none; of an assistant, where hidden stands */
    kv_seq *seq;        /* in the draft model; NULL: it has none (yet) */
    kv_space *space;
    uint32_t n_kept;
    bool refused; /* there was no room for it, and none has come free since */
    bool lost;    /* of a head: its sequence has positions without the head's state */
} request_draft;

/* A graph beside the model's, and flat arrays of one run of it. */
typedef struct draft_graph {
    const graph *graph; /* borrowed */
    backend_plan *plan;
    backend_limits limits;
    backend_step step;
    int32_t *ids;         /* [n_tokens] */
    uint32_t *positions;  /* [n_tokens] */
    uint32_t *row_starts; /* [n_rows + 1] */
    uint32_t *outputs;    /* [n_outputs]; hidden states are of the same tokens */
    kv_view *views;       /* [n_states, n_rows] */
    float *feed;          /* [n_tokens, n_feed] */
    float *logits;        /* [n_outputs, n_vocab] */
    float *hidden;        /* [n_outputs, n_hidden] */
    request **requests;   /* [n_rows] */
    uint32_t n_states, n_feed, n_hidden, n_vocab;
    uint64_t more_bytes; /* of weights, that a draft reads beside those of the graph */
    uint32_t cost;       /* of a draft, in DRAFT_STEP-ths of a step of one token */
    arena arena;
} draft_graph;

/* A model that drafts, with state and a cache of its own. */
typedef struct draft_model {
    draft_graph g;
    const llm *model; /* borrowed */
    kv_config config;
    kv_pool *pool;
    kv_prefix *prefix; /* NULL: no cache */
    kv_txn txn;
    kv_txn_row *txn_rows;     /* [n_rows] */
    uint32_t *keep;           /* [n_rows] */
    const batch_row **places; /* [n_rows], whose drafts the open transaction has */
    uint32_t budget;          /* tokens that are left of this step's */
    arena arena;
} draft_model;

/* A model that drafts out of what the engine's own has stored. */
typedef struct draft_assistant {
    draft_graph g;    /* its logits may be scores, of which logits are made */
    const llm *model; /* borrowed */
    uint32_t *donors; /* [g.n_states], layers of the engine's model */
    uint32_t *places; /* [GRAPH_AXES, n_rows] */
    float *row;       /* [its n_embd] */
    float *logits;    /* [n_vocab] */
    arena arena;
} draft_assistant;

/* What the engine's options ask for. */
weft_status draft_open(weft_engine *e, weft_error *err);
void draft_close(weft_engine *e);

/* Whether requests may name it; ARGUMENT says what is missing. */
weft_status draft_check(const weft_engine *e, const engine_drafter *drafter, weft_error *err);

/* Memory of a request, whose drafter is known; false when refused. */
bool draft_init(const weft_engine *e, request *r);
void draft_deinit(const weft_engine *e, request *r);

/* Whether the hidden states of all tokens of a step are wanted. */
bool draft_reads_hidden(const weft_engine *e);

/* The layers of an engine's sequences: the model's, and the head's behind them where head is set.
 * From a, NULL: refused. */
const kv_layer *draft_layers(const llm *m, bool head, arena *a, uint32_t *n_layers);

/* Called with the lock held, in this order. */
void draft_prepare(weft_engine *e);
uint32_t draft_plan(weft_engine *e, request *r, uint32_t most, int32_t *out);
void draft_fill(weft_engine *e);

/* Called without; DEVICE or nothing. */
weft_status draft_propose(weft_engine *e, weft_error *err);
weft_status draft_follow(weft_engine *e, weft_error *err);

/* Called with the lock held, before any of the step's requests ends. */
void draft_commit(weft_engine *e);
void draft_fail(weft_engine *e);

/* Gives up what a request that ends has. Called with the lock held, outside of a run. */
void draft_end(weft_engine *e, request *r);

/* A request's sequence is about to begin. */
void draft_begin(request *r);

/* What is said of them; draft_info is called with the lock held. */
void draft_info(const weft_engine *e, weft_engine_info *info);
uint64_t draft_scratch_bytes(const weft_engine *e);

/* ---- between the files of this kind ---------------------------------------------------------- */

/* A plan and arrays; n_states, n_feed, n_hidden, n_vocab, more_bytes and limits are set. */
weft_status draft_graph_open(weft_engine *e, draft_graph *g, const graph *of, weft_error *err);
void draft_graph_close(weft_engine *e, draft_graph *g);

/* An empty step; a row of n tokens, of whose last there are logits and hidden states if it draws;
 * and the step as it is then. Rows point to tokens with ids, positions and feeds still to be
 * filled. */
void draft_graph_begin(draft_graph *g);
uint32_t draft_graph_add(draft_graph *g, request *r, uint32_t n, bool draws);
weft_status draft_graph_run(weft_engine *e, draft_graph *g, weft_error *err);

/* What the request would sample from such logits at a position, behind the drafts that were tried;
 * 0, a guess like any other, where they are no numbers. */
int32_t draft_sample(weft_engine *e, const request *r, const float *logits, uint32_t position);

/* The part of a row's drafts that was right. */
uint32_t draft_n_right(const batch_row *row);

weft_status draft_model_open(weft_engine *e, weft_error *err);
void draft_model_close(weft_engine *e);
void draft_model_prepare(weft_engine *e);
uint32_t draft_model_plan(draft_model *d, request *r, uint32_t most);
weft_status draft_model_fill(weft_engine *e, weft_error *err);
weft_status draft_model_propose(weft_engine *e, weft_error *err);
void draft_model_give_up(weft_engine *e);
void draft_model_commit(weft_engine *e);
void draft_model_end(weft_engine *e, request *r);

weft_status draft_assistant_open(weft_engine *e, weft_error *err);
void draft_assistant_close(weft_engine *e);
uint32_t draft_assistant_plan(const weft_engine *e, const request *r, uint32_t most);
weft_status draft_assistant_propose(weft_engine *e, weft_error *err);
void draft_assistant_follow(weft_engine *e);

weft_status draft_head_open(weft_engine *e, weft_error *err);
weft_status draft_head_propose(weft_engine *e, weft_error *err);
weft_status draft_head_follow(weft_engine *e, weft_error *err);

#endif
