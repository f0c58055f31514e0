/* test_recall.c - B04: what stands near the beginning of a long prompt is still known at its end
 * with every codec, where the prompt is read in pieces.
 *
 * A story model of 14 million parameters answers no questions about 600 tokens. What it does know
 * there is whose story it is: of twelve names the one that was said becomes likelier than behind
 * the same text with the other eleven. SmolLM2, where it was fetched, is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "support/runs.h"

static const char BEFORE[] =
    "The sun was warm and the sky was blue. A little bird sang in the old oak tree. The children "
    "played by the river and laughed. They found a small stone that was shiny and smooth. The wind "
    "blew softly over the green hills. A farmer came by with a cart full of apples.";

static const char BEHIND[] =
    "He gave each child an apple and smiled. They sat down under the tree and ate. After a while "
    "they saw a rabbit in the grass. The rabbit was white and had long ears. It looked at them and "
    "then ran away. The children ran after it, but it was too fast. They came to a small house at "
    "the edge of the forest. An old woman lived there with her cat. She told them a story about "
    "the sea. They listened until the sun went down. Then they thanked her and went home. Their "
    "mother was waiting for them with warm soup. They told her about the rabbit and the old woman. "
    "She was happy that they had a good day. The next morning it rained and they stayed inside. "
    "They painted pictures of the river and the tree. Their father read a book about the stars. In "
    "the evening the rain stopped and the moon came out. They looked at the moon from the window. "
    "It was round and bright like a silver coin. They went to bed and dreamed of the forest. In "
    "the dream the rabbit could talk. It told them about a hidden garden with flowers. The flowers "
    "were red and yellow and blue. When they woke up they wanted to find the garden. They packed "
    "bread and cheese and water. They walked along the river for a long time. At last they came to "
    "a wall with a small door. The door was old and made of wood. They opened it and saw the "
    "garden. It was more beautiful than in the dream. The boat moved slowly over the calm lake. "
    "The fish jumped out of the water. A frog sat on a green leaf and sang. The clouds were white "
    "and soft like cotton. The girl put her hand into the cool water. She saw a golden fish with a "
    "long tail. It swam around the boat three times. Then it went down into the deep blue. The boy "
    "had a net but he did not use it. They rowed to the other side of the lake. There was a beach "
    "with white sand. They built a castle with four towers. A crab walked over the bridge of the "
    "castle. The waves came and took one tower. They laughed and built it again. At noon they ate "
    "their bread under a tree. The bread was still warm and smelled good. A duck came and wanted "
    "some bread, too. They gave it a small piece and it was happy. In the afternoon they rowed "
    "back home.";

enum { IDS_MOST = 1024, TEXT_MOST = 4096, PIECE = 100 };

static weft_engine *open_engine(const weft_model *model, const char *kv)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .kv = kv,
                                   .n_threads = 2,
                                   .context = 800,
                                   .chunk_tokens = PIECE,
                                   .flags = WEFT_ENGINE_NO_CACHE};
    return run_open_engine(model, &options);
}

static uint32_t tokenize(const weft_model *model, const char *text, int32_t ids[IDS_MOST])
{
    size_t n;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_tokenize(model, text, strlen(text), 0, ids, IDS_MOST, &n, &err), &err);
    return (uint32_t)n;
}

/* ---- the story model ------------------------------------------------------------------------- */

static const char *const NAMES[] = {"Mia", "Leo",  "Zara", "Tom",  "Anna", "Oliver",
                                    "Ben", "Lily", "Max",  "Ella", "Finn", "Rosa"};

enum { N_NAMES = sizeof NAMES / sizeof NAMES[0] };

/* scores[j]: the logit of the first token of name j at the end of the text with name i. */
static void score_names(const weft_model *model, weft_engine *engine, uint32_t i,
                        const int32_t first[N_NAMES], float scores[N_NAMES])
{
    char text[TEXT_MOST];
    int32_t ids[IDS_MOST];
    uint32_t n_vocab = run_n_vocab(model);
    snprintf(text, sizeof text,
             "%s Once upon a time, there was a fox named %s. %s was a brave fox. %s Once upon a "
             "time, there was a fox named",
             BEFORE, NAMES[i], NAMES[i], BEHIND);
    run r = {.prompt = ids, .n_prompt = tokenize(model, text, ids), .max_new = 1};
    assert_true(r.n_prompt > 600);
    run_all(engine, n_vocab, &r, 1);
    for (uint32_t j = 0; j < N_NAMES; j++) scores[j] = r.new_logits[first[j]];
    run_free(&r);
}

