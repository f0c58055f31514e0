/* test_ops.c - whole backends: every operation and every pattern that a backend may fuse, against
 * bounds derived beside a computation in double (support/graph_oracle.h); and promise P1, bit for
 * bit. */
#include "backend/ops_patterns.h"
#include "backend/ops_runs.h"

#include "support/fault_backend.h"

/* ---- patterns: each builds a model whose output is the logits ---- */

static void pattern_plain(model *m)
{
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, model_embed(m)), MODEL_VOCAB));
}

static void pattern_take_is_output(model *m)
{
    graph_finish(&m->g, graph_take(&m->g, model_embed(m)));
}

/* Rows by position and one for all beside those by id. */
static void pattern_embeddings(model *m)
{
    graph *g = &m->g;
    uint32_t first = draw(0, 3);
    graph_id x = model_embed(m);
    graph_id p =
        graph_embed(g, graph_positions(g, first), model_matrix(m, SEQ_MOST + first, m->width));
    graph_id t = graph_embed(g, graph_one_row(g, draw(0, 2)), model_matrix(m, 3, m->width));
    graph_finish(g, graph_take(g, graph_add(g, graph_add(g, x, t), p)));
}

/* Norms whose input is read again, and in place; of the whole width and of groups. */
static void pattern_norms(model *m)
{
    graph *g = &m->g;
    m->width = 96;
    graph_id x = model_embed(m);
    graph_id a = model_norm(m, x, 96);
    graph_id b = model_norm(m, model_linear(m, a, 96), 24);
    graph_id c = model_norm(m, model_norm(m, b, 96), 32);
    b = graph_rms_norm_plain(g, b, 48, 1e-6F);
    x = graph_add(g, x, graph_rms_norm_plain(g, b, 96, 1e-3F));
    x = graph_add(g, c, x);
    graph_finish(g, model_norm(m, graph_take(g, x), 96));
}

/* Layer norms, in place and not; of the whole width and of groups, each with its own weight. */
static void pattern_layer_norms(model *m)
{
    graph *g = &m->g;
    m->width = 96;
    graph_id x = model_embed(m);
    graph_id a = model_layer_norm(m, x, 96);
    graph_id b = model_layer_norm(m, model_linear(m, a, 96), 24);
    graph_id c = model_layer_norm(m, model_layer_norm(m, b, 96), 32);
    b = graph_layer_norm_apply(g, b, (graph_layer_norm){.group = 48, .eps = 1e-6F});
    x = graph_add(g, x,
                  graph_layer_norm_apply(g, b, (graph_layer_norm){.group = 96, .eps = 1e-3F}));
    x = graph_add(g, c, x);
    graph_finish(g, model_layer_norm(m, graph_take(g, x), 96));
}

/* Activations of a linear layer, of what is read again, and in place; factors by position. */
static void pattern_acts(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id y = graph_position_scale(g, x, 0.3F, 4.0F);
    for (uint32_t act = 0; act <= GRAPH_RELU2; act++) {
        graph_id h = graph_act_apply(g, model_linear(m, x, m->wide), (graph_act)act);
        y = graph_add(g, y, model_linear(m, h, m->width));
        y = graph_add(g, y, graph_act_apply(g, graph_scale(g, x, 0.7F), (graph_act)act));
    }
    y = graph_add(g, y, graph_act_apply(g, y, GRAPH_GELU_ERF));
    graph_id t = graph_take(g, graph_position_scale(g, y, -0.2F, 1.0F));
    graph_finish(g, graph_act_apply(g, t, GRAPH_SILU));
}

/* Elementwise operations alone and in chains; inputs that die, that live on, and that are one. */
static void pattern_elementwise(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id a = graph_scale(g, x, 1.75F);
    graph_id b = graph_add(g, a, a);
    graph_id c = graph_add(g, x, b);
    graph_id d = graph_softcap(g, c, 3.0F);
    graph_id e = graph_scale(g, d, -0.3F);
    graph_id f = graph_add(g, e, c);
    graph_id h = graph_glu(g, f, e, GRAPH_GELU_ERF);
    graph_id t = graph_take(g, graph_add(g, h, f));
    graph_finish(g, graph_scale(g, graph_softcap(g, t, 2.5F), 4.0F));
}

/* Products with as many columns and with one, of what dies and of what lives on, and of one value
 * by itself; of linear layers, which nothing may be fused with. */
static void pattern_mul(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id a = graph_mul(g, graph_scale(g, x, 0.5F), x);
    graph_id b = graph_mul(g, x, model_linear(m, x, m->width));
    graph_id c = graph_mul(g, model_linear(m, a, m->width), graph_add(g, b, x));
    graph_id one = model_linear(m, x, 1);
    graph_id d = graph_mul(g, graph_add(g, c, b), one);
    graph_id e = graph_mul(g, graph_mul(g, one, one), graph_cols(g, x, m->width, 1, 1));
    graph_id f = graph_mul(g, model_linear(m, x, 9), e);
    f = graph_add(g, model_linear(m, graph_mul(g, f, f), m->width), d);
    graph_id t = graph_take(g, graph_mul(g, a, f));
    graph_finish(g, graph_mul(g, t, graph_cols(g, t, m->width, 0, 1)));
}

