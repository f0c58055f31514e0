/* parts_text.c - parts that are texts: given ones, tokens, and free text up to a marker.
 *
 * Free text is a lexeme: an automaton that has no state for the texts that do not occur in it, and
 * a count of characters. */
#include <string.h>

#include "grammar/dfa.h"
#include "grammar/parts.h"
#include "grammar/regex_class.h"

enum { SHOWN_BYTES = 60 };

static int shown(str text)
{
    return (int)(text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES);
}

static uint32_t write_token(parts *all, named_token token, spot at)
{
    if (!token.ends || at.last || all->p->status != WEFT_OK)
        return node_token(all->p, token, at.next);
    program_fail(all->p, WEFT_ARGUMENT,
                 "token %u ends an answer, and something must come behind it", token.id);
    return NODE_FAIL;
}

bool part_is_text(parts *all, const char *member, const json *value)
{
    if (json_kind_of(value) == JSON_KIND_TEXT) return true;
    program_fail(all->p, WEFT_FORMAT, "'%s' is %s where a text belongs", member,
                 json_kind_name(json_kind_of(value)));
    return false;
}

/* ---- texts and tokens ---- */

/* A piece of a text: one control token, or bytes. */
typedef struct piece {
    uint32_t first, end;
    uint32_t token; /* UINT32_MAX: bytes */
} piece;

static uint32_t cut(const grammar_vocab *v, str text, piece *list)
{
    uint32_t n = 0, open = 0;
    for (uint32_t at = 0; at < text.len;) {
        uint32_t token = 0;
        size_t len = vocab_name_at(v, (str){text.ptr + at, text.len - at}, &token);
        if (len == 0) {
            at++;
            continue;
        }
        if (at > open) list[n++] = (piece){open, at, UINT32_MAX};
        list[n++] = (piece){at, at + (uint32_t)len, token};
        open = at += (uint32_t)len;
    }
    if (text.len > open) list[n++] = (piece){open, (uint32_t)text.len, UINT32_MAX};
    return n;
}

uint32_t part_text(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    if (!part_is_text(all, "text", value)) return NODE_FAIL;
    str text = json_text(value);
    piece *list = program_alloc(all->p, text.len + 1, sizeof *list);
    if (list == NULL) return NODE_FAIL;
    for (uint32_t i = cut(all->vocab, text, list); i > 0 && all->p->status == WEFT_OK; i--) {
        const piece *x = &list[i - 1];
        str bytes = {text.ptr + x->first, x->end - x->first};
        named_token token;
        if (x->token == UINT32_MAX) {
            at.next = node_text(all->p, bytes, at.next);
        } else if (named_of_id(all->p, all->vocab, x->token, &token)) {
            at.next = write_token(all, token, at);
        }
        at.last = false;
    }
    return at.next;
}

uint32_t part_token(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    named_token token;
    bool known;
    if (json_kind_of(value) == JSON_KIND_INT) {
        known = named_of_id(all->p, all->vocab, json_int(value, -1), &token);
    } else {
        known = part_is_text(all, "token", value) &&
                named_of_text(all->p, all->vocab, json_text(value), &token);
    }
    return known ? write_token(all, token, at) : NODE_FAIL;
}

/* ---- free text ---- */

/* Any characters, as often as wanted or once. */
static regex *any_chars(program *p, bool once)
{
    regex *set = regex_make(p, REGEX_SET), *x = regex_make(p, REGEX_REPEAT);
    if (set == NULL || x == NULL) return NULL;
    chars_add(p, &set->set, 0, CHARS_LAST);
    if (once) return set;
    x->max = PROGRAM_ENDLESS;
    regex_append(x, set);
    return x;
}

/* whole with the characters of the text behind it; that is valid UTF-8, as all of a document. */
static void append_text(program *p, regex *whole, str text)
{
    regex_reader r = {.p = p, .text = text};
    while (r.at < text.len && p->status == WEFT_OK) {
        regex *one = regex_make(p, REGEX_SET);
        uint32_t c = regex_take(&r);
        if (one != NULL) chars_add(p, &one->set, c, c);
        regex_append(whole, one);
    }
}

/* Any text that ends in marker. */
static regex *ends_in(program *p, str marker)
{
    regex *whole = regex_make(p, REGEX_SEQUENCE);
    regex_append(whole, any_chars(p, false));
    append_text(p, whole, marker);
    return whole;
}

/* What a free text is without, and what it ends in. */
typedef struct limits {
    str marker;
    bool spelled; /* the marker's letters end the text; else they do not occur, like the others */
    uint32_t max_chars;
    str without[PARTS_WITHOUT];
    uint32_t n_without;
} limits;

