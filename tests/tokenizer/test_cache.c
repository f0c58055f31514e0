/* test_cache.c - a tokenizer and its twin from the cache are the same, and nothing that a file of
 * the cache holds, or lacks, makes it anything else. */
#include "tokenizer/cache.h"
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "support/fault.h"
#include "tokenizer/detok.h"

#define FIXTURES WEFT_SOURCE_DIR "/tests/tokenizer/fixtures/"

static const weights_format FOLDER = {.name = "folder", .is_folder = true};

/* One of each kind of model. The last one's unknown token is none of the model's. */
static const char *const SMALL[] = {
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":8,\"content\":\"<tool>\",\"special\":false,\"lstrip\":true,\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"ab\":4,\"cd\":5,"
    "\"abcd\":9,\"\\u0120\":10},\"merges\":[\"a b\",[\"c\",\"d\"],\"ab cd\"]}}",
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true,\"rstrip\":true}],"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":\"b\"},\"content\":\"xyz\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"byte_fallback\":false,"
    "\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"ab\":3,\"abb\":4,\"\\u00e9\":5},"
    "\"merges\":[\"a b\",\"ab b\"]}}",
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,\"single_word\":true}],"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"decoder\":{\"type\":\"Metaspace\"},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"<s>\",0],"
    "[\"\\u2581\",-3],[\"a\",-2],[\"ab\",-2.5],[\"\\u2581ab\",-1.5]]}}",
    "{\"added_tokens\":[{\"id\":7,\"content\":\"[X]\",\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
    "\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,\"##ab\":3,\"b\":5}}}",
    "{\"added_tokens\":[{\"id\":2,\"content\":\"?\",\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"ab\":1}}}"};

static const char *const TEXTS[] = {
    "",     "a ab abab  abcd cd b",    "<s>ab </s> <s> a<s>",         "x  <tool>ab <tool> [X] b",
    "? a?", "caf\xc3\xa9 e\xcc\x81 ?", "aaaaabbbbb ababababababab\n", "abb aab ##ab zz"};

/* ---- twins ---- */

static void take_ids(const tokenizer *t, str text, uint32_t flags, token_list *list)
{
    weft_error err = {WEFT_OK, ""};
    token_list_init(list, mem_system());
    assert_ok(tokenizer_encode(t, text, flags, list, &err), &err);
}

static void take_text(const tokenizer *t, const token_list *list, strbuf *out)
{
    detok d;
    str part;
    strbuf_init(out, mem_system(), 0);
    detok_init(&d, t, mem_system(), true);
    for (size_t i = 0; i < list->len; i++) {
        assert_ok(detok_push(&d, list->ids[i], &part, NULL), NULL);
        strbuf_add(out, part.ptr, part.len);
    }
    assert_ok(detok_flush(&d, &part, NULL), NULL);
    strbuf_add(out, part.ptr, part.len);
    detok_deinit(&d);
}

static void check_text(const tokenizer *a, const tokenizer *b, str text)
{
    for (uint32_t flags = 0; flags < 4; flags++) {
        token_list x, y;
        strbuf s, u;
        take_ids(a, text, flags, &x);
        take_ids(b, text, flags, &y);
        assert_int_equal(x.len, y.len);
        if (x.len != 0) assert_memory_equal(x.ids, y.ids, x.len * sizeof *x.ids);
        take_text(a, &x, &s);
        take_text(b, &x, &u);
        assert_string_equal(strbuf_text(&s), strbuf_text(&u));
        strbuf_deinit(&s);
        strbuf_deinit(&u);
        token_list_deinit(&x);
        token_list_deinit(&y);
    }
}

static void check_added(const added *a, const added *b)
{
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->starts, b->starts, sizeof a->starts);
    for (uint32_t i = 0; i < a->n_tokens; i++) {
        assert_int_equal(a->tokens[i].id, b->tokens[i].id);
        assert_int_equal(a->tokens[i].single_word, b->tokens[i].single_word);
        assert_int_equal(a->tokens[i].lstrip, b->tokens[i].lstrip);
        assert_int_equal(a->tokens[i].rstrip, b->tokens[i].rstrip);
    }
}