/* Gate and up fused with their activation; the same the wrong way round, or read again, which must
 * not be. */
static void pattern_glu(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id y = x;
    for (uint32_t act = 0; act < 3; act++) {
        y = graph_add(g, y, model_mlp(m, model_norm(m, x, m->width), (graph_act)act));
    }
    graph_id up = model_linear(m, x, m->wide);
    graph_id gate = model_linear(m, x, m->wide);
    graph_id h = graph_glu(g, gate, up, GRAPH_SILU);
    graph_id gate2 = model_linear(m, x, m->wide);
    graph_id up2 = model_linear(m, x, m->wide);
    graph_id h2 = graph_add(g, graph_glu(g, gate2, up2, GRAPH_GELU_TANH), gate2);
    graph_id h3 = model_linear(m, x, m->wide);
    h3 = graph_glu(g, h3, h3, GRAPH_SILU);
    h = graph_take(g, graph_add(g, graph_add(g, h, h2), h3));
    y = graph_take(g, y);
    graph_finish(g, graph_add(g, model_linear(m, y, MODEL_VOCAB), model_linear(m, h, MODEL_VOCAB)));
}

static void pattern_glu_is_output(model *m)
{
    graph *g = &m->g;
    graph_id t = graph_take(g, model_embed(m));
    graph_id gate = model_linear(m, t, m->wide);
    graph_id up = model_linear(m, t, m->wide);
    graph_finish(g, graph_glu(g, gate, up, GRAPH_SILU));
}

/* Residuals added on either side of a linear layer; both sides linear, of one input and of two; one
 * read twice. */
static void pattern_linear_add(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id a = graph_add(g, x, model_linear(m, x, m->width));
    graph_id b = graph_add(g, model_linear(m, graph_scale(g, x, 0.5F), m->width), x);
    graph_id l1 = model_linear(m, a, m->width);
    graph_id l2 = model_linear(m, a, m->width);
    graph_id c = graph_add(g, l1, l2);
    graph_id l3 = model_linear(m, b, m->width);
    graph_id d = graph_add(g, model_linear(m, graph_scale(g, x, -1.0F), m->width), l3);
    graph_id e = model_linear(m, graph_scale(g, x, 0.3F), m->width);
    e = graph_add(g, e, e);
    graph_id l4 = model_linear(m, graph_scale(g, x, 0.7F), m->width);
    graph_id f = graph_add(g, graph_add(g, l4, c), graph_scale(g, l4, 0.5F));
    graph_id t = graph_take(g, graph_add(g, graph_add(g, d, e), f));
    graph_finish(g, graph_add(g, model_linear(m, t, m->width), t));
}

static void pattern_attention(model *m)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_attention(m, x, 0));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

static void pattern_window(model *m)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_attention(m, x, draw(1, 40)));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

/* Two states in one graph. */
static void pattern_two_states(model *m)
{
    graph *g = &m->g;
    m->norms = true;
    graph_id x = model_embed(m);
    graph_id a = model_attention(m, model_norm(m, x, m->width), draw(1, 20));
    graph_id b = model_attention(m, model_norm(m, x, m->width), 0);
    x = graph_add(g, graph_add(g, x, a), b);
    graph_finish(g, model_linear(m, graph_take(g, x), MODEL_VOCAB));
}

/* Columns of each head, of one side and of the other, and a gate of sigmoids over attention. */
static void pattern_gated_heads(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    uint32_t n_heads = draw(1, 3);
    uint32_t dim = draw(1, 9);
    graph_id both = model_linear(m, x, n_heads * 2 * dim);
    graph_id a = graph_cols(g, both, 2 * dim, 0, dim);
    graph_id b = graph_cols(g, both, 2 * dim, dim, dim);
    graph_id y = model_linear(m, graph_glu(g, b, a, GRAPH_SIGMOID), m->width);
    graph_id t = graph_take(g, graph_add(g, x, y));
    graph_finish(g, graph_cols(g, model_linear(m, t, 30), 15, 3, 7));
}

static void pattern_conv(model *m)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_recurrent(m, x, false));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

static void pattern_delta(model *m)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_recurrent(m, x, true));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

/* A state that is replaced beside one that is appended to. */
static void pattern_two_kinds(model *m)
{
    graph *g = &m->g;
    m->norms = true;
    graph_id x = model_embed(m);
    graph_id a = model_recurrent(m, model_norm(m, x, m->width), true);
    graph_id b = model_attention(m, model_norm(m, x, m->width), draw(0, 1) * draw(1, 20));
    x = graph_add(g, graph_add(g, x, a), b);
    graph_finish(g, model_linear(m, graph_take(g, x), MODEL_VOCAB));
}

/* The second half of a layer, and the head. */
static void pattern_mlp_and_head(model *m)
{
    graph_id x = model_embed(m);
    graph_id h = model_mlp(m, model_norm(m, x, m->width), (graph_act)draw(0, 2));
    model_head(m, graph_add(&m->g, h, x));
}

