/* answer.h - a prompt and all that an engine gave for it, to be compared bit for bit. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "base/err.h"

/* What is asked. */
typedef struct question {
    const int32_t *ids; /* [n_ids], borrowed */
    uint32_t n_ids, max_new;
    weft_sampling sampling;
} question;

typedef struct answer {
    const question *of;     /* borrowed */
    const char *kv, *draft; /* as in weft_request, with the next four */
    int32_t priority;
    const weft_grammar *grammar;
    uint64_t cache_salt;
    uint32_t flags;
    uint32_t after;   /* steps, before it is asked */
    uint32_t cancels; /* steps, before it is cancelled; 0: it is not */
    uint32_t n_vocab;
    int32_t *tokens; /* [max_new] */
    float *logprobs; /* [max_new] */
    float *logits;   /* [max_new, n_vocab] */
    uint32_t n_tokens;
    uint32_t n_cached, n_drafted, n_accepted, n_paused; /* as in weft_event */
    weft_handle handle;
    bool done, cancelled; /* cancelled: before it was whole */
} answer;

weft_status answer_init(answer *a, const question *q, uint32_t n_vocab, weft_error *err);
void answer_deinit(answer *a);

/* Asks the n questions in order, each when its time comes, and takes what comes until all is there.
 * Stop tokens end nothing. A request that fails fails all. */
weft_status answers_take(weft_engine *engine, answer *answers, uint32_t n, weft_error *err);

/* Which token of the two answers, from 1, is the first that is not the same token with the same
 * bits of log-probability and logits; also where only one of them has one, but for what a, being
 * cancelled, did not come to. 0: there is none. */
uint32_t answer_difference(const answer *a, const answer *b);

#endif
