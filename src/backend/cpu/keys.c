/* keys.c - scores of keys as they lie in pages, for attention and for choosing positions. */
#include "backend/cpu/cpu.h"

#include <string.h>

bool cpu_is_decoded(const kv_codec *codec, const kv_geometry *g, uint32_t n_q, uint32_t n_cols)
{
    return codec->kind != KV_DENSE &&
           (n_q > KERNEL_PACKED_QUERIES || !kernel_takes_packed(codec, g->base, n_cols));
}

cpu_keys cpu_keys_of(const backend *b, const kv_geometry *g)
{
    const cpu_kernels *kernels = &b->kernels;
    cpu_keys k = {.codec = kv_codec_by_id(g->k_codec)};
    bool packed = k.codec->kind != KV_DENSE;
    k.decoded =
        packed && (!kernel_takes_packed(k.codec, g->base, g->k_dim) || g->k_coded != g->k_dim);
    k.prepared = packed && !k.decoded;
    if (k.prepared) {
        k.scores = kernels->scores_packed;
    } else if (packed || k.codec->id == KV_BASE_F32) {
        k.scores = kernels->scores_f32;
    } else {
        k.scores = k.codec->id == KV_BASE_F16 ? kernels->scores_f16 : kernels->scores_bf16;
    }
    return k;
}

void cpu_put_queries(const backend *b, const cpu_keys *keys, const kv_geometry *g, const float *x,
                     uint32_t n, float *to)
{
    if (!keys->prepared) {
        memcpy(to, x, (size_t)n * g->k_dim * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        kernel_query one = {x + i * g->k_dim, keys->codec, g->k_dim, to + i * g->k_dim};
        b->kernels.prepare_query(&one);
    }
}

cpu_span cpu_run_of_keys(const kv_geometry *g, bool decoded, uint32_t first, uint32_t end)
{
    uint32_t size = decoded ? KERNEL_ROWS : g->page_tokens;
    uint32_t run_end = (first / size + 1) * size;
    return (cpu_span){first, end < run_end ? end : run_end};
}

/* The columns of packed keys that are in base. */
static void decode_tails(const kv_geometry *g, const kernel_decode *a)
{
    const kv_codec *base = kv_codec_by_id(g->base);
    uint32_t n = g->k_dim - g->k_coded;
    for (uint32_t i = 0; i < a->n_rows && n > 0; i++) {
        base->decode_row(base, g->base, a->rows + i * a->row_bytes + g->k_tail,
                         a->to + i * a->stride + g->k_coded, n);
    }
}

void cpu_score_keys(const backend *b, const cpu_keys *keys, const kv_geometry *g, float *rows,
                    kernel_scores a)
{
    if (keys->decoded) {
        kernel_decode packed = {keys->codec, g->base,    a.k,  g->k_row_bytes,
                                a.n_keys,    g->k_coded, rows, g->k_dim};
        decode_tails(g, &packed);
        b->kernels.decode_packed(&packed);
        a.k = rows;
    }
    a.dim = g->k_dim;
    a.packed = (kernel_packed){keys->codec, g->k_row_bytes, g->base};
    keys->scores(&a);
}
