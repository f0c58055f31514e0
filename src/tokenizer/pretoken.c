/* pretoken.c - the splits of pre-tokenizers, streamed: pieces go to the next step as they are
 * found. */
#include "tokenizer/pretoken.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytelevel.h"

/* ---- building ---- */

weft_status pretoken_init(pretoken *p, const weft_allocator *allocator, weft_error *err)
{
    *p = (pretoken){0};
    return regex_memory_init(&p->memory, allocator, err);
}

void pretoken_deinit(pretoken *p)
{
    for (uint32_t i = 0; i < p->n_steps; i++) regex_deinit(&p->steps[i].regex);
    p->n_steps = 0;
    regex_memory_deinit(&p->memory);
}

static weft_status add(pretoken *p, pretoken_step step, str pattern, bool literal, weft_error *err)
{
    if (p->n_steps == PRETOKEN_STEPS) {
        return err_set(err, WEFT_LIMIT, "tokenizer: more than %d pre-tokenizers are not supported",
                       PRETOKEN_STEPS);
    }
    if (pattern.ptr != NULL) {
        weft_status status = regex_init(&step.regex, &p->memory, pattern, literal, err);
        if (status != WEFT_OK) return status;
    }
    step.spells = p->bytes;
    p->spelled = p->spelled || p->bytes;
    p->bytes = false;
    p->steps[p->n_steps++] = step;
    return WEFT_OK;
}

weft_status pretoken_split(pretoken *p, str pattern, bool literal, split_behavior behavior,
                           bool invert, weft_error *err)
{
    if (pattern.ptr == NULL) pattern.ptr = "";
    pretoken_step step = {.kind = PRETOKEN_REGEX, .behavior = behavior, .invert = invert};
    return add(p, step, pattern, literal, err);
}

weft_status pretoken_class(pretoken *p, char_class *in_class, split_behavior behavior,
                           weft_error *err)
{
    pretoken_step step = {.kind = PRETOKEN_CLASS, .in_class = in_class, .behavior = behavior};
    return add(p, step, (str){NULL, 0}, false, err);
}

weft_status pretoken_words(pretoken *p, weft_error *err)
{
    pretoken_step step = {.kind = PRETOKEN_WORDS, .behavior = SPLIT_REMOVED, .invert = true};
    return add(p, step, (str){NULL, 0}, false, err);
}

/* Spaces ahead of the first run are dropped. */
weft_status pretoken_scripts(pretoken *p, weft_error *err)
{
    pretoken_step step = {.kind = PRETOKEN_SCRIPTS, .behavior = SPLIT_REMOVED, .invert = true};
    return add(p, step, (str){NULL, 0}, false, err);
}

weft_status pretoken_fixed(pretoken *p, uint64_t n_chars, weft_error *err)
{
    pretoken_step step = {.kind = PRETOKEN_FIXED, .n_chars = n_chars, .behavior = SPLIT_ISOLATED};
    if (n_chars == 0) step.kind = PRETOKEN_WHOLE;
    return add(p, step, (str){NULL, 0}, false, err);
}

weft_status pretoken_metaspace(pretoken *p, str mark, pretoken_ahead ahead, bool split,
                               weft_error *err)
{
    uint32_t c;
    if (utf8_decode(mark.ptr, mark.len, &c) != mark.len || mark.len == 0) {
        return err_set(err, WEFT_FORMAT, "tokenizer: a 'Metaspace' of %zu bytes is no character",
                       mark.len);
    }
    pretoken_step step = {.kind = split ? PRETOKEN_REGEX : PRETOKEN_WHOLE,
                          .behavior = SPLIT_MERGED_NEXT,
                          .ahead = ahead,
                          .marks_spaces = true,
                          .mark_len = (uint8_t)mark.len};
    memcpy(step.mark, mark.ptr, mark.len);
    return add(p, step, split ? mark : (str){NULL, 0}, true, err);
}

weft_status pretoken_bytelevel(pretoken *p, bool space_ahead, bool split, weft_error *err)
{
    pretoken_step step = {.kind = split ? PRETOKEN_REGEX : PRETOKEN_WHOLE,
                          .ahead = space_ahead ? AHEAD_ALWAYS : AHEAD_NEVER,
                          .mark = {' '},
                          .mark_len = 1};
    str pattern = split ? str_of(PRETOKEN_GPT2) : (str){NULL, 0};
    weft_status status = add(p, step, pattern, false, err);
    if (status == WEFT_OK) p->bytes = true;
    return status;
}

