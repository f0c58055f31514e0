/* test_spec.c - codec specs as text, and what layers say to them. */
#include "kv/spec.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

static void assert_same(const kv_spec *a, const kv_spec *b)
{
    assert_ptr_equal(a->k, b->k);
    assert_ptr_equal(a->v, b->v);
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->n_rules, b->n_rules);
    for (uint32_t i = 0; i < a->n_rules; i++) {
        assert_int_equal(a->rules[i].first, b->rules[i].first);
        assert_int_equal(a->rules[i].last, b->rules[i].last);
        assert_ptr_equal(a->rules[i].k, b->rules[i].k);
        assert_ptr_equal(a->rules[i].v, b->rules[i].v);
    }
}

static void test_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fallback, *printed;
    } CASES[] = {
        {NULL, "bf16", "bf16"},
        {"f16", "bf16", "f16"},
        {"f32", "bf16", "f32"},
        {"k=f16", "bf16", "k=f16,v=bf16"},
        {"v=f16", "f32", "k=f32,v=f16"},
        {"k=f16,v=bf16", "f32", "k=f16,v=bf16"},
        {"v=bf16,k=f16", "f32", "k=f16,v=bf16"},
        {"v=f16,k=f16", "f32", "f16"},
        {"affine8g64", "bf16", "affine8g64"},
        {"k=affine8g32,v=affine4g128", "bf16", "k=affine8g32,v=affine4g128"},
        {"q8_0", "f32", "q8_0"},
        {"turbo-k8v3", "bf16", "turbo-k8v3"},
        {"k=tk2,v=tv8", "bf16", "turbo-k2v8"},
        {"v=tv4,k=affine8g32", "bf16", "k=affine8g32,v=tv4"},
        {"k=tk5", "bf16", "k=tk5,v=bf16"},
        {"v=tv2", "f32", "k=f32,v=tv2"},
        {"bf16,start=9", "bf16", "bf16,start=9"},
        {"index=tk8,start=9,f16", "bf16", "f16,index=tk8,start=9"},
        {"turbo-k8v4,0..1=bf16,-2..-1=f16", "bf16", "turbo-k8v4,0..1=bf16,-2..-1=f16"},
        {"5.k=affine8g64,start=7,f16", "bf16", "f16,start=7,5.k=affine8g64"},
        {"3=turbo-k4v2,4.v=tv3,4.k=q8_0", "f32", "f32,3=turbo-k4v2,4.v=tv3,4.k=q8_0"},
        {"0..0=f16,00007=f32", "bf16", "bf16,0=f16,7=f32"},
        {"0..-1.v=tv4,k=tk8", "bf16", "k=tk8,v=bf16,0..-1.v=tv4"},
        {"-99999..99999=bf16", "f32", "f32,-99999..99999=bf16"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_spec spec;
        weft_error err = {0};
        char text[KV_SPEC_TEXT];
        assert_ok(kv_spec_parse(CASES[i].text, CASES[i].fallback, &spec, &err), &err);
        kv_spec_print(&spec, text, sizeof text);
        assert_string_equal(text, CASES[i].printed);
        assert_int_equal(spec.base,
                         kv_codec_by_name(CASES[i].fallback, strlen(CASES[i].fallback))->id);
        /* What is printed means the same. */
        kv_spec again;
        assert_ok(kv_spec_parse(text, "f32", &again, &err), &err);
        assert_same(&spec, &again);
    }
    kv_spec spec;
    char small[4];
    assert_ok(kv_spec_parse("k=f16,v=bf16", "f32", &spec, NULL), NULL);
    kv_spec_print(&spec, small, sizeof small);
    assert_string_equal(small, "k=f");
}

typedef struct refusal {
    const char *text;
    weft_status status;
    const char *message;
} refusal;

