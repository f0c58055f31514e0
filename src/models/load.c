/* load.c - opening a model: which family, its parameters, tensors, graph. */
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "models/assistant.h"
#include "models/config_kinds.h"
#include "models/quantization.h"

#define MODEL_FAMILY(name, NAME) extern const model_family MODEL_FAMILY_##NAME;
#include "models/families/families.def"
#undef MODEL_FAMILY

static const model_family *const FAMILIES[] = {
#define MODEL_FAMILY(name, NAME) &MODEL_FAMILY_##NAME,
#include "models/families/families.def"
#undef MODEL_FAMILY
};

const model_family *const *model_family_table(uint32_t *count)
{
    *count = COUNT_OF(FAMILIES);
    return FAMILIES;
}

static bool is_family(const model_family *f, const model_source *s, bool by_top)
{
    if (by_top != (f->by_top && !s->is_gguf)) return false;
    const char *const *type = s->is_gguf ? f->gguf_types : f->hf_types;
    while (*type != NULL && !str_equal_text(by_top ? s->top_type : s->type, *type)) type++;
    return *type != NULL;
}

static weft_status find_family(llm *m, const model_source *s, weft_error *err)
{
    for (size_t i = 0; i < 2 * COUNT_OF(FAMILIES); i++) {
        const model_family *f = FAMILIES[i % COUNT_OF(FAMILIES)];
        if (!is_family(f, s, i < COUNT_OF(FAMILIES))) continue;
        m->family = f;
        return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "architecture '%.*s' is not supported",
                   (int)(s->type.len < 64 ? s->type.len : 64), s->type.ptr);
}

graph_id build_slot(model_build *b, uint32_t slot, uint32_t layer)
{
    if (slot >= b->family->n_slots) return 0;
    uint32_t bound = b->bound[model_bound_at(b->p, slot, layer)];
    return bound == 0 ? 0 : graph_weight(b->g, bound - 1);
}

graph_id build_stack(model_build *b, uint32_t slot, uint32_t layer)
{
    const model_stack *stack = b->family->slots[slot].stack;
    uint32_t bound = b->bound[model_bound_at(b->p, slot, layer)];
    if (bound == 0) return 0;
    return graph_stack(b->g, bound - 1, model_field(b->p, stack->count));
}

float build_number(const model_build *b, uint32_t slot, uint32_t layer)
{
    uint32_t bound = b->bound[model_bound_at(b->p, slot, layer)];
    ASSERT(bound != 0);
    const tensor *t = &b->g->tensors[bound - 1];
    ASSERT(t->n_cols == 1);
    float number;
    t->encoding->decode_row(t, 0, &number);
    return number;
}

typedef void build_fn(model_build *b);

/* A graph of n_layers layers and what stands around them, built from what b has; its states are
 * described in *kv_layers. */
static weft_status build_graph(llm *m, model_build *b, build_fn *build, const graph_rope *ropes,
                               uint32_t n_layers, kv_layer **kv_layers, weft_error *err)
{
    enum { PER_LAYER = 96, BESIDES = 64 };
    uint32_t capacity = n_layers * PER_LAYER + BESIDES;
    graph_value *values = arena_array(&m->arena, capacity, sizeof *values);
    *kv_layers = arena_array(&m->arena, (size_t)2 * n_layers, sizeof **kv_layers);
    if (values == NULL || *kv_layers == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for the graph");
    graph_init(b->g, values, capacity, m->tensors, m->n_tensors);
    graph_set_ropes(b->g, ropes, b->p->n_ropes);
    b->kv_layers = *kv_layers;
    b->n_kv_layers = 0;
    build(b);
    return graph_status(b->g, err);
}

/* The head that drafts is given no images: it only guesses. */
static weft_status build_graphs(llm *m, weft_error *err)
{
    const model_params *p = &m->params;
    llm_tower *t = &m->tower;
    model_build b = {.g = &m->graph,
                     .p = p,
                     .family = m->family,
                     .bound = m->bound,
                     .images = t->family != NULL};
    weft_status status =
        build_graph(m, &b, m->family->build, m->ropes, p->n_layers, &m->kv_layers, err);
    m->n_kv_layers = b.n_kv_layers;
    if (p->is_assistant) {
        m->donor_layers = m->kv_layers;
        m->n_donor_layers = m->n_kv_layers;
        m->n_kv_layers = 0;
    }
    if (status == WEFT_OK && p->draft_root != NULL) {
        b.g = &m->draft;
        b.images = false;
        status = build_graph(m, &b, m->family->build_draft, m->ropes, p->n_draft_layers,
                             &m->draft_kv_layers, err);
        m->n_draft_kv_layers = b.n_kv_layers;
    }
    if (status != WEFT_OK || t->family == NULL) return status;
    t->tensors = m->tensors;
    b = (model_build){.g = &t->graph, .p = &t->params, .family = t->family, .bound = t->bound};
    status = build_graph(m, &b, t->family->build, t->ropes, t->params.n_layers, &t->kv_layers, err);
    t->n_kv_layers = b.n_kv_layers;
    return status;
}

static weft_status load(llm *m, weft_error *err)
{
    model_source source;
    weft_status status = source_init(&source, m->weights, err);
    if (status == WEFT_OK) status = find_family(m, &source, err);
    if (status == WEFT_OK) status = config_check_kinds(&source, err);
    if (status == WEFT_OK) status = quantization_check(&source, err);
    if (status == WEFT_OK) status = llm_read_params(m, &source, err);
    if (status == WEFT_OK) status = llm_read_tower(m, &source, err);
    if (status == WEFT_OK) status = llm_bind(m, &source, err);
    if (status == WEFT_OK) status = assistant_check(m, err);
    if (status == WEFT_OK) status = build_graphs(m, err);
    if (status == WEFT_OK) status = llm_read_generation(m, &source, err);
    if (status == WEFT_OK) status = llm_read_embedding(m, &source, err);
    if (status == WEFT_OK && m->tower.error.status != WEFT_OK)
        log_write(m->env.log, WEFT_LOG_WARN, "images cannot be read: %s", m->tower.error.message);
    return status;
}

weft_status llm_open(const env *in, const char *path, llm **out, weft_error *err)
{
    *out = NULL;
    llm *m = mem_alloc_zero(in->allocator, sizeof *m);
    if (m == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a model");
    m->env = *in;
    arena_init(&m->arena, in->allocator, 0);
    weft_status status = weights_open(in, path, &m->weights, err);
    if (status == WEFT_OK) status = load(m, err);
    if (status != WEFT_OK) {
        llm_close(m);
        return status;
    }
    *out = m;
    return WEFT_OK;
}

void llm_close(llm *m)
{
    if (m == NULL) return;
    const weft_allocator *allocator = m->env.allocator;
    arena_deinit(&m->arena);
    weights_close(m->weights);
    mem_free(allocator, m, sizeof *m);
}
