/* deepseek_v3.c - DeepSeek V3 and what is shaped like it (Kimi K2, DeepSeek V3.2, GLM 5): one
 * latent a token for keys and values, experts chosen by sigmoids in groups, beside some that every
 * token goes to. Source: Transformers' modeling_deepseek_v3, modeling_deepseek_v32 and
 * modeling_glm_moe_dsa; mlx-lm's deepseek_v3.
 *
 * In the latter two a layer attends to the positions that its index chooses, or that an earlier
 * layer's did. Sums of the index are compared and nothing else, so the positive factors that the
 * reference puts on them, 1 / sqrt of the heads and of their columns, are left out.
 *
 * Attention is computed among latents, always: queries are brought to them by the first rows of a
 * head's block of kv_b, read the other way round, and what is attended to leaves them by the rest.
 * MLX and GGUF have both matrices apart, the first one already turned. */
#include <math.h>

#include "base/assert.h"
#include "models/layer_lists.h"
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
    INDEX_Q,
    INDEX_K,
    INDEX_K_NORM,
    INDEX_K_BIAS,
    INDEX_WEIGHTS,
    N_SLOTS
};

static const model_param PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", "vocab_size", SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, true, 1e-12, 1,
     0},
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 10000},
    {"rope_interleave", NULL, SHAPE(rope_interleaved), PARAM_BOOL, false, 0, 1, 1},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
    {"q_lora_rank", "attention.q_lora_rank", SHAPE(q_rank), PARAM_U32, false, 1, 1 << 20, 0},
    {"kv_lora_rank", "attention.kv_lora_rank", SHAPE(kv_rank), PARAM_U32, true, 1, 1 << 16, 0},
    {"qk_nope_head_dim", NULL, SHAPE(nope_dim), PARAM_U32, false, 1, 1 << 14, 0},
    {"qk_rope_head_dim", "rope.dimension_count", SHAPE(pe_dim), PARAM_U32, true, 2, 1 << 14, 0},
    {"v_head_dim", NULL, SHAPE(v_dim), PARAM_U32, false, 1, 1 << 14, 0},
    {"n_routed_experts", "expert_count", SHAPE(n_experts), PARAM_U32, false, 1, 4096, 0},
    {"num_experts_per_tok", "expert_used_count", SHAPE(n_top), PARAM_U32, false, 1, 256, 0},
    {"n_group", "expert_group_count", SHAPE(n_groups), PARAM_U32, false, 1, 4096, 1},
    {"topk_group", "expert_group_used_count", SHAPE(n_top_groups), PARAM_U32, false, 1, 4096, 1},
    {"n_shared_experts", "expert_shared_count", SHAPE(n_shared), PARAM_U32, false, 0, 256, 0},
    {"moe_intermediate_size", "expert_feed_forward_length", SHAPE(n_expert_ff), PARAM_U32, false, 1,
     1 << 20, 0},
    {"first_k_dense_replace", "leading_dense_block_count", SHAPE(n_dense_first), PARAM_U32, false,
     0, MODEL_LAYERS, 0},
    {"routed_scaling_factor", "expert_weights_scale", SHAPE(route_scale), PARAM_F32, false, -1e6,
     1e6, 1},
    {"num_nextn_predict_layers", "nextn_predict_layers", SHAPE(n_later), PARAM_U32, false, 0,
     MODEL_LAYERS, 0},
    {"norm_topk_prob", "expert_weights_norm", SHAPE(route_normalize), PARAM_BOOL, false, 0, 1, 1},
    {"index_n_heads", "attention.indexer.head_count", SHAPE(n_index_heads), PARAM_U32, false, 1,
     4096, 0},
    {"index_head_dim", "attention.indexer.key_length", SHAPE(index_dim), PARAM_U32, false, 2,
     1 << 14, 0},
    {"index_topk", "attention.indexer.top_k", SHAPE(index_top), PARAM_U32, false, 1, 1 << 24, 0},
};

static const model_stack TO_LATENT_STACK = {
    SHAPE(n_heads),
    STACK_SOURCES(
        STACK_SOURCE("self_attn.embed_q.weight", "attn_k_b.weight", SHAPE_NONE, SHAPE_NONE)),
    1};

