/* runs.c - models, engines and whole requests in one call. */
#include "support/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/io.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "support/compare.h"

weft_model *run_open_model(const char *path)
{
    weft_error err = {WEFT_OK, ""};
    weft_model *model = NULL;
    assert_ok(weft_model_open(path, NULL, &model, &err), &err);
    return model;
}

weft_engine *run_open_engine(const weft_model *model, const weft_engine_options *options)
{
    weft_error err = {WEFT_OK, ""};
    weft_engine *engine = NULL;
    assert_ok(weft_engine_open(model, options, &engine, &err), &err);
    return engine;
}

uint32_t run_n_vocab(const weft_model *model)
{
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, NULL), NULL);
    return info.n_vocab;
}

void run_submit(weft_engine *engine, uint32_t n_vocab, run *r)
{
    weft_error err = {WEFT_OK, ""};
    if (r->n_expanded == 0) r->n_expanded = r->n_prompt;
    if (r->want_prompt_logits)
        r->prompt_logits = calloc((size_t)r->n_expanded * n_vocab, sizeof(float));
    r->new_logits = calloc((size_t)r->max_new * n_vocab + 1, sizeof(float));
    r->tokens = calloc((size_t)r->max_new + 1, sizeof(int32_t));
    r->logprobs = calloc((size_t)r->max_new + 1, sizeof(float));
    r->top = calloc((size_t)r->max_new * r->n_top + 1, sizeof *r->top);
    r->text = calloc(1, 1);
    r->n_text = 0;
    weft_request request = {
        .struct_size = sizeof request,
        .flags = r->flags | (r->stops ? 0 : WEFT_REQUEST_IGNORE_STOP),
        .kv = r->kv,
        .prompt = r->prompt,
        .n_prompt = r->n_prompt,
        .max_new = r->max_new,
        .sampling = r->sampling,
        .prompt_logits = r->prompt_logits,
        .new_logits = r->new_logits,
        .stop_ids = r->stop_ids,
        .n_stop_ids = r->n_stop_ids,
        .draft = r->draft,
        .priority = r->priority,
        .deadline_ms = r->deadline_ms,
        .cache_salt = r->cache_salt,
        .grammar = r->grammar,
        .images = r->images,
        .n_images = r->n_images,
        .min_new = r->min_new,
        .n_top = r->n_top,
        .stop_texts = r->stop_texts,
        .n_stop_texts = r->n_stop_texts,
    };
    if (r->drafter == NULL) {
        assert_ok(weft_submit(engine, &request, &r->handle, &err), &err);
    } else {
        assert_ok(
            engine_submit_drafted(engine, &request, r->drafter, r->draft_state, &r->handle, &err),
            &err);
    }
}

/* Whole characters. */
static void take_text(run *r, const weft_event *event)
{
    assert_non_null(event->text);
    assert_true(utf8_valid(event->text, event->n_text));
    r->text = realloc(r->text, r->n_text + event->n_text + 1);
    memcpy(r->text + r->n_text, event->text, event->n_text);
    r->n_text += event->n_text;
    r->text[r->n_text] = '\0';
}

static void take_token(run *r, const weft_event *event)
{
    assert_true(r->n_tokens < r->max_new);
    assert_true(event->n_top <= r->n_top);
    weft_top_logprob *top = r->top + (size_t)r->n_tokens * r->n_top;
    for (uint32_t i = 0; i < r->n_top; i++)
        top[i] = i < event->n_top ? event->top[i] : (weft_top_logprob){-1, 0.0F};
    r->logprobs[r->n_tokens] = event->logprob;
    r->tokens[r->n_tokens++] = event->token;
}

void run_collect(weft_engine *engine, run *r)
{
    weft_error err = {WEFT_OK, ""};
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(engine, r->handle, &event, &err), &err);
        take_text(r, &event);
        if (event.kind == WEFT_EVENT_TOKEN) {
            take_token(r, &event);
            continue;
        }
        assert_int_equal(event.kind, WEFT_EVENT_DONE);
        r->finish = event.finish;
        r->stop_id = event.stop_id;
        r->stop_text = event.stop_text;
        r->n_cached = event.n_cached;
        r->n_known = event.n_known;
        r->cache_limit = event.cache_limit;
        r->n_drafted = event.n_drafted;
        r->n_accepted = event.n_accepted;
        r->n_paused = event.n_paused;
        if (event.finish == WEFT_FINISH_ERROR) fail_msg("%s", event.error.message);
        break;
    }
    assert_ok(weft_release(engine, r->handle, &err), &err);
}

