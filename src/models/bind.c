/* bind.c - tensors into their slots: names by form, shapes by the params, nothing left over. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "models/model.h"
#include "models/rope.h"

enum { NAME_BYTES = 512 };

/* Where the text model's tensors begin, in the order they are tried. */
static const char *const ROOTS[] = {
    "model.", "language_model.model.", "model.language_model.", "bert.", "roberta.", "", NULL};

typedef struct binder {
    llm *m;
    const model_family *family; /* the model's or its tower's, and what belongs to it */
    model_params *params;
    uint32_t *bound;
    const model_source *source;
    const char *root;      /* of SLOT_MODEL and SLOT_LAYER */
    const char *head_root; /* of SLOT_HEAD */
    bool *used;            /* [weights->n_tensors] */
} binder;

/* The places where a slot's tensors may be; plain is room for one of them. */
static const stack_source *slot_sources(const model_family *f, uint32_t slot_i, stack_source *plain,
                                        uint32_t *n)
{
    const model_slot *slot = &f->slots[slot_i];
    const model_stack *stack = slot->stack;
    *n = 1;
    for (uint32_t i = 0; i < f->n_names; i++) {
        if (f->names[i].slot != slot_i) continue;
        if (f->names[i].stack == NULL) return &f->names[i].source;
        stack = f->names[i].stack;
    }
    if (stack != NULL) {
        *n = stack->n_sources;
        return stack->sources;
    }
    *plain = (stack_source)STACK_SOURCE(slot->hf_name, slot->gguf_name, SHAPE_NONE, SHAPE_NONE);
    return plain;
}

static uint32_t matrices_of(const model_params *p, const model_slot *slot)
{
    return slot->stack == NULL ? 1 : model_field(p, slot->stack->count);
}

static void find_root(binder *b)
{
    stack_source plain;
    uint32_t n;
    const char *embed = slot_sources(b->family, 0, &plain, &n)->hf_name;
    const char *const *root = b->family->roots != NULL ? b->family->roots : ROOTS;
    b->root = "";
    for (; *root != NULL; root++) {
        char name[NAME_BYTES];
        b->root = *root;
        snprintf(name, sizeof name, "%s%s", b->root, embed);
        if (llm_has_tensor(b->source, name)) break;
    }
    b->head_root = strcmp(b->root, "language_model.model.") == 0 ? "language_model." : "";
}

/* Before what is there once; what GGUF files have of a head that drafts is in its layer. */
static const char *root_of(const binder *b, slot_place place)
{
    if (place == SLOT_DRAFT) return b->params->draft_root;
    return place == SLOT_HEAD ? b->head_root : b->root;
}

/* The name of a tensor in a place, with index for its "%u"; false when it does not fit. */
static bool place_name(const binder *b, const char *name, const model_slot *slot, uint32_t layer,
                       uint32_t index, char full[NAME_BYTES])
{
    char own[NAME_BYTES];
    const char *mark = strstr(name, "%u");
    int n = mark == NULL
                ? snprintf(own, sizeof own, "%s", name)
                : snprintf(own, sizeof own, "%.*s%u%s", (int)(mark - name), name, index, mark + 2);
    if (n < 0 || n >= NAME_BYTES) return false;
    if (b->source->is_gguf && slot->place == SLOT_LAYER) {
        n = snprintf(full, NAME_BYTES, "blk.%u.%s", layer, own);
    } else if (b->source->is_gguf && slot->place == SLOT_DRAFT) {
        n = snprintf(full, NAME_BYTES, "blk.%u.%s", b->params->n_layers, own);
    } else if (b->source->is_gguf) {
        n = snprintf(full, NAME_BYTES, "%s", own);
    } else if (slot->place == SLOT_LAYER) {
        const model_params *p = b->params;
        const char *layers = b->family->layers != NULL ? b->family->layers : "layers.";
        bool drafts = layer >= p->n_layers;
        n = snprintf(full, NAME_BYTES, "%s%s%u.%s", drafts ? p->draft_root : b->root, layers,
                     drafts ? layer - p->n_layers : layer, own);
    } else {
        n = snprintf(full, NAME_BYTES, "%s%s", root_of(b, slot->place), own);
    }
    return n >= 0 && n < NAME_BYTES;
}

