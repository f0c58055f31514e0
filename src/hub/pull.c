/* pull.c - a model's files: asked for, chosen, fetched, linked. */
#include "hub/pull.h"

#include <stdio.h>
#include <string.h>

#include "hub/fetch.h"

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct answer {
    pulling *p;
    strbuf text;
} answer;

static weft_status answer_begin(void *user, const hub_reply *reply, weft_error *err)
{
    answer *a = user;
    (void)reply;
    (void)err;
    strbuf_clear(&a->text);
    return WEFT_OK;
}

static weft_status answer_body(void *user, const char *bytes, size_t n_bytes, weft_error *err)
{
    answer *a = user;
    weft_status status = strbuf_add(&a->text, bytes, n_bytes);
    if (status == WEFT_LIMIT)
        return err_set(err, status, "the hub's answer has more than %zu bytes",
                       HUB_LISTING_BYTES_MOST);
    return status == WEFT_OK ? status : err_set(err, status, "out of memory for the hub's answer");
}

static bool answer_go_on(void *user)
{
    const answer *a = user;
    return pulling_tell(a->p, HUB_EVENT_BYTES);
}

static void answer_again(void *user, const char *why, uint64_t wait_ms)
{
    const answer *a = user;
    pulling_again(a->p, why, wait_ms);
}

