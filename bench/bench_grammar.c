/* bench_grammar.c - how long masks of grammars take, in processor time, over texts that are given
 * token by token: first in a new state of a newly compiled grammar, then again.
 *
 * Usage: bench_grammar [tokenizer.json]: its vocabulary, else one of 150,000 tokens that is made
 *        here (bytes, words, digits, punctuation as in JSON, CJK, parts of characters) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "grammar/grammar.h"

enum { N_TOKENS = 150000, FILE_BYTES = 1 << 28, MOST_TIMES = 1 << 16 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a vocabulary ---- */

static uint64_t drawn;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(rng_u64(4242, drawn++) % n);
}

static void add_word(strbuf *all)
{
    static const char LETTERS[] = "etaoinshrdlucmfwypvbgkjqxzeeettaaooiinnsshhrr";
    uint32_t n = 2 + pick(4) + pick(5);
    if (pick(2) == 0) (void)strbuf_add_char(all, ' ');
    for (uint32_t i = 0; i < n; i++) {
        char c = LETTERS[pick(sizeof LETTERS - 1)];
        (void)strbuf_add_char(all, i == 0 && pick(5) == 0 ? (char)(c - 32) : c);
    }
}

static void add_marks(strbuf *all)
{
    static const char MARKS[] = "\"\"\"':,.;{}[]()<>/\\-_=+*&%$#@!?|~`  \n\t";
    for (uint32_t i = 0, n = 1 + pick(6); i < n; i++)
        (void)strbuf_add_char(all, MARKS[pick(sizeof MARKS - 1)]);
}

static void add_ideographs(strbuf *all)
{
    char bytes[4];
    for (uint32_t i = 0, n = 1 + pick(3); i < n; i++) {
        size_t len = utf8_encode(0x4e00 + pick(8000), bytes);
        /* Now and then a character is cut. */
        (void)strbuf_add(all, bytes, i == 0 && pick(20) == 0 ? len - 1 : len);
    }
}

static weft_status make_vocab(const env *world, grammar_vocab **v, weft_error *err)
{
    static str list[N_TOKENS];
    strbuf all;
    strbuf_init(&all, mem_system(), 0);
    for (uint32_t i = 0; i < N_TOKENS - 1; i++) {
        size_t before = all.len;
        uint32_t kind = pick(100);
        if (i < 256) {
            (void)strbuf_add_char(&all, (char)i);
        } else if (i < 1366) {
            (void)strbuf_printf(&all, "%u", i - 256);
        } else if (kind < 72) {
            add_word(&all);
        } else if (kind < 80) {
            add_marks(&all);
        } else {
            add_ideographs(&all);
        }
        list[i] = (str){NULL, all.len - before};
    }
    const char *at = strbuf_text(&all);
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        list[i].ptr = at;
        at += list[i].len;
    }
    static const int32_t ENDS[] = {N_TOKENS - 1};
    const grammar_tokens tokens = {N_TOKENS, N_TOKENS, list, NULL, ENDS, 1};
    weft_status status = grammar_vocab_create(world, &tokens, v, err);
    strbuf_deinit(&all);
    return status;
}

static weft_status read_vocab(const env *world, const char *path, grammar_vocab **v,
                              weft_error *err)
{
    char *text;
    size_t n;
    tokenizer *t;
    weft_status status =
        io_read_file(world->io, world->allocator, path, FILE_BYTES, &text, &n, err);
    if (status != WEFT_OK) return status;
    status = tokenizer_parse(world, text, n, &t, err);
    mem_free(world->allocator, text, n + 1);
    if (status != WEFT_OK) return status;
    int32_t end = tokenizer_eos(t) >= 0 ? tokenizer_eos(t) : 0;
    status = grammar_vocab_of(world, t, tokenizer_n_vocab(t), &end, 1, v, err);
    tokenizer_destroy(t);
    return status;
}

/* ---- texts ---- */

