/* test_graph.c - builders: a row of GRAPH_OP_MAP each, with what it accepts, the shape it gives,
 * and what it refuses; the first error is the one that stays. */
#include "graph/graph_rules.h"
#include "graph/graph_rules_feed.h"
#include "graph/graph_rules_recur.h"

#include <math.h>

#include "base/assert.h"

static void rules_none(fixture *f)
{
    fixture_init(f);
    assert_int_equal(f->values[0].op, GRAPH_NONE);
    assert_int_equal(f->values[0].rows, 0);
    assert_int_equal(f->values[0].cols, 0);
}

static void rules_weight(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_weight(&f->g, WIDE_W);
    check_value(f, id, GRAPH_WEIGHT, WIDE, WIDTH);
    assert_int_equal(f->values[id].i[0], WIDE_W);
    refuses(f, graph_weight(&f->g, N_TENSORS));
    refuses(f, graph_weight(&f->g, UINT32_MAX));
    refuses(f, graph_weight(&f->g, TOO_WIDE));
    static const tensor EMPTY[] = {{.name = "e", .n_rows = 0, .n_cols = 3},
                                   {.name = "e", .n_rows = 3, .n_cols = 0},
                                   {.name = "e", .n_rows = 1ull << 32, .n_cols = 1},
                                   {.name = "e", .n_rows = 1, .n_cols = 1ull << 40}};
    for (uint32_t i = 0; i < COUNT_OF(EMPTY); i++) {
        graph_init(&f->g, f->values, CAPACITY, EMPTY, COUNT_OF(EMPTY));
        check_refused(f, graph_weight(&f->g, i), 1, __LINE__);
    }
}

static void rules_tokens(fixture *f)
{
    fixture_init(f);
    check_value(f, graph_tokens(&f->g), GRAPH_INPUT, GRAPH_TOKENS, 1);
    graph_id id = graph_positions(&f->g, 2);
    check_value(f, id, GRAPH_INPUT, GRAPH_TOKENS, 1);
    assert_true(f->values[id].i[0] == GRAPH_POSITIONS && f->values[id].i[1] == 2);
    id = graph_one_row(&f->g, VOCAB - 1);
    check_value(f, id, GRAPH_INPUT, GRAPH_TOKENS, 1);
    assert_true(f->values[id].i[0] == GRAPH_ONE_ROW && f->values[id].i[1] == VOCAB - 1);
}

static void rules_embed(fixture *f)
{
    fixture_init(f);
    graph_id last = graph_one_row(&f->g, VOCAB - 1);
    check_value(f, graph_embed(&f->g, last, f->weight[EMBED_W]), GRAPH_EMBED, GRAPH_TOKENS, WIDTH);
    last = graph_one_row(&f->g, VOCAB);
    check_refused(f, graph_embed(&f->g, last, f->weight[EMBED_W]), f->g.n_values, __LINE__);
    fixture_init(f);
    check_value(f, graph_embed(&f->g, f->tokens, f->weight[EMBED_W]), GRAPH_EMBED, GRAPH_TOKENS,
                WIDTH);
    refuses(f, graph_embed(&f->g, 0, f->weight[EMBED_W]));
    refuses(f, graph_embed(&f->g, f->tokens, 0));
    refuses(f, graph_embed(&f->g, f->x, f->weight[EMBED_W]));
    refuses(f, graph_embed(&f->g, f->tokens, f->x));
    refuses(f, graph_embed(&f->g, f->tokens, CAPACITY));
}

static void rules_linear(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_linear(&f->g, f->x, f->weight[WIDE_W], f->weight[WIDE_BIAS]);
    check_value(f, id, GRAPH_LINEAR, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].in[2], f->weight[WIDE_BIAS]);
    check_value(f, graph_linear(&f->g, f->taken, f->weight[EMBED_W], 0), GRAPH_LINEAR,
                GRAPH_OUTPUTS, VOCAB);
    refuses(f, graph_linear(&f->g, 0, f->weight[WIDE_W], 0));
    refuses(f, graph_linear(&f->g, f->x, 0, 0));
    refuses(f, graph_linear(&f->g, f->wide, f->weight[WIDE_W], 0));
    refuses(f, graph_linear(&f->g, f->x, f->x, 0));
    refuses(f, graph_linear(&f->g, f->x, f->weight[WIDE_W], f->weight[NORM_W]));
    refuses(f, graph_linear(&f->g, f->x, f->weight[WIDE_W], f->weight[EMBED_W]));
    refuses(f, graph_linear(&f->g, f->x, f->weight[WIDE_W], f->wide));
    refuses(f, graph_linear(&f->g, f->x, f->weight[WIDE_W], 1000));
    refuses(f, graph_linear(&f->g, f->weight[NORM_W], f->weight[WIDE_W], 0));
    refuses(f, graph_linear(&f->g, f->state, f->weight[WIDE_W], 0));
}

