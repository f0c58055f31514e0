/* machine_keep.h - what a machine keeps: equal cells and states once, and only those of use. */
#ifndef GRAMMAR_MACHINE_KEEP_H
#define GRAMMAR_MACHINE_KEEP_H

#include "grammar/machine.h"

uint32_t machine_state_slots(const machine_limits *limits); /* a power of two */

/* Where c is in cell_slots, or would be. */
uint32_t machine_find_cell(const machine *m, const cell *c);

/* Sorts the configs from first on, and drops those that others cover. */
void machine_tidy(machine *m, uint32_t first);

/* The state with the configs from first on, which become its own or are dropped again. */
uint32_t machine_intern(machine *m, uint32_t first);

/* All states and cells but the bottom. */
void machine_forget(machine *m);

/* Keeps what the roots need, close together, and writes their new numbers. */
void machine_collect(machine *m, const machine_roots *roots);

#endif
