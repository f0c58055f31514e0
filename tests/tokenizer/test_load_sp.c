/* test_load_sp.c - tokenizer.model and vocabularies of tiktoken in a folder, and files that are
 * not what they should be. What they encode to is compared in test_kinds.c. */
#include "support/test.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "support/fault.h"

/* A message of fields of one byte of length: number, then a text; or number, then a small
 * value. */
static void put_bytes(strbuf *out, uint32_t number, const char *bytes, size_t n)
{
    assert_true(n < 128 && number < 16);
    strbuf_add_char(out, (char)(number << 3 | 2));
    strbuf_add_char(out, (char)n);
    strbuf_add(out, bytes, n);
}

static void put_number(strbuf *out, uint32_t number, uint32_t value)
{
    uint32_t key = number << 3;
    assert_true(value < 128);
    if (key >= 128) strbuf_add_char(out, (char)(unsigned char)(key | 128));
    strbuf_add_char(out, (char)(key >= 128 ? key >> 7 : key));
    strbuf_add_char(out, (char)value);
}

static void put_piece(strbuf *out, const char *text, float score, uint32_t type)
{
    strbuf piece;
    strbuf_init(&piece, mem_system(), 0);
    put_bytes(&piece, 1, text, strlen(text));
    strbuf_add_char(&piece, 2 << 3 | 5);
    strbuf_add(&piece, (const char *)&score, sizeof score);
    put_number(&piece, 3, type);
    put_bytes(out, 1, piece.ptr, piece.len);
    strbuf_deinit(&piece);
}

/* Pairs of a field's number and its value, for the trainer or the normalizer. */
static void put_options(strbuf *out, uint32_t number, const uint32_t *options, size_t n)
{
    strbuf spec;
    strbuf_init(&spec, mem_system(), 0);
    for (size_t i = 0; i + 1 < n; i += 2) put_number(&spec, options[i], options[i + 1]);
    put_bytes(out, number, strbuf_text(&spec), spec.len);
    strbuf_deinit(&spec);
}

static void put_pieces(strbuf *out)
{
    put_piece(out, "<unk>", 0.0f, 2);
    put_piece(out, "<s>", 0.0f, 3);
    put_piece(out, "</s>", 0.0f, 3);
    put_piece(out, "\xe2\x96\x81", -2.0f, 1);
    put_piece(out, "a", -1.0f, 1);
    put_piece(out, "b", -1.0f, 1);
    put_piece(out, "ab", -1.5f, 1);
}

static weft_status parse(const strbuf *file, tokenizer **t, weft_error *err)
{
    env world = {mem_system(), io_system(), NULL};
    str bytes = {strbuf_text(file), file->len};
    return tokenizer_parse_model(&world, bytes, "llama3", t, err);
}

static void expect_refused(const strbuf *file, weft_status status, const char *message)
{
    tokenizer *t = NULL;
    weft_error err = {0};
    assert_status(status, parse(file, &t, &err), &err);
    assert_message(&err, message);
    assert_null(t);
}

