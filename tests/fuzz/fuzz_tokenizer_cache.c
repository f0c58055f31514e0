/* fuzz_tokenizer_cache.c - a file of the tokenizer's cache, whose checksum and key are made right
 * first, then a few texts through what came of it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/cache.h"
#include "tokenizer/detok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const TEXTS[] = {
    "a ab  abc'll 12 \n\n\xc3\xa9 e\xcc\x81<s></s> ABab\xf0\x9f\xa7\x91", "<s>ab <tool>abcd [X] ?",
    "ababababababababababababababababababababababababababababababababababababab"};

static void unmap(const io *files, io_map *file)
{
    (void)files;
    free(file->handle);
    *file = (io_map){0};
}

/* Streamed text is valid UTF-8 whatever the tokens stand for. */
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

static void use(const tokenizer *t)
{
    for (uint32_t i = 0; i < 4 * COUNT_OF(TEXTS); i++) {
        token_list list;
        weft_error err = {0};
        token_list_init(&list, mem_system());
        weft_status status = tokenizer_encode(t, str_of(TEXTS[i / 4]), i % 4, &list, &err);
        ASSERT(status == err.status);
        if (status == WEFT_OK) decode(t, &list);
        token_list_deinit(&list);
    }
    for (uint32_t id = 0; id < tokenizer_n_vocab(t) && id < 1000; id++) {
        int32_t found = tokenizer_find(t, tokenizer_token(t, (int32_t)id));
        ASSERT(found >= -1 && found < (int32_t)tokenizer_n_vocab(t));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cache_key key = {1, {2, 3}};
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) exit(1);
    if (size != 0) memcpy(copy, data, size);
    if (size >= sizeof(cache_head)) {
        cache_head mine;
        cache_head_fill(&mine, &key);
        memcpy(copy, &mine, offsetof(cache_head, kind));
        memcpy(copy + offsetof(cache_head, key), &key, sizeof key);
        uint64_t sum = cache_checksum(copy, size);
        memcpy(copy + offsetof(cache_head, checksum), &sum, sizeof sum);
    }
    io files = *io_system();
    files.unmap = unmap;
    env world = {mem_system(), &files, NULL};
    io_map file = {.data = copy, .size = size, .handle = copy};
    tokenizer *t = NULL;
    weft_error err = {0};
    weft_status status = cache_load(&world, &file, &key, &t, &err);
    ASSERT(status == err.status && (status == WEFT_OK) == (t != NULL));
    if (status != WEFT_OK) {
        free(copy);
        return 0;
    }
    use(t);
    tokenizer_destroy(t);
    return 0;
}
