/* mtp.c - drafts of the model's own head that drafts (multi-token prediction). */
#include "engine/drafters/pace.h"

const engine_drafter ENGINE_DRAFTER_MTP = {
    .name = "mtp",
    .graph = DRAFT_GRAPH_HEAD,
    .state_bytes = pace_bytes,
    .init = pace_init,
    .length = pace_length,
    .learn = pace_learn,
};
