/* experts.h - experts that are read from their files when they are needed, and kept as long as a
 * budget of memory has room: the store of one plan.
 *
 * Memory is a number of slots, each of which holds an expert of any layer with all its matrices.
 * A layer takes the experts that its tokens go to (experts_use), as many at a time as there are
 * slots, and says what will be wanted next (experts_ahead); what was used longest ago gives way.
 * Reading is the work of threads of their own. What is computed with is the bytes of the file
 * either way, so results do not depend on any of this.
 *
 * One thread calls these functions; in between any thread may wait for a slot in use. */
#ifndef BACKEND_EXPERTS_H
#define BACKEND_EXPERTS_H

#include "backend/expert_place.h"

/* Slots there must be: one to compute with while another is read. */
enum { EXPERTS_LEAST = 2 };

typedef struct experts_size {
    uint32_t n_layers;   /* that have experts */
    uint32_t n_experts;  /* of the layer with the most */
    uint32_t n_top;      /* that a token goes to, likewise */
    uint64_t n_all;      /* experts of all layers */
    uint64_t n_bytes;    /* of all their matrices */
    uint64_t slot_bytes; /* of what is read of one, in whole blocks: the most of any */
    uint64_t each_bytes; /* that one takes of the budget: what is kept beside it, too */
} experts_size;

/* What the experts of a graph take; all zero when it has none. */
experts_size experts_measure(const graph *g, const backend_experts *files);

typedef struct expert_store expert_store;

/* graph and what files points to are borrowed. LIMIT when the budget has no room for EXPERTS_LEAST;
 * IO, NOMEM, DEVICE. */
weft_status experts_create(const env *world, const graph *g, const backend_experts *files,
                           expert_store **out, weft_error *err);
void experts_destroy(expert_store *x);

/* Memory it has beside the budget. */
size_t experts_scratch_bytes(const expert_store *x);

/* Experts that can be used at once. */
uint32_t experts_capacity(const expert_store *x);

/* Counts what a layer wants, list [n] of it without repetition, and puts those first that are
 * there. layer: its GRAPH_EXPERTS value. */
void experts_begin(expert_store *x, graph_id layer, uint32_t *list, uint32_t n);

/* Those in use until now may give way, these n (at most the capacity) may not: slots [n]. Those
 * that are not there are being read. */
void experts_use(expert_store *x, graph_id layer, const uint32_t *list, uint32_t n,
                 uint32_t *slots);

/* Reads what may be wanted next, as far as there is room beside what is in use, the first first.
 * guessed: it counts as read ahead. */
void experts_ahead(expert_store *x, graph_id layer, const uint32_t *list, uint32_t n, bool guessed);

/* Returns when a slot in use has been read, or has failed to be: IO with the file's name. */
weft_status experts_wait(expert_store *x, uint32_t slot, weft_error *err);

/* A matrix of what a slot holds. */
const tensor *experts_matrix(const expert_store *x, uint32_t slot, uint32_t i);

/* Nothing is in use any more. */
void experts_rest(expert_store *x);

/* May be called from any thread. */
void experts_get_stats(expert_store *x, backend_expert_stats *stats);

#endif
