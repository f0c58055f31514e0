/* trie.h - texts that are looked for from the left, a byte at a time. */
#ifndef TOKENIZER_TRIE_H
#define TOKENIZER_TRIE_H

#include "base/str.h"
#include "tokenizer/pairs.h"

enum {
    TRIE_BYTES = 1024,    /* longest text: looking costs a text's length times this at worst */
    TRIE_NODES = 1 << 24, /* most bytes of all texts, beginnings in common counted once */
};

#define TRIE_NONE UINT32_MAX

typedef struct trie {
    uint32_t n_nodes; /* 0 is the root */
    pairs children;   /* node and byte -> child, and 1 + the number of the text that ends there */
} trie;

weft_status trie_init(trie *t, const weft_allocator *allocator, weft_error *err);
void trie_deinit(trie *t);

/* number is below UINT32_MAX. A text that is there keeps its number, and *is_new is false. Empty
 * texts are left out. LIMIT when too long. */
weft_status trie_put(trie *t, str text, uint32_t number, bool *is_new, weft_error *err);

/* The child of *node: false when there is none. *number: of the text that ends there, or
 * TRIE_NONE. */
static inline bool trie_step(const trie *t, uint32_t *node, char byte, uint32_t *number)
{
    const pairs_slot *slot = pairs_get(&t->children, pairs_key(*node, (unsigned char)byte));
    if (slot == NULL) return false;
    *node = slot->value;
    *number = slot->rank - 1; /* 0 wraps to TRIE_NONE */
    return true;
}

/* The longest text at the start of bytes: its length, 0 when there is none. */
size_t trie_longest(const trie *t, uint32_t node, str bytes, uint32_t *number);

#endif
