/* test_drafters.c - every drafter of the table: it writes what it may and no more, and forgets
 * nothing it was told; and what is expected of each by itself. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/drafters/drafter.h"
#include "support/fault.h"
#include "support/test.h"

enum { LENGTH = 3000, PROMPT = 100 };

/* A drafter's state in memory of exactly its size, with guards around. */
typedef struct world {
    fault_allocator memory;
    const engine_drafter *drafter;
    void *state;
    size_t n_bytes;
} world;

static void world_open(world *w, const engine_drafter *drafter, uint32_t n_tokens,
                       const int32_t *prompt, uint32_t n_prompt)
{
    fault_allocator_init(&w->memory, 0);
    w->drafter = drafter;
    w->n_bytes = drafter->state_bytes(n_tokens);
    w->state = w->memory.allocator.resize(w->memory.allocator.user, NULL, 0, w->n_bytes, 64);
    assert_non_null(w->state);
    drafter->init(w->state, n_tokens, prompt, n_prompt);
}

static void world_close(world *w)
{
    w->memory.allocator.resize(w->memory.allocator.user, w->state, w->n_bytes, 0, 64);
    fault_allocator_check(&w->memory);
}

/* What a text cost: as an engine goes through it, with up to most drafts a step. */
typedef struct cost {
    uint32_t n_steps, n_drafted, n_right;
} cost;

static uint32_t propose(world *w, const int32_t *text, uint32_t known, uint32_t most, int32_t *out)
{
    enum { UNTOUCHED = -77 };
    for (uint32_t i = 0; i < DRAFTS_MOST; i++) out[i] = UNTOUCHED;
    uint32_t n = w->drafter->propose(w->state, text, known, most, out);
    assert_true(n <= most);
    for (uint32_t i = most; i < DRAFTS_MOST; i++) assert_int_equal(out[i], UNTOUCHED);
    return n;
}

static cost read_text(const engine_drafter *drafter, const int32_t *text, uint32_t from,
                      uint32_t to, uint32_t most)
{
    world w;
    world_open(&w, drafter, to, text, from);
    cost c = {0};
    int32_t out[DRAFTS_MOST];
    for (uint32_t known = from + 1; known < to; known++) {
        uint32_t n = propose(&w, text, known, most, out);
        uint32_t right = 0;
        while (right < n && known + right < to && out[right] == text[known + right]) right++;
        c.n_steps++;
        c.n_drafted += n;
        c.n_right += right;
        known += right;
    }
    world_close(&w);
    return c;
}

static int32_t *random_text(uint32_t n, uint32_t n_vocab, uint64_t seed)
{
    int32_t *text = calloc(n, sizeof *text);
    assert_non_null(text);
    for (uint32_t i = 0; i < n; i++) text[i] = (int32_t)(rng_u64(seed, i) % n_vocab);
    return text;
}

static void test_table(void **state)
{
    (void)state;
    uint32_t n;
    const engine_drafter *const *table = engine_drafter_table(&n);
    assert_true(n > 0);
    weft_error err = {WEFT_OK, ""};
    const engine_drafter *found = NULL;
    for (uint32_t i = 0; i < n; i++) {
        assert_ok(engine_drafter_find(table[i]->name, &found, &err), &err);
        assert_ptr_equal(found, table[i]); /* so names are unique */
        bool by_graph = table[i]->graph != DRAFT_GRAPH_NONE;
        assert_int_equal(table[i]->propose == NULL, by_graph);
        assert_int_equal(table[i]->length != NULL, by_graph);
        assert_int_equal(table[i]->learn != NULL, by_graph);
    }
    assert_status(WEFT_ARGUMENT, engine_drafter_find("", &found, &err), &err);
    assert_null(found);
    assert_message(&err, "unknown drafter ''");
}

