/* embedding.c - how a checkpoint's vectors are made: what sentence-transformers' files in its
 * folder say, or GGUF's pooling_type; without them as its family is used, brought to length 1.
 *
 * modules.json is a list of what a text goes through: the model, pooling, and perhaps more, each
 * with a folder. Nothing of it stops a model from opening: who names pooling and normalizing does
 * not need it. */
#include <string.h>

#include "base/assert.h"
#include "models/model.h"

/* The last part of a module's type. */
static str kind_of(const json *module)
{
    str type = json_text(json_get(module, "type"));
    for (size_t i = type.len; i > 0; i--) {
        if (type.ptr[i - 1] == '.') return (str){type.ptr + i, type.len - i};
    }
    return type;
}

static int shown(str text)
{
    return (int)(text.len < 64 ? text.len : 64);
}

/* Parses a file of the checkpoint; doc's root stays NULL when it is not there. folder: NULL, or
 * where it lies. */
static weft_status read_doc(const llm *m, const char *folder, const char *name, json_doc *doc,
                            weft_error *err)
{
    char *text;
    size_t n_bytes;
    weft_status status =
        folder == NULL
            ? weights_read_sibling(m->weights, name, WEIGHTS_CONFIG_BYTES, &text, &n_bytes, err)
            : weights_read_nested(m->weights, folder, name, WEIGHTS_CONFIG_BYTES, &text, &n_bytes,
                                  err);
    if (status != WEFT_OK || text == NULL) return status;
    status = json_parse(doc, text, n_bytes, err);
    mem_free(m->env.allocator, text, n_bytes + 1);
    if (status != WEFT_OK) err_context(err, "%s: ", name);
    return status;
}

/* ---- pooling --------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    weft_pooling pooling; /* DEFAULT: not supported */
} MODES[] = {
    {"pooling_mode_cls_token", WEFT_POOLING_FIRST},
    {"pooling_mode_mean_tokens", WEFT_POOLING_MEAN},
    {"pooling_mode_lasttoken", WEFT_POOLING_LAST},
    {"pooling_mode_max_tokens", WEFT_POOLING_DEFAULT},
    {"pooling_mode_mean_sqrt_len_tokens", WEFT_POOLING_DEFAULT},
    {"pooling_mode_weightedmean_tokens", WEFT_POOLING_DEFAULT},
};

static weft_status take_pooling(model_embedding *v, uint32_t n_embd, const json *config,
                                weft_error *err)
{
    double width = json_number(json_get(config, "word_embedding_dimension"), (double)n_embd);
    if (width != (double)n_embd) {
        return err_set(err, WEFT_FORMAT, "word_embedding_dimension is %g, the model's width is %u",
                       width, n_embd);
    }
    if (!json_bool(json_get(config, "include_prompt"), true))
        return err_set(err, WEFT_UNSUPPORTED, "include_prompt false is not supported");
    const char *chosen = NULL;
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        if (!json_bool(json_get(config, MODES[i].key), false)) continue;
        if (MODES[i].pooling == WEFT_POOLING_DEFAULT)
            return err_set(err, WEFT_UNSUPPORTED, "%s is not supported", MODES[i].key);
        if (chosen != NULL) {
            return err_set(err, WEFT_UNSUPPORTED, "%s and %s together are not supported", chosen,
                           MODES[i].key);
        }
        chosen = MODES[i].key;
        v->pooling = MODES[i].pooling;
    }
    return chosen != NULL ? WEFT_OK
                          : err_set(err, WEFT_UNSUPPORTED, "no known pooling_mode_ is set");
}

static weft_status read_pooling(llm *m, model_embedding *v, const json *module, weft_error *err)
{
    char folder[256];
    str path = json_text(json_get(module, "path"));
    if (path.len >= sizeof folder || memchr(path.ptr, 0, path.len) != NULL)
        return err_set(err, WEFT_FORMAT, "modules.json: a path of %zu bytes", path.len);
    memcpy(folder, path.ptr, path.len);
    folder[path.len] = '\0';
    json_doc doc = {NULL};
    weft_status status = read_doc(m, folder, "config.json", &doc, err);
    if (status == WEFT_OK && json_kind_of(doc.root) != JSON_KIND_OBJECT)
        status = err_set(err, WEFT_FORMAT, "there is no object in it, or no such file");
    if (status == WEFT_OK) status = take_pooling(v, m->params.n_embd, doc.root, err);
    json_doc_free(&doc);
    if (status != WEFT_OK) err_context(err, "%s/config.json: ", folder);
    return status;
}

/* ---- modules --------------------------------------------------------------------------------- */

/* The model itself, then pooling, then what may be left out. */
static weft_status take_module(llm *m, model_embedding *v, const json *module, size_t i,
                               weft_error *err)
{
    str kind = kind_of(module);
    if (i == 0 && str_equal_text(kind, "Transformer")) {
        str path = json_text(json_get(module, "path"));
        if (path.len == 0) return WEFT_OK;
        return err_set(err, WEFT_UNSUPPORTED, "modules.json: a model in '%.*s' is not supported",
                       shown(path), path.ptr);
    }
    if (i == 1 && str_equal_text(kind, "Pooling")) return read_pooling(m, v, module, err);
    if (i > 1 && str_equal_text(kind, "Normalize")) {
        v->normalize = true;
        return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "modules.json: module %zu, '%.*s', is not supported", i,
                   shown(kind), kind.ptr);
}

static weft_status read_modules(llm *m, model_embedding *v, weft_error *err)
{
    json_doc doc = {NULL};
    weft_status status = read_doc(m, NULL, "modules.json", &doc, err);
    if (status == WEFT_OK && doc.root != NULL) {
        size_t n = json_length(doc.root);
        v->normalize = false;
        if (json_kind_of(doc.root) != JSON_KIND_ARRAY || n < 2)
            status = err_set(err, WEFT_FORMAT, "modules.json: expected an array of 2 or more");
        for (size_t i = 0; i < n && status == WEFT_OK; i++)
            status = take_module(m, v, json_at(doc.root, i), i, err);
    }
    json_doc_free(&doc);
    return status;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static weft_status read_type(const model_source *source, model_embedding *v, weft_error *err)
{
    /* 0 is "none": for every token, which whoever wants it can say. */
    static const weft_pooling TYPES[] = {WEFT_POOLING_TOKENS, WEFT_POOLING_MEAN, WEFT_POOLING_FIRST,
                                         WEFT_POOLING_LAST};
    bool found;
    double type = 0.0;
    weft_status status = source_number(source, NULL, "pooling_type", &found, &type, err);
    if (status != WEFT_OK || !found || type == 0.0) return status;
    for (size_t i = 1; i < COUNT_OF(TYPES); i++) {
        if (type != (double)i) continue;
        v->pooling = TYPES[i];
        return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "pooling_type %g is not supported", type);
}

weft_status llm_read_embedding(llm *m, const model_source *source, weft_error *err)
{
    model_embedding v = {.pooling = m->params.sees_all ? WEFT_POOLING_MEAN : WEFT_POOLING_LAST,
                         .normalize = true};
    weft_status status =
        source->is_gguf ? read_type(source, &v, &v.error) : read_modules(m, &v, &v.error);
    if (status == WEFT_NOMEM || status == WEFT_IO)
        return err_set(err, status, "%s", v.error.message);
    m->embedding = v;
    return WEFT_OK;
}
