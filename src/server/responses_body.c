/* responses_body.c - items, tools and settings of OpenAI's Responses API, as ours (OpenAI's API
 * reference, "Responses"). */
#include "server/responses_body.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/openai.h"
#include "server/turns.h"

enum { WHERE_BYTES = 64, SHOWN = 48 };

/* ---- parts ----------------------------------------------------------------------------------- */

typedef struct content_part {
    str type, text, refusal, image_url;
} content_part;

static const field_row PART_ROWS[] = {
    {"type", FIELD_TEXT, offsetof(content_part, type), 0, 0, NULL},
    {"text", FIELD_TEXT, offsetof(content_part, text), 0, 0, NULL},
    {"refusal", FIELD_TEXT, offsetof(content_part, refusal), 0, 0, NULL},
    {"image_url", FIELD_TEXT, offsetof(content_part, image_url), 0, 0, NULL},
    {"file_id", FIELD_REFUSED, 0, 0, 0, NULL},
    /* Images come to as many tokens as the model wants for them. */
    {"detail", FIELD_IGNORED, 0, 0, 0, NULL},
    {"annotations", FIELD_IGNORED, 0, 0, 0, NULL},
    {"logprobs", FIELD_IGNORED, 0, 0, 0, NULL},
    {"prompt_cache_breakpoint", FIELD_IGNORED, 0, 0, 0, NULL},
};

static weft_status read_part(turns *t, const json *value, const char *where)
{
    static const char KNOWN[] = "input_text, input_image, output_text, refusal";
    char name[FIELD_NAME_BYTES];
    content_part p = {.type = {NULL, 0}};
    field_table table = {PART_ROWS, COUNT_OF(PART_ROWS), &p};
    str type = json_text(json_get(value, "type"));
    bool is_text = str_equal_text(type, "input_text") || str_equal_text(type, "output_text") ||
                   str_equal_text(type, "text");
    bool is_image = str_equal_text(type, "input_image");
    bool is_refusal = str_equal_text(type, "refusal");
    if (json_kind_of(value) == JSON_KIND_OBJECT && !is_text && !is_image && !is_refusal)
        return field_wrong_type(t->param, where, type, KNOWN, t->err);
    weft_status status = fields_read(value, where, &table, 1, t->param, t->err);
    if (status != WEFT_OK) return status;
    if (is_image) {
        if (p.image_url.len == 0) return field_missing(t->param, where, "image_url", t->err);
        snprintf(name, sizeof name, "%.44simage_url", where);
        return turns_add_image(t, p.image_url, name);
    }
    str text = is_refusal ? p.refusal : p.text;
    if (text.ptr == NULL)
        return field_missing(t->param, where, is_refusal ? "refusal" : "text", t->err);
    return turns_add_text(t, text);
}

