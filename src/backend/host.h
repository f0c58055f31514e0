/* host.h - what backends that compute in plain memory have in common. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/backend.h"

/* backend_api.supports, .copy and .convert: any tensor that decodes can be computed with. */
weft_status host_supports(const backend *b, const graph *g, weft_error *err);
void host_copy(backend *b, void *to, const void *from, size_t n_bytes);
void host_convert(backend *b, const backend_conversion *c);

/* backend_api.wait where a run has returned when it is done, .experts where none are streamed,
 * .trace and .trace_part where nothing is measured. */
weft_status host_wait(backend *b, weft_error *err);
void host_no_experts(const backend_plan *plan, backend_expert_stats *stats);
weft_status host_no_trace(backend *b, backend_plan *plan, bool on, weft_error *err);
uint32_t host_no_trace_part(const backend_plan *plan, uint32_t i, backend_trace_part *part);

/* Writes one position of a sequence: k [n_heads, k_dim], v [n_heads, v_dim]; v is not looked at
 * where values are not stored. Returns how many numbers were not finite and are now. */
uint32_t host_append(const kv_view *view, uint32_t position, const float *k, const float *v);

/* Whether a weight is stored as integer codes, which inputs of 8 bits meet; others meet inputs
 * rounded to bf16 under WEFT_ACT_INT8. */
bool host_has_codes(const tensor *w);

/* Columns of an input of 8 bits that share a scale, from the first on; the last ones may be
 * fewer. */
enum { HOST_I8_COLUMNS = 64, HOST_I8_MOST = 127 };

/* Of columns whose largest magnitude is given: q = x * *inverse to the nearest integer, ties to
 * even, and x = q * the scale that is returned. Where *inverse is 0, so are all q: with a scale of
 * 0 where the largest is too small to divide by, of NaN where it is not finite. */
float host_i8_scale(float largest, float *inverse);

/* x [n] as the input of a linear layer with w has it: y [n]. turned: w is used by columns. */
void host_round_input(weft_act act, const tensor *w, bool turned, const float *x, uint32_t n,
                      float *y);

/* Adds to the step's count. */
void host_count_nonfinite(const backend_step *step, uint32_t n);

/* One key, from its row: k [k_dim]. */
void host_key(const kv_geometry *g, const unsigned char *row, float *k);

/* Scratch of host_route: [n_experts] each. */
typedef struct host_router {
    double *p, *chooser;
    bool *stays;
} host_router;

/* The experts of one token, as graph_route says: scores, bias and factor [n_experts], the latter
 * two or NULL; y [2 top_k], ids and then weights. Any scores give ids that are experts, each
 * once. */
void host_route(const graph_value *v, uint32_t n_experts, const float *scores, const float *bias,
                const float *factor, host_router s, float *y);

/* What position_scale multiplies a token by. */
float host_position_factor(const graph_value *v, uint32_t position);

/* Bins of host_select. */
enum { HOST_SELECT_BINS = 1 << 11 };

/* graph.h's select for one token that sees positions first, first + 1, ... with these n scores:
 * list [1 + top_k]. bins: [HOST_SELECT_BINS], scratch. Time is a few passes over the scores,
 * whatever they are. */
void host_select(const float *scores, uint32_t n, uint32_t first, uint32_t top_k, uint32_t *bins,
                 uint32_t *list);

/* A list is stored where a value's numbers would be. */
static inline uint32_t *host_list(float *value, size_t token_i, uint32_t cols)
{
    return (uint32_t *)(void *)(value + token_i * cols);
}

#endif
