/* cpu_kernels.h - the loops that have faster forms per instruction set.
 *
 * One slot a loop. generic.c fills every slot and defines the answer: it accumulates in double.
 * avx2.c, avx512.c and avx512bf16.c override what they make faster, and each of their loops is
 * compared with generic's on every instruction set present (tests/backend/test_kernels.c walks the
 * map).
 *
 * Exactness: for one output the order of additions depends on nothing but the inner dimension: not
 * on how many rows, tokens, queries or keys a call covers, nor on where it starts. Within one
 * instruction set that makes a result the same alone and in any batch.
 *
 * Linear inputs. With activation type bf16 the input x of a linear layer is rounded to bf16 once.
 * Against weights stored as integer codes it is then held as blocks of KERNEL_BLOCK columns, x = q
 * * scale with 16-bit q and scale a power of two: exact for every value of at least 2^-7 of the
 * block's largest, the rest rounded to multiples of 2^-14 of the largest's power of two. Code times
 * q sums are then exact integers. With activation type int8, q has 8 bits and two blocks share a
 * scale (host.h). */
#ifndef BACKEND_CPU_CPU_KERNELS_H
#define BACKEND_CPU_CPU_KERNELS_H

#include <string.h>

#include "backend/host.h"
#include "base/err.h"
#include "kv/codecs/codec.h"
#include "tensor/encoding.h"

enum { KERNEL_BLOCK = 32, KERNEL_SPLIT = 256, KERNEL_ROWS = 16, KERNEL_READS = 3 };

/* The input of a linear layer, prepared; cols is w->n_cols. Pointers that a slot does not name may
 * be NULL. */
typedef struct kernel_input {
    const float *f;             /* [n_tokens, cols], rounded to the activation type */
    const uint16_t *h;          /* [n_tokens, cols], the same as bf16 */
    const unsigned char *codes; /* [n_tokens, kernel_codes_bytes]: see kernel_form */
} kernel_input;

/* How inputs against integer codes lie: the blocks of a token, KERNEL_BLOCK columns each, in groups
 * of one, two or four, the last one filled with zeros. A group of n is q of its columns, then its
 * numbers, each as [n, KERNEL_TIMES], for vectors of four rows. */
typedef enum kernel_form {
    /* One block, or two: int16_t q[n * KERNEL_BLOCK]; scale, sum, total. */
    KERNEL_FORM_WORD,
    KERNEL_FORM_WORDS,
    /* Four, q = 256 * high + low, in two orders:
     *     int8_t high[2][n][16]; uint8_t low[2][n][16]    the halves of each block
     *     int8_t high[2][n][16]; uint8_t low[2][n][16]    its even columns, its odd ones
     *     scale, sum, total, first, second, high, low */
    KERNEL_FORM_SPLIT,
    /* Four, of -127 .. 127, in the same two orders:
     *     int8_t q[2][n][16]; int8_t q[2][n][16]
     *     scale, sum, total, first, second, pair */
    KERNEL_FORM_BYTES
} kernel_form;

/* scale (float) is 0 for a block of zeros and NaN for one not finite, total (int32_t, as all that
 * follow but pair) the sum of q, first and second those of its halves, high and low those of the
 * bytes; sum (float) = scale * total, exact for 16-bit q, and pair (float) the same of the two
 * blocks that share a scale. */
enum {
    KERNEL_TIMES = 4,
    KERNEL_WORDS_BYTES = KERNEL_BLOCK * 2 + 3 * KERNEL_TIMES * 4,
    KERNEL_SPLIT_BYTES = KERNEL_BLOCK * 4 + 7 * KERNEL_TIMES * 4,
    KERNEL_BYTES_BYTES = KERNEL_BLOCK * 2 + 6 * KERNEL_TIMES * 4
};

/* Blocks of a group at most. */
enum { KERNEL_GROUP_MOST = 4 };

