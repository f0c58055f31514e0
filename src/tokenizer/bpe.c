/* bpe.c - byte pair encoding. Short words are merged in an array, long ones over a linked list
 * with a heap. */
#include "tokenizer/bpe.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/bytelevel.h"

enum {
    SHORT_WORD = 32, /* symbols: quadratic merging costs no more than a heap */
    NO_RANK = -1,    /* as uint32_t: above all */
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
    int32_t a = vocab_find_model(b->vocab, left);
    int32_t c = vocab_find_model(b->vocab, right);
    if (a < 0) return missing(left, rank, err);
    if (c < 0) return missing(right, rank, err);
    if (b->prefix.len != 0 && b->prefix.len <= right.len) {
        right.ptr += b->prefix.len;
        right.len -= b->prefix.len;
    }
    if (!size_add(left.len, right.len, &n))
        return err_set(err, WEFT_LIMIT, "tokenizer: merge %u is too long", rank);
    if (n > sizeof local) whole = mem_alloc(b->allocator, n);
    if (whole == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a merge");
    if (left.len != 0) memcpy(whole, left.ptr, left.len);
    if (right.len != 0) memcpy(whole + left.len, right.ptr, right.len);
    int32_t result = vocab_find_model(b->vocab, (str){whole, n});
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

weft_status bpe_merge_parts(bpe *b, int32_t id, uint32_t rank, weft_error *err)
{
    const vocab_entry *entry = vocab_get(b->vocab, id);
    if (entry == NULL) return WEFT_OK;
    if (entry->text_len > BPE_PART_BYTES) {
        return err_set(err, WEFT_LIMIT,
                       "tokenizer: token %d has %u bytes, at most %d are supported", id,
                       entry->text_len, BPE_PART_BYTES);
    }
    if (b->merges.n_keys > BPE_PART_PAIRS) {
        return err_set(err, WEFT_LIMIT, "tokenizer: %zu pairs of tokens, at most %d are supported",
                       b->merges.n_keys, BPE_PART_PAIRS);
    }
    weft_status status = WEFT_OK;
    for (uint32_t at = 1; at < entry->text_len && status == WEFT_OK; at++) {
        if (((unsigned char)entry->text[at] & 0xc0) == 0x80) continue; /* inside a character */
        int32_t left = vocab_find_model(b->vocab, (str){entry->text, at});
        if (left < 0) continue;
        int32_t right = vocab_find_model(b->vocab, (str){entry->text + at, entry->text_len - at});
        if (right < 0) continue;
        uint64_t key = pairs_key((uint32_t)left, (uint32_t)right);
        status = pairs_put(&b->merges, key, (uint32_t)id, rank, err);
    }
    return status;
}

/* Marks which bytes stand side by side where two characters of a text meet. */
static void mark_joined(bpe *b, const vocab_entry *entry)
{
    for (uint32_t i = 1; i < entry->text_len; i++) {
        unsigned char byte = (unsigned char)entry->text[i];
        unsigned char before = (unsigned char)entry->text[i - 1];
        if ((byte & 0xc0) != 0x80) b->joined[before][byte / 64] |= (uint64_t)1 << (byte % 64);
    }
}

static bool is_byte_token(const vocab_entry *entry)
{
    return entry->text_len == 6 && memcmp(entry->text, "<0x", 3) == 0;
}

/* A word may be cut where no result of a merge has the two characters side by side, unless what is
 * unknown on both sides would be put together. */
static bool find_joined(bpe *b)
{
    bool complete = b->byte_fallback;
    for (size_t i = 0; i < 256 && complete; i++) complete = b->fallback_ids[i] >= 0;
    if (b->bytes || b->whole_words || b->prefix.len != 0 || b->suffix.len != 0) return false;
    if (!complete && (b->byte_fallback || (b->unknown >= 0 && b->fuse_unknown))) return false;
    memset(b->joined, 0, sizeof b->joined);
    for (size_t i = 0; i < b->merges.n_slots; i++) {
        const pairs_slot *slot = &b->merges.slots[i];
        if (slot->key == PAIRS_FREE) continue;
        if (is_byte_token(vocab_get(b->vocab, (int32_t)(slot->key >> 32)))) return false;
        if (is_byte_token(vocab_get(b->vocab, (int32_t)(uint32_t)slot->key))) return false;
        mark_joined(b, vocab_get(b->vocab, (int32_t)slot->value));
    }
    return true;
}

/* A special token is found as it stands or not at all. */
static void forbid_specials(bpe *b)
{
    for (size_t i = 0; i < b->merges.n_slots; i++) {
        pairs_slot *slot = &b->merges.own[i];
        if (slot->key == PAIRS_FREE) continue;
        const vocab_entry *entry = vocab_get(b->vocab, (int32_t)slot->value);
        if ((entry->flags & VOCAB_SPECIAL) != 0) slot->rank = (uint32_t)NO_RANK;
    }
}

void bpe_finish(bpe *b, bool bytes)
{
    b->bytes = bytes;
    if (!b->restored) forbid_specials(b);
    for (uint32_t i = 0; i < 256; i++) {
        char text[4];
        size_t n = utf8_encode(bytes ? bytelevel_char((uint8_t)i) : i, text);
        b->byte_ids[i] = vocab_find_model(b->vocab, (str){text, n});
    }
    if (b->byte_fallback) vocab_byte_ids(b->vocab, b->fallback_ids);
    if (!b->restored) b->parts = find_joined(b);
}

void bpe_scratch_init(bpe_scratch *s, const weft_allocator *allocator)
{
    *s = (bpe_scratch){.allocator = allocator};
    token_list_init(&s->ids, allocator);
    strbuf_init(&s->word, allocator, 0);
    strbuf_init(&s->spelled, allocator, 0);
}

void bpe_scratch_deinit(bpe_scratch *s)
{
    mem_free(s->allocator, s->symbols, s->n_symbols * sizeof *s->symbols);
    mem_free(s->allocator, s->heap, s->n_symbols * 2 * sizeof *s->heap);
    token_list_deinit(&s->ids);
    strbuf_deinit(&s->word);
    strbuf_deinit(&s->spelled);
}

/* ---- symbols ---- */

/* A run of unknown symbols is given when something known follows, not when bytes do: as in
 * Hugging Face's. */
typedef struct symbols {
    const bpe *bpe;
    bpe_scratch *scratch;
    bool unknown; /* a run has begun */
} symbols;

static weft_status end_unknown(symbols *s, weft_error *err)
{
    if (!s->unknown) return WEFT_OK;
    s->unknown = false;
    return token_list_add(&s->scratch->ids, s->bpe->unknown, err);
}

static weft_status add_unknown(symbols *s, weft_error *err)
{
    if (s->bpe->unknown < 0) return WEFT_OK;
    weft_status status = s->bpe->fuse_unknown ? WEFT_OK : end_unknown(s, err);
    s->unknown = true;
    return status;
}

static weft_status add_bytes(symbols *s, str text, weft_error *err)
{
    const int32_t *ids = s->bpe->fallback_ids;
    for (size_t i = 0; i < text.len; i++) {
        if (ids[(unsigned char)text.ptr[i]] < 0) return add_unknown(s, err);
    }
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < text.len && status == WEFT_OK; i++)
        status = token_list_add(&s->scratch->ids, ids[(unsigned char)text.ptr[i]], err);
    return status;
}

/* A word in the byte-level alphabet. */
static weft_status spell_bytes(bpe_scratch *s, str word, str *spelled, weft_error *err)
{
    strbuf_clear(&s->word);
    for (size_t i = 0; i < word.len; i++) {
        char bytes[4];
        size_t n = utf8_encode(bytelevel_char((uint8_t)word.ptr[i]), bytes);
        strbuf_add(&s->word, bytes, n);
    }
    *spelled = (str){strbuf_text(&s->word), s->word.len};
    if (s->word.status == WEFT_OK) return WEFT_OK;
    return err_set(err, s->word.status, "out of memory for a word");
}

/* One character with what its place in the word puts around it. */
static weft_status spell(const bpe *b, bpe_scratch *s, str text, bool first, bool last,
                         str *spelled, weft_error *err)
{
    strbuf_clear(&s->spelled);
    if (!first) strbuf_add(&s->spelled, b->prefix.ptr, b->prefix.len);
    strbuf_add(&s->spelled, text.ptr, text.len);
    if (last) strbuf_add(&s->spelled, b->suffix.ptr, b->suffix.len);
    *spelled = (str){strbuf_text(&s->spelled), s->spelled.len};
    if (s->spelled.status == WEFT_OK) return WEFT_OK;
    return err_set(err, s->spelled.status, "out of memory for a word");
}

static weft_status read_chars(symbols *s, str word, weft_error *err)
{
    const bpe *b = s->bpe;
    bool affixes = b->prefix.len != 0 || b->suffix.len != 0;
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < word.len && status == WEFT_OK;) {
        uint32_t c;
        size_t n = utf8_decode(word.ptr + at, word.len - at, &c);
        if (n == 0) n = 1;
        str text = {word.ptr + at, n};
        int32_t id;
        if (affixes) {
            status = spell(b, s->scratch, text, at == 0, at + n == word.len, &text, err);
            if (status != WEFT_OK) return status;
        }
        id = n == 1 && !affixes ? b->byte_ids[(unsigned char)*text.ptr]
                                : vocab_find_model(b->vocab, text);
        at += n;
        if (id >= 0) {
            status = end_unknown(s, err);
            if (status == WEFT_OK) status = token_list_add(&s->scratch->ids, id, err);
        } else {
            status = b->byte_fallback ? add_bytes(s, text, err) : add_unknown(s, err);
        }
    }
    return status;
}

