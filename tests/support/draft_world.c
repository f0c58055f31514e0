/* draft_world.c - models that draft for models. */
#include "support/draft_world.h"

#include <stdio.h>
#include <string.h>

static uint32_t eager_length(const void *state, uint32_t n_tokens, uint32_t cost, uint32_t most)
{
    const eager *s = state;
    uint32_t n = s->least + n_tokens % 5;
    assert_true(cost > 0);
    return n < most ? n : most;
}

static void eager_learn(void *state, uint32_t n_tokens, uint32_t cost, uint32_t n_drafts,
                        uint32_t n_right)
{
    eager *s = state;
    assert_true(n_tokens > 0 && cost > 0 && n_drafts > 0 && n_right <= n_drafts);
    s->n_drafted += n_drafts;
    s->n_right += n_right;
    s->n_learned++;
}

static const engine_drafter EAGER_MODEL = {
    .name = "eager", .graph = DRAFT_GRAPH_MODEL, .length = eager_length, .learn = eager_learn};
static const engine_drafter EAGER_HEAD = {
    .name = "eager", .graph = DRAFT_GRAPH_HEAD, .length = eager_length, .learn = eager_learn};

static weft_model *open_golden(const char *name, const weft_allocator *allocator)
{
    char path[600];
    weft_error err = {WEFT_OK, ""};
    weft_model *model = NULL;
    weft_model_options options = {.struct_size = sizeof options, .allocator = allocator};
    bool tiny = strncmp(name, "tiny/", 5) == 0;
    snprintf(path, sizeof path, "%s/%s", tiny ? WEFT_SOURCE_DIR "/models" : WEFT_GOLDEN_DIR, name);
    assert_ok(weft_model_open(path, &options, &model, &err), &err);
    return model;
}

void draft_world_open(draft_world *w, draft_setting s, const weft_allocator *allocator)
{
    *w = (draft_world){.s = s, .model = open_golden(s.golden, allocator)};
    if (s.drafting != NULL) w->drafting = open_golden(s.drafting, allocator);
    w->n_vocab = run_n_vocab(w->model);
}

void draft_world_close(draft_world *w)
{
    weft_model_close(w->drafting);
    weft_model_close(w->model);
}

weft_engine *draft_world_engine(const draft_world *w, bool drafts, weft_engine_options o)
{
    o.struct_size = sizeof o;
    o.backend = w->s.backend;
    o.act = w->s.act;
    o.kv = w->s.kv;
    if (o.context == 0) o.context = 256;
    if (o.n_threads == 0) o.n_threads = 1;
    if (!drafts) return run_open_engine(w->model, &o);
    o.draft_model = w->drafting;
    o.draft_kv = w->s.draft_kv;
    if (w->drafting == NULL) o.flags |= WEFT_ENGINE_MTP;
    return run_open_engine(w->model, &o);
}

void draft_world_eager(const draft_world *w, run *r, eager *s)
{
    r->drafter = w->drafting != NULL ? &EAGER_MODEL : &EAGER_HEAD;
    r->draft_state = s;
}
