/* schema_node.c - schemas by their place in the document, and what references name. Source: JSON
 * Schema core 2020-12, sections 8 and 9; RFC 3986 for references, RFC 6901 for pointers. */
#include <stdio.h>
#include <string.h>

#include "grammar/schema.h"

enum { POINTER_SHOWN = 120, URI_BYTES = 2048 };

void *schema_grow(schema *s, void *array, uint32_t n, uint32_t *room, size_t size)
{
    if (n < *room) return array;
    uint32_t grown = *room == 0 ? 8 : *room * 2;
    void *moved = program_alloc(s->p, grown, size);
    if (moved == NULL) return NULL;
    if (n != 0) memcpy(moved, array, n * size);
    *room = grown;
    return moved;
}

void schema_fail(schema *s, uint32_t at, const char *keyword, weft_status status, const char *why)
{
    const char *pointer = s->nodes[at]->pointer;
    size_t len = strlen(pointer), skipped = len > POINTER_SHOWN ? len - POINTER_SHOWN : 0;
    program_fail(s->p, status, "schema at '%s%s%s%s' %s", skipped != 0 ? "..." : "",
                 pointer + skipped, *keyword == '\0' ? "" : "/", keyword, why);
}

void schema_place(schema *s, uint32_t at)
{
    weft_error *err = s->p->err;
    if (s->p->status == WEFT_OK || s->p->status == WEFT_NOMEM || err == NULL) return;
    if (strstr(err->message, "schema at '") != NULL) return;
    const char *pointer = s->nodes[at]->pointer;
    size_t len = strlen(pointer), skipped = len > POINTER_SHOWN ? len - POINTER_SHOWN : 0;
    err_context(err, "schema at '%s%s': ", skipped != 0 ? "..." : "", pointer + skipped);
}

static str address_key(const json *const *value)
{
    return (str){(const char *)value, sizeof(json *)};
}

static uint32_t resource_at(const schema *s, const json *value, uint32_t otherwise)
{
    for (uint32_t i = 0; i < s->n_resources; i++)
        if (s->resources[i].value == value) return i;
    return otherwise;
}

uint32_t schema_node_of(schema *s, const json *value, uint32_t resource_i, const char *pointer)
{
    if (s->p->status != WEFT_OK) return 0;
    uint32_t found = map_get(&s->node_of, address_key(&value));
    if (found != MAP_NONE) return found;
    if (s->n_nodes == SCHEMA_NODES) {
        program_fail(s->p, WEFT_LIMIT, "more than %d schemas in a schema", SCHEMA_NODES);
        return 0;
    }
    schema_node **nodes =
        schema_grow(s, s->nodes, s->n_nodes, &s->node_room, sizeof(schema_node *));
    schema_node *node = program_alloc(s->p, 1, sizeof *node);
    if (nodes == NULL || node == NULL) return 0;
    s->nodes = nodes;
    *node = (schema_node){.value = value, .pointer = pointer};
    node->resource = resource_at(s, value, resource_i);
    weft_status status =
        map_put(&s->node_of, address_key(&node->value), s->n_nodes, NULL, s->p->err);
    if (status != WEFT_OK) {
        s->p->status = status;
        return 0;
    }
    nodes[s->n_nodes] = node;
    return s->n_nodes++;
}

char *schema_item_name(schema *s, size_t i)
{
    char *name = program_alloc(s->p, 24, 1);
    if (name != NULL) snprintf(name, 24, "%zu", i);
    return name;
}

/* parent/key or parent/key/item. */
static char *join_pointer(schema *s, const char *parent, str key, const char *item)
{
    const char *slash = item == NULL ? "" : "/", *last = item == NULL ? "" : item;
    size_t n_bytes = strlen(parent) + key.len + strlen(last) + 3;
    char *text = program_alloc(s->p, n_bytes, 1);
    if (text != NULL)
        snprintf(text, n_bytes, "%s/%.*s%s%s", parent, (int)key.len, key.ptr, slash, last);
    return text;
}