/* list: the name of the field that content is. */
static weft_status read_content(turns *t, const json *content, const char *list)
{
    json_kind kind = json_kind_of(content);
    if (kind == JSON_KIND_NULL) return WEFT_OK;
    if (kind == JSON_KIND_TEXT) return turns_add_text(t, json_text(content));
    if (kind != JSON_KIND_ARRAY) {
        return field_wrong(t->param, list, t->err, "is %s, expected a string or an array of parts",
                           json_kind_name(kind));
    }
    for (size_t i = 0; i < json_length(content); i++) {
        char place[WHERE_BYTES];
        snprintf(place, sizeof place, "%.38s[%zu].", list, i);
        weft_status status = read_part(t, json_at(content, i), place);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* ---- items ----------------------------------------------------------------------------------- */

typedef struct item {
    str type, role, call_id, name;
    const json *content, *summary, *output, *arguments;
} item;

#define AT(field) offsetof(item, field)

static const field_row ITEM_ROWS[] = {
    {"type", FIELD_TEXT, AT(type), 0, 0, NULL},
    {"role", FIELD_TEXT, AT(role), 0, 0, NULL},
    {"content", FIELD_JSON, AT(content), 0, 0, NULL},
    {"summary", FIELD_JSON, AT(summary), 0, 0, NULL},
    {"call_id", FIELD_TEXT, AT(call_id), 0, 0, NULL},
    {"name", FIELD_TEXT, AT(name), 0, 0, NULL},
    {"arguments", FIELD_JSON, AT(arguments), 0, 0, NULL},
    {"output", FIELD_JSON, AT(output), 0, 0, NULL},
    /* What an answer had, and comes back. */
    {"id", FIELD_IGNORED, 0, 0, 0, NULL},
    {"status", FIELD_IGNORED, 0, 0, 0, NULL},
    {"phase", FIELD_IGNORED, 0, 0, 0, NULL},
    {"caller", FIELD_IGNORED, 0, 0, 0, NULL},
    {"created_by", FIELD_IGNORED, 0, 0, 0, NULL},
    {"encrypted_content", FIELD_IGNORED, 0, 0, 0, NULL},
    {"namespace", FIELD_REFUSED, 0, 0, 0, NULL},
};

static weft_status read_message(turns *t, const json *from, const item *m, const char *where)
{
    static const char *const ROLES[] = {"user", "assistant", "system", "developer"};
    char name[FIELD_NAME_BYTES];
    if (m->role.ptr == NULL) return field_missing(t->param, where, "role", t->err);
    if (json_get(from, "content") == NULL) return field_missing(t->param, where, "content", t->err);
    for (size_t i = 0; i < COUNT_OF(ROLES); i++) {
        if (!str_equal_text(m->role, ROLES[i])) continue;
        /* An answer is of several items; what users say is not run together. */
        weft_status status = turns_open(t, ROLES[i == 3 ? 2 : i], i == 1);
        snprintf(name, sizeof name, "%.40scontent", where);
        return status == WEFT_OK ? read_content(t, m->content, name) : status;
    }
    snprintf(name, sizeof name, "%.44srole", where);
    return field_wrong(t->param, name, t->err,
                       "is '%.*s', expected user, assistant, system or developer",
                       (int)(m->role.len < SHOWN ? m->role.len : SHOWN), m->role.ptr);
}

static weft_status read_call(turns *t, const item *m, const char *where)
{
    if (m->call_id.ptr == NULL) return field_missing(t->param, where, "call_id", t->err);
    if (m->name.len == 0) return field_missing(t->param, where, "name", t->err);
    weft_status status = turns_open(t, "assistant", true);
    return status == WEFT_OK ? turns_add_call(t, m->call_id, m->name, m->arguments) : status;
}

static weft_status read_output(turns *t, const item *m, const char *where)
{
    char name[FIELD_NAME_BYTES];
    if (m->call_id.ptr == NULL) return field_missing(t->param, where, "call_id", t->err);
    snprintf(name, sizeof name, "%.44scall_id", where);
    weft_status status = turns_open_result(t, m->call_id, name);
    snprintf(name, sizeof name, "%.40soutput", where);
    return status == WEFT_OK ? read_content(t, m->output, name) : status;
}

/* The reasoning itself where it is there, else its summary. */
static weft_status read_reasoning(turns *t, const item *m, const char *where)
{
    const json *list = json_length(m->content) > 0 ? m->content : m->summary;
    weft_status status = turns_open(t, "assistant", true);
    for (size_t i = 0; i < json_length(list) && status == WEFT_OK; i++) {
        const json *text = json_get(json_at(list, i), "text");
        if (json_kind_of(text) != JSON_KIND_TEXT)
            return field_missing(t->param, where,
                                 list == m->content ? "content.text" : "summary.text", t->err);
        status = turns_add_reasoning(t, json_text(text));
    }
    return status;
}

static weft_status read_item(turns *t, const json *value, size_t i)
{
    static const char *const TYPES[] = {"message", "function_call", "function_call_output",
                                        "reasoning"};
    char where[WHERE_BYTES];
    item m = {.content = NULL};
    field_table table = {ITEM_ROWS, COUNT_OF(ITEM_ROWS), &m};
    str type = json_text(json_get(value, "type"));
    size_t k = type.len == 0 ? 0 : COUNT_OF(TYPES);
    for (size_t j = 0; j < COUNT_OF(TYPES); j++) {
        if (str_equal_text(type, TYPES[j])) k = j;
    }
    snprintf(where, sizeof where, "input[%zu].", i);
    if (k == COUNT_OF(TYPES)) {
        return field_wrong_type(t->param, where, type,
                                "message, function_call, function_call_output, reasoning", t->err);
    }
    weft_status status = fields_read(value, where, &table, 1, t->param, t->err);
    if (status != WEFT_OK) return status;
    if (k == 0) return read_message(t, value, &m, where);
    if (k == 1) return read_call(t, &m, where);
    return k == 2 ? read_output(t, &m, where) : read_reasoning(t, &m, where);
}

static weft_status read_input(turns *t, str instructions, const json *input)
{
    weft_status status = WEFT_OK;
    json_kind kind = json_kind_of(input);
    if (instructions.len > 0) {
        status = turns_open(t, "system", true);
        if (status == WEFT_OK) status = turns_add_text(t, instructions);
    }
    if (kind == JSON_KIND_TEXT && status == WEFT_OK) {
        status = turns_open(t, "user", false);
        if (status == WEFT_OK) status = turns_add_text(t, json_text(input));
    } else if (kind != JSON_KIND_ARRAY || json_length(input) == 0) {
        return field_wrong(t->param, "input", t->err,
                           "is missing, empty, or no string and no array");
    }
    for (size_t i = 0; kind == JSON_KIND_ARRAY && i < json_length(input) && status == WEFT_OK; i++)
        status = read_item(t, json_at(input, i), i);
    return status == WEFT_OK ? turns_end(t) : status;
}

/* ---- tools ----------------------------------------------------------------------------------- */

typedef struct tool {
    str type, name, description;
    const json *parameters;
    bool strict;
} tool;

static const field_row TOOL_ROWS[] = {
    {"type", FIELD_TEXT, offsetof(tool, type), 0, 0, NULL},
    {"name", FIELD_TEXT, offsetof(tool, name), 0, 0, NULL},
    {"description", FIELD_TEXT, offsetof(tool, description), 0, 0, NULL},
    {"parameters", FIELD_JSON, offsetof(tool, parameters), 0, 0, NULL},
    {"strict", FIELD_FLAG, offsetof(tool, strict), 0, 0, NULL},
    {"defer_loading", FIELD_REFUSED, 0, 0, 0, "false"},
    {"allowed_callers", FIELD_REFUSED, 0, 0, 0, "[\"direct\"]"},
    {"output_schema", FIELD_REFUSED, 0, 0, 0, NULL},
};

static weft_status read_tool(generation *g, const json *from, size_t i, char *param,
                             weft_error *err)
{
    char where[WHERE_BYTES];
    char name[FIELD_NAME_BYTES];
    tool made = {.parameters = NULL};
    field_table table = {TOOL_ROWS, COUNT_OF(TOOL_ROWS), &made};
    str type = json_text(json_get(from, "type"));
    snprintf(where, sizeof where, "tools[%zu].", i);
    if (!str_equal_text(type, "function")) {
        snprintf(name, sizeof name, "%.44stype", where);
        return field_wrong(param, name, err, "is '%.*s'; only function is known here",
                           (int)(type.len < SHOWN ? type.len : SHOWN), type.ptr);
    }
    weft_status status = fields_read(from, where, &table, 1, param, err);
    if (status != WEFT_OK) return status;
    snprintf(name, sizeof name, "%.44sname", where);
    if (made.name.len == 0) return field_wrong(param, name, err, "is missing");
    messages_tool written = {made.name, made.description, made.parameters, made.strict};
    return messages_add_tool(g, &written, err);
}

/* ---- settings -------------------------------------------------------------------------------- */

static weft_status read_include(const json *include, bool *logprobs, char *param, weft_error *err)
{
    if (include == NULL) return WEFT_OK;
    if (json_kind_of(include) != JSON_KIND_ARRAY)
        return field_wrong(param, "include", err, "is no array");
    for (size_t i = 0; i < json_length(include); i++) {
        str word = json_text(json_at(include, i));
        if (str_equal_text(word, "message.output_text.logprobs")) {
            *logprobs = true;
        } else if (!str_equal_text(word, "reasoning.encrypted_content")) {
            /* Reasoning is given as it is, so there is nothing to hide in a cipher. */
            return field_wrong(param, "include", err, "has '%.*s', which is not known here",
                               (int)(word.len < SHOWN ? word.len : SHOWN), word.ptr);
        }
    }
    return WEFT_OK;
}

static weft_status read_text(generation *g, const json *text, char *param, weft_error *err)
{
    const json *format = NULL;
    const field_row rows[] = {
        {"format", FIELD_JSON, 0, 0, 0, NULL},
        {"verbosity", FIELD_REFUSED, 0, 0, 0, "\"medium\""},
    };
    field_table table = {rows, COUNT_OF(rows), &format};
    if (text == NULL) return WEFT_OK;
    weft_status status = fields_read(text, "text.", &table, 1, param, err);
    return status == WEFT_OK ? messages_read_format(g, format, "text.format", param, err) : status;
}

/* A summary would be another model's: reasoning is given as it is. */
static weft_status read_effort(const json *reasoning, str *effort, char *param, weft_error *err)
{
    const field_row rows[] = {
        {"effort", FIELD_TEXT, 0, 0, 0, NULL},
        {"summary", FIELD_IGNORED, 0, 0, 0, NULL},
        {"generate_summary", FIELD_IGNORED, 0, 0, 0, NULL},
        {"context", FIELD_REFUSED, 0, 0, 0, "\"auto\""},
        {"mode", FIELD_REFUSED, 0, 0, 0, "\"standard\""},
    };
    field_table table = {rows, COUNT_OF(rows), effort};
    if (reasoning == NULL) return WEFT_OK;
    return fields_read(reasoning, "reasoning.", &table, 1, param, err);
}

/* ---- the body -------------------------------------------------------------------------------- */

typedef struct body_fields {
    str model, instructions;
    const json *input, *tools, *tool_choice, *text, *reasoning, *include, *variables;
    const json *stream_options, *metadata;
    bool parallel, store;
    uint32_t max_tokens, n_top;
} body_fields;

#undef AT
#define AT(field) offsetof(body_fields, field)

static const field_row ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"input", FIELD_JSON, AT(input), 0, 0, NULL},
    {"instructions", FIELD_TEXT, AT(instructions), 0, 0, NULL},
    {"tools", FIELD_JSON, AT(tools), 0, 0, NULL},
    {"tool_choice", FIELD_JSON, AT(tool_choice), 0, 0, NULL},
    {"parallel_tool_calls", FIELD_FLAG, AT(parallel), 0, 0, NULL},
    {"text", FIELD_JSON, AT(text), 0, 0, NULL},
    {"reasoning", FIELD_JSON, AT(reasoning), 0, 0, NULL},
    {"include", FIELD_JSON, AT(include), 0, 0, NULL},
    {"max_output_tokens", FIELD_COUNT, AT(max_tokens), 1, 1U << 31, NULL},
    {"top_logprobs", FIELD_COUNT, AT(n_top), 0, WEFT_TOP_LOGPROBS, NULL},
    {"stream_options", FIELD_JSON, AT(stream_options), 0, 0, NULL},
    {"chat_template_kwargs", FIELD_JSON, AT(variables), 0, 0, NULL},
    {"metadata", FIELD_JSON, AT(metadata), 0, 0, NULL},
    /* Nothing is stored either way. */
    {"store", FIELD_FLAG, AT(store), 0, 0, NULL},
    /* Of tools that OpenAI's servers do. */
    {"max_tool_calls", FIELD_IGNORED, 0, 0, 0, NULL},
    {"previous_response_id", FIELD_REFUSED, 0, 0, 0, NULL},
    {"conversation", FIELD_REFUSED, 0, 0, 0, NULL},
    {"prompt", FIELD_REFUSED, 0, 0, 0, NULL},
    {"background", FIELD_REFUSED, 0, 0, 0, "false"},
    {"truncation", FIELD_REFUSED, 0, 0, 0, "\"disabled\""},
    {"context_management", FIELD_REFUSED, 0, 0, 0, NULL},
    {"moderation", FIELD_REFUSED, 0, 0, 0, NULL},
};

