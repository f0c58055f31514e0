/* seed.c - Seed-OSS: as Qwen 3 Coder, with tags of its own around calls and reasoning. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_SEED = {
    .name = "seed",
    .signs = {{"<seed:tool_call>"}, {"<seed:think>"}},
    .think_open = "<seed:think>",
    .think_close = "</seed:think>",
    .calls = {"<function="},
    .before = {"<seed:tool_call>"},
    .after = {"</parameter>", "</function>", "</seed:tool_call>"},
    .form = &CALL_FORM_XML,
    .xml = {.name_close = ">",
            .key_open = "<parameter=",
            .key_close = ">",
            .value_close = "</parameter>",
            .ends = {"</function>", "</seed:tool_call>"},
            .lines = true},
    .writing = {.begin = "<seed:tool_call>\n<function=",
                .arguments = ">\n",
                .end = "</function>\n</seed:tool_call>",
                .separator = "\n"},
};
