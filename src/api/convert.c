/* convert.c - weft_convert. */
#include "convert/convert.h"

#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "base/thread.h"

enum { THREADS_MOST = 256 };

#define SHARD_BYTES_USUAL ((uint64_t)5 << 30)

/* What the caller is told, as he has it. */
typedef struct listener {
    void *user;
    bool (*progress)(void *user, const weft_convert_progress *progress);
} listener;

static bool pass_on(void *user, const convert_progress *p)
{
    const listener *l = user;
    weft_convert_progress theirs = {.struct_size = sizeof theirs,
                                    .n_tensors = p->n_tensors,
                                    .all_tensors = p->all_tensors,
                                    .n_bytes = p->n_bytes,
                                    .all_bytes = p->all_bytes,
                                    .name = p->name};
    return l->progress(l->user, &theirs);
}

static weft_status take_type(const char *name, encoding_id *type, weft_error *err)
{
    static const struct {
        const char *name;
        encoding_id id;
    } TYPES[] = {{"f32", ENCODING_ID_F32}, {"f16", ENCODING_ID_F16}, {"bf16", ENCODING_ID_BF16}};
    *type = ENCODING_ID_NONE;
    if (name == NULL) return WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        if (strcmp(TYPES[i].name, name) == 0) *type = TYPES[i].id;
    }
    if (*type != ENCODING_ID_NONE) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "type '%.64s', expected f32, f16 or bf16", name);
}

static weft_status convert_with(const weft_convert_options *o, const io *files, const char *source,
                                const char *target, convert_result *result, weft_error *err)
{
    listener l = {o->user, o->progress};
    const env world = {o->allocator != NULL ? o->allocator : mem_system(), files, o->log};
    convert_options options = {
        .mode = o->mode,
        .bits = o->bits,
        .group = o->group,
        .recipe = o->recipe,
        .recipe_bytes = o->recipe_bytes,
        .files = o->files,
        .shard_bytes = o->shard_bytes != 0 ? o->shard_bytes : SHARD_BYTES_USUAL,
        .n_threads = o->n_threads != 0 ? o->n_threads : thread_available(),
        .user = &l,
        .progress = o->progress != NULL ? pass_on : NULL,
    };
    if (o->n_threads > THREADS_MOST) {
        return err_set(err, WEFT_LIMIT, "%u threads, at most %d", o->n_threads, THREADS_MOST);
    }
    if (options.n_threads > THREADS_MOST) options.n_threads = THREADS_MOST;
    weft_status status = take_type(o->type, &options.type, err);
    if (status != WEFT_OK) return status;
    return convert_checkpoint(&world, source, target, &options, result, err);
}

weft_status api_convert(const char *source, const char *target, const weft_convert_options *options,
                        const io *files, weft_conversion *result, weft_error *err)
{
    err_clear(err);
    if (source == NULL || source[0] == '\0') return err_set(err, WEFT_ARGUMENT, "source is empty");
    if (target == NULL || target[0] == '\0') return err_set(err, WEFT_ARGUMENT, "target is empty");
    weft_convert_options ours = {.struct_size = sizeof ours};
    weft_status status = API_TAKE(ours, options, progress, "weft_convert_options", err);
    weft_conversion made = {.struct_size = sizeof made};
    /* Looked at before, so that nothing can fail after. */
    if (status == WEFT_OK && result != NULL)
        status = API_GIVE(made, result, n_bytes, "weft_conversion", err);
    if (status != WEFT_OK) return status;
    convert_result r;
    status = convert_with(&ours, files, source, target, &r, err);
    if (status != WEFT_OK || result == NULL) return status;
    made.n_tensors = r.n_tensors;
    made.n_quantized = r.n_quantized;
    made.n_whole = r.n_whole;
    made.n_files = r.n_files;
    made.n_copied = r.n_copied;
    made.n_params = r.n_params;
    made.n_bytes = r.n_bytes;
    return API_GIVE(made, result, n_bytes, "weft_conversion", err);
}

weft_status weft_convert(const char *source, const char *target,
                         const weft_convert_options *options, weft_conversion *result,
                         weft_error *err)
{
    return api_convert(source, target, options, io_system(), result, err);
}
