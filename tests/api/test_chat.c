/* test_chat.c - conversations on the small model under many templates: prompts, what was sampled in
 * its place, answers that must be calls or of a form, parts of answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/io.h"
#include "base/rng.h"
#include "chat/dialects/dialect.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/json_schema.h"
#include "support/runs.h"

enum { IDS_MOST = 4096, ANSWER_MOST = 320 };

/* ---- the model under another template -------------------------------------------------------- */

/* The token that ends an answer is called as one of harmony's markers that ends nothing. */
static void rename_end(char *text)
{
    for (char *at = text; (at = strstr(at, "<|end|>")) != NULL;) memcpy(at, "<|fin|>", 7);
}

static void copy_file(test_folder *folder, const char *name)
{
    char path[512], *text;
    size_t n;
    weft_error err = {WEFT_OK, ""};
    snprintf(path, sizeof path, "%s/%s", TINY_PATH("draft"), name);
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &text, &n, &err), &err);
    if (strcmp(name, "tokenizer_config.json") == 0) rename_end(text);
    test_folder_write(folder, name, text, n);
    mem_free(mem_system(), text, n + 1);
}

/* specials: NULL, or texts that become special tokens behind the vocabulary. */
static void write_tokenizer(test_folder *folder, const char *const *specials)
{
    static const char LIST[] = "\"added_tokens\": [";
    char *text;
    size_t n;
    weft_error err = {WEFT_OK, ""};
    assert_ok(io_read_file(io_system(), mem_system(), TINY_PATH("draft") "/tokenizer.json", 1 << 24,
                           &text, &n, &err),
              &err);
    rename_end(text);
    char *at = strstr(text, LIST);
    assert_non_null(at);
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add(&out, text, (size_t)(at - text) + strlen(LIST));
    for (int i = 0; specials != NULL && specials[i] != NULL; i++) {
        strbuf_printf(&out, "{\"id\": %d, \"content\": ", 4096 + i);
        json_write_text(str_of(specials[i]), &out);
        strbuf_add_text(&out, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                              "\"normalized\": false, \"special\": true}, ");
    }
    strbuf_add_text(&out, at + strlen(LIST));
    test_folder_write(folder, "tokenizer.json", out.ptr, out.len);
    strbuf_deinit(&out);
    mem_free(mem_system(), text, n + 1);
}

static void write_model(test_folder *folder, str source, const char *const *specials)
{
    test_folder_create(folder);
    copy_file(folder, "config.json");
    copy_file(folder, "generation_config.json");
    copy_file(folder, "model.safetensors");
    copy_file(folder, "tokenizer_config.json");
    write_tokenizer(folder, specials);
    test_folder_write(folder, "chat_template.jinja", source.ptr, source.len);
}

static weft_model *open_model(str source, const char *const *specials)
{
    test_folder folder;
    write_model(&folder, source, specials);
    weft_model *model = run_open_model(folder.path);
    test_folder_remove(&folder);
    return model;
}

static weft_model *open_fixture(const char *name, const char *const *specials)
{
    json_doc doc = run_read_json(WEFT_SOURCE_DIR "/tests/chat/fixtures/templates.json");
    const json *cases = json_get(doc.root, "cases");
    str source = {NULL, 0};
    for (size_t i = 0; i < json_length(cases); i++) {
        const json *one = json_at(cases, i);
        if (str_equal_text(json_text(json_get(one, "name")), name))
            source = json_text(json_get(one, "template"));
    }
    assert_true(source.len > 0);
    weft_model *model = open_model(source, specials);
    json_doc_free(&doc);
    return model;
}

static weft_chat *open_chat(const weft_model *model, const weft_chat_options *options)
{
    weft_chat *chat;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_chat_open(model, options, &chat, &err), &err);
    return chat;
}

static weft_chat_info info_of(const weft_chat *chat)
{
    weft_chat_info info = {.struct_size = sizeof info};
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_chat_get_info(chat, &info, &err), &err);
    return info;
}

#define CHAT(...) ((weft_chat_options){.struct_size = sizeof(weft_chat_options), __VA_ARGS__})

