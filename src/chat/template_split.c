/* template_split.c - searching, splitting, replacing and joining strings. */
#include <string.h>

#include "chat/template_print.h"
#include "chat/template_render.h"
#include "chat/template_strings.h"

static bool take(tpl_text *t, tpl_value *out)
{
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

static bool empty_separator(tpl_render *r)
{
    return tpl_fail(r, WEFT_FORMAT, "the separator is empty");
}

/* Replacing nothing puts the new text before every character and at the end. */
static bool replace_empty(tpl_render *r, tpl_text *t, const tpl_text *to, int64_t n, tpl_buffer *b)
{
    tpl_iter it;
    tpl_value c;
    if (!tpl_iter_init(r, &it, tpl_text_value(t))) return false;
    bool more = true;
    while (more) {
        if (n != 0) {
            if (!tpl_buffer_add_text(r, b, to)) return false;
            n--;
        }
        more = tpl_iter_next(r, &it, &c);
        if (more && !tpl_buffer_add_text(r, b, c.as.text)) return false;
    }
    return r->status == WEFT_OK;
}

static bool add_part(tpl_render *r, tpl_buffer *b, const tpl_text *t, size_t first, size_t end)
{
    tpl_text part = {t->buffer, t->first + first, end - first, TPL_UNCOUNTED};
    return tpl_buffer_add_text(r, b, &part);
}

bool tpl_string_replace(tpl_render *r, tpl_text *t, const tpl_text *from, const tpl_text *to,
                        int64_t n, tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, t->len);
    if (b == NULL) return false;
    if (from->len == 0) return replace_empty(r, t, to, n, b) && take(tpl_buffer_text(r, b), out);
    str hay = tpl_text_str(t), needle = tpl_text_str(from);
    size_t at = 0;
    while (n != 0) {
        size_t place;
        bool found;
        if (!tpl_text_find(r, hay, needle, at, &place, &found)) return false;
        if (!found) break;
        if (!add_part(r, b, t, at, place) || !tpl_buffer_add_text(r, b, to)) return false;
        at = place + needle.len;
        n--;
    }
    return add_part(r, b, t, at, t->len) && take(tpl_buffer_text(r, b), out);
}

bool tpl_string_join(tpl_render *r, const tpl_text *separator, tpl_value items, bool strict,
                     tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, 0);
    tpl_iter it;
    tpl_value item;
    if (b == NULL || !tpl_iter_init(r, &it, items)) return false;
    for (bool first = true; tpl_iter_next(r, &it, &item); first = false) {
        if (strict && item.kind != TPL_TEXT)
            return tpl_fail_type(r, "join() needs strings, got", item);
        if (!first && !tpl_buffer_add_text(r, b, separator)) return false;
        if (!tpl_print(r, b, item)) return false;
    }
    return r->status == WEFT_OK && take(tpl_buffer_text(r, b), out);
}

/* Bytes of what ends a line at i: "\r\n" is one end. */
static size_t line_end(str s, size_t i)
{
    if (s.ptr[i] == '\r') return i + 1 < s.len && s.ptr[i + 1] == '\n' ? 2 : 1;
    size_t n;
    uint32_t c = tpl_char_at((str){s.ptr + i, s.len - i}, &n);
    bool ends =
        (c >= 10 && c <= 12) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
    return ends ? n : 0;
}

static bool push_view(tpl_render *r, tpl_seq *list, size_t *capacity, const tpl_text *t,
                      size_t first, size_t end)
{
    tpl_text *view = tpl_text_view(r, t, first, end - first);
    return view != NULL && tpl_step(r, 1) && tpl_seq_push(r, list, capacity, tpl_text_value(view));
}

