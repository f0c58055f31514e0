/* run.c - weft run: a chat in the terminal, or one answer. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/chat.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/pictures.h"
#include "cli/sampling.h"

typedef struct run_values {
    sampling_command with;
    const char *prompt, *system, *state;
    const char *schema, *regex, *rules;
    bool raw, json;
    uint32_t max_new;
    const char *draft, *state_dir;
    uint64_t state_dir_bytes;
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
    {"state", OPTION_TEXT, AT(state), "FILE",
     "begins with what FILE has of an earlier conversation, and writes this one to it at the end",
     0, 0, NULL},
    {"state-dir", OPTION_TEXT, AT(state_dir), "DIR",
     "keeps what it knows of conversations in this folder, also for other runs and at the same "
     "time, and begins with what is found there; it can be read from it what was said",
     0, 0, NULL},
    {"state-dir-size", OPTION_BYTES, AT(state_dir_bytes), "BYTES",
     "most that is kept there, of all models; what was not used for longest goes (default: 4G)", 0,
     0, NULL},
    {"draft", OPTION_TEXT, AT(draft), "NAME",
     "what guesses tokens in advance: ngram, by what stood in the text before; mtp, the head that "
     "some models have for it; or another model, a folder or file like MODEL: a smaller one of the "
     "same vocabulary, or one that was made for it (gemma4_assistant); the answer is the same, "
     "sooner where the guesses are right (default: none)",
     0, 0, NULL},
    {"schema", OPTION_TEXT, AT(schema), "FILE",
     "the answer is JSON that this JSON Schema allows (docs/grammar.md)", 0, 0, NULL},
    {"regex", OPTION_TEXT, AT(regex), "RE", "the answer is what this regular expression matches", 0,
     0, NULL},
    {"rules", OPTION_TEXT, AT(rules), "FILE", "the answer is the root of these rules (GBNF)", 0, 0,
     NULL},
    {"json", OPTION_FLAG, AT(json), NULL, "prints the answer as one JSON object when it is whole",
     0, 0, NULL},
};

static const run_values DEFAULTS = {
    .with = {.session = SESSION_DEFAULTS, .sampling = SAMPLING_DEFAULTS},
    .max_new = 1 << 30,
    .draft = "none",
};

/* ---- one answer ------------------------------------------------------------------------------ */

static void show_text(void *user, const char *bytes, size_t n_bytes)
{
    bool *ends_line = user;
    text_write(stdout, bytes, n_bytes);
    fflush(stdout);
    *ends_line = bytes[n_bytes - 1] == '\n';
}

/* What is printed when it is whole. */
typedef struct json_answer {
    strbuf text;
    strbuf
        tokens; /* an array without its brackets: each token's log-probability and the likeliest */
} json_answer;

static void keep_text(void *user, const char *bytes, size_t n_bytes)
{
    strbuf_add(&((json_answer *)user)->text, bytes, n_bytes);
}

/* JSON has no infinity. */
static void write_number(strbuf *out, float x)
{
    if (isfinite(x)) {
        strbuf_printf(out, "%.9g", (double)x);
    } else {
        strbuf_add_text(out, "null");
    }
}

