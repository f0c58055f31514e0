/* media.c - images: from the caller's pixels to rows beside a step's tokens.
 *
 * Submit brings an image to its size and keeps it with a digest, in the caller's thread. The step
 * that has the first of its tokens runs the tower over it, alone; so an image whose tokens are all
 * found in the cache is never encoded. What it came to is copied beside the tokens it replaces. */
#include "engine/media.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "engine/state.h"

/* ---- taking images in ------------------------------------------------------------------------ */

void media_free(const weft_allocator *a, media *m, uint32_t n_embd)
{
    for (uint32_t i = 0; i < m->n_images && m->images != NULL; i++) {
        media_image *image = &m->images[i];
        mem_free(a, image->pixels, vision_bytes(image->image.width, image->image.height));
        mem_free(a, image->features, (size_t)image->n_tokens * n_embd * sizeof(float));
    }
    mem_free(a, m->images, m->n_images * sizeof *m->images);
    *m = (media){0};
}

/* The bounds of the model and of the engine. An image that stays as it is need not meet what
 * resizing aims at. */
static vision_size size_of(const weft_engine *e, bool as_is)
{
    vision_size size = e->model->tower.params.image.size;
    uint32_t most = e->options.max_image_tokens;
    if (size.max_tokens == 0 || size.max_tokens > most || as_is) size.max_tokens = most;
    return size;
}

weft_status media_size(const weft_engine *e, uint32_t width, uint32_t height, bool as_is,
                       vision_image *to, weft_error *err)
{
    const llm_tower *t = &e->model->tower;
    if (t->family == NULL) {
        if (t->error.status != WEFT_OK)
            return err_set(err, t->error.status, "%s", t->error.message);
        return err_set(err, WEFT_UNSUPPORTED, "the model sees no images");
    }
    vision_size size = size_of(e, as_is);
    *to = (vision_image){.width = width, .height = height};
    weft_status status = as_is ? vision_check(&size, width, height, err)
                               : vision_fit(&size, width, height, &to->width, &to->height, err);
    uint32_t most = t->params.image.n_sides;
    uint32_t longest = (to->width > to->height ? to->width : to->height) / t->params.image.patch;
    if (status != WEFT_OK || most == 0 || longest <= most) return status;
    return err_set(err, WEFT_LIMIT, "an image of %u squares on a side, at most %u", longest, most);
}

/* Tokens that stand for a placeholder. */
uint32_t media_tokens(const weft_engine *e, const vision_image *image)
{
    const llm_tower *t = &e->model->tower;
    const model_image *how = &t->params.image;
    return tower_tokens(t, image) + (how->begin >= 0) + (how->end >= 0);
}

static weft_status hash_image(media_image *m, weft_error *err)
{
    unsigned char size[8];
    hash_stream s;
    weft_status status = hash_stream_open(&s, err);
    if (status != WEFT_OK) return status;
    put_u32(size, m->image.width);
    put_u32(size + 4, m->image.height);
    hash_stream_add_field(&s, size, sizeof size);
    hash_stream_add_field(&s, m->pixels, vision_bytes(m->image.width, m->image.height));
    return hash_stream_close(&s, m->digest, err);
}

