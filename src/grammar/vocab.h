/* vocab.h - the tokens of a vocabulary as two trees of bytes, each laid out as a list.
 *
 * The plain tree holds the tokens that stand for themselves within a JSON string: whole characters,
 * no quote, backslash or control. In a string they are all allowed, which needs no walk. */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H

#include "grammar/grammar.h"

/* Depth first; eight bytes, since a walk reads most of them. place: where to go on when the byte
 * may not come, and the byte. what: 1 + the first token that ends here (0: none), whether more
 * tokens are spelled like it, and the depth, which is 1 for a tree's first bytes. */
typedef struct vocab_node {
    uint32_t place; /* next << 8 | byte */
    uint32_t what;  /* token << 9 | same << 8 | depth */
} vocab_node;

static inline uint32_t vocab_next(const vocab_node *n)
{
    return n->place >> 8;
}

static inline unsigned char vocab_byte(const vocab_node *n)
{
    return (unsigned char)(n->place & 255);
}

static inline uint32_t vocab_token(const vocab_node *n)
{
    return n->what >> 9;
}

enum { VOCAB_SAME = 1 << 8 };

typedef struct vocab_tree {
    vocab_node *nodes;
    uint32_t n_nodes;
} vocab_tree;

enum { VOCAB_PLAIN, VOCAB_OTHER, VOCAB_TREES };

/* Characters of plain tokens, by the number of their first byte: 0x20 to 0x7f, 0xc2 to 0xf4. */
enum {
    VOCAB_NARROW = 0x60,
    VOCAB_CHARS = VOCAB_NARROW + 0xf4 - 0xc2 + 1,
};

static inline unsigned char vocab_char(uint32_t number)
{
    return (unsigned char)(number < VOCAB_NARROW ? 0x20 + number : 0xc2 + number - VOCAB_NARROW);
}

struct grammar_vocab {
    const weft_allocator *allocator;
    uint32_t n_rows, n_words, n_tokens;
    vocab_tree trees[VOCAB_TREES];
    vocab_tree names;       /* of tokens without bytes */
    uint32_t *same;         /* [n_tokens] 1 + the next token of the same bytes, 0: none */
    uint64_t *plain;        /* [n_words] the tokens of the plain tree */
    uint64_t *has;          /* [VOCAB_CHARS, n_words] those that have one that begins so */
    uint32_t *by_length;    /* [n_plain] those tokens, from the longest on */
    unsigned char *n_chars; /* [n_plain] characters of each in by_length */
    uint32_t n_plain;
    uint32_t longest; /* bytes of the longest token */
    uint64_t *ends;   /* [n_words] the tokens that end an answer */
    uint32_t *starts; /* [n_tokens + 1] where the bytes of a token start */
    unsigned char *bytes;
    size_t n_bytes;
    uint32_t first_end;
};

static inline str vocab_bytes(const grammar_vocab *v, uint32_t token)
{
    const char *all = (const char *)v->bytes;
    return (str){all + v->starts[token], v->starts[token + 1] - v->starts[token]};
}

static inline bool vocab_is_end(const grammar_vocab *v, uint32_t token)
{
    return (v->ends[token >> 6] >> (token & 63) & 1) != 0;
}

/* The token whose name begins the text and is the longest such; its bytes, 0: none. */
size_t vocab_name_at(const grammar_vocab *v, str text, uint32_t *token);

/* How many tokens are all of the text, by name or bytes; *token is one of them. */
uint32_t vocab_tokens_of(const grammar_vocab *v, str text, uint32_t *token);

/* The node of a tree for the bytes, and *token as in vocab_node; UINT32_MAX when there is none. */
uint32_t vocab_lookup(const vocab_tree *t, str bytes, uint32_t *token);

#endif
