/* state.h - what the files of engine/ share: requests and the engine's struct. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "base/thread.h"
#include "engine/draft.h"
#include "engine/engine.h"
#include "engine/media.h"
#include "engine/stops.h"
#include "kv/disk.h"
#include "kv/persist.h"
#include "sample/chain.h"
#include "tokenizer/detok.h"

typedef enum request_phase { REQUEST_WAITING, REQUEST_ACTIVE, REQUEST_DONE } request_phase;

/* Specs that requests of one engine may name; requests whose state is fetched from a folder at a
 * time. */
enum { ENGINE_STORES = 16, ENGINE_FETCHES = 4 };

/* What requests that name one spec store in. */
typedef struct engine_store {
    struct engine_store *next;
    kv_spec spec;
    char text[KV_SPEC_TEXT];
    kv_config config;
    uint32_t interval; /* tokens between boundaries; 0: none are needed */
    arena arena;
} engine_store;

/* The vector that a request asks for. */
typedef struct request_embedding {
    float *to;    /* the caller's; NULL: none is wanted */
    double *sums; /* [n_embd], of WEFT_POOLING_MEAN; else NULL */
    uint32_t n;   /* numbers of a vector */
    weft_pooling pooling;
    bool normalize, ready, polled;
} request_embedding;

/* What a request wants of layers: the caller's memory for each. */
typedef struct request_taps {
    uint32_t n;
    uint32_t layers[WEFT_TAPS];
    float *to[WEFT_TAPS]; /* [n_prompt, n_embd] */
} request_taps;

/* How a request's tokens are chosen. */
typedef struct request_sampling {
    weft_sampling params;  /* without dry_breakers; logit_bias is bias */
    weft_logit_bias *bias; /* [params.n_logit_bias] */
    uint64_t *breakers;    /* a mask of the tokens with one of dry_breakers; NULL: none */
    int32_t *stop_ids;     /* [n_stop_ids]: all that end it */
    uint32_t n_stop_ids, n_own_stops; /* the latter: those that the request has itself */
    uint32_t min_new, n_top;
    weft_top_logprob *top; /* [max_new, n_top]; token -1: there is none */
} request_sampling;

/* Who turns an answer's tokens into text. */
typedef struct text_reader {
    detok detok;
    stops_state stops;
} text_reader;

/* The text of an answer. */
typedef struct request_text {
    bool given; /* events carry it; else all but stop_id and stop_text is clear */
    stops stops;
    int32_t *shown; /* [n_shown]: special tokens that it has */
    uint32_t n_shown;
    text_reader stepping; /* the stepping thread's, looks for stop texts */
    text_reader polling;
    strbuf piece;               /* what the last event carried, and what is held back behind it */
    size_t n_given;             /* bytes of the former */
    str fresh;                  /* what a token made, until it lies in piece */
    bool has_fresh;             /* it does not yet */
    bool ended;                 /* a stop text was met by polling */
    int32_t stop_id, stop_text; /* what ended the answer; -1: none */
} request_text;

/* A request, from submit to release. The engine's lock guards every field but where it says
 * otherwise. */
