/* oracle_norm.h - one group of columns normed, and how far it may be off. */
#ifndef SUPPORT_ORACLE_NORM_H
#define SUPPORT_ORACLE_NORM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct oracle_norm {
    const float *w, *b; /* [n]; NULL: ones, zeros */
    double eps, add;    /* add: to the weight */
    uint32_t n;
    bool centered; /* the mean is taken off first */
    double error;  /* of the result, relative to its terms */
} oracle_norm;

/* x +- e to y +- ye, all [n]. */
void oracle_norm_run(const oracle_norm *how, const double *x, const double *e, double *y,
                     double *ye);

#endif
