/* text.c - POST /tokenize and /detokenize, with the fields of vLLM and of llama.cpp. */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/ids.h"
#include "server/task.h"

enum { DETOKENIZED_BYTES = 16 << 20 };

typedef struct text_body {
    str model, prompt, content;
    const json *messages, *tools, *tokens;
    bool specials, no_specials, pieces, generation;
    /* Made of them. */
    int32_t *ids; /* [n_ids] */
    size_t n_ids;
    strbuf messages_text, tools_text;
} text_body;

#define AT(field) offsetof(text_body, field)

static const field_row TOKENIZE_ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"prompt", FIELD_TEXT, AT(prompt), 0, 0, NULL},
    {"content", FIELD_TEXT, AT(content), 0, 0, NULL},
    {"messages", FIELD_JSON, AT(messages), 0, 0, NULL},
    {"tools", FIELD_JSON, AT(tools), 0, 0, NULL},
    {"add_special_tokens", FIELD_FLAG, AT(specials), 0, 0, NULL},
    {"add_special", FIELD_FLAG, AT(specials), 0, 0, NULL},
    {"add_generation_prompt", FIELD_FLAG, AT(generation), 0, 0, NULL},
    {"with_pieces", FIELD_FLAG, AT(pieces), 0, 0, NULL},
    {"return_token_strs", FIELD_FLAG, AT(pieces), 0, 0, NULL},
};

static const field_row DETOKENIZE_ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"tokens", FIELD_JSON, AT(tokens), 0, 0, NULL},
};

static void drop(task *t)
{
    text_body *b = t->own;
    mem_free(mem_system(), b->ids, b->n_ids * sizeof *b->ids);
    strbuf_deinit(&b->messages_text);
    strbuf_deinit(&b->tools_text);
}

/* ---- tokenize -------------------------------------------------------------------------------- */

