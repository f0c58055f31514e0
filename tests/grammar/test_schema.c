/* test_schema.c - JSON Schemas: what is written for each keyword, what is refused and how that is
 * said, bounds of time and memory. The test suite of the standard is in test_suite.c. */
#include "grammar/grammar.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "support/fault.h"
#include "support/grammar_world.h"
#include "support/test.h"

static grammar_vocab *bytes_vocab, *merged_vocab;

/* texts: NUL-separated, ended by an empty one; the first n_yes are taken. */
typedef struct taken {
    const char *schema;
    uint32_t n_yes;
    const char *texts;
} taken;

static void check(const taken *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grammar *g = world_compile(bytes_vocab, GRAMMAR_SCHEMA, cases[i].schema);
        const char *text = cases[i].texts;
        for (uint32_t k = 0; *text != '\0'; k++, text += strlen(text) + 1) {
            size_t refused;
            bool yes = world_takes(g, str_of(text), &refused);
            if (yes != (k < cases[i].n_yes))
                fail_msg("%s: '%s' is %s at %zu", cases[i].schema, text, yes ? "taken" : "refused",
                         refused);
        }
        grammar_unref(g);
    }
}

static void test_types(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{}", 7,
         "null\0true\0-1.5e3\0\"a\"\0[1, {\"a\":[]}]\0{\"a\": null}\0[\n  1\n]\0nul\0[1,]\0"},
        {"true", 1, "0\0 0\0"},
        {"{\"type\":\"boolean\"}", 2, "true\0false\0null\0"},
        {"{\"type\":[\"null\",\"integer\"]}", 3,
         "null\0-12\0"
         "0\0-0\0"
         "1.0\0"
         "01\0\"a\"\0"},
        {"{\"const\":{\"b\":[1,\"x\"],\"a\":null}}", 2,
         "{\"b\":[1,\"x\"],\"a\":null}\0{ \"b\": [ 1, \"x\" ], \"a\": null }\0{\"a\":null}\0"},
        {"{\"enum\":[1,\"a\",\"ab\",null,[2],2.5]}", 6,
         "1\0\"a\"\0\"ab\"\0null\0[2]\0"
         "2.5\0"
         "2\0\"abc\"\0"},
        {"{\"type\":\"string\",\"enum\":[1,\"a\"]}", 1,
         "\"a\"\0"
         "1\0"},
    };
    check(CASES, COUNT_OF(CASES));
}

static void test_numbers(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120}", 5,
         "-5\0"
         "0\0"
         "7\0"
         "99\0"
         "120\0-6\0"
         "121\0"
         "1000\0-10\0"
         "007\0"},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":12}", 2,
         "10\0"
         "11\0"
         "9\0"
         "12\0"
         "1\0"},
        {"{\"type\":\"number\",\"minimum\":-1.25,\"exclusiveMaximum\":0.5}", 6,
         "-1.25\0-1.2\0-0.001\0"
         "0\0"
         "0.499\0"
         "0.0\0-1.26\0-2\0"
         "0.5\0"
         "0.50\0"
         "1\0"},
        {"{\"type\":\"number\",\"maximum\":-100}", 3,
         "-100\0-1000\0-100.5\0-99.9\0"
         "0\0-1\0"},
        {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":-21}", 5,
         "0\0"
         "7\0"
         "14\0"
         "700\0-21\0"
         "1\0-28\0"
         "71\0"},
        {"{\"type\":\"number\",\"multipleOf\":0.25,\"maximum\":1}", 5,
         "0.25\0"
         "0.5\0"
         "1\0"
         "1.00\0-7.75\0"
         "0.3\0"
         "1.25\0"
         "0.125\0"},
        {"{\"multipleOf\":4,\"allOf\":[{\"multipleOf\":6}],\"type\":\"integer\"}", 2,
         "12\0"
         "24\0"
         "4\0"
         "6\0"
         "18\0"},
        {"{\"type\":\"integer\",\"minimum\":1000000000000000000000}", 1,
         "1000000000000000000001\0"
         "999999999999999999999\0"},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"},\"minimum\":0,\"maximum\":2}", 2,
         "0.5\0"
         "1.01\0"
         "1.0\0"
         "1\0"
         "2.5\0"},
        {"{\"type\":\"integer\",\"not\":{\"enum\":[3,5]},\"minimum\":2,\"maximum\":6}", 3,
         "2\0"
         "4\0"
         "6\0"
         "3\0"
         "5\0"},
    };
    check(CASES, COUNT_OF(CASES));
}

