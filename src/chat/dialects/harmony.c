/* harmony.c - gpt-oss: messages with a header, which names a channel and who it is for. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_HARMONY = {
    .name = "harmony",
    .signs = {{"<|channel|>", "<|message|>", "<|start|>"}},
    .shown = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"},
    .stops = {"<|return|>", "<|call|>"},
    .form = &CALL_FORM_JSON,
    .channels = true,
    .writing = {.begin = "<|channel|>commentary to=functions.",
                .arguments = " <|constrain|>json<|message|>",
                .end = "<|call|>",
                .one = true},
};
