/* template_ops.c - operators on values, as Python's numbers, strings and lists have them. */
#include "chat/template_ops.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "chat/template_format.h"
#include "chat/template_render.h"

static const char *const SIGNS[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

static bool overflow(tpl_render *r, tpl_op op)
{
    return tpl_fail(r, WEFT_FORMAT, "the result of '%s' exceeds 64 bits", SIGNS[op]);
}

static bool division_by_zero(tpl_render *r)
{
    return tpl_fail(r, WEFT_FORMAT, "division by zero");
}

static bool int_divide(tpl_render *r, tpl_op op, int64_t a, int64_t b, int64_t *c)
{
    if (b == 0) return division_by_zero(r);
    if (b == -1) {
        if (op == TPL_OP_MOD) {
            *c = 0;
            return true;
        }
        return __builtin_sub_overflow((int64_t)0, a, c) ? overflow(r, op) : true;
    }
    int64_t quotient = a / b, rest = a % b;
    bool floors = rest != 0 && (rest < 0) != (b < 0);
    *c = op == TPL_OP_MOD ? rest + (floors ? b : 0) : quotient - (floors ? 1 : 0);
    return true;
}

static bool int_power(tpl_render *r, int64_t base, int64_t exponent, int64_t *c)
{
    int64_t result = 1;
    while (exponent != 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
            return overflow(r, TPL_OP_POW);
        }
        exponent >>= 1;
        if (exponent != 0 && __builtin_mul_overflow(base, base, &base)) {
            return overflow(r, TPL_OP_POW);
        }
    }
    *c = result;
    return true;
}

static bool real_power(tpl_render *r, double a, double b, double *c)
{
    if (a == 0.0 && b < 0.0) return division_by_zero(r);
    if (a < 0.0 && isfinite(a) && isfinite(b) && b != floor(b)) {
        return tpl_fail(r, WEFT_FORMAT, "the result of '**' is not a real number");
    }
    *c = pow(a, b);
    if (isinf(*c) && isfinite(a) && isfinite(b)) {
        return tpl_fail(r, WEFT_FORMAT, "the result of '**' is too large");
    }
    return true;
}

static bool real_divide(tpl_render *r, tpl_op op, double a, double b, double *c)
{
    if (b == 0.0) return division_by_zero(r);
    double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0.0) {
        if ((b < 0) != (rest < 0)) {
            rest += b;
            quotient -= 1.0;
        }
    } else {
        rest = copysign(0.0, b);
    }
    if (op == TPL_OP_MOD) {
        *c = rest;
        return true;
    }
    double whole = floor(quotient);
    if (quotient - whole > 0.5) whole += 1.0;
    *c = quotient == 0.0 ? copysign(0.0, a / b) : whole;
    return true;
}

static bool int_arithmetic(tpl_render *r, tpl_op op, int64_t a, int64_t b, int64_t *c)
{
    switch (op) {
    case TPL_OP_ADD:
        return __builtin_add_overflow(a, b, c) ? overflow(r, op) : true;
    case TPL_OP_SUB:
        return __builtin_sub_overflow(a, b, c) ? overflow(r, op) : true;
    case TPL_OP_MUL:
        return __builtin_mul_overflow(a, b, c) ? overflow(r, op) : true;
    case TPL_OP_FLOORDIV:
    case TPL_OP_MOD:
        return int_divide(r, op, a, b, c);
    default:
        return int_power(r, a, b, c);
    }
}

static bool real_arithmetic(tpl_render *r, tpl_op op, double a, double b, double *c)
{
    switch (op) {
    case TPL_OP_ADD:
        *c = a + b;
        return true;
    case TPL_OP_SUB:
        *c = a - b;
        return true;
    case TPL_OP_MUL:
        *c = a * b;
        return true;
    case TPL_OP_DIV:
        if (b == 0.0) return division_by_zero(r);
        *c = a / b;
        return true;
    case TPL_OP_FLOORDIV:
    case TPL_OP_MOD:
        return real_divide(r, op, a, b, c);
    default:
        return real_power(r, a, b, c);
    }
}

