/* embed.c - weft embed: a vector for each text, a line each, in the order of the texts. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands/command.h"
#include "cli/input.h"

enum { BATCH_MOST = 256 };

typedef struct embed_values {
    session_values session;
    option_words texts;
    const char *file, *jsonl, *format, *pooling;
    bool normalize, no_normalize;
    uint32_t dims, batch;
} embed_values;

#define AT(field) offsetof(embed_values, field)

static const option_row OPTIONS[] = {
    {"file", OPTION_TEXT, AT(file), "FILE", "a text a line; - is stdin", 0, 0, NULL},
    {"jsonl", OPTION_TEXT, AT(jsonl), "FILE", "a text as a JSON string a line; - is stdin", 0, 0,
     NULL},
    {"pooling", OPTION_CHOICE, AT(pooling), "NAME",
     "of which hidden states a vector is made: the last token's, the mean of all, the first "
     "token's, "
     "or none: a vector for each token (default: as the model says)",
     0, 0, "last|mean|first|none"},
    {"normalize", OPTION_FLAG, AT(normalize), NULL,
     "brings vectors to length 1 (default: as the model says)", 0, 0, NULL},
    {"no-normalize", OPTION_FLAG, AT(no_normalize), NULL, "leaves them as they are", 0, 0, NULL},
    {"dims", OPTION_COUNT, AT(dims), "N",
     "the first N numbers of a vector, for models that were trained so (default: all)", 1, 1 << 20,
     NULL},
    {"batch", OPTION_COUNT, AT(batch), "N",
     "texts that are read ahead and go through the model together (default: 16)", 1, BATCH_MOST,
     NULL},
    {"format", OPTION_CHOICE, AT(format), "NAME",
     "json: an object a text; plain: numbers with blanks, a vector a line; raw: 32-bit floats "
     "without a word between (default: json)",
     0, 0, "json|plain|raw"},
};

static const embed_values DEFAULTS = {.session = {.act = "f32"}, .format = "json", .batch = 16};

/* A text under way. */
typedef struct embed_job {
    weft_handle handle;
    size_t number, n_tokens;
    float *vectors; /* [n_rows, dims] */
    size_t bytes;
    uint32_t n_rows;
    bool done;
} embed_job;

typedef struct embed {
    const embed_values *v;
    session s;
    id_list ids;
    FILE *stream; /* NULL: texts are words of the command line */
    const char *name;
    strbuf line;
    json_doc doc; /* of the line, with --jsonl */
    size_t n_read;
    uint32_t dims;
    embed_job jobs[BATCH_MOST]; /* a ring */
    uint32_t first, n_jobs;
} embed;

/* ---- texts ----------------------------------------------------------------------------------- */

static weft_status open_texts(embed *x, weft_error *err)
{
    const char *path = x->v->file != NULL ? x->v->file : x->v->jsonl;
    if (path == NULL) return WEFT_OK;
    bool is_stdin = strcmp(path, "-") == 0;
    x->name = is_stdin ? "stdin" : path;
    x->stream = is_stdin ? stdin : fopen(path, "rb");
    if (x->stream != NULL) return WEFT_OK;
    char reason[96];
    if (strerror_r(errno, reason, sizeof reason) != 0) reason[0] = '\0';
    return err_set(err, WEFT_IO, "cannot open '%s': %s", path, reason);
}

/* The next text, borrowed until the next call. */
static weft_status next_text(embed *x, str *text, bool *more, weft_error *err)
{
    if (x->stream == NULL) {
        *more = x->n_read < x->v->texts.n;
        if (*more) *text = str_of(x->v->texts.words[x->n_read++]);
        return WEFT_OK;
    }
    weft_status status = input_read_line(x->stream, x->name, &x->line, more, err);
    if (status != WEFT_OK || !*more) return status;
    x->n_read++;
    *text = (str){strbuf_text(&x->line), x->line.len};
    if (x->v->jsonl == NULL) return WEFT_OK;
    json_doc_free(&x->doc);
    status = json_parse(&x->doc, text->ptr, text->len, err);
    if (status == WEFT_OK && json_kind_of(x->doc.root) != JSON_KIND_TEXT) {
        status = err_set(err, WEFT_FORMAT, "expected a string, found %s",
                         json_kind_name(json_kind_of(x->doc.root)));
    }
    if (status == WEFT_OK) *text = json_text(x->doc.root);
    return status;
}

/* What a failure is about. */
static weft_status blame(const embed *x, size_t number, weft_status status, weft_error *err)
{
    if (status == WEFT_OK) return status;
    if (x->stream != NULL) {
        err_context(err, "%s, line %zu: ", x->name, number);
    } else {
        err_context(err, "text %zu: ", number);
    }
    return status;
}

/* ---- requests -------------------------------------------------------------------------------- */

