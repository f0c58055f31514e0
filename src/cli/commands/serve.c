/* serve.c - weft serve: the HTTP server. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "cli/cache.h"
#include "cli/commands/command.h"
#include "cli/place.h"
#include "cli/toy.h"
#include "server/server.h"

enum { MODELS_MOST = 64, NAME_BYTES = 256 };

typedef struct serve_values {
    session_values session;
    option_words models;
    const char *host, *draft, *state_folder, *state_dir;
    uint64_t state_dir_bytes;
    uint32_t port;
    option_texts keys, admin_keys, hosts, origins;
    uint32_t sequences, chunk, max_new, max_requests, max_connections, load_wait_s, drain_s;
    uint64_t models_memory, body_bytes;
    bool no_page, quiet;
} serve_values;

#define AT(field) offsetof(serve_values, field)

static const option_row OPTIONS[] = {
    {"host", OPTION_TEXT, AT(host), "HOST", "address to listen at (default: 127.0.0.1)", 0, 0,
     NULL},
    {"port", OPTION_COUNT, AT(port), "N", "port; 0 is one that is free (default: 8080)", 0, 65535,
     NULL},
    {"api-key", OPTION_TEXTS, AT(keys), "KEY",
     "requests must come with this key, or one of several (default: WEFT_API_KEY, else none is "
     "needed)",
     0, 0, NULL},
    {"admin-key", OPTION_TEXTS, AT(admin_keys), "KEY",
     "/metrics, /stats and /kv need this key (default: WEFT_ADMIN_KEY, else any that is good for "
     "requests)",
     0, 0, NULL},
    {"allow-host", OPTION_TEXTS, AT(hosts), "NAME",
     "another name of this server, as clients ask for it; * is any (default: addresses and "
     "localhost, and any name when it listens beyond this machine)",
     0, 0, NULL},
    {"allow-origin", OPTION_TEXTS, AT(origins), "ORIGIN",
     "pages from there may ask, such as https://example.org; * is any (default: the server's own)",
     0, 0, NULL},
    {"sequences", OPTION_COUNT, AT(sequences), "N", "answers that are made together (default: 16)",
     1, 4096, NULL},
    {"chunk", OPTION_COUNT, AT(chunk), "N",
     "most prompt tokens of one step, over all requests (default: 512)", 1, 65536, NULL},
    {"n", OPTION_COUNT, AT(max_new), "N",
     "most tokens of an answer when the request does not say (default: until the context is full)",
     1, 1 << 30, NULL},
    {"draft", OPTION_TEXT, AT(draft), "NAME",
     "what guesses tokens in advance, as for weft run: ngram, mtp, a smaller model, none (default: "
     "none)",
     0, 0, NULL},
    {"models-memory", OPTION_BYTES, AT(models_memory), "BYTES",
     "for all models that are loaded, with their keys and values; those that were used longest ago "
     "are dropped (default: no bound)",
     0, 0, NULL},
    {"load-wait", OPTION_COUNT, AT(load_wait_s), "S",
     "seconds that a request waits for its model to be loaded before it is told to come again "
     "(default: 60)",
     0, 86400, NULL},
    {"drain", OPTION_COUNT, AT(drain_s), "S",
     "seconds that answers under way may take to end after SIGTERM (default: 30)", 0, 86400, NULL},
    {"max-requests", OPTION_COUNT, AT(max_requests), "N",
     "requests under way; more are told to come again (default: 1024)", 1, 1 << 20, NULL},
    {"max-connections", OPTION_COUNT, AT(max_connections), "N", "open connections (default: 4096)",
     1, 1 << 20, NULL},
    {"max-body", OPTION_BYTES, AT(body_bytes), "BYTES", "most of a request's body (default: 32M)",
     1024, 0, NULL},
    {"state-folder", OPTION_TEXT, AT(state_folder), "DIR",
     "where /kv/save and /kv/restore have their files (default: they are refused)", 0, 0, NULL},
    {"state-dir", OPTION_TEXT, AT(state_dir), "DIR",
     "keeps what it knows of conversations in this folder, and begins with what is found there, "
     "after "
     "a restart, too; it can be read from it what was said",
     0, 0, NULL},
    {"state-dir-size", OPTION_BYTES, AT(state_dir_bytes), "BYTES",
     "most that is kept there, of all models; what was not used for longest goes (default: 4G)", 0,
     0, NULL},
    {"no-page", OPTION_FLAG, AT(no_page), NULL, "no page to chat at /", 0, 0, NULL},
    {"quiet", OPTION_FLAG, AT(quiet), NULL, "no line for each request on stderr", 0, 0, NULL},
};

static const serve_values DEFAULTS = {.session = SESSION_DEFAULTS,
                                      .host = "127.0.0.1",
                                      .port = 8080,
                                      .draft = "none",
                                      .max_requests = 1024,
                                      .max_connections = 4096,
                                      .load_wait_s = 60,
                                      .drain_s = 30,
                                      .body_bytes = 32U << 20};

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct model_list {
    server_model models[MODELS_MOST];
    char names[MODELS_MOST][NAME_BYTES];
    char paths[MODELS_MOST][IO_PATH_BYTES];
    uint32_t n, n_missing;
} model_list;

/* The last part of a path. */
static str last_part(str path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/') path.len--;
    for (size_t i = path.len; i-- > 0;) {
        if (path.ptr[i] != '/') continue;
        path = (str){path.ptr + i + 1, path.len - i - 1};
        break;
    }
    if (str_ends(path, ".gguf")) path.len -= 5;
    return path;
}

