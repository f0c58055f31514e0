/* test_charsmap.c - character maps whose bytes were made up. Maps as they should be are
 * compared with Hugging Face's and SentencePiece's in test_kinds.c. */
#include "tokenizer/charsmap.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

static void test_refusals(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *message;
    } CASES[] = {
        {"\0", 1, "a character map of 1 bytes"},
        {"\4\0\0\0\0\0\0", 7, "has an array of 4"},
        {"\5\0\0\0\0\0\0\0\0\0", 10, "has an array of 5"},
        {"\377\377\377\377\0\0\0\0\0", 9, "has an array of 4294967295"},
        {"\4\0\0\0\0\0\0\0", 8, "the texts of a character map have no end"},
        {"\4\0\0\0\0\0\0\0a", 9, "the texts of a character map have no end"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        charsmap m;
        weft_error err = {0};
        str blob = {CASES[i].bytes, CASES[i].n};
        assert_status(WEFT_FORMAT, charsmap_open(&m, blob, &err), &err);
        assert_message(&err, CASES[i].message);
    }
}

/* Any numbers in the array: nothing outside it is read, and what comes out is text. */
static void test_random_maps(void **state)
{
    static const char TEXT[] = "abc \xc3\xa9 e\xcc\x81 \r\n \xe2\x96\x81\xf0\x9f\xa7\x91 zz";
    enum { UNITS = 64, TEXTS = 16 };
    (void)state;
    uint64_t seed = 1;
    for (size_t round = 0; round < 2000; round++) {
        unsigned char blob[4 + UNITS * 4 + TEXTS] = {UNITS * 4 % 256, UNITS * 4 / 256};
        for (size_t i = 4; i + 1 < sizeof blob; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            blob[i] = (unsigned char)(seed >> 56);
            if (i % 4 == 3 && i < 4 + UNITS * 4) blob[i] = 0; /* numbers that may be in the array */
        }
        charsmap m;
        strbuf out;
        weft_error err = {0};
        strbuf_init(&out, mem_system(), 0);
        assert_ok(charsmap_open(&m, (str){(const char *)blob, sizeof blob}, &err), &err);
        assert_ok(charsmap_longest(&m, str_of(TEXT), &out), NULL);
        assert_ok(charsmap_graphemes(&m, str_of(TEXT), &out), NULL);
        assert_true(utf8_valid(strbuf_text(&out), out.len));
        strbuf_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_random_maps)};
    return TEST_RUN("tokenizer/charsmap", tests);
}
