/* encoding.c - the table of encodings, and tensors bound to the bytes of a file. */
#include "tensor/encoding.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static const encoding *const TABLE[] = {
#define ENCODING(name, NAME) &ENCODING_##NAME,
#include "tensor/encodings.def"
#undef ENCODING
};

/* Every type that ggml has given a number and not withdrawn, as its gguf Python package lists
 * them: a file may hold types that have no row here, and its sizes are still checked. */
typedef struct ggml_block {
    uint8_t type;
    const char *name;
    uint16_t cols, bytes;
} ggml_block;

// clang-format off
static const ggml_block GGML_TYPES[] = {
    { 0, "f32",       1,   4}, { 1, "f16",       1,   2}, { 2, "q4_0",     32,  18},
    { 3, "q4_1",     32,  20}, { 6, "q5_0",     32,  22}, { 7, "q5_1",     32,  24},
    { 8, "q8_0",     32,  34}, { 9, "q8_1",     32,  40}, {10, "q2_k",    256,  84},
    {11, "q3_k",    256, 110}, {12, "q4_k",    256, 144}, {13, "q5_k",    256, 176},
    {14, "q6_k",    256, 210}, {15, "q8_k",    256, 292}, {16, "iq2_xxs", 256,  66},
    {17, "iq2_xs",  256,  74}, {18, "iq3_xxs", 256,  98}, {19, "iq1_s",   256,  50},
    {20, "iq4_nl",   32,  18}, {21, "iq3_s",   256, 110}, {22, "iq2_s",   256,  82},
    {23, "iq4_xs",  256, 136}, {24, "i8",        1,   1}, {25, "i16",       1,   2},
    {26, "i32",       1,   4}, {27, "i64",       1,   8}, {28, "f64",       1,   8},
    {29, "iq1_m",   256,  56}, {30, "bf16",      1,   2}, {34, "tq1_0",   256,  54},
    {35, "tq2_0",   256,  66}, {39, "mxfp4",    32,  17}, {40, "nvfp4",    64,  36},
    {41, "q1_0",    128,  18},
};
// clang-format on

const encoding *const *encoding_table(size_t *count)
{
    *count = COUNT_OF(TABLE);
    return TABLE;
}

const encoding *encoding_by_id(encoding_id id)
{
    for (size_t i = 0; i < COUNT_OF(TABLE); i++) {
        if (TABLE[i]->id == id) return TABLE[i];
    }
    return NULL;
}

const encoding *encoding_by_gguf(uint32_t ggml_type)
{
    for (size_t i = 0; i < COUNT_OF(TABLE); i++) {
        int32_t type = TABLE[i]->gguf_type;
        if (type != GGUF_TYPE_NONE && (uint32_t)type == ggml_type) return TABLE[i];
    }
    return NULL;
}

const encoding *encoding_by_safetensors(const char *dtype)
{
    for (size_t i = 0; i < COUNT_OF(TABLE); i++) {
        if (TABLE[i]->safetensors != NULL && strcmp(TABLE[i]->safetensors, dtype) == 0)
            return TABLE[i];
    }
    return NULL;
}

static const ggml_block *find_ggml_type(uint32_t type)
{
    for (size_t i = 0; i < COUNT_OF(GGML_TYPES); i++) {
        if (GGML_TYPES[i].type == type) return &GGML_TYPES[i];
    }
    return NULL;
}

const char *encoding_gguf_name(uint32_t ggml_type)
{
    const ggml_block *known = find_ggml_type(ggml_type);
    return known == NULL ? NULL : known->name;
}

bool encoding_gguf_block(uint32_t ggml_type, uint16_t *cols, uint16_t *bytes)
{
    const ggml_block *known = find_ggml_type(ggml_type);
    *cols = known == NULL ? 0 : known->cols;
    *bytes = known == NULL ? 0 : known->bytes;
    return known != NULL;
}

