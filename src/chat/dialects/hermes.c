/* hermes.c - Hermes, Qwen 2.5 and 3, and many more: an object of name and arguments in tags. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_HERMES = {
    .name = "hermes",
    .signs = {{"<tool_call>"}},
    .calls = {"<tool_call>"},
    .after = {"</tool_call>"},
    .form = &CALL_FORM_JSON,
    .think_calls = true,
    .writing = {.begin = "<tool_call>\n{\"name\": \"",
                .arguments = "\", \"arguments\": ",
                .end = "}\n</tool_call>",
                .separator = "\n"},
};
