/* persist_save.c - a path of the prefix cache's tree into a file. */
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "kv/persist.h"
#include "kv/prefix_match.h"
#include "kv/stage.h"

/* ---- what there is --------------------------------------------------------------------------- */

/* A way down one tree, by which tokens are known. */
typedef struct way {
    const kv_node *end; /* where position len - 1 lies */
    uint32_t len;
    uint32_t n_boundaries;
    const kv_boundary **boundaries; /* [n_boundaries], ascending; NULL: none are needed */
} way;

/* The longest: whole nodes, then a part of one. */
static void find_end(const kv_node *root, const kv_history *h, way *w)
{
    const kv_node *parent = root;
    for (const kv_node *next; (next = kv_node_whole_child(parent, h)) != NULL;) parent = next;
    if (parent->parent != NULL) *w = (way){.end = parent, .len = kv_node_at(parent) + parent->n};
    for (const kv_node *child = parent->child; child != NULL; child = child->next) {
        uint32_t n = kv_node_common(child, h);
        if (n > 0 && kv_node_at(child) + n > w->len)
            *w = (way){.end = child, .len = kv_node_at(child) + n};
    }
}

/* Boundaries of a node within its first n tokens; into `into` where that is not NULL. */
static uint32_t take_boundaries(const kv_node *node, uint32_t n, const kv_boundary **into)
{
    uint32_t count = 0;
    for (const kv_boundary *b = node->boundaries; b != NULL; b = b->next) {
        if (b->at > kv_node_at(node) + n) continue;
        if (into != NULL) into[count] = b;
        count++;
    }
    return count;
}

/* Of all nodes that begin as history does: those beside the way, too, as where a node ends depends
 * on the size of pages. */
static uint32_t all_boundaries(const kv_node *root, const kv_history *h, const kv_boundary **into)
{
    uint32_t count = 0;
    for (const kv_node *parent = root; parent != NULL; parent = kv_node_whole_child(parent, h)) {
        for (const kv_node *child = parent->child; child != NULL; child = child->next) {
            uint32_t n = kv_node_common(child, h);
            if (n == 0) continue;
            count += take_boundaries(child, n, into == NULL ? NULL : into + count);
        }
    }
    return count;
}

/* Ascending, each position once, and the last STATE_BOUNDARIES_MOST of them. */
static void sort_boundaries(way *w)
{
    const kv_boundary **b = w->boundaries;
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_boundaries; i++) {
        const kv_boundary *one = b[i];
        uint32_t at = n;
        while (at > 0 && b[at - 1]->at > one->at) at--;
        if (at > 0 && b[at - 1]->at == one->at) continue;
        memmove(&b[at + 1], &b[at], (n - at) * sizeof(void *));
        b[at] = one;
        n++;
    }
    uint32_t drop = n > STATE_BOUNDARIES_MOST ? n - STATE_BOUNDARIES_MOST : 0;
    w->boundaries += drop;
    w->n_boundaries = n - drop;
}

/* Without those that a cache would not take again from the file: it has no rows between them. */
static bool drop_lost(const kv_config *c, arena *a, way *w)
{
    uint32_t *at = arena_array(a, w->n_boundaries, sizeof *at);
    bool *chosen = arena_array(a, w->n_boundaries, sizeof *chosen);
    uint32_t *later = arena_array(a, c->n_layers, sizeof *later);
    if (at == NULL || chosen == NULL || later == NULL) return false;
    for (uint32_t i = 0; i < w->n_boundaries; i++) at[i] = w->boundaries[i]->at;
    stage_choose(c, at, w->n_boundaries, later, chosen);
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_boundaries; i++) {
        if (chosen[i]) w->boundaries[n++] = w->boundaries[i];
    }
    w->n_boundaries = n;
    return true;
}

