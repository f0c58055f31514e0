/* vec_linear_few.h - linear_codes_q for up to four tokens: weights are read once, in the order in
 * which they lie.
 *
 * Four rows are at work, GROUP blocks of each at a time. The packed codes of a block fill a quarter
 * of a vector (the half of a vector in AVX2), so that one row of blocks meets one vector of inputs;
 * the four partial sums of each block are added across lanes for four rows at once, which leaves
 * block b of row r in lane 4 b + r. The order of additions is that of vec_linear_codes.h. */
#ifndef BACKEND_CPU_VEC_LINEAR_FEW_H
#define BACKEND_CPU_VEC_LINEAR_FEW_H

#include "backend/cpu/vec_codes.h"

/* Tokens that share unpacked codes. Bytes of rows between those at work and those that are fetched,
 * so that these have come when their turn does; and from those to a place that is touched early, a
 * line here and there, so that its page is known when its rows are fetched all at once. */
enum { FEW_TOKENS = 4, AHEAD_BYTES = 8192, PAGE_AHEAD_BYTES = 16384 };

/* The parameters of four rows of a chunk, [block, row], where they are read a chunk at a time. */
typedef struct quad_params {
    _Alignas(64) float scale[2][CHUNK_BLOCKS * QUAD]; /* [halves of a block] */
    _Alignas(64) float bias[CHUNK_BLOCKS * QUAD];
} quad_params;

/* Those of GROUP blocks. */
typedef struct quad_scales {
    vf scale[2], bias;
} quad_scales;

/* How the parameters of affine codes are read. */
typedef enum quad_style { QUAD_ANY, QUAD_BF16_64, QUAD_F16_64 } quad_style;

typedef struct quad_rows {
    const kernel_linear *a;
    const unsigned char *row[3][QUAD]; /* of each plane; the last one again where there are fewer */
    size_t ahead[3]; /* from these rows to those that are fetched meanwhile, of each plane */
    uint32_t first, n;
    uint32_t n_blocks;
} quad_rows;

/* ---- parameters */

/* 16 bytes of each of four rows -> their 4 words, each of four rows. */
INLINE void quad_turn(const unsigned char *const row[QUAD], size_t skip, __m128i word[4])
{
    __m128i a[QUAD];
    UNROLL
    for (int r = 0; r < QUAD; r++) a[r] = v_load_16(row[r] + skip);
    __m128i x = _mm_unpacklo_epi32(a[0], a[1]);
    __m128i y = _mm_unpackhi_epi32(a[0], a[1]);
    __m128i z = _mm_unpacklo_epi32(a[2], a[3]);
    __m128i w = _mm_unpackhi_epi32(a[2], a[3]);
    word[0] = _mm_unpacklo_epi64(x, z);
    word[1] = _mm_unpackhi_epi64(x, z);
    word[2] = _mm_unpacklo_epi64(y, w);
    word[3] = _mm_unpackhi_epi64(y, w);
}

/* Four rows of four bytes -> byte 0 of each row, byte 1 of each, ... */
INLINE __m128i quad_bytes(__m128i word)
{
    return _mm_shuffle_epi8(word,
                            _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}

/* The f16 numbers in the low halves of four words that hold 0 .. 65535. */
INLINE __m128 quad_from_f16(__m128i word)
{
    return _mm_cvtph_ps(_mm_packus_epi32(word, word));
}

/* 16 unsigned bytes times factor, four of each row. */
INLINE void quad_scale_bytes(__m128i bytes, __m128 factor, float *out)
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m128 value = _mm_cvtepi32_ps(_mm_cvtepu8_epi32(bytes));
        _mm_storeu_ps(out + 4 * (size_t)i, _mm_mul_ps(value, factor));
        bytes = _mm_srli_si128(bytes, 4);
    }
}

