/* openai.c - usage, timings, log-probabilities, forms. */
#include "server/openai.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "server/apis/api.h"

#define AT(field) offsetof(openai_forms, field)

const field_row OPENAI_FORM_ROWS[] = {
    {"json_schema", FIELD_JSON, AT(json_schema), 0, 0, NULL},
    {"guided_json", FIELD_JSON, AT(guided_json), 0, 0, NULL},
    {"guided_choice", FIELD_JSON, AT(guided_choice), 0, 0, NULL},
    {"guided_regex", FIELD_TEXT, AT(guided_regex), 0, 0, NULL},
    {"guided_grammar", FIELD_TEXT, AT(guided_grammar), 0, 0, NULL},
    {"grammar", FIELD_TEXT, AT(grammar), 0, 0, NULL},
    {"structured_outputs", FIELD_JSON, AT(structured_outputs), 0, 0, NULL},
};

const size_t N_OPENAI_FORM_ROWS = COUNT_OF(OPENAI_FORM_ROWS);

const field_row OPENAI_COMMON_ROWS[] = {
    {"user", FIELD_IGNORED, 0, 0, 0, NULL},
    {"metadata", FIELD_IGNORED, 0, 0, 0, NULL},
    {"service_tier", FIELD_IGNORED, 0, 0, 0, NULL},
    {"safety_identifier", FIELD_IGNORED, 0, 0, 0, NULL},
    {"prompt_cache_key", FIELD_IGNORED, 0, 0, 0, NULL},
    {"prompt_cache_retention", FIELD_IGNORED, 0, 0, 0, NULL},
    {"prompt_cache_options", FIELD_IGNORED, 0, 0, 0, NULL},
};

const size_t N_OPENAI_COMMON_ROWS = COUNT_OF(OPENAI_COMMON_ROWS);

void openai_write_usage(const generation *g, strbuf *out)
{
    uint32_t n_new = generation_new_tokens(g);
    strbuf_printf(out,
                  "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
                  g->n_prompt_tokens, n_new, g->n_prompt_tokens + n_new,
                  generation_cached_tokens(g));
}

static double rate(double n, double ms)
{
    return ms > 0.0 ? n * 1000.0 / ms : 0.0;
}

void openai_write_timings(const generation *g, strbuf *out)
{
    uint64_t first = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < g->n_answers; i++) {
        const answer *a = &g->answers[i];
        if (a->ns_first != 0 && (first == 0 || a->ns_first < first)) first = a->ns_first;
        if (a->ns_last > last) last = a->ns_last;
    }
    uint32_t n_new = generation_new_tokens(g);
    uint32_t n_read = g->n_prompt_tokens - generation_cached_tokens(g);
    double read_ms = (double)first / 1e6;
    double new_ms = (double)(last - first) / 1e6;
    strbuf_printf(out,
                  ",\"timings\":{\"prompt_n\":%u,\"prompt_ms\":%.3f,\"prompt_per_second\":%.3f,"
                  "\"predicted_n\":%u,\"predicted_ms\":%.3f,\"predicted_per_second\":%.3f}",
                  n_read, read_ms, rate(n_read, read_ms), n_new, new_ms,
                  n_new > g->n_answers ? rate(n_new - g->n_answers, new_ms) : 0.0);
}

