/* codecs.c - the rows of codecs.def as loops in C. */
#include "kv/codecs/codec.h"

#include "kv/codecs/codecs.def"

static const kv_codec CODECS[] = {
#define KV_CODEC(name, NAME)                                                                       \
    {#name,                                                                                        \
     KV_##NAME##_ID,                                                                               \
     KV_##NAME##_GROUP,                                                                            \
     KV_##NAME##_BYTES,                                                                            \
     kv_##name##_encode_row,                                                                       \
     kv_##name##_decode_row},
#include "kv/codecs/codecs.def"
#undef KV_CODEC
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

size_t kv_codec_row_bytes(const kv_codec *codec, uint32_t n)
{
    return ((size_t)n + codec->group - 1) / codec->group * codec->group_bytes;
}
