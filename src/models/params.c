/* params.c - a family's parameter rows, read from config.json or GGUF. */
#include <math.h>

#include "base/assert.h"
#include "models/config_kinds.h"
#include "models/dense.h"
#include "models/tower.h"

static weft_status out_of_range(const model_source *s, const model_param *row, double number,
                                weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "%s is %g, expected %g to %g",
                   s->is_gguf ? row->gguf_key : row->json_key, number, row->min, row->max);
}

static weft_status read_flag(const model_source *s, const model_param *row, bool *field,
                             weft_error *err)
{
    bool found;
    /* A GGUF file, which has no key for it, answers by what is in it. */
    bool silent = s->is_gguf && row->json_key != NULL && row->gguf_key == NULL;
    *field = row->fallback != 0.0 && !silent;
    return source_flag(s, row->json_key, row->gguf_key, &found, field, err);
}

static weft_status read_row(model_params *p, const model_source *s, const model_param *row,
                            weft_error *err)
{
    char *field = (char *)p + row->offset;
    if (row->type == PARAM_BOOL) return read_flag(s, row, (bool *)(void *)field, err);
    bool found;
    double number = row->fallback;
    weft_status status = source_number(s, row->json_key, row->gguf_key, &found, &number, err);
    if (status != WEFT_OK) return status;
    const char *key = s->is_gguf ? row->gguf_key : row->json_key;
    if (!found && row->required && key != NULL) {
        return err_set(err, WEFT_FORMAT, "%s has no %s", s->is_gguf ? "the file" : "config.json",
                       key);
    }
    if (found && !(number >= row->min && number <= row->max))
        return out_of_range(s, row, number, err);
    if (row->type == PARAM_F32) {
        *(float *)(void *)field = (float)number;
        return WEFT_OK;
    }
    if (number != floor(number)) return out_of_range(s, row, number, err);
    *(uint32_t *)(void *)field = (uint32_t)number;
    return WEFT_OK;
}

static weft_status read_rows(model_params *p, const model_source *s, const model_param *rows,
                             uint32_t n, weft_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        weft_status status = read_row(p, s, &rows[i], err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status refuse_causal(const model_source *source, const char *what, weft_error *err)
{
    return err_set(err, WEFT_UNSUPPORTED, "%s is not supported for '%.*s'", what,
                   (int)(source->type.len < 64 ? source->type.len : 64), source->type.ptr);
}

/* Gemma's: true, or "all" where images are not all that is meant. */
static weft_status check_bidirectional(const model_source *source, weft_error *err)
{
    static const char KEY[] = "use_bidirectional_attention";
    bool found;
    bool both = false;
    bool text = json_kind_of(json_get(source->config, KEY)) == JSON_KIND_TEXT;
    str of = text ? json_text(json_get(source->config, KEY)) : str_of("");
    weft_status status = text ? WEFT_OK : source_flag(source, KEY, NULL, &found, &both, err);
    if (status != WEFT_OK) return status;
    if (text) both = !str_equal_text(of, "vision");
    return both ? refuse_causal(source, KEY, err) : WEFT_OK;
}

/* Text is read from its beginning on, unless the family says otherwise. */
static weft_status check_causal(const model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    bool causal = true;
    if (p->sees_all) return WEFT_OK;
    weft_status status = source_flag(source, "is_causal", "attention.causal", &found, &causal, err);
    if (status != WEFT_OK) return status;
    if (!causal)
        return refuse_causal(source, source->is_gguf ? "attention.causal false" : "is_causal false",
                             err);
    return check_bidirectional(source, err);
}

/* They stand in prompts. */
static weft_status check_ids(const model_image *i, uint32_t n_vocab, weft_error *err)
{
    const int32_t ids[] = {i->token, i->begin, i->end, i->pad};
    for (size_t k = 0; k < COUNT_OF(ids); k++) {
        if (ids[k] < 0 || (uint32_t)ids[k] < n_vocab) continue;
        return err_set(err, WEFT_FORMAT,
                       "config.json: token id %d of images, the vocabulary has %u", ids[k],
                       n_vocab);
    }
    return WEFT_OK;
}

/* vision_config stands where a model's own parameters do. */
static weft_status read_tower(llm *m, const model_family *f, const model_source *source,
                              weft_error *err)
{
    llm_tower *t = &m->tower;
    model_source vision = *source;
    vision.config = json_get(source->top, "vision_config");
    t->params.image.n_out = m->params.n_embd;
    weft_status status = config_check_kinds(&vision, err);
    if (status == WEFT_OK) status = read_rows(&t->params, &vision, f->params, f->n_params, err);
    if (status == WEFT_OK) status = f->derive(&t->params, &vision, err);
    if (status == WEFT_OK) status = tower_read_settings(&t->params.image, &vision, err);
    if (status == WEFT_OK) status = check_ids(&t->params.image, m->params.n_vocab, err);
    if (status == WEFT_OK) t->family = f;
    return status;
}

weft_status llm_read_tower(llm *m, const model_source *source, weft_error *err)
{
    const json *config = source->is_gguf ? NULL : json_get(source->top, "vision_config");
    const model_family *f =
        json_kind_of(config) == JSON_KIND_OBJECT ? llm_find_tower(m, source) : NULL;
    if (f == NULL) return WEFT_OK;
    weft_error own = {WEFT_OK, ""};
    weft_status status = read_tower(m, f, source, &own);
    if (status == WEFT_OK) return WEFT_OK;
    if (status != WEFT_UNSUPPORTED && status != WEFT_FORMAT)
        return err_set(err, status, "%s", own.message);
    m->tower.error = own;
    return WEFT_OK;
}

const tensor *llm_tower_tensor(const llm_tower *tower, uint32_t slot)
{
    uint32_t bound = tower->bound[model_bound_at(&tower->params, slot, 0)];
    return bound == 0 ? NULL : &tower->tensors[bound - 1];
}

weft_status llm_read_params(llm *m, const model_source *source, weft_error *err)
{
    const model_family *f = m->family;
    model_params *p = &m->params;
    p->dense = f->dense;
    weft_status status = read_rows(p, source, f->params, f->n_params, err);
    if (status == WEFT_OK && f->dense != NULL)
        status = read_rows(p, source, f->dense->params, f->dense->n_params, err);
    if (status == WEFT_OK) status = f->derive(p, source, err);
    return status == WEFT_OK ? check_causal(p, source, err) : status;
}
