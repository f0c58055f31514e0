/* template_render.h - the state of one rendering: memory, bounds, the first failure.
 *
 * Inside the interpreter a function that can fail returns bool, true when it went well (or a
 * pointer, NULL when not); status and message stand in the rendering. */
#ifndef CHAT_TEMPLATE_RENDER_H
#define CHAT_TEMPLATE_RENDER_H

#include "base/arena.h"
#include "chat/template.h"
#include "chat/template_value.h"

typedef struct tpl_binding {
    uint32_t name;
    tpl_value value;
} tpl_binding;

/* Variables of one block; a lookup goes outwards. */
typedef struct tpl_scope tpl_scope;
struct tpl_scope {
    tpl_scope *outer;
    bool kept; /* a macro sees it for as long as the macro lives */
    tpl_binding *bindings;
    uint32_t n, capacity;
};

/* Where output goes: to a text being captured, or, buffer NULL, to the caller. */
typedef struct tpl_sink {
    tpl_buffer *buffer;
} tpl_sink;

struct tpl_render {
    const chat_template *of;
    const template_input *input;
    template_output *out;
    weft_error *err;
    weft_status status;
    uint32_t line; /* of the statement or expression that failed */
    arena memory;
    template_limits limits;
    uint64_t n_steps;
    size_t n_spare;    /* bytes charged that do not yet make a step */
    uint32_t n_calls;  /* macros and recursive loops under way */
    uint32_t n_frames; /* C calls under way that follow a template's or a value's nesting */
    tpl_sink sink;
    tpl_scope *scope;
    tpl_value *globals;     /* [names of the template] what the caller gave, and functions */
    tpl_value filter_input; /* of a filter block or a filtered set block */
};

/* Records the first failure; always false. */
bool tpl_fail(tpl_render *r, weft_status status, const char *fmt, ...) ERR_PRINTF(3, 4);
/* The failures of Python's own types. */
bool tpl_fail_type(tpl_render *r, const char *what, tpl_value v);

/* Cleared; NULL when refused or over the limit, which is then recorded. */
void *tpl_alloc(tpl_render *r, size_t count, size_t size);
char *tpl_printf(tpl_render *r, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Work beyond evaluating a node: n_bytes or so touched. */
bool tpl_charge(tpl_render *r, size_t n_bytes);
bool tpl_step(tpl_render *r, uint64_t n);

/* Around every recursion. */
bool tpl_enter(tpl_render *r);
void tpl_leave(tpl_render *r);

/* Around calls of macros and of recursive loops. */
bool tpl_call_enter(tpl_render *r);
void tpl_call_leave(tpl_render *r);

bool tpl_emit(tpl_render *r, const tpl_text *t);

/* An undefined value for a missing attribute or item, as Jinja words it. */
tpl_value tpl_missing(tpl_render *r, tpl_value of, str name);
/* Fails with the reason of an undefined value. */
bool tpl_fail_undefined(tpl_render *r, tpl_value v);

#endif
