/* bench.c - weft bench: tokens a second, and how near that is to what the memory gives.
 *
 * Prompts are random ids from a fixed seed, so that a model needs no tokenizer and the checksum
 * of the tokens is the same in each run. Decoding is timed over segments of STEPS steps in which
 * every row of the batch takes part; a repetition is a segment. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/agreement.h"
#include "cli/commands/command.h"
#include "cli/trace.h"

enum {
    STEPS = 16,       /* of a timed segment */
    WARM_STEPS = 2,   /* before the first */
    WARM_TOKENS = 16, /* of a prompt before all measurements */
    CHUNK = 512,      /* prompt tokens a step */
    REPEAT_MOST = 99, /* repetitions */
    BATCH_MOST = 256,
    DRAFTS = 8, /* what the engine takes in advance at most */
};

#define READ_BYTES ((uint64_t)1 << 30)
#define SEED 0x77656674u

typedef struct bench_values {
    session_values session;
    bool json, trace;
    uint32_t n_repeats;
    option_list prompts, contexts, batches;
    const char *draft;
} bench_values;

#define AT(field) offsetof(bench_values, field)

static const option_row OPTIONS[] = {
    {"json", OPTION_FLAG, AT(json), NULL, "prints one JSON object", 0, 0, NULL},
    {"prompt", OPTION_LIST, AT(prompts), "N,..", "lengths of prompts to read (default: 512)", 1,
     1 << 24, NULL},
    {"context", OPTION_LIST, AT(contexts), "N,..",
     "tokens that stand before those that are added (default: 512)", 1, 1 << 24, NULL},
    {"batch", OPTION_LIST, AT(batches), "N,..", "sequences that decode together (default: 1,4)", 1,
     BATCH_MOST, NULL},
    {"draft", OPTION_TEXT, AT(draft), "NAME",
     "what guesses tokens in advance, as with run (default: none)", 0, 0, NULL},
    {"repeat", OPTION_COUNT, AT(n_repeats), "N",
     "repetitions, of which the median counts (default: 5)", 1, REPEAT_MOST, NULL},
    {"trace", OPTION_FLAG, AT(trace), NULL, "shows where the time of steps goes, by kind of work",
     0, 0, NULL},
};

static const bench_values DEFAULTS = {
    .session = SESSION_DEFAULTS,
    .n_repeats = 5,
    .prompts = {1, {512}},
    .contexts = {1, {512}},
    .batches = {2, {1, 4}},
    .draft = "none",
};

typedef struct prefill_result {
    uint32_t n_tokens;
    double tok_s, tflop_s;
} prefill_result;

typedef struct decode_result {
    uint32_t n_rows, context;
    double tok_s, share;
    uint64_t bytes_per_step;
    uint64_t n_drafted, n_accepted;
    double tokens_per_step;
} decode_result;

/* One sequence of a running batch. */
typedef struct bench_row {
    weft_handle handle;
    uint32_t n_tokens;
    bool done;
    uint64_t checksum; /* of its first STEPS tokens: as many are there however long the run is */
} bench_row;

typedef struct bench {
    const bench_values *v;
    session s;
    weft_engine_info info;
    weft_kv_info kv;
    uint64_t n_layer_params; /* of matrices that every token of a prompt passes */
    double read_bytes_s;
    uint64_t checksum;
    agreement agreement; /* of the tokens that such keys and values give */
    progress progress;
    bench_row rows[BATCH_MOST];
    uint32_t n_rows;
    prefill_result prefill[OPTION_LIST_MOST];
    uint32_t n_prefill;
    decode_result decode[OPTION_LIST_MOST * OPTION_LIST_MOST];
    uint32_t n_decode;
    step_trace trace;
    strbuf tables, traces; /* what --trace shows, as text and as the elements of a JSON array */
} bench;

/* ---- requests -------------------------------------------------------------------------------- */

