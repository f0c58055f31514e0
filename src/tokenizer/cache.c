/* cache.c - cache files: their names, reading and checking them, and tables from them.
 *
 * The two large tables, spellings and pairs, are used where they stand in the map: filling memory
 * of our own takes longer than all the rest, for the page faults. Whatever is used as an index is
 * checked once, here. A file is only ever replaced as a whole, so it stays what was checked. */
#include "tokenizer/cache.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* A checked file. */
struct cache_tables {
    const cache_head *head;
    const unsigned char *sections[CACHE_SECTIONS];
};

/* ---- names ---- */

static cache_key key_of(const char *source, str text)
{
    uint64_t seed = hash_xx64(source, strlen(source), 0);
    return (cache_key){text.len, hash_xx128(text.ptr, text.len, seed)};
}

bool cache_place_of(const tokenizer_cache *settings, const char *source, str text,
                    cache_place *place)
{
    place->key = key_of(source, text);
    int n =
        snprintf(place->path, sizeof place->path, "%s/%016llx%016llx", settings->folder,
                 (unsigned long long)place->key.hash.high, (unsigned long long)place->key.hash.low);
    return n > 0 && (size_t)n < sizeof place->path;
}

bool cache_find(const env *world, const tokenizer_cache *settings, const char *source,
                tokenizer **t)
{
    const io *files = world->io;
    cache_place place;
    uint64_t size;
    io_map text;
    io_map file;
    if (files->size(files, source, &size, NULL) != WEFT_OK) return false;
    if (size < settings->least_bytes || size == 0 || size > TOKENIZER_FILE_BYTES) return false;
    if (files->map(files, source, &text, NULL) != WEFT_OK) return false;
    bool named =
        cache_place_of(settings, source, (str){(const char *)text.data, text.size}, &place);
    files->unmap(files, &text);
    if (!named || files->map(files, place.path, &file, NULL) != WEFT_OK) return false;
    weft_error err = {WEFT_OK, ""};
    if (cache_load(world, &file, &place.key, t, &err) == WEFT_OK) return true;
    files->unmap(files, &file);
    log_write(world->log, WEFT_LOG_INFO, "'%s' is not used: %s", place.path, err.message);
    return false;
}

void cache_save(const env *world, const cache_place *place, const tokenizer *t, const json_cut *cut,
                str text)
{
    unsigned char *data;
    size_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    weft_status status =
        cache_build(world->allocator, &place->key, t, cut, text, &data, &n_bytes, &err);
    if (status == WEFT_OK) {
        status = world->io->write(world->io, place->path, data, n_bytes, &err);
        mem_free(world->allocator, data, n_bytes);
    }
    if (status != WEFT_OK)
        log_write(world->log, WEFT_LOG_INFO, "no cache of the tokenizer: %s", err.message);
}

/* ---- the file ---- */

static weft_status broken(const char *what, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "tokenizer cache: %s", what);
}

static const unsigned char *section(const cache_tables *c, cache_section s)
{
    return c->sections[s];
}

/* Elements of a section; its size is a multiple of theirs. */
static size_t count(const cache_tables *c, cache_section s, size_t element)
{
    return (size_t)c->head->sizes[s] / element;
}

