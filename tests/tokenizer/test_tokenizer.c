/* test_tokenizer.c - texts to ids and back, against Hugging Face's tokenizers, and the functions
 * around. */
#include "tokenizer/tokenizer.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "support/fault.h"
#include "tokenizer/detok.h"

#define FIXTURES WEFT_SOURCE_DIR "/tests/tokenizer/fixtures/"

/* Bytes a to d, "ab", "abcd" by merges; "<s>" and "</s>" are special, "<tool>" is not. */
static const char SMALL[] =
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":7,\"content\":\"</s>\",\"special\":true},"
    "{\"id\":8,\"content\":\"<tool>\",\"special\":false}],"
    "\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
    "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}},"
    "{\"SpecialToken\":{\"id\":\"</s>\"}}],\"special_tokens\":{"
    "\"<s>\":{\"ids\":[6]},\"</s>\":{\"ids\":[7]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"ab\":4,\"cd\":5,"
    "\"abcd\":9,\"\\u0120\":10},"
    "\"merges\":[\"a b\",[\"c\",\"d\"],\"ab cd\"]}}";

static tokenizer *parse(const env *world, const char *text, size_t n)
{
    weft_error err = {0};
    tokenizer *t = NULL;
    assert_ok(tokenizer_parse(world, text, n, &t, &err), &err);
    assert_non_null(t);
    return t;
}

static const env *plain_world(void)
{
    static env world;
    world = (env){mem_system(), io_system(), NULL};
    return &world;
}

/* ---- fixtures ---- */

static void read_fixture(const char *name, json_doc *doc, char **text, size_t *n)
{
    char path[1024];
    weft_error err = {0};
    snprintf(path, sizeof path, FIXTURES "%s.json", name);
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, text, n, &err), &err);
    assert_ok(json_parse(doc, *text, *n, &err), &err);
}

/* The tokenizer of a fixture, with model.json in the place of its "@". */
static tokenizer *fixture_tokenizer(const json *state)
{
    static const char MARK[] = "\"vocab\":\"@\",\"merges\":\"@\"";
    json_doc doc;
    char *model;
    size_t n;
    strbuf text, whole;
    strbuf_init(&text, mem_system(), 0);
    strbuf_init(&whole, mem_system(), 0);
    read_fixture("model", &doc, &model, &n);
    assert_int_equal(WEFT_OK, json_write(state, 0, &text));
    const char *mark = strstr(text.ptr, MARK);
    assert_non_null(mark);
    strbuf_add(&whole, text.ptr, (size_t)(mark - text.ptr));
    strbuf_add(&whole, model + 1, n - 3); /* without braces and the newline */
    strbuf_add_text(&whole, mark + strlen(MARK));
    tokenizer *t = parse(plain_world(), whole.ptr, whole.len);
    strbuf_deinit(&text);
    strbuf_deinit(&whole);
    json_doc_free(&doc);
    mem_free(mem_system(), model, n + 1);
    return t;
}

static void check_ids(const char *name, const json *item, const token_list *list,
                      const json *expected)
{
    bool same = list->len == json_length(expected);
    for (size_t i = 0; same && i < list->len; i++)
        same = json_int(json_at(expected, i), -1) == list->ids[i];
    if (same) return;
    str text = json_text(json_at(item, 0));
    fail_msg("%s: '%.*s' has other ids", name, (int)text.len, text.ptr);
}

static void check_text(const char *name, const tokenizer *t, const token_list *list, bool specials,
                       const json *expected)
{
    if (json_kind_of(expected) != JSON_KIND_TEXT) return;
    detok d;
    strbuf whole;
    str part;
    detok_init(&d, t, mem_system(), specials);
    strbuf_init(&whole, mem_system(), 0);
    for (size_t i = 0; i < list->len; i++) {
        assert_ok(detok_push(&d, list->ids[i], &part, NULL), NULL);
        strbuf_add(&whole, part.ptr, part.len);
    }
    assert_ok(detok_flush(&d, &part, NULL), NULL);
    strbuf_add(&whole, part.ptr, part.len);
    str want = json_text(expected);
    if (!str_equal((str){strbuf_text(&whole), whole.len}, want))
        fail_msg("%s: '%.*s' decodes to '%s'", name, (int)want.len, want.ptr, strbuf_text(&whole));
    strbuf_deinit(&whole);
    detok_deinit(&d);
}