static weft_status submit(bench *b, uint64_t stream, uint32_t n_prompt, uint32_t max_new,
                          weft_error *err)
{
    int32_t *ids = mem_alloc(mem_system(), n_prompt * sizeof *ids);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %u ids", n_prompt);
    for (uint32_t i = 0; i < n_prompt; i++)
        ids[i] = (int32_t)(rng_u64(SEED + stream, i) % b->s.info.n_vocab);
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .prompt = ids,
                      .n_prompt = n_prompt,
                      .max_new = max_new,
                      .sampling = {.top_p = 1.0F},
                      .draft = session_drafter(b->v->draft)};
    bench_row *row = &b->rows[b->n_rows];
    *row = (bench_row){0};
    weft_status status = weft_submit(b->s.engine, &r, &row->handle, err);
    if (status == WEFT_OK) b->n_rows++;
    mem_free(mem_system(), ids, n_prompt * sizeof *ids);
    return status;
}

/* Their tokens enter the checksum row by row, whatever the order of steps was. */
static void release_rows(bench *b)
{
    for (uint32_t i = 0; i < b->n_rows; i++) {
        const bench_row *row = &b->rows[i];
        b->checksum = hash_xx64(&row->checksum, sizeof row->checksum, b->checksum);
        weft_release(b->s.engine, row->handle, NULL);
    }
    b->n_rows = 0;
}

static weft_status poll_row(bench *b, bench_row *row, weft_error *err)
{
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        weft_status status = weft_poll(b->s.engine, row->handle, &event, err);
        if (status != WEFT_OK || event.kind == WEFT_EVENT_NONE) return status;
        if (event.kind == WEFT_EVENT_DONE) {
            row->done = true;
            if (event.finish != WEFT_FINISH_ERROR) return WEFT_OK;
            return err_set(err, event.error.status, "%s", event.error.message);
        }
        if (row->n_tokens++ < STEPS)
            row->checksum = hash_xx64(&event.token, sizeof event.token, row->checksum);
    }
}

