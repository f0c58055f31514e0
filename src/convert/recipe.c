/* recipe.c - rules by module path and layer. */
#include "convert/recipe.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { SHOWN_BYTES = 64, LAYER_MOST = 1 << 20 };

/* A mode of MLX: its encoding, and what it has where nothing is said. */
typedef struct mode {
    const char *name;
    const encoding *encoding;
    uint32_t bits, group;
} mode;

static const mode MODES[] = {
    {"affine", &ENCODING_AFFINE, 4, 64},
    {"mxfp4", &ENCODING_MXFP4_PLANES, 4, 32},
    {"mxfp8", &ENCODING_MXFP8_PLANES, 8, 32},
    {"nvfp4", &ENCODING_NVFP4_PLANES, 4, 16},
};

const char *recipe_mode_name(const encoding *e)
{
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        if (MODES[i].encoding == e) return MODES[i].name;
    }
    return NULL;
}

static const mode *find_mode(str name)
{
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        if (str_equal_text(name, MODES[i].name)) return &MODES[i];
    }
    return NULL;
}

static weft_status choose(recipe_choice *choice, const mode *m, uint32_t bits, uint32_t group,
                          weft_status status, weft_error *err)
{
    if (bits == 0) bits = m->bits;
    if (group == 0) group = m->group;
    bool affine = m->encoding == &ENCODING_AFFINE;
    bool ok =
        affine ? bits >= 2 && bits <= 8 && bits != 7 && (group == 32 || group == 64 || group == 128)
               : bits == m->bits && group == m->group;
    if (!ok && affine) {
        return err_set(err, status,
                       "affine has 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128, not %u bits "
                       "in groups of %u",
                       bits, group);
    }
    if (!ok) {
        return err_set(err, status, "%s has %u bits in groups of %u, not %u in groups of %u",
                       m->name, m->bits, m->group, bits, group);
    }
    *choice = (recipe_choice){.encoding = m->encoding, .bits = bits, .group = group};
    return WEFT_OK;
}

