/* disk.h - what the cache needs of a file system beyond base/io: folders, links, locks, room. */
#ifndef HUB_DISK_H
#define HUB_DISK_H

#include "base/io.h"

/* Fills path [IO_PATH_BYTES]; LIMIT when it does not fit. */
weft_status disk_path(char *path, weft_error *err, const char *fmt, ...) ERR_PRINTF(3, 4);

/* The folder and all above it. */
weft_status disk_make_folders(const char *path, weft_error *err);

/* Bytes that this user may still write there. */
weft_status disk_free(const char *path, uint64_t *n_bytes, weft_error *err);

/* For reading and writing, made if it is not there, never through a link; with its size. f borrows
 * path. Closed with base/io's close. */
weft_status disk_open(const char *path, io_file *f, uint64_t *n_bytes, weft_error *err);
weft_status disk_truncate(const io_file *f, uint64_t n_bytes, weft_error *err);

/* What is at path: nothing, a file (through links; its size and time of last reading), a folder
 * (no link), else DISK_OTHER. */
typedef enum disk_kind { DISK_NOTHING, DISK_FILE, DISK_FOLDER, DISK_OTHER } disk_kind;
disk_kind disk_look(const char *path, uint64_t *n_bytes, int64_t *used_s);

/* A symbolic link in the place of what is at path, at once. */
weft_status disk_link(const char *target, const char *path, weft_error *err);

/* Where a link points to, into target [IO_PATH_BYTES]; false: it is none. */
bool disk_read_link(const char *path, char *target);

/* A folder with all in it, a link or a file; links are not followed. Missing is fine. */
weft_status disk_remove(const char *path, weft_error *err);

/* A lock that other processes see, flock, on a file that is made if it is not there; held until it
 * is closed or the process ends. wait is asked again and again while somebody else has it; false
 * gives up with CANCELLED. */
typedef struct disk_lock {
    int fd; /* -1: none */
} disk_lock;
weft_status disk_lock_take(disk_lock *lock, const char *path, bool (*wait)(void *user), void *user,
                           weft_error *err);
void disk_lock_give(disk_lock *lock);

/* Sleeps as long as wait says true, at most n_ms; false: it said false. */
bool disk_sleep(uint64_t n_ms, bool (*wait)(void *user), void *user);

#endif
