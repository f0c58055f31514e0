/* messages.c - messages, tools and formats. */
#include "server/messages.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/server_state.h"

enum { WHERE_BYTES = 32, NAME_BYTES = FIELD_NAME_BYTES };

typedef struct message {
    str role;
    const json *content, *tool_calls;
    str name, tool_call_id, reasoning;
} message;

#define AT(field) offsetof(message, field)

static const field_row MESSAGE_ROWS[] = {
    {"role", FIELD_TEXT, AT(role), 0, 0, NULL},
    {"content", FIELD_JSON, AT(content), 0, 0, NULL},
    {"name", FIELD_TEXT, AT(name), 0, 0, NULL},
    {"tool_calls", FIELD_JSON, AT(tool_calls), 0, 0, NULL},
    {"tool_call_id", FIELD_TEXT, AT(tool_call_id), 0, 0, NULL},
    {"reasoning_content", FIELD_TEXT, AT(reasoning), 0, 0, NULL},
    {"reasoning", FIELD_TEXT, AT(reasoning), 0, 0, NULL},
    /* What an answer of ours, or of others, has besides. */
    {"refusal", FIELD_IGNORED, 0, 0, 0, NULL},
    {"annotations", FIELD_IGNORED, 0, 0, 0, NULL},
    {"audio", FIELD_REFUSED, 0, 0, 0, NULL},
    {"function_call", FIELD_REFUSED, 0, 0, 0, NULL},
};

static weft_status too_long(weft_status status, const char *what, weft_error *err)
{
    return status == WEFT_OK ? status : err_set(err, status, "%s too long", what);
}

/* ---- content --------------------------------------------------------------------------------- */

typedef struct content_part {
    const json *type, *text, *image;
} content_part;

static const field_row PART_ROWS[] = {
    {"type", FIELD_JSON, offsetof(content_part, type), 0, 0, NULL},
    {"text", FIELD_JSON, offsetof(content_part, text), 0, 0, NULL},
    {"image_url", FIELD_JSON, offsetof(content_part, image), 0, 0, NULL},
    {"image", FIELD_JSON, offsetof(content_part, image), 0, 0, NULL},
    /* Images come to as many tokens as the model wants for them. */
    {"detail", FIELD_IGNORED, 0, 0, 0, NULL},
    {"annotations", FIELD_IGNORED, 0, 0, 0, NULL},
    {"logprobs", FIELD_IGNORED, 0, 0, 0, NULL},
    {"cache_control", FIELD_IGNORED, 0, 0, 0, NULL},
    {"prompt_cache_breakpoint", FIELD_IGNORED, 0, 0, 0, NULL},
};

static weft_status add_image(generation *g, const json *image, const char *name, char *param,
                             weft_error *err)
{
    static const field_row ROWS[] = {
        {"url", FIELD_JSON, 0, 0, 0, NULL},
        {"detail", FIELD_IGNORED, 0, 0, 0, NULL},
    };
    char where[FIELD_NAME_BYTES];
    field_table table = {ROWS, COUNT_OF(ROWS), &image};
    if (json_kind_of(image) == JSON_KIND_OBJECT) {
        const json *object = image;
        snprintf(where, sizeof where, "%.44s.image_url.", name);
        image = NULL;
        weft_status status = fields_read(object, where, &table, 1, param, err);
        if (status != WEFT_OK) return status;
    }
    str url = json_text(image);
    if (url.ptr == NULL || url.len == 0)
        return field_wrong(param, name, err, "has an image without a URL");
    if (g->n_images == GENERATION_IMAGES)
        return field_wrong(param, name, err, "has more than %d images", GENERATION_IMAGES);
    g->images[g->n_images++] = url;
    return strbuf_add_text(&g->messages, "{\"type\":\"image\"}");
}

