/* dfa.c - making automata and keeping them small. */
#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "grammar/machine.h"
#include "grammar/words.h"

enum { MERGE_ROUNDS = 64 };

bool dfa_is_empty(const dfa *d)
{
    return d->n_states < 3 && (d->n_states < 2 || (d->flag[1] & DFA_ACCEPT) == 0);
}

bool dfa_accepts(const dfa *d, str bytes)
{
    uint32_t q = 1;
    for (size_t i = 0; i < bytes.len && q != DFA_DEAD; i++)
        q = dfa_step(d, q, (unsigned char)bytes.ptr[i]);
    return q != DFA_DEAD && (d->flag[q] & DFA_ACCEPT) != 0;
}

bool dfa_worked(program *p, uint32_t n_states)
{
    p->dfa_work += n_states + DFA_WORK_EACH;
    if (p->dfa_work > DFA_WORK)
        program_fail(p, WEFT_LIMIT, "patterns and numbers of more than %d states in all", DFA_WORK);
    return p->status == WEFT_OK;
}

static dfa *make(program *p, uint32_t n_states, uint32_t n_classes, const unsigned char *class_of)
{
    dfa *d = program_alloc(p, 1, sizeof *d);
    if (d == NULL) return NULL;
    *d = (dfa){.n_states = n_states, .n_classes = n_classes};
    memcpy(d->class_of, class_of, sizeof d->class_of);
    d->next = program_alloc(p, (size_t)n_states * n_classes, sizeof *d->next);
    d->flag = program_alloc(p, n_states, 1);
    d->wide = program_alloc(p, n_states, sizeof *d->wide);
    return p->status == WEFT_OK ? d : NULL;
}

/* ---- trimming and merging ---- */

/* useful[q]: an accepting state can be reached from q. */
static void mark_useful(const dfa *d, unsigned char *useful)
{
    for (uint32_t q = 1; q < d->n_states; q++) useful[q] = (d->flag[q] & DFA_ACCEPT) != 0;
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t k = d->n_states; k > 1; k--) {
            uint32_t q = k - 1;
            for (uint32_t c = 0; c < d->n_classes && useful[q] == 0; c++)
                if (useful[d->next[(uint64_t)q * d->n_classes + c]] != 0)
                    useful[q] = changed = true;
        }
    }
}

typedef struct merger {
    const dfa *d;
    uint32_t *part, *next_part; /* [n_states] the part that a state is in */
    uint32_t *slots;            /* [n_slots] a state of each part */
    uint32_t n_slots, n_parts;
} merger;

static bool same_part(const merger *m, uint32_t a, uint32_t b)
{
    const dfa *d = m->d;
    if (m->part[a] != m->part[b]) return false;
    for (uint32_t c = 0; c < d->n_classes; c++)
        if (m->part[d->next[(uint64_t)a * d->n_classes + c]] !=
            m->part[d->next[(uint64_t)b * d->n_classes + c]])
            return false;
    return true;
}

static uint64_t hash_of(const merger *m, uint32_t q)
{
    const dfa *d = m->d;
    uint64_t h = m->part[q];
    for (uint32_t c = 0; c < d->n_classes; c++)
        h = (h ^ m->part[d->next[(uint64_t)q * d->n_classes + c]]) * 0x9e3779b97f4a7c15u +
            (h >> 29);
    return h;
}

/* One round: states that differ in where they lead come into different parts. Part 0 is the dead
 * state's, part 1 the start's. */
static void split_parts(merger *m)
{
    memset(m->slots, 0xff, m->n_slots * sizeof *m->slots);
    uint32_t n = 1;
    m->next_part[0] = 0;
    for (uint32_t q = 1; q < m->d->n_states; q++) {
        if (m->part[q] == 0) {
            m->next_part[q] = 0;
            continue;
        }
        uint32_t slot = (uint32_t)(hash_of(m, q) >> 20) & (m->n_slots - 1);
        while (m->slots[slot] != UINT32_MAX && !same_part(m, m->slots[slot], q))
            slot = (slot + 1) & (m->n_slots - 1);
        if (m->slots[slot] == UINT32_MAX) {
            m->slots[slot] = q;
            m->next_part[q] = n++;
        } else {
            m->next_part[q] = m->next_part[m->slots[slot]];
        }
    }
    uint32_t *swap = m->part;
    m->part = m->next_part;
    m->next_part = swap;
    m->n_parts = n;
}

/* Parts by flags at first; then split until they stay, or one state each when that takes long. */
static void find_parts(merger *m, const unsigned char *useful)
{
    const dfa *d = m->d;
    for (uint32_t q = 0; q < d->n_states; q++) m->part[q] = useful[q] != 0 ? d->flag[q] + 1u : 0;
    for (uint32_t round = 0, before = 0; before != m->n_parts || round < 2; round++) {
        before = m->n_parts;
        split_parts(m);
        if (round < MERGE_ROUNDS) continue;
        m->n_parts = 1;
        for (uint32_t q = 0; q < d->n_states; q++) m->part[q] = useful[q] != 0 ? m->n_parts++ : 0;
        return;
    }
}

