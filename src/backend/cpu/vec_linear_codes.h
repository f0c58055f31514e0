/* vec_linear_codes.h - linear_codes_q: 16-bit inputs against integer codes.
 *
 * For one output, with t_b the exact integer sum of code * q over block b (for Q6_K over each half
 * of it) and b ascending within each class of blocks that are equal modulo GROUP:
 *     s = fma(scale_b, t_b * x.scale_b, s)    s = 0 at first
 *     m = fma(bias_b, x.sum_b, m)             the same, where the encoding has biases
 * Then s + m of each class, the classes as (0 + 2) + (1 + 3) or 0 + 1, and
 *     y = add + (sum + bias).
 * t_b is rounded once to f32, and the product with a power of two is exact. t_b has at most 32 *
 * 255 * 32640 < 2^31. As integers have no order of addition, how they are summed is free: few
 * tokens do it as vec_linear_few.h says, more as follows.
 *
 * VL rows are the lanes. The packed codes of a block are turned first, 16 bytes of each row into
 * four words of VL rows, and unpacked then, VL rows at a time, into pairs of 16-bit codes that meet
 * a pair of inputs. Up to 32 tokens share a panel of such pairs. */
#ifndef BACKEND_CPU_VEC_LINEAR_CODES_H
#define BACKEND_CPU_VEC_LINEAR_CODES_H

#include "backend/cpu/vec_linear_few.h"

/* Tokens that share an unpacked panel. */
enum { PANEL_TOKENS = 32 };

/* Vectors of rows: a broadcast pair of inputs meets both. */
enum { PANEL_VECTORS = 2, PANEL_ROWS = PANEL_VECTORS * VL, SUMS = GROUP * PANEL_ROWS };

/* The scales of VL rows of one chunk. */
typedef struct codes_scale_panel {
    _Alignas(64) float scale[2][CHUNK_BLOCKS * VL]; /* [halves of a block][block, row] */
    _Alignas(64) float bias[CHUNK_BLOCKS * VL];
} codes_scale_panel;

typedef struct codes_panel {
    codes_scale_panel of[PANEL_VECTORS];
    /* [block, pair of columns, row] */
    _Alignas(64) int32_t pairs[CHUNK_BLOCKS * (VW / 2) * PANEL_ROWS];
} codes_panel;

/* VL rows that are at work. Where a matrix ends within them, they are its last VL rows and some of
 * them are no business of this call; a matrix of fewer rows takes each of its rows VL times. */
typedef struct codes_rows {
    const kernel_linear *a;
    uint32_t first;             /* the row of lane 0 */
    uint32_t begin, end;        /* lanes whose results are wanted */
    const unsigned char *codes; /* of lane 0 */
    size_t stride;              /* between the codes of lanes */
    size_t lanes;               /* 1, or 0 where all lanes are the same row */
    const unsigned char *ahead; /* the rows that come after these */
    uint64_t next;              /* the first of them */
    uint32_t n_blocks;          /* of a row */
} codes_rows;

/* The rows from at on; panel: how many are at work at a time. */
INLINE codes_rows codes_rows_at(const kernel_linear *a, uint32_t at, uint32_t panel)
{
    codes_rows rows = {.a = a, .first = at, .end = VL, .lanes = 1};
    if (a->w->n_rows < VL) {
        rows.lanes = 0;
        rows.end = 1;
    } else if (a->w->n_rows - at < VL) {
        rows.first = (uint32_t)a->w->n_rows - VL;
        rows.begin = at - rows.first;
    }
    if (a->end - at < rows.end - rows.begin) rows.end = rows.begin + (a->end - at);
    rows.n_blocks = (uint32_t)(a->w->n_cols / KERNEL_BLOCK);
    rows.codes = a->w->planes[0] + (uint64_t)rows.first * a->w->row_bytes[0];
    rows.stride = (size_t)a->w->row_bytes[0] * rows.lanes;
    /* Beyond the rows asked for nothing is fetched: they are another thread's, or no memory at
     * all. */
    rows.next = a->end - at >= panel + VL ? at + panel : rows.first;
    rows.ahead = a->w->planes[0] + rows.next * a->w->row_bytes[0];
    return rows;
}

