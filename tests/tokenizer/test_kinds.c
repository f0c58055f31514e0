/* test_kinds.c - tokenizers of every make against Hugging Face's: ids and texts of two thousand
 * texts each, by the sums that tools/oracle/kinds.py has written. */
#include "support/test.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base64.h"
#include "support/fault.h"
#include "tokenizer/detok.h"

#define FIXTURES WEFT_SOURCE_DIR "/tests/tokenizer/fixtures/kinds/"

enum { DIGITS = 8, SUM_START = (int)0x811c9dc5u };

static const char *const NAMES[] = {
    "llama2",     "llama2-first",  "mistral", "gemma", "openai-gpt", "clip",   "prefixed",
    "some-bytes", "bytes-first",   "roberta", "bert",  "bert-cased", "t5",     "xlm-r",
    "albert",     "unigram-bytes", "falcon",  "words", "ctc",        "scripts"};

typedef struct fixture {
    json_doc doc;
    char *text;
    size_t n;
} fixture;

static void fixture_read(fixture *f, const char *name)
{
    char path[1024];
    weft_error err = {0};
    snprintf(path, sizeof path, FIXTURES "%s.json", name);
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &f->text, &f->n, &err), &err);
    assert_ok(json_parse(&f->doc, f->text, f->n, &err), &err);
}

static void fixture_free(fixture *f)
{
    json_doc_free(&f->doc);
    mem_free(mem_system(), f->text, f->n + 1);
}

static tokenizer *open_tokenizer(const json *state)
{
    static env world;
    world = (env){mem_system(), io_system(), NULL};
    strbuf text;
    tokenizer *t = NULL;
    weft_error err = {0};
    strbuf_init(&text, mem_system(), 0);
    assert_int_equal(WEFT_OK, json_write(state, 0, &text));
    assert_ok(tokenizer_parse(&world, text.ptr, text.len, &t, &err), &err);
    strbuf_deinit(&text);
    return t;
}

static uint32_t sum_bytes(uint32_t sum, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)bytes[i]) * 0x01000193u;
    return sum;
}

static uint32_t sum_ids(uint32_t sum, const token_list *list)
{
    for (size_t i = 0; i < list->len; i++) {
        for (uint32_t k = 0; k < 32; k += 8) {
            char byte = (char)(unsigned char)((uint32_t)list->ids[i] >> k & 0xff);
            sum = sum_bytes(sum, &byte, 1);
        }
    }
    return sum;
}

/* The stream of ids as text, appended. */
static void decode(const tokenizer *t, const int32_t *ids, size_t n, bool specials, strbuf *out)
{
    detok d;
    str part;
    detok_init(&d, t, mem_system(), specials);
    for (size_t i = 0; i < n; i++) {
        assert_ok(detok_push(&d, ids[i], &part, NULL), NULL);
        strbuf_add(out, part.ptr, part.len);
    }
    assert_ok(detok_flush(&d, &part, NULL), NULL);
    strbuf_add(out, part.ptr, part.len);
    detok_deinit(&d);
}

static uint32_t sum_text(uint32_t sum, const tokenizer *t, const token_list *list, bool specials)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    decode(t, list->ids, list->len, specials, &out);
    sum = sum_bytes(sum, strbuf_text(&out), out.len);
    strbuf_deinit(&out);
    return sum;
}

static uint32_t case_sum(const tokenizer *t, str text, bool decodes)
{
    token_list plain;
    token_list around;
    weft_error err = {0};
    token_list_init(&plain, mem_system());
    token_list_init(&around, mem_system());
    assert_ok(tokenizer_encode(t, text, 0, &plain, &err), &err);
    assert_ok(tokenizer_encode(t, text, TOKENIZER_SPECIALS, &around, &err), &err);
    uint32_t sum = sum_ids(sum_ids((uint32_t)SUM_START, &plain), &around);
    if (decodes) {
        sum = sum_text(sum, t, &plain, false);
        sum = sum_text(sum, t, &around, true);
    }
    token_list_deinit(&plain);
    token_list_deinit(&around);
    return sum;
}

static uint32_t sum_at(str sums, size_t i)
{
    char digits[DIGITS + 1] = "";
    assert_true(sums.len >= (i + 1) * DIGITS);
    memcpy(digits, sums.ptr + i * DIGITS, DIGITS);
    return (uint32_t)strtoul(digits, NULL, 16);
}

/* Where Hugging Face's gave up. */
static bool is_none(str sums, size_t i)
{
    return sums.ptr[i * DIGITS] == '-';
}