/* Texts of few and of many different tokens, from the shortest on; any ids are taken. */
static void test_any_text(void **state)
{
    (void)state;
    uint32_t n;
    const engine_drafter *const *table = engine_drafter_table(&n);
    static const uint32_t VOCABS[] = {1, 2, 3, 10, 1000, UINT32_MAX};
    for (uint32_t i = 0; i < n; i++) {
        if (table[i]->propose == NULL) continue;
        for (uint32_t k = 0; k < sizeof VOCABS / sizeof VOCABS[0]; k++) {
            int32_t *text = random_text(LENGTH, VOCABS[k], k);
            for (uint32_t most = 1; most <= DRAFTS_MOST; most += 7) {
                read_text(table[i], text, 1, LENGTH, most);
                read_text(table[i], text, 1, 2 + most, most);
            }
            free(text);
        }
    }
}

/* The same calls give the same proposals, wherever the prompt ends. */
static void test_repeatable(void **state)
{
    (void)state;
    uint32_t n;
    const engine_drafter *const *table = engine_drafter_table(&n);
    int32_t *text = random_text(LENGTH, 4, 5);
    for (uint32_t i = 0; i < n; i++) {
        world a;
        world b;
        if (table[i]->propose == NULL) continue;
        world_open(&a, table[i], LENGTH, text, PROMPT);
        world_open(&b, table[i], LENGTH, text, PROMPT - 50);
        for (uint32_t known = PROMPT + 1; known < LENGTH; known++) {
            int32_t of_a[DRAFTS_MOST];
            int32_t of_b[DRAFTS_MOST];
            uint32_t n_a = propose(&a, text, known, 8, of_a);
            assert_int_equal(propose(&b, text, known, 8, of_b), n_a);
            assert_memory_equal(of_a, of_b, sizeof of_a);
        }
        world_close(&a);
        world_close(&b);
    }
    free(text);
}

/* ---- ngram ------------------------------------------------------------------------------------*/

static const engine_drafter *ngram(void)
{
    const engine_drafter *drafter;
    assert_ok(engine_drafter_find("ngram", &drafter, NULL), NULL);
    return drafter;
}

/* A loop of any period is followed as fast as a step can verify. */
static void test_ngram_loops(void **state)
{
    (void)state;
    static const uint32_t PERIODS[] = {1, 2, 3, 7, 50};
    for (uint32_t i = 0; i < 5; i++) {
        int32_t *text = random_text(LENGTH, 100000, i);
        for (uint32_t k = PERIODS[i]; k < LENGTH; k++) text[k] = text[k - PERIODS[i]];
        cost c = read_text(ngram(), text, PROMPT, LENGTH, 8);
        assert_true(c.n_steps < (LENGTH - PROMPT) / 9 + 20);
        assert_true(c.n_right + 8 >= c.n_drafted);
        free(text);
    }
}

/* A text that never repeats a pair costs nothing, nor, soon, one in which what repeats goes on
 * differently every time. */
static void test_ngram_gives_up(void **state)
{
    (void)state;
    int32_t *text = random_text(LENGTH, 1u << 30, 1);
    cost c = read_text(ngram(), text, PROMPT, LENGTH, 8);
    assert_int_equal(c.n_drafted, 0);
    /* Six tokens that are always the same, and one that never is. */
    for (uint32_t i = 0; i < LENGTH; i++) {
        if (i % 7 != 6) text[i] = (int32_t)(i % 7);
    }
    c = read_text(ngram(), text, 7, LENGTH, 8);
    print_message("six of seven: %u drafts in %u steps, %u right\n", c.n_drafted, c.n_steps,
                  c.n_right);
    assert_true(c.n_right > LENGTH / 7 * 3 && c.n_right > 2 * (c.n_drafted - c.n_right));
    /* Pairs of many, in any order. */
    free(text);
    text = random_text(LENGTH, 30, 2);
    c = read_text(ngram(), text, PROMPT, LENGTH, 8);
    print_message("30 random tokens: %u drafts in %u steps, %u right\n", c.n_drafted, c.n_steps,
                  c.n_right);
    assert_true(c.n_drafted < c.n_steps / 50);
    free(text);
}

