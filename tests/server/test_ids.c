/* test_ids.c - token ids of JSON; those of texts are asked for in test_apis.py. */
#include "server/ids.h"
#include "support/test.h"

#include <string.h>

#include "base/mem.h"

static weft_status read(const char *text, size_t most, int32_t **ids, size_t *n, weft_error *err)
{
    json_doc doc;
    char param[FIELD_NAME_BYTES] = "";
    *err = (weft_error){WEFT_OK, ""};
    assert_int_equal(json_parse(&doc, text, strlen(text), NULL), WEFT_OK);
    weft_status status = ids_read(doc.root, "stop_token_ids", most, ids, n, param, err);
    if (status != WEFT_OK) assert_string_equal(param, "stop_token_ids");
    json_doc_free(&doc);
    return status;
}

static void test_good(void **state)
{
    (void)state;
    static const int32_t EXPECTED[] = {0, 5, INT32_MAX};
    int32_t *ids;
    size_t n;
    weft_error err;
    assert_int_equal(read("[0, 5, 2147483647]", 3, &ids, &n, &err), WEFT_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(ids, EXPECTED, sizeof EXPECTED);
    mem_free(mem_system(), ids, n * sizeof *ids);
    assert_int_equal(read("[]", 3, &ids, &n, &err), WEFT_OK);
    assert_null(ids);
    assert_int_equal(n, 0);
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } BAD[] = {{"{}", "no array"},
               {"null", "no array"},
               {"[-1]", "at 0"},
               {"[1, 2147483648]", "at 1"},
               {"[1, 1.0]", "at 1"},
               {"[\"1\"]", "at 0"},
               {"[1, 2, 3, 4]", "4 tokens, at most 3"}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        int32_t *ids;
        size_t n;
        weft_error err;
        assert_int_equal(read(BAD[i].text, 3, &ids, &n, &err), WEFT_ARGUMENT);
        assert_message(&err, BAD[i].says);
        assert_null(ids);
        assert_int_equal(n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};
    return TEST_RUN("server/ids", tests);
}
