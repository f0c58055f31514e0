/* deepseek_v3.c - DeepSeek V3 and what is shaped like it (Kimi K2): one latent a token for keys and
 * values, experts chosen by sigmoids in groups, beside some that every token goes to. Source:
 * Transformers' modeling_deepseek_v3; mlx-lm's deepseek_v3.
 *
 * Attention is computed among latents, always: queries are brought to them by the first rows of a
 * head's block of kv_b, read the other way round, and what is attended to leaves them by the rest.
 * MLX's files have both matrices apart, the first one already turned. */
#include <math.h>

#include "base/assert.h"
#include "models/parts.h"
#include "models/rope.h"

enum {
    Q_A = PART_N_SLOTS,
    Q_A_NORM,
    Q_B,
    KV_A,
    KV_A_NORM,
    TO_LATENT,        /* turned: [latent, nope] a head */
    FROM_LATENT_ROWS, /* [nope, latent] a head, of kv_b */
    VALUES,
    ROUTER,
    ROUTER_BIAS,
    EXPERT_GATE,
    EXPERT_UP,
    EXPERT_DOWN,
    SHARED_GATE,
    SHARED_UP,
    SHARED_DOWN,
    N_SLOTS
};

static const model_param PARAMS[] = {
    {"num_hidden_layers", NULL, SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", NULL, SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", NULL, SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"intermediate_size", NULL, SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", NULL, SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", NULL, SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"rms_norm_eps", NULL, SHAPE(norm_eps), PARAM_F32, true, 1e-12, 1, 0},
    {"rope_theta", NULL, SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 10000},
    {"rope_interleave", NULL, SHAPE(rope_interleaved), PARAM_BOOL, false, 0, 1, 1},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
    {"q_lora_rank", NULL, SHAPE(q_rank), PARAM_U32, false, 1, 1 << 20, 0},
    {"kv_lora_rank", NULL, SHAPE(kv_rank), PARAM_U32, true, 1, 1 << 16, 0},
    {"qk_nope_head_dim", NULL, SHAPE(nope_dim), PARAM_U32, true, 1, 1 << 14, 0},
    {"qk_rope_head_dim", NULL, SHAPE(pe_dim), PARAM_U32, true, 2, 1 << 14, 0},
    {"v_head_dim", NULL, SHAPE(v_dim), PARAM_U32, true, 1, 1 << 14, 0},
    {"n_routed_experts", NULL, SHAPE(n_experts), PARAM_U32, false, 1, 4096, 0},
    {"num_experts_per_tok", NULL, SHAPE(n_top), PARAM_U32, false, 1, 256, 0},
    {"n_group", NULL, SHAPE(n_groups), PARAM_U32, false, 1, 4096, 1},
    {"topk_group", NULL, SHAPE(n_top_groups), PARAM_U32, false, 1, 4096, 1},
    {"n_shared_experts", NULL, SHAPE(n_shared), PARAM_U32, false, 0, 256, 0},
    {"moe_intermediate_size", NULL, SHAPE(n_expert_ff), PARAM_U32, false, 1, 1 << 20, 0},
    {"first_k_dense_replace", NULL, SHAPE(n_dense_first), PARAM_U32, false, 0, MODEL_LAYERS, 0},
    {"routed_scaling_factor", NULL, SHAPE(route_scale), PARAM_F32, false, -1e6, 1e6, 1},
    {"num_nextn_predict_layers", NULL, SHAPE(n_later), PARAM_U32, false, 0, MODEL_LAYERS, 0},
    {"norm_topk_prob", NULL, SHAPE(route_normalize), PARAM_BOOL, false, 0, 1, 1},
};

static const model_stack TO_LATENT_STACK = {
    SHAPE(n_heads),
    STACK_SOURCES(STACK_SOURCE("self_attn.embed_q.weight", NULL, SHAPE_NONE, SHAPE_NONE)), 1};

static const model_stack FROM_LATENT_STACK = {
    SHAPE(n_heads),
    STACK_SOURCES(STACK_SOURCE("self_attn.kv_b_proj.weight", NULL, SHAPE(pair_dim), SHAPE_NONE)),
    1};

