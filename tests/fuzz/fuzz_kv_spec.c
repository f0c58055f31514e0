/* fuzz_kv_spec.c - any text: a codec spec, or refused with a sentence; what was read is printed as
 * text that is read as the same; layers of every kind take it or refuse it by name. */
#include "kv/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const kv_layer LAYERS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 64, .v_dim = 80},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2048, .v_dim = 8, .window = 16},
    {.layout = KV_LAYOUT_RECURRENT, .buffers = {3, 4}, .record = 5},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 152, .v_dim = 128},
    {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 64, .v_dim = 64},
    {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 72, .of = 3},
};

enum { N_LAYERS = COUNT_OF(LAYERS) };

static void check_same(const kv_spec *a, const kv_spec *b)
{
    ASSERT(a->k == b->k && a->v == b->v && a->index == b->index && a->start == b->start &&
           a->n_rules == b->n_rules);
    for (uint32_t i = 0; i < a->n_rules; i++) {
        const kv_rule *x = &a->rules[i];
        const kv_rule *y = &b->rules[i];
        ASSERT(x->first == y->first && x->last == y->last && x->k == y->k && x->v == y->v);
    }
}

static void check_layers(kv_spec *spec, uint32_t n_model_layers)
{
    weft_error err = {WEFT_OK, ""};
    spec->n_model_layers = n_model_layers;
    weft_status status = kv_spec_check(spec, LAYERS, N_LAYERS, &err);
    ASSERT(status == err.status && (status == WEFT_OK) == (err.message[0] == '\0'));
    for (uint32_t i = 0; i < N_LAYERS && status == WEFT_OK; i++) {
        kv_spec own;
        kv_spec_at(spec, &LAYERS[i], i, N_LAYERS, &own);
        ASSERT(own.n_rules == 0 && own.k != NULL && own.v != NULL && own.base == spec->base);
        if (LAYERS[i].layout == KV_LAYOUT_RECURRENT) continue;
        ASSERT(kv_codec_takes(own.k, kv_coded_columns(&own, &LAYERS[i])));
        if (LAYERS[i].layout != KV_LAYOUT_INDEX) ASSERT(kv_codec_takes(own.v, LAYERS[i].v_dim));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);
    if (text == NULL) return 0;
    if (n_bytes > 0) memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    kv_spec spec;
    kv_spec again;
    weft_error err = {WEFT_OK, ""};
    weft_status status = kv_spec_parse(text, "bf16", &spec, &err);
    ASSERT(status == err.status && (status == WEFT_OK) == (err.message[0] == '\0'));
    if (status == WEFT_OK) {
        char printed[KV_SPEC_TEXT];
        kv_spec_print(&spec, printed, sizeof printed);
        ASSERT(strlen(printed) < sizeof printed - 1);
        ASSERT(kv_spec_parse(printed, "bf16", &again, NULL) == WEFT_OK);
        check_same(&spec, &again);
        check_layers(&spec, 0);
        check_layers(&again, N_LAYERS + 3);
    }
    free(text);
    return 0;
}
