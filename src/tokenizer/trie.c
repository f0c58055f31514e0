/* trie.c - a trie whose edges stand in one hash table. */
#include "tokenizer/trie.h"

weft_status trie_init(trie *t, const weft_allocator *allocator, weft_error *err)
{
    t->n_nodes = 1;
    return pairs_init(&t->children, allocator, 0, err);
}

void trie_deinit(trie *t)
{
    if (t->n_nodes != 0) pairs_deinit(&t->children);
    *t = (trie){0};
}

weft_status trie_put(trie *t, str text, uint32_t number, bool *is_new, weft_error *err)
{
    *is_new = false;
    if (text.len > TRIE_BYTES) {
        return err_set(err, WEFT_LIMIT, "tokenizer: a token of %zu bytes, at most %d are supported",
                       text.len, TRIE_BYTES);
    }
    if (t->n_nodes + text.len > TRIE_NODES) {
        return err_set(err, WEFT_LIMIT,
                       "tokenizer: tokens of %zu bytes in all, at most %d are supported",
                       t->n_nodes + text.len, TRIE_NODES);
    }
    uint32_t node = 0;
    uint64_t key = 0;
    for (size_t i = 0; i < text.len; i++) {
        key = pairs_key(node, (unsigned char)text.ptr[i]);
        const pairs_slot *slot = pairs_get(&t->children, key);
        if (slot != NULL) {
            node = slot->value;
            continue;
        }
        weft_status status = pairs_put(&t->children, key, t->n_nodes, 0, err);
        if (status != WEFT_OK) return status;
        node = t->n_nodes++;
    }
    if (text.len == 0) return WEFT_OK;
    const pairs_slot *last = pairs_get(&t->children, key);
    if (last->rank != 0) return WEFT_OK;
    weft_status status = pairs_put(&t->children, key, last->value, number + 1, err);
    *is_new = status == WEFT_OK;
    return status;
}

size_t trie_longest(const trie *t, uint32_t node, str bytes, uint32_t *number)
{
    size_t longest = 0;
    uint32_t here;
    for (size_t i = 0; i < bytes.len && trie_step(t, &node, bytes.ptr[i], &here); i++) {
        if (here == TRIE_NONE) continue;
        longest = i + 1;
        *number = here;
    }
    return longest;
}