static weft_status step(bench *b, weft_error *err)
{
    uint32_t n_active;
    weft_status status = weft_step(b->s.engine, &n_active, err);
    for (uint32_t i = 0; i < b->n_rows && status == WEFT_OK; i++)
        status = poll_row(b, &b->rows[i], err);
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

/* ---- where time goes ------------------------------------------------------------------------- */

static weft_status begin_trace(bench *b, weft_error *err)
{
    return b->v->trace ? step_trace_begin(&b->trace, b->s.engine, err) : WEFT_OK;
}

/* members: of the element, what was measured. */
static weft_status end_trace(bench *b, const char *title, const char *members, weft_error *err)
{
    if (b->trace.engine == NULL) return WEFT_OK;
    strbuf_printf(&b->traces, "%s{%s", b->traces.len > 0 ? "," : "", members);
    weft_status status = step_trace_end(&b->trace, title, &b->tables, &b->traces, err);
    strbuf_add_text(&b->traces, "}");
    return status;
}

/* ---- reading a prompt ------------------------------------------------------------------------ */

/* A few tokens, so that no measurement finds pages that nobody has touched yet. */
static weft_status warm_up(bench *b, uint32_t n_prompt, weft_error *err)
{
    uint64_t checksum = b->checksum;
    progress_show(&b->progress, "warming up");
    weft_status status =
        submit(b, UINT64_MAX, n_prompt < WARM_TOKENS ? n_prompt : WARM_TOKENS, 1, err);
    while (status == WEFT_OK && !b->rows[0].done) status = step(b, err);
    release_rows(b);
    b->checksum = checksum;
    progress_clear(&b->progress);
    return status;
}

static weft_status end_prefill_trace(bench *b, uint32_t n_tokens, weft_error *err)
{
    char title[64];
    char members[64];
    snprintf(title, sizeof title, "prefill of %u tokens", n_tokens);
    snprintf(members, sizeof members, "\"prefill\":%u", n_tokens);
    return end_trace(b, title, members, err);
}

static weft_status bench_prefill(bench *b, uint32_t n_tokens, weft_error *err)
{
    double rates[REPEAT_MOST];
    uint64_t checksum = b->checksum;
    weft_status status = begin_trace(b, err);
    for (uint32_t i = 0; i < b->v->n_repeats && status == WEFT_OK; i++) {
        progress_show(&b->progress, "prefill of %u tokens: %u of %u", n_tokens, i + 1,
                      b->v->n_repeats);
        /* Other ids each time: no cache of prompts shall help. */
        status = submit(b, (uint64_t)i << 32, n_tokens, 1, err);
        uint64_t start = clock_now_ns();
        while (status == WEFT_OK && !b->rows[0].done) status = step(b, err);
        rates[i] = (double)n_tokens * 1e9 / (double)(clock_now_ns() - start);
        release_rows(b);
        if (i == 0) checksum = b->checksum;
    }
    b->checksum = checksum;
    progress_clear(&b->progress);
    if (status == WEFT_OK) status = end_prefill_trace(b, n_tokens, err);
    if (status != WEFT_OK) return status;
    double tok_s = median(rates, b->v->n_repeats);
    b->prefill[b->n_prefill++] =
        (prefill_result){n_tokens, tok_s, 2.0 * (double)b->n_layer_params * tok_s / 1e12};
    return WEFT_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Rows that have been read decode while the others are being read. */
static uint32_t steps_to_read(uint32_t n_rows, uint32_t context)
{
    return (uint32_t)(((uint64_t)n_rows * context + CHUNK - 1) / CHUNK) + n_rows;
}

static uint32_t tokens_to_add(const bench_values *v, uint32_t n_rows, uint32_t context)
{
    uint32_t n_steps = steps_to_read(n_rows, context) + WARM_STEPS + STEPS * v->n_repeats + 2;
    return session_drafter(v->draft) == NULL ? n_steps : n_steps * (1 + DRAFTS);
}

static weft_status read_prompts(bench *b, uint32_t n_rows, uint32_t context, weft_error *err)
{
    weft_status status = WEFT_OK;
    uint32_t max_new = tokens_to_add(b->v, n_rows, context);
    for (uint32_t i = 0; i < n_rows && status == WEFT_OK; i++)
        status = submit(b, i, context, max_new, err);
    for (uint32_t n_ready = 0; status == WEFT_OK && n_ready < n_rows;) {
        progress_show(&b->progress, "decode, batch %u, context %u: reading", n_rows, context);
        status = step(b, err);
        n_ready = 0;
        bool any_done = false;
        for (uint32_t i = 0; i < n_rows; i++) {
            n_ready += b->rows[i].n_tokens > 0;
            any_done = any_done || b->rows[i].done;
        }
        if (status == WEFT_OK && any_done)
            status = err_set(err, WEFT_LIMIT,
                             "%u sequences of %u tokens do not fit the memory budget of %llu bytes "
                             "together",
                             n_rows, context, (unsigned long long)b->info.kv_bytes_budget);
    }
    return status;
}

/* What the rows hold; a page is counted as far as it is filled. */
static uint64_t live_kv_bytes(bench *b, uint32_t context)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->n_rows; i++) {
        bytes += b->kv.bytes_per_token * ((uint64_t)context + b->rows[i].n_tokens);
        bytes += b->kv.bytes_fixed;
    }
    weft_engine_info now = {.struct_size = sizeof now};
    /* Windows that are not full yet. */
    if (weft_engine_get_info(b->s.engine, &now, NULL) == WEFT_OK && now.kv_bytes_live < bytes)
        bytes = now.kv_bytes_live;
    return bytes;
}

static uint64_t tokens_so_far(const bench *b)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < b->n_rows; i++) n += b->rows[i].n_tokens;
    return n;
}

static void count_drafts(bench *b, uint64_t *n_drafted, uint64_t *n_accepted)
{
    weft_engine_info now = {.struct_size = sizeof now};
    weft_engine_get_info(b->s.engine, &now, NULL);
    *n_drafted = now.n_drafted - *n_drafted;
    *n_accepted = now.n_accepted - *n_accepted;
}

static weft_status time_steps(bench *b, double *rates, uint64_t *kv_bytes, decode_result *r,
                              weft_error *err)
{
    uint32_t context = r->context;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < WARM_STEPS && status == WEFT_OK; i++) status = step(b, err);
    if (status == WEFT_OK) status = begin_trace(b, err);
    uint64_t first = tokens_so_far(b);
    count_drafts(b, &r->n_drafted, &r->n_accepted);
    for (uint32_t i = 0; i < b->v->n_repeats && status == WEFT_OK; i++) {
        progress_show(&b->progress, "decode, batch %u, context %u: %u of %u", b->n_rows, context,
                      i + 1, b->v->n_repeats);
        uint64_t before = tokens_so_far(b);
        uint64_t start = clock_now_ns();
        for (uint32_t k = 0; k < STEPS && status == WEFT_OK; k++) {
            if (i == b->v->n_repeats / 2 && k == STEPS / 2) *kv_bytes = live_kv_bytes(b, context);
            status = step(b, err);
        }
        uint64_t n_tokens = tokens_so_far(b) - before;
        rates[i] = (double)n_tokens * 1e9 / (double)(clock_now_ns() - start);
    }
    count_drafts(b, &r->n_drafted, &r->n_accepted);
    r->tokens_per_step = (double)(tokens_so_far(b) - first) / (STEPS * b->v->n_repeats);
    return status;
}

