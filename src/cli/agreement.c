/* agreement.c - tokens with a codec beside those with keys and values in f32. */
#include "cli/agreement.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cli/answer.h"

/* ---- what is to be expected ------------------------------------------------------------------ */

enum { LOSS_MOST = 95 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bits of an element: the first number in a codec's name. */
static uint32_t bits_of(const char *codec)
{
    uint32_t bits = 0;
    while (*codec != '\0' && !is_digit(*codec)) codec++;
    for (; is_digit(*codec); codec++) bits = 10 * bits + (uint32_t)(*codec - '0');
    return bits;
}

/* Of a hundred tokens so many may be others, where the other side is f32. Trained models lose a
 * tenth of that (docs/kv-quality.md), those of random weights with heads of 16 nearly all of it;
 * nonsense is right once in a hundred times. */
static uint32_t loss_of(const char *codec)
{
    static const struct {
        uint32_t bits, loss;
    } LOSSES[] = {{32, 0}, {16, 25}, {8, 30}, {5, 50}, {4, 65}, {3, 75}};
    uint32_t bits = bits_of(codec);
    if (bits == 0) return 0; /* it stores nothing of its own */
    for (size_t i = 0; i < sizeof LOSSES / sizeof LOSSES[0]; i++) {
        if (bits >= LOSSES[i].bits) return LOSSES[i].loss;
    }
    return LOSS_MOST;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* By the layer that loses most. */
static weft_status expect(const weft_model *model, const char *kv, agreement *a, weft_error *err)
{
    weft_model_info info = {.struct_size = sizeof info};
    uint32_t keys = 0;
    uint32_t values = 0;
    weft_status status = weft_model_get_info(model, &info, err);
    for (uint32_t i = 0; i < info.n_layers && status == WEFT_OK; i++) {
        weft_kv_layer_info layer = {.struct_size = sizeof layer};
        status = weft_model_kv_layer(model, kv, i, &layer, err);
        if (status != WEFT_OK) break;
        keys = larger(keys, larger(loss_of(layer.k), loss_of(layer.index)));
        values = larger(values, loss_of(layer.v));
    }
    uint32_t loss = larger(keys, values) + (keys < values ? keys : values) / 3;
    a->n_least = AGREEMENT_TOKENS * (100 - (loss < LOSS_MOST ? loss : LOSS_MOST)) / 100;
    return status;
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* The tokens with f32, behind those of the prompt in ids [AGREEMENT_POSITIONS]. */
static weft_status go_on(weft_engine *engine, uint32_t n_vocab, int32_t *ids, weft_error *err)
{
    for (uint32_t i = 0; i < AGREEMENT_PROMPT; i++)
        ids[i] = (int32_t)(rng_u64(AGREEMENT_TOKENS, i) % n_vocab);
    question q = {.ids = ids, .n_ids = AGREEMENT_PROMPT, .max_new = AGREEMENT_TOKENS};
    answer a;
    weft_status status = answer_init(&a, &q, n_vocab, err);
    if (status != WEFT_OK) return status;
    a.kv = "f32";
    status = answers_take(engine, &a, 1, err);
    if (status == WEFT_OK && a.n_tokens < AGREEMENT_TOKENS)
        status = err_set(err, WEFT_LIMIT, "the model ended after %u tokens of %d", a.n_tokens,
                         AGREEMENT_TOKENS);
    if (status == WEFT_OK) memcpy(ids + AGREEMENT_PROMPT, a.tokens, AGREEMENT_TOKENS * sizeof *ids);
    answer_deinit(&a);
    return status;
}

/* As sampling takes it: of equal ones the first. */
static int32_t likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return (int32_t)best;
}

/* Reads along token by token: a row of logits [n_vocab] a step. */
static weft_status read_along(weft_engine *engine, const weft_request *r, uint32_t n_vocab,
                              weft_handle handle, agreement *a, weft_error *err)
{
    for (;;) {
        uint32_t n_active;
        weft_event event = {.struct_size = sizeof event};
        weft_status status = weft_step(engine, &n_active, err);
        if (status == WEFT_OK) status = weft_poll(engine, handle, &event, err);
        if (status != WEFT_OK) return status;
        if (event.kind == WEFT_EVENT_DONE) {
            if (event.finish != WEFT_FINISH_ERROR) return WEFT_OK;
            return err_set(err, event.error.status, "%s", event.error.message);
        }
        if (event.kind != WEFT_EVENT_LOGITS || event.first + 1 < AGREEMENT_PROMPT) continue;
        if (event.first + 1 >= AGREEMENT_POSITIONS) continue;
        a->n_tokens++;
        a->n_same += likeliest(r->prompt_logits, n_vocab) == r->prompt[event.first + 1];
    }
}

weft_status agreement_measure(weft_engine *engine, const weft_model *model, const char *kv,
                              agreement *a, weft_error *err)
{
    int32_t ids[AGREEMENT_POSITIONS];
    weft_handle handle;
    weft_model_info info = {.struct_size = sizeof info};
    *a = (agreement){0};
    weft_status status = weft_model_get_info(model, &info, err);
    if (status == WEFT_OK) status = expect(model, kv, a, err);
    if (status == WEFT_OK) status = go_on(engine, info.n_vocab, ids, err);
    if (status != WEFT_OK) return status;
    float *row = mem_alloc(mem_system(), info.n_vocab * sizeof *row);
    if (row == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %u logits", info.n_vocab);
    weft_request r = {.struct_size = sizeof r,
                      .prompt = ids,
                      .n_prompt = AGREEMENT_POSITIONS,
                      .kv = kv,
                      .prompt_logits = row,
                      .prompt_logits_rows = 1};
    status = weft_submit(engine, &r, &handle, err);
    if (status == WEFT_OK) {
        status = read_along(engine, &r, info.n_vocab, handle, a, err);
        weft_release(engine, handle, NULL);
    }
    mem_free(mem_system(), row, info.n_vocab * sizeof *row);
    return status;
}

weft_status agreement_check(const agreement *a, const char *kv, weft_error *err)
{
    if (a->n_same >= a->n_least) return WEFT_OK;
    return err_set(err, WEFT_LIMIT,
                   "with keys and values in '%s' %u of %u tokens are those with f32, at least %u "
                   "are to be expected: the speed is that of wrong answers",
                   kv, a->n_same, a->n_tokens, a->n_least);
}
