/* trace.c - where the time of runs goes, when somebody asks.
 *
 * Threads note when they begin and end a phase, and in PHASE_TOKENS how long each operation took.
 * After a run one of them adds up: of each phase the time of the thread that had most to do, and
 * how much less another had. What is left of the run is the barrier's, so that all parts together
 * are the run's time. */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "tensor/encoding.h"

enum { WEIGHTS_TEXT = 48 };

typedef struct stamp {
    uint64_t begin, end;
} stamp;

typedef struct trace_part {
    const char *work;
    char weights[WEIGHTS_TEXT];
    uint32_t n_in, n_out;
    uint64_t n_calls, n_bytes;
    int64_t ns, idle_ns; /* barriers may come out below 0 by what reading the clock takes */
} trace_part;

struct cpu_trace {
    uint32_t n_threads, n_phases, n_ops, n_parts;
    uint64_t began;
    stamp *stamps;      /* [n_threads, n_phases] */
    uint64_t *last;     /* [n_threads, LAST_STRIDE], when the operation before ended */
    uint64_t *ops;      /* [n_threads, n_ops], ns; 0: it had no rows of it */
    uint64_t *bytes;    /* [n_phases], of experts */
    uint32_t *of_phase; /* [n_phases], its part; of PHASE_TOKENS unused */
    uint32_t *of_op;    /* [n_ops] */
    trace_part *parts;  /* [n_parts]; the first is the barrier */
    arena arena;
};

/* Threads write to cache lines of their own. */
enum { LAST_STRIDE = 8 };

/* ---- what threads note ----------------------------------------------------------------------- */

static stamp *stamp_of(const cpu_trace *t, uint32_t phase_i, uint32_t thread_i)
{
    return &t->stamps[(size_t)thread_i * t->n_phases + phase_i];
}

void cpu_trace_begin(cpu_trace *t, uint32_t phase_i, uint32_t thread_i)
{
    uint64_t now = clock_now_ns();
    stamp_of(t, phase_i, thread_i)->begin = now;
    t->last[(size_t)thread_i * LAST_STRIDE] = now;
}

void cpu_trace_op(cpu_trace *t, uint32_t op_i, uint32_t thread_i)
{
    uint64_t now = clock_now_ns();
    uint64_t *last = &t->last[(size_t)thread_i * LAST_STRIDE];
    t->ops[(size_t)thread_i * t->n_ops + op_i] = now - *last;
    *last = now;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const tensor *tensor_of(const graph *g, graph_id weight)
{
    return &g->tensors[g->values[weight].i[0]];
}

static uint64_t linear_bytes(const backend_plan *p, const phase *ph)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ph->n; i++) {
        const linear_op *op = &p->linear_ops[ph->first + i];
        bytes += tensor_bytes(tensor_of(p->g, p->g->values[op->id].in[1]));
    }
    return bytes;
}

/* Matrices [first, end) of gate, up and down, of the experts that tokens went to. */
static uint64_t experts_bytes(const backend_plan *p, const graph_value *v, uint32_t first,
                              uint32_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = first; i < end; i++) {
        const tensor *stack = &p->g->tensors[p->g->values[v->in[2 + i]].i[0]];
        for (uint32_t k = 0; k < p->pairs.n_active; k++)
            bytes += tensor_bytes(&stack[p->pairs.active[k]]);
    }
    return bytes;
}

/* Keys and values that the tokens of a step see, each once; of a list of positions all that it was
 * chosen from. */
static uint64_t attend_bytes(const cpu_run *r, const graph_value *v)
{
    const backend_step *step = r->step;
    const kv_view *views = &step->views[(size_t)r->p->g->values[v->in[1]].i[0] * step->n_rows];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const kv_geometry *g = views[i].geometry;
        if (step->row_starts[i] == step->row_starts[i + 1]) continue;
        uint32_t first = backend_seen(step, &views[i], step->row_starts[i], false).first;
        uint32_t end = backend_seen(step, &views[i], step->row_starts[i + 1] - 1, false).end;
        size_t row = g->k_row_bytes + (kv_has_values(g) ? g->v_row_bytes : 0);
        bytes += (uint64_t)(end - first) * g->n_heads * row;
    }
    return bytes;
}

static uint64_t phase_bytes(const cpu_run *r, uint32_t phase_i)
{
    const phase *ph = &r->p->phases[phase_i];
    const graph_value *v = &r->p->g->values[ph->id];
    if (ph->kind == PHASE_LINEAR) return linear_bytes(r->p, ph);
    if (ph->kind == PHASE_HEADS) return graph_stack_bytes(r->p->g, v->in[1]);
    if (ph->kind == PHASE_ATTEND) return attend_bytes(r, v);
    return r->p->trace->bytes[phase_i];
}