void encoding_label(const tensor *t, char *label, size_t capacity)
{
    if (capacity == 0) return;
    bool varies = t->encoding == &ENCODING_AFFINE || t->encoding == &ENCODING_GPTQ ||
                  t->encoding == &ENCODING_AWQ;
    if (varies) {
        snprintf(label, capacity, "%s%ug%u", t->encoding->name, (unsigned)t->bits,
                 (unsigned)t->group);
        return;
    }
    const char *name = t->encoding != NULL ? t->encoding->name : t->raw_type;
    size_t n = 0;
    for (; name != NULL && name[n] != '\0' && n + 1 < capacity; n++) {
        char c = name[n];
        label[n] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    label[n] = '\0';
}

static weft_status block_row_bytes(uint16_t block_cols, uint16_t block_bytes, const char *name,
                                   uint64_t n_cols, uint64_t *bytes, weft_error *err)
{
    ASSERT(block_cols != 0 && block_bytes != 0);
    *bytes = 0;
    if (n_cols % block_cols != 0) {
        return err_set(err, WEFT_FORMAT, "rows of %llu columns are not whole blocks of %u of %s",
                       (unsigned long long)n_cols, (unsigned)block_cols, name);
    }
    if (__builtin_mul_overflow(n_cols / block_cols, (uint64_t)block_bytes, bytes)) {
        *bytes = 0;
        return err_set(err, WEFT_FORMAT, "rows of %llu columns are too large",
                       (unsigned long long)n_cols);
    }
    return WEFT_OK;
}

weft_status encoding_row_bytes(const encoding *e, uint64_t n_cols, uint64_t *bytes, weft_error *err)
{
    return block_row_bytes(e->block_cols, e->block_bytes, e->name, n_cols, bytes, err);
}

weft_status tensor_measure(tensor *t, uint64_t *bytes, weft_error *err)
{
    ASSERT(t->n_dims >= 1 && t->n_dims <= TENSOR_DIMS);
    *bytes = 0;
    uint64_t n_rows = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] == 0)
            return err_set(err, WEFT_FORMAT, "dimension %u of %u is 0", i, t->n_dims);
        if (i + 1 < t->n_dims && __builtin_mul_overflow(n_rows, t->dims[i], &n_rows))
            return err_set(err, WEFT_FORMAT, "its dimensions overflow");
    }
    for (uint32_t i = t->n_dims; i < TENSOR_DIMS; i++) t->dims[i] = 1;
    uint64_t n_cols = t->dims[t->n_dims - 1];
    bool known = t->encoding != NULL;
    uint64_t row_bytes;
    weft_status status =
        block_row_bytes(known ? t->encoding->block_cols : t->raw_cols,
                        known ? t->encoding->block_bytes : t->raw_bytes,
                        known ? t->encoding->name : t->raw_type, n_cols, &row_bytes, err);
    if (status != WEFT_OK) return status;
    /* Decoded, a number takes four bytes: that has to be countable too. */
    uint64_t decoded;
    if (__builtin_mul_overflow(n_rows, row_bytes, bytes) ||
        __builtin_mul_overflow(n_rows, n_cols, &decoded) || decoded > SIZE_MAX / 8) {
        *bytes = 0;
        return err_set(err, WEFT_FORMAT, "its dimensions overflow");
    }
    t->n_rows = n_rows;
    t->n_cols = n_cols;
    t->row_bytes[0] = row_bytes;
    return WEFT_OK;
}

weft_status tensor_bind(tensor *t, weft_error *err)
{
    uint64_t bytes;
    weft_status status = tensor_measure(t, &bytes, err);
    if (status != WEFT_OK) return status;
    if (bytes != t->plane_bytes[0]) {
        return err_set(err, WEFT_FORMAT, "it has %llu bytes, its shape and type need %llu",
                       (unsigned long long)t->plane_bytes[0], (unsigned long long)bytes);
    }
    return WEFT_OK;
}

static bool is_raw(const tensor *t, const char *type)
{
    return t->raw_type != NULL && strcmp(t->raw_type, type) == 0;
}

/* A type that decoders read scales and biases in. */
static weft_status check_param_type(const tensor *param, weft_error *err)
{
    if (tensor_is_plain(param)) return WEFT_OK;
    char label[32];
    encoding_label(param, label, sizeof label);
    return err_set(err, WEFT_UNSUPPORTED, "'%s' is %s, expected f32, f16 or bf16", param->name,
                   label);
}

