/* template_number.c - numbers to and from text as Python writes and reads them, whatever the host's
 * locale.
 *
 * The C library rounds correctly in both directions but writes the locale's decimal point; that is
 * the only difference, so it is replaced where it stands. */
#include "chat/template_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

static unsigned base_of_prefix(str text)
{
    if (text.len < 2 || text.ptr[0] != '0') return 0;
    char c = (char)(text.ptr[1] | 0x20);
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

tpl_number_result tpl_number_int(str text, unsigned base, int64_t *value)
{
    bool negative = text.len != 0 && text.ptr[0] == '-';
    size_t i = text.len != 0 && (negative || text.ptr[0] == '+') ? 1 : 0;
    str rest = {text.ptr + i, text.len - i};
    unsigned prefix = base_of_prefix(rest);
    if (prefix != 0 && (base == 0 || base == prefix)) {
        i += 2;
        base = prefix;
        if (i < text.len && text.ptr[i] == '_') i++;
    }
    if (base == 0) base = 10;
    if (i == text.len) return TPL_NUMBER_BAD;
    uint64_t total = 0;
    bool too_large = false, after_digit = false;
    for (; i < text.len; i++) {
        if (text.ptr[i] == '_' && after_digit && i + 1 < text.len) {
            after_digit = false;
            continue;
        }
        unsigned digit = (unsigned)digit_of(text.ptr[i]);
        if (digit >= base) return TPL_NUMBER_BAD;
        too_large |= __builtin_mul_overflow(total, (uint64_t)base, &total) ||
                     __builtin_add_overflow(total, (uint64_t)digit, &total);
        after_digit = true;
    }
    if (!after_digit) return TPL_NUMBER_BAD;
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1u : 0u);
    if (too_large || total > limit) return TPL_NUMBER_RANGE;
    *value = negative ? (int64_t)(0 - total) : (int64_t)total;
    return TPL_NUMBER_OK;
}

/* What the locale puts between 0 and 5 in 0.5. */
static void decimal_point(char point[8])
{
    char half[16];
    snprintf(half, sizeof half, "%.1f", 0.5);
    size_t n = strlen(half);
    n = n >= 3 && n - 2 < 8 ? n - 2 : 1;
    memcpy(point, half + 1, n);
    point[n] = '\0';
}

static size_t skip_digits(str text, size_t i)
{
    while (i < text.len && ((text.ptr[i] >= '0' && text.ptr[i] <= '9') ||
                            (text.ptr[i] == '_' && i + 1 < text.len && i > 0 &&
                             digit_of(text.ptr[i - 1]) < 10 && digit_of(text.ptr[i + 1]) < 10))) {
        i++;
    }
    return i;
}

static bool equal_word(str text, const char *word)
{
    if (text.len != strlen(word)) return false;
    for (size_t i = 0; i < text.len; i++) {
        if ((text.ptr[i] | 0x20) != word[i]) return false;
    }
    return true;
}

static bool special_real(str text, double *value)
{
    bool negative = text.len != 0 && text.ptr[0] == '-';
    if (text.len != 0 && (negative || text.ptr[0] == '+')) {
        text.ptr++;
        text.len--;
    }
    if (equal_word(text, "nan")) {
        *value = (double)NAN;
        return true;
    }
    if (!equal_word(text, "inf") && !equal_word(text, "infinity")) return false;
    *value = negative ? -(double)INFINITY : (double)INFINITY;
    return true;
}