/* Among them a pattern of a backslash and what stands behind it (B55). */
static void test_strings(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", 5,
         "\"ab\"\0\"\xc3\xa9\xf0\x9f\x98\x80z\"\0\"\\n\\u00e9\"\0\"\\ud83d\\ude00x\"\0\"\\\"\\\\\\/"
         "\"\0"
         "\"a\"\0\"abcd\"\0\"\\ud83d\\ude00\"\0\"\\ud83dab\"\0\"\n\n\"\0\"\xc3\"\0"},
        {"{\"type\":\"string\",\"pattern\":\"^a\\\\\\\\!$\"}", 1,
         "\"a\\\\!\"\0\"a\\\\\"\0\"a!\"\0"},
        {"{\"type\":\"string\",\"pattern\":\"b+\"}", 2, "\"b\"\0\"\\nabbc\"\0\"a\"\0"},
        {"{\"type\":\"string\",\"pattern\":\"^[\\\\s\\\"]+$\"}", 2,
         "\"\\\"\"\0\" \\n\\t\"\0\"a\"\0"},
        {"{\"type\":\"string\",\"pattern\":\"^(ab)*$\",\"minLength\":3,\"maxLength\":5}", 1,
         "\"abab\"\0\"ab\"\0\"ababab\"\0\"aba\"\0"},
        {"{\"type\":\"string\",\"pattern\":\"^a\",\"allOf\":[{\"pattern\":\"z$\"}],\"maxLength\":"
         "4}",
         2, "\"az\"\0\"abcz\"\0\"abcdz\"\0\"a\"\0\"bz\"\0"},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"^x\"},\"minLength\":1}", 2,
         "\"ax\"\0\"y\"\0\"x\"\0\"\"\0"},
        {"{\"type\":\"string\",\"format\":\"date\"}", 3,
         "\"2024-02-29\"\0\"1999-12-31\"\0\"2000-02-29\"\0\"2023-02-29\"\0\"1900-02-29\"\0"
         "\"2023-13-01\"\0\"2023-04-31\"\0"},
        {"{\"type\":\"string\",\"format\":\"uuid\"}", 1,
         "\"2eb8aa08-aa98-11ea-b4aa-73b441d16380\"\0\"2eb8aa08\"\0"},
        {"{\"type\":\"string\",\"format\":\"of our own\"}", 1,
         "\"anything\"\0"
         "1\0"},
    };
    check(CASES, COUNT_OF(CASES));
}

/* Counts of characters and large quantifiers (B56): no states per character. */
static void test_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *limits;
        uint32_t most;
    } CASES[] = {
        {"\"maxLength\":1999", 1999},
        {"\"maxLength\":2000", 2000},
        {"\"maxLength\":6000,\"pattern\":\"^[a-z]+$\"", 6000},
        {"\"maxLength\":6000,\"pattern\":\"\\\\S\"", 6000},
        {"\"pattern\":\"^[a-z]{1,5000}$\"", 5000},
        {"\"pattern\":\"^([a-z]{2}){1,2500}$\"", 5000},
        {"\"minLength\":4000,\"maxLength\":4001", 4001},
    };
    static char text[8200];
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char schema[300];
        snprintf(schema, sizeof schema,
                 "{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{"
                 "\"s\":{"
                 "\"type\":\"string\",%s}},\"required\":[\"s\"]}},\"required\":[\"o\"]}",
                 CASES[i].limits);
        grammar *g = world_compile(bytes_vocab, GRAMMAR_SCHEMA, schema);
        for (uint32_t extra = 0; extra < 2; extra++) {
            size_t n = CASES[i].most + extra;
            size_t at = (size_t)snprintf(text, sizeof text, "{\"o\":{\"s\":\"");
            memset(text + at, 'a', n);
            snprintf(text + at + n, 8, "\"}}");
            assert_int_equal(world_takes(g, str_of(text), NULL), extra == 0);
        }
        grammar_unref(g);
    }
    grammar *g = world_compile(bytes_vocab, GRAMMAR_SCHEMA,
                               "{\"type\":\"string\",\"minLength\":100000,\"maxLength\":1000000}");
    grammar_unref(g);
}

