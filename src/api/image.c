/* image.c - files as images. */
#include "api/api.h"
#include "vision/decode.h"

weft_status weft_image_decode(const weft_model *model, const void *bytes, size_t n_bytes,
                              weft_image *image, weft_error *err)
{
    err_clear(err);
    weft_image ours = {.struct_size = sizeof ours};
    weft_status status = API_GIVE(ours, image, height, "weft_image", err);
    if (status != WEFT_OK) return status;
    if (model == NULL || bytes == NULL)
        return err_set(err, WEFT_ARGUMENT, "%s is NULL", model == NULL ? "model" : "bytes");
    vision_picture picture;
    status = vision_decode(&model->allocator, bytes, n_bytes, &picture, err);
    if (status != WEFT_OK) return status;
    ours.pixels = picture.pixels;
    ours.width = picture.width;
    ours.height = picture.height;
    return API_GIVE(ours, image, height, "weft_image", err);
}

void weft_image_free(const weft_model *model, weft_image *image)
{
    if (image == NULL || image->pixels == NULL) return;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): they were made here
    vision_picture picture = {(uint8_t *)(uintptr_t)image->pixels, image->width, image->height};
    vision_picture_free(&model->allocator, &picture);
    image->pixels = NULL;
}