static inline bool kernel_form_is_words(kernel_form form)
{
    return form == KERNEL_FORM_WORD || form == KERNEL_FORM_WORDS;
}

/* Blocks of a group. */
static inline uint32_t kernel_group(kernel_form form)
{
    if (form == KERNEL_FORM_WORD) return 1;
    return form == KERNEL_FORM_WORDS ? 2 : 4;
}

/* Of a block. */
static inline size_t kernel_block_bytes(kernel_form form)
{
    if (kernel_form_is_words(form)) return (size_t)KERNEL_WORDS_BYTES;
    return form == KERNEL_FORM_SPLIT ? (size_t)KERNEL_SPLIT_BYTES : (size_t)KERNEL_BYTES_BYTES;
}

/* n blocks, and what fills the last group. */
static inline uint32_t kernel_codes_blocks(uint32_t n, kernel_form form)
{
    uint32_t group = kernel_group(form);
    return (n + group - 1) / group * group;
}

/* From one token of n_blocks blocks to the next: an odd number of cache lines, so that the same
 * block of several tokens does not fall into the same few sets of a cache. */
static inline size_t kernel_codes_bytes(uint32_t n_blocks, kernel_form form)
{
    enum { LINE_BYTES = 64 };
    size_t bytes = (size_t)kernel_codes_blocks(n_blocks, form) * kernel_block_bytes(form);
    if (kernel_form_is_words(form)) return bytes;
    return bytes / LINE_BYTES % 2 == 0 ? bytes + LINE_BYTES : bytes;
}

/* Of any form at most. */
static inline size_t kernel_codes_bytes_most(uint32_t n_blocks)
{
    return kernel_codes_bytes(n_blocks, KERNEL_FORM_SPLIT);
}

/* Where the group of a block begins. */
static inline size_t kernel_group_at(uint32_t block, kernel_form form)
{
    return (size_t)(block / kernel_group(form) * kernel_group(form)) * kernel_block_bytes(form);
}

/* Where the word of a column stands. Columns of a block fall in four slots of eight: 0, 2 .. 14;
 * 16, 18 .. 30; 1, 3 .. 15; 17, 19 .. 31: packed codes unpack into these. A group holds slot 0 of
 * all its blocks, then slot 1, ... */
static inline size_t kernel_word_at(uint32_t column, kernel_form form)
{
    uint32_t group = kernel_group(form);
    uint32_t block = column / KERNEL_BLOCK;
    uint32_t of_block = column % KERNEL_BLOCK;
    uint32_t slot = of_block / 16 + of_block % 2 * 2;
    return kernel_group_at(block, form) +
           2 * ((size_t)slot * group * 8 + (size_t)(block % group) * 8 + of_block % 16 / 2);
}

/* Where the first of the pieces of bytes of a block stands: the others lie 16 bytes times the group
 * apart. odd_even: the second of the two orders. */
static inline size_t kernel_bytes_at(uint32_t block, kernel_form form, bool odd_even)
{
    size_t group = kernel_group(form);
    size_t order = group * KERNEL_BLOCK * (form == KERNEL_FORM_SPLIT ? 2 : 1);
    return kernel_group_at(block, form) + (odd_even ? order : 0) + block % group * 16;
}

/* q of a column, from one order or the other. */
static inline int32_t kernel_code(const unsigned char *codes, uint32_t column, kernel_form form,
                                  bool odd_even)
{
    if (kernel_form_is_words(form)) {
        int16_t word;
        memcpy(&word, codes + kernel_word_at(column, form), sizeof word);
        return word;
    }
    size_t group = kernel_group(form);
    uint32_t i = column % KERNEL_BLOCK;
    uint32_t piece = odd_even ? i % 2 : i / 16;
    const unsigned char *at = codes + kernel_bytes_at(column / KERNEL_BLOCK, form, odd_even);
    at += (size_t)piece * 16 * group + (odd_even ? i / 2 : i % 16);
    int8_t high;
    memcpy(&high, at, sizeof high);
    return form == KERNEL_FORM_BYTES ? high : high * 256 + at[32 * group];
}

