/* fleet.h - the models of a server: opened when they are first asked for, dropped when others need
 * their memory, each with a thread that steps its engine.
 *
 * All but what says otherwise is called in the loop's thread. */
#ifndef SERVER_FLEET_H
#define SERVER_FLEET_H

#include <uv.h>

#include "server/metrics.h"
#include "server/server.h"
#include "server/wake.h"

typedef struct generation generation;
typedef struct fleet fleet;
typedef struct fleet_model fleet_model;

typedef enum fleet_state {
    FLEET_STATE_AWAY,    /* not in memory */
    FLEET_STATE_WAITING, /* it will be loaded after another one */
    FLEET_STATE_LOADING,
    FLEET_STATE_READY,
    FLEET_STATE_FAILED /* error says why; it is tried again after a while */
} fleet_state;

/* Somebody who waits for a model. */
typedef struct fleet_wait {
    struct fleet_wait *next;
    uint64_t deadline; /* of uv_now() */
    /* m: held for the waiter until fleet_release; NULL: status of HTTP and err say why. */
    void (*ready)(struct fleet_wait *w, fleet_model *m, uint32_t status, const weft_error *err);
} fleet_wait;

struct fleet_model {
    fleet *fleet;
    const char *name, *path;
    fleet_state state;
    weft_error error;
    uint64_t failed_ms; /* when */
    weft_model *model, *drafting;
    weft_engine *engine;
    weft_model_info info;
    weft_engine_options options; /* as the engine was opened */
    uint32_t context;            /* of the engine */
    uint64_t n_bytes;            /* of memory, as counted for the budget; 0: not known yet */
    uint64_t loaded_ms;          /* how long it took */
    uint64_t used_ms;            /* when it was released last */
    uint32_t n_users;
    fleet_wait *waits;
    uv_work_t load;
    weft_status load_status;
    wake wake;
    generation *first; /* under way, newest first */
    metrics metrics;
    /* The stepping thread and those who want it to rest; guarded by lock. */
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t change;
    uint32_t n_holds;
    bool threaded, kicked, stopping, stepping;
    bool broken; /* the device failed */
    bool untold; /* the loop does not know of the last steps */
    bool hasty;  /* somebody waits for a first token */
    uint64_t n_failed_steps;
    weft_error step_error; /* of the last of these */
};

/* options are borrowed. When it fails, what *out may have is closed; it is to be destroyed when the
 * loop has run. */
weft_status fleet_create(uv_loop_t *loop, const server_options *options, fleet **out,
                         weft_error *err);
uint32_t fleet_size(const fleet *f);
fleet_model *fleet_at(const fleet *f, uint32_t i);

/* By name; the first one for "", and for "default" when none is called that. NULL: there is none.
 */
fleet_model *fleet_find(const fleet *f, str name);

/* Holds the model when it can be had: at once, when it is loaded, or when it has been, within the
 * time that the options give. w is borrowed until its ready was called. */
void fleet_acquire(fleet_model *m, fleet_wait *w);

/* It is no longer waited for. */
void fleet_forget(fleet_model *m, fleet_wait *w);
void fleet_release(fleet_model *m);

/* From any thread: there is something to step for. */
void fleet_kick(fleet_model *m);

/* Whether a request waits for its first token: the loop is told of steps sooner. */
void fleet_set_hasty(fleet_model *m, bool hasty);

/* From a thread that is not the loop's: between these two the engine takes no step. */
void fleet_hold(fleet_model *m);
void fleet_go_on(fleet_model *m);

/* Whether the stepping thread works, and if not, why. */
bool fleet_is_well(fleet_model *m, weft_error *why);
uint64_t fleet_failed_steps(fleet_model *m);

/* Whether a model is being opened. */
bool fleet_is_loading(const fleet *f);

/* Ends the threads and closes all; then the loop must run until handles are closed. */
void fleet_close(fleet *f);
void fleet_destroy(fleet *f);

#endif
