/* messages.h - conversations as OpenAI's interfaces have them, checked and made what templates
 * expect. */
#ifndef SERVER_MESSAGES_H
#define SERVER_MESSAGES_H

#include "base/map.h"
#include "server/generation.h"

enum { MESSAGES_MOST = 16384 };

/* Appends the array to g->messages; images go to g->images. */
weft_status messages_read(generation *g, const json *messages, char *param, weft_error *err);

/* Calls that have a result. Two for one would leave it open which one counts. Zeroed: none. */
typedef struct messages_results {
    map ids;
    bool has_ids;
} messages_results;

/* *again: this call has one already. id is borrowed. */
weft_status messages_note_result(messages_results *r, str id, bool *again, weft_error *err);
void messages_forget_results(messages_results *r);

/* Content of a message: text, or an array of parts; appended as JSON. name: of the field. */
weft_status messages_write_content(generation *g, const json *content, const char *name,
                                   char *param, weft_error *err);

/* [{"type": "function", "function": {...}}] to g->tools, checked. */
weft_status messages_read_tools(generation *g, const json *tools, char *param, weft_error *err);

/* "auto", "none", "required" or a tool by its name, which stands in the member "function" or beside
 * the type. Behind the tools. */
weft_status messages_read_choice(generation *g, const json *choice, bool in_function, char *param,
                                 weft_error *err);

/* A tool of an interface that has them in another form; parameters may be NULL. */
typedef struct messages_tool {
    str name, description;
    const json *parameters;
    bool strict;
} messages_tool;

/* To g->tools. LIMIT when they are too long. */
weft_status messages_add_tool(generation *g, const messages_tool *tool, weft_error *err);

/* An array of them, or nothing; read adds one that stands at i. */
typedef weft_status (*messages_tool_reader)(generation *g, const json *from, size_t i, char *param,
                                            weft_error *err);
weft_status messages_read_each_tool(generation *g, const json *tools, messages_tool_reader read,
                                    char *param, weft_error *err);

/* {"type": "json_schema", ...}, "text" or "json_object": what the content must be. name: of the
 * field. */
weft_status messages_read_format(generation *g, const json *from, const char *name, char *param,
                                 weft_error *err);

/* What a request says to the template, each by the name that templates know it by. */
typedef struct messages_variables {
    str effort;                    /* of reasoning; "none" turns it off; NULL: not said */
    bool thinks, is_thinking_said; /* whether there is reasoning at all */
    const json *more;              /* chat_template_kwargs, which come first */
} messages_variables;

weft_status messages_write_variables(generation *g, const messages_variables *v, char *param,
                                     weft_error *err);

/* The ids of an assistant's message, when the answer is remembered, as a member behind others:
 * ,"answer_ids":[...]. calls: as in the message, or NULL. */
void messages_add_ids(generation *g, str content, const json *calls);

#endif