static const char PERSON[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
    "\"integer\",\"minimum\":0,\"maximum\":150},\"email\":{\"type\":\"string\",\"format\":"
    "\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20},"
    "\"maxItems\":5},\"kind\":{\"enum\":[\"person\",\"robot\"]},\"note\":{\"type\":\"string\","
    "\"maxLength\":2000,\"pattern\":\"^\\\\S\"}},\"required\":[\"name\",\"age\",\"kind\"],"
    "\"additionalProperties\":false}";

static const char CALLS[] =
    "{\"all\":[{\"optional\":{\"all\":[{\"text\":\"<think>\\n\"},{\"until\":\"</"
    "think>\"}]}},{\"repeat\":{"
    "\"all\":[{\"until\":\"<tool_call>\"},{\"text\":\"\\n\"},{\"any\":[{\"schema\":{\"type\":"
    "\"object\","
    "\"properties\":{\"name\":{\"const\":\"weather\"},\"arguments\":{\"type\":\"object\","
    "\"properties\":{"
    "\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"minimum\":1}},\"required\":["
    "\"city\"],"
    "\"additionalProperties\":false}},\"required\":[\"name\",\"arguments\"],"
    "\"additionalProperties\":"
    "false}},{\"schema\":{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"search\"},"
    "\"arguments\":"
    "{\"type\":\"object\"}},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":false}}]"
    "},{"
    "\"text\":\"\\n</tool_call>\"}]},\"max\":4},{\"free\":true,\"without\":[\"<tool_call>\"]}]}";

static const struct {
    const char *name;
    grammar_kind kind;
    const char *source, *text;
} CASES[] = {
    {"any object", GRAMMAR_JSON, "",
     "{\"name\": \"Ada Lovelace\", \"born\": 1815, \"works\": [{\"title\": \"Notes on the "
     "engine\", "
     "\"pages\": 65.5}, null, true],\n  \"nested\": {\"a\": {\"b\": [[], {}, [1, 2, 3]]}}}"},
    {"person", GRAMMAR_SCHEMA, PERSON,
     "{\"name\": \"Ada Lovelace\", \"age\": 36, \"email\": \"ada@engine.example.org\", \"tags\": "
     "[\"first programmer\", \"countess\"], \"kind\": \"person\", \"note\": \"Wrote about what an "
     "engine might do with symbols, not numbers alone.\"}"},
    {"string, pattern", GRAMMAR_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^[a-z ]+$\",\"maxLength\":100000}",
     "\"the engine weaves algebraic patterns just as the loom weaves flowers and leaves\""},
    {"string, \\S", GRAMMAR_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^\\\\S+$\",\"maxLength\":90}",
     "\"theengineweavesalgebraicpatterns-just-as-the-loom-weaves\""},
    {"expression", GRAMMAR_REGEX, "[A-Z][^\\n]{10,400}\\.",
     "The analytical engine has no pretensions whatever to originate anything."},
    {"rules", GRAMMAR_GBNF,
     "root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]{1,6} | name | \"(\" expr \")\"\n"
     "name ::= [a-z_]{1,30}",
     "(12+alpha*(3-beta_two)/7)*(x+(y-(z*400)))"},
    {"calls", GRAMMAR_PARTS, CALLS,
     "<think>\nThe user wants to know whether 2 < 3, and the weather.</think>It is. Let me see: "
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Turin\", \"days\": 3}}\n"
     "</tool_call> It may well rain; take <b>an umbrella</b>, and"},
};

typedef struct times {
    double list[MOST_TIMES];
    uint32_t n;
} times;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(const char *name, times *t)
{
    double sum = 0;
    if (t->n == 0) return;
    qsort(t->list, t->n, sizeof *t->list, ascending);
    for (uint32_t i = 0; i < t->n; i++) sum += t->list[i];
    printf("%-16s %5u masks  mean %6.1f  median %6.1f  p99 %7.1f  most %7.1f us\n", name, t->n,
           1e6 * sum / t->n, 1e6 * t->list[t->n / 2], 1e6 * t->list[(t->n * 99 + 99) / 100 - 1],
           1e6 * t->list[t->n - 1]);
}

