/* real_models.h - trained models that are not in the repository, and what Transformers answers with
 * each. */
#ifndef MODELS_REAL_MODELS_H
#define MODELS_REAL_MODELS_H

#include <stdbool.h>

typedef struct real_model {
    const char *family, *name;
    const char *fixture; /* in tests/models/fixtures */
    const char *file;    /* under build/models */
    bool texts;          /* its tokenizer is compared, too */
} real_model;

static const real_model REAL_MODELS[] = {
    {"llama", "SmolLM2 135M", "ref_smollm2.json", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", true},
    {"gemma3", "Gemma 3 270M", "ref_gemma3.json", "gemma3/gemma-3-270m-q4_k_m.gguf", false},
};

enum { N_REAL_MODELS = sizeof REAL_MODELS / sizeof REAL_MODELS[0] };

#endif
