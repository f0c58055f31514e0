/* spec.c - codec specs: parsing, printing, and what layers of a model say to them. */
#include "kv/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

/* ---- parsing --------------------------------------------------------------------------------- */

static weft_status unknown_codec(const char *name, size_t n, weft_error *err)
{
    char known[200] = "";
    size_t used = 0;
    size_t count;
    const kv_codec *table = kv_codec_table(&count);
    for (size_t i = 0; i < count && used < sizeof known; i++) {
        int m =
            snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", table[i].name);
        used += m < 0 ? 0 : (size_t)m;
    }
    return err_set(err, WEFT_ARGUMENT, "unknown kv codec '%.*s', expected one of %s or turbo-kAvB",
                   (int)(n < 40 ? n : 40), name, known);
}

static const char TURBO[] = "turbo-k";
static const char START[] = "start=";
static const char INDEX[] = "index=";

/* "turbo-kAvB": the codec of one side, whose name is its prefix and the digit. */
static weft_status turbo_side(const char *name, const char *prefix, char digit,
                              const kv_codec **codec, weft_error *err)
{
    char row[4] = {prefix[0], prefix[1], digit, '\0'};
    *codec = kv_codec_by_name(row, 3);
    if (*codec != NULL) return WEFT_OK;
    bool key = prefix[1] == 'k';
    return err_set(err, WEFT_ARGUMENT, "kv codec '%.10s': %s bits %c, expected %s", name,
                   key ? "key" : "value", digit, key ? "2, 4, 5 or 8" : "2, 3, 4, 5 or 8");
}

static bool is_turbo(const char *name, size_t n)
{
    size_t digit = sizeof TURBO - 1;
    return n == digit + 3 && memcmp(name, TURBO, digit) == 0 && name[digit] >= '0' &&
           name[digit] <= '9' && name[digit + 1] == 'v' && name[digit + 2] >= '0' &&
           name[digit + 2] <= '9';
}

/* A name by itself: a codec for both sides, or the pair of two. */
static weft_status parse_pair(const char *name, size_t n, kv_spec *pair, weft_error *err)
{
    if (is_turbo(name, n)) {
        size_t digit = sizeof TURBO - 1;
        weft_status status = turbo_side(name, "tk", name[digit], &pair->k, err);
        if (status == WEFT_OK) status = turbo_side(name, "tv", name[digit + 2], &pair->v, err);
        return status;
    }
    const kv_codec *codec = kv_codec_by_name(name, n);
    if (codec == NULL) return unknown_codec(name, n, err);
    if (codec->sides != (KV_FOR_K | KV_FOR_V)) {
        char side = codec->sides == KV_FOR_K ? 'k' : 'v';
        return err_set(err, WEFT_ARGUMENT, "kv codec '%s' is for %s only, expected %c=%s",
                       codec->name, side == 'k' ? "keys" : "values", side, codec->name);
    }
    pair->k = pair->v = codec;
    return WEFT_OK;
}

/* The name of one side. */
static weft_status parse_side(const char *name, size_t n, uint8_t side, const kv_codec **codec,
                              weft_error *err)
{
    if (is_turbo(name, n)) {
        return err_set(err, WEFT_ARGUMENT,
                       "kv codec '%.*s' names both sides, expected t%c with a "
                       "number of bits",
                       (int)n, name, side == KV_FOR_K ? 'k' : 'v');
    }
    *codec = kv_codec_by_name(name, n);
    if (*codec == NULL) return unknown_codec(name, n, err);
    if (((*codec)->sides & side) == 0) {
        return err_set(err, WEFT_ARGUMENT, "kv codec '%s' is not for %s", (*codec)->name,
                       side == KV_FOR_K ? "keys" : "values");
    }
    return WEFT_OK;
}

/* "start=N". */
static weft_status parse_start(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    uint64_t value = 0;
    bool digits = n > sizeof START - 1;
    for (size_t i = sizeof START - 1; i < n && digits; i++) {
        digits = piece[i] >= '0' && piece[i] <= '9';
        value = value * 10 + (uint64_t)(piece[i] - '0');
        if (value > UINT32_MAX) digits = false;
    }
    if (!digits) {
        return err_set(err, WEFT_ARGUMENT, "kv spec: '%.*s', expected start= and a number up to %u",
                       (int)(n < 64 ? n : 64), piece, UINT32_MAX);
    }
    if (spec->start != 0) return err_set(err, WEFT_ARGUMENT, "kv spec names start twice");
    spec->start = (uint32_t)value;
    return WEFT_OK;
}

