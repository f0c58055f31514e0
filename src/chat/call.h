/* call.h - reading one call of a tool behind the marker that begins it, byte by byte.
 *
 * A form is a way to write a call (call_json.c, call_named.c, call_xml.c, call_typed.c). What it
 * finds goes to the parts at once: the name when it is certain, arguments as they come. That bytes
 * are taken one by one is what makes parts the same however a text was divided. */
#ifndef CHAT_CALL_H
#define CHAT_CALL_H

#include "chat/json_scan.h"
#include "chat/parts.h"
#include "chat/tools.h"

typedef struct dialect dialect;

enum {
    CALL_WORD_BYTES = 512, /* of what is read as a whole: names, keys, markers in between */
    CALL_PARAMETERS = 256, /* of a call whose parameters are written one by one */
    CALL_NESTED = 64       /* depth of values that are not JSON as they are written */
};

typedef enum call_result {
    CALL_MORE,
    CALL_DONE, /* the byte was its last; the call, or all of them, are finished */
    CALL_BAD   /* it is none */
} call_result;

/* The state of all forms; which fields a form uses is its own. */
typedef struct call_reader {
    const dialect *dialect;
    const tool_list *tools;
    part_list *parts;
    bool known_only;  /* no call of a tool that is not there */
    uint32_t n_calls; /* that began in this answer; the next one's number */

    uint8_t phase;
    bool announced; /* the part CALL is out */
    bool named;     /* name is complete */
    bool completed; /* a call was completed by the last byte; who looks sets it back */
    bool has_arguments;
    bool listed; /* calls are in an array */
    bool delegated;
    bool escaped; /* within a string, behind a backslash */
    bool text_parameter;
    uint8_t n_nested;
    uint32_t n_parameters;
    uint32_t types;   /* of the parameter that is read */
    const tool *tool; /* NULL: not there */
    json_scan scan;
    uint8_t nested[CALL_NESTED];
    strbuf name, word, value, arguments;
    strbuf seen; /* names of parameters, each with a NUL behind it */
} call_reader;

typedef struct call_form {
    void (*begin)(call_reader *r);
    call_result (*push)(call_reader *r, char c);
    /* The answer has ended by itself: DONE when all arguments are there. */
    call_result (*end)(call_reader *r);
} call_form;

extern const call_form CALL_FORM_JSON, CALL_FORM_NAMED, CALL_FORM_XML, CALL_FORM_TYPED;

void call_reader_init(call_reader *r, const weft_allocator *allocator);
void call_reader_deinit(call_reader *r);

/* Before each call, and by a form before a further one. */
void call_reader_reset(call_reader *r);

/* Without white space around it. */
str call_trim(str text);

/* What forms share. Names lose white space around them. False: it can be none. */
bool call_set_name(call_reader *r, str name);
bool call_announce(call_reader *r);
void call_give(call_reader *r, str arguments);
void call_finish(call_reader *r);

/* Appends to one of the reader's texts; a refusal of memory ends all by parts->failed. */
void call_put(call_reader *r, strbuf *text, char c);
bool call_word_ends(const call_reader *r, const char *with);

static inline bool call_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline str call_text(const strbuf *text)
{
    return (str){strbuf_text(text), text->len};
}

#endif