/* Where the numbers of a block stand, in bytes. From KERNEL_FIRST on only beside bytes, HIGH and
 * LOW only in KERNEL_FORM_SPLIT, PAIR only in KERNEL_FORM_BYTES. */
typedef enum kernel_number {
    KERNEL_SCALE,
    KERNEL_SUM,
    KERNEL_TOTAL,
    KERNEL_FIRST,
    KERNEL_SECOND,
    KERNEL_HIGH,
    KERNEL_LOW,
    KERNEL_PAIR = KERNEL_HIGH
} kernel_number;

static inline size_t kernel_number_at(uint32_t block, kernel_number which, kernel_form form)
{
    uint32_t group = kernel_group(form);
    size_t codes = (size_t)group * KERNEL_BLOCK * (form == KERNEL_FORM_SPLIT ? 4 : 2);
    size_t numbers = (size_t)which * group + block % group;
    return kernel_group_at(block, form) + codes + numbers * KERNEL_TIMES * 4;
}

static inline void kernel_number_put(unsigned char *codes, uint32_t block, kernel_number which,
                                     kernel_form form, const void *number)
{
    for (size_t i = 0; i < (size_t)KERNEL_TIMES * 4; i += 4) {
        memcpy(codes + kernel_number_at(block, which, form) + i, number, 4);
    }
}

/* Scale, sum and total. */
static inline void kernel_numbers_put(unsigned char *codes, uint32_t block, kernel_form form,
                                      float scale, int32_t total)
{
    float sum = scale * (float)total;
    kernel_number_put(codes, block, KERNEL_SCALE, form, &scale);
    kernel_number_put(codes, block, KERNEL_SUM, form, &sum);
    kernel_number_put(codes, block, KERNEL_TOTAL, form, &total);
}

/* y[t, o] = add[t, o] + (sum_k w[o, k] x[t, k] + bias[o]) for o in [first, end). */
typedef struct kernel_linear {
    const tensor *w;     /* [rows, cols], any base alignment */
    uint32_t first, end; /* rows of w */
    uint32_t n_tokens;
    kernel_input x;
    const float *bias; /* [rows] or NULL */
    const float *add;  /* [n_tokens, stride] or NULL; may be y */
    float *y;          /* [n_tokens, stride] */
    size_t stride;
    float *scratch; /* this thread's, kernel_linear_floats */
} kernel_linear;

/* Rows that linear_any decodes at a time. */
enum { KERNEL_SCRATCH_ROWS = 4 };

/* Of a decoded row. */
static inline size_t kernel_scratch_floats(uint64_t cols)
{
    return (size_t)(cols + 63) / 64 * 64;
}

/* How a linear layer computes with weights of an encoding: as plain numbers, as plain numbers that
 * lie by columns, as integer codes, or by decoding whole rows. */
typedef enum kernel_weights {
    KERNEL_PLAIN,
    KERNEL_TURNED,
    KERNEL_CODES,
    KERNEL_ANY
} kernel_weights;

/* Outputs, or what lies between two of them, and tokens that linear_turned works on at a time. */
enum { KERNEL_TURNED_WIDTH = 128, KERNEL_TURNED_TOKENS = 8 };

static inline kernel_weights kernel_weights_of_plain(const tensor *w)
{
    if (w->col_bytes == 0) return KERNEL_PLAIN;
    bool near = w->row_bytes[0] <= (uint64_t)w->encoding->block_bytes * KERNEL_TURNED_WIDTH;
    return near ? KERNEL_TURNED : KERNEL_ANY;
}

static inline kernel_weights kernel_weights_of(const tensor *w)
{
    if (host_has_codes(w)) return KERNEL_CODES;
    bool plain = w->encoding->id == ENCODING_ID_F32 || w->encoding->id == ENCODING_ID_F16 ||
                 w->encoding->id == ENCODING_ID_BF16;
    return plain ? kernel_weights_of_plain(w) : KERNEL_ANY;
}