static weft_status end_decode_trace(bench *b, const decode_result *r, weft_error *err)
{
    char title[64];
    char members[64];
    snprintf(title, sizeof title, "decode, batch %u, context %u", r->n_rows, r->context);
    snprintf(members, sizeof members, "\"batch\":%u,\"context\":%u", r->n_rows, r->context);
    return end_trace(b, title, members, err);
}

static weft_status bench_decode(bench *b, uint32_t n_rows, uint32_t context, weft_error *err)
{
    double rates[REPEAT_MOST];
    uint64_t kv_bytes = 0;
    weft_status status = read_prompts(b, n_rows, context, err);
    decode_result r = {.n_rows = n_rows, .context = context};
    if (status == WEFT_OK) status = time_steps(b, rates, &kv_bytes, &r, err);
    if (status == WEFT_OK) status = end_decode_trace(b, &r, err);
    release_rows(b);
    progress_clear(&b->progress);
    if (status != WEFT_OK) return status;
    r.tok_s = median(rates, b->v->n_repeats);
    r.bytes_per_step = b->info.weight_bytes_step + kv_bytes;
    r.share = (double)r.bytes_per_step * r.tok_s / r.tokens_per_step / b->read_bytes_s;
    b->decode[b->n_decode++] = r;
    return WEFT_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

static weft_status print_json(const bench *b, const char *model, weft_error *err)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"model\":");
    json_write_text(str_of(model), &out);
    strbuf_printf(&out, ",\"backend\":\"%s\",\"threads\":%u,\"read_gb_s\":%.3f,\"load_ms\":%.3f",
                  b->info.backend, b->info.n_threads, b->read_bytes_s / 1e9, b->s.load_ms);
    strbuf_add_text(&out, ",\"prefill\":[");
    for (uint32_t i = 0; i < b->n_prefill; i++) {
        const prefill_result *r = &b->prefill[i];
        strbuf_printf(&out, "%s{\"tokens\":%u,\"tok_s\":%.3f,\"tflop_s\":%.6f}", i > 0 ? "," : "",
                      r->n_tokens, r->tok_s, r->tflop_s);
    }
    strbuf_add_text(&out, "],\"decode\":[");
    for (uint32_t i = 0; i < b->n_decode; i++) {
        const decode_result *r = &b->decode[i];
        strbuf_printf(&out, "%s{\"batch\":%u,\"context\":%u,\"kv\":\"%s\",\"tok_s\":%.3f",
                      i > 0 ? "," : "", r->n_rows, r->context, b->info.kv, r->tok_s);
        if (session_drafter(b->v->draft) != NULL)
            strbuf_printf(&out, ",\"drafted\":%llu,\"accepted\":%llu",
                          (unsigned long long)r->n_drafted, (unsigned long long)r->n_accepted);
        strbuf_printf(&out, ",\"bytes_per_step\":%llu,\"share\":%.4f}",
                      (unsigned long long)r->bytes_per_step, r->share);
    }
    strbuf_add_text(&out, "]");
    if (b->v->trace) strbuf_printf(&out, ",\"trace\":[%s]", strbuf_text(&b->traces));
    weft_status status =
        strbuf_printf(&out, ",\"checksum\":\"%016llx\"", (unsigned long long)b->checksum);
    if (status == WEFT_OK) status = b->traces.status;
    const agreement *a = &b->agreement;
    if (a->n_tokens > 0)
        strbuf_printf(&out, ",\"agreement\":{\"tokens\":%u,\"same\":%u,\"least\":%u}", a->n_tokens,
                      a->n_same, a->n_least);
    session_add_experts(&b->s, &out);
    if (status == WEFT_OK) status = strbuf_add_text(&out, "}\n");
    if (status == WEFT_OK) {
        fwrite(out.ptr, 1, out.len, stdout);
    } else {
        err_set(err, status, "out of memory for the report");
    }
    strbuf_deinit(&out);
    return status;
}

