/* bpe.c - byte pair encoding. Short words are merged in an array, long ones over a linked list
 * with a heap; words seen before come from a small table. */
#include "tokenizer/bpe.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "tokenizer/bytelevel.h"

enum {
    SHORT_WORD = 32, /* bytes: quadratic merging costs no more than a heap */
    KNOWN_BYTES = 22,
    KNOWN_IDS = 10,
    KNOWN_MAX = 1 << 14, /* 1 MiB: stays in the second-level cache */
    NO_RANK = -1,        /* as uint32_t: above all */
};

struct bpe_known {
    uint8_t n_bytes; /* 0: free */
    uint8_t n_ids;
    char bytes[KNOWN_BYTES];
    int32_t ids[KNOWN_IDS];
};

struct bpe_symbol {
    int32_t id; /* -1: merged into the one before */
    uint32_t previous;
    uint32_t next; /* UINT32_MAX: none */
};

/* ---- building ---- */

weft_status bpe_init(bpe *b, const weft_allocator *allocator, const vocab *v, size_t n_merges,
                     weft_error *err)
{
    *b = (bpe){.allocator = allocator, .vocab = v, .unknown = -1};
    return pairs_init(&b->merges, allocator, n_merges, err);
}

void bpe_deinit(bpe *b)
{
    if (b->allocator != NULL) pairs_deinit(&b->merges);
    *b = (bpe){0};
}

static weft_status missing(str token, uint32_t rank, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer: '%.*s' of merge %u is not in the vocabulary",
                   (int)(token.len < 100 ? token.len : 100), token.ptr, rank);
}

weft_status bpe_merge(bpe *b, str left, str right, uint32_t rank, weft_error *err)
{
    char local[256];
    char *whole = local;
    size_t n;
    if (!size_add(left.len, right.len, &n))
        return err_set(err, WEFT_LIMIT, "tokenizer: merge %u is too long", rank);
    int32_t a = vocab_find(b->vocab, left);
    int32_t c = vocab_find(b->vocab, right);
    if (a < 0) return missing(left, rank, err);
    if (c < 0) return missing(right, rank, err);
    if (n > sizeof local) whole = mem_alloc(b->allocator, n);
    if (whole == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a merge");
    if (left.len != 0) memcpy(whole, left.ptr, left.len);
    if (right.len != 0) memcpy(whole + left.len, right.ptr, right.len);
    int32_t result = vocab_find(b->vocab, (str){whole, n});
    weft_status status = WEFT_OK;
    if (result < 0) {
        status = missing((str){whole, n}, rank, err);
    } else {
        status =
            pairs_put(&b->merges, pairs_key((uint32_t)a, (uint32_t)c), (uint32_t)result, rank, err);
    }
    if (whole != local) mem_free(b->allocator, whole, n);
    return status;
}

void bpe_finish(bpe *b, bool bytes)
{
    b->bytes = bytes;
    for (uint32_t i = 0; i < 256; i++) {
        char text[4];
        size_t n = utf8_encode(bytelevel_char((uint8_t)i), text);
        b->byte_ids[i] = vocab_find(b->vocab, (str){text, n});
    }
}

weft_status bpe_scratch_init(bpe_scratch *s, const weft_allocator *allocator, size_t text_bytes,
                             weft_error *err)
{
    *s = (bpe_scratch){.allocator = allocator};
    strbuf_init(&s->spelled, allocator, 0);
    size_t n = 0;
    if (text_bytes >= 256) n = 64;
    while (n != 0 && n < KNOWN_MAX && n < text_bytes / 8) n *= 2;
    if (n == 0) return WEFT_OK;
    s->known = mem_alloc_zero(allocator, n * sizeof *s->known);
    if (s->known == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu words", n);
    s->n_known = n;
    return WEFT_OK;
}

void bpe_scratch_deinit(bpe_scratch *s)
{
    mem_free(s->allocator, s->known, s->n_known * sizeof *s->known);
    mem_free(s->allocator, s->symbols, s->n_symbols * sizeof *s->symbols);
    mem_free(s->allocator, s->heap, s->n_symbols * 2 * sizeof *s->heap);
    strbuf_deinit(&s->spelled);
}

/* ---- symbols ---- */

typedef struct symbols {
    const bpe *bpe;
    str word;
    size_t at;
    bool unknown_before; /* the last symbol stood for something unknown */
} symbols;

/* False at the end. The next symbol of a word that has a token; runs of unknown ones are one if
 * fused. */
static bool next_symbol(symbols *s, int32_t *id)
{
    const bpe *b = s->bpe;
    while (s->at < s->word.len) {
        if (b->bytes) {
            *id = b->byte_ids[(unsigned char)s->word.ptr[s->at++]];
        } else {
            uint32_t c;
            size_t n = utf8_decode(s->word.ptr + s->at, s->word.len - s->at, &c);
            if (n == 0) n = 1;
            *id = vocab_find(b->vocab, (str){s->word.ptr + s->at, n});
            s->at += n;
        }
        bool unknown = *id < 0;
        bool again = unknown && s->unknown_before && b->fuse_unknown;
        s->unknown_before = unknown;
        if (!unknown) return true;
        if (b->unknown >= 0 && !again) {
            *id = b->unknown;
            return true;
        }
    }
    return false;
}

/* ---- merging ---- */

static uint32_t rank_of(const bpe *b, int32_t left, int32_t right, int32_t *result)
{
    const pairs_slot *slot = pairs_get(&b->merges, pairs_key((uint32_t)left, (uint32_t)right));
    if (slot == NULL) return (uint32_t)NO_RANK;
    *result = (int32_t)slot->value;
    return slot->rank;
}

static weft_status encode_short(const bpe *b, str word, token_list *out, weft_error *err)
{
    int32_t ids[SHORT_WORD];
    int32_t results[SHORT_WORD];
    uint32_t ranks[SHORT_WORD]; /* of the pair that starts here */
    size_t n = 0;
    symbols s = {.bpe = b, .word = word};
    while (n < SHORT_WORD && next_symbol(&s, &ids[n])) n++;
    for (size_t i = 0; i + 1 < n; i++) ranks[i] = rank_of(b, ids[i], ids[i + 1], &results[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (ranks[i] < ranks[best]) best = i;
        }
        if (ranks[best] == (uint32_t)NO_RANK) break;
        ids[best] = results[best];
        size_t n_moved = n - best - 2;
        memmove(&ids[best + 1], &ids[best + 2], n_moved * sizeof ids[0]);
        memmove(&ranks[best + 1], &ranks[best + 2], n_moved * sizeof ranks[0]);
        memmove(&results[best + 1], &results[best + 2], n_moved * sizeof results[0]);
        n--;
        if (best > 0) ranks[best - 1] = rank_of(b, ids[best - 1], ids[best], &results[best - 1]);
        if (best + 1 < n) ranks[best] = rank_of(b, ids[best], ids[best + 1], &results[best]);
    }
    return token_list_add_all(out, ids, n, err);
}

/* Entries are rank and place in one number, so that the smallest is the next to merge. */
static void heap_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t value = heap[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= value) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = value;
}

static void heap_add(uint64_t *heap, size_t *n, uint64_t value)
{
    size_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2] > value) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = value;
}

