/* bench_disk.c - what a folder of state (state_dir) saves and costs: one long prompt that is new,
 * known in the folder, and known in memory.
 *
 * Usage: bench_disk MODEL FOLDER [tokens] [rounds]
 *
 * Of each way the fastest round is printed: time to the first token, the longest step on the way
 * there, and how long the engine takes to close, which is when it writes what the folder lacks. The
 * folder must be empty, and holds the last round's files afterwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft.h"

enum { TOKENS_MOST = 1 << 16 };

typedef struct ask {
    double first, longest; /* seconds */
    uint32_t n_cached;
} ask;

typedef struct bench {
    const weft_model *model;
    const char *folder;
    int32_t ids[TOKENS_MOST];
    uint32_t n;
    uint32_t n_vocab;
} bench;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool fail(const weft_error *err)
{
    fprintf(stderr, "bench_disk: %s\n", err->message);
    return false;
}

static bool answer(const bench *b, weft_engine *e, ask *a)
{
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .prompt = b->ids,
                      .n_prompt = b->n,
                      .max_new = 1};
    weft_handle handle;
    weft_error err;
    uint32_t n_active = 1;
    ask now = {0};
    double start = seconds();
    if (weft_submit(e, &r, &handle, &err) != WEFT_OK) return fail(&err);
    while (n_active > 0) {
        double begun = seconds();
        if (weft_step(e, &n_active, &err) != WEFT_OK) return fail(&err);
        if (seconds() - begun > now.longest) now.longest = seconds() - begun;
    }
    now.first = seconds() - start;
    weft_event event = {.struct_size = sizeof event};
    if (weft_poll(e, handle, &event, &err) != WEFT_OK) return fail(&err);
    now.n_cached = event.n_cached;
    if (a->first == 0.0 || now.first < a->first) *a = now;
    return weft_release(e, handle, &err) == WEFT_OK || fail(&err);
}

static weft_engine *open_engine(const bench *b)
{
    weft_engine_options o = {
        .struct_size = sizeof o, .n_threads = 1, .context = b->n + 8, .state_dir = b->folder};
    weft_engine *e;
    weft_error err;
    if (weft_engine_open(b->model, &o, &e, &err) != WEFT_OK) fail(&err);
    return e;
}

static void show(const char *label, const ask *a)
{
    printf("%-12s %8.1f ms to the first token, %7.1f ms in the longest step, %u tokens known\n",
           label, 1e3 * a->first, 1e3 * a->longest, a->n_cached);
}

static bool measure(bench *b, uint32_t rounds)
{
    ask cold = {0};
    ask disk = {0};
    ask memory = {0};
    double close_new = 0.0;
    double close_known = 0.0;
    weft_engine_info info = {.struct_size = sizeof info};
    for (uint32_t i = 0; i < rounds; i++) {
        b->ids[0] = (int32_t)i; /* another prompt from its first token on */
        for (uint32_t known = 0; known < 2; known++) {
            weft_engine *e = open_engine(b);
            if (e == NULL || !answer(b, e, known ? &disk : &cold)) return false;
            if (known && !answer(b, e, &memory)) return false;
            weft_engine_get_info(e, &info, NULL);
            double start = seconds();
            weft_engine_close(e);
            double took = seconds() - start;
            double *least = known ? &close_known : &close_new;
            if (*least == 0.0 || took < *least) *least = took;
        }
    }
    show("new", &cold);
    show("in the folder", &disk);
    show("in memory", &memory);
    printf("closing: %.1f ms with a new prompt, %.1f ms with a known one; %.2f MB read\n",
           1e3 * close_new, 1e3 * close_known, (double)info.disk_bytes_read / 1e6);
    return true;
}

int main(int argc, char **argv)
{
    static bench b;
    weft_model *model;
    weft_error err;
    weft_model_info info = {.struct_size = sizeof info};
    if (argc < 3) {
        fprintf(stderr, "usage: bench_disk MODEL FOLDER [tokens] [rounds]\n");
        return 2;
    }
    b.folder = argv[2];
    b.n = argc > 3 ? (uint32_t)atoi(argv[3]) : 2000;
    if (b.n < 2 || b.n > TOKENS_MOST) return 2;
    if (weft_model_open(argv[1], NULL, &model, &err) != WEFT_OK) return fail(&err) ? 0 : 1;
    weft_model_get_info(model, &info, NULL);
    b.model = model;
    uint64_t x = 88172645463325252u;
    for (uint32_t i = 0; i < b.n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        b.ids[i] = (int32_t)(x % info.n_vocab);
    }
    bool fine = measure(&b, argc > 4 ? (uint32_t)atoi(argv[4]) : 5);
    weft_model_close(model);
    return fine ? 0 : 1;
}
