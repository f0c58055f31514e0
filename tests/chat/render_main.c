/* render_main.c - renders templates for tools/fuzz_templates.py: one JSON object a line on stdin,
 * {"template": text, "vars": {...}, "now": seconds}, one a line on stdout, {"status", "text",
 * "spans"}.
 *
 * Build: cc -std=c17 -D_POSIX_C_SOURCE=200809L -Isrc -Iinclude tests/chat/render_main.c
 * src/chat/template*.c src/base/[a-z]*.c -ljansson -lxxhash -lcrypto -lpthread -lm */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "chat/template.h"

enum { MOST_VARS = 32 };

static const char *status_name(weft_status status)
{
    switch (status) {
#define NAME(name, value, help)                                                                    \
    case WEFT_##name:                                                                              \
        return #name;
        WEFT_STATUS_MAP(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

static uint32_t take_vars(const json *from, template_var *vars, char names[MOST_VARS][64])
{
    json_iter it = {NULL};
    str key;
    const json *value;
    uint32_t n = 0;
    while (n < MOST_VARS && json_next(from, &it, &key, &value)) {
        snprintf(names[n], sizeof names[n], "%.*s", (int)key.len, key.ptr);
        vars[n] = (template_var){names[n], value};
        n++;
    }
    return n;
}

static void answer(weft_status status, const template_output *out, const weft_error *err)
{
    strbuf line;
    strbuf_init(&line, mem_system(), 0);
    strbuf_printf(&line, "{\"status\": \"%s\", \"text\": ", status_name(status));
    str text = {strbuf_text(&out->text), out->text.len};
    json_write_text(status == WEFT_OK ? text : str_of(err->message), &line);
    strbuf_add_text(&line, ", \"spans\": [");
    for (size_t i = 0; i < out->n_spans; i++) {
        strbuf_printf(&line, "%s[%zu, %zu]", i == 0 ? "" : ", ", out->spans[i].first,
                      out->spans[i].n_bytes);
    }
    strbuf_add_text(&line, "]}\n");
    fputs(strbuf_text(&line), stdout);
    fflush(stdout);
    strbuf_deinit(&line);
}

static void render_line(const char *line, size_t n)
{
    json_doc doc;
    weft_error err = {.status = WEFT_OK};
    template_output out;
    template_output_init(&out, mem_system());
    weft_status status = json_parse(&doc, line, n, &err);
    if (status == WEFT_OK) {
        const env world = {.allocator = mem_system()};
        chat_template *t;
        template_var vars[MOST_VARS];
        char names[MOST_VARS][64];
        template_input input = {.vars = vars, .now = json_int(json_get(doc.root, "now"), 0)};
        input.n_vars = take_vars(json_get(doc.root, "vars"), vars, names);
        status = template_compile(&world, json_text(json_get(doc.root, "template")), &t, &err);
        if (status == WEFT_OK) status = template_render(t, &input, &out, &err);
        template_destroy(t);
        json_doc_free(&doc);
    }
    answer(status, &out, &err);
    template_output_deinit(&out);
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    while ((n = getline(&line, &capacity, stdin)) > 0) render_line(line, (size_t)n);
    free(line);
    return 0;
}