static void print_table(const bench *b, const char *model)
{
    text_write(stdout, model, strlen(model));
    printf("\n%s%s%s, %u threads; plain read %.2f GB/s; loaded in %.0f ms\n\n", b->info.backend,
           b->info.isa[0] != '\0' ? " " : "", b->info.isa, b->info.n_threads, b->read_bytes_s / 1e9,
           b->s.load_ms);
    puts("prefill     tokens       tok/s     TFLOP/s");
    for (uint32_t i = 0; i < b->n_prefill; i++) {
        const prefill_result *r = &b->prefill[i];
        printf("%18u %11.1f %11.4f\n", r->n_tokens, r->tok_s, r->tflop_s);
    }
    puts("\ndecode       batch     context  kv            tok/s    MB/token   share of plain read");
    for (uint32_t i = 0; i < b->n_decode; i++) {
        const decode_result *r = &b->decode[i];
        printf("%18u %11u  %-8s %10.1f %11.2f %20.0f%%\n", r->n_rows, r->context, b->info.kv,
               r->tok_s, (double)r->bytes_per_step / r->tokens_per_step / 1e6, 100.0 * r->share);
        if (session_drafter(b->v->draft) != NULL)
            printf("%51llu of %llu drafts right\n", (unsigned long long)r->n_accepted,
                   (unsigned long long)r->n_drafted);
    }
    fputs(strbuf_text(&b->tables), stdout);
    printf("\nchecksum of the tokens %016llx\n", (unsigned long long)b->checksum);
    const agreement *a = &b->agreement;
    if (a->n_tokens > 0)
        printf("%u of %u tokens are those with keys and values in f32, at least %u are expected\n",
               a->n_same, a->n_tokens, a->n_least);
    session_print_experts(&b->s, stdout);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Matrices of the layers: those of the vocabulary are read by row or used for one token alone. */
static weft_status count_params(bench *b, weft_error *err)
{
    for (uint32_t i = 0; i < b->s.info.n_tensors; i++) {
        weft_tensor_info t = {.struct_size = sizeof t};
        weft_status status = weft_model_tensor(b->s.model, i, &t, err);
        if (status != WEFT_OK) return status;
        if (t.n_dims == 2 && t.dims[0] != b->s.info.n_vocab)
            b->n_layer_params += t.dims[0] * t.dims[1];
    }
    return WEFT_OK;
}

static uint32_t most(const option_list *list)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->values[i] > value) value = list->values[i];
    }
    return value;
}

static weft_status open_engine(bench *b, weft_error *err)
{
    const bench_values *v = b->v;
    uint32_t n_rows = most(&v->batches);
    uint32_t context = most(&v->contexts);
    uint64_t need = (uint64_t)context + tokens_to_add(v, n_rows, context);
    if (need < (uint64_t)most(&v->prompts) + 1) need = (uint64_t)most(&v->prompts) + 1;
    if (need < AGREEMENT_POSITIONS && b->s.info.context >= AGREEMENT_POSITIONS)
        need = AGREEMENT_POSITIONS;
    if (need > b->s.info.context)
        return err_set(err, WEFT_LIMIT, "this needs %llu positions, the model's context holds %u",
                       (unsigned long long)need, b->s.info.context);
    const char *kv = session_kv(&v->session);
    b->kv = (weft_kv_info){.struct_size = sizeof b->kv};
    weft_status status = weft_model_kv(b->s.model, kv, &b->kv, err);
    if (status != WEFT_OK) return status;
    /* Pages are taken as they are needed, so a budget that is too large costs nothing. */
    uint64_t one = b->kv.bytes_per_token * (need + 1024) + 4 * b->kv.bytes_fixed;
    session_plan plan = {.context = (uint32_t)need,
                         .draft = v->draft,
                         .max_sequences = n_rows,
                         .chunk_tokens = CHUNK,
                         .memory = one * n_rows * 2 + READ_BYTES,
                         .no_cache = true};
    status = session_open_engine(&b->s, &v->session, &plan, err);
    b->info = (weft_engine_info){.struct_size = sizeof b->info};
    if (status == WEFT_OK) status = weft_engine_get_info(b->s.engine, &b->info, err);
    return status;
}

