/* vec_linear_codes.h - linear_codes_q: 16-bit inputs against integer codes.
 *
 * For one output, with t_b the exact integer sum of code * q over block b (for Q6_K over each half
 * of it) and b ascending within each class of blocks that are equal modulo GROUP:
 *     s = fma(scale_b, t_b * x.scale_b, s)    s = 0 at first
 *     s = fma(bias_b, x.sum_b, s)             where the encoding has biases
 * Then the classes as (0 + 2) + (1 + 3) or 0 + 1, and
 *     y = add + (sum + bias).
 * t_b is rounded once to f32, and the product with a power of two is exact. t_b has at most 32 *
 * 255 * 32640 < 2^31. As integers have no order of addition, how they are summed is free: few
 * tokens do it as vec_linear_few.h says, more as follows.
 *
 * VL rows are the lanes. The packed codes of a block are turned first, 16 bytes of each row into
 * four words of VL rows, and unpacked then, VL rows at a time, into units (vec_form_words.h, or
 * vec_form_bytes.h): pairs of 16-bit codes or four bytes in each lane, which meet as many inputs.
 * Up to 32 tokens share a panel of them. */
#ifndef BACKEND_CPU_VEC_LINEAR_CODES_H
#define BACKEND_CPU_VEC_LINEAR_CODES_H

#include "backend/cpu/vec_linear_few.h"

/* Tokens that share an unpacked panel. */
enum { PANEL_TOKENS = 32 };

enum { PANEL_ROWS = PANEL_VECTORS * VL, SUMS = GROUP * PANEL_ROWS };

/* The scales of VL rows of one chunk. */
typedef struct codes_scale_panel {
    _Alignas(64) float scale[2][CHUNK_BLOCKS * VL]; /* [halves of a block][block, row] */
    _Alignas(64) float bias[CHUNK_BLOCKS * VL];
} codes_scale_panel;

/* Chunks whose scales and biases are read at once where 64 columns share one: 16 bytes of a row. */
enum { WORDS_BLOCKS = 2 * CHUNK_BLOCKS };