void openai_write_logprobs(answer *a, strbuf *out)
{
    bool none = a->g->asked.stream && a->logprobs.len == 0;
    if (a->g->asked.n_top == UINT32_MAX || none) {
        strbuf_add_text(out, "\"logprobs\":null");
        return;
    }
    strbuf_add_text(out, "\"logprobs\":{\"content\":[");
    strbuf_add(out, strbuf_text(&a->logprobs), a->logprobs.len);
    strbuf_add_text(out, "],\"refusal\":null}");
    strbuf_clear(&a->logprobs);
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define BESIDE "is beside another form that the answer must have"

static weft_status set_form(generation *g, weft_grammar_kind kind, const char *name, str text,
                            char *param, weft_error *err)
{
    if (g->has_form) return field_wrong(param, name, err, BESIDE);
    if (text.len == 0) return field_wrong(param, name, err, "is empty");
    g->has_form = true;
    g->form_kind = kind;
    weft_status status = strbuf_add(&g->form, text.ptr, text.len);
    return status == WEFT_OK ? status : err_set(err, status, "%s is too long", name);
}

static weft_status set_json_form(generation *g, weft_grammar_kind kind, const char *name,
                                 const json *value, char *param, weft_error *err)
{
    strbuf text;
    strbuf_init(&text, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    bool is_text = json_kind_of(value) == JSON_KIND_TEXT && kind == WEFT_GRAMMAR_SCHEMA;
    str given = json_text(value);
    if (!is_text) {
        json_write(value, 0, &text);
        given = (str){strbuf_text(&text), text.len};
    }
    json_kind have = json_kind_of(value);
    bool fits = is_text || have == JSON_KIND_OBJECT || have == JSON_KIND_BOOL;
    if (kind == WEFT_GRAMMAR_CHOICE) fits = have == JSON_KIND_ARRAY && json_length(value) > 0;
    weft_status status = text.status;
    if (!fits) {
        status = field_wrong(param, name, err, "is %s",
                             have == JSON_KIND_ARRAY ? "an empty array" : json_kind_name(have));
    } else if (status == WEFT_OK) {
        status = set_form(g, kind, name, given, param, err);
    }
    strbuf_deinit(&text);
    return status == WEFT_OK ? status : err_set(err, status, "%s is too long", name);
}

typedef struct structured {
    const json *json, *choice, *structural_tag;
    str regex, grammar;
    bool json_object;
} structured;

/* vLLM's {"json": ...}, {"regex": ...}, ... */
static weft_status read_structured(generation *g, const json *value, char *param, weft_error *err)
{
    static const field_row ROWS[] = {
        {"json", FIELD_JSON, offsetof(structured, json), 0, 0, NULL},
        {"choice", FIELD_JSON, offsetof(structured, choice), 0, 0, NULL},
        {"regex", FIELD_TEXT, offsetof(structured, regex), 0, 0, NULL},
        {"grammar", FIELD_TEXT, offsetof(structured, grammar), 0, 0, NULL},
        {"json_object", FIELD_FLAG, offsetof(structured, json_object), 0, 0, NULL},
    };
    structured s = {.json = NULL};
    field_table table = {ROWS, COUNT_OF(ROWS), &s};
    weft_status status = fields_read(value, "structured_outputs.", &table, 1, param, err);
    if (status != WEFT_OK) return status;
    if (json_get(value, "json_object") != NULL && !s.json_object)
        return field_wrong(param, "structured_outputs.json_object", err, "is not true");
    if (s.json_object && g->has_form)
        return field_wrong(param, "structured_outputs.json_object", err, BESIDE);
    if (s.json_object) {
        g->has_form = true;
        g->form_kind = WEFT_GRAMMAR_JSON;
    }
    openai_forms f = {.guided_json = s.json,
                      .guided_choice = s.choice,
                      .guided_regex = s.regex,
                      .guided_grammar = s.grammar};
    status = openai_read_forms(g, &f, param, err);
    if (status == WEFT_OK && !g->has_form)
        status = field_wrong(param, "structured_outputs", err, "says nothing");
    return status;
}

weft_status openai_read_forms(generation *g, const openai_forms *f, char *param, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (f->json_schema != NULL)
        status = set_json_form(g, WEFT_GRAMMAR_SCHEMA, "json_schema", f->json_schema, param, err);
    if (status == WEFT_OK && f->guided_json != NULL)
        status = set_json_form(g, WEFT_GRAMMAR_SCHEMA, "guided_json", f->guided_json, param, err);
    if (status == WEFT_OK && f->guided_choice != NULL)
        status =
            set_json_form(g, WEFT_GRAMMAR_CHOICE, "guided_choice", f->guided_choice, param, err);
    if (status == WEFT_OK && f->guided_regex.ptr != NULL)
        status = set_form(g, WEFT_GRAMMAR_REGEX, "guided_regex", f->guided_regex, param, err);
    if (status == WEFT_OK && f->guided_grammar.ptr != NULL)
        status = set_form(g, WEFT_GRAMMAR_RULES, "guided_grammar", f->guided_grammar, param, err);
    if (status == WEFT_OK && f->grammar.ptr != NULL)
        status = set_form(g, WEFT_GRAMMAR_RULES, "grammar", f->grammar, param, err);
    if (status == WEFT_OK && f->structured_outputs != NULL)
        status = read_structured(g, f->structured_outputs, param, err);
    return status;
}

typedef struct stream_options {
    bool include_usage;
} stream_options;

weft_status openai_read_stream_options(generation *g, const json *options, char *param,
                                       weft_error *err)
{
    static const field_row ROWS[] = {
        {"include_usage", FIELD_FLAG, offsetof(stream_options, include_usage), 0, 0, NULL},
        {"include_obfuscation", FIELD_IGNORED, 0, 0, 0, NULL},
    };
    stream_options o = {.include_usage = false};
    if (options == NULL) return WEFT_OK;
    field_table table = {ROWS, COUNT_OF(ROWS), &o};
    weft_status status = fields_read(options, "stream_options.", &table, 1, param, err);
    g->include_usage = o.include_usage;
    return status;
}

/* ---- the start of an object, and the end of a stream ----------------------------------------- */

void openai_begin_object(generation *g, const char *prefix, const char *object, strbuf *out)
{
    strbuf *stem = &g->stem;
    if (stem->len == 0) {
        strbuf_printf(stem,
                      "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", prefix,
                      g->id, object, (long long)g->created);
        json_write_text(str_of(g->model->name), stem);
        strbuf_add_text(stem, ",\"choices\":[");
    }
    strbuf_add(out, strbuf_text(stem), stem->len);
    if (stem->status != WEFT_OK) out->status = stem->status;
}

void openai_end_stream(generation *g, strbuf *chunk, strbuf *out)
{
    if (g->include_usage) {
        strbuf_add_text(chunk, "],");
        openai_write_usage(g, chunk);
        openai_write_timings(g, chunk);
        strbuf_add_char(chunk, '}');
        generation_event(g, NULL, chunk);
    }
    strbuf_add_text(out, "data: [DONE]\n\n");
}

void openai_broken(generation *g, uint32_t status, const char *message)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    openai_write_error(&out, &(api_error){status, NULL, message, g->x->number});
    generation_event(g, NULL, &out);
    strbuf_deinit(&out);
}
