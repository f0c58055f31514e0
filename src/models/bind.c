/* bind.c - tensors into their slots: names by form, shapes by the params, nothing left over. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "models/model.h"
#include "models/rope.h"

enum { NAME_BYTES = 512 };

/* Where the text model's tensors begin, in the order they are tried. */
static const char *const ROOTS[] = {"model.", "language_model.model.", "model.language_model.", ""};

typedef struct binder {
    llm *m;
    const model_source *source;
    const char *root;      /* of SLOT_MODEL and SLOT_LAYER */
    const char *head_root; /* of SLOT_HEAD */
    bool *used;            /* [weights->n_tensors] */
} binder;

static void find_root(binder *b)
{
    for (size_t i = 0; i < COUNT_OF(ROOTS); i++) {
        char name[NAME_BYTES];
        b->root = ROOTS[i];
        snprintf(name, sizeof name, "%s%s", b->root, b->m->family->slots[0].hf_name);
        if (llm_has_tensor(b->source, name)) break;
    }
    b->head_root = strcmp(b->root, "language_model.model.") == 0 ? "language_model." : "";
}

static bool is_by_layer(const model_slot *slot)
{
    return slot->place != SLOT_MODEL && slot->place != SLOT_HEAD;
}

static void slot_name(const binder *b, const model_slot *slot, uint32_t layer,
                      char name[NAME_BYTES])
{
    if (b->source->is_gguf && is_by_layer(slot)) {
        snprintf(name, NAME_BYTES, "blk.%u.%s", layer, slot->gguf_name);
    } else if (b->source->is_gguf) {
        snprintf(name, NAME_BYTES, "%s", slot->gguf_name);
    } else if (is_by_layer(slot)) {
        snprintf(name, NAME_BYTES, "%slayers.%u.%s", b->root, layer, slot->hf_name);
    } else {
        snprintf(name, NAME_BYTES, "%s%s", slot->place == SLOT_HEAD ? b->head_root : b->root,
                 slot->hf_name);
    }
}

static uint32_t shape_field(const model_params *p, size_t offset)
{
    return *(const uint32_t *)(const void *)((const char *)p + offset);
}

/* A plain matrix of few columns may come with a dim of 1 in it or behind it, as a convolution's
 * does: [C, 1, K], or MLX's [C, K, 1]. Its numbers lie the same way. */
static void drop_dim_of_one(tensor *t)
{
    bool plain = t->encoding != NULL && t->encoding->id != ENCODING_ID_NONE && t->raw_cols == 1 &&
                 t->planes[1] == NULL;
    if (!plain || t->n_dims != 3 || (t->dims[1] != 1 && t->dims[2] != 1)) return;
    t->n_dims = 2;
    t->n_rows = t->dims[0];
    t->n_cols = t->dims[1] * t->dims[2];
    t->row_bytes[0] = t->n_rows == 0 ? 0 : t->plane_bytes[0] / t->n_rows;
    t->dims[1] = t->n_cols;
    t->dims[2] = 1;
}

static weft_status check_shape(const model_params *p, const model_slot *slot, const tensor *t,
                               weft_error *err)
{
    uint64_t rows = slot->rows == SHAPE_NONE ? 1 : shape_field(p, slot->rows);
    uint64_t cols = shape_field(p, slot->cols);
    bool vector = slot->rows == SHAPE_NONE;
    bool ok = t->n_rows == rows && t->n_cols == cols && t->n_dims == (vector ? 1 : 2);
    if (ok) return WEFT_OK;
    if (vector) {
        return err_set(err, WEFT_FORMAT, "tensor '%s' is [%llu, %llu], expected [%llu]", t->name,
                       (unsigned long long)t->n_rows, (unsigned long long)t->n_cols,
                       (unsigned long long)cols);
    }
    return err_set(err, WEFT_FORMAT, "tensor '%s' is [%llu, %llu], expected [%llu, %llu]", t->name,
                   (unsigned long long)t->n_rows, (unsigned long long)t->n_cols,
                   (unsigned long long)rows, (unsigned long long)cols);
}

/* Whether the slot is wanted; in a GGUF file, which has no flags for it, what is there is
 * wanted. */
static bool is_wanted(const binder *b, const model_slot *slot, bool exists)
{
    if (slot->place == SLOT_HEAD && b->m->params.tied && !b->source->is_gguf) return false;
    if (slot->optional) return exists;
    if (slot->if_flag == SHAPE_NONE) return true;
    if (b->source->is_gguf) return exists;
    return *(const bool *)(const void *)((const char *)&b->m->params + slot->if_flag);
}

/* Without an output matrix a model is tied, unless its config says that it is not. */
static weft_status check_tied(const binder *b, const char *name, weft_error *err)
{
    bool found;
    bool tied = true;
    weft_status status = source_flag(b->source, "tie_word_embeddings", NULL, &found, &tied, err);
    if (status != WEFT_OK || !found || tied) return status;
    return err_set(err, WEFT_FORMAT, "tensor '%s' is missing, and the model is not tied", name);
}