static void test_arrays(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":3}", 3,
         "[null]\0[null, null]\0[ null,null,null ]\0[]\0[null,null,null,null]\0[1]\0"},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false}", 3,
         "[]\0[1]\0[1,2]\0[2]\0[1,2,3]\0"},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":0},\"minItems\":"
         "2,"
         "\"maxItems\":100000}",
         2, "[1,0]\0[1,0,0]\0[1]\0[0,0]\0"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":100}}", 3,
         "[100]\0[1,2,300]\0[500,1,200]\0[]\0[1]\0"},
        {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"contains\":{\"const\":2},"
         "\"minContains\":1,\"maxContains\":2}",
         3, "[2]\0[1,2,1,2]\0[2,2]\0[1]\0[2,2,2]\0"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", 2, "[]\0[1]\0[1,2]\0"},
    };
    check(CASES, COUNT_OF(CASES));
}

static void test_objects(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}}"
         ","
         "\"required\":[\"b\"],\"additionalProperties\":false}",
         3,
         "{\"b\":null}\0{\"a\":null,\"b\": null}\0{ \"b\":null "
         "}\0{}\0{\"a\":null}\0{\"b\":null,\"a\":null}"
         "\0{\"b\":null,\"c\":1}\0{\"b\":null,\"b\":null}\0"},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{\"const\":1}},\"additionalProperties\":{"
         "\"const\":2}}",
         5,
         "{}\0{\"ab\":1}\0{\"a\":2}\0{\"ab\":1,\"abc\":2,\"\":2}\0{\"\\n\":2}\0{\"ab\":2}\0"
         "{\"\\u0061b\":2}\0{\"a\":1}\0"},
        {"{\"type\":\"object\",\"patternProperties\":{\"^n\":{\"type\":\"null\"},\"x$\":{\"enum\":["
         "null,"
         "1]}},\"additionalProperties\":false}",
         4, "{\"n\":null}\0{\"x\":1}\0{\"nx\":null}\0{}\0{\"nx\":1}\0{\"n\":1}\0{\"y\":null}\0"},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\",\"maxLength\":2},"
         "\"additionalProperties\":{\"const\":0}}",
         2, "{\"ab\":0}\0{\"a\":0,\"b\":0}\0{\"abc\":0}\0{\"A\":0}\0"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":1},\"c\":{"
         "\"const\":1}},"
         "\"minProperties\":1,\"maxProperties\":2,\"additionalProperties\":false}",
         3, "{\"a\":1}\0{\"a\":1,\"c\":1}\0{\"b\":1,\"c\":1}\0{}\0{\"a\":1,\"b\":1,\"c\":1}\0"},
        {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2,\"additionalProperties\":{"
         "\"const\":0}}",
         2, "{\"a\":0}\0{\"a\":0,\"b\":0}\0{}\0{\"a\":0,\"b\":0,\"c\":0}\0"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"dependentRequired\":{\"a\":["
         "\"b\"]},"
         "\"additionalProperties\":{\"const\":2}}",
         3, "{}\0{\"b\":2}\0{\"a\":1,\"b\":2}\0{\"a\":1}\0{\"a\":1,\"c\":2}\0"},
        {"{\"type\":\"object\",\"required\":[\"x y\"],\"additionalProperties\":{\"const\":0}}", 1,
         "{\"x y\":0}\0{}\0"},
    };
    check(CASES, COUNT_OF(CASES));
}

