/* tokenize.c - weft tokenize: text to ids, ids to text, and conversations by the model's
 * template. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands/command.h"
#include "cli/input.h"

typedef struct tokenize_values {
    session_values session;
    const char *text, *jsonl, *messages, *tools;
    bool decode, plain, specials, render, no_generation_prompt;
} tokenize_values;

#define AT(field) offsetof(tokenize_values, field)

static const option_row OPTIONS[] = {
    {"p", OPTION_TEXT, AT(text), "TEXT", "prints the ids of this text", 0, 0, NULL},
    {"jsonl", OPTION_TEXT, AT(jsonl), "FILE",
     "a JSON string a line in, an array of ids a line out; - is stdin", 0, 0, NULL},
    {"decode", OPTION_FLAG, AT(decode), NULL,
     "the other way: arrays of ids in, JSON strings out, special tokens included", 0, 0, NULL},
    {"plain", OPTION_FLAG, AT(plain), NULL, "added tokens in the text are not recognised", 0, 0,
     NULL},
    {"specials", OPTION_FLAG, AT(specials), NULL,
     "adds what the tokenizer puts around a text (bos, eos)", 0, 0, NULL},
    {"template", OPTION_TEXT, AT(messages), "FILE",
     "ids of the conversation in FILE, a JSON array of messages, by the model's template", 0, 0,
     NULL},
    {"tools", OPTION_TEXT, AT(tools), "FILE", "a JSON array of tools for the template", 0, 0, NULL},
    {"render", OPTION_FLAG, AT(render), NULL, "prints the rendered text instead of its ids", 0, 0,
     NULL},
    {"no-generation-prompt", OPTION_FLAG, AT(no_generation_prompt), NULL,
     "ends after the last message instead of opening an answer", 0, 0, NULL},
};

static const tokenize_values DEFAULTS = {.text = NULL};

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct tokenize {
    session s;
    const tokenize_values *v;
    id_list ids;
} tokenize;

static void print_ids(const id_list *ids)
{
    putchar('[');
    for (size_t i = 0; i < ids->n; i++) printf("%s%d", i > 0 ? "," : "", ids->ids[i]);
    puts("]");
}

static weft_status encode(tokenize *t, str text, weft_error *err)
{
    uint32_t flags = 0;
    if (t->v->plain) flags |= WEFT_TOKENIZE_PLAIN;
    if (t->v->specials) flags |= WEFT_TOKENIZE_SPECIALS;
    weft_status status = session_tokenize(&t->s, text, flags, &t->ids, err);
    if (status == WEFT_OK) print_ids(&t->ids);
    return status;
}

static weft_status read_ids(tokenize *t, const json *array, weft_error *err)
{
    t->ids.n = 0;
    if (json_kind_of(array) != JSON_KIND_ARRAY)
        return err_set(err, WEFT_FORMAT, "expected an array of ids, found %s",
                       json_kind_name(json_kind_of(array)));
    for (size_t i = 0; i < json_length(array); i++) {
        const json *value = json_at(array, i);
        int64_t id = json_int(value, -1);
        if (json_kind_of(value) != JSON_KIND_INT || id < 0 || id >= (int64_t)t->s.info.n_vocab)
            return err_set(err, WEFT_FORMAT, "element %zu is no id below %u", i, t->s.info.n_vocab);
        weft_status status = id_list_add(&t->ids, (int32_t)id, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status decode(tokenize *t, const json *array, weft_error *err)
{
    weft_status status = read_ids(t, array, err);
    if (status != WEFT_OK) return status;
    weft_detokenizer *d = NULL;
    strbuf text;
    strbuf out;
    strbuf_init(&text, mem_system(), 0);
    strbuf_init(&out, mem_system(), 0);
    const char *piece = NULL;
    size_t n_bytes = 0;
    status = weft_detokenizer_create(t->s.model, WEFT_DETOKENIZE_SPECIALS, &d, err);
    for (size_t i = 0; i < t->ids.n && status == WEFT_OK; i++) {
        status = weft_detokenizer_push(d, t->ids.ids[i], &piece, &n_bytes, err);
        if (status == WEFT_OK) strbuf_add(&text, piece, n_bytes);
    }
    if (status == WEFT_OK) status = weft_detokenizer_flush(d, &piece, &n_bytes, err);
    if (status == WEFT_OK) {
        strbuf_add(&text, piece, n_bytes);
        status = text.status;
        if (status == WEFT_OK) status = json_write_text((str){text.ptr, text.len}, &out);
        if (status != WEFT_OK) err_set(err, status, "out of memory for text");
    }
    if (status == WEFT_OK) printf("%s\n", strbuf_text(&out));
    weft_detokenizer_destroy(d);
    strbuf_deinit(&text);
    strbuf_deinit(&out);
    return status;
}

static weft_status take_json(tokenize *t, str line, weft_error *err)
{
    json_doc doc = {NULL};
    weft_status status = json_parse(&doc, line.ptr, line.len, err);
    if (status != WEFT_OK) return status;
    if (t->v->decode) {
        status = decode(t, doc.root, err);
    } else if (json_kind_of(doc.root) == JSON_KIND_TEXT) {
        status = encode(t, json_text(doc.root), err);
    } else {
        status = err_set(err, WEFT_FORMAT, "expected a string, found %s",
                         json_kind_name(json_kind_of(doc.root)));
    }
    json_doc_free(&doc);
    return status;
}

static weft_status take_lines(tokenize *t, FILE *stream, const char *name, weft_error *err)
{
    strbuf line;
    strbuf_init(&line, mem_system(), INPUT_LIMIT);
    weft_status status = WEFT_OK;
    for (size_t number = 1; status == WEFT_OK && !ferror(stdout); number++) {
        bool more = false;
        status = input_read_line(stream, name, &line, &more, err);
        if (status != WEFT_OK || !more) break;
        status = take_json(t, (str){strbuf_text(&line), line.len}, err);
        if (status != WEFT_OK) err_context(err, "%s, line %zu: ", name, number);
        /* Whoever feeds lines through a pipe waits for each answer. */
        if (strcmp(name, "stdin") == 0) fflush(stdout);
    }
    strbuf_deinit(&line);
    return status;
}