struct request {
    struct request *prev, *next; /* of those that wait, in order of submission */
    weft_handle handle;
    uint64_t number; /* in order of submission */
    int32_t priority;
    uint64_t deadline;          /* of clock_now_ns(); 0: none */
    uint64_t ns_submitted;      /* likewise */
    uint64_t ns_first, ns_last; /* from there to its first and last token; 0: none */
    uint64_t n_idle;            /* steps it had no part in */
    uint64_t stepped, passed;   /* the last step it had a part in, and that it let others pass in */
    uint32_t n_paused;
    request_phase phase;
    int32_t *tokens; /* [n_prompt + max_new]: the prompt, then what was sampled */
    float *logprobs; /* [max_new] */
    uint32_t n_prompt, max_new, flags;
    uint32_t n_tokens;    /* known so far */
    uint32_t n_polled;    /* sampled tokens that were handed out */
    uint32_t max_ahead;   /* others that may be; 0: any number */
    uint32_t n_positions; /* most it will ever forward */
    request_sampling sampling;
    request_text text;
    float *prompt_logits, *new_logits; /* the caller's */
    uint32_t logits_rows;              /* of prompt_logits when it comes in pieces; else 0 */
    uint32_t piece_first, piece_rows;  /* of the piece that lies there; piece_rows 0: none */
    bool piece_polled;
    request_taps taps;
    media media;
    uint64_t *media_keys; /* [n_prompt + max_new], 0 where the id says it all; NULL: no images */
    request_embedding embedding;
    const engine_store *store;
    uint64_t salt;
    kv_space *space;            /* NULL: it neither finds nor leaves anything */
    kv_seq *seq;                /* while active; only the stepping thread looks inside */
    bool looked;                /* for its state in the folder, since it waits */
    bool made_room;             /* others were paused since then, so that there is room for it */
    bool begun;                 /* once */
    uint32_t n_known, n_cached; /* positions that were known, and those it began with */
    uint32_t n_begun;           /* what its sequence began with, the last time */
    uint32_t n_kept;            /* of the last boundary */
    weft_cache_limit cache_limit;
    const engine_drafter *drafter; /* NULL: nothing is proposed */
    void *draft_state;             /* [draft_bytes]; borrowed where that is 0 */
    size_t draft_bytes;
    request_draft draft;
    uint32_t n_drafted, n_accepted; /* drafts that steps verified, and those that were right */
    grammar_state *constraint;      /* what the answer must be; NULL: anything */
    weft_finish finish;
    weft_error error;
    bool done_polled, cancelled, released;
};

/* What its sequences are fed: its first n tokens. */
static inline kv_history request_history(const request *r, uint32_t n)
{
    return (kv_history){.ids = r->tokens, .media = r->media_keys, .n = n};
}

/* Whether it waits for its tokens to be polled. */
static inline bool request_rests(const request *r)
{
    return r->max_ahead > 0 && r->n_tokens >= r->n_prompt + r->n_polled + r->max_ahead;
}

/* Where a handle points. */
typedef struct request_slot {
    request *r; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* of free slots, index + 1; 0: none */
} request_slot;

/* A sequence's part of a step. */
struct batch_row {
    request *r;
    uint32_t first_output, n_outputs;
    uint32_t first_hidden, n_hidden; /* for its vector */
    int32_t *drafts; /* [n_drafts], behind the one token that is known; in batch.ids */
    uint32_t n_drafts;
    uint32_t n_known;   /* tokens of the request before the step */
    weft_finish finish; /* what the row's results made of the request; NONE: it goes on */
};

/* Flat arrays of one step, sized when the engine opens. */
typedef struct batch {
    backend_step step;
    int32_t *ids;         /* [n_tokens] */
    uint32_t *positions;  /* [n_tokens] */
    uint32_t *highest;    /* [n_tokens], of an encoder; else NULL */
    uint32_t *row_starts; /* [n_rows + 1] */
    uint32_t *outputs;    /* [n_outputs] */
    uint32_t *hidden_of;  /* [n_hidden] */
    kv_view *views;       /* [n_kv_layers, n_rows] */
    kv_txn_row *txn_rows; /* [n_rows] */
    uint32_t *keep;       /* [n_rows] */
    batch_row *rows;      /* [n_rows] */
    float *logits;        /* [n_outputs, n_vocab] */
    float *hidden;        /* [n_hidden, n_embd] */
    float **taps;         /* [n_layers], [n_tokens, n_embd] where a request ever wanted it */
    backend_limits limits;
} batch;

/* State on its way from the folder. */
typedef struct engine_fetch {
    request *r; /* NULL: none */
    kv_fetch fetch;
} engine_fetch;

