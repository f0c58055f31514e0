/* media.h - images in prompts: taken in at submit, encoded before the step that needs them, and
 * laid out beside a step's tokens. */
#ifndef ENGINE_MEDIA_H
#define ENGINE_MEDIA_H

#include "backend/backend.h"
#include "kv/config.h"
#include "models/tower.h"

/* Images of one request. */
enum { MEDIA_IMAGES = 256 };

/* An image of a request, at its final size, and where its tokens are in the prompt. */
typedef struct media_image {
    vision_image image;
    uint8_t *pixels; /* what image has */
    uint32_t first, n_tokens;
    uint32_t place;  /* of its first token, on all axes */
    int32_t shift;   /* of text behind it: its place less its position */
    float *features; /* [n_tokens, n_embd], once encoded; the stepping thread's */
    bool encoded;
    unsigned char digest[32]; /* of size and pixels */
} media_image;

typedef struct media {
    media_image *images; /* [n_images], in order */
    uint32_t n_images;
    uint32_t n_prompt; /* tokens of the prompt, those of images counted */
    bool sees_all;     /* tokens of an image see each other, and lie in one step */
    bool has_places;
} media;

/* What an engine needs to encode images, made when the first comes. */
typedef struct media_tower {
    backend_plan *plan;
    arena arena;
    kv_config config;
    unsigned char **pages; /* [n_pages], of one layer: the next begins when it has been read */
    uint32_t n_pages;
    kv_view *views; /* [layers] */
    int32_t *ids;   /* [n_patches], zeros */
    uint32_t *positions, *highest, *outputs;
    tower_input in;
    /* Of steps with images: [n_tokens of a step]. */
    float *features; /* [n_tokens, n_embd] */
    float *feeds[1];
    uint8_t *marks;
    uint32_t *places; /* [GRAPH_AXES, n_tokens] */
    uint32_t *seen;   /* what highest is then */
} media_tower;

#endif
