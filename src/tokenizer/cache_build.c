/* cache_build.c - the bytes of a cache file. */
#include <string.h>

#include "tokenizer/cache.h"

enum { CACHE_ORDER = 0x01020304 };

void cache_head_fill(cache_head *head, const cache_key *key)
{
    static const char MAGIC[] = "weft-tok";
    memset(head, 0, sizeof *head); /* also what lies between the members */
    memcpy(head->magic, MAGIC, sizeof head->magic);
    head->version = CACHE_VERSION;
    head->order = CACHE_ORDER;
    head->layout = sizeof(size_t) | sizeof(pairs_slot) << 8 | sizeof(vocab_slot) << 16 |
                   sizeof(cache_token) << 24 | (uint64_t)sizeof(cache_head) << 32;
    head->library = WEFT_VERSION_MAJOR << 16 | WEFT_VERSION_MINOR << 8 | WEFT_VERSION_PATCH;
    head->key = *key;
}

uint64_t cache_checksum(const unsigned char *data, size_t n_bytes)
{
    size_t first = offsetof(cache_head, checksum) + sizeof(uint64_t);
    return hash_xx64(data + first, n_bytes - first, 0);
}

/* ---- sizes ---- */

static const pairs *pairs_of(const tokenizer *t)
{
    const model *m = &t->model;
    if (m->kind == MODEL_BPE) return &m->bpe.merges;
    if (m->kind == MODEL_UNIGRAM) return &m->unigram.trie.children;
    return m->kind == MODEL_WORDPIECE ? &m->wordpiece.trie.children : NULL;
}

static uint32_t nodes_of(const model *m)
{
    if (m->kind == MODEL_UNIGRAM) return m->unigram.trie.n_nodes;
    return m->kind == MODEL_WORDPIECE ? m->wordpiece.trie.n_nodes : 0;
}

static int32_t unknown_of(const model *m)
{
    if (m->kind == MODEL_BPE) return m->bpe.unknown;
    if (m->kind == MODEL_UNIGRAM) return m->unigram.unknown;
    return m->kind == MODEL_WORDPIECE ? m->wordpiece.unknown : m->unknown;
}

static bool stands_apart(const vocab_entry *entry)
{
    return entry->bytes != entry->text;
}

static void measure(cache_head *head, const tokenizer *t, size_t n_rest)
{
    const vocab *v = &t->vocab;
    const model *m = &t->model;
    const pairs *p = pairs_of(t);
    uint64_t *sizes = head->sizes;
    sizes[CACHE_REST] = n_rest;
    for (uint32_t i = 0; i < v->n; i++) {
        sizes[CACHE_TEXTS] += v->entries[i].text_len;
        if (stands_apart(&v->entries[i])) sizes[CACHE_BYTES] += v->entries[i].bytes_len;
    }
    sizes[CACHE_TOKENS] = v->n * sizeof(cache_token);
    sizes[CACHE_SLOTS] = v->n_slots * sizeof(vocab_slot);
    if (p != NULL) sizes[CACHE_PAIRS] = p->n_slots * sizeof(pairs_slot);
    if (m->kind == MODEL_BPE) sizes[CACHE_JOINED] = sizeof m->bpe.joined;
    if (m->kind == MODEL_UNIGRAM)
        sizes[CACHE_SCORES] = m->unigram.capacity * sizeof *m->unigram.scores;
    sizes[CACHE_ADDED] = t->added.n_tokens * sizeof(cache_added);
    sizes[CACHE_ADDED_TRIE] = t->added.trie.children.n_slots * sizeof(pairs_slot);
    sizes[CACHE_NORMALIZED] = t->added_normalized.n_tokens * sizeof(cache_added);
    sizes[CACHE_NORMALIZED_TRIE] = t->added_normalized.trie.children.n_slots * sizeof(pairs_slot);
}

/* ---- sections ---- */

typedef struct writer {
    unsigned char *at[CACHE_SECTIONS]; /* where the next bytes of each go */
} writer;

static void put(writer *w, cache_section s, const void *bytes, size_t n)
{
    if (n != 0) memcpy(w->at[s], bytes, n);
    w->at[s] += n;
}

