/* normalize.c - Unicode normal forms by utf8proc's tables, in linear time and the caller's
 * memory.
 *
 * utf8proc sorts combining marks by exchanging neighbours, which a text of nothing but marks
 * makes quadratic, and its one-call interface allocates by itself: so characters are decomposed
 * one by one, sorted here, and composed in place. A text falls into units at each ASCII
 * character: nothing composes with what is before one, and no mark moves past it. Source:
 * Unicode Standard Annex 15. */
#include "tokenizer/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/bytelevel.h"
#include "tokenizer/chars.h"

enum {
    EXPANSION = 18,  /* most characters that one becomes (U+FDFA) */
    SHORT_RUN = 16,  /* marks that are sorted by insertion */
    CLASSES = 256,   /* combining classes */
    MIN_CHARS = 256, /* first size of the buffers */
};

/* ---- building ---- */

weft_status normalizer_init(normalizer *n, const weft_allocator *allocator, weft_error *err)
{
    n->n_steps = 0;
    arena_init(&n->arena, allocator, 0);
    return regex_memory_init(&n->memory, allocator, err);
}

void normalizer_deinit(normalizer *n)
{
    for (uint32_t i = 0; i < n->n_steps; i++) replace_deinit(&n->steps[i].replace);
    n->n_steps = 0;
    regex_memory_deinit(&n->memory);
    if (n->arena.allocator != NULL) arena_deinit(&n->arena);
}

static weft_status add(normalizer *n, normalizer_step step, weft_error *err)
{
    if (n->n_steps == NORMALIZER_STEPS) {
        return err_set(err, WEFT_LIMIT, "tokenizer: more than %d normalizers are not supported",
                       NORMALIZER_STEPS);
    }
    n->steps[n->n_steps++] = step;
    return WEFT_OK;
}

weft_status normalizer_add(normalizer *n, normalizer_kind kind, weft_error *err)
{
    return add(n, (normalizer_step){.kind = kind}, err);
}

weft_status normalizer_strip(normalizer *n, bool left, bool right, weft_error *err)
{
    normalizer_step step = {.kind = NORMALIZE_STRIP, .left = left, .right = right};
    return add(n, step, err);
}

static weft_status copy(normalizer *n, str *text, weft_error *err)
{
    text->ptr = arena_copy_text(&n->arena, text->ptr, text->len);
    return text->ptr != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for a normalizer");
}

weft_status normalizer_prepend(normalizer *n, str text, bool first, weft_error *err)
{
    weft_status status = copy(n, &text, err);
    if (status != WEFT_OK) return status;
    return add(n, (normalizer_step){.kind = NORMALIZE_PREPEND, .first = first, .text = text}, err);
}

weft_status normalizer_replace(normalizer *n, str from, bool literal, str to, weft_error *err)
{
    weft_status status = normalizer_add(n, NORMALIZE_REPLACE, err);
    if (status != WEFT_OK) return status;
    replace *r = &n->steps[n->n_steps - 1].replace;
    return replace_init(r, &n->arena, &n->memory, from, literal, to, err);
}

weft_status normalizer_charsmap(normalizer *n, normalizer_kind kind, str blob, weft_error *err)
{
    normalizer_step step = {.kind = kind};
    weft_status status = copy(n, &blob, err);
    if (status == WEFT_OK) status = charsmap_open(&step.map, blob, err);
    return status == WEFT_OK ? add(n, step, err) : status;
}

/* ---- normal forms ---- */

void normalizer_scratch_init(normalizer_scratch *s, const weft_allocator *allocator,
                             size_t limit_bytes)
{
    *s = (normalizer_scratch){.allocator = allocator};
    strbuf_init(&s->texts[0], allocator, limit_bytes);
    strbuf_init(&s->texts[1], allocator, limit_bytes);
}

void normalizer_scratch_deinit(normalizer_scratch *s)
{
    strbuf_deinit(&s->texts[0]);
    strbuf_deinit(&s->texts[1]);
    mem_free(s->allocator, s->chars, s->n_chars * sizeof *s->chars);
    mem_free(s->allocator, s->marks, s->n_marks * sizeof *s->marks);
    if (s->search_bytes != 0) regex_search_deinit(&s->search);
}

static bool is_ascii(str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] >= 0x80) return false;
    }
    return true;
}

static weft_status grow(normalizer_scratch *s, int32_t **chars, size_t *n, size_t need)
{
    if (need <= *n) return WEFT_OK;
    size_t count = *n < MIN_CHARS ? MIN_CHARS : *n * 2;
    if (count < need) count = need;
    int32_t *grown = mem_resize(s->allocator, *chars, *n * sizeof **chars, count * sizeof **chars);
    if (grown == NULL) return WEFT_NOMEM;
    *chars = grown;
    *n = count;
    return WEFT_OK;
}

