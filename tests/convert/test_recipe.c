/* test_recipe.c - which rule a module falls under, and what is refused. */
#include "convert/recipe.h"

#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "support/fault.h"

static weft_status read_text(recipe *r, arena *a, const char *text, weft_error *err)
{
    assert_ok(recipe_choose(&r->usual, NULL, 0, 0, err), err);
    return recipe_read(r, a, text, strlen(text), err);
}

static void test_modes(void **state)
{
    (void)state;
    recipe_choice c;
    weft_error err = {WEFT_OK, ""};
    assert_ok(recipe_choose(&c, NULL, 0, 0, &err), &err);
    assert_true(c.encoding == &ENCODING_AFFINE && c.bits == 4 && c.group == 64 && !c.keep);
    assert_ok(recipe_choose(&c, "affine", 3, 128, &err), &err);
    assert_true(c.bits == 3 && c.group == 128);
    assert_ok(recipe_choose(&c, "nvfp4", 0, 0, &err), &err);
    assert_true(c.encoding == &ENCODING_NVFP4_PLANES && c.bits == 4 && c.group == 16);
    assert_ok(recipe_choose(&c, "mxfp8", 8, 32, &err), &err);
    assert_string_equal(recipe_mode_name(c.encoding), "mxfp8");
    assert_null(recipe_mode_name(&ENCODING_Q4_0));
    static const struct {
        const char *mode;
        uint32_t bits, group;
    } BAD[] = {{"affine", 7, 64}, {"affine", 9, 64}, {"affine", 1, 64}, {"affine", 4, 48},
               {"mxfp4", 8, 32},  {"nvfp4", 4, 32},  {"mxfp8", 4, 0},   {"int4", 0, 0}};
    for (size_t i = 0; i < COUNT_OF(BAD); i++) {
        err = (weft_error){WEFT_OK, ""};
        assert_status(WEFT_ARGUMENT,
                      recipe_choose(&c, BAD[i].mode, BAD[i].bits, BAD[i].group, &err), &err);
    }
}

static void check(recipe *r, const char *path, uint32_t layer, const char *expected)
{
    bool ruled;
    char text[64];
    recipe_choice c = recipe_find(r, path, layer, 8, &ruled);
    if (c.keep) {
        snprintf(text, sizeof text, "keep");
    } else {
        snprintf(text, sizeof text, "%s %u %u%s", recipe_mode_name(c.encoding), c.bits, c.group,
                 ruled ? "" : " usual");
    }
    assert_string_equal(text, expected);
}

