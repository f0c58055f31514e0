/* txn.h - sequences, and the transaction by which they grow. States and invariants are in txn.c. */
#ifndef KV_TXN_H
#define KV_TXN_H

#include "kv/page.h"

/* A recurrent layer's pages. Outside of a step there is committed alone, NULL: zeros, as at len 0;
 * and what the last step marked. */
typedef struct kv_state {
    kv_page *committed, *fresh, *record, *marked;
} kv_state;

/* Who keeps pages for a sequence that another's promise pays for, until it is destroyed. */
typedef struct kv_lender {
    void (*take_back)(void *user, void *lent); /* NULL: nobody */
    void *user, *lent;
} kv_lender;

/* One sequence's pages in every layer. */
typedef struct kv_seq {
    kv_pool *pool;           /* borrowed */
    const kv_config *config; /* borrowed */
    uint32_t len;            /* committed positions */
    uint32_t limit;          /* positions it was reserved for */
    size_t slots_total;
    kv_page **held;        /* [slots_total]: layer by layer its slots; NULL: no page held */
    unsigned char **pages; /* [slots_total]: where those are, as kernels want it */
    uint32_t *first_slots; /* [n_layers], where a layer's slots begin */
    uint32_t *n_slots;     /* [n_layers] */
    uint32_t *firsts;      /* [n_layers], lowest position retained */
    /* [n_layers], lowest position from which all that pages hold is of its tokens: they are not
     * overwritten where they are no longer retained. NULL: as firsts. */
    uint32_t *filled;
    kv_state *states; /* [n_layers], of recurrent layers */
    uint32_t mark_at; /* positions at which the marked states stand; 0: there are none */
    /* What was reserved in its codecs and in base. */
    uint32_t need[KV_CLASSES_MOST], base_need[KV_CLASSES_MOST];
    uint32_t cross_need[KV_CLASSES_MOST]; /* for cross layers */
    uint32_t cross_len;   /* the encoder's positions; 0: not written yet (kv/cross.h) */
    uint32_t cross_limit; /* positions it was reserved for; those it has, once written */
    uint32_t lent;        /* positions in whole pages that layers which keep all have from lender */
    kv_lender lender;
    bool reserved;
    bool converted; /* its pages are in its codecs; from the first if start is 0 */
    bool open;      /* a transaction has begun on it */
} kv_seq;

/* Pages that exist already, for a sequence to stand on. */
typedef struct kv_source {
    uint32_t len;   /* positions that they hold */
    bool converted; /* as in kv_seq */
    kv_lender lender;
    const void *user; /* of the functions */
    kv_page *(*page)(const void *user, uint32_t layer, uint32_t page_i);
    uint32_t (*first)(const void *user, uint32_t layer); /* lowest position that is there */
    kv_page *(*state)(const void *user, uint32_t layer); /* of a recurrent layer */
} kv_source;

/* Reserves pages for n_positions, and where there are cross layers for an encoder as long as bounds
 * allow: LIMIT or NOMEM when that cannot be, with nothing changed. */
weft_status kv_seq_create(const weft_allocator *allocator, kv_pool *pool, const kv_config *config,
                          uint32_t n_positions, kv_seq **out, weft_error *err);

/* The same with an encoder of at most n_cross positions, perhaps none. */
weft_status kv_seq_create_cross(const weft_allocator *allocator, kv_pool *pool,
                                const kv_config *config, uint32_t n_positions, uint32_t n_cross,
                                kv_seq **out, weft_error *err);

/* A sequence that stands where source does and may grow to n_positions. They share pages, and
 * whoever writes first has a copy. ARGUMENT inside a transaction and when n_positions is less than
 * source has; else as kv_seq_create. */
weft_status kv_seq_clone(const weft_allocator *allocator, const kv_seq *source,
                         uint32_t n_positions, kv_seq **out, weft_error *err);

