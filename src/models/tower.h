/* tower.h - what turns images into rows that stand in a prompt: families of their own, which text
 * families point to. A tower's graph is fed patches (feed 0) and what positions add to them (feed
 * 1); it ends in one row a token. */
#ifndef MODELS_TOWER_H
#define MODELS_TOWER_H

#include "models/model.h"

enum { TOWER_FEED_PATCHES = 0, TOWER_FEED_POSITIONS = 1 };

/* Axes of a place: for text all three are its position. */
enum { TOWER_AXIS_FRAME = 0, TOWER_AXIS_ROW = 1, TOWER_AXIS_COLUMN = 2 };

extern const model_family TOWER_QWEN, TOWER_GEMMA, TOWER_GEMMA_UNIFIED;

/* Squares of an image at its final size, and the tokens they come to. */
uint32_t tower_patches(const llm_tower *t, const vision_image *image);
uint32_t tower_tokens(const llm_tower *t, const vision_image *image);

/* How a tower's images are cut. */
vision_cut tower_cut(const llm_tower *t);

/* Feed 0 and places: the column and row of each patch. */
void tower_prepare_patches(const llm_tower *t, const vision_image *image, const tower_input *in);

/* A token id under a key of config.json, -1 when it is not there. */
weft_status tower_read_id(const model_source *source, const char *key, int32_t *id,
                          weft_error *err);

/* What the checkpoint's image processor says of sizes and colours; source has vision_config. */
weft_status tower_read_settings(model_image *image, const model_source *source, weft_error *err);

/* That of an image's tokens, and none else. FORMAT when it is missing. */
weft_status tower_read_token(model_image *image, const model_source *source, weft_error *err);

#endif