__extension__ typedef unsigned __int128 wide;

static int bit_length(uint64_t v)
{
    return v == 0 ? 0 : 64 - __builtin_clzll(v);
}

/* a / b rounded once, as Python divides integers: their doubles may be rounded already. */
static double divide_ints(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    int shift = 62 - bit_length(x) + bit_length(y);
    if (shift < 0) shift = 0;
    wide dividend = (wide)x << shift;
    uint64_t quotient = (uint64_t)(dividend / y);
    /* At least 61 bits: a lowest bit that stands for the remainder keeps the rounding right. */
    if (dividend % y != 0) quotient |= 1;
    double d = ldexp((double)quotient, -shift);
    return (a < 0) != (b < 0) ? -d : d;
}

static bool number_arithmetic(tpl_render *r, tpl_op op, tpl_value a, tpl_value b, tpl_value *out)
{
    bool whole = tpl_is_int(a) && tpl_is_int(b) && op != TPL_OP_DIV &&
                 !(op == TPL_OP_POW && tpl_as_int(b) < 0);
    bool ok;
    if (whole) {
        int64_t i = 0;
        ok = int_arithmetic(r, op, tpl_as_int(a), tpl_as_int(b), &i);
        *out = tpl_int(i);
    } else {
        double d = 0.0;
        bool exact = op == TPL_OP_DIV && tpl_is_int(a) && tpl_is_int(b) && tpl_as_int(b) != 0;
        if (exact) {
            ok = true;
            d = divide_ints(tpl_as_int(a), tpl_as_int(b));
        } else {
            ok = real_arithmetic(r, op, tpl_as_real(a), tpl_as_real(b), &d);
        }
        *out = tpl_real(d);
    }
    out->untrusted = a.untrusted || b.untrusted;
    return ok;
}

static bool repeat_text(tpl_render *r, tpl_text *t, int64_t n, tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, 0);
    if (b == NULL) return false;
    for (int64_t i = 0; t->len != 0 && i < n; i++) {
        if (!tpl_step(r, 1) || !tpl_buffer_add_text(r, b, t)) return false;
    }
    tpl_text *all = tpl_buffer_text(r, b);
    if (all == NULL) return false;
    *out = tpl_text_value(all);
    return true;
}

static bool repeat_seq(tpl_render *r, const tpl_seq *s, int64_t n, tpl_value *out)
{
    size_t times = n < 0 ? 0 : (size_t)n, total;
    if (!size_mul(s->n, times, &total)) return tpl_fail(r, WEFT_LIMIT, "a list is too long");
    tpl_seq *all = tpl_seq_new(r, s->flavour, total);
    if (all == NULL || !tpl_charge(r, total * sizeof *s->items)) return false;
    for (size_t i = 0; i < total; i++) all->items[i] = s->items[i % s->n];
    *out = tpl_seq_value(all);
    return true;
}

static bool is_repeatable(tpl_value v)
{
    return v.kind == TPL_TEXT || tpl_is_seq(v, TPL_LIST) || tpl_is_seq(v, TPL_TUPLE);
}

static bool repeat(tpl_render *r, tpl_value v, int64_t n, tpl_value *out)
{
    return v.kind == TPL_TEXT ? repeat_text(r, v.as.text, n, out) : repeat_seq(r, v.as.seq, n, out);
}

static bool join_seqs(tpl_render *r, const tpl_seq *a, const tpl_seq *b, tpl_value *out)
{
    tpl_seq *all = tpl_seq_new(r, a->flavour, a->n + b->n);
    if (all == NULL || !tpl_charge(r, all->n * sizeof *a->items)) return false;
    if (a->n != 0) memcpy(all->items, a->items, a->n * sizeof *a->items);
    if (b->n != 0) memcpy(all->items + a->n, b->items, b->n * sizeof *b->items);
    *out = tpl_seq_value(all);
    return true;
}