static void check_case(const char *name, const tokenizer *t, const json *item)
{
    for (uint32_t with = 0; with < 2; with++) {
        const json *expected = json_at(item, 1 + with);
        if (expected == NULL) continue;
        token_list list;
        weft_error err = {0};
        token_list_init(&list, mem_system());
        uint32_t flags = with == 0 ? 0 : TOKENIZER_SPECIALS;
        assert_ok(tokenizer_encode(t, json_text(json_at(item, 0)), flags, &list, &err), &err);
        check_ids(name, item, &list, expected);
        check_text(name, t, &list, with != 0, json_at(item, 3 + with));
        token_list_deinit(&list);
    }
}

static void test_hugging_face(void **state)
{
    static const char *const NAMES[] = {"gpt2",
                                        "digits",
                                        "nfc-llama3",
                                        "nfkd-lower",
                                        "nfkc-gpt4o",
                                        "nfd-han",
                                        "strips",
                                        "odd",
                                        "split-removed",
                                        "split-isolated",
                                        "split-merged_with_previous",
                                        "split-merged_with_next",
                                        "split-contiguous",
                                        "regex-removed",
                                        "regex-isolated",
                                        "regex-merged_with_previous",
                                        "regex-merged_with_next",
                                        "regex-contiguous",
                                        "digits-groups",
                                        "whole",
                                        "characters",
                                        "characters-each",
                                        "characters-dropped"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        json_doc doc;
        char *text;
        size_t n;
        read_fixture(NAMES[i], &doc, &text, &n);
        tokenizer *t = fixture_tokenizer(json_get(doc.root, "tokenizer"));
        const json *cases = json_get(doc.root, "cases");
        assert_true(json_length(cases) >= 30);
        for (size_t k = 0; k < json_length(cases); k++) check_case(NAMES[i], t, json_at(cases, k));
        tokenizer_destroy(t);
        json_doc_free(&doc);
        mem_free(mem_system(), text, n + 1);
    }
}

