/* vocab.c - laying out a vocabulary. */
#include "grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

/* A token while trees are built. */
typedef struct entry {
    const unsigned char *bytes;
    uint32_t n_bytes, token;
} entry;

static int by_bytes(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    uint32_t n = x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes;
    int order = memcmp(x->bytes, y->bytes, n);
    if (order != 0) return order;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static bool is_plain(str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\') return false;
    }
    return utf8_valid(bytes.ptr, bytes.len);
}

static uint32_t shared(const entry *a, const entry *b)
{
    uint32_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes, i = 0;
    while (i < n && a->bytes[i] == b->bytes[i]) i++;
    return i;
}

/* What was open from depth on ends before node at. */
static void close_nodes(vocab_node *nodes, const uint32_t *open, uint32_t depth, uint32_t above,
                        uint32_t at)
{
    for (uint32_t d = depth; nodes != NULL && d < above; d++) nodes[open[d]].place |= at << 8;
}

/* Sorted entries as a list of nodes; with nodes NULL only counts them. */
static uint32_t lay_out(const entry *entries, uint32_t n, vocab_node *nodes, uint32_t *same)
{
    uint32_t n_nodes = 0, above = 0;
    uint32_t open[GRAMMAR_TOKEN_BYTES] = {0}; /* the nodes above */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_bytes = entries[i].n_bytes;
        uint32_t depth = i == 0 ? 0 : shared(&entries[i - 1], &entries[i]);
        close_nodes(nodes, open, depth, above, n_nodes);
        if (nodes != NULL && i > 0 && depth == n_bytes) {
            same[entries[i - 1].token] = entries[i].token + 1;
            nodes[open[depth - 1]].what |= VOCAB_SAME;
        }
        for (; depth < n_bytes; depth++, n_nodes++) {
            if (nodes == NULL) continue;
            uint32_t token = depth + 1 == n_bytes ? entries[i].token + 1 : 0;
            open[depth] = n_nodes;
            nodes[n_nodes] = (vocab_node){entries[i].bytes[depth], token << 9 | (depth + 1)};
        }
        above = n_bytes;
    }
    close_nodes(nodes, open, 0, above, n_nodes);
    return n_nodes;
}

static weft_status out_of_memory(weft_error *err, uint32_t n_tokens)
{
    return err_set(err, WEFT_NOMEM, "out of memory for a vocabulary of %u tokens", n_tokens);
}

static weft_status make_tree(grammar_vocab *v, vocab_tree *t, entry *entries, uint32_t n,
                             weft_error *err)
{
    if (n == 0) return WEFT_OK;
    qsort(entries, n, sizeof *entries, by_bytes);
    t->n_nodes = lay_out(entries, n, NULL, v->same);
    if (t->n_nodes >= GRAMMAR_NODES) {
        uint32_t n_nodes = t->n_nodes;
        t->n_nodes = 0;
        return err_set(err, WEFT_LIMIT, "a vocabulary of %u bytes, at most %d are read", n_nodes,
                       GRAMMAR_NODES);
    }
    t->nodes = mem_alloc(v->allocator, t->n_nodes * sizeof *t->nodes);
    if (t->nodes == NULL) {
        t->n_nodes = 0;
        return out_of_memory(err, v->n_tokens);
    }
    (void)lay_out(entries, n, t->nodes, v->same);
    return WEFT_OK;
}

