/* vocab.c - the table of ids and spellings. */
#include "tokenizer/vocab.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tokenizer/tokenizer.h"

enum { GAP = 1 << 16 }; /* ids that a small vocabulary may skip */

/* ---- spellings ---- */

static weft_status allocate(vocab *v, size_t n_slots, weft_error *err)
{
    size_t bytes;
    vocab_slot *slots = NULL;
    if (size_mul(n_slots, sizeof *slots, &bytes)) slots = mem_alloc(v->allocator, bytes);
    if (slots == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a table of %zu spellings", n_slots);
    memset(slots, 0xff, bytes);
    v->own = slots;
    v->slots = slots;
    v->n_slots = n_slots;
    return WEFT_OK;
}

static void free_slots(vocab *v)
{
    mem_free(v->allocator, v->own, v->n_slots * sizeof *v->own);
    v->own = NULL;
    v->slots = NULL;
    v->n_slots = 0;
    v->n_keys = 0;
}

/* Which slot the text has, or the free one where it would stand. */
static size_t place(const vocab *v, str text, uint64_t hash)
{
    size_t mask = v->n_slots - 1;
    uint32_t tag = (uint32_t)(hash >> 32);
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        vocab_slot slot = v->slots[i];
        if (slot.id == VOCAB_FREE) return i;
        if (slot.tag != tag) continue;
        const vocab_entry *entry = &v->entries[slot.id];
        if (str_equal((str){entry->text, entry->text_len}, text)) return i;
    }
}

static uint64_t hash_of(const vocab *v, str text)
{
    return hash_xx64(text.ptr, text.len, v->seed);
}

/* Also for slots that are borrowed. */
static weft_status grow(vocab *v, weft_error *err)
{
    vocab old = *v;
    weft_status status = allocate(v, old.n_slots * 2, err);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < old.n_slots; i++) {
        if (old.slots[i].id == VOCAB_FREE) continue;
        const vocab_entry *entry = &old.entries[old.slots[i].id];
        str text = {entry->text, entry->text_len};
        v->own[place(v, text, hash_of(v, text))] = old.slots[i];
    }
    mem_free(old.allocator, old.own, old.n_slots * sizeof *old.own);
    return WEFT_OK;
}

/* The entry of id has the text already, or is about to. */
static weft_status put_spelling(vocab *v, str text, uint32_t id, weft_error *err)
{
    uint64_t hash = hash_of(v, text);
    size_t at = place(v, text, hash);
    bool is_new = v->slots[at].id == VOCAB_FREE;
    if (v->own == NULL || (is_new && (v->n_keys + 1) * 2 > v->n_slots)) {
        weft_status status = grow(v, err);
        if (status != WEFT_OK) return status;
        at = place(v, text, hash);
    }
    if (is_new) v->n_keys++;
    v->own[at] = (vocab_slot){(uint32_t)(hash >> 32), id};
    return WEFT_OK;
}

/* ---- making ---- */

weft_status vocab_init(vocab *v, const weft_allocator *allocator, size_t n_tokens, weft_error *err)
{
    *v = (vocab){.allocator = allocator};
    arena_init(&v->arena, allocator, 0);
    if (n_tokens > TOKENIZER_VOCAB) {
        return err_set(err, WEFT_LIMIT, "tokenizer: %zu tokens, at most %d are supported", n_tokens,
                       TOKENIZER_VOCAB);
    }
    size_t limit = n_tokens * 4 + GAP;
    v->limit = limit > TOKENIZER_VOCAB ? TOKENIZER_VOCAB : (uint32_t)limit;
    /* Nothing is enumerated in the order of the slots, so the seed shows nowhere. */
    v->seed = clock_now_ns() ^ ((uint64_t)(uintptr_t)v << 16);
    size_t n_slots = 16;
    while (n_slots < n_tokens * 2) n_slots *= 2;
    return allocate(v, n_slots, err);
}

void vocab_deinit(vocab *v)
{
    if (v->allocator == NULL) return;
    mem_free(v->allocator, v->entries, v->capacity * sizeof *v->entries);
    free_slots(v);
    arena_deinit(&v->arena);
    *v = (vocab){0};
}

weft_status vocab_restore(vocab *v, uint32_t n, const vocab_slot *slots, size_t n_slots,
                          size_t n_keys, uint64_t seed, weft_error *err)
{
    vocab_entry *entries = mem_alloc(v->allocator, n * sizeof *entries);
    if (entries == NULL && n != 0)
        return err_set(err, WEFT_NOMEM, "out of memory for %u tokens", n);
    mem_free(v->allocator, v->entries, v->capacity * sizeof *v->entries);
    free_slots(v);
    v->entries = entries;
    v->n = n;
    v->capacity = n;
    v->slots = slots;
    v->n_slots = n_slots;
    v->n_keys = n_keys;
    v->seed = seed;
    return WEFT_OK;
}

