#include "support/json_schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "grammar/schema_format.h"

typedef struct judge {
    const json_t *root;
    bool formats, unknown;
    int depth;
} judge;

/* Parts of a value that were evaluated; [n] of its members or items. */
typedef struct marks {
    bool seen[512];
} marks;

static bool holds(judge *j, const json_t *schema, const json_t *value, marks *m);
static bool part_holds(judge *j, const json_t *schema, const json_t *value, marks *m);

/* ---- references ---- */

static bool has_ids(const json_t *value)
{
    if (json_is_object(value)) {
        if (json_is_string(json_object_get(value, "$id"))) return true;
        void *it = json_object_iter((json_t *)(uintptr_t)value);
        for (; it != NULL; it = json_object_iter_next((json_t *)(uintptr_t)value, it))
            if (has_ids(json_object_iter_value(it))) return true;
    }
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++)
        if (has_ids(json_array_get(value, i))) return true;
    return false;
}

static const json_t *find_anchor(const json_t *value, const char *name)
{
    if (json_is_object(value)) {
        const char *own = json_string_value(json_object_get(value, "$anchor"));
        if (own != NULL && strcmp(own, name) == 0) return value;
        void *it = json_object_iter((json_t *)(uintptr_t)value);
        for (; it != NULL; it = json_object_iter_next((json_t *)(uintptr_t)value, it)) {
            const char *key = json_object_iter_key(it);
            if (strcmp(key, "enum") == 0 || strcmp(key, "const") == 0) continue;
            const json_t *found = find_anchor(json_object_iter_value(it), name);
            if (found != NULL) return found;
        }
    }
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *found = find_anchor(json_array_get(value, i), name);
        if (found != NULL) return found;
    }
    return NULL;
}

static const json_t *find_pointer(const json_t *value, const char *pointer)
{
    char part[256];
    while (value != NULL && *pointer == '/') {
        size_t n = 0;
        for (pointer++; *pointer != '\0' && *pointer != '/' && n < sizeof part - 1; pointer++) {
            unsigned code;
            char c = *pointer;
            if (c == '%' && sscanf(pointer + 1, "%2x", &code) == 1) {
                c = (char)code;
                pointer += 2;
            }
            if (c == '~') c = *++pointer == '1' ? '/' : '~';
            part[n++] = c;
        }
        part[n] = '\0';
        value = json_is_array(value) ? json_array_get(value, strtoul(part, NULL, 10))
                                     : json_object_get(value, part);
    }
    return value;
}

static bool follow(judge *j, const char *reference, const json_t *value, marks *m)
{
    const json_t *target = NULL;
    if (reference[0] == '#' && !has_ids(j->root))
        target = reference[1] == '\0' || reference[1] == '/' ? find_pointer(j->root, reference + 1)
                                                             : find_anchor(j->root, reference + 1);
    if (target == NULL || j->depth > 200) {
        j->unknown = true;
        return false;
    }
    return part_holds(j, target, value, m);
}

/* ---- strings ---- */

/* \s as ECMA-262 has it. */
static void rewrite(const char *pattern, char *out, size_t room)
{
    static const char SPACE[] =
        "\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
        "\\x{205f}\\x{3000}\\x{feff}";
    size_t n = 0;
    bool in_class = false;
    for (; *pattern != '\0' && n + 160 < room; pattern++) {
        if (*pattern == '\\' && (pattern[1] == 's' || pattern[1] == 'S') && !in_class) {
            n += (size_t)snprintf(out + n, room - n, "[%s%s]", pattern[1] == 'S' ? "^" : "", SPACE);
            pattern++;
            continue;
        }
        if (*pattern == '[') in_class = true;
        if (*pattern == ']') in_class = false;
        out[n++] = *pattern;
        if (*pattern == '\\' && pattern[1] != '\0') out[n++] = *++pattern;
    }
    out[n] = '\0';
}

static bool matches(judge *j, const char *pattern, const char *text, size_t len)
{
    char rewritten[4096];
    int code;
    size_t at;
    rewrite(pattern, rewritten, sizeof rewritten);
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)rewritten, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS,
                      &code, &at, NULL);
    if (re == NULL) {
        j->unknown = true;
        return false;
    }
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
    bool found = pcre2_match(re, (PCRE2_SPTR)text, len, 0, 0, data, NULL) > 0;
    pcre2_match_data_free(data);
    pcre2_code_free(re);
    return found;
}

