/* test_dialects.c - what models write, as parts: every example, divided at every byte, in single
 * bytes and at random, comes to the same; and every row has examples. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/io.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "chat/parser.h"
#include "support/fault.h"
#include "support/test.h"

enum { RANDOM_DIVISIONS = 40 };

typedef struct world {
    json_doc doc;
    tool_list tools;
} world;

static world the;

static int open_world(void **state)
{
    (void)state;
    char *text;
    size_t n;
    weft_error err = {.status = WEFT_OK};
    const char *path = WEFT_SOURCE_DIR "/tests/chat/fixtures/dialects.json";
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 20, &text, &n, &err), &err);
    assert_ok(json_parse(&the.doc, text, n, &err), &err);
    mem_free(mem_system(), text, n + 1);
    const json *tools = json_get(the.doc.root, "tools");
    assert_ok(tool_list_init(&the.tools, mem_system(), tools, &err), &err);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    tool_list_deinit(&the.tools);
    json_doc_free(&the.doc);
    return 0;
}

static chat_reading reading_of(const dialect *d, const json *example)
{
    bool own = d->think_open != NULL;
    return (chat_reading){
        .dialect = d,
        .think_open = own ? d->think_open : "<think>",
        .think_close = own ? d->think_close : "</think>",
        .tools = &the.tools,
        .calls = d->form != NULL && json_bool(json_get(example, "calls"), true),
        .one_call = json_bool(json_get(example, "one_call"), false),
        .in_reasoning = json_bool(json_get(example, "in_reasoning"), false),
    };
}

/* ---- parts as text --------------------------------------------------------------------------- */

static const char *const NAMES[] = {"none",      "content", "reasoning", "call",
                                    "arguments", "end",     "undone"};

typedef struct said {
    strbuf text;
    int last; /* kind of the last line */
} said;

static void say(said *s, int kind, str text)
{
    bool joins = s->last == kind && (kind == WEFT_PART_CONTENT || kind == WEFT_PART_REASONING ||
                                     kind == WEFT_PART_ARGUMENTS);
    if (!joins) strbuf_printf(&s->text, "\n[%s] ", NAMES[kind]);
    strbuf_add(&s->text, text.ptr, text.len);
    s->last = kind;
}

static void drain(chat_parser *p, said *s, bool whole)
{
    uint32_t n_calls = 0;
    for (;;) {
        weft_part part = chat_parser_next(p);
        if (part.kind == WEFT_PART_NONE) return;
        if (whole) assert_true(utf8_valid(part.text, part.n_bytes));
        if (part.kind >= WEFT_PART_CALL) assert_true(part.call >= n_calls);
        n_calls = part.kind >= WEFT_PART_CALL ? part.call : n_calls;
        say(s, (int)part.kind, (str){part.text, part.n_bytes});
    }
}

static weft_finish finish_of(const json *example)
{
    bool cut = str_equal_text(json_text(json_get(example, "finish")), "length");
    return cut ? WEFT_FINISH_LENGTH : WEFT_FINISH_STOP;
}

/* The text in pieces of length(i) bytes. */
static void read_text(const chat_reading *how, const json *example, size_t (*length)(size_t),
                      said *s)
{
    chat_parser p;
    weft_error err = {.status = WEFT_OK};
    str text = json_text(json_get(example, "text"));
    chat_parser_init(&p, mem_system(), how);
    strbuf_init(&s->text, mem_system(), 0);
    s->last = WEFT_PART_NONE;
    for (size_t at = 0, i = 0; at < text.len; i++) {
        size_t n = length(i) < text.len - at ? length(i) : text.len - at;
        char *piece = malloc(n);
        assert_non_null(piece);
        memcpy(piece, text.ptr + at, n);
        assert_ok(chat_parser_push(&p, (str){piece, n}, &err), &err);
        free(piece);
        drain(&p, s, length(0) >= text.len);
        at += n;
    }
    assert_ok(chat_parser_end(&p, finish_of(example), &err), &err);
    drain(&p, s, length(0) >= text.len);
    chat_parser_deinit(&p);
}

static size_t first_length;

static size_t in_two(size_t i)
{
    return i == 0 ? first_length : SIZE_MAX;
}

static size_t one_by_one(size_t i)
{
    (void)i;
    return 1;
}

