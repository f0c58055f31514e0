/* rng.c - counter-based random numbers. */
#include "base/rng.h"

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rng_u64(uint64_t seed, uint64_t counter)
{
    return mix(mix(seed) ^ mix(counter ^ 0x7765667400000001u));
}

double rng_unit(uint64_t seed, uint64_t counter)
{
    return (double)(rng_u64(seed, counter) >> 11) * 0x1p-53;
}
