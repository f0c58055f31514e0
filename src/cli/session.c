/* session.c - opening what the options name. */
#include "cli/session.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/bytes.h"
#include "cli/cache.h"
#include "cli/place.h"

#define AT(field) offsetof(session_values, field)

static const option_row ENGINE_ROWS[] = {
    {"threads", OPTION_COUNT, AT(threads), "N", "compute threads (default: one per processor)", 1,
     256, NULL},
    {"backend", OPTION_CHOICE, AT(backend), "NAME",
     "cpu, or ref: every operation plainly, slow, to compare with (default: cpu)", 0, 0, "cpu|ref"},
    {"isa", OPTION_CHOICE, AT(isa), "NAME",
     "generic, avx2, avx512 or avx512bf16 (default: the best this processor has)", 0, 0,
     "generic|avx2|avx512|avx512bf16"},
    {"act", OPTION_CHOICE, AT(act), "TYPE",
     "what the input of a linear layer is rounded to: bf16, f32, or int8: 8 bits where weights are "
     "integer codes, else bf16 (default: bf16; embed: f32)",
     0, 0, SESSION_ACTS},
    {"kv", OPTION_TEXT, AT(kv), "SPEC",
     "how keys and values are stored: f32, f16, bf16, affineNgM (N 4 or 8; M 32, 64 or 128), q8_0, "
     "turbo-kAvB (A 2, 4, 5 or 8; B 2, 3, 4, 5 or 8), or k=NAME,v=NAME with tkA for keys and tvB "
     "for values; with ,index=NAME for the keys of an index, which are in --act's type else; with "
     ",start=N in --act's type until a conversation has N tokens; with ,LAYERS=NAME, "
     "LAYERS.k=NAME or LAYERS.v=NAME otherwise in some layers, from 0 or, with -, from the end: 5, "
     "0..1, -2..-1 (default: as --act)",
     0, 0, NULL},
    {"memory", OPTION_BYTES, AT(memory), "BYTES",
     "budget for keys and values, such as 512M or 2G (default: what the context needs, at least "
     "1G)",
     0, 0, NULL},
    SESSION_EXPERTS_ROW(AT(experts)),
};

static const option_row CONTEXT_ROWS[] = {
    {"context", OPTION_COUNT, AT(context), "N",
     "most tokens of prompt and answer together (default: what the model was made for, at most "
     "8192)",
     1, 1 << 30, NULL},
};

static const option_row OPEN_ROWS[] = {
    {"no-cache", OPTION_FLAG, AT(no_cache), NULL,
     "neither reads nor writes what is kept of long tokenizers in $XDG_CACHE_HOME/weft or "
     "~/.cache/weft",
     0, 0, NULL},
};

option_set session_options(uint32_t set)
{
    if (set == SESSION_OPEN) return (option_set){OPEN_ROWS, COUNT_OF(OPEN_ROWS)};
    if (set == SESSION_ENGINE) return (option_set){ENGINE_ROWS, COUNT_OF(ENGINE_ROWS)};
    return (option_set){CONTEXT_ROWS, COUNT_OF(CONTEXT_ROWS)};
}

/* ---- model and engine ------------------------------------------------------------------------ */

static void log_line(void *user, weft_log_level level, const char *message)
{
    progress_clear(user);
    if (level == WEFT_LOG_WARN) report_note("%s", message);
}

static weft_status open_model(const session_values *values, const char *given, weft_model **model,
                              weft_error *err)
{
    char folder[CACHE_FOLDER_BYTES];
    char path[IO_PATH_BYTES];
    progress p = {.shown = false};
    weft_log sink = {&p, log_line};
    weft_model_options options = {.struct_size = sizeof options, .log = &sink};
    weft_status status = place_find_model(given, path, err);
    if (status != WEFT_OK) return status;
    if (!values->no_cache && cache_folder(path, folder)) options.cache_dir = folder;
    progress_show(&p, "loading %s", given);
    status = weft_model_open(path, &options, model, err);
    progress_clear(&p);
    return status;
}

