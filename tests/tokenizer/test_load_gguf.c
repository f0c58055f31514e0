/* test_load_gguf.c - vocabularies from metadata, and metadata that does not fit together. */
#include "support/test.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

#include "base/assert.h"
#include "support/fault.h"
#include "tokenizer/gguf_pre.h"

/* Where the entries stand in the table below; sorted by key. */
enum { ADD_BOS, ADD_EOS, BOS, EOS, MERGES, MODEL, PRE, SCORES, TYPES, TOKENS, N_KEYS };

typedef struct file {
    gguf_value values[N_KEYS];
    unsigned char data[N_KEYS][512];
} file;

static void put_texts(file *f, size_t key, const char *const *texts, size_t n)
{
    unsigned char *at = f->data[key];
    for (size_t i = 0; i < n; i++) {
        uint64_t length = strlen(texts[i]);
        memcpy(at, &length, 8);
        memcpy(at + 8, texts[i], length);
        at += 8 + length;
    }
    f->values[key].n_bytes = (uint64_t)(at - f->data[key]);
    f->values[key].n_elements = n;
}

static void put_text(file *f, size_t key, const char *text)
{
    put_texts(f, key, &text, 1);
}

static void put_data(file *f, size_t key, const void *data, size_t n_bytes, uint64_t n_elements)
{
    memcpy(f->data[key], data, n_bytes);
    f->values[key].n_bytes = n_bytes;
    f->values[key].n_elements = n_elements;
}

/* Every key with a sensible value. */
static void file_init(file *f)
{
    static const struct {
        const char *key;
        gguf_type type;
        gguf_type element;
    } KEYS[N_KEYS] = {{"tokenizer.ggml.add_bos_token", GGUF_BOOL, GGUF_U8},
                      {"tokenizer.ggml.add_eos_token", GGUF_BOOL, GGUF_U8},
                      {"tokenizer.ggml.bos_token_id", GGUF_U32, GGUF_U8},
                      {"tokenizer.ggml.eos_token_id", GGUF_U32, GGUF_U8},
                      {"tokenizer.ggml.merges", GGUF_ARRAY, GGUF_TEXT},
                      {"tokenizer.ggml.model", GGUF_TEXT, GGUF_U8},
                      {"tokenizer.ggml.pre", GGUF_TEXT, GGUF_U8},
                      {"tokenizer.ggml.scores", GGUF_ARRAY, GGUF_F32},
                      {"tokenizer.ggml.token_type", GGUF_ARRAY, GGUF_I32},
                      {"tokenizer.ggml.tokens", GGUF_ARRAY, GGUF_TEXT}};
    static const char *const TOKEN_TEXTS[] = {"<s>", "</s>",     "a",   "b",
                                              "ab",  "\xc4\xa0", "<t>", "1"};
    static const int32_t TOKEN_TYPES[] = {3, 3, 1, 1, 1, 1, 4, 1};
    static const float TOKEN_SCORES[COUNT_OF(TOKEN_TEXTS)];
    static const char *const MERGE_TEXTS[] = {"a b"};
    static const uint32_t ZERO_ID = 0, ONE_ID = 1;
    *f = (file){0};
    for (size_t i = 0; i < N_KEYS; i++) {
        f->values[i] = (gguf_value){.key = KEYS[i].key,
                                    .type = KEYS[i].type,
                                    .element = KEYS[i].element,
                                    .data = f->data[i]};
    }
    put_data(f, ADD_BOS, "\1", 1, 1);
    put_data(f, ADD_EOS, "\1", 1, 1);
    put_data(f, BOS, &ZERO_ID, 4, 1);
    put_data(f, EOS, &ONE_ID, 4, 1);
    put_texts(f, MERGES, MERGE_TEXTS, 1);
    put_text(f, MODEL, "gpt2");
    put_text(f, PRE, "smollm");
    put_data(f, SCORES, TOKEN_SCORES, sizeof TOKEN_SCORES, COUNT_OF(TOKEN_TEXTS));
    put_data(f, TYPES, TOKEN_TYPES, sizeof TOKEN_TYPES, COUNT_OF(TOKEN_TEXTS));
    put_texts(f, TOKENS, TOKEN_TEXTS, COUNT_OF(TOKEN_TEXTS));
}

/* Without the key; SIZE_MAX: with all of them. */
static weft_status open_without(const env *world, const file *f, size_t missing, tokenizer **t,
                                weft_error *err)
{
    gguf_value values[N_KEYS];
    weights w = {.env = *world, .path = "x.gguf", .metadata = values};
    for (size_t i = 0; i < N_KEYS; i++) {
        if (i != missing) values[w.n_metadata++] = f->values[i];
    }
    return tokenizer_open(&w, NULL, t, err);
}