static weft_status take_image(const weft_engine *e, const weft_image *from, media_image *m,
                              weft_error *err)
{
    const weft_allocator *a = e->env.allocator;
    bool as_is = (from->flags & WEFT_IMAGE_AS_IS) != 0;
    if (from->pixels == NULL) return err_set(err, WEFT_ARGUMENT, "its pixels are NULL");
    weft_status status = media_size(e, from->width, from->height, as_is, &m->image, err);
    if (status != WEFT_OK) {
        m->image = (vision_image){0};
        return status;
    }
    vision_image source = {from->pixels, from->width, from->height};
    size_t n_bytes = vision_bytes(m->image.width, m->image.height);
    m->n_tokens = tower_tokens(&e->model->tower, &m->image);
    m->pixels = mem_alloc(a, n_bytes);
    m->features = mem_alloc(a, (size_t)m->n_tokens * e->model->params.n_embd * sizeof(float));
    m->image.pixels = m->pixels;
    if (m->pixels == NULL || m->features == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %u tokens", m->n_tokens);
    status = vision_resize(a, &source, m->image.width, m->image.height, m->pixels, err);
    return status == WEFT_OK ? hash_image(m, err) : status;
}

/* Where the tokens of each image are, and the places of what follows. */
static weft_status find_places(const weft_engine *e, const weft_request *from, media *m,
                               weft_error *err)
{
    const model_image *how = &e->model->tower.params.image;
    uint32_t n_found = 0;
    uint64_t at = 0;
    int64_t shift = 0;
    for (uint32_t i = 0; i < from->n_prompt; i++) {
        if (from->prompt[i] != how->token) {
            at++;
            continue;
        }
        if (n_found < m->n_images) {
            media_image *image = &m->images[n_found];
            at += how->begin >= 0;
            image->first = (uint32_t)at;
            image->place = (uint32_t)((int64_t)at + shift);
            uint32_t w = image->image.width / (how->patch * how->pool);
            uint32_t h = image->image.height / (how->patch * how->pool);
            if (how->has_places) shift += (int64_t)(w > h ? w : h) - image->n_tokens;
            image->shift = (int32_t)shift;
            at += (uint64_t)image->n_tokens + (how->end >= 0);
        }
        n_found++;
    }
    if (n_found != m->n_images) {
        return err_set(err, WEFT_ARGUMENT, "%u images, the prompt has %u placeholders (token %d)",
                       m->n_images, n_found, how->token);
    }
    if (at > e->options.context) {
        return err_set(err, WEFT_LIMIT, "the prompt has %llu tokens, the context holds %u",
                       (unsigned long long)at, e->options.context);
    }
    m->n_prompt = (uint32_t)at;
    return WEFT_OK;
}

/* A block lies in one step, all of whose logits may be wanted beside those of other rows. */
static weft_status check_block(const weft_engine *e, const weft_request *from, uint32_t n_tokens,
                               weft_error *err)
{
    const engine_options *o = &e->options;
    uint32_t most = o->chunk_tokens;
    const char *what = "prompt tokens";
    if (from->prompt_logits != NULL && o->max_outputs - o->max_sequences < most) {
        most = o->max_outputs - o->max_sequences;
        what = "rows of logits beside those of other requests";
    }
    if (from->prompt_logits_rows > 0 && from->prompt_logits_rows < most) {
        most = from->prompt_logits_rows;
        what = "rows of prompt_logits";
    }
    if (n_tokens <= most) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "%u tokens that see each other, a step has %u %s", n_tokens,
                   most, what);
}

weft_status media_take(const weft_engine *e, const weft_request *from, media *m, weft_error *err)
{
    const model_image *how = &e->model->tower.params.image;
    *m = (media){.n_prompt = from->n_prompt};
    if (from->n_images == 0) return WEFT_OK;
    if (from->n_images > MEDIA_IMAGES || from->images == NULL) {
        return from->images == NULL ? err_set(err, WEFT_ARGUMENT, "images is NULL")
                                    : err_set(err, WEFT_LIMIT, "%u images, at most %d",
                                              from->n_images, MEDIA_IMAGES);
    }
    m->images = mem_alloc_zero(e->env.allocator, from->n_images * sizeof *m->images);
    if (m->images == NULL) return err_set(err, WEFT_NOMEM, "out of memory for images");
    m->n_images = from->n_images;
    m->sees_all = how->sees_all;
    m->has_places = how->has_places;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < m->n_images && status == WEFT_OK; i++) {
        status = take_image(e, &from->images[i], &m->images[i], err);
        if (status == WEFT_OK && m->sees_all)
            status = check_block(e, from, m->images[i].n_tokens, err);
        if (status != WEFT_OK) err_context(err, "image %u: ", i);
    }
    if (status == WEFT_OK) status = find_places(e, from, m, err);
    if (status != WEFT_OK) media_free(e->env.allocator, m, e->model->params.n_embd);
    return status;
}