static weft_status read_tokenize(task *t, const json *body, char *param, weft_error *err)
{
    text_body *b = t->own;
    b->generation = true;
    strbuf_init(&b->messages_text, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&b->tools_text, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    /* vLLM adds what a tokenizer puts around a text, llama.cpp does not. */
    b->specials = json_get(body, "content") == NULL;
    field_table table = {TOKENIZE_ROWS, COUNT_OF(TOKENIZE_ROWS), b};
    weft_status status = fields_read(body, "", &table, 1, param, err);
    t->model_name = b->model;
    if (status != WEFT_OK) return status;
    int n = (b->prompt.ptr != NULL) + (b->content.ptr != NULL) + (b->messages != NULL);
    if (n != 1)
        return field_wrong(param, "prompt", err, "or content, or messages must be there, and one");
    if (b->messages == NULL) return WEFT_OK;
    status = json_write(b->messages, 0, &b->messages_text);
    if (status == WEFT_OK && b->tools != NULL) status = json_write(b->tools, 0, &b->tools_text);
    return status == WEFT_OK ? status : err_set(err, status, "the messages are too long");
}

static weft_status write_pieces(const task *t, strbuf *out, weft_error *err)
{
    const text_body *b = t->own;
    strbuf_add_text(out, ",\"token_strs\":[");
    for (size_t i = 0; i < b->n_ids; i++) {
        char bytes[512];
        size_t n = 0;
        weft_status status =
            weft_token_bytes(t->model->model, b->ids[i], bytes, sizeof bytes, &n, err);
        if (status != WEFT_OK) return status;
        if (i > 0) strbuf_add_char(out, ',');
        json_write_text((str){bytes, n}, out);
    }
    return strbuf_add_char(out, ']');
}

static weft_status tokenize(task *t, strbuf *out, weft_error *err)
{
    text_body *b = t->own;
    weft_status status;
    if (b->messages != NULL) {
        status = ids_of_chat(t->model->model, strbuf_text(&b->messages_text),
                             b->tools_text.len > 0 ? b->tools_text.ptr : NULL,
                             b->generation ? 0 : WEFT_CHAT_NO_GENERATION_PROMPT, &b->ids, &b->n_ids,
                             err);
    } else {
        str text = b->prompt.ptr != NULL ? b->prompt : b->content;
        status = ids_of_text(t->model->model, text, b->specials ? WEFT_TOKENIZE_SPECIALS : 0,
                             &b->ids, &b->n_ids, err);
    }
    if (status != WEFT_OK) return status;
    strbuf_add_text(out, "{\"tokens\":[");
    for (size_t i = 0; i < b->n_ids; i++) strbuf_printf(out, "%s%d", i > 0 ? "," : "", b->ids[i]);
    strbuf_printf(out, "],\"count\":%zu,\"max_model_len\":%u", b->n_ids, t->model->context);
    if (b->pieces) status = write_pieces(t, out, err);
    strbuf_add_char(out, '}');
    return status;
}

/* ---- detokenize ------------------------------------------------------------------------------ */

static weft_status read_detokenize(task *t, const json *body, char *param, weft_error *err)
{
    text_body *b = t->own;
    strbuf_init(&b->messages_text, mem_system(), 0);
    strbuf_init(&b->tools_text, mem_system(), 0);
    field_table table = {DETOKENIZE_ROWS, COUNT_OF(DETOKENIZE_ROWS), b};
    weft_status status = fields_read(body, "", &table, 1, param, err);
    t->model_name = b->model;
    if (status != WEFT_OK) return status;
    return ids_read(b->tokens, "tokens", SIZE_MAX, &b->ids, &b->n_ids, param, err);
}

static weft_status add_texts(const text_body *b, weft_detokenizer *d, strbuf *text, weft_error *err)
{
    const char *piece;
    size_t n;
    for (size_t i = 0; i < b->n_ids; i++) {
        weft_status status = weft_detokenizer_push(d, b->ids[i], &piece, &n, err);
        if (status == WEFT_OK) status = strbuf_add(text, piece, n);
        if (status != WEFT_OK) return status;
    }
    weft_status status = weft_detokenizer_flush(d, &piece, &n, err);
    if (status == WEFT_OK) strbuf_add(text, piece, n);
    return status;
}

static weft_status detokenize(task *t, strbuf *out, weft_error *err)
{
    const text_body *b = t->own;
    weft_detokenizer *d;
    strbuf text;
    weft_status status =
        weft_detokenizer_create(t->model->model, WEFT_DETOKENIZE_SPECIALS, &d, err);
    if (status != WEFT_OK) return status;
    strbuf_init(&text, mem_system(), DETOKENIZED_BYTES);
    status = add_texts(b, d, &text, err);
    str whole = {strbuf_text(&text), text.len};
    strbuf_add_text(out, "{\"prompt\":");
    json_write_text(whole, out);
    strbuf_add_text(out, ",\"content\":");
    json_write_text(whole, out);
    strbuf_add_char(out, '}');
    if (text.status != WEFT_OK)
        status = err_set(err, text.status, "the text has more than %d bytes, or there is no memory",
                         DETOKENIZED_BYTES);
    strbuf_deinit(&text);
    weft_detokenizer_destroy(d);
    return status;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void handle_tokenize(exchange *x)
{
    static const task_api API = {read_tokenize, tokenize, sizeof(text_body), drop};
    task_start(x, &API);
}

static void handle_detokenize(exchange *x)
{
    static const task_api API = {read_detokenize, detokenize, sizeof(text_body), drop};
    task_start(x, &API);
}

static const server_route ROUTES[] = {
    {"POST", "/tokenize", 0, handle_tokenize},
    {"POST", "/detokenize", 0, handle_detokenize},
};

const server_api SERVER_API_text = {.name = "text",
                                    .routes = ROUTES,
                                    .n_routes = COUNT_OF(ROUTES),
                                    .write_error = openai_write_error};