static void check_twins(const tokenizer *a, const tokenizer *b)
{
    assert_int_equal(tokenizer_n_vocab(a), tokenizer_n_vocab(b));
    assert_int_equal(tokenizer_bos(a), tokenizer_bos(b));
    assert_int_equal(tokenizer_eos(a), tokenizer_eos(b));
    for (uint32_t i = 0; i < a->vocab.n; i++) {
        const vocab_entry *x = &a->vocab.entries[i];
        const vocab_entry *y = &b->vocab.entries[i];
        assert_int_equal(x->flags, y->flags);
        assert_true(str_equal((str){x->text, x->text_len}, (str){y->text, y->text_len}));
        assert_true(str_equal((str){x->bytes, x->bytes_len}, (str){y->bytes, y->bytes_len}));
        str text = {x->text, x->text_len};
        assert_int_equal(tokenizer_find(a, text), tokenizer_find(b, text));
    }
    assert_int_equal(tokenizer_find(b, str_of("no such token")), -1);
    check_added(&a->added, &b->added);
    check_added(&a->added_normalized, &b->added_normalized);
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) check_text(a, b, str_of(TEXTS[i]));
}

/* ---- a model's folder and one for its cache ---- */

typedef struct place {
    test_folder model, cached;
    tokenizer_cache settings;
} place;

static void place_create(place *p, const char *source, size_t n)
{
    static const char CONFIG[] = "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"ab\"}}";
    test_folder_create(&p->model);
    test_folder_create(&p->cached);
    p->settings = (tokenizer_cache){p->cached.path, 1};
    test_folder_write(&p->model, "tokenizer.json", source, n);
    test_folder_write(&p->model, "tokenizer_config.json", CONFIG, sizeof CONFIG - 1);
}

static void place_remove(place *p)
{
    test_folder_remove(&p->model);
    test_folder_remove(&p->cached);
}

static weft_status open_at(const env *world, const place *p, bool cached, tokenizer **t,
                           weft_error *err)
{
    weights w = {.env = *world, .format = &FOLDER, .path = p->model.path};
    return tokenizer_open(&w, cached ? &p->settings : NULL, t, err);
}

/* hit: whether it is to come from the cache. */
static tokenizer *open_expecting(const place *p, bool cached, bool hit)
{
    env world = {mem_system(), io_system(), NULL};
    tokenizer *t = NULL;
    weft_error err = {WEFT_OK, ""};
    assert_ok(open_at(&world, p, cached, &t, &err), &err);
    assert_non_null(t);
    assert_int_equal(t->map.data != NULL, hit);
    return t;
}

/* The files of the cache; the path of the last one. */
static size_t cached_files(place *p, char path[512])
{
    char *names;
    size_t n_bytes;
    size_t n = 0;
    assert_ok(io_system()->list(io_system(), p->cached.path, mem_system(), &names, &n_bytes, NULL),
              NULL);
    for (const char *at = names; *at != '\0'; at += strlen(at) + 1, n++)
        snprintf(path, 512, "%s/%s", p->cached.path, at);
    mem_free(mem_system(), names, n_bytes);
    return n;
}

/* ---- the same ---- */

static void read_json(const char *name, json_doc *doc)
{
    char path[1024];
    char *text;
    size_t n;
    weft_error err = {WEFT_OK, ""};
    snprintf(path, sizeof path, FIXTURES "%s.json", name);
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &text, &n, &err), &err);
    assert_ok(json_parse(doc, text, n, &err), &err);
    mem_free(mem_system(), text, n + 1);
}

