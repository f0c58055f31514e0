/* task.h - a request that needs a model but no answer of it: read in a thread, then worked on in
 * one, with the model held. */
#ifndef SERVER_TASK_H
#define SERVER_TASK_H

#include "server/fields.h"
#include "server/generation.h"

typedef struct task task;

typedef struct task_api {
    /* Body -> own; both in another thread, doc stays until the end. */
    weft_status (*read)(task *t, const json *body, char *param, weft_error *err);
    /* Appends the answer, JSON. */
    weft_status (*work)(task *t, strbuf *out, weft_error *err);
    size_t own_bytes;
    void (*drop)(task *t); /* frees what own has; may be NULL */
} task_api;

struct task {
    exchange *x;
    const task_api *api;
    void *own; /* [own_bytes], zeroed */
    json_doc doc;
    str model_name;
    fleet_wait wait;
    fleet_model *waits_for, *model;
    strbuf out;
    char param[FIELD_NAME_BYTES];
    weft_error err;
};

void task_start(exchange *x, const task_api *api);

#endif
