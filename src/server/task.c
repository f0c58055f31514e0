/* task.c - reading, waiting for the model, working. */
#include "server/task.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/apis/api.h"
#include "server/server_state.h"

enum {
    TASK_ANSWER_BYTES = 64 << 20,
    LARGE_BODY_BYTES = 1 << 20 /* what is left of it is worth to be given back */
};

static void drop(task *t)
{
    if (t->waits_for != NULL) fleet_forget(t->waits_for, &t->wait);
    if (t->api->drop != NULL) t->api->drop(t);
    if (t->model != NULL) fleet_release(t->model);
    json_doc_free(&t->doc);
    strbuf_deinit(&t->out);
    mem_free(mem_system(), t->own, t->api->own_bytes);
    mem_free(mem_system(), t, sizeof *t);
}

static void end_gone(exchange *x)
{
    drop(x->state);
    exchange_end(x);
}

static void fail(task *t, uint32_t status)
{
    exchange *x = t->x;
    weft_error err = t->err;
    char param[FIELD_NAME_BYTES];
    memcpy(param, t->param, sizeof param);
    drop(t);
    exchange_fail(x, status, param[0] != '\0' ? param : NULL, err.message);
}

static void work(exchange *x)
{
    task *t = x->state;
    weft_status status = t->api->work(t, &t->out, &t->err);
    if (status == WEFT_OK && t->out.status == WEFT_LIMIT)
        err_set(&t->err, WEFT_LIMIT, "the answer would have more than %d bytes", TASK_ANSWER_BYTES);
    if (status == WEFT_OK && t->out.status != WEFT_OK)
        err_set(&t->err, t->out.status, "out of memory for the answer");
    json_doc_free(&t->doc);
    if (x->in.body.len >= LARGE_BODY_BYTES) mem_trim();
}

static void after_work(exchange *x)
{
    task *t = x->state;
    if (x->conn == NULL) {
        end_gone(x);
    } else if (t->err.status != WEFT_OK) {
        fail(t, http_status_of(t->err.status));
    } else {
        strbuf out = t->out;
        strbuf_init(&t->out, mem_system(), 0);
        drop(t);
        exchange_respond(x, 200, "application/json", (str){strbuf_text(&out), out.len});
        strbuf_deinit(&out);
    }
}

static void on_model(fleet_wait *w, fleet_model *m, uint32_t status, const weft_error *err)
{
    task *t = (task *)(void *)((char *)w - offsetof(task, wait));
    t->waits_for = NULL;
    t->model = m;
    if (m == NULL) {
        t->err = *err;
        fail(t, status);
    } else if (!exchange_run(t->x, work, after_work)) {
        err_set(&t->err, WEFT_NOMEM, "no thread takes the request");
        fail(t, 503);
    }
}

static void read_body(exchange *x)
{
    task *t = x->state;
    const strbuf *body = &x->in.body;
    if (json_parse(&t->doc, strbuf_text(body), body->len, &t->err) != WEFT_OK) {
        err_context(&t->err, "the body: ");
        return;
    }
    t->api->read(t, t->doc.root, t->param, &t->err);
}

static void after_read(exchange *x)
{
    task *t = x->state;
    if (x->conn == NULL) {
        end_gone(x);
        return;
    }
    if (t->err.status != WEFT_OK) {
        fail(t, http_status_of(t->err.status));
        return;
    }
    fleet_model *m = fleet_find(x->server->fleet, t->model_name);
    if (m == NULL) {
        field_wrong(t->param, "model", &t->err, "is none that is here: '%.*s'",
                    (int)(t->model_name.len < 64 ? t->model_name.len : 64), t->model_name.ptr);
        fail(t, 404);
        return;
    }
    t->waits_for = m;
    fleet_acquire(m, &t->wait);
}

