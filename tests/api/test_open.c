/* test_open.c - what a user gets to read when a model cannot be opened or a call is wrong: the
 * thing, and both numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "support/files.h"
#include "support/runs.h"

#define LLAMA GOLDEN_PATH("llama")

/* A copy of a golden with its config, or its weights, changed. */
typedef struct copy {
    test_folder folder;
    char *config;
    char *weights;
    size_t n_config, n_weights;
} copy;

static void copy_load(copy *c)
{
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&c->folder);
    assert_ok(io_read_file(io_system(), mem_system(), LLAMA "/config.json", 1 << 20, &c->config,
                           &c->n_config, &err),
              &err);
    assert_ok(io_read_file(io_system(), mem_system(), LLAMA "/model.safetensors", 1 << 24,
                           &c->weights, &c->n_weights, &err),
              &err);
}

static void copy_free(copy *c)
{
    mem_free(mem_system(), c->config, c->n_config + 1);
    mem_free(mem_system(), c->weights, c->n_weights + 1);
    test_folder_remove(&c->folder);
}

/* Replaces text of the same or another length in the config. */
static void write_config(copy *c, const char *from, const char *to)
{
    char text[8192];
    const char *at = from == NULL ? NULL : strstr(c->config, from);
    if (from != NULL) assert_non_null(at);
    if (at == NULL) {
        test_folder_write(&c->folder, "config.json", c->config, c->n_config);
        return;
    }
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - c->config), c->config, to,
                     at + strlen(from));
    test_folder_write(&c->folder, "config.json", text, (size_t)n);
}

static void expect(const char *path, weft_status status, const char *part)
{
    weft_error err = {WEFT_OK, ""};
    weft_model *model = (weft_model *)(uintptr_t)1;
    assert_status(status, weft_model_open(path, NULL, &model, &err), &err);
    assert_message(&err, part);
    assert_null(model);
    assert_null(strchr(err.message, '\n'));
}

static void test_configs(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        weft_status status;
        const char *part;
    } rows[] = {
        {"\"model_type\": \"llama\"", "\"model_type\": \"lemma\"", WEFT_UNSUPPORTED,
         "architecture 'lemma' is not supported"},
        {"\"model_type\": \"llama\",", "", WEFT_FORMAT, "config.json has no model_type"},
        {"\"hidden_size\": 64", "\"hidden_size\": 65", WEFT_FORMAT,
         "tensor 'model.embed_tokens.weight' is [320, 64], expected [320, 65]"},
        {"\"hidden_size\": 64", "\"hidden_size\": \"64\"", WEFT_FORMAT,
         "'hidden_size' is text, expected a number"},
        {"\"hidden_size\": 64", "\"hidden_size\": -64", WEFT_FORMAT,
         "hidden_size is -64, expected 1 to"},
        {"\"hidden_size\": 64", "\"hidden_size\": 64.5", WEFT_FORMAT, "hidden_size is 64.5"},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5", WEFT_FORMAT,
         "tensor 'model.layers.4."},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 3", WEFT_UNSUPPORTED,
         "has no place in architecture llama"},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 100000", WEFT_FORMAT,
         "num_hidden_layers is 100000"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", WEFT_FORMAT,
         "4 heads are not a multiple of 3 key heads"},
        {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"", WEFT_UNSUPPORTED,
         "hidden_act 'relu' is not supported"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"spiral\"", WEFT_UNSUPPORTED,
         "rope type 'spiral' is not supported"},
        {"\"attention_bias\": false", "\"attention_bias\": true", WEFT_FORMAT,
         "q_proj.bias' is missing"},
        {"\"use_cache\": true", "\"quantization_config\": {\"quant_method\": \"eetq\"}",
         WEFT_UNSUPPORTED, "quantization method 'eetq'"},
        {"\"tie_word_embeddings\": false", "\"sliding_window\": 64", WEFT_UNSUPPORTED,
         "a sliding window of 64 without layer types"},
        {"\"rope_type\": \"default\"", "\"factor\": 8.0", WEFT_UNSUPPORTED,
         "rope factor 8 comes without a rope type"},
        {"\"rope_theta\": 10000.0", "\"rope_theta\": \"1e4\"", WEFT_FORMAT,
         "'rope_theta' is text, expected a number"},
        {"{", "[", WEFT_FORMAT, "config.json"},
    };
    copy c;
    copy_load(&c);
    test_folder_write(&c.folder, "model.safetensors", c.weights, c.n_weights);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_config(&c, rows[i].from, rows[i].to);
        expect(c.folder.path, rows[i].status, rows[i].part);
    }
    copy_free(&c);
}

