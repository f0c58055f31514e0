/* seq.h - what the files of kv/ that change sequences share: tables and their pages. */
#ifndef KV_SEQ_H
#define KV_SEQ_H

#include "base/assert.h"
#include "kv/txn.h"

/* Index of the slot of page page_i of a layer. */
static inline size_t seq_slot_of(const kv_seq *seq, uint32_t layer, uint32_t page_i)
{
    return (size_t)seq->first_slots[layer] + page_i % seq->n_slots[layer];
}

static inline uint32_t seq_class_of(const kv_seq *seq, uint32_t layer)
{
    return kv_config_class(seq->config, seq->converted, layer);
}

static inline const kv_geometry *seq_geometry_of(const kv_seq *seq, uint32_t layer)
{
    const kv_config *c = seq->config;
    return seq->converted ? &c->geometries[layer] : &c->bases[layer];
}

static inline void seq_put_page(kv_seq *seq, size_t slot, kv_page *page)
{
    seq->held[slot] = page;
    seq->pages[slot] = page == NULL ? NULL : page->at;
}

/* Gives back a page of a recurrent layer, if there is one. */
static inline void seq_give_state(const kv_seq *seq, uint32_t class_i, kv_page **page)
{
    if (*page != NULL) kv_pool_give(seq->pool, class_i, *page);
    *page = NULL;
}

static inline uint32_t seq_pages_for(const kv_config *c, uint32_t n_positions)
{
    return (uint32_t)(((uint64_t)n_positions + c->bounds.page_tokens - 1) / c->bounds.page_tokens);
}

static inline uint32_t seq_keep_at(const kv_config *c, uint32_t layer, uint32_t len)
{
    return c->layouts[layer]->keep(&c->geometries[layer], len);
}

/* Gives back pages [first, end) of a layer. */
static inline void seq_give_pages(kv_seq *seq, uint32_t layer, uint32_t first, uint32_t end)
{
    for (uint32_t j = first; j < end; j++) {
        size_t slot = seq_slot_of(seq, layer, j);
        ASSERT(seq->held[slot] != NULL); /* T-1 */
        kv_pool_give(seq->pool, seq_class_of(seq, layer), seq->held[slot]);
        seq_put_page(seq, slot, NULL);
    }
}

static inline unsigned char *seq_page_at(const kv_page *page)
{
    return page == NULL ? NULL : page->at;
}

static inline kv_view seq_state_view(const kv_seq *seq, uint32_t layer)
{
    const kv_state *state = &seq->states[layer];
    return (kv_view){
        .geometry = &seq->config->geometries[layer],
        .len = seq->len,
        .committed = seq_page_at(state->committed),
        .fresh = seq_page_at(state->fresh),
        .record = seq_page_at(state->record),
        .marked = seq->open ? seq_page_at(state->marked) : NULL,
        .mark = seq->open && seq->mark_at != 0 ? seq->mark_at - seq->len : 0,
    };
}

static inline void seq_drop_mark(kv_seq *seq)
{
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers && seq->mark_at != 0; layer++) {
        seq_give_state(seq, c->class_of[layer], &seq->states[layer].marked);
    }
    seq->mark_at = 0;
}

#endif
