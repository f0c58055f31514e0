/* oracle_norm.c - norms and their bounds. The root of a mean square changes by at most that of the
 * errors; a number less the mean is off by what both are. */
#include "support/oracle_norm.h"

#include <math.h>
#include <stddef.h>

void oracle_norm_run(const oracle_norm *how, const double *x, const double *e, double *y,
                     double *ye)
{
    double mean = 0.0;
    double mean_e = 0.0;
    double squares = 0.0;
    double errors = 0.0;
    double n = (double)how->n;
    for (uint32_t k = 0; k < how->n && how->centered; k++) {
        mean += x[k] / n;
        mean_e += e[k] / n;
    }
    for (uint32_t k = 0; k < how->n; k++) {
        squares += (x[k] - mean) * (x[k] - mean);
        errors += (e[k] + mean_e) * (e[k] + mean_e);
    }
    double root = sqrt(squares / n + how->eps);
    double rho = sqrt(errors / n) / root;
    double grown = rho < 0.5 ? 1.0 / (1.0 - rho) : (double)INFINITY;
    for (uint32_t k = 0; k < how->n; k++) {
        double w = how->w != NULL ? (double)how->w[k] : 1.0;
        double b = how->b != NULL ? (double)how->b[k] : 0.0;
        double factor = (w + how->add) / root;
        double d = x[k] - mean;
        double terms = (fabs(w) + fabs(how->add)) / root * fabs(d);
        y[k] = d * factor + b;
        ye[k] = fabs(factor) * grown * (e[k] + mean_e + fabs(d) * rho);
        ye[k] += how->error * (terms * grown + fabs(b));
        /* What two floats do not hold of the mean. */
        ye[k] += 0x1p-48 * fabs(mean) * fabs(factor) * grown;
    }
}
