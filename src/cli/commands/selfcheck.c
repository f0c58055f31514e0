/* selfcheck.c - weft selfcheck: promise P1 on the user's own machine and model, as a table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/checks.h"
#include "cli/commands/command.h"

typedef struct selfcheck_values {
    session_values session;
    const char *codecs;
    option_seed seed;
    bool quick, json;
} selfcheck_values;

#define AT(field) offsetof(selfcheck_values, field)

static const option_row OPTIONS[] = {
    {"codecs", OPTION_TEXT, AT(codecs), "LIST",
     "how keys and values are stored, one column each (default: as --act, and affine8g64, "
     "affine4g64, turbo-k8v4)",
     0, 0, NULL},
    {"seed", OPTION_SEED, AT(seed), "S", "what the trace follows from (default: 20261130)", 0, 0,
     NULL},
    {"quick", OPTION_FLAG, AT(quick), NULL, "shorter prompts, and a shorter trace", 0, 0, NULL},
    {"json", OPTION_FLAG, AT(json), NULL, "prints one JSON object", 0, 0, NULL},
};

static const selfcheck_values DEFAULTS = {.session = SESSION_DEFAULTS,
                                          .seed = {.value = CHECKS_SEED}};

enum { LIST_BYTES = 256, CELL_BYTES = 96 };

typedef struct selfcheck {
    const selfcheck_values *v;
    session s;
    checks checks;
    char list[LIST_BYTES]; /* what checks.codecs point to */
    progress progress;
    double seconds;
} selfcheck;

/* ---- columns --------------------------------------------------------------------------------- */

static weft_status add_codec(selfcheck *x, const char *name, weft_error *err)
{
    checks *c = &x->checks;
    for (uint32_t i = 0; i < c->n_codecs; i++) {
        if (strcmp(c->codecs[i], name) == 0)
            return err_set(err, WEFT_ARGUMENT, "--codecs has '%s' twice", name);
    }
    if (c->n_codecs == CHECKS_CODECS_MOST)
        return err_set(err, WEFT_ARGUMENT, "--codecs has more than %d names", CHECKS_CODECS_MOST);
    c->codecs[c->n_codecs++] = name;
    return WEFT_OK;
}

static weft_status choose_codecs(selfcheck *x, weft_error *err)
{
    static const char *const USUAL[] = {"affine8g64", "affine4g64", "turbo-k8v4"};
    const selfcheck_values *v = x->v;
    if (v->codecs != NULL && v->session.kv != NULL)
        return err_set(err, WEFT_ARGUMENT, "only one of --codecs and --kv can be there");
    if (v->session.kv != NULL) return add_codec(x, v->session.kv, err);
    if (v->codecs == NULL) {
        weft_status status = add_codec(x, session_kv(&v->session), err);
        for (size_t i = 0; i < COUNT_OF(USUAL) && status == WEFT_OK; i++)
            status = add_codec(x, USUAL[i], err);
        return status;
    }
    size_t n = strlen(v->codecs);
    if (n >= LIST_BYTES)
        return err_set(err, WEFT_ARGUMENT, "--codecs has %zu bytes, at most %d", n, LIST_BYTES - 1);
    memcpy(x->list, v->codecs, n + 1);
    char *name = x->list;
    for (;;) {
        char *end = name + strcspn(name, ",");
        bool last = *end == '\0';
        *end = '\0';
        weft_status status = add_codec(x, name, err);
        if (status != WEFT_OK || last) return status;
        name = end + 1;
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static const char *const RESULTS[] = {
    [CHECK_NOT_RUN] = "not run", [CHECK_EQUAL] = "equal",     [CHECK_DIFFERS] = "differs",
    [CHECK_EMPTY] = "empty",     [CHECK_SKIPPED] = "skipped", [CHECK_REFUSED] = "refused",
};

/* What is counted where something differs. */
static const char *counted(uint32_t row)
{
    return row == CHECK_TRACE ? "request" : "prompt";
}

static void print_cell(const checks *c, uint32_t row, uint32_t column, char text[CELL_BYTES])
{
    const check_cell *cell = &c->cells[row][column];
    switch (cell->result) {
    case CHECK_DIFFERS:
        snprintf(text, CELL_BYTES, "differs (%s %u, token %u)", counted(row), cell->prompt,
                 cell->token);
        break;
    case CHECK_EQUAL:
        snprintf(text, CELL_BYTES, "equal%s%s", cell->without[0] != '\0' ? ", without " : "",
                 cell->without);
        break;
    case CHECK_SKIPPED:
        snprintf(text, CELL_BYTES, "skipped: %s", cell->reason);
        break;
    case CHECK_EMPTY:
        snprintf(text, CELL_BYTES, "%s", cell->reason);
        break;
    default:
        snprintf(text, CELL_BYTES, "%s", RESULTS[cell->result]);
    }
}

static int column_width(const checks *c, uint32_t column)
{
    size_t most = strlen(c->codecs[column]);
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        char text[CELL_BYTES];
        print_cell(c, row, column, text);
        if (strlen(text) > most) most = strlen(text);
    }
    return (int)most;
}

static void print_head(const selfcheck *x, const char *model)
{
    const checks *c = &x->checks;
    text_write(stdout, model, strlen(model));
    printf("\n%s%s%s, %s activations, %u thread%s; prompts of", c->backend,
           c->isa[0] != '\0' ? " " : "", c->isa, x->v->session.act, c->n_threads,
           c->n_threads == 1 ? "" : "s");
    for (uint32_t i = 0; i < c->n_prompts; i++) printf("%s %u", i > 0 ? "," : "", c->prompts[i]);
    printf(" tokens; trace of seed %llu\n\n", (unsigned long long)c->seed);
}

static void print_table(const selfcheck *x, const char *model)
{
    const checks *c = &x->checks;
    print_head(x, model);
    printf("%-14s", "");
    for (uint32_t i = 0; i < c->n_codecs; i++)
        printf("  %-*s", i + 1 < c->n_codecs ? column_width(c, i) : 0, c->codecs[i]);
    putchar('\n');
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        printf("%-14s", check_label((check_row)row));
        for (uint32_t i = 0; i < c->n_codecs; i++) {
            char text[CELL_BYTES];
            print_cell(c, row, i, text);
            printf("  %-*s", i + 1 < c->n_codecs ? column_width(c, i) : 0, text);
        }
        putchar('\n');
    }
    putchar('\n');
    for (uint32_t i = 0; i < c->n_codecs; i++) {
        if (c->refusals[i][0] != '\0') printf("%s refused: %s\n", c->codecs[i], c->refusals[i]);
    }
    printf("%u answers compared with those alone, bit for bit, in %.1f s: ", c->n_compared,
           x->seconds);
    if (c->n_wrong == 0) {
        puts("all equal");
    } else {
        printf("%u check%s failed\n", c->n_wrong, c->n_wrong == 1 ? "" : "s");
    }
}

