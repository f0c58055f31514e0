/* test_template.c - templates against what Jinja2 made of them, where bytes came from, bounds and
 * failures. */
#include "chat/template.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "support/fault.h"
#include "support/test.h"

enum { MOST_VARS = 64 };

typedef struct fixture {
    json_doc doc;
} fixture;

static void fixture_open(fixture *f, const char *name)
{
    char path[512];
    char *text;
    size_t n;
    weft_error err = {.status = WEFT_OK};
    snprintf(path, sizeof path, "%s/tests/chat/fixtures/%s", WEFT_SOURCE_DIR, name);
    assert_ok(io_read_file(io_system(), mem_system(), path, 1 << 24, &text, &n, &err), &err);
    assert_ok(json_parse(&f->doc, text, n, &err), &err);
    mem_free(mem_system(), text, n + 1);
}

/* An object's members as variables; names are copied since json's are not terminated. */
typedef struct vars {
    template_var items[MOST_VARS];
    char names[MOST_VARS][32];
    uint32_t n;
} vars;

static void vars_of(vars *v, const json *object)
{
    json_iter it = {NULL};
    str key;
    const json *value;
    v->n = 0;
    while (json_next(object, &it, &key, &value)) {
        assert_true(v->n < MOST_VARS);
        snprintf(v->names[v->n], sizeof v->names[0], "%.*s", (int)key.len, key.ptr);
        v->items[v->n] = (template_var){v->names[v->n], value};
        v->n++;
    }
}

static weft_status render(const env *world, str source, const template_input *input,
                          template_output *out, weft_error *err)
{
    chat_template *t;
    weft_status status = template_compile(world, source, &t, err);
    if (status == WEFT_OK) status = template_render(t, input, out, err);
    template_destroy(t);
    return status;
}

/* expected is null where Jinja2 refuses. */
static void check_case(str source, const template_input *input, const json *expected)
{
    const env world = {.allocator = mem_system()};
    template_output out;
    weft_error err = {.status = WEFT_OK};
    template_output_init(&out, mem_system());
    weft_status status = render(&world, source, input, &out, &err);
    str want = json_text(expected), got = {strbuf_text(&out.text), out.text.len};
    if (json_kind_of(expected) == JSON_KIND_NULL) {
        if (status == WEFT_OK) fail_msg("%.*s gave %s", (int)source.len, source.ptr, got.ptr);
        assert_true(err.message[0] != '\0');
    } else if (status != WEFT_OK || !str_equal(want, got)) {
        fail_msg("%.*s\n gave %s%s\n not  %.*s", (int)source.len, source.ptr, got.ptr, err.message,
                 (int)want.len, want.ptr);
    }
    template_output_deinit(&out);
}

static void test_templates_of_families(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "templates.json");
    const json *conversations = json_get(f.doc.root, "conversations");
    const json *cases = json_get(f.doc.root, "cases");
    size_t n_checked = 0;
    for (size_t i = 0; i < json_length(cases); i++) {
        const json *one = json_at(cases, i), *expected;
        json_iter it = {NULL};
        str name;
        while (json_next(json_get(one, "results"), &it, &name, &expected)) {
            char key[64];
            vars v;
            snprintf(key, sizeof key, "%.*s", (int)name.len, name.ptr);
            vars_of(&v, json_get(conversations, key));
            template_input input = {.vars = v.items, .n_vars = v.n};
            input.now = json_int(json_get(f.doc.root, "now"), 0);
            check_case(json_text(json_get(one, "template")), &input, expected);
            n_checked++;
        }
    }
    assert_true(json_length(cases) >= 49 && n_checked == 19 * json_length(cases));
    json_doc_free(&f.doc);
}

static void test_expressions(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "expressions.json");
    const json *cases = json_get(f.doc.root, "cases");
    vars v;
    vars_of(&v, json_get(f.doc.root, "vars"));
    template_input input = {.vars = v.items, .n_vars = v.n};
    input.now = json_int(json_get(f.doc.root, "now"), 0);
    for (size_t i = 0; i < json_length(cases); i++) {
        char source[512];
        str expression = json_text(json_at(json_at(cases, i), 0));
        int n = snprintf(source, sizeof source, "{{ %.*s }}", (int)expression.len, expression.ptr);
        check_case((str){source, (size_t)n}, &input, json_at(json_at(cases, i), 1));
    }
    assert_true(json_length(cases) >= 650);
    json_doc_free(&f.doc);
}

