/* pieces.h - an answer as a list of reasoning, text and calls in the order in which the model gave
 * them, for interfaces whose answers are lists, streamed or whole. */
#ifndef SERVER_PIECES_H
#define SERVER_PIECES_H

#include "server/generation.h"

typedef struct piece {
    weft_part_kind kind;              /* REASONING, CONTENT or CALL */
    uint32_t call;                    /* of the answer's */
    size_t first, n_bytes;            /* in the answer's reasoning or content */
    size_t first_logprob, n_logprobs; /* bytes of pieces.logprobs, of text */
    bool whole;                       /* false: a call that was cut or that turned out to be none */
} piece;

typedef struct pieces {
    piece *all; /* [n] */
    uint32_t n, capacity;
    bool open;                       /* the last one may go on */
    uint32_t n_ids, n_reasoning_ids; /* tokens of the answer so far, and those of reasoning */
    strbuf logprobs;                 /* entries of tokens of text, where they are asked for */
    str new_logprobs;                /* those that came with what is added */
} pieces;

/* What a stream says of them; i counts from 0. */
typedef struct piece_writer {
    void (*begins)(answer *a, const piece *p, uint32_t i);
    void (*adds)(answer *a, const piece *p, uint32_t i, str text);
    void (*ends)(answer *a, const piece *p, uint32_t i);
} piece_writer;

/* A zeroed one is empty. */
void pieces_deinit(pieces *p);

/* A part of a. w: NULL for who says nothing of it. Without memory the answer fails. */
void pieces_take(pieces *p, answer *a, const weft_part *part, const piece_writer *w);

/* There are no more. */
void pieces_finish(pieces *p, answer *a, const piece_writer *w);

/* Its text; of a call, its arguments. Borrowed from a. */
str piece_text(const answer *a, const piece *p);

/* Its entries, with commas between. */
str piece_logprobs(const pieces *p, const piece *of);

#endif