static weft_status add_part(generation *g, const json *part, bool plain, const char *name,
                            char *param, weft_error *err)
{
    char where[FIELD_NAME_BYTES];
    content_part p = {.text = NULL};
    field_table table = {PART_ROWS, COUNT_OF(PART_ROWS), &p};
    str type = json_text(json_get(part, "type"));
    const json *text = json_get(part, "text");
    bool is_text = str_equal_text(type, "text") || str_equal_text(type, "input_text") ||
                   str_equal_text(type, "output_text");
    bool is_image = str_equal_text(type, "image_url") || str_equal_text(type, "input_image");
    if (!is_text && (!is_image || plain)) {
        return field_wrong(param, name, err,
                           "has a part of type '%.*s', expected text or image_url",
                           (int)(type.len < 32 ? type.len : 32), type.ptr == NULL ? "" : type.ptr);
    }
    snprintf(where, sizeof where, "%.44s.", name);
    weft_status status = fields_read(part, where, &table, 1, param, err);
    if (status != WEFT_OK) return status;
    if (is_text && json_kind_of(text) != JSON_KIND_TEXT)
        return field_wrong(param, name, err, "has a text part without text");
    if (is_text && plain) return WEFT_OK;
    if (is_text) {
        strbuf_add_text(&g->messages, "{\"type\":\"text\",\"text\":");
        json_write_text(json_text(text), &g->messages);
        return strbuf_add_char(&g->messages, '}');
    }
    return add_image(g, p.image, name, param, err);
}

static bool has_images(const json *content)
{
    for (size_t i = 0; i < json_length(content); i++) {
        str type = json_text(json_get(json_at(content, i), "type"));
        if (str_equal_text(type, "image_url") || str_equal_text(type, "input_image")) return true;
    }
    return false;
}

/* Text alone is one string: not every template knows parts. */
static weft_status write_joined(generation *g, const json *content, const char *name, char *param,
                                weft_error *err)
{
    strbuf text;
    weft_status status = WEFT_OK;
    strbuf_init(&text, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    for (size_t i = 0; i < json_length(content) && status == WEFT_OK; i++) {
        const json *part = json_at(content, i);
        status = add_part(g, part, true, name, param, err);
        str piece = json_text(json_get(part, "text"));
        if (status == WEFT_OK) strbuf_add(&text, piece.ptr, piece.len);
    }
    if (status == WEFT_OK) json_write_text((str){strbuf_text(&text), text.len}, &g->messages);
    if (status == WEFT_OK && text.status != WEFT_OK)
        status = err_set(err, text.status, "%s is too long", name);
    strbuf_deinit(&text);
    return status;
}

weft_status messages_write_content(generation *g, const json *content, const char *name,
                                   char *param, weft_error *err)
{
    json_kind kind = json_kind_of(content);
    if (kind == JSON_KIND_NULL) return strbuf_add_text(&g->messages, "\"\"");
    if (kind == JSON_KIND_TEXT) return json_write_text(json_text(content), &g->messages);
    if (kind != JSON_KIND_ARRAY) {
        return field_wrong(param, name, err, "is %s, expected a string or an array of parts",
                           json_kind_name(kind));
    }
    if (!has_images(content)) return write_joined(g, content, name, param, err);
    strbuf_add_char(&g->messages, '[');
    for (size_t i = 0; i < json_length(content); i++) {
        if (i > 0) strbuf_add_char(&g->messages, ',');
        weft_status status = add_part(g, json_at(content, i), false, name, param, err);
        if (status != WEFT_OK) return status;
    }
    return strbuf_add_char(&g->messages, ']');
}

/* ---- calls ----------------------------------------------------------------------------------- */

static weft_status check_call(const json *call, const json *function, const char *name, char *param,
                              weft_error *err)
{
    static const field_row ROWS[] = {
        {"type", FIELD_REFUSED, 0, 0, 0, "\"function\""},
        {"id", FIELD_IGNORED, 0, 0, 0, NULL},
        {"function", FIELD_IGNORED, 0, 0, 0, NULL},
        {"index", FIELD_IGNORED, 0, 0, 0, NULL}, /* of a stream */
    };
    static const field_row FUNCTION_ROWS[] = {
        {"name", FIELD_IGNORED, 0, 0, 0, NULL},
        {"arguments", FIELD_IGNORED, 0, 0, 0, NULL},
    };
    char where[NAME_BYTES];
    field_table table = {ROWS, COUNT_OF(ROWS), NULL};
    field_table inner = {FUNCTION_ROWS, COUNT_OF(FUNCTION_ROWS), NULL};
    snprintf(where, sizeof where, "%.44s.", name);
    weft_status status = fields_read(call, where, &table, 1, param, err);
    snprintf(where, sizeof where, "%.44s.function.", name);
    return status == WEFT_OK ? fields_read(function, where, &inner, 1, param, err) : status;
}

static weft_status write_call(generation *g, const json *call, const char *name, char *param,
                              weft_error *err)
{
    const json *function = json_get(call, "function");
    const json *arguments = json_get(function, "arguments");
    str called = json_text(json_get(function, "name"));
    str id = json_text(json_get(call, "id"));
    if (called.ptr == NULL || called.len == 0)
        return field_wrong(param, name, err, "has a call without a function's name");
    weft_status status = check_call(call, function, name, param, err);
    if (status != WEFT_OK) return status;
    strbuf *out = &g->messages;
    strbuf_add_text(out, "{\"type\":\"function\",\"id\":");
    json_write_text(id.ptr != NULL ? id : (str){"", 0}, out);
    strbuf_add_text(out, ",\"function\":{\"name\":");
    json_write_text(called, out);
    strbuf_add_text(out, ",\"arguments\":");
    if (json_kind_of(arguments) == JSON_KIND_NULL) {
        strbuf_add_text(out, "{}");
    } else {
        json_write(arguments, 0, out);
    }
    return strbuf_add_text(out, "}}");
}

static weft_status write_calls(generation *g, const json *calls, const char *where, char *param,
                               weft_error *err)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.31stool_calls", where);
    if (json_kind_of(calls) != JSON_KIND_ARRAY) return field_wrong(param, name, err, "is no array");
    if (json_length(calls) == 0) return WEFT_OK;
    strbuf_add_text(&g->messages, ",\"tool_calls\":[");
    for (size_t i = 0; i < json_length(calls); i++) {
        if (i > 0) strbuf_add_char(&g->messages, ',');
        weft_status status = write_call(g, json_at(calls, i), name, param, err);
        if (status != WEFT_OK) return status;
    }
    return strbuf_add_char(&g->messages, ']');
}

