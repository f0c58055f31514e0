/* test_fields.c - fields by a table, and those of sampling: edges, wrong kinds, names. */
#include "server/fields.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/asked.h"

typedef struct values {
    bool flag;
    uint32_t count;
    float real;
    uint64_t seed;
    str text;
    const json *any;
} values;

#define AT(field) offsetof(values, field)

static const field_row ROWS[] = {
    {"flag", FIELD_FLAG, AT(flag), 0, 0, NULL},  {"count", FIELD_COUNT, AT(count), 1, 9, NULL},
    {"real", FIELD_REAL, AT(real), -1, 1, NULL}, {"seed", FIELD_SEED, AT(seed), 0, 0, NULL},
    {"text", FIELD_TEXT, AT(text), 0, 0, NULL},  {"any", FIELD_JSON, AT(any), 0, 0, NULL},
    {"user", FIELD_IGNORED, 0, 0, 0, NULL},      {"no", FIELD_REFUSED, 0, 0, 0, NULL},
    {"only", FIELD_REFUSED, 0, 0, 0, "[\"a\"]"},
};

static weft_status read(const char *text, json_doc *doc, values *v, char *param, weft_error *err)
{
    field_table table = {ROWS, sizeof ROWS / sizeof *ROWS, v};
    assert_int_equal(json_parse(doc, text, strlen(text), NULL), WEFT_OK);
    return fields_read(doc->root, "", &table, 1, param, err);
}

static void test_good(void **state)
{
    (void)state;
    json_doc doc;
    values v = {.count = 7};
    char param[FIELD_NAME_BYTES];
    weft_error err = {WEFT_OK, ""};
    assert_ok(read("{\"flag\":true,\"real\":-1,\"seed\":-1,\"text\":\"a\\u0000b\",\"any\":[1],"
                   "\"user\":{\"x\":[]},\"no\":null,\"only\":[\"a\"],\"count\":null}",
                   &doc, &v, param, &err),
              &err);
    assert_true(v.flag && v.count == 7 && v.real == -1.0F && v.seed == UINT64_MAX);
    assert_int_equal(v.text.len, 3);
    assert_int_equal(json_length(v.any), 1);
    json_doc_free(&doc);
    for (int i = 1; i <= 9; i++) {
        char text[32];
        snprintf(text, sizeof text, "{\"count\":%d.0}", i);
        assert_ok(read(text, &doc, &v, param, &err), &err);
        assert_int_equal(v.count, i);
        json_doc_free(&doc);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text, *param;
    } BAD[] = {{"{\"flag\":1}", "flag"},
               {"{\"flag\":\"true\"}", "flag"},
               {"{\"count\":0}", "count"},
               {"{\"count\":10}", "count"},
               {"{\"count\":1.5}", "count"},
               {"{\"count\":1e300}", "count"},
               {"{\"count\":-9223372036854775808}", "count"},
               {"{\"count\":99999999999999999999999}", "count"},
               {"{\"count\":\"5\"}", "count"},
               {"{\"count\":true}", "count"},
               {"{\"count\":[5]}", "count"},
               {"{\"real\":1.0000001}", "real"},
               {"{\"real\":-1e308}", "real"},
               {"{\"seed\":1.5}", "seed"},
               {"{\"seed\":18446744073709551616}", "seed"},
               {"{\"text\":5}", "text"},
               {"{\"no\":false}", "no"},
               {"{\"only\":[\"b\"]}", "only"},
               {"{\"only\":[\"a\",\"a\"]}", "only"},
               {"{\"other\":null}", "other"},
               {"{\"\":1}", ""},
               {"{\"Flag\":true}", "Flag"}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        json_doc doc;
        values v = {.flag = false};
        char param[FIELD_NAME_BYTES];
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_ARGUMENT, read(BAD[i].text, &doc, &v, param, &err), &err);
        assert_string_equal(param, BAD[i].param);
        assert_non_null(strstr(err.message, BAD[i].param));
        json_doc_free(&doc);
    }
}

static void test_what_is_no_object(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"[]", "5", "null", "\"x\"", "true"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        json_doc doc;
        values v;
        char param[FIELD_NAME_BYTES];
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_ARGUMENT, read(TEXTS[i], &doc, &v, param, &err), &err);
        json_doc_free(&doc);
    }
}