static const char *own_name(const binder *b, const char *hf_name, const char *gguf_name)
{
    return b->source->is_gguf ? gguf_name : hf_name;
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

/* A plain tensor of more dims whose numbers are as many: [C, 3, 2, P, P] is [C, 6 P^2]. */
static void flatten(const model_params *p, const model_slot *slot, tensor *t)
{
    bool plain = t->encoding != NULL && t->encoding->id != ENCODING_ID_NONE && t->raw_cols == 1 &&
                 t->planes[1] == NULL;
    uint64_t rows = model_field(p, slot->rows);
    uint64_t cols = model_field(p, slot->cols);
    if (!plain || t->n_dims < 3 || rows * cols != t->n_rows * t->n_cols) return;
    *t = tensor_rows(t, 0, t->n_rows);
    t->n_rows = t->dims[0] = rows;
    t->n_cols = t->dims[1] = cols;
    t->row_bytes[0] = t->plane_bytes[0] / rows;
}

static weft_status check_shape(const model_params *p, const model_slot *slot, const tensor *t,
                               weft_error *err)
{
    uint64_t rows = slot->rows == SHAPE_NONE ? 1 : model_field(p, slot->rows);
    uint64_t cols = model_field(p, slot->cols);
    bool vector = slot->rows == SHAPE_NONE;
    bool either = slot->rows == SHAPE(one); /* one row is a vector, too */
    bool dims = t->n_dims == (vector ? 1 : 2) || (either && t->n_dims == 1);
    if (t->n_rows == rows && t->n_cols == cols && dims) return WEFT_OK;
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
    if (slot->unused) return false;
    if (slot->place == SLOT_HEAD && slot->optional && b->params->tied && !b->source->is_gguf)
        return false;
    if (slot->optional) return exists;
    if (slot->if_flag == SHAPE_NONE) return true;
    if (b->source->is_gguf && !slot->strict && exists) return true;
    return *(const bool *)(const void *)((const char *)b->params + slot->if_flag);
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

/* Puts a tensor of the file on the list; one that several slots take rows of stands there once. */
static weft_status list_tensor(llm *m, const tensor *t, bool once, weft_error *err)
{
    for (uint32_t i = m->n_listed; i > 0 && once; i--) {
        if (m->listed[i - 1].planes[0] == t->planes[0]) return WEFT_OK;
    }
    char label[32];
    encoding_label(t, label, sizeof label);
    m->labels[m->n_listed] = arena_copy_text(&m->arena, label, strlen(label));
    if (m->labels[m->n_listed] == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a tensor");
    m->listed[m->n_listed++] = *t;
    return WEFT_OK;
}

/* Integers, as they lie in the file. */
static weft_status find_integers(const binder *b, const char *name, tensor *t, weft_error *err)
{
    const tensor *found = weights_find(b->source->weights, name);
    if (found == NULL) return err_set(err, WEFT_FORMAT, "tensor '%s' is missing", name);
    b->used[found - b->source->weights->tensors] = true;
    static const char *const TYPES[] = {"I32", "I64", "i32", "i64"};
    *t = *found;
    for (size_t i = 0; i < COUNT_OF(TYPES) && t->raw_type != NULL; i++)
        if (strcmp(t->raw_type, TYPES[i]) == 0) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has type %s, expected I32 or I64", name,
                   t->raw_type != NULL ? t->raw_type : "unknown");
}

static weft_status bind_matrix(binder *b, uint32_t slot_i, uint32_t layer, const char *name,
                               weft_error *err)
{
    llm *m = b->m;
    const model_slot *slot = &b->family->slots[slot_i];
    tensor *t = &m->tensors[m->n_tensors];
    weft_status status = slot->integers ? find_integers(b, name, t, err)
                                        : llm_bind_tensor(b->source, name, t, b->used, err);
    if (status != WEFT_OK) return status;
    bool is_embed = slot_i == 0 && b->family == m->family;
    if (is_embed && m->params.n_vocab == 0) {
        if (t->n_rows > MODEL_VOCAB) {
            return err_set(err, WEFT_LIMIT, "tensor '%s' has %llu rows, a vocabulary at most %d",
                           name, (unsigned long long)t->n_rows, MODEL_VOCAB);
        }
        m->params.n_vocab = (uint32_t)t->n_rows;
    }
    if (slot->squeeze) drop_dim_of_one(t);
    if (slot->flat) flatten(b->params, slot, t);
    status = check_shape(b->params, slot, t, err);
    if (status == WEFT_OK) status = list_tensor(m, t, false, err);
    if (status != WEFT_OK) return status;
    m->n_tensors++;
    b->bound[model_bound_at(b->params, slot_i, layer)] = m->n_tensors;
    return WEFT_OK;
}

/* ---- stacks ---- */

/* The source that is there, or the first of this form; NULL when it has none. */
static const stack_source *find_source(const binder *b, const model_slot *slot, uint32_t layer,
                                       const stack_source *sources, uint32_t n_sources,
                                       char name[NAME_BYTES], bool *there)
{
    const stack_source *first = NULL;
    *there = false;
    for (uint32_t i = 0; i < n_sources; i++) {
        const stack_source *source = &sources[i];
        const char *own = own_name(b, source->hf_name, source->gguf_name);
        if (own == NULL || !place_name(b, own, slot, layer, 0, name)) continue;
        *there = llm_has_tensor(b->source, name);
        if (*there) return source;
        if (first == NULL) first = source;
    }
    if (first == NULL) return NULL;
    const char *own = own_name(b, first->hf_name, first->gguf_name);
    return place_name(b, own, slot, layer, 0, name) ? first : NULL;
}

/* One tensor a matrix. */
static weft_status bind_apart(binder *b, const model_slot *slot, uint32_t layer, const char *own,
                              weft_error *err)
{
    llm *m = b->m;
    char name[NAME_BYTES];
    uint32_t count = matrices_of(b->params, slot);
    for (uint32_t i = 0; i < count; i++) {
        tensor *t = &m->tensors[m->n_tensors + i];
        if (!place_name(b, own, slot, layer, i, name))
            return err_set(err, WEFT_FORMAT, "the name of tensor '%s' is too long", own);
        weft_status status = llm_bind_tensor(b->source, name, t, b->used, err);
        if (status == WEFT_OK) status = check_shape(b->params, slot, t, err);
        if (status == WEFT_OK) status = list_tensor(m, t, false, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* Where the matrices of a stack lie in a single tensor. */
typedef struct stack_place {
    uint64_t rows, cols;           /* of a matrix */
    uint64_t block, before, every; /* as stack_source has them */
    bool is_vector, by_columns;
} stack_place;

static stack_place place_of(const model_params *p, const model_slot *slot,
                            const stack_source *source, const tensor *all)
{
    bool is_vector = slot->rows == SHAPE_NONE;
    stack_place at = {.rows = is_vector ? 1 : model_field(p, slot->rows),
                      .cols = model_field(p, slot->cols),
                      .every = source->every == 0 ? 1 : source->every,
                      .is_vector = is_vector};
    uint64_t wanted = is_vector ? at.cols : at.rows;
    at.block = source->block == SHAPE_NONE ? wanted : model_field(p, source->block);
    at.before = source->before == SHAPE_NONE ? 0 : model_field(p, source->before);
    at.by_columns = is_vector || (source->turned && tensor_is_plain(all));
    ASSERT(at.before + (wanted - 1) * at.every < at.block);
    return at;
}

static weft_status take_matrix(const tensor *all, const stack_place *at, uint64_t i, tensor *t,
                               weft_error *err)
{
    uint64_t first = i * at->block + at->before;
    if (!at->by_columns) return tensor_every(all, first, at->every, at->rows, t, err);
    tensor_grid grid = {.first = first, .n_rows = at->rows, .n_cols = at->cols};
    grid.row_step = at->is_vector ? at->block : at->every;
    grid.col_step = at->is_vector ? at->every : at->block;
    if (!at->is_vector) grid.first = i * at->block * at->cols + at->before;
    *t = tensor_pick(all, grid);
    return WEFT_OK;
}

/* Rows of a single tensor, or columns. */
static weft_status bind_together(binder *b, const model_slot *slot, const stack_source *source,
                                 const char *name, weft_error *err)
{
    llm *m = b->m;
    uint64_t count = matrices_of(b->params, slot);
    tensor all;
    weft_status status = llm_bind_tensor(b->source, name, &all, b->used, err);
    if (status != WEFT_OK) return status;
    stack_place at = place_of(b->params, slot, source, &all);
    uint64_t rows = !at.by_columns ? at.block : at.is_vector ? 1 : at.cols;
    uint64_t cols = at.by_columns ? at.block : at.cols;
    if (all.n_rows != count * rows || all.n_cols != cols) {
        return err_set(
            err, WEFT_FORMAT, "tensor '%s' is [%llu, %llu], expected %llu matrices of [%llu, %llu]",
            name, (unsigned long long)all.n_rows, (unsigned long long)all.n_cols,
            (unsigned long long)count, (unsigned long long)rows, (unsigned long long)cols);
    }
    if (at.is_vector && !tensor_is_plain(&all)) {
        return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' is %s, expected f32, f16 or bf16", name,
                       all.encoding->name);
    }
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++)
        status = take_matrix(&all, &at, i, &m->tensors[m->n_tensors + i], err);
    return status == WEFT_OK ? list_tensor(m, &all, true, err) : status;
}

static weft_status bind_stack(binder *b, uint32_t slot_i, uint32_t layer,
                              const stack_source *sources, uint32_t n_sources, weft_error *err)
{
    llm *m = b->m;
    const model_slot *slot = &b->family->slots[slot_i];
    char name[NAME_BYTES];
    bool there;
    const stack_source *source = find_source(b, slot, layer, sources, n_sources, name, &there);
    if (source == NULL || !is_wanted(b, slot, there)) return WEFT_OK;
    if (matrices_of(b->params, slot) == 1 && source->block == SHAPE_NONE)
        return bind_matrix(b, slot_i, layer, name, err);
    const char *own = own_name(b, source->hf_name, source->gguf_name);
    weft_status status = strstr(own, "%u") != NULL ? bind_apart(b, slot, layer, own, err)
                                                   : bind_together(b, slot, source, name, err);
    if (status != WEFT_OK) return status;
    b->bound[model_bound_at(b->params, slot_i, layer)] = m->n_tensors + 1;
    m->n_tensors += matrices_of(b->params, slot);
    return WEFT_OK;
}

/* ---- all of them ---- */

static bool has_layer(const binder *b, const model_slot *slot, uint32_t layer)
{
    if (slot->layers == 0) return true;
    size_t offset = slot->layers / 2 - 1;
    const bool *is = (const bool *)(const void *)((const char *)b->params + offset);
    return is[layer] == (slot->layers % 2 == 0);
}

static weft_status bind_slot(binder *b, uint32_t slot_i, uint32_t layer, weft_error *err)
{
    const model_slot *slot = &b->family->slots[slot_i];
    char name[NAME_BYTES];
    if (!has_layer(b, slot, layer)) return WEFT_OK;
    if (slot->place == SLOT_DRAFT && b->params->draft_root == NULL) return WEFT_OK;
    size_t other = model_bound_at(b->params, slot->unless, layer);
    if (slot->unless != 0 && b->bound[other] != 0) return WEFT_OK;
    stack_source plain;
    uint32_t n;
    const stack_source *sources = slot_sources(b->family, slot_i, &plain, &n);
    if (slot->stack != NULL || sources->block != SHAPE_NONE)
        return bind_stack(b, slot_i, layer, sources, n, err);
    const char *own = own_name(b, sources->hf_name, sources->gguf_name);
    if (own == NULL || !place_name(b, own, slot, layer, 0, name)) return WEFT_OK;
    bool there = llm_has_tensor(b->source, name);
    if (is_wanted(b, slot, there)) return bind_matrix(b, slot_i, layer, name, err);
    /* A tied model may carry its output matrix all the same: it is the embedding. */
    bool head = slot->place == SLOT_HEAD && slot->optional;
    bool ignored = there && (slot->unused || head);
    tensor t;
    if (ignored) return llm_bind_tensor(b->source, name, &t, b->used, err);
    return head ? check_tied(b, name, err) : WEFT_OK;
}

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    if (pattern[0] == '*') return str_ends(str_of(name), pattern + 1);
    if (n > 0 && pattern[n - 1] == '*') return strncmp(name, pattern, n - 1) == 0;
    return strcmp(pattern, name) == 0;
}

/* Whether a tensor belongs to one of the layers behind the last one. */
static bool is_later(const binder *b, const char *name)
{
    char start[NAME_BYTES];
    const model_params *p = b->params;
    snprintf(start, sizeof start, "%s%s", b->source->is_gguf ? "blk." : b->root,
             b->source->is_gguf ? "" : "layers.");
    size_t n = strlen(start);
    if (strncmp(name, start, n) != 0 || name[n] < '0' || name[n] > '9') return false;
    uint64_t layer = 0;
    for (; name[n] >= '0' && name[n] <= '9' && layer <= MODEL_MATRICES; n++)
        layer = layer * 10 + (uint64_t)(name[n] - '0');
    return layer >= p->n_layers && layer - p->n_layers < p->n_later;
}

static bool matches_any(const char *const *patterns, const char *name)
{
    bool found = false;
    for (; patterns != NULL && *patterns != NULL && !found; patterns++)
        found = matches(*patterns, name);
    return found;
}

/* Whether a tensor is left out knowingly. Of a head that is read nothing is; tensors of a tower
 * that is not there are, those of one that is have their slots. */
static bool is_dropped(const binder *b, const char *name)
{
    const char *draft = b->params->draft_root;
    if (draft != NULL && strncmp(name, draft, strlen(draft)) == 0) return false;
    bool dropped = is_later(b, name) || matches_any(b->family->drop, name);
    const model_family *const *tower = b->m->tower.family == NULL ? b->family->towers : NULL;
    for (; !dropped && tower != NULL && *tower != NULL; tower++)
        dropped = matches_any((*tower)->drop, name);
    return dropped;
}
static weft_status check_leftovers(const binder *b, weft_error *err)
{
    const weights *w = b->source->weights;
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        if (b->used[i] || is_dropped(b, w->tensors[i].name)) continue;
        return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has no place in architecture %s",
                       w->tensors[i].name, b->family->name);
    }
    return WEFT_OK;
}

