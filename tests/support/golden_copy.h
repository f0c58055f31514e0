/* golden_copy.h - checkpoints of tests/golden written anew, with something changed. */
#ifndef SUPPORT_GOLDEN_COPY_H
#define SUPPORT_GOLDEN_COPY_H

#include "formats/weights.h"
#include "support/files.h"
#include "support/runs.h"

/* An opened golden. */
typedef struct golden_copy {
    env env;
    char path[512];
    weights *w;
} golden_copy;

void golden_copy_open(golden_copy *s, const char *name);
void golden_copy_close(golden_copy *s);

const tensor *golden_tensor(const golden_copy *s, const char *name);

/* A tensor as it is stored, under any name. */
void golden_add(safetensors_builder *b, const char *name, const tensor *t);

/* The golden's config.json with the second text in the place of the first, which must be there;
 * change NULL: as it is. */
void golden_write_config(const golden_copy *s, test_folder *folder, const char *const change[2]);

typedef struct golden_change {
    const char *without; /* a tensor that is left out, or NULL */
    const char *more;    /* the name of one more, or NULL */
    const char *from;    /* the tensor it is a copy of */
    const char *config[2];
} golden_change;

/* Writes the golden with a change; the folder is the caller's to remove. */
void golden_write_changed(const golden_copy *s, const golden_change *change, test_folder *folder);

/* The same, opened and closed again. */
weft_status golden_open_changed(const golden_copy *s, const golden_change *change, weft_error *err);

enum { GOLDEN_PROMPT = 9 };

/* A short greedy answer with its logits; run_free is the caller's. A model with experts gives it
 * again with as little memory for them as can be: the same bits. */
run golden_answer(const char *path, weft_act act);

#endif
