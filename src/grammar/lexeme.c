/* lexeme.c - automata with bounds on characters: which lengths are left from which state.
 *
 * V[k], the set of states from which an end can be reached with exactly k characters more, follows
 * from V[k - 1] alone; so as soon as one comes again, all that follow repeat, and a finite table
 * answers for any length. */
#include "grammar/dfa.h"

#include <string.h>

#include "base/hash.h"

bool lexeme_alive(const lexeme *lex, uint32_t state, uint32_t count)
{
    if (state == DFA_DEAD) return false;
    if (lex->lengths == NULL) return true;
    if (count > lex->max) return false;
    /* The least number of characters more that reaches both an end and min. */
    uint32_t least = count < lex->min ? lex->min - count : 0;
    uint32_t skipped = 0;
    if (least >= lex->start) {
        uint32_t into = (least - lex->start) % lex->period;
        skipped = least - lex->start - into;
        least = lex->start + into;
    }
    uint16_t more = lex->lengths[(uint64_t)least * lex->automaton->n_states + state];
    if (more == UINT16_MAX) return false;
    return lex->max == LEXEME_ENDLESS || (uint64_t)count + skipped + more <= lex->max;
}

/* ---- the table ---- */

typedef struct lengths {
    program *p;
    const dfa *d;
    uint32_t *order;      /* states, those within characters after what they lead to */
    unsigned char *reach; /* [DFA_LENGTHS, n_states] V */
    uint32_t n, start, period;
} lengths;

/* Within a character there are no ways back, so some sweeps settle the order. */
static bool settle_order(lengths *l)
{
    const dfa *d = l->d;
    uint32_t n = 0;
    unsigned char *done = program_alloc(l->p, d->n_states, 1);
    l->order = program_alloc(l->p, d->n_states, sizeof *l->order);
    if (done == NULL || l->order == NULL) return false;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t q = 1; q < d->n_states; q++) {
            bool ready = done[q] == 0;
            for (uint32_t c = 0; c < d->n_classes && ready; c++) {
                uint32_t to = d->next[(uint64_t)q * d->n_classes + c];
                ready = to == DFA_DEAD || (d->flag[to] & DFA_WHOLE) != 0 || done[to] != 0;
            }
            if (!ready) continue;
            l->order[n++] = q;
            done[q] = changed = true;
        }
    }
    return n + 1 == d->n_states;
}

static bool reaches(const lengths *l, uint32_t q, const unsigned char *before,
                    const unsigned char *row)
{
    const dfa *d = l->d;
    for (uint32_t c = 0; c < d->n_classes; c++) {
        uint32_t to = d->next[(uint64_t)q * d->n_classes + c];
        if (to == DFA_DEAD) continue;
        if ((d->flag[to] & DFA_WHOLE) != 0 ? before != NULL && before[to] != 0 : row[to] != 0)
            return true;
    }
    return false;
}

static void fill_row(lengths *l, uint32_t k)
{
    const dfa *d = l->d;
    unsigned char *row = l->reach + (size_t)k * d->n_states;
    const unsigned char *before = k == 0 ? NULL : row - d->n_states;
    for (uint32_t i = 0; i + 1 < d->n_states; i++) {
        uint32_t q = l->order[i];
        row[q] = (k == 0 && (d->flag[q] & DFA_ACCEPT) != 0) || reaches(l, q, before, row);
    }
}

/* Rows until one repeats; false, with a failure, when that takes too many. */
static bool fill_rows(lengths *l, uint32_t most)
{
    uint32_t n_states = l->d->n_states;
    for (uint32_t k = 0; k < most; k++) {
        fill_row(l, k);
        const unsigned char *row = l->reach + (size_t)k * n_states;
        for (uint32_t i = k; i > 0; i--) {
            if (memcmp(l->reach + (size_t)(i - 1) * n_states, row, n_states) != 0) continue;
            l->start = i - 1;
            l->period = k - l->start;
            l->n = k;
            return true;
        }
    }
    program_fail(l->p, WEFT_LIMIT, "a pattern whose lengths follow no rule within %u characters",
                 most);
    return false;
}

static uint16_t *next_lengths(const lengths *l)
{
    uint32_t n_states = l->d->n_states;
    uint16_t *table = program_alloc(l->p, (size_t)l->n * n_states, sizeof *table);
    if (table == NULL) return NULL;
    for (uint32_t q = 0; q < n_states; q++) {
        uint32_t least = UINT16_MAX;
        for (uint32_t k = l->n + l->period; k > 0; k--) {
            uint32_t row = k - 1 < l->n ? k - 1 : k - 1 - l->period;
            if (l->reach[(size_t)row * n_states + q] != 0) least = k - 1;
            if (k - 1 < l->n) table[(size_t)(k - 1) * n_states + q] = (uint16_t)least;
        }
    }
    return table;
}

