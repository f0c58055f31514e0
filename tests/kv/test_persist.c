/* test_persist.c - what the prefix cache has, as files and back: the same file however it was made
 * (KV-54), restored state against the oracle (KV-55), and files that are not as they should be
 * (KV-56). */
#include "kv/persist_world.h"

#include "fuzz/memory_files.h"
#include "support/group_folder.h"

static void assert_same(const file_bytes *a, const file_bytes *b)
{
    assert_int_equal(a->n_bytes, b->n_bytes);
    assert_memory_equal(a->data, b->data, a->n_bytes);
}

typedef struct model {
    const char *spec; /* one that it takes */
    const kv_layer *layers;
    uint32_t n_layers;
} model;

#define MODEL(spec, layers)                                                                        \
    {                                                                                              \
        spec, layers, COUNT_OF(layers)                                                             \
    }

static const model MODELS[] = {MODEL("bf16", FULLS),    MODEL("bf16", LATENTS),
                               MODEL("bf16", INDEXED),  MODEL("bf16,index=tk8", INDEXED),
                               MODEL("bf16", WINDOWED), MODEL("bf16", CHUNKED),
                               MODEL("bf16", HYBRIDS),  MODEL("f32", TOYS)};

/* Places in it. */
enum { FULL_MODEL = 0, LATENT_MODEL = 1, WINDOW_MODEL = 4, HYBRID_MODEL = 6 };

static const uint32_t PAGES[] = {16, 64, 256};

/* ---- KV-54, KV-55 ---------------------------------------------------------------------------- */

/* Boundaries that a cache with pages of any size takes: windows between them are apart. */
static const uint32_t APART[] = {90, 300};
enum { APART_LEN = 600, TAGS = 640 };

static file_bytes file_of(const char *spec, const model *m, uint32_t page_tokens, uint32_t n,
                          uint32_t most, bool in_company)
{
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_open(&s, spec, m->layers, m->n_layers, page_tokens);
    uint32_t n_at = 0;
    while (n_at < COUNT_OF(APART) && APART[n_at] < n) n_at++;
    shop_converse(&s, tags, APART, n_at, n, most, in_company);
    const char *path = test_folder_path(&folder, "made");
    assert_int_equal(shop_save(&s, tags, TAGS, path), n);
    assert_int_equal(s.store.n_saved, 1);
    file_bytes bytes = shop_read(path);
    shop_close(&s);
    return bytes;
}

/* Into a cache with pages of another size and out again: the same file. */
static void check_restored(const char *spec, const model *m, uint32_t page_tokens, uint32_t n,
                           const file_bytes *expected)
{
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_open(&s, spec, m->layers, m->n_layers, page_tokens);
    const char *path = test_folder_write(&folder, "restored", expected->data, expected->n_bytes);
    kv_loaded loaded = shop_load(&s, path);
    assert_int_equal(loaded.miss, KV_MISS_NONE);
    assert_int_equal(loaded.n_tokens, n);
    assert_int_equal(loaded.n_usable, n);
    assert_int_equal(s.store.n_loaded, 1);
    /* KV-55: nothing depends on the file any more. */
    remove(path);
    const uint32_t ends[] = {n, 300, 90};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        if (ends[i] > n) continue;
        uint32_t n_usable;
        kv_seq *seq = shop_begin(&s, tags, ends[i] + 1, &n_usable);
        assert_int_equal(seq->len, n_usable);
        bool converted = n >= s.w.config.start;
        assert_int_equal(n_usable, converted && ends[i] < s.w.config.start ? 0 : ends[i]);
        shop_check(&s, seq, tags);
        shop_feed(&s, seq, tags, LONG_CONTEXT, 17, NULL);
        shop_check(&s, seq, tags);
        kv_seq_destroy(&s.w.memory.allocator, seq);
    }
    path = test_folder_path(&folder, "again");
    assert_int_equal(shop_save(&s, tags, TAGS, path), n);
    file_bytes again = shop_read(path);
    assert_same(expected, &again);
    file_bytes_free(&again);
    /* A second time nothing is read, and nothing changes. */
    uint64_t cached = kv_pool_bytes_cached(s.w.pool);
    assert_int_equal(shop_load(&s, path).n_usable, n);
    assert_int_equal(kv_pool_bytes_cached(s.w.pool), cached);
    shop_close(&s);
}

