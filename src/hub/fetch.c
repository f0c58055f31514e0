/* fetch.c - the bytes of one file: the beginning that is there, the rest from the hub, a hash over
 * both, and the name only when that is right. */
#include "hub/fetch.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

enum { CHECK_BYTES = 1 << 20 };

typedef struct fetch {
    pulling *p;
    const hub_file *file;
    io_file f;
    hash_stream hash; /* of the first n_bytes */
    bool hashing;
    uint64_t n_bytes;
} fetch;

bool pulling_tell(pulling *p, hub_event_kind kind)
{
    p->event.kind = kind;
    return p->options->tell(p->options->user, &p->event);
}

void pulling_again(pulling *p, const char *why, uint64_t wait_ms)
{
    p->event.why = why;
    p->event.wait_ms = wait_ms;
    pulling_tell(p, HUB_EVENT_AGAIN);
    p->event.why = NULL;
}

static weft_status stopped(weft_error *err)
{
    return err_set(err, WEFT_CANCELLED, "stopped; what is there stays, and a later pull goes on");
}

static weft_status blob_path(const pulling *p, const hub_file *file, const char *end, char *path,
                             weft_error *err)
{
    return disk_path(path, err, "%s/blobs/%s%s", p->folder, file->hash, end);
}

bool fetch_has_blob(const pulling *p, const hub_file *file)
{
    char path[IO_PATH_BYTES];
    uint64_t size;
    int64_t used;
    return blob_path(p, file, "", path, NULL) == WEFT_OK &&
           disk_look(path, &size, &used) == DISK_FILE && size == file->size;
}

uint64_t fetch_begun(const pulling *p, const hub_file *file)
{
    char path[IO_PATH_BYTES];
    uint64_t size;
    int64_t used;
    bool is_file = blob_path(p, file, ".incomplete", path, NULL) == WEFT_OK &&
                   disk_look(path, &size, &used) == DISK_FILE;
    return is_file && size <= file->size ? size : 0;
}

/* ---- hashing --------------------------------------------------------------------------------- */

/* Git's hash of a blob begins with its kind and size. */
static weft_status hash_begin(fetch *x, weft_error *err)
{
    unsigned char digest[32];
    char head[32];
    if (x->hashing) hash_stream_close(&x->hash, digest, NULL);
    x->hashing = false;
    x->n_bytes = 0;
    bool git = strlen(x->file->hash) == 40;
    weft_status status =
        git ? hash_stream_open_sha1(&x->hash, err) : hash_stream_open(&x->hash, err);
    if (status != WEFT_OK) return status;
    x->hashing = true;
    if (!git) return WEFT_OK;
    int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)x->file->size);
    hash_stream_add(&x->hash, head, (size_t)n + 1);
    return WEFT_OK;
}

/* Into actual [HUB_HASH_BYTES]. */
static weft_status hash_end(fetch *x, char *actual, weft_error *err)
{
    unsigned char digest[32];
    size_t n = strlen(x->file->hash) / 2;
    x->hashing = false;
    weft_status status = hash_stream_close(&x->hash, digest, err);
    for (size_t i = 0; i < n; i++) snprintf(actual + 2 * i, 3, "%02x", digest[i]);
    return status;
}

/* The first size bytes of the file, which are there. */
static weft_status hash_there(fetch *x, uint64_t size, weft_error *err)
{
    const env *e = x->p->c->env;
    weft_status status = hash_begin(x, err);
    char *room = mem_alloc(e->allocator, CHECK_BYTES);
    if (status == WEFT_OK && room == NULL)
        status = err_set(err, WEFT_NOMEM, "out of memory to read '%.80s'", x->file->name);
    while (status == WEFT_OK && x->n_bytes < size) {
        uint64_t left = size - x->n_bytes;
        size_t n = left < CHECK_BYTES ? (size_t)left : CHECK_BYTES;
        status = e->io->read_at(e->io, &x->f, x->n_bytes, room, n, err);
        if (status != WEFT_OK) break;
        hash_stream_add(&x->hash, room, n);
        x->n_bytes += n;
        if (!pulling_tell(x->p, HUB_EVENT_CHECK)) status = stopped(err);
    }
    mem_free(e->allocator, room, CHECK_BYTES);
    return status;
}

/* ---- the transfer ---------------------------------------------------------------------------- */

