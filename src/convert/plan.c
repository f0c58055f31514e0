/* plan.c - slots of an opened model to tensors of MLX's form.
 *
 * The family's rows say what is stored and under which name; what MLX has otherwise is their field
 * mlx. A stack is one tensor here, under the name of that source of its which is one: a whole
 * tensor called .weight. */
#include "convert/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "models/parts.h"

enum { NAME_BYTES = 512, ROUTER_BITS = 8, ROUTER_GROUP = 64, JOINED = 4 };

/* A tensor that slots of a layer have parts of. */
typedef struct joined {
    const char *own; /* its name, without root and layer */
    uint32_t tensor_i;
    tensor *parts; /* [JOINED] */
} joined;

typedef struct planner {
    plan *p;
    arena *arena;
    recipe *recipe;
    encoding_id type;
    uint32_t *n_whole;     /* [n_slots]: layers of a slot that stay numbers */
    joined joined[JOINED]; /* of this layer */
    uint32_t n_joined;
} planner;

/* ---- what the family says -------------------------------------------------------------------- */

static weft_status find_type(plan *p, weft_error *err)
{
    const llm *m = p->model;
    p->mlx = m->family->mlx;
    if (p->mlx == NULL) {
        return err_set(err, WEFT_UNSUPPORTED, "architecture %s cannot be converted",
                       m->family->name);
    }
    /* Of a family's architectures the first one is what its first type is. */
    bool other = p->source.is_gguf && !str_equal_text(p->source.type, m->family->gguf_types[0]);
    if (p->source.is_gguf && (p->mlx->only_json || other)) {
        return err_set(err, WEFT_UNSUPPORTED, "a GGUF file of '%.*s' cannot be converted",
                       (int)(p->source.type.len < 64 ? p->source.type.len : 64),
                       p->source.type.ptr);
    }
    str type = p->source.is_gguf ? (str){"", 0} : json_text(json_get(p->source.top, "model_type"));
    if (type.len == 0 && !p->source.is_gguf) type = p->source.type;
    p->root = "model.";
    p->mlx_type = m->family->hf_types[0];
    const char *const *own = m->family->hf_types;
    for (; p->mlx->types == NULL && *own != NULL; own++) {
        if (str_equal_text(type, *own)) p->mlx_type = *own;
    }
    if (p->mlx->types == NULL) return WEFT_OK;
    const mlx_type *t = p->mlx->types;
    while (t->hf != NULL && !p->source.is_gguf && !str_equal_text(type, t->hf)) t++;
    if (t->hf == NULL) {
        return err_set(err, WEFT_UNSUPPORTED, "model_type '%.*s' cannot be converted",
                       (int)(type.len < 64 ? type.len : 64), type.ptr);
    }
    p->root = t->root;
    p->mlx_type = t->mlx;
    return WEFT_OK;
}

/* Whether all of the source is what the slot has. */
static bool is_whole(const stack_source *source)
{
    str name = str_of(source->hf_name == NULL ? "" : source->hf_name);
    bool named = str_ends(name, ".weight") || str_ends(name, ".bias");
    return named && source->block == SHAPE_NONE;
}

/* Where the slot's tensor lies in MLX's files; NULL when there is no such place. plain is room for
 * one. */
static const stack_source *own_source(const planner *x, uint32_t slot_i, stack_source *plain)
{
    const model_family *f = x->p->model->family;
    const model_slot *slot = &f->slots[slot_i];
    const model_stack *stack = slot->stack;
    for (uint32_t i = 0; i < f->n_names; i++) {
        if (f->names[i].slot != slot_i) continue;
        if (f->names[i].stack == NULL) return &f->names[i].source;
        stack = f->names[i].stack;
    }
    if (stack == NULL) {
        *plain = (stack_source)STACK_SOURCE(slot->hf_name, NULL, SHAPE_NONE, SHAPE_NONE);
        return plain;
    }
    bool fused = slot_i < 32 && (x->p->mlx->fused >> slot_i & 1u) != 0;
    for (uint32_t i = 0; i < stack->n_sources; i++) {
        const stack_source *source = &stack->sources[i];
        if (source->hf_name == NULL || strstr(source->hf_name, "%u") != NULL) continue;
        if (fused ? source->block != SHAPE_NONE : is_whole(source)) return source;
    }
    return NULL;
}

