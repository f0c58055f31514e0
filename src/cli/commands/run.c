/* run.c - weft run: a chat in the terminal, or one answer. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/chat.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/pictures.h"

#define FROM_MODEL (-1.0F)

typedef struct run_values {
    session_values session;
    const char *prompt, *system, *state;
    bool raw, json;
    uint32_t max_new;
    float temperature, top_p, min_p;
    uint32_t top_k;
    option_seed seed;
    const char *draft;
    option_texts images;
} run_values;

#define AT(field) offsetof(run_values, field)

static const option_row OPTIONS[] = {
    {"p", OPTION_TEXT, AT(prompt), "TEXT", "answers this and ends", 0, 0, NULL},
    {"system", OPTION_TEXT, AT(system), "TEXT", "what the model is told before the conversation", 0,
     0, NULL},
    {"image", OPTION_TEXTS, AT(images), "FILE",
     "shows the model a JPEG or PNG file before the text of -p or stdin; may be there several "
     "times, "
     "for as many images",
     0, 0, NULL},
    {"raw", OPTION_FLAG, AT(raw), NULL, "no chat template: the text is continued as it is", 0, 0,
     NULL},
    {"n", OPTION_COUNT, AT(max_new), "N",
     "most tokens of an answer (default: until the context is full)", 1, 1 << 30, NULL},
    {"temp", OPTION_REAL, AT(temperature), "T",
     "temperature; 0 always takes the likeliest token (default: the model's)", 0, 100, NULL},
    {"top-p", OPTION_REAL, AT(top_p), "P",
     "samples among the likeliest tokens that make up P; 1 is off (default: the model's)", 1e-6, 1,
     NULL},
    {"top-k", OPTION_COUNT, AT(top_k), "K",
     "samples among the K likeliest tokens; 0 is off (default: the model's)", 0, 1 << 30, NULL},
    {"min-p", OPTION_REAL, AT(min_p), "P",
     "drops tokens less likely than P times the likeliest; 0 is off (default: the model's)", 0,
     0.999999, NULL},
    {"seed", OPTION_SEED, AT(seed), "S",
     "the same seed gives the same answer (default: another one each time)", 0, 0, NULL},
    {"state", OPTION_TEXT, AT(state), "FILE",
     "begins with what FILE has of an earlier conversation, and writes this one to it at the end",
     0, 0, NULL},
    {"draft", OPTION_CHOICE, AT(draft), "NAME",
     "what guesses tokens in advance: ngram, by what stood in the text before; the answer is the "
     "same, sooner where text repeats itself (default: none)",
     0, 0, "ngram|none"},
    {"json", OPTION_FLAG, AT(json), NULL, "prints the answer as one JSON object when it is whole",
     0, 0, NULL},
};

static const run_values DEFAULTS = {
    .session = SESSION_DEFAULTS,
    .max_new = 1 << 30,
    .temperature = FROM_MODEL,
    .top_p = FROM_MODEL,
    .min_p = FROM_MODEL,
    .top_k = UINT32_MAX,
    .draft = "none",
};

/* 53 bits, so that every reader of JSON keeps them all. */
static uint64_t fresh_seed(void)
{
    return rng_u64((uint64_t)time(NULL) << 20 ^ (uint64_t)getpid(), clock_now_ns()) >> 11;
}

static weft_sampling sampling_of(const run_values *v, const weft_model_info *info)
{
    weft_sampling s = {.temperature = info->temperature,
                       .top_p = info->top_p,
                       .min_p = info->min_p,
                       .top_k = info->top_k};
    if (v->temperature >= 0.0F) s.temperature = v->temperature;
    if (v->top_p >= 0.0F) s.top_p = v->top_p;
    if (v->min_p >= 0.0F) s.min_p = v->min_p;
    if (v->top_k != UINT32_MAX) s.top_k = v->top_k;
    s.seed = v->seed.given ? v->seed.value : fresh_seed();
    return s;
}

/* ---- one answer ------------------------------------------------------------------------------ */

static void show_text(void *user, const char *bytes, size_t n_bytes)
{
    bool *ends_line = user;
    text_write(stdout, bytes, n_bytes);
    fflush(stdout);
    *ends_line = bytes[n_bytes - 1] == '\n';
}

static void keep_text(void *user, const char *bytes, size_t n_bytes)
{
    strbuf_add(user, bytes, n_bytes);
}