static weft_status bind_slot(binder *b, uint32_t slot_i, uint32_t layer, weft_error *err)
{
    llm *m = b->m;
    const model_slot *slot = &m->family->slots[slot_i];
    char name[NAME_BYTES];
    slot_name(b, slot, layer, name);
    bool there = llm_has_tensor(b->source, name);
    if (!is_wanted(b, slot, there)) {
        /* A tied model may carry its output matrix all the same: it is the embedding. */
        if (slot->place == SLOT_HEAD && there) {
            tensor ignored;
            return llm_bind_tensor(b->source, name, &ignored, b->used, err);
        }
        return slot->place == SLOT_HEAD ? check_tied(b, name, err) : WEFT_OK;
    }
    tensor *t = &m->tensors[m->n_tensors];
    weft_status status = llm_bind_tensor(b->source, name, t, b->used, err);
    if (status != WEFT_OK) return status;
    bool is_embed = slot_i == 0;
    if (is_embed && m->params.n_vocab == 0) {
        if (t->n_rows > MODEL_VOCAB) {
            return err_set(err, WEFT_LIMIT, "tensor '%s' has %llu rows, a vocabulary at most %d",
                           name, (unsigned long long)t->n_rows, MODEL_VOCAB);
        }
        m->params.n_vocab = (uint32_t)t->n_rows;
    }
    if (slot->place == SLOT_RECURRENT) drop_dim_of_one(t);
    status = check_shape(&m->params, slot, t, err);
    if (status != WEFT_OK) return status;
    char label[32];
    encoding_label(t, label, sizeof label);
    m->labels[m->n_tensors] = arena_copy_text(&m->arena, label, strlen(label));
    if (m->labels[m->n_tensors] == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a tensor");
    m->n_tensors++;
    m->bound[(size_t)slot_i * m->params.n_layers + layer] = m->n_tensors;
    return WEFT_OK;
}

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    if (pattern[0] == '*') return str_ends(str_of(name), pattern + 1);
    if (n > 0 && pattern[n - 1] == '*') return strncmp(name, pattern, n - 1) == 0;
    return strcmp(pattern, name) == 0;
}

static weft_status check_leftovers(const binder *b, weft_error *err)
{
    const weights *w = b->source->weights;
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        bool ok = b->used[i];
        for (const char *const *drop = b->m->family->drop; !ok && *drop != NULL; drop++) {
            ok = matches(*drop, w->tensors[i].name);
        }
        if (!ok) {
            return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has no place in architecture %s",
                           w->tensors[i].name, b->m->family->name);
        }
    }
    return WEFT_OK;
}

/* Llama 3 in GGUF brings its frequency divisors as a tensor. */
static weft_status rope_factors(const binder *b, const float **factors, weft_error *err)
{
    *factors = NULL;
    const tensor *t =
        b->source->is_gguf ? weights_find(b->source->weights, "rope_freqs.weight") : NULL;
    if (t == NULL) return WEFT_OK;
    b->used[t - b->source->weights->tensors] = true;
    uint32_t n_pairs = b->m->params.rope_dims / 2;
    if (t->encoding == NULL || t->n_rows != 1 || t->n_cols != n_pairs) {
        return err_set(err, WEFT_FORMAT,
                       "tensor 'rope_freqs.weight' is [%llu, %llu], expected [%u]",
                       (unsigned long long)t->n_rows, (unsigned long long)t->n_cols, n_pairs);
    }
    float *values = arena_array(&b->m->arena, n_pairs, sizeof *values);
    if (values == NULL) return err_set(err, WEFT_NOMEM, "out of memory for rope factors");
    t->encoding->decode_row(t, 0, values);
    for (uint32_t i = 0; i < n_pairs; i++) {
        if (!(values[i] > 0.0F))
            return err_set(err, WEFT_FORMAT, "tensor 'rope_freqs.weight' has a value of %g",
                           (double)values[i]);
    }
    *factors = values;
    return WEFT_OK;
}

static weft_status make_rope(llm *m, uint32_t i, const float *factors, weft_error *err)
{
    const model_params *p = &m->params;
    return rope_table(&m->ropes[i], &m->arena, &p->ropes[i], p->rope_dims, p->rope_interleaved,
                      factors, err);
}

static weft_status bind_all(binder *b, weft_error *err)
{
    llm *m = b->m;
    weft_status status = WEFT_OK;
    for (uint32_t slot_i = 0; slot_i < m->family->n_slots && status == WEFT_OK; slot_i++) {
        const model_slot *slot = &m->family->slots[slot_i];
        if (slot->hf_name == NULL) continue;
        uint32_t n = is_by_layer(slot) ? m->params.n_layers : 1;
        for (uint32_t layer = 0; layer < n && status == WEFT_OK; layer++) {
            bool recurrent = m->params.is_recurrent[layer];
            if (slot->place == SLOT_ATTENTION && recurrent) continue;
            if (slot->place == SLOT_RECURRENT && !recurrent) continue;
            status = bind_slot(b, slot_i, layer, err);
        }
    }
    const float *factors = NULL;
    if (status == WEFT_OK) status = rope_factors(b, &factors, err);
    for (uint32_t i = 0; i < m->params.n_ropes && status == WEFT_OK; i++) {
        status = make_rope(m, i, factors, err);
    }
    return status == WEFT_OK ? check_leftovers(b, err) : status;
}

weft_status llm_bind(llm *m, const model_source *source, weft_error *err)
{
    size_t n_bound = (size_t)m->family->n_slots * m->params.n_layers;
    size_t n_used = (size_t)source->weights->n_tensors + 1; /* never 0 */
    m->bound = arena_array(&m->arena, n_bound, sizeof *m->bound);
    m->tensors = arena_array(&m->arena, n_bound, sizeof *m->tensors);
    m->labels = arena_array(&m->arena, n_bound, sizeof *m->labels);
    bool *used = mem_alloc_zero(m->env.allocator, n_used);
    weft_status status;
    if (!m->bound || !m->tensors || !m->labels || used == NULL) {
        status = err_set(err, WEFT_NOMEM, "out of memory for %zu tensors", n_bound);
    } else {
        binder b = {.m = m, .source = source, .used = used};
        find_root(&b);
        status = bind_all(&b, err);
    }
    mem_free(m->env.allocator, used, n_used);
    return status;
}
