/* ngram.c - prompt lookup: what followed the last tokens when they stood in the text before.
 *
 * Every pair of neighbouring tokens is in a hash table of chains, newest first. The last pair is
 * looked up, and of the places found the one that agrees longest to the left is continued; one
 * that runs into the end of the text goes on with its own guesses, as a loop does.
 *
 * How much is proposed follows from how often such guesses came true, counted for each length of
 * match: a token more as long as all of them are right in two of five cases, since a token that is
 * verified costs about a third of one that is computed alone (docs/performance.md). Guesses that
 * are not proposed are compared with what comes all the same, which costs nothing; so a text that
 * begins to repeat itself is noticed without a single draft in vain.
 *
 * And there is an account, in steps of one token: it begins with one, gains a little with each
 * token and one with each draft that was right, and pays for each draft. It is never below 0. So
 * whatever the text is, what drafts cost in all is at most that one step and a share of 1 in
 * SPARE_SHARE beyond what they gave (tests/engine/test_drafters.c). */
#include <string.h>

#include "base/assert.h"
#include "engine/drafters/drafter.h"

enum {
    PLACES_MOST = 32,        /* of a chain that are looked at */
    LENGTH_MOST = 32,        /* tokens to the left that are compared */
    HEADS_LEAST = 1 << 6,    /* of the table */
    HEADS_MOST = 1 << 16,    /* likewise */
    N_KINDS = 9,             /* of lengths: 2 to 7 each, from 8, 12 and 20 on */
    CERTAIN = 1 << 10,       /* a chance of 1 */
    WORTH = CERTAIN * 2 / 5, /* the least chance of a draft that is proposed */
    MEMORY = 8,              /* a guess counts 1 / MEMORY against all before it */
    /* Of the account, in DRAFT_STEP-ths. */
    VERIFY_COST = DRAFT_STEP * 3 / 10, /* of a draft, right or wrong */
    SPARE_SHARE = 64,                  /* a token gives DRAFT_STEP / SPARE_SHARE */
    ACCOUNT_FIRST = DRAFT_STEP,        /* before anything was seen */
    ACCOUNT_MOST = 16 * DRAFT_STEP,    /* what was right long ago is no credit */
};

/* Before anything has been seen. */
static const uint32_t CHANCES[N_KINDS] = {300, 450, 600, 650, 700, 750, 800, 850, 950};

typedef struct ngram {
    uint32_t chances[N_KINDS];
    uint32_t n_indexed; /* tokens whose pairs are in the table */
    uint32_t n_heads;   /* a power of two */
    uint32_t account;
    uint32_t n_seen; /* tokens at the last call; 0: there was none */
    /* What the last call expected behind tokens [guess_at], by a match of guess_length. */
    uint32_t guess_at, guess_length, n_guesses;
    uint32_t n_proposed; /* the first of them */
    int32_t guesses[DRAFTS_MOST];
    /* heads [n_heads], then earlier [most tokens]: one more than the index of the second token of
     * a pair; 0 ends a chain. */
    uint32_t slots[];
} ngram;

static uint32_t heads_for(uint32_t n_tokens)
{
    uint32_t n = HEADS_LEAST;
    while (n < n_tokens && n < HEADS_MOST) n *= 2;
    return n;
}

static size_t state_bytes(uint32_t n_tokens)
{
    return sizeof(ngram) + ((size_t)heads_for(n_tokens) + n_tokens) * sizeof(uint32_t);
}

static uint32_t *head_of(ngram *g, const int32_t *pair)
{
    uint64_t key = (uint64_t)(uint32_t)pair[0] << 32 | (uint32_t)pair[1];
    return &g->slots[(key * 0x9e3779b97f4a7c15u >> 32) & (g->n_heads - 1)];
}

/* The table knows tokens [n] then. */
static void add_pairs(ngram *g, const int32_t *tokens, uint32_t n)
{
    uint32_t *earlier = g->slots + g->n_heads;
    for (; g->n_indexed < n; g->n_indexed++) {
        uint32_t i = g->n_indexed;
        if (i == 0) continue;
        uint32_t *head = head_of(g, &tokens[i - 1]);
        earlier[i] = *head;
        *head = i + 1;
    }
}

