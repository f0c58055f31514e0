/* test_load_json.c - what of tokenizer.json is refused, and by which name. */
#include "support/test.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static weft_status parse(const char *text, tokenizer **t, weft_error *err)
{
    env world = {mem_system(), io_system(), NULL};
    return tokenizer_parse(&world, text, strlen(text), t, err);
}

typedef struct refusal {
    const char *members; /* of the file, besides the model; or all of it */
    weft_status status;
    const char *message;
} refusal;

static void expect_refused(const char *text, const refusal *r)
{
    tokenizer *t = NULL;
    weft_error err = {0};
    assert_status(r->status, parse(text, &t, &err), &err);
    assert_message(&err, r->message);
    assert_null(t);
}

static const refusal STAGES[] = {
    {"\"normalizer\":{\"type\":\"Other\"}", WEFT_UNSUPPORTED,
     "tokenizer: normalizer 'Other' is not supported"},
    {"\"normalizer\":{\"type\":\"Replace\"}", WEFT_FORMAT, "pattern of 'Replace'"},
    {"\"normalizer\":{\"type\":\"Prepend\",\"prepend\":1}", WEFT_FORMAT, "prepend is integer"},
    {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A-\"}", WEFT_FORMAT,
     "not base64"},
    {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", WEFT_FORMAT,
     "a character map of 3 bytes"},
    {"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
     "\"X\"}]}",
     WEFT_UNSUPPORTED, "normalizer 'X'"},
    {"\"normalizer\":{\"type\":\"Sequence\"}", WEFT_FORMAT, "normalizers"},
    {"\"normalizer\":7", WEFT_FORMAT, "normalizer is integer"},
    {"\"normalizer\":{}", WEFT_UNSUPPORTED, "normalizer ''"},
    {"\"pre_tokenizer\":{\"type\":\"Other\"}", WEFT_UNSUPPORTED, "pre-tokenizer 'Other'"},
    {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"last\"}", WEFT_UNSUPPORTED,
     "prepend_scheme 'last'"},
    {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", WEFT_FORMAT,
     "a 'Metaspace' of 2 bytes"},
    {"\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":-1}", WEFT_FORMAT,
     "a 'FixedLength' of -1"},
    {"\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"No\"}", WEFT_UNSUPPORTED,
     "behavior 'No'"},
    {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\"}", WEFT_FORMAT,
     "pattern of 'Split'"},
    {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":"
     "\"No\"}",
     WEFT_UNSUPPORTED, "behavior 'No'"},
    {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
     "\"Removed\"}",
     WEFT_UNSUPPORTED, "a group without an end"},
    {"\"post_processor\":{\"type\":\"Other\"}", WEFT_UNSUPPORTED, "post-processor 'Other'"},
    {"\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",3]}", WEFT_FORMAT,
     "'cls' id 3 is not below the vocabulary's 3"},
    {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}", WEFT_UNSUPPORTED,
     "the text 0 times"},
    {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"
     "\"B\"}}]}",
     WEFT_FORMAT, "part 0 of a template"},
    {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
     "\"id\":"
     "\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[3]}}}",
     WEFT_FORMAT, "template id 3 is not below the vocabulary's 3"},
    {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
     "\"id\":"
     "\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[0,0,0,0,0,0,0,0,0]}}}",
     WEFT_LIMIT, "more than 8 ids"},
    {"\"decoder\":{\"type\":\"Other\"}", WEFT_UNSUPPORTED, "decoder 'Other'"},
    {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
     "\"ByteFallback\"}]}",
     WEFT_UNSUPPORTED, "a decoder behind 'Fuse'"},
    {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"BPEDecoder\"},{\"type\":"
     "\"WordPiece\"}]}",
     WEFT_UNSUPPORTED, "a decoder behind 'BPEDecoder'"},
    {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
     "\"Strip\",\"content\":\"x\",\"start\":99}]}",
     WEFT_UNSUPPORTED, "a 'Strip' of 99 and 0"},
    {"\"decoder\":{\"type\":\"Strip\",\"start\":-1}", WEFT_FORMAT, "a 'Strip' of -1 and 0"},
    {"\"added_tokens\":{}", WEFT_FORMAT, "'added_tokens' is object"},
    {"\"added_tokens\":[{\"content\":\"x\"}]", WEFT_FORMAT, "'id' of an added token"},
    {"\"added_tokens\":[{\"content\":\"x\",\"id\":1}]", WEFT_FORMAT, "id 1 names both"},
    {"\"added_tokens\":[{\"content\":\"x\",\"id\":-4}]", WEFT_LIMIT, "token id -4"},
    {"\"added_tokens\":[{\"content\":\"x\",\"id\":4000000}]", WEFT_LIMIT, "token id 4000000"},
};