/* Fills the list of the scratch. */
static weft_status read_symbols(const bpe *b, bpe_scratch *scratch, str word, weft_error *err)
{
    symbols s = {b, scratch, false};
    weft_status status = WEFT_OK;
    scratch->ids.len = 0;
    if (b->bytes && (b->prefix.len != 0 || b->suffix.len != 0)) {
        status = spell_bytes(scratch, word, &word, err);
        if (status == WEFT_OK) status = read_chars(&s, word, err);
    } else if (!b->bytes) {
        status = read_chars(&s, word, err);
    } else {
        for (size_t i = 0; i < word.len && status == WEFT_OK; i++) {
            int32_t id = b->byte_ids[(unsigned char)word.ptr[i]];
            if (id < 0) {
                status = add_unknown(&s, err);
                continue;
            }
            status = end_unknown(&s, err);
            if (status == WEFT_OK) status = token_list_add(&scratch->ids, id, err);
        }
    }
    return status == WEFT_OK ? end_unknown(&s, err) : status;
}

/* ---- merging ---- */

static uint32_t rank_of(const bpe *b, int32_t left, int32_t right, int32_t *result)
{
    const pairs_slot *slot = pairs_get(&b->merges, pairs_key((uint32_t)left, (uint32_t)right));
    if (slot == NULL) return (uint32_t)NO_RANK;
    *result = (int32_t)slot->value;
    return slot->rank;
}