static weft_pooling pooling_of(const char *name)
{
    static const char *const NAMES[] = {[WEFT_POOLING_LAST] = "last",
                                        [WEFT_POOLING_MEAN] = "mean",
                                        [WEFT_POOLING_FIRST] = "first",
                                        [WEFT_POOLING_TOKENS] = "none"};
    for (uint32_t i = WEFT_POOLING_LAST; name != NULL && i < COUNT_OF(NAMES); i++) {
        if (strcmp(NAMES[i], name) == 0) return (weft_pooling)i;
    }
    return WEFT_POOLING_DEFAULT;
}

static weft_normalize normalize_of(const embed_values *v)
{
    if (v->normalize) return WEFT_NORMALIZE_YES;
    return v->no_normalize ? WEFT_NORMALIZE_NO : WEFT_NORMALIZE_DEFAULT;
}

static weft_status submit(embed *x, str text, embed_job *job, weft_error *err)
{
    weft_status status = session_tokenize(&x->s, text, WEFT_TOKENIZE_SPECIALS, &x->ids, err);
    if (status != WEFT_OK) return status;
    weft_pooling pooling = pooling_of(x->v->pooling);
    if (pooling == WEFT_POOLING_DEFAULT) pooling = x->s.info.pooling;
    size_t n_rows = pooling == WEFT_POOLING_TOKENS ? x->ids.n : 1;
    *job = (embed_job){.number = x->n_read, .n_tokens = x->ids.n};
    if (!size_mul(n_rows * sizeof *job->vectors, x->dims, &job->bytes))
        return err_set(err, WEFT_LIMIT, "%zu vectors of %u are too many", n_rows, x->dims);
    job->vectors = mem_alloc(mem_system(), job->bytes);
    if (job->vectors == NULL && job->bytes > 0)
        return err_set(err, WEFT_NOMEM, "out of memory for %zu vectors", n_rows);
    weft_request r = {.struct_size = sizeof r,
                      .prompt = x->ids.ids,
                      .n_prompt = (uint32_t)x->ids.n,
                      .sampling = {.top_p = 1.0F},
                      .embedding = job->vectors,
                      .n_embedding = x->dims,
                      .pooling = pooling_of(x->v->pooling),
                      .normalize = normalize_of(x->v)};
    /* An empty list may have no memory; that it is empty is what must be said. */
    if (x->ids.n == 0) return err_set(err, WEFT_FORMAT, "the text has no tokens");
    return weft_submit(x->s.engine, &r, &job->handle, err);
}

static embed_job *job_at(embed *x, uint32_t i)
{
    return &x->jobs[(x->first + i) % BATCH_MOST];
}

static void drop_job(embed *x, embed_job *job)
{
    if (job->handle != 0) weft_release(x->s.engine, job->handle, NULL);
    mem_free(mem_system(), job->vectors, job->bytes);
    *job = (embed_job){0};
}

/* Until there are enough under way, or no more texts. */
static weft_status fill(embed *x, weft_error *err)
{
    while (x->n_jobs < x->v->batch) {
        str text;
        bool more = false;
        weft_status status = next_text(x, &text, &more, err);
        if (status == WEFT_OK && !more) return WEFT_OK;
        if (status == WEFT_OK) status = submit(x, text, job_at(x, x->n_jobs), err);
        if (status == WEFT_OK) x->n_jobs++;
        if (status != WEFT_OK) return blame(x, x->n_read, status, err);
    }
    return WEFT_OK;
}

