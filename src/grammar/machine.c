/* machine.c - states of a program, made on demand: a subset construction over stacks. */
#include "grammar/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "grammar/machine_keep.h"

/* ---- memory ---- */

/* Cuts the next array of a block; with base NULL only counts. */
static void *cut(unsigned char *base, size_t *at, size_t count, size_t size)
{
    size_t bytes, end;
    if (*at == SIZE_MAX || !size_mul(count, size, &bytes) || !size_add(*at, bytes + 63, &end)) {
        *at = SIZE_MAX;
        return NULL;
    }
    void *array = base == NULL ? NULL : base + *at;
    *at = end / 64 * 64;
    return array;
}

static size_t lay_out(machine *m, const program *p, const machine_limits *l, unsigned char *base)
{
    size_t at = 0;
    m->states = cut(base, &at, l->states, sizeof *m->states);
    m->rows = cut(base, &at, (size_t)l->states * program_n_columns(p), sizeof *m->rows);
    m->configs = cut(base, &at, l->configs, sizeof *m->configs);
    m->cells = cut(base, &at, l->cells, sizeof *m->cells);
    m->state_slots = cut(base, &at, machine_state_slots(l), sizeof *m->state_slots);
    m->cell_slots = cut(base, &at, (size_t)l->cells * 2, sizeof *m->cell_slots);
    m->stack = cut(base, &at, l->items, sizeof *m->stack);
    m->seen = cut(base, &at, (size_t)l->items * 2, sizeof *m->seen);
    m->stamps = cut(base, &at, (size_t)l->items * 2, sizeof *m->stamps);
    return at;
}

size_t machine_bytes(const program *p, const machine_limits *limits)
{
    machine m;
    return lay_out(&m, p, limits, NULL);
}

void machine_copy(machine *to, const machine *from, void *memory)
{
    size_t bytes = machine_bytes(from->program, &from->limits);
    *to = *from;
    memcpy(memory, from->states, bytes);
    (void)lay_out(to, from->program, &from->limits, memory);
}

/* ---- cells ---- */

static uint32_t push(machine *m, uint32_t at, uint32_t count, uint32_t parent, bool fresh)
{
    const cell *below = &m->cells[parent];
    cell c = {.node = at, .count = count, .parent = parent, .fresh = fresh};
    c.depth = (uint16_t)(below->depth + 1);
    c.any_fresh = fresh || below->any_fresh;
    uint32_t slot = machine_find_cell(m, &c);
    if (m->cell_slots[slot] != UINT32_MAX) return m->cell_slots[slot];
    if (m->n_cells == m->limits.cells) {
        m->full = true;
        return 0;
    }
    m->cells[m->n_cells] = c;
    m->cell_slots[slot] = m->n_cells;
    return m->n_cells++;
}

/* The same stack after a byte was taken. */
static uint32_t settle(machine *m, uint32_t at)
{
    const cell *c = &m->cells[at];
    if (!c->any_fresh) return at;
    uint32_t frame = c->node, count = c->count;
    return push(m, frame, count, settle(m, c->parent), false);
}

/* ---- one step ---- */

/* Puts a place on the list of those to look at, unless it was there or could not reach the end
 * within the depth of a stack. */
static void meet(machine *m, uint32_t at, uint32_t cell_i)
{
    uint32_t need = m->program->nodes[at].need;
    if (need > m->limits.depth || m->cells[cell_i].depth + need > m->limits.depth) return;
    uint64_t key = (uint64_t)at << 32 | cell_i;
    uint32_t mask = m->limits.items * 2 - 1;
    uint32_t slot = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & mask;
    while (m->stamps[slot] == m->stamp) {
        if (m->seen[slot] == key) return;
        slot = (slot + 1) & mask;
    }
    if (m->n_seen == m->limits.items || m->n_stack == m->limits.items) {
        m->out_of_room = true;
        return;
    }
    m->seen[slot] = key;
    m->stamps[slot] = m->stamp;
    m->n_seen++;
    m->stack[m->n_stack++] = (machine_item){at, cell_i};
}

