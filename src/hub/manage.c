/* manage.c - what is in the cache, and taking it out again. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "hub/cache.h"

enum { REFS_DEPTH = 4 };

typedef bool (*name_visit)(void *user, const char *name);

/* Names in a folder; none where there is no folder. */
static weft_status each_name(const env *e, const char *path, name_visit visit, void *user,
                             weft_error *err)
{
    char *names = NULL;
    size_t n_bytes = 0;
    if (!e->io->is_folder(e->io, path)) return WEFT_OK;
    weft_status status = e->io->list(e->io, path, e->allocator, &names, &n_bytes, err);
    if (status != WEFT_OK) return status;
    for (const char *at = names; *at != '\0' && visit(user, at); at += strlen(at) + 1) continue;
    mem_free(e->allocator, names, n_bytes);
    return WEFT_OK;
}

/* ---- refs ------------------------------------------------------------------------------------ */

typedef struct ref_walk {
    const hub_cache *c;
    const char *repo;   /* a path */
    const char *commit; /* which refs are meant */
    char below[IO_PATH_BYTES];
    uint32_t depth;
    strbuf *names; /* those are added, with commas; NULL: they are removed */
    weft_status status;
    weft_error *err;
} ref_walk;

static bool names_commit(const env *e, const char *path, const char *commit)
{
    char *data = NULL;
    size_t n = 0;
    if (io_read_file(e->io, e->allocator, path, 256, &data, &n, NULL) != WEFT_OK) return false;
    bool same = n >= HUB_COMMIT_BYTES - 1 && memcmp(data, commit, HUB_COMMIT_BYTES - 1) == 0;
    mem_free(e->allocator, data, n + 1);
    return same;
}

static bool visit_ref(void *user, const char *name)
{
    ref_walk *w = user;
    char path[IO_PATH_BYTES];
    uint64_t size;
    int64_t used;
    if (disk_path(path, NULL, "%s/refs/%s%s", w->repo, w->below, name) != WEFT_OK) return true;
    disk_kind kind = disk_look(path, &size, &used);
    if (kind == DISK_FOLDER && w->depth < REFS_DEPTH) {
        ref_walk inner = *w;
        inner.depth++;
        int n = snprintf(inner.below, sizeof inner.below, "%s%s/", w->below, name);
        if (n > 0 && n < (int)sizeof inner.below)
            inner.status = each_name(w->c->env, path, visit_ref, &inner, w->err);
        w->status = inner.status;
    }
    if (w->status != WEFT_OK) return false;
    if (kind != DISK_FILE || !names_commit(w->c->env, path, w->commit)) return true;
    if (w->names == NULL) {
        w->c->env->io->remove(w->c->env->io, path);
    } else {
        strbuf_printf(w->names, "%s%s%s", w->names->len > 0 ? ", " : "", w->below, name);
    }
    return true;
}

static weft_status walk_refs(const hub_cache *c, const char *repo, const char *commit,
                             strbuf *names, weft_error *err)
{
    char path[IO_PATH_BYTES];
    ref_walk w = {.c = c, .repo = repo, .commit = commit, .names = names, .err = err};
    weft_status status = disk_path(path, err, "%s/refs", repo);
    if (status == WEFT_OK) status = each_name(c->env, path, visit_ref, &w, err);
    return status == WEFT_OK ? w.status : status;
}

/* ---- blobs ----------------------------------------------------------------------------------- */

typedef struct blob_walk {
    const char *folder; /* REPO/blobs */
    uint64_t n_bytes;
    size_t n_files;
    int64_t used_s;
} blob_walk;

static bool visit_blob(void *user, const char *name)
{
    blob_walk *w = user;
    char path[IO_PATH_BYTES];
    uint64_t size;
    int64_t used_s;
    if (disk_path(path, NULL, "%s/%s", w->folder, name) != WEFT_OK) return true;
    if (disk_look(path, &size, &used_s) != DISK_FILE) return true;
    w->n_bytes += size;
    w->n_files++;
    if (used_s > w->used_s) w->used_s = used_s;
    return true;
}

/* All that a model takes. */
static weft_status sum_blobs(const hub_cache *c, const char *repo, blob_walk *w, weft_error *err)
{
    char path[IO_PATH_BYTES];
    *w = (blob_walk){.folder = path};
    weft_status status = disk_path(path, err, "%s/blobs", repo);
    if (status == WEFT_OK) status = each_name(c->env, path, visit_blob, w, err);
    w->folder = NULL;
    return status;
}

/* ---- list ------------------------------------------------------------------------------------ */

typedef struct lister {
    const hub_cache *c;
    bool (*visit)(void *user, const hub_cached *entry);
    void *user;
    hub_cached entry;
    char repo[IO_PATH_BYTES];
    size_t n_snapshots;
    bool stopped;
    weft_status status;
    weft_error *err;
} lister;

