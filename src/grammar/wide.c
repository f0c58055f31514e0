/* wide.c - which plain tokens a state allows, by the characters that are in them. */
#include "grammar/wide.h"

#include <string.h>

enum {
    LEAST_KEPT = 16, /* characters that stay at home; with fewer, a walk is short */
    TRIED = 8,       /* the share of plain tokens, 1/TRIED, that is tried rather than walked */
    WORDS_A_NODE = 16,
};

/* What a place's lexeme does with the characters of a token, by the numbers of vocab.h. */
typedef struct habits {
    const dfa *d;
    uint32_t q, home, room;  /* room: characters that it may still take */
    bool kept[VOCAB_CHARS];  /* lead from home back to it */
    bool leads[VOCAB_CHARS]; /* lead elsewhere, or something behind the lexeme may take them */
    byte_set tops;           /* first bytes that lead from q elsewhere than from home */
    byte_set lost;           /* likewise: from q nowhere */
    uint32_t n_kept;
} habits;

/* The state that most characters lead to; dead when there is none. */
static uint32_t find_home(const dfa *d, uint32_t q)
{
    uint32_t states[4] = {0}, counts[4] = {0}, best = 0;
    for (uint32_t i = 0; i < VOCAB_NARROW; i++) {
        uint32_t to = dfa_step(d, q, vocab_char(i)), k = 0;
        if (to == DFA_DEAD) continue;
        while (k < 4 && counts[k] > 0 && states[k] != to) k++;
        if (k == 4) continue;
        states[k] = to;
        counts[k]++;
        if (counts[k] > counts[best]) best = k;
    }
    return states[best];
}

static bool is_kept(const habits *h, uint32_t i, uint32_t to)
{
    if (i < VOCAB_NARROW) return to == h->home;
    return (h->d->wide[h->home] >> (i - VOCAB_NARROW) & 1) != 0;
}

static void look_at_chars(habits *h)
{
    for (uint32_t i = 0; i < VOCAB_CHARS; i++) {
        unsigned char b = vocab_char(i);
        if (b == '"' || b == '\\') continue;
        uint32_t to = dfa_step(h->d, h->home, b), first = dfa_step(h->d, h->q, b);
        h->kept[i] = is_kept(h, i, to);
        h->leads[i] = to != DFA_DEAD && !h->kept[i];
        h->n_kept += h->kept[i];
        if (first == to) continue;
        byte_set_add(first == DFA_DEAD ? &h->lost : &h->tops, b, b);
    }
}

/* What may come behind the lexeme where it ends at home. */
static void look_behind(habits *h, machine *m, config c)
{
    byte_set behind;
    machine_follow(m, c, &behind);
    for (uint32_t i = 0; i < VOCAB_CHARS; i++)
        if (byte_set_has(&behind, vocab_char(i))) h->leads[i] = true;
}

/* False when a walk will do better. */
static bool look_at(habits *h, machine *m, config c)
{
    const program_node *n = &m->program->nodes[c.node];
    if (n->kind != NODE_KIND_LEXEME) return false;
    const lexeme *lex = m->program->lexemes[n->arg];
    *h = (habits){.d = lex->automaton, .q = c.q, .room = UINT32_MAX};
    h->home = find_home(h->d, h->q);
    if (h->home == DFA_DEAD) return false;
    look_at_chars(h);
    if (h->n_kept < LEAST_KEPT) return false;
    if (lex->lengths != NULL && (h->d->flag[h->home] & DFA_WHOLE) == 0) return false;
    if (lex->lengths != NULL && lex->max != LEXEME_ENDLESS) {
        /* It must still come to an end behind them. */
        uint32_t least = lex->lengths[h->home];
        h->room = c.count + least < lex->max ? lex->max - c.count - least : 0;
    }
    if ((h->d->flag[h->home] & DFA_ACCEPT) != 0) look_behind(h, m, c);
    return true;
}

/* ---- sets of tokens ---- */

/* Takes the tokens below the roots of those bytes out of bits; false when there is so much below
 * them that a walk over the rest takes no longer. */
