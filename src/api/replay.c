/* replay.c - answers as they were sampled, in the place of the same answers as text.
 *
 * What a client sends back may be other tokens than those that were sampled, and another text than
 * the model's own (calls written anew, white space gone). Here the messages are rendered with marks
 * in the place of such answers; where a mark is, the tokens go. How the rest is divided into tokens
 * must not change: so a token that nothing joins stands at the mark while the whole is encoded, and
 * is then replaced.
 *
 * Everything is checked against the rendering of the messages as they are: a template that drops a
 * mark, or says something else around it, gets the message as it is. */
#include <stdio.h>
#include <string.h>

#include "api/conversation.h"
#include "base/hash.h"
#include "tokenizer/detok.h"

/* Renderings with marks that are tried. */
enum { ROUNDS = 3 };

/* One answer that was sampled. */
typedef struct replayed {
    size_t message;
    const json *ids;
    uint32_t n, from;   /* ids from the from-th on are put in place */
    uint32_t behind;    /* the first id behind reasoning; 0: there is none */
    strbuf text;        /* of all */
    size_t first, last; /* bytes of the rendered text that they replace */
} replayed;

typedef struct replay {
    weft_chat *chat;
    const json *messages;
    const chat_input *input;
    bool as_given;
    const template_output *plain;
    replayed *items; /* [n] */
    size_t n, n_messages;
    chat_mark *marks; /* [n_messages] */
    strbuf opening;   /* what the template begins an answer with; empty: it is not known */
    template_output out;
} replay;

static weft_status no_memory(weft_error *err)
{
    return err_set(err, WEFT_NOMEM, "out of memory for answers as they were sampled");
}

/* ---- ids ------------------------------------------------------------------------------------- */

static int32_t id_at(const replayed *r, size_t i)
{
    return (int32_t)json_int(json_at(r->ids, i), -1);
}

/* The text of the ids, and where reasoning ends in them: at the end of a token, or nowhere. */
static weft_status decode(const weft_chat *c, replayed *r, weft_error *err)
{
    detok d;
    str piece;
    weft_status status = WEFT_OK;
    const char *close = c->reading.dialect->channels ? "<|message|>" : c->reading.think_close;
    detok_init(&d, c->model->tokenizer, &c->allocator, true);
    detok_follow(&d);
    for (uint32_t i = 0; i < r->n && status == WEFT_OK; i++) {
        status = detok_push(&d, id_at(r, i), &piece, err);
        if (status == WEFT_OK) status = strbuf_add(&r->text, piece.ptr, piece.len);
        bool first = r->behind == 0 || c->reading.dialect->channels;
        if (close != NULL && first && str_ends(call_text(&r->text), close)) r->behind = i + 1;
    }
    if (status == WEFT_OK) status = detok_flush(&d, &piece, err);
    if (status == WEFT_OK) status = strbuf_add(&r->text, piece.ptr, piece.len);
    detok_deinit(&d);
    return status == WEFT_OK ? status : no_memory(err);
}

static weft_status take_ids(replay *p, const json *ids, size_t message, size_t *n_all,
                            weft_error *err)
{
    replayed *r = &p->items[p->n++];
    size_t n = json_length(ids);
    uint32_t n_vocab = p->chat->model->model->params.n_vocab;
    *r = (replayed){.message = message, .ids = ids};
    strbuf_init(&r->text, &p->chat->allocator, 0);
    *n_all += n;
    if (json_kind_of(ids) != JSON_KIND_ARRAY)
        return err_set(err, WEFT_ARGUMENT, "message %zu: answer_ids are no array", message);
    if (*n_all > CHAT_REPLAYED_IDS)
        return err_set(err, WEFT_LIMIT, "there are more than %d answer_ids", CHAT_REPLAYED_IDS);
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_at(ids, i), -1);
        if (id >= 0 && id < n_vocab) continue;
        return err_set(err, WEFT_ARGUMENT,
                       "message %zu: answer_ids %zu is %lld, the vocabulary has %u", message, i,
                       (long long)id, n_vocab);
    }
    r->n = (uint32_t)n;
    return decode(p->chat, r, err);
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Words that are nowhere in the messages, and that no template changes. */
static void make_marks(replay *p)
{
    str plain = {strbuf_text(&p->plain->text), p->plain->text.len};
    unsigned long long seed = hash_xx64(plain.ptr, plain.len, p->n_messages);
    for (size_t i = 0; i < p->n; i++) {
        chat_mark *m = &p->marks[p->items[i].message];
        m->used = p->items[i].n > 0;
        m->thinks = p->items[i].behind > 0 && !p->chat->reading.dialect->channels;
        snprintf(m->content, sizeof m->content, "Xc%llux%zuX", seed, i);
        snprintf(m->thought, sizeof m->thought, "Xt%llux%zuX", seed, i);
    }
}

