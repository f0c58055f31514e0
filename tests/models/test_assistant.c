/* test_assistant.c - models that draft for others: what a checkpoint says of them, with whom they
 * go together, and logits of the tokens that centroids choose. That these are the reference's:
 * tests/engine/test_draft_assistant.c. */
#include "models/assistant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "models/gemma4.h"
#include "support/compare.h"
#include "support/golden_copy.h"

#define DENSE "gemma4-assistant/assistant"
#define CENTROID "gemma4-assistant/assistant-centroid"
#define TARGET "gemma4-assistant/target"
#define ORDER "masked_embedding.token_ordering"

enum { VOCAB = 128, WIDTH = 64, OWN_WIDTH = 32, CENTROIDS = 16, LOOKED_AT = 4 };

static llm *open_golden(const char *name)
{
    golden_copy s;
    weft_error err = {0};
    llm *m = NULL;
    golden_copy_open(&s, name);
    assert_ok(llm_open(&s.env, s.path, &m, &err), &err);
    golden_copy_close(&s);
    return m;
}

/* ---- what it is ----------------------------------------------------------------------------- */

/* It stores nothing, and its layers read two states, each kind its own. */
static void test_graph(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        llm *m = open_golden(i == 0 ? DENSE : CENTROID);
        uint32_t n_attend = 0;
        assert_int_equal(m->n_kv_layers, 0);
        assert_int_equal(m->n_donor_layers, 2);
        assert_int_equal(m->donor_layers[0].layout, KV_LAYOUT_WINDOW);
        assert_int_equal(m->donor_layers[0].n_heads, 2);
        assert_int_equal(m->donor_layers[0].k_dim, 16);
        assert_int_equal(m->donor_layers[1].layout, KV_LAYOUT_FULL);
        assert_int_equal(m->donor_layers[1].n_heads, 1);
        assert_int_equal(m->donor_layers[1].k_dim, 32);
        for (graph_id id = 1; id < m->graph.n_values; id++) {
            const graph_value *v = &m->graph.values[id];
            assert_true(v->op != GRAPH_KV_APPEND && v->op != GRAPH_INPUT);
            if (v->op != GRAPH_ATTEND) continue;
            assert_int_equal(m->graph.values[v->in[1]].op, GRAPH_STATE);
            assert_int_equal(m->graph.values[v->in[1]].i[0], n_attend++ == 3 ? 1 : 0);
        }
        assert_int_equal(n_attend, 4);
        assert_int_equal(assistant_n_scores(m), i == 0 ? VOCAB : CENTROIDS);
        assert_int_equal(assistant_n_hidden(m), i == 0 ? WIDTH : WIDTH + OWN_WIDTH);
        uint64_t rows = (uint64_t)LOOKED_AT * VOCAB / CENTROIDS;
        assert_int_equal(assistant_bytes(m), i == 0 ? 0 : rows * OWN_WIDTH * 2);
        for (uint32_t r = 0; r < 2; r++) {
            assert_non_null(m->ropes[r].axes);
            for (uint32_t k = 0; k < m->ropes[r].n_pairs; k++)
                assert_int_equal(m->ropes[r].axes[k], 0);
        }
        llm_close(m);
    }
}

