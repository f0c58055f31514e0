/* checks.c - the checks of promise P1, codec by codec. */
#include "cli/checks.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/check_trace.h"

/* ---- prompts --------------------------------------------------------------------------------- */

enum {
    NEW_TOKENS = 6,
    LOOP_TOKENS = CHECKS_LOOP - 1, /* new ones of the prompt that repeats itself */
    TOGETHER_MOST = 6,
    COMPANY_CHUNK = 48, /* so that prompts of other lengths meet in most steps */
    WHOLE = 1024,       /* longer than any prompt */
    FOLDER_BYTES = 256 << 20,
};

enum { ONE, PAGE_LESS, PAGE, PAGE_MORE, PAGES_LESS, PAGES, PAGES_MORE, LONG, REPEATED };

/* Prompts of one text begin alike; the others have nothing in common, so that company which reads
 * its neighbour's state is seen. */
typedef struct prompt_row {
    uint32_t length, quick_length, text;
    bool sampled;
} prompt_row;

static const prompt_row PROMPTS[CHECKS_PROMPTS] = {
    [ONE] = {1, 1, 1, false},           [PAGE_LESS] = {63, 63, 2, true},
    [PAGE] = {64, 64, 3, false},        [PAGE_MORE] = {65, 65, 3, false},
    [PAGES_LESS] = {255, 127, 4, true}, [PAGES] = {256, 128, 5, false},
    [PAGES_MORE] = {257, 129, 3, true}, [LONG] = {400, 200, 6, false},
    [REPEATED] = {48, 48, 7, false},
};

#define SEED 0x73656c66u

/* One codec's part of the checks. */
typedef struct column {
    checks *c;
    uint32_t index;
    const char *kv;
    uint32_t context, n_vocab;
    uint64_t memory_bytes; /* room for TOGETHER_MOST of the longest, whatever they store in */
    bool narrow;           /* the caller's budget has less, for those of one codec */
    int32_t *ids;
    size_t ids_bytes;
    question questions[CHECKS_PROMPTS]; /* n_ids 0: it does not fit */
    answer alone[CHECKS_PROMPTS];
} column;

static uint32_t new_tokens(uint32_t prompt)
{
    return prompt == REPEATED ? LOOP_TOKENS : NEW_TOKENS;
}

/* 0: it does not fit. The long one is as long as may be. */
static uint32_t prompt_length(const checks *c, uint32_t prompt, uint32_t context)
{
    const prompt_row *row = &PROMPTS[prompt];
    uint32_t n = c->quick ? row->quick_length : row->length;
    uint32_t new = new_tokens(prompt);
    if (prompt == LONG && n + new > context &&context > new) {
        n = context - new;
        if (n <= prompt_length(c, PAGES_MORE, context)) return 0;
    }
    return n + new <= context ? n : 0;
}

static weft_status make_questions(column *col, weft_error *err)
{
    size_t n_ids = 0;
    for (uint32_t i = 0; i < CHECKS_PROMPTS; i++) n_ids += prompt_length(col->c, i, col->context);
    col->ids_bytes = n_ids * sizeof *col->ids;
    col->ids = mem_alloc(mem_system(), col->ids_bytes);
    if (col->ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu token ids", n_ids);
    int32_t *ids = col->ids;
    for (uint32_t i = 0; i < CHECKS_PROMPTS; i++) {
        const prompt_row *row = &PROMPTS[i];
        uint32_t n = prompt_length(col->c, i, col->context);
        for (uint32_t k = 0; k < n; k++)
            ids[k] = (int32_t)(rng_u64(SEED + row->text, k) % col->n_vocab);
        col->questions[i] = (question){.ids = ids, .n_ids = n, .max_new = new_tokens(i)};
        col->questions[i].sampling.top_p = 1.0F;
        if (row->sampled)
            col->questions[i].sampling = (weft_sampling){
                .temperature = 0.8F, .top_p = 0.95F, .min_p = 0.01F, .top_k = 40, .seed = SEED + i};
        ids += n;
    }
    return WEFT_OK;
}

/* ---- engines --------------------------------------------------------------------------------- */

typedef struct setting {
    const char *kv;            /* NULL: the column's */
    uint32_t chunk, n_threads; /* n_threads 0: as all others */
    uint64_t memory_bytes;     /* 0: enough */
    bool cache;
    const char *draft;    /* what requests may name; NULL: nothing */
    uint32_t n_sequences; /* 0: TOGETHER_MOST */
    const char *folder;   /* NULL: none */
} setting;

static uint32_t longest(const column *col)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < CHECKS_PROMPTS; i++) {
        uint32_t here = col->questions[i].n_ids + col->questions[i].max_new;
        if (col->questions[i].n_ids > 0 && here > n) n = here;
    }
    return n;
}

