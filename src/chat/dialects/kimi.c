/* kimi.c - Kimi K2: functions.NAME:INDEX, a token, JSON; all within a section. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_KIMI = {
    .name = "kimi",
    .signs = {{"<|tool_calls_section_begin|>"}},
    .calls = {"<|tool_call_begin|>"},
    .before = {"<|tool_calls_section_begin|>"},
    .after = {"<|tool_call_end|>", "<|tool_calls_section_end|>"},
    .form = &CALL_FORM_NAMED,
    .named = {.separator = "<|tool_call_argument_begin|>",
              .prefix = "functions.",
              .numbered = true},
    .think_calls = true,
    .writing = {.open = "<|tool_calls_section_begin|>",
                .begin = "<|tool_call_begin|>functions.",
                .arguments = "<|tool_call_argument_begin|>",
                .end = "<|tool_call_end|>",
                .close = "<|tool_calls_section_end|>",
                .numbered = true},
};
