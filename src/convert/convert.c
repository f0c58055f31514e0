/* convert.c - a folder that is not there until it is complete. */
#include "convert/convert.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "convert/config_json.h"
#include "convert/copy.h"
#include "convert/rows.h"
#include "convert/shards.h"

typedef struct conversion {
    const env *world;
    const convert_options *options;
    arena arena;
    llm *model;
    recipe recipe;
    plan plan;
    shards shards;
    row_maker rows;
    char folder[IO_PATH_BYTES]; /* the temporary one; "" when there is none */
    uint64_t n_written;
} conversion;

static weft_status path_in(const conversion *c, const char *name, char path[IO_PATH_BYTES],
                           weft_error *err)
{
    int n = snprintf(path, IO_PATH_BYTES, "%s/%s", c->folder, name);
    if (n > 0 && n < IO_PATH_BYTES) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "the path of '%s' is longer than %d bytes", name,
                   IO_PATH_BYTES - 1);
}

/* ---- weights --------------------------------------------------------------------------------- */

static weft_status tell(const conversion *c, uint32_t tensor_i, weft_error *err)
{
    const convert_options *o = c->options;
    if (o->progress == NULL) return WEFT_OK;
    convert_progress p = {.n_bytes = c->n_written,
                          .all_bytes = c->shards.n_bytes,
                          .n_tensors = tensor_i,
                          .all_tensors = c->plan.n_tensors,
                          .name = c->plan.tensors[tensor_i].name};
    if (o->progress(o->user, &p)) return WEFT_OK;
    return err_set(err, WEFT_CANCELLED, "the conversion was given up at tensor '%s'", p.name);
}

static weft_status write_batch(conversion *c, const io_file *f, uint64_t data_start,
                               const shard_entry *entries, weft_error *err)
{
    const io *files = c->world->io;
    const row_maker *m = &c->rows;
    weft_status status = WEFT_OK;
    for (uint32_t p = 0; p < TENSOR_PLANES && status == WEFT_OK; p++) {
        if (m->row_bytes[p] == 0) continue;
        uint64_t at = data_start + entries[p].offset + m->first * m->row_bytes[p];
        size_t n = (size_t)(m->n * m->row_bytes[p]);
        status = files->write_at(files, f, at, m->planes[p], n, err);
        c->n_written += n;
    }
    return status;
}

static weft_status write_tensor(conversion *c, const io_file *f, uint64_t data_start, uint32_t i,
                                weft_error *err)
{
    const plan_tensor *t = &c->plan.tensors[i];
    const shard_entry *entries = &c->shards.entries[(size_t)i * TENSOR_PLANES];
    weft_status status = row_maker_take(&c->rows, t, err);
    for (uint64_t first = 0; first < t->n_rows && status == WEFT_OK;) {
        uint64_t n = t->n_rows - first < c->rows.batch ? t->n_rows - first : c->rows.batch;
        status = tell(c, i, err);
        if (status == WEFT_OK) status = row_maker_make(&c->rows, first, n, err);
        if (status == WEFT_OK) status = write_batch(c, f, data_start, entries, err);
        first += n;
    }
    return status;
}

static weft_status write_open_shard(conversion *c, uint32_t shard, const io_file *f,
                                    weft_error *err)
{
    const io *files = c->world->io;
    strbuf header;
    strbuf_init(&header, c->world->allocator, WEIGHTS_HEADER_BYTES);
    weft_status status = shards_header(&c->shards, shard, &header, err);
    uint64_t data_start = header.len;
    if (status == WEFT_OK) status = files->write_at(files, f, 0, header.ptr, header.len, err);
    strbuf_deinit(&header);
    for (uint32_t i = c->shards.first[shard]; i < c->shards.first[shard + 1] && status == WEFT_OK;
         i++)
        status = write_tensor(c, f, data_start, i, err);
    return status == WEFT_OK ? files->sync(files, f, err) : status;
}

static weft_status write_shard(conversion *c, uint32_t shard, weft_error *err)
{
    const io *files = c->world->io;
    char name[SHARD_NAME_BYTES];
    char path[IO_PATH_BYTES];
    char temporary[IO_PATH_BYTES];
    io_file f;
    shards_name(&c->shards, shard, name);
    weft_status status = path_in(c, name, path, err);
    if (status == WEFT_OK) status = files->create(files, path, temporary, &f, err);
    if (status != WEFT_OK) return status;
    status = write_open_shard(c, shard, &f, err);
    weft_status closed = files->close(files, &f, status == WEFT_OK ? err : NULL);
    if (status == WEFT_OK) status = closed;
    return status == WEFT_OK ? files->rename(files, temporary, path, err) : status;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static weft_status write_text(const conversion *c, const char *name, const strbuf *text,
                              weft_error *err)
{
    char path[IO_PATH_BYTES];
    weft_status status = path_in(c, name, path, err);
    if (status != WEFT_OK) return status;
    return c->world->io->write(c->world->io, path, text->ptr, text->len, err);
}

static weft_status write_texts(const conversion *c, weft_error *err)
{
    strbuf text;
    strbuf_init(&text, c->world->allocator, WEIGHTS_HEADER_BYTES);
    weft_status status = config_json_write(&c->plan, &c->recipe, c->world->allocator, &text, err);
    if (status == WEFT_OK) status = write_text(c, "config.json", &text, err);
    strbuf_clear(&text);
    if (status == WEFT_OK) status = shards_index(&c->shards, &text, err);
    if (status == WEFT_OK) status = write_text(c, "model.safetensors.index.json", &text, err);
    strbuf_deinit(&text);
    return status;
}

static weft_status fill_folder(conversion *c, const char *source, convert_result *result,
                               weft_error *err)
{
    const io *files = c->world->io;
    const char *from = c->options->files;
    if (from == NULL && files->is_folder(files, source)) from = source;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < c->shards.n_shards && status == WEFT_OK; i++)
        status = write_shard(c, i, err);
    if (status == WEFT_OK) status = write_texts(c, err);
    if (status == WEFT_OK && from != NULL)
        status = copy_small_files(c->world, from, c->folder, &result->n_copied, err);
    char inside[IO_PATH_BYTES];
    if (status == WEFT_OK) status = path_in(c, "config.json", inside, err);
    return status == WEFT_OK ? files->sync_folder(files, inside, err) : status;
}