/* Q4_K and Q5_K (encodings/k_scales.h). */
INLINE void quad_k_params(const unsigned char *const row[QUAD], quad_params *p)
{
    __m128i word[4];
    quad_turn(row, 0, word);
    __m128 d = quad_from_f16(_mm_and_si128(word[0], _mm_set1_epi32(0xffff)));
    __m128 least = quad_from_f16(_mm_srli_epi32(word[0], 16));
    least = _mm_xor_ps(least, _mm_set1_ps(-0.0F));
    const __m128i six = _mm_set1_epi32(0x3f3f3f3f);
    const __m128i four = _mm_set1_epi32(0x0f0f0f0f);
    const __m128i two = _mm_set1_epi32(0x30303030);
    __m128i s_high =
        _mm_or_si128(_mm_and_si128(word[3], four), _mm_and_si128(_mm_srli_epi32(word[1], 2), two));
    __m128i m_high = _mm_or_si128(_mm_and_si128(_mm_srli_epi32(word[3], 4), four),
                                  _mm_and_si128(_mm_srli_epi32(word[2], 2), two));
    quad_scale_bytes(quad_bytes(_mm_and_si128(word[1], six)), d, p->scale[0]);
    quad_scale_bytes(quad_bytes(s_high), d, p->scale[0] + (size_t)4 * QUAD);
    quad_scale_bytes(quad_bytes(_mm_and_si128(word[2], six)), least, p->bias);
    quad_scale_bytes(quad_bytes(m_high), least, p->bias + (size_t)4 * QUAD);
}

INLINE void quad_q6_k_params(const unsigned char *const row[QUAD], quad_params *p)
{
    __m128i word[4];
    quad_turn(row, 192, word);
    __m128i half = _mm_setr_epi32(load_u16(row[0] + 208), load_u16(row[1] + 208),
                                  load_u16(row[2] + 208), load_u16(row[3] + 208));
    __m128 d = quad_from_f16(half);
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m128i bytes = quad_bytes(word[i]);
        UNROLL
        for (size_t k = 0; k < 4; k++) {
            __m128 value = _mm_mul_ps(_mm_cvtepi32_ps(_mm_cvtepi8_epi32(bytes)), d);
            _mm_storeu_ps(p->scale[k % 2] + (2 * i + k / 2) * QUAD, value);
            bytes = _mm_srli_si128(bytes, 4);
        }
    }
}

/* Four 16-bit numbers in the low half. */
INLINE __m128 quad_from_16(__m128i halves, uint8_t type)
{
    if (type == ENCODING_ID_F16) return _mm_cvtph_ps(halves);
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16));
}

/* 8 bytes, so four groups, of four rows, skip bytes into them. */
INLINE void quad_affine_groups(const unsigned char *const row[QUAD], size_t skip, uint8_t type,
                               float *out)
{
    __m128i a[QUAD];
    UNROLL
    for (int r = 0; r < QUAD; r++) a[r] = _mm_loadl_epi64((const void *)(row[r] + skip));
    __m128i x = _mm_unpacklo_epi16(a[0], a[1]);
    __m128i y = _mm_unpacklo_epi16(a[2], a[3]);
    __m128i pair[2] = {_mm_unpacklo_epi32(x, y), _mm_unpackhi_epi32(x, y)};
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m128i group = g % 2 == 0 ? pair[g / 2] : _mm_srli_si128(pair[g / 2], 8);
        _mm_storeu_ps(out + (size_t)g * QUAD, quad_from_16(group, type));
    }
}

static void quad_affine_any(const quad_rows *rows, uint32_t block, uint32_t n_blocks, int plane,
                            float *out)
{
    const tensor *w = rows->a->w;
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint32_t group = (block + b) * KERNEL_BLOCK / w->group;
        for (size_t r = 0; r < QUAD; r++) {
            out[(size_t)b * QUAD + r] = affine_param(rows->row[plane][r], group, w->param_type);
        }
    }
}

/* The other whole chunks, and what is left at the end. */
static void quad_affine_other(const quad_rows *rows, uint32_t block, uint32_t n_blocks, int plane,
                              float *out)
{
    const tensor *w = rows->a->w;
    if (w->param_type == ENCODING_ID_F32 || n_blocks < CHUNK_BLOCKS || w->group != 32) {
        quad_affine_any(rows, block, n_blocks, plane, out);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        quad_affine_groups(rows->row[plane], ((size_t)block + 4 * i) * 2, w->param_type,
                           out + i * 4 * QUAD);
    }
}

