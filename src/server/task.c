/* task.c - reading, waiting for the model, working. */
#include "server/task.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/apis/api.h"
#include "server/server_state.h"

enum { TASK_ANSWER_BYTES = 64 << 20 };

static void drop(task *t)
{
    if (t->waits_for != NULL) fleet_forget(t->waits_for, &t->wait);
    if (t->api->drop != NULL) t->api->drop(t);
    if (t->model != NULL) fleet_release(t->model);
    exchange_free_document(t->x, &t->doc);
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
    if (t->out.status == WEFT_LIMIT)
        err_set(&t->err, WEFT_LIMIT, "the answer would have more than %d bytes", TASK_ANSWER_BYTES);
    if (status == WEFT_OK) status = t->out.status;
    if (status != WEFT_OK) err_set(&t->err, status, "out of memory for the answer");
    json_doc_free(&t->doc);
    strbuf_deinit(&x->in.body);
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
    weft_status status = t->api->read(t, t->doc.root, t->param, &t->err);
    if (status == WEFT_OK) return;
    err_set(&t->err, status, "out of memory for the request");
    json_doc_free(&t->doc);
    strbuf_deinit(&x->in.body);
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
