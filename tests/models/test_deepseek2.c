/* test_deepseek2.c - DeepSeek V3 as GGUF has it ("deepseek2"): the golden's tensors under those
 * names, experts as stacks, and the matrix between latents and heads whole or as two of which one
 * is turned. Both must give the answers of the golden; what the metadata says otherwise is
 * refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "models/model.h"
#include "support/compare.h"
#include "support/golden_copy.h"

#define ARCH "deepseek2."

enum { BF16_GGUF = 30, VOCAB = 320, LAYERS = 4, HEADS = 4, NOPE = 16, ROPE = 16, RANK = 32 };
enum { EXPERTS = 8, VALUE = 16 };

typedef enum form { FORM_WHOLE, FORM_SPLIT } form;

/* Names without ".weight"; "model.layers.%u." is "blk.%u.". */
static const char *const PAIRS[][2] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
};

static void gguf_name(const char *name, char *to, size_t capacity)
{
    unsigned layer = 0;
    int prefix = 0;
    bool in_layer = sscanf(name, "model.layers.%u.%n", &layer, &prefix) == 1 && prefix > 0;
    const char *rest = in_layer ? name + prefix : name;
    const char *ending = strrchr(rest, '.');
    if (strcmp(rest, "mlp.gate.e_score_correction_bias") == 0) {
        snprintf(to, capacity, "blk.%u.exp_probs_b.bias", layer);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(PAIRS); i++) {
        size_t n = strlen(PAIRS[i][0]);
        if ((size_t)(ending - rest) != n || strncmp(rest, PAIRS[i][0], n) != 0) continue;
        if (in_layer) snprintf(to, capacity, "blk.%u.%s.weight", layer, PAIRS[i][1]);
        if (!in_layer) snprintf(to, capacity, "%s.weight", PAIRS[i][1]);
        return;
    }
    fail_msg("a golden has the tensor '%s'", name);
}

static void add(gguf_builder *b, const char *name, const uint64_t *dims, uint32_t n_dims,
                const void *data)
{
    size_t n_bytes = 2;
    for (uint32_t i = 0; i < n_dims; i++) n_bytes *= (size_t)dims[i];
    gguf_add_tensor(b, name, BF16_GGUF, dims, n_dims, data, n_bytes);
}

static const uint16_t *numbers_of(const tensor *t)
{
    return (const uint16_t *)(const void *)t->planes[0];
}

/* Experts of a layer behind one another. */
static void add_experts(gguf_builder *b, const golden_copy *s, uint32_t layer, const char *which)
{
    char name[128];
    unsigned char *all = NULL;
    const tensor *t = NULL;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.%s_proj.weight", layer, e,
                 which);
        t = golden_tensor(s, name);
        if (all == NULL) all = malloc(EXPERTS * (size_t)t->plane_bytes[0]);
        assert_non_null(all);
        memcpy(all + e * (size_t)t->plane_bytes[0], t->planes[0], (size_t)t->plane_bytes[0]);
    }
    snprintf(name, sizeof name, "blk.%u.ffn_%s_exps.weight", layer, which);
    add(b, name, (const uint64_t[]){EXPERTS, t->dims[0], t->dims[1]}, 3, all);
    free(all);
}

/* [H (nope + v), r] as [H, r, nope], turned, and [H, v, r]. */
static void add_split(gguf_builder *b, const golden_copy *s, uint32_t layer)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%u.self_attn.kv_b_proj.weight", layer);
    const uint16_t *from = numbers_of(golden_tensor(s, name));
    static uint16_t keys[HEADS][RANK][NOPE];
    static uint16_t values[HEADS][VALUE][RANK];
    for (size_t h = 0; h < HEADS; h++) {
        const uint16_t *head = from + h * (NOPE + VALUE) * RANK;
        for (size_t r = 0; r < RANK; r++) {
            for (size_t i = 0; i < NOPE; i++) keys[h][r][i] = head[i * RANK + r];
            for (size_t i = 0; i < VALUE; i++) values[h][i][r] = head[(NOPE + i) * RANK + r];
        }
    }
    snprintf(name, sizeof name, "blk.%u.attn_k_b.weight", layer);
    add(b, name, (const uint64_t[]){HEADS, RANK, NOPE}, 3, keys);
    snprintf(name, sizeof name, "blk.%u.attn_v_b.weight", layer);
    add(b, name, (const uint64_t[]){HEADS, VALUE, RANK}, 3, values);
}