static weft_status prompt_ids(session *s, const chat_options *o, uint32_t n_images, str prompt,
                              id_list *ids, weft_error *err)
{
    if (o->raw) return session_tokenize(s, prompt, WEFT_TOKENIZE_SPECIALS, ids, err);
    chat_history h;
    weft_status status = chat_history_init(&h, o->system, err);
    if (status == WEFT_OK) status = chat_history_show(&h, n_images, prompt, err);
    if (status == WEFT_OK) status = chat_history_ids(&h, s, ids, err);
    chat_history_deinit(&h);
    return status;
}

static weft_status print_json(const char *model, const generate_request *r,
                              const generate_answer *a, const strbuf *text, weft_error *err)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    double decode_s = a->total_s - a->first_s;
    size_t n_new = a->ids.n;
    strbuf_add_text(&out, "{\"model\":");
    json_write_text(str_of(model), &out);
    strbuf_add_text(&out, ",\"text\":");
    json_write_text((str){strbuf_text(text), text->len}, &out);
    strbuf_add_text(&out, ",\"ids\":[");
    for (size_t i = 0; i < n_new; i++) strbuf_printf(&out, "%s%d", i > 0 ? "," : "", a->ids.ids[i]);
    strbuf_printf(&out, "],\"finish\":\"%s\",\"prompt_tokens\":%zu,\"new_tokens\":%zu",
                  generate_finish_name(a->finish), a->n_prompt, n_new);
    strbuf_printf(&out, ",\"temperature\":%.9g,\"top_p\":%.9g,\"top_k\":%u,\"min_p\":%.9g",
                  (double)r->sampling.temperature, (double)r->sampling.top_p, r->sampling.top_k,
                  (double)r->sampling.min_p);
    strbuf_printf(&out, ",\"seed\":%llu,\"first_token_s\":%.6f,\"prefill_tok_s\":%.3f",
                  (unsigned long long)r->sampling.seed, a->first_s,
                  a->first_s > 0.0 ? (double)a->n_prompt / a->first_s : 0.0);
    if (r->draft != NULL)
        strbuf_printf(&out, ",\"drafted\":%u,\"accepted\":%u", a->n_drafted, a->n_accepted);
    weft_status status =
        strbuf_printf(&out, ",\"decode_tok_s\":%.3f}\n",
                      n_new > 1 && decode_s > 0.0 ? (double)(n_new - 1) / decode_s : 0.0);
    if (text->status != WEFT_OK) status = text->status;
    if (status == WEFT_OK) {
        fwrite(out.ptr, 1, out.len, stdout);
    } else {
        err_set(err, status, "out of memory for the answer");
    }
    strbuf_deinit(&out);
    return status;
}

