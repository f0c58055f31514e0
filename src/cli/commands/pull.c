/* pull.c - weft pull: a model from a hub into the cache. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/bytes.h"
#include "cli/commands/command.h"
#include "cli/place.h"

typedef struct pull_values {
    option_texts files;
    bool verify, dry;
} pull_values;

#define AT(field) offsetof(pull_values, field)

static const option_row OPTIONS[] = {
    {"file", OPTION_TEXTS, AT(files), "NAME",
     "these files and no others: a name or a pattern with * and ?; may be repeated", 0, 0, NULL},
    {"verify", OPTION_FLAG, AT(verify), NULL,
     "hashes what is there already, too, and fetches again what is not what the hub says", 0, 0,
     NULL},
    {"dry-run", OPTION_FLAG, AT(dry), NULL, "prints what would be there afterwards", 0, 0, NULL},
};

static const pull_values DEFAULTS = {.verify = false};

enum { BAR_COLUMNS = 20 };
#define SHOW_NS ((uint64_t)100 * 1000000)

/* What a person sees of a pull. */
typedef struct view {
    progress p;
    bool dry, stopped, waited;
    uint64_t shown_ns, start_ns;
} view;

static void show_bytes(view *v, const hub_event *e, uint64_t now)
{
    char bar[BAR_COLUMNS + 1];
    char done[BYTES_TEXT];
    char all[BYTES_TEXT];
    char speed[BYTES_TEXT];
    double part = e->all_bytes == 0 ? 1.0 : (double)e->n_bytes / (double)e->all_bytes;
    double seconds = (double)(now - v->start_ns) / 1e9;
    double rate = seconds > 0.5 ? (double)e->n_fetched / seconds : 0.0;
    for (size_t i = 0; i < BAR_COLUMNS; i++)
        bar[i] = (double)i < part * (double)BAR_COLUMNS ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    bytes_print_short(e->n_bytes, done);
    bytes_print_short(e->all_bytes, all);
    bytes_print_short((uint64_t)rate, speed);
    if (e->kind == HUB_EVENT_CHECK) {
        progress_show(&v->p, "%3.0f%% %s %.12s of %.12s, checking", part * 100.0, bar, done, all);
    } else if (rate < 1.0) {
        progress_show(&v->p, "%3.0f%% %s %.12s of %.12s", part * 100.0, bar, done, all);
    } else {
        double left = (double)(e->all_bytes - e->n_bytes) / rate;
        progress_show(&v->p, "%3.0f%% %s %.12s of %.12s, %.12s/s, %.0f:%02.0f left", part * 100.0,
                      bar, done, all, speed, (double)(uint64_t)(left / 60.0),
                      (double)((uint64_t)left % 60));
    }
}

/* One line a file where there is no terminal. */
static void show_file(view *v, const hub_event *e)
{
    char size[BYTES_TEXT];
    progress_clear(&v->p);
    if (terminal_is(stderr)) return;
    bytes_print_short(e->file_bytes, size);
    fprintf(stderr, "%u/%u %s, %s\n", e->file_i, e->n_files, e->file, size);
}

static void show_again(view *v, const hub_event *e)
{
    progress_clear(&v->p);
    if (e->wait_ms > 0) {
        report_note("%s; again in %.1f s", e->why, (double)e->wait_ms / 1000.0);
    } else {
        report_note("%.80s: %s", e->file, e->why);
    }
}

static bool tell(void *user, const hub_event *e)
{
    view *v = user;
    uint64_t now = clock_now_ns();
    if (interrupt_take()) v->stopped = true;
    switch (e->kind) {
    case HUB_EVENT_PLAN:
        v->start_ns = now;
        break;
    case HUB_EVENT_WAIT:
        if (!v->waited) report_note("another program is fetching this; waiting");
        v->waited = true;
        break;
    case HUB_EVENT_AGAIN:
        show_again(v, e);
        break;
    case HUB_EVENT_FILE:
        show_file(v, e);
        break;
    case HUB_EVENT_CHECK:
    case HUB_EVENT_BYTES:
        if (e->n_files == 0 || now - v->shown_ns < SHOW_NS) break;
        v->shown_ns = now;
        show_bytes(v, e, now);
        break;
    }
    return !v->stopped;
}