static const char HI[] = "[{\"role\": \"user\", \"content\": \"Hi\"}]";

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get-x\", \"description\": \"d\","
    " \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"q\": {\"type\": \"string\", \"maxLength\": 6}, \"n\": {\"type\": \"integer\", "
    "\"minimum\": 0, \"maximum\": 99}, \"e\": {\"type\": \"string\", \"enum\": [\"a b\", \"c\"]}, "
    "\"l\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"minItems\": 1, "
    "\"maxItems\": 3}}, \"required\": [\"q\", \"e\"], \"additionalProperties\": false}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\","
    " \"parameters\": {\"type\": \"object\", \"properties\": {}, \"additionalProperties\": "
    "false}}}]";

/* ---- refusals -------------------------------------------------------------------------------- */

static void expect(const weft_model *model, weft_chat_options options, weft_status status,
                   const char *part)
{
    weft_chat *chat = (weft_chat *)(uintptr_t)1;
    weft_error err = {WEFT_OK, ""};
    assert_status(status, weft_chat_open(model, &options, &chat, &err), &err);
    assert_message(&err, part);
    assert_null(chat);
}

#define TOOL_OF(function) "[{\"type\": \"function\", \"function\": " function "}]"

static void test_refusals(void **state)
{
    (void)state;
    weft_model *m = open_fixture("im_tools", NULL);
    weft_model *plain = run_open_model(TINY_PATH("draft"));
    expect(m, CHAT(.messages_json = NULL), WEFT_ARGUMENT, "messages_json is NULL");
    expect(m, CHAT(.messages_json = "{"), WEFT_FORMAT, "messages: ");
    expect(m, CHAT(.messages_json = "{}"), WEFT_ARGUMENT, "messages are");
    expect(m, CHAT(.messages_json = HI, .tool_choice = "any"), WEFT_ARGUMENT, "'any'");
    expect(m, CHAT(.messages_json = HI, .tool_choice = "required"), WEFT_ARGUMENT, "no tools");
    expect(m, CHAT(.messages_json = HI, .tools_json = TOOLS, .tool_name = "g"), WEFT_ARGUMENT,
           "'g', of which there is no tool");
    expect(m, CHAT(.messages_json = HI, .tools_json = "{}"), WEFT_ARGUMENT, "tools are object");
    expect(m, CHAT(.messages_json = HI, .tools_json = TOOL_OF("{\"name\": \"a b\"}")),
           WEFT_ARGUMENT, "tool 0: its name 'a b'");
    expect(m,
           CHAT(.messages_json = HI, .tool_choice = "required",
                .tools_json = TOOL_OF("{\"name\": \"bad\", \"description\": \"\", \"parameters\": "
                                      "{\"$dynamicRef\": \"#a\"}}")),
           WEFT_UNSUPPORTED, "tool 'bad'");
    expect(m, CHAT(.messages_json = HI, .variables_json = "[]"), WEFT_ARGUMENT, "variables are");
    expect(m, CHAT(.messages_json = HI, .variables_json = "{\"messages\": 1}"), WEFT_ARGUMENT,
           "'messages' is no name");
    expect(m, CHAT(.messages_json = HI, .flags = 8), WEFT_ARGUMENT, "unknown flags 8");
    expect(m,
           CHAT(.messages_json = HI, .has_form = true, .form = "{\"type\": 3}", .form_bytes = 11),
           WEFT_FORMAT, "type");
    /* What says nothing is not taken for anything (B58). */
    expect(m, CHAT(.messages_json = HI, .has_form = true, .form_kind = WEFT_GRAMMAR_REGEX),
           WEFT_ARGUMENT, "an empty pattern allows no text");
    expect(m, CHAT(.messages_json = HI, .has_form = true, .form_kind = WEFT_GRAMMAR_SCHEMA),
           WEFT_FORMAT, "form: JSON line 1");
    expect(m, CHAT(.messages_json = HI, .has_form = true, .form_kind = WEFT_GRAMMAR_CHOICE),
           WEFT_FORMAT, "form: JSON line 1");
    expect(m,
           CHAT(.messages_json =
                    "[{\"role\": \"assistant\", \"content\": \"\", \"answer_ids\": [70000]}]"),
           WEFT_ARGUMENT, "answer_ids 0 is 70000");
    expect(plain, CHAT(.messages_json = HI, .tools_json = TOOLS, .tool_choice = "required"),
           WEFT_UNSUPPORTED, "not known");
    weft_model_close(plain);
    weft_model_close(m);
}

