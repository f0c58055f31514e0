/* candidates.h - tokens that may be chosen, in order of preference, sorted as far as need be. */
#ifndef SAMPLE_CANDIDATES_H
#define SAMPLE_CANDIDATES_H

#include "base/err.h"

/* The first n_sorted of ids and logits are the largest logits in descending order (equal ones by
 * ascending id), the rest a heap. */
typedef struct candidates {
    int32_t *ids;      /* [n_all] */
    float *logits;     /* [n_all], after temperature */
    uint32_t first, n; /* those left are first .. n - 1: samplers narrow that, at sorted places */
    uint32_t n_all;
    uint32_t n_sorted;
} candidates;

/* Of n_all candidates in any order. */
void candidates_init(candidates *c);

/* Makes the first n (or all) of them sorted. */
void candidates_sort(candidates *c, uint32_t n);

/* Of candidate i < n, which is sorted thereby, the weight that the likeliest left has as 1. */
double candidates_weight(candidates *c, uint32_t i);

/* The sum of all weights that are left. */
double candidates_total(const candidates *c);

#endif