struct weft_engine {
    env env;
    const llm *model; /* borrowed */
    const backend_api *api;
    backend_experts experts; /* what the backend is told, with expert_bytes */
    backend *backend;
    backend_plan *plan;
    engine_options options;
    engine_store *stores; /* the first is that of requests which name none */
    kv_pool *pool;
    kv_prefix *prefix; /* NULL: no cache */
    kv_files files;    /* guarded by the lock, as the next; nothing before has_origin */
    bool has_origin;
    kv_disk disk; /* without env: there is no folder; guarded by the lock, as the next */
    engine_fetch fetches[ENGINE_FETCHES];
    kv_txn txn;
    batch batch;
    draft_graph head;     /* of the model's own, without a graph where there is none */
    draft_model drafting; /* without a model where there is none, as the next */
    draft_assistant assistant;
    media_tower *tower; /* NULL until the first image; made under the lock, the stepping thread's */
    sample_scratch scratch;
    uint64_t *allowed; /* [sample_mask_words], of a token that is sampled */
    arena arena;       /* batch arrays */
    uint64_t weight_bytes_step;
    thread_lock *lock;   /* guards all below and the requests */
    request_slot *slots; /* [n_slots] */
    uint32_t n_slots, free_slot;
    request *first_waiting, *last_waiting; /* in order of submission */
    request **active;                      /* [max_sequences], n_active, who comes first first */
    uint32_t n_requests, n_active, n_waiting;
    uint64_t n_submitted, n_steps, n_paused;
    uint64_t ns_steps, ns_runs, ns_samples; /* as in weft_engine_info */
    uint64_t n_drafted, n_accepted;         /* of all requests */
    _Atomic(uint64_t) n_nonfinite;          /* of all steps, as in weft_engine_info */
    bool stepping;
};

/* Room for one more request: LIMIT or NOMEM. The functions of the queue are called with the lock
 * held. */
weft_status queue_reserve(weft_engine *e, weft_error *err);

/* After a queue_reserve; it waits then. Sets its handle. */
void queue_add(weft_engine *e, request *r);

/* NULL where there is none, or it was released. */
request *queue_find(const weft_engine *e, weft_handle handle);

/* Ends a request, if it has not ended, and frees it. Outside a run. */
void queue_remove(weft_engine *e, request *r);

/* Of active ones, those that were released during a run. */
void queue_free_released(weft_engine *e);

/* Before a step: ends what was cancelled or is late, pauses who must make room, begins who may. */
void queue_prepare(weft_engine *e);

/* When the rows of a step are chosen: whoever is not among them rises. */
void queue_count_idle(weft_engine *e);

/* Frees all. */
void queue_close(weft_engine *e);

/* Chooses the rows of a step and fills the batch; false when there is nothing to run. Called with
 * the lock held. */
bool scheduler_fill(weft_engine *e);

/* After a run: copies logits and samples, and what of each row stays. Called with the lock held. */
void scheduler_settle(weft_engine *e);

/* Then: commits, ends requests. Called with the lock held. */
void scheduler_commit(weft_engine *e);

/* After a failed run: nothing was forwarded, the rows' requests end with error. Called with the
 * lock held. */
void scheduler_fail(weft_engine *e, const weft_error *error);

/* Up to most ids that the request's drafter expects behind its newest token, all of them tokens;
 * fewer where the request or its sequence ends sooner. out: [most]. Called with the lock held. */
uint32_t verify_propose(weft_engine *e, request *r, uint32_t most, int32_t *out);

/* Samples from the row's logits [1 + n_drafts, n_vocab] until a draft is wrong or the request
 * ends, and returns for how many of those positions a run without drafts would have had a step: at
 * least 1. Touches no sequence. Called with the lock held. */
uint32_t verify_row(weft_engine *e, batch_row *row, const float *logits);

/* Whether layers can be tapped so. */
weft_status taps_check(const weft_engine *e, const weft_request *from, weft_error *err);
void taps_init(request *r, const weft_request *from);

/* Memory for what steps give of them, once. Called with the lock held. */
weft_status taps_open(weft_engine *e, const request *r, weft_error *err);
void taps_close(weft_engine *e);

/* What the coming step is to give. Called with the lock held, as the next. */
void taps_lay_out(weft_engine *e);

/* What it gave of the n tokens of a row of the batch, to the caller. */
void taps_take(const weft_engine *e, uint32_t row_i, uint32_t n);

