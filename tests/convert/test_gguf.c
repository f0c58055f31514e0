/* test_gguf.c - the same model from GGUF and from safetensors becomes the same tensors, and a
 * config.json of its own. */
#include "convert/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "support/golden_copy.h"

enum { LAYERS = 4, TYPE_F32 = 0 };

/* Names of a layer's tensors, and whether its rows are put into pairs. */
static const struct {
    const char *hf, *gguf;
    bool pairs;
} NAMES[] = {
    {"input_layernorm.weight", "attn_norm.weight", false},
    {"self_attn.q_proj.weight", "attn_q.weight", true},
    {"self_attn.k_proj.weight", "attn_k.weight", true},
    {"self_attn.v_proj.weight", "attn_v.weight", false},
    {"self_attn.o_proj.weight", "attn_output.weight", false},
    {"post_attention_layernorm.weight", "ffn_norm.weight", false},
    {"mlp.gate_proj.weight", "ffn_gate.weight", false},
    {"mlp.up_proj.weight", "ffn_up.weight", false},
    {"mlp.down_proj.weight", "ffn_down.weight", false},
};

/* Of the golden's config.json. */
typedef struct sizes {
    uint32_t width, ff, heads, kv_heads, head_dim, vocab, context;
    double eps, theta;
} sizes;

static uint32_t size_of(const golden_copy *g, const char *key)
{
    int64_t n = json_int(json_get(g->w->config.root, key), 0);
    assert_in_range(n, 1, 1 << 20);
    return (uint32_t)n;
}

static sizes read_sizes(const golden_copy *g)
{
    const json *root = g->w->config.root;
    assert_int_equal(size_of(g, "num_hidden_layers"), LAYERS);
    const json *rope = json_get(root, "rope_parameters");
    return (sizes){.width = size_of(g, "hidden_size"),
                   .ff = size_of(g, "intermediate_size"),
                   .heads = size_of(g, "num_attention_heads"),
                   .kv_heads = size_of(g, "num_key_value_heads"),
                   .head_dim = size_of(g, "head_dim"),
                   .vocab = size_of(g, "vocab_size"),
                   .context = size_of(g, "max_position_embeddings"),
                   .eps = json_number(json_get(root, "rms_norm_eps"), 0.0),
                   .theta = json_number(json_get(rope, "rope_theta"), 0.0)};
}

/* Rows of a head from halves to pairs, as llama.cpp's converter does. */
static void add_tensor(gguf_builder *b, const char *name, const tensor *t, uint32_t head_dim)
{
    float *values = malloc((size_t)(t->n_rows * t->n_cols) * sizeof *values);
    assert_non_null(values);
    for (uint64_t row = 0; row < t->n_rows; row++) {
        uint64_t from = row;
        if (head_dim != 0) {
            uint64_t j = row % head_dim;
            from = row - j + (j % 2 == 0 ? j / 2 : head_dim / 2 + j / 2);
        }
        t->encoding->decode_row(t, from, values + row * t->n_cols);
    }
    gguf_add_tensor(b, name, TYPE_F32, t->dims, t->n_dims, values,
                    (size_t)(t->n_rows * t->n_cols) * sizeof *values);
    free(values);
}

/* divisors: of rope, or NULL. */
static void write_gguf(const golden_copy *g, const sizes *s, const float *divisors,
                       test_folder *folder)
{
    gguf_builder b;
    gguf_init(&b, 3);
    gguf_add_text(&b, "general.architecture", "llama");
    gguf_add_u32(&b, "llama.block_count", LAYERS);
    gguf_add_u32(&b, "llama.embedding_length", s->width);
    gguf_add_u32(&b, "llama.feed_forward_length", s->ff);
    gguf_add_u32(&b, "llama.attention.head_count", s->heads);
    gguf_add_u32(&b, "llama.attention.head_count_kv", s->kv_heads);
    gguf_add_u32(&b, "llama.attention.key_length", s->head_dim);
    gguf_add_u32(&b, "llama.rope.dimension_count", s->head_dim);
    gguf_add_u32(&b, "llama.context_length", s->context);
    gguf_add_f32(&b, "llama.attention.layer_norm_rms_epsilon", (float)s->eps);
    gguf_add_f32(&b, "llama.rope.freq_base", (float)s->theta);
    gguf_add_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    gguf_add_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    add_tensor(&b, "token_embd.weight", golden_tensor(g, "model.embed_tokens.weight"), 0);
    add_tensor(&b, "output.weight", golden_tensor(g, "lm_head.weight"), 0);
    add_tensor(&b, "output_norm.weight", golden_tensor(g, "model.norm.weight"), 0);
    for (uint32_t i = 0; i < LAYERS * COUNT_OF(NAMES); i++) {
        char hf[128];
        char gguf[128];
        size_t k = i % COUNT_OF(NAMES);
        snprintf(hf, sizeof hf, "model.layers.%u.%s", i / (uint32_t)COUNT_OF(NAMES), NAMES[k].hf);
        snprintf(gguf, sizeof gguf, "blk.%u.%s", i / (uint32_t)COUNT_OF(NAMES), NAMES[k].gguf);
        add_tensor(&b, gguf, golden_tensor(g, hf), NAMES[k].pairs ? s->head_dim : 0);
    }
    if (divisors != NULL) {
        const uint64_t dims[] = {s->head_dim / 2};
        gguf_add_tensor(&b, "rope_freqs.weight", TYPE_F32, dims, 1, divisors,
                        s->head_dim / 2 * sizeof *divisors);
    }
    gguf_write(&b, folder, "m.gguf");
    gguf_deinit(&b);
}