static int shown(size_t n)
{
    return (int)(n < 100 ? n : 100);
}

static weft_status reserve(vocab *v, uint32_t id, weft_error *err)
{
    if (id < v->capacity) return WEFT_OK;
    uint32_t capacity = v->capacity == 0 ? 1024 : v->capacity * 2;
    if (capacity <= id) capacity = id + 1;
    vocab_entry *entries = mem_resize(v->allocator, v->entries, v->capacity * sizeof *entries,
                                      capacity * sizeof *entries);
    if (entries == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %u tokens", capacity);
    memset(entries + v->capacity, 0, (capacity - v->capacity) * sizeof *entries);
    v->entries = entries;
    v->capacity = capacity;
    return WEFT_OK;
}

weft_status vocab_put(vocab *v, int64_t id, str text, uint32_t flags, weft_error *err)
{
    if (id < 0 || id >= (int64_t)v->limit) {
        return err_set(err, WEFT_LIMIT, "tokenizer: token id %lld is not below %u", (long long)id,
                       v->limit);
    }
    if (text.len > UINT32_MAX / 2)
        return err_set(err, WEFT_LIMIT, "tokenizer: a token of %zu bytes is too long", text.len);
    uint32_t at = (uint32_t)id;
    weft_status status = reserve(v, at, err);
    if (status != WEFT_OK) return status;
    vocab_entry *entry = &v->entries[at];
    if (entry->flags != 0) {
        return err_set(err, WEFT_FORMAT, "tokenizer: id %u names both '%.*s' and '%.*s'", at,
                       shown(entry->text_len), entry->text, shown(text.len), text.ptr);
    }
    char *copy = arena_copy_text(&v->arena, text.ptr, text.len);
    if (copy == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the vocabulary");
    status = put_spelling(v, (str){copy, text.len}, at, err);
    if (status != WEFT_OK) return status;
    *entry = (vocab_entry){.text = copy,
                           .bytes = copy,
                           .text_len = (uint32_t)text.len,
                           .bytes_len = (uint32_t)text.len,
                           .flags = flags | VOCAB_KNOWN};
    if (at >= v->n) v->n = at + 1;
    return WEFT_OK;
}

weft_status vocab_set_bytes(vocab *v, int32_t id, str bytes, weft_error *err)
{
    vocab_entry *entry = &v->entries[id];
    if (str_equal(bytes, (str){entry->text, entry->text_len})) return WEFT_OK;
    char *copy = arena_copy_text(&v->arena, bytes.ptr, bytes.len);
    if (copy == NULL || bytes.len > UINT32_MAX)
        return err_set(err, WEFT_NOMEM, "out of memory for the vocabulary");
    entry->bytes = copy;
    entry->bytes_len = (uint32_t)bytes.len;
    return WEFT_OK;
}

int32_t vocab_find(const vocab *v, str text)
{
    if (v->n_slots == 0) return -1;
    uint32_t id = v->slots[place(v, text, hash_of(v, text))].id;
    return id == VOCAB_FREE ? -1 : (int32_t)id;
}

int32_t vocab_find_model(const vocab *v, str text)
{
    int32_t id = vocab_find(v, text);
    return id >= 0 && (v->entries[id].flags & VOCAB_MODEL) != 0 ? id : -1;
}

int32_t vocab_find_plain(const vocab *v, str text)
{
    int32_t id = vocab_find_model(v, text);
    return id >= 0 && (v->entries[id].flags & VOCAB_SPECIAL) == 0 ? id : -1;
}

void vocab_byte_ids(const vocab *v, int32_t ids[256])
{
    static const char DIGITS[] = "0123456789ABCDEF";
    for (uint32_t i = 0; i < 256; i++) {
        char text[] = {'<', '0', 'x', DIGITS[i >> 4], DIGITS[i & 15], '>'};
        ids[i] = vocab_find_model(v, (str){text, sizeof text});
    }
}

const vocab_entry *vocab_get(const vocab *v, int32_t id)
{
    if (id < 0 || (uint32_t)id >= v->n) return NULL;
    const vocab_entry *entry = &v->entries[id];
    return entry->flags == 0 ? NULL : entry;
}
