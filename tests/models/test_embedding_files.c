/* test_embedding_files.c - sentence-transformers' files beside a model, whole, broken and hostile:
 * what is supported is taken, what is not is kept for whoever asks, and the model opens all the
 * same. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "models/model.h"
#include "support/fault.h"
#include "support/golden_copy.h"

#define MODULE(i, path, type)                                                                      \
    "{\"idx\":" #i ",\"name\":\"" #i "\",\"path\":\"" path "\",\"type\":\"sentence_transformers."  \
    "models." type "\"}"
#define TRANSFORMER MODULE(0, "", "Transformer")
#define POOLING MODULE(1, "1_Pooling", "Pooling")
#define NORMALIZE MODULE(2, "2_Normalize", "Normalize")
#define WIDTH "\"word_embedding_dimension\":48"

/* modules, pooling: texts of the files; NULL: not there. message: of the refusal; NULL: none. */
typedef struct file_case {
    const char *modules, *pooling;
    weft_pooling expected;
    bool normalize;
    const char *message;
} file_case;

static const file_case CASES[] = {
    {NULL, NULL, WEFT_POOLING_MEAN, true, NULL},
    {"[" TRANSFORMER "," POOLING "," NORMALIZE "]",
     "{" WIDTH ",\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":false}",
     WEFT_POOLING_MEAN, true, NULL},
    {"[" TRANSFORMER "," POOLING "]", "{" WIDTH ",\"pooling_mode_cls_token\":true}",
     WEFT_POOLING_FIRST, false, NULL},
    {"[" TRANSFORMER "," POOLING "]", "{\"pooling_mode_lasttoken\":true,\"include_prompt\":true}",
     WEFT_POOLING_LAST, false, NULL},
    {"[" TRANSFORMER "," POOLING "]", "{" WIDTH ",\"pooling_mode_max_tokens\":true}", 0, false,
     "1_Pooling/config.json: pooling_mode_max_tokens is not supported"},
    {"[" TRANSFORMER "," POOLING "]",
     "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":true}", 0, false,
     "1_Pooling/config.json: pooling_mode_cls_token and pooling_mode_mean_tokens together are not "
     "supported"},
    {"[" TRANSFORMER "," POOLING "]", "{" WIDTH "}", 0, false,
     "1_Pooling/config.json: no known pooling_mode_ is set"},
    {"[" TRANSFORMER "," POOLING "]", "{\"word_embedding_dimension\":47}", 0, false,
     "1_Pooling/config.json: word_embedding_dimension is 47, the model's width is 48"},
    {"[" TRANSFORMER "," POOLING "]",
     "{\"pooling_mode_mean_tokens\":true,\"include_prompt\":false}", 0, false,
     "1_Pooling/config.json: include_prompt false is not supported"},
    {"[" TRANSFORMER "," POOLING "]", "[]", 0, false,
     "1_Pooling/config.json: there is no object in it, or no such file"},
    {"[" TRANSFORMER "," POOLING "]", NULL, 0, false,
     "1_Pooling/config.json: there is no object in it, or no such file"},
    {"[" TRANSFORMER "," POOLING "]", "{\"pooling_mode", 0, false,
     "1_Pooling/config.json: config.json"},
    {"[" TRANSFORMER "," POOLING "," MODULE(2, "2_Dense", "Dense") "]",
     "{\"pooling_mode_mean_tokens\":true}", 0, false,
     "modules.json: module 2, 'Dense', is not supported"},
    {"[" TRANSFORMER "," NORMALIZE "]", NULL, 0, false,
     "modules.json: module 1, 'Normalize', is not supported"},
    {"[" MODULE(0, "0_Transformer", "Transformer") "," POOLING "]", NULL, 0, false,
     "modules.json: a model in '0_Transformer' is not supported"},
    {"[" TRANSFORMER "]", NULL, 0, false, "modules.json: expected an array of 2 or more"},
    {"{}", NULL, 0, false, "modules.json: expected an array of 2 or more"},
    {"[1,2]", NULL, 0, false, "modules.json: module 0, '', is not supported"},
    {"[" TRANSFORMER "," MODULE(1, "../1_Pooling", "Pooling") "]", NULL, 0, false,
     "does not name a file in the folder"},
    {"[" TRANSFORMER "," MODULE(1, "1_Pooling/x", "Pooling") "]", NULL, 0, false,
     "does not name a file in the folder"},
    {"[" TRANSFORMER "," MODULE(1, "", "Pooling") "]", NULL, 0, false,
     "does not name a file in the folder"},
    {"[" TRANSFORMER "," MODULE(1, "1_Pooling\\u0000x", "Pooling") "]", NULL, 0, false,
     "modules.json: "},
    {"[", NULL, 0, false, "modules.json: "},
};

