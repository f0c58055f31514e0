/* template.c - compiling and rendering: the interface, and the services every part of the
 * interpreter uses. */
#include "chat/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "chat/template_eval.h"
#include "chat/template_functions.h"
#include "chat/template_parse.h"

/* DEEPEST: no limit of the caller lets a template use more stack than a thread has. */
enum {
    STEPS = 10000000,
    DEPTH = 128,
    DEEPEST = 256,
    OUTPUT_BYTES = 64 << 20,
    MEMORY_BYTES = 256 << 20
};

/* A tree takes some tens of times its source, at worst. */
enum { COMPILED_BYTES = 160 << 20 };

/* C calls that a template may cause inside one another, for each call it may nest: what an
 * expression inside a few blocks needs. 2,048 of them stay well below a megabyte of stack. */
enum { FRAMES_PER_CALL = 16 };

/* One kind of newline, and none at the very end, as Jinja reads its source. */
static weft_status copy_source(chat_template *t, str source, str *copy, weft_error *err)
{
    char *bytes = arena_alloc(&t->memory, source.len + 1);
    if (bytes == NULL) return err_set(err, WEFT_NOMEM, "out of memory compiling a template");
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r' && i + 1 < source.len && source.ptr[i + 1] == '\n') continue;
        bytes[n++] = c == '\r' ? '\n' : c;
    }
    if (n != 0 && bytes[n - 1] == '\n') n--;
    *copy = (str){bytes, n};
    return WEFT_OK;
}

static weft_status parse(chat_template *t, str source, weft_error *err)
{
    tpl_parser p;
    memset(&p, 0, sizeof p);
    p.into = t;
    p.err = err;
    p.allocator = t->allocator;
    weft_status status = map_init(&p.names, t->allocator, 32, err);
    if (status != WEFT_OK) return status;
    tpl_lexer_init(&p.lexer, source);
    if (!tpl_parse_template(&p)) status = p.status;
    t->loop_id = map_get(&p.names, str_of("loop"));
    map_deinit(&p.names);
    mem_free(t->allocator, p.pending, p.pending_capacity * sizeof(tpl_node *));
    return status;
}

weft_status template_compile(const env *world, str source, chat_template **out, weft_error *err)
{
    *out = NULL;
    if (source.len > TEMPLATE_SOURCE_BYTES) {
        return err_set(err, WEFT_LIMIT, "the template has %zu bytes, the limit is %d", source.len,
                       TEMPLATE_SOURCE_BYTES);
    }
    if (!utf8_valid(source.ptr, source.len)) {
        return err_set(err, WEFT_FORMAT, "the template is not valid UTF-8");
    }
    chat_template *t = mem_alloc_zero(world->allocator, sizeof *t);
    if (t == NULL) return err_set(err, WEFT_NOMEM, "out of memory compiling a template");
    t->allocator = world->allocator;
    arena_init(&t->memory, world->allocator, COMPILED_BYTES);
    str copy = {"", 0};
    weft_status status = copy_source(t, source, &copy, err);
    if (status == WEFT_OK) status = parse(t, copy, err);
    if (status != WEFT_OK) {
        template_destroy(t);
        err_context(err, "compiling the template: ");
        return status;
    }
    *out = t;
    return WEFT_OK;
}

void template_destroy(chat_template *t)
{
    if (t == NULL) return;
    arena_deinit(&t->memory);
    mem_free(t->allocator, t, sizeof *t);
}

void template_output_init(template_output *out, const weft_allocator *allocator)
{
    memset(out, 0, sizeof *out);
    strbuf_init(&out->text, allocator, 0);
}

void template_output_deinit(template_output *out)
{
    mem_free(out->text.allocator, out->spans, out->spans_capacity * sizeof *out->spans);
    strbuf_deinit(&out->text);
    out->spans = NULL;
    out->n_spans = 0;
    out->spans_capacity = 0;
}

