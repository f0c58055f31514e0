/* test_listing.c - a hub's answer, and which of its files are chosen. */
#include "hub/listing.h"

#include <stdio.h>
#include <string.h>

#include "hub/choose.h"
#include "support/fault.h"
#include "support/test.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA256 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const char LISTING[] =
    "{\"id\":\"o/n\",\"sha\":\"" COMMIT "\",\"private\":false,\"siblings\":["
    "{\"rfilename\":\"model.safetensors\",\"size\":123456,\"blobId\":\"" COMMIT "\","
    "\"lfs\":{\"sha256\":\"" SHA256 "\",\"size\":123456,\"pointerSize\":131}},"
    "{\"rfilename\":\"config.json\",\"size\":0,\"blobId\":\"" COMMIT "\"},"
    "{\"rfilename\":\"b/unhashed.bin\",\"size\":7}]}";

static void test_listing(void **state)
{
    (void)state;
    hub_listing l;
    weft_error err = {WEFT_OK, ""};
    assert_ok(hub_listing_parse(&l, mem_system(), str_of(LISTING), &err), &err);
    assert_string_equal(l.commit, COMMIT);
    assert_int_equal(l.n_files, 3);
    assert_string_equal(l.files[0].name, "b/unhashed.bin");
    assert_string_equal(l.files[0].hash, "");
    assert_string_equal(l.files[1].name, "config.json");
    assert_string_equal(l.files[1].hash, COMMIT);
    assert_true(l.files[1].size == 0);
    assert_string_equal(l.files[2].hash, SHA256);
    assert_true(l.files[2].size == 123456);
    hub_listing_deinit(&l);
}

static void test_wrong_listings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } CASES[] = {
        {"", "the hub's answer"},
        {"null", "names no commit"},
        {"{\"sha\":7,\"siblings\":[]}", "names no commit"},
        {"{\"sha\":\"0123\",\"siblings\":[]}", "names no commit"},
        {"{\"sha\":\"" COMMIT "\"}", "lists no files"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[null]}", "without a name"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"../a\",\"size\":1}]}", "'../a'"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\\u0000b\",\"size\":1}]}",
         "none"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\"}]}", "no size of 'a'"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":1.5}]}",
         "no size of 'a'"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":8796093022209}]}",
         "8796093022208"},
        {"{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":1},"
         "{\"rfilename\":\"a\",\"size\":1}]}",
         "'a' twice"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        hub_listing l;
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_FORMAT, hub_listing_parse(&l, mem_system(), str_of(CASES[i].text), &err),
                      &err);
        assert_message(&err, CASES[i].part);
        assert_int_equal(l.n_files, 0);
        hub_listing_deinit(&l);
    }
}

static weft_status parse_once(const env *world, void *user, weft_error *err)
{
    (void)user;
    hub_listing l;
    weft_status status = hub_listing_parse(&l, world->allocator, str_of(LISTING), err);
    hub_listing_deinit(&l);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(fault_sweep(parse_once, NULL) >= 1);
}

/* ---- choosing -------------------------------------------------------------------------------- */

enum { NAMES_MOST = 16 };

/* The names that are chosen, in order, with commas. */
static weft_status choose(const char *const *names, const hub_wish *wish, char chosen[512],
                          weft_error *err)
{
    hub_file files[NAMES_MOST];
    strbuf choices;
    size_t n = 0;
    for (; names[n] != NULL; n++) files[n] = (hub_file){.name = names[n], .size = n};
    hub_files_sort(files, n);
    strbuf_init(&choices, mem_system(), 0);
    weft_status status = hub_choose(files, n, wish, &choices, err);
    size_t used = 0;
    chosen[0] = '\0';
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        if (!files[i].chosen) continue;
        used +=
            (size_t)snprintf(chosen + used, 512 - used, "%s%s", used > 0 ? "," : "", files[i].name);
    }
    strbuf_deinit(&choices);
    return status;
}

