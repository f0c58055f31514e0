/* image.h - pictures in memory: the size a model wants them at, and the squares it cuts them into.
 *
 * How an image is resized is Pillow's bicubic (Image.resize with BICUBIC), number for number: a
 * kernel of Keys with a = -0.5 that widens when an image is made smaller, across first, then down,
 * each rounded to 8 bits. */
#ifndef VISION_IMAGE_H
#define VISION_IMAGE_H

#include "base/err.h"
#include "base/mem.h"

enum { VISION_COLOURS = 3 };

/* Pixels on a side of an image, and in all, that anything here takes: 64 megapixels. */
enum { VISION_SIDE_MOST = 1 << 16, VISION_PIXELS_MOST = 1 << 26 };

typedef struct vision_image {
    const uint8_t *pixels; /* [height, width, 3], borrowed */
    uint32_t width, height;
} vision_image;

static inline size_t vision_bytes(uint32_t width, uint32_t height)
{
    return (size_t)width * height * VISION_COLOURS;
}

/* PIXELS: each side to the nearest multiple of the unit, and then as much smaller or larger as the
 * bounds of pixels want. TOKENS: as large as the most tokens allow, sides rounded down to the
 * unit. */
typedef enum vision_rule { VISION_BY_PIXELS, VISION_BY_TOKENS } vision_rule;

typedef struct vision_size {
    vision_rule rule;
    uint32_t unit;                   /* a side of the square that one token stands for, in pixels */
    uint64_t min_pixels, max_pixels; /* of BY_PIXELS */
    uint32_t max_tokens;             /* either: no image comes to more; 0: no bound of its own */
} vision_size;

/* The size that an image of width and height is brought to. LIMIT for sizes beyond what is taken,
 * ARGUMENT where an image is too long for its width. */
weft_status vision_fit(const vision_size *size, uint32_t width, uint32_t height, uint32_t *to_width,
                       uint32_t *to_height, weft_error *err);

/* OK when an image may stay as it is: sides are multiples of the unit, and no bound is exceeded. */
weft_status vision_check(const vision_size *size, uint32_t width, uint32_t height, weft_error *err);

/* to: [to_height, to_width, 3]. NOMEM, with nothing to be used in to. */
weft_status vision_resize(const weft_allocator *a, const vision_image *from, uint32_t to_width,
                          uint32_t to_height, uint8_t *to, weft_error *err);

/* How an image is cut: squares of patch pixels, those of a block of pool * pool behind one another,
 * row by row, and blocks row by row. A square's numbers are [colours][frames][patch][patch], each
 * frame the same, or with the colours of a pixel together, [frames][patch][patch][colours]; each
 * (x / 255 - mean) / std. */
typedef struct vision_cut {
    uint32_t patch, pool, frames;
    bool channels_last;
    float mean[VISION_COLOURS], std[VISION_COLOURS];
} vision_cut;

/* Numbers of a square. */
static inline uint32_t vision_patch_dim(const vision_cut *cut)
{
    return VISION_COLOURS * cut->frames * cut->patch * cut->patch;
}

/* Column and row of square i, counted in squares, of an image that is so wide. */
void vision_place(const vision_cut *cut, uint32_t width, uint32_t i, uint32_t *column,
                  uint32_t *row);

/* to: [squares, vision_patch_dim]. The image's sides are multiples of a block's. */
void vision_patches(const vision_cut *cut, const vision_image *image, float *to);

#endif