/* What docs/grammar.md says of names that come again: those that a schema lists do not, others may;
 * each value is of the schema whichever a reader takes, and what counts names holds for that
 * reader, too. */
static void test_names_that_come_again(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":{"
         "\"type\":\"boolean\"}}",
         3,
         "{\"a\":1,\"b\":true}\0{\"b\":true,\"b\":false}\0{\"a\":1,\"b\":true,\"b\":true,"
         "\"b\":false}\0"
         "{\"a\":1,\"a\":1}\0{\"b\":true,\"b\":1}\0{\"b\":true,\"a\":true}\0"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":false}", 2,
         "{\"a\":1}\0{}\0{\"a\":1,\"a\":1}\0{\"a\":1,\"b\":1}\0"},
        {"{\"type\":\"object\",\"patternProperties\":{\"^n\":{\"const\":0}},"
         "\"additionalProperties\":false}",
         2, "{\"n\":0}\0{\"n\":0,\"n\":0}\0{\"n\":0,\"n\":1}\0{\"m\":0}\0"},
        {"{\"type\":\"object\",\"required\":[\"x\"],\"additionalProperties\":{\"const\":0}}", 2,
         "{\"x\":0}\0{\"x\":0,\"y\":0,\"y\":0}\0{\"x\":0,\"x\":0}\0{\"y\":0}\0"},
        /* Of at most so many there are as many to any reader, or fewer; of at least so many as are
         * sure to differ. */
        {"{\"type\":\"object\",\"maxProperties\":2,\"additionalProperties\":{\"const\":0}}", 3,
         "{}\0{\"a\":0,\"b\":0}\0{\"a\":0,\"a\":0}\0{\"a\":0,\"a\":0,\"a\":0}\0"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":0}},\"minProperties\":2,"
         "\"additionalProperties\":{\"const\":0}}",
         2, "{\"a\":0,\"b\":0}\0{\"a\":0,\"b\":0,\"b\":0}\0{\"b\":0,\"b\":0}\0{\"a\":0}\0"},
    };
    check(CASES, COUNT_OF(CASES));
    grammar *any = world_compile(bytes_vocab, GRAMMAR_JSON, "");
    assert_true(world_takes(any, str_of("{\"a\":1,\"a\":2}"), NULL));
    grammar_unref(any);
}

static void test_applied(void **state)
{
    (void)state;
    static const taken CASES[] = {
        {"{\"anyOf\":[{\"type\":\"integer\",\"minimum\":10},{\"const\":\"x\"}],\"not\":{\"const\":"
         "11}}",
         3,
         "10\0"
         "12\0\"x\"\0"
         "11\0"
         "9\0\"y\"\0"},
        {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":5},{\"type\":\"integer\",\"minimum\":3}]}",
         3,
         "2\0"
         "6\0-1\0"
         "3\0"
         "4\0"
         "5\0"},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"a\"},\"v\":{\"type\":"
         "\"null\"}},"
         "\"required\":[\"t\",\"v\"]},{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"b\"},"
         "\"w\":{"
         "\"type\":\"null\"}},\"required\":[\"t\",\"w\"]}]}",
         2,
         "{\"t\":\"a\",\"v\":null}\0{\"t\":\"b\",\"w\":null}\0{\"t\":\"a\",\"w\":null}\0{\"t\":"
         "\"c\"}\0"},
        {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[1,2]},\"v\":{}},\"required\":["
         "\"k\",\"v\"],"
         "\"additionalProperties\":false,\"if\":{\"properties\":{\"k\":{\"const\":1}}},\"then\":{"
         "\"properties\":{\"v\":{\"type\":\"null\"}}},\"else\":{\"properties\":{\"v\":{\"const\":0}"
         "}}}",
         2, "{\"k\":1,\"v\":null}\0{\"k\":2,\"v\":0}\0{\"k\":1,\"v\":0}\0{\"k\":2,\"v\":null}\0"},
        {"{\"$ref\":\"#/$defs/"
         "tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"v\":{"
         "\"const\":1},\"next\":{\"$ref\":\"#/$defs/tree\"}},\"required\":[\"v\"],"
         "\"additionalProperties\":false}}}",
         3,
         "{\"v\":1}\0{\"v\":1,\"next\":{\"v\":1}}\0{\"v\":1,\"next\":{\"v\":1,\"next\":{\"v\":1}}}"
         "\0"
         "{\"next\":{\"v\":1}}\0{\"v\":1,\"next\":{}}\0"},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{"
         "\"properties\":{"
         "\"a\":{\"minimum\":5}}}],\"type\":\"object\",\"unevaluatedProperties\":false}",
         1, "{\"a\":5}\0{\"a\":4}\0{}\0{\"a\":5,\"b\":1}\0"},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"child\":{\"$ref\":\"#\"}},"
         "\"required\":["
         "\"child\"],\"additionalProperties\":false},{\"type\":\"object\",\"properties\":{\"leaf\":"
         "{"
         "\"const\":1}},\"required\":[\"leaf\"],\"additionalProperties\":false}]}",
         2, "{\"leaf\":1}\0{\"child\":{\"child\":{\"leaf\":1}}}\0{}\0{\"child\":1}\0"},
        {"{\"type\":\"integer\",\"definitions\":{\"x\":false},\"title\":\"t\",\"x-mine\":1}", 1,
         "1\0\"a\"\0"},
    };
    check(CASES, COUNT_OF(CASES));
}

