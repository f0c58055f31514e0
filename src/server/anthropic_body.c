/* anthropic_body.c - Anthropic's messages, tools and settings, as ours (Anthropic's API reference,
 * "Messages"). */
#include "server/anthropic_body.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/turns.h"

enum { WHERE_BYTES = 64, SHOWN = 48 };

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block {
    str type, text, id, name, tool_use_id, thinking;
    const json *source, *content, *input;
    bool is_error;
} block;

#define AT(field) offsetof(block, field)

static const field_row BLOCK_ROWS[] = {
    {"type", FIELD_TEXT, AT(type), 0, 0, NULL},
    {"text", FIELD_TEXT, AT(text), 0, 0, NULL},
    {"id", FIELD_TEXT, AT(id), 0, 0, NULL},
    {"name", FIELD_TEXT, AT(name), 0, 0, NULL},
    {"tool_use_id", FIELD_TEXT, AT(tool_use_id), 0, 0, NULL},
    {"thinking", FIELD_TEXT, AT(thinking), 0, 0, NULL},
    {"source", FIELD_JSON, AT(source), 0, 0, NULL},
    {"content", FIELD_JSON, AT(content), 0, 0, NULL},
    {"input", FIELD_JSON, AT(input), 0, 0, NULL},
    {"is_error", FIELD_FLAG, AT(is_error), 0, 0, NULL},
    /* What an answer had, and comes back. */
    {"signature", FIELD_IGNORED, 0, 0, 0, NULL},
    {"data", FIELD_IGNORED, 0, 0, 0, NULL},
    {"citations", FIELD_IGNORED, 0, 0, 0, NULL},
    {"caller", FIELD_IGNORED, 0, 0, 0, NULL},
    {"cache_control", FIELD_IGNORED, 0, 0, 0, NULL},
};

/* The kinds that a place may have, with bars around and between. */
#define KINDS_SYSTEM "|text|"
#define KINDS_RESULT "|text|image|"
#define KINDS_USER "|text|image|tool_result|"
#define KINDS_ASSISTANT "|text|thinking|redacted_thinking|tool_use|"

static bool is_among(str type, const char *kinds)
{
    char word[32];
    if (type.len == 0 || type.len > sizeof word - 3 || memchr(type.ptr, '|', type.len) != NULL)
        return false;
    snprintf(word, sizeof word, "|%.*s|", (int)type.len, type.ptr);
    return strstr(kinds, word) != NULL;
}

static weft_status refuse_kind(turns *t, const char *where, str type, const char *kinds)
{
    char words[64];
    snprintf(words, sizeof words, "%.*s", (int)strlen(kinds) - 2, kinds + 1);
    for (char *c = words; *c != '\0'; c++) *c = *c == '|' ? ' ' : *c;
    return field_wrong_type(t->param, where, type, words, t->err);
}

typedef struct image_source {
    str type, media_type, data;
} image_source;

static weft_status read_image(turns *t, const block *b, const char *where)
{
    static const field_row ROWS[] = {
        {"type", FIELD_TEXT, offsetof(image_source, type), 0, 0, NULL},
        {"media_type", FIELD_TEXT, offsetof(image_source, media_type), 0, 0, NULL},
        {"data", FIELD_TEXT, offsetof(image_source, data), 0, 0, NULL},
        {"url", FIELD_IGNORED, 0, 0, 0, NULL},
        {"file_id", FIELD_IGNORED, 0, 0, 0, NULL},
    };
    char name[FIELD_NAME_BYTES];
    image_source s = {.type = {NULL, 0}};
    field_table table = {ROWS, COUNT_OF(ROWS), &s};
    snprintf(name, sizeof name, "%.44ssource.", where);
    weft_status status = fields_read(b->source, name, &table, 1, t->param, t->err);
    if (status != WEFT_OK) return status;
    if (!str_equal_text(s.type, "base64")) {
        snprintf(name, sizeof name, "%.44ssource.type", where);
        return field_wrong(t->param, name, t->err,
                           "is not base64; images are not fetched from elsewhere");
    }
    if (s.data.len == 0) return field_missing(t->param, where, "source.data", t->err);
    snprintf(name, sizeof name, "%.44ssource", where);
    return turns_add_image(t, s.data, name);
}

/* list: the name of the field that content is. */
static weft_status read_blocks(turns *t, const json *content, const char *list, const char *kinds);

