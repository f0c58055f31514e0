/* eval.c - weft eval: perplexity of a text, and how far the next-token probabilities of two runs
 * are apart: other models, or other codecs of keys and values.
 *
 * The text is read in windows. All runs read the same window side by side, a piece of rows at a
 * time, so that no more logits are in memory than a piece of each. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/reader.h"
#include "cli/score.h"

enum { SIDES_MOST = 32, CONTEXT_DEFAULT = 1024 };

typedef struct eval_values {
    session_values session;
    const char *verb, *text, *against, *against_kv, *against_act;
    uint32_t context, stride, n_tokens;
    bool json;
} eval_values;

#define AT(field) offsetof(eval_values, field)

static const option_row OPTIONS[] = {
    {"text", OPTION_TEXT, AT(text), "FILE", "the text; - is stdin", 0, 0, NULL},
    {"against", OPTION_TEXT, AT(against), "MODEL",
     "kl: the model to compare with (default: the same)", 0, 0, NULL},
    {"against-kv", OPTION_TEXT, AT(against_kv), "SPEC",
     "kl: keys and values of what is compared with (default: as --act)", 0, 0, NULL},
    {"against-act", OPTION_CHOICE, AT(against_act), "TYPE",
     "kl: what inputs are rounded to in what is compared with (default: as --act)", 0, 0,
     SESSION_ACTS},
    {"context", OPTION_COUNT, AT(context), "N",
     "most tokens of a window (default: 1024, or the model's if that is less)", 2, 1 << 30, NULL},
    {"stride", OPTION_COUNT, AT(stride), "N",
     "tokens from the start of a window to that of the next; with less than a window each token "
     "sees more of what stands before it, and counts once (default: a window)",
     1, 1 << 30, NULL},
    {"tokens", OPTION_COUNT, AT(n_tokens), "N", "reads the first N tokens (default: all)", 2,
     1 << 30, NULL},
    {"json", OPTION_FLAG, AT(json), NULL, "prints one JSON object", 0, 0, NULL},
};

static const eval_values DEFAULTS = {.session = SESSION_DEFAULTS};

/* A run over the text. */
typedef struct side {
    reader reader;
    score_mean loss;       /* -log p of each token */
    score_mean divergence; /* of the run compared with from this one */
    score_list divergences;
    uint64_t n_same_top;
} side;

typedef struct eval {
    const eval_values *v;
    session s, other; /* other: of --against */
    id_list ids, opening, window;
    uint32_t context, stride;
    uint64_t n_windows;
    side against;    /* kl alone */
    double *weights; /* [n_rows, n_vocab], of the piece of against */
    score_row *rows; /* [n_rows] */
    side sides[SIDES_MOST];
    uint32_t n_sides;
    progress progress;
} eval;