static const model_stack FROM_LATENT_STACK = {
    SHAPE(n_heads),
    STACK_SOURCES(STACK_SOURCE("self_attn.kv_b_proj.weight", "attn_kv_b.weight", SHAPE(pair_dim),
                               SHAPE_NONE)),
    1};

static const model_stack VALUES_STACK = {
    SHAPE(n_heads),
    STACK_SOURCES(
        STACK_SOURCE("self_attn.kv_b_proj.weight", "attn_kv_b.weight", SHAPE(pair_dim),
                     SHAPE(nope_dim)),
        STACK_SOURCE("self_attn.unembed_out.weight", "attn_v_b.weight", SHAPE_NONE, SHAPE_NONE)),
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
        .stack = &(of), .mlx = (other) != 0 ? MLX_TURNED : 0                                       \
    }

static const model_slot SLOTS[N_SLOTS] = {
    PART_MODEL_SLOTS,
    [PART_Q] = SLOT_MATRIX("self_attn.q_proj.weight", "attn_q.weight", q_dim, n_embd,
                           SHAPE(has_plain_q), 0),
    [PART_O] =
        SLOT_MATRIX("self_attn.o_proj.weight", "attn_output.weight", n_embd, o_dim, SHAPE_NONE, 0),
    [PART_MLP_NORM] =
        SLOT_VECTOR("post_attention_layernorm.weight", "ffn_norm.weight", n_embd, SHAPE_NONE, 0),
    [PART_GATE] = SLOT_MATRIX("mlp.gate_proj.weight", "ffn_gate.weight", n_ff, n_embd, SHAPE_NONE,
                              SLOT_NOT_IN(is_moe)),
    [PART_UP] = SLOT_MATRIX("mlp.up_proj.weight", "ffn_up.weight", n_ff, n_embd, SHAPE_NONE,
                            SLOT_NOT_IN(is_moe)),
    [PART_DOWN] = SLOT_MATRIX("mlp.down_proj.weight", "ffn_down.weight", n_embd, n_ff, SHAPE_NONE,
                              SLOT_NOT_IN(is_moe)),
    [Q_A] = SLOT_MATRIX("self_attn.q_a_proj.weight", "attn_q_a.weight", q_rank, n_embd,
                        SHAPE(has_q_rank), 0),
    [Q_A_NORM] = SLOT_VECTOR("self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", q_rank,
                             SHAPE(has_q_rank), 0),
    [Q_B] = SLOT_MATRIX("self_attn.q_b_proj.weight", "attn_q_b.weight", q_dim, q_rank,
                        SHAPE(has_q_rank), 0),
    [KV_A] = SLOT_MATRIX("self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight", latent_dim,
                         n_embd, SHAPE_NONE, 0),
    [KV_A_NORM] = SLOT_VECTOR("self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", kv_rank,
                              SHAPE_NONE, 0),
    [TO_LATENT] = STACK(kv_rank, nope_dim, true, 0, 0, TO_LATENT_STACK),
    [FROM_LATENT_ROWS] = STACK(nope_dim, kv_rank, false, 0, TO_LATENT, FROM_LATENT_STACK),
    [VALUES] = STACK(v_dim, kv_rank, false, 0, 0, VALUES_STACK),
    [ROUTER] = {.hf_name = "mlp.gate.weight",
                .gguf_name = "ffn_gate_inp.weight",
                .place = SLOT_LAYER,
                .rows = SHAPE(n_experts),
                .cols = SHAPE(n_embd),
                .if_flag = SHAPE_NONE,
                .layers = SLOT_IN(is_moe),
                .mlx = MLX_KEEP},
    [ROUTER_BIAS] = {.hf_name = "mlp.gate.e_score_correction_bias",
                     .gguf_name = "exp_probs_b.bias",
                     .place = SLOT_LAYER,
                     .rows = SHAPE_NONE,
                     .cols = SHAPE(n_experts),
                     .if_flag = SHAPE_NONE,
                     .layers = SLOT_IN(is_moe),
                     .mlx = MLX_TYPE},
    [EXPERT_GATE] = STACK(n_expert_ff, n_embd, false, SLOT_IN(is_moe), 0, GATE_STACK),
    [EXPERT_UP] = STACK(n_expert_ff, n_embd, false, SLOT_IN(is_moe), 0, UP_STACK),
    [EXPERT_DOWN] = STACK(n_embd, n_expert_ff, false, SLOT_IN(is_moe), 0, DOWN_STACK),
    [SHARED_GATE] = SLOT_MATRIX("mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight",
                                n_shared_ff, n_embd, SHAPE(has_shared), SLOT_IN(is_moe)),
    [SHARED_UP] = SLOT_MATRIX("mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight",
                              n_shared_ff, n_embd, SHAPE(has_shared), SLOT_IN(is_moe)),
    [SHARED_DOWN] = SLOT_MATRIX("mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight",
                                n_embd, n_shared_ff, SHAPE(has_shared), SLOT_IN(is_moe)),
    [INDEX_Q] = SLOT_MATRIX("self_attn.indexer.wq_b.weight", "indexer.attn_q_b.weight", index_q_dim,
                            q_rank, SHAPE_NONE, SLOT_IN(has_index)),
    [INDEX_K] = SLOT_MATRIX("self_attn.indexer.wk.weight", "indexer.attn_k.weight", index_dim,
                            n_embd, SHAPE_NONE, SLOT_IN(has_index)),
    [INDEX_K_NORM] = SLOT_VECTOR("self_attn.indexer.k_norm.weight", "indexer.k_norm.weight",
                                 index_dim, SHAPE_NONE, SLOT_IN(has_index)),
    [INDEX_K_BIAS] = SLOT_VECTOR("self_attn.indexer.k_norm.bias", "indexer.k_norm.bias", index_dim,
                                 SHAPE_NONE, SLOT_IN(has_index)),
    [INDEX_WEIGHTS] = SLOT_MATRIX("self_attn.indexer.weights_proj.weight", "indexer.proj.weight",
                                  n_index_heads, n_embd, SHAPE_NONE, SLOT_IN(has_index)),
};