/* What the hub says of the file now against what it said in its list. */
static weft_status check_reply(const fetch *x, const hub_reply *r, weft_error *err)
{
    const hub_file *file = x->file;
    const char *commit = x->p->listing.commit;
    uint64_t size = r->linked_size != HUB_SIZE_UNKNOWN ? r->linked_size : r->size;
    if (r->commit[0] != '\0' && strcmp(r->commit, commit) != 0)
        return err_set(err, WEFT_FORMAT, "the hub sends '%.60s' of commit %.12s, asked for %.12s",
                       file->name, r->commit, commit);
    /* Others than the hub's own may have tags of another kind. */
    bool comparable = hub_is_hex(str_of(r->hash), strlen(file->hash));
    if (comparable && strcmp(r->hash, file->hash) != 0)
        return err_set(err, WEFT_FORMAT,
                       "the hub sends '%.60s' with hash %.12s..., it said %.12s...", file->name,
                       r->hash, file->hash);
    if (size != HUB_SIZE_UNKNOWN && size != file->size)
        return err_set(err, WEFT_FORMAT, "the hub sends '%.60s' with %llu bytes, it said %llu",
                       file->name, (unsigned long long)size, (unsigned long long)file->size);
    if (r->size != HUB_SIZE_UNKNOWN && r->size != file->size)
        return err_set(err, WEFT_FORMAT, "'%.60s' comes with %llu bytes, the hub said %llu",
                       file->name, (unsigned long long)r->size, (unsigned long long)file->size);
    return WEFT_OK;
}

static weft_status on_begin(void *user, const hub_reply *reply, weft_error *err)
{
    fetch *x = user;
    weft_status status = check_reply(x, reply, err);
    if (status != WEFT_OK || reply->first == x->n_bytes) return status;
    /* The host sends the file from its first byte whatever was asked. */
    x->p->event.n_bytes -= x->n_bytes;
    status = disk_truncate(&x->f, 0, err);
    return status == WEFT_OK ? hash_begin(x, err) : status;
}

static weft_status on_body(void *user, const char *bytes, size_t n_bytes, weft_error *err)
{
    fetch *x = user;
    pulling *p = x->p;
    const env *e = p->c->env;
    if (n_bytes > x->file->size - x->n_bytes)
        return err_set(err, WEFT_FORMAT, "'%.80s' has more bytes than the %llu that the hub said",
                       x->file->name, (unsigned long long)x->file->size);
    weft_status status = e->io->write_at(e->io, &x->f, x->n_bytes, bytes, n_bytes, err);
    if (status != WEFT_OK) return status;
    hash_stream_add(&x->hash, bytes, n_bytes);
    x->n_bytes += n_bytes;
    p->event.n_bytes += n_bytes;
    p->event.n_fetched += n_bytes;
    return WEFT_OK;
}

static bool on_go_on(void *user)
{
    const fetch *x = user;
    return pulling_tell(x->p, HUB_EVENT_BYTES);
}

static void on_again(void *user, const char *why, uint64_t wait_ms)
{
    const fetch *x = user;
    pulling_again(x->p, why, wait_ms);
}

static weft_status transfer(fetch *x, weft_error *err)
{
    pulling *p = x->p;
    strbuf url;
    strbuf_init(&url, p->c->env->allocator, HUB_URL_BYTES - 1);
    strbuf_add_text(&url, p->options->server.endpoint);
    strbuf_add_char(&url, '/');
    hub_url_add(&url, p->repo, true);
    strbuf_printf(&url, "/resolve/%s/", p->listing.commit);
    hub_url_add(&url, x->file->name, true);
    weft_status status = url.status;
    if (status != WEFT_OK)
        err_set(err, status, "the address of '%.80s' does not fit", x->file->name);
    hub_transfer t = {.url = strbuf_text(&url),
                      .name = x->file->name,
                      .offset = x->n_bytes,
                      .size = x->file->size,
                      .user = x,
                      .begin = on_begin,
                      .body = on_body,
                      .go_on = on_go_on,
                      .again = on_again};
    if (status == WEFT_OK) status = hub_http_get(p->http, &t, err);
    strbuf_deinit(&url);
    return status;
}

/* From what is there to all of it; actual: its hash. x->f is open. */
static weft_status complete(fetch *x, uint64_t there, char *actual, weft_error *err)
{
    const io *files = x->p->c->env->io;
    weft_status status = WEFT_OK;
    if (there > x->file->size) {
        there = 0;
        status = disk_truncate(&x->f, 0, err);
    }
    x->p->event.n_bytes += there;
    if (status == WEFT_OK) status = hash_there(x, there, err);
    if (status == WEFT_OK && x->n_bytes < x->file->size) status = transfer(x, err);
    if (status == WEFT_OK) status = files->sync(files, &x->f, err);
    if (status == WEFT_OK) status = hash_end(x, actual, err);
    return status;
}