/* The scales and biases of a chunk of an affine encoding by rows, then turned. */
INLINE void codes_turned_scales(const codes_rows *rows, uint32_t block, uint32_t n_blocks,
                                codes_scale_panel *p)
{
    const tensor *w = rows->a->w;
    float of_rows[VL * CHUNK_BLOCKS];
    memset(of_rows, 0, sizeof of_rows);
    for (int plane = 1; plane < 3; plane++) {
        for (uint32_t r = 0; r < VL; r++) {
            uint64_t row = rows->first + r * rows->lanes;
            affine_params(w->planes[plane] + row * w->row_bytes[plane], w->group, w->param_type,
                          block, n_blocks, of_rows + (size_t)r * CHUNK_BLOCKS);
        }
        v_transpose_8(of_rows, plane == 1 ? p->scale[0] : p->bias);
    }
}

/* Where the chunk that begins at block starts in lane 0. */
INLINE const unsigned char *codes_chunk(const codes_kind kind, const codes_rows *rows,
                                        uint32_t block)
{
    return rows->codes + block / CHUNK_BLOCKS * codes_chunk_bytes(kind);
}

/* The scales and biases of a chunk, with rows as lanes. */
INLINE void codes_panel_scales(const codes_kind kind, const codes_rows *rows, uint32_t block,
                               uint32_t n_blocks, codes_scale_panel *p)
{
    const tensor *w = rows->a->w;
    const unsigned char *at = codes_chunk(kind, rows, block);
    const size_t bytes = codes_block_bytes(kind);
    if (kind == CODES_Q4_1) {
        block_params(at, rows->stride, bytes, n_blocks, p->scale[0], p->bias);
        return;
    }
    if (bytes > 0) {
        block_scales(at, rows->stride, bytes, n_blocks, p->scale[0]);
        return;
    }
    if (kind == CODES_Q4_K || kind == CODES_Q5_K) {
        k_panel(at, rows->stride, p->scale[0], p->bias);
        return;
    }
    if (kind == CODES_Q6_K) {
        q6_k_panel(at + 192, rows->stride, p->scale[0], p->scale[1]);
        return;
    }
    if (w->param_type == ENCODING_ID_F32 || w->group > 128 || n_blocks < CHUNK_BLOCKS) {
        codes_turned_scales(rows, block, n_blocks, p);
        return;
    }
    for (int plane = 1; plane < 3; plane++) {
        const unsigned char *params = w->planes[plane] + rows->first * w->row_bytes[plane];
        affine_panel(params + (size_t)(block * KERNEL_BLOCK / w->group) * 2,
                     (size_t)w->row_bytes[plane] * rows->lanes, w->group, w->param_type,
                     plane == 1 ? p->scale[0] : p->bias);
    }
}

/* Fetches the scales and biases of the next panel where they lie apart, once a chunk. */
INLINE void codes_prefetch_params(const codes_kind kind, const codes_rows *rows, uint32_t chunk)
{
    if (kind > CODES_AFFINE8) return;
    const tensor *w = rows->a->w;
    size_t bytes = (size_t)w->row_bytes[1] * VL / ((rows->n_blocks + 7) / 8);
    for (int plane = 1; plane < 3; plane++) {
        const unsigned char *at =
            w->planes[plane] + rows->next * w->row_bytes[plane] + chunk * bytes;
        for (size_t i = 0; i < bytes; i += LINE) v_prefetch_far(at + i);
    }
}

INLINE void codes_store(const codes_rows *rows, uint32_t token, vf sum)
{
    const kernel_linear *a = rows->a;
    if (rows->end - rows->begin < VL) {
        float lane[VL];
        vf_store(lane, sum);
        for (uint32_t r = rows->begin; r < rows->end; r++) {
            kernel_put(a, token, rows->first + r, lane[r]);
        }
        return;
    }
    size_t to = (size_t)token * a->stride + rows->first;
    if (a->bias != NULL) sum = vf_add(sum, vf_load(a->bias + rows->first));
    if (a->add != NULL) sum = vf_add(vf_load(a->add + to), sum);
    vf_store(a->y + to, sum);
}

/* Where the pairs of inputs stand that meet nibbles k and k + 4 of word c of a block. */
INLINE size_t codes_nibble_pair(const codes_kind kind, size_t c, size_t k)
{
    if (kind == CODES_AFFINE4) return 4 * c + k;
    return k % 2 * 8 + 2 * c + k / 2;
}

INLINE bool codes_nibbles(const codes_kind kind)
{
    return kind == CODES_AFFINE4 || kind == CODES_Q4_0 || kind == CODES_Q4_1;
}