static void test_options(void **state)
{
    static const struct {
        uint32_t spec;
        uint32_t options[2];
        weft_status status;
        const char *message;
    } CASES[] = {
        {2, {3, 3}, WEFT_UNSUPPORTED, "model type 3 is not supported"},
        {2, {24, 1}, WEFT_UNSUPPORTED, "'treat_whitespace_as_suffix'"},
        {3, {5, 0}, WEFT_UNSUPPORTED, "'escape_whitespaces false'"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        strbuf file;
        strbuf_init(&file, mem_system(), 0);
        put_pieces(&file);
        put_options(&file, CASES[i].spec, CASES[i].options, 2);
        expect_refused(&file, CASES[i].status, CASES[i].message);
        strbuf_deinit(&file);
    }
}

static void test_broken(void **state)
{
    (void)state;
    strbuf file;
    strbuf_init(&file, mem_system(), 0);
    expect_refused(&file, WEFT_FORMAT, "there are no pieces");
    put_pieces(&file);
    size_t n = file.len;
    for (size_t cut = 1; cut < n; cut++) { /* at a boundary of fields it is a shorter file */
        tokenizer *t = NULL;
        weft_error err = {0};
        file.len = cut;
        weft_status status = parse(&file, &t, &err);
        assert_true(status == WEFT_OK || status == WEFT_FORMAT);
        assert_true((status == WEFT_OK) == (t != NULL));
        tokenizer_destroy(t);
    }
    file.len = n;
    put_bytes(&file, 3, "\x12\x05\x04\x00\x00\x00\x00", 7); /* a character map */
    expect_refused(&file, WEFT_FORMAT, "a character map of 5 bytes has an array of 4");
    strbuf_deinit(&file);
}

static void test_nan_score(void **state)
{
    static const float NOT_A_NUMBER = 0.0f;
    (void)state;
    strbuf file;
    strbuf_init(&file, mem_system(), 0);
    put_piece(&file, "a", NOT_A_NUMBER / NOT_A_NUMBER, 1);
    expect_refused(&file, WEFT_FORMAT, "the score of token 0");
    strbuf_deinit(&file);
}

/* Parts of a character as pieces of every type, user-defined ones too: a text goes into pieces in
 * the end, and what is found as it stands is not found inside a character. */
static void test_broken_characters(void **state)
{
    static const char *const TEXTS[] = {"\xe2", "\x96", "\x81", "\xe2\x96", "\x96\x81", "a\xe2"};
    static const uint32_t UNIGRAM[] = {3, 1};
    static const uint32_t BPE[] = {3, 2};
    static const int32_t EXPECTED[] = {6, 3, 4, 3, 5, 0, 5};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(TEXTS) * 12; i++) {
        uint32_t type = (uint32_t)(i / 2 % 6) + 1;
        tokenizer *t = NULL;
        weft_error err = {0};
        token_list list;
        strbuf file;
        strbuf_init(&file, mem_system(), 0);
        token_list_init(&list, mem_system());
        put_pieces(&file);
        put_piece(&file, TEXTS[i / 12], 0.0f, type);
        put_options(&file, 2, i % 2 == 0 ? UNIGRAM : BPE, 2);
        put_options(&file, 3, (uint32_t[]){3, 0}, 2);
        assert_status(WEFT_OK, parse(&file, &t, &err), &err);
        str text = str_of("ab a b\xc3\xa9"
                          "b");
        assert_status(WEFT_OK, tokenizer_encode(t, text, 0, &list, &err), &err);
        if (type == 3 || type == 4) {
            assert_int_equal(list.len, COUNT_OF(EXPECTED));
            assert_memory_equal(list.ids, EXPECTED, sizeof EXPECTED);
        }
        token_list_deinit(&list);
        tokenizer_destroy(t);
        strbuf_deinit(&file);
    }
}

