/* template_attr.c - object.name, object[key] and object[a:b:c]. */
#include "chat/template_attr.h"

#include "chat/template_eval.h"
#include "chat/template_methods.h"
#include "chat/template_number.h"
#include "chat/template_print.h"
#include "chat/template_render.h"

/* What Python's getattr() would find; *found false when nothing. */
static bool attribute(tpl_render *r, tpl_value object, str name, tpl_value *out, bool *found)
{
    *found = true;
    if (object.kind == TPL_NAMESPACE) {
        *found = tpl_dict_get_name(r, object.as.dict, name, out);
        return r->status == WEFT_OK;
    }
    if (object.kind == TPL_LOOP) {
        if (!tpl_loop_attr(r, object.as.loop, name, out, found)) return false;
        if (*found) return true;
    }
    if (object.kind == TPL_MACRO) {
        *found = tpl_macro_attr(r, object.as.macro, name, out);
        return r->status == WEFT_OK;
    }
    if (object.kind == TPL_CYCLER && str_equal_text(name, "current")) {
        *out = object.as.cycler->items[object.as.cycler->at];
        *found = true;
        return true;
    }
    if (object.kind == TPL_SEQ && object.as.seq->is_group) {
        bool is_key = str_equal_text(name, "grouper");
        *out = object.as.seq->items[is_key ? 0 : 1];
        *found = is_key || str_equal_text(name, "list");
        if (*found) return true;
    }
    return tpl_method_find(r, object, name, out, found);
}

bool tpl_getattr(tpl_render *r, tpl_value object, tpl_value name, tpl_value *out)
{
    if (object.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, object);
    bool found;
    str text = tpl_text_str(name.as.text);
    if (!attribute(r, object, text, out, &found)) return false;
    if (found) return true;
    if (object.kind == TPL_DICT && tpl_dict_get(r, object.as.dict, name, out)) return true;
    *out = tpl_missing(r, object, text);
    return r->status == WEFT_OK;
}

/* An index from either end; false when it is out of range. */
static bool place(int64_t i, size_t n, size_t *at)
{
    if (i < 0) i += (int64_t)n;
    *at = (size_t)i;
    return i >= 0 && (uint64_t)i < n;
}

static bool char_at(tpl_render *r, tpl_text *t, int64_t i, tpl_value *out, bool *found)
{
    size_t n, at;
    if (!tpl_length(r, tpl_text_value(t), &n)) return false;
    *found = place(i, n, &at);
    if (!*found) return true;
    if (n != t->len && !tpl_charge(r, t->len)) return false;
    size_t first = tpl_text_offset(t, at);
    size_t end = tpl_text_offset(t, at + 1);
    tpl_text *c = tpl_text_view(r, t, first, end - first);
    if (c == NULL) return false;
    *out = tpl_text_value(c);
    return true;
}

static bool item(tpl_render *r, tpl_value object, tpl_value key, tpl_value *out, bool *found)
{
    *found = false;
    if (object.kind == TPL_DICT) {
        *found = tpl_dict_get(r, object.as.dict, key, out);
        return r->status == WEFT_OK;
    }
    if (!tpl_is_int(key)) return true;
    if (object.kind == TPL_TEXT) return char_at(r, object.as.text, tpl_as_int(key), out, found);
    if (object.kind != TPL_SEQ || object.as.seq->flavour > TPL_RANGE) return true;
    size_t at;
    *found = place(tpl_as_int(key), object.as.seq->n, &at);
    if (*found) *out = tpl_seq_at(object.as.seq, at);
    return true;
}

bool tpl_getitem(tpl_render *r, tpl_value object, tpl_value key, tpl_value *out)
{
    if (object.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, object);
    bool found;
    if (!item(r, object, key, out, &found)) return false;
    if (found) return true;
    if (key.kind == TPL_TEXT) {
        if (!attribute(r, object, tpl_text_str(key.as.text), out, &found)) return false;
        if (found) return true;
    }
    tpl_text *text;
    if (!tpl_to_text(r, key, &text)) return false;
    *out = tpl_missing(r, object, tpl_text_str(text));
    return r->status == WEFT_OK;
}

bool tpl_getpath(tpl_render *r, tpl_value object, tpl_value path, tpl_value *out)
{
    *out = object;
    if (path.kind != TPL_TEXT) return tpl_getitem(r, object, path, out);
    tpl_text *t = path.as.text;
    str s = tpl_text_str(t);
    for (size_t at = 0; at <= s.len;) {
        size_t end = at;
        while (end < s.len && s.ptr[end] != '.') end++;
        str part = {s.ptr + at, end - at};
        int64_t index;
        bool is_index = part.len != 0 && part.ptr[0] >= '0' && part.ptr[0] <= '9' &&
                        tpl_number_int(part, 10, &index) == TPL_NUMBER_OK;
        tpl_text *name = is_index ? NULL : tpl_text_view(r, t, at, part.len);
        if (!is_index && name == NULL) return false;
        tpl_value key = is_index ? tpl_int(index) : tpl_text_value(name);
        if (!tpl_getitem(r, *out, key, out)) return false;
        at = end + 1;
    }
    return true;
}