static void check_spec(const char *spec, const model *m, uint32_t n)
{
    file_bytes first = file_of(spec, m, 64, n, 64, false);
    for (size_t i = 0; i < COUNT_OF(PAGES); i++) {
        file_bytes other = file_of(spec, m, PAGES[i], n, 1 + 23 * (uint32_t)i, i == 1);
        assert_same(&first, &other);
        file_bytes_free(&other);
        check_restored(spec, m, PAGES[i], n, &first);
    }
    file_bytes_free(&first);
}

/* Whatever the size of pages, the steps, and the company. */
static void test_kv54_same_state_same_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) check_spec(MODELS[i].spec, &MODELS[i], APART_LEN);
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) check_spec("f32", &MODELS[i], 90);
}

static void test_every_codec(void **state)
{
    (void)state;
    size_t n_codecs;
    const kv_codec *codecs = kv_codec_table(&n_codecs);
    size_t n_checked = 0;
    for (size_t i = 0; i < n_codecs; i++) {
        char spec[64];
        bool k = (codecs[i].sides & KV_FOR_K) != 0;
        bool v = (codecs[i].sides & KV_FOR_V) != 0;
        if (k && v) snprintf(spec, sizeof spec, "%s", codecs[i].name);
        if (k && !v) snprintf(spec, sizeof spec, "k=%s,v=bf16", codecs[i].name);
        if (!k) snprintf(spec, sizeof spec, "k=affine8g32,v=%s", codecs[i].name);
        check_spec(spec, &MODELS[WINDOW_MODEL], 300);
        n_checked++;
        if (k && v) check_spec(spec, &MODELS[LATENT_MODEL], 200);
    }
    assert_true(n_checked >= 19);
}

/* Files of what is still in base, and of what was converted. */
static void test_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        check_spec("f32,start=200", &MODELS[i], 90);
        check_spec("f32,start=200", &MODELS[i], 300);
    }
    check_spec("affine8g32,start=200", &MODELS[FULL_MODEL], 90);
    check_spec("affine8g32,start=200", &MODELS[WINDOW_MODEL], 300);
    check_spec("affine8g32,start=200", &MODELS[HYBRID_MODEL], 300);
}

/* Many boundaries, whose windows run into one another; where windows are shorter than two pages a
 * file does not have them all. */
static void test_many_boundaries(void **state)
{
    (void)state;
    static const uint32_t AT[] = {1, 15, 16, 17, 30, 32, 47, 60, 75, 99, 160, 170, 200};
    for (size_t i = WINDOW_MODEL; i < COUNT_OF(MODELS); i++) {
        shop s;
        uint32_t tags[TAGS];
        fill_tags(tags, TAGS, 1);
        shop_open(&s, MODELS[i].spec, MODELS[i].layers, MODELS[i].n_layers, 16);
        shop_converse(&s, tags, AT, COUNT_OF(AT), 205, 64, false);
        const char *path = test_folder_path(&folder, "many");
        assert_int_equal(shop_save(&s, tags, TAGS, path), 205);
        file_bytes first = shop_read(path);
        shop_close(&s);
        shop_open(&s, MODELS[i].spec, MODELS[i].layers, MODELS[i].n_layers, 16);
        assert_int_equal(shop_load(&s, path).n_usable, 205);
        uint32_t n_boundaries = get_u32(first.data + STATE_AT_N_BOUNDARIES);
        assert_true(n_boundaries >= 8);
        const unsigned char *at = first.data + STATE_AT_ARRAYS;
        at += (size_t)MODELS[i].n_layers * KV_IDENTITY_BYTES;
        for (uint32_t k = 0; k < n_boundaries; k++, at += 4) {
            uint32_t n_usable;
            kv_seq *seq = shop_begin(&s, tags, get_u32(at) + 1, &n_usable);
            assert_int_equal(n_usable, get_u32(at));
            shop_check(&s, seq, tags);
            kv_seq_destroy(&s.w.memory.allocator, seq);
        }
        assert_int_equal(shop_save(&s, tags, TAGS, path), 205);
        file_bytes again = shop_read(path);
        assert_same(&first, &again);
        file_bytes_free(&first);
        file_bytes_free(&again);
        shop_close(&s);
        /* Pages longer than windows, with holes: the end is there in any case. */
        shop_open(&s, MODELS[i].spec, MODELS[i].layers, MODELS[i].n_layers, 256);
        assert_int_equal(shop_load(&s, path).n_usable, 205);
        uint32_t n_usable;
        kv_seq *seq = shop_begin(&s, tags, 206, &n_usable);
        assert_int_equal(n_usable, 205);
        shop_check(&s, seq, tags);
        kv_seq_destroy(&s.w.memory.allocator, seq);
        shop_close(&s);
    }
}

