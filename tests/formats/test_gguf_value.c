/* test_gguf_value.c - reading metadata of every type. */
#include "formats/gguf_value.h"

#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/weights.h"
#include "support/files.h"

/* One value of each type, opened through the format. */
typedef struct opened {
    test_folder folder;
    weights *w;
} opened;

#define ADD(b, key, type, ctype, number)                                                           \
    gguf_add_raw(b, key, type, &(const ctype){number}, sizeof(ctype))

static void fill(gguf_builder *b)
{
    static const char *const TEXTS[] = {"one", "", "drei\xc3\xa4"};
    static const str NUL = {"a\0b", 3};
    static const int8_t I8S[] = {-3, 4};
    static const uint64_t U64S[] = {UINT64_MAX, 5};
    static const float F32S[] = {-0.25f, 1e30f};
    static const double F64S[] = {1e300};
    ADD(b, "u8", GGUF_U8, uint8_t, 200);
    ADD(b, "i8", GGUF_I8, int8_t, -100);
    ADD(b, "i8+", GGUF_I8, int8_t, 100);
    ADD(b, "u16", GGUF_U16, uint16_t, 65000);
    ADD(b, "i16", GGUF_I16, int16_t, -30000);
    ADD(b, "u32", GGUF_U32, uint32_t, 4000000000u);
    ADD(b, "i32", GGUF_I32, int32_t, -2000000000);
    ADD(b, "u64", GGUF_U64, uint64_t, UINT64_MAX);
    ADD(b, "i64", GGUF_I64, int64_t, INT64_MIN);
    ADD(b, "i64+", GGUF_I64, int64_t, INT64_MAX);
    ADD(b, "f32", GGUF_F32, float, 0.5f);
    ADD(b, "f64", GGUF_F64, double, -1e-300);
    ADD(b, "true", GGUF_BOOL, uint8_t, 1);
    ADD(b, "false", GGUF_BOOL, uint8_t, 0);
    gguf_add_text(b, "text", "h\xc3\xa9");
    gguf_add_text(b, "empty", "");
    gguf_add_texts(b, "texts", TEXTS, 3);
    gguf_add_strs(b, "nul", &NUL, 1);
    gguf_add_texts(b, "none", NULL, 0);
    gguf_add_array(b, "i8s", GGUF_I8, I8S, 2, sizeof I8S);
    gguf_add_array(b, "u64s", GGUF_U64, U64S, 2, sizeof U64S);
    gguf_add_array(b, "f32s", GGUF_F32, F32S, 2, sizeof F32S);
    gguf_add_array(b, "f64s", GGUF_F64, F64S, 1, sizeof F64S);
    gguf_add_array(b, "bools", GGUF_BOOL, "\1\0", 2, 2);
    gguf_add_array(b, "no_f32s", GGUF_F32, NULL, 0, 0);
}

static int setup(void **state)
{
    opened *o = test_calloc(1, sizeof *o);
    weft_error err = {0};
    env world = {mem_system(), io_system(), NULL};
    gguf_builder b;
    test_folder_create(&o->folder);
    gguf_init(&b, 3);
    fill(&b);
    assert_ok(weights_open(&world, gguf_write(&b, &o->folder, "m.gguf"), &o->w, &err), &err);
    gguf_deinit(&b);
    *state = o;
    return 0;
}

static int teardown(void **state)
{
    opened *o = *state;
    weights_close(o->w);
    test_folder_remove(&o->folder);
    test_free(o);
    return 0;
}

static void test_numbers(void **state)
{
    const opened *o = *state;
    static const struct {
        const char *key;
        bool is_u64;
        uint64_t u64;
        double real;
    } cases[] = {
        {"u8", true, 200, 200},
        {"i8", false, 0, -100},
        {"i8+", true, 100, 100},
        {"u16", true, 65000, 65000},
        {"i16", false, 0, -30000},
        {"u32", true, 4000000000u, 4e9},
        {"i32", false, 0, -2e9},
        {"u64", true, UINT64_MAX, 18446744073709551616.0},
        {"i64", false, 0, -9223372036854775808.0},
        {"i64+", true, INT64_MAX, 9223372036854775808.0},
        {"f32", false, 0, 0.5},
        {"f64", false, 0, -1e-300},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gguf_value *value = weights_metadata(o->w, cases[i].key);
        uint64_t number;
        double real;
        assert_non_null(value);
        assert_string_equal(value->key, cases[i].key);
        assert_int_equal(value->n_elements, 1);
        assert_int_equal(gguf_u64(value, &number), cases[i].is_u64);
        assert_true(number == cases[i].u64);
        assert_true(gguf_real(value, &real));
        assert_true(real == cases[i].real);
    }
}

