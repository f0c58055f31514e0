/* kv_plan.c - runs of layers that store the same. */
#include "cli/kv_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

static bool same(const weft_kv_layer_info *a, const weft_kv_layer_info *b)
{
    return strcmp(a->layout, b->layout) == 0 && strcmp(a->k, b->k) == 0 &&
           strcmp(a->v, b->v) == 0 && strcmp(a->index, b->index) == 0 && a->window == b->window &&
           a->bytes_per_token == b->bytes_per_token && a->bytes_fixed == b->bytes_fixed;
}

weft_status kv_plan_init(kv_plan *plan, const session *s, const char *spec, weft_error *err)
{
    *plan = (kv_plan){.spec = spec, .capacity = s->info.n_layers};
    plan->runs = mem_alloc(mem_system(), plan->capacity * sizeof *plan->runs);
    if (plan->runs == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for %u layers", plan->capacity);
    for (uint32_t i = 0; i < s->info.n_layers; i++) {
        weft_kv_layer_info of = {.struct_size = sizeof of};
        weft_status status = weft_model_kv_layer(s->model, spec, i, &of, err);
        if (status != WEFT_OK) return status;
        if (plan->n_runs == 0 || !same(&plan->runs[plan->n_runs - 1].of, &of))
            plan->runs[plan->n_runs++] = (kv_run){i, i, of};
        plan->runs[plan->n_runs - 1].last = i;
    }
    return WEFT_OK;
}

void kv_plan_deinit(kv_plan *plan)
{
    mem_free(mem_system(), plan->runs, plan->capacity * sizeof *plan->runs);
    *plan = (kv_plan){0};
}

static void print_run(const kv_run *run)
{
    const weft_kv_layer_info *of = &run->of;
    char layers[32];
    char layout[32];
    char codecs[64];
    snprintf(layers, sizeof layers, run->first == run->last ? "%u" : "%u..%u", run->first,
             run->last);
    snprintf(layout, sizeof layout, of->window != 0 ? "%s %u" : "%s", of->layout, of->window);
    bool sides = strcmp(of->k, of->v) != 0;
    int n = snprintf(codecs, sizeof codecs, sides ? "k=%s,v=%s" : "%s", of->k, of->v);
    if (of->index[0] != '\0' && n > 0 && (size_t)n < sizeof codecs)
        snprintf(codecs + n, sizeof codecs - (size_t)n, ",index=%s", of->index);
    printf("%-10s %-16s %-28s", layers, layout, codecs[0] != '\0' ? codecs : "that of another");
    printf(" %8llu %15llu\n", (unsigned long long)of->bytes_per_token,
           (unsigned long long)of->bytes_fixed);
}

void kv_plan_print(const kv_plan *plan)
{
    printf("\nkv %s\n%-10s %-16s %-28s %8s %15s\n", plan->spec, "layers", "layout", "stored as",
           "a token", "besides");
    for (uint32_t i = 0; i < plan->n_runs; i++) print_run(&plan->runs[i]);
    puts("(bytes of each of these layers; besides: of a sequence, once a window is full)");
}

void kv_plan_add_json(const kv_plan *plan, strbuf *out)
{
    strbuf_add_text(out, "{\"kv\":");
    json_write_text(str_of(plan->spec), out);
    strbuf_add_text(out, ",\"layers\":[");
    for (uint32_t i = 0; i < plan->n_runs; i++) {
        const weft_kv_layer_info *of = &plan->runs[i].of;
        strbuf_printf(out, "%s{\"first\":%u,\"last\":%u,\"layout\":\"%s\",\"window\":%u",
                      i > 0 ? "," : "", plan->runs[i].first, plan->runs[i].last, of->layout,
                      of->window);
        strbuf_printf(out, ",\"k\":\"%s\",\"v\":\"%s\",\"bytes_per_token\":%llu", of->k, of->v,
                      (unsigned long long)of->bytes_per_token);
        if (of->index[0] != '\0') strbuf_printf(out, ",\"index\":\"%s\"", of->index);
        strbuf_printf(out, ",\"bytes_fixed\":%llu}", (unsigned long long)of->bytes_fixed);
    }
    strbuf_add_text(out, "]}");
}