static void test_forms(void **state)
{
    (void)state;
    static const golden_change SAME[] = {
        {.config = {"\"num_kv_shared_layers\": 4", "\"num_kv_shared_layers\": 0"}},
        {.config = {"\"num_kv_shared_layers\": 4,", ""}},
        {.config = {"\"gemma4_assistant\"", "\"gemma4_unified_assistant\""}},
    };
    golden_copy s;
    weft_error err;
    golden_copy_open(&s, CENTROID);
    for (size_t i = 0; i < COUNT_OF(SAME); i++)
        assert_ok(golden_open_changed(&s, &SAME[i], &err), &err);
    golden_copy_close(&s);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        golden_change change;
        weft_status status;
        const char *message;
    } CASES[] = {
        {{.config = {"\"backbone_hidden_size\": 64,", ""}},
         WEFT_FORMAT,
         "config.json has no backbone_hidden_size"},
        {{.config = {"\"backbone_hidden_size\": 64,", "\"backbone_hidden_size\": 48,"}},
         WEFT_FORMAT,
         "tensor 'pre_projection.weight' is [32, 128], expected [32, 96]"},
        {{.config = {"\"enable_moe_block\": false",
                     "\"enable_moe_block\": true, \"num_experts\": 2,"
                     "\"top_k_experts\": 1, "
                     "\"moe_intermediate_size\": 8"}},
         WEFT_FORMAT,
         "config.json"},
        {{.config = {"\"use_double_wide_mlp\": false", "\"use_double_wide_mlp\": true"}},
         WEFT_UNSUPPORTED,
         "use_double_wide_mlp is not supported for an assistant"},
        {{.config = {"\"num_centroids\": 16", "\"num_centroids\": 15"}},
         WEFT_FORMAT,
         "4 of 15 centroids do not go with a vocabulary of 128"},
        {{.config = {"\"centroid_intermediate_top_k\": 4", "\"centroid_intermediate_top_k\": 17"}},
         WEFT_FORMAT,
         "17 of 16 centroids do not go with a vocabulary of 128"},
        {{.config = {"\"use_ordered_embeddings\": true", "\"use_ordered_embeddings\": false"}},
         WEFT_UNSUPPORTED,
         "has no place in architecture gemma4_assistant"},
        {{.without = "masked_embedding.centroids.weight"},
         WEFT_FORMAT,
         "tensor 'masked_embedding.centroids.weight' is missing"},
        {{.without = ORDER}, WEFT_FORMAT, "tensor '" ORDER "' is missing"},
        {{.without = "post_projection.weight"},
         WEFT_FORMAT,
         "tensor 'post_projection.weight' is missing"},
        {{.more = "model.layers.0.self_attn.k_proj.weight",
          .from = "pre_projection.weight",
          .without = "model.layers.0.self_attn.q_proj.weight"},
         WEFT_FORMAT,
         "q_proj.weight' is missing"},
    };
    golden_copy s;
    weft_error err;
    golden_copy_open(&s, CENTROID);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        weft_status status = golden_open_changed(&s, &CASES[i].change, &err);
        if (status != CASES[i].status || strstr(err.message, CASES[i].message) == NULL)
            fail_msg("case %zu: '%s'", i, err.message);
    }
    golden_copy_close(&s);
}

/* ---- the order of tokens -------------------------------------------------------------------- */

/* The centroid golden with another list of tokens, of n numbers. */
static weft_status open_ordered(const char *dtype, const void *numbers, uint64_t n, size_t size,
                                llm **m, weft_error *err)
{
    golden_copy s;
    test_folder folder;
    safetensors_builder b;
    golden_copy_open(&s, CENTROID);
    test_folder_create(&folder);
    safetensors_init(&b);
    for (uint32_t i = 0; i < s.w->n_tensors; i++)
        if (strcmp(s.w->tensors[i].name, ORDER) != 0)
            golden_add(&b, s.w->tensors[i].name, &s.w->tensors[i]);
    safetensors_add(&b, ORDER, dtype, &n, 1, numbers, (size_t)n * size);
    safetensors_write(&b, &folder, "model.safetensors");
    safetensors_deinit(&b);
    golden_write_config(&s, &folder, NULL);
    *err = (weft_error){0};
    weft_status status = llm_open(&s.env, folder.path, m, err);
    test_folder_remove(&folder);
    golden_copy_close(&s);
    return status;
}

static void assert_order_refused(const char *dtype, const void *numbers, uint64_t n, size_t size,
                                 weft_status expected, const char *message)
{
    llm *m = NULL;
    weft_error err;
    assert_status(expected, open_ordered(dtype, numbers, n, size, &m, &err), &err);
    assert_message(&err, message);
    assert_null(m);
}

