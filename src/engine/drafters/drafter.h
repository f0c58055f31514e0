/* drafter.h - what guesses the next tokens of a sequence, so that one step can verify several.
 *
 * A guess changes no answer: a step forwards it, and only what sampling gives anyway is kept
 * (engine/verify.c). So a drafter may propose anything, and is judged by speed alone.
 *
 * There are two kinds, of one interface. One proposes by itself, from the text (propose). The
 * other's proposals come from a graph that the engine runs (engine/draft.h): it only says how many
 * are worth their while (length), and is told what became of them (learn).
 *
 * To add a drafter: NAME.c with `const engine_drafter ENGINE_DRAFTER_NAME`, a row in drafters.def.
 */
#ifndef ENGINE_DRAFTERS_DRAFTER_H
#define ENGINE_DRAFTERS_DRAFTER_H

#include "base/err.h"

/* Most tokens that any drafter is asked for at once. */
enum { DRAFTS_MOST = 32 };

/* What costs of drafts are counted in. */
enum { DRAFT_STEP = 1024 };

/* Whose graph proposes. */
typedef enum draft_graph_kind {
    DRAFT_GRAPH_NONE,  /* nobody's: propose is there */
    DRAFT_GRAPH_MODEL, /* the engine's draft model's */
    DRAFT_GRAPH_HEAD   /* that of the head which the engine's own model has */
} draft_graph_kind;

typedef struct engine_drafter {
    const char *name;
    draft_graph_kind graph;

    /* What it keeps for a request of at most n_tokens tokens, prompt included. */
    size_t (*state_bytes)(uint32_t n_tokens);

    /* state: [state_bytes], aligned to 64, not cleared. tokens: [n_prompt]; more is known when
     * propose is called. */
    void (*init)(void *state, uint32_t n_tokens, const int32_t *prompt, uint32_t n_prompt);

    /* Writes up to most (1 .. DRAFTS_MOST) ids that may follow tokens [n_tokens] and returns how
     * many; tokens begins with what it was at the last call. An id that is no token ends the
     * proposal. Allocates nothing, takes time that does not grow with n_tokens but for what is
     * new. NULL where a graph proposes. */
    uint32_t (*propose)(void *state, const int32_t *tokens, uint32_t n_tokens, uint32_t most,
                        int32_t *out);

    /* Where a graph proposes, else NULL: how many drafts behind n_tokens tokens pay best, at most
     * most; 0: none does, nothing need be made for them. cost: of one draft, in DRAFT_STEP-ths of a
     * step of one token. A question: it may be asked any number of times. */
    uint32_t (*length)(const void *state, uint32_t n_tokens, uint32_t cost, uint32_t most);

    /* Likewise: of n_drafts (at least 1) that were verified the first n_right were right; n_tokens
     * are known now. */
    void (*learn)(void *state, uint32_t n_tokens, uint32_t cost, uint32_t n_drafts,
                  uint32_t n_right);
} engine_drafter;

/* [*count] rows. */
const engine_drafter *const *engine_drafter_table(uint32_t *count);

/* ARGUMENT with the names there are. */
weft_status engine_drafter_find(const char *name, const engine_drafter **drafter, weft_error *err);

#endif
