/* test_config.c - geometries and sizes from layers and codec specs. */
#include "kv/config.h"
#include "support/fault.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"

static kv_spec spec_of(const char *text)
{
    kv_spec spec;
    weft_error err = {0};
    assert_ok(kv_spec_parse(text, "f32", &spec, &err), &err);
    return spec;
}

static const kv_layer LAYERS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 16, .v_dim = 24},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 3, .k_dim = 5, .v_dim = 7, .window = 20},
    {.layout = KV_LAYOUT_FULL, .n_heads = 4, .k_dim = 12, .v_dim = 8},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 2, .k_dim = 16, .v_dim = 24, .window = 1000},
};

/* KV-28: sizes are what codec, heads and dims say, each plane aligned to 64. */
static void test_kv28_geometries(void **state)
{
    (void)state;
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_spec spec = spec_of("k=f32,v=bf16");
    kv_bounds bounds = {.context = 500, .most_append = 40, .page_tokens = 32};
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_config_init(&c, &a, LAYERS, COUNT_OF(LAYERS), &spec, &bounds, &err), &err);
    for (uint32_t i = 0; i < COUNT_OF(LAYERS); i++) {
        const kv_geometry *g = &c.geometries[i];
        const kv_layer *l = &LAYERS[i];
        assert_int_equal(g->layout, l->layout);
        assert_int_equal(g->k_codec, spec.k->id);
        assert_int_equal(g->v_codec, spec.v->id);
        assert_int_equal(g->window, l->window);
        assert_int_equal(g->page_tokens, 32);
        assert_int_equal(g->k_row_bytes, 4 * l->k_dim);
        assert_int_equal(g->v_row_bytes, 2 * l->v_dim);
        size_t k_plane = (size_t)l->n_heads * 32 * g->k_row_bytes;
        size_t v_plane = (size_t)l->n_heads * 32 * g->v_row_bytes;
        assert_int_equal(g->v_offset, (k_plane + 63) / 64 * 64);
        assert_int_equal(g->page_bytes, g->v_offset + (v_plane + 63) / 64 * 64);
        assert_int_equal(c.class_bytes[c.class_of[i]], g->page_bytes);
    }
    assert_int_equal(c.class_of[0], c.class_of[3]);
    assert_int_not_equal(c.class_of[0], c.class_of[1]);
    assert_int_equal(c.n_slots[0], 16);
    assert_int_equal(c.n_slots[1], 3);  /* ceil(60 / 32) + 1 */
    assert_int_equal(c.n_slots[3], 16); /* never more than the context has */
    assert_int_equal(c.slots_total, 16 + 3 + 16 + 16);
    arena_deinit(&a);
}

/* Packed rows: exact sizes, and what they cannot hold is refused by name before anything is made.
 * */