bool tpl_number_real(str text, double *value)
{
    size_t i = text.len != 0 && (text.ptr[0] == '-' || text.ptr[0] == '+') ? 1 : 0;
    size_t whole = i, point = skip_digits(text, i);
    size_t n_digits = point - whole;
    i = point;
    if (i < text.len && text.ptr[i] == '.') {
        size_t end = skip_digits(text, i + 1);
        n_digits += end - i - 1;
        i = end;
    }
    if (n_digits == 0) return special_real(text, value);
    if (i < text.len && (text.ptr[i] | 0x20) == 'e') {
        size_t exponent = i + 1;
        if (exponent < text.len && (text.ptr[exponent] == '-' || text.ptr[exponent] == '+')) {
            exponent++;
        }
        i = skip_digits(text, exponent);
        if (i == exponent) return false;
    }
    char copy[1024];
    if (i != text.len || text.len + 8 >= sizeof copy) return false;
    char mark[8];
    decimal_point(mark);
    size_t n = 0;
    for (size_t k = 0; k < text.len; k++) {
        if (text.ptr[k] == '_') continue;
        if (text.ptr[k] != '.') {
            copy[n++] = text.ptr[k];
            continue;
        }
        memcpy(copy + n, mark, strlen(mark));
        n += strlen(mark);
    }
    copy[n] = '\0';
    // NOLINTNEXTLINE(check-calls): the text was given the locale's decimal point above
    *value = strtod(copy, NULL);
    return true;
}

/* Puts '.' where the locale's decimal point stands: the first run of anything but digits behind a
 * digit. */
static size_t fix_point(char *text, size_t n)
{
    size_t i = 0;
    while (i < n && (text[i] < '0' || text[i] > '9')) i++;
    while (i < n && text[i] >= '0' && text[i] <= '9') i++;
    size_t end = i;
    while (end < n && text[end] != 'e' && text[end] != 'E' &&
           (text[end] < '0' || text[end] > '9')) {
        end++;
    }
    if (end == i) return n;
    text[i] = '.';
    memmove(text + i + 1, text + end, n - end + 1);
    return n - (end - i) + 1;
}

size_t tpl_number_format(double value, char type, int precision, char *text, size_t capacity)
{
    int n;
    switch (type) {
    case 'e':
        n = snprintf(text, capacity, "%.*e", precision, value);
        break;
    case 'E':
        n = snprintf(text, capacity, "%.*E", precision, value);
        break;
    case 'f':
        n = snprintf(text, capacity, "%.*f", precision, value);
        break;
    case 'G':
        n = snprintf(text, capacity, "%.*G", precision, value);
        break;
    default:
        n = snprintf(text, capacity, "%.*g", precision, value);
        break;
    }
    if (n <= 0 || (size_t)n >= capacity) return 0;
    return isfinite(value) ? fix_point(text, (size_t)n) : (size_t)n;
}

/* The fewest digits that read back as value, as "d.ddde+xx". */
static void shortest(double value, char text[TPL_NUMBER_BYTES])
{
    for (int precision = 0; precision < 17; precision++) {
        size_t n = tpl_number_format(value, 'e', precision, text, TPL_NUMBER_BYTES);
        double back;
        if (tpl_number_real((str){text, n}, &back) && back == value) return;
    }
}

void tpl_number_print(double value, char text[TPL_NUMBER_BYTES])
{
    if (!isfinite(value)) {
        snprintf(text, TPL_NUMBER_BYTES, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    char scientific[TPL_NUMBER_BYTES];
    shortest(value, scientific);
    char digits[24] = "";
    int n = 0;
    const char *c = scientific;
    bool negative = *c == '-';
    if (negative) c++;
    for (; *c != 'e' && n < 20; c++) {
        if (*c != '.') digits[n++] = *c;
    }
    int exponent = (int)strtol(c + 1, NULL, 10);
    const char *sign = negative ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, TPL_NUMBER_BYTES, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "",
                 n - 1, digits + 1, exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
    } else if (exponent < 0) {
        snprintf(text, TPL_NUMBER_BYTES, "%s0.%.*s%.*s", sign, -exponent - 1, "000", n, digits);
    } else if (n <= exponent + 1) {
        snprintf(text, TPL_NUMBER_BYTES, "%s%.*s%.*s.0", sign, n, digits, exponent + 1 - n,
                 "0000000000000000");
    } else {
        snprintf(text, TPL_NUMBER_BYTES, "%s%.*s.%.*s", sign, exponent + 1, digits,
                 n - exponent - 1, digits + exponent + 1);
    }
}
