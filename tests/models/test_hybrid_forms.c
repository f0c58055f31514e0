/* test_hybrid_forms.c - hybrids in the forms that their files come in: experts one by one, in
 * stacks, gate and up in one; convolutions and norm weights as MLX has them. All are the same bits.
 * And values of configs that would be computed wrongly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "models/model.h"
#include "support/golden_copy.h"

enum { NAME_BYTES = 160 };

/* APART is what the goldens have; MLX has stacks, convolutions of [C, K, 1], and in Qwen's hybrids
 * norm weights that 1 was added to. */
typedef enum form { FORM_FUSED, FORM_STACKED, FORM_MLX } form;

static bool ends(const char *name, const char *ending)
{
    return str_ends(str_of(name), ending);
}

/* The projections of all experts of a layer, expert by expert; second NULL: one. first is the
 * tensor of expert 0. */
static void add_experts(safetensors_builder *b, const golden_copy *s, uint32_t n_experts,
                        const char *first, const char *second, const char *as)
{
    file_bytes bytes = {0};
    char name[NAME_BYTES];
    const char *from[2] = {first, second};
    const char *mark = strstr(first, "experts.0.");
    uint64_t dims[3] = {n_experts, 0, 0};
    assert_non_null(mark);
    for (uint32_t e = 0; e < n_experts; e++) {
        dims[1] = 0;
        for (int i = 0; i < 2 && from[i] != NULL; i++) {
            const char *own = strstr(from[i], "experts.0.") + strlen("experts.0.");
            snprintf(name, sizeof name, "%.*sexperts.%u.%s", (int)(mark - first), first, e, own);
            const tensor *t = golden_tensor(s, name);
            file_bytes_add(&bytes, t->planes[0], (size_t)t->plane_bytes[0]);
            dims[1] += t->n_rows;
            dims[2] = t->n_cols;
        }
    }
    snprintf(name, sizeof name, "%.*s%s", (int)(mark - first), first, as);
    safetensors_add(b, name, "BF16", dims, 3, bytes.data, bytes.n_bytes);
    file_bytes_free(&bytes);
}

static void add_expert(safetensors_builder *b, const golden_copy *s, uint32_t n_experts,
                       const char *name, form f)
{
    char other[NAME_BYTES];
    const char *own = strstr(name, "experts.0.");
    if (own == NULL) return;
    own += strlen("experts.0.");
    if (f != FORM_FUSED) {
        snprintf(other, sizeof other, "switch_mlp.%s", own);
        add_experts(b, s, n_experts, name, NULL, other);
    } else if (strncmp(own, "gate_proj", 9) == 0) {
        snprintf(other, sizeof other, "%.*sup_proj.weight", (int)(own - name), name);
        add_experts(b, s, n_experts, name, other, "experts.gate_up_proj");
    } else if (strncmp(own, "down_proj", 9) == 0) {
        add_experts(b, s, n_experts, name, NULL, "experts.down_proj");
    }
}

static void add_offset_norm(safetensors_builder *b, const tensor *t)
{
    float w[512];
    assert_true(t->n_cols <= COUNT_OF(w));
    t->encoding->decode_row(t, 0, w);
    for (uint64_t i = 0; i < t->n_cols; i++) w[i] += 1.0F;
    safetensors_add(b, t->name, "F32", t->dims, t->n_dims, w, (size_t)t->n_cols * sizeof w[0]);
}

static void add_tensor(safetensors_builder *b, const golden_copy *s, const llm *m, const tensor *t,
                       form f)
{
    bool conv = ends(t->name, "conv1d.weight") || ends(t->name, "conv.conv.weight");
    bool norm = ends(t->name, "norm.weight") && !ends(t->name, "linear_attn.norm.weight");
    if (strstr(t->name, ".experts.") != NULL) {
        add_expert(b, s, m->params.n_experts, t->name, f);
    } else if (f == FORM_MLX && conv) {
        const uint64_t dims[] = {t->dims[0], t->n_cols, 1};
        safetensors_add(b, t->name, "BF16", dims, 3, t->planes[0], (size_t)t->plane_bytes[0]);
    } else if (f == FORM_MLX && norm && m->params.norm_add != 0.0F) {
        add_offset_norm(b, t);
    } else {
        golden_add(b, t->name, t);
    }
}