/* Frequency divisors that a GGUF file brings as a tensor. */
static weft_status tensor_factors(const binder *b, const tensor *t, float *values, uint32_t n_pairs,
                                  weft_error *err)
{
    if (t->encoding == NULL || t->n_rows != 1 || t->n_cols != n_pairs) {
        return err_set(err, WEFT_FORMAT, "tensor '%s' is [%llu, %llu], expected [%u]", t->name,
                       (unsigned long long)t->n_rows, (unsigned long long)t->n_cols, n_pairs);
    }
    t->encoding->decode_row(t, 0, values);
    for (uint32_t i = 0; i < n_pairs; i++) {
        if (!(values[i] > 0.0F))
            return err_set(err, WEFT_FORMAT, "tensor '%s' has a value of %g", t->name,
                           (double)values[i]);
    }
    b->used[t - b->source->weights->tensors] = true;
    return WEFT_OK;
}

/* Those of Llama 3 in GGUF files, or of a long rope: *factors stays NULL where there are none. */
static weft_status rope_factors(const binder *b, const float **factors, weft_error *err)
{
    static const char *const NAMES[] = {"rope_freqs.weight", ROPE_SHORT_TENSOR, ROPE_LONG_TENSOR};
    const rope_params *rope = &b->params->ropes[0];
    const weights *w = b->source->weights;
    bool is_long = rope->kind == ROPE_LONG;
    size_t which = !is_long ? 0 : rope_is_long(rope) ? 2 : 1;
    const tensor *t = b->source->is_gguf ? weights_find(w, NAMES[which]) : NULL;
    uint32_t n_pairs = (rope->n_dims != 0 ? rope->n_dims : b->params->rope_dims) / 2;
    *factors = NULL;
    if (t == NULL && !is_long) return WEFT_OK;
    if (t == NULL && b->source->is_gguf)
        return err_set(err, WEFT_FORMAT, "tensor '%s' is missing", NAMES[which]);
    float *values = arena_array(&b->m->arena, n_pairs, sizeof *values);
    if (values == NULL) return err_set(err, WEFT_NOMEM, "out of memory for rope factors");
    *factors = values;
    if (t == NULL) return rope_long_factors(rope, b->source, values, n_pairs, err);
    for (size_t i = 1; i < COUNT_OF(NAMES) && is_long; i++) {
        const tensor *other = weights_find(w, NAMES[i]);
        if (other != NULL) b->used[other - w->tensors] = true;
    }
    return tensor_factors(b, t, values, n_pairs, err);
}