static void test_files(void **state)
{
    (void)state;
    copy c;
    copy_load(&c);
    expect(test_folder_path(&c.folder, "nothing"), WEFT_IO, "nothing");
    test_folder_write(&c.folder, "model.safetensors", c.weights, c.n_weights);
    expect(c.folder.path, WEFT_IO, "config.json");
    write_config(&c, NULL, NULL);
    static const size_t CUTS[] = {1, 4096, 300000};
    for (size_t i = 0; i < 3; i++) {
        test_folder_write(&c.folder, "model.safetensors", c.weights, c.n_weights - CUTS[i]);
        expect(c.folder.path, WEFT_FORMAT, "model.safetensors");
    }
    test_folder_write(&c.folder, "model.safetensors", c.weights, 5);
    expect(c.folder.path, WEFT_FORMAT, "model.safetensors");
    expect(WEFT_SOURCE_DIR "/LICENSE", WEFT_FORMAT, "LICENSE");
    weft_error err = {WEFT_OK, ""};
    weft_model *model;
    assert_status(WEFT_ARGUMENT, weft_model_open("", NULL, &model, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_model_open(NULL, NULL, &model, &err), &err);
    copy_free(&c);
}

static void test_without_tokenizer(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    weft_model *model = run_open_model(LLAMA);
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, &err), &err);
    assert_false(info.has_tokenizer);
    assert_false(info.has_template);
    assert_string_equal(info.family, "llama");
    assert_string_equal(info.format, "safetensors");
    assert_int_equal(info.n_layers, 4);
    int32_t ids[4];
    size_t n;
    assert_status(WEFT_UNSUPPORTED, weft_tokenize(model, "a", 1, 0, ids, 4, &n, &err), &err);
    assert_message(&err, "the model has no tokenizer");
    char text[16];
    assert_status(WEFT_UNSUPPORTED,
                  weft_chat_render(model, "[]", NULL, 0, text, sizeof text, &n, &err), &err);
    assert_message(&err, "the model has no chat template");
    weft_kv_info kv = {.struct_size = sizeof kv};
    assert_ok(weft_model_kv(model, "bf16", &kv, &err), &err);
    assert_int_equal(kv.bytes_per_token, 4 * 2 * 16 * 2 * 2);
    assert_status(WEFT_ARGUMENT, weft_model_kv(model, "turbo-k3v3", &kv, &err), &err);
    assert_message(&err, "kv codec 'turbo-k3v3': key bits 3, expected 2, 4, 5 or 8");
    /* Four layers' two heads of 16: K 16 + 4, V 6 + 2. */
    assert_ok(weft_model_kv(model, "turbo-k8v3", &kv, &err), &err);
    assert_int_equal(kv.bytes_per_token, 4 * 2 * (20 + 8));
    assert_status(WEFT_UNSUPPORTED, weft_model_kv(model, "q8_0", &kv, &err), &err);
    assert_message(&err, "kv codec 'q8_0': layer 0 has heads of 16, not a multiple of 32");
    weft_model_close(model);
}

/* What the checkpoint says of sampling; a repetition penalty also where it does not sample. */
static void test_sampling_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float temperature, top_p, min_p, typical_p, repetition_penalty;
        uint32_t top_k;
        const char *part; /* NULL: fine */
    } rows[] = {
        {"{}", 0.0F, 1.0F, 0.0F, 1.0F, 1.0F, 0, NULL},
        {"{\"repetition_penalty\":1.05,\"temperature\":0.5}", 0.0F, 1.0F, 0.0F, 1.0F, 1.05F, 0,
         NULL},
        {"{\"do_sample\":true}", 1.0F, 1.0F, 0.0F, 1.0F, 1.0F, 50, NULL},
        {"{\"do_sample\":true,\"temperature\":0.5,\"top_p\":0.9,\"top_k\":7,\"min_p\":0.1,"
         "\"typical_p\":0.8,\"repetition_penalty\":1.2}",
         0.5F, 0.9F, 0.1F, 0.8F, 1.2F, 7, NULL},
        {.text = "{\"repetition_penalty\":0}", .part = "repetition_penalty is integer 0"},
        {.text = "{\"repetition_penalty\":\"x\"}", .part = "repetition_penalty is "},
        {.text = "{\"do_sample\":true,\"typical_p\":2}", .part = "typical_p is "},
    };
    copy c;
    copy_load(&c);
    write_config(&c, NULL, NULL);
    test_folder_write(&c.folder, "model.safetensors", c.weights, c.n_weights);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_folder_write(&c.folder, "generation_config.json", rows[i].text, strlen(rows[i].text));
        if (rows[i].part != NULL) {
            expect(c.folder.path, WEFT_FORMAT, rows[i].part);
            continue;
        }
        weft_model *model = run_open_model(c.folder.path);
        weft_model_info info = {.struct_size = sizeof info};
        assert_ok(weft_model_get_info(model, &info, NULL), NULL);
        assert_true(info.temperature == rows[i].temperature && info.top_p == rows[i].top_p);
        assert_true(info.min_p == rows[i].min_p && info.typical_p == rows[i].typical_p);
        assert_true(info.repetition_penalty == rows[i].repetition_penalty);
        assert_int_equal(info.top_k, rows[i].top_k);
        weft_model_close(model);
    }
    copy_free(&c);
}

