/* disk_fetch.c - parts of a folder, back into the prefix cache: which go on from each other by the
 * tokens of a prompt, then their bytes, some in each step, into pages that nobody sees before all
 * are there (kv/stage.h). */
#include "kv/disk.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "kv/prefix_match.h"

/* ---- which parts ----------------------------------------------------------------------------- */

/* A page of the prompt, and what is known of it. */
typedef struct page_keys {
    uint64_t keys[PART_TOKENS_MOST];
    uint32_t n;
    unsigned char before[STATE_DIGEST];
    unsigned char digests[PART_TOKENS_MOST + 1][STATE_DIGEST]; /* of the first so many keys */
    bool known[PART_TOKENS_MOST + 1];
} page_keys;

/* The way through the folder so far. */
typedef struct search {
    kv_disk *d;
    const kv_space *space;
    const kv_history *h; /* all but the last token */
    bool converted;
    fetch_part *parts; /* [pages of h + 1] */
    uint32_t n_parts;  /* pages */
    uint32_t n_looks;  /* files that were looked into */
    /* The last boundary that may be used, of so many pages; 0: none. */
    uint32_t boundary_at, boundary_pages;
    fetch_part boundary;
    uint32_t at; /* positions that pages have */
    page_keys page;
} search;

static const unsigned char *digest_of(page_keys *p, uint32_t n)
{
    if (!p->known[n] && part_digest(p->before, p->keys, n, p->digests[n]) != WEFT_OK) return NULL;
    p->known[n] = true;
    return p->digests[n];
}

/* Whether a part is of the prompt's own tokens, up to its end. */
static bool is_equal(page_keys *p, const part_name *name)
{
    if (name->n > p->n) return false;
    const unsigned char *digest = digest_of(p, name->n);
    return digest != NULL && name->digest.low == get_u64(digest) &&
           name->digest.high == get_u64(digest + 8);
}

/* Tokens that a part which goes on in another way has in common: the file knows. */
static uint32_t look_into(search *s, const disk_entry *e)
{
    const io *files = s->d->env->io;
    unsigned char bytes[PART_HEADER + 8 * PART_TOKENS_MOST];
    char path[IO_PATH_BYTES];
    part_place place = {s->space->config, s->converted, PART_PAGE, e->name.page_i, e->name.n};
    size_t n_bytes = PART_HEADER + 8 * (size_t)e->name.n;
    if (e->name.n > place.config->bounds.page_tokens || s->n_looks == DISK_LOOKS) return 0;
    s->n_looks++;
    disk_path(s->d, &e->name, path);
    if (files->read(files, path, 0, bytes, n_bytes, NULL) != WEFT_OK) return 0;
    if (!part_check_header(&place, s->page.before, bytes)) return 0;
    uint32_t n = 0;
    while (n < e->name.n && n < s->page.n &&
           get_u64(bytes + PART_HEADER + 8 * (size_t)n) == s->page.keys[n]) {
        n++;
    }
    return n;
}

/* The part that has most of the page's tokens: how many. */
static uint32_t find_page(search *s, uint32_t page_i, part_name *best)
{
    uint32_t page_tokens = s->space->config->bounds.page_tokens;
    uint32_t most = 0;
    uint64_t before = get_u64(s->page.before);
    for (int looks = 0; looks < 2 && most < s->page.n; looks++) {
        disk_entry *e = disk_first(s->d, before, page_i);
        for (; e != NULL && most < page_tokens; e = disk_next(s->d, e)) {
            if (e->name.kind != PART_PAGE) continue;
            uint32_t n = looks > 0 ? look_into(s, e) : is_equal(&s->page, &e->name) ? e->name.n : 0;
            if (n <= most) continue;
            most = n;
            *best = e->name;
        }
    }
    return most;
}

/* The last boundary within the first n tokens of a page. */
static void find_boundary(search *s, uint32_t page_i, uint32_t n)
{
    const kv_config *c = s->space->config;
    uint32_t most = 0;
    for (disk_entry *e = disk_first(s->d, get_u64(s->page.before), page_i); e != NULL;
         e = disk_next(s->d, e)) {
        if (e->name.kind != PART_BOUNDARY || e->name.n > n || e->name.n <= most) continue;
        if (!is_equal(&s->page, &e->name)) continue;
        most = e->name.n;
        s->boundary.name = e->name;
        memcpy(s->boundary.before, s->page.before, STATE_DIGEST);
        s->boundary_at = page_i * c->bounds.page_tokens + most;
        s->boundary_pages = page_i + 1;
    }
}

static void begin_page(search *s, const unsigned char before[STATE_DIGEST])
{
    uint32_t most = s->space->config->bounds.page_tokens;
    uint32_t left = s->h->n - s->at;
    memcpy(s->page.before, before, STATE_DIGEST);
    memset(s->page.known, 0, sizeof s->page.known);
    s->page.n = left < most ? left : most;
    for (uint32_t i = 0; i < s->page.n; i++) s->page.keys[i] = kv_history_key(s->h, s->at + i);
}

