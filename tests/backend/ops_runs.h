/* ops_runs.h - the models of ops_model.h run over three texts, alone and together, and their
 * results compared bit for bit: what tests of whole backends share. */
#ifndef BACKEND_OPS_RUNS_H
#define BACKEND_OPS_RUNS_H

#include "backend/ops_model.h"

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

/* Sanitizers make all this some ten times slower; they look for other faults than wrong numbers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PATTERN_ROUNDS = 4, SHORT_ROUNDS = 4, LONG_ROUNDS = 1 };
#else
enum { PATTERN_ROUNDS = 12, SHORT_ROUNDS = 12, LONG_ROUNDS = 3 };
#endif

enum { N_SEQS = 3 };

typedef struct texts {
    int32_t ids[N_SEQS][SEQ_MOST];
    uint32_t n[N_SEQS];
    uint32_t block[N_SEQS][2]; /* as in sequence */
} texts;

static inline void fill_texts(texts *t, uint32_t most)
{
    memset(t->block, 0, sizeof t->block);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        t->n[i] = draw(1, most);
        for (uint32_t k = 0; k < SEQ_MOST; k++) t->ids[i][k] = (int32_t)draw(0, MODEL_VOCAB - 1);
    }
}

/* Some positions of each text see each other; of some, all or one. */
static inline void fill_blocks(texts *t)
{
    for (uint32_t i = 0; i < N_SEQS; i++) {
        t->block[i][0] = draw(0, 2) == 0 ? 0 : draw(0, t->n[i] - 1);
        t->block[i][1] = draw(0, 2) == 0 ? t->n[i] : draw(t->block[i][0] + 1, t->n[i]);
    }
}

static inline void open_text(machine *w, sequence *q, const texts *t, uint32_t i)
{
    sequence_open(w, q, t->ids[i], t->n[i]);
    memcpy(q->block, t->block[i], sizeof q->block);
}

/* Every sequence by itself and at once. */
static inline void run_alone(machine *w, sequence *q, const texts *t)
{
    for (uint32_t i = 0; i < N_SEQS; i++) {
        open_text(w, &q[i], t, i);
        machine_step(w, &(row){&q[i], t->n[i], t->n[i]}, 1);
    }
}

/* n, or so many that a block lies in the step as a whole or not at all. */
static inline uint32_t whole_blocks(const sequence *q, uint32_t n)
{
    uint32_t end = q->len + n;
    if (end <= q->block[0] || end >= q->block[1]) return n;
    return (q->len < q->block[0] ? q->block[0] : q->block[1]) - q->len;
}

/* All together, in pieces of random sizes and in random company. */
static inline void run_together(machine *w, sequence *q, const texts *t, uint32_t chunk)
{
    for (uint32_t i = 0; i < N_SEQS; i++) open_text(w, &q[i], t, i);
    for (;;) {
        row rows[N_SEQS];
        uint32_t n_rows = 0;
        uint32_t n_left = 0;
        uint32_t budget = CHUNK_MOST;
        for (uint32_t k = 0; k < N_SEQS; k++) {
            sequence *s = &q[k];
            uint32_t left = s->n - s->len;
            n_left += left;
            if (left == 0 || draw(0, 3) == 0) continue;
            uint32_t n = draw(1, chunk);
            if (n > left) n = left;
            n = whole_blocks(s, n);
            if (n > budget) continue;
            budget -= n;
            rows[n_rows++] = (row){s, n, n};
        }
        if (n_left == 0) return;
        if (n_rows > 0) machine_step(w, rows, n_rows);
    }
}

static inline void close_all(machine *w, sequence *q)
{
    for (uint32_t i = 0; i < N_SEQS; i++) sequence_close(w, &q[i]);
    machine_close(w);
}

