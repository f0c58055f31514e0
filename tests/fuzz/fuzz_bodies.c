/* fuzz_bodies.c - bodies for Anthropic's messages ('m', counts: 'c') and OpenAI's responses ('r'),
 * by the first byte: refused with a sentence that may be sent, or made JSON that templates take. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/anthropic_body.h"
#include "server/responses_body.h"
#include "server/server_state.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* A server that runs nothing: what a body is read with. */
static server *planted_server(void)
{
    static const server_model MODEL = {"m", ""};
    static server_options options = {.models = &MODEL, .n_models = 1};
    static server s;
    if (s.options != NULL) return &s;
    s.options = &options;
    if (uv_loop_init(&s.loop) != 0 || fleet_create(&s.loop, &options, &s.fleet, NULL) != WEFT_OK ||
        replay_create(1 << 16, &s.replay, NULL) != WEFT_OK)
        abort();
    return &s;
}

/* The JSON of text, which is some; the caller frees it. */
static json_doc parse(const strbuf *text, json_kind kind)
{
    json_doc doc;
    weft_status status = json_parse(&doc, strbuf_text(text), text->len, NULL);
    ASSERT(status == WEFT_OK && json_kind_of(doc.root) == kind);
    return doc;
}

static void check_asked(const generation *g)
{
    json_doc doc = parse(&g->messages, JSON_KIND_ARRAY);
    size_t n_images = 0;
    for (size_t i = 0; i < json_length(doc.root); i++) {
        const json *message = json_at(doc.root, i);
        const json *content = json_get(message, "content");
        ASSERT(json_text(json_get(message, "role")).len > 0 && content != NULL);
        for (size_t j = 0; j < json_length(content); j++) {
            str type = json_text(json_get(json_at(content, j), "type"));
            n_images += str_equal_text(type, "image");
        }
    }
    ASSERT(n_images == g->n_images && n_images <= GENERATION_IMAGES);
    json_doc_free(&doc);
    ASSERT(g->has_tools == (g->tools.len > 0));
    if (g->has_tools) {
        doc = parse(&g->tools, JSON_KIND_ARRAY);
        ASSERT(json_length(doc.root) > 0 && json_length(doc.root) <= WEFT_CHAT_TOOLS);
        json_doc_free(&doc);
    }
    if (g->variables.len == 0) return;
    doc = parse(&g->variables, JSON_KIND_OBJECT);
    json_doc_free(&doc);
}

static void check_echo(const strbuf *echo)
{
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    strbuf_add_char(&text, '{');
    strbuf_add(&text, strbuf_text(echo), echo->len);
    strbuf_add_char(&text, '}');
    json_doc doc = parse(&text, JSON_KIND_OBJECT);
    json_doc_free(&doc);
    strbuf_deinit(&text);
}

static void read_body(char which, generation *g, const json *body)
{
    strbuf echo;
    bool omits = false;
    weft_error err = {WEFT_OK, ""};
    weft_status status;
    strbuf_init(&echo, mem_system(), 0);
    if (which == 'r') {
        status = responses_read_body(g, body, &echo, g->param, &err);
    } else {
        status = anthropic_read_body(g, body, which == 'c', &omits, g->param, &err);
    }
    if (status == WEFT_OK) {
        check_asked(g);
        if (which == 'r') check_echo(&echo);
        status = asked_read_lists(&g->asked, &g->lists, g->param, &err);
    }
    ASSERT(status == err.status && (status == WEFT_OK || err.message[0] != '\0'));
    ASSERT(status != WEFT_NOMEM && utf8_valid(err.message, strlen(err.message)));
    ASSERT(utf8_valid(g->param, strlen(g->param)));
    strbuf_deinit(&echo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    json_doc doc;
    exchange x = {.server = planted_server()};
    if (n_bytes == 0 || json_parse(&doc, (const char *)data + 1, n_bytes - 1, NULL) != WEFT_OK)
        return 0;
    generation g = {.x = &x};
    asked_init(&g.asked);
    asked_lists_init(&g.lists);
    strbuf_init(&g.messages, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&g.tools, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g.variables, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g.form, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g.tool_name, mem_system(), 0);
    read_body((char)data[0], &g, doc.root);
    strbuf_deinit(&g.messages);
    strbuf_deinit(&g.tools);
    strbuf_deinit(&g.variables);
    strbuf_deinit(&g.form);
    strbuf_deinit(&g.tool_name);
    asked_lists_deinit(&g.lists);
    json_doc_free(&doc);
    return 0;
}
