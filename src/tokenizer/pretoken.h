/* pretoken.h - cutting a text into the words that the model works on. */
#ifndef TOKENIZER_PRETOKEN_H
#define TOKENIZER_PRETOKEN_H

#include "tokenizer/chars.h"
#include "tokenizer/regex.h"

enum { PRETOKEN_STEPS = 16 };

/* What becomes of a match. */
typedef enum split_behavior {
    SPLIT_ISOLATED,        /* a piece of its own */
    SPLIT_REMOVED,         /* dropped */
    SPLIT_CONTIGUOUS,      /* neighbouring matches are one piece */
    SPLIT_MERGED_PREVIOUS, /* joined to the piece before */
    SPLIT_MERGED_NEXT      /* joined to the piece behind */
} split_behavior;

/* What is looked for. */
typedef enum pretoken_kind {
    PRETOKEN_WHOLE, /* nothing: no split */
    PRETOKEN_REGEX,
    PRETOKEN_CLASS,   /* each character of a class */
    PRETOKEN_WORDS,   /* runs of word characters, and of others that are no space */
    PRETOKEN_SCRIPTS, /* runs of one script; what joins any joins the run before it */
    PRETOKEN_FIXED    /* so many characters */
} pretoken_kind;

/* Where the mark is put ahead of a piece that does not start with it. */
typedef enum pretoken_ahead { AHEAD_NEVER, AHEAD_FIRST, AHEAD_ALWAYS } pretoken_ahead;

typedef struct pretoken_step {
    pretoken_kind kind;
    regex regex;
    char_class *in_class;
    uint64_t n_chars;
    split_behavior behavior;
    bool invert; /* what is between matches counts as the match */
    pretoken_ahead ahead;
    bool marks_spaces; /* spaces become the mark */
    bool spells;       /* bytes are spelled in the byte-level alphabet first */
    char mark[4];
    uint8_t mark_len;
} pretoken_step;

/* Every piece of a step goes through the next. */
typedef struct pretoken {
    regex_memory memory;
    pretoken_step steps[PRETOKEN_STEPS];
    uint32_t n_steps;
    bool bytes;   /* the last step was ByteLevel: words are bytes, not characters */
    bool spelled; /* an earlier one was: words are characters that spell bytes */
} pretoken;

/* The pattern of ByteLevel. */
#define PRETOKEN_GPT2                                                                              \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Must not move afterwards. */
weft_status pretoken_init(pretoken *p, const weft_allocator *allocator, weft_error *err);
void pretoken_deinit(pretoken *p);

/* LIMIT for too many steps. What follows ByteLevel works on spelled bytes, and words are those
 * then. */
weft_status pretoken_split(pretoken *p, str pattern, bool literal, split_behavior behavior,
                           bool invert, weft_error *err);
weft_status pretoken_class(pretoken *p, char_class *in_class, split_behavior behavior,
                           weft_error *err);
weft_status pretoken_words(pretoken *p, weft_error *err);
weft_status pretoken_scripts(pretoken *p, weft_error *err);
weft_status pretoken_fixed(pretoken *p, uint64_t n_chars, weft_error *err);
/* mark: one character. split: before each mark. */
weft_status pretoken_metaspace(pretoken *p, str mark, pretoken_ahead ahead, bool split,
                               weft_error *err);
weft_status pretoken_bytelevel(pretoken *p, bool space_ahead, bool split, weft_error *err);

typedef struct pretoken_scratch {
    regex_search search;
    strbuf marked[PRETOKEN_STEPS]; /* the text that a step has rewritten */
    strbuf spelled[PRETOKEN_STEPS];
} pretoken_scratch;

weft_status pretoken_scratch_init(pretoken_scratch *s, const weft_allocator *allocator,
                                  size_t text_bytes, weft_error *err);
void pretoken_scratch_deinit(pretoken_scratch *s);

/* Called for each word, never with an empty one. */
typedef weft_status pretoken_word(void *user, str word, weft_error *err);

/* first: the text starts a text as a whole. */
weft_status pretoken_run(const pretoken *p, pretoken_scratch *s, str text, bool first,
                         pretoken_word *word, void *user, weft_error *err);

#endif
