/* test_text.c - the text of an answer and the texts that end it: tokens that are given, not
 * sampled, against their text as a whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/io.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "engine/state.h"
#include "support/fault.h"
#include "support/runs.h"

#define MODEL TINY_PATH("draft")

enum { TEXT_MOST = 4096, TOKENS_MOST = 512 };

static uint64_t counter;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(rng_u64(65, counter++) % n);
}

/* ---- tokens that are played to a request as if a step had sampled them ---- */

typedef struct played {
    char text[TEXT_MOST];
    size_t n;          /* bytes of text */
    size_t n_before;   /* of them before DONE */
    uint32_t n_tokens; /* that were taken */
    weft_finish finish;
    int32_t stop_id, stop_text;
} played;

typedef struct player {
    weft_model *model;
    weft_engine *engine;
    const int32_t *ids; /* [n_ids] */
    uint32_t n_ids;
    weft_request from;
    int32_t end_id; /* that ends it; -1: none */
    bool poll_late; /* when all is there, not after each token */
    bool in_step;   /* before the step that ended it has said so */
} player;

static void take_event(request *r, weft_event_kind kind, played *out)
{
    weft_event event = {.kind = kind, .text = ""};
    weft_error err = {WEFT_OK, ""};
    assert_ok(text_give(r, &event, &err), &err);
    assert_true(utf8_valid(event.text, event.n_text));
    assert_true(out->n + event.n_text < TEXT_MOST);
    memcpy(out->text + out->n, event.text, event.n_text);
    out->n += event.n_text;
    out->text[out->n] = '\0';
    if (kind == WEFT_EVENT_TOKEN) {
        out->n_before = out->n;
        r->n_polled++;
    }
}

static played play(player *p)
{
    played out = {.finish = WEFT_FINISH_NONE};
    int32_t tokens[TOKENS_MOST];
    request r = {.tokens = tokens, .max_new = p->n_ids, .flags = p->from.flags};
    r.sampling.min_new = p->from.min_new;
    assert_true(p->n_ids <= TOKENS_MOST);
    assert_true(text_init(p->engine, &r, &p->from));
    while (out.finish == WEFT_FINISH_NONE && r.n_tokens < p->n_ids) {
        weft_finish finish = WEFT_FINISH_NONE;
        int32_t id = p->ids[r.n_tokens];
        tokens[r.n_tokens++] = id;
        if (r.n_tokens == p->n_ids) finish = WEFT_FINISH_LENGTH;
        if (id == p->end_id) {
            r.text.stop_id = id;
            finish = WEFT_FINISH_STOP;
        }
        out.finish = text_settle(&r, finish);
        if (out.finish != WEFT_FINISH_NONE && !p->in_step) r.phase = REQUEST_DONE;
        if (!p->poll_late) take_event(&r, WEFT_EVENT_TOKEN, &out);
    }
    r.phase = REQUEST_DONE;
    while (r.n_polled < r.n_tokens) take_event(&r, WEFT_EVENT_TOKEN, &out);
    take_event(&r, WEFT_EVENT_DONE, &out);
    out.n_tokens = r.n_tokens;
    out.stop_id = r.text.stop_id;
    out.stop_text = r.text.stop_text;
    text_deinit(p->engine, &r);
    return out;
}

static player player_open(const char *path, const weft_allocator *allocator)
{
    player p = {.end_id = -1};
    weft_error err = {WEFT_OK, ""};
    weft_model_options options = {.struct_size = sizeof options, .allocator = allocator};
    weft_engine_options small = {.struct_size = sizeof small, .context = 64, .n_threads = 1};
    assert_ok(weft_model_open(path, &options, &p.model, &err), &err);
    assert_ok(weft_engine_open(p.model, &small, &p.engine, &err), &err);
    p.from.flags = WEFT_REQUEST_TEXT;
    return p;
}

static void player_close(player *p)
{
    weft_engine_close(p->engine);
    weft_model_close(p->model);
}

static uint32_t tokenize(const player *p, const char *text, int32_t *ids)
{
    size_t n;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_tokenize(p->model, text, strlen(text), 0, ids, TOKENS_MOST, &n, &err), &err);
    return (uint32_t)n;
}

/* The text of ids by themselves, which lets go of an incomplete end as U+FFFD; n_bytes of each
 * token and those before: of what is whole by then. */
