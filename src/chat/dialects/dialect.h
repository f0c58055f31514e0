/* dialect.h - how models write reasoning and calls of tools: a dialect is the markers of a chat
 * template, and the form of what stands between them.
 *
 * To add one: NAME.c with `const dialect DIALECT_NAME`, a row in dialects.def (the first whose
 * signs a template has is taken), examples in tests/chat/fixtures/dialects.json, a row in
 * docs/chat.md. */
#ifndef CHAT_DIALECTS_DIALECT_H
#define CHAT_DIALECTS_DIALECT_H

#include "chat/call.h"

enum { DIALECT_TAGS = 6, DIALECT_WAYS = 3, DIALECT_SIGNS = 3 };

/* CALL_FORM_NAMED: name, separator, {...}. */
typedef struct dialect_named {
    const char *separator;
    const char *id;     /* what may stand there first, with an id behind it; NULL: none */
    const char *prefix; /* before a name, no part of it; NULL: none */
    bool numbered;      /* a colon and a number behind a name are no part of it */
    bool typed;   /* behind the separator there may be the name, and a line that begins a block */
    bool or_json; /* or CALL_FORM_JSON */
} dialect_named;

/* CALL_FORM_XML. */
typedef struct dialect_xml {
    const char *name_close; /* NULL: a name ends where the next tag begins */
    const char *key_open, *key_close;
    const char *value_open; /* NULL: a value begins behind key_close */
    const char *value_close;
    const char *ends[DIALECT_TAGS]; /* any ends the call */
    bool lines;                     /* values have none of the line ends beside their tags */
} dialect_xml;

/* CALL_FORM_TYPED. */
typedef struct dialect_typed {
    const char *quote; /* around strings */
} dialect_typed;

typedef struct dialect_writing {
    const char *open, *begin, *arguments, *end, *separator, *close; /* NULL: nothing */
    bool numbered; /* behind the name a colon and a number */
    bool one;      /* one call ends the answer */
} dialect_writing;

struct dialect {
    const char *name;
    /* A template that has all texts of one way is of the dialect. None: any is. */
    const char *signs[DIALECT_WAYS][DIALECT_SIGNS];
    /* Around reasoning, where template or vocabulary have the latter; NULL: <think>, </think>. */
    const char *think_open, *think_close;
    const char *calls[DIALECT_TAGS];  /* any begins a call; what follows is of the form */
    const char *before[DIALECT_TAGS]; /* no text where a call follows */
    const char *after[DIALECT_TAGS];  /* no text behind a call */
    const char *stops[DIALECT_TAGS];  /* special tokens that end an answer, besides the model's */
    const char *shown[DIALECT_TAGS];  /* special tokens in the middle of calls or reasoning */
    const call_form *form;            /* NULL: it knows no calls */
    dialect_named named;
    dialect_xml xml;
    dialect_typed typed;
    /* How a call that must be is written: open, for each call its begin, the tool's name, what
     * stands before arguments, these, its end, and a separator before the next; close. */
    dialect_writing writing, older;
    const char *older_sign,
        *newer_sign;  /* the template has it, or lacks it: older; NULL: neither */
    bool bare;        /* an object of a known tool's name at the beginning is a call */
    bool think_calls; /* calls of known tools may stand within reasoning */
    bool channels;    /* the answer is messages with headers (channels.c) */
};

/* What the source of a template says. */
typedef struct dialect_choice {
    const dialect *row;
    bool thinks; /* it has the markers of reasoning */
    bool older;  /* calls are written in the row's older way */
} dialect_choice;

dialect_choice dialect_choose(str source);

/* [*count] rows, in their order. */
const dialect *const *dialect_table(uint32_t *count);

/* NULL: there is none of the name. */
const dialect *dialect_find(const char *name);

/* Calls give for each text that may be a special token: all markers. */
void dialect_markers(const dialect *d, void (*give)(void *user, const char *marker), void *user);

#endif