static bool is_glm(const model_source *source)
{
    return str_equal_text(source->type, "glm_moe_dsa") || str_equal_text(source->type, "glm-dsa");
}

/* Types whose layers attend to what an index chooses. */
static bool is_indexed(const model_source *source)
{
    return is_glm(source) || str_equal_text(source->type, "deepseek_v32") ||
           str_equal_text(source->type, "deepseek32");
}

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
    bool mlp_bias = false;
    status = source_flag(source, "mlp_bias", NULL, &found, &mlp_bias, err);
    if (status != WEFT_OK) return status;
    if (p->qkv_bias || mlp_bias || freq != 1.0) {
        const char *what = mlp_bias ? "mlp_bias" : "a moe_layer_freq other than 1";
        return err_set(err, WEFT_UNSUPPORTED, "config.json: %s is not supported for deepseek_v3",
                       p->qkv_bias ? "attention_bias" : what);
    }
    return WEFT_OK;
}

static weft_status derive_index(model_params *p, const model_source *source, weft_error *err)
{
    static const char *const ATTENTION[2] = {"indexed_attention", "indexed_attention"};
    bool indexed[MODEL_LAYERS];
    bool found;
    if (!is_indexed(source)) {
        p->index_top = 0;
        return WEFT_OK;
    }
    p->index_q_dim = p->n_index_heads * p->index_dim;
    bool sizes = p->n_index_heads > 0 && p->index_dim > 0 && p->index_top > 0 && p->q_rank > 0;
    if (!sizes || p->index_dim < p->pe_dim) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: index_n_heads %u, index_head_dim %u, index_topk %u and "
                       "q_lora_rank %u, expected each, and heads of %u columns at least",
                       p->n_index_heads, p->index_dim, p->index_top, p->q_rank, p->pe_dim);
    }
    weft_status status =
        list_layer_words(p, source, "layer_types", ATTENTION, indexed, &found, err);
    if (status == WEFT_OK) status = list_index_layers(p, source, err);
    if (status == WEFT_OK && !p->has_index[0])
        status = err_set(err, WEFT_FORMAT, "config.json: layer 0 has no index, and none before it");
    p->index_interleaved = is_glm(source);
    if (status != WEFT_OK) return status;
    return source_flag(source, "indexer_rope_interleave", NULL, &found, &p->index_interleaved, err);
}

