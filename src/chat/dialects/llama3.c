/* llama3.c - Llama 3.1 and later: the answer is an object of name and parameters, or several with
 * semicolons between. */
#include "chat/dialects/dialect.h"

const dialect DIALECT_LLAMA3 = {
    .name = "llama3",
    .signs = {{"<|python_tag|>"}, {"<|start_header_id|>", "\"parameters\":"}},
    .before = {"<|python_tag|>"},
    .after = {";"},
    .stops = {"<|eom_id|>"},
    .form = &CALL_FORM_JSON,
    .bare = true,
    .writing = {.begin = "{\"name\": \"",
                .arguments = "\", \"parameters\": ",
                .end = "}",
                .separator = "; "},
};
