/* vec_form_bytes.h - codes and inputs as four bytes to a lane: the form in which VNNI multiplies
 * integers, with 64 products to an instruction. What a form provides is said in vec_form_words.h.
 *
 * With FORM_LOW 1, which is defined first, an input is q = 256 * high + low, high a signed byte and
 * low an unsigned one; with FORM_LOW 0 it is the signed byte. The instruction takes unsigned bytes
 * times signed ones, so codes are the unsigned factor of high and the signed one of low, which
 * codes of up to 7 bits are both. The sum of code * high is shifted and that of code * low added to
 * it: 32 * 255 * 128 * 256 < 2^31. What is offset in the file (code - 8, ...) is so in the sum:
 * less 8 times the sum of q; codes of 8 bits are moved by 128 for one of the two factors, and their
 * sum back by 128 times the sum of the other. */
#ifndef BACKEND_CPU_VEC_FORM_BYTES_H
#define BACKEND_CPU_VEC_FORM_BYTES_H

#include "backend/cpu/vec_codes.h"

/* Vectors of codes of GROUP blocks of a row; vectors of codes of a block of VL rows. */
enum { SLOTS = 2, UNITS = VW / 4 };

#define FORM (FORM_LOW ? KERNEL_FORM_SPLIT : KERNEL_FORM_BYTES)

/* Whether two blocks that share a scale are summed before they are scaled, where their weights do
 * so too. */
#define FORM_PAIRS (!FORM_LOW)

enum { GROUP_BYTES = GROUP * (FORM_LOW ? KERNEL_SPLIT_BYTES : KERNEL_BYTES_BYTES) };

/* Where in a group of inputs the low bytes of an order, the second order, and the numbers begin. */
enum {
    AT_LOW_BYTES = GROUP * KERNEL_BLOCK,
    AT_ODD_EVEN = (FORM_LOW ? 2 : 1) * AT_LOW_BYTES,
    AT_SCALE = 2 * AT_ODD_EVEN,
    AT_SUM = AT_SCALE + VL * 4,
    AT_TOTAL = AT_SUM + VL * 4,
    AT_FIRST = AT_TOTAL + VL * 4,
    AT_SECOND = AT_FIRST + VL * 4,
    AT_HIGH = AT_SECOND + VL * 4,
    AT_PAIR = AT_HIGH,
    AT_LOW = AT_HIGH + VL * 4
};

/* Kinds whose units are multiplied alike are one of these. */
#define FORM_LIKE_MAP(X) X(AFFINE4) X(AFFINE8) X(Q4_0) X(Q4_1) X(Q5_0) X(Q8_0) X(Q6_K)

INLINE codes_kind form_like(const codes_kind kind)
{
    return codes_biased(kind) && kind != CODES_AFFINE4 && kind != CODES_AFFINE8 ? CODES_Q4_1 : kind;
}

/* Whose slots are the even columns and the odd ones; those of the others are halves of blocks. */
INLINE bool form_odd_even(const codes_kind kind)
{
    return kind == CODES_AFFINE4;
}

/* Codes as the unsigned factor, and as the signed one. */
INLINE vi form_unsigned(const codes_kind kind, vi code)
{
    return kind == CODES_Q8_0 ? vi_xor(code, vi_set1((int32_t)0x80808080u)) : code;
}

INLINE vi form_signed(const codes_kind kind, vi code)
{
    return kind == CODES_AFFINE8 ? vi_xor(code, vi_set1((int32_t)0x80808080u)) : code;
}

/* ---- slots: two vectors of GROUP blocks of a row */

INLINE void slots_of_nibbles(vi code, vi slot[SLOTS])
{
    const vi low = vi_set1(0x0f0f0f0f);
    slot[0] = vi_and(code, low);
    slot[1] = vi_and(vi_srl(code, 4), low);
}

INLINE void slots_of_q5_0(const unsigned char *at, vi slot[SLOTS])
{
    slots_of_nibbles(v_load_quarters(at + 6, 22), slot);
    /* The bits, and 12 bytes of codes with them. */
    vi bits = v_load_quarters(at + 2, 22);
    slot[0] = vi_fifth_bits(slot[0], bits, 0);
    slot[1] = vi_fifth_bits(slot[1], bits, 2);
}

INLINE void slots_of_stream(const unsigned char *at, const int bits, vi slot[SLOTS])
{
    vw block[GROUP];
    UNROLL
    for (size_t i = 0; i < GROUP; i++) block[i] = vw_bits(at + i * 4 * (size_t)bits, bits);
    vw_to_halves(block, slot);
}

