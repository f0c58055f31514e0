/* crew.c - a queue, and threads that empty it. */
#include "server/crew.h"

#include "base/assert.h"
#include "base/mem.h"

enum { THREADS_MOST = 4, LOWER = 10 /* on the scale of nice */ };

typedef struct job_list {
    crew_job *first, *last;
} job_list;

struct crew {
    wake wake;
    uint32_t n_most, n_threads;
    uv_thread_t threads[THREADS_MOST]; /* [n_threads] */
    uv_mutex_t lock;                   /* of what follows */
    uv_cond_t change;
    job_list waiting, done;
    bool ending;
};

static void add(job_list *l, crew_job *job)
{
    job->next = NULL;
    if (l->last != NULL) l->last->next = job;
    l->last = job;
    if (l->first == NULL) l->first = job;
}

static crew_job *take(job_list *l)
{
    crew_job *job = l->first;
    if (job == NULL) return NULL;
    l->first = job->next;
    if (l->first == NULL) l->last = NULL;
    return job;
}

/* Of this thread alone, as Linux has it; a process that was given a priority keeps the distance. */
static void step_back(void)
{
    int priority = 0;
    if (uv_os_getpriority(0, &priority) != 0) return;
    uv_os_setpriority(0, priority + LOWER < UV_PRIORITY_LOW ? priority + LOWER : UV_PRIORITY_LOW);
}

static void run_jobs(void *user)
{
    crew *c = user;
    step_back();
    uv_mutex_lock(&c->lock);
    for (;;) {
        crew_job *job = take(&c->waiting);
        if (job == NULL && c->ending) break;
        if (job == NULL) {
            uv_cond_wait(&c->change, &c->lock);
            continue;
        }
        uv_mutex_unlock(&c->lock);
        job->work(job);
        uv_mutex_lock(&c->lock);
        add(&c->done, job);
        wake_tell(&c->wake);
    }
    uv_mutex_unlock(&c->lock);
}

static void on_wake(void *user)
{
    crew *c = user;
    for (;;) {
        uv_mutex_lock(&c->lock);
        crew_job *job = take(&c->done);
        uv_mutex_unlock(&c->lock);
        if (job == NULL) return;
        job->after(job);
    }
}

weft_status crew_create(uv_loop_t *loop, uint32_t n_threads, crew **out, weft_error *err)
{
    ASSERT(n_threads > 0 && n_threads <= THREADS_MOST);
    *out = NULL;
    crew *c = mem_alloc_zero(mem_system(), sizeof *c);
    if (c == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %u threads", n_threads);
    weft_status status = wake_open(&c->wake, loop, on_wake, c, err);
    if (status != WEFT_OK) {
        mem_free(mem_system(), c, sizeof *c);
        return status;
    }
    c->n_most = n_threads;
    uv_mutex_init(&c->lock);
    uv_cond_init(&c->change);
    *out = c;
    return WEFT_OK;
}

bool crew_run(crew *c, crew_job *job)
{
    if (c->n_threads < c->n_most && uv_thread_create(&c->threads[c->n_threads], run_jobs, c) == 0)
        c->n_threads++;
    if (c->n_threads == 0) return false;
    uv_mutex_lock(&c->lock);
    add(&c->waiting, job);
    uv_cond_signal(&c->change);
    uv_mutex_unlock(&c->lock);
    return true;
}

void crew_close(crew *c)
{
    uv_mutex_lock(&c->lock);
    c->ending = true;
    uv_cond_broadcast(&c->change);
    uv_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->n_threads; i++) uv_thread_join(&c->threads[i]);
    c->n_threads = 0;
    on_wake(c);
    wake_close(&c->wake);
}

void crew_destroy(crew *c)
{
    if (c == NULL) return;
    uv_mutex_destroy(&c->lock);
    uv_cond_destroy(&c->change);
    mem_free(mem_system(), c, sizeof *c);
}