/* most: how wide the bounds may be on average, as a part of the values, with inputs in f32. Wider
 * ones would prove little; those of keys and values in 16 bits are left out of the average, and
 * those of rotated values grow as they are turned back. f32: no such roundings at all, or the
 * bounds of a deep model would be wider than its values. */
static const struct {
    const char *name;
    void (*build)(model *m);
    double most;
    bool f32;
} PATTERNS[] = {
    {"plain", pattern_plain, 0.01, false},
    {"take is output", pattern_take_is_output, 0.01, false},
    {"embeddings", pattern_embeddings, 0.01, false},
    {"norms", pattern_norms, 0.01, false},
    {"layer norms", pattern_layer_norms, 0.1, false},
    {"acts", pattern_acts, 0.01, false},
    {"elementwise", pattern_elementwise, 0.01, false},
    {"taps", pattern_taps, 0.01, false},
    {"glu", pattern_glu, 0.01, false},
    {"glu is output", pattern_glu_is_output, 0.01, false},
    {"linear and add", pattern_linear_add, 0.01, false},
    {"many linears", pattern_many_linears, 0.03, false},
    {"attention", pattern_attention, 0.3, false},
    {"window", pattern_window, 0.3, false},
    {"two states", pattern_two_states, 0.3, true},
    {"mlp and head", pattern_mlp_and_head, 0.1, true},
    {"columns", pattern_columns, 0.03, false},
    {"heads", pattern_heads, 0.03, false},
    {"latent", pattern_latent, 0.3, false},
    {"chosen", pattern_chosen, 0.3, true},
    {"chunked", pattern_chunked, 0.3, false},
    {"experts", pattern_experts, 0.1, false},
    {"gated heads", pattern_gated_heads, 0.03, false},
    {"conv", pattern_conv, 0.03, false},
    {"delta", pattern_delta, 0.3, true},
    {"two kinds", pattern_two_kinds, 0.3, true},
    {"cross", pattern_cross, 0.3, false},
    {"mul", pattern_mul, 0.03, false},
    {"feed", pattern_feed, 0.03, false},
    {"places", pattern_places, 0.3, false},
    {"features", pattern_features, 0.03, false},
};

/* ---- running them ---- */

static const char *now_pattern;

/* Where bounds say little they would prove little: how wide they are, all in all, for each
 * weft_act. Roundings of inputs to bf16 make them grow with each linear layer that follows another.
 */
static double sum_bound[3], sum_value[3];

/* Where it is open which experts a token goes to there is no bound: rarely. */
static const double NO_BOUND = 1e20;
static uint64_t n_open, n_bounds;

/* Where keys or values are rounded to 16 bits bounds are wide: a tie in an interval costs a unit.
 * */
static bool is_half(const kv_codec *codec)
{
    return codec->kind == KV_DENSE && codec->bits == 16;
}

static void check_bounds(const machine *w, const sequence *q, const graph_oracle *o)
{
    graph_id out = w->m->g.output;
    uint32_t cols = w->m->values[out].cols;
    for (size_t i = 0; i < (size_t)q->n * cols; i++) {
        double off = fabs((double)q->logits[i] - o->x[out][i]);
        double bound = o->e[out][i] + 2 * 0x1p-24 * fabs(o->x[out][i]) + 1e-30;
        if (!(off <= bound)) {
            fail_msg("%s %s, %s: token %zu, output %zu is %.9g, expected %.9g: off by %.3g, %.3g "
                     "allowed",
                     w->s.api->name, w->s.isa == NULL ? "" : w->s.isa, now_pattern, i / cols,
                     i % cols, (double)q->logits[i], o->x[out][i], off, bound);
        }
        n_open += bound > NO_BOUND;
        n_bounds++;
        if (is_half(w->s.k) || is_half(w->s.v) || bound > NO_BOUND) continue;
        sum_bound[w->s.act] += bound;
        sum_value[w->s.act] += fabs(o->x[out][i]);
    }
}