/* The next layer of experts overwrites which those of this one were. */
void cpu_trace_end(const cpu_run *r, uint32_t phase_i, uint32_t thread_i)
{
    cpu_trace *t = r->p->trace;
    const phase *ph = &r->p->phases[phase_i];
    const graph_value *v = &r->p->g->values[ph->id];
    stamp_of(t, phase_i, thread_i)->end = clock_now_ns();
    if (thread_i != 0) return;
    if (ph->kind == PHASE_INNER) t->bytes[phase_i] = experts_bytes(r->p, v, 0, 2);
    if (ph->kind == PHASE_OUTER) t->bytes[phase_i] = experts_bytes(r->p, v, 2, 3);
    if (ph->kind == PHASE_STREAM) t->bytes[phase_i] = experts_bytes(r->p, v, 0, 3);
}

/* ---- a run ----------------------------------------------------------------------------------- */

void cpu_trace_start(cpu_trace *t)
{
    memset(t->ops, 0, (size_t)t->n_threads * t->n_ops * sizeof *t->ops);
    t->began = clock_now_ns();
}

/* The thread that had most to do, and how long it and the one with least took. */
typedef struct busy {
    uint32_t thread_i;
    uint64_t most, least;
} busy;

static busy busy_of(const cpu_trace *t, uint32_t phase_i)
{
    busy b = {.least = UINT64_MAX};
    for (uint32_t i = 0; i < t->n_threads; i++) {
        const stamp *s = stamp_of(t, phase_i, i);
        uint64_t ns = s->end - s->begin;
        if (ns >= b.most) b = (busy){i, ns, b.least};
        if (ns < b.least) b.least = ns;
    }
    return b;
}

/* Operations of a phase, as the thread that had most to do needed for them. */
static void fold_tokens(cpu_trace *t, const phase *ph, const busy *b)
{
    for (uint32_t op_i = ph->first; op_i < ph->first + ph->n; op_i++) {
        trace_part *part = &t->parts[t->of_op[op_i]];
        uint64_t ns = t->ops[(size_t)b->thread_i * t->n_ops + op_i];
        uint64_t least = ns;
        for (uint32_t i = 0; i < t->n_threads; i++) {
            uint64_t other = t->ops[(size_t)i * t->n_ops + op_i];
            if (other < least) least = other;
        }
        part->ns += (int64_t)ns;
        part->idle_ns += (int64_t)(ns - least);
        part->n_calls++;
    }
}