static void check_form(const char *name, form f)
{
    golden_copy s;
    test_folder folder;
    safetensors_builder b;
    golden_copy_open(&s, name);
    weft_model *model = run_open_model(s.path);
    test_folder_create(&folder);
    safetensors_init(&b);
    for (uint32_t i = 0; i < s.w->n_tensors; i++)
        add_tensor(&b, &s, model->model, &s.w->tensors[i], f);
    safetensors_write(&b, &folder, "model.safetensors");
    safetensors_deinit(&b);
    golden_write_config(&s, &folder, NULL);
    run expected = golden_answer(s.path, WEFT_ACT_F32);
    run got = golden_answer(folder.path, WEFT_ACT_F32);
    run_assert_identical(&got, &expected, run_n_vocab(model));
    run_free(&got);
    run_free(&expected);
    weft_model_close(model);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

static void test_forms(void **state)
{
    (void)state;
    static const form FORMS[] = {FORM_FUSED, FORM_STACKED, FORM_MLX};
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        check_form("qwen3_5_moe", FORMS[i]);
        check_form("qwen3_next", FORMS[i]);
    }
    check_form("lfm2", FORM_MLX);
}

/* ---- what is refused ---- */

static const struct {
    const char *name, *from, *to;
    weft_status status;
    const char *message;
} CASES[] = {
    {"lfm2", "\"conv_bias\": false", "\"conv_bias\": true", WEFT_UNSUPPORTED,
     "conv_bias is not supported for lfm2"},
    {"lfm2", "\"conv\"", "\"recurrent\"", WEFT_UNSUPPORTED, "layer type 'recurrent' is not"},
    {"lfm2", "\"conv\",\n", "", WEFT_FORMAT, "layer_types has 3 entries for 4 layers"},
    {"lfm2", "\"block_multiple_of\": 256", "\"block_multiple_of\": 0", WEFT_FORMAT,
     "an MLP of width 128 in multiples of 0 is not possible"},
    {"lfm2", "\"conv_L_cache\": 3", "\"conv_L_cache\": 1", WEFT_FORMAT,
     "conv_L_cache is 1, expected 2 to"},
    {"lfm2", "\"conv_L_cache\": 3", "\"conv_L_cache\": 4", WEFT_FORMAT, "conv.conv.weight' is"},
    {"qwen3_next", "\"silu\"", "\"gelu\"", WEFT_UNSUPPORTED, "hidden_act 'gelu' is not supported"},
    {"qwen3_next", "\"attention_bias\": false", "\"attention_bias\": true", WEFT_UNSUPPORTED,
     "attention with biases is not supported"},
    {"qwen3_next", "\"mlp_only_layers\": []", "\"mlp_only_layers\": [4]", WEFT_FORMAT,
     "mlp_only_layers names layer 4 of 4"},
    {"qwen3_next", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 0", WEFT_FORMAT,
     "decoder_sparse_step is 0, expected 1"},
    {"qwen3_next", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9", WEFT_FORMAT,
     "9 of 8 experts"},
    {"qwen3_next", "\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 3", WEFT_FORMAT,
     "3 linear value heads are no multiple of 2 key heads"},
    {"qwen3_next", "\"linear_value_head_dim\"", "\"value_head_dim\"", WEFT_FORMAT,
     "config.json has no linear_value_head_dim"},
    {"qwen3_next", "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\"", WEFT_UNSUPPORTED,
     "rope type 'dynamic' is not supported"},
    {"qwen3_next", "\"full_attention\"", "\"sliding_attention\"", WEFT_UNSUPPORTED,
     "layer type 'sliding_attention' is not"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        golden_copy s;
        weft_error err = {WEFT_OK, ""};
        golden_copy_open(&s, CASES[i].name);
        golden_change change = {.config = {CASES[i].from, CASES[i].to}};
        weft_status status = golden_open_changed(&s, &change, &err);
        if (status != CASES[i].status || strstr(err.message, CASES[i].message) == NULL)
            fail_msg("%s with %s: '%s'", CASES[i].name, CASES[i].to, err.message);
        golden_copy_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused),
    };
    return TEST_RUN("models/hybrid_forms", tests);
}
