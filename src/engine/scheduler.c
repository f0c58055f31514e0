/* scheduler.c - which rows a step has, and what becomes of its results.
 *
 * Every active sequence whose next token is known takes part: one token each for those that decode,
 * and prompt tokens, oldest request first, until the step is full. What a step is made of changes
 * no result. */
#include <string.h>

#include "base/assert.h"
#include "engine/state.h"

/* ---- before the run -------------------------------------------------------------------------- */

static void drop_cancelled(weft_engine *e)
{
    for (request *r = e->first; r != NULL;) {
        request *next = r->next;
        if (r->cancelled && r->phase != REQUEST_DONE)
            request_end(e, r, WEFT_FINISH_CANCELLED, NULL);
        if (r->released) request_free(e, r);
        r = next;
    }
}

/* First come, first served: a request that must wait for pages keeps those behind it waiting. */
static void admit(weft_engine *e)
{
    for (request *r = e->first; r != NULL && e->n_active < e->options.max_sequences; r = r->next) {
        if (r->phase != REQUEST_WAITING) continue;
        weft_error error = {WEFT_OK, ""};
        weft_status status = cache_begin(e, r, &error);
        if (status == WEFT_LIMIT) return;
        if (status != WEFT_OK) {
            request_end(e, r, WEFT_FINISH_ERROR, &error);
            continue;
        }
        r->phase = REQUEST_ACTIVE;
        e->n_active++;
    }
}

/* Tokens that the request could forward now. */
static uint32_t pending(const request *r)
{
    return r->n_tokens - r->seq->len;
}

static bool decodes(const request *r)
{
    return pending(r) == 1 && r->seq->len >= r->n_prompt;
}

/* Tokens whose logits the request wants, of the n that follow len. */
static uint32_t wanted(const request *r, uint32_t n)
{
    bool reaches_end = r->seq->len + n == r->n_tokens;
    if (r->prompt_logits != NULL && r->seq->len < r->n_prompt) return n;
    return reaches_end && r->max_new > 0 ? 1 : 0;
}

static void add_row(weft_engine *e, request *r, uint32_t n)
{
    batch *b = &e->batch;
    uint32_t row_i = b->step.n_rows++;
    uint32_t n_outputs = wanted(r, n);
    b->rows[row_i] = (batch_row){r, b->step.n_outputs, n_outputs};
    b->txn_rows[row_i] = (kv_txn_row){r->seq, n, false, cache_mark(r, n)};
    b->keep[row_i] = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t token_i = b->step.n_tokens + i;
        b->ids[token_i] = r->tokens[r->seq->len + i];
        b->positions[token_i] = r->seq->len + i;
        if (i + n_outputs >= n) b->outputs[b->step.n_outputs++] = token_i;
    }
    b->step.n_tokens += n;
    b->row_starts[row_i + 1] = b->step.n_tokens;
}

static void fill_rows(weft_engine *e)
{
    batch *b = &e->batch;
    for (request *r = e->first; r != NULL; r = r->next) {
        bool fits = b->step.n_outputs < b->limits.n_outputs;
        if (r->phase == REQUEST_ACTIVE && decodes(r) && fits) add_row(e, r, 1);
    }
    uint32_t budget = e->options.chunk_tokens;
    for (request *r = e->first; r != NULL && budget > 0; r = r->next) {
        if (r->phase != REQUEST_ACTIVE || decodes(r)) continue;
        uint32_t n = pending(r) < budget ? pending(r) : budget;
        uint32_t most = kv_seq_most_append(r->seq);
        if (n > most) n = most;
        uint32_t room = b->limits.n_outputs - b->step.n_outputs;
        if (r->prompt_logits != NULL && n > room) n = room;
        if (n == 0 || wanted(r, n) > room) continue;
        add_row(e, r, n);
        budget -= n;
    }
}

