/* json_cut.c - finds the vocabulary and the merges in tokenizer.json. */
#include "tokenizer/json_cut.h"

/* One list that is cut out. */
typedef struct cut_list {
    const char *key;
    str span;
    size_t n;
} cut_list;

/* The members of 'model', at which r stands. A list that stands there twice is cut once, so that
 * the parser of the rest finds its key twice. */
static weft_status walk_model(json_reader *r, cut_list lists[2], weft_error *err)
{
    bool first = true;
    bool more;
    weft_status status = json_reader_open(r, '{', err);
    while (status == WEFT_OK) {
        str key;
        str span;
        size_t n;
        status = json_reader_more(r, '{', &first, &more, err);
        if (status != WEFT_OK || !more) break;
        status = json_reader_key(r, &key, err);
        if (status != WEFT_OK) break;
        cut_list *list = NULL;
        for (int i = 0; i < 2; i++) {
            if (str_equal_text(key, lists[i].key)) list = &lists[i];
        }
        json_kind kind = json_reader_kind(r);
        status = json_reader_skip(r, &span, &n, err);
        if (status != WEFT_OK || list == NULL || list->span.len != 0) continue;
        if (kind != JSON_KIND_ARRAY && kind != JSON_KIND_OBJECT) continue;
        list->span = span;
        list->n = n;
    }
    return status;
}

static weft_status walk_file(json_reader *r, cut_list lists[2], str *added, weft_error *err)
{
    bool first = true;
    bool more;
    weft_status status = json_reader_open(r, '{', err);
    while (status == WEFT_OK) {
        str key;
        str span;
        size_t n;
        status = json_reader_more(r, '{', &first, &more, err);
        if (status != WEFT_OK || !more) break;
        status = json_reader_key(r, &key, err);
        if (status != WEFT_OK) break;
        json_kind kind = json_reader_kind(r);
        bool model = kind == JSON_KIND_OBJECT && str_equal_text(key, "model");
        bool is_added = kind == JSON_KIND_ARRAY && str_equal_text(key, "added_tokens");
        status = model ? walk_model(r, lists, err) : json_reader_skip(r, &span, &n, err);
        if (status == WEFT_OK && is_added && added->len == 0) *added = span;
    }
    return status == WEFT_OK ? json_reader_end(r, err) : status;
}

enum { SPANS = 3 };

/* text with these lists empty; one that is empty itself is not there. */
static void write_without(str text, str spans[SPANS], strbuf *out)
{
    const char *at = text.ptr;
    for (int n = 0; n < SPANS; n++) {
        const str *next = NULL;
        for (int i = 0; i < SPANS; i++) {
            bool done = spans[i].len == 0 || spans[i].ptr < at;
            if (!done && (next == NULL || spans[i].ptr < next->ptr)) next = &spans[i];
        }
        if (next == NULL) break;
        strbuf_add(out, at, (size_t)(next->ptr - at));
        strbuf_add_text(out, next->ptr[0] == '{' ? "{}" : "[]");
        at = next->ptr + next->len;
    }
    strbuf_add(out, at, (size_t)(text.ptr + text.len - at));
}

weft_status json_cut_init(json_cut *c, const weft_allocator *allocator, str text, weft_error *err)
{
    cut_list lists[2] = {{"vocab", {"", 0}, 0}, {"merges", {"", 0}, 0}};
    strbuf room;
    json_reader r;
    str added = {"", 0};
    *c = (json_cut){.vocab = {"", 0}, .merges = {"", 0}, .added = {"", 0}};
    strbuf_init(&c->rest, allocator, 0);
    strbuf_init(&room, allocator, 0);
    json_reader_init(&r, text, &room);
    weft_status status = walk_file(&r, lists, &added, NULL);
    strbuf_deinit(&room);
    if (status == WEFT_NOMEM) return err_set(err, status, "out of memory for tokenizer.json");
    if (status != WEFT_OK) lists[0].span.len = lists[1].span.len = 0;
    write_without(text, (str[SPANS]){lists[0].span, lists[1].span, {"", 0}}, &c->rest);
    if (c->rest.status != WEFT_OK)
        return err_set(err, c->rest.status, "out of memory for tokenizer.json");
    if (lists[0].span.len != 0) c->vocab = lists[0].span;
    if (lists[1].span.len != 0) c->merges = lists[1].span;
    if (lists[0].span.len != 0) c->vocab_at = (size_t)(c->vocab.ptr - text.ptr);
    if (lists[1].span.len != 0) c->merges_at = (size_t)(c->merges.ptr - text.ptr);
    c->n_vocab = lists[0].n;
    c->n_merges = lists[1].n;
    if (status == WEFT_OK) c->added = added;
    return WEFT_OK;
}

void json_cut_bare(const json_cut *c, str text, strbuf *out)
{
    write_without(text, (str[SPANS]){c->vocab, c->merges, c->added}, out);
}

void json_cut_deinit(json_cut *c)
{
    strbuf_deinit(&c->rest);
}