static size_t count_chars(const json_t *text)
{
    size_t n = 0;
    const char *p = json_string_value(text);
    for (size_t i = 0; i < json_string_length(text); i++) n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

static bool below(const json_t *schema, const char *keyword, size_t n)
{
    const json_t *bound = json_object_get(schema, keyword);
    return bound != NULL && (double)n < json_number_value(bound);
}

static bool above(const json_t *schema, const char *keyword, size_t n)
{
    const json_t *bound = json_object_get(schema, keyword);
    return bound != NULL && (double)n > json_number_value(bound);
}

static bool string_holds(judge *j, const json_t *schema, const json_t *value)
{
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *format = json_string_value(json_object_get(schema, "format"));
    const char *text = json_string_value(value);
    size_t len = json_string_length(value), n = count_chars(value);
    if (below(schema, "minLength", n) || above(schema, "maxLength", n)) return false;
    if (pattern != NULL && !matches(j, pattern, text, len)) return false;
    if (!j->formats || format == NULL) return true;
    /* The grammar's own expression, run by another engine. */
    const char *known = schema_format((str){format, strlen(format)});
    char whole[4096];
    if (known == NULL) return true;
    snprintf(whole, sizeof whole, "^(?:%s)$", known);
    return matches(j, whole, text, len);
}

/* ---- numbers ---- */

static bool is_whole(double x)
{
    return floor(x) == x;
}

static bool number_holds(const json_t *schema, const json_t *value)
{
    double x = json_number_value(value);
    const json_t *bound;
    if ((bound = json_object_get(schema, "minimum")) != NULL && x < json_number_value(bound))
        return false;
    if ((bound = json_object_get(schema, "maximum")) != NULL && x > json_number_value(bound))
        return false;
    if ((bound = json_object_get(schema, "exclusiveMinimum")) != NULL &&
        x <= json_number_value(bound))
        return false;
    if ((bound = json_object_get(schema, "exclusiveMaximum")) != NULL &&
        x >= json_number_value(bound))
        return false;
    if ((bound = json_object_get(schema, "multipleOf")) == NULL) return true;
    double times = x / json_number_value(bound);
    return isfinite(times) && fabs(times - round(times)) <= 1e-9 * fmax(1, fabs(times) * 1e-6);
}

/* ---- types and values ---- */

static bool is_type(const json_t *value, const char *type)
{
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value) || (json_is_real(value) && is_whole(json_real_value(value)));
    if (strcmp(type, "number") == 0) return json_is_number(value);
    if (strcmp(type, "string") == 0) return json_is_string(value);
    if (strcmp(type, "boolean") == 0) return json_is_boolean(value);
    if (strcmp(type, "null") == 0) return json_is_null(value);
    if (strcmp(type, "array") == 0) return json_is_array(value);
    return strcmp(type, "object") == 0 && json_is_object(value);
}

static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b)) return false;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!same(json_array_get(a, i), json_array_get(b, i))) return false;
        return true;
    }
    if (!json_is_object(a)) return json_equal(a, b) != 0;
    if (json_object_size(a) != json_object_size(b)) return false;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)a, key, member)
    {
        const json_t *other = json_object_get(b, key);
        if (other == NULL || !same(member, other)) return false;
    }
    return true;
}

static bool value_holds(const json_t *schema, const json_t *value)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    const json_t *constant = json_object_get(schema, "const");
    bool found = type == NULL || (json_is_string(type) && is_type(value, json_string_value(type)));
    for (size_t i = 0; json_is_array(type) && i < json_array_size(type); i++)
        found = found || is_type(value, json_string_value(json_array_get(type, i)));
    if (!found) return false;
    found = list == NULL;
    for (size_t i = 0; i < json_array_size(list); i++)
        found = found || same(json_array_get(list, i), value);
    return found && (constant == NULL || same(constant, value));
}

/* ---- arrays and objects ---- */

static bool items_hold(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"),
                 *items = json_object_get(schema, "items");
    const json_t *contains = json_object_get(schema, "contains");
    size_t n = json_array_size(value), contained = 0;
    if (below(schema, "minItems", n) || above(schema, "maxItems", n)) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(prefix, i);
        if (one == NULL) one = items;
        marks none = {{0}};
        if (one != NULL && !holds(j, one, json_array_get(value, i), &none)) return false;
        if (one != NULL) m->seen[i] = true;
        if (contains == NULL || !holds(j, contains, json_array_get(value, i), &none)) continue;
        contained++;
        m->seen[i] = true;
    }
    if (contains != NULL) {
        const json_t *least = json_object_get(schema, "minContains");
        if ((double)contained < (least == NULL ? 1.0 : json_number_value(least))) return false;
        if (above(schema, "maxContains", contained)) return false;
    }
    if (!json_is_true(json_object_get(schema, "uniqueItems"))) return true;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (same(json_array_get(value, i), json_array_get(value, k))) return false;
    return true;
}

static bool member_holds(judge *j, const json_t *schema, const char *key, const json_t *member,
                         bool *seen)
{
    const json_t *one = json_object_get(json_object_get(schema, "properties"), key);
    const json_t *others = json_object_get(schema, "additionalProperties");
    const json_t *names = json_object_get(schema, "propertyNames");
    bool known = one != NULL;
    marks none = {{0}};
    if (one != NULL && !holds(j, one, member, &none)) return false;
    const char *pattern;
    json_t *by_pattern;
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, by_pattern)
    {
        if (!matches(j, pattern, key, strlen(key))) continue;
        known = true;
        if (!holds(j, by_pattern, member, &none)) return false;
    }
    if (!known && others != NULL && !holds(j, others, member, &none)) return false;
    *seen = *seen || known || others != NULL;
    if (names == NULL) return true;
    json_t *name = json_string(key);
    bool fine = holds(j, names, name, &none);
    json_decref(name);
    return fine;
}

