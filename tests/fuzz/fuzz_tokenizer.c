/* fuzz_tokenizer.c - the text of a tokenizer.json, then, behind a NUL, a text to encode and
 * decode. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/detok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char DEFAULT_TEXT[] =
    "a ab  abc'll 12 \n\n\xc3\xa9 e\xcc\x81<s></s> ABab\xf0\x9f\xa7\x91";

static char *copy(const char *from, size_t n)
{
    char *to = malloc(n == 0 ? 1 : n);
    if (to == NULL) exit(1);
    if (n != 0) memcpy(to, from, n);
    return to;
}

/* Streamed text is valid UTF-8, and so is all of it. */
static void decode(const tokenizer *t, const token_list *list)
{
    detok d;
    str part;
    detok_init(&d, t, mem_system(), true);
    for (size_t i = 0; i < list->len; i++) {
        if (detok_push(&d, list->ids[i], &part, NULL) != WEFT_OK) break;
        ASSERT(utf8_valid(part.ptr, part.len));
        ASSERT((uint32_t)list->ids[i] < tokenizer_n_vocab(t));
    }
    if (detok_flush(&d, &part, NULL) == WEFT_OK) ASSERT(utf8_valid(part.ptr, part.len));
    detok_deinit(&d);
}

static void encode(const tokenizer *t, str text)
{
    for (uint32_t flags = 0; flags < 4; flags++) {
        token_list list;
        weft_error err = {0};
        token_list_init(&list, mem_system());
        weft_status status = tokenizer_encode(t, text, flags, &list, &err);
        ASSERT(status == err.status);
        ASSERT(status == WEFT_OK || list.len == 0);
        if (status == WEFT_OK) decode(t, &list);
        token_list_deinit(&list);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size == 0 ? NULL : memchr(data, 0, size);
    size_t n_json = end == NULL ? size : (size_t)(end - data);
    size_t n_text = end == NULL ? 0 : size - n_json - 1;
    if (n_text > 4096) n_text = 4096;
    char *json_text = copy((const char *)data, n_json);
    char *text = n_text == 0 ? copy("", 0) : copy((const char *)end + 1, n_text);
    env world = {mem_system(), io_system(), NULL};
    tokenizer *t = NULL;
    weft_error err = {0};
    weft_status status = tokenizer_parse(&world, json_text, n_json, &t, &err);
    ASSERT(status == err.status && (status == WEFT_OK) == (t != NULL));
    if (t != NULL) {
        encode(t, str_of(DEFAULT_TEXT));
        encode(t, (str){text, n_text});
    }
    tokenizer_destroy(t);
    free(text);
    free(json_text);
    return 0;
}