static void check_refusals(const refusal *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kv_spec spec = {.k = kv_codec_by_id(1)};
        weft_error err = {0};
        assert_status(rows[i].status, kv_spec_parse(rows[i].text, "f32", &spec, &err), &err);
        assert_message(&err, rows[i].message);
        assert_null(spec.k);
        assert_null(spec.v);
        assert_status(rows[i].status, kv_spec_parse(rows[i].text, "f32", &spec, NULL), NULL);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const refusal ROWS[] = {
        {"", WEFT_ARGUMENT, "unknown kv codec '', expected one of f32, f16, bf16"},
        {"q4", WEFT_ARGUMENT, "unknown kv codec 'q4', expected one of f32, f16, bf16"},
        {"F16", WEFT_ARGUMENT, "unknown kv codec 'F16'"},
        {"f16 ", WEFT_ARGUMENT, "unknown kv codec 'f16 '"},
        {"f1", WEFT_ARGUMENT, "unknown kv codec 'f1'"},
        {"k=", WEFT_ARGUMENT, "unknown kv codec ''"},
        {"k=f16,", WEFT_ARGUMENT, "unknown kv codec ''"},
        {",f16", WEFT_ARGUMENT, "unknown kv codec ''"},
        {"k=f16,k=f16", WEFT_ARGUMENT, "kv spec names a side twice"},
        {"f16,v=f16", WEFT_ARGUMENT, "kv spec names a side twice"},
        {"f16,f16", WEFT_ARGUMENT, "kv spec names a side twice"},
        {"v=f16,bf16", WEFT_ARGUMENT, "kv spec names a side twice"},
        {"k=v=f16", WEFT_ARGUMENT, "unknown kv codec 'v=f16'"},
        {"q=f16", WEFT_UNSUPPORTED, "kv spec: 'q=f16' is not supported"},
        {"=f16", WEFT_UNSUPPORTED, "kv spec: '=f16' is not supported"},
        {"kv=f16", WEFT_UNSUPPORTED, "kv spec: 'kv=f16' is not supported"},
        {"affine8g16", WEFT_ARGUMENT, "unknown kv codec 'affine8g16'"},
        {"tk8", WEFT_ARGUMENT, "kv codec 'tk8' is for keys only, expected k=tk8"},
        {"tv4", WEFT_ARGUMENT, "kv codec 'tv4' is for values only, expected v=tv4"},
        {"k=tv4", WEFT_ARGUMENT, "kv codec 'tv4' is not for keys"},
        {"k=f16,v=tk8", WEFT_ARGUMENT, "kv codec 'tk8' is not for values"},
        {"turbo-k3v3", WEFT_ARGUMENT, "kv codec 'turbo-k3v3': key bits 3, expected 2, 4, 5 or 8"},
        {"turbo-k8v6", WEFT_ARGUMENT,
         "kv codec 'turbo-k8v6': value bits 6, expected 2, 3, 4, 5 or 8"},
        {"turbo-k8v", WEFT_ARGUMENT, "unknown kv codec 'turbo-k8v'"},
        {"turbo-k16v3", WEFT_ARGUMENT, "unknown kv codec 'turbo-k16v3'"},
        {"k=turbo-k8v3", WEFT_ARGUMENT, "kv codec 'turbo-k8v3' names both sides"},
        {"turbo-k8v3,v=f16", WEFT_ARGUMENT, "kv spec names a side twice"},
        {"k=f16,start=1x", WEFT_ARGUMENT,
         "kv spec: 'start=1x', expected start= and a number up to 4294967295"},
        {"start=", WEFT_ARGUMENT,
         "kv spec: 'start=', expected start= and a number up to 4294967295"},
        {"start=4294967296,f16", WEFT_ARGUMENT, "expected start= and a number up to 4294967295"},
        {"start=5,start=6", WEFT_ARGUMENT, "kv spec names start twice"},
        {"index=f16,index=f16", WEFT_ARGUMENT, "kv spec names index twice"},
        {"index=", WEFT_ARGUMENT, "unknown kv codec ''"},
        {"index=tv4", WEFT_ARGUMENT, "kv codec 'tv4' is not for keys"},
        {"index=turbo-k8v4", WEFT_ARGUMENT, "kv codec 'turbo-k8v4' names both sides"},
        {"k=f16,end=100", WEFT_UNSUPPORTED, "kv spec: 'end=100' is not supported"},
    };
    check_refusals(ROWS, COUNT_OF(ROWS));
}

