/* spec.h - how keys and values are to be stored, as text: a codec for either side, and rules for
 * layers that differ. */
#ifndef KV_SPEC_H
#define KV_SPEC_H

#include "backend/kv_view.h"
#include "base/err.h"
#include "kv/codecs/codec.h"

enum {
    KV_RULES_MOST = 32,                     /* rules of a spec */
    KV_SPEC_TEXT = 64 + 32 * KV_RULES_MOST, /* room for any spec as text */
};

/* What layers first .. last store instead; below 0 they are counted from the end, -1 is the last.
 * NULL: that side is as in other layers. */
typedef struct kv_rule {
    int32_t first, last;
    const kv_codec *k, *v;
} kv_rule;

/* Codecs of the two sides. */
typedef struct kv_spec {
    const kv_codec *k, *v;
    const kv_codec *index; /* of index layers; NULL: the base */
    uint8_t base;          /* the dense type that rows are rounded to before they are packed */
    uint32_t start; /* a sequence is in base until it has so many positions; 0: it never is */
    uint32_t n_model_layers; /* what rules count in; 0: the layers that there are states of */
    uint32_t n_rules;
    kv_rule rules[KV_RULES_MOST];
} kv_spec;

/* Pieces with commas between them: "NAME", "turbo-kAvB" for k=tkA,v=tvB, or "k=NAME,v=NAME" in
 * either order; "index=NAME"; "start=N"; and rules, "LAYERS=NAME", "LAYERS.k=NAME" or
 * "LAYERS.v=NAME" with LAYERS one number or FIRST..LAST. fallback: a dense codec, the base, for a
 * side that is not named; for both when text is NULL. ARGUMENT names a codec that is not known or
 * not for its side and what cannot be read, UNSUPPORTED a setting, LIMIT too many rules. */
weft_status kv_spec_parse(const char *text, const char *fallback, kv_spec *spec, weft_error *err);

/* "bf16", "turbo-k8v4" or "k=bf16,v=f16", with ",index=NAME" and ",start=N" behind it where there
 * are such and the rules as they came: it is parsed as the same spec. */
void kv_spec_print(const kv_spec *spec, char *text, size_t capacity);

/* What one of n_layers stores: a spec without rules. Those are not for index layers, which stand
 * behind the model's own. */
void kv_spec_at(const kv_spec *spec, const kv_layer *l, uint32_t layer, uint32_t n_layers,
                kv_spec *own);

/* Of a latent what is key and value at once is packed, once; the rest of a key, which has the
 * positions in it, stays in base. */
static inline uint32_t kv_coded_columns(const kv_spec *own, const kv_layer *l)
{
    bool part = l->layout == KV_LAYOUT_LATENT && own->k->kind != KV_DENSE;
    return part ? l->v_dim : l->k_dim;
}

/* UNSUPPORTED names a layer whose heads a codec cannot store, or a latent one, which has one record
 * for keys and values: turbo, and codecs that differ, are not for it; or a codec that no layer
 * would take: recurrent ones keep their own numbers, and few models have an index. ARGUMENT names a
 * layer of a rule that the model lacks, that stores no keys and values of its own, or that two
 * rules are for. */
weft_status kv_spec_check(const kv_spec *spec, const kv_layer *layers, uint32_t n_layers,
                          weft_error *err);

#endif