/* What is read a chunk at a time. at: the chunk of each row. */
INLINE void quad_read_params(const codes_kind kind, const quad_rows *rows, const quad_style style,
                             const unsigned char *const at[QUAD], uint32_t block, uint32_t n_blocks,
                             quad_params *p)
{
    if (codes_block_bytes(kind) > 0) return;
    if (kind == CODES_Q4_K || kind == CODES_Q5_K) {
        quad_k_params(at, p);
    } else if (kind == CODES_Q6_K) {
        quad_q6_k_params(at, p);
    } else if (style != QUAD_ANY && n_blocks == CHUNK_BLOCKS) {
        v_groups_of_4(rows->row[1], block, style == QUAD_F16_64, p->scale[0]);
        v_groups_of_4(rows->row[2], block, style == QUAD_F16_64, p->bias);
    } else if (style == QUAD_ANY || block + n_blocks < GROUP) {
        if (n_blocks < CHUNK_BLOCKS) memset(p, 0, sizeof *p);
        quad_affine_other(rows, block, n_blocks, 1, p->scale[0]);
        quad_affine_other(rows, block, n_blocks, 2, p->bias);
    }
}

/* Of GROUP blocks from block + b on, at which `at` stands, of which n are there. */
INLINE quad_scales quad_scales_at(const codes_kind kind, const quad_rows *rows,
                                  const quad_style style, const unsigned char *const at[QUAD],
                                  uint32_t block, uint32_t b, uint32_t n, const quad_params *p)
{
    const bool read = style == QUAD_ANY || (b + n == CHUNK_BLOCKS);
    const size_t bytes = codes_block_bytes(kind);
    quad_scales q = {{vf_zero(), vf_zero()}, vf_zero()};
    if (bytes > 0) {
        q.scale[0] = v_blocks_f16(at, bytes, 0);
        if (kind == CODES_Q4_1) q.bias = v_blocks_f16(at, bytes, 2);
        if (n < GROUP) {
            q.scale[0] = vf_first(q.scale[0], n * QUAD);
            q.bias = vf_first(q.bias, n * QUAD);
        }
    } else if (!read && n < GROUP && block + b > 0) {
        const size_t skip = block + b;
        q.scale[0] = v_group_of_last(rows->row[1], skip, style == QUAD_F16_64);
        q.bias = v_group_of_last(rows->row[2], skip, style == QUAD_F16_64);
    } else if (!read && n >= GROUP) {
        const size_t skip = block + b;
        q.scale[0] = v_groups_of_2(rows->row[1], skip, style == QUAD_F16_64);
        q.bias = v_groups_of_2(rows->row[2], skip, style == QUAD_F16_64);
    } else {
        q.scale[0] = vf_load(p->scale[0] + (size_t)b * QUAD);
        if (codes_subs(kind) == 2) q.scale[1] = vf_load(p->scale[1] + (size_t)b * QUAD);
        if (codes_biased(kind)) q.bias = vf_load(p->bias + (size_t)b * QUAD);
    }
    return q;
}

/* ---- the loop */

/* Bytes that a row advances by in GROUP blocks; 0 where the blocks of a chunk are interlaced. */
INLINE size_t codes_step(const codes_kind kind)
{
    if (kind == CODES_Q4_K || kind == CODES_Q5_K || kind == CODES_Q6_K) return 0;
    return codes_chunk_bytes(kind) / CHUNK_BLOCKS * GROUP;
}

/* Where four rows and some tokens are. */
typedef struct quad_place {
    const unsigned char *at[QUAD];
    const unsigned char *x[FEW_TOKENS];
} quad_place;

/* What each token has so far, in lanes of block and row. */
typedef struct quad_sums {
    vf s[FEW_TOKENS];
} quad_sums;

#if FORM_PAIRS
/* Sums of GROUP blocks, of which each two share the scales of both sides. */
INLINE void quad_pairs(const codes_kind kind, const unsigned char *x, vi dot, const quad_scales *q,
                       vf *s)
{
    vi sum = v_pair_sums(form_whole(kind, dot, x, 0));
    vf term = vf_mul(vf_from_int(sum), vf_of(vi_load(x + AT_SCALE)));
    *s = vf_fma_pairs(q->scale[0], term, *s);
    *s = vf_fma_pairs(q->bias, vf_of(vi_load(x + AT_PAIR)), *s);
}
#else
INLINE void quad_pairs(const codes_kind kind, const unsigned char *x, vi dot, const quad_scales *q,
                       vf *s)
{
    (void)kind, (void)x, (void)dot, (void)q, (void)s;
}
#endif

