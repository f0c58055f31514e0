/* candidates.c - a heap from which sorted ones are taken as they are asked for. */
#include "sample/candidates.h"

#include <math.h>

/* Few are looked at as a rule. */
enum { SORT_FIRST = 64 };

/* Order of preference. */
static bool before(const candidates *c, uint32_t a, uint32_t b)
{
    if (c->logits[a] != c->logits[b]) return c->logits[a] > c->logits[b];
    return c->ids[a] < c->ids[b];
}

static void swap(candidates *c, uint32_t a, uint32_t b)
{
    float logit = c->logits[a];
    int32_t id = c->ids[a];
    c->logits[a] = c->logits[b];
    c->ids[a] = c->ids[b];
    c->logits[b] = logit;
    c->ids[b] = id;
}

/* The heap lies from the end backwards: its node k is element n_all - 1 - k, so that what is sorted
 * grows from the front into the heap's last node. */
static uint32_t node(const candidates *c, uint32_t k)
{
    return c->n_all - 1 - k;
}

static void sift(candidates *c, uint32_t k, uint32_t n_heap)
{
    for (;;) {
        uint32_t best = k;
        uint32_t left = 2 * k + 1;
        if (left < n_heap && before(c, node(c, left), node(c, best))) best = left;
        if (left + 1 < n_heap && before(c, node(c, left + 1), node(c, best))) best = left + 1;
        if (best == k) return;
        swap(c, node(c, k), node(c, best));
        k = best;
    }
}

void candidates_sort(candidates *c, uint32_t n)
{
    if (n > c->n) n = c->n;
    while (c->n_sorted < n) {
        uint32_t n_heap = c->n_all - c->n_sorted;
        /* The root is the best left: it changes places with the last node, which becomes sorted. */
        swap(c, node(c, 0), node(c, n_heap - 1));
        c->n_sorted++;
        if (n_heap > 1) sift(c, 0, n_heap - 1);
    }
}

void candidates_init(candidates *c)
{
    c->first = 0;
    c->n = c->n_all;
    c->n_sorted = 0;
    for (uint32_t k = c->n_all / 2; k-- > 0;) sift(c, k, c->n_all);
    candidates_sort(c, SORT_FIRST);
}

double candidates_weight(candidates *c, uint32_t i)
{
    if (i >= c->n_sorted) candidates_sort(c, 2 * i);
    return exp((double)c->logits[i] - (double)c->logits[c->first]);
}

double candidates_total(const candidates *c)
{
    double max = (double)c->logits[c->first];
    double total = 0.0;
    for (uint32_t i = c->first; i < c->n; i++) total += exp((double)c->logits[i] - max);
    return total;
}
