/* graph_rules_feed.h - the rules of what a step brings and what becomes of it, for test_graph.c. */
#ifndef GRAPH_GRAPH_RULES_FEED_H
#define GRAPH_GRAPH_RULES_FEED_H

#include <math.h>

#include "graph/graph_fixture.h"

static inline void rules_feed(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_feed(&f->g, 2, 7);
    check_value(f, id, GRAPH_FEED, GRAPH_TOKENS, 7);
    assert_int_equal(f->values[id].i[0], 2);
    assert_int_equal(f->g.n_feeds, 3);
    check_value(f, graph_feed(&f->g, 0, 5), GRAPH_FEED, GRAPH_TOKENS, 5);
    assert_int_equal(f->g.n_feeds, 3);
    assert_int_equal(graph_feed(&f->g, 2, 7), 0); /* once */
    refuses(f, graph_feed(&f->g, GRAPH_FEEDS, 7));
    refuses(f, graph_feed(&f->g, 0, 0));
    refuses(f, graph_feed(&f->g, 0, GRAPH_OUTPUTS));
    refuses(f, graph_feed(&f->g, 0, GRAPH_HIDDEN));
}

static inline void rules_replace(fixture *f)
{
    fixture_init(f);
    graph_id feed = graph_feed(&f->g, 0, WIDE);
    check_value(f, graph_replace(&f->g, f->wide, feed), GRAPH_REPLACE, GRAPH_TOKENS, WIDE);
    assert_int_equal(graph_replace(&f->g, f->x, feed), 0); /* of another width */
    refuses(f, graph_replace(&f->g, f->wide, f->wide));
    refuses(f, graph_replace(&f->g, f->wide, 0));
    refuses(f, graph_replace(&f->g, 0, f->wide));
    fixture_init(f);
    feed = graph_feed(&f->g, 0, WIDTH);
    assert_int_equal(graph_replace(&f->g, f->taken, feed), 0);
}

static inline void rules_clamp(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_clamp(&f->g, f->wide, -1.0F, 2.0F);
    check_value(f, id, GRAPH_CLAMP, GRAPH_TOKENS, WIDE);
    assert_true(f->values[id].f[0] == -1.0F && f->values[id].f[1] == 2.0F);
    check_value(f, graph_clamp(&f->g, f->taken, -INFINITY, INFINITY), GRAPH_CLAMP, GRAPH_OUTPUTS,
                WIDTH);
    refuses(f, graph_clamp(&f->g, f->x, 2.0F, 1.0F));
    refuses(f, graph_clamp(&f->g, f->x, NAN, 1.0F));
    refuses(f, graph_clamp(&f->g, f->tokens, 0.0F, 1.0F));
    refuses(f, graph_clamp(&f->g, 0, 0.0F, 1.0F));
}

static inline void rules_standardize(fixture *f)
{
    fixture_init(f);
    graph_id w = f->weight[NORM_W];
    uint32_t cols = f->values[w].cols;
    graph_id x = cols == WIDTH ? f->taken : graph_cols(&f->g, f->taken, WIDTH, 0, cols);
    check_value(f, graph_standardize(&f->g, x, w, w), GRAPH_STANDARDIZE, GRAPH_OUTPUTS, cols);
    refuses(f, graph_standardize(&f->g, f->wide, f->weight[NORM_W], f->weight[NORM_W]));
    refuses(f, graph_standardize(&f->g, f->x, f->weight[EMBED_W], f->weight[NORM_W]));
    refuses(f, graph_standardize(&f->g, f->x, f->weight[NORM_W], f->weight[EMBED_W]));
    refuses(f, graph_standardize(&f->g, f->x, 0, f->weight[NORM_W]));
    refuses(f, graph_standardize(&f->g, f->tokens, f->weight[NORM_W], f->weight[NORM_W]));
}

#endif
