/* vec_linear_codes.h - linear_codes_q: 16-bit inputs against integer codes.
 *
 * For one output, with t_b the exact integer sum of code * q over block b (for Q6_K over each half
 *     of it): s = fma(scale_b, t_b * x.scale_b, s)    blocks ascending, s = 0 at first m =
 *     fma(bias_b, x.sum_b, m)             the same, where the encoding has biases y = add + ((s +
 *     m) + bias)
 * t_b is rounded once to f32, and the product with a power of two is exact. t_b has at most 32 *
 * 255 * 32640 < 2^31. As integers have no order of addition, how they are summed is free: one or
 * two tokens sum along the columns of VL rows and add across lanes; more tokens take VL rows as
 * lanes, from a panel of codes that is unpacked and transposed once for up to 64 tokens. The
 * results are the same bits. */
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

/* What a panel of rows is at. */
typedef struct codes_rows {
    const kernel_linear *a;
    uint32_t first, n;              /* rows of w; n <= VL, the last one fills the lanes beyond */
    const unsigned char *codes[VL]; /* of each row */
    const unsigned char *ahead;     /* the rows that come after these */
    uint64_t next;                  /* the first of them */
    uint32_t n_blocks;              /* of a row */
} codes_rows;

/* VL rows from first on; panel: how many rows are at work at a time. */
INLINE codes_rows codes_rows_at(const kernel_linear *a, uint32_t first, uint32_t panel)
{
    codes_rows rows = {.a = a, .first = first};
    rows.n = a->end - first < VL ? a->end - first : VL;
    rows.n_blocks = (uint32_t)(a->w->n_cols / KERNEL_BLOCK);
    const unsigned char *base = a->w->planes[0] + (uint64_t)first * a->w->row_bytes[0];
    for (uint32_t r = 0; r < VL; r++) {
        rows.codes[r] = base + (uint64_t)(r < rows.n ? r : rows.n - 1) * a->w->row_bytes[0];
    }
    /* Beyond the rows asked for nothing is fetched: they are another thread's, or no memory at
     * all. */
    rows.next = a->end - first >= panel + VL ? first + panel : first;
    rows.ahead = a->w->planes[0] + rows.next * a->w->row_bytes[0];
    return rows;
}

/* The scales and biases of a chunk by rows, then turned. */
INLINE void codes_turned_scales(const codes_kind kind, const codes_rows *rows, uint32_t block,
                                uint32_t n_blocks, codes_scale_panel *p)
{
    float scale[2][VL * CHUNK_BLOCKS];
    float bias[VL * CHUNK_BLOCKS];
    if (n_blocks < CHUNK_BLOCKS) {
        memset(scale, 0, sizeof scale);
        memset(bias, 0, sizeof bias);
    }
    size_t skip = block / CHUNK_BLOCKS * codes_chunk_bytes(kind);
    for (uint32_t r = 0; r < VL; r++) {
        float one[2 * CHUNK_BLOCKS];
        uint32_t row = rows->first + (r < rows->n ? r : rows->n - 1);
        float *at = codes_subs(kind) == 2 ? one : scale[0] + (size_t)r * CHUNK_BLOCKS;
        codes_scales(kind, rows->a->w, row, rows->codes[r] + skip, block, n_blocks, at,
                     bias + (size_t)r * CHUNK_BLOCKS);
        if (codes_subs(kind) == 2) {
            memcpy(scale[0] + (size_t)r * CHUNK_BLOCKS, one, CHUNK_BLOCKS * sizeof *one);
            memcpy(scale[1] + (size_t)r * CHUNK_BLOCKS, one + CHUNK_BLOCKS,
                   CHUNK_BLOCKS * sizeof *one);
        }
    }
    v_transpose_8(scale[0], p->scale[0]);
    if (codes_subs(kind) == 2) v_transpose_8(scale[1], p->scale[1]);
    if (codes_biased(kind)) v_transpose_8(bias, p->bias);
}

