/* size.c - the size a model wants an image at. Sources: Transformers' smart_resize of Qwen2-VL, and
 * get_aspect_ratio_preserving_size of Gemma 4. */
#include <math.h>

#include "vision/image.h"

/* Longer images than this for their width are refused, as the source does. */
enum { ASPECT_MOST = 200 };

static weft_status check_bounds(uint32_t width, uint32_t height, weft_error *err)
{
    if (width == 0 || height == 0)
        return err_set(err, WEFT_ARGUMENT, "an image of %u by %u pixels", width, height);
    if (width <= VISION_SIDE_MOST && height <= VISION_SIDE_MOST &&
        (uint64_t)width * height <= VISION_PIXELS_MOST)
        return WEFT_OK;
    return err_set(err, WEFT_LIMIT,
                   "an image of %u by %u pixels, at most %d on a side and %d in all", width, height,
                   VISION_SIDE_MOST, VISION_PIXELS_MOST);
}

/* To even where it lies between. */
static double nearest(double x)
{
    double down = floor(x);
    double rest = x - down;
    bool up = rest > 0.5 || (rest == 0.5 && fmod(down, 2.0) != 0.0);
    return up ? down + 1.0 : down;
}

static double at_least(double x, double least)
{
    return x < least ? least : x;
}

/* Pixels that most tokens leave of a bound. */
static double most_pixels(const vision_size *s)
{
    double unit = (double)s->unit;
    double of_tokens = (double)s->max_tokens * unit * unit;
    double bound = (double)s->max_pixels;
    return s->max_tokens != 0 && of_tokens < bound ? of_tokens : bound;
}

static weft_status by_pixels(const vision_size *s, double w, double h, double to[2],
                             weft_error *err)
{
    double unit = (double)s->unit;
    double most = most_pixels(s);
    double least = (double)s->min_pixels;
    if (w > h * ASPECT_MOST || h > w * ASPECT_MOST) {
        return err_set(err, WEFT_ARGUMENT,
                       "an image of %.0f by %.0f pixels: one side is more than %d times the other",
                       w, h, ASPECT_MOST);
    }
    to[0] = nearest(w / unit) * unit;
    to[1] = nearest(h / unit) * unit;
    if (to[0] * to[1] > most) {
        double shrink = sqrt(w * h / most);
        to[0] = at_least(floor(w / shrink / unit) * unit, unit);
        to[1] = at_least(floor(h / shrink / unit) * unit, unit);
    } else if (to[0] * to[1] < least) {
        double grow = sqrt(least / (w * h));
        to[0] = ceil(w * grow / unit) * unit;
        to[1] = ceil(h * grow / unit) * unit;
    }
    return WEFT_OK;
}

static weft_status by_tokens(const vision_size *s, double w, double h, double to[2],
                             weft_error *err)
{
    double unit = (double)s->unit;
    double tokens = (double)s->max_tokens;
    double factor = sqrt(tokens * unit * unit / (w * h));
    to[0] = floor(factor * w / unit) * unit;
    to[1] = floor(factor * h / unit) * unit;
    for (int i = 0; i < 2; i++) {
        if (to[i] != 0.0) continue;
        /* A line of squares, as many as its length has of its width. */
        double ratio = floor(i == 0 ? h / w : w / h);
        to[i] = unit;
        to[1 - i] = (ratio < tokens ? ratio : tokens) * unit;
    }
    if (to[0] * to[1] <= tokens * unit * unit && to[0] >= unit && to[1] >= unit) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT,
                   "an image of %.0f by %.0f pixels cannot be brought to %.0f tokens", w, h,
                   tokens);
}

weft_status vision_fit(const vision_size *size, uint32_t width, uint32_t height, uint32_t *to_width,
                       uint32_t *to_height, weft_error *err)
{
    double to[2] = {0.0, 0.0};
    weft_status status = check_bounds(width, height, err);
    if (status != WEFT_OK) return status;
    status = size->rule == VISION_BY_PIXELS
                 ? by_pixels(size, (double)width, (double)height, to, err)
                 : by_tokens(size, (double)width, (double)height, to, err);
    if (status != WEFT_OK) return status;
    *to_width = (uint32_t)to[0];
    *to_height = (uint32_t)to[1];
    return vision_check(size, *to_width, *to_height, err);
}

weft_status vision_check(const vision_size *size, uint32_t width, uint32_t height, weft_error *err)
{
    weft_status status = check_bounds(width, height, err);
    if (status != WEFT_OK) return status;
    if (width % size->unit != 0 || height % size->unit != 0) {
        return err_set(err, WEFT_ARGUMENT, "an image of %u by %u pixels, expected multiples of %u",
                       width, height, size->unit);
    }
    uint64_t tokens = (uint64_t)(width / size->unit) * (height / size->unit);
    if (size->max_tokens == 0 || tokens <= size->max_tokens) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "an image of %llu tokens, at most %u",
                   (unsigned long long)tokens, size->max_tokens);
}