const dfa *dfa_finish(program *p, const dfa *draft)
{
    if (draft == NULL) return NULL;
    merger m = {.d = draft, .n_slots = 4};
    while (m.n_slots < draft->n_states * 2) m.n_slots *= 2;
    unsigned char *useful = program_alloc(p, draft->n_states, 1);
    m.part = program_alloc(p, draft->n_states, sizeof *m.part);
    m.next_part = program_alloc(p, draft->n_states, sizeof *m.next_part);
    m.slots = program_alloc(p, m.n_slots, sizeof *m.slots);
    if (p->status != WEFT_OK) return NULL;
    mark_useful(draft, useful);
    find_parts(&m, useful);
    if (useful[1] == 0) m.n_parts = 2; /* nothing is accepted: a start that leads nowhere */
    dfa *d = make(p, m.n_parts, draft->n_classes, draft->class_of);
    if (d == NULL) return NULL;
    for (uint32_t q = 1; q < draft->n_states; q++) {
        if (useful[q] == 0) continue;
        d->flag[m.part[q]] = draft->flag[q];
        for (uint32_t c = 0; c < d->n_classes; c++)
            d->next[(uint64_t)m.part[q] * d->n_classes + c] =
                m.part[draft->next[(uint64_t)q * d->n_classes + c]];
    }
    return d;
}

/* ---- of programs ---- */

static const machine_limits LIMITS = {DFA_STATES, 1 << 18, 1 << 15, 1 << 14, 1000};

/* All states of a machine. */
static const dfa *explore(program *p, const program *part, machine *m)
{
    for (uint32_t q = 1; q < m->n_states; q++)
        for (uint32_t c = 0; c < part->n_classes; c++) {
            uint32_t to;
            weft_status status = machine_step(m, &q, part->byte_of[c], NULL, &to, NULL);
            if (status == WEFT_OK) continue;
            program_fail(p, WEFT_LIMIT, "a pattern that needs more than %d states here",
                         DFA_STATES);
            return NULL;
        }
    dfa *d = make(p, m->n_states, part->n_classes, part->class_of);
    if (d == NULL) return NULL;
    memcpy(d->next, m->rows, (size_t)m->n_states * part->n_classes * sizeof *d->next);
    for (uint32_t q = 1; q < m->n_states; q++) d->flag[q] = m->states[q].can_end ? DFA_ACCEPT : 0;
    return d;
}

static const dfa *nothing(program *p)
{
    static const unsigned char ONE_CLASS[256] = {0};
    return make(p, 2, 1, ONE_CLASS);
}

/* part: rule 0 stands; not finished yet. */
static const dfa *dfa_of_program(program *p, program *part)
{
    if (part->status == WEFT_OK) program_finish(part);
    /* That no text matches is no failure here. */
    if (part->status == WEFT_ARGUMENT) {
        err_clear(p->err);
        return nothing(p);
    }
    if (part->status != WEFT_OK) {
        p->status = part->status;
        return NULL;
    }
    const weft_allocator *allocator = p->memory->allocator;
    size_t n_bytes = machine_bytes(part, &LIMITS);
    void *memory = mem_alloc(allocator, n_bytes);
    if (memory == NULL) {
        program_fail(p, WEFT_NOMEM, "out of memory for a pattern: %zu bytes", n_bytes);
        return NULL;
    }
    machine m;
    const dfa *d = NULL;
    weft_status status = machine_init(&m, part, &LIMITS, memory, p->err);
    if (status == WEFT_OK) {
        d = explore(p, part, &m);
    } else {
        p->status = status;
    }
    mem_free(allocator, memory, n_bytes);
    return d != NULL && dfa_worked(p, d->n_states) ? dfa_finish(p, d) : NULL;
}

static void begin_part(program *p, program *part)
{
    program_init(part, p->memory, p->err);
    (void)program_rule(part, NULL);
}

const dfa *dfa_of_regex(program *p, const regex *x, spelling how)
{
    if (p->status != WEFT_OK) return NULL;
    program part;
    begin_part(p, &part);
    if (part.status == WEFT_OK) part.rules[0].start = node_regex(&part, x, how, NODE_RETURN);
    return dfa_of_program(p, &part);
}

const dfa *dfa_of_words(program *p, const str *words, uint32_t n, spelling how)
{
    if (p->status != WEFT_OK) return NULL;
    program part;
    begin_part(p, &part);
    if (part.status == WEFT_OK) {
        uint32_t start = node_words(&part, words, n, how, NODE_RETURN);
        part.rules[0].start = start;
    }
    return dfa_of_program(p, &part);
}

const lexeme *lexeme_of_run(program *p, const regex *x, spelling how)
{
    regex star = *x;
    star.min = 0;
    star.max = PROGRAM_ENDLESS;
    const dfa *d = dfa_of_regex(p, &star, how);
    for (uint32_t q = 1; d != NULL && q < d->n_states; q++)
        if ((d->flag[q] & DFA_ACCEPT) != 0) d->flag[q] |= DFA_WHOLE;
    return lexeme_make(p, d, x->min, x->max == PROGRAM_ENDLESS ? LEXEME_ENDLESS : x->max);
}