static weft_status take_jsonl(tokenize *t, weft_error *err)
{
    const char *path = t->v->jsonl;
    weft_status status = session_check_tokenizer(&t->s, err);
    if (status != WEFT_OK) return status;
    if (strcmp(path, "-") == 0) return take_lines(t, stdin, "stdin", err);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        char reason[96];
        if (strerror_r(errno, reason, sizeof reason) != 0) reason[0] = '\0';
        return err_set(err, WEFT_IO, "cannot open '%s': %s", path, reason);
    }
    status = take_lines(t, stream, path, err);
    fclose(stream);
    return status;
}

/* ---- conversations --------------------------------------------------------------------------- */

/* The first call says how much room is needed; a template that prints the time may want more the
 * next time. */
static weft_status render(const session *s, const char *messages, const char *tools, uint32_t flags,
                          weft_error *err)
{
    char *text = NULL;
    size_t capacity = 0;
    size_t n_bytes = 0;
    weft_status status = WEFT_LIMIT;
    weft_error failure = {WEFT_OK, ""};
    for (uint32_t attempt = 0; attempt < 4 && status == WEFT_LIMIT; attempt++) {
        failure = (weft_error){WEFT_OK, ""};
        status =
            weft_chat_render(s->model, messages, tools, flags, text, capacity, &n_bytes, &failure);
        if (status != WEFT_LIMIT || n_bytes < capacity) break;
        mem_free(mem_system(), text, capacity);
        capacity = n_bytes + 64;
        text = mem_alloc(mem_system(), capacity);
        if (text == NULL) {
            return err_set(err, WEFT_NOMEM, "out of memory for %zu bytes of text", capacity);
        }
    }
    if (status == WEFT_OK) {
        text_write(stdout, text, n_bytes);
    } else {
        err_set(err, status, "%s", failure.message);
    }
    mem_free(mem_system(), text, capacity);
    return status;
}

static weft_status take_conversation(tokenize *t, weft_error *err)
{
    const tokenize_values *v = t->v;
    strbuf messages;
    strbuf tools;
    strbuf_init(&messages, mem_system(), INPUT_LIMIT);
    strbuf_init(&tools, mem_system(), INPUT_LIMIT);
    uint32_t flags = v->no_generation_prompt ? WEFT_CHAT_NO_GENERATION_PROMPT : 0;
    weft_status status = input_read_file(v->messages, &messages, err);
    if (status == WEFT_OK && v->tools != NULL) status = input_read_file(v->tools, &tools, err);
    const char *tools_text = v->tools != NULL ? strbuf_text(&tools) : NULL;
    if (status == WEFT_OK && v->render) {
        status = render(&t->s, strbuf_text(&messages), tools_text, flags, err);
    } else if (status == WEFT_OK) {
        status = session_chat(&t->s, strbuf_text(&messages), tools_text, flags, &t->ids, err);
        if (status == WEFT_OK) print_ids(&t->ids);
    }
    strbuf_deinit(&messages);
    strbuf_deinit(&tools);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static weft_status check_usage(const tokenize_values *v, weft_error *err)
{
    int n = (v->text != NULL) + (v->jsonl != NULL) + (v->messages != NULL);
    if (n != 1)
        return err_set(err, WEFT_ARGUMENT, "%s of -p, --jsonl and --template is needed",
                       n == 0 ? "one" : "only one");
    bool conversation = v->tools != NULL || v->render || v->no_generation_prompt;
    if (v->messages == NULL && conversation)
        return err_set(err, WEFT_ARGUMENT,
                       "--tools, --render and --no-generation-prompt belong to --template");
    if (v->messages != NULL && (v->decode || v->plain || v->specials))
        return err_set(err, WEFT_ARGUMENT,
                       "--decode, --plain and --specials do not go with --template");
    if (v->decode && (v->plain || v->specials))
        return err_set(err, WEFT_ARGUMENT, "--plain and --specials do not go with --decode");
    return WEFT_OK;
}

static int run(const void *values, const char *path)
{
    tokenize t = {.v = values};
    weft_error err = {WEFT_OK, ""};
    if (check_usage(t.v, &err) != WEFT_OK) return report_failure(&err, true);
    weft_status status = session_open_model(&t.s, &t.v->session, path, &err);
    if (status != WEFT_OK) {
        session_close(&t.s);
        return report_failure(&err, false);
    }
    if (t.v->messages != NULL) {
        status = take_conversation(&t, &err);
    } else if (t.v->jsonl != NULL) {
        status = take_jsonl(&t, &err);
    } else if (t.v->decode) {
        status = take_json(&t, str_of(t.v->text), &err);
    } else {
        status = encode(&t, str_of(t.v->text), &err);
    }
    id_list_deinit(&t.ids);
    session_close(&t.s);
    /* What was printed comes before the sentence. */
    fflush(stdout);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, false);
}

const command COMMAND_tokenize = {
    .name = "tokenize",
    .operand = "MODEL",
    .summary = "text to token ids and back, and conversations by the model's template",
    .details =
        "Ids are printed as a JSON array. Added tokens in a text are recognised; no bos or eos is\n"
        "added unless --specials asks for it. With --decode, -p takes one array of ids.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