/* What is known of a token of an image beside its id. */
static uint64_t key_of(const media_image *image, uint32_t i)
{
    return hash_xx64(image->digest, sizeof image->digest, i) | 1;
}

void media_expand(const weft_engine *e, const media *m, const weft_request *from, int32_t *tokens,
                  uint64_t *keys)
{
    const model_image *how = &e->model->tower.params.image;
    uint32_t at = 0;
    uint32_t image_i = 0;
    for (uint32_t i = 0; i < from->n_prompt; i++) {
        if (m->n_images == 0 || from->prompt[i] != how->token) {
            tokens[at++] = from->prompt[i];
            continue;
        }
        const media_image *image = &m->images[image_i++];
        if (how->begin >= 0) tokens[at++] = how->begin;
        ASSERT(at == image->first);
        for (uint32_t k = 0; k < image->n_tokens; k++, at++) {
            tokens[at] = how->token;
            keys[at] = key_of(image, k);
        }
        if (how->end >= 0) tokens[at++] = how->end;
    }
    ASSERT(at == m->n_prompt);
}

/* ---- the tower ------------------------------------------------------------------------------- */

static void close_tower(weft_engine *e, media_tower *t)
{
    size_t page_bytes = t->n_pages > 0 ? t->config.geometries[0].page_bytes : 0;
    for (uint32_t i = 0; i < t->n_pages && t->pages != NULL; i++) {
        if (t->pages[i] != NULL) e->api->release(e->backend, t->pages[i], page_bytes);
    }
    e->api->plan_free(e->backend, t->plan);
    arena_deinit(&t->arena);
    mem_free(e->env.allocator, t, sizeof *t);
}

void media_close(weft_engine *e)
{
    if (e->tower != NULL) close_tower(e, e->tower);
    e->tower = NULL;
}

