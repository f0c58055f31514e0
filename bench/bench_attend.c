/* bench_attend.c - decode attention by one thread, beside a plain read of the same memory and a
 * loop of multiply-adds in registers.
 *
 * For each codec, context and number of queries to a key head: microseconds for a layer of HEADS
 * key heads, GB/s of keys and values, their share of the plain read, multiply-adds a second and
 * their share of what the processor can do. Then nanoseconds a position and key head when all pages
 * are one, which a cache holds: what is left of the time without memory. Then decode time by
 * context, which must be a line. Layers lie behind one another in memory that no cache holds, so
 * nothing is read twice from one. The plain read (the fastest of its loops) runs in turn with the
 * attention; all numbers are the best of several runs.
 *
 * Usage: bench_attend [isa [runs [MB [codec]]]] */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "kv/config.h"

enum { HEADS = 8, DIM = 128, PAGE = 64, MOST_LAYERS = 256, MOST_PAGES = 65536 / PAGE };
enum { MOST_QUERIES = 8, ROWS = 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void need(weft_status status, const weft_error *err)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static void *take(size_t size)
{
    void *block = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (block == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return block;
}

static float number(void)
{
    static uint32_t state = 1;
    float sum = 0.0F;
    for (int i = 0; i < 4; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(state >> 8) * 0x1p-24F - 0.5F;
    }
    return sum * 1.7F;
}

/* ---- multiply-adds in registers: G a second */

enum { FMA_TIMES = 2000000, FMA_SUMS = 12 };

#define FMA_LOOP(type, set1, fma, store)                                                           \
    type sum[FMA_SUMS];                                                                            \
    type a = set1(1.0000001F);                                                                     \
    type b = set1(0.5F);                                                                           \
    for (int i = 0; i < FMA_SUMS; i++) sum[i] = set1((float)i);                                    \
    for (int k = 0; k < FMA_TIMES; k++) {                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < FMA_SUMS; i++) sum[i] = fma(sum[i], a, b);    \
    }                                                                                              \
    for (int i = 0; i < FMA_SUMS; i++) store(out + (size_t)i * 16, sum[i])

__attribute__((target("avx512f"))) static void fma_512(float *out)
{
    FMA_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps);
}

__attribute__((target("avx2,fma"))) static void fma_256(float *out)
{
    FMA_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps);
}

static double fma_rate(const char *isa)
{
    static float out[FMA_SUMS * 16];
    bool wide = strncmp(isa, "avx512", 6) == 0;
    double best = 1e9;
    for (int run = 0; run < 9; run++) {
        double start = now();
        if (wide) {
            fma_512(out);
        } else {
            fma_256(out);
        }
        double took = now() - start;
        if (took < best) best = took;
    }
    return (double)FMA_TIMES * FMA_SUMS * (wide ? 16 : 8) / best * 1e-9;
}

/* ---- a model of nothing but attention */

typedef struct world {
    const backend_api *api;
    backend *b;
    arena arena;
    kv_config kv;
    graph g;
    graph_value values[16 + 8 * MOST_LAYERS];
    tensor tensors[2];
    uint32_t context, n_layers, group;
    bool from_cache; /* all pages are one */
    size_t layer_bytes;
    unsigned char *pages[MOST_LAYERS * MOST_PAGES];
    kv_view views[MOST_LAYERS];
    backend_plan *plan;
    backend_step step;
} world;

/* Rows of a few keys and values, over and over. */
static void fill(const world *w, unsigned char *page)
{
    static unsigned char rows[2][ROWS][4 * DIM];
    const kv_geometry *g = &w->kv.geometries[0];
    const kv_codec *codecs[2] = {kv_codec_by_id(g->k_codec), kv_codec_by_id(g->v_codec)};
    const size_t bytes[2] = {g->k_row_bytes, g->v_row_bytes};
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < ROWS; i++) {
            float x[DIM];
            for (int d = 0; d < DIM; d++) x[d] = number();
            codecs[side]->encode_row(codecs[side], g->base, rows[side][i], x, DIM);
        }
        for (size_t i = 0; i < (size_t)HEADS * PAGE; i++) {
            memcpy(page + (size_t)side * g->v_offset + i * bytes[side], rows[side][i % ROWS],
                   bytes[side]);
        }
    }
}

static void build(world *w, float *weights)
{
    graph *g = &w->g;
    uint32_t cols = HEADS * w->group * DIM;
    for (int i = 0; i < 2; i++) {
        tensor *t = &w->tensors[i];
        *t = (tensor){.name = "w", .n_dims = 2, .dims = {2, cols, 1, 1}, .n_rows = 2};
        t->n_cols = cols;
        t->encoding = encoding_by_id(ENCODING_ID_F32);
        t->planes[0] = (const unsigned char *)weights;
        t->row_bytes[0] = (uint64_t)cols * sizeof(float);
        t->plane_bytes[0] = 2 * t->row_bytes[0];
    }
    graph_init(g, w->values, 16 + 8 * MOST_LAYERS, w->tensors, 2);
    graph_id x = graph_embed(g, graph_tokens(g), graph_weight(g, 0));
    graph_id k = graph_cols(g, x, cols, 0, HEADS * DIM);
    graph_id y = x;
    for (uint32_t i = 0; i < w->n_layers; i++) {
        graph_id state = graph_kv_append(g, k, k, i, HEADS);
        y = graph_add(g, y, graph_attend(g, x, state, HEADS * w->group, 0.09F, 0.0F));
    }
    graph_finish(g, graph_linear(g, graph_take(g, y), graph_weight(g, 1), 0));
}