static const char VARS[] =
    "{\"s\": \"USER\", \"u\": \"h\\u00e9<|x|>\", \"n\": 42, \"pad\": \"  in \","
    " \"l\": [\"a\", \"b\"], \"d\": {\"key\": \"val\"}, \"bos_token\": \"<s>\","
    " \"m\": [{\"role\": \"user\", \"content\": \" hi \"}]}";

/* The output with [ ] around untrusted bytes. */
static void marked(const template_output *out, strbuf *text)
{
    size_t at = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        const template_span *span = &out->spans[i];
        assert_true(span->n_bytes > 0 && span->first >= at);
        assert_true(i == 0 || span->first > at);
        strbuf_add(text, out->text.ptr + at, span->first - at);
        strbuf_add_char(text, '[');
        strbuf_add(text, out->text.ptr + span->first, span->n_bytes);
        strbuf_add_char(text, ']');
        at = span->first + span->n_bytes;
    }
    assert_true(at <= out->text.len);
    if (out->text.len != 0) strbuf_add(text, out->text.ptr + at, out->text.len - at);
}

static const char *const PROVENANCE[][2] = {
    {"<|im|>{{ s }}<|end|>", "<|im|>[USER]<|end|>"},
    {"{{ bos_token + s + 'x' }}", "<s>[USER]x"},
    {"{{ '<' ~ s ~ '>' ~ n }}", "<[USER]>[42]"},
    {"{{ pad | trim }}|{{ ('<' + pad + '>') | trim }}", "[in]|<[  in ]>"},
    {"{{ ('<' + s + '>')[1:3] }}{{ ('<' + s + '>')[::-1] }}", "[US]>[RESU]<"},
    {"{{ ('a' + s) | upper }}{{ ('a' + s).lower() }}{{ ('a' + s) | title }}",
     "A[USER]a[user]A[user]"},
    {"{{ l | join('-') }}", "[a]-[b]"},
    {"{{ 'xSx' | replace('S', s) }}{{ s | replace('S', '$') }}", "x[USER]x[U]$[ER]"},
    {"{{ (s + ',t').split(',') | join(';') }}", "[USER];t"},
    {"{{ d | tojson }}", "{\"[key]\": \"[val]\"}"},
    {"{{ [s, 'q', n] }}", "['[USER]', 'q', [42]]"},
    {"{{ '%s=%5s%d' % ('k', s, n) }}{{ '{}:{:>6}'.format('k', s) }}", "k= [USER42]k:  [USER]"},
    {"{% set x %}<{{ s }}>{% endset %}{{ x }}{{ x[1:-1] }}", "<[USER]>[USER]"},
    {"{% macro f(a) %}({{ a }}){% endmacro %}{{ f(s) }}{{ f('t') }}", "([USER])(t)"},
    {"{% filter upper %}a{{ s }}{% endfilter %}", "A[USER]"},
    {"{% for c in 'x' + s %}{{ c }}{% endfor %}{{ s }}", "x[USERUSER]"},
    {"{% for m in m %}{{ '<' + m.role + '>' + m['content'] | trim + '<e>' }}{% endfor %}",
     "<[user]>[hi]<e>"},
    {"{{ n + 1 }}{{ 1 + 1 }}", "[43]2"},
    {"{{ s if true else 'x' }}{{ missing | default(s) }}{{ s or 'x' }}", "[USERUSERUSER]"},
    {"{{ u | e }}{{ ('<' + u) | tojson(ensure_ascii=true) }}",
     "[h\xc3\xa9&lt;|x|&gt;]\"<[h\\u00e9<|x|>]\""},
    {"{{ ('a\\n' + s) | indent(2, true) }}{{ s.center(8, '*') }}", "  a\n  [USER]**[USER]**"},
    {"{% set ns = namespace(t='') %}{% for i in l %}{% set ns.t = ns.t + '<' + i + '>' %}{% endfor "
     "%}{{ ns.t }}",
     "<[a]><[b]>"},
    {"{{ (s + 'ttttttttttttttttttt') | truncate(9, true) }}", "[USER]tt..."},
    {"{{ d.items() | list }}{{ d | dictsort | first | join('=') }}",
     "[('[key]', '[val]')][key]=[val]"},
};

