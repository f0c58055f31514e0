/* check_trace.h - a random trace of requests for the checks: when each comes and whether it is
 * cancelled, how long it is and what it has in common with others, how it samples, what its form
 * is, what drafts for it. All of it follows from a seed. */
#ifndef CLI_CHECK_TRACE_H
#define CLI_CHECK_TRACE_H

#include "cli/answer.h"

enum {
    TRACE_LEAST = 8,
    TRACE_REQUESTS = 24,
    TRACE_NEW = 16,
    TRACE_TEXTS = 4,
    TRACE_FORMS = 2,
    TRACE_CHOICES = 6
};

/* What the requests may be; borrowed. */
typedef struct trace_terms {
    const weft_model *model;
    uint64_t seed;
    uint32_t n;         /* requests, TRACE_LEAST to TRACE_REQUESTS */
    uint32_t n_vocab;   /* what ids are below */
    uint32_t longest;   /* tokens of a prompt with its answer, more than TRACE_NEW */
    const int32_t *ids; /* [n_ids], of a text that goes on repeating them; 0: there is none */
    uint32_t n_ids;
    const char *kv[TRACE_CHOICES]; /* [n_kv], n_kv >= 1: the first for most of them */
    uint32_t n_kv;
    const char *drafts[TRACE_CHOICES]; /* [n_drafts], n_drafts >= 1, for half of them */
    uint32_t n_drafts;
} trace_terms;

typedef struct trace {
    uint32_t n;
    question questions[TRACE_REQUESTS];
    answer asked[TRACE_REQUESTS]; /* what each is, without room for its answer */
    int32_t *ids;                 /* what prompts point to */
    size_t ids_bytes;
    weft_grammar *forms[TRACE_FORMS];
    bool has_forms; /* the model has a tokenizer, and a token that ends an answer */
} trace;

weft_status trace_open(trace *t, const trace_terms *terms, weft_error *err);
void trace_close(trace *t);

/* Makes an answer for one of the requests; alone: it comes at once, is never cancelled, and nothing
 * drafts for it. */
weft_status trace_answer(const trace *t, uint32_t i, uint32_t n_vocab, bool alone, answer *a,
                         weft_error *err);

#endif
