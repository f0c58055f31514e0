/* added.c - finding added tokens. Where they overlap in a strange way (white space taken by one
 * that is a token itself) the ids are those of Hugging Face's tokenizers, which this follows. */
#include "tokenizer/added.h"

#include <string.h>
#include <utf8proc.h>

#include "base/assert.h"
#include "base/utf8.h"

weft_status added_init(added *a, const weft_allocator *allocator, weft_error *err)
{
    *a = (added){.allocator = allocator, .n_nodes = 1};
    return pairs_init(&a->children, allocator, 0, err);
}

void added_deinit(added *a)
{
    if (a->allocator == NULL) return;
    mem_free(a->allocator, a->tokens, a->capacity * sizeof *a->tokens);
    pairs_deinit(&a->children);
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
    if (text.len > ADDED_BYTES) {
        return err_set(err, WEFT_LIMIT,
                       "tokenizer: an added token of %zu bytes, at most %d are supported", text.len,
                       ADDED_BYTES);
    }
    if (text.len == 0) return WEFT_OK;
    weft_status status = reserve(a, err);
    if (status != WEFT_OK) return status;
    uint32_t node = 0;
    uint64_t key = 0;
    for (size_t i = 0; i < text.len; i++) {
        key = pairs_key(node, (unsigned char)text.ptr[i]);
        const pairs_slot *slot = pairs_get(&a->children, key);
        if (slot != NULL) {
            node = slot->value;
            continue;
        }
        status = pairs_put(&a->children, key, a->n_nodes, 0, err);
        if (status != WEFT_OK) return status;
        node = a->n_nodes++;
    }
    pairs_slot *last = pairs_slot_of(&a->children, key);
    if (last->rank != 0) return WEFT_OK;
    a->tokens[a->n_tokens] = token;
    last->rank = ++a->n_tokens;
    a->starts[(unsigned char)text.ptr[0]] = true;
    return WEFT_OK;
}

/* The longest token at the start of text: its length, 0 when there is none. */
static size_t match(const added *a, const char *text, size_t n_bytes, uint32_t *token_i)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        const pairs_slot *slot = pairs_get(&a->children, pairs_key(node, (unsigned char)text[i]));
        if (slot == NULL) break;
        node = slot->value;
        if (slot->rank != 0) {
            longest = i + 1;
            *token_i = slot->rank - 1;
        }
    }
    return longest;
}

/* ---- white space and words ---- */

static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* What \w is to Rust's regex: alphabetic, marks, decimal numbers, connectors and joiners.
 * Alphabetic, by categories: letters, letter numbers, and circled and squared Latin letters. */
static bool is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
               (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189);
    }
}

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
        if (is_word(c)) return false;
    }
    return end >= text.len || utf8_decode(text.ptr + end, text.len - end, &c) == 0 || !is_word(c);
}

static size_t space_start(str text, size_t at, size_t floor)
{
    while (at > floor) {
        uint32_t c;
        size_t start = before(text, at, &c);
        if (!is_space(c)) break;
        at = start;
    }
    return at;
}

static size_t space_end(str text, size_t at)
{
    while (at < text.len) {
        uint32_t c;
        size_t n = utf8_decode(text.ptr + at, text.len - at, &c);
        if (n == 0 || !is_space(c)) break;
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
            n = match(a, rest.ptr, added_open_bytes(closed, rest), &token_i);
        }
        if (n != 0) status = give(&w, &a->tokens[token_i], at, at + n);
        at += n == 0 ? 1 : n;
    }
    if (status != WEFT_OK || w.done >= text.len) return status;
    return piece(user, (str){text.ptr + w.done, text.len - w.done}, -1, err);
}
