/* compile.c - a description becomes a program; what compiling took goes, what is kept is copied
 * together. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/utf8.h"
#include "grammar/compiled.h"
#include "grammar/regex.h"
#include "grammar/sources.h"
#include "grammar/words.h"

static const machine_limits LIMITS = {2048, 1 << 16, 1 << 14, 1 << 14, GRAMMAR_DEPTH};

/* ---- sources that need no file of their own ---- */

void source_regex(program *p, str text)
{
    regex *x = regex_parse_answer(p, text);
    (void)program_rule(p, NULL);
    uint32_t start = node_regex(p, x, SPELLING_TEXT, NODE_RETURN);
    if (p->status == WEFT_OK) p->rules[0].start = start;
}

uint32_t node_choice(program *p, const json *list, uint32_t next)
{
    size_t n = json_length(list);
    if (json_kind_of(list) != JSON_KIND_ARRAY || n == 0) {
        program_fail(p, WEFT_ARGUMENT, "a choice is an array of one text or more");
        return NODE_FAIL;
    }
    str *words = program_alloc(p, n, sizeof *words);
    for (size_t i = 0; i < n && p->status == WEFT_OK; i++) {
        const json *word = json_at(list, i);
        if (json_kind_of(word) != JSON_KIND_TEXT)
            program_fail(p, WEFT_ARGUMENT, "/%zu of a choice is no text but %s", i,
                         json_kind_name(json_kind_of(word)));
        words[i] = json_text(word);
    }
    if (p->status != WEFT_OK) return NODE_FAIL;
    return node_words(p, words, (uint32_t)n, SPELLING_TEXT, next);
}

void source_choice(program *p, str text)
{
    json_doc doc = {NULL};
    weft_status status = json_parse(&doc, text.ptr, text.len, p->err);
    if (status != WEFT_OK) {
        p->status = status;
        return;
    }
    (void)program_rule(p, NULL);
    uint32_t start = node_choice(p, doc.root, NODE_RETURN);
    if (p->status == WEFT_OK) p->rules[0].start = start;
    json_doc_free(&doc);
}

static void source_of(program *p, const grammar_vocab *v, grammar_kind kind, str text)
{
    switch (kind) {
    case GRAMMAR_SCHEMA:
        source_schema(p, text);
        return;
    case GRAMMAR_JSON:
        if (text.len != 0) program_fail(p, WEFT_ARGUMENT, "any JSON object takes no description");
        source_schema(p, str_of("{\"type\":\"object\"}"));
        return;
    case GRAMMAR_REGEX:
        source_regex(p, text);
        return;
    case GRAMMAR_CHOICE:
        source_choice(p, text);
        return;
    case GRAMMAR_GBNF:
        source_gbnf(p, v, text);
        return;
    case GRAMMAR_PARTS:
        source_parts(p, v, text);
        return;
    }
    program_fail(p, WEFT_ARGUMENT, "there is no kind %d of grammars", (int)kind);
}

/* ---- keeping what came of it ---- */

static void *copy(program *to, const void *from, size_t count, size_t size)
{
    void *memory = program_alloc(to, count, size);
    if (memory != NULL && count != 0) memcpy(memory, from, count * size);
    return memory;
}

static const dfa *copy_dfa(program *to, const dfa *from)
{
    dfa *d = copy(to, from, 1, sizeof *from);
    if (d == NULL) return NULL;
    d->next = copy(to, from->next, (size_t)from->n_states * from->n_classes, sizeof *from->next);
    d->flag = copy(to, from->flag, from->n_states, 1);
    d->wide = copy(to, from->wide, from->n_states, sizeof *from->wide);
    return d;
}

