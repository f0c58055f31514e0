/* compiled.h - what a compiled grammar is made of; for compile.c and state.c. */
#ifndef GRAMMAR_COMPILED_H
#define GRAMMAR_COMPILED_H

#include <stdatomic.h>

#include "grammar/masks.h"
#include "grammar/vocab.h"

struct grammar {
    const weft_allocator *allocator;
    const grammar_vocab *vocab;
    arena memory; /* of the program */
    program program;
    machine_limits limits;
    masks masks;
    atomic_uint n_refs;
};

#endif
