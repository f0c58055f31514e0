/* fingerprint.c - models and tokenizers by content. */
#include "models/fingerprint.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

static void add_text(hash_stream *s, const char *text)
{
    hash_stream_add_field(s, text, text == NULL ? 0 : strlen(text));
}

static void add_numbers(hash_stream *s, const uint32_t *numbers, size_t n)
{
    unsigned char bytes[4];
    for (size_t i = 0; i < n; i++) {
        put_u32(bytes, numbers[i]);
        hash_stream_add_field(s, bytes, sizeof bytes);
    }
}

static void add_floats(hash_stream *s, const float *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        add_numbers(s, &bits, 1);
    }
}

/* What is computed, and with which constants. */
static void add_graph(hash_stream *s, const graph *g)
{
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        const uint32_t head[] = {(uint32_t)v->op, v->rows, v->cols};
        add_numbers(s, head, COUNT_OF(head));
        add_numbers(s, v->in, GRAPH_INPUTS);
        add_numbers(s, v->i, GRAPH_INTS);
        add_floats(s, v->f, COUNT_OF(v->f));
    }
    for (uint32_t i = 0; i < g->n_ropes; i++) {
        const graph_rope *rope = &g->ropes[i];
        const uint32_t head[] = {rope->n_pairs, rope->interleaved};
        add_numbers(s, head, COUNT_OF(head));
        add_floats(s, &rope->magnitude, 1);
        add_floats(s, rope->inv_freq, rope->n_pairs);
        if (rope->axes != NULL) hash_stream_add_field(s, rope->axes, rope->n_pairs);
    }
}

static void add_tensor(hash_stream *s, const tensor *t)
{
    add_text(s, t->name);
    add_text(s, t->encoding == NULL ? t->raw_type : t->encoding->name);
    const uint32_t head[] = {t->n_dims,     t->bits,       t->group,
                             t->param_type, t->scale_rows, t->raw_cols};
    add_numbers(s, head, COUNT_OF(head));
    add_floats(s, &t->factor, 1);
    for (uint32_t i = 0; i < TENSOR_DIMS; i++) {
        const uint32_t dim[] = {(uint32_t)t->dims[i], (uint32_t)(t->dims[i] >> 32)};
        add_numbers(s, dim, COUNT_OF(dim));
    }
    for (uint32_t i = 0; i < TENSOR_PLANES; i++)
        hash_stream_add_field(s, t->planes[i], t->plane_bytes[i]);
}

weft_status llm_fingerprint(const llm *m, unsigned char digest[FINGERPRINT_BYTES], weft_error *err)
{
    hash_stream s;
    weft_status status = hash_stream_open(&s, err);
    if (status != WEFT_OK) return status;
    add_text(&s, m->family->name);
    add_graph(&s, &m->graph);
    /* In the order of their names. */
    for (uint32_t i = 0; i < m->weights->n_tensors; i++) add_tensor(&s, &m->weights->tensors[i]);
    return hash_stream_close(&s, digest, err);
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

enum { TOKENIZER_BYTES_MOST = 256 << 20 };

static weft_status add_file(hash_stream *s, const weights *w, const char *name, weft_error *err)
{
    char *text;
    size_t n_bytes;
    weft_status status = weights_read_sibling(w, name, TOKENIZER_BYTES_MOST, &text, &n_bytes, err);
    if (status != WEFT_OK || text == NULL) return status;
    add_text(s, name);
    hash_stream_add_field(s, text, n_bytes);
    mem_free(w->env.allocator, text, n_bytes + 1);
    return WEFT_OK;
}

static void add_metadata(hash_stream *s, const gguf_value *v)
{
    const uint32_t head[] = {(uint32_t)v->type, (uint32_t)v->element};
    add_text(s, v->key);
    add_numbers(s, head, COUNT_OF(head));
    hash_stream_add_field(s, v->data, v->n_bytes);
}

weft_status llm_tokenizer_hash(const llm *m, unsigned char digest[FINGERPRINT_BYTES],
                               weft_error *err)
{
    static const char *const FILES[] = {"tokenizer.json", "tokenizer.model", "qwen.tiktoken",
                                        "tiktoken.model", "tokenizer_config.json"};
    const weights *w = m->weights;
    hash_stream s;
    weft_status status = hash_stream_open(&s, err);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < COUNT_OF(FILES) && status == WEFT_OK && w->format->is_folder; i++)
        status = add_file(&s, w, FILES[i], err);
    for (uint32_t i = 0; i < w->n_metadata; i++) {
        if (strncmp(w->metadata[i].key, "tokenizer.", 10) == 0) add_metadata(&s, &w->metadata[i]);
    }
    weft_status closed = hash_stream_close(&s, digest, status == WEFT_OK ? err : NULL);
    return status == WEFT_OK ? closed : status;
}