static void echo_json(strbuf *echo, const char *name, const json *value, const char *otherwise)
{
    strbuf_printf(echo, ",\"%s\":", name);
    if (value == NULL) {
        strbuf_add_text(echo, otherwise);
    } else {
        json_write(value, 0, echo);
    }
}

static weft_status write_echo(const generation *g, const json *body, const body_fields *b,
                              strbuf *echo)
{
    const json *instructions = json_get(body, "instructions");
    strbuf_add_text(echo, "\"background\":false,\"previous_response_id\":null,"
                          "\"truncation\":\"disabled\",\"service_tier\":\"default\"");
    echo_json(echo, "instructions", instructions, "null");
    echo_json(echo, "metadata", b->metadata, "{}");
    echo_json(echo, "tools", b->tools, "[]");
    echo_json(echo, "tool_choice", b->tool_choice, "\"auto\"");
    echo_json(echo, "text", b->text, "{\"format\":{\"type\":\"text\"}}");
    echo_json(echo, "reasoning", b->reasoning, "{\"effort\":null,\"summary\":null}");
    strbuf_printf(echo, ",\"parallel_tool_calls\":%s,\"store\":false,\"top_logprobs\":%u",
                  b->parallel ? "true" : "false", b->n_top);
    strbuf_add_text(echo, ",\"max_output_tokens\":");
    if (g->asked.max_new == 0) return strbuf_add_text(echo, "null");
    return strbuf_printf(echo, "%u", g->asked.max_new);
}