bool tpl_fail(tpl_render *r, weft_status status, const char *fmt, ...)
{
    if (r->status != WEFT_OK) return false;
    r->status = status;
    char what[sizeof r->err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (r->line == 0) {
        err_set(r->err, status, "%s", what);
    } else {
        err_set(r->err, status, "template line %u: %s", r->line, what);
    }
    return false;
}

bool tpl_fail_type(tpl_render *r, const char *what, tpl_value v)
{
    if (v.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, v);
    return tpl_fail(r, WEFT_FORMAT, "%s '%s'", what, tpl_type_name(v));
}

bool tpl_fail_undefined(tpl_render *r, tpl_value v)
{
    return tpl_fail(r, WEFT_FORMAT, "%s",
                    v.as.reason == NULL ? "a value is undefined" : v.as.reason);
}

void *tpl_alloc(tpl_render *r, size_t count, size_t size)
{
    void *ptr = arena_array(&r->memory, count, size);
    if (ptr != NULL) return ptr;
    size_t bytes;
    /* The arena does not say why it refuses; what is left of its limit does. */
    bool over = !size_mul(count, size, &bytes) || bytes > SIZE_MAX - 256 ||
                bytes + 256 > r->memory.limit - r->memory.taken;
    if (over) {
        tpl_fail(r, WEFT_LIMIT, "rendering needs more than %zu bytes", r->memory.limit);
    } else {
        tpl_fail(r, WEFT_NOMEM, "out of memory rendering a template");
    }
    return NULL;
}

char *tpl_printf(tpl_render *r, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t n = strlen(text);
    char *copy = tpl_alloc(r, n + 1, 1);
    if (copy != NULL) memcpy(copy, text, n + 1);
    return copy;
}

bool tpl_step(tpl_render *r, uint64_t n)
{
    if (r->status != WEFT_OK) return false;
    r->n_steps += n;
    if (r->n_steps <= r->limits.n_steps) return true;
    return tpl_fail(r, WEFT_LIMIT, "rendering takes more than %llu steps",
                    (unsigned long long)r->limits.n_steps);
}

bool tpl_charge(tpl_render *r, size_t n_bytes)
{
    /* 64 bytes are a step, remainders add up. */
    r->n_spare += n_bytes & 63;
    uint64_t steps = n_bytes / 64 + r->n_spare / 64;
    r->n_spare &= 63;
    return tpl_step(r, steps);
}

bool tpl_enter(tpl_render *r)
{
    if (r->n_frames >= r->limits.depth * FRAMES_PER_CALL) {
        return tpl_fail(r, WEFT_LIMIT, "rendering nests deeper than %u",
                        r->limits.depth * FRAMES_PER_CALL);
    }
    r->n_frames++;
    return true;
}

void tpl_leave(tpl_render *r)
{
    ASSERT(r->n_frames > 0);
    r->n_frames--;
}

bool tpl_call_enter(tpl_render *r)
{
    if (r->n_calls >= r->limits.depth) {
        return tpl_fail(r, WEFT_LIMIT, "calls nest deeper than %u", r->limits.depth);
    }
    r->n_calls++;
    return true;
}

void tpl_call_leave(tpl_render *r)
{
    ASSERT(r->n_calls > 0);
    r->n_calls--;
}

static bool add_span(tpl_render *r, size_t first, size_t n)
{
    template_output *out = r->out;
    if (out->n_spans != 0) {
        template_span *last = &out->spans[out->n_spans - 1];
        if (last->first + last->n_bytes == first) {
            last->n_bytes += n;
            return true;
        }
    }
    if (out->n_spans == out->spans_capacity) {
        size_t capacity = out->spans_capacity == 0 ? 16 : out->spans_capacity * 2;
        template_span *spans =
            mem_resize(out->text.allocator, out->spans, out->spans_capacity * sizeof *spans,
                       capacity * sizeof *spans);
        if (spans == NULL) return tpl_fail(r, WEFT_NOMEM, "out of memory rendering a template");
        out->spans = spans;
        out->spans_capacity = capacity;
    }
    out->spans[out->n_spans++] = (template_span){first, n};
    return true;
}

static bool emit_piece(tpl_render *r, str bytes, bool untrusted)
{
    strbuf *text = &r->out->text;
    size_t first = text->len;
    if (bytes.len > r->limits.output_bytes - first) {
        return tpl_fail(r, WEFT_LIMIT, "the rendered text exceeds %zu bytes",
                        r->limits.output_bytes);
    }
    weft_status status = strbuf_add(text, bytes.ptr, bytes.len);
    if (status != WEFT_OK) return tpl_fail(r, status, "out of memory rendering a template");
    return !untrusted || bytes.len == 0 || add_span(r, first, bytes.len);
}

bool tpl_emit(tpl_render *r, const tpl_text *t)
{
    if (r->sink.buffer != NULL) return tpl_buffer_add_text(r, r->sink.buffer, t);
    str s = tpl_text_str(t);
    if (!tpl_charge(r, s.len)) return false;
    for (size_t at = 0; at < s.len;) {
        bool untrusted;
        size_t n = tpl_text_piece(t, at, &untrusted);
        if (!emit_piece(r, (str){s.ptr + at, n}, untrusted)) return false;
        at += n;
    }
    return true;
}

tpl_value tpl_missing(tpl_render *r, tpl_value of, str name)
{
    return tpl_undefined(tpl_printf(r, "'%s' object has no '%.*s'", tpl_type_name(of),
                                    (int)(name.len < 100 ? name.len : 100), name.ptr));
}

/* Tokens of the model's own, which the template puts out as if it had written them. */
static bool is_trusted(const char *name)
{
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

/* What the template's names mean at the start: the caller's variables, else functions, else
 * nothing. */
static bool set_globals(tpl_render *r)
{
    uint32_t n = r->of->n_names;
    r->globals = tpl_alloc(r, n, sizeof *r->globals);
    if (r->globals == NULL) return false;
    for (uint32_t i = 0; i < n; i++) {
        str name = r->of->names[i];
        const tpl_row *function = tpl_function_find(name);
        if (function != NULL)
            r->globals[i] = (tpl_value){.kind = TPL_FUNCTION, .as.function = function};
        for (uint32_t k = 0; k < r->input->n_vars; k++) {
            const template_var *var = &r->input->vars[k];
            if (!str_equal_text(name, var->name)) continue;
            if (!tpl_from_json(r, var->value, is_trusted(var->name), &r->globals[i])) return false;
        }
    }
    return true;
}

static void set_limits(template_limits *limits)
{
    if (limits->n_steps == 0) limits->n_steps = STEPS;
    if (limits->depth == 0) limits->depth = DEPTH;
    if (limits->depth > DEEPEST) limits->depth = DEEPEST;
    if (limits->output_bytes == 0) limits->output_bytes = OUTPUT_BYTES;
    if (limits->memory_bytes == 0) limits->memory_bytes = MEMORY_BYTES;
}

weft_status template_render(const chat_template *t, const template_input *input,
                            template_output *out, weft_error *err)
{
    weft_error unheard = {.status = WEFT_OK};
    tpl_render r;
    memset(&r, 0, sizeof r);
    r.of = t;
    r.input = input;
    r.out = out;
    r.err = err == NULL ? &unheard : err;
    r.limits = input->limits;
    set_limits(&r.limits);
    strbuf_clear(&out->text);
    out->n_spans = 0;
    arena_init(&r.memory, out->text.allocator, r.limits.memory_bytes);
    tpl_flow flow;
    if (set_globals(&r)) tpl_exec(&r, &t->body, &flow);
    arena_deinit(&r.memory);
    if (r.status != WEFT_OK) {
        strbuf_clear(&out->text);
        out->n_spans = 0;
    }
    return r.status;
}