typedef void kernel_linear_fn(const kernel_linear *a);

/* Floats of scratch that a linear layer needs. */
static inline size_t kernel_linear_floats(const tensor *w)
{
    size_t row = kernel_scratch_floats(w->n_cols);
    kernel_weights kind = kernel_weights_of(w);
    if (kind == KERNEL_ANY) return row * KERNEL_SCRATCH_ROWS;
    size_t turned = (size_t)KERNEL_TURNED_WIDTH * KERNEL_TURNED_TOKENS;
    return kind == KERNEL_TURNED && turned > row ? turned : row;
}

/* Stores the sum of one token and one row. */
static inline void kernel_put(const kernel_linear *a, uint32_t token, uint32_t row, float sum)
{
    size_t to = (size_t)token * a->stride + row;
    if (a->bias != NULL) sum += a->bias[row];
    a->y[to] = a->add == NULL ? sum : a->add[to] + sum;
}

/* linear_any by linear_f32: a few rows at a time are decoded and then multiplied as f32, so that
 * the order of additions is that of linear_f32. */
static inline void kernel_linear_decoded(const kernel_linear *a, kernel_linear_fn *linear_f32)
{
    const tensor *w = a->w;
    size_t stride = kernel_scratch_floats(w->n_cols);
    tensor rows = {.encoding = &ENCODING_F32, .n_cols = w->n_cols};
    rows.planes[0] = (const unsigned char *)a->scratch;
    rows.row_bytes[0] = stride * sizeof(float);
    for (uint32_t row = a->first; row < a->end; row += KERNEL_SCRATCH_ROWS) {
        uint32_t left = a->end - row;
        uint32_t n = left < KERNEL_SCRATCH_ROWS ? left : KERNEL_SCRATCH_ROWS;
        for (uint32_t r = 0; r < n; r++)
            w->encoding->decode_row(w, row + r, a->scratch + r * stride);
        rows.n_rows = n;
        kernel_linear part = *a;
        part.w = &rows;
        part.first = 0;
        part.end = n;
        if (a->bias != NULL) part.bias = a->bias + row;
        if (a->add != NULL) part.add = a->add + row;
        part.y = a->y + row;
        linear_f32(&part);
    }
}

/* x [n] -> f and h [n], both rounded to bf16 (nearest even). */
typedef void kernel_prepare_bf16_fn(const float *x, uint32_t n, float *f, uint16_t *h);

/* One token, x [n_blocks * KERNEL_BLOCK] -> codes as above (aligned to 4 bytes): 16-bit q of x
 * rounded to bf16, or 8-bit q of x. */
typedef void kernel_prepare_codes_fn(const float *x, uint32_t n_blocks, unsigned char *codes);

/* y[i] = x[i] / sqrt(mean x^2 + eps) * w[i]; y may be x. */
typedef void kernel_rms_norm_fn(const float *x, const float *w, uint32_t n, float eps, float *y);

/* y[i] = (x[i] - mean x) / sqrt(mean (x - mean x)^2 + eps) * w[i] + b[i]; y may be x. */
typedef void kernel_layer_norm_fn(const float *x, const float *w, const float *b, uint32_t n,
                                  float eps, float *y);

/* One head in place; cos_sin: [n_pairs, 2], cosine and sine of each pair. Halves: (j, j +
 * n_pairs). */
typedef void kernel_rope_fn(float *x, const float *cos_sin, uint32_t n_pairs);

/* y[i] = act(gate[i]) * up[i]; y may be gate or up. */
typedef void kernel_glu_fn(const float *gate, const float *up, uint32_t n, float *y);

/* How packed rows are stored. */
typedef struct kernel_packed {
    const kv_codec *codec;
    size_t row_bytes;
    uint8_t base;
} kernel_packed;

/* What is read after the rows of a call, so that it can be fetched: what lies behind them up to
 * end, then next, where that is not NULL. */