/* A blob under its name. */
static weft_status publish(const fetch *x, const char *incomplete, weft_error *err)
{
    const io *files = x->p->c->env->io;
    char blob[IO_PATH_BYTES];
    weft_status status = blob_path(x->p, x->file, "", blob, err);
    if (status == WEFT_OK) status = files->rename(files, incomplete, blob, err);
    return status == WEFT_OK ? files->sync_folder(files, blob, err) : status;
}

/* One try, whose beginning may be what a stopped pull left. *right false: all came, and is not what
 * the hub said. */
static weft_status attempt(fetch *x, bool *right, char *actual, weft_error *err)
{
    unsigned char digest[32];
    char path[IO_PATH_BYTES];
    uint64_t there = 0;
    const io *files = x->p->c->env->io;
    *right = false;
    weft_status status = blob_path(x->p, x->file, ".incomplete", path, err);
    if (status == WEFT_OK) status = disk_open(path, &x->f, &there, err);
    if (status != WEFT_OK) return status;
    status = complete(x, there, actual, err);
    if (x->hashing) hash_stream_close(&x->hash, digest, NULL);
    x->hashing = false;
    weft_status closed = files->close(files, &x->f, status == WEFT_OK ? err : NULL);
    if (status == WEFT_OK) status = closed;
    if (status != WEFT_OK) return status;
    *right = strcmp(actual, x->file->hash) == 0;
    if (*right) return publish(x, path, err);
    x->p->event.n_bytes -= x->n_bytes;
    files->remove(files, path);
    return WEFT_OK;
}

/* A blob that is there is hashed where that was asked for; a wrong one is as good as none. */
static weft_status look(fetch *x, bool *there, weft_error *err)
{
    char path[IO_PATH_BYTES];
    char actual[HUB_HASH_BYTES];
    uint64_t size;
    const io *files = x->p->c->env->io;
    *there = fetch_has_blob(x->p, x->file);
    if (!*there || !x->p->options->verify) return WEFT_OK;
    weft_status status = blob_path(x->p, x->file, "", path, err);
    if (status == WEFT_OK) status = files->open(files, path, &x->f, &size, err);
    if (status != WEFT_OK) return status;
    status = hash_there(x, x->file->size, err);
    if (status == WEFT_OK) status = hash_end(x, actual, err);
    files->close(files, &x->f, NULL);
    if (x->hashing) hash_end(x, actual, NULL);
    if (status == WEFT_OK) *there = strcmp(actual, x->file->hash) == 0;
    return status;
}

static bool on_lock(void *user)
{
    return pulling_tell(user, HUB_EVENT_WAIT);
}

static weft_status fetch_locked(fetch *x, weft_error *err)
{
    bool there;
    char actual[HUB_HASH_BYTES] = "";
    pulling *p = x->p;
    weft_status status = look(x, &there, err);
    if (status == WEFT_OK && there) p->event.n_bytes += x->file->size;
    for (uint32_t i = 0; i < 2 && status == WEFT_OK && !there; i++) {
        if (i > 0) on_again(x, "a file's hash is wrong; from its first byte again", 0);
        status = attempt(x, &there, actual, err);
        if (status == WEFT_OK && there) p->result->n_new++;
    }
    if (status == WEFT_OK && !there)
        status = err_set(err, WEFT_FORMAT, "'%.60s' has hash %.16s..., the hub said %.16s...",
                         x->file->name, actual, x->file->hash);
    return status;
}

weft_status fetch_file(pulling *p, const hub_file *file, weft_error *err)
{
    char path[IO_PATH_BYTES];
    disk_lock lock = {-1};
    fetch x = {.p = p, .file = file, .f = {.fd = -1}};
    p->event.file = file->name;
    p->event.file_bytes = file->size;
    weft_status status = hub_cache_lock_path(p->c, p->id, file->hash, path, err);
    if (status == WEFT_OK) status = disk_lock_take(&lock, path, on_lock, p, err);
    if (status != WEFT_OK) return status;
    status = fetch_locked(&x, err);
    disk_lock_give(&lock);
    if (status == WEFT_OK && !pulling_tell(p, HUB_EVENT_FILE)) status = stopped(err);
    return status;
}