static void test_bare_schemas(void **state)
{
    (void)state;
    weft_model *m = open_fixture("im_xml_tools", NULL);
    expect(m,
           CHAT(.messages_json = HI, .tool_choice = "required",
                .tools_json = TOOL_OF("{\"name\": \"f\", \"description\": \"\", \"parameters\": "
                                      "{\"type\": \"object\", \"properties\": {\"p\": {\"type\": "
                                      "\"string\", \"pattern\": \"^a\"}}}}")),
           WEFT_UNSUPPORTED, "tool 'f': ");
    weft_model_close(m);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* What an answer came to; texts are joined. */
typedef struct heard {
    strbuf content, reasoning, names, arguments;
    uint32_t n_calls, n_ends, n_undone;
} heard;

static void heard_init(heard *h)
{
    *h = (heard){.n_calls = 0};
    strbuf_init(&h->content, mem_system(), 0);
    strbuf_init(&h->reasoning, mem_system(), 0);
    strbuf_init(&h->names, mem_system(), 0);
    strbuf_init(&h->arguments, mem_system(), 0);
}

static void heard_deinit(heard *h)
{
    strbuf_deinit(&h->content);
    strbuf_deinit(&h->reasoning);
    strbuf_deinit(&h->names);
    strbuf_deinit(&h->arguments);
}

/* Behind each name is a line's end, behind arguments a separator. */
static void take_part(heard *h, const weft_part *part)
{
    switch (part->kind) {
    case WEFT_PART_CONTENT:
        strbuf_add(&h->content, part->text, part->n_bytes);
        break;
    case WEFT_PART_REASONING:
        strbuf_add(&h->reasoning, part->text, part->n_bytes);
        break;
    case WEFT_PART_CALL:
        assert_int_equal(part->call, h->n_calls);
        h->n_calls++;
        strbuf_add(&h->names, part->text, part->n_bytes);
        strbuf_add_char(&h->names, '\n');
        break;
    case WEFT_PART_ARGUMENTS:
        strbuf_add(&h->arguments, part->text, part->n_bytes);
        break;
    case WEFT_PART_CALL_END:
        h->n_ends++;
        strbuf_add_char(&h->arguments, '\x1e');
        break;
    default:
        h->n_undone++;
        break;
    }
}

static void drain(weft_parser *parser, heard *h)
{
    weft_part part = {.struct_size = sizeof part};
    weft_error err = {WEFT_OK, ""};
    for (;;) {
        assert_ok(weft_parser_next(parser, &part, &err), &err);
        if (part.kind == WEFT_PART_NONE) return;
        take_part(h, &part);
    }
}

static void read_answer(const weft_chat *chat, str text, weft_finish finish, heard *h)
{
    weft_parser *parser;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_parser_create(chat, &parser, &err), &err);
    assert_ok(weft_parser_push(parser, text.ptr, text.len, &err), &err);
    drain(parser, h);
    assert_ok(weft_parser_end(parser, finish, &err), &err);
    drain(parser, h);
    weft_parser_destroy(parser);
}

static void check_answer(const weft_chat *chat, const char *text, const char *reasoning,
                         const char *content, const char *names)
{
    heard h;
    heard_init(&h);
    read_answer(chat, str_of(text), WEFT_FINISH_STOP, &h);
    assert_string_equal(strbuf_text(&h.reasoning), reasoning);
    assert_string_equal(strbuf_text(&h.content), content);
    assert_string_equal(strbuf_text(&h.names), names);
    heard_deinit(&h);
}

/* ---- templates ------------------------------------------------------------------------------- */