/* Beside what is there already: conversations that begin alike, in any order. */
static void test_beside_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        shop s;
        uint32_t tags[TAGS];
        uint32_t other[TAGS];
        fill_tags(tags, TAGS, 1);
        fill_tags(other, TAGS, 1);
        for (uint32_t k = 250; k < TAGS; k++) other[k] += 5000;
        const char *path = test_folder_path(&folder, "one");
        const char *other_path = test_folder_path(&folder, "other");
        shop_open(&s, MODELS[i].spec, MODELS[i].layers, MODELS[i].n_layers, 64);
        shop_converse(&s, tags, APART, 2, 400, 64, false);
        assert_int_equal(shop_save(&s, tags, TAGS, path), 400);
        shop_converse(&s, other, APART, 1, 500, 64, false);
        assert_int_equal(shop_save(&s, other, TAGS, other_path), 500);
        /* What was saved first is the same file beside the other. */
        file_bytes first = shop_read(path);
        assert_int_equal(shop_save(&s, tags, TAGS, path), 400);
        file_bytes again = shop_read(path);
        assert_same(&first, &again);
        file_bytes_free(&first);
        file_bytes_free(&again);
        shop_close(&s);
        shop_open(&s, MODELS[i].spec, MODELS[i].layers, MODELS[i].n_layers, 64);
        assert_int_equal(shop_load(&s, other_path).n_usable, 500);
        assert_int_equal(shop_load(&s, path).n_usable, 400);
        uint32_t n_usable;
        kv_seq *one = shop_begin(&s, tags, 401, &n_usable);
        assert_int_equal(n_usable, 400);
        kv_seq *two = shop_begin(&s, other, 501, &n_usable);
        assert_int_equal(n_usable, 500);
        shop_check(&s, one, tags);
        shop_check(&s, two, other);
        kv_seq_destroy(&s.w.memory.allocator, one);
        kv_seq_destroy(&s.w.memory.allocator, two);
        shop_close(&s);
    }
}

/* Nothing is known of these tokens, or nothing that can be resumed: no file. */
static void test_nothing_to_save(void **state)
{
    (void)state;
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_open(&s, "bf16", HYBRIDS, COUNT_OF(HYBRIDS), 16);
    const char *path = test_folder_path(&folder, "none");
    assert_int_equal(shop_save(&s, tags, TAGS, path), 0);
    shop_converse(&s, tags, APART, 1, 200, 64, false);
    assert_int_equal(shop_save(&s, tags, 0, path), 0);
    assert_int_equal(shop_save(&s, tags, 89, path), 0);
    assert_false(io_system()->exists(io_system(), path));
    assert_int_equal(shop_save(&s, tags, 199, path), 90);
    assert_int_equal(shop_load(&s, path).n_usable, 90);
    shop_close(&s);
}

/* Places that are no text keep their keys. */
static void test_media(void **state)
{
    (void)state;
    shop s;
    uint32_t tags[TAGS];
    uint64_t media[TAGS] = {0};
    fill_tags(tags, TAGS, 1);
    for (uint32_t i = 20; i < 40; i++) media[i] = 0x123456789abcU + i;
    kv_history h = {(const int32_t *)tags, media, 100};
    weft_error err = {0};
    uint32_t n_saved;
    const char *path = test_folder_path(&folder, "media");
    shop_open(&s, "bf16", FULLS, COUNT_OF(FULLS), 16);
    kv_seq *seq = shop_seq(&s);
    shop_feed(&s, seq, tags, 100, 64, NULL);
    assert_true(kv_prefix_retire(s.prefix, s.space, seq, &h));
    assert_ok(kv_save(&s.store, s.space, &h, path, &n_saved, &err), &err);
    assert_int_equal(n_saved, 100);
    shop_close(&s);
    shop_open(&s, "bf16", FULLS, COUNT_OF(FULLS), 16);
    assert_int_equal(shop_load(&s, path).n_usable, 100);
    kv_match match;
    kv_prefix_match(s.space, &h, &match);
    assert_int_equal(match.n_usable, 99);
    /* Other pictures, or none: other tokens. */
    media[30]++;
    kv_prefix_match(s.space, &h, &match);
    assert_int_equal(match.n_usable, 30);
    h.media = NULL;
    kv_prefix_match(s.space, &h, &match);
    assert_int_equal(match.n_usable, 20);
    shop_close(&s);
}

