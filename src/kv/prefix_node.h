/* prefix_node.h - the tree behind prefix.h: nodes, boundaries, and what gives way. */
#ifndef KV_PREFIX_NODE_H
#define KV_PREFIX_NODE_H

#include "kv/prefix.h"

/* The page of one layer, and which of its rows are those of the node's tokens. */
typedef struct kv_rows {
    kv_page *page; /* NULL: none */
    uint32_t first, end;
} kv_rows;

typedef struct kv_node kv_node;

/* A position at which layers with windows and states can go on. */
typedef struct kv_boundary {
    struct kv_boundary *newer, *older; /* in order of use, over all nodes */
    struct kv_boundary *next;          /* of the same node */
    kv_node *node;
    uint32_t at;         /* positions */
    uint32_t first_page; /* pages from that on are claimed for windows */
    uint32_t n_hits;
    bool saved;        /* by the saver */
    kv_page *states[]; /* [n_layers], of recurrent ones */
} kv_boundary;

/* A page of positions. All layers that keep everything have their pages here; those of other layers
 * are here while a boundary claims them. */
struct kv_node {
    kv_node *parent; /* NULL: a root, which has no tokens */
    kv_node *child;  /* the first of them */
    kv_node *next, *before;
    kv_node *newer, *older; /* in order of use: parents are newer than their children */
    kv_space *space;
    kv_boundary *boundaries;
    bool converted;    /* which of the space's trees it is in */
    bool busy;         /* a function stands on it */
    uint32_t page_i;   /* of a root: UINT32_MAX, so that its children have 0 */
    uint32_t n;        /* tokens; less than a page only where there are no children */
    uint32_t n_lent;   /* sequences that were lent it, or one below */
    uint32_t n_claims; /* boundaries that need its pages for windows */
    uint64_t *keys;    /* [page_tokens] */
    /* Of all tokens up to its end (kv/part.h), of a root and of whole pages, where has_digest. */
    unsigned char digest[32];
    bool has_digest;
    bool saved;     /* with so many tokens, by the saver */
    kv_rows rows[]; /* [n_layers] */
};

struct kv_space {
    kv_space *next;
    const kv_config *config;
    uint64_t salt;
    kv_node *roots[2]; /* of pages in base, and in codecs */
};

/* Who hears of what is about to give way, and may keep it elsewhere; false: it may not go yet. */
typedef struct kv_saver {
    bool (*node)(void *user, kv_node *node); /* NULL: nobody */
    bool (*boundary)(void *user, kv_boundary *b);
    void *user;
} kv_saver;

struct kv_prefix {
    const weft_allocator *allocator;
    kv_pool *pool;
    uint64_t most_bytes, bytes, bytes_lent;
    kv_space *spaces;
    kv_node *newest, *oldest;
    kv_boundary *newest_boundary, *oldest_boundary;
    kv_saver saver;
    kv_prefix_stats stats;
};

static inline uint64_t kv_history_key(const kv_history *h, uint32_t i)
{
    if (h->media == NULL || h->media[i] == 0) return (uint32_t)h->ids[i];
    return h->media[i] | (uint64_t)1 << 63;
}

static inline uint32_t kv_node_class(const kv_node *node, uint32_t layer)
{
    return kv_config_class(node->space->config, node->converted, layer);
}

/* First position of a node's page. */
static inline uint32_t kv_node_at(const kv_node *node)
{
    return node->page_i * node->space->config->bounds.page_tokens;
}

/* parent: NULL for a root. Without tokens and pages. NULL: out of memory. */
kv_node *kv_node_create(kv_prefix *p, kv_space *space, bool converted, kv_node *parent);

/* With its pages and boundaries; it has no children. */
void kv_node_free(kv_prefix *p, kv_node *node);

/* Tokens that a node has in common with history at the node's place. */
uint32_t kv_node_common(const kv_node *node, const kv_history *history);

/* Node and all it stands on become the newest. */
void kv_node_touch(kv_prefix *p, kv_node *node);

/* Lent to a sequence, with all it stands on; and back. */
void kv_node_lend(kv_prefix *p, kv_node *node);
void kv_node_take_back(kv_prefix *p, kv_node *node);

/* Bytes of its pages that a sequence is lent. */
uint64_t kv_node_lent_bytes(const kv_prefix *p, const kv_node *node);

/* Gives back a page that is charged. */
void kv_node_drop_page(kv_prefix *p, uint32_t class_i, kv_page *page);

/* NULL: out of memory. Without states; claims nothing yet: first_page is the node's next. */
kv_boundary *kv_boundary_create(kv_prefix *p, kv_node *node, uint32_t at);
kv_boundary *kv_boundary_find(const kv_node *node, uint32_t at);
void kv_boundary_free(kv_prefix *p, kv_boundary *b);
void kv_boundary_touch(kv_prefix *p, kv_boundary *b);

/* kv_prefix_retire without the end: what seq was promised pays for what is kept. */
bool kv_prefix_hand_over(kv_prefix *prefix, kv_space *space, kv_seq *seq,
                         const kv_history *history);

/* Lets the least useful thing go: an unused boundary on the way to others, then ends. False when
 * nothing can go, or the saver would not let it. */
bool kv_prefix_evict(kv_prefix *p);

#endif
