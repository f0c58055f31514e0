/* test_indexed.c - models whose layers attend to positions that an index chooses: the ways in which
 * a config says which layers choose, either rotation, what is refused, and what a token costs. All
 * forms are written from the golden of glm_moe_dsa that has layers which take another's choice. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "support/compare.h"
#include "support/golden_copy.h"

#define NAME "glm_moe_dsa-shared"
#define LIST                                                                                       \
    "\"indexer_types\": [\n    \"full\",\n    \"shared\",\n    \"shared\",\n    \"full\"\n  ]"

enum { VOCAB = 128, ROTATED = 16, INDEX_DIM = 24, LAYERS = 4, PROMPT = 60 };

/* To a prompt of which later tokens have a choice: 12 of 60. */
static run answer(const char *path)
{
    int32_t *ids = run_random_ids(PROMPT, VOCAB, 5);
    weft_model *model = run_open_model(path);
    weft_engine_options options = {
        .struct_size = sizeof options, .act = WEFT_ACT_F32, .max_outputs = PROMPT, .n_threads = 2};
    weft_engine *engine = run_open_engine(model, &options);
    run r = {.prompt = ids, .n_prompt = PROMPT, .max_new = 5, .want_prompt_logits = true};
    run_all(engine, VOCAB, &r, 1);
    r.prompt = NULL;
    free(ids);
    weft_engine_close(engine);
    weft_model_close(model);
    return r;
}

static run answer_of(const golden_copy *s, const char *from, const char *to)
{
    test_folder folder;
    golden_change change = {.config = {from, to}};
    golden_write_changed(s, &change, &folder);
    run r = answer(folder.path);
    test_folder_remove(&folder);
    return r;
}

static void test_which_layers_choose(void **state)
{
    (void)state;
    static const char *const FORMS[] = {
        "\"index_topk_pattern\": \"FSSF\"",
        "\"index_topk_pattern\": [\"full\", \"shared\", \"shared\", \"full\"]",
        "\"index_topk_freq\": 3, \"index_skip_topk_offset\": 1",
        "\"indexer_types\": null, \"index_topk_pattern\": \"FSSF\"",
    };
    golden_copy s;
    golden_copy_open(&s, NAME);
    run list = answer(s.path);
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        run r = answer_of(&s, LIST, FORMS[i]);
        run_assert_identical(&r, &list, VOCAB);
        run_free(&r);
    }
    /* A list is stronger than what else may be there. */
    run r = answer_of(&s, LIST, LIST ", \"index_topk_pattern\": \"FFFF\"");
    run_assert_identical(&r, &list, VOCAB);
    run_free(&r);
    run_free(&list);
    golden_copy_close(&s);
}

/* Rows of each head in another order: pairs that stand side by side come to stand apart. */
static void put_halves(safetensors_builder *b, const char *name, const tensor *t)
{
    size_t n_cols = (size_t)t->n_cols;
    size_t n_rows = t->n_rows == 1 ? n_cols : (size_t)t->n_rows;
    size_t width = t->n_rows == 1 ? 1 : n_cols;
    const uint16_t *from = (const uint16_t *)(const void *)t->planes[0];
    uint16_t *to = malloc(n_rows * width * sizeof *to);
    assert_non_null(to);
    for (size_t row = 0; row < n_rows; row++) {
        size_t head = row / INDEX_DIM * INDEX_DIM;
        size_t i = row % INDEX_DIM;
        size_t other = i < ROTATED ? i / 2 + i % 2 * (ROTATED / 2) : i;
        memcpy(to + (head + other) * width, from + row * width, width * sizeof *to);
    }
    tensor turned = *t;
    turned.planes[0] = (const unsigned char *)to;
    golden_add(b, name, &turned);
    free(to);
}

static run turned_answer(const golden_copy *s, const char *from, const char *to)
{
    test_folder folder;
    safetensors_builder b;
    test_folder_create(&folder);
    safetensors_init(&b);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        const tensor *t = &s->w->tensors[i];
        bool index = strstr(t->name, ".indexer.") != NULL && strstr(t->name, "weights_") == NULL;
        if (index) {
            put_halves(&b, t->name, t);
        } else {
            golden_add(&b, t->name, t);
        }
    }
    safetensors_write(&b, &folder, "model.safetensors");
    safetensors_deinit(&b);
    golden_write_config(s, &folder, (const char *const[2]){from, to});
    run r = answer(folder.path);
    test_folder_remove(&folder);
    return r;
}

