/* persist.h - what the prefix cache has of some tokens as a file, and back. docs/kv-files.md has
 * the format.
 *
 * The same state and boundaries give the same file, however they were reached and whatever the size
 * of pages (KV-54). A file that is damaged, or somebody else's, is a miss with a reason, and never
 * an error (KV-56); writing replaces a file as a whole or leaves it (KV-57). */
#ifndef KV_PERSIST_H
#define KV_PERSIST_H

#include "base/io.h"
#include "kv/prefix.h"
#include "kv/state_file.h"

/* Why a file is not used: name, text. */
#define KV_MISS_MAP(X)                                                                             \
    X(NONE, "it is used")                                                                          \
    X(ABSENT, "there is no such file")                                                             \
    X(READ, "it cannot be read")                                                                   \
    X(MAGIC, "it is not a file of state")                                                          \
    X(VERSION, "it is of another version of the format")                                           \
    X(TRUNCATED, "it is not as long as it says")                                                   \
    X(HEADER, "its header is damaged")                                                             \
    X(SECTION, "a section of it is damaged")                                                       \
    X(MODEL, "it is of another model")                                                             \
    X(TOKENIZER, "it is of another tokenizer")                                                     \
    X(IDENTITY, "its keys and values are stored in another way")                                   \
    X(NUMERICS, "it was computed with other arithmetic")                                           \
    X(SALT, "it belongs to another namespace")                                                     \
    X(GEOMETRY, "its sections are not those of its tokens")                                        \
    X(ROOM, "the budget has no room for it")

typedef enum kv_miss {
#define KV_MISS_ENUM(name, text) KV_MISS_##name,
    KV_MISS_MAP(KV_MISS_ENUM)
#undef KV_MISS_ENUM
        KV_MISSES
} kv_miss;

/* One clause; static. */
const char *kv_miss_text(kv_miss miss);

/* Whether a file that was ours is broken: its owner should set it aside. */
bool kv_miss_is_damage(kv_miss miss);

/* Where files come from and go to, and what became of them. */
typedef struct kv_files {
    kv_prefix *prefix;
    const io *files;
    kv_origin origin;
    uint64_t n_saved, n_loaded;
    uint64_t n_misses[KV_MISSES]; /* by reason; of KV_MISS_NONE none */
} kv_files;

typedef struct kv_loaded {
    kv_miss miss;
    uint32_t n_tokens; /* that the file has; 0 where that is not known */
    uint32_t n_usable; /* positions that a sequence of these tokens can now begin with */
} kv_loaded;

/* The longest that is known of history, all tokens included, with its boundaries. *n_saved: its
 * positions; 0: nothing is known, and nothing is written. IO, NOMEM or LIMIT leave the file at path
 * as it was; IO with a message about the folder: it is replaced, but may not outlive the machine's
 * end. */
weft_status kv_save(kv_files *store, const kv_space *space, const kv_history *history,
                    const char *path, uint32_t *n_saved, weft_error *err);

/* Puts what a file has into the cache, under its budget: all of it or, of several boundaries, those
 * that the cache can hold beside what it has. NOMEM and DEVICE are errors. */
weft_status kv_load(kv_files *store, kv_space *space, const char *path, kv_loaded *loaded,
                    weft_error *err);

#endif