/* Codecs that the heads of the model allow. */
static inline setup random_setup(const model *m, const backend_api *api, const char *isa)
{
    static const uint32_t PAGES[] = {16, 64, 256};
    setup s = {.api = api,
               .isa = isa,
               .act = draw(0, 1) == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16,
               .n_threads = draw(1, 3),
               .page_tokens = PAGES[draw(0, 2)],
               .k = model_codec(m, KV_FOR_K),
               .v = model_codec(m, KV_FOR_V),
               .base = (uint8_t)draw(KV_BASE_F32, KV_BASE_BF16),
               .fill = 0xff};
    if (s.act == WEFT_ACT_BF16 && case_seed % 3 == 0) s.act = WEFT_ACT_INT8;
    if (model_is_latent(m)) s.k = s.v = model_codec_for_both(m);
    s.index = model_codec_for_index(m);
    return s;
}

static inline void check_same(const machine *w, const sequence *q, const sequence *base,
                              const char *what)
{
    uint32_t cols = w->m->values[w->m->g.output].cols;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        for (size_t k = 0; k < (size_t)q[i].n * cols; k++) {
            if (fp_to_bits(q[i].logits[k]) == fp_to_bits(base[i].logits[k])) continue;
            fail_msg("%s, %s, sequence %u of %u tokens, token %zu, output %zu: %.9g, alone %.9g",
                     w->s.isa == NULL ? "ref" : w->s.isa, what, i, q[i].n, k / cols, k % cols,
                     (double)q[i].logits[k], (double)base[i].logits[k]);
        }
    }
}

/* KV-3, KV-7, KV-45. */
static inline void check_p1(const model *m, setup s, const texts *t)
{
    static const uint32_t PAGES[] = {16, 64, 256};
    static const uint32_t CHUNKS[] = {1, 3, 64, CHUNK_MOST};
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine alone;
    s.n_threads = 1;
    machine_open(&alone, m, s);
    run_alone(&alone, base, t);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (uint32_t p = 0; p < 3; p++) {
            machine w;
            char what[80];
            uint32_t chunk = CHUNKS[(threads + p) % COUNT_OF(CHUNKS)];
            if (chunk < 64 && t->n[0] > 200) chunk = 100;
            s.n_threads = threads;
            s.page_tokens = PAGES[p];
            snprintf(what, sizeof what, "%u threads, pages of %u, chunks of up to %u", threads,
                     PAGES[p], chunk);
            machine_open(&w, m, s);
            run_together(&w, q, t, chunk);
            check_same(&w, q, base, what);
            close_all(&w, q);
        }
    }
    close_all(&alone, base);
}

static inline void each_isa(void (*check)(const model *m, setup s, const texts *t), const model *m,
                            const texts *t)
{
    size_t n_isas;
    const cpu_isa *isas = cpu_isa_table(&n_isas);
    for (size_t i = 0; i < n_isas; i++) {
        if (isas[i].available()) check(m, random_setup(m, &BACKEND_CPU, isas[i].name), t);
    }
}

/* The last token of the vocabulary gets NaN for an embedding. */
static inline void spoil_embedding(model *m)
{
    tensor *embed = &m->tensors[0];
    case_tensor_free(embed);
    *embed = case_tensor(&CASE_WEIGHTS[0], MODEL_VOCAB, m->width);
    uintptr_t plane = (uintptr_t)embed->planes[0];
    memset((unsigned char *)plane + (MODEL_VOCAB - 1) * embed->row_bytes[0], 0xff,
           (size_t)embed->row_bytes[0]);
}

/* Keys and values of a token that a model of layers with pages stores, and does not in base. */
static inline uint64_t count_packed(const kv_config *c)
{
    uint64_t n = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const kv_geometry *g = &c->geometries[l];
        if (kv_codec_by_id(g->k_codec)->kind != KV_DENSE) n += (uint64_t)g->n_heads * g->k_coded;
        if (kv_has_values(g) && kv_codec_by_id(g->v_codec)->kind != KV_DENSE)
            n += (uint64_t)g->n_heads * g->v_dim;
    }
    return n;
}

#endif