/* The same numbers, summed in another order. */
static void assert_near(const run *a, const run *b)
{
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    size_t n = (size_t)a->n_prompt * VOCAB;
    assert_true(compare_relative_rms(a->prompt_logits, b->prompt_logits, n) < 1e-5);
}

static void test_pairs_of_either_kind(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    run pairs = answer(s.path);
    run said =
        turned_answer(&s, "\"index_topk\"", "\"indexer_rope_interleave\": false, \"index_topk\"");
    run other = turned_answer(&s, "\"glm_moe_dsa\"", "\"deepseek_v32\"");
    run unturned = answer_of(&s, "\"glm_moe_dsa\"", "\"deepseek_v32\"");
    assert_near(&said, &pairs);
    run_assert_identical(&said, &other, VOCAB);
    size_t n = (size_t)pairs.n_prompt * VOCAB;
    assert_memory_not_equal(unturned.prompt_logits, pairs.prompt_logits, n * sizeof(float));
    run_free(&pairs);
    run_free(&said);
    run_free(&other);
    run_free(&unturned);
    golden_copy_close(&s);
}

/* ---- what is refused ---- */

static const struct {
    const char *without, *more, *config[2];
    weft_status status;
    const char *message;
} CASES[] = {
    {NULL, NULL, {NULL, NULL}, WEFT_OK, ""},
    /* A layer for drafting has an index, too. */
    {NULL,
     "model.layers.4.self_attn.indexer.wk.weight",
     {"\"index_topk\"", "\"num_nextn_predict_layers\": 1, \"index_topk\""},
     WEFT_OK,
     ""},
    {NULL,
     "model.layers.1.self_attn.indexer.wk.weight",
     {NULL, NULL},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.1.self_attn.indexer.wk.weight' has no place"},
    {"model.layers.3.self_attn.indexer.k_norm.bias",
     NULL,
     {NULL, NULL},
     WEFT_FORMAT,
     "tensor 'model.layers.3.self_attn.indexer.k_norm.bias' is missing"},
    {NULL,
     NULL,
     {"\"full\",\n    \"shared\"", "\"full\",\n    \"full\""},
     WEFT_FORMAT,
     "tensor 'model.layers.1.self_attn.indexer.wq_b.weight' is missing"},
    {NULL,
     NULL,
     {"\"full\",\n    \"shared\"", "\"shared\",\n    \"full\""},
     WEFT_FORMAT,
     "layer 0 has no index, and none before it"},
    {NULL,
     NULL,
     {"\"full\",\n    \"shared\"", "\"full\",\n    \"some\""},
     WEFT_UNSUPPORTED,
     "indexer_types 'some' of layer 1 is not supported"},
    {NULL,
     NULL,
     {LIST, "\"indexer_types\": [\"full\"]"},
     WEFT_FORMAT,
     "indexer_types has 1 entries for 4 layers"},
    {NULL, NULL, {LIST, "\"indexer_types\": \"full\""}, WEFT_FORMAT, "indexer_types has"},
    {NULL,
     NULL,
     {LIST, "\"index_topk_pattern\": \"FSS\""},
     WEFT_FORMAT,
     "index_topk_pattern 'FSS', expected F or S for each of 4 layers"},
    {NULL, NULL, {LIST, "\"index_topk_pattern\": \"FSSX\""}, WEFT_FORMAT, "index_topk_pattern"},
    {NULL, NULL, {LIST, "\"index_topk_freq\": 1.5"}, WEFT_FORMAT, "index_topk_freq 1.5"},
    {NULL, NULL, {LIST, "\"index_topk_freq\": -1"}, WEFT_FORMAT, "index_topk_freq -1"},
    {NULL, NULL, {LIST, "\"index_skip_topk_offset\": 1e9"}, WEFT_FORMAT, "index_skip_topk_offset"},
    {NULL,
     NULL,
     {"\"indexed_attention\"", "\"full_attention\""},
     WEFT_UNSUPPORTED,
     "layer_types 'full_attention' of layer 0 is not supported"},
    {NULL,
     NULL,
     {"\"sparse\"", "\"wide\""},
     WEFT_UNSUPPORTED,
     "mlp_layer_types 'wide' of layer 1 is not supported"},
    {NULL,
     NULL,
     {"\"sparse\"", "\"dense\""},
     WEFT_FORMAT,
     "tensor 'model.layers.1.mlp.gate_proj.weight' is missing"},
    {NULL,
     NULL,
     {"\"mlp_bias\": false", "\"mlp_bias\": true"},
     WEFT_UNSUPPORTED,
     "mlp_bias is not supported"},
    {NULL,
     NULL,
     {"\"index_topk\": 12", "\"index_topk\": 0"},
     WEFT_FORMAT,
     "index_topk is 0, expected 1 to"},
    {NULL, NULL, {"\"index_topk\": 12,", ""}, WEFT_FORMAT, "index_topk 0 and q_lora_rank 40"},
    {NULL,
     NULL,
     {"\"index_head_dim\": 24", "\"index_head_dim\": 14"},
     WEFT_FORMAT,
     "heads of 16 columns at least"},
    {NULL,
     NULL,
     {"\"index_head_dim\": 24", "\"index_head_dim\": 32"},
     WEFT_FORMAT,
     "is [384, 40], expected [512, 40]"},
    {NULL, NULL, {"\"q_lora_rank\": 40", "\"q_lora_rank\": null"}, WEFT_FORMAT, "q_lora_rank 0"},
};

static void test_what_is_refused(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        weft_error err;
        golden_change change = {CASES[i].without,
                                CASES[i].more,
                                "model.norm.weight",
                                {CASES[i].config[0], CASES[i].config[1]}};
        weft_status status = golden_open_changed(&s, &change, &err);
        assert_status(CASES[i].status, status, &err);
        if (status != WEFT_OK) assert_message(&err, CASES[i].message);
    }
    golden_copy_close(&s);
}

