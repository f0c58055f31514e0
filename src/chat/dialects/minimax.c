/* minimax.c - MiniMax M2: invoke and parameter, with the names as attributes. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_MINIMAX = {
    .name = "minimax",
    .signs = {{"<minimax:tool_call>", "<invoke name="}},
    .calls = {"<invoke name=\""},
    .before = {"<minimax:tool_call>"},
    .after = {"</invoke>", "</minimax:tool_call>"},
    .form = &CALL_FORM_XML,
    .xml = {.name_close = "\">",
            .key_open = "<parameter name=\"",
            .key_close = "\">",
            .value_close = "</parameter>",
            .ends = {"</invoke>", "</minimax:tool_call>"},
            .lines = true},
    .writing = {.open = "<minimax:tool_call>\n",
                .begin = "<invoke name=\"",
                .arguments = "\">\n",
                .end = "</invoke>",
                .separator = "\n",
                .close = "\n</minimax:tool_call>"},
};