static void test_structs(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    struct {
        weft_model_options options;
        unsigned char tail[8];
    } longer = {.options = {.struct_size = sizeof longer}};
    weft_model *model;
    assert_ok(weft_model_open(LLAMA, &longer.options, &model, &err), &err);
    weft_model_close(model);
    longer.tail[3] = 1;
    assert_status(WEFT_ARGUMENT, weft_model_open(LLAMA, &longer.options, &model, &err), &err);
    assert_message(&err, "weft_model_options: byte 35 is set, this version knows 32");
    longer.options.struct_size = 3;
    assert_status(WEFT_ARGUMENT, weft_model_open(LLAMA, &longer.options, &model, &err), &err);
    model = run_open_model(LLAMA);
    struct {
        weft_model_info info;
        uint64_t tail;
    } wide = {.info = {.struct_size = sizeof wide}, .tail = 7};
    assert_ok(weft_model_get_info(model, &wide.info, &err), &err);
    assert_int_equal(wide.tail, 0);
    assert_int_equal(wide.info.n_vocab, 320);
    weft_model_close(model);
    assert_string_equal(weft_version(), "0.1.0");
    assert_string_equal(weft_status_name(WEFT_LIMIT), "LIMIT");
    assert_string_equal(weft_status_name((weft_status)77), "UNKNOWN");
}

static void test_engine_options(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    weft_model *model = run_open_model(LLAMA);
    static const struct {
        weft_engine_options o;
        weft_status status;
        const char *part;
    } rows[] = {
        {{.backend = "gpu"}, WEFT_ARGUMENT, "unknown backend 'gpu', expected cpu or ref"},
        {{.isa = "neon"}, WEFT_ARGUMENT, "unknown instruction set 'neon'"},
        {{.backend = "ref", .isa = "avx2"}, WEFT_ARGUMENT, "backend ref has no instruction set"},
        {{.kv = "int3"}, WEFT_ARGUMENT, "unknown kv codec 'int3'"},
        {{.kv = "end=5,bf16"}, WEFT_UNSUPPORTED, "'end=5' is not supported"},
        {{.act = (weft_act)9}, WEFT_ARGUMENT, "act is 9"},
        {{.context = 513}, WEFT_ARGUMENT, "context is 513, expected at most 512"},
        {{.n_threads = 1000}, WEFT_ARGUMENT, "n_threads is 1000"},
        {{.max_sequences = 100000}, WEFT_ARGUMENT, "max_sequences is 100000"},
        {{.max_sequences = 4, .max_outputs = 3},
         WEFT_ARGUMENT,
         "max_outputs is 3, less than max_sequences, 4"},
        {{.chunk_tokens = 1 << 20, .context = 512}, WEFT_OK, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_engine_options o = rows[i].o;
        o.struct_size = sizeof o;
        weft_engine *engine;
        assert_status(rows[i].status, weft_engine_open(model, &o, &engine, &err), &err);
        if (rows[i].part != NULL) assert_message(&err, rows[i].part);
        weft_engine_close(engine);
    }
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs),           cmocka_unit_test(test_files),
        cmocka_unit_test(test_without_tokenizer), cmocka_unit_test(test_structs),
        cmocka_unit_test(test_engine_options),    cmocka_unit_test(test_sampling_defaults),
    };
    return TEST_RUN("api/open", tests);
}