static uint32_t class_of(int32_t c)
{
    return (uint32_t)utf8proc_get_property(c)->combining_class;
}

static void sort_short(int32_t *marks, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int32_t mark = marks[i];
        size_t at = i;
        for (; at > 0 && class_of(marks[at - 1]) > class_of(mark); at--) marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

/* Stable, by counting. */
static weft_status sort_long(normalizer_scratch *s, int32_t *marks, size_t n)
{
    size_t starts[CLASSES + 1] = {0};
    weft_status status = grow(s, &s->marks, &s->n_marks, n);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < n; i++) starts[class_of(marks[i]) % CLASSES + 1]++;
    for (size_t i = 1; i < CLASSES; i++) starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++) s->marks[starts[class_of(marks[i]) % CLASSES]++] = marks[i];
    memcpy(marks, s->marks, n * sizeof *marks);
    return WEFT_OK;
}

/* Canonical order: runs of marks by their class. */
static weft_status sort_marks(normalizer_scratch *s, size_t n)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && status == WEFT_OK;) {
        size_t end = i;
        while (end < n && class_of(s->chars[end]) != 0) end++;
        if (end - i > SHORT_RUN) {
            status = sort_long(s, s->chars + i, end - i);
        } else {
            sort_short(s->chars + i, end - i);
        }
        i = end + 1;
    }
    return status;
}

static utf8proc_option_t options_of(normalizer_kind kind)
{
    switch (kind) {
    case NORMALIZE_NFD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NORMALIZE_NFKD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    case NORMALIZE_NFKC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    default:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    }
}

/* One unit: an ASCII character at most, then others. */
static weft_status normalize_unit(normalizer_scratch *s, utf8proc_option_t options, str unit,
                                  strbuf *out)
{
    size_t n = 0;
    for (size_t at = 0; at < unit.len;) {
        uint32_t c;
        size_t used = utf8_decode(unit.ptr + at, unit.len - at, &c);
        if (used == 0) return WEFT_FORMAT;
        weft_status status = grow(s, &s->chars, &s->n_chars, n + EXPANSION);
        if (status != WEFT_OK) return status;
        int boundary = 0;
        utf8proc_ssize_t added =
            utf8proc_decompose_char((utf8proc_int32_t)c, s->chars + n,
                                    (utf8proc_ssize_t)(s->n_chars - n), options, &boundary);
        if (added < 0 || (size_t)added > s->n_chars - n) return WEFT_FORMAT;
        n += (size_t)added;
        at += used;
    }
    weft_status status = sort_marks(s, n);
    if (status != WEFT_OK) return status;
    utf8proc_ssize_t left = (options & UTF8PROC_COMPOSE) == 0
                                ? (utf8proc_ssize_t)n
                                : utf8proc_normalize_utf32(s->chars, (utf8proc_ssize_t)n, options);
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        char bytes[4];
        strbuf_add(out, bytes, utf8_encode((uint32_t)s->chars[i], bytes));
    }
    return left < 0 ? WEFT_FORMAT : out->status;
}

static weft_status normal_form(normalizer_scratch *s, normalizer_kind kind, str text, strbuf *out)
{
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < text.len && status == WEFT_OK;) {
        size_t end = at;
        while (end < text.len && (unsigned char)text.ptr[end] < 0x80) end++;
        size_t unit = end; /* where the next unit starts: at the last of these ASCII characters */
        if (end < text.len && end > at) unit--;
        status = strbuf_add(out, text.ptr + at, unit - at);
        while (end < text.len && (unsigned char)text.ptr[end] >= 0x80) end++;
        if (status == WEFT_OK && unit < end) {
            str piece = {text.ptr + unit, end - unit};
            status = normalize_unit(s, options_of(kind), piece, out);
        }
        at = end;
    }
    return status;
}

/* ---- a character at a time ---- */

/* Appends what a character becomes. */
typedef void change(uint32_t c, str bytes, strbuf *out);

