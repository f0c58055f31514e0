/* state.c - the state of one answer: a machine, the states behind its last tokens, and masks made
 * by walking the vocabulary's trees beside it. */
#include <string.h>

#include "base/assert.h"
#include "grammar/compiled.h"

enum {
    HISTORY = 2 * GRAMMAR_ROLLBACK + 2,
    WORTH_NODES = 4096, /* a walk of more nodes is worth remembering */
    FORCED_BYTES = 512,
    PLAIN_DEPTH = 3, /* bytes of a token, up to which a walk looks for a way around it */
};

struct grammar_state {
    grammar *grammar;
    size_t n_bytes; /* of this block: the machine's memory stands behind it */
    machine machine;
    uint32_t history[HISTORY]; /* states before each token, the last one is now; dead: ended */
    uint32_t n_history;
    uint32_t path[GRAMMAR_TOKEN_BYTES + 1]; /* along a token */
    uint32_t n_path;
    uint32_t n_walked;
};

static size_t head_bytes(void)
{
    return size_align(sizeof(grammar_state), 64);
}

size_t grammar_state_bytes(const grammar *g)
{
    return head_bytes() + machine_bytes(&g->program, &g->limits);
}

static weft_status take_memory(const grammar *g, grammar_state **out, weft_error *err)
{
    size_t n_bytes = grammar_state_bytes(g);
    *out = mem_alloc(g->allocator, n_bytes);
    if (*out == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %zu bytes of a grammar's state",
                       n_bytes);
    return WEFT_OK;
}

weft_status grammar_state_create(grammar *g, grammar_state **out, weft_error *err)
{
    weft_status status = take_memory(g, out, err);
    if (status != WEFT_OK) return status;
    grammar_state *s = *out;
    memset(s, 0, sizeof *s);
    s->n_bytes = grammar_state_bytes(g);
    status = machine_init(&s->machine, &g->program, &g->limits, (char *)s + head_bytes(), err);
    if (status != WEFT_OK) {
        mem_free(g->allocator, s, s->n_bytes);
        *out = NULL;
        return status;
    }
    s->grammar = grammar_ref(g);
    s->history[0] = MACHINE_START;
    s->n_history = 1;
    return WEFT_OK;
}

void grammar_state_destroy(grammar_state *s)
{
    if (s == NULL) return;
    grammar *g = s->grammar;
    mem_free(g->allocator, s, s->n_bytes);
    grammar_unref(g);
}

weft_status grammar_state_clone(const grammar_state *s, grammar_state **out, weft_error *err)
{
    weft_status status = take_memory(s->grammar, out, err);
    if (status != WEFT_OK) return status;
    memcpy(*out, s, sizeof *s);
    machine_copy(&(*out)->machine, &s->machine, (char *)*out + head_bytes());
    (void)grammar_ref(s->grammar);
    return WEFT_OK;
}

static uint32_t now(const grammar_state *s)
{
    return s->history[s->n_history - 1];
}

bool grammar_state_ended(const grammar_state *s)
{
    return now(s) == MACHINE_DEAD;
}

bool grammar_state_can_end(const grammar_state *s)
{
    return grammar_state_ended(s) || s->machine.states[now(s)].can_end;
}

/* From path[at] by a byte into *to. */
static weft_status step(grammar_state *s, uint32_t at, unsigned char byte, uint32_t *to,
                        weft_error *err)
{
    const machine_roots roots = {{s->history, s->path, NULL}, {s->n_history, at + 1, 0}};
    return machine_step(&s->machine, &s->path[at], byte, &roots, to, err);
}

/* ---- accepting ---- */

static void remember(grammar_state *s, uint32_t state)
{
    if (s->n_history == HISTORY) {
        s->n_history = GRAMMAR_ROLLBACK;
        memmove(s->history, s->history + HISTORY - GRAMMAR_ROLLBACK,
                GRAMMAR_ROLLBACK * sizeof *s->history);
    }
    s->history[s->n_history++] = state;
}

static weft_status refuse(weft_error *err, int32_t token)
{
    return err_set(err, WEFT_ARGUMENT, "token %d is not allowed by the grammar here", token);
}

