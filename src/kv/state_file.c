/* state_file.c - which sections a file of state has, and its header as bytes. */
#include "kv/state_file.h"

#include <string.h>

#include "base/assert.h"

static const unsigned char MAGIC[STATE_MAGIC_BYTES] = STATE_MAGIC;
static const unsigned char COMMIT[STATE_MAGIC_BYTES] = {'c', 'o', 'm', 'p', 'l', 'e', 't', 'e'};

/* ---- runs of rows ---------------------------------------------------------------------------- */

/* Lowest position that layers of positions need at a boundary. */
static uint32_t lowest_at(const kv_state_file *f, uint32_t layer, uint32_t boundary_i)
{
    return kv_lowest(&f->config->geometries[layer], f->boundaries[boundary_i]);
}

kv_range32 state_run(const kv_state_file *f, uint32_t layer, uint32_t boundary_i)
{
    if (kv_keeps_all(f->config, layer)) return (kv_range32){0, f->len};
    uint32_t first = lowest_at(f, layer, boundary_i);
    uint32_t end = f->boundaries[boundary_i];
    if (first == end) return (kv_range32){end, end};
    for (uint32_t i = boundary_i; i > 0 && f->boundaries[i - 1] >= first; i--)
        first = lowest_at(f, layer, i - 1);
    for (uint32_t i = boundary_i + 1; i < f->n_boundaries; i++) {
        if (lowest_at(f, layer, i) > end) break;
        end = f->boundaries[i];
    }
    return (kv_range32){first, end};
}

uint32_t state_boundary(const kv_state_file *f, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = f->n_boundaries - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (f->boundaries[middle] < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void state_each_run(const kv_state_file *f, uint32_t layer, state_visit *visit, void *user)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < f->n_boundaries; i++) {
        if (f->boundaries[i] <= done) continue;
        kv_range32 run = state_run(f, layer, i);
        if (run.first == run.end) continue;
        visit(user, layer, run);
        done = run.end;
    }
}

/* ---- sections -------------------------------------------------------------------------------- */

/* Counts, and fills where there is room to. */
typedef struct listing {
    const kv_state_file *f;
    kv_section *sections; /* NULL: only counts */
    uint64_t n, offset;
    uint32_t plane_i;
    kv_plane plane;
} listing;

static void add_section(listing *l, kv_section section)
{
    if (l->sections != NULL) {
        section.offset = l->offset;
        l->sections[l->n] = section;
    }
    l->n++;
    l->offset += state_padded(section.bytes);
}

/* In blocks. */
static void add_run(void *user, uint32_t layer, kv_range32 rows)
{
    listing *l = user;
    uint64_t row_bytes = (uint64_t)l->plane.n_heads * l->plane.bytes;
    for (uint32_t at = rows.first; at < rows.end;) {
        uint32_t left = STATE_BLOCK - at % STATE_BLOCK;
        uint32_t end = rows.end - at < left ? rows.end : at + left;
        add_section(l, (kv_section){.layer = layer,
                                    .plane_i = l->plane_i,
                                    .rows = {at, end},
                                    .bytes = (end - at) * row_bytes});
        at = end;
    }
}

static void add_states(listing *l, uint32_t layer)
{
    for (uint32_t i = 0; i < l->f->n_boundaries; i++) {
        add_section(l, (kv_section){.layer = layer,
                                    .plane_i = l->plane_i,
                                    .at = l->f->boundaries[i],
                                    .bytes = l->plane.bytes});
    }
}

static void list_sections(listing *l)
{
    const kv_state_file *f = l->f;
    for (uint32_t layer = 0; layer < f->config->n_layers; layer++) {
        kv_plane planes[KV_PLANES_MOST];
        uint32_t n = f->config->layouts[layer]->state_list(state_geometry(f, layer), planes);
        for (uint32_t i = 0; i < n; i++) {
            l->plane_i = i;
            l->plane = planes[i];
            if (planes[i].by_position) {
                state_each_run(f, layer, add_run, l);
            } else {
                add_states(l, layer);
            }
        }
    }
}

uint64_t state_header_bytes(uint32_t n_layers, uint32_t n_boundaries, uint32_t len,
                            uint32_t n_sections)
{
    uint64_t bytes = STATE_AT_ARRAYS + (uint64_t)n_layers * KV_IDENTITY_BYTES;
    bytes += ((uint64_t)n_boundaries + 1) / 2 * 8 + (uint64_t)len * 8;
    bytes += (uint64_t)n_sections * STATE_SECTION_BYTES + STATE_DIGEST;
    return state_padded(bytes);
}

weft_status state_measure(kv_state_file *f, weft_error *err)
{
    listing l = {.f = f};
    list_sections(&l);
    uint64_t header = UINT64_MAX;
    if (l.n <= UINT32_MAX) {
        f->n_sections = (uint32_t)l.n;
        header = state_header_bytes(f->config->n_layers, f->n_boundaries, f->len, f->n_sections);
    }
    if (header > STATE_HEADER_MOST) {
        return err_set(err, WEFT_LIMIT,
                       "the state of %u positions has %llu sections, too many for a header of %d "
                       "bytes",
                       f->len, (unsigned long long)l.n, STATE_HEADER_MOST);
    }
    f->header_bytes = header;
    f->file_bytes = header + l.offset + STATE_TRAILER;
    return WEFT_OK;
}

