/* kv_plan.h - what each layer of a model stores with a codec spec; equal neighbours are one run. */
#ifndef CLI_KV_PLAN_H
#define CLI_KV_PLAN_H

#include "base/str.h"
#include "cli/session.h"

typedef struct kv_run {
    uint32_t first, last; /* layers */
    weft_kv_layer_info of;
} kv_run;

typedef struct kv_plan {
    const char *spec;
    kv_run *runs; /* [capacity] */
    uint32_t n_runs, capacity;
} kv_plan;

weft_status kv_plan_init(kv_plan *plan, const session *s, const char *spec, weft_error *err);
void kv_plan_deinit(kv_plan *plan);

void kv_plan_print(const kv_plan *plan);

/* The value of a member, an object. */
void kv_plan_add_json(const kv_plan *plan, strbuf *out);

#endif
