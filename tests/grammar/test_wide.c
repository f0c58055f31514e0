/* test_wide.c - masks that are made of sets of characters instead of a walk: with the vocabulary of
 * a tokenizer, every token is in them exactly if it is accepted. */
#include "grammar/wide.h"

#include <string.h>

#include "base/rng.h"
#include "grammar/compiled.h"
#include "support/grammar_world.h"
#include "support/test.h"

static grammar_vocab *real, *merged;
static uint32_t n_looked; /* masks */

/* places: of the first state that need no walk. */
static const struct {
    grammar_kind kind;
    const char *source;
    uint32_t places;
} CASES[] = {
    {GRAMMAR_REGEX, "[^<]*<[^]{0,9}", 1},
    {GRAMMAR_REGEX, "[a-z ]{0,30}\\.[A-Z]*", 1},
    {GRAMMAR_REGEX, "\\S{1,40}( \\S+)*", 0},
    {GRAMMAR_REGEX, "[A-Z]?[^\\n]{10,400}\\.", 1},
    {GRAMMAR_REGEX, "( [^y]{2,30}y?){2,9}", 0},
    {GRAMMAR_REGEX, "[\xc3\xa0-\xef\xbf\xbf]*|[a-z ]*[\xe4\xb8\x80-\xe9\xbf\xbf]*", 1},
    /* More characters than the first lexeme takes, and fewer than it must. */
    {GRAMMAR_REGEX, "[^]{2,3}[a-z]{2,40}", 0},
    {GRAMMAR_REGEX, "[^x]{1,2}[^y]{1,2}[^z]{1,2}q", 0},
    {GRAMMAR_REGEX, "[a-p]{0,5}|[m-z ]{0,5}|[^a-z]{3,}", 2},
    {GRAMMAR_REGEX, "[^e]*e", 0},
    {GRAMMAR_REGEX, "[^]{2,3}#{2,40}x*", 1},
    {GRAMMAR_REGEX, "[^@]*@", 1},
    {GRAMMAR_GBNF, "root ::= ([a-z_ ]{1,30} | \"(\" root \")\") ([+*] root)?", 1},
    {GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^\\\\S\",\"maxLength\":30}", 0},
    {GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"the\":{\"type\":\"string\",\"pattern\":\"[a-z]{3}\"},"
     "\"they\":{\"type\":\"string\",\"format\":\"email\"}}}",
     0},
    {GRAMMAR_PARTS, "{\"until\":\"</th\"}", 1},
    {GRAMMAR_PARTS, "{\"until\":\" the\",\"max_chars\":40,\"without\":[\"<\",\"and\"]}", 0},
    {GRAMMAR_PARTS,
     "{\"all\":[{\"repeat\":{\"all\":[{\"until\":\"<\"},{\"regex\":\"[a-z]*\"},{\"text\":\">\"}]}},"
     "{\"free\":true,\"without\":[\"<\",\"\xc3\xa9\"]}]}",
     2},
};

static void first_wide(const grammar_vocab *v, grammar *g, uint32_t *n_places)
{
    enum { WORDS = 200 };
    uint64_t bits[WORDS] = {0}, open[WORDS], scratch[WORDS];
    wide w = {.bits = bits, .open = open, .scratch = scratch};
    assert_true(grammar_mask_words(v) <= WORDS);
    machine m;
    size_t n_bytes = machine_bytes(&g->program, &g->limits);
    void *memory = mem_alloc(mem_system(), n_bytes);
    assert_non_null(memory);
    assert_ok(machine_init(&m, &g->program, &g->limits, memory, NULL), NULL);
    wide_allow(&w, &m, MACHINE_START, v);
    *n_places = w.n;
    mem_free(mem_system(), memory, n_bytes);
}

/* A text of tokens that are drawn, with all tokens looked at behind each. */
static void check_text(const grammar_vocab *v, grammar *g, uint64_t seed, uint32_t most)
{
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    for (uint32_t k = 0; k < most && !grammar_state_ended(s); k++) {
        uint64_t bits[200];
        uint32_t n_seen = 0, token = 0;
        n_looked++;
        assert_ok(grammar_state_mask(s, bits, &err), &err);
        for (uint32_t t = 0; t < grammar_vocab_rows(v); t++) {
            bool allowed = (bits[t >> 6] >> (t & 63) & 1) != 0;
            weft_status status = grammar_state_accept(s, (int32_t)t, NULL);
            if (allowed != (status == WEFT_OK)) {
                str bytes = grammar_vocab_bytes(v, t);
                fail_msg("'%.*s' behind %u tokens: mask %d", (int)bytes.len, bytes.ptr, k, allowed);
            }
            if (!allowed) continue;
            assert_ok(grammar_state_rollback(s, 1, &err), &err);
            if (rng_u64(seed, (uint64_t)k * 100000 + t) % ++n_seen == 0) token = t;
        }
        assert_true(n_seen > 0);
        assert_ok(grammar_state_accept(s, (int32_t)token, &err), &err);
    }
    grammar_state_destroy(s);
}

static void test_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint32_t places;
        print_message("%s\n", CASES[i].source);
        grammar *g = world_compile(real, CASES[i].kind, CASES[i].source);
        first_wide(real, g, &places);
        assert_int_equal(places, CASES[i].places);
        for (uint64_t seed = 0; seed < 8; seed++) check_text(real, g, seed, 12);
        grammar_unref(g);
        g = world_compile(merged, CASES[i].kind, CASES[i].source);
        for (uint64_t seed = 0; seed < 20; seed++) check_text(merged, g, seed, 20);
        grammar_unref(g);
    }
    print_message("%u masks\n", n_looked);
    assert_true(n_looked > 2000);
}

static weft_status open_real(const env *world, grammar_vocab **v, weft_error *err)
{
    char *text;
    size_t n;
    tokenizer *t;
    static const char PATH[] = TINY_PATH("draft/tokenizer.json");
    weft_status status = io_read_file(world->io, world->allocator, PATH, 1 << 24, &text, &n, err);
    if (status != WEFT_OK) return status;
    status = tokenizer_parse(world, text, n, &t, err);
    mem_free(world->allocator, text, n + 1);
    if (status != WEFT_OK) return status;
    const int32_t end = tokenizer_find(t, str_of("<|end|>"));
    status = grammar_vocab_of(world, t, tokenizer_n_vocab(t), &end, 1, v, err);
    tokenizer_destroy(t);
    return status;
}

int main(void)
{
    const env world = {mem_system(), io_system(), NULL};
    weft_error err = {.status = WEFT_OK};
    if (open_real(&world, &real, &err) != WEFT_OK) return 1;
    merged = world_vocab(true);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks)};
    int failed = TEST_RUN("grammar/wide", tests);
    grammar_vocab_destroy(real);
    grammar_vocab_destroy(merged);
    return failed;
}