typedef struct range_of {
    int64_t start, stop, step;
    size_t n;
} range_of;

static bool bound(tpl_render *r, tpl_value v, int64_t fallback, int64_t *i)
{
    *i = fallback;
    if (v.kind == TPL_NONE) return true;
    if (!tpl_is_int(v)) return tpl_fail_type(r, "a slice needs integers, got", v);
    *i = tpl_as_int(v);
    return true;
}

/* From an end of the sequence and into [low, high]. */
static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static bool resolve(tpl_render *r, const tpl_value bounds[3], size_t length, range_of *range)
{
    int64_t n = (int64_t)length, start, stop, step;
    if (!bound(r, bounds[2], 1, &step)) return false;
    if (step == 0) return tpl_fail(r, WEFT_FORMAT, "a slice's step cannot be zero");
    if (step == INT64_MIN) step = -INT64_MAX;
    bool up = step > 0;
    if (!bound(r, bounds[0], up ? 0 : INT64_MAX, &start) ||
        !bound(r, bounds[1], up ? INT64_MAX : INT64_MIN, &stop)) {
        return false;
    }
    int64_t low = up ? 0 : -1, high = up ? n : n - 1;
    start = clamp(start, n, low, high);
    stop = bounds[1].kind == TPL_NONE && !up ? -1 : clamp(stop, n, low, high);
    uint64_t width = up ? (stop > start ? (uint64_t)(stop - start) : 0)
                        : (start > stop ? (uint64_t)(start - stop) : 0);
    uint64_t stride = (uint64_t)(up ? step : -step);
    *range = (range_of){start, stop, step, width == 0 ? 0 : (size_t)((width - 1) / stride + 1)};
    return true;
}

static bool slice_text(tpl_render *r, tpl_text *t, const range_of *range, tpl_value *out)
{
    if (t->n_chars != t->len && !tpl_charge(r, 2 * t->len)) return false;
    if (range->step == 1 || range->n == 0) {
        size_t first = range->n == 0 ? 0 : tpl_text_offset(t, (size_t)range->start);
        size_t end = range->n == 0 ? 0 : tpl_text_offset(t, (size_t)range->start + range->n);
        tpl_text *view = tpl_text_view(r, t, first, end - first);
        if (view == NULL) return false;
        *out = tpl_text_value(view);
        return true;
    }
    tpl_seq *chars = tpl_collect(r, tpl_text_value(t));
    tpl_buffer *b = tpl_buffer_new(r, range->n);
    if (chars == NULL || b == NULL) return false;
    for (size_t i = 0; i < range->n; i++) {
        tpl_value c = chars->items[range->start + (int64_t)i * range->step];
        if (!tpl_buffer_add_text(r, b, c.as.text)) return false;
    }
    tpl_text *all = tpl_buffer_text(r, b);
    if (all == NULL) return false;
    *out = tpl_text_value(all);
    return true;
}

static bool slice_seq(tpl_render *r, const tpl_seq *s, const range_of *range, tpl_value *out)
{
    bool is_range = s->flavour == TPL_RANGE;
    tpl_seq *part = tpl_seq_new(r, s->flavour, is_range ? 0 : range->n);
    if (part == NULL || !tpl_charge(r, range->n * sizeof *s->items)) return false;
    part->n = range->n;
    if (is_range) {
        part->start = s->start + range->start * s->step;
        part->stop = s->start + range->stop * s->step;
        part->step = s->step * range->step;
    }
    for (size_t i = 0; !is_range && i < range->n; i++) {
        part->items[i] = s->items[range->start + (int64_t)i * range->step];
    }
    *out = tpl_seq_value(part);
    return true;
}

bool tpl_slice(tpl_render *r, tpl_value object, const tpl_value bounds[3], tpl_value *out)
{
    if (object.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, object);
    bool is_seq = object.kind == TPL_SEQ && object.as.seq->flavour <= TPL_RANGE;
    if (object.kind != TPL_TEXT && !is_seq)
        return tpl_fail_type(r, "cannot slice a value of type", object);
    size_t n;
    range_of range = {0, 0, 1, 0};
    if (!tpl_length(r, object, &n) || !resolve(r, bounds, n, &range)) return false;
    return is_seq ? slice_seq(r, object.as.seq, &range, out)
                  : slice_text(r, object.as.text, &range, out);
}
