/* decode_png.c - PNG, by libpng with the caller's memory. */
#include "vision/decode.h"

#ifdef WEFT_PNG

#include <png.h>
#include <setjmp.h>
#include <string.h>

/* What one file is read with. libpng's failures come back by a jump, so whatever must be freed then
 * is here. */
typedef struct reader {
    const weft_allocator *a;
    const uint8_t *bytes;
    size_t n_bytes, at;
    png_structp png;
    png_infop info;
    png_bytep *rows; /* [n_rows] */
    size_t n_rows;
    vision_picture *out;
    bool refused; /* memory was, which libpng may take lightly */
    weft_status status;
    weft_error *err;
} reader;

/* libpng frees without sizes: they stand in front. */
typedef struct block {
    size_t n_bytes;
    size_t unused; /* keeps what follows aligned */
} block;

static png_voidp take(png_structp png, png_alloc_size_t n_bytes)
{
    reader *r = png_get_mem_ptr(png);
    block *b = n_bytes <= SIZE_MAX - sizeof *b ? mem_alloc(r->a, n_bytes + sizeof *b) : NULL;
    r->refused = r->refused || b == NULL;
    if (b == NULL) return NULL;
    b->n_bytes = n_bytes + sizeof *b;
    return b + 1;
}

static void give(png_structp png, png_voidp ptr)
{
    const reader *r = png_get_mem_ptr(png);
    block *b = ptr;
    if (b != NULL) mem_free(r->a, b - 1, b[-1].n_bytes);
}

static void read_bytes(png_structp png, png_bytep to, png_size_t n)
{
    reader *r = png_get_io_ptr(png);
    if (r->n_bytes - r->at < n) png_error(png, "the file ends early");
    memcpy(to, r->bytes + r->at, n);
    r->at += n;
}

/* An error of our own has said so before. */
static void fail(png_structp png, png_const_charp message)
{
    reader *r = png_get_error_ptr(png);
    if (r->status == WEFT_OK)
        r->status = err_set(r->err, r->refused ? WEFT_NOMEM : WEFT_FORMAT, "PNG: %s", message);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

/* Eight bits of three colours, whatever there is. */
static void set_transforms(png_structp png)
{
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
}

static void read_picture(reader *r, uint32_t *orientation)
{
    enum { CHUNK_MOST = 8 << 20 };
    png_set_user_limits(r->png, VISION_SIDE_MOST, VISION_SIDE_MOST);
    png_set_chunk_malloc_max(r->png, CHUNK_MOST);
    png_set_read_fn(r->png, r, read_bytes);
    png_read_info(r->png, r->info);
    uint32_t width = png_get_image_width(r->png, r->info);
    uint32_t height = png_get_image_height(r->png, r->info);
    r->status = vision_picture_init(r->a, width, height, r->out, r->err);
    if (r->status != WEFT_OK) png_error(r->png, "size");
    set_transforms(r->png);
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != vision_bytes(width, 1)) png_error(r->png, "row size");
    r->rows = mem_alloc(r->a, height * sizeof *r->rows);
    r->n_rows = r->rows == NULL ? 0 : height;
    r->refused = r->refused || r->rows == NULL;
    if (r->rows == NULL) png_error(r->png, "out of memory for rows");
    for (uint32_t y = 0; y < height; y++) r->rows[y] = r->out->pixels + vision_bytes(width, y);
    png_read_image(r->png, r->rows);
    png_read_end(r->png, r->info);
    png_bytep exif = NULL;
    png_uint_32 n_exif = 0;
    if (png_get_eXIf_1(r->png, r->info, &n_exif, &exif) != 0)
        *orientation = vision_orientation(exif, n_exif);
}

weft_status vision_decode_png(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                              vision_picture *out, uint32_t *orientation, weft_error *err)
{
    reader r = {.a = a, .bytes = bytes, .n_bytes = n_bytes, .out = out, .err = err};
    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, fail, ignore, &r, take, give);
    if (r.png == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a PNG");
    r.info = png_create_info_struct(r.png);
    if (r.info == NULL) {
        r.status = err_set(err, WEFT_NOMEM, "out of memory for a PNG");
        // NOLINTNEXTLINE(cert-err52-cpp): how libpng reports failures
    } else if (setjmp(png_jmpbuf(r.png)) == 0) {
        read_picture(&r, orientation);
    }
    if (r.status == WEFT_OK && r.refused)
        r.status = err_set(err, WEFT_NOMEM, "out of memory for a PNG");
    mem_free(a, r.rows, r.n_rows * sizeof *r.rows);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.status;
}

#else

weft_status vision_decode_png(const weft_allocator *a, const uint8_t *bytes, size_t n_bytes,
                              vision_picture *out, uint32_t *orientation, weft_error *err)
{
    (void)a, (void)bytes, (void)n_bytes, (void)out, (void)orientation;
    return err_set(err, WEFT_UNSUPPORTED, "this build reads no PNG (libpng)");
}

#endif