static weft_status measure_read(bench *b, weft_error *err)
{
    progress_show(&b->progress, "measuring the machine's plain read");
    weft_status status = weft_engine_measure_read(b->s.engine, READ_BYTES, &b->read_bytes_s, err);
    progress_clear(&b->progress);
    return status;
}

/* A model of a shorter context is not asked. */
static weft_status measure_agreement(bench *b, weft_error *err)
{
    if (b->info.context < AGREEMENT_POSITIONS) return WEFT_OK;
    progress_show(&b->progress, "comparing tokens with those of f32");
    weft_status status = agreement_measure(b->s.engine, b->s.model, b->info.kv, &b->agreement, err);
    progress_clear(&b->progress);
    return status;
}

static weft_status bench_all(bench *b, weft_error *err)
{
    const bench_values *v = b->v;
    weft_status status = count_params(b, err);
    if (status == WEFT_OK) status = measure_read(b, err);
    if (status == WEFT_OK) status = warm_up(b, v->prompts.values[0], err);
    for (uint32_t i = 0; i < v->prompts.n && status == WEFT_OK; i++)
        status = bench_prefill(b, v->prompts.values[i], err);
    for (uint32_t i = 0; i < v->contexts.n && status == WEFT_OK; i++) {
        for (uint32_t k = 0; k < v->batches.n && status == WEFT_OK; k++)
            status = bench_decode(b, v->batches.values[k], v->contexts.values[i], err);
    }
    if (status == WEFT_OK) status = measure_agreement(b, err);
    return status;
}

static int run(const void *values, const char *path)
{
    weft_error err = {WEFT_OK, ""};
    bench *b = mem_alloc_zero(mem_system(), sizeof *b);
    if (b == NULL) {
        report_note("out of memory for the results");
        return EXIT_FAILED;
    }
    b->v = values;
    strbuf_init(&b->tables, mem_system(), 0);
    strbuf_init(&b->traces, mem_system(), 0);
    bool usage = false;
    weft_status status = session_open_model(&b->s, &b->v->session, path, &err);
    if (status == WEFT_OK) {
        status = open_engine(b, &err);
        usage = status != WEFT_OK;
    }
    if (status == WEFT_OK) status = bench_all(b, &err);
    if (status == WEFT_OK && b->v->json) {
        status = print_json(b, path, &err);
    } else if (status == WEFT_OK) {
        print_table(b, path);
    }
    if (status == WEFT_OK) status = agreement_check(&b->agreement, b->info.kv, &err);
    progress_clear(&b->progress);
    session_close(&b->s);
    strbuf_deinit(&b->tables);
    strbuf_deinit(&b->traces);
    mem_free(mem_system(), b, sizeof *b);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, usage);
}

const command COMMAND_bench = {
    .name = "bench",
    .operand = "MODEL",
    .summary = "tokens a second, bytes moved, and the share of the machine's plain read",
    .details =
        "Prompts are random ids from a fixed seed; the model's stop tokens end nothing. prefill "
        "is\n"
        "the time to the first token of one prompt; its TFLOP/s count two operations for each "
        "number\n"
        "of the layers' matrices, attention left out. decode counts the tokens of all rows; a "
        "step\n"
        "moves the weights and the live keys and values once, and the share is that over the "
        "step's\n"
        "time, against a plain read of 1 GiB with the same threads. Above 100% means that the "
        "model\n"
        "fits the caches. The checksum is of the tokens: it changes when any of them does. And 40\n"
        "tokens are compared with those that the model has with keys and values in f32; where "
        "fewer\n"
        "are the same than codecs of such widths explain, it says so and ends with 1.\n"
        "\n"
        "With --trace, what the timed steps did: ms are of the thread that had most to do, idle ms "
        "how\n"
        "much less another had, and barrier is what threads need to meet; MB are of weights, or of "
        "keys\n"
        "and values, each once. Reading the clock is in the speeds of such a run.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