/* Page by page, as far as parts go. */
static void walk(search *s)
{
    uint32_t page_tokens = s->space->config->bounds.page_tokens;
    unsigned char before[STATE_DIGEST];
    s->at = s->n_parts = s->boundary_at = 0;
    if (part_root(s->space, s->converted, &s->d->origin, before) != WEFT_OK) return;
    while (s->at < s->h->n) {
        fetch_part *part = &s->parts[s->n_parts];
        begin_page(s, before);
        uint32_t n = find_page(s, s->n_parts, &part->name);
        if (n == 0) return;
        memcpy(part->before, before, STATE_DIGEST);
        find_boundary(s, s->n_parts++, n);
        s->at += n;
        if (n < page_tokens) return;
        memcpy(before, digest_of(&s->page, n), STATE_DIGEST);
    }
}

/* Positions that a sequence could begin with. */
static uint32_t usable(const search *s)
{
    const kv_config *c = s->space->config;
    uint32_t n = kv_needs_boundary(c) ? s->boundary_at : s->at;
    return s->converted && n < c->start ? 0 : n;
}

/* ---- what is fetched ------------------------------------------------------------------------- */

static bool describe(kv_fetch *f, const search *s)
{
    const kv_config *c = s->space->config;
    kv_state_file *file = &f->file;
    uint32_t len = usable(s);
    *file = (kv_state_file){.config = c, .converted = s->converted, .len = len, .n_boundaries = 1};
    uint32_t *boundaries = arena_array(&f->arena, 1, sizeof *boundaries);
    int32_t *ids = arena_array(&f->arena, len, sizeof *ids);
    uint64_t *media = arena_array(&f->arena, len, sizeof *media);
    bool needs = kv_needs_boundary(c);
    f->n_parts = (needs ? s->boundary_pages : s->n_parts) + needs;
    f->parts = arena_array(&f->arena, f->n_parts, sizeof *f->parts);
    if (boundaries == NULL || ids == NULL || media == NULL || f->parts == NULL) return false;
    boundaries[0] = len;
    file->boundaries = boundaries;
    memcpy(ids, s->h->ids, len * sizeof *ids);
    memset(media, 0, len * sizeof *media);
    if (s->h->media != NULL) memcpy(media, s->h->media, len * sizeof *media);
    f->history = (kv_history){ids, media, len};
    memcpy(f->parts, s->parts, (f->n_parts - needs) * sizeof *f->parts);
    if (needs) f->parts[f->n_parts - 1] = s->boundary;
    return true;
}

/* The better of both trees. */
static bool choose(kv_fetch *f, kv_disk *d, const kv_history *h)
{
    const kv_config *c = f->space->config;
    size_t n_parts = (h->n - 1) / c->bounds.page_tokens + 2;
    search *s = arena_array(&f->arena, 1, sizeof *s);
    fetch_part *parts = arena_array(&f->arena, n_parts, sizeof *parts);
    if (s == NULL || parts == NULL) return false;
    for (int i = 0; i < 2; i++) {
        if (i == 0 && c->start == 0) continue;
        *s = (search){.d = d, .space = f->space, .h = h, .converted = i == 1, .parts = parts};
        walk(s);
        if (usable(s) < f->n_known + DISK_TOKENS_LEAST || usable(s) <= f->file.len) continue;
        if (!describe(f, s)) return false;
    }
    return f->file.len > 0;
}

/* Tokens that the cache has. */
static uint32_t n_known(kv_space *space, const kv_history *history)
{
    kv_match match;
    kv_prefix_match(space, history, &match);
    return match.n_usable;
}

/* *known: tokens that the cache has. */
static bool is_wanted(kv_space *space, const kv_history *history, uint32_t *known)
{
    if (history->n <= DISK_TOKENS_LEAST) return false;
    if (space->config->bounds.page_tokens > PART_TOKENS_MOST) return false;
    *known = n_known(space, history);
    return history->n - 1 >= *known + DISK_TOKENS_LEAST;
}

bool kv_fetch_is_wanted(kv_space *space, const kv_history *history)
{
    uint32_t known;
    return is_wanted(space, history, &known);
}

/* f is open, without room for what was found. */
static bool look_for(kv_fetch *f, kv_disk *d, kv_space *space, const kv_history *history,
                     uint32_t known)
{
    disk_scan(d);
    *f = (kv_fetch){.disk = d, .space = space, .n_known = known};
    arena_init(&f->arena, d->env->allocator, 0);
    kv_history all_but_last = *history;
    all_but_last.n--;
    return choose(f, d, &all_but_last);
}

bool kv_fetch_finds(kv_disk *d, kv_space *space, const kv_history *history)
{
    kv_fetch f;
    bool found = look_for(&f, d, space, history, n_known(space, history));
    arena_deinit(&f.arena);
    return found;
}