static void test_templates(void **state)
{
    (void)state;
    static const struct {
        const char *name, *dialect;
        bool calls;
    } CASES[] = {{"im_tools", "hermes", true},          {"im_xml_tools", "qwen_xml", true},
                 {"im_vision_think", "qwen_xml", true}, {"tekken", "mistral", true},
                 {"turns_typed", "gemma4", true},       {"channels", "harmony", true},
                 {"observation", "glm", true},          {"im_middle", "kimi", true},
                 {"header_builtin", "llama3", true},    {"chatml", "plain", false}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        weft_model *m = open_fixture(CASES[i].name, NULL);
        weft_chat *chat = open_chat(m, &CHAT(.messages_json = HI, .tools_json = TOOLS));
        weft_chat_info info = info_of(chat);
        assert_string_equal(info.dialect, CASES[i].dialect);
        assert_int_equal(info.n_tools, CASES[i].calls ? 2 : 0);
        assert_false(info.has_grammar);
        /* As the two-step way has it. */
        int32_t ids[IDS_MOST];
        size_t n;
        weft_error err = {WEFT_OK, ""};
        assert_ok(weft_chat_tokenize(m, HI, TOOLS, 0, ids, IDS_MOST, &n, &err), &err);
        assert_int_equal(info.n_prompt, n);
        assert_memory_equal(info.prompt, ids, n * sizeof *ids);
        weft_chat_close(chat);
        weft_model_close(m);
    }
}

static void test_reasoning_opened(void **state)
{
    (void)state;
    weft_model *m = open_fixture("im_vision_think", NULL);
    weft_chat *chat = open_chat(m, &CHAT(.messages_json = HI));
    assert_true(info_of(chat).in_reasoning);
    check_answer(chat, "hm\n</think>\n\nYes.", "hm", "Yes.", "");
    weft_chat_close(chat);
    chat =
        open_chat(m, &CHAT(.messages_json = HI, .variables_json = "{\"enable_thinking\": false}"));
    assert_false(info_of(chat).in_reasoning);
    check_answer(chat, "Yes.", "", "Yes.", "");
    weft_chat_close(chat);
    /* What a user says is not the template. */
    chat = open_chat(m, &CHAT(.messages_json = "[{\"role\": \"user\", \"content\": \"<think>\"}]",
                              .flags = WEFT_CHAT_NO_GENERATION_PROMPT));
    assert_false(info_of(chat).in_reasoning);
    weft_chat_close(chat);
    weft_model_close(m);
}

static void test_tool_choice_none(void **state)
{
    (void)state;
    weft_model *m = open_fixture("im_tools", NULL);
    weft_chat *with =
        open_chat(m, &CHAT(.messages_json = HI, .tools_json = TOOLS, .tool_choice = "none"));
    weft_chat *without = open_chat(m, &CHAT(.messages_json = HI));
    assert_int_equal(info_of(with).n_prompt, info_of(without).n_prompt);
    check_answer(with, "<tool_call>{\"name\":\"f\"}</tool_call>", "",
                 "<tool_call>{\"name\":\"f\"}</tool_call>", "");
    weft_chat_close(with);
    weft_chat_close(without);
    weft_model_close(m);
}

/* Special tokens that mark calls are in the text, whatever the request says of others. */
static void test_shown(void **state)
{
    (void)state;
    static const char *const SPECIALS[] = {"[TOOL_CALLS]", "[ARGS]", "[INST]", NULL};
    weft_model *m = open_fixture("tekken", SPECIALS);
    weft_chat *chat = open_chat(m, &CHAT(.messages_json = HI, .tools_json = TOOLS));
    weft_request request = {.struct_size = sizeof request, .max_new = 7, .n_top = 2};
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_chat_fill(chat, &request, &err), &err);
    assert_int_equal(request.n_shown_ids, 2);
    assert_true((request.shown_ids[0] == 4096 && request.shown_ids[1] == 4097) ||
                (request.shown_ids[0] == 4097 && request.shown_ids[1] == 4096));
    assert_int_equal(request.max_new, 7);
    assert_int_equal(request.n_top, 2);
    assert_true((request.flags & WEFT_REQUEST_TEXT) != 0);
    weft_chat_close(chat);
    weft_model_close(m);
}

/* ---- answers that were sampled --------------------------------------------------------------- */

static void write_ids(strbuf *out, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) strbuf_printf(out, i == 0 ? "%d" : ", %d", ids[i]);
}

/* Tokens that say a text, one byte or so at a time: not as the tokenizer would. */
static size_t odd_ids(const weft_model *m, const char *text, int32_t *ids)
{
    size_t n = 0, n_more;
    weft_error err = {WEFT_OK, ""};
    for (size_t at = 0; at < strlen(text);) {
        size_t length = 1 + at % 2;
        if (length > strlen(text) - at) length = strlen(text) - at;
        assert_ok(weft_tokenize(m, text + at, length, 0, ids + n, IDS_MOST - n, &n_more, &err),
                  &err);
        n += n_more;
        at += length;
    }
    return n;
}