typedef struct kernel_ahead {
    const void *end, *next;
} kernel_ahead;

/* A query of dim floats -> as scores_packed wants it for keys of the codec (query.h), in as many
 * bytes. */
typedef struct kernel_query {
    const float *x; /* [dim] */
    const kv_codec *codec;
    uint32_t dim;
    float *to; /* [dim], not x */
} kernel_query;

typedef void kernel_query_fn(const kernel_query *a);

/* s[i, j] = scale * sum_d q[i, d] k[j, d] for queries i < n_q and key rows j < n_keys, which lie
 * behind one another. q: [n_q, q_stride], s: [n_q, s_stride]. Against packed keys queries are as
 * prepare_query makes them, and query.h says what is computed. */
typedef struct kernel_scores {
    const float *q;
    size_t q_stride;
    uint32_t n_q;
    const void *k; /* [n_keys, dim] of the slot's type, aligned to its element; or packed rows */
    uint32_t n_keys, dim;
    float scale;
    float *s;
    size_t s_stride;
    kernel_packed packed;
    kernel_ahead ahead;
} kernel_scores;

typedef void kernel_scores_fn(const kernel_scores *a);

/* o[i, d] += sum_j p[i, j] v[j, d], j ascending, one addition after the other. */
typedef struct kernel_values {
    const float *p;
    size_t p_stride;
    uint32_t n_q;
    const void *v; /* [n_keys, v_stride], of which dim columns; or packed rows */
    uint32_t n_keys, dim;
    float *o;
    size_t o_stride;
    size_t v_stride; /* in elements; not of packed rows */
    kernel_packed packed;
    kernel_ahead ahead;
} kernel_values;

typedef void kernel_values_fn(const kernel_values *a);

/* Whether scores_packed and values_packed take rows of dim columns as they lie. Others are decoded
 * first, and so are values that more than KERNEL_PACKED_QUERIES queries share, which changes no
 * bits. */
static inline bool kernel_takes_packed(const kv_codec *codec, uint8_t base, uint32_t dim)
{
    if (dim % KERNEL_BLOCK != 0) return false;
    if (codec->kind == KV_AFFINE) return base != KV_BASE_F32 && dim % codec->group == 0;
    if (codec->kind == KV_TK) return codec->bits == 8;
    return codec->kind == KV_TV && codec->bits == 4;
}

enum { KERNEL_PACKED_QUERIES = 8 };

/* Keys or values of a packed codec, rows behind one another -> to [n_rows, dim], with the bits of
 * the codec's decode_row. Attention decodes KERNEL_ROWS at a time, uses them for all its queries,
 * and forgets them; few queries take values as they lie, with the same bits. */
typedef struct kernel_decode {
    const kv_codec *codec;
    uint8_t base;
    const unsigned char *rows; /* [n_rows, row_bytes], any alignment */
    size_t row_bytes;
    uint32_t n_rows, dim;
    float *to;
    size_t stride; /* from one row of to to the next */
} kernel_decode;

typedef void kernel_decode_fn(const kernel_decode *a);

/* linear_turned by the loop that adds values of its type: x_k times column k, k ascending, for what
 * lies between the first output and the last, so that the matrix is read as it lies. */
