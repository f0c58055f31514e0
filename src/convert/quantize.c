/* quantize.c - groups of numbers to codes.
 *
 * Affine groups are those of keys and values. Floating ones: a group's scale is its largest number
 * divided by the largest code's value, both in the type of the row, then rounded up to a power of
 * two (MX), or to e4m3 (NV). Two things are not as in MLX: it lets the exponent of a scale below
 * 2^-127 wrap around, so that such a group comes back as large numbers, and in NV it makes 0 of
 * numbers far beyond what the largest scale allows. Here the scale is 2^-127, and the number the
 * largest. */
#include "convert/quantize.h"

#include <math.h>

#include "base/assert.h"
#include "kv/codecs/affine.h"
#include "tensor/encodings/small_floats.h"

_Static_assert(KV_BASE_F32 == (int)ENCODING_ID_F32 && KV_BASE_F16 == (int)ENCODING_ID_F16 &&
                   KV_BASE_BF16 == (int)ENCODING_ID_BF16,
               "a row's type is a codec's base");

enum { GROUP_MOST = KV_GROUP_MOST };

static uint64_t number_bytes(uint8_t type)
{
    return type == ENCODING_ID_F32 ? 4 : 2;
}

void row_form_bytes(const row_form *f, uint64_t n_cols, uint64_t bytes[TENSOR_PLANES])
{
    for (uint32_t i = 0; i < TENSOR_PLANES; i++) bytes[i] = 0;
    if (!row_form_has_codes(f)) {
        bytes[0] = n_cols * number_bytes((uint8_t)f->encoding->id);
        return;
    }
    ASSERT(n_cols % f->group == 0);
    uint64_t n_groups = n_cols / f->group;
    bool affine = f->encoding == &ENCODING_AFFINE;
    bytes[0] = n_groups * (f->group * f->bits / 8);
    bytes[1] = n_groups * (affine ? number_bytes(f->type) : 1);
    bytes[2] = affine ? bytes[1] : 0;
}

static void encode_plain(const row_form *f, const float *x, uint64_t n, unsigned char *dst)
{
    uint8_t type = (uint8_t)f->encoding->id;
    uint64_t size = number_bytes(type);
    for (uint64_t i = 0; i < n; i++) kv_put_base(dst + i * size, kv_round(x[i], f->type), type);
}

static void encode_affine(const row_form *f, const float *x, uint64_t group_i,
                          unsigned char *const planes[TENSOR_PLANES])
{
    kv_codec c = {.bits = (uint8_t)f->bits, .group = (uint16_t)f->group};
    unsigned char record[GROUP_MOST + 2 * sizeof(float)];
    size_t n_codes = f->group * f->bits / 8;
    size_t size = number_bytes(f->type);
    kv_affine_encode_row(&c, f->type, record, x, f->group);
    memcpy(planes[0] + group_i * n_codes, record, n_codes);
    memcpy(planes[1] + group_i * size, record + n_codes, size);
    memcpy(planes[2] + group_i * size, record + n_codes + size, size);
}

/* The exponent of the least power of two that is not below scale, as e8m0 has it; 1 of 0. */
static uint32_t e8m0_code(float scale)
{
    int exponent;
    if (scale == 0.0F) return 127;
    /* 0.5 to 1, without 1. */
    float fraction = frexpf(scale, &exponent);
    if (fraction == 0.5F) exponent--;
    if (exponent < -127) return 0;
    return exponent > 127 ? 254 : (uint32_t)(exponent + 127);
}

static void encode_floats(const row_form *f, const float *x, uint64_t group_i,
                          unsigned char *const planes[TENSOR_PLANES])
{
    bool nv = f->encoding == &ENCODING_NVFP4_PLANES;
    float most = 0.0F;
    float rounded[GROUP_MOST];
    for (uint32_t i = 0; i < f->group; i++) {
        rounded[i] = kv_round(x[i], f->type);
        if (fabsf(rounded[i]) > most) most = fabsf(rounded[i]);
    }
    float scale = kv_round(most / (f->bits == 4 ? 6.0F : 448.0F), f->type);
    uint32_t stored = nv ? e4m3_code(scale) : e8m0_code(scale);
    scale = nv ? e4m3_value(stored) : e8m0_value(stored);
    planes[1][group_i] = (unsigned char)stored;
    unsigned char *codes = planes[0] + group_i * (f->group * f->bits / 8);
    for (uint32_t i = 0; i < f->group; i++) {
        float q = scale == 0.0F ? 0.0F : kv_round(rounded[i] / scale, f->type);
        if (f->bits == 8) {
            codes[i] = (unsigned char)e4m3_code(q);
        } else if (i % 2 == 0) {
            codes[i / 2] = (unsigned char)e2m1_code(q);
        } else {
            codes[i / 2] = (unsigned char)(codes[i / 2] | e2m1_code(q) << 4);
        }
    }
}

bool row_encode(const row_form *f, const float *x, uint64_t n_cols,
                unsigned char *const planes[TENSOR_PLANES], uint64_t *bad_col)
{
    *bad_col = 0;
    if (!row_form_has_codes(f)) {
        encode_plain(f, x, n_cols, planes[0]);
        return true;
    }
    ASSERT(f->group <= GROUP_MOST && n_cols % f->group == 0);
    for (uint64_t i = 0; i < n_cols; i++) {
        if (fabsf(kv_round(x[i], f->type)) <= ROW_NUMBER_MOST) continue;
        *bad_col = i;
        return false;
    }
    for (uint64_t g = 0; g < n_cols / f->group; g++) {
        const float *group = x + g * f->group;
        if (f->encoding == &ENCODING_AFFINE) {
            encode_affine(f, group, g, planes);
        } else {
            encode_floats(f, group, g, planes);
        }
    }
    return true;
}
