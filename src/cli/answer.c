/* answer.c - asking an engine and comparing what it says. */
#include "cli/answer.h"

#include <string.h>

#include "base/mem.h"

static size_t row_bytes(const answer *a)
{
    return (size_t)a->n_vocab * sizeof(float);
}

weft_status answer_init(answer *a, const question *q, uint32_t n_vocab, weft_error *err)
{
    *a = (answer){.of = q, .n_vocab = n_vocab};
    size_t bytes;
    if (size_mul(q->max_new, row_bytes(a), &bytes)) {
        a->tokens = mem_alloc_zero(mem_system(), q->max_new * sizeof *a->tokens);
        a->logprobs = mem_alloc_zero(mem_system(), q->max_new * sizeof *a->logprobs);
        a->logits = mem_alloc_zero(mem_system(), bytes);
    }
    if (a->tokens != NULL && a->logprobs != NULL && a->logits != NULL) return WEFT_OK;
    answer_deinit(a);
    return err_set(err, WEFT_NOMEM, "out of memory for the logits of %u tokens, %u numbers each",
                   q->max_new, n_vocab);
}

void answer_deinit(answer *a)
{
    if (a->of == NULL) return;
    uint32_t n = a->of->max_new;
    mem_free(mem_system(), a->tokens, n * sizeof *a->tokens);
    mem_free(mem_system(), a->logprobs, n * sizeof *a->logprobs);
    mem_free(mem_system(), a->logits, n * row_bytes(a));
    *a = (answer){0};
}

/* ---- asking ---------------------------------------------------------------------------------- */

static weft_status submit(weft_engine *engine, answer *a, weft_error *err)
{
    weft_request r = {.struct_size = sizeof r,
                      .flags = a->flags | WEFT_REQUEST_IGNORE_STOP,
                      .prompt = a->of->ids,
                      .n_prompt = a->of->n_ids,
                      .max_new = a->of->max_new,
                      .sampling = a->of->sampling,
                      .new_logits = a->logits,
                      .kv = a->kv,
                      .draft = a->draft,
                      .priority = a->priority,
                      .grammar = a->grammar,
                      .cache_salt = a->cache_salt};
    a->n_tokens = 0;
    a->done = a->cancelled = false;
    return weft_submit(engine, &r, &a->handle, err);
}

static weft_status poll(weft_engine *engine, answer *a, weft_error *err)
{
    while (!a->done) {
        weft_event event = {.struct_size = sizeof event};
        weft_status status = weft_poll(engine, a->handle, &event, err);
        if (status != WEFT_OK || event.kind == WEFT_EVENT_NONE) return status;
        if (event.kind == WEFT_EVENT_TOKEN && a->n_tokens < a->of->max_new) {
            a->tokens[a->n_tokens] = event.token;
            a->logprobs[a->n_tokens++] = event.logprob;
        }
        if (event.kind != WEFT_EVENT_DONE) continue;
        a->done = true;
        a->cancelled = event.finish == WEFT_FINISH_CANCELLED;
        a->n_cached = event.n_cached;
        a->n_drafted = event.n_drafted;
        a->n_accepted = event.n_accepted;
        a->n_paused = event.n_paused;
        if (event.finish == WEFT_FINISH_ERROR)
            return err_set(err, event.error.status, "%s", event.error.message);
    }
    return WEFT_OK;
}

static weft_status cancel(weft_engine *engine, const answer *answers, uint32_t n, uint32_t step,
                          weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < n && status == WEFT_OK; i++) {
        if (answers[i].cancels > 0 && answers[i].cancels == step && !answers[i].done)
            status = weft_cancel(engine, answers[i].handle, err);
    }
    return status;
}

weft_status answers_take(weft_engine *engine, answer *answers, uint32_t n, weft_error *err)
{
    weft_status status = WEFT_OK;
    uint32_t n_asked = 0;
    uint32_t n_active = 1;
    for (uint32_t step = 0; status == WEFT_OK && (n_active > 0 || n_asked < n); step++) {
        for (; n_asked < n && answers[n_asked].after <= step && status == WEFT_OK;
             n_asked += status == WEFT_OK)
            status = submit(engine, &answers[n_asked], err);
        if (status == WEFT_OK) status = cancel(engine, answers, n_asked, step, err);
        if (status == WEFT_OK) status = weft_step(engine, &n_active, err);
        for (uint32_t i = 0; i < n_asked && status == WEFT_OK; i++)
            status = poll(engine, &answers[i], err);
    }
    /* Nothing writes to the logits of what was released. */
    for (uint32_t i = 0; i < n_asked; i++) weft_release(engine, answers[i].handle, NULL);
    return status;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* As bits: a sum in another order may be equal as a number, -0 to 0, and be another result. */
static bool same_token(const answer *a, const answer *b, uint32_t i)
{
    size_t row = (size_t)i * a->n_vocab;
    uint32_t bits_a;
    uint32_t bits_b;
    memcpy(&bits_a, &a->logprobs[i], sizeof bits_a);
    memcpy(&bits_b, &b->logprobs[i], sizeof bits_b);
    return a->tokens[i] == b->tokens[i] && bits_a == bits_b &&
           memcmp((const unsigned char *)(a->logits + row),
                  (const unsigned char *)(b->logits + row), row_bytes(a)) == 0;
}

uint32_t answer_difference(const answer *a, const answer *b)
{
    if (a->n_vocab != b->n_vocab) return 1;
    uint32_t n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens;
    for (uint32_t i = 0; i < n; i++) {
        if (!same_token(a, b, i)) return i + 1;
    }
    bool short_of = a->cancelled && a->n_tokens < b->n_tokens;
    return a->n_tokens == b->n_tokens || short_of ? 0 : n + 1;
}