static void check_choice(const char *const *names, const char *quant, const char *expected)
{
    char chosen[512];
    weft_error err = {WEFT_OK, ""};
    assert_ok(choose(names, &(hub_wish){.quant = quant}, chosen, &err), &err);
    assert_string_equal(chosen, expected);
}

static void test_quants(void **state)
{
    (void)state;
    static const char *const FLAT[] = {"M-7B.Q4_K_M.gguf", "M-7B.Q4_K_S.gguf", "M-7B.IQ4_XS.gguf",
                                       "M-7B.Q4_0.gguf", NULL};
    check_choice(FLAT, "Q4_K_M", "M-7B.Q4_K_M.gguf");
    check_choice(FLAT, "q4_0", "M-7B.Q4_0.gguf");
    check_choice(FLAT, "IQ4_XS", "M-7B.IQ4_XS.gguf");
    static const char *const FOLDERS[] = {"Q4/m-Q4-00001-of-00002.gguf",
                                          "Q4/m-Q4-00002-of-00002.gguf", "Q8/m-Q8.GGUF",
                                          "imatrix_unsloth.gguf", NULL};
    check_choice(FOLDERS, "Q4", "Q4/m-Q4-00001-of-00002.gguf,Q4/m-Q4-00002-of-00002.gguf");
    check_choice(FOLDERS, "Q8", "Q8/m-Q8.GGUF");
    static const char *const ONE[] = {"only.gguf", "README.md", "mmproj-only.gguf", NULL};
    check_choice(ONE, "", "only.gguf");
    static const char *const BOTH[] = {"config.json", "model.safetensors", "x-Q4_0.gguf", NULL};
    check_choice(BOTH, "", "config.json,model.safetensors");
    check_choice(BOTH, "Q4_0", "x-Q4_0.gguf");
}

static void test_no_choice(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"M-Q4_K_M.gguf", "M-Q4_K_S.gguf", "M-UD-Q4_K_M.gguf", NULL};
    static const struct {
        const char *quant, *part;
    } CASES[] = {
        {"", "3 GGUF models, say which with :QUANT; there are Q4_K_M, Q4_K_S, UD-Q4_K_M"},
        {"Q4_K", "no GGUF file is 'Q4_K'; there are Q4_K_M, Q4_K_S"},
        {"4_K_M", "no GGUF file"},
        {"K_M", "2 GGUF models"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char chosen[512];
        weft_error err = {WEFT_OK, ""};
        hub_wish wish = {.quant = CASES[i].quant};
        assert_status(WEFT_ARGUMENT, choose(NAMES, &wish, chosen, &err), &err);
        assert_message(&err, CASES[i].part);
    }
    check_choice(NAMES, "Q4_K_M", "M-Q4_K_M.gguf");
}

static void test_patterns(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"a.bin", "b/c.bin", "b/d.txt", "[x].bin", NULL};
    static const struct {
        const char *pattern, *expected;
    } CASES[] = {{"*.bin", "[x].bin,a.bin,b/c.bin"},
                 {"b/*", "b/c.bin,b/d.txt"},
                 {"[x].bin", "[x].bin"},
                 {"?.bin", "a.bin"}};
    char chosen[512];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        weft_error err = {WEFT_OK, ""};
        hub_wish wish = {.quant = "", .patterns = &CASES[i].pattern, .n_patterns = 1};
        assert_ok(choose(NAMES, &wish, chosen, &err), &err);
        assert_string_equal(chosen, CASES[i].expected);
    }
    const char *nothing = "*.exe";
    weft_error err = {WEFT_OK, ""};
    hub_wish wish = {.quant = "", .patterns = &nothing, .n_patterns = 1};
    assert_status(WEFT_ARGUMENT, choose(NAMES, &wish, chosen, &err), &err);
    assert_message(&err, "'*.exe'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listing),       cmocka_unit_test(test_wrong_listings),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_quants),
        cmocka_unit_test(test_no_choice),     cmocka_unit_test(test_patterns),
    };
    return TEST_RUN("hub/listing", tests);
}