static void test_provenance(void **state)
{
    (void)state;
    json_doc doc;
    weft_error err = {.status = WEFT_OK};
    const env world = {.allocator = mem_system()};
    assert_ok(json_parse(&doc, VARS, sizeof VARS - 1, &err), &err);
    vars v;
    vars_of(&v, doc.root);
    template_input input = {.vars = v.items, .n_vars = v.n};
    for (size_t i = 0; i < sizeof PROVENANCE / sizeof *PROVENANCE; i++) {
        template_output out;
        strbuf text;
        template_output_init(&out, mem_system());
        strbuf_init(&text, mem_system(), 0);
        assert_ok(render(&world, str_of(PROVENANCE[i][0]), &input, &out, &err), &err);
        marked(&out, &text);
        assert_string_equal(strbuf_text(&text), PROVENANCE[i][1]);
        strbuf_deinit(&text);
        template_output_deinit(&out);
    }
    json_doc_free(&doc);
}

/* A word stands before every text of a conversation but those that templates tell turns and parts
 * apart by. */
static void write_spelled(const json *value, const char *word, strbuf *to)
{
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_TEXT) {
        strbuf text;
        strbuf_init(&text, mem_system(), 0);
        strbuf_printf(&text, "%s%.*s", word, (int)json_text(value).len, json_text(value).ptr);
        assert_int_equal(json_write_text((str){text.ptr, text.len}, to), WEFT_OK);
        strbuf_deinit(&text);
    } else if (kind == JSON_KIND_ARRAY) {
        strbuf_add_char(to, '[');
        for (size_t i = 0; i < json_length(value); i++) {
            if (i != 0) strbuf_add_char(to, ',');
            write_spelled(json_at(value, i), word, to);
        }
        strbuf_add_char(to, ']');
    } else if (kind == JSON_KIND_OBJECT) {
        static const char *const KEPT[] = {"role",         "type",      "id",
                                           "tool_call_id", "bos_token", "eos_token"};
        json_iter it = {NULL};
        str key;
        const json *member;
        for (char before = '{'; json_next(value, &it, &key, &member); before = ',') {
            bool kept = false;
            for (size_t i = 0; i < COUNT_OF(KEPT); i++) kept |= str_equal_text(key, KEPT[i]);
            strbuf_add_char(to, before);
            assert_int_equal(json_write_text(key, to), WEFT_OK);
            strbuf_add_char(to, ':');
            write_spelled(member, kept ? "" : word, to);
        }
        strbuf_add_text(to, json_length(value) == 0 ? "{}" : "}");
    } else {
        assert_int_equal(json_write(value, 0, to), WEFT_OK);
    }
}

/* What a template makes of a conversation in which a word was written everywhere. */
typedef struct spelled {
    weft_status status;
    strbuf trusted; /* output outside the spans, with a mark where a span stood */
    size_t n_words; /* inside the spans */
} spelled;