/* Texts in which one of them occurs too early; NULL without a failure when there are none. */
static regex *too_early(program *p, const limits *l)
{
    regex *either = regex_make(p, REGEX_EITHER);
    for (uint32_t i = 0; i < l->n_without; i++) {
        regex *one = ends_in(p, l->without[i]);
        regex_append(one, any_chars(p, false));
        if (l->spelled && one != NULL) append_text(p, one, l->marker);
        regex_append(either, one);
    }
    if (l->marker.len > 0) {
        regex *one = ends_in(p, l->marker);
        if (l->spelled) regex_append(one, any_chars(p, true));
        regex_append(one, any_chars(p, false));
        regex_append(either, one);
    }
    return either == NULL || either->last == NULL ? NULL : either;
}

static uint32_t count_chars(str text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return n;
}

static const dfa *any_text(parts *all)
{
    if (all->any_text != NULL) return all->any_text;
    const dfa *d = dfa_of_regex(all->p, any_chars(all->p, false), SPELLING_TEXT);
    for (uint32_t q = 1; d != NULL && q < d->n_states; q++)
        if ((d->flag[q] & DFA_ACCEPT) != 0) d->flag[q] |= DFA_WHOLE;
    all->any_text = d;
    return d;
}

static uint32_t write_free(parts *all, const limits *l, uint32_t next)
{
    program *p = all->p;
    const dfa *d = any_text(all);
    uint32_t max = l->max_chars;
    if (l->spelled) {
        d = dfa_meet(p, d, dfa_of_regex(p, ends_in(p, l->marker), SPELLING_TEXT));
        if (max != LEXEME_ENDLESS) max += count_chars(l->marker);
    }
    const regex *bad = too_early(p, l);
    if (bad != NULL) d = dfa_without(p, d, dfa_of_regex(p, bad, SPELLING_TEXT));
    return node_lexeme(p, lexeme_make(p, d, 0, max), next);
}

/* A text that a marker or 'without' may be. */
static bool is_marker(parts *all, const char *member, const json *value)
{
    if (!part_is_text(all, member, value)) return false;
    size_t n = json_text(value).len;
    if (n == 0 || n > PARTS_MARKER)
        program_fail(all->p, n == 0 ? WEFT_FORMAT : WEFT_LIMIT,
                     "a text of %zu bytes in '%s', of 1 to %d", n, member, PARTS_MARKER);
    return all->p->status == WEFT_OK;
}

static bool read_limits(parts *all, const json *part, limits *l)
{
    const json *list = json_get(part, "without");
    *l = (limits){.max_chars = part_count(all, part, "max_chars", LEXEME_ENDLESS)};
    if (all->p->status != WEFT_OK) return false;
    size_t n = json_length(list);
    if (list != NULL && (json_kind_of(list) != JSON_KIND_ARRAY || n > PARTS_WITHOUT)) {
        program_fail(all->p, WEFT_FORMAT, "'without' is no array of up to %d texts", PARTS_WITHOUT);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_marker(all, "without", json_at(list, i))) return false;
        l->without[l->n_without++] = json_text(json_at(list, i));
    }
    return true;
}

uint32_t part_free(parts *all, const json *part, const json *value, spot at)
{
    limits l;
    if (!json_bool(value, false)) program_fail(all->p, WEFT_FORMAT, "'free' is not true");
    if (!read_limits(all, part, &l)) return NODE_FAIL;
    return write_free(all, &l, at.next);
}

/* Whether the marker is a control token; fails when one is only a part of it. */
static bool is_control(parts *all, str marker)
{
    for (size_t i = 0; i < marker.len; i++) {
        uint32_t token;
        size_t len = vocab_name_at(all->vocab, (str){marker.ptr + i, marker.len - i}, &token);
        if (i == 0 && len == marker.len) return true;
        if (len == 0) continue;
        program_fail(all->p, WEFT_UNSUPPORTED, "'%.*s' is a control token and more", shown(marker),
                     marker.ptr);
        return false;
    }
    return false;
}

uint32_t part_until(parts *all, const json *part, const json *value, spot at)
{
    limits l;
    const json *one = json_get(part, "token");
    named_token token = {0, false};
    if (!is_marker(all, "until", value) || !read_limits(all, part, &l)) return NODE_FAIL;
    if (one != NULL && json_kind_of(one) != JSON_KIND_BOOL) {
        program_fail(all->p, WEFT_FORMAT, "'token' beside 'until' is neither true nor false");
        return NODE_FAIL;
    }
    l.marker = json_text(value);
    l.spelled = !json_bool(one, false) && !is_control(all, l.marker);
    if (!l.spelled &&
        (all->p->status != WEFT_OK || !named_of_text(all->p, all->vocab, l.marker, &token)))
        return NODE_FAIL;
    return write_free(all, &l, l.spelled ? at.next : write_token(all, token, at));
}
