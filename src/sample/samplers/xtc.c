/* xtc.c - leaves the likeliest tokens out, now and then.
 *
 * Source: p-e-w, "Exclude Top Choices (XTC)" (2024, text-generation-webui's pull request 6335), in
 * the form of llama.cpp, which spares no special tokens: with the probability that is given, of the
 * candidates that are at least as likely as the threshold only the least likely one stays; where
 * there is but one, nothing changes. */
#include "sample/chain.h"

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    (void)n_vocab;
    weft_status status =
        sampling_check_range("xtc_probability", params->xtc_probability, 0.0, 1.0, err);
    if (status == WEFT_OK)
        status = sampling_check_range("xtc_threshold", params->xtc_threshold, 0.0, 0.5, err);
    /* It would leave the least likely token of all. */
    if (status == WEFT_OK && params->xtc_probability > 0.0F && params->xtc_threshold == 0.0F)
        status = err_set(err, WEFT_ARGUMENT,
                         "xtc_threshold is 0, expected more with an xtc_probability of %g",
                         (double)params->xtc_probability);
    return status;
}

static bool active(const weft_sampling *params)
{
    return params->xtc_probability > 0.0F;
}

static void cut(candidates *c, const weft_sampling *params, uint64_t position)
{
    if (sample_random(params, position, SAMPLE_XTC) >= (double)params->xtc_probability) return;
    double least = (double)params->xtc_threshold * candidates_total(c);
    uint32_t end = c->first;
    while (end < c->n && candidates_weight(c, end) >= least) end++;
    if (end > c->first) c->first = end - 1;
}

const sampler SAMPLER_XTC = {.name = "xtc", .check = check, .active = active, .cut = cut};