typedef struct codes_panel {
    codes_scale_panel of[PANEL_VECTORS];
    _Alignas(64) int32_t words[2][PANEL_VECTORS][4 * VL]; /* [plane][vector][pair of groups, row] */
    _Alignas(64) int32_t units[CHUNK_BLOCKS * UNITS * PANEL_ROWS]; /* [block, unit, row] */
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

/* Where the scales (plane 1) or biases (2) of an affine encoding from block on start in lane 0. */
INLINE const unsigned char *codes_params_at(const codes_rows *rows, uint32_t block, int plane)
{
    const tensor *w = rows->a->w;
    return w->planes[plane] + rows->first * w->row_bytes[plane] +
           (size_t)(block * KERNEL_BLOCK / w->group) * 2;
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
        affine_panel(codes_params_at(rows, block, plane), (size_t)w->row_bytes[plane] * rows->lanes,
                     w->group, w->param_type, plane == 1 ? p->scale[0] : p->bias);
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

/* One chunk of a panel and the tokens that share it. */
typedef struct codes_work {
    const kernel_linear *a;
    codes_panel panel;
    uint32_t token, n; /* n <= PANEL_TOKENS tokens from this one on */
    uint32_t block, n_blocks;
    uint32_t words_end; /* blocks before this one have their scales in panel.words */
    size_t stride;      /* bytes of a token's input */
    const unsigned char *ahead[PANEL_VECTORS]; /* to be fetched: ahead_bytes of VL rows */
    size_t ahead_bytes, ahead_stride;
    _Alignas(64) float s[PANEL_TOKENS * SUMS]; /* the sums so far */
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

/* Where block b of the chunk stands in n tokens from token + t on: the first of its columns. What
 * else a group holds of the block lies at the AT_ distances from there. */
INLINE void codes_inputs(const codes_work *w, uint32_t t, uint32_t b, const uint32_t n,
                         const unsigned char *in[CODE_TOKENS])
{
    const unsigned char *x = codes_input(w, t);
    x += kernel_bytes_at(w->block + b, FORM, false);
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

/* Fetches the chunk after this one, a few rows a block: of the same rows, or at their end of those
 * that come next. Only the first tile does. */
INLINE void codes_tile_prefetch(const codes_work *w, uint32_t b)
{
    enum { ROWS = VL / CHUNK_BLOCKS };
    for (int v = 0; v < PANEL_VECTORS; v++) {
        const unsigned char *at = w->ahead[v] + (size_t)b * ROWS * w->ahead_stride;
        UNROLL
        for (int r = 0; r < ROWS; r++, at += w->ahead_stride) {
            for (size_t i = 0; i < w->ahead_bytes; i += LINE) v_prefetch_far(at + i);
        }
    }
}

/* The scales (plane 0) or biases (1) of block b of the chunk for vector v: from panel.words, or
 * else from floats. */
INLINE vf codes_param_at(const codes_work *w, size_t plane, uint32_t b, uint32_t v,
                         const float *floats)
{
    if (w->block >= w->words_end) return vf_load(floats + (size_t)b * VL);
    uint32_t group = (w->block + b + WORDS_BLOCKS - w->words_end) / 2;
    vi word = vi_load(w->panel.words[plane][v] + (size_t)(group / 2) * VL);
    return affine_half(word, w->a->w->param_type, group % 2);
}

/* What is scaled at once: which half of a block, and where the sum of its inputs stands. */
typedef struct codes_part {
    int half;
    size_t at_sum;
} codes_part;

/* Dot products of a half of block b, or of all of it, or of two blocks, with n inputs that stand at
 * in, onto sums. */
INLINE void codes_scaled(const codes_kind like, const codes_work *w, uint32_t b,
                         const codes_part part, const unsigned char *const in[CODE_TOKENS],
                         const uint32_t n, vi dot[CODE_TOKENS][PANEL_VECTORS], float *s)
{
    vf scale[PANEL_VECTORS];
    vf bias[PANEL_VECTORS];
    UNROLL
    for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
        const codes_scale_panel *p = &w->panel.of[v];
        scale[v] = codes_param_at(w, 0, b, v, p->scale[part.half]);
        bias[v] = codes_biased(like) ? codes_param_at(w, 1, b, v, p->bias) : vf_zero();
    }
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        form_unit_whole(like, part.half, in[i], dot[i]);
        vf x_scale = vf_of(vi_set1_at(in[i] + AT_SCALE));
        vf x_sum = codes_biased(like) ? vf_of(vi_set1_at(in[i] + part.at_sum)) : vf_zero();
        UNROLL
        for (size_t v = 0; v < PANEL_VECTORS; v++) {
            float *at = s + codes_sum_at(i, 0, v);
            vf sum = vf_fma(scale[v], vf_mul(vf_from_int(dot[i][v]), x_scale), vf_load(at));
            if (codes_biased(like)) sum = vf_fma(bias[v], x_sum, sum);
            vf_store(at, sum);
        }
    }
}

/* Block b of the chunk against n tokens from token + t on. */
INLINE void codes_block(const codes_kind like, codes_work *w, uint32_t t, uint32_t b,
                        const uint32_t n)
{
    const int32_t *units = w->panel.units + (size_t)b * UNITS * PANEL_ROWS;
    const unsigned char *in[CODE_TOKENS];
    codes_inputs(w, t, b, n, in);
    float *s = codes_sums(w->s, t, b);
    if (t == 0) codes_tile_prefetch(w, b);
    UNROLL
    for (int h = 0; h < codes_subs(like); h++) {
        vi dot[CODE_TOKENS][PANEL_VECTORS];
        form_dots(like, units, PANEL_ROWS, h, in, n, false, dot);
        codes_scaled(like, w, b, (codes_part){h, AT_SUM}, in, n, dot, s);
    }
}

#if FORM_PAIRS
/* Blocks b and b + 1, which share the scales of both sides. */
INLINE void codes_two_blocks(const codes_kind like, codes_work *w, uint32_t t, uint32_t b,
                             const uint32_t n)
{
    const int32_t *units = w->panel.units + (size_t)b * UNITS * PANEL_ROWS;
    const unsigned char *in[CODE_TOKENS];
    codes_inputs(w, t, b, n, in);
    float *s = codes_sums(w->s, t, b);
    if (t == 0) codes_tile_prefetch(w, b);
    if (t == 0) codes_tile_prefetch(w, b + 1);
    vi dot[CODE_TOKENS][PANEL_VECTORS];
    form_dots(like, units, PANEL_ROWS, 0, in, n, false, dot);
    UNROLL
    for (uint32_t i = 0; i < n; i++) in[i] += 16;
    form_dots(like, units + (size_t)UNITS * PANEL_ROWS, PANEL_ROWS, 0, in, n, true, dot);
    UNROLL
    for (uint32_t i = 0; i < n; i++) in[i] -= 16;
    codes_scaled(like, w, b, (codes_part){0, AT_PAIR}, in, n, dot, s);
}
#endif

/* One chunk of a panel against n tokens from token + t on. like: a kind that is multiplied as the
 * one at work is. pairs: n_blocks is even, and each two share their scales. */
INLINE void codes_tile(const codes_kind like, codes_work *w, uint32_t t, const uint32_t n,
                       const bool pairs)
{
#if FORM_PAIRS
    for (uint32_t b = 0; pairs && b < w->n_blocks; b += 2) codes_two_blocks(like, w, t, b, n);
#endif
    for (uint32_t b = 0; !pairs && b < w->n_blocks; b++) codes_block(like, w, t, b, n);
}

/* One chunk of a panel against its tokens, in tiles. */
INLINE void codes_tiles(const codes_kind like, codes_work *w, const bool pairs)
{
    uint32_t t = 0;
    for (; w->n - t >= CODE_TOKENS; t += CODE_TOKENS) codes_tile(like, w, t, CODE_TOKENS, pairs);
    if (CODE_TOKENS > 4 && w->n - t >= 4) {
        codes_tile(like, w, t, 4, pairs);
        t += 4;
    }
    if (w->n - t >= 2) {
        codes_tile(like, w, t, 2, pairs);
        t += 2;
    }
    if (w->n > t) codes_tile(like, w, t, 1, pairs);
}

typedef void codes_tiles_fn(codes_work *w);

#define CODES_TILES(name)                                                                          \
    static void codes_tiles_##name(codes_work *w)                                                  \
    {                                                                                              \
        codes_tiles(CODES_##name, w, false);                                                       \
    }
FORM_LIKE_MAP(CODES_TILES)
#undef CODES_TILES

#if FORM_PAIRS
static void codes_tiles_pairs_4(codes_work *w)
{
    codes_tiles(CODES_AFFINE4, w, true);
}

static void codes_tiles_pairs_8(codes_work *w)
{
    codes_tiles(CODES_AFFINE8, w, true);
}
#endif

/* The tiles of a kind that form_like gave. */
INLINE codes_tiles_fn *codes_tiles_of(const codes_kind like, const tensor *w)
{
#if FORM_PAIRS
    if (codes_common(like, w)) {
        return like == CODES_AFFINE4 ? codes_tiles_pairs_4 : codes_tiles_pairs_8;
    }
#else
    (void)w;
#endif
    switch (like) {
#define CODES_CASE(name)                                                                           \
    case CODES_##name:                                                                             \
        return codes_tiles_##name;
        FORM_LIKE_MAP(CODES_CASE)
#undef CODES_CASE
    default:
        return NULL;
    }
}

/* The scales and biases of two chunks, as they lie in the file but turned. */
INLINE void codes_turned_words(const codes_rows *rows, codes_work *w, uint32_t v)
{
    for (int plane = 1; plane < 3; plane++) {
        vi word[4];
        v_turn_words(codes_params_at(rows, w->block, plane),
                     (size_t)rows->a->w->row_bytes[plane] * rows->lanes, word);
        UNROLL
        for (size_t i = 0; i < 4; i++) vi_store(w->panel.words[plane - 1][v] + i * VL, word[i]);
    }
}

/* Vector v of a panel. */
INLINE void codes_unpack_panel(const codes_kind kind, const codes_rows *rows, codes_work *w,
                               uint32_t v)
{
    const uint32_t block = w->block;
    const uint32_t n_blocks = w->n_blocks;
    const uint32_t words_end = w->words_end;
    codes_panel *p = &w->panel;
    const unsigned char *chunk = codes_chunk(kind, rows, block);
    if (block >= words_end) codes_panel_scales(kind, rows, block, n_blocks, &p->of[v]);
    codes_prefetch_params(kind, rows, block / CHUNK_BLOCKS);
    for (uint32_t b = 0; b < n_blocks; b++) {
        int32_t *out = p->units + (size_t)b * UNITS * PANEL_ROWS + (size_t)v * VL;
        vi unit[UNITS];
        form_units(kind, chunk, rows->stride, b, unit);
        UNROLL
        for (size_t i = 0; i < UNITS; i++) vi_store(out + i * PANEL_ROWS, unit[i]);
    }
}

/* A panel of rows from first on, all its chunks; returns the row after it. */
INLINE uint32_t codes_panel_rows(const codes_kind kind, uint32_t first, codes_work *w)
{
    codes_tiles_fn *tiles = codes_tiles_of(form_like(kind), w->a->w);
    codes_rows rows[PANEL_VECTORS];
    uint32_t n_vectors = 0;
    for (; n_vectors < PANEL_VECTORS && first < w->a->end; n_vectors++) {
        rows[n_vectors] = codes_rows_at(w->a, first, PANEL_ROWS);
        first += rows[n_vectors].end - rows[n_vectors].begin;
    }
    memset(w->s, 0, (size_t)w->n * SUMS * sizeof(float));
    const bool words =
        kind <= CODES_AFFINE8 && w->a->w->group == 64 && w->a->w->param_type != ENCODING_ID_F32;
    w->words_end = 0;
    w->ahead_bytes = codes_chunk_bytes(kind);
    w->ahead_stride = rows[0].stride;
    for (w->block = 0; w->block < rows[0].n_blocks; w->block += CHUNK_BLOCKS) {
        uint32_t left = rows[0].n_blocks - w->block;
        w->n_blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
        if (words && w->block >= w->words_end && left >= WORDS_BLOCKS) {
            w->words_end = w->block + WORDS_BLOCKS;
        }
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            const codes_rows *of = &rows[v < n_vectors ? v : 0];
            if (w->block + WORDS_BLOCKS == w->words_end) codes_turned_words(of, w, v);
            codes_unpack_panel(kind, of, w, v);
            w->ahead[v] =
                left > CHUNK_BLOCKS ? codes_chunk(kind, of, w->block + CHUNK_BLOCKS) : of->ahead;
        }
        tiles(w);
    }
    for (uint32_t t = 0; t < w->n; t++) {
        for (size_t v = 0; v < n_vectors; v++) {
            size_t at = codes_sum_at(t, 0, v);
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
    w.stride = kernel_codes_bytes((uint32_t)(a->w->n_cols / KERNEL_BLOCK), FORM);
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
        case 3:                                                                                    \
            codes_few(CODES_##name, a, 3);                                                         \
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
