/* prepare.c - images, templates, grammars, tokens; then weft_submit for each answer. */
#include "server/prepare.h"

#include <string.h>

#include "base/assert.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/ids.h"

enum { AHEAD_TOKENS = 256 }; /* of a stream that its client does not read */

/* ---- images ---------------------------------------------------------------------------------- */

/* Where the data begin; NULL: it is not in base64. */
static const char *find_data(str url)
{
    static const char MARK[] = ";base64,";
    size_t n = sizeof MARK - 1;
    for (size_t i = 0; i + n <= url.len && i < 128; i++) {
        if (memcmp(url.ptr + i, MARK, n) == 0) return url.ptr + i + n;
    }
    return NULL;
}

/* "data:image/png;base64,..."; nothing is fetched. */
static weft_status find_text(generation *g, str url, str *text)
{
    static const char NAME[] = "image_url.url";
    *text = url;
    if (g->bare_images) return WEFT_OK;
    if (!str_starts(url, "data:"))
        return field_wrong(g->param, NAME, &g->err,
                           "is no data URL; images are not fetched from elsewhere");
    const char *at = find_data(url);
    if (at == NULL) return field_wrong(g->param, NAME, &g->err, "is not in base64");
    *text = (str){at, url.len - (size_t)(at - url.ptr)};
    return WEFT_OK;
}

static weft_status decode_image(generation *g, str url, weft_image *out)
{
    weft_error *err = &g->err;
    const char *name = g->bare_images ? "source.data" : "image_url.url";
    str text;
    weft_status status = find_text(g, url, &text);
    if (status != WEFT_OK) return status;
    size_t n_bytes;
    size_t capacity = base64_room(text.len);
    if (capacity > GENERATION_IMAGE_BYTES)
        return field_wrong(g->param, name, err, "has %zu bytes, at most %d can be", capacity,
                           GENERATION_IMAGE_BYTES);
    unsigned char *bytes = mem_alloc(mem_system(), capacity);
    if (bytes == NULL) return err_set(err, WEFT_NOMEM, "out of memory for an image");
    if (!base64_decode(text, BASE64_LOOSE, bytes, &n_bytes))
        status = field_wrong(g->param, name, err, "is no valid base64");
    if (status == WEFT_OK) status = weft_image_decode(g->model->model, bytes, n_bytes, out, err);
    mem_free(mem_system(), bytes, capacity);
    return status;
}

static weft_status decode_images(generation *g)
{
    if (g->n_images == 0) return WEFT_OK;
    g->pictures = mem_alloc_zero(mem_system(), g->n_images * sizeof *g->pictures);
    if (g->pictures == NULL) return err_set(&g->err, WEFT_NOMEM, "out of memory for images");
    for (uint32_t i = 0; i < g->n_images; i++) {
        g->pictures[i].struct_size = sizeof g->pictures[i];
        weft_status status = decode_image(g, g->images[i], &g->pictures[i]);
        if (status == WEFT_OK) continue;
        err_context(&g->err, "image %u: ", i + 1);
        return status;
    }
    return WEFT_OK;
}

/* ---- prompts --------------------------------------------------------------------------------- */

static const char *text_or_null(const strbuf *text)
{
    return text->len > 0 ? text->ptr : NULL;
}

/* Each stands in the place of one token. */
static weft_status count_images(generation *g)
{
    for (uint32_t i = 0; i < g->n_images; i++) {
        weft_image_info info = {.struct_size = sizeof info};
        const weft_image *image = &g->pictures[i];
        weft_status status =
            weft_engine_image_info(g->model->engine, image->width, image->height, &info, &g->err);
        if (status != WEFT_OK) return status;
        if (info.n_tokens > 0) g->n_prompt_tokens += info.n_tokens - 1;
    }
    return WEFT_OK;
}

static weft_status open_chat(generation *g)
{
    weft_chat_options options = {
        .struct_size = sizeof options,
        .messages_json = strbuf_text(&g->messages),
        .tools_json = text_or_null(&g->tools),
        .variables_json = text_or_null(&g->variables),
        .tool_choice = g->tool_choice,
        .tool_name = text_or_null(&g->tool_name),
        .one_call = g->one_call,
        .has_form = g->has_form,
        .form_kind = g->form_kind,
        .form = strbuf_text(&g->form),
        .form_bytes = g->form.len,
    };
    weft_chat_info info = {.struct_size = sizeof info};
    weft_status status = weft_chat_open(g->model->model, &options, &g->chat, &g->err);
    if (status == WEFT_OK) status = weft_chat_get_info(g->chat, &info, &g->err);
    g->has_grammar = info.has_grammar;
    if (status != WEFT_OK) return status;
    g->n_prompt_tokens = info.n_prompt;
    return count_images(g);
}