static size_t check_cases(const char *name, const tokenizer *t, const json *expected,
                          const json *texts)
{
    str sums = json_text(json_get(expected, "cases"));
    bool decodes = json_bool(json_get(expected, "decodes"), true);
    size_t n_bad = 0;
    for (size_t i = 0; i < json_length(texts); i++) {
        str text = json_text(json_at(texts, i));
        if (is_none(sums, i) || case_sum(t, text, decodes) == sum_at(sums, i)) continue;
        if (n_bad++ < 3) print_message("%s, text %zu: '%.*s'\n", name, i, (int)text.len, text.ptr);
    }
    return n_bad;
}

static size_t random_ids(uint64_t *state, const json *usable, uint32_t n_vocab, int32_t ids[16])
{
    size_t n = 1 + *state % 9;
    size_t n_usable = json_length(usable);
    for (size_t i = 0; i < n; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        uint64_t pick = (*state >> 33) % (n_usable == 0 ? n_vocab : n_usable);
        ids[i] = (int32_t)(n_usable == 0 ? (int64_t)pick : json_int(json_at(usable, pick), -1));
    }
    return n;
}

static size_t check_decoded(const char *name, const tokenizer *t, const json *expected)
{
    str sums = json_text(json_get(expected, "decoded"));
    const json *usable = json_get(expected, "usable");
    uint64_t state = 1;
    size_t n_bad = 0;
    for (size_t i = 0; i < sums.len / DIGITS; i++) {
        int32_t ids[16];
        size_t n = random_ids(&state, usable, tokenizer_n_vocab(t), ids);
        strbuf out;
        strbuf_init(&out, mem_system(), 0);
        decode(t, ids, n, true, &out);
        uint32_t sum = sum_bytes((uint32_t)SUM_START, strbuf_text(&out), out.len);
        if (!is_none(sums, i) && sum != sum_at(sums, i) && n_bad++ < 3)
            print_message("%s, random ids %zu: '%s'\n", name, i, strbuf_text(&out));
        strbuf_deinit(&out);
    }
    return n_bad;
}

static void test_hugging_face(void **state)
{
    (void)state;
    fixture texts;
    size_t n_bad = 0;
    fixture_read(&texts, "texts");
    assert_true(json_length(texts.doc.root) >= 2000);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        fixture f;
        fixture_read(&f, NAMES[i]);
        tokenizer *t = open_tokenizer(json_get(f.doc.root, "tokenizer"));
        size_t n_cases = check_cases(NAMES[i], t, f.doc.root, texts.doc.root);
        size_t n_decoded = check_decoded(NAMES[i], t, f.doc.root);
        if (n_cases + n_decoded != 0)
            print_message("%s: %zu texts and %zu lists differ\n", NAMES[i], n_cases, n_decoded);
        n_bad += n_cases + n_decoded;
        tokenizer_destroy(t);
        fixture_free(&f);
    }
    fixture_free(&texts);
    assert_int_equal(n_bad, 0);
}

/* ---- other files ---- */

static const char *const MODELS[] = {"sp-bpe", "sp-bpe-unk", "sp-unigram", "sp-unigram-bytes",
                                     "tiktoken"};

/* The ids of a text, and the text again when nothing in it is unknown. */
static uint32_t model_sum(const tokenizer *t, str text, int64_t unknown)
{
    token_list list;
    weft_error err = {0};
    token_list_init(&list, mem_system());
    assert_ok(tokenizer_encode(t, text, 0, &list, &err), &err);
    uint32_t sum = sum_ids((uint32_t)SUM_START, &list);
    bool known = true;
    for (size_t i = 0; i < list.len; i++) known = known && list.ids[i] != unknown;
    if (known) sum = sum_text(sum, t, &list, false);
    token_list_deinit(&list);
    return sum;
}

static size_t check_model(const char *name, const tokenizer *t, const json *expected,
                          const json *texts)
{
    str sums = json_text(json_get(expected, "cases"));
    int64_t unknown = json_int(json_get(expected, "unknown"), -1);
    size_t n_bad = 0;
    for (size_t i = 0; i < json_length(texts); i++) {
        str text = json_text(json_at(texts, i));
        if (is_none(sums, i) || model_sum(t, text, unknown) == sum_at(sums, i)) continue;
        if (n_bad++ < 3) print_message("%s, text %zu: '%.*s'\n", name, i, (int)text.len, text.ptr);
    }
    return n_bad;
}

