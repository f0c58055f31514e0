/* part.h - a file with a part of what the prefix cache knows (docs/kv-files.md): the rows of one
 * page of positions in layers that keep all, or what all other layers have at a boundary.
 *
 * What is in it follows from a config and a place; its name says which tokens it belongs to, by
 * digests that go from each page to the next. So a part is found by tokens alone, and those that
 * many prompts have in common are there once. */
#ifndef KV_PART_H
#define KV_PART_H

#include "kv/prefix_node.h"
#include "kv/state_file.h"

enum {
    PART_VERSION = 1,
    PART_HEADER = 112,      /* bytes before the keys */
    PART_NAME = 74,         /* bytes of a name with its NUL */
    PART_TOKENS_MOST = 256, /* of a page */
};

typedef enum part_kind { PART_PAGE = 1, PART_BOUNDARY = 2 } part_kind;

/* Where a part belongs: n tokens of a page, all that it has or those up to a boundary. */
typedef struct part_place {
    const kv_config *config;
    bool converted;
    part_kind kind;
    uint32_t page_i, n;
} part_place;

/* What it is known by. */
typedef struct part_name {
    uint32_t model; /* so that a reader of the folder can tell models apart */
    uint32_t page_i, n;
    part_kind kind;
    uint64_t before; /* of the digest of all tokens before the page */
    hash128 digest;  /* of that of the tokens up to its end */
} part_name;

static inline uint32_t part_at(const part_place *p)
{
    return p->page_i * p->config->bounds.page_tokens;
}

/* The digest that a space's first page follows. */
weft_status part_root(const kv_space *space, bool converted, const kv_origin *origin,
                      unsigned char digest[STATE_DIGEST]);

/* Of n tokens behind what before stands for. */
weft_status part_digest(const unsigned char before[STATE_DIGEST], const uint64_t *keys, uint32_t n,
                        unsigned char digest[STATE_DIGEST]);

part_name part_name_of(const part_place *p, const kv_origin *origin,
                       const unsigned char before[STATE_DIGEST],
                       const unsigned char digest[STATE_DIGEST]);
void part_print_name(const part_name *name, char text[PART_NAME]);

/* False: it is no name of a part. */
bool part_parse_name(const char *text, part_name *name);

/* Bytes of the file. */
uint64_t part_bytes(const part_place *p);

/* Its sections in their order, with offsets in the file. */
typedef void part_visit(void *user, const kv_section *section);
void part_each(const part_place *p, part_visit *visit, void *user);

/* The file of a place in a node, or of a boundary of it: [part_bytes]. */
void part_write(const part_place *p, const kv_node *node, const kv_boundary *boundary,
                const unsigned char before[STATE_DIGEST], const unsigned char digest[STATE_DIGEST],
                unsigned char *bytes);

/* Whether the bytes, as many as part_bytes, are those of the place, behind before; digest as it
 * says. */
bool part_check(const part_place *p, const unsigned char before[STATE_DIGEST],
                const unsigned char *bytes, unsigned char digest[STATE_DIGEST]);

/* Whether the first PART_HEADER bytes are those of such a part. */
bool part_check_header(const part_place *p, const unsigned char before[STATE_DIGEST],
                       const unsigned char *bytes);

#endif
