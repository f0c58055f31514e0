/* vec_form_words.h - codes and inputs as pairs of 16-bit numbers: the form in which AVX2 multiplies
 * integers.
 *
 * What a form provides, here and in vec_form_bytes.h: where the numbers of a group of inputs stand
 * (GROUP_BYTES, AT_), how the codes of GROUP blocks of a row unpack (form_slots) and meet an input
 * (form_dot, then form_whole), how those of a block of VL rows do (form_units; form_dots, then
 * form_unit_whole), and how an input is stored (form_store). */
#ifndef BACKEND_CPU_VEC_FORM_WORDS_H
#define BACKEND_CPU_VEC_FORM_WORDS_H

#include "backend/cpu/vec_codes.h"

/* Vectors of codes of GROUP blocks of a row; vectors of codes of a block of VL rows. */
enum { SLOTS = 4, UNITS = VW / 2, GROUP_BYTES = GROUP * KERNEL_WORDS_BYTES };

/* What the form is called; see vec_form_bytes.h. */
#define FORM KERNEL_FORM_WORDS
#define FORM_PAIRS 0

/* Where in a group of inputs its numbers begin. */
enum {
    AT_SCALE = GROUP * KERNEL_BLOCK * 2,
    AT_SUM = AT_SCALE + VL * 4,
    AT_TOTAL = AT_SUM + VL * 4
};

/* Kinds whose units are multiplied alike are one of these. */
#define FORM_LIKE_MAP(X) X(Q4_0) X(Q4_1) X(Q6_K)

INLINE codes_kind form_like(const codes_kind kind)
{
    if (codes_subs(kind) == 2) return CODES_Q6_K;
    return codes_biased(kind) ? CODES_Q4_1 : CODES_Q4_0;
}

/* ---- slots: slot i of a block are columns 0, 2 .. 14 (i 0), 16, 18 .. (1), 1, 3 .. (2), 17 .. (3)
 */

/* Bytes of the first and of the second 16 columns of GROUP blocks. */
INLINE void slots_of_bytes(vi first, vi second, vi slot[4])
{
    const vi low = vi_set1(0x00ff00ff);
    slot[0] = vi_and(first, low);
    slot[1] = vi_and(second, low);
    slot[2] = vi_srl_halves(first, 8);
    slot[3] = vi_srl_halves(second, 8);
}

/* 16 bits hold columns 2 l, 16 + 2 l, 2 l + 1, 17 + 2 l. */
INLINE void slots_of_nibbles(vi code, vi slot[4])
{
    const vi low = vi_set1(0x000f000f);
    UNROLL
    for (int i = 0; i < 3; i++) slot[i] = vi_and(vi_srl_halves(code, 4 * i), low);
    slot[3] = vi_srl_halves(code, 12);
}

INLINE void slots_of_q5_0(const unsigned char *at, vi slot[4])
{
    slots_of_nibbles(v_load_quarters(at + 6, 22), slot);
    /* The bits, and 12 bytes of codes with them. */
    vi bits = v_load_quarters(at + 2, 22);
    UNROLL
    for (int i = 0; i < 4; i++) {
        slot[i] = vi_minus_16(vi_or(slot[i], v_fifth_bits(bits, i)), 16);
    }
}

INLINE void slots_of_stream(const unsigned char *at, const int bits, vi slot[4])
{
    vw block[GROUP];
    UNROLL
    for (size_t i = 0; i < GROUP; i++) block[i] = vw_bits(at + i * 4 * (size_t)bits, bits);
    vw_to_slots(block, slot);
}

/* Blocks b .. b + GROUP - 1 (b a multiple of GROUP) of one row's chunk, signed where the encoding
 * is; codes of Q4_0 are not. */
