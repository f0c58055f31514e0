/* penalties.c - tokens that were there lose: by a factor if they are in prompt or answer, by a
 * number if they are in the answer, by another one each time they are.
 *
 * Repetition: Keskar et al. 2019 (CTRL), in the form of Transformers'
 * RepetitionPenaltyLogitsProcessor (a negative logit is multiplied, any other divided). Presence
 * and frequency: the formula of OpenAI's API, logit - frequency * count - presence * (count > 0).
 * In this order, as vLLM has it, which also counts so: the factor sees the prompt, the numbers do
 * not. */
#include <math.h>

#include "sample/chain.h"

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    (void)n_vocab;
    weft_status status = WEFT_OK;
    if (params->repetition_penalty != 0.0F)
        status = sampling_check_range("repetition_penalty", params->repetition_penalty, 0.01, 100.0,
                                      err);
    if (status == WEFT_OK)
        status = sampling_check_range("presence_penalty", params->presence_penalty, -2.0, 2.0, err);
    if (status == WEFT_OK)
        status =
            sampling_check_range("frequency_penalty", params->frequency_penalty, -2.0, 2.0, err);
    return status;
}

static bool repeats(const weft_sampling *params)
{
    return params->repetition_penalty != 0.0F && params->repetition_penalty != 1.0F;
}

static bool active(const weft_sampling *params)
{
    return repeats(params) || params->presence_penalty != 0.0F || params->frequency_penalty != 0.0F;
}

static float penalized(const weft_sampling *params, float logit, uint32_t count)
{
    double x = (double)logit;
    if (!isfinite(logit)) return logit;
    if (repeats(params)) {
        double factor = (double)params->repetition_penalty;
        x = x < 0.0 ? x * factor : x / factor;
    }
    x -= (double)params->frequency_penalty * (double)count;
    if (count > 0) x -= (double)params->presence_penalty;
    return sample_number(x);
}

/* Marks a token that was there at all; the rest counts it in the answer. */
#define SEEN 0x80000000u

/* Twice over the history, so that the vocabulary is not walked: the first to meet a token again
 * takes its count away. */
static void adjust(const sample_input *in, float *logits, sample_scratch *scratch)
{
    uint32_t range = in->params->penalty_range;
    uint32_t first = range != 0 && range < in->n_history ? in->n_history - range : 0;
    for (uint32_t i = first; i < in->n_history; i++) {
        uint32_t *count = &scratch->counts[in->history[i]];
        *count = (*count | SEEN) + (i >= in->n_prompt);
    }
    for (uint32_t i = first; i < in->n_history; i++) {
        int32_t id = in->history[i];
        uint32_t count = scratch->counts[id];
        if (count == 0) continue;
        scratch->counts[id] = 0;
        logits[id] = penalized(in->params, logits[id], count & ~SEEN);
    }
}

const sampler SAMPLER_PENALTIES = {
    .name = "penalties", .check = check, .active = active, .adjust = adjust};
