/* gemma4.c - Gemma 4: thoughts in a channel, calls with bare keys and strings between tokens. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_GEMMA4 = {
    .name = "gemma4",
    .signs = {{"<|tool_call>call:"}, {"<|tool_call>", "<|turn>"}},
    .think_open = "<|channel>thought",
    .think_close = "<channel|>",
    .calls = {"<|tool_call>call:"},
    .after = {"<tool_call|>"},
    .shown = {"<|tool_call>", "<|channel>"},
    .stops = {"<|tool_response>"},
    .form = &CALL_FORM_TYPED,
    .typed = {.quote = "<|\"|>"},
    .writing = {.begin = "<|tool_call>call:", .end = "<tool_call|>"},
};
