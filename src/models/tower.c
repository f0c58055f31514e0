/* tower.c - what towers have in common. */
#include "models/tower.h"

#include <math.h>

#include "base/assert.h"

vision_cut tower_cut(const llm_tower *t)
{
    const model_image *i = &t->params.image;
    vision_cut cut = {
        .patch = i->patch, .pool = i->pool, .frames = i->frames, .channels_last = i->channels_last};
    for (uint32_t c = 0; c < VISION_COLOURS; c++) {
        cut.mean[c] = i->mean[c];
        cut.std[c] = i->std[c];
    }
    return cut;
}

uint32_t tower_patches(const llm_tower *t, const vision_image *image)
{
    uint32_t patch = t->params.image.patch;
    return image->width / patch * (image->height / patch);
}

uint32_t tower_tokens(const llm_tower *t, const vision_image *image)
{
    return tower_patches(t, image) / (t->params.image.pool * t->params.image.pool);
}

void tower_prepare_patches(const llm_tower *t, const vision_image *image, const tower_input *in)
{
    vision_cut cut = tower_cut(t);
    uint32_t n = tower_patches(t, image);
    ASSERT(vision_patch_dim(&cut) == t->params.image.patch_dim);
    vision_patches(&cut, image, in->feeds[TOWER_FEED_PATCHES]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t column, row;
        vision_place(&cut, image->width, i, &column, &row);
        in->places[(size_t)TOWER_AXIS_FRAME * n + i] = 0;
        in->places[(size_t)TOWER_AXIS_ROW * n + i] = row;
        in->places[(size_t)TOWER_AXIS_COLUMN * n + i] = column;
    }
}

weft_status tower_read_id(const model_source *source, const char *key, int32_t *id, weft_error *err)
{
    model_source top = *source;
    top.config = source->top;
    bool found;
    double number = -1.0;
    weft_status status = source_number(&top, key, NULL, &found, &number, err);
    *id = -1;
    if (status != WEFT_OK || !found) return status;
    if (!(number >= 0.0 && number < (double)MODEL_VOCAB && number == floor(number)))
        return err_set(err, WEFT_FORMAT, "config.json: %s is %g, which is no token id", key,
                       number);
    *id = (int32_t)number;
    return WEFT_OK;
}

weft_status tower_read_token(model_image *image, const model_source *source, weft_error *err)
{
    image->begin = image->end = image->pad = -1;
    for (size_t i = 0; i < COUNT_OF(image->placeholders); i++) image->placeholders[i] = -1;
    weft_status status = tower_read_id(source, "image_token_id", &image->token, err);
    if (status != WEFT_OK || image->token >= 0) return status;
    return err_set(err, WEFT_FORMAT, "config.json has no image_token_id");
}
