/* schema_emit.c - forms as nodes: the texts that are written for them. */
#include <stdio.h>
#include <string.h>

#include "grammar/schema.h"
#include "grammar/words.h"

uint32_t write_space(schema *s, uint32_t next)
{
    return node_lexeme(s->p, s->space, next);
}

uint32_t demand_call(schema *s, uint32_t demand_i, uint32_t next)
{
    if (demand_i == DEMAND_NEVER || s->p->status != WEFT_OK) return NODE_FAIL;
    demand *d = s->demands[demand_i];
    if (d->rule == UINT32_MAX) {
        const char *name = "a schema";
        if (d->n > 0) {
            const char *pointer = s->nodes[d->ids[0] / 2]->pointer;
            size_t len = strlen(pointer);
            char *text = program_alloc(s->p, len + 16, 1);
            if (text == NULL) return NODE_FAIL;
            snprintf(text, len + 16, "schema at '%s'", pointer);
            name = text;
        }
        d->rule = program_rule(s->p, name);
        if (s->p->status != WEFT_OK) return NODE_FAIL;
        s->waiting[s->n_waiting++] = demand_i;
    }
    return node_call(s->p, d->rule, next);
}

static uint32_t write_text(schema *s, const form *f, uint32_t next)
{
    program *p = s->p;
    uint32_t end = node_range(p, '"', '"', next);
    uint32_t inner;
    if (f->loose != NULL && f->min_length == 0 && f->max_length == LEXEME_ENDLESS) {
        inner = node_regex(p, f->loose, SPELLING_JSON, end);
    } else {
        bool plain = f->text == NULL && f->loose == NULL;
        const dfa *d = plain ? s->free_text : form_text(s, f);
        inner = node_lexeme(p, lexeme_make(p, d, f->min_length, f->max_length), end);
    }
    return node_range(p, '"', '"', inner);
}

static uint32_t write_numbers(schema *s, const form *f, uint32_t next)
{
    bool whole = (f->types & TYPE_WHOLE) != 0, others = (f->types & TYPE_OTHERS) != 0;
    return node_lexeme(s->p, lexeme_of_numbers(s->p, &f->numbers, whole, others), next);
}

uint32_t form_write(schema *s, const form *f, uint32_t next)
{
    program *p = s->p;
    if (f->has_values) return write_values(s, f, next);
    uint32_t any = NODE_FAIL;
    static const struct {
        uint32_t type;
        const char *text;
    } WORDS[] = {{TYPE_NULL, "null"}, {TYPE_FALSE, "false"}, {TYPE_TRUE, "true"}};
    for (size_t i = 0; i < 3; i++)
        if ((f->types & WORDS[i].type) != 0)
            any = node_split(p, any, node_text(p, str_of(WORDS[i].text), next));
    if ((f->types & (TYPE_WHOLE | TYPE_OTHERS)) != 0)
        any = node_split(p, any, write_numbers(s, f, next));
    if ((f->types & TYPE_STRING) != 0) any = node_split(p, any, write_text(s, f, next));
    if ((f->types & TYPE_ARRAY) != 0) any = node_split(p, any, write_array(s, f, next));
    if ((f->types & TYPE_OBJECT) != 0) any = node_split(p, any, write_object(s, f, next));
    return any;
}

/* ---- values of enum and const ---- */

static str text_of(schema *s, const json *value)
{
    strbuf text;
    strbuf_init(&text, s->p->memory->allocator, 0);
    bool done = json_write(value, 0, &text) == WEFT_OK;
    char *copy = done ? arena_copy_text(s->p->memory, strbuf_text(&text), text.len) : NULL;
    str result = {copy, copy == NULL ? 0 : text.len};
    strbuf_deinit(&text);
    if (copy == NULL) program_fail(s->p, WEFT_NOMEM, "out of memory for a value of a schema");
    return result;
}

static uint32_t write_value(schema *s, const json *value, uint32_t next);

static uint32_t write_items(schema *s, const json *array, uint32_t next)
{
    program *p = s->p;
    uint32_t at = node_range(p, ']', ']', next);
    size_t n = json_length(array);
    if (n > 0) at = write_space(s, at);
    for (size_t i = n; i > 0; i--) {
        at = write_value(s, json_at(array, i - 1), at);
        at = write_space(s, at);
        if (i > 1) at = node_range(p, ',', ',', at);
    }
    return node_range(p, '[', '[', at);
}

static uint32_t write_members(schema *s, const json *object, uint32_t next)
{
    program *p = s->p;
    size_t n = json_length(object), i = 0;
    str *names = program_alloc(p, n + 1, sizeof *names);
    const json **values = program_alloc(p, n + 1, sizeof(json *));
    json_iter it = {NULL};
    if (names == NULL || values == NULL) return NODE_FAIL;
    while (json_next(object, &it, &names[i], &values[i])) i++;
    uint32_t at = node_range(p, '}', '}', next);
    if (n > 0) at = write_space(s, at);
    for (; i > 0; i--) {
        at = write_value(s, values[i - 1], at);
        at = node_range(p, ':', ':', write_space(s, at));
        at = node_range(p, '"', '"', at);
        at = node_range(p, '"', '"', node_spelled(p, names[i - 1], SPELLING_JSON, at));
        at = write_space(s, at);
        if (i > 1) at = node_range(p, ',', ',', at);
    }
    return node_range(p, '{', '{', at);
}

/* Depth is bounded by that of a document. */
static uint32_t write_value(schema *s, const json *value, uint32_t next)
{
    if (s->p->status != WEFT_OK) return NODE_FAIL;
    if (json_kind_of(value) == JSON_KIND_ARRAY) return write_items(s, value, next);
    if (json_kind_of(value) == JSON_KIND_OBJECT) return write_members(s, value, next);
    return node_text(s->p, text_of(s, value), next);
}

uint32_t write_values(schema *s, const form *f, uint32_t next)
{
    str *words = program_alloc(s->p, (size_t)f->n_values + 1, sizeof *words);
    uint32_t n = 0, any = NODE_FAIL;
    for (uint32_t i = 0; i < f->n_values && s->p->status == WEFT_OK; i++) {
        if ((value_type(f->values[i]) & (TYPE_ARRAY | TYPE_OBJECT)) == 0) {
            words[n++] = text_of(s, f->values[i]);
        } else {
            any = node_split(s->p, any, write_value(s, f->values[i], next));
        }
    }
    if (s->p->status != WEFT_OK) return NODE_FAIL;
    return node_split(s->p, node_words(s->p, words, n, SPELLING_TEXT, next), any);
}
