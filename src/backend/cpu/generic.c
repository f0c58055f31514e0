/* generic.c - every loop of cpu_kernels.h in plain C, accumulating in double: the answer that the
 * other instruction sets are compared with. */
#include "backend/cpu/cpu_kernels.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/query.h"
#include "base/fp.h"
#include "tensor/encoding.h"

#define FORM KERNEL_FORM_WORD

/* Column k of a prepared token. */
static double code_value(const unsigned char *codes, uint32_t k)
{
    float scale;
    memcpy(&scale, codes + kernel_number_at(k / KERNEL_BLOCK, KERNEL_SCALE, FORM), sizeof scale);
    return (double)kernel_code(codes, k, FORM, false) * (double)scale;
}

/* Token by token inside a row, so that a row is decoded once. x(k) is the input as the slot defines
 * it. */
static void linear_rows(const kernel_linear *a, bool codes)
{
    uint32_t cols = (uint32_t)a->w->n_cols;
    for (uint32_t o = a->first; o < a->end; o++) {
        a->w->encoding->decode_row(a->w, o, a->scratch);
        for (uint32_t t = 0; t < a->n_tokens; t++) {
            size_t at = (size_t)t * cols;
            const unsigned char *in = a->x.codes;
            if (codes) in += t * kernel_codes_bytes(cols / KERNEL_BLOCK, FORM);
            double sum = 0.0;
            for (uint32_t k = 0; k < cols; k++) {
                double x = codes ? code_value(in, k) : (double)a->x.f[at + k];
                sum += (double)a->scratch[k] * x;
            }
            if (a->bias != NULL) sum += (double)a->bias[o];
            size_t to = (size_t)t * a->stride + o;
            a->y[to] = a->add == NULL ? (float)sum : a->add[to] + (float)sum;
        }
    }
}

static void linear_float(const kernel_linear *a)
{
    linear_rows(a, false);
}

static void linear_codes_q(const kernel_linear *a)
{
    linear_rows(a, true);
}

static void prepare_bf16(const float *x, uint32_t n, float *f, uint16_t *h)
{
    for (uint32_t i = 0; i < n; i++) {
        h[i] = fp_to_bf16(x[i]);
        f[i] = fp_from_bf16(h[i]);
    }
}

/* Below this exponent the block's scale would leave the normal range. */
enum { EXPONENT_LEAST = -100 };

static void prepare_i16(const float *x, uint32_t n_blocks, unsigned char *codes)
{
    for (uint32_t b = 0; b < n_blocks; b++, x += KERNEL_BLOCK) {
        uint32_t largest = 0;
        for (uint32_t i = 0; i < KERNEL_BLOCK; i++) {
            uint32_t magnitude = fp_to_bits(fp_round_bf16(x[i])) & 0x7fffffffu;
            if (magnitude > largest) largest = magnitude;
        }
        bool finite = largest < 0x7f800000u;
        int exponent = (int)(largest >> 23) - 127;
        if (exponent < EXPONENT_LEAST || !finite) exponent = EXPONENT_LEAST;
        float step = fp_from_bits((uint32_t)(exponent - 14 + 127) << 23);
        float inverse = fp_from_bits((uint32_t)(14 - exponent + 127) << 23);
        int32_t total = 0;
        for (uint32_t i = 0; i < KERNEL_BLOCK; i++) {
            int16_t whole = finite ? (int16_t)lrintf(fp_round_bf16(x[i]) * inverse) : 0;
            memcpy(codes + kernel_word_at(b * KERNEL_BLOCK + i, FORM), &whole, sizeof whole);
            total += whole;
        }
        if (largest == 0) step = 0.0F;
        kernel_numbers_put(codes, b, FORM, finite ? step : NAN, total);
    }
}

