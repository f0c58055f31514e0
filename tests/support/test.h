/* test.h - what every test program includes first: cmocka with what it needs, and a few checks of
 * ours.
 *
 * A program is tests/FOLDER/test_NAME.c. It defines static void test_THING(void **state) functions
 * and ends:
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(test_thing)};
 *         return TEST_RUN("folder/name", tests);
 *     }
 * A program that ran nothing has failed. */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "weft.h"

#define TEST_RUN(name, tests)                                                                      \
    (sizeof(tests) == 0 ? 1 : cmocka_run_group_tests_name((name), (tests), NULL, NULL))

/* A checkpoint of tests/golden, whole in the build folder, and a model of models/tiny. */
#define GOLDEN_PATH(name) WEFT_GOLDEN_DIR "/" name
#define TINY_PATH(name) WEFT_SOURCE_DIR "/models/tiny/" name

/* Whether a sanitizer makes this program many times slower: long tests then do a part of their
 * work. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SLOWED 1
#else
#define TEST_SLOWED 0
#endif

/* err may be NULL; its message is shown when the status is another one, and must agree with the
 * status and obey the style of messages when it is the expected one. */
#define assert_status(expected, actual, err)                                                       \
    test_status((expected), (actual), (err), __FILE__, __LINE__)
#define assert_ok(actual, err) assert_status(WEFT_OK, (actual), (err))

void test_status(weft_status expected, weft_status actual, const weft_error *err, const char *file,
                 int line);

/* err holds a failure whose message contains part. */
#define assert_message(err, part) test_message((err), (part), __FILE__, __LINE__)

void test_message(const weft_error *err, const char *part, const char *file, int line);

/* Whether call(user) stops the process as ASSERT does; run in a child process. */
bool test_traps(void (*call)(void *user), void *user);

/* A new folder for one test, removed with the files in it. */
typedef struct test_folder {
    char path[256];
} test_folder;

void test_folder_create(test_folder *folder);
void test_folder_remove(test_folder *folder);

/* "FOLDER/name"; in one of four buffers used in turn. */
const char *test_folder_path(test_folder *folder, const char *name);

/* Writes a file in the folder and returns its path, as above. */
const char *test_folder_write(test_folder *folder, const char *name, const void *data,
                              size_t n_bytes);

#endif
