/* state.c - the state of one answer: a machine, the states behind its last tokens, and masks made
 * by walking the vocabulary's trees beside it. */
#include <string.h>

#include "base/assert.h"
#include "grammar/compiled.h"
#include "grammar/wide.h"

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

/* Behind the struct: the two sets of tokens that wide.h takes, then the machine's memory. */
static size_t head_bytes(const grammar *g)
{
    return size_align(sizeof(grammar_state), 64) +
           size_align(2 * (size_t)g->vocab->n_words * sizeof(uint64_t), 64);
}

static uint64_t *token_sets(grammar_state *s)
{
    return (uint64_t *)(void *)((char *)s + size_align(sizeof *s, 64));
}

size_t grammar_state_bytes(const grammar *g)
{
    return head_bytes(g) + machine_bytes(&g->program, &g->limits);
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
    status = machine_init(&s->machine, &g->program, &g->limits, (char *)s + head_bytes(g), err);
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
    machine_copy(&(*out)->machine, &s->machine, (char *)*out + head_bytes(s->grammar));
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

/* From path[at] by a symbol into *to. */
static weft_status step(grammar_state *s, uint32_t at, uint32_t symbol, uint32_t *to,
                        weft_error *err)
{
    const machine_roots roots = {{s->history, s->path, NULL}, {s->n_history, at + 1, 0}};
    return machine_step(&s->machine, &s->path[at], symbol, &roots, to, err);
}

/* Where a named token leads from path[at]: nowhere, too, when it ends the answer and something must
 * come behind it. */
static weft_status step_token(grammar_state *s, uint32_t at, uint32_t named, uint32_t *to,
                              weft_error *err)
{
    weft_status status = step(s, at, SYMBOL_TOKEN + named, to, err);
    if (status == WEFT_OK && s->machine.program->tokens[named].ends &&
        !s->machine.states[*to].can_end)
        *to = MACHINE_DEAD;
    return status;
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

/* Into path[0] from now: where the token leads by its name. */
static weft_status take_name(grammar_state *s, uint32_t token, weft_error *err)
{
    const program *p = s->machine.program;
    uint32_t named = 0, to = MACHINE_DEAD;
    weft_status status = WEFT_OK;
    while (named < p->n_tokens && p->tokens[named].id != token) named++;
    s->path[0] = now(s);
    if (named < p->n_tokens && s->path[0] != MACHINE_DEAD)
        status = step_token(s, 0, named, &to, err);
    s->path[0] = to;
    return status;
}

/* Into path[1] from now: where its bytes lead; path[0] is kept. */
static weft_status take_bytes(grammar_state *s, str bytes, weft_error *err)
{
    s->path[1] = bytes.len == 0 ? MACHINE_DEAD : now(s);
    for (size_t i = 0; i < bytes.len && s->path[1] != MACHINE_DEAD; i++) {
        uint32_t to;
        weft_status status = step(s, 1, (unsigned char)bytes.ptr[i], &to, err);
        if (status != WEFT_OK) return status;
        s->path[1] = to;
    }
    return WEFT_OK;
}

weft_status grammar_state_accept(grammar_state *s, int32_t token, weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    if (token < 0 || (uint32_t)token >= v->n_rows) return refuse(err, token);
    weft_status status = take_name(s, (uint32_t)token, err);
    if (status != WEFT_OK) return status;
    if (vocab_is_end(v, (uint32_t)token)) {
        if (s->path[0] == MACHINE_DEAD && !grammar_state_can_end(s)) return refuse(err, token);
        remember(s, MACHINE_DEAD);
        return WEFT_OK;
    }
    str bytes = {NULL, 0};
    if ((uint32_t)token < v->n_tokens) bytes = vocab_bytes(v, (uint32_t)token);
    status = take_bytes(s, bytes, err);
    if (status != WEFT_OK) return status;
    uint32_t to;
    const machine_roots roots = {{s->history, s->path, NULL}, {s->n_history, 2, 0}};
    status = machine_join(&s->machine, s->path, &roots, &to, err);
    if (status != WEFT_OK) return status;
    if (to == MACHINE_DEAD) return refuse(err, token);
    remember(s, to);
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

/* What the loop of a walk reads: rows by state along the path. */
static void find_rows(const grammar_state *s, uint32_t n, size_t *rows)
{
    size_t n_columns = program_n_columns(s->machine.program);
    for (uint32_t i = 0; i < n; i++) rows[i] = s->path[i] * n_columns;
}

/* Whether the lexeme of a place takes any plain token and can still end. */
static bool takes_all(const program *p, const config *c)
{
    const program_node *n = &p->nodes[c->node];
    if (n->kind != NODE_KIND_LEXEME) return false;
    const lexeme *lex = p->lexemes[n->arg];
    if ((lex->automaton->flag[c->q] & DFA_PLAIN) == 0) return false;
    if (lex->lengths == NULL || lex->max == LEXEME_ENDLESS) return true;
    uint32_t least = lex->lengths[c->q];
    return c->count + least + GRAMMAR_TOKEN_BYTES <= lex->max;
}

/* Whether any plain token is allowed behind the state, whatever else is. */
static bool is_roomy(machine *m, uint32_t state)
{
    enum { ROOMY = 1, NARROW };
    machine_state *s = &m->states[state];
    if (s->note != 0) return s->note == ROOMY;
    s->note = NARROW;
    for (uint32_t i = 0; i < s->n && s->note != ROOMY; i++)
        if (takes_all(m->program, &m->configs[s->first + i])) s->note = ROOMY;
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

/* From path[0], the nodes first to end of a tree, which are all that is below some roots. */
static weft_status walk(grammar_state *s, const vocab_tree *t, uint32_t first, uint32_t end,
                        uint64_t *bits, weft_error *err)
{
    const uint32_t *same = s->grammar->vocab->same, *table = s->machine.rows;
    const unsigned char *class_of = s->machine.program->class_of;
    const size_t n_columns = program_n_columns(s->machine.program);
    size_t rows[GRAMMAR_TOKEN_BYTES + 1];
    bool plain = t == &s->grammar->vocab->trees[VOCAB_PLAIN];
    uint32_t n_walked = 0;
    find_rows(s, 1, rows);
    for (uint32_t i = first; i < end; n_walked++) {
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
        rows[depth] = to * n_columns;
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

/* The tokens of a set, one by one. */
static weft_status try_tokens(grammar_state *s, const uint64_t *set, uint64_t *bits,
                              weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    s->path[0] = now(s);
    for (uint32_t w = 0; w < v->n_words; w++) {
        for (uint64_t word = set[w]; word != 0; word &= word - 1) {
            uint32_t token = w * 64 + (uint32_t)__builtin_ctzll(word);
            weft_status status = take_bytes(s, vocab_bytes(v, token), err);
            if (status != WEFT_OK) return status;
            if (s->path[1] != MACHINE_DEAD) allow(token + 1, bits);
        }
    }
    return WEFT_OK;
}

/* Below the roots of some bytes. */
static weft_status walk_tops(grammar_state *s, const byte_set *tops, uint64_t *bits,
                             weft_error *err)
{
    const vocab_tree *t = &s->grammar->vocab->trees[VOCAB_PLAIN];
    s->path[0] = now(s);
    for (uint32_t at = 0; at < t->n_nodes; at = vocab_next(&t->nodes[at])) {
        if (!byte_set_has(tops, vocab_byte(&t->nodes[at]))) continue;
        weft_status status = walk(s, t, at, vocab_next(&t->nodes[at]), bits, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* Plain tokens: what is known of wide places, and a walk for the others. */
static weft_status allow_plain(grammar_state *s, uint64_t *bits, weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    const vocab_tree *t = &v->trees[VOCAB_PLAIN];
    uint64_t *sets = token_sets(s);
    wide w = {.bits = bits, .open = sets, .scratch = sets + v->n_words};
    weft_status status = WEFT_OK;
    wide_allow(&w, &s->machine, now(s), v);
    s->n_walked += w.work;
    if (w.n_open > 0) status = try_tokens(s, w.open, bits, err);
    if (status == WEFT_OK && w.n > 0) status = walk_tops(s, &w.tops, bits, err);
    s->path[0] = now(s);
    if (status != WEFT_OK || w.n == s->machine.states[s->path[0]].n) return status;
    if (w.n > 0) {
        uint32_t rest;
        const machine_roots roots = {{s->history, s->path, NULL}, {s->n_history, 1, 0}};
        status = machine_without(&s->machine, s->path, w.places, w.n, &roots, &rest, err);
        s->path[0] = rest;
    }
    return status == WEFT_OK ? walk(s, t, 0, t->n_nodes, bits, err) : status;
}

/* The named tokens that may come. A step may give states other numbers, but leaves the places of
 * one in their order. */
static weft_status allow_named(grammar_state *s, uint64_t *bits, weft_error *err)
{
    const machine *m = &s->machine;
    s->path[0] = now(s);
    for (uint32_t i = 0; i < m->states[s->path[0]].n; i++) {
        const config *c = &m->configs[m->states[s->path[0]].first + i];
        const program_node *n = &m->program->nodes[c->node];
        uint32_t to;
        if (n->kind != NODE_KIND_TOKEN) continue;
        weft_status status = step_token(s, 0, n->arg, &to, err);
        if (status != WEFT_OK) return status;
        if (to != MACHINE_DEAD) allow(m->program->tokens[n->arg].id + 1, bits);
    }
    return WEFT_OK;
}

static weft_status walk_all(grammar_state *s, uint64_t *bits, weft_error *err)
{
    const vocab_tree *others = &s->grammar->vocab->trees[VOCAB_OTHER];
    weft_status status = allow_plain(s, bits, err);
    s->path[0] = now(s);
    if (status == WEFT_OK) status = walk(s, others, 0, others->n_nodes, bits, err);
    return status == WEFT_OK ? allow_named(s, bits, err) : status;
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

/* The only symbol that may come at path[0]; not *forced when there are several, or the end. */
static weft_status find_forced(grammar_state *s, uint32_t *symbol, bool *forced, weft_error *err)
{
    const program *p = s->machine.program;
    uint32_t n = 0, to;
    *forced = false;
    if (s->machine.states[s->path[0]].can_end) return WEFT_OK;
    for (uint32_t c = 0; c < p->n_classes && n < 2; c++) {
        weft_status status = step(s, 0, p->byte_of[c], &to, err);
        if (status != WEFT_OK) return status;
        if (to == MACHINE_DEAD) continue;
        n += p->class_bytes[c];
        *symbol = p->byte_of[c];
    }
    for (uint32_t i = 0; i < p->n_tokens && n < 2; i++) {
        weft_status status = step_token(s, 0, i, &to, err);
        if (status != WEFT_OK) return status;
        if (to == MACHINE_DEAD) continue;
        /* What ends an answer is nobody's guess. */
        n += p->tokens[i].ends ? 2 : 1;
        *symbol = SYMBOL_TOKEN + i;
    }
    *forced = n == 1;
    return WEFT_OK;
}

/* Steps path[0] on while one byte only may come; *forced: then one named token only, *symbol. */
static weft_status run_forced(grammar_state *s, unsigned char text[FORCED_BYTES], size_t *n_bytes,
                              uint32_t *symbol, bool *forced, weft_error *err)
{
    *forced = false;
    for (*n_bytes = 0; *n_bytes < FORCED_BYTES;) {
        weft_status status = find_forced(s, symbol, forced, err);
        if (status != WEFT_OK || !*forced || *symbol >= SYMBOL_TOKEN) return status;
        uint32_t to;
        status = step(s, 0, *symbol, &to, err);
        if (status != WEFT_OK) return status;
        s->path[0] = to;
        text[(*n_bytes)++] = (unsigned char)*symbol;
        *forced = false;
    }
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

/* Adds tokens that spell the text, behind which path[0] is, and says how much of it they spell. */
static weft_status spell(grammar_state *s, str text, int32_t *tokens, uint32_t most, uint32_t *n,
                         size_t *spelled, weft_error *err)
{
    const grammar_vocab *v = s->grammar->vocab;
    for (*spelled = 0; *spelled < text.len && *n < most;) {
        str rest = {text.ptr + *spelled, text.len - *spelled};
        bool may = false;
        for (uint32_t which = 0; which < VOCAB_TREES && !may; which++) {
            weft_status status = may_go_on(s, &v->trees[which], rest, &may, err);
            if (status != WEFT_OK) return status;
        }
        size_t taken = may ? 0 : longest_token(v, rest, &tokens[*n]);
        if (taken == 0) break;
        *spelled += taken;
        ++*n;
    }
    return WEFT_OK;
}

weft_status grammar_state_forced(grammar_state *s, int32_t *tokens, uint32_t most, uint32_t *n,
                                 weft_error *err)
{
    unsigned char text[FORCED_BYTES];
    bool forced = !grammar_state_ended(s);
    *n = 0;
    s->path[0] = now(s);
    while (forced && *n < most) {
        size_t n_bytes, spelled;
        uint32_t symbol = SYMBOL_TOKEN;
        weft_status status = run_forced(s, text, &n_bytes, &symbol, &forced, err);
        if (status != WEFT_OK) return status;
        str bytes = {(const char *)text, n_bytes};
        status = spell(s, bytes, tokens, most, n, &spelled, err);
        if (status != WEFT_OK) return status;
        forced = forced && spelled == n_bytes && *n < most;
        if (!forced) break;
        uint32_t named = symbol - SYMBOL_TOKEN;
        tokens[(*n)++] = (int32_t)s->machine.program->tokens[named].id;
        uint32_t to;
        status = step_token(s, 0, named, &to, err);
        if (status != WEFT_OK) return status;
        s->path[0] = to;
    }
    return WEFT_OK;
}
