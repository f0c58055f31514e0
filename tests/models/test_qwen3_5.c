/* test_qwen3_5.c - the forms in which checkpoints of the family come, each of which must give the
 * logits of the golden, and what of a config is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "support/compare.h"
#include "support/files.h"
#include "support/runs.h"

#define GOLDEN GOLDEN_PATH("qwen3_5")

/* The golden as two texts: its config, and the header of its weights. */
typedef struct source {
    test_folder folder;
    char *config, *file, *header;
    size_t n_config, n_file, n_header;
} source;

static void source_load(source *s)
{
    weft_error err = {WEFT_OK, ""};
    uint64_t length;
    test_folder_create(&s->folder);
    assert_ok(io_read_file(io_system(), mem_system(), GOLDEN "/config.json", 1 << 20, &s->config,
                           &s->n_config, &err),
              &err);
    assert_ok(io_read_file(io_system(), mem_system(), GOLDEN "/model.safetensors", 1 << 24,
                           &s->file, &s->n_file, &err),
              &err);
    memcpy(&length, s->file, sizeof length);
    s->n_header = (size_t)length;
    s->header = calloc(s->n_header + 1, 1);
    assert_non_null(s->header);
    memcpy(s->header, s->file + 8, s->n_header);
}

static void source_free(source *s)
{
    mem_free(mem_system(), s->config, s->n_config + 1);
    mem_free(mem_system(), s->file, s->n_file + 1);
    free(s->header);
    test_folder_remove(&s->folder);
}

/* Every occurrence of from replaced; the caller frees it. */
static char *replaced(const char *text, const char *from, const char *to)
{
    file_bytes out = {0};
    size_t n = 0;
    for (const char *at = strstr(text, from); at != NULL; at = strstr(text, from)) {
        file_bytes_add(&out, text, (size_t)(at - text));
        file_bytes_add_text(&out, to);
        text = at + strlen(from);
        n++;
    }
    if (n == 0) fail_msg("'%s' is not there", from);
    file_bytes_add(&out, text, strlen(text) + 1);
    return (char *)out.data;
}

/* Writes the golden's weights under another header; extra zeros lie behind its data. */
static void write_weights(source *s, const char *header, size_t extra)
{
    size_t n_data = s->n_file - 8 - s->n_header;
    char *data = calloc(n_data + extra, 1);
    assert_non_null(data);
    memcpy(data, s->file + 8 + s->n_header, n_data);
    file_bytes file = {0};
    safetensors_assemble(&file, strlen(header), header, strlen(header), data, n_data + extra);
    test_folder_write(&s->folder, "model.safetensors", file.data, file.n_bytes);
    file_bytes_free(&file);
    free(data);
}

/* The logits of the golden's prompt; the caller frees them. */
static float *logits_of(const char *path, size_t *n)
{
    size_t n_ids;
    int32_t *ids = run_read_tensor(GOLDEN "/golden.safetensors", "input_ids", &n_ids);
    weft_model *model = run_open_model(path);
    weft_engine_options options = {
        .struct_size = sizeof options, .act = WEFT_ACT_F32, .max_outputs = 128};
    weft_engine *engine = run_open_engine(model, &options);
    uint32_t n_vocab = run_n_vocab(model);
    run r = {.prompt = ids, .n_prompt = (uint32_t)n_ids, .max_new = 1, .want_prompt_logits = true};
    run_all(engine, n_vocab, &r, 1);
    *n = n_ids * n_vocab;
    float *logits = malloc(*n * sizeof *logits);
    assert_non_null(logits);
    memcpy(logits, r.prompt_logits, *n * sizeof *logits);
    run_free(&r);
    weft_engine_close(engine);
    weft_model_close(model);
    free(ids);
    return logits;
}

static void check_same_as_golden(const source *s)
{
    size_t n;
    size_t n_expected;
    float *logits = logits_of(s->folder.path, &n);
    float *expected = logits_of(GOLDEN, &n_expected);
    assert_int_equal(n, n_expected);
    assert_floats_identical(logits, expected, n, n / 80);
    free(logits);
    free(expected);
}

static void write_config(source *s, const char *config)
{
    test_folder_write(&s->folder, "config.json", config, strlen(config));
}

/* Behind a wrapper: the text part under another root and in text_config; an image tower and a draft
 * head, which are left out. */
static void test_wrapped(void **state)
{
    (void)state;
    source s;
    source_load(&s);
    char *renamed = replaced(s.header, "\"model.", "\"model.language_model.");
    char *end = strrchr(renamed, '}');
    assert_non_null(end);
    *end = '\0';
    size_t n_data = s.n_file - 8 - s.n_header;
    char header[32768];
    int n = snprintf(header, sizeof header,
                     "%s,\"model.visual.blocks.0.w\":{\"dtype\":\"BF16\",\"shape\":[4],"
                     "\"data_offsets\":[%zu,%zu]},\"mtp.norm.weight\":{\"dtype\":\"BF16\","
                     "\"shape\":[4],\"data_offsets\":[%zu,%zu]}}",
                     renamed, n_data, n_data + 8, n_data + 8, n_data + 16);
    assert_true(n > 0 && (size_t)n < sizeof header);
    write_weights(&s, header, 16);
    char config[8192];
    snprintf(config, sizeof config,
             "{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":false,\"text_config\":%s}",
             s.config);
    write_config(&s, config);
    check_same_as_golden(&s);
    free(renamed);
    source_free(&s);
}