bool scheduler_fill(weft_engine *e)
{
    batch *b = &e->batch;
    drop_cancelled(e);
    admit(e);
    b->step = (backend_step){.ids = b->ids,
                             .positions = b->positions,
                             .row_starts = b->row_starts,
                             .outputs = b->outputs,
                             .views = b->views,
                             .logits = b->logits};
    b->row_starts[0] = 0;
    fill_rows(e);
    if (b->step.n_rows == 0) return false;
    weft_error error = {WEFT_OK, ""};
    if (kv_txn_begin(&e->txn, b->txn_rows, b->step.n_rows, &error) != WEFT_OK) {
        scheduler_fail(e, &error);
        return false;
    }
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        kv_seq_views(b->txn_rows[i].seq, b->views + i, b->step.n_rows);
    }
    return true;
}

/* ---- after the run --------------------------------------------------------------------------- */

static bool is_stop(const weft_engine *e, const request *r, int32_t id)
{
    if ((r->flags & WEFT_REQUEST_IGNORE_STOP) != 0) return false;
    const model_generation *g = &e->model->generation;
    for (uint32_t i = 0; i < g->n_stop_ids; i++) {
        if (g->stop_ids[i] == id) return true;
    }
    for (uint32_t i = 0; i < r->n_stop_ids; i++) {
        if (r->stop_ids[i] == id) return true;
    }
    return false;
}

static void sample_next(weft_engine *e, request *r, const float *logits)
{
    uint32_t n_vocab = e->model->params.n_vocab;
    uint32_t new_i = r->n_tokens - r->n_prompt;
    weft_error error = {WEFT_OK, ""};
    sample s;
    if (r->new_logits != NULL && !r->released) {
        memcpy(r->new_logits + (size_t)new_i * n_vocab, logits, n_vocab * sizeof(float));
    }
    if (sample_token(logits, n_vocab, &r->sampling, r->n_tokens, &e->scratch, &s, &error) !=
        WEFT_OK) {
        request_end(e, r, WEFT_FINISH_ERROR, &error);
        return;
    }
    r->tokens[r->n_tokens++] = s.id;
    r->logprobs[new_i] = s.logprob;
    if (is_stop(e, r, s.id)) {
        request_end(e, r, WEFT_FINISH_STOP, NULL);
    } else if (new_i + 1 == r->max_new) {
        request_end(e, r, WEFT_FINISH_LENGTH, NULL);
    }
}

static void publish_row(weft_engine *e, const batch_row *row, uint32_t n)
{
    request *r = row->r;
    uint32_t n_vocab = e->model->params.n_vocab;
    const float *logits = e->batch.logits + (size_t)row->first_output * n_vocab;
    uint32_t first = r->seq->len - n;
    if (r->prompt_logits != NULL && first < r->n_prompt && !r->released) {
        memcpy(r->prompt_logits + (size_t)first * n_vocab, logits,
               (size_t)row->n_outputs * n_vocab * sizeof(float));
    }
    if (r->seq->len < r->n_tokens) return;
    if (r->max_new == 0) {
        request_end(e, r, WEFT_FINISH_LENGTH, NULL);
    } else {
        sample_next(e, r, logits + (size_t)(row->n_outputs - 1) * n_vocab);
    }
}

static void free_released(weft_engine *e)
{
    for (request *r = e->first; r != NULL;) {
        request *next = r->next;
        if (r->released) {
            if (r->phase != REQUEST_DONE) request_end(e, r, WEFT_FINISH_CANCELLED, NULL);
            request_free(e, r);
        }
        r = next;
    }
}

void scheduler_publish(weft_engine *e)
{
    batch *b = &e->batch;
    kv_txn_commit(&e->txn, b->keep);
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        publish_row(e, &b->rows[i], b->keep[i]);
        if (b->rows[i].r->phase == REQUEST_ACTIVE) cache_keep(e, b->rows[i].r);
    }
    free_released(e);
}

void scheduler_fail(weft_engine *e, const weft_error *error)
{
    kv_txn_rollback(&e->txn);
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
        request_end(e, e->batch.rows[i].r, WEFT_FINISH_ERROR, error);
    }
    free_released(e);
}
