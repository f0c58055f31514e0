/* bench_kernels.c - how fast the loops are: batch 1 and 8 of a linear layer in GB/s beside a plain
 * read of memory in the same process, long batches in G multiply-adds a second beside a loop of f32
 * multiply-adds, attention.
 *
 * Usage: bench_kernels [isa [threads [MB [i8]]]]; i8: inputs of 8 bits against codes. Numbers are
 * the best of several runs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"
#include "tensor/encoding.h"

enum { COLS = 4096, MAX_THREADS = 64, PANEL = 64, RUNS = 7, MAX_TOKENS = 512 };

typedef struct job {
    const cpu_kernels *k;
    bool i8;
    const tensor *w; /* matrices behind one another */
    uint32_t n_matrices, n_tokens;
    kernel_linear_fn *linear;
    kernel_input x;
    float *y;
    uint32_t read_loop;
} job;

typedef struct worker {
    const job *job;
    uint32_t index, count;
    pthread_barrier_t *barrier;
    uint64_t read;
    float scratch[COLS];
} worker;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Rows are divided in panels, each thread a run of them. */
static void work(worker *me)
{
    const job *j = me->job;
    for (uint32_t m = 0; m < j->n_matrices; m++) {
        const tensor *w = &j->w[m];
        if (j->linear == NULL) {
            size_t part = (size_t)w->plane_bytes[0] / me->count / 4096 * 4096;
            me->read ^= j->k->read(w->planes[0] + me->index * part, part, j->read_loop);
            continue;
        }
        uint32_t rows = (uint32_t)w->n_rows;
        uint32_t begin = rows / PANEL * me->index / me->count * PANEL;
        uint32_t end = rows / PANEL * (me->index + 1) / me->count * PANEL;
        for (uint32_t first = begin; first < end; first += PANEL) {
            kernel_linear a = {.w = w, .first = first, .end = first + PANEL};
            a.n_tokens = j->n_tokens;
            a.x = j->x;
            a.y = j->y;
            a.stride = rows;
            a.scratch = me->scratch;
            j->linear(&a);
        }
    }
}

static void *thread_main(void *user)
{
    worker *me = user;
    for (int i = 0; i < RUNS; i++) {
        pthread_barrier_wait(me->barrier);
        work(me);
        pthread_barrier_wait(me->barrier);
    }
    return NULL;
}

/* Seconds of the best run. */
static double best_of(const job *j, uint32_t n_threads)
{
    static worker workers[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, n_threads);
    for (uint32_t i = 0; i < n_threads; i++) {
        workers[i].job = j;
        workers[i].index = i;
        workers[i].count = n_threads;
        workers[i].barrier = &barrier;
        if (i > 0) pthread_create(&threads[i], NULL, thread_main, &workers[i]);
    }
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        pthread_barrier_wait(&barrier);
        double start = now();
        work(&workers[0]);
        pthread_barrier_wait(&barrier);
        double took = now() - start;
        if (took < best) best = took;
    }
    for (uint32_t i = 1; i < n_threads; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    return best;
}

static void *take(size_t size)
{
    void *block = aligned_alloc(64, (size + 63) / 64 * 64);
    if (block == NULL) {
        fprintf(stderr, "out of memory\n");
        abort();
    }
    memset(block, 0x11, size);
    return block;
}

static tensor matrix(encoding_id id, uint32_t rows, uint16_t bits, unsigned char *at)
{
    tensor w = {.name = "w", .n_dims = 2, .dims = {rows, COLS, 1, 1}, .n_rows = rows};
    w.n_cols = COLS;
    w.encoding = encoding_by_id(id);
    w.planes[0] = at;
    if (id == ENCODING_ID_AFFINE) {
        w.bits = bits;
        w.group = 64;
        w.param_type = ENCODING_ID_BF16;
        w.row_bytes[0] = (uint64_t)COLS * bits / 8;
        w.row_bytes[1] = w.row_bytes[2] = (uint64_t)COLS / 64 * 2;
        w.planes[1] = at + rows * w.row_bytes[0];
        w.planes[2] = w.planes[1] + rows * w.row_bytes[1];
    } else {
        w.row_bytes[0] = (uint64_t)COLS / w.encoding->block_cols * w.encoding->block_bytes;
    }
    for (int p = 0; p < TENSOR_PLANES; p++) w.plane_bytes[p] = rows * w.row_bytes[p];
    return w;
}

