/* vec_linear_codes.h - linear_codes_q: 16-bit inputs against integer codes.
 *
 * For one output, with t_b the exact integer sum of code * q over block b (for Q6_K over each half
 *     of it): s = fma(scale_b, t_b * x.scale_b, s)    blocks ascending, s = 0 at first m =
 *     fma(bias_b, x.sum_b, m)             the same, where the encoding has biases y = add + ((s +
 *     m) + bias)
 * t_b is rounded once to f32, and the product with a power of two is exact. t_b has at most 32 *
 * 255 * 32640 < 2^31. As integers have no order of addition, how they are summed is free.
 *
 * VL rows are the lanes. The packed codes of a block are turned first, 16 bytes of each row into
 * four words of VL rows, and unpacked then, VL rows at a time, into pairs of 16-bit codes that meet
 * a pair of inputs. As the codes of a word that lie 16 bits apart are four columns apart or two,
 * inputs are stored so that these are neighbours (cpu_kernels.h). One or two tokens take the pairs
 * from registers; more share a panel of pairs, unpacked once for up to 64 tokens. */
#ifndef BACKEND_CPU_VEC_LINEAR_CODES_H
#define BACKEND_CPU_VEC_LINEAR_CODES_H

#include "backend/cpu/vec_codes.h"

/* Tokens that share an unpacked panel; lines fetched ahead of the rows at work. */
enum { PANEL_TOKENS = 64 };

/* Vectors of rows: a broadcast pair of inputs meets both. */
enum { PANEL_VECTORS = 2, PANEL_ROWS = PANEL_VECTORS * VL };

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

/* Fetches the part of the next panel that corresponds to block b of the chunk at work. */
INLINE void codes_prefetch(const codes_kind kind, const codes_rows *rows, uint32_t chunk,
                           uint32_t b)
{
    size_t bytes = codes_chunk_bytes(kind) * (VL / CHUNK_BLOCKS);
    const unsigned char *at = rows->ahead + ((size_t)chunk * CHUNK_BLOCKS + b) * bytes;
    UNROLL
    for (size_t i = 0; i < bytes; i += LINE) v_prefetch_far(at + i);
}

/* The same of its scales and biases where they lie apart, once a chunk. */
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

INLINE void codes_store(const codes_rows *rows, uint32_t token, vf s, vf m)
{
    const kernel_linear *a = rows->a;
    vf sum = vf_add(s, m);
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

/* The integer sums of one block of nibbles against up to two tokens. Of the four nibbles of 16 bits
 * two stay where they are, and their sums are 16 and 256 times what they should be: at most 4 * 2 *
 * 15 * 256 * 32640 < 2^31. */
INLINE void codes_few_nibbles(const codes_kind kind, const vi word[4], const int16_t *const in[2],
                              const uint32_t n_tokens, vi dot[2])
{
    vi sum[2][4];
    UNROLL
    for (size_t c = 0; c < 4; c++) {
        vi code[4];
        code[0] = vi_and(word[c], vi_set1(0x000f000f));
        code[1] = vi_and(word[c], vi_set1(0x00f000f0));
        code[2] = vi_and(word[c], vi_set1(0x0f000f00));
        code[3] = vi_srl_halves(word[c], 12);
        UNROLL
        for (size_t k = 0; k < 4; k++) {
            size_t pair = codes_nibble_pair(kind, c, k);
            UNROLL
            for (uint32_t t = 0; t < n_tokens; t++) {
                vi before = c == 0 ? vi_zero() : sum[t][k];
                sum[t][k] = vi_dot_pair(before, code[k], in[t] + 2 * pair);
            }
        }
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        dot[t] = vi_add(vi_add(sum[t][0], sum[t][3]),
                        vi_add(vi_sra(sum[t][1], 4), vi_sra(sum[t][2], 8)));
    }
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

/* The integer sums of one block, or of its halves, against up to two tokens. */
INLINE void codes_few_pairs(const vi pair[16], const int subs, const int16_t *const in[2],
                            const uint32_t n_tokens, vi dot[2][2])
{
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        vi sum[4];
        UNROLL
        for (size_t i = 0; i < 16; i++) {
            vi before = i % 4 == 0 ? vi_zero() : sum[i / 4];
            sum[i / 4] = vi_dot_pair(before, pair[i], in[t] + 2 * i);
        }
        dot[t][0] = vi_add(sum[0], sum[1]);
        dot[t][1] = vi_add(sum[2], sum[3]);
        if (subs == 1) dot[t][0] = vi_add(dot[t][0], dot[t][1]);
    }
}

/* Block b of the chunk that begins at block, for one or two tokens. */
INLINE void codes_few_block(const codes_kind kind, const codes_rows *rows,
                            const codes_scale_panel *p, uint32_t block, uint32_t b,
                            const uint32_t n_tokens, vf s[2], vf m[2])
{
    const kernel_input *x = &rows->a->x;
    const unsigned char *chunk = codes_chunk(kind, rows, block);
    const int16_t *in[2];
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        in[t] = v_kept(x->q + ((size_t)t * rows->n_blocks + block + b) * VW);
    }
    vi dot[2][2];
    if (codes_nibbles(kind)) {
        vi word[4];
        vi sum[2];
        codes_nibble_words(kind, chunk, rows->stride, b, word);
        codes_few_nibbles(kind, word, in, n_tokens, sum);
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) dot[t][0] = sum[t];
    } else {
        vi pair[16];
        codes_pairs(kind, chunk, rows->stride, b, pair);
        codes_few_pairs(pair, codes_subs(kind), in, n_tokens, dot);
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        size_t at = (size_t)t * rows->n_blocks + block + b;
        if (kind == CODES_Q4_0) dot[t][0] = vi_sub(dot[t][0], vi_sll(vi_set1(x->total[at]), 3));
        vf step = vf_set1(x->scale[at]);
        UNROLL
        for (int h = 0; h < codes_subs(kind); h++) {
            vf term = vf_mul(vf_from_int(dot[t][h]), step);
            s[t] = vf_fma(vf_load(p->scale[h] + (size_t)b * VL), term, s[t]);
        }
        if (codes_biased(kind)) {
            m[t] = vf_fma(vf_load(p->bias + (size_t)b * VL), vf_set1(x->sum[at]), m[t]);
        }
    }
}