/* The scales and biases of a chunk, with rows as lanes. */
INLINE void codes_panel_scales(const codes_kind kind, const codes_rows *rows, uint32_t block,
                               uint32_t n_blocks, codes_scale_panel *p)
{
    const tensor *w = rows->a->w;
    if (codes_block_bytes(kind) > 0) {
        size_t at = block / CHUNK_BLOCKS * codes_chunk_bytes(kind);
        block_params(rows->codes, at, codes_block_bytes(kind), n_blocks, p->scale[0]);
        if (kind != CODES_Q4_1) return;
        block_params(rows->codes, at + 2, codes_block_bytes(kind), n_blocks, p->bias);
        return;
    }
    bool halves = w->param_type != ENCODING_ID_F32 && w->group <= 128;
    if (kind <= CODES_AFFINE8 && halves && n_blocks == CHUNK_BLOCKS) {
        affine_panel(w, 1, rows->first, rows->n, block, p->scale[0]);
        affine_panel(w, 2, rows->first, rows->n, block, p->bias);
        return;
    }
    codes_turned_scales(kind, rows, block, n_blocks, p);
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
    size_t to = (size_t)token * a->stride + rows->first;
    if (rows->n == VL) {
        if (a->bias != NULL) sum = vf_add(sum, vf_load(a->bias + rows->first));
        if (a->add != NULL) sum = vf_add(vf_load(a->add + to), sum);
        vf_store(a->y + to, sum);
    } else {
        uint32_t n = rows->n;
        if (a->bias != NULL) sum = vf_add(sum, vf_load_part(a->bias + rows->first, n));
        if (a->add != NULL) sum = vf_add(vf_load_part(a->add + to, n), sum);
        vf_store_part(a->y + to, sum, n);
    }
}

