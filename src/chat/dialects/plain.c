/* plain.c - what is left: no calls, and reasoning between think tags where the model has these. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_PLAIN = {
    .name = "plain",
};
