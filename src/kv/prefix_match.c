/* prefix_match.c - the longest prefix that a sequence can begin with. */
#include "kv/prefix_match.h"

#include "base/assert.h"

/* ---- whether all is there -------------------------------------------------------------------- */

/* Of one layer: the rows of positions [lowest, m), m in node's page or at its end. */
static bool has_rows(const kv_node *node, uint32_t layer, uint32_t lowest, uint32_t m)
{
    for (; node->parent != NULL && m > lowest; node = node->parent) {
        const kv_rows *rows = &node->rows[layer];
        uint32_t at = kv_node_at(node);
        uint32_t first = lowest > at ? lowest - at : 0;
        if (rows->page == NULL || rows->first > first || rows->end < m - at) return false;
        m = at;
    }
    return m <= lowest;
}

/* KV_LIMIT_NONE: a sequence can begin with m positions, the last of which lies in node. */
static kv_limit check(const kv_node *node, uint32_t m, const kv_boundary **boundary)
{
    const kv_config *c = node->space->config;
    if (node->converted && m < c->start) return KV_LIMIT_CONVERTED;
    *boundary = kv_boundary_find(node, m);
    if (c->n_recurrent > 0 && *boundary == NULL) return KV_LIMIT_RECURRENT;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_is_recurrent(c, i) || kv_keeps_all(c, i)) continue;
        if (!has_rows(node, i, kv_lowest(&c->geometries[i], m), m)) return KV_LIMIT_WINDOW;
    }
    return KV_LIMIT_NONE;
}

/* ---- positions to try ------------------------------------------------------------------------ */

typedef struct search {
    uint32_t end; /* positions of the node that are equal */
    kv_found *best;
    kv_limit limit; /* of the first that was tried */
    bool tried;
} search;

static void try_at(search *s, kv_node *node, uint32_t m)
{
    if (m <= s->best->n_usable || m <= kv_node_at(node) || m > s->end) return;
    const kv_boundary *boundary = NULL;
    kv_limit limit = check(node, m, &boundary);
    if (!s->tried) s->limit = limit;
    s->tried = true;
    if (limit != KV_LIMIT_NONE) return;
    s->best->n_usable = m;
    s->best->node = node;
    s->best->boundary = boundary;
}

/* Where states are needed these are the boundaries. Without, what a window lacks at some position
 * of a page it lacks below, too, so that the last with all new rows is the one to try; but where a
 * chunk begins, nothing is needed. */
static void try_node(search *s, kv_node *node)
{
    const kv_config *c = node->space->config;
    uint32_t last = s->end;
    try_at(s, node, s->end);
    for (const kv_boundary *b = node->boundaries; b != NULL; b = b->next) try_at(s, node, b->at);
    for (uint32_t i = 0; i < c->n_layers && c->n_recurrent == 0; i++) {
        if (kv_keeps_all(c, i)) continue;
        const kv_geometry *g = &c->geometries[i];
        uint32_t rows_end = kv_node_at(node) + (node->rows[i].page == NULL ? 0 : node->rows[i].end);
        if (g->layout == KV_LAYOUT_CHUNKED) try_at(s, node, s->end - s->end % g->window);
        if (rows_end < last) last = rows_end;
    }
    if (c->n_recurrent == 0) try_at(s, node, last);
}

/* ---- the tree -------------------------------------------------------------------------------- */

kv_node *kv_node_whole_child(const kv_node *parent, const kv_history *h)
{
    uint32_t p = parent->space->config->bounds.page_tokens;
    for (kv_node *child = parent->child; child != NULL; child = child->next) {
        if (child->n == p && kv_node_common(child, h) == p) return child;
    }
    return NULL;
}

static void match_tree(kv_node *root, const kv_history *h, kv_found *found)
{
    kv_node *parent = root;
    for (kv_node *next; (next = kv_node_whole_child(parent, h)) != NULL;) parent = next;
    search s = {.best = found};
    for (; parent != NULL; parent = parent->parent) {
        for (kv_node *child = parent->child; child != NULL; child = child->next) {
            uint32_t n = kv_node_common(child, h);
            if (n == 0) continue;
            s.end = kv_node_at(child) + n;
            if (s.end > found->n_equal) found->n_equal = s.end;
            try_node(&s, child);
        }
        if (found->n_usable > 0) break;
    }
    if (s.tried && found->n_usable < found->n_equal) found->limit = s.limit;
}

void kv_prefix_find(const kv_space *space, const kv_history *history, kv_found *found)
{
    *found = (kv_found){0};
    if (history->n < 2) return;
    kv_history all_but_last = *history;
    all_but_last.n--;
    for (int i = 0; i < 2; i++) {
        kv_found of_tree = {0};
        match_tree(space->roots[i], &all_but_last, &of_tree);
        if (of_tree.n_equal > found->n_equal) {
            found->n_equal = of_tree.n_equal;
            found->limit = of_tree.limit;
        }
        if (of_tree.n_usable <= found->n_usable) continue;
        found->n_usable = of_tree.n_usable;
        found->node = of_tree.node;
        found->boundary = of_tree.boundary;
    }
    if (found->n_usable == found->n_equal) found->limit = KV_LIMIT_NONE;
}
