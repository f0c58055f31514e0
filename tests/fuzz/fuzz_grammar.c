/* fuzz_grammar.c - a byte that says which kind, a description, a NUL and bytes that choose tokens:
 * it compiles or is refused with a sentence; every allowed token is accepted and every other
 * refused, what is taken back is as it was, and a text of JSON kinds that ends is JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/utf8.h"
#include "grammar/grammar.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* NAMED: control tokens, the last of which ends a text as END does. */
enum { END = 256, NAMED = 280, ROWS = 300, MOST_TOKENS = 200 };

static const char *const NAMES[] = {"<|c|>", "<|channel|>", "<|end|>"};

static const char *const PIECES[] = {"{\"",      "\":", "\"}", "true", "12",  "\\u00", "\xc3\xa9",
                                     "\xf0\x9f", "ab",  "], ", "  ",   "0.5", "\n"};

static str bytes_of(uint32_t token, char room[1])
{
    if (token < 256) {
        room[0] = (char)token;
        return (str){room, 1};
    }
    if (token == END || token - END > COUNT_OF(PIECES)) return (str){"", 0};
    return str_of(PIECES[token - END - 1]);
}

static grammar_vocab *make_vocab(const env *world)
{
    char rooms[ROWS][1];
    str list[ROWS], names[ROWS] = {{NULL, 0}};
    grammar_vocab *v;
    for (uint32_t i = 0; i < ROWS; i++) list[i] = bytes_of(i, rooms[i]);
    for (uint32_t i = 0; i < COUNT_OF(NAMES); i++) names[NAMED + i] = str_of(NAMES[i]);
    static const int32_t ENDS[] = {END, NAMED + COUNT_OF(NAMES) - 1};
    const grammar_tokens tokens = {ROWS, ROWS, list, names, ENDS, 2};
    ASSERT(grammar_vocab_create(world, &tokens, &v, NULL) == WEFT_OK);
    return v;
}

/* The allowed token that a byte chooses; every 16th byte looks at all tokens. */
static uint32_t choose(grammar_state *s, const uint64_t *bits, uint8_t byte)
{
    uint32_t allowed[ROWS], n = 0;
    for (uint32_t t = 0; t < ROWS; t++) {
        bool may = (bits[t >> 6] >> (t & 63) & 1) != 0;
        if (may) allowed[n++] = t;
        if (byte % 16 != 0) continue;
        weft_status status = grammar_state_accept(s, (int32_t)t, NULL);
        ASSERT(may == (status == WEFT_OK) || status == WEFT_LIMIT);
        if (status == WEFT_OK) ASSERT(grammar_state_rollback(s, 1, NULL) == WEFT_OK);
    }
    ASSERT(n > 0);
    return allowed[byte % n];
}

static void check_text(grammar_kind kind, const strbuf *text)
{
    ASSERT(utf8_valid(strbuf_text(text), text->len));
    if (kind != GRAMMAR_SCHEMA && kind != GRAMMAR_JSON) return;
    json_doc doc;
    weft_error err = {.status = WEFT_OK};
    if (json_parse(&doc, strbuf_text(text), text->len, &err) == WEFT_OK) {
        json_doc_free(&doc);
        return;
    }
    /* Names that are not listed may repeat, which this reader does not take. */
    ASSERT(strstr(err.message, "duplicate") != NULL);
}

static void run(grammar *g, grammar_kind kind, const uint8_t *data, size_t n_bytes)
{
    grammar_state *s;
    uint64_t bits[(ROWS + 63) / 64];
    int32_t forced[8];
    uint32_t n_forced;
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    ASSERT(grammar_state_create(g, &s, NULL) == WEFT_OK);
    for (size_t i = 0; i < MOST_TOKENS && !grammar_state_ended(s); i++) {
        char room[1];
        weft_status status = grammar_state_mask(s, bits, NULL);
        ASSERT(status == WEFT_OK || status == WEFT_LIMIT);
        if (status != WEFT_OK) break;
        uint32_t token = choose(s, bits, i < n_bytes ? data[i] : (uint8_t)(i * 37));
        status = grammar_state_forced(s, forced, 8, &n_forced, NULL);
        ASSERT(status == WEFT_OK || status == WEFT_LIMIT);
        if (status == WEFT_OK && n_forced > 0)
            ASSERT((bits[forced[0] >> 6] >> (forced[0] & 63) & 1) != 0);
        if (grammar_state_accept(s, (int32_t)token, NULL) != WEFT_OK) break;
        str bytes = bytes_of(token, room);
        (void)strbuf_add(&text, bytes.ptr, bytes.len);
    }
    if (grammar_state_ended(s)) check_text(kind, &text);
    grammar_state_destroy(s);
    strbuf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0) return 0;
    const env world = {.allocator = mem_system()};
    grammar_kind kind = (grammar_kind)(data[0] % 6);
    const uint8_t *nul = memchr(data + 1, 0, n_bytes - 1);
    size_t n_source = nul == NULL ? n_bytes - 1 : (size_t)(nul - data) - 1;
    size_t n_rest = nul == NULL ? 0 : n_bytes - n_source - 2;
    char *source = malloc(n_source == 0 ? 1 : n_source);
    ASSERT(source != NULL);
    if (n_source != 0) memcpy(source, data + 1, n_source);
    grammar_vocab *v = make_vocab(&world);
    grammar *g;
    weft_error err = {.status = WEFT_OK};
    weft_status status = grammar_compile(&world, v, kind, (str){source, n_source}, &g, &err);
    ASSERT(status == err.status && (g != NULL) == (status == WEFT_OK) && status != WEFT_NOMEM);
    /* A grammar keeps nothing of its source. */
    free(source);
    if (g != NULL) run(g, kind, n_rest == 0 ? data : nul + 1, n_rest);
    grammar_unref(g);
    grammar_vocab_destroy(v);
    return 0;
}
