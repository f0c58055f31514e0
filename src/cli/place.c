/* place.c - the environment of Hugging Face's tools, read here only. */
#include "cli/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"

static const char DEFAULT_ENDPOINT[] = "https://huggingface.co";

/* Unset and empty are the same. */
static const char *variable(const char *name)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread is started
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static bool is_true(const char *name)
{
    static const char *const WORDS[] = {"1", "on", "yes", "true"};
    const char *text = variable(name);
    for (size_t i = 0; text != NULL && i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (strcasecmp(text, WORDS[i]) == 0) return true;
    }
    return false;
}

/* A path; "~/" is the user's folder, as a value that no shell has seen may have it. */
static weft_status take_path(const char *text, const char *end, char *path, weft_error *err)
{
    const char *home = variable("HOME");
    if (strncmp(text, "~/", 2) == 0 && home != NULL)
        return disk_path(path, err, "%s/%s%s", home, text + 2, end);
    return disk_path(path, err, "%s%s", text, end);
}

/* HF_HOME or what stands for it, with end behind. */
static weft_status home_path(const char *end, char *path, weft_error *err)
{
    const char *home = variable("HF_HOME");
    if (home != NULL) return take_path(home, end, path, err);
    home = variable("XDG_CACHE_HOME");
    if (home != NULL) return disk_path(path, err, "%s/huggingface%s", home, end);
    home = variable("HOME");
    if (home != NULL) return disk_path(path, err, "%s/.cache/huggingface%s", home, end);
    return err_set(err, WEFT_ARGUMENT,
                   "neither HF_HUB_CACHE nor HF_HOME nor HOME says where models lie");
}

static weft_status take_root(place *p, weft_error *err)
{
    const char *root = variable("HF_HUB_CACHE");
    if (root == NULL) root = variable("HUGGINGFACE_HUB_CACHE");
    weft_status status =
        root != NULL ? take_path(root, "", p->root, err) : home_path("/hub", p->root, err);
    for (size_t n = strlen(p->root); n > 1 && p->root[n - 1] == '/'; n--) p->root[n - 1] = '\0';
    return status;
}

static weft_status copy_token(place *p, str text, weft_error *err)
{
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ') text.len--;
    while (text.len > 0 && (unsigned char)text.ptr[0] <= ' ')
        text = (str){text.ptr + 1, text.len - 1};
    if (text.len > HUB_TOKEN_BYTES_MOST)
        return err_set(err, WEFT_ARGUMENT, "the token has %zu bytes, at most %d are sent", text.len,
                       HUB_TOKEN_BYTES_MOST);
    if (text.len > 0) memcpy(p->token, text.ptr, text.len);
    p->token[text.len] = '\0';
    return WEFT_OK;
}

/* The variable, else the file that a login wrote. */
static weft_status take_token(place *p, weft_error *err)
{
    char path[IO_PATH_BYTES];
    char *data = NULL;
    size_t n = 0;
    const char *token = variable("HF_TOKEN");
    if (token == NULL) token = variable("HUGGING_FACE_HUB_TOKEN");
    if (token != NULL) return copy_token(p, str_of(token), err);
    const char *file = variable("HF_TOKEN_PATH");
    weft_status status =
        file != NULL ? take_path(file, "", path, err) : home_path("/token", path, NULL);
    if (status != WEFT_OK) return file != NULL ? status : WEFT_OK;
    if (io_read_file(io_system(), mem_system(), path, (size_t)1 << 16, &data, &n, NULL) != WEFT_OK)
        return WEFT_OK;
    status = copy_token(p, (str){data, n}, err);
    mem_free(mem_system(), data, n + 1);
    return status;
}

weft_status place_read(place *p, weft_error *err)
{
    *p = (place){.world = {.allocator = mem_system(), .io = io_system()},
                 .offline = is_true("HF_HUB_OFFLINE")};
    const char *endpoint = variable("HF_ENDPOINT");
    int n = snprintf(p->endpoint, sizeof p->endpoint, "%s",
                     endpoint != NULL ? endpoint : DEFAULT_ENDPOINT);
    if (n < 0 || (size_t)n >= sizeof p->endpoint)
        return err_set(err, WEFT_ARGUMENT, "HF_ENDPOINT has %d bytes, at most %zu are read", n,
                       sizeof p->endpoint - 1);
    while (n > 0 && p->endpoint[n - 1] == '/') p->endpoint[--n] = '\0';
    weft_status status = take_root(p, err);
    return status == WEFT_OK ? take_token(p, err) : status;
}

hub_cache place_cache(const place *p)
{
    return (hub_cache){.env = &p->world, .root = p->root};
}

/* A name that a hub could have and no file has. */
static weft_status find_cached(const char *given, const hub_id *id, char *path, weft_error *err)
{
    place p;
    strbuf choices;
    char commit[HUB_COMMIT_BYTES];
    weft_error why = {WEFT_OK, ""};
    weft_status status = place_read(&p, err);
    if (status != WEFT_OK) return status;
    hub_cache cache = place_cache(&p);
    strbuf_init(&choices, mem_system(), 1 << 20);
    status = hub_cache_find(&cache, id, path, &choices, &why);
    strbuf_deinit(&choices);
    if (status == WEFT_OK) return WEFT_OK;
    /* What is there and cannot be used is another thing than what is not there. */
    if (status == WEFT_ARGUMENT || status == WEFT_NOMEM || hub_cache_commit(&cache, id, commit))
        return err_set(err, status, "%s", why.message);
    return err_set(err, WEFT_IO,
                   "there is no '%.60s', neither here nor in the hub's cache; weft pull %.60s "
                   "would fetch a model of that name",
                   given, given);
}

weft_status place_find_model(const char *given, char *path, weft_error *err)
{
    hub_id id;
    weft_status status = disk_path(path, err, "%s", given);
    if (status != WEFT_OK || access(given, F_OK) == 0) return status;
    if (hub_id_parse(&id, str_of(given), NULL) != WEFT_OK) return WEFT_OK;
    /* A word alone is more likely a file that is not there. */
    if (id.org[0] == '\0' && strpbrk(given, "@:") == NULL) {
        place p;
        char commit[HUB_COMMIT_BYTES];
        if (place_read(&p, NULL) != WEFT_OK) return WEFT_OK;
        hub_cache cache = place_cache(&p);
        if (!hub_cache_commit(&cache, &id, commit)) return WEFT_OK;
    }
    return find_cached(given, &id, path, err);
}
