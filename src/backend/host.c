/* host.c - backends in plain memory. */
#include "backend/host.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/fp.h"
#include "kv/codecs/codec.h"
#include "tensor/encoding.h"

weft_status host_supports(const backend *b, const graph *g, weft_error *err)
{
    (void)b;
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        uint32_t n = v->op == GRAPH_WEIGHT ? 1 : v->op == GRAPH_STACK ? v->i[1] : 0;
        for (uint32_t i = 0; i < n; i++) {
            const tensor *t = &g->tensors[v->i[0] + i];
            if (t->encoding != NULL) continue;
            return err_set(err, WEFT_UNSUPPORTED,
                           "tensor '%s' has no encoding that can be computed with", t->name);
        }
    }
    return WEFT_OK;
}

void host_copy(backend *b, void *to, const void *from, size_t n_bytes)
{
    (void)b;
    memcpy(to, from, n_bytes);
}

bool host_has_codes(const tensor *w)
{
    switch (w->encoding->id) {
    case ENCODING_ID_AFFINE:
    case ENCODING_ID_Q4_0:
    case ENCODING_ID_Q4_1:
    case ENCODING_ID_Q5_0:
    case ENCODING_ID_Q8_0:
    case ENCODING_ID_Q4_K:
    case ENCODING_ID_Q5_K:
    case ENCODING_ID_Q6_K:
        return true;
    default:
        return false;
    }
}

/* Below this the quotient would leave the range. */
static const float I8_LEAST = 1e-30F;

float host_i8_scale(float largest, float *inverse)
{
    *inverse = 0.0F;
    if (!isfinite(largest)) return NAN;
    if (largest < I8_LEAST) return 0.0F;
    *inverse = (float)HOST_I8_MOST / largest;
    return largest / (float)HOST_I8_MOST;
}

/* n columns that share a scale. */
static void round_i8(const float *x, uint32_t n, float *y)
{
    float inverse;
    float scale = host_i8_scale(fp_from_bits(fp_largest_bits(x, n)), &inverse);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (inverse == 0.0F ? 0.0F : rintf(x[i] * inverse)) * scale;
}

void host_round_input(weft_act act, const tensor *w, bool turned, const float *x, uint32_t n,
                      float *y)
{
    if (act == WEFT_ACT_F32) {
        memcpy(y, x, n * sizeof *x);
        return;
    }
    if (act == WEFT_ACT_INT8 && host_has_codes(w) && !turned) {
        for (uint32_t i = 0; i < n; i += HOST_I8_COLUMNS) {
            round_i8(x + i, n - i < HOST_I8_COLUMNS ? n - i : HOST_I8_COLUMNS, y + i);
        }
        return;
    }
    for (uint32_t i = 0; i < n; i++) y[i] = fp_round_bf16(x[i]);
}

weft_status host_wait(backend *b, weft_error *err)
{
    (void)b;
    (void)err;
    return WEFT_OK;
}

void host_no_experts(const backend_plan *plan, backend_expert_stats *stats)
{
    (void)plan;
    *stats = (backend_expert_stats){0};
}

weft_status host_no_trace(backend *b, backend_plan *plan, bool on, weft_error *err)
{
    (void)b;
    (void)plan;
    if (!on) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "this backend does not measure where time goes");
}

uint32_t host_no_trace_part(const backend_plan *plan, uint32_t i, backend_trace_part *part)
{
    (void)plan;
    (void)i;
    (void)part;
    return 0;
}

/* The columns of a key that are not its codec's. */
static const kv_codec *tail_codec(const kv_geometry *g)
{
    return g->k_coded < g->k_dim ? kv_codec_by_id(g->base) : NULL;
}

/* Numbers that are not finite and that the codec does not keep. */
static uint32_t count_nonfinite(const kv_codec *codec, const float *x, uint32_t n)
{
    uint32_t count = 0;
    if (codec->kind == KV_DENSE) return 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = fp_to_bits(x[i]);
        count += (bits & 0x7f800000u) == 0x7f800000u;
    }
    return count;
}

void host_count_nonfinite(const backend_step *step, uint32_t n)
{
    if (n == 0 || step->n_nonfinite == NULL) return;
    atomic_fetch_add_explicit(step->n_nonfinite, n, memory_order_relaxed);
}