static weft_status find_sections(cache_tables *c, const io_map *file, weft_error *err)
{
    static const size_t ELEMENTS[CACHE_SECTIONS] = {
        [CACHE_REST] = 1,
        [CACHE_TEXTS] = 1,
        [CACHE_BYTES] = 1,
        [CACHE_TOKENS] = sizeof(cache_token),
        [CACHE_SLOTS] = sizeof(vocab_slot),
        [CACHE_PAIRS] = sizeof(pairs_slot),
        [CACHE_JOINED] = sizeof(uint64_t),
        [CACHE_SCORES] = sizeof(double),
        [CACHE_ADDED] = sizeof(cache_added),
        [CACHE_ADDED_TRIE] = sizeof(pairs_slot),
        [CACHE_NORMALIZED] = sizeof(cache_added),
        [CACHE_NORMALIZED_TRIE] = sizeof(pairs_slot),
    };
    size_t at = size_align(sizeof(cache_head), CACHE_ALIGN);
    for (size_t i = 0; i < CACHE_SECTIONS; i++) {
        uint64_t size = c->head->sizes[i];
        if (at > file->size || size > file->size - at || size % ELEMENTS[i] != 0)
            return broken("a section does not fit", err);
        c->sections[i] = file->data + at;
        at = size_align(at + (size_t)size, CACHE_ALIGN);
    }
    return at == file->size ? WEFT_OK : broken("its size is another", err);
}

static weft_status open_file(cache_tables *c, const io_map *file, const cache_key *key,
                             weft_error *err)
{
    cache_head want;
    cache_head_fill(&want, key);
    if (file->size < sizeof want) return broken("it is too short", err);
    const cache_head *head = (const cache_head *)(const void *)file->data;
    *c = (cache_tables){.head = head};
    if (memcmp(head->magic, want.magic, sizeof want.magic) != 0 || head->version != want.version ||
        head->order != want.order || head->layout != want.layout || head->library != want.library)
        return broken("it is from another version", err);
    if (memcmp(&head->key, key, sizeof *key) != 0) return broken("it is of another file", err);
    if (head->checksum != cache_checksum(file->data, file->size))
        return broken("its checksum is another", err);
    return find_sections(c, file, err);
}

weft_status cache_load(const env *world, io_map *file, const cache_key *key, tokenizer **out,
                       weft_error *err)
{
    cache_tables c;
    json_doc doc = {NULL};
    tokenizer *t = NULL;
    *out = NULL;
    weft_status status = open_file(&c, file, key, err);
    if (status != WEFT_OK) return status;
    json_cut cut = {.vocab = {"", 0}, .merges = {"", 0}, .cached = &c};
    cut.n_vocab = c.head->n_listed;
    const char *rest = (const char *)section(&c, CACHE_REST);
    status = json_parse(&doc, rest, count(&c, CACHE_REST, 1), err);
    if (status == WEFT_OK) status = pipeline_create(world->allocator, &t, err);
    if (status == WEFT_OK) status = load_json(t, doc.root, &cut, err);
    json_doc_free(&doc);
    if (status != WEFT_OK) {
        tokenizer_destroy(t);
        return status;
    }
    t->files = world->io;
    t->map = *file;
    *file = (io_map){0};
    *out = t;
    return WEFT_OK;
}

/* ---- tables ---- */

static bool is_table(size_t n_slots)
{
    return n_slots >= 2 && (n_slots & (n_slots - 1)) == 0;
}

/* A search ends at a free slot; ids are indices. */
static weft_status check_slots(const vocab_slot *slots, size_t n_slots, uint32_t n, size_t *n_keys,
                               weft_error *err)
{
    size_t n_free = 0;
    size_t n_beyond = 0; /* the free ones, too: so there is nothing to branch on */
    for (size_t i = 0; i < n_slots; i++) {
        n_free += slots[i].id == VOCAB_FREE;
        n_beyond += slots[i].id >= n;
    }
    *n_keys = n_slots - n_free;
    if (!is_table(n_slots) || n_free < n_slots / 2 || n_beyond != n_free)
        return broken("its table of spellings is not one", err);
    return WEFT_OK;
}

