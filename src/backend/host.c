/* host.c - backends in plain memory. */
#include "backend/host.h"

#include "kv/codecs/codec.h"

weft_status host_supports(const backend *b, const graph *g, weft_error *err)
{
    (void)b;
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        if (v->op == GRAPH_WEIGHT && g->tensors[v->i[0]].encoding == NULL) {
            return err_set(err, WEFT_UNSUPPORTED,
                           "tensor '%s' has no encoding that can be computed with",
                           g->tensors[v->i[0]].name);
        }
    }
    return WEFT_OK;
}

void host_copy(backend *b, void *to, const void *from, size_t n_bytes)
{
    (void)b;
    memcpy(to, from, n_bytes);
}

/* Rows of one side behind one another. */
typedef struct side {
    uint8_t codec;
    size_t row_bytes, at; /* bytes; where the first row of the head stands in a page */
} side;

static side key_side(const kv_geometry *g, size_t head)
{
    return (side){g->k_codec, g->k_row_bytes, head * g->page_tokens * g->k_row_bytes};
}

static side value_side(const kv_geometry *g, size_t head)
{
    return (side){g->v_codec, g->v_row_bytes, g->v_offset + head * g->page_tokens * g->v_row_bytes};
}

static void convert_rows(const backend_conversion *c, side from, side to, uint32_t dim)
{
    const kv_codec *decoder = kv_codec_by_id(from.codec);
    const kv_codec *encoder = kv_codec_by_id(to.codec);
    uint8_t base = c->from->base;
    for (uint32_t i = 0; i < c->n_rows; i++) {
        decoder->decode_row(decoder, base, c->src + from.at + i * from.row_bytes, c->row, dim);
        encoder->encode_row(encoder, base, c->dst + to.at + i * to.row_bytes, c->row, dim);
    }
}

void host_convert(backend *b, const backend_conversion *c)
{
    (void)b;
    for (size_t h = 0; h < c->from->n_heads; h++) {
        convert_rows(c, key_side(c->from, h), key_side(c->to, h), c->from->k_dim);
        convert_rows(c, value_side(c->from, h), value_side(c->to, h), c->from->v_dim);
    }
}
