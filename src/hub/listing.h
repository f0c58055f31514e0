/* listing.h - what a hub says of a model: the commit, and its files with sizes and hashes.
 *
 * Source: the hub's API, GET /api/models/ORG/NAME/revision/REV?blobs=true. */
#ifndef HUB_LISTING_H
#define HUB_LISTING_H

#include "base/arena.h"
#include "hub/id.h"

enum { HUB_FILES_MOST = 20000, HUB_HASH_BYTES = 65 };

#define HUB_LISTING_BYTES_MOST ((size_t)16 << 20)
#define HUB_FILE_SIZE_MOST ((uint64_t)1 << 43) /* 8 TiB */

typedef struct hub_file {
    const char *name; /* valid as hub_file_name_valid has it */
    uint64_t size;
    /* Also the name of its blob: hexadecimal, 64 digits of SHA-256, or 40 of SHA-1 as git hashes a
     * blob; "": nobody said it. */
    char hash[HUB_HASH_BYTES];
    bool chosen;
    int64_t used_s; /* of a file in a cache: when it was last read, in seconds since 1970 */
} hub_file;

typedef struct hub_listing {
    arena memory;
    char commit[HUB_COMMIT_BYTES];
    hub_file *files; /* [n_files], by name */
    size_t n_files;
} hub_listing;

/* FORMAT for what is not such an answer, for a name that is no name of a file, and for one that is
 * there twice; LIMIT. The caller calls deinit in any case. */
weft_status hub_listing_parse(hub_listing *l, const weft_allocator *allocator, str text,
                              weft_error *err);
void hub_listing_deinit(hub_listing *l);

/* By name, as the functions here leave them. */
void hub_files_sort(hub_file *files, size_t n_files);

#endif
