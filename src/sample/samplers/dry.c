/* dry.c - tokens that would lengthen a repeat lose, the more the longer it is already.
 *
 * Source: p-e-w, "DRY: A modern repetition penalty that reliably prevents looping" (2024,
 * text-generation-webui's pull request 5677). Where the last n tokens were there before, followed
 * by a token t, n >= allowed length, t loses multiplier * base ^ (n - allowed length), for the
 * largest such n. A repeat ends at a breaker, and a breaker is never penalized. As there, prompt
 * and answer are one text; unlike there, n has no bound of 50: all n come from one pass of the Z
 * algorithm over the text from its end on (as in llama.cpp), linear in its length. */
#include <math.h>

#include "sample/chain.h"

enum { ALLOWED_DEFAULT = 2 };

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    (void)n_vocab;
    weft_status status =
        sampling_check_range("dry_multiplier", params->dry_multiplier, 0.0, 100.0, err);
    if (status == WEFT_OK && params->dry_base != 0.0F)
        status = sampling_check_range("dry_base", params->dry_base, 1.0, 100.0, err);
    if (status != WEFT_OK) return status;
    return sampling_check_texts("dry_breakers", params->dry_breakers, params->n_dry_breakers,
                                WEFT_DRY_BREAKERS, err);
}

static bool active(const weft_sampling *params)
{
    return params->dry_multiplier > 0.0F;
}

/* The text that is looked at, from its end on: token 0 is the newest. */
typedef struct backwards {
    const int32_t *last;
    uint32_t n;
} backwards;

static int32_t token(backwards b, uint32_t i)
{
    return *(b.last - i);
}

/* Tokens up to the newest breaker: no repeat is longer. */
static uint32_t longest_repeat(backwards b, const uint64_t *breakers)
{
    uint32_t n = 0;
    while (n < b.n && (breakers == NULL || !sample_mask_has(breakers, token(b, n)))) n++;
    return n;
}

/* z [n]: how many tokens from i on are those from 0 on (Gusfield 1997). */
static void find_repeats(backwards b, uint32_t *z)
{
    uint32_t left = 0;
    uint32_t right = 0; /* tokens [left, right) are those from 0 on */
    for (uint32_t i = 1; i < b.n; i++) {
        uint32_t n = 0;
        if (i < right) n = right - i < z[i - left] ? right - i : z[i - left];
        while (i + n < b.n && token(b, n) == token(b, i + n)) n++;
        z[i] = n;
        if (i + n > right) {
            left = i;
            right = i + n;
        }
    }
}

static float penalized(const weft_sampling *params, float logit, uint32_t beyond)
{
    double base = params->dry_base != 0.0F ? (double)params->dry_base : 1.75;
    double penalty = (double)params->dry_multiplier * pow(base, (double)beyond);
    return isfinite(logit) ? sample_number((double)logit - penalty) : logit;
}

static void adjust(const sample_input *in, float *logits, sample_scratch *scratch)
{
    const weft_sampling *p = in->params;
    uint32_t range = p->dry_range;
    uint32_t allowed = p->dry_allowed_length != 0 ? p->dry_allowed_length : ALLOWED_DEFAULT;
    uint32_t n = range != 0 && range < in->n_history ? range : in->n_history;
    if (n == 0) return;
    backwards b = {in->history + (in->n_history - 1), n};
    uint32_t most = longest_repeat(b, in->breakers);
    if (most < allowed) return;
    uint32_t *z = scratch->repeats;
    find_repeats(b, z);
    uint32_t *longest = scratch->counts; /* of the repeats that a token would lengthen */
    for (uint32_t i = 1; i < n; i++) {
        int32_t next = token(b, i - 1);
        uint32_t length = z[i] < most ? z[i] : most;
        if (in->breakers != NULL && sample_mask_has(in->breakers, next)) continue;
        if (length > longest[next]) longest[next] = length;
    }
    for (uint32_t i = 1; i < n; i++) {
        int32_t next = token(b, i - 1);
        if (longest[next] >= allowed)
            logits[next] = penalized(p, logits[next], longest[next] - allowed);
        longest[next] = 0;
    }
}

const sampler SAMPLER_DRY = {.name = "dry", .check = check, .active = active, .adjust = adjust};
