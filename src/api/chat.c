/* chat.c - weft_chat_*: a model's own template over messages, and its output as ids. */
#include <string.h>
#include <time.h>

#include "api/api.h"

/* ---- where a template is --------------------------------------------------------------------- */

/* tokenizer_config.json holds one template, or a list of named ones of which "default" is taken. */
static str template_of(const json *config)
{
    const json *value = json_get(config, "chat_template");
    for (size_t i = 0; i < json_length(value) && json_kind_of(value) == JSON_KIND_ARRAY; i++) {
        const json *row = json_at(value, i);
        if (str_equal_text(json_text(json_get(row, "name")), "default"))
            return json_text(json_get(row, "template"));
    }
    return json_text(value);
}

static weft_status compile(weft_model *m, str source, weft_error *err)
{
    if (source.len == 0) return WEFT_OK;
    weft_status status = template_compile(&m->env, source, &m->chat, err);
    m->dialect = dialect_choose(source);
    err_context(err, "chat template: ");
    return status;
}

static weft_status open_folder(weft_model *m, weft_error *err)
{
    const weights *w = m->model->weights;
    char *text;
    size_t n_bytes;
    weft_status status =
        weights_read_sibling(w, "chat_template.jinja", WEIGHTS_CONFIG_BYTES, &text, &n_bytes, err);
    if (status != WEFT_OK) return status;
    if (text != NULL) {
        status = compile(m, (str){text, n_bytes}, err);
        mem_free(m->env.allocator, text, n_bytes + 1);
        return status;
    }
    status = weights_read_sibling(w, "tokenizer_config.json", WEIGHTS_CONFIG_BYTES, &text, &n_bytes,
                                  err);
    if (status != WEFT_OK || text == NULL) return status;
    json_doc doc = {NULL};
    status = json_parse(&doc, text, n_bytes, err);
    mem_free(m->env.allocator, text, n_bytes + 1);
    if (status == WEFT_OK) {
        status = compile(m, template_of(doc.root), err);
    } else {
        err_context(err, "tokenizer_config.json: ");
    }
    json_doc_free(&doc);
    return status;
}

weft_status api_open_chat(weft_model *m, weft_error *err)
{
    const weights *w = m->model->weights;
    if (w->metadata == NULL) return open_folder(m, err);
    str source;
    if (!gguf_text(weights_metadata(w, "tokenizer.chat_template"), &source)) return WEFT_OK;
    return compile(m, source, err);
}

/* ---- rendering ------------------------------------------------------------------------------- */

enum { CHAT_DOCS = 8, CHAT_VARIABLES = 64 };

typedef struct input_vars {
    json_doc docs[CHAT_DOCS];
    template_var vars[CHAT_DOCS + CHAT_VARIABLES];
    uint32_t n_docs, n;
    strbuf names; /* of variables; not moved once they are there */
} input_vars;

static weft_status add_json(input_vars *in, const char *name, str text, weft_error *err)
{
    weft_status status = json_parse(&in->docs[in->n_docs], text.ptr, text.len, err);
    if (status != WEFT_OK) {
        err_context(err, "%s: ", name);
        return status;
    }
    in->vars[in->n] = (template_var){name, in->docs[in->n_docs].root};
    in->n_docs++;
    in->n++;
    return WEFT_OK;
}

static weft_status add_token(input_vars *in, const weft_model *m, const char *name, int32_t id,
                             weft_error *err)
{
    if (id < 0) return WEFT_OK;
    strbuf text;
    strbuf_init(&text, m->env.allocator, 0);
    weft_status status = json_write_text(tokenizer_token(m->tokenizer, id), &text);
    if (status == WEFT_OK) {
        status = add_json(in, name, (str){text.ptr, text.len}, err);
    } else {
        status = err_set(err, status, "out of memory for a template");
    }
    strbuf_deinit(&text);
    return status;
}