#define NOWHERE SIZE_MAX

static size_t find_from(str text, size_t from, str what)
{
    for (size_t i = from; what.len > 0 && i + what.len <= text.len; i++) {
        const char *at = memchr(text.ptr + i, what.ptr[0], text.len - what.len + 1 - i);
        if (at == NULL) return NOWHERE;
        i = (size_t)(at - text.ptr);
        if (memcmp(at, what.ptr, what.len) == 0) return i;
    }
    return NOWHERE;
}

/* NOWHERE also when it is there more than once. */
static size_t find_once(str text, const char *what)
{
    size_t at = find_from(text, 0, str_of(what));
    if (at == NOWHERE) return NOWHERE;
    return find_from(text, at + 1, str_of(what)) == NOWHERE ? at : NOWHERE;
}

static size_t find_last(str text, str what)
{
    for (size_t i = text.len; what.len > 0 && i >= what.len; i--) {
        if (memcmp(text.ptr + i - what.len, what.ptr, what.len) == 0) return i - what.len;
    }
    return NOWHERE;
}

static bool skip(str *text, const char *what)
{
    while (text->len > 0 && call_is_space(text->ptr[0])) {
        text->ptr++;
        text->len--;
    }
    if (!str_starts(*text, what)) return false;
    text->ptr += strlen(what);
    text->len -= strlen(what);
    return true;
}

/* Whether there is nothing but empty reasoning. */
static bool is_empty_thought(const chat_reading *how, str text)
{
    if (how->think_open != NULL) {
        (void)skip(&text, how->think_open);
        (void)skip(&text, how->think_close);
    }
    (void)skip(&text, "");
    return text.len == 0;
}

static bool starts_with(str text, str with)
{
    return text.len >= with.len && memcmp(text.ptr, with.ptr, with.len) == 0;
}

/* An answer begins where the template's opening ends: what the template has between that and a
 * mark is the beginning of what was sampled, or an empty thought that was not. */
static void move_to_opening(const replay *p, str text, const replayed *r, size_t *first)
{
    str opening = call_text(&p->opening);
    size_t at = find_last((str){text.ptr, *first}, opening);
    if (at == NOWHERE) return;
    at += opening.len;
    str between = {text.ptr + at, *first - at};
    if (starts_with(call_text(&r->text), between) || is_empty_thought(&p->chat->reading, between))
        *first = at;
}

/* The reasoning is not there: only what follows it is put in place, from the first id that is more
 * than white space, and only if that begins with none. */
static bool place_behind(const replay *p, replayed *r)
{
    strbuf text;
    bool found = false, whole = true;
    strbuf_init(&text, &p->chat->allocator, 0);
    for (r->from = r->behind; r->from < r->n && !found; r->from++) {
        strbuf_clear(&text);
        if (tokenizer_bytes(p->chat->model->tokenizer, id_at(r, r->from), true, &text) != WEFT_OK)
            break;
        size_t n_space = 0;
        while (n_space < text.len && call_is_space(text.ptr[n_space])) n_space++;
        found = n_space < text.len;
        whole = n_space == 0 || !found;
    }
    if (found) r->from--;
    strbuf_deinit(&text);
    return found && whole;
}

/* Whether an answer of messages is one whose place in a template is known: the last one, for the
 * user. */
static bool is_final(const replayed *r)
{
    str text = call_text(&r->text);
    size_t at = find_last(text, str_of("<|channel|>"));
    if (at == NOWHERE) return false;
    str last = {text.ptr + at, text.len - at};
    return starts_with(last, str_of("<|channel|>final<|message|>"));
}

