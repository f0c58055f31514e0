/* runs.h - models, engines and whole requests in one call, for tests that compare answers. */
#ifndef SUPPORT_RUNS_H
#define SUPPORT_RUNS_H

#include "base/json.h"
#include "engine/drafters/drafter.h"
#include "support/test.h"

/* Opens or fails the test. */
weft_model *run_open_model(const char *path);
weft_engine *run_open_engine(const weft_model *model, const weft_engine_options *options);

uint32_t run_n_vocab(const weft_model *model);

/* [n] ids below n_vocab, for the caller to free. */
int32_t *run_random_ids(uint32_t n, uint32_t n_vocab, uint64_t seed);

/* One request and all it gave. Set prompt, n_prompt, max_new (and sampling, stop ids, draft);
 * run_all fills the rest. */
typedef struct run {
    const int32_t *prompt;
    uint32_t n_prompt, max_new;
    bool want_prompt_logits, stops; /* stops: end tokens end it */
    const char *kv;                 /* as in weft_request */
    uint32_t flags;                 /* likewise, beside what stops says */
    weft_sampling sampling;         /* all zero: greedy */
    const int32_t *stop_ids;        /* [n_stop_ids], with stops */
    uint32_t n_stop_ids;
    const char *draft; /* as in weft_request */
    int32_t priority;  /* likewise, with the next */
    uint32_t deadline_ms;
    uint64_t cache_salt;
    const char *const *stop_texts; /* [n_stop_texts], as in weft_request; so the next two */
    uint32_t n_stop_texts, min_new, n_top;
    const weft_grammar *grammar;
    const weft_image *images; /* [n_images] */
    uint32_t n_images;
    uint32_t n_expanded;           /* tokens of the prompt with those of images; 0: n_prompt */
    const engine_drafter *drafter; /* one that is in no table, with its state */
    void *draft_state;
    int32_t *tokens; /* [n_tokens] */
    float *logprobs; /* [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_cached, n_known;
    weft_cache_limit cache_limit;
    float *prompt_logits;  /* [n_prompt or n_expanded, n_vocab] or NULL */
    float *new_logits;     /* [max_new, n_vocab] */
    weft_top_logprob *top; /* [max_new, n_top]; token -1: there is none */
    char *text;            /* [n_text], of all events; NUL-terminated */
    size_t n_text;
    int32_t stop_id, stop_text;
    weft_finish finish;
    uint32_t n_drafted, n_accepted, n_paused;
    weft_handle handle;
} run;

/* Submits one, and polls what it came to once it is done, which also releases it. */
void run_submit(weft_engine *engine, uint32_t n_vocab, run *r);
void run_collect(weft_engine *engine, run *r);

/* Submits all, steps until nothing is active, polls; fails the test on any error. */
void run_all(weft_engine *engine, uint32_t n_vocab, run *runs, size_t n);
void run_free(run *r);

/* Fails the test unless tokens, log-probabilities and logits of both are the same bits, and the
 * same text was said and ended in the same way. */
void run_assert_identical(const run *a, const run *b, uint32_t n_vocab);

/* A JSON file as a document; the caller frees it. */
json_doc run_read_json(const char *path);

/* An array of integers as ids: [*n], the caller frees them. */
int32_t *run_ids(const json *array, uint32_t *n);

/* A tensor of a safetensors file, as its bytes; NULL when absent, *n elements of 4 bytes. The
 * caller frees it. */
void *run_read_tensor(const char *path, const char *name, size_t *n);

/* A tensor of bytes [height, width, 3] as an image that stays as it is: pixels NULL when absent,
 * else the caller's to free. */
weft_image run_read_image(const char *path, const char *name);

/* Ids of a prompt for the model at path with one placeholder for the tokens of each image, as a
 * request has them: [*n], the caller frees them. */
int32_t *run_placeholders(const char *path, const int32_t *ids, uint32_t n_ids, uint32_t *n);

/* The checkpoints in a folder and in folders of it, "llama", "gemma4-assistant/target": names as
 * io's list has them, at least one. The caller frees them. */
char *run_checkpoints(const char *folder);

/* Instruction sets of this processor that backend "cpu" may be forced to: [*n]. Those missing are
 * printed. */
const char *const *run_isas(size_t *n);

/* A real model that is not in the repository: its path under build/models (or $WEFT_MODELS), NULL
 * when it is not there, with a line that says so. */
const char *run_extra_model(const char *name, char *path, size_t capacity);

#endif