/* Marks files whose blob was counted before, so that each is counted once. */
static weft_status sum_files(lister *l, hub_file *files, size_t n, weft_error *err)
{
    map seen;
    weft_status status = map_init(&seen, l->c->env->allocator, n, err);
    if (status != WEFT_OK) return status;
    l->entry.kind = hub_has_safetensors(files, n) ? "safetensors" : "other";
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        uint32_t previous = MAP_NONE;
        if (str_ends(str_of(files[i].name), ".gguf") && l->entry.kind[0] == 'o')
            l->entry.kind = "gguf";
        if (files[i].used_s > l->entry.used_s) l->entry.used_s = files[i].used_s;
        if (files[i].hash[0] != '\0')
            status = map_put(&seen, str_of(files[i].hash), 1, &previous, err);
        if (previous == MAP_NONE) l->entry.n_bytes += files[i].size;
    }
    map_deinit(&seen);
    l->entry.n_files = n;
    return status;
}

static bool visit_snapshot(void *user, const char *name)
{
    lister *l = user;
    char path[IO_PATH_BYTES];
    hub_file *files;
    size_t n;
    if (!hub_is_hex(str_of(name), HUB_COMMIT_BYTES - 1) ||
        disk_path(path, NULL, "%s/snapshots/%s", l->repo, name) != WEFT_OK)
        return true;
    l->entry = (hub_cached){.id = l->entry.id, .path = path, .kind = "other"};
    memcpy(l->entry.commit, name, HUB_COMMIT_BYTES);
    strbuf refs;
    arena memory;
    strbuf_init(&refs, l->c->env->allocator, 1 << 16);
    arena_init(&memory, l->c->env->allocator, 0);
    l->status = walk_refs(l->c, l->repo, name, &refs, l->err);
    l->entry.refs = strbuf_text(&refs);
    if (l->status == WEFT_OK) l->status = hub_cache_files(l->c, path, &memory, &files, &n, l->err);
    if (l->status == WEFT_OK) l->status = sum_files(l, files, n, l->err);
    if (l->status == WEFT_OK) l->stopped = !l->visit(l->user, &l->entry);
    arena_deinit(&memory);
    strbuf_deinit(&refs);
    l->n_snapshots++;
    return l->status == WEFT_OK && !l->stopped;
}

static bool visit_model(void *user, const char *name)
{
    lister *l = user;
    char path[IO_PATH_BYTES];
    hub_id id;
    if (!hub_id_of_folder(&id, str_of(name)) || hub_cache_repo(l->c, &id, l->repo, NULL) != WEFT_OK)
        return true;
    l->entry = (hub_cached){.id = id};
    l->n_snapshots = 0;
    weft_status status = disk_path(path, l->err, "%s/snapshots", l->repo);
    if (status == WEFT_OK) status = each_name(l->c->env, path, visit_snapshot, l, l->err);
    if (l->status == WEFT_OK) l->status = status;
    if (l->n_snapshots > 0 || status != WEFT_OK) return l->status == WEFT_OK && !l->stopped;
    blob_walk blobs;
    l->status = sum_blobs(l->c, l->repo, &blobs, l->err);
    if (l->status != WEFT_OK || blobs.n_files == 0) return l->status == WEFT_OK;
    l->entry = (hub_cached){.id = id,
                            .refs = "",
                            .kind = "incomplete",
                            .path = l->repo,
                            .n_bytes = blobs.n_bytes,
                            .n_files = blobs.n_files,
                            .used_s = blobs.used_s};
    l->stopped = !l->visit(l->user, &l->entry);
    return !l->stopped;
}

weft_status hub_cache_list(const hub_cache *c, bool (*visit)(void *user, const hub_cached *entry),
                           void *user, weft_error *err)
{
    lister l = {.c = c, .visit = visit, .user = user, .err = err};
    weft_status status = each_name(c->env, c->root, visit_model, &l, err);
    return status == WEFT_OK ? l.status : status;
}

/* ---- remove ---------------------------------------------------------------------------------- */

typedef struct removal {
    const hub_cache *c;
    const char *repo; /* a path */
    char commit[HUB_COMMIT_BYTES];
    arena memory;
    map blobs; /* of the snapshot: the index of a file that has it */
    hub_file *files;
    size_t n_files;
    size_t n_others; /* snapshots beside it */
    weft_status status;
    weft_error *err;
} removal;

/* What another snapshot has stays. */
static bool visit_other(void *user, const char *name)
{
    removal *r = user;
    char path[IO_PATH_BYTES];
    hub_file *files;
    size_t n;
    uint64_t size;
    int64_t used;
    if (strcmp(name, r->commit) == 0) return true;
    r->status = disk_path(path, r->err, "%s/snapshots/%s", r->repo, name);
    if (r->status != WEFT_OK || disk_look(path, &size, &used) != DISK_FOLDER)
        return r->status == WEFT_OK;
    r->n_others++;
    r->status = hub_cache_files(r->c, path, &r->memory, &files, &n, r->err);
    for (size_t i = 0; i < n && r->status == WEFT_OK; i++) {
        uint32_t at =
            files[i].hash[0] == '\0' ? MAP_NONE : map_get(&r->blobs, str_of(files[i].hash));
        if (at != MAP_NONE) r->files[at].chosen = false;
    }
    return r->status == WEFT_OK;
}