static weft_engine_options options_of(const column *col, setting s)
{
    weft_engine_options o = col->c->options;
    o.struct_size = sizeof o;
    o.kv = s.kv != NULL ? s.kv : col->kv;
    o.chunk_tokens = s.chunk;
    o.context = longest(col);
    o.max_sequences = s.n_sequences > 0 ? s.n_sequences : TOGETHER_MOST;
    if (s.n_threads > 0) o.n_threads = s.n_threads;
    if (o.memory_bytes == 0) o.memory_bytes = col->memory_bytes;
    if (s.memory_bytes > 0) o.memory_bytes = s.memory_bytes;
    o.flags = s.cache ? 0 : WEFT_ENGINE_NO_CACHE;
    o.state_dir = s.folder;
    if (s.folder != NULL) o.state_dir_bytes = FOLDER_BYTES;
    if (s.draft == NULL) {
        o.max_drafts = WEFT_NO_DRAFTS;
    } else if (strcmp(s.draft, "model") == 0) {
        o.draft_model = col->c->model; /* which is the smallest that there is for sure */
        o.draft_kv = o.kv;
    } else if (strcmp(s.draft, "mtp") == 0) {
        o.flags |= WEFT_ENGINE_MTP;
    }
    return o;
}

static weft_status open_engine(const column *col, setting s, weft_engine **engine, weft_error *err)
{
    weft_engine_options o = options_of(col, s);
    return weft_engine_open(col->c->model, &o, engine, err);
}

/* What a request of n tokens, prompt and answer, is promised. */
static weft_status promise_of(const column *col, setting s, uint32_t n, uint64_t *bytes,
                              weft_error *err)
{
    weft_engine_options o = options_of(col, s);
    return weft_model_state_bytes(col->c->model, &o, n - 1, bytes, err);
}

static weft_status plan_memory(column *col, weft_error *err)
{
    uint64_t budget = col->c->options.memory_bytes;
    uint64_t bytes;
    weft_status status =
        promise_of(col, (setting){.chunk = WHOLE, .draft = "ngram"}, longest(col), &bytes, err);
    col->narrow = budget != 0 && budget / TOGETHER_MOST < bytes;
    /* A budget that is too large costs nothing: only what is filled is taken. */
    col->memory_bytes = (uint64_t)8 * TOGETHER_MOST * bytes + ((uint64_t)1 << 30);
    return status;
}

/* ---- asking and comparing -------------------------------------------------------------------- */

/* A difference stays, whatever else is found. */
static void settle(check_cell *cell, check_result result, const char *reason)
{
    if (cell->result == CHECK_DIFFERS) return;
    cell->result = result;
    cell->reason = reason;
}

/* Which one it is of those that fit, from 1. */
static uint32_t number_of(const column *col, uint32_t prompt)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= prompt; i++) n += col->questions[i].n_ids > 0;
    return n;
}

/* number: which prompt or request it is, from 1. */
static void compare(check_cell *cell, uint32_t number, const answer *got, const answer *expected)
{
    uint32_t token = answer_difference(got, expected);
    cell->n_compared++;
    if (expected->n_tokens == 0) settle(cell, CHECK_EMPTY, "no token came");
    if (token == 0 || cell->result == CHECK_DIFFERS) return;
    settle(cell, CHECK_DIFFERS, "");
    cell->prompt = number;
    cell->token = token;
}

static void count(check_cell *cell, const answer *got)
{
    cell->n_reused += got->n_cached;
    cell->n_drafted += got->n_drafted;
    cell->n_accepted += got->n_accepted;
    cell->n_paused += got->n_paused;
    cell->n_cancelled += got->cancelled;
}

/* A request, and what its answer should be: NULL, nothing in particular. */
typedef struct ask {
    uint8_t prompt;
    const char *kv, *draft;
    const answer *expected;
    int32_t priority;
    uint32_t after;
} ask;

/* All of them at once. n_cached: of each; may be NULL. */
static weft_status ask_together(column *col, weft_engine *engine, const ask *asks, uint32_t n,
                                check_cell *cell, uint32_t *n_cached, weft_error *err)
{
    answer got[TOGETHER_MOST] = {0};
    weft_status status = WEFT_OK;
    ASSERT(n <= TOGETHER_MOST);
    for (uint32_t i = 0; i < n && status == WEFT_OK; i++) {
        status = answer_init(&got[i], &col->questions[asks[i].prompt], col->n_vocab, err);
        got[i].kv = asks[i].kv;
        got[i].draft = asks[i].draft;
        got[i].priority = asks[i].priority;
        got[i].after = asks[i].after;
    }
    if (status == WEFT_OK) status = answers_take(engine, got, n, err);
    for (uint32_t i = 0; i < n; i++) {
        if (status == WEFT_OK && asks[i].expected != NULL)
            compare(cell, number_of(col, asks[i].prompt), &got[i], asks[i].expected);
        count(cell, &got[i]);
        if (n_cached != NULL) n_cached[i] = got[i].n_cached;
        answer_deinit(&got[i]);
    }
    return status;
}

static weft_status ask_one_by_one(column *col, weft_engine *engine, const ask *asks, uint32_t n,
                                  check_cell *cell, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < n && status == WEFT_OK; i++)
        status = ask_together(col, engine, &asks[i], 1, cell, NULL, err);
    return status;
}

