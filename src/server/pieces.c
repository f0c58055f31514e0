/* pieces.c - parts to pieces. */
#include "server/pieces.h"

#include "base/mem.h"

void pieces_deinit(pieces *p)
{
    mem_free(mem_system(), p->all, p->capacity * sizeof *p->all);
    if (p->logprobs.allocator != NULL) strbuf_deinit(&p->logprobs);
    *p = (pieces){.all = NULL};
}

static void end_open(pieces *p, answer *a, bool whole, const piece_writer *w)
{
    if (!p->open) return;
    p->open = false;
    piece *last = &p->all[p->n - 1];
    last->whole = whole || last->kind != WEFT_PART_CALL;
    if (w != NULL) w->ends(a, last, p->n - 1);
}

static void begin_piece(pieces *p, answer *a, piece made, const piece_writer *w)
{
    end_open(p, a, false, w);
    if (p->n == p->capacity) {
        uint32_t capacity = p->capacity == 0 ? 8 : 2 * p->capacity;
        piece *all =
            mem_resize(mem_system(), p->all, p->capacity * sizeof *all, capacity * sizeof *all);
        if (all == NULL) {
            err_set(&a->g->err, WEFT_NOMEM, "out of memory for the answer");
            return;
        }
        p->all = all;
        p->capacity = capacity;
    }
    p->all[p->n++] = made;
    p->open = true;
    if (w != NULL) w->begins(a, &p->all[p->n - 1], p->n - 1);
}

/* What was sampled since the last part is of this one; of reasoning nothing
 * is kept. */
static void take_logprobs(pieces *p, answer *a)
{
    piece *last = &p->all[p->n - 1];
    size_t n = a->logprobs.len;
    p->new_logprobs = (str){"", 0};
    if (last->kind == WEFT_PART_CONTENT && n > 0) {
        if (p->logprobs.allocator == NULL) strbuf_init(&p->logprobs, mem_system(), 0);
        if (last->n_logprobs > 0) strbuf_add_char(&p->logprobs, ',');
        strbuf_add(&p->logprobs, a->logprobs.ptr, n);
        if (p->logprobs.status != WEFT_OK) {
            err_set(&a->g->err, WEFT_NOMEM, "out of memory for the answer");
            return;
        }
        /* Its end says all of them once more. */
        if (a->g->asked.stream && !generation_keep(a->g, n)) return;
        last->n_logprobs = p->logprobs.len - last->first_logprob;
        p->new_logprobs = (str){p->logprobs.ptr + p->logprobs.len - n, n};
    }
    strbuf_clear(&a->logprobs);
}

static void add_text(pieces *p, answer *a, const weft_part *part, const piece_writer *w)
{
    if (part->n_bytes == 0) return;
    if (!p->open || p->all[p->n - 1].kind != part->kind) {
        const strbuf *of = part->kind == WEFT_PART_CONTENT ? &a->content : &a->reasoning;
        /* The answer has the part already. */
        piece made = {
            .kind = part->kind, .first = of->len - part->n_bytes, .first_logprob = p->logprobs.len};
        begin_piece(p, a, made, w);
    }
    if (!p->open) return;
    p->all[p->n - 1].n_bytes += part->n_bytes;
    take_logprobs(p, a);
    if (w != NULL) w->adds(a, &p->all[p->n - 1], p->n - 1, (str){part->text, part->n_bytes});
}

void pieces_take(pieces *p, answer *a, const weft_part *part, const piece_writer *w)
{
    uint32_t n_new = a->n_ids - p->n_ids;
    bool in_call = p->open && p->all[p->n - 1].kind == WEFT_PART_CALL;
    p->n_ids = a->n_ids;
    if (part->kind == WEFT_PART_REASONING) p->n_reasoning_ids += n_new;
    bool is_call = part->kind == WEFT_PART_CALL || part->kind == WEFT_PART_ARGUMENTS ||
                   part->kind == WEFT_PART_CALL_END;
    /* Tokens of calls are of no text. */
    if (is_call) strbuf_clear(&a->logprobs);
    switch (part->kind) {
    case WEFT_PART_CONTENT:
    case WEFT_PART_REASONING:
        add_text(p, a, part, w);
        break;
    case WEFT_PART_CALL:
        begin_piece(p, a, (piece){.kind = WEFT_PART_CALL, .call = part->call}, w);
        break;
    case WEFT_PART_ARGUMENTS:
        if (in_call && part->n_bytes > 0 && w != NULL)
            w->adds(a, &p->all[p->n - 1], p->n - 1, (str){part->text, part->n_bytes});
        break;
    case WEFT_PART_CALL_END:
    case WEFT_PART_CALL_UNDONE:
        if (in_call) end_open(p, a, part->kind == WEFT_PART_CALL_END, w);
        break;
    case WEFT_PART_NONE:
        break;
    }
}

void pieces_finish(pieces *p, answer *a, const piece_writer *w)
{
    end_open(p, a, false, w);
}

str piece_text(const answer *a, const piece *p)
{
    const strbuf *of = p->kind == WEFT_PART_CONTENT     ? &a->content
                       : p->kind == WEFT_PART_REASONING ? &a->reasoning
                                                        : &a->calls[p->call].arguments;
    if (p->kind == WEFT_PART_CALL) return (str){strbuf_text(of), of->len};
    return (str){strbuf_text(of) + p->first, p->n_bytes};
}

str piece_logprobs(const pieces *p, const piece *of)
{
    return (str){strbuf_text(&p->logprobs) + of->first_logprob, of->n_logprobs};
}
