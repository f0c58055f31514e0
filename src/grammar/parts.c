/* parts.c - descriptions that put texts, tokens and the other kinds together: what a model writes
 * around its answers, thoughts and calls of tools (docs/grammar.md). */
#include "grammar/parts.h"

#include <stdio.h>
#include <string.h>

#include "grammar/sources.h"

enum { PLACE_SHOWN = 100 };

static uint32_t read_part(parts *all, const json *part, spot at);

/* ---- places ---- */

static size_t enter(parts *all, const char *member)
{
    size_t before = strlen(all->place);
    snprintf(all->place + before, PARTS_PLACE - before, "/%s", member);
    return before;
}

static void leave(parts *all, size_t before)
{
    all->place[before] = '\0';
}

/* Puts the place before the first failure. */
static void say_where(parts *all)
{
    size_t n = strlen(all->place);
    err_context(all->p->err,
                "part at '%s': ", n > PLACE_SHOWN ? all->place + n - PLACE_SHOWN : all->place);
}

/* ---- whether a part may be nothing ---- */

static bool may_be_nothing(const json *part);

static bool any_is_nothing(const json *list)
{
    for (size_t i = 0; i < json_length(list); i++)
        if (may_be_nothing(json_at(list, i))) return true;
    return false;
}

static bool all_are_nothing(const json *list)
{
    for (size_t i = 0; i < json_length(list); i++)
        if (!may_be_nothing(json_at(list, i))) return false;
    return true;
}

/* Only what is certain: expressions and rules count as something. A document's depth bounds it. */
static bool may_be_nothing(const json *part)
{
    const json *value = json_get(part, "text");
    if (value != NULL) return json_text(value).len == 0;
    if (json_get(part, "free") != NULL || json_get(part, "optional") != NULL) return true;
    value = json_get(part, "all");
    if (value != NULL) return all_are_nothing(value);
    value = json_get(part, "any");
    if (value != NULL) return any_is_nothing(value);
    value = json_get(part, "repeat");
    if (value == NULL) return false;
    return json_int(json_get(part, "min"), 0) == 0 || may_be_nothing(value);
}

/* ---- the other kinds ---- */

static uint32_t part_schema(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    return node_schema(all->p, value, at.next);
}

static uint32_t part_json(parts *all, const json *part, const json *value, spot at)
{
    static const char OBJECT[] = "{\"type\":\"object\"}";
    json_doc doc = {NULL};
    (void)part;
    if (!json_bool(value, false)) {
        program_fail(all->p, WEFT_FORMAT, "'json' is not true");
        return NODE_FAIL;
    }
    weft_status status = json_parse(&doc, OBJECT, sizeof OBJECT - 1, all->p->err);
    if (status != WEFT_OK) {
        all->p->status = status;
        return NODE_FAIL;
    }
    uint32_t start = node_schema(all->p, doc.root, at.next);
    json_doc_free(&doc);
    return start;
}

static uint32_t part_regex(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    if (!part_is_text(all, "regex", value)) return NODE_FAIL;
    regex *x = regex_parse_answer(all->p, json_text(value));
    return node_regex(all->p, x, SPELLING_TEXT, at.next);
}

static uint32_t part_choice(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    return node_choice(all->p, value, at.next);
}

static uint32_t part_rules(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    if (!part_is_text(all, "rules", value)) return NODE_FAIL;
    return node_gbnf(all->p, all->vocab, json_text(value), at.next);
}

/* ---- what puts parts together ---- */

static uint32_t read_member(parts *all, const json *part, const char *member, spot at)
{
    size_t before = enter(all, member);
    uint32_t start = read_part(all, json_get(part, member), at);
    leave(all, before);
    return start;
}

static uint32_t read_item(parts *all, const char *member, const json *list, size_t i, spot at)
{
    char name[40];
    snprintf(name, sizeof name, "%s/%zu", member, i);
    size_t before = enter(all, name);
    uint32_t start = read_part(all, json_at(list, i), at);
    leave(all, before);
    return start;
}

static bool is_list(parts *all, const char *member, const json *list, size_t least)
{
    if (json_kind_of(list) != JSON_KIND_ARRAY || json_length(list) < least)
        program_fail(all->p, WEFT_FORMAT, "'%s' is no array of %zu parts or more", member, least);
    return all->p->status == WEFT_OK;
}