static weft_status answer_once(session *s, const chat_options *o, const run_values *v,
                               const char *model, str prompt, weft_error *err)
{
    bool whole = v->json;
    id_list ids = {0};
    picture_list pictures = {0};
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    bool ends_line = false;
    generate_answer answer = {0};
    generate_request request = {.prompt = &ids,
                                .max_new = o->max_new,
                                .sampling = o->sampling,
                                .draft = o->draft,
                                .user = &ends_line};
    request.text = show_text;
    if (whole) {
        request.user = &text;
        request.text = keep_text;
    }
    weft_status status = pictures_read(s, &v->images, &pictures, err);
    if (status == WEFT_OK) status = prompt_ids(s, o, pictures.n, prompt, &ids, err);
    request.images = pictures.images;
    request.n_images = pictures.n;
    if (status == WEFT_OK) status = generate(s, &request, &answer, err);
    if (whole && status == WEFT_OK) {
        status = print_json(model, &request, &answer, &text, err);
    } else if (!whole && answer.ids.n > 0 && !ends_line) {
        putchar('\n');
    }
    fflush(stdout);
    if (status == WEFT_OK && !ferror(stdout)) generate_print_speed(s, &request, &answer);
    pictures_free(s, &pictures);
    id_list_deinit(&answer.ids);
    id_list_deinit(&ids);
    strbuf_deinit(&text);
    return status;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* What is not there or cannot be used is computed, as without. */
static weft_status restore_state(session *s, const char *path, weft_error *err)
{
    weft_restored found = {.struct_size = sizeof found};
    if (path == NULL) return WEFT_OK;
    weft_status status = weft_state_restore(s->engine, path, &found, err);
    if (status != WEFT_OK) return status;
    if (found.reason[0] == '\0') {
        report_note("'%s': %u of %u tokens can be used", path, found.n_usable, found.n_tokens);
    } else if (found.set_aside) {
        report_note("'%s' is not used: %s; it is '%s.bad' now", path, found.reason, path);
    } else {
        report_note("'%s' is not used: %s", path, found.reason);
    }
    return WEFT_OK;
}

static weft_status save_state(session *s, const char *path, weft_error *err)
{
    uint32_t n_saved;
    if (path == NULL || s->said.n == 0 || s->said.n > UINT32_MAX) return WEFT_OK;
    weft_status status =
        weft_state_save(s->engine, s->said.ids, (uint32_t)s->said.n, path, &n_saved, err);
    if (status == WEFT_OK) report_note("'%s': %u tokens are saved", path, n_saved);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A template that is missing, or that cannot be used, is said, and the text continued. */
static weft_status choose_raw(session *s, const run_values *v, chat_options *o, weft_error *err)
{
    o->raw = v->raw;
    if (v->raw || s->info.has_template) return WEFT_OK;
    weft_error why = {WEFT_OK, ""};
    id_list ids = {0};
    weft_status status = session_check_tokenizer(s, err);
    if (status != WEFT_OK) return status;
    session_chat(s, "[]", NULL, 0, &ids, &why);
    id_list_deinit(&ids);
    if (v->system != NULL) return err_set(err, WEFT_UNSUPPORTED, "--system: %s", why.message);
    report_note("%s: the text is continued as it is (--raw)", why.message);
    o->raw = true;
    return WEFT_OK;
}

static int answer_or_chat(session *s, const run_values *v, const chat_options *o, const char *path)
{
    weft_error err = {WEFT_OK, ""};
    if (v->prompt == NULL && !v->json && v->images.n == 0 && terminal_is(stdin) &&
        terminal_is(stdout))
        return chat_run(s, o);
    strbuf text;
    strbuf_init(&text, mem_system(), INPUT_LIMIT);
    str prompt = {v->prompt, 0};
    weft_status status = WEFT_OK;
    if (v->prompt == NULL) {
        status = input_read_all(stdin, "stdin", &text, &err);
        prompt = (str){strbuf_text(&text), text.len};
        /* The line feed that echo adds. */
        if (prompt.len > 0 && prompt.ptr[prompt.len - 1] == '\n') prompt.len--;
    } else {
        prompt.len = strlen(v->prompt);
    }
    if (status == WEFT_OK) status = answer_once(s, o, v, path, prompt, &err);
    strbuf_deinit(&text);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, false);
}

static int run(const void *values, const char *path)
{
    const run_values *v = values;
    if (v->raw && v->system != NULL) {
        report_note("--raw and --system exclude each other: only a template has a place for it");
        return EXIT_USAGE;
    }
    session s = {0};
    weft_error err = {WEFT_OK, ""};
    const char *draft = session_drafter(v->draft);
    chat_options o = {.system = v->system, .max_new = v->max_new, .draft = draft};
    session_plan plan = {
        .max_sequences = 1, .chunk_tokens = GENERATE_CHUNK, .drafts = draft != NULL};
    int exit_status = EXIT_FAILED;
    bool usage = false;
    weft_status status = session_open_model(&s, &v->session, path, &err);
    if (status == WEFT_OK) status = choose_raw(&s, v, &o, &err);
    if (status == WEFT_OK) {
        status = session_open_engine(&s, &v->session, &plan, &err);
        usage = true;
    }
    if (status == WEFT_OK) {
        usage = false;
        status = restore_state(&s, v->state, &err);
    }
    if (status == WEFT_OK) {
        o.sampling = sampling_of(v, &s.info);
        exit_status = answer_or_chat(&s, v, &o, path);
        status = save_state(&s, v->state, &err);
        if (status != WEFT_OK) exit_status = report_failure(&err, false);
    } else {
        exit_status = report_failure(&err, usage);
    }
    session_close(&s);
    return exit_status;
}

const command COMMAND_run = {
    .name = "run",
    .operand = "MODEL",
    .summary = "a chat in the terminal, or one answer to -p or to stdin",
    .details = "On a terminal without -p it is a chat; /help there says more. Else the answer to "
               "-p, or to\n"
               "what stdin holds (but for a last line feed), goes to stdout as it comes. The speed "
               "goes to\n"
               "stderr: tokens per second of prompt and answer, and the time to the first token.\n"
               "With --raw, the text has the model's placeholder for each --image itself.\n"
               "With --state, what of the next conversation begins as this one did need not be "
               "computed\n"
               "again, and its answers are the same as without. FILE is as large as the keys and "
               "values of\n"
               "the conversation. One that is damaged is renamed to FILE.bad, one of another model "
               "or other\n"
               "options is replaced at the end.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_CONTEXT | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
