/* conversation.c - weft_chat_open and what it gives. */
#include "api/conversation.h"

#include <string.h>

#include "base/assert.h"

/* ---- options --------------------------------------------------------------------------------- */

static weft_status check_bytes(const char *text, size_t most, const char *what, weft_error *err)
{
    size_t n = text != NULL ? strlen(text) : 0;
    if (n <= most) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "%s have %zu bytes, at most %zu may be", what, n, most);
}

static bool is_choice(const weft_chat_options *o, const char *what)
{
    return o->tool_choice != NULL && strcmp(o->tool_choice, what) == 0;
}

static weft_status check_options(const weft_chat_options *o, weft_error *err)
{
    if (o->messages_json == NULL) return err_set(err, WEFT_ARGUMENT, "messages_json is NULL");
    if ((o->flags & ~(uint32_t)WEFT_CHAT_NO_GENERATION_PROMPT) != 0)
        return err_set(err, WEFT_ARGUMENT, "unknown flags %x", o->flags);
    bool known = o->tool_choice == NULL || is_choice(o, "auto") || is_choice(o, "none") ||
                 is_choice(o, "required");
    if (!known) {
        return err_set(err, WEFT_ARGUMENT,
                       "tool_choice is '%.40s', expected auto, none or required", o->tool_choice);
    }
    if (o->tool_name != NULL && is_choice(o, "none"))
        return err_set(err, WEFT_ARGUMENT, "tool_name is '%.40s' with a tool_choice of none",
                       o->tool_name);
    if (o->has_form && o->form == NULL && o->form_bytes > 0)
        return err_set(err, WEFT_ARGUMENT, "form is NULL");
    weft_status status = check_bytes(o->messages_json, WEFT_CHAT_MESSAGES_BYTES, "messages", err);
    if (status == WEFT_OK) status = check_bytes(o->tools_json, WEFT_CHAT_TOOLS_BYTES, "tools", err);
    if (status == WEFT_OK)
        status = check_bytes(o->variables_json, WEFT_CHAT_TOOLS_BYTES, "variables", err);
    return status;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void add_id(const weft_chat *c, const char *text, int32_t *ids, uint32_t *n, uint32_t most)
{
    int32_t id = tokenizer_find(c->model->tokenizer, str_of(text));
    if (id < 0 || !tokenizer_is_special(c->model->tokenizer, id) || *n == most) return;
    for (uint32_t i = 0; i < *n; i++) {
        if (ids[i] == id) return;
    }
    ids[(*n)++] = id;
}

static void add_shown(void *user, const char *marker)
{
    weft_chat *c = user;
    add_id(c, marker, c->shown, &c->n_shown, WEFT_SHOWN_IDS);
}

/* A marker may be a special token and text behind it: the token ends with its first bracket. */
static void add_shown_part(void *user, const char *marker)
{
    char token[64];
    const char *end = strchr(marker, marker[0] == '[' ? ']' : '>');
    size_t n = end != NULL ? (size_t)(end - marker) + 1 : 0;
    if (n > 0 && n < sizeof token) {
        memcpy(token, marker, n);
        token[n] = '\0';
        add_shown(user, token);
    }
    add_shown(user, marker);
}

static void take_tokens(weft_chat *c)
{
    const dialect *d = c->reading.dialect;
    dialect_markers(d, add_shown_part, c);
    if (c->reading.think_open != NULL) {
        add_shown_part(c, c->reading.think_open);
        add_shown_part(c, c->reading.think_close);
    }
    for (size_t i = 0; i < DIALECT_TAGS && d->stops[i] != NULL; i++)
        add_id(c, d->stops[i], c->stops, &c->n_stops, CHAT_STOPS);
}

static void choose_dialect(weft_chat *c, const weft_chat_options *o)
{
    const dialect_choice *choice = &c->model->dialect;
    const dialect *d = choice->row;
    chat_reading *how = &c->reading;
    *how = (chat_reading){.dialect = d, .tools = &c->tools, .one_call = o->one_call};
    how->calls = d->form != NULL && c->tools.n > 0;
    const char *close = d->think_close != NULL ? d->think_close : "</think>";
    bool thinks = choice->thinks || tokenizer_find(c->model->tokenizer, str_of(close)) >= 0;
    if (d->channels || !thinks) return;
    how->think_open = d->think_open != NULL ? d->think_open : "<think>";
    how->think_close = close;
}

/* ---- what the answer must be ----------------------------------------------------------------- */

/* Which tool it is that cannot be honoured: each alone. */
static void name_tool(const weft_chat *c, const chat_form *form, const json *tools, weft_error *err)
{
    strbuf text;
    for (size_t i = 0; i < json_length(tools); i++) {
        chat_form one = *form;
        one.only = c->tools.items[i].name;
        weft_error why = {.status = WEFT_OK};
        weft_grammar *made = NULL;
        strbuf_init(&text, &c->allocator, 0);
        if (chat_form_write(&one, tools, &text, &why) == WEFT_OK)
            (void)weft_grammar_open(c->model, WEFT_GRAMMAR_PARTS, text.ptr, text.len, &made, &why);
        weft_grammar_close(made);
        strbuf_deinit(&text);
        if (why.status == WEFT_OK) continue;
        *err = why;
        err_context(err, "tool '%.*s': ", (int)one.only.len, one.only.ptr);
        return;
    }
}

static weft_status open_form(weft_chat *c, const chat_form *form, const json *tools,
                             weft_error *err)
{
    strbuf text;
    weft_error why = {.status = WEFT_OK};
    strbuf_init(&text, &c->allocator, 0);
    weft_status status = chat_form_write(form, tools, &text, &why);
    if (status == WEFT_OK) {
        status =
            weft_grammar_open(c->model, WEFT_GRAMMAR_PARTS, text.ptr, text.len, &c->grammar, &why);
    }
    strbuf_deinit(&text);
    if (status == WEFT_OK) return status;
    if (status != WEFT_NOMEM && form->calls != FORM_CALLS_NONE && form->only.len == 0)
        name_tool(c, form, tools, &why);
    if (form->only.len > 0) err_context(&why, "tool '%.*s': ", (int)form->only.len, form->only.ptr);
    return err_set(err, why.status, "%s", why.message);
}

static bool any_strict(const tool_list *tools)
{
    for (size_t i = 0; i < tools->n; i++) {
        if (tools->items[i].strict) return true;
    }
    return false;
}

static weft_status make_grammar(weft_chat *c, const weft_chat_options *o, const json *tools,
                                weft_error *err)
{
    chat_form form = {.reading = &c->reading,
                      .older = c->model->dialect.older,
                      .thoughts_closed = c->thoughts_closed,
                      .calls = FORM_CALLS_NONE,
                      .has_content = o->has_form,
                      .content_kind = o->form_kind,
                      .content = {o->form != NULL ? o->form : "", o->form_bytes}};
    bool forced = o->tool_name != NULL || is_choice(o, "required");
    if (o->tool_name != NULL) form.only = str_of(o->tool_name);
    if (forced && !c->reading.calls) {
        return err_set(err, c->tools.n == 0 ? WEFT_ARGUMENT : WEFT_UNSUPPORTED,
                       c->tools.n == 0 ? "a call is required, and there are no tools"
                                       : "a call is required, and how the model's template wants "
                                         "calls written is not known");
    }
    if (o->tool_name != NULL && tool_list_find(&c->tools, form.only) == NULL)
        return err_set(err, WEFT_ARGUMENT, "tool_name is '%.40s', of which there is no tool",
                       o->tool_name);
    if (c->reading.calls) {
        form.calls = forced                                 ? FORM_CALLS_REQUIRED
                     : o->has_form || any_strict(&c->tools) ? FORM_CALLS_ALLOWED
                                                            : FORM_CALLS_NONE;
    }
    if (form.calls == FORM_CALLS_NONE && !o->has_form) return WEFT_OK;
    return open_form(c, &form, tools, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static weft_status fill(weft_chat *c, const weft_chat_options *o, weft_error *err)
{
    json_doc doc = {NULL};
    str tools = str_of(o->tools_json != NULL && !is_choice(o, "none") ? o->tools_json : "null");
    weft_status status = json_parse(&doc, tools.ptr, tools.len, err);
    if (status != WEFT_OK) {
        err_context(err, "tools: ");
        return status;
    }
    status = tool_list_init(&c->tools, &c->allocator, doc.root, err);
    if (status == WEFT_OK) {
        choose_dialect(c, o);
        take_tokens(c);
        if (c->tools.n == 0) tools = (str){"", 0};
        status = chat_make_prompt(c, o, tools, err);
    }
    if (status == WEFT_OK) status = make_grammar(c, o, doc.root, err);
    json_doc_free(&doc);
    return status;
}

weft_status weft_chat_open(const weft_model *model, const weft_chat_options *options,
                           weft_chat **out, weft_error *err)
{
    err_clear(err);
    if (out == NULL) return err_set(err, WEFT_ARGUMENT, "chat is NULL");
    *out = NULL;
    weft_chat_options ours = {.struct_size = sizeof ours};
    if (options == NULL) return err_set(err, WEFT_ARGUMENT, "options is NULL");
    weft_status status = API_TAKE(ours, options, form_bytes, "weft_chat_options", err);
    if (status == WEFT_OK) status = api_need_chat(model, err);
    if (status == WEFT_OK) status = check_options(&ours, err);
    if (status != WEFT_OK) return status;
    weft_chat *c = mem_alloc_zero(&model->allocator, sizeof *c);
    if (c == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a conversation");
    c->model = model;
    c->allocator = model->allocator;
    token_list_init(&c->prompt, &c->allocator);
    status = fill(c, &ours, err);
    if (status == WEFT_OK) {
        *out = c;
    } else {
        weft_chat_close(c);
    }
    return status;
}

void weft_chat_close(weft_chat *c)
{
    if (c == NULL) return;
    const weft_allocator allocator = c->allocator;
    weft_grammar_close(c->grammar);
    tool_list_deinit(&c->tools);
    token_list_deinit(&c->prompt);
    mem_free(&allocator, c, sizeof *c);
}

weft_status weft_chat_fill(const weft_chat *c, weft_request *request, weft_error *err)
{
    err_clear(err);
    if (c == NULL || request == NULL)
        return err_set(err, WEFT_ARGUMENT, "%s is NULL", c == NULL ? "chat" : "request");
    weft_request ours = {.struct_size = sizeof ours};
    weft_status status = API_TAKE(ours, request, n_shown_ids, "weft_request", err);
    if (status != WEFT_OK) return status;
    ours.prompt = c->prompt.ids;
    ours.n_prompt = (uint32_t)c->prompt.len;
    ours.flags |= WEFT_REQUEST_TEXT;
    ours.stop_ids = c->n_stops > 0 ? c->stops : NULL;
    ours.n_stop_ids = c->n_stops;
    ours.shown_ids = c->n_shown > 0 ? c->shown : NULL;
    ours.n_shown_ids = c->n_shown;
    ours.grammar = c->grammar;
    return API_GIVE(ours, request, n_shown_ids, "weft_request", err);
}

weft_status weft_chat_get_info(const weft_chat *c, weft_chat_info *info, weft_error *err)
{
    err_clear(err);
    if (c == NULL) return err_set(err, WEFT_ARGUMENT, "chat is NULL");
    weft_chat_info ours = {
        .struct_size = sizeof ours,
        .dialect = c->reading.dialect->name,
        .n_prompt = (uint32_t)c->prompt.len,
        .prompt = c->prompt.ids,
        .n_tools = c->reading.calls ? (uint32_t)c->tools.n : 0,
        .in_reasoning = c->reading.in_reasoning,
        .has_grammar = c->grammar != NULL,
        .n_replayed = c->n_replayed,
    };
    return API_GIVE(ours, info, n_replayed, "weft_chat_info", err);
}

/* ---- parsers --------------------------------------------------------------------------------- */

struct weft_parser {
    weft_allocator allocator;
    chat_parser parser;
};

weft_status weft_parser_create(const weft_chat *c, weft_parser **out, weft_error *err)
{
    err_clear(err);
    if (out == NULL) return err_set(err, WEFT_ARGUMENT, "parser is NULL");
    *out = NULL;
    if (c == NULL) return err_set(err, WEFT_ARGUMENT, "chat is NULL");
    weft_parser *p = mem_alloc_zero(&c->allocator, sizeof *p);
    if (p == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a parser");
    p->allocator = c->allocator;
    chat_parser_init(&p->parser, &p->allocator, &c->reading);
    *out = p;
    return WEFT_OK;
}

void weft_parser_destroy(weft_parser *p)
{
    if (p == NULL) return;
    const weft_allocator allocator = p->allocator;
    chat_parser_deinit(&p->parser);
    mem_free(&allocator, p, sizeof *p);
}

weft_status weft_parser_push(weft_parser *p, const char *text, size_t n_bytes, weft_error *err)
{
    err_clear(err);
    if (p == NULL || (text == NULL && n_bytes > 0))
        return err_set(err, WEFT_ARGUMENT, "%s is NULL", p == NULL ? "parser" : "text");
    return chat_parser_push(&p->parser, (str){text, n_bytes}, err);
}

weft_status weft_parser_end(weft_parser *p, weft_finish finish, weft_error *err)
{
    err_clear(err);
    if (p == NULL) return err_set(err, WEFT_ARGUMENT, "parser is NULL");
    if ((int)finish <= WEFT_FINISH_NONE || finish > WEFT_FINISH_DEADLINE) {
        return err_set(err, WEFT_ARGUMENT, "finish is %d, expected 1 to %d", (int)finish,
                       WEFT_FINISH_DEADLINE);
    }
    return chat_parser_end(&p->parser, finish, err);
}

weft_status weft_parser_next(weft_parser *p, weft_part *part, weft_error *err)
{
    err_clear(err);
    if (p == NULL) return err_set(err, WEFT_ARGUMENT, "parser is NULL");
    /* Checked before a part is taken, which would be lost. */
    weft_part none = {.struct_size = sizeof none, .text = ""};
    weft_status status = API_GIVE(none, part, n_bytes, "weft_part", err);
    if (status != WEFT_OK) return status;
    weft_part ours = chat_parser_next(&p->parser);
    return API_GIVE(ours, part, n_bytes, "weft_part", err);
}
