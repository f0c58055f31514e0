/* jobs.c - work of exchanges in other threads: libuv's for what is short, the crew's for large
 * bodies, so that however many come there is a thread for small ones. */
#include "base/mem.h"
#include "server/server_state.h"

enum {
    SMALL_BODY_BYTES = 256 << 10,
    TRIM_MS = 3000 /* behind a large one: it takes locks that others wait for */
};

typedef struct exchange_job {
    crew_job job;
    uv_work_t request;
    exchange *x;
    void (*work)(exchange *x);
    void (*after)(exchange *x);
} exchange_job;

static void end_job(exchange_job *job)
{
    exchange *x = job->x;
    void (*after)(exchange *) = job->after;
    mem_free(mem_system(), job, sizeof *job);
    x->running = false;
    after(x);
}

static void run_short(uv_work_t *request)
{
    exchange_job *job = request->data;
    job->work(job->x);
}

static void after_short(uv_work_t *request, int status)
{
    (void)status;
    end_job(request->data);
}

static exchange_job *of_crew(crew_job *job)
{
    return (exchange_job *)(void *)((char *)job - offsetof(exchange_job, job));
}

static void run_long(crew_job *job)
{
    exchange_job *j = of_crew(job);
    j->work(j->x);
}

static void run_trim(uv_work_t *request)
{
    (void)request;
    mem_trim();
}

static void after_trim(uv_work_t *request, int status)
{
    server *s = request->data;
    (void)status;
    s->is_trimming = false;
}

static void on_trim(uv_timer_t *timer)
{
    server *s = timer->data;
    if (s->is_trimming) return;
    s->trimming.data = s;
    s->is_trimming = uv_queue_work(&s->loop, &s->trimming, run_trim, after_trim) == 0;
}

static void after_long(crew_job *job)
{
    exchange_job *j = of_crew(job);
    server *s = j->x->server;
    if (!s->closing && !uv_is_active((uv_handle_t *)&s->trim))
        uv_timer_start(&s->trim, on_trim, TRIM_MS, 0);
    end_job(j);
}

bool exchange_run(exchange *x, void (*work)(exchange *x), void (*after)(exchange *x))
{
    server *s = x->server;
    exchange_job *job = mem_alloc(mem_system(), sizeof *job);
    if (job == NULL) return false;
    *job = (exchange_job){
        .job = {.work = run_long, .after = after_long}, .x = x, .work = work, .after = after};
    job->request.data = job;
    x->running = true;
    /* Where there are no such threads, others do. */
    if (x->n_body > SMALL_BODY_BYTES && crew_run(s->crew, &job->job)) return true;
    if (uv_queue_work(&s->loop, &job->request, run_short, after_short) == 0) return true;
    x->running = false;
    mem_free(mem_system(), job, sizeof *job);
    return false;
}

/* ---- freeing --------------------------------------------------------------------------------- */

typedef struct free_job {
    crew_job job;
    json_doc doc;
} free_job;

static void run_free(crew_job *job)
{
    json_doc_free(&((free_job *)(void *)job)->doc);
}

static void after_free(crew_job *job)
{
    mem_free(mem_system(), job, sizeof(free_job));
}

void exchange_free_document(exchange *x, json_doc *doc)
{
    free_job *job = NULL;
    if (doc->root != NULL && x->n_body > SMALL_BODY_BYTES)
        job = mem_alloc(mem_system(), sizeof *job);
    if (job != NULL) *job = (free_job){{.work = run_free, .after = after_free}, *doc};
    if (job != NULL && crew_run(x->server->crew, &job->job)) {
        doc->root = NULL;
        return;
    }
    mem_free(mem_system(), job, sizeof *job);
    json_doc_free(doc);
}