static void rules_rms_norm(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_rms_norm(&f->g, f->x, f->weight[HEAD_NORM_W], 1e-5F, 1.0F);
    check_value(f, id, GRAPH_RMS_NORM, GRAPH_TOKENS, WIDTH);
    assert_int_equal(f->values[id].i[0], 6);
    assert_true(f->values[id].f[0] == 1e-5F && f->values[id].f[1] == 1.0F);
    check_value(f, graph_rms_norm(&f->g, f->taken, f->weight[NORM_W], 0, 0), GRAPH_RMS_NORM,
                GRAPH_OUTPUTS, WIDTH);
    refuses(f, graph_rms_norm(&f->g, f->x, 0, 0, 0));
    fixture_init(f);
    id = graph_rms_norm_plain(&f->g, f->x, 8, 1e-6F);
    check_value(f, id, GRAPH_RMS_NORM, GRAPH_TOKENS, WIDTH);
    assert_int_equal(f->values[id].i[0], 8);
    refuses(f, graph_rms_norm_plain(&f->g, f->x, 0, 0));
    refuses(f, graph_rms_norm_plain(&f->g, f->x, 7, 0));
    refuses(f, graph_rms_norm_plain(&f->g, f->state, 6, 0));
    refuses(f, graph_rms_norm(&f->g, 0, f->weight[NORM_W], 0, 0));
    refuses(f, graph_rms_norm(&f->g, f->wide, f->weight[NORM_W], 0, 0));
    refuses(f, graph_rms_norm(&f->g, f->x, f->weight[EMBED_W], 0, 0));
    refuses(f, graph_rms_norm(&f->g, f->x, f->x, 0, 0));
    refuses(f, graph_rms_norm(&f->g, f->weight[NORM_W], f->weight[NORM_W], 0, 0));
}

static void rules_layer_norm(fixture *f)
{
    fixture_init(f);
    graph_id bias = f->weight[HEAD_NORM_W];
    graph_layer_norm how = {f->weight[HEAD_NORM_W], bias, 6, 1e-5F, 1.0F};
    graph_id id = graph_layer_norm_apply(&f->g, f->x, how);
    check_value(f, id, GRAPH_LAYER_NORM, GRAPH_TOKENS, WIDTH);
    assert_int_equal(f->values[id].i[0], 6);
    assert_true(f->values[id].f[0] == 1e-5F && f->values[id].f[1] == 1.0F);
    id = graph_layer_norm_apply(&f->g, f->taken, (graph_layer_norm){.group = 8});
    check_value(f, id, GRAPH_LAYER_NORM, GRAPH_OUTPUTS, WIDTH);
    how.group = 8;
    refuses(f, graph_layer_norm_apply(&f->g, f->x, how));
    how = (graph_layer_norm){.weight = f->weight[NORM_W], .group = WIDTH};
    refuses(f, graph_layer_norm_apply(&f->g, f->wide, how));
    refuses(f, graph_layer_norm_apply(&f->g, 0, how));
    refuses(f, graph_layer_norm_apply(&f->g, f->weight[NORM_W], how));
    how.bias = f->weight[HEAD_NORM_W];
    refuses(f, graph_layer_norm_apply(&f->g, f->x, how));
    how.bias = f->x;
    refuses(f, graph_layer_norm_apply(&f->g, f->x, how));
    how = (graph_layer_norm){.weight = f->weight[EMBED_W], .group = WIDTH};
    refuses(f, graph_layer_norm_apply(&f->g, f->x, how));
    refuses(f, graph_layer_norm_apply(&f->g, f->x, (graph_layer_norm){.group = 0}));
    refuses(f, graph_layer_norm_apply(&f->g, f->x, (graph_layer_norm){.group = 7}));
    refuses(f, graph_layer_norm_apply(&f->g, f->state, (graph_layer_norm){.group = 6}));
    /* A weight a group: as many as there are groups, each a vector. */
    tensor rows[WIDTH / 6];
    for (uint32_t i = 0; i < COUNT_OF(rows); i++)
        rows[i] = (tensor){.name = "r", .n_rows = 1, .n_cols = i == 0 ? WIDTH : 6};
    for (uint32_t n = 1; n <= COUNT_OF(rows); n++) {
        rows[0].n_cols = WIDTH;
        graph_init(&f->g, f->values, CAPACITY, rows, COUNT_OF(rows));
        rows[0].n_rows = 3;
        graph_id x = graph_embed(&f->g, graph_tokens(&f->g), graph_weight(&f->g, 0));
        rows[0].n_rows = 1;
        rows[0].n_cols = 6;
        how = (graph_layer_norm){.weight = graph_stack(&f->g, 0, n), .group = 6};
        if (n == COUNT_OF(rows)) {
            check_value(f, graph_layer_norm_apply(&f->g, x, how), GRAPH_LAYER_NORM, GRAPH_TOKENS,
                        WIDTH);
        } else {
            check_refused(f, graph_layer_norm_apply(&f->g, x, how), f->g.n_values, __LINE__);
        }
    }
}

static void rules_act(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_act_apply(&f->g, f->taken, GRAPH_RELU2);
    check_value(f, id, GRAPH_ACT, GRAPH_OUTPUTS, WIDTH);
    assert_int_equal(f->values[id].i[0], GRAPH_RELU2);
    refuses(f, graph_act_apply(&f->g, f->x, (graph_act)(GRAPH_RELU2 + 1)));
    refuses(f, graph_act_apply(&f->g, 0, GRAPH_SILU));
    refuses(f, graph_act_apply(&f->g, f->tokens, GRAPH_SILU));
    refuses(f, graph_act_apply(&f->g, f->weight[NORM_W], GRAPH_SILU));
}