static void test_rules(void **state)
{
    (void)state;
    static const char TEXT[] =
        "{\"rules\": ["
        "{\"match\": \"lm_head\", \"bits\": 8, \"group\": 32},"
        "{\"match\": \"*.down_proj\", \"layers\": [0, 1], \"bits\": 6},"
        "{\"match\": \"*.down_proj\", \"layers\": [-1, -1], \"mode\": \"mxfp8\"},"
        "{\"match\": \"model.layers.*.self_attn.*_proj\", \"layers\": [2, -3], \"keep\": true},"
        "{\"match\": \"*.never\", \"keep\": false}]}";
    recipe r = {0};
    arena a;
    weft_error err = {WEFT_OK, ""};
    arena_init(&a, mem_system(), 0);
    assert_ok(read_text(&r, &a, TEXT, &err), &err);
    check(&r, "lm_head", MODULE_NO_LAYER, "affine 8 32");
    check(&r, "model.layers.1.mlp.down_proj", 1, "affine 6 64");
    check(&r, "model.layers.2.mlp.down_proj", 2, "affine 4 64 usual");
    check(&r, "model.layers.7.mlp.down_proj", 7, "mxfp8 8 32");
    check(&r, "model.layers.2.self_attn.q_proj", 2, "keep");
    check(&r, "model.layers.5.self_attn.q_proj", 5, "keep");
    check(&r, "model.layers.6.self_attn.q_proj", 6, "affine 4 64 usual");
    check(&r, "model.layers.3.self_attn.q_projx", 3, "affine 4 64 usual");
    check(&r, "model.embed_tokens", MODULE_NO_LAYER, "affine 4 64 usual");
    for (uint32_t i = 0; i < r.n_rules; i++) assert_int_equal(r.rules[i].used, i != 4);
    arena_deinit(&a);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } CASES[] = {
        {"", "recipe: "},
        {"[]", "'rules'"},
        {"{}", "'rules'"},
        {"{\"rules\":{}}", "'rules'"},
        {"{\"rules\":[],\"bits\":4}", "'bits' is not known"},
        {"{\"rules\":[3]}", "rule 1: it is integer"},
        {"{\"rules\":[{\"match\":\"a\"},{\"bits\":4}]}", "rule 2: 'match'"},
        {"{\"rules\":[{\"match\":\"\"}]}", "'match'"},
        {"{\"rules\":[{\"match\":\"a\\u0000b\"}]}", "'match'"},
        {"{\"rules\":[{\"match\":\"a\",\"bit\":4}]}", "'bit' is not known"},
        {"{\"rules\":[{\"match\":\"a\",\"bits\":7}]}", "not 7 bits"},
        {"{\"rules\":[{\"match\":\"a\",\"bits\":-1}]}", "'bits'"},
        {"{\"rules\":[{\"match\":\"a\",\"bits\":4.5}]}", "'bits'"},
        {"{\"rules\":[{\"match\":\"a\",\"bits\":99999999999}]}", "'bits'"},
        {"{\"rules\":[{\"match\":\"a\",\"group\":16}]}", "groups of 16"},
        {"{\"rules\":[{\"match\":\"a\",\"mode\":\"q4\"}]}", "'mode'"},
        {"{\"rules\":[{\"match\":\"a\",\"mode\":4}]}", "'mode'"},
        {"{\"rules\":[{\"match\":\"a\",\"mode\":\"mxfp4\",\"bits\":8}]}", "mxfp4 has 4 bits"},
        {"{\"rules\":[{\"match\":\"a\",\"keep\":1}]}", "'keep'"},
        {"{\"rules\":[{\"match\":\"a\",\"keep\":true,\"bits\":4}]}", "what is kept"},
        {"{\"rules\":[{\"match\":\"a\",\"layers\":3}]}", "'layers'"},
        {"{\"rules\":[{\"match\":\"a\",\"layers\":[1]}]}", "'layers'"},
        {"{\"rules\":[{\"match\":\"a\",\"layers\":[0,9999999999]}]}", "'layers'"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        recipe r = {0};
        arena a;
        weft_error err = {WEFT_OK, ""};
        arena_init(&a, mem_system(), 0);
        assert_status(WEFT_FORMAT, read_text(&r, &a, CASES[i].text, &err), &err);
        assert_message(&err, CASES[i].part);
        assert_int_equal(r.n_rules, 0);
        arena_deinit(&a);
    }
}

static void test_limits(void **state)
{
    (void)state;
    recipe r = {0};
    arena a;
    weft_error err = {WEFT_OK, ""};
    strbuf text;
    arena_init(&a, mem_system(), 0);
    strbuf_init(&text, mem_system(), 0);
    strbuf_add_text(&text, "{\"rules\":[");
    for (uint32_t i = 0; i <= RECIPE_RULES; i++)
        strbuf_printf(&text, "%s{\"match\":\"a\"}", i > 0 ? "," : "");
    strbuf_add_text(&text, "]}");
    assert_status(WEFT_LIMIT, read_text(&r, &a, text.ptr, &err), &err);
    while (text.len <= RECIPE_BYTES) strbuf_add_char(&text, ' ');
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_LIMIT, read_text(&r, &a, text.ptr, &err), &err);
    char pattern[RECIPE_PATTERN_BYTES + 2];
    memset(pattern, 'a', sizeof pattern - 1);
    pattern[sizeof pattern - 1] = '\0';
    strbuf_clear(&text);
    strbuf_printf(&text, "{\"rules\":[{\"match\":\"%s\"}]}", pattern);
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_FORMAT, read_text(&r, &a, text.ptr, &err), &err);
    strbuf_deinit(&text);
    arena_deinit(&a);
}

static weft_status read_in(const env *world, void *user, weft_error *err)
{
    recipe r = {0};
    arena a;
    (void)user;
    arena_init(&a, world->allocator, 0);
    assert_ok(recipe_choose(&r.usual, NULL, 0, 0, NULL), NULL);
    static const char TEXT[] = "{\"rules\":[{\"match\":\"a\"},{\"match\":\"b\"}]}";
    weft_status status = recipe_read(&r, &a, TEXT, strlen(TEXT), err);
    arena_deinit(&a);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(read_in, NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),   cmocka_unit_test(test_rules),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_faults),
    };
    return TEST_RUN("convert/recipe", tests);
}
