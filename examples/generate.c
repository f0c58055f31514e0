/* generate.c - the smallest whole use of weft.h: one question, its answer as it comes.
 *
 *     cc generate.c $(pkg-config --cflags --libs weft) -o generate
 *     ./generate MODEL "Once upon a time" [TOKENS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { MAX_PROMPT = 4096 };

/* The question as a chat of one message would need JSON; here the prompt is plain text. */
static weft_status submit(weft_engine *engine, const weft_model *model, const char *text,
                          uint32_t max_new, weft_handle *handle, weft_error *err)
{
    int32_t ids[MAX_PROMPT];
    size_t n_ids = 0;
    weft_status status = weft_tokenize(model, text, strlen(text), WEFT_TOKENIZE_SPECIALS, ids,
                                       MAX_PROMPT, &n_ids, err);
    if (status != WEFT_OK) return status;
    weft_request request = {.struct_size = sizeof request}; /* sampling all 0: greedy */
    request.flags = WEFT_REQUEST_TEXT | WEFT_REQUEST_CONTINUES;
    request.prompt = ids;
    request.n_prompt = (uint32_t)n_ids;
    request.max_new = max_new;
    return weft_submit(engine, &request, handle, err);
}

/* Steps until the request is done, printing whole characters. */
static weft_status stream(weft_engine *engine, weft_handle handle, weft_error *err)
{
    weft_event event = {.struct_size = sizeof event};
    uint32_t n_active = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && event.kind != WEFT_EVENT_DONE) {
        status = weft_poll(engine, handle, &event, err);
        if (status == WEFT_OK && event.kind == WEFT_EVENT_NONE)
            status = weft_step(engine, &n_active, err);
        if (status == WEFT_OK) fwrite(event.text, 1, event.n_text, stdout);
        fflush(stdout);
    }
    if (status != WEFT_OK || event.finish != WEFT_FINISH_ERROR) return status;
    if (err != NULL) *err = event.error;
    return event.error.status;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: %s MODEL TEXT [TOKENS]\n", argv[0]);
        return 2;
    }
    uint32_t max_new = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 100;
    weft_error err = {0};
    weft_model *model = NULL;
    weft_engine *engine = NULL;
    weft_handle handle = 0;
    weft_status status = weft_model_open(argv[1], NULL, &model, &err);
    if (status == WEFT_OK) status = weft_engine_open(model, NULL, &engine, &err);
    if (status == WEFT_OK) status = submit(engine, model, argv[2], max_new, &handle, &err);
    if (status == WEFT_OK) status = stream(engine, handle, &err);
    weft_engine_close(engine);
    weft_model_close(model);
    if (status == WEFT_OK) return putchar('\n') == EOF;
    fprintf(stderr, "%s\n", err.message);
    return 1;
}