static void keep_token(void *user, const weft_event *event)
{
    strbuf *out = &((json_answer *)user)->tokens;
    strbuf_printf(out, "%s{\"id\":%d,\"logprob\":", out->len > 0 ? "," : "", event->token);
    write_number(out, event->logprob);
    strbuf_add_text(out, ",\"top\":[");
    for (uint32_t i = 0; i < event->n_top; i++) {
        strbuf_printf(out, "%s[%d,", i > 0 ? "," : "", event->top[i].token);
        write_number(out, event->top[i].logprob);
        strbuf_add_char(out, ']');
    }
    strbuf_add_text(out, "]}");
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

static void write_how(const generate_request *r, const generate_answer *a, const json_answer *whole,
                      strbuf *out)
{
    const weft_sampling *s = &r->how.sampling;
    if (a->stop_text >= 0) {
        strbuf_add_text(out, ",\"stop\":");
        json_write_text(str_of(r->how.stop_texts[a->stop_text]), out);
    }
    strbuf_printf(out, ",\"temperature\":%.9g,\"top_p\":%.9g,\"top_k\":%u,\"min_p\":%.9g",
                  (double)s->temperature, (double)s->top_p, s->top_k, (double)s->min_p);
    strbuf_printf(out, ",\"seed\":%llu", (unsigned long long)s->seed);
    if (r->how.n_top > 0) strbuf_printf(out, ",\"logprobs\":[%s]", strbuf_text(&whole->tokens));
}

static weft_status print_json(const session *s, const char *model, const generate_request *r,
                              const generate_answer *a, const json_answer *whole, weft_error *err)
{
    strbuf out;
    const strbuf *text = &whole->text;
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
    write_how(r, a, whole, &out);
    strbuf_printf(&out, ",\"first_token_s\":%.6f,\"prefill_tok_s\":%.3f", a->first_s,
                  a->first_s > 0.0 ? (double)a->n_prompt / a->first_s : 0.0);
    if (r->how.draft != NULL)
        strbuf_printf(&out, ",\"drafted\":%u,\"accepted\":%u", a->n_drafted, a->n_accepted);
    strbuf_printf(&out, ",\"decode_tok_s\":%.3f",
                  n_new > 1 && decode_s > 0.0 ? (double)(n_new - 1) / decode_s : 0.0);
    session_add_experts(s, &out);
    weft_status status = strbuf_add_text(&out, "}\n");
    if (text->status != WEFT_OK) status = text->status;
    if (whole->tokens.status != WEFT_OK) status = whole->tokens.status;
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
    json_answer kept;
    strbuf_init(&kept.text, mem_system(), 0);
    strbuf_init(&kept.tokens, mem_system(), 0);
    bool ends_line = false;
    generate_answer answer = {0};
    generate_request request = {
        .prompt = &ids, .how = o->how, .continues = o->raw, .user = &ends_line};
    request.text = show_text;
    if (whole) {
        request.user = &kept;
        request.text = keep_text;
        request.token = o->how.n_top > 0 ? keep_token : NULL;
    }
    weft_status status = pictures_read(s, &v->images, &pictures, err);
    if (status == WEFT_OK) status = prompt_ids(s, o, pictures.n, prompt, &ids, err);
    request.images = pictures.images;
    request.n_images = pictures.n;
    if (status == WEFT_OK) status = generate(s, &request, &answer, err);
    if (whole && status == WEFT_OK) {
        status = print_json(s, model, &request, &answer, &kept, err);
    } else if (!whole && answer.ids.n > 0 && !ends_line) {
        putchar('\n');
    }
    fflush(stdout);
    if (status == WEFT_OK && !ferror(stdout)) generate_print_speed(s, &request, &answer);
    pictures_free(s, &pictures);
    id_list_deinit(&answer.ids);
    id_list_deinit(&ids);
    strbuf_deinit(&kept.text);
    strbuf_deinit(&kept.tokens);
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

/* What the answer must be; NULL: anything. */
static weft_status open_grammar(const session *s, const run_values *v, weft_grammar **grammar,
                                weft_error *err)
{
    *grammar = NULL;
    if (v->regex != NULL)
        return weft_grammar_open(s->model, WEFT_GRAMMAR_REGEX, v->regex, strlen(v->regex), grammar,
                                 err);
    const char *file = v->schema != NULL ? v->schema : v->rules;
    if (file == NULL) return WEFT_OK;
    weft_grammar_kind kind = v->schema != NULL ? WEFT_GRAMMAR_SCHEMA : WEFT_GRAMMAR_RULES;
    strbuf text;
    strbuf_init(&text, mem_system(), INPUT_LIMIT);
    weft_status status = input_read_file(file, &text, err);
    if (status == WEFT_OK)
        status = weft_grammar_open(s->model, kind, strbuf_text(&text), text.len, grammar, err);
    strbuf_deinit(&text);
    return status;
}

static int run(const void *values, const char *path)
{
    const run_values *v = values;
    if (v->raw && v->system != NULL) {
        report_note("--raw and --system exclude each other: only a template has a place for it");
        return EXIT_USAGE;
    }
    int n_forms = (v->schema != NULL) + (v->regex != NULL) + (v->rules != NULL);
    if (n_forms > 1) {
        report_note("--schema, --regex and --rules exclude each other");
        return EXIT_USAGE;
    }
    session s = {0};
    weft_error err = {WEFT_OK, ""};
    const char *draft = session_drafter(v->draft);
    weft_grammar *grammar = NULL;
    const sampling_values *how = &v->with.sampling;
    sampling_choice choice;
    chat_options o = {.system = v->system,
                      .how = {.max_new = v->max_new,
                              .min_new = how->min_new,
                              .n_top = how->n_top,
                              .draft = draft,
                              .stop_texts = how->stops.values,
                              .n_stop_texts = how->stops.n}};
    session_plan plan = {.max_sequences = 1,
                         .chunk_tokens = GENERATE_CHUNK,
                         .draft = v->draft,
                         .state_dir = v->state_dir,
                         .state_dir_bytes = v->state_dir_bytes,
                         .forced = n_forms > 0};
    int exit_status = EXIT_FAILED;
    bool usage = false;
    weft_status status = session_open_model(&s, &v->with.session, path, &err);
    if (status == WEFT_OK && s.info.drafts_for != 0)
        status = err_set(&err, WEFT_UNSUPPORTED,
                         "the model says nothing alone: it drafts for models of width %u, with "
                         "--draft",
                         s.info.drafts_for);
    if (status == WEFT_OK) status = choose_raw(&s, v, &o, &err);
    if (status == WEFT_OK) {
        usage = true;
        status = sampling_choose(how, &s.info, &choice, &err);
        o.how.sampling = choice.params;
    }
    if (status == WEFT_OK) status = open_grammar(&s, v, &grammar, &err);
    o.how.grammar = grammar;
    if (status == WEFT_OK) status = session_open_engine(&s, &v->with.session, &plan, &err);
    if (status == WEFT_OK) {
        usage = false;
        status = restore_state(&s, v->state, &err);
    }
    if (status == WEFT_OK) {
        exit_status = answer_or_chat(&s, v, &o, path);
        session_print_experts(&s, stderr);
        status = save_state(&s, v->state, &err);
        if (status != WEFT_OK) exit_status = report_failure(&err, false);
    } else {
        exit_status = report_failure(&err, usage);
    }
    weft_grammar_close(grammar);
    session_close(&s);
    return exit_status;
}

const command COMMAND_run = {
    .name = "run",
    .operand = "MODEL",
    .summary = "a chat in the terminal, or one answer to -p or to stdin",
    .details =
        "On a terminal without -p it is a chat; /help there says more. Else the answer to "
        "-p, or to\n"
        "what stdin holds (but for a last line feed), goes to stdout as it comes. The speed "
        "goes to\n"
        "stderr: tokens per second of prompt and answer, and the time to the first token.\n"
        "Of several ways to choose tokens, docs/sampling.md has the order and the formulas.\n"
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
    .more_options = SAMPLING_ROWS,
    .n_more_options = &N_SAMPLING_ROWS,
    .session_sets = SESSION_ENGINE | SESSION_CONTEXT | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