static void test_stages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(STAGES); i++) {
        char text[1024];
        snprintf(text, sizeof text, "{%s,%s}", MODEL, STAGES[i].members);
        expect_refused(text, &STAGES[i]);
    }
}

static void test_models(void **state)
{
    static const refusal CASES[] = {
        {"", WEFT_FORMAT, "tokenizer: "},
        {"[]", WEFT_FORMAT, "the file is array"},
        {"{}", WEFT_FORMAT, "'model' is null"},
        {"{\"model\":{\"type\":\"Other\"}}", WEFT_UNSUPPORTED,
         "tokenizer: model 'Other' is not supported"},
        {"{\"model\":{\"type\":\"Unigram\"}}", WEFT_FORMAT, "'vocab' of the model is null"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[1,2]]}}", WEFT_FORMAT,
         "a token of the model is integer"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]],\"unk_id\":1}}", WEFT_FORMAT,
         "'unk_id' 1 is not below 1"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":[]}}", WEFT_FORMAT,
         "'vocab' of the model is array"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"WordLevel\",\"vocab\":{"
         "}}}",
         WEFT_UNSUPPORTED, "a model other than 'BPE'"},
        {"{\"model\":{}}", WEFT_UNSUPPORTED, "model ''"},
        {"{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", WEFT_FORMAT, "'vocab' of the model"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", WEFT_FORMAT, "'merges' of the model"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", WEFT_FORMAT,
         "an id is"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}", WEFT_FORMAT,
         "id 1 names both 'a' and 'b'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0061\":1},\"merges\":[]}}",
         WEFT_FORMAT, "the vocabulary has 'a' twice, as 0 and 1"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,},\"merges\":[]}}", WEFT_FORMAT,
         "no value at byte 38"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"merges\":[]}}",
         WEFT_FORMAT, "duplicate"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\",\"a\"]]}}",
         WEFT_FORMAT, "merge 0 is not a pair"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", WEFT_FORMAT,
         "merge 0 is not a pair"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]}}", WEFT_FORMAT,
         "merge 0 is not a pair"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", WEFT_FORMAT,
         "merge 0 is not a pair"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}}", WEFT_FORMAT,
         "merge 0 is not a pair"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", WEFT_FORMAT,
         "'aa' of merge 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"dropout\":0.1}}",
         WEFT_UNSUPPORTED, "'dropout'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"unk_token\":7}}", WEFT_FORMAT,
         "unk_token is integer"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) expect_refused(CASES[i].members, &CASES[i]);
}

/* An added token that the model spells too has the model's id. */
static void test_added_ids(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    weft_error err = {0};
    static const char TEXT[] = "{" MODEL ",\"added_tokens\":[{\"content\":\"ab\",\"id\":9},"
                               "{\"content\":\"<s>\",\"id\":5,\"special\":true}]}";
    assert_ok(parse(TEXT, &t, &err), &err);
    assert_int_equal(tokenizer_find(t, str_of("ab")), 2);
    assert_int_equal(tokenizer_find(t, str_of("<s>")), 5);
    assert_int_equal(tokenizer_n_vocab(t), 6);
    assert_true(str_equal_text(tokenizer_token(t, 4), ""));
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stages), cmocka_unit_test(test_models),
                                       cmocka_unit_test(test_added_ids)};
    return TEST_RUN("tokenizer/load_json", tests);
}