/* A sequence that stands where source does, at len, and may grow to n_positions. Pages are shared
 * as with a clone, but whole pages of layers that keep all are lent: they are not reserved again,
 * and the lender hears of the sequence's end. Nothing is lent where it fails: ARGUMENT when
 * n_positions is less than len, else as kv_seq_create. What an encoder wrote is no part of it. */
weft_status kv_seq_resume(const weft_allocator *allocator, kv_pool *pool, const kv_config *config,
                          uint32_t n_positions, const kv_source *source, kv_seq **out,
                          weft_error *err);

/* Another promise: for n_positions in place of what was reserved, more or less, but no less than
 * there are. Its pages stay where they are. ARGUMENT for other numbers and inside a transaction,
 * LIMIT and NOMEM as kv_seq_create, with nothing changed. */
weft_status kv_seq_resize(const weft_allocator *allocator, kv_seq *seq, uint32_t n_positions,
                          weft_error *err);

/* Bytes that it was promised. */
uint64_t kv_seq_bytes(const kv_seq *seq);

/* Positions that a step may append: no row spans the position at which a sequence is converted. */
uint32_t kv_seq_most_append(const kv_seq *seq);

/* Accepts NULL. Gives back every page and the reservation. Traps inside a transaction. */
void kv_seq_destroy(const weft_allocator *allocator, kv_seq *seq);

/* Forgets positions from len on. LIMIT when a window no longer holds what position len sees, when a
 * recurrent layer stands elsewhere (all and nothing can always be kept), and below the position at
 * which the sequence was converted: what it saw there is gone. LIMIT, too, where what was lent
 * would have to be its own and cannot be promised. ARGUMENT when there are not so many positions,
 * and inside a transaction. */
weft_status kv_seq_trim(kv_seq *seq, uint32_t len, weft_error *err);

/* views: [n_layers * stride], this sequence's view of layer i goes to views[i * stride]. Valid
 * until the next begin, commit, rollback or trim. */
void kv_seq_views(const kv_seq *seq, kv_view *views, uint32_t stride);

/* The state of a recurrent layer at mark_at, for others to share (one more of its refs each, and
 * from then on a promise of their own); NULL where there is none, and inside a transaction. */
kv_page *kv_seq_marked(const kv_seq *seq, uint32_t layer);

/* Forgets marked states. Traps inside a transaction. */
void kv_seq_drop_mark(kv_seq *seq);

typedef enum kv_txn_state { KV_TXN_IDLE, KV_TXN_RESERVED } kv_txn_state;

/* A sequence and how many positions it gains. */
typedef struct kv_txn_row {
    kv_seq *seq;
    uint32_t n;
    bool partial; /* a part of them may be kept, which recurrent layers must be prepared for */
    /* The step leaves the states of recurrent layers after so many of its positions, too: marked,
     * if that many are kept, until the next begin, a drop or a trim below. 0: it does not. */
    uint32_t mark;
} kv_txn_row;

typedef struct kv_txn {
    kv_txn_state state;
    const kv_txn_row *rows; /* [n_rows], borrowed until commit or rollback */
    uint32_t n_rows;
} kv_txn;

void kv_txn_init(kv_txn *txn);

/* Pages for positions len .. len + n - 1 of every row and layer, all or nothing. ARGUMENT when
 * already begun, when a sequence stands twice in rows or is in another transaction, and when a mark
 * lies beyond its row; LIMIT when a row exceeds what its sequence was reserved for, what a step may
 * append, or, where a part of it may be kept, what a record holds, and when it has a mark but no
 * page was promised for one. */
weft_status kv_txn_begin(kv_txn *txn, const kv_txn_row *rows, uint32_t n_rows, weft_error *err);

/* keep: [n_rows], positions that become permanent, at most n each, and all or none where there are
 * recurrent layers and the row is not partial; a sequence that thereby reaches start is converted.
 * Cannot fail. */
void kv_txn_commit(kv_txn *txn, const uint32_t *keep);

/* As if begin had not been called, but for a mark that there was before. */
void kv_txn_rollback(kv_txn *txn);

#endif
