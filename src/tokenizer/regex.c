/* regex.c - compiling and running patterns with PCRE2. */
#include "tokenizer/regex.h"

#include <string.h>

#include "base/utf8.h"

/* ---- memory ---- */

enum { HEADER = 16 }; /* keeps the block aligned for PCRE2 */

static void *lend(size_t size, void *user)
{
    regex_memory *m = user;
    size_t whole;
    unsigned char *block = NULL;
    if (size_add(size, HEADER, &whole)) block = mem_alloc(m->allocator, whole);
    if (block == NULL) {
        m->refused = true;
        return NULL;
    }
    memcpy(block, &whole, sizeof whole);
    return block + HEADER;
}

static void take_back(void *ptr, void *user)
{
    regex_memory *m = user;
    if (ptr == NULL) return;
    unsigned char *block = (unsigned char *)ptr - HEADER;
    size_t whole;
    memcpy(&whole, block, sizeof whole);
    mem_free(m->allocator, block, whole);
}

weft_status regex_memory_init(regex_memory *m, const weft_allocator *allocator, weft_error *err)
{
    *m = (regex_memory){.allocator = allocator};
    m->general = pcre2_general_context_create(lend, take_back, m);
    if (m->general == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a pattern");
    return WEFT_OK;
}

void regex_memory_deinit(regex_memory *m)
{
    if (m->general != NULL) pcre2_general_context_free(m->general);
    m->general = NULL;
}

/* ---- compiling ---- */

static weft_status compile(regex *r, regex_memory *m, str pattern, uint32_t options,
                           pcre2_compile_context *context, weft_error *err)
{
    int code = 0;
    size_t offset = 0;
    m->refused = false;
    r->code = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, options, &code, &offset, context);
    if (r->code == NULL) {
        if (m->refused) return err_set(err, WEFT_NOMEM, "out of memory for a pattern");
        char reason[120] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: pattern '%.*s' is not supported: %s",
                       (int)(pattern.len < 80 ? pattern.len : 80), pattern.ptr, reason);
    }
    r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    if (!r->jit && m->refused) {
        regex_deinit(r);
        return err_set(err, WEFT_NOMEM, "out of memory for a pattern");
    }
    return WEFT_OK;
}

weft_status regex_init(regex *r, regex_memory *m, str pattern, bool literal, weft_error *err)
{
    *r = (regex){0};
    if (pattern.len > REGEX_BYTES) {
        return err_set(err, WEFT_LIMIT,
                       "tokenizer: a pattern of %zu bytes, at most %d are supported", pattern.len,
                       REGEX_BYTES);
    }
    strbuf rewritten;
    strbuf_init(&rewritten, m->allocator, 0);
    weft_status status = WEFT_OK;
    if (!literal) status = regex_rewrite(pattern, &rewritten, err);
    pcre2_compile_context *context = NULL;
    if (status == WEFT_OK) {
        context = pcre2_compile_context_create(m->general);
        if (context == NULL) status = err_set(err, WEFT_NOMEM, "out of memory for a pattern");
    }
    if (status == WEFT_OK) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        str text = literal ? pattern : (str){strbuf_text(&rewritten), rewritten.len};
        if (text.ptr == NULL) text.ptr = "";
        uint32_t options =
            literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
        status = compile(r, m, text, options, context, err);
    }
    if (context != NULL) pcre2_compile_context_free(context);
    strbuf_deinit(&rewritten);
    return status;
}

void regex_deinit(regex *r)
{
    if (r->code != NULL) pcre2_code_free(r->code);
    r->code = NULL;
}

/* ---- searching ---- */

weft_status regex_search_init(regex_search *s, const weft_allocator *allocator, size_t text_bytes,
                              weft_error *err)
{
    *s = (regex_search){0};
    weft_status status = regex_memory_init(&s->memory, allocator, err);
    if (status != WEFT_OK) return status;
    s->context = pcre2_match_context_create(s->memory.general);
    s->data = pcre2_match_data_create(1, s->memory.general);
    if (s->context == NULL || s->data == NULL) {
        regex_search_deinit(s);
        return err_set(err, WEFT_NOMEM, "out of memory for a search");
    }
    /* A run of n spaces may be given back one by one, so steps grow with the text, but no
     * faster. */
    uint64_t steps = 1000000u + 8u * (uint64_t)text_bytes;
    pcre2_set_match_limit(s->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    pcre2_set_heap_limit(s->context, UINT32_MAX); /* the steps bound it, and the allocator */
    return WEFT_OK;
}

void regex_search_deinit(regex_search *s)
{
    if (s->data != NULL) pcre2_match_data_free(s->data);
    if (s->context != NULL) pcre2_match_context_free(s->context);
    s->data = NULL;
    s->context = NULL;
    regex_memory_deinit(&s->memory);
}

weft_status regex_find(const regex *r, regex_search *s, str text, size_t from, bool *found,
                       size_t *start, size_t *end, weft_error *err)
{
    PCRE2_SPTR bytes = (PCRE2_SPTR)text.ptr;
    int code = PCRE2_ERROR_JIT_STACKLIMIT;
    if (r->jit) code = pcre2_jit_match(r->code, bytes, text.len, from, 0, s->data, s->context);
    /* The machine code has 32 KiB to go back in; the interpreter has the allocator. */
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
        code = pcre2_match(r->code, bytes, text.len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                           s->data, s->context);
    }
    *found = code >= 0;
    if (code >= 0) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->data);
        *start = ends[0];
        *end = ends[1];
        return WEFT_OK;
    }
    if (code == PCRE2_ERROR_NOMATCH) return WEFT_OK;
    if (code == PCRE2_ERROR_NOMEMORY) return err_set(err, WEFT_NOMEM, "out of memory for a search");
    return err_set(err, WEFT_LIMIT, "tokenizer: splitting a text of %zu bytes takes too many steps",
                   text.len);
}

weft_status regex_next(const regex *r, regex_search *s, str text, regex_walk *walk, bool *found,
                       size_t *start, size_t *end, weft_error *err)
{
    *found = false;
    while (walk->from <= text.len) {
        weft_status status = regex_find(r, s, text, walk->from, found, start, end, err);
        if (status != WEFT_OK || !*found) return status;
        if (*start == *end && walk->matched && *end == walk->done) {
            uint32_t c;
            size_t n = utf8_decode(text.ptr + walk->from, text.len - walk->from, &c);
            walk->from += n == 0 ? 1 : n;
            *found = false;
            continue;
        }
        walk->matched = true;
        walk->done = *end;
        walk->from = *end;
        return WEFT_OK;
    }
    return WEFT_OK;
}
