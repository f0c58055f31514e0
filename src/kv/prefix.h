/* prefix.h - what sequences left behind, found again by its tokens.
 *
 * A tree over pages: a node stands for the tokens of one page of positions and holds, for each
 * layer, the page of its keys and values, as they were encoded. What is found is shared, never
 * decoded or encoded again, so that a sequence which begins on it has the bytes of one that
 * forwarded the tokens (KV-51). Where windows, chunks or recurrent layers are, a sequence can begin
 * only where these have what they need: at a boundary, which keeps states and the pages of windows,
 * or wherever those pages happen to suffice.
 *
 * Its pages are charged to the pool's budget, and give way to promises: least recently used first,
 * ends before what they stand on, never what a sequence was lent. */
#ifndef KV_PREFIX_H
#define KV_PREFIX_H

#include "kv/txn.h"

typedef struct kv_prefix kv_prefix;

/* What must be equal for state to be equal, beside tokens: a config, and whatever else the caller
 * tells apart by salt. */
typedef struct kv_space kv_space;

/* What a sequence was fed. */
typedef struct kv_history {
    const int32_t *ids;
    /* [n]: what stands at a place that is not text, the hash of its content and the offset within;
     * 0 where the id says it all. NULL: everywhere. */
    const uint64_t *media;
    uint32_t n;
} kv_history;

/* Why less was found than there are equal tokens. */
typedef enum kv_limit {
    KV_LIMIT_NONE,
    KV_LIMIT_WINDOW,    /* a layer with a window or chunks lacks what the next query sees */
    KV_LIMIT_RECURRENT, /* no state of a recurrent layer is kept there */
    KV_LIMIT_CONVERTED, /* what is kept was converted later than that */
    KV_LIMIT_ROOM,      /* the budget has no room for that beside the new sequence */
} kv_limit;

typedef struct kv_match {
    uint32_t n_equal;  /* tokens that are known, at most all but the last */
    uint32_t n_usable; /* positions that a sequence can begin with */
    kv_limit limit;    /* of the one by the other */
} kv_match;

typedef struct kv_prefix_stats {
    uint64_t bytes;      /* of pages */
    uint64_t bytes_idle; /* of those that no sequence holds */
    uint32_t n_nodes, n_boundaries;
    uint64_t n_lookups, n_hits, tokens_found;
    uint64_t n_evicted; /* nodes and boundaries that gave way */
    uint64_t n_skipped; /* insertions of which a part had no room */
} kv_prefix_stats;

/* Becomes the pool's evictor. most_bytes: of pages in all; 0: what the pool's budget leaves. */
weft_status kv_prefix_create(const weft_allocator *allocator, kv_pool *pool, uint64_t most_bytes,
                             kv_prefix **prefix, weft_error *err);

/* Accepts NULL. No sequence stands on it any more. */
void kv_prefix_destroy(kv_prefix *prefix);

/* Gives everything back that no sequence was lent. */
void kv_prefix_clear(kv_prefix *prefix);

/* The space of a config (borrowed, of this pool, without cross layers: tokens alone do not say what
 * an encoder left) and salt, made if need be; NULL: out of memory. */
kv_space *kv_prefix_space(kv_prefix *prefix, const kv_config *config, uint64_t salt);

/* The best of what is there for a sequence of these tokens, of which the last is to be forwarded in
 * any case. */
void kv_prefix_match(const kv_space *space, const kv_history *history, kv_match *match);

/* What a sequence was lent is looked at as if it had been given back (lent false), until it is
 * looked at as it is (true), before anything else is done. Sequences that were lent nothing count
 * for nothing; prefix may be NULL then. */
void kv_prefix_regard(kv_prefix *prefix, const kv_seq *seq, bool lent);

/* Bytes of pages that cannot be evicted, beside those of them that a sequence of these tokens would
 * be lent as well. space NULL: it would be lent nothing. */
uint64_t kv_prefix_bytes_fixed(const kv_prefix *prefix, const kv_space *space,
                               const kv_history *history);

/* kv_seq_create, but the sequence begins with what matches: match->n_usable positions. LIMIT and
 * NOMEM as there. */
weft_status kv_prefix_begin(kv_prefix *prefix, kv_space *space, const kv_history *history,
                            uint32_t n_positions, kv_seq **seq, kv_match *match, weft_error *err);

/* Keeps what a sequence has of positions 0 .. n - 1, n of history, and a boundary at n where layers
 * need one and the sequence has what they need: its state at n, and what the next query there sees.
 * Outside of a step. False when a part of that found no room, or the sequence had no such state:
 * what is kept is less then. */
bool kv_prefix_insert(kv_prefix *prefix, kv_space *space, const kv_seq *seq,
                      const kv_history *history);

/* The same for a sequence that ends, which makes room by its own promise: it is destroyed. */
bool kv_prefix_retire(kv_prefix *prefix, kv_space *space, kv_seq *seq, const kv_history *history);

void kv_prefix_get_stats(const kv_prefix *prefix, kv_prefix_stats *stats);

#endif