static void copy_lexemes(program *to, const program *from)
{
    const lexeme **list = program_alloc(to, from->n_lexemes, sizeof(lexeme *));
    for (uint32_t i = 0; i < from->n_lexemes && to->status == WEFT_OK; i++) {
        lexeme *lex = copy(to, from->lexemes[i], 1, sizeof *lex);
        if (lex == NULL) return;
        uint32_t k = 0;
        while (k < i && from->lexemes[k]->automaton != lex->automaton) k++;
        lex->automaton = k < i ? list[k]->automaton : copy_dfa(to, lex->automaton);
        if (lex->lengths != NULL && lex->automaton != NULL)
            lex->lengths = copy(to, lex->lengths,
                                (size_t)(lex->start + lex->period) * lex->automaton->n_states,
                                sizeof *lex->lengths);
        list[i] = lex;
    }
    to->lexemes = list;
}

/* Names of rules are of no use any more. */
static void copy_program(program *to, const program *from, arena *memory, weft_error *err)
{
    *to = *from;
    to->memory = memory;
    to->err = err;
    to->nodes = copy(to, from->nodes, from->n_nodes, sizeof *from->nodes);
    to->sets = copy(to, from->sets, from->n_sets, sizeof *from->sets);
    to->rules = copy(to, from->rules, from->n_rules, sizeof *from->rules);
    to->loops = copy(to, from->loops, from->n_loops, sizeof *from->loops);
    to->tokens = copy(to, from->tokens, from->n_tokens, sizeof *from->tokens);
    copy_lexemes(to, from);
    for (uint32_t i = 0; i < to->n_rules && to->status == WEFT_OK; i++) to->rules[i].name = NULL;
    to->err = NULL;
}

/* Whether there is a beginning, found before the first request needs it. */
static weft_status try_start(grammar *g, weft_error *err)
{
    grammar_state *s;
    weft_status status = grammar_state_create(g, &s, err);
    if (status == WEFT_OK) grammar_state_destroy(s);
    return status;
}

static weft_status build(grammar *g, grammar_kind kind, str text, weft_error *err)
{
    arena scratch;
    arena_init(&scratch, g->allocator, GRAMMAR_COMPILE_BYTES);
    program draft;
    program_init(&draft, &scratch, err);
    draft.has_runs = true;
    if (draft.status == WEFT_OK) source_of(&draft, g->vocab, kind, text);
    program_finish(&draft);
    weft_status status = draft.status;
    if (status == WEFT_OK) {
        copy_program(&g->program, &draft, &g->memory, err);
        status = g->program.status;
    }
    arena_deinit(&scratch);
    if (status == WEFT_OK)
        status = masks_init(&g->masks, g->allocator, GRAMMAR_MASKS, g->vocab->n_words, err);
    return status == WEFT_OK ? try_start(g, err) : status;
}

weft_status grammar_compile(const env *world, const grammar_vocab *vocab, grammar_kind kind,
                            str text, grammar **out, weft_error *err)
{
    *out = NULL;
    if (text.len > GRAMMAR_TEXT_BYTES)
        return err_set(err, WEFT_LIMIT, "a grammar of %zu bytes, at most %d are read", text.len,
                       GRAMMAR_TEXT_BYTES);
    grammar *g = mem_alloc_zero(world->allocator, sizeof *g);
    if (g == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a grammar");
    g->allocator = world->allocator;
    g->vocab = vocab;
    g->limits = LIMITS;
    atomic_init(&g->n_refs, 1);
    arena_init(&g->memory, world->allocator, GRAMMAR_KEPT_BYTES);
    weft_status status = build(g, kind, text, err);
    if (status != WEFT_OK) {
        grammar_unref(g);
        return status;
    }
    *out = g;
    return WEFT_OK;
}

grammar *grammar_ref(grammar *g)
{
    (void)atomic_fetch_add(&g->n_refs, 1);
    return g;
}

void grammar_unref(grammar *g)
{
    if (g == NULL || atomic_fetch_sub(&g->n_refs, 1) != 1) return;
    masks_deinit(&g->masks, g->allocator);
    arena_deinit(&g->memory);
    mem_free(g->allocator, g, sizeof *g);
}