static void test_tiktoken(void **state)
{
    static const struct {
        const char *text;
        weft_status status;
        const char *message;
    } CASES[] = {
        {"YQ== 0\nYg==\n", WEFT_FORMAT, "line 2 is no base64"},
        {"YQ== 0\n!! 1\n", WEFT_FORMAT, "line 2 is no base64"},
        {"YQ== 0\nYg== x\n", WEFT_FORMAT, "line 2 is no base64"},
        {"YQ== 0\nYg== 0\n", WEFT_FORMAT, "id 0 names both"},
        {"YQ== 0\nYg== 99999999\n", WEFT_LIMIT, "token id 99999999"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        strbuf file;
        strbuf_init(&file, mem_system(), 0);
        strbuf_add_text(&file, CASES[i].text);
        expect_refused(&file, CASES[i].status, CASES[i].message);
        strbuf_deinit(&file);
    }
}

/* ---- folders ---- */

static const weights_format FOLDER = {.name = "folder", .is_folder = true};

static const char CONFIG[] =
    "{\"bos_token\":\"<s>\",\"add_eos_token\":true,\"added_tokens_decoder\":{"
    "\"1\":{\"content\":\"<s>\",\"special\":true},"
    "\"9\":{\"content\":\"<x>\",\"special\":true},\"10\":{\"content\":\"<y>\",\"lstrip\":true}}}";

static weft_status open_in(const env *world, const char *path, tokenizer **t, weft_error *err)
{
    weights w = {.env = *world, .format = &FOLDER, .path = path};
    return tokenizer_open(&w, NULL, t, err);
}

static weft_status whole_life(const env *world, void *user, weft_error *err)
{
    static const int32_t EXPECTED[] = {1, 3, 6, 0, 9, 5, 10, 2};
    test_folder *folder = user;
    tokenizer *t = NULL;
    weft_status status = open_in(world, folder->path, &t, err);
    if (status != WEFT_OK) {
        assert_null(t);
        return status;
    }
    token_list list;
    token_list_init(&list, world->allocator);
    status = tokenizer_encode(t, str_of("abcc<x>b <y>"), TOKENIZER_SPECIALS, &list, err);
    if (status == WEFT_OK) {
        assert_int_equal(list.len, COUNT_OF(EXPECTED));
        assert_memory_equal(list.ids, EXPECTED, sizeof EXPECTED);
        assert_int_equal(tokenizer_bos(t), 1);
        assert_int_equal(tokenizer_eos(t), 2);
        assert_true(tokenizer_is_special(t, 9));
        assert_false(tokenizer_is_special(t, 10));
    }
    token_list_deinit(&list);
    tokenizer_destroy(t);
    return status;
}

static void test_folder_model(void **state)
{
    static const uint32_t BPE_KIND[] = {3, 2};
    static const uint32_t PLAIN[] = {3, 1, 4, 0};
    (void)state;
    test_folder folder;
    strbuf file;
    strbuf_init(&file, mem_system(), 0);
    put_pieces(&file);
    put_options(&file, 2, BPE_KIND, 2);
    put_options(&file, 3, PLAIN, 4);
    test_folder_create(&folder);
    test_folder_write(&folder, "tokenizer.model", file.ptr, file.len);
    test_folder_write(&folder, "tokenizer_config.json", CONFIG, strlen(CONFIG));
    assert_true(fault_sweep(whole_life, &folder) >= 25);
    assert_true(fault_sweep_io(whole_life, &folder) >= 4);
    test_folder_remove(&folder);
    strbuf_deinit(&file);
}

static void test_folder_tiktoken(void **state)
{
    static const char FILE_TEXT[] = "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\n"; /* a, b, ab, space */
    static const int32_t EXPECTED[] = {2, 3, 0, 9, 1};
    (void)state;
    test_folder folder;
    tokenizer *t = NULL;
    weft_error err = {0};
    env world = {mem_system(), io_system(), NULL};
    test_folder_create(&folder);
    test_folder_write(&folder, "qwen.tiktoken", FILE_TEXT, strlen(FILE_TEXT));
    test_folder_write(&folder, "tokenizer_config.json", CONFIG, strlen(CONFIG));
    assert_ok(open_in(&world, folder.path, &t, &err), &err);
    token_list list;
    token_list_init(&list, mem_system());
    assert_ok(tokenizer_encode(t, str_of("ab a<x>b"), 0, &list, &err), &err);
    assert_int_equal(list.len, COUNT_OF(EXPECTED));
    assert_memory_equal(list.ids, EXPECTED, sizeof EXPECTED);
    token_list_deinit(&list);
    tokenizer_destroy(t);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_nan_score),      cmocka_unit_test(test_broken_characters),
        cmocka_unit_test(test_tiktoken),       cmocka_unit_test(test_folder_model),
        cmocka_unit_test(test_folder_tiktoken)};
    return TEST_RUN("tokenizer/load_sp", tests);
}