weft_status session_open_model(session *s, const session_values *values, const char *path,
                               weft_error *err)
{
    uint64_t start = clock_now_ns();
    weft_status status = open_model(values, path, &s->model, err);
    if (status != WEFT_OK) return status;
    s->info = (weft_model_info){.struct_size = sizeof s->info};
    status = weft_model_get_info(s->model, &s->info, err);
    s->load_ms = (double)(clock_now_ns() - start) / 1e6;
    return status;
}

static weft_act act_of(const char *name)
{
    if (strcmp(name, "f32") == 0) return WEFT_ACT_F32;
    return strcmp(name, "int8") == 0 ? WEFT_ACT_INT8 : WEFT_ACT_BF16;
}

const char *session_kv(const session_values *values)
{
    if (values->kv != NULL) return values->kv;
    return act_of(values->act) == WEFT_ACT_F32 ? "f32" : "bf16";
}

weft_engine_options session_engine_options(const session_values *values)
{
    weft_engine_options options = {
        .struct_size = sizeof options,
        .backend = values->backend,
        .isa = values->isa,
        .kv = values->kv,
        .act = act_of(values->act),
        .n_threads = values->threads,
        .context = values->context,
        .memory_bytes = values->memory,
        .expert_bytes = values->experts,
    };
    return options;
}

/* What is to draft, into the options. */
static weft_status take_drafter(session *s, const session_values *values, const char *draft,
                                bool forced, weft_engine_options *options, weft_error *err)
{
    const char *name = draft != NULL ? session_drafter(draft) : NULL;
    if (name == NULL && !forced) options->max_drafts = WEFT_NO_DRAFTS;
    if (name == NULL || strcmp(name, "ngram") == 0) return WEFT_OK;
    if (strcmp(name, "mtp") == 0) {
        options->flags |= WEFT_ENGINE_MTP;
        return WEFT_OK;
    }
    weft_status status = open_model(values, draft, &s->drafting, err);
    options->draft_model = s->drafting;
    return status;
}

weft_status session_open_engine(session *s, const session_values *values, const session_plan *plan,
                                weft_error *err)
{
    uint64_t start = clock_now_ns();
    weft_engine_options options = session_engine_options(values);
    if (options.context == 0) options.context = plan->context;
    if (options.memory_bytes == 0) options.memory_bytes = plan->memory;
    options.max_sequences = plan->max_sequences;
    options.chunk_tokens = plan->chunk_tokens;
    options.max_outputs = plan->max_outputs;
    if (plan->no_cache) options.flags |= WEFT_ENGINE_NO_CACHE;
    /* What else is wrong with it the engine says. */
    if (plan->state_dir != NULL) cache_make(plan->state_dir);
    options.state_dir = plan->state_dir;
    options.state_dir_bytes = plan->state_dir_bytes;
    weft_status status = take_drafter(s, values, plan->draft, plan->forced, &options, err);
    if (status == WEFT_OK) status = weft_engine_open(s->model, &options, &s->engine, err);
    s->load_ms += (double)(clock_now_ns() - start) / 1e6;
    return status;
}

const char *session_drafter(const char *draft)
{
    static const char *const NAMES[] = {"ngram", "mtp"};
    if (strcmp(draft, "none") == 0) return NULL;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (strcmp(draft, NAMES[i]) == 0) return NAMES[i];
    }
    return "model";
}

void session_close(session *s)
{
    weft_engine_close(s->engine);
    weft_model_close(s->drafting);
    weft_model_close(s->model);
    id_list_deinit(&s->said);
    *s = (session){0};
}

static double percent(uint64_t part, uint64_t all)
{
    return all == 0 ? 0.0 : 100.0 * (double)part / (double)all;
}

void session_print_experts(const session *s, FILE *to)
{
    weft_engine_info info = {.struct_size = sizeof info};
    char memory[BYTES_TEXT];
    char bytes[BYTES_TEXT];
    if (weft_engine_get_info(s->engine, &info, NULL) != WEFT_OK || info.expert_bytes == 0) return;
    bytes_print_short(info.expert_bytes, memory);
    bytes_print_short(info.expert_bytes_read, bytes);
    fprintf(to,
            "[experts in %s: of %llu that tokens went to %.1f%% were there, of %llu read ahead "
            "%.1f%% were used; %s read]\n",
            memory, (unsigned long long)info.n_experts_used,
            percent(info.n_experts_there, info.n_experts_used),
            (unsigned long long)info.n_experts_ahead,
            percent(info.n_experts_ahead_used, info.n_experts_ahead), bytes);
}

