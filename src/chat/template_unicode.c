/* template_unicode.c - characters as Python's str sees them: white space, classes, case.
 *
 * Templates are judged against Python's Jinja2, whose str methods follow Unicode; the tables are
 * generated from the same source. */
#include "chat/template_unicode.h"

#include "base/assert.h"
#include "base/utf8.h"

/* Code points from first up to the next row's first. */
typedef struct class_run {
    uint32_t first;
    uint32_t bits;
} class_run;

/* first, first + stride, ..., last map by adding delta. */
typedef struct case_run {
    uint32_t first, last, stride;
    int32_t delta;
} case_run;

typedef struct case_several {
    uint32_t from;
    uint32_t to[3]; /* 0: none */
} case_several;

#include "chat/template_unicode_data.h"

unsigned tpl_char_class(uint32_t code_point)
{
    size_t low = 0, high = COUNT_OF(CLASSES);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (CLASSES[middle].first <= code_point) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return CLASSES[low].bits;
}

bool tpl_char_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

uint32_t tpl_char_at(str s, size_t *n_bytes)
{
    uint32_t code_point = 0;
    size_t n = utf8_decode(s.ptr, s.len, &code_point);
    if (n == 0) {
        n = 1;
        code_point = 0xfffd;
    }
    *n_bytes = n;
    return code_point;
}

size_t tpl_space_prefix(str s)
{
    size_t at = 0;
    while (at < s.len) {
        size_t n;
        if (!tpl_char_is_space(tpl_char_at((str){s.ptr + at, s.len - at}, &n))) break;
        at += n;
    }
    return at;
}

size_t tpl_space_suffix(str s)
{
    size_t end = s.len;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && ((unsigned char)s.ptr[start] & 0xc0) == 0x80) start--;
        size_t n;
        if (!tpl_char_is_space(tpl_char_at((str){s.ptr + start, end - start}, &n))) break;
        end = start;
    }
    return s.len - end;
}

size_t tpl_name_char(str s)
{
    if (s.len == 0) return 0;
    unsigned char c = (unsigned char)s.ptr[0];
    if (c < 0x80) {
        bool is_word =
            (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
        return is_word ? 1 : 0;
    }
    size_t n;
    unsigned bits = tpl_char_class(tpl_char_at(s, &n));
    return (bits & (TPL_CHAR_ALPHA | TPL_CHAR_DECIMAL)) != 0 ? n : 0;
}

static uint32_t map_single(const case_run *rows, size_t n_rows, uint32_t code_point)
{
    size_t low = 0, high = n_rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const case_run *row = &rows[middle];
        if (code_point < row->first) {
            high = middle;
        } else if (code_point > row->last) {
            low = middle + 1;
        } else {
            bool hit = (code_point - row->first) % row->stride == 0;
            return hit ? (uint32_t)((int32_t)code_point + row->delta) : code_point;
        }
    }
    return code_point;
}

static size_t map_several(const case_several *rows, size_t n_rows, uint32_t code_point,
                          uint32_t mapped[3])
{
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].from != code_point) continue;
        size_t n = 0;
        while (n < 3 && rows[i].to[n] != 0) {
            mapped[n] = rows[i].to[n];
            n++;
        }
        return n;
    }
    return 0;
}

typedef struct case_table {
    const case_run *runs;
    size_t n_runs;
    const case_several *several;
    size_t n_several;
} case_table;

#define TABLE(runs, several)                                                                       \
    {                                                                                              \
        runs, COUNT_OF(runs), several, COUNT_OF(several)                                           \
    }

/* Title case has rows of its own where it differs from upper case. */
static const case_table TABLES[] = {
    [TPL_CASE_UPPER] = TABLE(UPPER, UPPER_SEVERAL),
    [TPL_CASE_LOWER] = TABLE(LOWER, LOWER_SEVERAL),
    [TPL_CASE_TITLE] = TABLE(UPPER, UPPER_SEVERAL),
    [TPL_CASE_FOLD] = TABLE(FOLD, FOLD_SEVERAL),
};

size_t tpl_char_map(uint32_t code_point, tpl_case to, uint32_t mapped[3])
{
    const case_table *table = &TABLES[to];
    size_t n = 0;
    if (code_point >= 0x80 && to == TPL_CASE_TITLE) {
        n = map_several(TITLE_SEVERAL, COUNT_OF(TITLE_SEVERAL), code_point, mapped);
    }
    if (n == 0 && code_point >= 0x80) {
        n = map_several(table->several, table->n_several, code_point, mapped);
    }
    if (n != 0) return n;
    mapped[0] = map_single(table->runs, table->n_runs, code_point);
    return 1;
}