static ask plain(const column *col, uint8_t prompt)
{
    return (ask){.prompt = prompt, .expected = &col->alone[prompt]};
}

/* Those that fit the context. */
static uint32_t plain_all(const column *col, const uint8_t *prompts, uint32_t n, ask *asks)
{
    uint32_t n_asks = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (col->questions[prompts[i]].n_ids > 0) asks[n_asks++] = plain(col, prompts[i]);
    }
    return n_asks;
}

static const char TOO_SMALL[] = "context too small";

/* Requests that must wait for room are no company. */
static const char TOO_NARROW[] = "--memory too small";

/* ---- chunks, company, threads ---------------------------------------------------------------- */

typedef struct plain_row {
    uint32_t chunk;
    bool together;
    uint8_t n, prompts[TOGETHER_MOST];
} plain_row;

static const plain_row PLAIN[CHECK_ROWS] = {
    [CHECK_CHUNKS_1] = {1, false, 3, {ONE, PAGE_LESS, PAGE_MORE}},
    [CHECK_CHUNKS_7] = {7, false, 3, {PAGE_LESS, PAGE_MORE, REPEATED}},
    [CHECK_CHUNKS_64] = {64, false, 2, {PAGE, LONG}},
    [CHECK_COMPANY_3] = {COMPANY_CHUNK, true, 3, {PAGES_MORE, ONE, PAGE_LESS}},
    [CHECK_COMPANY_6] = {COMPANY_CHUNK,
                         true,
                         6,
                         {REPEATED, PAGES, PAGE_MORE, PAGES_LESS, ONE, PAGE_LESS}},
    [CHECK_THREADS] = {WHOLE, false, 3, {ONE, PAGE_LESS, PAGE_MORE}},
};

static weft_status check_plain(column *col, check_row row, check_cell *cell, weft_error *err)
{
    const plain_row *p = &PLAIN[row];
    ask asks[TOGETHER_MOST];
    uint32_t n = plain_all(col, p->prompts, p->n, asks);
    if (n == 0 || (p->together && n < p->n)) {
        settle(cell, CHECK_SKIPPED, TOO_SMALL);
        return WEFT_OK;
    }
    if (p->together && col->narrow) {
        settle(cell, CHECK_SKIPPED, TOO_NARROW);
        return WEFT_OK;
    }
    setting s = {.chunk = p->chunk};
    if (row == CHECK_THREADS) s.n_threads = col->c->n_threads > 1 ? 1 : 2;
    weft_engine *engine;
    weft_status status = open_engine(col, s, &engine, err);
    if (status != WEFT_OK) return status;
    status = p->together ? ask_together(col, engine, asks, n, cell, NULL, err)
                         : ask_one_by_one(col, engine, asks, n, cell, err);
    weft_engine_close(engine);
    return status;
}

/* ---- codecs of one batch --------------------------------------------------------------------- */

/* Another codec than the column's: those of other columns, then f16. */
static uint32_t other_codecs(const column *col, const char **others, uint32_t most)
{
    static const char PLAIN_CODEC[] = "f16";
    const checks *c = col->c;
    uint32_t n = 0;
    bool f16 = strcmp(col->kv, PLAIN_CODEC) != 0;
    for (uint32_t i = 0; i < c->n_codecs && n < most; i++) {
        if (i != col->index && c->refusals[i][0] == '\0') others[n++] = c->codecs[i];
        if (strcmp(c->codecs[i], PLAIN_CODEC) == 0) f16 = false;
    }
    if (n < most && f16) others[n++] = PLAIN_CODEC;
    return n;
}

static weft_status check_codecs(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    static const uint8_t NEIGHBOURS[] = {PAGE, PAGE_MORE, PAGE_LESS, REPEATED};
    const char *others[COUNT_OF(NEIGHBOURS)];
    uint32_t n_others = other_codecs(col, others, COUNT_OF(NEIGHBOURS));
    ask asks[TOGETHER_MOST];
    /* The engine's own codec is another one, too. */
    static const uint8_t OWN[] = {PAGE_MORE, PAGE_LESS};
    uint32_t n = plain_all(col, OWN, COUNT_OF(OWN), asks);
    for (uint32_t i = 0; i < n; i++) asks[i].kv = col->kv;
    if (n < COUNT_OF(OWN) || n_others == 0 || col->narrow) {
        settle(cell, CHECK_SKIPPED,
               n < COUNT_OF(OWN) ? TOO_SMALL
               : n_others == 0   ? "one codec only"
                                 : TOO_NARROW);
        return WEFT_OK;
    }
    for (uint32_t i = 0; i < n_others; i++) {
        if (col->questions[NEIGHBOURS[i]].n_ids > 0)
            asks[n++] = (ask){.prompt = NEIGHBOURS[i], .kv = others[i]};
    }
    weft_engine *engine;
    setting s = {.kv = others[0], .chunk = COMPANY_CHUNK};
    weft_status status = open_engine(col, s, &engine, err);
    if (status != WEFT_OK) return status;
    status = ask_together(col, engine, asks, n, cell, NULL, err);
    weft_engine_close(engine);
    return status;
}