static bool fill_lengths(program *p, lexeme *lex)
{
    lengths l = {.p = p, .d = lex->automaton};
    if (!settle_order(&l)) {
        program_fail(p, WEFT_UNSUPPORTED, "a length of what has no characters");
        return false;
    }
    uint32_t most = DFA_LENGTH_CELLS / l.d->n_states;
    if (most > DFA_LENGTHS) most = DFA_LENGTHS;
    const weft_allocator *a = p->memory->allocator;
    size_t n_bytes = (size_t)most * l.d->n_states;
    l.reach = mem_alloc_zero(a, n_bytes);
    if (l.reach == NULL) {
        program_fail(p, WEFT_NOMEM, "out of memory for the lengths of a pattern");
        return false;
    }
    if (fill_rows(&l, most)) lex->lengths = next_lengths(&l);
    lex->start = l.start;
    lex->period = l.period;
    mem_free(a, l.reach, n_bytes);
    return p->status == WEFT_OK;
}

/* ---- states that any plain character leaves as they are ---- */

/* Whether all of n more continuation bytes lead from q to home. */
static bool continues(const dfa *d, uint32_t q, uint32_t n, uint32_t home)
{
    uint32_t seen = DFA_DEAD;
    for (uint32_t b = 0x80; b <= 0xbf; b++) {
        uint32_t to = dfa_step(d, q, (unsigned char)b);
        if (to == DFA_DEAD) return false;
        if (n == 1 && to != home) return false;
        if (n == 1 || to == seen) continue;
        if (!continues(d, to, n - 1, home)) return false;
        seen = to;
    }
    return true;
}

/* Likewise for a lead byte whose next byte is of a range, with n more behind that. */
static bool leads(const dfa *d, uint32_t home, unsigned char lead, unsigned char first,
                  unsigned char last, uint32_t n)
{
    uint32_t q = dfa_step(d, home, lead);
    if (q == DFA_DEAD) return false;
    uint32_t seen = DFA_DEAD;
    for (uint32_t b = first; b <= last; b++) {
        uint32_t to = dfa_step(d, q, (unsigned char)b);
        if (to == DFA_DEAD || (n == 0 && to != home)) return false;
        if (n == 0 || to == seen) continue;
        if (!continues(d, to, n, home)) return false;
        seen = to;
    }
    return true;
}

static bool is_last(const dfa *d, uint32_t q)
{
    for (uint32_t c = 0; c < d->n_classes; c++)
        if (d->next[(uint64_t)q * d->n_classes + c] != DFA_DEAD) return false;
    return true;
}

/* Whether all characters that begin with a byte lead back. */
static bool leads_back(const dfa *d, uint32_t q, unsigned char lead)
{
    unsigned char first = 0x80, last = 0xbf;
    if (lead == 0xe0) first = 0xa0;
    if (lead == 0xed) last = 0x9f;
    if (lead == 0xf0) first = 0x90;
    if (lead == 0xf4) last = 0x8f;
    return leads(d, q, lead, first, last, lead < 0xe0 ? 0 : lead < 0xf0 ? 1 : 2);
}

static uint64_t find_wide(const dfa *d, uint32_t q)
{
    uint64_t wide = 0;
    for (uint32_t i = 0; i < DFA_LEADS; i++)
        wide |= (uint64_t)leads_back(d, q, (unsigned char)(DFA_LEAD + i)) << i;
    return wide;
}

static bool is_plain(const dfa *d, uint32_t q)
{
    for (uint32_t b = 0x20; b < 0x80; b++)
        if (b != '"' && b != '\\' && dfa_step(d, q, (unsigned char)b) != q) return false;
    return d->wide[q] == ((uint64_t)1 << DFA_LEADS) - 1;
}

/* What only lexemes are asked for. */
static void describe_states(const dfa *d)
{
    if (d->wide[DFA_DEAD] != 0) return;
    d->wide[DFA_DEAD] = 1;
    for (uint32_t q = 1; q < d->n_states; q++) {
        d->wide[q] = find_wide(d, q);
        if (is_plain(d, q)) d->flag[q] |= DFA_PLAIN;
        if (is_last(d, q)) d->flag[q] |= DFA_LAST;
    }
}

const lexeme *lexeme_make(program *p, const dfa *d, uint32_t min, uint32_t max)
{
    if (p->status != WEFT_OK || d == NULL || min > max || dfa_is_empty(d)) return NULL;
    lexeme *lex = program_alloc(p, 1, sizeof *lex);
    if (lex == NULL) return NULL;
    *lex = (lexeme){.automaton = d, .min = min, .max = max};
    describe_states(d);
    if (min == 0 && max == LEXEME_ENDLESS) return lex;
    if (!fill_lengths(p, lex)) return NULL;
    return lexeme_alive(lex, 1, 0) ? lex : NULL;
}