/* SentencePiece's own files and tiktoken's. */
static void test_model_files(void **state)
{
    (void)state;
    env world = {mem_system(), io_system(), NULL};
    fixture texts;
    size_t n_bad = 0;
    fixture_read(&texts, "texts");
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        char path[1024];
        char *bytes;
        size_t n;
        fixture f;
        tokenizer *t = NULL;
        weft_error err = {0};
        snprintf(path, sizeof path, FIXTURES "%s.model", MODELS[i]);
        assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &bytes, &n, &err), &err);
        assert_ok(tokenizer_parse_model(&world, (str){bytes, n}, "llama3", &t, &err), &err);
        fixture_read(&f, MODELS[i]);
        n_bad += check_model(MODELS[i], t, f.doc.root, texts.doc.root);
        tokenizer_destroy(t);
        fixture_free(&f);
        mem_free(mem_system(), bytes, n + 1);
    }
    fixture_free(&texts);
    assert_int_equal(n_bad, 0);
}

/* Metadata of a GGUF file, in the order of the keys. */
typedef struct metadata {
    gguf_value values[10];
    strbuf data[10];
    size_t n;
} metadata;

static strbuf *add_value(metadata *m, const char *key, gguf_type type, gguf_type element)
{
    m->values[m->n] = (gguf_value){.key = key, .type = type, .element = element, .n_elements = 1};
    strbuf_init(&m->data[m->n], mem_system(), 0);
    return &m->data[m->n++];
}

static void add_text(strbuf *data, str text)
{
    uint64_t n = text.len;
    strbuf_add(data, (const char *)&n, sizeof n);
    strbuf_add(data, text.ptr, text.len);
}

static void add_u32(metadata *m, const char *key, uint32_t number)
{
    strbuf_add(add_value(m, key, GGUF_U32, GGUF_U8), (const char *)&number, sizeof number);
}

static void add_flag(metadata *m, const char *key, bool flag)
{
    strbuf_add_char(add_value(m, key, GGUF_BOOL, GGUF_U8), flag ? '\1' : '\0');
}

static tokenizer *open_metadata(metadata *m, size_t n_tokens)
{
    tokenizer *t = NULL;
    weft_error err = {0};
    weights w = {.env = {mem_system(), io_system(), NULL}, .path = "x.gguf", .metadata = m->values};
    w.n_metadata = (uint32_t)m->n;
    for (size_t i = 0; i < m->n; i++) {
        m->values[i].data = (const unsigned char *)strbuf_text(&m->data[i]);
        m->values[i].n_bytes = m->data[i].len;
        if (m->values[i].type == GGUF_ARRAY) m->values[i].n_elements = n_tokens;
    }
    assert_ok(tokenizer_open(&w, NULL, &t, &err), &err);
    for (size_t i = 0; i < m->n; i++) strbuf_deinit(&m->data[i]);
    return t;
}

static tokenizer *open_sp_metadata(const json *f)
{
    metadata m = {.n = 0};
    const json *pieces = json_get(f, "pieces");
    str charsmap = json_text(json_get(f, "charsmap"));
    char blob[4096];
    size_t n_map = 0;
    assert_true(base64_room(charsmap.len) <= sizeof blob);
    assert_true(base64_decode(charsmap, 0, blob, &n_map));
    add_flag(&m, "tokenizer.ggml.add_space_prefix", json_bool(json_get(f, "prefix"), false));
    add_text(add_value(&m, "tokenizer.ggml.model", GGUF_TEXT, GGUF_U8),
             json_text(json_get(f, "kind")));
    strbuf_add(add_value(&m, "tokenizer.ggml.precompiled_charsmap", GGUF_ARRAY, GGUF_U8), blob,
               n_map);
    add_flag(&m, "tokenizer.ggml.remove_extra_whitespaces",
             json_bool(json_get(f, "one_space"), false));
    strbuf *scores = add_value(&m, "tokenizer.ggml.scores", GGUF_ARRAY, GGUF_F32);
    strbuf *types = add_value(&m, "tokenizer.ggml.token_type", GGUF_ARRAY, GGUF_I32);
    strbuf *tokens = add_value(&m, "tokenizer.ggml.tokens", GGUF_ARRAY, GGUF_TEXT);
    add_u32(&m, "tokenizer.ggml.unknown_token_id", (uint32_t)json_int(json_get(f, "unknown"), 0));
    for (size_t i = 0; i < json_length(pieces); i++) {
        const json *piece = json_at(pieces, i);
        float score = (float)json_number(json_at(piece, 1), 0.0);
        int32_t type = (int32_t)json_int(json_at(piece, 2), 0);
        add_text(tokens, json_text(json_at(piece, 0)));
        strbuf_add(scores, (const char *)&score, sizeof score);
        strbuf_add(types, (const char *)&type, sizeof type);
    }
    return open_metadata(&m, json_length(pieces));
}