/* Without images positions are all there is, but for an assistant. */
static weft_status make_rope(const binder *b, uint32_t i, const float *factors, graph_rope *rope,
                             weft_error *err)
{
    const model_params *p = b->params;
    arena *a = &b->m->arena;
    uint32_t n_dims = p->ropes[i].n_dims != 0 ? p->ropes[i].n_dims : p->rope_dims;
    bool other = p->ropes[0].kind == ROPE_LONG && p->ropes[i].kind != ROPE_LONG;
    if (other || p->ropes[i].no_factors) factors = NULL;
    bool interleaved = p->rope_interleaved != p->ropes[i].other_pairs;
    weft_status status = rope_table(rope, a, &p->ropes[i], n_dims, interleaved, factors, err);
    bool places = b->m->tower.family != NULL || p->is_assistant;
    if (status != WEFT_OK || !places) return status;
    return rope_axes_table(rope, a, &p->ropes[i], err);
}

static weft_status bind_all(binder *b, graph_rope *ropes, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t slot_i = 0; slot_i < b->family->n_slots && status == WEFT_OK; slot_i++) {
        const model_slot *slot = &b->family->slots[slot_i];
        if (slot->hf_name == NULL && slot->gguf_name == NULL) continue;
        uint32_t n = slot->place == SLOT_LAYER ? model_all_layers(b->params) : 1;
        for (uint32_t layer = 0; layer < n && status == WEFT_OK; layer++) {
            status = bind_slot(b, slot_i, layer, err);
        }
    }
    const float *factors = NULL;
    if (status == WEFT_OK) status = rope_factors(b, &factors, err);
    for (uint32_t i = 0; i < b->params->n_ropes && status == WEFT_OK; i++) {
        status = make_rope(b, i, factors, &ropes[i], err);
    }
    return status;
}

