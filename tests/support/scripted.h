/* scripted.h - a drafter that knows what will be sampled, and is right exactly as often as it is
 * told to be. */
#ifndef SUPPORT_SCRIPTED_H
#define SUPPORT_SCRIPTED_H

#include "engine/drafters/drafter.h"
#include "support/runs.h"

enum { SCRIPT_MOST = 8, SCRIPT_PATTERNS = (SCRIPT_MOST + 1) * (SCRIPT_MOST + 2) / 2 };

typedef enum script_kind {
    SCRIPT_EVERY,     /* in turn each number of drafts up to SCRIPT_MOST with each number of right
                         ones, in an order that start shifts */
    SCRIPT_PERFECT,   /* as many as it may, all right */
    SCRIPT_WRONG,     /* as many as it may, all wrong */
    SCRIPT_RANDOM,    /* any ids */
    SCRIPT_NO_TOKENS, /* right ones up to an id of -1 or beyond the vocabulary */
    SCRIPT_EMPTY,     /* none */
    SCRIPT_BOASTING,  /* says that it wrote more than it may */
    SCRIPT_KINDS
} script_kind;

/* Set the first four; the rest is what came of it. */
typedef struct script {
    script_kind kind;
    const run *answer; /* of a run without drafts, with its prompt */
    uint32_t n_vocab;
    uint32_t start;
    uint32_t n_calls;
    uint32_t known, n_tokens, n_right; /* at the last call: tokens, drafts that count, right ones */
    uint32_t n_drafted, n_accepted;
    uint32_t seen[SCRIPT_MOST + 1][SCRIPT_MOST + 1]; /* [drafts][right ones] */
} script;

extern const engine_drafter SCRIPTED;

/* After the request is done: fails the test unless what the engine counted is what was scripted. */
void script_check(script *s, const run *r);

/* Fails the test unless every pattern has been there. */
void script_assert_every(const script *s);

#endif