/* What one case changes of the metadata. */
typedef struct change {
    const char *without; /* a key that is left out, or NULL */
    const char *key;     /* one with another number, or NULL */
    double number;
} change;

static bool is_left_out(const change *c, const char *key)
{
    return c->without != NULL && strcmp(c->without, key) == 0;
}

static void add_number(gguf_builder *b, const change *c, const char *key, double number, bool real)
{
    char name[96];
    if (is_left_out(c, key)) return;
    if (c->key != NULL && strcmp(c->key, key) == 0) number = c->number;
    snprintf(name, sizeof name, ARCH "%s", key);
    if (real) {
        gguf_add_f32(b, name, (float)number);
    } else {
        gguf_add_u32(b, name, (uint32_t)number);
    }
}

static void add_metadata(gguf_builder *b, form f, const change *c)
{
    const bool split = f == FORM_SPLIT;
    gguf_add_text(b, "general.architecture", "deepseek2");
    add_number(b, c, "block_count", LAYERS, false);
    add_number(b, c, "context_length", 512, false);
    add_number(b, c, "embedding_length", 64, false);
    add_number(b, c, "feed_forward_length", 128, false);
    add_number(b, c, "vocab_size", VOCAB, false);
    add_number(b, c, "attention.head_count", HEADS, false);
    add_number(b, c, "attention.head_count_kv", split ? 1 : HEADS, false);
    add_number(b, c, "attention.layer_norm_rms_epsilon", 1e-6, true);
    add_number(b, c, "attention.q_lora_rank", 48, false);
    add_number(b, c, "attention.kv_lora_rank", RANK, false);
    add_number(b, c, "attention.key_length", split ? RANK + ROPE : NOPE + ROPE, false);
    add_number(b, c, "attention.value_length", split ? RANK : VALUE, false);
    if (split) add_number(b, c, "attention.key_length_mla", NOPE + ROPE, false);
    if (split) add_number(b, c, "attention.value_length_mla", VALUE, false);
    add_number(b, c, "rope.dimension_count", ROPE, false);
    add_number(b, c, "rope.freq_base", 10000, true);
    add_number(b, c, "leading_dense_block_count", 1, false);
    add_number(b, c, "expert_feed_forward_length", 64, false);
    add_number(b, c, "expert_count", EXPERTS, false);
    add_number(b, c, "expert_used_count", 2, false);
    add_number(b, c, "expert_shared_count", 1, false);
    add_number(b, c, "expert_group_count", 2, false);
    add_number(b, c, "expert_group_used_count", 1, false);
    add_number(b, c, "expert_gating_func", 2, false);
    add_number(b, c, "expert_weights_scale", 2.5, true);
    if (!is_left_out(c, "expert_weights_norm")) gguf_add_bool(b, ARCH "expert_weights_norm", true);
    if (c->key == NULL || strcmp(c->key, "rope.scaling.yarn_log_multiplier") != 0) return;
    gguf_add_text(b, ARCH "rope.scaling.type", "yarn");
    gguf_add_f32(b, ARCH "rope.scaling.factor", 40.0F);
    gguf_add_u32(b, ARCH "rope.scaling.original_context_length", 64);
    gguf_add_f32(b, ARCH "rope.scaling.yarn_log_multiplier", (float)c->number);
}

static void write_gguf(const golden_copy *s, test_folder *folder, form f, const change *c,
                       char path[300])
{
    gguf_builder b;
    gguf_init(&b, 3);
    add_metadata(&b, f, c);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        char name[128];
        const tensor *t = &s->w->tensors[i];
        if (strstr(t->name, ".experts.") != NULL) continue;
        if (f == FORM_SPLIT && strstr(t->name, "kv_b_proj") != NULL) continue;
        gguf_name(t->name, name, sizeof name);
        add(&b, name, t->dims, t->n_dims, t->planes[0]);
    }
    for (uint32_t l = 0; l < LAYERS; l++) {
        if (f == FORM_SPLIT) add_split(&b, s, l);
        if (l == 0) continue;
        add_experts(&b, s, l, "gate");
        add_experts(&b, s, l, "up");
        add_experts(&b, s, l, "down");
    }
    const char *written = gguf_write(&b, folder, "m.gguf");
    snprintf(path, 300, "%s", written);
    gguf_deinit(&b);
}

