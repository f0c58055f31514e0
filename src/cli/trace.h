/* trace.h - where the time of steps went, as a table and as JSON. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "base/str.h"
#include "weft.h"

/* Steps of an engine from begin to end. */
typedef struct step_trace {
    weft_engine *engine;                    /* borrowed; NULL: none is measured */
    uint64_t n_steps, ns_steps, ns_samples; /* as the engine had counted before */
} step_trace;

weft_status step_trace_begin(step_trace *t, weft_engine *engine, weft_error *err);

/* Nothing, unless one has begun. table: a title and rows behind what is there, longest first;
 * members: of an object, ,"steps":... */
weft_status step_trace_end(step_trace *t, const char *title, strbuf *table, strbuf *members,
                           weft_error *err);

#endif
