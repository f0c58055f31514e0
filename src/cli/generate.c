/* generate.c - one request, from its prompt to its last token. */
#include "cli/generate.h"

#include <stdlib.h>

#include "base/clock.h"

typedef struct stream {
    session *s;
    const generate_request *request;
    generate_answer *answer;
    weft_handle handle;
    weft_detokenizer *detokenizer;
    progress progress;
    uint64_t start_ns;
    uint32_t n_steps;
    /* The newest token waits for what follows: a stop token is the last and has no text. */
    bool holds;
    int32_t held;
} stream;

static void give(stream *st, const char *text, size_t n_bytes)
{
    if (n_bytes > 0 && st->request->text != NULL)
        st->request->text(st->request->user, text, n_bytes);
}

static weft_status print_held(stream *st, weft_error *err)
{
    if (!st->holds || st->detokenizer == NULL) return WEFT_OK;
    const char *text;
    size_t n_bytes;
    weft_status status = weft_detokenizer_push(st->detokenizer, st->held, &text, &n_bytes, err);
    if (status == WEFT_OK) give(st, text, n_bytes);
    st->holds = false;
    return status;
}

static weft_status take_token(stream *st, int32_t id, weft_error *err)
{
    generate_answer *a = st->answer;
    a->total_s = (double)(clock_now_ns() - st->start_ns) / 1e9;
    if (a->ids.n == 0) {
        a->first_s = a->total_s;
        progress_clear(&st->progress);
    }
    weft_status status = print_held(st, err);
    st->holds = true;
    st->held = id;
    return status == WEFT_OK ? id_list_add(&a->ids, id, err) : status;
}

static weft_status take_end(stream *st, const weft_event *event, weft_error *err)
{
    st->answer->finish = event->finish;
    st->answer->n_cached = event->n_cached;
    st->answer->n_drafted = event->n_drafted;
    st->answer->n_accepted = event->n_accepted;
    if (event->finish == WEFT_FINISH_ERROR)
        return err_set(err, event->error.status, "%s", event->error.message);
    if (event->finish == WEFT_FINISH_STOP) st->holds = false;
    weft_status status = print_held(st, err);
    if (status != WEFT_OK || st->detokenizer == NULL) return status;
    const char *text;
    size_t n_bytes;
    status = weft_detokenizer_flush(st->detokenizer, &text, &n_bytes, err);
    if (status == WEFT_OK) give(st, text, n_bytes);
    return status;
}

static void show_reading(stream *st)
{
    size_t n = st->request->prompt->n;
    size_t done = (size_t)st->n_steps++ * GENERATE_CHUNK;
    if (n > GENERATE_CHUNK && done < n)
        progress_show(&st->progress, "reading the prompt: %zu of %zu tokens", done, n);
}

static weft_status run(stream *st, weft_error *err)
{
    weft_engine *e = st->s->engine;
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        weft_status status = weft_poll(e, st->handle, &event, err);
        if (status == WEFT_OK && event.kind == WEFT_EVENT_DONE) return take_end(st, &event, err);
        if (status == WEFT_OK && event.kind == WEFT_EVENT_TOKEN)
            status = take_token(st, event.token, err);
        if (status == WEFT_OK && event.kind == WEFT_EVENT_NONE) {
            status = print_held(st, err);
            if (status == WEFT_OK && (interrupt_take() || ferror(stdout)))
                status = weft_cancel(e, st->handle, err);
            if (st->answer->ids.n == 0) show_reading(st);
            uint32_t n_active;
            if (status == WEFT_OK) status = weft_step(e, &n_active, err);
        }
        if (status != WEFT_OK) return status;
    }
}

/* What the engine has seen of the conversation, to save its state by; without memory for it, there
 * is none. */
static void note_said(session *s, const id_list *prompt, const id_list *answer)
{
    const id_list *const parts[] = {prompt, answer};
    s->said.n = 0;
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < parts[i]->n; k++) {
            if (id_list_add(&s->said, parts[i]->ids[k], NULL) != WEFT_OK) return;
        }
    }
}

