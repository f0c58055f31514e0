/* cache.h - models on disk, as Hugging Face's tools keep them, so that each finds what the other
 * fetched:
 *
 *   ROOT/models--ORG--NAME/blobs/HASH                a file, under its hash
 *                         /blobs/HASH.incomplete     the beginning of one
 *                         /snapshots/COMMIT/FILE     a link to ../../blobs/HASH
 *                         /refs/REV                  the commit that a branch or tag had
 *   ROOT/.locks/models--ORG--NAME/HASH.lock          held while HASH is fetched
 *
 * Source: "Hub Local Cache" of the hub's documentation. */
#ifndef HUB_CACHE_H
#define HUB_CACHE_H

#include "base/env.h"
#include "hub/choose.h"
#include "hub/disk.h"

typedef struct hub_cache {
    const env *env;
    const char *root;
} hub_cache;

/* ROOT/models--ORG--NAME, and its lock among programs of ours. */
weft_status hub_cache_repo(const hub_cache *c, const hub_id *id, char *path, weft_error *err);
weft_status hub_cache_lock_path(const hub_cache *c, const hub_id *id, const char *name, char *path,
                                weft_error *err);

/* The commit of id's revision, if its snapshot is there: a branch or tag, a commit, or at least 7
 * digits of one. */
bool hub_cache_commit(const hub_cache *c, const hub_id *id, char commit[HUB_COMMIT_BYTES]);

/* REPO/snapshots/COMMIT. */
weft_status hub_cache_snapshot(const hub_cache *c, const hub_id *id, const char *commit, char *path,
                               weft_error *err);

/* Files of a snapshot, by name, in memory; hash is "" where a file is no link to a blob. Names that
 * hub_file_name_valid refuses are left out. */
weft_status hub_cache_files(const hub_cache *c, const char *snapshot, arena *memory,
                            hub_file **files, size_t *n_files, weft_error *err);

/* What id means on this machine: a folder of safetensors or a GGUF file. IO when it is not there,
 * ARGUMENT when it is more than one; choices as in hub_choose. */
weft_status hub_cache_find(const hub_cache *c, const hub_id *id, char *path, strbuf *choices,
                           weft_error *err);

/* The commit that a branch or tag has from now on. */
weft_status hub_cache_set_ref(const hub_cache *c, const hub_id *id, const char *commit,
                              weft_error *err);

/* ---- listing and removing ---- */

typedef struct hub_cached {
    hub_id id;                     /* without revision */
    char commit[HUB_COMMIT_BYTES]; /* "": files of no snapshot, of a pull that was stopped */
    const char *refs;              /* "main, v1"; "" */
    const char *kind;              /* "safetensors", "gguf", "other", "incomplete" */
    const char *path;
    uint64_t n_bytes; /* each blob once */
    size_t n_files;
    int64_t used_s; /* when one was last read; 0: not known */
} hub_cached;

/* Calls visit for each snapshot of each model, by name; false stops. */
weft_status hub_cache_list(const hub_cache *c, bool (*visit)(void *user, const hub_cached *entry),
                           void *user, weft_error *err);

/* Removes a model, or, where id has a revision, its snapshot with the blobs that no other snapshot
 * has. First says what that frees; dry: does nothing else. wait: as in disk_lock_take. IO when it
 * is not there. */
weft_status hub_cache_remove(const hub_cache *c, const hub_id *id, bool dry, uint64_t *n_bytes,
                             bool (*wait)(void *user), void *user, weft_error *err);

#endif
