/* text.c - the text of an answer, and where a stop text ends it.
 *
 * Two readers see the same tokens. One runs in the step and only looks for stop texts, so that
 * nothing behind one is sampled; it keeps no text, and rests where there are none. The other makes
 * what events carry when they are polled, in the caller's thread. Both do the same with each token,
 * so they agree, whatever company or drafts a step had. */
#include <string.h>

#include "engine/state.h"

/* Longer tokens are rare; the first one allocates in its step. */
enum { TOKEN_BYTES = 512 };

static bool wanted(const weft_request *from)
{
    return (from->flags & WEFT_REQUEST_TEXT) != 0 || from->n_stop_texts > 0;
}

weft_status text_need_tokenizer(const weft_engine *e, const char *what, weft_error *err)
{
    if (e->options.tokenizer != NULL) return WEFT_OK;
    const weft_error *why = e->options.tokenizer_error;
    weft_status status = why != NULL && why->status != WEFT_OK ? why->status : WEFT_UNSUPPORTED;
    return err_set(err, status, "%s: %s", what,
                   why != NULL && why->status != WEFT_OK ? why->message : "there is no tokenizer");
}

static weft_status check_shown(const weft_engine *e, const weft_request *from, weft_error *err)
{
    if (from->n_shown_ids > WEFT_SHOWN_IDS) {
        return err_set(err, WEFT_LIMIT, "there are %u shown_ids, at most %d may be",
                       from->n_shown_ids, WEFT_SHOWN_IDS);
    }
    if (from->n_shown_ids > 0 && from->shown_ids == NULL)
        return err_set(err, WEFT_ARGUMENT, "shown_ids is NULL");
    for (uint32_t i = 0; i < from->n_shown_ids; i++) {
        int32_t id = from->shown_ids[i];
        if (id >= 0 && (uint32_t)id < e->model->params.n_vocab) continue;
        return err_set(err, WEFT_ARGUMENT, "shown_ids %u is %d, the vocabulary has %u", i, id,
                       e->model->params.n_vocab);
    }
    return WEFT_OK;
}

weft_status text_check(const weft_engine *e, const weft_request *from, weft_error *err)
{
    weft_status status = sampling_check_texts("stop_texts", from->stop_texts, from->n_stop_texts,
                                              WEFT_STOP_TEXTS, err);
    if (status == WEFT_OK) status = check_shown(e, from, err);
    if (status != WEFT_OK || !wanted(from)) return status;
    return text_need_tokenizer(e, from->n_stop_texts > 0 ? "stop_texts" : "the text of an answer",
                               err);
}

static void open_reader(const weft_engine *e, const request_text *t, text_reader *reader,
                        uint32_t flags)
{
    detok_init(&reader->detok, e->options.tokenizer, e->env.allocator,
               (flags & WEFT_REQUEST_SPECIALS) != 0);
    reader->detok.shown = t->shown;
    reader->detok.n_shown = t->n_shown;
    if ((flags & WEFT_REQUEST_CONTINUES) != 0) detok_follow(&reader->detok);
}

bool text_init(const weft_engine *e, request *r, const weft_request *from)
{
    request_text *t = &r->text;
    t->stop_id = t->stop_text = -1;
    t->given = wanted(from);
    if (!t->given) return true;
    if (from->n_shown_ids > 0) {
        t->shown = mem_alloc(e->env.allocator, from->n_shown_ids * sizeof *t->shown);
        if (t->shown != NULL) {
            memcpy(t->shown, from->shown_ids, from->n_shown_ids * sizeof *t->shown);
            t->n_shown = from->n_shown_ids;
        }
    }
    open_reader(e, t, &t->stepping, from->flags);
    open_reader(e, t, &t->polling, from->flags);
    strbuf_init(&t->piece, e->env.allocator, 0);
    if (!stops_init(&t->stops, e->env.allocator, from->stop_texts, from->n_stop_texts))
        return false;
    if (t->n_shown < from->n_shown_ids) return false;
    return t->stops.n == 0 || detok_reserve(&t->stepping.detok, TOKEN_BYTES);
}

void text_deinit(const weft_engine *e, request *r)
{
    request_text *t = &r->text;
    if (!t->given) return;
    detok_deinit(&t->stepping.detok);
    detok_deinit(&t->polling.detok);
    strbuf_deinit(&t->piece);
    stops_deinit(&t->stops, e->env.allocator);
    mem_free(e->env.allocator, t->shown, t->n_shown * sizeof *t->shown);
}