/* Vocabularies of real files, where they were fetched. */
static void test_real_files(void **state)
{
    static const char *const FILES[][2] = {
        {"real-smollm2", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
        {"real-qwen2", "qwen25coder05/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"},
        {"real-gemma3", "gemma3/gemma-3-270m-q4_k_m.gguf"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(FILES); i++) {
        char path[1024];
        weights *w = NULL;
        tokenizer *t = NULL;
        weft_error err = {0};
        snprintf(path, sizeof path, WEFT_SOURCE_DIR "/build/models/%s", FILES[i][1]);
        uint64_t size;
        if (io_system()->size(io_system(), path, &size, NULL) != WEFT_OK) {
            print_message("SKIPPED %s: not fetched\n", FILES[i][1]);
            continue;
        }
        assert_ok(weights_open(plain_world(), path, &w, &err), &err);
        assert_ok(tokenizer_open(w, NULL, &t, &err), &err);
        json_doc doc;
        char *text;
        size_t n;
        read_fixture(FILES[i][0], &doc, &text, &n);
        const json *cases = json_get(doc.root, "cases");
        assert_true(json_length(cases) >= 100);
        for (size_t k = 0; k < json_length(cases); k++)
            check_case(FILES[i][0], t, json_at(cases, k));
        tokenizer_destroy(t);
        weights_close(w);
        json_doc_free(&doc);
        mem_free(mem_system(), text, n + 1);
    }
}

/* ---- functions ---- */

static void expect_ids(const tokenizer *t, const char *text, uint32_t flags, const int32_t *ids,
                       size_t n_ids)
{
    token_list list;
    weft_error err = {0};
    token_list_init(&list, mem_system());
    assert_ok(tokenizer_encode(t, str_of(text), flags, &list, &err), &err);
    assert_int_equal(list.len, n_ids);
    for (size_t i = 0; i < n_ids; i++) assert_int_equal(list.ids[i], ids[i]);
    token_list_deinit(&list);
}

static void test_encode(void **state)
{
    (void)state;
    tokenizer *t = parse(plain_world(), SMALL, strlen(SMALL));
    expect_ids(t, "", 0, NULL, 0);
    expect_ids(t, "", TOKENIZER_SPECIALS, (const int32_t[]){6, 7}, 2);
    expect_ids(t, "abcd", TOKENIZER_SPECIALS, (const int32_t[]){6, 9, 7}, 3);
    expect_ids(t, "abc abcd", 0, (const int32_t[]){4, 2, 10, 9}, 4);
    expect_ids(t, "ab<s>cd<tool>", 0, (const int32_t[]){4, 6, 5, 8}, 4);
    /* Plain: the tokens are text, and bytes without a token are dropped. */
    expect_ids(t, "ab<s>cd<tool>", TOKENIZER_PLAIN, (const int32_t[]){4, 5}, 2);
    tokenizer_destroy(t);
}

static void test_encode_apart(void **state)
{
    static const char TEXT[] = "<s>ab</s>cd</s>e\xcc\x81"; /* the first </s> is from outside */
    static const str_span SPAN = {3, 8};
    static const int32_t EXPECTED[] = {6, 4, 5, 7};
    (void)state;
    tokenizer *t = parse(plain_world(), SMALL, strlen(SMALL));
    token_list list;
    weft_error err = {0};
    token_list_init(&list, mem_system());
    assert_ok(tokenizer_encode_apart(t, str_of(TEXT), &SPAN, 1, &list, &err), &err);
    assert_int_equal(list.len, COUNT_OF(EXPECTED));
    assert_memory_equal(list.ids, EXPECTED, sizeof EXPECTED);
    token_list_deinit(&list);
    tokenizer_destroy(t);
}

static void test_encode_refuses(void **state)
{
    (void)state;
    tokenizer *t = parse(plain_world(), SMALL, strlen(SMALL));
    token_list list;
    weft_error err = {0};
    token_list_init(&list, mem_system());
    assert_ok(tokenizer_encode(t, str_of("ab"), 0, &list, &err), &err);
    assert_status(WEFT_FORMAT, tokenizer_encode(t, str_of("a\xff"), 3, &list, &err), &err);
    assert_int_equal(list.len, 1);
    assert_int_equal(list.ids[0], 4);
    err = (weft_error){0};
    str longer = {"", (size_t)TOKENIZER_TEXT_BYTES + 1};
    assert_status(WEFT_LIMIT, tokenizer_encode(t, longer, 0, &list, &err), &err);
    assert_int_equal(list.len, 1);
    token_list_deinit(&list);
    tokenizer_destroy(t);
}

static void test_lookups(void **state)
{
    (void)state;
    tokenizer *t = parse(plain_world(), SMALL, strlen(SMALL));
    assert_int_equal(tokenizer_n_vocab(t), 11);
    assert_int_equal(tokenizer_find(t, str_of("<tool>")), 8);
    assert_int_equal(tokenizer_find(t, str_of("abcd")), 9);
    assert_int_equal(tokenizer_find(t, str_of("abc")), -1);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    assert_true(tokenizer_is_special(t, 6));
    assert_false(tokenizer_is_special(t, 8));
    assert_false(tokenizer_is_special(t, -1));
    assert_false(tokenizer_is_special(t, 1000000));
    assert_true(str_equal_text(tokenizer_token(t, 10), "\xc4\xa0"));
    assert_true(str_equal_text(tokenizer_token(t, 11), ""));
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    static const int32_t IDS[] = {10, 9, 6, 8, -1, 11};
    for (size_t i = 0; i < COUNT_OF(IDS); i++)
        assert_int_equal(WEFT_OK, tokenizer_bytes(t, IDS[i], false, &out));
    assert_string_equal(strbuf_text(&out), " abcd<tool>");
    assert_int_equal(WEFT_OK, tokenizer_bytes(t, 6, true, &out));
    assert_string_equal(strbuf_text(&out), " abcd<tool><s>");
    strbuf_deinit(&out);
    tokenizer_destroy(t);
    tokenizer_destroy(NULL);
}

/* ---- opening ---- */

static const weights_format FOLDER = {.name = "folder", .is_folder = true};

static weft_status open_in(const env *world, const char *path, tokenizer **t, weft_error *err)
{
    weights w = {.env = *world, .format = &FOLDER, .path = path};
    return tokenizer_open(&w, NULL, t, err);
}

static void test_open(void **state)
{
    (void)state;
    static const char CONFIG[] = "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"}}";
    test_folder folder;
    tokenizer *t = NULL;
    weft_error err = {0};
    test_folder_create(&folder);
    assert_ok(open_in(plain_world(), folder.path, &t, &err), &err);
    assert_null(t);
    test_folder_write(&folder, "tokenizer.json", SMALL, strlen(SMALL));
    assert_ok(open_in(plain_world(), folder.path, &t, &err), &err);
    assert_non_null(t);
    assert_int_equal(tokenizer_bos(t), -1);
    tokenizer_destroy(t);
    test_folder_write(&folder, "tokenizer_config.json", CONFIG, strlen(CONFIG));
    assert_ok(open_in(plain_world(), folder.path, &t, &err), &err);
    assert_int_equal(tokenizer_bos(t), 6);
    assert_int_equal(tokenizer_eos(t), 7);
    tokenizer_destroy(t);
    test_folder_write(&folder, "tokenizer_config.json", "[", 1);
    assert_status(WEFT_FORMAT, open_in(plain_world(), folder.path, &t, &err), &err);
    assert_message(&err, "tokenizer_config.json");
    assert_null(t);
    test_folder_remove(&folder);
}

