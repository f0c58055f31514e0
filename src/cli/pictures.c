/* pictures.c - image files, decoded by the library. */
#include "cli/pictures.h"

#include "base/mem.h"
#include "cli/input.h"

static weft_status read_one(const session *s, const char *path, weft_image *image, weft_error *err)
{
    strbuf bytes;
    strbuf_init(&bytes, mem_system(), INPUT_LIMIT);
    weft_status status = input_read_file(path, &bytes, err);
    if (status == WEFT_OK) {
        weft_error why = {WEFT_OK, ""};
        status = weft_image_decode(s->model, strbuf_text(&bytes), bytes.len, image, &why);
        if (status != WEFT_OK) err_set(err, status, "cannot read '%s': %s", path, why.message);
    }
    strbuf_deinit(&bytes);
    return status;
}

weft_status pictures_read(const session *s, const option_texts *paths, picture_list *list,
                          weft_error *err)
{
    weft_status status = WEFT_OK;
    for (list->n = 0; list->n < paths->n && status == WEFT_OK; list->n++) {
        list->images[list->n] = (weft_image){.struct_size = sizeof(weft_image)};
        status = read_one(s, paths->values[list->n], &list->images[list->n], err);
    }
    return status;
}

void pictures_free(const session *s, picture_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) weft_image_free(s->model, &list->images[i]);
    list->n = 0;
}