static weft_status check_messages(const json *messages, weft_error *err)
{
    if (json_kind_of(messages) != JSON_KIND_ARRAY) {
        return err_set(err, WEFT_ARGUMENT, "messages are %s, expected an array",
                       json_kind_name(json_kind_of(messages)));
    }
    for (size_t i = 0; i < json_length(messages); i++) {
        if (json_kind_of(json_at(messages, i)) != JSON_KIND_OBJECT) {
            return err_set(err, WEFT_ARGUMENT, "message %zu is %s, expected an object", i,
                           json_kind_name(json_kind_of(json_at(messages, i))));
        }
    }
    return WEFT_OK;
}

static weft_status check_variable(const input_vars *in, str name, weft_error *err)
{
    bool taken = name.len == 0 || memchr(name.ptr, '\0', name.len) != NULL;
    for (uint32_t i = 0; i < in->n; i++) taken = taken || str_equal_text(name, in->vars[i].name);
    if (!taken) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "variables: '%.*s' is no name for one",
                   (int)(name.len < 40 ? name.len : 40), name.ptr);
}

/* Members of an object, each a variable of its own. */
static weft_status add_variables(input_vars *in, str text, weft_error *err)
{
    json_iter it = {NULL};
    str name;
    const json *value;
    if (text.len == 0) return WEFT_OK;
    weft_status status = add_json(in, "variables", text, err);
    if (status != WEFT_OK) return status;
    const json *all = in->vars[--in->n].value;
    if (json_kind_of(all) != JSON_KIND_OBJECT) {
        return err_set(err, WEFT_ARGUMENT, "variables are %s, expected an object",
                       json_kind_name(json_kind_of(all)));
    }
    if (json_length(all) > CHAT_VARIABLES)
        return err_set(err, WEFT_LIMIT, "there are %zu variables, at most %d may be",
                       json_length(all), CHAT_VARIABLES);
    if (strbuf_reserve(&in->names, text.len + json_length(all)) != WEFT_OK)
        return err_set(err, WEFT_NOMEM, "out of memory for variables");
    while (status == WEFT_OK && json_next(all, &it, &name, &value)) {
        status = check_variable(in, name, err);
        char *kept = in->names.ptr + in->names.len;
        if (status == WEFT_OK && (strbuf_add(&in->names, name.ptr, name.len) != WEFT_OK ||
                                  strbuf_add_char(&in->names, '\0') != WEFT_OK))
            status = err_set(err, WEFT_NOMEM, "out of memory for variables");
        if (status == WEFT_OK) in->vars[in->n++] = (template_var){kept, value};
    }
    return status;
}

static weft_status fill_input(input_vars *in, const weft_model *m, const chat_input *from,
                              weft_error *err)
{
    str none = str_of("null");
    weft_status status = add_json(in, "messages", from->messages, err);
    if (status == WEFT_OK) status = check_messages(in->vars[0].value, err);
    /* As Transformers does, what is not given is none: templates ask "is not none" of both. */
    if (status == WEFT_OK)
        status = add_json(in, "tools", from->tools.len > 0 ? from->tools : none, err);
    if (status == WEFT_OK) status = add_json(in, "documents", none, err);
    if (status == WEFT_OK) {
        status =
            add_json(in, "add_generation_prompt", str_of(from->generate ? "true" : "false"), err);
    }
    if (m->tokenizer != NULL && status == WEFT_OK)
        status = add_token(in, m, "bos_token", tokenizer_bos(m->tokenizer), err);
    if (m->tokenizer != NULL && status == WEFT_OK)
        status = add_token(in, m, "eos_token", tokenizer_eos(m->tokenizer), err);
    return status == WEFT_OK ? add_variables(in, from->variables, err) : status;
}

weft_status api_render(const weft_model *m, const chat_input *from, template_output *out,
                       weft_error *err)
{
    if (m->chat == NULL) return err_set(err, m->chat_error.status, "%s", m->chat_error.message);
    input_vars in = {.n = 0};
    strbuf_init(&in.names, m->env.allocator, 0);
    weft_status status = fill_input(&in, m, from, err);
    if (status == WEFT_OK) {
        template_input input = {.vars = in.vars, .n_vars = in.n, .now = from->now};
        status = template_render(m->chat, &input, out, err);
    }
    for (uint32_t i = 0; i < in.n_docs; i++) json_doc_free(&in.docs[i]);
    strbuf_deinit(&in.names);
    return status;
}

