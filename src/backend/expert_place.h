/* expert_place.h - where in its files an expert lies, and where it goes in a slot of memory. */
#ifndef BACKEND_EXPERT_PLACE_H
#define BACKEND_EXPERT_PLACE_H

#include "backend/backend.h"

/* gate, up, down */
enum { EXPERT_MATRICES = 3, EXPERT_RANGES = EXPERT_MATRICES * TENSOR_PLANES };

/* Whole blocks of a file (IO_BLOCK), which go to the slot behind one another. */
typedef struct expert_range {
    uint32_t file_i;
    uint64_t first, end;
    uint64_t needed; /* the last byte that is needed and one: not behind the file's end */
    uint64_t at;     /* in the slot */
} expert_range;

typedef struct expert_place {
    expert_range ranges[EXPERT_RANGES]; /* apart from one another */
    uint32_t n_ranges;
    uint64_t planes[EXPERT_MATRICES][TENSOR_PLANES]; /* in the slot */
    uint64_t n_bytes;                                /* of the slot */
} expert_place;

/* Of an expert of a GRAPH_EXPERTS value. Every plane lies in one of the files. */
void expert_place_find(const graph *g, const graph_value *v, uint32_t expert,
                       const backend_experts *files, expert_place *place);

/* Its matrix. */
const tensor *expert_matrix(const graph *g, const graph_value *v, uint32_t expert, uint32_t i);

#endif
