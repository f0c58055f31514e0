/* gemma4_gguf.c - Gemma 4 in GGUF files: counts of each layer in the place of names, and divisors
 * that stop the pairs of full layers that do not turn. */
#include "models/gemma4_gguf.h"

#include <stdio.h>

#include "base/assert.h"
#include "models/layer_lists.h"
#include "models/model.h"

/* Rows of a matrix that is read whatever they are. */
static weft_status read_rows(const model_source *source, const char *name, uint32_t *n,
                             weft_error *err)
{
    const tensor *t = weights_find(source->weights, name);
    uint64_t rows = t == NULL ? 0 : t->n_rows;
    *n = (uint32_t)rows;
    if (rows > 0 && rows <= MODEL_VOCAB) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tensor '%s' has %llu rows, expected 1 to %d", name,
                   (unsigned long long)rows, MODEL_VOCAB);
}

/* Heads of keys and values of the layers of a kind, which have as many as each other. */
static weft_status read_kv_heads(model_params *p, const model_source *source, weft_error *err)
{
    uint32_t counts[MODEL_LAYERS];
    bool found;
    weft_status status =
        list_layer_counts(p, source, "attention.head_count_kv", 4096, counts, &found, err);
    p->n_full_kv_heads = 0;
    for (uint32_t i = 0; i < p->n_layers && status == WEFT_OK && found; i++) {
        uint32_t *of = p->is_window[i] ? &p->n_kv_heads : &p->n_full_kv_heads;
        if (*of == 0) *of = counts[i];
        if (counts[i] == *of && counts[i] != 0) continue;
        status = err_set(err, WEFT_UNSUPPORTED, "layer %u has %u key heads, others of its kind %u",
                         i, counts[i], *of);
    }
    /* A kind that no layer is of. */
    if (p->n_kv_heads == 0) p->n_kv_heads = p->n_full_kv_heads;
    if (p->n_full_kv_heads == 0) p->n_full_kv_heads = p->n_kv_heads;
    if (status != WEFT_OK || p->n_kv_heads != 0) return status;
    return err_set(err, WEFT_FORMAT, "the file has no attention.head_count_kv");
}

/* Widths of the MLP, of which there is one, or one and twice that of layers that share. */
static weft_status read_widths(model_params *p, const model_source *source, weft_error *err)
{
    uint32_t counts[MODEL_LAYERS];
    bool found;
    weft_status status =
        list_layer_counts(p, source, "feed_forward_length", 1 << 20, counts, &found, err);
    if (status != WEFT_OK) return status;
    if (!found || counts[0] == 0)
        return err_set(err, WEFT_FORMAT, "the file has no feed_forward_length");
    p->n_ff = counts[0];
    p->wide_mlp = counts[p->n_layers - 1] != p->n_ff;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        bool wide = p->wide_mlp && i + p->n_shared_kv >= p->n_layers;
        if (counts[i] == (wide ? 2 * p->n_ff : p->n_ff)) continue;
        return err_set(err, WEFT_UNSUPPORTED, "layer %u has an MLP of %u, layer 0 of %u", i,
                       counts[i], p->n_ff);
    }
    return WEFT_OK;
}

/* A size that must be what others make it. */
static weft_status check_size(const model_source *source, const char *key, uint32_t expected,
                              weft_error *err)
{
    bool found;
    double size = (double)expected;
    weft_status status = source_number(source, NULL, key, &found, &size, err);
    if (status != WEFT_OK || size == (double)expected) return status;
    return err_set(err, WEFT_UNSUPPORTED, "%s is %g, expected %u", key, size, expected);
}

static weft_status check_sizes(const model_params *p, const model_source *source, weft_error *err)
{
    const struct {
        const char *key;
        uint32_t expected;
    } SIZES[] = {{"attention.value_length", p->full_head_dim},
                 {"attention.value_length_swa", p->head_dim},
                 {"rope.dimension_count", p->full_head_dim},
                 {"rope.dimension_count_swa", p->head_dim}};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(SIZES) && status == WEFT_OK; i++)
        status = check_size(source, SIZES[i].key, SIZES[i].expected, err);
    return status;
}

/* Full layers have no matrix for values where these are the keys. */
static void find_values(model_params *p, const model_source *source)
{
    for (uint32_t i = 0; i < p->n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.attn_v.weight", i);
        if (!p->is_window[i] && i + p->n_shared_kv < p->n_layers)
            p->k_is_v = !llm_has_tensor(source, name);
    }
}

weft_status gemma4_read_gguf(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    weft_status status =
        list_layer_flags(p, source, "attention.sliding_window_pattern", p->is_window, &found, err);
    if (status == WEFT_OK && !found)
        status = err_set(err, WEFT_FORMAT, "the file has no attention.sliding_window_pattern");
    if (status == WEFT_OK && p->is_window[p->n_layers - 1])
        status = err_set(err, WEFT_UNSUPPORTED, "a window in the last layer is not supported");
    if (status == WEFT_OK) status = read_kv_heads(p, source, err);
    if (status == WEFT_OK) status = read_widths(p, source, err);
    if (status == WEFT_OK) status = check_sizes(p, source, err);
    if (status == WEFT_OK) status = read_rows(source, "token_embd.weight", &p->n_vocab, err);
    if (status == WEFT_OK && p->ple_dim > 0)
        status = read_rows(source, "per_layer_token_embd.weight", &p->n_ple_vocab, err);
    if (status == WEFT_OK && weights_find(source->weights, "rope_freqs.weight") == NULL)
        status = err_set(err, WEFT_FORMAT, "tensor 'rope_freqs.weight' is missing");
    p->has_moe = p->n_experts > 0;
    find_values(p, source);
    return status;
}
