/* dfa_meet.c - automata whose states are found by asking: pairs of two others', or a function's. */
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "grammar/dfa.h"

/* States that were found, each once. */
typedef struct finder {
    program *p;
    uint32_t size;
    unsigned char *states; /* [DFA_STATES, size] */
    uint32_t *slots;       /* [DFA_STATES * 2]; UINT32_MAX: free */
    uint32_t n;            /* 0 is the dead state */
} finder;

static bool finder_init(finder *f, program *p, uint32_t size)
{
    *f = (finder){.p = p, .size = size, .n = 1};
    const weft_allocator *a = p->memory->allocator;
    f->states = mem_alloc(a, (size_t)DFA_STATES * size);
    f->slots = mem_alloc(a, (size_t)DFA_STATES * 2 * sizeof *f->slots);
    if (f->states == NULL || f->slots == NULL) {
        program_fail(p, WEFT_NOMEM, "out of memory for %d states of a pattern", DFA_STATES);
        return false;
    }
    memset(f->slots, 0xff, (size_t)DFA_STATES * 2 * sizeof *f->slots);
    return true;
}

static void finder_deinit(finder *f)
{
    const weft_allocator *a = f->p->memory->allocator;
    mem_free(a, f->states, (size_t)DFA_STATES * f->size);
    mem_free(a, f->slots, (size_t)DFA_STATES * 2 * sizeof *f->slots);
}

static uint32_t find(finder *f, const void *state)
{
    uint32_t mask = DFA_STATES * 2 - 1;
    uint32_t slot = (uint32_t)hash_xx64(state, f->size, 0) & mask;
    for (; f->slots[slot] != UINT32_MAX; slot = (slot + 1) & mask)
        if (memcmp(f->states + (size_t)f->slots[slot] * f->size, state, f->size) == 0)
            return f->slots[slot];
    if (f->n == DFA_STATES) {
        program_fail(f->p, WEFT_LIMIT, "patterns or numbers that need more than %d states here",
                     DFA_STATES);
        return DFA_DEAD;
    }
    memcpy(f->states + (size_t)f->n * f->size, state, f->size);
    f->slots[slot] = f->n;
    return f->n++;
}

/* The table of all states that are found from the start on; byte_of has a byte of each class. */
static const dfa *explore(finder *f, const dfa_source *s, uint32_t n_classes,
                          const unsigned char *class_of, const unsigned char *byte_of)
{
    program *p = f->p;
    uint32_t room = 64;
    dfa d = {.n_classes = n_classes};
    memcpy(d.class_of, class_of, sizeof d.class_of);
    d.next = program_alloc(p, (size_t)room * n_classes, sizeof *d.next);
    (void)find(f, s->start);
    for (uint32_t q = 1; q < f->n && p->status == WEFT_OK; q++) {
        if (q == room) {
            uint32_t *grown = program_alloc(p, (size_t)room * 2 * n_classes, sizeof *grown);
            if (grown == NULL) return NULL;
            memcpy(grown, d.next, (size_t)room * n_classes * sizeof *grown);
            d.next = grown;
            room *= 2;
        }
        for (uint32_t c = 0; c < n_classes; c++) {
            unsigned char next[DFA_SOURCE_BYTES] = {0};
            const unsigned char *state = f->states + (size_t)q * f->size;
            bool any = s->step(s->user, state, byte_of[c], next);
            d.next[(uint64_t)q * n_classes + c] = any ? find(f, next) : DFA_DEAD;
        }
    }
    d.n_states = f->n;
    d.flag = program_alloc(p, f->n, 1);
    if (p->status != WEFT_OK) return NULL;
    for (uint32_t q = 1; q < f->n; q++)
        d.flag[q] = s->flag(s->user, f->states + (size_t)q * f->size);
    return dfa_finish(p, &d);
}

static const dfa *of_source(program *p, const dfa_source *s, uint32_t n_classes,
                            const unsigned char *class_of, const unsigned char *byte_of)
{
    if (p->status != WEFT_OK) return NULL;
    ASSERT(s->size <= DFA_SOURCE_BYTES);
    finder f;
    const dfa *d = NULL;
    if (finder_init(&f, p, s->size)) d = explore(&f, s, n_classes, class_of, byte_of);
    finder_deinit(&f);
    return dfa_worked(p, f.n) ? d : NULL;
}

const dfa *dfa_of_source(program *p, const dfa_source *s)
{
    unsigned char class_of[256] = {0}, byte_of[256] = {0};
    uint32_t n = 1;
    for (const char *b = s->bytes; *b != '\0'; b++, n++) {
        class_of[(unsigned char)*b] = (unsigned char)n;
        byte_of[n] = (unsigned char)*b;
    }
    return of_source(p, s, n, class_of, byte_of);
}

/* ---- pairs ---- */

typedef struct pair_user {
    const dfa *a, *b;
    bool minus;
} pair_user;

static bool pair_step(const void *user, const void *state, unsigned char byte, void *next)
{
    const pair_user *u = user;
    uint32_t from[2], to[2];
    memcpy(from, state, sizeof from);
    to[0] = dfa_step(u->a, from[0], byte);
    to[1] = dfa_step(u->b, from[1], byte);
    memcpy(next, to, sizeof to);
    return to[0] != DFA_DEAD && (u->minus || to[1] != DFA_DEAD);
}

static unsigned char pair_flag(const void *user, const void *state)
{
    const pair_user *u = user;
    uint32_t q[2];
    memcpy(q, state, sizeof q);
    bool in_b = (u->b->flag[q[1]] & DFA_ACCEPT) != 0;
    unsigned char flag = u->a->flag[q[0]] & (DFA_ACCEPT | DFA_WHOLE);
    return (unsigned char)(in_b != u->minus ? flag : flag & ~DFA_ACCEPT);
}

static const dfa *pair(program *p, const dfa *a, const dfa *b, bool minus)
{
    if (p->status != WEFT_OK || a == NULL || b == NULL) return NULL;
    static const uint32_t START[2] = {1, 1};
    const pair_user user = {a, b, minus};
    const dfa_source source = {&user, sizeof START, START, pair_step, pair_flag, NULL};
    unsigned char class_of[256], byte_of[256];
    uint32_t n = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t c = 0;
        while (c < n && (a->class_of[byte_of[c]] != a->class_of[byte] ||
                         b->class_of[byte_of[c]] != b->class_of[byte]))
            c++;
        class_of[byte] = (unsigned char)c;
        if (c == n) byte_of[n++] = (unsigned char)byte;
    }
    return of_source(p, &source, n, class_of, byte_of);
}

const dfa *dfa_meet(program *p, const dfa *a, const dfa *b)
{
    return a == b ? a : pair(p, a, b, false);
}

const dfa *dfa_without(program *p, const dfa *a, const dfa *b)
{
    return pair(p, a, b, true);
}