/* Whose text it is: each token is chosen by what is proposed behind those before. */
typedef enum enemy {
    ENEMY_AGAINST, /* right while nothing is proposed, and wrong when something is */
    ENEMY_LATE,    /* wrong at the last of what is proposed */
    ENEMY_FIRST,   /* right for so long that much is proposed, then wrong at the first, and again */
    ENEMY_DRAWN,   /* in any turn */
    N_ENEMIES
} enemy;

/* What the text says where the drafter expects guess at place i of n that are proposed. */
static bool follows(enemy how, uint32_t i, uint32_t n, uint32_t known)
{
    switch (how) {
    case ENEMY_AGAINST:
        return n == 0;
    case ENEMY_LATE:
        return n == 0 || i + 1 < n;
    case ENEMY_FIRST:
        return known / 64 % 2 == 0 || n == 0;
    default:
        return rng_u64(known, i) % 8 < rng_u64(3, known / 100) % 9;
    }
}

/* Steps of one token that it took beyond those without drafts, when a draft costs 3 / 10 of one: at
 * every length of the answer at most one, and a sixty-fourth. What is expected where nothing is
 * proposed another drafter says, which is as old and not told what was proposed. */
static void check_enemy(enemy how, uint32_t period, uint32_t most)
{
    world w;
    int32_t text[LENGTH + DRAFTS_MOST];
    int32_t out[DRAFTS_MOST];
    double paid = 0.0;
    for (uint32_t i = 0; i < PROMPT; i++) text[i] = (int32_t)(i % period);
    world_open(&w, ngram(), LENGTH, text, PROMPT);
    uint32_t known = PROMPT + 1;
    text[PROMPT] = (int32_t)(PROMPT % period);
    while (known + most < LENGTH) {
        uint32_t n = propose(&w, text, known, most, out);
        uint32_t right = 0;
        for (uint32_t i = 0; i < n && follows(how, i, n, known); i++)
            text[known + right++] = out[i];
        /* What stood there a period before is what is expected; or a token that never was. */
        bool as_ever = n == 0 && follows(how, 0, 0, known);
        uint32_t at = known + right;
        text[at] = as_ever ? text[at - period] : (int32_t)(1000 + at);
        paid += 0.3 * n - right;
        known = at + 1;
        double bound = 1.0 + (known - PROMPT) / 64.0;
        if (paid > bound) fail_msg("%.2f steps in %u tokens", paid, known - PROMPT);
    }
    print_message("text %d of period %u, %u a step: %.2f steps in %d tokens\n", (int)how, period,
                  most, paid, LENGTH);
    world_close(&w);
}

/* Whatever is said, drafts cost next to nothing in all. */
static void test_ngram_account(void **state)
{
    (void)state;
    static const uint32_t PERIODS[] = {1, 24};
    for (size_t i = 0; i < sizeof PERIODS / sizeof PERIODS[0]; i++) {
        for (int how = 0; how < N_ENEMIES; how++) {
            check_enemy((enemy)how, PERIODS[i], 1);
            check_enemy((enemy)how, PERIODS[i], 8);
        }
    }
}

/* What it has given up is tried again once it would have been right. */
static void test_ngram_comes_back(void **state)
{
    (void)state;
    int32_t *text = random_text(LENGTH, 30, 3);
    for (uint32_t k = LENGTH / 2; k < LENGTH; k++) text[k] = text[k - 200];
    cost first = read_text(ngram(), text, PROMPT, LENGTH / 2, 8);
    cost both = read_text(ngram(), text, PROMPT, LENGTH, 8);
    assert_true(first.n_drafted < first.n_steps / 50);
    assert_true(both.n_steps - first.n_steps < LENGTH / 2 / 9 + 40);
    free(text);
}

/* ---- those of graphs ------------------------------------------------------------------------ */

typedef struct outcome {
    uint32_t n_steps, n_drafted, n_right, longest;
} outcome;

/* A request of n tokens of whose drafts a share is right, in 1024ths, as an engine goes through it.
 */
