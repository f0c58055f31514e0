/* tools.h - the tools of a conversation, as far as an answer is read by them: names, and which JSON
 * types a parameter may have. */
#ifndef CHAT_TOOLS_H
#define CHAT_TOOLS_H

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

enum {
    TOOL_NULL = 1,
    TOOL_BOOL = 2,
    TOOL_INT = 4,
    TOOL_NUMBER = 8, /* whole ones, too */
    TOOL_TEXT = 16,
    TOOL_ARRAY = 32,
    TOOL_OBJECT = 64,
    TOOL_ANY = 127
};

typedef struct tool_parameter {
    str name;
    uint32_t types;
} tool_parameter;

typedef struct tool {
    str name;
    bool strict;
    tool_parameter *parameters; /* [n_parameters] */
    size_t n_parameters;
} tool;

typedef struct tool_list {
    arena memory;
    tool *items; /* [n] */
    size_t n;
} tool_list;

/* From OpenAI's array; NULL or null: none. ARGUMENT and LIMIT name the tool by its place. On
 * failure there is nothing to deinit. */
weft_status tool_list_init(tool_list *tools, const weft_allocator *allocator, const json *array,
                           weft_error *err);
void tool_list_deinit(tool_list *tools);

/* NULL: none of that name. */
const tool *tool_list_find(const tool_list *tools, str name);

/* Which types a schema allows; parameters: the whole that it is part of, for references. */
uint32_t tool_types_of(const json *schema, const json *parameters);

/* TOOL_TEXT alone for a parameter that nothing is said of: what is written is what is meant. */
uint32_t tool_types(const tool *t, str parameter);

/* Whether a tool can be called so: not empty, of at most WEFT_CHAT_NAME_BYTES, without white space,
 * control characters, quotes, brackets. */
bool tool_name_ok(str name);

/* Appends as JSON what a model wrote as bare text for a value of such types; what is of none of
 * them is a string. */
weft_status tool_write_value(str text, uint32_t types, strbuf *out);

#endif