static size_t decode(const player *p, const int32_t *ids, uint32_t n, uint32_t flags, char *out,
                     size_t *whole)
{
    weft_detokenizer *d;
    size_t n_out = 0;
    assert_ok(weft_detokenizer_create(p->model, flags, &d, NULL), NULL);
    for (uint32_t i = 0; i <= n; i++) {
        const char *text;
        size_t n_bytes;
        weft_status status = i < n ? weft_detokenizer_push(d, ids[i], &text, &n_bytes, NULL)
                                   : weft_detokenizer_flush(d, &text, &n_bytes, NULL);
        assert_ok(status, NULL);
        memcpy(out + n_out, text, n_bytes);
        n_out += n_bytes;
        if (i < n && whole != NULL) whole[i] = n_out;
    }
    out[n_out] = '\0';
    weft_detokenizer_destroy(d);
    return n_out;
}

/* ---- tests ---- */

/* Without stop texts: what the tokens say, as soon as it is whole. */
static void test_text(void **state)
{
    (void)state;
    player p = player_open(MODEL, NULL);
    int32_t ids[TOKENS_MOST];
    char whole[TEXT_MOST];
    p.ids = ids;
    for (uint32_t round = 0; round < 300; round++) {
        p.n_ids = 1 + pick(40);
        for (uint32_t i = 0; i < p.n_ids; i++) ids[i] = (int32_t)pick(4096);
        p.from.flags = WEFT_REQUEST_TEXT | (round % 3 == 0 ? WEFT_REQUEST_SPECIALS : 0u);
        p.poll_late = round % 2 == 0;
        played out = play(&p);
        decode(&p, ids, p.n_ids, round % 3 == 0 ? WEFT_DETOKENIZE_SPECIALS : 0, whole, NULL);
        assert_string_equal(out.text, whole);
        assert_int_equal(out.finish, WEFT_FINISH_LENGTH);
        assert_int_equal(out.stop_text, -1);
    }
    player_close(&p);
}

/* Special tokens that a request names are in the text, others not. */
static void test_shown(void **state)
{
    (void)state;
    static const int32_t SHOWN[] = {1, 4095};
    static const int32_t IDS[] = {1, 2, 1, 3};
    player p = player_open(MODEL, NULL);
    weft_error err = {WEFT_OK, ""};
    p.ids = IDS;
    p.n_ids = 4;
    p.from = (weft_request){.flags = WEFT_REQUEST_TEXT, .shown_ids = SHOWN, .n_shown_ids = 2};
    assert_ok(text_check(p.engine, &p.from, &err), &err);
    assert_string_equal(play(&p).text, "<|system|><|system|>");
    p.from.n_shown_ids = WEFT_SHOWN_IDS + 1;
    assert_status(WEFT_LIMIT, text_check(p.engine, &p.from, &err), &err);
    assert_message(&err, "65 shown_ids");
    static const int32_t BEYOND[] = {4096};
    p.from = (weft_request){.flags = WEFT_REQUEST_TEXT, .shown_ids = BEYOND, .n_shown_ids = 1};
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_ARGUMENT, text_check(p.engine, &p.from, &err), &err);
    assert_message(&err, "shown_ids 0 is 4096");
    player_close(&p);
}

/* Characters that are cut over tokens, ended after each of them: only whole characters leave, and
 * at the end what is incomplete is U+FFFD. */
static void test_cut_characters(void **state)
{
    (void)state;
    static const char TEXT[] = "\xf0\x9f\xa7\x91\xe2\x80\x8d\xf0\x9f\x9a\x80!"; /* astronaut */
    player p = player_open(MODEL, NULL);
    int32_t ids[TOKENS_MOST];
    uint32_t n = tokenize(&p, TEXT, ids);
    assert_true(n >= 8);
    p.ids = ids;
    uint32_t n_cut = 0;
    for (p.n_ids = 1; p.n_ids <= n; p.n_ids++) {
        for (uint32_t k = 0; k < 3; k++) {
            char whole[TEXT_MOST];
            static const char *const STOPS[] = {"\xf0\x9f\xa7\x92", "never"};
            p.from.stop_texts = STOPS;
            p.from.n_stop_texts = k == 2 ? 2 : 0;
            p.poll_late = k == 1;
            played out = play(&p);
            size_t n_bytes = decode(&p, ids, p.n_ids, 0, whole, NULL);
            assert_string_equal(out.text, whole);
            assert_memory_equal(out.text, TEXT, out.n_before);
            bool cut = n_bytes >= 3 && memcmp(whole + n_bytes - 3, UTF8_REPLACEMENT, 3) == 0;
            assert_true(cut == (memcmp(out.text, TEXT, n_bytes) != 0));
            n_cut += cut;
        }
    }
    assert_true(n_cut >= 9);
    player_close(&p);
}

