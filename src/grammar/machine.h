/* machine.h - walks a program: which bytes and named tokens (symbols, program.h) may come next, in
 * a table that grows as it is used.
 *
 * A state is a set of places in the program, each with its stack of calls and loops; equal stacks
 * are one chain of cells, equal sets one state, and where a symbol leads from a state is worked out
 * once and then looked up. All memory is taken when the machine is made. When it is full, what none
 * of the states that the caller keeps (roots) needs is dropped, and ids change: the caller's are
 * rewritten in place. LIMIT when even those do not leave room. */
#ifndef GRAMMAR_MACHINE_H
#define GRAMMAR_MACHINE_H

#include "grammar/program.h"

typedef struct config {
    uint32_t node;
    uint32_t cell;
    uint32_t q;     /* of a lexeme: the automaton's state */
    uint32_t count; /* of a lexeme: characters so far */
} config;

/* A frame: where a call returns to, or a loop's count. Cell 0 is the bottom. */
typedef struct cell {
    uint32_t node;
    uint32_t count;
    uint32_t parent; /* below it, and of a smaller number */
    uint16_t depth;
    bool fresh;     /* a loop that took no byte since this count; its body may be empty */
    bool any_fresh; /* this one or one below it */
} cell;

typedef struct machine_state {
    uint32_t first, n; /* configs, ascending */
    bool can_end;
    unsigned char note; /* of whoever uses the machine; 0 at first */
} machine_state;

typedef struct machine_limits {
    uint32_t states, configs, cells; /* cells: a power of two */
    uint32_t items;                  /* of one step, a power of two */
    uint32_t depth;                  /* frames on a stack */
} machine_limits;

enum { MACHINE_DEAD, MACHINE_START };

#define MACHINE_UNKNOWN UINT32_MAX

typedef struct machine_item {
    uint32_t node, cell;
} machine_item;

typedef struct machine {
    const program *program;
    machine_limits limits;
    machine_state *states;
    uint32_t *rows; /* [states, n_columns]: a state, or MACHINE_UNKNOWN */
    config *configs;
    cell *cells;
    uint32_t *state_slots, *cell_slots; /* hash tables; UINT32_MAX: free */
    uint32_t n_states, n_configs, n_cells;
    machine_item *stack; /* what a step has still to look at */
    uint64_t *seen;      /* node and cell, as a hash table */
    uint32_t *stamps;    /* of seen: the step that wrote it */
    uint32_t n_stack, n_seen, stamp;
    bool full, out_of_room;
} machine;

/* Bytes that machine_init needs, aligned to 64. SIZE_MAX when they cannot be counted. */
size_t machine_bytes(const program *p, const machine_limits *limits);

/* memory: [machine_bytes], kept by the caller; p is borrowed. LIMIT when the start has no room. */
weft_status machine_init(machine *m, const program *p, const machine_limits *limits, void *memory,
                         weft_error *err);

/* The state behind from[0] after symbol in *to, MACHINE_DEAD when it may not come. roots: arrays of
 * states to keep, rewritten when ids change; from must lie in one of them. */
typedef struct machine_roots {
    uint32_t *states[3];
    uint32_t n[3];
} machine_roots;

weft_status machine_step(machine *m, const uint32_t *from, uint32_t symbol,
                         const machine_roots *roots, uint32_t *to, weft_error *err);

/* The state that is in the places of both states in from, which lie in roots like from of a step;
 * either may be dead. */
weft_status machine_join(machine *m, const uint32_t from[2], const machine_roots *roots,
                         uint32_t *to, weft_error *err);

/* The state without some of its places, by their numbers, which ascend; from as in a step. */
weft_status machine_without(machine *m, const uint32_t *from, const uint32_t *places, uint32_t n,
                            const machine_roots *roots, uint32_t *to, weft_error *err);

/* Bytes that may come behind the lexeme of a place, once it has taken one, and perhaps others. */
void machine_follow(machine *m, config place, byte_set *bytes);

/* What is known already, MACHINE_UNKNOWN otherwise. */
static inline uint32_t machine_look(const machine *m, uint32_t state, uint32_t symbol)
{
    const program *p = m->program;
    return m->rows[(uint64_t)state * program_n_columns(p) + program_column(p, symbol)];
}

/* A copy in other memory of the same size, [machine_bytes]. */
void machine_copy(machine *to, const machine *from, void *memory);

#endif