static void test_packed_geometries(void **state)
{
    (void)state;
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_bounds bounds = {.context = 500, .most_append = 40, .page_tokens = 64};
    kv_layer l = {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 128, .v_dim = 80};
    static const struct {
        const char *text;
        size_t k_bytes, v_bytes; /* of a row, with parameters in bf16 */
    } CASES[] = {{"affine8g64", 136, 88},
                 {"affine4g32", 80, 52},
                 {"turbo-k8v3", 144, 36},
                 {"turbo-k5v5", 96, 56},
                 {"k=q8_0,v=tv8", 136, 86}};
    arena_init(&a, mem_system(), 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_spec spec;
        assert_ok(kv_spec_parse(CASES[i].text, "bf16", &spec, &err), &err);
        assert_ok(kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
        const kv_geometry *g = &c.geometries[0];
        assert_int_equal(g->base, KV_BASE_BF16);
        assert_int_equal(g->k_row_bytes, CASES[i].k_bytes);
        assert_int_equal(g->v_row_bytes, CASES[i].v_bytes);
        assert_int_equal(g->v_offset, 2 * 64 * CASES[i].k_bytes);
        assert_int_equal(g->page_bytes, 2 * 64 * (CASES[i].k_bytes + CASES[i].v_bytes));
    }
    kv_spec spec = spec_of("affine8g64");
    assert_ok(kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
    assert_int_equal(c.geometries[0].k_row_bytes, 128 + 2 * 2 * 4);
    spec = spec_of("q8_0");
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
    assert_message(&err, "kv codec 'q8_0': layer 0 has heads of 80, not a multiple of 32");
    spec = spec_of("turbo-k8v3");
    l.k_dim = 2048;
    err = (weft_error){0};
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
    assert_message(&err, "kv codec 'tk8': layer 0 has heads of 2048, at most 1024");
    arena_deinit(&a);
}

/* Keys alone, in the base unless the spec names a codec for them. */
static void test_index_geometries(void **state)
{
    (void)state;
    static const struct {
        const char *text, *base;
        size_t row_bytes;
    } CASES[] = {
        {"bf16", "bf16", 2 * 128},
        {"affine4g64", "bf16", 2 * 128},
        {"affine4g64,0..1=f32", "bf16", 2 * 128},
        {"f16,index=f32", "bf16", 4 * 128},
        {"affine4g64,index=affine8g64", "bf16", 128 + 8},
        {"index=tk8,start=9", "f32", 128 + 16},
    };
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_bounds bounds = {.context = 500, .most_append = 40, .page_tokens = 64};
    const kv_layer layers[] = {
        {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 152, .v_dim = 128},
        {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 152, .v_dim = 128},
        {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 128, .of = 1},
    };
    arena_init(&a, mem_system(), 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_spec spec;
        kv_spec own;
        assert_ok(kv_spec_parse(CASES[i].text, CASES[i].base, &spec, &err), &err);
        spec.n_model_layers = 2;
        assert_ok(kv_config_init(&c, &a, layers, 3, &spec, &bounds, &err), &err);
        const kv_geometry *g = &c.geometries[2];
        assert_int_equal(g->k_row_bytes, CASES[i].row_bytes);
        assert_int_equal(g->k_coded, 128);
        assert_int_equal(g->v_offset, 0);
        assert_int_equal(g->page_bytes, 64 * CASES[i].row_bytes);
        kv_spec_at(&spec, &layers[2], 2, 3, &own);
        assert_int_equal(kv_spec_bytes(&own, &layers[2]), CASES[i].row_bytes);
        assert_int_equal(c.n_slots[2], 8);
        assert_int_equal(c.bases[2].k_row_bytes, 128 * (spec.base == KV_BASE_F32 ? 4 : 2));
        assert_true(kv_keeps_all(&c, 2));
    }
    kv_spec spec;
    assert_ok(kv_spec_parse("index=affine8g32", "bf16", &spec, &err), &err);
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, layers, 2, &spec, &bounds, &err), &err);
    assert_message(&err, "kv codec 'index=affine8g32': none of 2 layers has an index");
    const kv_layer odd[] = {layers[0], {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 20}};
    err = (weft_error){0};
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, odd, 2, &spec, &bounds, &err), &err);
    assert_message(&err, "kv codec 'affine8g32': layer 0 has heads of 20, not a multiple of 8");
    arena_deinit(&a);
}

/* One record a position: what is key and value packed, the rest of a key in base, no values. */
static void test_latent_geometries(void **state)
{
    (void)state;
    static const struct {
        const char *text, *base;
        size_t row_bytes;
        uint32_t coded;
    } CASES[] = {
        {"bf16", "bf16", 2 * (128 + 24), 152},        {"f16", "bf16", 2 * (128 + 24), 152},
        {"f32", "f32", 4 * (128 + 24), 152},          {"affine8g64", "bf16", 136 + 48, 128},
        {"affine4g32", "f32", 64 + 8 * 4 + 96, 128},  {"q8_0", "bf16", 136 + 48, 128},
        {"affine8g64,start=9", "bf16", 136 + 48, 128}};
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_bounds bounds = {.context = 500, .most_append = 40, .page_tokens = 64};
    kv_layer l = {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 152, .v_dim = 128};
    arena_init(&a, mem_system(), 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_spec spec;
        assert_ok(kv_spec_parse(CASES[i].text, CASES[i].base, &spec, &err), &err);
        assert_ok(kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
        const kv_geometry *g = &c.geometries[0];
        assert_int_equal(g->k_row_bytes, CASES[i].row_bytes);
        assert_int_equal(g->k_coded, CASES[i].coded);
        assert_int_equal(g->k_tail, kv_codec_row_bytes(spec.k, spec.base, g->k_coded));
        assert_int_equal(g->v_row_bytes, g->k_row_bytes);
        assert_int_equal(g->v_offset, 0);
        assert_int_equal(g->page_bytes, 64 * CASES[i].row_bytes);
        assert_int_equal(kv_spec_bytes(&spec, &l), CASES[i].row_bytes);
        assert_int_equal(c.n_slots[0], 8);
        assert_int_equal(c.bases[0].page_bytes, 64 * 152 * (spec.base == KV_BASE_F32 ? 4 : 2));
    }
    static const struct {
        const char *text, *message;
    } REFUSED[] = {
        {"turbo-k8v3", "kv codec 'turbo-k8v3': layer 0 stores one latent for keys and values; use "
                       "affine8g64 or bf16"},
        {"v=tv4", "kv codec 'k=bf16,v=tv4': layer 0 stores one latent"},
        {"k=tk8", "kv codec 'k=tk8,v=bf16': layer 0 stores one latent"},
        {"k=f16", "kv codec 'k=f16,v=bf16': layer 0 stores one latent for keys and values; use one "
                  "codec for both"},
    };
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        kv_spec spec;
        err = (weft_error){0};
        assert_ok(kv_spec_parse(REFUSED[i].text, "bf16", &spec, &err), &err);
        assert_status(WEFT_UNSUPPORTED, kv_spec_check(&spec, &l, 1, &err), &err);
        assert_message(&err, REFUSED[i].message);
    }
    l.v_dim = 36;
    kv_spec spec = spec_of("q8_0");
    err = (weft_error){0};
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
    assert_message(&err, "kv codec 'q8_0': layer 0 has heads of 36, not a multiple of 32");
    arena_deinit(&a);
}