static uint32_t part_all(parts *all, const json *part, const json *value, spot at)
{
    (void)part;
    if (!is_list(all, "all", value, 0)) return NODE_FAIL;
    for (size_t i = json_length(value); i > 0 && all->p->status == WEFT_OK; i--) {
        at.next = read_item(all, "all", value, i - 1, at);
        at.last = at.last && may_be_nothing(json_at(value, i - 1));
    }
    return at.next;
}

static uint32_t part_any(parts *all, const json *part, const json *value, spot at)
{
    uint32_t any = NODE_FAIL;
    (void)part;
    if (!is_list(all, "any", value, 1)) return NODE_FAIL;
    for (size_t i = json_length(value); i > 0 && all->p->status == WEFT_OK; i--)
        any = node_split(all->p, read_item(all, "any", value, i - 1, at), any);
    return any;
}

static uint32_t part_optional(parts *all, const json *part, const json *value, spot at)
{
    (void)value;
    return node_split(all->p, read_member(all, part, "optional", at), at.next);
}

uint32_t part_count(parts *all, const json *part, const char *member, uint32_t fallback)
{
    const json *value = json_get(part, member);
    if (value == NULL) return fallback;
    int64_t n = json_int(value, -1);
    if (json_kind_of(value) == JSON_KIND_INT && n >= 0 && n <= PARTS_COUNT) return (uint32_t)n;
    program_fail(all->p, WEFT_FORMAT, "'%s' is no whole number of 0 to 2^30", member);
    return UINT32_MAX;
}

/* A part min to max times, max above 0. */
static uint32_t repeat_bare(parts *all, const json *part, uint32_t min, uint32_t max, spot at)
{
    program *p = all->p;
    bool last = at.last && (min < 2 || may_be_nothing(json_get(part, "repeat")));
    if (max == 1) {
        uint32_t once = read_member(all, part, "repeat", at);
        return min == 1 ? once : node_split(p, once, at.next);
    }
    if (max == PROGRAM_ENDLESS && min <= 1) {
        uint32_t star = node_star(p, at.next);
        uint32_t body = read_member(all, part, "repeat", (spot){star, last});
        star_set_body(p, star, body);
        return min == 1 ? body : star;
    }
    uint32_t loop_node = node_loop(p, min, max, at.next);
    loop_set_body(p, loop_node, read_member(all, part, "repeat", (spot){NODE_AGAIN, last}));
    return loop_node;
}

/* With another part between two of them: X (separator X)*. X is a rule, so that it is there once
 * however deep such repeats are within each other. */
static uint32_t repeat_apart(parts *all, const json *part, uint32_t min, uint32_t max, spot at)
{
    program *p = all->p;
    const json *body = json_get(part, "repeat"), *separator = json_get(part, "separator");
    uint32_t rule_i = program_rule(p, NULL);
    if (p->status != WEFT_OK) return NODE_FAIL;
    bool last = at.last && (min < 2 || (may_be_nothing(body) && may_be_nothing(separator)));
    uint32_t start = read_member(all, part, "repeat", (spot){NODE_RETURN, last});
    if (p->status != WEFT_OK) return NODE_FAIL;
    p->rules[rule_i].start = start;
    uint32_t rest = at.next;
    if (max > 1) {
        rest = node_loop(p, min > 0 ? min - 1 : 0, max == PROGRAM_ENDLESS ? max : max - 1, at.next);
        spot between = {node_call(p, rule_i, NODE_AGAIN), last && may_be_nothing(body)};
        loop_set_body(p, rest, read_member(all, part, "separator", between));
    }
    uint32_t first = node_call(p, rule_i, rest);
    return min == 0 ? node_split(p, first, at.next) : first;
}

static uint32_t part_repeat(parts *all, const json *part, const json *value, spot at)
{
    (void)value;
    uint32_t min = part_count(all, part, "min", 0);
    uint32_t max = part_count(all, part, "max", PROGRAM_ENDLESS);
    if (all->p->status != WEFT_OK) return NODE_FAIL;
    if (min > max) {
        program_fail(all->p, WEFT_FORMAT, "'min' is %u and 'max' %u", min, max);
        return NODE_FAIL;
    }
    if (max == 0) return at.next;
    if (json_get(part, "separator") != NULL) return repeat_apart(all, part, min, max, at);
    return repeat_bare(all, part, min, max, at);
}

