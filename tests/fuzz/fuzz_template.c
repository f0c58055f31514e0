/* fuzz_template.c - a template, a NUL and a JSON object of variables: rendered or refused with a
 * sentence, within its limits; what it says of its output holds. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "chat/template.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST_VARS = 16, NAME_BYTES = 32 };

static void check_output(const template_output *out)
{
    ASSERT(utf8_valid(strbuf_text(&out->text), out->text.len));
    size_t end = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        const template_span *span = &out->spans[i];
        ASSERT(span->n_bytes > 0 && (i == 0 || span->first > end));
        end = span->first + span->n_bytes;
        ASSERT(end <= out->text.len);
    }
}

static void render(const chat_template *t, const json *vars)
{
    template_var items[MOST_VARS];
    char names[MOST_VARS][NAME_BYTES];
    template_input input = {.vars = items, .now = 1786000000};
    input.limits = (template_limits){100000, 64, 1 << 20, 4 << 20};
    json_iter it = {NULL};
    str key;
    const json *value;
    while (input.n_vars < MOST_VARS && json_next(vars, &it, &key, &value)) {
        if (key.len >= NAME_BYTES) continue;
        memcpy(names[input.n_vars], key.ptr, key.len);
        names[input.n_vars][key.len] = '\0';
        items[input.n_vars] = (template_var){names[input.n_vars], value};
        input.n_vars++;
    }
    template_output out;
    weft_error err = {.status = WEFT_OK};
    template_output_init(&out, mem_system());
    weft_status status = template_render(t, &input, &out, &err);
    ASSERT(status == err.status && status != WEFT_NOMEM);
    if (status == WEFT_OK) check_output(&out);
    template_output_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const uint8_t *nul = n_bytes == 0 ? NULL : memchr(data, 0, n_bytes);
    size_t n_source = nul == NULL ? n_bytes : (size_t)(nul - data);
    char *source = malloc(n_source == 0 ? 1 : n_source);
    ASSERT(source != NULL);
    if (n_source != 0) memcpy(source, data, n_source);
    const env world = {.allocator = mem_system()};
    chat_template *t;
    weft_error err = {.status = WEFT_OK};
    weft_status status = template_compile(&world, (str){source, n_source}, &t, &err);
    ASSERT(status == err.status && (t != NULL) == (status == WEFT_OK));
    /* The template keeps nothing of its source. */
    free(source);
    if (t != NULL) {
        json_doc doc = {NULL};
        size_t n_vars = nul == NULL ? 0 : n_bytes - n_source - 1;
        bool has_vars =
            n_vars != 0 && json_parse(&doc, (const char *)nul + 1, n_vars, NULL) == WEFT_OK;
        render(t, has_vars ? doc.root : NULL);
        if (has_vars) json_doc_free(&doc);
    }
    template_destroy(t);
    return 0;
}