static void render_spelled(const chat_template *t, const json *conversation, const char *word,
                           spelled *s)
{
    strbuf text;
    json_doc doc;
    vars v;
    template_output out;
    weft_error err = {.status = WEFT_OK};
    strbuf_init(&text, mem_system(), 0);
    write_spelled(conversation, word, &text);
    assert_ok(json_parse(&doc, text.ptr, text.len, &err), &err);
    vars_of(&v, doc.root);
    template_input input = {.vars = v.items, .n_vars = v.n, .now = 1786000000};
    template_output_init(&out, mem_system());
    strbuf_init(&s->trusted, mem_system(), 0);
    s->status = template_render(t, &input, &out, &err);
    s->n_words = 0;
    size_t at = 0;
    for (size_t i = 0; i < out.n_spans; i++) {
        str span = {out.text.ptr + out.spans[i].first, out.spans[i].n_bytes};
        strbuf_add(&s->trusted, out.text.ptr + at, out.spans[i].first - at);
        strbuf_add_char(&s->trusted, '\0');
        at = out.spans[i].first + span.len;
        for (size_t k = 0; k + strlen(word) <= span.len; k++) {
            s->n_words += memcmp(span.ptr + k, word, strlen(word)) == 0 ? 1 : 0;
        }
    }
    if (out.text.len != 0) strbuf_add(&s->trusted, out.text.ptr + at, out.text.len - at);
    template_output_deinit(&out);
    json_doc_free(&doc);
    strbuf_deinit(&text);
}

/* Control tokens as families spell them, and a text of the same length and words that is none. */
static const char *const SPELLINGS[][2] = {
    {"<|im_start|>", "(:im_start:)"},
    {"<|im_end|>", "(:im_end:)"},
    {"<|eot_id|>", "(:eot_id:)"},
    {"<|start_header_id|>", "(:start_header_id:)"},
    {"<|start|>", "(:start:)"},
    {"<|call|>", "(:call:)"},
    {"[INST]", "(INST)"},
    {"[/INST]", "(-INST)"},
    {"[TOOL_CALLS]", "(TOOL_CALLS)"},
    {"<start_of_turn>", "(start_of_turn)"},
    {"<turn|>", "(turn:)"},
    {"<|END_OF_TURN_TOKEN|>", "(:END_OF_TURN_TOKEN:)"},
    {"<|user|>", "(:user:)"},
    {"<|Assistant|>", "(:Assistant:)"},
    {"]~b]", ")=b)"},
    {"[|endofturn|]", "(:endofturn:)"},
    {"<SPECIAL_11>", "(SPECIAL_11)"},
    {"</s>", "(-s)"},
    {"<|end_of_text|>", "(:end_of_text:)"},
    {"<\xef\xbd\x9chy_User\xef\xbd\x9c>", "(:hy_User:)"},
};

/* Whoever writes texts cannot write the template's own: what the tokenizer may take for control
 * tokens is the same whether texts spell such tokens or are plain words. */
static void test_texts_spell_no_control(void **state)
{
    (void)state;
    const env world = {.allocator = mem_system()};
    fixture f;
    fixture_open(&f, "templates.json");
    const json *cases = json_get(f.doc.root, "cases");
    size_t n_rendered = 0, n_words = 0;
    for (size_t i = 0; i < json_length(cases); i++) {
        chat_template *t;
        const json *conversation;
        json_iter it = {NULL};
        str name;
        assert_ok(
            template_compile(&world, json_text(json_get(json_at(cases, i), "template")), &t, NULL),
            NULL);
        /* Spellings take turns: every template meets each of them, and every conversation. */
        for (size_t k = i;
             json_next(json_get(f.doc.root, "conversations"), &it, &name, &conversation); k++) {
            const char *const *pair = SPELLINGS[k % COUNT_OF(SPELLINGS)];
            spelled hostile, plain;
            render_spelled(t, conversation, pair[0], &hostile);
            render_spelled(t, conversation, pair[1], &plain);
            bool same = hostile.status == plain.status &&
                        hostile.trusted.len == plain.trusted.len &&
                        memcmp(strbuf_text(&hostile.trusted), strbuf_text(&plain.trusted),
                               plain.trusted.len) == 0;
            if (!same) fail_msg("template %zu, %.*s: %s", i, (int)name.len, name.ptr, pair[0]);
            n_rendered += hostile.status == WEFT_OK ? 1 : 0;
            n_words += hostile.n_words;
            strbuf_deinit(&hostile.trusted);
            strbuf_deinit(&plain.trusted);
        }
        template_destroy(t);
    }
    assert_true(n_rendered >= 800 && n_words > 3500);
    json_doc_free(&f.doc);
}

typedef struct refusal {
    const char *source;
    weft_status status;
    const char *part;
} refusal;