void state_fill(kv_state_file *f)
{
    listing l = {.f = f, .sections = f->sections, .offset = f->header_bytes};
    list_sections(&l);
    ASSERT(l.n == f->n_sections && l.offset == f->file_bytes - STATE_TRAILER);
}

uint64_t state_longest(const kv_state_file *f)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < f->n_sections; i++) {
        uint64_t bytes = state_padded(f->sections[i].bytes);
        if (bytes > longest) longest = bytes;
    }
    return longest;
}

/* ---- pages ----------------------------------------------------------------------------------- */

void state_gather(const kv_plane *plane, uint32_t page_tokens, kv_range32 all, kv_range32 part,
                  const unsigned char *page, unsigned char *section)
{
    size_t n_bytes = (part.end - part.first) * plane->bytes;
    for (size_t h = 0; h < plane->n_heads; h++) {
        size_t row = h * page_tokens + part.first % page_tokens;
        size_t at = h * (all.end - all.first) + (part.first - all.first);
        memcpy(section + at * plane->bytes, page + plane->at + row * plane->bytes, n_bytes);
    }
}

void state_scatter(const kv_plane *plane, uint32_t page_tokens, kv_range32 all, kv_range32 part,
                   const unsigned char *section, unsigned char *page)
{
    size_t n_bytes = (part.end - part.first) * plane->bytes;
    for (size_t h = 0; h < plane->n_heads; h++) {
        size_t row = h * page_tokens + part.first % page_tokens;
        size_t at = h * (all.end - all.first) + (part.first - all.first);
        memcpy(page + plane->at + row * plane->bytes, section + at * plane->bytes, n_bytes);
    }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static unsigned char *put_section(unsigned char *at, const kv_state_file *f, const kv_section *s)
{
    kv_plane planes[KV_PLANES_MOST];
    f->config->layouts[s->layer]->state_list(state_geometry(f, s->layer), planes);
    put_u32(at, s->layer);
    put_u32(at + 4, planes[s->plane_i].id);
    put_u32(at + 8, s->at);
    put_u32(at + 12, s->rows.first);
    put_u32(at + 16, s->rows.end);
    put_u64(at + 24, s->offset);
    put_u64(at + 32, s->bytes);
    put_u64(at + 40, s->checksum);
    return at + STATE_SECTION_BYTES;
}

static unsigned char *put_arrays(unsigned char *at, const kv_state_file *f)
{
    for (uint32_t i = 0; i < f->config->n_layers; i++, at += KV_IDENTITY_BYTES)
        kv_identity_layer(f->config, i, at);
    for (uint32_t i = 0; i < f->n_boundaries; i++) put_u32(at + 4 * (size_t)i, f->boundaries[i]);
    at += ((size_t)f->n_boundaries + 1) / 2 * 8;
    for (uint32_t i = 0; i < f->len; i++, at += 8) put_u64(at, f->keys[i]);
    for (uint32_t i = 0; i < f->n_sections; i++) at = put_section(at, f, &f->sections[i]);
    return at;
}

weft_status state_write_header(const kv_state_file *f, const kv_origin *origin, uint64_t salt,
                               unsigned char *header, weft_error *err)
{
    memset(header, 0, (size_t)f->header_bytes);
    memcpy(header, MAGIC, sizeof MAGIC);
    put_u32(header + STATE_AT_VERSION, STATE_VERSION);
    put_u64(header + STATE_AT_HEADER_BYTES, f->header_bytes);
    put_u64(header + STATE_AT_FILE_BYTES, f->file_bytes);
    memcpy(header + STATE_AT_MODEL, origin->model, STATE_DIGEST);
    memcpy(header + STATE_AT_TOKENIZER, origin->tokenizer, STATE_DIGEST);
    weft_status status = kv_identity(f->config, header + STATE_AT_IDENTITY, err);
    if (status != WEFT_OK) return status;
    memcpy(header + STATE_AT_NUMERICS, origin->numerics, STATE_DIGEST);
    put_u64(header + STATE_AT_SALT, salt);
    put_u32(header + STATE_AT_CONVERTED, f->converted);
    put_u32(header + STATE_AT_LEN, f->len);
    put_u32(header + STATE_AT_N_BOUNDARIES, f->n_boundaries);
    put_u32(header + STATE_AT_N_LAYERS, f->config->n_layers);
    put_u32(header + STATE_AT_N_SECTIONS, f->n_sections);
    unsigned char *digest = header + f->header_bytes - STATE_DIGEST;
    unsigned char *end = put_arrays(header + STATE_AT_ARRAYS, f);
    ASSERT(end <= digest);
    return hash_sha256(header, (size_t)(digest - header), digest, err);
}

void state_write_trailer(const kv_state_file *f, unsigned char *trailer)
{
    put_u64(trailer, f->file_bytes);
    memcpy(trailer + 8, COMMIT, sizeof COMMIT);
}