static bool compares(const eval *x)
{
    return x->against.reader.engine != NULL;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* What the tokenizer puts before a text: each window begins with it. */
static weft_status find_opening(eval *x, weft_error *err)
{
    static const char PROBE[] = "a";
    id_list plain = {0};
    id_list whole = {0};
    weft_status status = session_tokenize(&x->s, str_of(PROBE), 0, &plain, err);
    if (status == WEFT_OK)
        status = session_tokenize(&x->s, str_of(PROBE), WEFT_TOKENIZE_SPECIALS, &whole, err);
    size_t bytes = plain.n * sizeof *plain.ids;
    for (size_t at = 0; status == WEFT_OK && at + plain.n <= whole.n; at++) {
        if (plain.n == 0 || memcmp(whole.ids + at, plain.ids, bytes) != 0) continue;
        for (size_t i = 0; i < at && status == WEFT_OK; i++)
            status = id_list_add(&x->opening, whole.ids[i], err);
        break;
    }
    id_list_deinit(&plain);
    id_list_deinit(&whole);
    return status;
}

/* Both models must read the same tokens. */
static weft_status check_same_ids(eval *x, str text, weft_error *err)
{
    if (x->other.info.n_vocab != x->s.info.n_vocab)
        return err_set(err, WEFT_ARGUMENT, "--against has a vocabulary of %u, the model one of %u",
                       x->other.info.n_vocab, x->s.info.n_vocab);
    id_list ids = {0};
    weft_status status = session_tokenize(&x->other, text, 0, &ids, err);
    for (size_t i = 0; status == WEFT_OK && (i < ids.n || i < x->ids.n); i++) {
        if (i < ids.n && i < x->ids.n && ids.ids[i] == x->ids.ids[i]) continue;
        status = err_set(err, WEFT_ARGUMENT,
                         "the tokenizers differ: token %zu of the text is not the same", i);
    }
    id_list_deinit(&ids);
    return status;
}

static weft_status read_text(eval *x, weft_error *err)
{
    strbuf text;
    strbuf_init(&text, mem_system(), INPUT_LIMIT);
    weft_status status = input_read_file(x->v->text, &text, err);
    str whole = {strbuf_text(&text), text.len};
    if (status == WEFT_OK) status = session_tokenize(&x->s, whole, 0, &x->ids, err);
    if (status == WEFT_OK && x->v->against != NULL) status = check_same_ids(x, whole, err);
    if (status == WEFT_OK) status = find_opening(x, err);
    strbuf_deinit(&text);
    if (status != WEFT_OK) return status;
    if (x->v->n_tokens != 0 && x->v->n_tokens < x->ids.n) x->ids.n = x->v->n_tokens;
    if (x->ids.n + x->opening.n >= 2) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "'%s' has %zu tokens, at least 2 are needed", x->v->text,
                   x->ids.n);
}

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status choose_windows(eval *x, weft_error *err)
{
    uint32_t most = x->s.info.context;
    if (x->v->against != NULL && x->other.info.context < most) most = x->other.info.context;
    x->context = x->v->context != 0 ? x->v->context : CONTEXT_DEFAULT;
    if (x->v->context == 0 && x->context > most) x->context = most;
    if (x->context > most)
        return err_set(err, WEFT_LIMIT, "--context is %u, the model's holds %u", x->context, most);
    if (x->context <= x->opening.n + 1)
        return err_set(err, WEFT_ARGUMENT, "--context is %u, %zu of it are before each text",
                       x->context, x->opening.n);
    uint32_t room = x->context - (uint32_t)x->opening.n;
    /* Without an opening the first token of a window has nothing before it. */
    x->stride = x->v->stride != 0 ? x->v->stride : room;
    if (x->stride > room)
        return err_set(err, WEFT_ARGUMENT, "--stride is %u, a window has %u tokens of the text",
                       x->stride, room);
    return WEFT_OK;
}

static weft_status open_side(eval *x, const session *s, const session_values *values, side *to,
                             const char *kv, weft_error *err)
{
    weft_status status = reader_open(&to->reader, s, values, kv, x->context, err);
    if (status != WEFT_OK && kv != NULL && err->status != WEFT_NOMEM)
        err_context(err, "kv '%s': ", kv);
    return status;
}

/* --kv has one spec, or several with blanks between them. */
static weft_status open_sides(eval *x, weft_error *err)
{
    const char *specs = session_kv(&x->v->session);
    strbuf spec;
    strbuf_init(&spec, mem_system(), 0);
    weft_status status = WEFT_OK;
    for (specs += strspn(specs, " "); status == WEFT_OK && *specs != '\0';
         specs += strspn(specs, " ")) {
        size_t n = strcspn(specs, " ");
        strbuf_clear(&spec);
        status = strbuf_add(&spec, specs, n);
        if (status != WEFT_OK) {
            err_set(err, status, "out of memory for a kv spec");
        } else if (x->n_sides == SIDES_MOST) {
            status = err_set(err, WEFT_LIMIT, "--kv has more than %d specs", SIDES_MOST);
        } else {
            side *to = &x->sides[x->n_sides++];
            status = open_side(x, &x->s, &x->v->session, to, strbuf_text(&spec), err);
        }
        specs += n;
    }
    if (status == WEFT_OK && x->n_sides == 0) status = err_set(err, WEFT_ARGUMENT, "--kv is empty");
    strbuf_deinit(&spec);
    return status;
}

static size_t weights_bytes(const eval *x)
{
    return (size_t)x->against.reader.n_rows * x->against.reader.n_vocab * sizeof(double);
}

static size_t rows_bytes(const eval *x)
{
    return x->against.reader.n_rows * sizeof *x->rows;
}