static void prepare_i8(const float *x, uint32_t n_blocks, unsigned char *codes)
{
    for (uint32_t b = 0; b < n_blocks; b += 2) {
        uint32_t n = n_blocks - b < 2 ? 1 : 2;
        uint32_t largest = fp_largest_bits(x + (size_t)b * KERNEL_BLOCK, n * KERNEL_BLOCK);
        float inverse;
        float scale = host_i8_scale(fp_from_bits(largest), &inverse);
        for (uint32_t of = b; of < b + n; of++) {
            int32_t total = 0;
            for (uint32_t i = of * KERNEL_BLOCK; i < (of + 1) * KERNEL_BLOCK; i++) {
                int16_t whole = inverse == 0.0F ? 0 : (int16_t)lrintf(x[i] * inverse);
                memcpy(codes + kernel_word_at(i, FORM), &whole, sizeof whole);
                total += whole;
            }
            kernel_numbers_put(codes, of, FORM, scale, total);
        }
    }
}

static void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    double inverse = 1.0 / sqrt(sum / (double)n + (double)eps);
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * inverse * (double)w[i]);
}

static void layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps,
                       float *y)
{
    double mean = 0.0;
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (uint32_t i = 0; i < n; i++) sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    double inverse = 1.0 / sqrt(sum / (double)n + (double)eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) * inverse * (double)w[i] + (double)b[i]);
}

static void rotate(float *a, float *b, const float *cos_sin)
{
    float x = *a;
    float y = *b;
    *a = x * cos_sin[0] - y * cos_sin[1];
    *b = y * cos_sin[0] + x * cos_sin[1];
}

static void rope_half(float *x, const float *cos_sin, uint32_t n_pairs)
{
    for (uint32_t j = 0; j < n_pairs; j++) rotate(x + j, x + j + n_pairs, cos_sin + 2 * (size_t)j);
}

static void rope_interleaved(float *x, const float *cos_sin, uint32_t n_pairs)
{
    for (uint32_t j = 0; j < n_pairs; j++) {
        rotate(x + 2 * (size_t)j, x + 2 * (size_t)j + 1, cos_sin + 2 * (size_t)j);
    }
}

static void glu_silu(const float *gate, const float *up, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        double g = (double)gate[i];
        y[i] = (float)(g / (1.0 + exp(-g)) * (double)up[i]);
    }
}

static void glu_gelu_tanh(const float *gate, const float *up, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        double g = (double)gate[i];
        double inner = 0.79788456080286535588 * (g + 0.044715 * g * g * g);
        /* (1 + tanh u) / 2, without the cancellation that it has for negative u. */
        y[i] = (float)(g / (1.0 + exp(-2.0 * inner)) * (double)up[i]);
    }
}

static void glu_gelu_erf(const float *gate, const float *up, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        double g = (double)gate[i];
        y[i] = (float)(0.5 * g * erfc(g * -0.70710678118654752440) * (double)up[i]);
    }
}

static void glu_sigmoid(const float *gate, const float *up, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = (float)((double)up[i] / (1.0 + exp(-(double)gate[i])));
    }
}

static double conv_column(const kernel_conv *a, uint32_t c)
{
    double sum = 0.0;
    for (uint32_t j = 0; j < a->n_taps; j++) {
        sum += (double)a->w[j * a->stride + c] * (double)a->x[j][c];
    }
    return sum;
}

static void relu_sum(const kernel_relu_sum *a)
{
    for (uint32_t i = 0; i < a->n_rows; i++) {
        const float *s = a->s + i * a->s_stride;
        for (uint32_t j = 0; j < a->n; j++) {
            a->y[j] = fmaf(a->w[i], s[j] > 0.0F ? s[j] : 0.0F, a->y[j]);
        }
    }
}

static void glu_gpt_oss(const float *gate, const float *up, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        double g = (double)gate[i];
        y[i] = (float)(g / (1.0 + exp(-(double)1.702F * g)) * ((double)up[i] + 1.0));
    }
}

static void conv_silu(const kernel_conv *a)
{
    for (uint32_t c = 0; c < a->n; c++) {
        double sum = conv_column(a, c);
        a->y[c] = (float)(sum / (1.0 + exp(-sum)));
    }
}

static void conv_plain(const kernel_conv *a)
{
    for (uint32_t c = 0; c < a->n; c++) a->y[c] = (float)conv_column(a, c);
}

