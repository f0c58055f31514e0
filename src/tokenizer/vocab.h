/* vocab.h - ids and their spellings: those of the model and those added to it. */
#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H

#include "base/arena.h"
#include "base/str.h"

enum {
    VOCAB_KNOWN = 1,   /* the id exists */
    VOCAB_MODEL = 2,   /* the model's own: a word may become it */
    VOCAB_ADDED = 4,   /* found in the text as it stands, and stands for its spelling */
    VOCAB_SPECIAL = 8, /* not shown unless asked for */
    VOCAB_FLAGS = 15,  /* all of them */
};

typedef struct vocab_entry {
    const char *text;  /* as the vocabulary spells it */
    const char *bytes; /* what it stands for; may be text itself */
    uint32_t text_len;
    uint32_t bytes_len;
    uint32_t flags;
} vocab_entry;

#define VOCAB_FREE UINT32_MAX

/* Half a hash finds the slot, the other half tells most other spellings apart. */
typedef struct vocab_slot {
    uint32_t tag;
    uint32_t id; /* VOCAB_FREE: none */
} vocab_slot;

typedef struct vocab {
    const weft_allocator *allocator; /* borrowed */
    arena arena;                     /* spellings */
    vocab_entry *entries;            /* [capacity], by id */
    uint32_t n;                      /* largest id + 1 */
    uint32_t capacity;
    uint32_t limit;          /* ids are below it: gaps are bounded by the number of tokens */
    const vocab_slot *slots; /* [n_slots], a power of two, at most half full: spelling -> id */
    vocab_slot *own;         /* the same, to write to; NULL: they are borrowed */
    size_t n_slots;
    size_t n_keys;
    uint64_t seed; /* another one in each table: texts made to collide in one do not in the next */
} vocab;

/* n_tokens: how many the file lists. */
weft_status vocab_init(vocab *v, const weft_allocator *allocator, size_t n_tokens, weft_error *err);
void vocab_deinit(vocab *v);

/* In the place of what it has: n entries, to be filled by the caller, and the slots that go with
 * them, as another vocabulary had them. They are borrowed, and a put copies them. The caller has
 * checked that their ids are below n, and that there is a free one. */
weft_status vocab_restore(vocab *v, uint32_t n, const vocab_slot *slots, size_t n_slots,
                          size_t n_keys, uint64_t seed, weft_error *err);

/* LIMIT for an id out of bounds, FORMAT for one that has a spelling already. A spelling met
 * again belongs to the later id. text is copied. */
weft_status vocab_put(vocab *v, int64_t id, str text, uint32_t flags, weft_error *err);

/* What a token stands for; the spelling without this. Copied. */
weft_status vocab_set_bytes(vocab *v, int32_t id, str bytes, weft_error *err);

/* -1 when absent. */
int32_t vocab_find(const vocab *v, str text);

/* The same among the model's own. */
int32_t vocab_find_model(const vocab *v, str text);

/* The same without special tokens: a text that may not name them cannot spell them either. */
int32_t vocab_find_plain(const vocab *v, str text);

/* The ids of "<0x00>" to "<0xFF>". */
void vocab_byte_ids(const vocab *v, int32_t ids[256]);

/* NULL for an unknown id. */
const vocab_entry *vocab_get(const vocab *v, int32_t id);

#endif
