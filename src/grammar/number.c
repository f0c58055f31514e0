/* number.c - numbers as automata that read digits and remember no more than the bounds need: how
 * the digits so far compare with each bound's, and what is left of them modulo the step. */
#include "grammar/number.h"

#include <string.h>

#include "base/assert.h"

typedef enum place { BEGIN, MINUS, ZERO, DIGITS, POINT, FRACTION } place;

typedef struct reading {
    uint32_t rest; /* modulo the step */
    unsigned char place, negative;
    unsigned char n_whole;    /* digits before the point, no more than matter */
    unsigned char n_fraction; /* and behind it */
    unsigned char nonzero, fraction_nonzero;
    signed char low, high; /* how the digits compare with the bound's first ones */
} reading;

typedef struct reader {
    const bounds *b;
    bool whole, others;
    uint32_t most_whole, most_fraction; /* digits that matter */
    bool track_low[2], track_high[2];   /* for positive numbers, for negative ones */
} reader;

static uint32_t whole_digits(const decimal *d)
{
    return d->n == 0 || d->point <= 0 ? 0 : (uint32_t)d->point;
}

/* The digit at a place, counted from the first one before the point (at < 0: behind it). */
static unsigned char digit_at(const decimal *d, int32_t at)
{
    int32_t i = d->point - 1 - at;
    return i < 0 || (uint32_t)i >= d->n ? 0 : d->digits[i];
}

static uint32_t fraction_digits(const decimal *d)
{
    int32_t n = (int32_t)d->n - d->point;
    return d->n == 0 || n < 0 ? 0 : (uint32_t)n;
}

static signed char order_of(int a, int b)
{
    return (signed char)(a < b ? -1 : a > b);
}

/* The number's digits before the point are all read. */
static signed char end_whole(const decimal *bound, const reading *r, signed char order)
{
    uint32_t n = whole_digits(bound);
    return r->n_whole == n ? order : order_of((int)r->n_whole, (int)n);
}

static signed char add_whole(const decimal *bound, uint32_t at, unsigned char digit,
                             signed char order)
{
    uint32_t n = whole_digits(bound);
    if (order != 0 || at >= n) return order;
    return order_of(digit, digit_at(bound, (int32_t)(n - 1 - at)));
}

static signed char add_fraction(const decimal *bound, uint32_t at, unsigned char digit,
                                signed char order)
{
    return order != 0 ? order : order_of(digit, digit_at(bound, -1 - (int32_t)at));
}

static bool step_point(const reader *u, reading *r)
{
    if (!u->others || (r->place != ZERO && r->place != DIGITS)) return false;
    if (u->track_low[r->negative]) r->low = end_whole(&u->b->low, r, r->low);
    if (u->track_high[r->negative]) r->high = end_whole(&u->b->high, r, r->high);
    r->place = POINT;
    r->n_whole = 0;
    return true;
}

static bool step_whole(const reader *u, reading *r, unsigned char digit)
{
    if (r->place == ZERO) return false;
    if (r->place != DIGITS && digit == 0) {
        r->place = ZERO;
        return true;
    }
    r->place = DIGITS;
    r->nonzero = 1;
    if (u->track_low[r->negative]) r->low = add_whole(&u->b->low, r->n_whole, digit, r->low);
    if (u->track_high[r->negative]) r->high = add_whole(&u->b->high, r->n_whole, digit, r->high);
    if (r->n_whole <= u->most_whole) r->n_whole++;
    return true;
}

static bool step_fraction(const reader *u, reading *r, unsigned char digit)
{
    const multiple *m = &u->b->step;
    if (m->unit != 0 && r->n_fraction >= m->places) return false;
    r->place = FRACTION;
    if (digit != 0) r->nonzero = r->fraction_nonzero = 1;
    if (u->track_low[r->negative]) r->low = add_fraction(&u->b->low, r->n_fraction, digit, r->low);
    if (u->track_high[r->negative])
        r->high = add_fraction(&u->b->high, r->n_fraction, digit, r->high);
    if (r->n_fraction < u->most_fraction) r->n_fraction++;
    return true;
}

static bool number_step(const void *user, const void *state, unsigned char byte, void *next)
{
    const reader *u = user;
    reading r;
    memcpy(&r, state, sizeof r);
    bool done;
    if (byte == '-') {
        done = r.place == BEGIN;
        r.place = MINUS;
        r.negative = 1;
    } else if (byte == '.') {
        done = step_point(u, &r);
    } else if (byte < '0' || byte > '9') {
        return false;
    } else {
        unsigned char digit = (unsigned char)(byte - '0');
        done = r.place >= POINT ? step_fraction(u, &r, digit) : step_whole(u, &r, digit);
        if (u->b->step.unit != 0)
            r.rest = (uint32_t)(((uint64_t)r.rest * 10 + digit) % u->b->step.unit);
    }
    memcpy(next, &r, sizeof r);
    return done;
}