/* The whole name, with index for the "%u" in it. */
static const char *full_name(const planner *x, const model_slot *slot, const char *own,
                             uint32_t layer, uint32_t index)
{
    char name[NAME_BYTES];
    char one[NAME_BYTES];
    const char *root = x->p->root;
    const char *mark = strstr(own, "%u");
    int n = mark == NULL
                ? snprintf(one, sizeof one, "%s", own)
                : snprintf(one, sizeof one, "%.*s%u%s", (int)(mark - own), own, index, mark + 2);
    ASSERT(n > 0 && n < NAME_BYTES / 2);
    if (slot->place == SLOT_LAYER) {
        n = snprintf(name, sizeof name, "%.200slayers.%u.%.255s", root, layer, one);
    } else if (slot->place == SLOT_MODEL) {
        n = snprintf(name, sizeof name, "%.200s%.255s", root, one);
    } else {
        /* Beside the model, which is the last word of its root. */
        size_t n_root = strlen(root) - strlen("model.");
        n = snprintf(name, sizeof name, "%.*s%.255s", (int)n_root, root, one);
    }
    ASSERT(n > 0 && n < NAME_BYTES);
    return arena_copy_text(x->arena, name, (size_t)n);
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* The type that its numbers are best given in. */
static encoding_id natural_type(const tensor *t)
{
    encoding_id id = t->encoding->id;
    if (id == ENCODING_ID_F32 || id == ENCODING_ID_F16 || id == ENCODING_ID_BF16) return id;
    if (id == ENCODING_ID_AFFINE || id == ENCODING_ID_GPTQ || id == ENCODING_ID_AWQ)
        return (encoding_id)t->param_type;
    bool floats = id == ENCODING_ID_F8_E4M3 || t->encoding->plane_bits != 0;
    return floats ? ENCODING_ID_BF16 : ENCODING_ID_F32;
}

/* Vectors are one row, or one of each head. */
static bool is_vector(const model_slot *slot)
{
    return slot->rows == SHAPE_NONE || (slot->stack != NULL && slot->rows == SHAPE(one));
}

static void set_dims(plan_tensor *t, const model_slot *slot, bool apart)
{
    const tensor *first = &t->parts[0];
    uint64_t rows = t->turned ? first->n_cols : first->n_rows;
    t->n_cols = t->turned ? first->n_rows : first->n_cols;
    t->n_rows = rows * t->n_parts;
    uint32_t n = 0;
    bool many = slot->stack != NULL && slot->stack->count != SHAPE(one) && !apart;
    if (many) t->dims[n++] = t->n_parts;
    if (!is_vector(slot)) t->dims[n++] = rows;
    t->dims[n++] = t->n_cols;
    if (slot->squeeze) t->dims[n++] = 1;
    t->n_dims = n;
}

/* What is added to norm weights here and not there, or the other way round. */
static float norm_difference(const planner *x, const model_slot *slot)
{
    bool norm = slot->rows == SHAPE_NONE && slot->hf_name != NULL &&
                str_ends(str_of(slot->hf_name), "norm.weight");
    if (!norm || (slot->mlx & MLX_PLAIN_NORM) != 0) return 0.0F;
    return x->p->model->params.norm_add - x->p->mlx->norm_add;
}

static weft_status set_halves(const planner *x, const model_slot *slot, plan_tensor *t,
                              weft_error *err)
{
    const model_params *p = &x->p->model->params;
    if ((slot->mlx & MLX_HALVES) == 0 || !x->p->mlx->gguf_pairs || !x->p->source.is_gguf)
        return WEFT_OK;
    t->halves = p->head_dim;
    uint64_t n = slot->rows == SHAPE_NONE ? t->n_cols : t->n_rows;
    if (p->rope_dims == p->head_dim && n % p->head_dim == 0) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED,
                   "tensor '%s': heads of %u of which %u rotate cannot be put into MLX's order",
                   t->parts[0].name, p->head_dim, p->rope_dims);
}