typedef struct turns {
    const char *fixture, *variables;
    const char *sampled; /* the answer's text */
    const char *message; /* the client's: content, reasoning, calls */
    const char *next;    /* messages behind it */
    bool exact;          /* the next prompt begins with this one and what was sampled */
    uint32_t n_replayed;
    const char *kept; /* not exact: the part of sampled that stands there as it was */
} turns;

static bool has_ids(const int32_t *in, size_t n_in, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i + n <= n_in; i++) {
        if (memcmp(in + i, ids, n * sizeof *ids) == 0) return true;
    }
    return false;
}

static void check_turns(const turns *t)
{
    static int32_t ids[IDS_MOST], kept[IDS_MOST];
    weft_model *m = open_fixture(t->fixture, NULL);
    weft_chat *first = open_chat(
        m, &CHAT(.messages_json = HI, .tools_json = TOOLS, .variables_json = t->variables));
    size_t n = odd_ids(m, t->sampled, ids);
    strbuf messages;
    strbuf_init(&messages, mem_system(), 0);
    strbuf_printf(&messages,
                  "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", %s, "
                  "\"answer_ids\": [",
                  t->message);
    write_ids(&messages, ids, n);
    strbuf_printf(&messages, "]}, %s]", t->next);
    weft_chat *second = open_chat(m, &CHAT(.messages_json = messages.ptr, .tools_json = TOOLS,
                                           .variables_json = t->variables));
    weft_chat_info a = info_of(first), b = info_of(second);
    if (b.n_replayed != t->n_replayed) fail_msg("%s: %u replayed", t->fixture, b.n_replayed);
    if (t->exact) {
        assert_true(b.n_prompt > a.n_prompt + n);
        assert_memory_equal(b.prompt, a.prompt, a.n_prompt * sizeof *ids);
        assert_memory_equal(b.prompt + a.n_prompt, ids, n * sizeof *ids);
    } else if (t->kept != NULL) {
        const char *at = strstr(t->sampled, t->kept);
        assert_non_null(at);
        size_t before = (size_t)(at - t->sampled), n_kept = 0;
        /* Pieces begin at every third byte. */
        for (size_t from = 0; from < strlen(t->sampled);) {
            int32_t piece[16];
            size_t length = 1 + from % 2, n_piece;
            if (length > strlen(t->sampled) - from) length = strlen(t->sampled) - from;
            weft_error err = {WEFT_OK, ""};
            assert_ok(weft_tokenize(m, t->sampled + from, length, 0, piece, 16, &n_piece, &err),
                      &err);
            if (from >= before) {
                memcpy(kept + n_kept, piece, n_piece * sizeof *piece);
                n_kept += n_piece;
            }
            from += length;
        }
        assert_true(has_ids(b.prompt, b.n_prompt, kept, n_kept));
    }
    strbuf_deinit(&messages);
    weft_chat_close(first);
    weft_chat_close(second);
    weft_model_close(m);
}

static const turns TURNS[] = {
    {"im_tools", NULL, "Hello there, you.", "\"content\": \"Hello there, you.\"",
     "{\"role\": \"user\", \"content\": \"More\"}", true, 1, NULL},
    {"im_tools", NULL, "<tool_call>\n{\"name\":  \"f\", \"arguments\": {}}\n</tool_call>",
     "\"content\": \"\", \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": "
     "{\"name\": \"f\", \"arguments\": \"{}\"}}]",
     "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"2\"}", true, 1, NULL},
    {"tekken", NULL, "Hello there", "\"content\": \"Hello there\"",
     "{\"role\": \"user\", \"content\": \"More\"}", false, 1, "Hello there"},
    {"im_vision_think", NULL,
     "so\n</think>\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>",
     "\"content\": \"\", \"reasoning_content\": \"so\", \"tool_calls\": [{\"id\": \"1\", \"type\": "
     "\"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]",
     "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"2\"}", true, 1, NULL},
    {"im_vision_think", NULL, "so.\n</think>\n\nHello there, you",
     "\"content\": \"Hello there, you\"", "{\"role\": \"user\", \"content\": \"More\"}", false, 1,
     "Hello there, you"},
    {"im_vision_think", "{\"enable_thinking\": false}",
     "<tool_call>\n<function=f>\n</function>\n</tool_call>",
     "\"content\": \"\", \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": "
     "{\"name\": \"f\", \"arguments\": \"{}\"}}]",
     "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"2\"}", true, 1, NULL},
    /* Thoughts are dropped by this template; of final messages the text is kept. */
    {"channels", NULL,
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
     "Hello you",
     "\"content\": \"Hello you\"", "{\"role\": \"user\", \"content\": \"More\"}", false, 1,
     "lo you"},
    /* Calls of messages are written otherwise than they were: as the message is. */
    {"channels", NULL, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}",
     "\"content\": \"\", \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": "
     "{\"name\": \"f\", \"arguments\": \"{}\"}}]",
     "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"2\"}", false, 0, NULL},
    {"plain", NULL, "x", "\"content\": \"x\"", "{\"role\": \"user\", \"content\": \"More\"}", false,
     1, NULL},
};