/* Block b of the chunk that begins at block, for one or two tokens. */
INLINE void codes_few_block(const codes_kind kind, const codes_rows *rows,
                            const codes_scale_panel *p, uint32_t block, uint32_t b,
                            const uint32_t n_tokens, vf s[2], vf m[2])
{
    const kernel_input *x = &rows->a->x;
    size_t cols = (size_t)rows->n_blocks * VW;
    size_t skip = block / CHUNK_BLOCKS * codes_chunk_bytes(kind);
    vi dot[2][2][VL];
    vw in[2];
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        in[t] = vw_load(x->q + t * cols + (size_t)(block + b) * VW);
    }
    UNROLL
    for (int r = 0; r < VL; r++) {
        vw code = codes_unpack(kind, rows->codes[r] + skip, b);
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) {
            if (codes_subs(kind) == 2) {
                dot[t][0][r] = vw_dot_half(code, in[t], 0);
                dot[t][1][r] = vw_dot_half(code, in[t], 1);
            } else {
                dot[t][0][r] = vw_dot(code, in[t]);
            }
        }
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        size_t at = (size_t)t * rows->n_blocks + block + b;
        vf step = vf_set1(x->scale[at]);
        UNROLL
        for (int h = 0; h < codes_subs(kind); h++) {
            vf term = vf_mul(vf_from_int(vi_tree(dot[t][h])), step);
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
    for (uint32_t first = a->first; first < a->end; first += VL) {
        codes_rows rows = codes_rows_at(a, first, VL);
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

/* A pointer of which the compiler knows nothing: it then keeps that one in a register, and not
 * every sum of it with a constant. */
INLINE const int16_t *v_kept(const int16_t *p)
{
    __asm__("" : "+r"(p));
    return p;
}

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
            int32_t pair;
            memcpy(&pair, in[t] + 2 * i, sizeof pair);
            vi x = vi_set1(pair);
            UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                dot[t][v] = i == 0 ? vi_pairs(code[v], x) : vi_dot(dot[t][v], code[v], x);
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

/* Block b of 4-bit codes, turned before it is unpacked: a quarter of the words to turn. */
INLINE void codes_turn_nibbles(const codes_kind kind, const codes_rows *rows, size_t skip,
                               uint32_t b, int32_t *out)
{
    bool affine = kind == CODES_AFFINE4;
    size_t at = affine ? 16 * (size_t)b : (size_t)b * codes_block_bytes(kind);
    size_t header = affine ? 0 : kind == CODES_Q4_0 ? 2 : 4;
    vi word[4];
    v_turn_words(rows->codes, skip + at + header, word);
    UNROLL
    for (int c = 0; c < 4; c++) {
        if (affine) {
            UNROLL
            for (int i = 0; i < 4; i++) {
                vi pair = vi_two_nibbles(vi_two_bytes(word[c], i, i));
                vi_store(out + (size_t)(4 * c + i) * PANEL_ROWS, pair);
            }
            continue;
        }
        vi nibbles[2];
        nibbles[0] = vi_and(word[c], vi_set1(0x0f0f0f0f));
        nibbles[1] = vi_and(vi_srl(word[c], 4), vi_set1(0x0f0f0f0f));
        UNROLL
        for (int i = 0; i < 4; i++) {
            vi pair = vi_two_bytes(nibbles[i / 2], i % 2 * 2, i % 2 * 2 + 1);
            if (kind == CODES_Q4_0) pair = vi_minus_16(pair, 8);
            vi_store(out + (size_t)(i / 2 * 8 + 2 * c + i % 2) * PANEL_ROWS, pair);
        }
    }
}

/* Vector v of a panel. */
INLINE void codes_unpack_panel(const codes_kind kind, const codes_rows *rows, uint32_t block,
                               uint32_t n_blocks, codes_panel *p, uint32_t v)
{
    size_t skip = block / CHUNK_BLOCKS * codes_chunk_bytes(kind);
    codes_panel_scales(kind, rows, block, n_blocks, &p->of[v]);
    codes_prefetch_params(kind, rows, block / CHUNK_BLOCKS);
    for (uint32_t b = 0; b < n_blocks; b++) {
        codes_prefetch(kind, rows, block / CHUNK_BLOCKS, b);
        int32_t *out = p->pairs + (size_t)b * (VW / 2) * PANEL_ROWS + (size_t)v * VL;
        if (kind == CODES_AFFINE4 || kind == CODES_Q4_0 || kind == CODES_Q4_1) {
            codes_turn_nibbles(kind, rows, skip, b, out);
            continue;
        }
        vw code[VL];
        UNROLL
        for (int r = 0; r < VL; r++) code[r] = codes_unpack(kind, rows->codes[r] + skip, b);
        vw_interleave(code, out, PANEL_ROWS);
    }
}

/* A panel of rows from first on, all its chunks. */
INLINE void codes_panel_rows(const codes_kind kind, uint32_t first, codes_work *w)
{
    codes_tiles_fn *tiles = codes_subs(kind) == 2 ? codes_tiles_halves
                            : codes_biased(kind)  ? codes_tiles_biased
                                                  : codes_tiles_plain;
    codes_rows rows[PANEL_VECTORS];
    uint32_t n_vectors = w->a->end - first > VL ? PANEL_VECTORS : 1;
    for (uint32_t v = 0; v < n_vectors; v++) {
        rows[v] = codes_rows_at(w->a, first + v * VL, PANEL_ROWS);
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
}

/* Any number of tokens. */
INLINE void codes_many(const codes_kind kind, const kernel_linear *a)
{
    codes_work w;
    w.a = a;
    for (w.token = 0; w.token < a->n_tokens; w.token += PANEL_TOKENS) {
        uint32_t left = a->n_tokens - w.token;
        w.n = left < PANEL_TOKENS ? left : PANEL_TOKENS;
        for (uint32_t first = a->first; first < a->end; first += PANEL_ROWS) {
            codes_panel_rows(kind, first, &w);
        }
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