/* U+0130 is the one character that becomes two small ones without regard to its neighbours. */
static void lowercase(uint32_t c, str bytes, strbuf *out)
{
    (void)bytes;
    if (c < 0x80) {
        strbuf_add_char(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
    } else if (c == 0x130) {
        strbuf_add_text(out, "i\xcc\x87");
    } else {
        char small[4];
        c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
        strbuf_add(out, small, utf8_encode(c, small));
    }
}

static void no_marks(uint32_t c, str bytes, strbuf *out)
{
    if (!char_is_mark(c)) strbuf_add(out, bytes.ptr, bytes.len);
}

static void no_nonspacing(uint32_t c, str bytes, strbuf *out)
{
    if (!char_is_nonspacing(c)) strbuf_add(out, bytes.ptr, bytes.len);
}

static void clean(uint32_t c, str bytes, strbuf *out)
{
    if (c == 0 || c == 0xfffd || char_is_control(c)) return;
    if (char_is_space(c)) {
        strbuf_add_char(out, ' ');
    } else {
        strbuf_add(out, bytes.ptr, bytes.len);
    }
}

static void ideographs(uint32_t c, str bytes, strbuf *out)
{
    bool apart = char_is_ideograph(c);
    if (apart) strbuf_add_char(out, ' ');
    strbuf_add(out, bytes.ptr, bytes.len);
    if (apart) strbuf_add_char(out, ' ');
}

static void nmt(uint32_t c, str bytes, strbuf *out)
{
    bool gone = (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f ||
                c == 0x8f || c == 0x9f;
    bool space = c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
                 (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                 c == 0xfeff || c == 0xfffd;
    if (gone) return;
    if (space) {
        strbuf_add_char(out, ' ');
    } else {
        strbuf_add(out, bytes.ptr, bytes.len);
    }
}

static void spell_bytes(uint32_t c, str bytes, strbuf *out)
{
    (void)c;
    for (size_t i = 0; i < bytes.len; i++) {
        char spelled[4];
        size_t n = utf8_encode(bytelevel_char((uint8_t)bytes.ptr[i]), spelled);
        strbuf_add(out, spelled, n);
    }
}

enum { DROPPED = -1, SLOWLY = -2 };

/* What becomes of an ASCII character. */
static int32_t ascii_after(normalizer_kind kind, char c)
{
    unsigned char byte = (unsigned char)c;
    bool breaks = c == '\t' || c == '\n' || c == '\r';
    switch (kind) {
    case NORMALIZE_LOWERCASE:
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    case NORMALIZE_CLEAN:
        if (breaks) return ' ';
        return byte < 0x20 || byte == 0x7f ? DROPPED : c;
    case NORMALIZE_NMT:
    case NORMALIZE_BYTES:
        return SLOWLY;
    default:
        return c;
    }
}

/* Appends the ASCII characters at the start of text, as many as there are up to a limit. */
static size_t change_ascii(const int32_t after[128], str text, strbuf *out)
{
    char chunk[512];
    size_t n = 0;
    size_t i = 0;
    for (; i < text.len && i < sizeof chunk; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        if (byte >= 0x80 || after[byte] == SLOWLY) break;
        if (after[byte] != DROPPED) chunk[n++] = (char)after[byte];
    }
    strbuf_add(out, chunk, n);
    return i;
}

static weft_status change_all(normalizer_kind kind, change *one, str text, strbuf *out)
{
    int32_t after[128];
    for (int32_t i = 0; i < 128; i++) after[i] = ascii_after(kind, (char)i);
    for (size_t at = 0; at < text.len && out->status == WEFT_OK;) {
        uint32_t c;
        str rest = {text.ptr + at, text.len - at};
        size_t n = change_ascii(after, rest, out);
        at += n;
        if (n != 0) continue;
        n = utf8_decode(rest.ptr, rest.len, &c);
        if (n == 0) return WEFT_FORMAT;
        one(c, (str){rest.ptr, n}, out);
        at += n;
    }
    return out->status;
}

/* ---- white space ---- */

static str strip_left(str text)
{
    while (text.len != 0) {
        uint32_t c;
        size_t n = utf8_decode(text.ptr, text.len, &c);
        if (n == 0 || !char_is_space(c)) break;
        text.ptr += n;
        text.len -= n;
    }
    return text;
}

static str strip_right(str text)
{
    while (text.len != 0) {
        uint32_t c;
        size_t start = text.len - 1;
        while (start > 0 && ((unsigned char)text.ptr[start] & 0xc0) == 0x80) start--;
        size_t n = utf8_decode(text.ptr + start, text.len - start, &c);
        if (n == 0 || !char_is_space(c)) break;
        text.len = start;
    }
    return text;
}

/* As SentencePiece does, to which a U+2581 at the end is a space too. */
static weft_status one_space(str text, strbuf *out)
{
    for (;;) {
        size_t n = str_ends(text, " ") ? 1 : str_ends(text, "\xe2\x96\x81") ? 3 : 0;
        if (n == 0) break;
        text.len -= n;
    }
    size_t done = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != ' ' || (i != 0 && text.ptr[i - 1] != ' ')) continue;
        strbuf_add(out, text.ptr + done, i - done);
        done = i + 1;
    }
    return strbuf_add(out, text.ptr + done, text.len - done);
}

/* ---- running ---- */

/* The steps that a search may take grow with the text. */
static weft_status open_search(normalizer_scratch *s, size_t text_bytes, weft_error *err)
{
    if (text_bytes < s->search_bytes) return WEFT_OK;
    if (s->search_bytes != 0) regex_search_deinit(&s->search);
    s->search_bytes = 0;
    weft_status status = regex_search_init(&s->search, s->allocator, text_bytes, err);
    if (status == WEFT_OK) s->search_bytes = text_bytes + 1;
    return status;
}

/* NULL for steps that look at more than a character. */
static change *change_of(normalizer_kind kind)
{
    static const struct {
        normalizer_kind kind;
        change *one;
    } CHANGES[] = {{NORMALIZE_LOWERCASE, lowercase},
                   {NORMALIZE_NO_MARKS, no_marks},
                   {NORMALIZE_NO_NONSPACING, no_nonspacing},
                   {NORMALIZE_CLEAN, clean},
                   {NORMALIZE_IDEOGRAPHS, ideographs},
                   {NORMALIZE_NMT, nmt},
                   {NORMALIZE_BYTES, spell_bytes}};
    for (size_t i = 0; i < COUNT_OF(CHANGES); i++) {
        if (CHANGES[i].kind == kind) return CHANGES[i].one;
    }
    return NULL;
}

/* Nothing of these changes ASCII. */
static bool keeps_ascii(normalizer_kind kind)
{
    return kind <= NORMALIZE_NFKD || kind == NORMALIZE_NO_MARKS ||
           kind == NORMALIZE_NO_NONSPACING || kind == NORMALIZE_IDEOGRAPHS;
}

/* *text becomes what the step makes of it; it may lie in out then. */
static weft_status run_step(const normalizer_step *step, normalizer_scratch *s, bool first,
                            str *text, strbuf *out, weft_error *err)
{
    weft_status status = WEFT_OK;
    bool found = true;
    change *one = change_of(step->kind);
    if (one != NULL) {
        status = change_all(step->kind, one, *text, out);
    } else if (step->kind <= NORMALIZE_NFKD) {
        status = normal_form(s, step->kind, *text, out);
    } else if (step->kind == NORMALIZE_STRIP) {
        if (step->left) *text = strip_left(*text);
        if (step->right) *text = strip_right(*text);
        return WEFT_OK;
    } else if (step->kind == NORMALIZE_REPLACE) {
        if (step->replace.regex.code != NULL) status = open_search(s, text->len, err);
        if (status == WEFT_OK)
            status = replace_run(&step->replace, &s->search, *text, out, &found, err);
    } else if (step->kind == NORMALIZE_PREPEND) {
        found = text->len != 0 && (first || !step->first);
        if (found) strbuf_add(out, step->text.ptr, step->text.len);
        if (found) status = strbuf_add(out, text->ptr, text->len);
    } else if (step->kind == NORMALIZE_CHARSMAP) {
        status = charsmap_graphemes(&step->map, *text, out);
    } else if (step->kind == NORMALIZE_CHARSMAP_SP) {
        status = charsmap_longest(&step->map, *text, out);
    } else {
        status = one_space(*text, out);
    }
    if (status == WEFT_OK && found) *text = (str){strbuf_text(out), out->len};
    return status;
}

/* Whether text lies in the buffer. */
static bool lies_in(str text, const strbuf *buf)
{
    return buf->ptr != NULL && text.ptr >= buf->ptr && text.ptr <= buf->ptr + buf->len;
}

weft_status normalizer_run(const normalizer *n, normalizer_scratch *s, str text, bool first,
                           str *result, weft_error *err)
{
    *result = text;
    for (uint32_t i = 0; i < n->n_steps; i++) {
        if (keeps_ascii(n->steps[i].kind) && is_ascii(*result)) continue;
        strbuf *out = &s->texts[lies_in(*result, &s->texts[0]) ? 1 : 0];
        strbuf_clear(out);
        weft_status status = run_step(&n->steps[i], s, first, result, out, err);
        if (status != WEFT_OK) {
            *result = (str){"", 0};
            return err_set(err, status, "tokenizer: cannot normalize a text of %zu bytes: %s",
                           text.len, status == WEFT_NOMEM ? "out of memory" : "it grows too long");
        }
    }
    return WEFT_OK;
}
