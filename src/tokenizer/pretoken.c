/* pretoken.c - the splits of pre-tokenizers, streamed: pieces go to the next step as they are
 * found. */
#include "tokenizer/pretoken.h"

#include "base/utf8.h"

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
    if (p->bytes) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: a pre-tokenizer behind 'ByteLevel' is not supported");
    }
    if (p->n_steps == PRETOKEN_STEPS) {
        return err_set(err, WEFT_LIMIT, "tokenizer: more than %d pre-tokenizers are not supported",
                       PRETOKEN_STEPS);
    }
    if (pattern.ptr != NULL) {
        weft_status status = regex_init(&step.regex, &p->memory, pattern, literal, err);
        if (status != WEFT_OK) return status;
    }
    p->steps[p->n_steps++] = step;
    return WEFT_OK;
}

weft_status pretoken_split(pretoken *p, str pattern, bool literal, split_behavior behavior,
                           bool invert, weft_error *err)
{
    if (pattern.ptr == NULL) pattern.ptr = "";
    pretoken_step step = {.behavior = behavior, .invert = invert};
    return add(p, step, pattern, literal, err);
}

weft_status pretoken_bytelevel(pretoken *p, bool space_ahead, bool split, weft_error *err)
{
    pretoken_step step = {.space_ahead = space_ahead};
    str pattern = split ? str_of(PRETOKEN_GPT2) : (str){NULL, 0};
    weft_status status = add(p, step, pattern, false, err);
    if (status == WEFT_OK) p->bytes = true;
    return status;
}

weft_status pretoken_scratch_init(pretoken_scratch *s, const weft_allocator *allocator,
                                  size_t text_bytes, weft_error *err)
{
    strbuf_init(&s->spaced, allocator, 0);
    return regex_search_init(&s->search, allocator, text_bytes, err);
}

void pretoken_scratch_deinit(pretoken_scratch *s)
{
    strbuf_deinit(&s->spaced);
    regex_search_deinit(&s->search);
}

/* ---- running ---- */

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
    split_behavior behavior;
    bool holding;  /* [start, end) is not given on yet: what follows may join it */
    bool previous; /* the last stretch was a match */
    size_t start;
    size_t end;
} joiner;

static weft_status run_step(const walk *w, uint32_t step_i, str text);

static weft_status give(const joiner *j, size_t start, size_t end)
{
    if (start == end) return WEFT_OK;
    return run_step(j->walk, j->step_i + 1, (str){j->text.ptr + start, end - start});
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

/* An empty match right behind the last match would find itself again: the search moves on a
 * character. */
static weft_status split(const walk *w, uint32_t step_i, str text)
{
    const pretoken_step *step = &w->pretoken->steps[step_i];
    joiner j = {.walk = w, .step_i = step_i, .text = text, .behavior = step->behavior};
    size_t done = 0;
    size_t from = 0;
    bool matched = false;
    weft_status status = WEFT_OK;
    while (from <= text.len) {
        bool found;
        size_t start;
        size_t end;
        status =
            regex_find(&step->regex, &w->scratch->search, text, from, &found, &start, &end, w->err);
        if (status != WEFT_OK) return status;
        if (!found) break;
        if (start == end && matched && end == done) {
            uint32_t c;
            size_t n = utf8_decode(text.ptr + from, text.len - from, &c);
            from += n == 0 ? 1 : n;
            continue;
        }
        if (start > done) status = stretch(&j, done, start, step->invert);
        if (status == WEFT_OK) status = stretch(&j, start, end, !step->invert);
        if (status != WEFT_OK) return status;
        matched = true;
        done = end;
        from = end;
    }
    if (done < text.len) status = stretch(&j, done, text.len, step->invert);
    return status == WEFT_OK ? give_held(&j) : status;
}

/* Depth is at most PRETOKEN_STEPS; only the last step may put a space ahead, so one buffer is
 * enough. */
static weft_status run_step(const walk *w, uint32_t step_i, str text)
{
    if (step_i == w->pretoken->n_steps) return w->word(w->user, text, w->err);
    const pretoken_step *step = &w->pretoken->steps[step_i];
    if (step->space_ahead && text.ptr[0] != ' ') {
        strbuf *spaced = &w->scratch->spaced;
        strbuf_clear(spaced);
        strbuf_add_char(spaced, ' ');
        weft_status status = strbuf_add(spaced, text.ptr, text.len);
        if (status != WEFT_OK) return err_set(w->err, status, "out of memory for a piece of text");
        text = (str){spaced->ptr, spaced->len};
    }
    if (step->regex.code == NULL) return run_step(w, step_i + 1, text);
    return split(w, step_i, text);
}

weft_status pretoken_run(const pretoken *p, pretoken_scratch *s, str text, pretoken_word *word,
                         void *user, weft_error *err)
{
    if (text.len == 0) return WEFT_OK;
    walk w = {p, s, word, user, err};
    return run_step(&w, 0, text);
}