/* Merges ids in place. */
static weft_status encode_short(const bpe *b, token_list *list, token_list *out, weft_error *err)
{
    int32_t *ids = list->ids;
    int32_t results[SHORT_WORD];
    uint32_t ranks[SHORT_WORD]; /* of the pair that starts here */
    size_t n = list->len;
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

static weft_status encode_long(const bpe *b, bpe_scratch *s, token_list *out, weft_error *err)
{
    size_t n = s->ids.len;
    weft_status status = reserve(s, n, err);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < n; i++) {
        uint32_t place = (uint32_t)i;
        s->symbols[i] = (bpe_symbol){s->ids.ids[i], i == 0 ? UINT32_MAX : place - 1, place + 1};
    }
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
        weft_status status = spell_bytes(s, word, &text, err);
        if (status != WEFT_OK) return status;
    }
    int32_t found = vocab_find(b->vocab, text);
    const vocab_entry *entry = vocab_get(b->vocab, found);
    if (entry != NULL && (entry->flags & (VOCAB_MODEL | VOCAB_SPECIAL)) == VOCAB_MODEL) *id = found;
    return WEFT_OK;
}

weft_status bpe_encode(const bpe *b, bpe_scratch *s, str word, token_list *out, weft_error *err)
{
    weft_status status;
    if (b->whole_words) {
        int32_t id;
        status = find_whole(b, s, word, &id, err);
        if (status != WEFT_OK) return status;
        if (id >= 0) return token_list_add(out, id, err);
    }
    status = read_symbols(b, s, word, err);
    if (status != WEFT_OK || s->ids.len == 0) return status;
    if (s->ids.len <= SHORT_WORD) return encode_short(b, &s->ids, out, err);
    return encode_long(b, s, out, err);
}

size_t bpe_part(const bpe *b, str word)
{
    if (!b->parts) return word.len;
    for (size_t at = 1; at < word.len; at++) {
        unsigned char byte = (unsigned char)word.ptr[at];
        unsigned char before = (unsigned char)word.ptr[at - 1];
        if ((byte & 0xc0) == 0x80) continue;
        if ((b->joined[before][byte / 64] >> (byte % 64) & 1) == 0) return at;
    }
    return word.len;
}