void run_all(weft_engine *engine, uint32_t n_vocab, run *runs, size_t n)
{
    weft_error err = {WEFT_OK, ""};
    for (size_t i = 0; i < n; i++) run_submit(engine, n_vocab, &runs[i]);
    uint32_t n_active;
    do {
        assert_ok(weft_step(engine, &n_active, &err), &err);
    } while (n_active > 0);
    for (size_t i = 0; i < n; i++) run_collect(engine, &runs[i]);
}

int32_t *run_random_ids(uint32_t n, uint32_t n_vocab, uint64_t seed)
{
    int32_t *ids = calloc(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(seed, i) % n_vocab);
    return ids;
}

void run_free(run *r)
{
    free(r->tokens);
    free(r->logprobs);
    free(r->prompt_logits);
    free(r->new_logits);
    free(r->top);
    free(r->text);
    r->tokens = NULL;
    r->top = NULL;
    r->text = NULL;
    r->n_text = 0;
    r->logprobs = r->prompt_logits = r->new_logits = NULL;
    r->n_tokens = 0;
}

void run_assert_identical(const run *a, const run *b, uint32_t n_vocab)
{
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof(int32_t));
    assert_floats_identical(a->logprobs, b->logprobs, a->n_tokens, 0);
    assert_int_equal(a->n_top, b->n_top);
    assert_memory_equal(a->top, b->top, (size_t)a->n_tokens * a->n_top * sizeof *a->top);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n_text, b->n_text);
    assert_int_equal(a->stop_id, b->stop_id);
    assert_int_equal(a->stop_text, b->stop_text);
    assert_floats_identical(a->new_logits, b->new_logits, (size_t)a->n_tokens * n_vocab, n_vocab);
    if (a->prompt_logits != NULL && b->prompt_logits != NULL) {
        assert_int_equal(a->n_expanded, b->n_expanded);
        assert_floats_identical(a->prompt_logits, b->prompt_logits, (size_t)a->n_expanded * n_vocab,
                                n_vocab);
    }
}

json_doc run_read_json(const char *path)
{
    weft_error err = {WEFT_OK, ""};
    char *text;
    size_t n;
    assert_ok(io_read_file(io_system(), mem_system(), path, 64u << 20, &text, &n, &err), &err);
    json_doc doc = {NULL};
    assert_ok(json_parse(&doc, text, n, &err), &err);
    mem_free(mem_system(), text, n + 1);
    return doc;
}

int32_t *run_ids(const json *array, uint32_t *n)
{
    *n = (uint32_t)json_length(array);
    int32_t *ids = calloc((size_t)*n + 1, sizeof *ids);
    for (uint32_t i = 0; i < *n; i++) ids[i] = (int32_t)json_int(json_at(array, i), -1);
    return ids;
}

/* The bytes of a tensor and what the header says of it, which doc owns. */
static void *read_tensor(const char *path, const char *name, size_t *n_bytes, json_doc *doc)
{
    weft_error err = {WEFT_OK, ""};
    uint64_t length = 0;
    const io *files = io_system();
    assert_ok(files->read(files, path, 0, &length, sizeof length, &err), &err);
    char *header = malloc((size_t)length);
    assert_ok(files->read(files, path, 8, header, (size_t)length, &err), &err);
    assert_ok(json_parse(doc, header, (size_t)length, &err), &err);
    free(header);
    const json *offsets = json_get(json_get(doc->root, name), "data_offsets");
    uint64_t first = (uint64_t)json_int(json_at(offsets, 0), 0);
    uint64_t end = (uint64_t)json_int(json_at(offsets, 1), 0);
    void *data = NULL;
    *n_bytes = (size_t)(end - first);
    if (offsets != NULL) {
        data = malloc((size_t)(end - first) + 1);
        assert_ok(files->read(files, path, 8 + length + first, data, (size_t)(end - first), &err),
                  &err);
    }
    return data;
}

void *run_read_tensor(const char *path, const char *name, size_t *n)
{
    json_doc doc = {NULL};
    void *data = read_tensor(path, name, n, &doc);
    *n /= 4;
    json_doc_free(&doc);
    return data;
}