static void test_replay(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(TURNS); i++) check_turns(&TURNS[i]);
}

/* A conversation of many turns, each of which was sampled. */
static void test_replay_many(void **state)
{
    (void)state;
    static int32_t prompt[IDS_MOST];
    weft_model *m = open_fixture("chatml", NULL);
    strbuf messages;
    strbuf_init(&messages, mem_system(), 0);
    strbuf_add_text(&messages, "[{\"role\": \"user\", \"content\": \"a <|fin|> b\"}");
    uint32_t n_prompt = 0;
    for (uint32_t turn = 0; turn < 12; turn++) {
        size_t before = messages.len;
        strbuf_add_char(&messages, ']');
        weft_chat *chat = open_chat(m, &CHAT(.messages_json = messages.ptr));
        weft_chat_info info = info_of(chat);
        assert_int_equal(info.n_replayed, turn);
        assert_true(info.n_prompt > n_prompt && info.n_prompt + 32 < IDS_MOST);
        assert_memory_equal(info.prompt, prompt, n_prompt * sizeof *prompt);
        memcpy(prompt, info.prompt, info.n_prompt * sizeof *prompt);
        n_prompt = info.n_prompt;
        messages.len = before;
        strbuf_add_text(&messages, ", {\"role\": \"assistant\", \"content\": \"?\", "
                                   "\"answer_ids\": [");
        for (uint32_t i = 0; i < 9; i++) {
            prompt[n_prompt + i] = 300 + (int32_t)(rng_u64(turn, i) % 3000);
        }
        write_ids(&messages, prompt + n_prompt, 9);
        n_prompt += 9;
        strbuf_add_text(&messages, "]}, {\"role\": \"user\", \"content\": \"more <|fin|>\"}");
        weft_chat_close(chat);
    }
    strbuf_deinit(&messages);
    weft_model_close(m);
}

/* ---- answers that must be something ---------------------------------------------------------- */

/* The answer of the model to what is filled; text is the caller's. */
static weft_finish answer(weft_engine *engine, const weft_chat *chat, uint64_t seed, strbuf *text)
{
    weft_request request = {.struct_size = sizeof request, .max_new = ANSWER_MOST};
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    request.sampling.temperature = 1.0f;
    request.sampling.seed = seed;
    assert_ok(weft_chat_fill(chat, &request, &err), &err);
    assert_ok(weft_submit(engine, &request, &handle, &err), &err);
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(engine, handle, &event, &err), &err);
        if (event.kind == WEFT_EVENT_NONE) {
            uint32_t n_active;
            assert_ok(weft_step(engine, &n_active, &err), &err);
            continue;
        }
        strbuf_add(text, event.text, event.n_text);
        if (event.kind != WEFT_EVENT_DONE) continue;
        if (event.finish == WEFT_FINISH_ERROR) fail_msg("%s", event.error.message);
        assert_ok(weft_release(engine, handle, &err), &err);
        return event.finish;
    }
}

static weft_engine *open_engine(const weft_model *model)
{
    weft_engine_options options = {.struct_size = sizeof options, .context = 2048, .n_threads = 1};
    return run_open_engine(model, &options);
}

