/* fuzz_request.c - any JSON as what a client asks: sampling, forms, messages, tools; read, or
 * refused by a field's name. What is made of a conversation is JSON again. */
#include <string.h>

#include "base/utf8.h"
#include "server/openai.h"
#include "server/request_world.h"

/* libFuzzer gives the names. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerInitialize(int *argc, char ***argv);
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static request_world world;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    request_world_open(&world);
    return 0;
}

typedef struct body {
    const json *messages, *tools, *response_format, *stream_options;
} body;

static const field_row ROWS[] = {
    {"messages", FIELD_JSON, offsetof(body, messages), 0, 0, NULL},
    {"tools", FIELD_JSON, offsetof(body, tools), 0, 0, NULL},
    {"response_format", FIELD_JSON, offsetof(body, response_format), 0, 0, NULL},
    {"stream_options", FIELD_JSON, offsetof(body, stream_options), 0, 0, NULL},
};

static void check_written(const strbuf *text)
{
    json_doc doc;
    if (text->status != WEFT_OK || text->len == 0) return;
    weft_status status = json_parse(&doc, text->ptr, text->len, NULL);
    ASSERT(status == WEFT_OK || status == WEFT_NOMEM);
    json_doc_free(&doc);
}

static weft_status read(generation *g, const json *root, char *param, weft_error *err)
{
    body b = {.messages = NULL};
    openai_forms forms = {.json_schema = NULL};
    weft_request request = {.struct_size = sizeof request};
    const weft_model_info info = {.struct_size = sizeof info};
    field_table tables[] = {{ROWS, COUNT_OF(ROWS), &b},
                            {ASKED_ROWS, N_ASKED_ROWS, &g->asked},
                            {OPENAI_FORM_ROWS, N_OPENAI_FORM_ROWS, &forms},
                            {OPENAI_COMMON_ROWS, N_OPENAI_COMMON_ROWS, NULL}};
    weft_status status = fields_read(root, "", tables, COUNT_OF(tables), param, err);
    if (status == WEFT_OK) status = openai_read_forms(g, &forms, param, err);
    if (status == WEFT_OK)
        status = messages_read_format(g, b.response_format, "response_format", param, err);
    if (status == WEFT_OK) status = openai_read_stream_options(g, b.stream_options, param, err);
    if (status == WEFT_OK) status = messages_read_tools(g, b.tools, param, err);
    if (status == WEFT_OK) status = asked_read_lists(&g->asked, &g->lists, param, err);
    if (status == WEFT_OK) asked_fill(&g->asked, &g->lists, &info, 1, &request);
    if (status == WEFT_OK) status = messages_read(g, b.messages, param, err);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    generation g;
    json_doc doc;
    weft_error err = {WEFT_OK, ""};
    char param[FIELD_NAME_BYTES] = "";
    if (json_parse(&doc, (const char *)data, n_bytes, &err) != WEFT_OK) return 0;
    request_world_begin(&world, &g);
    weft_status status = read(&g, doc.root, param, &err);
    ASSERT(status == err.status && strlen(param) < FIELD_NAME_BYTES);
    ASSERT(utf8_valid(param, strlen(param)) && utf8_valid(err.message, strlen(err.message)));
    if (status == WEFT_OK) {
        check_written(&g.messages);
        check_written(&g.tools);
    }
    request_world_end(&g);
    json_doc_free(&doc);
    return 0;
}
