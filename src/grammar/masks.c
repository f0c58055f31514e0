/* masks.c - a small memory of masks; the one that was not used for longest gives way. */
#include "grammar/masks.h"

#include <string.h>

/* ---- keys ---- */

static void add(mask_key *key, uint32_t value)
{
    if (key->n_bytes == 0 || key->n_bytes + sizeof value > MASK_KEY_BYTES) {
        key->n_bytes = 0;
        return;
    }
    memcpy(key->bytes + key->n_bytes, &value, sizeof value);
    key->n_bytes += (uint32_t)sizeof value;
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

/* How far a count is from its bounds. */
static void add_count(mask_key *key, uint32_t count, uint32_t min, uint32_t max, uint32_t reach)
{
    add(key, at_most(count < min ? min - count : 0, reach));
    add(key, max == UINT32_MAX ? reach : at_most(max - count, reach));
}

static void add_lexeme(mask_key *key, const lexeme *lex, const config *c, uint32_t longest)
{
    add(key, c->q);
    if (lex->lengths == NULL) return;
    /* Where lengths come only in steps, a count matters as it is. */
    if (lex->period != 1) {
        add(key, c->count);
    } else {
        add_count(key, c->count, lex->min, lex->max, longest + 1 + lex->start);
    }
}

static void add_stack(mask_key *key, const machine *m, uint32_t cell_i, uint32_t longest)
{
    for (; cell_i != 0 && key->n_bytes != 0; cell_i = m->cells[cell_i].parent) {
        const cell *c = &m->cells[cell_i];
        const program_node *n = &m->program->nodes[c->node];
        add(key, c->node);
        if (n->kind != NODE_KIND_LOOP) continue;
        const loop *l = &m->program->loops[n->arg];
        add_count(key, c->count, l->min, l->max, longest + 1);
        add(key, c->fresh);
    }
    add(key, NODE_END);
}

void mask_key_of(mask_key *key, const machine *m, uint32_t state, uint32_t longest)
{
    const machine_state *s = &m->states[state];
    key->n_bytes = 4;
    memcpy(key->bytes, &s->n, 4);
    for (uint32_t i = 0; i < s->n && key->n_bytes != 0; i++) {
        const config *c = &m->configs[s->first + i];
        const program_node *n = &m->program->nodes[c->node];
        add(key, c->node);
        if (n->kind == NODE_KIND_LEXEME) add_lexeme(key, m->program->lexemes[n->arg], c, longest);
        add_stack(key, m, c->cell, longest);
    }
}

/* ---- masks ---- */

weft_status masks_init(masks *all, const weft_allocator *allocator, uint32_t n_slots,
                       uint32_t n_words, weft_error *err)
{
    *all = (masks){.n_slots = n_slots, .n_words = n_words};
    weft_status status = thread_lock_create(allocator, &all->lock, err);
    if (status != WEFT_OK) return status;
    all->slots = mem_alloc_zero(allocator, n_slots * sizeof *all->slots);
    all->bits = mem_alloc(allocator, (size_t)n_slots * n_words * sizeof *all->bits);
    if (all->slots != NULL && all->bits != NULL) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for %u masks of a grammar", n_slots);
}

void masks_deinit(masks *all, const weft_allocator *allocator)
{
    thread_lock_destroy(all->lock);
    mem_free(allocator, all->slots, all->n_slots * sizeof *all->slots);
    mem_free(allocator, all->bits, (size_t)all->n_slots * all->n_words * sizeof *all->bits);
}

static bool is_key(const mask_slot *slot, const mask_key *key)
{
    return slot->key.n_bytes == key->n_bytes &&
           memcmp(slot->key.bytes, key->bytes, key->n_bytes) == 0;
}

bool masks_find(masks *all, const mask_key *key, uint64_t *bits)
{
    if (key->n_bytes == 0) return false;
    bool found = false;
    thread_lock_take(all->lock);
    for (uint32_t i = 0; i < all->n_slots && !found; i++) {
        found = is_key(&all->slots[i], key);
        if (!found) continue;
        all->slots[i].used = ++all->clock;
        memcpy(bits, all->bits + (size_t)i * all->n_words, all->n_words * sizeof *bits);
    }
    thread_lock_drop(all->lock);
    return found;
}

void masks_put(masks *all, const mask_key *key, const uint64_t *bits)
{
    if (key->n_bytes == 0) return;
    thread_lock_take(all->lock);
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < all->n_slots; i++)
        if (all->slots[i].used < all->slots[oldest].used) oldest = i;
    all->slots[oldest].key = *key;
    all->slots[oldest].used = ++all->clock;
    memcpy(all->bits + (size_t)oldest * all->n_words, bits, all->n_words * sizeof *bits);
    thread_lock_drop(all->lock);
}