/* Tensors there may be at most, those of stacks one by one. */
static uint64_t count_matrices(const model_family *f, const model_params *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; f != NULL && i < f->n_slots; i++) {
        const model_slot *slot = &f->slots[i];
        uint64_t n_times = slot->place == SLOT_LAYER ? model_all_layers(p) : 1;
        n += n_times * matrices_of(p, slot);
    }
    return n;
}

const model_family *llm_find_tower(const llm *m, const model_source *source)
{
    const model_family *const *tower = m->family->towers;
    for (; tower != NULL && *tower != NULL && !source->is_gguf; tower++) {
        binder b = {.family = *tower, .source = source};
        const model_slot *first = &b.family->slots[0];
        char name[NAME_BYTES];
        find_root(&b);
        if (place_name(&b, first->hf_name, first, 0, 0, name) && llm_has_tensor(source, name))
            return *tower;
    }
    return NULL;
}

static weft_status bind_both(llm *m, const model_source *source, bool *used, weft_error *err)
{
    llm_tower *t = &m->tower;
    binder b = {.m = m, .family = m->family, .params = &m->params, .bound = m->bound};
    binder tower = {.m = m, .family = t->family, .params = &t->params, .bound = t->bound};
    b.source = tower.source = source;
    b.used = tower.used = used;
    find_root(&b);
    weft_status status = bind_all(&b, m->ropes, err);
    if (status == WEFT_OK && t->family != NULL) {
        find_root(&tower);
        status = bind_all(&tower, t->ropes, err);
    }
    return status == WEFT_OK ? check_leftovers(&b, err) : status;
}

