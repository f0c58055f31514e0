/* assistant.h - models that draft for another one, their target, out of what that has stored: they
 * have queries alone. params.is_assistant says which are such.
 *
 * A draft is one run of the graph for one token. Feed 0 is the target's embedding of the token,
 * then a hidden state of the target's width: for the first draft the target's own of the token
 * before, for others what the run before gave. Each state is a view of the target's. All drafts
 * behind a text of n stored tokens are made at the same place, n, which turns the queries (places
 * of the step), and see what a token at n - 1 sees (positions). */
#ifndef MODELS_ASSISTANT_H
#define MODELS_ASSISTANT_H

#include "models/model.h"

/* What binding alone does not say: OK for other models. */
weft_status assistant_check(const llm *m, weft_error *err);

/* The target's layers whose keys and values the assistant's read, its last ones of each layout:
 * donors [m->n_donor_layers], indices into the target's kv_layers. ARGUMENT and UNSUPPORTED say how
 * the two do not go together. */
weft_status assistant_donors(const llm *m, const llm *target, uint32_t *donors, weft_error *err);

/* The embedding of a token as the target's first layer has it, [n_embd of target]. */
void assistant_embed(const llm *target, int32_t id, float *to);

/* Columns of the graph's two results, of which the second begins with the next hidden state. */
uint32_t assistant_n_scores(const llm *m);
uint32_t assistant_n_hidden(const llm *m);

/* Weights of a draft that its graph does not name. */
uint64_t assistant_bytes(const llm *m);

/* Logits of all tokens, [n_vocab], from a row of each result. scores is used up; row: [n_embd] of
 * the assistant, scratch. Where centroids choose, tokens that are not looked at have 1 less than
 * the least that is. */
void assistant_logits(const llm *m, float *scores, const float *hidden, float *row, float *logits);

#endif
