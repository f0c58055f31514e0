/* tensors_file.h - writing arrays as a .safetensors file. */
#ifndef CLI_TENSORS_FILE_H
#define CLI_TENSORS_FILE_H

#include "base/err.h"

typedef struct tensors_file_row {
    const char *name;  /* plain ASCII */
    const char *dtype; /* "F32", "I32": four bytes an element */
    uint32_t n_dims;
    uint64_t dims[2];
    const void *data; /* borrowed */
} tensors_file_row;

/* ARGUMENT when writing to path would change the model at model_path: when it is that file, or lies
 * in that folder. */
weft_status tensors_file_check(const char *path, const char *model_path, weft_error *err);

/* Rows in the order of the file. A failure leaves what could be written. */
weft_status tensors_file_write(const char *path, const tensors_file_row *rows, uint32_t n_rows,
                               weft_error *err);

#endif