static void print_chosen(void *user, const hub_file *file)
{
    const view *v = user;
    if (v->dry) printf("%14llu %s\n", (unsigned long long)file->size, file->name);
}

static void print_result(const view *v, const hub_pulled *r)
{
    char all[BYTES_TEXT];
    char fetched[BYTES_TEXT];
    bytes_print_short(r->n_bytes, all);
    bytes_print_short(r->n_fetched, fetched);
    if (v->dry) {
        printf("%14llu in %u files, commit %s\n", (unsigned long long)r->n_bytes, r->n_files,
               r->commit);
        return;
    }
    fprintf(stderr, "%u files, %s; %u new, %s fetched in %.1f s\n", r->n_files, all, r->n_new,
            fetched, (double)(clock_now_ns() - v->start_ns) / 1e9);
    puts(r->path);
}

/* What is there answers for the hub. */
static int pull_offline(const place *here, const hub_id *id)
{
    char path[IO_PATH_BYTES];
    strbuf choices;
    weft_error err = {WEFT_OK, ""};
    hub_cache cache = place_cache(here);
    strbuf_init(&choices, mem_system(), 1 << 20);
    weft_status status = hub_cache_find(&cache, id, path, &choices, &err);
    if (status == WEFT_OK) puts(path);
    strbuf_deinit(&choices);
    if (status == WEFT_OK) return EXIT_FINE;
    err_context(&err, "HF_HUB_OFFLINE is set, and ");
    return report_failure(&err, false);
}

static int pull(const pull_values *v, const place *here, const hub_id *id)
{
    char agent[64];
    view shown = {.dry = v->dry, .start_ns = clock_now_ns()};
    strbuf choices;
    snprintf(agent, sizeof agent, "weft/%s", weft_version());
    hub_pull_options options = {
        .server = {here->endpoint, here->token[0] != '\0' ? here->token : NULL, agent},
        .wish = {id->quant, v->files.values, v->files.n},
        .verify = v->verify,
        .dry = v->dry,
        .user = &shown,
        .tell = tell,
        .chosen = print_chosen,
    };
    hub_cache cache = place_cache(here);
    hub_pulled result;
    weft_error err = {WEFT_OK, ""};
    strbuf_init(&choices, mem_system(), 1 << 24);
    interrupt_arm();
    weft_status status = hub_pull(&cache, id, &options, &result, &choices, &err);
    interrupt_disarm();
    progress_clear(&shown.p);
    if (status == WEFT_OK) {
        print_result(&shown, &result);
    } else {
        fputs(strbuf_text(&choices), stdout);
    }
    strbuf_deinit(&choices);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, false);
}

static int run(const void *values, const char *operand)
{
    const pull_values *v = values;
    place here;
    hub_id id;
    weft_error err = {WEFT_OK, ""};
    weft_status status = hub_id_parse(&id, str_of(operand), &err);
    if (status == WEFT_OK && id.quant[0] != '\0' && v->files.n > 0)
        status = err_set(&err, WEFT_ARGUMENT, "either :%s or --file, not both", id.quant);
    if (status != WEFT_OK) return report_failure(&err, true);
    if (place_read(&here, &err) != WEFT_OK) return report_failure(&err, false);
    if (here.offline && (v->files.n > 0 || v->verify || v->dry)) {
        err_set(&err, WEFT_ARGUMENT,
                "HF_HUB_OFFLINE is set, and --file, --verify and --dry-run ask the hub");
        return report_failure(&err, true);
    }
    return here.offline ? pull_offline(&here, &id) : pull(v, &here, &id);
}

const command COMMAND_pull = {
    .name = "pull",
    .operand = "REPO",
    .summary = "fetches a model from a hub, or what is missing of it, and prints its path",
    .details =
        "REPO is ORG/NAME, with @REV for a branch, tag or commit, and :QUANT for one of several "
        "GGUF\nfiles: ORG/NAME:Q4_K_M. Without :QUANT and --file these are fetched: "
        "model*.safetensors with\ntheir index, and the files of config, tokenizer and template; "
        "where there are none, the GGUF\nfile, if there is only one. A pull that was stopped goes "
        "on where it was. Every file is compared\nwith the hub's hash. Models lie where Hugging "
        "Face's tools keep them: HF_HUB_CACHE, HF_HOME,\nHF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH and "
        "HF_HUB_OFFLINE mean what they mean there. docs/hub.md\nsays more.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
