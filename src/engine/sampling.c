/* sampling.c - how a request's tokens are chosen: its parameters with all lists, and what each
 * token is chosen from.
 *
 * History is what is known at that position, so a run of drafts is sampled as it would be token by
 * token. */
#include <string.h>

#include "engine/state.h"

/* ---- checks ---------------------------------------------------------------------------------- */

static weft_status check_stop_ids(const weft_request *from, uint32_t n_vocab, weft_error *err)
{
    if (from->n_stop_ids > 0 && from->stop_ids == NULL)
        return err_set(err, WEFT_ARGUMENT, "stop_ids is NULL");
    for (uint32_t i = 0; i < from->n_stop_ids; i++) {
        if (from->stop_ids[i] >= 0 && (uint32_t)from->stop_ids[i] < n_vocab) continue;
        return err_set(err, WEFT_ARGUMENT, "stop id %u is token id %d, the vocabulary has %u", i,
                       from->stop_ids[i], n_vocab);
    }
    return WEFT_OK;
}

weft_status sampling_check_request(const weft_engine *e, const weft_request *from, weft_error *err)
{
    uint32_t n_vocab = e->model->params.n_vocab;
    weft_status status = check_stop_ids(from, n_vocab, err);
    if (status == WEFT_OK) status = sampling_check(&from->sampling, n_vocab, err);
    if (status == WEFT_OK && from->sampling.n_dry_breakers > 0)
        status = text_need_tokenizer(e, "dry_breakers", err);
    if (status != WEFT_OK) return status;
    if (from->min_new > from->max_new) {
        return err_set(err, WEFT_ARGUMENT, "min_new is %u, max_new %u", from->min_new,
                       from->max_new);
    }
    if (from->n_top > WEFT_TOP_LOGPROBS) {
        return err_set(err, WEFT_ARGUMENT, "n_top is %u, expected at most %d", from->n_top,
                       WEFT_TOP_LOGPROBS);
    }
    return WEFT_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static size_t top_bytes(const request *r)
{
    return (size_t)r->max_new * r->sampling.n_top * sizeof(weft_top_logprob);
}

static size_t bias_bytes(const request *r)
{
    return r->sampling.params.n_logit_bias * sizeof(weft_logit_bias);
}

static size_t mask_bytes(const weft_engine *e)
{
    return sample_mask_words(e->model->params.n_vocab) * sizeof(uint64_t);
}

static bool contains(const strbuf *text, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= text->len; i++) {
        if (memcmp(text->ptr + i, part, n) == 0) return true;
    }
    return false;
}

/* Which tokens have one of the texts in what they stand for. */
static bool find_breakers(const weft_engine *e, request *r, const weft_sampling *from)
{
    const tokenizer *t = e->options.tokenizer;
    uint32_t n = tokenizer_n_vocab(t);
    if (n > e->model->params.n_vocab) n = e->model->params.n_vocab;
    r->sampling.breakers = mem_alloc_zero(e->env.allocator, mask_bytes(e));
    if (r->sampling.breakers == NULL) return false;
    strbuf text;
    strbuf_init(&text, e->env.allocator, 0);
    weft_status status = WEFT_OK;
    for (uint32_t id = 0; id < n && status == WEFT_OK; id++) {
        bool has = false;
        strbuf_clear(&text);
        status = tokenizer_bytes(t, (int32_t)id, false, &text);
        for (uint32_t i = 0; i < from->n_dry_breakers && !has; i++)
            has = contains(&text, from->dry_breakers[i]);
        r->sampling.breakers[id / 64] |= (uint64_t)has << (id % 64);
    }
    strbuf_deinit(&text);
    return status == WEFT_OK;
}

static void add_stops(request_sampling *s, const int32_t *ids, uint32_t n)
{
    if (n > 0) memcpy(s->stop_ids + s->n_stop_ids, ids, n * sizeof *ids);
    s->n_stop_ids += n;
}