/* Of how many texts the name is the one of which most more is thought than in the others. */
static uint32_t n_recalled(const weft_model *model, const char *kv)
{
    float scores[N_NAMES][N_NAMES];
    int32_t first[N_NAMES];
    uint32_t n_right = 0;
    weft_engine *engine = open_engine(model, kv);
    for (uint32_t j = 0; j < N_NAMES; j++) {
        char text[32];
        int32_t ids[IDS_MOST];
        snprintf(text, sizeof text, "a %s", NAMES[j]);
        assert_true(tokenize(model, text, ids) > 1);
        first[j] = ids[1];
    }
    for (uint32_t i = 0; i < N_NAMES; i++) score_names(model, engine, i, first, scores[i]);
    for (uint32_t j = 0; j < N_NAMES; j++) {
        float mean = 0.0F;
        for (uint32_t i = 0; i < N_NAMES; i++) mean += scores[i][j] / N_NAMES;
        for (uint32_t i = 0; i < N_NAMES; i++) scores[i][j] -= mean;
    }
    for (uint32_t i = 0; i < N_NAMES; i++) {
        uint32_t best = 0;
        for (uint32_t j = 1; j < N_NAMES; j++) {
            if (scores[i][j] > scores[i][best]) best = j;
        }
        n_right += best == i;
    }
    weft_engine_close(engine);
    return n_right;
}

/* By chance it is one of twelve. */
static void test_b04_names(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        uint32_t least;
    } CODECS[] = {
        {"f32", 12},        {"f16", 12},        {"bf16", 12},       {"affine8g32", 11},
        {"affine8g64", 11}, {"q8_0", 11},       {"turbo-k8v8", 11}, {"turbo-k8v5", 11},
        {"turbo-k8v4", 11}, {"affine4g32", 10}, {"affine4g64", 10}, {"turbo-k8v3", 10},
        {"turbo-k5v3", 10}, {"turbo-k4v3", 10}, {"turbo-k8v2", 7},  {"turbo-k4v2", 7},
    };
    weft_model *model = run_open_model(TINY_PATH("target-mlx8"));
    for (size_t i = 0; i < COUNT_OF(CODECS); i += TEST_SLOWED ? 5 : 1) {
        uint32_t n = n_recalled(model, CODECS[i].kv);
        print_message("%s: %u of %d, at least %u\n", CODECS[i].kv, n, N_NAMES, CODECS[i].least);
        assert_true(n >= CODECS[i].least);
    }
    weft_model_close(model);
}

/* ---- a model that can be asked --------------------------------------------------------------- */

static void ask_code(const weft_model *model, const char *kv)
{
    char messages[TEXT_MOST];
    int32_t ids[IDS_MOST];
    size_t n;
    weft_error err = {WEFT_OK, ""};
    snprintf(messages, sizeof messages,
             "[{\"role\":\"user\",\"content\":\"%s The locker code is 7305. %s\\n\\nWhat is the "
             "locker code? Answer with the four digits.\"}]",
             BEFORE, BEHIND);
    assert_ok(weft_chat_tokenize(model, messages, NULL, 0, ids, IDS_MOST, &n, &err), &err);
    weft_engine *engine = open_engine(model, kv);
    run r = {.prompt = ids,
             .n_prompt = (uint32_t)n,
             .max_new = 24,
             .stops = true,
             .flags = WEFT_REQUEST_TEXT};
    run_all(engine, run_n_vocab(model), &r, 1);
    print_message("%s: %u tokens, '%s'\n", kv, r.n_prompt, r.text);
    assert_non_null(strstr(r.text, "7305"));
    run_free(&r);
    weft_engine_close(engine);
}

static void test_b04_locker_code(void **state)
{
    (void)state;
    static const char *const CODECS[] = {
        "f32",        "bf16",       "affine8g32", "affine8g64", "q8_0",
        "turbo-k8v8", "turbo-k8v5", "turbo-k8v4", "affine4g32", "affine4g64",
        "turbo-k8v3", "turbo-k5v3", "turbo-k4v3", "turbo-k8v2", "turbo-k4v2",
    };
    char path[600];
    const char *found =
        run_extra_model("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", path, sizeof path);
    if (found == NULL) skip();
    weft_model *model = run_open_model(found);
    for (size_t i = 0; i < COUNT_OF(CODECS); i += TEST_SLOWED ? 7 : 1) ask_code(model, CODECS[i]);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b04_names),
        cmocka_unit_test(test_b04_locker_code),
    };
    return TEST_RUN("engine/recall", tests);
}