/* Whether it is a matrix that MLX quantizes, and how. */
static recipe_choice choose(planner *x, uint32_t slot_i, const char *path, uint32_t layer,
                            bool *ruled)
{
    static const recipe_choice KEEP = {.keep = true};
    const model_slot *slot = &x->p->model->family->slots[slot_i];
    *ruled = false;
    bool matrix = !is_vector(slot) && !slot->squeeze && (slot->mlx & MLX_KEEP) == 0;
    if (!matrix) return KEEP;
    uint32_t n_layers = x->p->model->params.n_layers;
    uint32_t of = slot->place == SLOT_LAYER ? layer : MODULE_NO_LAYER;
    recipe_choice c = recipe_find(x->recipe, path, of, n_layers, ruled);
    bool eight = slot_i < 32 && (x->p->mlx->in_8_bits >> slot_i & 1u) != 0;
    if (*ruled || !(eight || (slot->mlx & MLX_8_BITS) != 0)) return c;
    return (recipe_choice){
        .encoding = &ENCODING_AFFINE, .bits = ROUTER_BITS, .group = ROUTER_GROUP};
}

static bool same_choice(const recipe_choice *a, const recipe_choice *b)
{
    return a->encoding == b->encoding && a->bits == b->bits && a->group == b->group;
}

/* The slot under whose name it is written: what an MLX_TURNED one has is that of another. */
static uint32_t written_as(const model_family *family, uint32_t slot_i)
{
    const model_slot *slot = &family->slots[slot_i];
    return (slot->mlx & MLX_TURNED) != 0 ? slot->unless : slot_i;
}

