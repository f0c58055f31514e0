/* test_tied.c - output matrices that are the embedding, by flag or by absence, with and without a
 * tensor of their own in the file: what is loaded must be what the config says, and nothing that
 * lies about unused may change a logit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden_copy.h"

enum { BF16_GGUF = 30 };

#define HEAD "lm_head.weight"
#define EMBED "model.embed_tokens.weight"
#define IS_FALSE "\"tie_word_embeddings\": false"
#define IS_TRUE "\"tie_word_embeddings\": true"

static run answer_of(const golden_copy *s, const golden_change *change)
{
    test_folder folder;
    golden_write_changed(s, change, &folder);
    run r = golden_answer(folder.path, WEFT_ACT_F32);
    test_folder_remove(&folder);
    return r;
}

/* Every way of writing a tied model is the same model (B92). */
static void test_folders(void **state)
{
    (void)state;
    static const struct {
        const char *golden;
        golden_change one, other;
    } ROWS[] = {
        /* its own matrix, which is another one */
        {"llama",
         {.without = HEAD, .config = {IS_FALSE, IS_TRUE}},
         {.config = {IS_FALSE, IS_TRUE}}},
        /* by absence of both */
        {"llama",
         {.without = HEAD, .config = {IS_FALSE, IS_TRUE}},
         {.without = HEAD, .config = {IS_FALSE, "\"unused\": 0"}}},
        /* a copy of the embedding, not tied */
        {"llama",
         {.without = HEAD, .config = {IS_FALSE, IS_TRUE}},
         {.without = HEAD, .more = HEAD, .from = EMBED}},
        {"gemma3", {.without = NULL}, {.more = HEAD, .from = "model.norm.weight"}},
        {"gemma3", {.without = NULL}, {.config = {IS_TRUE, "\"unused\": 0"}}},
        /* old checkpoints hold what is computed from the config */
        {"gemma3",
         {.without = NULL},
         {.more = "model.layers.0.self_attn.rotary_emb.inv_freq", .from = "model.norm.weight"}},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        golden_copy s;
        golden_copy_open(&s, ROWS[i].golden);
        run one = answer_of(&s, &ROWS[i].one);
        run other = answer_of(&s, &ROWS[i].other);
        run_assert_identical(&one, &other, (uint32_t)golden_tensor(&s, EMBED)->n_rows);
        run_free(&one);
        run_free(&other);
        golden_copy_close(&s);
    }
}

/* A model that is not tied has a matrix of its own, and uses it. */
static void test_not_tied(void **state)
{
    (void)state;
    golden_copy s;
    weft_error err = {WEFT_OK, ""};
    golden_copy_open(&s, "llama");
    run own = answer_of(&s, &(golden_change){.without = NULL});
    run tied = answer_of(&s, &(golden_change){.config = {IS_FALSE, IS_TRUE}});
    assert_true(own.new_logits[0] != tied.new_logits[0]);
    run_free(&own);
    run_free(&tied);
    assert_status(WEFT_FORMAT, golden_open_changed(&s, &(golden_change){.without = HEAD}, &err),
                  &err);
    assert_message(&err, "tensor '" HEAD "' is missing, and the model is not tied");
    golden_copy_close(&s);
}

/* ---- GGUF: tied is what has no output matrix ---- */

/* The name of one of llama's tensors in a GGUF file. */
static void gguf_name(const char *name, char *to, size_t capacity)
{
    static const char *const PAIRS[][2] = {
        {"embed_tokens", "token_embd"},      {"input_layernorm", "attn_norm"},
        {"mlp.down_proj", "ffn_down"},       {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},           {"post_attention_layernorm", "ffn_norm"},
        {"self_attn.k_proj", "attn_k"},      {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_proj", "attn_q"},      {"self_attn.v_proj", "attn_v"},
        {"model.norm.weight", "output_norm"}};
    unsigned layer;
    bool in_layer = sscanf(name, "model.layers.%u.", &layer) == 1;
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        if (strstr(name, PAIRS[i][0]) == NULL) continue;
        if (in_layer) snprintf(to, capacity, "blk.%u.%s.weight", layer, PAIRS[i][1]);
        if (!in_layer) snprintf(to, capacity, "%s.weight", PAIRS[i][1]);
        return;
    }
    fail_msg("a golden has the tensor '%s'", name);
}

typedef enum output {
    OUTPUT_NONE,
    OUTPUT_EMBED, /* a copy of the embedding */
    OUTPUT_ZEROS  /* one that makes every logit 0 */
} output;

static void write_gguf(const golden_copy *s, test_folder *folder, output which, char *path)
{
    gguf_builder b;
    gguf_init(&b, 3);
    gguf_add_text(&b, "general.architecture", "llama");
    gguf_add_u32(&b, "llama.block_count", 4);
    gguf_add_u32(&b, "llama.context_length", 128);
    gguf_add_u32(&b, "llama.embedding_length", 64);
    gguf_add_u32(&b, "llama.feed_forward_length",
                 (uint32_t)golden_tensor(s, "model.layers.0.mlp.up_proj.weight")->n_rows);
    gguf_add_u32(&b, "llama.attention.head_count", 4);
    gguf_add_u32(&b, "llama.attention.head_count_kv", 2);
    gguf_add_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    const tensor *embed = golden_tensor(s, EMBED);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        char name[128];
        const tensor *t = &s->w->tensors[i];
        if (strcmp(t->name, HEAD) == 0) continue;
        gguf_name(t->name, name, sizeof name);
        gguf_add_tensor(&b, name, BF16_GGUF, t->dims, t->n_dims, t->planes[0],
                        (size_t)t->plane_bytes[0]);
    }
    if (which != OUTPUT_NONE) {
        gguf_add_tensor(&b, "output.weight", BF16_GGUF, embed->dims, embed->n_dims,
                        which == OUTPUT_EMBED ? embed->planes[0] : NULL,
                        (size_t)embed->plane_bytes[0]);
    }
    const char *written = gguf_write(&b, folder, "m.gguf");
    snprintf(path, 300, "%s", written);
    gguf_deinit(&b);
}

static run answer_of_gguf(const golden_copy *s, output which)
{
    test_folder folder;
    char path[300];
    test_folder_create(&folder);
    write_gguf(s, &folder, which, path);
    run r = golden_answer(path, WEFT_ACT_F32);
    test_folder_remove(&folder);
    return r;
}

static void test_gguf(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, "llama");
    uint32_t n_vocab = (uint32_t)golden_tensor(&s, EMBED)->n_rows;
    run tied = answer_of_gguf(&s, OUTPUT_NONE);
    run copy = answer_of_gguf(&s, OUTPUT_EMBED);
    run zeros = answer_of_gguf(&s, OUTPUT_ZEROS);
    assert_true(tied.new_logits[0] != 0.0F);
    run_assert_identical(&tied, &copy, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) assert_true(zeros.new_logits[i] == 0.0F);
    run_free(&tied);
    run_free(&copy);
    run_free(&zeros);
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folders),
                                       cmocka_unit_test(test_not_tied),
                                       cmocka_unit_test(test_gguf)};
    return TEST_RUN("models/tied", tests);
}