/* Scales and biases alike: their type, and the leading dimensions of the codes. */
static weft_status check_param(const tensor *t, const tensor *param, weft_error *err)
{
    weft_status status = check_param_type(param, err);
    if (status != WEFT_OK) return status;
    bool equal = param->n_dims == t->n_dims;
    for (uint32_t i = 0; equal && i + 1 < t->n_dims; i++) equal = param->dims[i] == t->dims[i];
    if (!equal) {
        return err_set(err, WEFT_FORMAT,
                       "'%s' has %llu rows in %u dimensions, the codes '%s' %llu in %u",
                       param->name, (unsigned long long)param->n_rows, param->n_dims, t->name,
                       (unsigned long long)t->n_rows, t->n_dims);
    }
    return WEFT_OK;
}

static weft_status check_affine(const tensor *t, const tensor *scales, const tensor *biases,
                                uint32_t bits, uint32_t group, weft_error *err)
{
    bool known_bits = (bits >= 2 && bits <= 6) || bits == 8;
    if (!known_bits || (group != 32 && group != 64 && group != 128)) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "'%s' has %u bits in groups of %u; known are 2 3 4 5 6 8 bits in groups of"
                       " 32 64 128",
                       t->name, bits, group);
    }
    if (t->encoding != NULL || t->raw_type == NULL || strcmp(t->raw_type, "U32") != 0) {
        char label[32];
        encoding_label(t, label, sizeof label);
        return err_set(err, WEFT_FORMAT, "'%s' is %s, quantized codes are U32", t->name, label);
    }
    weft_status status = check_param(t, scales, err);
    if (status == WEFT_OK) status = check_param(t, biases, err);
    if (status != WEFT_OK) return status;
    if (scales->encoding != biases->encoding || scales->n_cols != biases->n_cols) {
        return err_set(err, WEFT_FORMAT, "'%s' has %llu columns of %s, '%s' %llu of %s",
                       scales->name, (unsigned long long)scales->n_cols, scales->encoding->name,
                       biases->name, (unsigned long long)biases->n_cols, biases->encoding->name);
    }
    /* Both products stay below 2^62 * 128: the words and parameters lie in a file. */
    if (t->n_cols > UINT64_MAX / 32 || scales->n_cols > UINT64_MAX / 1024 ||
        t->n_cols * 32 != scales->n_cols * group * bits) {
        return err_set(err, WEFT_FORMAT,
                       "'%s' has %llu words a row and %llu scales: that is not %u bits in groups of"
                       " %u, as the config says",
                       t->name, (unsigned long long)t->n_cols, (unsigned long long)scales->n_cols,
                       bits, group);
    }
    return WEFT_OK;
}

weft_status tensor_bind_affine(tensor *t, const tensor *scales, const tensor *biases, uint32_t bits,
                               uint32_t group, weft_error *err)
{
    weft_status status = check_affine(t, scales, biases, bits, group, err);
    if (status != WEFT_OK) return status;
    t->n_cols = scales->n_cols * group;
    t->dims[t->n_dims - 1] = t->n_cols;
    t->encoding = &ENCODING_AFFINE;
    t->bits = (uint16_t)bits;
    t->group = (uint16_t)group;
    t->param_type = (uint8_t)scales->encoding->id;
    const tensor *params[] = {scales, biases};
    for (size_t i = 0; i < COUNT_OF(params); i++) {
        t->planes[i + 1] = params[i]->planes[0];
        t->plane_bytes[i + 1] = params[i]->plane_bytes[0];
        t->row_bytes[i + 1] = params[i]->row_bytes[0];
    }
    return WEFT_OK;
}

static weft_status check_planes(const tensor *codes, const tensor *scales, const encoding *e,
                                weft_error *err)
{
    char label[32];
    bool as_floats = e->plane_bits == 8 && is_raw(codes, "F8_E4M3");
    if (!is_raw(codes, "U8") && !is_raw(codes, "U32") && !as_floats) {
        encoding_label(codes, label, sizeof label);
        return err_set(err, WEFT_UNSUPPORTED, "'%s' is %s, codes of %s are U8 or U32", codes->name,
                       label, e->name);
    }
    const char *type = e->id == ENCODING_ID_NVFP4_PLANES ? "F8_E4M3" : "F8_E8M0";
    if (!is_raw(scales, "U8") && !is_raw(scales, type)) {
        encoding_label(scales, label, sizeof label);
        return err_set(err, WEFT_UNSUPPORTED, "'%s' is %s, scales of %s are U8 or %s", scales->name,
                       label, e->name, type);
    }
    return WEFT_OK;
}