/* Whatever is in it was written here. */
static void drop_folder(conversion *c)
{
    const io *files = c->world->io;
    char *names;
    size_t n_bytes;
    if (c->folder[0] == '\0') return;
    if (files->list(files, c->folder, c->world->allocator, &names, &n_bytes, NULL) == WEFT_OK) {
        for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
            char path[IO_PATH_BYTES];
            if (path_in(c, name, path, NULL) == WEFT_OK) files->remove(files, path);
        }
        mem_free(c->world->allocator, names, n_bytes);
    }
    files->remove_folder(files, c->folder);
}

/* ---- from the beginning to the end ----------------------------------------------------------- */

static weft_status make_plan(conversion *c, const char *source, weft_error *err)
{
    const convert_options *o = c->options;
    weft_status status = recipe_choose(&c->recipe.usual, o->mode, o->bits, o->group, err);
    if (status == WEFT_OK && o->recipe != NULL)
        status = recipe_read(&c->recipe, &c->arena, o->recipe, o->recipe_bytes, err);
    if (status == WEFT_OK) status = llm_open(c->world, source, &c->model, err);
    if (status == WEFT_OK)
        status = plan_make(&c->plan, &c->arena, c->model, &c->recipe, o->type, err);
    if (status == WEFT_OK)
        status = shards_init(&c->shards, &c->arena, &c->plan, o->shard_bytes, err);
    if (status != WEFT_OK) return status;
    return row_maker_init(&c->rows, c->world->allocator, &c->plan, o->n_threads, err);
}

/* The name without slashes at its end. */
static weft_status take_target(const io *files, const char *target, char path[IO_PATH_BYTES],
                               weft_error *err)
{
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/') n--;
    if (n == 0 || n >= IO_PATH_BYTES || (n == 1 && target[0] == '/')) {
        return err_set(err, WEFT_ARGUMENT, "'%.64s' is no name for a new folder", target);
    }
    memcpy(path, target, n);
    path[n] = '\0';
    if (!files->exists(files, path)) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "'%s' is there already", path);
}

static weft_status run(conversion *c, const char *source, const char *path, convert_result *result,
                       weft_error *err)
{
    const io *files = c->world->io;
    weft_status status = make_plan(c, source, err);
    if (status != WEFT_OK) return status;
    char folder[IO_PATH_BYTES];
    status = files->create_folder(files, path, folder, err);
    if (status != WEFT_OK) return status;
    memcpy(c->folder, folder, sizeof folder);
    status = fill_folder(c, source, result, err);
    if (status == WEFT_OK) status = files->rename_new(files, c->folder, path, err);
    if (status != WEFT_OK) return status;
    status = files->sync_folder(files, path, err);
    /* After a failure it is taken back, or else it stays: it is complete. */
    if (status == WEFT_OK || files->rename(files, path, c->folder, NULL) != WEFT_OK)
        c->folder[0] = '\0';
    return status;
}

weft_status convert_checkpoint(const env *world, const char *source, const char *target,
                               const convert_options *options, convert_result *result,
                               weft_error *err)
{
    conversion c = {.world = world, .options = options};
    char path[IO_PATH_BYTES];
    *result = (convert_result){0};
    weft_status status = take_target(world->io, target, path, err);
    if (status != WEFT_OK) return status;
    arena_init(&c.arena, world->allocator, 0);
    status = run(&c, source, path, result, err);
    if (status == WEFT_OK) {
        result->n_tensors = c.plan.n_tensors;
        result->n_quantized = c.plan.n_codes;
        result->n_whole = c.plan.n_whole;
        result->n_files = c.shards.n_shards;
        result->n_params = c.plan.n_params;
        result->n_bytes = c.shards.n_bytes;
    }
    drop_folder(&c);
    if (c.rows.allocator != NULL) row_maker_deinit(&c.rows);
    llm_close(c.model);
    arena_deinit(&c.arena);
    return status;
}