static weft_status open_against(eval *x, weft_error *err)
{
    const eval_values *v = x->v;
    const session *s = v->against != NULL ? &x->other : &x->s;
    session_values values = v->session;
    values.kv = v->against_kv;
    if (v->against_act != NULL) values.act = v->against_act;
    weft_status status = open_side(x, s, &values, &x->against, session_kv(&values), err);
    if (status != WEFT_OK) return status;
    x->weights = mem_alloc(mem_system(), weights_bytes(x));
    x->rows = mem_alloc(mem_system(), rows_bytes(x));
    if (x->weights != NULL && x->rows != NULL) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for %u rows of %u probabilities",
                   x->against.reader.n_rows, x->against.reader.n_vocab);
}

static weft_status open_models(eval *x, const char *path, weft_error *err)
{
    weft_status status = session_open_model(&x->s, &x->v->session, path, err);
    if (status == WEFT_OK && x->v->against != NULL)
        status = session_open_model(&x->other, &x->v->session, x->v->against, err);
    return status == WEFT_OK ? read_text(x, err) : status;
}

static weft_status open_runs(eval *x, weft_error *err)
{
    weft_status status = choose_windows(x, err);
    if (status == WEFT_OK && strcmp(x->v->verb, "kl") == 0) status = open_against(x, err);
    return status == WEFT_OK ? open_sides(x, err) : status;
}

static void close_all(eval *x)
{
    progress_clear(&x->progress);
    mem_free(mem_system(), x->weights, weights_bytes(x));
    mem_free(mem_system(), x->rows, rows_bytes(x));
    reader_close(&x->against.reader);
    for (uint32_t i = 0; i < x->n_sides; i++) {
        reader_close(&x->sides[i].reader);
        score_list_deinit(&x->sides[i].divergences);
    }
    session_close(&x->s);
    session_close(&x->other);
    id_list_deinit(&x->ids);
    id_list_deinit(&x->opening);
    id_list_deinit(&x->window);
}

/* ---- scoring --------------------------------------------------------------------------------- */

/* Adds what a run makes of the token after position i of the window. */
static weft_status score_loss(eval *x, side *of, uint32_t i, double *weights, score_row *row,
                              weft_error *err)
{
    while (i >= of->reader.end) {
        weft_status status = reader_next(&of->reader, err);
        if (status != WEFT_OK) return status;
    }
    const float *logits = reader_row(&of->reader, i);
    weft_status status = score_weigh(logits, of->reader.n_vocab, weights, row, err);
    if (status != WEFT_OK) {
        err_context(err, "kv '%s', window %llu, token %u: ", of->reader.info.kv,
                    (unsigned long long)x->n_windows, i);
        return status;
    }
    score_mean_add(&of->loss, row->log_sum - (double)logits[x->window.ids[i + 1]]);
    return WEFT_OK;
}

static weft_status compare(eval *x, side *of, uint32_t i, const score_row *row, weft_error *err)
{
    const reader *from = &x->against.reader;
    uint32_t row_i = i - from->first;
    const score_row *truth = &x->rows[row_i];
    double d = score_divergence(reader_row(from, i), x->weights + (size_t)row_i * from->n_vocab,
                                truth, reader_row(&of->reader, i), row, from->n_vocab);
    if (!isfinite(d))
        return err_set(err, WEFT_FORMAT, "kv '%s': a token that may come has probability 0",
                       of->reader.info.kv);
    score_mean_add(&of->divergence, d);
    of->n_same_top += truth->top == row->top;
    return score_list_add(&of->divergences, d, err);
}

/* Positions [from, to) of the window, which a piece of against holds where there is one. */
static weft_status score_positions(eval *x, uint32_t from, uint32_t to, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t k = 0; k < x->n_sides; k++) {
        for (uint32_t i = from; i < to && status == WEFT_OK; i++) {
            score_row row;
            status = score_loss(x, &x->sides[k], i, NULL, &row, err);
            if (status == WEFT_OK && compares(x)) status = compare(x, &x->sides[k], i, &row, err);
        }
    }
    return status;
}

/* The same, piece by piece of what is compared with. */
static weft_status score_pieces(eval *x, uint32_t from, uint32_t to, weft_error *err)
{
    reader *r = &x->against.reader;
    weft_status status = WEFT_OK;
    for (uint32_t i = from; i < to && status == WEFT_OK;) {
        while (i >= r->end && status == WEFT_OK) status = reader_next(r, err);
        uint32_t end = r->end < to ? r->end : to;
        for (uint32_t k = i; k < end && status == WEFT_OK; k++) {
            uint32_t row_i = k - r->first;
            status = score_loss(x, &x->against, k, x->weights + (size_t)row_i * r->n_vocab,
                                &x->rows[row_i], err);
        }
        if (status == WEFT_OK) status = score_positions(x, i, end, err);
        i = end;
    }
    return status;
}