static bool clear_tops(const vocab_tree *t, const byte_set *tops, const uint32_t *same,
                       uint64_t *bits)
{
    uint32_t n_cleared = 0;
    for (uint32_t at = 0; at < t->n_nodes; at = vocab_next(&t->nodes[at])) {
        if (!byte_set_has(tops, vocab_byte(&t->nodes[at]))) continue;
        uint32_t end = vocab_next(&t->nodes[at]);
        n_cleared += end - at;
        if (n_cleared > t->n_nodes / 4 * 3) return false;
        for (uint32_t i = at; i < end; i++) {
            uint32_t what = t->nodes[i].what, token = what >> 9, any = token != 0;
            bits[(token - any) >> 6] &= ~((uint64_t)any << ((token - any) & 63));
            if ((what & VOCAB_SAME) == 0) continue;
            while ((token = same[token - 1]) != 0)
                bits[(token - 1) >> 6] &= ~((uint64_t)1 << ((token - 1) & 63));
        }
    }
    return true;
}

/* The tokens whose characters are all kept, in scratch. */
static void collect_kept(wide *w, const habits *h, const grammar_vocab *v)
{
    memcpy(w->scratch, v->plain, v->n_words * sizeof *w->scratch);
    w->work += v->n_words / WORDS_A_NODE;
    for (uint32_t i = 0; i < VOCAB_CHARS; i++) {
        if (h->kept[i]) continue;
        const uint64_t *has = v->has + (size_t)i * v->n_words;
        for (uint32_t k = 0; k < v->n_words; k++) w->scratch[k] &= ~has[k];
        w->work += v->n_words / WORDS_A_NODE;
    }
    for (uint32_t i = 0; i < v->n_plain && v->n_chars[i] > h->room; i++)
        w->scratch[v->by_length[i] >> 6] &= ~((uint64_t)1 << (v->by_length[i] & 63));
}

/* Those that may be allowed for other reasons. */
static void collect_open(wide *w, const habits *h, const grammar_vocab *v)
{
    if (w->n == 0) memset(w->open, 0, v->n_words * sizeof *w->open);
    for (uint32_t i = 0; i < VOCAB_CHARS; i++) {
        if (!h->leads[i]) continue;
        const uint64_t *has = v->has + (size_t)i * v->n_words;
        for (uint32_t k = 0; k < v->n_words; k++) w->open[k] |= has[k];
        w->work += v->n_words / WORDS_A_NODE;
    }
}

static bool allow_place(wide *w, const habits *h, const grammar_vocab *v)
{
    byte_set first = h->tops;
    for (uint32_t k = 0; k < 4; k++) first.bits[k] |= h->lost.bits[k];
    collect_kept(w, h, v);
    if (h->q != h->home && !clear_tops(&v->trees[VOCAB_PLAIN], &first, v->same, w->scratch))
        return false;
    for (uint32_t k = 0; k < v->n_words; k++) w->bits[k] |= w->scratch[k];
    collect_open(w, h, v);
    for (uint32_t k = 0; k < 4; k++) w->tops.bits[k] |= h->tops.bits[k];
    return true;
}

/* What is left of open; with too much of it, all places are walked. */
static void count_open(wide *w, const grammar_vocab *v)
{
    w->n_open = 0;
    for (uint32_t k = 0; k < v->n_words; k++) {
        w->open[k] &= ~w->bits[k];
        for (uint64_t word = w->open[k]; word != 0; word &= word - 1) w->n_open++;
    }
    if (w->n_open <= v->n_plain / TRIED) return;
    w->n = w->n_open = 0;
    w->tops = (byte_set){{0}};
}

void wide_allow(wide *w, machine *m, uint32_t state, const grammar_vocab *v)
{
    const machine_state s = m->states[state];
    w->n = w->n_open = w->work = 0;
    w->tops = (byte_set){{0}};
    for (uint32_t i = 0; i < s.n && w->n < WIDE_MOST; i++) {
        habits h;
        if (look_at(&h, m, m->configs[s.first + i]) && allow_place(w, &h, v)) w->places[w->n++] = i;
    }
    if (w->n > 0) count_open(w, v);
}
