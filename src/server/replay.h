/* replay.h - the tokens of answers as they were sampled, so that a client that sends an answer back
 * in its next request finds the prompt's prefix in the cache: text may be tokenized otherwise than
 * it was sampled, and calls of tools may be spelt otherwise by the template. */
#ifndef SERVER_REPLAY_H
#define SERVER_REPLAY_H

#include "base/str.h"
#include "weft.h"

typedef struct replay replay;

/* n_bytes: most of what is kept; the answers used longest ago go first. */
weft_status replay_create(size_t n_bytes, replay **out, weft_error *err);
void replay_destroy(replay *r);

/* What an answer is known by: its model, its content without white space around it, its calls. Add
 * them in this order, calls in theirs. */
typedef struct replay_key {
    uint64_t low, high;
    bool failed; /* it could not be made; nothing is known by it */
} replay_key;

void replay_key_init(replay_key *k, str model, str content);
void replay_key_add_call(replay_key *k, str name, str arguments);

/* Copies. What cannot be kept is not. From any thread, as the next. */
void replay_put(replay *r, replay_key k, const int32_t *ids, uint32_t n_ids);

/* Appends the ids as a JSON array; false when they are not known. */
bool replay_get(replay *r, replay_key k, strbuf *out);

#endif