static void rules_position_scale(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_position_scale(&f->g, f->x, 0.1F, 64.0F);
    check_value(f, id, GRAPH_POSITION_SCALE, GRAPH_TOKENS, WIDTH);
    assert_true(f->values[id].f[0] == 0.1F && f->values[id].f[1] == 64.0F);
    refuses(f, graph_position_scale(&f->g, f->taken, 0.1F, 64.0F)); /* has no positions */
    refuses(f, graph_position_scale(&f->g, f->x, 0.1F, 0.0F));
    refuses(f, graph_position_scale(&f->g, 0, 0.1F, 64.0F));
    refuses(f, graph_position_scale(&f->g, f->state, 0.1F, 64.0F));
}

static void rules_rope(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_rope_apply(&f->g, f->x, 8, 0);
    check_value(f, id, GRAPH_ROPE, GRAPH_TOKENS, WIDTH);
    assert_int_equal(f->values[id].i[0], 8);
    refuses(f, graph_rope_apply(&f->g, 0, 8, 0));
    refuses(f, graph_rope_apply(&f->g, f->x, 0, 0));
    refuses(f, graph_rope_apply(&f->g, f->x, 7, 0));
    refuses(f, graph_rope_apply(&f->g, f->x, 4, 0)); /* 3 pairs do not fit 4 elements */
    refuses(f, graph_rope_apply(&f->g, f->x, 8, 1)); /* an axis that there is not */
    refuses(f, graph_rope_apply(&f->g, f->x, 8, 2));
    refuses(f, graph_rope_apply(&f->g, f->taken, 8, 0));
    refuses(f, graph_rope_apply(&f->g, f->state, 9, 0));
}

static void rules_add(fixture *f)
{
    fixture_init(f);
    check_value(f, graph_add(&f->g, f->x, f->x), GRAPH_ADD, GRAPH_TOKENS, WIDTH);
    refuses(f, graph_add(&f->g, f->x, 0));
    refuses(f, graph_add(&f->g, 0, f->x));
    refuses(f, graph_add(&f->g, f->x, f->wide));
    refuses(f, graph_add(&f->g, f->x, f->taken));
    refuses(f, graph_add(&f->g, f->tokens, f->tokens));
    refuses(f, graph_add(&f->g, f->state, f->wide));
    refuses(f, graph_add(&f->g, f->wide, f->state));
    refuses(f, graph_add(&f->g, f->weight[NORM_W], f->weight[NORM_W]));
}

static void rules_mul(fixture *f)
{
    fixture_init(f);
    check_value(f, graph_mul(&f->g, f->x, f->x), GRAPH_MUL, GRAPH_TOKENS, WIDTH);
    graph_id one = graph_cols(&f->g, f->x, WIDTH, 3, 1);
    check_value(f, graph_mul(&f->g, f->wide, one), GRAPH_MUL, GRAPH_TOKENS, WIDE);
    check_value(f, graph_mul(&f->g, one, one), GRAPH_MUL, GRAPH_TOKENS, 1);
    check_refused(f, graph_mul(&f->g, one, f->x), f->g.n_values, __LINE__);
    refuses(f, graph_mul(&f->g, f->x, 0));
    refuses(f, graph_mul(&f->g, 0, f->x));
    refuses(f, graph_mul(&f->g, f->x, f->wide));
    refuses(f, graph_mul(&f->g, f->x, f->taken));
    refuses(f, graph_mul(&f->g, f->x, f->tokens)); /* one column, but no number */
    refuses(f, graph_mul(&f->g, f->tokens, f->tokens));
    refuses(f, graph_mul(&f->g, f->wide, f->state));
    refuses(f, graph_mul(&f->g, f->weight[NORM_W], f->weight[NORM_W]));
}

static void rules_scale(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_scale(&f->g, f->taken, 3.5F);
    check_value(f, id, GRAPH_SCALE, GRAPH_OUTPUTS, WIDTH);
    assert_true(f->values[id].f[0] == 3.5F);
    refuses(f, graph_scale(&f->g, 0, 1.0F));
    refuses(f, graph_scale(&f->g, f->weight[NORM_W], 1.0F));
    refuses(f, graph_scale(&f->g, f->tokens, 1.0F));
    refuses(f, graph_scale(&f->g, f->state, 1.0F));
}

static void rules_glu(fixture *f)
{
    fixture_init(f);
    for (uint32_t act = 0; act <= GRAPH_SIGMOID; act++) {
        graph_id id = graph_glu(&f->g, f->x, f->x, (graph_act)act);
        check_value(f, id, GRAPH_GLU, GRAPH_TOKENS, WIDTH);
        assert_int_equal(f->values[id].i[0], act);
    }
    refuses(f, graph_glu(&f->g, f->x, f->wide, GRAPH_SILU));
    refuses(f, graph_glu(&f->g, f->x, f->taken, GRAPH_SILU));
    refuses(f, graph_glu(&f->g, f->x, 0, GRAPH_SILU));
    refuses(f, graph_glu(&f->g, f->wide, f->state, GRAPH_SILU));
    refuses(f, graph_glu(&f->g, f->x, f->x, (graph_act)4));
}

