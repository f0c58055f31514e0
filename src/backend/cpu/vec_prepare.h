/* vec_prepare.h - prepare_i16 and prepare_i8: the input of a linear layer as the integers of
 * cpu_kernels.h, in the form of vec_form_words.h or vec_form_bytes.h, one of which is included
 * first. */
#ifndef BACKEND_CPU_VEC_PREPARE_H
#define BACKEND_CPU_VEC_PREPARE_H

#include "backend/cpu/vec_elem.h"

/* Below this exponent the block's scale would leave the normal range. */
enum { EXPONENT_LEAST = -100 };

/* Where the blocks of a token end, zeros fill the last group. */
LOOP void prepare_i16(const float *x, uint32_t n_blocks, unsigned char *codes)
{
    if (n_blocks % GROUP != 0) memset(codes + kernel_group_at(n_blocks, FORM), 0, GROUP_BYTES);
    for (uint32_t b = 0; b < n_blocks; b++, x += KERNEL_BLOCK) {
        vi bits[KERNEL_BLOCK / VL];
        vi top = vi_zero();
        UNROLL
        for (int i = 0; i < KERNEL_BLOCK / VL; i++) {
            bits[i] = bits_round_bf16(vf_load(x + (size_t)i * VL));
            top = vi_max(top, vi_and(bits[i], vi_set1(0x7fffffff)));
        }
        uint32_t largest = (uint32_t)vi_top(top);
        if (largest >= 0x7f800000u) {
            UNROLL
            for (int i = 0; i < KERNEL_BLOCK / VL; i++) bits[i] = vi_zero();
        }
        int exponent = (int)(largest >> 23) - 127;
        if (exponent < EXPONENT_LEAST || largest >= 0x7f800000u) exponent = EXPONENT_LEAST;
        float step = fp_from_bits((uint32_t)(exponent - 14 + 127) << 23);
        vf inverse = vf_set1(fp_from_bits((uint32_t)(14 - exponent + 127) << 23));
        vi whole[KERNEL_BLOCK / VL];
        vi total = vi_zero();
        UNROLL
        for (int i = 0; i < KERNEL_BLOCK / VL; i++) {
            whole[i] = vi_round(vf_mul(vf_of(bits[i]), inverse));
            total = vi_add(total, whole[i]);
        }
        form_store(codes, b, whole);
        if (largest == 0) step = 0.0F;
        if (largest >= 0x7f800000u) step = NAN;
        kernel_numbers_put(codes, b, FORM, step, vi_total(total));
    }
}

/* n blocks from block b on, which share a scale. */
INLINE void prepare_pair(const float *x, uint32_t b, uint32_t n, unsigned char *codes)
{
    const uint32_t n_vectors = n * KERNEL_BLOCK / VL;
    vi top = vi_zero();
    for (size_t i = 0; i < n_vectors; i++) {
        top = vi_max(top, vi_and(vi_of(vf_load(x + i * VL)), vi_set1(0x7fffffff)));
    }
    float inverse;
    const float scale = host_i8_scale(fp_from_bits((uint32_t)vi_top(top)), &inverse);
    const vf by = vf_set1(inverse);
    int32_t both = 0;
    for (uint32_t of = b; of < b + n; of++, x += KERNEL_BLOCK) {
        vi whole[KERNEL_BLOCK / VL];
        vi total = vi_zero();
        UNROLL
        for (size_t i = 0; i < KERNEL_BLOCK / VL; i++) {
            whole[i] = inverse == 0.0F ? vi_zero() : vi_round(vf_mul(vf_load(x + i * VL), by));
            total = vi_add(total, whole[i]);
        }
        form_store(codes, of, whole);
        int32_t sum = vi_total(total);
        kernel_numbers_put(codes, of, FORM, scale, sum);
        both += sum;
    }
#if FORM_PAIRS
    const float pair = scale * (float)both;
    for (uint32_t of = b; of < b + n; of++) {
        kernel_number_put(codes, of, KERNEL_PAIR, FORM, &pair);
    }
#else
    (void)both;
#endif
}

LOOP void prepare_i8(const float *x, uint32_t n_blocks, unsigned char *codes)
{
    if (n_blocks % GROUP != 0) memset(codes + kernel_group_at(n_blocks, FORM), 0, GROUP_BYTES);
    for (uint32_t b = 0; b < n_blocks; b += 2, x += 2 * (size_t)KERNEL_BLOCK) {
        prepare_pair(x, b, n_blocks - b < 2 ? 1 : 2, codes);
    }
}

#endif
