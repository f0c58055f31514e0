/* options.h - options as tables: one row gives the parser its check, --help its line, and the
 * manual its entry, so that they cannot disagree. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/err.h"
#include "base/str.h"

enum { OPTION_LIST_MOST = 32, OPTION_TEXTS_MOST = 16 };

typedef enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char *: borrowed from argv */
    OPTION_TEXTS,  /* option_texts: one each time the option is given */
    OPTION_CHOICE, /* const char *: one of the words of `choices`, "cpu|ref" */
    OPTION_COUNT,  /* uint32_t in [min, max] */
    OPTION_SEED,   /* option_seed */
    OPTION_BYTES,  /* uint64_t with an optional K, M or G (powers of 1024) */
    OPTION_REAL,   /* float in [min, max] */
    OPTION_LIST    /* option_list: numbers with commas, each in [min, max] */
} option_kind;

typedef struct option_seed {
    bool given;
    uint64_t value;
} option_seed;

typedef struct option_list {
    uint32_t n;
    uint32_t values[OPTION_LIST_MOST];
} option_list;

typedef struct option_texts {
    uint32_t n;
    const char *values[OPTION_TEXTS_MOST]; /* borrowed from argv */
} option_texts;

/* Words behind the operand; borrowed from argv. */
typedef struct option_words {
    char **words; /* [n] */
    uint32_t n;
} option_words;

typedef struct option_row {
    const char *name; /* without the dashes; a name of one letter is a short option */
    option_kind kind;
    size_t offset;       /* of the value in the command's struct */
    const char *value;   /* what help calls it; NULL for a flag */
    const char *help;    /* one sentence without a full stop */
    double min, max;     /* COUNT, REAL, LIST; of BYTES min alone */
    const char *choices; /* CHOICE; of BYTES what stands before the number, or NULL */
} option_row;

/* Tables that apply together; `values` is the struct that offsets count from. */
typedef struct option_set {
    const option_row *rows;
    size_t n_rows;
} option_set;

enum { OPTION_SETS = 5, OPTION_OPERANDS = 2 };

typedef struct option_parse {
    option_set sets[OPTION_SETS];
    uint32_t n_sets;
    void *values; /* already holds the defaults */
    /* What the operand is called; in brackets: it may be missing; NULL: there is none. */
    const char *operand;
    const char *second; /* another one behind it; NULL: there is none */
    bool takes_rest;    /* and any words behind them */
    const char *given;  /* out: the operand */
    const char *given_second;
    option_words rest; /* out: those words */
    bool help;         /* out: --help was there; then nothing else is checked */
} option_parse;

/* argv[0] is the command. ARGUMENT with a sentence for wrong usage. */
weft_status options_parse(option_parse *p, int argc, char **argv, weft_error *err);

/* Lines of --help, or rows of a markdown table. */
void options_print(const option_row *rows, size_t n_rows, bool markdown, strbuf *out);

/* Whether text is one of the words of "cpu|ref". */
bool choice_has(const char *choices, const char *text);

/* Digits alone, at most `most`; false otherwise. */
bool number_parse(str text, uint64_t most, uint64_t *value);

#endif