/* "index=NAME": those layers have keys alone. */
static weft_status parse_index(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    size_t at = sizeof INDEX - 1;
    if (spec->index != NULL) return err_set(err, WEFT_ARGUMENT, "kv spec names index twice");
    return parse_side(piece + at, n - at, KV_FOR_K, &spec->index, err);
}

/* A layer's number: up to LAYER_DIGITS digits, with - in front counted from the end. */
enum { LAYER_DIGITS = 5 };

static bool parse_layer(const char **at, const char *end, int32_t *layer)
{
    const char *p = *at;
    bool from_end = p < end && *p == '-';
    if (from_end) p++;
    const char *digits = p;
    int32_t value = 0;
    while (p < end && *p >= '0' && *p <= '9' && p - digits < LAYER_DIGITS)
        value = value * 10 + (*p++ - '0');
    if (p == digits || (from_end && value == 0)) return false;
    *layer = from_end ? -value : value;
    *at = p;
    return true;
}

/* "LAYERS", then what stands before the '=': "", ".k", ".v" or ".start". */
static bool parse_layers(const char *text, const char *end, kv_rule *rule, str *setting)
{
    if (!parse_layer(&text, end, &rule->first)) return false;
    rule->last = rule->first;
    if (end - text > 2 && text[0] == '.' && text[1] == '.') {
        text += 2;
        if (!parse_layer(&text, end, &rule->last)) return false;
    }
    *setting = (str){text, (size_t)(end - text)};
    return true;
}

static weft_status parse_rule(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    const char *equals = memchr(piece, '=', n);
    kv_rule rule = {0};
    str setting;
    int shown = (int)(n < 64 ? n : 64);
    bool read = equals != NULL && parse_layers(piece, equals, &rule, &setting);
    if (read && str_equal_text(setting, ".start")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "kv spec: '%.*s': a layer cannot have a start of its own", shown, piece);
    }
    bool key = read && str_equal_text(setting, ".k");
    bool value = read && str_equal_text(setting, ".v");
    if (!read || (setting.len > 0 && !key && !value)) {
        return err_set(err, WEFT_ARGUMENT,
                       "kv spec: '%.*s', expected layers such as 5 or 0..1 or -2..-1, .k or .v for "
                       "one side, and =NAME",
                       shown, piece);
    }
    str name = {equals + 1, n - (size_t)(equals + 1 - piece)};
    kv_spec named = {0};
    weft_status status;
    if (key || value) {
        status = parse_side(name.ptr, name.len, key ? KV_FOR_K : KV_FOR_V,
                            key ? &named.k : &named.v, err);
    } else {
        status = parse_pair(name.ptr, name.len, &named, err);
    }
    if (status != WEFT_OK) return status;
    if (spec->n_rules == KV_RULES_MOST) {
        return err_set(err, WEFT_LIMIT, "kv spec: more than %d rules for layers", KV_RULES_MOST);
    }
    rule.k = named.k;
    rule.v = named.v;
    spec->rules[spec->n_rules++] = rule;
    return WEFT_OK;
}

static bool names_layers(const char *piece, size_t n)
{
    return n > 0 && (piece[0] == '-' || (piece[0] >= '0' && piece[0] <= '9'));
}

/* One piece of a spec: [side=]name, start=number or a rule. */
static weft_status parse_piece(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    if (n >= sizeof START - 1 && memcmp(piece, START, sizeof START - 1) == 0) {
        return parse_start(piece, n, spec, err);
    }
    if (n >= sizeof INDEX - 1 && memcmp(piece, INDEX, sizeof INDEX - 1) == 0) {
        return parse_index(piece, n, spec, err);
    }
    if (names_layers(piece, n)) return parse_rule(piece, n, spec, err);
    kv_spec named = {0};
    weft_status status;
    const char *equals = memchr(piece, '=', n);
    if (equals == NULL) {
        status = parse_pair(piece, n, &named, err);
    } else if (equals - piece == 1 && (piece[0] == 'k' || piece[0] == 'v')) {
        bool key = piece[0] == 'k';
        status = parse_side(equals + 1, n - 2, key ? KV_FOR_K : KV_FOR_V, key ? &named.k : &named.v,
                            err);
    } else {
        return err_set(
            err, WEFT_UNSUPPORTED,
            "kv spec: '%.*s' is not supported, expected k=NAME, v=NAME, index=NAME, start=N or "
            "LAYERS=NAME",
            (int)(n < 64 ? n : 64), piece);
    }
    if (status != WEFT_OK) return status;
    if ((named.k != NULL && spec->k != NULL) || (named.v != NULL && spec->v != NULL)) {
        return err_set(err, WEFT_ARGUMENT, "kv spec names a side twice");
    }
    if (named.k != NULL) spec->k = named.k;
    if (named.v != NULL) spec->v = named.v;
    return WEFT_OK;
}

