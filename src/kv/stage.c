/* stage.c - pages on their way from a file into the prefix cache. */
#include "kv/stage.h"

#include <string.h>

#include "base/assert.h"

static uint32_t page_tokens(const stage *s)
{
    return s->file->config->bounds.page_tokens;
}

static uint32_t class_of(const stage *s, uint32_t layer)
{
    return kv_config_class(s->file->config, s->file->converted, layer);
}

static kv_page **slot_of(const stage *s, uint32_t layer, uint32_t page_i)
{
    return &s->seq->held[s->seq->first_slots[layer] + page_i];
}

/* ---- what is needed -------------------------------------------------------------------------- */

static bool take_tables(stage *s)
{
    kv_seq *seq = s->seq;
    const kv_config *c = s->file->config;
    size_t n_pages = (s->file->len - 1) / page_tokens(s) + 1;
    seq->first_slots = mem_alloc_zero(s->prefix->allocator, c->n_layers * sizeof *seq->first_slots);
    seq->n_slots = mem_alloc_zero(s->prefix->allocator, c->n_layers * sizeof *seq->n_slots);
    seq->firsts = mem_alloc_zero(s->prefix->allocator, c->n_layers * sizeof *seq->firsts);
    seq->states = mem_alloc_zero(s->prefix->allocator, c->n_layers * sizeof *seq->states);
    if (!seq->first_slots || !seq->n_slots || !seq->firsts || !seq->states) return false;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (seq->slots_total > UINT32_MAX - n_pages) return false;
        seq->first_slots[i] = (uint32_t)seq->slots_total;
        seq->n_slots[i] = kv_is_recurrent(c, i) ? 0 : (uint32_t)n_pages;
        seq->slots_total += seq->n_slots[i];
    }
    seq->held = mem_alloc_zero(s->prefix->allocator, seq->slots_total * sizeof(void *));
    seq->pages = mem_alloc_zero(s->prefix->allocator, seq->slots_total * sizeof *seq->pages);
    return (seq->held && seq->pages) || seq->slots_total == 0;
}

/* Of one layer: pages are counted first, and then taken. */
typedef struct taking {
    stage *s;
    bool counts;
    uint32_t next; /* the first page that is not taken yet */
} taking;

static void take_run(void *user, uint32_t layer, kv_range32 rows)
{
    taking *t = user;
    kv_seq *seq = t->s->seq;
    uint32_t class_i = class_of(t->s, layer);
    uint32_t first = rows.first / page_tokens(t->s);
    uint32_t end = (rows.end - 1) / page_tokens(t->s) + 1;
    if (first < t->next) first = t->next;
    t->next = end;
    if (t->counts) seq->need[class_i] += end - first;
    for (uint32_t i = first; i < end && !t->counts; i++)
        *slot_of(t->s, layer, i) = kv_pool_take(seq->pool, class_i);
}

static void take_pages(stage *s, bool counts)
{
    const kv_config *c = s->file->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        taking t = {s, counts, 0};
        if (!kv_is_recurrent(c, layer)) {
            state_each_run(s->file, layer, take_run, &t);
            continue;
        }
        uint32_t n = s->file->n_boundaries;
        if (counts) s->seq->need[class_of(s, layer)] += n;
        for (uint32_t i = 0; i < n && !counts; i++) {
            s->states[(size_t)i * c->n_layers + layer] =
                kv_pool_take(s->seq->pool, class_of(s, layer));
        }
    }
}

/* Room for all of them, as a promise has it. */
static weft_status reserve(stage *s, weft_error *err)
{
    const kv_prefix *p = s->prefix;
    uint64_t bytes = 0;
    take_pages(s, true);
    for (uint32_t i = 0; i < KV_CLASSES_MOST; i++) {
        if (s->seq->need[i] > 0)
            bytes += s->seq->need[i] * (uint64_t)kv_pool_page_bytes(p->pool, i);
    }
    if (bytes > p->most_bytes - p->bytes_lent) {
        return err_set(err, WEFT_LIMIT, "a file of %llu bytes of pages, the cache holds %llu",
                       (unsigned long long)bytes, (unsigned long long)p->most_bytes);
    }
    return kv_pool_reserve(p->pool, s->seq->need, err);
}

