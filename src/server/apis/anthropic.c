/* anthropic.c - POST /v1/messages and /v1/messages/count_tokens (Anthropic's API reference,
 * "Messages", "Streaming messages"). */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/anthropic_body.h"
#include "server/apis/api.h"
#include "server/pieces.h"

typedef struct own {
    pieces pieces;
    bool omits; /* reasoning is not shown */
} own;

static own *own_of(const answer *a)
{
    return a->g->own;
}

static weft_status read_message(generation *g, const json *body, char *param, weft_error *err)
{
    own *o = g->own;
    return anthropic_read_body(g, body, false, &o->omits, param, err);
}

static weft_status read_count(generation *g, const json *body, char *param, weft_error *err)
{
    bool omits;
    return anthropic_read_body(g, body, true, &omits, param, err);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void write_error(strbuf *out, const api_error *e)
{
    uint32_t status = e->status;
    const char *type = status == 401   ? "authentication_error"
                       : status == 403 ? "permission_error"
                       : status == 404 ? "not_found_error"
                       : status == 413 ? "request_too_large"
                       : status == 429 ? "rate_limit_error"
                       : status == 503 ? "overloaded_error"
                       : status >= 500 ? "api_error"
                                       : "invalid_request_error";
    /* Messages name the field. */
    strbuf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    json_write_text(str_of(e->message), out);
    if (e->number == 0) {
        strbuf_add_text(out, "},\"request_id\":null}");
    } else {
        strbuf_printf(out, "},\"request_id\":\"req_%llu\"}", (unsigned long long)e->number);
    }
}

/* ---- what streams and whole answers share ---------------------------------------------------- */

static void write_usage(const generation *g, uint32_t n_cached, strbuf *out)
{
    const own *o = g->own;
    strbuf_printf(out,
                  "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":%u,\"output_tokens\":%u,"
                  "\"output_tokens_details\":{\"thinking_tokens\":%u}}",
                  g->n_prompt_tokens - n_cached, n_cached, generation_new_tokens(g),
                  o->pieces.n_reasoning_ids);
}

/* Members of the message or of the delta that ends it. */
static void write_stop(const answer *a, strbuf *out)
{
    const generation *g = a->g;
    const char *reason = answer_has_calls(a) ? "tool_use" : "end_turn";
    bool at_text = a->finish == WEFT_FINISH_STOP && a->stop_text >= 0;
    if (at_text) reason = "stop_sequence";
    if (a->finish == WEFT_FINISH_LENGTH) {
        /* The other reason for this is that the context is full. */
        reason = a->n_ids >= g->asked.max_new ? "max_tokens" : "model_context_window_exceeded";
    }
    strbuf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (at_text) {
        json_write_text(str_of(g->lists.stops[a->stop_text]), out);
    } else {
        strbuf_add_text(out, "null");
    }
}

static void begin_message(const generation *g, strbuf *out)
{
    strbuf_printf(
        out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", g->id);
    json_write_text(str_of(g->model->name), out);
    strbuf_add_text(out, ",\"content\":[");
}

/* Nobody checks it; clients leave out reasoning that has none. */
static void write_signature(const answer *a, strbuf *out)
{
    strbuf_printf(out, "\"signature\":\"%s\"", a->g->id);
}

static void write_call(const answer *a, const piece *p, strbuf *out)
{
    const answer_call *call = &a->calls[p->call];
    strbuf_printf(
        out, "{\"type\":\"tool_use\",\"id\":\"toolu_%s\",\"name\":", call->id + sizeof "call_" - 1);
    json_write_text((str){strbuf_text(&call->name), call->name.len}, out);
    strbuf_add_text(out, ",\"input\":");
}

/* ---- a stream -------------------------------------------------------------------------------- */

static void begin(generation *g)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"type\":\"message_start\",\"message\":");
    begin_message(g, &out);
    strbuf_add_text(&out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    /* What of it was known already is told by message_delta, when the engine has begun with it. */
    write_usage(g, 0, &out);
    strbuf_add_text(&out, "}}");
    generation_event(g, "message_start", &out);
    strbuf_clear(&out);
    strbuf_add_text(&out, "{\"type\":\"ping\"}");
    generation_event(g, "ping", &out);
    strbuf_deinit(&out);
}

static void begin_block(answer *a, const piece *p, uint32_t i)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_printf(&out, "{\"type\":\"content_block_start\",\"index\":%u,\"content_block\":", i);
    if (p->kind == WEFT_PART_CALL) {
        write_call(a, p, &out);
        strbuf_add_text(&out, "{}}}");
    } else if (p->kind == WEFT_PART_REASONING) {
        strbuf_add_text(&out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}");
    } else {
        strbuf_add_text(&out, "{\"type\":\"text\",\"text\":\"\"}}");
    }
    generation_event(a->g, "content_block_start", &out);
    strbuf_deinit(&out);
}

