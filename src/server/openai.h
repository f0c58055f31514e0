/* openai.h - what OpenAI's interfaces have in common. */
#ifndef SERVER_OPENAI_H
#define SERVER_OPENAI_H

#include "server/generation.h"

/* "usage":{...} with prompt, completion and cached tokens. */
void openai_write_usage(const generation *g, strbuf *out);

/* ,"timings":{...}: milliseconds and tokens a second of prompt and answer. */
void openai_write_timings(const generation *g, strbuf *out);

/* "logprobs":{"content":[...]} of what a has, which is emptied; or null. */
void openai_write_logprobs(answer *a, strbuf *out);

/* vLLM's and llama.cpp's fields for what an answer must be. */
typedef struct openai_forms {
    const json *json_schema, *guided_json, *guided_choice;
    str guided_regex, guided_grammar, grammar;
    const json *structured_outputs;
} openai_forms;

extern const field_row OPENAI_FORM_ROWS[];
extern const size_t N_OPENAI_FORM_ROWS;

/* At most one of them, and none beside another form. */
weft_status openai_read_forms(generation *g, const openai_forms *f, char *param, weft_error *err);

/* {"include_usage": true} */
weft_status openai_read_stream_options(generation *g, const json *options, char *param,
                                       weft_error *err);

/* Fields that every client may send and that change nothing. */
extern const field_row OPENAI_COMMON_ROWS[];
extern const size_t N_OPENAI_COMMON_ROWS;

/* The start of an object of an answer, up to its choices; the same for all of one generation. */
void openai_begin_object(generation *g, const char *prefix, const char *object, strbuf *out);

/* The end of a stream: chunk, an object that has just begun, is sent if usage is wanted; then what
 * says that there is no more, to out. */
void openai_end_stream(generation *g, strbuf *chunk, strbuf *out);

/* What failed within a stream, as an event. */
void openai_broken(generation *g, uint32_t status, const char *message);

#endif