/* What a world is made of; size 0: from a cache. */
typedef struct world_of {
    const char *isa, *codec;
    uint32_t context, group;
    unsigned char *memory;
    size_t size;
    float *weights;
} world_of;

static world *world_new(const world_of *of)
{
    const uint32_t context = of->context;
    unsigned char *memory = of->memory;
    weft_error err = {0};
    world *w = take(sizeof *w);
    memset(w, 0, sizeof *w);
    need(backend_find("cpu", &w->api, &err), &err);
    backend_config config = {.env = {.allocator = mem_system(), .io = io_system()}, .isa = of->isa};
    config.act = WEFT_ACT_F32;
    config.n_threads = 1;
    need(w->api->open(&config, &w->b, &err), &err);
    arena_init(&w->arena, mem_system(), 0);
    kv_spec spec;
    need(kv_spec_parse(of->codec, "bf16", &spec, &err), &err);
    kv_layer layer = {.layout = KV_LAYOUT_FULL, .n_heads = HEADS, .k_dim = DIM, .v_dim = DIM};
    kv_bounds bounds = {.context = context, .most_append = 1, .page_tokens = PAGE};
    need(kv_config_init(&w->kv, &w->arena, &layer, 1, &spec, &bounds, &err), &err);
    const kv_geometry *g = &w->kv.geometries[0];
    uint32_t n_pages = context / PAGE;
    w->context = context;
    w->group = of->group;
    w->from_cache = of->size == 0;
    w->layer_bytes = n_pages * g->page_bytes;
    size_t n_layers = of->size / w->layer_bytes;
    w->n_layers = n_layers > MOST_LAYERS ? MOST_LAYERS : n_layers == 0 ? 1 : (uint32_t)n_layers;
    for (size_t i = 0; i < (size_t)w->n_layers * n_pages; i++) {
        w->pages[i] = w->from_cache ? memory : memory + i * g->page_bytes;
        if (i == 0) {
            fill(w, memory);
        } else if (!w->from_cache) {
            memcpy(w->pages[i], memory, g->page_bytes);
        }
    }
    for (uint32_t i = 0; i < w->n_layers; i++) {
        w->views[i] = (kv_view){.geometry = g, .pages = w->pages + (size_t)i * n_pages};
        w->views[i].n_slots = n_pages;
        w->views[i].len = context - 1;
    }
    build(w, of->weights);
    need(graph_status(&w->g, &err), &err);
    backend_limits limits = {.n_tokens = 1, .n_rows = 1, .n_outputs = 1, .context = context};
    need(w->api->plan(w->b, &w->g, &limits, &w->plan, &err), &err);
    return w;
}

static void world_free(world *w)
{
    w->api->plan_free(w->b, w->plan);
    w->api->close(w->b);
    arena_deinit(&w->arena);
    free(w);
}

/* Every layer's attention, once. */
static void attend_all(world *w, const cpu_run *r)
{
    for (uint32_t i = 0; i < w->plan->n_phases; i++) {
        if (w->plan->phases[i].kind != PHASE_ATTEND) continue;
        atomic_store_explicit(&w->plan->next[(size_t)2 * i], 0, memory_order_relaxed);
        cpu_attend(r, i, 0);
    }
}

typedef struct result {
    double seconds;    /* of all layers */
    double read;       /* bytes a second */
    size_t live_bytes; /* of all layers */
    double macs;
    uint32_t n_layers;
} result;

static result measure(world *w, uint32_t runs, const unsigned char *memory)
{
    static const int32_t id = 1;
    static const uint32_t starts[2] = {0, 1};
    static const uint32_t output = 0;
    uint32_t position = w->context - 1;
    float logits[2];
    weft_error err = {0};
    w->step = (backend_step){.n_tokens = 1, .n_rows = 1, .n_outputs = 1, .ids = &id};
    w->step.positions = &position;
    w->step.row_starts = starts;
    w->step.outputs = &output;
    w->step.views = w->views;
    w->step.logits = logits;
    /* Computes the queries, which the attention alone then finds. */
    need(w->api->run(w->b, w->plan, &w->step, &err), &err);
    cpu_run r = {w->b, w->plan, &w->step};
    const kv_geometry *g = &w->kv.geometries[0];
    result best = {.seconds = 1e9, .n_layers = w->n_layers};
    best.live_bytes = (size_t)w->n_layers * w->context * HEADS * (g->k_row_bytes + g->v_row_bytes);
    best.macs = 2.0 * w->n_layers * w->context * HEADS * w->group * DIM;
    size_t block = w->n_layers * w->layer_bytes / 4096 * 4096;
    for (uint32_t run = 0; run < runs; run++) {
        double start = now();
        attend_all(w, &r);
        double took = now() - start;
        if (took < best.seconds) best.seconds = took;
        for (uint32_t loop = 0; loop < KERNEL_READS && !w->from_cache; loop++) {
            start = now();
            volatile uint64_t sink = w->b->kernels.read(memory, block, loop);
            (void)sink;
            double speed = (double)block / (now() - start);
            if (speed > best.read) best.read = speed;
        }
    }
    return best;
}