/* One or two tokens. */
INLINE void codes_few(const codes_kind kind, const kernel_linear *a, const uint32_t n_tokens)
{
    codes_rows rows;
    for (uint32_t first = a->first; first < a->end; first += rows.end - rows.begin) {
        rows = codes_rows_at(a, first, VL);
        vf s[2] = {vf_zero(), vf_zero()};
        vf m[2] = {vf_zero(), vf_zero()};
        for (uint32_t block = 0; block < rows.n_blocks; block += CHUNK_BLOCKS) {
            uint32_t left = rows.n_blocks - block;
            uint32_t n_blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
            codes_scale_panel p;
            codes_panel_scales(kind, &rows, block, n_blocks, &p);
            codes_prefetch_params(kind, &rows, block / CHUNK_BLOCKS);
            for (uint32_t b = 0; b < n_blocks; b++) {
                codes_prefetch(kind, &rows, block / CHUNK_BLOCKS, b);
                codes_few_block(kind, &rows, &p, block, b, n_tokens, s, m);
            }
        }
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) codes_store(&rows, t, s[t], m[t]);
    }
}

/* One chunk of a panel and the tokens that share it. */
typedef struct codes_work {
    const kernel_linear *a;
    codes_panel panel;
    uint32_t token, n; /* n <= PANEL_TOKENS tokens from this one on */
    uint32_t block, n_blocks;
    /* [n, row]: sums so far, and those of biases */
    _Alignas(64) float s[PANEL_TOKENS * PANEL_ROWS];
    _Alignas(64) float m[PANEL_TOKENS * PANEL_ROWS];
} codes_work;

/* The biases of a chunk for n tokens from token + t on. */
INLINE void codes_biases(codes_work *w, uint32_t t, const uint32_t n)
{
    size_t blocks = (size_t)w->a->w->n_cols / KERNEL_BLOCK;
    const float *total = w->a->x.sum + (size_t)(w->token + t) * blocks + w->block;
    float *m = w->m + (size_t)t * PANEL_ROWS;
    vf sum[CODE_TOKENS][PANEL_VECTORS];
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        UNROLL
        for (size_t v = 0; v < PANEL_VECTORS; v++) {
            sum[i][v] = vf_load(m + ((size_t)i * PANEL_VECTORS + v) * VL);
        }
    }
    for (size_t b = 0; b < w->n_blocks; b++) {
        vf bias[PANEL_VECTORS];
        UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) bias[v] = vf_load(w->panel.of[v].bias + b * VL);
        UNROLL
        for (uint32_t i = 0; i < n; i++) {
            vf x = vf_set1(total[i * blocks + b]);
            UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) sum[i][v] = vf_fma(bias[v], x, sum[i][v]);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        UNROLL
        for (size_t v = 0; v < PANEL_VECTORS; v++) {
            vf_store(m + ((size_t)i * PANEL_VECTORS + v) * VL, sum[i][v]);
        }
    }
}

