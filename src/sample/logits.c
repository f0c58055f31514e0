/* logits.c - loops over a vocabulary.
 *
 * Vectors of four, which every x86-64 and aarch64 has: the same operations in the same order on
 * each, so the same bits. */
#include "sample/logits.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 4, BLOCK = 16 };

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef double doubles __attribute__((vector_size(8 * LANES)));

/* Whether one of BLOCK numbers is larger. */
static bool any_above(const float *logits, float best)
{
    words any = {0};
    for (uint32_t i = 0; i < BLOCK; i += LANES) {
        floats x;
        memcpy(&x, logits + i, sizeof x);
        any |= (words)(x > best);
    }
    return (any[0] | any[1] | any[2] | any[3]) != 0;
}

int32_t logits_largest(const float *logits, uint32_t n)
{
    int32_t id = -1;
    float best = -INFINITY;
    for (uint32_t first = 0; first < n; first += BLOCK) {
        uint32_t end = n - first < BLOCK ? n : first + BLOCK;
        /* Most blocks have none. */
        if (end - first == BLOCK && !any_above(logits + first, best)) continue;
        for (uint32_t i = first; i < end; i++) {
            if (!(logits[i] > best)) continue;
            best = logits[i];
            id = (int32_t)i;
        }
    }
    return id;
}

/* exp(x) for x in -80 to 0, else 0, as 2^k exp(r): adding 1.5 * 2^23 rounds to whole numbers, and
 * leaves k in the low bits. */
static inline floats exp_of(floats x)
{
    const float magic = 0x1.8p23F;
    floats t = x * 1.44269504F + magic;
    floats k = t - magic;
    floats r = x - k * 0.693145752F; /* ln 2 in two parts, of which the first is short */
    r = r - k * 1.42860677e-6F;
    floats y = r * (1.0F / 5040.0F) + 1.0F / 720.0F;
    y = y * r + 1.0F / 120.0F;
    y = y * r + 1.0F / 24.0F;
    y = y * r + 1.0F / 6.0F;
    y = y * r + 0.5F;
    y = y * r + 1.0F;
    y = y * r + 1.0F;
    words bits = (words)y + ((words)t << 23);
    bits &= (words)(x > -80.0F); /* false for what is no number, too */
    return (floats)bits;
}

static floats sum_block(const float *logits, float max)
{
    floats sum = {0.0F};
    for (uint32_t i = 0; i < BLOCK; i += LANES) {
        floats x;
        memcpy(&x, logits + i, sizeof x);
        sum += exp_of(x - max);
    }
    return sum;
}

double logits_sum_exp(const float *logits, uint32_t n, float max)
{
    double total = 0.0;
    if (isinf(max)) {
        for (uint32_t i = 0; i < n; i++) total += logits[i] == max ? 1.0 : 0.0;
        return total;
    }
    doubles sum = {0.0};
    uint32_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK)
        sum += __builtin_convertvector(sum_block(logits + i, max), doubles);
    float tail[BLOCK];
    for (uint32_t k = 0; k < BLOCK; k++) tail[k] = k < n - i ? logits[i + k] : -INFINITY;
    sum += __builtin_convertvector(sum_block(tail, max), doubles);
    for (uint32_t k = 0; k < LANES; k++) total += sum[k];
    return total;
}