static const char *const CODECS[] = {"bf16", "affine8g64", "affine4g64", "turbo-k8v4"};
static const uint32_t GROUPS[] = {1, 4, 8};
enum { N_CODECS = 4, N_GROUPS = 3 };

static result measure_one(const world_of *of, uint32_t runs)
{
    world *w = world_new(of);
    result r = measure(w, runs, of->memory);
    world_free(w);
    return r;
}

static void print_speeds(world_of of, uint32_t runs, double rate)
{
    static const uint32_t CONTEXTS[] = {16384, 65536};
    for (size_t i = 0; i < 2 * N_GROUPS; i++) {
        of.context = CONTEXTS[i / N_GROUPS];
        of.group = GROUPS[i % N_GROUPS];
        result r = measure_one(&of, runs);
        double speed = (double)r.live_bytes / r.seconds;
        double macs = r.macs / r.seconds * 1e-9;
        printf("| %s | %u | %u | %.0f | %.1f | %.0f %% of %.1f | %.1f | %.0f %% |\n", of.codec,
               of.context, of.group, r.seconds / r.n_layers * 1e6, speed * 1e-9,
               100 * speed / r.read, r.read * 1e-9, macs, 100 * macs / rate);
        fflush(stdout);
    }
}

/* Nanoseconds a position and key head: by queries from a cache, or by context with 4 queries. */
static void print_line(world_of of, uint32_t runs, bool from_cache)
{
    static const uint32_t LINE_OF[] = {1024, 4096, 16384, 65536};
    printf("| %s", of.codec);
    for (size_t i = 0; i < (from_cache ? N_GROUPS : 4); i++) {
        of.context = from_cache ? 16384 : LINE_OF[i];
        of.group = from_cache ? GROUPS[i] : 4;
        if (from_cache) of.size = 0;
        result r = measure_one(&of, runs);
        printf(" | %.2f", r.seconds / r.n_layers / of.context / HEADS * 1e9);
        fflush(stdout);
    }
    printf(" |\n");
}

int main(int argc, char **argv)
{
    uint32_t runs = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 7;
    const char *only = argc > 4 ? argv[4] : "";
    world_of of = {.isa = argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL};
    of.size = (size_t)(argc > 3 ? strtoul(argv[3], NULL, 10) : 300) << 20;
    cpu_kernels k;
    weft_error err = {0};
    need(cpu_kernels_select(of.isa, &k, &err), &err);
    size_t taken = of.size < (size_t)300 << 20 ? (size_t)300 << 20 : of.size;
    of.memory = take(taken);
    memset(of.memory, 0, taken);
    of.weights = take((size_t)2 * HEADS * MOST_QUERIES * DIM * sizeof(float));
    for (int i = 0; i < 2 * HEADS * MOST_QUERIES * DIM; i++) of.weights[i] = number();
    double rate = fma_rate(k.isa);
    printf("%s, one thread, %d key heads of %d, pages of %d; %.1f G multiply-adds a second\n\n"
           "| codec | context | queries | us a layer | GB/s | of a plain read | G/s | of all |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
           k.isa, HEADS, DIM, PAGE, rate);
    for (size_t c = 0; c < N_CODECS; c++) {
        of.codec = CODECS[c];
        if (*only == 0 || strcmp(only, of.codec) == 0) print_speeds(of, runs, rate);
    }
    printf("\nNanoseconds a position and key head from a cache, by queries:\n\n"
           "| codec | 1 | 4 | 8 |\n| --- | --- | --- | --- |\n");
    for (size_t c = 0; c < N_CODECS; c++) {
        of.codec = CODECS[c];
        if (*only == 0 || strcmp(only, of.codec) == 0) print_line(of, runs, true);
    }
    printf("\nNanoseconds a position and key head, 4 queries, by context:\n\n"
           "| codec | 1024 | 4096 | 16384 | 65536 |\n| --- | --- | --- | --- | --- |\n");
    for (size_t c = 0; c < N_CODECS; c++) {
        of.codec = CODECS[c];
        if (*only == 0 || strcmp(only, of.codec) == 0) print_line(of, runs, false);
    }
    free(of.memory);
    free(of.weights);
    return 0;
}