/* The same vocabularies as GGUF files have them; a "llama" does not collapse spaces. */
static void test_gguf_sentencepiece(void **state)
{
    static const char *const FILES[] = {"sp-bpe", "sp-unigram", "sp-unigram-bytes"};
    (void)state;
    fixture texts;
    size_t n_bad = 0;
    fixture_read(&texts, "texts");
    for (size_t i = 0; i < COUNT_OF(FILES); i++) {
        fixture f;
        fixture_read(&f, FILES[i]);
        tokenizer *t = open_sp_metadata(f.doc.root);
        n_bad += check_model(FILES[i], t, f.doc.root, texts.doc.root);
        tokenizer_destroy(t);
        fixture_free(&f);
    }
    fixture_free(&texts);
    assert_int_equal(n_bad, 0);
}

/* "##x" becomes "x" and "x" becomes U+2581 and "x"; names stay. */
static void add_bert_token(strbuf *tokens, str text)
{
    char copy[256] = "\xe2\x96\x81";
    assert_true(text.len + 4 <= sizeof copy);
    if (str_starts(text, "##")) {
        add_text(tokens, (str){text.ptr + 2, text.len - 2});
    } else if (str_starts(text, "[") && str_ends(text, "]") && text.len > 2) {
        add_text(tokens, text);
    } else {
        memcpy(copy + 3, text.ptr, text.len);
        add_text(tokens, (str){copy, text.len + 3});
    }
}

static void test_gguf_bert(void **state)
{
    (void)state;
    metadata m = {.n = 0};
    fixture texts;
    fixture f;
    fixture_read(&texts, "texts");
    fixture_read(&f, "bert");
    const json *state_of = json_get(f.doc.root, "tokenizer");
    const json *vocab_of = json_get(json_get(state_of, "model"), "vocab");
    add_text(add_value(&m, "tokenizer.ggml.model", GGUF_TEXT, GGUF_U8), str_of("bert"));
    strbuf *types = add_value(&m, "tokenizer.ggml.token_type", GGUF_ARRAY, GGUF_I32);
    strbuf *tokens = add_value(&m, "tokenizer.ggml.tokens", GGUF_ARRAY, GGUF_TEXT);
    json_iter iter = {NULL};
    str text;
    const json *id;
    int64_t next = 0;
    while (json_next(vocab_of, &iter, &text, &id)) {
        bool control = str_equal_text(text, "[MASK]") || str_equal_text(text, "[CLS]") ||
                       str_equal_text(text, "[SEP]");
        int32_t type = control ? 3 : 1;
        assert_int_equal(json_int(id, -1), next++);
        add_bert_token(tokens, text);
        strbuf_add(types, (const char *)&type, sizeof type);
    }
    tokenizer *t = open_metadata(&m, (size_t)next);
    assert_int_equal(check_cases("bert as gguf", t, f.doc.root, texts.doc.root), 0);
    tokenizer_destroy(t);
    fixture_free(&f);
    fixture_free(&texts);
}

/* ---- */

/* Every model and stage once, with what allocates in it. */
static const char *const SMALL[] = {
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_"
    "\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"b+\"},\"content\":\"a\"},{\"type\":\"NFD\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Metaspace\",\"replacement\":\"_"
    "\"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,"
    "\"stop\":1}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"_\","
    "\"end_of_word_suffix\":\"w\",\"vocab\":{\"a\":0,\"_\":1,\"_a\":2,\"<0x62>\":3,\"aw\":4},"
    "\"merges\":[\"_ a\"]}}",
    "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"decoder\":{\"type\":\"BPEDecoder\","
    "\"suffix\":\"_\"},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"a_\",-1.5],"
    "[\"aa\",-2.5]]}}",
    "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
    "\"BertPreTokenizer\"},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
    "\"vocab\":{"
    "\"?\":0,\"a\":1,\"##a\":2,\"##aa\":3}}}",
    "{\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":1},\"decoder\":{\"type\":\"CTC\","
    "\"pad_token\":\"?\",\"word_delimiter_token\":\"_\"},"
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"_\":2}}}"};