static void test_rule_refusals(void **state)
{
    (void)state;
    static const refusal ROWS[] = {
        {"0=q99", WEFT_ARGUMENT, "unknown kv codec 'q99'"},
        {"0=", WEFT_ARGUMENT, "unknown kv codec ''"},
        {"0=k=f16", WEFT_ARGUMENT, "unknown kv codec 'k=f16'"},
        {"0=tk8", WEFT_ARGUMENT, "kv codec 'tk8' is for keys only"},
        {"1.v=tk8", WEFT_ARGUMENT, "kv codec 'tk8' is not for values"},
        {"1.k=turbo-k8v4", WEFT_ARGUMENT, "kv codec 'turbo-k8v4' names both sides"},
        {"1.start=5", WEFT_UNSUPPORTED,
         "kv spec: '1.start=5': a layer cannot have a start of its own"},
        {"1.x=f16", WEFT_ARGUMENT, "kv spec: '1.x=f16', expected layers such as 5 or 0..1"},
        {"1.=f16", WEFT_ARGUMENT, "kv spec: '1.=f16', expected layers"},
        {"1..=f16", WEFT_ARGUMENT, "kv spec: '1..=f16', expected layers"},
        {"1...2=f16", WEFT_ARGUMENT, "kv spec: '1...2=f16', expected layers"},
        {"1..2..3=f16", WEFT_ARGUMENT, "kv spec: '1..2..3=f16', expected layers"},
        {"1-2=f16", WEFT_ARGUMENT, "kv spec: '1-2=f16', expected layers"},
        {"-=f16", WEFT_ARGUMENT, "kv spec: '-=f16', expected layers"},
        {"-0=f16", WEFT_ARGUMENT, "kv spec: '-0=f16', expected layers"},
        {"123456=f16", WEFT_ARGUMENT, "kv spec: '123456=f16', expected layers"},
        {"12", WEFT_ARGUMENT, "kv spec: '12', expected layers"},
    };
    check_refusals(ROWS, COUNT_OF(ROWS));
}

static void test_long_text(void **state)
{
    (void)state;
    /* A long name is cut, bytes that are no text do not get through. */
    char text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[1] = (char)0xff;
    text[2] = '\n';
    kv_spec spec;
    weft_error err = {0};
    assert_status(WEFT_ARGUMENT, kv_spec_parse(text, "f32", &spec, &err), &err);
    assert_null(strchr(err.message, '\n'));
}

/* Any text is parsed or refused. */
static void test_random_text(void **state)
{
    (void)state;
    static const char LETTERS[] = "kvf1236b=,t8.-";
    uint64_t counter = 0;
    size_t n_ok = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        char text[16];
        size_t n = rng_u64(5, counter++) % 12;
        for (size_t j = 0; j < n; j++) {
            text[j] = LETTERS[rng_u64(5, counter++) % (sizeof LETTERS - 1)];
        }
        text[n] = '\0';
        kv_spec spec;
        weft_error err = {0};
        weft_status status = kv_spec_parse(text, "bf16", &spec, &err);
        if (status == WEFT_OK) {
            assert_true(spec.k != NULL && spec.v != NULL);
            n_ok++;
        } else {
            assert_true(status == WEFT_ARGUMENT || status == WEFT_UNSUPPORTED);
            assert_null(spec.k);
            assert_status(status, status, &err);
        }
    }
    assert_true(n_ok > 10);
}