/* How the whole number compares with a bound's size; digits of the bound that are left are not all
 * zero. */
static int final_order(const decimal *bound, const reading *r, signed char order)
{
    if (r->place < POINT) order = end_whole(bound, r, order);
    uint32_t left = fraction_digits(bound);
    if (order != 0) return order;
    return (r->place < POINT ? 0 : r->n_fraction) < left ? -1 : 0;
}

static bool within(const reader *u, const reading *r)
{
    const bounds *b = u->b;
    if (b->has_low) {
        if (r->negative != 0 && !b->low.negative) return false;
        int order = 1;
        if (u->track_low[r->negative]) order = final_order(&b->low, r, r->low);
        if (u->track_low[r->negative] && r->negative != 0) order = -order;
        if (order < 0 || (order == 0 && b->above_low)) return false;
    }
    if (b->has_high) {
        if (r->negative == 0 && b->high.negative) return false;
        int order = -1;
        if (u->track_high[r->negative]) order = final_order(&b->high, r, r->high);
        if (u->track_high[r->negative] && r->negative != 0) order = -order;
        if (order > 0 || (order == 0 && b->below_high)) return false;
    }
    return true;
}

static unsigned char number_flag(const void *user, const void *state)
{
    const reader *u = user;
    reading r;
    memcpy(&r, state, sizeof r);
    bool ends = r.place == ZERO || r.place == DIGITS || r.place == FRACTION;
    if (r.negative != 0 && r.nonzero == 0) ends = false;
    if (!u->whole && r.fraction_nonzero == 0) ends = false;
    uint64_t rest = r.rest;
    for (uint32_t i = r.n_fraction; u->b->step.unit != 0 && i < u->b->step.places; i++)
        rest = rest * 10 % u->b->step.unit;
    ends = ends && rest == 0 && within(u, &r);
    /* Every byte counts: a number's length is bounded by its lexeme. */
    return ends ? DFA_ACCEPT | DFA_WHOLE : DFA_WHOLE;
}

static void widen(uint32_t *most, uint32_t n)
{
    if (n > *most) *most = n;
}

static const lexeme *free_numbers(program *p, bool others)
{
    const char *pattern = others ? "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,17})?([eE][-+]?[0-9]{1,2})?"
                                 : "0|-?[1-9][0-9]{0,17}";
    return lexeme_make(p,
                       dfa_of_regex(p, regex_parse(p, str_of(pattern), REGEX_WHOLE), SPELLING_TEXT),
                       0, LEXEME_ENDLESS);
}

const lexeme *lexeme_of_numbers(program *p, const bounds *b, bool whole, bool others)
{
    bool bounded = b->has_low || b->has_high || b->step.unit != 0;
    if (!bounded && whole) return free_numbers(p, others);
    if (bounds_are_empty(b)) return NULL;
    bounds near = *b;
    /* No number that is written here is so large. */
    bool far_high = near.has_high && !near.high.negative && near.high.point > NUMBER_DIGITS;
    bool far_low = near.has_low && near.low.negative && near.low.point > NUMBER_DIGITS;
    if (far_high) near.has_high = false;
    if (far_low) near.has_low = false;
    if ((near.has_low && near.low.point > DECIMAL_DIGITS) ||
        (near.has_high && near.high.point > DECIMAL_DIGITS)) {
        program_fail(p, WEFT_LIMIT, "numbers beyond 10^%d", DECIMAL_DIGITS);
        return NULL;
    }
    reader u = {.b = &near, .whole = whole, .others = others};
    uint32_t low = near.has_low ? whole_digits(&near.low) : 0;
    uint32_t high = near.has_high ? whole_digits(&near.high) : 0;
    widen(&u.most_whole, low);
    widen(&u.most_whole, high);
    if (near.has_low) widen(&u.most_fraction, fraction_digits(&near.low));
    if (near.has_high) widen(&u.most_fraction, fraction_digits(&near.high));
    if (u.most_fraction > NUMBER_DIGITS + 1) u.most_fraction = NUMBER_DIGITS + 1;
    widen(&u.most_fraction, near.step.places);
    /* Large numbers are written whole, or rounding would move them over their bounds. */
    if (u.most_whole >= NUMBER_DIGITS) u.others = false;
    if (!u.others && !whole) return NULL;
    u.track_low[near.low.negative] = near.has_low;
    u.track_high[near.high.negative] = near.has_high;
    reading start = {.place = BEGIN};
    const dfa_source source = {&u, sizeof start, &start, number_step, number_flag, "-.0123456789"};
    const dfa *d = dfa_of_source(p, &source);
    uint32_t most = NUMBER_DIGITS + u.others;
    widen(&most, u.most_whole + 1);
    return lexeme_make(p, d, 0, most);
}
