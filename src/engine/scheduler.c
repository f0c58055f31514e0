/* scheduler.c - which rows a step has, and what becomes of its results.
 *
 * Every active sequence whose next token is known takes part: one token each for those that decode,
 * with drafts behind it while there are logits to spare, and prompt tokens, oldest request first,
 * until the step is full. What a step is made of changes no result. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/state.h"

/* ---- before the run -------------------------------------------------------------------------- */

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

/* Of the row's n tokens, behind those of the step so far, those that its vector is made of, which
 * are among all where a drafter reads them. */
static void add_hidden(batch *b, batch_row *row, uint32_t n, bool all)
{
    uint32_t skip = 0;
    row->n_hidden = embed_wanted(row->r, n, &skip);
    row->first_hidden = b->step.n_hidden + (all ? skip : 0);
    uint32_t first = all ? 0 : skip;
    uint32_t count = all ? n : row->n_hidden;
    for (uint32_t i = 0; i < count; i++)
        b->hidden_of[b->step.n_hidden++] = b->step.n_tokens + first + i;
}

/* n tokens that are known, and as many drafts as were put behind them in ids. */
static void add_row(weft_engine *e, request *r, uint32_t n, uint32_t n_drafts)
{
    batch *b = &e->batch;
    uint32_t row_i = b->step.n_rows++;
    uint32_t n_outputs = wanted(r, n) + n_drafts;
    int32_t *ids = b->ids + b->step.n_tokens;
    b->rows[row_i] = (batch_row){.r = r,
                                 .first_output = b->step.n_outputs,
                                 .n_outputs = n_outputs,
                                 .drafts = ids + n,
                                 .n_drafts = n_drafts,
                                 .n_known = r->n_tokens};
    memcpy(ids, r->tokens + r->seq->len, n * sizeof *ids);
    n += n_drafts;
    media_pad(e, ids, n);
    r->stepped = e->n_steps;
    b->txn_rows[row_i] = (kv_txn_row){r->seq, n, n_drafts > 0, cache_mark(r, n)};
    add_hidden(b, &b->rows[row_i], n, draft_reads_hidden(e));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t token_i = b->step.n_tokens + i;
        b->positions[token_i] = r->seq->len + i;
        if (b->highest != NULL) b->highest[token_i] = r->seq->len + n - 1;
        if (i + n_outputs >= n) b->outputs[b->step.n_outputs++] = token_i;
    }
    b->step.n_tokens += n;
    b->row_starts[row_i + 1] = b->step.n_tokens;
}

static bool may_draft(const request *r)
{
    return r->drafter != NULL || r->constraint != NULL;
}

/* Every row that decodes. Drafts divide the outputs that are left when each active sequence has the
 * one that it may need, so that they keep nobody waiting. */
static void add_decoding(weft_engine *e)
{
    batch *b = &e->batch;
    uint32_t spare = b->limits.n_outputs - e->n_active;
    uint32_t n_left = 0; /* rows that draft */
    for (uint32_t i = 0; i < e->n_active; i++)
        n_left += decodes(e->active[i]) && may_draft(e->active[i]) && !request_rests(e->active[i]);
    for (uint32_t i = 0; i < e->n_active; i++) {
        request *r = e->active[i];
        if (!decodes(r) || request_rests(r)) continue;
        uint32_t n_drafts = 0;
        if (may_draft(r) && n_left > 0) {
            uint32_t share = (spare + n_left - 1) / n_left;
            n_left--;
            n_drafts = verify_propose(e, r, share, b->ids + b->step.n_tokens + 1);
            spare -= n_drafts;
        }
        add_row(e, r, 1, n_drafts);
    }
}

static void fill_rows(weft_engine *e)
{
    batch *b = &e->batch;
    add_decoding(e);
    uint32_t budget = e->options.chunk_tokens;
    for (uint32_t i = 0; i < e->n_active && budget > 0; i++) {
        request *r = e->active[i];
        if (decodes(r) || r->piece_rows > 0) continue;
        uint32_t n = pending(r) < budget ? pending(r) : budget;
        uint32_t most = kv_seq_most_append(r->seq);
        if (n > most) n = most;
        uint32_t room = b->limits.n_outputs - b->step.n_outputs;
        if (r->prompt_logits != NULL && n > room) n = room;
        if (r->logits_rows > 0 && n > r->logits_rows) n = r->logits_rows;
        n = media_whole(&r->media, r->seq->len, n);
        if (n == 0 || wanted(r, n) > room) continue;
        /* A text that must go as a whole waits for a step with room, and keeps those behind it
         * waiting. */
        if (e->model->params.sees_all && n < pending(r)) break;
        add_row(e, r, n, 0);
        budget -= n;
    }
}