INLINE void form_slots(const codes_kind kind, const unsigned char *chunk, uint32_t b, vi slot[4])
{
    const size_t i = b;
    switch (kind) {
    case CODES_AFFINE2:
        slots_of_stream(chunk + i * 8, 2, slot);
        return;
    case CODES_AFFINE3:
        slots_of_stream(chunk + i * 12, 3, slot);
        return;
    case CODES_AFFINE4: {
        /* Bytes 8 apart come together: their nibbles are columns 2 l, 2 l + 1, 16 + 2 l, ... */
        vi order[4];
        slots_of_nibbles(vi_fold_bytes(vi_load(chunk + i * 16)), order);
        slot[0] = order[0];
        slot[1] = order[2];
        slot[2] = order[1];
        slot[3] = order[3];
        return;
    }
    case CODES_AFFINE5:
        slots_of_stream(chunk + i * 20, 5, slot);
        return;
    case CODES_AFFINE6:
        slots_of_stream(chunk + i * 24, 6, slot);
        return;
    case CODES_AFFINE8:
        slots_of_bytes(v_load_quarters(chunk + i * 32, 32),
                       v_load_quarters(chunk + i * 32 + 16, 32), slot);
        return;
    case CODES_Q4_0:
        slots_of_nibbles(v_load_quarters(chunk + i * 18 + 2, 18), slot);
        return;
    case CODES_Q4_1:
        slots_of_nibbles(v_load_quarters(chunk + i * 20 + 4, 20), slot);
        return;
    case CODES_Q5_0:
        slots_of_q5_0(chunk + i * 22, slot);
        return;
    case CODES_Q8_0: {
        vi half[2] = {v_load_quarters(chunk + i * 34 + 2, 34),
                      v_load_quarters(chunk + i * 34 + 18, 34)};
        UNROLL
        for (int h = 0; h < 2; h++) {
            slot[h] = vi_sra_halves(vi_sll_halves(half[h], 8), 8);
            slot[2 + h] = vi_sra_halves(half[h], 8);
        }
        return;
    }
    case CODES_Q4_K:
    case CODES_Q5_K: {
        vi half[2];
        codes_halves_k(kind, chunk, b, half);
        slots_of_bytes(half[0], half[1], slot);
        return;
    }
    default: {
        vi half[2];
        codes_halves_q6_k(chunk, b, half);
        slots_of_bytes(half[0], half[1], slot);
        UNROLL
        for (int n = 0; n < 4; n++) slot[n] = vi_minus_16(slot[n], 32);
        return;
    }
    }
}

/* One row's slots against the inputs of a group that stand at x: partial sums, of the halves of
 * blocks where their scales differ. */
INLINE void form_dot(const codes_kind kind, const vi slot[SLOTS], const unsigned char *x, vi sum[2])
{
    const int subs = codes_subs(kind);
    UNROLL
    for (int i = 0; i < SLOTS; i++) {
        vi in = vi_load(x + (size_t)i * GROUP * 16);
        vi *to = &sum[subs == 2 ? i % 2 : 0];
        *to = i < subs ? vi_pairs(slot[i], in) : vi_dot(*to, slot[i], in);
    }
}

/* What the sums of a group of blocks lack. */
INLINE vi form_whole(const codes_kind kind, vi sum, const unsigned char *x, const int half)
{
    (void)half;
    if (kind != CODES_Q4_0) return sum;
    return vi_sub(sum, vi_sll(vi_load(x + AT_TOTAL), 3));
}

/* ---- units: pairs of columns */

/* The 32 bits of each of VL rows that stand at (bit j is the fifth of column j) into the 16
 * pairs of columns, which then get their offset of 16. */
INLINE void codes_fifth(const unsigned char *at, size_t stride, vi pair[16])
{
    vi all = v_column_32(at, stride);
    vi low = vi_and(all, vi_set1(0xffff));
    vi high = vi_srl(all, 16);
    /* Bit j of the upper 16: that of the column two further on. */
    vi of_half[2] = {vi_or(low, vi_sll(vi_srl(low, 2), 16)),
                     vi_or(high, vi_sll(vi_srl(high, 2), 16))};
    UNROLL
    for (int i = 0; i < 16; i++) {
        int j = i % 8 / 2 * 4 + i % 2;
        vi bit = vi_and(of_half[i / 8], vi_set1(0x00010001 << j));
        bit = j < 4 ? vi_sll_halves(bit, 4 - j) : vi_srl_halves(bit, j - 4);
        pair[i] = vi_minus_16(vi_or(pair[i], bit), 16);
    }
}

