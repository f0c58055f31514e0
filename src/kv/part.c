/* part.c - the form of a part, its name, and its bytes. */
#include "kv/part.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

static const unsigned char MAGIC[8] = {'W', 'E', 'F', 'T', 'K', 'P', '\r', '\n'};

enum {
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_BYTES = 16,
    AT_PAGE = 24,
    AT_N = 28,
    AT_BEFORE = 32,
    AT_DIGEST = 64,
    AT_BODY_SUM = 96,
    AT_HEADER_SUM = 104,
};

/* ---- digests and names ----------------------------------------------------------------------- */

weft_status part_root(const kv_space *space, bool converted, const kv_origin *origin,
                      unsigned char digest[STATE_DIGEST])
{
    unsigned char identity[STATE_DIGEST];
    unsigned char rest[20];
    hash_stream s;
    weft_status status = kv_identity(space->config, identity, NULL);
    if (status == WEFT_OK) status = hash_stream_open(&s, NULL);
    if (status != WEFT_OK) return status;
    put_u32(rest, PART_VERSION);
    put_u32(rest + 4, space->config->bounds.page_tokens);
    put_u32(rest + 8, converted);
    put_u64(rest + 12, space->salt);
    hash_stream_add(&s, origin, sizeof *origin);
    hash_stream_add(&s, identity, sizeof identity);
    hash_stream_add(&s, rest, sizeof rest);
    return hash_stream_close(&s, digest, NULL);
}

weft_status part_digest(const unsigned char before[STATE_DIGEST], const uint64_t *keys, uint32_t n,
                        unsigned char digest[STATE_DIGEST])
{
    unsigned char bytes[STATE_DIGEST + 8 * PART_TOKENS_MOST];
    ASSERT(n <= PART_TOKENS_MOST);
    memcpy(bytes, before, STATE_DIGEST);
    for (uint32_t i = 0; i < n; i++) put_u64(bytes + STATE_DIGEST + 8 * (size_t)i, keys[i]);
    return hash_sha256(bytes, STATE_DIGEST + 8 * (size_t)n, digest, NULL);
}

part_name part_name_of(const part_place *p, const kv_origin *origin,
                       const unsigned char before[STATE_DIGEST],
                       const unsigned char digest[STATE_DIGEST])
{
    return (part_name){.model = get_u32(origin->model),
                       .page_i = p->page_i,
                       .n = p->n,
                       .kind = p->kind,
                       .before = get_u64(before),
                       .digest = {get_u64(digest), get_u64(digest + 8)}};
}

void part_print_name(const part_name *name, char text[PART_NAME])
{
    snprintf(text, PART_NAME, "%08x-%06x%c%02x-%016llx-%016llx%016llx.part", name->model,
             name->page_i & 0xffffff, name->kind == PART_PAGE ? 'p' : 'b', (name->n - 1) & 0xff,
             (unsigned long long)name->before, (unsigned long long)name->digest.low,
             (unsigned long long)name->digest.high);
}

/* n digits of 16. */
static bool read_hex(const char **at, uint32_t n, uint64_t *value)
{
    *value = 0;
    for (uint32_t i = 0; i < n; i++, ++*at) {
        char c = **at;
        bool letter = c >= 'a' && c <= 'f';
        if (!letter && (c < '0' || c > '9')) return false;
        *value = *value << 4 | (uint64_t)(letter ? c - 'a' + 10 : c - '0');
    }
    return true;
}

bool part_parse_name(const char *text, part_name *name)
{
    uint64_t model;
    uint64_t page_i;
    uint64_t n;
    char again[PART_NAME];
    const char *at = text;
    if (strlen(text) != PART_NAME - 1) return false;
    if (!read_hex(&at, 8, &model) || *at++ != '-') return false;
    if (!read_hex(&at, 6, &page_i)) return false;
    name->kind = *at++ == 'p' ? PART_PAGE : PART_BOUNDARY;
    if (!read_hex(&at, 2, &n) || *at++ != '-') return false;
    if (!read_hex(&at, 16, &name->before) || *at++ != '-') return false;
    if (!read_hex(&at, 16, &name->digest.low) || !read_hex(&at, 16, &name->digest.high))
        return false;
    name->model = (uint32_t)model;
    name->page_i = (uint32_t)page_i;
    name->n = (uint32_t)n + 1;
    part_print_name(name, again);
    return strcmp(text, again) == 0;
}

/* ---- sections -------------------------------------------------------------------------------- */

static const kv_geometry *geometry_of(const part_place *p, uint32_t layer)
{
    return p->converted ? &p->config->geometries[layer] : &p->config->bases[layer];
}

/* The rows that a layer has in the part; none: it has a state there, or nothing. */
static kv_range32 rows_of(const part_place *p, uint32_t layer)
{
    uint32_t at = part_at(p);
    bool all = kv_keeps_all(p->config, layer);
    if (p->kind == PART_PAGE) return (kv_range32){at, all ? at + p->n : at};
    if (all || kv_is_recurrent(p->config, layer)) return (kv_range32){at, at};
    return (kv_range32){kv_lowest(&p->config->geometries[layer], at + p->n), at + p->n};
}