static void put_key(const kv_geometry *g, unsigned char *row, const float *k)
{
    const kv_codec *codec = kv_codec_by_id(g->k_codec);
    const kv_codec *tail = tail_codec(g);
    codec->encode_row(codec, g->base, row, k, g->k_coded);
    if (tail == NULL) return;
    tail->encode_row(tail, g->base, row + g->k_tail, k + g->k_coded, g->k_dim - g->k_coded);
}

void host_key(const kv_geometry *g, const unsigned char *row, float *k)
{
    const kv_codec *codec = kv_codec_by_id(g->k_codec);
    const kv_codec *tail = tail_codec(g);
    codec->decode_row(codec, g->base, row, k, g->k_coded);
    if (tail == NULL) return;
    tail->decode_row(tail, g->base, row + g->k_tail, k + g->k_coded, g->k_dim - g->k_coded);
}

uint32_t host_append(const kv_view *view, uint32_t position, const float *k, const float *v)
{
    const kv_geometry *g = view->geometry;
    const kv_codec *k_codec = kv_codec_by_id(g->k_codec);
    const kv_codec *v_codec = kv_codec_by_id(g->v_codec);
    uint32_t n_nonfinite = 0;
    for (uint32_t h = 0; h < g->n_heads; h++) {
        const float *key = k + (size_t)h * g->k_dim;
        put_key(g, kv_key(view, h, position), key);
        n_nonfinite += count_nonfinite(k_codec, key, g->k_coded);
        if (!kv_has_values(g)) continue;
        const float *value = v + (size_t)h * g->v_dim;
        v_codec->encode_row(v_codec, g->base, kv_value(view, h, position), value, g->v_dim);
        n_nonfinite += count_nonfinite(v_codec, value, g->v_dim);
    }
    return n_nonfinite;
}

static void convert_values(const backend_conversion *c, size_t head)
{
    const kv_geometry *from = c->from;
    const kv_geometry *to = c->to;
    const kv_codec *decoder = kv_codec_by_id(from->v_codec);
    const kv_codec *encoder = kv_codec_by_id(to->v_codec);
    for (uint32_t i = 0; i < c->n_rows; i++) {
        size_t row = head * from->page_tokens + i;
        const unsigned char *src = c->src + from->v_offset + row * from->v_row_bytes;
        unsigned char *dst = c->dst + to->v_offset + row * to->v_row_bytes;
        decoder->decode_row(decoder, from->base, src, c->row, from->v_dim);
        encoder->encode_row(encoder, from->base, dst, c->row, from->v_dim);
    }
}

void host_convert(backend *b, const backend_conversion *c)
{
    (void)b;
    for (size_t h = 0; h < c->from->n_heads; h++) {
        for (uint32_t i = 0; i < c->n_rows; i++) {
            size_t row = h * c->from->page_tokens + i;
            host_key(c->from, c->src + row * c->from->k_row_bytes, c->row);
            put_key(c->to, c->dst + row * c->to->k_row_bytes, c->row);
        }
        if (kv_has_values(c->from)) convert_values(c, h);
    }
}

/* p of each expert. */
static void expert_scores(bool sigmoid, const float *scores, uint32_t n, double *p)
{
    double max = (double)scores[0];
    double sum = 0.0;
    for (uint32_t e = 1; e < n; e++) max = (double)scores[e] > max ? (double)scores[e] : max;
    for (uint32_t e = 0; e < n; e++) {
        p[e] = sigmoid ? 1.0 / (1.0 + exp(-(double)scores[e])) : exp((double)scores[e] - max);
        sum += p[e];
    }
    for (uint32_t e = 0; e < n && !sigmoid; e++) p[e] /= sum;
}

/* What a group counts for: the sum of the two that are largest in it. */
static double group_score(const double *chooser, uint32_t size)
{
    double first = (double)-INFINITY;
    double second = (double)-INFINITY;
    for (uint32_t e = 0; e < size; e++) {
        if (chooser[e] > first) {
            second = first;
            first = chooser[e];
        } else if (chooser[e] > second) {
            second = chooser[e];
        }
    }
    return first + second;
}

static void choose_groups(const double *chooser, uint32_t size, uint32_t n_groups, uint32_t n_top,
                          bool *stays)
{
    for (uint32_t i = 0; i < n_top; i++) {
        uint32_t best = n_groups;
        double best_score = 0.0;
        for (uint32_t g = 0; g < n_groups; g++) {
            if (stays[(size_t)g * size]) continue;
            double score = group_score(chooser + (size_t)g * size, size);
            if (best < n_groups && !(score > best_score)) continue;
            best = g;
            best_score = score;
        }
        for (uint32_t e = 0; e < size; e++) stays[(size_t)best * size + e] = true;
    }
}

