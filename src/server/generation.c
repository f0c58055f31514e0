/* generation.c - the life of a request for answers.
 *
 * read (a thread) -> its model (the fleet) -> prepare (a thread) -> events, as its engine's steps
 * make them, in the loop's thread -> the end. A client that leaves ends it at the next of these. */
#include "server/generation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/apis/api.h"
#include "server/prepare.h"
#include "server/server_state.h"

enum { TOKEN_TEXT_BYTES = 512, CALLS_MOST = 4096 };

/* How long a client may leave a full stream unread while others wait for a sequence. */
#define UNREAD_NS ((uint64_t)5 * 1000000000)

/* ---- the end --------------------------------------------------------------------------------- */

static void drop_answer(answer *a)
{
    strbuf_deinit(&a->content);
    strbuf_deinit(&a->reasoning);
    strbuf_deinit(&a->logprobs);
    for (uint32_t i = 0; i < a->n_calls; i++) {
        strbuf_deinit(&a->calls[i].name);
        strbuf_deinit(&a->calls[i].arguments);
    }
    mem_free(mem_system(), a->calls, a->calls_capacity * sizeof *a->calls);
    mem_free(mem_system(), a->ids, a->ids_capacity * sizeof *a->ids);
}

static void drop_prompts(generation *g)
{
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        mem_free(mem_system(), g->prompts[i].ids, g->prompts[i].n_ids * sizeof *g->prompts[i].ids);
    }
    mem_free(mem_system(), g->prompts, g->n_prompts * sizeof *g->prompts);
}

static void unlist(generation *g)
{
    if (!g->listed) return;
    if (g->prev != NULL) g->prev->next = g->next;
    if (g->next != NULL) g->next->prev = g->prev;
    if (g->model->first == g) g->model->first = g->next;
    g->listed = false;
}

/* Gives everything back but the exchange. */
static void generation_drop(generation *g)
{
    unlist(g);
    if (g->waits_for != NULL) fleet_forget(g->waits_for, &g->wait);
    if (g->api->drop != NULL) g->api->drop(g);
    if (g->model != NULL) {
        prepare_undo(g);
        /* What was released is given up in a step. */
        fleet_kick(g->model);
        fleet_release(g->model);
    }
    for (uint32_t i = 0; i < g->n_answers; i++) drop_answer(&g->answers[i]);
    mem_free(mem_system(), g->answers, g->n_answers * sizeof *g->answers);
    drop_prompts(g);
    mem_free(mem_system(), g->vectors, (size_t)g->n_prompts * g->n_dims * sizeof *g->vectors);
    mem_free(mem_system(), g->stop_ids, g->n_stop_ids * sizeof *g->stop_ids);
    asked_lists_deinit(&g->lists);
    strbuf_deinit(&g->messages);
    strbuf_deinit(&g->tools);
    strbuf_deinit(&g->variables);
    strbuf_deinit(&g->form);
    strbuf_deinit(&g->tool_name);
    g->x->server->n_kept -= g->n_kept;
    strbuf_deinit(&g->stem);
    strbuf_deinit(&g->event);
    exchange_free_document(g->x, &g->doc);
    mem_free(mem_system(), g->own, g->api->own_bytes);
    mem_free(mem_system(), g, sizeof *g);
}

static void count_end(generation *g, const answer *a)
{
    metrics *m = &g->model->metrics;
    switch (a->done ? a->finish : WEFT_FINISH_CANCELLED) {
    case WEFT_FINISH_STOP:
        m->n_stop++;
        break;
    case WEFT_FINISH_LENGTH:
        m->n_length++;
        break;
    case WEFT_FINISH_DEADLINE:
        m->n_deadline++;
        break;
    case WEFT_FINISH_ERROR:
        m->n_errors++;
        break;
    default:
        m->n_cancelled++;
        break;
    }
    m->n_cached_tokens += a->n_cached;
    m->n_drafted += a->n_drafted;
    m->n_accepted += a->n_accepted;
    if (a->n_ids > 1)
        histogram_add(&m->each_s, METRICS_EACH_S,
                      (double)(a->ns_last - a->ns_first) / 1e9 / (a->n_ids - 1));
    if (a->done)
        histogram_add(&m->whole_s, METRICS_WHOLE_S,
                      (double)(clock_now_ns() - g->submitted_ns) / 1e9);
}

