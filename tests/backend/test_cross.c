/* test_cross.c - an encoder and a decoder over the states of kv/: the encoder's tokens all see each
 * other, its keys and values are stored in one step, and every step of the decoder attends to them.
 * Against a computation in double, and bit for bit in any pieces and company. */
#include "backend/ops_runs.h"

#include "kv/cross.h"

/* ---- the two graphs ---- */

enum { CROSS_LAYERS = 2, FIRST_CROSS = 1 };

typedef struct translator {
    model encoder, decoder;
} translator;

/* The encoder's heads are the decoder's. */
static void same_heads(model *m, const model *as)
{
    m->n_heads = as->n_heads;
    m->n_kv_heads = as->n_kv_heads;
    m->k_dim = as->k_dim;
    m->v_dim = as->v_dim;
    memcpy(m->ropes, as->ropes, sizeof m->ropes);
    memcpy(m->inv_freq, as->inv_freq, sizeof m->inv_freq);
    for (uint32_t i = 0; i < 2; i++) m->ropes[i].inv_freq = m->inv_freq[i];
}

/* One layer upon the other, as models are; or side by side, of which bounds say more. */
static void build_decoder(model *d, bool flat)
{
    graph_id first = model_embed(d);
    graph_id x = graph_add(&d->g, first, model_attention(d, first, 0));
    for (uint32_t i = 0; i < CROSS_LAYERS; i++) {
        graph_id from = flat ? first : model_norm(d, x, d->width);
        x = graph_add(&d->g, x, model_cross(d, from));
    }
    if (flat) {
        graph_finish(&d->g, model_linear(d, graph_take(&d->g, x), MODEL_VOCAB));
    } else {
        model_head(d, x);
    }
}

/* State 0 is either's own; behind it what the one stores and the other reads. flat: besides, any
 * codec takes the heads. */
static void translator_build(translator *t, bool flat)
{
    model *d = &t->decoder;
    model *e = &t->encoder;
    model_begin(d);
    if (flat) {
        d->k_dim = 32;
        d->v_dim = 64;
        for (uint32_t i = 0; i < 2; i++) d->ropes[i].n_pairs = 2;
    }
    build_decoder(d, flat);
    model_begin(e);
    same_heads(e, d);
    graph_id x = model_embed(e);
    x = graph_add(&e->g, x, model_attention(e, model_norm(e, x, e->width), 0));
    for (uint32_t i = 0; i < CROSS_LAYERS; i++) model_store(e, x);
    graph_finish(&e->g, 0);
    weft_error err = {0};
    assert_ok(graph_status(&d->g, &err), &err);
    assert_ok(graph_status(&e->g, &err), &err);
    assert_int_equal(d->n_layers, FIRST_CROSS + CROSS_LAYERS);
}

static void translator_free(translator *t)
{
    model_free(&t->encoder);
    model_free(&t->decoder);
}

/* ---- a backend with a plan of each, and pools ---- */

typedef struct station {
    setup s;
    const translator *t;
    fault_allocator memory;
    backend *b;
    backend_plan *plans[2]; /* encoder, decoder */
    arena arena;
    kv_config configs[2]; /* of the encoder's own state, of the decoder */
    kv_pool *pools[2];
} station;

/* A text and what it is translated to. */
typedef struct job {
    int32_t source[CROSS_MOST], target[SEQ_MOST];
    uint32_t n_source, n_target;
    kv_seq *seq;
    float *logits; /* [n_target, MODEL_VOCAB] */
} job;

static void station_open(station *w, const translator *t, setup s, uint32_t start)
{
    weft_error err = {0};
    memset(w, 0, sizeof *w);
    w->s = s;
    w->t = t;
    fault_allocator_init(&w->memory, 0);
    backend_config config = {.env = {.allocator = &w->memory.allocator, .io = io_system()},
                             .isa = s.isa,
                             .act = s.act,
                             .n_threads = s.n_threads};
    assert_ok(s.api->open(&config, &w->b, &err), &err);
    arena_init(&w->arena, &w->memory.allocator, 0);
    kv_bounds bounds = {.context = SEQ_MOST,
                        .most_append = CHUNK_MOST,
                        .page_tokens = s.page_tokens,
                        .cross_context = CROSS_MOST};
    for (uint32_t i = 0; i < 2; i++) {
        const model *m = i == 0 ? &t->encoder : &t->decoder;
        /* A block in which all see each other is a row of its own. */
        kv_spec spec = {.k = s.k, .v = s.v, .base = s.base, .start = i == 0 ? 0 : start};
        uint32_t n_layers = i == 0 ? FIRST_CROSS : m->n_layers;
        uint32_t n_tokens = i == 0 ? N_SEQS * CROSS_MOST : CHUNK_MOST + ROWS_MOST;
        backend_limits limits = {.n_tokens = n_tokens,
                                 .n_rows = N_SEQS,
                                 .n_outputs = i == 0 ? 0 : n_tokens,
                                 .context = SEQ_MOST};
        assert_ok(s.api->supports(w->b, &m->g, &err), &err);
        assert_ok(s.api->plan(w->b, &m->g, &limits, &w->plans[i], &err), &err);
        assert_ok(
            kv_config_init(&w->configs[i], &w->arena, m->layers, n_layers, &spec, &bounds, &err),
            &err);
        uint64_t budget = 4 * kv_config_bytes(&w->configs[i], SEQ_MOST);
        assert_ok(kv_pool_create(&w->memory.allocator, s.api, w->b, &w->configs[i], budget,
                                 &w->pools[i], &err),
                  &err);
    }
}