/* ---- drafts ---------------------------------------------------------------------------------- */

static weft_status check_drafter(column *col, const char *name, check_cell *cell, weft_error *err)
{
    static const uint8_t OWN[] = {REPEATED, PAGE_MORE};
    ask asks[TOGETHER_MOST];
    uint32_t n = plain_all(col, OWN, COUNT_OF(OWN), asks);
    for (uint32_t i = 0; i < n; i++) asks[i].draft = name;
    if (n == 0) {
        settle(cell, CHECK_SKIPPED, TOO_SMALL);
        return WEFT_OK;
    }
    weft_engine *engine;
    setting s = {.chunk = WHOLE, .draft = name};
    weft_status status = open_engine(col, s, &engine, err);
    if (status != WEFT_OK) return status;
    if (strcmp(name, "ngram") == 0) status = ask_one_by_one(col, engine, asks, n, cell, err);
    if (status == WEFT_OK) status = ask_together(col, engine, asks, n, cell, NULL, err);
    weft_engine_close(engine);
    return status;
}

/* By the text, by the model's own head, and by the model itself as if it were another one. */
static weft_status check_drafts(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    weft_model_info info = {.struct_size = sizeof info};
    weft_status status = weft_model_get_info(col->c->model, &info, err);
    if (status == WEFT_OK) status = check_drafter(col, "ngram", cell, err);
    /* Experts of what drafts are not streamed. */
    bool streams = col->c->options.expert_bytes > 0;
    if (status == WEFT_OK && !streams) status = check_drafter(col, "model", cell, err);
    if (status == WEFT_OK && info.has_mtp && !streams)
        status = check_drafter(col, "mtp", cell, err);
    /* What a model says need not repeat anything. */
    if (status == WEFT_OK && cell->n_drafted == 0 && cell->result != CHECK_DIFFERS)
        settle(cell, CHECK_SKIPPED, "nothing was drafted");
    return status;
}

/* ---- conversion ------------------------------------------------------------------------------ */

/* Inside the prompt, at its end but one, and among the new tokens. */
static const struct {
    uint8_t prompt;
    uint32_t start;
} CONVERSIONS[] = {{PAGE_MORE, 40}, {PAGE_MORE, 64}, {PAGE_LESS, 65}};

enum { N_CONVERSIONS = COUNT_OF(CONVERSIONS), SPEC_BYTES = 1024 };

typedef struct conversion {
    char specs[N_CONVERSIONS][SPEC_BYTES];
    answer whole[N_CONVERSIONS];
} conversion;

static weft_status convert_whole(column *col, conversion *x, weft_error *err)
{
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = WHOLE}, &engine, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < N_CONVERSIONS && status == WEFT_OK; i++) {
        const question *q = &col->questions[CONVERSIONS[i].prompt];
        status = answer_init(&x->whole[i], q, col->n_vocab, err);
        x->whole[i].kv = x->specs[i];
        if (status == WEFT_OK) status = answers_take(engine, &x->whole[i], 1, err);
    }
    weft_engine_close(engine);
    return status;
}

static weft_status convert_again(column *col, const conversion *x, uint32_t chunk, bool together,
                                 check_cell *cell, weft_error *err)
{
    ask asks[N_CONVERSIONS];
    for (uint32_t i = 0; i < N_CONVERSIONS; i++)
        asks[i] =
            (ask){.prompt = CONVERSIONS[i].prompt, .kv = x->specs[i], .expected = &x->whole[i]};
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = chunk}, &engine, err);
    if (status != WEFT_OK) return status;
    status = together ? ask_together(col, engine, asks, N_CONVERSIONS, cell, NULL, err)
                      : ask_one_by_one(col, engine, asks, N_CONVERSIONS, cell, err);
    weft_engine_close(engine);
    return status;
}

static weft_status check_converted(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    conversion x = {0};
    const char *base = col->c->options.act == WEFT_ACT_F32 ? "f32" : "bf16";
    bool starts = strstr(col->kv, "start=") != NULL;
    bool fits = col->questions[PAGE_MORE].n_ids > 0;
    if (!fits || starts || strcmp(col->kv, base) == 0) {
        settle(cell, CHECK_SKIPPED, starts ? "has its own start" : fits ? "as --act" : TOO_SMALL);
        return WEFT_OK;
    }
    for (uint32_t i = 0; i < N_CONVERSIONS; i++) {
        int n = snprintf(x.specs[i], SPEC_BYTES, "%s,start=%u", col->kv, CONVERSIONS[i].start);
        fits = fits && n > 0 && n < SPEC_BYTES;
    }
    if (!fits) {
        settle(cell, CHECK_SKIPPED, "spec too long");
        return WEFT_OK;
    }
    weft_status status = convert_whole(col, &x, err);
    if (status == WEFT_OK) status = convert_again(col, &x, 7, false, cell, err);
    if (status == WEFT_OK) status = convert_again(col, &x, COMPANY_CHUNK, true, cell, err);
    for (uint32_t i = 0; i < N_CONVERSIONS; i++) answer_deinit(&x.whole[i]);
    return status;
}