/* Where the model is. One that is nowhere is said, for who mistyped would not see it before it is
 * asked for; the others are served all the same. false: the word is no model. */
static bool find_model(model_list *list, const char *given, char *path, weft_error *err)
{
    weft_error missing = {WEFT_OK, ""};
    weft_status status = place_find_model(given, path, &missing);
    if (status == WEFT_OK && path[0] != '\0' && !io_system()->exists(io_system(), path))
        status = err_set(&missing, WEFT_IO, "there is no '%s'", path);
    if (status == WEFT_OK) return true;
    if (status != WEFT_IO || strlen(given) >= IO_PATH_BYTES) {
        err_set(err, status, "%s", missing.message);
        return false;
    }
    memcpy(path, given, strlen(given) + 1);
    list->n_missing++;
    report_note("%s", missing.message);
    return true;
}

/* "NAME=MODEL", or a model: the last part of a path is its name, and one of a hub keeps its own. */
static weft_status add_model(model_list *list, const char *word, weft_error *err)
{
    if (list->n == MODELS_MOST)
        return err_set(err, WEFT_ARGUMENT, "more than %d models", MODELS_MOST);
    const char *equals = strchr(word, '=');
    const char *slash = strchr(word, '/');
    bool named = equals != NULL && (slash == NULL || equals < slash);
    const char *given = named ? equals + 1 : word;
    char *path = list->paths[list->n];
    if (!find_model(list, given, path, err)) return err->status;
    str name = {word, named ? (size_t)(equals - word) : strlen(word)};
    if (!named && strcmp(given, path) == 0) name = last_part(name);
    if (name.len == 0 || name.len >= NAME_BYTES || path[0] == '\0')
        return err_set(err, WEFT_ARGUMENT, "'%s' is no model; expected MODEL or NAME=MODEL", word);
    char *copy = list->names[list->n];
    memcpy(copy, name.ptr, name.len);
    copy[name.len] = '\0';
    list->models[list->n++] = (server_model){.name = copy, .path = path};
    return WEFT_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void on_signal(int number);

/* What a signal stops; a handler can be told nothing else. */
static server *volatile stopped;

static void on_signal(int number)
{
    (void)number;
    server *s = stopped;
    if (s != NULL) server_stop(s);
}

static void catch_signals(server *s)
{
    struct sigaction action = {.sa_handler = on_signal};
    stopped = s;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* A connection is a file; the usual soft limit of 1024 is for programs that use select(). */
static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void log_line(void *user, const char *line)
{
    (void)user;
    report_note("%s", line);
}

/* From the environment, when no option says. */
static void take_key(option_texts *keys, const char *name)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread is started
    const char *value = getenv(name);
    if (keys->n == 0 && value != NULL && value[0] != '\0') keys->values[keys->n++] = value;
}

static void log_model(void *user, weft_log_level level, const char *message)
{
    (void)user;
    if (level == WEFT_LOG_WARN) report_note("%s", message);
}

static server_options options_of(const serve_values *v, const model_list *list)
{
    bool drafts = strcmp(v->draft, "none") != 0;
    server_options o = {
        .host = v->host,
        .port = (uint16_t)v->port,
        .hosts = v->hosts.values,
        .n_hosts = v->hosts.n,
        .origins = v->origins.values,
        .n_origins = v->origins.n,
        .models = list->models,
        .n_models = list->n,
        .model = {.struct_size = sizeof o.model},
        .engine = session_engine_options(&v->session),
        .draft = drafts ? v->draft : NULL,
        .memory_bytes = v->models_memory,
        .state_folder = v->state_folder,
        .max_connections = v->max_connections,
        .max_requests = v->max_requests,
        .body_bytes = v->body_bytes,
        .load_wait_ms = v->load_wait_s * 1000,
        .drain_ms = v->drain_s * 1000,
        .max_new = v->max_new,
        .page = !v->no_page,
        .quiet = v->quiet,
        .log = log_line,
    };
    o.engine.state_dir = v->state_dir;
    o.engine.state_dir_bytes = v->state_dir_bytes;
    o.engine.max_sequences = v->sequences;
    o.engine.chunk_tokens = v->chunk;
    return o;
}

static int serve(const serve_values *v, const model_list *list)
{
    static const weft_log LOG = {NULL, log_model};
    option_texts keys = v->keys;
    option_texts admin_keys = v->admin_keys;
    char folder[CACHE_FOLDER_BYTES];
    take_key(&keys, "WEFT_API_KEY");
    take_key(&admin_keys, "WEFT_ADMIN_KEY");
    server_options o = options_of(v, list);
    o.keys = keys.values;
    o.n_keys = keys.n;
    o.admin_keys = admin_keys.values;
    o.n_admin_keys = admin_keys.n;
    o.model.log = &LOG;
    if (v->state_dir != NULL) cache_make(v->state_dir);
    if (!v->session.no_cache && cache_folder(list->models[0].path, folder))
        o.model.cache_dir = folder;
    server *s;
    weft_error err = {WEFT_OK, ""};
    raise_files();
    mem_return_large();
    weft_status status = server_create(&o, &s, &err);
    if (status != WEFT_OK) return report_failure(&err, status == WEFT_ARGUMENT);
    catch_signals(s);
    report_note("serving %s%s at http://%s%s%s:%u", list->models[0].name,
                list->n > 1 ? " and others" : "", strchr(v->host, ':') != NULL ? "[" : "", v->host,
                strchr(v->host, ':') != NULL ? "]" : "", server_port(s));
    bool stuck;
    status = server_run(s, &stuck, &err);
    stopped = NULL;
    if (stuck) {
        report_note("ended while a thread was at work");
        fflush(NULL);
        _exit(EXIT_FINE);
    }
    server_destroy(s);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, false);
}

