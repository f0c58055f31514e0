/* model.h - an opened model: its parameters, its tensors in their slots, and its graph. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "models/family.h"

enum { MODEL_STOP_IDS = 64 };

/* What the checkpoint's generation_config says. */
typedef struct model_generation {
    weft_sampling sampling;  /* greedy when it says nothing */
    const int32_t *stop_ids; /* [n_stop_ids], at most MODEL_STOP_IDS */
    uint32_t n_stop_ids;
} model_generation;

/* What a model sees images with. */
struct llm_tower {
    const model_family *family; /* NULL: nothing */
    weft_error error;           /* then, why not; OK: the checkpoint says nothing of it */
    model_params params;
    const tensor *tensors; /* the model's */
    uint32_t *bound;
    graph_rope ropes[MODEL_ROPES];
    graph graph;
    kv_layer *kv_layers; /* [n_kv_layers]: each is read in its own layer only */
    uint32_t n_kv_layers;
};

/* What requests for a vector get when they do not say; error: why the checkpoint's own way is not
 * supported, if so. */
typedef struct model_embedding {
    weft_pooling pooling;
    bool normalize;
    weft_error error;
} model_embedding;
typedef struct llm {
    env env;
    arena arena;      /* owns everything below but weights */
    weights *weights; /* mapped files */
    const model_family *family;
    model_params params;
    tensor *tensors; /* [n_tensors], bound: codes and scales joined, stacks taken apart */
    uint32_t n_tensors;
    uint32_t *bound;     /* [n_slots, all layers], index of the first tensor + 1 */
    tensor *listed;      /* [n_listed], as they lie in the file */
    const char **labels; /* [n_listed], "bf16", "affine4g64" */
    uint32_t n_listed;
    graph_rope ropes[MODEL_ROPES];
    graph graph;
    kv_layer *kv_layers; /* [n_kv_layers] */
    uint32_t n_kv_layers;
    kv_layer
        *donor_layers; /* [n_donor_layers], of an assistant, which has none of its own: states */
    uint32_t n_donor_layers; /* of its target that the graph reads */
    /* Of the head that drafts, over states of its own; without values where there is none. */
    graph draft;
    kv_layer *draft_kv_layers; /* [n_draft_kv_layers] */
    uint32_t n_draft_kv_layers;
    llm_tower tower;
    model_generation generation;
    model_embedding embedding;
} llm;

/* IO, FORMAT, UNSUPPORTED (an unknown architecture, encoding, or value that would change the
 * result), LIMIT, NOMEM: one sentence that names the thing. */
weft_status llm_open(const env *in, const char *path, llm **out, weft_error *err);
void llm_close(llm *m);

/* Whether there is a tensor of that name, in any form. */
bool llm_has_tensor(const model_source *s, const char *name);

/* Fills t from the tensor of that name, or from the codes, scales and the like that it is stored
 * as. used: [n_tensors of the checkpoint], true is set for what is read. */
weft_status llm_bind_tensor(const model_source *s, const char *name, tensor *t, bool *used,
                            weft_error *err);

/* The tower whose tensors the checkpoint has; NULL: there is none. */
const model_family *llm_find_tower(const llm *m, const model_source *source);

/* Fills slots and tensors of m and its tower, checks shapes, and refuses what is left over. */
weft_status llm_bind(llm *m, const model_source *source, weft_error *err);

/* params of m by the family's rows and derive(). */
weft_status llm_read_params(llm *m, const model_source *source, weft_error *err);

/* The tower of m, if its checkpoint has one: its family and params. A tower that is not supported
 * is left out, with the reason kept: the model reads text all the same. */
weft_status llm_read_tower(llm *m, const model_source *source, weft_error *err);

/* A tensor of the tower; NULL when it is absent. */
const tensor *llm_tower_tensor(const llm_tower *tower, uint32_t slot);

/* The ids that end an answer and have a logit; returns how many. */
uint32_t llm_end_ids(const llm *m, int32_t ids[MODEL_STOP_IDS]);

weft_status llm_read_generation(llm *m, const model_source *source, weft_error *err);

/* What is not supported is no failure: it goes to m->embedding.error. */
weft_status llm_read_embedding(llm *m, const model_source *source, weft_error *err);

#endif