static weft_status read_settings(generation *g, const body_fields *b, char *param, weft_error *err)
{
    messages_variables variables = {.more = b->variables};
    bool logprobs = b->n_top > 0;
    g->one_call = !b->parallel;
    g->asked.max_new = b->max_tokens;
    weft_status status = read_include(b->include, &logprobs, param, err);
    if (logprobs) g->asked.n_top = b->n_top;
    if (status == WEFT_OK) status = messages_read_each_tool(g, b->tools, read_tool, param, err);
    if (status == WEFT_OK) status = messages_read_choice(g, b->tool_choice, false, param, err);
    if (status == WEFT_OK) status = read_text(g, b->text, param, err);
    if (status == WEFT_OK) status = read_effort(b->reasoning, &variables.effort, param, err);
    if (status == WEFT_OK) status = openai_read_stream_options(g, b->stream_options, param, err);
    if (status == WEFT_OK) status = messages_write_variables(g, &variables, param, err);
    return status;
}

weft_status responses_read_body(generation *g, const json *body, strbuf *echo, char *param,
                                weft_error *err)
{
    body_fields b = {.parallel = true};
    field_table tables[] = {{ROWS, COUNT_OF(ROWS), &b},
                            {ASKED_ROWS, N_ASKED_ROWS, &g->asked},
                            {OPENAI_COMMON_ROWS, N_OPENAI_COMMON_ROWS, NULL}};
    g->is_chat = true;
    const json *before = json_get(body, "previous_response_id");
    if (json_kind_of(before) != JSON_KIND_NULL) {
        return field_wrong(param, "previous_response_id", err,
                           "is not supported: nothing is stored, send the conversation as input");
    }
    weft_status status = fields_read(body, "", tables, COUNT_OF(tables), param, err);
    if (status != WEFT_OK) return status;
    g->model_name = b.model;
    status = read_settings(g, &b, param, err);
    if (status != WEFT_OK) return status;
    turns t;
    turns_init(&t, g, param, err);
    status = read_input(&t, b.instructions, b.input);
    turns_deinit(&t);
    if (status != WEFT_OK) return status;
    status = write_echo(g, body, &b, echo);
    return status == WEFT_OK ? status : err_set(err, status, "out of memory for the answer");
}