/* Text tokens [start, start + n), of which those before `fresh` have been scored. */
static weft_status score_window(eval *x, size_t start, size_t n, size_t fresh, weft_error *err)
{
    x->window.n = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < x->opening.n && status == WEFT_OK; i++)
        status = id_list_add(&x->window, x->opening.ids[i], err);
    for (size_t i = 0; i < n && status == WEFT_OK; i++)
        status = id_list_add(&x->window, x->ids.ids[start + i], err);
    uint32_t n_ids = (uint32_t)x->window.n;
    if (status == WEFT_OK && compares(x))
        status = reader_begin(&x->against.reader, x->window.ids, n_ids, err);
    for (uint32_t i = 0; i < x->n_sides && status == WEFT_OK; i++)
        status = reader_begin(&x->sides[i].reader, x->window.ids, n_ids, err);
    if (status != WEFT_OK) return status;
    size_t first = x->opening.n + (fresh - start);
    uint32_t from = first == 0 ? 0 : (uint32_t)first - 1;
    return compares(x) ? score_pieces(x, from, n_ids - 1, err)
                       : score_positions(x, from, n_ids - 1, err);
}

static weft_status score_text(eval *x, weft_error *err)
{
    size_t room = x->context - x->opening.n;
    size_t fresh = 0;
    weft_status status = WEFT_OK;
    for (size_t start = 0; status == WEFT_OK && fresh < x->ids.n; start += x->stride) {
        size_t n = x->ids.n - start < room ? x->ids.n - start : room;
        x->n_windows++;
        progress_show(&x->progress, "window %llu: %zu of %zu tokens",
                      (unsigned long long)x->n_windows, fresh, x->ids.n);
        status = score_window(x, start, n, fresh, err);
        fresh = start + n;
    }
    progress_clear(&x->progress);
    return status;
}

/* ---- output ---------------------------------------------------------------------------------- */

static double share_same_top(const side *of)
{
    return (double)of->n_same_top / (double)of->divergence.n;
}

static void print_loss(const side *of)
{
    double perplexity = exp(of->loss.mean);
    printf(" %11.4f %9.4f\n", perplexity, perplexity * score_mean_error(&of->loss));
}

static void print_table(eval *x, const char *path)
{
    text_write(stdout, path, strlen(path));
    printf("\n%zu tokens, %llu of them scored in %llu windows of at most %u\n", x->ids.n,
           (unsigned long long)x->sides[0].loss.n, (unsigned long long)x->n_windows, x->context);
    if (!compares(x)) {
        printf("\n%-24s  perplexity       +/-\n", "kv");
        for (uint32_t i = 0; i < x->n_sides; i++) {
            printf("%-24s", x->sides[i].reader.info.kv);
            print_loss(&x->sides[i]);
        }
        return;
    }
    fputs("compared with ", stdout);
    const char *with = x->v->against != NULL ? x->v->against : path;
    text_write(stdout, with, strlen(with));
    printf(", kv %s\n\n%-24s    mean KL       +/-  99.9%% KL  largest KL  same top  perplexity"
           "       +/-\n",
           x->against.reader.info.kv, "kv");
    printf("%-24s %52s", "(compared with)", "");
    print_loss(&x->against);
    for (uint32_t i = 0; i < x->n_sides; i++) {
        side *of = &x->sides[i];
        printf("%-24s %10.6f %9.6f %9.5f %11.5f %8.3f%%", of->reader.info.kv, of->divergence.mean,
               score_mean_error(&of->divergence), score_list_quantile(&of->divergences, 0.999),
               score_list_quantile(&of->divergences, 1.0), 100.0 * share_same_top(of));
        print_loss(of);
    }
}

static void add_loss(const side *of, strbuf *out)
{
    strbuf_printf(out, "\"kv\":\"%s\",\"loss\":%.12g,\"loss_error\":%.6g,\"perplexity\":%.12g",
                  of->reader.info.kv, of->loss.mean, score_mean_error(&of->loss),
                  exp(of->loss.mean));
}