static inline void kernel_linear_turned(const kernel_linear *a, kernel_values_fn *values)
{
    const tensor *w = a->w;
    size_t size = w->encoding->block_bytes;
    uint32_t cols = (uint32_t)w->n_cols;
    uint32_t step = (uint32_t)(w->row_bytes[0] / size);
    uint32_t most = (KERNEL_TURNED_WIDTH - 1) / step + 1;
    for (uint32_t row = a->first; row < a->end; row += most) {
        uint32_t n = a->end - row < most ? a->end - row : most;
        kernel_values v = {.p_stride = cols, .n_keys = cols, .o = a->scratch};
        v.v = w->planes[0] + row * w->row_bytes[0];
        v.v_stride = (size_t)w->col_bytes / size;
        v.dim = (n - 1) * step + 1;
        v.o_stride = v.dim;
        for (uint32_t t = 0; t < a->n_tokens; t += KERNEL_TURNED_TOKENS) {
            uint32_t left = a->n_tokens - t;
            v.n_q = left < KERNEL_TURNED_TOKENS ? left : KERNEL_TURNED_TOKENS;
            v.p = a->x.f + (size_t)t * cols;
            memset(a->scratch, 0, (size_t)v.n_q * v.dim * sizeof *a->scratch);
            values(&v);
            for (uint32_t i = 0; i < v.n_q; i++) {
                for (uint32_t r = 0; r < n; r++)
                    kernel_put(a, t + i, row + r, a->scratch[(size_t)i * v.dim + (size_t)r * step]);
            }
        }
    }
}

/* s[i] = exp(s[i] - max), exactly 0 where s[i] is -INFINITY; returns their sum. n <= KERNEL_SPLIT.
 * Trailing -INFINITY, and how many there are, change nothing. */
typedef float kernel_exp_sum_fn(float *s, uint32_t n, float max);

/* The largest of n >= 1 numbers. */
typedef float kernel_max_fn(const float *s, uint32_t n);

/* y[j] += sum_i w[i] max(s[i, j], 0), i ascending by fused multiply-adds; a NaN counts as 0. */
typedef struct kernel_relu_sum {
    const float *s; /* [n_rows, s_stride] */
    size_t s_stride;
    const float *w; /* [n_rows] */
    uint32_t n_rows, n;
    float *y; /* [n] */
} kernel_relu_sum;

typedef void kernel_relu_sum_fn(const kernel_relu_sum *a);

/* y[c] = silu(sum_j w[j, c] x_j[c]) of one token, j ascending, or the sum itself. */
typedef struct kernel_conv {
    const float *const *x; /* [n_taps] of [n] */
    const float *w;        /* [n_taps, stride] */
    uint32_t n_taps, n;
    size_t stride;
    float *y; /* [n] */
} kernel_conv;

typedef void kernel_conv_fn(const kernel_conv *a);

/* One head and token of graph.h's gated_delta, queries and keys brought to length before: with S
 * row by row, and d_i = rate (v_i - sum_j (decay S_ij) k_j), S_ij becomes decay S_ij + d_i k_j, and
 * y_i = sum_j S_ij q_j. */
typedef struct kernel_delta {
    const float *q, *k; /* [k_dim] */
    const float *v;     /* [v_dim] */
    float decay, rate;
    uint32_t k_dim, v_dim;
    float *s; /* [v_dim, k_dim] */
    float *y; /* [v_dim] */
} kernel_delta;

typedef void kernel_delta_fn(const kernel_delta *a);

/* Reads n_bytes (a multiple of 4096, aligned to 64) and returns something that depends on all of
 * them. Loops 0 .. KERNEL_READS - 1 differ in stride and prefetch. */
typedef uint64_t kernel_read_fn(const void *block, size_t n_bytes, uint32_t loop);

/* slot, type, error against generic allowed, in units of 2^-24 times the sum of absolute terms (of
 * linear, layer_norm, conv, delta, scores, values, exp_sum) or of the result; 0: equal. */
