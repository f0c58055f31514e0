/* prepare.h - what a generation asks for, made ready for the engine and submitted; in one of
 * libuv's threads, with its model held. */
#ifndef SERVER_PREPARE_H
#define SERVER_PREPARE_H

#include "server/generation.h"

/* On failure err, param and status of HTTP are set, and nothing is left submitted. */
weft_status prepare_generation(generation *g);

/* Frees what preparing made, and releases what is submitted. */
void prepare_undo(generation *g);

#endif
