/* openai_completions.c - POST /v1/completions: text that is continued, without a template (OpenAI's
 * API reference, "Completions"). */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/messages.h"
#include "server/openai.h"
#include "server/prompts.h"

typedef struct completion_body {
    str model;
    const json *prompt, *stream_options, *response_format;
    uint32_t max_tokens, n, logprobs;
    float priority;
} completion_body;

#define AT(field) offsetof(completion_body, field)

static const field_row ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"prompt", FIELD_JSON, AT(prompt), 0, 0, NULL},
    {"stream_options", FIELD_JSON, AT(stream_options), 0, 0, NULL},
    {"response_format", FIELD_JSON, AT(response_format), 0, 0, NULL},
    {"max_tokens", FIELD_COUNT, AT(max_tokens), 1, 1U << 31, NULL},
    {"n", FIELD_COUNT, AT(n), 1, ASKED_ANSWERS, NULL},
    {"logprobs", FIELD_COUNT, AT(logprobs), 0, WEFT_TOP_LOGPROBS, NULL},
    {"priority", FIELD_REAL, AT(priority), -1000000, 1000000, NULL},
    {"echo", FIELD_REFUSED, 0, 0, 0, "false"},
    {"suffix", FIELD_REFUSED, 0, 0, 0, "\"\""},
    {"best_of", FIELD_REFUSED, 0, 0, 0, "1"},
};

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status read_body(generation *g, const json *body, char *param, weft_error *err)
{
    completion_body b = {.n = 1, .logprobs = UINT32_MAX};
    openai_forms forms = {.json_schema = NULL};
    field_table tables[] = {{ROWS, COUNT_OF(ROWS), &b},
                            {ASKED_ROWS, N_ASKED_ROWS, &g->asked},
                            {OPENAI_FORM_ROWS, N_OPENAI_FORM_ROWS, &forms},
                            {OPENAI_COMMON_ROWS, N_OPENAI_COMMON_ROWS, NULL}};
    weft_status status = fields_read(body, "", tables, COUNT_OF(tables), param, err);
    g->model_name = b.model;
    g->asked.n = b.n;
    /* OpenAI's default. */
    g->asked.max_new = b.max_tokens != 0 ? b.max_tokens : 16;
    g->asked.n_top = b.logprobs;
    g->asked.priority = (int32_t)b.priority;
    if (status == WEFT_OK) status = prompts_read(g, b.prompt, "prompt", param, err);
    if (status == WEFT_OK)
        status = messages_read_format(g, b.response_format, "response_format", param, err);
    if (status == WEFT_OK) status = openai_read_forms(g, &forms, param, err);
    if (status == WEFT_OK) status = openai_read_stream_options(g, b.stream_options, param, err);
    return status;
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

/* Of an answer, as this interface has them: arrays side by side. */
typedef struct completion_logprobs {
    strbuf tokens, logprobs, tops, offsets;
    uint32_t offset; /* characters so far */
} completion_logprobs;

static void drop_logprobs(answer *a)
{
    completion_logprobs *l = a->own;
    if (l == NULL) return;
    strbuf_deinit(&l->tokens);
    strbuf_deinit(&l->logprobs);
    strbuf_deinit(&l->tops);
    strbuf_deinit(&l->offsets);
    mem_free(mem_system(), l, sizeof *l);
    a->own = NULL;
}

static void drop(generation *g)
{
    for (uint32_t i = 0; i < g->n_answers; i++) drop_logprobs(&g->answers[i]);
}

static completion_logprobs *logprobs_of(answer *a)
{
    if (a->own != NULL) return a->own;
    completion_logprobs *l = mem_alloc_zero(mem_system(), sizeof *l);
    if (l == NULL) return NULL;
    strbuf_init(&l->tokens, mem_system(), 0);
    strbuf_init(&l->logprobs, mem_system(), 0);
    strbuf_init(&l->tops, mem_system(), 0);
    strbuf_init(&l->offsets, mem_system(), 0);
    a->own = l;
    return l;
}

static size_t bytes_of(const completion_logprobs *l)
{
    return l->tokens.len + l->logprobs.len + l->tops.len + l->offsets.len;
}

static bool token(answer *a, const weft_event *event)
{
    completion_logprobs *l = logprobs_of(a);
    if (l == NULL) return false;
    size_t before = bytes_of(l);
    const char *comma = l->tokens.len > 0 ? "," : "";
    strbuf_add_text(&l->tokens, comma);
    uint32_t n_chars = generation_write_token(a->g, event->token, &l->tokens);
    strbuf_printf(&l->offsets, "%s%u", comma, l->offset);
    l->offset += n_chars;
    strbuf_add_text(&l->logprobs, comma);
    generation_write_logprob(event->logprob, &l->logprobs);
    strbuf_printf(&l->tops, "%s{", comma);
    for (uint32_t i = 0; i < event->n_top; i++) {
        strbuf_add_text(&l->tops, i > 0 ? "," : "");
        generation_write_token(a->g, event->top[i].token, &l->tops);
        strbuf_add_char(&l->tops, ':');
        generation_write_logprob(event->top[i].logprob, &l->tops);
    }
    if (strbuf_add_char(&l->tops, '}') != WEFT_OK) return false;
    return a->g->asked.stream || generation_keep(a->g, bytes_of(l) - before);
}

/* What there is since the last time. */
static void write_logprobs(answer *a, strbuf *out)
{
    completion_logprobs *l = a->own;
    if (l == NULL || l->tokens.len == 0) {
        strbuf_add_text(out, "\"logprobs\":null");
        return;
    }
    strbuf_add_text(out, "\"logprobs\":{\"tokens\":[");
    strbuf_add(out, l->tokens.ptr, l->tokens.len);
    strbuf_add_text(out, "],\"token_logprobs\":[");
    strbuf_add(out, l->logprobs.ptr, l->logprobs.len);
    strbuf_add_text(out, "],\"top_logprobs\":[");
    strbuf_add(out, l->tops.ptr, l->tops.len);
    strbuf_add_text(out, "],\"text_offset\":[");
    strbuf_add(out, l->offsets.ptr, l->offsets.len);
    strbuf_add_text(out, "]}");
    strbuf_clear(&l->tokens);
    strbuf_clear(&l->logprobs);
    strbuf_clear(&l->tops);
    strbuf_clear(&l->offsets);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void begin_object(generation *g, strbuf *out)
{
    openai_begin_object(g, "cmpl", "text_completion", out);
}

static void write_choice(answer *a, str text, const char *finish, strbuf *out)
{
    strbuf_printf(out, "{\"index\":%u,\"text\":", a->index);
    json_write_text(text, out);
    strbuf_add_char(out, ',');
    write_logprobs(a, out);
    if (finish != NULL) {
        strbuf_printf(out, ",\"finish_reason\":\"%s\"}", finish);
    } else {
        strbuf_add_text(out, ",\"finish_reason\":null}");
    }
}

static void send_text(answer *a, str text, const char *reason)
{
    strbuf *out = generation_begin_event(a->g);
    begin_object(a->g, out);
    write_choice(a, text, reason, out);
    strbuf_add_text(out, "]}");
    generation_event(a->g, NULL, out);
}

static void begin(generation *g)
{
    (void)g;
}

static void part(answer *a, const weft_part *given)
{
    send_text(a, (str){given->text, given->n_bytes}, NULL);
}

static void finish(answer *a)
{
    send_text(a, (str){"", 0}, generation_finish_name(a));
}

static void end_stream(generation *g, strbuf *out)
{
    strbuf *chunk = generation_begin_event(g);
    begin_object(g, chunk);
    openai_end_stream(g, chunk, out);
}

static void end(generation *g, strbuf *out)
{
    if (g->asked.stream) {
        end_stream(g, out);
        return;
    }
    begin_object(g, out);
    for (uint32_t i = 0; i < g->n_answers; i++) {
        answer *a = &g->answers[i];
        if (i > 0) strbuf_add_char(out, ',');
        write_choice(a, (str){strbuf_text(&a->content), a->content.len}, generation_finish_name(a),
                     out);
    }
    strbuf_add_text(out, "],");
    openai_write_usage(g, out);
    openai_write_timings(g, out);
    strbuf_add_char(out, '}');
}

static const generation_api COMPLETIONS = {.read = read_body,
                                           .begin = begin,
                                           .part = part,
                                           .token = token,
                                           .finish = finish,
                                           .end = end,
                                           .broken = openai_broken,
                                           .drop = drop};

static void handle(exchange *x)
{
    generation_start(x, &COMPLETIONS);
}

static const server_route ROUTES[] = {
    {"POST", "/v1/completions", 0, handle},
};

const server_api SERVER_API_openai_completions = {.name = "openai_completions",
                                                  .routes = ROUTES,
                                                  .n_routes = COUNT_OF(ROUTES),
                                                  .write_error = openai_write_error};