static void test_order(void **state)
{
    (void)state;
    int64_t wide[VOCAB];
    int32_t narrow[VOCAB];
    float reals[VOCAB] = {0};
    for (int i = 0; i < VOCAB; i++) wide[i] = narrow[i] = (i * 37) % VOCAB;
    llm *a = NULL;
    llm *b = NULL;
    weft_error err;
    assert_ok(open_ordered("I64", wide, VOCAB, sizeof *wide, &a, &err), &err);
    assert_ok(open_ordered("I32", narrow, VOCAB, sizeof *narrow, &b, &err), &err);
    float scores[2][CENTROIDS];
    float hidden[WIDTH + OWN_WIDTH];
    float row[OWN_WIDTH];
    float logits[2][VOCAB];
    compare_fill(scores[0], CENTROIDS, 1.0F, 3);
    memcpy(scores[1], scores[0], sizeof scores[0]);
    compare_fill(hidden, WIDTH + OWN_WIDTH, 1.0F, 4);
    assistant_logits(a, scores[0], hidden, row, logits[0]);
    assistant_logits(b, scores[1], hidden, row, logits[1]);
    assert_floats_identical(logits[0], logits[1], VOCAB, 0);
    llm_close(a);
    llm_close(b);
    wide[100] = VOCAB;
    assert_order_refused("I64", wide, VOCAB, sizeof *wide, WEFT_FORMAT,
                         "tensor '" ORDER "': number 100 is 128, of 128 tokens");
    wide[100] = INT64_MIN;
    assert_order_refused("I64", wide, VOCAB, sizeof *wide, WEFT_FORMAT, "number 100 is -92233720");
    narrow[0] = -1;
    assert_order_refused("I32", narrow, VOCAB, sizeof *narrow, WEFT_FORMAT, "number 0 is -1");
    assert_order_refused("F32", reals, VOCAB, sizeof *reals, WEFT_UNSUPPORTED,
                         "has type F32, expected I32 or I64");
    assert_order_refused("I64", wide, VOCAB / 2, sizeof *wide, WEFT_FORMAT, "is [1, 64], expected");
}

/* Plainly, with every logit and every centroid; numbers that are none, and equal ones, included. */
static void check_logits(const llm *m, const float *scores, const float *hidden)
{
    const tensor *head = &m->tensors[m->bound[model_bound_at(&m->params, PART_EMBED, 0)] - 1];
    const tensor *order = &m->tensors[m->bound[model_bound_at(&m->params, GEMMA4_ORDER, 0)] - 1];
    double expected[VOCAB];
    bool seen[VOCAB] = {false};
    bool taken[CENTROIDS] = {false};
    double least = (double)INFINITY;
    float row[OWN_WIDTH];
    for (uint32_t k = 0; k < LOOKED_AT; k++) {
        uint32_t best = CENTROIDS;
        for (uint32_t c = 0; c < CENTROIDS; c++)
            if (!taken[c] && (best == CENTROIDS || scores[c] > scores[best])) best = c;
        taken[best] = true;
        for (uint32_t i = 0; i < VOCAB / CENTROIDS; i++) {
            int64_t id;
            memcpy(&id, order->planes[0] + (best * VOCAB / CENTROIDS + i) * sizeof id, sizeof id);
            head->encoding->decode_row(head, (uint64_t)id, row);
            double sum = 0.0;
            for (uint32_t j = 0; j < OWN_WIDTH; j++)
                sum += (double)row[j] * (double)hidden[WIDTH + j];
            expected[id] = sum;
            seen[id] = true;
            if (sum < least) least = sum;
        }
    }
    float used[CENTROIDS];
    float logits[VOCAB];
    memcpy(used, scores, sizeof used);
    assistant_logits(m, used, hidden, row, logits);
    for (uint32_t i = 0; i < VOCAB; i++) {
        double wanted = seen[i] ? expected[i] : least - 1.0;
        if (!(fabs((double)logits[i] - wanted) < 1e-5))
            fail_msg("token %u: %g, expected %g", i, (double)logits[i], wanted);
    }
}

static void test_logits(void **state)
{
    (void)state;
    llm *m = open_golden(CENTROID);
    float scores[CENTROIDS];
    float hidden[WIDTH + OWN_WIDTH];
    for (uint64_t seed = 1; seed < 20; seed++) {
        compare_fill(scores, CENTROIDS, 1.0F, seed);
        compare_fill(hidden, WIDTH + OWN_WIDTH, 2.0F, seed + 100);
        for (uint32_t i = 0; i < CENTROIDS && seed % 3 == 0; i++) scores[i] = roundf(scores[i]);
        check_logits(m, scores, hidden);
    }
    /* What is no number chooses nothing that is not there. */
    float logits[VOCAB];
    float row[OWN_WIDTH];
    for (uint32_t i = 0; i < CENTROIDS; i++) scores[i] = i % 2 == 0 ? NAN : -INFINITY;
    assistant_logits(m, scores, hidden, row, logits);
    for (uint32_t i = 0; i < CENTROIDS; i++) scores[i] = (float)i;
    for (uint32_t i = 0; i < WIDTH + OWN_WIDTH; i++) hidden[i] = NAN;
    assistant_logits(m, scores, hidden, row, logits);
    llm_close(m);
}

