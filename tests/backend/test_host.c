/* test_host.c - pages in plain memory: conversion gives the rows that encoding at once would. */
#include "backend/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kv/config.h"
#include "support/test.h"

enum { ROWS = 11 };

static const kv_layer LAYER = {.layout = KV_LAYOUT_FULL, .n_heads = 3, .k_dim = 64, .v_dim = 96};

static float number(uint64_t *counter)
{
    return (float)((double)(rng_u64(5, (*counter)++) >> 40) / 8388608.0 - 1.0);
}

/* Page rows of a geometry from numbers that do not depend on it. */
static void fill_page(const kv_geometry *g, unsigned char *page)
{
    const kv_codec *k = kv_codec_by_id(g->k_codec);
    const kv_codec *v = kv_codec_by_id(g->v_codec);
    uint64_t counter = 0;
    float row[96];
    for (size_t h = 0; h < g->n_heads; h++) {
        for (size_t i = 0; i < ROWS; i++) {
            size_t at = h * g->page_tokens + i;
            for (uint32_t d = 0; d < g->k_dim; d++) row[d] = number(&counter);
            k->encode_row(k, g->base, page + at * g->k_row_bytes, row, g->k_dim);
            for (uint32_t d = 0; d < g->v_dim; d++) row[d] = number(&counter);
            v->encode_row(v, g->base, page + g->v_offset + at * g->v_row_bytes, row, g->v_dim);
        }
    }
}

static void check_conversion(const char *codecs, const char *base)
{
    arena a;
    kv_spec spec;
    kv_config c;
    weft_error err = {0};
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_spec_parse(codecs, base, &spec, &err), &err);
    assert_ok(kv_config_init(&c, &a, &LAYER, 1, &spec, &bounds, &err), &err);
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
    static const char *const CODECS[] = {"affine8g64,start=4", "affine4g32,start=4",
                                         "turbo-k8v4,start=4", "k=tk2,v=tv2,start=4",
                                         "q8_0,start=4"};
    for (size_t i = 0; i < sizeof CODECS / sizeof CODECS[0]; i++) {
        for (size_t b = 0; b < sizeof BASES / sizeof BASES[0]; b++) {
            check_conversion(CODECS[i], BASES[b]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conversion_is_encoding)};
    return TEST_RUN("backend/host", tests);
}
