/* score.c - softmax, divergence, means and quantiles. */
#include "cli/score.h"

#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

weft_status score_weigh(const float *logits, uint32_t n, double *weights, score_row *row,
                        weft_error *err)
{
    uint32_t top = 0;
    bool ordered = true;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] > logits[top]) top = i;
        ordered = ordered && !isnan(logits[i]);
    }
    double largest = (double)logits[top];
    if (!ordered || !isfinite(largest))
        return err_set(err, WEFT_FORMAT, "the logits are not finite");
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        double weight = exp((double)logits[i] - largest);
        if (weights != NULL) weights[i] = weight;
        sum += weight;
    }
    *row = (score_row){sum, largest + log(sum), top};
    return WEFT_OK;
}

double score_divergence(const float *p_logits, const double *p_weights, const score_row *p,
                        const float *q_logits, const score_row *q, uint32_t n)
{
    /* The difference of both sums is taken off each term, not off the result: two rows that differ
     * by a constant would lose digits. */
    double offset = p->log_sum - q->log_sum;
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        if (p_weights[i] == 0.0) continue;
        sum += p_weights[i] * ((double)p_logits[i] - (double)q_logits[i] - offset);
    }
    return sum / p->sum;
}

void score_mean_add(score_mean *m, double value)
{
    double distance = value - m->mean;
    m->n++;
    m->mean += distance / (double)m->n;
    m->squares += distance * (value - m->mean);
}

double score_mean_error(const score_mean *m)
{
    if (m->n < 2) return 0.0;
    return sqrt(m->squares / (double)(m->n - 1) / (double)m->n);
}

weft_status score_list_add(score_list *list, double value, weft_error *err)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity == 0 ? 1024 : 2 * list->capacity;
        double *values = mem_resize(mem_system(), list->values, list->capacity * sizeof *values,
                                    capacity * sizeof *values);
        if (values == NULL)
            return err_set(err, WEFT_NOMEM, "out of memory for %zu divergences", capacity);
        list->values = values;
        list->capacity = capacity;
    }
    list->values[list->n++] = value;
    return WEFT_OK;
}

void score_list_deinit(score_list *list)
{
    mem_free(mem_system(), list->values, list->capacity * sizeof *list->values);
    *list = (score_list){0};
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

double score_list_quantile(score_list *list, double share)
{
    ASSERT(share > 0.0 && share <= 1.0);
    if (list->n == 0) return 0.0;
    qsort(list->values, list->n, sizeof *list->values, compare);
    size_t rank = (size_t)ceil(share * (double)list->n);
    return list->values[rank == 0 ? 0 : rank - 1];
}
