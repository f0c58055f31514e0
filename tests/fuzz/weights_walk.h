/* weights_walk.h - looks at everything that an opened checkpoint promises: every tensor by name, a
 * row of each that has an encoding, every piece of metadata. */
#ifndef FUZZ_WEIGHTS_WALK_H
#define FUZZ_WEIGHTS_WALK_H

#include "base/assert.h"
#include "formats/weights.h"

enum { WALK_COLS = 1 << 16 };

static inline void walk_tensor(const weights *w, const tensor *t)
{
    char label[32];
    encoding_label(t, label, sizeof label);
    ASSERT(label[0] != '\0' && weights_find(w, t->name) == t);
    /* Every byte of the plane is there to be read. */
    volatile unsigned char ends = t->planes[0][0] ^ t->planes[0][t->plane_bytes[0] - 1];
    (void)ends;
    ASSERT(t->n_rows * t->row_bytes[0] == t->plane_bytes[0]);
    if (t->encoding == NULL || t->n_cols > WALK_COLS) return;
    float *row = malloc((size_t)t->n_cols * sizeof *row);
    if (row == NULL) return;
    t->encoding->decode_row(t, 0, row);
    t->encoding->decode_row(t, t->n_rows - 1, row);
    free(row);
}

static inline void walk_value(const gguf_value *value)
{
    uint64_t number, offset = 0, n_texts = 0;
    double real;
    int64_t integer;
    bool flag;
    str text;
    gguf_u64(value, &number);
    gguf_real(value, &real);
    gguf_bool(value, &flag);
    gguf_text(value, &text);
    if (value->type != GGUF_ARRAY) return;
    while (gguf_next_text(value, &offset, &text)) n_texts++;
    if (value->element == GGUF_TEXT) ASSERT(n_texts == value->n_elements);
    gguf_array_real(value, value->n_elements - 1, &real);
    gguf_array_i64(value, value->n_elements / 2, &integer);
}

static inline void walk(const env *world, const char *path)
{
    weights *w;
    weft_error err = {0};
    weft_status status = weights_open(world, path, &w, &err);
    ASSERT((status == WEFT_OK) == (w != NULL) && status == err.status);
    if (w == NULL) {
        ASSERT(err.message[0] != '\0');
        return;
    }
    for (uint32_t i = 0; i < w->n_tensors; i++) walk_tensor(w, &w->tensors[i]);
    for (uint32_t i = 0; i < w->n_metadata; i++) {
        walk_value(&w->metadata[i]);
        ASSERT(weights_metadata(w, w->metadata[i].key) == &w->metadata[i]);
    }
    weights_close(w);
}

#endif