/* With model.json in the place of its "@", where it has one. */
static void write_source(const json *state, strbuf *whole)
{
    static const char MARK[] = "\"vocab\":\"@\",\"merges\":\"@\"";
    strbuf text, lists;
    json_doc doc;
    strbuf_init(&text, mem_system(), 0);
    strbuf_init(&lists, mem_system(), 0);
    strbuf_init(whole, mem_system(), 0);
    assert_int_equal(WEFT_OK, json_write(state, 0, &text));
    const char *mark = strstr(text.ptr, MARK);
    strbuf_add(whole, text.ptr, mark == NULL ? text.len : (size_t)(mark - text.ptr));
    if (mark != NULL) {
        read_json("model", &doc);
        assert_int_equal(WEFT_OK, json_write(doc.root, 0, &lists));
        strbuf_add(whole, lists.ptr + 1, lists.len - 2); /* without braces */
        strbuf_add_text(whole, mark + strlen(MARK));
        json_doc_free(&doc);
    }
    strbuf_deinit(&text);
    strbuf_deinit(&lists);
}

/* texts: what to compare by; each is a text or a list that starts with one. */
static void check_source(str source, const json *texts, size_t step)
{
    place p;
    char path[512];
    place_create(&p, source.ptr, source.len);
    tokenizer *plain = open_expecting(&p, false, false);
    assert_int_equal(cached_files(&p, path), 0);
    tokenizer *first = open_expecting(&p, true, false);
    assert_int_equal(cached_files(&p, path), 1);
    tokenizer *twin = open_expecting(&p, true, true);
    check_twins(plain, first);
    check_twins(plain, twin);
    for (size_t i = 0; i < json_length(texts); i += step) {
        const json *item = json_at(texts, i);
        bool is_text = json_kind_of(item) == JSON_KIND_TEXT;
        check_text(plain, twin, json_text(is_text ? item : json_at(item, 0)));
    }
    tokenizer_destroy(plain);
    tokenizer_destroy(first);
    tokenizer_destroy(twin);
    place_remove(&p);
}

static void test_small(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SMALL); i++) check_source(str_of(SMALL[i]), NULL, 1);
}

static void test_fixtures(void **state)
{
    static const char *const NAMES[] = {
        "gpt2",    "digits",     "nfc-llama3",    "nfkd-lower",      "nfkc-gpt4o",
        "nfd-han", "strips",     "odd",           "split-removed",   "regex-removed",
        "whole",   "characters", "digits-groups", "characters-each", "characters-dropped"};
    static const char *const KINDS[] = {
        "llama2",     "llama2-first",  "mistral", "gemma", "openai-gpt", "clip", "prefixed",
        "some-bytes", "bytes-first",   "roberta", "bert",  "bert-cased", "t5",   "xlm-r",
        "albert",     "unigram-bytes", "falcon",  "words", "ctc"};
    (void)state;
    json_doc texts;
    read_json("kinds/texts", &texts);
    for (size_t i = 0; i < COUNT_OF(NAMES) + COUNT_OF(KINDS); i++) {
        char name[64];
        json_doc doc;
        strbuf source;
        bool kind = i >= COUNT_OF(NAMES);
        snprintf(name, sizeof name, "%s%s", kind ? "kinds/" : "",
                 kind ? KINDS[i - COUNT_OF(NAMES)] : NAMES[i]);
        read_json(name, &doc);
        write_source(json_get(doc.root, "tokenizer"), &source);
        const json *cases = kind ? texts.root : json_get(doc.root, "cases");
        assert_true(json_length(cases) >= 30);
        check_source((str){source.ptr, source.len}, cases, kind ? 11 : 1);
        strbuf_deinit(&source);
        json_doc_free(&doc);
    }
    json_doc_free(&texts);
}

/* ---- names and settings ---- */

static void test_places(void **state)
{
    (void)state;
    place p;
    place q;
    char path[512];
    char other[512];
    place_create(&p, SMALL[0], strlen(SMALL[0]));
    p.settings.least_bytes = strlen(SMALL[0]) + 1;
    tokenizer_destroy(open_expecting(&p, true, false));
    assert_int_equal(cached_files(&p, path), 0);
    p.settings.least_bytes--;
    tokenizer_destroy(open_expecting(&p, true, false));
    assert_int_equal(cached_files(&p, path), 1);
    /* The same text elsewhere has a file of its own. */
    place_create(&q, SMALL[0], strlen(SMALL[0]));
    tokenizer_destroy(open_expecting(&q, true, false));
    assert_int_equal(cached_files(&q, other), 1);
    assert_string_not_equal(strrchr(path, '/'), strrchr(other, '/'));
    /* So has another text in the same place. */
    p.settings.least_bytes = 1;
    test_folder_write(&p.model, "tokenizer.json", SMALL[1], strlen(SMALL[1]));
    tokenizer *t = open_expecting(&p, true, false);
    assert_int_equal(cached_files(&p, path), 2);
    assert_int_equal(tokenizer_find(t, str_of("abb")), 4);
    tokenizer_destroy(t);
    place_remove(&p);
    place_remove(&q);
}