/* Their number is bounded, and the longest there can be fit the room there is for text. */
static void test_most_rules(void **state)
{
    (void)state;
    char text[2 * KV_SPEC_TEXT] = "k=affine8g128,v=affine4g128,index=affine8g128,start=4294967295";
    for (uint32_t i = 0; i < KV_RULES_MOST; i++)
        strcat(text, i % 2 == 0 ? ",-99999..-99998.k=affine8g128" : ",-99999..-99998=turbo-k8v8");
    kv_spec spec;
    kv_spec again;
    weft_error err = {0};
    char printed[KV_SPEC_TEXT];
    assert_ok(kv_spec_parse(text, "f32", &spec, &err), &err);
    kv_spec_print(&spec, printed, sizeof printed);
    assert_string_equal(printed, text);
    assert_ok(kv_spec_parse(printed, "f32", &again, &err), &err);
    assert_same(&spec, &again);
    strcat(text, ",0=f16");
    assert_status(WEFT_LIMIT, kv_spec_parse(text, "f32", &spec, &err), &err);
    assert_message(&err, "kv spec: more than 32 rules for layers");
    /* Cut where the room ends, whatever is left. */
    for (size_t room = 1; room < 60; room++) {
        char cut[64];
        memset(cut, 'x', sizeof cut);
        kv_spec_print(&again, cut, room);
        assert_int_equal(strlen(cut), room - 1);
        assert_memory_equal(cut, printed, room - 1);
        assert_int_equal(cut[room], 'x');
    }
}

#define FULL(heads, dim)                                                                           \
    {                                                                                              \
        .layout = KV_LAYOUT_FULL, .n_heads = (heads), .k_dim = (dim), .v_dim = (dim)               \
    }

static const kv_layer LAYERS[] = {
    FULL(2, 64),
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 80, .v_dim = 80, .window = 16},
    {.layout = KV_LAYOUT_RECURRENT, .buffers = {3, 4}, .record = 5},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 152, .v_dim = 128},
    FULL(1, 64),
};

enum { N_LAYERS = COUNT_OF(LAYERS), N_SHARING = 2 };

static kv_spec spec_of(const char *text)
{
    kv_spec spec;
    weft_error err = {0};
    assert_ok(kv_spec_parse(text, "bf16", &spec, &err), &err);
    return spec;
}

/* Each layer has what the rules for it say, and what they do not name from the rest. */
static void test_layers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t n_model;
        const char *own[N_LAYERS];
    } CASES[] = {
        {"f16", 0, {"f16", "f16", "f16", "f16", "f16"}},
        {"affine8g64,0=bf16,-1.v=tv4",
         0,
         {"bf16", "affine8g64", "affine8g64", "affine8g64", "k=affine8g64,v=tv4"}},
        {"0..1=turbo-k8v4", 0, {"turbo-k8v4", "turbo-k8v4", "bf16", "bf16", "bf16"}},
        {"0..1.k=tk8,1.v=tv2,3=q8_0", 0, {"k=tk8,v=bf16", "turbo-k8v2", "bf16", "q8_0", "bf16"}},
        {"-5..-4=f32,start=3", 0, {"f32", "f32", "bf16", "bf16", "bf16"}},
        {"-7..-6=f32", N_LAYERS + N_SHARING, {"f32", "f32", "bf16", "bf16", "bf16"}},
        {"-3=f32,1..1=f16", N_LAYERS + N_SHARING, {"bf16", "f16", "bf16", "bf16", "f32"}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_spec spec = spec_of(CASES[i].text);
        weft_error err = {0};
        spec.n_model_layers = CASES[i].n_model;
        assert_ok(kv_spec_check(&spec, LAYERS, N_LAYERS, &err), &err);
        for (uint32_t l = 0; l < N_LAYERS; l++) {
            kv_spec own;
            char text[KV_SPEC_TEXT];
            kv_spec_at(&spec, &LAYERS[l], l, N_LAYERS, &own);
            assert_int_equal(own.n_rules, 0);
            assert_int_equal(own.start, spec.start);
            assert_int_equal(own.base, spec.base);
            own.start = 0;
            kv_spec_print(&own, text, sizeof text);
            assert_string_equal(text, CASES[i].own[l]);
        }
    }
}

