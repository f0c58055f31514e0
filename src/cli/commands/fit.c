/* fit.c - weft fit: does a model with so many sequences of such a length fit the memory, and what
 * would have to change if not.
 *
 * What a sequence costs are the bytes that an engine promises it before it starts. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/bytes.h"
#include "cli/codecs.h"
#include "cli/commands/command.h"

enum { CONTEXT_DEFAULT = 8192 };

typedef struct fit_values {
    session_values session;
    uint32_t n_sequences;
    bool json;
} fit_values;

#define AT(field) offsetof(fit_values, field)

static const option_row OPTIONS[] = {
    {"context", OPTION_COUNT, AT(session.context), "N",
     "most tokens of a sequence (default: what the model was made for, at most 8192)", 1, 1 << 30,
     NULL},
    {"sequences", OPTION_COUNT, AT(n_sequences), "N", "sequences together (default: 1)", 1, 4096,
     NULL},
    {"kv", OPTION_TEXT, AT(session.kv), "SPEC",
     "how keys and values shall be stored (default: as --act)", 0, 0, NULL},
    {"act", OPTION_CHOICE, AT(session.act), "TYPE",
     "what the input of a linear layer is rounded to (default: bf16)", 0, 0, SESSION_ACTS},
    {"threads", OPTION_COUNT, AT(session.threads), "N",
     "compute threads (default: one per processor)", 1, 256, NULL},
    {"memory", OPTION_BYTES, AT(session.memory), "BYTES",
     "memory there is, such as 512M or 2G (default: this machine's)", 0, 0, NULL},
    SESSION_EXPERTS_ROW(AT(session.experts)),
    {"json", OPTION_FLAG, AT(json), NULL, "prints one JSON object", 0, 0, NULL},
};

static const fit_values DEFAULTS = {.session = SESSION_DEFAULTS, .n_sequences = 1};

/* What a codec spec needs, and how far what is left for it goes. */
typedef struct need {
    const char *kv;
    uint64_t one, all; /* bytes of a sequence, of all */
    bool fits;
    uint32_t most_context;   /* with so many sequences; 0: none */
    uint64_t most_sequences; /* of such a length */
} need;

typedef struct fit {
    const fit_values *v;
    session s;
    uint32_t context;
    weft_experts_info of_experts;
    uint64_t memory, left;
    uint64_t weights, experts, scratch; /* experts: memory to stream them through, if so */
    uint64_t stream_most;         /* what they could be streamed through, instead; 0: nothing */
    need needs[CODECS_USUAL + 1]; /* the first is what was asked for */
    uint32_t n_needs;
} fit;