/* Whether tokens can be chosen so. */
weft_status sampling_check_request(const weft_engine *e, const weft_request *from, weft_error *err);

/* Copies and memory for it; false when refused. r is clear but for its prompt and max_new. */
bool sampling_init(const weft_engine *e, request *r, const weft_request *from);
void sampling_deinit(const weft_engine *e, request *r);

/* The request's next token, from its logits and what it has so far. */
weft_status sampling_next(weft_engine *e, request *r, const float *logits, sample *out,
                          weft_error *err);

/* Whether a token ends it. */
bool sampling_stops(const request *r, int32_t id);

/* The likeliest tokens beside the one that is the next to be handed out. */
void sampling_give(const request *r, weft_event *event);

/* The model's tokenizer is there; else why not, of what. */
weft_status text_need_tokenizer(const weft_engine *e, const char *what, weft_error *err);

weft_status text_check(const weft_engine *e, const weft_request *from, weft_error *err);

/* As sampling_init. */
bool text_init(const weft_engine *e, request *r, const weft_request *from);
void text_deinit(const weft_engine *e, request *r);

/* What the request comes to by its newest token when its text is looked at, too. ERROR: it is in
 * r->error. */
weft_finish text_settle(request *r, weft_finish finish);

/* The text of the event TOKEN or DONE, which is the next to be handed out. NOMEM changes nothing.
 */
weft_status text_give(request *r, weft_event *event, weft_error *err);

/* Bytes of weights that a step of one token reads. */
uint64_t engine_weight_bytes(const graph *g);

/* What the answer must be: ARGUMENT, LIMIT, NOMEM. */
weft_status constraint_init(const weft_engine *e, request *r, const weft_request *from,
                            weft_error *err);
void constraint_deinit(request *r);

/* What may be sampled now: sets in->allowed. By the stepping thread. */
weft_status constraint_allow(weft_engine *e, const request *r, sample_input *in, weft_error *err);

/* A token that was sampled; *ended: it ends what the answer must be. */
weft_status constraint_take(request *r, int32_t id, bool *ended, weft_error *err);

/* How many of n drafts the answer could go on with: it takes no other. */
uint32_t constraint_most(request *r, const int32_t *drafts, uint32_t n);

/* A draft is taken for a while, so that the next is made with it in mind; false: it cannot be. All
 * that were are given back. By the stepping thread. */
bool constraint_try(request *r, int32_t draft);
void constraint_forget(request *r);

/* Up to most tokens that are likely to follow because there is little else. */
uint32_t constraint_forced(const request *r, uint32_t most, int32_t *out);

/* Whether what is asked for can be had, and as what. */
weft_status embed_check(const weft_engine *e, const weft_request *from, weft_error *err);

/* Memory for it; false when refused. r is clear but for its prompt. */
bool embed_init(const weft_engine *e, request *r, const weft_request *from);
void embed_deinit(const weft_engine *e, request *r);

/* Hidden states of the row's prompt that its vector is made of: so many of the n tokens behind len,
 * the first of them *skip behind. */
uint32_t embed_wanted(const request *r, uint32_t n, uint32_t *skip);

/* Whether it is made of tokens before the last. */
bool embed_needs_all(const request *r);

/* Takes the row's hidden states; n: its tokens. Ends the request where its vector has something
 * that is no number. Called with the lock held. */
void embed_take(weft_engine *e, batch_row *row, uint32_t n);

/* Ends a request: its state is given back. Called with the lock held, outside a run. */
void request_end(weft_engine *e, request *r, weft_finish finish, const weft_error *error);

/* The spec that a text means in an engine with such options, and what it makes of the model. */
weft_status cache_spec(const llm *m, const engine_options *o, const char *kv, kv_spec *spec,
                       weft_error *err);
weft_status cache_config(const llm *m, const engine_options *o, const kv_spec *spec, arena *a,
                         kv_config *config, weft_error *err);

/* Bytes of the budget that the cache keeps whatever is evicted, beside what it would lend r of
 * them; r NULL: nothing. */
