/* vectors.c - requests for vectors. */
#include "support/vectors.h"

#include <stdlib.h>
#include <string.h>

/* What was there before; nobody may leave it. */
enum { UNWRITTEN = 0x7f };

static void submit(weft_engine *engine, const weft_model *model, vectors *v)
{
    weft_error err = {WEFT_OK, ""};
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, &err), &err);
    v->cols = v->n_embedding > 0 ? v->n_embedding : info.n_embd;
    size_t bytes = (size_t)v->n_prompt * v->cols * sizeof *v->rows;
    v->rows = malloc(bytes);
    if (v->rows == NULL) fail_msg("out of memory");
    memset(v->rows, UNWRITTEN, bytes);
    weft_request r = {.struct_size = sizeof r,
                      .flags = v->flags,
                      .prompt = v->prompt,
                      .n_prompt = v->n_prompt,
                      .sampling = {.top_p = 1.0F},
                      .kv = v->kv,
                      .embedding = v->rows,
                      .n_embedding = v->n_embedding,
                      .pooling = v->pooling,
                      .normalize = v->normalize};
    assert_ok(weft_submit(engine, &r, &v->handle, &err), &err);
}

/* One event EMBEDDING, then DONE, then nothing; not a number behind the vectors is touched. */
static void collect(weft_engine *engine, vectors *v)
{
    weft_error err = {WEFT_OK, ""};
    weft_event event = {.struct_size = sizeof event};
    assert_ok(weft_poll(engine, v->handle, &event, &err), &err);
    assert_int_equal(event.kind, WEFT_EVENT_EMBEDDING);
    v->n_rows = event.n_rows;
    v->n_cached = event.n_cached;
    assert_int_equal(v->n_rows, v->pooling == WEFT_POOLING_TOKENS ? v->n_prompt : 1);
    assert_ok(weft_poll(engine, v->handle, &event, &err), &err);
    assert_int_equal(event.kind, WEFT_EVENT_DONE);
    assert_int_equal(event.finish, WEFT_FINISH_LENGTH);
    assert_ok(weft_poll(engine, v->handle, &event, &err), &err);
    assert_int_equal(event.kind, WEFT_EVENT_NONE);
    assert_ok(weft_release(engine, v->handle, &err), &err);
    unsigned char unwritten[sizeof(float)];
    memset(unwritten, UNWRITTEN, sizeof unwritten);
    for (size_t i = 0; i < (size_t)v->n_prompt * v->cols; i++) {
        bool written = memcmp(&v->rows[i], unwritten, sizeof unwritten) != 0;
        if (written != (i < (size_t)v->n_rows * v->cols))
            fail_msg("number %zu of %u rows", i, v->n_rows);
    }
}

void vectors_run(weft_engine *engine, const weft_model *model, vectors *texts, size_t n)
{
    weft_error err = {WEFT_OK, ""};
    for (size_t i = 0; i < n; i++) submit(engine, model, &texts[i]);
    uint32_t n_active = 1;
    while (n_active > 0) assert_ok(weft_step(engine, &n_active, &err), &err);
    for (size_t i = 0; i < n; i++) collect(engine, &texts[i]);
}

void vectors_free(vectors *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(texts[i].rows);
        texts[i].rows = NULL;
    }
}

void vectors_assert_same(const vectors *a, const vectors *b, const char *what)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->cols, b->cols);
    for (size_t i = 0; i < (size_t)a->n_rows * a->cols; i++) {
        if (memcmp(&a->rows[i], &b->rows[i], sizeof(float)) == 0) continue;
        fail_msg("%s: vector %zu, number %zu: %.9g and %.9g", what, i / a->cols, i % a->cols,
                 (double)a->rows[i], (double)b->rows[i]);
    }
}
