/* pictures.h - image files that go with a prompt. */
#ifndef CLI_PICTURES_H
#define CLI_PICTURES_H

#include "cli/session.h"

typedef struct picture_list {
    weft_image images[OPTION_TEXTS_MOST];
    uint32_t n;
} picture_list;

/* Reads the files; pictures_free gives back what there is, also after a failure. */
weft_status pictures_read(const session *s, const option_texts *paths, picture_list *list,
                          weft_error *err);
void pictures_free(const session *s, picture_list *list);

#endif