uint64_t cache_bytes_fixed(weft_engine *e, const request *r);

/* What a spec is stored in, made if need be; kv NULL: the engine's. ARGUMENT and UNSUPPORTED as
 * kv/spec.h says, LIMIT where there are too many. Called with the lock held. */
weft_status cache_store(weft_engine *e, const char *kv, const engine_store **store,
                        weft_error *err);

/* Gives all of it back; every request is gone. */
void cache_close(weft_engine *e);

/* Whether the request may begin with what others left; and whether it leaves something. */
bool cache_finds(const weft_engine *e, const request *r);
bool cache_leaves(const weft_engine *e, const request *r);

/* Whose files are whose: all weights are read for it, once. */
weft_status files_know_origin(weft_engine *e, weft_error *err);

/* The folder that the options name, if any. */
weft_status disk_open(weft_engine *e, weft_error *err);

/* disk_close_begin comes before requests are ended. */
void disk_close_begin(weft_engine *e);
void disk_close(weft_engine *e);

/* Called with the lock held, as those that follow: goes on with what is fetched. */
void disk_step(weft_engine *e);

typedef enum disk_look {
    DISK_LOOK_NONE, /* there is nothing for it, or no more */
    DISK_LOOK_WAIT, /* it is to wait for its state from there */
    DISK_LOOK_ROOM, /* there may be something, and is no room for the request now */
} disk_look;

/* What the folder has for a request that is about to begin; looks there once. */
disk_look disk_look_for(weft_engine *e, request *r);

/* After ROOM: whether it has something. If not it is not looked for again. */
bool disk_has(weft_engine *e, request *r);

/* Gives up what is fetched for it. */
void disk_end(weft_engine *e, const request *r);

/* cache_begin; *later: what is in the way is being written, and gives way in a later step. */
weft_status disk_begin(weft_engine *e, request *r, uint32_t n_positions, bool *later,
                       weft_error *err);

void disk_info(const weft_engine *e, weft_engine_info *info);

/* r->seq for n_positions, with what is known of its tokens. As kv_seq_create. */
weft_status cache_begin(weft_engine *e, request *r, uint32_t n_positions, weft_error *err);

/* Positions of its next n after which recurrent states are to be marked; 0: none. */
uint32_t cache_mark(const request *r, uint32_t n);

/* Keeps what may be useful, after a commit. */
void cache_keep(weft_engine *e, request *r);

/* Gives r->seq up. */
void cache_end(weft_engine *e, request *r);

/* Images of a request, brought to their size; media_free gives them back. */
weft_status media_take(const weft_engine *e, const weft_request *from, media *m, weft_error *err);
void media_free(const weft_allocator *a, media *m, uint32_t n_embd);

/* The prompt with all tokens of images: tokens and keys [m->n_prompt]; keys NULL without images. */
void media_expand(const weft_engine *e, const media *m, const weft_request *from, int32_t *tokens,
                  uint64_t *keys);

/* The size an image comes to (without pixels), and the tokens for its placeholder. */
weft_status media_size(const weft_engine *e, uint32_t width, uint32_t height, bool as_is,
                       vision_image *to, weft_error *err);
uint32_t media_tokens(const weft_engine *e, const vision_image *image);

/* What encoding needs, if it is not there. Called with the lock held. */
weft_status media_open(weft_engine *e, weft_error *err);
void media_close(weft_engine *e);

/* As many of the n tokens that follow len as leave no block in pieces. */
uint32_t media_whole(const media *m, uint32_t len, uint32_t n);

/* Ids as the model embeds them: those of placeholders as padding, where it does so. */
void media_pad(const weft_engine *e, int32_t *ids, uint32_t n);

/* What the tokens of the batch are beside their ids. Called with the lock held. */
void media_lay_out(weft_engine *e);

/* Encodes the images that the batch is the first to need, and lays out what replaces its tokens. */
weft_status media_encode(weft_engine *e, weft_error *err);

/* Frees a request that is in no list. */
void request_destroy(const weft_engine *e, request *r);

#endif
