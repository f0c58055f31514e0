/* commands.c - the rows of commands.def as a table. */
#include "base/assert.h"
#include "cli/commands/command.h"

#define COMMAND(name) extern const command COMMAND_##name;
#include "cli/commands/commands.def"
#undef COMMAND

const command *const COMMANDS[] = {
#define COMMAND(name) &COMMAND_##name,
#include "cli/commands/commands.def"
#undef COMMAND
};

const uint32_t N_COMMANDS = COUNT_OF(COMMANDS);