/* Where the ids of one answer go; false: nowhere. */
static bool place(replay *p, str text, replayed *r)
{
    const chat_mark *m = &p->marks[r->message];
    const chat_reading *how = &p->chat->reading;
    size_t content = find_once(text, m->content);
    if (content == NOWHERE) return false;
    r->first = content;
    r->last = content + strlen(m->content);
    r->from = 0;
    if (how->dialect->channels && r->behind > 0) return is_final(r) && place_behind(p, r);
    if (!m->thinks) {
        move_to_opening(p, text, r, &r->first);
        return true;
    }
    size_t thought = find_once(text, m->thought);
    if (thought == NOWHERE)
        return find_from(text, 0, str_of(m->thought)) == NOWHERE && place_behind(p, r);
    if (thought > content) return false;
    str said = call_text(&r->text), before = {text.ptr, thought};
    r->first = thought;
    /* Where the prompt did not open the reasoning, the answer did. */
    if (skip(&said, how->think_open)) {
        r->first = find_last(before, str_of(how->think_open));
        if (r->first == NOWHERE) return false;
    }
    move_to_opening(p, text, r, &r->first);
    return p->opening.len == 0 || str_ends((str){text.ptr, r->first}, strbuf_text(&p->opening));
}

/* ---- what a template says around them -------------------------------------------------------- */

/* Whether what is before, between and behind the places is what the messages as they are come to.
 * Names of the first whose surroundings are not in *bad. */
static bool same_around(const replay *p, str text, size_t *bad)
{
    str plain = {strbuf_text(&p->plain->text), p->plain->text.len};
    size_t at = 0, from = 0;
    *bad = NOWHERE;
    for (size_t i = 0; i < p->n; i++) {
        const replayed *r = &p->items[i];
        if (!p->marks[r->message].used) continue;
        *bad = i;
        if (r->first < from) return false;
        str piece = {text.ptr + from, r->first - from};
        size_t found = piece.len == 0 ? at : find_from(plain, at, piece);
        if (found == NOWHERE || (from == 0 && found != 0)) return false;
        at = found + piece.len;
        from = r->last;
    }
    str rest = {text.ptr + from, text.len - from};
    return rest.len <= plain.len - at &&
           memcmp(plain.ptr + plain.len - rest.len, rest.ptr, rest.len) == 0;
}

/* The difference that add_generation_prompt makes. */
static weft_status find_opening(replay *p, weft_error *err)
{
    template_output without;
    strbuf text;
    chat_input input = *p->input;
    input.generate = false;
    template_output_init(&without, &p->chat->allocator);
    strbuf_init(&text, &p->chat->allocator, 0);
    weft_status status = chat_write_messages(p->messages, p->as_given, NULL, &text, err);
    input.messages = call_text(&text);
    weft_error own = {.status = WEFT_OK};
    if (status == WEFT_OK && p->input->generate &&
        api_render(p->chat->model, &input, &without, &own) == WEFT_OK) {
        str plain = {strbuf_text(&p->plain->text), p->plain->text.len};
        str less = {strbuf_text(&without.text), without.text.len};
        if (starts_with(plain, less))
            status = strbuf_add(&p->opening, plain.ptr + less.len, plain.len - less.len);
    }
    if (own.status == WEFT_NOMEM) status = WEFT_NOMEM;
    strbuf_deinit(&text);
    template_output_deinit(&without);
    return status == WEFT_OK ? status : no_memory(err);
}

static weft_status render_marked(replay *p, weft_error *err)
{
    strbuf text;
    chat_input input = *p->input;
    strbuf_init(&text, &p->chat->allocator, 0);
    weft_status status = chat_write_messages(p->messages, p->as_given, p->marks, &text, err);
    input.messages = call_text(&text);
    template_output_deinit(&p->out);
    template_output_init(&p->out, &p->chat->allocator);
    if (status == WEFT_OK) status = api_render(p->chat->model, &input, &p->out, err);
    strbuf_deinit(&text);
    return status;
}

static void give_up(replay *p)
{
    for (size_t i = 0; i < p->n; i++) p->marks[p->items[i].message].used = false;
}

static uint32_t count_used(const replay *p)
{
    uint32_t n = 0;
    for (size_t i = 0; i < p->n; i++) n += p->marks[p->items[i].message].used;
    return n;
}

