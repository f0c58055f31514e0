/* masks.h - masks that took long to make, remembered by what the state can do within one token. */
#ifndef GRAMMAR_MASKS_H
#define GRAMMAR_MASKS_H

#include "base/thread.h"
#include "grammar/machine.h"

enum { MASK_KEY_BYTES = 1024 };

/* Two states of one key have one mask: counts are told apart only as far as the longest token can
 * reach. */
typedef struct mask_key {
    uint32_t n_bytes; /* 0: too long to be remembered */
    unsigned char bytes[MASK_KEY_BYTES];
} mask_key;

void mask_key_of(mask_key *key, const machine *m, uint32_t state, uint32_t longest);

typedef struct mask_slot {
    mask_key key;
    uint64_t used; /* when it was last */
} mask_slot;

typedef struct masks {
    thread_lock *lock; /* guards all below */
    mask_slot *slots;  /* [n_slots] */
    uint64_t *bits;    /* [n_slots, n_words] */
    uint32_t n_slots, n_words;
    uint64_t clock;
} masks;

weft_status masks_init(masks *all, const weft_allocator *allocator, uint32_t n_slots,
                       uint32_t n_words, weft_error *err);
void masks_deinit(masks *all, const weft_allocator *allocator);

bool masks_find(masks *all, const mask_key *key, uint64_t *bits);
void masks_put(masks *all, const mask_key *key, const uint64_t *bits);

#endif
