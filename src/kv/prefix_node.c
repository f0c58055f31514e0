/* prefix_node.c - nodes and boundaries of the prefix cache.
 *
 * Invariants: every page here is charged to the pool once for each place it stands in; a node with
 * children has a whole page of tokens, and a page in each layer that keeps all; pages of other
 * layers stand only where n_claims > 0; a child is older than its parent in order of use. */
#include "kv/prefix_node.h"

#include <string.h>

#include "base/assert.h"

static size_t node_bytes(const kv_space *space)
{
    const kv_config *c = space->config;
    return sizeof(kv_node) + c->n_layers * sizeof(kv_rows) +
           c->bounds.page_tokens * sizeof(uint64_t);
}

static size_t boundary_bytes(const kv_space *space)
{
    return sizeof(kv_boundary) + space->config->n_layers * sizeof(kv_page *);
}

/* ---- order of use ---------------------------------------------------------------------------- */

static void unlink_node(kv_prefix *p, kv_node *node)
{
    *(node->newer == NULL ? &p->newest : &node->newer->older) = node->older;
    *(node->older == NULL ? &p->oldest : &node->older->newer) = node->newer;
}

static void link_newest(kv_prefix *p, kv_node *node)
{
    node->newer = NULL;
    node->older = p->newest;
    *(p->newest == NULL ? &p->oldest : &p->newest->newer) = node;
    p->newest = node;
}

void kv_node_touch(kv_prefix *p, kv_node *node)
{
    for (; node->parent != NULL; node = node->parent) {
        unlink_node(p, node);
        link_newest(p, node);
    }
}

static void unlink_boundary(kv_prefix *p, kv_boundary *b)
{
    *(b->newer == NULL ? &p->newest_boundary : &b->newer->older) = b->older;
    *(b->older == NULL ? &p->oldest_boundary : &b->older->newer) = b->newer;
}

static void link_newest_boundary(kv_prefix *p, kv_boundary *b)
{
    b->newer = NULL;
    b->older = p->newest_boundary;
    *(p->newest_boundary == NULL ? &p->oldest_boundary : &p->newest_boundary->newer) = b;
    p->newest_boundary = b;
}

void kv_boundary_touch(kv_prefix *p, kv_boundary *b)
{
    unlink_boundary(p, b);
    link_newest_boundary(p, b);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void kv_node_drop_page(kv_prefix *p, uint32_t class_i, kv_page *page)
{
    kv_pool_discharge(p->pool, class_i);
    p->bytes -= kv_pool_page_bytes(p->pool, class_i);
    kv_pool_give(p->pool, class_i, page);
}

kv_node *kv_node_create(kv_prefix *p, kv_space *space, bool converted, kv_node *parent)
{
    kv_node *node = mem_alloc_zero(p->allocator, node_bytes(space));
    if (node == NULL) return NULL;
    node->space = space;
    node->converted = converted;
    node->keys = (uint64_t *)(void *)&node->rows[space->config->n_layers];
    node->page_i = UINT32_MAX;
    if (parent == NULL) return node;
    node->parent = parent;
    node->page_i = parent->page_i + 1;
    node->next = parent->child;
    if (node->next != NULL) node->next->before = node;
    parent->child = node;
    link_newest(p, node);
    p->stats.n_nodes++;
    return node;
}

static void drop_rows(kv_prefix *p, kv_node *node, uint32_t layer)
{
    kv_rows *rows = &node->rows[layer];
    if (rows->page != NULL) kv_node_drop_page(p, kv_node_class(node, layer), rows->page);
    *rows = (kv_rows){0};
}

void kv_node_free(kv_prefix *p, kv_node *node)
{
    ASSERT(node->child == NULL && node->n_lent == 0);
    while (node->boundaries != NULL) kv_boundary_free(p, node->boundaries);
    ASSERT(node->n_claims == 0);
    for (uint32_t i = 0; i < node->space->config->n_layers; i++) drop_rows(p, node, i);
    if (node->parent != NULL) {
        *(node->before == NULL ? &node->parent->child : &node->before->next) = node->next;
        if (node->next != NULL) node->next->before = node->before;
        unlink_node(p, node);
        p->stats.n_nodes--;
    }
    mem_free(p->allocator, node, node_bytes(node->space));
}

uint32_t kv_node_common(const kv_node *node, const kv_history *history)
{
    uint32_t at = kv_node_at(node);
    uint32_t n = 0;
    while (n < node->n && at + n < history->n && node->keys[n] == kv_history_key(history, at + n)) {
        n++;
    }
    return n;
}

uint64_t kv_node_lent_bytes(const kv_prefix *p, const kv_node *node)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < node->space->config->n_layers; i++) {
        if (!kv_keeps_all(node->space->config, i)) continue;
        bytes += kv_pool_page_bytes(p->pool, kv_node_class(node, i));
    }
    return bytes;
}