/* Marks that have no place are given up, and the rest is rendered again. */
static weft_status find_places(replay *p, weft_error *err)
{
    for (int round = 0; round < ROUNDS && count_used(p) > 0; round++) {
        weft_error own = {.status = WEFT_OK};
        weft_status status = render_marked(p, &own);
        if (status == WEFT_NOMEM) return no_memory(err);
        if (status != WEFT_OK) break;
        str text = {strbuf_text(&p->out.text), p->out.text.len};
        bool all = true;
        for (size_t i = 0; i < p->n; i++) {
            chat_mark *m = &p->marks[p->items[i].message];
            if (!m->used) continue;
            m->used = place(p, text, &p->items[i]);
            all = all && m->used;
        }
        if (!all) continue;
        size_t bad;
        if (same_around(p, text, &bad)) return WEFT_OK;
        if (bad == NOWHERE) break;
        p->marks[p->items[bad].message].used = false;
    }
    give_up(p);
    return WEFT_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static weft_status add_span(template_output *to, size_t first, size_t n_bytes, weft_error *err)
{
    if (to->n_spans == to->spans_capacity) {
        size_t capacity = to->spans_capacity < 16 ? 16 : 2 * to->spans_capacity;
        template_span *spans =
            mem_resize(to->text.allocator, to->spans, to->spans_capacity * sizeof *spans,
                       capacity * sizeof *spans);
        if (spans == NULL) return no_memory(err);
        to->spans = spans;
        to->spans_capacity = capacity;
    }
    to->spans[to->n_spans++] = (template_span){first, n_bytes};
    return WEFT_OK;
}

/* Appends bytes [first, last) of the rendered text and the spans in them. */
static weft_status copy_piece(const template_output *from, size_t first, size_t last,
                              template_output *to, weft_error *err)
{
    size_t at = to->text.len;
    weft_status status = strbuf_add(&to->text, strbuf_text(&from->text) + first, last - first);
    if (status != WEFT_OK) return no_memory(err);
    for (size_t i = 0; i < from->n_spans && status == WEFT_OK; i++) {
        size_t a = from->spans[i].first, b = a + from->spans[i].n_bytes;
        if (a < first) a = first;
        if (b > last) b = last;
        if (a < b) status = add_span(to, at + a - first, b - a, err);
    }
    return status;
}

static weft_status encode(const weft_chat *c, template_output *out, token_list *list,
                          weft_error *err)
{
    str text = {strbuf_text(&out->text), out->text.len};
    api_trust_words(c->model, out);
    return tokenizer_encode_apart(c->model->tokenizer, text, out->spans, out->n_spans, list, err);
}

static size_t count_id(const token_list *list, int32_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < list->len; i++) n += list->ids[i] == id;
    return n;
}

static weft_status put_id(token_list *list, int32_t id)
{
    if (list->len == list->capacity) {
        size_t capacity = list->capacity < 64 ? 64 : 2 * list->capacity;
        int32_t *ids = mem_resize(list->allocator, list->ids, list->capacity * sizeof *ids,
                                  capacity * sizeof *ids);
        if (ids == NULL) return WEFT_NOMEM;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->len++] = id;
    return WEFT_OK;
}

/* The whole, with the token at each place; [n_before] how many of the same are before each place of
 * the template's own. */
static weft_status build_whole(const replay *p, int32_t token, template_output *whole,
                               size_t *n_before, weft_error *err)
{
    size_t from = 0, n = 0, n_places = 0;
    str name = tokenizer_token(p->chat->model->tokenizer, token);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i <= p->n && status == WEFT_OK; i++) {
        bool last = i == p->n;
        if (!last && !p->marks[p->items[i].message].used) continue;
        size_t to = last ? p->out.text.len : p->items[i].first;
        template_output piece;
        token_list ids;
        template_output_init(&piece, &p->chat->allocator);
        token_list_init(&ids, &p->chat->allocator);
        status = copy_piece(&p->out, from, to, &piece, err);
        if (status == WEFT_OK) status = encode(p->chat, &piece, &ids, err);
        if (status == WEFT_OK) status = copy_piece(&p->out, from, to, whole, err);
        n += count_id(&ids, token);
        n_before[n_places++] = n;
        if (!last) {
            if (status == WEFT_OK && strbuf_add(&whole->text, name.ptr, name.len) != WEFT_OK)
                status = no_memory(err);
            from = p->items[i].last;
        }
        token_list_deinit(&ids);
        template_output_deinit(&piece);
    }
    return status;
}

