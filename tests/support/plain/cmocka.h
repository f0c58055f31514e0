/* cmocka.h - the few words of cmocka that a test of kernels uses, for machines that do not have it:
 * the first failure ends the program. Put this folder on the include path to use it. */
#ifndef SUPPORT_PLAIN_CMOCKA_H
#define SUPPORT_PLAIN_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f                                                                                      \
    }
#define print_message(...) ((void)printf(__VA_ARGS__))
#define print_error(...) ((void)fprintf(stderr, __VA_ARGS__))
#define fail_msg(...)                                                                              \
    (print_error("%s:%d: ", __FILE__, __LINE__), print_error(__VA_ARGS__), print_error("\n"),      \
     exit(1))
#define assert_true(c) ((c) ? (void)0 : fail_msg("not true: %s", #c))
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_int_equal(a, b) assert_true((a) == (b))

static inline int plain_run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *state = NULL;
        printf("[ RUN ] %s: %s\n", name, tests[i].name);
        fflush(stdout);
        tests[i].run(&state);
    }
    printf("[ OK ] %s: %zu tests\n", name, n);
    return 0;
}

#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    plain_run((name), (tests), sizeof(tests) / sizeof((tests)[0]))

#endif