static weft_status derive_experts(model_params *p, const model_source *source, weft_error *err)
{
    static const char *const WORDS[2] = {"sparse", "dense"};
    bool found = false;
    bool any = false;
    for (uint32_t i = 0; i < p->n_layers; i++)
        p->is_moe[i] = p->n_experts > 0 && i >= p->n_dense_first;
    if (is_indexed(source)) {
        weft_status status =
            list_layer_words(p, source, "mlp_layer_types", WORDS, p->is_moe, &found, err);
        if (status != WEFT_OK) return status;
    }
    for (uint32_t i = 0; i < p->n_layers; i++) any = any || p->is_moe[i];
    p->has_shared = any && p->n_shared > 0;
    p->n_shared_ff = p->n_shared * p->n_expert_ff;
    p->n_gate_up = 2 * p->n_expert_ff;
    if (!any) return WEFT_OK;
    uint32_t size = p->n_experts / p->n_groups;
    bool ok =
        p->n_experts > 0 && p->n_expert_ff > 0 && p->n_top > 0 && p->n_experts % p->n_groups == 0;
    ok = ok && p->n_top_groups <= p->n_groups && (p->n_groups == 1 || size >= 2);
    ok = ok && p->n_top <= size * (p->n_groups == 1 ? 1 : p->n_top_groups);
    if (ok) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: %u of %u experts of width %u in %u of %u groups is not possible",
                   p->n_top, p->n_experts, p->n_expert_ff, p->n_top_groups, p->n_groups);
}

/* The number under a key, or else under another. */
static weft_status head_length(const model_source *source, const char *const keys[2], uint32_t *n,
                               weft_error *err)
{
    bool found = false;
    double length = 0.0;
    for (uint32_t i = 0; i < 2 && !found; i++) {
        weft_status status = source_number(source, NULL, keys[i], &found, &length, err);
        if (status != WEFT_OK) return status;
    }
    bool ok = found && length >= 1.0 && length <= 1 << 14 && length == floor(length);
    if (!ok)
        return err_set(err, WEFT_FORMAT, "%s is %g, expected 1 to %d", keys[0], length, 1 << 14);
    *n = (uint32_t)length;
    return WEFT_OK;
}

/* Columns of heads. GGUF has those of whole keys; where keys and values are to stay latent these
 * are under names of their own, as the plain ones have the latent's. */
static weft_status derive_heads(model_params *p, const model_source *source, weft_error *err)
{
    static const char *const KEYS[2] = {"attention.key_length_mla", "attention.key_length"};
    static const char *const VALUES_OF[2] = {"attention.value_length_mla",
                                             "attention.value_length"};
    if (!source->is_gguf && (p->nope_dim == 0 || p->v_dim == 0)) {
        return err_set(err, WEFT_FORMAT, "config.json has no %s",
                       p->nope_dim == 0 ? "qk_nope_head_dim" : "v_head_dim");
    }
    uint32_t length = p->nope_dim + p->pe_dim;
    weft_status status = WEFT_OK;
    if (source->is_gguf) status = head_length(source, KEYS, &length, err);
    if (status == WEFT_OK && source->is_gguf)
        status = head_length(source, VALUES_OF, &p->v_dim, err);
    if (status != WEFT_OK) return status;
    if (length <= p->pe_dim || p->pe_dim % 2 != 0) {
        return err_set(err, WEFT_FORMAT, "%s is %u, expected an even number below %u",
                       source->is_gguf ? "rope.dimension_count" : "config.json: qk_rope_head_dim",
                       p->pe_dim, length);
    }
    p->nope_dim = length - p->pe_dim;
    return WEFT_OK;
}

/* GGUF says how experts are chosen by a number, and leaves out what is not so; pairs that rotate
 * stand side by side there, always. */
static weft_status check_gguf(model_params *p, const model_source *source, weft_error *err)
{
    enum { SIGMOID = 2 };
    bool found;
    double gating = 0.0;
    weft_status status = source_flag(source, NULL, "expert_weights_norm", &found, &(bool){0}, err);
    if (status != WEFT_OK) return status;
    p->route_normalize = found && p->route_normalize;
    p->rope_interleaved = true;
    if (p->n_later >= p->n_layers) {
        return err_set(err, WEFT_FORMAT, "nextn_predict_layers is %u of %u layers", p->n_later,
                       p->n_layers);
    }
    p->n_layers -= p->n_later; /* there all of them are counted */
    if (is_glm(source)) gating = SIGMOID;
    status = source_number(source, NULL, "expert_gating_func", &found, &gating, err);
    if (status != WEFT_OK || p->n_experts == 0 || gating == SIGMOID) return status;
    return err_set(err, WEFT_UNSUPPORTED, "expert_gating_func is %g, expected %d", gating, SIGMOID);
}

