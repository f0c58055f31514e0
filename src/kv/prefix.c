/* prefix.c - what sequences leave behind, and sequences that begin with it. */
#include "kv/prefix_match.h"

#include <string.h>

#include "base/assert.h"
#include "kv/seq.h"

/* ---- life ------------------------------------------------------------------------------------ */

static uint64_t evictable(const void *user)
{
    const kv_prefix *p = user;
    return p->bytes - p->bytes_lent;
}

static bool evict(void *user)
{
    return kv_prefix_evict(user);
}

weft_status kv_prefix_create(const weft_allocator *allocator, kv_pool *pool, uint64_t most_bytes,
                             kv_prefix **prefix, weft_error *err)
{
    *prefix = mem_alloc_zero(allocator, sizeof **prefix);
    if (*prefix == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the prefix cache");
    (*prefix)->allocator = allocator;
    (*prefix)->pool = pool;
    (*prefix)->most_bytes = most_bytes == 0 ? UINT64_MAX : most_bytes;
    kv_pool_set_evictor(pool, (kv_evictor){evictable, evict, *prefix});
    return WEFT_OK;
}

void kv_prefix_clear(kv_prefix *prefix)
{
    while (kv_prefix_evict(prefix)) continue;
}

static void free_space(kv_prefix *p, kv_space *space)
{
    for (int i = 0; i < 2; i++) {
        if (space->roots[i] != NULL) kv_node_free(p, space->roots[i]);
    }
    mem_free(p->allocator, space, sizeof *space);
}

void kv_prefix_destroy(kv_prefix *prefix)
{
    if (prefix == NULL) return;
    kv_prefix_clear(prefix);
    ASSERT(prefix->newest == NULL && prefix->newest_boundary == NULL && prefix->bytes == 0);
    for (kv_space *next, *space = prefix->spaces; space != NULL; space = next) {
        next = space->next;
        free_space(prefix, space);
    }
    kv_pool_set_evictor(prefix->pool, (kv_evictor){0});
    mem_free(prefix->allocator, prefix, sizeof *prefix);
}

kv_space *kv_prefix_space(kv_prefix *prefix, const kv_config *config, uint64_t salt)
{
    kv_space *space = prefix->spaces;
    ASSERT(config->n_cross == 0);
    while (space != NULL && (space->config != config || space->salt != salt)) space = space->next;
    if (space != NULL) return space;
    space = mem_alloc_zero(prefix->allocator, sizeof *space);
    if (space == NULL) return NULL;
    space->config = config;
    space->salt = salt;
    for (int i = 0; i < 2; i++) {
        space->roots[i] = kv_node_create(prefix, space, i == 1, NULL);
        if (space->roots[i] != NULL) continue;
        free_space(prefix, space);
        return NULL;
    }
    space->next = prefix->spaces;
    prefix->spaces = space;
    return space;
}

static uint64_t idle_bytes(const kv_prefix *p, uint32_t class_i, const kv_page *page)
{
    return page != NULL && page->refs == 1 ? kv_pool_page_bytes(p->pool, class_i) : 0;
}

void kv_prefix_get_stats(const kv_prefix *prefix, kv_prefix_stats *stats)
{
    *stats = prefix->stats;
    stats->bytes = prefix->bytes;
    stats->bytes_idle = 0;
    for (const kv_node *node = prefix->newest; node != NULL; node = node->older) {
        for (uint32_t i = 0; i < node->space->config->n_layers; i++) {
            stats->bytes_idle += idle_bytes(prefix, kv_node_class(node, i), node->rows[i].page);
        }
    }
    for (const kv_boundary *b = prefix->newest_boundary; b != NULL; b = b->older) {
        const kv_config *c = b->node->space->config;
        for (uint32_t i = 0; i < c->n_layers; i++) {
            stats->bytes_idle += idle_bytes(prefix, c->class_of[i], b->states[i]);
        }
    }
}

/* ---- beginning on it ------------------------------------------------------------------------- */

void kv_prefix_match(const kv_space *space, const kv_history *history, kv_match *match)
{
    kv_found found;
    kv_prefix_find(space, history, &found);
    *match = (kv_match){found.n_equal, found.n_usable, found.limit};
}

static kv_page *found_page(const void *user, uint32_t layer, uint32_t page_i)
{
    const kv_node *node = ((const kv_found *)user)->node;
    while (node->page_i > page_i) node = node->parent;
    return node->rows[layer].page;
}

/* Lowest position from which a layer has all rows up to n_usable. */
static uint32_t found_first(const void *user, uint32_t layer)
{
    const kv_found *found = user;
    uint32_t first = found->n_usable;
    for (const kv_node *node = found->node; node->parent != NULL; node = node->parent) {
        const kv_rows *rows = &node->rows[layer];
        uint32_t at = kv_node_at(node);
        if (rows->page == NULL || at + rows->end < first || at + rows->first > first) break;
        first = at + rows->first;
        if (rows->first > 0) break;
    }
    return first;
}

static kv_page *found_state(const void *user, uint32_t layer)
{
    return ((const kv_found *)user)->boundary->states[layer];
}

/* A node of which only a part is used is not lent: its page is copied and may change. */
static kv_node *lent_node(const kv_found *found)
{
    uint32_t page_tokens = found->node->space->config->bounds.page_tokens;
    bool whole = found->n_usable - kv_node_at(found->node) == page_tokens;
    return whole ? found->node : found->node->parent;
}

static void take_back(void *user, void *lent)
{
    kv_node_take_back(user, lent);
}

void kv_prefix_regard(kv_prefix *prefix, const kv_seq *seq, bool lent)
{
    if (seq->lender.take_back == NULL) return;
    if (lent) kv_node_lend(prefix, seq->lender.lent);
    if (!lent) kv_node_take_back(prefix, seq->lender.lent);
}

uint64_t kv_prefix_bytes_fixed(const kv_prefix *prefix, const kv_space *space,
                               const kv_history *history)
{
    kv_found found = {0};
    uint64_t shared = 0;
    if (space != NULL) kv_prefix_find(space, history, &found);
    const kv_node *node = found.node != NULL ? lent_node(&found) : NULL;
    for (; node != NULL && node->parent != NULL; node = node->parent) {
        if (node->n_lent > 0) shared += kv_node_lent_bytes(prefix, node);
    }
    return prefix->bytes_lent - shared;
}

static weft_status begin(kv_prefix *p, kv_space *space, kv_found *found, uint32_t n_positions,
                         kv_seq **seq, weft_error *err)
{
    kv_node *lent = lent_node(found);
    kv_source source = {.len = found->n_usable,
                        .converted = found->node->converted,
                        .lender = {take_back, p, lent},
                        .user = found,
                        .page = found_page,
                        .first = found_first,
                        .state = found_state};
    found->node->busy = true;
    kv_node_lend(p, lent);
    weft_status status =
        kv_seq_resume(p->allocator, p->pool, space->config, n_positions, &source, seq, err);
    found->node->busy = false;
    if (status != WEFT_OK) kv_node_take_back(p, lent);
    return status;
}

/* On what is found of h. */
static weft_status try_begin(kv_prefix *p, kv_space *space, const kv_history *h, kv_found *found,
                             uint32_t n_positions, kv_seq **seq, weft_error *err)
{
    kv_prefix_find(space, h, found);
    if (found->node != NULL) return begin(p, space, found, n_positions, seq, err);
    return kv_seq_create(p->allocator, p->pool, space->config, n_positions, seq, err);
}

static void count_use(kv_prefix *p, const kv_found *found)
{
    p->stats.n_lookups++;
    if (found->node == NULL) return;
    kv_node_touch(p, found->node);
    kv_boundary *b = kv_boundary_find(found->node, found->n_usable);
    if (b != NULL) {
        b->n_hits++;
        kv_boundary_touch(p, b);
    }
    p->stats.n_hits++;
    p->stats.tokens_found += found->n_usable;
}

weft_status kv_prefix_begin(kv_prefix *prefix, kv_space *space, const kv_history *history,
                            uint32_t n_positions, kv_seq **seq, kv_match *match, weft_error *err)
{
    kv_found found;
    kv_history h = *history;
    weft_error first = {WEFT_OK, ""};
    weft_status status = try_begin(prefix, space, &h, &found, n_positions, seq, &first);
    uint32_t n_equal = found.n_equal;
    kv_limit limit = found.limit;
    /* What is found stays while the sequence is made, and a part of a page is copied: where there
     * is no room for both, less is better than waiting. First whole pages, then nothing. */
    for (int i = 0; i < 2 && status == WEFT_LIMIT && found.node != NULL; i++) {
        h.n = i == 0 ? kv_node_at(found.node) + 1 : 0;
        limit = KV_LIMIT_ROOM;
        status = try_begin(prefix, space, &h, &found, n_positions, seq, NULL);
    }
    if (status == WEFT_LIMIT) return err_set(err, status, "%s", first.message);
    if (status != WEFT_OK) return err_set(err, status, "out of memory for a sequence");
    *match = (kv_match){n_equal, found.n_usable, limit};
    count_use(prefix, &found);
    return WEFT_OK;
}

/* ---- leaving something behind ---------------------------------------------------------------- */

typedef struct insertion {
    kv_prefix *prefix;
    kv_space *space;
    const kv_seq *seq;
    kv_seq *ending; /* NULL, or seq, whose promise pays */
    const kv_history *history;
    uint64_t may_evict; /* bytes: no more than what is put in */
} insertion;

/* Lets others go for a page, but no more of them than is put in. */
static bool evict_for(insertion *in)
{
    kv_prefix *p = in->prefix;
    uint64_t before = p->bytes;
    if (in->may_evict == 0 || !kv_prefix_evict(p)) return false;
    uint64_t freed = before - p->bytes;
    in->may_evict -= freed < in->may_evict ? freed : in->may_evict;
    return true;
}

/* What was promised to the sequence that ends. */
static bool take_over(insertion *in, uint32_t class_i)
{
    kv_seq *seq = in->ending;
    uint32_t *need = seq->need[class_i] > 0 ? seq->need : seq->base_need;
    if (need == seq->base_need && (seq->converted || need[class_i] == 0)) return false;
    need[class_i]--;
    kv_pool_transfer(in->prefix->pool, class_i);
    return true;
}

/* Room for a page that seq holds. */
static bool charge(insertion *in, uint32_t class_i)
{
    kv_prefix *p = in->prefix;
    size_t bytes = kv_pool_page_bytes(p->pool, class_i);
    in->may_evict += bytes;
    while (p->bytes + bytes > p->most_bytes) {
        if (!evict_for(in)) return false;
    }
    if (in->ending == NULL || !take_over(in, class_i)) {
        while (!kv_pool_charge(p->pool, class_i)) {
            if (!evict_for(in)) return false;
        }
    }
    p->bytes += bytes;
    return true;
}

/* The page of seq in the place of what a node has, with rows [first, end). */
static bool put_rows(insertion *in, kv_node *node, uint32_t layer, uint32_t first, uint32_t end)
{
    const kv_seq *seq = in->seq;
    kv_rows *rows = &node->rows[layer];
    kv_page *page = seq->held[seq_slot_of(seq, layer, node->page_i)];
    ASSERT(page != NULL); /* T-1 */
    if (page != rows->page) {
        uint32_t class_i = kv_node_class(node, layer);
        if (!charge(in, class_i)) return false;
        page->refs++;
        if (rows->page != NULL) kv_node_drop_page(in->prefix, class_i, rows->page);
    }
    *rows = (kv_rows){page, first, end};
    return true;
}

/* Tokens and pages of layers that keep all, for the first n positions of a node's page: all of
 * them, or as before. */
static bool extend(insertion *in, kv_node *node, uint32_t n)
{
    const kv_config *c = in->space->config;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!kv_keeps_all(c, i)) continue;
        if (!put_rows(in, node, i, 0, n)) return false;
    }
    uint32_t at = kv_node_at(node);
    for (uint32_t i = node->n; i < n; i++) node->keys[i] = kv_history_key(in->history, at + i);
    node->saved = node->saved && node->n == n;
    node->n = n;
    return true;
}

