/* template_value.h - what expressions evaluate to, with Python's rules for truth, equality and
 * order. */
#ifndef CHAT_TEMPLATE_VALUE_H
#define CHAT_TEMPLATE_VALUE_H

#include "base/json.h"
#include "chat/template_text.h"

typedef enum tpl_kind {
    TPL_UNDEFINED,
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_REAL,
    TPL_TEXT,
    TPL_SEQ,
    TPL_DICT,
    TPL_NAMESPACE, /* a dict whose entries 'set' may change */
    TPL_LOOP,
    TPL_MACRO,
    TPL_METHOD,   /* a method with its object */
    TPL_FUNCTION, /* a global function */
    TPL_CYCLER,
    TPL_JOINER
} tpl_kind;

typedef struct tpl_seq tpl_seq;
typedef struct tpl_dict tpl_dict;
typedef struct tpl_loop tpl_loop;
typedef struct tpl_macro tpl_macro;
typedef struct tpl_bound tpl_bound;
typedef struct tpl_cycler tpl_cycler;
typedef struct tpl_row tpl_row;

typedef struct tpl_value {
    uint8_t kind;
    bool untrusted; /* of TPL_INT and TPL_REAL: the number is the caller's */
    union {
        const char *reason; /* TPL_UNDEFINED: what an error says; may be NULL */
        bool b;
        int64_t i;
        double d;
        tpl_text *text;
        tpl_seq *seq;
        tpl_dict *dict;
        tpl_loop *loop;
        tpl_macro *macro;
        tpl_bound *bound;
        const tpl_row *function;
        tpl_cycler *cycler;
        struct joiner *joiner;
    } as;
} tpl_value;

typedef enum tpl_flavour {
    TPL_LIST,
    TPL_TUPLE,
    TPL_RANGE, /* items are computed */
    TPL_KEYS,
    TPL_VALUES,
    TPL_ITEMS,
    TPL_ITER /* a Python generator: can be walked once, has no length */
} tpl_flavour;

/* Items that are made when asked for, as a Python generator makes them: what is wrong with one is
 * found then and not before. next returns false at the end or on failure. */
typedef struct tpl_lazy tpl_lazy;
struct tpl_lazy {
    bool (*next)(tpl_render *r, tpl_lazy *lazy, tpl_value *item);
};

struct tpl_seq {
    tpl_flavour flavour;
    bool is_group; /* of groupby: a pair whose parts are also called grouper and list */
    size_t n;
    size_t next;         /* TPL_ITER: how many have been taken */
    tpl_value *items;    /* [n] */
    tpl_lazy *lazy;      /* TPL_ITER: makes the items instead when not NULL */
    int64_t start, step; /* TPL_RANGE */
    int64_t stop;
};

typedef struct tpl_entry {
    tpl_value key, value;
    uint64_t hash;
} tpl_entry;

struct tpl_dict {
    tpl_entry *entries; /* [n] in the order of insertion */
    size_t n, capacity;
    uint32_t *index; /* [n_index] entry + 1, 0: free; NULL while few */
    size_t n_index;
};

struct tpl_cycler {
    tpl_value *items;
    size_t n, at;
};

tpl_value tpl_none(void);
tpl_value tpl_undefined(const char *reason);
tpl_value tpl_bool(bool b);
tpl_value tpl_int(int64_t i);
tpl_value tpl_real(double d);
tpl_value tpl_text_value(tpl_text *t);
tpl_value tpl_seq_value(tpl_seq *s);
tpl_value tpl_dict_value(tpl_dict *d);

/* "str", "list", "dict", ...: what Python calls the type. */
const char *tpl_type_name(tpl_value v);

bool tpl_is_seq(tpl_value v, tpl_flavour flavour);
/* TPL_BOOL counts as the integer it is in Python. */
bool tpl_is_int(tpl_value v);
bool tpl_is_number(tpl_value v);
int64_t tpl_as_int(tpl_value v); /* of tpl_is_int */
double tpl_as_real(tpl_value v); /* of tpl_is_number */
bool tpl_text_is(tpl_value v, const char *text);

bool tpl_truth(tpl_value v);

/* false: failed (nested too deep). */
bool tpl_equal(tpl_render *r, tpl_value a, tpl_value b, bool *equal);
/* -1, 0, 1, or 2 where a NaN makes every comparison false; fails on types Python does not order. */
bool tpl_compare(tpl_render *r, tpl_value a, tpl_value b, int *order);
/* Like sorted() with keys: sorts items by keys, stable. */
bool tpl_sort(tpl_render *r, tpl_value *keys, tpl_value *items, size_t n, bool reverse);
/* item in container. */
bool tpl_contains(tpl_render *r, tpl_value container, tpl_value item, bool *found);

tpl_seq *tpl_seq_new(tpl_render *r, tpl_flavour flavour, size_t n); /* items cleared: undefined */
tpl_value tpl_seq_at(const tpl_seq *s, size_t index);
/* A list that grows: *capacity is the caller's. */
bool tpl_seq_push(tpl_render *r, tpl_seq *s, size_t *capacity, tpl_value item);
tpl_value tpl_pair(tpl_render *r, tpl_value a, tpl_value b); /* a tuple; undefined when it failed */

tpl_dict *tpl_dict_new(tpl_render *r);
/* Fails on an unhashable key, as Python does. */
bool tpl_dict_put(tpl_render *r, tpl_dict *d, tpl_value key, tpl_value value);
/* false when absent; an unhashable key is absent. */
bool tpl_dict_get(tpl_render *r, const tpl_dict *d, tpl_value key, tpl_value *value);
bool tpl_dict_get_name(tpl_render *r, const tpl_dict *d, str name, tpl_value *value);
bool tpl_hashable(tpl_value v);

/* Walking anything that Python iterates. */
typedef struct tpl_iter {
    tpl_value of;
    size_t at;
} tpl_iter;
/* Fails when v is not iterable. */
bool tpl_iter_init(tpl_render *r, tpl_iter *it, tpl_value v);
bool tpl_iter_next(tpl_render *r, tpl_iter *it, tpl_value *item);
/* All items, as a list of its own. */
tpl_seq *tpl_collect(tpl_render *r, tpl_value v);
/* len(); fails when there is none. */
bool tpl_length(tpl_render *r, tpl_value v, size_t *n);

/* The caller's document, marked untrusted unless trusted. */
bool tpl_from_json(tpl_render *r, const json *from, bool trusted, tpl_value *to);

#endif