static int run(const void *values, const char *operand)
{
    const serve_values *v = values;
    weft_error err = {WEFT_OK, ""};
    model_list *list = mem_alloc_zero(mem_system(), sizeof *list);
    weft_status status = WEFT_OK;
    if (list == NULL) status = err_set(&err, WEFT_NOMEM, "out of memory for the models");
    char toy[TOY_PATH_BYTES];
    if (status == WEFT_OK && operand == NULL) {
        if (!toy_find(toy)) {
            report_note("which model? See weft serve --help");
            mem_free(mem_system(), list, sizeof *list);
            return EXIT_USAGE;
        }
        report_note(
            "no MODEL was named: this is the toy that comes along; it tells children's stories");
        operand = toy;
    }
    if (status == WEFT_OK) status = add_model(list, operand, &err);
    for (uint32_t i = 0; i < v->models.n && status == WEFT_OK; i++)
        status = add_model(list, v->models.words[i], &err);
    /* It was said of each. */
    if (status == WEFT_OK && list->n_missing == list->n) {
        mem_free(mem_system(), list, sizeof *list);
        return EXIT_FAILED;
    }
    int exit_status =
        status == WEFT_OK ? serve(v, list) : report_failure(&err, status == WEFT_ARGUMENT);
    mem_free(mem_system(), list, sizeof *list);
    return exit_status;
}

const command COMMAND_serve = {
    .name = "serve",
    .operand = "[MODEL...]",
    .rest = "",
    .rest_at = AT(models),
    .summary = "models behind HTTP: OpenAI's and Anthropic's interfaces, and a page to chat",
    .details =
        "docs/server.md has the endpoints. A MODEL is one as elsewhere, or NAME=MODEL; requests "
        "name it by\n"
        "that name, the last part of its path, or its name on the hub. The first is loaded at the "
        "start, others when\n"
        "they are asked for. Without any it is the toy that comes along. SIGTERM lets answers end, "
        "a second one does not.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_ENGINE | SESSION_CONTEXT | SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