static weft_status reserve(bpe_scratch *s, size_t n, weft_error *err)
{
    if (n <= s->n_symbols) return WEFT_OK;
    if (n >= UINT32_MAX / 2)
        return err_set(err, WEFT_LIMIT, "tokenizer: a word of %zu bytes is too long", n);
    mem_free(s->allocator, s->symbols, s->n_symbols * sizeof *s->symbols);
    mem_free(s->allocator, s->heap, s->n_symbols * 2 * sizeof *s->heap);
    s->n_symbols = 0;
    s->symbols = mem_alloc(s->allocator, n * sizeof *s->symbols);
    s->heap = mem_alloc(s->allocator, n * 2 * sizeof *s->heap);
    if (s->symbols == NULL || s->heap == NULL) {
        mem_free(s->allocator, s->symbols, n * sizeof *s->symbols);
        mem_free(s->allocator, s->heap, n * 2 * sizeof *s->heap);
        s->symbols = NULL;
        s->heap = NULL;
        return err_set(err, WEFT_NOMEM, "out of memory for a word of %zu bytes", n);
    }
    s->n_symbols = n;
    return WEFT_OK;
}

static void heap_pair(const bpe *b, bpe_scratch *s, size_t *n_heap, uint32_t i)
{
    int32_t result;
    uint32_t next = s->symbols[i].next;
    if (next == UINT32_MAX) return;
    uint32_t rank = rank_of(b, s->symbols[i].id, s->symbols[next].id, &result);
    if (rank != (uint32_t)NO_RANK) heap_add(s->heap, n_heap, pairs_key(rank, i));
}

/* An entry of the heap is stale when its place no longer starts the pair of its rank. At most
 * one entry a pair at first and two more a merge, less the one taken: two a symbol. */
