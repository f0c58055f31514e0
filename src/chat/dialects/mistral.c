/* mistral.c - Mistral: [TOOL_CALLS] with an array of objects, or (from version 11 of its tokenizer)
 * before each name. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_MISTRAL = {
    .name = "mistral",
    .signs = {{"[TOOL_CALLS]"}, {"[THINK]", "[/THINK]"}},
    .think_open = "[THINK]",
    .think_close = "[/THINK]",
    .calls = {"[TOOL_CALLS]"},
    .form = &CALL_FORM_NAMED,
    .named = {.separator = "[ARGS]", .id = "[CALL_ID]", .or_json = true},
    .writing = {.begin = "[TOOL_CALLS]", .arguments = "[ARGS]"},
    .older = {.open = "[TOOL_CALLS] [",
              .begin = "{\"name\": \"",
              .arguments = "\", \"arguments\": ",
              .end = "}",
              .separator = ", ",
              .close = "]"},
    .newer_sign = "[ARGS]",
};