static const refusal REFUSALS[] = {
    {"a\n{{ x | nosuch }}", WEFT_UNSUPPORTED, "line 2: filter 'nosuch'"},
    {"\n\n{{ x is nosuch }}", WEFT_UNSUPPORTED, "line 3: test 'nosuch'"},
    {"{% include 'x' %}", WEFT_UNSUPPORTED, "line 1: tag 'include'"},
    {"{% if %}", WEFT_FORMAT, "line 1: expected an expression"},
    {"{% if x %}\n", WEFT_FORMAT, "before 'endif'"},
    {"{% endif %}", WEFT_FORMAT, "unexpected tag 'endif'"},
    {"{{ 'abc }}", WEFT_FORMAT, "the string is never ended"},
    {"{# abc", WEFT_FORMAT, "the comment is never ended"},
    {"{% raw %}", WEFT_FORMAT, "the raw block is never ended"},
    {"{{ (1 }}", WEFT_FORMAT, "unexpected '}'"},
    {"{{ a b }}", WEFT_FORMAT, "expected '}}', got a name"},
    {"{% set 1 = 2 %}", WEFT_FORMAT, "cannot assign"},
    {"{% break %}", WEFT_FORMAT, "'break' outside a loop"},
    {"{% for x in [1] %}{% for y in [] recursive %}{% else %}{% break %}{% endfor %}{% endfor %}",
     WEFT_FORMAT, "'break' outside a loop"},
    {"{% for x in [1] %}\n{% set loop = 1 %}{% endfor %}", WEFT_FORMAT,
     "line 1: cannot assign to 'loop'"},
    {"{% for loop in [1] %}{% endfor %}", WEFT_FORMAT, "cannot assign to 'loop'"},
    {"{% filter length %}abc{% endfilter %}", WEFT_FORMAT, "has to be a string, got 'int'"},
    {"{% call dict() %}{% endcall %}", WEFT_FORMAT, "has to be a string, got 'dict'"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", WEFT_FORMAT, "a keyword argument"},
    {"{{ [] is filter }}", WEFT_FORMAT, "unhashable type"},
    {"{{ 99999999999999999999 }}", WEFT_LIMIT, "exceeds 64 bits"},
    {"{{ '\\ud800' }}", WEFT_FORMAT, "names no character"},
    {"{{ f(a=1, a=2) }}", WEFT_FORMAT, "repeated"},
    {"{{ f(a=1, 2) }}", WEFT_FORMAT, "invalid order"},
    {"\xff", WEFT_FORMAT, "not valid UTF-8"},
    {"{{ raise_exception('Roles must alternate!') }}", WEFT_ARGUMENT, "Roles must alternate!"},
    {"\n{{ x.y.z }}", WEFT_FORMAT, "template line 2: 'x' is undefined"},
    {"{{ 9223372036854775807 + 1 }}", WEFT_FORMAT, "exceeds 64 bits"},
    {"{{ [].append(1) }}", WEFT_FORMAT, "not allowed in a template"},
    {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", WEFT_LIMIT,
     "more than 10000000 steps"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", WEFT_LIMIT, "nest deeper"},
    {"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", WEFT_LIMIT, "nest deeper"},
    {"{{ 'x' * 1000000000 }}", WEFT_LIMIT, ""},
    {"{{ [1] * 100000000000000000 }}", WEFT_LIMIT, ""},
    {"{{ '%1000000000d' % 1 }}", WEFT_LIMIT, ""},
    {"{{ 'x'.center(9000000000000000000) }}", WEFT_LIMIT, ""},
    {"{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor "
     "%}{{ ns.x }}",
     WEFT_LIMIT, "nests deeper"},
    {"{% set ns = namespace(x=[]) %}{% set ns.x = [ns] %}{{ ns }}", WEFT_LIMIT, "nests deeper"},
    {"{{ range(1000000) }}", WEFT_LIMIT, "exceeds 100000"},
    {"{% set ns = namespace(x='ab') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% "
     "endfor %}",
     WEFT_LIMIT, ""},
};

static void test_refusals(void **state)
{
    (void)state;
    const env world = {.allocator = mem_system()};
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        template_output out;
        weft_error err = {.status = WEFT_OK};
        template_input input = {.now = 0};
        template_output_init(&out, mem_system());
        weft_status status = render(&world, str_of(REFUSALS[i].source), &input, &out, &err);
        if (status != REFUSALS[i].status || strstr(err.message, REFUSALS[i].part) == NULL) {
            fail_msg("%s: %s", REFUSALS[i].source, err.message);
        }
        assert_int_equal(out.text.len, 0);
        assert_int_equal(render(&world, str_of(REFUSALS[i].source), &input, &out, NULL), status);
        template_output_deinit(&out);
    }
}

/* prefix, n times a piece, n times another: nesting without end. */
static void check_nested(const char *open, const char *close)
{
    const env world = {.allocator = mem_system()};
    for (uint32_t n = 8; n <= 65536; n *= 8) {
        strbuf source;
        template_output out;
        weft_error err = {.status = WEFT_OK};
        template_input input = {.now = 0};
        strbuf_init(&source, mem_system(), 0);
        template_output_init(&out, mem_system());
        for (uint32_t i = 0; i < n; i++) strbuf_add_text(&source, open);
        for (uint32_t i = 0; i < n; i++) strbuf_add_text(&source, close);
        weft_status status = render(&world, (str){source.ptr, source.len}, &input, &out, &err);
        assert_true(status == WEFT_OK || status == WEFT_LIMIT || status == WEFT_FORMAT);
        template_output_deinit(&out);
        strbuf_deinit(&source);
    }
}

static void test_nesting_is_bounded(void **state)
{
    (void)state;
    check_nested("{% if 1 %}", "{% endif %}");
    check_nested("{% for i in [1] %}", "{% endfor %}");
    check_nested("{{ (", ") }}");
    check_nested("{{ [", "] }}");
    check_nested("{{ ((((((((", "");
    check_nested("{{ - - - - - not not ", "");
    check_nested("{{ 1 if 1 else ", "");
    check_nested("{{ x", ".y }}");
    check_nested("{% set x = '' %}{{ ''|e", "|trim|trim|trim|trim|trim|trim|trim }}");
    check_nested("{{ 1 + 1 + 1 + 1 * 1 ** 1 }}", "{{ 1 ~ 2 and 3 or 4 < 5 < 6 }}");
}

static void test_own_limits(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        template_limits limits;
    } cases[] = {
        {"{% for i in range(50) %}{% endfor %}", {.n_steps = 50}},
        {"0123456789", {.output_bytes = 9}},
        {"{{ range(3000) | list }}", {.memory_bytes = 10000}},
        {"{% macro f(n) %}{{ f(n - 1) if n else '' }}{% endmacro %}{{ f(5) }}", {.depth = 5}},
    };
    const env world = {.allocator = mem_system()};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        template_output out;
        weft_error err = {.status = WEFT_OK};
        template_input input = {.limits = cases[i].limits};
        template_output_init(&out, mem_system());
        assert_status(WEFT_LIMIT, render(&world, str_of(cases[i].source), &input, &out, &err),
                      &err);
        err.status = WEFT_OK;
        input.limits = (template_limits){.n_steps = 0};
        assert_ok(render(&world, str_of(cases[i].source), &input, &out, &err), &err);
        template_output_deinit(&out);
    }
}

