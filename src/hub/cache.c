/* cache.c - finding models that are on disk. */
#include "hub/cache.h"

#include <stdio.h>
#include <string.h>

enum { PREFIX_LEAST = 7, REF_BYTES_MOST = 256, WALK_DEPTH = HUB_PARTS_MOST };

weft_status hub_cache_repo(const hub_cache *c, const hub_id *id, char *path, weft_error *err)
{
    return disk_path(path, err, "%s/models--%s%s%s", c->root, id->org,
                     id->org[0] != '\0' ? "--" : "", id->name);
}

weft_status hub_cache_lock_path(const hub_cache *c, const hub_id *id, const char *name, char *path,
                                weft_error *err)
{
    return disk_path(path, err, "%s/.locks/models--%s%s%s/%s.lock", c->root, id->org,
                     id->org[0] != '\0' ? "--" : "", id->name, name);
}

weft_status hub_cache_snapshot(const hub_cache *c, const hub_id *id, const char *commit, char *path,
                               weft_error *err)
{
    char repo[IO_PATH_BYTES];
    weft_status status = hub_cache_repo(c, id, repo, err);
    if (status != WEFT_OK) return status;
    return disk_path(path, err, "%.*s/snapshots/%s", IO_PATH_BYTES, repo, commit);
}

static bool has_snapshot(const hub_cache *c, const hub_id *id, const char *commit)
{
    char path[IO_PATH_BYTES];
    uint64_t size;
    int64_t used;
    return hub_cache_snapshot(c, id, commit, path, NULL) == WEFT_OK &&
           disk_look(path, &size, &used) == DISK_FOLDER;
}

/* What refs/REV says. */
static bool read_ref(const hub_cache *c, const char *path, char commit[HUB_COMMIT_BYTES])
{
    char *data = NULL;
    size_t n = 0;
    weft_status status =
        io_read_file(c->env->io, c->env->allocator, path, REF_BYTES_MOST, &data, &n, NULL);
    if (status != WEFT_OK) return false;
    str text = {data, n};
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ') text.len--;
    bool ok = hub_is_hex(text, HUB_COMMIT_BYTES - 1);
    if (ok) memcpy(commit, text.ptr, text.len);
    commit[ok ? text.len : 0] = '\0';
    mem_free(c->env->allocator, data, n + 1);
    return ok;
}

/* The one snapshot whose commit begins so. */
static bool find_prefix(const hub_cache *c, const char *repo, const char *prefix,
                        char commit[HUB_COMMIT_BYTES])
{
    char path[IO_PATH_BYTES];
    char *names = NULL;
    size_t n_bytes = 0;
    uint32_t n_found = 0;
    if (disk_path(path, NULL, "%s/snapshots", repo) != WEFT_OK ||
        c->env->io->list(c->env->io, path, c->env->allocator, &names, &n_bytes, NULL) != WEFT_OK)
        return false;
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
        if (!hub_is_hex(str_of(name), HUB_COMMIT_BYTES - 1)) continue;
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        memcpy(commit, name, HUB_COMMIT_BYTES);
        n_found++;
    }
    mem_free(c->env->allocator, names, n_bytes);
    return n_found == 1;
}

bool hub_cache_commit(const hub_cache *c, const hub_id *id, char commit[HUB_COMMIT_BYTES])
{
    char repo[IO_PATH_BYTES];
    char path[IO_PATH_BYTES];
    const char *revision = hub_id_revision(id);
    size_t n = strlen(revision);
    if (hub_cache_repo(c, id, repo, NULL) != WEFT_OK) return false;
    if (disk_path(path, NULL, "%s/refs/%s", repo, revision) == WEFT_OK &&
        read_ref(c, path, commit) && has_snapshot(c, id, commit))
        return true;
    return n >= PREFIX_LEAST && n < HUB_COMMIT_BYTES && hub_is_hex(str_of(revision), n) &&
           find_prefix(c, repo, revision, commit);
}

weft_status hub_cache_set_ref(const hub_cache *c, const hub_id *id, const char *commit,
                              weft_error *err)
{
    const io *files = c->env->io;
    char repo[IO_PATH_BYTES];
    char path[IO_PATH_BYTES];
    char beside[IO_PATH_BYTES];
    char temporary[IO_PATH_BYTES];
    const char *revision = hub_id_revision(id);
    /* A commit is its own name. */
    if (hub_is_hex(str_of(revision), HUB_COMMIT_BYTES - 1)) return WEFT_OK;
    io_file f = {.fd = -1};
    weft_status status = hub_cache_repo(c, id, repo, err);
    if (status == WEFT_OK) status = disk_path(path, err, "%s/refs/%s", repo, revision);
    if (status == WEFT_OK) status = disk_path(beside, err, "%s/ref", repo);
    if (status != WEFT_OK) return status;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    status = disk_make_folders(path, err);
    *slash = '/';
    /* Made outside of refs, where others take every file for a branch. */
    if (status == WEFT_OK) status = files->create(files, beside, temporary, &f, err);
    if (status != WEFT_OK) return status;
    status = files->write_at(files, &f, 0, commit, strlen(commit), err);
    if (status == WEFT_OK) status = files->sync(files, &f, err);
    weft_status closed = files->close(files, &f, status == WEFT_OK ? err : NULL);
    if (status == WEFT_OK) status = closed;
    if (status == WEFT_OK) status = files->rename(files, temporary, path, err);
    if (status != WEFT_OK) files->remove(files, temporary);
    return status == WEFT_OK ? files->sync_folder(files, path, err) : status;
}

