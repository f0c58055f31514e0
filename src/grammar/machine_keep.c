/* machine_keep.c - equal cells and states are kept once; what is of no use any more is dropped by
 * sliding the rest together. */
#include "grammar/machine_keep.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

uint32_t machine_state_slots(const machine_limits *limits)
{
    uint32_t n = 4;
    while (n < limits->states * 2) n *= 2;
    return n;
}

/* ---- cells ---- */

uint32_t machine_find_cell(const machine *m, const cell *c)
{
    uint32_t mask = m->limits.cells * 2 - 1;
    uint32_t slot = (uint32_t)hash_xx64(c, sizeof *c, 0) & mask;
    for (; m->cell_slots[slot] != UINT32_MAX; slot = (slot + 1) & mask)
        if (memcmp(&m->cells[m->cell_slots[slot]], c, sizeof *c) == 0) break;
    return slot;
}

/* ---- configs ---- */

static int compare_configs(const void *a, const void *b)
{
    const config *x = a;
    const config *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->q != y->q) return x->q < y->q ? -1 : 1;
    if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
    return x->count < y->count ? -1 : x->count > y->count;
}

/* Whether a loop at count a can do all that one at count b can. */
static bool count_covers(uint32_t a, uint32_t b, uint32_t min, uint32_t max)
{
    if (a == b) return true;
    if (max == UINT32_MAX) return a > b;
    return a < b && a >= min;
}

static bool stack_covers(const machine *m, uint32_t a, uint32_t b)
{
    while (a != b) {
        const cell *x = &m->cells[a];
        const cell *y = &m->cells[b];
        if (a == 0 || b == 0 || x->node != y->node || x->fresh != y->fresh) return false;
        if (x->count != y->count) {
            const loop *l = &m->program->loops[m->program->nodes[x->node].arg];
            if (!count_covers(x->count, y->count, l->min, l->max)) return false;
        }
        a = x->parent;
        b = y->parent;
    }
    return true;
}

static bool covers(const machine *m, const config *a, const config *b)
{
    if (a->count != b->count) {
        const lexeme *lex = m->program->lexemes[m->program->nodes[a->node].arg];
        if (!count_covers(a->count, b->count, lex->min, lex->max)) return false;
    }
    return stack_covers(m, a->cell, b->cell);
}

/* Among the n configs of one place. */
static uint32_t drop_covered(const machine *m, config *c, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool covered = false;
        for (uint32_t k = 0; k < kept && !covered; k++) covered = covers(m, &c[k], &c[i]);
        if (covered) continue;
        uint32_t left = 0;
        for (uint32_t k = 0; k < kept; k++)
            if (!covers(m, &c[i], &c[k])) c[left++] = c[k];
        c[left] = c[i];
        kept = left + 1;
    }
    return kept;
}

void machine_tidy(machine *m, uint32_t first)
{
    config *c = m->configs + first;
    uint32_t n = m->n_configs - first, kept = 0;
    if (n < 2) return;
    qsort(c, n, sizeof *c, compare_configs);
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i + 1;
        while (end < n && c[end].node == c[i].node && c[end].q == c[i].q) end++;
        uint32_t left = drop_covered(m, c + i, end - i);
        memmove(c + kept, c + i, left * sizeof *c);
        kept += left;
        i = end;
    }
    m->n_configs = first + kept;
    /* What was dropped may have stood between others. */
    qsort(c, kept, sizeof *c, compare_configs);
}

/* ---- states ---- */

static uint32_t find_state(const machine *m, const config *c, uint32_t n)
{
    uint32_t mask = machine_state_slots(&m->limits) - 1;
    uint32_t slot = (uint32_t)hash_xx64(c, n * sizeof *c, 0) & mask;
    for (; m->state_slots[slot] != UINT32_MAX; slot = (slot + 1) & mask) {
        const machine_state *s = &m->states[m->state_slots[slot]];
        if (s->n == n && memcmp(m->configs + s->first, c, n * sizeof *c) == 0) break;
    }
    return slot;
}

static void add_state(machine *m, uint32_t slot, uint32_t first, uint32_t n)
{
    uint32_t n_columns = program_n_columns(m->program);
    m->state_slots[slot] = m->n_states;
    machine_state *s = &m->states[m->n_states];
    *s = (machine_state){first, n, false, 0};
    for (uint32_t i = 0; i < n; i++) s->can_end |= m->configs[first + i].node == NODE_END;
    memset(m->rows + (uint64_t)m->n_states * n_columns, 0xff, n_columns * sizeof *m->rows);
    m->n_states++;
}