static uint32_t count_chars(str bytes)
{
    uint32_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) n += ((unsigned char)bytes.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* Plain tokens by how many characters they have, the longest first: a counting sort. */
static weft_status list_plain(grammar_vocab *v, const entry *entries, uint32_t n, weft_error *err)
{
    if (n == 0) return WEFT_OK;
    v->by_length = mem_alloc(v->allocator, n * sizeof *v->by_length);
    v->n_chars = v->by_length == NULL ? NULL : mem_alloc(v->allocator, n);
    v->n_plain = n;
    if (v->n_chars == NULL) return out_of_memory(err, v->n_tokens);
    uint32_t first[GRAMMAR_TOKEN_BYTES + 2] = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t chars = count_chars((str){(const char *)entries[i].bytes, entries[i].n_bytes});
        first[GRAMMAR_TOKEN_BYTES - chars + 1]++;
        v->plain[entries[i].token >> 6] |= (uint64_t)1 << (entries[i].token & 63);
    }
    for (uint32_t k = 1; k < COUNT_OF(first); k++) first[k] += first[k - 1];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t chars = count_chars((str){(const char *)entries[i].bytes, entries[i].n_bytes});
        uint32_t at = first[GRAMMAR_TOKEN_BYTES - chars]++;
        v->by_length[at] = entries[i].token;
        v->n_chars[at] = (unsigned char)chars;
    }
    return WEFT_OK;
}

static void mark_chars(grammar_vocab *v, const entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t token = entries[i].token;
        for (uint32_t k = 0; k < entries[i].n_bytes; k++) {
            unsigned char b = entries[i].bytes[k];
            if ((b & 0xc0) == 0x80) continue;
            size_t c = b < 0x80 ? b - 0x20u : b - 0xc2u + VOCAB_NARROW;
            v->has[c * v->n_words + (token >> 6)] |= (uint64_t)1 << (token & 63);
        }
    }
}

static weft_status make_names(grammar_vocab *v, const grammar_tokens *tokens, entry *entries,
                              weft_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_tokens && tokens->names != NULL; i++) {
        str name = tokens->names[i];
        if (name.len == 0 || name.len > GRAMMAR_TOKEN_BYTES || vocab_bytes(v, i).len != 0) continue;
        entries[n++] = (entry){(const unsigned char *)name.ptr, (uint32_t)name.len, i};
    }
    return make_tree(v, &v->names, entries, n, err);
}

static weft_status make_trees(grammar_vocab *v, entry *entries, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t which = 0; which < VOCAB_TREES && status == WEFT_OK; which++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < v->n_tokens; i++) {
            str bytes = vocab_bytes(v, i);
            if (bytes.len == 0 || vocab_is_end(v, i)) continue;
            if (is_plain(bytes) != (which == VOCAB_PLAIN)) continue;
            entries[n++] = (entry){(const unsigned char *)bytes.ptr, (uint32_t)bytes.len, i};
            if (bytes.len > v->longest) v->longest = (uint32_t)bytes.len;
        }
        if (which == VOCAB_PLAIN) status = list_plain(v, entries, n, err);
        if (which == VOCAB_PLAIN) mark_chars(v, entries, n);
        if (status == WEFT_OK) status = make_tree(v, &v->trees[which], entries, n, err);
    }
    return status;
}

/* The bytes of all tokens that may be part of a text, in one block. */
static weft_status copy_bytes(grammar_vocab *v, const grammar_tokens *tokens, weft_error *err)
{
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < tokens->n_tokens; i++)
        if (tokens->bytes[i].len <= GRAMMAR_TOKEN_BYTES) n_bytes += tokens->bytes[i].len;
    v->n_bytes = n_bytes + 1;
    v->bytes = mem_alloc(v->allocator, v->n_bytes);
    if (v->bytes == NULL) return out_of_memory(err, v->n_tokens);
    uint32_t at = 0;
    for (uint32_t i = 0; i < tokens->n_tokens; i++) {
        v->starts[i] = at;
        size_t n = tokens->bytes[i].len;
        if (n == 0 || n > GRAMMAR_TOKEN_BYTES) continue;
        memcpy(v->bytes + at, tokens->bytes[i].ptr, n);
        at += (uint32_t)n;
    }
    v->starts[tokens->n_tokens] = at;
    return WEFT_OK;
}