static weft_status count_prompt(const session *s, const generate_request *request,
                                generate_answer *answer, weft_error *err)
{
    answer->n_prompt = request->prompt->n;
    for (uint32_t i = 0; i < request->n_images; i++) {
        weft_image_info info = {.struct_size = sizeof info};
        const weft_image *image = &request->images[i];
        weft_status status =
            weft_engine_image_info(s->engine, image->width, image->height, &info, err);
        if (status != WEFT_OK) return status;
        answer->n_prompt += info.n_tokens - 1;
    }
    return WEFT_OK;
}

weft_status generate(session *s, const generate_request *request, generate_answer *answer,
                     weft_error *err)
{
    *answer = (generate_answer){.finish = WEFT_FINISH_NONE};
    if (request->prompt->n > UINT32_MAX)
        return err_set(err, WEFT_LIMIT, "the prompt has %zu tokens", request->prompt->n);
    stream st = {.s = s, .request = request, .answer = answer, .start_ns = clock_now_ns()};
    weft_request r = {.struct_size = sizeof r,
                      .prompt = request->prompt->ids,
                      .n_prompt = (uint32_t)request->prompt->n,
                      .max_new = request->max_new,
                      .sampling = request->sampling,
                      .draft = request->draft,
                      .images = request->images,
                      .n_images = request->n_images};
    weft_status status = count_prompt(s, request, answer, err);
    if (status == WEFT_OK && request->text != NULL)
        status = weft_detokenizer_create(s->model, 0, &st.detokenizer, err);
    if (status == WEFT_OK) status = weft_submit(s->engine, &r, &st.handle, err);
    if (status == WEFT_OK) status = run(&st, err);
    progress_clear(&st.progress);
    if (st.handle != 0) weft_release(s->engine, st.handle, NULL);
    if (st.handle != 0) note_said(s, request->prompt, &answer->ids);
    weft_detokenizer_destroy(st.detokenizer);
    return status;
}

/* ---- what is said of it ---------------------------------------------------------------------- */

const char *generate_finish_name(weft_finish finish)
{
    switch (finish) {
    case WEFT_FINISH_STOP:
        return "stop";
    case WEFT_FINISH_LENGTH:
        return "length";
    case WEFT_FINISH_CANCELLED:
        return "cancelled";
    default:
        return "error";
    }
}

void generate_print_speed(const session *s, const generate_request *request,
                          const generate_answer *answer)
{
    size_t n_prompt = answer->n_prompt;
    size_t n_new = answer->ids.n;
    double decode_s = answer->total_s - answer->first_s;
    double n_read = (double)(n_prompt - answer->n_cached);
    fprintf(stderr, "[%zu prompt tokens", n_prompt);
    if (answer->n_cached > 0) fprintf(stderr, ", %u of them known", answer->n_cached);
    if (answer->first_s > 0.0) fprintf(stderr, ", %.1f tok/s", n_read / answer->first_s);
    fprintf(stderr, "; %zu new tokens", n_new);
    if (n_new > 1 && decode_s > 0.0)
        fprintf(stderr, ", %.1f tok/s", (double)(n_new - 1) / decode_s);
    if (request->draft != NULL)
        fprintf(stderr, ", %u of %u drafts right", answer->n_accepted, answer->n_drafted);
    if (answer->first_s > 0.0) fprintf(stderr, "; first token after %.2f s", answer->first_s);
    if (answer->finish == WEFT_FINISH_LENGTH && n_new == request->max_new) {
        fprintf(stderr, "; stopped at -n %u", request->max_new);
    } else if (answer->finish == WEFT_FINISH_LENGTH) {
        weft_engine_info info = {.struct_size = sizeof info};
        weft_engine_get_info(s->engine, &info, NULL);
        fprintf(stderr, "; stopped because the context of %u tokens is full", info.context);
    } else if (answer->finish == WEFT_FINISH_CANCELLED) {
        fputs("; stopped by you", stderr);
    }
    fputs("]\n", stderr);
}