/* Names of any length, cut between characters, at each place. */
static void test_long_names(void **state)
{
    (void)state;
    for (int n = 1; n < 100; n++) {
        json_doc doc;
        values v;
        char text[512];
        char param[FIELD_NAME_BYTES];
        weft_error err = {WEFT_OK, ""};
        size_t at = (size_t)snprintf(text, sizeof text, "{\"%.*s", n % 4, "xxx");
        for (int i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "\xf0\x9f\x98\x80");
        snprintf(text + at, sizeof text - at, "\":1}");
        assert_status(WEFT_ARGUMENT, read(text, &doc, &v, param, &err), &err);
        assert_true(strlen(param) < FIELD_NAME_BYTES);
        strbuf out;
        strbuf_init(&out, mem_system(), 0);
        json_write_text(str_of(err.message), &out);
        assert_null(strstr(strbuf_text(&out), "\xef\xbf\xbd"));
        strbuf_deinit(&out);
        json_doc_free(&doc);
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

static weft_status ask(const char *text, asked *a, asked_lists *l, weft_error *err)
{
    json_doc doc;
    char param[FIELD_NAME_BYTES] = "";
    field_table table = {ASKED_ROWS, N_ASKED_ROWS, a};
    asked_init(a);
    asked_lists_init(l);
    assert_int_equal(json_parse(&doc, text, strlen(text), NULL), WEFT_OK);
    weft_status status = fields_read(doc.root, "", &table, 1, param, err);
    if (status == WEFT_OK) status = asked_read_lists(a, l, param, err);
    if (status == WEFT_ARGUMENT) assert_non_null(strstr(err->message, param));
    json_doc_free(&doc);
    return status;
}

static void test_lists(void **state)
{
    (void)state;
    asked a;
    asked_lists l;
    weft_error err = {WEFT_OK, ""};
    weft_request r = {.struct_size = sizeof r};
    weft_model_info info = {.temperature = 0.7F, .top_p = 0.9F, .top_k = 40};
    assert_ok(ask("{\"stop\":[\"a\",\"bc\"],\"dry_sequence_breakers\":[\"x\"],\"dry_multiplier\":1,"
                  "\"logit_bias\":{\"5\":-100,\"6\":3.5},\"stop_token_ids\":[1,2],\"top_k\":0,"
                  "\"draft\":\"none\",\"seed\":-3,\"kv\":\"f32\"}",
                  &a, &l, &err),
              &err);
    asked_fill(&a, &l, &info, 2, &r);
    assert_int_equal(r.n_stop_texts, 2);
    assert_string_equal(r.stop_texts[0], "a");
    assert_string_equal(r.stop_texts[1], "bc");
    assert_int_equal(r.sampling.n_dry_breakers, 1);
    assert_string_equal(r.sampling.dry_breakers[0], "x");
    assert_int_equal(r.sampling.n_logit_bias, 2);
    assert_true(isinf(r.sampling.logit_bias[0].bias) && r.sampling.logit_bias[1].bias == 3.5F);
    assert_int_equal(r.sampling.top_k, 0);
    assert_true(r.sampling.temperature == 0.7F && r.sampling.top_p == 0.9F);
    assert_true(r.sampling.seed == UINT64_MAX);
    assert_null(r.draft);
    assert_string_equal(r.kv, "f32");
    asked_lists_deinit(&l);

    assert_ok(
        ask("{\"stop\":[],\"logit_bias\":{},\"stop_token_ids\":[],\"top_k\":-1}", &a, &l, &err),
        &err);
    r = (weft_request){.struct_size = sizeof r};
    asked_fill(&a, &l, &info, 0, &r);
    assert_int_equal(r.n_stop_texts + r.sampling.n_logit_bias + r.sampling.top_k, 0);
    asked_lists_deinit(&l);

    assert_ok(ask("{}", &a, &l, &err), &err);
    asked_fill(&a, &l, &info, 0, &r);
    assert_int_equal(r.sampling.top_k, 40);
    asked_lists_deinit(&l);
}

static void test_lists_that_are_none(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "{\"stop\":5}",
        "{\"stop\":[5]}",
        "{\"stop\":\"\"}",
        "{\"stop\":[\"a\",\"\"]}",
        "{\"stop\":\"a\\u0000b\"}",
        "{\"stop_token_ids\":5}",
        "{\"stop_token_ids\":[1,-1]}",
        "{\"stop_token_ids\":[2147483648]}",
        "{\"stop_token_ids\":[1.5]}",
        "{\"logit_bias\":5}",
        "{\"logit_bias\":[]}",
        "{\"logit_bias\":\"x\"}",
        "{\"logit_bias\":{\"x\":1}}",
        "{\"logit_bias\":{\"\":1}}",
        "{\"logit_bias\":{\"-1\":1}}",
        "{\"logit_bias\":{\"2147483648\":1}}",
        "{\"logit_bias\":{\"99999999999\":1}}",
        "{\"logit_bias\":{\"1\":\"x\"}}",
        "{\"logit_bias\":{\"1\":101}}",
        "{\"logit_bias\":{\"1\":null}}",
        "{\"seed\":\"x\"}",
        "{\"seed\":1e30}",
        "{\"kv\":\"a\\u0000\"}",
        "{\"draft\":\"other\"}",
        "{\"draft\":\"a very long name of a drafter\"}",
        "{\"dry_sequence_breakers\":{}}",
        "{\"temperature\":-0.001}",
        "{\"top_p\":1.001}",
        "{\"top_k\":1073741825}",
        "{\"repetition_penalty\":0}",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        asked a;
        asked_lists l;
        weft_error err = {WEFT_OK, ""};
        if (ask(BAD[i], &a, &l, &err) != WEFT_ARGUMENT) fail_msg("%s: %s", BAD[i], err.message);
        asked_lists_deinit(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_what_is_no_object),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_lists_that_are_none),
    };
    return TEST_RUN("server/fields", tests);
}
