/* graph_oracle.h - what a graph computes for one sequence, in double, with a bound for each number
 * of how far any backend may be off.
 *
 * The bound is carried from operation to operation. What it is made of, u = 2^-24:
 *   - an error of an input goes through the operation's derivative;
 *   - f32 arithmetic: the units of u that cpu_kernels.h allows each loop, of the sum of absolute
 *     terms;
 *   - roundings to 16 bits (linear inputs, keys, values): both ends of the input's interval are
 *     rounded; usually they fall on one number, and the error ends there;
 *   - 16-bit blocks: half a step where a number is below 2^-7 of its block's power of two;
 *   - softmax: scores off by at most d change a weight by at most exp(2 d).
 *   - a recurrent state carries its errors from token to token, and no decay is counted on but its
 *     own;
 *   - packed keys and values are not predicted, as a code may go either way: those of the sequence
 *     are read, looked at whether they can be what they should, and attended to without an error;
 *   - so are those of a cross layer, whatever their codec: another graph wrote them.
 * It shares no code with a backend but the decoders of weights and of packed rows. */
#ifndef SUPPORT_GRAPH_ORACLE_H
#define SUPPORT_GRAPH_ORACLE_H

#include "backend/backend.h"
#include "base/rng.h"

/* What a step of a test brings beside ids, a function of the token: numbers that are fed (their
 * column, counted on from 1000 for each feed), whether it is marked, and its place. */
static inline float oracle_fed(int32_t id, uint32_t position, uint32_t column)
{
    return (float)((id * 7 + (int32_t)position * 3 + (int32_t)column * 5) % 31 - 15) / 16.0F;
}

static inline uint8_t oracle_mark(int32_t id)
{
    return id % 5 == 1;
}

static inline uint32_t oracle_place(int32_t id, uint32_t position, uint32_t axis)
{
    return oracle_mark(id) != 0 ? position / 2 + axis * 3 : position;
}

typedef struct graph_oracle {
    const graph *g;
    const kv_view *views; /* [n_states] */
    weft_act act;
    uint32_t n; /* tokens */
    const int32_t *ids;
    const uint32_t *highest; /* [n], the last position that each sees; NULL: its own */
    /* [n_values] of [n, cols]: values and bounds; rows of wanted tokens are all tokens. */
    double **x, **e;
} graph_oracle;

/* Computes positions 0 .. n - 1; highest may be NULL. views: of a sequence that has run; pages are
 * read of those layers only whose codecs are packed, which are cross or stored to, and then hold
 * all positions. All is borrowed. */
void graph_oracle_run(graph_oracle *o, const graph *g, const kv_view *views, weft_act act,
                      const int32_t *ids, const uint32_t *highest, uint32_t n);
void graph_oracle_free(graph_oracle *o);

#endif