static bool add_values(tpl_render *r, tpl_value a, tpl_value b, tpl_value *out, bool *done)
{
    *done = true;
    if (a.kind == TPL_TEXT && b.kind == TPL_TEXT) {
        tpl_text *t = tpl_text_concat(r, a.as.text, b.as.text);
        if (t == NULL) return false;
        *out = tpl_text_value(t);
        return true;
    }
    if ((tpl_is_seq(a, TPL_LIST) && tpl_is_seq(b, TPL_LIST)) ||
        (tpl_is_seq(a, TPL_TUPLE) && tpl_is_seq(b, TPL_TUPLE))) {
        return join_seqs(r, a.as.seq, b.as.seq, out);
    }
    *done = false;
    return true;
}

bool tpl_arithmetic(tpl_render *r, tpl_op op, tpl_value a, tpl_value b, tpl_value *out)
{
    *out = tpl_none();
    if (a.kind == TPL_TEXT && op == TPL_OP_MOD) return tpl_format_percent(r, a.as.text, b, out);
    if (a.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, a);
    if (b.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, b);
    if (tpl_is_number(a) && tpl_is_number(b)) return number_arithmetic(r, op, a, b, out);
    if (op == TPL_OP_MUL && is_repeatable(a) && tpl_is_int(b)) {
        return repeat(r, a, tpl_as_int(b), out);
    }
    if (op == TPL_OP_MUL && is_repeatable(b) && tpl_is_int(a)) {
        return repeat(r, b, tpl_as_int(a), out);
    }
    bool done = false;
    if (op == TPL_OP_ADD && !add_values(r, a, b, out, &done)) return false;
    if (done) return true;
    return tpl_fail(r, WEFT_FORMAT, "'%s' does not take '%s' and '%s'", SIGNS[op], tpl_type_name(a),
                    tpl_type_name(b));
}

bool tpl_negate(tpl_render *r, tpl_value a, tpl_value *out)
{
    if (!tpl_is_number(a)) return tpl_positive(r, a, out);
    if (a.kind == TPL_REAL) {
        *out = tpl_real(-a.as.d);
    } else {
        int64_t i;
        if (__builtin_sub_overflow((int64_t)0, tpl_as_int(a), &i)) return overflow(r, TPL_OP_SUB);
        *out = tpl_int(i);
    }
    out->untrusted = a.untrusted;
    return true;
}

bool tpl_positive(tpl_render *r, tpl_value a, tpl_value *out)
{
    if (a.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, a);
    if (!tpl_is_number(a)) return tpl_fail_type(r, "a sign does not take a value of type", a);
    *out = a.kind == TPL_BOOL ? tpl_int(tpl_as_int(a)) : a;
    return true;
}

bool tpl_relation(tpl_render *r, tpl_op op, tpl_value a, tpl_value b, bool *holds)
{
    int order = 0;
    switch (op) {
    case TPL_OP_EQ:
        return tpl_equal(r, a, b, holds);
    case TPL_OP_NE:
        if (!tpl_equal(r, a, b, holds)) return false;
        *holds = !*holds;
        return true;
    case TPL_OP_IN:
        return tpl_contains(r, b, a, holds);
    case TPL_OP_NOT_IN:
        if (!tpl_contains(r, b, a, holds)) return false;
        *holds = !*holds;
        return true;
    default:
        break;
    }
    if (!tpl_compare(r, a, b, &order)) return false;
    switch (op) {
    case TPL_OP_LT:
        *holds = order == -1;
        break;
    case TPL_OP_LE:
        *holds = order == -1 || order == 0;
        break;
    case TPL_OP_GT:
        *holds = order == 1;
        break;
    default:
        *holds = order == 1 || order == 0;
        break;
    }
    return true;
}