/* The 16 bytes of block b of 4-bit codes, as words of VL rows. */
INLINE void codes_nibble_words(const codes_kind kind, const unsigned char *chunk, size_t stride,
                               uint32_t b, vi word[4])
{
    size_t header = kind == CODES_Q4_0 ? 2 : 4;
    size_t at = kind == CODES_AFFINE4 ? 16 * (size_t)b : b * codes_block_bytes(kind) + header;
    v_turn_words(chunk + at, stride, word);
    if (kind != CODES_AFFINE4) return;
    UNROLL
    for (int c = 0; c < 4; c++) word[c] = vi_swap_middle(word[c]);
}

/* Bytes of a word -> the pairs (0, 2) and (1, 3). */
INLINE void codes_split(vi word, vi pair[2])
{
    pair[0] = vi_and(word, vi_set1(0x00ff00ff));
    pair[1] = vi_srl_halves(word, 8);
}

/* Block b of a chunk of VL rows -> the 16 pairs of its columns, signed where the encoding is. */
INLINE void codes_pairs(const codes_kind kind, const unsigned char *chunk, size_t stride,
                        uint32_t b, vi pair[16])
{
    vi word[8];
    if (codes_nibbles(kind)) {
        codes_nibble_words(kind, chunk, stride, b, word);
        UNROLL
        for (size_t c = 0; c < 4; c++) {
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

/* One chunk of a panel and the tokens that share it. */
typedef struct codes_work {
    const kernel_linear *a;
    codes_panel panel;
    uint32_t token, n; /* n <= PANEL_TOKENS tokens from this one on */
    uint32_t block, n_blocks;
    size_t stride;                             /* bytes of a token's input */
    const unsigned char *ahead[PANEL_VECTORS]; /* to be fetched, ahead_bytes a block */
    size_t ahead_bytes;
    /* Sums so far, and those of biases. */
    _Alignas(64) float s[PANEL_TOKENS * SUMS];
    _Alignas(64) float m[PANEL_TOKENS * SUMS];
} codes_work;

/* Where vector v of class (block modulo GROUP) of token t is summed. */
INLINE size_t codes_sum_at(size_t t, size_t class, size_t v)
{
    return t * SUMS + class * PANEL_ROWS + v * VL;
}

/* Token t of the tokens at work. */
INLINE const unsigned char *codes_input(const codes_work *w, uint32_t t)
{
    return w->a->x.codes + (size_t)(w->token + t) * w->stride;
}

INLINE vf vf_set1_at(const unsigned char *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return vf_set1(value);
}

/* Where block b of the chunk stands in n tokens from token + t on: the first of its columns. What
 * else a group holds of the block lies at the AT_ distances from there. */
INLINE void codes_inputs(const codes_work *w, uint32_t t, uint32_t b, const uint32_t n,
                         const unsigned char *in[CODE_TOKENS])
{
    const unsigned char *x = codes_input(w, t);
    x += kernel_code_at((w->block + b) * KERNEL_BLOCK, GROUP);
    UNROLL
    for (uint32_t i = 0; i < n; i++, x += w->stride) in[i] = v_kept(x);
}

/* Where vector 0 of the class of block b of token t is summed. */
INLINE float *codes_sums(float *sums, uint32_t t, uint32_t b)
{
    float *at = sums + codes_sum_at(t, b % GROUP, 0);
    __asm__("" : "+r"(at));
    return at;
}

/* The biases of a chunk for n tokens from token + t on. */
INLINE void codes_biases(codes_work *w, uint32_t t, const uint32_t n)
{
    for (uint32_t b = 0; b < w->n_blocks; b++) {
        const unsigned char *in[CODE_TOKENS];
        codes_inputs(w, t, b, n, in);
        float *m = codes_sums(w->m, t, b);
        vf bias[PANEL_VECTORS];
        UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) {
            bias[v] = vf_load(w->panel.of[v].bias + (size_t)b * VL);
        }
        UNROLL
        for (uint32_t i = 0; i < n; i++) {
            vf sum = vf_set1_at(in[i] + AT_SUM);
            UNROLL
            for (size_t v = 0; v < PANEL_VECTORS; v++) {
                float *at = m + codes_sum_at(i, 0, v);
                vf_store(at, vf_fma(bias[v], sum, vf_load(at)));
            }
        }
    }
}

/* Where the inputs that meet pair i of a block stand, in bytes. */
INLINE size_t codes_pair_at(size_t i)
{
    size_t slot = i / 8 + i % 2 * 2;
    return 2 * (slot * GROUP * 8 + i % 8 / 2 * 2);
}

/* Pairs [VW / 2, PANEL_ROWS], first to first + n_pairs - 1 of them, against those of n tokens. */
INLINE void codes_dots(const int32_t *pairs, const size_t first, const size_t n_pairs,
                       const unsigned char *const in[CODE_TOKENS], const uint32_t n,
                       vi dot[CODE_TOKENS][PANEL_VECTORS])
{
    UNROLL
    for (size_t i = first; i < first + n_pairs; i++) {
        vi code[PANEL_VECTORS];
        UNROLL
        for (size_t v = 0; v < PANEL_VECTORS; v++) {
            code[v] = vi_load(pairs + i * PANEL_ROWS + v * VL);
        }
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                vi before = i == first ? vi_zero() : dot[t][v];
                dot[t][v] = vi_dot_pair(before, code[v], in[t] + codes_pair_at(i));
            }
        }
    }
}

