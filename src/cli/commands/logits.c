/* logits.c - weft logits: every logit of a prompt and of its greedy continuation, for
 * comparisons. */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "cli/commands/command.h"
#include "cli/tensors_file.h"

typedef struct logits_values {
    session_values session;
    const char *ids, *prompt, *out;
    uint32_t chunk, n_new;
} logits_values;

#define AT(field) offsetof(logits_values, field)

static const option_row OPTIONS[] = {
    {"ids", OPTION_TEXT, AT(ids), "IDS", "the prompt as token ids with commas: 1,2,3", 0, 0, NULL},
    {"p", OPTION_TEXT, AT(prompt), "TEXT", "the prompt as text, with the tokenizer's bos and eos",
     0, 0, NULL},
    {"chunk", OPTION_COUNT, AT(chunk), "N", "tokens of the prompt a step (default: 128)", 1, 16384,
     NULL},
    {"gen", OPTION_COUNT, AT(n_new), "N", "tokens to add, the likeliest each time (default: none)",
     0, 1 << 24, NULL},
    {"out", OPTION_TEXT, AT(out), "FILE", "the .safetensors file to write", 0, 0, NULL},
};

static const logits_values DEFAULTS = {.session = SESSION_DEFAULTS, .chunk = 128};

typedef struct logits {
    const logits_values *v;
    session s;
    id_list prompt, ids; /* ids: the new ones */
    float *prompt_logits, *new_logits;
    size_t prompt_bytes, new_bytes;
} logits;

static weft_status parse_ids(const char *text, id_list *list, weft_error *err)
{
    for (;;) {
        size_t n = strcspn(text, ",");
        uint64_t id;
        if (!number_parse((str){text, n}, INT32_MAX, &id))
            return err_set(err, WEFT_ARGUMENT, "--ids: '%.*s' is no token id",
                           (int)(n < 64 ? n : 64), text);
        weft_status status = id_list_add(list, (int32_t)id, err);
        if (status != WEFT_OK || text[n] == '\0') return status;
        text += n + 1;
    }
}

static weft_status alloc_logits(logits *x, weft_error *err)
{
    size_t row = (size_t)x->s.info.n_vocab * sizeof(float);
    bool counted =
        size_mul(x->prompt.n, row, &x->prompt_bytes) && size_mul(x->v->n_new, row, &x->new_bytes);
    if (counted) {
        x->prompt_logits = mem_alloc(mem_system(), x->prompt_bytes);
        x->new_logits = mem_alloc(mem_system(), x->new_bytes);
    }
    if (x->prompt_logits != NULL && (x->new_logits != NULL || x->v->n_new == 0)) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for the logits of %zu tokens, %zu bytes each",
                   x->prompt.n + x->v->n_new, row);
}

/* Without --context, room for exactly what is asked: the library's default may be less. */
static weft_status open_engine(logits *x, weft_error *err)
{
    uint64_t need = (uint64_t)x->prompt.n + x->v->n_new;
    if (x->prompt.n == 0) return err_set(err, WEFT_FORMAT, "the prompt has no tokens");
    if (need > x->s.info.context)
        return err_set(err, WEFT_LIMIT,
                       "the prompt has %zu tokens and %u are to follow, the model's context holds "
                       "%u",
                       x->prompt.n, x->v->n_new, x->s.info.context);
    session_plan plan = {.context = (uint32_t)need,
                         .max_sequences = 1,
                         .chunk_tokens = x->v->chunk,
                         .max_outputs = x->v->chunk,
                         .no_cache = true};
    return session_open_engine(&x->s, &x->v->session, &plan, err);
}

static weft_status take_events(logits *x, weft_handle handle, bool *done, weft_error *err)
{
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        weft_status status = weft_poll(x->s.engine, handle, &event, err);
        if (status != WEFT_OK || event.kind == WEFT_EVENT_NONE) return status;
        if (event.kind == WEFT_EVENT_TOKEN) status = id_list_add(&x->ids, event.token, err);
        if (status != WEFT_OK) return status;
        if (event.kind != WEFT_EVENT_DONE) continue;
        *done = true;
        if (event.finish == WEFT_FINISH_ERROR)
            return err_set(err, event.error.status, "%s", event.error.message);
        return WEFT_OK;
    }
}