static weft_status open_file(const file *f, tokenizer **t, weft_error *err)
{
    env world = {mem_system(), io_system(), NULL};
    return open_without(&world, f, SIZE_MAX, t, err);
}

static void test_vocabulary(void **state)
{
    (void)state;
    file f;
    tokenizer *t = NULL;
    weft_error err = {0};
    file_init(&f);
    assert_ok(open_file(&f, &t, &err), &err);
    assert_int_equal(tokenizer_n_vocab(t), 8);
    assert_int_equal(tokenizer_bos(t), 0);
    assert_int_equal(tokenizer_eos(t), 1);
    assert_true(tokenizer_is_special(t, 0));
    assert_false(tokenizer_is_special(t, 6));
    token_list list;
    token_list_init(&list, mem_system());
    static const int32_t EXPECTED[] = {0, 4, 5, 7, 7, 6, 1, 1};
    assert_ok(tokenizer_encode(t, str_of("ab 11<t></s>"), TOKENIZER_SPECIALS, &list, &err), &err);
    assert_int_equal(list.len, COUNT_OF(EXPECTED));
    assert_memory_equal(list.ids, EXPECTED, sizeof EXPECTED);
    token_list_deinit(&list);
    tokenizer_destroy(t);
}

static void refuse(const file *f, weft_status status, const char *message)
{
    tokenizer *t = NULL;
    weft_error err = {0};
    assert_status(status, open_file(f, &t, &err), &err);
    assert_message(&err, message);
    assert_null(t);
}

static void test_names(void **state)
{
    (void)state;
    file f;
    file_init(&f);
    put_text(&f, MODEL, "rwkv");
    refuse(&f, WEFT_UNSUPPORTED, "tokenizer: model 'rwkv' is not supported");
    file_init(&f);
    put_text(&f, PRE, "default");
    refuse(&f, WEFT_UNSUPPORTED, "tokenizer: pre-tokenizer 'default' is not supported");
    f.values[PRE].type = GGUF_U32;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.pre is no text");
    file_init(&f);
    f.values[MODEL].type = GGUF_U32;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.model is no text");
}

/* The other kinds of models, with what the vocabulary above has in their terms. */
static void test_models(void **state)
{
    static const struct {
        const char *model;
        int32_t ids[6]; /* of "ab 1<t>" and what is put around */
        size_t n;
    } CASES[] = {{"llama", {0, 4, 7, 6, 1}, 5},  /* merged by scores; U+2581 is dropped */
                 {"gemma4", {0, 4, 7, 6, 1}, 5}, /* merged by merges */
                 {"t5", {0, 4, 7, 6, 1}, 5}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        file f;
        tokenizer *t = NULL;
        weft_error err = {0};
        token_list list;
        file_init(&f);
        put_text(&f, MODEL, CASES[i].model);
        assert_ok(open_file(&f, &t, &err), &err);
        token_list_init(&list, mem_system());
        assert_ok(tokenizer_encode(t, str_of("ab 1<t>"), TOKENIZER_SPECIALS, &list, &err), &err);
        assert_int_equal(list.len, CASES[i].n);
        assert_memory_equal(list.ids, CASES[i].ids, CASES[i].n * sizeof list.ids[0]);
        token_list_deinit(&list);
        tokenizer_destroy(t);
    }
}

/* Each row's patterns compile. */
static void test_pre_types(void **state)
{
    (void)state;
    assert_non_null(gguf_pre_find(str_of("llama-bpe")));
    for (size_t i = 0; gguf_pre_at(i) != NULL; i++) {
        file f;
        tokenizer *t = NULL;
        weft_error err = {0};
        file_init(&f);
        put_text(&f, PRE, gguf_pre_at(i)->name);
        assert_ok(open_file(&f, &t, &err), &err);
        tokenizer_destroy(t);
    }
}

/* Elements of another type would be misread, or read past the array's end: whatever kind of
 * vocabulary it is, each array has its type of elements (B88). Token types are signed or not. */
