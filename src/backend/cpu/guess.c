/* guess.c - which experts the next layer will want, before its router can know.
 *
 * What a layer adds to the residual stream is small beside what is there, so the next layer's
 * router is asked with what this layer's router had: where both stand behind the same operations of
 * the residual stream (a norm, a factor), with those of the next layer. Nothing depends on the
 * answer but when experts are read. */
#include "backend/cpu/cpu.h"

#include <string.h>

/* Operations before a router, the last first, and what they begin with. */
typedef struct chain {
    graph_id ids[GUESS_CHAIN];
    uint32_t n;
    graph_id from;
    graph_id router; /* the linear; 0: there is none */
} chain;

static chain chain_of(const graph *g, graph_id layer)
{
    chain c = {.n = 0};
    const graph_value *route = &g->values[g->values[layer].in[1]];
    if (g->values[route->in[0]].op != GRAPH_LINEAR) return c;
    c.router = route->in[0];
    c.from = g->values[c.router].in[0];
    while (c.n < GUESS_CHAIN) {
        const graph_value *v = &g->values[c.from];
        if (v->op != GRAPH_RMS_NORM && v->op != GRAPH_SCALE) break;
        c.ids[c.n++] = c.from;
        c.from = v->in[0];
    }
    return c;
}

/* Whether a value is still what it was when the layer's experts are at work. */
static bool stays(const backend_plan *p, graph_id id, graph_id layer, const uint32_t *phase_of)
{
    for (graph_id other = 1; other < p->g->n_values; other++) {
        if (p->slots[other].shares == id && phase_of[other] <= phase_of[layer]) return false;
    }
    return phase_of[id] <= phase_of[layer];
}

static bool is_alike(const graph *g, const chain *a, const chain *b)
{
    bool alike = a->n == b->n;
    for (uint32_t i = 0; i < a->n && alike; i++)
        alike = g->values[a->ids[i]].op == g->values[b->ids[i]].op;
    return alike && g->values[a->from].cols == g->values[b->from].cols;
}

static cpu_guess make_guess(const backend_plan *p, graph_id layer, graph_id next,
                            const uint32_t *phase_of)
{
    const graph *g = p->g;
    chain mine = chain_of(g, layer);
    chain other = chain_of(g, next);
    cpu_guess guess = {0};
    if (mine.router == 0 || other.router == 0) return guess;
    guess.from = g->values[mine.router].in[0];
    if (is_alike(g, &mine, &other) && stays(p, mine.from, layer, phase_of)) {
        guess.from = mine.from;
        guess.n_chain = other.n;
        for (uint32_t i = 0; i < other.n; i++) guess.chain[i] = other.ids[other.n - 1 - i];
    }
    bool fits = g->values[guess.from].cols == g->values[g->values[other.router].in[0]].cols;
    if (fits && stays(p, guess.from, layer, phase_of)) guess.layer = next;
    return guess;
}

static bool take_buffers(const backend *b, backend_plan *p, uint32_t cols, uint32_t n_experts)
{
    size_t n = (size_t)GUESS_TOKENS * cols;
    p->guess.x = cpu_plan_take(p, n, sizeof(float));
    p->guess.scores = cpu_plan_take(p, (size_t)GUESS_TOKENS * n_experts, sizeof(float));
    p->guess.route = cpu_plan_take(p, (size_t)GUESS_TOKENS * 2 * n_experts, sizeof(float));
    p->guess.list = cpu_plan_take(p, n_experts, sizeof(uint32_t));
    p->guess.listed = cpu_plan_take(p, n_experts, sizeof(bool));
    bool ok = p->guess.x && p->guess.scores && p->guess.route && p->guess.list && p->guess.listed;
    return ok && cpu_plan_input(b, p, &p->guess.input, n,
                                GUESS_TOKENS * kernel_codes_bytes_most(cols / KERNEL_BLOCK));
}

bool cpu_plan_guesses(const backend *b, backend_plan *p, const uint32_t *phase_of)
{
    const graph *g = p->g;
    uint32_t cols = 0;
    uint32_t n_experts = 0;
    graph_id before = 0;
    p->guesses = cpu_plan_take(p, g->n_values, sizeof *p->guesses);
    if (p->guesses == NULL) return false;
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        if (v->op != GRAPH_EXPERTS) continue;
        cpu_guess *guess = &p->guesses[before];
        if (before != 0) *guess = make_guess(p, before, id, phase_of);
        if (guess->layer != 0) {
            graph_slot *from = &p->slots[guess->from];
            if (phase_of[before] > from->end) from->end = phase_of[before];
            if (g->values[guess->from].cols > cols) cols = g->values[guess->from].cols;
        }
        if (g->values[v->in[2]].i[1] > n_experts) n_experts = g->values[v->in[2]].i[1];
        before = id;
    }
    return take_buffers(b, p, cols, n_experts);
}