void task_start(exchange *x, const task_api *api)
{
    task *t = mem_alloc_zero(mem_system(), sizeof *t);
    void *own = mem_alloc_zero(mem_system(), api->own_bytes);
    if (t == NULL || own == NULL) {
        mem_free(mem_system(), t, sizeof *t);
        mem_free(mem_system(), own, api->own_bytes);
        exchange_fail(x, 503, NULL, "out of memory for the request");
        return;
    }
    t->x = x;
    t->api = api;
    t->own = own;
    t->wait.ready = on_model;
    strbuf_init(&t->out, mem_system(), TASK_ANSWER_BYTES);
    x->state = t;
    x->gone = end_gone;
    if (exchange_run(x, read_body, after_read)) return;
    err_set(&t->err, WEFT_NOMEM, "no thread takes the request");
    fail(t, 503);
}

/* ---- ids ------------------------------------------------------------------------------------- */

typedef weft_status (*give_ids)(const task *t, const void *from, int32_t *ids, size_t capacity,
                                size_t *n_ids, weft_error *err);

/* As many times as it takes to know how many there are; then memory of just that size. */
static weft_status take_ids(const task *t, give_ids give, const void *from, int32_t **out,
                            size_t *n_ids, weft_error *err)
{
    int32_t *ids = NULL;
    size_t capacity = 0;
    *out = NULL;
    for (;;) {
        weft_error failure = {WEFT_OK, ""};
        weft_status status = give(t, from, ids, capacity, n_ids, &failure);
        if (status == WEFT_OK && *n_ids == capacity) {
            *out = ids;
            return WEFT_OK;
        }
        bool again = status == WEFT_OK || (status == WEFT_LIMIT && *n_ids > capacity);
        mem_free(mem_system(), ids, capacity * sizeof *ids);
        if (!again) return err_set(err, status, "%s", failure.message);
        capacity = *n_ids;
        ids = mem_alloc(mem_system(), capacity * sizeof *ids);
        if (ids == NULL && capacity > 0)
            return err_set(err, WEFT_NOMEM, "out of memory for %zu tokens", capacity);
    }
}

typedef struct text_from {
    str text;
    uint32_t flags;
} text_from;

static weft_status give_text_ids(const task *t, const void *from, int32_t *ids, size_t capacity,
                                 size_t *n_ids, weft_error *err)
{
    const text_from *f = from;
    return weft_tokenize(t->model->model, f->text.ptr, f->text.len, f->flags, ids, capacity, n_ids,
                         err);
}

weft_status task_tokenize(const task *t, str text, uint32_t flags, int32_t **ids, size_t *n_ids,
                          weft_error *err)
{
    text_from from = {text, flags};
    return take_ids(t, give_text_ids, &from, ids, n_ids, err);
}

typedef struct chat_from {
    const char *messages, *tools;
    uint32_t flags;
} chat_from;

static weft_status give_chat_ids(const task *t, const void *from, int32_t *ids, size_t capacity,
                                 size_t *n_ids, weft_error *err)
{
    const chat_from *f = from;
    return weft_chat_tokenize(t->model->model, f->messages, f->tools, f->flags, ids, capacity,
                              n_ids, err);
}

weft_status task_tokenize_chat(const task *t, const char *messages, const char *tools,
                               uint32_t flags, int32_t **ids, size_t *n_ids, weft_error *err)
{
    chat_from from = {messages, tools, flags};
    return take_ids(t, give_chat_ids, &from, ids, n_ids, err);
}

weft_status task_read_ids(const json *array, const char *name, int32_t **out, size_t *n_ids,
                          char *param, weft_error *err)
{
    size_t n = json_length(array);
    *out = NULL;
    *n_ids = 0;
    if (json_kind_of(array) != JSON_KIND_ARRAY)
        return field_wrong(param, name, err, "is no array of tokens");
    if (n == 0) return WEFT_OK;
    int32_t *ids = mem_alloc(mem_system(), n * sizeof *ids);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_at(array, i), -1);
        if (id < 0 || id > INT32_MAX) {
            mem_free(mem_system(), ids, n * sizeof *ids);
            return field_wrong(param, name, err, "has what is no token at %zu", i);
        }
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *n_ids = n;
    return WEFT_OK;
}
