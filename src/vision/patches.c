/* patches.c - an image as squares of numbers. */
#include "vision/image.h"

void vision_place(const vision_cut *cut, uint32_t width, uint32_t i, uint32_t *column,
                  uint32_t *row)
{
    uint32_t pool = cut->pool;
    uint32_t blocks = width / (cut->patch * pool);
    uint32_t block = i / (pool * pool);
    uint32_t within = i % (pool * pool);
    *column = block % blocks * pool + within % pool;
    *row = block / blocks * pool + within / pool;
}

/* What the 256 values of a colour come to. */
static void fill_table(const vision_cut *cut, float table[VISION_COLOURS][256])
{
    for (uint32_t c = 0; c < VISION_COLOURS; c++) {
        for (uint32_t x = 0; x < 256; x++) {
            double value = (double)x / 255.0;
            table[c][x] = (float)((value - (double)cut->mean[c]) / (double)cut->std[c]);
        }
    }
}

static void cut_square(const vision_cut *cut, const vision_image *image, const uint8_t *corner,
                       float table[VISION_COLOURS][256], float *to)
{
    size_t area = (size_t)cut->patch * cut->patch;
    for (uint32_t f = 0; f < cut->frames; f++) {
        for (size_t at = 0; at < area; at++) {
            size_t y = at / cut->patch;
            size_t x = at % cut->patch;
            const uint8_t *pixel = corner + (y * image->width + x) * VISION_COLOURS;
            for (size_t c = 0; c < VISION_COLOURS; c++) {
                size_t i = cut->channels_last ? (f * area + at) * VISION_COLOURS + c
                                              : (c * cut->frames + f) * area + at;
                to[i] = table[c][pixel[c]];
            }
        }
    }
}

void vision_patches(const vision_cut *cut, const vision_image *image, float *to)
{
    float table[VISION_COLOURS][256];
    uint32_t n = (image->width / cut->patch) * (image->height / cut->patch);
    fill_table(cut, table);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t column, row;
        vision_place(cut, image->width, i, &column, &row);
        size_t at = (size_t)row * cut->patch * image->width + (size_t)column * cut->patch;
        cut_square(cut, image, image->pixels + at * VISION_COLOURS, table,
                   to + (size_t)i * vision_patch_dim(cut));
    }
}
