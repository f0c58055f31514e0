/* vocab.c - the table of ids and spellings. */
#include "tokenizer/vocab.h"

#include <string.h>

#include "tokenizer/tokenizer.h"

enum { GAP = 1 << 16 }; /* ids that a small vocabulary may skip */

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
    return map_init(&v->by_text, allocator, n_tokens, err);
}

void vocab_deinit(vocab *v)
{
    if (v->allocator == NULL) return;
    mem_free(v->allocator, v->entries, v->capacity * sizeof *v->entries);
    map_deinit(&v->by_text);
    arena_deinit(&v->arena);
    *v = (vocab){0};
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
        return err_set(err, WEFT_FORMAT, "tokenizer: id %u names both '%s' and '%.*s'", at,
                       entry->text, (int)(text.len < 100 ? text.len : 100), text.ptr);
    }
    char *copy = arena_copy_text(&v->arena, text.ptr, text.len);
    if (copy == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the vocabulary");
    status = map_put(&v->by_text, (str){copy, text.len}, at, NULL, err);
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
    uint32_t id = map_get(&v->by_text, text);
    return id == MAP_NONE ? -1 : (int32_t)id;
}

int32_t vocab_find_model(const vocab *v, str text)
{
    uint32_t id = map_get(&v->by_text, text);
    return id != MAP_NONE && (v->entries[id].flags & VOCAB_MODEL) != 0 ? (int32_t)id : -1;
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