static void count_line(void *user, weft_log_level level, const char *message)
{
    assert_int_equal(level, WEFT_LOG_INFO);
    assert_true(strlen(message) > 10);
    (*(size_t *)user)++;
}

/* Neither a folder that is not there nor a text that is no tokenizer makes a failure of its own. */
static void test_nowhere(void **state)
{
    (void)state;
    place p;
    size_t n_lines = 0;
    weft_log log = {&n_lines, count_line};
    env world = {mem_system(), io_system(), &log};
    tokenizer *t = NULL;
    weft_error err = {WEFT_OK, ""};
    char path[512];
    place_create(&p, SMALL[0], strlen(SMALL[0]));
    p.settings.folder = "/no/such/folder";
    assert_ok(open_at(&world, &p, true, &t, &err), &err);
    assert_int_equal(n_lines, 1);
    tokenizer_destroy(t);
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    p.settings.folder = longer;
    assert_ok(open_at(&world, &p, true, &t, &err), &err);
    tokenizer_destroy(t);
    p.settings.folder = p.cached.path;
    test_folder_write(&p.model, "tokenizer.json", "{}", 2);
    assert_status(WEFT_FORMAT, open_at(&world, &p, true, &t, &err), &err);
    assert_int_equal(cached_files(&p, path), 0);
    place_remove(&p);
}

/* ---- what a file may hold ---- */

static void free_map(const io *files, io_map *file)
{
    (void)files;
    free(file->handle);
    *file = (io_map){0};
}

/* A file in memory of exactly its size. */
static weft_status load(const unsigned char *data, size_t n, const cache_key *key, tokenizer **t)
{
    static io files;
    files = *io_system();
    files.unmap = free_map;
    env world = {mem_system(), &files, NULL};
    unsigned char *copy = malloc(n == 0 ? 1 : n);
    assert_non_null(copy);
    if (n != 0) memcpy(copy, data, n);
    io_map file = {.data = copy, .size = n, .handle = copy};
    weft_error err = {WEFT_OK, ""};
    weft_status status = cache_load(&world, &file, key, t, &err);
    assert_int_equal(status, err.status);
    assert_int_equal(status == WEFT_OK, *t != NULL);
    if (status != WEFT_OK) free(copy);
    return status;
}

static void use(const tokenizer *t)
{
    strbuf out;
    for (uint32_t flags = 0; flags < 4; flags++) {
        for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
            token_list list;
            take_ids(t, str_of(TEXTS[i]), flags, &list);
            take_text(t, &list, &out);
            strbuf_deinit(&out);
            token_list_deinit(&list);
        }
    }
    strbuf_init(&out, mem_system(), 0);
    for (uint32_t id = 0; id < tokenizer_n_vocab(t); id++) {
        str text = tokenizer_token(t, (int32_t)id);
        int32_t found = tokenizer_find(t, text);
        assert_true(found >= -1 && found < (int32_t)tokenizer_n_vocab(t));
        assert_int_equal(WEFT_OK, tokenizer_bytes(t, (int32_t)id, true, &out));
    }
    strbuf_deinit(&out);
}

typedef struct sample {
    unsigned char *data;
    size_t n;
    cache_key key;
} sample;

static void sample_make(sample *s, const char *source)
{
    place p;
    char path[512];
    char *data;
    place_create(&p, source, strlen(source));
    tokenizer_destroy(open_expecting(&p, true, false));
    assert_int_equal(cached_files(&p, path), 1);
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &data, &s->n, NULL), NULL);
    s->data = (unsigned char *)data;
    s->key = ((const cache_head *)(const void *)data)->key;
    place_remove(&p);
}

