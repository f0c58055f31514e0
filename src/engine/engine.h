/* engine.h - many requests, one step. The functions behind weft.h's engine part: they check, api/
 * adds what the public interface promises about structs. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "backend/experts.h"
#include "engine/drafters/drafter.h"
#include "engine/media.h"
#include "grammar/grammar.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"

/* Effective options: nothing is 0 that must not be. */
typedef struct engine_options {
    const char *backend, *isa, *kv;
    weft_act act;
    uint32_t n_threads, context, max_sequences, chunk_tokens, max_outputs;
    uint32_t max_drafts; /* at most DRAFTS_MOST; 0: none */
    uint32_t max_image_tokens;
    uint64_t memory_bytes;      /* 0: as weft.h says */
    uint64_t cache_bytes;       /* 0: what memory_bytes leaves */
    uint64_t expert_bytes;      /* experts are streamed through so many; 0: they are not */
    const tokenizer *tokenizer; /* borrowed; NULL: none, for the reason that may stand beside it */
    const weft_error *tokenizer_error;
    bool no_cache;
    bool draft_head;        /* sequences carry the head's state, and requests may draft by it */
    const llm *draft_model; /* borrowed; NULL: none */
    const char *draft_kv;   /* as kv, of its state; NULL: dense */
    uint64_t draft_memory_bytes; /* 0: as weft.h says */
    const char *state_dir;       /* borrowed until it is open; NULL: none */
    uint64_t state_dir_bytes;    /* as weft.h says */
} engine_options;

/* What experts take, streamed; all zero where a model has none. */
experts_size engine_experts_size(const llm *m);

struct weft_grammar {
    env env;
    const llm *model; /* whose tokens it is made of */
    grammar *rules;
};

/* Requests that may wait or be unreleased at once. */
enum { ENGINE_REQUESTS = 65536 };

weft_status engine_open(const llm *m, const engine_options *options, weft_engine **out,
                        weft_error *err);
void engine_close(weft_engine *e);

/* Bytes of state that an engine opened so promises a request of n_positions. */
weft_status engine_state_bytes(const llm *m, const engine_options *options, uint32_t n_positions,
                               uint64_t *n_bytes, weft_error *err);

weft_status engine_submit(weft_engine *e, const weft_request *from, weft_handle *handle,
                          weft_error *err);
/* The same with a drafter that is no row of the table, whatever from->draft says: state is what its
 * propose is given, borrowed until the request is released, and its other functions are not called.
 * For tests. */
weft_status engine_submit_drafted(weft_engine *e, const weft_request *from,
                                  const engine_drafter *drafter, void *state, weft_handle *handle,
                                  weft_error *err);
const weft_allocator *engine_allocator(const weft_engine *e);

/* The size an image comes to, and its tokens. */
weft_status engine_image_info(const weft_engine *e, uint32_t width, uint32_t height,
                              weft_image_info *info, weft_error *err);
weft_status engine_step(weft_engine *e, uint32_t *n_active, weft_error *err);
weft_status engine_poll(weft_engine *e, weft_handle handle, weft_event *event, weft_error *err);
weft_status engine_cancel(weft_engine *e, weft_handle handle, weft_error *err);
weft_status engine_release(weft_engine *e, weft_handle handle, weft_error *err);

void engine_drop_cache(weft_engine *e);
weft_status engine_state_save(weft_engine *e, const int32_t *tokens, uint32_t n, const char *path,
                              uint32_t *n_saved, weft_error *err);
weft_status engine_state_restore(weft_engine *e, const char *path, weft_restored *out,
                                 weft_error *err);
void engine_info(const weft_engine *e, weft_engine_info *info);
weft_status engine_trace(weft_engine *e, bool on, weft_error *err);
/* Part i; returns how many there are. */
uint32_t engine_trace_part(const weft_engine *e, uint32_t i, weft_trace_part *part);
weft_status engine_measure_read(weft_engine *e, uint64_t n_bytes, double *bytes_per_second,
                                weft_error *err);

#endif