/* ---- in the step ----------------------------------------------------------------------------- */

/* Whether text may end the answer that came with its n_new-th token, or behind it. */
static bool counts(const request *r, uint32_t n_new)
{
    return n_new > r->sampling.min_new;
}

static weft_status look(request *r, int32_t id, bool at_end, uint32_t n_new, weft_error *err)
{
    text_reader *reader = &r->text.stepping;
    str text;
    weft_status status = at_end ? detok_flush(&reader->detok, &text, err)
                                : detok_push(&reader->detok, id, &text, err);
    if (status == WEFT_OK && counts(r, n_new))
        stops_feed(&r->text.stops, &reader->stops, text.ptr, text.len, &r->text.stop_text);
    return status;
}

weft_finish text_settle(request *r, weft_finish finish)
{
    if (r->text.stops.n == 0) return finish;
    uint32_t n_new = r->n_tokens - r->n_prompt;
    weft_status status = WEFT_OK;
    if (r->text.stop_id < 0) status = look(r, r->tokens[r->n_tokens - 1], false, n_new, &r->error);
    if (status == WEFT_OK && finish != WEFT_FINISH_NONE && r->text.stop_text < 0)
        status = look(r, -1, true, n_new, &r->error);
    if (status != WEFT_OK) return WEFT_FINISH_ERROR;
    return r->text.stop_text >= 0 ? WEFT_FINISH_STOP : finish;
}

/* ---- when it is polled ----------------------------------------------------------------------- */

/* What the next token makes of the text so far, or its end; read once, also where memory for it is
 * refused at first. */
static weft_status read_fresh(request *r, bool at_end, weft_error *err)
{
    request_text *t = &r->text;
    detok *d = &t->polling.detok;
    if (t->has_fresh) return WEFT_OK;
    bool last = r->n_polled + 1 == r->n_tokens - r->n_prompt;
    weft_status status = WEFT_OK;
    t->fresh = (str){"", 0};
    if (at_end) {
        status = detok_flush(d, &t->fresh, err);
    } else if (!last || t->stop_id < 0) {
        status = detok_push(d, r->tokens[r->n_prompt + r->n_polled], &t->fresh, err);
    }
    t->has_fresh = status == WEFT_OK;
    return status;
}

/* How much of the piece can be given, when its last n_fresh bytes are new. */
static size_t showable(request *r, size_t n_fresh, bool at_end)
{
    request_text *t = &r->text;
    strbuf *piece = &t->piece;
    size_t before = piece->len - n_fresh;
    int32_t which = -1;
    /* What is left of a request that was cancelled ends nothing. */
    if (at_end && t->stop_text < 0) return piece->len;
    if (!counts(r, r->n_polled + !at_end)) return piece->len;
    size_t n = stops_feed(&t->stops, &t->polling.stops, piece->ptr + before, n_fresh, &which);
    if (which < 0) return piece->len - stops_held(&t->stops, &t->polling.stops);
    t->ended = true;
    bool shown = (r->flags & WEFT_REQUEST_SHOW_STOP) != 0;
    return before + n - (shown ? 0 : stops_length(&t->stops, (uint32_t)which));
}

weft_status text_give(request *r, weft_event *event, weft_error *err)
{
    request_text *t = &r->text;
    bool at_end = event->kind == WEFT_EVENT_DONE;
    if (!t->given || t->ended) return WEFT_OK;
    if (t->n_given > 0) memmove(t->piece.ptr, t->piece.ptr + t->n_given, t->piece.len - t->n_given);
    t->piece.len -= t->n_given;
    t->n_given = 0;
    weft_status status = read_fresh(r, at_end, err);
    if (status != WEFT_OK) return status;
    t->piece.status = WEFT_OK;
    if (strbuf_add(&t->piece, t->fresh.ptr, t->fresh.len) != WEFT_OK)
        return err_set(err, WEFT_NOMEM, "out of memory for a piece of text");
    t->has_fresh = false;
    t->n_given = showable(r, t->fresh.len, at_end);
    event->text = strbuf_text(&t->piece);
    event->n_text = (uint32_t)t->n_given;
    return WEFT_OK;
}