uint32_t machine_intern(machine *m, uint32_t first)
{
    uint32_t n = m->n_configs - first;
    if (n == 0) return MACHINE_DEAD;
    uint32_t slot = find_state(m, m->configs + first, n);
    uint32_t found = m->state_slots[slot];
    if (found == UINT32_MAX && m->n_states < m->limits.states) {
        add_state(m, slot, first, n);
        return m->n_states - 1;
    }
    m->n_configs = first;
    return found == UINT32_MAX ? MACHINE_UNKNOWN : found;
}

void machine_forget(machine *m)
{
    memset(m->state_slots, 0xff, machine_state_slots(&m->limits) * sizeof *m->state_slots);
    memset(m->cell_slots, 0xff, (size_t)m->limits.cells * 2 * sizeof *m->cell_slots);
    m->states[MACHINE_DEAD] = (machine_state){0, 0, false, 0};
    memset(m->rows, 0, program_n_columns(m->program) * sizeof *m->rows);
    m->n_states = 1;
    m->n_configs = 0;
    m->n_cells = 1;
}

/* ---- dropping what is of no use ---- */

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The roots' states, each once, ascending, in the slots of states, which are written anew anyway;
 * those that are dropped need no list. */
static uint32_t list_states(machine *m, const machine_roots *roots)
{
    uint32_t n = 0, kept = 0;
    uint32_t *list = m->state_slots;
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t i = 0; i < roots->n[r]; i++) {
            uint32_t state = roots->states[r][i];
            if (state == MACHINE_DEAD) continue;
            ASSERT(state < m->n_states && n < machine_state_slots(&m->limits));
            list[n++] = state;
        }
    qsort(list, n, sizeof *list, compare_ids);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || list[kept - 1] != list[i]) list[kept++] = list[i];
    return kept;
}

/* Slides the cells that configs of the listed states use; new numbers in cell_slots. A parent
 * stands before its child, so one pass down marks and one pass up moves. */
static void slide_cells(machine *m, const uint32_t *list, uint32_t n)
{
    uint32_t *moved = m->cell_slots;
    memset(moved, 0, m->n_cells * sizeof *moved);
    for (uint32_t i = 0; i < n; i++) {
        const machine_state *s = &m->states[list[i]];
        for (uint32_t k = 0; k < s->n; k++) moved[m->configs[s->first + k].cell] = 1;
    }
    for (uint32_t i = m->n_cells - 1; i > 0; i--)
        if (moved[i] != 0) moved[m->cells[i].parent] = 1;
    uint32_t kept = 1;
    moved[0] = 0;
    for (uint32_t i = 1; i < m->n_cells; i++) {
        if (moved[i] == 0) continue;
        m->cells[kept] = m->cells[i];
        m->cells[kept].parent = moved[m->cells[kept].parent];
        moved[i] = kept++;
    }
    m->n_cells = kept;
}

/* The listed states with the new numbers of their cells; list[i] becomes state i + 1. */
static void slide_states(machine *m, const uint32_t *list, uint32_t n)
{
    uint32_t n_configs = 0;
    for (uint32_t i = 0; i < n; i++) {
        machine_state s = m->states[list[i]];
        for (uint32_t k = 0; k < s.n; k++) {
            config c = m->configs[s.first + k];
            c.cell = m->cell_slots[c.cell];
            m->configs[n_configs + k] = c;
        }
        m->states[i + 1] = (machine_state){n_configs, s.n, s.can_end, 0};
        n_configs += s.n;
    }
    m->n_configs = n_configs;
}

static void number_roots(const machine_roots *roots, const uint32_t *list, uint32_t n)
{
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t i = 0; i < roots->n[r]; i++) {
            uint32_t *state = &roots->states[r][i];
            if (*state == MACHINE_DEAD) continue;
            const uint32_t *found = bsearch(state, list, n, sizeof *list, compare_ids);
            ASSERT(found != NULL);
            *state = (uint32_t)(found - list) + 1;
        }
}

void machine_collect(machine *m, const machine_roots *roots)
{
    uint32_t n = list_states(m, roots);
    uint32_t *list = m->state_slots;
    slide_cells(m, list, n);
    slide_states(m, list, n);
    number_roots(roots, list, n);
    uint32_t n_cells = m->n_cells, n_configs = m->n_configs;
    machine_forget(m);
    for (uint32_t i = 1; i < n_cells; i++) {
        uint32_t slot = machine_find_cell(m, &m->cells[i]);
        m->cell_slots[slot] = i;
    }
    m->n_cells = n_cells;
    for (uint32_t i = 0; i < n; i++) {
        machine_state s = m->states[i + 1];
        uint32_t slot = find_state(m, m->configs + s.first, s.n);
        add_state(m, slot, s.first, s.n);
    }
    m->n_configs = n_configs;
}