/* ---- refusals ---- */

static const struct {
    const char *schema, *part;
} REFUSED[] = {
    {"", "the schema is no JSON"},
    {"1", "schema at '' is integer where a schema belongs"},
    {"false", "no text satisfies it"},
    {"{\"properties\":{\"foo\":\"bar\"}}", "schema at '/properties/foo' is text where"},
    {"{\"$ref\":\"#\"}", "schema at '' refers to itself"},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/"
     "a\"}}}",
     "refers to itself"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
     "no finite text"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", "'/uniqueItems' is not supported"},
    {"{\"items\":{\"pattern\":\"(?=a)\"}}", "schema at '/items/pattern': '(?=a)': a lookahead"},
    {"{\"pattern\":\"(\"}", "a group that does not end"},
    {"{\"pattern\":\"\\\\p{L}\"}", "Unicode property"},
    {"{\"$ref\":\"http://example.com/x\"}", "nothing is fetched"},
    {"{\"$ref\":\"#/nowhere\"}", "'/$ref' names nothing"},
    {"{\"$dynamicRef\":\"#x\"}", "'/$dynamicRef' is not supported"},
    {"{\"dependencies\":{}}", "'/dependencies' is not supported"},
    {"{\"items\":[{}]}", "use prefixItems"},
    {"{\"type\":\"text\"}", "'/type' is not the name of a type"},
    {"{\"minLength\":-1}", "'/minLength' is no whole number"},
    {"{\"minItems\":\"1\"}", "'/minItems' is no whole number"},
    {"{\"minimum\":\"1\"}", "'/minimum' is no number"},
    {"{\"exclusiveMinimum\":true}", "'/exclusiveMinimum' is no number"},
    {"{\"multipleOf\":0}", "'/multipleOf' is not above 0"},
    {"{\"multipleOf\":1234567}", "'/multipleOf' has too many digits"},
    {"{\"anyOf\":[]}", "'/anyOf' is no array of schemas"},
    {"{\"required\":\"a\"}", "'/required' is no array of names"},
    {"{\"enum\":1}", "'/enum' is no array"},
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no finite text"},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "no finite text"},
    {"{\"type\":\"string\",\"pattern\":\"^(ab)*$\",\"minLength\":3,\"maxLength\":3}",
     "no finite text"},
    {"{\"not\":{\"format\":\"date\"}}", "cannot be negated"},
    {"{\"type\":\"array\",\"not\":{\"items\":{\"type\":\"null\"}}}",
     "cannot be negated (by not, if or oneOf): "
     "items"},
    {"{\"minProperties\":3,\"type\":\"object\"}", "minProperties 3, of which 3 have no name"},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"maxItems\":4}", "'contains' beside"},
};