static weft_status convert(const char *source, const char *target, weft_error *err)
{
    const env world = {mem_system(), io_system(), NULL};
    const convert_options options = {
        .bits = 5, .group = 32, .type = ENCODING_ID_F32, .shard_bytes = 1 << 30, .n_threads = 2};
    convert_result result;
    return convert_checkpoint(&world, source, target, &options, &result, err);
}

static weights *open_weights(const char *path)
{
    const env world = {mem_system(), io_system(), NULL};
    weights *w;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weights_open(&world, path, &w, &err), &err);
    return w;
}

static void check_config(const json *root, const sizes *s)
{
    assert_true(str_equal_text(json_text(json_get(root, "model_type")), "llama"));
    assert_int_equal(json_int(json_get(root, "hidden_size"), 0), s->width);
    assert_int_equal(json_int(json_get(root, "num_key_value_heads"), 0), s->kv_heads);
    assert_int_equal(json_int(json_get(root, "bos_token_id"), 0), 1);
    assert_int_equal(json_int(json_at(json_get(root, "eos_token_id"), 0), 0), 2);
    assert_true(json_number(json_get(root, "rms_norm_eps"), 0.0) == s->eps);
    assert_false(json_bool(json_get(root, "tie_word_embeddings"), true));
    assert_null(json_get(root, "layer_types"));
}

static void test_same_tensors(void **state)
{
    (void)state;
    golden_copy g;
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    golden_copy_open(&g, "llama");
    sizes s = read_sizes(&g);
    test_folder_create(&folder);
    write_gguf(&g, &s, NULL, &folder);
    const char *one = test_folder_path(&folder, "one");
    const char *two = test_folder_path(&folder, "two");
    assert_ok(convert(test_folder_path(&folder, "m.gguf"), one, &err), &err);
    assert_ok(convert(g.path, two, &err), &err);
    weights *a = open_weights(one);
    weights *b = open_weights(two);
    assert_int_equal(a->n_tensors, b->n_tensors);
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        assert_string_equal(a->tensors[i].name, b->tensors[i].name);
        assert_int_equal(a->tensors[i].plane_bytes[0], b->tensors[i].plane_bytes[0]);
        assert_memory_equal(a->tensors[i].planes[0], b->tensors[i].planes[0],
                            (size_t)a->tensors[i].plane_bytes[0]);
    }
    check_config(a->config.root, &s);
    assert_null(json_get(a->config.root, "rope_scaling"));
    weights_close(a);
    weights_close(b);
    test_folder_remove(&folder);
    golden_copy_close(&g);
}

/* Llama 3's divisors become its settings; others cannot be stated. */
static void test_divisors(void **state)
{
    (void)state;
    golden_copy g;
    golden_copy_open(&g, "llama");
    sizes s = read_sizes(&g);
    float d[64];
    assert_true(s.head_dim / 2 <= COUNT_OF(d));
    for (uint32_t odd = 0; odd < 2; odd++) {
        test_folder folder;
        weft_error err = {WEFT_OK, ""};
        for (uint32_t i = 0; i < s.head_dim / 2; i++) {
            double wave = 2.0 * 3.14159265358979323846 * pow(s.theta, 2.0 * i / s.head_dim);
            double smooth = (8192.0 / wave - 1.0) / 3.0;
            smooth = smooth < 0.0 ? 0.0 : smooth > 1.0 ? 1.0 : smooth;
            d[i] = (float)(1.0 / ((1.0 - smooth) / 8.0 + smooth));
        }
        if (odd == 1) d[0] = 2.0F;
        test_folder_create(&folder);
        write_gguf(&g, &s, d, &folder);
        const char *to = test_folder_path(&folder, "to");
        weft_status status = convert(test_folder_path(&folder, "m.gguf"), to, &err);
        if (odd == 1) {
            assert_status(WEFT_UNSUPPORTED, status, &err);
            assert_message(&err, "rope_freqs.weight");
        } else {
            assert_ok(status, &err);
            weights *w = open_weights(to);
            const json *rope = json_get(w->config.root, "rope_scaling");
            assert_true(str_equal_text(json_text(json_get(rope, "rope_type")), "llama3"));
            assert_true(json_number(json_get(rope, "factor"), 0.0) ==
                        (double)d[s.head_dim / 2 - 1]);
            weights_close(w);
        }
        test_folder_remove(&folder);
    }
    golden_copy_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tensors),
        cmocka_unit_test(test_divisors),
    };
    return TEST_RUN("convert/gguf", tests);
}