/* One model: ref, and cpu with each instruction set, within the bounds. */
static void check_pattern(size_t k, uint32_t most_tokens, bool seen[GRAPH_N_OPS])
{
    static model m;
    static texts t;
    static sequence q[N_SEQS];
    weft_error err = {0};
    now_pattern = PATTERNS[k].name;
    model_begin(&m);
    PATTERNS[k].build(&m);
    assert_ok(graph_status(&m.g, &err), &err);
    for (graph_id id = 0; id < m.g.n_values; id++) seen[m.values[id].op] = true;
    fill_texts(&t, most_tokens);
    if (m.n_layers > 0 && draw(0, 1) == 0) fill_blocks(&t);
    setup s = random_setup(&m, &BACKEND_REF, NULL);
    if (PATTERNS[k].f32) {
        s.act = WEFT_ACT_F32;
        s.k = s.v = kv_codec_by_name("f32", 3);
    }
    size_t n_isas;
    const cpu_isa *isas = cpu_isa_table(&n_isas);
    graph_oracle oracle[N_SEQS];
    /* What is packed may differ in a code from backend to backend. */
    bool packed = s.k->kind != KV_DENSE || s.v->kind != KV_DENSE;
    packed = packed || (s.index != NULL && s.index->kind != KV_DENSE);
    for (size_t i = 0; i <= n_isas; i++) {
        machine w;
        if (i > 0 && !isas[i - 1].available()) continue;
        if (i > 0) {
            s.api = &BACKEND_CPU;
            s.isa = isas[i - 1].name;
        }
        machine_open(&w, &m, s);
        run_together(&w, q, &t, most_tokens);
        for (uint32_t j = 0; j < N_SEQS; j++) {
            if (i == 0 || packed) {
                kv_view views[MODEL_STATES];
                sequence_views(&q[j], views, 1);
                if (i > 0) graph_oracle_free(&oracle[j]);
                uint32_t highest[SEQ_MOST];
                for (uint32_t p = 0; p < q[j].n; p++) highest[p] = sequence_highest(&q[j], p);
                graph_oracle_run(&oracle[j], &m.g, views, s.act, t.ids[j], highest, t.n[j]);
            }
            check_bounds(&w, &q[j], &oracle[j]);
        }
        if (i > 0) assert_string_equal(w.s.api->isa(w.b), s.isa);
        /* The views that the oracle borrowed go with their machine; it needs them no more. */
        close_all(&w, q);
    }
    for (uint32_t j = 0; j < N_SEQS; j++) graph_oracle_free(&oracle[j]);
    model_free(&m);
}

static void test_every_pattern_within_bounds(void **state)
{
    (void)state;
    bool seen[GRAPH_N_OPS] = {false};
    for (size_t k = 0; k < COUNT_OF(PATTERNS); k++) {
        for (uint64_t round = 0; round < PATTERN_ROUNDS; round++) {
            case_seed = 1000 * k + round;
            check_pattern(k, 24, seen);
        }
        double ratio[3];
        for (int act = 0; act < 3; act++) {
            ratio[act] = sum_value[act] > 0.0 ? sum_bound[act] / sum_value[act] : 0.0;
            sum_bound[act] = sum_value[act] = 0.0;
        }
        print_message("%-16s bounds are %.2g of the values, with inputs in bf16 %.2g, int8 %.2g\n",
                      PATTERNS[k].name, ratio[WEFT_ACT_F32], ratio[WEFT_ACT_BF16],
                      ratio[WEFT_ACT_INT8]);
        /* Of the few rounds under sanitizers one alone may be wide. */
        assert_true(TEST_SLOWED || ratio[WEFT_ACT_F32] < PATTERNS[k].most);
    }
    assert_true(n_open * 50 < n_bounds);
    for (uint32_t op = 0; op < GRAPH_N_OPS; op++) {
        if (!seen[op]) fail_msg("operation %s is in no pattern", graph_op_name((graph_op)op));
    }
}

/* Sequences that reach over the splits of attention. */
static void test_long_sequences_within_bounds(void **state)
{
    (void)state;
    bool seen[GRAPH_N_OPS] = {false};
    for (uint64_t round = 0; round < LONG_ROUNDS; round++) {
        case_seed = 77 + round;
        for (size_t k = 0; k < COUNT_OF(PATTERNS); k++) {
            void (*build)(model *) = PATTERNS[k].build;
            bool one = build == pattern_latent || build == pattern_chunked ||
                       build == pattern_cross || build == pattern_chosen;
            if (one || build == pattern_attention || build == pattern_window) {
                check_pattern(k, SEQ_MOST, seen);
            }
        }
    }
}

/* A step appends what the codec makes of a row: bytes against those of the rows that a sequence
 * with f32 keeps. One layer: its keys and values depend on no attention. */
static void check_append(const model *m, setup s, const texts *t)
{
    static sequence plain[N_SEQS];
    static sequence q[N_SEQS];
    machine v;
    machine w;
    setup f32 = s;
    f32.k = f32.v = kv_codec_by_name("f32", 3);
    machine_open(&v, m, f32);
    machine_open(&w, m, s);
    run_alone(&v, plain, t);
    run_together(&w, q, t, 9);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        kv_view from;
        kv_view to;
        sequence_views(&plain[i], &from, 1);
        sequence_views(&q[i], &to, 1);
        const kv_geometry *g = to.geometry;
        const kv_codec *base = kv_codec_by_id(g->base);
        unsigned char record[4 * 256];
        for (uint32_t at = 0; at < t->n[i] * g->n_heads; at++) {
            uint32_t h = at % g->n_heads;
            uint32_t p = at / g->n_heads;
            float x[256];
            memcpy(x, kv_key(&from, h, p), g->k_dim * sizeof *x);
            s.k->encode_row(s.k, g->base, record, x, g->k_coded);
            base->encode_row(base, g->base, record + g->k_tail, x + g->k_coded,
                             g->k_dim - g->k_coded);
            assert_memory_equal(record, kv_key(&to, h, p), g->k_row_bytes);
            if (!kv_has_values(g)) continue;
            memcpy(x, kv_value(&from, h, p), g->v_dim * sizeof *x);
            s.v->encode_row(s.v, g->base, record, x, g->v_dim);
            assert_memory_equal(record, kv_value(&to, h, p), g->v_row_bytes);
        }
    }
    close_all(&v, plain);
    close_all(&w, q);
}