bool tpl_string_lines(tpl_render *r, const tpl_text *t, bool keep_ends, tpl_value *out)
{
    tpl_seq *lines = tpl_seq_new(r, TPL_LIST, 0);
    size_t capacity = 0, start = 0;
    str s = tpl_text_str(t);
    if (lines == NULL || !tpl_charge(r, s.len)) return false;
    for (size_t i = 0; i < s.len;) {
        size_t n = line_end(s, i);
        if (n == 0) {
            i++;
            continue;
        }
        if (!push_view(r, lines, &capacity, t, start, keep_ends ? i + n : i)) return false;
        i += n;
        start = i;
    }
    if (start < s.len && !push_view(r, lines, &capacity, t, start, s.len)) return false;
    *out = tpl_seq_value(lines);
    return true;
}

/* The last place of a needle that ends at or before end. */
static bool find_last(tpl_render *r, str hay, str needle, size_t end, size_t *at, bool *found)
{
    *found = false;
    if (needle.len > end) return true;
    for (size_t i = end - needle.len + 1; i-- > 0;) {
        if (hay.ptr[i] != needle.ptr[0]) continue;
        if (!tpl_charge(r, needle.len)) return false;
        if (memcmp(hay.ptr + i, needle.ptr, needle.len) != 0) continue;
        *at = i;
        *found = true;
        break;
    }
    return tpl_charge(r, end);
}

/* Characters that start a search: start and end arguments as a slice has them. */
static bool window(tpl_render *r, tpl_text *t, const tpl_call *call, size_t *first, size_t *end)
{
    size_t n;
    if (!tpl_length(r, tpl_text_value(t), &n)) return false;
    int64_t bounds[2] = {0, (int64_t)n};
    for (size_t i = 0; i < 2; i++) {
        if (call->slot[i + 1].kind == TPL_NONE) continue;
        if (!tpl_slot_int(r, call, i + 1, bounds[i], &bounds[i])) return false;
        if (bounds[i] < 0) bounds[i] = bounds[i] < -(int64_t)n ? 0 : bounds[i] + (int64_t)n;
        if (i == 1 && bounds[i] > (int64_t)n) bounds[i] = (int64_t)n;
    }
    if (n != t->len && !tpl_charge(r, 2 * t->len)) return false;
    /* A start behind the end finds nothing, not even the empty string. */
    *end = tpl_text_offset(t, (size_t)bounds[1]);
    *first = bounds[0] > bounds[1] ? SIZE_MAX : tpl_text_offset(t, (size_t)bounds[0]);
    return true;
}

static bool search(tpl_render *r, tpl_value self, const tpl_call *call, bool last, tpl_value *out)
{
    tpl_text *t = self.as.text, *needle;
    size_t first, end, at = 0;
    bool found = false;
    if (!tpl_slot_text(r, call, 0, "", &needle) || !window(r, t, call, &first, &end)) return false;
    *out = tpl_int(-1);
    if (first == SIZE_MAX) return true;
    str hay = {tpl_text_str(t).ptr + first, end - first};
    if (!last) {
        if (!tpl_text_find(r, hay, tpl_text_str(needle), 0, &at, &found)) return false;
    } else if (needle->len == 0) {
        at = hay.len;
        found = true;
    } else if (!find_last(r, hay, tpl_text_str(needle), hay.len, &at, &found)) {
        return false;
    }
    if (!found) return true;
    if (!tpl_charge(r, first + at)) return false;
    tpl_text before = {t->buffer, t->first, first + at, TPL_UNCOUNTED};
    *out = tpl_int((int64_t)tpl_text_chars(&before));
    return true;
}

bool tpl_method_find_left(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return search(r, self, call, false, out);
}

bool tpl_method_find_right(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return search(r, self, call, true, out);
}

static bool found_or_fail(tpl_render *r, tpl_value place)
{
    return place.as.i >= 0 || tpl_fail(r, WEFT_FORMAT, "substring not found");
}

bool tpl_method_index(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return search(r, self, call, false, out) && found_or_fail(r, *out);
}

bool tpl_method_rindex(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return search(r, self, call, true, out) && found_or_fail(r, *out);
}