/* The child of parent for the history's next tokens, at most a page of them. NULL: no room. */
static kv_node *step_into(insertion *in, kv_node *parent)
{
    uint32_t p = in->space->config->bounds.page_tokens;
    uint32_t at = (parent->page_i + 1) * p;
    uint32_t n = in->history->n - at < p ? in->history->n - at : p;
    for (kv_node *child = parent->child; child != NULL; child = child->next) {
        uint32_t common = kv_node_common(child, in->history);
        if (common == n) return child;
        if (common < child->n) continue;
        child->busy = true;
        bool ok = extend(in, child, n);
        child->busy = false;
        return ok ? child : NULL;
    }
    kv_node *child = kv_node_create(in->prefix, in->space, parent->converted, parent);
    if (child == NULL) return NULL;
    child->busy = true;
    bool ok = extend(in, child, n);
    child->busy = false;
    if (ok) return child;
    kv_node_free(in->prefix, child);
    return NULL;
}

/* Rows [lowest, n of history) of a layer, from node up; false where seq has not got them. Those
 * below what it retains are there as well, in the page that it does: so a boundary behind them has
 * not to give way to one before. */
static bool claim_rows(insertion *in, kv_node *node, uint32_t layer, uint32_t lowest)
{
    uint32_t at = kv_node_at(node);
    uint32_t end = in->history->n - at < node->n ? in->history->n - at : node->n;
    uint32_t first = lowest > at ? lowest - at : 0;
    const kv_rows *rows = &node->rows[layer];
    if (first >= end) return true;
    if (rows->page != NULL && rows->first <= first && rows->end >= end) return true;
    const kv_seq *seq = in->seq;
    if (seq->firsts[layer] / in->space->config->bounds.page_tokens > node->page_i) return false;
    uint32_t seq_first = seq->filled != NULL ? seq->filled[layer] : seq->firsts[layer];
    uint32_t from = seq_first > at ? seq_first - at : 0;
    /* What another boundary relies on stays. */
    if (from > first || (rows->page != NULL && from > rows->first)) return false;
    if (rows->page != NULL && end < rows->end) return false;
    return put_rows(in, node, layer, from, end);
}