static void station_close(station *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kv_pool_bytes_taken(w->pools[i]), 0);
        assert_int_equal(kv_pool_bytes_reserved(w->pools[i]), 0);
        kv_pool_destroy(w->pools[i]);
        w->s.api->plan_free(w->b, w->plans[i]);
    }
    w->s.api->close(w->b);
    arena_deinit(&w->arena);
    fault_allocator_check(&w->memory);
}

static void job_open(station *w, job *j)
{
    weft_error err = {0};
    assert_ok(
        kv_seq_create(&w->memory.allocator, w->pools[1], &w->configs[1], SEQ_MOST, &j->seq, &err),
        &err);
    j->logits = case_alloc((size_t)j->n_target * MODEL_VOCAB * sizeof(float));
}

static void job_close(station *w, job *j)
{
    kv_seq_destroy(&w->memory.allocator, j->seq);
    free(j->logits);
}

static void run_step(station *w, uint32_t plan_i, const backend_step *step)
{
    weft_error err = {0};
    w->memory.armed = true;
    assert_ok(w->s.api->run(w->b, w->plans[plan_i], step, &err), &err);
    assert_ok(w->s.api->wait(w->b, &err), &err);
    w->memory.armed = false;
}

/* Looks at one row of an encoder's step once it has run. */
typedef void look_fn(const station *w, const job *j, const kv_view *views);

/* The encoder's step over some sources: its own state is there for the step alone. */
static void encode(station *w, job *jobs, uint32_t n_rows, look_fn *look)
{
    static int32_t ids[N_SEQS * CROSS_MOST];
    static uint32_t positions[N_SEQS * CROSS_MOST];
    static uint32_t highest[N_SEQS * CROSS_MOST];
    uint32_t row_starts[N_SEQS + 1] = {0};
    kv_view views[MODEL_STATES * N_SEQS];
    kv_seq *own[N_SEQS];
    kv_txn_row rows[N_SEQS];
    kv_cross_row cross_rows[N_SEQS];
    kv_txn txn;
    kv_cross cross;
    weft_error err = {0};
    backend_step step = {.n_rows = n_rows,
                         .ids = ids,
                         .positions = positions,
                         .highest = highest,
                         .row_starts = row_starts,
                         .views = views};
    for (uint32_t r = 0; r < n_rows; r++) {
        const job *j = &jobs[r];
        assert_ok(kv_seq_create(&w->memory.allocator, w->pools[0], &w->configs[0], j->n_source,
                                &own[r], &err),
                  &err);
        rows[r] = (kv_txn_row){own[r], j->n_source, false, 0};
        cross_rows[r] = (kv_cross_row){j->seq, j->n_source};
        for (uint32_t i = 0; i < j->n_source; i++, step.n_tokens++) {
            ids[step.n_tokens] = j->source[i];
            positions[step.n_tokens] = i;
            highest[step.n_tokens] = j->n_source - 1;
        }
        row_starts[r + 1] = step.n_tokens;
    }
    kv_txn_init(&txn);
    kv_cross_init(&cross);
    assert_ok(kv_txn_begin(&txn, rows, n_rows, &err), &err);
    assert_ok(kv_cross_begin(&cross, cross_rows, n_rows, &err), &err);
    for (uint32_t r = 0; r < n_rows; r++) {
        /* Both begin with a state of their own; what is stored lies in the decoder's. */
        kv_seq_views(jobs[r].seq, views + r, n_rows);
        kv_seq_views(own[r], views + r, n_rows);
    }
    run_step(w, 0, &step);
    for (uint32_t r = 0; r < n_rows && look != NULL; r++) {
        kv_view of_row[MODEL_STATES];
        for (uint32_t l = 0; l < MODEL_STATES; l++) of_row[l] = views[(size_t)l * n_rows + r];
        look(w, &jobs[r], of_row);
    }
    kv_cross_commit(&cross);
    kv_txn_rollback(&txn);
    for (uint32_t r = 0; r < n_rows; r++) kv_seq_destroy(&w->memory.allocator, own[r]);
}