static void test_element_types(void **state)
{
    (void)state;
    static const char *const KINDS[] = {"gpt2", "llama", "gemma4", "t5", "bert"};
    static const struct {
        size_t key;
        gguf_type element, other;
    } ARRAYS[] = {{SCORES, GGUF_F32, GGUF_F32},
                  {TYPES, GGUF_I32, GGUF_U32},
                  {MERGES, GGUF_TEXT, GGUF_TEXT},
                  {TOKENS, GGUF_TEXT, GGUF_TEXT}};
    size_t n_refused = 0;
    for (size_t k = 0; k < COUNT_OF(KINDS); k++) {
        for (size_t i = 0; i < COUNT_OF(ARRAYS); i++) {
            for (int wrong = GGUF_U8; wrong <= GGUF_F64; wrong++) {
                file f;
                if (wrong == (int)ARRAYS[i].element || wrong == (int)ARRAYS[i].other) continue;
                file_init(&f);
                put_text(&f, MODEL, KINDS[k]);
                f.values[ARRAYS[i].key].element = (gguf_type)wrong;
                refuse(&f, WEFT_FORMAT, "has elements of type");
                n_refused++;
            }
        }
    }
    assert_int_equal(n_refused, 5 * (3 * 12 + 11));
}

/* B88 */
static void test_arrays(void **state)
{
    (void)state;
    file f;
    file_init(&f);
    f.values[SCORES].element = GGUF_U8;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.scores has elements of type 0, expected 6");
    file_init(&f);
    f.values[TYPES].element = GGUF_U8;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.token_type has elements of type 0");
    file_init(&f);
    f.values[MERGES].element = GGUF_I32;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.merges has elements of type 5");
    file_init(&f);
    f.values[TOKENS].type = GGUF_TEXT;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.tokens has type 8");
    file_init(&f);
    f.values[SCORES].n_elements = 7;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.scores has 7 elements for 8 tokens");
    file_init(&f);
    f.values[TYPES].n_elements = 9;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.token_type has 9 elements for 8 tokens");
    file_init(&f);
    f.values[TOKENS].n_elements = (uint64_t)TOKENIZER_VOCAB + 1;
    refuse(&f, WEFT_LIMIT, "4194305 tokens");
}

static void test_values(void **state)
{
    (void)state;
    static const uint32_t EIGHT = 8;
    static const char *const BROKEN[] = {"a b", "ab"};
    file f;
    file_init(&f);
    put_data(&f, EOS, &EIGHT, 4, 1);
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.eos_token_id is 8, expected a number below 8");
    file_init(&f);
    f.values[ADD_BOS].type = GGUF_U8;
    refuse(&f, WEFT_FORMAT, "tokenizer.ggml.add_bos_token is no boolean");
    file_init(&f);
    put_texts(&f, MERGES, BROKEN, 2);
    refuse(&f, WEFT_FORMAT, "merge 1 is not a pair");
}

static void test_missing(void **state)
{
    static const struct {
        size_t key;
        weft_status status;
        bool has;
    } CASES[] = {{MODEL, WEFT_OK, false},      {PRE, WEFT_UNSUPPORTED, false},
                 {TOKENS, WEFT_FORMAT, false}, {MERGES, WEFT_FORMAT, false},
                 {SCORES, WEFT_OK, true},      {TYPES, WEFT_OK, true},
                 {BOS, WEFT_OK, true},         {EOS, WEFT_OK, true},
                 {ADD_BOS, WEFT_OK, true},     {ADD_EOS, WEFT_OK, true}};
    (void)state;
    env world = {mem_system(), io_system(), NULL};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        file f;
        tokenizer *t = NULL;
        weft_error err = {0};
        file_init(&f);
        assert_status(CASES[i].status, open_without(&world, &f, CASES[i].key, &t, &err), &err);
        assert_int_equal(t != NULL, CASES[i].has);
        tokenizer_destroy(t);
    }
    file f;
    tokenizer *t = NULL;
    file_init(&f);
    put_text(&f, MODEL, "no_vocab");
    assert_ok(open_file(&f, &t, NULL), NULL);
    assert_null(t);
}

static weft_status life(const env *world, void *user, weft_error *err)
{
    tokenizer *t = NULL;
    weft_status status = open_without(world, user, SIZE_MAX, &t, err);
    assert_int_equal(status == WEFT_OK, t != NULL);
    tokenizer_destroy(t);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    file f;
    file_init(&f);
    assert_true(fault_sweep(life, &f) >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_models),        cmocka_unit_test(test_pre_types),
        cmocka_unit_test(test_arrays),        cmocka_unit_test(test_values),
        cmocka_unit_test(test_element_types), cmocka_unit_test(test_missing),
        cmocka_unit_test(test_faults)};
    return TEST_RUN("tokenizer/load_gguf", tests);
}
