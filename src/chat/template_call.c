/* template_call.c - binding arguments to parameters. */
#include "chat/template_call.h"

#include <string.h>

#include "base/assert.h"
#include "chat/template_eval.h"
#include "chat/template_methods.h"
#include "chat/template_render.h"

const tpl_row *tpl_row_find(const tpl_row *rows, size_t n_rows, str name)
{
    for (size_t i = 0; i < n_rows; i++) {
        if (str_equal_text(name, rows[i].name)) return &rows[i];
    }
    return NULL;
}

typedef struct parameter {
    str name;
    bool optional, rest, keywords;
} parameter;

/* The next parameter of a signature; false at its end. */
static bool next_parameter(const char **at, parameter *p)
{
    while (**at == ' ') (*at)++;
    if (**at == '\0') return false;
    const char *start = *at;
    while (**at != '\0' && **at != ' ') (*at)++;
    str word = {start, (size_t)(*at - start)};
    *p = (parameter){.name = word};
    p->rest = str_equal_text(word, "*");
    p->keywords = str_equal_text(word, "**");
    p->optional = str_ends(word, "?");
    if (p->optional) p->name.len--;
    return true;
}

static const tpl_value *find_keyword(const tpl_args *args, str name)
{
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (str_equal(args->keywords[i].name, name)) return &args->keywords[i].value;
    }
    return NULL;
}

static bool bind_slot(tpl_render *r, const tpl_row *row, const parameter *p, tpl_call *call,
                      size_t slot, size_t *n_used)
{
    const tpl_value *keyword = find_keyword(call->args, p->name);
    if (slot < call->args->n) {
        if (keyword != NULL) {
            return tpl_fail(r, WEFT_FORMAT, "'%s' got two values for '%.*s'", row->name,
                            (int)p->name.len, p->name.ptr);
        }
        call->slot[slot] = call->args->items[slot];
        call->given[slot] = true;
        call->n_taken++;
        return true;
    }
    if (keyword != NULL) {
        call->slot[slot] = *keyword;
        call->given[slot] = true;
        (*n_used)++;
        return true;
    }
    if (p->optional) return true;
    return tpl_fail(r, WEFT_FORMAT, "'%s' misses its argument '%.*s'", row->name, (int)p->name.len,
                    p->name.ptr);
}

bool tpl_row_call(tpl_render *r, const tpl_row *row, tpl_value self, const tpl_args *args,
                  tpl_value *out)
{
    tpl_call call;
    memset(&call, 0, sizeof call);
    call.args = args;
    const char *at = row->signature;
    parameter p;
    size_t slot = 0, n_used = 0;
    bool rest = false, keywords = false;
    while (next_parameter(&at, &p)) {
        rest |= p.rest;
        keywords |= p.keywords;
        if (p.rest || p.keywords) continue;
        ASSERT(slot < TPL_SLOTS);
        if (!bind_slot(r, row, &p, &call, slot, &n_used)) return false;
        slot++;
    }
    if (args->n > call.n_taken && !rest) {
        return tpl_fail(r, WEFT_FORMAT, "'%s' takes at most %zu arguments, got %zu", row->name,
                        slot, args->n);
    }
    if (args->n_keywords > n_used && !keywords) {
        return tpl_fail(r, WEFT_FORMAT, "'%s' got a keyword argument it does not take", row->name);
    }
    return row->fn(r, self, &call, out);
}

bool tpl_slot_int(tpl_render *r, const tpl_call *call, size_t slot, int64_t fallback, int64_t *i)
{
    *i = fallback;
    if (!call->given[slot]) return true;
    if (!tpl_is_int(call->slot[slot])) {
        return tpl_fail_type(r, "expected an integer, got", call->slot[slot]);
    }
    *i = tpl_as_int(call->slot[slot]);
    return true;
}

bool tpl_slot_text(tpl_render *r, const tpl_call *call, size_t slot, const char *fallback,
                   tpl_text **t)
{
    if (call->given[slot]) {
        if (call->slot[slot].kind != TPL_TEXT) {
            return tpl_fail_type(r, "expected a string, got", call->slot[slot]);
        }
        *t = call->slot[slot].as.text;
        return true;
    }
    *t = tpl_text_borrow(r, str_of(fallback), false);
    return *t != NULL;
}

bool tpl_slot_flag(const tpl_call *call, size_t slot, bool fallback)
{
    return call->given[slot] ? tpl_truth(call->slot[slot]) : fallback;
}

bool tpl_call_value(tpl_render *r, tpl_value callee, const tpl_args *args, tpl_value *out)
{
    switch ((tpl_kind)callee.kind) {
    case TPL_FUNCTION:
        return tpl_row_call(r, callee.as.function, tpl_none(), args, out);
    case TPL_METHOD:
        return tpl_bound_call(r, callee.as.bound, args, out);
    case TPL_MACRO:
        return tpl_macro_call(r, callee.as.macro, args, out);
    case TPL_LOOP:
        return tpl_loop_call(r, callee.as.loop, args, out);
    case TPL_JOINER:
        return tpl_joiner_call(r, callee, args, out);
    case TPL_UNDEFINED:
        return tpl_fail_undefined(r, callee);
    default:
        return tpl_fail(r, WEFT_FORMAT, "'%s' object is not callable", tpl_type_name(callee));
    }
}
