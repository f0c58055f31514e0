/* openai_embeddings.c - POST /v1/embeddings (OpenAI's API reference, "Embeddings"). */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base64.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/generation.h"
#include "server/openai.h"
#include "server/prompts.h"

typedef struct embedding_body {
    str model, format;
    const json *input;
    uint32_t dimensions;
} embedding_body;

#define AT(field) offsetof(embedding_body, field)

static const field_row ROWS[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"input", FIELD_JSON, AT(input), 0, 0, NULL},
    {"encoding_format", FIELD_TEXT, AT(format), 0, 0, NULL},
    {"dimensions", FIELD_COUNT, AT(dimensions), 1, 1 << 20, NULL},
};

typedef struct embedding {
    bool base64;
} embedding;

static weft_status read_body(generation *g, const json *body, char *param, weft_error *err)
{
    embedding *own = g->own;
    embedding_body b = {.dimensions = 0};
    field_table tables[] = {{ROWS, COUNT_OF(ROWS), &b},
                            {OPENAI_COMMON_ROWS, N_OPENAI_COMMON_ROWS, NULL}};
    weft_status status = fields_read(body, "", tables, COUNT_OF(tables), param, err);
    g->embeds = true;
    g->model_name = b.model;
    g->n_dims = b.dimensions;
    own->base64 = str_equal_text(b.format, "base64");
    if (status == WEFT_OK && b.format.ptr != NULL && !own->base64 &&
        !str_equal_text(b.format, "float"))
        status = field_wrong(param, "encoding_format", err, "is neither float nor base64");
    if (status == WEFT_OK) status = prompts_read(g, b.input, "input", param, err);
    return status;
}

/* Numbers of JSON read back the same; little-endian f32 in base64. */
static void write_vector(const generation *g, uint32_t i, strbuf *out)
{
    const embedding *own = g->own;
    const float *vector = g->vectors + (size_t)i * g->n_dims;
    strbuf_printf(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "",
                  i);
    if (own->base64) {
        strbuf_add_char(out, '"');
        base64_encode(vector, g->n_dims * sizeof *vector, out);
        strbuf_add_text(out, "\"}");
        return;
    }
    for (uint32_t j = 0; j < g->n_dims; j++) {
        strbuf_printf(out, "%c%.9g", j == 0 ? '[' : ',', (double)vector[j]);
    }
    strbuf_add_text(out, "]}");
}

static bool is_finite(const generation *g)
{
    for (size_t i = 0; i < (size_t)g->n_prompts * g->n_dims; i++) {
        if (!isfinite(g->vectors[i])) return false;
    }
    return true;
}

static void end(generation *g, strbuf *out)
{
    if (!is_finite(g)) {
        out->status = err_set(&g->err, WEFT_DEVICE, "the model's vector has NaN or infinity");
        return;
    }
    strbuf_add_text(out, "{\"object\":\"list\",\"model\":");
    json_write_text(str_of(g->model->name), out);
    strbuf_add_text(out, ",\"data\":[");
    for (uint32_t i = 0; i < g->n_prompts; i++) write_vector(g, i, out);
    strbuf_printf(out, "],\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}}",
                  g->n_prompt_tokens, g->n_prompt_tokens);
}

static const generation_api EMBEDDINGS = {
    .read = read_body, .end = end, .own_bytes = sizeof(embedding)};

static void handle(exchange *x)
{
    generation_start(x, &EMBEDDINGS);
}

static const server_route ROUTES[] = {
    {"POST", "/v1/embeddings", 0, handle},
};

const server_api SERVER_API_openai_embeddings = {.name = "openai_embeddings",
                                                 .routes = ROUTES,
                                                 .n_routes = COUNT_OF(ROUTES),
                                                 .write_error = openai_write_error};