/* Where the pairs of inputs stand that meet nibbles k and k + 4 of word c of a block. */
INLINE size_t codes_nibble_pair(const codes_kind kind, size_t c, size_t k)
{
    if (kind == CODES_AFFINE4) return 4 * c + k;
    return k % 2 * 8 + 2 * c + k / 2;
}

/* Bytes of a word -> the pairs (0, 2) and (1, 3). */
INLINE void codes_split(vi word, vi pair[2])
{
    pair[0] = vi_and(word, vi_set1(0x00ff00ff));
    pair[1] = vi_srl_halves(word, 8);
}

/* Block b of a chunk of VL rows -> the 16 pairs of its columns, signed where the encoding is. */
INLINE void form_units(const codes_kind kind, const unsigned char *chunk, size_t stride, uint32_t b,
                       vi pair[UNITS])
{
    vi word[8];
    if (codes_nibbles(kind)) {
        codes_nibble_words(kind, chunk, stride, b, word);
        UNROLL
        for (size_t c = 0; c < 4; c++) {
            if (kind == CODES_AFFINE4) word[c] = vi_swap_middle(word[c]);
            UNROLL
            for (size_t k = 0; k < 4; k++) {
                vi code = vi_srl_halves(word[c], 4 * (int)k);
                if (k < 3) code = vi_and(code, vi_set1(0x000f000f));
                if (kind == CODES_Q4_0) code = vi_minus_16(code, 8);
                pair[codes_nibble_pair(kind, c, k)] = code;
            }
        }
        return;
    }
    codes_words(kind, chunk, stride, b, word);
    UNROLL
    for (size_t c = 0; c < 8; c++) {
        if (kind == CODES_Q8_0) {
            pair[2 * c] = vi_sra_halves(vi_sll_halves(word[c], 8), 8);
            pair[2 * c + 1] = vi_sra_halves(word[c], 8);
            continue;
        }
        codes_split(word[c], pair + 2 * c);
        if (kind == CODES_Q6_K) {
            pair[2 * c] = vi_minus_16(pair[2 * c], 32);
            pair[2 * c + 1] = vi_minus_16(pair[2 * c + 1], 32);
        }
    }
    if (kind == CODES_Q5_0) codes_fifth(chunk + (size_t)b * 22 + 2, stride, pair);
}

/* Where the inputs that meet pair i of a block stand, in bytes. */
INLINE size_t codes_pair_at(size_t i)
{
    size_t slot = i / 8 + i % 2 * 2;
    return 2 * (slot * GROUP * 8 + i % 8 / 2 * 2);
}

/* Units [UNITS, rows of rows] of a block, those of one half of it where the scales of halves
 * differ, against inputs of n tokens. on: to be added to dot. */
INLINE void form_dots(const codes_kind kind, const int32_t *units, const size_t rows,
                      const int half, const unsigned char *const in[CODE_TOKENS], const uint32_t n,
                      const bool on, vi dot[CODE_TOKENS][PANEL_VECTORS])
{
    const size_t n_units = UNITS / (size_t)codes_subs(kind);
    const size_t first = (size_t)half * n_units;
    UNROLL
    for (size_t i = first; i < first + n_units; i++) {
        vi code[PANEL_VECTORS];
        UNROLL
        for (size_t v = 0; v < PANEL_VECTORS; v++) code[v] = vi_load(units + i * rows + v * VL);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            vi input = vi_set1_at(in[t] + codes_pair_at(i));
            UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                vi before = !on && i == first ? vi_zero() : dot[t][v];
                dot[t][v] = vi_dot_next(before, code[v], input);
            }
        }
    }
}

INLINE void form_unit_whole(const codes_kind kind, const int half, const unsigned char *in,
                            vi dot[PANEL_VECTORS])
{
    (void)kind;
    (void)half;
    (void)in;
    (void)dot;
}

/* ---- inputs */

/* The integers of block b of a token, which came out of vi_round. */
INLINE void form_store(unsigned char *codes, uint32_t b, const vi whole[KERNEL_BLOCK / VL])
{
    const size_t slot = (size_t)GROUP * 16;
    unsigned char *q = codes + kernel_word_at(b * KERNEL_BLOCK, FORM);
    vi_store_even_odd(q, q + 2 * slot, whole);
    vi_store_even_odd(q + slot, q + 3 * slot, whole + 16 / VL);
}

#endif
