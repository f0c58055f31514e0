/* bench_schedule.c - what a step costs beside the model: many sequences decode with one thread, and
 * the time of weft_step outside of the backend (who runs, pages, events) and of sampling are its
 * shares.
 *
 * Usage: bench_schedule MODEL [sequences [tokens]]; 256 and 64 if not said. The prompts are of 16
 * tokens; steps that read one are not counted. The shares are over all steps of a run, the
 * middle of 5. */
#include <stdio.h>
#include <stdlib.h>

#include "weft.h"

enum { RUNS = 5, PROMPT = 16, SEQUENCES_MOST = 4096 };

static void need(weft_status status, const weft_error *err)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static weft_engine_info info_of(const weft_engine *e)
{
    weft_error err;
    weft_engine_info info = {.struct_size = sizeof info};
    need(weft_engine_get_info(e, &info, &err), &err);
    return info;
}

static void submit_all(weft_engine *e, uint32_t n, uint32_t n_new, weft_handle *handles)
{
    weft_error err;
    int32_t prompt[PROMPT];
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < PROMPT; k++) prompt[k] = (int32_t)(3 + (i * 7 + k * 5) % 100);
        weft_request r = {.struct_size = sizeof r,
                          .flags = WEFT_REQUEST_IGNORE_STOP | WEFT_REQUEST_NO_CACHE,
                          .prompt = prompt,
                          .n_prompt = PROMPT,
                          .max_new = n_new,
                          .sampling = {.top_p = 1.0F}};
        need(weft_submit(e, &r, &handles[i], &err), &err);
    }
}

/* Tokens of all that are there. */
static uint32_t poll_all(weft_engine *e, uint32_t n, const weft_handle *handles)
{
    weft_error err;
    uint32_t n_tokens = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (;;) {
            weft_event event = {.struct_size = sizeof event};
            need(weft_poll(e, handles[i], &event, &err), &err);
            if (event.kind != WEFT_EVENT_TOKEN) break;
            n_tokens++;
        }
    }
    return n_tokens;
}

/* Of all time in steps that neither the model nor sampling took; *sampled: what that took; *us: a
 * step's time. */
static double measure(weft_engine *e, uint32_t n, uint32_t n_new, double *sampled, double *us)
{
    static weft_handle handles[SEQUENCES_MOST];
    weft_error err;
    uint32_t n_active;
    submit_all(e, n, n_new, handles);
    while (poll_all(e, n, handles) < n) need(weft_step(e, &n_active, &err), &err);
    weft_engine_info before = info_of(e);
    do {
        need(weft_step(e, &n_active, &err), &err);
        poll_all(e, n, handles);
    } while (n_active > 0);
    weft_engine_info after = info_of(e);
    for (uint32_t i = 0; i < n; i++) need(weft_release(e, handles[i], &err), &err);
    double all = (double)(after.ns_steps - before.ns_steps);
    double runs = (double)(after.ns_runs - before.ns_runs);
    *sampled = (double)(after.ns_samples - before.ns_samples) / all;
    *us = all / 1e3 / (double)(after.n_steps - before.n_steps);
    return 1.0 - runs / all - *sampled;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    weft_error err;
    weft_model *model;
    weft_engine *e;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_schedule MODEL [sequences [tokens]]\n");
        return 2;
    }
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 256;
    uint32_t n_new = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 64;
    if (n == 0 || n > SEQUENCES_MOST || n_new < 2) {
        fprintf(stderr, "1 to %d sequences, at least 2 tokens\n", SEQUENCES_MOST);
        return 2;
    }
    need(weft_model_open(argv[1], NULL, &model, &err), &err);
    weft_engine_options options = {.struct_size = sizeof options,
                                   .n_threads = 1,
                                   .context = PROMPT + n_new,
                                   .max_sequences = n,
                                   .max_drafts = WEFT_NO_DRAFTS};
    need(weft_engine_open(model, &options, &e, &err), &err);
    double shares[RUNS];
    double samples[RUNS];
    double us = 0.0;
    for (int i = 0; i < RUNS; i++) shares[i] = measure(e, n, n_new, &samples[i], &us);
    qsort(shares, RUNS, sizeof *shares, ascending);
    qsort(samples, RUNS, sizeof *samples, ascending);
    printf("%u sequences, one thread: a step takes %.0f us, of that scheduling %.1f %%, sampling "
           "%.1f %%\n",
           n, us, 100.0 * shares[RUNS / 2], 100.0 * samples[RUNS / 2]);
    weft_engine_close(e);
    weft_model_close(model);
    return 0;
}
