/* kernel_cases.h - random weights in every encoding, and inputs for them, for the tests of kernels.
 * Every array is a heap block of exactly its size, so that a sanitizer sees one byte too far. */
#ifndef BACKEND_KERNEL_CASES_H
#define BACKEND_KERNEL_CASES_H

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"
#include "tensor/encoding.h"

/* What a case needs of an encoding: affine ones in all widths, groups and parameter types; plain
 * numbers that lie by columns have how far apart outputs are for bits. */
typedef struct case_weight {
    encoding_id id;
    uint16_t bits, group;
    encoding_id param;
} case_weight;

static const case_weight CASE_WEIGHTS[] = {
    {ENCODING_ID_F32, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_F16, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_BF16, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_AFFINE, 2, 64, ENCODING_ID_BF16},
    {ENCODING_ID_AFFINE, 3, 64, ENCODING_ID_F16},
    {ENCODING_ID_AFFINE, 4, 32, ENCODING_ID_BF16},
    {ENCODING_ID_AFFINE, 4, 64, ENCODING_ID_BF16},
    {ENCODING_ID_AFFINE, 4, 128, ENCODING_ID_F16},
    {ENCODING_ID_AFFINE, 4, 64, ENCODING_ID_F32},
    {ENCODING_ID_AFFINE, 5, 32, ENCODING_ID_F16},
    {ENCODING_ID_AFFINE, 6, 128, ENCODING_ID_BF16},
    {ENCODING_ID_AFFINE, 8, 32, ENCODING_ID_F32},
    {ENCODING_ID_AFFINE, 8, 64, ENCODING_ID_BF16},
    {ENCODING_ID_Q4_0, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q4_1, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q5_0, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q8_0, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q4_K, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q5_K, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q6_K, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q5_1, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q2_K, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_Q3_K, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ4_NL, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ4_XS, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ3_XXS, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ3_S, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ2_XXS, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ2_XS, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ2_S, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ1_S, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_IQ1_M, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_TQ1_0, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_TQ2_0, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_MXFP4, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_NVFP4, 0, 0, ENCODING_ID_NONE},
    {ENCODING_ID_MXFP4_PLANES, 4, 32, ENCODING_ID_NONE},
    {ENCODING_ID_MXFP8_PLANES, 8, 32, ENCODING_ID_NONE},
    {ENCODING_ID_NVFP4_PLANES, 4, 16, ENCODING_ID_NONE},
    {ENCODING_ID_F8_E4M3, 8, 0, ENCODING_ID_NONE},
    {ENCODING_ID_F8_E4M3, 8, 0, ENCODING_ID_F32},
    {ENCODING_ID_F8_E4M3, 8, 16, ENCODING_ID_BF16},
    {ENCODING_ID_GPTQ, 4, 32, ENCODING_ID_F16},
    {ENCODING_ID_GPTQ, 8, 64, ENCODING_ID_BF16},
    {ENCODING_ID_AWQ, 4, 32, ENCODING_ID_F16},
    {ENCODING_ID_F32, 2, 0, ENCODING_ID_NONE},
    {ENCODING_ID_F16, 1, 0, ENCODING_ID_NONE},
    {ENCODING_ID_BF16, 1, 0, ENCODING_ID_NONE},
    {ENCODING_ID_BF16, 2, 0, ENCODING_ID_NONE},
};

enum { N_CASE_WEIGHTS = sizeof CASE_WEIGHTS / sizeof CASE_WEIGHTS[0] };

static inline bool case_is_turned(const case_weight *c)
{
    bool plain = c->id == ENCODING_ID_F32 || c->id == ENCODING_ID_F16 || c->id == ENCODING_ID_BF16;
    return plain && c->bits != 0;
}

/* A repeatable stream. */
static uint64_t case_seed = 1;

static inline uint32_t case_bits(void)
{
    case_seed = case_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(case_seed >> 32);
}

/* -1 .. 1 */
static inline float case_number(void)
{
    return (float)((double)case_bits() / 2147483648.0 - 1.0);
}

