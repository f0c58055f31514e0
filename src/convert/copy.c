/* copy.c - by name: what mlx-lm takes along, and tokenizers of other kinds. */
#include "convert/copy.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

enum { PIECE_BYTES = 1 << 20 };

/* Written anew, or about weights that are. */
static const char *const OWN[] = {"config.json", "model.safetensors.index.json",
                                  "hf_quant_config.json", "quantize_config.json",
                                  "adapter_config.json"};

static const char *const ENDS[] = {".json",     ".jinja", ".jsonl", ".txt",
                                   ".tiktoken", ".model", ".py"};

static bool is_wanted(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(OWN); i++) {
        if (strcmp(name, OWN[i]) == 0) return false;
    }
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        if (str_ends(str_of(name), ENDS[i])) return name[0] != '.';
    }
    return false;
}

static weft_status join(char path[IO_PATH_BYTES], const char *folder, const char *name,
                        weft_error *err)
{
    int n = snprintf(path, IO_PATH_BYTES, "%s/%s", folder, name);
    if (n > 0 && n < IO_PATH_BYTES) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "the path of '%s' is longer than %d bytes", name,
                   IO_PATH_BYTES - 1);
}

static weft_status copy_pieces(const io *files, const io_file *from, uint64_t size,
                               const io_file *to, unsigned char *piece, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint64_t at = 0; at < size && status == WEFT_OK;) {
        size_t n = size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES;
        status = files->read_at(files, from, at, piece, n, err);
        if (status == WEFT_OK) status = files->write_at(files, to, at, piece, n, err);
        at += n;
    }
    return status == WEFT_OK ? files->sync(files, to, err) : status;
}

static weft_status copy_file(const io *files, const char *from, const char *to,
                             unsigned char *piece, weft_error *err)
{
    char temporary[IO_PATH_BYTES];
    io_file source;
    io_file target;
    uint64_t size;
    weft_status status = files->open(files, from, &source, &size, err);
    if (status != WEFT_OK) return status;
    status = files->create(files, to, temporary, &target, err);
    if (status == WEFT_OK) {
        status = copy_pieces(files, &source, size, &target, piece, err);
        weft_status closed = files->close(files, &target, status == WEFT_OK ? err : NULL);
        if (status == WEFT_OK) status = closed;
        if (status == WEFT_OK) status = files->rename(files, temporary, to, err);
    }
    weft_status closed = files->close(files, &source, status == WEFT_OK ? err : NULL);
    return status == WEFT_OK ? closed : status;
}

static weft_status copy_names(const env *world, const char *names, const char *from, const char *to,
                              uint32_t *n_files, weft_error *err)
{
    unsigned char *piece = mem_alloc(world->allocator, PIECE_BYTES);
    if (piece == NULL) return err_set(err, WEFT_NOMEM, "out of memory to copy files");
    weft_status status = WEFT_OK;
    for (const char *name = names; *name != '\0' && status == WEFT_OK; name += strlen(name) + 1) {
        char source[IO_PATH_BYTES];
        char target[IO_PATH_BYTES];
        if (!is_wanted(name)) continue;
        status = join(source, from, name, err);
        if (status != WEFT_OK || world->io->is_folder(world->io, source)) continue;
        status = join(target, to, name, err);
        if (status == WEFT_OK) status = copy_file(world->io, source, target, piece, err);
        if (status == WEFT_OK) ++*n_files;
    }
    mem_free(world->allocator, piece, PIECE_BYTES);
    return status;
}

weft_status copy_small_files(const env *world, const char *from, const char *to, uint32_t *n_files,
                             weft_error *err)
{
    char *names;
    size_t n_bytes;
    *n_files = 0;
    weft_status status = world->io->list(world->io, from, world->allocator, &names, &n_bytes, err);
    if (status != WEFT_OK) return status;
    status = copy_names(world, names, from, to, n_files, err);
    mem_free(world->allocator, names, n_bytes);
    return status;
}