static const struct shape {
    const char *name;
    encoding_id id;
    uint16_t bits;
} SHAPES[] = {
    {"bf16", ENCODING_ID_BF16, 0},          {"f32", ENCODING_ID_F32, 0},
    {"affine4 g64", ENCODING_ID_AFFINE, 4}, {"q4_0", ENCODING_ID_Q4_0, 0},
    {"affine8 g64", ENCODING_ID_AFFINE, 8}, {"affine3 g64", ENCODING_ID_AFFINE, 3},
    {"affine6 g64", ENCODING_ID_AFFINE, 6}, {"q4_1", ENCODING_ID_Q4_1, 0},
    {"q5_0", ENCODING_ID_Q5_0, 0},          {"q8_0", ENCODING_ID_Q8_0, 0},
    {"q4_k", ENCODING_ID_Q4_K, 0},          {"q5_k", ENCODING_ID_Q5_K, 0},
    {"q6_k", ENCODING_ID_Q6_K, 0},
};

/* i8: codes of 8 bits. */
static kernel_input input(const cpu_kernels *k, bool i8)
{
    size_t n = (size_t)MAX_TOKENS * COLS;
    size_t bytes = kernel_codes_bytes(COLS / KERNEL_BLOCK, i8 ? k->form_i8 : k->form_i16);
    kernel_prepare_codes_fn *prepare = i8 ? k->prepare_i8 : k->prepare_i16;
    float *f = take(n * sizeof(float));
    uint16_t *h = take(n * sizeof(uint16_t));
    unsigned char *codes = take(MAX_TOKENS * bytes);
    for (size_t i = 0; i < n; i++) f[i] = (float)(i % 97) / 97.0F - 0.5F;
    for (size_t t = 0; t < MAX_TOKENS; t++) {
        prepare(f + t * COLS, COLS / KERNEL_BLOCK, codes + t * bytes);
    }
    k->prepare_bf16(f, (uint32_t)n, f, h);
    return (kernel_input){f, h, codes};
}

/* f32 multiply-adds of one thread, times the threads: what the long batches are held against. */
static double peak_fma(const cpu_kernels *k, uint32_t n_threads, const kernel_input *x, float *y)
{
    enum { SMALL = 512 };
    float *weights = take((size_t)SMALL * 1024 * sizeof(float));
    tensor w = matrix(ENCODING_ID_F32, SMALL / 4, 0, (unsigned char *)weights);
    job j = {.k = k, .w = &w, .n_matrices = 1, .n_tokens = 24, .linear = k->linear_f32};
    j.x = *x;
    j.y = y;
    double took = best_of(&j, n_threads);
    free(weights);
    return (double)w.n_rows * COLS * 24 / took * 1e-9;
}

static void bench_shape(const struct shape *s, const job *with, uint32_t n_threads,
                        unsigned char *memory, size_t size)
{
    static tensor w[512];
    tensor one = matrix(s->id, PANEL, s->bits, memory);
    uint64_t row = one.row_bytes[0] + one.row_bytes[1] + one.row_bytes[2];
    uint32_t rows = 2048;
    uint32_t n = (uint32_t)(size / (row * rows));
    if (n > 512) n = 512;
    for (uint32_t i = 0; i < n; i++) w[i] = matrix(s->id, rows, s->bits, memory + i * row * rows);
    const cpu_kernels *k = with->k;
    job j = *with;
    j.w = w;
    j.n_matrices = n;
    double plain = 1e9;
    double gigabytes = (double)n * rows * (double)row * 1e-9;
    double plane = (double)one.row_bytes[0] / (double)row;
    for (j.read_loop = 0; j.read_loop < KERNEL_READS; j.read_loop++) {
        double took = best_of(&j, n_threads) / plane;
        if (took < plain) plain = took;
    }
    bool codes = s->id >= ENCODING_ID_AFFINE;
    j.linear = codes && j.i8               ? k->linear_codes_b
               : codes                     ? k->linear_codes_q
               : s->id == ENCODING_ID_BF16 ? k->linear_bf16_h
                                           : k->linear_f32;
    double took[5];
    static const uint32_t TOKENS[] = {1, 2, 4, 8};
    for (int i = 0; i < 4; i++) {
        j.n_tokens = TOKENS[i];
        took[i] = best_of(&j, n_threads);
    }
    j.n_matrices = 1;
    j.n_tokens = MAX_TOKENS;
    took[4] = best_of(&j, n_threads);
    double macs = (double)rows * COLS * MAX_TOKENS / took[4] * 1e-9;
    printf(
        "%-12s read %6.1f GB/s; 1 token %6.1f GB/s (%3.0f %%); 2, 4, 8 tokens: x %.2f %.2f %.2f; "
        "512 tokens %7.1f G/s\n",
        s->name, gigabytes / plain, gigabytes / took[0], 100 * plain / took[0], took[1] / took[0],
        took[2] / took[0], took[3] / took[0], macs);
    fflush(stdout);
}