/* The i-th of the places is the token behind n_before[i] others and i places. */
static weft_status put_in_place(const replay *p, int32_t token, const token_list *ids,
                                const size_t *n_before, weft_error *err)
{
    token_list *out = &p->chat->prompt;
    size_t n_seen = 0, n_places = 0, item = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ids->len && status == WEFT_OK; i++) {
        bool at = ids->ids[i] == token && n_places < count_used(p) &&
                  n_seen == n_before[n_places] + n_places;
        n_seen += ids->ids[i] == token;
        if (!at) {
            status = put_id(out, ids->ids[i]);
            continue;
        }
        while (!p->marks[p->items[item].message].used) item++;
        const replayed *r = &p->items[item++];
        for (uint32_t k = r->from; k < r->n && status == WEFT_OK; k++)
            status = put_id(out, id_at(r, k));
        n_places++;
    }
    return status == WEFT_OK ? status : no_memory(err);
}

static weft_status encode_all(replay *p, weft_error *err)
{
    weft_chat *c = p->chat;
    uint32_t n_used = count_used(p);
    int32_t token = tokenizer_eos(c->model->tokenizer);
    if (n_used == 0 || token < 0 || !tokenizer_is_special(c->model->tokenizer, token))
        return WEFT_OK;
    template_output whole;
    token_list ids;
    size_t bytes = ((size_t)n_used + 1) * sizeof(size_t);
    size_t *n_before = mem_alloc(&c->allocator, bytes);
    template_output_init(&whole, &c->allocator);
    token_list_init(&ids, &c->allocator);
    weft_status status = n_before != NULL ? WEFT_OK : no_memory(err);
    if (status == WEFT_OK) status = build_whole(p, token, &whole, n_before, err);
    if (status == WEFT_OK) status = encode(c, &whole, &ids, err);
    /* Where that is not so, the tokenizer has joined it to something. */
    if (status == WEFT_OK && count_id(&ids, token) == n_before[n_used] + n_used) {
        status = put_in_place(p, token, &ids, n_before, err);
        if (status == WEFT_OK) c->n_replayed = n_used;
    }
    token_list_deinit(&ids);
    template_output_deinit(&whole);
    mem_free(&c->allocator, n_before, bytes);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static weft_status run(replay *p, weft_error *err)
{
    weft_status status = WEFT_OK;
    size_t n_all = 0;
    for (size_t i = 0; i < p->n_messages && status == WEFT_OK; i++) {
        const json *ids = json_get(json_at(p->messages, i), "answer_ids");
        if (json_kind_of(ids) != JSON_KIND_NULL) status = take_ids(p, ids, i, &n_all, err);
    }
    if (status == WEFT_OK) status = find_opening(p, err);
    if (status != WEFT_OK) return status;
    make_marks(p);
    status = find_places(p, err);
    return status == WEFT_OK ? encode_all(p, err) : status;
}

weft_status chat_replay(weft_chat *chat, const json *messages, const chat_input *input,
                        bool as_given, const template_output *plain, weft_error *err)
{
    const weft_allocator *a = &chat->allocator;
    replay p = {.chat = chat,
                .messages = messages,
                .input = input,
                .as_given = as_given,
                .plain = plain,
                .n_messages = json_length(messages)};
    size_t n_answers = 0;
    for (size_t i = 0; i < p.n_messages; i++)
        n_answers += json_get(json_at(messages, i), "answer_ids") != NULL;
    if (n_answers > CHAT_REPLAYED) {
        return err_set(err, WEFT_LIMIT, "%zu messages have answer_ids, at most %d may", n_answers,
                       CHAT_REPLAYED);
    }
    template_output_init(&p.out, a);
    strbuf_init(&p.opening, a, 0);
    p.items = mem_alloc_zero(a, n_answers * sizeof *p.items);
    p.marks = mem_alloc_zero(a, p.n_messages * sizeof *p.marks);
    weft_status status = p.items != NULL && p.marks != NULL ? run(&p, err) : no_memory(err);
    for (size_t i = 0; i < p.n; i++) strbuf_deinit(&p.items[i].text);
    mem_free(a, p.items, n_answers * sizeof *p.items);
    mem_free(a, p.marks, p.n_messages * sizeof *p.marks);
    strbuf_deinit(&p.opening);
    template_output_deinit(&p.out);
    return status;
}