static size_t at_random(size_t i)
{
    return 1 + (size_t)(rng_u64(first_length, i) % 7);
}

static void check(const chat_reading *how, const json *example, size_t (*length)(size_t),
                  const strbuf *want)
{
    said got;
    read_text(how, example, length, &got);
    if (!str_equal(call_text(&got.text), call_text(want))) {
        str text = json_text(json_get(example, "text"));
        fail_msg("%s: %.*s\n gave %s\n not %s", how->dialect->name, (int)text.len, text.ptr,
                 strbuf_text(&got.text), strbuf_text(want));
    }
    strbuf_deinit(&got.text);
}

static void want_of(const json *example, said *want)
{
    strbuf_init(&want->text, mem_system(), 0);
    want->last = WEFT_PART_NONE;
    const json *parts = json_get(example, "parts");
    for (size_t i = 0; i < json_length(parts); i++) {
        str kind = json_text(json_at(json_at(parts, i), 0));
        size_t k = 1;
        while (k < COUNT_OF(NAMES) && !str_equal_text(kind, NAMES[k])) k++;
        assert_true(k < COUNT_OF(NAMES));
        say(want, (int)k, json_text(json_at(json_at(parts, i), 1)));
    }
}

static void check_example(const json *example)
{
    char name[32];
    str text = json_text(json_get(example, "text")), d = json_text(json_get(example, "dialect"));
    snprintf(name, sizeof name, "%.*s", (int)d.len, d.ptr);
    assert_non_null(dialect_find(name));
    chat_reading how = reading_of(dialect_find(name), example);
    said want;
    want_of(example, &want);
    for (first_length = text.len; first_length > 0; first_length--)
        check(&how, example, in_two, &want.text);
    check(&how, example, one_by_one, &want.text);
    for (first_length = 0; first_length < RANDOM_DIVISIONS; first_length++)
        check(&how, example, at_random, &want.text);
    strbuf_deinit(&want.text);
}