static weft_status read_result(turns *t, const block *b, const char *where)
{
    char name[FIELD_NAME_BYTES];
    if (b->tool_use_id.ptr == NULL) return field_missing(t->param, where, "tool_use_id", t->err);
    snprintf(name, sizeof name, "%.44stool_use_id", where);
    weft_status status = turns_open_result(t, b->tool_use_id, name);
    /* Templates know no other sign of it. */
    if (status == WEFT_OK && b->is_error) status = turns_add_text(t, str_of("Error: "));
    if (status != WEFT_OK || b->content == NULL) return status;
    snprintf(name, sizeof name, "%.40scontent", where);
    return read_blocks(t, b->content, name, KINDS_RESULT);
}

static weft_status read_call(turns *t, const block *b, const char *where)
{
    if (b->id.ptr == NULL) return field_missing(t->param, where, "id", t->err);
    if (b->name.len == 0) return field_missing(t->param, where, "name", t->err);
    if (json_kind_of(b->input) != JSON_KIND_OBJECT) {
        char name[FIELD_NAME_BYTES];
        snprintf(name, sizeof name, "%.44sinput", where);
        return field_wrong(t->param, name, t->err, "is no object");
    }
    return turns_add_call(t, b->id, b->name, b->input);
}

static weft_status read_block(turns *t, const json *value, const char *where, const char *kinds)
{
    block b = {.source = NULL};
    field_table table = {BLOCK_ROWS, COUNT_OF(BLOCK_ROWS), &b};
    str type = json_text(json_get(value, "type"));
    /* First: what a document has is not named one by one. */
    if (json_kind_of(value) == JSON_KIND_OBJECT && !is_among(type, kinds))
        return refuse_kind(t, where, type, kinds);
    weft_status status = fields_read(value, where, &table, 1, t->param, t->err);
    if (status != WEFT_OK) return status;
    if (str_equal_text(type, "text")) {
        if (b.text.ptr == NULL) return field_missing(t->param, where, "text", t->err);
        return turns_add_text(t, b.text);
    }
    if (str_equal_text(type, "image")) return read_image(t, &b, where);
    if (str_equal_text(type, "thinking")) return turns_add_reasoning(t, b.thinking);
    if (str_equal_text(type, "tool_use")) return read_call(t, &b, where);
    if (str_equal_text(type, "tool_result")) return read_result(t, &b, where);
    /* redacted_thinking: only who wrote it can read it. */
    return WEFT_OK;
}