static weft_status set_form(planner *x, uint32_t slot_i, uint32_t layer, plan_tensor *t,
                            weft_error *err)
{
    uint32_t as = written_as(x->p->model->family, slot_i);
    const model_slot *slot = &x->p->model->family->slots[as];
    encoding_id type = natural_type(&t->parts[0]);
    if (x->type != ENCODING_ID_NONE && (slot->mlx & MLX_TYPE) == 0) type = x->type;
    str name = str_of(t->name);
    size_t n_path = name.len - (str_ends(name, ".weight") ? strlen(".weight") : 0);
    const char *path = arena_copy_text(x->arena, name.ptr, n_path);
    if (path == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a name");
    bool ruled;
    recipe_choice c = choose(x, as, path, layer, &ruled);
    t->form = (row_form){.encoding = encoding_by_id(type), .type = (uint8_t)type};
    if (c.keep) return WEFT_OK;
    if (t->n_cols % c.group != 0) {
        x->p->n_whole++;
        x->n_whole[slot_i]++;
        return WEFT_OK;
    }
    t->form.encoding = c.encoding;
    t->form.bits = c.bits;
    t->form.group = c.group;
    t->usual = same_choice(&c, &x->recipe->usual);
    t->name = path;
    x->p->n_codes++;
    return WEFT_OK;
}

/* A tensor of count matrices that begins with that of index. */
static weft_status add_tensor(planner *x, uint32_t slot_i, uint32_t layer, const char *own,
                              const tensor *parts, uint32_t count, uint32_t index, weft_error *err)
{
    const model_family *family = x->p->model->family;
    const model_slot *as = &family->slots[written_as(family, slot_i)];
    plan_tensor *t = &x->p->tensors[x->p->n_tensors];
    *t = (plan_tensor){.parts = parts, .n_parts = count};
    t->turned = (family->slots[slot_i].mlx & MLX_TURNED) != 0;
    t->name = full_name(x, as, own, layer, index);
    if (t->name == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a name");
    set_dims(t, as, strstr(own, "%u") != NULL);
    t->add = norm_difference(x, as);
    weft_status status = set_halves(x, as, t, err);
    if (status == WEFT_OK) status = set_form(x, slot_i, layer, t, err);
    if (status != WEFT_OK) return status;
    /* No overflow: the source has as many numbers in files. */
    x->p->n_params += t->n_rows * t->n_cols;
    x->p->n_tensors++;
    return WEFT_OK;
}

/* Rows of a tensor that several slots have parts of: behind those that are there, or the first. */
static weft_status join(planner *x, uint32_t slot_i, uint32_t layer, const char *own,
                        const tensor *part, weft_error *err)
{
    const model_slot *slot = &x->p->model->family->slots[slot_i];
    for (uint32_t i = 0; i < x->n_joined; i++) {
        plan_tensor *t = &x->p->tensors[x->joined[i].tensor_i];
        if (strcmp(x->joined[i].own, own) != 0) continue;
        ASSERT(t->n_parts < JOINED && t->n_cols == part->n_cols);
        x->joined[i].parts[t->n_parts++] = *part;
        t->n_rows += part->n_rows;
        t->dims[0] += part->n_rows;
        x->p->n_params += part->n_rows * part->n_cols;
        return WEFT_OK;
    }
    ASSERT(x->n_joined < JOINED && slot->place == SLOT_LAYER);
    tensor *parts = arena_array(x->arena, JOINED, sizeof *parts);
    if (parts == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a tensor");
    parts[0] = *part;
    x->joined[x->n_joined++] = (joined){.own = own, .tensor_i = x->p->n_tensors, .parts = parts};
    weft_status status = add_tensor(x, slot_i, layer, own, parts, 1, 0, err);
    x->p->tensors[x->p->n_tensors - 1].joined = status == WEFT_OK;
    return status;
}

static weft_status add_slot(planner *x, uint32_t slot_i, uint32_t layer, weft_error *err)
{
    const llm *m = x->p->model;
    const model_slot *slot = &m->family->slots[slot_i];
    uint32_t bound = m->bound[model_bound_at(&m->params, slot_i, layer)];
    if (bound == 0) return WEFT_OK;
    const tensor *parts = &m->tensors[bound - 1];
    uint32_t n = slot->stack == NULL ? 1 : model_field(&m->params, slot->stack->count);
    stack_source plain;
    const stack_source *source = own_source(x, written_as(m->family, slot_i), &plain);
    if (source == NULL || source->hf_name == NULL || (source->block != SHAPE_NONE && n > 1)) {
        return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has no place in MLX's form",
                       parts->name);
    }
    if (source->block != SHAPE_NONE) return join(x, slot_i, layer, source->hf_name, parts, err);
    if (strstr(source->hf_name, "%u") == NULL)
        return add_tensor(x, slot_i, layer, source->hf_name, parts, n, 0, err);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < n && status == WEFT_OK; i++)
        status = add_tensor(x, slot_i, layer, source->hf_name, parts + i, 1, i, err);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static weft_status add_place(planner *x, slot_place place, uint32_t layer, weft_error *err)
{
    const model_family *family = x->p->model->family;
    weft_status status = WEFT_OK;
    x->n_joined = 0;
    for (uint32_t i = 0; i < family->n_slots && status == WEFT_OK; i++) {
        if (family->slots[i].place == place) status = add_slot(x, i, layer, err);
    }
    return status;
}

static void tell(const planner *x)
{
    const llm *m = x->p->model;
    for (uint32_t i = 0; i < m->family->n_slots; i++) {
        if (x->n_whole[i] == 0) continue;
        stack_source plain;
        const stack_source *source = own_source(x, written_as(m->family, i), &plain);
        log_write(m->env.log, WEFT_LOG_WARN,
                  "%s stays as numbers in %u %s: groups do not divide its columns", source->hf_name,
                  x->n_whole[i], x->n_whole[i] == 1 ? "place" : "places");
    }
    for (uint32_t i = 0; i < x->recipe->n_rules; i++) {
        if (x->recipe->rules[i].used) continue;
        log_write(m->env.log, WEFT_LOG_WARN, "rule %u of the recipe, '%s', matches nothing", i + 1,
                  x->recipe->rules[i].match);
    }
}

/* A head that drafts is left out, as mlx-lm does. */
weft_status plan_make(plan *p, arena *a, const llm *model, recipe *r, encoding_id type,
                      weft_error *err)
{
    *p = (plan){.model = model};
    weft_status status = source_init(&p->source, model->weights, err);
    if (status == WEFT_OK) status = find_type(p, err);
    if (status != WEFT_OK) return status;
    planner x = {.p = p, .arena = a, .recipe = r, .type = type};
    uint32_t n_slots = model->family->n_slots;
    uint32_t n_layers = model->params.n_layers;
    x.n_whole = arena_array(a, n_slots, sizeof *x.n_whole);
    /* At most one for each matrix, in each place that is bound. */
    p->tensors = arena_array(a, (size_t)n_slots * n_layers + model->n_tensors, sizeof *p->tensors);
    if (x.n_whole == NULL || p->tensors == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a plan of %u layers", n_layers);
    status = add_place(&x, SLOT_MODEL, 0, err);
    for (uint32_t layer = 0; layer < n_layers && status == WEFT_OK; layer++)
        status = add_place(&x, SLOT_LAYER, layer, err);
    if (status == WEFT_OK) status = add_place(&x, SLOT_HEAD, 0, err);
    p->tied = model->bound[model_bound_at(&model->params, PART_HEAD, 0)] == 0;
    if (status == WEFT_OK) tell(&x);
    return status;
}
