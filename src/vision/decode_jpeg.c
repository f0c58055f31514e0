/* decode_jpeg.c - JPEG, by libjpeg-turbo; its own memory comes from malloc and is gone when this
 * returns. */
#include "vision/decode.h"

#ifdef WEFT_JPEG

#include <string.h>
#include <turbojpeg.h>

/* Two bytes, largest first. */
static size_t number_at(const uint8_t *bytes)
{
    return (size_t)bytes[0] << 8 | bytes[1];
}

/* Of the first block of EXIF that stands before the picture. */
static uint32_t find_orientation(const uint8_t *bytes, size_t n_bytes)
{
    enum { APP1 = 0xe1, SCAN = 0xda, MARK = 6 };
    for (size_t at = 2; at < n_bytes && n_bytes - at >= 4 && bytes[at] == 0xff;) {
        size_t length = number_at(bytes + at + 2);
        if (bytes[at + 1] == SCAN || length < 2 || n_bytes - at - 2 < length) break;
        const uint8_t *data = bytes + at + 4;
        if (bytes[at + 1] == APP1 && length >= 2 + MARK && memcmp(data, "Exif\0\0", MARK) == 0)
            return vision_orientation(data + MARK, length - 2 - MARK);
        at += 2 + length;
    }
    return 1;
}

static weft_status decode(tjhandle handle, const weft_allocator *a, const uint8_t *bytes,
                          size_t n_bytes, vision_picture *out, weft_error *err)
{
    int width, height, sampling, space;
    if (tjDecompressHeader3(handle, bytes, n_bytes, &width, &height, &sampling, &space) != 0)
        return err_set(err, WEFT_FORMAT, "JPEG: %s", tjGetErrorStr2(handle));
    if (width < 0 || height < 0) return err_set(err, WEFT_FORMAT, "JPEG: a size below 0");
    if (space == TJCS_CMYK || space == TJCS_YCCK)
        return err_set(err, WEFT_UNSUPPORTED, "a JPEG of four colours");
    weft_status status = vision_picture_init(a, (uint32_t)width, (uint32_t)height, out, err);
    if (status != WEFT_OK) return status;
    int flags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
    /* A warning, as that of a file that is cut, is a failure. */
    if (tjDecompress2(handle, bytes, n_bytes, out->pixels, width, 0, height, TJPF_RGB, flags) != 0)
        return err_set(err, WEFT_FORMAT, "JPEG: %s", tjGetErrorStr2(handle));
    return WEFT_OK;
}

weft_status vision_decode_jpeg(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                               vision_picture *out, uint32_t *orientation, weft_error *err)
{
    tjhandle handle = tjInitDecompress();
    if (handle == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a JPEG");
    weft_status status = decode(handle, a, bytes, n_bytes, out, err);
    tjDestroy(handle);
    *orientation = find_orientation(bytes, n_bytes);
    return status;
}

#else

weft_status vision_decode_jpeg(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                               vision_picture *out, uint32_t *orientation, weft_error *err)
{
    (void)a, (void)bytes, (void)n_bytes, (void)out, (void)orientation;
    return err_set(err, WEFT_UNSUPPORTED, "this build reads no JPEG (libturbojpeg)");
}

#endif
