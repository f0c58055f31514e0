/* rng.h - counter-based random numbers: a value is a function of (seed, counter) alone, so that
 * the draw for a position does not depend on what else was drawn. Source: splitmix64 (Steele, Lea,
 * Flood 2014), its finalizer applied to seed and counter in turn. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

uint64_t rng_u64(uint64_t seed, uint64_t counter);

/* In [0, 1), 53 bits. */
double rng_unit(uint64_t seed, uint64_t counter);

#endif