/* The answer ends with the token that completes a stop text, and its text before it, wherever
 * tokens begin; what may be its beginning is held back until it is none. */
static void check_stops(player *p, const char *whole, const size_t *ends, const char *const *texts,
                        uint32_t n_stops)
{
    /* The end that comes first; of those that end there, the one that begins first. */
    size_t n_whole = strlen(whole);
    size_t end = SIZE_MAX;
    size_t first = n_whole;
    int32_t which = -1;
    for (uint32_t i = 0; i < n_stops; i++) {
        const char *at = strstr(whole, texts[i]);
        if (at == NULL) continue;
        size_t begins = (size_t)(at - whole);
        size_t ending = begins + strlen(texts[i]);
        if (ending > end || (ending == end && begins >= first)) continue;
        end = ending;
        first = begins;
        which = (int32_t)i;
    }
    p->from.stop_texts = texts;
    p->from.n_stop_texts = n_stops;
    for (uint32_t k = 0; k < 4; k++) {
        p->poll_late = (k & 1) != 0;
        p->from.flags = (k & 2) != 0 ? WEFT_REQUEST_SHOW_STOP : 0;
        played out = play(p);
        assert_int_equal(out.stop_text, which);
        assert_int_equal(out.finish, which >= 0 ? WEFT_FINISH_STOP : WEFT_FINISH_LENGTH);
        size_t n = which < 0 ? n_whole : (k & 2) != 0 ? end : first;
        assert_int_equal(out.n, n);
        assert_memory_equal(out.text, whole, n);
        uint32_t n_tokens = 1;
        while (which >= 0 && n_tokens < p->n_ids && ends[n_tokens - 1] < end) n_tokens++;
        assert_int_equal(out.n_tokens, which < 0 ? p->n_ids : n_tokens);
        assert_int_equal(out.stop_id, -1);
    }
}

/* A few characters of a text, or what is nearly there. */
static void cut_out(const char *text, char *out)
{
    uint32_t point;
    uint32_t n_characters = 1 + pick(5);
    size_t from = pick((uint32_t)strlen(text));
    while (((unsigned char)text[from] & 0xc0) == 0x80) from--;
    size_t n = 0;
    for (uint32_t i = 0; i < n_characters && text[from + n] != '\0'; i++)
        n += utf8_decode(text + from + n, strlen(text + from + n), &point);
    memcpy(out, text + from, n);
    strcpy(out + n, pick(3) == 0 ? "q" : "");
}

static void test_stop_texts(void **state)
{
    (void)state;
    static const char *const WORDS[] = {" the", " fox",  "\n",   " \xc3\xa9t\xc3\xa9", "a", "b",
                                        "ab",   " end.", "\n\n", "\xe2\x80\x94",       "."};
    player p = player_open(MODEL, NULL);
    uint32_t n_found = 0;
    for (uint32_t round = 0; round < 1500; round++) {
        char text[TEXT_MOST] = "";
        char cuts[4][WEFT_STOP_TEXT_BYTES + 1];
        const char *texts[4];
        int32_t ids[TOKENS_MOST];
        size_t ends[TOKENS_MOST];
        uint32_t n_words = 1 + pick(30);
        for (uint32_t i = 0; i < n_words; i++) strcat(text, WORDS[pick(COUNT_OF(WORDS))]);
        /* Tokens as the tokenizer has them, or each letter's own. */
        p.ids = ids;
        p.n_ids = tokenize(&p, text, ids);
        if (round % 2 == 1) {
            p.n_ids = 0;
            for (size_t i = 0; text[i] != '\0';) {
                char one[5] = "";
                uint32_t point;
                size_t n = utf8_decode(text + i, strlen(text + i), &point);
                memcpy(one, text + i, n);
                p.n_ids += tokenize(&p, one, ids + p.n_ids);
                i += n;
            }
        }
        assert_int_equal(decode(&p, ids, p.n_ids, 0, text, ends), strlen(text));
        uint32_t n_stops = 1 + pick(4);
        for (uint32_t i = 0; i < n_stops; i++) {
            cut_out(text, cuts[i]);
            texts[i] = cuts[i];
        }
        check_stops(&p, text, ends, texts, n_stops);
        for (uint32_t i = 0; i < n_stops; i++) n_found += strstr(text, texts[i]) != NULL;
    }
    assert_true(n_found > 1000);
    player_close(&p);
}

