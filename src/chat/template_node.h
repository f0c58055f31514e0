/* template_node.h - a compiled template: the tree that rendering walks. Read-only once compiled, so
 * that one template may be rendered by several threads. */
#ifndef CHAT_TEMPLATE_NODE_H
#define CHAT_TEMPLATE_NODE_H

#include "base/arena.h"
#include "base/map.h"
#include "chat/template.h"
#include "chat/template_call.h"

typedef enum tpl_node_kind {
    /* expressions */
    TPL_CONST,      /* constant */
    TPL_NAME,       /* name */
    TPL_LIST_NODE,  /* list */
    TPL_TUPLE_NODE, /* list */
    TPL_DICT_NODE,  /* list: key, value, key, value ... */
    TPL_CHAIN,      /* chain of arithmetic, left to right: kept flat, so that length is not depth */
    TPL_COMPARE,    /* chain of comparisons */
    TPL_AND,        /* list */
    TPL_OR,         /* list */
    TPL_CONCAT,     /* list */
    TPL_NOT,        /* part[0] */
    TPL_NEG,        /* part[0] */
    TPL_POS,        /* part[0] */
    TPL_COND,       /* part: test, then, else or NULL */
    TPL_ATTR,       /* attr */
    TPL_ITEM,       /* part: object, index */
    TPL_SLICE,      /* part: object, then list: start, stop, step, each may be NULL */
    TPL_CALL,       /* call */
    TPL_FILTER,     /* apply */
    TPL_TEST,       /* apply */
    TPL_INPUT,      /* what a filter block captured */
    /* statements */
    TPL_OUTPUT,       /* part[0] */
    TPL_DATA,         /* constant */
    TPL_IF,           /* branches */
    TPL_FOR,          /* loop */
    TPL_SET,          /* part: target, value */
    TPL_SET_BLOCK,    /* block: target, filter, body */
    TPL_FILTER_BLOCK, /* block: filter, body */
    TPL_MACRO_NODE,   /* macro */
    TPL_CALL_BLOCK,   /* macro, with the call in it */
    TPL_WITH,         /* with */
    TPL_SCOPE,        /* block: body in a scope of its own */
    TPL_BREAK,
    TPL_CONTINUE
} tpl_node_kind;

typedef struct tpl_node tpl_node;

typedef struct tpl_nodes {
    tpl_node **items;
    uint32_t n;
} tpl_nodes;

typedef struct tpl_keyword {
    str name;
    tpl_node *value;
} tpl_keyword;

/* f(a, b, name=c, *star, **stars) */
typedef struct tpl_call_node {
    tpl_nodes positional;
    tpl_keyword *keywords;
    uint32_t n_keywords;
    tpl_node *star, *stars;
} tpl_call_node;

typedef struct tpl_operand {
    int op; /* tpl_op */
    tpl_node *node;
} tpl_operand;

typedef enum tpl_op {
    TPL_OP_ADD,
    TPL_OP_SUB,
    TPL_OP_MUL,
    TPL_OP_DIV,
    TPL_OP_FLOORDIV,
    TPL_OP_MOD,
    TPL_OP_POW,
    TPL_OP_EQ,
    TPL_OP_NE,
    TPL_OP_LT,
    TPL_OP_LE,
    TPL_OP_GT,
    TPL_OP_GE,
    TPL_OP_IN,
    TPL_OP_NOT_IN
} tpl_op;

typedef struct tpl_branch {
    tpl_node *test;
    tpl_nodes body;
} tpl_branch;

typedef struct tpl_for_node {
    tpl_node *target, *source, *filter; /* filter may be NULL */
    tpl_nodes body, otherwise;
    bool recursive;
} tpl_for_node;

typedef struct tpl_macro_node {
    str name;            /* "caller" of a call block */
    uint32_t id;         /* of the name */
    str *params;         /* [n_params] */
    uint32_t *ids;       /* [n_params] */
    tpl_node **defaults; /* [n_params], NULL: none */
    uint32_t n_params;
    bool uses_caller, uses_kwargs, uses_varargs; /* the body speaks of them */
    uint32_t caller_id, kwargs_id, varargs_id;
    tpl_nodes body;
    tpl_node *call; /* TPL_CALL_BLOCK: the call it is handed to */
} tpl_macro_node;

struct tpl_node {
    tpl_node_kind kind;
    uint32_t line;
    union {
        tpl_value constant;
        uint32_t name;
        tpl_nodes list;
        struct {
            tpl_node *first;
            tpl_operand *rest; /* [n] */
            uint32_t n;
        } chain;
        struct {
            tpl_node *part[3];
        } three;
        struct {
            tpl_node *object;
            tpl_nodes bounds; /* 3 */
        } slice;
        struct {
            tpl_node *object;
            tpl_value name;
        } attr;
        struct {
            tpl_node *callee;
            tpl_call_node *args;
        } call;
        struct {
            tpl_node *input;
            const tpl_row *row; /* of the filters or the tests */
            tpl_call_node *args;
        } apply;
        struct {
            tpl_branch *items; /* [n] */
            uint32_t n;
            tpl_nodes otherwise;
        } branches;
        tpl_for_node *loop;
        tpl_macro_node *macro;
        struct {
            tpl_node *target, *filter;
            tpl_nodes body;
        } block;
        struct {
            tpl_nodes pairs, body; /* pairs: TPL_SET, their values seen from outside */
        } with;
    } as;
};

struct chat_template {
    const weft_allocator *allocator;
    arena memory;
    tpl_nodes body;
    str *names; /* [n_names] variables */
    uint32_t n_names;
    uint32_t loop_id;
};

#endif