static inline void *case_alloc(size_t size)
{
    void *block = malloc(size == 0 ? 1 : size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

/* n numbers whose first lies skip floats into the block. */
typedef struct case_floats {
    float *block, *at;
    size_t n;
} case_floats;

static inline case_floats case_floats_new(size_t n, size_t skip, float scale)
{
    case_floats f = {.n = n};
    f.block = case_alloc((n + skip) * sizeof(float));
    f.at = f.block + skip;
    for (size_t i = 0; i < n; i++) f.at[i] = scale == 0.0F ? 0.0F : case_number() * scale;
    return f;
}

static inline uint32_t case_columns(const case_weight *c)
{
    const encoding *e = encoding_by_id(c->id);
    return e->block_cols != 0 ? e->block_cols : c->group;
}

/* A scale: of either sign, at times 0. */
static inline float case_scale(void)
{
    return case_bits() % 16 == 0 ? 0.0F : case_number() * 0.03F;
}

static inline void case_put(unsigned char *at, encoding_id type, float value)
{
    uint16_t half = type == ENCODING_ID_F16 ? fp_to_f16(value) : fp_to_bf16(value);
    if (type == ENCODING_ID_F32) {
        memcpy(at, &value, sizeof value);
    } else {
        memcpy(at, &half, sizeof half);
    }
}

/* Where a block has its only f16 scale. */
static inline size_t case_scale_at(encoding_id id)
{
    switch (id) {
    case ENCODING_ID_Q6_K:
        return 208;
    case ENCODING_ID_Q3_K:
        return 108;
    case ENCODING_ID_TQ1_0:
        return 52;
    case ENCODING_ID_TQ2_0:
        return 64;
    default:
        return 0;
    }
}

/* Any bytes are codes; scales are set. */
static inline void case_fill_block(encoding_id id, unsigned char *block)
{
    switch (id) {
    case ENCODING_ID_F8_E4M3:
        *block = (unsigned char)((*block & 0x80) | (*block & 0x7f) % 0x38);
        break;
    case ENCODING_ID_MXFP4:
        block[0] = (unsigned char)(110 + case_bits() % 16);
        break;
    case ENCODING_ID_NVFP4:
        for (uint32_t i = 0; i < 4; i++) block[i] = (unsigned char)(block[i] % 0x20);
        break;
    case ENCODING_ID_IQ1_M:
        /* The upper bits of the scale: exponents of 2^-7 and less. */
        block[55] = (unsigned char)((block[55] & 0x0f) | (case_bits() % 2 == 0 ? 0x20 : 0xa0));
        break;
    case ENCODING_ID_Q2_K:
        case_put(block + 80, ENCODING_ID_F16, case_scale() * 0.1F);
        case_put(block + 82, ENCODING_ID_F16, case_scale() * 0.1F);
        break;
    case ENCODING_ID_F32:
    case ENCODING_ID_F16:
    case ENCODING_ID_BF16:
        case_put(block, id, case_number());
        break;
    case ENCODING_ID_Q4_K:
    case ENCODING_ID_Q5_K:
        case_put(block, ENCODING_ID_F16, case_scale() * 0.02F);
        case_put(block + 2, ENCODING_ID_F16, case_scale() * 0.02F);
        break;
    case ENCODING_ID_Q4_1:
    case ENCODING_ID_Q5_1:
        case_put(block + 2, ENCODING_ID_F16, case_scale());
        case_put(block, ENCODING_ID_F16, case_scale());
        break;
    case ENCODING_ID_Q4_0:
    case ENCODING_ID_Q5_0:
        case_put(block, ENCODING_ID_F16, case_scale());
        break;
    default:
        case_put(block + case_scale_at(id), ENCODING_ID_F16, case_scale() * 0.01F);
    }
}

/* Sizes of the planes beside the codes, and what says how they are read; returns the bytes of a
 * parameter. */
static inline size_t case_planes(const case_weight *c, tensor *t)
{
    size_t param = c->param == ENCODING_ID_F32 ? 4 : 2;
    uint16_t plane_bits = t->encoding->plane_bits;
    uint64_t cols = t->n_cols;
    t->bits = case_is_turned(c) ? 0 : c->bits;
    t->group = c->group;
    t->param_type = (uint8_t)c->param;
    if (c->id == ENCODING_ID_AFFINE || plane_bits != 0) {
        param = plane_bits != 0 ? 1 : param;
        t->row_bytes[0] = cols * c->bits / 8;
        t->row_bytes[1] = cols / c->group * param;
    }
    if (c->id == ENCODING_ID_AFFINE) t->row_bytes[2] = t->row_bytes[1];
    if (c->id == ENCODING_ID_NVFP4_PLANES) t->factor = 0.37F;
    if (c->id == ENCODING_ID_F8_E4M3 && c->param != ENCODING_ID_NONE) {
        t->scale_rows = c->group == 0 ? 1 : 5;
        uint64_t groups = c->group == 0 ? 1 : (cols + c->group - 1) / c->group;
        t->plane_bytes[1] = (t->n_rows + t->scale_rows - 1) / t->scale_rows * groups * param;
    }
    if (c->id == ENCODING_ID_GPTQ || c->id == ENCODING_ID_AWQ) {
        t->full_rows = (t->n_rows + 7) / 8 * 8; /* whole words of zeros */
        t->plane_bytes[0] = cols * t->full_rows * c->bits / 8;
        t->plane_bytes[1] = cols / c->group * t->full_rows * param;
        t->plane_bytes[2] = cols / c->group * t->full_rows * c->bits / 8;
    }
    return param;
}

/* A plane of random bytes, one byte into its block; its parameters are set. */
static inline void case_plane(const case_weight *c, tensor *t, uint32_t p, size_t param)
{
    unsigned char *block = case_alloc((size_t)t->plane_bytes[p] + 1);
    block[0] = 0;
    block++;
    for (size_t i = 0; i < t->plane_bytes[p]; i++) block[i] = (unsigned char)case_bits();
    size_t step = p == 0 ? t->encoding->block_bytes : param;
    for (size_t i = 0; step > 0 && i < t->plane_bytes[p]; i += step) {
        if (p == 0) {
            case_fill_block(c->id, block + i);
        } else if (p == 2 && t->full_rows != 0) {
            break; /* zeros are codes */
        } else if (param > 1) {
            case_put(block + i, c->param, case_scale() * (c->bits == 8 ? 0.1F : 1.0F));
        } else if (c->id == ENCODING_ID_NVFP4_PLANES) {
            block[i] = (unsigned char)(block[i] % 0x28);
        } else {
            block[i] = (unsigned char)(112 + block[i] % 13);
        }
    }
    for (size_t i = 0; p == 0 && c->id == ENCODING_ID_MXFP8_PLANES && i < t->plane_bytes[p]; i++)
        case_fill_block(ENCODING_ID_F8_E4M3, block + i);
    t->planes[p] = block;
}

/* [cols, rows * step], of which nothing lies behind the last number. */
static inline void case_turn(tensor *t, uint32_t step)
{
    size_t size = t->encoding->block_bytes;
    t->row_bytes[0] = step * size;
    t->col_bytes = t->n_rows * step * size;
    t->plane_bytes[0] = (t->n_cols - 1) * t->col_bytes + (t->n_rows - 1) * t->row_bytes[0] + size;
}

/* Planes begin one byte (f32: four) into their blocks. */
static inline tensor case_tensor(const case_weight *c, uint32_t rows, uint32_t cols)
{
    tensor t = {.name = "w", .n_dims = 2, .dims = {rows, cols, 1, 1}, .n_rows = rows};
    t.encoding = encoding_by_id(c->id);
    t.n_cols = cols;
    size_t unit = t.encoding->block_bytes;
    size_t per_row = unit == 0 ? 0 : cols / t.encoding->block_cols;
    t.row_bytes[0] = per_row * unit;
    size_t param = case_planes(c, &t);
    for (uint32_t p = 0; p < TENSOR_PLANES; p++) {
        if (t.row_bytes[p] != 0) t.plane_bytes[p] = t.row_bytes[p] * rows;
        if (p == 0 && case_is_turned(c)) case_turn(&t, c->bits);
        if (t.plane_bytes[p] != 0) case_plane(c, &t, p, param);
    }
    return t;
}

static inline void case_tensor_free(tensor *t)
{
    for (uint32_t p = 0; p < TENSOR_PLANES; p++) {
        if (t->planes[p] == NULL) continue;
        void *block;
        const unsigned char *first = t->planes[p] - 1;
        memcpy(&block, &first, sizeof block);
        free(block);
    }
}

/* An input of codes as one instruction set prepares it. */
typedef struct case_codes {
    unsigned char *at;
    kernel_form form;
    size_t bytes; /* of a token */
} case_codes;

static inline case_codes case_codes_new(kernel_prepare_codes_fn *prepare, kernel_form form,
                                        const float *x, uint32_t n_tokens, uint32_t cols)
{
    case_codes c = {.form = form};
    c.bytes = kernel_codes_bytes(cols / KERNEL_BLOCK, c.form);
    c.at = case_alloc(n_tokens * c.bytes);
    for (size_t t = 0; t < n_tokens; t++) {
        prepare(x + t * cols, cols / KERNEL_BLOCK, c.at + t * c.bytes);
    }
    return c;
}

static inline int32_t case_codes_q(const case_codes *c, uint32_t token, uint32_t column)
{
    return kernel_code(c->at + token * c->bytes, column, c->form, column % 3 == 0);
}

/* The KERNEL_TIMES numbers of a block. */
static inline const unsigned char *case_codes_numbers(const case_codes *c, uint32_t token,
                                                      uint32_t block, kernel_number which)
{
    return c->at + token * c->bytes + kernel_number_at(block, which, c->form);
}

static inline double case_codes_value(const case_codes *c, uint32_t token, uint32_t column)
{
    float scale;
    memcpy(&scale, case_codes_numbers(c, token, column / KERNEL_BLOCK, KERNEL_SCALE), sizeof scale);
    return (double)case_codes_q(c, token, column) * (double)scale;
}

/* A prepared input of every form. */
typedef struct case_input {
    float *f;
    uint16_t *h;
    case_codes codes, plain; /* as k prepares them, as generic does */
} case_input;

/* Codes that are wanted, for which cols is a multiple of KERNEL_BLOCK. */
typedef enum case_bits { CASE_NO_CODES, CASE_I16, CASE_I8 } case_form;

static inline case_input case_input_new(const cpu_kernels *k, const cpu_kernels *generic,
                                        uint32_t n_tokens, uint32_t cols, bool rounded,
                                        case_form bits)
{
    size_t n = (size_t)n_tokens * cols;
    case_input x = {.f = case_alloc(n * sizeof(float)), .h = case_alloc(n * sizeof(uint16_t))};
    for (size_t i = 0; i < n; i++) {
        x.f[i] = case_number() * (i / 40 % 5 == 0 ? 20.0F : 1.0F);
        if (i / 32 % 7 == 3) x.f[i] = 0.0F;
    }
    if (bits == CASE_I16) {
        x.codes = case_codes_new(k->prepare_i16, k->form_i16, x.f, n_tokens, cols);
        x.plain = case_codes_new(generic->prepare_i16, generic->form_i16, x.f, n_tokens, cols);
    } else if (bits == CASE_I8) {
        x.codes = case_codes_new(k->prepare_i8, k->form_i8, x.f, n_tokens, cols);
        x.plain = case_codes_new(generic->prepare_i8, generic->form_i8, x.f, n_tokens, cols);
    }
    if (rounded) generic->prepare_bf16(x.f, (uint32_t)n, x.f, x.h);
    return x;
}

static inline void case_input_free(case_input *x)
{
    free(x->f);
    free(x->h);
    free(x->codes.at);
    free(x->plain.at);
}

#endif
