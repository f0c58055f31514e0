/* resize.c - bicubic resizing with Pillow's arithmetic: weights in double, normalized, as integers
 * of 22 bits, and sums of 32. */
#include <math.h>

#include "base/assert.h"
#include "vision/image.h"

enum { WEIGHT_BITS = 32 - 8 - 2 };

/* What the outputs of one direction are made of: output i of count[i] inputs from first[i] on. */
typedef struct taps {
    uint32_t n, most; /* outputs; inputs of one, at most */
    uint32_t *first, *count;
    int32_t *weights; /* [n, most] */
    double *row;      /* [most], scratch */
} taps;

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

static void taps_free(const weft_allocator *a, taps *t)
{
    mem_free(a, t->first, t->n * sizeof *t->first);
    mem_free(a, t->count, t->n * sizeof *t->count);
    mem_free(a, t->weights, (size_t)t->n * t->most * sizeof *t->weights);
    mem_free(a, t->row, t->most * sizeof *t->row);
}

static void fill_output(taps *t, uint32_t i, uint32_t n_from, double scale, double wide)
{
    double centre = ((double)i + 0.5) * scale;
    double support = 2.0 * wide;
    double low = centre - support + 0.5;
    double high = centre + support + 0.5;
    uint32_t first = low < 0.0 ? 0 : (uint32_t)low;
    uint32_t end = high > (double)n_from ? n_from : (uint32_t)high;
    ASSERT(first < end && end - first <= t->most);
    double sum = 0.0;
    for (uint32_t k = first; k < end; k++) {
        double w = cubic(((double)k - centre + 0.5) * (1.0 / wide));
        t->row[k - first] = w;
        sum += w;
    }
    t->first[i] = first;
    t->count[i] = end - first;
    for (uint32_t k = 0; k < end - first; k++) {
        double w = t->row[k];
        if (sum != 0.0) w /= sum;
        double scaled = w * (double)(1 << WEIGHT_BITS);
        t->weights[(size_t)i * t->most + k] = (int32_t)(w < 0.0 ? scaled - 0.5 : scaled + 0.5);
    }
}

static bool taps_init(const weft_allocator *a, taps *t, uint32_t n_from, uint32_t n_to)
{
    double scale = (double)n_from / (double)n_to;
    double wide = scale < 1.0 ? 1.0 : scale;
    *t = (taps){.n = n_to, .most = (uint32_t)ceil(2.0 * wide) * 2 + 1};
    t->first = mem_alloc(a, t->n * sizeof *t->first);
    t->count = mem_alloc(a, t->n * sizeof *t->count);
    t->weights = mem_alloc(a, (size_t)t->n * t->most * sizeof *t->weights);
    t->row = mem_alloc(a, t->most * sizeof *t->row);
    bool ok = t->first && t->count && t->weights && t->row;
    for (uint32_t i = 0; i < n_to && ok; i++) fill_output(t, i, n_from, scale, wide);
    return ok;
}

static uint8_t to_byte(int32_t sum)
{
    int32_t x = sum >> WEIGHT_BITS;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* One output of each colour; step: bytes from an input to the next. */
static void mix(const taps *t, uint32_t i, const uint8_t *from, size_t step, uint8_t *to)
{
    const int32_t *w = t->weights + (size_t)i * t->most;
    from += t->first[i] * step;
    for (uint32_t c = 0; c < VISION_COLOURS; c++) {
        int32_t sum = 1 << (WEIGHT_BITS - 1);
        for (uint32_t k = 0; k < t->count[i]; k++) sum += (int32_t)from[k * step + c] * w[k];
        to[c] = to_byte(sum);
    }
}

static void across(const taps *t, const uint8_t *from, uint32_t width, uint32_t height, uint8_t *to)
{
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row = from + vision_bytes(width, y);
        for (uint32_t x = 0; x < t->n; x++)
            mix(t, x, row, VISION_COLOURS, to + vision_bytes(t->n, y) + (size_t)x * VISION_COLOURS);
    }
}

static void down(const taps *t, const uint8_t *from, uint32_t width, uint8_t *to)
{
    size_t step = vision_bytes(width, 1);
    for (uint32_t y = 0; y < t->n; y++) {
        for (uint32_t x = 0; x < width; x++) {
            size_t at = (size_t)x * VISION_COLOURS;
            mix(t, y, from + at, step, to + vision_bytes(width, y) + at);
        }
    }
}

weft_status vision_resize(const weft_allocator *a, const vision_image *from, uint32_t to_width,
                          uint32_t to_height, uint8_t *to, weft_error *err)
{
    taps h = {0};
    taps v = {0};
    size_t n_middle = vision_bytes(to_width, from->height);
    uint8_t *middle = NULL;
    const uint8_t *pixels = from->pixels;
    bool ok = true;
    /* A direction that stays as it is has no pass, and costs no rounding. */
    if (to_width != from->width) {
        middle = mem_alloc(a, n_middle);
        ok = middle != NULL && taps_init(a, &h, from->width, to_width);
        if (ok) across(&h, pixels, from->width, from->height, middle);
        pixels = middle;
    }
    if (ok && to_height != from->height) {
        ok = taps_init(a, &v, from->height, to_height);
        if (ok) down(&v, pixels, to_width, to);
    } else if (ok) {
        for (size_t i = 0; i < n_middle; i++) to[i] = pixels[i];
    }
    taps_free(a, &h);
    taps_free(a, &v);
    mem_free(a, middle, n_middle);
    if (ok) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for an image of %u by %u pixels", to_width,
                   to_height);
}
