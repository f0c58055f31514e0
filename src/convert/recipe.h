/* recipe.h - which matrices are stored how: what holds for all, and rules for some
 * (docs/convert.md). */
#ifndef CONVERT_RECIPE_H
#define CONVERT_RECIPE_H

#include "base/arena.h"
#include "base/json.h"
#include "convert/quantize.h"

enum { RECIPE_BYTES = 1 << 20, RECIPE_RULES = 1024, RECIPE_PATTERN_BYTES = 256 };

/* What a matrix is stored as. */
typedef struct recipe_choice {
    bool keep;                /* as numbers; then the rest is 0 */
    const encoding *encoding; /* AFFINE or one of the floating modes */
    uint32_t bits, group;
} recipe_choice;

typedef struct recipe_rule {
    const char *match;   /* of module paths; "*" stands for anything */
    int32_t first, last; /* layers; counted from the end where negative */
    bool has_layers;
    recipe_choice choice;
    bool used;
} recipe_rule;

typedef struct recipe {
    recipe_choice usual;
    recipe_rule *rules; /* [n_rules] */
    uint32_t n_rules;
} recipe;

/* "affine", "mxfp4", "nvfp4", "mxfp8"; NULL for any other encoding. */
const char *recipe_mode_name(const encoding *e);

/* mode NULL: affine; bits and group 0: what the mode has usually. ARGUMENT for what MLX does not
 * have. */
weft_status recipe_choose(recipe_choice *choice, const char *mode, uint32_t bits, uint32_t group,
                          weft_error *err);

/* Rules from a JSON text, in memory of the arena; r->usual is there. FORMAT, naming the rule, or
 * LIMIT. */
weft_status recipe_read(recipe *r, arena *a, const char *text, size_t n_bytes, weft_error *err);

/* Of a module of a layer (MODULE_NO_LAYER: of none): the first rule that matches, or what is usual.
 * *ruled: a rule did. */
#define MODULE_NO_LAYER UINT32_MAX
recipe_choice recipe_find(recipe *r, const char *path, uint32_t layer, uint32_t n_layers,
                          bool *ruled);

#endif