#define CPU_KERNEL_MAP(X)                                                                          \
    X(linear_f32, kernel_linear_fn, 64)     /* w f32, x.f */                                       \
    X(linear_f16, kernel_linear_fn, 64)     /* w f16, x.f */                                       \
    X(linear_bf16, kernel_linear_fn, 64)    /* w bf16, x.f */                                      \
    X(linear_bf16_h, kernel_linear_fn, 64)  /* w bf16, x.f and x.h equal */                        \
    X(linear_codes, kernel_linear_fn, 64)   /* w KERNEL_CODES, x.f */                              \
    X(linear_codes_q, kernel_linear_fn, 64) /* w KERNEL_CODES, x.codes of 16 bits */               \
    X(linear_codes_b, kernel_linear_fn, 64) /* w KERNEL_CODES, x.codes of 8 bits */                \
    X(linear_any, kernel_linear_fn, 64)     /* w KERNEL_ANY, x.f */                                \
    X(linear_turned, kernel_linear_fn, 300) /* w KERNEL_TURNED, x.f */                             \
    X(prepare_bf16, kernel_prepare_bf16_fn, 0)                                                     \
    X(prepare_i16, kernel_prepare_codes_fn, 0)                                                     \
    X(prepare_i8, kernel_prepare_codes_fn, 0)                                                      \
    X(rms_norm, kernel_rms_norm_fn, 64)                                                            \
    X(layer_norm, kernel_layer_norm_fn, 64)                                                        \
    X(rope_half, kernel_rope_fn, 4)                                                                \
    X(rope_interleaved, kernel_rope_fn, 4)                                                         \
    X(glu_silu, kernel_glu_fn, 32)                                                                 \
    X(glu_gelu_tanh, kernel_glu_fn, 32)                                                            \
    X(glu_gelu_erf, kernel_glu_fn, 32)                                                             \
    X(glu_sigmoid, kernel_glu_fn, 32)                                                              \
    X(glu_gpt_oss, kernel_glu_fn, 32)                                                              \
    X(conv_silu, kernel_conv_fn, 64)                                                               \
    X(conv_plain, kernel_conv_fn, 64)                                                              \
    X(delta, kernel_delta_fn, 64)                                                                  \
    X(scores_f32, kernel_scores_fn, 64)                                                            \
    X(scores_f16, kernel_scores_fn, 64)                                                            \
    X(scores_bf16, kernel_scores_fn, 64)                                                           \
    X(values_f32, kernel_values_fn, 300)                                                           \
    X(values_f16, kernel_values_fn, 300)                                                           \
    X(values_bf16, kernel_values_fn, 300)                                                          \
    X(prepare_query, kernel_query_fn, 0)                                                           \
    X(scores_packed, kernel_scores_fn, 0) /* as query.h says */                                    \
    X(values_packed, kernel_values_fn, 300)                                                        \
    X(decode_packed, kernel_decode_fn, 0)                                                          \
    X(exp_sum, kernel_exp_sum_fn, 64)                                                              \
    X(max, kernel_max_fn, 0)                                                                       \
    X(relu_sum, kernel_relu_sum_fn, 0)                                                             \
    X(read, kernel_read_fn, 0)

typedef struct cpu_kernels {
    const char *isa;
    kernel_form form_i16, form_i8; /* of prepare_i16 and linear_codes_q; of the others */
    bool query_bytes;              /* what prepare_query makes and scores_packed takes (query.h) */
#define CPU_KERNEL_SLOT(slot, type, bound) type *slot;
    CPU_KERNEL_MAP(CPU_KERNEL_SLOT)
#undef CPU_KERNEL_SLOT
} cpu_kernels;

typedef struct cpu_isa {
    const char *name;
    bool (*available)(void);
    void (*fill)(cpu_kernels *k); /* overrides what it makes faster */
} cpu_isa;

/* generic, avx2, avx512, avx512bf16: best last. [*count] */
const cpu_isa *cpu_isa_table(size_t *count);

/* Fills from generic upwards through each row that this processor has, stopping at the one named.
 * NULL: the best. ARGUMENT when there is none of that name, UNSUPPORTED when this processor lacks
 * it. */
weft_status cpu_kernels_select(const char *isa, cpu_kernels *k, weft_error *err);

void cpu_fill_generic(cpu_kernels *k);
void cpu_fill_avx2(cpu_kernels *k);
void cpu_fill_avx512(cpu_kernels *k);
void cpu_fill_avx512_i8(cpu_kernels *k); /* what avx512 has for inputs of 8 bits */
void cpu_fill_avx512bf16(cpu_kernels *k);

#endif
