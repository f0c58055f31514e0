/* test_gguf_forms.c - GGUF files of families that are not dense decoders, made from goldens as
 * llama.cpp's converter makes them: names, keys, and what it turns about. They answer as the
 * goldens do; what their metadata says otherwise is refused by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "models/model.h"
#include "models/parts.h"
#include "support/compare.h"
#include "support/golden_copy.h"

enum { F32_GGUF = 0, PROMPT = 60, ANSWER = 5, NAME_BYTES = 160, LIST = 64 };

/* Names behind "model." and "model.layers.%u.", in the file and in its layers. */
static const char *const NAMES[][2] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"embedding_norm.weight", "token_embd_norm.weight"},
    {"embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {"per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {"pre_projection.weight", "nextn.pre_projection.weight"},
    {"post_projection.weight", "nextn.post_projection.weight"},
    {"fc.weight", "nextn.eh_proj.weight"},
    {"pre_fc_norm_embedding.weight", "nextn.enorm.weight"},
    {"pre_fc_norm_hidden.weight", "nextn.hnorm.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"operator_norm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"ffn_norm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
    {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
    {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.out_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.q_layernorm.weight", "attn_q_norm.weight"},
    {"self_attn.k_layernorm.weight", "attn_k_norm.weight"},
    {"self_attn.q_a_proj.weight", "attn_q_a.weight"},
    {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
    {"self_attn.q_b_proj.weight", "attn_q_b.weight"},
    {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
    {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
    {"self_attn.indexer.wq_b.weight", "indexer.attn_q_b.weight"},
    {"self_attn.indexer.wk.weight", "indexer.attn_k.weight"},
    {"self_attn.indexer.k_norm.weight", "indexer.k_norm.weight"},
    {"self_attn.indexer.k_norm.bias", "indexer.k_norm.bias"},
    {"self_attn.indexer.weights_proj.weight", "indexer.proj.weight"},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.in_proj_qkvz.weight", "ssm_in.weight"},
    {"linear_attn.in_proj_ba.weight", "ssm_ba.weight"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
    {"conv.in_proj.weight", "shortconv.in_proj.weight"},
    {"conv.conv.weight", "shortconv.conv.weight"},
    {"conv.out_proj.weight", "shortconv.out_proj.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"feed_forward.w1.weight", "ffn_gate.weight"},
    {"feed_forward.w2.weight", "ffn_down.weight"},
    {"feed_forward.w3.weight", "ffn_up.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.0.gate_proj.weight", "ffn_gate_exps.weight"},
    {"mlp.experts.0.up_proj.weight", "ffn_up_exps.weight"},
    {"mlp.experts.0.down_proj.weight", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
    {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
    {"router.proj.weight", "ffn_gate_inp.weight"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"layer_scalar", "layer_output_scale.weight"},
    {"per_layer_input_gate.weight", "inp_gate.weight"},
    {"per_layer_projection.weight", "proj.weight"},
    {"post_per_layer_input_norm.weight", "post_norm.weight"},
};

/* One thing that a file has otherwise. */
typedef struct change {
    const char *without;      /* a key or a tensor that is left out, or NULL */
    const char *key;          /* a number, or one of a list, that is another; or NULL */
    uint32_t index;           /* in the list */
    double number;            /* there, or of a key that is not there otherwise */
    bool legacy, experts_one; /* queries to z in one matrix; gate and up of experts in one */
} change;

typedef struct writer {
    gguf_builder b;
    const golden_copy *s;
    const llm *m;
    const char *arch;
    change how;
    bool is_written; /* the number that is another */
} writer;

/* ---- tensors ---- */

typedef struct matrix {
    float *x;
    uint64_t dims[4];
    uint32_t n_dims;
    uint64_t rows, cols;
} matrix;

static matrix take(const tensor *t)
{
    matrix a = {.n_dims = t->n_dims, .rows = t->n_rows, .cols = t->n_cols};
    memcpy(a.dims, t->dims, sizeof a.dims);
    a.x = malloc((size_t)(a.rows * a.cols) * sizeof *a.x);
    assert_non_null(a.x);
    for (uint64_t r = 0; r < a.rows; r++) t->encoding->decode_row(t, r, a.x + r * a.cols);
    return a;
}

static void put(writer *w, const char *name, matrix a)
{
    bool left_out = w->how.without != NULL && strcmp(w->how.without, name) == 0;
    size_t bytes = (size_t)(a.rows * a.cols) * sizeof *a.x;
    if (!left_out) gguf_add_tensor(&w->b, name, F32_GGUF, a.dims, a.n_dims, a.x, bytes);
    free(a.x);
}

/* Value heads from those of one key head after the other to one of each key head in turn: runs of
 * size numbers, behind the first ones. */
static void go_round(const model_params *p, float *x, uint64_t first, uint64_t size)
{
    uint64_t n_k = p->n_delta_k_heads;
    uint64_t each = p->n_delta_v_heads / n_k;
    size_t bytes = (size_t)(n_k * each * size) * sizeof *x;
    float *old = malloc(bytes);
    assert_non_null(old);
    memcpy(old, x + first, bytes);
    for (uint64_t k = 0; k < n_k; k++) {
        for (uint64_t j = 0; j < each; j++)
            memcpy(x + first + (j * n_k + k) * size, old + (k * each + j) * size,
                   (size_t)size * sizeof *x);
    }
    free(old);
}

static bool is_hybrid(const writer *w)
{
    return w->m->params.n_delta_v_heads != 0;
}

/* As Hugging Face's qwen3_5 has them. */
static void turn_delta(const writer *w, const char *own, matrix *a)
{
    const model_params *p = &w->m->params;
    bool tiled = strcmp(w->arch, "qwen3next") != 0;
    uint64_t keys = p->conv_dim - p->delta_dim;
    uint64_t v_dim = p->delta_v_dim;
    if (strcmp(own, "linear_attn.A_log") == 0) {
        for (uint64_t i = 0; i < a->cols; i++) a->x[i] = -expf(a->x[i]);
    }
    if (strcmp(own, "linear_attn.conv1d.weight") == 0) {
        a->n_dims = 2;
        a->dims[1] = a->cols;
    }
    if (!tiled) return;
    if (strstr(own, "A_log") != NULL || strstr(own, "dt_bias") != NULL) go_round(p, a->x, 0, 1);
    if (strstr(own, "in_proj_qkv") != NULL || strstr(own, "conv1d") != NULL)
        go_round(p, a->x, keys * a->cols, v_dim * a->cols);
    if (strstr(own, "in_proj_z") != NULL) go_round(p, a->x, 0, v_dim * a->cols);
    if (strstr(own, "in_proj_a") != NULL || strstr(own, "in_proj_b") != NULL)
        go_round(p, a->x, 0, a->cols);
    for (uint64_t r = 0; r < a->rows && strstr(own, "out_proj") != NULL; r++)
        go_round(p, a->x + r * a->cols, 0, v_dim);
}

/* Key head by key head: its queries, its keys, its values, its z. */
static void put_apart(writer *w, uint32_t layer, matrix all)
{
    const model_params *p = &w->m->params;
    uint64_t n_k = p->n_delta_k_heads;
    uint64_t v = p->delta_dim / n_k;
    uint64_t k = p->delta_k_dim;
    matrix of[2] = {all, all};
    char name[NAME_BYTES];
    for (int i = 0; i < 2; i++) {
        of[i].rows = of[i].dims[0] = i == 0 ? p->conv_dim : p->delta_dim;
        of[i].x = malloc((size_t)(of[i].rows * all.cols) * sizeof *all.x);
        assert_non_null(of[i].x);
    }
    for (uint64_t h = 0; h < n_k; h++) {
        const float *group = all.x + h * 2 * (k + v) * all.cols;
        const uint64_t n[3] = {k, k, v};
        const uint64_t to[3] = {h * k, (n_k + h) * k, 2 * n_k * k + h * v};
        for (int i = 0; i < 3; i++) {
            memcpy(of[0].x + to[i] * all.cols, group, (size_t)(n[i] * all.cols) * sizeof *all.x);
            group += n[i] * all.cols;
        }
        memcpy(of[1].x + h * v * all.cols, group, (size_t)(v * all.cols) * sizeof *all.x);
    }
    snprintf(name, sizeof name, "blk.%u.attn_qkv.weight", layer);
    put(w, name, of[0]);
    snprintf(name, sizeof name, "blk.%u.attn_gate.weight", layer);
    put(w, name, of[1]);
    free(all.x);
}

/* [H (nope + v), r] as [H, r, nope], turned, and [H, v, r]. */
static void put_latent(writer *w, uint32_t layer, matrix all)
{
    const model_params *p = &w->m->params;
    uint64_t heads = p->n_heads;
    uint64_t rank = p->kv_rank;
    matrix k = {.dims = {heads, rank, p->nope_dim}, .n_dims = 3, .cols = p->nope_dim};
    matrix v = {.dims = {heads, p->v_dim, rank}, .n_dims = 3, .cols = rank};
    char name[NAME_BYTES];
    k.rows = heads * rank;
    v.rows = heads * p->v_dim;
    k.x = malloc((size_t)(k.rows * k.cols) * sizeof *k.x);
    v.x = malloc((size_t)(v.rows * v.cols) * sizeof *v.x);
    assert_true(k.x != NULL && v.x != NULL);
    for (uint64_t h = 0; h < heads; h++) {
        const float *of = all.x + h * p->pair_dim * rank;
        for (uint64_t i = 0; i < (uint64_t)p->nope_dim * rank; i++)
            k.x[(h * rank + i % rank) * k.cols + i / rank] = of[i];
        memcpy(v.x + h * p->v_dim * rank, of + p->nope_dim * rank,
               (size_t)(p->v_dim * rank) * sizeof *v.x);
    }
    snprintf(name, sizeof name, "blk.%u.attn_k_b.weight", layer);
    put(w, name, k);
    snprintf(name, sizeof name, "blk.%u.attn_v_b.weight", layer);
    put(w, name, v);
    free(all.x);
}

/* Tensors of all experts behind one another, of those that name has %u for. */
static matrix take_experts(const writer *w, const char *first, const char *also)
{
    const char *from[2] = {first, also};
    uint32_t n = w->m->params.n_experts;
    matrix all = {.n_dims = 3};
    for (uint32_t e = 0; e < n; e++) {
        for (int i = 0; i < 2 && from[i] != NULL; i++) {
            char name[NAME_BYTES];
            const char *mark = strstr(from[i], ".0.");
            while (strstr(mark + 1, ".0.") != NULL) mark = strstr(mark + 1, ".0.");
            snprintf(name, sizeof name, "%.*s.%u.%s", (int)(mark - from[i]), from[i], e, mark + 3);
            matrix one = take(golden_tensor(w->s, name));
            size_t had = (size_t)(all.rows * one.cols);
            all.x = realloc(all.x, (had + (size_t)(one.rows * one.cols)) * sizeof *all.x);
            assert_non_null(all.x);
            memcpy(all.x + had, one.x, (size_t)(one.rows * one.cols) * sizeof *all.x);
            all.rows += one.rows;
            all.cols = one.cols;
            free(one.x);
        }
    }
    all.dims[0] = n;
    all.dims[1] = all.rows / n;
    all.dims[2] = all.cols;
    return all;
}

static bool put_expert(writer *w, const tensor *t, const char *name, const char *own)
{
    if (strstr(own, "mlp.experts.") == NULL) return false;
    if (strstr(own, "experts.0.") == NULL) return true;
    bool one = w->how.experts_one;
    if (one && strstr(own, "up_proj") != NULL) return true;
    if (one && strstr(own, "gate_proj") != NULL) {
        char up[NAME_BYTES];
        char as[NAME_BYTES];
        const char *mark = strstr(t->name, "gate_proj");
        snprintf(up, sizeof up, "%.*sup_proj.weight", (int)(mark - t->name), t->name);
        mark = strstr(name, "gate_exps");
        snprintf(as, sizeof as, "%.*sgate_up_exps.weight", (int)(mark - name), name);
        put(w, as, take_experts(w, t->name, up));
        return true;
    }
    put(w, name, take_experts(w, t->name, NULL));
    return true;
}

/* What its converter adds to it: 1 to weights that are offsets. */
static float offset_of(const writer *w, const char *own)
{
    size_t n = strlen(own);
    bool norm = n >= 11 && strcmp(own + n - 11, "norm.weight") == 0;
    bool other = strcmp(own, "linear_attn.norm.weight") == 0;
    if (norm || strstr(own, "pre_fc_norm") != NULL)
        return is_hybrid(w) && !other ? w->m->params.norm_add : 0.0F;
    return 0.0F;
}

static const char *own_name(const writer *w, const char *hf, uint32_t *layer, char prefix[32])
{
    int n = 0;
    bool in_layer = sscanf(hf, "model.layers.%u.%n", layer, &n) == 1 && n > 0;
    if (!in_layer && sscanf(hf, "mtp.layers.%u.%n", layer, &n) == 1 && n > 0) {
        *layer += w->m->params.n_layers;
        in_layer = true;
    }
    bool of_draft = !in_layer && strncmp(hf, "mtp.", 4) == 0;
    if (of_draft) *layer = w->m->params.n_layers;
    prefix[0] = '\0';
    if (in_layer || of_draft) snprintf(prefix, 32, "blk.%u.", *layer);
    if (in_layer) return hf + n;
    return of_draft ? hf + 4 : strncmp(hf, "model.", 6) == 0 ? hf + 6 : hf;
}

static const char *gguf_name(const writer *w, const char *own, bool of_draft)
{
    bool latent = w->m->params.kv_rank != 0;
    if (of_draft && strcmp(own, "norm.weight") == 0) return "nextn.shared_head_norm.weight";
    if (latent && strcmp(own, "post_attention_layernorm.weight") == 0) return "ffn_norm.weight";
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (strcmp(NAMES[i][0], own) == 0) return NAMES[i][1];
    }
    return NULL;
}

static void put_tensor(writer *w, const tensor *t)
{
    uint32_t layer = 0;
    char prefix[32];
    char name[NAME_BYTES];
    const char *own = own_name(w, t->name, &layer, prefix);
    const char *as = gguf_name(w, own, prefix[0] != '\0');
    snprintf(name, sizeof name, "%s%s", prefix, as == NULL ? "" : as);
    if (put_expert(w, t, name, own) || strncmp(own, "masked_embedding.", 17) == 0) return;
    matrix a = take(t);
    if (strcmp(own, "self_attn.kv_b_proj.weight") == 0) {
        put_latent(w, layer, a);
        return;
    }
    if (strcmp(own, "linear_attn.in_proj_qkvz.weight") == 0 && !w->how.legacy) {
        put_apart(w, layer, a);
        return;
    }
    if (as == NULL) fail_msg("%s has no GGUF name", t->name);
    float offset = offset_of(w, own);
    for (uint64_t i = 0; i < a.rows * a.cols && offset != 0.0F; i++) a.x[i] += offset;
    if (strncmp(own, "linear_attn.", 12) == 0) turn_delta(w, own, &a);
    if (strcmp(own, "conv.conv.weight") == 0) {
        a.n_dims = 2;
        a.dims[1] = a.cols;
    }
    put(w, name, a);
}

/* ---- metadata ---- */

static bool is_left_out(const writer *w, const char *key)
{
    return w->how.without != NULL && strcmp(w->how.without, key) == 0;
}

static void put_number(writer *w, const char *own, double number, bool real)
{
    char key[NAME_BYTES];
    if (is_left_out(w, own)) return;
    if (w->how.key != NULL && strcmp(w->how.key, own) == 0) {
        number = w->how.number;
        w->is_written = true;
    }
    snprintf(key, sizeof key, "%s.%s", w->arch, own);
    if (real) gguf_add_f32(&w->b, key, (float)number);
    if (!real) gguf_add_u32(&w->b, key, (uint32_t)number);
}

/* Counts as the converter writes them, or flags. */
static void put_list(writer *w, const char *own, const uint32_t *list, uint32_t n, bool flags)
{
    char key[NAME_BYTES];
    int32_t counts[LIST];
    unsigned char bytes[LIST];
    assert_true(n <= LIST);
    if (is_left_out(w, own)) return;
    bool changed = w->how.key != NULL && strcmp(w->how.key, own) == 0;
    for (uint32_t i = 0; i < n; i++) {
        bool here = changed && w->how.index == i;
        counts[i] = here ? (int32_t)w->how.number : (int32_t)list[i];
        bytes[i] = counts[i] != 0;
    }
    if (changed && w->how.index >= n) n--; /* one too few */
    if (changed) w->is_written = true;
    snprintf(key, sizeof key, "%s.%s", w->arch, own);
    if (flags) gguf_add_array(&w->b, key, GGUF_BOOL, bytes, n, n);
    if (!flags) gguf_add_array(&w->b, key, GGUF_I32, counts, n, n * sizeof counts[0]);
}

static void list_flags(writer *w, const char *own, const bool *flags, uint32_t n)
{
    uint32_t list[LIST];
    for (uint32_t i = 0; i < n && i < LIST; i++) list[i] = flags[i];
    put_list(w, own, list, n, true);
}

static void put_gemma(writer *w)
{
    const model_params *p = &w->m->params;
    uint32_t heads[LIST];
    uint32_t widths[LIST];
    bool alike = !p->wide_mlp;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        heads[i] = p->is_window[i] ? p->n_kv_heads : p->n_full_kv_heads;
        widths[i] = p->is_wide[i] ? p->n_ff_wide : p->n_ff;
    }
    put_list(w, "attention.head_count_kv", heads, p->n_layers, false);
    if (alike) put_number(w, "feed_forward_length", p->n_ff, false);
    if (!alike) put_list(w, "feed_forward_length", widths, p->n_layers, false);
    list_flags(w, "attention.sliding_window_pattern", p->is_window, p->n_layers);
    put_number(w, "attention.value_length", p->full_head_dim, false);
    put_number(w, "attention.value_length_swa", p->head_dim, false);
    put_number(w, "rope.dimension_count", p->full_head_dim, false);
    put_number(w, "rope.dimension_count_swa", p->head_dim, false);
    matrix divisors = {.dims = {p->full_head_dim / 2}, .n_dims = 1, .rows = 1};
    divisors.cols = divisors.dims[0];
    divisors.x = malloc((size_t)divisors.cols * sizeof *divisors.x);
    assert_non_null(divisors.x);
    uint32_t n_turn = (uint32_t)(p->full_head_dim * p->ropes[0].partial / 2);
    for (uint32_t i = 0; i < divisors.cols; i++) divisors.x[i] = i < n_turn ? 1.0F : 1e30F;
    put(w, "rope_freqs.weight", divisors);
}

static void put_latents(writer *w)
{
    const model_params *p = &w->m->params;
    char key[NAME_BYTES];
    put_number(w, "attention.key_length", p->latent_dim, false);
    put_number(w, "attention.value_length", p->kv_rank, false);
    put_number(w, "attention.key_length_mla", p->head_dim, false);
    put_number(w, "attention.value_length_mla", p->v_dim, false);
    list_flags(w, "attention.indexer.types", p->has_index, p->n_layers);
    snprintf(key, sizeof key, "%s.expert_weights_norm", w->arch);
    gguf_add_bool(&w->b, key, p->route_normalize);
}

static double number_of(const writer *w, const model_param *row)
{
    const model_params *p = &w->m->params;
    const char *field = (const char *)p + row->offset;
    if (row->offset == SHAPE(rope_theta)) return p->ropes[0].theta;
    if (row->offset == SHAPE(rope_theta_local)) return p->ropes[1].theta;
    if (row->offset == SHAPE(n_layers)) return model_all_layers(p);
    if (row->offset == SHAPE(n_later)) return p->n_draft_layers;
    if (row->type == PARAM_F32) return (double)*(const float *)(const void *)field;
    return *(const uint32_t *)(const void *)field;
}

static void put_metadata(writer *w)
{
    const model_family *f = w->m->family;
    const model_params *p = &w->m->params;
    gguf_add_text(&w->b, "general.architecture", w->arch);
    for (uint32_t i = 0; i < f->n_params; i++) {
        const model_param *row = &f->params[i];
        if (row->gguf_key == NULL || row->type == PARAM_BOOL) continue;
        double number = number_of(w, row);
        if (number != 0.0) put_number(w, row->gguf_key, number, row->type == PARAM_F32);
    }
    if (is_hybrid(w)) list_flags(w, "attention.recurrent_layers", p->is_recurrent, p->n_layers);
    if (strcmp(w->arch, "lfm2") == 0) {
        uint32_t heads[LIST];
        for (uint32_t i = 0; i < p->n_layers; i++)
            heads[i] = p->is_recurrent[i] ? 0 : p->n_kv_heads;
        put_list(w, "attention.head_count_kv", heads, p->n_layers, false);
    }
    if (strncmp(w->arch, "gemma4", 6) == 0) put_gemma(w);
    if (p->kv_rank != 0) put_latents(w);
    if (w->how.key != NULL && !w->is_written) put_number(w, w->how.key, w->how.number, false);
}

static void write_form(const golden_copy *s, const llm *m, const char *arch, const change *how,
                       test_folder *folder, char path[512])
{
    writer w = {.s = s, .m = m, .arch = arch};
    if (how != NULL) w.how = *how;
    gguf_init(&w.b, 3);
    put_metadata(&w);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) put_tensor(&w, &s->w->tensors[i]);
    snprintf(path, 512, "%s", gguf_write(&w.b, folder, "m.gguf"));
    gguf_deinit(&w.b);
}

/* ---- answers ---- */

static run answer_of(const char *path)
{
    weft_model *model = run_open_model(path);
    weft_engine_options options = {
        .struct_size = sizeof options, .act = WEFT_ACT_F32, .max_outputs = PROMPT, .n_threads = 1};
    weft_engine *engine = run_open_engine(model, &options);
    uint32_t n_vocab = run_n_vocab(model);
    run r = {.prompt = run_random_ids(PROMPT, n_vocab, 5),
             .n_prompt = PROMPT,
             .max_new = ANSWER,
             .want_prompt_logits = true};
    run_all(engine, n_vocab, &r, 1);
    weft_engine_close(engine);
    weft_model_close(model);
    free((void *)(uintptr_t)r.prompt);
    r.prompt = NULL;
    return r;
}

/* Rows of a slot's first tensor, with what is added to norms. */
static void assert_same_slot(const llm *a, const llm *b, uint32_t slot, uint32_t layer)
{
    uint32_t of[2] = {a->bound[model_bound_at(&a->params, slot, layer)],
                      b->bound[model_bound_at(&b->params, slot, layer)]};
    bool norm = a->family->slots[slot].rows == SHAPE_NONE;
    assert_true((of[0] == 0) == (of[1] == 0));
    if (of[0] == 0) return;
    matrix x = take(&a->tensors[of[0] - 1]);
    matrix y = take(&b->tensors[of[1] - 1]);
    assert_true(x.rows == y.rows && x.cols == y.cols);
    for (uint64_t i = 0; i < x.rows * x.cols; i++) {
        float added[2] = {norm ? a->params.norm_add : 0.0F, norm ? b->params.norm_add : 0.0F};
        assert_true(x.x[i] + added[0] == y.x[i] + added[1]);
    }
    free(x.x);
    free(y.x);
}

/* The head that drafts has the same numbers in its places. */
static void check_draft(const llm *a, const llm *b)
{
    assert_int_equal(a->draft.n_values, b->draft.n_values);
    if (a->params.draft_root == NULL) return;
    assert_int_equal(b->params.n_layers, a->params.n_layers);
    for (uint32_t i = 0; i < a->family->n_slots; i++) {
        bool layer = a->family->slots[i].place == SLOT_LAYER;
        assert_same_slot(a, b, i, layer ? a->params.n_layers : 0);
    }
}

/* Of the logits' standard deviation: sums are added up in another order where heads stand in
 * another, and decays come from rounded numbers. */
static void check_form(const char *name, const char *arch, const change *how, double bound)
{
    golden_copy s;
    test_folder folder;
    char path[512];
    golden_copy_open(&s, name);
    weft_model *model = run_open_model(s.path);
    size_t n = (size_t)PROMPT * run_n_vocab(model);
    test_folder_create(&folder);
    write_form(&s, model->model, arch, how, &folder, path);
    weft_model *gguf = run_open_model(path);
    check_draft(model->model, gguf->model);
    weft_model_close(gguf);
    run hf = answer_of(s.path);
    run got = answer_of(path);
    double scale = compare_deviation(hf.prompt_logits, n);
    double most = compare_max_abs(got.prompt_logits, hf.prompt_logits, n, NULL);
    print_message("gguf %s of %s: %.2g\n", arch, name, most / scale);
    assert_true(most <= bound * scale);
    assert_memory_equal(got.tokens, hf.tokens, ANSWER * sizeof *got.tokens);
    run_free(&hf);
    run_free(&got);
    test_folder_remove(&folder);
    weft_model_close(model);
    golden_copy_close(&s);
}

static void test_forms(void **state)
{
    (void)state;
    static const change LEGACY = {.legacy = true};
    static const change ONE = {.experts_one = true};
    static const struct {
        const char *name, *arch;
        const change *how;
        double bound;
    } CASES[] = {
        {"qwen3_5", "qwen35", NULL, 1e-4},          {"qwen3_5-tied", "qwen35", NULL, 1e-4},
        {"qwen3_5-mtp", "qwen35", NULL, 1e-4},      {"qwen3_5_moe", "qwen35moe", NULL, 1e-4},
        {"qwen3_5_moe", "qwen35moe", &ONE, 1e-4},   {"qwen3_next", "qwen3next", NULL, 1e-4},
        {"qwen3_next", "qwen3next", &LEGACY, 1e-4}, {"lfm2", "lfm2", NULL, 0.0},
        {"lfm2-untied", "lfm2", NULL, 0.0},         {"gemma4-dense", "gemma4", NULL, 0.0},
        {"gemma4-moe", "gemma4", NULL, 0.0},        {"gemma4-ple", "gemma4", NULL, 0.0},
        {"glm_moe_dsa", "glm-dsa", NULL, 2e-5},     {"glm_moe_dsa-shared", "glm-dsa", NULL, 2e-5},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        check_form(CASES[i].name, CASES[i].arch, CASES[i].how, CASES[i].bound);
}

/* What drafts for another model: the same numbers, states and ropes, and logits of all tokens. */
static void test_assistants(void **state)
{
    (void)state;
    static const char *const NAMES_OF[] = {"gemma4-assistant/assistant",
                                           "gemma4-assistant/assistant-centroid"};
    for (size_t i = 0; i < COUNT_OF(NAMES_OF); i++) {
        golden_copy s;
        test_folder folder;
        char path[512];
        golden_copy_open(&s, NAMES_OF[i]);
        weft_model *model = run_open_model(s.path);
        test_folder_create(&folder);
        write_form(&s, model->model, "gemma4-assistant", NULL, &folder, path);
        weft_model *gguf = run_open_model(path);
        const llm *a = model->model;
        const llm *b = gguf->model;
        for (uint32_t slot = 0; slot < a->family->n_slots; slot++) {
            if (a->family->slots[slot].if_flag == SHAPE(has_centroids)) continue;
            bool layer = a->family->slots[slot].place == SLOT_LAYER;
            for (uint32_t l = 0; l < (layer ? a->params.n_layers : 1); l++)
                assert_same_slot(a, b, slot, l);
        }
        assert_int_equal(b->n_donor_layers, a->n_donor_layers);
        assert_memory_equal(b->donor_layers, a->donor_layers,
                            a->n_donor_layers * sizeof *a->donor_layers);
        for (uint32_t r = 0; r < a->params.n_ropes; r++) {
            assert_int_equal(b->ropes[r].n_pairs, a->ropes[r].n_pairs);
            for (uint32_t k = 0; k < a->ropes[r].n_pairs; k++)
                assert_true(fabsf(a->ropes[r].inv_freq[k] - b->ropes[r].inv_freq[k]) < 1e-29F);
        }
        assert_int_equal(b->graph.values[b->graph.output].cols, a->params.n_vocab);
        weft_model_close(gguf);
        test_folder_remove(&folder);
        weft_model_close(model);
        golden_copy_close(&s);
    }
}

/* ---- what is refused ---- */

#define WITHOUT(name)                                                                              \
    {                                                                                              \
        .without = (name)                                                                          \
    }
#define NUMBER(name, n)                                                                            \
    {                                                                                              \
        .key = (name), .number = (n)                                                               \
    }
#define ENTRY(name, at, n)                                                                         \
    {                                                                                              \
        .key = (name), .index = (at), .number = (n)                                                \
    }

static const struct {
    const char *name, *arch;
    change how;
    weft_status status;
    const char *message;
} REFUSED[] = {
    {"qwen3_5", "qwen35", NUMBER("attention.value_length", 16), WEFT_UNSUPPORTED,
     "attention.value_length is 16, attention.key_length 32"},
    {"qwen3_5", "qwen35", NUMBER("ssm.inner_size", 65), WEFT_FORMAT,
     "ssm.inner_size is 65, expected a multiple of 4"},
    {"qwen3_5", "qwen35", WITHOUT("ssm.inner_size"), WEFT_FORMAT, "the file has no ssm.inner_size"},
    {"qwen3_5", "qwen35", NUMBER("nextn_predict_layers", 4), WEFT_FORMAT,
     "nextn_predict_layers is 4 of 4 layers"},
    {"qwen3_5", "qwen35", ENTRY("attention.recurrent_layers", LIST, 0), WEFT_FORMAT,
     "recurrent_layers' has 3 entries for 4 layers"},
    {"qwen3_5", "qwen35", ENTRY("attention.recurrent_layers", 3, 1), WEFT_FORMAT,
     "tensor 'blk.3.attn_qkv.weight' is missing"},
    {"qwen3_5", "qwen35", NUMBER("ssm.group_count", 3), WEFT_FORMAT,
     "4 linear value heads are no multiple of 3"},
    {"qwen3_5", "qwen35", WITHOUT("blk.0.ssm_a"), WEFT_FORMAT, "tensor 'blk.0.ssm_a' is missing"},
    {"qwen3_5-mtp", "qwen35", WITHOUT("blk.3.nextn.enorm.weight"), WEFT_FORMAT,
     "tensor 'blk.3.nextn.enorm.weight' is missing"},
    {"qwen3_5_moe", "qwen35moe", NUMBER("expert_used_count", 9), WEFT_FORMAT, "9 of 8 experts"},
    {"qwen3_next", "qwen3next", WITHOUT("blk.0.ssm_ba.weight"), WEFT_FORMAT,
     "tensor 'blk.0.ssm_ba.weight' is missing"},
    {"lfm2", "lfm2", WITHOUT("attention.head_count_kv"), WEFT_FORMAT,
     "the file has no attention.head_count_kv"},
    {"lfm2", "lfm2", ENTRY("attention.head_count_kv", 1, 1), WEFT_UNSUPPORTED,
     "layers of 1 and of 2 key heads"},
    {"lfm2", "lfm2", ENTRY("attention.head_count_kv", 1, -2), WEFT_FORMAT,
     "attention.head_count_kv of layer 1 is -2, expected 0 to 4096"},
    {"lfm2", "lfm2", WITHOUT("feed_forward_length"), WEFT_FORMAT,
     "the file has no feed_forward_length"},
    {"lfm2", "lfm2", NUMBER("attention.sliding_window", 32), WEFT_UNSUPPORTED,
     "attention.sliding_window 32 is not supported"},
    {"gemma4-dense", "gemma4", WITHOUT("attention.sliding_window_pattern"), WEFT_FORMAT,
     "the file has no attention.sliding_window_pattern"},
    {"gemma4-dense", "gemma4", ENTRY("attention.sliding_window_pattern", 5, 1), WEFT_UNSUPPORTED,
     "a window in the last layer"},
    {"gemma4-dense", "gemma4", ENTRY("attention.head_count_kv", 2, 1), WEFT_UNSUPPORTED,
     "layer 2 has 1 key heads, others of its kind 2"},
    {"gemma4-dense", "gemma4", ENTRY("attention.head_count_kv", 5, 3), WEFT_FORMAT,
     "4 heads of 32 and 64 do not go with 2 and 3 key heads"},
    {"gemma4-dense", "gemma4", WITHOUT("attention.head_count_kv"), WEFT_FORMAT,
     "the file has no attention.head_count_kv"},
    {"gemma4-dense", "gemma4", WITHOUT("feed_forward_length"), WEFT_FORMAT,
     "the file has no feed_forward_length"},
    {"gemma4-ple", "gemma4", ENTRY("feed_forward_length", 7, 128), WEFT_UNSUPPORTED,
     "layer 7 has an MLP of 128, layer 0 of 128"},
    {"gemma4-dense", "gemma4", NUMBER("rope.dimension_count", 32), WEFT_UNSUPPORTED,
     "rope.dimension_count is 32, expected 64"},
    {"gemma4-dense", "gemma4", NUMBER("attention.value_length_swa", 64), WEFT_UNSUPPORTED,
     "attention.value_length_swa is 64, expected 32"},
    {"gemma4-dense", "gemma4", WITHOUT("rope_freqs.weight"), WEFT_FORMAT,
     "tensor 'rope_freqs.weight' is missing"},
    {"gemma4-ple", "gemma4", WITHOUT("per_layer_token_embd.weight"), WEFT_FORMAT,
     "tensor 'per_layer_token_embd.weight' has 0 rows"},
    {"gemma4-moe", "gemma4", WITHOUT("blk.0.ffn_down_exps.scale"), WEFT_FORMAT,
     "tensor 'blk.0.ffn_down_exps.scale' is missing"},
    {"gemma4-assistant/assistant", "gemma4-assistant", WITHOUT("embedding_length_out"), WEFT_FORMAT,
     "the file has no embedding_length_out"},
    {"gemma4-assistant/assistant", "gemma4-assistant", WITHOUT("nextn.pre_projection.weight"),
     WEFT_FORMAT, "tensor 'nextn.pre_projection.weight' is missing"},
    {"glm_moe_dsa", "glm-dsa", WITHOUT("attention.indexer.top_k"), WEFT_FORMAT, "index_topk 0"},
    {"glm_moe_dsa", "glm-dsa", ENTRY("attention.indexer.types", 0, 0), WEFT_FORMAT,
     "layer 0 has no index"},
    {"glm_moe_dsa", "glm-dsa", NUMBER("nextn_predict_layers", 7), WEFT_FORMAT,
     "nextn_predict_layers is 7 of"},
    {"glm_moe_dsa", "glm-dsa", NUMBER("expert_gating_func", 1), WEFT_UNSUPPORTED,
     "expert_gating_func is 1, expected 2"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        golden_copy s;
        test_folder folder;
        char path[512];
        llm *m = NULL;
        weft_error err = {WEFT_OK, ""};
        golden_copy_open(&s, REFUSED[i].name);
        weft_model *model = run_open_model(s.path);
        test_folder_create(&folder);
        write_form(&s, model->model, REFUSED[i].arch, &REFUSED[i].how, &folder, path);
        weft_status status = llm_open(&s.env, path, &m, &err);
        if (status != REFUSED[i].status || strstr(err.message, REFUSED[i].message) == NULL)
            fail_msg("%s, case %zu: '%s'", REFUSED[i].arch, i, err.message);
        test_folder_remove(&folder);
        weft_model_close(model);
        golden_copy_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_assistants),
        cmocka_unit_test(test_refused),
    };
    return TEST_RUN("models/gguf_forms", tests);
}