static uint64_t left_of(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What there is without any sequence. */
static uint64_t taken(const fit *x)
{
    return x->weights + x->experts + x->scratch;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* What an engine promises a sequence as long as its context. */
static weft_status state_bytes(const fit *x, const char *kv, uint32_t context, uint64_t *n_bytes,
                               weft_error *err)
{
    weft_engine_options options = session_engine_options(&x->v->session);
    options.max_drafts = WEFT_NO_DRAFTS; /* as weft run without --draft */
    options.kv = kv;
    options.context = context;
    options.memory_bytes = 0;
    return weft_model_state_bytes(x->s.model, &options, context, n_bytes, err);
}

static bool product_fits(uint64_t one, uint32_t n, uint64_t most)
{
    return one <= most / n;
}

/* The longest context of which so many sequences fit. */
static weft_status find_context(const fit *x, need *of, weft_error *err)
{
    uint32_t low = 0; /* fits */
    uint32_t high = x->s.info.context;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        uint64_t one;
        weft_status status = state_bytes(x, of->kv, middle, &one, err);
        if (status != WEFT_OK) return status;
        if (product_fits(one, x->v->n_sequences, x->left)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    of->most_context = low;
    return WEFT_OK;
}

static weft_status add_need(fit *x, const char *kv, weft_error *err)
{
    need of = {.kv = kv};
    weft_status status = state_bytes(x, kv, x->context, &of.one, err);
    if (status != WEFT_OK) return status;
    if (of.one > UINT64_MAX / x->v->n_sequences)
        return err_set(err, WEFT_LIMIT, "%u sequences of %llu bytes", x->v->n_sequences,
                       (unsigned long long)of.one);
    of.all = of.one * x->v->n_sequences;
    of.fits = taken(x) <= x->memory && of.all <= x->left;
    of.most_sequences = of.one > 0 ? x->left / of.one : 0;
    status = find_context(x, &of, err);
    if (status == WEFT_OK) x->needs[x->n_needs++] = of;
    return status;
}

/* The plan's own memory is known once an engine is open, which holds no sequence yet. */
static weft_status open_engine(fit *x, uint64_t experts, weft_engine_info *info, weft_error *err)
{
    session_values values = x->v->session;
    values.memory = 0;
    values.experts = experts;
    session_plan plan = {.context = x->context, .max_sequences = x->v->n_sequences};
    weft_status status = session_open_engine(&x->s, &values, &plan, err);
    *info = (weft_engine_info){.struct_size = sizeof *info};
    if (status == WEFT_OK) status = weft_engine_get_info(x->s.engine, info, err);
    weft_engine_close(x->s.engine);
    x->s.engine = NULL;
    return status;
}

static weft_status measure(fit *x, weft_error *err)
{
    weft_engine_info info;
    weft_status status = open_engine(x, x->v->session.experts, &info, err);
    x->of_experts = (weft_experts_info){.struct_size = sizeof x->of_experts};
    if (status == WEFT_OK) status = weft_model_experts(x->s.model, &x->of_experts, err);
    if (status != WEFT_OK) return status;
    x->scratch = info.scratch_bytes;
    x->experts = info.expert_bytes;
    x->weights = x->s.info.n_bytes;
    if (x->experts > 0) x->weights -= x->of_experts.n_bytes;
    x->memory = x->v->session.memory != 0 ? x->v->session.memory : mem_of_machine();
    if (x->memory == 0)
        return err_set(err, WEFT_UNSUPPORTED,
                       "this machine does not say how much memory it has, --memory does");
    x->left = left_of(x->memory, taken(x));
    return WEFT_OK;
}

/* Whole experts for which there is room beside what was asked for, were they streamed; what else
 * that takes is measured, too. */
static weft_status find_stream(fit *x, weft_error *err)
{
    const weft_experts_info *of = &x->of_experts;
    weft_engine_info info;
    if (x->needs[0].fits || of->n_all == 0) return WEFT_OK;
    weft_status status = open_engine(x, of->bytes_least, &info, err);
    if (status != WEFT_OK) return status;
    uint64_t rest = x->s.info.n_bytes - of->n_bytes + info.scratch_bytes + x->needs[0].all;
    uint64_t n = left_of(x->memory, rest) / of->bytes_each;
    if (n > of->n_all) n = of->n_all;
    if (n * of->bytes_each >= of->bytes_least) x->stream_most = n * of->bytes_each;
    return WEFT_OK;
}

static weft_status compute(fit *x, weft_error *err)
{
    uint32_t context = x->v->session.context;
    if (context == 0) {
        context = x->s.info.context < CONTEXT_DEFAULT ? x->s.info.context : CONTEXT_DEFAULT;
    }
    x->context = context;
    weft_status status = measure(x, err);
    const char *asked = session_kv(&x->v->session);
    if (status == WEFT_OK) status = add_need(x, asked, err);
    for (uint32_t i = 0; i < CODECS_USUAL && status == WEFT_OK; i++) {
        weft_error why = {WEFT_OK, ""};
        if (strcmp(CODECS[i], asked) == 0) continue;
        status = add_need(x, CODECS[i], &why);
        if (status == WEFT_UNSUPPORTED) {
            status = WEFT_OK;
        } else if (status != WEFT_OK) {
            *err = why;
        }
    }
    return status == WEFT_OK ? find_stream(x, err) : status;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* The largest usual codec that fits, as it is the one that loses least. */
static const need *best_fitting(const fit *x)
{
    const need *best = NULL;
    for (uint32_t i = 1; i < x->n_needs; i++) {
        const need *of = &x->needs[i];
        if (of->fits && (best == NULL || of->one > best->one)) best = of;
    }
    return best;
}

static void print_verdict(const fit *x)
{
    const need *asked = &x->needs[0];
    char bytes[BYTES_TEXT];
    if (asked->fits) {
        bytes_print(x->left - asked->all, bytes);
        printf("\n%s fits, %s are left\n", asked->kv, bytes);
        return;
    }
    bytes_print(left_of(taken(x), x->memory) + asked->all - x->left, bytes);
    printf("\n%s does not fit, %s are missing", asked->kv, bytes);
    const need *best = best_fitting(x);
    if (x->left == 0 && x->stream_most == 0) {
        puts(": weights and scratch alone are too much");
        return;
    }
    const char *join = ". What fits: ";
    if (best != NULL) {
        printf("%s--kv %s", join, best->kv);
        join = ", or ";
    }
    if (asked->most_context > 0) {
        printf("%s--context %u", join, asked->most_context);
        join = ", or ";
    }
    if (asked->most_sequences > 0) {
        printf("%s--sequences %llu", join, (unsigned long long)asked->most_sequences);
        join = ", or ";
    }
    if (x->stream_most > 0) {
        printf("%s--experts stream=%llu, the more the faster, from stream=%llu on", join,
               (unsigned long long)x->stream_most, (unsigned long long)x->of_experts.bytes_least);
    }
    putchar('\n');
}

/* What is streamed, or could be. */
static void print_experts(const fit *x)
{
    const weft_experts_info *of = &x->of_experts;
    char bytes[BYTES_TEXT];
    if (of->n_all == 0) return;
    bytes_print(of->n_bytes, bytes);
    printf("\n%llu experts of %s in %u layers, %u of them a token and layer",
           (unsigned long long)of->n_all, bytes, of->n_layers, of->n_top);
    if (x->experts > 0) {
        printf(", %llu in memory\n", (unsigned long long)(x->experts / of->bytes_each));
    } else {
        printf(", among the weights\n");
    }
}

static void print_table(const fit *x, const char *path)
{
    const struct {
        const char *label;
        uint64_t n;
    } LINES[] = {{"memory", x->memory},
                 {"weights", x->weights},
                 {"experts", x->experts},
                 {"scratch", x->scratch},
                 {"left", x->left}};
    text_write(stdout, path, strlen(path));
    putchar('\n');
    for (uint32_t i = 0; i < COUNT_OF(LINES); i++) {
        char bytes[BYTES_TEXT];
        if (LINES[i].n == 0 && strcmp(LINES[i].label, "experts") == 0) continue;
        bytes_print(LINES[i].n, bytes);
        printf("%-9s %s\n", LINES[i].label, bytes);
    }
    print_experts(x);
    printf("\n%u sequences of at most %u tokens\n\n", x->v->n_sequences, x->context);
    printf("%-24s  a sequence         all  fits  most context  most sequences\n", "kv");
    for (uint32_t i = 0; i < x->n_needs; i++) {
        const need *of = &x->needs[i];
        char one[BYTES_TEXT];
        char all[BYTES_TEXT];
        bytes_print_short(of->one, one);
        bytes_print_short(of->all, all);
        printf("%-24s %11s %11s  %-4s %13u %15llu\n", of->kv, one, all, of->fits ? "yes" : "no",
               of->most_context, (unsigned long long)of->most_sequences);
    }
    print_verdict(x);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void add_experts(const fit *x, strbuf *out)
{
    const weft_experts_info *of = &x->of_experts;
    strbuf_printf(out, ",\"experts\":{\"n\":%llu,\"bytes_all\":%llu,\"bytes_each\":%llu",
                  (unsigned long long)of->n_all, (unsigned long long)of->n_bytes,
                  (unsigned long long)of->bytes_each);
    strbuf_printf(out, ",\"bytes_least\":%llu,\"bytes\":%llu,\"stream_most\":%llu}",
                  (unsigned long long)of->bytes_least, (unsigned long long)x->experts,
                  (unsigned long long)x->stream_most);
}

static weft_status print_json(const fit *x, const char *path, weft_error *err)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"model\":");
    json_write_text(str_of(path), &out);
    strbuf_printf(&out, ",\"memory\":%llu,\"weights\":%llu,\"scratch\":%llu,\"left\":%llu",
                  (unsigned long long)x->memory, (unsigned long long)x->weights,
                  (unsigned long long)x->scratch, (unsigned long long)x->left);
    add_experts(x, &out);
    strbuf_printf(&out, ",\"context\":%u,\"sequences\":%u,\"fits\":%s,\"kv\":[", x->context,
                  x->v->n_sequences, x->needs[0].fits ? "true" : "false");
    for (uint32_t i = 0; i < x->n_needs; i++) {
        const need *of = &x->needs[i];
        strbuf_add_text(&out, i > 0 ? ",{\"kv\":" : "{\"kv\":");
        json_write_text(str_of(of->kv), &out);
        strbuf_printf(&out, ",\"bytes_sequence\":%llu,\"bytes_all\":%llu,\"fits\":%s",
                      (unsigned long long)of->one, (unsigned long long)of->all,
                      of->fits ? "true" : "false");
        strbuf_printf(&out, ",\"most_context\":%u,\"most_sequences\":%llu}", of->most_context,
                      (unsigned long long)of->most_sequences);
    }
    weft_status status = strbuf_add_text(&out, "]}\n");
    if (status == WEFT_OK) {
        fwrite(out.ptr, 1, out.len, stdout);
    } else {
        err_set(err, status, "out of memory for the report");
    }
    strbuf_deinit(&out);
    return status;
}

static int run(const void *values, const char *path)
{
    fit x = {.v = values};
    weft_error err = {WEFT_OK, ""};
    weft_status status = session_open_model(&x.s, &x.v->session, path, &err);
    bool usage = false;
    if (status == WEFT_OK) {
        status = compute(&x, &err);
        usage = status != WEFT_OK;
    }
    if (status == WEFT_OK && x.v->json) {
        status = print_json(&x, path, &err);
    } else if (status == WEFT_OK) {
        print_table(&x, path);
    }
    session_close(&x.s);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, usage);
}

const command COMMAND_fit = {
    .name = "fit",
    .operand = "MODEL",
    .summary = "does it fit the memory: weights, scratch, and keys and values of each usual codec",
    .details = "A sequence costs what an engine promises it before it starts: what fits here is "
               "not refused\n"
               "there for want of memory. scratch is what steps of so many sequences need besides: "
               "it grows\n"
               "with --sequences and --context. The first row is --kv, or what --act says; most "
               "context is\n"
               "for so many sequences, most sequences for such a context, both with that scratch. "
               "With\n"
               "--experts, weights are those that stay, and experts the memory that the others are "
               "streamed\n"
               "through. The exit status is 0 also when it does not fit.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