weft_status tensor_bind_planes(tensor *t, const tensor *scales, const encoding *e, float factor,
                               weft_error *err)
{
    ASSERT(e->plane_bits != 0);
    weft_status status = check_planes(t, scales, e, err);
    if (status != WEFT_OK) return status;
    tensor bound = *t;
    uint64_t group_bytes = (uint64_t)e->plane_group * e->plane_bits / 8;
    /* Both lie in a file, so neither product overflows. */
    if (t->n_dims == scales->n_dims + 1 && t->row_bytes[0] == group_bytes) {
        bound.n_dims--;
        bound.n_rows = t->n_rows / t->dims[t->n_dims - 2];
        bound.row_bytes[0] = t->dims[t->n_dims - 2] * group_bytes;
        bound.dims[t->n_dims - 1] = 1;
    }
    bool agree = bound.n_dims == scales->n_dims && bound.n_rows == scales->n_rows &&
                 bound.row_bytes[0] == scales->n_cols * group_bytes;
    for (uint32_t i = 0; agree && i + 1 < bound.n_dims; i++)
        agree = bound.dims[i] == scales->dims[i];
    if (!agree) {
        return err_set(
            err, WEFT_FORMAT,
            "'%s' has %llu rows of %llu bytes, '%s' %llu of %llu scales: that is not %s", t->name,
            (unsigned long long)bound.n_rows, (unsigned long long)bound.row_bytes[0], scales->name,
            (unsigned long long)scales->n_rows, (unsigned long long)scales->n_cols, e->name);
    }
    bound.n_cols = scales->n_cols * e->plane_group;
    bound.dims[bound.n_dims - 1] = bound.n_cols;
    bound.encoding = e;
    bound.bits = e->plane_bits;
    bound.group = e->plane_group;
    bound.factor = factor;
    bound.planes[1] = scales->planes[0];
    bound.plane_bytes[1] = scales->plane_bytes[0];
    bound.row_bytes[1] = scales->row_bytes[0];
    *t = bound;
    return WEFT_OK;
}

/* Of experts stacked in one tensor, every one has blocks of its own. */
static bool are_blocks(const tensor *t, const tensor *scales, uint32_t rows, uint32_t cols)
{
    uint64_t of_matrix = t->n_dims < 2 ? 1 : t->dims[t->n_dims - 2];
    bool whole = of_matrix == t->n_rows || of_matrix % rows == 0;
    return whole && scales->n_rows == t->n_rows / rows + (t->n_rows % rows != 0) &&
           scales->n_cols == t->n_cols / cols + (t->n_cols % cols != 0);
}

weft_status tensor_bind_scales(tensor *t, const tensor *scales, uint32_t block_rows,
                               uint32_t block_cols, weft_error *err)
{
    ASSERT(t->encoding == &ENCODING_F8_E4M3 && block_cols <= UINT16_MAX);
    weft_status status = check_param_type(scales, err);
    if (status != WEFT_OK) return status;
    bool is_vector = scales->n_cols == 1 || scales->n_rows == 1;
    uint64_t n_scales = scales->n_rows * scales->n_cols;
    if (n_scales == 1) {
        t->scale_rows = 0;
        t->group = 0;
    } else if (block_rows != 0 && block_cols != 0 &&
               are_blocks(t, scales, block_rows, block_cols)) {
        t->scale_rows = block_rows;
        t->group = (uint16_t)block_cols;
    } else if (block_rows == 0 && is_vector && n_scales == t->n_rows) {
        t->scale_rows = 1;
        t->group = 0;
    } else {
        return err_set(err, WEFT_FORMAT,
                       "'%s' is [%llu, %llu] for '%s' [%llu, %llu] in blocks of [%u, %u]",
                       scales->name, (unsigned long long)scales->n_rows,
                       (unsigned long long)scales->n_cols, t->name, (unsigned long long)t->n_rows,
                       (unsigned long long)t->n_cols, block_rows, block_cols);
    }
    t->bits = 8;
    t->param_type = (uint8_t)scales->encoding->id;
    t->planes[1] = scales->planes[0];
    t->plane_bytes[1] = scales->plane_bytes[0];
    t->row_bytes[1] = 0;
    return WEFT_OK;
}

