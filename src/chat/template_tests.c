/* template_tests.c - what stands behind "is". */
#include "chat/template_tests.h"

#include "base/assert.h"
#include "chat/template_filters.h"
#include "chat/template_ops.h"
#include "chat/template_print.h"
#include "chat/template_render.h"
#include "chat/template_strings.h"

#define TEST(name)                                                                                 \
    static bool name(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)

/* Tests of the kind alone. */
#define KIND_TEST(name, condition)                                                                 \
    TEST(name)                                                                                     \
    {                                                                                              \
        (void)r;                                                                                   \
        (void)self;                                                                                \
        (void)call;                                                                                \
        *out = tpl_bool(condition);                                                                \
        return true;                                                                               \
    }

static bool is_iterable(tpl_value v)
{
    return v.kind == TPL_UNDEFINED || v.kind == TPL_TEXT || v.kind == TPL_SEQ ||
           v.kind == TPL_DICT || v.kind == TPL_LOOP;
}

/* What has a length and takes an index, as Jinja tries it: views of a dict have no index. */
static bool is_sequence(tpl_value v)
{
    if (v.kind == TPL_SEQ) return v.as.seq->flavour <= TPL_RANGE;
    return v.kind == TPL_TEXT || v.kind == TPL_DICT || v.kind == TPL_UNDEFINED;
}

static bool is_callable(tpl_value v)
{
    return v.kind == TPL_MACRO || v.kind == TPL_METHOD || v.kind == TPL_FUNCTION ||
           v.kind == TPL_LOOP || v.kind == TPL_JOINER || v.kind == TPL_UNDEFINED;
}

KIND_TEST(test_defined, self.kind != TPL_UNDEFINED)
KIND_TEST(test_undefined, self.kind == TPL_UNDEFINED)
KIND_TEST(test_none, self.kind == TPL_NONE)
KIND_TEST(test_boolean, self.kind == TPL_BOOL)
KIND_TEST(test_true, self.kind == TPL_BOOL && self.as.b)
KIND_TEST(test_false, self.kind == TPL_BOOL && !self.as.b)
KIND_TEST(test_integer, self.kind == TPL_INT)
KIND_TEST(test_float, self.kind == TPL_REAL)
KIND_TEST(test_number, tpl_is_number(self))
KIND_TEST(test_string, self.kind == TPL_TEXT)
KIND_TEST(test_mapping, self.kind == TPL_DICT)
KIND_TEST(test_iterable, is_iterable(self))
KIND_TEST(test_sequence, is_sequence(self))
KIND_TEST(test_callable, is_callable(self))
KIND_TEST(test_escaped, false)

/* Jinja looks the subject up in a dict. */
static bool is_known(tpl_render *r, tpl_value self, const tpl_row *(*find)(str name),
                     tpl_value *out)
{
    if (!tpl_hashable(self)) return tpl_fail_type(r, "unhashable type", self);
    *out = tpl_bool(self.kind == TPL_TEXT && find(tpl_text_str(self.as.text)) != NULL);
    return true;
}

static bool test_filter(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return is_known(r, self, tpl_filter_find, out);
}

static bool test_test(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return is_known(r, self, tpl_test_find, out);
}

static bool remainder_is(tpl_render *r, tpl_value self, tpl_value by, int64_t rest, tpl_value *out)
{
    tpl_value modulo;
    bool equal;
    if (!tpl_arithmetic(r, TPL_OP_MOD, self, by, &modulo) ||
        !tpl_equal(r, modulo, tpl_int(rest), &equal)) {
        return false;
    }
    *out = tpl_bool(equal);
    return true;
}

TEST(test_odd)
{
    (void)call;
    return remainder_is(r, self, tpl_int(2), 1, out);
}

TEST(test_even)
{
    (void)call;
    return remainder_is(r, self, tpl_int(2), 0, out);
}

TEST(test_divisibleby)
{
    return remainder_is(r, self, call->slot[0], 0, out);
}

static bool cased(tpl_render *r, tpl_value self, unsigned bits, tpl_value *out)
{
    tpl_text *t;
    if (!tpl_to_text(r, self, &t) || !tpl_charge(r, 4 * t->len)) return false;
    *out = tpl_bool(tpl_string_all_cased(t, bits));
    return true;
}

TEST(test_lower)
{
    (void)call;
    return cased(r, self, TPL_CHAR_LOWER, out);
}

TEST(test_upper)
{
    (void)call;
    return cased(r, self, TPL_CHAR_UPPER, out);
}

/* Identity, which for small numbers and strings Python leaves open: equality of the same kind here.
 * */
TEST(test_sameas)
{
    tpl_value other = call->slot[0];
    bool same = self.kind == other.kind;
    if (same && self.kind <= TPL_TEXT) {
        if (!tpl_equal(r, self, other, &same)) return false;
    } else if (same) {
        same = self.as.dict == other.as.dict;
    }
    *out = tpl_bool(same);
    return true;
}

static bool related(tpl_render *r, tpl_op op, tpl_value self, const tpl_call *call, tpl_value *out)
{
    bool holds;
    if (!tpl_relation(r, op, self, call->slot[0], &holds)) return false;
    *out = tpl_bool(holds);
    return true;
}

TEST(test_in)
{
    return related(r, TPL_OP_IN, self, call, out);
}

TEST(test_eq)
{
    return related(r, TPL_OP_EQ, self, call, out);
}

TEST(test_ne)
{
    return related(r, TPL_OP_NE, self, call, out);
}

TEST(test_lt)
{
    return related(r, TPL_OP_LT, self, call, out);
}

TEST(test_le)
{
    return related(r, TPL_OP_LE, self, call, out);
}

TEST(test_gt)
{
    return related(r, TPL_OP_GT, self, call, out);
}

TEST(test_ge)
{
    return related(r, TPL_OP_GE, self, call, out);
}

static const tpl_row TESTS[] = {
    {"!=", "other", test_ne},
    {"<", "other", test_lt},
    {"<=", "other", test_le},
    {"==", "other", test_eq},
    {">", "other", test_gt},
    {">=", "other", test_ge},
    {"boolean", "", test_boolean},
    {"callable", "", test_callable},
    {"defined", "", test_defined},
    {"divisibleby", "num", test_divisibleby},
    {"eq", "other", test_eq},
    {"equalto", "other", test_eq},
    {"escaped", "", test_escaped},
    {"even", "", test_even},
    {"false", "", test_false},
    {"filter", "", test_filter},
    {"float", "", test_float},
    {"ge", "other", test_ge},
    {"greaterthan", "other", test_gt},
    {"gt", "other", test_gt},
    {"in", "seq", test_in},
    {"integer", "", test_integer},
    {"iterable", "", test_iterable},
    {"le", "other", test_le},
    {"lessthan", "other", test_lt},
    {"lower", "", test_lower},
    {"lt", "other", test_lt},
    {"mapping", "", test_mapping},
    {"ne", "other", test_ne},
    {"none", "", test_none},
    {"number", "", test_number},
    {"odd", "", test_odd},
    {"sameas", "other", test_sameas},
    {"sequence", "", test_sequence},
    {"string", "", test_string},
    {"test", "", test_test},
    {"true", "", test_true},
    {"undefined", "", test_undefined},
    {"upper", "", test_upper},
};

const tpl_row *tpl_test_find(str name)
{
    return tpl_row_find(TESTS, COUNT_OF(TESTS), name);
}
