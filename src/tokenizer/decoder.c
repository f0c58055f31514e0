/* decoder.c - the steps of decoders, a token at a time. Source: what Hugging Face's tokenizers make
 * of each. */
#include "tokenizer/decoder.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "tokenizer/bytelevel.h"

/* ---- building ---- */

weft_status decoder_init(decoder *d, const weft_allocator *allocator, weft_error *err)
{
    *d = (decoder){.n_steps = 0};
    arena_init(&d->arena, allocator, 0);
    return regex_memory_init(&d->memory, allocator, err);
}

void decoder_deinit(decoder *d)
{
    for (uint32_t i = 0; i < d->n_steps; i++) replace_deinit(&d->steps[i].replace);
    d->n_steps = 0;
    regex_memory_deinit(&d->memory);
    if (d->arena.allocator != NULL) arena_deinit(&d->arena);
}

static weft_status copy(decoder *d, str *text, weft_error *err)
{
    text->ptr = arena_copy_text(&d->arena, text->ptr, text->len);
    return text->ptr != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory for a decoder");
}

/* Looking for a text costs a token's length times the text's. */
static weft_status check_text(str text, weft_error *err)
{
    if (text.len <= REPLACE_BYTES) return WEFT_OK;
    return err_set(err, WEFT_LIMIT,
                   "tokenizer: a decoder's text of %zu bytes, at most %d are supported", text.len,
                   REPLACE_BYTES);
}

/* Steps behind what joins tokens would see the whole. */
static weft_status check_order(const decoder *d, weft_error *err)
{
    if (d->joined || d->suffix.len != 0) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: a decoder behind '%s' other than 'Strip' is not supported",
                       d->joined ? "Fuse" : "BPEDecoder");
    }
    if (d->n_steps == DECODER_STEPS) {
        return err_set(err, WEFT_LIMIT, "tokenizer: more than %d decoders are not supported",
                       DECODER_STEPS);
    }
    return WEFT_OK;
}

static weft_status strip_whole(decoder *d, const decoder_step *step, weft_error *err)
{
    weft_status status = check_text(step->text, err);
    if (status != WEFT_OK) return status;
    if (d->strip.len != 0 || step->n_left > DECODER_STRIP || step->n_right > DECODER_STRIP) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: a 'Strip' of %u and %u characters behind 'Fuse' is not "
                       "supported",
                       step->n_left, step->n_right);
    }
    d->strip = step->text;
    d->n_left = step->n_left;
    d->n_right = step->n_right;
    return copy(d, &d->strip, err);
}

weft_status decoder_add(decoder *d, decoder_step step, weft_error *err)
{
    if (step.kind == DECODE_STRIP && d->joined) return strip_whole(d, &step, err);
    weft_status status = check_order(d, err);
    if (status == WEFT_OK) status = check_text(step.text, err);
    if (status == WEFT_OK) status = copy(d, &step.text, err);
    if (status != WEFT_OK) return status;
    d->steps[d->n_steps++] = step;
    if (step.kind == DECODE_CTC) d->no_twice = true;
    if (step.kind == DECODE_BYTELEVEL) d->joined = true;
    if (step.kind == DECODE_WORDPIECE || step.kind == DECODE_JOIN ||
        (step.kind == DECODE_METASPACE && step.flag))
        d->by_first = true;
    return WEFT_OK;
}

weft_status decoder_replace(decoder *d, str from, bool literal, str to, weft_error *err)
{
    weft_status status = check_order(d, err);
    if (status != WEFT_OK) return status;
    decoder_step *step = &d->steps[d->n_steps++];
    *step = (decoder_step){.kind = DECODE_REPLACE};
    return replace_init(&step->replace, &d->arena, &d->memory, from, literal, to, err);
}

weft_status decoder_suffix(decoder *d, str suffix, weft_error *err)
{
    weft_status status = check_order(d, err);
    if (status == WEFT_OK) status = check_text(suffix, err);
    if (status != WEFT_OK) return status;
    d->suffix = suffix;
    return copy(d, &d->suffix, err);
}

void decoder_fuse(decoder *d)
{
    d->joined = true;
}

void decoder_scratch_init(decoder_scratch *s, const weft_allocator *allocator)
{
    s->allocator = allocator;
    s->searches = false;
    strbuf_init(&s->texts[0], allocator, 0);
    strbuf_init(&s->texts[1], allocator, 0);
}

void decoder_scratch_deinit(decoder_scratch *s)
{
    strbuf_deinit(&s->texts[0]);
    strbuf_deinit(&s->texts[1]);
    if (s->searches) regex_search_deinit(&s->search);
    s->searches = false;
}

/* ---- steps ---- */

static weft_status replaced(str text, str from, str to, strbuf *out)
{
    bool found;
    replace r = {.from = from, .to = to};
    weft_status status = replace_run(&r, NULL, text, out, &found, NULL);
    return found || status != WEFT_OK ? status : strbuf_add(out, text.ptr, text.len);
}