/* The client has left, or all is said. */
static void finish_exchange(generation *g)
{
    exchange *x = g->x;
    if (g->listed) {
        for (uint32_t i = 0; i < g->n_answers; i++) count_end(g, &g->answers[i]);
    }
    generation_drop(g);
    exchange_end(x);
}

static void on_gone(exchange *x)
{
    finish_exchange(x->state);
}

/* Before anything was answered. */
static void fail(generation *g, uint32_t status, const char *message)
{
    exchange *x = g->x;
    char text[sizeof g->err.message];
    char param[FIELD_NAME_BYTES];
    snprintf(text, sizeof text, "%s", message);
    memcpy(param, g->param, sizeof param);
    generation_drop(g);
    exchange_fail(x, status, param[0] != '\0' ? param : NULL, text);
}

static void fail_weft(generation *g)
{
    fail(g, http_status_of(g->err.status), g->err.message);
}

/* ---- text of tokens -------------------------------------------------------------------------- */

void generation_write_logprob(float logprob, strbuf *out)
{
    strbuf_printf(out, "%.9g", isfinite(logprob) ? (double)logprob : -9999.0);
}

static size_t bytes_of(const generation *g, int32_t id, char bytes[TOKEN_TEXT_BYTES])
{
    size_t n = 0;
    weft_status status = weft_token_bytes(g->model->model, id, bytes, TOKEN_TEXT_BYTES, &n, NULL);
    return status == WEFT_OK ? n : 0;
}

uint32_t generation_write_token(const generation *g, int32_t id, strbuf *out)
{
    char bytes[TOKEN_TEXT_BYTES];
    size_t n = bytes_of(g, id, bytes);
    uint32_t n_chars = 0;
    for (size_t i = 0; i < n; i++) n_chars += ((unsigned char)bytes[i] & 0xc0U) != 0x80U;
    json_write_text((str){bytes, n}, out);
    return n_chars;
}

static void write_token(const generation *g, int32_t id, float logprob, strbuf *out)
{
    char bytes[TOKEN_TEXT_BYTES];
    size_t n = bytes_of(g, id, bytes);
    strbuf_add_text(out, "{\"token\":");
    json_write_text((str){bytes, n}, out);
    strbuf_add_text(out, ",\"logprob\":");
    generation_write_logprob(logprob, out);
    strbuf_add_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        strbuf_printf(out, "%s%u", i > 0 ? "," : "", (unsigned)(unsigned char)bytes[i]);
    strbuf_add_char(out, ']');
}

static bool keep_logprobs(answer *a, const weft_event *event)
{
    const generation *g = a->g;
    strbuf *out = &a->logprobs;
    size_t before = out->len;
    if (g->asked.n_top == UINT32_MAX) return true;
    if (g->api->token != NULL) return g->api->token(a, event);
    if (out->len > 0) strbuf_add_char(out, ',');
    write_token(g, event->token, event->logprob, out);
    strbuf_add_text(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < event->n_top; i++) {
        if (i > 0) strbuf_add_char(out, ',');
        write_token(g, event->top[i].token, event->top[i].logprob, out);
        strbuf_add_char(out, '}');
    }
    if (strbuf_add_text(out, "]}") != WEFT_OK) return false;
    /* Those of a stream go with its events. */
    return g->asked.stream || generation_keep(a->g, out->len - before);
}