static weft_status open_pages(weft_engine *e, media_tower *t, uint32_t n_patches, weft_error *err)
{
    const llm_tower *model = &e->model->tower;
    kv_spec spec;
    kv_bounds bounds = {
        .context = n_patches, .most_append = n_patches, .page_tokens = KV_PAGE_TOKENS};
    if (model->n_kv_layers == 0) return WEFT_OK;
    weft_status status = kv_spec_parse("f32", "f32", &spec, err);
    spec.n_model_layers = model->n_kv_layers;
    if (status == WEFT_OK) {
        status = kv_config_init(&t->config, &t->arena, model->kv_layers, model->n_kv_layers, &spec,
                                &bounds, err);
    }
    if (status != WEFT_OK) return status;
    t->n_pages = (n_patches + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    t->pages = arena_array(&t->arena, t->n_pages, sizeof *t->pages);
    t->views = arena_array(&t->arena, t->config.n_layers, sizeof *t->views);
    if (t->pages == NULL || t->views == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for the image tower");
    for (uint32_t i = 0; i < t->n_pages; i++) {
        t->pages[i] = e->api->alloc(e->backend, t->config.geometries[0].page_bytes);
        if (t->pages[i] == NULL)
            return err_set(err, WEFT_NOMEM, "out of memory for images of %u squares", n_patches);
    }
    for (uint32_t i = 0; i < t->config.n_layers; i++) {
        ASSERT(t->config.geometries[i].page_bytes == t->config.geometries[0].page_bytes);
        t->views[i] = (kv_view){
            .geometry = &t->config.geometries[i], .pages = t->pages, .n_slots = t->n_pages};
    }
    return WEFT_OK;
}

static bool open_arrays(const weft_engine *e, media_tower *t, size_t n_patches)
{
    const llm_tower *model = &e->model->tower;
    size_t n_tokens = e->batch.limits.n_tokens;
    arena *a = &t->arena;
    t->ids = arena_array(a, n_patches, sizeof *t->ids);
    t->positions = arena_array(a, n_patches, sizeof *t->positions);
    t->highest = arena_array(a, n_patches, sizeof *t->highest);
    t->outputs = arena_array(a, n_patches, sizeof *t->outputs);
    t->in.places = arena_array(a, n_patches * GRAPH_AXES, sizeof *t->in.places);
    t->in.row = arena_array(a, model->params.n_embd, sizeof *t->in.row);
    bool ok = t->ids && t->positions && t->highest && t->outputs && t->in.places && t->in.row;
    for (graph_id id = 1; id < model->graph.n_values && ok; id++) {
        const graph_value *v = &model->graph.values[id];
        size_t n;
        if (v->op != GRAPH_FEED) continue;
        ok = size_mul(n_patches, v->cols, &n);
        float *feed = ok ? arena_array(a, n, sizeof *feed) : NULL;
        ok = feed != NULL;
        t->in.feeds[v->i[0]] = feed;
    }
    size_t n_features;
    ok = ok && size_mul(n_tokens, e->model->params.n_embd, &n_features);
    t->features = ok ? arena_array(a, n_features, sizeof *t->features) : NULL;
    t->marks = arena_array(a, n_tokens, sizeof *t->marks);
    t->places = arena_array(a, n_tokens * GRAPH_AXES, sizeof *t->places);
    t->seen = arena_array(a, n_tokens, sizeof *t->seen);
    t->feeds[0] = t->features;
    return ok && t->features && t->marks && t->places && t->seen;
}

static weft_status fill_tower(weft_engine *e, media_tower *t, weft_error *err)
{
    const llm_tower *model = &e->model->tower;
    uint32_t pool = model->params.image.pool;
    uint32_t n_patches = e->options.max_image_tokens * pool * pool;
    weft_status status = e->api->supports(e->backend, &model->graph, err);
    if (status == WEFT_OK) status = open_pages(e, t, n_patches, err);
    if (status == WEFT_OK && !open_arrays(e, t, n_patches))
        status = err_set(err, WEFT_NOMEM, "out of memory for images of %u squares", n_patches);
    if (status != WEFT_OK) return status;
    backend_limits limits = {.n_tokens = n_patches,
                             .n_rows = 1,
                             .n_outputs = e->options.max_image_tokens,
                             .context = n_patches};
    return e->api->plan(e->backend, &model->graph, &limits, &t->plan, err);
}

weft_status media_open(weft_engine *e, weft_error *err)
{
    if (e->tower != NULL) return WEFT_OK;
    media_tower *t = mem_alloc_zero(e->env.allocator, sizeof *t);
    if (t == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the image tower");
    arena_init(&t->arena, e->env.allocator, 0);
    weft_status status = fill_tower(e, t, err);
    if (status != WEFT_OK) {
        close_tower(e, t);
        return status;
    }
    e->tower = t;
    return WEFT_OK;
}

static weft_status encode(weft_engine *e, media_image *image, weft_error *err)
{
    const llm_tower *model = &e->model->tower;
    media_tower *t = e->tower;
    uint32_t pool = model->params.image.pool;
    uint32_t n = tower_patches(model, &image->image);
    uint32_t row_starts[2] = {0, n};
    for (uint32_t i = 0; i < n; i++) {
        t->positions[i] = i;
        t->highest[i] = n - 1;
        if (i < image->n_tokens) t->outputs[i] = i * pool * pool;
    }
    model->family->prepare(model, &image->image, &t->in);
    backend_step step = {.n_tokens = n,
                         .n_rows = 1,
                         .n_outputs = image->n_tokens,
                         .ids = t->ids,
                         .positions = t->positions,
                         .highest = t->highest,
                         .places = t->in.places,
                         .feeds = t->in.feeds,
                         .row_starts = row_starts,
                         .outputs = t->outputs,
                         .views = t->views,
                         .logits = image->features};
    weft_status status = e->api->run(e->backend, t->plan, &step, err);
    if (status == WEFT_OK) status = e->api->wait(e->backend, err);
    image->encoded = status == WEFT_OK;
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static const media_image *image_at(const media *m, uint32_t position)
{
    for (uint32_t i = 0; i < m->n_images; i++) {
        const media_image *image = &m->images[i];
        if (position >= image->first && position - image->first < image->n_tokens) return image;
    }
    return NULL;
}

uint32_t media_whole(const media *m, uint32_t len, uint32_t n)
{
    const media_image *image = m->sees_all && n > 0 ? image_at(m, len + n) : NULL;
    /* Between two tokens of one block. */
    if (image == NULL || image->first == len + n) return n;
    return image->first > len ? image->first - len : 0;
}

/* Where a token that is not an image's stands. */
static uint32_t text_place(const media *m, uint32_t position)
{
    int64_t shift = 0;
    for (uint32_t i = 0; i < m->n_images && m->images[i].first <= position; i++)
        shift = m->images[i].shift;
    return (uint32_t)((int64_t)position + shift);
}

static void lay_out_token(weft_engine *e, const media *m, uint32_t token_i)
{
    batch *b = &e->batch;
    media_tower *t = e->tower;
    const model_image *how = &e->model->tower.params.image;
    uint32_t position = b->positions[token_i];
    const media_image *image = image_at(m, position);
    uint32_t place[GRAPH_AXES];
    for (uint32_t i = 0; i < GRAPH_AXES; i++) place[i] = text_place(m, position);
    t->marks[token_i] = image != NULL;
    t->seen[token_i] = position;
    if (image != NULL) {
        uint32_t wide = image->image.width / (how->patch * how->pool);
        uint32_t offset = position - image->first;
        place[TOWER_AXIS_FRAME] = image->place;
        place[TOWER_AXIS_ROW] = image->place + offset / wide;
        place[TOWER_AXIS_COLUMN] = image->place + offset % wide;
        t->seen[token_i] = image->first + image->n_tokens - 1;
    }
    for (uint32_t i = 0; i < GRAPH_AXES; i++)
        t->places[(size_t)i * b->step.n_tokens + token_i] = place[i];
}

void media_pad(const weft_engine *e, int32_t *ids, uint32_t n)
{
    const llm_tower *t = &e->model->tower;
    const int32_t *of = t->params.image.placeholders;
    if (t->family == NULL || of[0] < 0) return;
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == of[0] || ids[i] == of[1] || ids[i] == of[2]) ids[i] = t->params.image.pad;
    }
}

void media_lay_out(weft_engine *e)
{
    batch *b = &e->batch;
    bool any = false;
    for (uint32_t i = 0; i < b->step.n_rows; i++) any = any || b->rows[i].r->media.n_images > 0;
    if (!any) return;
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        for (uint32_t k = b->row_starts[i]; k < b->row_starts[i + 1]; k++)
            lay_out_token(e, &b->rows[i].r->media, k);
    }
    const model_image *how = &e->model->tower.params.image;
    b->step.feeds = e->tower->feeds;
    b->step.marks = e->tower->marks;
    if (how->has_places) b->step.places = e->tower->places;
    if (how->sees_all) b->step.highest = e->tower->seen;
}

weft_status media_encode(weft_engine *e, weft_error *err)
{
    batch *b = &e->batch;
    size_t n_embd = e->model->params.n_embd;
    for (uint32_t i = 0; i < b->step.n_rows && b->step.marks != NULL; i++) {
        media *m = &b->rows[i].r->media;
        for (uint32_t k = b->row_starts[i]; k < b->row_starts[i + 1]; k++) {
            const media_image *image = image_at(m, b->positions[k]);
            if (image == NULL) continue;
            media_image *own = &m->images[image - m->images];
            weft_status status = own->encoded ? WEFT_OK : encode(e, own, err);
            if (status != WEFT_OK) return status;
            memcpy(e->tower->features + k * n_embd,
                   own->features + (b->positions[k] - own->first) * n_embd, n_embd * sizeof(float));
        }
    }
    return WEFT_OK;
}
