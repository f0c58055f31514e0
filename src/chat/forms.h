/* forms.h - what an answer must be, in a dialect's own way of writing: a description of parts
 * (docs/grammar.md) of reasoning, calls and content. */
#ifndef CHAT_FORMS_H
#define CHAT_FORMS_H

#include "chat/parser.h"

typedef enum form_calls {
    FORM_CALLS_NONE,
    FORM_CALLS_ALLOWED, /* calls, or content; free text before calls where there is no form */
    FORM_CALLS_REQUIRED /* calls, and nothing else but reasoning */
} form_calls;

typedef struct chat_form {
    const chat_reading *reading;
    bool older;           /* as dialect_choice */
    bool thoughts_closed; /* there is no reasoning any more */
    form_calls calls;
    str only; /* this tool; empty: any */
    bool has_content;
    weft_grammar_kind content_kind;
    str content;
} chat_form;

/* tools: OpenAI's array, of which reading has the list. UNSUPPORTED names what of a tool's
 * parameters the dialect has no way to write. */
weft_status chat_form_write(const chat_form *form, const json *tools, strbuf *out, weft_error *err);

/* Arguments, by the form of calls (form_arguments.c). With xml and typed forms a value is written
 * bare, by its schema. */
weft_status chat_form_write_json(const json *parameters, strbuf *out, weft_error *err);
weft_status chat_form_write_xml(const dialect *d, const json *parameters, strbuf *out,
                                weft_error *err);
weft_status chat_form_write_typed(const dialect *d, const json *parameters, strbuf *out,
                                  weft_error *err);

/* Pieces of a description. A failure of memory stays in out. */
void chat_form_text(const char *text, strbuf *out);
void chat_form_until(str marker, int64_t max_chars, strbuf *out);

#endif