static void test_need(void **state)
{
    (void)state;
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_spec spec = spec_of("f16");
    kv_bounds bounds = {.context = 500, .most_append = 40, .page_tokens = 32};
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_config_init(&c, &a, LAYERS, COUNT_OF(LAYERS), &spec, &bounds, &err), &err);
    for (uint32_t n = 0; n <= 500; n++) {
        uint32_t need[COUNT_OF(LAYERS)];
        uint32_t base[COUNT_OF(LAYERS)];
        uint64_t bytes = 0;
        uint32_t pages = 0;
        kv_config_need(&c, n, need, base);
        for (uint32_t i = 0; i < c.n_classes; i++) {
            bytes += need[i] * c.class_bytes[i];
            pages += need[i];
            assert_int_equal(base[i], 0);
        }
        uint32_t all = (n + 31) / 32;
        assert_int_equal(pages, 3 * all + (all < 3 ? all : 3));
        assert_int_equal(kv_config_bytes(&c, n), bytes);
    }
    arena_deinit(&a);
}

/* Nothing wraps: 64-bit sizes, and what cannot be counted is refused (B16). */
static void test_kv61_large_numbers(void **state)
{
    (void)state;
    kv_spec spec = spec_of("f32");
    kv_bounds bounds = {.context = UINT32_MAX, .most_append = UINT32_MAX, .page_tokens = 16};
    kv_layer l = {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 1, .v_dim = 1};
    kv_layer eight[8] = {l, l, l, l, l, l, l, l};
    arena a;
    kv_config c;
    weft_error err = {0};
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_config_init(&c, &a, eight, 2, &spec, &bounds, &err), &err);
    assert_int_equal(c.n_slots[0], 1u << 28);
    assert_int_equal(kv_config_bytes(&c, UINT32_MAX), 2ull * (1u << 28) * 128);
    assert_status(WEFT_LIMIT, kv_config_init(&c, &a, eight, 8, &spec, &bounds, &err), &err);
    assert_message(&err, "8 layers of 4294967295 positions need more than 1073741824 pages");
    l.layout = KV_LAYOUT_WINDOW;
    l.window = UINT32_MAX;
    err = (weft_error){0};
    assert_ok(kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
    assert_int_equal(c.n_slots[0], 1u << 28);
    static const uint32_t BIG[][3] = {{UINT32_MAX, UINT32_MAX, UINT32_MAX},
                                      {1u << 16, 1u << 12, 1},
                                      {1, 1, UINT32_MAX},
                                      {1, UINT32_MAX, 1},
                                      {1u << 31, 1u << 29, 1}};
    for (size_t i = 0; i < COUNT_OF(BIG); i++) {
        l = (kv_layer){
            .layout = KV_LAYOUT_FULL, .n_heads = BIG[i][0], .k_dim = BIG[i][1], .v_dim = BIG[i][2]};
        err = (weft_error){0};
        assert_status(WEFT_LIMIT, kv_config_init(&c, &a, &l, 1, &spec, &bounds, &err), &err);
        assert_message(&err, "layer 0: a page of");
    }
    arena_deinit(&a);
}