static weft_status life(const env *world, void *user, weft_error *err)
{
    static const char TEXT[] =
        "aa_ a bb a\xc3\xa9 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const char *source = user;
    tokenizer *t = NULL;
    weft_status status = tokenizer_parse(world, source, strlen(source), &t, err);
    if (status != WEFT_OK) return status;
    token_list list;
    detok d;
    str part;
    token_list_init(&list, world->allocator);
    detok_init(&d, t, world->allocator, true);
    status = tokenizer_encode(t, str_of(TEXT), 0, &list, err);
    for (size_t i = 0; i < list.len && status == WEFT_OK; i++)
        status = detok_push(&d, list.ids[i], &part, err);
    if (status == WEFT_OK) status = detok_flush(&d, &part, err);
    detok_deinit(&d);
    token_list_deinit(&list);
    tokenizer_destroy(t);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
        char source[1024];
        snprintf(source, sizeof source, "%s", SMALL[i]);
        assert_true(fault_sweep(life, source) >= 18);
    }
}

/* A stream that goes on behind other text keeps its first space. */
static void test_follow(void **state)
{
    (void)state;
    json_doc doc;
    weft_error err = {0};
    assert_ok(json_parse(&doc, SMALL[0], strlen(SMALL[0]), &err), &err);
    tokenizer *t = open_tokenizer(doc.root);
    for (int follows = 0; follows < 2; follows++) {
        detok d;
        str part;
        detok_init(&d, t, mem_system(), false);
        if (follows) detok_follow(&d);
        assert_ok(detok_push(&d, 2, &part, &err), &err);
        assert_true(str_equal_text(part, follows ? " a" : "a"));
        detok_deinit(&d);
    }
    tokenizer_destroy(t);
    json_doc_free(&doc);
}

/* What comes from outside cannot spell a special token, although each model lists it. */
static void test_specials_unspelled(void **state)
{
    static const char TEXT[] = "<s>";
    static const char *const FORMATS[] = {
        ("{\"type\":\"BPE\",\"vocab\":{\"?\":0,\"<s>\":1,\"<\":2,\"s\":3,\">\":4,\"s>\":5},"
         "\"merges\":[\"s >\",\"< s>\"]}"),
        "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"<s>\",0]]}",
        "{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<s>\":1}}",
        "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<s>\":1}}"};
    (void)state;
    env world = {mem_system(), io_system(), NULL};
    for (size_t i = 0; i < COUNT_OF(FORMATS); i++) {
        char source[512];
        tokenizer *t = NULL;
        weft_error err = {0};
        token_list list;
        str_span all = {0, sizeof TEXT - 1};
        snprintf(
            source, sizeof source,
            "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],\"model\":%s}",
            FORMATS[i]);
        assert_ok(tokenizer_parse(&world, source, strlen(source), &t, &err), &err);
        token_list_init(&list, mem_system());
        assert_ok(tokenizer_encode(t, str_of(TEXT), 0, &list, &err), &err);
        assert_ok(tokenizer_encode_apart(t, str_of(TEXT), &all, 1, &list, &err), &err);
        assert_true(list.len >= 2);
        assert_int_equal(list.ids[0], 1);
        for (size_t k = 1; k < list.len; k++) assert_int_not_equal(list.ids[k], 1);
        token_list_deinit(&list);
        tokenizer_destroy(t);
    }
}

/* Texts and tokens of one letter: what looks back or ahead too often would take hours. */
static void test_linear_time(void **state)
{
    enum { N = 1 << (TEST_SLOWED ? 16 : 20) };
    (void)state;
    char *text = mem_alloc(mem_system(), N);
    assert_non_null(text);
    memset(text, 'a', N);
    for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
        json_doc doc;
        weft_error err = {0};
        token_list list;
        assert_ok(json_parse(&doc, SMALL[i], strlen(SMALL[i]), &err), &err);
        tokenizer *t = open_tokenizer(doc.root);
        token_list_init(&list, mem_system());
        assert_ok(tokenizer_encode(t, (str){text, N}, 0, &list, &err), &err);
        assert_true(list.len >= 1);
        token_list_deinit(&list);
        tokenizer_destroy(t);
        json_doc_free(&doc);
    }
    mem_free(mem_system(), text, N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hugging_face),
                                       cmocka_unit_test(test_model_files),
                                       cmocka_unit_test(test_gguf_sentencepiece),
                                       cmocka_unit_test(test_gguf_bert),
                                       cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_follow),
                                       cmocka_unit_test(test_specials_unspelled),
                                       cmocka_unit_test(test_linear_time)};
    return TEST_RUN("tokenizer/kinds", tests);
}