static void sample_free(sample *s)
{
    mem_free(mem_system(), s->data, s->n + 1);
}

static void test_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
        sample s;
        tokenizer *t;
        sample_make(&s, SMALL[i]);
        assert_ok(load(s.data, s.n, &s.key, &t), NULL);
        tokenizer_destroy(t);
        for (size_t n = 0; n < s.n; n += 1 + n / 256)
            assert_int_not_equal(WEFT_OK, load(s.data, n, &s.key, &t));
        /* With a checksum that is right, sizes still are not. */
        for (size_t n = sizeof(cache_head); n < s.n; n += 1 + n / 256) {
            uint64_t sum = cache_checksum(s.data, n);
            memcpy(s.data + offsetof(cache_head, checksum), &sum, sizeof sum);
            assert_int_not_equal(WEFT_OK, load(s.data, n, &s.key, &t));
        }
        sample_free(&s);
    }
}

static void test_head(void **state)
{
    (void)state;
    sample s;
    tokenizer *t;
    sample_make(&s, SMALL[0]);
    for (size_t i = 0; i < sizeof(cache_head); i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            s.data[i] ^= (unsigned char)(1u << bit);
            assert_int_not_equal(WEFT_OK, load(s.data, s.n, &s.key, &t));
            s.data[i] ^= (unsigned char)(1u << bit);
        }
    }
    cache_key other = s.key;
    other.n_bytes++;
    assert_int_not_equal(WEFT_OK, load(s.data, s.n, &other, &t));
    other = s.key;
    other.hash.high ^= 1;
    assert_int_not_equal(WEFT_OK, load(s.data, s.n, &other, &t));
    assert_ok(load(s.data, s.n, &s.key, &t), NULL);
    tokenizer_destroy(t);
    sample_free(&s);
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Anywhere behind the magic; half of them in the head, which is what sizes come from. */
static size_t pick(uint64_t *state, size_t n)
{
    size_t first = offsetof(cache_head, kind);
    size_t end = next(state) % 2 == 0 ? sizeof(cache_head) : n;
    return first + next(state) % (end - first);
}

static void test_flipped(void **state)
{
    enum { RUNS = TEST_SLOWED ? 2000 : 4000 };
    size_t n_loaded = 0;
    uint64_t random = 1;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
        sample s;
        sample_make(&s, SMALL[i]);
        unsigned char *data = malloc(s.n);
        assert_non_null(data);
        for (size_t run = 0; run < RUNS; run++) {
            tokenizer *t;
            memcpy(data, s.data, s.n);
            for (size_t n = 1 + next(&random) % 3; n > 0; n--) {
                static const unsigned char VALUES[] = {0, 1, 2, 127, 128, 255};
                size_t at = pick(&random, s.n);
                size_t value = next(&random) % 12;
                unsigned flipped = data[at] ^ 1u << (value >= 6 ? value - 6 : 0);
                if (value < COUNT_OF(VALUES)) flipped = VALUES[value];
                data[at] = (unsigned char)flipped;
            }
            memcpy(data + offsetof(cache_head, key), &s.key, sizeof s.key);
            uint64_t sum = cache_checksum(data, s.n);
            memcpy(data + offsetof(cache_head, checksum), &sum, sizeof sum);
            if (load(data, s.n, &s.key, &t) != WEFT_OK) continue;
            use(t);
            n_loaded++;
            tokenizer_destroy(t);
        }
        free(data);
        sample_free(&s);
    }
    print_message("%zu of %zu loaded\n", n_loaded, RUNS * COUNT_OF(SMALL));
    assert_in_range(n_loaded, RUNS / 4, RUNS * COUNT_OF(SMALL) - RUNS / 4);
}