/* Only the first tile meets rows whose successors are not yet on their way. */
INLINE void codes_tile_prefetch(const codes_work *w, size_t b)
{
    for (int v = 0; v < PANEL_VECTORS; v++) {
        const unsigned char *at = w->ahead[v] + b * w->ahead_bytes;
        for (size_t i = 0; i < w->ahead_bytes; i += LINE) v_prefetch_far(at + i);
    }
}

/* One chunk of a panel against n tokens from token + t on. */
INLINE void codes_tile(codes_work *w, uint32_t t, const uint32_t n, const int subs,
                       const bool biased)
{
    const size_t n_pairs = VW / 2 / (size_t)subs;
    for (uint32_t b = 0; b < w->n_blocks; b++) {
        const int32_t *pairs = w->panel.pairs + (size_t)b * (VW / 2) * PANEL_ROWS;
        const unsigned char *in[CODE_TOKENS];
        codes_inputs(w, t, b, n, in);
        float *s = codes_sums(w->s, t, b);
        if (t == 0) codes_tile_prefetch(w, b);
        UNROLL
        for (size_t h = 0; h < (size_t)subs; h++) {
            vi dot[CODE_TOKENS][PANEL_VECTORS];
            codes_dots(pairs, h * n_pairs, n_pairs, in, n, dot);
            UNROLL
            for (size_t v = 0; v < PANEL_VECTORS; v++) {
                vf scale = vf_load(w->panel.of[v].scale[h] + (size_t)b * VL);
                UNROLL
                for (uint32_t i = 0; i < n; i++) {
                    float *at = s + codes_sum_at(i, 0, v);
                    vf term = vf_mul(vf_from_int(dot[i][v]), vf_set1_at(in[i] + AT_SCALE));
                    vf_store(at, vf_fma(scale, term, vf_load(at)));
                }
            }
        }
    }
    if (biased) codes_biases(w, t, n);
}

/* One chunk of a panel against its tokens, in tiles. */
INLINE void codes_tiles(codes_work *w, const int subs, const bool biased)
{
    uint32_t t = 0;
    for (; w->n - t >= CODE_TOKENS; t += CODE_TOKENS) codes_tile(w, t, CODE_TOKENS, subs, biased);
    if (CODE_TOKENS > 4 && w->n - t >= 4) {
        codes_tile(w, t, 4, subs, biased);
        t += 4;
    }
    if (w->n - t >= 2) {
        codes_tile(w, t, 2, subs, biased);
        t += 2;
    }
    if (w->n > t) codes_tile(w, t, 1, subs, biased);
}

typedef void codes_tiles_fn(codes_work *w);

static void codes_tiles_plain(codes_work *w)
{
    codes_tiles(w, 1, false);
}

static void codes_tiles_biased(codes_work *w)
{
    codes_tiles(w, 1, true);
}

static void codes_tiles_halves(codes_work *w)
{
    codes_tiles(w, 2, false);
}