bool scheduler_fill(weft_engine *e)
{
    batch *b = &e->batch;
    queue_prepare(e);
    draft_prepare(e);
    b->step = (backend_step){.ids = b->ids,
                             .positions = b->positions,
                             .row_starts = b->row_starts,
                             .highest = b->highest,
                             .outputs = b->outputs,
                             .hidden_of = b->hidden_of,
                             .views = b->views,
                             .logits = b->logits,
                             .hidden = b->hidden,
                             .n_nonfinite = &e->n_nonfinite};
    b->row_starts[0] = 0;
    fill_rows(e);
    queue_count_idle(e);
    if (b->step.n_rows == 0) return false;
    media_lay_out(e);
    taps_lay_out(e);
    weft_error error = {WEFT_OK, ""};
    if (kv_txn_begin(&e->txn, b->txn_rows, b->step.n_rows, &error) != WEFT_OK) {
        scheduler_fail(e, &error);
        return false;
    }
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        kv_seq_views(b->txn_rows[i].seq, b->views + i, b->step.n_rows);
    }
    draft_fill(e);
    return true;
}

/* ---- after the run --------------------------------------------------------------------------- */

/* Logits of n prompt tokens from first on, to the caller. */
static void give_prompt_logits(request *r, uint32_t first, uint32_t n, const float *logits,
                               uint32_t n_vocab)
{
    bool pieces = r->logits_rows > 0;
    memcpy(r->prompt_logits + (pieces ? 0 : (size_t)first * n_vocab), logits,
           (size_t)n * n_vocab * sizeof(float));
    if (!pieces) return;
    r->piece_first = first;
    r->piece_rows = n;
}

/* Takes what the row's logits say and returns how many of its n positions stay. No sequence is
 * touched yet: a commit comes once for all rows, when nothing can fail any more. */
static uint32_t settle_row(weft_engine *e, batch_row *row, uint32_t n)
{
    request *r = row->r;
    uint32_t n_vocab = e->model->params.n_vocab;
    const float *logits = e->batch.logits + (size_t)row->first_output * n_vocab;
    uint32_t first = r->seq->len;
    if (r->prompt_logits != NULL && first < r->n_prompt && !r->released) {
        give_prompt_logits(r, first, row->n_outputs, logits, n_vocab);
    }
    if (r->embedding.to != NULL && !r->released) embed_take(e, row, n);
    if (first + n < r->n_tokens || row->finish == WEFT_FINISH_ERROR) return n;
    if (r->max_new == 0) {
        row->finish = WEFT_FINISH_LENGTH;
        return n;
    }
    uint32_t n_sampled = 1 + row->n_drafts;
    logits += (size_t)(row->n_outputs - n_sampled) * n_vocab;
    return n - n_sampled + verify_row(e, row, logits);
}

void scheduler_settle(weft_engine *e)
{
    batch *b = &e->batch;
    uint64_t begun = clock_now_ns();
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        taps_take(e, i, b->txn_rows[i].n);
        b->keep[i] = settle_row(e, &b->rows[i], b->txn_rows[i].n);
    }
    e->ns_samples += clock_now_ns() - begun;
}

void scheduler_commit(weft_engine *e)
{
    batch *b = &e->batch;
    kv_txn_commit(&e->txn, b->keep);
    draft_commit(e);
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        const batch_row *row = &b->rows[i];
        /* Also of one that ends with its first token: its prompt may come again. */
        cache_keep(e, row->r);
        if (row->finish != WEFT_FINISH_NONE) request_end(e, row->r, row->finish, NULL);
        if (row->r->released) queue_remove(e, row->r);
    }
    queue_free_released(e);
}

void scheduler_fail(weft_engine *e, const weft_error *error)
{
    kv_txn_rollback(&e->txn);
    draft_fail(e);
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
        request *r = e->batch.rows[i].r;
        request_end(e, r, WEFT_FINISH_ERROR, error);
        if (r->released) queue_remove(e, r);
    }
    queue_free_released(e);
}
