/* deepseek.c - DeepSeek V3 and R1 (the word function, a separator, the name, a block of JSON) and
 * V3.1 (name, separator, JSON). */
#include "chat/dialects/dialect.h"

#define BAR "\xef\xbd\x9c"
#define GAP "\xe2\x96\x81"
#define MARK(words) "<" BAR words BAR ">"

const dialect DIALECT_DEEPSEEK = {
    .name = "deepseek",
    .signs = {{MARK("tool" GAP "calls" GAP "begin")}, {MARK("tool" GAP "call" GAP "begin")}},
    .calls = {MARK("tool" GAP "call" GAP "begin")},
    .before = {MARK("tool" GAP "calls" GAP "begin")},
    .after = {"```", MARK("tool" GAP "call" GAP "end"), MARK("tool" GAP "calls" GAP "end")},
    .form = &CALL_FORM_NAMED,
    .named = {.separator = MARK("tool" GAP "sep"), .typed = true},
    .writing = {.open = MARK("tool" GAP "calls" GAP "begin"),
                .begin = MARK("tool" GAP "call" GAP "begin"),
                .arguments = MARK("tool" GAP "sep"),
                .end = MARK("tool" GAP "call" GAP "end"),
                .close = MARK("tool" GAP "calls" GAP "end")},
    .older = {.open = MARK("tool" GAP "calls" GAP "begin"),
              .begin = MARK("tool" GAP "call" GAP "begin") "function" MARK("tool" GAP "sep"),
              .arguments = "\n```json\n",
              .end = "\n```" MARK("tool" GAP "call" GAP "end"),
              .separator = "\n",
              .close = MARK("tool" GAP "calls" GAP "end")},
    .older_sign = "```json",
};
