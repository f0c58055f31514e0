/* ops_patterns.h - patterns of test_ops.c: many layers of one input, columns and stacks, latent and
 * chunked states. */
#ifndef BACKEND_OPS_PATTERNS_H
#define BACKEND_OPS_PATTERNS_H

#include "backend/ops_model.h"

/* More layers of one input than a phase takes. */
static inline void pattern_many_linears(model *m)
{
    graph *g = &m->g;
    m->plain_weights = true;
    graph_id x = model_embed(m);
    graph_id y[20];
    for (uint32_t i = 0; i < 20; i++) y[i] = model_linear(m, x, m->width);
    graph_id sum = x;
    for (uint32_t i = 0; i < 20; i++) sum = graph_add(g, sum, y[i]);
    graph_finish(g, model_linear(m, graph_take(g, sum), MODEL_VOCAB));
}

/* Columns of heads taken apart, put together in another way, and read twice. */
static inline void pattern_columns(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id a = model_linear(m, x, 3 * 7);
    graph_id b = graph_cols(g, a, 7, 2, 4);
    graph_id c = graph_concat(g, b, graph_cols(g, a, 7, 0, 7), 3);
    graph_id d = graph_concat(g, c, graph_scale(g, b, 2.0F), 1);
    graph_id t = graph_take(g, graph_concat(g, d, x, 1));
    graph_id e = graph_cols(g, t, 45 + m->width, 1, 44);
    graph_finish(g, graph_concat(g, model_linear(m, e, MODEL_VOCAB), e, 1));
}

/* A matrix a head, either way, over all tokens and over those that are wanted. */
static inline void pattern_heads(model *m)
{
    graph *g = &m->g;
    uint32_t heads = draw(1, 5);
    uint32_t width = draw(0, 1) == 0 ? 64 : draw(1, 40);
    graph_id x = model_linear(m, model_embed(m), heads * width);
    graph_id a = graph_linear_heads(g, x, model_stack(m, heads, 32, width), false);
    graph_id b = graph_linear_heads(g, a, model_stack(m, heads, 32, width), true);
    graph_id t = graph_take(g, graph_add(g, x, b));
    t = graph_linear_heads(g, t, model_stack(m, heads, 23, width), false);
    graph_finish(g, model_linear(m, t, MODEL_VOCAB));
}

/* Numbers that the step brings: instead of an embedding, as an input of its own, and added to a
 * layer's output. */
static inline void pattern_feed(model *m)
{
    graph *g = &m->g;
    graph_id x = graph_replace(g, model_embed(m), graph_feed(g, 1, m->width));
    graph_id fed = graph_feed(g, 0, m->wide);
    x = graph_add(g, x, model_linear(m, fed, m->width));
    x = graph_add(g, model_linear(m, x, m->wide), fed);
    x = graph_clamp(g, x, -0.5F, draw(0, 1) == 0 ? 0.75F : INFINITY);
    graph_id t = graph_take(g, x);
    t = graph_standardize(g, t, model_vector(m, m->wide), model_vector(m, m->wide));
    t = graph_clamp(g, t, -2.0F, 2.0F);
    graph_finish(g, model_linear(m, t, MODEL_VOCAB));
}

/* Tokens with places, in a layer that sees their blocks or in one that does not. */
static inline void pattern_places(model *m)
{
    graph *g = &m->g;
    graph_id x = graph_replace(g, model_embed(m), graph_feed(g, 0, m->width));
    for (uint32_t j = 0; j < 64; j++) m->axes[j] = (uint8_t)(j % GRAPH_AXES);
    m->ropes[0].axes = m->axes;
    m->causal = draw(0, 1) == 0;
    x = graph_add(g, x, model_attention(m, x, draw(0, 1) == 0 ? 0 : draw(1, 40)));
    graph_finish(g, model_linear(m, graph_take(g, x), MODEL_VOCAB));
}

static inline void pattern_latent(model *m)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_latent(m, x));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

/* The same to positions that are chosen. */
static inline void pattern_chosen(model *m)
{
    m->chooses = true;
    pattern_latent(m);
}

static inline void pattern_chunked(model *m)
{
    graph_id x = model_embed(m);
    m->chunked = true;
    x = graph_add(&m->g, x, model_attention(m, x, draw(1, 40)));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

/* Attention to an encoder, and keys and values that are stored for others. */
static inline void pattern_cross(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    if (draw(0, 1) == 0) model_store(m, x);
    x = graph_add(g, x, model_cross(m, model_norm(m, x, m->width)));
    if (draw(0, 1) == 0) model_store(m, x);
    graph_finish(g, model_linear(m, graph_take(g, x), MODEL_VOCAB));
}

/* What comes with a token beside its id: into a linear layer, added to one, and as it is. */
static inline void pattern_features(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id f = graph_feed(g, 2, m->width);
    graph_id a = model_linear(m, graph_concat(g, x, f, 1), m->width);
    a = graph_add(g, f, model_linear(m, a, m->width));
    a = graph_add(g, a, graph_scale(g, f, 0.5F));
    a = graph_add(g, graph_mul(g, f, x), a);
    graph_id t = graph_add(g, graph_take(g, a), model_norm(m, graph_take(g, f), m->width));
    graph_finish(g, model_linear(m, t, MODEL_VOCAB));
}

/* Experts beside a layer of the same input, of all tokens and of those that are wanted. */
static inline void pattern_experts(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id a = model_experts(m, x, (graph_act)draw(0, 2));
    graph_id b = model_mlp(m, x, GRAPH_SILU);
    graph_id t = graph_take(g, graph_add(g, graph_add(g, x, b), a));
    t = graph_add(g, t, model_experts(m, graph_take(g, x), GRAPH_SILU));
    graph_finish(g, model_linear(m, t, MODEL_VOCAB));
}

/* What comes out of layers is read where an operation would take the place of its input, and where
 * a linear layer would be fused with the add behind it; neither may be. */
static inline void pattern_taps(model *m)
{
    graph *g = &m->g;
    graph_id x = model_embed(m);
    graph_id a = graph_scale(g, model_linear(m, x, m->width), 0.5F);
    graph_tap(g, a, 0);
    graph_id b = graph_scale(g, a, 2.0F);
    graph_id h = model_linear(m, b, m->width);
    graph_tap(g, h, 1);
    graph_id y = graph_add(g, h, x);
    graph_tap(g, y, 2);
    graph_finish(g, model_linear(m, graph_take(g, y), MODEL_VOCAB));
}

#endif
