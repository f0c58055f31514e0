/* shards.h - which tensor lies where in which safetensors file. */
#ifndef CONVERT_SHARDS_H
#define CONVERT_SHARDS_H

#include "convert/plan.h"

/* A plane of a planned tensor, which is a tensor of its own in the file. */
typedef struct shard_entry {
    uint64_t offset, n_bytes; /* from where the data begins; 0 bytes: there is none */
} shard_entry;

typedef struct shards {
    const plan *plan;
    uint32_t *first; /* [n_shards + 1]: the first tensor of each */
    uint32_t n_shards;
    shard_entry *entries; /* [n_tensors, TENSOR_PLANES] */
    uint64_t n_bytes;     /* of all data */
} shards;

/* Files of at most limit bytes of data; a tensor that is larger has one of its own. */
weft_status shards_init(shards *s, arena *a, const plan *p, uint64_t limit, weft_error *err);

enum { SHARD_NAME_BYTES = 48 };

/* "model.safetensors", or "model-00001-of-00002.safetensors". */
void shards_name(const shards *s, uint32_t shard, char name[SHARD_NAME_BYTES]);

/* The length and header of a file, padded to a multiple of 8. */
weft_status shards_header(const shards *s, uint32_t shard, strbuf *out, weft_error *err);

/* model.safetensors.index.json. */
weft_status shards_index(const shards *s, strbuf *out, weft_error *err);

#endif
