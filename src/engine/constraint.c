/* constraint.c - answers that must be something: which tokens may be sampled, and what can be known
 * of them in advance.
 *
 * Tokens are sampled from left to right and taken into the state one by one. Drafts are taken for
 * the time in which more are made, and given back before anything is sampled. */
#include "base/assert.h"
#include "engine/state.h"

weft_status constraint_init(const weft_engine *e, request *r, const weft_request *from,
                            weft_error *err)
{
    const weft_grammar *g = from->grammar;
    if (g == NULL) return WEFT_OK;
    if (g->model != e->model)
        return err_set(err, WEFT_ARGUMENT, "the grammar is one of another model");
    if (from->max_new == 0)
        return err_set(err, WEFT_ARGUMENT, "there is a grammar, but max_new is 0");
    return grammar_state_create(g->rules, &r->constraint, err);
}

void constraint_deinit(request *r)
{
    grammar_state_destroy(r->constraint);
}

/* Takes the ids out of a mask, unless nothing would be left. */
static void leave_out(uint64_t *mask, size_t n_words, const int32_t *ids, uint32_t n)
{
    uint64_t any = 0;
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = mask[i];
        for (uint32_t k = 0; k < n; k++) {
            if ((uint32_t)ids[k] / 64 == i) word &= ~((uint64_t)1 << ((uint32_t)ids[k] % 64));
        }
        any |= word;
    }
    if (any == 0) return;
    for (uint32_t k = 0; k < n; k++)
        mask[(uint32_t)ids[k] / 64] &= ~((uint64_t)1 << ((uint32_t)ids[k] % 64));
}

static void leave_out_ends(weft_engine *e, const sample_input *in)
{
    int32_t ends[MODEL_STOP_IDS];
    uint32_t n = llm_end_ids(e->model, ends);
    leave_out(e->allowed, sample_mask_words(in->n_vocab), ends, n);
}

weft_status constraint_allow(weft_engine *e, const request *r, sample_input *in, weft_error *err)
{
    if (r->constraint == NULL) return WEFT_OK;
    weft_status status = grammar_state_mask(r->constraint, e->allowed, err);
    if (status != WEFT_OK) return status;
    leave_out(e->allowed, sample_mask_words(in->n_vocab), in->forbidden, in->n_forbidden);
    /* With IGNORE_STOP nothing is forbidden, but what ends the answer would end it. */
    bool early = in->position - in->n_prompt < r->sampling.min_new;
    if (early) leave_out_ends(e, in);
    in->n_forbidden = 0;
    in->allowed = e->allowed;
    return WEFT_OK;
}

weft_status constraint_take(request *r, int32_t id, bool *ended, weft_error *err)
{
    *ended = false;
    if (r->constraint == NULL) return WEFT_OK;
    weft_status status = grammar_state_accept(r->constraint, id, err);
    if (status == WEFT_OK) *ended = grammar_state_ended(r->constraint);
    return status;
}

bool constraint_try(request *r, int32_t draft)
{
    if (r->constraint == NULL) return true;
    if (r->draft.n_tried == GRAMMAR_ROLLBACK) return false;
    if (grammar_state_accept(r->constraint, draft, NULL) != WEFT_OK) return false;
    r->draft.n_tried++;
    return true;
}

void constraint_forget(request *r)
{
    if (r->draft.n_tried == 0) return;
    weft_status status = grammar_state_rollback(r->constraint, r->draft.n_tried, NULL);
    ASSERT(status == WEFT_OK);
    r->draft.n_tried = 0;
}

uint32_t constraint_most(request *r, const int32_t *drafts, uint32_t n)
{
    uint32_t most = 0;
    while (most < n && constraint_try(r, drafts[most])) most++;
    constraint_forget(r);
    return most;
}

uint32_t constraint_forced(const request *r, uint32_t most, int32_t *out)
{
    uint32_t n = 0;
    if (r->constraint == NULL) return 0;
    /* That it cannot be told now costs a guess. */
    return grammar_state_forced(r->constraint, out, most, &n, NULL) == WEFT_OK ? n : 0;
}