/* ---- what earlier requests left -------------------------------------------------------------- */

static weft_status check_warm(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    /* They begin alike. again: it stood before, so that something of it is known. */
    static const struct {
        uint8_t prompt;
        bool again;
    } TURNS[] = {{PAGE, false},       {PAGE_MORE, false}, {PAGE_MORE, true},
                 {PAGES_MORE, false}, {PAGES_MORE, true}, {PAGE, true}};
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = 64, .cache = true}, &engine, err);
    if (status != WEFT_OK) return status;
    uint32_t n_again = 0;
    for (uint32_t i = 0; i < COUNT_OF(TURNS) && status == WEFT_OK; i++) {
        if (col->questions[TURNS[i].prompt].n_ids == 0) continue;
        ask one = plain(col, TURNS[i].prompt);
        uint32_t n_cached;
        status = ask_together(col, engine, &one, 1, cell, &n_cached, err);
        n_again += TURNS[i].again;
        if (TURNS[i].again && n_cached == 0) settle(cell, CHECK_EMPTY, "nothing was reused");
    }
    weft_engine_close(engine);
    if (status == WEFT_OK && n_again == 0) settle(cell, CHECK_SKIPPED, TOO_SMALL);
    return status;
}

/* Asks in one engine, which saves what it knows of the prompt. */
static weft_status leave_file(column *col, const ask *one, check_cell *cell, weft_error *err)
{
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = 64, .cache = true}, &engine, err);
    if (status != WEFT_OK) return status;
    const question *q = &col->questions[one->prompt];
    uint32_t n_saved;
    status = ask_together(col, engine, one, 1, cell, NULL, err);
    if (status == WEFT_OK)
        status = weft_state_save(engine, q->ids, q->n_ids, col->c->file, &n_saved, err);
    weft_engine_close(engine);
    return status;
}

/* Asks in another, which has read it. */
static weft_status ask_restored(column *col, const ask *one, check_cell *cell, weft_error *err)
{
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = 64, .cache = true}, &engine, err);
    if (status != WEFT_OK) return status;
    weft_restored restored = {.struct_size = sizeof restored};
    uint32_t n_cached = 0;
    status = weft_state_restore(engine, col->c->file, &restored, err);
    if (status == WEFT_OK) status = ask_together(col, engine, one, 1, cell, &n_cached, err);
    if (status == WEFT_OK && n_cached == 0) settle(cell, CHECK_EMPTY, "nothing was restored");
    weft_engine_close(engine);
    return status;
}

static weft_status check_restored(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    static const uint8_t SAVED[] = {PAGE_MORE, PAGES_MORE};
    if (col->c->file == NULL || col->questions[PAGE_MORE].n_ids == 0) {
        settle(cell, CHECK_SKIPPED, col->c->file == NULL ? "no place for a file" : TOO_SMALL);
        return WEFT_OK;
    }
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < COUNT_OF(SAVED) && status == WEFT_OK; i++) {
        if (col->questions[SAVED[i]].n_ids == 0) continue;
        ask one = plain(col, SAVED[i]);
        status = leave_file(col, &one, cell, err);
        if (status == WEFT_OK) status = ask_restored(col, &one, cell, err);
    }
    return status;
}

/* Three take turns, then all ask at once. *did: something was reused, and something had gone. */
static weft_status press(column *col, uint64_t bytes, check_cell *cell, bool *did, weft_error *err)
{
    static const uint8_t TURNS[] = {PAGE_LESS, PAGE_LESS, PAGE_MORE, REPEATED,
                                    PAGE_LESS, PAGE_MORE, REPEATED};
    static const uint8_t TOGETHER[] = {PAGE_MORE, PAGE_LESS, ONE, REPEATED};
    bool known[CHECKS_PROMPTS] = {false};
    bool evicted = false;
    weft_engine *engine;
    setting s = {.chunk = 64, .memory_bytes = bytes, .cache = true};
    weft_status status = open_engine(col, s, &engine, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < COUNT_OF(TURNS) && status == WEFT_OK; i++) {
        ask one = plain(col, TURNS[i]);
        uint32_t n_cached = 0;
        status = ask_together(col, engine, &one, 1, cell, &n_cached, err);
        evicted |= known[TURNS[i]] && n_cached + 1 < col->questions[TURNS[i]].n_ids;
        known[TURNS[i]] = true;
    }
    ask asks[TOGETHER_MOST];
    uint32_t n = plain_all(col, TOGETHER, COUNT_OF(TOGETHER), asks);
    if (status == WEFT_OK) status = ask_together(col, engine, asks, n, cell, NULL, err);
    weft_engine_close(engine);
    cell->reason = cell->n_reused == 0 ? "nothing was reused" : "nothing was evicted";
    *did = evicted && cell->n_reused > 0;
    return status;
}