static void rules_tap(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_tap(&f->g, f->wide, 7);
    check_value(f, id, GRAPH_TAP, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].i[0], 7);
    refuses(f, graph_tap(&f->g, f->weight[GATE_W], 0));
    refuses(f, graph_tap(&f->g, id, 0));
    refuses(f, graph_tap(&f->g, 0, 0));
}

static void rules_take(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_take(&f->g, f->wide);
    check_value(f, id, GRAPH_TAKE, GRAPH_OUTPUTS, WIDE);
    assert_int_equal(f->values[id].i[0], 0);
    id = graph_take_run(&f->g, f->wide, 3);
    check_value(f, id, GRAPH_TAKE, GRAPH_OUTPUTS, 3 * WIDE);
    assert_int_equal(f->values[id].i[0], 2);
    refuses(f, graph_take_run(&f->g, f->wide, 0));
    refuses(f, graph_take_run(&f->g, f->wide, GRAPH_OUTPUTS / WIDE + 1));
    fixture_init(f);
    graph_id hidden = graph_take_hidden(&f->g, f->wide);
    check_value(f, hidden, GRAPH_TAKE, GRAPH_HIDDEN, WIDE);
    check_value(f, graph_scale(&f->g, hidden, 2.0F), GRAPH_SCALE, GRAPH_HIDDEN, WIDE);
    refuses(f, graph_take_hidden(&f->g, f->taken));
    refuses(f, graph_take(&f->g, f->taken));
    refuses(f, graph_take(&f->g, 0));
    refuses(f, graph_take(&f->g, f->tokens));
    refuses(f, graph_take(&f->g, f->state));
    refuses(f, graph_take(&f->g, f->weight[NORM_W]));
}

static void rules_softcap(fixture *f)
{
    fixture_init(f);
    check_value(f, graph_softcap(&f->g, f->taken, 30.0F), GRAPH_SOFTCAP, GRAPH_OUTPUTS, WIDTH);
    refuses(f, graph_softcap(&f->g, f->taken, 0.0F));
    refuses(f, graph_softcap(&f->g, f->taken, -1.0F));
    refuses(f, graph_softcap(&f->g, f->taken, NAN));
    refuses(f, graph_softcap(&f->g, f->weight[NORM_W], 1.0F));
}

/* Tensors 0 .. 5 are [rows, cols]; 6 is of another shape. */
static const tensor *stack_tensors(uint64_t rows, uint64_t cols)
{
    static tensor many[7];
    for (uint32_t i = 0; i < 7; i++)
        many[i] = (tensor){.name = "part", .n_rows = rows + (i == 6), .n_cols = cols};
    return many;
}

/* The fixture's values and such tensors beside them. */
static void stack_init(fixture *f, uint64_t rows, uint64_t cols)
{
    fixture_init(f);
    f->g.tensors = stack_tensors(rows, cols);
    f->g.n_tensors = 7;
}

#define stack_refuses(f, rows, cols, call)                                                         \
    do {                                                                                           \
        stack_init(f, rows, cols);                                                                 \
        check_refused((f), (call), (f)->g.n_values, __LINE__);                                     \
    } while (0)

static void rules_stack(fixture *f)
{
    stack_init(f, 5, 12);
    graph_id id = graph_stack(&f->g, 2, 4);
    check_value(f, id, GRAPH_STACK, 5, 12);
    assert_int_equal(f->values[id].i[0], 2);
    assert_int_equal(f->values[id].i[1], 4);
    check_value(f, graph_stack(&f->g, 6, 1), GRAPH_STACK, 6, 12);
    stack_refuses(f, 5, 12, graph_stack(&f->g, 2, 5));
    stack_refuses(f, 5, 12, graph_stack(&f->g, 2, 0));
    stack_refuses(f, 5, 12, graph_stack(&f->g, 7, 1));
    stack_refuses(f, 5, 12, graph_stack(&f->g, 2, UINT32_MAX));
    stack_refuses(f, 0, 12, graph_stack(&f->g, 0, 2));
    stack_refuses(f, 5, 0, graph_stack(&f->g, 0, 2));
    stack_refuses(f, 5, 1ull << 32, graph_stack(&f->g, 0, 2));
    /* A stack is no weight. */
    stack_init(f, 5, 24);
    id = graph_stack(&f->g, 0, 1);
    now_name = graph_op_name(GRAPH_LINEAR);
    check_refused(f, graph_linear(&f->g, f->x, id, 0), id + 1, __LINE__);
    now_name = graph_op_name(GRAPH_STACK);
}