uint32_t schema_child(schema *s, uint32_t parent, const json *value, str key, const char *item)
{
    const schema_node *above = s->nodes[parent];
    uint32_t found = map_get(&s->node_of, address_key(&value));
    if (found != MAP_NONE) return found;
    char *pointer = join_pointer(s, above->pointer, key, item);
    return pointer == NULL ? 0 : schema_node_of(s, value, above->resource, pointer);
}

/* ---- URIs ---- */

typedef struct uri {
    char text[URI_BYTES];
    size_t len;
} uri;

static bool has_scheme(str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == ':') return i > 0;
        if (c == '/' || c == '?' || c == '#') return false;
    }
    return false;
}

static bool append(uri *u, str part)
{
    if (part.len > URI_BYTES - u->len) return false;
    if (part.len != 0) memcpy(u->text + u->len, part.ptr, part.len);
    u->len += part.len;
    return true;
}

/* Bytes of a URI before its path: scheme and authority. */
static size_t path_start(str u)
{
    size_t at = 0;
    if (has_scheme(u)) at = (size_t)((const char *)memchr(u.ptr, ':', u.len) - u.ptr) + 1;
    if (u.len >= at + 2 && u.ptr[at] == '/' && u.ptr[at + 1] == '/') {
        at += 2;
        while (at < u.len && u.ptr[at] != '/') at++;
    }
    return at;
}

/* Takes "." and ".." out of a path. */
static void remove_dots(uri *u)
{
    size_t start = path_start((str){u->text, u->len}), out = start, at = start;
    while (at < u->len) {
        size_t end = at + 1;
        while (end < u->len && u->text[end] != '/') end++;
        str part = {u->text + at, end - at};
        bool last = end == u->len;
        if (str_equal_text(part, "/..") || str_equal_text(part, "/.")) {
            if (part.len == 3) {
                while (out > start && u->text[out - 1] != '/') out--;
                if (out > start) out--;
            }
            if (last) u->text[out++] = '/';
        } else {
            memmove(u->text + out, u->text + at, part.len);
            out += part.len;
        }
        at = end;
    }
    u->len = out;
}

/* reference without its fragment, seen from base. */
static bool resolve(str base, str reference, uri *u)
{
    u->len = 0;
    if (reference.len == 0) return append(u, base);
    if (has_scheme(reference)) return append(u, reference);
    size_t kept;
    if (reference.len >= 2 && memcmp(reference.ptr, "//", 2) == 0) {
        kept = has_scheme(base)
                   ? (size_t)((const char *)memchr(base.ptr, ':', base.len) - base.ptr) + 1
                   : 0;
    } else if (reference.ptr[0] == '/') {
        kept = path_start(base);
    } else {
        kept = base.len;
        while (kept > path_start(base) && base.ptr[kept - 1] != '/') kept--;
    }
    if (!append(u, (str){base.ptr, kept})) return false;
    if (kept == path_start(base) && kept != 0 && reference.ptr[0] != '/' && !append(u, str_of("/")))
        return false;
    if (!append(u, reference)) return false;
    remove_dots(u);
    return true;
}

static str before_fragment(str reference, str *fragment)
{
    const char *hash = reference.len == 0 ? NULL : memchr(reference.ptr, '#', reference.len);
    *fragment = (str){"", 0};
    if (hash == NULL) return reference;
    size_t n = (size_t)(hash - reference.ptr);
    *fragment = (str){hash + 1, reference.len - n - 1};
    return (str){reference.ptr, n};
}

/* ---- the index ---- */

typedef enum place_kind { PLACE_SCHEMA, PLACE_LIST, PLACE_MAP } place_kind;