static const kv_layer STATE = {.layout = KV_LAYOUT_RECURRENT, .buffers = {30, 1000}, .record = 50};

/* A recurrent layer stores the same whatever the codec: two states a sequence, a third where
 * steps may mark one, and a record where parts of steps may be kept. */
static void test_recurrent_geometry(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"f32", "affine8g32,start=20"};
    const kv_layer layers[] = {
        STATE, {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 32, .v_dim = 32}, STATE};
    for (size_t i = 0; i < COUNT_OF(SPECS); i++) {
        for (uint32_t verify = 0; verify <= 17; verify += 17) {
            bool marks = verify > 0 && i == 0;
            arena a;
            kv_config c;
            kv_spec spec = spec_of(SPECS[i]);
            kv_bounds bounds = {.context = 64,
                                .most_append = 16,
                                .page_tokens = 16,
                                .most_verify = verify,
                                .marks = marks};
            weft_error err = {0};
            arena_init(&a, mem_system(), 0);
            assert_ok(kv_config_init(&c, &a, layers, 3, &spec, &bounds, &err), &err);
            assert_int_equal(c.n_recurrent, 2);
            assert_int_equal(c.n_slots[0], 0);
            assert_int_equal(c.slots_total, c.n_slots[1]);
            const kv_geometry *g = &c.geometries[0];
            assert_int_equal(g->buffers_at[KV_BUFFER_TAIL], 0);
            assert_int_equal(g->buffers_at[KV_BUFFER_MATRIX], 128);
            assert_int_equal(g->page_bytes, 128 + 4032);
            assert_int_equal(g->record_bytes, 200);
            assert_memory_equal(g, &c.bases[0], sizeof *g);
            uint32_t need[8];
            uint32_t base[8];
            kv_config_need(&c, 10, need, base);
            assert_int_equal(need[c.class_of[0]], marks ? 6 : 4);
            assert_int_equal(base[c.class_of[0]], 0);
            if (verify > 0) assert_int_equal(need[c.record_class_of[2]], 2);
            uint64_t fixed = (marks ? 6U : 4U) * 4160U + (verify > 0 ? 2U * 3456U : 0U);
            const kv_geometry *pages = i == 0 ? &c.geometries[1] : &c.bases[1];
            assert_int_equal(kv_config_bytes(&c, 10), fixed + pages->page_bytes);
            arena_deinit(&a);
        }
    }
}

/* A cross layer has its encoder's positions, in its codecs from the first, whatever start is. */
static void test_cross_geometry(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"bf16", "affine8g32", "turbo-k8v4,start=20"};
    const kv_layer layers[] = {
        {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 32, .v_dim = 64},
        {.layout = KV_LAYOUT_CROSS, .n_heads = 2, .k_dim = 32, .v_dim = 64},
        {.layout = KV_LAYOUT_CROSS, .n_heads = 1, .k_dim = 64, .v_dim = 32},
    };
    for (size_t i = 0; i < COUNT_OF(SPECS); i++) {
        arena a;
        kv_config c;
        kv_spec spec = spec_of(SPECS[i]);
        kv_bounds bounds = {
            .context = 64, .most_append = 16, .page_tokens = 16, .cross_context = 100};
        weft_error err = {0};
        uint32_t need[8];
        uint32_t base[8];
        arena_init(&a, mem_system(), 0);
        assert_ok(kv_config_init(&c, &a, layers, 3, &spec, &bounds, &err), &err);
        assert_int_equal(c.n_cross, 2);
        assert_int_equal(c.n_slots[0], 4);
        assert_int_equal(c.n_slots[1], 7);
        assert_int_equal(c.slots_total, 18);
        assert_int_equal(c.geometries[1].k_row_bytes, c.geometries[0].k_row_bytes);
        assert_int_equal(c.geometries[1].v_row_bytes, c.geometries[0].v_row_bytes);
        assert_int_equal(c.class_of[1], c.class_of[0]);
        assert_int_equal(c.base_class_of[1], c.class_of[1]);
        assert_memory_equal(&c.bases[1], &c.geometries[1], sizeof c.bases[1]);
        kv_config_need(&c, 64, need, base);
        uint32_t n_cross[8];
        assert_int_equal(need[c.class_of[0]], 4);
        for (uint32_t n = 0; n <= 100; n++) {
            uint64_t bytes = 0;
            kv_config_need_cross(&c, n, n_cross);
            for (uint32_t k = 0; k < c.n_classes; k++) bytes += n_cross[k] * c.class_bytes[k];
            uint64_t pages = (n + 15) / 16;
            assert_int_equal(bytes,
                             pages * (c.geometries[1].page_bytes + c.geometries[2].page_bytes));
        }
        const kv_geometry *before = c.start == 0 ? NULL : &c.bases[0];
        assert_int_equal(kv_config_bytes(&c, 64),
                         4 * c.geometries[0].page_bytes + 7 * c.geometries[1].page_bytes +
                             7 * c.geometries[2].page_bytes +
                             (before == NULL ? 0 : 2 * before->page_bytes));
        arena_deinit(&a);
    }
    /* A codec that fits no head is refused, and what cannot be counted. */
    kv_layer odd = {.layout = KV_LAYOUT_CROSS, .n_heads = 1, .k_dim = 12, .v_dim = 32};
    kv_spec packed = spec_of("affine8g32");
    kv_spec dense = spec_of("bf16");
    kv_config c;
    arena a;
    weft_error err = {0};
    kv_bounds bounds = {
        .context = 64, .most_append = 16, .page_tokens = 16, .cross_context = UINT32_MAX};
    arena_init(&a, mem_system(), 0);
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, &odd, 1, &packed, &bounds, &err), &err);
    assert_message(&err, "kv codec 'affine8g32': layer 0 has heads of 12, not a multiple of 8");
    const kv_layer five[] = {odd, odd, odd, odd, odd};
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_config_init(&c, &a, five, 5, &dense, &bounds, &err), &err);
    assert_message(&err, "5 layers of 4294967295 positions need more than");
    arena_deinit(&a);
}

