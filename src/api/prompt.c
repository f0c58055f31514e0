/* prompt.c - messages become a prompt. */
#include <string.h>
#include <time.h>

#include "api/conversation.h"
#include "chat/json_scan.h"

/* ---- messages -------------------------------------------------------------------------------- */

static void add_key(str key, bool *any, strbuf *out)
{
    (void)strbuf_add_text(out, *any ? "," : "");
    (void)json_write_text(key, out);
    (void)strbuf_add_char(out, ':');
    *any = true;
}

static void add_mark(const char *key, const char *text, bool *any, strbuf *out)
{
    add_key(str_of(key), any, out);
    (void)json_write_text(str_of(text), out);
}

/* Clients send arguments as text, and most templates want an object. */
static void write_arguments(const json *value, strbuf *out)
{
    json_doc doc = {NULL};
    str text = json_text(value);
    bool object = json_kind_of(value) == JSON_KIND_TEXT &&
                  json_parse(&doc, text.ptr, text.len, NULL) == WEFT_OK &&
                  json_kind_of(doc.root) == JSON_KIND_OBJECT;
    (void)json_write(object ? doc.root : value, 0, out);
    json_doc_free(&doc);
}

static void write_function(const json *function, strbuf *out)
{
    json_iter it = {NULL};
    str key;
    const json *value;
    bool any = false;
    (void)strbuf_add_char(out, '{');
    while (json_next(function, &it, &key, &value)) {
        add_key(key, &any, out);
        if (str_equal_text(key, "arguments")) {
            write_arguments(value, out);
        } else {
            (void)json_write(value, 0, out);
        }
    }
    (void)strbuf_add_char(out, '}');
}

static void write_call(const json *call, strbuf *out)
{
    json_iter it = {NULL};
    str key;
    const json *value;
    bool any = false;
    if (json_kind_of(call) != JSON_KIND_OBJECT) {
        (void)json_write(call, 0, out);
        return;
    }
    (void)strbuf_add_char(out, '{');
    while (json_next(call, &it, &key, &value)) {
        add_key(key, &any, out);
        if (str_equal_text(key, "function") && json_kind_of(value) == JSON_KIND_OBJECT) {
            write_function(value, out);
        } else {
            (void)json_write(value, 0, out);
        }
    }
    (void)strbuf_add_char(out, '}');
}

static void write_calls(const json *calls, strbuf *out)
{
    (void)strbuf_add_char(out, '[');
    for (size_t i = 0; i < json_length(calls); i++) {
        if (i > 0) (void)strbuf_add_char(out, ',');
        write_call(json_at(calls, i), out);
    }
    (void)strbuf_add_char(out, ']');
}

static bool is_marked(str key)
{
    return str_equal_text(key, "content") || str_equal_text(key, "tool_calls") ||
           str_equal_text(key, "reasoning_content") || str_equal_text(key, "reasoning") ||
           str_equal_text(key, "thinking");
}

static void write_message(const json *message, bool as_given, const chat_mark *mark, strbuf *out)
{
    json_iter it = {NULL};
    str key;
    const json *value;
    bool any = false, marked = mark != NULL && mark->used;
    (void)strbuf_add_char(out, '{');
    while (json_next(message, &it, &key, &value)) {
        if (str_equal_text(key, "answer_ids") || (marked && is_marked(key))) continue;
        add_key(key, &any, out);
        if (str_equal_text(key, "tool_calls") && !as_given &&
            json_kind_of(value) == JSON_KIND_ARRAY) {
            write_calls(value, out);
        } else {
            (void)json_write(value, 0, out);
        }
    }
    if (marked) add_mark("content", mark->content, &any, out);
    if (marked && mark->thinks) {
        add_mark("reasoning_content", mark->thought, &any, out);
        add_mark("reasoning", mark->thought, &any, out);
        add_mark("thinking", mark->thought, &any, out);
    }
    (void)strbuf_add_char(out, '}');
}