static const model_stack VALUES_STACK = {
    SHAPE(n_heads),
    STACK_SOURCES(
        STACK_SOURCE("self_attn.kv_b_proj.weight", NULL, SHAPE(pair_dim), SHAPE(nope_dim)),
        STACK_SOURCE("self_attn.unembed_out.weight", NULL, SHAPE_NONE, SHAPE_NONE)),
    2};

static const model_stack GATE_STACK =
    PART_EXPERTS("mlp.", "gate_proj", "ffn_gate_exps.weight", SHAPE_NONE);
static const model_stack UP_STACK =
    PART_EXPERTS("mlp.", "up_proj", "ffn_up_exps.weight", SHAPE(n_expert_ff));
static const model_stack DOWN_STACK =
    PART_EXPERTS_DOWN("mlp.", "down_proj", "ffn_down_exps.weight");

#define STACK(n_rows, n_cols, is_optional, in, other, of)                                          \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE(n_rows), .cols = SHAPE(n_cols),         \
        .optional = (is_optional), .if_flag = SHAPE_NONE, .layers = (in), .unless = (other),       \
        .stack = &(of)                                                                             \
    }

static const model_slot SLOTS[N_SLOTS] = {
    PART_MODEL_SLOTS,
    [PART_Q] = SLOT_MATRIX("self_attn.q_proj.weight", q_dim, n_embd, SHAPE(has_plain_q), 0),
    [PART_O] = SLOT_MATRIX("self_attn.o_proj.weight", n_embd, o_dim, SHAPE_NONE, 0),
    [PART_MLP_NORM] = SLOT_VECTOR("post_attention_layernorm.weight", n_embd, SHAPE_NONE, 0),
    [PART_GATE] =
        SLOT_MATRIX("mlp.gate_proj.weight", n_ff, n_embd, SHAPE_NONE, SLOT_NOT_IN(is_moe)),
    [PART_UP] = SLOT_MATRIX("mlp.up_proj.weight", n_ff, n_embd, SHAPE_NONE, SLOT_NOT_IN(is_moe)),
    [PART_DOWN] =
        SLOT_MATRIX("mlp.down_proj.weight", n_embd, n_ff, SHAPE_NONE, SLOT_NOT_IN(is_moe)),
    [Q_A] = SLOT_MATRIX("self_attn.q_a_proj.weight", q_rank, n_embd, SHAPE(has_q_rank), 0),
    [Q_A_NORM] = SLOT_VECTOR("self_attn.q_a_layernorm.weight", q_rank, SHAPE(has_q_rank), 0),
    [Q_B] = SLOT_MATRIX("self_attn.q_b_proj.weight", q_dim, q_rank, SHAPE(has_q_rank), 0),
    [KV_A] = SLOT_MATRIX("self_attn.kv_a_proj_with_mqa.weight", latent_dim, n_embd, SHAPE_NONE, 0),
    [KV_A_NORM] = SLOT_VECTOR("self_attn.kv_a_layernorm.weight", kv_rank, SHAPE_NONE, 0),
    [TO_LATENT] = STACK(kv_rank, nope_dim, true, 0, 0, TO_LATENT_STACK),
    [FROM_LATENT_ROWS] = STACK(nope_dim, kv_rank, false, 0, TO_LATENT, FROM_LATENT_STACK),
    [VALUES] = STACK(v_dim, kv_rank, false, 0, 0, VALUES_STACK),
    [ROUTER] = SLOT_MATRIX("mlp.gate.weight", n_experts, n_embd, SHAPE_NONE, SLOT_IN(is_moe)),
    [ROUTER_BIAS] =
        SLOT_VECTOR("mlp.gate.e_score_correction_bias", n_experts, SHAPE_NONE, SLOT_IN(is_moe)),
    [EXPERT_GATE] = STACK(n_expert_ff, n_embd, false, SLOT_IN(is_moe), 0, GATE_STACK),
    [EXPERT_UP] = STACK(n_expert_ff, n_embd, false, SLOT_IN(is_moe), 0, UP_STACK),
    [EXPERT_DOWN] = STACK(n_embd, n_expert_ff, false, SLOT_IN(is_moe), 0, DOWN_STACK),
    [SHARED_GATE] = SLOT_MATRIX("mlp.shared_experts.gate_proj.weight", n_shared_ff, n_embd,
                                SHAPE(has_shared), SLOT_IN(is_moe)),
    [SHARED_UP] = SLOT_MATRIX("mlp.shared_experts.up_proj.weight", n_shared_ff, n_embd,
                              SHAPE(has_shared), SLOT_IN(is_moe)),
    [SHARED_DOWN] = SLOT_MATRIX("mlp.shared_experts.down_proj.weight", n_embd, n_shared_ff,
                                SHAPE(has_shared), SLOT_IN(is_moe)),
};