static bool find_way(const kv_node *root, const kv_history *h, arena *a, way *w)
{
    *w = (way){0};
    if (!kv_needs_boundary(root->space->config)) {
        find_end(root, h, w);
        return true;
    }
    uint32_t n = all_boundaries(root, h, NULL);
    if (n == 0) return true;
    w->boundaries = arena_array(a, n, sizeof(void *));
    if (w->boundaries == NULL) return false;
    w->n_boundaries = all_boundaries(root, h, w->boundaries);
    sort_boundaries(w);
    if (!drop_lost(root->space->config, a, w)) return false;
    const kv_boundary *last = w->boundaries[w->n_boundaries - 1];
    w->end = last->node;
    w->len = last->at;
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct saving {
    const kv_files *store;
    const kv_space *space;
    arena arena;
    way way;
    const kv_node **nodes; /* [pages of len], of the way */
    kv_state_file file;
    unsigned char *buffer; /* a section, padded */
    io_file out;
    char temporary[IO_PATH_BYTES];
} saving;

static weft_status no_memory(weft_error *err)
{
    return err_set(err, WEFT_NOMEM, "out of memory for a file of state");
}

static weft_status describe(saving *s, const kv_history *h, weft_error *err)
{
    kv_state_file *f = &s->file;
    const kv_config *c = s->space->config;
    uint32_t p = c->bounds.page_tokens;
    uint32_t len = s->way.len;
    bool needs = s->way.boundaries != NULL;
    *f = (kv_state_file){.config = c, .converted = s->way.end->converted, .len = len};
    f->n_boundaries = needs ? s->way.n_boundaries : 1;
    uint32_t *boundaries = arena_array(&s->arena, f->n_boundaries, sizeof *boundaries);
    uint64_t *keys = arena_array(&s->arena, len, sizeof *keys);
    s->nodes = arena_array(&s->arena, (len - 1) / p + 1, sizeof(void *));
    if (boundaries == NULL || keys == NULL || s->nodes == NULL) return no_memory(err);
    for (uint32_t i = 0; i < f->n_boundaries; i++)
        boundaries[i] = needs ? s->way.boundaries[i]->at : len;
    for (uint32_t i = 0; i < len; i++) keys[i] = kv_history_key(h, i);
    for (const kv_node *node = s->way.end; node->parent != NULL; node = node->parent)
        s->nodes[node->page_i] = node;
    f->boundaries = boundaries;
    f->keys = keys;
    weft_status status = state_measure(f, err);
    if (status != WEFT_OK) return status;
    f->sections = arena_array(&s->arena, f->n_sections, sizeof *f->sections);
    if (f->sections == NULL) return no_memory(err);
    state_fill(f);
    s->buffer = arena_array(&s->arena, (size_t)state_longest(f), 1);
    return s->buffer != NULL ? WEFT_OK : no_memory(err);
}

/* The page that has a layer's row of a position, and the end of its rows that are sure to be good.
 */
static const kv_page *page_of(const saving *s, uint32_t layer, uint32_t position, uint32_t *end)
{
    uint32_t page_i = position / s->space->config->bounds.page_tokens;
    if (kv_keeps_all(s->space->config, layer)) {
        *end = s->file.len;
        return s->nodes[page_i]->rows[layer].page;
    }
    /* Of the boundaries behind it the first sees furthest back. */
    uint32_t i = state_boundary(&s->file, position + 1);
    *end = s->file.boundaries[i];
    const kv_node *node = s->way.boundaries[i]->node;
    while (node->page_i > page_i) node = node->parent;
    return node->rows[layer].page;
}

static void gather_rows(const saving *s, const kv_section *section, const kv_plane *plane)
{
    uint32_t p = s->space->config->bounds.page_tokens;
    for (uint32_t at = section->rows.first; at < section->rows.end;) {
        uint32_t end;
        const kv_page *page = page_of(s, section->layer, at, &end);
        ASSERT(page != NULL);
        uint32_t page_end = at - at % p + p;
        if (end > page_end) end = page_end;
        if (end > section->rows.end) end = section->rows.end;
        state_gather(plane, p, section->rows, (kv_range32){at, end}, page->at, s->buffer);
        at = end;
    }
}

static void gather(const saving *s, const kv_section *section)
{
    kv_plane planes[KV_PLANES_MOST];
    const kv_config *c = s->space->config;
    c->layouts[section->layer]->state_list(state_geometry(&s->file, section->layer), planes);
    const kv_plane *plane = &planes[section->plane_i];
    memset(s->buffer, 0, (size_t)state_padded(section->bytes));
    if (plane->by_position) {
        gather_rows(s, section, plane);
        return;
    }
    uint32_t i = state_boundary(&s->file, section->at);
    const kv_page *page = s->way.boundaries[i]->states[section->layer];
    memcpy(s->buffer, page->at + plane->at, plane->bytes);
}

static weft_status write_sections(saving *s, weft_error *err)
{
    const io *files = s->store->files;
    for (uint32_t i = 0; i < s->file.n_sections; i++) {
        kv_section *section = &s->file.sections[i];
        size_t n_bytes = (size_t)state_padded(section->bytes);
        gather(s, section);
        section->checksum = hash_xx64(s->buffer, n_bytes, 0);
        weft_status status =
            files->write_at(files, &s->out, section->offset, s->buffer, n_bytes, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* The header comes last. */
static weft_status write_ends(saving *s, weft_error *err)
{
    const io *files = s->store->files;
    const kv_state_file *f = &s->file;
    unsigned char trailer[STATE_TRAILER];
    state_write_trailer(f, trailer);
    uint64_t at = f->file_bytes - STATE_TRAILER;
    weft_status status = files->write_at(files, &s->out, at, trailer, sizeof trailer, err);
    if (status != WEFT_OK) return status;
    unsigned char *header = arena_array(&s->arena, (size_t)f->header_bytes, 1);
    if (header == NULL) return no_memory(err);
    status = state_write_header(f, &s->store->origin, s->space->salt, header, err);
    if (status != WEFT_OK) return status;
    return files->write_at(files, &s->out, 0, header, (size_t)f->header_bytes, err);
}

/* Under a temporary name, until it is whole and on the disk. */
static weft_status write_file(saving *s, const char *path, weft_error *err)
{
    const io *files = s->store->files;
    weft_status status = files->create(files, path, s->temporary, &s->out, err);
    if (status != WEFT_OK) return status;
    status = write_sections(s, err);
    if (status == WEFT_OK) status = write_ends(s, err);
    if (status == WEFT_OK) status = files->sync(files, &s->out, err);
    weft_status closed = files->close(files, &s->out, status == WEFT_OK ? err : NULL);
    if (status == WEFT_OK) status = closed;
    if (status == WEFT_OK) status = files->rename(files, s->temporary, path, err);
    if (status != WEFT_OK) {
        files->remove(files, s->temporary);
        return status;
    }
    return files->sync_folder(files, path, err);
}

static weft_status save(saving *s, const kv_history *h, const char *path, weft_error *err)
{
    for (int i = 0; i < 2; i++) {
        way w;
        if (!find_way(s->space->roots[i], h, &s->arena, &w)) return no_memory(err);
        if (w.len > s->way.len) s->way = w;
    }
    if (s->way.len == 0) return WEFT_OK;
    weft_status status = describe(s, h, err);
    return status == WEFT_OK ? write_file(s, path, err) : status;
}

weft_status kv_save(kv_files *store, const kv_space *space, const kv_history *history,
                    const char *path, uint32_t *n_saved, weft_error *err)
{
    *n_saved = 0;
    const weft_allocator *allocator = store->prefix->allocator;
    saving *s = mem_alloc_zero(allocator, sizeof *s);
    if (s == NULL) return no_memory(err);
    s->store = store;
    s->space = space;
    arena_init(&s->arena, allocator, 0);
    weft_status status = save(s, history, path, err);
    if (status == WEFT_OK) *n_saved = s->way.len;
    if (*n_saved > 0) store->n_saved++;
    arena_deinit(&s->arena);
    mem_free(allocator, s, sizeof *s);
    return status;
}
