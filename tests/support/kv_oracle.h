/* kv_oracle.h - what a sequence's state must hold, written down plainly: a tag for each position,
 * and for each layer which positions live. No pages, no formulas of kv/ but those of the
 * specification, scanned position by position. Its pages come from a backend that counts them.
 *
 * A tag stands for the bytes of a position; oracle_write puts them where a view says that they
 * belong, and oracle_check looks whether they are there for every live position. A recurrent layer
 * is a toy: its last tags, and numbers that all tags so far went through in whole-number
 * arithmetic, so that one tag too many, too few or out of order shows. */
#ifndef SUPPORT_KV_ORACLE_H
#define SUPPORT_KV_ORACLE_H

#include "kv/txn.h"
#include "support/fault.h"
#include "support/test.h"

/* ---- pages that are counted ---- */

/* What concerns pages, and replay of the toy; the other functions are missing. */
extern const backend_api ORACLE_BACKEND;

struct backend {
    fault_allocator *memory;
    uint64_t held, most; /* bytes of pages now, and the most so far */
    uint32_t n_pages;
    uint32_t n_replays; /* so far */
};

/* ---- sequences ---- */

/* What a toy layer's buffers hold; its record is the tag. */
enum { TOY_TAGS = 3, TOY_NUMBERS = 20 };
#define TOY_LAYER                                                                                  \
    {                                                                                              \
        .layout = KV_LAYOUT_RECURRENT, .buffers = {TOY_TAGS, TOY_NUMBERS}, .record = 1             \
    }

typedef struct oracle_seq {
    const kv_layer *layers; /* [n_layers], borrowed */
    uint32_t n_layers, context;
    uint32_t len;
    uint32_t *tags; /* [context] */
    bool *live;     /* [n_layers, context] */
    /* Of an encoder, for cross layers: its positions, tagged cross_tag, cross_tag + 1, ... */
    uint32_t cross_len, cross_tag;
} oracle_seq;

oracle_seq *oracle_create(const kv_layer *layers, uint32_t n_layers, uint32_t context);
oracle_seq *oracle_clone(const oracle_seq *o);
void oracle_destroy(oracle_seq *o);

/* Positions len .. len + n - 1 get these tags; the first keep of them stay. */
void oracle_commit(oracle_seq *o, const uint32_t *tags, uint32_t keep);

/* Whether every position that a query at m would see, and m itself, lives; 0 and len always can. */
bool oracle_can_trim(const oracle_seq *o, uint32_t m);
void oracle_trim(oracle_seq *o, uint32_t m);

/* Lowest live position of a layer; len when none lives. */
uint32_t oracle_first(const oracle_seq *o, uint32_t layer);

/* Bytes of the pages that hold the live positions, in base or in codecs. */
uint64_t oracle_bytes(const oracle_seq *o, const kv_config *config, bool converted);

/* Writes n tags behind len, as a run does. */
void oracle_write(const kv_view *views, uint32_t n_layers, uint32_t len, const uint32_t *tags,
                  uint32_t n);

/* Writes what an encoder leaves: positions 0 .. n - 1 of every cross layer. */
void oracle_write_cross(const kv_view *views, uint32_t n_layers, uint32_t tag, uint32_t n);

/* Fails unless page holds what the first len tags make of a toy. */
void oracle_check_state(const oracle_seq *o, const kv_geometry *g, uint32_t layer,
                        const unsigned char *page, uint32_t len);

/* Fails unless the view shows the tags of every live position, and, for a step of n more with tags,
 * all that each of its queries sees. */
void oracle_check(const oracle_seq *o, const kv_view *views, const uint32_t *tags, uint32_t n);

#endif
