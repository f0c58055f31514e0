/* unigram.c - the Viterbi algorithm over the tokens that start at each character. Sums are in
 * doubles as in Hugging Face's, or in floats as in SentencePiece's; of equal ways the first found
 * stays in both. */
#include "tokenizer/unigram.h"

#include <math.h>

#include "base/utf8.h"

static const double UNKNOWN_PENALTY = 10.0; /* below the lowest score */

struct unigram_node {
    double score;    /* of the best way here */
    int32_t id;      /* of the last token on it */
    uint32_t length; /* of that token in bytes; 0: no way is known */
};

weft_status unigram_init(unigram *u, const weft_allocator *allocator, const vocab *v,
                         size_t capacity, weft_error *err)
{
    *u = (unigram){.allocator = allocator, .vocab = v, .lowest = HUGE_VAL, .unknown = -1};
    weft_status status = trie_init(&u->trie, allocator, err);
    if (status != WEFT_OK || capacity == 0) return status;
    u->scores = mem_alloc(allocator, capacity * sizeof *u->scores);
    if (u->scores == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %zu scores", capacity);
    u->capacity = capacity;
    for (size_t i = 0; i < capacity; i++) u->scores[i] = (double)NAN;
    return WEFT_OK;
}

void unigram_deinit(unigram *u)
{
    if (u->allocator == NULL) return;
    trie_deinit(&u->trie);
    mem_free(u->allocator, u->scores, u->capacity * sizeof *u->scores);
    *u = (unigram){0};
}

void unigram_put(unigram *u, int32_t id, double score)
{
    if (id < 0 || (size_t)id >= u->capacity) return;
    u->scores[id] = score;
    if (score < u->lowest) u->lowest = score;
}

weft_status unigram_finish(unigram *u, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (u->byte_fallback) vocab_byte_ids(u->vocab, u->fallback_ids);
    if (u->restored) return WEFT_OK;
    for (uint32_t id = 0; id < u->vocab->n && id < u->capacity && status == WEFT_OK; id++) {
        const vocab_entry *entry = &u->vocab->entries[id];
        str text = {entry->text, entry->text_len};
        bool is_new;
        if (!isnan(u->scores[id]) && vocab_find_plain(u->vocab, text) == (int32_t)id)
            status = trie_put(&u->trie, text, id, &is_new, err);
    }
    return status;
}

void unigram_scratch_deinit(unigram_scratch *s)
{
    mem_free(s->allocator, s->nodes, s->n_nodes * sizeof *s->nodes);
    s->nodes = NULL;
    s->n_nodes = 0;
}

static weft_status reserve(unigram_scratch *s, size_t n, weft_error *err)
{
    if (n <= s->n_nodes) return WEFT_OK;
    if (n >= UINT32_MAX / 2)
        return err_set(err, WEFT_LIMIT, "tokenizer: a word of %zu bytes is too long", n);
    size_t count = n < 64 ? 64 : n;
    unigram_scratch_deinit(s);
    s->nodes = mem_alloc(s->allocator, count * sizeof *s->nodes);
    if (s->nodes == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a word of %zu bytes", n);
    s->n_nodes = count;
    return WEFT_OK;
}

static void offer(const unigram *u, unigram_node *node, double score, int32_t id, size_t length)
{
    if (u->single) score = (double)(float)score;
    if (node->length == 0 || score > node->score)
        *node = (unigram_node){score, id, (uint32_t)length};
}

/* Looks at all tokens that start here. A character without a token of its own may be unknown. */
static void step(const unigram *u, unigram_node *here, str rest)
{
    uint32_t c;
    size_t n_char = utf8_decode(rest.ptr, rest.len, &c);
    if (n_char == 0) n_char = 1;
    double before = here->score;
    bool single = false;
    uint32_t node = 0;
    uint32_t id;
    for (size_t i = 0; i < rest.len && trie_step(&u->trie, &node, rest.ptr[i], &id); i++) {
        if (id == TRIE_NONE) continue;
        offer(u, here + i + 1, u->scores[id] + before, (int32_t)id, i + 1);
        if (i + 1 == n_char) single = true;
    }
    if (!single) offer(u, here + n_char, u->lowest - UNKNOWN_PENALTY + before, u->unknown, n_char);
}

/* A run of unknown characters is one: it may be a token that lost, or bytes. */
static weft_status give_unknown(const unigram *u, str run, token_list *out, weft_error *err)
{
    int32_t id = vocab_find_plain(u->vocab, run);
    bool bytes = id < 0 && u->byte_fallback;
    for (size_t i = 0; i < run.len && bytes; i++)
        bytes = u->fallback_ids[(unsigned char)run.ptr[i]] >= 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < run.len && bytes && status == WEFT_OK; i++)
        status = token_list_add(out, u->fallback_ids[(unsigned char)run.ptr[i]], err);
    if (bytes) return status;
    if (id < 0) id = u->unknown;
    return id < 0 ? WEFT_OK : token_list_add(out, id, err);
}

/* Turns the way back from the end round: lengths then lead from the start. */
static void turn_round(unigram_node *nodes, size_t n)
{
    size_t end = n;
    unigram_node last = nodes[end];
    while (end > 0) {
        size_t start = end - last.length;
        unigram_node next = nodes[start];
        nodes[start] = last;
        last = next;
        end = start;
    }
}

weft_status unigram_encode(const unigram *u, unigram_scratch *s, str word, token_list *out,
                           weft_error *err)
{
    weft_status status = reserve(s, word.len + 1, err);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i <= word.len; i++) s->nodes[i] = (unigram_node){0.0, -1, 0};
    for (size_t at = 0; at < word.len; at++) {
        bool reached = at == 0 || s->nodes[at].length != 0; /* not so inside a character */
        if (reached) step(u, &s->nodes[at], (str){word.ptr + at, word.len - at});
    }
    turn_round(s->nodes, word.len);
    for (size_t at = 0; at < word.len && status == WEFT_OK;) {
        size_t end = at;
        while (end < word.len && s->nodes[end].id == u->unknown) end += s->nodes[end].length;
        if (end > at) {
            status = give_unknown(u, (str){word.ptr + at, end - at}, out, err);
        } else {
            end += s->nodes[at].length;
            status = token_list_add(out, s->nodes[at].id, err);
        }
        at = end;
    }
    return status;
}
