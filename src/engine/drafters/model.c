/* model.c - drafts of a smaller model of the same vocabulary. */
#include "engine/drafters/pace.h"

const engine_drafter ENGINE_DRAFTER_MODEL = {
    .name = "model",
    .graph = DRAFT_GRAPH_MODEL,
    .state_bytes = pace_bytes,
    .init = pace_init,
    .length = pace_length,
    .learn = pace_learn,
};