/* Blocks b .. b + GROUP - 1 of a chunk, at which place is. pairs: see quad_pairs. */
INLINE void quad_group(const codes_kind kind, const quad_place *place, uint32_t b,
                       const quad_scales *q, const bool pairs, const uint32_t n_tokens,
                       quad_sums *sums)
{
    const int subs = codes_subs(kind);
    vi dot[FEW_TOKENS][2][QUAD];
    UNROLL
    for (int r = 0; r < QUAD; r++) {
        vi slot[SLOTS];
        form_slots(kind, place->at[r], codes_step(kind) == 0 ? b : 0, slot);
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) {
            vi sum[2];
            form_dot(kind, slot, place->x[t], sum);
            UNROLL
            for (int h = 0; h < subs; h++) dot[t][h][r] = sum[h];
        }
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        const unsigned char *x = place->x[t];
        if (pairs) {
            quad_pairs(kind, x, v_quad_tree(dot[t][0]), q, &sums->s[t]);
            continue;
        }
        UNROLL
        for (int h = 0; h < subs; h++) {
            vi sum = form_whole(kind, v_quad_tree(dot[t][h]), x, h);
            vf term = vf_mul(vf_from_int(sum), vf_of(vi_load(x + AT_SCALE)));
            sums->s[t] = vf_fma(q->scale[h], term, sums->s[t]);
        }
        if (codes_biased(kind)) {
            sums->s[t] = vf_fma(q->bias, vf_of(vi_load(x + AT_SUM)), sums->s[t]);
        }
    }
}

/* Fetches the scales and biases of the rows that come next where they lie apart. */
INLINE void quad_prefetch_params(const codes_kind kind, const quad_rows *rows)
{
    if (kind > CODES_AFFINE8) return;
    for (int plane = 1; plane < 3; plane++) {
        const size_t bytes = (size_t)rows->a->w->row_bytes[plane] * QUAD;
        const unsigned char *from = rows->row[plane][0] + rows->ahead[plane];
        for (size_t i = 0; i < bytes; i += LINE) v_prefetch_far(from + i);
    }
}

/* Whether the groups of a chunk of n_blocks blocks can be read whole: behind a row the next one
 * lies, but behind the last ones nothing does. */
INLINE bool quad_reaches(const codes_kind kind, const quad_rows *rows,
                         const unsigned char *const at[QUAD], uint32_t n_blocks)
{
    const tensor *w = rows->a->w;
    const size_t bytes = codes_chunk_bytes(kind) / CHUNK_BLOCKS;
    const size_t most = (size_t)((n_blocks + GROUP - 1) / GROUP) * GROUP * bytes;
    const unsigned char *end = w->planes[0] + w->n_rows * w->row_bytes[0];
    bool reaches = true;
    for (int r = 0; r < QUAD; r++) reaches = reaches && (size_t)(end - at[r]) >= most;
    return reaches;
}

/* A chunk of n_blocks blocks, which are no whole groups: with zeros behind them. */
INLINE void quad_pad(const codes_kind kind, const unsigned char *at[QUAD], uint32_t n_blocks,
                     unsigned char *room)
{
    const size_t bytes = codes_chunk_bytes(kind);
    memset(room, 0, QUAD * bytes);
    UNROLL
    for (size_t r = 0; r < QUAD; r++) {
        memcpy(room + r * bytes, at[r], n_blocks * bytes / CHUNK_BLOCKS);
        at[r] = room + r * bytes;
    }
}

INLINE void quad_store(const quad_rows *rows, uint32_t token, vf s)
{
    const kernel_linear *a = rows->a;
    __m128 all = v_sum_groups(s);
    if (rows->n < QUAD) {
        float sum[QUAD];
        _mm_storeu_ps(sum, all);
        for (uint32_t r = 0; r < rows->n; r++) kernel_put(a, token, rows->first + r, sum[r]);
        return;
    }
    const size_t to = (size_t)token * a->stride + rows->first;
    if (a->bias != NULL) all = _mm_add_ps(all, _mm_loadu_ps(a->bias + rows->first));
    if (a->add != NULL) all = _mm_add_ps(_mm_loadu_ps(a->add + to), all);
    _mm_storeu_ps(a->y + to, all);
}

