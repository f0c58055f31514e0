/* gemma4.h - what Gemma 4's text models and the assistants that draft for them have in common: rows
 * of parameters and slots, what follows from them, and a layer. What a checkpoint of either has is
 * said by flags of the params. */
#ifndef MODELS_GEMMA4_H
#define MODELS_GEMMA4_H

#include "models/parts.h"

enum gemma4_slot {
    GEMMA4_Q_FULL = PART_N_SLOTS,
    GEMMA4_O_FULL,
    GEMMA4_K_FULL,
    GEMMA4_V_FULL,
    GEMMA4_Q_NORM_FULL,
    GEMMA4_K_NORM_FULL,
    GEMMA4_K_LEFT,
    GEMMA4_V_LEFT,
    GEMMA4_K_NORM_LEFT,
    GEMMA4_POST_ATTN_NORM,
    GEMMA4_POST_MLP_NORM,
    GEMMA4_GATE_WIDE,
    GEMMA4_UP_WIDE,
    GEMMA4_DOWN_WIDE,
    GEMMA4_LAYER_SCALAR,
    GEMMA4_PLE_EMBED,
    GEMMA4_PLE_MODEL,
    GEMMA4_PLE_NORM,
    GEMMA4_PLE_GATE,
    GEMMA4_PLE_PROJECTION,
    GEMMA4_PLE_POST_NORM,
    GEMMA4_ROUTER,
    GEMMA4_ROUTER_SCALE,
    GEMMA4_EXPERT_FACTOR,
    GEMMA4_EXPERT_GATE,
    GEMMA4_EXPERT_UP,
    GEMMA4_EXPERT_DOWN,
    GEMMA4_MLP_POST_NORM,
    GEMMA4_EXPERTS_NORM,
    GEMMA4_EXPERTS_POST_NORM,
    GEMMA4_JOIN, /* an assistant's: an embedding and a hidden state of its target to its width */
    GEMMA4_BACK, /* its own hidden state to the target's width */
    GEMMA4_CENTROIDS,
    GEMMA4_ORDER, /* tokens of the first centroid, of the second, .. */
    GEMMA4_N_SLOTS
};

enum { GEMMA4_N_PARAMS = 30 };

extern const model_param GEMMA4_PARAMS[GEMMA4_N_PARAMS];
extern const model_slot GEMMA4_SLOTS[GEMMA4_N_SLOTS];

/* What the layers of a kind have in common. */
typedef struct gemma4_kind {
    uint32_t q, k, v, o, q_norm, k_norm; /* slots */
    uint32_t head_dim, n_kv_heads, rope_i;
    uint8_t layout;
    uint32_t window;
    bool k_is_v;
    graph_id state; /* of the last layer with its own */
} gemma4_kind;

/* What follows from the parameters, is_assistant among them; values that would be computed wrongly
 * are refused. */
weft_status gemma4_derive(model_params *p, const model_source *source, weft_error *err);

/* Full layers and those with a window; states are still to come. */
void gemma4_kinds(const model_params *p, gemma4_kind kinds[2]);

/* Describes a state of such layers. Its index. */
uint32_t gemma4_state(model_build *b, const gemma4_kind *of);

/* What each layer gets of a token beside the stream: [n, layers * ple_dim]. */
graph_id gemma4_layer_inputs(model_build *b, graph_id tokens, graph_id x);

/* inputs: of gemma4_layer_inputs, 0 where the model has none. */
graph_id gemma4_layer(model_build *b, uint32_t layer, gemma4_kind kinds[2], graph_id x,
                      graph_id inputs);

#endif