weft_status stage_open(stage *s, kv_prefix *prefix, arena *a, const kv_state_file *file,
                       weft_error *err)
{
    size_t n_states;
    *s = (stage){.prefix = prefix, .file = file};
    if (!size_mul(file->n_boundaries, file->config->n_layers, &n_states)) n_states = SIZE_MAX;
    s->states = arena_array(a, n_states, sizeof(void *));
    if (s->states != NULL) s->seq = mem_alloc_zero(prefix->allocator, sizeof *s->seq);
    if (s->seq == NULL) return err_set(err, WEFT_NOMEM, "out of memory for pages of a file");
    s->seq->pool = prefix->pool;
    s->seq->config = file->config;
    s->seq->converted = file->converted;
    weft_status status = WEFT_NOMEM;
    if (take_tables(s)) {
        s->seq->limit = file->len;
        status = reserve(s, err);
    } else {
        err_set(err, status, "out of memory for pages of a file");
    }
    if (status != WEFT_OK) {
        kv_seq_destroy(prefix->allocator, s->seq);
        s->seq = NULL;
        return status;
    }
    s->seq->reserved = true;
    take_pages(s, false);
    return WEFT_OK;
}

static void give_state(stage *s, uint32_t boundary_i, uint32_t layer)
{
    kv_page **page = &s->states[(size_t)boundary_i * s->file->config->n_layers + layer];
    if (*page != NULL) kv_pool_give(s->seq->pool, class_of(s, layer), *page);
    *page = NULL;
}

void stage_close(stage *s)
{
    if (s->seq == NULL) return;
    for (uint32_t i = 0; i < s->file->n_boundaries; i++) {
        for (uint32_t layer = 0; layer < s->file->config->n_layers; layer++)
            give_state(s, i, layer);
    }
    kv_seq_destroy(s->prefix->allocator, s->seq);
    s->seq = NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void stage_put(stage *s, const kv_section *section, const unsigned char *bytes)
{
    const kv_state_file *f = s->file;
    kv_plane planes[KV_PLANES_MOST];
    f->config->layouts[section->layer]->state_list(state_geometry(f, section->layer), planes);
    const kv_plane *plane = &planes[section->plane_i];
    if (!plane->by_position) {
        size_t i = (size_t)state_boundary(f, section->at) * f->config->n_layers + section->layer;
        memcpy(s->states[i]->at + plane->at, bytes, plane->bytes);
        return;
    }
    uint32_t p = page_tokens(s);
    for (uint32_t at = section->rows.first; at < section->rows.end;) {
        uint32_t end = at - at % p + p;
        if (end > section->rows.end) end = section->rows.end;
        state_scatter(plane, p, section->rows, (kv_range32){at, end}, bytes,
                      (*slot_of(s, section->layer, at / p))->at);
        at = end;
    }
}

/* ---- into the cache -------------------------------------------------------------------------- */

static bool has_window(const kv_config *c, uint32_t layer)
{
    return !kv_keeps_all(c, layer) && !kv_is_recurrent(c, layer);
}

void stage_choose(const kv_config *c, const uint32_t *boundaries, uint32_t n, uint32_t *later,
                  bool *chosen)
{
    uint32_t p = c->bounds.page_tokens;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) later[layer] = UINT32_MAX;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t at = boundaries[i];
        chosen[i] = true;
        for (uint32_t layer = 0; layer < c->n_layers; layer++) {
            if (!has_window(c, layer)) continue;
            bool hole = later[layer] != UINT32_MAX && later[layer] > at;
            bool rows = kv_lowest(&c->geometries[layer], at) < at;
            if (hole && rows && (at - 1) / p >= later[layer] / p) chosen[i] = false;
        }
        for (uint32_t layer = 0; layer < c->n_layers && chosen[i]; layer++) {
            uint32_t lowest = kv_lowest(&c->geometries[layer], at);
            if (has_window(c, layer) && lowest < at) later[layer] = lowest;
        }
    }
}

/* The sequence stands at a boundary. */
static void stand_at(stage *s, uint32_t boundary_i)
{
    const kv_state_file *f = s->file;
    s->seq->len = f->boundaries[boundary_i];
    for (uint32_t layer = 0; layer < f->config->n_layers; layer++) {
        if (kv_is_recurrent(f->config, layer)) {
            s->seq->firsts[layer] = s->seq->len;
            s->seq->states[layer].committed =
                s->states[(size_t)boundary_i * f->config->n_layers + layer];
            continue;
        }
        s->seq->firsts[layer] = state_run(f, layer, boundary_i).first;
    }
}

static void leave(stage *s, uint32_t boundary_i)
{
    for (uint32_t layer = 0; layer < s->file->config->n_layers; layer++) {
        s->seq->states[layer].committed = NULL;
        give_state(s, boundary_i, layer);
    }
}

void stage_publish(stage *s, kv_space *space, const kv_history *history, bool *chosen)
{
    stage_choose(s->file->config, s->file->boundaries, s->file->n_boundaries, s->seq->firsts,
                 chosen);
    for (uint32_t i = 0; i < s->file->n_boundaries; i++) {
        if (!chosen[i]) continue;
        kv_history part = *history;
        part.n = s->file->boundaries[i];
        stand_at(s, i);
        kv_prefix_hand_over(s->prefix, space, s->seq, &part);
        leave(s, i);
    }
}