static weft_status restore_vocab(const cache_tables *c, vocab *v, weft_error *err)
{
    const cache_token *tokens = (const cache_token *)(const void *)section(c, CACHE_TOKENS);
    const vocab_slot *slots = (const vocab_slot *)(const void *)section(c, CACHE_SLOTS);
    const char *text = (const char *)section(c, CACHE_TEXTS);
    const char *bytes = (const char *)section(c, CACHE_BYTES);
    size_t text_left = count(c, CACHE_TEXTS, 1);
    size_t bytes_left = count(c, CACHE_BYTES, 1);
    size_t n = count(c, CACHE_TOKENS, sizeof *tokens);
    size_t n_slots = count(c, CACHE_SLOTS, sizeof *slots);
    size_t n_keys;
    if (n > TOKENIZER_VOCAB || c->head->n_listed > n) return broken("too many tokens", err);
    weft_status status = check_slots(slots, n_slots, (uint32_t)n, &n_keys, err);
    if (status == WEFT_OK)
        status = vocab_restore(v, (uint32_t)n, slots, n_slots, n_keys, c->head->seed, err);
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        cache_token token = tokens[i];
        bool apart = (token.flags & CACHE_APART) != 0;
        size_t n_bytes = apart ? token.bytes_len : 0;
        v->entries[i] = (vocab_entry){.text = text,
                                      .bytes = apart ? bytes : text,
                                      .text_len = token.text_len,
                                      .bytes_len = token.bytes_len,
                                      .flags = token.flags & VOCAB_FLAGS};
        if (token.text_len > text_left || n_bytes > bytes_left ||
            (!apart && token.bytes_len != token.text_len))
            return broken("a token does not fit", err);
        text += token.text_len;
        text_left -= token.text_len;
        bytes += n_bytes;
        bytes_left -= n_bytes;
    }
    return status;
}

static weft_status restore_merges(const cache_tables *c, bpe *b, uint32_t n, weft_error *err)
{
    const pairs_slot *slots = (const pairs_slot *)(const void *)section(c, CACHE_PAIRS);
    size_t n_slots = count(c, CACHE_PAIRS, sizeof *slots);
    size_t n_free = 0;
    size_t n_beyond = 0; /* as above */
    for (size_t i = 0; i < n_slots; i++) {
        uint64_t key = slots[i].key;
        n_free += key == PAIRS_FREE;
        n_beyond += (key >> 32 >= n) | ((uint32_t)key >= n) | (slots[i].value >= n);
    }
    if (!is_table(n_slots) || n_free < n_slots / 2 || n_beyond != n_free)
        return broken("its table of merges is not one", err);
    if (c->head->sizes[CACHE_JOINED] != sizeof b->joined)
        return broken("a section has another size", err);
    pairs_borrow(&b->merges, slots, n_slots, n_slots - n_free);
    memcpy(b->joined, section(c, CACHE_JOINED), sizeof b->joined);
    b->parts = c->head->parts != 0;
    b->restored = true;
    return WEFT_OK;
}

/* A child has a higher number than its parent, so that there is no way round; n: of texts. */
static weft_status restore_trie(const cache_tables *c, cache_section s, uint32_t n_nodes, size_t n,
                                trie *t, weft_error *err)
{
    const pairs_slot *slots = (const pairs_slot *)(const void *)section(c, s);
    size_t n_slots = count(c, s, sizeof *slots);
    size_t n_used = 0;
    size_t n_wrong = 0;
    for (size_t i = 0; i < n_slots; i++) {
        pairs_slot slot = slots[i];
        if (slot.key == PAIRS_FREE) continue;
        n_used++;
        n_wrong += ((uint32_t)slot.key > UINT8_MAX) | (slot.value <= slot.key >> 32) |
                   (slot.value >= n_nodes) | (slot.rank > n);
    }
    if (!is_table(n_slots) || n_used > n_slots / 2 || n_wrong != 0 || n_nodes == 0 ||
        n_nodes > TRIE_NODES)
        return broken("a trie is not one", err);
    pairs_borrow(&t->children, slots, n_slots, n_used);
    t->n_nodes = n_nodes;
    return WEFT_OK;
}

