/* place.c - where the values of a step lie: first fit by lifetime.
 *
 * Values come in the order they run, so a value lives from its own index to its last reader. Each gets the
 * lowest place that no living value holds. */
#include "graph/graph.h"

#include "base/mem.h"

enum { PLACE_ALIGN = 16 };

static bool has_storage(const graph *g, graph_id id)
{
    graph_op op = g->values[id].op;
    return op != GRAPH_NONE && op != GRAPH_WEIGHT && op != GRAPH_INPUT && op != GRAPH_KV_APPEND &&
           id != g->output;
}

static bool value_size(const graph_value *v, uint32_t n_tokens, uint32_t n_outputs, size_t *size)
{
    size_t rows = v->rows == GRAPH_TOKENS ? n_tokens : n_outputs;
    if (!size_mul(rows, v->cols, size) || *size > SIZE_MAX / 64) return false;
    *size = size_align(*size, PLACE_ALIGN);
    return true;
}

/* Candidates are 0 and the ends of living values. */
static size_t lowest_place(const graph_slot *slots, graph_id id, size_t size)
{
    size_t best = SIZE_MAX;
    for (graph_id c = 0; c < id; c++) {
        bool living = slots[c].offset != SIZE_MAX && slots[c].end >= id;
        if (c != 0 && !living) continue;
        size_t at = c == 0 ? 0 : slots[c].offset + slots[c].size;
        bool free = at < best;
        for (graph_id o = 1; o < id && free; o++) {
            if (slots[o].offset == SIZE_MAX || slots[o].end < id) continue;
            free = at + size <= slots[o].offset || slots[o].offset + slots[o].size <= at;
        }
        if (free) best = at;
    }
    return best;
}

weft_status graph_place(const graph *g, uint32_t n_tokens, uint32_t n_outputs, graph_slot *slots,
                        size_t *total, weft_error *err)
{
    *total = 0;
    slots[0] = (graph_slot){SIZE_MAX, 0, 0};
    size_t sum = 0;
    for (graph_id id = 1; id < g->n_values; id++) {
        graph_id end = graph_last_use(g, id);
        slots[id] = (graph_slot){SIZE_MAX, 0, end};
        if (!has_storage(g, id)) continue;
        size_t size;
        if (!value_size(&g->values[id], n_tokens, n_outputs, &size)) {
            return err_set(err, WEFT_LIMIT, "a step of %u tokens needs too much memory", n_tokens);
        }
        slots[id].size = size;
        slots[id].offset = lowest_place(slots, id, size);
        if (slots[id].offset + size > sum) sum = slots[id].offset + size;
    }
    *total = sum;
    return WEFT_OK;
}
