/* host.c - pages in plain memory. */
#include "backend/host.h"

#include "kv/codecs/codec.h"

void host_copy(backend *b, void *to, const void *from, size_t n_bytes)
{
    (void)b;
    memcpy(to, from, n_bytes);
}

/* One side of one head: rows behind one another. */
static void convert_rows(uint8_t from_id, uint8_t to_id, uint8_t base, const unsigned char *src,
                         size_t src_bytes, unsigned char *dst, size_t dst_bytes, uint32_t dim,
                         uint32_t n_rows, float *row)
{
    const kv_codec *from = kv_codec_by_id(from_id);
    const kv_codec *to = kv_codec_by_id(to_id);
    for (uint32_t i = 0; i < n_rows; i++) {
        from->decode_row(from, base, src + i * src_bytes, row, dim);
        to->encode_row(to, base, dst + i * dst_bytes, row, dim);
    }
}

void host_convert(backend *b, const backend_conversion *c)
{
    (void)b;
    const kv_geometry *f = c->from;
    const kv_geometry *t = c->to;
    for (size_t h = 0; h < f->n_heads; h++) {
        size_t first = h * f->page_tokens;
        convert_rows(f->k_codec, t->k_codec, f->base, c->src + first * f->k_row_bytes,
                     f->k_row_bytes, c->dst + first * t->k_row_bytes, t->k_row_bytes, f->k_dim,
                     c->n_rows, c->row);
        convert_rows(f->v_codec, t->v_codec, f->base, c->src + f->v_offset + first * f->v_row_bytes,
                     f->v_row_bytes, c->dst + t->v_offset + first * t->v_row_bytes, t->v_row_bytes,
                     f->v_dim, c->n_rows, c->row);
    }
}