void part_each(const part_place *p, part_visit *visit, void *user)
{
    uint64_t offset = PART_HEADER + 8 * (uint64_t)p->n;
    for (uint32_t layer = 0; layer < p->config->n_layers; layer++) {
        kv_plane planes[KV_PLANES_MOST];
        kv_range32 rows = rows_of(p, layer);
        uint32_t n = p->config->layouts[layer]->state_list(geometry_of(p, layer), planes);
        for (uint32_t i = 0; i < n; i++) {
            const kv_plane *plane = &planes[i];
            kv_section s = {.layer = layer, .plane_i = i, .offset = offset};
            if (plane->by_position) {
                s.rows = rows;
                s.bytes = (uint64_t)(rows.end - rows.first) * plane->n_heads * plane->bytes;
            } else if (p->kind == PART_BOUNDARY) {
                s.at = part_at(p) + p->n;
                s.bytes = plane->bytes;
            }
            if (s.bytes == 0) continue;
            visit(user, &s);
            offset += s.bytes;
        }
    }
}

static void add_bytes(void *user, const kv_section *section)
{
    *(uint64_t *)user = section->offset + section->bytes;
}

uint64_t part_bytes(const part_place *p)
{
    uint64_t bytes = PART_HEADER + 8 * (uint64_t)p->n;
    part_each(p, add_bytes, &bytes);
    return bytes;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct writing {
    const part_place *p;
    const kv_node *node;
    const kv_boundary *boundary;
    unsigned char *bytes;
} writing;

static void gather(void *user, const kv_section *s)
{
    const writing *w = user;
    kv_plane planes[KV_PLANES_MOST];
    uint32_t page_tokens = w->p->config->bounds.page_tokens;
    w->p->config->layouts[s->layer]->state_list(geometry_of(w->p, s->layer), planes);
    const kv_plane *plane = &planes[s->plane_i];
    if (!plane->by_position) {
        memcpy(w->bytes + s->offset, w->boundary->states[s->layer]->at + plane->at, plane->bytes);
        return;
    }
    const kv_node *node = w->node;
    for (uint32_t end = s->rows.end; end > s->rows.first; node = node->parent) {
        uint32_t first = kv_node_at(node);
        if (first < s->rows.first) first = s->rows.first;
        const kv_rows *rows = &node->rows[s->layer];
        ASSERT(rows->page != NULL && kv_node_at(node) + rows->first <= first);
        state_gather(plane, page_tokens, s->rows, (kv_range32){first, end}, rows->page->at,
                     w->bytes + s->offset);
        end = first;
    }
}

void part_write(const part_place *p, const kv_node *node, const kv_boundary *boundary,
                const unsigned char before[STATE_DIGEST], const unsigned char digest[STATE_DIGEST],
                unsigned char *bytes)
{
    writing w = {p, node, boundary, bytes};
    uint64_t n_bytes = part_bytes(p);
    memset(bytes, 0, PART_HEADER);
    memcpy(bytes, MAGIC, sizeof MAGIC);
    put_u32(bytes + AT_VERSION, PART_VERSION);
    put_u32(bytes + AT_KIND, p->kind);
    put_u64(bytes + AT_BYTES, n_bytes);
    put_u32(bytes + AT_PAGE, p->page_i);
    put_u32(bytes + AT_N, p->n);
    memcpy(bytes + AT_BEFORE, before, STATE_DIGEST);
    memcpy(bytes + AT_DIGEST, digest, STATE_DIGEST);
    for (uint32_t i = 0; i < p->n; i++) put_u64(bytes + PART_HEADER + 8 * (size_t)i, node->keys[i]);
    part_each(p, gather, &w);
    put_u64(bytes + AT_BODY_SUM, hash_xx64(bytes + PART_HEADER, (size_t)n_bytes - PART_HEADER, 0));
    put_u64(bytes + AT_HEADER_SUM, hash_xx64(bytes, AT_HEADER_SUM, 0));
}

bool part_check_header(const part_place *p, const unsigned char before[STATE_DIGEST],
                       const unsigned char *bytes)
{
    bool ours = memcmp(bytes, MAGIC, sizeof MAGIC) == 0 &&
                get_u32(bytes + AT_VERSION) == PART_VERSION && get_u32(bytes + AT_KIND) == p->kind;
    return ours && get_u64(bytes + AT_BYTES) == part_bytes(p) &&
           get_u32(bytes + AT_PAGE) == p->page_i && get_u32(bytes + AT_N) == p->n &&
           memcmp(bytes + AT_BEFORE, before, STATE_DIGEST) == 0 &&
           get_u64(bytes + AT_HEADER_SUM) == hash_xx64(bytes, AT_HEADER_SUM, 0);
}

bool part_check(const part_place *p, const unsigned char before[STATE_DIGEST],
                const unsigned char *bytes, unsigned char digest[STATE_DIGEST])
{
    size_t n_body = (size_t)part_bytes(p) - PART_HEADER;
    uint64_t keys[PART_TOKENS_MOST];
    if (!part_check_header(p, before, bytes)) return false;
    if (get_u64(bytes + AT_BODY_SUM) != hash_xx64(bytes + PART_HEADER, n_body, 0)) return false;
    for (uint32_t i = 0; i < p->n; i++) keys[i] = get_u64(bytes + PART_HEADER + 8 * (size_t)i);
    return part_digest(before, keys, p->n, digest) == WEFT_OK &&
           memcmp(digest, bytes + AT_DIGEST, STATE_DIGEST) == 0;
}