weft_status grammar_state_accept(grammar_state *s, int32_t token, weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    if (token < 0 || (uint32_t)token >= v->n_rows) return refuse(err, token);
    if (vocab_is_end(v, (uint32_t)token)) {
        if (!grammar_state_can_end(s)) return refuse(err, token);
        remember(s, MACHINE_DEAD);
        return WEFT_OK;
    }
    str bytes = {NULL, 0};
    if ((uint32_t)token < v->n_tokens) bytes = vocab_bytes(v, (uint32_t)token);
    if (bytes.len == 0 || grammar_state_ended(s)) return refuse(err, token);
    s->path[0] = now(s);
    for (size_t i = 0; i < bytes.len; i++) {
        uint32_t to;
        weft_status status = step(s, 0, (unsigned char)bytes.ptr[i], &to, err);
        if (status != WEFT_OK) return status;
        if (to == MACHINE_DEAD) return refuse(err, token);
        s->path[0] = to;
    }
    remember(s, s->path[0]);
    return WEFT_OK;
}

weft_status grammar_state_rollback(grammar_state *s, uint32_t n, weft_error *err)
{
    uint32_t most = s->n_history - 1 < GRAMMAR_ROLLBACK ? s->n_history - 1 : GRAMMAR_ROLLBACK;
    if (n > most)
        return err_set(err, WEFT_ARGUMENT, "cannot take back %u tokens of a grammar, %u are kept",
                       n, most);
    s->n_history -= n;
    return WEFT_OK;
}

/* ---- masks ---- */

static void allow(uint32_t token, uint64_t *bits)
{
    bits[(token - 1) >> 6] |= (uint64_t)1 << ((token - 1) & 63);
}

/* Whether a node that is not a plain lexeme's could take the first byte of a plain character. */
static bool takes_plain(const program *p, const config *c)
{
    const program_node *n = &p->nodes[c->node];
    if (n->kind == NODE_KIND_END) return false;
    if (n->kind != NODE_KIND_BYTES) return true;
    const uint64_t *set = p->sets[n->arg].bits;
    uint64_t quote = (uint64_t)1 << '"', backslash = (uint64_t)1 << ('\\' - 64);
    return ((set[0] >> 32 << 32) & ~quote) != 0 || (set[1] & ~backslash) != 0 || set[3] != 0;
}

/* How many plain characters are allowed behind the state whatever they are, where that is all that
 * begins with one; UINT32_MAX: any number. 0 when it is not so. */
static uint32_t plain_room(const machine *m, uint32_t state_i)
{
    const program *p = m->program;
    const machine_state *state = &m->states[state_i];
    uint32_t most = 0;
    bool others = false;
    for (uint32_t i = 0; i < state->n; i++) {
        const config *c = &m->configs[state->first + i];
        const program_node *n = &p->nodes[c->node];
        if (n->kind != NODE_KIND_LEXEME) {
            others |= takes_plain(p, c);
            continue;
        }
        const lexeme *lex = p->lexemes[n->arg];
        if ((lex->automaton->flag[c->q] & DFA_PLAIN) == 0) {
            others = true;
            continue;
        }
        uint32_t room = UINT32_MAX;
        if (lex->lengths != NULL && lex->max != LEXEME_ENDLESS) {
            /* It must still come to an end behind them. */
            uint32_t least = lex->lengths[c->q];
            room = c->count + least < lex->max ? lex->max - c->count - least : 0;
        }
        if (room > most) most = room;
    }
    if (most < GRAMMAR_TOKEN_BYTES && others) return 0;
    return most;
}

/* What the loop of a walk reads: rows by state along the path. */
static void find_rows(const grammar_state *s, uint32_t n, size_t *rows)
{
    for (uint32_t i = 0; i < n; i++) rows[i] = (size_t)s->path[i] * s->machine.program->n_classes;
}

/* Whether any plain token is allowed behind the state, whatever else is. */
static bool is_roomy(machine *m, uint32_t state)
{
    enum { ROOMY = 1, NARROW };
    machine_state *s = &m->states[state];
    if (s->note == 0) s->note = plain_room(m, state) >= GRAMMAR_TOKEN_BYTES ? ROOMY : NARROW;
    return s->note == ROOMY;
}