static void add_divergence(side *of, strbuf *out)
{
    strbuf_printf(out, ",\"kl\":%.12g,\"kl_error\":%.6g,\"kl_p999\":%.12g,\"kl_most\":%.12g",
                  of->divergence.mean, score_mean_error(&of->divergence),
                  score_list_quantile(&of->divergences, 0.999),
                  score_list_quantile(&of->divergences, 1.0));
    strbuf_printf(out, ",\"same_top\":%.9g", share_same_top(of));
}

static weft_status print_json(eval *x, const char *path, weft_error *err)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"model\":");
    json_write_text(str_of(path), &out);
    strbuf_printf(&out, ",\"act\":\"%s\",\"backend\":\"%s\",\"isa\":\"%s\"", x->v->session.act,
                  x->sides[0].reader.info.backend, x->sides[0].reader.info.isa);
    strbuf_printf(&out, ",\"tokens\":%zu,\"scored\":%llu,\"windows\":%llu,\"context\":%u", x->ids.n,
                  (unsigned long long)x->sides[0].loss.n, (unsigned long long)x->n_windows,
                  x->context);
    if (compares(x)) {
        strbuf_add_text(&out, ",\"against\":{\"model\":");
        json_write_text(str_of(x->v->against != NULL ? x->v->against : path), &out);
        strbuf_add_char(&out, ',');
        add_loss(&x->against, &out);
        strbuf_add_char(&out, '}');
    }
    strbuf_add_text(&out, ",\"runs\":[");
    for (uint32_t i = 0; i < x->n_sides; i++) {
        strbuf_add_text(&out, i > 0 ? ",{" : "{");
        add_loss(&x->sides[i], &out);
        if (compares(x)) add_divergence(&x->sides[i], &out);
        strbuf_add_char(&out, '}');
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

/* ---- the command ----------------------------------------------------------------------------- */

static weft_status check_usage(const eval_values *v, weft_error *err)
{
    bool compared = v->against != NULL || v->against_kv != NULL || v->against_act != NULL;
    if (v->text == NULL) return err_set(err, WEFT_ARGUMENT, "--text is missing");
    if (strcmp(v->verb, "kl") == 0 && !compared)
        return err_set(err, WEFT_ARGUMENT, "kl needs --against, --against-kv or --against-act");
    if (strcmp(v->verb, "ppl") == 0 && compared)
        return err_set(err, WEFT_ARGUMENT,
                       "--against, --against-kv and --against-act belong to kl");
    return WEFT_OK;
}

static int run(const void *values, const char *path)
{
    weft_error err = {WEFT_OK, ""};
    if (check_usage(values, &err) != WEFT_OK) return report_failure(&err, true);
    eval *x = mem_alloc_zero(mem_system(), sizeof *x);
    if (x == NULL) {
        report_note("out of memory for the results");
        return EXIT_FAILED;
    }
    x->v = values;
    weft_status status = open_models(x, path, &err);
    bool usage = false;
    if (status == WEFT_OK) {
        status = open_runs(x, &err);
        usage = status != WEFT_OK;
    }
    if (status == WEFT_OK) status = score_text(x, &err);
    if (status == WEFT_OK && x->v->json) {
        status = print_json(x, path, &err);
    } else if (status == WEFT_OK) {
        print_table(x, path);
    }
    close_all(x);
    mem_free(mem_system(), x, sizeof *x);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, usage);
}

const command COMMAND_eval = {
    .name = "eval",
    .verbs = "ppl|kl",
    .verb_at = AT(verb),
    .operand = "MODEL",
    .summary = "perplexity of a text, and how far two runs' probabilities are apart on it",
    .details =
        "The text is cut into windows, each behind what the tokenizer puts before a text; added\n"
        "tokens in it are recognised. A token is scored where something stands before it in its\n"
        "window, once. ppl prints the perplexity; kl also the Kullback-Leibler divergence, in "
        "nats\n"
        "a token, from the probabilities of another run (--against, --against-kv, --against-act) "
        "to "
        "those\n"
        "of this one: its mean, 99.9% quantile and maximum, and how often both hold the same "
        "token\n"
        "for the likeliest. --kv may have several specs with blanks between them, a row for each,\n"
        "which share the run that is compared with. +/- is the standard error as if tokens were\n"
        "independent. Sums are in double; a run compared with itself has a divergence of exactly "
        "0.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
