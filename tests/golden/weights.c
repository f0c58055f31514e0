/* weights.c - writes the model.safetensors of a golden from its weights.json, when the tests are
 * built.
 *
 *     golden_weights WEIGHTS.json MODEL.safetensors
 *
 * A tensor is a list of integers, or mean and standard deviation of numbers that follow from its
 * name, the seed and their index. tools/oracle/golden_weights.py says how, and computes the same
 * bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/io.h"
#include "base/json.h"
#include "support/files.h"

enum { MAX_FILE = 1 << 24, MAX_DIMS = 5, MAX_NUMBERS = 1 << 24, NAME_BYTES = 256 };

#define GAMMA 0x9e3779b97f4a7c15u
#define SQRT3 1.7320508075688772

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t fnv1a(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

/* What is wrong with the file ends the program. */
static void give_up(const char *what, const char *where)
{
    fprintf(stderr, "golden_weights: %s: %s\n", where, what);
    exit(1);
}

typedef struct row {
    char name[NAME_BYTES];
    char dtype[8];
    uint64_t dims[MAX_DIMS];
    size_t n_dims, n_numbers;
    double mean, width;
    const json *values; /* integers, or NULL */
} row;

static void text_of(const json *object, const char *key, char *text, size_t capacity)
{
    str value = json_text(json_get(object, key));
    if (value.len == 0 || value.len >= capacity) give_up("is no text, or too long", key);
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
}

static row read_row(const json *object)
{
    row r = {.n_numbers = 1, .values = json_get(object, "values")};
    text_of(object, "name", r.name, sizeof r.name);
    text_of(object, "dtype", r.dtype, sizeof r.dtype);
    const json *shape = json_get(object, "shape");
    r.n_dims = json_length(shape);
    if (json_kind_of(shape) != JSON_KIND_ARRAY || r.n_dims > MAX_DIMS)
        give_up("has no shape", r.name);
    for (size_t i = 0; i < r.n_dims; i++) {
        int64_t dim = json_int(json_at(shape, i), 0);
        if (dim < 1 || dim > MAX_NUMBERS) give_up("has no shape", r.name);
        r.dims[i] = (uint64_t)dim;
        r.n_numbers *= (size_t)dim;
        if (r.n_numbers > MAX_NUMBERS) give_up("is too large", r.name);
    }
    r.mean = json_number(json_get(object, "mean"), (double)NAN);
    r.width = json_number(json_get(object, "std"), (double)NAN) * SQRT3;
    if (r.values != NULL) {
        if (json_length(r.values) != r.n_numbers) give_up("has another number of values", r.name);
    } else if (isnan(r.mean) || isnan(r.width)) {
        give_up("has neither values nor mean and std", r.name);
    }
    return r;
}

static void add_integers(file_bytes *data, const row *r)
{
    bool wide = strcmp(r->dtype, "I64") == 0;
    if (!wide && strcmp(r->dtype, "I32") != 0) give_up("has values of another dtype", r->name);
    for (size_t i = 0; i < r->n_numbers; i++) {
        int64_t value = json_int(json_at(r->values, i), 0);
        int32_t narrow = (int32_t)value;
        if (wide) {
            file_bytes_add(data, &value, sizeof value);
        } else {
            file_bytes_add(data, &narrow, sizeof narrow);
        }
    }
}

static void add_numbers(file_bytes *data, const row *r, uint64_t seed)
{
    bool narrow = strcmp(r->dtype, "BF16") == 0;
    if (!narrow && strcmp(r->dtype, "F32") != 0) give_up("has numbers of another dtype", r->name);
    uint64_t key = mix(fnv1a(r->name) ^ mix(seed));
    for (size_t i = 0; i < r->n_numbers; i++) {
        double u = (double)(mix(key + (i + 1) * GAMMA) >> 40) * 0x1p-24;
        float value = (float)(r->mean + r->width * (2.0 * u - 1.0));
        uint16_t half = fp_to_bf16(value);
        if (narrow) {
            file_bytes_add(data, &half, sizeof half);
        } else {
            file_bytes_add(data, &value, sizeof value);
        }
    }
}

static void add_tensors(safetensors_builder *b, const json *root)
{
    const json *list = json_get(root, "tensors");
    const json *seed = json_get(root, "seed");
    if (json_kind_of(seed) != JSON_KIND_INT) give_up("is no integer", "seed");
    if (json_length(list) == 0) give_up("is empty", "tensors");
    for (size_t i = 0; i < json_length(list); i++) {
        row r = read_row(json_at(list, i));
        file_bytes data = {0};
        if (r.values != NULL) {
            add_integers(&data, &r);
        } else {
            add_numbers(&data, &r, (uint64_t)json_int(seed, 0));
        }
        safetensors_add(b, r.name, r.dtype, r.dims, r.n_dims, data.data, data.n_bytes);
        file_bytes_free(&data);
    }
}

int main(int n_words, char **words)
{
    if (n_words != 3) give_up("golden_weights WEIGHTS.json MODEL.safetensors", "usage");
    const io *files = io_system();
    weft_error err = {0};
    char *text = NULL;
    size_t n_text = 0;
    json_doc doc;
    if (io_read_file(files, mem_system(), words[1], MAX_FILE, &text, &n_text, &err) != WEFT_OK)
        give_up(err.message, words[1]);
    if (json_parse(&doc, text, n_text, &err) != WEFT_OK) give_up(err.message, words[1]);
    mem_free(mem_system(), text, n_text + 1);
    safetensors_builder b;
    file_bytes bytes;
    safetensors_init(&b);
    add_tensors(&b, doc.root);
    json_doc_free(&doc);
    b.padding = &"       "[b.header.n_bytes % 8]; /* header and brace: a multiple of 8 */
    safetensors_build(&b, &bytes);
    safetensors_deinit(&b);
    if (files->write(files, words[2], bytes.data, bytes.n_bytes, &err) != WEFT_OK)
        give_up(err.message, words[2]);
    file_bytes_free(&bytes);
    return 0;
}
