/* codecs.c - the rows of codecs.def as loops in C. */
#include "kv/codecs/codec.h"

#include "kv/codecs/codecs.def"

/* name, id, kind, sides, bits, group, unit, table, family (whose functions they are) */
#define ROW(name, id, kind, sides, bits, group, unit, table, family)                               \
    {#name,                                                                                        \
     id,                                                                                           \
     kind,                                                                                         \
     sides,                                                                                        \
     bits,                                                                                         \
     group,                                                                                        \
     unit,                                                                                         \
     table,                                                                                        \
     kv_##family##_encode_row,                                                                     \
     kv_##family##_decode_row},
#define KV_CODEC(name, NAME) KV_##NAME##_ROWS(ROW)

static const kv_codec CODECS[] = {
#include "kv/codecs/codecs.def"
};

const kv_codec *kv_codec_table(size_t *count)
{
    *count = sizeof CODECS / sizeof CODECS[0];
    return CODECS;
}

const kv_codec *kv_codec_by_id(uint8_t id)
{
    for (size_t i = 0; i < sizeof CODECS / sizeof CODECS[0]; i++) {
        if (CODECS[i].id == id) return &CODECS[i];
    }
    return NULL;
}

const kv_codec *kv_codec_by_name(const char *name, size_t n_bytes)
{
    for (size_t i = 0; i < sizeof CODECS / sizeof CODECS[0]; i++) {
        if (strlen(CODECS[i].name) == n_bytes && memcmp(CODECS[i].name, name, n_bytes) == 0) {
            return &CODECS[i];
        }
    }
    return NULL;
}

int kv_codec_takes(const kv_codec *codec, uint32_t n)
{
    return n > 0 && (codec->kind == KV_DENSE || (n % codec->unit == 0 && n <= KV_PACKED_MOST));
}

size_t kv_codec_row_bytes(const kv_codec *codec, uint8_t base, uint32_t n)
{
    size_t codes = (size_t)n * codec->bits / 8;
    size_t n_groups = ((size_t)n + codec->group - 1) / codec->group;
    switch (codec->kind) {
    case KV_AFFINE:
        return codes + n_groups * (base == KV_BASE_F32 ? 8 : 4);
    case KV_TK:
        return codes + n_groups * 4;
    case KV_Q8:
    case KV_TV:
        return codes + n_groups * 2;
    default:
        return codes;
    }
}

void kv_codec_finish(const kv_codec *codec, float *x, uint32_t n)
{
    if (codec->kind == KV_TV) kv_unrotate(x, n);
}

int kv_codec_sign(uint32_t n, uint32_t i)
{
    return (int)((kv_sign_word(n, i / 64) >> (i % 64)) & 1);
}
