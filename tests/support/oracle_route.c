/* oracle_route.c - which experts a token goes to, and how sure that is. */
#include "support/oracle_route.h"

#include <math.h>
#include <stdlib.h>

#include "support/test.h"
#include "tensor/encoding.h"

/* One rounding to f32. */
static const double U = 0x1p-24;

static void *zeros(size_t count, size_t size)
{
    void *block = calloc(count == 0 ? 1 : count, size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

/* Of a weight of one row; NULL where there is none. */
static float *decoded(const graph_oracle *o, graph_id id)
{
    const tensor *t = &o->g->tensors[o->g->values[id].i[0]];
    float *row = id == 0 ? NULL : zeros((size_t)t->n_cols, sizeof *row);
    if (row != NULL) t->encoding->decode_row(t, 0, row);
    return row;
}

typedef struct candidate {
    double x, e;
    uint32_t at;
} candidate;

static int by_size(const void *a, const void *b)
{
    const candidate *p = a;
    const candidate *q = b;
    if (p->x != q->x) return p->x > q->x ? -1 : 1;
    return p->at < q->at ? -1 : 1;
}

/* Sorts, and says whether the first n are beyond doubt. */
static bool first_of(candidate *c, uint32_t count, uint32_t n)
{
    qsort(c, count, sizeof *c, by_size);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = n; k < count; k++) {
            if (c[i].x - c[i].e <= c[k].x + c[k].e) return false;
        }
    }
    return true;
}

static void expert_scores(const graph_oracle *o, const graph_value *v, size_t token, candidate *p)
{
    uint32_t n = o->g->values[v->in[0]].cols;
    const double *s = o->x[v->in[0]] + token * n;
    const double *e = o->e[v->in[0]] + token * n;
    double sum = 0.0;
    double off = 0.0;
    double max = s[0];
    for (uint32_t i = 0; i < n; i++) {
        max = fmax(max, s[i]);
        off = fmax(off, e[i]);
    }
    for (uint32_t i = 0; i < n; i++) sum += exp(s[i] - max);
    for (uint32_t i = 0; i < n; i++) {
        bool sigmoid = (v->i[3] & GRAPH_ROUTE_SIGMOID) != 0;
        double x = sigmoid ? 1.0 / (1.0 + exp(-s[i])) : exp(s[i] - max) / sum;
        double relative = sigmoid ? exp(e[i]) - 1.0 : exp(2.0 * off) - 1.0;
        p[i] = (candidate){x, x * relative + 2 * U * x, i};
    }
}

/* Scores of the groups that stay; the others' experts leave. Returns how many experts are left. */
static uint32_t leave_groups(const graph_value *v, candidate *c, uint32_t n, bool *sure)
{
    uint32_t size = n / v->i[1];
    candidate *groups = zeros(v->i[1], sizeof *groups);
    candidate *all = zeros(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++) all[i] = c[i];
    for (uint32_t g = 0; g < v->i[1]; g++) {
        candidate *of = zeros(size, sizeof *of);
        double off = 0.0;
        for (uint32_t i = 0; i < size; i++) {
            of[i] = all[g * size + i];
            off = fmax(off, of[i].e);
        }
        qsort(of, size, sizeof *of, by_size);
        groups[g] = (candidate){of[0].x + of[1].x, 2.0 * off, g};
        free(of);
    }
    *sure = first_of(groups, v->i[1], v->i[2]);
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < v->i[2]; k++) {
            if (groups[k].at == i / size) c[left++] = all[i];
        }
    }
    free(groups);
    free(all);
    return left;
}

void oracle_route(const graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    uint32_t n = o->g->values[v->in[0]].cols;
    uint32_t top_k = v->i[0];
    float *bias = decoded(o, v->in[1]);
    float *factor = decoded(o, v->in[2]);
    candidate *p = zeros(n, sizeof *p);
    candidate *c = zeros(n, sizeof *c);
    for (size_t i = 0; i < o->n; i++) {
        expert_scores(o, v, i, p);
        for (uint32_t k = 0; k < n; k++) {
            c[k] = p[k];
            if (bias != NULL) c[k].x += (double)bias[k];
        }
        bool sure = true;
        uint32_t left = v->i[1] > 1 ? leave_groups(v, c, n, &sure) : n;
        sure = first_of(c, left, top_k) && sure;
        double sum = 0.0;
        double relative = 0.0;
        for (uint32_t k = 0; k < top_k; k++) {
            sum += p[c[k].at].x;
            relative = fmax(relative, p[c[k].at].e / p[c[k].at].x);
        }
        if ((v->i[3] & GRAPH_ROUTE_NORMALIZE) == 0) sum = 1.0;
        for (uint32_t k = 0; k < top_k; k++) {
            double w = p[c[k].at].x / sum * (double)v->f[0];
            if (factor != NULL) w *= (double)factor[c[k].at];
            y[i * v->cols + k] = c[k].at;
            y[i * v->cols + top_k + k] = w;
            double e = fabs(w) * (2.0 * relative + 4 * U);
            ye[i * v->cols + top_k + k] = sure ? e : ORACLE_UNKNOWN;
        }
    }
    free(bias);
    free(factor);
    free(p);
    free(c);
}
