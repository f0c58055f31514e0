/* test_gemma4.c - Gemma 4's settings in their older and newer forms, what its files may have that
 * is not used, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "support/golden_copy.h"

enum { VOCAB = 320 };

static void check_same_answer(const golden_copy *s, const golden_change *change)
{
    test_folder folder;
    golden_write_changed(s, change, &folder);
    run expected = golden_answer(s->path, WEFT_ACT_BF16);
    run r = golden_answer(folder.path, WEFT_ACT_BF16);
    run_assert_identical(&r, &expected, VOCAB);
    run_free(&r);
    run_free(&expected);
    test_folder_remove(&folder);
}

/* Heads of full layers under global_head_dim, as files on the hub have them. */
static void test_older_settings(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, "gemma4-dense");
    check_same_answer(&s, &(golden_change){.config = {"\"per_layer_config\": {\n    \"5\": {\n"
                                                      "      \"head_dim\": 64,\n      "
                                                      "\"num_key_value_heads\": 1\n    }\n  },",
                                                      "\"global_head_dim\": 64, "
                                                      "\"num_global_key_value_heads\": 1,"}});
    /* What the two kinds of layer turn by is the default where it is not said. */
    check_same_answer(&s, &(golden_change){.config = {"\"rope_parameters\"", "\"unused\""}});
    golden_copy_close(&s);
}

/* Projections of layers that read another's keys and values (B92). */
static void test_projections_that_are_left(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, "gemma4-ple");
    static const char *const NAMES[] = {"k_proj", "v_proj", "k_norm"};
    for (size_t i = 0; i < 3; i++) {
        char more[96];
        char from[96];
        snprintf(more, sizeof more, "model.layers.7.self_attn.%s.weight", NAMES[i]);
        snprintf(from, sizeof from, "model.layers.1.self_attn.%s.weight", NAMES[i]);
        check_same_answer(&s, &(golden_change){.more = more, .from = from});
    }
    golden_copy_close(&s);
}

/* Layers that share have no state; each kind of layer reads its own. */
static void test_states(void **state)
{
    (void)state;
    golden_copy s;
    llm *m;
    weft_error err = {0};
    golden_copy_open(&s, "gemma4-ple");
    assert_ok(llm_open(&s.env, s.path, &m, &err), &err);
    assert_int_equal(m->n_kv_layers, 6);
    for (uint32_t i = 0; i < 6; i++) {
        bool full = i % 3 == 2;
        assert_int_equal(m->kv_layers[i].layout, full ? KV_LAYOUT_FULL : KV_LAYOUT_WINDOW);
        assert_int_equal(m->kv_layers[i].window, full ? 0 : 24);
        assert_int_equal(m->kv_layers[i].k_dim, full ? 64 : 32);
        assert_int_equal(m->kv_layers[i].n_heads, 2);
    }
    uint32_t n_attend = 0;
    for (graph_id id = 1; id < m->graph.n_values; id++) {
        const graph_value *v = &m->graph.values[id];
        if (v->op != GRAPH_ATTEND) continue;
        uint32_t read = m->graph.values[v->in[1]].i[0];
        uint32_t layer = n_attend++;
        assert_int_equal(read, layer < 6 ? layer : layer % 3 == 2 ? 5 : 4);
    }
    assert_int_equal(n_attend, 12);
    /* A quarter of a full head's pairs turn, by the whole head's frequencies. */
    assert_int_equal(m->ropes[0].n_pairs, 32);
    assert_true(m->ropes[0].inv_freq[0] == 1.0F);
    double second = pow(1e6, -2.0 / 64.0);
    assert_true(fabs((double)m->ropes[0].inv_freq[1] / second - 1.0) < 1e-6);
    assert_true(m->ropes[0].inv_freq[7] > 0.0F && m->ropes[0].inv_freq[8] == 0.0F);
    assert_int_equal(m->ropes[1].n_pairs, 16);
    llm_close(m);
    weft_model *model = run_open_model(s.path);
    weft_kv_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_kv(model, "bf16", &info, &err), &err);
    assert_int_equal(info.bytes_per_token, 2 * 2 * (64 + 64) * 2);
    assert_int_equal(info.bytes_fixed, 4 * 24 * 2 * (32 + 32) * 2);
    weft_model_close(model);
    golden_copy_close(&s);
}

/* ---- KV-49 */

enum { MOST_VALUES = 4096, PROMPT = 70, ANSWER = 40 };

/* A graph in which each layer that reads another's keys and values has them in a state of its own,
 * appended anew. */