static void rules_cols(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_cols(&f->g, f->x, 6, 2, 3);
    check_value(f, id, GRAPH_COLS, GRAPH_TOKENS, 4 * 3);
    check_value(f, graph_cols(&f->g, f->taken, 24, 23, 1), GRAPH_COLS, GRAPH_OUTPUTS, 1);
    refuses(f, graph_cols(&f->g, f->x, 6, 4, 3));
    refuses(f, graph_cols(&f->g, f->x, 6, 0, 7));
    refuses(f, graph_cols(&f->g, f->x, 6, UINT32_MAX, 3));
    refuses(f, graph_cols(&f->g, f->x, 6, 2, 0));
    refuses(f, graph_cols(&f->g, f->x, 5, 0, 1));
    refuses(f, graph_cols(&f->g, f->x, 0, 0, 1));
    refuses(f, graph_cols(&f->g, f->state, 6, 0, 1));
    refuses(f, graph_cols(&f->g, 0, 6, 0, 1));
}

static void rules_concat(fixture *f)
{
    fixture_init(f);
    check_value(f, graph_concat(&f->g, f->x, f->wide, 4), GRAPH_CONCAT, GRAPH_TOKENS, WIDTH + WIDE);
    check_value(f, graph_concat(&f->g, f->taken, f->taken, 1), GRAPH_CONCAT, GRAPH_OUTPUTS,
                2 * WIDTH);
    refuses(f, graph_concat(&f->g, f->x, f->wide, 8));
    refuses(f, graph_concat(&f->g, f->wide, f->x, 9));
    refuses(f, graph_concat(&f->g, f->x, f->wide, 0));
    refuses(f, graph_concat(&f->g, f->x, f->taken, 1));
    refuses(f, graph_concat(&f->g, f->x, f->state, 1));
    refuses(f, graph_concat(&f->g, f->x, 0, 1));
}

static void rules_linear_heads(fixture *f)
{
    /* 24 columns are 2 heads of 12, or 4 of 6. */
    stack_init(f, 5, 12);
    graph_id id = graph_linear_heads(&f->g, f->x, graph_stack(&f->g, 0, 2), false);
    check_value(f, id, GRAPH_LINEAR_HEADS, GRAPH_TOKENS, 10);
    stack_init(f, 6, 11);
    id = graph_linear_heads(&f->g, f->taken, graph_stack(&f->g, 0, 4), true);
    check_value(f, id, GRAPH_LINEAR_HEADS, GRAPH_OUTPUTS, 44);
    assert_int_equal(f->values[id].i[0], 1);
    for (int transposed = 0; transposed < 2; transposed++) {
        stack_init(f, 5, 12);
        graph_id stack = graph_stack(&f->g, 0, transposed == 0 ? 3 : 2);
        id = graph_linear_heads(&f->g, f->x, stack, transposed == 1);
        check_refused(f, id, stack + 1, __LINE__);
    }
    refuses(f, graph_linear_heads(&f->g, f->x, f->weight[SQUARE_W], false));
    refuses(f, graph_linear_heads(&f->g, f->x, 0, false));
    stack_init(f, 5, 12);
    graph_id stack = graph_stack(&f->g, 0, 2);
    check_refused(f, graph_linear_heads(&f->g, f->state, stack, false), stack + 1, __LINE__);
}

static void rules_route(fixture *f)
{
    graph_route how = {.top_k = 4, .n_groups = 6, .n_top_groups = 2, .flags = 3, .scale = 2.5F};
    fixture_init(f);
    graph_id id = graph_route_experts(&f->g, f->x, f->weight[NORM_W], f->weight[NORM_W], how);
    check_value(f, id, GRAPH_ROUTE, GRAPH_TOKENS, 8);
    assert_true(f->values[id].f[0] == 2.5F && f->values[id].i[1] == 6 && f->values[id].i[2] == 2);
    /* Ids and weights are not numbers to compute with. */
    now_name = graph_op_name(GRAPH_ADD);
    check_refused(f, graph_add(&f->g, id, id), id + 1, __LINE__);
    now_name = graph_op_name(GRAPH_ROUTE);
    how = (graph_route){.top_k = 24, .scale = 1.0F};
    fixture_init(f);
    check_value(f, graph_route_experts(&f->g, f->taken, 0, 0, how), GRAPH_ROUTE, GRAPH_OUTPUTS, 48);
    how.top_k = 25;
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how.top_k = 0;
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how = (graph_route){.top_k = 9, .n_groups = 6, .n_top_groups = 2};
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how = (graph_route){.top_k = 1, .n_groups = 5, .n_top_groups = 2};
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how = (graph_route){.top_k = 1, .n_groups = 24, .n_top_groups = 2}; /* no two in a group */
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how = (graph_route){.top_k = 1, .n_groups = 6, .n_top_groups = 7};
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how.n_top_groups = 0;
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how = (graph_route){.top_k = 1, .flags = 4};
    refuses(f, graph_route_experts(&f->g, f->x, 0, 0, how));
    how.flags = 0;
    refuses(f, graph_route_experts(&f->g, f->x, f->weight[WIDE_BIAS], 0, how));
    refuses(f, graph_route_experts(&f->g, f->x, 0, f->weight[HEAD_NORM_W], how));
    refuses(f, graph_route_experts(&f->g, f->x, f->weight[SQUARE_W], 0, how));
    refuses(f, graph_route_experts(&f->g, f->x, f->taken, 0, how));
    refuses(f, graph_route_experts(&f->g, f->state, 0, 0, how));
    refuses(f, graph_route_experts(&f->g, 0, 0, 0, how));
}