/* ---- what a token costs: a latent a layer, and a key where there is an index ---- */

static void check_cost(const weft_model *model, const char *spec, const char *index,
                       uint64_t latent_bytes, uint64_t index_bytes)
{
    weft_kv_info all = {.struct_size = sizeof all};
    weft_error err = {0};
    assert_ok(weft_model_kv(model, spec, &all, &err), &err);
    assert_int_equal(all.bytes_per_token, LAYERS * latent_bytes + 2 * index_bytes);
    assert_int_equal(all.bytes_fixed, 0);
    assert_int_equal(all.n_encoded, LAYERS);
    for (uint32_t i = 0; i < LAYERS; i++) {
        weft_kv_layer_info of = {.struct_size = sizeof of};
        bool chooses = i % 3 == 0;
        assert_ok(weft_model_kv_layer(model, spec, i, &of, &err), &err);
        assert_string_equal(of.layout, "latent");
        assert_string_equal(of.index, chooses ? index : "");
        assert_int_equal(of.bytes_per_token, latent_bytes + (chooses ? index_bytes : 0));
    }
    weft_kv_layer_info none = {.struct_size = sizeof none};
    assert_status(WEFT_ARGUMENT, weft_model_kv_layer(model, spec, LAYERS, &none, &err), &err);
}

static void test_what_a_token_costs(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH(NAME));
    check_cost(model, "bf16", "bf16", 2 * 48, 2 * INDEX_DIM);
    check_cost(model, "affine8g32", "bf16", 32 + 4 + 2 * 16, 2 * INDEX_DIM);
    check_cost(model, "affine8g32,index=affine8g32", "affine8g32", 32 + 4 + 2 * 16, INDEX_DIM + 4);
    check_cost(model, "f16,index=tk4", "tk4", 2 * 48, INDEX_DIM / 2 + 4);
    weft_kv_info info = {.struct_size = sizeof info};
    weft_error err = {0};
    assert_status(WEFT_UNSUPPORTED, weft_model_kv(model, "index=q8_0", &info, &err), &err);
    assert_message(&err, "kv codec 'q8_0': layer 0 has heads of 24, not a multiple of 32");
    assert_status(WEFT_ARGUMENT, weft_model_kv(model, "4=f16", &info, &err), &err);
    weft_model_close(model);
    model = run_open_model(GOLDEN_PATH("deepseek_v3"));
    assert_status(WEFT_UNSUPPORTED, weft_model_kv(model, "index=f16", &info, &err), &err);
    assert_message(&err, "kv codec 'index=f16': none of 4 layers has an index");
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_layers_choose),
        cmocka_unit_test(test_pairs_of_either_kind),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_a_token_costs),
    };
    return TEST_RUN("models/indexed", tests);
}
