/* convert.h - a checkpoint of any form written anew in MLX's, quantized. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "base/env.h"
#include "tensor/encoding.h"

/* How far it is; after every few MiB, from the calling thread. */
typedef struct convert_progress {
    uint64_t n_bytes, all_bytes; /* of weights written, to write */
    uint32_t n_tensors, all_tensors;
    const char *name; /* of the tensor being written */
} convert_progress;

typedef struct convert_options {
    const char *mode;     /* NULL: affine */
    uint32_t bits, group; /* 0: the mode's */
    const char *recipe;   /* rules as JSON [recipe_bytes], or NULL */
    size_t recipe_bytes;
    encoding_id type;     /* of numbers; NONE: as they are stored */
    const char *files;    /* a folder that small files are copied from; NULL: the source, if it is
                              one */
    uint64_t shard_bytes; /* most in a file of weights */
    uint32_t n_threads;
    void *user;
    bool (*progress)(void *user, const convert_progress *p); /* false: CANCELLED; or NULL */
} convert_options;

typedef struct convert_result {
    uint32_t n_tensors; /* as a model has them: codes with their scales are one */
    uint32_t n_quantized;
    uint32_t n_whole;  /* that are not because groups do not divide their columns */
    uint32_t n_files;  /* of weights */
    uint32_t n_copied; /* small ones */
    uint64_t n_params, n_bytes;
} convert_result;

/* Writes a folder beside target, syncs it and gives it target's name when it is complete; there
 * must be nothing of that name. A failure leaves nothing behind. IO, FORMAT, UNSUPPORTED, ARGUMENT,
 * LIMIT, NOMEM, DEVICE (threads), CANCELLED. */
weft_status convert_checkpoint(const env *world, const char *source, const char *target,
                               const convert_options *options, convert_result *result,
                               weft_error *err);

#endif