static weft_status restore_unigram(const cache_tables *c, unigram *u, uint32_t n, weft_error *err)
{
    size_t n_scores = count(c, CACHE_SCORES, sizeof *u->scores);
    if (n > n_scores) n = (uint32_t)n_scores; /* the others are not the model's */
    weft_status status = restore_trie(c, CACHE_PAIRS, c->head->n_nodes[0], n, &u->trie, err);
    if (status != WEFT_OK) return status;
    if (n_scores != 0) {
        u->scores = mem_alloc(u->allocator, n_scores * sizeof *u->scores);
        if (u->scores == NULL)
            return err_set(err, WEFT_NOMEM, "out of memory for %zu scores", n_scores);
        memcpy(u->scores, section(c, CACHE_SCORES), n_scores * sizeof *u->scores);
    }
    u->capacity = n_scores;
    u->lowest = c->head->lowest;
    u->restored = true;
    return WEFT_OK;
}

weft_status cache_restore_model(const cache_tables *c, tokenizer *t, model_kind kind,
                                weft_error *err)
{
    const cache_head *head = c->head;
    model *m = &t->model;
    if (head->kind != (uint32_t)kind) return broken("its model is of another kind", err);
    weft_status status = pipeline_reserve(t, kind, 0, 0, err);
    if (status == WEFT_OK) status = restore_vocab(c, &t->vocab, err);
    if (status != WEFT_OK) return status;
    uint32_t n = t->vocab.n;
    if (head->unknown < -1 || head->unknown >= (int32_t)n)
        return broken("there is no such unknown token", err);
    t->restored = true;
    switch (kind) {
    case MODEL_BPE:
        return restore_merges(c, &m->bpe, n, err);
    case MODEL_UNIGRAM:
        return restore_unigram(c, &m->unigram, n, err);
    case MODEL_WORDPIECE:
        m->wordpiece.restored = true;
        return restore_trie(c, CACHE_PAIRS, head->n_nodes[0], n, &m->wordpiece.trie, err);
    case MODEL_WORDLEVEL:
        break;
    }
    return WEFT_OK;
}

int32_t cache_unknown(const cache_tables *c)
{
    return c->head->unknown;
}

/* ---- added tokens ---- */

static weft_status restore_list(const cache_tables *c, cache_section s, uint32_t n_nodes,
                                uint32_t n_vocab, added *a, weft_error *err)
{
    const cache_added *from = (const cache_added *)(const void *)section(c, s);
    size_t n = count(c, s, sizeof *from);
    if (n > TOKENIZER_VOCAB || a->n_tokens != 0) return broken("too many added tokens", err);
    weft_status status = restore_trie(c, s + 1, n_nodes, n, &a->trie, err);
    if (status != WEFT_OK || n == 0) return status;
    a->tokens = mem_alloc(a->allocator, n * sizeof *a->tokens);
    if (a->tokens == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu tokens", n);
    a->n_tokens = (uint32_t)n;
    a->capacity = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        if (from[i].id < 0 || (uint32_t)from[i].id >= n_vocab)
            return broken("an added token has no id", err);
        a->tokens[i] = (added_token){.id = from[i].id,
                                     .single_word = (from[i].flags & CACHE_SINGLE_WORD) != 0,
                                     .lstrip = (from[i].flags & CACHE_LSTRIP) != 0,
                                     .rstrip = (from[i].flags & CACHE_RSTRIP) != 0};
    }
    for (uint32_t i = 0; i < 256; i++)
        a->starts[i] = pairs_get(&a->trie.children, pairs_key(0, i)) != NULL;
    return WEFT_OK;
}

weft_status cache_restore_added(const cache_tables *c, tokenizer *t, weft_error *err)
{
    uint32_t n = t->vocab.n;
    const uint32_t *n_nodes = c->head->n_nodes;
    weft_status status = restore_list(c, CACHE_ADDED, n_nodes[1], n, &t->added, err);
    if (status != WEFT_OK) return status;
    return restore_list(c, CACHE_NORMALIZED, n_nodes[2], n, &t->added_normalized, err);
}
