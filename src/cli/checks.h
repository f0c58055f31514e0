/* checks.h - whether answers of a model are the same bits in any company, in any chunks, with or
 * without drafts, warm or cold: what weft selfcheck runs (promise P1).
 *
 * A column is a KV codec, a row a check. What all is compared with is each prompt's answer alone:
 * read in one piece, nothing known of it, no drafts, all threads. Only what weft.h has is used. */
#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H

#include "cli/answer.h"

enum { CHECKS_CODECS_MOST = 12, CHECKS_PROMPTS = 9, CHECKS_LOOP = 25 };

/* Of the trace, where nobody says another one. */
#define CHECKS_SEED 20261130u

/* name, label, what it is. */
#define CHECK_MAP(X)                                                                               \
    X(CHUNKS_1, "chunks of 1", "prompts are read token by token")                                  \
    X(CHUNKS_7, "chunks of 7", "prompts are read 7 tokens at a time")                              \
    X(CHUNKS_64, "chunks of 64", "prompts are read 64 tokens at a time")                           \
    X(COMPANY_3, "with 2 others", "3 requests together")                                           \
    X(COMPANY_6, "with 5 others", "6 requests together")                                           \
    X(CODECS, "codecs mixed", "beside requests that store in other codecs")                        \
    X(THREADS, "other threads", "1 thread against all, or 2 where there is 1")                     \
    X(DRAFTS, "drafts", "tokens guessed in advance")                                               \
    X(CONVERTED, "converted", "with start=N: in chunks and together against alone and whole")      \
    X(WARM, "warm", "begun with what earlier requests left")                                       \
    X(RESTORED, "restored", "begun with what a file has of an engine that is gone")                \
    X(PRESSED, "little memory", "where what is kept must give way")                                \
    X(PAUSED, "paused", "in the middle, for requests that come first")                             \
    X(TRACE, "trace", "all of it at random: they come, wait, are cancelled, have forms, draft")

typedef enum check_row {
#define CHECK_ENUM(name, label, what) CHECK_##name,
    CHECK_MAP(CHECK_ENUM)
#undef CHECK_ENUM
        CHECK_ROWS
} check_row;

typedef enum check_result {
    CHECK_NOT_RUN,
    CHECK_EQUAL,
    CHECK_DIFFERS,
    CHECK_EMPTY,   /* it did not do what it is about: reason says what is missing */
    CHECK_SKIPPED, /* reason says why */
    CHECK_REFUSED  /* the model's layers do not take the codec */
} check_result;

typedef struct check_cell {
    check_result result;
    uint32_t prompt, token; /* from 1, of the first difference; prompts as checks has them, of the
                               trace its requests */
    const char *reason;
    char without[32];    /* what it is equal without, since there was none: "forms, drafts" */
    uint32_t n_compared; /* answers */
    uint64_t n_reused;   /* prompt tokens that were known */
    uint64_t n_drafted, n_accepted, n_paused, n_cancelled;
    uint64_t n_fetched; /* times that state came from the folder */
} check_cell;

typedef struct checks {
    /* Set these. */
    const weft_model *model;
    weft_engine_options options; /* backend, isa, act, n_threads, memory_bytes */
    uint32_t context;            /* most positions; 0: the model's */
    bool quick;
    uint64_t seed;      /* of the trace */
    const char *file;   /* to be written, read and left there; NULL: none may be */
    const char *folder; /* likewise, for files */
    const char *codecs[CHECKS_CODECS_MOST];
    uint32_t n_codecs;
    /* Told before each check; may be NULL. */
    void (*progress)(void *user, const char *codec, const char *label);
    void *user;
    /* checks_run sets these. */
    char backend[32], isa[32];
    uint32_t n_threads;
    uint32_t prompts[CHECKS_PROMPTS]; /* [n_prompts], lengths of those that fit the context */
    uint32_t n_prompts;
    char refusals[CHECKS_CODECS_MOST][252]; /* "" where the codec is taken */
    check_cell cells[CHECK_ROWS][CHECKS_CODECS_MOST];
    int32_t loop[CHECKS_LOOP]; /* what the model says of itself, for a prompt that repeats it */
    bool has_loop;
    uint32_t n_compared, n_wrong; /* answers; cells that differ or are empty */
} checks;

/* Fails only where an engine does; ARGUMENT for a codec that is not known. What differs is in the
 * cells. */
weft_status checks_run(checks *c, weft_error *err);

const char *check_label(check_row row);

#endif
