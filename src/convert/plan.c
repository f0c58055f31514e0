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

enum { NAME_BYTES = 512, ROUTER_BITS = 8, ROUTER_GROUP = 64 };

typedef struct planner {
    plan *p;
    arena *arena;
    recipe *recipe;
    encoding_id type;
    uint32_t *n_whole; /* [n_slots]: layers of a slot that stay numbers */
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

/* The name in MLX's files, without root and layer. */
static const char *own_name(const model_slot *slot)
{
    if (slot->stack == NULL) return slot->hf_name;
    for (uint32_t i = 0; i < slot->stack->n_sources; i++) {
        const stack_source *source = &slot->stack->sources[i];
        bool whole = source->hf_name != NULL && source->block == SHAPE_NONE &&
                     strstr(source->hf_name, "%u") == NULL;
        if (whole && str_ends(str_of(source->hf_name), ".weight")) return source->hf_name;
    }
    return NULL;
}

static const char *full_name(const planner *x, const model_slot *slot, const char *own,
                             uint32_t layer)
{
    char name[NAME_BYTES];
    const char *root = x->p->root;
    int n = 0;
    if (slot->place == SLOT_LAYER) {
        n = snprintf(name, sizeof name, "%slayers.%u.%s", root, layer, own);
    } else if (slot->place == SLOT_MODEL) {
        n = snprintf(name, sizeof name, "%s%s", root, own);
    } else {
        /* Beside the model, which is the last word of its root. */
        size_t n_root = strlen(root) - strlen("model.");
        n = snprintf(name, sizeof name, "%.*s%s", (int)n_root, root, own);
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

static void set_dims(plan_tensor *t, const model_slot *slot)
{
    const tensor *first = &t->parts[0];
    uint64_t rows = t->turned ? first->n_cols : first->n_rows;
    t->n_cols = t->turned ? first->n_rows : first->n_cols;
    t->n_rows = rows * t->n_parts;
    uint32_t n = 0;
    if (slot->stack != NULL) t->dims[n++] = t->n_parts;
    if (slot->rows != SHAPE_NONE) t->dims[n++] = rows;
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
static recipe_choice choose(planner *x, const model_slot *slot, const char *path, uint32_t layer,
                            bool *ruled)
{
    static const recipe_choice KEEP = {.keep = true};
    *ruled = false;
    bool matrix = slot->rows != SHAPE_NONE && !slot->squeeze && (slot->mlx & MLX_KEEP) == 0;
    if (!matrix) return KEEP;
    uint32_t n_layers = x->p->model->params.n_layers;
    uint32_t of = slot->place == SLOT_LAYER ? layer : MODULE_NO_LAYER;
    recipe_choice c = recipe_find(x->recipe, path, of, n_layers, ruled);
    if (*ruled || (slot->mlx & MLX_8_BITS) == 0) return c;
    return (recipe_choice){
        .encoding = &ENCODING_AFFINE, .bits = ROUTER_BITS, .group = ROUTER_GROUP};
}

static bool same_choice(const recipe_choice *a, const recipe_choice *b)
{
    return a->encoding == b->encoding && a->bits == b->bits && a->group == b->group;
}

static weft_status set_form(planner *x, const model_slot *slot, uint32_t slot_i, uint32_t layer,
                            plan_tensor *t, weft_error *err)
{
    encoding_id type = natural_type(&t->parts[0]);
    if (x->type != ENCODING_ID_NONE && (slot->mlx & MLX_TYPE) == 0) type = x->type;
    const char *own = own_name(slot);
    t->name = full_name(x, slot, own, layer);
    str name = str_of(t->name == NULL ? "" : t->name);
    size_t n_path = name.len - (str_ends(name, ".weight") ? strlen(".weight") : 0);
    const char *path = arena_copy_text(x->arena, name.ptr, n_path);
    if (t->name == NULL || path == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a name");
    bool ruled;
    recipe_choice c = choose(x, slot, path, layer, &ruled);
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

/* What an MLX_TURNED slot has, under the name and with the rows of the slot that it stands for. */
static const model_slot *written_as(const model_family *family, const model_slot *slot)
{
    return (slot->mlx & MLX_TURNED) != 0 ? &family->slots[slot->unless] : slot;
}

static weft_status add_slot(planner *x, uint32_t slot_i, uint32_t layer, weft_error *err)
{
    const llm *m = x->p->model;
    const model_slot *slot = &m->family->slots[slot_i];
    uint32_t bound = m->bound[(size_t)slot_i * m->params.n_layers + layer];
    if (bound == 0) return WEFT_OK;
    plan_tensor *t = &x->p->tensors[x->p->n_tensors];
    *t = (plan_tensor){.parts = &m->tensors[bound - 1], .n_parts = 1};
    if (slot->stack != NULL) t->n_parts = model_field(&m->params, slot->stack->count);
    t->turned = (slot->mlx & MLX_TURNED) != 0;
    const model_slot *as = written_as(m->family, slot);
    if (own_name(as) == NULL) {
        return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has no name in MLX's form",
                       t->parts[0].name);
    }
    set_dims(t, as);
    t->add = norm_difference(x, as);
    weft_status status = set_halves(x, as, t, err);
    if (status == WEFT_OK) status = set_form(x, as, slot_i, layer, t, err);
    if (status != WEFT_OK) return status;
    /* No overflow: the source has as many numbers in files. */
    x->p->n_params += t->n_rows * t->n_cols;
    x->p->n_tensors++;
    return WEFT_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static weft_status add_place(planner *x, slot_place place, uint32_t layer, weft_error *err)
{
    const model_family *family = x->p->model->family;
    weft_status status = WEFT_OK;
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
        const model_slot *slot = written_as(m->family, &m->family->slots[i]);
        log_write(m->env.log, WEFT_LOG_WARN,
                  "%s stays as numbers in %u %s: groups do not divide its columns", own_name(slot),
                  x->n_whole[i], x->n_whole[i] == 1 ? "place" : "places");
    }
    for (uint32_t i = 0; i < x->recipe->n_rules; i++) {
        if (x->recipe->rules[i].used) continue;
        log_write(m->env.log, WEFT_LOG_WARN, "rule %u of the recipe, '%s', matches nothing", i + 1,
                  x->recipe->rules[i].match);
    }
}

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
    p->tensors = arena_array(a, (size_t)n_slots * n_layers, sizeof *p->tensors);
    if (x.n_whole == NULL || p->tensors == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a plan of %u layers", n_layers);
    status = add_place(&x, SLOT_MODEL, 0, err);
    for (uint32_t layer = 0; layer < n_layers && status == WEFT_OK; layer++)
        status = add_place(&x, SLOT_LAYER, layer, err);
    uint32_t n_before = p->n_tensors;
    if (status == WEFT_OK) status = add_place(&x, SLOT_HEAD, 0, err);
    p->tied = p->n_tensors == n_before;
    if (status == WEFT_OK) tell(&x);
    return status;
}
