/* state.c - POST /kv/save and /kv/restore: what the engine knows of a prompt, in files of one
 * folder (docs/kv-files.md). */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/ids.h"
#include "server/server_state.h"
#include "server/task.h"

enum { STATE_NAME_BYTES = 128, STATE_PATH_BYTES = 4096 };

typedef struct state_body {
    str model, name, prompt;
    const json *messages, *tools, *tokens;
    int32_t *ids; /* [n_ids] */
    size_t n_ids;
    strbuf messages_text, tools_text;
    char path[STATE_PATH_BYTES];
} state_body;

#define AT(field) offsetof(state_body, field)

static const field_row SAVE_ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"name", FIELD_TEXT, AT(name), 0, 0, NULL},
    {"prompt", FIELD_TEXT, AT(prompt), 0, 0, NULL},
    {"messages", FIELD_JSON, AT(messages), 0, 0, NULL},
    {"tools", FIELD_JSON, AT(tools), 0, 0, NULL},
    {"tokens", FIELD_JSON, AT(tokens), 0, 0, NULL},
};

static const field_row RESTORE_ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"name", FIELD_TEXT, AT(name), 0, 0, NULL},
};

static void drop(task *t)
{
    state_body *b = t->own;
    mem_free(mem_system(), b->ids, b->n_ids * sizeof *b->ids);
    strbuf_deinit(&b->messages_text);
    strbuf_deinit(&b->tools_text);
}

static bool is_name(str name)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (name.len == 0 || name.len > STATE_NAME_BYTES || name.ptr[0] == '.') return false;
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == '\0' || strchr(ALLOWED, name.ptr[i]) == NULL) return false;
    }
    return true;
}

/* Names, not paths: nothing outside of the folder can be meant. */
static weft_status read_name(task *t, char *param, weft_error *err)
{
    state_body *b = t->own;
    const char *folder = t->x->server->options->state_folder;
    if (folder == NULL)
        return err_set(err, WEFT_UNSUPPORTED,
                       "this server was started without --state-folder, and keeps no files");
    if (!is_name(b->name))
        return field_wrong(param, "name", err,
                           "is not 1 to %d of letters, digits, '.', '_' and '-', with no '.' first",
                           STATE_NAME_BYTES);
    int n = snprintf(b->path, sizeof b->path, "%s/%.*s.kv", folder, (int)b->name.len, b->name.ptr);
    if (n < 0 || (size_t)n >= sizeof b->path)
        return field_wrong(param, "name", err, "makes too long a path");
    return WEFT_OK;
}

static weft_status read_save(task *t, const json *body, char *param, weft_error *err)
{
    state_body *b = t->own;
    strbuf_init(&b->messages_text, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&b->tools_text, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    field_table table = {SAVE_ROWS, COUNT_OF(SAVE_ROWS), b};
    weft_status status = fields_read(body, "", &table, 1, param, err);
    t->model_name = b->model;
    if (status == WEFT_OK) status = read_name(t, param, err);
    if (status != WEFT_OK) return status;
    if ((b->prompt.ptr != NULL) + (b->messages != NULL) + (b->tokens != NULL) != 1)
        return field_wrong(param, "messages", err, "or prompt, or tokens must be there, and one");
    if (b->tokens != NULL)
        return ids_read(b->tokens, "tokens", SIZE_MAX, &b->ids, &b->n_ids, param, err);
    if (b->messages != NULL) status = json_write(b->messages, 0, &b->messages_text);
    if (status == WEFT_OK && b->tools != NULL) status = json_write(b->tools, 0, &b->tools_text);
    return status == WEFT_OK ? status : err_set(err, status, "the messages are too long");
}

static weft_status find_ids(task *t, weft_error *err)
{
    state_body *b = t->own;
    if (b->tokens != NULL) return WEFT_OK;
    if (b->messages != NULL) {
        return ids_of_chat(t->model->model, strbuf_text(&b->messages_text),
                           b->tools_text.len > 0 ? b->tools_text.ptr : NULL,
                           WEFT_CHAT_NO_GENERATION_PROMPT, &b->ids, &b->n_ids, err);
    }
    return ids_of_text(t->model->model, b->prompt, WEFT_TOKENIZE_SPECIALS, &b->ids, &b->n_ids, err);
}

static weft_status save(task *t, strbuf *out, weft_error *err)
{
    state_body *b = t->own;
    uint32_t n_saved = 0;
    weft_status status = find_ids(t, err);
    if (status == WEFT_OK && (b->n_ids == 0 || b->n_ids > UINT32_MAX))
        status = err_set(err, WEFT_ARGUMENT, "there are %zu tokens to save", b->n_ids);
    if (status != WEFT_OK) return status;
    fleet_hold(t->model);
    status = weft_state_save(t->model->engine, b->ids, (uint32_t)b->n_ids, b->path, &n_saved, err);
    fleet_go_on(t->model);
    if (status == WEFT_OK)
        strbuf_printf(out, "{\"tokens\":%zu,\"saved_tokens\":%u}", b->n_ids, n_saved);
    return status;
}

static weft_status read_restore(task *t, const json *body, char *param, weft_error *err)
{
    state_body *b = t->own;
    strbuf_init(&b->messages_text, mem_system(), 0);
    strbuf_init(&b->tools_text, mem_system(), 0);
    field_table table = {RESTORE_ROWS, COUNT_OF(RESTORE_ROWS), b};
    weft_status status = fields_read(body, "", &table, 1, param, err);
    t->model_name = b->model;
    return status == WEFT_OK ? read_name(t, param, err) : status;
}

static weft_status restore(task *t, strbuf *out, weft_error *err)
{
    const state_body *b = t->own;
    weft_restored found = {.struct_size = sizeof found};
    fleet_hold(t->model);
    weft_status status = weft_state_restore(t->model->engine, b->path, &found, err);
    fleet_go_on(t->model);
    if (status != WEFT_OK) return status;
    strbuf_printf(out, "{\"tokens\":%u,\"usable_tokens\":%u,\"set_aside\":%s,\"reason\":",
                  found.n_tokens, found.n_usable, found.set_aside ? "true" : "false");
    json_write_text(str_of(found.reason), out);
    return strbuf_add_char(out, '}');
}

static void handle_save(exchange *x)
{
    static const task_api API = {read_save, save, sizeof(state_body), drop};
    task_start(x, &API);
}

static void handle_restore(exchange *x)
{
    static const task_api API = {read_restore, restore, sizeof(state_body), drop};
    task_start(x, &API);
}

static const server_route ROUTES[] = {
    {"POST", "/kv/save", ROUTE_ADMIN, handle_save},
    {"POST", "/kv/restore", ROUTE_ADMIN, handle_restore},
};

const server_api SERVER_API_state = {.name = "state",
                                     .routes = ROUTES,
                                     .n_routes = COUNT_OF(ROUTES),
                                     .write_error = openai_write_error};