static outcome pace_through(const engine_drafter *d, uint32_t n, uint32_t share, uint32_t price)
{
    world w;
    outcome o = {0};
    int32_t prompt[1] = {0};
    world_open(&w, d, n + 1, prompt, 1);
    for (uint32_t known = 1; known < n; o.n_steps++) {
        uint32_t k = d->length(w.state, known, price, 8);
        assert_int_equal(d->length(w.state, known, price, 8), k); /* a question */
        assert_true(k <= 8 && d->length(w.state, known, price, 1) == (k > 0));
        uint32_t right = 0;
        while (right < k && rng_u64(7, known + right) % 1024 < share) right++;
        known += 1 + right;
        o.n_drafted += k;
        o.n_right += right;
        if (k > o.longest) o.longest = k;
        if (k > 0) d->learn(w.state, known, price, k, right);
    }
    world_close(&w);
    return o;
}

/* Steps that there would have been without, for one step of what there were: tokens that are
 * verified and drafts cost what pace.h says. */
static double speed_of(outcome o, uint32_t n, uint32_t price)
{
    return n / (o.n_steps + o.n_drafted * (0.3 + price / 1024.0));
}

static void test_pace(void **state)
{
    (void)state;
    uint32_t n;
    const engine_drafter *const *table = engine_drafter_table(&n);
    for (uint32_t i = 0; i < n; i++) {
        const engine_drafter *d = table[i];
        if (d->graph == DRAFT_GRAPH_NONE) continue;
        for (uint32_t share = 0; share <= 1024; share += 128) {
            for (uint32_t price = 32; price <= 1024; price *= 2) {
                outcome o = pace_through(d, 20000, share, price);
                /* What never pays costs next to nothing, and nothing costs much. */
                assert_true(speed_of(o, 20000, price) > 0.99);
            }
        }
        outcome all = pace_through(d, LENGTH, 1024, 64);
        outcome half = pace_through(d, LENGTH, 600, 64);
        outcome none = pace_through(d, LENGTH, 0, 64);
        print_message("%s: all right %u steps, 600 of 1024 %u steps, none %u steps, %u drafts\n",
                      d->name, all.n_steps, half.n_steps, none.n_steps, none.n_drafted);
        assert_true(all.longest == 8 && all.n_steps < LENGTH / 8);
        assert_true(speed_of(half, LENGTH, 64) > 1.1);
        assert_true(none.n_drafted > 8 && none.n_drafted < LENGTH / 100);
    }
}

/* What it has given up is tried again once it is right. */
static void test_pace_comes_back(void **state)
{
    (void)state;
    const engine_drafter *d;
    world w;
    int32_t prompt[1] = {0};
    assert_ok(engine_drafter_find("model", &d, NULL), NULL);
    world_open(&w, d, LENGTH, prompt, 1);
    uint32_t known = 1;
    for (; known < 500; known++) {
        uint32_t k = d->length(w.state, known, 100, 8);
        if (k > 0) d->learn(w.state, known + 1, 100, k, 0);
    }
    uint32_t n_plain = 0;
    for (; d->length(w.state, known, 100, 8) < 8; n_plain++) {
        uint32_t k = d->length(w.state, known, 100, 8);
        if (k > 0) d->learn(w.state, known + 1 + k, 100, k, k);
        known += 1 + k;
        assert_true(known < LENGTH);
    }
    print_message("all right again from 500 on: drafted for from %u on\n", known);
    assert_true(known < 2000);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),          cmocka_unit_test(test_any_text),
        cmocka_unit_test(test_repeatable),     cmocka_unit_test(test_ngram_loops),
        cmocka_unit_test(test_ngram_gives_up), cmocka_unit_test(test_ngram_comes_back),
        cmocka_unit_test(test_pace),           cmocka_unit_test(test_pace_comes_back),
        cmocka_unit_test(test_ngram_account),
    };
    return TEST_RUN("engine/drafters", tests);
}
