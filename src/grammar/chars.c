/* chars.c - sets of characters as ranges; UTF-8 ranges as ranges of bytes. */
#include "grammar/chars.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff };

void chars_add(program *p, chars *set, uint32_t first, uint32_t last)
{
    if (first > last) return;
    if (set->n == set->room) {
        uint32_t grown = set->room == 0 ? 8 : set->room * 2;
        chars_range *ranges = program_alloc(p, grown, sizeof *ranges);
        if (ranges == NULL) return;
        if (set->n != 0) memcpy(ranges, set->ranges, set->n * sizeof *ranges);
        set->ranges = ranges;
        set->room = grown;
    }
    set->ranges[set->n++] = (chars_range){first, last};
}

void chars_add_all(program *p, chars *set, const chars *other)
{
    for (uint32_t i = 0; i < other->n; i++)
        chars_add(p, set, other->ranges[i].first, other->ranges[i].last);
}

static int by_first(const void *a, const void *b)
{
    const chars_range *x = a;
    const chars_range *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

void chars_tidy(chars *set)
{
    if (set->n == 0) return;
    qsort(set->ranges, set->n, sizeof *set->ranges, by_first);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < set->n; i++) {
        chars_range *last = &set->ranges[kept];
        if (set->ranges[i].first > last->last + 1) {
            set->ranges[++kept] = set->ranges[i];
        } else if (set->ranges[i].last > last->last) {
            last->last = set->ranges[i].last;
        }
    }
    set->n = kept + 1;
}

void chars_invert(program *p, chars *set)
{
    chars_tidy(set);
    chars rest = {NULL, 0, 0};
    uint32_t next = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->ranges[i].first > next) chars_add(p, &rest, next, set->ranges[i].first - 1);
        next = set->ranges[i].last + 1;
    }
    if (next <= CHARS_LAST) chars_add(p, &rest, next, CHARS_LAST);
    *set = rest;
}

/* ---- bytes ---- */

enum { RECENT = 16 };

/* Nodes of continuation bytes that were made last: many ranges end alike. */
typedef struct speller {
    program *p;
    uint32_t next;
    uint32_t any; /* what was made so far */
    byte_set single;
    struct {
        unsigned char first, last;
        uint32_t next, node;
    } recent[RECENT];
    uint32_t n_recent;
} speller;

static uint32_t continuation(speller *s, unsigned char first, unsigned char last, uint32_t next)
{
    for (uint32_t i = 0; i < RECENT && i < s->n_recent; i++)
        if (s->recent[i].first == first && s->recent[i].last == last && s->recent[i].next == next)
            return s->recent[i].node;
    uint32_t at = node_range(s->p, first, last, next);
    uint32_t slot = s->n_recent++ % RECENT;
    s->recent[slot].first = first;
    s->recent[slot].last = last;
    s->recent[slot].next = next;
    s->recent[slot].node = at;
    return at;
}

/* Characters whose bytes differ, from some byte on, in whole ranges of continuation bytes. */
static void add_sequence(speller *s, uint32_t first, uint32_t last)
{
    char a[4], b[4];
    size_t n = utf8_encode(first, a);
    (void)utf8_encode(last, b);
    if (n == 1) {
        byte_set_add(&s->single, (unsigned char)first, (unsigned char)last);
        return;
    }
    uint32_t next = s->next;
    for (size_t i = n; i > 1; i--)
        next = continuation(s, (unsigned char)a[i - 1], (unsigned char)b[i - 1], next);
    s->any =
        node_split(s->p, node_range(s->p, (unsigned char)a[0], (unsigned char)b[0], next), s->any);
}

/* Cuts a range of characters of one length where its bytes would not be ranges. */
static void add_range(speller *s, uint32_t first, uint32_t last, uint32_t n_bytes)
{
    for (uint32_t i = 1; i < n_bytes; i++) {
        uint32_t low = (1u << (6 * i)) - 1;
        if ((first & ~low) == (last & ~low)) continue;
        if ((first & low) != 0) {
            add_range(s, first, first | low, n_bytes);
            add_range(s, (first | low) + 1, last, n_bytes);
            return;
        }
        if ((last & low) != low) {
            add_range(s, first, (last & ~low) - 1, n_bytes);
            add_range(s, last & ~low, last, n_bytes);
            return;
        }
    }
    add_sequence(s, first, last);
}