static weft_status read_prompts(generation *g)
{
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        generation_prompt *p = &g->prompts[i];
        weft_status status = WEFT_OK;
        if (p->text.ptr != NULL)
            status = ids_of_text(g->model->model, p->text, WEFT_TOKENIZE_SPECIALS, &p->ids,
                                 &p->n_ids, &g->err);
        if (status != WEFT_OK) return status;
        if (p->n_ids == 0)
            return field_wrong(g->param, g->embeds ? "input" : "prompt", &g->err,
                               "number %u has no tokens", i + 1);
        if (p->n_ids > UINT32_MAX / 2)
            return field_wrong(g->param, "prompt", &g->err, "has %zu tokens", p->n_ids);
        g->n_prompt_tokens += (uint32_t)p->n_ids;
    }
    if (!g->has_form) return WEFT_OK;
    return weft_grammar_open(g->model->model, g->form_kind, strbuf_text(&g->form), g->form.len,
                             &g->grammar, &g->err);
}

/* ---- requests -------------------------------------------------------------------------------- */

static weft_status check_room(generation *g, uint32_t n_prompt)
{
    uint32_t context = g->model->context;
    if (n_prompt < context || (g->embeds && n_prompt == context)) return WEFT_OK;
    return err_set(&g->err, WEFT_LIMIT,
                   "the prompt has %u tokens, and the context of this model is %u", n_prompt,
                   context);
}

/* As many tokens as are asked for, or as there is room for: then the answer says that it ended for
 * its length. */
static uint32_t choose_max_new(const generation *g, uint32_t n_prompt)
{
    uint32_t room = g->model->context - n_prompt;
    uint32_t wanted = g->asked.max_new != 0 ? g->asked.max_new : g->options->max_new;
    return wanted == 0 || wanted > room ? room : wanted;
}

/* What the request says, else the server's. */
static const char *choose_draft(const generation *g, const weft_request *asked_for)
{
    const char *draft = g->options->draft;
    if (g->lists.draft[0] != '\0') return asked_for->draft;
    if (draft == NULL || strcmp(draft, "ngram") == 0) return draft;
    if (strcmp(draft, "mtp") == 0) return g->model->info.has_mtp ? draft : NULL;
    return "model";
}

/* Those of the request behind those of the conversation. */
static weft_status merge_stop_ids(generation *g, weft_request *r)
{
    const asked_lists *l = &g->lists;
    if (l->n_stop_ids == 0) return WEFT_OK;
    uint32_t n = r->n_stop_ids + l->n_stop_ids;
    if (g->stop_ids == NULL) {
        g->stop_ids = mem_alloc(mem_system(), n * sizeof *g->stop_ids);
        if (g->stop_ids == NULL) return err_set(&g->err, WEFT_NOMEM, "out of memory for stop ids");
        g->n_stop_ids = n;
        if (r->n_stop_ids > 0)
            memcpy(g->stop_ids, r->stop_ids, r->n_stop_ids * sizeof *g->stop_ids);
        memcpy(g->stop_ids + r->n_stop_ids, l->stop_ids, l->n_stop_ids * sizeof *g->stop_ids);
    }
    r->stop_ids = g->stop_ids;
    r->n_stop_ids = g->n_stop_ids;
    return WEFT_OK;
}

static weft_status fill_prompt(generation *g, const answer *a, weft_request *r)
{
    if (g->is_chat) return weft_chat_fill(g->chat, r, &g->err);
    const generation_prompt *p = &g->prompts[a->prompt_i];
    r->prompt = p->ids;
    r->n_prompt = (uint32_t)p->n_ids;
    r->grammar = g->grammar;
    if (!g->embeds) r->flags |= WEFT_REQUEST_TEXT | WEFT_REQUEST_CONTINUES;
    return WEFT_OK;
}