weft_status kv_spec_parse(const char *text, const char *fallback, kv_spec *spec, weft_error *err)
{
    *spec = (kv_spec){0};
    kv_spec parsed = {0};
    const char *piece = text == NULL ? fallback : text;
    for (;;) {
        size_t n = strcspn(piece, ",");
        weft_status status = parse_piece(piece, n, &parsed, err);
        if (status != WEFT_OK) return status;
        if (piece[n] == '\0') break;
        piece += n + 1;
    }
    const kv_codec *base = kv_codec_by_name(fallback, strlen(fallback));
    if (parsed.k == NULL) parsed.k = base;
    if (parsed.v == NULL) parsed.v = base;
    parsed.base = base->id;
    *spec = parsed;
    return WEFT_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Text that grows as far as there is room. */
typedef struct cut_text {
    char *at;
    size_t room;
} cut_text;

static ERR_PRINTF(2, 3) void add(cut_text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->at, t->room, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (t->room > 0 && used >= t->room) used = t->room - 1;
    t->at += used;
    t->room -= used;
}

/* The codecs of both sides by one name, where they have one. */
static bool add_pair(cut_text *t, const kv_codec *k, const kv_codec *v)
{
    if (k == v) {
        add(t, "%s", k->name);
    } else if (k->kind == KV_TK && v->kind == KV_TV) {
        add(t, "%s%uv%u", TURBO, k->bits, v->bits);
    } else {
        return false;
    }
    return true;
}

static void add_rule(cut_text *t, const kv_rule *rule)
{
    add(t, rule->first == rule->last ? ",%d" : ",%d..%d", rule->first, rule->last);
    if (rule->k == NULL) {
        add(t, ".v=%s", rule->v->name);
    } else if (rule->v == NULL) {
        add(t, ".k=%s", rule->k->name);
    } else {
        add(t, "=");
        bool one = add_pair(t, rule->k, rule->v);
        ASSERT(one); /* two names are two rules */
    }
}

void kv_spec_print(const kv_spec *spec, char *text, size_t capacity)
{
    cut_text t = {text, capacity};
    if (capacity > 0) text[0] = '\0';
    if (!add_pair(&t, spec->k, spec->v)) add(&t, "k=%s,v=%s", spec->k->name, spec->v->name);
    if (spec->index != NULL) add(&t, ",%s%s", INDEX, spec->index->name);
    if (spec->start != 0) add(&t, ",%s%u", START, spec->start);
    for (uint32_t i = 0; i < spec->n_rules; i++) add_rule(&t, &spec->rules[i]);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static uint32_t model_layers(const kv_spec *spec, uint32_t n_layers)
{
    return spec->n_model_layers != 0 ? spec->n_model_layers : n_layers;
}

/* A layer of a rule counted from the front; below 0 when there are not so many. */
static int64_t from_front(int32_t layer, uint32_t n)
{
    return layer < 0 ? (int64_t)n + layer : layer;
}

void kv_spec_at(const kv_spec *spec, const kv_layer *l, uint32_t layer, uint32_t n_layers,
                kv_spec *own)
{
    uint32_t n = model_layers(spec, n_layers);
    *own = (kv_spec){.k = spec->k, .v = spec->v, .base = spec->base, .start = spec->start};
    if (l->layout == KV_LAYOUT_INDEX) {
        own->k = own->v = spec->index != NULL ? spec->index : kv_codec_by_id(spec->base);
        return;
    }
    for (uint32_t i = 0; i < spec->n_rules; i++) {
        const kv_rule *rule = &spec->rules[i];
        if (layer < from_front(rule->first, n) || layer > from_front(rule->last, n)) continue;
        if (rule->k != NULL) own->k = rule->k;
        if (rule->v != NULL) own->v = rule->v;
    }
}

static weft_status check_rule(const kv_rule *rule, const kv_layer *layers, uint32_t n_layers,
                              uint32_t n, weft_error *err)
{
    int64_t first = from_front(rule->first, n);
    int64_t last = from_front(rule->last, n);
    bool has_first = first >= 0 && first < n;
    if (!has_first || last < 0 || last >= n) {
        return err_set(err, WEFT_ARGUMENT, "kv override for layer %d: the model has %u layers",
                       has_first ? rule->last : rule->first, n);
    }
    if (first > last) {
        return err_set(err, WEFT_ARGUMENT,
                       "kv override for layers %d..%d: the first is behind the last", rule->first,
                       rule->last);
    }
    for (uint32_t i = (uint32_t)first; i <= (uint32_t)last; i++) {
        if (i >= n_layers || layers[i].layout == KV_LAYOUT_INDEX) {
            return err_set(err, WEFT_ARGUMENT,
                           "kv override for layer %u: layer %u shares keys and values of another",
                           i, i);
        }
        if (layers[i].layout == KV_LAYOUT_RECURRENT) {
            return err_set(err, WEFT_ARGUMENT, "kv override for layer %u: layer %u is recurrent", i,
                           i);
        }
    }
    return WEFT_OK;
}

/* No layer has two rules for a side, so that their order says nothing. */
static weft_status check_overlap(const kv_rule *a, const kv_rule *b, uint32_t n, weft_error *err)
{
    int64_t first = from_front(a->first, n);
    int64_t last = from_front(a->last, n);
    if (from_front(b->first, n) > first) first = from_front(b->first, n);
    if (from_front(b->last, n) < last) last = from_front(b->last, n);
    bool keys = a->k != NULL && b->k != NULL;
    bool values = a->v != NULL && b->v != NULL;
    if (first > last || (!keys && !values)) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "kv override for layer %u: its %s are named twice",
                   (uint32_t)first, keys ? "keys" : "values");
}

static weft_status check_rules(const kv_spec *spec, const kv_layer *layers, uint32_t n_layers,
                               weft_error *err)
{
    uint32_t n = model_layers(spec, n_layers);
    for (uint32_t i = 0; i < spec->n_rules; i++) {
        weft_status status = check_rule(&spec->rules[i], layers, n_layers, n, err);
        for (uint32_t k = 0; k < i && status == WEFT_OK; k++)
            status = check_overlap(&spec->rules[k], &spec->rules[i], n, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status check_dim(const kv_codec *codec, uint32_t layer_i, uint32_t dim, weft_error *err)
{
    if (kv_codec_takes(codec, dim)) return WEFT_OK;
    if (dim % codec->unit != 0) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "kv codec '%s': layer %u has heads of %u, not a multiple of %u", codec->name,
                       layer_i, dim, codec->unit);
    }
    return err_set(err, WEFT_UNSUPPORTED, "kv codec '%s': layer %u has heads of %u, at most %d",
                   codec->name, layer_i, dim, KV_PACKED_MOST);
}

/* Turbo has a codec for either side, neither of which is good for both. */
static weft_status check_latent(const kv_spec *spec, uint32_t layer_i, weft_error *err)
{
    char name[64];
    bool turbo = spec->k->kind == KV_TK || spec->v->kind == KV_TV;
    if (!turbo && spec->k == spec->v) return WEFT_OK;
    kv_spec_print(spec, name, sizeof name);
    return err_set(err, WEFT_UNSUPPORTED,
                   "kv codec '%s': layer %u stores one latent for keys and values; use %s", name,
                   layer_i, turbo ? "affine8g64 or bf16" : "one codec for both");
}

/* Whether the heads of layer i can be stored so. */
static weft_status check_layer(const kv_spec *spec, const kv_layer *l, uint32_t i,
                               uint32_t n_layers, weft_error *err)
{
    kv_spec own;
    weft_status status = WEFT_OK;
    kv_spec_at(spec, l, i, n_layers, &own);
    if (l->layout == KV_LAYOUT_INDEX) return check_dim(own.k, l->of, l->k_dim, err);
    if (l->layout == KV_LAYOUT_LATENT) status = check_latent(&own, i, err);
    if (status == WEFT_OK) status = check_dim(own.k, i, kv_coded_columns(&own, l), err);
    return status == WEFT_OK ? check_dim(own.v, i, l->v_dim, err) : status;
}

weft_status kv_spec_check(const kv_spec *spec, const kv_layer *layers, uint32_t n_layers,
                          weft_error *err)
{
    weft_status status = check_rules(spec, layers, n_layers, err);
    if (status != WEFT_OK) return status;
    uint32_t n_taking = 0;
    uint32_t n_indices = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        if (layers[i].layout == KV_LAYOUT_RECURRENT) continue;
        status = check_layer(spec, &layers[i], i, n_layers, err);
        if (status != WEFT_OK) return status;
        n_taking++;
        n_indices += layers[i].layout == KV_LAYOUT_INDEX;
    }
    if (spec->index != NULL && n_indices == 0) {
        return err_set(err, WEFT_UNSUPPORTED, "kv codec '%s%s': none of %u layers has an index",
                       INDEX, spec->index->name, n_layers);
    }
    bool is_base = spec->k->id == spec->base && spec->v->id == spec->base;
    if (n_taking > 0 || is_base) return WEFT_OK;
    char text[64];
    kv_spec_print(spec, text, sizeof text);
    return err_set(err, WEFT_UNSUPPORTED, "kv codec '%s': none of %u layers stores keys and values",
                   text, n_layers);
}