/* Values that would be computed wrongly. */
static weft_status refuse(const model_params *p, const model_source *source, weft_error *err)
{
    static const struct {
        const char *key, *value;
    } TEXTS[] = {{"hidden_act", "silu"}, {"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}};
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        bool found;
        str text;
        weft_status status = source_text(source, TEXTS[i].key, NULL, &found, &text, err);
        if (status != WEFT_OK) return status;
        if (!found || str_equal_text(text, TEXTS[i].value)) continue;
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: %s '%.*s' is not supported, expected %s", TEXTS[i].key,
                       (int)(text.len < 64 ? text.len : 64), text.ptr, TEXTS[i].value);
    }
    bool found;
    double freq = 1.0;
    weft_status status = source_number(source, "moe_layer_freq", NULL, &found, &freq, err);
    if (status != WEFT_OK) return status;
    if (p->qkv_bias || freq != 1.0) {
        return err_set(err, WEFT_UNSUPPORTED, "config.json: %s is not supported for deepseek_v3",
                       p->qkv_bias ? "attention_bias" : "a moe_layer_freq other than 1");
    }
    return WEFT_OK;
}

static weft_status derive_experts(model_params *p, weft_error *err)
{
    bool any = p->n_experts > 0 && p->n_dense_first < p->n_layers;
    for (uint32_t i = 0; i < p->n_layers; i++) p->is_moe[i] = any && i >= p->n_dense_first;
    p->has_shared = any && p->n_shared > 0;
    p->n_shared_ff = p->n_shared * p->n_expert_ff;
    p->n_gate_up = 2 * p->n_expert_ff;
    if (!any) return WEFT_OK;
    uint32_t size = p->n_experts / p->n_groups;
    bool ok = p->n_expert_ff > 0 && p->n_top > 0 && p->n_experts % p->n_groups == 0;
    ok = ok && p->n_top_groups <= p->n_groups && (p->n_groups == 1 || size >= 2);
    ok = ok && p->n_top <= size * (p->n_groups == 1 ? 1 : p->n_top_groups);
    if (ok) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: %u of %u experts of width %u in %u of %u groups is not possible",
                   p->n_top, p->n_experts, p->n_expert_ff, p->n_top_groups, p->n_groups);
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    p->act = GRAPH_SILU;
    p->latent_eps = 1e-6F;
    p->n_kv_heads = 1;
    p->head_dim = p->nope_dim + p->pe_dim;
    p->rope_dims = p->pe_dim;
    p->q_dim = p->n_heads * p->head_dim;
    p->o_dim = p->n_heads * p->v_dim;
    p->latent_dim = p->kv_rank + p->pe_dim;
    p->pair_dim = p->nope_dim + p->v_dim;
    p->has_q_rank = p->q_rank > 0;
    p->has_plain_q = !p->has_q_rank;
    if (p->pe_dim % 2 != 0) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: qk_rope_head_dim is %u, expected an even "
                       "number",
                       p->pe_dim);
    }
    weft_status status = refuse(p, source, err);
    if (status == WEFT_OK) status = derive_experts(p, err);
    if (status != WEFT_OK) return status;
    const json *settings = json_get(source->config, "rope_parameters");
    if (json_kind_of(settings) == JSON_KIND_NULL)
        settings = json_get(source->config, "rope_scaling");
    p->n_ropes = 1;
    rope_params *rope = &p->ropes[0];
    status = rope_config(rope, source, settings, (double)p->rope_theta, p->context, err);
    double scale = 1.0 / sqrt((double)p->head_dim);
    if (status == WEFT_OK && rope->kind == ROPE_YARN && rope->factor > 1.0) {
        /* 1 where mscale_all_dim is 0. */
        double grown = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
        scale *= grown * grown;
    }
    p->attn_scale = (float)scale;
    return status;
}

static graph_id latent_norm(model_build *b, uint32_t slot, uint32_t layer, graph_id x)
{
    return graph_rms_norm(b->g, x, build_slot(b, slot, layer), b->p->latent_eps, 0.0F);
}

