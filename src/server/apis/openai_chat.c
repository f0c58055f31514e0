/* openai_chat.c - POST /v1/chat/completions (OpenAI's API reference, "Chat"). */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/messages.h"
#include "server/openai.h"

typedef struct chat_body {
    str model, reasoning_effort;
    const json *messages, *stream_options, *tools, *tool_choice, *response_format;
    const json *variables;
    bool parallel, logprobs;
    uint32_t max_tokens, max_completion_tokens, n, n_top;
    float priority;
} chat_body;

#define AT(field) offsetof(chat_body, field)

static const field_row ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"messages", FIELD_JSON, AT(messages), 0, 0, NULL},
    {"stream_options", FIELD_JSON, AT(stream_options), 0, 0, NULL},
    {"tools", FIELD_JSON, AT(tools), 0, 0, NULL},
    {"tool_choice", FIELD_JSON, AT(tool_choice), 0, 0, NULL},
    {"parallel_tool_calls", FIELD_FLAG, AT(parallel), 0, 0, NULL},
    {"response_format", FIELD_JSON, AT(response_format), 0, 0, NULL},
    {"max_tokens", FIELD_COUNT, AT(max_tokens), 1, 1U << 31, NULL},
    {"max_completion_tokens", FIELD_COUNT, AT(max_completion_tokens), 1, 1U << 31, NULL},
    {"n", FIELD_COUNT, AT(n), 1, ASKED_ANSWERS, NULL},
    {"logprobs", FIELD_FLAG, AT(logprobs), 0, 0, NULL},
    {"top_logprobs", FIELD_COUNT, AT(n_top), 0, WEFT_TOP_LOGPROBS, NULL},
    {"chat_template_kwargs", FIELD_JSON, AT(variables), 0, 0, NULL},
    {"reasoning_effort", FIELD_TEXT, AT(reasoning_effort), 0, 0, NULL},
    {"priority", FIELD_REAL, AT(priority), -1000000, 1000000, NULL},
    {"store", FIELD_REFUSED, 0, 0, 0, "false"},
    {"modalities", FIELD_REFUSED, 0, 0, 0, "[\"text\"]"},
    {"verbosity", FIELD_REFUSED, 0, 0, 0, "\"medium\""},
    {"prediction", FIELD_IGNORED, 0, 0, 0, NULL},
    {"functions", FIELD_REFUSED, 0, 0, 0, NULL},
    {"function_call", FIELD_REFUSED, 0, 0, 0, NULL},
    {"audio", FIELD_REFUSED, 0, 0, 0, NULL},
    {"web_search_options", FIELD_REFUSED, 0, 0, 0, NULL},
};

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status read_limits(generation *g, const chat_body *b, char *param, weft_error *err)
{
    g->asked.max_new = b->max_completion_tokens != 0 ? b->max_completion_tokens : b->max_tokens;
    g->asked.n = b->n;
    g->asked.priority = (int32_t)b->priority;
    if (b->logprobs) g->asked.n_top = b->n_top;
    if (!b->logprobs && b->n_top > 0)
        return field_wrong(param, "top_logprobs", err, "needs logprobs to be true");
    return WEFT_OK;
}

static weft_status read_body(generation *g, const json *body, char *param, weft_error *err)
{
    chat_body b = {.parallel = true, .n = 1};
    openai_forms forms = {.json_schema = NULL};
    field_table tables[] = {{ROWS, COUNT_OF(ROWS), &b},
                            {ASKED_ROWS, N_ASKED_ROWS, &g->asked},
                            {OPENAI_FORM_ROWS, N_OPENAI_FORM_ROWS, &forms},
                            {OPENAI_COMMON_ROWS, N_OPENAI_COMMON_ROWS, NULL}};
    g->is_chat = true;
    weft_status status = fields_read(body, "", tables, COUNT_OF(tables), param, err);
    g->model_name = b.model;
    g->one_call = !b.parallel;
    if (status == WEFT_OK) status = read_limits(g, &b, param, err);
    if (status == WEFT_OK) status = messages_read(g, b.messages, param, err);
    if (status == WEFT_OK) status = messages_read_tools(g, b.tools, param, err);
    if (status == WEFT_OK) status = messages_read_choice(g, b.tool_choice, true, param, err);
    if (status == WEFT_OK)
        status = messages_read_format(g, b.response_format, "response_format", param, err);
    if (status == WEFT_OK) status = openai_read_forms(g, &forms, param, err);
    if (status == WEFT_OK) status = openai_read_stream_options(g, b.stream_options, param, err);
    messages_variables variables = {.effort = b.reasoning_effort, .more = b.variables};
    if (status == WEFT_OK) status = messages_write_variables(g, &variables, param, err);
    return status;
}

/* ---- a stream -------------------------------------------------------------------------------- */

static strbuf *begin_chunk(generation *g)
{
    strbuf *out = generation_begin_event(g);
    openai_begin_object(g, "chatcmpl", "chat.completion.chunk", out);
    return out;
}

/* What follows is an object. */
static strbuf *begin_delta(const answer *a)
{
    strbuf *out = begin_chunk(a->g);
    strbuf_printf(out, "{\"index\":%u,\"delta\":", a->index);
    return out;
}