static void add_cell(const checks *c, uint32_t row, uint32_t column, strbuf *out)
{
    const check_cell *cell = &c->cells[row][column];
    strbuf_printf(out, "%s{\"result\":\"%s\"", column > 0 ? "," : "", RESULTS[cell->result]);
    if (cell->result == CHECK_DIFFERS)
        strbuf_printf(out, ",\"%s\":%u,\"token\":%u", counted(row), cell->prompt, cell->token);
    if (cell->result == CHECK_SKIPPED || cell->result == CHECK_EMPTY)
        strbuf_printf(out, ",\"reason\":\"%s\"", cell->reason);
    if (cell->without[0] != '\0') strbuf_printf(out, ",\"without\":\"%s\"", cell->without);
    strbuf_printf(out, ",\"compared\":%u,\"reused\":%llu,\"drafted\":%llu,\"accepted\":%llu",
                  cell->n_compared, (unsigned long long)cell->n_reused,
                  (unsigned long long)cell->n_drafted, (unsigned long long)cell->n_accepted);
    strbuf_printf(out, ",\"paused\":%llu,\"cancelled\":%llu,\"fetched\":%llu}",
                  (unsigned long long)cell->n_paused, (unsigned long long)cell->n_cancelled,
                  (unsigned long long)cell->n_fetched);
}

static void add_codecs(const checks *c, strbuf *out)
{
    for (uint32_t i = 0; i < c->n_codecs; i++) {
        strbuf_add_text(out, i > 0 ? ",{\"kv\":" : "{\"kv\":");
        json_write_text(str_of(c->codecs[i]), out);
        strbuf_add_text(out, ",\"refused\":");
        if (c->refusals[i][0] != '\0') {
            json_write_text(str_of(c->refusals[i]), out);
        } else {
            strbuf_add_text(out, "null");
        }
        strbuf_add_char(out, '}');
    }
}

static weft_status print_json(const selfcheck *x, const char *model, weft_error *err)
{
    const checks *c = &x->checks;
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"model\":");
    json_write_text(str_of(model), &out);
    strbuf_printf(&out, ",\"backend\":\"%s\",\"isa\":\"%s\",\"act\":\"%s\",\"threads\":%u",
                  c->backend, c->isa, x->v->session.act, c->n_threads);
    strbuf_add_text(&out, ",\"prompts\":[");
    for (uint32_t i = 0; i < c->n_prompts; i++)
        strbuf_printf(&out, "%s%u", i > 0 ? "," : "", c->prompts[i]);
    strbuf_printf(&out, "],\"seed\":%llu,\"codecs\":[", (unsigned long long)c->seed);
    add_codecs(c, &out);
    strbuf_add_text(&out, "],\"checks\":[");
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        strbuf_printf(&out, "%s{\"check\":\"%s\",\"cells\":[", row > 0 ? "," : "",
                      check_label((check_row)row));
        for (uint32_t i = 0; i < c->n_codecs; i++) add_cell(c, row, i, &out);
        strbuf_add_text(&out, "]}");
    }
    weft_status status = strbuf_printf(&out, "],\"compared\":%u,\"failed\":%u,\"seconds\":%.3f}\n",
                                       c->n_compared, c->n_wrong, x->seconds);
    if (status == WEFT_OK) {
        fwrite(out.ptr, 1, out.len, stdout);
    } else {
        err_set(err, status, "out of memory for the report");
    }
    strbuf_deinit(&out);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void show(void *user, const char *codec, const char *label)
{
    progress_show(user, "checking %s: %s", codec, label);
}