void messages_add_ids(generation *g, str content, const json *calls)
{
    replay_key key;
    fleet_model *m = fleet_find(g->x->server->fleet, g->model_name);
    if (m == NULL) return;
    replay_key_init(&key, str_of(m->name), content);
    for (size_t i = 0; i < json_length(calls); i++) {
        const json *function = json_get(json_at(calls, i), "function");
        const json *given = json_get(function, "arguments");
        str arguments = json_text(given);
        strbuf written;
        strbuf_init(&written, mem_system(), 0);
        if (json_kind_of(given) != JSON_KIND_TEXT && json_write(given, 0, &written) == WEFT_OK)
            arguments = (str){strbuf_text(&written), written.len};
        replay_key_add_call(&key, json_text(json_get(function, "name")), arguments);
        strbuf_deinit(&written);
    }
    size_t before = g->messages.len;
    strbuf_add_text(&g->messages, ",\"answer_ids\":");
    if (replay_get(g->x->server->replay, key, &g->messages)) return;
    if (g->messages.status == WEFT_OK) g->messages.len = before;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool role_is(str role, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_equal_text(role, names[i])) return true;
    }
    return false;
}

static weft_status check_role(const message *m, const char *where, char *param, weft_error *err)
{
    static const char *const ROLES[] = {"system", "developer", "user", "assistant", "tool"};
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.31srole", where);
    if (m->role.ptr == NULL) return field_wrong(param, name, err, "is missing");
    if (!role_is(m->role, ROLES, COUNT_OF(ROLES))) {
        return field_wrong(param, name, err,
                           "is '%.*s', expected system, developer, user, assistant or tool",
                           (int)(m->role.len < 32 ? m->role.len : 32), m->role.ptr);
    }
    bool is_tool = str_equal_text(m->role, "tool");
    snprintf(name, sizeof name, "%.31s%s", where, is_tool ? "tool_call_id" : "tool_calls");
    if (is_tool && m->tool_call_id.ptr == NULL) return field_wrong(param, name, err, "is missing");
    if (m->tool_calls != NULL && !str_equal_text(m->role, "assistant"))
        return field_wrong(param, name, err, "is for an assistant's message");
    return WEFT_OK;
}

static void add_text_member(generation *g, const char *name, str text)
{
    if (text.ptr == NULL) return;
    strbuf_printf(&g->messages, ",\"%s\":", name);
    json_write_text(text, &g->messages);
}