static void write_files(test_folder *folder, const file_case *c)
{
    const char *modules = test_folder_path(folder, "modules.json");
    const char *pooling = test_folder_path(folder, "1_Pooling/config.json");
    (void)remove(modules);
    (void)remove(pooling);
    if (c->modules != NULL)
        test_folder_write(folder, "modules.json", c->modules, strlen(c->modules));
    if (c->pooling != NULL)
        test_folder_write(folder, "1_Pooling/config.json", c->pooling, strlen(c->pooling));
}

static void write_model(golden_copy *s, test_folder *folder)
{
    static const golden_change NOTHING;
    golden_copy_open(s, "bert");
    golden_write_changed(s, &NOTHING, folder);
    assert_int_equal(mkdir(test_folder_path(folder, "1_Pooling"), 0700), 0);
}

static void remove_model(golden_copy *s, test_folder *folder)
{
    write_files(folder, &CASES[0]);
    assert_int_equal(remove(test_folder_path(folder, "1_Pooling")), 0);
    test_folder_remove(folder);
    golden_copy_close(s);
}

static void check(const test_folder *folder, const file_case *c, size_t i)
{
    env world = {.allocator = mem_system(), .io = io_system()};
    llm *m;
    weft_error err = {WEFT_OK, ""};
    assert_ok(llm_open(&world, folder->path, &m, &err), &err);
    const model_embedding *v = &m->embedding;
    if (c->message == NULL) {
        assert_ok(v->error.status, &v->error);
        assert_int_equal(v->pooling, c->expected);
        assert_int_equal(v->normalize, c->normalize);
    } else if (v->error.status == WEFT_OK || strstr(v->error.message, c->message) == NULL) {
        fail_msg("case %zu: '%s', expected '%s'", i, v->error.message, c->message);
    }
    llm_close(m);
}

static void test_every_case(void **state)
{
    (void)state;
    golden_copy s;
    test_folder folder;
    write_model(&s, &folder);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        write_files(&folder, &CASES[i]);
        check(&folder, &CASES[i], i);
    }
    remove_model(&s, &folder);
}

/* ---- faults ---- */

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    llm *m;
    weft_status status = llm_open(world, user, &m, err);
    if (status != WEFT_OK) return status;
    bool fine = m->embedding.error.status == WEFT_OK && m->embedding.pooling == WEFT_POOLING_FIRST;
    llm_close(m);
    return fine ? WEFT_OK : err_set(err, WEFT_FORMAT, "the files were not read");
}

static void test_faults(void **state)
{
    (void)state;
    golden_copy s;
    test_folder folder;
    write_model(&s, &folder);
    write_files(&folder, &CASES[2]);
    size_t n = fault_sweep(scenario, folder.path);
    size_t n_io = fault_sweep_io(scenario, folder.path);
    print_message("%zu allocations, %zu file operations\n", n, n_io);
    assert_true(n >= 20 && n_io >= 6);
    remove_model(&s, &folder);
}

/* ---- the family's own settings ---- */

static void test_config(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } CHANGES[] = {
        {"\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act 'relu'"},
        {"\"is_decoder\": false", "\"is_decoder\": true", "is_decoder is set"},
        {"\"add_cross_attention\": false", "\"add_cross_attention\": true", "add_cross_attention"},
        {"\"pad_token_id\": 0", "\"position_embedding_type\": \"relative_key\"",
         "position_embedding_type 'relative_key'"},
        {"\"max_position_embeddings\": 64", "\"max_position_embeddings\": 65",
         "embeddings.position_embeddings.weight' is [64, 48], expected [65, 48]"},
        {"\"type_vocab_size\": 2", "\"type_vocab_size\": 3", "expected [3, 48]"},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 5", "not a multiple of 5 heads"},
        {"\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 2", "layer_norm_eps is 2"},
    };
    golden_copy s;
    golden_copy_open(&s, "bert");
    for (size_t i = 0; i < COUNT_OF(CHANGES); i++) {
        weft_error err = {WEFT_OK, ""};
        golden_change change = {.config = {CHANGES[i].from, CHANGES[i].to}};
        assert_true(golden_open_changed(&s, &change, &err) != WEFT_OK);
        if (strstr(err.message, CHANGES[i].message) == NULL)
            fail_msg("'%s' without '%s'", err.message, CHANGES[i].message);
    }
    weft_error err = {WEFT_OK, ""};
    golden_change more = {.more = "encoder.layer.0.attention.rotary.weight",
                          .from = "embeddings.LayerNorm.weight"};
    assert_status(WEFT_UNSUPPORTED, golden_open_changed(&s, &more, &err), &err);
    golden_change missing = {.without = "encoder.layer.1.intermediate.dense.bias"};
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_FORMAT, golden_open_changed(&s, &missing, &err), &err);
    /* The same model without the heads that it does not use, and with another gelu. */
    golden_change without = {
        .without = "pooler.dense.weight",
        .config = {"\"hidden_act\": \"gelu\"", "\"hidden_act\": \"gelu_new\""}};
    err = (weft_error){WEFT_OK, ""};
    assert_ok(golden_open_changed(&s, &without, &err), &err);
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_case),
                                       cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_config)};
    return TEST_RUN("models/embedding_files", tests);
}