typedef struct unshared {
    graph_value values[MOST_VALUES];
    graph_id now[MOST_VALUES]; /* where a value of the old graph stands */
    bool read[MODEL_LAYERS];   /* states that an earlier layer reads */
    kv_layer layers[MODEL_LAYERS];
} unshared;

static graph_id put(graph *g, unshared *u, graph_value v)
{
    assert_true(g->n_values < MOST_VALUES);
    for (size_t i = 0; i < GRAPH_INPUTS; i++) v.in[i] = u->now[v.in[i]];
    u->values[g->n_values] = v;
    return g->n_values++;
}

/* The state that an attention reads, or a copy of it. */
static graph_id own_state(llm *m, graph *to, unshared *u, graph_id state)
{
    graph_value append = m->graph.values[state];
    uint32_t i = append.i[0];
    assert_int_equal(append.op, GRAPH_KV_APPEND);
    if (!u->read[i]) {
        u->read[i] = true;
        return u->now[state];
    }
    u->layers[m->n_kv_layers] = u->layers[i];
    append.i[0] = m->n_kv_layers++;
    return put(to, u, append);
}

/* Returns how many layers shared; u must live as long as m. */
static uint32_t unshare(llm *m, unshared *u)
{
    graph to = m->graph;
    uint32_t before = m->n_kv_layers;
    to.values = u->values;
    to.capacity = MOST_VALUES;
    to.n_values = 1;
    u->values[0] = m->graph.values[0];
    memcpy(u->layers, m->kv_layers, before * sizeof *u->layers);
    for (graph_id id = 1; id < m->graph.n_values; id++) {
        graph_value v = m->graph.values[id];
        graph_id state = v.op == GRAPH_ATTEND ? own_state(m, &to, u, v.in[1]) : 0;
        u->now[id] = put(&to, u, v);
        if (v.op == GRAPH_ATTEND) u->values[u->now[id]].in[1] = state;
    }
    to.output = u->now[m->graph.output];
    to.hidden = u->now[m->graph.hidden];
    to.n_states = m->n_kv_layers;
    m->graph = to;
    m->kv_layers = u->layers;
    return m->n_kv_layers - before;
}

static run answer_of(const weft_model *model, const char *name, const char *kv)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .backend = name,
                                   .kv = kv,
                                   .act = WEFT_ACT_F32,
                                   .chunk_tokens = 16,
                                   .n_threads = 1};
    weft_engine *engine = run_open_engine(model, &options);
    uint32_t n_vocab = run_n_vocab(model);
    run r = {.prompt = run_random_ids(PROMPT, n_vocab, 49),
             .n_prompt = PROMPT,
             .max_new = ANSWER,
             .want_prompt_logits = true};
    run_all(engine, n_vocab, &r, 1);
    weft_engine_close(engine);
    return r;
}

/* KV-49: layers that share another's keys and values give the bits of a model in which each has a
 * copy, for dense and packed ones, across the window's edge. */
static void test_shared_as_copies(void **state)
{
    static const char *const CODECS[] = {"f32", "bf16", "affine8g32", "turbo-k8v4"};
    (void)state;
    weft_model *shared = run_open_model(GOLDEN_PATH("gemma4-ple"));
    weft_model *copies = run_open_model(GOLDEN_PATH("gemma4-ple"));
    unshared *u = calloc(1, sizeof *u);
    assert_non_null(u);
    assert_int_equal(unshare(copies->model, u), 6);
    for (size_t i = 0; i < 2 * COUNT_OF(CODECS); i++) {
        const char *name = i % 2 == 0 ? "ref" : "cpu";
        run expected = answer_of(copies, name, CODECS[i / 2]);
        run r = answer_of(shared, name, CODECS[i / 2]);
        run_assert_identical(&r, &expected, VOCAB);
        free((void *)(uintptr_t)r.prompt);
        free((void *)(uintptr_t)expected.prompt);
        run_free(&r);
        run_free(&expected);
    }
    weft_model_close(shared);
    weft_model_close(copies);
    free(u);
}

typedef struct refusal {
    const char *golden;
    golden_change change;
    weft_status status;
    const char *message;
} refusal;

