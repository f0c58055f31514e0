/* fuzz_kv_part.c - any bytes as a part of state, and as its name: refused, or as many bytes in each
 * section as its place says. The bytes are also changes to a good part, whose checksums are then
 * made right or left. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "kv/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 11, AT_BODY_SUM = 96, AT_HEADER_SUM = 104 };

static const kv_layer LAYERS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 8, .v_dim = 4},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 8, .v_dim = 8},
};

static void must(bool right)
{
    if (!right) abort();
}

static void count(void *user, const kv_section *s)
{
    uint64_t *end = user;
    must(s->offset == *end);
    *end += s->bytes;
}

static void repair(const part_place *p, unsigned char *bytes)
{
    size_t n_body = (size_t)part_bytes(p) - PART_HEADER;
    put_u64(bytes + AT_BODY_SUM, hash_xx64(bytes + PART_HEADER, n_body, 0));
    put_u64(bytes + AT_HEADER_SUM, hash_xx64(bytes, AT_HEADER_SUM, 0));
}

static void check_name(const uint8_t *data, size_t size)
{
    char text[PART_NAME + 8];
    char again[PART_NAME];
    part_name name;
    size_t n = size < sizeof text ? size : sizeof text - 1;
    if (n > 0) memcpy(text, data, n);
    text[n] = '\0';
    if (!part_parse_name(text, &name)) return;
    part_print_name(&name, again);
    must(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a;
    kv_config config;
    kv_spec spec;
    kv_bounds bounds = {.context = 4096, .most_append = 64, .page_tokens = 16};
    unsigned char before[STATE_DIGEST] = {7};
    unsigned char digest[STATE_DIGEST];
    uint64_t keys[TOKENS] = {0};
    check_name(data, size);
    arena_init(&a, mem_system(), 0);
    must(kv_spec_parse(NULL, "bf16", &spec, NULL) == WEFT_OK);
    must(kv_config_init(&config, &a, LAYERS, COUNT_OF(LAYERS), &spec, &bounds, NULL) == WEFT_OK);
    part_place p = {&config, true, PART_PAGE, 3, TOKENS};
    size_t n = (size_t)part_bytes(&p);
    uint64_t end = PART_HEADER + 8 * TOKENS;
    part_each(&p, count, &end);
    must(end == n);
    unsigned char *bytes = malloc(n);
    must(bytes != NULL);
    memset(bytes, 0, n);
    if (size > 0) memcpy(bytes, data, size < n ? size : n);
    part_check(&p, before, bytes, digest);
    /* A good one by hand: its fields follow from the place. */
    static const unsigned char MAGIC[8] = {'W', 'E', 'F', 'T', 'K', 'P', '\r', '\n'};
    memset(bytes, 0, n);
    memcpy(bytes, MAGIC, sizeof MAGIC);
    put_u32(bytes + 8, PART_VERSION);
    put_u32(bytes + 12, PART_PAGE);
    put_u64(bytes + 16, n);
    put_u32(bytes + 24, p.page_i);
    put_u32(bytes + 28, p.n);
    memcpy(bytes + 32, before, STATE_DIGEST);
    must(part_digest(before, keys, TOKENS, bytes + 64) == WEFT_OK);
    repair(&p, bytes);
    must(part_check(&p, before, bytes, digest));
    for (size_t i = 1; i + 3 <= size; i += 3)
        bytes[((uint32_t)data[i] | (uint32_t)data[i + 1] << 8) % n] = data[i + 2];
    if (size > 0 && (data[0] & 1) != 0) repair(&p, bytes);
    part_check(&p, before, bytes, digest);
    free(bytes);
    arena_deinit(&a);
    return 0;
}
