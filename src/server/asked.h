/* asked.h - what a request may ask of sampling, whatever interface it comes by: one table of fields
 * for all of them. */
#ifndef SERVER_ASKED_H
#define SERVER_ASKED_H

#include "server/fields.h"

/* Fields that are absent keep these defaults; those of the model come later. */
typedef struct asked {
    weft_sampling sampling; /* temperature, top_p, min_p, typical_p, penalty: below 0 is absent */
    float top_k;            /* -1 and 0: off; below -1: absent */
    uint64_t seed;          /* the caller's until there is one */
    bool ignore_stop, no_cache, stream;
    uint32_t max_new; /* 0: absent */
    uint32_t min_new;
    uint32_t n;     /* answers */
    uint32_t n_top; /* likeliest tokens beside each; UINT32_MAX: no log-probabilities at all */
    int32_t priority;
    str kv, salt, draft;
    const json *stop, *stop_ids, *logit_bias, *dry_breakers;
} asked;

enum { ASKED_ANSWERS = 64 };

void asked_init(asked *a);

/* Names as OpenAI's interfaces have them, and beside them those of vLLM and llama.cpp. */
extern const field_row ASKED_ROWS[];
extern const size_t N_ASKED_ROWS;

/* Lists that a request refers to until it was submitted. */
typedef struct asked_lists {
    const char *stops[WEFT_STOP_TEXTS];
    uint32_t n_stops;
    int32_t *stop_ids; /* [n_stop_ids] */
    uint32_t n_stop_ids;
    weft_logit_bias *biases; /* [n_biases] */
    uint32_t n_biases;
    const char *breakers[WEFT_DRY_BREAKERS];
    char kv[128], draft[16];
    strbuf texts; /* of stops and breakers, each with a NUL */
} asked_lists;

void asked_lists_init(asked_lists *l);
void asked_lists_deinit(asked_lists *l);

/* What JSON says, as lists. ARGUMENT names the field. */
weft_status asked_read_lists(asked *a, asked_lists *l, char *param, weft_error *err);

/* Into a request for answer answer_i; info: the model's defaults. l is borrowed. */
void asked_fill(const asked *a, const asked_lists *l, const weft_model_info *info,
                uint32_t answer_i, weft_request *request);

#endif