static const refusal REFUSALS[] = {
    {"gemma4-ple",
     {.config = {"\"vocab_size_per_layer_input\": 320", "\"vocab_size_per_layer_input\": 319"}},
     WEFT_FORMAT,
     "vocab_size_per_layer_input is 319, expected at least 320"},
    {"gemma4-ple",
     {.config = {"\"num_kv_shared_layers\": 6", "\"num_kv_shared_layers\": 11"}},
     WEFT_FORMAT,
     "layer 2 shares keys and values, and no layer of its kind has them"},
    {"gemma4-ple",
     {.config = {"\"num_kv_shared_layers\": 6", "\"num_kv_shared_layers\": 400"}},
     WEFT_FORMAT,
     "layer 0 shares keys and values"},
    {"gemma4-ple",
     {.config = {"\"num_kv_shared_layers\": 6", "\"num_kv_shared_layers\": 5"}},
     WEFT_FORMAT,
     "tensor 'model.layers.6.self_attn.k_proj.weight' is missing"},
    {"gemma4-ple",
     {.config = {"\"use_double_wide_mlp\": true", "\"use_double_wide_mlp\": false"}},
     WEFT_FORMAT,
     "is [256, 64], expected [128, 64]"},
    {"gemma4-ple",
     {.config = {"\"08\": {\n      \"head_dim\": 64", "\"08\": {\n      \"head_dim\": 32"}},
     WEFT_UNSUPPORTED,
     "layer 8 has 2 heads of 32, others of its kind 2 of 64"},
    {"gemma4-ple",
     {.config = {"\"08\": {", "\"12\": {"}},
     WEFT_FORMAT,
     "per_layer_config of '12', of 12 layers"},
    {"gemma4-ple",
     {.config = {"\"08\": {", "\"x8\": {"}},
     WEFT_FORMAT,
     "per_layer_config of 'x8', of 12 layers"},
    {"gemma4-ple",
     {.config = {"\"08\": {", "\"08\": { \"intermediate_size\": 9,"}},
     WEFT_UNSUPPORTED,
     "per_layer_config with 'intermediate_size' is not supported"},
    {"gemma4-ple",
     {.config = {"\"08\": {\n      \"head_dim\": 64", "\"08\": {\n      \"head_dim\": 5000"}},
     WEFT_FORMAT,
     "head_dim of layer 8 is 5000, expected 1 to 4096"},
    {"gemma4-dense", {.config = {"\"layer_types\"", "\"types\""}}, WEFT_FORMAT, "no layer_types"},
    {"gemma4-dense",
     {.config = {"\"attention_k_eq_v\": true", "\"attention_k_eq_v\": false"}},
     WEFT_FORMAT,
     "tensor 'model.layers.5.self_attn.v_proj.weight' is missing"},
    {"gemma4-dense",
     {.config = {"\"use_bidirectional_attention\": null",
                 "\"use_bidirectional_attention\": \"all\""}},
     WEFT_UNSUPPORTED,
     "use_bidirectional_attention is not supported"},
    {"gemma4-dense",
     {.config = {"\"use_bidirectional_attention\": null",
                 "\"use_bidirectional_attention\": \"vision\""}},
     WEFT_OK,
     NULL},
    {"gemma4-dense",
     {.config = {"gelu_pytorch_tanh", "relu"}},
     WEFT_UNSUPPORTED,
     "hidden_activation 'relu' is not supported"},
    {"gemma4-dense",
     {.config = {"\"attention_bias\": false", "\"attention_bias\": true"}},
     WEFT_UNSUPPORTED,
     "attention_bias is not supported"},
    {"gemma4-dense",
     {.without = "model.layers.3.layer_scalar"},
     WEFT_FORMAT,
     "tensor 'model.layers.3.layer_scalar' is missing"},
    {"gemma4-dense",
     {.more = "model.layers.3.self_attn.strange", .from = "model.norm.weight"},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.3.self_attn.strange' has no place"},
    {"gemma4-dense",
     {.more = "vision_tower.patch.weight", .from = "model.norm.weight"},
     WEFT_OK,
     NULL},
    {"gemma4-moe",
     {.config = {"\"top_k_experts\": 2", "\"top_k_experts\": 9"}},
     WEFT_FORMAT,
     "9 of 8 experts of width 32 is not possible"},
    {"gemma4-moe",
     {.config = {"\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 16"}},
     WEFT_FORMAT,
     "expected 8 matrices of [32, 64]"},
    {"gemma4-moe",
     {.without = "model.layers.2.experts.down_proj"},
     WEFT_FORMAT,
     "tensor 'model.layers.2.experts.down_proj' is missing"},
};

static void test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        const refusal *r = &REFUSALS[i];
        golden_copy s;
        weft_error err;
        golden_copy_open(&s, r->golden);
        weft_status status = golden_open_changed(&s, &r->change, &err);
        assert_status(r->status, status, &err);
        if (r->message != NULL) assert_message(&err, r->message);
        golden_copy_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older_settings),  cmocka_unit_test(test_projections_that_are_left),
        cmocka_unit_test(test_states),          cmocka_unit_test(test_shared_as_copies),
        cmocka_unit_test(test_what_is_refused),
    };
    return TEST_RUN("models/gemma4", tests);
}
