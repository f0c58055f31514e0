/* qwen_xml.c - Qwen 3 Coder and Qwen 3.5: function and parameter tags, values as bare text. The
 * outer tag is often forgotten. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_QWEN_XML = {
    .name = "qwen_xml",
    .signs = {{"<function=", "<parameter="}},
    .calls = {"<function="},
    .before = {"<tool_call>"},
    .after = {"</parameter>", "</function>", "</tool_call>"},
    .form = &CALL_FORM_XML,
    .xml = {.name_close = ">",
            .key_open = "<parameter=",
            .key_close = ">",
            .value_close = "</parameter>",
            .ends = {"</function>", "</tool_call>"},
            .lines = true},
    .think_calls = true,
    .writing = {.begin = "<tool_call>\n<function=",
                .arguments = ">\n",
                .end = "</function>\n</tool_call>",
                .separator = "\n"},
};