/* Nothing is weakened: what cannot be honoured is refused (B55, B60). */
static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        weft_error err = {.status = WEFT_OK};
        weft_status status =
            world_compiles(bytes_vocab, GRAMMAR_SCHEMA, str_of(REFUSED[i].schema), &err);
        if (status == WEFT_OK || strstr(err.message, REFUSED[i].part) == NULL)
            fail_msg("%s: %s", REFUSED[i].schema, err.message);
    }
}

/* What asks for much is refused, or done, in little time and memory (B60). */
static void test_bounds(void **state)
{
    (void)state;
    static char text[400000];
    for (int which = 0; which < 6; which++) {
        size_t n = 0, room = sizeof text;
        if (which == 0) { /* nested alternatives */
            for (int i = 0; i < 1000; i++)
                n += (size_t)snprintf(text + n, room - n, "{\"anyOf\":[");
            n += (size_t)snprintf(text + n, room - n, "{}");
            for (int i = 0; i < 1000; i++) n += (size_t)snprintf(text + n, room - n, "]}");
        } else if (which == 1) { /* alternatives that multiply */
            n += (size_t)snprintf(text, room, "{\"allOf\":[");
            for (int i = 0; i < 40; i++)
                n += (size_t)snprintf(
                    text + n, room - n,
                    "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
                    i == 0 ? "" : ",", i, i);
            n += (size_t)snprintf(text + n, room - n, "]}");
        } else if (which == 2) { /* an automaton that explodes */
            n += (size_t)snprintf(
                text, room,
                "{\"type\":\"string\",\"maxLength\":90,\"pattern\":\"a.{40}b|(c|d.{30}e)"
                "{9}\"}");
        } else if (which == 3) { /* many properties */
            n += (size_t)snprintf(text, room, "{\"type\":\"object\",\"properties\":{");
            for (int i = 0; i < 900; i++)
                n += (size_t)snprintf(text + n, room - n, "%s\"property%d\":{\"type\":\"integer\"}",
                                      i == 0 ? "" : ",", i);
            n += (size_t)snprintf(text + n, room - n, "}}");
        } else if (which == 4) { /* a union by tags */
            n += (size_t)snprintf(text, room, "{\"oneOf\":[");
            for (int i = 0; i < 120; i++)
                n += (size_t)snprintf(
                    text + n, room - n,
                    "%s{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"k%d\"},"
                    "\"value\":{\"type\":\"string\"},\"next\":{\"$ref\":\"#\"}},"
                    "\"required\":[\"kind\"],\"additionalProperties\":false}",
                    i == 0 ? "" : ",", i);
            n += (size_t)snprintf(text + n, room - n, "]}");
        } else { /* references that multiply */
            n += (size_t)snprintf(text, room, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
            for (int i = 0; i < 30; i++)
                n += (size_t)snprintf(text + n, room - n,
                                      "\"a%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/a%d\"},{\"$ref\":"
                                      "\"#/$defs/a%d\"}]},",
                                      i, i + 1, i + 1);
            n += (size_t)snprintf(text + n, room - n, "\"a30\":{\"type\":\"null\"}}}");
        }
        fault_allocator fault;
        fault_allocator_init(&fault, 0);
        const env world = {&fault.allocator, NULL, NULL};
        grammar *g;
        weft_error err = {.status = WEFT_OK};
        clock_t start = clock();
        weft_status status =
            grammar_compile(&world, bytes_vocab, GRAMMAR_SCHEMA, (str){text, n}, &g, &err);
        double taken_s = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (status != WEFT_OK && status != WEFT_LIMIT && status != WEFT_FORMAT)
            fail_msg("%d: %s", which, err.message);
        if ((which == 3 || which == 4) && status != WEFT_OK) fail_msg("%d: %s", which, err.message);
        assert_true(fault.peak_bytes < (size_t)GRAMMAR_COMPILE_BYTES + (64 << 20));
        if (taken_s > (TEST_SLOWED ? 60.0 : 5.0)) fail_msg("%d took %.1f s", which, taken_s);
        grammar_unref(g);
        fault_allocator_check(&fault);
    }
}

/* ---- masks, samples, failures ---- */

static const char BUSY[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
                           "\"minLength\":1,\"maxLength\":8},"
                           "\"n\":{\"type\":\"integer\",\"minimum\":-3,\"maximum\":250},\"tags\":{"
                           "\"type\":\"array\",\"items\":{"
                           "\"enum\":[\"foo\",\"foobar\",\"the\"]},\"maxItems\":3},\"p\":{\"type\":"
                           "\"string\",\"pattern\":\"^[a-z]{2,}"
                           "\\\\d?$\",\"maxLength\":12}},\"required\":[\"n\"],"
                           "\"additionalProperties\":{\"anyOf\":[{\"type\":"
                           "\"null\"},{\"$ref\":\"#\"}]}}";

static void test_masks(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "{\"name\": \"ab\xc3\xa9\", \"n\": 12, \"tags\": [\"foobar\", \"the\"], \"p\": \"abc1\"}",
        "{\n  \"n\":-3,\"x\":{\"n\":0,\"\\n\":null}}",
    };
    grammar *g = world_compile(merged_vocab, GRAMMAR_SCHEMA, BUSY);
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        grammar_state *s;
        weft_error err = {.status = WEFT_OK};
        assert_ok(grammar_state_create(g, &s, &err), &err);
        for (const char *c = TEXTS[i]; *c != '\0'; c++) {
            world_check_mask(s, merged_vocab);
            assert_ok(grammar_state_accept(s, (unsigned char)*c, &err), &err);
        }
        assert_true(grammar_state_can_end(s));
        grammar_state_destroy(s);
    }
    grammar_unref(g);
}

