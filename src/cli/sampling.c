/* sampling.c - the table of those options, and what they come to for a model. */
#include "cli/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/rng.h"

#define AT(field) offsetof(sampling_command, sampling.field)

const option_row SAMPLING_ROWS[] = {
    {"temp", OPTION_REAL, AT(temperature), "T",
     "temperature; 0 always takes the likeliest token, with biases and penalties (default: the "
     "model's)",
     0, 100, NULL},
    {"top-p", OPTION_REAL, AT(top_p), "P",
     "samples among the likeliest tokens that make up P; 1 is off (default: the model's)", 1e-6, 1,
     NULL},
    {"top-k", OPTION_COUNT, AT(top_k), "K",
     "samples among the K likeliest tokens; 0 is off (default: the model's)", 0, 1 << 30, NULL},
    {"min-p", OPTION_REAL, AT(min_p), "P",
     "drops tokens less likely than P times the likeliest; 0 is off (default: the model's)", 0,
     0.999999, NULL},
    {"typical-p", OPTION_REAL, AT(typical_p), "P",
     "samples among the tokens that are about as surprising as is expected and make up P; 1 is off "
     "(default: the model's)",
     1e-6, 1, NULL},
    {"xtc-probability", OPTION_REAL, AT(xtc_probability), "P",
     "how often the likeliest tokens but one are left out (default: 0, never)", 0, 1, NULL},
    {"xtc-threshold", OPTION_REAL, AT(xtc_threshold), "P",
     "how likely these are, and the one that stays (default: 0.1)", 1e-6, 0.5, NULL},
    {"repetition-penalty", OPTION_REAL, AT(repetition_penalty), "F",
     "by which tokens lose that are in the prompt or the answer; 1 is off (default: the model's)",
     0.01, 100, NULL},
    {"presence-penalty", OPTION_REAL, AT(presence_penalty), "X",
     "what tokens of the answer lose (default: 0)", -2, 2, NULL},
    {"frequency-penalty", OPTION_REAL, AT(frequency_penalty), "X",
     "what tokens lose for each time that they are in the answer (default: 0)", -2, 2, NULL},
    {"penalty-range", OPTION_COUNT, AT(penalty_range), "N",
     "how many of the last tokens these penalties look at (default: all)", 1, 1 << 30, NULL},
    {"dry-multiplier", OPTION_REAL, AT(dry_multiplier), "X",
     "what a token loses by which a repeat of several becomes too long (default: 0, DRY is off)", 0,
     100, NULL},
    {"dry-base", OPTION_REAL, AT(dry_base), "X",
     "by how much that grows with each further token of it (default: 1.75)", 1, 100, NULL},
    {"dry-allowed-length", OPTION_COUNT, AT(dry_allowed_length), "N",
     "tokens of a repeat from which on it does (default: 2)", 1, 1 << 30, NULL},
    {"dry-range", OPTION_COUNT, AT(dry_range), "N",
     "how many of the last tokens are looked at for repeats (default: all)", 1, 1 << 30, NULL},
    {"dry-breaker", OPTION_TEXTS, AT(dry_breakers), "TEXT",
     "no repeat reaches over a token with this in it; may be there several times (default: a line "
     "feed, a colon, a quotation mark, an asterisk)",
     0, 0, NULL},
    {"logit-bias", OPTION_TEXTS, AT(logit_bias), "ID=X",
     "adds X, -100 to 100 or -inf, to the logit of a token; may be there several times", 0, 0,
     NULL},
    {"seed", OPTION_SEED, AT(seed), "S",
     "the same seed gives the same answer (default: another one each time)", 0, 0, NULL},
    {"stop", OPTION_TEXTS, AT(stops), "TEXT",
     "ends the answer before this text; may be there several times", 0, 0, NULL},
    {"min-new", OPTION_COUNT, AT(min_new), "N",
     "least tokens of an answer: it does not end by itself before (default: 0)", 0, 1 << 30, NULL},
    {"top-logprobs", OPTION_COUNT, AT(n_top), "N",
     "with --json: the N likeliest tokens beside each one, as ids and log-probabilities (default: "
     "0)",
     0, WEFT_TOP_LOGPROBS, NULL},
};

const size_t N_SAMPLING_ROWS = COUNT_OF(SAMPLING_ROWS);

/* 53 bits, so that every reader of JSON keeps them all. */
static uint64_t fresh_seed(void)
{
    return rng_u64((uint64_t)time(NULL) << 20 ^ (uint64_t)getpid(), clock_now_ns()) >> 11;
}

static float either(float told, float models)
{
    return told >= 0.0F ? told : models;
}

/* "ID=X"; whether the model has such a token is the library's to say. */
static bool parse_bias(const char *text, weft_logit_bias *out)
{
    uint64_t id;
    char *end;
    const char *at = strchr(text, '=');
    if (at == NULL || !number_parse((str){text, (size_t)(at - text)}, INT32_MAX, &id)) return false;
    *out = (weft_logit_bias){(int32_t)id, -INFINITY};
    if (strcmp(at + 1, "-inf") == 0) return true;
    if (at[1] == '\0' || strspn(at + 1, "0123456789.eE+-") != strlen(at + 1)) return false;
    out->bias = strtof(at + 1, &end);
    return *end == '\0' && out->bias >= -100.0F && out->bias <= 100.0F;
}

weft_status sampling_choose(const sampling_values *v, const weft_model_info *info,
                            sampling_choice *out, weft_error *err)
{
    static const char *const BREAKERS[] = {"\n", ":", "\"", "*"};
    bool told = v->dry_breakers.n > 0;
    out->params = (weft_sampling){
        .temperature = either(v->temperature, info->temperature),
        .top_p = either(v->top_p, info->top_p),
        .min_p = either(v->min_p, info->min_p),
        .top_k = v->top_k != UINT32_MAX ? v->top_k : info->top_k,
        .seed = v->seed.given ? v->seed.value : fresh_seed(),
        .typical_p = either(v->typical_p, info->typical_p),
        .xtc_probability = v->xtc_probability,
        .xtc_threshold = v->xtc_threshold,
        .repetition_penalty = either(v->repetition_penalty, info->repetition_penalty),
        .presence_penalty = v->presence_penalty,
        .frequency_penalty = v->frequency_penalty,
        .penalty_range = v->penalty_range,
        .dry_multiplier = v->dry_multiplier,
        .dry_base = v->dry_base,
        .dry_allowed_length = v->dry_allowed_length,
        .dry_range = v->dry_range,
        .n_dry_breakers = told ? v->dry_breakers.n : (uint32_t)COUNT_OF(BREAKERS),
        .dry_breakers = told ? v->dry_breakers.values : BREAKERS,
        .logit_bias = out->biases,
        .n_logit_bias = v->logit_bias.n,
    };
    if (v->dry_multiplier == 0.0F) out->params.n_dry_breakers = 0;
    for (uint32_t i = 0; i < v->logit_bias.n; i++) {
        if (parse_bias(v->logit_bias.values[i], &out->biases[i])) continue;
        return err_set(err, WEFT_ARGUMENT,
                       "--logit-bias is '%s', expected a token id, = and -100 to 100 or -inf",
                       v->logit_bias.values[i]);
    }
    return WEFT_OK;
}