static weft_status check_pressed(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    /* Of what a request is promised, in quarters. How much of that others may leave depends on the
     * layers, so it becomes less until something has to go. */
    static const uint8_t ROOMS[] = {8, 6, 5, 4};
    const question *q = &col->questions[REPEATED];
    if (col->questions[PAGE_MORE].n_ids == 0 || q->n_ids == 0) {
        settle(cell, CHECK_SKIPPED, TOO_SMALL);
        return WEFT_OK;
    }
    uint64_t bytes;
    bool did = false;
    weft_status status =
        promise_of(col, (setting){.chunk = 64, .cache = true}, q->n_ids + q->max_new, &bytes, err);
    for (uint32_t i = 0; i < COUNT_OF(ROOMS) && status == WEFT_OK && !did; i++)
        status = press(col, bytes / 4 * ROOMS[i] + 3, cell, &did, err);
    if (status == WEFT_OK && !did) settle(cell, CHECK_EMPTY, cell->reason);
    return status;
}

/* One sequence, which two others take in turn while the first answers. */
static weft_status check_paused(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    ask asks[] = {plain(col, REPEATED), plain(col, ONE), plain(col, PAGE_LESS)};
    if (col->questions[REPEATED].n_ids == 0 || col->questions[PAGE_LESS].n_ids == 0) {
        settle(cell, CHECK_SKIPPED, TOO_SMALL);
        return WEFT_OK;
    }
    for (uint32_t i = 1; i < COUNT_OF(asks); i++) {
        asks[i].priority = (int32_t)i;
        asks[i].after = 4 * i;
    }
    weft_engine *engine;
    setting s = {.chunk = 64, .n_sequences = 1, .cache = true};
    weft_status status = open_engine(col, s, &engine, err);
    if (status != WEFT_OK) return status;
    status = ask_together(col, engine, asks, COUNT_OF(asks), cell, NULL, err);
    weft_engine_close(engine);
    if (status == WEFT_OK && cell->n_paused < 2) settle(cell, CHECK_EMPTY, "nothing was paused");
    return status;
}

/* ---- a random trace -------------------------------------------------------------------------- */

/* Fewer sequences than come at once, so that some wait. */
enum { TRACE_SEQUENCES = 4, TRACE_QUICK = 14 };

/* Experts of what drafts are not streamed. */
static bool drafts_by_head(const column *col, const weft_model_info *info)
{
    return info->has_mtp && col->c->options.expert_bytes == 0;
}

static weft_status plan_trace(const column *col, trace_terms *terms, setting *s, weft_error *err)
{
    const checks *c = col->c;
    weft_model_info info = {.struct_size = sizeof info};
    weft_status status = weft_model_get_info(c->model, &info, err);
    *terms = (trace_terms){.model = c->model,
                           .seed = c->seed,
                           .n = c->quick ? TRACE_QUICK : TRACE_REQUESTS,
                           .n_vocab = col->n_vocab,
                           .longest = longest(col),
                           .ids = c->loop,
                           .n_ids = c->has_loop ? CHECKS_LOOP : 0,
                           .kv = {col->kv},
                           .drafts = {"ngram", "mtp"}};
    bool by_head = drafts_by_head(col, &info);
    terms->n_kv = 1 + other_codecs(col, terms->kv + 1, TRACE_CHOICES - 1);
    terms->n_drafts = by_head ? 2 : 1;
    *s = (setting){.chunk = COMPANY_CHUNK,
                   .cache = true,
                   .draft = by_head ? "mtp" : "ngram",
                   .n_sequences = TRACE_SEQUENCES,
                   .folder = c->folder};
    return status;
}

/* What the longest of them is promised, whatever it stores in. */
static weft_status promise_of_trace(const column *col, const trace *t, setting s, uint64_t *bytes,
                                    weft_error *err)
{
    weft_status status = WEFT_OK;
    *bytes = 0;
    for (uint32_t i = 0; i < t->n && status == WEFT_OK; i++) {
        uint64_t here = 0;
        s.kv = t->asked[i].kv;
        status = promise_of(col, s, t->questions[i].n_ids + t->questions[i].max_new, &here, err);
        if (here > *bytes) *bytes = here;
    }
    return status;
}

/* What the trace was to do and did not; NULL: nothing. */
static const char *missing(const check_cell *cell, const weft_engine_info *info, bool has_folder)
{
    if (cell->n_cancelled == 0) return "nothing was cancelled";
    if (cell->n_reused == 0) return "nothing was reused";
    if (cell->n_paused == 0) return "nothing was paused";
    if (has_folder && info->disk_bytes_written == 0 && info->n_disk_skipped == 0)
        return "nothing was evicted";
    return NULL;
}