static weft_status render(const weft_model *m, const char *messages, const char *tools,
                          uint32_t flags, template_output *out, weft_error *err)
{
    if (m == NULL || messages == NULL)
        return err_set(err, WEFT_ARGUMENT, "%s is NULL", m == NULL ? "model" : "messages");
    if ((flags & ~(uint32_t)WEFT_CHAT_NO_GENERATION_PROMPT) != 0) {
        return err_set(err, WEFT_ARGUMENT, "unknown flags %x", flags);
    }
    chat_input input = {.messages = str_of(messages), .now = (int64_t)time(NULL)};
    if (tools != NULL) input.tools = str_of(tools);
    input.generate = (flags & WEFT_CHAT_NO_GENERATION_PROMPT) == 0;
    return api_render(m, &input, out, err);
}

weft_status weft_chat_render(const weft_model *model, const char *messages_json,
                             const char *tools_json, uint32_t flags, char *text, size_t capacity,
                             size_t *n_bytes, weft_error *err)
{
    err_clear(err);
    if (n_bytes == NULL || (text == NULL && capacity > 0))
        return err_set(err, WEFT_ARGUMENT, "an argument is NULL");
    *n_bytes = 0;
    template_output out;
    template_output_init(&out, model != NULL ? model->env.allocator : mem_system());
    weft_status status = render(model, messages_json, tools_json, flags, &out, err);
    if (status == WEFT_OK) {
        *n_bytes = out.text.len;
        if (text != NULL && out.text.len + 1 <= capacity) {
            memcpy(text, strbuf_text(&out.text), out.text.len + 1);
        } else {
            status = err_set(err, WEFT_LIMIT, "%zu bytes do not fit into %zu", out.text.len + 1,
                             capacity);
        }
    }
    template_output_deinit(&out);
    return status;
}

enum { WORD_BYTES = 64 };

static bool is_word(str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
        if (!ok) return false;
    }
    return text.len <= WORD_BYTES;
}

/* Templates build control tokens around a role: <|user|>. A plain word from outside can take part
 * in one without harm, unless it is a control token by itself; anything else of the caller's is
 * kept apart. */
void api_trust_words(const weft_model *m, template_output *out)
{
    size_t n = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        str text = {out->text.ptr + out->spans[i].first, out->spans[i].n_bytes};
        bool trusted = is_word(text) &&
                       !tokenizer_is_special(m->tokenizer, tokenizer_find(m->tokenizer, text));
        if (!trusted) out->spans[n++] = out->spans[i];
    }
    out->n_spans = n;
}

weft_status api_need_chat(const weft_model *m, weft_error *err)
{
    if (m == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    if (m->tokenizer == NULL)
        return err_set(err, m->tokenizer_error.status, "%s", m->tokenizer_error.message);
    if (m->chat == NULL) return err_set(err, m->chat_error.status, "%s", m->chat_error.message);
    return WEFT_OK;
}

weft_status weft_chat_tokenize(const weft_model *model, const char *messages_json,
                               const char *tools_json, uint32_t flags, int32_t *ids,
                               size_t capacity, size_t *n_ids, weft_error *err)
{
    err_clear(err);
    if (n_ids == NULL || (ids == NULL && capacity > 0))
        return err_set(err, WEFT_ARGUMENT, "an argument is NULL");
    *n_ids = 0;
    if (model == NULL) return err_set(err, WEFT_ARGUMENT, "model is NULL");
    if (model->tokenizer == NULL)
        return err_set(err, model->tokenizer_error.status, "%s", model->tokenizer_error.message);
    template_output out;
    template_output_init(&out, model->env.allocator);
    token_list list;
    token_list_init(&list, model->env.allocator);
    weft_status status = render(model, messages_json, tools_json, flags, &out, err);
    if (status == WEFT_OK) {
        str text = {strbuf_text(&out.text), out.text.len};
        api_trust_words(model, &out);
        status = tokenizer_encode_apart(model->tokenizer, text, out.spans, out.n_spans, &list, err);
    }
    if (status == WEFT_OK) status = api_give_ids(&list, ids, capacity, n_ids, err);
    token_list_deinit(&list);
    template_output_deinit(&out);
    return status;
}