/* ---- B25 ------------------------------------------------------------------------------------- */

/* Every buffer that state_list names is looked at by the oracle, and is restored: one byte of it
 * changed shows, and it is all that shows. */
static void test_b25_poison(void **state)
{
    (void)state;
    uint32_t n_poisoned = 0;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        shop s;
        uint32_t tags[TAGS];
        fill_tags(tags, TAGS, 1);
        const model *m = &MODELS[i];
        file_bytes file = file_of(m->spec, m, 16, 190, 64, false);
        const char *path = test_folder_write(&folder, "poison", file.data, file.n_bytes);
        shop_open(&s, m->spec, m->layers, m->n_layers, 16);
        assert_int_equal(shop_load(&s, path).n_usable, 190);
        uint32_t n_usable;
        kv_seq *seq = shop_begin(&s, tags, 191, &n_usable);
        oracle_seq *o = shop_oracle(&s, seq, tags);
        kv_view views[MOST_LAYERS];
        kv_seq_views(seq, views, 1);
        assert_int_equal(oracle_count_wrong(o, views), 0);
        for (uint32_t l = 0; l < m->n_layers; l++) {
            const kv_geometry *g = views[l].geometry;
            kv_plane planes[KV_PLANES_MOST];
            uint32_t n = s.w.config.layouts[l]->state_list(g, planes);
            assert_true(n > 0);
            for (uint32_t k = 0; k < n; k++) {
                /* A position that is seen in all layouts, and its first and last bytes. */
                unsigned char *page =
                    planes[k].by_position
                        ? views[l].pages[(189 / g->page_tokens) % views[l].n_slots]
                        : (unsigned char *)seq->states[l].committed->at;
                uint32_t n_rows = planes[k].by_position ? planes[k].n_heads : 1;
                for (uint32_t h = 0; h < n_rows; h++) {
                    size_t row = planes[k].by_position
                                     ? ((size_t)h * g->page_tokens + 189 % g->page_tokens)
                                     : 0;
                    unsigned char *at = page + planes[k].at + row * planes[k].bytes;
                    at[0] ^= 1;
                    assert_int_equal(oracle_count_wrong(o, views), 1);
                    at[0] ^= 1;
                    at[planes[k].bytes - 1] ^= 0x80;
                    assert_int_equal(oracle_count_wrong(o, views), 1);
                    at[planes[k].bytes - 1] ^= 0x80;
                    n_poisoned += 2;
                }
            }
        }
        assert_int_equal(oracle_count_wrong(o, views), 0);
        oracle_destroy(o);
        kv_seq_destroy(&s.w.memory.allocator, seq);
        shop_close(&s);
        file_bytes_free(&file);
    }
    assert_true(n_poisoned >= 50);
}

/* ---- KV-56 ----------------------------------------------------------------------------------- */

/* A file in memory, and a cache that it is loaded into. */
typedef struct trial {
    shop s;
    memory_files files;
    file_bytes good;
    unsigned char *copy; /* of exact size */
    uint64_t n_loads;
} trial;

static void trial_open(trial *t, const model *m, uint32_t n)
{
    t->good = file_of(m->spec, m, 16, n, 64, false);
    shop_open(&t->s, m->spec, m->layers, m->n_layers, 16);
    memory_files_init(&t->files);
    t->s.store.files = &t->files.io;
    t->n_loads = 0;
}

static void trial_close(trial *t)
{
    shop_close(&t->s);
    file_bytes_free(&t->good);
}

