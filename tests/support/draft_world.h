/* draft_world.h - models that draft for models, and a drafter that asks for every number of drafts
 * in turn, whether they pay or not. */
#ifndef SUPPORT_DRAFT_WORLD_H
#define SUPPORT_DRAFT_WORLD_H

#include "support/runs.h"

/* least drafts, if there may be so many, and up to 4 more; the rest is what came of it. */
typedef struct eager {
    uint32_t least;
    uint32_t n_drafted, n_right, n_learned;
} eager;

typedef struct draft_setting {
    const char *golden, *drafting; /* drafting NULL: the head */
    const char *kv, *draft_kv, *backend;
    weft_act act;
} draft_setting;

typedef struct draft_world {
    draft_setting s;
    weft_model *model, *drafting;
    uint32_t n_vocab;
} draft_world;

/* allocator NULL: the system's. */
void draft_world_open(draft_world *w, draft_setting s, const weft_allocator *allocator);
void draft_world_close(draft_world *w);

/* One thread, unless options say otherwise; drafts false: neither model nor head drafts. */
weft_engine *draft_world_engine(const draft_world *w, bool drafts, weft_engine_options options);

/* The run drafts by what there is, as many as s says. */
void draft_world_eager(const draft_world *w, run *r, eager *s);

#endif
