/* encoding.h - the table of weight encodings.
 *
 * To add one: write encodings/name.c with `const encoding ENCODING_NAME`, add ENCODING(name, NAME)
 * to encodings.def, and give its id a line in encoding_id. The conformance test walks the table: a
 * row comes with a plain decoder, and needs vectors in tests/tensor/. */
#ifndef TENSOR_ENCODING_H
#define TENSOR_ENCODING_H

#include "base/err.h"
#include "tensor/tensor.h"

/* Stable: ids reach caches on disk. */
typedef enum encoding_id {
    ENCODING_ID_NONE = 0,
    ENCODING_ID_F32 = 1,
    ENCODING_ID_F16 = 2,
    ENCODING_ID_BF16 = 3,
    ENCODING_ID_AFFINE = 4,
    ENCODING_ID_Q4_0 = 5,
    ENCODING_ID_Q4_1 = 6,
    ENCODING_ID_Q5_0 = 7,
    ENCODING_ID_Q8_0 = 8,
    ENCODING_ID_Q4_K = 9,
    ENCODING_ID_Q5_K = 10,
    ENCODING_ID_Q6_K = 11,
} encoding_id;

enum { GGUF_TYPE_NONE = -1 };

struct encoding {
    const char *name; /* as shown; affine is shown with its width and group: encoding_label */
    encoding_id id;
    int32_t gguf_type;       /* ggml_type, or GGUF_TYPE_NONE */
    const char *safetensors; /* dtype of its header, or NULL */
    uint16_t
        block_cols; /* columns a block spans: n_cols is a multiple; affine: 0, see tensor.group */
    uint16_t block_bytes; /* affine: 0 */
    /* Decodes one row to f32: dst [n_cols]. This defines the encoding; kernels are compared with
     * it. */
    void (*decode_row)(const tensor *t, uint64_t row, float *dst);
};

/* [*count] rows. */
const encoding *const *encoding_table(size_t *count);

/* NULL when there is none. */
const encoding *encoding_by_id(encoding_id id);
const encoding *encoding_by_gguf(uint32_t ggml_type);
const encoding *encoding_by_safetensors(const char *dtype);

/* The ggml name of a type with or without a row here ("iq2_xxs"); NULL when unknown altogether. */
const char *encoding_gguf_name(uint32_t ggml_type);

/* Its block: *cols columns in *bytes bytes; false when unknown altogether. */
bool encoding_gguf_block(uint32_t ggml_type, uint16_t *cols, uint16_t *bytes);

/* "bf16", "affine4g64", or the raw type in lower case where there is no encoding ("u32"); cut to
 * fit. */
void encoding_label(const tensor *t, char *label, size_t capacity);

/* Bytes of one row of n_cols columns in a block encoding; FORMAT when n_cols is not a multiple. */
weft_status encoding_row_bytes(const encoding *e, uint64_t n_cols, uint64_t *bytes,
                               weft_error *err);

/* Fills rows, columns and row_bytes[0] of a one-plane tensor from encoding (or, without one,
 * raw_cols and raw_bytes) and dims, and says how many bytes that is; FORMAT when the shape is
 * empty or overflows. */
weft_status tensor_measure(tensor *t, uint64_t *bytes, weft_error *err);

/* The same for a tensor with planes[0] and plane_bytes[0]; FORMAT also when it does not have
 * exactly those bytes. */
weft_status tensor_bind(tensor *t, weft_error *err);

/* Fills an affine tensor from three one-plane tensors as MLX stores them: codes U32 as raw words
 * [.., out, in * bits / 32], scales and biases [.., out, in / group] in f32, f16 or bf16. bits and
 * group are what the config says; disagreement with the shapes is FORMAT, naming both; a width or
 * group that MLX does not have is UNSUPPORTED. On failure t is as it was. (Each row is a
 * little-endian bit stream: element i in bits [i*bits, (i+1)*bits).) */
weft_status tensor_bind_affine(tensor *t, const tensor *scales, const tensor *biases, uint32_t bits,
                               uint32_t group, weft_error *err);

/* All of it as f32: dst [n_rows, n_cols]. */
void tensor_decode(const tensor *t, float *dst);

/* Rows first..first+n-1 of a matrix as a tensor of its own (fused checkpoints). */
tensor tensor_rows(const tensor *t, uint64_t first, uint64_t n_rows);

/* The rows, for who wants one by name: &ENCODING_BF16. */
#define ENCODING(name, NAME) extern const encoding ENCODING_##NAME;
#include "tensor/encodings.def"
#undef ENCODING

#endif
