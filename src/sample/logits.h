/* logits.h - what is asked of all logits of a token: a vocabulary long, and once a row and step. */
#ifndef SAMPLE_LOGITS_H
#define SAMPLE_LOGITS_H

#include <stdint.h>

/* The first of the largest; -1: none is a number above minus infinity. */
int32_t logits_largest(const float *logits, uint32_t n);

/* Sum of exp(logit - max) over those that are numbers, max being the largest: of infinities their
 * number. A term is right to 2e-7, and 6e-8 for each unit that it lies below max; from 80 on they
 * are left out. The largest itself is exactly 1. */
double logits_sum_exp(const float *logits, uint32_t n, float max);

#endif