/* All tokens below a node; where to go on. */
static uint32_t allow_below(const vocab_tree *t, uint32_t at, const uint32_t *same, uint64_t *bits)
{
    uint32_t end = vocab_next(&t->nodes[at]);
    for (uint32_t i = at + 1; i < end; i++) {
        uint32_t what = t->nodes[i].what, token = what >> 9, any = token != 0;
        bits[(token - any) >> 6] |= (uint64_t)any << ((token - any) & 63);
        if ((what & VOCAB_SAME) != 0)
            while ((token = same[token - 1]) != 0) allow(token, bits);
    }
    return end;
}

static weft_status walk(grammar_state *s, const vocab_tree *t, uint64_t *bits, weft_error *err)
{
    const uint32_t *same = s->grammar->vocab->same, *table = s->machine.rows;
    const unsigned char *class_of = s->machine.program->class_of;
    const size_t n_classes = s->machine.program->n_classes;
    size_t rows[GRAMMAR_TOKEN_BYTES + 1];
    bool plain = t == &s->grammar->vocab->trees[VOCAB_PLAIN];
    uint32_t n_walked = 0;
    s->path[0] = now(s);
    find_rows(s, 1, rows);
    for (uint32_t i = 0; i < t->n_nodes; n_walked++) {
        const vocab_node n = t->nodes[i];
        uint32_t depth = n.what & 255, to = table[rows[depth - 1] + class_of[n.place & 255]];
        if (to == MACHINE_UNKNOWN) {
            weft_status status = step(s, depth - 1, (unsigned char)(n.place & 255), &to, err);
            if (status != WEFT_OK) return status;
            find_rows(s, depth, rows);
        }
        if (to == MACHINE_DEAD) {
            i = n.place >> 8;
            continue;
        }
        s->path[depth] = to;
        rows[depth] = to * n_classes;
        /* Whether a token ends here is as good as random: no branch. */
        uint32_t token = n.what >> 9, any = token != 0;
        bits[(token - any) >> 6] |= (uint64_t)any << ((token - any) & 63);
        if ((n.what & VOCAB_SAME) != 0)
            while ((token = same[token - 1]) != 0) allow(token, bits);
        /* Only near the top, where it spares much. */
        bool roomy = depth <= PLAIN_DEPTH && plain && is_roomy(&s->machine, to);
        i = roomy ? allow_below(t, i, same, bits) : i + 1;
    }
    s->n_walked += n_walked;
    return WEFT_OK;
}

/* All plain tokens of at most that many characters. */
static void allow_plain(const grammar_vocab *v, uint32_t room, uint64_t *bits)
{
    for (uint32_t w = 0; w < v->n_words; w++) bits[w] |= v->plain[w];
    for (uint32_t i = 0; i < v->n_plain && v->n_chars[i] > room; i++)
        bits[v->by_length[i] >> 6] &= ~((uint64_t)1 << (v->by_length[i] & 63));
}

static weft_status walk_all(grammar_state *s, uint64_t *bits, weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    uint32_t room = plain_room(&s->machine, now(s));
    if (room > 0) allow_plain(v, room, bits);
    weft_status status = WEFT_OK;
    if (room == 0) status = walk(s, &v->trees[VOCAB_PLAIN], bits, err);
    if (status == WEFT_OK) status = walk(s, &v->trees[VOCAB_OTHER], bits, err);
    return status;
}

static bool has_any(const uint64_t *bits, uint32_t n_words)
{
    for (uint32_t w = 0; w < n_words; w++)
        if (bits[w] != 0) return true;
    return false;
}

