/* oracle_rows.h - keys and values as a sequence stores them: read, looked at whether they can be
 * what they should, and turned back from the basis in which some are stored. */
#ifndef SUPPORT_ORACLE_ROWS_H
#define SUPPORT_ORACLE_ROWS_H

#include "backend/kv_view.h"
#include "kv/codecs/codec.h"

/* Positions 0 .. n - 1 of one side of a layer, in the rotated basis if they are rotated: x [n,
 * heads, dim]. */
void oracle_read_rows(const kv_view *view, bool key, uint32_t n, double *x);

/* The same of a packed side; fails unless each row can stand for the one expected, +- e. */
void oracle_read_packed(const kv_view *view, bool key, uint32_t n, const double *expected,
                        const double *e, double *x);

/* Fails unless row [dim], as it was decoded, can stand for x +- e. row is changed. */
void oracle_check_packed(const kv_codec *c, const double *x, const double *e, float *row,
                         uint32_t dim);

/* x +- e from the rotated basis: the matrix as its definition has it, block by block. */
void oracle_turn_back(double *x, double *e, uint32_t n);

#endif
