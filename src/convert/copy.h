/* copy.h - the small files of a checkpoint that stay as they are: tokenizer, template,
 * generation. */
#ifndef CONVERT_COPY_H
#define CONVERT_COPY_H

#include "base/env.h"

/* Copies them from one folder to the other, where they are new, synced; *n_files: how many. */
weft_status copy_small_files(const env *world, const char *from, const char *to, uint32_t *n_files,
                             weft_error *err);

#endif