static void test_examples(void **state)
{
    (void)state;
    const json *examples = json_get(the.doc.root, "examples");
    assert_true(json_length(examples) >= 90);
    for (size_t i = 0; i < json_length(examples); i++) check_example(json_at(examples, i));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void check_prefixes(void *user, const char *marker)
{
    assert_true(marker[0] != '\0' && strlen(marker) < 64);
    assert_false(call_is_space(marker[0]));
    (void)user;
}

static void test_rows(void **state)
{
    (void)state;
    uint32_t n;
    const dialect *const *rows = dialect_table(&n);
    const json *examples = json_get(the.doc.root, "examples");
    for (uint32_t i = 0; i < n; i++) {
        size_t n_examples = 0, n_calls = 0;
        for (size_t k = 0; k < json_length(examples); k++) {
            const json *e = json_at(examples, k), *parts = json_get(e, "parts");
            if (!str_equal_text(json_text(json_get(e, "dialect")), rows[i]->name)) continue;
            n_examples++;
            for (size_t m = 0; m < json_length(parts); m++)
                n_calls += str_equal_text(json_text(json_at(json_at(parts, m), 0)), "end");
        }
        if (n_examples == 0 || (n_calls == 0 && rows[i]->form != NULL))
            fail_msg("dialects.json has %zu examples of %s, and %zu calls in them", n_examples,
                     rows[i]->name, n_calls);
        assert_true((rows[i]->think_open == NULL) == (rows[i]->think_close == NULL));
        dialect_markers(rows[i], check_prefixes, NULL);
        assert_ptr_equal(dialect_find(rows[i]->name), rows[i]);
        assert_true((rows[i]->signs[0][0] == NULL) == (i + 1 == n));
    }
}

static void test_signs(void **state)
{
    (void)state;
    static const char *const TEMPLATES[][2] = {
        {"hermes", "{{ '<tool_call>\\n' }}"},
        {"qwen_xml", "<tool_call>\\n<function=' + name + '>\\n<parameter='"},
        {"seed", "<seed:tool_call><function= <parameter="},
        {"glm", "<tool_call>{{ n }}<arg_key>{{ k }}</arg_key><arg_value>"},
        {"mistral", "[TOOL_CALLS] ["},
        {"harmony", "<|start|>assistant<|channel|>final<|message|>"},
        {"gemma4", "<|turn>model {{ '<|tool_call>call:' }}"},
        {"llama3", "<|start_header_id|> {\"name\": n, \"parameters\": p}"},
        {"deepseek", "<\xef\xbd\x9ctool\xe2\x96\x81"
                     "calls\xe2\x96\x81"
                     "begin\xef\xbd\x9c>"},
        {"kimi", "<|tool_calls_section_begin|>"},
        {"minimax", "<minimax:tool_call><invoke name="},
        {"plain", "<|im_start|>"},
        {"plain", ""}};
    for (size_t i = 0; i < COUNT_OF(TEMPLATES); i++)
        assert_string_equal(dialect_choose(str_of(TEMPLATES[i][1])).row->name, TEMPLATES[i][0]);
}

/* ---- limits and memory ----------------------------------------------------------------------- */

static const chat_reading HERMES_READING = {.tools = &the.tools, .calls = true};

static void test_call_limits(void **state)
{
    (void)state;
    static const char CALL[] = "<tool_call>{\"name\":\"f\"}</tool_call>";
    chat_reading how = HERMES_READING;
    how.dialect = dialect_find("hermes");
    chat_parser p;
    weft_error err = {.status = WEFT_OK};
    chat_parser_init(&p, mem_system(), &how);
    uint32_t n_calls = 0, n_content = 0;
    for (int i = 0; i < WEFT_CHAT_CALLS + 2; i++) {
        assert_ok(chat_parser_push(&p, str_of(CALL), &err), &err);
        for (weft_part part; (part = chat_parser_next(&p)).kind != WEFT_PART_NONE;) {
            n_calls += part.kind == WEFT_PART_CALL_END;
            n_content += part.kind == WEFT_PART_CONTENT;
        }
    }
    assert_int_equal(n_calls, WEFT_CHAT_CALLS);
    assert_int_equal(n_content, 2);
    chat_parser_deinit(&p);
}

static void test_call_bytes(void **state)
{
    (void)state;
    chat_reading how = HERMES_READING;
    how.dialect = dialect_find("hermes");
    chat_parser p;
    weft_error err = {.status = WEFT_OK};
    size_t n = (size_t)WEFT_CHAT_CALL_BYTES + 100, n_content = 0;
    char *many = malloc(n);
    assert_non_null(many);
    memset(many, 'x', n);
    chat_parser_init(&p, mem_system(), &how);
    str begin = str_of("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"");
    assert_ok(chat_parser_push(&p, begin, &err), &err);
    assert_ok(chat_parser_push(&p, (str){many, n}, &err), &err);
    bool undone = false;
    for (weft_part part; (part = chat_parser_next(&p)).kind != WEFT_PART_NONE;) {
        undone = undone || part.kind == WEFT_PART_CALL_UNDONE;
        if (part.kind == WEFT_PART_CONTENT) n_content += part.n_bytes;
    }
    assert_true(undone);
    assert_int_equal(n_content, begin.len + n);
    chat_parser_deinit(&p);
    free(many);
}

static weft_status parse_all(const env *world_env, void *user, weft_error *err)
{
    (void)user;
    const json *examples = json_get(the.doc.root, "examples");
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_length(examples) && status == WEFT_OK; i++) {
        const json *e = json_at(examples, i);
        char name[32];
        str d = json_text(json_get(e, "dialect"));
        snprintf(name, sizeof name, "%.*s", (int)d.len, d.ptr);
        chat_reading how = reading_of(dialect_find(name), e);
        tool_list tools;
        chat_parser p;
        status = tool_list_init(&tools, world_env->allocator, json_get(the.doc.root, "tools"), err);
        if (status != WEFT_OK) return status;
        how.tools = &tools;
        chat_parser_init(&p, world_env->allocator, &how);
        status = chat_parser_push(&p, json_text(json_get(e, "text")), err);
        if (status == WEFT_OK) status = chat_parser_end(&p, finish_of(e), err);
        if (status != WEFT_OK) assert_int_equal(chat_parser_next(&p).kind, WEFT_PART_NONE);
        chat_parser_deinit(&p);
        tool_list_deinit(&tools);
    }
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_true(fault_sweep(parse_all, NULL) >= 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),   cmocka_unit_test(test_rows),
        cmocka_unit_test(test_signs),      cmocka_unit_test(test_call_limits),
        cmocka_unit_test(test_call_bytes), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
