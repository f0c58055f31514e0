/* test_identity.c - KV-30: what is stored differently has another identity, and only that. */
#include "kv/identity.h"
#include "kv/txn_world.h"

typedef struct variant {
    const char *spec;
    kv_layer layers[2];
    kv_bounds bounds;
} variant;

static void identity_of(const variant *v, unsigned char digest[32])
{
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_spec spec = spec_of(v->spec);
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_config_init(&c, &a, v->layers, 2, &spec, &v->bounds, &err), &err);
    assert_ok(kv_identity(&c, digest, &err), &err);
    arena_deinit(&a);
}

#define PLAIN_BOUNDS                                                                               \
    {                                                                                              \
        .context = 100, .most_append = 10, .page_tokens = 16                                       \
    }
#define FULL_OF(h, k, v)                                                                           \
    {                                                                                              \
        .layout = KV_LAYOUT_FULL, .n_heads = h, .k_dim = k, .v_dim = v                             \
    }
#define WINDOW_OF(l, w)                                                                            \
    {                                                                                              \
        .layout = l, .n_heads = 1, .k_dim = 64, .v_dim = 64, .window = w                           \
    }
#define TOY_OF(t, m)                                                                               \
    {                                                                                              \
        .layout = KV_LAYOUT_RECURRENT, .buffers = {t, m}, .record = 1                              \
    }
#define LATENT_OF(k, v)                                                                            \
    {                                                                                              \
        .layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = k, .v_dim = v                           \
    }

/* Each differs from each other one. */
static const variant DIFFERENT[] = {
    {"bf16", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"f16", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"k=f16,v=bf16", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"k=bf16,v=f16", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"bf16,start=8", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"bf16,start=9", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"affine8g32", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"affine8g64", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"affine4g64", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"turbo-k8v4", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"turbo-k8v5", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"turbo-k4v4", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"q8_0", {FULL_OF(2, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(1, 64, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(2, 32, 64), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(2, 64, 32), TOY_OF(3, 20)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(2, 64, 64), TOY_OF(4, 20)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(2, 64, 64), TOY_OF(3, 21)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(2, 64, 64), TOY_OF(3, 0)}, PLAIN_BOUNDS},
    {"bf16", {TOY_OF(3, 20), FULL_OF(2, 64, 64)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(1, 64, 64), FULL_OF(1, 64, 64)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(1, 64, 64), WINDOW_OF(KV_LAYOUT_WINDOW, 8)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(1, 64, 64), WINDOW_OF(KV_LAYOUT_WINDOW, 9)}, PLAIN_BOUNDS},
    {"bf16", {FULL_OF(1, 64, 64), WINDOW_OF(KV_LAYOUT_CHUNKED, 8)}, PLAIN_BOUNDS},
    {"bf16", {LATENT_OF(96, 64), LATENT_OF(96, 64)}, PLAIN_BOUNDS},
    {"bf16", {LATENT_OF(96, 64), LATENT_OF(96, 32)}, PLAIN_BOUNDS},
    {"affine8g32", {LATENT_OF(96, 64), LATENT_OF(96, 64)}, PLAIN_BOUNDS},
};

static void test_kv30_different(void **state)
{
    (void)state;
    unsigned char digests[COUNT_OF(DIFFERENT)][32];
    for (size_t i = 0; i < COUNT_OF(DIFFERENT); i++) {
        identity_of(&DIFFERENT[i], digests[i]);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(digests[i], digests[k], 32);
    }
}

/* The base counts where rows or parameters are in it, and before start. */
static void test_kv30_base(void **state)
{
    (void)state;
    static const char *const BASES[] = {"f32", "f16", "bf16"};
    unsigned char digests[3][KV_IDENTITY_BYTES];
    for (size_t i = 0; i < 3; i++) {
        arena a;
        kv_config c;
        kv_spec spec;
        weft_error err = {0};
        kv_layer layers[] = {FULL_OF(2, 64, 64)};
        kv_bounds bounds = PLAIN_BOUNDS;
        assert_ok(kv_spec_parse("affine8g32", BASES[i], &spec, &err), &err);
        arena_init(&a, mem_system(), 0);
        assert_ok(kv_config_init(&c, &a, layers, 1, &spec, &bounds, &err), &err);
        kv_identity_layer(&c, 0, digests[i]);
        arena_deinit(&a);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(digests[i], digests[k], KV_IDENTITY_BYTES);
    }
}

/* What no stored byte depends on. */
static void test_kv30_same(void **state)
{
    (void)state;
    variant v = DIFFERENT[0];
    unsigned char first[32];
    unsigned char other[32];
    identity_of(&v, first);
    v.bounds = (kv_bounds){
        .context = 5000, .most_append = 77, .page_tokens = 256, .most_verify = 3, .marks = true};
    v.layers[1].record = 9;
    identity_of(&v, other);
    assert_memory_equal(first, other, 32);
    v.spec = "k=bf16,v=bf16";
    identity_of(&v, other);
    assert_memory_equal(first, other, 32);
    v.spec = "turbo-k8v4";
    identity_of(&v, first);
    v.spec = "v=tv4,k=tk8";
    identity_of(&v, other);
    assert_memory_equal(first, other, 32);
}

/* The bytes stand in files: they do not change. */
static void test_record(void **state)
{
    (void)state;
    arena a;
    kv_config c;
    weft_error err = {0};
    kv_layer layers[] = {WINDOW_OF(KV_LAYOUT_WINDOW, 8), TOY_OF(3, 20)};
    kv_bounds bounds = PLAIN_BOUNDS;
    kv_spec spec = spec_of("turbo-k8v4,start=5");
    arena_init(&a, mem_system(), 0);
    assert_ok(kv_config_init(&c, &a, layers, 2, &spec, &bounds, &err), &err);
    static const unsigned char WINDOW_RECORD[KV_IDENTITY_BYTES] = {
        [0] = 2,     [3] = 1,  [4] = 2,   [5] = 2,   [6] = 1,   [7] = 1,   [8] = 32,
        [12] = 32,   [16] = 1, [20] = 64, [24] = 64, [28] = 64, [32] = 8,  [36] = 5,
        [40] = 0xff, 0xff,     0xff,      0xff,      [44] = 1,  [48] = 72, [52] = 36};
    static const unsigned char TOY_RECORD[KV_IDENTITY_BYTES] = {
        [0] = 5, [36] = 5, [40] = 0xff, 0xff, 0xff, 0xff, [56] = 12, [60] = 80};
    unsigned char record[KV_IDENTITY_BYTES];
    kv_identity_layer(&c, 0, record);
    assert_int_equal(record[1], spec.k->id);
    assert_int_equal(record[2], spec.v->id);
    record[1] = record[2] = 0;
    assert_memory_equal(record, WINDOW_RECORD, sizeof record);
    kv_identity_layer(&c, 1, record);
    assert_memory_equal(record, TOY_RECORD, sizeof record);
    arena_deinit(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv30_different),
        cmocka_unit_test(test_kv30_base),
        cmocka_unit_test(test_kv30_same),
        cmocka_unit_test(test_record),
    };
    return TEST_RUN("kv/identity", tests);
}