static void test_source_limit(void **state)
{
    (void)state;
    const env world = {.allocator = mem_system()};
    char *source = mem_alloc_zero(mem_system(), TEMPLATE_SOURCE_BYTES + 1);
    chat_template *t;
    weft_error err = {.status = WEFT_OK};
    memset(source, 'a', TEMPLATE_SOURCE_BYTES + 1);
    str longest = {source, TEMPLATE_SOURCE_BYTES};
    assert_ok(template_compile(&world, longest, &t, &err), &err);
    template_destroy(t);
    longest.len++;
    assert_status(WEFT_LIMIT, template_compile(&world, longest, &t, &err), &err);
    assert_null(t);
    mem_free(mem_system(), source, TEMPLATE_SOURCE_BYTES + 1);
    template_destroy(NULL);
}

/* One template rendered again into the same output, as the server does. */
static void test_output_is_reused(void **state)
{
    (void)state;
    const env world = {.allocator = mem_system()};
    chat_template *t;
    template_output out;
    json_doc doc;
    weft_error err = {.status = WEFT_OK};
    assert_ok(json_parse(&doc, "[\"x\", \"longer\"]", 15, &err), &err);
    assert_ok(template_compile(&world, str_of("<{{ a }}>\r\n{{ a | length }}\n"), &t, &err), &err);
    template_output_init(&out, mem_system());
    for (size_t i = 0; i < 4; i++) {
        template_var var = {"a", json_at(doc.root, i % 2)};
        template_input input = {.vars = &var, .n_vars = 1};
        assert_ok(template_render(t, &input, &out, &err), &err);
        assert_string_equal(strbuf_text(&out.text), i % 2 == 0 ? "<x>\n1" : "<longer>\n6");
        assert_int_equal(out.n_spans, 1);
        assert_int_equal(out.spans[0].first, 1);
        assert_int_equal(out.spans[0].n_bytes, i % 2 == 0 ? 1 : 6);
    }
    template_output_deinit(&out);
    template_destroy(t);
    json_doc_free(&doc);
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    const fixture *f = user;
    const json *one = json_at(json_get(f->doc.root, "cases"), 3);
    vars v;
    vars_of(&v, json_get(json_get(f->doc.root, "conversations"), "tools"));
    template_input input = {.vars = v.items, .n_vars = v.n};
    template_output out;
    template_output_init(&out, world->allocator);
    weft_status status = render(world, json_text(json_get(one, "template")), &input, &out, err);
    if (status == WEFT_OK) assert_true(out.text.len > 500 && out.n_spans > 10);
    template_output_deinit(&out);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "templates.json");
    assert_true(fault_sweep(scenario, &f) >= 15);
    json_doc_free(&f.doc);
}