/* Arguments of each call against the schema of its tool. */
static void check_calls(heard *h)
{
    json_error_t why;
    json_t *tools = json_loads(TOOLS, 0, &why);
    assert_non_null(tools);
    char *name = h->names.ptr, *arguments = h->arguments.ptr;
    for (uint32_t i = 0; i < h->n_ends; i++) {
        char *name_end = strchr(name, '\n'), *end = strchr(arguments, '\x1e');
        assert_true(name_end != NULL && end != NULL);
        *name_end = *end = '\0';
        json_t *value = json_loads(arguments, 0, &why), *schema = NULL;
        if (value == NULL) fail_msg("%s: %s", arguments, why.text);
        for (size_t k = 0; k < json_array_size(tools); k++) {
            json_t *function = json_object_get(json_array_get(tools, k), "function");
            if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
                schema = json_object_get(function, "parameters");
        }
        assert_non_null(schema);
        if (json_schema_validate(schema, value, false) != JSON_SCHEMA_YES)
            fail_msg("%s(%s)", name, arguments);
        json_decref(value);
        name = name_end + 1;
        arguments = end + 1;
    }
    json_decref(tools);
}

#define TINY_TEMPLATE                                                                              \
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] | trim }}<|fin|>\n{% endfor %}"   \
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"

static weft_model *open_signs(const dialect *d, const char *more)
{
    strbuf source;
    strbuf_init(&source, mem_system(), 0);
    strbuf_add_text(&source, "{# ");
    for (size_t i = 0; i < DIALECT_SIGNS && d->signs[0][i] != NULL; i++)
        strbuf_printf(&source, "%s ", d->signs[0][i]);
    strbuf_printf(&source, "%s #}", more);
    strbuf_add_text(&source, TINY_TEMPLATE);
    weft_model *m = open_model((str){source.ptr, source.len}, NULL);
    strbuf_deinit(&source);
    return m;
}

static void check_forced(const weft_model *m, weft_engine *engine, const weft_chat_options *options)
{
    weft_chat *chat = open_chat(m, options);
    uint32_t n_stopped = 0;
    assert_true(info_of(chat).has_grammar);
    for (uint64_t seed = 1; seed <= (TEST_SLOWED ? 2 : 4); seed++) {
        strbuf text;
        heard h;
        strbuf_init(&text, mem_system(), 0);
        heard_init(&h);
        weft_finish finish = answer(engine, chat, seed, &text);
        read_answer(chat, call_text(&text), finish, &h);
        if (h.n_undone > 0 || (finish == WEFT_FINISH_STOP && (h.n_ends == 0 || h.content.len > 0)))
            fail_msg("%s: %s", info_of(chat).dialect, strbuf_text(&text));
        if (options->tool_name != NULL && h.n_calls > 0)
            assert_true(str_starts(call_text(&h.names), options->tool_name));
        if (options->one_call) assert_true(h.n_calls <= 1);
        check_calls(&h);
        n_stopped += finish == WEFT_FINISH_STOP;
        heard_deinit(&h);
        strbuf_deinit(&text);
    }
    if (options->one_call && n_stopped == 0) fail_msg("%s: none ended", info_of(chat).dialect);
    weft_chat_close(chat);
}

static void check_forced_dialect(const dialect *d, const char *more)
{
    weft_model *m = open_signs(d, more);
    weft_engine *engine = open_engine(m);
    check_forced(m, engine,
                 &CHAT(.messages_json = HI, .tools_json = TOOLS, .tool_choice = "required"));
    check_forced(
        m, engine,
        &CHAT(.messages_json = HI, .tools_json = TOOLS, .tool_name = "get-x", .one_call = true));
    weft_engine_close(engine);
    weft_model_close(m);
}

static void test_forced(void **state)
{
    (void)state;
    uint32_t n;
    const dialect *const *rows = dialect_table(&n);
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i]->form == NULL) continue;
        check_forced_dialect(rows[i], rows[i]->newer_sign != NULL ? rows[i]->newer_sign : "");
        if (rows[i]->newer_sign != NULL) check_forced_dialect(rows[i], "");
        if (rows[i]->older_sign != NULL) check_forced_dialect(rows[i], rows[i]->older_sign);
    }
}