weft_status pretoken_scratch_init(pretoken_scratch *s, const weft_allocator *allocator,
                                  size_t text_bytes, weft_error *err)
{
    for (size_t i = 0; i < PRETOKEN_STEPS; i++) {
        strbuf_init(&s->marked[i], allocator, 0);
        strbuf_init(&s->spelled[i], allocator, 0);
    }
    return regex_search_init(&s->search, allocator, text_bytes, err);
}

void pretoken_scratch_deinit(pretoken_scratch *s)
{
    for (size_t i = 0; i < PRETOKEN_STEPS; i++) {
        strbuf_deinit(&s->marked[i]);
        strbuf_deinit(&s->spelled[i]);
    }
    regex_search_deinit(&s->search);
}

/* ---- pieces ---- */

typedef struct walk {
    const pretoken *pretoken;
    pretoken_scratch *scratch;
    pretoken_word *word;
    void *user;
    weft_error *err;
} walk;

/* Stretches of one text, matched or not, on their way into pieces. */
typedef struct joiner {
    const walk *walk;
    uint32_t step_i;
    str text;
    bool first; /* the text starts a text as a whole */
    split_behavior behavior;
    bool holding;  /* [start, end) is not given on yet: what follows may join it */
    bool previous; /* the last stretch was a match */
    size_t start;
    size_t end;
} joiner;

static weft_status run_step(const walk *w, uint32_t step_i, str text, bool first);

static weft_status give(const joiner *j, size_t start, size_t end)
{
    if (start == end) return WEFT_OK;
    str piece = {j->text.ptr + start, end - start};
    return run_step(j->walk, j->step_i + 1, piece, j->first && start == 0);
}

static weft_status give_held(joiner *j)
{
    if (!j->holding) return WEFT_OK;
    j->holding = false;
    return give(j, j->start, j->end);
}

static weft_status stretch(joiner *j, size_t start, size_t end, bool is_match)
{
    bool previous = j->previous;
    bool joins = false;
    j->previous = is_match;
    switch (j->behavior) {
    case SPLIT_ISOLATED:
        return give(j, start, end);
    case SPLIT_REMOVED:
        return is_match ? WEFT_OK : give(j, start, end);
    case SPLIT_CONTIGUOUS:
        joins = is_match == previous;
        break;
    case SPLIT_MERGED_PREVIOUS:
        joins = is_match && !previous;
        break;
    case SPLIT_MERGED_NEXT:
        joins = !is_match && previous;
        break;
    }
    if (joins && j->holding) {
        j->end = end;
        return WEFT_OK;
    }
    weft_status status = give_held(j);
    j->holding = true;
    j->start = start;
    j->end = end;
    return status;
}

/* ---- what is found ---- */

/* The characters at and behind from that are in the class, or are not: where they end. */
static size_t run_end(str text, size_t from, char_class *in_class, bool in)
{
    while (from < text.len) {
        uint32_t c = (unsigned char)text.ptr[from];
        size_t n = c < 0x80 ? 1 : utf8_decode(text.ptr + from, text.len - from, &c);
        if (in_class(c) != in) break;
        from += n == 0 ? 1 : n;
    }
    return from;
}

/* The characters at and behind from that are of the script, or join any: where they end. */
static size_t script_end(str text, size_t from, uint32_t script)
{
    while (from < text.len) {
        uint32_t c;
        size_t n = utf8_decode(text.ptr + from, text.len - from, &c);
        uint32_t found = char_script(c);
        if (found != script && found != 0) break;
        from += n == 0 ? 1 : n;
    }
    return from;
}

static bool is_sign(uint32_t c)
{
    return !char_is_word(c) && !char_is_space(c);
}

/* The next match at or behind where the walk is; it is not empty. */
static bool find_plain(const pretoken_step *step, str text, regex_walk *matches, size_t *start,
                       size_t *end)
{
    size_t at = matches->from;
    uint32_t c;
    if (step->kind == PRETOKEN_CLASS) at = run_end(text, at, step->in_class, false);
    if (step->kind == PRETOKEN_WORDS) at = run_end(text, at, char_is_space, true);
    if (step->kind == PRETOKEN_SCRIPTS) at = script_end(text, at, 0);
    if (at >= text.len) return false;
    *start = at;
    size_t n = utf8_decode(text.ptr + at, text.len - at, &c);
    *end = at + (n == 0 ? 1 : n);
    if (step->kind == PRETOKEN_WORDS) {
        *end = run_end(text, at, char_is_word(c) ? char_is_word : is_sign, true);
    } else if (step->kind == PRETOKEN_SCRIPTS) {
        *end = script_end(text, at, char_script(c));
    } else if (step->kind == PRETOKEN_FIXED) {
        for (uint64_t i = 1; i < step->n_chars && *end < text.len; i++) {
            n = utf8_decode(text.ptr + *end, text.len - *end, &c);
            *end += n == 0 ? 1 : n;
        }
    }
    matches->from = *end;
    return true;
}