static size_t stop_bytes(const weft_engine *e, const request *r)
{
    return ((size_t)e->model->generation.n_stop_ids + r->sampling.n_own_stops) * sizeof(int32_t);
}

static bool copy_stops(const weft_engine *e, request *r, const weft_request *from)
{
    int32_t ends[MODEL_STOP_IDS];
    request_sampling *s = &r->sampling;
    s->n_own_stops = from->n_stop_ids;
    if ((from->flags & WEFT_REQUEST_IGNORE_STOP) != 0 || stop_bytes(e, r) == 0) return true;
    s->stop_ids = mem_alloc(e->env.allocator, stop_bytes(e, r));
    if (s->stop_ids == NULL) return false;
    add_stops(s, ends, llm_end_ids(e->model, ends));
    add_stops(s, from->stop_ids, from->n_stop_ids);
    return true;
}

bool sampling_init(const weft_engine *e, request *r, const weft_request *from)
{
    const weft_allocator *a = e->env.allocator;
    request_sampling *s = &r->sampling;
    s->params = from->sampling;
    s->params.dry_breakers = NULL;
    s->params.n_dry_breakers = 0;
    s->min_new = from->min_new;
    s->n_top = from->n_top;
    s->bias = mem_alloc(a, bias_bytes(r));
    s->top = mem_alloc(a, top_bytes(r));
    s->params.logit_bias = s->bias;
    if ((s->bias == NULL && bias_bytes(r) > 0) || (s->top == NULL && top_bytes(r) > 0))
        return false;
    if (s->bias != NULL) memcpy(s->bias, from->sampling.logit_bias, bias_bytes(r));
    bool breaks = from->sampling.dry_multiplier > 0.0F && from->sampling.n_dry_breakers > 0;
    return copy_stops(e, r, from) && (!breaks || find_breakers(e, r, &from->sampling));
}

void sampling_deinit(const weft_engine *e, request *r)
{
    const weft_allocator *a = e->env.allocator;
    request_sampling *s = &r->sampling;
    mem_free(a, s->bias, bias_bytes(r));
    mem_free(a, s->top, top_bytes(r));
    mem_free(a, s->breakers, mask_bytes(e));
    mem_free(a, s->stop_ids, stop_bytes(e, r));
}

/* ---- one token ------------------------------------------------------------------------------- */

weft_status sampling_next(weft_engine *e, request *r, const float *logits, sample *out,
                          weft_error *err)
{
    const request_sampling *s = &r->sampling;
    uint32_t new_i = r->n_tokens - r->n_prompt;
    weft_top_logprob *top = s->n_top > 0 ? s->top + (size_t)new_i * s->n_top : NULL;
    sample_input in = {.logits = logits,
                       .n_vocab = e->model->params.n_vocab,
                       .params = &s->params,
                       .position = r->n_tokens,
                       .history = r->tokens,
                       .n_history = r->n_tokens,
                       .n_prompt = r->n_prompt,
                       .forbidden = s->stop_ids,
                       .n_forbidden = new_i < s->min_new ? s->n_stop_ids : 0,
                       .breakers = s->breakers,
                       .top = top,
                       .n_top = s->n_top};
    weft_status status = constraint_allow(e, r, &in, err);
    if (status == WEFT_OK) status = sample_token(&in, &e->scratch, out, err);
    for (uint32_t i = out->n_top; top != NULL && i < s->n_top && status == WEFT_OK; i++)
        top[i] = (weft_top_logprob){-1, 0.0F};
    return status;
}

bool sampling_stops(const request *r, int32_t id)
{
    for (uint32_t i = 0; i < r->sampling.n_stop_ids; i++) {
        if (r->sampling.stop_ids[i] == id) return true;
    }
    return false;
}

void sampling_give(const request *r, weft_event *event)
{
    const request_sampling *s = &r->sampling;
    if (s->n_top == 0) return;
    event->top = s->top + (size_t)r->n_polled * s->n_top;
    while (event->n_top < s->n_top && event->top[event->n_top].token >= 0) event->n_top++;
}