/* The next n tokens of some targets, n 0: none of that one. */
static void decode(station *w, job *const *jobs, const uint32_t *n, uint32_t n_jobs)
{
    static int32_t ids[CHUNK_MOST + ROWS_MOST];
    static uint32_t positions[CHUNK_MOST + ROWS_MOST];
    static uint32_t outputs[CHUNK_MOST + ROWS_MOST];
    static float logits[(CHUNK_MOST + ROWS_MOST) * MODEL_VOCAB];
    uint32_t row_starts[N_SEQS + 1] = {0};
    kv_view views[MODEL_STATES * N_SEQS];
    kv_txn_row rows[N_SEQS];
    uint32_t keep[N_SEQS];
    job *of[N_SEQS];
    kv_txn txn;
    weft_error err = {0};
    backend_step step = {.ids = ids,
                         .positions = positions,
                         .row_starts = row_starts,
                         .outputs = outputs,
                         .views = views,
                         .logits = logits};
    for (uint32_t k = 0; k < n_jobs; k++) {
        if (n[k] == 0) continue;
        job *j = jobs[k];
        of[step.n_rows] = j;
        rows[step.n_rows] = (kv_txn_row){j->seq, n[k], false, 0};
        keep[step.n_rows] = n[k];
        for (uint32_t i = 0; i < n[k]; i++, step.n_tokens++) {
            ids[step.n_tokens] = j->target[j->seq->len + i];
            positions[step.n_tokens] = j->seq->len + i;
            outputs[step.n_tokens] = step.n_tokens;
        }
        row_starts[++step.n_rows] = step.n_tokens;
    }
    if (step.n_rows == 0) return;
    step.n_outputs = step.n_tokens;
    kv_txn_init(&txn);
    assert_ok(kv_txn_begin(&txn, rows, step.n_rows, &err), &err);
    for (uint32_t r = 0; r < step.n_rows; r++) kv_seq_views(rows[r].seq, views + r, step.n_rows);
    run_step(w, 1, &step);
    for (uint32_t r = 0; r < step.n_rows; r++) {
        memcpy(of[r]->logits + (size_t)of[r]->seq->len * MODEL_VOCAB,
               logits + (size_t)row_starts[r] * MODEL_VOCAB,
               (size_t)rows[r].n * MODEL_VOCAB * sizeof(float));
    }
    kv_txn_commit(&txn, keep);
}

static bool done(const job *jobs)
{
    bool all = true;
    for (uint32_t i = 0; i < N_SEQS; i++) all = all && jobs[i].seq->len == jobs[i].n_target;
    return all;
}

/* All targets to their ends, in random company and pieces of at most chunk. */
static void decode_all(station *w, job *jobs, uint32_t chunk)
{
    job *all[N_SEQS];
    for (uint32_t i = 0; i < N_SEQS; i++) all[i] = &jobs[i];
    while (!done(jobs)) {
        uint32_t n[N_SEQS];
        for (uint32_t i = 0; i < N_SEQS; i++) {
            uint32_t left = jobs[i].n_target - jobs[i].seq->len;
            uint32_t most = kv_seq_most_append(jobs[i].seq);
            n[i] = draw(0, 3) == 0 ? 0 : draw(1, chunk);
            if (n[i] > left) n[i] = left;
            if (n[i] > most) n[i] = most;
        }
        decode(w, all, n, N_SEQS);
    }
}

/* Lengths of sources are those given; targets are short. */
static void fill_jobs(job *jobs, const uint32_t *lengths)
{
    memset(jobs, 0, N_SEQS * sizeof *jobs);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        jobs[i].n_source = lengths[i];
        jobs[i].n_target = draw(1, 30);
        for (uint32_t k = 0; k < CROSS_MOST; k++)
            jobs[i].source[k] = (int32_t)draw(0, MODEL_VOCAB - 1);
        for (uint32_t k = 0; k < SEQ_MOST; k++)
            jobs[i].target[k] = (int32_t)draw(0, MODEL_VOCAB - 1);
    }
}

/* ---- bits ---- */