/* finish: NULL, or the reason. */
static void end_delta(answer *a, strbuf *out, const char *finish)
{
    strbuf_add_char(out, ',');
    openai_write_logprobs(a, out);
    if (finish != NULL) {
        strbuf_printf(out, ",\"finish_reason\":\"%s\"}]}", finish);
    } else {
        strbuf_add_text(out, ",\"finish_reason\":null}]}");
    }
    generation_event(a->g, NULL, out);
}

static void begin(generation *g)
{
    for (uint32_t i = 0; i < g->n_answers; i++) {
        strbuf *out = begin_delta(&g->answers[i]);
        strbuf_add_text(out, "{\"role\":\"assistant\",\"content\":\"\"}");
        end_delta(&g->answers[i], out, NULL);
    }
}

static void write_part(const answer *a, const weft_part *part, strbuf *out)
{
    str text = {part->text, part->n_bytes};
    switch (part->kind) {
    case WEFT_PART_CONTENT:
    case WEFT_PART_REASONING:
        strbuf_add_text(out, part->kind == WEFT_PART_CONTENT ? "{\"content\":"
                                                             : "{\"reasoning_content\":");
        json_write_text(text, out);
        strbuf_add_char(out, '}');
        break;
    case WEFT_PART_CALL:
        strbuf_printf(out,
                      "{\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":\"function\","
                      "\"function\":{\"name\":",
                      part->call, a->calls[part->call].id);
        json_write_text(text, out);
        strbuf_add_text(out, ",\"arguments\":\"\"}}]}");
        break;
    case WEFT_PART_ARGUMENTS:
        strbuf_printf(out,
                      "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", part->call);
        json_write_text(text, out);
        strbuf_add_text(out, "}}]}");
        break;
    default:
        break;
    }
}

static void part(answer *a, const weft_part *given)
{
    if (given->kind == WEFT_PART_CALL_END || given->kind == WEFT_PART_CALL_UNDONE) return;
    strbuf *out = begin_delta(a);
    write_part(a, given, out);
    end_delta(a, out, NULL);
}

static void finish(answer *a)
{
    strbuf *out = begin_delta(a);
    strbuf_add_text(out, "{}");
    end_delta(a, out, generation_finish_name(a));
}

static void end_stream(generation *g, strbuf *out)
{
    openai_end_stream(g, begin_chunk(g), out);
}

/* ---- a whole answer -------------------------------------------------------------------------- */

static void write_calls(const answer *a, strbuf *out)
{
    bool first = true;
    strbuf_add_text(out, ",\"tool_calls\":[");
    for (uint32_t i = 0; i < a->n_calls; i++) {
        const answer_call *call = &a->calls[i];
        if (!call->whole || call->undone) continue;
        strbuf_printf(out, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":",
                      first ? "" : ",", call->id);
        json_write_text((str){strbuf_text(&call->name), call->name.len}, out);
        strbuf_add_text(out, ",\"arguments\":");
        json_write_text((str){strbuf_text(&call->arguments), call->arguments.len}, out);
        strbuf_add_text(out, "}}");
        first = false;
    }
    strbuf_add_char(out, ']');
}

static void write_choice(answer *a, strbuf *out)
{
    bool calls = answer_has_calls(a);
    strbuf_printf(out, "{\"index\":%u,\"message\":{\"role\":\"assistant\",\"content\":", a->index);
    if (calls && a->content.len == 0) {
        strbuf_add_text(out, "null");
    } else {
        json_write_text((str){strbuf_text(&a->content), a->content.len}, out);
    }
    strbuf_add_text(out, ",\"refusal\":null");
    if (a->reasoning.len > 0) {
        strbuf_add_text(out, ",\"reasoning_content\":");
        json_write_text((str){a->reasoning.ptr, a->reasoning.len}, out);
    }
    if (calls) write_calls(a, out);
    strbuf_add_text(out, "},");
    openai_write_logprobs(a, out);
    strbuf_printf(out, ",\"finish_reason\":\"%s\"}", generation_finish_name(a));
}

static void end(generation *g, strbuf *out)
{
    if (g->asked.stream) {
        end_stream(g, out);
        return;
    }
    openai_begin_object(g, "chatcmpl", "chat.completion", out);
    for (uint32_t i = 0; i < g->n_answers; i++) {
        if (i > 0) strbuf_add_char(out, ',');
        write_choice(&g->answers[i], out);
    }
    strbuf_add_text(out, "],");
    openai_write_usage(g, out);
    openai_write_timings(g, out);
    strbuf_add_char(out, '}');
}

static const generation_api CHAT = {.read = read_body,
                                    .begin = begin,
                                    .part = part,
                                    .finish = finish,
                                    .end = end,
                                    .broken = openai_broken};

static void handle(exchange *x)
{
    generation_start(x, &CHAT);
}

static const server_route ROUTES[] = {
    {"POST", "/v1/chat/completions", 0, handle},
};

const server_api SERVER_API_openai_chat = {.name = "openai_chat",
                                           .routes = ROUTES,
                                           .n_routes = COUNT_OF(ROUTES),
                                           .write_error = openai_write_error};
