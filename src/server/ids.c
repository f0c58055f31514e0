/* ids.c - token ids, of texts, of conversations and of JSON. */
#include "server/ids.h"

#include <string.h>

#include "base/mem.h"

/* What ids are made of. */
typedef struct source {
    const weft_model *model;
    str text;             /* unless messages */
    const char *messages; /* NULL: it is a text */
    const char *tools;
    uint32_t flags;
} source;

static weft_status give(const source *s, int32_t *ids, size_t capacity, size_t *n_ids,
                        weft_error *err)
{
    if (s->messages != NULL) {
        return weft_chat_tokenize(s->model, s->messages, s->tools, s->flags, ids, capacity, n_ids,
                                  err);
    }
    return weft_tokenize(s->model, s->text.ptr, s->text.len, s->flags, ids, capacity, n_ids, err);
}

/* From room for more than there are to room for as many. */
static weft_status fit(int32_t *ids, size_t capacity, size_t n, int32_t **out, weft_error *err)
{
    if (n == capacity) {
        *out = ids;
        return WEFT_OK;
    }
    if (n > 0) *out = mem_resize(mem_system(), ids, capacity * sizeof *ids, n * sizeof *ids);
    if (*out != NULL) return WEFT_OK;
    mem_free(mem_system(), ids, capacity * sizeof *ids);
    return n == 0 ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for %zu tokens", n);
}

/* capacity: at first; it is tried again with what is needed. */
static weft_status make(const source *s, size_t capacity, int32_t **out, size_t *n_ids,
                        weft_error *err)
{
    weft_error failure = {WEFT_OK, ""};
    size_t n = 0;
    *out = NULL;
    *n_ids = 0;
    int32_t *ids = mem_alloc(mem_system(), capacity * sizeof *ids);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu tokens", capacity);
    weft_status status = give(s, ids, capacity, &n, &failure);
    if (status == WEFT_OK) status = fit(ids, capacity, n, out, err);
    if (status == WEFT_OK) *n_ids = n;
    if (failure.status == WEFT_OK) return status;
    mem_free(mem_system(), ids, capacity * sizeof *ids);
    if (status == WEFT_LIMIT && n > capacity) return make(s, n, out, n_ids, err);
    return err_set(err, status, "%s", failure.message);
}

weft_status ids_of_text(const weft_model *model, str text, uint32_t flags, int32_t **ids,
                        size_t *n_ids, weft_error *err)
{
    source s = {.model = model, .text = text, .flags = flags};
    return make(&s, text.len + 8, ids, n_ids, err);
}

weft_status ids_of_chat(const weft_model *model, const char *messages, const char *tools,
                        uint32_t flags, int32_t **ids, size_t *n_ids, weft_error *err)
{
    source s = {.model = model, .messages = messages, .tools = tools, .flags = flags};
    return make(&s, strlen(messages) + 8, ids, n_ids, err);
}

weft_status ids_read(const json *array, const char *name, size_t most, int32_t **ids, size_t *n_ids,
                     char *param, weft_error *err)
{
    size_t n = json_length(array);
    *ids = NULL;
    *n_ids = 0;
    if (json_kind_of(array) != JSON_KIND_ARRAY)
        return field_wrong(param, name, err, "is no array of tokens");
    if (n > most)
        return field_wrong(param, name, err, "has %zu tokens, at most %zu can be", n, most);
    if (n == 0) return WEFT_OK;
    int32_t *made = mem_alloc(mem_system(), n * sizeof *made);
    if (made == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_at(array, i), -1);
        if (id < 0 || id > INT32_MAX) {
            mem_free(mem_system(), made, n * sizeof *made);
            return field_wrong(param, name, err, "has what is no token at %zu", i);
        }
        made[i] = (int32_t)id;
    }
    *ids = made;
    *n_ids = n;
    return WEFT_OK;
}
