/* drawn_rows.h - rows of random groups that Python draws alike (tools/oracle/kv_affine_groups.py):
 * what MLX makes of them is known by its hash. */
#ifndef SUPPORT_DRAWN_ROWS_H
#define SUPPORT_DRAWN_ROWS_H

#include "support/test.h"

enum { DRAWN_COLUMNS = 1024 };

/* Row of the type "bf16", "f16" or "f32" into x [DRAWN_COLUMNS]; every element is exact in it, and
 * some may be far from 1 (not in f16). */
void drawn_row(float *x, uint64_t row, uint32_t group, const char *type, bool far);

/* Whether SHA-256 of the bytes is expected, in hex; what is named when it is not. */
void drawn_check_hash(const unsigned char *bytes, size_t n_bytes, const char *expected,
                      const char *what);

#endif