/* A table without a free slot would be searched for ever. */
static void test_full(void **state)
{
    (void)state;
    sample s;
    tokenizer *t;
    sample_make(&s, SMALL[0]);
    cache_head head;
    memcpy(&head, s.data, sizeof head);
    size_t at = size_align(sizeof head, CACHE_ALIGN);
    for (size_t i = 0; i < CACHE_SECTIONS; i++) {
        size_t n = (size_t)head.sizes[i];
        unsigned char *bytes = s.data + at;
        at += size_align(n, CACHE_ALIGN);
        if (i != CACHE_SLOTS && i != CACHE_PAIRS && i != CACHE_ADDED_TRIE) continue;
        unsigned char *kept = malloc(n);
        assert_non_null(kept);
        memcpy(kept, bytes, n);
        memset(bytes, 0, n);
        for (size_t k = 0; i == CACHE_ADDED_TRIE && k < n; k += sizeof(pairs_slot))
            bytes[k + offsetof(pairs_slot, value)] = 1;
        uint64_t sum = cache_checksum(s.data, s.n);
        memcpy(s.data + offsetof(cache_head, checksum), &sum, sizeof sum);
        assert_int_equal(WEFT_FORMAT, load(s.data, s.n, &s.key, &t));
        memcpy(bytes, kept, n);
        free(kept);
    }
    sample_free(&s);
}

/* A file whose JSON still lists the added tokens, which its tables have as well. */
static void test_listed_twice(void **state)
{
    (void)state;
    env world = {mem_system(), io_system(), NULL};
    cache_key key = {1, {2, 3}};
    str source = str_of(SMALL[0]);
    json_cut cut;
    tokenizer *t = NULL;
    tokenizer *again = NULL;
    unsigned char *data;
    size_t n;
    weft_error err = {WEFT_OK, ""};
    assert_ok(tokenizer_parse(&world, source.ptr, source.len, &t, &err), &err);
    assert_ok(json_cut_init(&cut, mem_system(), source, &err), &err);
    for (int twice = 0; twice < 2; twice++) {
        if (twice) cut.added.len = 0;
        assert_ok(cache_build(mem_system(), &key, t, &cut, source, &data, &n, &err), &err);
        assert_int_equal(twice ? WEFT_FORMAT : WEFT_OK, load(data, n, &key, &again));
        mem_free(mem_system(), data, n);
        tokenizer_destroy(again);
    }
    json_cut_deinit(&cut);
    tokenizer_destroy(t);
}

/* Tables that are borrowed are copied when something is put into them. */
static void test_put(void **state)
{
    (void)state;
    place p;
    weft_error err = {WEFT_OK, ""};
    place_create(&p, SMALL[0], strlen(SMALL[0]));
    tokenizer_destroy(open_expecting(&p, true, false));
    tokenizer *t = open_expecting(&p, true, true);
    pairs *merges = &t->model.bpe.merges;
    uint32_t value = pairs_get(merges, pairs_key(0, 1))->value;
    assert_null(merges->own);
    assert_null(t->vocab.own);
    for (int32_t i = 0; i < 200; i++) {
        char text[16];
        snprintf(text, sizeof text, "new%d", i);
        assert_ok(vocab_put(&t->vocab, 100 + i, str_of(text), VOCAB_MODEL, &err), &err);
        assert_ok(pairs_put(merges, pairs_key(7, (uint32_t)i), 4, 9, &err), &err);
        assert_int_equal(tokenizer_find(t, str_of(text)), 100 + i);
    }
    assert_int_equal(tokenizer_find(t, str_of("abcd")), 9);
    assert_int_equal(tokenizer_find(t, str_of("new0")), 100);
    assert_int_equal(pairs_get(merges, pairs_key(0, 1))->value, value);
    assert_int_equal(pairs_get(merges, pairs_key(7, 0))->value, 4);
    tokenizer_destroy(t);
    place_remove(&p);
}

/* A bad file is replaced. */
static void test_replaced(void **state)
{
    (void)state;
    place p;
    char path[512];
    place_create(&p, SMALL[2], strlen(SMALL[2]));
    tokenizer *plain = open_expecting(&p, true, false);
    assert_int_equal(cached_files(&p, path), 1);
    static const char *const BAD[] = {"", "x", "weft-tok but nothing of the kind"};
    for (size_t i = 0; i < COUNT_OF(BAD); i++) {
        assert_ok(io_system()->write(io_system(), path, BAD[i], strlen(BAD[i]), NULL), NULL);
        tokenizer *t = open_expecting(&p, true, false);
        check_twins(plain, t);
        tokenizer_destroy(t);
        t = open_expecting(&p, true, true);
        check_twins(plain, t);
        tokenizer_destroy(t);
    }
    assert_int_equal(cached_files(&p, path), 1);
    tokenizer_destroy(plain);
    place_remove(&p);
}

