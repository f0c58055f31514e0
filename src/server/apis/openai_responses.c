/* openai_responses.c - POST /v1/responses (OpenAI's API reference, "Responses", "Streaming"). */
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/openai.h"
#include "server/pieces.h"
#include "server/responses_body.h"

typedef struct own {
    pieces pieces;
    strbuf echo; /* what was asked, in every object of the answer */
    uint32_t n_events;
} own;

static own *own_of(const answer *a)
{
    return a->g->own;
}

static weft_status read_body(generation *g, const json *body, char *param, weft_error *err)
{
    own *o = g->own;
    strbuf_init(&o->echo, mem_system(), 0);
    return responses_read_body(g, body, &o->echo, param, err);
}

/* ---- items ----------------------------------------------------------------------------------- */

static void write_id(const generation *g, const piece *p, uint32_t i, strbuf *out)
{
    const char *prefix = p->kind == WEFT_PART_CALL        ? "fc"
                         : p->kind == WEFT_PART_REASONING ? "rs"
                                                          : "msg";
    strbuf_printf(out, "\"%s_%s%02x\"", prefix, g->id, i);
}

static void write_part(const answer *a, const piece *p, bool whole, strbuf *out)
{
    str text = whole ? piece_text(a, p) : (str){"", 0};
    bool is_text = p->kind == WEFT_PART_CONTENT;
    strbuf_printf(out, "{\"type\":\"%s\",", is_text ? "output_text" : "reasoning_text");
    if (is_text) {
        str logprobs = whole ? piece_logprobs(&own_of(a)->pieces, p) : (str){"", 0};
        strbuf_add_text(out, "\"annotations\":[],\"logprobs\":[");
        strbuf_add(out, logprobs.ptr, logprobs.len);
        strbuf_add_text(out, "],");
    }
    strbuf_add_text(out, "\"text\":");
    json_write_text(text, out);
    strbuf_add_char(out, '}');
}