/* S is rounded once a token: that is how it is kept. */
static void delta(const kernel_delta *a)
{
    double decay = (double)a->decay;
    for (uint32_t i = 0; i < a->v_dim; i++) {
        float *s = a->s + (size_t)i * a->k_dim;
        double seen = 0.0;
        double sum = 0.0;
        for (uint32_t j = 0; j < a->k_dim; j++) seen += decay * (double)s[j] * (double)a->k[j];
        double change = (double)a->rate * ((double)a->v[i] - seen);
        for (uint32_t j = 0; j < a->k_dim; j++) {
            s[j] = (float)(decay * (double)s[j] + change * (double)a->k[j]);
            sum += (double)s[j] * (double)a->q[j];
        }
        a->y[i] = (float)sum;
    }
}

/* How an element of the three dense KV types is read. */
typedef float element_fn(const void *base, size_t index);

static float element_f32(const void *base, size_t index)
{
    return ((const float *)base)[index];
}

static float element_f16(const void *base, size_t index)
{
    return fp_from_f16(((const uint16_t *)base)[index]);
}

static float element_bf16(const void *base, size_t index)
{
    return fp_from_bf16(((const uint16_t *)base)[index]);
}

static void scores(const kernel_scores *a, element_fn *element)
{
    for (uint32_t i = 0; i < a->n_q; i++) {
        const float *q = a->q + i * a->q_stride;
        for (uint32_t j = 0; j < a->n_keys; j++) {
            double sum = 0.0;
            for (uint32_t d = 0; d < a->dim; d++) {
                sum += (double)q[d] * (double)element(a->k, (size_t)j * a->dim + d);
            }
            a->s[i * a->s_stride + j] = (float)(sum * (double)a->scale);
        }
    }
}

static void scores_f32(const kernel_scores *a)
{
    scores(a, element_f32);
}

static void scores_f16(const kernel_scores *a)
{
    scores(a, element_f16);
}

static void scores_bf16(const kernel_scores *a)
{
    scores(a, element_bf16);
}

/* o is f32 between calls, and calls may cut the keys anywhere: so each addition is rounded to
 * f32. */
static void values(const kernel_values *a, element_fn *element)
{
    for (uint32_t i = 0; i < a->n_q; i++) {
        float *o = a->o + i * a->o_stride;
        for (uint32_t j = 0; j < a->n_keys; j++) {
            float p = a->p[i * a->p_stride + j];
            for (uint32_t d = 0; d < a->dim; d++) {
                o[d] = fmaf(p, element(a->v, j * a->v_stride + d), o[d]);
            }
        }
    }
}

static void values_f32(const kernel_values *a)
{
    values(a, element_f32);
}

static void values_f16(const kernel_values *a)
{
    values(a, element_f16);
}

static void values_bf16(const kernel_values *a)
{
    values(a, element_bf16);
}

static void prepare_query(const kernel_query *a)
{
    kernel_query_put(a, false);
}

/* Code i of a row. */
static int32_t code_of(const kv_codec *c, const unsigned char *at, uint32_t i)
{
    if (c->bits == 4) return at[i / 2] >> (i % 2 * 4) & 15;
    return c->kind == KV_TK ? (int8_t)at[i] : at[i];
}

static float score_packed(const kernel_scores *a, const float *query, const unsigned char *at)
{
    const kv_codec *c = a->packed.codec;
    const kernel_query_group *groups = kernel_query_groups(query, a->dim);
    const unsigned char *params = at + (size_t)a->dim * c->bits / 8;
    bool half = c->kind == KV_TK || a->packed.base == KV_BASE_F16;
    uint32_t n_groups = a->dim / c->group;
    float score = 0.0F;
    for (uint32_t g = 0; g < n_groups; g++) {
        int32_t sum = 0;
        for (uint32_t i = g * c->group; i < (g + 1) * c->group; i++) {
            sum += code_of(c, at, i) * kernel_query_code(query, i, a->dim, c->bits, false);
        }
        float scale = kernel_query_param(params + (size_t)2 * g, half);
        float other = kernel_query_param(params + (size_t)2 * (n_groups + g), half);
        if (c->kind == KV_TK) other *= scale;
        score = fmaf(groups[g].step * scale, (float)sum, score);
        score = fmaf(other, groups[g].sum, score);
    }
    return score * a->scale;
}

