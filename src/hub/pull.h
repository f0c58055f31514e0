/* pull.h - fetching a model into the cache: resumable, verified, one program at a time. */
#ifndef HUB_PULL_H
#define HUB_PULL_H

#include "hub/cache.h"
#include "hub/http.h"

/* Left free on a disk. */
#define HUB_DISK_SPARE ((uint64_t)64 << 20)

typedef enum hub_event_kind {
    HUB_EVENT_PLAN,  /* what is to be fetched is known */
    HUB_EVENT_WAIT,  /* another program has the model */
    HUB_EVENT_CHECK, /* hashing what was there */
    HUB_EVENT_BYTES, /* some came */
    HUB_EVENT_FILE,  /* one is there, verified */
    HUB_EVENT_AGAIN  /* another attempt; why says why */
} hub_event_kind;

typedef struct hub_event {
    hub_event_kind kind;
    const char *file; /* NULL: none in particular */
    uint32_t file_i, n_files;
    uint64_t file_bytes; /* of the file, in all */
    uint64_t n_bytes;    /* there so far */
    uint64_t all_bytes;
    uint64_t n_fetched; /* that came over the network in this pull */
    const char *why;
    uint64_t wait_ms;
} hub_event;

typedef struct hub_pull_options {
    hub_server server;
    hub_wish wish;
    bool verify; /* hashes files that are there already, too */
    bool dry;    /* chooses, and fetches nothing */
    void *user;
    /* Called often, also while nothing comes; false stops the pull with CANCELLED, and what is
     * there stays for a later one. */
    bool (*tell)(void *user, const hub_event *event);
    /* Each file that was chosen, before any is fetched; NULL: nobody wants to know. */
    void (*chosen)(void *user, const hub_file *file);
} hub_pull_options;

typedef struct hub_pulled {
    char path[IO_PATH_BYTES]; /* as hub_cache_find has it; the snapshot where patterns chose */
    char commit[HUB_COMMIT_BYTES];
    uint32_t n_files; /* chosen */
    uint32_t n_new;   /* of them fetched now */
    uint64_t n_bytes; /* of all chosen */
    uint64_t n_fetched;
} hub_pulled;

/* Links of the snapshot, and the ref, come when every file is there and verified. choices as in
 * hub_choose. */
weft_status hub_pull(const hub_cache *c, const hub_id *id, const hub_pull_options *options,
                     hub_pulled *result, strbuf *choices, weft_error *err);

#endif
