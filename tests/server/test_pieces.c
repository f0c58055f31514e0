/* test_pieces.c - parts of an answer, as models and their mistakes make them, become pieces. */
#include "server/pieces.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"

typedef struct bench {
    generation g;
    answer a;
    answer_call calls[4];
    pieces pieces;
    strbuf said; /* by the writer */
} bench;

static void say_begin(answer *a, const piece *p, uint32_t i)
{
    bench *b = a->own;
    const char *kind = p->kind == WEFT_PART_CALL        ? "call"
                       : p->kind == WEFT_PART_REASONING ? "reasoning"
                                                        : "text";
    strbuf_printf(&b->said, "%u:%s(", i, kind);
}

static void say_more(answer *a, const piece *p, uint32_t i, str text)
{
    bench *b = a->own;
    str entries = b->pieces.new_logprobs;
    (void)i;
    strbuf_add(&b->said, text.ptr, text.len);
    if (p->kind == WEFT_PART_CONTENT && entries.len > 0)
        strbuf_printf(&b->said, "[%.*s]", (int)entries.len, entries.ptr);
    strbuf_add_char(&b->said, '.');
}

static void say_end(answer *a, const piece *p, uint32_t i)
{
    bench *b = a->own;
    (void)i;
    strbuf_add_text(&b->said, p->whole ? ")" : "|");
}

static const piece_writer WRITER = {say_begin, say_more, say_end};

static void bench_init(bench *b)
{
    *b = (bench){.a = {.calls = b->calls}};
    b->a.g = &b->g;
    b->a.own = b;
    strbuf_init(&b->a.content, mem_system(), 0);
    strbuf_init(&b->a.reasoning, mem_system(), 0);
    strbuf_init(&b->a.logprobs, mem_system(), 0);
    strbuf_init(&b->said, mem_system(), 0);
    for (size_t i = 0; i < 4; i++) strbuf_init(&b->calls[i].arguments, mem_system(), 0);
}

static void bench_deinit(bench *b)
{
    pieces_deinit(&b->pieces);
    strbuf_deinit(&b->a.content);
    strbuf_deinit(&b->a.reasoning);
    strbuf_deinit(&b->a.logprobs);
    strbuf_deinit(&b->said);
    for (size_t i = 0; i < 4; i++) strbuf_deinit(&b->calls[i].arguments);
}

/* A part that came with a token, whose entry is its number. */
static void give(bench *b, weft_part_kind kind, uint32_t call, const char *text)
{
    weft_part part = {.struct_size = sizeof part,
                      .kind = kind,
                      .call = call,
                      .text = text,
                      .n_bytes = strlen(text)};
    if (b->a.logprobs.len > 0) strbuf_add_char(&b->a.logprobs, ',');
    strbuf_printf(&b->a.logprobs, "%u", b->a.n_ids++);
    if (kind == WEFT_PART_CONTENT) strbuf_add_text(&b->a.content, text);
    if (kind == WEFT_PART_REASONING) strbuf_add_text(&b->a.reasoning, text);
    if (kind == WEFT_PART_ARGUMENTS) strbuf_add_text(&b->calls[call].arguments, text);
    pieces_take(&b->pieces, &b->a, &part, &WRITER);
}

static void assert_piece(const bench *b, uint32_t i, const char *text, const char *logprobs)
{
    const piece *p = &b->pieces.all[i];
    str have = piece_text(&b->a, p);
    assert_true(str_equal_text(have, text));
    have = piece_logprobs(&b->pieces, p);
    assert_true(str_equal_text(have, logprobs));
}

/* Order is kept, each kind has its own text, and what is no text of a token is of none. */
static void test_order(void **state)
{
    bench b;
    (void)state;
    bench_init(&b);
    give(&b, WEFT_PART_REASONING, 0, "let ");
    give(&b, WEFT_PART_REASONING, 0, "me");
    give(&b, WEFT_PART_CONTENT, 0, "I ");
    give(&b, WEFT_PART_CONTENT, 0, "");
    give(&b, WEFT_PART_CONTENT, 0, "look");
    give(&b, WEFT_PART_CALL, 0, "look");
    give(&b, WEFT_PART_ARGUMENTS, 0, "{");
    give(&b, WEFT_PART_ARGUMENTS, 0, "}");
    give(&b, WEFT_PART_CALL_END, 0, "");
    give(&b, WEFT_PART_CALL, 1, "look");
    give(&b, WEFT_PART_CALL_END, 1, "");
    give(&b, WEFT_PART_CONTENT, 0, "so");
    pieces_finish(&b.pieces, &b.a, &WRITER);
    assert_string_equal(strbuf_text(&b.said), "0:reasoning(let .me.)1:text(I [2].look[3,4].)"
                                              "2:call({.}.)3:call()4:text(so[11].)");
    assert_int_equal(b.pieces.n, 5);
    assert_int_equal(b.pieces.n_reasoning_ids, 2);
    assert_piece(&b, 0, "let me", "");
    assert_piece(&b, 1, "I look", "2,3,4");
    assert_piece(&b, 2, "{}", "");
    assert_piece(&b, 3, "", "");
    assert_piece(&b, 4, "so", "11");
    bench_deinit(&b);
}

/* A call that turns out to be none ends as it is, and its text is a piece of its own. */
static void test_not_whole(void **state)
{
    bench b;
    (void)state;
    bench_init(&b);
    give(&b, WEFT_PART_CALL, 0, "look");
    give(&b, WEFT_PART_ARGUMENTS, 0, "{");
    give(&b, WEFT_PART_CALL_UNDONE, 0, "");
    give(&b, WEFT_PART_CONTENT, 0, "<tool_call>{");
    give(&b, WEFT_PART_CALL, 1, "look");
    give(&b, WEFT_PART_ARGUMENTS, 1, "{\"a");
    pieces_finish(&b.pieces, &b.a, &WRITER);
    pieces_finish(&b.pieces, &b.a, &WRITER);
    assert_string_equal(strbuf_text(&b.said), "0:call({.|1:text(<tool_call>{[2,3].)2:call({\"a.|");
    assert_false(b.pieces.all[0].whole);
    assert_true(b.pieces.all[1].whole);
    assert_false(b.pieces.all[2].whole);
    bench_deinit(&b);
}

/* Without a stream nothing is said, and the list is the same. */
static void test_silent(void **state)
{
    bench b;
    weft_part part = {
        .struct_size = sizeof part, .kind = WEFT_PART_CONTENT, .text = "a", .n_bytes = 1};
    (void)state;
    bench_init(&b);
    for (uint32_t i = 0; i < 20; i++) {
        part.kind = i % 2 == 0 ? WEFT_PART_CONTENT : WEFT_PART_REASONING;
        strbuf_add_char(i % 2 == 0 ? &b.a.content : &b.a.reasoning, 'a');
        pieces_take(&b.pieces, &b.a, &part, NULL);
    }
    pieces_finish(&b.pieces, &b.a, NULL);
    assert_int_equal(b.pieces.n, 20);
    for (uint32_t i = 0; i < 20; i++) assert_piece(&b, i, "a", "");
    bench_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_not_whole),
                                       cmocka_unit_test(test_silent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