weft_status grammar_state_mask(grammar_state *s, uint64_t *bits, weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    memset(bits, 0, v->n_words * sizeof *bits);
    if (grammar_state_ended(s)) {
        memcpy(bits, v->ends, v->n_words * sizeof *bits);
        return WEFT_OK;
    }
    mask_key key;
    mask_key_of(&key, &s->machine, now(s), v->longest);
    if (masks_find(&s->grammar->masks, &key, bits)) return WEFT_OK;
    s->n_walked = 0;
    weft_status status = walk_all(s, bits, err);
    if (status != WEFT_OK) return status;
    if (grammar_state_can_end(s))
        for (uint32_t w = 0; w < v->n_words; w++) bits[w] |= v->ends[w];
    if (!has_any(bits, v->n_words))
        return err_set(err, WEFT_UNSUPPORTED,
                       "no token of the vocabulary can spell what the grammar wants next");
    if (s->n_walked > WORTH_NODES) masks_put(&s->grammar->masks, &key, bits);
    return WEFT_OK;
}

/* ---- what must come ---- */

/* Steps path[0] on by the only byte that may come; false when there are several, or the end. */
static weft_status step_forced(grammar_state *s, unsigned char *byte, bool *forced, weft_error *err)
{
    const program *p = s->machine.program;
    *forced = false;
    if (s->machine.states[s->path[0]].can_end) return WEFT_OK;
    uint32_t n = 0;
    for (uint32_t c = 0; c < p->n_classes && n < 2; c++) {
        uint32_t to;
        weft_status status = step(s, 0, p->byte_of[c], &to, err);
        if (status != WEFT_OK) return status;
        if (to == MACHINE_DEAD) continue;
        n += p->class_bytes[c];
        *byte = p->byte_of[c];
    }
    if (n != 1) return WEFT_OK;
    uint32_t to;
    weft_status status = step(s, 0, *byte, &to, err);
    if (status != WEFT_OK) return status;
    s->path[0] = to;
    *forced = true;
    return WEFT_OK;
}

/* Whether a longer token than all of bytes could go on behind it. */
static weft_status may_go_on(grammar_state *s, const vocab_tree *t, str bytes, bool *may,
                             weft_error *err)
{
    uint32_t token;
    uint32_t at = vocab_lookup(t, bytes, &token);
    if (at == UINT32_MAX) return WEFT_OK;
    uint32_t end = vocab_next(&t->nodes[at]);
    for (uint32_t child = at + 1; child < end && !*may; child = vocab_next(&t->nodes[child])) {
        uint32_t to;
        weft_status status = step(s, 0, vocab_byte(&t->nodes[child]), &to, err);
        if (status != WEFT_OK) return status;
        *may = to != MACHINE_DEAD;
    }
    return WEFT_OK;
}

/* The longest token that begins the bytes; 0 bytes long when there is none. */
static size_t longest_token(const grammar_vocab *v, str bytes, int32_t *token)
{
    size_t longest = 0;
    for (uint32_t which = 0; which < VOCAB_TREES; which++)
        for (size_t n = bytes.len < v->longest ? bytes.len : v->longest; n > longest; n--) {
            uint32_t found;
            (void)vocab_lookup(&v->trees[which], (str){bytes.ptr, n}, &found);
            if (found == 0) continue;
            *token = (int32_t)found - 1;
            longest = n;
        }
    return longest;
}

weft_status grammar_state_forced(grammar_state *s, int32_t *tokens, uint32_t most, uint32_t *n,
                                 weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    unsigned char text[FORCED_BYTES];
    size_t n_bytes = 0, at = 0;
    weft_status status = WEFT_OK;
    bool forced = !grammar_state_ended(s);
    *n = 0;
    s->path[0] = now(s);
    while (forced && n_bytes < FORCED_BYTES) {
        status = step_forced(s, &text[n_bytes], &forced, err);
        if (status != WEFT_OK) return status;
        n_bytes += forced;
    }
    while (at < n_bytes && *n < most) {
        str rest = {(const char *)text + at, n_bytes - at};
        bool may = false;
        for (uint32_t which = 0; which < VOCAB_TREES && !may; which++) {
            status = may_go_on(s, &v->trees[which], rest, &may, err);
            if (status != WEFT_OK) return status;
        }
        size_t taken = may ? 0 : longest_token(v, rest, &tokens[*n]);
        if (taken == 0) break;
        at += taken;
        ++*n;
    }
    return WEFT_OK;
}
