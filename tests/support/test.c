/* test.c - the checks and the temporary folder of test.h. */
#include "support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *status_name(weft_status status)
{
    switch (status) {
#define STATUS_CASE(name, value, help)                                                             \
    case WEFT_##name:                                                                              \
        return #name;
        WEFT_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "UNKNOWN";
}

void test_status(weft_status expected, weft_status actual, const weft_error *err, const char *file,
                 int line)
{
    const char *message = err == NULL ? "" : err->message;
    if (actual != expected) {
        print_error("status is %s, expected %s; message: '%s'\n", status_name(actual),
                    status_name(expected), message);
        _fail(file, line);
    }
    if (err == NULL) return;
    if (err->status != actual) {
        print_error("status is %s, but the error holds %s\n", status_name(actual),
                    status_name(err->status));
        _fail(file, line);
    }
    if (actual == WEFT_OK) return;
    size_t n = strnlen(message, sizeof err->message);
    if (n == 0 || n == sizeof err->message || message[n - 1] == '.' || message[n - 1] == '\n') {
        print_error("message is not one sentence without a full stop: '%.*s'\n", (int)n, message);
        _fail(file, line);
    }
}

void test_message(const weft_error *err, const char *part, const char *file, int line)
{
    if (err->status != WEFT_OK && strstr(err->message, part) != NULL) return;
    print_error("message '%s' does not contain '%s'\n", err->message, part);
    _fail(file, line);
}

bool test_traps(void (*call)(void *user), void *user)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) fail_msg("cannot fork");
    if (child == 0) {
        /* Neither cmocka's handlers nor a core file. */
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        call(user);
        _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) fail_msg("cannot wait");
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP);
}

void test_folder_create(test_folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/weft-test.XXXXXX");
    if (mkdtemp(folder->path) == NULL) fail_msg("cannot create %s", folder->path);
}

static void remove_level(const char *path, int depth)
{
    DIR *dir = opendir(path);
    if (dir == NULL) return;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char child[1024];
        int n = snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (n < 0 || (size_t)n >= sizeof child) continue;
        if (unlink(child) != 0 && depth > 0) remove_level(child, depth - 1);
    }
    closedir(dir);
    rmdir(path);
}

void test_folder_remove(test_folder *folder)
{
    if (folder->path[0] != '\0') remove_level(folder->path, 4);
    folder->path[0] = '\0';
}

const char *test_folder_path(test_folder *folder, const char *name)
{
    static char paths[4][1024];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    int n = snprintf(path, sizeof paths[0], "%s/%s", folder->path, name);
    if (n < 0 || (size_t)n >= sizeof paths[0]) fail_msg("path of %s is too long", name);
    return path;
}

const char *test_folder_write(test_folder *folder, const char *name, const void *data,
                              size_t n_bytes)
{
    const char *path = test_folder_path(folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) fail_msg("cannot create %s", path);
    size_t n = n_bytes == 0 ? 0 : fwrite(data, 1, n_bytes, file);
    if (fclose(file) != 0 || n != n_bytes) fail_msg("cannot write %s", path);
    return path;
}
