/* token_list.c - a growing list of ids. */
#include "tokenizer/token_list.h"

#include <string.h>

void token_list_init(token_list *list, const weft_allocator *allocator)
{
    *list = (token_list){.allocator = allocator};
}

void token_list_deinit(token_list *list)
{
    if (list == NULL) return;
    mem_free(list->allocator, list->ids, list->capacity * sizeof *list->ids);
    *list = (token_list){.allocator = list->allocator};
}

static weft_status reserve(token_list *list, size_t extra, weft_error *err)
{
    size_t need;
    size_t bytes;
    if (!size_add(list->len, extra, &need) || need > SIZE_MAX / 16)
        return err_set(err, WEFT_LIMIT, "a list of more than %zu ids cannot be counted", list->len);
    if (need <= list->capacity) return WEFT_OK;
    size_t capacity = list->capacity < 32 ? 64 : list->capacity * 2;
    if (capacity < need) capacity = need;
    bytes = capacity * sizeof *list->ids;
    int32_t *ids =
        mem_resize(list->allocator, list->ids, list->capacity * sizeof *list->ids, bytes);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu token ids", capacity);
    list->ids = ids;
    list->capacity = capacity;
    return WEFT_OK;
}

weft_status token_list_add(token_list *list, int32_t id, weft_error *err)
{
    if (list->len == list->capacity) {
        weft_status status = reserve(list, 1, err);
        if (status != WEFT_OK) return status;
    }
    list->ids[list->len++] = id;
    return WEFT_OK;
}

weft_status token_list_add_all(token_list *list, const int32_t *ids, size_t n_ids, weft_error *err)
{
    if (n_ids == 0) return WEFT_OK;
    weft_status status = reserve(list, n_ids, err);
    if (status != WEFT_OK) return status;
    memcpy(list->ids + list->len, ids, n_ids * sizeof *ids);
    list->len += n_ids;
    return WEFT_OK;
}
