/* drawn_rows.c - random groups of several kinds. */
#include "support/drawn_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

enum { KINDS = 8 };

/* What the elements of a group have in common. */
typedef struct group_draw {
    uint32_t kind;
    int32_t near; /* kind 6: four numbers beside one another */
    int exponent;
    bool minus;
} group_draw;

static group_draw draw_group(uint64_t i, int bits, bool far)
{
    uint64_t g = rng_u64(2, i);
    return (group_draw){
        .kind = (uint32_t)(g % KINDS),
        .near = (int32_t)((g >> 32) % (1u << (bits - 2))) * 4,
        .exponent = (int)((g >> 16) % 20) - 10 + (far ? (int)((g >> 24) % 61) - 30 : 0) - bits,
        .minus = (g >> 8) % 2 == 1,
    };
}

/* Exact in the type that has so many significant bits. */
static float draw_element(const group_draw *g, uint32_t r, int bits)
{
    int32_t m = (int32_t)(r & ((1u << bits) - 1));
    int down = (int)((r >> 28) & 3);
    bool minus = (r >> 31) == 1;
    if (g->kind == 4) minus = false;
    if (g->kind == 5) minus = true;
    if (g->kind == 6) {
        m = g->near + (int32_t)(r & 3);
        down = 0;
        minus = g->minus;
    }
    if (g->kind == 7 && ((r >> 24) & 3) != 0) m = 0;
    return ldexpf((float)(minus ? -m : m), g->exponent - down);
}

void drawn_row(float *x, uint64_t row, uint32_t group, const char *type, bool far)
{
    int bits = strcmp(type, "f32") == 0 ? 24 : strcmp(type, "f16") == 0 ? 11 : 8;
    far = far && bits != 11;
    group_draw g = {0};
    for (uint32_t i = 0; i < DRAWN_COLUMNS; i++) {
        uint64_t at = row * DRAWN_COLUMNS + i;
        if (i % group == 0) g = draw_group(at / group, bits, far);
        x[i] = draw_element(&g, (uint32_t)(rng_u64(1, at / 2) >> (at % 2 * 32)), bits);
    }
}

static void to_hex(const unsigned char digest[32], char *text)
{
    for (uint32_t i = 0; i < 32; i++) snprintf(text + (size_t)2 * i, 3, "%02x", digest[i]);
}

void drawn_check_hash(const unsigned char *bytes, size_t n_bytes, const char *expected,
                      const char *what)
{
    unsigned char digest[32];
    char text[65];
    weft_error err = {WEFT_OK, ""};
    assert_ok(hash_sha256(bytes, n_bytes, digest, &err), &err);
    to_hex(digest, text);
    if (strcmp(text, expected) != 0) fail_msg("%s has other bytes than MLX made", what);
}