static void add_plain(speller *s, uint32_t first, uint32_t last)
{
    static const chars_range LENGTHS[] = {{0, 0x7f},
                                          {0x80, 0x7ff},
                                          {0x800, SURROGATE_FIRST - 1},
                                          {SURROGATE_LAST + 1, 0xffff},
                                          {0x10000, CHARS_LAST}};
    static const uint32_t N_BYTES[] = {1, 2, 3, 3, 4};
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t a = first > LENGTHS[i].first ? first : LENGTHS[i].first;
        uint32_t b = last < LENGTHS[i].last ? last : LENGTHS[i].last;
        if (a <= b) add_range(s, a, b, N_BYTES[i]);
    }
}

/* ---- escapes of JSON ---- */

static char short_escape(uint32_t c)
{
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return '\0';
    }
}

/* Whether the character has to be escaped. */
static bool is_special(uint32_t c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* What follows the backslash of the special characters that are there. */
static void add_escapes(speller *s, const bool there[128])
{
    program *p = s->p;
    byte_set letters = {{0}}, low[2] = {{{0}}, {{0}}};
    bool any_letter = false, any_low[2] = {false, false};
    for (uint32_t c = 0; c < 128; c++) {
        if (!there[c]) continue;
        char letter = short_escape(c);
        if (letter != '\0') {
            byte_set_add(&letters, (unsigned char)letter, (unsigned char)letter);
            any_letter = true;
        } else {
            unsigned char digit = (unsigned char)"0123456789abcdef"[c & 15];
            byte_set_add(&low[c >> 4], digit, digit);
            any_low[c >> 4] = true;
        }
    }
    uint32_t after = NODE_FAIL;
    if (any_letter) after = node_bytes(p, &letters, s->next);
    uint32_t digits = NODE_FAIL;
    for (uint32_t high = 0; high < 2; high++)
        if (any_low[high])
            digits =
                node_split(p,
                           node_range(p, (unsigned char)('0' + high), (unsigned char)('0' + high),
                                      node_bytes(p, &low[high], s->next)),
                           digits);
    after = node_split(p, after, node_text(p, str_of("u00"), digits));
    s->any = node_split(p, s->any, node_range(p, '\\', '\\', after));
}

uint32_t node_chars(program *p, const chars *set, spelling how, uint32_t next)
{
    speller s = {.p = p, .next = next, .any = NODE_FAIL};
    bool there[128] = {false};
    bool any_special = false;
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t first = set->ranges[i].first, last = set->ranges[i].last;
        if (how == SPELLING_TEXT) {
            add_plain(&s, first, last);
            continue;
        }
        for (; first < 128 && first <= last; first++) {
            there[first] = is_special(first);
            any_special |= there[first];
            if (!there[first]) byte_set_add(&s.single, (unsigned char)first, (unsigned char)first);
        }
        if (first <= last) add_plain(&s, first, last);
    }
    static const byte_set NONE = {{0}};
    if (any_special) add_escapes(&s, there);
    if (memcmp(&s.single, &NONE, sizeof NONE) != 0)
        s.any = node_split(p, node_bytes(p, &s.single, next), s.any);
    return s.any;
}

uint32_t node_spelled(program *p, str text, spelling how, uint32_t next)
{
    for (size_t end = text.len; end > 0;) {
        size_t at = end - 1;
        while (at > 0 && ((unsigned char)text.ptr[at] & 0xc0) == 0x80) at--;
        unsigned char c = (unsigned char)text.ptr[at];
        if (how == SPELLING_JSON && is_special(c)) {
            chars_range one = {c, c};
            const chars set = {&one, 1, 1};
            next = node_chars(p, &set, how, next);
        } else {
            next = node_text(p, (str){text.ptr + at, end - at}, next);
        }
        end = at;
    }
    return next;
}