/* ---- in a step ------------------------------------------------------------------------------- */

static void run_chain(const cpu_run *r, const cpu_guess *guess, uint32_t n_tokens, uint32_t cols)
{
    float *x = r->p->guess.x;
    size_t n = (size_t)n_tokens * cols;
    for (uint32_t i = 0; i < guess->n_chain; i++) {
        const graph_value *v = &r->p->g->values[guess->chain[i]];
        if (v->op == GRAPH_SCALE) {
            for (size_t k = 0; k < n; k++) x[k] *= v->f[0];
            continue;
        }
        const float *w = r->p->decoded[guess->chain[i]];
        for (size_t at = 0; at < n; at += v->i[0])
            r->b->kernels.rms_norm(x + at, w, v->i[0], v->f[0], x + at);
    }
}

static void run_router(const cpu_run *r, graph_id router, uint32_t n_tokens)
{
    const graph *g = r->p->g;
    const graph_value *v = &g->values[router];
    const tensor *w = &g->tensors[g->values[v->in[1]].i[0]];
    uint32_t cols = (uint32_t)w->n_cols;
    cpu_input in = r->p->guess.input;
    if (r->b->act == WEFT_ACT_F32) {
        in.f = r->p->guess.x;
    } else {
        bool codes = kernel_weights_of(w) == KERNEL_CODES;
        cpu_forms forms = {.to_bf16 = !codes, .to_codes = codes};
        for (uint32_t i = 0; i < n_tokens; i++)
            cpu_prepare_row(r->b, &in, i, r->p->guess.x + (size_t)i * cols, cols, forms);
    }
    kernel_linear a = {.w = w,
                       .end = v->cols,
                       .n_tokens = n_tokens,
                       .x = cpu_input_at(r->b, &in, 0, cols),
                       .bias = r->p->decoded[v->in[2]],
                       .y = r->p->guess.scores,
                       .stride = v->cols,
                       .scratch = r->p->scratch[0].row};
    cpu_linear_fn(r->b, w)(&a);
}

/* What any of the tokens goes to, first choices first. */
static uint32_t list_experts(const cpu_run *r, const graph_value *route, uint32_t n_tokens,
                             uint32_t n_experts)
{
    const backend_plan *p = r->p;
    uint32_t top_k = route->i[0];
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_tokens; i++) {
        host_route(route, n_experts, p->guess.scores + (size_t)i * n_experts,
                   p->decoded[route->in[1]], p->decoded[route->in[2]], p->scratch[0].router,
                   p->guess.route + (size_t)i * 2 * top_k);
    }
    memset(p->guess.listed, 0, n_experts * sizeof *p->guess.listed);
    for (uint32_t k = 0; k < top_k; k++) {
        for (uint32_t i = 0; i < n_tokens; i++) {
            uint32_t e = (uint32_t)p->guess.route[(size_t)i * 2 * top_k + k];
            if (!p->guess.listed[e]) p->guess.list[n++] = e;
            p->guess.listed[e] = true;
        }
    }
    return n;
}

void cpu_guess_experts(const cpu_run *r, graph_id layer)
{
    const backend_plan *p = r->p;
    const cpu_guess *guess = &p->guesses[layer];
    if (guess->layer == 0) return;
    const graph *g = p->g;
    const graph_value *v = &g->values[guess->layer];
    const graph_value *route = &g->values[v->in[1]];
    uint32_t cols = g->values[guess->from].cols;
    uint32_t n_all = cpu_n_rows(r, g->values[layer].rows);
    uint32_t n = n_all < GUESS_TOKENS ? n_all : GUESS_TOKENS;
    const float *from = cpu_data(r, guess->from);
    for (uint32_t i = 0; i < n; i++) {
        size_t token_i = (size_t)n_all * i / n;
        memcpy(p->guess.x + (size_t)i * cols, from + token_i * cols, cols * sizeof *from);
    }
    run_chain(r, guess, n, cols);
    run_router(r, route->in[0], n);
    uint32_t n_listed = list_experts(r, route, n, g->values[v->in[2]].i[1]);
    experts_ahead(p->store, guess->layer, p->guess.list, n_listed, true);
}