static void merge_long(const bpe *b, bpe_scratch *s, size_t n)
{
    size_t n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        int32_t result;
        uint32_t rank = rank_of(b, s->symbols[i].id, s->symbols[i + 1].id, &result);
        if (rank != (uint32_t)NO_RANK) s->heap[n_heap++] = pairs_key(rank, (uint32_t)i);
    }
    for (size_t i = n_heap / 2; i-- > 0;) heap_down(s->heap, n_heap, i);
    while (n_heap > 0) {
        uint64_t top = s->heap[0];
        s->heap[0] = s->heap[--n_heap];
        if (n_heap > 1) heap_down(s->heap, n_heap, 0);
        uint32_t i = (uint32_t)top;
        bpe_symbol *symbol = &s->symbols[i];
        if (symbol->id < 0 || symbol->next == UINT32_MAX) continue;
        bpe_symbol *right = &s->symbols[symbol->next];
        int32_t result = 0;
        if (rank_of(b, symbol->id, right->id, &result) != (uint32_t)(top >> 32)) continue;
        symbol->id = result;
        right->id = -1;
        symbol->next = right->next;
        if (symbol->next != UINT32_MAX) s->symbols[symbol->next].previous = i;
        ASSERT_HOT(n_heap + 2 <= s->n_symbols * 2);
        if (symbol->previous != UINT32_MAX) heap_pair(b, s, &n_heap, symbol->previous);
        heap_pair(b, s, &n_heap, i);
    }
}

static weft_status encode_long(const bpe *b, bpe_scratch *s, str word, token_list *out,
                               weft_error *err)
{
    weft_status status = reserve(s, word.len, err);
    if (status != WEFT_OK) return status;
    symbols source = {.bpe = b, .word = word};
    size_t n = 0;
    int32_t id;
    for (; next_symbol(&source, &id); n++) {
        uint32_t place = (uint32_t)n;
        s->symbols[n] = (bpe_symbol){id, n == 0 ? UINT32_MAX : place - 1, place + 1};
    }
    if (n == 0) return WEFT_OK;
    s->symbols[n - 1].next = UINT32_MAX;
    merge_long(b, s, n);
    for (uint32_t i = 0; i != UINT32_MAX && status == WEFT_OK; i = s->symbols[i].next)
        status = token_list_add(out, s->symbols[i].id, err);
    return status;
}

/* ---- words ---- */

/* The id of a word that the vocabulary has as a whole; -1 else. A special token cannot be
 * spelled. */
static weft_status find_whole(const bpe *b, bpe_scratch *s, str word, int32_t *id, weft_error *err)
{
    str text = word;
    *id = -1;
    if (b->bytes) {
        strbuf_clear(&s->spelled);
        for (size_t i = 0; i < word.len; i++) {
            char bytes[4];
            size_t n = utf8_encode(bytelevel_char((uint8_t)word.ptr[i]), bytes);
            strbuf_add(&s->spelled, bytes, n);
        }
        if (s->spelled.status != WEFT_OK)
            return err_set(err, s->spelled.status, "out of memory for a word");
        text = (str){s->spelled.ptr, s->spelled.len};
    }
    int32_t found = vocab_find(b->vocab, text);
    const vocab_entry *entry = vocab_get(b->vocab, found);
    if (entry != NULL && (entry->flags & (VOCAB_MODEL | VOCAB_SPECIAL)) == VOCAB_MODEL) *id = found;
    return WEFT_OK;
}

static weft_status encode_word(const bpe *b, bpe_scratch *s, str word, token_list *out,
                               weft_error *err)
{
    if (b->whole_words) {
        int32_t id;
        weft_status status = find_whole(b, s, word, &id, err);
        if (status != WEFT_OK) return status;
        if (id >= 0) return token_list_add(out, id, err);
    }
    if (word.len <= SHORT_WORD) return encode_short(b, word, out, err);
    return encode_long(b, s, word, out, err);
}

/* Two places for words of one hash, the later one first. */
static const bpe_known *find_known(const bpe_known known[2], str word)
{
    for (size_t i = 0; i < 2; i++) {
        if (known[i].n_bytes == word.len && memcmp(known[i].bytes, word.ptr, word.len) == 0)
            return &known[i];
    }
    return NULL;
}

weft_status bpe_encode(const bpe *b, bpe_scratch *s, str word, token_list *out, weft_error *err)
{
    if (s->n_known == 0 || word.len > KNOWN_BYTES) return encode_word(b, s, word, out, err);
    uint64_t hash = hash_xx64(word.ptr, word.len, 0);
    bpe_known *known = &s->known[hash & (s->n_known - 2)];
    const bpe_known *hit = find_known(known, word);
    if (hit != NULL) return token_list_add_all(out, hit->ids, hit->n_ids, err);
    size_t before = out->len;
    weft_status status = encode_word(b, s, word, out, err);
    size_t n_ids = out->len - before;
    if (status != WEFT_OK || n_ids > KNOWN_IDS) return status;
    known[1] = known[0];
    known->n_bytes = (uint8_t)word.len;
    known->n_ids = (uint8_t)n_ids;
    memcpy(known->bytes, word.ptr, word.len);
    if (n_ids != 0) memcpy(known->ids, out->ids + before, n_ids * sizeof known->ids[0]);
    return status;
}
