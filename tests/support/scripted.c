/* scripted.c - a drafter that knows what will be sampled. */
#include "support/scripted.h"

#include "base/rng.h"

/* What became of the last proposal, by how many tokens are known now. Steps in which nothing may be
 * drafted ask nobody, so there may be more of them; a request may end at a draft that was right. */
static void settle(script *s, uint32_t n_tokens, bool goes_on)
{
    if (s->n_calls == 0) return;
    uint32_t right = n_tokens - s->known;
    if (goes_on) assert_true(right > s->n_right);
    if (right > s->n_right) right = s->n_right;
    if (s->n_tokens <= SCRIPT_MOST && goes_on) s->seen[s->n_tokens][right]++;
    s->n_drafted += s->n_tokens;
    s->n_accepted += right;
}

static int32_t next(const script *s, uint32_t known, uint32_t i)
{
    uint32_t new_i = known - s->answer->n_prompt + i;
    return new_i < s->answer->n_tokens ? s->answer->tokens[new_i] : 0;
}

static int32_t other(const script *s, int32_t id)
{
    return (int32_t)(((uint32_t)id + 1) % s->n_vocab);
}

/* 11 and the number of patterns have no common divisor, so that each comes before one returns. */
static void pattern(const script *s, uint32_t *n, uint32_t *n_right)
{
    uint32_t i = (s->start + s->n_calls * 11) % SCRIPT_PATTERNS;
    for (*n = 0; i > *n; ++*n) i -= *n + 1;
    *n_right = i;
}

static uint32_t propose(void *state, const int32_t *tokens, uint32_t n_tokens, uint32_t most,
                        int32_t *out)
{
    script *s = state;
    assert_in_range(most, 1, DRAFTS_MOST);
    settle(s, n_tokens, true);
    uint32_t n = most;
    uint32_t n_right = most;
    if (s->kind == SCRIPT_EVERY) pattern(s, &n, &n_right);
    if (s->kind == SCRIPT_WRONG) n_right = 0;
    if (s->kind == SCRIPT_EMPTY) n = 0;
    if (n > most) n = most;
    if (s->kind == SCRIPT_NO_TOKENS) n_right = s->n_calls % (n + 1);
    if (n_right > n) n_right = n;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = next(s, n_tokens, i);
        if (s->kind == SCRIPT_RANDOM)
            out[i] = (int32_t)(rng_u64(s->start, n_tokens + i) % s->n_vocab);
        if (i < n_right || s->kind == SCRIPT_RANDOM) continue;
        out[i] = other(s, out[i]);
        if (s->kind == SCRIPT_NO_TOKENS) out[i] = i % 2 == 0 ? -1 : (int32_t)s->n_vocab;
    }
    if (s->kind == SCRIPT_RANDOM) {
        for (n_right = 0; n_right < n && out[n_right] == next(s, n_tokens, n_right);) n_right++;
    }
    assert_int_equal(tokens[n_tokens - 1], s->answer->tokens[n_tokens - 1 - s->answer->n_prompt]);
    s->n_calls++;
    s->known = n_tokens;
    s->n_tokens = s->kind == SCRIPT_NO_TOKENS ? n_right : n;
    s->n_right = n_right;
    return s->kind == SCRIPT_BOASTING ? n + 1000 : n;
}

const engine_drafter SCRIPTED = {.name = "scripted", .propose = propose};

void script_check(script *s, const run *r)
{
    settle(s, r->n_prompt + r->n_tokens, false);
    assert_int_equal(r->n_drafted, s->n_drafted);
    assert_int_equal(r->n_accepted, s->n_accepted);
}

void script_assert_every(const script *s)
{
    for (uint32_t n = 0; n <= SCRIPT_MOST; n++) {
        for (uint32_t right = 0; right <= n; right++) {
            if (s->seen[n][right] == 0) fail_msg("%u of %u drafts right: not seen", right, n);
        }
    }
}
