/* prefix_match.h - the search of prefix.h, as its files share it. */
#ifndef KV_PREFIX_MATCH_H
#define KV_PREFIX_MATCH_H

#include "kv/prefix_node.h"

typedef struct kv_found {
    uint32_t n_equal, n_usable; /* as in kv_match */
    kv_limit limit;
    kv_node *node;               /* where the last of n_usable lies; NULL: none are */
    const kv_boundary *boundary; /* NULL: nothing is needed that only a boundary has */
} kv_found;

/* The child that is equal as a whole. NULL: there is none. */
kv_node *kv_node_whole_child(const kv_node *parent, const kv_history *history);

void kv_prefix_find(const kv_space *space, const kv_history *history, kv_found *found);

#endif
