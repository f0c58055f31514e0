/* fetch.h - one file of a pull. */
#ifndef HUB_FETCH_H
#define HUB_FETCH_H

#include "hub/pull.h"

/* A pull under way. */
typedef struct pulling {
    const hub_cache *c;
    const hub_id *id;
    const hub_pull_options *options;
    hub_http *http;
    hub_listing listing;
    char repo[HUB_REPO_BYTES];
    char folder[IO_PATH_BYTES]; /* REPO in the cache */
    hub_event event;            /* what was told last */
    hub_pulled *result;
    strbuf *choices;
} pulling;

/* Tells what is in event; false: stop. */
bool pulling_tell(pulling *p, hub_event_kind kind);

/* That there will be another attempt, and why. */
void pulling_again(pulling *p, const char *why, uint64_t wait_ms);

/* Whether the blob of a file is there with its size. */
bool fetch_has_blob(const pulling *p, const hub_file *file);

/* Bytes of it that are there. */
uint64_t fetch_begun(const pulling *p, const hub_file *file);

/* Until its blob is there, verified and on the disk. */
weft_status fetch_file(pulling *p, const hub_file *file, weft_error *err);

#endif