bool tpl_method_count(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    tpl_text *t = self.as.text, *needle;
    size_t first, end;
    if (!tpl_slot_text(r, call, 0, "", &needle) || !window(r, t, call, &first, &end)) return false;
    *out = tpl_int(0);
    if (first == SIZE_MAX) return true;
    tpl_text part = {t->buffer, t->first + first, end - first, TPL_UNCOUNTED};
    if (needle->len == 0) {
        *out = tpl_int((int64_t)tpl_text_chars(&part) + 1);
        return true;
    }
    int64_t n = 0;
    for (size_t at = 0;; n++) {
        bool found;
        if (!tpl_text_find(r, tpl_text_str(&part), tpl_text_str(needle), at, &at, &found)) {
            return false;
        }
        if (!found) break;
        at += needle->len;
    }
    *out = tpl_int(n);
    return true;
}

/* One prefix or suffix, or a tuple of them. */
static bool affixed(tpl_render *r, tpl_value self, const tpl_call *call, bool at_end,
                    tpl_value *out)
{
    size_t first, end;
    tpl_value one = call->slot[0];
    bool is_tuple = tpl_is_seq(one, TPL_TUPLE);
    if (!is_tuple && one.kind != TPL_TEXT) {
        return tpl_fail_type(r, "expected a string or a tuple of strings, got", one);
    }
    if (!window(r, self.as.text, call, &first, &end)) return false;
    *out = tpl_bool(false);
    if (first == SIZE_MAX) return true;
    str s = {tpl_text_str(self.as.text).ptr + first, end - first};
    size_t n = is_tuple ? one.as.seq->n : 1;
    for (size_t i = 0; i < n; i++) {
        tpl_value affix = is_tuple ? one.as.seq->items[i] : one;
        if (affix.kind != TPL_TEXT) {
            return tpl_fail_type(r, "expected a tuple of strings, got one with", affix);
        }
        str a = tpl_text_str(affix.as.text);
        if (!tpl_charge(r, a.len)) return false;
        if (a.len > s.len) continue;
        const char *place = at_end ? s.ptr + s.len - a.len : s.ptr;
        if (a.len == 0 || memcmp(place, a.ptr, a.len) == 0) *out = tpl_bool(true);
    }
    return true;
}

bool tpl_method_startswith(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return affixed(r, self, call, false, out);
}

bool tpl_method_endswith(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return affixed(r, self, call, true, out);
}

static bool split_space(tpl_render *r, const tpl_text *t, int64_t n, tpl_seq *parts)
{
    size_t capacity = 0;
    str s = tpl_text_str(t);
    size_t at = tpl_space_prefix(s);
    while (at < s.len) {
        size_t end = at, step;
        while (n != 0 && end < s.len &&
               !tpl_char_is_space(tpl_char_at((str){s.ptr + end, s.len - end}, &step))) {
            end += step;
        }
        /* What is left when the splits are used up goes in whole, white space at its end too. */
        if (n == 0) end = s.len;
        if (!push_view(r, parts, &capacity, t, at, end)) return false;
        if (n == 0) break;
        n--;
        at = end + tpl_space_prefix((str){s.ptr + end, s.len - end});
    }
    return true;
}

/* The same from the right; parts come out in reverse. */
static bool rsplit_space(tpl_render *r, const tpl_text *t, int64_t n, tpl_seq *parts)
{
    size_t capacity = 0;
    str s = tpl_text_str(t);
    size_t end = s.len - tpl_space_suffix(s);
    while (end > 0) {
        size_t at = end;
        while (n != 0 && at > 0 && tpl_space_suffix((str){s.ptr, at}) == 0) {
            at--;
            while (at > 0 && ((unsigned char)s.ptr[at] & 0xc0) == 0x80) at--;
        }
        if (n == 0) at = 0;
        if (!push_view(r, parts, &capacity, t, at, end)) return false;
        if (n == 0) break;
        n--;
        end = at - tpl_space_suffix((str){s.ptr, at});
    }
    return true;
}

