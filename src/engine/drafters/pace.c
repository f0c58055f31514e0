/* pace.c - how many drafts of a graph pay for a request. */
#include "engine/drafters/pace.h"

enum {
    CERTAIN = 1 << 14,          /* a chance of 1 */
    FIRST_CHANCE = CERTAIN / 2, /* before anything is known */
    MEMORY = 16,                /* a draft counts 1 / MEMORY against all before it, */
    TRIES_MEMORY = 4, /* and so much while it is one of the first, or of the first behind a rest */
    /* A token verified beside others, in DRAFT_STEP-ths of a step (docs/performance.md). */
    VERIFY_COST = DRAFT_STEP * 3 / 10,
    /* Tokens more than without drafts, for the same cost: what is less is not worth the risk. */
    LEAST_GAIN = DRAFT_STEP * 3 / 100,
    TRIES = 4,       /* verified drafts before it rests again */
    REST_LEAST = 32, /* tokens */
    REST_MOST = 1024,
};

typedef struct pace {
    uint32_t chance;
    uint32_t rest;     /* how long the next one is */
    uint32_t rests_to; /* tokens that are known when it ends */
    uint32_t n_tries;  /* drafts to be verified before the chance counts */
} pace;

size_t pace_bytes(uint32_t n_tokens)
{
    (void)n_tokens;
    return sizeof(pace);
}

void pace_init(void *state, uint32_t n_tokens, const int32_t *prompt, uint32_t n_prompt)
{
    (void)n_tokens;
    (void)prompt;
    (void)n_prompt;
    *(pace *)state = (pace){.chance = FIRST_CHANCE, .rest = REST_LEAST, .n_tries = TRIES};
}

/* The k that pays best; *gain: its tokens for the cost of a plain step, in DRAFT_STEP-ths. */
static uint32_t best_length(uint32_t chance, uint32_t cost, uint32_t most, uint64_t *gain)
{
    uint64_t tokens = CERTAIN; /* of a step, in CERTAIN-ths */
    uint64_t right = CERTAIN;  /* the chance that all so far are */
    uint64_t price = DRAFT_STEP;
    uint32_t best = 0;
    *gain = DRAFT_STEP;
    for (uint32_t k = 1; k <= most; k++) {
        right = right * chance / CERTAIN;
        tokens += right;
        price += (uint64_t)cost + VERIFY_COST;
        uint64_t of_k = tokens * DRAFT_STEP / price * DRAFT_STEP / CERTAIN;
        if (of_k <= *gain) continue;
        *gain = of_k;
        best = k;
    }
    return best;
}

uint32_t pace_length(const void *state, uint32_t n_tokens, uint32_t cost, uint32_t most)
{
    const pace *p = state;
    uint64_t gain;
    if (n_tokens < p->rests_to || most == 0) return 0;
    uint32_t n = best_length(p->chance, cost, most, &gain);
    if (gain >= DRAFT_STEP + LEAST_GAIN) return n;
    return p->n_tries > 0 ? 1 : 0;
}

void pace_learn(void *state, uint32_t n_tokens, uint32_t cost, uint32_t n_drafts, uint32_t n_right)
{
    pace *p = state;
    uint64_t gain;
    for (uint32_t i = 0; i < n_drafts && i <= n_right; i++) {
        uint32_t memory = p->n_tries > 0 ? TRIES_MEMORY : MEMORY;
        p->chance -= p->chance / memory;
        if (i < n_right) p->chance += CERTAIN / memory;
        if (p->n_tries > 0) p->n_tries--;
    }
    best_length(p->chance, cost, DRAFTS_MOST, &gain);
    if (p->n_tries > 0) return;
    if (gain >= DRAFT_STEP + LEAST_GAIN) {
        if (p->chance > FIRST_CHANCE) p->rest = REST_LEAST;
        return;
    }
    p->rests_to = n_tokens + p->rest;
    p->rest = p->rest < REST_MOST / 2 ? 2 * p->rest : REST_MOST;
    p->n_tries = TRIES;
    p->chance = FIRST_CHANCE; /* what was learned will be old */
}
