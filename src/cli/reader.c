/* reader.c - a request that gives its prompt's logits in pieces. */
#include "cli/reader.h"

#include "base/assert.h"
#include "base/mem.h"

/* Numbers of a piece: of 32 MiB, at most CHUNK rows. */
enum { PIECE_NUMBERS = 8 << 20, CHUNK = 128 };

static size_t piece_bytes(const reader *r)
{
    return (size_t)r->n_rows * r->n_vocab * sizeof(float);
}

weft_status reader_open(reader *r, const session *s, const session_values *values, const char *kv,
                        uint32_t context, weft_error *err)
{
    *r = (reader){.n_vocab = s->info.n_vocab};
    uint32_t rows = PIECE_NUMBERS / r->n_vocab;
    if (rows > CHUNK) rows = CHUNK;
    r->n_rows = rows == 0 ? 1 : rows;
    session one = *s;
    session_values own = *values;
    if (kv != NULL) own.kv = kv;
    own.context = context;
    session_plan plan = {
        .max_sequences = 1, .chunk_tokens = r->n_rows, .max_outputs = r->n_rows, .no_cache = true};
    one.engine = NULL;
    weft_status status = session_open_engine(&one, &own, &plan, err);
    if (status != WEFT_OK) return status;
    r->engine = one.engine;
    r->info = (weft_engine_info){.struct_size = sizeof r->info};
    status = weft_engine_get_info(r->engine, &r->info, err);
    if (status != WEFT_OK) return status;
    r->logits = mem_alloc(mem_system(), piece_bytes(r));
    if (r->logits != NULL) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for %u rows of %u logits", r->n_rows,
                   r->n_vocab);
}

void reader_close(reader *r)
{
    weft_engine_close(r->engine);
    mem_free(mem_system(), r->logits, piece_bytes(r));
    *r = (reader){0};
}

weft_status reader_begin(reader *r, const int32_t *ids, uint32_t n_ids, weft_error *err)
{
    if (r->handle != 0) weft_release(r->engine, r->handle, NULL);
    r->handle = 0;
    r->first = r->end = 0;
    weft_request request = {.struct_size = sizeof request,
                            .flags = WEFT_REQUEST_IGNORE_STOP,
                            .prompt = ids,
                            .n_prompt = n_ids,
                            .sampling = {.top_p = 1.0F},
                            .prompt_logits = r->logits,
                            .prompt_logits_rows = r->n_rows};
    return weft_submit(r->engine, &request, &r->handle, err);
}

weft_status reader_next(reader *r, weft_error *err)
{
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        weft_status status = weft_poll(r->engine, r->handle, &event, err);
        if (status != WEFT_OK) return status;
        if (event.kind == WEFT_EVENT_LOGITS) {
            ASSERT(event.first == r->end);
            r->first = event.first;
            r->end = event.first + event.n_rows;
            return WEFT_OK;
        }
        if (event.kind == WEFT_EVENT_DONE) {
            ASSERT(event.finish == WEFT_FINISH_ERROR);
            return err_set(err, event.error.status, "%s", event.error.message);
        }
        status = weft_step(r->engine, NULL, err);
        if (status != WEFT_OK) return status;
    }
}

const float *reader_row(const reader *r, uint32_t i)
{
    ASSERT(i >= r->first && i < r->end);
    return r->logits + (size_t)(i - r->first) * r->n_vocab;
}