/* Three matrices of an expert: what each is of stacks of 24 gate and down matrices. */
static graph_id experts_of(fixture *f, uint32_t gate, uint32_t up, uint32_t down, bool outputs)
{
    static tensor many[3 * WIDTH];
    for (uint32_t i = 0; i < COUNT_OF(many); i++) {
        bool is_down = i >= 2 * WIDTH;
        many[i] = (tensor){
            .name = "expert", .n_rows = is_down ? WIDTH : 7, .n_cols = is_down ? 7 : WIDTH};
    }
    fixture_init(f);
    f->g.tensors = many;
    f->g.n_tensors = COUNT_OF(many);
    graph_id route =
        graph_route_experts(&f->g, f->x, 0, 0, (graph_route){.top_k = 2, .scale = 1.0F});
    graph_id stacks[3] = {graph_stack(&f->g, 0, gate), graph_stack(&f->g, WIDTH, up),
                          graph_stack(&f->g, 2 * WIDTH, down)};
    return graph_experts(&f->g, outputs ? f->taken : f->x, route, stacks, GRAPH_SILU);
}

/* Biases of the experts above, stacks of 7, 7 and 24 numbers; wrong: which of them is refused. */
static graph_id biased_experts(fixture *f, graph_act act, float limit, int wrong)
{
    static tensor many[6 * WIDTH];
    graph_id id = experts_of(f, WIDTH, WIDTH, WIDTH, false);
    const graph_value v = f->values[id];
    f->g.n_values = id;
    memcpy(many, f->g.tensors, 3 * WIDTH * sizeof *many);
    for (uint32_t i = 3 * WIDTH; i < COUNT_OF(many); i++) {
        uint64_t n_cols = i >= 5 * WIDTH ? WIDTH : 7;
        many[i] = (tensor){.name = "bias", .n_rows = 1, .n_cols = n_cols};
    }
    for (uint32_t i = 5 * WIDTH; i < COUNT_OF(many) && wrong == 1; i++) many[i].n_rows = 2;
    f->g.tensors = many;
    f->g.n_tensors = COUNT_OF(many);
    graph_id stacks[6] = {v.in[2], v.in[3], v.in[4]};
    for (uint32_t i = 3; i < 6; i++) {
        uint32_t from = wrong == 2 && i == 5 ? 3 : i;
        stacks[i] = graph_stack(&f->g, from * WIDTH, wrong == 3 && i == 4 ? WIDTH - 1 : WIDTH);
    }
    return graph_experts_biased(&f->g, v.in[0], v.in[1], stacks, act, limit);
}

static void rules_biased_experts(fixture *f)
{
    graph_id id = biased_experts(f, GRAPH_GPT_OSS, 7.0F, -1);
    check_value(f, id, GRAPH_EXPERTS, GRAPH_TOKENS, WIDTH);
    assert_true(f->values[id].f[0] == 7.0F && f->values[id].i[0] == GRAPH_GPT_OSS);
    for (uint32_t i = 5; i < 8; i++) assert_int_equal(f->values[id].in[i], id - 8 + i);
    check_refused(f, biased_experts(f, GRAPH_SILU, 0.0F, 1), id, __LINE__);
    check_refused(f, biased_experts(f, GRAPH_SILU, 0.0F, 2), id, __LINE__);
    check_refused(f, biased_experts(f, GRAPH_SILU, 0.0F, 3), id, __LINE__);
    check_refused(f, biased_experts(f, GRAPH_SILU, -1.0F, -1), id, __LINE__);
    check_refused(f, biased_experts(f, GRAPH_SIGMOID, 0.0F, -1), id, __LINE__);
    /* Of the other operation with activations it is none. */
    now_name = graph_op_name(GRAPH_GLU);
    refuses(f, graph_glu(&f->g, f->x, f->x, GRAPH_GPT_OSS));
    now_name = graph_op_name(GRAPH_EXPERTS);
}

static void rules_experts(fixture *f)
{
    graph_id id = experts_of(f, WIDTH, WIDTH, WIDTH, false);
    check_value(f, id, GRAPH_EXPERTS, GRAPH_TOKENS, WIDTH);
    uint32_t index = id;
    check_refused(f, experts_of(f, WIDTH - 1, WIDTH, WIDTH, false), index, __LINE__);
    check_refused(f, experts_of(f, WIDTH, WIDTH - 1, WIDTH, false), index, __LINE__);
    check_refused(f, experts_of(f, WIDTH, WIDTH, 1, false), index, __LINE__);
    check_refused(f, experts_of(f, WIDTH, WIDTH, WIDTH, true), index, __LINE__);
    graph_id stacks[3] = {index - 3, index - 2, index - 1};
    graph_id route = index - 4;
    for (int what = 0; what < 5; what++) {
        graph_id wrong[3] = {stacks[0], stacks[1], stacks[2]};
        experts_of(f, WIDTH, WIDTH, WIDTH, false);
        f->g.n_values = index;
        if (what == 0) wrong[0] = stacks[2]; /* gate and down exchanged */
        if (what == 1) wrong[2] = stacks[0];
        if (what == 2) wrong[1] = 0;
        id = graph_experts(&f->g, what == 3 ? f->wide : f->x, what == 4 ? f->x : route, wrong,
                           GRAPH_SILU);
        check_refused(f, id, index, __LINE__);
    }
    rules_biased_experts(f);
}

