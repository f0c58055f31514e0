/* glm.c - GLM 4.5 and later: a name, and pairs of tags for keys and values. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_GLM = {
    .name = "glm",
    .signs = {{"<arg_key>", "<arg_value>"}},
    .calls = {"<tool_call>"},
    .after = {"</tool_call>"},
    .stops = {"<|observation|>", "<|user|>"},
    .form = &CALL_FORM_XML,
    .xml = {.key_open = "<arg_key>",
            .key_close = "</arg_key>",
            .value_open = "<arg_value>",
            .value_close = "</arg_value>",
            .ends = {"</tool_call>"}},
    .writing = {.begin = "<tool_call>",
                .arguments = "\n",
                .end = "</tool_call>",
                .separator = "\n"},
};
