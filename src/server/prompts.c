/* prompts.c - texts and tokens out of JSON. */
#include "server/prompts.h"

#include "base/mem.h"
#include "server/ids.h"

/* A string, or an array of token ids. */
static weft_status read_prompt(const json *value, generation_prompt *p, const char *name,
                               char *param, weft_error *err)
{
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_ARRAY && json_length(value) > 0)
        return ids_read(value, name, SIZE_MAX, &p->ids, &p->n_ids, param, err);
    if (kind != JSON_KIND_TEXT)
        return field_wrong(param, name, err, "is no string, nor an array of strings or tokens");
    p->text = json_text(value);
    return WEFT_OK;
}

weft_status prompts_read(generation *g, const json *value, const char *name, char *param,
                         weft_error *err)
{
    bool many = json_kind_of(value) == JSON_KIND_ARRAY && json_length(value) > 0 &&
                json_kind_of(json_at(value, 0)) != JSON_KIND_INT;
    size_t n = many ? json_length(value) : 1;
    if (value == NULL) return field_wrong(param, name, err, "is missing");
    if (n > GENERATION_PROMPTS)
        return field_wrong(param, name, err, "has %zu prompts, at most %d can be", n,
                           GENERATION_PROMPTS);
    g->prompts = mem_alloc_zero(mem_system(), n * sizeof *g->prompts);
    if (g->prompts == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu prompts", n);
    g->n_prompts = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json *one = many ? json_at(value, i) : value;
        weft_status status = read_prompt(one, &g->prompts[i], name, param, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}