/* All of them in one engine. What is counted is that of the last time. */
static weft_status run_trace(const column *col, const trace *t, setting s, answer *got,
                             check_cell *cell, weft_error *err)
{
    weft_engine *engine;
    weft_status status = open_engine(col, s, &engine, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < t->n && status == WEFT_OK; i++) {
        answer_deinit(&got[i]);
        status = trace_answer(t, i, col->n_vocab, false, &got[i], err);
    }
    if (status == WEFT_OK) status = answers_take(engine, got, t->n, err);
    weft_engine_info info = {.struct_size = sizeof info};
    if (status == WEFT_OK) status = weft_engine_get_info(engine, &info, err);
    weft_engine_close(engine);
    cell->n_reused = cell->n_drafted = cell->n_accepted = cell->n_paused = cell->n_cancelled = 0;
    for (uint32_t i = 0; i < t->n && status == WEFT_OK; i++) count(cell, &got[i]);
    cell->n_fetched = info.n_disk_hits;
    cell->reason = missing(cell, &info, s.folder != NULL);
    return status;
}

/* Each again in an engine where nothing else is. */
static weft_status compare_trace(const column *col, const trace *t, const answer *got,
                                 check_cell *cell, weft_error *err)
{
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = WHOLE}, &engine, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < t->n && status == WEFT_OK; i++) {
        answer alone;
        status = trace_answer(t, i, col->n_vocab, true, &alone, err);
        if (status == WEFT_OK) status = answers_take(engine, &alone, 1, err);
        if (status == WEFT_OK) compare(cell, i + 1, &got[i], &alone);
        answer_deinit(&alone);
    }
    weft_engine_close(engine);
    return status;
}

static void leave_out(check_cell *cell, bool missed, const char *what)
{
    size_t n = strlen(cell->without);
    if (missed)
        snprintf(cell->without + n, sizeof cell->without - n, "%s%s", n > 0 ? ", " : "", what);
}