static bool dependents_hold(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    const char *key;
    json_t *what;
    json_object_foreach(json_object_get(schema, "dependentRequired"), key, what)
    {
        for (size_t i = 0; json_object_get(value, key) != NULL && i < json_array_size(what); i++)
            if (json_object_get(value, json_string_value(json_array_get(what, i))) == NULL)
                return false;
    }
    json_object_foreach(json_object_get(schema, "dependentSchemas"), key, what)
    {
        if (json_object_get(value, key) != NULL && !part_holds(j, what, value, m)) return false;
    }
    return true;
}

static bool members_hold(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    const json_t *required = json_object_get(schema, "required");
    size_t n = json_object_size(value), i = 0;
    if (below(schema, "minProperties", n) || above(schema, "maxProperties", n)) return false;
    for (size_t k = 0; k < json_array_size(required); k++)
        if (json_object_get(value, json_string_value(json_array_get(required, k))) == NULL)
            return false;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!member_holds(j, schema, key, member, &m->seen[i++])) return false;
    }
    return dependents_hold(j, schema, value, m);
}

/* ---- the same value ---- */

/* Whether it holds; what it evaluated counts only then. */
static bool part_holds(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    marks own = {{0}};
    if (!holds(j, schema, value, &own)) return false;
    for (size_t i = 0; i < sizeof own.seen; i++) m->seen[i] = m->seen[i] || own.seen[i];
    return true;
}

static bool parts_hold(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    const json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf");
    const json_t *one = json_object_get(schema, "oneOf"), *no = json_object_get(schema, "not");
    const json_t *condition = json_object_get(schema, "if");
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    size_t n_any = 0, n_one = 0;
    marks none = {{0}};
    if (reference != NULL && !follow(j, reference, value, m)) return false;
    for (size_t i = 0; i < json_array_size(all); i++)
        if (!part_holds(j, json_array_get(all, i), value, m)) return false;
    for (size_t i = 0; i < json_array_size(any); i++)
        n_any += part_holds(j, json_array_get(any, i), value, m);
    for (size_t i = 0; i < json_array_size(one); i++)
        n_one += part_holds(j, json_array_get(one, i), value, m);
    if ((any != NULL && n_any == 0) || (one != NULL && n_one != 1)) return false;
    if (no != NULL && holds(j, no, value, &none)) return false;
    if (condition == NULL) return true;
    bool yes = part_holds(j, condition, value, m);
    const json_t *then = json_object_get(schema, yes ? "then" : "else");
    return then == NULL || part_holds(j, then, value, m);
}

static bool rest_holds(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    const json_t *items = json_object_get(schema, "unevaluatedItems");
    const json_t *members = json_object_get(schema, "unevaluatedProperties");
    marks none = {{0}};
    for (size_t i = 0; items != NULL && json_is_array(value) && i < json_array_size(value); i++) {
        if (!m->seen[i] && !holds(j, items, json_array_get(value, i), &none)) return false;
        m->seen[i] = true;
    }
    if (members == NULL || !json_is_object(value)) return true;
    size_t i = 0;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!m->seen[i] && !holds(j, members, member, &none)) return false;
        m->seen[i++] = true;
    }
    return true;
}

static bool holds(judge *j, const json_t *schema, const json_t *value, marks *m)
{
    if (json_is_boolean(schema)) return json_is_true(schema);
    if (!json_is_object(schema) || j->unknown || json_object_get(schema, "$dynamicRef") != NULL ||
        json_object_size(value) + json_array_size(value) > sizeof m->seen) {
        j->unknown = true;
        return false;
    }
    j->depth++;
    bool fine = value_holds(schema, value);
    if (fine && json_is_number(value)) fine = number_holds(schema, value);
    if (fine && json_is_string(value)) fine = string_holds(j, schema, value);
    if (fine && json_is_array(value)) fine = items_hold(j, schema, value, m);
    if (fine && json_is_object(value)) fine = members_hold(j, schema, value, m);
    fine = fine && parts_hold(j, schema, value, m) && rest_holds(j, schema, value, m);
    j->depth--;
    return fine;
}

json_schema_answer json_schema_validate(const json_t *schema, const json_t *value, bool formats)
{
    judge j = {schema, formats, false, 0};
    marks m = {{0}};
    bool fine = holds(&j, schema, value, &m);
    if (j.unknown) return JSON_SCHEMA_UNKNOWN;
    return fine ? JSON_SCHEMA_YES : JSON_SCHEMA_NO;
}
