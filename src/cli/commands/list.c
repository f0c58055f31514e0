/* list.c - weft list: the models in the cache. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/bytes.h"
#include "cli/commands/command.h"
#include "cli/place.h"

typedef struct list_values {
    bool json;
} list_values;

static const option_row OPTIONS[] = {
    {"json", OPTION_FLAG, offsetof(list_values, json), NULL, "one JSON array instead of lines", 0,
     0, NULL},
};

static const list_values DEFAULTS = {.json = false};

typedef struct listing {
    bool json;
    uint32_t n;
    strbuf out; /* of JSON */
} listing;

enum { TIME_TEXT = 32 };

/* "2025-06-01T12:00:00Z"; "" where it is not known. */
static void print_time(int64_t seconds, char text[TIME_TEXT])
{
    struct tm parts;
    time_t when = (time_t)seconds;
    text[0] = '\0';
    if (seconds <= 0 || gmtime_r(&when, &parts) == NULL) return;
    if (strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) text[0] = '\0';
}

static void add_text(strbuf *out, const char *name, const char *text)
{
    strbuf_printf(out, ",\"%s\":", name);
    json_write_text(str_of(text), out);
}

static void add_json(listing *l, const hub_cached *e, const char *repo)
{
    char used[TIME_TEXT];
    print_time(e->used_s, used);
    strbuf_add_text(&l->out, l->n > 0 ? ",\n{\"repo\":" : "{\"repo\":");
    json_write_text(str_of(repo), &l->out);
    add_text(&l->out, "revision", e->commit);
    add_text(&l->out, "refs", e->refs);
    strbuf_printf(&l->out, ",\"bytes\":%llu,\"files\":%zu", (unsigned long long)e->n_bytes,
                  e->n_files);
    add_text(&l->out, "kind", e->kind);
    add_text(&l->out, "used", used);
    add_text(&l->out, "path", e->path);
    strbuf_add_char(&l->out, '}');
}

static void print_line(const listing *l, const hub_cached *e, const char *repo)
{
    char used[TIME_TEXT];
    char size[BYTES_TEXT];
    print_time(e->used_s, used);
    bytes_print_short(e->n_bytes, size);
    if (l->n == 0)
        printf("%-40s %-12s %12s %-11s %-10s path\n", "model", "revision", "size", "kind", "used");
    printf("%-40s %-12.12s %12s %-11s %-10.10s ", repo, e->commit, size, e->kind, used);
    text_write(stdout, e->path, strlen(e->path));
    putchar('\n');
}

static bool visit(void *user, const hub_cached *e)
{
    listing *l = user;
    char repo[HUB_REPO_BYTES];
    hub_id_repo(&e->id, repo);
    if (l->json) {
        add_json(l, e, repo);
    } else {
        print_line(l, e, repo);
    }
    l->n++;
    return l->out.status == WEFT_OK;
}

static int run(const void *values, const char *operand)
{
    const list_values *v = values;
    place here;
    weft_error err = {WEFT_OK, ""};
    listing l = {.json = v->json};
    (void)operand;
    if (place_read(&here, &err) != WEFT_OK) return report_failure(&err, false);
    hub_cache cache = place_cache(&here);
    strbuf_init(&l.out, mem_system(), 0);
    if (l.json) strbuf_add_char(&l.out, '[');
    weft_status status = hub_cache_list(&cache, visit, &l, &err);
    if (l.json) strbuf_add_text(&l.out, "]\n");
    if (status == WEFT_OK && l.out.status != WEFT_OK)
        status = err_set(&err, l.out.status, "out of memory for the list");
    if (status == WEFT_OK && l.json) fwrite(l.out.ptr, 1, l.out.len, stdout);
    strbuf_deinit(&l.out);
    if (status == WEFT_OK && l.n == 0 && !l.json)
        report_note("there are no models in %s; weft pull fetches one", here.root);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, false);
}

const command COMMAND_list = {
    .name = "list",
    .summary = "the models of the hub's cache: revision, size, kind, when used, path",
    .details =
        "One line for each revision that is there. A file that several of them share counts in "
        "each.\nThe kind is safetensors, gguf, other, or incomplete for what a stopped pull "
        "left.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