static weft_status take_events(embed *x, embed_job *job, weft_error *err)
{
    weft_event event = {.struct_size = sizeof event};
    while (!job->done) {
        weft_status status = weft_poll(x->s.engine, job->handle, &event, err);
        if (status != WEFT_OK || event.kind == WEFT_EVENT_NONE) return status;
        if (event.kind == WEFT_EVENT_EMBEDDING) job->n_rows = event.n_rows;
        job->done = event.kind == WEFT_EVENT_DONE;
        if (job->done && event.finish == WEFT_FINISH_ERROR) {
            status = err_set(err, event.error.status, "%s", event.error.message);
            return blame(x, job->number, status, err);
        }
    }
    return WEFT_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_numbers(const float *numbers, uint32_t n, const char *between)
{
    for (uint32_t i = 0; i < n; i++) printf("%s%.9g", i > 0 ? between : "", (double)numbers[i]);
}

static void print_json(const embed *x, const embed_job *job)
{
    bool nested = job->n_rows != 1 || pooling_of(x->v->pooling) == WEFT_POOLING_TOKENS;
    printf("{\"index\":%zu,\"tokens\":%zu,\"embedding\":%s", job->number - 1, job->n_tokens,
           nested ? "[" : "");
    for (uint32_t i = 0; i < job->n_rows; i++) {
        fputs(i > 0 ? ",[" : "[", stdout);
        print_numbers(job->vectors + (size_t)i * x->dims, x->dims, ",");
        putchar(']');
    }
    puts(nested ? "]}" : "}");
}

static void print_job(const embed *x, const embed_job *job)
{
    if (strcmp(x->v->format, "json") == 0) {
        print_json(x, job);
    } else if (strcmp(x->v->format, "raw") == 0) {
        fwrite(job->vectors, sizeof *job->vectors, (size_t)job->n_rows * x->dims, stdout);
    } else {
        for (uint32_t i = 0; i < job->n_rows; i++) {
            print_numbers(job->vectors + (size_t)i * x->dims, x->dims, " ");
            putchar('\n');
        }
    }
    /* Whoever feeds lines through a pipe waits for each answer. */
    if (x->stream == stdin) fflush(stdout);
}

/* Those that are done and whose turn it is. */
static void print_done(embed *x)
{
    while (x->n_jobs > 0 && job_at(x, 0)->done) {
        embed_job *job = job_at(x, 0);
        print_job(x, job);
        drop_job(x, job);
        x->first = (x->first + 1) % BATCH_MOST;
        x->n_jobs--;
    }
}

/* A text that fails ends the run when those before it are printed. */
static weft_status run_texts(embed *x, weft_error *err)
{
    weft_status failed = WEFT_OK;
    for (;;) {
        weft_status status = failed == WEFT_OK ? fill(x, err) : failed;
        failed = status;
        if (x->n_jobs == 0 || ferror(stdout)) return failed;
        weft_error later = {WEFT_OK, ""};
        uint32_t n_active;
        status = weft_step(x->s.engine, &n_active, &later);
        for (uint32_t i = 0; i < x->n_jobs && status == WEFT_OK; i++)
            status = take_events(x, job_at(x, i), &later);
        print_done(x);
        if (status != WEFT_OK)
            return failed == WEFT_OK ? err_set(err, status, "%s", later.message) : failed;
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static weft_status check_usage(const embed_values *v, weft_error *err)
{
    int n = (v->texts.n > 0) + (v->file != NULL) + (v->jsonl != NULL);
    if (n != 1) {
        return err_set(err, WEFT_ARGUMENT, "%s of texts, --file and --jsonl is needed",
                       n == 0 ? "one" : "only one");
    }
    if (v->normalize && v->no_normalize)
        return err_set(err, WEFT_ARGUMENT, "--normalize and --no-normalize do not go together");
    return WEFT_OK;
}

static weft_status open_engine(embed *x, weft_error *err)
{
    const weft_model_info *info = &x->s.info;
    x->dims = x->v->dims > 0 ? x->v->dims : info->n_embd;
    if (x->dims > info->n_embd) {
        return err_set(err, WEFT_ARGUMENT, "--dims is %u, the model's vectors have %u", x->dims,
                       info->n_embd);
    }
    session_plan plan = {
        .max_sequences = x->v->batch, .max_outputs = x->v->batch, .no_cache = true};
    return session_open_engine(&x->s, &x->v->session, &plan, err);
}

static int run(const void *values, const char *path)
{
    static const embed NOTHING;
    embed *x = mem_alloc(mem_system(), sizeof *x);
    weft_error err = {WEFT_OK, ""};
    if (x == NULL) {
        err_set(&err, WEFT_NOMEM, "out of memory");
        return report_failure(&err, false);
    }
    *x = NOTHING;
    x->v = values;
    strbuf_init(&x->line, mem_system(), INPUT_LIMIT);
    weft_status status = check_usage(x->v, &err);
    bool usage = status != WEFT_OK;
    if (status == WEFT_OK) status = session_open_model(&x->s, &x->v->session, path, &err);
    if (status == WEFT_OK) status = session_check_tokenizer(&x->s, &err);
    if (status == WEFT_OK) status = open_texts(x, &err);
    if (status == WEFT_OK) {
        status = open_engine(x, &err);
        usage = status != WEFT_OK;
    }
    if (status == WEFT_OK) status = run_texts(x, &err);
    for (uint32_t i = 0; i < x->n_jobs; i++) drop_job(x, job_at(x, i));
    if (x->stream != NULL && x->stream != stdin) fclose(x->stream);
    json_doc_free(&x->doc);
    strbuf_deinit(&x->line);
    id_list_deinit(&x->ids);
    session_close(&x->s);
    mem_free(mem_system(), x, sizeof *x);
    /* What was printed comes before the sentence. */
    fflush(stdout);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, usage);
}

const command COMMAND_embed = {
    .name = "embed",
    .operand = "MODEL",
    .rest = "[TEXT...]",
    .rest_at = AT(texts),
    .summary = "a vector for each text",
    .details =
        "Texts are words after MODEL, or lines of a file. A text stands between what the\n"
        "tokenizer puts around it; added tokens in it are recognised. json is one line a text:\n"
        "{\"index\", \"tokens\", \"embedding\"}. Without --pooling and --normalize a vector is "
        "made\n"
        "as sentence-transformers' files beside the model, or its GGUF file, say; where they do\n"
        "not, of an encoder's mean or a decoder's last token, of length 1. An encoder's text must\n"
        "fit its context. A prompt that the model wants before a text is yours to write.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_CONTEXT | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