/* One a row of the map. */
static void (*const RULES[GRAPH_N_OPS])(fixture *f) = {
    [GRAPH_NONE] = rules_none,
    [GRAPH_WEIGHT] = rules_weight,
    [GRAPH_INPUT] = rules_tokens,
    [GRAPH_EMBED] = rules_embed,
    [GRAPH_LINEAR] = rules_linear,
    [GRAPH_RMS_NORM] = rules_rms_norm,
    [GRAPH_ROPE] = rules_rope,
    [GRAPH_ADD] = rules_add,
    [GRAPH_SCALE] = rules_scale,
    [GRAPH_GLU] = rules_glu,
    [GRAPH_KV_APPEND] = rules_kv_append,
    [GRAPH_ATTEND] = rules_attend,
    [GRAPH_STACK] = rules_stack,
    [GRAPH_COLS] = rules_cols,
    [GRAPH_CONCAT] = rules_concat,
    [GRAPH_LINEAR_HEADS] = rules_linear_heads,
    [GRAPH_ROUTE] = rules_route,
    [GRAPH_EXPERTS] = rules_experts,
    [GRAPH_TAKE] = rules_take,
    [GRAPH_SOFTCAP] = rules_softcap,
    [GRAPH_CONV] = rules_conv,
    [GRAPH_GATED_DELTA] = rules_gated_delta,
    [GRAPH_KV_STORE] = rules_kv_store,
    [GRAPH_STATE] = rules_state,
    [GRAPH_LAYER_NORM] = rules_layer_norm,
    [GRAPH_ACT] = rules_act,
    [GRAPH_POSITION_SCALE] = rules_position_scale,
    [GRAPH_MUL] = rules_mul,
    [GRAPH_FEED] = rules_feed,
    [GRAPH_REPLACE] = rules_replace,
    [GRAPH_CLAMP] = rules_clamp,
    [GRAPH_STANDARDIZE] = rules_standardize,
    [GRAPH_SELECT] = rules_select,
    [GRAPH_TAP] = rules_tap,
};

static void test_every_operation_has_its_rules(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < GRAPH_N_OPS; op++) {
        fixture f;
        now_name = graph_op_name((graph_op)op);
        if (RULES[op] == NULL) fail_msg("operation %s has no test", now_name);
        RULES[op](&f);
        for (uint32_t other = 0; other < op; other++) {
            assert_string_not_equal(graph_op_name((graph_op)other), now_name);
        }
    }
    assert_string_equal(graph_op_name(GRAPH_N_OPS), "unknown");
}

static void test_the_first_error_stays(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f);
    uint32_t n = f.g.n_values;
    assert_int_equal(graph_add(&f.g, f.x, f.wide), 0);
    char first[sizeof f.g.error.message];
    memcpy(first, f.g.error.message, sizeof first);
    /* Whatever follows, with or without inputs from before, gives nothing and changes nothing. */
    assert_int_equal(graph_scale(&f.g, f.x, 1.0F), 0);
    assert_int_equal(graph_weight(&f.g, 99), 0);
    assert_int_equal(graph_attend(&f.g, 0, 0, 0, 0, 0), 0);
    graph_finish(&f.g, 0);
    graph_finish(&f.g, f.taken);
    assert_int_equal(f.g.n_values, n);
    assert_string_equal(f.g.error.message, first);
    weft_error err = {0};
    assert_status(WEFT_FORMAT, graph_status(&f.g, &err), &err);
    char expected[128];
    snprintf(
        expected, sizeof expected,
        "graph value %u: add does not fit its inputs (embed of 24 columns, linear of %u by 36)", n,
        GRAPH_TOKENS);
    assert_string_equal(err.message, expected);
    assert_int_equal(graph_status(&f.g, NULL), WEFT_FORMAT);
}

static void test_capacity(void **state)
{
    (void)state;
    graph g;
    graph_value values[5];
    values[4].cols = 4711;
    graph_init(&g, values, 4, TENSORS, N_TENSORS);
    graph_id tokens = graph_tokens(&g);
    graph_id x = graph_embed(&g, tokens, graph_weight(&g, EMBED_W));
    assert_int_equal(x, 3);
    assert_int_equal(graph_scale(&g, x, 1.0F), 0);
    weft_error err = {0};
    assert_status(WEFT_LIMIT, graph_status(&g, &err), &err);
    assert_string_equal(err.message, "graph value 4: scale does not fit, at most 4 values");
    assert_int_equal(values[4].cols, 4711);
}

static void small_graph(graph *g, graph_value *values, bool unused)
{
    graph_init(g, values, CAPACITY, TENSORS, N_TENSORS);
    graph_id tokens = graph_tokens(g);
    graph_id w = graph_weight(g, EMBED_W);
    graph_id x = graph_embed(g, tokens, w);
    if (unused) graph_scale(g, x, 2.0F);
    graph_id n = graph_rms_norm(g, graph_take(g, x), graph_weight(g, NORM_W), 0, 0);
    graph_finish(g, graph_linear(g, n, w, 0));
}

