/* command.h - the contract of a command.
 *
 * A new one is a file NAME.c that defines `const command COMMAND_NAME`, and a row COMMAND(NAME) in
 * commands.def; main, the help and docs/cli.md know it from there. */
#ifndef CLI_COMMANDS_COMMAND_H
#define CLI_COMMANDS_COMMAND_H

#include "cli/session.h"
#include "cli/options.h"

/* The exit statuses of the program. */
enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum { COMMAND_VALUES = 1024 };

typedef struct command {
    const char *name;
    const char *verbs;   /* "ppl|kl": one of them stands before the options; NULL: none does */
    size_t verb_at;      /* offset in the values of a const char * for it */
    const char *operand; /* "MODEL", "PATH"; "[MODEL...]": it may be missing */
    const char *second;  /* another one, "DST"; NULL: there is none */
    size_t second_at;    /* offset in the values of a const char * for it */
    const char *rest;    /* "[TEXT...]": words that may stand behind it; NULL: none */
    size_t rest_at;      /* offset in the values of an option_words for them */
    const char *summary; /* one line */
    const char *details; /* paragraphs of help, each ending in a line feed; may be "" */
    const option_row *options;
    size_t n_options;
    const option_row *more_options; /* another table over the same values; NULL: none */
    const size_t *n_more_options;
    /* Which of session.h's tables apply; a values struct with any of them begins with
     * session_values. */
    uint32_t session_sets;
    const void *defaults; /* [values_size] */
    size_t values_size;   /* at most COMMAND_VALUES */
    /* Returns an exit status; failures have been reported. values: the defaults, then what the
     * command line said. */
    int (*run)(const void *values, const char *operand);
} command;

extern const command *const COMMANDS[];
extern const uint32_t N_COMMANDS;

#endif
