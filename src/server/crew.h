/* crew.h - threads for work that is long, and that nobody else should wait for: they have a lower
 * priority than those that compute and answer. */
#ifndef SERVER_CREW_H
#define SERVER_CREW_H

#include "server/wake.h"

typedef struct crew crew;

/* Part of what is to be done; the caller's until after was called. */
typedef struct crew_job {
    struct crew_job *next;
    void (*work)(struct crew_job *job);  /* in a thread of the crew */
    void (*after)(struct crew_job *job); /* then, in the loop's */
} crew_job;

/* Threads are made when there is a first job. */
weft_status crew_create(uv_loop_t *loop, uint32_t n_threads, crew **out, weft_error *err);

/* In the loop's thread. Jobs are begun in order. false: there is no thread, and none can be had. */
bool crew_run(crew *c, crew_job *job);

/* Waits for all jobs and ends the threads. */
void crew_close(crew *c);

/* When the loop has run since. Accepts NULL. */
void crew_destroy(crew *c);

#endif