/* Marks one file for each blob that is to go, and each that is no link. */
static weft_status plan_snapshot(removal *r, const char *snapshot, uint64_t *n_bytes,
                                 weft_error *err)
{
    char path[IO_PATH_BYTES];
    weft_status status = hub_cache_files(r->c, snapshot, &r->memory, &r->files, &r->n_files, err);
    if (status == WEFT_OK) status = map_init(&r->blobs, r->c->env->allocator, r->n_files, err);
    for (size_t i = 0; i < r->n_files && status == WEFT_OK; i++) {
        uint32_t previous = MAP_NONE;
        if (r->files[i].hash[0] != '\0') {
            status = map_put(&r->blobs, str_of(r->files[i].hash), (uint32_t)i, &previous, err);
            if (previous != MAP_NONE) r->files[previous].chosen = false;
        }
        r->files[i].chosen = true;
    }
    if (status == WEFT_OK) status = disk_path(path, err, "%s/snapshots", r->repo);
    /* Without knowing what is beside it, nothing can be let go. */
    if (status == WEFT_OK) status = each_name(r->c->env, path, visit_other, r, err);
    if (status == WEFT_OK) status = r->status;
    for (size_t i = 0; i < r->n_files; i++) *n_bytes += r->files[i].chosen ? r->files[i].size : 0;
    return status;
}

/* Refs first and blobs last: whatever stops this, no snapshot has links to nothing but one that is
 * on its way out. */
static weft_status remove_snapshot(const removal *r, const char *snapshot, weft_error *err)
{
    char path[IO_PATH_BYTES];
    char name[64];
    weft_status status = walk_refs(r->c, r->repo, r->commit, NULL, err);
    if (status == WEFT_OK) status = disk_remove(snapshot, err);
    for (size_t i = 0; i < 2 && status == WEFT_OK; i++) {
        snprintf(name, sizeof name, i == 0 ? ".no_exist/%s" : "trees/%s.json", r->commit);
        status = disk_path(path, err, "%s/%s", r->repo, name);
        if (status == WEFT_OK) status = disk_remove(path, err);
    }
    for (size_t i = 0; i < r->n_files && status == WEFT_OK; i++) {
        if (!r->files[i].chosen || r->files[i].hash[0] == '\0') continue;
        status = disk_path(path, err, "%s/blobs/%s", r->repo, r->files[i].hash);
        if (status == WEFT_OK) status = disk_remove(path, err);
    }
    return status;
}

static weft_status remove_revision(const hub_cache *c, const hub_id *id, const char *repo, bool dry,
                                   uint64_t *n_bytes, weft_error *err)
{
    char snapshot[IO_PATH_BYTES];
    char name[HUB_REPO_BYTES];
    removal r = {.c = c, .repo = repo, .blobs = {.allocator = c->env->allocator}, .err = err};
    hub_id_repo(id, name);
    if (!hub_cache_commit(c, id, r.commit))
        return err_set(err, WEFT_IO, "%s has no revision '%.60s' in the cache", name, id->revision);
    weft_status status = hub_cache_snapshot(c, id, r.commit, snapshot, err);
    if (status != WEFT_OK) return status;
    arena_init(&r.memory, c->env->allocator, 0);
    status = plan_snapshot(&r, snapshot, n_bytes, err);
    if (status == WEFT_OK && !dry) status = remove_snapshot(&r, snapshot, err);
    if (status == WEFT_OK && !dry && r.n_others == 0) status = disk_remove(repo, err);
    map_deinit(&r.blobs);
    arena_deinit(&r.memory);
    return status;
}

weft_status hub_cache_remove(const hub_cache *c, const hub_id *id, bool dry, uint64_t *n_bytes,
                             bool (*wait)(void *user), void *user, weft_error *err)
{
    char repo[IO_PATH_BYTES];
    char path[IO_PATH_BYTES];
    char name[HUB_REPO_BYTES];
    uint64_t size;
    int64_t used;
    disk_lock lock = {-1};
    *n_bytes = 0;
    hub_id_repo(id, name);
    weft_status status = hub_cache_repo(c, id, repo, err);
    if (status != WEFT_OK) return status;
    if (disk_look(repo, &size, &used) != DISK_FOLDER)
        return err_set(err, WEFT_IO, "%s is not in the cache %.120s", name, c->root);
    status = hub_cache_lock_path(c, id, "weft", path, err);
    if (status == WEFT_OK) status = disk_lock_take(&lock, path, wait, user, err);
    if (status != WEFT_OK) return status;
    if (id->revision[0] != '\0') {
        status = remove_revision(c, id, repo, dry, n_bytes, err);
    } else {
        blob_walk blobs;
        status = sum_blobs(c, repo, &blobs, err);
        *n_bytes = blobs.n_bytes;
        if (status == WEFT_OK && !dry) status = disk_remove(repo, err);
    }
    disk_lock_give(&lock);
    return status;
}