static void test_finish(void **state)
{
    (void)state;
    graph g;
    graph_value values[CAPACITY];
    weft_error err = {0};
    small_graph(&g, values, false);
    assert_ok(graph_status(&g, &err), &err);
    assert_int_equal(g.output, 7);
    assert_int_equal(graph_last_use(&g, 2), 7);
    assert_int_equal(graph_last_use(&g, 1), 3);
    assert_int_equal(graph_last_use(&g, 7), 7);
    small_graph(&g, values, true);
    assert_status(WEFT_FORMAT, graph_status(&g, &err), &err);
    assert_string_equal(err.message, "graph value 4: nothing reads this scale");
    err = (weft_error){0};
    graph_init(&g, values, CAPACITY, TENSORS, N_TENSORS);
    assert_status(WEFT_FORMAT, graph_status(&g, &err), &err);
    assert_string_equal(err.message, "graph: no output");
    graph_id tokens = graph_tokens(&g);
    graph_id x = graph_embed(&g, tokens, graph_weight(&g, EMBED_W));
    graph_finish(&g, x);
    err = (weft_error){0};
    assert_status(WEFT_FORMAT, graph_status(&g, &err), &err);
    assert_string_equal(err.message, "graph: value 3 is not a matrix of wanted rows");
    for (graph_id id = 0; id < 3; id++) {
        graph_init(&g, values, CAPACITY, TENSORS, N_TENSORS);
        graph_finish(&g, id);
        assert_status(WEFT_FORMAT, graph_status(&g, NULL), NULL);
    }
}

/* A graph may end in what it stores; everything else must still be used. */
static void test_finish_without_logits(void **state)
{
    (void)state;
    graph g;
    graph_value values[CAPACITY];
    weft_error err = {0};
    for (uint32_t spare = 0; spare < 2; spare++) {
        graph_init(&g, values, CAPACITY, TENSORS, N_TENSORS);
        graph_id x = graph_embed(&g, graph_tokens(&g), graph_weight(&g, EMBED_W));
        if (spare == 1) graph_scale(&g, x, 2.0F);
        graph_kv_store(&g, x, x, 0, KEY_HEADS);
        graph_finish(&g, 0);
        weft_status status = graph_status(&g, &err);
        if (spare == 0) {
            assert_ok(status, &err);
            assert_int_equal(g.output, 0);
            assert_true(g.only_stores);
        } else {
            assert_status(WEFT_FORMAT, status, &err);
            assert_string_equal(err.message, "graph value 4: nothing reads this scale");
        }
    }
    /* Logits and what is stored beside them. */
    graph_init(&g, values, CAPACITY, TENSORS, N_TENSORS);
    graph_id x = graph_embed(&g, graph_tokens(&g), graph_weight(&g, EMBED_W));
    graph_kv_store(&g, x, x, 0, KEY_HEADS);
    graph_id logits = graph_take(&g, x);
    graph_finish(&g, logits);
    err = (weft_error){0};
    assert_ok(graph_status(&g, &err), &err);
    assert_int_equal(g.output, logits);
    assert_false(g.only_stores);
    /* What was stored has no storage. */
    graph_slot slots[CAPACITY];
    size_t total;
    graph_lifetimes(&g, slots);
    assert_ok(graph_place(&g, (graph_rows){5, 2, 0}, slots, &total, &err), &err);
    assert_true(slots[4].offset == SIZE_MAX && slots[3].offset == 0);
    assert_int_equal(total, size_align(5 * WIDTH, 16));
}

static void test_print(void **state)
{
    (void)state;
    graph g;
    graph_value values[CAPACITY];
    strbuf out;
    small_graph(&g, values, false);
    strbuf_init(&out, mem_system(), 0);
    assert_int_equal(graph_print(&g, &out), WEFT_OK);
    assert_string_equal(strbuf_text(&out), "%1 tokens [tokens, 1]\n"
                                           "%2 weight [50, 24] embed\n"
                                           "%3 embed [tokens, 24] %1 %2\n"
                                           "%4 weight [1, 24] norm\n"
                                           "%5 take [outputs, 24] %3\n"
                                           "%6 rms_norm [outputs, 24] %5 %4\n"
                                           "%7 linear [outputs, 50] %6 %2\n");
    strbuf_deinit(&out);
    strbuf_init(&out, mem_system(), 40);
    assert_int_equal(graph_print(&g, &out), WEFT_LIMIT);
    strbuf_deinit(&out);
}

static void init_without_room(void *user)
{
    graph_value value;
    graph_init(user, &value, 1, TENSORS, N_TENSORS);
}

static void test_misuse_traps(void **state)
{
    (void)state;
    graph g;
    assert_true(test_traps(init_without_room, &g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_has_its_rules),
        cmocka_unit_test(test_the_first_error_stays),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_finish_without_logits),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_misuse_traps),
    };
    return TEST_RUN("graph/graph", tests);
}
