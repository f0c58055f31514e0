/* test_gate.c - keys and ranks, names that were made to point here, pages of other origins. */
#include "server/gate.h"
#include "support/test.h"

#include <string.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__})

static http_request with(const char *name, const char *value)
{
    http_request r = {.n_headers = 0};
    if (name == NULL) return r;
    r.headers[r.n_headers++] = (http_header){str_of(name), str_of(value)};
    return r;
}

static exchange_rank rank(const server_options *o, const char *name, const char *value)
{
    gate g = {.options = o};
    http_request r = with(name, value);
    return gate_rank(&g, &r);
}

static void test_keys(void **state)
{
    (void)state;
    const server_options none = {.host = "127.0.0.1"};
    assert_int_equal(rank(&none, NULL, NULL), RANK_ADMIN);
    assert_int_equal(rank(&none, "Authorization", "Bearer x"), RANK_ADMIN);

    const server_options users = {.keys = LIST("one", "two"), .n_keys = 2};
    assert_int_equal(rank(&users, NULL, NULL), RANK_NONE);
    assert_int_equal(rank(&users, "Authorization", "Bearer one"), RANK_ADMIN);
    assert_int_equal(rank(&users, "x-api-key", "two"), RANK_ADMIN);

    const server_options admins = {.admin_keys = LIST("root"), .n_admin_keys = 1};
    assert_int_equal(rank(&admins, NULL, NULL), RANK_USER);
    assert_int_equal(rank(&admins, "Authorization", "Bearer root"), RANK_ADMIN);
    assert_int_equal(rank(&admins, "Authorization", "Bearer toor"), RANK_USER);

    const server_options both = {
        .keys = LIST("one"), .n_keys = 1, .admin_keys = LIST("root"), .n_admin_keys = 1};
    assert_int_equal(rank(&both, "AUTHORIZATION", "bEARER   one"), RANK_USER);
    assert_int_equal(rank(&both, "X-API-KEY", "root"), RANK_ADMIN);
    static const char *const WRONG[] = {
        "Bearer", "Bearer ",   "Bearer on",   "Bearer onee", "Bearer One",     "Basic one",
        "one",    "Bearerone", "Bearer one,", "Bearer\tone", "Bearer one one", ""};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        if (rank(&both, "Authorization", WRONG[i]) != RANK_NONE) fail_msg("'%s'", WRONG[i]);
    }
    assert_int_equal(rank(&both, "x-api-key", ""), RANK_NONE);
    assert_int_equal(rank(&both, "x-api-keys", "one"), RANK_NONE);
}

static bool knows(const server_options *o, bool loopback, const char *host)
{
    gate g = {.options = o, .loopback = loopback};
    http_request r = with(host == NULL ? NULL : "host", host);
    return gate_knows_host(&g, &r);
}

static void test_hosts(void **state)
{
    (void)state;
    const server_options plain = {.host = "127.0.0.1"};
    static const char *const OURS[] = {"localhost",    "LOCALHOST:8080", "127.0.0.1",
                                       "127.0.0.1:80", "192.168.0.7:1",  "[::1]",
                                       "[::1]:8080",   "[fe80::1]"};
    static const char *const OTHERS[] = {"evil.example",
                                         "evil.example:8080",
                                         "localhost.evil.example",
                                         "127.0.0.1.nip.io",
                                         "evillocalhost",
                                         "localhost.",
                                         "127.0.0.1x",
                                         "1.2.3",
                                         "2130706433",
                                         "0x7f.0.0.1",
                                         "",
                                         ":80",
                                         "localhost@evil.example"};
    for (size_t i = 0; i < sizeof OURS / sizeof *OURS; i++) {
        if (!knows(&plain, true, OURS[i])) fail_msg("refused: %s", OURS[i]);
    }
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        if (knows(&plain, true, OTHERS[i])) fail_msg("taken: %s", OTHERS[i]);
    }
    assert_true(knows(&plain, true, NULL));

    const server_options named = {.host = "127.0.0.1", .hosts = LIST("weft.example"), .n_hosts = 1};
    assert_true(knows(&named, true, "weft.example:8080"));
    assert_true(knows(&named, true, "Weft.Example"));
    assert_false(knows(&named, true, "evil.example"));
    assert_false(knows(&named, false, "evil.example"));
    assert_false(knows(&named, true, "a.weft.example"));

    const server_options any = {.host = "127.0.0.1", .hosts = LIST("*"), .n_hosts = 1};
    assert_true(knows(&any, true, "evil.example"));

    const server_options open = {.host = "0.0.0.0"};
    assert_true(knows(&open, false, "my.name"));
    const server_options by_name = {.host = "weft.example"};
    assert_true(knows(&by_name, true, "weft.example"));
}

static bool origin(const server_options *o, const char *host, const char *from,
                   const char *expected)
{
    gate g = {.options = o, .loopback = true};
    str allow;
    http_request r = with("host", host);
    if (from != NULL) r.headers[r.n_headers++] = (http_header){str_of("origin"), str_of(from)};
    bool fine = gate_knows_origin(&g, &r, &allow);
    assert_true(str_equal_text(allow, expected));
    return fine;
}

static void test_origins(void **state)
{
    (void)state;
    const server_options plain = {.host = "127.0.0.1"};
    assert_true(origin(&plain, "localhost:1", NULL, ""));
    assert_true(origin(&plain, "localhost:1", "http://localhost:1", ""));
    assert_true(origin(&plain, "localhost:1", "HTTP://LOCALHOST:1", ""));
    static const char *const OTHERS[] = {"null",
                                         "",
                                         "http://evil.example",
                                         "http://localhost:2",
                                         "http://localhost",
                                         "http://",
                                         "http:/",
                                         "http://localhost:1.evil",
                                         "localhost:1",
                                         "/localhost:1",
                                         "/",
                                         "https://x@localhost:1",
                                         "http://localhost:1/",
                                         "//localhost:1@evil"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        if (origin(&plain, "localhost:1", OTHERS[i], "")) fail_msg("taken: '%s'", OTHERS[i]);
    }
    const server_options one = {.origins = LIST("https://a.example"), .n_origins = 1};
    assert_true(origin(&one, "h", "https://a.example", "https://a.example"));
    assert_false(origin(&one, "h", "http://a.example", ""));
    assert_false(origin(&one, "h", "https://a.example.evil", ""));
    const server_options any = {.origins = LIST("*"), .n_origins = 1};
    assert_true(origin(&any, "h", "null", "*"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_origins),
    };
    return TEST_RUN("server/gate", tests);
}
