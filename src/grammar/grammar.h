/* grammar.h - text that must have a form: which tokens may come next.
 *
 * A vocabulary is read once a tokenizer (grammar_vocab), a text that describes a form is compiled
 * once (grammar_compile) and then shared, and each answer has its own state (grammar_state). What
 * each kind means, and what a schema may hold, is in docs/grammar.md.
 *
 * Where things are: regex.h reads regular expressions, gbnf.c rules, schema_*.c JSON Schema,
 * parts.c what puts them together; all end in a program (program.h), which machine.h walks. A new
 * keyword of JSON Schema gets a row in the table of schema_read.c; it becomes a constraint of a
 * form (schema.h), a new one if need be: then how two meet (schema_meet.c), its opposite
 * (schema_not.c), which values pass (schema_admit.c), what is written (schema_emit.c), and a row in
 * docs/grammar.md. */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "base/env.h"
#include "base/str.h"
#include "tokenizer/tokenizer.h"

enum {
    GRAMMAR_TEXT_BYTES = 4 << 20,      /* longest description */
    GRAMMAR_COMPILE_BYTES = 256 << 20, /* most memory while compiling */
    GRAMMAR_KEPT_BYTES = 64 << 20,     /* and of what comes of it */
    GRAMMAR_TOKEN_BYTES = 255,         /* longer tokens are never allowed */
    GRAMMAR_TOKENS = 1 << 22,          /* rows of a head */
    GRAMMAR_NODES = 1 << 24,           /* bytes of a vocabulary, beginnings in common once */
    GRAMMAR_ROLLBACK = 64,             /* tokens that can be taken back */
    GRAMMAR_DEPTH = 500,               /* calls and loops within each other in a text */
    GRAMMAR_MASKS = 64,                /* masks that a compiled grammar remembers */
};

/* ---- vocabulary ---- */

typedef struct grammar_vocab grammar_vocab;

/* What each token adds to a text. */
typedef struct grammar_tokens {
    uint32_t n_rows; /* of the model's head; rows behind the last token are never allowed */
    uint32_t n_tokens;
    const str *bytes;    /* [n_tokens]; empty: not spelled by a text (control tokens) */
    const str *names;    /* [n_tokens] what such tokens are called; empty: nothing. May be NULL */
    const int32_t *ends; /* [n_ends] ids that end an answer */
    uint32_t n_ends;
} grammar_tokens;

/* Keeps nothing of what it is given. */
weft_status grammar_vocab_create(const env *world, const grammar_tokens *tokens,
                                 grammar_vocab **out, weft_error *err);

/* The same from a tokenizer: special tokens are what has a name and no bytes. */
weft_status grammar_vocab_of(const env *world, const tokenizer *t, uint32_t n_rows,
                             const int32_t *ends, uint32_t n_ends, grammar_vocab **out,
                             weft_error *err);
void grammar_vocab_destroy(grammar_vocab *v);

uint32_t grammar_vocab_rows(const grammar_vocab *v);

/* Tokens that have rows, and what each spells: nothing when no text spells it. Borrowed. */
uint32_t grammar_vocab_tokens(const grammar_vocab *v);
str grammar_vocab_bytes(const grammar_vocab *v, uint32_t token);

/* uint64_t words of a mask. */
uint32_t grammar_mask_words(const grammar_vocab *v);

/* ---- grammars ---- */

typedef enum grammar_kind {
    GRAMMAR_SCHEMA, /* a JSON Schema (2020-12) */
    GRAMMAR_JSON,   /* any JSON object; text is empty */
    GRAMMAR_REGEX,  /* the whole text matches */
    GRAMMAR_CHOICE, /* a JSON array of texts, one of which it is */
    GRAMMAR_GBNF,   /* rules, the text is "root" */
    GRAMMAR_PARTS   /* a part in JSON, put together of those above */
} grammar_kind;

typedef struct grammar grammar;

/* Does not change afterwards, but for a memory of masks under a lock: any number of states in any
 * threads may share it. vocab is borrowed until the last reference is gone. The message of a
 * failure names the place: a JSON pointer or a byte. */
weft_status grammar_compile(const env *world, const grammar_vocab *vocab, grammar_kind kind,
                            str text, grammar **out, weft_error *err);

/* One is had from grammar_compile; a state has its own. */
grammar *grammar_ref(grammar *g);
void grammar_unref(grammar *g);

/* Bytes that each state of it takes; nothing more is allocated while it runs. */
size_t grammar_state_bytes(const grammar *g);

/* ---- the state of one answer ---- */

typedef struct grammar_state grammar_state;

weft_status grammar_state_create(grammar *g, grammar_state **out, weft_error *err);
void grammar_state_destroy(grammar_state *s);
weft_status grammar_state_clone(const grammar_state *s, grammar_state **out, weft_error *err);

/* Sets the bits of the tokens that may come next, clears all others: [grammar_mask_words]. At least
 * one is set. After an end token, and where only the end is left, only end tokens. Where the
 * description names an end token, it ends the text as well. */
weft_status grammar_state_mask(grammar_state *s, uint64_t *bits, weft_error *err);

/* ARGUMENT, and nothing changes, when the mask does not allow it. */
weft_status grammar_state_accept(grammar_state *s, int32_t token, weft_error *err);

/* Whether the text may end here; whether an end token was accepted. */
bool grammar_state_can_end(const grammar_state *s);
bool grammar_state_ended(const grammar_state *s);

/* Takes back the last n tokens; ARGUMENT when there were not so many, or more than
 * GRAMMAR_ROLLBACK. */
weft_status grammar_state_rollback(grammar_state *s, uint32_t n, weft_error *err);

/* Up to most tokens that are or spell what must come next, the longest first; each is in the mask
 * that it meets. A hint: another way to spell the same may be allowed as well. */
weft_status grammar_state_forced(grammar_state *s, int32_t *tokens, uint32_t most, uint32_t *n,
                                 weft_error *err);

#endif
