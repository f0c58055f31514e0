/* test_conversion.c - KV-31: wherever a sequence is converted, in chunks of any size, with drafts
 * or without and in company, the answer is the same bits. KV-37: rows that were converted and rows
 * that were not share steps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/runs.h"

enum { PROMPT = 60, NEW_TOKENS = 6, CONTEXT = 128, COMPANY = 3 };

static weft_engine *open_engine(const weft_model *model, const char *kv, uint32_t chunk)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .kv = kv,
                                   .n_threads = 1,
                                   .context = CONTEXT,
                                   .chunk_tokens = chunk,
                                   .flags = WEFT_ENGINE_NO_CACHE};
    return run_open_engine(model, &options);
}

/* At every position up to `most`, twice the window of the model. */
static void check_model(const char *name, const char *codec, uint32_t most)
{
    static const uint32_t CHUNKS[] = {1, 3};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, name);
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(PROMPT, n_vocab, 3);
    for (uint32_t start = 1; start <= most; start += TEST_SLOWED ? 7 : 1) {
        char kv[64];
        snprintf(kv, sizeof kv, "%s,start=%u", codec, start);
        run whole = {.prompt = ids, .n_prompt = PROMPT, .max_new = NEW_TOKENS};
        weft_engine *engine = open_engine(model, kv, 64);
        run_all(engine, n_vocab, &whole, 1);
        weft_engine_close(engine);
        for (size_t i = 0; i < 2; i++) {
            run runs[COMPANY] = {{.prompt = ids, .n_prompt = PROMPT, .max_new = NEW_TOKENS},
                                 {.prompt = ids, .n_prompt = 1 + start / 2, .max_new = 9},
                                 {.prompt = ids, .n_prompt = PROMPT, .max_new = 1, .kv = codec}};
            runs[0].draft = i == 0 ? NULL : "ngram";
            engine = open_engine(model, kv, CHUNKS[i]);
            run_all(engine, n_vocab, runs, COMPANY);
            weft_engine_close(engine);
            run_assert_identical(&runs[0], &whole, n_vocab);
            for (uint32_t k = 0; k < COMPANY; k++) run_free(&runs[k]);
        }
        run_free(&whole);
    }
    free(ids);
    weft_model_close(model);
}

static void test_kv31_at_every_position(void **state)
{
    (void)state;
    check_model("gemma3", "affine8g64", 48);
    check_model("llama", "turbo-k8v4", 16);
    check_model("gemma4-ple", "affine4g32", 16);
    check_model("deepseek_v3", "affine8g32", 16);
    check_model("qwen3_5", "affine4g64", 16);
    check_model("qwen3_next", "affine8g64", 9);
    check_model("lfm2", "affine4g64", 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv31_at_every_position),
    };
    return TEST_RUN("engine/conversion", tests);
}
