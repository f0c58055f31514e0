/* grammar.c - weft_grammar_*: the vocabulary of a model is read for the first. */
#include <string.h>

#include "api/api.h"

static weft_status check(const weft_model *m, weft_grammar_kind kind, const char *text,
                         size_t n_bytes, weft_error *err)
{
    if (m == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    if (text == NULL && n_bytes > 0) return err_set(err, WEFT_ARGUMENT, "text is NULL");
    if ((int)kind < WEFT_GRAMMAR_SCHEMA || kind > WEFT_GRAMMAR_PARTS)
        return err_set(err, WEFT_ARGUMENT, "kind is %d, expected 0 to %d", (int)kind,
                       WEFT_GRAMMAR_PARTS);
    if (m->tokenizer != NULL) return WEFT_OK;
    return err_set(err, m->tokenizer_error.status, "a grammar: %s", m->tokenizer_error.message);
}

/* Called with the lock held. */
static weft_status read_vocab(const weft_model *m, weft_error *err)
{
    const struct llm *model = m->model;
    int32_t ends[MODEL_STOP_IDS];
    if (m->words->vocab != NULL) return WEFT_OK;
    uint32_t n_ends = llm_end_ids(model, ends);
    if (n_ends == 0)
        return err_set(err, WEFT_UNSUPPORTED,
                       "a grammar: the model has no token that ends an answer");
    return grammar_vocab_of(&m->env, m->tokenizer, model->params.n_vocab, ends, n_ends,
                            &m->words->vocab, err);
}

weft_status weft_grammar_open(const weft_model *model, weft_grammar_kind kind, const char *text,
                              size_t n_bytes, weft_grammar **out, weft_error *err)
{
    static const grammar_kind KINDS[] = {
        [WEFT_GRAMMAR_SCHEMA] = GRAMMAR_SCHEMA, [WEFT_GRAMMAR_JSON] = GRAMMAR_JSON,
        [WEFT_GRAMMAR_REGEX] = GRAMMAR_REGEX,   [WEFT_GRAMMAR_CHOICE] = GRAMMAR_CHOICE,
        [WEFT_GRAMMAR_RULES] = GRAMMAR_GBNF,    [WEFT_GRAMMAR_PARTS] = GRAMMAR_PARTS};
    err_clear(err);
    if (out == NULL) return err_set(err, WEFT_ARGUMENT, "grammar is NULL");
    *out = NULL;
    weft_status status = check(model, kind, text, n_bytes, err);
    if (status != WEFT_OK) return status;
    thread_lock_take(model->words->lock);
    status = read_vocab(model, err);
    thread_lock_drop(model->words->lock);
    if (status != WEFT_OK) return status;
    weft_grammar *g = mem_alloc_zero(&model->allocator, sizeof *g);
    if (g == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a grammar");
    g->env = model->env;
    g->model = model->model;
    str source = {text != NULL ? text : "", n_bytes};
    status = grammar_compile(&model->env, model->words->vocab, KINDS[kind], source, &g->rules, err);
    if (status == WEFT_OK) {
        *out = g;
        return WEFT_OK;
    }
    mem_free(&model->allocator, g, sizeof *g);
    return status;
}

void weft_grammar_close(weft_grammar *g)
{
    if (g == NULL) return;
    const weft_allocator *allocator = g->env.allocator;
    grammar_unref(g->rules);
    mem_free(allocator, g, sizeof *g);
}
