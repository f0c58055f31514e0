/* identity.c - layers of a config as bytes. */
#include "kv/identity.h"

#include <string.h>

#include "base/bytes.h"

/* What codes and parameters of a codec mean beyond its id: counted up when its rows change. */
enum { CODEC_REVISION = 1, CODEBOOKS = 1, SIGNS = 1, NO_DONOR = -1 };

/* The dense type of a codec's parameters; 0: it has none. */
static uint8_t parameters_of(const kv_codec *codec, uint8_t base)
{
    if (codec->kind == KV_DENSE) return 0;
    return codec->kind == KV_AFFINE ? base : KV_BASE_F16;
}

static void put_codecs(const kv_geometry *g, unsigned char *record)
{
    const kv_codec *k = kv_codec_by_id(g->k_codec);
    const kv_codec *v = kv_has_values(g) ? kv_codec_by_id(g->v_codec) : NULL;
    record[1] = k->id;
    record[3] = g->base;
    record[4] = parameters_of(k, g->base);
    put_u32(record + 8, k->kind == KV_DENSE ? 0 : k->group);
    put_u32(record + 44, CODEC_REVISION);
    put_u32(record + 48, (uint32_t)g->k_row_bytes);
    if (v == NULL) return;
    record[2] = v->id;
    record[5] = parameters_of(v, g->base);
    record[6] = v->kind == KV_TV ? CODEBOOKS : 0;
    record[7] = v->kind == KV_TV ? SIGNS : 0;
    put_u32(record + 12, v->kind == KV_DENSE ? 0 : v->group);
    put_u32(record + 52, (uint32_t)g->v_row_bytes);
}

void kv_identity_layer(const kv_config *c, uint32_t layer, unsigned char record[KV_IDENTITY_BYTES])
{
    const kv_geometry *g = &c->geometries[layer];
    memset(record, 0, KV_IDENTITY_BYTES);
    record[0] = g->layout;
    put_u32(record + 36, c->start);
    put_u32(record + 40, (uint32_t)NO_DONOR);
    if (g->layout == KV_LAYOUT_RECURRENT) {
        for (uint32_t i = 0; i < KV_BUFFERS; i++)
            put_u32(record + 56 + 4 * (size_t)i, (uint32_t)g->buffer_bytes[i]);
        return;
    }
    put_codecs(g, record);
    put_u32(record + 16, g->n_heads);
    put_u32(record + 20, g->k_dim);
    put_u32(record + 24, g->v_dim);
    put_u32(record + 28, g->k_coded);
    put_u32(record + 32, g->window);
}

weft_status kv_identity(const kv_config *c, unsigned char digest[32], weft_error *err)
{
    hash_stream s;
    weft_status status = hash_stream_open(&s, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        unsigned char record[KV_IDENTITY_BYTES];
        kv_identity_layer(c, i, record);
        hash_stream_add(&s, record, sizeof record);
    }
    return hash_stream_close(&s, digest, err);
}
