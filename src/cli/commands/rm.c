/* rm.c - weft rm: a model out of the cache. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cli/bytes.h"
#include "cli/commands/command.h"
#include "cli/place.h"

typedef struct rm_values {
    bool yes;
} rm_values;

static const option_row OPTIONS[] = {
    {"yes", OPTION_FLAG, offsetof(rm_values, yes), NULL, "does not ask", 0, 0, NULL},
};

static const rm_values DEFAULTS = {.yes = false};

static bool wait_for(void *user)
{
    bool *told = user;
    if (!*told) report_note("another program is fetching this; waiting");
    *told = true;
    return !interrupt_take();
}

static bool ask(const char *what, const char *size)
{
    char line[16];
    printf("remove %s, %s? [y/N] ", what, size);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

static weft_status remove_model(const place *here, const hub_id *id, bool dry, uint64_t *n_bytes,
                                weft_error *err)
{
    bool told = false;
    hub_cache cache = place_cache(here);
    interrupt_arm();
    weft_status status = hub_cache_remove(&cache, id, dry, n_bytes, wait_for, &told, err);
    interrupt_disarm();
    return status;
}

static int run(const void *values, const char *operand)
{
    const rm_values *v = values;
    char size[BYTES_TEXT];
    place here;
    hub_id id;
    uint64_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    weft_status status = hub_id_parse(&id, str_of(operand), &err);
    if (status == WEFT_OK && id.quant[0] != '\0')
        status = err_set(&err, WEFT_ARGUMENT, "rm removes a model or a revision, not ':%s' of one",
                         id.quant);
    if (status == WEFT_OK && !v->yes && !terminal_is(stdin))
        status = err_set(&err, WEFT_ARGUMENT, "nobody is there to ask: rm needs --yes here");
    if (status != WEFT_OK) return report_failure(&err, true);
    status = place_read(&here, &err);
    if (status == WEFT_OK) status = remove_model(&here, &id, true, &n_bytes, &err);
    if (status != WEFT_OK) return report_failure(&err, false);
    bytes_print_short(n_bytes, size);
    if (!v->yes && !ask(operand, size)) return EXIT_FAILED;
    status = remove_model(&here, &id, false, &n_bytes, &err);
    if (status != WEFT_OK) return report_failure(&err, false);
    printf("removed %s, %s\n", operand, size);
    return EXIT_FINE;
}

const command COMMAND_rm = {
    .name = "rm",
    .operand = "REPO",
    .summary = "removes a model from the hub's cache, or one revision of it",
    .details = "REPO is ORG/NAME, or ORG/NAME@REV: then files that another revision has, too, "
               "stay.\nAsks on a terminal, and wants --yes elsewhere.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