static weft_status check_transposed(const tensor *codes, const tensor *scales, const tensor *zeros,
                                    const encoding *e, uint32_t bits, weft_error *err)
{
    bool known = e == &ENCODING_AWQ ? bits == 4 : bits == 2 || bits == 4 || bits == 8;
    if (!known) {
        return err_set(err, WEFT_UNSUPPORTED, "'%s' has codes of %u bits, which %s is not read in",
                       codes->name, bits, e->name);
    }
    const tensor *words[] = {codes, zeros};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (is_raw(words[i], "I32") && words[i]->n_dims == 2) continue;
        char label[32];
        encoding_label(words[i], label, sizeof label);
        return err_set(err, WEFT_UNSUPPORTED, "'%s' is %s in %u dimensions, %s is I32 in 2",
                       words[i]->name, label, words[i]->n_dims, e->name);
    }
    return check_param_type(scales, err);
}

weft_status tensor_bind_transposed(tensor *t, const tensor *scales, const tensor *zeros,
                                   const encoding *e, uint32_t bits, weft_error *err)
{
    weft_status status = check_transposed(t, scales, zeros, e, bits, err);
    if (status != WEFT_OK) return status;
    /* All of it lies in a file, so no product overflows. */
    uint64_t per_word = 32 / bits;
    bool by_column = e == &ENCODING_GPTQ;
    uint64_t cols = by_column ? t->n_rows * per_word : t->n_rows;
    uint64_t rows = by_column ? t->n_cols : t->n_cols * per_word;
    uint64_t group = cols / scales->n_rows;
    bool agree = scales->n_cols == rows && zeros->n_rows == scales->n_rows &&
                 zeros->n_cols * per_word == rows && cols % scales->n_rows == 0 &&
                 group <= UINT16_MAX;
    if (!agree) {
        return err_set(err, WEFT_FORMAT,
                       "'%s' [%llu, %llu], scales [%llu, %llu] and zeros [%llu, %llu] are not %s of"
                       " %u bits",
                       t->name, (unsigned long long)t->n_rows, (unsigned long long)t->n_cols,
                       (unsigned long long)scales->n_rows, (unsigned long long)scales->n_cols,
                       (unsigned long long)zeros->n_rows, (unsigned long long)zeros->n_cols,
                       e->name, bits);
    }
    t->encoding = e;
    t->n_rows = t->dims[0] = t->full_rows = rows;
    t->n_cols = t->dims[1] = cols;
    t->bits = (uint16_t)bits;
    t->group = (uint16_t)group;
    t->param_type = (uint8_t)scales->encoding->id;
    const tensor *params[] = {scales, zeros};
    for (size_t i = 0; i < COUNT_OF(params); i++) {
        t->planes[i + 1] = params[i]->planes[0];
        t->plane_bytes[i + 1] = params[i]->plane_bytes[0];
    }
    memset(t->row_bytes, 0, sizeof t->row_bytes);
    return WEFT_OK;
}

void tensor_decode(const tensor *t, float *dst)
{
    ASSERT(t->encoding != NULL);
    for (uint64_t row = 0; row < t->n_rows; row++)
        t->encoding->decode_row(t, row, dst + row * t->n_cols);
}

uint64_t tensor_plane_reach(const tensor *t, uint32_t i)
{
    if (t->planes[i] == NULL) return 0;
    if (t->row_bytes[i] == 0) return t->plane_bytes[i];
    uint64_t row = t->plane_bytes[i] / t->n_rows; /* what belongs to a row, which may lie apart */
    if (i == 0 && t->col_bytes != 0) row = (t->n_cols - 1) * t->col_bytes + row / t->n_cols;
    return (t->n_rows - 1) * t->row_bytes[i] + row;
}