static void keep(machine *m, uint32_t at, uint32_t cell_i, uint32_t q, uint32_t count)
{
    if (m->n_configs == m->limits.configs) {
        m->full = true;
        return;
    }
    m->configs[m->n_configs++] = (config){at, cell_i, q, count};
}

static void enter_loop(machine *m, uint32_t at, uint32_t cell_i)
{
    const program_node *n = &m->program->nodes[at];
    const loop *l = &m->program->loops[n->arg];
    if (l->max > 0 && m->program->nodes[l->body].need != PROGRAM_ENDLESS)
        meet(m, l->body, push(m, at, 0, cell_i, l->nullable));
    if (l->min == 0) meet(m, n->next, cell_i);
}

/* A loop's body is done once more. An empty turn leads nowhere new but out. */
static void end_turn(machine *m, uint32_t cell_i)
{
    cell c = m->cells[cell_i];
    const program_node *n = &m->program->nodes[c.node];
    const loop *l = &m->program->loops[n->arg];
    if (c.fresh) {
        meet(m, n->next, c.parent);
        return;
    }
    uint32_t count = c.count + 1;
    if (count >= l->min) meet(m, n->next, c.parent);
    /* Where there is no largest count, those from the least on are the same. */
    if (l->max == PROGRAM_ENDLESS && count > l->min) count = l->min;
    if (count < l->max) meet(m, l->body, push(m, c.node, count, c.parent, l->nullable));
}

static void leave(machine *m, uint32_t cell_i)
{
    if (cell_i == 0) {
        keep(m, NODE_END, 0, 0, 0);
        return;
    }
    cell c = m->cells[cell_i];
    meet(m, m->program->nodes[c.node].next, c.parent);
}

static void enter_lexeme(machine *m, uint32_t at, uint32_t cell_i)
{
    const program_node *n = &m->program->nodes[at];
    const lexeme *lex = m->program->lexemes[n->arg];
    if (lexeme_alive(lex, 1, 0)) keep(m, at, cell_i, 1, 0);
    if ((lex->automaton->flag[1] & DFA_ACCEPT) != 0 && lex->min == 0) meet(m, n->next, cell_i);
}

static void enter_call(machine *m, uint32_t at, uint32_t cell_i)
{
    const program_node *n = &m->program->nodes[at];
    uint32_t start = m->program->rules[n->arg].start;
    /* A call at a rule's end needs no frame: recursion at the right costs no depth. */
    meet(m, start, n->next == NODE_RETURN ? cell_i : push(m, at, 0, cell_i, false));
}

static void look_at(machine *m, machine_item item)
{
    const program_node *n = &m->program->nodes[item.node];
    switch ((node_kind)n->kind) {
    case NODE_KIND_FAIL:
        break;
    case NODE_KIND_RETURN:
        leave(m, item.cell);
        break;
    case NODE_KIND_AGAIN:
        end_turn(m, item.cell);
        break;
    case NODE_KIND_END:
    case NODE_KIND_BYTES:
    case NODE_KIND_TOKEN:
        keep(m, item.node, item.cell, 0, 0);
        break;
    case NODE_KIND_SPLIT:
        meet(m, n->arg, item.cell);
        meet(m, n->next, item.cell);
        break;
    case NODE_KIND_LEXEME:
        enter_lexeme(m, item.node, item.cell);
        break;
    case NODE_KIND_CALL:
        enter_call(m, item.node, item.cell);
        break;
    case NODE_KIND_LOOP:
        enter_loop(m, item.node, item.cell);
        break;
    }
}

static void look_at_all(machine *m)
{
    while (m->n_stack > 0 && !m->full && !m->out_of_room) look_at(m, m->stack[--m->n_stack]);
}

