/* test_config_kinds.c - a value of the wrong kind under a key that decides what is computed, and
 * text that is read in both directions, are refused: read as if they were not there, they would
 * open another model without a word. */
#include <string.h>

#include "base/assert.h"
#include "support/golden_copy.h"

typedef struct refusal {
    const char *golden;
    const char *config[2];
    weft_status status;
    const char *says;
} refusal;

static void check_refusal(const refusal *r)
{
    golden_copy s;
    weft_error err = {0};
    golden_copy_open(&s, r->golden);
    weft_status status =
        golden_open_changed(&s, &(golden_change){.config = {r->config[0], r->config[1]}}, &err);
    golden_copy_close(&s);
    if (status != r->status || strstr(err.message, r->says) == NULL)
        fail_msg("%s with %s: %s", r->golden, r->config[1], err.message);
}

static void check_refusals(const refusal *r, size_t n)
{
    for (size_t i = 0; i < n; i++) check_refusal(&r[i]);
}

/* Each was taken for a default before. */
static void test_kinds(void **state)
{
    (void)state;
    static const refusal ROWS[] = {
        {"llama3-rope",
         {"\"rope_type\": \"llama3\"", "\"rope_type\": 7"},
         WEFT_FORMAT,
         "'rope_type' is integer, expected text"},
        {"llama3-rope",
         {"\"rope_parameters\": {", "\"rope_parameters\": 3, \"other\": {"},
         WEFT_FORMAT,
         "'rope_parameters' is integer, expected object"},
        {"gemma3",
         {"\"full_attention\": {", "\"full_attention\": [], \"other\": {"},
         WEFT_FORMAT,
         "'full_attention' is array, expected object"},
        {"gemma4-dense",
         {"\"rope_parameters\": {", "\"rope_parameters\": \"\", \"other\": {"},
         WEFT_FORMAT,
         "'rope_parameters' is text, expected object"},
        {"exaone4",
         {"\"layer_types\": [", "\"layer_types\": {}, \"other\": ["},
         WEFT_FORMAT,
         "'layer_types' is object, expected array"},
        {"qwen3_next",
         {"\"layer_types\": [", "\"layer_types\": 2, \"other\": ["},
         WEFT_FORMAT,
         "'layer_types' is integer, expected array"},
        {"lfm2",
         {"\"full_attn_idxs\": null", "\"full_attn_idxs\": 1"},
         WEFT_FORMAT,
         "'full_attn_idxs' is integer, expected array"},
        {"qwen2_moe",
         {"\"mlp_only_layers\": []", "\"mlp_only_layers\": \"0\""},
         WEFT_FORMAT,
         "'mlp_only_layers' is text, expected array"},
        {"phi",
         {"\"qk_layernorm\": false", "\"qk_layernorm\": \"yes\""},
         WEFT_FORMAT,
         "'qk_layernorm' is text, expected boolean"},
        {"llama",
         {"\"use_cache\"", "\"quantization_config\": \"fp8\", \"use_cache\""},
         WEFT_FORMAT,
         "'quantization_config' is text, expected object"},
        {"llama",
         {"\"use_cache\"", "\"quantization_config\": {\"quant_method\": 8}, \"use_cache\""},
         WEFT_FORMAT,
         "'quant_method' is integer, expected text"},
        {"llama",
         {"\"use_cache\"",
          "\"quantization_config\": {\"quant_method\": \"gptq\", \"desc_act\": 1}, \"use_cache\""},
         WEFT_FORMAT,
         "'desc_act' is integer, expected boolean"},
        {"llama", {"\"eos_token_id\": 2", "\"eos_token_id\": [1.5]"}, WEFT_FORMAT, "1.5"},
    };
    check_refusals(ROWS, COUNT_OF(ROWS));
}

/* Null is not there. */
static void test_nulls(void **state)
{
    (void)state;
    static const refusal ROWS[] = {
        {"llama", {"\"use_cache\"", "\"layer_types\": null, \"use_cache\""}, WEFT_OK, ""},
        {"llama", {"\"use_cache\"", "\"quantization_config\": null, \"use_cache\""}, WEFT_OK, ""},
        {"gemma", {"\"use_bidirectional_attention\": null", "\"is_causal\": true"}, WEFT_OK, ""},
    };
    check_refusals(ROWS, COUNT_OF(ROWS));
}

static void test_both_directions(void **state)
{
    (void)state;
    static const char *const GEMMAS[] = {"gemma", "gemma2", "gemma3"};
    static const char NONE[] = "\"use_bidirectional_attention\": null";
    for (size_t i = 0; i < COUNT_OF(GEMMAS); i++) {
        check_refusal(&(refusal){GEMMAS[i],
                                 {i == 2 ? "\"use_bidirectional_attention\": false" : NONE,
                                  "\"use_bidirectional_attention\": true"},
                                 WEFT_UNSUPPORTED,
                                 "use_bidirectional_attention is not supported"});
        check_refusal(&(refusal){GEMMAS[i],
                                 {i == 2 ? "\"use_bidirectional_attention\": false" : NONE,
                                  "\"use_bidirectional_attention\": 1"},
                                 WEFT_FORMAT,
                                 "use_bidirectional_attention"});
    }
    static const char *const OTHERS[] = {"llama", "qwen3", "qwen3_next", "deepseek_v3", "mistral"};
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        check_refusal(&(refusal){OTHERS[i],
                                 {"\"use_cache\"", "\"is_causal\": false, \"use_cache\""},
                                 WEFT_UNSUPPORTED,
                                 "is_causal false is not supported"});
    }
}

static void count_line(void *user, weft_log_level level, const char *message)
{
    (void)level;
    (void)message;
    ++*(int *)user;
}

/* What fails says one sentence: no warning that its images cannot be read goes before. */
static void test_one_sentence(void **state)
{
    (void)state;
    int n_lines = 0;
    weft_log log = {&n_lines, count_line};
    golden_copy s;
    weft_error err = {0};
    golden_copy_open(&s, "gemma4-vision");
    s.env.log = &log;
    golden_change change = {.config = {"\"vocab_size\": 128", "\"vocab_size\": 3"}};
    assert_int_equal(golden_open_changed(&s, &change, &err), WEFT_FORMAT);
    assert_int_equal(n_lines, 0);
    change = (golden_change){.config = {"\"patch_size\"", "\"patch_size\": 0, \"other\""}};
    assert_ok(golden_open_changed(&s, &change, &err), &err);
    assert_int_equal(n_lines, 1);
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_nulls),
                                       cmocka_unit_test(test_both_directions),
                                       cmocka_unit_test(test_one_sentence)};
    return TEST_RUN("models/config_kinds", tests);
}