static void put_vocab(writer *w, const vocab *v)
{
    for (uint32_t i = 0; i < v->n; i++) {
        const vocab_entry *entry = &v->entries[i];
        cache_token token = {entry->text_len, entry->bytes_len, entry->flags};
        put(w, CACHE_TEXTS, entry->text, entry->text_len);
        if (stands_apart(entry)) {
            token.flags |= CACHE_APART;
            put(w, CACHE_BYTES, entry->bytes, entry->bytes_len);
        }
        put(w, CACHE_TOKENS, &token, sizeof token);
    }
    put(w, CACHE_SLOTS, v->slots, v->n_slots * sizeof *v->slots);
}

static void put_pairs(writer *w, cache_section s, const pairs *p)
{
    put(w, s, p->slots, p->n_slots * sizeof *p->slots);
}

static void put_added(writer *w, cache_section s, const added *a)
{
    for (uint32_t i = 0; i < a->n_tokens; i++) {
        const added_token *token = &a->tokens[i];
        cache_added to = {token->id, 0};
        if (token->single_word) to.flags |= CACHE_SINGLE_WORD;
        if (token->lstrip) to.flags |= CACHE_LSTRIP;
        if (token->rstrip) to.flags |= CACHE_RSTRIP;
        put(w, s, &to, sizeof to);
    }
    put_pairs(w, s + 1, &a->trie.children);
}

static void put_model(writer *w, const tokenizer *t)
{
    const model *m = &t->model;
    const pairs *p = pairs_of(t);
    if (p != NULL) put_pairs(w, CACHE_PAIRS, p);
    if (m->kind == MODEL_BPE) put(w, CACHE_JOINED, m->bpe.joined, sizeof m->bpe.joined);
    if (m->kind == MODEL_UNIGRAM)
        put(w, CACHE_SCORES, m->unigram.scores, m->unigram.capacity * sizeof *m->unigram.scores);
}

/* ---- the file ---- */

static void fill_head(cache_head *head, const tokenizer *t, const json_cut *cut)
{
    const model *m = &t->model;
    head->kind = (uint32_t)m->kind;
    head->seed = t->vocab.seed;
    head->n_listed = (uint32_t)cut->n_vocab;
    head->unknown = unknown_of(m);
    head->parts = m->kind == MODEL_BPE && m->bpe.parts;
    if (m->kind == MODEL_UNIGRAM) head->lowest = m->unigram.lowest;
    head->n_nodes[0] = nodes_of(m);
    head->n_nodes[1] = t->added.trie.n_nodes;
    head->n_nodes[2] = t->added_normalized.trie.n_nodes;
}

static weft_status build(const weft_allocator *allocator, cache_head *head, const tokenizer *t,
                         str rest, unsigned char **data, size_t *n_bytes, weft_error *err)
{
    size_t offsets[CACHE_SECTIONS];
    size_t n = size_align(sizeof *head, CACHE_ALIGN);
    for (size_t i = 0; i < CACHE_SECTIONS; i++) {
        if (head->sizes[i] > UINT32_MAX)
            return err_set(err, WEFT_LIMIT, "the tables are too large");
        offsets[i] = n;
        n = size_align(n + (size_t)head->sizes[i], CACHE_ALIGN);
    }
    unsigned char *to = mem_alloc_zero(allocator, n);
    if (to == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu bytes", n);
    writer w;
    for (size_t i = 0; i < CACHE_SECTIONS; i++) w.at[i] = to + offsets[i];
    put(&w, CACHE_REST, rest.ptr, rest.len);
    put_vocab(&w, &t->vocab);
    put_model(&w, t);
    put_added(&w, CACHE_ADDED, &t->added);
    put_added(&w, CACHE_NORMALIZED, &t->added_normalized);
    memcpy(to, head, sizeof *head);
    head->checksum = cache_checksum(to, n);
    memcpy(to, head, sizeof *head);
    *data = to;
    *n_bytes = n;
    return WEFT_OK;
}

weft_status cache_build(const weft_allocator *allocator, const cache_key *key, const tokenizer *t,
                        const json_cut *cut, str text, unsigned char **data, size_t *n_bytes,
                        weft_error *err)
{
    cache_head head;
    strbuf rest;
    *data = NULL;
    *n_bytes = 0;
    strbuf_init(&rest, allocator, 0);
    json_cut_bare(cut, text, &rest);
    weft_status status = rest.status;
    if (status != WEFT_OK) {
        err_set(err, status, "out of memory for the tokenizer");
    } else {
        cache_head_fill(&head, key);
        fill_head(&head, t, cut);
        measure(&head, t, rest.len);
        status =
            build(allocator, &head, t, (str){strbuf_text(&rest), rest.len}, data, n_bytes, err);
    }
    strbuf_deinit(&rest);
    return status;
}