static void test_other_kinds(void **state)
{
    const opened *o = *state;
    static const char *const KEYS[] = {"true", "text", "texts", "i8s", "absent"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const gguf_value *value = weights_metadata(o->w, KEYS[i]);
        uint64_t number = 1;
        double real = 1;
        assert_false(gguf_u64(value, &number));
        assert_false(gguf_real(value, &real));
        assert_true(number == 0 && real == 0);
    }
    bool flag = true;
    assert_false(gguf_bool(weights_metadata(o->w, "u8"), &flag));
    assert_false(flag);
    assert_true(gguf_bool(weights_metadata(o->w, "true"), &flag));
    assert_true(flag);
    assert_true(gguf_bool(weights_metadata(o->w, "false"), &flag));
    assert_false(flag);
    assert_false(gguf_bool(NULL, &flag));
}

static void test_texts(void **state)
{
    const opened *o = *state;
    str text;
    uint64_t offset = 0;
    assert_true(gguf_text(weights_metadata(o->w, "text"), &text));
    assert_true(str_equal_text(text, "h\xc3\xa9"));
    assert_true(gguf_text(weights_metadata(o->w, "empty"), &text));
    assert_int_equal(text.len, 0);
    assert_false(gguf_text(weights_metadata(o->w, "texts"), &text));
    assert_false(gguf_text(NULL, &text));

    const gguf_value *texts = weights_metadata(o->w, "texts");
    assert_int_equal(texts->n_elements, 3);
    assert_true(gguf_next_text(texts, &offset, &text));
    assert_true(str_equal_text(text, "one"));
    assert_true(gguf_next_text(texts, &offset, &text));
    assert_int_equal(text.len, 0);
    assert_true(gguf_next_text(texts, &offset, &text));
    assert_true(str_equal_text(text, "drei\xc3\xa4"));
    assert_false(gguf_next_text(texts, &offset, &text));
    assert_int_equal(offset, texts->n_bytes);

    offset = 0;
    assert_true(gguf_next_text(weights_metadata(o->w, "nul"), &offset, &text));
    assert_int_equal(text.len, 3);
    offset = 0;
    assert_false(gguf_next_text(weights_metadata(o->w, "none"), &offset, &text));
    assert_false(gguf_next_text(weights_metadata(o->w, "i8s"), &offset, &text));
    assert_false(gguf_next_text(weights_metadata(o->w, "text"), &offset, &text));
    assert_false(gguf_next_text(NULL, &offset, &text));
}

static void test_arrays(void **state)
{
    const opened *o = *state;
    double real;
    int64_t number;
    const gguf_value *i8s = weights_metadata(o->w, "i8s");
    assert_true(gguf_array_i64(i8s, 0, &number) && number == -3);
    assert_true(gguf_array_real(i8s, 1, &real) && real == 4);
    assert_false(gguf_array_i64(i8s, 2, &number));
    assert_false(gguf_array_real(i8s, UINT64_MAX, &real));
    const gguf_value *u64s = weights_metadata(o->w, "u64s");
    assert_false(gguf_array_i64(u64s, 0, &number)); /* beyond int64_t */
    assert_true(gguf_array_i64(u64s, 1, &number) && number == 5);
    const gguf_value *f32s = weights_metadata(o->w, "f32s");
    assert_true(gguf_array_real(f32s, 0, &real) && real == -0.25);
    assert_true(gguf_array_real(f32s, 1, &real) && real == (double)1e30f);
    assert_false(gguf_array_i64(f32s, 0, &number));
    assert_true(gguf_array_real(weights_metadata(o->w, "f64s"), 0, &real) && real == 1e300);
    assert_false(gguf_array_real(weights_metadata(o->w, "no_f32s"), 0, &real));
    const gguf_value *bools = weights_metadata(o->w, "bools");
    bool flag;
    assert_false(gguf_array_real(bools, 0, &real));
    assert_true(gguf_array_bool(bools, 0, &flag) && flag);
    assert_true(gguf_array_bool(bools, 1, &flag) && !flag);
    assert_false(gguf_array_bool(bools, 2, &flag));
    assert_false(gguf_array_bool(i8s, 0, &flag));
    assert_false(gguf_array_bool(NULL, 0, &flag));
    assert_false(gguf_array_real(weights_metadata(o->w, "texts"), 0, &real));
    assert_false(gguf_array_real(weights_metadata(o->w, "u8"), 0, &real));
    assert_false(gguf_array_i64(NULL, 0, &number));
    /* A loader sees what the elements are declared to be: scores given as bytes are not taken for
     * floats. */
    assert_int_equal(i8s->element, GGUF_I8);
    assert_int_equal(f32s->element, GGUF_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arrays, setup, teardown),
    };
    return TEST_RUN("formats/gguf_value", tests);
}