void session_add_experts(const session *s, strbuf *out)
{
    weft_engine_info info = {.struct_size = sizeof info};
    if (weft_engine_get_info(s->engine, &info, NULL) != WEFT_OK || info.expert_bytes == 0) return;
    strbuf_printf(out, ",\"experts\":{\"bytes\":%llu,\"bytes_read\":%llu",
                  (unsigned long long)info.expert_bytes,
                  (unsigned long long)info.expert_bytes_read);
    strbuf_printf(out, ",\"used\":%llu,\"there\":%llu,\"ahead\":%llu,\"ahead_used\":%llu}",
                  (unsigned long long)info.n_experts_used, (unsigned long long)info.n_experts_there,
                  (unsigned long long)info.n_experts_ahead,
                  (unsigned long long)info.n_experts_ahead_used);
}

/* ---- ids ------------------------------------------------------------------------------------- */

void id_list_deinit(id_list *list)
{
    mem_free(mem_system(), list->ids, list->capacity * sizeof *list->ids);
    *list = (id_list){0};
}

static weft_status reserve(id_list *list, size_t capacity, weft_error *err)
{
    if (capacity <= list->capacity) return WEFT_OK;
    size_t bytes;
    int32_t *ids = NULL;
    if (size_mul(capacity, sizeof *ids, &bytes))
        ids = mem_resize(mem_system(), list->ids, list->capacity * sizeof *ids, bytes);
    if (ids == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu token ids", capacity);
    list->ids = ids;
    list->capacity = capacity;
    return WEFT_OK;
}

weft_status id_list_add(id_list *list, int32_t id, weft_error *err)
{
    if (list->n == list->capacity) {
        weft_status status = reserve(list, list->n < 32 ? 64 : 2 * list->n, err);
        if (status != WEFT_OK) return status;
    }
    list->ids[list->n++] = id;
    return WEFT_OK;
}

static weft_status tokenize_into(const session *s, str text, uint32_t flags, size_t capacity,
                                 id_list *list, weft_error *err)
{
    weft_status status = reserve(list, capacity, err);
    if (status != WEFT_OK) return status;
    return weft_tokenize(s->model, text.ptr, text.len, flags, list->ids, list->capacity, &list->n,
                         err);
}

weft_status session_tokenize(const session *s, str text, uint32_t flags, id_list *list,
                             weft_error *err)
{
    list->n = 0;
    weft_status status = tokenize_into(s, text, flags, text.len + 8, list, err);
    if (status != WEFT_LIMIT || list->n <= list->capacity) return status;
    /* A normalizer lengthened the text: n says how much room is needed. */
    err_clear(err);
    return tokenize_into(s, text, flags, list->n, list, err);
}

weft_status session_check_tokenizer(const session *s, weft_error *err)
{
    id_list ids = {0};
    weft_status status = session_tokenize(s, (str){"", 0}, 0, &ids, err);
    id_list_deinit(&ids);
    return status;
}

/* A template may add any amount of text, so the first call says how much room is needed. */
weft_status session_chat(const session *s, const char *messages, const char *tools, uint32_t flags,
                         id_list *list, weft_error *err)
{
    for (uint32_t attempt = 0;; attempt++) {
        weft_error failure = {WEFT_OK, ""};
        weft_status status = weft_chat_tokenize(s->model, messages, tools, flags, list->ids,
                                                list->capacity, &list->n, &failure);
        if (status == WEFT_OK) return WEFT_OK;
        bool grows = status == WEFT_LIMIT && list->n > list->capacity && attempt < 3;
        if (!grows) return err_set(err, status, "%s", failure.message);
        /* A template may print the time, and be longer the next time. */
        status = reserve(list, list->n + 16, err);
        if (status != WEFT_OK) return status;
    }
}
