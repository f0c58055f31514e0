/* template.h - a Jinja interpreter for chat templates.
 *
 * Reference: Jinja2 3.1 as Transformers configures it (trim_blocks, lstrip_blocks, loop controls,
 * sandbox, keep_trailing_newline off). A template is compiled once and rendered many times; both
 * are bounded. */
#ifndef CHAT_TEMPLATE_H
#define CHAT_TEMPLATE_H

#include "base/env.h"
#include "base/json.h"
#include "base/str.h"

typedef struct chat_template chat_template;

/* Bounds of one rendering; 0 takes the default. */
typedef struct template_limits {
    uint64_t n_steps;    /* evaluated nodes: 10,000,000 */
    uint32_t depth;      /* nested calls and expressions: 128 */
    size_t output_bytes; /* 64 MiB */
    size_t memory_bytes; /* values made while rendering: 256 MiB */
} template_limits;

enum { TEMPLATE_SOURCE_BYTES = 1 << 20 };

/* FORMAT with line and reason; UNSUPPORTED names a tag, filter or test that is not known. */
weft_status template_compile(const env *world, str source, chat_template **out, weft_error *err);
void template_destroy(chat_template *t);

typedef struct template_var {
    const char *name;
    const json *value; /* borrowed */
} template_var;

typedef struct template_input {
    const template_var *vars; /* [n_vars]: messages, tools, add_generation_prompt, bos_token, ... */
    uint32_t n_vars;
    int64_t now; /* seconds since 1970, local time applied by the caller, for strftime_now */
    template_limits limits;
} template_input;

/* A run of output bytes that came from the caller's values, not from the template's own text: those
 * bytes are tokenized without recognising control tokens. Ascending, disjoint, neighbours
 * joined. */
typedef str_span template_span;

typedef struct template_output {
    strbuf text;          /* the caller inits and deinits it */
    template_span *spans; /* [n_spans], of text.allocator; template_output_deinit frees */
    size_t n_spans, spans_capacity;
} template_output;

void template_output_init(template_output *out, const weft_allocator *allocator);
void template_output_deinit(template_output *out);

/* ARGUMENT with the message of raise_exception; FORMAT for what Jinja2 would raise; LIMIT. */
weft_status template_render(const chat_template *t, const template_input *input,
                            template_output *out, weft_error *err);

#endif