/* With reasoning open, closed, and left to the model; and a form instead of calls (B62). */
static void test_forms(void **state)
{
    (void)state;
    static const char *const OPENINGS[] = {"", "<think>\\n", "<think>\\n\\n</think>\\n\\n"};
    for (size_t i = 0; i < COUNT_OF(OPENINGS); i++) {
        char source[1024];
        snprintf(source, sizeof source, "{# <tool_call> </think> #}%s{{ '%s' }}", TINY_TEMPLATE,
                 OPENINGS[i]);
        weft_model *m = open_model(str_of(source), NULL);
        weft_engine *engine = open_engine(m);
        check_forced(m, engine,
                     &CHAT(.messages_json = HI, .tools_json = TOOLS, .tool_name = "get-x",
                           .one_call = i == 2));
        weft_chat *chat = open_chat(m, &CHAT(.messages_json = HI, .has_form = true,
                                             .form_kind = WEFT_GRAMMAR_CHOICE,
                                             .form = "[\"red\", \"blue\"]", .form_bytes = 15));
        strbuf text;
        heard h;
        strbuf_init(&text, mem_system(), 0);
        heard_init(&h);
        weft_finish finish = answer(engine, chat, 3, &text);
        read_answer(chat, call_text(&text), finish, &h);
        bool red = strcmp(strbuf_text(&h.content), "red") == 0;
        bool blue = strcmp(strbuf_text(&h.content), "blue") == 0;
        if (finish == WEFT_FINISH_STOP && !red && !blue) fail_msg("%s", strbuf_text(&text));
        assert_true(finish == WEFT_FINISH_STOP || i != 2);
        heard_deinit(&h);
        strbuf_deinit(&text);
        weft_chat_close(chat);
        weft_engine_close(engine);
        weft_model_close(m);
    }
}

/* A strict tool: what is called is called right, and nothing must be. */
static void test_strict(void **state)
{
    (void)state;
    static const char STRICT[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"s\", \"strict\": true, "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"const\": 7}}, "
        "\"required\": [\"a\"], "
        "\"additionalProperties\": false}}}]";
    uint32_t n;
    const dialect *const *rows = dialect_table(&n);
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i]->form == NULL) continue;
        weft_model *m = open_signs(rows[i], "");
        weft_chat *chat = open_chat(m, &CHAT(.messages_json = HI, .tools_json = STRICT));
        assert_true(info_of(chat).has_grammar);
        weft_chat_close(chat);
        weft_model_close(m);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static test_folder swept;

static const char TURNS_SWEPT[] =
    "[{\"role\": \"user\", \"content\": \"Hi\"}, "
    "{\"role\": \"assistant\", \"content\": \"x\", \"answer_ids\": [300, 301]}, "
    "{\"role\": \"user\", \"content\": \"Ho\"}]";

static weft_status sweep(const env *world, void *user, weft_error *err)
{
    weft_model *m = NULL;
    weft_chat *chat = NULL;
    weft_parser *parser = NULL;
    (void)user;
    weft_model_options how = {.struct_size = sizeof how, .allocator = world->allocator};
    weft_status status = weft_model_open(swept.path, &how, &m, err);
    weft_chat_options options =
        CHAT(.messages_json = TURNS_SWEPT,
             .tools_json = TOOL_OF("{\"name\": \"f\", \"description\": \"d\"}"),
             .variables_json = "{\"enable_thinking\": false}");
    if (status == WEFT_OK) status = weft_chat_open(m, &options, &chat, err);
    if (status == WEFT_OK) status = weft_parser_create(chat, &parser, err);
    if (status == WEFT_OK) {
        static const char TEXT[] = "a<tool_call>{\"name\": \"f\"}</tool_call>";
        status = weft_parser_push(parser, TEXT, strlen(TEXT), err);
    }
    weft_parser_destroy(parser);
    weft_chat_close(chat);
    weft_model_close(m);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    write_model(&swept, str_of("{# <tool_call> #}" TINY_TEMPLATE), NULL);
    assert_true(fault_sweep(sweep, NULL) >= 60);
    test_folder_remove(&swept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_bare_schemas),
        cmocka_unit_test(test_templates),        cmocka_unit_test(test_reasoning_opened),
        cmocka_unit_test(test_tool_choice_none), cmocka_unit_test(test_shown),
        cmocka_unit_test(test_replay),           cmocka_unit_test(test_replay_many),
        cmocka_unit_test(test_forced),           cmocka_unit_test(test_forms),
        cmocka_unit_test(test_strict),           cmocka_unit_test(test_memory),
    };
    return TEST_RUN("api/chat", tests);
}
