/* words.c - common beginnings are shared, so that a machine is in few places at a time. */
#include "grammar/words.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_DEPTH = 200 /* branches within each other; below them words stand side by side */ };

static int by_bytes(const void *a, const void *b)
{
    const str *x = a;
    const str *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = n == 0 ? 0 : memcmp(x->ptr, y->ptr, n);
    if (order != 0) return order;
    return x->len < y->len ? -1 : x->len > y->len;
}

/* Bytes that all of the sorted words have from byte at on: whole characters. */
static size_t shared(const str *words, uint32_t n, size_t at)
{
    const str *a = &words[0], *b = &words[n - 1];
    size_t most = a->len < b->len ? a->len : b->len, end = at;
    while (end < most && a->ptr[end] == b->ptr[end]) end++;
    while (end > at && end < b->len && ((unsigned char)b->ptr[end] & 0xc0) == 0x80) end--;
    return end - at;
}

/* End of those that start with the same character at byte at as the first. */
static uint32_t branch_end(const str *words, uint32_t n, size_t at)
{
    size_t len = 1;
    while (at + len < words[0].len && ((unsigned char)words[0].ptr[at + len] & 0xc0) == 0x80) len++;
    uint32_t end = 1;
    while (end < n && words[end].len >= at + len &&
           memcmp(words[end].ptr + at, words[0].ptr + at, len) == 0)
        end++;
    return end;
}

/* Sorted, distinct words, of which the first at bytes are done. */
static uint32_t tree(program *p, const str *words, uint32_t n, size_t at, spelling how,
                     uint32_t next, uint32_t depth)
{
    if (p->status != WEFT_OK) return NODE_FAIL;
    size_t len = shared(words, n, at);
    str common = {words[0].ptr + at, len};
    if (n == 1 || depth > WORDS_DEPTH) {
        uint32_t any = NODE_FAIL;
        for (uint32_t i = 0; i < n; i++) {
            str rest = {words[i].ptr + at, words[i].len - at};
            any = node_split(p, any, node_spelled(p, rest, how, next));
        }
        return any;
    }
    at += len;
    uint32_t any = NODE_FAIL, i = 0;
    if (words[0].len == at) {
        any = next;
        i = 1;
    }
    while (i < n) {
        uint32_t end = i + branch_end(words + i, n - i, at);
        any = node_split(p, any, tree(p, words + i, end - i, at, how, next, depth + 1));
        i = end;
    }
    return node_spelled(p, common, how, any);
}

uint32_t node_words(program *p, const str *words, uint32_t n, spelling how, uint32_t next)
{
    if (n == 0) return NODE_FAIL;
    str *sorted = program_alloc(p, n, sizeof *sorted);
    if (sorted == NULL) return NODE_FAIL;
    memcpy(sorted, words, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_bytes);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < n; i++)
        if (by_bytes(&sorted[kept - 1], &sorted[i]) != 0) sorted[kept++] = sorted[i];
    return tree(p, sorted, kept, 0, how, next, 0);
}