weft_status llm_bind(llm *m, const model_source *source, weft_error *err)
{
    llm_tower *t = &m->tower;
    size_t n_bound = model_bound_at(&m->params, m->family->n_slots, 0);
    size_t n_tower = t->family == NULL ? 0 : model_bound_at(&t->params, t->family->n_slots, 0);
    size_t n_used = (size_t)source->weights->n_tensors + 1; /* never 0 */
    uint64_t n_matrices =
        count_matrices(m->family, &m->params) + count_matrices(t->family, &t->params);
    if (n_matrices > MODEL_MATRICES) {
        return err_set(err, WEFT_LIMIT, "a model of %llu matrices, at most %d",
                       (unsigned long long)n_matrices, MODEL_MATRICES);
    }
    m->bound = arena_array(&m->arena, n_bound, sizeof *m->bound);
    t->bound = arena_array(&m->arena, n_tower + 1, sizeof *t->bound);
    m->tensors = arena_array(&m->arena, (size_t)n_matrices, sizeof *m->tensors);
    m->listed = arena_array(&m->arena, (size_t)n_matrices, sizeof *m->listed);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    m->labels = arena_array(&m->arena, (size_t)n_matrices, sizeof *m->labels);
    bool *used = mem_alloc_zero(m->env.allocator, n_used);
    weft_status status;
    if (!m->bound || !t->bound || !m->tensors || !m->listed || !m->labels || used == NULL) {
        status = err_set(err, WEFT_NOMEM, "out of memory for %zu tensors", (size_t)n_matrices);
    } else {
        status = bind_both(m, source, used, err);
    }
    mem_free(m->env.allocator, used, n_used);
    return status;
}
