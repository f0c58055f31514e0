/* fuzz_image.c - any bytes as an image file, which is then brought to the sizes of either rule. */
#include <stdlib.h>

#include "vision/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Its first and last pixel, and what it comes to where that is small. */
static void use(const vision_picture *p)
{
    static uint8_t to[256 * 256 * VISION_COLOURS];
    const vision_size sizes[] = {
        {.rule = VISION_BY_PIXELS, .unit = 16, .min_pixels = 256, .max_pixels = 65536},
        {.rule = VISION_BY_TOKENS, .unit = 16, .max_tokens = 256}};
    vision_image image = {p->pixels, p->width, p->height};
    for (int i = 0; i < 2; i++) {
        uint32_t width, height;
        if (vision_fit(&sizes[i], p->width, p->height, &width, &height, NULL) != WEFT_OK) continue;
        if (width % 16 != 0 || height % 16 != 0) abort();
        if (vision_bytes(width, height) > sizeof to || p->height > 4096) continue;
        if (vision_resize(mem_system(), &image, width, height, to, NULL) != WEFT_OK) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vision_picture p;
    weft_error err = {WEFT_OK, ""};
    weft_status status = vision_decode(mem_system(), data, size, &p, &err);
    if (status != err.status || (status != WEFT_OK && p.pixels != NULL)) abort();
    if (status == WEFT_OK) use(&p);
    vision_picture_free(mem_system(), &p);
    return 0;
}