/* What is loaded of the first n bytes, of which one is another; a miss leaves nothing. */
static kv_miss trial_load(trial *t, size_t n, size_t flipped)
{
    unsigned char *copy = malloc(n == 0 ? 1 : n);
    if (copy == NULL) fail_msg("out of memory");
    if (n > 0) memcpy(copy, t->good.data, n);
    if (flipped < n) copy[flipped] ^= 0x10;
    t->files.n_files = 0;
    memory_files_add(&t->files, "state", copy, n);
    uint64_t before = t->s.store.n_misses[KV_MISS_NONE];
    kv_loaded loaded = shop_load(&t->s, "m/state");
    t->n_loads++;
    uint64_t n_counted = 0;
    for (int i = 0; i < KV_MISSES; i++) n_counted += t->s.store.n_misses[i];
    assert_int_equal(n_counted + t->s.store.n_loaded, t->n_loads);
    assert_int_equal(t->s.store.n_misses[KV_MISS_NONE], before);
    if (loaded.miss != KV_MISS_NONE) {
        assert_int_equal(loaded.n_usable, 0);
        assert_int_equal(kv_pool_bytes_cached(t->s.w.pool), 0);
        assert_int_equal(kv_pool_bytes_reserved(t->s.w.pool), 0);
    }
    free(copy);
    return loaded.miss;
}

/* B33: cut at every 4 KiB and at every byte of the header; every byte of the header and one of each
 * section another. */
static void test_kv56_damage(void **state)
{
    (void)state;
    for (size_t i = 1; i < COUNT_OF(MODELS); i += 3) {
        trial t;
        trial_open(&t, &MODELS[i], 120);
        size_t n_bytes = t.good.n_bytes;
        uint64_t n_header = get_u64(t.good.data + STATE_AT_HEADER_BYTES);
        for (size_t n = 0; n < n_header; n++) {
            kv_miss miss = trial_load(&t, n, SIZE_MAX);
            assert_int_equal(miss, n < 8 ? KV_MISS_MAGIC : KV_MISS_TRUNCATED);
            assert_int_equal(kv_miss_is_damage(miss), n >= 8);
        }
        size_t n_cuts = 0;
        for (size_t n = n_header; n < n_bytes; n += STATE_ALIGN, n_cuts++)
            assert_int_equal(trial_load(&t, n, SIZE_MAX), KV_MISS_TRUNCATED);
        assert_true(n_cuts >= 4);
        for (size_t n = 0; n < n_header; n++) {
            kv_miss miss = trial_load(&t, n_bytes, n);
            kv_miss expected = n < 8 ? KV_MISS_MAGIC : n < 12 ? KV_MISS_VERSION : KV_MISS_HEADER;
            bool is_length = n >= STATE_AT_HEADER_BYTES && n < STATE_AT_HEADER_BYTES + 8;
            if (is_length) assert_true(miss == KV_MISS_TRUNCATED || miss == KV_MISS_HEADER);
            if (!is_length) assert_int_equal(miss, expected);
        }
        /* A byte of each section, and of what fills it up. */
        for (size_t n = n_header; n < n_bytes - STATE_TRAILER; n += STATE_ALIGN) {
            assert_int_equal(trial_load(&t, n_bytes, n), KV_MISS_SECTION);
            assert_int_equal(trial_load(&t, n_bytes, n + STATE_ALIGN - 1), KV_MISS_SECTION);
        }
        for (size_t n = n_bytes - STATE_TRAILER; n < n_bytes; n++)
            assert_int_equal(trial_load(&t, n_bytes, n), KV_MISS_TRUNCATED);
        assert_int_equal(trial_load(&t, n_bytes, SIZE_MAX), KV_MISS_NONE);
        trial_close(&t);
    }
}

/* A file whose header was changed by somebody who knows how to hash it. */
static kv_miss forged(trial *t, size_t at, uint32_t value)
{
    uint64_t n_header = get_u64(t->good.data + STATE_AT_HEADER_BYTES);
    unsigned char digest[32];
    unsigned char *data = t->good.data;
    uint32_t old = get_u32(data + at);
    put_u32(data + at, value);
    memcpy(digest, data + n_header - 32, 32);
    weft_error err = {0};
    assert_ok(hash_sha256(data, (size_t)n_header - 32, data + n_header - 32, &err), &err);
    kv_miss miss = trial_load(t, t->good.n_bytes, SIZE_MAX);
    put_u32(data + at, old);
    memcpy(data + n_header - 32, digest, 32);
    return miss;
}