static bool keep_id(answer *a, int32_t id)
{
    if (a->n_ids == a->ids_capacity) {
        uint32_t capacity = a->ids_capacity == 0 ? 64 : 2 * a->ids_capacity;
        int32_t *ids =
            mem_resize(mem_system(), a->ids, a->ids_capacity * sizeof *ids, capacity * sizeof *ids);
        if (ids == NULL) return false;
        a->ids = ids;
        a->ids_capacity = capacity;
    }
    a->ids[a->n_ids++] = id;
    return true;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static answer_call *add_call(answer *a, str name)
{
    if (a->n_calls == a->calls_capacity) {
        uint32_t capacity = a->calls_capacity == 0 ? 4 : 2 * a->calls_capacity;
        answer_call *calls = capacity > CALLS_MOST ? NULL
                                                   : mem_resize(mem_system(), a->calls,
                                                                a->calls_capacity * sizeof *calls,
                                                                capacity * sizeof *calls);
        if (calls == NULL) return NULL;
        a->calls = calls;
        a->calls_capacity = capacity;
    }
    answer_call *call = &a->calls[a->n_calls];
    *call = (answer_call){.whole = false};
    snprintf(call->id, sizeof call->id, "call_%.16s%04x", a->g->id,
             (a->index * 64 + a->n_calls) & 0xffffU);
    strbuf_init(&call->name, mem_system(), 0);
    strbuf_init(&call->arguments, mem_system(), 0);
    a->n_calls++;
    return strbuf_add(&call->name, name.ptr, name.len) == WEFT_OK ? call : NULL;
}

/* One call was allowed, and is there: what might come behind it is not waited for. (A grammar ends
 * the answer itself.) */
static void end_early(answer *a)
{
    a->ends_early = true;
    weft_cancel(a->g->model->engine, a->handle, NULL);
}

/* False: out of memory. */
static bool keep_part(answer *a, const weft_part *part)
{
    str text = {part->text, part->n_bytes};
    answer_call *call = part->call < a->n_calls ? &a->calls[part->call] : NULL;
    switch (part->kind) {
    case WEFT_PART_CONTENT:
        return strbuf_add(&a->content, text.ptr, text.len) == WEFT_OK;
    case WEFT_PART_REASONING:
        return strbuf_add(&a->reasoning, text.ptr, text.len) == WEFT_OK;
    case WEFT_PART_CALL:
        /* Calls are numbered in order; one that was undone gives its number to none. */
        if (call != NULL) return true;
        return part->call == a->n_calls && add_call(a, text) != NULL;
    case WEFT_PART_ARGUMENTS:
        return call == NULL || strbuf_add(&call->arguments, text.ptr, text.len) == WEFT_OK;
    case WEFT_PART_CALL_END:
        if (call != NULL) call->whole = true;
        if (call != NULL && a->g->one_call && !a->g->has_grammar) end_early(a);
        return true;
    case WEFT_PART_CALL_UNDONE:
        if (call != NULL) call->undone = true;
        return true;
    case WEFT_PART_NONE:
        break;
    }
    return true;
}

static bool give_part(answer *a, const weft_part *part)
{
    if (!keep_part(a, part)) return false;
    if (a->g->asked.stream || a->g->api->parts_of_all) a->g->api->part(a, part);
    return true;
}

static bool give_parts(answer *a)
{
    weft_part part = {.struct_size = sizeof part};
    for (;;) {
        weft_error err = {WEFT_OK, ""};
        if (weft_parser_next(a->parser, &part, &err) != WEFT_OK) return false;
        if (part.kind == WEFT_PART_NONE) return true;
        if (!give_part(a, &part)) return false;
    }
}

static bool give_text(answer *a, const char *text, size_t n)
{
    if (a->parser != NULL) {
        return weft_parser_push(a->parser, text, n, NULL) == WEFT_OK && give_parts(a);
    }
    if (n == 0) return true;
    weft_part part = {
        .struct_size = sizeof part, .kind = WEFT_PART_CONTENT, .text = text, .n_bytes = n};
    return give_part(a, &part);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* When tokens were sampled, not when they were polled. */
static void note_time(answer *a, const weft_event *event)
{
    metrics *m = &a->g->model->metrics;
    if (a->ns_first == 0)
        histogram_add(&m->first_s, METRICS_FIRST_S, (double)event->ns_first / 1e9);
    a->ns_first = event->ns_first;
    a->ns_last = event->ns_last;
    m->n_new_tokens++;
}

static bool take_token(answer *a, const weft_event *event)
{
    note_time(a, event);
    return keep_logprobs(a, event) && keep_id(a, event->token) &&
           give_text(a, event->text, event->n_text);
}

/* What it was sampled as is remembered, for the client that sends it back. */
static void remember(answer *a, const weft_event *event)
{
    const generation *g = a->g;
    uint32_t n = a->n_ids;
    if (!g->is_chat || event->finish != WEFT_FINISH_STOP || event->stop_text >= 0) return;
    if (event->stop_id >= 0 && n > 0 && a->ids[n - 1] == event->stop_id) n--;
    replay_key key;
    replay_key_init(&key, str_of(g->model->name), (str){strbuf_text(&a->content), a->content.len});
    for (uint32_t i = 0; i < a->n_calls; i++) {
        const answer_call *call = &a->calls[i];
        if (call->undone) continue;
        replay_key_add_call(&key, (str){strbuf_text(&call->name), call->name.len},
                            (str){strbuf_text(&call->arguments), call->arguments.len});
    }
    replay_put(g->x->server->replay, key, a->ids, n);
}

static bool take_done(answer *a, const weft_event *event)
{
    generation *g = a->g;
    a->finish = event->finish;
    if (a->ends_early && a->finish != WEFT_FINISH_ERROR) a->finish = WEFT_FINISH_STOP;
    a->stop_text = event->stop_text;
    a->n_known = event->n_known;
    a->n_cached = event->n_cached;
    a->n_drafted = event->n_drafted;
    a->n_accepted = event->n_accepted;
    a->n_paused = event->n_paused;
    a->done = true;
    g->n_done++;
    if (a->finish == WEFT_FINISH_ERROR) {
        g->err = event->error;
        return false;
    }
    if (!give_text(a, event->text, event->n_text)) return false;
    if (a->parser != NULL &&
        (weft_parser_end(a->parser, a->finish, NULL) != WEFT_OK || !give_parts(a)))
        return false;
    remember(a, event);
    if (g->asked.stream || g->api->parts_of_all) g->api->finish(a);
    return true;
}

/* False: the request cannot go on; g->err may say why. */
static bool poll_answer(answer *a)
{
    generation *g = a->g;
    while (!a->done && g->x->conn != NULL && !exchange_is_full(g->x)) {
        weft_event event = {.struct_size = sizeof event};
        if (weft_poll(g->model->engine, a->handle, &event, &g->err) != WEFT_OK) return false;
        bool fine = true;
        if (event.kind == WEFT_EVENT_NONE) return true;
        if (event.kind == WEFT_EVENT_TOKEN) fine = take_token(a, &event);
        if (event.kind == WEFT_EVENT_DONE) fine = take_done(a, &event);
        if (!fine) return false;
    }
    return true;
}

/* What failed is said, in a stream too. */
static void break_off(generation *g)
{
    exchange *x = g->x;
    uint32_t status = g->err.status != WEFT_OK ? http_status_of(g->err.status) : 503;
    const char *message =
        g->err.status != WEFT_OK ? g->err.message : "out of memory for the answer";
    if (x->streams) {
        g->api->broken(g, status, message);
        finish_exchange(g);
        return;
    }
    for (uint32_t i = 0; i < g->n_answers; i++) count_end(g, &g->answers[i]);
    fail(g, status, message);
}

static void end_whole(generation *g)
{
    exchange *x = g->x;
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    g->api->end(g, &out);
    /* err: the last event could not be made. */
    if (out.status != WEFT_OK || g->err.status != WEFT_OK) {
        strbuf_deinit(&out);
        break_off(g);
        return;
    }
    if (g->asked.stream) {
        exchange_write(x, (str){strbuf_text(&out), out.len});
        finish_exchange(g);
    } else {
        for (uint32_t i = 0; i < g->n_answers; i++) count_end(g, &g->answers[i]);
        generation_drop(g);
        exchange_respond(x, 200, "application/json", (str){strbuf_text(&out), out.len});
    }
    strbuf_deinit(&out);
}

/* Whether it goes on and lacks a first token. */
static bool generation_poll(generation *g)
{
    bool hasty = false;
    for (uint32_t i = 0; i < g->n_answers; i++) {
        answer *a = &g->answers[i];
        bool fine = poll_answer(a) && g->err.status == WEFT_OK;
        hasty = hasty || (!a->done && a->n_ids == 0);
        if (fine) continue;
        break_off(g);
        return false;
    }
    /* A client that has left is told of by on_gone. */
    if (g->n_done == g->n_answers && g->x->conn != NULL) {
        end_whole(g);
        return false;
    }
    if (g->x->streams) exchange_flush(g->x);
    return hasty;
}

/* A sequence that rests until its client reads is not there for others: it may rest for a while, or
 * when none of them waits. */
static void check_reader(generation *g)
{
    weft_engine_info info = {.struct_size = sizeof info};
    uint64_t now = clock_now_ns();
    if (g->full_ns == 0 && exchange_is_full(g->x)) g->full_ns = now;
    if (g->full_ns == 0 || now - g->full_ns < UNREAD_NS) return;
    if (weft_engine_get_info(g->model->engine, &info, NULL) != WEFT_OK) return;
    if (info.n_waiting > 0) exchange_cut(g->x);
}

void generation_poll_all(fleet_model *m)
{
    weft_error why = {WEFT_OK, ""};
    bool well = fleet_is_well(m, &why);
    bool hasty = false;
    for (generation *g = m->first, *next; g != NULL; g = next) {
        next = g->next;
        /* Nobody steps for it any more. */
        if (!well && g->err.status == WEFT_OK) g->err = why;
        check_reader(g);
        hasty = generation_poll(g) || hasty;
    }
    fleet_set_hasty(m, hasty);
}

static void on_drained(exchange *x)
{
    generation *g = x->state;
    if (!g->listed) return;
    g->full_ns = 0;
    fleet_kick(g->model);
    generation_poll(g);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void begin_answers(generation *g)
{
    fleet_model *m = g->model;
    g->next = m->first;
    if (m->first != NULL) m->first->prev = g;
    m->first = g;
    g->listed = true;
    m->metrics.n_requests += g->n_answers;
    m->metrics.n_prompt_tokens += g->n_prompt_tokens;
    fleet_set_hasty(m, true);
    if (g->asked.stream) {
        exchange_stream(g->x);
        g->api->begin(g);
    }
    generation_poll(g);
}

/* Here, not in the loop's thread: to free a large document takes its time. */
static void drop_document(generation *g)
{
    json_doc_free(&g->doc);
    strbuf_deinit(&g->x->in.body);
    strbuf_deinit(&g->messages);
    strbuf_deinit(&g->tools);
    strbuf_deinit(&g->variables);
}

static void prepare_work(exchange *x)
{
    generation *g = x->state;
    weft_status status = prepare_generation(g);
    if (status != WEFT_OK) err_set(&g->err, status, "out of memory for the request");
    drop_document(g);
}

static void after_prepare(exchange *x)
{
    generation *g = x->state;
    exchange_drop_body(x);
    if (x->conn == NULL) {
        finish_exchange(g);
    } else if (g->err.status != WEFT_OK) {
        fail_weft(g);
    } else if (g->counts) {
        end_whole(g);
    } else {
        begin_answers(g);
    }
}

static void on_model(fleet_wait *w, fleet_model *m, uint32_t status, const weft_error *err)
{
    generation *g = (generation *)(void *)((char *)w - offsetof(generation, wait));
    g->waits_for = NULL;
    g->model = m;
    if (m == NULL) {
        char text[sizeof err->message];
        snprintf(text, sizeof text, "%s", err->message);
        fail(g, status, text);
    } else if (!exchange_run(g->x, prepare_work, after_prepare)) {
        fail(g, 503, "no thread takes the request");
    }
}

static void after_read(exchange *x)
{
    generation *g = x->state;
    server *s = x->server;
    if (x->conn == NULL) {
        finish_exchange(g);
        return;
    }
    if (g->err.status != WEFT_OK) {
        fail_weft(g);
        return;
    }
    fleet_model *m = fleet_find(s->fleet, g->model_name);
    if (m == NULL) {
        snprintf(g->param, sizeof g->param, "model");
        char text[160];
        snprintf(text, sizeof text,
                 "there is no model '%.*s' here; GET /v1/models lists those there are",
                 (int)(g->model_name.len < 64 ? g->model_name.len : 64), g->model_name.ptr);
        fail(g, 404, text);
        return;
    }
    g->waits_for = m;
    fleet_acquire(m, &g->wait);
}

static void read_body(generation *g)
{
    const strbuf *body = &g->x->in.body;
    weft_status status = json_parse(&g->doc, strbuf_text(body), body->len, &g->err);
    if (status != WEFT_OK) {
        err_context(&g->err, "the body: ");
        return;
    }
    status = g->api->read(g, g->doc.root, g->param, &g->err);
    if (status == WEFT_OK) status = asked_read_lists(&g->asked, &g->lists, g->param, &g->err);
    /* Where no sentence says what failed: nothing of it may be left out. */
    if (status != WEFT_OK) err_set(&g->err, status, "out of memory for the request");
}

static void read_work(exchange *x)
{
    generation *g = x->state;
    read_body(g);
    if (g->err.status != WEFT_OK) drop_document(g);
}

static void make_id(generation *g)
{
    server *s = g->x->server;
    uint64_t a = rng_u64(s->begun_ns, g->x->number);
    uint64_t b = rng_u64(a, clock_now_ns());
    snprintf(g->id, sizeof g->id, "%016llx%08llx", (unsigned long long)a,
             (unsigned long long)(b >> 32));
    /* Another one each time, of 53 bits, so that every reader of JSON keeps them all. */
    g->asked.seed = b >> 11;
    g->created = (int64_t)time(NULL);
}

void generation_start(exchange *x, const generation_api *api)
{
    generation *g = mem_alloc_zero(mem_system(), sizeof *g);
    void *own = api->own_bytes > 0 ? mem_alloc_zero(mem_system(), api->own_bytes) : NULL;
    if (g == NULL || (api->own_bytes > 0 && own == NULL)) {
        mem_free(mem_system(), g, sizeof *g);
        mem_free(mem_system(), own, api->own_bytes);
        exchange_fail(x, 503, NULL, "out of memory for the request");
        return;
    }
    g->x = x;
    g->api = api;
    g->own = own;
    g->options = x->server->options;
    g->wait.ready = on_model;
    asked_init(&g->asked);
    asked_lists_init(&g->lists);
    strbuf_init(&g->messages, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&g->tools, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g->variables, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g->form, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g->tool_name, mem_system(), 0);
    strbuf_init(&g->stem, mem_system(), 0);
    strbuf_init(&g->event, mem_system(), 0);
    make_id(g);
    x->state = g;
    x->gone = on_gone;
    x->drained = on_drained;
    if (exchange_run(x, read_work, after_read)) return;
    fail(g, 503, "no thread takes the request");
}

bool generation_keep(generation *g, size_t n_bytes)
{
    server *s = g->x->server;
    g->n_kept += n_bytes;
    s->n_kept += n_bytes;
    if (g->n_kept > GENERATION_KEPT_BYTES) {
        err_set(&g->err, WEFT_LIMIT,
                "the log-probabilities of the answers have more than %d bytes, ask for fewer",
                GENERATION_KEPT_BYTES);
    } else if (s->n_kept > GENERATION_ALL_KEPT_BYTES) {
        err_set(&g->err, WEFT_NOMEM,
                "the log-probabilities of all answers have more than %d bytes, try again later",
                GENERATION_ALL_KEPT_BYTES);
    }
    return g->err.status == WEFT_OK;
}

/* ---- what interfaces ask --------------------------------------------------------------------- */

uint32_t generation_new_tokens(const generation *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_answers; i++) n += g->answers[i].n_ids;
    return n;
}

uint32_t generation_cached_tokens(const generation *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_answers; i += g->asked.n) n += g->answers[i].n_cached;
    return n;
}

bool answer_has_calls(const answer *a)
{
    for (uint32_t i = 0; i < a->n_calls; i++) {
        if (a->calls[i].whole && !a->calls[i].undone) return true;
    }
    return false;
}

const char *generation_finish_name(const answer *a)
{
    if (a->finish == WEFT_FINISH_LENGTH || a->finish == WEFT_FINISH_DEADLINE) return "length";
    return answer_has_calls(a) ? "tool_calls" : "stop";
}

strbuf *generation_begin_event(generation *g)
{
    strbuf_clear(&g->event);
    return &g->event;
}

void generation_event(generation *g, const char *name, const strbuf *data)
{
    exchange *x = g->x;
    if (data->status != WEFT_OK) {
        /* The next poll ends it. */
        err_set(&g->err, WEFT_NOMEM, "out of memory for the answer");
        return;
    }
    if (name != NULL) {
        exchange_write(x, str_of("event: "));
        exchange_write(x, str_of(name));
        exchange_write(x, str_of("\n"));
    }
    exchange_write(x, str_of("data: "));
    exchange_write(x, (str){strbuf_text(data), data->len});
    exchange_write(x, str_of("\n\n"));
}