static void test_appended_bytes(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 4000 + round;
        model_begin(&m);
        if (round % 3 == 2) {
            pattern_latent(&m);
        } else {
            pattern_attention(&m);
        }
        fill_texts(&t, 30);
        each_isa(check_append, &m, &t);
        check_append(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

/* ---- P1: the same bits, alone or in any company ---- */

static void test_p1_short(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 5000 + round;
        model_begin(&m);
        model_whole(&m, draw(1, 20));
        fill_texts(&t, 30);
        each_isa(check_p1, &m, &t);
        check_p1(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

/* Lengths on both sides of a split. */
static void test_p1_across_splits(void **state)
{
    (void)state;
    static const uint32_t LENGTHS[3][N_SEQS] = {{255, 511, 1}, {256, 512, 257}, {513, 300, 2}};
    static model m;
    static texts t;
    for (uint64_t round = 0; round < LONG_ROUNDS; round++) {
        case_seed = 6000 + round;
        model_begin(&m);
        m.width = 32;
        m.n_kv_heads = 1 + (uint32_t)round % 2;
        m.n_heads = m.n_kv_heads * (round == 0 ? 1 : round == 1 ? 6 : 4);
        model_whole(&m, 100);
        fill_texts(&t, 1);
        memcpy(t.n, LENGTHS[round], sizeof t.n);
        each_isa(check_p1, &m, &t);
        model_free(&m);
    }
}

/* Decoding a token at a time over a long past, where few tasks are shared by splits. */
static void check_decode(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine alone;
    machine w;
    s.n_threads = 1;
    machine_open(&alone, m, s);
    run_alone(&alone, base, t);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        s.n_threads = threads;
        machine_open(&w, m, s);
        for (uint32_t i = 0; i < N_SEQS; i++) {
            sequence_open(&w, &q[i], t->ids[i], t->n[i]);
            machine_step(&w, &(row){&q[i], t->n[i] - 4, t->n[i] - 4}, 1);
        }
        for (uint32_t k = 0; k < 4; k++) {
            row rows[N_SEQS];
            for (uint32_t i = 0; i < N_SEQS; i++) rows[i] = (row){&q[i], 1, 1};
            /* Alone, and together. */
            for (uint32_t i = 0; i < N_SEQS && k % 2 == 0; i++) machine_step(&w, &rows[i], 1);
            if (k % 2 == 1) machine_step(&w, rows, N_SEQS);
        }
        check_same(&w, q, base, "decoding");
        close_all(&w, q);
    }
    close_all(&alone, base);
}

static void test_p1_decode(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < LONG_ROUNDS; round++) {
        case_seed = 7000 + round;
        model_begin(&m);
        m.width = 32;
        m.n_kv_heads = 1;
        m.n_heads = round == 0 ? 1 : 8;
        if (round == 1) {
            pattern_chosen(&m);
        } else {
            model_whole(&m, 300);
        }
        fill_texts(&t, 1);
        memcpy(t.n, (const uint32_t[]){515, 258, 7}, sizeof t.n);
        each_isa(check_decode, &m, &t);
        model_free(&m);
    }
}

/* KV-5: what lies in pages beyond what was written, NaN or not, changes no bit. */
static void check_kv5(const model *m, setup s, const texts *t)
{
    static const int FILLS[] = {0x00, 0xff, 0x7f, 0xa5};
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine alone;
    s.fill = 0;
    machine_open(&alone, m, s);
    run_alone(&alone, base, t);
    for (size_t i = 0; i < COUNT_OF(FILLS); i++) {
        machine w;
        s.fill = FILLS[i];
        machine_open(&w, m, s);
        run_together(&w, q, t, 9);
        check_same(&w, q, base, "garbage in pages");
        close_all(&w, q);
    }
    close_all(&alone, base);
}

static void test_kv5_garbage_is_not_seen(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS / 2; round++) {
        case_seed = 8000 + round;
        model_begin(&m);
        if (round % 3 == 2) {
            model_hybrid(&m, draw(1, 20));
        } else {
            model_whole(&m, draw(1, 20));
        }
        fill_texts(&t, 40);
        each_isa(check_kv5, &m, &t);
        model_free(&m);
    }
}

/* KV-8: rows of one step with different codecs, each as it is alone. */
static void check_kv8(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine v;
    machine w;
    row rows[N_SEQS];
    if (!model_is_latent(m) && (s.k->kind == KV_DENSE || s.v->kind == KV_DENSE)) {
        s.k = kv_codec_by_name("f16", 3);
        s.v = kv_codec_by_name("f32", 3);
    }
    machine_open(&v, m, s);
    machine_open(&w, m, s);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        sequence_open_with(&v, &base[i], i == 1 ? &v.other : &v.config, t->ids[i], t->n[i]);
        machine_step(&v, &(row){&base[i], t->n[i], t->n[i]}, 1);
        sequence_open_with(&w, &q[i], i == 1 ? &w.other : &w.config, t->ids[i], t->n[i]);
        rows[i] = (row){&q[i], t->n[i], t->n[i]};
    }
    machine_step(&w, rows, N_SEQS);
    check_same(&w, q, base, "codecs of all kinds");
    close_all(&v, base);
    close_all(&w, q);
}