/* Yarn in GGUF: the tenth that others multiply by themselves is in the number. */
static weft_status read_log_multiplier(rope_params *rope, const model_source *source,
                                       weft_error *err)
{
    bool found;
    double tenth = 0.0;
    weft_status status =
        source_number(source, NULL, "rope.scaling.yarn_log_multiplier", &found, &tenth, err);
    if (status != WEFT_OK || !found) return status;
    if (!(fabs(tenth) <= 100.0))
        return err_set(err, WEFT_FORMAT, "rope.scaling.yarn_log_multiplier is %g", tenth);
    rope->mscale = rope->mscale_all_dim = 10.0 * tenth;
    return WEFT_OK;
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = derive_heads(p, source, err);
    if (status == WEFT_OK && source->is_gguf) status = check_gguf(p, source, err);
    if (status != WEFT_OK) return status;
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
    status = refuse(p, source, err);
    if (status == WEFT_OK) status = derive_experts(p, source, err);
    if (status == WEFT_OK) status = derive_index(p, source, err);
    if (status != WEFT_OK) return status;
    const json *settings = json_get(source->config, "rope_parameters");
    if (json_kind_of(settings) == JSON_KIND_NULL)
        settings = json_get(source->config, "rope_scaling");
    p->n_ropes = 1;
    rope_params *rope = &p->ropes[0];
    status = rope_config(rope, source, settings, (double)p->rope_theta, p->context, err);
    if (status == WEFT_OK) status = read_log_multiplier(rope, source, err);
    double scale = 1.0 / sqrt((double)p->head_dim);
    if (status == WEFT_OK && rope->kind == ROPE_YARN && rope->factor > 1.0) {
        /* 1 where mscale_all_dim is 0. */
        double grown = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
        scale *= grown * grown;
    }
    p->attn_scale = (float)scale;
    if (p->index_top == 0 || p->index_interleaved == p->rope_interleaved) return status;
    p->index_rope = p->n_ropes++;
    p->ropes[p->index_rope] = *rope;
    p->ropes[p->index_rope].other_pairs = true;
    return status;
}

static graph_id latent_norm(model_build *b, uint32_t slot, uint32_t layer, graph_id x)
{
    return graph_rms_norm(b->g, x, build_slot(b, slot, layer), b->p->latent_eps, 0.0F);
}

/* What a layer's index is made from. */
typedef struct index_parts {
    graph_id q, k, weights;
} index_parts;

/* The positions that an index chooses. */
static graph_id choice(model_build *b, uint32_t layer, index_parts of)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t state_i = b->n_kv_layers++;
    b->kv_layers[state_i] =
        (kv_layer){.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = p->index_dim, .of = layer};
    graph_layer_norm norm = {build_slot(b, INDEX_K_NORM, layer), build_slot(b, INDEX_K_BIAS, layer),
                             p->index_dim, p->latent_eps, 0.0F};
    graph_id k = graph_layer_norm_apply(g, of.k, norm);
    k = graph_rope_apply(g, k, p->index_dim, p->index_rope);
    graph_id q = graph_rope_apply(g, of.q, p->index_dim, p->index_rope);
    return graph_select(g, q, of.weights, graph_kv_append_keys(g, k, state_i), p->index_top);
}

