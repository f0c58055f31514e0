/* bench_tokenizer.c - how fast a vocabulary encodes a text, in MB/s of processor time, so that
 * other work on the machine counts little.
 *
 * Usage: bench_tokenizer MODEL.gguf|tokenizer.json TEXT [runs]
 *        bench_tokenizer FOLDER CACHE_FOLDER [runs]: opening FOLDER/tokenizer.json, written to the
 *        cache and from there */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tokenizer/tokenizer.h"

enum { FILE_BYTES = 1 << 28 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status open_any(const env *world, const char *path, weights **w, tokenizer **t,
                            weft_error *err)
{
    char *text;
    size_t n;
    if (str_ends(str_of(path), ".gguf")) {
        weft_status status = weights_open(world, path, w, err);
        return status == WEFT_OK ? tokenizer_open(*w, NULL, t, err) : status;
    }
    weft_status status =
        io_read_file(world->io, world->allocator, path, FILE_BYTES, &text, &n, err);
    if (status != WEFT_OK) return status;
    status = tokenizer_parse(world, text, n, t, err);
    mem_free(world->allocator, text, n + 1);
    return status;
}

/* Opens it once, and says how long that took. */
static weft_status open_once(const char *folder, const tokenizer_cache *cache, const char *what,
                             weft_error *err)
{
    static const weights_format FOLDER = {.name = "folder", .is_folder = true};
    weights w = {.env = {mem_system(), io_system(), NULL}, .format = &FOLDER, .path = folder};
    tokenizer *t = NULL;
    double start = seconds();
    weft_status status = tokenizer_open(&w, cache, &t, err);
    if (status == WEFT_OK && t == NULL)
        status = err_set(err, WEFT_IO, "'%s' has no tokenizer", folder);
    if (status == WEFT_OK) printf("%s %.1f ms\n", what, 1e3 * (seconds() - start));
    tokenizer_destroy(t);
    return status;
}

/* The cache is empty at first, or what is cold is not. */
static int open_cached(const char *folder, const char *cache_folder, long runs)
{
    tokenizer_cache cache = {cache_folder, 0};
    weft_error err = {0};
    weft_status status = open_once(folder, NULL, "without a cache", &err);
    if (status == WEFT_OK) status = open_once(folder, &cache, "cold", &err);
    for (long i = 0; i < runs && status == WEFT_OK; i++)
        status = open_once(folder, &cache, "cached", &err);
    if (status != WEFT_OK) fprintf(stderr, "%s\n", err.message);
    return status == WEFT_OK ? 0 : 1;
}

static weft_status run(const tokenizer *t, str text, weft_error *err)
{
    token_list list;
    token_list_init(&list, mem_system());
    double start = seconds();
    weft_status status = tokenizer_encode(t, text, 0, &list, err);
    double taken = seconds() - start;
    if (status == WEFT_OK) {
        printf("%zu bytes, %zu ids, %.1f MB/s\n", text.len, list.len,
               (double)text.len / taken / 1e6);
    }
    token_list_deinit(&list);
    return status;
}

int main(int argc, char **argv)
{
    env world = {mem_system(), io_system(), NULL};
    weights *w = NULL;
    tokenizer *t = NULL;
    char *text = NULL;
    size_t n = 0;
    weft_error err = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL.gguf|tokenizer.json TEXT [runs] | FOLDER CACHE [runs]\n",
                argv[0]);
        return 2;
    }
    long runs = argc > 3 ? strtol(argv[3], NULL, 10) : 3;
    if (io_system()->is_folder(io_system(), argv[1])) return open_cached(argv[1], argv[2], runs);
    double start = seconds();
    weft_status status = open_any(&world, argv[1], &w, &t, &err);
    if (status == WEFT_OK) printf("opened in %.3f s\n", seconds() - start);
    if (status == WEFT_OK)
        status = io_read_file(world.io, world.allocator, argv[2], FILE_BYTES, &text, &n, &err);
    for (long i = 0; i < runs && status == WEFT_OK; i++) status = run(t, (str){text, n}, &err);
    if (status != WEFT_OK) fprintf(stderr, "%s\n", err.message);
    if (text != NULL) mem_free(world.allocator, text, n + 1);
    tokenizer_destroy(t);
    weights_close(w);
    return status == WEFT_OK ? 0 : 1;
}