static void test_kv8_codecs_of_rows_may_differ(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS / 2; round++) {
        case_seed = 8500 + round;
        model_begin(&m);
        model_whole(&m, draw(1, 20));
        fill_texts(&t, 40);
        each_isa(check_kv8, &m, &t);
        check_kv8(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

/* Logits of one sequence. */
static bool is_nan_row(const float *logits, uint32_t cols)
{
    for (uint32_t k = 0; k < cols; k++) {
        if (!isnan(logits[k])) return false;
    }
    return true;
}

/* That token in the middle of one sequence, against any other token there. Nothing else differs by
 * a bit but the tokens that see it: all later ones, or those in the window of a model of one layer.
 * Where keys and values are packed, it is stored as a zero, and those have numbers again; where
 * positions are chosen, it is the last that is. */
static void check_nan(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    static texts clean;
    static texts spoilt;
    uint32_t cols = m->values[m->g.output].cols;
    machine v;
    machine w;
    clean = *t;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        for (uint32_t k = 0; k < SEQ_MOST; k++) clean.ids[i][k] %= MODEL_VOCAB - 1;
    }
    spoilt = clean;
    uint32_t at = t->n[1] / 2;
    uint32_t end = t->n[1];
    if (m->n_layers == 1 && m->layers[0].window < end - at) end = at + m->layers[0].window;
    bool healed = s.k->kind != KV_DENSE && s.v->kind != KV_DENSE && !model_is_latent(m);
    spoilt.ids[1][at] = MODEL_VOCAB - 1;
    machine_open(&v, m, s);
    run_alone(&v, base, &clean);
    machine_open(&w, m, s);
    run_together(&w, q, &spoilt, draw(1, 40));
    for (uint32_t i = 0; i < N_SEQS; i++) {
        for (uint32_t k = 0; k < t->n[i]; k++) {
            const float *logits = q[i].logits + (size_t)k * cols;
            if (i == 1 && k > at && model_is_latent(m) && m->chooses) continue;
            if (i == 1 && k >= at && k < end) {
                if (is_nan_row(logits, cols) == (k == at || !healed)) continue;
                fail_msg("%s, %s and %s: token %u of a sequence with a NaN at %u has %s",
                         s.isa == NULL ? "ref" : s.isa, s.k->name, s.v->name, k, at,
                         k == at || !healed ? "numbers" : "none");
            }
            assert_memory_equal(logits, base[i].logits + (size_t)k * cols, cols * sizeof(float));
        }
    }
    assert_int_equal(v.n_nonfinite, 0);
    if (healed) assert_int_equal(w.n_nonfinite, count_packed(&w.config));
    if (count_packed(&w.config) == 0) assert_int_equal(w.n_nonfinite, 0);
    close_all(&v, base);
    close_all(&w, q);
}

static void test_nan_stays_in_its_row(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 9000 + round;
        model_begin(&m);
        if (round % 2 == 0) {
            model_whole(&m, 0);
        } else {
            graph_id x = model_embed(&m);
            x = graph_add(&m.g, x, model_attention(&m, x, draw(1, 12)));
            graph_finish(&m.g, model_linear(&m, graph_take(&m.g, x), MODEL_VOCAB));
        }
        fill_texts(&t, 40);
        t.n[1] = draw(2, 60);
        spoil_embedding(&m);
        each_isa(check_nan, &m, &t);
        check_nan(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

/* ---- the contract besides numbers ---- */

/* Logits of any subset are those of the whole, and a step may want none. */
static void check_outputs(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine v;
    machine w;
    uint32_t cols = m->values[m->g.output].cols;
    machine_open(&v, m, s);
    run_alone(&v, base, t);
    machine_open(&w, m, s);
    for (uint32_t i = 0; i < N_SEQS; i++) sequence_open(&w, &q[i], t->ids[i], t->n[i]);
    row first[N_SEQS];
    for (uint32_t i = 0; i < N_SEQS; i++) first[i] = (row){&q[i], t->n[i] / 2, 0};
    machine_step(&w, first, N_SEQS);
    row rest[N_SEQS];
    for (uint32_t i = 0; i < N_SEQS; i++) rest[i] = (row){&q[i], t->n[i] - t->n[i] / 2, i};
    machine_step(&w, rest, N_SEQS);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        size_t at = (size_t)(t->n[i] - i) * cols;
        assert_memory_equal(q[i].logits + at, base[i].logits + at, i * cols * sizeof(float));
        for (size_t k = 0; k < at; k++) assert_int_equal(fp_to_bits(q[i].logits[k]), 0x7f7f7f7f);
    }
    close_all(&v, base);
    close_all(&w, q);
}

static void test_subsets_of_outputs(void **state)
{
    (void)state;
    static model m;
    static texts t;
    case_seed = 10000;
    model_begin(&m);
    model_whole(&m, 7);
    fill_texts(&t, 30);
    for (uint32_t i = 0; i < N_SEQS; i++) t.n[i] += 6;
    each_isa(check_outputs, &m, &t);
    check_outputs(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
    model_free(&m);
}

/* Committed positions are read only: a step writes behind len, and there its own positions. */
static void test_a_step_writes_its_positions_only(void **state)
{
    (void)state;
    static model m;
    static texts t;
    static sequence q;
    machine w;
    case_seed = 11000;
    model_begin(&m);
    model_whole(&m, 9);
    fill_texts(&t, 1);
    setup s = random_setup(&m, &BACKEND_CPU, NULL);
    s.page_tokens = 16;
    s.fill = 0x5a;
    machine_open(&w, &m, s);
    sequence_open(&w, &q, t.ids[0], 20);
    machine_step(&w, &(row){&q, 10, 1}, 1);
    const kv_geometry *g = &w.config.geometries[0];
    kv_view view = {.geometry = g, .pages = q.pages, .n_slots = w.config.n_slots[0], .len = 10};
    unsigned char *page = q.pages[0];
    unsigned char *before = case_alloc(g->page_bytes);
    memcpy(before, page, g->page_bytes);
    machine_step(&w, &(row){&q, 3, 1}, 1);
    for (uint32_t h = 0; h < g->n_heads; h++) {
        for (uint32_t p = 10; p < 13; p++) {
            size_t k = (size_t)(kv_key(&view, h, p) - page);
            size_t v = (size_t)(kv_value(&view, h, p) - page);
            memcpy(before + k, page + k, g->k_row_bytes);
            memcpy(before + v, page + v, g->v_row_bytes);
        }
    }
    assert_memory_equal(before, page, g->page_bytes);
    for (size_t i = 0; i < g->page_bytes; i++) assert_int_equal(q.pages[1][i], 0x5a);
    free(before);
    sequence_close(&w, &q);
    machine_close(&w);
    model_free(&m);
}

static weft_status open_and_plan(const env *world, void *user, weft_error *err)
{
    const setup *s = user;
    static model m;
    case_seed = 12000;
    model_begin(&m);
    model_hybrid(&m, 9);
    backend *b = NULL;
    backend_plan *plan = NULL;
    backend_config config = {.env = *world, .isa = s->isa, .act = s->act, .n_threads = 2};
    backend_limits limits = {.n_tokens = 50, .n_rows = 4, .n_outputs = 9, .context = 1000};
    weft_status status = s->api->open(&config, &b, err);
    if (status == WEFT_OK) status = s->api->plan(b, &m.g, &limits, &plan, err);
    if (status == WEFT_OK) {
        void *page = s->api->alloc(b, 4096);
        if (page == NULL) status = err_set(err, WEFT_NOMEM, "out of memory for a page");
        s->api->release(b, page, 4096);
    } else {
        assert_null(plan);
    }
    if (b != NULL) s->api->plan_free(b, plan);
    s->api->close(b);
    model_free(&m);
    return status;
}

static void test_kv9_faults(void **state)
{
    (void)state;
    setup ref = {.api = &BACKEND_REF};
    setup cpu = {.api = &BACKEND_CPU};
    assert_true(fault_sweep(open_and_plan, &ref) >= 8);
    assert_true(fault_sweep(open_and_plan, &cpu) >= 6);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const backend_api *const APIS[] = {&BACKEND_CPU, &BACKEND_REF};
    static model m;
    const backend_api *found;
    weft_error err = {0};
    assert_ok(backend_find(NULL, &found, &err), &err);
    assert_ptr_equal(found, &BACKEND_CPU);
    assert_ok(backend_find("ref", &found, &err), &err);
    assert_ptr_equal(found, &BACKEND_REF);
    assert_status(WEFT_ARGUMENT, backend_find("gpu", &found, &err), &err);
    assert_message(&err, "unknown backend 'gpu', expected cpu or ref");
    assert_null(found);
    for (size_t i = 0; i < COUNT_OF(APIS); i++) {
        backend *b = (backend *)&m;
        backend_config config = {
            .env = {.allocator = mem_system(), .io = io_system()}, .isa = "mmx", .n_threads = 1};
        err = (weft_error){0};
        assert_status(WEFT_ARGUMENT, APIS[i]->open(&config, &b, &err), &err);
        assert_message(&err, "mmx");
        assert_null(b);
        config.isa = NULL;
        err = (weft_error){0};
        assert_ok(APIS[i]->open(&config, &b, &err), &err);
        case_seed = 13000;
        model_begin(&m);
        pattern_plain(&m);
        m.tensors[0].name = "blk.0.strange";
        const encoding *e = m.tensors[0].encoding;
        m.tensors[0].encoding = NULL;
        assert_status(WEFT_UNSUPPORTED, APIS[i]->supports(b, &m.g, &err), &err);
        assert_message(&err, "tensor 'blk.0.strange' has no encoding");
        m.tensors[0].encoding = e;
        backend_plan *plan = (backend_plan *)&m;
        backend_limits limits = {
            .n_tokens = UINT32_MAX, .n_rows = 1, .n_outputs = UINT32_MAX, .context = UINT32_MAX};
        fault_allocator small;
        fault_allocator_init(&small, 0);
        small.largest = 1 << 24;
        APIS[i]->close(b);
        config.env.allocator = &small.allocator;
        assert_ok(APIS[i]->open(&config, &b, NULL), NULL);
        err = (weft_error){0};
        weft_status status = APIS[i]->plan(b, &m.g, &limits, &plan, &err);
        assert_true(status == WEFT_NOMEM || status == WEFT_LIMIT);
        assert_null(plan);
        APIS[i]->close(b);
        APIS[i]->close(NULL);
        fault_allocator_check(&small);
        model_free(&m);
    }
}

static void test_measure_read(void **state)
{
    (void)state;
    static const backend_api *const APIS[] = {&BACKEND_CPU, &BACKEND_REF};
    enum { SIZE = 4 << 20 };
    void *block = mem_alloc_zero(mem_system(), SIZE);
    assert_non_null(block);
    for (size_t i = 0; i < COUNT_OF(APIS); i++) {
        backend *b;
        backend_config config = {.env = {.allocator = mem_system(), .io = io_system()},
                                 .n_threads = 2};
        double speed = 0.0;
        weft_error err = {0};
        assert_ok(APIS[i]->open(&config, &b, &err), &err);
        assert_ok(APIS[i]->measure_read(b, block, SIZE, &speed, &err), &err);
        assert_true(speed > 1e6 && speed < 1e13);
        APIS[i]->close(b);
    }
    mem_free(mem_system(), block, SIZE);
}

/* The backend that fails on demand: passes on, counts, fails once, leaves nothing. */
static void test_fault_backend(void **state)
{
    (void)state;
    static const weft_status STATUS[FAULT_N_CALLS] = {
        [FAULT_OPEN] = WEFT_DEVICE,
        [FAULT_SUPPORTS] = WEFT_UNSUPPORTED,
        [FAULT_ALLOC] = WEFT_NOMEM,
        [FAULT_PLAN] = WEFT_DEVICE,
    };
    env world = {.allocator = mem_system(), .io = io_system()};
    setup s = {.api = &BACKEND_FAULT};
    fault_backend_set(&BACKEND_CPU, FAULT_OPEN, 0);
    weft_error err = {0};
    assert_ok(open_and_plan(&world, &s, &err), &err);
    assert_int_equal(fault_backend_count(FAULT_OPEN), 1);
    assert_int_equal(fault_backend_count(FAULT_ALLOC), 1);
    for (uint32_t call = 0; call < FAULT_RUN; call++) {
        if (call == FAULT_SUPPORTS) continue;
        fault_backend_set(&BACKEND_REF, (fault_call)call, 1);
        err = (weft_error){0};
        assert_status(STATUS[call], open_and_plan(&world, &s, &err), &err);
        assert_true(fault_backend_hit());
        assert_int_equal(fault_backend_live(), 0);
    }
    backend *b;
    backend_config config = {.env = world, .n_threads = 1};
    err = (weft_error){0};
    assert_ok(BACKEND_REF.open(&config, &b, &err), &err);
    fault_backend_set(&BACKEND_REF, FAULT_WAIT, 2);
    b = fault_backend_wrap(&BACKEND_REF, b, &world);
    assert_non_null(b);
    err = (weft_error){0};
    assert_ok(BACKEND_FAULT.wait(b, &err), &err);
    assert_status(WEFT_DEVICE, BACKEND_FAULT.wait(b, &err), &err);
    assert_message(&err, "injected failure of wait");
    assert_int_equal(BACKEND_FAULT.wait(b, NULL), WEFT_OK);
    BACKEND_FAULT.close(b);
    assert_int_equal(fault_backend_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_within_bounds),
        cmocka_unit_test(test_long_sequences_within_bounds),
        cmocka_unit_test(test_appended_bytes),
        cmocka_unit_test(test_p1_short),
        cmocka_unit_test(test_p1_across_splits),
        cmocka_unit_test(test_p1_decode),
        cmocka_unit_test(test_kv5_garbage_is_not_seen),
        cmocka_unit_test(test_kv8_codecs_of_rows_may_differ),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_subsets_of_outputs),
        cmocka_unit_test(test_a_step_writes_its_positions_only),
        cmocka_unit_test(test_kv9_faults),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_measure_read),
        cmocka_unit_test(test_fault_backend),
    };
    return TEST_RUN("backend/ops", tests);
}
