/* host.h - what backends that compute in plain memory have in common. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/backend.h"

/* backend_api.supports, .copy and .convert: any tensor that decodes can be computed with. */
weft_status host_supports(const backend *b, const graph *g, weft_error *err);
void host_copy(backend *b, void *to, const void *from, size_t n_bytes);
void host_convert(backend *b, const backend_conversion *c);

/* Writes one position of a sequence: k [n_heads, k_dim], v [n_heads, v_dim]; v is not looked at
 * where values are not stored. Returns how many numbers were not finite and are now. */
uint32_t host_append(const kv_view *view, uint32_t position, const float *k, const float *v);

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

#endif
