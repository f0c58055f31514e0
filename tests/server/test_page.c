/* test_page.c - the chat page as the program carries it. */
#include "server/page.h"

#include <string.h>

#include "support/test.h"

enum { MOST_BYTES = 100000 };

static const page_file *find_file(const char *path)
{
    for (uint32_t i = 0; i < n_page_files; i++) {
        if (strcmp(page_files[i].path, path) == 0) return &page_files[i];
    }
    return NULL;
}

static void test_paths(void **state)
{
    (void)state;
    assert_true(n_page_files > 0);
    assert_string_equal(page_files[0].path, "/");
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < n_page_files; i++) {
        const page_file *file = &page_files[i];
        n_bytes += file->n_bytes;
        assert_true(file->n_bytes > 0);
        assert_true(i == 0 || strncmp(file->path, "/page/", 6) == 0);
        assert_ptr_equal(find_file(file->path), file);
        assert_true(strncmp(file->type, "text/", 5) == 0 || strncmp(file->type, "image/", 6) == 0);
    }
    assert_true(n_bytes < MOST_BYTES);
}

/* What the page asks for is there: src="page/..." and href="page/..." of the index. */
static void test_links(void **state)
{
    (void)state;
    char text[16384];
    assert_true(page_files[0].n_bytes < sizeof text);
    memcpy(text, page_files[0].bytes, page_files[0].n_bytes);
    text[page_files[0].n_bytes] = '\0';
    assert_memory_equal(text, "<!DOCTYPE html>", 15);
    size_t n_links = 0;
    for (char *at = strstr(text, "=\"page/"); at; at = strstr(at, "=\"page/")) {
        char *end = strchr(at + 2, '"');
        assert_non_null(end);
        *end = '\0';
        at[1] = '/';
        assert_non_null(find_file(at + 1));
        at = end + 1;
        n_links++;
    }
    assert_true(n_links >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_links),
    };
    return TEST_RUN("server/page", tests);
}
