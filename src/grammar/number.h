/* number.h - exact decimal numbers, and automata of the JSON numbers within bounds. */
#ifndef GRAMMAR_NUMBER_H
#define GRAMMAR_NUMBER_H

#include "base/json.h"
#include "grammar/dfa.h"

enum {
    DECIMAL_DIGITS = 40,
    NUMBER_DIGITS = 15,     /* of a number with bounds: readers with doubles tell those apart */
    NUMBER_MULTIPLE = 4000, /* largest multipleOf, in units of its last place */
    NUMBER_PLACES = 20,     /* and places behind its point */
};

/* 0.d1 d2 ... dn times ten to the power of point; n 0 is zero. No zero at either end. */
typedef struct decimal {
    bool negative;
    uint32_t n;
    int32_t point;
    unsigned char digits[DECIMAL_DIGITS];
} decimal;

/* Of the shortest text that reads back as the same number. */
bool decimal_of(const json *number, decimal *d);
int decimal_compare(const decimal *a, const decimal *b);
bool decimal_is_whole(const decimal *d);

/* Multiples of unit / 10^places; unit 0: no such bound. */
typedef struct multiple {
    uint32_t unit, places;
} multiple;

bool multiple_of(const decimal *d, multiple *m);
bool multiple_join(const multiple *a, const multiple *b, multiple *both); /* false: too large */
bool multiple_divides(const multiple *m, const decimal *d);

typedef struct bounds {
    bool has_low, has_high, above_low, below_high; /* above, below: not the bound itself */
    decimal low, high;
    multiple step;
} bounds;

bool bounds_meet(const bounds *a, const bounds *b, bounds *both); /* false: step too large */
bool bounds_are_empty(const bounds *b);
bool bounds_admit(const bounds *b, const decimal *d);

/* Numbers within bounds: whole ones, others, or both. NULL without a failure: there are none. */
const lexeme *lexeme_of_numbers(program *p, const bounds *b, bool whole, bool others);

#endif