static weft_status read_message(generation *g, const json *from, const char *where, message *m,
                                char *param, weft_error *err)
{
    char name[NAME_BYTES];
    *m = (message){.content = NULL};
    field_table table = {MESSAGE_ROWS, COUNT_OF(MESSAGE_ROWS), m};
    weft_status status = fields_read(from, where, &table, 1, param, err);
    if (status == WEFT_OK) status = check_role(m, where, param, err);
    if (status != WEFT_OK) return status;
    bool is_developer = str_equal_text(m->role, "developer");
    strbuf_add_text(&g->messages, "{\"role\":");
    json_write_text(is_developer ? str_of("system") : m->role, &g->messages);
    strbuf_add_text(&g->messages, ",\"content\":");
    snprintf(name, sizeof name, "%.31scontent", where);
    if (m->content == NULL && json_get(from, "content") == NULL && m->tool_calls == NULL)
        return field_wrong(param, name, err, "is missing");
    size_t before = g->messages.len;
    status = messages_write_content(g, m->content, name, param, err);
    if (status == WEFT_OK && m->tool_calls != NULL)
        status = write_calls(g, m->tool_calls, where, param, err);
    if (status != WEFT_OK) return status;
    add_text_member(g, "name", m->name);
    add_text_member(g, "tool_call_id", m->tool_call_id);
    add_text_member(g, "reasoning_content", m->reasoning);
    bool plain = json_kind_of(m->content) != JSON_KIND_ARRAY;
    if (str_equal_text(m->role, "assistant") && plain && before < g->messages.len) {
        str content = json_text(m->content);
        messages_add_ids(g, content.ptr != NULL ? content : (str){"", 0}, m->tool_calls);
    }
    return strbuf_add_char(&g->messages, '}');
}

weft_status messages_note_result(messages_results *r, str id, bool *again, weft_error *err)
{
    uint32_t previous = MAP_NONE;
    weft_status status = WEFT_OK;
    if (!r->has_ids) status = map_init(&r->ids, mem_system(), 16, err);
    if (status != WEFT_OK) return status;
    r->has_ids = true;
    status = map_put(&r->ids, id, 1, &previous, err);
    *again = previous != MAP_NONE;
    return status;
}

void messages_forget_results(messages_results *r)
{
    if (r->has_ids) map_deinit(&r->ids);
    r->has_ids = false;
}

/* Results count until there is another message. */
static weft_status check_result(messages_results *r, const message *m, char *param, weft_error *err)
{
    bool again = false;
    str id = m->tool_call_id;
    if (!str_equal_text(m->role, "tool")) {
        messages_forget_results(r);
        return WEFT_OK;
    }
    weft_status status = messages_note_result(r, id, &again, err);
    if (status != WEFT_OK || !again) return status;
    return field_wrong(param, "messages", err, "has two results for the call '%.*s'",
                       (int)(id.len < 64 ? id.len : 64), id.ptr);
}

weft_status messages_read(generation *g, const json *messages, char *param, weft_error *err)
{
    size_t n = json_length(messages);
    if (json_kind_of(messages) != JSON_KIND_ARRAY || n == 0)
        return field_wrong(param, "messages", err, "is missing, empty or no array");
    if (n > MESSAGES_MOST)
        return field_wrong(param, "messages", err, "has %zu messages, at most %d can be", n,
                           MESSAGES_MOST);
    messages_results results = {.has_ids = false};
    weft_status status = strbuf_add_char(&g->messages, '[');
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        char where[WHERE_BYTES];
        message m;
        snprintf(where, sizeof where, "messages[%zu].", i);
        if (i > 0) strbuf_add_char(&g->messages, ',');
        status = read_message(g, json_at(messages, i), where, &m, param, err);
        if (status == WEFT_OK) status = check_result(&results, &m, param, err);
    }
    messages_forget_results(&results);
    if (status == WEFT_OK) status = strbuf_add_char(&g->messages, ']');
    return too_long(status, "the messages are", err);
}

/* ---- tools ----------------------------------------------------------------------------------- */

weft_status messages_read_tools(generation *g, const json *tools, char *param, weft_error *err)
{
    if (tools == NULL) return WEFT_OK;
    if (json_kind_of(tools) != JSON_KIND_ARRAY)
        return field_wrong(param, "tools", err, "is no array");
    if (json_length(tools) == 0) return WEFT_OK;
    if (json_length(tools) > WEFT_CHAT_TOOLS)
        return field_wrong(param, "tools", err, "has %zu tools, at most %d can be",
                           json_length(tools), WEFT_CHAT_TOOLS);
    for (size_t i = 0; i < json_length(tools); i++) {
        const json *tool = json_at(tools, i);
        str type = json_text(json_get(tool, "type"));
        if (!str_equal_text(type, "function"))
            return field_wrong(param, "tools", err, "has number %zu, which is no function", i + 1);
        str name = json_text(json_get(json_get(tool, "function"), "name"));
        if (name.ptr == NULL || name.len == 0)
            return field_wrong(param, "tools", err, "has number %zu, which has no name", i + 1);
    }
    g->has_tools = true;
    weft_status status = json_write(tools, 0, &g->tools);
    return too_long(status, "tools are", err);
}

