/* test_messages.c - conversations as clients write them, and as they do not. */
#include "server/messages.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "server/request_world.h"

static request_world world;

static int open_world(void **state)
{
    (void)state;
    request_world_open(&world);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    request_world_close(&world);
    return 0;
}

typedef weft_status (*reader)(generation *g, const json *value, char *param, weft_error *err);

/* expected: what is made of it (of g's text, which text_of gives), or what the message says. */
static void check(reader read, size_t offset, const char *text, weft_status status,
                  const char *expected)
{
    generation g;
    json_doc doc;
    char param[FIELD_NAME_BYTES] = "";
    weft_error err = {WEFT_OK, ""};
    request_world_begin(&world, &g);
    assert_int_equal(json_parse(&doc, text, strlen(text), NULL), WEFT_OK);
    weft_status got = read(&g, doc.root, param, &err);
    if (got != status) fail_msg("%d: %s: %s", (int)got, text, err.message);
    const strbuf *made = (const strbuf *)(const void *)((const char *)&g + offset);
    if (status == WEFT_OK) {
        assert_string_equal(strbuf_text(made), expected);
    } else {
        assert_message(&err, expected);
        assert_int_not_equal(param[0], '\0');
    }
    json_doc_free(&doc);
    request_world_end(&g);
}

static void good(const char *text, const char *expected)
{
    check(messages_read, offsetof(generation, messages), text, WEFT_OK, expected);
}

static void bad(const char *text, const char *expected)
{
    check(messages_read, offsetof(generation, messages), text, WEFT_ARGUMENT, expected);
}

static void test_shapes(void **state)
{
    (void)state;
    good("[{\"role\":\"user\",\"content\":\"hi\"}]", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    /* Keys in any order. */
    good("[{\"content\":\"hi\",\"role\":\"user\"}]", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    good("[{\"role\":\"assistant\",\"content\":null},{\"role\":\"user\",\"content\":\"\"}]",
         "[{\"role\":\"assistant\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"\"}]");
    good("[{\"role\":\"developer\",\"content\":\"x\"}]",
         "[{\"role\":\"system\",\"content\":\"x\"}]");
    /* Parts of text are one text. */
    good("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"text\":\"b\",\"type\":\"input_text\"}]}]",
         "[{\"role\":\"user\",\"content\":\"ab\"}]");
    good("[{\"role\":\"user\",\"content\":[]}]", "[{\"role\":\"user\",\"content\":\"\"}]");
    good("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":\"data:x\"},"
         "{\"type\":\"text\",\"text\":\"a\"}]}]",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"a\"}]"
         "}]");
    good("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\"}}]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"x\"}]",
         "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"id\":"
         "\"1\","
         "\"function\":{\"name\":\"f\",\"arguments\":{}}}]},"
         "{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":\"1\"}]");
}

static void test_what_is_none(void **state)
{
    (void)state;
    static const char *const NONE[] = {"null", "5", "\"x\"", "{}", "[]"};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) bad(NONE[i], "messages");
    bad("[{}]", "messages[0].role");
    bad("[5]", "messages[0]");
    bad("[{\"role\":\"user\",\"content\":\"\"},[]]", "messages[1]");
    bad("[{\"role\":\"user\"}]", "messages[0].content");
    bad("[{\"role\":\"king\",\"content\":\"\"}]", "king");
    bad("[{\"role\":\"user\",\"content\":5}]", "messages[0].content");
    bad("[{\"role\":\"user\",\"content\":{}}]", "messages[0].content");
    bad("[{\"role\":\"user\",\"content\":[5]}]", "messages[0].content");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "without text");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":5}]}]", "without text");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "without a URL");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":5}}]}]",
        "without a URL");
    bad("[{\"role\":\"user\",\"content\":\"\",\"tool_calls\":[]}]", "tool_calls");
    bad("[{\"role\":\"tool\",\"content\":\"\"}]", "tool_call_id");
    bad("[{\"role\":\"assistant\",\"tool_calls\":5}]", "tool_calls");
    bad("[{\"role\":\"assistant\",\"tool_calls\":[5]}]", "name");
    bad("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"\"}}]}]", "name");
    bad("[{\"role\":\"user\",\"content\":\"\",\"other\":1}]", "messages[0].other");
}

#define PART(members) "[{\"role\":\"user\",\"content\":[{" members "}]}]"
#define CALL(members)                                                                              \
    "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"" members "}]}]"

/* What nobody knows is refused at every depth; what changes nothing is read over. */
static void test_members(void **state)
{
    (void)state;
    good(PART("\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}"),
         "[{\"role\":\"user\",\"content\":\"a\"}]");
    bad(PART("\"type\":\"text\",\"text\":\"a\",\"other\":1"), "messages[0].content.other");
    good(PART("\"type\":\"image_url\",\"image_url\":{\"url\":\"data:x\",\"detail\":\"low\"}"),
         "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]");
    bad(PART("\"type\":\"image_url\",\"image_url\":{\"url\":\"data:x\",\"other\":1}"),
        "messages[0].content.image_url.other");
    good(CALL("},\"id\":\"1\",\"index\":0,\"type\":\"function\""),
         "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"id\":"
         "\"1\","
         "\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]");
    bad(CALL("},\"other\":1"), "messages[0].tool_calls.other");
    bad(CALL("},\"type\":\"custom\""), "messages[0].tool_calls.type");
    bad(CALL(",\"other\":1}"), "messages[0].tool_calls.function.other");
}

#define RESULT(id) "{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":\"" id "\"}"
#define WRITTEN(id) "{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":\"" id "\"}"

