/* sampling.h - the options that say how tokens are chosen and what ends an answer. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/session.h"

typedef struct sampling_values {
    float temperature, top_p, min_p, typical_p, repetition_penalty;
    uint32_t top_k;
    option_seed seed;
    float xtc_probability, xtc_threshold;
    float presence_penalty, frequency_penalty;
    uint32_t penalty_range;
    float dry_multiplier, dry_base;
    uint32_t dry_allowed_length, dry_range;
    option_texts dry_breakers, logit_bias, stops;
    uint32_t min_new, n_top;
} sampling_values;

/* What the values of a command with these options begin with. */
typedef struct sampling_command {
    session_values session;
    sampling_values sampling;
} sampling_command;

/* The model's, where it says something. */
#define SAMPLING_DEFAULTS                                                                          \
    {                                                                                              \
        .temperature = -1.0F, .top_p = -1.0F, .min_p = -1.0F, .typical_p = -1.0F,                  \
        .repetition_penalty = -1.0F, .top_k = UINT32_MAX, .xtc_threshold = 0.1F                    \
    }

extern const option_row SAMPLING_ROWS[];
extern const size_t N_SAMPLING_ROWS;

/* As the library takes it; what it points to lies here and in the values. */
typedef struct sampling_choice {
    weft_sampling params;
    weft_logit_bias biases[OPTION_TEXTS_MOST];
} sampling_choice;

/* ARGUMENT where a bias cannot be read. Without --seed it is another one each time. */
weft_status sampling_choose(const sampling_values *v, const weft_model_info *info,
                            sampling_choice *out, weft_error *err);

#endif
