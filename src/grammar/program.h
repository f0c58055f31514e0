/* program.h - what every kind of grammar is compiled to: a graph of nodes that a machine walks byte
 * by byte (machine.h).
 *
 * It is a recursive transition network: nodes that take a byte of a set, nodes that run a lexeme (a
 * finite automaton with a count of characters, lexeme.h), nodes that take a token whatever bytes it
 * has (control tokens have none), splits, calls of rules and counted loops.
 * A loop's count lies on the same stack as the calls, so that {0,1000000} is one node and nests.
 *
 * Graphs are built from the end: a builder is told which node comes next and returns the one to
 * start from. After a failure, which is kept in status, builders return NODE_FAIL. */
#ifndef GRAMMAR_PROGRAM_H
#define GRAMMAR_PROGRAM_H

#include "base/arena.h"
#include "base/str.h"
#include "grammar/lexeme.h"

typedef enum node_kind {
    NODE_KIND_FAIL,   /* no way on */
    NODE_KIND_RETURN, /* the end of a rule */
    NODE_KIND_AGAIN,  /* the end of a loop's body */
    NODE_KIND_END,    /* the end of the text */
    NODE_KIND_SPLIT,  /* next, or arg */
    NODE_KIND_BYTES,  /* a byte of set arg */
    NODE_KIND_LEXEME, /* lexeme arg */
    NODE_KIND_TOKEN,  /* token arg */
    NODE_KIND_CALL,   /* rule arg */
    NODE_KIND_LOOP    /* loop arg */
} node_kind;

/* Nodes that every program has. */
enum { NODE_FAIL, NODE_RETURN, NODE_AGAIN, NODE_END, NODE_FIRST };

enum {
    PROGRAM_NODES = 1 << 19,
    PROGRAM_SETS = 1 << 16,
    PROGRAM_RULES = 1 << 14,
    PROGRAM_LOOPS = 1 << 16,
    PROGRAM_LEXEMES = 1 << 12,
    PROGRAM_TOKENS = 256,    /* that are named, each a column of a machine's table */
    PROGRAM_STEPS = 1 << 26, /* of the search for what may be empty */
    PROGRAM_SWEEPS = 400,    /* over all nodes, until what they need is settled */
};

#define PROGRAM_ENDLESS UINT32_MAX /* max of a loop; the need of a node that leads nowhere */

typedef struct program_node {
    uint32_t kind;
    uint32_t next;
    uint32_t arg;
    uint32_t need; /* frames that it takes at least to get from here to the end of the rule */
} program_node;

typedef struct byte_set {
    uint64_t bits[4];
} byte_set;

typedef struct loop {
    uint32_t body, min, max;
    bool nullable; /* the body may be empty; min is 0 then */
} loop;

typedef struct rule {
    uint32_t start;
    bool nullable;
    const char *name; /* for messages; borrowed, may be NULL */
} rule;

/* A token that is named by its id. */
typedef struct named_token {
    uint32_t id;
    bool ends; /* the answer: nothing may have to come behind it */
} named_token;

typedef struct program {
    arena *memory;   /* borrowed */
    weft_error *err; /* borrowed, while it is being built */
    weft_status status;
    program_node *nodes;
    byte_set *sets;
    rule *rules; /* the text is rule 0 */
    loop *loops;
    const lexeme **lexemes;
    named_token *tokens;
    uint32_t n_nodes, n_sets, n_rules, n_loops, n_lexemes, n_tokens;
    uint32_t node_room, set_room, rule_room, loop_room, lexeme_room, token_room;
    uint32_t dfa_work;           /* of all automata made so far (dfa.h) */
    bool has_runs;               /* sets that repeat become lexemes */
    uint32_t n_classes;          /* bytes of one class are the same to every node */
    unsigned char class_of[256]; /* byte -> class */
    unsigned char byte_of[256];  /* class -> one of its bytes */
    uint32_t class_bytes[256];   /* class -> how many it has */
} program;

void program_init(program *p, arena *memory, weft_error *err);

/* Keeps the first failure; for builders. */
void program_fail(program *p, weft_status status, const char *fmt, ...) ERR_PRINTF(3, 4);

/* size bytes of the arena, or NULL, which is then the status. */
void *program_alloc(program *p, size_t count, size_t size);

uint32_t program_set(program *p, const byte_set *set);
uint32_t program_rule(program *p, const char *name); /* its start is set later */

uint32_t node_split(program *p, uint32_t a, uint32_t b);
uint32_t node_bytes(program *p, const byte_set *set, uint32_t next);
uint32_t node_range(program *p, unsigned char first, unsigned char last, uint32_t next);
uint32_t node_text(program *p, str text, uint32_t next); /* its bytes */
uint32_t node_lexeme(program *p, const lexeme *lex, uint32_t next);
uint32_t node_token(program *p, named_token token, uint32_t next);
uint32_t node_call(program *p, uint32_t rule, uint32_t next);

/* Any number of bodies, which are set later and end in the star's own node. */
uint32_t node_star(program *p, uint32_t next);
void star_set_body(program *p, uint32_t at, uint32_t body);

/* A loop whose body is set later and ends in NODE_AGAIN; min <= max. */
uint32_t node_loop(program *p, uint32_t min, uint32_t max, uint32_t next);
void loop_set_body(program *p, uint32_t at, uint32_t body);

/* Settles classes and needs. Fails when a rule begins with itself, or when no text has an end. */
void program_finish(program *p);

/* Symbols, which lead from state to state: bytes, and behind them the named tokens. */
enum { SYMBOL_TOKEN = 256 };

static inline uint32_t program_n_columns(const program *p)
{
    return p->n_classes + p->n_tokens;
}

/* Where a symbol stands in a row of a table. */
static inline uint32_t program_column(const program *p, uint32_t symbol)
{
    return symbol < SYMBOL_TOKEN ? p->class_of[symbol] : p->n_classes + symbol - SYMBOL_TOKEN;
}

static inline bool byte_set_has(const byte_set *set, unsigned char byte)
{
    return (set->bits[byte >> 6] >> (byte & 63) & 1) != 0;
}

void byte_set_add(byte_set *set, unsigned char first, unsigned char last);

#endif