static void test_recurrent_refusals(void **state)
{
    (void)state;
    arena a;
    kv_config c;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16, .most_verify = 17};
    kv_spec dense = spec_of("f32");
    kv_spec packed = spec_of("affine8g64");
    weft_error err = {0};
    const kv_layer two[] = {STATE, STATE};
    arena_init(&a, mem_system(), 0);
    /* R4; what would be taken for granted is not refused. */
    assert_status(WEFT_UNSUPPORTED, kv_config_init(&c, &a, two, 2, &packed, &bounds, &err), &err);
    assert_message(&err, "kv codec 'affine8g64': none of 2 layers stores keys and values");
    err = (weft_error){0};
    assert_ok(kv_config_init(&c, &a, two, 2, &dense, &bounds, &err), &err);
    kv_layer big = STATE;
    big.buffers[1] = (1u << 28) - 15;
    assert_status(WEFT_LIMIT, kv_config_init(&c, &a, &big, 1, &dense, &bounds, &err), &err);
    assert_message(&err, "layer 0: a state of 30 and 268435441 numbers is too large");
    big.buffers[0] = UINT32_MAX;
    assert_status(WEFT_LIMIT, kv_config_init(&c, &a, &big, 1, &dense, &bounds, NULL), NULL);
    big = STATE;
    big.record = UINT32_MAX / 4;
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_config_init(&c, &a, &big, 1, &dense, &bounds, &err), &err);
    assert_message(&err, "layer 0: a record of 17 positions of 1073741823 numbers is too large");
    arena_deinit(&a);
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    (void)user;
    arena a;
    kv_config c;
    kv_spec spec = spec_of("f16");
    kv_bounds bounds = {.context = 50000, .most_append = 40, .page_tokens = 16};
    kv_layer many[400];
    for (uint32_t i = 0; i < COUNT_OF(many); i++) many[i] = LAYERS[i % COUNT_OF(LAYERS)];
    arena_init(&a, world->allocator, 0);
    weft_status status = kv_config_init(&c, &a, many, COUNT_OF(many), &spec, &bounds, err);
    arena_deinit(&a);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(scenario, NULL) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv28_geometries),
        cmocka_unit_test(test_packed_geometries),
        cmocka_unit_test(test_latent_geometries),
        cmocka_unit_test(test_index_geometries),
        cmocka_unit_test(test_need),
        cmocka_unit_test(test_kv61_large_numbers),
        cmocka_unit_test(test_recurrent_geometry),
        cmocka_unit_test(test_cross_geometry),
        cmocka_unit_test(test_recurrent_refusals),
        cmocka_unit_test(test_faults),
    };
    return TEST_RUN("kv/config", tests);
}