/* Of scales by blocks of rows, those that the rows of t are in. */
static void narrow_scales(tensor *t)
{
    if (t->encoding != &ENCODING_F8_E4M3 || t->planes[1] == NULL || t->scale_rows == 0) return;
    uint64_t size = t->param_type == ENCODING_ID_F32 ? 4 : 2;
    uint64_t group = t->group == 0 ? t->n_cols : t->group;
    uint64_t line = (t->n_cols + group - 1) / group * size;
    uint64_t skip = t->first_row / t->scale_rows;
    uint64_t last = (t->first_row + t->n_rows - 1) / t->scale_rows;
    t->planes[1] += skip * line;
    t->plane_bytes[1] = (last - skip + 1) * line;
    t->first_row -= skip * t->scale_rows;
}

tensor tensor_rows(const tensor *t, uint64_t first, uint64_t n_rows)
{
    ASSERT(n_rows != 0 && n_rows <= t->n_rows && first <= t->n_rows - n_rows);
    tensor part = *t;
    part.n_dims = 2;
    part.dims[0] = n_rows;
    part.dims[1] = t->n_cols;
    part.dims[2] = part.dims[3] = 1;
    part.n_rows = n_rows;
    part.first_row = t->first_row + first;
    for (uint32_t i = 0; i < TENSOR_PLANES; i++) {
        if (t->planes[i] == NULL || t->row_bytes[i] == 0) continue;
        part.planes[i] = t->planes[i] + first * t->row_bytes[i];
        part.plane_bytes[i] = n_rows * t->row_bytes[i];
    }
    narrow_scales(&part);
    return part;
}

bool tensor_is_plain(const tensor *t)
{
    encoding_id id = t->encoding == NULL ? ENCODING_ID_NONE : t->encoding->id;
    return id == ENCODING_ID_F32 || id == ENCODING_ID_F16 || id == ENCODING_ID_BF16;
}

weft_status tensor_every(const tensor *t, uint64_t first, uint64_t step, uint64_t n_rows,
                         tensor *out, weft_error *err)
{
    ASSERT(step != 0 && n_rows != 0 && first + (n_rows - 1) * step < t->n_rows);
    bool by_rows = t->full_rows == 0;
    for (uint32_t i = 0; i < TENSOR_PLANES; i++)
        by_rows = by_rows && (t->planes[i] == NULL || t->row_bytes[i] != 0);
    if (!by_rows && step != 1) {
        char label[32];
        encoding_label(t, label, sizeof label);
        return err_set(err, WEFT_UNSUPPORTED,
                       "'%s' is %s, of which every %llu rows cannot be taken", t->name, label,
                       (unsigned long long)step);
    }
    tensor part = tensor_rows(t, first, (n_rows - 1) * step + 1);
    part.n_rows = part.dims[0] = n_rows;
    for (uint32_t i = 0; i < TENSOR_PLANES; i++) {
        if (t->planes[i] == NULL || t->row_bytes[i] == 0) continue;
        part.plane_bytes[i] = n_rows * t->row_bytes[i];
        part.row_bytes[i] = t->row_bytes[i] * step;
    }
    *out = part;
    return WEFT_OK;
}

tensor tensor_pick(const tensor *t, tensor_grid g)
{
    uint64_t size = t->encoding->block_bytes;
    uint64_t last = g.first + (g.n_rows - 1) * g.row_step + (g.n_cols - 1) * g.col_step;
    ASSERT(tensor_is_plain(t) && t->col_bytes == 0 && g.n_rows != 0 && g.n_cols != 0);
    ASSERT(t->row_bytes[0] == t->n_cols * size && last < t->n_rows * t->n_cols);
    tensor part = *t;
    part.n_dims = 2;
    part.n_rows = part.dims[0] = g.n_rows;
    part.n_cols = part.dims[1] = g.n_cols;
    part.dims[2] = part.dims[3] = 1;
    part.planes[0] = t->planes[0] + g.first * size;
    part.plane_bytes[0] = g.n_rows * g.n_cols * size;
    part.row_bytes[0] = g.row_step * size;
    part.col_bytes = g.col_step == 1 ? 0 : g.col_step * size;
    return part;
}
