/* place.c - where the values of a step lie: first fit by lifetime. */
#include "graph/graph.h"

#include "base/assert.h"
#include "base/mem.h"

enum { PLACE_ALIGN = 16 };

static bool has_storage(const graph *g, graph_id id)
{
    graph_op op = g->values[id].op;
    bool constant = op == GRAPH_NONE || op == GRAPH_WEIGHT || op == GRAPH_STACK;
    bool given = op == GRAPH_INPUT || op == GRAPH_FEED;
    bool state = op == GRAPH_KV_APPEND || op == GRAPH_KV_STORE || op == GRAPH_STATE;
    if (op == GRAPH_TAP) return false;
    return !constant && !state && !given && !graph_is_result(g, id);
}

static bool value_size(const graph_value *v, graph_rows most, size_t *size)
{
    if (!size_mul(graph_count(most, v->rows), v->cols, size) || *size > SIZE_MAX / 64) return false;
    *size = size_align(*size, PLACE_ALIGN);
    return true;
}

void graph_lifetimes(const graph *g, graph_slot *slots)
{
    for (graph_id id = 0; id < g->n_values; id++) {
        slots[id] = (graph_slot){.start = id, .end = graph_last_use(g, id), .offset = SIZE_MAX};
    }
}

static bool meets(const graph_slot *a, const graph_slot *b)
{
    return a->offset != SIZE_MAX && a->shares == 0 && a->start <= b->end && b->start <= a->end;
}

/* Candidates are 0 and the ends of the values that live at the same time. */
static size_t lowest_place(const graph_slot *slots, graph_id id)
{
    const graph_slot *slot = &slots[id];
    size_t best = SIZE_MAX;
    for (graph_id c = 0; c < id; c++) {
        if (c != 0 && !meets(&slots[c], slot)) continue;
        size_t at = c == 0 ? 0 : slots[c].offset + slots[c].size;
        bool free = at < best;
        for (graph_id o = 1; o < id && free; o++) {
            if (!meets(&slots[o], slot)) continue;
            free = at + slot->size <= slots[o].offset || slots[o].offset + slots[o].size <= at;
        }
        if (free) best = at;
    }
    return best;
}

weft_status graph_place(const graph *g, graph_rows most, graph_slot *slots, size_t *total,
                        weft_error *err)
{
    *total = 0;
    for (graph_id id = g->n_values - 1; id > 0; id--) {
        graph_id base = slots[id].shares;
        ASSERT(base < id);
        if (base != 0 && slots[id].end > slots[base].end) slots[base].end = slots[id].end;
    }
    size_t sum = 0;
    for (graph_id id = 1; id < g->n_values; id++) {
        graph_slot *slot = &slots[id];
        slot->offset = SIZE_MAX;
        if (!has_storage(g, id)) continue;
        if (!value_size(&g->values[id], most, &slot->size)) {
            return err_set(err, WEFT_LIMIT, "a step of %u tokens needs too much memory",
                           most.tokens);
        }
        slot->offset = slot->shares != 0 ? slots[slot->shares].offset : lowest_place(slots, id);
        if (slot->offset + slot->size > sum) sum = slot->offset + slot->size;
        /* So that no later sum wraps, and bytes can be counted. */
        if (sum > SIZE_MAX / 64) {
            return err_set(err, WEFT_LIMIT, "a step of %u tokens needs too much memory",
                           most.tokens);
        }
    }
    *total = sum;
    return WEFT_OK;
}
