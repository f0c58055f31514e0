/* mixtral.c - Mixtral: Mistral with experts. Sources: Transformers' modeling_mixtral; mlx-lm's
 * mixtral. GGUF files of it are of the architecture "llama" (llama.c). */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_EXPERTS("num_local_experts"),
    DENSE_THETA(1000000),
};

#define STACK_OF(own, mlx)                                                                         \
    {                                                                                              \
        SHAPE(n_experts),                                                                          \
            STACK_SOURCES(STACK_SOURCE("block_sparse_moe.experts.%u." own ".weight", NULL,         \
                                       SHAPE_NONE, SHAPE_NONE),                                    \
                          STACK_SOURCE("block_sparse_moe.switch_mlp." mlx ".weight", NULL,         \
                                       SHAPE_NONE, SHAPE_NONE)),                                   \
            2                                                                                      \
    }

static const model_stack GATE = STACK_OF("w1", "gate_proj");
static const model_stack UP = STACK_OF("w3", "up_proj");
static const model_stack DOWN = STACK_OF("w2", "down_proj");

static const model_name NAMES[] = {
    DENSE_NAME(DENSE_ROUTER, "block_sparse_moe.gate.weight", NULL),
    {.slot = DENSE_EXPERT_GATE, .stack = &GATE},
    {.slot = DENSE_EXPERT_UP, .stack = &UP},
    {.slot = DENSE_EXPERT_DOWN, .stack = &DOWN},
};

static const dense_moe MOE = {.normalize = true};

static const dense RECORD = {
    .window = DENSE_WINDOW_ALL,
    .moe = &MOE,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_MIXTRAL = {
    .name = "mixtral",
    .hf_types = DENSE_TYPES("mixtral"),
    .gguf_types = DENSE_NO_TYPES,
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
};
