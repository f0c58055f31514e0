/* test_host.c - pages in plain memory: conversion gives the rows that encoding at once would; and
 * which experts a token goes to, which positions it attends to, and what inputs are rounded to. */
#include "backend/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/rng.h"
#include "kv/config.h"
#include "support/test.h"
#include "tensor/encoding.h"

enum { ROWS = 11 };

static const kv_layer LAYER = {.layout = KV_LAYOUT_FULL, .n_heads = 3, .k_dim = 64, .v_dim = 96};
static const kv_layer INDEX = {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 72};
static const kv_layer LATENT = {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 75, .v_dim = 64};

static float number(uint64_t *counter)
{
    return (float)((double)(rng_u64(5, (*counter)++) >> 40) / 8388608.0 - 1.0);
}

/* Page rows of a geometry from numbers that do not depend on it. */
static void fill_page(const kv_geometry *g, unsigned char *page)
{
    const kv_codec *k = kv_codec_by_id(g->k_codec);
    const kv_codec *v = kv_codec_by_id(g->v_codec);
    const kv_codec *base = kv_codec_by_id(g->base);
    uint64_t counter = 0;
    float row[96];
    for (size_t h = 0; h < g->n_heads; h++) {
        for (size_t i = 0; i < ROWS; i++) {
            size_t at = h * g->page_tokens + i;
            for (uint32_t d = 0; d < g->k_dim; d++) row[d] = number(&counter);
            unsigned char *key = page + at * g->k_row_bytes;
            k->encode_row(k, g->base, key, row, g->k_coded);
            base->encode_row(base, g->base, key + g->k_tail, row + g->k_coded,
                             g->k_dim - g->k_coded);
            if (!kv_has_values(g)) continue;
            for (uint32_t d = 0; d < g->v_dim; d++) row[d] = number(&counter);
            v->encode_row(v, g->base, page + g->v_offset + at * g->v_row_bytes, row, g->v_dim);
        }
    }
}

static void check_conversion(const kv_layer *layer, const char *codecs, const char *base)
{
    arena a;
    kv_spec spec;
    kv_config c;
    weft_error err = {0};
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_spec_parse(codecs, base, &spec, &err), &err);
    assert_ok(kv_config_init(&c, &a, layer, 1, &spec, &bounds, &err), &err);
    unsigned char *dense = calloc(1, c.bases[0].page_bytes);
    unsigned char *packed = calloc(1, c.geometries[0].page_bytes);
    unsigned char *expected = calloc(1, c.geometries[0].page_bytes);
    assert_true(dense != NULL && packed != NULL && expected != NULL);
    fill_page(&c.bases[0], dense);
    fill_page(&c.geometries[0], expected);
    backend_conversion of = {&c.bases[0], &c.geometries[0], dense, packed, ROWS, c.row};
    host_convert(NULL, &of);
    assert_memory_equal(packed, expected, c.geometries[0].page_bytes);
    free(dense);
    free(packed);
    free(expected);
    arena_deinit(&a);
}

/* As rows are rounded to base before they are packed. */
static void test_conversion_is_encoding(void **state)
{
    (void)state;
    static const char *const BASES[] = {"f32", "f16", "bf16"};
    static const char *const INDICES[] = {"bf16,start=4", "affine4g64,index=affine8g32,start=4",
                                          "index=tk4,start=4", "index=affine4g32,start=4"};
    static const char *const CODECS[] = {"affine8g64,start=4", "affine4g32,start=4",
                                         "turbo-k8v4,start=4", "k=tk2,v=tv2,start=4",
                                         "q8_0,start=4"};
    for (size_t i = 0; i < sizeof CODECS / sizeof CODECS[0]; i++) {
        for (size_t b = 0; b < sizeof BASES / sizeof BASES[0]; b++) {
            check_conversion(&LAYER, CODECS[i], BASES[b]);
            /* Turbo has no codec for both. */
            if (strchr(CODECS[i], 't') == strstr(CODECS[i], "tart"))
                check_conversion(&LATENT, CODECS[i], BASES[b]);
            check_conversion(&INDEX, INDICES[i % 4], BASES[b]);
        }
    }
}

enum { EXPERTS = 6, MOST_K = 6 };

/* top_k, groups, of them that stay, flags, scale */
typedef struct route_case {
    graph_route how;
    float scores[EXPERTS], bias[EXPERTS], factor[EXPERTS];
    uint32_t experts[MOST_K];
    double weights[MOST_K];
} route_case;

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void check_route(const route_case *c)
{
    double p[EXPERTS];
    double chooser[EXPERTS];
    bool stays[EXPERTS];
    float y[2 * MOST_K];
    graph_value v = {.i = {c->how.top_k, c->how.n_groups == 0 ? 1 : c->how.n_groups,
                           c->how.n_top_groups, c->how.flags},
                     .f = {c->how.scale, 0}};
    bool with_bias = c->bias[0] != 0.0F;
    bool with_factor = c->factor[0] != 0.0F;
    host_route(&v, EXPERTS, c->scores, with_bias ? c->bias : NULL, with_factor ? c->factor : NULL,
               (host_router){p, chooser, stays}, y);
    for (uint32_t k = 0; k < c->how.top_k; k++) {
        assert_int_equal((uint32_t)y[k], c->experts[k]);
        assert_true(fabs((double)y[c->how.top_k + k] - c->weights[k]) < 1e-6);
    }
}