/* The longest allowed token that spells what comes next in text, in the mask. */
static int32_t next_token(const str *spellings, uint32_t n, const uint64_t *bits, str text)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < n; i++) {
        if ((bits[i >> 6] >> (i & 63) & 1) == 0 || spellings[i].len == 0) continue;
        if (spellings[i].len > text.len ||
            memcmp(spellings[i].ptr, text.ptr, spellings[i].len) != 0)
            continue;
        if (best < 0 || spellings[i].len > spellings[best].len) best = (int32_t)i;
    }
    return best;
}

static weft_status run(grammar *g, const grammar_vocab *v, const str *spellings, uint32_t n,
                       str text, times *t, weft_error *err)
{
    grammar_state *s;
    size_t words = grammar_mask_words(v) * sizeof(uint64_t);
    uint64_t *bits = mem_alloc(mem_system(), words);
    weft_status status = grammar_state_create(g, &s, err);
    for (size_t at = 0; status == WEFT_OK;) {
        double start = seconds();
        status = grammar_state_mask(s, bits, err);
        if (t->n < MOST_TIMES) t->list[t->n++] = seconds() - start;
        if (at == text.len || status != WEFT_OK) break;
        int32_t token = next_token(spellings, n, bits, (str){text.ptr + at, text.len - at});
        if (token < 0) {
            status = err_set(err, WEFT_ARGUMENT, "nothing spells '%.20s'", text.ptr + at);
            break;
        }
        at += spellings[token].len;
        status = grammar_state_accept(s, token, err);
    }
    grammar_state_destroy(s);
    mem_free(mem_system(), bits, words);
    return status;
}

static weft_status measure(const env *world, const grammar_vocab *v, const str *spellings,
                           uint32_t n, size_t case_i, times *first, weft_error *err)
{
    static times again;
    grammar *g;
    str text = str_of(CASES[case_i].text);
    uint32_t before = first->n;
    double start = seconds();
    weft_status status =
        grammar_compile(world, v, CASES[case_i].kind, str_of(CASES[case_i].source), &g, err);
    if (status != WEFT_OK) return status;
    printf("%-16s compiled in %.2f ms, %.1f MiB a state\n", CASES[case_i].name,
           1e3 * (seconds() - start), (double)grammar_state_bytes(g) / (1 << 20));
    again.n = 0;
    status = run(g, v, spellings, n, text, first, err);
    static times own;
    own.n = first->n - before;
    memcpy(own.list, first->list + before, own.n * sizeof *own.list);
    show("  first", &own);
    if (status == WEFT_OK) status = run(g, v, spellings, n, text, &again, err);
    show("  again", &again);
    grammar_unref(g);
    return status;
}

int main(int argc, char **argv)
{
    const env world = {mem_system(), io_system(), NULL};
    static times first;
    grammar_vocab *v;
    weft_error err = {0};
    double start = seconds();
    weft_status status =
        argc > 1 ? read_vocab(&world, argv[1], &v, &err) : make_vocab(&world, &v, &err);
    if (status == WEFT_OK) {
        uint32_t n = grammar_vocab_tokens(v);
        str *spellings = mem_alloc(mem_system(), n * sizeof *spellings);
        for (uint32_t i = 0; i < n; i++) spellings[i] = grammar_vocab_bytes(v, i);
        printf("%u rows, read in %.1f ms\n", grammar_vocab_rows(v), 1e3 * (seconds() - start));
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES && status == WEFT_OK; i++)
            status = measure(&world, v, spellings, n, i, &first, &err);
        show("all, first", &first);
        mem_free(mem_system(), spellings, n * sizeof *spellings);
        grammar_vocab_destroy(v);
    }
    if (status != WEFT_OK) fprintf(stderr, "%s\n", err.message);
    return status == WEFT_OK ? 0 : 1;
}
