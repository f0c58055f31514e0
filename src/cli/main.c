/* main.c - weft COMMAND ...: finds the command, parses its options by its tables, runs it. */
#include <stdalign.h>
#include <string.h>

#include "base/assert.h"
#include "cli/commands/command.h"
#include "cli/manual.h"

static uint32_t take_sets(const command *c, option_set sets[OPTION_SETS])
{
    uint32_t n = 0;
    sets[n++] = (option_set){c->options, c->n_options};
    if (c->more_options != NULL) sets[n++] = (option_set){c->more_options, *c->n_more_options};
    for (uint32_t set = SESSION_ENGINE; set <= SESSION_LAST; set <<= 1) {
        if ((c->session_sets & set) != 0) sets[n++] = session_options(set);
    }
    return n;
}

/* The word after the command's name, where it has verbs: *given is NULL when none is there. */
static weft_status take_verb(const command *c, int argc, char **argv, const char **given,
                             weft_error *err)
{
    *given = NULL;
    if (c->verbs == NULL || argc < 2 || argv[1][0] == '-') return WEFT_OK;
    *given = argv[1];
    if (choice_has(c->verbs, argv[1])) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "'%s' after %s, expected %s", argv[1], c->name, c->verbs);
}

static weft_status parse(const command *c, option_parse *p, int argc, char **argv, weft_error *err)
{
    const char *verb;
    weft_status status = take_verb(c, argc, argv, &verb, err);
    if (status != WEFT_OK) return status;
    int n_taken = verb != NULL ? 1 : 0;
    status = options_parse(p, argc - n_taken, argv + n_taken, err);
    if (status != WEFT_OK || p->help || c->verbs == NULL) return status;
    if (verb == NULL) return err_set(err, WEFT_ARGUMENT, "which %s, %s?", c->name, c->verbs);
    memcpy((char *)p->values + c->verb_at, &verb, sizeof verb);
    return WEFT_OK;
}

static int run_command(const command *c, int argc, char **argv)
{
    alignas(max_align_t) unsigned char values[COMMAND_VALUES];
    ASSERT(c->values_size <= sizeof values);
    memcpy(values, c->defaults, c->values_size);
    option_parse p = {.values = values,
                      .operand = c->operand,
                      .second = c->second,
                      .takes_rest = c->rest != NULL};
    p.n_sets = take_sets(c, p.sets);
    weft_error err = {WEFT_OK, ""};
    if (parse(c, &p, argc, argv, &err) != WEFT_OK) {
        report_note("%s; see weft %s --help", err.message, c->name);
        return EXIT_USAGE;
    }
    if (p.help) return manual_print_command(c);
    if (c->second != NULL) memcpy(values + c->second_at, &p.given_second, sizeof p.given_second);
    if (c->rest != NULL) memcpy(values + c->rest_at, &p.rest, sizeof p.rest);
    int status = c->run(values, p.given);
    return output_finish() ? status : EXIT_FAILED;
}

static const command *find_command(const char *name)
{
    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(COMMANDS[i]->name, name) == 0) return COMMANDS[i];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    terminal_init();
    if (argc < 2) {
        report_note("which command? See weft --help");
        return EXIT_USAGE;
    }
    const command *c = find_command(argv[1]);
    if (c != NULL) return run_command(c, argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        printf("weft %s\n", weft_version());
        return output_finish() ? EXIT_FINE : EXIT_FAILED;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return manual_print();
    }
    if (strcmp(argv[1], "--help-markdown") == 0) return manual_print_markdown();
    report_note("there is no command '%s'; see weft --help", argv[1]);
    return EXIT_USAGE;
}