static weft_status read_blocks(turns *t, const json *content, const char *list, const char *kinds)
{
    json_kind kind = json_kind_of(content);
    if (kind == JSON_KIND_NULL) return WEFT_OK;
    if (kind == JSON_KIND_TEXT) return turns_add_text(t, json_text(content));
    if (kind != JSON_KIND_ARRAY) {
        return field_wrong(t->param, list, t->err, "is %s, expected a string or an array of blocks",
                           json_kind_name(kind));
    }
    bool is_user = strcmp(kinds, KINDS_USER) == 0;
    for (size_t i = 0; i < json_length(content); i++) {
        char place[WHERE_BYTES];
        const json *value = json_at(content, i);
        bool is_result = str_equal_text(json_text(json_get(value, "type")), "tool_result");
        snprintf(place, sizeof place, "%.38s[%zu].", list, i);
        weft_status status = WEFT_OK;
        /* Results are messages of their own, in the place where they stand. */
        if (is_user && !is_result) status = turns_open(t, "user", true);
        if (status == WEFT_OK) status = read_block(t, value, place, kinds);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct message {
    str role;
    const json *content;
} message;

static const field_row MESSAGE_ROWS[] = {
    {"role", FIELD_TEXT, offsetof(message, role), 0, 0, NULL},
    {"content", FIELD_JSON, offsetof(message, content), 0, 0, NULL},
};

static weft_status read_message(turns *t, const json *from, size_t i)
{
    static const struct {
        const char *role, *kinds;
    } ROLES[] = {{"user", KINDS_USER}, {"assistant", KINDS_ASSISTANT}, {"system", KINDS_SYSTEM}};
    char where[WHERE_BYTES];
    char name[FIELD_NAME_BYTES];
    message m = {.content = NULL};
    field_table table = {MESSAGE_ROWS, COUNT_OF(MESSAGE_ROWS), &m};
    snprintf(where, sizeof where, "messages[%zu].", i);
    weft_status status = fields_read(from, where, &table, 1, t->param, t->err);
    if (status != WEFT_OK) return status;
    if (m.role.ptr == NULL) return field_missing(t->param, where, "role", t->err);
    if (json_get(from, "content") == NULL) return field_missing(t->param, where, "content", t->err);
    for (size_t r = 0; r < COUNT_OF(ROLES); r++) {
        if (!str_equal_text(m.role, ROLES[r].role)) continue;
        bool begins = r != 0 || json_length(m.content) == 0;
        if (begins) status = turns_open(t, ROLES[r].role, true);
        snprintf(name, sizeof name, "%.40scontent", where);
        return status == WEFT_OK ? read_blocks(t, m.content, name, ROLES[r].kinds) : status;
    }
    snprintf(name, sizeof name, "%.44srole", where);
    return field_wrong(t->param, name, t->err, "is '%.*s', expected user, assistant or system",
                       (int)(m.role.len < SHOWN ? m.role.len : SHOWN), m.role.ptr);
}

static weft_status read_conversation(turns *t, const json *system, const json *messages,
                                     bool counts)
{
    weft_status status = WEFT_OK;
    size_t n = json_length(messages);
    if (json_kind_of(messages) != JSON_KIND_ARRAY || n == 0)
        return field_wrong(t->param, "messages", t->err, "is missing, empty or no array");
    if (json_length(system) > 0 || json_text(system).len > 0) {
        status = turns_open(t, "system", true);
        if (status == WEFT_OK) status = read_blocks(t, system, "system", KINDS_SYSTEM);
    } else if (system != NULL && json_kind_of(system) != JSON_KIND_TEXT &&
               json_kind_of(system) != JSON_KIND_ARRAY) {
        return field_wrong(t->param, "system", t->err, "is no string and no array of blocks");
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++)
        status = read_message(t, json_at(messages, i), i);
    if (status != WEFT_OK) return status;
    str last = json_text(json_get(json_at(messages, n - 1), "role"));
    if (!counts && str_equal_text(last, "assistant")) {
        return field_wrong(t->param, "messages", t->err,
                           "ends with an assistant's message, and answers are not continued");
    }
    return turns_end(t);
}

/* ---- tools ----------------------------------------------------------------------------------- */

typedef struct tool {
    str type, name, description;
    const json *schema;
    bool strict;
} tool;

static const field_row TOOL_ROWS[] = {
    {"type", FIELD_TEXT, offsetof(tool, type), 0, 0, NULL},
    {"name", FIELD_TEXT, offsetof(tool, name), 0, 0, NULL},
    {"description", FIELD_TEXT, offsetof(tool, description), 0, 0, NULL},
    {"input_schema", FIELD_JSON, offsetof(tool, schema), 0, 0, NULL},
    {"strict", FIELD_FLAG, offsetof(tool, strict), 0, 0, NULL},
    {"cache_control", FIELD_IGNORED, 0, 0, 0, NULL},
    /* Arguments are always streamed as they come. */
    {"eager_input_streaming", FIELD_IGNORED, 0, 0, 0, NULL},
    {"defer_loading", FIELD_REFUSED, 0, 0, 0, "false"},
    {"allowed_callers", FIELD_REFUSED, 0, 0, 0, "[\"direct\"]"},
    {"input_examples", FIELD_REFUSED, 0, 0, 0, "[]"},
};

static weft_status read_tool(generation *g, const json *from, size_t i, char *param,
                             weft_error *err)
{
    char where[WHERE_BYTES];
    char name[FIELD_NAME_BYTES];
    tool made = {.schema = NULL};
    field_table table = {TOOL_ROWS, COUNT_OF(TOOL_ROWS), &made};
    str type = json_text(json_get(from, "type"));
    snprintf(where, sizeof where, "tools[%zu].", i);
    if (type.len > 0 && !str_equal_text(type, "custom")) {
        snprintf(name, sizeof name, "%.44stype", where);
        return field_wrong(param, name, err,
                           "is '%.*s', which is done by Anthropic's servers; custom is known here",
                           (int)(type.len < SHOWN ? type.len : SHOWN), type.ptr);
    }
    weft_status status = fields_read(from, where, &table, 1, param, err);
    if (status != WEFT_OK) return status;
    snprintf(name, sizeof name, "%.44sname", where);
    if (made.name.len == 0) return field_wrong(param, name, err, "is missing");
    snprintf(name, sizeof name, "%.44sinput_schema", where);
    if (json_kind_of(made.schema) != JSON_KIND_OBJECT)
        return field_wrong(param, name, err, "is no object");
    messages_tool written = {made.name, made.description, made.schema, made.strict};
    return messages_add_tool(g, &written, err);
}

typedef struct choice {
    str type, name;
    bool one_call;
} choice;

static weft_status read_choice(generation *g, const json *from, char *param, weft_error *err)
{
    static const field_row ROWS[] = {
        {"type", FIELD_TEXT, offsetof(choice, type), 0, 0, NULL},
        {"name", FIELD_TEXT, offsetof(choice, name), 0, 0, NULL},
        {"disable_parallel_tool_use", FIELD_FLAG, offsetof(choice, one_call), 0, 0, NULL},
    };
    static const struct {
        const char *theirs, *ours;
    } WORDS[] = {{"auto", "auto"}, {"none", "none"}, {"any", "required"}, {"tool", "required"}};
    choice c = {.one_call = false};
    field_table table = {ROWS, COUNT_OF(ROWS), &c};
    if (from == NULL) return WEFT_OK;
    weft_status status = fields_read(from, "tool_choice.", &table, 1, param, err);
    if (status != WEFT_OK) return status;
    g->one_call = c.one_call;
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        if (!str_equal_text(c.type, WORDS[i].theirs)) continue;
        g->tool_choice = WORDS[i].ours;
        if (i >= 2 && !g->has_tools)
            return field_wrong(param, "tool_choice", err, "wants a tool, and there are none");
        if (i < 3) return WEFT_OK;
        if (c.name.len == 0) return field_wrong(param, "tool_choice.name", err, "is missing");
        return strbuf_add(&g->tool_name, c.name.ptr, c.name.len);
    }
    return field_wrong(param, "tool_choice.type", err, "is none of auto, any, tool, none");
}

/* ---- settings -------------------------------------------------------------------------------- */

typedef struct thinking {
    str type, display;
    uint32_t budget;
} thinking;

/* How much is thought is the model's own choice: a budget is no limit, neither here nor there. */
static weft_status read_thinking(const json *from, messages_variables *v, bool *omits, char *param,
                                 weft_error *err)
{
    static const field_row ROWS[] = {
        {"type", FIELD_TEXT, offsetof(thinking, type), 0, 0, NULL},
        {"display", FIELD_TEXT, offsetof(thinking, display), 0, 0, NULL},
        {"budget_tokens", FIELD_COUNT, offsetof(thinking, budget), 1, 1U << 31, NULL},
    };
    thinking t = {.budget = 0};
    field_table table = {ROWS, COUNT_OF(ROWS), &t};
    if (from == NULL) return WEFT_OK;
    weft_status status = fields_read(from, "thinking.", &table, 1, param, err);
    if (status != WEFT_OK) return status;
    bool off = str_equal_text(t.type, "disabled");
    if (!off && !str_equal_text(t.type, "enabled") && !str_equal_text(t.type, "adaptive"))
        return field_wrong(param, "thinking.type", err, "is none of enabled, disabled, adaptive");
    *omits = str_equal_text(t.display, "omitted");
    if (t.display.ptr != NULL && !*omits && !str_equal_text(t.display, "summarized"))
        return field_wrong(param, "thinking.display", err, "is neither summarized nor omitted");
    v->is_thinking_said = true;
    v->thinks = !off;
    return WEFT_OK;
}

typedef struct output {
    str effort;
    const json *format;
} output;

/* format: the field as it was before there was output_config. */
static weft_status read_output(generation *g, const json *from, const json *format,
                               messages_variables *v, char *param, weft_error *err)
{
    static const field_row ROWS[] = {
        {"effort", FIELD_TEXT, offsetof(output, effort), 0, 0, NULL},
        {"format", FIELD_JSON, offsetof(output, format), 0, 0, NULL},
    };
    output o = {.format = NULL};
    field_table table = {ROWS, COUNT_OF(ROWS), &o};
    const char *name = "output_format";
    weft_status status = WEFT_OK;
    if (from != NULL) status = fields_read(from, "output_config.", &table, 1, param, err);
    if (status != WEFT_OK) return status;
    v->effort = o.effort;
    if (o.format != NULL && format != NULL)
        return field_wrong(param, name, err, "is there, and output_config.format as well");
    if (o.format != NULL) {
        name = "output_config.format";
        format = o.format;
    }
    if (format != NULL && !str_equal_text(json_text(json_get(format, "type")), "json_schema"))
        return field_wrong(param, name, err, "is not of type json_schema");
    return messages_read_format(g, format, name, param, err);
}

static weft_status read_stops(generation *g, const json *stops, char *param, weft_error *err)
{
    size_t n = json_length(stops);
    if (stops == NULL) return WEFT_OK;
    bool fits = json_kind_of(stops) == JSON_KIND_ARRAY && n <= WEFT_STOP_TEXTS;
    for (size_t i = 0; i < n && fits; i++) {
        size_t n_bytes = json_text(json_at(stops, i)).len;
        fits = n_bytes > 0 && n_bytes <= WEFT_STOP_TEXT_BYTES;
    }
    g->asked.stop = stops;
    if (fits) return WEFT_OK;
    return field_wrong(param, "stop_sequences", err,
                       "is not an array of at most %d strings of 1 to %d bytes", WEFT_STOP_TEXTS,
                       WEFT_STOP_TEXT_BYTES);
}

/* ---- the body -------------------------------------------------------------------------------- */

typedef struct body_fields {
    str model;
    const json *messages, *system, *stops, *tools, *tool_choice, *thinking, *output, *format;
    const json *variables;
    uint32_t max_tokens;
} body_fields;

#undef AT
#define AT(field) offsetof(body_fields, field)

static const field_row ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"messages", FIELD_JSON, AT(messages), 0, 0, NULL},
    {"system", FIELD_JSON, AT(system), 0, 0, NULL},
    {"max_tokens", FIELD_COUNT, AT(max_tokens), 1, 1U << 31, NULL},
    {"stop_sequences", FIELD_JSON, AT(stops), 0, 0, NULL},
    {"stop", FIELD_REFUSED, 0, 0, 0, NULL},
    {"tools", FIELD_JSON, AT(tools), 0, 0, NULL},
    {"tool_choice", FIELD_JSON, AT(tool_choice), 0, 0, NULL},
    {"thinking", FIELD_JSON, AT(thinking), 0, 0, NULL},
    {"output_config", FIELD_JSON, AT(output), 0, 0, NULL},
    {"output_format", FIELD_JSON, AT(format), 0, 0, NULL},
    {"chat_template_kwargs", FIELD_JSON, AT(variables), 0, 0, NULL},
    {"metadata", FIELD_IGNORED, 0, 0, 0, NULL},
    {"cache_control", FIELD_IGNORED, 0, 0, 0, NULL},
    {"service_tier", FIELD_IGNORED, 0, 0, 0, NULL},
    {"diagnostics", FIELD_IGNORED, 0, 0, 0, NULL},
    {"user_profile_id", FIELD_IGNORED, 0, 0, 0, NULL},
    {"workspace_id", FIELD_IGNORED, 0, 0, 0, NULL},
    {"speed", FIELD_REFUSED, 0, 0, 0, "\"standard\""},
    {"inference_geo", FIELD_REFUSED, 0, 0, 0, NULL},
    {"container", FIELD_REFUSED, 0, 0, 0, NULL},
    {"context_management", FIELD_REFUSED, 0, 0, 0, NULL},
    {"mcp_servers", FIELD_REFUSED, 0, 0, 0, "[]"},
};

