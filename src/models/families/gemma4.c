/* gemma4.c - Gemma 4 text models (models/gemma4.h). */
#include "models/gemma4.h"
#include "models/tower.h"

static void build(model_build *b)
{
    graph *g = b->g;
    const model_params *p = b->p;
    gemma4_kind kinds[2];
    gemma4_kinds(p, kinds);
    graph_id tokens = graph_tokens(g);
    graph_id x = graph_embed(g, tokens, build_slot(b, PART_EMBED, 0));
    x = graph_scale(g, x, p->embed_scale);
    if (b->images) x = graph_replace(g, x, graph_feed(g, 0, p->n_embd));
    graph_id inputs = p->has_ple ? gemma4_layer_inputs(b, tokens, x) : 0;
    for (uint32_t l = 0; l < p->n_layers; l++) {
        x = gemma4_layer(b, l, kinds, x, inputs);
        graph_tap(g, x, l);
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"gemma4_text", "gemma4", "gemma4_unified_text",
                                       "gemma4_unified", NULL};
static const char *const GGUF_TYPES[] = {"gemma4", NULL};
static const char *const DROP[] = {
    "*.rotary_emb.inv_freq", "audio_tower.*",       "model.audio_tower.*",
    "embed_audio.*",         "model.embed_audio.*", NULL,
};
static const model_family *const TOWERS[] = {&TOWER_GEMMA, &TOWER_GEMMA_UNIFIED, NULL};

static const mlx_type MLX_TYPES[] = {{"gemma4_text", "gemma4_text", "model."},
                                     {"gemma4", "gemma4", "language_model.model."},
                                     {"gemma4_unified", "gemma4", "language_model.model."},
                                     {NULL, NULL, NULL}};
static const mlx_form MLX = {.types = MLX_TYPES, .only_json = true};

const model_family MODEL_FAMILY_GEMMA4 = {
    .name = "gemma4",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = GEMMA4_PARAMS,
    .n_params = GEMMA4_N_PARAMS,
    .slots = GEMMA4_SLOTS,
    .n_slots = GEMMA4_N_SLOTS,
    .drop = DROP,
    .towers = TOWERS,
    .derive = gemma4_derive,
    .build = build,
    .mlx = &MLX,
};