static void step_lexeme(machine *m, config c, unsigned char byte)
{
    const program_node *n = &m->program->nodes[c.node];
    const lexeme *lex = m->program->lexemes[n->arg];
    uint32_t q = dfa_step(lex->automaton, c.q, byte);
    if (q == DFA_DEAD) return;
    uint32_t count = c.count;
    if (lex->lengths != NULL && (lex->automaton->flag[q] & DFA_WHOLE) != 0) {
        count++;
        if (lex->max == LEXEME_ENDLESS && count > lex->min) count = lex->min;
    }
    if (!lexeme_alive(lex, q, count)) return;
    if ((lex->automaton->flag[q] & DFA_LAST) == 0) keep(m, c.node, c.cell, q, count);
    if ((lex->automaton->flag[q] & DFA_ACCEPT) != 0 && count >= lex->min) meet(m, n->next, c.cell);
}

static void step_config(machine *m, config c, uint32_t symbol)
{
    const program_node *n = &m->program->nodes[c.node];
    if (n->kind == NODE_KIND_TOKEN) {
        if (symbol == SYMBOL_TOKEN + n->arg) meet(m, n->next, settle(m, c.cell));
        return;
    }
    if (symbol >= SYMBOL_TOKEN) return;
    unsigned char byte = (unsigned char)symbol;
    if (n->kind == NODE_KIND_BYTES) {
        if (byte_set_has(&m->program->sets[n->arg], byte)) meet(m, n->next, settle(m, c.cell));
    } else if (n->kind == NODE_KIND_LEXEME) {
        if (m->cells[c.cell].any_fresh) c.cell = settle(m, c.cell);
        step_lexeme(m, c, byte);
    }
}

static void begin_step(machine *m)
{
    m->n_stack = m->n_seen = 0;
    m->full = m->out_of_room = false;
    if (++m->stamp != 0) return;
    memset(m->stamps, 0, (size_t)m->limits.items * 2 * sizeof *m->stamps);
    m->stamp = 1;
}

/* The state of the configs from first on; MACHINE_UNKNOWN when there was no room. */
static uint32_t finish_step(machine *m, uint32_t first)
{
    if (m->full || m->out_of_room) {
        m->n_configs = first;
        return MACHINE_UNKNOWN;
    }
    machine_tidy(m, first);
    uint32_t state = machine_intern(m, first);
    m->full = state == MACHINE_UNKNOWN;
    return state;
}

static uint32_t try_step(machine *m, uint32_t from, uint32_t symbol)
{
    uint32_t first = m->n_configs;
    machine_state s = m->states[from];
    begin_step(m);
    for (uint32_t i = 0; i < s.n && !m->full && !m->out_of_room; i++) {
        step_config(m, m->configs[s.first + i], symbol);
        look_at_all(m);
    }
    return finish_step(m, first);
}

weft_status machine_init(machine *m, const program *p, const machine_limits *limits, void *memory,
                         weft_error *err)
{
    ASSERT((limits->cells & (limits->cells - 1)) == 0 &&
           (limits->items & (limits->items - 1)) == 0);
    ASSERT(limits->depth < UINT16_MAX && limits->states > 2 && limits->cells > 1);
    *m = (machine){.program = p, .limits = *limits};
    (void)lay_out(m, p, limits, memory);
    memset(m->stamps, 0, (size_t)limits->items * 2 * sizeof *m->stamps);
    m->cells[0] = (cell){.node = NODE_END};
    machine_forget(m);
    begin_step(m);
    meet(m, p->rules[0].start, 0);
    look_at_all(m);
    uint32_t state = finish_step(m, 0);
    if (state == MACHINE_UNKNOWN)
        return err_set(err, WEFT_LIMIT, "the beginning of the text has more than %u alternatives",
                       limits->items);
    /* Without a config there is no state but the dead one. */
    if (state == MACHINE_DEAD)
        return err_set(err, WEFT_LIMIT, "no text ends within %u nested parts", limits->depth);
    ASSERT(state == MACHINE_START);
    return WEFT_OK;
}

static weft_status no_room(const machine *m, weft_error *err)
{
    if (m->out_of_room)
        return err_set(err, WEFT_LIMIT, "the grammar has more than %u alternatives here",
                       m->limits.items);
    return err_set(err, WEFT_LIMIT, "the grammar needs more than %u states here", m->limits.states);
}