/* ---- files of a snapshot --------------------------------------------------------------------- */

typedef struct walk {
    const hub_cache *c;
    const char *snapshot;
    arena *memory;
    hub_file *files;
    size_t n, capacity;
} walk;

/* "../../blobs/HASH": HASH, if it looks like one. */
static void take_blob(const char *path, hub_file *f)
{
    char target[IO_PATH_BYTES];
    f->hash[0] = '\0';
    if (!disk_read_link(path, target)) return;
    const char *slash = strrchr(target, '/');
    if (slash == NULL || slash - target < 5 || memcmp(slash - 5, "blobs", 5) != 0) return;
    str hash = str_of(slash + 1);
    if (!hub_is_hex(hash, 40) && !hub_is_hex(hash, 64)) return;
    memcpy(f->hash, hash.ptr, hash.len + 1);
}

static weft_status add_file(walk *w, const char *name, const char *path, uint64_t size,
                            int64_t used_s, weft_error *err)
{
    if (w->n == HUB_FILES_MOST)
        return err_set(err, WEFT_LIMIT, "'%s' has more than %d files", w->snapshot, HUB_FILES_MOST);
    if (w->n == w->capacity) {
        size_t capacity = w->capacity == 0 ? 32 : 2 * w->capacity;
        hub_file *files = arena_array(w->memory, capacity, sizeof *files);
        if (files == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu files", capacity);
        if (w->n > 0) memcpy(files, w->files, w->n * sizeof *files);
        w->files = files;
        w->capacity = capacity;
    }
    hub_file *f = &w->files[w->n];
    *f = (hub_file){.size = size, .used_s = used_s};
    f->name = arena_copy_text(w->memory, name, strlen(name));
    if (f->name == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the names of files");
    take_blob(path, f);
    w->n++;
    return WEFT_OK;
}

/* below: "" or "FOLDER/". */
static weft_status walk_folder(walk *w, const char *below, uint32_t depth, weft_error *err)
{
    const env *e = w->c->env;
    char path[IO_PATH_BYTES];
    char name[HUB_FILE_BYTES_MOST + 2];
    char *names = NULL;
    size_t n_bytes = 0;
    weft_status status = disk_path(path, err, "%s/%s", w->snapshot, below);
    if (status == WEFT_OK) status = e->io->list(e->io, path, e->allocator, &names, &n_bytes, err);
    if (status != WEFT_OK) return status;
    for (const char *at = names; *at != '\0' && status == WEFT_OK; at += strlen(at) + 1) {
        uint64_t size;
        int64_t used_s;
        int n = snprintf(name, sizeof name, "%s%s", below, at);
        if (n < 0 || n > HUB_FILE_BYTES_MOST || !hub_file_name_valid(str_of(name))) continue;
        if (disk_path(path, NULL, "%s/%s", w->snapshot, name) != WEFT_OK) continue;
        disk_kind kind = disk_look(path, &size, &used_s);
        if (kind == DISK_FILE) status = add_file(w, name, path, size, used_s, err);
        if (kind != DISK_FOLDER || depth == WALK_DEPTH || n == HUB_FILE_BYTES_MOST) continue;
        memcpy(name + n, "/", 2);
        status = walk_folder(w, name, depth + 1, err);
    }
    mem_free(e->allocator, names, n_bytes);
    return status;
}

weft_status hub_cache_files(const hub_cache *c, const char *snapshot, arena *memory,
                            hub_file **files, size_t *n_files, weft_error *err)
{
    walk w = {.c = c, .snapshot = snapshot, .memory = memory};
    weft_status status = walk_folder(&w, "", 1, err);
    hub_files_sort(w.files, w.n);
    *files = w.files;
    *n_files = status == WEFT_OK ? w.n : 0;
    return status;
}

static weft_status find_in(const hub_cache *c, const hub_id *id, const char *snapshot, char *path,
                           strbuf *choices, weft_error *err)
{
    arena memory;
    hub_file *files;
    size_t n;
    char repo[HUB_REPO_BYTES];
    const hub_file *first = NULL;
    hub_id_repo(id, repo);
    arena_init(&memory, c->env->allocator, 0);
    weft_status status = hub_cache_files(c, snapshot, &memory, &files, &n, err);
    bool folder = status == WEFT_OK && id->quant[0] == '\0' && hub_has_safetensors(files, n);
    if (status == WEFT_OK && !folder) {
        status = hub_choose_gguf(files, n, id->quant, choices, &first, err);
        if (status != WEFT_OK) err_context(err, "in the cache, %s: ", repo);
    }
    if (status == WEFT_OK)
        status =
            disk_path(path, err, "%s%s%s", snapshot, folder ? "" : "/", folder ? "" : first->name);
    arena_deinit(&memory);
    return status;
}

weft_status hub_cache_find(const hub_cache *c, const hub_id *id, char *path, strbuf *choices,
                           weft_error *err)
{
    char commit[HUB_COMMIT_BYTES];
    char snapshot[IO_PATH_BYTES];
    char repo[HUB_REPO_BYTES];
    hub_id_repo(id, repo);
    if (!hub_cache_commit(c, id, commit))
        return err_set(err, WEFT_IO, "%s is not in the cache %.100s, revision %.60s", repo, c->root,
                       hub_id_revision(id));
    weft_status status = hub_cache_snapshot(c, id, commit, snapshot, err);
    return status == WEFT_OK ? find_in(c, id, snapshot, path, choices, err) : status;
}