static void test_results(void **state)
{
    (void)state;
    bad("[" RESULT("c1") "," RESULT("c1") "]", "'c1'");
    bad("[" RESULT("c1") "," RESULT("c2") "," RESULT("c1") "]", "'c1'");
    bad("[" RESULT("") "," RESULT("") "]", "''");
    good("[" RESULT("c1") "," RESULT("c2") "]", "[" WRITTEN("c1") "," WRITTEN("c2") "]");
    /* Ids may come again in another turn. */
    good("[" RESULT("c1") ",{\"role\":\"user\",\"content\":\"x\"}," RESULT("c1") "]",
         "[" WRITTEN("c1") ",{\"role\":\"user\",\"content\":\"x\"}," WRITTEN("c1") "]");
}

static void tools(const char *text, weft_status status, const char *expected)
{
    check(messages_read_tools, offsetof(generation, tools), text, status, expected);
}

static void test_tools(void **state)
{
    (void)state;
    tools("[]", WEFT_OK, "");
    tools("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", WEFT_OK,
          "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]");
    static const char *const BAD[] = {"5",
                                      "{}",
                                      "\"x\"",
                                      "[5]",
                                      "[{}]",
                                      "[{\"type\":\"function\"}]",
                                      "[{\"type\":\"other\",\"function\":{\"name\":\"f\"}}]",
                                      "[{\"type\":\"function\",\"function\":{\"name\":5}}]"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) tools(BAD[i], WEFT_ARGUMENT, "tools");
}

static weft_status read_format(generation *g, const json *value, char *param, weft_error *err)
{
    return messages_read_format(g, value, "response_format", param, err);
}

static void format(const char *text, weft_status status, const char *expected)
{
    check(read_format, offsetof(generation, form), text, status, expected);
}

static void test_formats(void **state)
{
    (void)state;
    format("{\"type\":\"text\"}", WEFT_OK, "");
    format("{\"type\":\"json_object\"}", WEFT_OK, "");
    format("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"a\":1}}}", WEFT_OK,
           "{\"a\":1}");
    format("{\"type\":\"json_schema\",\"schema\":true}", WEFT_OK, "true");
    format("{\"type\":\"json_schema\",\"name\":\"n\",\"strict\":false,\"schema\":true}", WEFT_OK,
           "true");
    format("{\"type\":\"json_object\",\"schema\":{\"a\":1}}", WEFT_OK, "{\"a\":1}");
    static const char *const BAD[] = {"5",
                                      "{}",
                                      "[]",
                                      "{\"type\":5}",
                                      "{\"type\":\"x\"}",
                                      "{\"type\":\"json_schema\"}",
                                      "{\"type\":\"text\",\"schema\":{}}",
                                      "{\"type\":\"json_object\",\"other\":1}",
                                      "{\"type\":\"json_schema\",\"schema\":{},"
                                      "\"json_schema\":{\"schema\":{}}}",
                                      "{\"type\":\"json_schema\","
                                      "\"json_schema\":{\"schema\":{},\"other\":1}}",
                                      "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":5}}"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        format(BAD[i], WEFT_ARGUMENT, "response_format");
}

/* What was answered is known when it comes back. */
static void test_ids(void **state)
{
    (void)state;
    static const int32_t IDS[] = {4, 5};
    replay_key k;
    replay_key_init(&k, str_of("m"), str_of("hello"));
    replay_put(world.server.replay, k, IDS, 2);
    good("[{\"role\":\"assistant\",\"content\":\" hello \"}]",
         "[{\"role\":\"assistant\",\"content\":\" hello \",\"answer_ids\":[4,5]}]");
    good("[{\"role\":\"assistant\",\"content\":\"hello!\"}]",
         "[{\"role\":\"assistant\",\"content\":\"hello!\"}]");
    good("[{\"role\":\"user\",\"content\":\"hello\"}]",
         "[{\"role\":\"user\",\"content\":\"hello\"}]");
}

static weft_status read_nested_choice(generation *g, const json *value, char *param,
                                      weft_error *err)
{
    g->has_tools = true;
    return messages_read_choice(g, value, true, param, err);
}

static weft_status read_flat_choice(generation *g, const json *value, char *param, weft_error *err)
{
    g->has_tools = true;
    return messages_read_choice(g, value, false, param, err);
}

static void choice(reader read, const char *text, weft_status status, const char *expected)
{
    check(read, offsetof(generation, tool_name), text, status, expected);
}

static void test_choices(void **state)
{
    (void)state;
    choice(read_nested_choice, "\"required\"", WEFT_OK, "");
    choice(read_nested_choice, "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}", WEFT_OK,
           "f");
    choice(read_flat_choice, "{\"type\":\"function\",\"name\":\"f\"}", WEFT_OK, "f");
    static const char *const BAD[] = {"5",
                                      "\"any\"",
                                      "{}",
                                      "{\"type\":\"function\"}",
                                      "{\"type\":\"function\",\"name\":\"f\",\"other\":1}",
                                      "{\"type\":\"function\",\"function\":{\"name\":5}}",
                                      "{\"type\":\"function\",\"function\":{\"other\":5}}",
                                      "{\"type\":\"custom\",\"name\":\"f\"}"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        choice(read_nested_choice, BAD[i], WEFT_ARGUMENT, "tool_choice");
        choice(read_flat_choice, BAD[i], WEFT_ARGUMENT, "tool_choice");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_results), cmocka_unit_test(test_tools),
        cmocka_unit_test(test_formats), cmocka_unit_test(test_members),
        cmocka_unit_test(test_choices), cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests_name("server/messages", tests, open_world, close_world);
}
