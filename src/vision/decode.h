/* decode.h - image files as pixels: JPEG (libjpeg-turbo, accurate DCT) and PNG (libpng), where the
 * build has them. As Pillow reads them: turned upright by what EXIF says, three colours, no alpha,
 * no gamma. */
#ifndef VISION_DECODE_H
#define VISION_DECODE_H

#include "vision/image.h"

typedef struct vision_picture {
    uint8_t *pixels; /* [height, width, 3], vision_bytes of the allocator */
    uint32_t width, height;
} vision_picture;

/* FORMAT for damaged files, UNSUPPORTED for other formats and what the build cannot read, LIMIT
 * beyond VISION_PIXELS_MOST, before any pixel is allocated. */
weft_status vision_decode(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                          vision_picture *out, weft_error *err);
void vision_picture_free(const weft_allocator *a, vision_picture *picture);

/* ---- what the readers of formats share ---- */

/* Pixels for a size that a file states; LIMIT, NOMEM. */
weft_status vision_picture_init(const weft_allocator *a, uint32_t width, uint32_t height,
                                vision_picture *out, weft_error *err);

/* The orientation, 1 to 8, that a block of TIFF (EXIF without its mark) states; 1 when it does
 * not. */
uint32_t vision_orientation(const uint8_t *bytes, size_t n_bytes);

weft_status vision_decode_jpeg(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                               vision_picture *out, uint32_t *orientation, weft_error *err);
weft_status vision_decode_png(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                              vision_picture *out, uint32_t *orientation, weft_error *err);

#endif