/* Which layers attend, said by an interval; the turned part of a head beside rope settings. */
static void test_older_keys(void **state)
{
    (void)state;
    source s;
    source_load(&s);
    char *unlisted = replaced(s.config, "\"layer_types\"", "\"full_attention_interval\":4,\"was\"");
    char *config = replaced(unlisted, "\"rope_parameters\"", "\"rope_parameters_were\"");
    char *theta = replaced(config, "\"head_dim\"", "\"rope_theta\":10000.0,\"head_dim\"");
    write_config(&s, theta);
    write_weights(&s, s.header, 0);
    check_same_as_golden(&s);
    free(unlisted);
    free(config);
    free(theta);
    source_free(&s);
}

/* MLX's convolution says that norm weights are not offsets: the same file under that header is
 * another model. */
static void test_shape_of_the_convolution(void **state)
{
    (void)state;
    source s;
    size_t n;
    size_t n_expected;
    source_load(&s);
    char *header = replaced(s.header, "[128,1,4]", "[128,4,1]");
    write_config(&s, s.config);
    write_weights(&s, header, 0);
    float *logits = logits_of(s.folder.path, &n);
    float *expected = logits_of(GOLDEN, &n_expected);
    assert_int_equal(n, n_expected);
    double off = 0.0;
    for (size_t i = 0; i < n; i++) off += fabs((double)(logits[i] - expected[i]));
    assert_true(off > 1.0);
    free(logits);
    free(expected);
    free(header);
    source_free(&s);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        weft_status status;
        const char *message;
    } CASES[] = {
        {"\"silu\"", "\"gelu\"", WEFT_UNSUPPORTED,
         "config.json: hidden_act 'gelu' is not supported, expected silu"},
        {"\"hidden_act\"", "\"output_gate_type\":\"relu\",\"hidden_act\"", WEFT_UNSUPPORTED,
         "config.json: output_gate_type 'relu' is not supported, expected swish"},
        {"\"attention_bias\": false", "\"attention_bias\":true", WEFT_UNSUPPORTED,
         "config.json: attention with biases is not supported"},
        {"\"attention_bias\"", "\"attn_output_gate\":false,\"attention_bias\"", WEFT_UNSUPPORTED,
         "config.json: attention without output gates is not supported"},
        {"\"linear_num_value_heads\": 4", "\"linear_num_value_heads\":5", WEFT_FORMAT,
         "5 linear value heads are no multiple of 2 key heads"},
        {"\"linear_num_value_heads\": 4", "\"linear_num_value_heads\":4096", WEFT_FORMAT,
         "tensor 'model.layers.0.linear_attn.in_proj_qkv.weight' is [128, 64], expected [65600, "
         "64]"},
        {"\"linear_num_value_heads\": 4,\n  \"linear_value_head_dim\": 16",
         "\"linear_num_value_heads\":4096,\"linear_value_head_dim\":4096", WEFT_LIMIT,
         "a linear state of 4096 heads of 4096 by 16, at most 134217728 numbers"},
        {"\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\":17", WEFT_FORMAT,
         "linear_conv_kernel_dim is 17, expected 2 to 16"},
        {"\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\":5", WEFT_FORMAT,
         "tensor 'model.layers.0.linear_attn.conv1d.weight' is [128, 4], expected [128, 5]"},
        {"\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\":1.5", WEFT_FORMAT,
         "config.json: partial_rotary_factor is 1.5, expected 0 to 1"},
        {"\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\":0.01", WEFT_FORMAT,
         "config.json: 0.01 of heads of 32 is nothing"},
        {"\"full_attention\"", "\"sliding_attention\"", WEFT_UNSUPPORTED,
         "config.json: layer type 'sliding_attention' is not supported"},
        {"\"linear_attention\",\n    \"full_attention\"", "\"full_attention\"", WEFT_FORMAT,
         "config.json: layer_types has 3 entries for 4 layers"},
        {"\"full_attention\"", "\"linear_attention\"", WEFT_FORMAT,
         "tensor 'model.layers.3.linear_attn.in_proj_qkv.weight' is missing"},
        {"\"linear_key_head_dim\"", "\"x\"", WEFT_FORMAT, "config.json has no linear_key_head_dim"},
    };
    source s;
    source_load(&s);
    write_weights(&s, s.header, 0);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        weft_error err = {WEFT_OK, ""};
        weft_model *model = NULL;
        char *config = replaced(s.config, CASES[i].from, CASES[i].to);
        write_config(&s, config);
        assert_status(CASES[i].status, weft_model_open(s.folder.path, NULL, &model, &err), &err);
        assert_message(&err, CASES[i].message);
        assert_null(model);
        free(config);
    }
    source_free(&s);
}

/* A codec packs what attends; the states stay, and are counted. */
static void test_kv_of_a_hybrid(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    weft_model *model = run_open_model(GOLDEN);
    weft_kv_info dense = {.struct_size = sizeof dense};
    weft_kv_info packed = {.struct_size = sizeof packed};
    assert_ok(weft_model_kv(model, "bf16", &dense, &err), &err);
    assert_ok(weft_model_kv(model, "affine8g32", &packed, &err), &err);
    assert_int_equal(dense.bytes_per_token, 2 * 2 * 32 * 2);
    assert_int_equal(packed.bytes_per_token, 2 * 2 * (32 + 4));
    /* Three layers of 3 by 128, and of 4 matrices of 16 by 16. */
    assert_int_equal(dense.bytes_fixed, 3 * (3 * 128 + 4 * 16 * 16) * 4);
    assert_int_equal(packed.bytes_fixed, dense.bytes_fixed);
    assert_int_equal(packed.n_encoded, 1);
    assert_int_equal(packed.n_recurrent, 3);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_older_keys),
        cmocka_unit_test(test_shape_of_the_convolution),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_kv_of_a_hybrid),
    };
    return TEST_RUN("models/qwen3_5", tests);
}
