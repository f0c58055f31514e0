/* disk.h - what the prefix cache lets go of, kept in a folder and found there again by tokens.
 *
 * Each part is a file (kv/part.h): a page of positions, or a boundary. Nothing that is read is
 * trusted: what is damaged is removed and counted, what is another's is left alone. Several
 * processes may share a folder; each sees the files of others after a while, and one that is gone
 * is a miss.
 *
 * What is read or written in one step is bounded. Whoever waits for room may be told to wait for
 * the next step; who cannot wait loses what could not be written. */
#ifndef KV_DISK_H
#define KV_DISK_H

#include "base/env.h"
#include "kv/part.h"
#include "kv/stage.h"

enum {
    DISK_TOKENS_LEAST = 64,       /* that must be found there beyond what memory has */
    DISK_STEP_BYTES = 16 << 20,   /* read, and written, in one step; but for the first part */
    DISK_URGENT_BYTES = 64 << 20, /* written in one where nobody can wait */
    DISK_AHEAD_SHARE = 4,         /* of the former: written before it must be, while less than */
    DISK_ROOM_SHARE = 4,          /* such a part of the budget is promised to nobody */
    DISK_FILES_MOST = 1 << 18,    /* in a folder; more are not looked at */
    DISK_LOOKS = 8,               /* files that are looked into for a part of their page */
};

typedef struct kv_disk_stats {
    uint64_t n_hits, n_tokens; /* fetches that were of use, and what they gave */
    uint64_t bytes_read, bytes_written;
    uint64_t n_skipped; /* parts that were not written: larger than the budget, or too many */
    uint64_t n_damaged; /* parts that could not be used, and are no more */
    uint64_t bytes;     /* of all parts in the folder */
} kv_disk_stats;

typedef struct disk_entry {
    part_name name;
    uint64_t bytes;
    uint64_t used; /* when, by the file's own time */
    uint32_t
        next; /* of those that follow the same tokens, index + 1; 0: none. Free ones likewise */
    bool taken, seen;
} disk_entry;

typedef struct kv_disk {
    const env *env;    /* borrowed */
    kv_prefix *prefix; /* borrowed */
    kv_origin origin;
    char folder[IO_PATH_BYTES - PART_NAME - 32];
    uint64_t most_bytes;
    uint64_t step_bytes, urgent_bytes; /* DISK_STEP_BYTES, DISK_URGENT_BYTES */
    disk_entry *entries; /* [capacity], of which the first n_entries were ever taken */
    uint32_t *buckets;   /* [capacity], a power of two: index + 1 */
    uint32_t capacity, n_entries, free_entry;
    unsigned char *buffer; /* [buffer_bytes], of a part */
    size_t buffer_bytes;
    uint64_t scanned; /* when */
    uint64_t step_read, step_written;
    bool patient, refused, closing; /* as below */
    bool failed;                    /* nothing more is written */
    kv_disk_stats stats;
} kv_disk;

/* folder must be there: IO. Reads its list, and becomes what the cache asks before it lets go. */
weft_status kv_disk_open(kv_disk *d, const env *world, kv_prefix *prefix, const kv_origin *origin,
                         const char *folder, uint64_t most_bytes, weft_error *err);

/* Nothing was opened: fine. What the cache still has is not written: see kv_disk_flush. */
void kv_disk_close(kv_disk *d);

/* A new step: as much as one may read and write. */
void kv_disk_step(kv_disk *d);

/* When memory is about to be short: writes a little of what would go first. It stays where it is,
 * and may go later at no cost. */
void kv_disk_ahead(kv_disk *d);

/* From now on what does not fit a step may not go (true), or goes unwritten (false). */
void kv_disk_wait(kv_disk *d, bool patient);

/* Whether something had to stay since then. */
bool kv_disk_refused(const kv_disk *d);

/* Lets all of the cache go that nobody was lent, and writes it, however long that takes. */
void kv_disk_flush(kv_disk *d);

/* Lets it go unwritten. */
void kv_disk_drop(kv_disk *d);

/* ---- what is fetched ------------------------------------------------------------------------- */

typedef struct fetch_part {
    part_name name;
    unsigned char before[STATE_DIGEST];
} fetch_part;

typedef struct kv_fetch {
    kv_disk *disk; /* NULL: there is none */
    kv_space *space;
    arena arena;
    kv_state_file file;
    stage stage;
    kv_history history;
    fetch_part *parts; /* [n_parts] */
    uint32_t n_parts, next;
    uint32_t n_known;
    bool chosen;
} kv_fetch;

typedef enum fetch_result {
    FETCH_NONE, /* there is nothing, or no room for it */
    FETCH_WAIT, /* in the next step again */
    FETCH_DONE,
    FETCH_LOST, /* something was not what it was said to be; what is there may be looked for anew */
} fetch_result;

/* Whether the cache knows less of all tokens but the last by so much that looking for more is worth
 * it; and whether there is more. */
bool kv_fetch_is_wanted(kv_space *space, const kv_history *history);
bool kv_fetch_finds(kv_disk *d, kv_space *space, const kv_history *history);

/* Looks for what the cache does not know of all tokens but the last: WAIT, and f is open, or will
 * be another time; NONE, and it is not. */
fetch_result kv_fetch_open(kv_fetch *f, kv_disk *d, kv_space *space, const kv_history *history);

/* Reads as much as a step may: WAIT, or f is closed. DONE: the cache has it. */
fetch_result kv_fetch_step(kv_fetch *f);

void kv_fetch_close(kv_fetch *f);

/* ---- between the files of this kind ---------------------------------------------------------- */

/* The first entry of those that follow such tokens, and the next; NULL: none. */
disk_entry *disk_first(const kv_disk *d, uint64_t before, uint32_t page_i);
disk_entry *disk_next(const kv_disk *d, const disk_entry *e);
disk_entry *disk_find(const kv_disk *d, const part_name *name);

void disk_path(const kv_disk *d, const part_name *name, char path[IO_PATH_BYTES]);

/* Puts a file that is there into the index; false: there is no room for it. */
bool disk_add(kv_disk *d, const part_name *name, uint64_t bytes, uint64_t used);

/* Takes it out, and removes the file if remove is set. */
void disk_forget(kv_disk *d, disk_entry *e, bool remove);

/* Looks at the folder again, if that was long ago. */
void disk_scan(kv_disk *d);

/* Room for a part of n_bytes; NULL: out of memory. */
unsigned char *disk_buffer(kv_disk *d, uint64_t n_bytes);

/* The digest of all before the node's page, and of its first n tokens with them. */
bool disk_digests(const kv_disk *d, kv_node *node, uint32_t n, unsigned char before[STATE_DIGEST],
                  unsigned char digest[STATE_DIGEST]);

#endif