weft_image run_read_image(const char *path, const char *name)
{
    json_doc doc = {NULL};
    size_t n_bytes;
    void *data = read_tensor(path, name, &n_bytes, &doc);
    const json *shape = json_get(json_get(doc.root, name), "shape");
    weft_image image = {.struct_size = sizeof image,
                        .flags = WEFT_IMAGE_AS_IS,
                        .pixels = data,
                        .height = (uint32_t)json_int(json_at(shape, 0), 0),
                        .width = (uint32_t)json_int(json_at(shape, 1), 0)};
    json_doc_free(&doc);
    return image;
}

int32_t *run_placeholders(const char *path, const int32_t *ids, uint32_t n_ids, uint32_t *n)
{
    char file[600];
    snprintf(file, sizeof file, "%s/config.json", path);
    json_doc doc = run_read_json(file);
    int64_t token = json_int(json_get(doc.root, "image_token_id"), -1);
    /* Only where the placeholder stands for these, too. */
    int64_t begin = json_int(json_get(doc.root, "boi_token_id"), -1);
    int64_t end = json_int(json_get(doc.root, "eoi_token_id"), -1);
    json_doc_free(&doc);
    int32_t *out = calloc((size_t)n_ids + 1, sizeof *out);
    *n = 0;
    for (uint32_t i = 0; i < n_ids; i++) {
        bool more = i > 0 && ids[i] == token && ids[i - 1] == token;
        bool around = (ids[i] == begin && i + 1 < n_ids && ids[i + 1] == token) ||
                      (ids[i] == end && i > 0 && ids[i - 1] == token);
        if (token < 0 || (!more && !around)) out[(*n)++] = ids[i];
    }
    return out;
}

static char *list_of(const char *folder, size_t *n_bytes)
{
    char *names = NULL;
    const io *files = io_system();
    bool ok = files->list(files, folder, mem_system(), &names, n_bytes, NULL) == WEFT_OK;
    return ok ? names : NULL;
}

/* Adds "before" and name where that is a checkpoint. */
static bool add_checkpoint(strbuf *to, const char *folder, const char *before, const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s%s/config.json", folder, before, name);
    if (!io_system()->exists(io_system(), path)) return false;
    strbuf_printf(to, "%s%s%c", before, name, '\0');
    return true;
}

char *run_checkpoints(const char *folder)
{
    strbuf to;
    size_t n_bytes;
    char *names = list_of(folder, &n_bytes);
    assert_non_null(names);
    strbuf_init(&to, mem_system(), 0);
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
        char inside[700];
        char before[300];
        size_t n_inside;
        if (add_checkpoint(&to, folder, "", name)) continue;
        snprintf(inside, sizeof inside, "%s/%s", folder, name);
        snprintf(before, sizeof before, "%s/", name);
        char *more = list_of(inside, &n_inside);
        for (const char *m = more; m != NULL && *m != '\0'; m += strlen(m) + 1)
            add_checkpoint(&to, folder, before, m);
        if (more != NULL) mem_free(mem_system(), more, n_inside);
    }
    mem_free(mem_system(), names, n_bytes);
    strbuf_add_char(&to, '\0');
    assert_int_equal(to.status, WEFT_OK);
    assert_true(to.len > 1);
    char *all = malloc(to.len);
    assert_non_null(all);
    memcpy(all, to.ptr, to.len);
    strbuf_deinit(&to);
    return all;
}

const char *const *run_isas(size_t *n)
{
    static const char *found[8];
    size_t count;
    const cpu_isa *table = cpu_isa_table(&count);
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        if (table[i].available()) {
            found[(*n)++] = table[i].name;
        } else {
            print_message("NOT RUN: this processor does not have %s\n", table[i].name);
        }
    }
    return found;
}

const char *run_extra_model(const char *name, char *path, size_t capacity)
{
    const char *root = getenv("WEFT_MODELS");
    if (root == NULL) root = WEFT_SOURCE_DIR "/build/models";
    snprintf(path, capacity, "%s/%s", root, name);
    if (access(path, R_OK) == 0) return path;
    print_message("NOT RUN: %s is not there (tools/fetch_models.sh)\n", path);
    return NULL;
}