weft_status chat_write_messages(const json *messages, bool as_given, const chat_mark *marks,
                                strbuf *out, weft_error *err)
{
    (void)strbuf_add_char(out, '[');
    for (size_t i = 0; i < json_length(messages); i++) {
        const json *message = json_at(messages, i);
        if (i > 0) (void)strbuf_add_char(out, ',');
        if (json_kind_of(message) == JSON_KIND_OBJECT) {
            write_message(message, as_given, marks != NULL ? &marks[i] : NULL, out);
        } else {
            (void)json_write(message, 0, out);
        }
    }
    (void)strbuf_add_char(out, ']');
    if (out->status == WEFT_OK) return WEFT_OK;
    return err_set(err, out->status, "out of memory for messages");
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static str without_space(str text)
{
    while (text.len > 0 && call_is_space(text.ptr[text.len - 1])) text.len--;
    return text;
}

/* What the end of the prompt says of reasoning, if it is the template's own. */
static void look_at_end(weft_chat *c, const template_output *out)
{
    str text = without_space((str){strbuf_text(&out->text), out->text.len});
    const template_span *last = out->n_spans > 0 ? &out->spans[out->n_spans - 1] : NULL;
    if (c->reading.think_open == NULL) return;
    if (last != NULL && last->first + last->n_bytes >= text.len) return;
    c->reading.in_reasoning = str_ends(text, c->reading.think_open);
    c->thoughts_closed = str_ends(text, c->reading.think_close);
}

static weft_status encode(weft_chat *c, template_output *out, weft_error *err)
{
    str text = {strbuf_text(&out->text), out->text.len};
    api_trust_words(c->model, out);
    return tokenizer_encode_apart(c->model->tokenizer, text, out->spans, out->n_spans, &c->prompt,
                                  err);
}

static weft_status render_messages(const weft_chat *c, const json *messages, bool as_given,
                                   const chat_input *input, template_output *out, weft_error *err)
{
    strbuf text;
    chat_input own = *input;
    strbuf_init(&text, &c->allocator, 0);
    weft_status status = chat_write_messages(messages, as_given, NULL, &text, err);
    own.messages = (str){text.ptr, text.len};
    if (status == WEFT_OK) status = api_render(c->model, &own, out, err);
    strbuf_deinit(&text);
    return status;
}

static bool has_answer_ids(const json *messages)
{
    for (size_t i = 0; i < json_length(messages); i++) {
        if (json_get(json_at(messages, i), "answer_ids") != NULL) return true;
    }
    return false;
}

/* Some templates want arguments as objects, others as text: what the first fails with is tried the
 * other way. */
static weft_status make(weft_chat *c, const json *messages, const chat_input *input,
                        weft_error *err)
{
    template_output out, other;
    weft_error second = {.status = WEFT_OK}, first = {.status = WEFT_OK};
    template_output_init(&out, &c->allocator);
    template_output_init(&other, &c->allocator);
    bool as_given = false;
    template_output *plain = &out;
    weft_status status = render_messages(c, messages, false, input, &out, &first);
    if (status == WEFT_FORMAT) {
        as_given = render_messages(c, messages, true, input, &other, &second) == WEFT_OK;
        if (as_given) {
            plain = &other;
            status = WEFT_OK;
        }
    }
    if (status != WEFT_OK) status = err_set(err, status, "%s", first.message);
    if (status == WEFT_OK) look_at_end(c, plain);
    if (status == WEFT_OK && has_answer_ids(messages))
        status = chat_replay(c, messages, input, as_given, plain, err);
    if (status == WEFT_OK && c->n_replayed == 0) status = encode(c, plain, err);
    template_output_deinit(&out);
    template_output_deinit(&other);
    return status;
}

static weft_status check_messages(const json *messages, weft_error *err)
{
    if (json_kind_of(messages) == JSON_KIND_ARRAY) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "messages are %s, expected an array",
                   json_kind_name(json_kind_of(messages)));
}

weft_status chat_make_prompt(weft_chat *c, const weft_chat_options *o, str tools, weft_error *err)
{
    json_doc doc = {NULL};
    chat_input input = {.tools = tools,
                        .variables = str_of(o->variables_json != NULL ? o->variables_json : ""),
                        .generate = (o->flags & WEFT_CHAT_NO_GENERATION_PROMPT) == 0,
                        .now = (int64_t)time(NULL)};
    weft_status status = json_parse(&doc, o->messages_json, strlen(o->messages_json), err);
    if (status != WEFT_OK) {
        err_context(err, "messages: ");
        return status;
    }
    status = check_messages(doc.root, err);
    if (status == WEFT_OK) status = make(c, doc.root, &input, err);
    json_doc_free(&doc);
    if (status == WEFT_OK && c->prompt.len > UINT32_MAX / 2)
        status = err_set(err, WEFT_LIMIT, "the prompt has %zu tokens", c->prompt.len);
    return status;
}
