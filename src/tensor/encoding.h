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
    ENCODING_ID_Q5_1 = 12,
    ENCODING_ID_Q2_K = 13,
    ENCODING_ID_Q3_K = 14,
    ENCODING_ID_IQ4_NL = 15,
    ENCODING_ID_IQ4_XS = 16,
    ENCODING_ID_MXFP4 = 17,
    ENCODING_ID_NVFP4 = 18,
    ENCODING_ID_TQ1_0 = 19,
    ENCODING_ID_TQ2_0 = 20,
    ENCODING_ID_IQ2_XXS = 21,
    ENCODING_ID_IQ2_XS = 22,
    ENCODING_ID_IQ2_S = 23,
    ENCODING_ID_IQ3_XXS = 24,
    ENCODING_ID_IQ3_S = 25,
    ENCODING_ID_IQ1_S = 26,
    ENCODING_ID_IQ1_M = 27,
    ENCODING_ID_F8_E4M3 = 28,
    ENCODING_ID_MXFP4_PLANES = 29,
    ENCODING_ID_MXFP8_PLANES = 30,
    ENCODING_ID_NVFP4_PLANES = 31,
    ENCODING_ID_GPTQ = 32,
    ENCODING_ID_AWQ = 33,
} encoding_id;

enum { GGUF_TYPE_NONE = -1 };

struct encoding {
    const char *name; /* as shown; with width and group where those vary: encoding_label */
    encoding_id id;
    int32_t gguf_type;       /* ggml_type, or GGUF_TYPE_NONE */
    const char *safetensors; /* dtype of its header, or NULL */
    /* Columns a block spans, of which n_cols is a multiple, and its bytes; 0 where codes and scales
     * are planes of their own, see tensor.group. */
    uint16_t block_cols, block_bytes;
    /* Floating codes with a plane of one-byte scales: width of a code, columns that share a scale;
     * else 0. */
    uint16_t plane_bits, plane_group;
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

/* Fills a tensor of an encoding with plane_bits from codes (raw U8 or U32, [.., out, bytes or words
 * of a row]; one dimension more cuts a row into its groups) and scales (U8, F8_E4M3 or F8_E8M0,
 * [.., out, in / group]). factor multiplies all scales; 0: none. Wrong types are UNSUPPORTED,
 * shapes that do not agree FORMAT. On failure t is as it was. */
weft_status tensor_bind_planes(tensor *t, const tensor *scales, const encoding *e, float factor,
                               weft_error *err);

/* Gives f8_e4m3 numbers [out, in] their scales, in f32, f16 or bf16: one for all, [out] or [out, 1]
 * for each row, or one for each block of block_rows x block_cols (the last ones are smaller).
 * block_rows 0: there are no blocks. FORMAT when the scales have another shape. On failure t is as
 * it was. */
weft_status tensor_bind_scales(tensor *t, const tensor *scales, uint32_t block_rows,
                               uint32_t block_cols, weft_error *err);

/* Fills a gptq or awq tensor [out, in] from what those store transposed: codes and zeros as raw
 * I32, scales in f32, f16 or bf16 [groups, out]. gptq: codes [in * bits / 32, out], zeros [groups,
 * out * bits / 32], bits 2, 4 or 8; awq: codes [in, out / 8], zeros [groups, out / 8], bits 4.
 * Wrong types and widths are UNSUPPORTED, shapes that do not agree FORMAT. On failure t is as it
 * was. */
weft_status tensor_bind_transposed(tensor *t, const tensor *scales, const tensor *zeros,
                                   const encoding *e, uint32_t bits, weft_error *err);

/* All of it as f32: dst [n_rows, n_cols]. */
void tensor_decode(const tensor *t, float *dst);

/* Bytes from planes[i] on that reading its rows touches; 0 where there is no such plane. */
uint64_t tensor_plane_reach(const tensor *t, uint32_t i);

/* Rows first..first+n-1 of a matrix as a tensor of its own (fused checkpoints). */
tensor tensor_rows(const tensor *t, uint64_t first, uint64_t n_rows);

/* Whether it is numbers, f32, f16 or bf16, and nothing beside them. */
bool tensor_is_plain(const tensor *t);

/* Rows first, first + step, ... of a matrix; UNSUPPORTED where not all planes are by rows. */
weft_status tensor_every(const tensor *t, uint64_t first, uint64_t step, uint64_t n_rows,
                         tensor *out, weft_error *err);

/* Numbers of an array, by steps. */
typedef struct tensor_grid {
    uint64_t first;
    uint64_t n_rows, row_step;
    uint64_t n_cols, col_step;
} tensor_grid;

/* Of plain numbers that lie side by side: number first + r * row_step + c * col_step, counted from
 * the first of t, is that in row r and column c. */
tensor tensor_pick(const tensor *t, tensor_grid g);

/* The rows, for who wants one by name: &ENCODING_BF16. */
#define ENCODING(name, NAME) extern const encoding ENCODING_##NAME;
#include "tensor/encodings.def"
#undef ENCODING

#endif