static weft_status compute(logits *x, weft_error *err)
{
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .prompt = x->prompt.ids,
                      .n_prompt = (uint32_t)x->prompt.n,
                      .max_new = x->v->n_new,
                      .sampling = {.top_p = 1.0F},
                      .prompt_logits = x->prompt_logits,
                      .new_logits = x->new_logits};
    weft_handle handle;
    weft_status status = weft_submit(x->s.engine, &r, &handle, err);
    if (status != WEFT_OK) return status;
    progress p = {.shown = false};
    bool done = false;
    for (size_t step = 0; status == WEFT_OK && !done; step++) {
        size_t read = step * x->v->chunk;
        if (read < x->prompt.n) {
            progress_show(&p, "reading the prompt: %zu of %zu tokens", read, x->prompt.n);
        } else {
            progress_show(&p, "adding tokens: %zu of %u", x->ids.n, x->v->n_new);
        }
        uint32_t n_active;
        status = weft_step(x->s.engine, &n_active, err);
        if (status == WEFT_OK) status = take_events(x, handle, &done, err);
    }
    progress_clear(&p);
    return status;
}

static weft_status write_file(const logits *x, weft_error *err)
{
    uint64_t n_vocab = x->s.info.n_vocab;
    const tensors_file_row rows[] = {
        {"input_ids", "I32", 1, {x->prompt.n, 0}, x->prompt.ids},
        {"logits", "F32", 2, {x->prompt.n, n_vocab}, x->prompt_logits},
        {"gen_ids", "I32", 1, {x->ids.n, 0}, x->ids.ids},
        {"gen_logits", "F32", 2, {x->ids.n, n_vocab}, x->new_logits},
    };
    return tensors_file_write(x->v->out, rows, x->v->n_new > 0 ? 4 : 2, err);
}

static weft_status check_usage(const logits_values *v, id_list *ids, weft_error *err)
{
    if ((v->ids != NULL) == (v->prompt != NULL))
        return err_set(err, WEFT_ARGUMENT, "%s of --ids and -p is needed",
                       v->ids == NULL ? "one" : "only one");
    if (v->out == NULL) return err_set(err, WEFT_ARGUMENT, "--out is missing");
    return v->ids != NULL ? parse_ids(v->ids, ids, err) : WEFT_OK;
}

static int run(const void *values, const char *path)
{
    logits x = {.v = values};
    weft_error err = {WEFT_OK, ""};
    weft_status status = check_usage(x.v, &x.prompt, &err);
    if (status == WEFT_OK) status = tensors_file_check(x.v->out, path, &err);
    bool usage = status != WEFT_OK;
    if (status == WEFT_OK) status = session_open_model(&x.s, &x.v->session, path, &err);
    if (status == WEFT_OK && x.v->prompt != NULL)
        status =
            session_tokenize(&x.s, str_of(x.v->prompt), WEFT_TOKENIZE_SPECIALS, &x.prompt, &err);
    if (status == WEFT_OK) {
        status = open_engine(&x, &err);
        usage = status != WEFT_OK;
    }
    if (status == WEFT_OK) status = alloc_logits(&x, &err);
    if (status == WEFT_OK) status = compute(&x, &err);
    if (status == WEFT_OK) status = write_file(&x, &err);
    session_close(&x.s);
    mem_free(mem_system(), x.prompt_logits, x.prompt_bytes);
    mem_free(mem_system(), x.new_logits, x.new_bytes);
    id_list_deinit(&x.prompt);
    id_list_deinit(&x.ids);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, usage);
}

const command COMMAND_logits = {
    .name = "logits",
    .operand = "MODEL",
    .summary = "every logit of a prompt and of its greedy continuation, as a file",
    .details =
        "FILE holds input_ids [T] i32 and logits [T, vocabulary] f32: row i is what follows token\n"
        "i. With --gen N also gen_ids [N] i32 and gen_logits [N, vocabulary] f32: row i is what\n"
        "token i was taken from; stop tokens do not end it.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_CONTEXT | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
