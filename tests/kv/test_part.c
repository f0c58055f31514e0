/* test_part.c - parts of what the prefix cache knows: names, bytes, and what is refused. */
#include "kv/part.h"

#include <string.h>

#include "base/rng.h"
#include "persist_world.h"

static void test_names(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        part_name name = {.model = (uint32_t)rng_u64(i, 0),
                          .page_i = (uint32_t)rng_u64(i, 1) & 0xffffff,
                          .n = 1 + (uint32_t)(rng_u64(i, 2) & 255),
                          .kind = i % 2 == 0 ? PART_PAGE : PART_BOUNDARY,
                          .before = rng_u64(i, 3),
                          .digest = {rng_u64(i, 4), rng_u64(i, 5)}};
        char text[PART_NAME];
        part_name again;
        part_print_name(&name, text);
        assert_int_equal(strlen(text), PART_NAME - 1);
        assert_true(part_parse_name(text, &again));
        assert_true(again.model == name.model && again.page_i == name.page_i);
        assert_true(again.n == name.n && again.kind == name.kind && again.before == name.before);
        assert_memory_equal(&again.digest, &name.digest, sizeof name.digest);
        /* Whatever else stands anywhere is no name. */
        size_t at = (size_t)(rng_u64(i, 6) % (PART_NAME - 1));
        text[at] = "XZ/~ G"[i % 6];
        assert_false(part_parse_name(text, &again));
    }
    static const char *const WRONG[] = {"", "a", "state.kv", "..", "0", "part"};
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        part_name ignored;
        assert_false(part_parse_name(WRONG[i], &ignored));
    }
}

/* What state depends on makes another root; what it does not depend on does not. */
static void test_roots(void **state)
{
    (void)state;
    unsigned char roots[7][STATE_DIGEST];
    for (uint32_t i = 0; i < 7; i++) {
        shop s;
        shop_open(&s, i == 6 ? "f32" : "bf16", i == 1 ? LATENTS : FULLS, 2, 64);
        if (i == 2) s.store.origin.model[31] ^= 1;
        if (i == 3) s.store.origin.numerics[0] ^= 1;
        kv_space *space = i == 4 ? kv_prefix_space(s.prefix, &s.w.config, 8) : s.space;
        assert_ok(part_root(space, i != 5, &s.store.origin, roots[i]), NULL);
        for (uint32_t k = 0; k < i; k++) assert_memory_not_equal(roots[i], roots[k], STATE_DIGEST);
        unsigned char again[STATE_DIGEST];
        assert_ok(part_root(space, i != 5, &s.store.origin, again), NULL);
        assert_memory_equal(roots[i], again, STATE_DIGEST);
        shop_close(&s);
    }
}

/* Every byte of the header and of a key, and one of each section: none may be another. */
static void check_damage(const part_place *p, const kv_node *node, const kv_boundary *b)
{
    unsigned char before[STATE_DIGEST] = {3};
    unsigned char digest[STATE_DIGEST];
    unsigned char found[STATE_DIGEST];
    size_t n = (size_t)part_bytes(p);
    unsigned char *bytes = mem_alloc(mem_system(), n);
    unsigned char *again = mem_alloc(mem_system(), n);
    assert_non_null(bytes);
    assert_non_null(again);
    assert_ok(part_digest(before, node->keys, p->n, digest), NULL);
    memset(bytes, 1, n);
    memset(again, 2, n);
    part_write(p, node, b, before, digest, bytes);
    part_write(p, node, b, before, digest, again);
    assert_memory_equal(bytes, again, n);
    assert_true(part_check(p, before, bytes, found));
    assert_memory_equal(found, digest, STATE_DIGEST);
    for (size_t i = 0; i < n; i += i < PART_HEADER + 8 ? 1 : 97) {
        bytes[i] ^= 0x10;
        if (part_check(p, before, bytes, found)) fail_msg("byte %zu of %zu may be anything", i, n);
        bytes[i] ^= 0x10;
    }
    part_place other = *p;
    before[0]++;
    assert_false(part_check(p, before, bytes, found));
    before[0]--;
    other.page_i++;
    assert_false(part_check(&other, before, bytes, found));
    mem_free(mem_system(), bytes, n);
    mem_free(mem_system(), again, n);
}

static void test_bytes(void **state)
{
    (void)state;
    enum { N = 100 };
    shop s;
    uint32_t tags[N];
    shop_open(&s, "bf16", HYBRIDS, 4, 64);
    for (uint32_t i = 0; i < N; i++) tags[i] = 1000 + i;
    shop_converse(&s, tags, NULL, 0, N, 64, false);
    kv_node *first = s.space->roots[1]->child;
    kv_node *second = first->child;
    assert_true(second != NULL && second->n == N - 64 && second->boundaries != NULL);
    const kv_config *c = &s.w.config;
    check_damage(&(part_place){c, true, PART_PAGE, 0, 64}, first, NULL);
    check_damage(&(part_place){c, true, PART_PAGE, 1, N - 64}, second, NULL);
    check_damage(&(part_place){c, true, PART_BOUNDARY, 1, N - 64}, second, second->boundaries);
    shop_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_bytes),
    };
    return TEST_RUN("kv/part", tests);
}
