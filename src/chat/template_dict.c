/* template_dict.c - dicts in the order of insertion; an index is made once there are many keys. */
#include <string.h>

#include "base/hash.h"
#include "chat/template_render.h"

enum { FEW = 8 };

bool tpl_hashable(tpl_value v)
{
    if (v.kind == TPL_DICT) return false;
    if (v.kind != TPL_SEQ) return true;
    const tpl_seq *s = v.as.seq;
    if (s->flavour == TPL_RANGE || s->flavour == TPL_ITER) return true;
    if (s->flavour != TPL_TUPLE) return false;
    for (size_t i = 0; i < s->n; i++) {
        /* A tuple in a tuple in a tuple is nobody's key; refusing it keeps this from recursing far.
         * */
        tpl_value item = s->items[i];
        if (item.kind == TPL_SEQ && item.as.seq->flavour == TPL_TUPLE && item.as.seq->n > 0) {
            for (size_t j = 0; j < item.as.seq->n; j++) {
                tpl_value inner = item.as.seq->items[j];
                if (inner.kind == TPL_SEQ || inner.kind == TPL_DICT) return false;
            }
        } else if (!tpl_is_seq(item, TPL_TUPLE) &&
                   (item.kind == TPL_DICT || item.kind == TPL_SEQ)) {
            return false;
        }
    }
    return true;
}

/* Of a hashable value; equal values have equal hashes, so that 1, 1.0 and true are one key. */
static uint64_t hash_value(tpl_value v)
{
    if (v.kind == TPL_TEXT) {
        str s = tpl_text_str(v.as.text);
        return hash_xx64(s.ptr, s.len, 0);
    }
    if (tpl_is_int(v)) {
        int64_t i = tpl_as_int(v);
        return hash_xx64(&i, sizeof i, 1);
    }
    if (v.kind == TPL_REAL) {
        double d = v.as.d;
        if (d >= -0x1p63 && d < 0x1p63 && d == (double)(int64_t)d) {
            return hash_value(tpl_int((int64_t)d));
        }
        return hash_xx64(&d, sizeof d, 2);
    }
    if (tpl_is_seq(v, TPL_TUPLE)) {
        uint64_t hash = 3;
        for (size_t i = 0; i < v.as.seq->n; i++) {
            uint64_t part = hash_value(v.as.seq->items[i]);
            hash = hash_xx64(&part, sizeof part, hash);
        }
        return hash;
    }
    return v.kind;
}

tpl_dict *tpl_dict_new(tpl_render *r)
{
    return tpl_alloc(r, 1, sizeof(tpl_dict));
}

static bool same_key(tpl_render *r, const tpl_entry *e, uint64_t hash, tpl_value key)
{
    bool equal = false;
    return e->hash == hash && tpl_equal(r, e->key, key, &equal) && equal;
}

/* The entry of a key, or n. */
static size_t find(tpl_render *r, const tpl_dict *d, uint64_t hash, tpl_value key)
{
    if (d->index == NULL) {
        for (size_t i = 0; i < d->n; i++) {
            if (same_key(r, &d->entries[i], hash, key)) return i;
        }
        return d->n;
    }
    for (size_t slot = hash & (d->n_index - 1); d->index[slot] != 0;
         slot = (slot + 1) & (d->n_index - 1)) {
        /* Keys chosen to collide cost what they take. */
        if (!tpl_charge(r, 8)) return d->n;
        size_t i = d->index[slot] - 1;
        if (same_key(r, &d->entries[i], hash, key)) return i;
    }
    return d->n;
}

static void index_entry(tpl_dict *d, size_t i)
{
    size_t slot = d->entries[i].hash & (d->n_index - 1);
    while (d->index[slot] != 0) slot = (slot + 1) & (d->n_index - 1);
    d->index[slot] = (uint32_t)i + 1;
}

static bool make_room(tpl_render *r, tpl_dict *d)
{
    if (d->n < d->capacity) return true;
    size_t capacity = d->capacity == 0 ? 4 : d->capacity * 2;
    if (capacity > UINT32_MAX / 4) return tpl_fail(r, WEFT_LIMIT, "a dict has too many keys");
    tpl_entry *entries = tpl_alloc(r, capacity, sizeof *entries);
    if (entries == NULL) return false;
    if (d->n != 0) memcpy(entries, d->entries, d->n * sizeof *entries);
    d->entries = entries;
    d->capacity = capacity;
    if (capacity <= FEW) return true;
    d->n_index = capacity * 2;
    d->index = tpl_alloc(r, d->n_index, sizeof *d->index);
    if (d->index == NULL) return false;
    for (size_t i = 0; i < d->n; i++) index_entry(d, i);
    return true;
}

bool tpl_dict_put(tpl_render *r, tpl_dict *d, tpl_value key, tpl_value value)
{
    if (!tpl_hashable(key)) return tpl_fail_type(r, "unhashable type", key);
    if (key.kind == TPL_TEXT && !tpl_charge(r, key.as.text->len)) return false;
    uint64_t hash = hash_value(key);
    size_t i = find(r, d, hash, key);
    if (r->status != WEFT_OK) return false;
    if (i < d->n) {
        d->entries[i].value = value;
        return true;
    }
    if (!make_room(r, d)) return false;
    d->entries[d->n] = (tpl_entry){key, value, hash};
    d->n++;
    if (d->index != NULL) index_entry(d, d->n - 1);
    return true;
}

bool tpl_dict_get(tpl_render *r, const tpl_dict *d, tpl_value key, tpl_value *value)
{
    if (!tpl_hashable(key)) return false;
    if (key.kind == TPL_TEXT && !tpl_charge(r, key.as.text->len)) return false;
    size_t i = find(r, d, hash_value(key), key);
    if (i == d->n || r->status != WEFT_OK) return false;
    *value = d->entries[i].value;
    return true;
}

bool tpl_dict_get_name(tpl_render *r, const tpl_dict *d, str name, tpl_value *value)
{
    tpl_buffer buffer = {.ptr = name.ptr, .used = name.len};
    tpl_text text = {&buffer, 0, name.len, TPL_UNCOUNTED};
    return tpl_dict_get(r, d, tpl_text_value(&text), value);
}