/* An arena hides most allocations from the sweep above: with its limit, and the steps', at every
 * size each of them is the one that fails. */
static void sweep_limits(const chat_template *t, template_input *input)
{
    template_output out;
    template_output_init(&out, mem_system());
    weft_status status = WEFT_LIMIT;
    for (size_t n = 1; status != WEFT_OK; n += n < 4096 ? 64 : n / 64) {
        input->limits = (template_limits){.memory_bytes = n};
        status = template_render(t, input, &out, NULL);
        assert_true(status == WEFT_OK || (status == WEFT_LIMIT && out.text.len == 0));
    }
    status = WEFT_LIMIT;
    for (uint64_t n = 1; status != WEFT_OK; n += 1 + n / 128) {
        input->limits = (template_limits){.n_steps = n};
        status = template_render(t, input, &out, NULL);
        assert_true(status == WEFT_OK || (status == WEFT_LIMIT && out.n_spans == 0));
    }
    template_output_deinit(&out);
}

static void test_limits_at_every_place(void **state)
{
    (void)state;
    const env world = {.allocator = mem_system()};
    fixture f;
    fixture_open(&f, "templates.json");
    const json *cases = json_get(f.doc.root, "cases");
    vars v;
    vars_of(&v, json_get(json_get(f.doc.root, "conversations"), "tools"));
    for (size_t i = 0; i < json_length(cases); i++) {
        const json *one = json_at(cases, i);
        if (json_kind_of(json_get(json_get(one, "results"), "tools")) == JSON_KIND_NULL) continue;
        chat_template *t;
        template_input input = {.vars = v.items, .n_vars = v.n};
        assert_ok(template_compile(&world, json_text(json_get(one, "template")), &t, NULL), NULL);
        sweep_limits(t, &input);
        template_destroy(t);
    }
    json_doc_free(&f.doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates_of_families),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_provenance),
        cmocka_unit_test(test_texts_spell_no_control),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_own_limits),
        cmocka_unit_test(test_source_limit),
        cmocka_unit_test(test_output_is_reused),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_limits_at_every_place),
    };
    return TEST_RUN("chat/template", tests);
}