static uint32_t choose_expert(const double *chooser, uint32_t n_experts, const bool *stays)
{
    uint32_t best = n_experts;
    for (uint32_t e = 0; e < n_experts; e++) {
        if (!stays[e]) continue;
        if (best == n_experts || chooser[e] > chooser[best]) best = e;
    }
    ASSERT_HOT(best < n_experts);
    return best;
}

void host_route(const graph_value *v, uint32_t n_experts, const float *scores, const float *bias,
                const float *factor, host_router s, float *y)
{
    uint32_t top_k = v->i[0];
    bool normalize = (v->i[3] & GRAPH_ROUTE_NORMALIZE) != 0;
    double sum = 0.0;
    expert_scores((v->i[3] & GRAPH_ROUTE_SIGMOID) != 0, scores, n_experts, s.p);
    for (uint32_t e = 0; e < n_experts; e++) {
        s.chooser[e] = s.p[e] + (bias != NULL ? (double)bias[e] : 0.0);
        s.stays[e] = v->i[1] == 1;
    }
    if (v->i[1] > 1) choose_groups(s.chooser, n_experts / v->i[1], v->i[1], v->i[2], s.stays);
    for (uint32_t k = 0; k < top_k; k++) {
        uint32_t e = choose_expert(s.chooser, n_experts, s.stays);
        s.stays[e] = false;
        y[k] = (float)e;
        sum += s.p[e];
    }
    for (uint32_t k = 0; k < top_k; k++) {
        uint32_t e = (uint32_t)y[k];
        double w = normalize ? s.p[e] / (sum + 1e-20) : s.p[e];
        w *= (double)v->f[0];
        y[top_k + k] = (float)(factor != NULL ? w * (double)factor[e] : w);
    }
}

float host_position_factor(const graph_value *v, uint32_t position)
{
    double periods = floor((double)position / (double)v->f[1]);
    return (float)(1.0 + (double)v->f[0] * log1p(periods));
}

/* ---- the largest of many scores -------------------------------------------------------------- */

/* Numbers that order as scores do: both zeros are one, NaN is below all. */
static uint32_t sortable(float score)
{
    uint32_t bits;
    float x = score == 0.0F ? 0.0F : score;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) return 0;
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/* Of the numbers whose bits above shift + bits are those of *key, the one that *rank others are
 * above, as far as the next bits say: these go into *key, and what is left of the rank stays. */
static void narrow(const float *scores, uint32_t n, uint32_t shift, uint32_t bits, uint32_t *bins,
                   uint32_t *key, uint32_t *rank)
{
    uint32_t n_bins = 1U << bits;
    uint64_t above = (uint64_t)*key >> (shift + bits);
    memset(bins, 0, n_bins * sizeof *bins);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = sortable(scores[i]);
        if ((uint64_t)k >> (shift + bits) == above) bins[k >> shift & (n_bins - 1)]++;
    }
    uint32_t bin = n_bins - 1;
    while (bins[bin] <= *rank) {
        ASSERT_HOT(bin > 0);
        *rank -= bins[bin--];
    }
    *key |= bin << shift;
}

void host_select(const float *scores, uint32_t n, uint32_t first, uint32_t top_k, uint32_t *bins,
                 uint32_t *list)
{
    uint32_t n_listed = 0;
    if (n <= top_k) {
        for (; n_listed < n; n_listed++) list[1 + n_listed] = first + n_listed;
        list[0] = n;
        return;
    }
    uint32_t least = 0;         /* of those that are chosen */
    uint32_t equal = top_k - 1; /* in the end: how many of the least there are beside one */
    narrow(scores, n, 21, 11, bins, &least, &equal);
    narrow(scores, n, 10, 11, bins, &least, &equal);
    narrow(scores, n, 0, 10, bins, &least, &equal);
    equal++;
    for (uint32_t i = 0; i < n && n_listed < top_k; i++) {
        uint32_t k = sortable(scores[i]);
        if (k < least || (k == least && equal == 0)) continue;
        equal -= k == least;
        list[1 + n_listed++] = first + i;
    }
    list[0] = n_listed;
}