fetch_result kv_fetch_open(kv_fetch *f, kv_disk *d, kv_space *space, const kv_history *history)
{
    *f = (kv_fetch){0};
    uint32_t known;
    if (!is_wanted(space, history, &known)) return FETCH_NONE;
    bool found = look_for(f, d, space, history, known);
    weft_error refused = {WEFT_OK, ""};
    weft_status status = WEFT_LIMIT;
    if (found) status = stage_open(&f->stage, d->prefix, &f->arena, &f->file, &refused);
    if (status == WEFT_OK) return FETCH_WAIT;
    kv_fetch_close(f);
    return found && kv_disk_refused(d) ? FETCH_WAIT : FETCH_NONE;
}

void kv_fetch_close(kv_fetch *f)
{
    if (f->disk == NULL) return;
    stage_close(&f->stage);
    arena_deinit(&f->arena);
    f->disk = NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct putting {
    kv_fetch *f;
    const unsigned char *bytes;
} putting;

static void put(void *user, const kv_section *section)
{
    const putting *p = user;
    stage_put(&p->f->stage, section, p->bytes + section->offset);
}

/* Of a file that is there: whether it is what its name says. */
static bool read_part(const kv_fetch *f, const fetch_part *part, const part_place *place,
                      unsigned char *bytes, uint64_t n_bytes)
{
    const io *files = f->disk->env->io;
    char path[IO_PATH_BYTES];
    unsigned char digest[STATE_DIGEST];
    uint64_t size;
    disk_path(f->disk, &part->name, path);
    if (files->size(files, path, &size, NULL) != WEFT_OK || size != n_bytes) return false;
    if (files->read(files, path, 0, bytes, (size_t)n_bytes, NULL) != WEFT_OK) return false;
    return part_check(place, part->before, bytes, digest) &&
           get_u64(digest) == part->name.digest.low &&
           get_u64(digest + 8) == part->name.digest.high;
}

/* What the cache has of the first n pages; NULL: not all. */
static const kv_node *node_behind(const kv_fetch *f, uint32_t n)
{
    const kv_node *node = f->space->roots[f->file.converted];
    for (uint32_t i = 0; i < n && node != NULL; i++) node = kv_node_whole_child(node, &f->history);
    return node;
}

static void copy_page(kv_fetch *f, const kv_node *node)
{
    const kv_config *c = f->file.config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (!kv_keeps_all(c, layer)) continue;
        kv_seq *seq = f->stage.seq;
        kv_page *page = seq->held[seq->first_slots[layer] + node->page_i];
        kv_pool_copy(seq->pool, kv_node_class(node, layer), page, node->rows[layer].page);
    }
}

/* False: it is not what it was said to be, and is no longer there. */
static bool take_part(kv_fetch *f, const fetch_part *part)
{
    kv_disk *d = f->disk;
    part_place place = {f->file.config, f->file.converted, part->name.kind, part->name.page_i,
                        part->name.n};
    uint64_t n_bytes = part_bytes(&place);
    unsigned char *bytes = disk_buffer(d, n_bytes);
    if (bytes == NULL) return false;
    disk_entry *e = disk_find(d, &part->name);
    if (!read_part(f, part, &place, bytes, n_bytes)) {
        d->stats.n_damaged++;
        if (e != NULL) disk_forget(d, e, true);
        return false;
    }
    putting p = {f, bytes};
    part_each(&place, put, &p);
    d->step_read += n_bytes;
    d->stats.bytes_read += n_bytes;
    return true;
}

/* Ends before beginnings: what others stand on is the newest. */
static void touch_all(const kv_fetch *f)
{
    const io *files = f->disk->env->io;
    for (uint32_t i = f->n_parts; i > 0; i--) {
        char path[IO_PATH_BYTES];
        uint64_t size;
        disk_entry *e = disk_find(f->disk, &f->parts[i - 1].name);
        if (e == NULL) continue;
        disk_path(f->disk, &e->name, path);
        files->touch(files, path);
        files->stamp(files, path, &size, &e->used, NULL);
    }
}

static fetch_result finish(kv_fetch *f)
{
    kv_disk *d = f->disk;
    kv_match match;
    kv_history h = f->history;
    stage_publish(&f->stage, f->space, &f->history, &f->chosen);
    touch_all(f);
    h.n++; /* the one more is not looked at */
    kv_prefix_match(f->space, &h, &match);
    if (match.n_usable > f->n_known) {
        d->stats.n_hits++;
        d->stats.n_tokens += match.n_usable - f->n_known;
    }
    kv_fetch_close(f);
    return FETCH_DONE;
}

fetch_result kv_fetch_step(kv_fetch *f)
{
    const kv_disk *d = f->disk;
    const kv_node *node = node_behind(f, f->next);
    for (; f->next < f->n_parts; f->next++) {
        const fetch_part *part = &f->parts[f->next];
        bool is_page = part->name.kind == PART_PAGE;
        if (node != NULL) node = is_page ? kv_node_whole_child(node, &f->history) : NULL;
        if (node != NULL) {
            copy_page(f, node);
            continue;
        }
        if (d->step_read > 0 && d->step_read >= d->step_bytes) return FETCH_WAIT;
        if (take_part(f, part)) continue;
        kv_fetch_close(f);
        return FETCH_LOST;
    }
    return finish(f);
}