static void scores_packed(const kernel_scores *a)
{
    for (uint32_t i = 0; i < a->n_q; i++) {
        for (uint32_t j = 0; j < a->n_keys; j++) {
            const unsigned char *at = (const unsigned char *)a->k + j * a->packed.row_bytes;
            a->s[i * a->s_stride + j] = score_packed(a, a->q + i * a->q_stride, at);
        }
    }
}

/* A row at a time. */
static void values_packed(const kernel_values *a)
{
    float row[KV_PACKED_MOST];
    kernel_values one = *a;
    one.v = row;
    one.n_keys = 1;
    for (uint32_t j = 0; j < a->n_keys; j++) {
        const unsigned char *at = (const unsigned char *)a->v + j * a->packed.row_bytes;
        a->packed.codec->decode_row(a->packed.codec, a->packed.base, at, row, a->dim);
        one.p = a->p + j;
        values(&one, element_f32);
    }
}

static void decode_packed(const kernel_decode *a)
{
    for (uint32_t r = 0; r < a->n_rows; r++) {
        a->codec->decode_row(a->codec, a->base, a->rows + r * a->row_bytes, a->to + r * a->stride,
                             a->dim);
    }
}

static float exp_sum(float *s, uint32_t n, float max)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (float)exp((double)s[i] - (double)max);
        sum += (double)s[i];
    }
    return (float)sum;
}

static float largest(const float *s, uint32_t n)
{
    float top = s[0];
    for (uint32_t i = 1; i < n; i++) {
        if (s[i] > top) top = s[i];
    }
    return top;
}

static uint64_t read_block(const void *block, size_t n_bytes, uint32_t loop)
{
    const unsigned char *bytes = block;
    size_t step = 32u << loop;
    uint64_t sum[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < n_bytes; i += step) {
        for (size_t j = 0; j < step; j += 32) {
            uint64_t word[4];
            memcpy(word, bytes + i + j, sizeof word);
            for (size_t k = 0; k < 4; k++) sum[k] ^= word[k];
        }
    }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

void cpu_fill_generic(cpu_kernels *k)
{
    k->linear_f32 = linear_float;
    k->linear_f16 = linear_float;
    k->linear_bf16 = linear_float;
    k->linear_bf16_h = linear_float;
    k->linear_codes = linear_float;
    k->linear_codes_q = linear_codes_q;
    k->linear_codes_b = linear_codes_q;
    k->linear_any = linear_float;
    k->linear_turned = linear_float;
    k->prepare_bf16 = prepare_bf16;
    k->prepare_i16 = prepare_i16;
    k->prepare_i8 = prepare_i8;
    k->form_i16 = k->form_i8 = FORM;
    k->rms_norm = rms_norm;
    k->layer_norm = layer_norm;
    k->rope_half = rope_half;
    k->rope_interleaved = rope_interleaved;
    k->glu_silu = glu_silu;
    k->glu_gelu_tanh = glu_gelu_tanh;
    k->glu_gelu_erf = glu_gelu_erf;
    k->glu_sigmoid = glu_sigmoid;
    k->glu_gpt_oss = glu_gpt_oss;
    k->conv_silu = conv_silu;
    k->conv_plain = conv_plain;
    k->relu_sum = relu_sum;
    k->delta = delta;
    k->scores_f32 = scores_f32;
    k->scores_f16 = scores_f16;
    k->scores_bf16 = scores_bf16;
    k->values_f32 = values_f32;
    k->values_f16 = values_f16;
    k->values_bf16 = values_bf16;
    k->prepare_query = prepare_query;
    k->query_bytes = false;
    k->scores_packed = scores_packed;
    k->values_packed = values_packed;
    k->decode_packed = decode_packed;
    k->exp_sum = exp_sum;
    k->max = largest;
    k->read = read_block;
}