/* Blocks b .. b + GROUP - 1 (b a multiple of GROUP) of one row's chunk, as they are in the file. */
INLINE void form_slots(const codes_kind kind, const unsigned char *chunk, uint32_t b,
                       vi slot[SLOTS])
{
    const size_t i = b;
    switch (kind) {
    case CODES_AFFINE2:
        slots_of_stream(chunk + i * 8, 2, slot);
        return;
    case CODES_AFFINE3:
        slots_of_stream(chunk + i * 12, 3, slot);
        return;
    case CODES_AFFINE4:
        slots_of_nibbles(vi_load(chunk + i * 16), slot);
        return;
    case CODES_AFFINE5:
        slots_of_stream(chunk + i * 20, 5, slot);
        return;
    case CODES_AFFINE6:
        slots_of_stream(chunk + i * 24, 6, slot);
        return;
    case CODES_AFFINE8:
        slot[0] = v_load_quarters(chunk + i * 32, 32);
        slot[1] = v_load_quarters(chunk + i * 32 + 16, 32);
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
    case CODES_Q8_0:
        slot[0] = v_load_quarters(chunk + i * 34 + 2, 34);
        slot[1] = v_load_quarters(chunk + i * 34 + 18, 34);
        return;
    case CODES_Q4_K:
    case CODES_Q5_K:
        codes_halves_k(kind, chunk, b, slot);
        return;
    default:
        codes_halves_q6_k(chunk, b, slot);
        return;
    }
}

/* One row's slots against the inputs of a group that stand at x: partial sums, of the halves of
 * blocks where their scales differ. */
INLINE void form_dot(const codes_kind kind, const vi slot[SLOTS], const unsigned char *x, vi sum[2])
{
    const int subs = codes_subs(kind);
    if (form_odd_even(kind)) x += AT_ODD_EVEN;
    UNROLL
    for (int i = 0; i < SLOTS; i++) {
        vi *to = &sum[subs == 2 ? i : 0];
        vi before = i < subs ? vi_zero() : *to;
        *to = vi_dot_bytes(before, form_unsigned(kind, slot[i]), vi_load(x + (size_t)i * VL * 4));
    }
    if (!FORM_LOW) return;
    UNROLL
    for (int h = 0; h < subs; h++) sum[h] = vi_sll(sum[h], 8);
    x += AT_LOW_BYTES;
    UNROLL
    for (int i = 0; i < SLOTS; i++) {
        vi *to = &sum[subs == 2 ? i : 0];
        *to = vi_dot_bytes(*to, vi_load(x + (size_t)i * VL * 4), form_signed(kind, slot[i]));
    }
}

/* What the sums of a block lack is a number of its input, */
INLINE size_t form_lack_at(const codes_kind kind, const int half)
{
    switch (kind) {
    case CODES_AFFINE8:
        return AT_LOW;
    case CODES_Q8_0:
        return FORM_LOW ? AT_HIGH : AT_TOTAL;
    case CODES_Q6_K:
        return half == 0 ? AT_FIRST : AT_SECOND;
    default:
        return AT_TOTAL;
    }
}

/* times a power of two, added for codes that were made smaller. */
INLINE vi form_lacking(const codes_kind kind, vi sum, vi number)
{
    switch (kind) {
    case CODES_AFFINE8:
        return FORM_LOW ? vi_add(sum, vi_sll(number, 7)) : sum;
    case CODES_Q8_0:
        return vi_sub(sum, vi_sll(number, FORM_LOW ? 15 : 7));
    case CODES_Q4_0:
        return vi_sub(sum, vi_sll(number, 3));
    case CODES_Q5_0:
        return vi_sub(sum, vi_sll(number, 4));
    case CODES_Q6_K:
        return vi_sub(sum, vi_sll(number, 5));
    default:
        return sum;
    }
}

INLINE vi form_whole(const codes_kind kind, vi sum, const unsigned char *x, const int half)
{
    return form_lacking(kind, sum, vi_load(x + form_lack_at(kind, half)));
}

/* ---- units: four columns, so VL rows of four bytes */

/* The 32 bits of each of VL rows that stand at (bit j is the fifth of column j) into the units. */
INLINE void units_fifth(const unsigned char *at, size_t stride, vi unit[UNITS])
{
    vi all = v_column_32(at, stride);
    UNROLL
    for (int i = 0; i < UNITS; i++) unit[i] = vi_fifth_bits_of_4(unit[i], all, i);
}