static void bench_attention(const cpu_kernels *k)
{
    enum { KEYS = KERNEL_SPLIT, DIM = 128, QUERIES = 4, TIMES = 100 };
    uint16_t *kv = take((size_t)KEYS * DIM * 2);
    float *q = take((size_t)QUERIES * DIM * sizeof(float));
    float *s = take((size_t)QUERIES * KEYS * sizeof(float));
    float *o = take((size_t)QUERIES * DIM * sizeof(float));
    for (int i = 0; i < QUERIES * DIM; i++) q[i] = o[i] = 0.01F;
    for (int i = 0; i < KEYS * DIM; i++) kv[i] = fp_to_bf16((float)(i % 7) * 0.1F);
    kernel_scores a = {.q = q, .q_stride = DIM, .n_q = QUERIES, .k = kv, .n_keys = KEYS};
    a.dim = DIM;
    a.scale = 1.0F;
    a.s = s;
    a.s_stride = KEYS;
    kernel_values v = {.p = s, .p_stride = KEYS, .n_q = QUERIES, .v = kv, .n_keys = KEYS};
    v.dim = DIM;
    v.o_stride = v.v_stride = DIM;
    v.o = o;
    double best[3] = {1e9, 1e9, 1e9};
    for (int run = 0; run < 20 * RUNS; run++) {
        double start = now();
        for (int i = 0; i < TIMES; i++) k->scores_bf16(&a);
        double scored = now();
        for (int i = 0; i < TIMES; i++) k->values_bf16(&v);
        double valued = now();
        for (int i = 0; i < TIMES; i++) k->exp_sum(s, KEYS, 0.0F);
        double done = now();
        if (scored - start < best[0]) best[0] = scored - start;
        if (valued - scored < best[1]) best[1] = valued - scored;
        if (done - valued < best[2]) best[2] = done - valued;
    }
    double macs = (double)KEYS * DIM * QUERIES * TIMES * 1e-9;
    printf("attention, bf16, 4 queries, dim 128, one thread: scores %.1f G/s, values %.1f G/s, exp "
           "%.2f ns\n",
           macs / best[0], macs / best[1], best[2] / TIMES / KEYS * 1e9);
    free(kv);
    free(q);
    free(s);
    free(o);
}

int main(int argc, char **argv)
{
    cpu_kernels k;
    weft_error err = {0};
    uint32_t n_threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    size_t size = (size_t)(argc > 3 ? strtoul(argv[3], NULL, 10) : 512) << 20;
    if (n_threads < 1 || n_threads > MAX_THREADS) return 1;
    if (cpu_kernels_select(argc > 1 ? argv[1] : NULL, &k, &err) != WEFT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    unsigned char *memory = take(size);
    float *y = take((size_t)MAX_TOKENS * 2048 * sizeof(float));
    bool i8 = argc > 4 && strcmp(argv[4], "i8") == 0;
    job with = {.k = &k, .i8 = i8, .x = input(&k, i8), .y = y};
    printf("%s, %u threads, %zu MB; f32 in cache: %.1f G multiply-adds a second\n", k.isa,
           n_threads, size >> 20, peak_fma(&k, n_threads, &with.x, y));
    for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++) {
        bench_shape(&SHAPES[i], &with, n_threads, memory, size);
    }
    bench_attention(&k);
    return 0;
}
