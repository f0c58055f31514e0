/* state_file.h - the form of a file of state (docs/kv-files.md), as its writer and its reader share
 * it: what is in it follows from a config, tokens and boundaries alone. */
#ifndef KV_STATE_FILE_H
#define KV_STATE_FILE_H

#include "base/bytes.h"
#include "kv/identity.h"

enum {
    STATE_VERSION = 1,
    STATE_ALIGN = 4096,
    STATE_BLOCK = KV_SPLIT, /* positions of a section, at most; cut at multiples of it */
    STATE_MAGIC_BYTES = 8,
    STATE_DIGEST = 32,
    STATE_TRAILER = 16,
    STATE_HEADER_MOST = 1 << 26, /* bytes */
    STATE_BOUNDARIES_MOST = 4096,
};

/* A file that went through a conversion of text shows. */
#define STATE_MAGIC                                                                                \
    {                                                                                              \
        'W', 'E', 'F', 'T', 'K', 'V', '\r', '\n'                                                   \
    }

/* Offsets of the fields at the beginning. */
enum {
    STATE_AT_VERSION = 8,
    STATE_AT_HEADER_BYTES = 16,
    STATE_AT_FILE_BYTES = 24,
    STATE_AT_MODEL = 32,
    STATE_AT_TOKENIZER = 64,
    STATE_AT_IDENTITY = 96,
    STATE_AT_NUMERICS = 128,
    STATE_AT_SALT = 160,
    STATE_AT_CONVERTED = 168,
    STATE_AT_LEN = 172,
    STATE_AT_N_BOUNDARIES = 176,
    STATE_AT_N_LAYERS = 180,
    STATE_AT_N_SECTIONS = 184,
    STATE_AT_ARRAYS = 192, /* layers, boundaries, keys, sections */
    STATE_SECTION_BYTES = 48,
};

/* What must be equal, beside config and salt, for state to be used. */
typedef struct kv_origin {
    unsigned char model[STATE_DIGEST];     /* fingerprint of the weights and what shapes them */
    unsigned char tokenizer[STATE_DIGEST]; /* hash of what makes ids of text */
    unsigned char numerics[STATE_DIGEST];  /* id of the arithmetic (docs/numerics.md) */
} kv_origin;

/* Positions [first, end). */
typedef struct kv_range32 {
    uint32_t first, end;
} kv_range32;

/* One buffer of one layer: rows of positions, at most a block of them, or a state. */
typedef struct kv_section {
    uint32_t layer;
    uint32_t plane_i; /* of the layer's state_list */
    uint32_t at;      /* positions at which a state stands; 0: rows */
    kv_range32 rows;
    uint64_t offset, bytes, checksum;
} kv_section;

typedef struct kv_state_file {
    const kv_config *config;
    bool converted;
    uint32_t len; /* positions */
    uint32_t n_boundaries;
    const uint32_t *boundaries; /* [n_boundaries], ascending, the last is len */
    const uint64_t *keys;       /* [len], as kv_history_key */
    kv_section *sections;       /* [n_sections], ascending by layer, plane, position */
    uint32_t n_sections;
    uint64_t header_bytes, file_bytes; /* with padding */
} kv_state_file;

static inline const kv_geometry *state_geometry(const kv_state_file *f, uint32_t layer)
{
    return f->converted ? &f->config->geometries[layer] : &f->config->bases[layer];
}

static inline uint64_t state_padded(uint64_t n_bytes)
{
    return (n_bytes + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
}

/* Bytes of a header with these counts, padding and digest included. */
uint64_t state_header_bytes(uint32_t n_layers, uint32_t n_boundaries, uint32_t len,
                            uint32_t n_sections);

/* The run of rows of a layer that ends at or behind a boundary and begins at or before what the
 * next query there sees: those of other boundaries beside it count. Empty: nothing is seen. */
kv_range32 state_run(const kv_state_file *f, uint32_t layer, uint32_t boundary_i);

/* Index of the first boundary at or behind a position, at most len. */
uint32_t state_boundary(const kv_state_file *f, uint32_t position);

/* Calls visit for every run of a layer's rows, ascending. */
typedef void state_visit(void *user, uint32_t layer, kv_range32 rows);
void state_each_run(const kv_state_file *f, uint32_t layer, state_visit *visit, void *user);

/* Counts the sections of f, which has all that stands before them; sizes follow. LIMIT where the
 * header would be too long. */
weft_status state_measure(kv_state_file *f, weft_error *err);

/* Fills f->sections, but for the checksums. */
void state_fill(kv_state_file *f);

/* The longest section, padded. */
uint64_t state_longest(const kv_state_file *f);

/* The header as bytes: [f->header_bytes]. */
weft_status state_write_header(const kv_state_file *f, const kv_origin *origin, uint64_t salt,
                               unsigned char *header, weft_error *err);

/* The rows `part` of one page, between the page and a section of rows `all`: head by head. */
void state_gather(const kv_plane *plane, uint32_t page_tokens, kv_range32 all, kv_range32 part,
                  const unsigned char *page, unsigned char *section);
void state_scatter(const kv_plane *plane, uint32_t page_tokens, kv_range32 all, kv_range32 part,
                   const unsigned char *section, unsigned char *page);

/* [STATE_TRAILER] */
void state_write_trailer(const kv_state_file *f, unsigned char *trailer);

#endif
