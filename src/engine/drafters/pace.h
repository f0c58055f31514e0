/* pace.h - how many drafts of a graph pay for a request, by what became of those before.
 *
 * One number is learned: the chance that a draft is right when those before it are. A step with k
 * drafts then gives 1 + c + .. + c^k tokens and costs one step, k drafts, and k tokens that are
 * verified beside the first. The k with the most tokens for its cost is asked for. Where none gives
 * more than a step without drafts, the request rests for some tokens, each time longer, then tries
 * again. All of it follows from the request's own tokens: nothing is timed. */
#ifndef ENGINE_DRAFTERS_PACE_H
#define ENGINE_DRAFTERS_PACE_H

#include "engine/drafters/drafter.h"

size_t pace_bytes(uint32_t n_tokens);
void pace_init(void *state, uint32_t n_tokens, const int32_t *prompt, uint32_t n_prompt);
uint32_t pace_length(const void *state, uint32_t n_tokens, uint32_t cost, uint32_t most);
void pace_learn(void *state, uint32_t n_tokens, uint32_t cost, uint32_t n_drafts, uint32_t n_right);

#endif
