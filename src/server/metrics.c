/* metrics.c - histograms. */
#include "server/metrics.h"

const double METRICS_FIRST_S[METRICS_BUCKETS] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                                 0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0};
const double METRICS_EACH_S[METRICS_BUCKETS] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5};
const double METRICS_WHOLE_S[METRICS_BUCKETS] = {0.05, 0.1, 0.3, 0.5,  0.8,  1.0,  1.5,  2.0,
                                                 2.5,  5.0, 10., 15.0, 20.0, 30.0, 60.0, 120.0};

void histogram_add(histogram *h, const double *bounds, double value)
{
    uint32_t i = 0;
    while (i < METRICS_BUCKETS && value > bounds[i]) i++;
    h->counts[i]++;
    h->sum += value;
}