static const struct {
    const char *keyword;
    place_kind kind;
} PLACES[] = {
    {"$defs", PLACE_MAP},
    {"definitions", PLACE_MAP},
    {"properties", PLACE_MAP},
    {"patternProperties", PLACE_MAP},
    {"dependentSchemas", PLACE_MAP},
    {"allOf", PLACE_LIST},
    {"anyOf", PLACE_LIST},
    {"oneOf", PLACE_LIST},
    {"prefixItems", PLACE_LIST},
    {"items", PLACE_SCHEMA},
    {"additionalProperties", PLACE_SCHEMA},
    {"propertyNames", PLACE_SCHEMA},
    {"contains", PLACE_SCHEMA},
    {"not", PLACE_SCHEMA},
    {"if", PLACE_SCHEMA},
    {"then", PLACE_SCHEMA},
    {"else", PLACE_SCHEMA},
    {"unevaluatedItems", PLACE_SCHEMA},
    {"unevaluatedProperties", PLACE_SCHEMA},
};

static void add_anchor(schema *s, uint32_t resource_i, const json *value, const char *keyword)
{
    const json *name = json_get(value, keyword);
    if (json_kind_of(name) != JSON_KIND_TEXT) return;
    anchor *anchors = schema_grow(s, s->anchors, s->n_anchors, &s->anchor_room, sizeof *anchors);
    if (anchors == NULL) return;
    s->anchors = anchors;
    anchors[s->n_anchors++] = (anchor){resource_i, json_text(name), value};
}

static void add_resource(schema *s, uint32_t base, str id, const json *value)
{
    str fragment, reference = before_fragment(id, &fragment);
    uri u;
    resource *list = schema_grow(s, s->resources, s->n_resources, &s->resource_room, sizeof *list);
    if (list == NULL) return;
    s->resources = list;
    str from = s->n_resources == 0 ? (str){"", 0} : list[base].uri;
    if (!resolve(from, reference, &u)) {
        program_fail(s->p, WEFT_LIMIT, "an $id of more than %d bytes", URI_BYTES);
        return;
    }
    char *copy = arena_copy_text(s->p->memory, u.text, u.len);
    if (copy == NULL) {
        program_fail(s->p, WEFT_NOMEM, "out of memory for an $id");
        return;
    }
    list[s->n_resources++] = (resource){{copy, u.len}, value};
}

/* Depth is bounded by that of a document. */
static void index_schema(schema *s, const json *value, uint32_t resource_i)
{
    if (json_kind_of(value) != JSON_KIND_OBJECT || s->p->status != WEFT_OK) return;
    const json *id = json_get(value, "$id");
    if (json_kind_of(id) == JSON_KIND_TEXT && s->n_resources > 0 &&
        value != s->resources[0].value) {
        add_resource(s, resource_i, json_text(id), value);
        resource_i = s->n_resources - 1;
    }
    if (s->p->status != WEFT_OK) return;
    add_anchor(s, resource_i, value, "$anchor");
    add_anchor(s, resource_i, value, "$dynamicAnchor");
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        const json *child = json_get(value, PLACES[i].keyword);
        if (child == NULL) continue;
        if (PLACES[i].kind == PLACE_SCHEMA) index_schema(s, child, resource_i);
        for (size_t k = 0; PLACES[i].kind == PLACE_LIST && k < json_length(child); k++)
            index_schema(s, json_at(child, k), resource_i);
        json_iter it = {NULL};
        str key;
        const json *member;
        while (PLACES[i].kind == PLACE_MAP && json_next(child, &it, &key, &member))
            index_schema(s, member, resource_i);
    }
}

bool schema_index(schema *s, const json *root)
{
    const json *id = json_get(root, "$id");
    add_resource(s, 0, json_kind_of(id) == JSON_KIND_TEXT ? json_text(id) : (str){"", 0}, root);
    if (s->p->status == WEFT_OK) index_schema(s, root, 0);
    return s->p->status == WEFT_OK;
}