/* Block b of a chunk of VL rows. */
INLINE void form_units(const codes_kind kind, const unsigned char *chunk, size_t stride, uint32_t b,
                       vi unit[UNITS])
{
    if (!codes_nibbles(kind)) {
        codes_words(kind, chunk, stride, b, unit);
        if (kind == CODES_Q5_0) units_fifth(chunk + (size_t)b * 22 + 2, stride, unit);
        return;
    }
    const vi low = vi_set1(0x0f0f0f0f);
    vi word[4];
    codes_nibble_words(kind, chunk, stride, b, word);
    UNROLL
    for (int c = 0; c < 4; c++) {
        unit[c] = vi_and(word[c], low);
        unit[4 + c] = vi_and(vi_srl(word[c], 4), low);
    }
}

/* Where the high bytes that meet unit i of a block stand. */
INLINE size_t form_unit_at(size_t i)
{
    return i / 4 * GROUP * 16 + i % 4 * 4;
}

/* Units [UNITS, rows of rows] of a block, those of one half of it where the scales of halves
 * differ, against inputs of n tokens. on: to be added to dot. */
INLINE void form_dots(const codes_kind kind, const int32_t *units, const size_t rows,
                      const int half, const unsigned char *const in[CODE_TOKENS], const uint32_t n,
                      const bool on, vi dot[CODE_TOKENS][PANEL_VECTORS])
{
    const size_t n_units = UNITS / (size_t)codes_subs(kind);
    const size_t first = (size_t)half * n_units;
    const size_t order = form_odd_even(kind) ? AT_ODD_EVEN : 0;
    UNROLL
    for (int low = 0; low < 1 + FORM_LOW; low++) {
        const size_t plane = order + (low == 0 ? 0 : (size_t)AT_LOW_BYTES);
        UNROLL
        for (size_t i = first; i < first + n_units; i++) {
            vi code[PANEL_VECTORS];
            UNROLL
            for (size_t v = 0; v < PANEL_VECTORS; v++) {
                code[v] = vi_load(units + i * rows + v * VL);
                code[v] = low == 0 ? form_unsigned(kind, code[v]) : form_signed(kind, code[v]);
            }
            UNROLL
            for (uint32_t t = 0; t < n; t++) {
                vi x = vi_set1_at(in[t] + plane + form_unit_at(i));
                UNROLL
                for (size_t v = 0; v < PANEL_VECTORS; v++) {
                    vi before = !on && low == 0 && i == first ? vi_zero() : dot[t][v];
                    dot[t][v] = low == 0 ? vi_dot_bytes(before, code[v], x)
                                         : vi_dot_bytes(before, x, code[v]);
                }
            }
        }
        if (low != 0 || !FORM_LOW) continue;
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (size_t v = 0; v < PANEL_VECTORS; v++) dot[t][v] = vi_sll(dot[t][v], 8);
        }
    }
}

INLINE void form_unit_whole(const codes_kind kind, const int half, const unsigned char *in,
                            vi dot[PANEL_VECTORS])
{
    vi number = vi_set1_at(in + form_lack_at(kind, half));
    UNROLL
    for (size_t v = 0; v < PANEL_VECTORS; v++) dot[v] = form_lacking(kind, dot[v], number);
}

/* ---- inputs */

/* The integers of block b of a token, which came out of vi_round. */
INLINE void form_store(unsigned char *codes, uint32_t b, const vi whole[KERNEL_BLOCK / VL])
{
    const size_t piece = (size_t)GROUP * 16;
    int32_t of_half[2] = {vi_total(whole[0]), vi_total(whole[1])};
    kernel_number_put(codes, b, KERNEL_FIRST, FORM, &of_half[0]);
    kernel_number_put(codes, b, KERNEL_SECOND, FORM, &of_half[1]);
    unsigned char *to = codes + kernel_bytes_at(b, FORM, false);
    if (!FORM_LOW) {
        vi_store_bytes(to, to + AT_ODD_EVEN, piece, whole);
        return;
    }
    vi high[2] = {vi_sra(whole[0], 8), vi_sra(whole[1], 8)};
    int32_t total_high = vi_total(vi_add(high[0], high[1]));
    int32_t total_low = of_half[0] + of_half[1] - 256 * total_high;
    kernel_number_put(codes, b, KERNEL_HIGH, FORM, &total_high);
    kernel_number_put(codes, b, KERNEL_LOW, FORM, &total_low);
    vi_store_bytes(to, to + AT_ODD_EVEN, piece, high);
    vi_store_bytes(to + AT_LOW_BYTES, to + AT_LOW_BYTES + AT_ODD_EVEN, piece, whole);
}

#endif
