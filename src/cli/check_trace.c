/* check_trace.c - a random trace of requests. */
#include "cli/check_trace.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

/* Numbers of the trace in the order in which they are drawn. */
typedef struct dice {
    uint64_t seed, counter;
} dice;

static uint32_t pick(dice *d, uint32_t n)
{
    return (uint32_t)(rng_u64(d->seed, d->counter++) % n);
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* The first has texts without a choice, which are verified several tokens a step; the second ends
 * early. */
static const struct {
    weft_grammar_kind kind;
    const char *text;
} FORMS[TRACE_FORMS] = {
    {WEFT_GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"count\":{\"type\":\"integer\"},\"name\":{\"type\":"
     "\"string\"}},\"required\":[\"count\",\"name\"],\"additionalProperties\":false}"},
    {WEFT_GRAMMAR_REGEX, "(yes|no|[0-9]{1,3})"},
};

static weft_status open_forms(trace *t, const weft_model *model, weft_error *err)
{
    for (uint32_t i = 0; i < TRACE_FORMS; i++) {
        weft_error failure = {WEFT_OK, ""};
        weft_status status = weft_grammar_open(model, FORMS[i].kind, FORMS[i].text,
                                               strlen(FORMS[i].text), &t->forms[i], &failure);
        if (status == WEFT_UNSUPPORTED) break;
        if (status != WEFT_OK) return err_set(err, status, "%s", failure.message);
    }
    t->has_forms = t->forms[TRACE_FORMS - 1] != NULL;
    return WEFT_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

static weft_sampling pick_sampling(dice *d)
{
    weft_sampling s = {.top_p = 1.0F, .seed = rng_u64(d->seed, d->counter++)};
    if (pick(d, 3) == 0) return s;
    s.temperature = 0.3F + 0.1F * (float)pick(d, 15);
    if (pick(d, 2) == 0) s.top_k = 1 + pick(d, 40);
    if (pick(d, 2) == 0) s.top_p = 0.5F + 0.1F * (float)pick(d, 5);
    if (pick(d, 3) == 0) s.min_p = 0.05F;
    if (pick(d, 3) == 0) s.repetition_penalty = 1.3F;
    if (pick(d, 4) == 0) s.presence_penalty = 0.7F;
    if (pick(d, 4) == 0) s.dry_multiplier = 0.8F;
    return s;
}

enum { PROMPT_MOST = 200, PROMPT_USUAL = 40, REPEATED_IDS = 48 };

static uint32_t prompt_most(const trace_terms *terms)
{
    uint32_t n = terms->longest - TRACE_NEW;
    return n < PROMPT_MOST ? n : PROMPT_MOST;
}

/* One that stood before, or some of a text and something else. Texts lie before the prompts. */
static void pick_prompt(trace *t, const trace_terms *terms, dice *d, uint32_t i)
{
    uint32_t most = prompt_most(terms);
    question *q = &t->questions[i];
    if (i > 1 && pick(d, 3) == 0) {
        const question *other = &t->questions[pick(d, i)];
        q->ids = other->ids;
        q->n_ids = other->n_ids;
        return;
    }
    int32_t *ids = t->ids + (size_t)(TRACE_TEXTS + i) * most;
    uint32_t usual = most < PROMPT_USUAL ? most : PROMPT_USUAL;
    q->ids = ids;
    q->n_ids = 1 + (pick(d, 3) == 0 ? pick(d, most) : pick(d, usual));
    uint32_t n_common = pick(d, 3) == 0 ? q->n_ids : pick(d, q->n_ids + 1);
    memcpy(ids, t->ids + (size_t)pick(d, TRACE_TEXTS) * most, n_common * sizeof *ids);
    for (uint32_t k = n_common; k < q->n_ids; k++) ids[k] = (int32_t)pick(d, terms->n_vocab);
}

/* What a trace must have is not left to chance: one that is cancelled before it can be done, one
 * that has something to draft from, one of each form, a long one that comes before those that began
 * and finds no room beside them; and two that come when it is quiet, the last one with the prompt
 * of the one before it. */
enum { ROLE_WORKS, ROLE_CANCELLED, ROLE_DRAFTED, ROLE_FORMS, ROLE_URGENT = 5, QUIET_STEPS = 1000 };

/* at: when the one before came. */
static void pick_request(trace *t, const trace_terms *terms, dice *d, uint32_t i, uint32_t *at)
{
    question *q = &t->questions[i];
    answer *a = &t->asked[i];
    pick_prompt(t, terms, d, i);
    q->max_new = pick(d, 3) == 0 ? TRACE_NEW : 1 + pick(d, TRACE_NEW);
    q->sampling = pick_sampling(d);
    a->kv = terms->kv[pick(d, 3) == 0 ? pick(d, terms->n_kv) : 0];
    if (pick(d, 2) == 0) a->draft = terms->drafts[pick(d, terms->n_drafts)];
    /* Drawn where the model has none, too: the rest of the trace is the same. */
    uint32_t form = pick(d, 2 * TRACE_FORMS);
    if (form < TRACE_FORMS && t->has_forms) a->grammar = t->forms[form];
    a->priority = (int32_t)pick(d, 3) - 1;
    a->cache_salt = pick(d, 5) == 0;
    a->flags = pick(d, 8) == 0 ? WEFT_REQUEST_NO_CACHE : 0;
    uint32_t pause = pick(d, 3) == 0 ? pick(d, 6) : 0;
    *at += i > 0 && i <= ROLE_URGENT ? 1 : pause;
    a->after = *at;
    if (pick(d, 5) == 0) a->cancels = *at + 1 + pick(d, 8);
}

static void settle_urgent(trace *t, uint32_t most, uint32_t i)
{
    question *q = &t->questions[i];
    q->ids = t->ids + (size_t)2 * most;
    q->n_ids = most;
    q->max_new = TRACE_NEW;
    t->asked[i].priority = 2;
}

static void settle_quiet(trace *t, const trace_terms *terms, uint32_t most, uint32_t i)
{
    question *q = &t->questions[i];
    answer *a = &t->asked[i];
    q->ids = t->ids + most;
    q->n_ids = most / 2 + 1;
    a->kv = terms->kv[0];
    a->flags = 0;
    a->cache_salt = 0;
    /* Longer than all others can take together, and its own answer. */
    a->after += i + 1 < t->n ? QUIET_STEPS : QUIET_STEPS + QUIET_STEPS / 2;
}

static void settle_request(trace *t, const trace_terms *terms, uint32_t i)
{
    question *q = &t->questions[i];
    answer *a = &t->asked[i];
    uint32_t most = prompt_most(terms);
    if (i == ROLE_URGENT) settle_urgent(t, most, i);
    if (i + 2 >= t->n) settle_quiet(t, terms, most, i);
    if (i <= ROLE_URGENT || i + 2 >= t->n) a->cancels = 0;
    if (i == ROLE_WORKS || i == ROLE_CANCELLED) {
        q->max_new = TRACE_NEW;
        a->cancels = i == ROLE_CANCELLED ? a->after + 3 : 0;
        a->draft = NULL;
        a->grammar = NULL;
    }
    if (i == ROLE_DRAFTED) {
        *q = (question){.ids = t->ids,
                        .n_ids = most < REPEATED_IDS ? most : REPEATED_IDS,
                        .max_new = TRACE_NEW,
                        .sampling.top_p = 1.0F};
        a->draft = terms->drafts[0];
        a->grammar = NULL;
    }
    if (i >= ROLE_FORMS && i - ROLE_FORMS < TRACE_FORMS)
        a->grammar = t->has_forms ? t->forms[i - ROLE_FORMS] : NULL;
}

static void make_texts(trace *t, const trace_terms *terms, dice *d)
{
    uint32_t most = prompt_most(terms);
    for (uint32_t i = 0; i < TRACE_TEXTS; i++) {
        int32_t *text = t->ids + (size_t)i * most;
        bool repeats = i == 0 && terms->n_ids > 0;
        for (uint32_t k = 0; k < most; k++)
            text[k] = repeats ? terms->ids[k % terms->n_ids] : (int32_t)pick(d, terms->n_vocab);
    }
}

weft_status trace_open(trace *t, const trace_terms *terms, weft_error *err)
{
    ASSERT(terms->n >= TRACE_LEAST && terms->n <= TRACE_REQUESTS && terms->longest > TRACE_NEW);
    *t = (trace){.n = terms->n};
    size_t n_ids = (size_t)(TRACE_TEXTS + t->n) * prompt_most(terms);
    t->ids_bytes = n_ids * sizeof *t->ids;
    t->ids = mem_alloc_zero(mem_system(), t->ids_bytes);
    if (t->ids == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %zu token ids of the trace", n_ids);
    weft_status status = open_forms(t, terms->model, err);
    if (status != WEFT_OK) {
        trace_close(t);
        return status;
    }
    dice d = {.seed = terms->seed};
    make_texts(t, terms, &d);
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        pick_request(t, terms, &d, i, &at);
        settle_request(t, terms, i);
    }
    return WEFT_OK;
}

void trace_close(trace *t)
{
    for (uint32_t i = 0; i < TRACE_FORMS; i++) weft_grammar_close(t->forms[i]);
    mem_free(mem_system(), t->ids, t->ids_bytes);
    *t = (trace){0};
}

weft_status trace_answer(const trace *t, uint32_t i, uint32_t n_vocab, bool alone, answer *a,
                         weft_error *err)
{
    ASSERT(i < t->n);
    const answer *asked = &t->asked[i];
    weft_status status = answer_init(a, &t->questions[i], n_vocab, err);
    if (status != WEFT_OK) return status;
    a->kv = asked->kv;
    a->grammar = asked->grammar;
    if (alone) return WEFT_OK;
    a->draft = asked->draft;
    a->priority = asked->priority;
    a->after = asked->after;
    a->cancels = asked->cancels;
    a->cache_salt = asked->cache_salt;
    a->flags = asked->flags;
    return WEFT_OK;
}
