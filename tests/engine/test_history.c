/* test_history.c - B32: a client sends an answer back as text, which is divided into other tokens
 * than were sampled. What is known of the conversation is used up to where the tokens differ, and,
 * where the sampled ones are told, to the end of the answer; what is said next has the bits that it
 * has without a cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "support/runs.h"

enum { ANSWER = 60, NEXT = 8, PIECE = 48 };

static weft_engine *open_engine(const weft_model *model)
{
    weft_engine_options options = {
        .struct_size = sizeof options, .n_threads = 2, .context = 512, .chunk_tokens = PIECE};
    return run_open_engine(model, &options);
}

static weft_chat *open_chat(const weft_model *model, const char *messages)
{
    weft_chat *chat;
    weft_error err = {WEFT_OK, ""};
    weft_chat_options o = {.struct_size = sizeof o, .messages_json = messages};
    assert_ok(weft_chat_open(model, &o, &chat, &err), &err);
    return chat;
}

static weft_chat_info info_of(const weft_chat *chat)
{
    weft_chat_info info = {.struct_size = sizeof info};
    assert_ok(weft_chat_get_info(chat, &info, NULL), NULL);
    return info;
}

#define USER "{\"role\":\"user\",\"content\":\"Tell me a story about a fox called Mia.\"}"

/* The conversation with the answer as text, and with the tokens that it was if ids are given. */
static weft_chat *open_next(const weft_model *model, str text, const int32_t *ids, uint32_t n)
{
    strbuf messages;
    strbuf_init(&messages, mem_system(), 0);
    strbuf_add_text(&messages, "[" USER ",{\"role\":\"assistant\",\"content\":");
    json_write_text(text, &messages);
    if (ids != NULL) strbuf_add_text(&messages, ",\"answer_ids\":[");
    for (uint32_t i = 0; ids != NULL && i < n; i++)
        strbuf_printf(&messages, "%s%d", i > 0 ? "," : "", (int)ids[i]);
    if (ids != NULL) strbuf_add_char(&messages, ']');
    strbuf_add_text(&messages, "},{\"role\":\"user\",\"content\":\"Go on.\"}]");
    assert_int_equal(messages.status, WEFT_OK);
    weft_chat *chat = open_chat(model, strbuf_text(&messages));
    strbuf_deinit(&messages);
    return chat;
}

static uint32_t n_common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

/* The next turn beside the same without a cache; how many of its tokens were known. */
static uint32_t ask_next(weft_engine *engine, weft_engine *bare, uint32_t n_vocab,
                         const weft_chat *chat)
{
    weft_chat_info info = info_of(chat);
    run warm = {.prompt = info.prompt, .n_prompt = info.n_prompt, .max_new = NEXT};
    run cold = warm;
    cold.flags = WEFT_REQUEST_NO_CACHE;
    run_all(engine, n_vocab, &warm, 1);
    run_all(bare, n_vocab, &cold, 1);
    run_assert_identical(&warm, &cold, n_vocab);
    uint32_t n_cached = warm.n_cached;
    run_free(&warm);
    run_free(&cold);
    return n_cached;
}

/* An answer at a temperature at which words are spelt in any way. states: there are
 * layers that go on at boundaries only. */
static void check_model(const char *path, bool states)
{
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    uint32_t n_other = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        weft_engine *engine = open_engine(model);
        weft_engine *bare = open_engine(model);
        weft_chat *first = open_chat(model, "[" USER "]");
        weft_chat_info begun = info_of(first);
        run r = {.prompt = begun.prompt,
                 .n_prompt = begun.n_prompt,
                 .max_new = ANSWER,
                 .flags = WEFT_REQUEST_TEXT,
                 .sampling = {.temperature = 2.0F, .seed = seed}};
        run_all(engine, n_vocab, &r, 1);
        uint32_t n_said = begun.n_prompt + ANSWER;
        int32_t *said = malloc(n_said * sizeof *said);
        assert_non_null(said);
        memcpy(said, begun.prompt, begun.n_prompt * sizeof *said);
        memcpy(said + begun.n_prompt, r.tokens, ANSWER * sizeof *said);

        weft_chat *as_text = open_next(model, (str){r.text, r.n_text}, NULL, 0);
        weft_chat_info next = info_of(as_text);
        uint32_t equal = n_common(said, n_said, next.prompt, next.n_prompt);
        n_other += equal < n_said;
        uint32_t known = ask_next(engine, bare, n_vocab, as_text);
        print_message("%s: %u of %u tokens are the same as text, %u known\n", path, equal, n_said,
                      known);
        /* The prompt at least, whatever the answer's tokens are. */
        assert_true(equal >= begun.n_prompt && known + 1 >= begun.n_prompt);
        if (!states) assert_int_equal(known, equal < n_said ? equal : n_said - 1);

        weft_chat *as_ids = open_next(model, (str){r.text, r.n_text}, r.tokens, ANSWER);
        next = info_of(as_ids);
        assert_int_equal(next.n_replayed, 1);
        assert_int_equal(n_common(said, n_said, next.prompt, next.n_prompt), n_said);
        known = ask_next(engine, bare, n_vocab, as_ids);
        /* The last token that was sampled was never forwarded, but where it came as text, too. */
        assert_true(known + 1 >= n_said);
        weft_chat_close(as_ids);
        weft_chat_close(as_text);
        weft_chat_close(first);
        run_free(&r);
        free(said);
        weft_engine_close(bare);
        weft_engine_close(engine);
    }
    assert_true(n_other > 0);
    weft_model_close(model);
}

static void test_b32_history_in_other_tokens(void **state)
{
    (void)state;
    check_model(TINY_PATH("draft"), false);
    check_model(TINY_PATH("window-mlx4"), false);
    check_model(TINY_PATH("hybrid-mlx4"), true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b32_history_in_other_tokens),
    };
    return TEST_RUN("engine/history", tests);
}