/* ---- whom it drafts for --------------------------------------------------------------------- */

static void test_donors(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        uint32_t width; /* that the assistant is made for, 0: as it is */
        weft_status status;
        const char *message;
    } CASES[] = {
        {"llama", 0, WEFT_UNSUPPORTED, "no layer of the model has a window, which it reads"},
        {"gemma4-dense", 0, WEFT_UNSUPPORTED,
         "layers with a window read 2 heads of 16, the model's last has 2 of 32"},
        {"gemma4-dense", 65, WEFT_ARGUMENT, "it drafts for a model of width 65, the model has 64"},
        {"bert", 0, WEFT_UNSUPPORTED, "it drafts for text models"},
    };
    llm *m = open_golden(DENSE);
    llm *target = open_golden(TARGET);
    uint32_t donors[2] = {9, 9};
    weft_error err = {0};
    /* Layers are sliding, full, sliding, full. */
    assert_ok(assistant_donors(m, target, donors, &err), &err);
    assert_int_equal(donors[0], 2);
    assert_int_equal(donors[1], 3);
    m->donor_layers[0].window = 25;
    assert_status(WEFT_UNSUPPORTED, assistant_donors(m, target, donors, &err), &err);
    assert_message(&err, "it reads windows of 25, the model's last is of 24");
    m->donor_layers[0].window = 24;
    llm_close(target);
    uint32_t width = m->params.target_embd;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        target = open_golden(CASES[i].target);
        m->params.target_embd = CASES[i].width != 0 ? CASES[i].width : target->params.n_embd;
        err = (weft_error){0};
        assert_status(CASES[i].status, assistant_donors(m, target, donors, &err), &err);
        assert_message(&err, CASES[i].message);
        llm_close(target);
    }
    m->params.target_embd = width;
    llm_close(m);
}

static void assert_not_opened(const weft_model *model, weft_engine_options o, weft_status status,
                              const char *message)
{
    weft_error err = {0};
    weft_engine *e = NULL;
    o.struct_size = sizeof o;
    o.n_threads = 1;
    assert_status(status, weft_engine_open(model, &o, &e, &err), &err);
    assert_null(e);
    assert_message(&err, message);
}

static void test_engines(void **state)
{
    (void)state;
    weft_model *target = run_open_model(GOLDEN_PATH(TARGET));
    weft_model *drafting = run_open_model(GOLDEN_PATH(DENSE));
    weft_model *llama = run_open_model(GOLDEN_PATH("llama"));
    weft_model_info info = {.struct_size = sizeof info};
    uint64_t bytes;
    weft_error err = {0};
    assert_ok(weft_model_get_info(target, &info, &err), &err);
    assert_int_equal(info.drafts_for, 0);
    assert_ok(weft_model_get_info(drafting, &info, &err), &err);
    assert_int_equal(info.drafts_for, WIDTH);
    assert_not_opened(drafting, (weft_engine_options){0}, WEFT_UNSUPPORTED,
                      "the model says nothing alone: it drafts for models of width 64");
    assert_not_opened(drafting, (weft_engine_options){.draft_model = drafting}, WEFT_UNSUPPORTED,
                      "the model says nothing alone");
    assert_status(WEFT_UNSUPPORTED, weft_model_state_bytes(drafting, NULL, 10, &bytes, &err), &err);
    assert_not_opened(target, (weft_engine_options){.draft_model = drafting, .draft_kv = "bf16"},
                      WEFT_ARGUMENT, "draft_model: draft_kv is 'bf16', and it stores nothing");
    assert_not_opened(llama, (weft_engine_options){.draft_model = drafting}, WEFT_ARGUMENT,
                      "draft_model: it has a vocabulary of 128, the model one of 320");
    weft_model_close(llama);
    weft_model_close(drafting);
    weft_model_close(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph),   cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_order),
        cmocka_unit_test(test_logits),  cmocka_unit_test(test_donors),
        cmocka_unit_test(test_engines),
    };
    return TEST_RUN("models/assistant", tests);
}