/* The groups of one chunk; moves place to the next. */
INLINE void quad_chunk(const codes_kind kind, const quad_rows *rows, const quad_style style,
                       uint32_t block, quad_place *place, const uint32_t n_tokens, quad_sums *sums)
{
    const uint32_t left = rows->n_blocks - block;
    const uint32_t n_blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
    const size_t bytes = codes_chunk_bytes(kind);
    const size_t fetch = bytes * GROUP / CHUNK_BLOCKS;
    quad_params p;
    _Alignas(64) unsigned char room[QUAD * MOST_CHUNK_BYTES];
    if (n_blocks % GROUP != 0 && !quad_reaches(kind, rows, place->at, n_blocks)) {
        quad_pad(kind, place->at, n_blocks, room);
    }
    const size_t chunk = block / CHUNK_BLOCKS * (QUAD * bytes);
    v_prefetch_far(rows->row[0][0] + rows->ahead[0] + PAGE_AHEAD_BYTES + chunk);
    quad_read_params(kind, rows, style, place->at, block, n_blocks, &p);
    for (uint32_t b = 0; b < n_blocks; b += GROUP) {
        const size_t ahead = rows->ahead[0] + (codes_step(kind) == 0 ? b / GROUP * fetch : 0);
        UNROLL
        for (int r = 0; r < QUAD; r++) {
            UNROLL
            for (size_t i = 0; i < fetch; i += LINE) v_prefetch_far(place->at[r] + ahead + i);
        }
        quad_scales q = quad_scales_at(kind, rows, style, place->at, block, b, n_blocks - b, &p);
        quad_group(kind, place, b, &q, FORM_PAIRS && style != QUAD_ANY, n_tokens, sums);
        UNROLL
        for (int r = 0; r < QUAD; r++) place->at[r] = v_kept(place->at[r] + codes_step(kind));
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) place->x[t] = v_kept(place->x[t] + GROUP_BYTES);
    }
    if (codes_step(kind) != 0) return;
    UNROLL
    for (int r = 0; r < QUAD; r++) place->at[r] += bytes;
}

/* Four rows, all tokens. */
INLINE void quad_run(const codes_kind kind, const quad_rows *rows, const quad_style style,
                     const uint32_t n_tokens)
{
    const size_t stride = kernel_codes_bytes(rows->n_blocks, FORM);
    quad_place place;
    quad_sums sums;
    UNROLL
    for (int r = 0; r < QUAD; r++) place.at[r] = rows->row[0][r];
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        place.x[t] = rows->a->x.codes + t * stride;
        sums.s[t] = vf_zero();
    }
    quad_prefetch_params(kind, rows);
    for (uint32_t block = 0; block < rows->n_blocks; block += CHUNK_BLOCKS) {
        quad_chunk(kind, rows, style, block, &place, n_tokens, &sums);
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) quad_store(rows, t, sums.s[t]);
}

INLINE void codes_few_rows(const codes_kind kind, const kernel_linear *a, const quad_style style,
                           const uint32_t n_tokens)
{
    const tensor *w = a->w;
    const int n_planes = kind <= CODES_AFFINE8 ? 3 : 1;
    quad_rows rows = {.a = a, .n_blocks = (uint32_t)(w->n_cols / KERNEL_BLOCK)};
    /* Rows from those at work to those fetched: the ones behind the rows asked for are most likely
     * the same thread's next. */
    const size_t four = (size_t)w->row_bytes[0] * QUAD;
    const uint64_t far = (AHEAD_BYTES + four - 1) / four * QUAD;
    const unsigned char *at[3];
    for (int p = 0; p < n_planes; p++) at[p] = w->planes[p] + a->first * w->row_bytes[p];
    for (uint32_t row = a->first; row < a->end; row += QUAD) {
        rows.first = row;
        rows.n = a->end - row < QUAD ? a->end - row : QUAD;
        const bool more = w->n_rows - row >= far + QUAD;
        UNROLL
        for (int p = 0; p < n_planes; p++) {
            const size_t bytes = (size_t)w->row_bytes[p];
            const unsigned char *of = at[p];
            UNROLL
            for (uint32_t r = 0; r < QUAD; r++) {
                rows.row[p][r] = of;
                if (r + 1 < rows.n) of += bytes;
            }
            rows.ahead[p] = more ? far * bytes : 0;
            if (a->end - row > QUAD) at[p] += QUAD * bytes;
        }
        quad_run(kind, &rows, style, n_tokens);
    }
}

/* n_tokens is a->n_tokens, as a constant. */
INLINE void codes_few(const codes_kind kind, const kernel_linear *a, const uint32_t n_tokens)
{
    if (!codes_common(kind, a->w)) {
        codes_few_rows(kind, a, QUAD_ANY, n_tokens);
    } else if (a->w->param_type == ENCODING_ID_BF16) {
        codes_few_rows(kind, a, QUAD_BF16_64, n_tokens);
    } else {
        codes_few_rows(kind, a, QUAD_F16_64, n_tokens);
    }
}

#endif