static weft_status check_trace(column *col, check_row row, check_cell *cell, weft_error *err)
{
    (void)row;
    /* Of what the longest is promised, in quarters: less until some had to pause. */
    static const uint8_t ROOMS[] = {8, 6, 5, 4};
    if (col->questions[PAGE_MORE].n_ids == 0) {
        settle(cell, CHECK_SKIPPED, TOO_SMALL);
        return WEFT_OK;
    }
    trace_terms terms;
    setting s;
    trace t;
    uint64_t bytes = 0;
    weft_status status = plan_trace(col, &terms, &s, err);
    if (status == WEFT_OK) status = trace_open(&t, &terms, err);
    if (status != WEFT_OK) return status;
    answer got[TRACE_REQUESTS] = {0};
    status = promise_of_trace(col, &t, s, &bytes, err);
    cell->reason = "";
    for (uint32_t i = 0; i < COUNT_OF(ROOMS) && status == WEFT_OK && cell->reason != NULL; i++) {
        s.memory_bytes = bytes / 4 * ROOMS[i] + 3;
        status = run_trace(col, &t, s, got, cell, err);
    }
    if (status == WEFT_OK) status = compare_trace(col, &t, got, cell, err);
    if (status == WEFT_OK && cell->reason != NULL) settle(cell, CHECK_EMPTY, cell->reason);
    leave_out(cell, !t.has_forms, "forms");
    leave_out(cell, cell->n_drafted == 0, "drafts");
    leave_out(cell, s.folder == NULL, "a folder");
    for (uint32_t i = 0; i < t.n; i++) answer_deinit(&got[i]);
    trace_close(&t);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static weft_status (*const RUN[CHECK_ROWS])(column *, check_row, check_cell *, weft_error *) = {
    [CHECK_CHUNKS_1] = check_plain,      [CHECK_CHUNKS_7] = check_plain,
    [CHECK_CHUNKS_64] = check_plain,     [CHECK_COMPANY_3] = check_plain,
    [CHECK_COMPANY_6] = check_plain,     [CHECK_CODECS] = check_codecs,
    [CHECK_THREADS] = check_plain,       [CHECK_DRAFTS] = check_drafts,
    [CHECK_CONVERTED] = check_converted, [CHECK_WARM] = check_warm,
    [CHECK_RESTORED] = check_restored,   [CHECK_PRESSED] = check_pressed,
    [CHECK_PAUSED] = check_paused,       [CHECK_TRACE] = check_trace,
};

const char *check_label(check_row row)
{
    static const char *const LABELS[] = {
#define CHECK_LABEL(name, label, what) label,
        CHECK_MAP(CHECK_LABEL)
#undef CHECK_LABEL
    };
    ASSERT(row < CHECK_ROWS);
    return LABELS[row];
}

static void tell(const column *col, const char *label)
{
    if (col->c->progress != NULL) col->c->progress(col->c->user, col->kv, label);
}

/* What the model itself says, and says again, is what it goes on saying: so there will be drafts,
 * and right ones. Made for the first column. */
static weft_status make_loop(column *col, weft_engine *engine, weft_error *err)
{
    checks *c = col->c;
    const question *repeated = &col->questions[REPEATED];
    int32_t *ids = col->ids + (repeated->ids - col->ids);
    if (repeated->n_ids == 0) return WEFT_OK;
    if (!c->has_loop) {
        question begin = *repeated;
        begin.n_ids = 1;
        answer said;
        weft_status status = answer_init(&said, &begin, col->n_vocab, err);
        if (status == WEFT_OK) status = answers_take(engine, &said, 1, err);
        if (status == WEFT_OK) memcpy(c->loop + 1, said.tokens, LOOP_TOKENS * sizeof *c->loop);
        answer_deinit(&said);
        if (status != WEFT_OK) return status;
        c->loop[0] = ids[0];
        c->has_loop = true;
    }
    for (uint32_t i = 0; i < repeated->n_ids; i++) ids[i] = c->loop[i % CHECKS_LOOP];
    return WEFT_OK;
}

static weft_status answer_alone(column *col, weft_error *err)
{
    weft_engine *engine;
    weft_status status = open_engine(col, (setting){.chunk = WHOLE}, &engine, err);
    if (status != WEFT_OK) return status;
    weft_engine_info info = {.struct_size = sizeof info};
    status = weft_engine_get_info(engine, &info, err);
    if (status == WEFT_OK) {
        snprintf(col->c->backend, sizeof col->c->backend, "%s", info.backend);
        snprintf(col->c->isa, sizeof col->c->isa, "%s", info.isa);
        col->c->n_threads = info.n_threads;
    }
    if (status == WEFT_OK) status = make_loop(col, engine, err);
    for (uint32_t i = 0; i < CHECKS_PROMPTS && status == WEFT_OK; i++) {
        if (col->questions[i].n_ids == 0) continue;
        status = answer_init(&col->alone[i], &col->questions[i], col->n_vocab, err);
        if (status == WEFT_OK) status = answers_take(engine, &col->alone[i], 1, err);
    }
    weft_engine_close(engine);
    return status;
}

static weft_status run_column(column *col, weft_error *err)
{
    checks *c = col->c;
    weft_status status = make_questions(col, err);
    if (status == WEFT_OK) status = plan_memory(col, err);
    if (status != WEFT_OK) return status;
    tell(col, "alone");
    status = answer_alone(col, err);
    for (uint32_t row = 0; row < CHECK_ROWS && status == WEFT_OK; row++) {
        check_cell *cell = &c->cells[row][col->index];
        tell(col, check_label((check_row)row));
        status = RUN[row](col, (check_row)row, cell, err);
        if (cell->result == CHECK_NOT_RUN) cell->result = CHECK_EQUAL;
        c->n_compared += cell->n_compared;
        c->n_wrong += cell->result == CHECK_DIFFERS || cell->result == CHECK_EMPTY;
    }
    return status;
}

/* Which codecs the model's layers take, before anything is computed. */
static weft_status refuse_codecs(checks *c, weft_error *err)
{
    for (uint32_t i = 0; i < c->n_codecs; i++) {
        weft_kv_info kv = {.struct_size = sizeof kv};
        weft_error failure = {WEFT_OK, ""};
        weft_status status = weft_model_kv(c->model, c->codecs[i], &kv, &failure);
        c->refusals[i][0] = '\0';
        if (status == WEFT_OK) continue;
        if (status != WEFT_UNSUPPORTED) return err_set(err, status, "%s", failure.message);
        snprintf(c->refusals[i], sizeof c->refusals[i], "%s", failure.message);
        for (uint32_t row = 0; row < CHECK_ROWS; row++) c->cells[row][i].result = CHECK_REFUSED;
    }
    return WEFT_OK;
}

weft_status checks_run(checks *c, weft_error *err)
{
    ASSERT(c->n_codecs <= CHECKS_CODECS_MOST);
    weft_model_info info = {.struct_size = sizeof info};
    weft_status status = weft_model_get_info(c->model, &info, err);
    memset(c->cells, 0, sizeof c->cells);
    c->n_compared = c->n_wrong = 0;
    c->has_loop = false;
    if (status == WEFT_OK) status = refuse_codecs(c, err);
    uint32_t context = c->context != 0 && c->context < info.context ? c->context : info.context;
    c->n_prompts = 0;
    for (uint32_t i = 0; i < CHECKS_PROMPTS; i++) {
        uint32_t n = prompt_length(c, i, context);
        if (n > 0) c->prompts[c->n_prompts++] = n;
    }
    if (status == WEFT_OK && c->n_prompts == 0)
        return err_set(err, WEFT_LIMIT, "the context holds %u tokens, the checks need %u", context,
                       1 + NEW_TOKENS);
    for (uint32_t i = 0; i < c->n_codecs && status == WEFT_OK; i++) {
        if (c->refusals[i][0] != '\0') continue;
        column col = {
            .c = c, .index = i, .kv = c->codecs[i], .context = context, .n_vocab = info.n_vocab};
        status = run_column(&col, err);
        for (uint32_t k = 0; k < CHECKS_PROMPTS; k++) answer_deinit(&col.alone[k]);
        mem_free(mem_system(), col.ids, col.ids_bytes);
    }
    return status;
}