static weft_status fill_request(generation *g, answer *a, weft_request *r)
{
    *r = (weft_request){.struct_size = sizeof *r};
    asked_fill(&g->asked, &g->lists, &g->model->info, a->index % g->asked.n, r);
    weft_status status = fill_prompt(g, a, r);
    if (status == WEFT_OK) status = merge_stop_ids(g, r);
    if (status == WEFT_OK) status = check_room(g, r->n_prompt);
    if (status != WEFT_OK) return status;
    r->images = g->pictures;
    r->n_images = g->n_images;
    if (g->embeds) {
        r->embedding = g->vectors + (size_t)a->prompt_i * g->n_dims;
        r->n_embedding = g->n_dims;
        return WEFT_OK;
    }
    r->max_new = choose_max_new(g, r->n_prompt);
    if (r->min_new > r->max_new) r->min_new = r->max_new;
    r->draft = choose_draft(g, r);
    if (g->asked.stream) r->max_ahead = AHEAD_TOKENS;
    return WEFT_OK;
}

static weft_status make_answers(generation *g)
{
    uint32_t n_prompts = g->is_chat ? 1 : g->n_prompts;
    uint32_t n = n_prompts * g->asked.n;
    if (n > GENERATION_ANSWERS)
        return field_wrong(g->param, "n", &g->err, "makes %u answers, at most %d can be", n,
                           GENERATION_ANSWERS);
    g->answers = mem_alloc_zero(mem_system(), n * sizeof *g->answers);
    if (g->answers == NULL) return err_set(&g->err, WEFT_NOMEM, "out of memory for %u answers", n);
    g->n_answers = n;
    for (uint32_t i = 0; i < n; i++) {
        answer *a = &g->answers[i];
        *a = (answer){.g = g, .index = i, .prompt_i = i / g->asked.n, .stop_text = -1};
        strbuf_init(&a->content, mem_system(), 0);
        strbuf_init(&a->reasoning, mem_system(), 0);
        strbuf_init(&a->logprobs, mem_system(), 0);
        weft_status status =
            g->is_chat ? weft_parser_create(g->chat, &a->parser, &g->err) : WEFT_OK;
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status make_vectors(generation *g)
{
    if (!g->embeds) return WEFT_OK;
    if (g->n_dims == 0) g->n_dims = g->model->info.n_embd;
    if (g->n_dims > g->model->info.n_embd) {
        return field_wrong(g->param, "dimensions", &g->err, "is %u, and this model has %u",
                           g->n_dims, g->model->info.n_embd);
    }
    if (g->model->info.pooling == WEFT_POOLING_TOKENS)
        return err_set(&g->err, WEFT_UNSUPPORTED, "this model gives a vector for each token");
    g->vectors = mem_alloc(mem_system(), (size_t)g->n_prompts * g->n_dims * sizeof *g->vectors);
    return g->vectors != NULL ? WEFT_OK
                              : err_set(&g->err, WEFT_NOMEM, "out of memory for the vectors");
}

static weft_status submit_all(generation *g)
{
    for (uint32_t i = 0; i < g->n_answers; i++) {
        weft_request r;
        weft_status status = fill_request(g, &g->answers[i], &r);
        if (status == WEFT_OK)
            status = weft_submit(g->model->engine, &r, &g->answers[i].handle, &g->err);
        if (status != WEFT_OK) return status;
    }
    g->submitted_ns = clock_now_ns();
    fleet_kick(g->model);
    return WEFT_OK;
}

weft_status prepare_generation(generation *g)
{
    weft_status status = WEFT_OK;
    if (!g->embeds && !g->model->info.has_logits)
        status = err_set(&g->err, WEFT_UNSUPPORTED, "'%s' gives vectors only", g->model->name);
    if (status == WEFT_OK) status = decode_images(g);
    if (status == WEFT_OK) status = g->is_chat ? open_chat(g) : read_prompts(g);
    if (status != WEFT_OK || g->counts) return status;
    status = make_vectors(g);
    if (status == WEFT_OK) status = make_answers(g);
    if (status == WEFT_OK) status = submit_all(g);
    return status;
}

void prepare_undo(generation *g)
{
    for (uint32_t i = 0; i < g->n_answers; i++) {
        answer *a = &g->answers[i];
        if (a->handle != 0) weft_release(g->model->engine, a->handle, NULL);
        a->handle = 0;
        weft_parser_destroy(a->parser);
        a->parser = NULL;
    }
    for (uint32_t i = 0; g->pictures != NULL && i < g->n_images; i++)
        weft_image_free(g->model->model, &g->pictures[i]);
    mem_free(mem_system(), g->pictures, g->n_images * sizeof *g->pictures);
    g->pictures = NULL;
    weft_chat_close(g->chat);
    weft_grammar_close(g->grammar);
    g->chat = NULL;
    g->grammar = NULL;
}