static weft_status ask(pulling *p, weft_error *err)
{
    const weft_allocator *allocator = p->c->env->allocator;
    strbuf url;
    answer a = {.p = p};
    strbuf_init(&url, allocator, HUB_URL_BYTES - 1);
    strbuf_init(&a.text, allocator, HUB_LISTING_BYTES_MOST);
    strbuf_printf(&url, "%s/api/models/", p->options->server.endpoint);
    hub_url_add(&url, p->repo, true);
    strbuf_add_text(&url, "/revision/");
    hub_url_add(&url, hub_id_revision(p->id), false);
    strbuf_add_text(&url, "?blobs=true");
    weft_status status = url.status;
    if (status != WEFT_OK) err_set(err, status, "the address of %s does not fit", p->repo);
    hub_transfer t = {.url = strbuf_text(&url),
                      .name = "",
                      .size = HUB_SIZE_UNKNOWN,
                      .user = &a,
                      .begin = answer_begin,
                      .body = answer_body,
                      .go_on = answer_go_on,
                      .again = answer_again};
    if (status == WEFT_OK) status = hub_http_get(p->http, &t, err);
    if (status == WEFT_OK)
        status =
            hub_listing_parse(&p->listing, allocator, (str){strbuf_text(&a.text), a.text.len}, err);
    strbuf_deinit(&a.text);
    strbuf_deinit(&url);
    return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static weft_status plan(pulling *p, weft_error *err)
{
    const hub_listing *l = &p->listing;
    weft_status status = hub_choose(l->files, l->n_files, &p->options->wish, p->choices, err);
    if (status != WEFT_OK) {
        err_context(err, "%.60s: ", p->repo);
        return status;
    }
    for (size_t i = 0; i < l->n_files; i++) {
        const hub_file *f = &l->files[i];
        if (!f->chosen) continue;
        if (f->hash[0] == '\0')
            return err_set(err, WEFT_UNSUPPORTED,
                           "the hub says no hash of '%.100s', so it cannot be verified", f->name);
        p->event.all_bytes += f->size;
        p->event.n_files++;
        if (p->options->chosen != NULL) p->options->chosen(p->options->user, f);
    }
    p->result->n_files = p->event.n_files;
    p->result->n_bytes = p->event.all_bytes;
    return WEFT_OK;
}

/* Before anything is fetched. */
static weft_status check_room(const pulling *p, weft_error *err)
{
    uint64_t need = 0;
    uint64_t room;
    for (size_t i = 0; i < p->listing.n_files; i++) {
        const hub_file *f = &p->listing.files[i];
        if (f->chosen && !fetch_has_blob(p, f)) need += f->size - fetch_begun(p, f);
    }
    if (need == 0) return WEFT_OK;
    weft_status status = disk_free(p->folder, &room, err);
    if (status != WEFT_OK || (room > HUB_DISK_SPARE && need <= room - HUB_DISK_SPARE))
        return status;
    return err_set(err, WEFT_IO,
                   "%.60s needs %llu more bytes, the disk of %.80s has %llu free, %llu are kept "
                   "free",
                   p->repo, (unsigned long long)need, p->c->root, (unsigned long long)room,
                   (unsigned long long)HUB_DISK_SPARE);
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

/* "../../blobs/HASH", with one more ".." for each folder in the name. */
static weft_status link_file(const pulling *p, const char *snapshot, const hub_file *file,
                             weft_error *err)
{
    char path[IO_PATH_BYTES];
    char target[IO_PATH_BYTES];
    char up[3 * HUB_PARTS_MOST + 1] = "";
    size_t n = 0;
    for (const char *c = file->name; *c != '\0'; c++) {
        if (*c == '/' && n + 3 < sizeof up) {
            memcpy(up + n, "../", 4);
            n += 3;
        }
    }
    weft_status status = disk_path(path, err, "%s/%s", snapshot, file->name);
    if (status == WEFT_OK) status = disk_path(target, err, "%s../../blobs/%s", up, file->hash);
    if (status != WEFT_OK) return status;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    status = disk_make_folders(path, err);
    *slash = '/';
    if (status == WEFT_OK) status = disk_link(target, path, err);
    const io *files = p->c->env->io;
    return status == WEFT_OK ? files->sync_folder(files, path, err) : status;
}

static weft_status link_all(pulling *p, weft_error *err)
{
    char snapshot[IO_PATH_BYTES];
    const io *files = p->c->env->io;
    weft_status status = hub_cache_snapshot(p->c, p->id, p->listing.commit, snapshot, err);
    if (status == WEFT_OK) status = disk_make_folders(snapshot, err);
    for (size_t i = 0; i < p->listing.n_files && status == WEFT_OK; i++) {
        if (p->listing.files[i].chosen) status = link_file(p, snapshot, &p->listing.files[i], err);
    }
    if (status == WEFT_OK) status = files->sync_folder(files, snapshot, err);
    if (status == WEFT_OK) status = hub_cache_set_ref(p->c, p->id, p->listing.commit, err);
    if (status == WEFT_OK) status = disk_path(p->result->path, err, "%s", snapshot);
    return status;
}

/* The one GGUF model among what was chosen; NULL: there are others. */
static const hub_file *only_gguf(const pulling *p)
{
    const hub_file *first = NULL;
    for (size_t i = 0; i < p->listing.n_files; i++) {
        const hub_file *f = &p->listing.files[i];
        if (!f->chosen) continue;
        if (!str_ends(str_of(f->name), ".gguf")) return NULL;
        if (first == NULL) first = f;
    }
    /* Patterns may have chosen several. */
    return p->options->wish.n_patterns > 0 && p->result->n_files > 1 ? NULL : first;
}

/* The path that a command can open. */
static weft_status name_result(const pulling *p, weft_error *err)
{
    char snapshot[IO_PATH_BYTES];
    const hub_file *first = only_gguf(p);
    if (first == NULL) return WEFT_OK;
    memcpy(snapshot, p->result->path, sizeof snapshot);
    return disk_path(p->result->path, err, "%s/%s", snapshot, first->name);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool on_lock(void *user)
{
    return pulling_tell(user, HUB_EVENT_WAIT);
}

static weft_status fetch_all(pulling *p, weft_error *err)
{
    char blobs[IO_PATH_BYTES];
    weft_status status = disk_path(blobs, err, "%s/blobs", p->folder);
    if (status == WEFT_OK) status = disk_make_folders(blobs, err);
    if (status == WEFT_OK) status = check_room(p, err);
    if (status != WEFT_OK) return status;
    pulling_tell(p, HUB_EVENT_PLAN);
    for (size_t i = 0; i < p->listing.n_files && status == WEFT_OK; i++) {
        const hub_file *f = &p->listing.files[i];
        if (!f->chosen) continue;
        p->event.file_i++;
        status = fetch_file(p, f, err);
    }
    p->result->n_fetched = p->event.n_fetched;
    if (status == WEFT_OK) status = link_all(p, err);
    return status == WEFT_OK ? name_result(p, err) : status;
}

/* What is to be had is asked before anything is written, so that a name that no model has leaves
 * nothing behind. */
static weft_status prepare(pulling *p, weft_error *err)
{
    weft_status status = ask(p, err);
    if (status != WEFT_OK) return status;
    memcpy(p->result->commit, p->listing.commit, sizeof p->result->commit);
    return plan(p, err);
}

static weft_status fetch_locked(pulling *p, weft_error *err)
{
    char path[IO_PATH_BYTES];
    disk_lock lock = {-1};
    weft_status status = hub_cache_lock_path(p->c, p->id, "weft", path, err);
    if (status == WEFT_OK) status = disk_lock_take(&lock, path, on_lock, p, err);
    if (status != WEFT_OK) return status;
    status = fetch_all(p, err);
    disk_lock_give(&lock);
    return status;
}

weft_status hub_pull(const hub_cache *c, const hub_id *id, const hub_pull_options *options,
                     hub_pulled *result, strbuf *choices, weft_error *err)
{
    pulling p = {.c = c, .id = id, .options = options, .result = result, .choices = choices};
    *result = (hub_pulled){.n_files = 0};
    hub_id_repo(id, p.repo);
    weft_status status = hub_cache_repo(c, id, p.folder, err);
    if (status == WEFT_OK)
        status = hub_http_open(&p.http, c->env->allocator, &options->server, id, err);
    if (status != WEFT_OK) return status;
    status = prepare(&p, err);
    if (status == WEFT_OK && !options->dry) status = fetch_locked(&p, err);
    hub_listing_deinit(&p.listing);
    hub_http_close(p.http);
    return status;
}