weft_status machine_step(machine *m, const uint32_t *from, uint32_t symbol,
                         const machine_roots *roots, uint32_t *to, weft_error *err)
{
    *to = machine_look(m, *from, symbol);
    if (*to != MACHINE_UNKNOWN) return WEFT_OK;
    *to = try_step(m, *from, symbol);
    if (*to == MACHINE_UNKNOWN && m->full && roots != NULL) {
        machine_collect(m, roots);
        *to = try_step(m, *from, symbol);
    }
    if (*to == MACHINE_UNKNOWN) return no_room(m, err);
    const program *p = m->program;
    m->rows[(uint64_t)*from * program_n_columns(p) + program_column(p, symbol)] = *to;
    return WEFT_OK;
}

static uint32_t try_join(machine *m, const uint32_t from[2])
{
    uint32_t first = m->n_configs;
    begin_step(m);
    for (uint32_t k = 0; k < 2; k++) {
        machine_state s = m->states[from[k]];
        for (uint32_t i = 0; i < s.n; i++) {
            const config c = m->configs[s.first + i];
            keep(m, c.node, c.cell, c.q, c.count);
        }
    }
    return finish_step(m, first);
}

weft_status machine_join(machine *m, const uint32_t from[2], const machine_roots *roots,
                         uint32_t *to, weft_error *err)
{
    *to = from[0] == MACHINE_DEAD ? from[1] : from[0];
    if (from[0] == from[1] || from[0] == MACHINE_DEAD || from[1] == MACHINE_DEAD) return WEFT_OK;
    *to = try_join(m, from);
    if (*to == MACHINE_UNKNOWN && m->full) {
        machine_collect(m, roots);
        *to = try_join(m, from);
    }
    return *to == MACHINE_UNKNOWN ? no_room(m, err) : WEFT_OK;
}

static uint32_t try_without(machine *m, uint32_t from, const uint32_t *places, uint32_t n)
{
    uint32_t first = m->n_configs, next = 0;
    machine_state s = m->states[from];
    begin_step(m);
    for (uint32_t i = 0; i < s.n; i++) {
        const config c = m->configs[s.first + i];
        if (next < n && places[next] == i) {
            next++;
        } else {
            keep(m, c.node, c.cell, c.q, c.count);
        }
    }
    return finish_step(m, first);
}

weft_status machine_without(machine *m, const uint32_t *from, const uint32_t *places, uint32_t n,
                            const machine_roots *roots, uint32_t *to, weft_error *err)
{
    *to = try_without(m, *from, places, n);
    if (*to == MACHINE_UNKNOWN && m->full) {
        machine_collect(m, roots);
        *to = try_without(m, *from, places, n);
    }
    return *to == MACHINE_UNKNOWN ? no_room(m, err) : WEFT_OK;
}

static void add_first(const program *p, const config *c, byte_set *bytes)
{
    const program_node *n = &p->nodes[c->node];
    if (n->kind == NODE_KIND_BYTES)
        for (uint32_t k = 0; k < 4; k++) bytes->bits[k] |= p->sets[n->arg].bits[k];
    if (n->kind != NODE_KIND_LEXEME) return;
    const dfa *d = p->lexemes[n->arg]->automaton;
    for (uint32_t b = 0; b < 256; b++)
        if (dfa_step(d, c->q, (unsigned char)b) != DFA_DEAD)
            byte_set_add(bytes, (unsigned char)b, (unsigned char)b);
}

void machine_follow(machine *m, config place, byte_set *bytes)
{
    uint32_t first = m->n_configs;
    *bytes = (byte_set){{0}};
    begin_step(m);
    meet(m, m->program->nodes[place.node].next, settle(m, place.cell));
    look_at_all(m);
    for (uint32_t i = first; i < m->n_configs; i++) add_first(m->program, &m->configs[i], bytes);
    /* Without room for all places: any byte. */
    if (m->full || m->out_of_room) byte_set_add(bytes, 0, 255);
    m->n_configs = first;
}