weft_status messages_add_tool(generation *g, const messages_tool *tool, weft_error *err)
{
    strbuf *out = &g->tools;
    strbuf_add_text(out, out->len == 0 ? "[" : ",");
    strbuf_add_text(out, "{\"type\":\"function\",\"function\":{\"name\":");
    json_write_text(tool->name, out);
    if (tool->description.ptr != NULL) {
        strbuf_add_text(out, ",\"description\":");
        json_write_text(tool->description, out);
    }
    if (tool->parameters != NULL) {
        strbuf_add_text(out, ",\"parameters\":");
        json_write(tool->parameters, 0, out);
    }
    if (tool->strict) strbuf_add_text(out, ",\"strict\":true");
    return too_long(strbuf_add_text(out, "}}"), "tools are", err);
}

weft_status messages_read_each_tool(generation *g, const json *tools, messages_tool_reader read,
                                    char *param, weft_error *err)
{
    size_t n = json_length(tools);
    if (tools == NULL) return WEFT_OK;
    if (json_kind_of(tools) != JSON_KIND_ARRAY || n > WEFT_CHAT_TOOLS)
        return field_wrong(param, "tools", err, "is not an array of at most %d tools",
                           WEFT_CHAT_TOOLS);
    if (n == 0) return WEFT_OK;
    g->has_tools = true;
    for (size_t i = 0; i < n; i++) {
        weft_status status = read(g, json_at(tools, i), i, param, err);
        if (status != WEFT_OK) return status;
    }
    return too_long(strbuf_add_char(&g->tools, ']'), "tools are", err);
}

typedef struct named_choice {
    str type, name;
    const json *function;
} named_choice;

static weft_status read_named(generation *g, const json *choice, bool in_function, char *param,
                              weft_error *err)
{
    static const field_row NESTED[] = {
        {"type", FIELD_TEXT, offsetof(named_choice, type), 0, 0, NULL},
        {"function", FIELD_JSON, offsetof(named_choice, function), 0, 0, NULL},
    };
    static const field_row NAME[] = {
        {"name", FIELD_TEXT, offsetof(named_choice, name), 0, 0, NULL},
        {"type", FIELD_TEXT, offsetof(named_choice, type), 0, 0, NULL},
    };
    named_choice c = {.function = NULL};
    field_table nested = {NESTED, COUNT_OF(NESTED), &c};
    field_table flat = {NAME, in_function ? 1 : 2, &c};
    weft_status status = WEFT_OK;
    if (!str_equal_text(json_text(json_get(choice, "type")), "function"))
        return field_wrong(param, "tool_choice", err,
                           "is not auto, none, required or a function by its name");
    if (in_function) status = fields_read(choice, "tool_choice.", &nested, 1, param, err);
    if (status == WEFT_OK)
        status = fields_read(in_function ? c.function : choice,
                             in_function ? "tool_choice.function." : "tool_choice.", &flat, 1,
                             param, err);
    if (status != WEFT_OK) return status;
    if (c.name.len == 0) return field_wrong(param, "tool_choice", err, "names no function");
    if (!g->has_tools)
        return field_wrong(param, "tool_choice", err, "names a function, and there are no tools");
    return too_long(strbuf_add(&g->tool_name, c.name.ptr, c.name.len), "tool_choice is", err);
}

weft_status messages_read_choice(generation *g, const json *choice, bool in_function, char *param,
                                 weft_error *err)
{
    static const char *const WORDS[] = {"auto", "none", "required"};
    str word = json_text(choice);
    if (choice == NULL) return WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        if (!str_equal_text(word, WORDS[i])) continue;
        g->tool_choice = WORDS[i];
        if (i == 2 && !g->has_tools)
            return field_wrong(param, "tool_choice", err, "is 'required', and there are no tools");
        return WEFT_OK;
    }
    return read_named(g, choice, in_function, param, err);
}

/* ---- forms ----------------------------------------------------------------------------------- */

typedef struct format {
    str type;
    const json *nested, *schema;
} format;

