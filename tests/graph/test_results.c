/* test_results.c - what a graph may end in: logits, hidden states, both. */
#include "graph/graph.h"
#include "support/test.h"

#include "base/assert.h"

enum { CAPACITY = 16, VOCAB = 50, WIDTH = 24 };

static const tensor TENSORS[] = {{.name = "embed", .n_rows = VOCAB, .n_cols = WIDTH}};

static graph_id begin(graph *g, graph_value *values)
{
    graph_init(g, values, CAPACITY, TENSORS, COUNT_OF(TENSORS));
    return graph_embed(g, graph_tokens(g), graph_weight(g, 0));
}

/* Hidden states beside logits, and alone: rows of their own, read by nothing. */
static void test_finish_with_hidden(void **state)
{
    (void)state;
    graph g;
    graph_value values[CAPACITY];
    weft_error err = {0};
    for (uint32_t with_logits = 0; with_logits < 2; with_logits++) {
        graph_id x = begin(&g, values);
        graph_id hidden = graph_scale(&g, graph_take_hidden(&g, x), 2.0F);
        graph_hidden(&g, hidden);
        graph_id logits = with_logits == 1 ? graph_take(&g, x) : 0;
        graph_finish(&g, logits);
        assert_ok(graph_status(&g, &err), &err);
        assert_int_equal(g.hidden, hidden);
        assert_int_equal(g.output, logits);
        assert_false(g.only_stores);
        assert_true(graph_is_result(&g, hidden));
        assert_false(graph_is_result(&g, x));
        assert_false(graph_is_result(&g, 0));
        /* What the caller takes has no storage. */
        graph_slot slots[CAPACITY];
        size_t total;
        graph_lifetimes(&g, slots);
        assert_ok(graph_place(&g, (graph_rows){5, 2, 3}, slots, &total, &err), &err);
        assert_true(slots[hidden].offset == SIZE_MAX && slots[x].offset == 0);
        assert_int_equal(total, size_align(5 * WIDTH, 16) + size_align(3 * WIDTH, 16));
    }
}

static void test_hidden_refused(void **state)
{
    (void)state;
    static const char *const MESSAGES[] = {
        "graph: value 3 is not the one matrix of hidden states",
        "graph: value 4 is not the one matrix of hidden states",
        "graph: value 5 is not the one matrix of hidden states",
        "graph: value 16 is not the one matrix of hidden states",
        "graph value 5: a value behind hidden states reads this take",
        "graph: value 5 is not a matrix of wanted rows",
    };
    for (uint32_t i = 0; i < COUNT_OF(MESSAGES); i++) {
        graph g;
        graph_value values[CAPACITY];
        weft_error err = {0};
        graph_id x = begin(&g, values);
        graph_id taken = graph_take(&g, x);
        graph_id hidden = graph_take_hidden(&g, x);
        if (i == 0) graph_hidden(&g, x);
        if (i == 1) graph_hidden(&g, taken);
        if (i == 3) graph_hidden(&g, CAPACITY);
        graph_hidden(&g, hidden);
        if (i == 2) graph_hidden(&g, hidden);
        if (i == 4) graph_scale(&g, hidden, 2.0F);
        graph_finish(&g, i == 5 ? hidden : taken);
        assert_status(WEFT_FORMAT, graph_status(&g, &err), &err);
        assert_string_equal(err.message, MESSAGES[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finish_with_hidden),
                                       cmocka_unit_test(test_hidden_refused)};
    return TEST_RUN("graph/results", tests);
}
