/* decode.c - which format a file has, and which way up the picture is. */
#include "vision/decode.h"

#include <string.h>

#include "base/assert.h"

weft_status vision_picture_init(const weft_allocator *a, uint32_t width, uint32_t height,
                                vision_picture *out, weft_error *err)
{
    if (width == 0 || height == 0)
        return err_set(err, WEFT_FORMAT, "an image of %u by %u pixels", width, height);
    if (width > VISION_SIDE_MOST || height > VISION_SIDE_MOST ||
        (uint64_t)width * height > VISION_PIXELS_MOST) {
        return err_set(err, WEFT_LIMIT,
                       "an image of %u by %u pixels, at most %d on a side and %d in all", width,
                       height, VISION_SIDE_MOST, VISION_PIXELS_MOST);
    }
    uint8_t *pixels = mem_alloc(a, vision_bytes(width, height));
    if (pixels == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %u by %u pixels", width, height);
    *out = (vision_picture){pixels, width, height};
    return WEFT_OK;
}

void vision_picture_free(const weft_allocator *a, vision_picture *picture)
{
    mem_free(a, picture->pixels, vision_bytes(picture->width, picture->height));
    *picture = (vision_picture){0};
}

/* ---- orientation ----------------------------------------------------------------------------- */

typedef struct tiff {
    const uint8_t *bytes;
    size_t n_bytes;
    bool big; /* bytes come largest first */
} tiff;

/* A number of so many bytes; 0 beyond the end. */
static uint32_t number_at(const tiff *t, size_t at, uint32_t n_bytes)
{
    uint32_t x = 0;
    if (at > t->n_bytes || t->n_bytes - at < n_bytes) return 0;
    for (uint32_t i = 0; i < n_bytes; i++)
        x |= (uint32_t)t->bytes[at + i] << 8 * (t->big ? n_bytes - 1 - i : i);
    return x;
}

uint32_t vision_orientation(const uint8_t *bytes, size_t n_bytes)
{
    enum { HEAD = 8, ENTRY = 12, ORIENTATION = 0x0112, SHORT = 3 };
    if (n_bytes < HEAD) return 1;
    tiff t = {bytes, n_bytes, bytes[0] == 'M'};
    bool known = (bytes[0] == 'M' && bytes[1] == 'M') || (bytes[0] == 'I' && bytes[1] == 'I');
    if (!known || number_at(&t, 2, 2) != 42) return 1;
    size_t directory = number_at(&t, 4, 4);
    uint32_t n = number_at(&t, directory, 2);
    for (uint32_t i = 0; i < n; i++) {
        size_t entry = directory + 2 + (size_t)i * ENTRY;
        if (entry > n_bytes || n_bytes - entry < ENTRY) break;
        if (number_at(&t, entry, 2) != ORIENTATION || number_at(&t, entry + 2, 2) != SHORT)
            continue;
        uint32_t orientation = number_at(&t, entry + HEAD, 2);
        return orientation >= 1 && orientation <= 8 ? orientation : 1;
    }
    return 1;
}

/* Where the pixel that belongs at x, y upright lies. Of 5 to 8 rows and columns are exchanged. */
static size_t source_of(const vision_picture *p, uint32_t orientation, size_t x, size_t y)
{
    size_t right = p->width - 1;
    size_t last = p->height - 1;
    size_t column = orientation <= 4 ? x : y;
    size_t row = orientation <= 4 ? y : x;
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        column = right - column;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        row = last - row;
    return row * p->width + column;
}

static weft_status turn_upright(const weft_allocator *a, vision_picture *p, uint32_t orientation,
                                weft_error *err)
{
    if (orientation == 1) return WEFT_OK;
    bool turned = orientation > 4;
    vision_picture to;
    weft_status status = vision_picture_init(a, turned ? p->height : p->width,
                                             turned ? p->width : p->height, &to, err);
    if (status != WEFT_OK) return status;
    for (size_t y = 0; y < to.height; y++) {
        for (size_t x = 0; x < to.width; x++) {
            memcpy(to.pixels + (y * to.width + x) * VISION_COLOURS,
                   p->pixels + source_of(p, orientation, x, y) * VISION_COLOURS, VISION_COLOURS);
        }
    }
    vision_picture_free(a, p);
    *p = to;
    return WEFT_OK;
}

/* ---- formats --------------------------------------------------------------------------------- */

typedef struct format {
    const char *magic;
    size_t n_magic;
    weft_status (*decode)(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                          vision_picture *out, uint32_t *orientation, weft_error *err);
} format;

static const format FORMATS[] = {{"\xff\xd8\xff", 3, vision_decode_jpeg},
                                 {"\x89PNG\r\n\x1a\n", 8, vision_decode_png}};

weft_status vision_decode(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                          vision_picture *out, weft_error *err)
{
    *out = (vision_picture){0};
    for (size_t i = 0; i < COUNT_OF(FORMATS); i++) {
        const format *f = &FORMATS[i];
        if (n_bytes < f->n_magic || memcmp(bytes, f->magic, f->n_magic) != 0) continue;
        uint32_t orientation = 1;
        weft_status status = f->decode(a, bytes, n_bytes, out, &orientation, err);
        if (status == WEFT_OK) status = turn_upright(a, out, orientation, err);
        if (status != WEFT_OK) vision_picture_free(a, out);
        return status;
    }
    return err_set(err, WEFT_UNSUPPORTED, "an image that is neither JPEG nor PNG");
}