static weft_status mark_ends(grammar_vocab *v, const grammar_tokens *tokens, weft_error *err)
{
    for (uint32_t i = 0; i < tokens->n_ends; i++) {
        int32_t id = tokens->ends[i];
        if (id < 0 || (uint32_t)id >= v->n_rows)
            return err_set(err, WEFT_ARGUMENT, "end token %d is not among the %u rows", id,
                           v->n_rows);
        v->ends[id >> 6] |= (uint64_t)1 << (id & 63);
    }
    v->first_end = (uint32_t)tokens->ends[0];
    return WEFT_OK;
}

static weft_status fill(grammar_vocab *v, const grammar_tokens *tokens, weft_error *err)
{
    v->same = mem_alloc_zero(v->allocator, ((size_t)v->n_tokens + 1) * sizeof *v->same);
    v->starts = mem_alloc(v->allocator, ((size_t)v->n_tokens + 1) * sizeof *v->starts);
    v->plain = mem_alloc_zero(v->allocator, v->n_words * sizeof *v->plain);
    v->has = mem_alloc_zero(v->allocator, (size_t)VOCAB_CHARS * v->n_words * sizeof *v->has);
    v->ends = mem_alloc_zero(v->allocator, v->n_words * sizeof *v->ends);
    size_t n_entries = ((size_t)v->n_tokens + 1) * sizeof(entry);
    entry *entries = mem_alloc(v->allocator, n_entries);
    weft_status status = WEFT_OK;
    if (v->same == NULL || v->starts == NULL || v->plain == NULL || v->has == NULL ||
        v->ends == NULL || entries == NULL)
        status = out_of_memory(err, v->n_tokens);
    if (status == WEFT_OK) status = mark_ends(v, tokens, err);
    if (status == WEFT_OK) status = copy_bytes(v, tokens, err);
    if (status == WEFT_OK) status = make_trees(v, entries, err);
    if (status == WEFT_OK) status = make_names(v, tokens, entries, err);
    mem_free(v->allocator, entries, n_entries);
    return status;
}

weft_status grammar_vocab_create(const env *world, const grammar_tokens *tokens,
                                 grammar_vocab **out, weft_error *err)
{
    *out = NULL;
    if (tokens->n_rows == 0 || tokens->n_rows > GRAMMAR_TOKENS)
        return err_set(err, WEFT_ARGUMENT, "a head of %u rows, of 1 to %d", tokens->n_rows,
                       GRAMMAR_TOKENS);
    if (tokens->n_ends == 0)
        return err_set(err, WEFT_ARGUMENT, "no token ends an answer of this model");
    grammar_vocab *v = mem_alloc_zero(world->allocator, sizeof *v);
    if (v == NULL) return out_of_memory(err, tokens->n_tokens);
    v->allocator = world->allocator;
    v->n_rows = tokens->n_rows;
    v->n_words = (tokens->n_rows + 63) / 64;
    /* A tokenizer may know more than the model has rows for. */
    v->n_tokens = tokens->n_tokens < tokens->n_rows ? tokens->n_tokens : tokens->n_rows;
    grammar_tokens part = *tokens;
    part.n_tokens = v->n_tokens;
    weft_status status = fill(v, &part, err);
    if (status != WEFT_OK) {
        grammar_vocab_destroy(v);
        return status;
    }
    *out = v;
    return WEFT_OK;
}

void grammar_vocab_destroy(grammar_vocab *v)
{
    if (v == NULL) return;
    const weft_allocator *a = v->allocator;
    for (uint32_t i = 0; i < VOCAB_TREES; i++)
        mem_free(a, v->trees[i].nodes, v->trees[i].n_nodes * sizeof *v->trees[i].nodes);
    mem_free(a, v->names.nodes, v->names.n_nodes * sizeof *v->names.nodes);
    mem_free(a, v->same, ((size_t)v->n_tokens + 1) * sizeof *v->same);
    mem_free(a, v->starts, ((size_t)v->n_tokens + 1) * sizeof *v->starts);
    mem_free(a, v->plain, v->n_words * sizeof *v->plain);
    mem_free(a, v->has, (size_t)VOCAB_CHARS * v->n_words * sizeof *v->has);
    mem_free(a, v->ends, v->n_words * sizeof *v->ends);
    mem_free(a, v->by_length, v->n_plain * sizeof *v->by_length);
    mem_free(a, v->n_chars, v->n_plain);
    mem_free(a, v->bytes, v->n_bytes);
    mem_free(a, v, sizeof *v);
}

