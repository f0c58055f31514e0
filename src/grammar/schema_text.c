/* schema_text.c - strings: patterns, formats, lengths, as automata over their JSON spelling. */
#include <stdio.h>
#include <string.h>

#include "grammar/schema.h"
#include "grammar/schema_format.h"

enum {
    LOOSE_WEIGHT =
        1500 /* copies of a set that an automaton would need: above, it stays a pattern */
};

/* Any number of what x matches once: characters are whole where it may end. */
static const dfa *marked_whole(program *p, const char *pattern, spelling how)
{
    const dfa *d = dfa_of_regex(p, regex_parse(p, str_of(pattern), REGEX_WHOLE), how);
    for (uint32_t q = 1; d != NULL && q < d->n_states; q++)
        if ((d->flag[q] & DFA_ACCEPT) != 0) d->flag[q] |= DFA_WHOLE;
    return d;
}

bool schema_text_init(schema *s)
{
    program *p = s->p;
    s->any_text = marked_whole(p, "[^]*", SPELLING_JSON);
    /* NUL is no character of a name: many readers end there. */
    s->any_name = marked_whole(p, "[^\\0]*", SPELLING_JSON);
    s->free_text = marked_whole(p,
                                "([^\"\\\\\\u0000-\\u001f]|\\\\([\"\\\\/bfnrt]|u("
                                "[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
                                "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})))*",
                                SPELLING_TEXT);
    char pattern[64];
    snprintf(pattern, sizeof pattern, "( |\\r?\\n[ \\t]{0,%d})?", SCHEMA_INDENT);
    s->space =
        lexeme_make(p, dfa_of_regex(p, regex_parse(p, str_of(pattern), REGEX_WHOLE), SPELLING_TEXT),
                    0, LEXEME_ENDLESS);
    return p->status == WEFT_OK;
}

/* About how many states an automaton for x takes: counts multiply. */
static uint64_t weight(const regex *x)
{
    uint64_t sum = x->kind == REGEX_SET;
    for (const regex *part = x->last; part != NULL; part = part->previous) sum += weight(part);
    if (x->kind != REGEX_REPEAT) return sum;
    uint64_t times = x->max == PROGRAM_ENDLESS ? x->min : x->max;
    if (times == 0) times = 1;
    return sum > UINT32_MAX ? sum : sum * times;
}

/* One more pattern for f. */
static bool add_pattern(schema *s, form *f, const regex *x)
{
    const chars *set;
    uint32_t min, max;
    if (x == NULL) return false;
    form *one = form_new(s);
    if (one == NULL) return false;
    one->types = TYPE_STRING;
    if (regex_is_run(x, &set, &min, &max) && (min > 1 || max != PROGRAM_ENDLESS)) {
        regex run = *x;
        while (run.kind == REGEX_SEQUENCE) run = *run.last;
        run.min = 0;
        run.max = PROGRAM_ENDLESS;
        one->text = dfa_meet(s->p, s->any_text, dfa_of_regex(s->p, &run, SPELLING_JSON));
        one->min_length = min;
        one->max_length = max == PROGRAM_ENDLESS ? LEXEME_ENDLESS : max;
    } else if (weight(x) > LOOSE_WEIGHT) {
        one->loose = x;
    } else {
        one->text = dfa_meet(s->p, s->any_text, dfa_of_regex(s->p, x, SPELLING_JSON));
    }
    if (s->p->status != WEFT_OK) return false;
    form before = *f;
    before.types = TYPE_STRING;
    form *both = form_meet(s, &before, one);
    if (both == NULL) {
        f->types &= ~(uint32_t)TYPE_STRING;
        return s->p->status == WEFT_OK;
    }
    f->text = both->text;
    f->loose = both->loose;
    f->min_length = both->min_length;
    f->max_length = both->max_length;
    return true;
}

static const regex *parse_pattern(schema *s, uint32_t node, const char *keyword, str pattern)
{
    const regex *x = regex_parse(s->p, pattern, REGEX_PART);
    if (x != NULL || s->p->status == WEFT_OK) return x;
    char place[96];
    const char *pointer = s->nodes[node]->pointer;
    size_t len = strlen(pointer);
    snprintf(place, sizeof place, "%s", len > 90 ? pointer + len - 90 : pointer);
    err_context(s->p->err, "schema at '%s/%s': '%.*s': ", place, keyword,
                (int)(pattern.len < 60 ? pattern.len : 60), pattern.ptr);
    return NULL;
}

bool schema_read_text(schema *s, uint32_t node, form *f)
{
    const json *object = s->nodes[node]->value;
    const json *pattern = json_get(object, "pattern"), *format = json_get(object, "format");
    if (!schema_count(s, node, "minLength", &f->min_length) ||
        !schema_count(s, node, "maxLength", &f->max_length))
        return false;
    if (pattern != NULL && json_kind_of(pattern) != JSON_KIND_TEXT) {
        schema_fail(s, node, "pattern", WEFT_FORMAT, "is no text");
        return false;
    }
    if (pattern != NULL &&
        !add_pattern(s, f, parse_pattern(s, node, "pattern", json_text(pattern))))
        return false;
    if (format != NULL && json_kind_of(format) != JSON_KIND_TEXT) {
        schema_fail(s, node, "format", WEFT_FORMAT, "is no text");
        return false;
    }
    const char *known = format == NULL ? NULL : schema_format(json_text(format));
    if (known == NULL) return true;
    f->inexact = true; /* by the standard it only describes */
    return add_pattern(s, f, regex_parse(s->p, str_of(known), REGEX_WHOLE));
}

const dfa *schema_names_like(schema *s, uint32_t node, const char *keyword, str pattern)
{
    const regex *x = parse_pattern(s, node, keyword, pattern);
    return x == NULL ? NULL : dfa_meet(s->p, s->any_name, dfa_of_regex(s->p, x, SPELLING_JSON));
}

/* min..max characters, none too many for an automaton. */
static const dfa *of_length(schema *s, uint32_t min, uint32_t max)
{
    char pattern[64];
    if (max == LEXEME_ENDLESS) {
        snprintf(pattern, sizeof pattern, "[^]{%u,}", min);
    } else {
        snprintf(pattern, sizeof pattern, "[^]{%u,%u}", min, max);
    }
    return dfa_of_regex(s->p, regex_parse(s->p, str_of(pattern), REGEX_WHOLE), SPELLING_JSON);
}

const dfa *form_text(schema *s, const form *f)
{
    const dfa *d = f->text == NULL ? s->any_text : f->text;
    if (f->loose != NULL)
        d = dfa_meet(s->p, s->any_text, dfa_of_regex(s->p, f->loose, SPELLING_JSON));
    return d;
}

const dfa *schema_names_of(schema *s, const form *f)
{
    if (f->has_values) {
        str *words = program_alloc(s->p, (size_t)f->n_values + 1, sizeof *words);
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->n_values && words != NULL; i++)
            if (value_type(f->values[i]) == TYPE_STRING) words[n++] = json_text(f->values[i]);
        const dfa *d = dfa_of_words(s->p, words, n, SPELLING_JSON);
        return dfa_meet(s->p, s->any_name, d);
    }
    const dfa *d = dfa_meet(s->p, s->any_name, form_text(s, f));
    if (f->min_length == 0 && f->max_length == LEXEME_ENDLESS) return d;
    if (f->min_length > f->max_length) return dfa_without(s->p, d, d);
    return dfa_meet(s->p, d, of_length(s, f->min_length, f->max_length));
}