enum { PLACE_BYTES = 512 };

/* A folder for the rows that save and restore, with a file and a folder in it. */
typedef struct place {
    char path[PLACE_BYTES], file[PLACE_BYTES + 8], kept[PLACE_BYTES + 8];
} place;

/* false: none can be made. */
static bool make_place(place *p)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || *folder == '\0') folder = "/tmp";
    int n = snprintf(p->path, PLACE_BYTES, "%s/weft-selfcheck-XXXXXX", folder);
    if (n < 0 || n >= PLACE_BYTES || mkdtemp(p->path) == NULL) return false;
    snprintf(p->file, sizeof p->file, "%s/state", p->path);
    snprintf(p->kept, sizeof p->kept, "%s/kept", p->path);
    if (mkdir(p->kept, 0700) == 0) return true;
    rmdir(p->path);
    return false;
}

static void remove_place(const place *p)
{
    const io *files = io_system();
    char *names = NULL;
    size_t n_bytes = 0;
    char path[IO_PATH_BYTES];
    if (files->list(files, p->kept, mem_system(), &names, &n_bytes, NULL) == WEFT_OK) {
        for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
            int n = snprintf(path, sizeof path, "%s/%s", p->kept, name);
            if (n > 0 && n < IO_PATH_BYTES) files->remove(files, path);
        }
        mem_free(mem_system(), names, n_bytes);
    }
    files->remove_folder(files, p->kept);
    files->remove(files, p->file);
    files->remove_folder(files, p->path);
}

static weft_status check_all(selfcheck *x, weft_error *err)
{
    const session_values *v = &x->v->session;
    uint64_t start = clock_now_ns();
    x->checks.model = x->s.model;
    x->checks.context = v->context;
    x->checks.quick = x->v->quick;
    x->checks.progress = show;
    x->checks.user = &x->progress;
    x->checks.options = session_engine_options(v);
    x->checks.seed = x->v->seed.value;
    place p;
    bool has_place = make_place(&p);
    x->checks.file = has_place ? p.file : NULL;
    x->checks.folder = has_place ? p.kept : NULL;
    weft_status status = checks_run(&x->checks, err);
    if (has_place) remove_place(&p);
    progress_clear(&x->progress);
    x->seconds = (double)(clock_now_ns() - start) / 1e9;
    if (status == WEFT_OK && x->checks.n_compared == 0)
        return err_set(err, WEFT_UNSUPPORTED, "nothing was compared: %s", x->checks.refusals[0]);
    return status;
}

static int run(const void *values, const char *path)
{
    weft_error err = {WEFT_OK, ""};
    selfcheck *x = mem_alloc_zero(mem_system(), sizeof *x);
    if (x == NULL) {
        report_note("out of memory for the results");
        return EXIT_FAILED;
    }
    x->v = values;
    weft_status status = choose_codecs(x, &err);
    if (status == WEFT_OK) status = session_open_model(&x->s, &x->v->session, path, &err);
    if (status == WEFT_OK) status = check_all(x, &err);
    if (status == WEFT_OK && x->v->json) {
        status = print_json(x, path, &err);
    } else if (status == WEFT_OK) {
        print_table(x, path);
    }
    int result = x->checks.n_wrong == 0 ? EXIT_FINE : EXIT_FAILED;
    session_close(&x->s);
    mem_free(mem_system(), x, sizeof *x);
    return status == WEFT_OK ? result : report_failure(&err, true);
}

const command COMMAND_selfcheck = {
    .name = "selfcheck",
    .operand = "MODEL",
    .summary = "whether this machine gives the same bits in any company, as a table",
    .details =
        "Each prompt is answered alone first: read in one piece, nothing known of it, nothing\n"
        "guessed, with all threads. Then it is answered again as each row says, and tokens,\n"
        "log-probabilities and logits are compared bit for bit. differs names the prompt and the\n"
        "token of its answer, both counted from 1; refused is a codec that the model's layers do\n"
        "not take. A row that did not do what it is about, as where nothing was reused, says so\n"
        "and counts as failed. Prompts are ids from a fixed seed.\n"
        "\n"
        "The row trace has 24 requests (--quick: 14) of its own, drawn from --seed: they come at\n"
        "different times, begin alike or repeat others, are cancelled, sample with seeds of their\n"
        "own, have a JSON schema or an expression for a form, drafts or none, other codecs and\n"
        "priorities, in memory for one or two of the longest, with a folder for what has to give\n"
        "way. Then each is answered alone in another engine; of one that was cancelled, the "
        "tokens\n"
        "that came are compared. Some must have been cancelled, paused, reused and evicted. What\n"
        "could not be part of it stands behind equal: forms, where the model has no tokenizer;\n"
        "drafts, where nothing was guessed; a folder, where none can be made.\n"
        "\n"
        "The exit status is 0 only if nothing failed.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_CONTEXT | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