static void test_forced_keys(void **state)
{
    (void)state;
    grammar *g =
        world_compile(merged_vocab, GRAMMAR_SCHEMA,
                      "{\"type\":\"object\",\"properties\":{\"identifier\":{\"const\":true}},"
                      "\"required\":[\"identifier\"],\"additionalProperties\":false}");
    grammar_state *s;
    int32_t tokens[32];
    uint32_t n;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    assert_ok(grammar_state_accept(s, '{', &err), &err);
    assert_ok(grammar_state_accept(s, '"', &err), &err);
    assert_ok(grammar_state_forced(s, tokens, 32, &n, &err), &err);
    assert_true(n >= 4); /* id e n t i f ... */
    for (uint32_t i = 0; i < n; i++) {
        world_check_mask(s, merged_vocab);
        assert_ok(grammar_state_accept(s, tokens[i], &err), &err);
    }
    grammar_state_destroy(s);
    grammar_unref(g);
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    grammar *g;
    weft_status status = grammar_compile(world, bytes_vocab, GRAMMAR_SCHEMA, str_of(user), &g, err);
    grammar_unref(g);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    static char schema[] =
        "{\"$id\":\"http://a/"
        "b\",\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#x\"},\"b\":{\"oneOf\":["
        "{\"const\":1},{\"const\":\"q\"}]}},\"patternProperties\":{\"^z\":{\"enum\":[null,[1,{"
        "\"k\":2}]]}},"
        "\"propertyNames\":{\"maxLength\":4},\"dependentRequired\":{\"a\":[\"b\"]},\"$defs\":{"
        "\"x\":{"
        "\"$anchor\":\"x\",\"type\":[\"integer\",\"string\"],\"minimum\":2,\"pattern\":\"^a\","
        "\"maxLength\":3,"
        "\"not\":{\"const\":\"ab\"}}}}";
    assert_true(fault_sweep(scenario, schema) >= 60);
}

int main(void)
{
    bytes_vocab = world_vocab(false);
    merged_vocab = world_vocab(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_applied),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_forced_keys),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_names_that_come_again),
    };
    int failed = TEST_RUN("grammar/schema", tests);
    grammar_vocab_destroy(bytes_vocab);
    grammar_vocab_destroy(merged_vocab);
    return failed;
}