/* whole: with what is in it. */
static void write_item(const answer *a, const piece *p, uint32_t i, bool whole, strbuf *out)
{
    bool cut = a->done && a->finish == WEFT_FINISH_LENGTH && i + 1 == own_of(a)->pieces.n;
    const char *status = !whole ? "in_progress" : cut || !p->whole ? "incomplete" : "completed";
    strbuf_add_text(out, "{\"id\":");
    write_id(a->g, p, i, out);
    strbuf_printf(out, ",\"status\":\"%s\"", status);
    if (p->kind == WEFT_PART_CALL) {
        const answer_call *call = &a->calls[p->call];
        str arguments = piece_text(a, p);
        strbuf_printf(out, ",\"type\":\"function_call\",\"call_id\":\"%s\",\"name\":", call->id);
        json_write_text((str){strbuf_text(&call->name), call->name.len}, out);
        strbuf_add_text(out, ",\"arguments\":");
        if (whole && p->whole && arguments.len == 0) arguments = str_of("{}");
        json_write_text(whole ? arguments : (str){"", 0}, out);
    } else {
        strbuf_add_text(out, p->kind == WEFT_PART_REASONING
                                 ? ",\"type\":\"reasoning\",\"summary\":[],\"content\":["
                                 : ",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
        if (whole) write_part(a, p, true, out);
        strbuf_add_char(out, ']');
    }
    strbuf_add_char(out, '}');
}

/* ---- the response ---------------------------------------------------------------------------- */

static void write_real(strbuf *out, const char *name, float told, float otherwise)
{
    strbuf_printf(out, ",\"%s\":%.7g", name, (double)(told >= 0.0F ? told : otherwise));
}

static void write_usage(const generation *g, strbuf *out)
{
    const own *o = g->own;
    uint32_t n_new = generation_new_tokens(g);
    strbuf_printf(out,
                  "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,"
                  "\"cache_write_tokens\":0},\"output_tokens\":%u,"
                  "\"output_tokens_details\":{\"reasoning_tokens\":%u},\"total_tokens\":%u}",
                  g->n_prompt_tokens, generation_cached_tokens(g), n_new, o->pieces.n_reasoning_ids,
                  g->n_prompt_tokens + n_new);
}

/* status: "in_progress", "completed", "incomplete" or "failed", then with a message. */
static void write_response(const generation *g, const char *status, const char *message,
                           strbuf *out)
{
    const own *o = g->own;
    bool begins = strcmp(status, "in_progress") == 0;
    bool incomplete = strcmp(status, "incomplete") == 0;
    strbuf_printf(out,
                  "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,"
                  "\"status\":\"%s\",\"completed_at\":",
                  g->id, (long long)g->created, status);
    if (strcmp(status, "completed") == 0) {
        strbuf_printf(out, "%lld", (long long)time(NULL));
    } else {
        strbuf_add_text(out, "null");
    }
    strbuf_add_text(out, ",\"error\":");
    if (message != NULL) {
        strbuf_add_text(out, "{\"code\":\"server_error\",\"message\":");
        json_write_text(str_of(message), out);
        strbuf_add_char(out, '}');
    } else {
        strbuf_add_text(out, "null");
    }
    strbuf_printf(out, ",\"incomplete_details\":%s,\"model\":",
                  incomplete ? "{\"reason\":\"max_output_tokens\"}" : "null");
    json_write_text(str_of(g->model->name), out);
    strbuf_add_text(out, ",\"output\":[");
    bool first = true;
    for (uint32_t i = 0; !begins && i < o->pieces.n; i++) {
        /* A call that is not whole is none: clients would do it. */
        if (!o->pieces.all[i].whole) continue;
        if (!first) strbuf_add_char(out, ',');
        write_item(&g->answers[0], &o->pieces.all[i], i, true, out);
        first = false;
    }
    strbuf_add_text(out, "],");
    strbuf_add(out, strbuf_text(&o->echo), o->echo.len);
    write_real(out, "temperature", g->asked.sampling.temperature, g->model->info.temperature);
    write_real(out, "top_p", g->asked.sampling.top_p, g->model->info.top_p);
    strbuf_add_text(out, ",\"usage\":");
    if (begins) {
        strbuf_add_text(out, "null");
    } else {
        write_usage(g, out);
    }
    strbuf_add_char(out, '}');
}

static const char *status_of(const generation *g)
{
    weft_finish finish = g->answers[0].finish;
    bool cut = finish == WEFT_FINISH_LENGTH || finish == WEFT_FINISH_DEADLINE;
    return cut ? "incomplete" : "completed";
}

/* ---- a stream -------------------------------------------------------------------------------- */

/* Every event has its type and its number; more members and the brace are the caller's. */
static strbuf *begin_event(generation *g, const char *type)
{
    own *o = g->own;
    strbuf *out = generation_begin_event(g);
    strbuf_printf(out, "{\"type\":\"%s\",\"sequence_number\":%u", type, o->n_events++);
    return out;
}

static void end_event(generation *g, const char *type, strbuf *out)
{
    strbuf_add_char(out, '}');
    generation_event(g, type, out);
}

static void send_response(generation *g, const char *type, const char *status, const char *message)
{
    strbuf *out = begin_event(g, type);
    strbuf_add_text(out, ",\"response\":");
    write_response(g, status, message, out);
    end_event(g, type, out);
}

static strbuf *begin_item_event(answer *a, const char *type, const piece *p, uint32_t i)
{
    strbuf *out = begin_event(a->g, type);
    strbuf_printf(out, ",\"output_index\":%u,\"item_id\":", i);
    write_id(a->g, p, i, out);
    if (p->kind != WEFT_PART_CALL) strbuf_add_text(out, ",\"content_index\":0");
    return out;
}

static void send_item(answer *a, const char *type, const piece *p, uint32_t i, bool whole)
{
    strbuf *out = begin_event(a->g, type);
    strbuf_printf(out, ",\"output_index\":%u,\"item\":", i);
    write_item(a, p, i, whole, out);
    end_event(a->g, type, out);
}

static void send_part(answer *a, const char *type, const piece *p, uint32_t i, bool whole)
{
    strbuf *out = begin_item_event(a, type, p, i);
    strbuf_add_text(out, ",\"part\":");
    write_part(a, p, whole, out);
    end_event(a->g, type, out);
}

static void begin(generation *g)
{
    send_response(g, "response.created", "in_progress", NULL);
    send_response(g, "response.in_progress", "in_progress", NULL);
}

static void begin_item(answer *a, const piece *p, uint32_t i)
{
    send_item(a, "response.output_item.added", p, i, false);
    if (p->kind != WEFT_PART_CALL) send_part(a, "response.content_part.added", p, i, false);
}

static void write_logprobs(const piece *p, str logprobs, strbuf *out)
{
    if (p->kind != WEFT_PART_CONTENT) return;
    strbuf_add_text(out, ",\"logprobs\":[");
    strbuf_add(out, logprobs.ptr, logprobs.len);
    strbuf_add_char(out, ']');
}

static void add_item(answer *a, const piece *p, uint32_t i, str text)
{
    const char *type = p->kind == WEFT_PART_CALL        ? "response.function_call_arguments.delta"
                       : p->kind == WEFT_PART_REASONING ? "response.reasoning_text.delta"
                                                        : "response.output_text.delta";
    strbuf *out = begin_item_event(a, type, p, i);
    strbuf_add_text(out, ",\"delta\":");
    json_write_text(text, out);
    write_logprobs(p, own_of(a)->pieces.new_logprobs, out);
    end_event(a->g, type, out);
}

static void end_item(answer *a, const piece *p, uint32_t i)
{
    bool is_call = p->kind == WEFT_PART_CALL;
    const char *type = is_call                          ? "response.function_call_arguments.done"
                       : p->kind == WEFT_PART_REASONING ? "response.reasoning_text.done"
                                                        : "response.output_text.done";
    if (!is_call || p->whole) {
        str text = piece_text(a, p);
        strbuf *out = begin_item_event(a, type, p, i);
        if (is_call) {
            const answer_call *call = &a->calls[p->call];
            strbuf_add_text(out, ",\"name\":");
            json_write_text((str){strbuf_text(&call->name), call->name.len}, out);
            if (text.len == 0) text = str_of("{}");
        }
        strbuf_printf(out, ",\"%s\":", is_call ? "arguments" : "text");
        json_write_text(text, out);
        write_logprobs(p, piece_logprobs(&own_of(a)->pieces, p), out);
        end_event(a->g, type, out);
    }
    if (!is_call) send_part(a, "response.content_part.done", p, i, true);
    send_item(a, "response.output_item.done", p, i, true);
}

static const piece_writer WRITER = {begin_item, add_item, end_item};

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
    generation *g = a->g;
    const char *status = status_of(g);
    pieces_finish(&own_of(a)->pieces, a, writer_of(a));
    if (!g->asked.stream) return;
    send_response(g,
                  strcmp(status, "completed") == 0 ? "response.completed" : "response.incomplete",
                  status, NULL);
}

static void broken(generation *g, uint32_t status, const char *message)
{
    (void)status;
    send_response(g, "response.failed", "failed", message);
}

static void end(generation *g, strbuf *out)
{
    if (!g->asked.stream) write_response(g, status_of(g), NULL, out);
}

static void drop(generation *g)
{
    own *o = g->own;
    pieces_deinit(&o->pieces);
    if (o->echo.allocator != NULL) strbuf_deinit(&o->echo);
}

static const generation_api RESPONSES = {.read = read_body,
                                         .parts_of_all = true,
                                         .begin = begin,
                                         .part = part,
                                         .finish = finish,
                                         .end = end,
                                         .broken = broken,
                                         .own_bytes = sizeof(own),
                                         .drop = drop};

static void handle(exchange *x)
{
    generation_start(x, &RESPONSES);
}

static const server_route ROUTES[] = {
    {"POST", "/v1/responses", 0, handle},
};

const server_api SERVER_API_openai_responses = {.name = "openai_responses",
                                                .routes = ROUTES,
                                                .n_routes = COUNT_OF(ROUTES),
                                                .write_error = openai_write_error};