weft_status grammar_vocab_of(const env *world, const tokenizer *t, uint32_t n_rows,
                             const int32_t *ends, uint32_t n_ends, grammar_vocab **out,
                             weft_error *err)
{
    *out = NULL;
    uint32_t n = tokenizer_n_vocab(t);
    strbuf all;
    strbuf_init(&all, world->allocator, 0);
    size_t n_list = ((size_t)n + 1) * 2 * sizeof(str);
    str *list = mem_alloc(world->allocator, n_list);
    str *names = list == NULL ? NULL : list + n;
    for (uint32_t i = 0; i < n && list != NULL; i++) {
        size_t before = all.len;
        bool special = tokenizer_is_special(t, (int32_t)i);
        if (!special) (void)tokenizer_bytes(t, (int32_t)i, false, &all);
        list[i] = (str){NULL, all.len - before};
        names[i] = special ? tokenizer_token(t, (int32_t)i) : (str){NULL, 0};
    }
    weft_status status = WEFT_OK;
    if (list == NULL || all.status != WEFT_OK) status = out_of_memory(err, n);
    const char *at = strbuf_text(&all);
    for (uint32_t i = 0; i < n && status == WEFT_OK; i++) {
        list[i].ptr = at;
        at += list[i].len;
    }
    const grammar_tokens tokens = {n_rows, n, list, names, ends, n_ends};
    if (status == WEFT_OK) status = grammar_vocab_create(world, &tokens, out, err);
    mem_free(world->allocator, list, n_list);
    strbuf_deinit(&all);
    return status;
}

uint32_t grammar_vocab_rows(const grammar_vocab *v)
{
    return v->n_rows;
}

uint32_t grammar_vocab_tokens(const grammar_vocab *v)
{
    return v->n_tokens;
}

str grammar_vocab_bytes(const grammar_vocab *v, uint32_t token)
{
    return vocab_bytes(v, token);
}

uint32_t grammar_mask_words(const grammar_vocab *v)
{
    return v->n_words;
}

size_t vocab_name_at(const grammar_vocab *v, str text, uint32_t *token)
{
    const vocab_tree *t = &v->names;
    uint32_t at = 0, end = t->n_nodes;
    size_t longest = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        while (at < end && vocab_byte(&t->nodes[at]) != byte) at = vocab_next(&t->nodes[at]);
        if (at >= end) break;
        if (vocab_token(&t->nodes[at]) != 0) {
            *token = vocab_token(&t->nodes[at]) - 1;
            longest = i + 1;
        }
        end = vocab_next(&t->nodes[at++]);
    }
    return longest;
}

uint32_t vocab_tokens_of(const grammar_vocab *v, str text, uint32_t *token)
{
    const vocab_tree *const trees[] = {&v->names, &v->trees[VOCAB_PLAIN], &v->trees[VOCAB_OTHER]};
    uint32_t n = 0;
    for (uint32_t i = 0; i < VOCAB_TREES + 1; i++) {
        uint32_t found;
        (void)vocab_lookup(trees[i], text, &found);
        if (found != 0) *token = found - 1;
        for (; found != 0; found = v->same[found - 1]) n++;
    }
    return n;
}

uint32_t vocab_lookup(const vocab_tree *t, str bytes, uint32_t *token)
{
    uint32_t at = 0, end = t->n_nodes;
    *token = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.ptr[i];
        while (at < end && vocab_byte(&t->nodes[at]) != byte) at = vocab_next(&t->nodes[at]);
        if (at >= end) return UINT32_MAX;
        if (i + 1 < bytes.len) end = vocab_next(&t->nodes[at++]);
    }
    if (bytes.len == 0) return UINT32_MAX;
    *token = vocab_token(&t->nodes[at]);
    return at;
}