static bool split_by(tpl_render *r, const tpl_text *t, str separator, int64_t n, tpl_seq *parts)
{
    size_t capacity = 0, at = 0;
    str s = tpl_text_str(t);
    for (; n != 0; n--) {
        size_t place;
        bool found;
        if (!tpl_text_find(r, s, separator, at, &place, &found)) return false;
        if (!found) break;
        if (!push_view(r, parts, &capacity, t, at, place)) return false;
        at = place + separator.len;
    }
    return push_view(r, parts, &capacity, t, at, s.len);
}

static bool rsplit_by(tpl_render *r, const tpl_text *t, str separator, int64_t n, tpl_seq *parts)
{
    size_t capacity = 0;
    str s = tpl_text_str(t);
    size_t end = s.len;
    for (; n != 0; n--) {
        size_t place;
        bool found;
        if (!find_last(r, s, separator, end, &place, &found)) return false;
        if (!found) break;
        if (!push_view(r, parts, &capacity, t, place + separator.len, end)) return false;
        end = place;
    }
    return push_view(r, parts, &capacity, t, 0, end);
}

static void reverse(tpl_seq *s)
{
    for (size_t i = 0; i < s->n / 2; i++) {
        tpl_value other = s->items[i];
        s->items[i] = s->items[s->n - 1 - i];
        s->items[s->n - 1 - i] = other;
    }
}

static bool split(tpl_render *r, tpl_value self, const tpl_call *call, bool from_right,
                  tpl_value *out)
{
    bool spaces = !call->given[0] || call->slot[0].kind == TPL_NONE;
    tpl_text *separator = NULL;
    int64_t n;
    tpl_seq *parts = tpl_seq_new(r, TPL_LIST, 0);
    if (parts == NULL || !tpl_slot_int(r, call, 1, -1, &n) || !tpl_charge(r, self.as.text->len)) {
        return false;
    }
    *out = tpl_seq_value(parts);
    bool ok;
    if (spaces) {
        ok = from_right ? rsplit_space(r, self.as.text, n, parts)
                        : split_space(r, self.as.text, n, parts);
    } else {
        if (!tpl_slot_text(r, call, 0, "", &separator)) return false;
        if (separator->len == 0) return empty_separator(r);
        str by = tpl_text_str(separator);
        ok = from_right ? rsplit_by(r, self.as.text, by, n, parts)
                        : split_by(r, self.as.text, by, n, parts);
    }
    if (ok && from_right) reverse(parts);
    return ok;
}

bool tpl_method_split(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return split(r, self, call, false, out);
}

bool tpl_method_rsplit(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return split(r, self, call, true, out);
}

static bool partition(tpl_render *r, tpl_value self, const tpl_call *call, bool last,
                      tpl_value *out)
{
    tpl_text *t = self.as.text, *separator;
    size_t at;
    bool found;
    if (!tpl_slot_text(r, call, 0, "", &separator)) return false;
    if (separator->len == 0) return empty_separator(r);
    str s = tpl_text_str(t), by = tpl_text_str(separator);
    if (last ? !find_last(r, s, by, s.len, &at, &found)
             : !tpl_text_find(r, s, by, 0, &at, &found)) {
        return false;
    }
    size_t ends[4] = {0, s.len, s.len, s.len};
    if (!found && last) ends[1] = ends[2] = 0;
    if (found) {
        ends[1] = at;
        ends[2] = at + by.len;
    }
    tpl_seq *parts = tpl_seq_new(r, TPL_TUPLE, 3);
    if (parts == NULL) return false;
    for (size_t i = 0; i < 3; i++) {
        if (!take(tpl_text_view(r, t, ends[i], ends[i + 1] - ends[i]), &parts->items[i])) {
            return false;
        }
    }
    *out = tpl_seq_value(parts);
    return true;
}

bool tpl_method_partition(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return partition(r, self, call, false, out);
}

bool tpl_method_rpartition(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return partition(r, self, call, true, out);
}