void kv_node_lend(kv_prefix *p, kv_node *node)
{
    for (; node->parent != NULL; node = node->parent) {
        if (node->n_lent++ == 0) p->bytes_lent += kv_node_lent_bytes(p, node);
    }
}

void kv_node_take_back(kv_prefix *p, kv_node *node)
{
    for (; node->parent != NULL; node = node->parent) {
        ASSERT(node->n_lent > 0);
        if (--node->n_lent == 0) p->bytes_lent -= kv_node_lent_bytes(p, node);
    }
}

/* ---- boundaries ------------------------------------------------------------------------------ */

kv_boundary *kv_boundary_create(kv_prefix *p, kv_node *node, uint32_t at)
{
    kv_boundary *b = mem_alloc_zero(p->allocator, boundary_bytes(node->space));
    if (b == NULL) return NULL;
    b->node = node;
    b->at = at;
    b->first_page = node->page_i + 1;
    b->next = node->boundaries;
    node->boundaries = b;
    link_newest_boundary(p, b);
    p->stats.n_boundaries++;
    return b;
}

kv_boundary *kv_boundary_find(const kv_node *node, uint32_t at)
{
    kv_boundary *b = node->boundaries;
    while (b != NULL && b->at != at) b = b->next;
    return b;
}

/* Pages for windows that no other boundary claims go. */
static void unclaim(kv_prefix *p, const kv_boundary *b)
{
    for (kv_node *node = b->node; node->parent != NULL && node->page_i >= b->first_page;
         node = node->parent) {
        ASSERT(node->n_claims > 0);
        if (--node->n_claims > 0) continue;
        for (uint32_t i = 0; i < node->space->config->n_layers; i++) {
            if (!kv_keeps_all(node->space->config, i)) drop_rows(p, node, i);
        }
    }
}

void kv_boundary_free(kv_prefix *p, kv_boundary *b)
{
    kv_node *node = b->node;
    const kv_config *c = node->space->config;
    unclaim(p, b);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (b->states[i] != NULL) kv_node_drop_page(p, c->class_of[i], b->states[i]);
    }
    kv_boundary **link = &node->boundaries;
    while (*link != b) link = &(*link)->next;
    *link = b->next;
    unlink_boundary(p, b);
    p->stats.n_boundaries--;
    mem_free(p->allocator, b, boundary_bytes(node->space));
}

/* ---- what gives way -------------------------------------------------------------------------- */

/* Whether there is another boundary, or more of a conversation, behind it. */
static bool is_passed(const kv_boundary *b)
{
    if (b->node->child != NULL) return true;
    for (const kv_boundary *other = b->node->boundaries; other != NULL; other = other->next) {
        if (other->at > b->at) return true;
    }
    return false;
}

static kv_boundary *find_boundary(const kv_prefix *p, bool any)
{
    kv_boundary *b = p->oldest_boundary;
    while (b != NULL && (b->node->busy || (!any && (b->n_hits > 0 || !is_passed(b))))) b = b->newer;
    return b;
}

static kv_node *find_end(const kv_prefix *p)
{
    kv_node *node = p->oldest;
    while (node != NULL && (node->child != NULL || node->n_lent > 0 || node->busy)) {
        node = node->newer;
    }
    return node;
}

/* A node goes with its boundaries. */
static bool save_node(const kv_prefix *p, kv_node *node)
{
    if (p->saver.node == NULL) return true;
    for (kv_boundary *b = node->boundaries; b != NULL; b = b->next) {
        if (!p->saver.boundary(p->saver.user, b)) return false;
    }
    return p->saver.node(p->saver.user, node);
}

static bool save_boundary(const kv_prefix *p, kv_boundary *b)
{
    return p->saver.boundary == NULL || p->saver.boundary(p->saver.user, b);
}

bool kv_prefix_evict(kv_prefix *p)
{
    kv_boundary *b = find_boundary(p, false);
    kv_node *node = b == NULL ? find_end(p) : NULL;
    if (b == NULL && node == NULL) b = find_boundary(p, true);
    if (b != NULL && !save_boundary(p, b)) return false;
    if (node != NULL && !save_node(p, node)) return false;
    if (b != NULL) kv_boundary_free(p, b);
    if (node != NULL) kv_node_free(p, node);
    if (b == NULL && node == NULL) return false;
    p->stats.n_evicted++;
    return true;
}