static void test_experts_that_are_chosen(void **state)
{
    (void)state;
    const double all = exp(0.0) + 2 * exp(1.0) + exp(2.0) + exp(-1.0) + exp(0.5);
    const route_case cases[] = {
        /* Largest first, the first of equals first. */
        {.how = {.top_k = 3, .scale = 1.0F},
         .scores = {0, 1, 2, 1, -1, 0.5F},
         .experts = {2, 1, 3},
         .weights = {exp(2.0) / all, exp(1.0) / all, exp(1.0) / all}},
        {.how = {.top_k = 2, .flags = GRAPH_ROUTE_NORMALIZE, .scale = 2.0F},
         .scores = {0, 1, 2, 1, -1, 0.5F},
         .experts = {2, 1},
         .weights = {2 * sigmoid(1.0), 2 * sigmoid(-1.0)}},
        /* A bias chooses, and is not in the weights. */
        {.how = {.top_k = 2, .flags = GRAPH_ROUTE_SIGMOID, .scale = 2.5F},
         .scores = {0, 1, 2, 1, -1, 0.5F},
         .bias = {0.1F, 0, -5, 0, 1, 0},
         .experts = {4, 1},
         .weights = {2.5 * sigmoid(-1.0), 2.5 * sigmoid(1.0)}},
        /* Of two groups the one with the largest pair, not the one with the largest expert. */
        {.how = {.top_k = 2,
                 .n_groups = 2,
                 .n_top_groups = 1,
                 .flags = GRAPH_ROUTE_SIGMOID | GRAPH_ROUTE_NORMALIZE,
                 .scale = 1.0F},
         .scores = {3, -3, -4, 2, -9, 2},
         .experts = {3, 5},
         .weights = {0.5, 0.5}},
        /* All that stay are below 0, those that do not are not. */
        {.how = {.top_k = 3,
                 .n_groups = 2,
                 .n_top_groups = 1,
                 .flags = GRAPH_ROUTE_SIGMOID,
                 .scale = 1.0F},
         .scores = {0, 0, 0, 0, 0, 0},
         .bias = {-2, -2, -9, 4, -9, -9},
         .experts = {0, 1, 2},
         .weights = {0.5, 0.5, 0.5}},
        {.how = {.top_k = 1, .flags = GRAPH_ROUTE_NORMALIZE, .scale = 1.0F},
         .scores = {0, 1, 2, 1, -1, 0.5F},
         .factor = {1, 1, -7, 1, 1, 1},
         .experts = {2},
         .weights = {-7}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_route(&cases[i]);
}

/* Whatever the scores, the ids are experts, each once. */
static void test_experts_of_any_scores(void **state)
{
    (void)state;
    static const float ODD[] = {NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 1e38F, -1e38F, 1.0F};
    uint64_t counter = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        double p[EXPERTS];
        double chooser[EXPERTS];
        bool stays[EXPERTS];
        float scores[EXPERTS];
        float bias[EXPERTS];
        float y[2 * EXPERTS];
        uint32_t n_groups = 1 + (uint32_t)(rng_u64(9, counter++) % 3);
        uint32_t n_top = 1 + (uint32_t)(rng_u64(9, counter++) % n_groups);
        uint32_t top_k = 1 + (uint32_t)(rng_u64(9, counter++) % (EXPERTS / n_groups * n_top));
        for (uint32_t e = 0; e < EXPERTS; e++) {
            scores[e] = ODD[rng_u64(9, counter++) % 8];
            bias[e] = ODD[rng_u64(9, counter++) % 8];
        }
        graph_value v = {.i = {top_k, n_groups, n_top, round % 4}, .f = {1.0F, 0}};
        host_route(&v, EXPERTS, scores, round % 3 == 0 ? bias : NULL, NULL,
                   (host_router){p, chooser, stays}, y);
        for (uint32_t k = 0; k < top_k; k++) {
            assert_true(y[k] >= 0.0F && y[k] < (float)EXPERTS);
            for (uint32_t j = 0; j < k; j++) assert_true(y[j] != y[k]);
        }
    }
}

/* ---- positions that are chosen --------------------------------------------------------------- */

enum { SCORES = 700 };

/* What is said of select, one position after the other: the largest that is left, the first of
 * equals, NaN last; then in ascending order. */
static void choose_plainly(const float *scores, uint32_t n, uint32_t first, uint32_t top_k,
                           uint32_t *list)
{
    bool chosen[SCORES] = {false};
    uint32_t n_chosen = 0;
    while (n_chosen < top_k && n_chosen < n) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            if (chosen[i]) continue;
            bool better = best == n || scores[i] > scores[best];
            if (better || (isnan(scores[best]) && !isnan(scores[i]))) best = i;
        }
        chosen[best] = true;
        n_chosen++;
    }
    list[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (chosen[i]) list[1 + list[0]++] = first + i;
    }
}

