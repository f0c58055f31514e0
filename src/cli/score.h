/* score.h - what rows of logits say of a text: log-probabilities, the divergence of two rows, and
 * sums of both. All in double. */
#ifndef CLI_SCORE_H
#define CLI_SCORE_H

#include "base/err.h"

/* The softmax of a row. */
typedef struct score_row {
    double sum;     /* of exp(logit - largest) */
    double log_sum; /* of exp(logit): what to take off a logit for its log-probability */
    uint32_t top;   /* the first of the largest */
} score_row;

/* weights: NULL, or [n] for exp(logit - largest). FORMAT when a logit is NaN, or none is finite. */
weft_status score_weigh(const float *logits, uint32_t n, double *weights, score_row *row,
                        weft_error *err);

/* KL(p || q): what is lost by believing q where p is true, in nats. weights and row of either are
 * those of score_weigh; q needs none. Exactly 0 for equal logits. */
double score_divergence(const float *p_logits, const double *p_weights, const score_row *p,
                        const float *q_logits, const score_row *q, uint32_t n);

/* A mean and its standard error, as numbers come (Welford): as if they were independent. */
typedef struct score_mean {
    uint64_t n;
    double mean, squares; /* squares: sum of squared distances from the mean */
} score_mean;

void score_mean_add(score_mean *m, double value);
double score_mean_error(const score_mean *m);

/* All numbers of a run, for quantiles. */
typedef struct score_list {
    double *values; /* [capacity] */
    size_t n, capacity;
} score_list;

weft_status score_list_add(score_list *list, double value, weft_error *err);
void score_list_deinit(score_list *list);

/* The least value that at least share of all do not exceed; puts them in order. 0 when there are
 * none. */
double score_list_quantile(score_list *list, double share);

#endif
