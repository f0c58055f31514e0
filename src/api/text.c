/* text.c - weft_tokenize, weft_detokenizer_*. */
#include <string.h>

#include "api/api.h"

struct weft_detokenizer {
    const weft_model *model;
    detok detok;
};

static weft_status need_tokenizer(const weft_model *model, weft_error *err)
{
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    if (model->tokenizer != NULL) return WEFT_OK;
    return err_set(err, model->tokenizer_error.status, "%s", model->tokenizer_error.message);
}

weft_status api_give_ids(const token_list *list, int32_t *ids, size_t capacity, size_t *n_ids,
                         weft_error *err)
{
    *n_ids = list->len;
    if (list->len > capacity) {
        return err_set(err, WEFT_LIMIT, "%zu ids do not fit into %zu", list->len, capacity);
    }
    if (list->len > 0) memcpy(ids, list->ids, list->len * sizeof *ids);
    return WEFT_OK;
}

weft_status weft_tokenize(const weft_model *model, const char *text, size_t n_bytes, uint32_t flags,
                          int32_t *ids, size_t capacity, size_t *n_ids, weft_error *err)
{
    err_clear(err);
    if (n_ids == NULL) return err_set(err, WEFT_ARGUMENT, "n_ids is NULL");
    *n_ids = 0;
    weft_status status = need_tokenizer(model, err);
    if (status != WEFT_OK) return status;
    if ((text == NULL && n_bytes > 0) || (ids == NULL && capacity > 0)) {
        return err_set(err, WEFT_ARGUMENT, "%s is NULL",
                       text == NULL && n_bytes > 0 ? "text" : "ids");
    }
    if ((flags & ~(uint32_t)(WEFT_TOKENIZE_PLAIN | WEFT_TOKENIZE_SPECIALS)) != 0) {
        return err_set(err, WEFT_ARGUMENT, "unknown flags %x", flags);
    }
    uint32_t how = 0;
    if ((flags & WEFT_TOKENIZE_PLAIN) != 0) how |= TOKENIZER_PLAIN;
    if ((flags & WEFT_TOKENIZE_SPECIALS) != 0) how |= TOKENIZER_SPECIALS;
    token_list list;
    token_list_init(&list, model->env.allocator);
    status = tokenizer_encode(model->tokenizer, (str){text, n_bytes}, how, &list, err);
    if (status == WEFT_OK) status = api_give_ids(&list, ids, capacity, n_ids, err);
    token_list_deinit(&list);
    return status;
}

weft_status weft_token_bytes(const weft_model *model, int32_t id, char *bytes, size_t capacity,
                             size_t *n_bytes, weft_error *err)
{
    err_clear(err);
    if (n_bytes == NULL) return err_set(err, WEFT_ARGUMENT, "n_bytes is NULL");
    *n_bytes = 0;
    weft_status status = need_tokenizer(model, err);
    if (status != WEFT_OK) return status;
    if (bytes == NULL && capacity > 0) return err_set(err, WEFT_ARGUMENT, "bytes is NULL");
    strbuf text;
    strbuf_init(&text, model->env.allocator, 0);
    status = tokenizer_bytes(model->tokenizer, id, true, &text);
    if (status != WEFT_OK) {
        err_set(err, status, "out of memory for a token's bytes");
    } else if (text.len > capacity) {
        *n_bytes = text.len;
        status = err_set(err, WEFT_LIMIT, "%zu bytes do not fit into %zu", text.len, capacity);
    } else {
        *n_bytes = text.len;
        if (text.len > 0) memcpy(bytes, text.ptr, text.len);
    }
    strbuf_deinit(&text);
    return status;
}

weft_status weft_detokenizer_create(const weft_model *model, uint32_t flags, weft_detokenizer **out,
                                    weft_error *err)
{
    err_clear(err);
    if (out == NULL) return err_set(err, WEFT_ARGUMENT, "detokenizer is NULL");
    *out = NULL;
    weft_status status = need_tokenizer(model, err);
    if (status != WEFT_OK) return status;
    if ((flags & ~(uint32_t)WEFT_DETOKENIZE_SPECIALS) != 0) {
        return err_set(err, WEFT_ARGUMENT, "unknown flags %x", flags);
    }
    weft_detokenizer *d = mem_alloc_zero(model->env.allocator, sizeof *d);
    if (d == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a detokenizer");
    d->model = model;
    detok_init(&d->detok, model->tokenizer, model->env.allocator,
               (flags & WEFT_DETOKENIZE_SPECIALS) != 0);
    *out = d;
    return WEFT_OK;
}

static weft_status give_text(weft_status status, str piece, const char **text, size_t *n_bytes)
{
    *text = status == WEFT_OK && piece.ptr != NULL ? piece.ptr : "";
    *n_bytes = status == WEFT_OK ? piece.len : 0;
    return status;
}

weft_status weft_detokenizer_push(weft_detokenizer *d, int32_t id, const char **text,
                                  size_t *n_bytes, weft_error *err)
{
    err_clear(err);
    if (d == NULL || text == NULL || n_bytes == NULL)
        return err_set(err, WEFT_ARGUMENT, "an argument is NULL");
    str piece = {NULL, 0};
    return give_text(detok_push(&d->detok, id, &piece, err), piece, text, n_bytes);
}

weft_status weft_detokenizer_flush(weft_detokenizer *d, const char **text, size_t *n_bytes,
                                   weft_error *err)
{
    err_clear(err);
    if (d == NULL || text == NULL || n_bytes == NULL)
        return err_set(err, WEFT_ARGUMENT, "an argument is NULL");
    str piece = {NULL, 0};
    return give_text(detok_flush(&d->detok, &piece, err), piece, text, n_bytes);
}

void weft_detokenizer_destroy(weft_detokenizer *d)
{
    if (d == NULL) return;
    detok_deinit(&d->detok);
    mem_free(d->model->env.allocator, d, sizeof *d);
}
