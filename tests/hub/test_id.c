/* test_id.c - names of models and files, as users and hubs write them. */
#include "hub/id.h"

#include <string.h>

#include "support/test.h"

static void check_id(const char *text, const char *org, const char *name, const char *revision,
                     const char *quant)
{
    hub_id id;
    weft_error err = {WEFT_OK, ""};
    assert_ok(hub_id_parse(&id, (str){text, strlen(text)}, &err), &err);
    assert_string_equal(id.org, org);
    assert_string_equal(id.name, name);
    assert_string_equal(id.revision, revision);
    assert_string_equal(id.quant, quant);
}

static void test_ids(void **state)
{
    (void)state;
    check_id("org/name", "org", "name", "", "");
    check_id("gpt2", "", "gpt2", "", "");
    check_id("Org-1/My.Model_7B-v0.1", "Org-1", "My.Model_7B-v0.1", "", "");
    check_id("o/n@main", "o", "n", "main", "");
    check_id("o/n@refs/pr/1:Q4_K_M", "o", "n", "refs/pr/1", "Q4_K_M");
    check_id("o/n:UD-Q4_K_XL", "o", "n", "", "UD-Q4_K_XL");
    check_id("o/n@v1.0-rc.2", "o", "n", "v1.0-rc.2", "");
}

static void test_wrong_ids(void **state)
{
    (void)state;
    static const char *const WRONG[] = {
        "",       "/",          "a/",      "/a",      "a/b/c",      "a//b",
        "../b",   "a/..",       ".a/b",    "a/.b",    "a/b.",       "-a/b",
        "a/b-",   "a/b--c",     "a..b/c",  "a b/c",   "a/b\n",      "a/b%2f",
        "a\\b/c", "\xc3\xa4/b", "a/b@",    "a/b@/x",  "a/b@x/",     "a/b@x//y",
        "a/b@..", "a/b@x..y",   "a/b@-x",  "a/b@.x",  "a/b@x/.y",   "a/b@x y",
        "a/b@x?", "a/b@x*",     "a/b@x%",  "a/b@x@y", "a/b@x.lock", "a/b@x.lock/y",
        "a/b:",   "a/b:x/y",    "a/b:x y", "a/b:x:y", "a/b:x@y",    "a/b@\x7f"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        hub_id id;
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_ARGUMENT, hub_id_parse(&id, str_of(WRONG[i]), &err), &err);
    }
}

/* Each part as long as it may be, and one byte more. */
static void test_lengths(void **state)
{
    (void)state;
    char text[512];
    static const struct {
        const char *before;
        size_t most;
    } PARTS[] = {{"o/", HUB_NAME_BYTES - 1},
                 {"o/n@", HUB_REVISION_BYTES - 1},
                 {"o/n:", HUB_QUANT_BYTES - 1}};
    for (size_t i = 0; i < 3; i++) {
        hub_id id;
        size_t n = strlen(PARTS[i].before);
        memcpy(text, PARTS[i].before, n);
        memset(text + n, 'x', PARTS[i].most + 1);
        assert_int_equal(hub_id_parse(&id, (str){text, n + PARTS[i].most}, NULL), WEFT_OK);
        assert_int_equal(hub_id_parse(&id, (str){text, n + PARTS[i].most + 1}, NULL),
                         WEFT_ARGUMENT);
    }
}

static void test_folders(void **state)
{
    (void)state;
    hub_id id;
    char repo[HUB_REPO_BYTES];
    assert_true(hub_id_of_folder(&id, str_of("models--org--my-name")));
    hub_id_repo(&id, repo);
    assert_string_equal(repo, "org/my-name");
    assert_true(hub_id_of_folder(&id, str_of("models--gpt2")));
    hub_id_repo(&id, repo);
    assert_string_equal(repo, "gpt2");
    assert_string_equal(hub_id_revision(&id), "main");
    static const char *const WRONG[] = {"",
                                        "models--",
                                        "models----a",
                                        "models--a--",
                                        "datasets--a--b",
                                        "models--a--b--c",
                                        "models--..--b",
                                        ".locks",
                                        "models--a/b"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_false(hub_id_of_folder(&id, str_of(WRONG[i])));
}

static void check_names(const char *const *names, size_t n, bool valid)
{
    for (size_t i = 0; i < n; i++) {
        if (hub_file_name_valid(str_of(names[i])) != valid) fail_msg("'%s'", names[i]);
    }
}

static void test_file_names(void **state)
{
    (void)state;
    static const char *const RIGHT[] = {
        "a",   "config.json", "a/b/c",        ".gitattributes", "...",
        "a b", "..a/b..",     "\xc3\xa4.txt", "a/b/c/d/e/f/g/h"};
    static const char *const WRONG[] = {
        "",     ".",     "..",     "/",        "/a",       "a/",
        "a//b", "a/./b", "a/../b", "../a",     "a/..",     "a\\b",
        "a\nb", "a\x7f", "a\xff",  "\xc0\xaf", "\xc2\x80", "a/b/c/d/e/f/g/h/i"};
    check_names(RIGHT, sizeof RIGHT / sizeof RIGHT[0], true);
    check_names(WRONG, sizeof WRONG / sizeof WRONG[0], false);
    assert_false(hub_file_name_valid((str){"a\0b", 3}));
    char text[HUB_FILE_BYTES_MOST + 2];
    memset(text, 'x', sizeof text);
    assert_true(hub_file_name_valid((str){text, HUB_PART_BYTES_MOST}));
    assert_false(hub_file_name_valid((str){text, HUB_PART_BYTES_MOST + 1}));
    for (size_t i = 200; i < sizeof text; i += 201) text[i] = '/';
    assert_true(hub_file_name_valid((str){text, HUB_FILE_BYTES_MOST}));
    assert_false(hub_file_name_valid((str){text, HUB_FILE_BYTES_MOST + 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),        cmocka_unit_test(test_wrong_ids),
        cmocka_unit_test(test_lengths),    cmocka_unit_test(test_folders),
        cmocka_unit_test(test_file_names),
    };
    return TEST_RUN("hub/id", tests);
}