static void assert_same_logits(const station *w, const job *a, const job *b, const char *what)
{
    for (uint32_t i = 0; i < N_SEQS; i++) {
        size_t n = (size_t)a[i].n_target * MODEL_VOCAB;
        if (memcmp(a[i].logits, b[i].logits, n * sizeof(float)) == 0) continue;
        fail_msg("%s %s, %s: the target of a source of %u differs", w->s.api->name,
                 w->s.isa == NULL ? "" : w->s.isa, what, a[i].n_source);
    }
}

/* Every stored record, of all heads and positions. */
static void assert_same_records(const kv_seq *a, const kv_seq *b)
{
    kv_view of_a[MODEL_STATES];
    kv_view of_b[MODEL_STATES];
    kv_seq_views(a, of_a, 1);
    kv_seq_views(b, of_b, 1);
    for (uint32_t l = FIRST_CROSS; l < FIRST_CROSS + CROSS_LAYERS; l++) {
        const kv_geometry *g = of_a[l].geometry;
        assert_int_equal(of_a[l].len, of_b[l].len);
        for (uint32_t at = 0; at < of_a[l].len * g->n_heads; at++) {
            uint32_t h = at % g->n_heads;
            uint32_t p = at / g->n_heads;
            assert_memory_equal(kv_key(&of_a[l], h, p), kv_key(&of_b[l], h, p), g->k_row_bytes);
            assert_memory_equal(kv_value(&of_a[l], h, p), kv_value(&of_b[l], h, p), g->v_row_bytes);
        }
    }
}

/* Encoded alone and decoded as a whole; then together, in pieces, with other pages and threads; and
 * a clone decodes what its original did. */
static void check_bits(const translator *t, setup s, const uint32_t *lengths)
{
    static const uint32_t PAGES[] = {16, 64, 256};
    static const uint32_t CHUNKS[] = {1, 7, 30};
    static job base[N_SEQS];
    static job jobs[N_SEQS];
    station alone;
    fill_jobs(base, lengths);
    s.n_threads = 1;
    station_open(&alone, t, s, 0);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        job *j = &base[i];
        job_open(&alone, j);
        encode(&alone, j, 1, NULL);
        decode(&alone, &j, &j->n_target, 1);
    }
    for (uint32_t k = 0; k < 3; k++) {
        station w;
        char what[64];
        s.n_threads = k + 1;
        s.page_tokens = PAGES[k];
        snprintf(what, sizeof what, "pages of %u, pieces of up to %u", PAGES[k], CHUNKS[k]);
        station_open(&w, t, s, 0);
        memcpy(jobs, base, sizeof jobs);
        for (uint32_t i = 0; i < N_SEQS; i++) job_open(&w, &jobs[i]);
        encode(&w, jobs, N_SEQS, NULL);
        decode_all(&w, jobs, CHUNKS[k]);
        assert_same_logits(&w, jobs, base, what);
        for (uint32_t i = 0; i < N_SEQS; i++) {
            kv_seq *clone;
            assert_same_records(jobs[i].seq, base[i].seq);
            assert_ok(kv_seq_clone(&w.memory.allocator, jobs[i].seq, SEQ_MOST, &clone, NULL), NULL);
            kv_seq_destroy(&w.memory.allocator, jobs[i].seq);
            jobs[i].seq = clone;
            assert_ok(kv_seq_trim(clone, 0, NULL), NULL);
            memset(jobs[i].logits, 0, (size_t)jobs[i].n_target * MODEL_VOCAB * sizeof(float));
        }
        decode_all(&w, jobs, CHUNKS[k]);
        assert_same_logits(&w, jobs, base, "a clone");
        for (uint32_t i = 0; i < N_SEQS; i++) job_close(&w, &jobs[i]);
        station_close(&w);
    }
    for (uint32_t i = 0; i < N_SEQS; i++) job_close(&alone, &base[i]);
    station_close(&alone);
}

static const uint32_t LENGTHS[][N_SEQS] = {
    {1, 65, CROSS_MOST}, {255, 2, 64}, {63, 257, 1}, {256, 128, 16}};

static void test_alone_is_together(void **state)
{
    (void)state;
    static translator t;
    size_t n_isas;
    const cpu_isa *isas = cpu_isa_table(&n_isas);
    for (uint64_t round = 0; round < COUNT_OF(LENGTHS); round++) {
        case_seed = 20000 + round;
        translator_build(&t, false);
        for (size_t i = 0; i < n_isas; i++) {
            if (!isas[i].available()) continue;
            check_bits(&t, random_setup(&t.decoder, &BACKEND_CPU, isas[i].name), LENGTHS[round]);
        }
        /* ref is slow, and has no splits. */
        if (round == 0) check_bits(&t, random_setup(&t.decoder, &BACKEND_REF, NULL), LENGTHS[0]);
        translator_free(&t);
    }
}

