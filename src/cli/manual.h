/* manual.h - help on the terminal and docs/cli.md, both from the tables of the commands. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/commands/command.h"

/* Each returns an exit status. */
int manual_print(void);
int manual_print_command(const command *c);
int manual_print_markdown(void); /* the whole of docs/cli.md */

#endif