static weft_status whole_life(const env *world, void *user, weft_error *err)
{
    const test_folder *folder = user;
    tokenizer *t = NULL;
    weft_status status = open_in(world, folder->path, &t, err);
    if (status != WEFT_OK) {
        assert_null(t);
        return status;
    }
    char text[600];
    memset(text, 'a', sizeof text); /* a word for the heap, then one that is not ASCII */
    memcpy(text + 500, " <s>ab cd e\xcc\x81", 13);
    token_list list;
    token_list_init(&list, world->allocator);
    status = tokenizer_encode(t, (str){text, 513}, TOKENIZER_SPECIALS, &list, err);
    if (status == WEFT_OK) status = tokenizer_encode(t, str_of("abab"), 0, &list, err);
    detok d;
    str part;
    detok_init(&d, t, world->allocator, true);
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
    test_folder folder;
    test_folder_create(&folder);
    test_folder_write(&folder, "tokenizer.json", SMALL, strlen(SMALL));
    test_folder_write(&folder, "tokenizer_config.json", "{\"bos_token\":null}", 18);
    assert_true(fault_sweep(whole_life, &folder) >= 30);
    assert_true(fault_sweep_io(whole_life, &folder) >= 4);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hugging_face),   cmocka_unit_test(test_real_files),
        cmocka_unit_test(test_encode),         cmocka_unit_test(test_encode_apart),
        cmocka_unit_test(test_encode_refuses), cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_open),           cmocka_unit_test(test_faults),
    };
    return TEST_RUN("tokenizer/tokenizer", tests);
}