/* ---- numbers ---- */

/* What is stored is what the encoder's graph says, within its bounds: the oracle looks. */
static void check_stored(const station *w, const job *j, const kv_view *views)
{
    graph_oracle o;
    uint32_t highest[CROSS_MOST];
    for (uint32_t i = 0; i < j->n_source; i++) highest[i] = j->n_source - 1;
    graph_oracle_run(&o, &w->t->encoder.g, views, w->s.act, j->source, highest, j->n_source);
    graph_oracle_free(&o);
}

/* As in test_ops.c: where bounds say little they would prove little. */
static double sum_bound, sum_value;

static void check_logits(const station *w, const job *j)
{
    graph_oracle o;
    kv_view views[MODEL_STATES];
    const model *m = &w->t->decoder;
    kv_seq_views(j->seq, views, 1);
    graph_oracle_run(&o, &m->g, views, w->s.act, j->target, NULL, j->n_target);
    for (size_t i = 0; i < (size_t)j->n_target * MODEL_VOCAB; i++) {
        double expected = o.x[m->g.output][i];
        double bound = o.e[m->g.output][i] + 2 * 0x1p-24 * fabs(expected) + 1e-30;
        double off = fabs((double)j->logits[i] - expected);
        bool half = (w->s.k->kind == KV_DENSE && w->s.k->bits == 16) ||
                    (w->s.v->kind == KV_DENSE && w->s.v->bits == 16);
        if (!half) {
            sum_bound += bound;
            sum_value += fabs(expected);
        }
        if (off <= bound) continue;
        fail_msg("%s %s, %s and %s, a source of %u: logit %zu is %.9g, expected %.9g",
                 w->s.api->name, w->s.isa == NULL ? "" : w->s.isa, w->s.k->name, w->s.v->name,
                 j->n_source, i, (double)j->logits[i], expected);
    }
    graph_oracle_free(&o);
}

static void check_numbers(const translator *t, setup s, const uint32_t *lengths, uint32_t start)
{
    static job jobs[N_SEQS];
    station w;
    fill_jobs(jobs, lengths);
    station_open(&w, t, s, start);
    for (uint32_t i = 0; i < N_SEQS; i++) job_open(&w, &jobs[i]);
    encode(&w, jobs, N_SEQS, check_stored);
    decode_all(&w, jobs, 9);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        if (start == 0) check_logits(&w, &jobs[i]);
        job_close(&w, &jobs[i]);
    }
    station_close(&w);
}

/* Every codec of either side, once; start does not concern what is stored. */
static void test_every_codec_within_bounds(void **state)
{
    (void)state;
    static translator t;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    size_t n_isas;
    const cpu_isa *isas = cpu_isa_table(&n_isas);
    for (size_t k = 0; k < n; k++) {
        case_seed = 21000 + k;
        translator_build(&t, true);
        for (size_t i = 0; i <= n_isas; i++) {
            bool ref = i == n_isas;
            if (!ref && !isas[i].available()) continue;
            setup s = random_setup(&t.decoder, ref ? &BACKEND_REF : &BACKEND_CPU,
                                   ref ? NULL : isas[i].name);
            if ((table[k].sides & KV_FOR_K) != 0) s.k = &table[k];
            if ((table[k].sides & KV_FOR_V) != 0) s.v = &table[k];
            s.act = WEFT_ACT_F32;
            uint32_t lengths[N_SEQS] = {draw(1, 70), 1, k % 4 == 0 ? draw(250, 300) : draw(1, 20)};
            check_numbers(&t, s, lengths, 0);
            lengths[2] = 3;
            check_numbers(&t, s, lengths, 11);
        }
        translator_free(&t);
    }
    print_message("bounds are %.2g of the values\n", sum_bound / sum_value);
    assert_true(sum_bound < 0.5 * sum_value);
}

/* ---- blocks of tokens that see each other, among others that do not ---- */

/* KV-3, KV-45 with blocks: a step has them as a whole, whatever else it has. */
static void test_blocks_in_any_company(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 22000 + round;
        model_begin(&m);
        model_whole(&m, draw(1, 20));
        fill_texts(&t, round == 0 ? 300 : 40);
        fill_blocks(&t);
        each_isa(check_p1, &m, &t);
        check_p1(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_is_together),
        cmocka_unit_test(test_every_codec_within_bounds),
        cmocka_unit_test(test_blocks_in_any_company),
    };
    return TEST_RUN("backend/cross", tests);
}
