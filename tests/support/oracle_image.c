/* oracle_image.c - what a step brings and wants, and numbers that are shifted and scaled. */
#include "support/oracle_image.h"

#include <math.h>
#include <stdlib.h>

#include "tensor/encoding.h"

static float *vector_of(const graph_oracle *o, graph_id id)
{
    const tensor *t = &o->g->tensors[o->g->values[id].i[0]];
    float *w = calloc((size_t)t->n_cols, sizeof *w);
    t->encoding->decode_row(t, 0, w);
    return w;
}

static void run_feed(const graph_oracle *o, const graph_value *v, double *y)
{
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        uint32_t token = (uint32_t)(i / v->cols);
        uint32_t column = (uint32_t)(i % v->cols) + 1000 * v->i[0];
        y[i] = (double)oracle_fed(o->ids[token], token, column);
    }
}

/* Rows of wanted tokens are all tokens. */
static void run_take(const graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        y[i] = o->x[v->in[0]][i];
        ye[i] = o->e[v->in[0]][i];
    }
}

static void run_replace(const graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        graph_id from = v->in[oracle_mark(o->ids[i / v->cols])];
        y[i] = o->x[from][i];
        ye[i] = o->e[from][i];
    }
}

/* Two roundings, the first of a difference. */
static void run_standardize(const graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    float *shift = vector_of(o, v->in[1]);
    float *factor = vector_of(o, v->in[2]);
    for (size_t i = 0; i < (size_t)o->n * v->cols; i++) {
        double f = (double)factor[i % v->cols];
        double x = o->x[v->in[0]][i] - (double)shift[i % v->cols];
        double e = o->e[v->in[0]][i];
        y[i] = x * f;
        ye[i] = fabs(f) * (e + 3 * 0x1p-24 * (fabs(x) + e));
    }
    free(shift);
    free(factor);
}

void oracle_run_image(const graph_oracle *o, const graph_value *v, double *y, double *ye)
{
    if (v->op == GRAPH_FEED) {
        run_feed(o, v, y);
    } else if (v->op == GRAPH_TAKE) {
        run_take(o, v, y, ye);
    } else if (v->op == GRAPH_REPLACE) {
        run_replace(o, v, y, ye);
    } else {
        run_standardize(o, v, y, ye);
    }
}