weft_status recipe_choose(recipe_choice *choice, const char *mode_name, uint32_t bits,
                          uint32_t group, weft_error *err)
{
    const mode *m = find_mode(str_of(mode_name == NULL ? "affine" : mode_name));
    if (m != NULL) return choose(choice, m, bits, group, WEFT_ARGUMENT, err);
    return err_set(err, WEFT_ARGUMENT, "mode '%.*s', expected affine, mxfp4, nvfp4 or mxfp8",
                   SHOWN_BYTES, mode_name);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A whole number of a rule; left alone when absent. */
static weft_status read_number(const json *object, const char *key, uint32_t *number,
                               weft_error *err)
{
    const json *value = json_get(object, key);
    if (value == NULL) return WEFT_OK;
    int64_t n = json_int(value, 0);
    if (n < 1 || n > 1024)
        return err_set(err, WEFT_FORMAT, "'%s' is no number from 1 to 1024", key);
    *number = (uint32_t)n;
    return WEFT_OK;
}

static weft_status read_layers(recipe_rule *rule, const json *value, weft_error *err)
{
    if (value == NULL) return WEFT_OK;
    int64_t first = json_int(json_at(value, 0), INT64_MAX);
    int64_t last = json_int(json_at(value, 1), INT64_MAX);
    bool ok = json_kind_of(value) == JSON_KIND_ARRAY && json_length(value) == 2;
    ok = ok && first >= -LAYER_MOST && first <= LAYER_MOST && last >= -LAYER_MOST &&
         last <= LAYER_MOST;
    if (!ok)
        return err_set(err, WEFT_FORMAT, "'layers' is not the first and the last, as in [0, -1]");
    rule->first = (int32_t)first;
    rule->last = (int32_t)last;
    rule->has_layers = true;
    return WEFT_OK;
}

static weft_status read_match(recipe_rule *rule, arena *a, const json *value, weft_error *err)
{
    str text = json_text(value);
    if (json_kind_of(value) != JSON_KIND_TEXT || text.len == 0 || text.len > RECIPE_PATTERN_BYTES ||
        memchr(text.ptr, '\0', text.len) != NULL) {
        return err_set(err, WEFT_FORMAT, "'match' is not a pattern of 1 to %d bytes",
                       RECIPE_PATTERN_BYTES);
    }
    rule->match = arena_copy_text(a, text.ptr, text.len);
    return rule->match != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for a rule");
}

/* A number that a rule leaves out is the usual one, where it is of the usual mode. */
static weft_status read_choice(const recipe *r, recipe_rule *rule, const json *object,
                               weft_error *err)
{
    const json *keep = json_get(object, "keep");
    const json *name = json_get(object, "mode");
    uint32_t bits = 0;
    uint32_t group = 0;
    weft_status status = read_number(object, "bits", &bits, err);
    if (status == WEFT_OK) status = read_number(object, "group", &group, err);
    if (status != WEFT_OK) return status;
    if (keep != NULL && json_kind_of(keep) != JSON_KIND_BOOL)
        return err_set(err, WEFT_FORMAT, "'keep' is neither true nor false");
    rule->choice.keep = json_bool(keep, false);
    if (rule->choice.keep) {
        if (bits == 0 && group == 0 && name == NULL) return WEFT_OK;
        return err_set(err, WEFT_FORMAT, "what is kept has no 'bits', 'group' or 'mode'");
    }
    const mode *m = name == NULL ? find_mode(str_of(recipe_mode_name(r->usual.encoding)))
                                 : find_mode(json_text(name));
    if (m == NULL) return err_set(err, WEFT_FORMAT, "'mode' is not affine, mxfp4, nvfp4 or mxfp8");
    if (m->encoding == r->usual.encoding) {
        if (bits == 0) bits = r->usual.bits;
        if (group == 0) group = r->usual.group;
    }
    return choose(&rule->choice, m, bits, group, WEFT_FORMAT, err);
}

static weft_status check_keys(const json *object, const char *const *known, weft_error *err)
{
    json_iter iter = {0};
    str key;
    const json *value;
    while (json_next(object, &iter, &key, &value)) {
        bool found = false;
        for (size_t i = 0; known[i] != NULL; i++) found = found || str_equal_text(key, known[i]);
        if (found) continue;
        int n = (int)(key.len < SHOWN_BYTES ? key.len : SHOWN_BYTES);
        return err_set(err, WEFT_FORMAT, "'%.*s' is not known", n, key.ptr);
    }
    return WEFT_OK;
}

static weft_status read_rule(const recipe *r, recipe_rule *rule, arena *a, const json *object,
                             weft_error *err)
{
    static const char *const KEYS[] = {"match", "layers", "bits", "group", "mode", "keep", NULL};
    if (json_kind_of(object) != JSON_KIND_OBJECT)
        return err_set(err, WEFT_FORMAT, "it is %s, expected an object",
                       json_kind_name(json_kind_of(object)));
    weft_status status = check_keys(object, KEYS, err);
    if (status == WEFT_OK) status = read_match(rule, a, json_get(object, "match"), err);
    if (status == WEFT_OK) status = read_layers(rule, json_get(object, "layers"), err);
    return status == WEFT_OK ? read_choice(r, rule, object, err) : status;
}

static weft_status read_rules(recipe *r, arena *a, const json *root, weft_error *err)
{
    static const char *const KEYS[] = {"rules", NULL};
    const json *rules = json_get(root, "rules");
    size_t n = json_length(rules);
    weft_status status = check_keys(root, KEYS, err);
    if (status != WEFT_OK) return status;
    if (json_kind_of(rules) != JSON_KIND_ARRAY)
        return err_set(err, WEFT_FORMAT, "it is not an object with an array 'rules'");
    if (n > RECIPE_RULES) return err_set(err, WEFT_LIMIT, "%zu rules, at most %d", n, RECIPE_RULES);
    r->rules = arena_array(a, n, sizeof *r->rules);
    if (r->rules == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu rules", n);
    for (size_t i = 0; i < n; i++) {
        status = read_rule(r, &r->rules[i], a, json_at(rules, i), err);
        if (status != WEFT_OK) {
            err_context(err, "rule %zu: ", i + 1);
            return status;
        }
    }
    r->n_rules = (uint32_t)n;
    return WEFT_OK;
}

weft_status recipe_read(recipe *r, arena *a, const char *text, size_t n_bytes, weft_error *err)
{
    json_doc doc;
    weft_status status = WEFT_OK;
    r->rules = NULL;
    r->n_rules = 0;
    if (n_bytes > RECIPE_BYTES)
        status = err_set(err, WEFT_LIMIT, "it has %zu bytes, at most %d", n_bytes, RECIPE_BYTES);
    if (status == WEFT_OK) status = json_parse(&doc, text, n_bytes, err);
    if (status == WEFT_OK) {
        status = read_rules(r, a, doc.root, err);
        json_doc_free(&doc);
    }
    if (status != WEFT_OK) {
        r->n_rules = 0;
        err_context(err, "recipe: ");
    }
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Steps through both together; behind a "*" that did not fit, one more byte is its. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL;
    const char *behind = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            behind = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++behind;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

static bool has_layer(const recipe_rule *rule, uint32_t layer, uint32_t n_layers)
{
    if (!rule->has_layers) return true;
    if (layer == MODULE_NO_LAYER) return false;
    int64_t first = rule->first < 0 ? (int64_t)n_layers + rule->first : rule->first;
    int64_t last = rule->last < 0 ? (int64_t)n_layers + rule->last : rule->last;
    return layer >= first && layer <= last;
}

recipe_choice recipe_find(recipe *r, const char *path, uint32_t layer, uint32_t n_layers,
                          bool *ruled)
{
    for (uint32_t i = 0; i < r->n_rules; i++) {
        recipe_rule *rule = &r->rules[i];
        if (!has_layer(rule, layer, n_layers) || !matches(rule->match, path)) continue;
        rule->used = true;
        *ruled = true;
        return rule->choice;
    }
    *ruled = false;
    return r->usual;
}