static run answer_of(const golden_copy *s, form f)
{
    test_folder folder;
    change none = {0};
    char path[300];
    test_folder_create(&folder);
    write_gguf(s, &folder, f, &none, path);
    run r = golden_answer(path, WEFT_ACT_F32);
    test_folder_remove(&folder);
    return r;
}

static void test_both_forms(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, "deepseek_v3");
    run plain = golden_answer(s.path, WEFT_ACT_F32);
    run whole = answer_of(&s, FORM_WHOLE);
    run split = answer_of(&s, FORM_SPLIT);
    run_assert_identical(&whole, &plain, VOCAB);
    /* What is not turned is summed in another order. */
    assert_int_equal(split.n_tokens, plain.n_tokens);
    assert_memory_equal(split.tokens, plain.tokens, plain.n_tokens * sizeof *plain.tokens);
    assert_true(compare_relative_rms(split.prompt_logits, plain.prompt_logits,
                                     (size_t)GOLDEN_PROMPT * VOCAB) < 1e-5);
    run_free(&plain);
    run_free(&whole);
    run_free(&split);
    golden_copy_close(&s);
}

static const struct {
    change change;
    weft_status status;
    const char *message;
} CASES[] = {
    {{NULL, NULL, 0}, WEFT_OK, ""},
    {{"expert_group_count", "expert_group_used_count", 0}, WEFT_FORMAT, "expert_group_used_count"},
    {{"attention.key_length_mla", NULL, 0}, WEFT_FORMAT, "expected"},
    {{NULL, "attention.key_length_mla", 16}, WEFT_FORMAT, "rope.dimension_count is 16, expected"},
    {{NULL, "attention.value_length_mla", 0},
     WEFT_FORMAT,
     "attention.value_length_mla is 0, expected 1 to 16384"},
    {{NULL, "attention.value_length_mla", 8}, WEFT_FORMAT, "expected"},
    {{NULL, "expert_gating_func", 1}, WEFT_UNSUPPORTED, "expert_gating_func is 1, expected 2"},
    {{"expert_gating_func", NULL, 0}, WEFT_UNSUPPORTED, "expert_gating_func is 0, expected 2"},
    {{"attention.kv_lora_rank", NULL, 0}, WEFT_FORMAT, "the file has no attention.kv_lora_rank"},
    {{NULL, "block_count", 3}, WEFT_UNSUPPORTED, "has no place in architecture deepseek_v3"},
    {{NULL, "rope.scaling.yarn_log_multiplier", 1e9},
     WEFT_FORMAT,
     "rope.scaling.yarn_log_multiplier is 1e+09"},
};

static weft_status open_changed(const golden_copy *s, const change *c, llm **m, test_folder *folder,
                                weft_error *err)
{
    char path[300];
    *err = (weft_error){0};
    test_folder_create(folder);
    write_gguf(s, folder, FORM_SPLIT, c, path);
    return llm_open(&s->env, path, m, err);
}

static void test_metadata(void **state)
{
    (void)state;
    golden_copy s;
    llm *m;
    weft_error err;
    test_folder folder;
    golden_copy_open(&s, "deepseek_v3");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        assert_status(CASES[i].status, open_changed(&s, &CASES[i].change, &m, &folder, &err), &err);
        if (CASES[i].status != WEFT_OK) assert_message(&err, CASES[i].message);
        llm_close(m);
        test_folder_remove(&folder);
    }
    /* What is not said is not so; yarn's number has the tenth in it. */
    change plain = {"expert_weights_norm", NULL, 0};
    assert_ok(open_changed(&s, &plain, &m, &folder, &err), &err);
    assert_false(m->params.route_normalize);
    llm_close(m);
    test_folder_remove(&folder);
    change yarn = {NULL, "rope.scaling.yarn_log_multiplier", 0.1};
    assert_ok(open_changed(&s, &yarn, &m, &folder, &err), &err);
    double grown = 0.1 * log(40.0) + 1.0;
    assert_true(fabs((double)m->params.attn_scale * sqrt(32.0) - grown * grown) < 1e-5);
    assert_true(m->ropes[0].magnitude == 1.0F && m->ropes[0].interleaved);
    assert_true(m->params.route_normalize);
    llm_close(m);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_forms),
        cmocka_unit_test(test_metadata),
    };
    return TEST_RUN("models/deepseek2", tests);
}