static void init(void *state, uint32_t n_tokens, const int32_t *prompt, uint32_t n_prompt)
{
    ngram *g = state;
    ASSERT(n_prompt <= n_tokens);
    *g = (ngram){.n_heads = heads_for(n_tokens), .account = ACCOUNT_FIRST};
    memcpy(g->chances, CHANCES, sizeof CHANCES);
    memset(g->slots, 0, g->n_heads * sizeof *g->slots);
    /* The newest token is looked for, not found. */
    add_pairs(g, prompt, n_prompt - 1);
}

static uint32_t kind_of(uint32_t length)
{
    if (length < 8) return length - 2;
    if (length < 12) return 6;
    return length < 20 ? 7 : 8;
}

/* What became of the last guesses: those up to the first that was wrong say how good they are. */
static void learn(ngram *g, const int32_t *tokens, uint32_t n_tokens)
{
    bool right = true;
    for (uint32_t i = 0; i < g->n_guesses && g->guess_at + i < n_tokens && right; i++) {
        uint32_t *chance = &g->chances[kind_of(g->guess_length + i)];
        right = tokens[g->guess_at + i] == g->guesses[i];
        if (right && i < g->n_proposed) g->account += DRAFT_STEP;
        *chance -= *chance / MEMORY;
        if (right) *chance += CERTAIN / MEMORY;
    }
    g->n_guesses = g->n_proposed = 0;
}

/* What tokens since the last call give, and no more than is kept. */
static void fill_account(ngram *g, uint32_t n_tokens)
{
    uint64_t account = g->account;
    if (g->n_seen > 0) account += (uint64_t)(n_tokens - g->n_seen) * DRAFT_STEP / SPARE_SHARE;
    g->account = account < ACCOUNT_MOST ? (uint32_t)account : ACCOUNT_MOST;
    g->n_seen = n_tokens;
}

/* Guesses that are as likely as pays, and paid for. */
static uint32_t choose(ngram *g, uint32_t length, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t chance = CERTAIN; n < most && g->account >= VERIFY_COST; n++) {
        chance = chance * g->chances[kind_of(length + n)] / CERTAIN;
        if (chance < WORTH) break;
        g->account -= VERIFY_COST;
    }
    return n;
}

/* Tokens that are equal to the left of a and b, themselves included; a < b. */
static uint32_t length_at(const int32_t *tokens, uint32_t a, uint32_t b)
{
    uint32_t n = 0;
    while (n < LENGTH_MOST && n <= a && tokens[a - n] == tokens[b - n]) n++;
    return n;
}

/* The place that agrees longest with the end of tokens, the newest of equal ones; the result is
 * its length, 0 when there is none. */
static uint32_t find(ngram *g, const int32_t *tokens, uint32_t n_tokens, uint32_t *place)
{
    uint32_t last = n_tokens - 1;
    uint32_t longest = 0;
    if (last == 0) return 0;
    const uint32_t *earlier = g->slots + g->n_heads;
    uint32_t next = *head_of(g, &tokens[last - 1]);
    for (uint32_t i = 0; i < PLACES_MOST && next != 0 && longest < LENGTH_MOST; i++) {
        uint32_t at = next - 1;
        uint32_t length = length_at(tokens, at, last);
        if (length > longest) {
            longest = length;
            *place = at;
        }
        next = earlier[at];
    }
    /* Less than a pair: only their hashes were equal. */
    return longest < 2 ? 0 : longest;
}

static uint32_t propose(void *state, const int32_t *tokens, uint32_t n_tokens, uint32_t most,
                        int32_t *out)
{
    ngram *g = state;
    learn(g, tokens, n_tokens);
    fill_account(g, n_tokens);
    add_pairs(g, tokens, n_tokens - 1);
    uint32_t place = 0;
    uint32_t length = find(g, tokens, n_tokens, &place);
    if (length == 0) return 0;
    uint32_t period = n_tokens - 1 - place;
    for (uint32_t i = 0; i < most; i++) {
        g->guesses[i] = i < period ? tokens[place + 1 + i] : g->guesses[i - period];
    }
    g->guess_at = n_tokens;
    g->guess_length = length;
    g->n_guesses = most;
    g->n_proposed = choose(g, length, most);
    memcpy(out, g->guesses, g->n_proposed * sizeof *out);
    return g->n_proposed;
}

const engine_drafter ENGINE_DRAFTER_NGRAM = {
    .name = "ngram",
    .state_bytes = state_bytes,
    .init = init,
    .propose = propose,
};