/* Claims a page for every window that sees it from the boundary. */
static bool claim_node(insertion *in, kv_boundary *b, kv_node *node)
{
    const kv_config *c = in->space->config;
    node->n_claims++;
    b->first_page = node->page_i;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_keeps_all(c, i) || kv_is_recurrent(c, i)) continue;
        if (!claim_rows(in, node, i, kv_lowest(&c->geometries[i], b->at))) return false;
    }
    return true;
}

static kv_page *state_at(const kv_seq *seq, uint32_t layer, uint32_t at)
{
    if (seq->len == at) return seq->states[layer].committed;
    return seq->mark_at == at ? kv_seq_marked(seq, layer) : NULL;
}

static bool put_states(insertion *in, kv_boundary *b)
{
    const kv_config *c = in->space->config;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!kv_is_recurrent(c, i)) continue;
        kv_page *page = state_at(in->seq, i, b->at);
        if (page == NULL || !charge(in, c->class_of[i])) return false;
        page->refs++;
        b->states[i] = page;
    }
    return true;
}

/* Lowest position that any window sees from at. */
static uint32_t lowest_of_all(const kv_config *c, uint32_t at)
{
    uint32_t lowest = at;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_keeps_all(c, i) || kv_is_recurrent(c, i)) continue;
        uint32_t of_layer = kv_lowest(&c->geometries[i], at);
        if (of_layer < lowest) lowest = of_layer;
    }
    return lowest;
}