/* ---- faults ---- */

/* Each allocation, or file operation, fails once: then the tokenizer is there all the same, or the
 * reason is what failed. */
static size_t sweep(const place *p, const tokenizer *plain, bool files)
{
    for (size_t n = 1;; n++) {
        fault_allocator memory;
        fault_io disk;
        fault_allocator_init(&memory, files ? 0 : n);
        fault_io_init(&disk, files ? n : 0);
        env world = {&memory.allocator, &disk.io, NULL};
        tokenizer *t = NULL;
        weft_error err = {WEFT_OK, ""};
        weft_status status = open_at(&world, p, true, &t, &err);
        bool hit = files ? disk.hit : memory.hit;
        if (status == WEFT_OK) {
            check_twins(plain, t);
        } else {
            assert_true(hit);
            assert_int_equal(status, files ? WEFT_IO : WEFT_NOMEM);
        }
        tokenizer_destroy(t);
        fault_allocator_check(&memory);
        fault_io_check(&disk);
        if (!hit) return n - 1;
    }
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
        place p;
        place_create(&p, SMALL[i], strlen(SMALL[i]));
        tokenizer *plain = open_expecting(&p, false, false);
        assert_true(sweep(&p, plain, false) >= 8); /* from the cache after the first */
        assert_true(sweep(&p, plain, true) >= 4);
        p.settings.folder = "/no/such/folder"; /* never from it */
        assert_true(sweep(&p, plain, false) >= 20);
        assert_true(sweep(&p, plain, true) >= 6);
        tokenizer_destroy(plain);
        place_remove(&p);
    }
}

/* ---- many at once ---- */

typedef struct opener {
    const place *p;
    tokenizer *t;
    weft_status status;
} opener;

static void *open_often(void *user)
{
    opener *o = user;
    env world = {mem_system(), io_system(), NULL};
    for (int i = 0; i < 20 && o->status == WEFT_OK; i++) {
        tokenizer_destroy(o->t);
        o->t = NULL;
        o->status = open_at(&world, o->p, true, &o->t, NULL);
        /* One in two throws the file away, so that they keep writing it. */
        cache_place at;
        char source[512];
        snprintf(source, sizeof source, "%s/tokenizer.json", o->p->model.path);
        if (i % 2 == 0 && i < 18 && cache_place_of(&o->p->settings, source, str_of(SMALL[0]), &at))
            remove(at.path);
    }
    return NULL;
}

static void test_at_once(void **state)
{
    enum { N = 4 };
    (void)state;
    place p;
    char path[512];
    pthread_t threads[N];
    opener openers[N];
    place_create(&p, SMALL[0], strlen(SMALL[0]));
    tokenizer *plain = open_expecting(&p, false, false);
    for (size_t i = 0; i < N; i++) {
        openers[i] = (opener){&p, NULL, WEFT_OK};
        assert_int_equal(0, pthread_create(&threads[i], NULL, open_often, &openers[i]));
    }
    for (size_t i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(openers[i].status, WEFT_OK);
        check_twins(plain, openers[i].t);
        tokenizer_destroy(openers[i].t);
    }
    tokenizer_destroy(open_expecting(&p, true, true));
    assert_int_equal(cached_files(&p, path), 1); /* nothing half written stays */
    tokenizer_destroy(plain);
    place_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_places),       cmocka_unit_test(test_nowhere),
        cmocka_unit_test(test_cut),          cmocka_unit_test(test_head),
        cmocka_unit_test(test_flipped),      cmocka_unit_test(test_full),
        cmocka_unit_test(test_replaced),     cmocka_unit_test(test_put),
        cmocka_unit_test(test_listed_twice), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_at_once),
    };
    return TEST_RUN("tokenizer/cache", tests);
}
