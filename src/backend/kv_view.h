/* kv_view.h - one sequence's state in one layer, as kernels see it. kv/ fills it, a backend reads
 * and appends.
 *
 * A page holds page_tokens = P consecutive positions: all key rows, head by head, then at v_offset
 * all value rows:
 *   key of (head, position)   = page + (head * P + position % P) * k_row_bytes
 *   value of (head, position) = page + v_offset + (head * P + position % P) * v_row_bytes
 * Page j of the sequence lies in slot j % n_slots. In a latent layer a value is the first v_dim
 * columns of its key: v_offset is 0 and v_row_bytes that of keys, so that kv_value() finds it, and
 * nothing is stored for it. An index layer has keys alone: what chooses the positions that another
 * state is attended to at.
 *
 * The positions of a cross layer are those of an encoder, whose graph stores them all at once; a
 * decoder's steps only read.
 *
 * A recurrent layer has no positions but a state: buffers of f32 numbers behind one another in one
 * page. A step reads the committed page and fills a fresh one; nobody writes what is committed. It
 * may be asked for a third, the state after the first `mark` of its positions. */
#ifndef BACKEND_KV_VIEW_H
#define BACKEND_KV_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stable: rows of kv/layouts/layouts.def. */
typedef enum kv_layout_id {
    KV_LAYOUT_FULL = 1,
    KV_LAYOUT_WINDOW = 2,
    KV_LAYOUT_CHUNKED = 3,
    KV_LAYOUT_LATENT = 4,
    KV_LAYOUT_RECURRENT = 5,
    KV_LAYOUT_CROSS = 7, /* 6: shared, which no view has */
    KV_LAYOUT_INDEX = 8,
} kv_layout_id;

/* Buffers of a recurrent layer: of graph.h's operations, the first inputs of conv, and the matrices
 * of gated_delta. */
enum { KV_BUFFERS = 2, KV_BUFFER_TAIL = 0, KV_BUFFER_MATRIX = 1 };

/* What a layer needs, before anything is known of codecs: a model states it, kv/ turns it into a
 * geometry. */
typedef struct kv_layer {
    uint8_t layout; /* kv_layout_id */
    uint32_t n_heads, k_dim, v_dim;
    uint32_t window; /* positions a query sees, itself included; of a chunk; 0: all */
    uint32_t of;     /* of an index, whose v_dim is 0: the model's layer that it belongs to */
    /* Of a recurrent layer, which has none of the above but layout: f32 numbers of each buffer (0:
     * it has no such buffer), and of a position in the record from which a step is replayed. */
    uint32_t buffers[KV_BUFFERS];
    uint32_t record;
} kv_layer;

/* What a layer stores; equal for all sequences of an engine that were given the same codecs. */
typedef struct kv_geometry {
    uint8_t layout;           /* kv_layout_id */
    uint8_t k_codec, v_codec; /* ids of kv/codecs */
    uint8_t base;             /* id of the dense type that rows are rounded to before packing */
    uint32_t n_heads, k_dim, v_dim;
    uint32_t k_coded;     /* columns of a key that k_codec stores; those behind them are in base */
    uint32_t window;      /* as in kv_layer */
    uint32_t page_tokens; /* a power of two dividing KV_SPLIT */
    size_t k_tail;        /* where in a key's row columns k_coded .. k_dim - 1 begin */
    size_t k_row_bytes, v_row_bytes, v_offset, page_bytes;
    size_t buffers_at[KV_BUFFERS];   /* of a recurrent layer: where in its page each begins, */
    size_t buffer_bytes[KV_BUFFERS]; /* and its size; 0: it has no such buffer */
    size_t record_bytes;             /* likewise: of a position */
} kv_geometry;

typedef struct kv_view {
    const kv_geometry *geometry;
    unsigned char *const *pages; /* [n_slots]; NULL where no page is held */
    uint32_t n_slots;
    /* Committed positions: this step writes len, len + 1, ...; of a cross layer those of the
     * encoder, 0 while they are written. */
    uint32_t len;
    /* Of a recurrent layer, n_slots 0: pages of buffers. */
    const unsigned char *committed; /* NULL: all zeros, as at len 0 */
    unsigned char *fresh;           /* the whole state after the step; NULL outside of one */
    unsigned char *record; /* [positions of the row, record_bytes]; NULL: nobody will replay it */
    unsigned char *marked; /* the whole state after the first mark of the step; NULL: not wanted */
    uint32_t mark;         /* at least 1, at most the positions of the row */
} kv_view;

/* Attention cuts the positions at multiples of this and merges in ascending order
 * (docs/numerics.md). */
enum { KV_SPLIT = 256 };

/* Lowest position that a query at position sees. */
static inline uint32_t kv_lowest(const kv_geometry *g, uint32_t position)
{
    if (g->layout == KV_LAYOUT_CHUNKED) return position - position % g->window;
    if (g->layout != KV_LAYOUT_WINDOW || position < g->window) return 0;
    return position - g->window + 1;
}

/* Whether a layer stores values: they may be the first columns of its keys, or not be there. */
static inline bool kv_has_values(const kv_geometry *g)
{
    return g->layout != KV_LAYOUT_LATENT && g->layout != KV_LAYOUT_INDEX;
}

static inline unsigned char *kv_key(const kv_view *v, uint32_t head, uint32_t position)
{
    const kv_geometry *g = v->geometry;
    unsigned char *page = v->pages[(position / g->page_tokens) % v->n_slots];
    size_t row = (size_t)head * g->page_tokens + position % g->page_tokens;
    return page + row * g->k_row_bytes;
}

static inline unsigned char *kv_value(const kv_view *v, uint32_t head, uint32_t position)
{
    const kv_geometry *g = v->geometry;
    unsigned char *page = v->pages[(position / g->page_tokens) % v->n_slots];
    size_t row = (size_t)head * g->page_tokens + position % g->page_tokens;
    return page + g->v_offset + row * g->v_row_bytes;
}

/* NULL: zeros. */
static inline const float *kv_committed(const kv_view *v, uint32_t buffer)
{
    if (v->committed == NULL) return NULL;
    return (const float *)(const void *)(v->committed + v->geometry->buffers_at[buffer]);
}

static inline float *kv_fresh(const kv_view *v, uint32_t buffer)
{
    return (float *)(void *)(v->fresh + v->geometry->buffers_at[buffer]);
}

static inline float *kv_marked(const kv_view *v, uint32_t buffer)
{
    return (float *)(void *)(v->marked + v->geometry->buffers_at[buffer]);
}

/* Of the n-th position of a row. */
static inline float *kv_record(const kv_view *v, uint32_t n)
{
    return (float *)(void *)(v->record + (size_t)n * v->geometry->record_bytes);
}

#endif