static void check_chosen(const float *scores, uint32_t n, uint32_t first, uint32_t top_k)
{
    uint32_t bins[HOST_SELECT_BINS];
    uint32_t list[SCORES + 2];
    uint32_t expected[SCORES + 2];
    list[1 + top_k] = 4711;
    choose_plainly(scores, n, first, top_k, expected);
    host_select(scores, n, first, top_k, bins, list);
    assert_int_equal(list[0], n < top_k ? n : top_k);
    assert_memory_equal(list, expected, (1 + list[0]) * sizeof *list);
    assert_int_equal(list[1 + top_k], 4711);
}

static void test_positions_that_are_chosen(void **state)
{
    (void)state;
    static const float ODD[] = {NAN,   INFINITY, -INFINITY, 0.0F,      -0.0F,
                                1e38F, -1e38F,   1.0F,      0x1p-149F, -0x1p-149F};
    static const float FEW[] = {0, 3, 0, -1, 3, 0, 2};
    uint32_t bins[HOST_SELECT_BINS];
    uint32_t list[8];
    host_select(FEW, 7, 10, 4, bins, list);
    assert_memory_equal(list, ((const uint32_t[]){4, 10, 11, 14, 16}), 5 * sizeof *list);
    host_select(FEW, 7, 10, 7, bins, list);
    assert_int_equal(list[0], 7);
    host_select(FEW, 0, 10, 7, bins, list);
    assert_int_equal(list[0], 0);
    uint64_t counter = 0;
    for (uint32_t round = 0; round < 400; round++) {
        float scores[SCORES];
        uint32_t n = 1 + (uint32_t)(rng_u64(4, counter++) % (round % 10 == 0 ? SCORES : 40));
        uint32_t top_k = 1 + (uint32_t)(rng_u64(4, counter++) % (n + 2));
        for (uint32_t i = 0; i < n; i++) {
            float any = number(&counter) * (round % 4 == 1 ? 1e-3F : 1e3F);
            if (round % 4 == 0) any = ODD[rng_u64(4, counter++) % 10];
            if (round % 4 == 2) any = floorf(any / 400.0F); /* ties */
            scores[i] = any;
        }
        check_chosen(scores, n, round, top_k > SCORES ? SCORES : top_k);
    }
}

/* A column that is not finite makes the block that it is in NaN, wherever it stands there. */
static void test_input_of_8_bits(void **state)
{
    (void)state;
    enum { N = 2 * HOST_I8_COLUMNS + 32 };
    const tensor codes = {.encoding = encoding_by_id(ENCODING_ID_Q4_0)};
    const tensor plain = {.encoding = encoding_by_id(ENCODING_ID_BF16)};
    float x[N];
    float y[N];
    for (uint32_t i = 0; i < N; i++) x[i] = (float)i - 70.0F;
    x[3] = NAN;
    x[N - 1] = 0.3F;
    host_round_input(WEFT_ACT_INT8, &codes, false, x, N, y);
    for (uint32_t i = 0; i < HOST_I8_COLUMNS; i++) assert_true(isnan(y[i]));
    for (uint32_t i = HOST_I8_COLUMNS; i < N; i++) {
        float largest = i < 2 * HOST_I8_COLUMNS ? 57.0F : 88.0F;
        assert_true(fabsf(y[i] - x[i]) <= largest / 254.0F * 1.0001F);
    }
    assert_true(y[N - 1] == 0.0F);
    for (int turned = 0; turned < 2; turned++) {
        host_round_input(WEFT_ACT_INT8, turned == 1 ? &codes : &plain, turned == 1, x, N, y);
        for (uint32_t i = 4; i < N; i++) assert_true(y[i] == fp_round_bf16(x[i]));
    }
    host_round_input(WEFT_ACT_F32, &codes, false, x, N, y);
    assert_memory_equal(y, x, sizeof y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversion_is_encoding),
        cmocka_unit_test(test_experts_that_are_chosen),
        cmocka_unit_test(test_experts_of_any_scores),
        cmocka_unit_test(test_positions_that_are_chosen),
        cmocka_unit_test(test_input_of_8_bits),
    };
    return TEST_RUN("backend/host", tests);
}