static weft_status bytelevel(str token, strbuf *out)
{
    for (size_t at = 0; at < token.len;) {
        uint32_t c;
        size_t n = utf8_decode(token.ptr + at, token.len - at, &c);
        int32_t byte = n == 0 ? -1 : bytelevel_byte(c);
        if (byte < 0) { /* then none of it is spelled so */
            strbuf_clear(out);
            return strbuf_add(out, token.ptr, token.len);
        }
        strbuf_add_char(out, (char)(unsigned char)byte);
        at += n;
    }
    return out->status;
}

static int32_t hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static weft_status byte_fallback(str token, strbuf *out)
{
    if (token.len == 6 && memcmp(token.ptr, "<0x", 3) == 0 && token.ptr[5] == '>') {
        int32_t high = hex_digit(token.ptr[3]);
        int32_t low = hex_digit(token.ptr[4]);
        if (high >= 0 && low >= 0)
            return strbuf_add_char(out, (char)(unsigned char)(high << 4 | low));
    }
    return strbuf_add(out, token.ptr, token.len);
}

static weft_status cleanup(str text, strbuf *out)
{
    static const char *const CHANGES[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    strbuf other;
    strbuf_init(&other, out->allocator, 0);
    weft_status status = strbuf_add(out, text.ptr, text.len);
    for (size_t i = 0; i < COUNT_OF(CHANGES) && status == WEFT_OK; i++) {
        bool found;
        replace r = {.from = str_of(CHANGES[i][0]), .to = str_of(CHANGES[i][1])};
        strbuf_clear(&other);
        status = replace_run(&r, NULL, (str){strbuf_text(out), out->len}, &other, &found, NULL);
        if (status != WEFT_OK || !found) continue;
        strbuf_clear(out);
        status = strbuf_add(out, other.ptr, other.len);
    }
    strbuf_deinit(&other);
    return status;
}

static weft_status wordpiece(const decoder_step *step, str token, bool first, strbuf *out)
{
    if (first) return strbuf_add(out, token.ptr, token.len);
    size_t n = step->text.len;
    if (token.len >= n && memcmp(token.ptr, step->text.ptr, n) == 0)
        return strbuf_add(out, token.ptr + n, token.len - n);
    strbuf_add_char(out, ' ');
    return strbuf_add(out, token.ptr, token.len);
}

static weft_status strip(const decoder_step *step, str token, strbuf *out)
{
    size_t n = step->text.len;
    for (uint32_t i = 0; i < step->n_left && n != 0 && token.len >= n; i++) {
        if (memcmp(token.ptr, step->text.ptr, n) != 0) break;
        token.ptr += n;
        token.len -= n;
    }
    for (uint32_t i = 0; i < step->n_right && n != 0 && token.len >= n; i++) {
        if (memcmp(token.ptr + token.len - n, step->text.ptr, n) != 0) break;
        token.len -= n;
    }
    return strbuf_add(out, token.ptr, token.len);
}

static weft_status run_step(const decoder_step *step, decoder_scratch *s, str token, bool first,
                            strbuf *out, weft_error *err)
{
    static const str SPACE = {" ", 1};
    static const str NOTHING = {"", 0};
    weft_status status;
    bool found;
    switch (step->kind) {
    case DECODE_BYTELEVEL:
        return bytelevel(token, out);
    case DECODE_BYTE_FALLBACK:
        return byte_fallback(token, out);
    case DECODE_METASPACE:
        return replaced(token, step->text, first && step->flag ? NOTHING : SPACE, out);
    case DECODE_WORDPIECE:
        return wordpiece(step, token, first, out);
    case DECODE_JOIN:
        if (!first) strbuf_add_char(out, ' ');
        return strbuf_add(out, token.ptr, token.len);
    case DECODE_REPLACE:
        if (step->replace.regex.code != NULL && !s->searches) {
            status = regex_search_init(&s->search, s->allocator, 0, err);
            if (status != WEFT_OK) return status;
            s->searches = true;
        }
        status = replace_run(&step->replace, &s->search, token, out, &found, err);
        return found || status != WEFT_OK ? status : strbuf_add(out, token.ptr, token.len);
    case DECODE_STRIP:
        return strip(step, token, out);
    case DECODE_CTC:
        return replaced(token, step->text, NOTHING, out);
    case DECODE_CLEANUP:
        return cleanup(token, out);
    }
    return WEFT_OK;
}

weft_status decoder_token(const decoder *d, decoder_scratch *s, str token, bool first, str *bytes,
                          weft_error *err)
{
    *bytes = token;
    for (uint32_t i = 0; i < d->n_steps; i++) {
        strbuf *out = &s->texts[i % 2];
        strbuf_clear(out);
        weft_status status = run_step(&d->steps[i], s, *bytes, first, out, err);
        if (status != WEFT_OK) return err_set(err, status, "out of memory for a token");
        *bytes = (str){strbuf_text(out), out->len};
    }
    return WEFT_OK;
}

weft_status decoder_end_word(const decoder *d, str text, bool last, strbuf *out)
{
    return replaced(text, d->suffix, last ? (str){"", 0} : (str){" ", 1}, out);
}