static void test_forged_headers(void **state)
{
    (void)state;
    trial t;
    trial_open(&t, &MODELS[HYBRID_MODEL], 120);
    static const uint32_t VALUES[] = {0, 1, 2, 121, 4097, 0x7fffffff, 0x80000000, 0xffffffff};
    static const size_t COUNTS[] = {STATE_AT_LEN, STATE_AT_N_BOUNDARIES, STATE_AT_N_LAYERS,
                                    STATE_AT_N_SECTIONS};
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        for (size_t k = 0; k < COUNT_OF(VALUES); k++) {
            if (get_u32(t.good.data + COUNTS[i]) == VALUES[k]) continue;
            assert_int_equal(forged(&t, COUNTS[i], VALUES[k]), KV_MISS_GEOMETRY);
        }
    }
    /* Every number of the arrays: layers, boundaries, keys, sections. What is not an id is another
     * token, and nothing wrong; a checksum is found out by its section. */
    size_t layers = STATE_AT_ARRAYS;
    size_t boundaries = layers + (size_t)t.s.w.config.n_layers * KV_IDENTITY_BYTES;
    size_t keys = boundaries + 8;
    size_t sections = keys + 120 * 8;
    uint32_t n_sections = get_u32(t.good.data + STATE_AT_N_SECTIONS);
    assert_int_equal(get_u32(t.good.data + STATE_AT_N_BOUNDARIES), 2);
    for (size_t at = layers; at < keys; at += 4) {
        uint32_t value = get_u32(t.good.data + at);
        assert_int_equal(forged(&t, at, value + 1), KV_MISS_GEOMETRY);
        assert_int_equal(forged(&t, at, value ^ 0x80000000), KV_MISS_GEOMETRY);
    }
    assert_int_equal(forged(&t, keys + 4, 1), KV_MISS_GEOMETRY);
    for (size_t at = sections; at < sections + n_sections * (size_t)STATE_SECTION_BYTES; at += 4) {
        size_t field = (at - sections) % STATE_SECTION_BYTES;
        kv_miss miss = forged(&t, at, get_u32(t.good.data + at) + 1);
        assert_int_equal(miss, field >= 40 ? KV_MISS_SECTION : KV_MISS_GEOMETRY);
    }
    size_t end = sections + n_sections * (size_t)STATE_SECTION_BYTES;
    assert_int_equal(forged(&t, end, 1), KV_MISS_GEOMETRY);
    assert_int_equal(forged(&t, STATE_AT_CONVERTED, 3), KV_MISS_GEOMETRY);
    assert_int_equal(forged(&t, STATE_AT_SALT + 4, 1), KV_MISS_SALT);
    assert_int_equal(forged(&t, STATE_AT_FILE_BYTES, 4096), KV_MISS_TRUNCATED);
    assert_int_equal(trial_load(&t, t.good.n_bytes, SIZE_MAX), KV_MISS_NONE);
    trial_close(&t);
}