/* ---- references ---- */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-encoding, in place. */
static size_t decode_percent(char *text, size_t len)
{
    size_t out = 0;
    for (size_t i = 0; i < len; i++) {
        bool coded =
            text[i] == '%' && i + 2 < len && hex_of(text[i + 1]) >= 0 && hex_of(text[i + 2]) >= 0;
        text[out++] = coded ? (char)(hex_of(text[i + 1]) * 16 + hex_of(text[i + 2])) : text[i];
        if (coded) i += 2;
    }
    return out;
}

/* The next part of a pointer, ~0 and ~1 resolved in place; *at stands behind it afterwards. */
static str pointer_part(char *text, size_t len, size_t *at)
{
    size_t first = *at, out = first;
    while (*at < len && text[*at] != '/') {
        char c = text[*at];
        if (c == '~' && *at + 1 < len) {
            ++*at;
            c = text[*at] == '1' ? '/' : '~';
        }
        text[out++] = c;
        ++*at;
    }
    return (str){text + first, out - first};
}

static const json *member_of(const json *object, str key)
{
    json_iter it = {NULL};
    str name;
    const json *value;
    while (json_next(object, &it, &name, &value))
        if (str_equal(name, key)) return value;
    return NULL;
}

static const json *element_of(const json *array, str index)
{
    size_t i = 0;
    if (index.len == 0 || index.len > 9) return NULL;
    for (size_t k = 0; k < index.len; k++) {
        if (index.ptr[k] < '0' || index.ptr[k] > '9') return NULL;
        i = i * 10 + (size_t)(index.ptr[k] - '0');
    }
    return i < json_length(array) ? json_at(array, i) : NULL;
}

/* fragment is the node's own copy. */
static const json *follow(schema *s, uint32_t *resource_i, char *fragment, size_t len)
{
    if (len > 0 && fragment[0] != '/') {
        str name = {fragment, len};
        for (uint32_t i = 0; i < s->n_anchors; i++)
            if (s->anchors[i].resource == *resource_i && str_equal(s->anchors[i].name, name))
                return s->anchors[i].value;
        return NULL;
    }
    const json *value = s->resources[*resource_i].value;
    for (size_t at = 0; at < len && value != NULL;) {
        at++; /* the slash */
        str part = pointer_part(fragment, len, &at);
        if (json_kind_of(value) == JSON_KIND_ARRAY) {
            value = element_of(value, part);
        } else {
            value = member_of(value, part);
        }
        *resource_i = resource_at(s, value, *resource_i);
    }
    return value;
}

uint32_t schema_resolve(schema *s, uint32_t from, str reference)
{
    str fragment, rest = before_fragment(reference, &fragment);
    uint32_t resource_i = s->nodes[from]->resource;
    uri u;
    if (rest.len != 0) {
        bool fits = resolve(s->resources[resource_i].uri, rest, &u);
        uint32_t i = 0;
        while (i < s->n_resources &&
               !(fits && str_equal(s->resources[i].uri, (str){u.text, u.len})))
            i++;
        if (i == s->n_resources) {
            schema_fail(s, from, "$ref", WEFT_UNSUPPORTED,
                        "names another document: nothing is fetched");
            return 0;
        }
        resource_i = i;
    }
    char *pointer = arena_copy_text(s->p->memory, fragment.ptr, fragment.len);
    char *copy = arena_copy_text(s->p->memory, fragment.ptr, fragment.len);
    if (pointer == NULL || copy == NULL) {
        program_fail(s->p, WEFT_NOMEM, "out of memory for a reference");
        return 0;
    }
    size_t len = decode_percent(copy, fragment.len);
    const json *value = follow(s, &resource_i, copy, len);
    if (value == NULL) {
        schema_fail(s, from, "$ref", WEFT_FORMAT, "names nothing in the document");
        return 0;
    }
    return schema_node_of(s, value, resource_i, pointer);
}