/* Vector v of a panel. */
INLINE void codes_unpack_panel(const codes_kind kind, const codes_rows *rows, uint32_t block,
                               uint32_t n_blocks, codes_panel *p, uint32_t v)
{
    const unsigned char *chunk = codes_chunk(kind, rows, block);
    codes_panel_scales(kind, rows, block, n_blocks, &p->of[v]);
    codes_prefetch_params(kind, rows, block / CHUNK_BLOCKS);
    for (uint32_t b = 0; b < n_blocks; b++) {
        int32_t *out = p->pairs + (size_t)b * (VW / 2) * PANEL_ROWS + (size_t)v * VL;
        vi pair[16];
        codes_pairs(kind, chunk, rows->stride, b, pair);
        UNROLL
        for (size_t i = 0; i < 16; i++) vi_store(out + i * PANEL_ROWS, pair[i]);
    }
}

/* A panel of rows from first on, all its chunks; returns the row after it. */
INLINE uint32_t codes_panel_rows(const codes_kind kind, uint32_t first, codes_work *w)
{
    codes_tiles_fn *tiles = codes_subs(kind) == 2 ? codes_tiles_halves
                            : codes_biased(kind)  ? codes_tiles_biased
                                                  : codes_tiles_plain;
    codes_rows rows[PANEL_VECTORS];
    uint32_t n_vectors = 0;
    for (; n_vectors < PANEL_VECTORS && first < w->a->end; n_vectors++) {
        rows[n_vectors] = codes_rows_at(w->a, first, PANEL_ROWS);
        first += rows[n_vectors].end - rows[n_vectors].begin;
    }
    memset(w->s, 0, (size_t)w->n * SUMS * sizeof(float));
    memset(w->m, 0, (size_t)w->n * SUMS * sizeof(float));
    w->ahead_bytes = codes_chunk_bytes(kind) * (VL / CHUNK_BLOCKS);
    for (w->block = 0; w->block < rows[0].n_blocks; w->block += CHUNK_BLOCKS) {
        uint32_t left = rows[0].n_blocks - w->block;
        w->n_blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            const codes_rows *of = &rows[v < n_vectors ? v : 0];
            codes_unpack_panel(kind, of, w->block, w->n_blocks, &w->panel, v);
            w->ahead[v] = of->ahead + w->block * w->ahead_bytes;
        }
        tiles(w);
    }
    for (uint32_t t = 0; t < w->n; t++) {
        for (size_t v = 0; v < n_vectors; v++) {
            size_t at = codes_sum_at(t, 0, v);
            for (size_t i = at; i < at + SUMS; i += PANEL_ROWS) {
                vf_store(w->s + i, vf_add(vf_load(w->s + i), vf_load(w->m + i)));
            }
            codes_store(&rows[v], w->token + t, v_sum_classes(w->s + at, PANEL_ROWS));
        }
    }
    return first;
}

/* Any number of tokens. */
INLINE void codes_many(const codes_kind kind, const kernel_linear *a)
{
    codes_work w;
    w.a = a;
    w.stride = kernel_codes_bytes((uint32_t)(a->w->n_cols / KERNEL_BLOCK), GROUP);
    for (w.token = 0; w.token < a->n_tokens; w.token += PANEL_TOKENS) {
        uint32_t left = a->n_tokens - w.token;
        w.n = left < PANEL_TOKENS ? left : PANEL_TOKENS;
        for (uint32_t first = a->first; first < a->end;) first = codes_panel_rows(kind, first, &w);
    }
}

#define CODES_LINEAR(name, subs, biased)                                                           \
    static void codes_##name(const kernel_linear *a)                                               \
    {                                                                                              \
        switch (a->n_tokens) {                                                                     \
        case 1:                                                                                    \
            codes_few(CODES_##name, a, 1);                                                         \
            return;                                                                                \
        case 2:                                                                                    \
            codes_few(CODES_##name, a, 2);                                                         \
            return;                                                                                \
        case 4:                                                                                    \
            codes_few(CODES_##name, a, 4);                                                         \
            return;                                                                                \
        default:                                                                                   \
            codes_many(CODES_##name, a);                                                           \
        }                                                                                          \
    }
CODES_MAP(CODES_LINEAR)
#undef CODES_LINEAR

static void linear_codes_q(const kernel_linear *a)
{
    switch (codes_kind_of(a->w)) {
#define CODES_CASE(name, subs, biased)                                                             \
    case CODES_##name:                                                                             \
        codes_##name(a);                                                                           \
        break;
        CODES_MAP(CODES_CASE)
#undef CODES_CASE
    case CODES_NONE:
        break;
    }
}

#endif
