/* generate.c - one request, from its prompt to its last token. */
#include "cli/generate.h"

#include <stdlib.h>

#include "base/clock.h"

typedef struct stream {
    session *s;
    const generate_request *request;
    generate_answer *answer;
    weft_handle handle;
    progress progress;
    uint64_t start_ns;
    uint32_t n_steps;
} stream;

static void give_text(const stream *st, const weft_event *event)
{
    if (event->n_text > 0 && st->request->text != NULL)
        st->request->text(st->request->user, event->text, event->n_text);
}

static weft_status take_token(stream *st, const weft_event *event, weft_error *err)
{
    generate_answer *a = st->answer;
    a->total_s = (double)(clock_now_ns() - st->start_ns) / 1e9;
    if (a->ids.n == 0) {
        a->first_s = a->total_s;
        progress_clear(&st->progress);
    }
    give_text(st, event);
    if (st->request->token != NULL) st->request->token(st->request->user, event);
    return id_list_add(&a->ids, event->token, err);
}

static weft_status take_end(stream *st, const weft_event *event, weft_error *err)
{
    st->answer->finish = event->finish;
    st->answer->stop_text = event->stop_text;
    st->answer->n_cached = event->n_cached;
    st->answer->n_drafted = event->n_drafted;
    st->answer->n_accepted = event->n_accepted;
    if (event->finish == WEFT_FINISH_ERROR)
        return err_set(err, event->error.status, "%s", event->error.message);
    give_text(st, event);
    return WEFT_OK;
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
            status = take_token(st, &event, err);
        if (status == WEFT_OK && event.kind == WEFT_EVENT_NONE) {
            if (interrupt_take() || ferror(stdout)) status = weft_cancel(e, st->handle, err);
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
    *answer = (generate_answer){.finish = WEFT_FINISH_NONE, .stop_text = -1};
    if (request->prompt->n > UINT32_MAX)
        return err_set(err, WEFT_LIMIT, "the prompt has %zu tokens", request->prompt->n);
    stream st = {.s = s, .request = request, .answer = answer, .start_ns = clock_now_ns()};
    const generate_options *how = &request->how;
    weft_request r = {.struct_size = sizeof r,
                      .prompt = request->prompt->ids,
                      .n_prompt = (uint32_t)request->prompt->n,
                      .max_new = how->max_new,
                      .min_new = how->min_new,
                      .n_top = how->n_top,
                      .sampling = how->sampling,
                      .stop_texts = how->stop_texts,
                      .n_stop_texts = how->n_stop_texts,
                      .draft = how->draft,
                      .grammar = how->grammar,
                      .images = request->images,
                      .n_images = request->n_images};
    if (request->text != NULL) r.flags |= WEFT_REQUEST_TEXT;
    if (request->continues) r.flags |= WEFT_REQUEST_CONTINUES;
    weft_status status = count_prompt(s, request, answer, err);
    if (status == WEFT_OK) status = weft_submit(s->engine, &r, &st.handle, err);
    if (status == WEFT_OK) status = run(&st, err);
    progress_clear(&st.progress);
    if (st.handle != 0) weft_release(s->engine, st.handle, NULL);
    if (st.handle != 0) note_said(s, request->prompt, &answer->ids);
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
    if (request->how.draft != NULL)
        fprintf(stderr, ", %u of %u drafts right", answer->n_accepted, answer->n_drafted);
    if (answer->first_s > 0.0) fprintf(stderr, "; first token after %.2f s", answer->first_s);
    if (answer->finish == WEFT_FINISH_LENGTH && n_new == request->how.max_new) {
        fprintf(stderr, "; stopped at -n %u", request->how.max_new);
    } else if (answer->finish == WEFT_FINISH_LENGTH) {
        weft_engine_info info = {.struct_size = sizeof info};
        weft_engine_get_info(s->engine, &info, NULL);
        fprintf(stderr, "; stopped because the context of %u tokens is full", info.context);
    } else if (answer->finish == WEFT_FINISH_CANCELLED) {
        fputs("; stopped by you", stderr);
    }
    fputs("]\n", stderr);
}
