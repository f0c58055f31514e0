/* plan.h - what MLX's form of a model consists of: each tensor's name, shape, where its rows come
 * from and how they are stored. */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "convert/recipe.h"
#include "models/model.h"

/* A tensor to write; one of codes is three, or two, in the file: NAME.weight, .scales, .biases. */
typedef struct plan_tensor {
    const char *name; /* of numbers: all of it; of codes: the module's path */
    const tensor
        *parts; /* [n_parts] matrices, one behind the other; of one shape, but where `joined` */
    uint32_t n_parts;
    uint32_t n_dims;
    uint64_t dims[TENSOR_DIMS]; /* in elements */
    uint64_t n_rows, n_cols;    /* of all parts */
    row_form form;
    float add;       /* to every number */
    uint32_t halves; /* rows of a head, which are in pairs in the source and in halves here; 0: as
                        they are */
    bool turned;     /* rows are columns of the parts */
    bool joined;     /* parts of several slots, of any number of rows */
    bool usual;      /* stored as the recipe says of all */
} plan_tensor;

typedef struct plan {
    const llm *model;
    model_source source;
    const mlx_form *mlx;
    const char *root;     /* where tensors of the model begin */
    const char *mlx_type; /* model_type of config.json */
    bool tied;            /* there is no output matrix */
    plan_tensor *tensors; /* [n_tensors] */
    uint32_t n_tensors;
    uint64_t n_params; /* numbers in all tensors */
    uint32_t n_codes;  /* tensors of codes */
    uint32_t n_whole;  /* matrices that stay numbers because groups do not divide their columns */
} plan;

/* type: encoding_id of f32, f16 or bf16 that numbers become; ENCODING_ID_NONE: as they are stored.
 * Memory is the arena's. What stays numbers, and a rule that matches nothing, is told to the
 * model's log. UNSUPPORTED when the family has no MLX form, or its source something that it
 * cannot hold. */
weft_status plan_make(plan *p, arena *a, const llm *model, recipe *r, encoding_id type,
                      weft_error *err);

#endif
