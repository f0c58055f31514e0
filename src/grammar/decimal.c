/* decimal.c - exact decimals: a schema's bounds are compared as they are written. */
#include <string.h>

#include "grammar/number.h"

/* Appends a digit; zeros before the first one only move the point. */
static bool add_digit(decimal *d, unsigned char digit)
{
    if (d->n == 0 && digit == 0) return true;
    if (d->n == DECIMAL_DIGITS) return digit == 0;
    d->digits[d->n++] = digit;
    return true;
}

static bool parse(const char *text, decimal *d)
{
    int32_t point = 0, exponent = 0;
    bool fraction = false, exact = true;
    memset(d, 0, sizeof *d);
    d->negative = *text == '-';
    for (text += d->negative; *text != '\0' && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            fraction = true;
            continue;
        }
        uint32_t before = d->n;
        exact &= add_digit(d, (unsigned char)(*text - '0'));
        bool leading = d->n == 0 && before == 0;
        if (!fraction) point += !leading;
        if (fraction && leading) point--;
    }
    if (*text != '\0') {
        bool below = *++text == '-';
        if (*text == '-' || *text == '+') text++;
        for (; *text != '\0' && exponent < 10000; text++) exponent = exponent * 10 + (*text - '0');
        if (below) exponent = -exponent;
    }
    while (d->n > 0 && d->digits[d->n - 1] == 0) d->n--;
    d->point = d->n == 0 ? 0 : point + exponent;
    if (d->n == 0) d->negative = false;
    return exact;
}

bool decimal_of(const json *number, decimal *d)
{
    json_kind kind = json_kind_of(number);
    if (kind != JSON_KIND_INT && kind != JSON_KIND_REAL) return false;
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    bool done = json_write(number, 0, &text) == WEFT_OK && parse(strbuf_text(&text), d);
    strbuf_deinit(&text);
    return done;
}

static int compare_sizes(const decimal *a, const decimal *b)
{
    if (a->n == 0 || b->n == 0) return (a->n != 0) - (b->n != 0);
    if (a->point != b->point) return a->point < b->point ? -1 : 1;
    for (uint32_t i = 0; i < a->n || i < b->n; i++) {
        int x = i < a->n ? a->digits[i] : 0, y = i < b->n ? b->digits[i] : 0;
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

int decimal_compare(const decimal *a, const decimal *b)
{
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    int order = compare_sizes(a, b);
    return a->negative ? -order : order;
}

bool decimal_is_whole(const decimal *d)
{
    return d->n == 0 || (d->point > 0 && (uint32_t)d->point >= d->n);
}

/* ---- multiples ---- */

bool multiple_of(const decimal *d, multiple *m)
{
    uint64_t unit = 0;
    if (d->negative || d->n == 0 || d->point > 8) return false;
    for (uint32_t i = 0; i < d->n; i++) {
        unit = unit * 10 + d->digits[i];
        if (unit > NUMBER_MULTIPLE) return false;
    }
    int32_t places = (int32_t)d->n - d->point;
    for (; places < 0; places++) unit *= 10;
    if (places > NUMBER_PLACES || unit > NUMBER_MULTIPLE) return false;
    *m = (multiple){(uint32_t)unit, (uint32_t)places};
    return true;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool multiple_join(const multiple *a, const multiple *b, multiple *both)
{
    if (a->unit == 0 || b->unit == 0) {
        *both = a->unit == 0 ? *b : *a;
        return true;
    }
    uint32_t places = a->places > b->places ? a->places : b->places;
    uint64_t x = a->unit, y = b->unit;
    for (uint32_t i = a->places; i < places && x <= NUMBER_MULTIPLE; i++) x *= 10;
    for (uint32_t i = b->places; i < places && y <= NUMBER_MULTIPLE; i++) y *= 10;
    uint64_t unit = x / common_divisor(x, y) * y;
    if (x > NUMBER_MULTIPLE || y > NUMBER_MULTIPLE || unit > NUMBER_MULTIPLE) return false;
    *both = (multiple){(uint32_t)unit, places};
    return true;
}

bool multiple_divides(const multiple *m, const decimal *d)
{
    if (m->unit == 0 || d->n == 0) return true;
    int32_t places = (int32_t)d->n - d->point; /* of the last digit, behind the point */
    if (places > (int32_t)m->places) return false;
    uint64_t rest = 0;
    for (uint32_t i = 0; i < d->n; i++) rest = (rest * 10 + d->digits[i]) % m->unit;
    for (int32_t i = places; i < (int32_t)m->places; i++) rest = rest * 10 % m->unit;
    return rest == 0;
}

/* ---- bounds ---- */

bool bounds_meet(const bounds *a, const bounds *b, bounds *both)
{
    *both = *a;
    int low = a->has_low && b->has_low ? decimal_compare(&a->low, &b->low) : 0;
    if (b->has_low && (!a->has_low || low < 0 || (low == 0 && b->above_low))) {
        both->has_low = true;
        both->low = b->low;
        both->above_low = b->above_low;
    }
    int high = a->has_high && b->has_high ? decimal_compare(&a->high, &b->high) : 0;
    if (b->has_high && (!a->has_high || high > 0 || (high == 0 && b->below_high))) {
        both->has_high = true;
        both->high = b->high;
        both->below_high = b->below_high;
    }
    return multiple_join(&a->step, &b->step, &both->step);
}

bool bounds_are_empty(const bounds *b)
{
    if (!b->has_low || !b->has_high) return false;
    int order = decimal_compare(&b->low, &b->high);
    return order > 0 || (order == 0 && (b->above_low || b->below_high));
}

bool bounds_admit(const bounds *b, const decimal *d)
{
    int low = b->has_low ? decimal_compare(d, &b->low) : 1;
    int high = b->has_high ? decimal_compare(d, &b->high) : -1;
    return (low > 0 || (low == 0 && !b->above_low)) &&
           (high < 0 || (high == 0 && !b->below_high)) && multiple_divides(&b->step, d);
}
