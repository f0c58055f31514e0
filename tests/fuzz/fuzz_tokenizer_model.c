/* fuzz_tokenizer_model.c - the bytes of a tokenizer.model or a vocabulary of tiktoken, with a text
 * to encode. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/detok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char TEXT[] =
    " the a  ab'll 12 \n\n\xc3\xa9 e\xcc\x81<s></s> <mask>\xe2\x96\x81\xf0\x9f\xa7\x91 ";

static void use(const tokenizer *t)
{
    token_list list;
    detok d;
    str part;
    token_list_init(&list, mem_system());
    detok_init(&d, t, mem_system(), true);
    weft_status status = tokenizer_encode(t, str_of(TEXT), TOKENIZER_SPECIALS, &list, NULL);
    for (size_t i = 0; i < list.len && status == WEFT_OK; i++) {
        ASSERT((uint32_t)list.ids[i] < tokenizer_n_vocab(t));
        status = detok_push(&d, list.ids[i], &part, NULL);
        ASSERT(utf8_valid(part.ptr, part.len));
    }
    if (status == WEFT_OK) status = detok_flush(&d, &part, NULL);
    if (status == WEFT_OK) ASSERT(utf8_valid(part.ptr, part.len));
    detok_deinit(&d);
    token_list_deinit(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    env world = {mem_system(), io_system(), NULL};
    tokenizer *t = NULL;
    weft_error err = {0};
    char *bytes = malloc(size == 0 ? 1 : size);
    if (bytes == NULL) exit(1);
    if (size != 0) memcpy(bytes, data, size);
    weft_status status = tokenizer_parse_model(&world, (str){bytes, size}, "llama3", &t, &err);
    ASSERT(status == err.status && (status == WEFT_OK) == (t != NULL));
    if (t != NULL) use(t);
    tokenizer_destroy(t);
    free(bytes);
    return 0;
}