/* Names and descriptions are for people; a form is held to exactly, strict or not. */
static const field_row FORMAT_ROWS[] = {
    {"type", FIELD_TEXT, offsetof(format, type), 0, 0, NULL},
    {"json_schema", FIELD_JSON, offsetof(format, nested), 0, 0, NULL},
    {"schema", FIELD_JSON, offsetof(format, schema), 0, 0, NULL},
    {"name", FIELD_IGNORED, 0, 0, 0, NULL},
    {"description", FIELD_IGNORED, 0, 0, 0, NULL},
    {"strict", FIELD_IGNORED, 0, 0, 0, NULL},
};

weft_status messages_read_format(generation *g, const json *from, const char *name, char *param,
                                 weft_error *err)
{
    char where[FIELD_NAME_BYTES];
    format f = {.schema = NULL};
    field_table table = {FORMAT_ROWS, COUNT_OF(FORMAT_ROWS), &f};
    if (from == NULL) return WEFT_OK;
    snprintf(where, sizeof where, "%.40s.", name);
    weft_status status = fields_read(from, where, &table, 1, param, err);
    if (status != WEFT_OK) return status;
    bool has_schema = f.schema != NULL || f.nested != NULL;
    bool is_object = str_equal_text(f.type, "json_object");
    bool is_text = str_equal_text(f.type, "text");
    if (is_text && !has_schema) return WEFT_OK;
    if (is_text || (f.schema != NULL && f.nested != NULL))
        return field_wrong(param, name, err,
                           is_text ? "is text, and has a schema" : "has two schemas");
    if (is_object && !has_schema) {
        g->has_form = true;
        g->form_kind = WEFT_GRAMMAR_JSON;
        return WEFT_OK;
    }
    /* llama.cpp's clients have the schema of an object with json_object. */
    if (!is_object && !str_equal_text(f.type, "json_schema"))
        return field_wrong(param, name, err,
                           "has no type, or one that is not text, json_object or "
                           "json_schema");
    /* OpenAI's chat has the schema one level deeper than its responses. */
    if (f.nested != NULL) {
        table.rows = FORMAT_ROWS + 2;
        table.n_rows = COUNT_OF(FORMAT_ROWS) - 2;
        snprintf(where, sizeof where, "%.40s.json_schema.", name);
        status = fields_read(f.nested, where, &table, 1, param, err);
    }
    if (status != WEFT_OK) return status;
    if (json_kind_of(f.schema) != JSON_KIND_OBJECT && json_kind_of(f.schema) != JSON_KIND_BOOL)
        return field_wrong(param, name, err, "has no schema");
    g->has_form = true;
    g->form_kind = WEFT_GRAMMAR_SCHEMA;
    return too_long(json_write(f.schema, 0, &g->form), "the schema is", err);
}

/* ---- variables ------------------------------------------------------------------------------- */

static void add_variable(generation *g, const messages_variables *v, const char *name, str text)
{
    strbuf *out = &g->variables;
    if (json_get(v->more, name) != NULL) return;
    strbuf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", name);
    strbuf_add(out, text.ptr, text.len);
}

/* gpt-oss knows the effort, others whether to think at all. */
weft_status messages_write_variables(generation *g, const messages_variables *v, char *param,
                                     weft_error *err)
{
    strbuf *out = &g->variables;
    strbuf text;
    bool none = str_equal_text(v->effort, "none");
    if (v->more != NULL && json_kind_of(v->more) != JSON_KIND_OBJECT)
        return field_wrong(param, "chat_template_kwargs", err, "is no object");
    if (v->more == NULL && v->effort.ptr == NULL && !v->is_thinking_said) return WEFT_OK;
    strbuf_add_char(out, '{');
    if (v->effort.ptr != NULL) {
        strbuf_init(&text, mem_system(), 0);
        json_write_text(v->effort, &text);
        add_variable(g, v, "reasoning_effort", (str){strbuf_text(&text), text.len});
        if (text.status != WEFT_OK) out->status = text.status;
        strbuf_deinit(&text);
    }
    if (none || v->is_thinking_said)
        add_variable(g, v, "enable_thinking", str_of(v->thinks && !none ? "true" : "false"));
    json_iter iter = {0};
    str key;
    const json *value;
    while (json_next(v->more, &iter, &key, &value)) {
        if (out->len > 1) strbuf_add_char(out, ',');
        json_write_text(key, out);
        strbuf_add_char(out, ':');
        json_write(value, 0, out);
    }
    weft_status status = strbuf_add_char(out, '}');
    return too_long(status, "chat_template_kwargs are", err);
}
