/* grids.h - the points that ggml's IQ encodings choose from: a chosen few of all there are.
 *
 * Column i of a point stands at bit 2 * i (eight columns of IQ2 and IQ1) or 4 * i (four of IQ3), as
 * the index of one of the encoding's values. grids.c is written by tools/oracle/grids.py. */
#ifndef TENSOR_GRIDS_H
#define TENSOR_GRIDS_H

#include <stdint.h>

extern const uint16_t GRID_IQ2_XXS[256];
extern const uint16_t GRID_IQ2_XS[512];
extern const uint16_t GRID_IQ2_S[1024];
extern const uint16_t GRID_IQ3_XXS[256];
extern const uint16_t GRID_IQ3_S[512];
extern const uint16_t GRID_IQ1_S[2048]; /* also IQ1_M's */

#endif
