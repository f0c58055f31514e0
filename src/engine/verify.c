/* verify.c - drafts: which a row takes along, and what a step's logits say of them.
 *
 * A row is [known, d1 .. dk]; its logits are those that k + 1 steps would have had if the drafts
 * are right. So they are sampled from left to right, each exactly as a plain run would, and a draft
 * is right when it is the token that was sampled: the first that is not is replaced by that token,
 * and the logits behind it are void. Tokens, log-probabilities and logits are those of a run
 * without drafts, whatever was proposed (KV-38). */
#include <string.h>

#include "base/clock.h"
#include "engine/state.h"

uint32_t verify_propose(weft_engine *e, request *r, uint32_t most, int32_t *out)
{
    /* The last token that may be sampled is never forwarded, and a draft is one that was. */
    uint32_t left = r->max_new - (r->n_tokens - r->n_prompt) - 1;
    uint32_t append = kv_seq_most_append(r->seq) - 1;
    if (most > e->options.max_drafts) most = e->options.max_drafts;
    if (most > left) most = left;
    if (most > append) most = append;
    /* When memory is short a promise is no longer than what is known. */
    uint32_t promised = r->seq->limit - r->n_tokens;
    if (most > promised) most = promised;
    if (most == 0) return 0;
    uint32_t n_forced = constraint_forced(r, most, out);
    if (n_forced > 0 || r->drafter == NULL) return n_forced;
    if (r->drafter->propose == NULL) return draft_plan(e, r, most, out);
    uint32_t n = r->drafter->propose(r->draft_state, r->tokens, r->n_tokens, most, out);
    if (n > most) n = most;
    for (uint32_t i = 0; i < n; i++) {
        if (out[i] < 0 || (uint32_t)out[i] >= e->model->params.n_vocab) n = i;
    }
    return constraint_most(r, out, n);
}

/* What the request comes to by its next token, which is sampled and added. */
static weft_finish sample_next(weft_engine *e, request *r, const float *logits)
{
    uint32_t n_vocab = e->model->params.n_vocab;
    uint32_t new_i = r->n_tokens - r->n_prompt;
    sample s;
    if (r->new_logits != NULL && !r->released) {
        memcpy(r->new_logits + (size_t)new_i * n_vocab, logits, n_vocab * sizeof(float));
    }
    bool ended;
    if (sampling_next(e, r, logits, &s, &r->error) != WEFT_OK) return WEFT_FINISH_ERROR;
    if (constraint_take(r, s.id, &ended, &r->error) != WEFT_OK) return WEFT_FINISH_ERROR;
    r->ns_last = clock_now_ns() - r->ns_submitted;
    if (new_i == 0) r->ns_first = r->ns_last;
    r->tokens[r->n_tokens++] = s.id;
    r->logprobs[new_i] = s.logprob;
    weft_finish finish = new_i + 1 == r->max_new ? WEFT_FINISH_LENGTH : WEFT_FINISH_NONE;
    /* Before min_new one is sampled only where a grammar leaves nothing else, and goes on. */
    if (ended || (new_i >= r->sampling.min_new && sampling_stops(r, s.id))) {
        r->text.stop_id = s.id;
        finish = WEFT_FINISH_STOP;
    }
    return text_settle(r, finish);
}

uint32_t verify_row(weft_engine *e, batch_row *row, const float *logits)
{
    request *r = row->r;
    uint32_t n_vocab = e->model->params.n_vocab;
    uint32_t n_right = 0;
    uint32_t n = 0;
    do {
        row->finish = sample_next(e, r, logits + (size_t)n * n_vocab);
        bool right = row->finish != WEFT_FINISH_ERROR && n < row->n_drafts &&
                     row->drafts[n] == r->tokens[r->n_tokens - 1];
        n_right += right;
        n++;
        if (!right) break;
    } while (row->finish == WEFT_FINISH_NONE);
    r->n_drafted += row->n_drafts;
    r->n_accepted += n_right;
    e->n_drafted += row->n_drafts;
    e->n_accepted += n_right;
    return n;
}
