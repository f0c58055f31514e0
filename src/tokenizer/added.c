/* added.c - finding added tokens. Where they overlap in a strange way (white space taken by one
 * that is a token itself) the ids are those of Hugging Face's tokenizers, which this follows. */
#include "tokenizer/added.h"

#include "base/utf8.h"
#include "tokenizer/chars.h"

weft_status added_init(added *a, const weft_allocator *allocator, weft_error *err)
{
    *a = (added){.allocator = allocator};
    return trie_init(&a->trie, allocator, err);
}

void added_deinit(added *a)
{
    if (a->allocator == NULL) return;
    mem_free(a->allocator, a->tokens, a->capacity * sizeof *a->tokens);
    trie_deinit(&a->trie);
    *a = (added){0};
}

static weft_status reserve(added *a, weft_error *err)
{
    if (a->n_tokens < a->capacity) return WEFT_OK;
    uint32_t capacity = a->capacity == 0 ? 16 : a->capacity * 2;
    added_token *tokens = mem_resize(a->allocator, a->tokens, a->capacity * sizeof *tokens,
                                     capacity * sizeof *tokens);
    if (tokens == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %u added tokens", capacity);
    a->tokens = tokens;
    a->capacity = capacity;
    return WEFT_OK;
}

weft_status added_put(added *a, str text, added_token token, weft_error *err)
{
    bool is_new;
    if (!utf8_valid(text.ptr, text.len)) return WEFT_OK;
    weft_status status = reserve(a, err);
    if (status == WEFT_OK) status = trie_put(&a->trie, text, a->n_tokens, &is_new, err);
    if (status != WEFT_OK || !is_new) return status;
    a->tokens[a->n_tokens++] = token;
    a->starts[(unsigned char)text.ptr[0]] = true;
    return WEFT_OK;
}

/* ---- white space and words ---- */

/* The character that ends at end: where it starts. end > 0. */
static size_t before(str text, size_t end, uint32_t *c)
{
    size_t at = end - 1;
    while (at > 0 && ((unsigned char)text.ptr[at] & 0xc0) == 0x80) at--;
    utf8_decode(text.ptr + at, end - at, c);
    return at;
}

static bool stands_alone(str text, size_t start, size_t end)
{
    uint32_t c;
    if (start > 0) {
        before(text, start, &c);
        if (char_is_word(c)) return false;
    }
    return end >= text.len || utf8_decode(text.ptr + end, text.len - end, &c) == 0 ||
           !char_is_word(c);
}

static size_t space_start(str text, size_t at, size_t floor)
{
    while (at > floor) {
        uint32_t c;
        size_t start = before(text, at, &c);
        if (!char_is_space(c)) break;
        at = start;
    }
    return at;
}

static size_t space_end(str text, size_t at)
{
    while (at < text.len) {
        uint32_t c;
        size_t n = utf8_decode(text.ptr + at, text.len - at, &c);
        if (n == 0 || !char_is_space(c)) break;
        at += n;
    }
    return at;
}

/* ---- splitting ---- */

typedef struct walk {
    str text;
    added_piece *piece;
    void *user;
    weft_error *err;
    size_t done;        /* text before it was given out */
    size_t space_first; /* [space_first, space_last] lies in one run of white space that ends at */
    size_t space_last;  /* space_last: not looked through again */
} walk;

static weft_status give(walk *w, const added_token *token, size_t start, size_t end)
{
    if (token->single_word && !stands_alone(w->text, start, end)) return WEFT_OK;
    if (token->lstrip) {
        start = start > w->done ? space_start(w->text, start, w->done) : w->done;
    }
    if (token->rstrip) {
        if (end < w->space_first || end > w->space_last) {
            w->space_first = end;
            w->space_last = space_end(w->text, end);
        }
        end = w->space_last;
    }
    if (start >= end) return WEFT_OK; /* white space that the token before has taken */
    weft_status status = WEFT_OK;
    if (w->done < start) {
        status = w->piece(w->user, (str){w->text.ptr + w->done, start - w->done}, -1, w->err);
    }
    if (status == WEFT_OK) status = w->piece(w->user, (str){"", 0}, token->id, w->err);
    w->done = end;
    return status;
}

size_t added_open_bytes(added_closed closed, str part)
{
    if (closed.n == 0) return part.len;
    size_t first = (size_t)(part.ptr - closed.base);
    size_t low = 0;
    size_t high = closed.n; /* the first span that ends behind first */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (closed.spans[middle].first + closed.spans[middle].n_bytes > first) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == closed.n) return part.len;
    if (closed.spans[low].first <= first) return 0;
    size_t open = closed.spans[low].first - first;
    return open < part.len ? open : part.len;
}

weft_status added_split(const added *a, str text, added_closed closed, added_piece *piece,
                        void *user, weft_error *err)
{
    walk w = {.text = text, .piece = piece, .user = user, .err = err, .space_first = SIZE_MAX};
    weft_status status = WEFT_OK;
    for (size_t at = 0; a->n_tokens != 0 && at < text.len && status == WEFT_OK;) {
        uint32_t token_i = 0;
        size_t n = 0;
        if (a->starts[(unsigned char)text.ptr[at]]) {
            str rest = {text.ptr + at, text.len - at};
            rest.len = added_open_bytes(closed, rest);
            n = trie_longest(&a->trie, 0, rest, &token_i);
        }
        if (n != 0) status = give(&w, &a->tokens[token_i], at, at + n);
        at += n == 0 ? 1 : n;
    }
    if (status != WEFT_OK || w.done >= text.len) return status;
    return piece(user, (str){text.ptr + w.done, text.len - w.done}, -1, err);
}
