/* metrics.h - what is counted of a model, for /metrics and /stats. In the loop's thread. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/str.h"

enum { METRICS_BUCKETS = 16 };

/* Prometheus's histogram; the upper bounds are the row's. */
typedef struct histogram {
    uint64_t counts[METRICS_BUCKETS + 1]; /* of each bucket; the last has no bound */
    double sum;
} histogram;

typedef struct metrics {
    uint64_t n_requests; /* that were submitted; of these ended: */
    uint64_t n_stop, n_length, n_cancelled, n_errors, n_deadline;
    uint64_t n_prompt_tokens, n_cached_tokens, n_new_tokens;
    uint64_t n_drafted, n_accepted;
    histogram first_s, each_s, whole_s; /* to the first token; for each further one; to the end */
} metrics;

void histogram_add(histogram *h, const double *bounds, double value);

/* Upper bounds in seconds, [METRICS_BUCKETS]. */
extern const double METRICS_FIRST_S[METRICS_BUCKETS];
extern const double METRICS_EACH_S[METRICS_BUCKETS];
extern const double METRICS_WHOLE_S[METRICS_BUCKETS];

#endif