static graph_id attention(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t state_i = b->n_kv_layers++;
    b->kv_layers[state_i] = (kv_layer){
        .layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = p->latent_dim, .v_dim = p->kv_rank};
    graph_id q = graph_linear(g, x, build_slot(b, p->has_q_rank ? Q_A : PART_Q, layer), 0);
    graph_id kv = graph_linear(g, x, build_slot(b, KV_A, layer), 0);
    if (p->has_q_rank)
        q = graph_linear(g, latent_norm(b, Q_A_NORM, layer, q), build_slot(b, Q_B, layer), 0);
    graph_id c = graph_cols(g, kv, p->latent_dim, 0, p->kv_rank);
    graph_id k_pe = graph_cols(g, kv, p->latent_dim, p->kv_rank, p->pe_dim);
    c = latent_norm(b, KV_A_NORM, layer, c);
    k_pe = graph_rope_apply(g, k_pe, p->pe_dim, 0);
    graph_id state = graph_kv_append_latent(g, graph_concat(g, c, k_pe, 1), p->kv_rank, state_i);
    graph_id q_nope = graph_cols(g, q, p->head_dim, 0, p->nope_dim);
    graph_id q_pe = graph_cols(g, q, p->head_dim, p->nope_dim, p->pe_dim);
    q_pe = graph_rope_apply(g, q_pe, p->pe_dim, 0);
    graph_id turned = build_stack(b, TO_LATENT, layer);
    graph_id rows = turned == 0 ? build_stack(b, FROM_LATENT_ROWS, layer) : turned;
    graph_id q_c = graph_linear_heads(g, q_nope, rows, turned == 0);
    graph_id all = graph_concat(g, q_c, q_pe, p->n_heads);
    graph_id o = graph_attend(g, all, state, p->n_heads, p->attn_scale, 0.0F);
    o = graph_linear_heads(g, o, build_stack(b, VALUES, layer), false);
    return graph_linear(g, o, build_slot(b, PART_O, layer), 0);
}

/* x, and what experts make of m, its norm. */
static graph_id add_experts(model_build *b, uint32_t layer, graph_id x, graph_id m)
{
    graph *g = b->g;
    const model_params *p = b->p;
    if (p->has_shared) {
        graph_id gate = graph_linear(g, m, build_slot(b, SHARED_GATE, layer), 0);
        graph_id up = graph_linear(g, m, build_slot(b, SHARED_UP, layer), 0);
        graph_id h = graph_glu(g, gate, up, p->act);
        x = graph_add(g, x, graph_linear(g, h, build_slot(b, SHARED_DOWN, layer), 0));
    }
    graph_id scores = graph_linear(g, m, build_slot(b, ROUTER, layer), 0);
    graph_route how = {.top_k = p->n_top,
                       .n_groups = p->n_groups,
                       .n_top_groups = p->n_top_groups,
                       .flags = GRAPH_ROUTE_SIGMOID,
                       .scale = p->route_scale};
    if (p->route_normalize && p->n_top > 1) how.flags |= GRAPH_ROUTE_NORMALIZE;
    graph_id route = graph_route_experts(g, scores, build_slot(b, ROUTER_BIAS, layer), 0, how);
    graph_id stacks[3] = {build_stack(b, EXPERT_GATE, layer), build_stack(b, EXPERT_UP, layer),
                          build_stack(b, EXPERT_DOWN, layer)};
    return graph_add(g, x, graph_experts(g, m, route, stacks, p->act));
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        x = graph_add(g, x, attention(b, l, part_norm(b, PART_ATTN_NORM, l, x)));
        graph_id m = part_norm(b, PART_MLP_NORM, l, x);
        x = b->p->is_moe[l] ? add_experts(b, l, x, m) : graph_add(g, x, part_mlp_build(b, l, m));
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"deepseek_v3", "kimi_k2", "joyai_llm_flash", NULL};
static const char *const GGUF_TYPES[] = {NULL};
static const char *const DROP[] = {"*.rotary_emb.inv_freq", NULL};

const model_family MODEL_FAMILY_DEEPSEEK_V3 = {
    .name = "deepseek_v3",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .slots = SLOTS,
    .n_slots = COUNT_OF(SLOTS),
    .drop = DROP,
    .derive = derive,
    .build = build,
};