/* ---- a part ---- */

enum { TOKEN = 1, MAX_CHARS = 2, WITHOUT = 4, MIN = 8, MAX = 16, SEPARATOR = 32 };

typedef struct part_kind {
    const char *member;
    uint32_t beside; /* members that may stand beside it */
    uint32_t (*read)(parts *all, const json *part, const json *value, spot at);
} part_kind;

/* A part is the first of these that it has: "token" stands beside "until", too. */
static const part_kind KINDS[] = {
    {"until", TOKEN | MAX_CHARS | WITHOUT, part_until},
    {"text", 0, part_text},
    {"token", 0, part_token},
    {"free", MAX_CHARS | WITHOUT, part_free},
    {"schema", 0, part_schema},
    {"json", 0, part_json},
    {"regex", 0, part_regex},
    {"choice", 0, part_choice},
    {"rules", 0, part_rules},
    {"all", 0, part_all},
    {"any", 0, part_any},
    {"optional", 0, part_optional},
    {"repeat", MIN | MAX | SEPARATOR, part_repeat},
};

static const char *const BESIDE[] = {"token", "max_chars", "without", "min", "max", "separator"};

/* Fails when there is a member that the kind does not have. */
static bool check_members(parts *all, const json *part, const part_kind *kind)
{
    json_iter it = {NULL};
    str key;
    const json *value;
    while (all->p->status == WEFT_OK && json_next(part, &it, &key, &value)) {
        bool known = str_equal_text(key, kind->member);
        for (size_t i = 0; i < sizeof BESIDE / sizeof *BESIDE && !known; i++)
            known = (kind->beside >> i & 1) != 0 && str_equal_text(key, BESIDE[i]);
        if (!known)
            program_fail(all->p, WEFT_FORMAT, "'%.*s' does not stand beside '%s'",
                         (int)(key.len < 40 ? key.len : 40), key.ptr, kind->member);
    }
    return all->p->status == WEFT_OK;
}

static uint32_t read_known(parts *all, const json *part, spot at)
{
    program *p = all->p;
    if (json_kind_of(part) != JSON_KIND_OBJECT) {
        program_fail(p, WEFT_FORMAT, "is %s where a part belongs",
                     json_kind_name(json_kind_of(part)));
        return NODE_FAIL;
    }
    if (all->depth > PARTS_DEPTH || ++all->n > PARTS_MOST) {
        program_fail(p, WEFT_LIMIT, "more than %d parts within each other, or %d in all",
                     PARTS_DEPTH, PARTS_MOST);
        return NODE_FAIL;
    }
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        const json *value = json_get(part, KINDS[i].member);
        if (value == NULL) continue;
        if (!check_members(all, part, &KINDS[i])) return NODE_FAIL;
        return KINDS[i].read(all, part, value, at);
    }
    program_fail(p, WEFT_FORMAT, "has no member that says what it is");
    return NODE_FAIL;
}

static uint32_t read_part(parts *all, const json *part, spot at)
{
    if (all->p->status != WEFT_OK) return NODE_FAIL;
    all->depth++;
    uint32_t start = read_known(all, part, at);
    all->depth--;
    if (all->p->status == WEFT_OK) return start;
    if (all->n != UINT32_MAX) say_where(all);
    all->n = UINT32_MAX; /* said */
    return NODE_FAIL;
}

void source_parts(program *p, const grammar_vocab *v, str text)
{
    json_doc doc = {NULL};
    weft_status status = json_parse(&doc, text.ptr, text.len, p->err);
    if (status != WEFT_OK) {
        err_context(p->err, "the parts are no JSON: ");
        p->status = status;
        return;
    }
    parts all = {.p = p, .vocab = v};
    (void)program_rule(p, "the text");
    uint32_t start = read_part(&all, doc.root, (spot){NODE_RETURN, true});
    if (p->status == WEFT_OK) p->rules[0].start = start;
    json_doc_free(&doc);
}