static bool fill_boundary(insertion *in, kv_boundary *b)
{
    const kv_config *c = in->space->config;
    uint32_t lowest = lowest_of_all(c, b->at);
    for (kv_node *at = b->node; at->parent != NULL; at = at->parent) {
        if (kv_node_at(at) + c->bounds.page_tokens <= lowest) break;
        if (!claim_node(in, b, at)) return false;
    }
    return put_states(in, b);
}

static bool add_boundary(insertion *in, kv_node *node)
{
    kv_boundary *b = kv_boundary_find(node, in->history->n);
    if (b != NULL) {
        kv_boundary_touch(in->prefix, b);
        return true;
    }
    b = kv_boundary_create(in->prefix, node, in->history->n);
    if (b == NULL) return false;
    node->busy = true;
    bool ok = fill_boundary(in, b);
    node->busy = false;
    if (!ok) kv_boundary_free(in->prefix, b);
    return ok;
}

static bool insert(insertion *in)
{
    const kv_config *c = in->space->config;
    ASSERT(!in->seq->open && in->history->n <= in->seq->len && in->seq->config == c);
    kv_node *node = in->space->roots[in->seq->converted];
    bool ok = true;
    for (uint32_t at = 0; ok && at < in->history->n; at += c->bounds.page_tokens) {
        node->busy = true;
        kv_node *child = step_into(in, node);
        node->busy = false;
        ok = child != NULL;
        if (ok) node = child;
    }
    if (ok && node->parent != NULL && kv_needs_boundary(c)) ok = add_boundary(in, node);
    kv_node_touch(in->prefix, node);
    if (!ok) in->prefix->stats.n_skipped++;
    return ok;
}

bool kv_prefix_insert(kv_prefix *prefix, kv_space *space, const kv_seq *seq,
                      const kv_history *history)
{
    insertion in = {.prefix = prefix, .space = space, .seq = seq, .history = history};
    return insert(&in);
}

bool kv_prefix_hand_over(kv_prefix *prefix, kv_space *space, kv_seq *seq, const kv_history *history)
{
    insertion in = {
        .prefix = prefix, .space = space, .seq = seq, .ending = seq, .history = history};
    return insert(&in);
}

bool kv_prefix_retire(kv_prefix *prefix, kv_space *space, kv_seq *seq, const kv_history *history)
{
    bool ok = kv_prefix_hand_over(prefix, space, seq, history);
    kv_seq_destroy(prefix->allocator, seq);
    return ok;
}