static void test_layer_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        weft_status status;
        const char *message;
    } CASES[] = {
        {"7=f16", WEFT_ARGUMENT, "kv override for layer 7: the model has 7 layers"},
        {"0..7=f16", WEFT_ARGUMENT, "kv override for layer 7: the model has 7 layers"},
        {"9..12=f16", WEFT_ARGUMENT, "kv override for layer 9: the model has 7 layers"},
        {"-8=f16", WEFT_ARGUMENT, "kv override for layer -8: the model has 7 layers"},
        {"0..-8=f16", WEFT_ARGUMENT, "kv override for layer -8: the model has 7 layers"},
        {"1..0=f16", WEFT_ARGUMENT, "kv override for layers 1..0: the first is behind the last"},
        {"-3..1=f16", WEFT_ARGUMENT, "kv override for layers -3..1: the first is behind the last"},
        {"2=f16", WEFT_ARGUMENT, "kv override for layer 2: layer 2 is recurrent"},
        {"0..4=f16", WEFT_ARGUMENT, "kv override for layer 2: layer 2 is recurrent"},
        {"2.k=f16", WEFT_ARGUMENT, "kv override for layer 2: layer 2 is recurrent"},
        {"5=f16", WEFT_ARGUMENT,
         "kv override for layer 5: layer 5 shares keys and values of another"},
        {"-1=f16", WEFT_ARGUMENT,
         "kv override for layer 6: layer 6 shares keys and values of another"},
        {"0=f16,0=f16", WEFT_ARGUMENT, "kv override for layer 0: its keys are named twice"},
        {"0.k=f16,0..1.k=f16", WEFT_ARGUMENT, "kv override for layer 0: its keys are named twice"},
        {"0..1.v=f16,4=f16,1=f16", WEFT_ARGUMENT,
         "kv override for layer 1: its values are named twice"},
        {"4=f16,-3.v=f16", WEFT_ARGUMENT, "kv override for layer 4: its values are named twice"},
        {"1=q8_0", WEFT_UNSUPPORTED,
         "kv codec 'q8_0': layer 1 has heads of 80, not a multiple of 32"},
        {"1.v=q8_0", WEFT_UNSUPPORTED, "kv codec 'q8_0': layer 1 has heads of 80"},
        {"3=turbo-k8v4", WEFT_UNSUPPORTED,
         "kv codec 'turbo-k8v4': layer 3 stores one latent for keys and values; use affine8g64"},
        {"3.k=f16", WEFT_UNSUPPORTED, "kv codec 'k=f16,v=bf16': layer 3 stores one latent"},
        {"q8_0,0=bf16", WEFT_UNSUPPORTED, "kv codec 'q8_0': layer 1 has heads of 80"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_spec spec = spec_of(CASES[i].text);
        weft_error err = {0};
        spec.n_model_layers = N_LAYERS + N_SHARING;
        assert_status(CASES[i].status, kv_spec_check(&spec, LAYERS, N_LAYERS, &err), &err);
        assert_message(&err, CASES[i].message);
        assert_status(CASES[i].status, kv_spec_check(&spec, LAYERS, N_LAYERS, NULL), NULL);
    }
    /* The rest may be what a layer cannot take, where a rule gives that layer another. */
    kv_spec spec = spec_of("q8_0,1=bf16");
    weft_error err = {0};
    assert_ok(kv_spec_check(&spec, LAYERS, N_LAYERS, &err), &err);
    spec = spec_of("turbo-k8v4,3=affine8g64");
    assert_ok(kv_spec_check(&spec, LAYERS, N_LAYERS, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_rule_refusals), cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_random_text),   cmocka_unit_test(test_most_rules),
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_layer_refusals),
    };
    return TEST_RUN("kv/spec", tests);
}