/* What is held back comes when it is no stop text, at the latest with DONE. */
static void test_held_back(void **state)
{
    (void)state;
    static const char *const STOPS[] = {"abcx", "bcd!"};
    player p = player_open(MODEL, NULL);
    int32_t ids[TOKENS_MOST];
    p.ids = ids;
    p.from.stop_texts = STOPS;
    p.from.n_stop_texts = 2;
    p.n_ids = 0;
    for (const char *c = "zabc"; *c != '\0'; c++)
        p.n_ids += tokenize(&p, (const char[]){*c, '\0'}, ids + p.n_ids);
    played out = play(&p);
    assert_int_equal(out.n_before, 1);
    assert_string_equal(out.text, "zabc");
    assert_int_equal(out.finish, WEFT_FINISH_LENGTH);
    p.n_ids += tokenize(&p, "d", ids + p.n_ids);
    out = play(&p);
    assert_int_equal(out.n_before, 2); /* "za": "bcd" may go on */
    assert_string_equal(out.text, "zabcd");
    p.n_ids += tokenize(&p, "e", ids + p.n_ids);
    out = play(&p);
    assert_int_equal(out.n_before, 6);
    player_close(&p);
}

/* A stop id has no text, whatever it would say; what is held back before it comes. Text of the
 * first min_new tokens ends nothing. */
static void test_stop_ids_and_minimum(void **state)
{
    (void)state;
    static const char *const STOPS[] = {"ab"};
    player p = player_open(MODEL, NULL);
    int32_t ids[TOKENS_MOST];
    uint32_t n = 0;
    for (const char *c = "zabab!"; *c != '\0'; c++)
        n += tokenize(&p, (const char[]){*c, '\0'}, ids + n);
    assert_int_equal(n, 6);
    p.ids = ids;
    p.n_ids = n;
    p.end_id = ids[5];
    played out;
    for (int i = 0; i < 3; i++) {
        p.in_step = i == 1;
        p.poll_late = i == 2;
        out = play(&p);
        assert_string_equal(out.text, "zabab");
        assert_int_equal(out.finish, WEFT_FINISH_STOP);
        assert_int_equal(out.stop_id, ids[5]);
    }
    p.in_step = p.poll_late = false;
    p.from.stop_texts = STOPS;
    p.from.n_stop_texts = 1;
    out = play(&p);
    assert_string_equal(out.text, "z");
    assert_int_equal(out.stop_id, -1);
    assert_int_equal(out.stop_text, 0);
    assert_int_equal(out.n_tokens, 3);
    p.from.min_new = 2; /* its first letter came with the second */
    out = play(&p);
    assert_string_equal(out.text, "zab");
    assert_int_equal(out.n_tokens, 5);
    p.from.min_new = 4;
    out = play(&p);
    assert_string_equal(out.text, "zabab");
    assert_int_equal(out.stop_id, ids[5]);
    player_close(&p);
}

/* A golden with a small tokenizer whose first token of a text is decoded in another way. */
static void write_small(test_folder *folder)
{
    static const char TOKENIZER[] =
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
        "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"_\":1,\"_a\":2},\"merges\":[\"_ a\"]}}";
    static const char *const FILES[] = {"config.json", "model.safetensors"};
    test_folder_create(folder);
    for (size_t i = 0; i < 2; i++) {
        char path[600];
        char *bytes;
        size_t n;
        snprintf(path, sizeof path, "%s/%s", GOLDEN_PATH("llama"), FILES[i]);
        assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &bytes, &n, NULL), NULL);
        test_folder_write(folder, FILES[i], bytes, n);
        mem_free(mem_system(), bytes, n + 1);
    }
    test_folder_write(folder, "tokenizer.json", TOKENIZER, sizeof TOKENIZER - 1);
}

static const int32_t SMALL_IDS[] = {2, 2, 0};

