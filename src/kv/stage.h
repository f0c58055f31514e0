/* stage.h - pages that are filled from outside before anybody sees them: a sequence that never ran,
 * with exactly the pages that the boundaries of a file need, promised as any sequence's. What is
 * whole then goes into the prefix cache, which takes the promise over page by page. */
#ifndef KV_STAGE_H
#define KV_STAGE_H

#include "kv/prefix_node.h"
#include "kv/state_file.h"

typedef struct stage {
    kv_prefix *prefix;         /* borrowed */
    const kv_state_file *file; /* borrowed; its sections are not looked at */
    kv_seq *seq;
    kv_page **states; /* [n_boundaries, n_layers], of recurrent layers */
} stage;

/* LIMIT: the budget has no room, or the cache's own; NOMEM; nothing is then held. a: for states. */
weft_status stage_open(stage *s, kv_prefix *prefix, arena *a, const kv_state_file *file,
                       weft_error *err);

/* Gives back what the cache did not take. */
void stage_close(stage *s);

/* Where a section's bytes belong. */
void stage_put(stage *s, const kv_section *section, const unsigned char *bytes);

/* Every boundary, one by one, each as a whole. Where windows are shorter than pages, two of them
 * may want the same page with a hole in it, which the cache does not know: the later one stays.
 * history: of len tokens. chosen: [n_boundaries], scratch. */
void stage_publish(stage *s, kv_space *space, const kv_history *history, bool *chosen);

/* Which of the boundaries [n], ascending, a cache can have at once that gets their rows and no
 * others: later ones before earlier ones, whose rows in one page have a hole between them. later:
 * [n_layers], scratch. */
void stage_choose(const kv_config *c, const uint32_t *boundaries, uint32_t n, uint32_t *later,
                  bool *chosen);

#endif