/* n_pairs pairs [n_pairs, PANEL_ROWS] against those of n tokens. */
INLINE void codes_dots(const int32_t *pairs, const int n_pairs,
                       const int16_t *const in[CODE_TOKENS], const uint32_t n,
                       vi dot[CODE_TOKENS][PANEL_VECTORS])
{
    UNROLL
    for (size_t i = 0; i < (size_t)n_pairs; i++) {
        vi code[PANEL_VECTORS];
        UNROLL
        for (size_t v = 0; v < PANEL_VECTORS; v++) {
            code[v] = vi_load(pairs + i * PANEL_ROWS + v * VL);
        }
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                vi before = i == 0 ? vi_zero() : dot[t][v];
                dot[t][v] = vi_dot_pair(before, code[v], in[t] + 2 * i);
            }
        }
    }
}

/* One chunk of a panel against n tokens from token + t on. */
INLINE void codes_tile(codes_work *w, uint32_t t, const uint32_t n, const int subs,
                       const bool biased)
{
    size_t cols = (size_t)w->a->w->n_cols;
    size_t blocks = cols / KERNEL_BLOCK;
    size_t token = w->token + t;
    const int16_t *q = w->a->x.q + token * cols + (size_t)w->block * VW;
    const float *step = w->a->x.scale + token * blocks + w->block;
    float *s = w->s + (size_t)t * PANEL_ROWS;
    const int n_pairs = VW / 2 / subs;
    for (size_t b = 0; b < w->n_blocks; b++, q += VW) {
        const int32_t *pairs = w->panel.pairs + b * (VW / 2) * PANEL_ROWS;
        const int16_t *in[CODE_TOKENS];
        UNROLL
        for (uint32_t i = 0; i < n; i++) in[i] = v_kept(q + i * cols);
        UNROLL
        for (int h = 0; h < subs; h++) {
            vi dot[CODE_TOKENS][PANEL_VECTORS];
            codes_dots(pairs, n_pairs, in, n, dot);
            UNROLL
            for (size_t v = 0; v < PANEL_VECTORS; v++) {
                vf scale = vf_load(w->panel.of[v].scale[h] + b * VL);
                UNROLL
                for (uint32_t i = 0; i < n; i++) {
                    float *at = s + ((size_t)i * PANEL_VECTORS + v) * VL;
                    vf term = vf_mul(vf_from_int(dot[i][v]), vf_set1(step[i * blocks + b]));
                    vf_store(at, vf_fma(scale, term, vf_load(at)));
                }
            }
            pairs += (size_t)n_pairs * PANEL_ROWS;
            UNROLL
            for (uint32_t i = 0; i < n; i++) in[i] += (size_t)n_pairs * 2;
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
        codes_prefetch(kind, rows, block / CHUNK_BLOCKS, b);
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
    memset(w->s, 0, (size_t)w->n * PANEL_ROWS * sizeof(float));
    memset(w->m, 0, (size_t)w->n * PANEL_ROWS * sizeof(float));
    for (w->block = 0; w->block < rows[0].n_blocks; w->block += CHUNK_BLOCKS) {
        uint32_t left = rows[0].n_blocks - w->block;
        w->n_blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            const codes_rows *of = &rows[v < n_vectors ? v : 0];
            codes_unpack_panel(kind, of, w->block, w->n_blocks, &w->panel, v);
        }
        tiles(w);
    }
    for (uint32_t t = 0; t < w->n; t++) {
        for (size_t v = 0; v < n_vectors; v++) {
            size_t at = ((size_t)t * PANEL_VECTORS + v) * VL;
            codes_store(&rows[v], w->token + t, vf_load(w->s + at), vf_load(w->m + at));
        }
    }
    return first;
}

/* Any number of tokens. */
INLINE void codes_many(const codes_kind kind, const kernel_linear *a)
{
    codes_work w;
    w.a = a;
    for (w.token = 0; w.token < a->n_tokens; w.token += PANEL_TOKENS) {
        uint32_t left = a->n_tokens - w.token;
        w.n = left < PANEL_TOKENS ? left : PANEL_TOKENS;
        for (uint32_t first = a->first; first < a->end;) first = codes_panel_rows(kind, first, &w);
    }
}

#define CODES_LINEAR(name, subs, biased)                                                           \
    static void codes_##name(const kernel_linear *a)                                               \
    {                                                                                              \
        if (a->n_tokens == 1) {                                                                    \
            codes_few(CODES_##name, a, 1);                                                         \
        } else if (a->n_tokens == 2) {                                                             \
            codes_few(CODES_##name, a, 2);                                                         \
        } else {                                                                                   \
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
