/* template_call.h - arguments of a call, and the rows that filters, tests, methods and functions
 * are.
 *
 * A row's signature is its parameters' names with blanks between; '?' ends one that may be left
 * out, a last "*" takes any further arguments and "**" any further keywords, both left in
 * call->args. Adding a filter is a function and a row. */
#ifndef CHAT_TEMPLATE_CALL_H
#define CHAT_TEMPLATE_CALL_H

#include "chat/template_value.h"

typedef struct tpl_keyword_value {
    str name;
    tpl_value value;
} tpl_keyword_value;

typedef struct tpl_args {
    tpl_value *items; /* [n] */
    size_t n;
    tpl_keyword_value *keywords; /* [n_keywords] */
    size_t n_keywords;
} tpl_args;

enum { TPL_SLOTS = 6 };

typedef struct tpl_call {
    const tpl_args *args;
    size_t n_taken;            /* positional arguments that went into slots */
    tpl_value slot[TPL_SLOTS]; /* by parameter; undefined when not given */
    bool given[TPL_SLOTS];
} tpl_call;

/* self is the filter's input, the test's subject or the method's object. */
typedef bool (*tpl_fn)(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);

struct tpl_row {
    const char *name;
    const char *signature;
    tpl_fn fn;
};

/* NULL when there is none of that name. */
const tpl_row *tpl_row_find(const tpl_row *rows, size_t n_rows, str name);

/* Binds the arguments to the signature and calls; fails when they do not fit. */
bool tpl_row_call(tpl_render *r, const tpl_row *row, tpl_value self, const tpl_args *args,
                  tpl_value *out);

/* Calls any value. */
bool tpl_call_value(tpl_render *r, tpl_value callee, const tpl_args *args, tpl_value *out);

/* A slot's value or its default; fail where the type is wrong. */
bool tpl_slot_int(tpl_render *r, const tpl_call *call, size_t slot, int64_t fallback, int64_t *i);
bool tpl_slot_text(tpl_render *r, const tpl_call *call, size_t slot, const char *fallback,
                   tpl_text **t);
bool tpl_slot_flag(const tpl_call *call, size_t slot, bool fallback);

#endif