static void add_block(answer *a, const piece *p, uint32_t i, str text)
{
    const char *form = p->kind == WEFT_PART_CALL        ? "input_json_delta\",\"partial_json"
                       : p->kind == WEFT_PART_REASONING ? "thinking_delta\",\"thinking"
                                                        : "text_delta\",\"text";
    if (p->kind == WEFT_PART_REASONING && own_of(a)->omits) return;
    strbuf *out = generation_begin_event(a->g);
    strbuf_printf(
        out, "{\"type\":\"content_block_delta\",\"index\":%u,\"delta\":{\"type\":\"%s\":", i, form);
    json_write_text(text, out);
    strbuf_add_text(out, "}}");
    generation_event(a->g, "content_block_delta", out);
}

static void end_block(answer *a, const piece *p, uint32_t i)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    if (p->kind == WEFT_PART_REASONING) {
        strbuf_printf(&out,
                      "{\"type\":\"content_block_delta\",\"index\":%u,"
                      "\"delta\":{\"type\":\"signature_delta\",",
                      i);
        write_signature(a, &out);
        strbuf_add_text(&out, "}}");
        generation_event(a->g, "content_block_delta", &out);
        strbuf_clear(&out);
    }
    strbuf_printf(&out, "{\"type\":\"content_block_stop\",\"index\":%u}", i);
    generation_event(a->g, "content_block_stop", &out);
    strbuf_deinit(&out);
}

static const piece_writer WRITER = {begin_block, add_block, end_block};

static const piece_writer *writer_of(const answer *a)
{
    return a->g->asked.stream ? &WRITER : NULL;
}

static void part(answer *a, const weft_part *given)
{
    pieces_take(&own_of(a)->pieces, a, given, writer_of(a));
}

static void finish(answer *a)
{
    strbuf out;
    pieces_finish(&own_of(a)->pieces, a, writer_of(a));
    if (!a->g->asked.stream) return;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"type\":\"message_delta\",\"delta\":{");
    write_stop(a, &out);
    strbuf_add_text(&out, "},");
    write_usage(a->g, generation_cached_tokens(a->g), &out);
    strbuf_add_char(&out, '}');
    generation_event(a->g, "message_delta", &out);
    strbuf_deinit(&out);
}

static void broken(generation *g, uint32_t status, const char *message)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    write_error(&out, &(api_error){status, NULL, message, g->x->number});
    generation_event(g, "error", &out);
    strbuf_deinit(&out);
}

/* ---- a whole answer -------------------------------------------------------------------------- */

static void write_block(const answer *a, const piece *p, strbuf *out)
{
    str text = piece_text(a, p);
    if (p->kind == WEFT_PART_CALL) {
        write_call(a, p, out);
        strbuf_add_text(out, text.len > 0 ? text.ptr : "{}");
    } else if (p->kind == WEFT_PART_REASONING) {
        strbuf_add_text(out, "{\"type\":\"thinking\",\"thinking\":");
        json_write_text(own_of(a)->omits ? (str){"", 0} : text, out);
        strbuf_add_char(out, ',');
        write_signature(a, out);
    } else {
        strbuf_add_text(out, "{\"type\":\"text\",\"text\":");
        json_write_text(text, out);
    }
    strbuf_add_char(out, '}');
}

static void end(generation *g, strbuf *out)
{
    const own *o = g->own;
    const answer *a = &g->answers[0];
    bool first = true;
    if (g->asked.stream) {
        strbuf_add_text(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        return;
    }
    begin_message(g, out);
    for (uint32_t i = 0; i < o->pieces.n; i++) {
        /* A call that is not whole has arguments that are no JSON. */
        if (!o->pieces.all[i].whole) continue;
        if (!first) strbuf_add_char(out, ',');
        write_block(a, &o->pieces.all[i], out);
        first = false;
    }
    strbuf_add_text(out, "],");
    write_stop(a, out);
    strbuf_add_char(out, ',');
    write_usage(g, generation_cached_tokens(g), out);
    strbuf_add_char(out, '}');
}

static void drop(generation *g)
{
    own *o = g->own;
    pieces_deinit(&o->pieces);
}

static const generation_api MESSAGES = {.read = read_message,
                                        .parts_of_all = true,
                                        .begin = begin,
                                        .part = part,
                                        .finish = finish,
                                        .end = end,
                                        .broken = broken,
                                        .own_bytes = sizeof(own),
                                        .drop = drop};

/* ---- counts ---------------------------------------------------------------------------------- */

static void end_count(generation *g, strbuf *out)
{
    strbuf_printf(out, "{\"input_tokens\":%u}", g->n_prompt_tokens);
}

static const generation_api COUNT = {.read = read_count, .end = end_count};

static void handle_message(exchange *x)
{
    generation_start(x, &MESSAGES);
}

static void handle_count(exchange *x)
{
    generation_start(x, &COUNT);
}

static const server_route ROUTES[] = {
    {"POST", "/v1/messages", 0, handle_message},
    {"POST", "/v1/messages/count_tokens", 0, handle_count},
};

const server_api SERVER_API_anthropic = {.name = "anthropic",
                                         .routes = ROUTES,
                                         .n_routes = COUNT_OF(ROUTES),
                                         .write_error = write_error,
                                         .id_header = "Request-Id"};