/* KV-53: nothing crosses a namespace, and each difference has its name. */
static void test_kv53_namespaces(void **state)
{
    (void)state;
    file_bytes file = file_of("bf16", &MODELS[WINDOW_MODEL], 16, 120, 64, false);
    const char *path = test_folder_write(&folder, "mine", file.data, file.n_bytes);
    shop s;
    shop_open(&s, "bf16", WINDOWED, COUNT_OF(WINDOWED), 16);
    s.store.origin.model[31] ^= 1;
    assert_int_equal(shop_load(&s, path).miss, KV_MISS_MODEL);
    s.store.origin.model[31] ^= 1;
    s.store.origin.tokenizer[0] ^= 1;
    assert_int_equal(shop_load(&s, path).miss, KV_MISS_TOKENIZER);
    s.store.origin.tokenizer[0] ^= 1;
    s.store.origin.numerics[7] ^= 1;
    assert_int_equal(shop_load(&s, path).miss, KV_MISS_NUMERICS);
    s.store.origin.numerics[7] ^= 1;
    kv_space *own = s.space;
    s.space = kv_prefix_space(s.prefix, &s.w.config, 8);
    assert_int_equal(shop_load(&s, path).miss, KV_MISS_SALT);
    s.space = own;
    assert_int_equal(shop_load(&s, test_folder_path(&folder, "no")).miss, KV_MISS_ABSENT);
    assert_int_equal(shop_load(&s, folder.path).miss, KV_MISS_READ);
    assert_int_equal(kv_pool_bytes_cached(s.w.pool), 0);
    /* Other tokens have nothing of it. */
    assert_int_equal(shop_load(&s, path).n_usable, 120);
    uint32_t tags[TAGS];
    uint32_t n_usable;
    fill_tags(tags, TAGS, 1);
    tags[0]++;
    kv_seq_destroy(&s.w.memory.allocator, shop_begin(&s, tags, 121, &n_usable));
    assert_int_equal(n_usable, 0);
    shop_close(&s);
    static const char *const OTHERS[] = {"f16", "affine8g32", "k=bf16,v=f16", "bf16,start=64"};
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        shop_open(&s, OTHERS[i], WINDOWED, COUNT_OF(WINDOWED), 64);
        assert_int_equal(shop_load(&s, path).miss, KV_MISS_IDENTITY);
        shop_close(&s);
    }
    shop_open(&s, "bf16", WINDOWED, 2, 64);
    assert_int_equal(shop_load(&s, path).miss, KV_MISS_IDENTITY);
    shop_close(&s);
    file_bytes_free(&file);
}

/* ---- budgets --------------------------------------------------------------------------------- */

/* B34: what the budget cannot hold is skipped and costs nobody his place; what it can just hold is
 * there as a whole. */
static void test_b34_budgets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        const model *m = &MODELS[i];
        uint32_t tags[TAGS];
        fill_tags(tags, TAGS, 5000);
        file_bytes file = file_of(m->spec, m, 16, 200, 64, false);
        const char *path = test_folder_write(&folder, "entry", file.data, file.n_bytes);
        shop s;
        shop_open(&s, m->spec, m->layers, m->n_layers, 16);
        assert_int_equal(shop_load(&s, path).n_usable, 200);
        uint64_t entry = kv_pool_bytes_cached(s.w.pool);
        shop_close(&s);
        for (uint64_t budget = entry - 1; budget <= entry + 1; budget++) {
            shop_open_with(&s, m->spec, m->layers, m->n_layers, 16, budget, 0);
            kv_loaded loaded = shop_load(&s, path);
            assert_int_equal(loaded.miss, budget < entry ? KV_MISS_ROOM : KV_MISS_NONE);
            assert_int_equal(loaded.n_usable, budget < entry ? 0 : 200);
            assert_true(s.w.pages.most <= budget);
            shop_close(&s);
            /* Its own limit of the cache, under a budget with room for all. */
            shop_open_with(&s, m->spec, m->layers, m->n_layers, 16, 1 << 26, budget);
            shop_converse(&s, tags, NULL, 0, 8, 8, false);
            kv_prefix_stats before;
            kv_prefix_get_stats(s.prefix, &before);
            assert_true(before.bytes > 0 || budget < entry);
            loaded = shop_load(&s, path);
            assert_int_equal(loaded.miss, budget < entry ? KV_MISS_ROOM : KV_MISS_NONE);
            assert_int_equal(s.store.n_misses[KV_MISS_ROOM], budget < entry);
            kv_prefix_stats after;
            kv_prefix_get_stats(s.prefix, &after);
            if (budget < entry) assert_int_equal(after.n_evicted, before.n_evicted);
            if (budget < entry) assert_int_equal(after.bytes, before.bytes);
            assert_true(after.bytes <= budget);
            shop_close(&s);
        }
        file_bytes_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kv54_same_state_same_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_codec, setup, teardown),
        cmocka_unit_test_setup_teardown(test_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_boundaries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beside_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_save, setup, teardown),
        cmocka_unit_test_setup_teardown(test_media, setup, teardown),
        cmocka_unit_test_setup_teardown(test_b25_poison, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv56_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv53_namespaces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_b34_budgets, setup, teardown),
    };
    return TEST_RUN("kv/persist", tests);
}