void cpu_trace_fold(const cpu_run *r)
{
    cpu_trace *t = r->p->trace;
    uint64_t ended = clock_now_ns();
    trace_part *barrier = &t->parts[0];
    barrier->ns += (int64_t)(ended - t->began);
    for (uint32_t i = 0; i < t->n_phases; i++) {
        const phase *ph = &r->p->phases[i];
        barrier->n_calls++;
        if (cpu_n_rows(r, ph->rows) == 0) continue;
        busy b = busy_of(t, i);
        barrier->ns -= (int64_t)b.most;
        if (ph->kind == PHASE_TOKENS) {
            fold_tokens(t, ph, &b);
            continue;
        }
        trace_part *part = &t->parts[t->of_phase[i]];
        part->ns += (int64_t)b.most;
        part->idle_ns += (int64_t)(b.most - b.least);
        part->n_bytes += phase_bytes(r, i);
        part->n_calls++;
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Encodings, each once: "q4_k+q6_k", cut to fit. */
static void add_weights(trace_part *part, const tensor *t)
{
    char label[24];
    encoding_label(t, label, sizeof label);
    size_t n = strlen(label);
    for (const char *at = part->weights; (at = strstr(at, label)) != NULL; at += n) {
        bool begins = at == part->weights || at[-1] == '+';
        if (begins && (at[n] == '\0' || at[n] == '+')) return;
    }
    size_t used = strlen(part->weights);
    snprintf(part->weights + used, sizeof part->weights - used, "%s%s", used > 0 ? "+" : "", label);
}

static void add_stack(trace_part *part, const graph *g, graph_id stack)
{
    const graph_value *v = &g->values[stack];
    for (uint32_t i = 0; i < v->i[1]; i++) add_weights(part, &g->tensors[v->i[0] + i]);
}

static trace_part linear_part(const backend_plan *p, const phase *ph)
{
    const graph *g = p->g;
    trace_part part = {.work = ph->id != 0 ? "linear, glu" : "linear"};
    if (ph->rows != GRAPH_TOKENS) part.work = "head";
    for (uint32_t i = 0; i < ph->n; i++) {
        const tensor *t = tensor_of(g, g->values[p->linear_ops[ph->first + i].id].in[1]);
        add_weights(&part, t);
        part.n_in = (uint32_t)t->n_cols;
        part.n_out += (uint32_t)t->n_rows;
    }
    return part;
}

/* What a phase does that treats other than single rows. */
static trace_part phase_part(const backend_plan *p, const phase *ph)
{
    const graph *g = p->g;
    const graph_value *v = &g->values[ph->id];
    trace_part part = {.work = graph_op_name(v->op)};
    switch (ph->kind) {
    case PHASE_LINEAR:
        return linear_part(p, ph);
    case PHASE_HEADS:
        add_stack(&part, g, v->in[1]);
        break;
    case PHASE_GROUP:
        part.work = "experts: group";
        break;
    case PHASE_INNER:
        part.work = "experts: gate, up";
        add_stack(&part, g, v->in[2]);
        add_stack(&part, g, v->in[3]);
        break;
    case PHASE_PAIRS:
        part.work = "experts: prepare";
        break;
    case PHASE_OUTER:
        part.work = "experts: down";
        add_stack(&part, g, v->in[4]);
        break;
    case PHASE_STREAM:
        for (uint32_t i = 2; i < 5; i++) add_stack(&part, g, v->in[i]);
        break;
    case PHASE_TOKENS:
    case PHASE_ATTEND:
    case PHASE_RECUR:
    case PHASE_SELECT:
        break;
    }
    return part;
}

static trace_part op_part(const backend_plan *p, const token_op *op)
{
    if (op->kind == TOKEN_ROPES) return (trace_part){.work = "rope angles"};
    if (op->kind == TOKEN_PREPARE) return (trace_part){.work = "prepare"};
    graph_op of = p->g->values[op->id].op;
    return (trace_part){.work = of == GRAPH_EXPERTS ? "experts: sum" : graph_op_name(of)};
}

static uint32_t find_part(cpu_trace *t, const trace_part *part)
{
    for (uint32_t i = 0; i < t->n_parts; i++) {
        const trace_part *other = &t->parts[i];
        if (strcmp(other->work, part->work) == 0 && strcmp(other->weights, part->weights) == 0 &&
            other->n_in == part->n_in && other->n_out == part->n_out)
            return i;
    }
    t->parts[t->n_parts] = *part;
    return t->n_parts++;
}

static void name_parts(cpu_trace *t, const backend_plan *p)
{
    trace_part part = {.work = "barrier"};
    find_part(t, &part);
    for (uint32_t i = 0; i < t->n_phases; i++) {
        const phase *ph = &p->phases[i];
        if (ph->kind != PHASE_TOKENS) {
            part = phase_part(p, ph);
            t->of_phase[i] = find_part(t, &part);
            continue;
        }
        for (uint32_t op_i = ph->first; op_i < ph->first + ph->n; op_i++) {
            part = op_part(p, &p->token_ops[op_i]);
            t->of_op[op_i] = find_part(t, &part);
        }
    }
}

/* ---- its life -------------------------------------------------------------------------------- */

static void destroy(backend *b, cpu_trace *t)
{
    if (t == NULL) return;
    arena_deinit(&t->arena);
    mem_free(b->env.allocator, t, sizeof *t);
}

static cpu_trace *create(backend *b, const backend_plan *p)
{
    cpu_trace *t = mem_alloc_zero(b->env.allocator, sizeof *t);
    if (t == NULL) return NULL;
    t->n_threads = b->n_threads;
    t->n_phases = p->n_phases;
    t->n_ops = p->n_token_ops;
    arena_init(&t->arena, b->env.allocator, 0);
    size_t n_threads = t->n_threads;
    t->stamps = arena_array(&t->arena, n_threads * t->n_phases, sizeof *t->stamps);
    t->last = arena_array(&t->arena, n_threads * LAST_STRIDE, sizeof *t->last);
    t->ops = arena_array(&t->arena, n_threads * t->n_ops, sizeof *t->ops);
    t->bytes = arena_array(&t->arena, t->n_phases, sizeof *t->bytes);
    t->of_phase = arena_array(&t->arena, t->n_phases, sizeof *t->of_phase);
    t->of_op = arena_array(&t->arena, t->n_ops, sizeof *t->of_op);
    t->parts = arena_array(&t->arena, (size_t)t->n_phases + t->n_ops + 1, sizeof *t->parts);
    bool ok = t->stamps && t->last && t->ops && t->bytes && t->of_phase && t->of_op && t->parts;
    if (ok) return t;
    destroy(b, t);
    return NULL;
}

weft_status cpu_trace_set(backend *b, backend_plan *plan, bool on, weft_error *err)
{
    destroy(b, plan->trace);
    plan->trace = NULL;
    if (!on) return WEFT_OK;
    plan->trace = create(b, plan);
    if (plan->trace == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a trace");
    name_parts(plan->trace, plan);
    return WEFT_OK;
}

static uint64_t at_least_0(int64_t ns)
{
    return ns < 0 ? 0 : (uint64_t)ns;
}

uint32_t cpu_trace_part(const backend_plan *plan, uint32_t i, backend_trace_part *part)
{
    const cpu_trace *t = plan->trace;
    if (t == NULL) return 0;
    if (i >= t->n_parts) return t->n_parts;
    const trace_part *ours = &t->parts[i];
    *part = (backend_trace_part){
        .work = ours->work,
        .weights = ours->weights,
        .n_in = ours->n_in,
        .n_out = ours->n_out,
        .n_calls = ours->n_calls,
        .n_bytes = ours->n_bytes,
        .ns = at_least_0(ours->ns),
        .idle_ns = at_least_0(ours->idle_ns),
    };
    return t->n_parts;
}