/* list: what the last index before chose, and then this layer's. */
static graph_id attention(model_build *b, uint32_t layer, graph_id x, graph_id *list)
{
    graph *g = b->g;
    const model_params *p = b->p;
    index_parts of = {0};
    b->kv_layers[layer] = (kv_layer){
        .layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = p->latent_dim, .v_dim = p->kv_rank};
    graph_id q = graph_linear(g, x, build_slot(b, p->has_q_rank ? Q_A : PART_Q, layer), 0);
    graph_id kv = graph_linear(g, x, build_slot(b, KV_A, layer), 0);
    if (p->has_index[layer]) {
        of.k = graph_linear(g, x, build_slot(b, INDEX_K, layer), 0);
        of.weights = graph_linear(g, x, build_slot(b, INDEX_WEIGHTS, layer), 0);
    }
    if (p->has_q_rank) {
        graph_id c_q = latent_norm(b, Q_A_NORM, layer, q);
        q = graph_linear(g, c_q, build_slot(b, Q_B, layer), 0);
        if (p->has_index[layer]) of.q = graph_linear(g, c_q, build_slot(b, INDEX_Q, layer), 0);
    }
    if (p->has_index[layer]) *list = choice(b, layer, of);
    graph_id c = graph_cols(g, kv, p->latent_dim, 0, p->kv_rank);
    graph_id k_pe = graph_cols(g, kv, p->latent_dim, p->kv_rank, p->pe_dim);
    c = latent_norm(b, KV_A_NORM, layer, c);
    k_pe = graph_rope_apply(g, k_pe, p->pe_dim, 0);
    graph_id state = graph_kv_append_latent(g, graph_concat(g, c, k_pe, 1), p->kv_rank, layer);
    graph_id q_nope = graph_cols(g, q, p->head_dim, 0, p->nope_dim);
    graph_id q_pe = graph_cols(g, q, p->head_dim, p->nope_dim, p->pe_dim);
    q_pe = graph_rope_apply(g, q_pe, p->pe_dim, 0);
    graph_id turned = build_stack(b, TO_LATENT, layer);
    graph_id rows = turned == 0 ? build_stack(b, FROM_LATENT_ROWS, layer) : turned;
    graph_id q_c = graph_linear_heads(g, q_nope, rows, turned == 0);
    graph_id all = graph_concat(g, q_c, q_pe, p->n_heads);
    graph_id o = *list != 0 ? graph_attend_listed(g, all, state, *list, p->n_heads, p->attn_scale)
                            : graph_attend(g, all, state, p->n_heads, p->attn_scale, 0.0F);
    o = graph_linear_heads(g, o, build_stack(b, VALUES, layer), false);
    return graph_linear(g, o, build_slot(b, PART_O, layer), 0);
}

/* x, and what experts make of m, its norm. */
static graph_id add_experts(model_build *b, uint32_t layer, graph_id x, graph_id m)
{
    graph *g = b->g;
    const model_params *p = b->p;
    if (p->has_shared) {
        static const uint32_t SHARED[] = {SHARED_GATE, SHARED_UP, SHARED_DOWN};
        x = graph_add(g, x, part_gated_build(b, layer, m, SHARED));
    }
    graph_id scores = graph_linear(g, m, build_slot(b, ROUTER, layer), 0);
    graph_route how = {.top_k = p->n_top,
                       .n_groups = p->n_groups,
                       .n_top_groups = p->n_top_groups,
                       .flags = GRAPH_ROUTE_SIGMOID,
                       .scale = p->route_scale};
    if (p->route_normalize && p->n_top > 1) how.flags |= GRAPH_ROUTE_NORMALIZE;
    graph_id route = graph_route_experts(g, scores, build_slot(b, ROUTER_BIAS, layer), 0, how);
    static const uint32_t EXPERTS[] = {EXPERT_GATE, EXPERT_UP, EXPERT_DOWN};
    return graph_add(g, x, part_experts_build(b, layer, m, route, EXPERTS));
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    graph_id list = 0;
    b->n_kv_layers = b->p->n_layers;
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        x = graph_add(g, x, attention(b, l, part_norm(b, PART_ATTN_NORM, l, x), &list));
        graph_id m = part_norm(b, PART_MLP_NORM, l, x);
        x = b->p->is_moe[l] ? add_experts(b, l, x, m) : graph_add(g, x, part_mlp_build(b, l, m));
        graph_tap(g, x, l);
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"deepseek_v3",  "kimi_k2",     "joyai_llm_flash",
                                       "deepseek_v32", "glm_moe_dsa", NULL};
static const char *const GGUF_TYPES[] = {"deepseek2", "deepseek32", "glm-dsa", NULL};
static const char *const DROP[] = {"*.rotary_emb.inv_freq", NULL};

/* Its other names are read by mlx-lm as "deepseek_v3". */
static const mlx_form MLX = {
    .config = "{\"topk_method\":\"noaux_tc\",\"scoring_func\":\"sigmoid\",\"moe_layer_freq\":1}"};

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
    .mlx = &MLX,
};