static weft_status find(const walk *w, const pretoken_step *step, str text, regex_walk *matches,
                        bool *found, size_t *start, size_t *end)
{
    if (step->kind == PRETOKEN_REGEX) {
        return regex_next(&step->regex, &w->scratch->search, text, matches, found, start, end,
                          w->err);
    }
    *found = find_plain(step, text, matches, start, end);
    return WEFT_OK;
}

static weft_status split(const walk *w, uint32_t step_i, str text, bool first)
{
    const pretoken_step *step = &w->pretoken->steps[step_i];
    joiner j = {
        .walk = w, .step_i = step_i, .text = text, .first = first, .behavior = step->behavior};
    regex_walk matches = {0};
    size_t done = 0;
    for (;;) {
        bool found;
        size_t start;
        size_t end;
        weft_status status = find(w, step, text, &matches, &found, &start, &end);
        if (status != WEFT_OK) return status;
        if (!found) break;
        if (start > done) status = stretch(&j, done, start, step->invert);
        if (status == WEFT_OK) status = stretch(&j, start, end, !step->invert);
        if (status != WEFT_OK) return status;
        done = end;
    }
    weft_status status = WEFT_OK;
    if (done < text.len) status = stretch(&j, done, text.len, step->invert);
    return status == WEFT_OK ? give_held(&j) : status;
}

/* ---- running ---- */

/* Puts the mark for spaces and ahead; a text that has neither stays where it is. */
static weft_status mark(const walk *w, uint32_t step_i, bool first, str *text)
{
    const pretoken_step *step = &w->pretoken->steps[step_i];
    strbuf *out = &w->scratch->marked[step_i];
    bool starts =
        (text->len >= step->mark_len && memcmp(text->ptr, step->mark, step->mark_len) == 0) ||
        (step->marks_spaces && text->ptr[0] == ' ');
    bool ahead = !starts && (step->ahead == AHEAD_ALWAYS || (step->ahead == AHEAD_FIRST && first));
    bool spaces = step->marks_spaces && memchr(text->ptr, ' ', text->len) != NULL;
    if (!ahead && !spaces) return WEFT_OK;
    strbuf_clear(out);
    if (ahead) strbuf_add(out, step->mark, step->mark_len);
    size_t done = 0;
    while (spaces) {
        const char *at = memchr(text->ptr + done, ' ', text->len - done);
        if (at == NULL) break;
        strbuf_add(out, text->ptr + done, (size_t)(at - text->ptr) - done);
        strbuf_add(out, step->mark, step->mark_len);
        done = (size_t)(at - text->ptr) + 1;
    }
    weft_status status = strbuf_add(out, text->ptr + done, text->len - done);
    if (status != WEFT_OK) return err_set(w->err, status, "out of memory for a piece of text");
    *text = (str){out->ptr, out->len};
    return WEFT_OK;
}

static weft_status spell(const walk *w, uint32_t step_i, str *text)
{
    strbuf *out = &w->scratch->spelled[step_i];
    strbuf_clear(out);
    for (size_t i = 0; i < text->len; i++) {
        char bytes[4];
        size_t n = utf8_encode(bytelevel_char((uint8_t)text->ptr[i]), bytes);
        strbuf_add(out, bytes, n);
    }
    if (out->status != WEFT_OK)
        return err_set(w->err, out->status, "out of memory for a piece of text");
    *text = (str){out->ptr, out->len};
    return WEFT_OK;
}

/* Depth is at most PRETOKEN_STEPS. */
static weft_status run_step(const walk *w, uint32_t step_i, str text, bool first)
{
    if (step_i == w->pretoken->n_steps) return w->word(w->user, text, w->err);
    const pretoken_step *step = &w->pretoken->steps[step_i];
    if (step->spells) {
        weft_status status = spell(w, step_i, &text);
        if (status != WEFT_OK) return status;
    }
    if (step->mark_len != 0) {
        weft_status status = mark(w, step_i, first, &text);
        if (status != WEFT_OK) return status;
    }
    if (step->kind == PRETOKEN_WHOLE) return run_step(w, step_i + 1, text, first);
    return split(w, step_i, text, first);
}

weft_status pretoken_run(const pretoken *p, pretoken_scratch *s, str text, bool first,
                         pretoken_word *word, void *user, weft_error *err)
{
    if (text.len == 0) return WEFT_OK;
    walk w = {p, s, word, user, err};
    return run_step(&w, 0, text, first);
}