weft_status anthropic_read_body(generation *g, const json *body, bool counts, bool *omits,
                                char *param, weft_error *err)
{
    body_fields b = {.messages = NULL};
    messages_variables variables = {.thinks = false};
    field_table tables[] = {{ROWS, COUNT_OF(ROWS), &b}, {ASKED_ROWS, N_ASKED_ROWS, &g->asked}};
    g->is_chat = true;
    g->counts = counts;
    g->bare_images = true;
    weft_status status = fields_read(body, "", tables, COUNT_OF(tables), param, err);
    if (status != WEFT_OK) return status;
    g->model_name = b.model;
    g->asked.max_new = b.max_tokens;
    if (!counts && b.max_tokens == 0) return field_wrong(param, "max_tokens", err, "is missing");
    if (counts && g->asked.stream) return field_wrong(param, "stream", err, "is not for counts");
    variables.more = b.variables;
    turns t;
    turns_init(&t, g, param, err);
    status = read_conversation(&t, b.system, b.messages, counts);
    turns_deinit(&t);
    if (status == WEFT_OK) status = messages_read_each_tool(g, b.tools, read_tool, param, err);
    if (status == WEFT_OK) status = read_choice(g, b.tool_choice, param, err);
    if (status == WEFT_OK) status = read_stops(g, b.stops, param, err);
    if (status == WEFT_OK) status = read_thinking(b.thinking, &variables, omits, param, err);
    if (status == WEFT_OK) status = read_output(g, b.output, b.format, &variables, param, err);
    if (status == WEFT_OK) status = messages_write_variables(g, &variables, param, err);
    return status;
}