/* It loses its space, unless the answer goes on from other text. */
static void test_beginnings(void **state)
{
    (void)state;
    test_folder folder;
    write_small(&folder);
    player p = player_open(folder.path, NULL);
    p.ids = SMALL_IDS;
    p.n_ids = 3;
    for (uint32_t follows = 0; follows < 2; follows++) {
        static const char *const STOPS[] = {" a a"};
        p.from = (weft_request){.flags = WEFT_REQUEST_TEXT};
        if (follows == 1) p.from.flags |= WEFT_REQUEST_CONTINUES;
        assert_string_equal(play(&p).text, follows == 1 ? " a aa" : "a aa");
        p.from.stop_texts = STOPS;
        p.from.n_stop_texts = 1;
        assert_string_equal(play(&p).text, follows == 1 ? "" : "a aa");
    }
    player_close(&p);
    test_folder_remove(&folder);
}

/* Memory that is refused in a step ends that request, with what it had. */
static void test_refused_in_a_step(void **state)
{
    (void)state;
    static const char *const STOPS[] = {"never"};
    test_folder folder;
    write_small(&folder);
    fault_allocator memory;
    fault_allocator_init(&memory, 0);
    player p = player_open(folder.path, &memory.allocator);
    p.from.stop_texts = STOPS;
    p.from.n_stop_texts = 1;
    uint32_t n_refused = 0;
    for (bool hit = true; hit;) {
        int32_t tokens[] = {2};
        request r = {.tokens = tokens, .max_new = 3, .n_tokens = 1};
        assert_true(text_init(p.engine, &r, &p.from));
        memory.fail_at = memory.n_allocations + ++n_refused;
        memory.hit = false;
        weft_finish finish = text_settle(&r, WEFT_FINISH_NONE);
        hit = memory.hit;
        assert_int_equal(finish, hit ? WEFT_FINISH_ERROR : WEFT_FINISH_NONE);
        assert_int_equal(r.error.status, hit ? WEFT_NOMEM : WEFT_OK);
        memory.fail_at = 0;
        text_deinit(p.engine, &r);
    }
    assert_true(n_refused >= 2);
    player_close(&p);
    fault_allocator_check(&memory);
    test_folder_remove(&folder);
}

/* Memory that is refused when an event is polled leaves all as it was: the next poll has it. */
static void test_refused_memory(void **state)
{
    (void)state;
    static const char *const STOPS[] = {"ccx"};
    uint32_t n_refused = 0;
    fault_allocator memory;
    fault_allocator_init(&memory, 0);
    player p = player_open(MODEL, &memory.allocator);
    int32_t ids[TOKENS_MOST];
    uint32_t n = tokenize(&p, "Tell me \xf0\x9f\xa7\x91 a story ccc", ids);
    p.from.stop_texts = STOPS;
    p.from.n_stop_texts = 1;
    p.from.flags = WEFT_REQUEST_TEXT;
    request r = {.tokens = ids, .max_new = n, .n_tokens = n, .phase = REQUEST_DONE};
    assert_true(text_init(p.engine, &r, &p.from));
    char text[TEXT_MOST] = "";
    for (bool done = false; !done;) {
        weft_event event = {.kind = WEFT_EVENT_TOKEN, .text = ""};
        weft_error err = {WEFT_OK, ""};
        done = r.n_polled == n;
        if (done) event.kind = WEFT_EVENT_DONE;
        for (size_t later = 1;; later++) {
            memory.fail_at = memory.n_allocations + later;
            memory.hit = false;
            weft_status status = text_give(&r, &event, &err);
            if (!memory.hit) {
                assert_ok(status, &err);
                break;
            }
            assert_status(WEFT_NOMEM, status, &err);
            err = (weft_error){WEFT_OK, ""};
            n_refused++;
        }
        strncat(text, event.text, event.n_text);
        r.n_polled += !done;
    }
    memory.fail_at = 0;
    assert_string_equal(text, "Tell me \xf0\x9f\xa7\x91 a story ccc");
    assert_true(n_refused >= 2);
    text_deinit(p.engine, &r);
    player_close(&p);
    fault_allocator_check(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),           cmocka_unit_test(test_shown),
        cmocka_unit_test(test_cut_characters), cmocka_unit_test(test_stop_texts),
        cmocka_unit_test(test_held_back),      cmocka_unit_test(test_stop_ids_and_minimum),
        cmocka_unit_test(test_beginnings),     cmocka_unit_test(test_refused_in_a_step),
        cmocka_unit_test(test_refused_memory),
    };
    return TEST_RUN("engine/text", tests);
}
