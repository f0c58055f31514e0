/* tools.c - reading tools, and values by their types. */
#include "chat/tools.h"

#include <string.h>

#include "chat/json_scan.h"

/* How deep types are looked for through anyOf and its like. */
enum { TYPES_DEPTH = 8 };

static const struct {
    const char *name;
    uint32_t type;
} TYPES[] = {{"null", TOOL_NULL},     {"boolean", TOOL_BOOL}, {"integer", TOOL_INT},
             {"number", TOOL_NUMBER}, {"string", TOOL_TEXT},  {"array", TOOL_ARRAY},
             {"object", TOOL_OBJECT}};

enum { N_TYPES = sizeof TYPES / sizeof TYPES[0] };

static uint32_t type_of_name(str name)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (str_equal_text(name, TYPES[i].name)) return TYPES[i].type;
    }
    return TOOL_ANY;
}

static uint32_t type_of_value(const json *value)
{
    switch (json_kind_of(value)) {
    case JSON_KIND_NULL:
        return TOOL_NULL;
    case JSON_KIND_BOOL:
        return TOOL_BOOL;
    case JSON_KIND_INT:
        return TOOL_INT;
    case JSON_KIND_REAL:
        return TOOL_NUMBER;
    case JSON_KIND_TEXT:
        return TOOL_TEXT;
    case JSON_KIND_ARRAY:
        return TOOL_ARRAY;
    default:
        return TOOL_OBJECT;
    }
}

static uint32_t types_of(const json *schema, const json *root, uint32_t depth);

/* Of any (or, of allOf, each) of an array of schemas. */
static uint32_t types_of_list(const json *list, const json *root, bool all, uint32_t depth)
{
    uint32_t types = all ? TOOL_ANY : 0;
    for (size_t i = 0; i < json_length(list); i++) {
        uint32_t one = types_of(json_at(list, i), root, depth);
        types = all ? types & one : types | one;
    }
    return types;
}

/* What "#/$defs/name" and its like mean; NULL: something else. */
static const json *definition(const json *root, str reference)
{
    static const char *const PLACES[] = {"$defs", "definitions"};
    json_iter it;
    str name;
    const json *value;
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(PLACES[i]) + 3;
        if (reference.len <= n || !str_starts(reference, "#/") || reference.ptr[n - 1] != '/' ||
            memcmp(reference.ptr + 2, PLACES[i], n - 3) != 0)
            continue;
        it = (json_iter){NULL};
        while (json_next(json_get(root, PLACES[i]), &it, &name, &value)) {
            if (str_equal(name, (str){reference.ptr + n, reference.len - n})) return value;
        }
    }
    return NULL;
}

static uint32_t types_of(const json *schema, const json *root, uint32_t depth)
{
    uint32_t types = TOOL_ANY, named = 0;
    if (depth == 0 || json_kind_of(schema) != JSON_KIND_OBJECT) return TOOL_ANY;
    const json *type = json_get(schema, "type");
    const json *meant = definition(root, json_text(json_get(schema, "$ref")));
    if (meant != NULL) types &= types_of(meant, root, depth - 1);
    if (json_kind_of(type) == JSON_KIND_TEXT) named = type_of_name(json_text(type));
    for (size_t i = 0; json_kind_of(type) == JSON_KIND_ARRAY && i < json_length(type); i++)
        named |= type_of_name(json_text(json_at(type, i)));
    if (named != 0) types &= named;
    const json *values = json_get(schema, "enum"), *list;
    uint32_t valued = 0;
    for (size_t i = 0; json_kind_of(values) == JSON_KIND_ARRAY && i < json_length(values); i++)
        valued |= type_of_value(json_at(values, i));
    if (json_get(schema, "const") != NULL) valued |= type_of_value(json_get(schema, "const"));
    if ((valued & types) != 0) types &= valued;
    list = json_get(schema, "anyOf");
    if (json_length(list) > 0) types &= types_of_list(list, root, false, depth - 1);
    list = json_get(schema, "oneOf");
    if (json_length(list) > 0) types &= types_of_list(list, root, false, depth - 1);
    list = json_get(schema, "allOf");
    if (json_length(list) > 0) types &= types_of_list(list, root, true, depth - 1);
    if (json_bool(json_get(schema, "nullable"), false)) types |= TOOL_NULL;
    return types != 0 ? types : TOOL_ANY;
}

uint32_t tool_types_of(const json *schema, const json *parameters)
{
    return types_of(schema, parameters, TYPES_DEPTH);
}

/* ---- the list -------------------------------------------------------------------------------- */

bool tool_name_ok(str name)
{
    if (name.len == 0 || name.len > WEFT_CHAT_NAME_BYTES) return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c <= 0x20 || c == 0x7f || strchr("\"'`<>{}[]()\\|,;=", c) != NULL) return false;
    }
    return true;
}

static weft_status no_memory(weft_error *err)
{
    return err_set(err, WEFT_NOMEM, "out of memory for tools");
}

static str keep(arena *memory, str text)
{
    return (str){arena_copy_text(memory, text.ptr, text.len), text.len};
}

static weft_status read_parameters(tool_list *tools, tool *t, const json *parameters,
                                   const json *properties, weft_error *err)
{
    json_iter it = {NULL};
    str name;
    const json *schema;
    t->parameters = arena_array(&tools->memory, json_length(properties), sizeof *t->parameters);
    if (t->parameters == NULL) return no_memory(err);
    while (json_next(properties, &it, &name, &schema)) {
        tool_parameter *p = &t->parameters[t->n_parameters++];
        *p = (tool_parameter){keep(&tools->memory, name), tool_types_of(schema, parameters)};
        if (p->name.ptr == NULL) return no_memory(err);
    }
    return WEFT_OK;
}

static weft_status read_tool(tool_list *tools, const json *from, weft_error *err)
{
    const json *function = json_get(from, "function");
    if (json_kind_of(from) != JSON_KIND_OBJECT || json_kind_of(function) != JSON_KIND_OBJECT)
        return err_set(err, WEFT_ARGUMENT, "it is no object with an object \"function\"");
    const json *type = json_get(from, "type"), *parameters = json_get(function, "parameters");
    if (type != NULL && !str_equal_text(json_text(type), "function"))
        return err_set(err, WEFT_ARGUMENT, "its \"type\" is not \"function\"");
    str name = json_text(json_get(function, "name"));
    if (!tool_name_ok(name)) {
        return err_set(err, WEFT_ARGUMENT, "its name '%.*s' is not one of 1 to %d plain characters",
                       (int)(name.len < 40 ? name.len : 40), name.ptr, WEFT_CHAT_NAME_BYTES);
    }
    if (tool_list_find(tools, name) != NULL)
        return err_set(err, WEFT_ARGUMENT, "'%.*s' was there before", (int)name.len, name.ptr);
    if (parameters != NULL && json_kind_of(parameters) != JSON_KIND_OBJECT &&
        json_kind_of(parameters) != JSON_KIND_NULL) {
        return err_set(err, WEFT_ARGUMENT, "'%.*s': \"parameters\" is %s, expected an object",
                       (int)name.len, name.ptr, json_kind_name(json_kind_of(parameters)));
    }
    tool *t = &tools->items[tools->n];
    *t = (tool){.name = keep(&tools->memory, name)};
    t->strict = json_bool(json_get(function, "strict"), false);
    if (t->name.ptr == NULL) return no_memory(err);
    tools->n++;
    const json *properties = json_get(parameters, "properties");
    if (json_kind_of(properties) != JSON_KIND_OBJECT) return WEFT_OK;
    return read_parameters(tools, t, parameters, properties, err);
}

weft_status tool_list_init(tool_list *tools, const weft_allocator *allocator, const json *array,
                           weft_error *err)
{
    *tools = (tool_list){.n = 0};
    arena_init(&tools->memory, allocator, 0);
    if (json_kind_of(array) == JSON_KIND_NULL) return WEFT_OK;
    if (json_kind_of(array) != JSON_KIND_ARRAY) {
        return err_set(err, WEFT_ARGUMENT, "tools are %s, expected an array",
                       json_kind_name(json_kind_of(array)));
    }
    size_t n = json_length(array);
    if (n > WEFT_CHAT_TOOLS)
        return err_set(err, WEFT_LIMIT, "there are %zu tools, at most %d may be", n,
                       WEFT_CHAT_TOOLS);
    tools->items = arena_array(&tools->memory, n, sizeof *tools->items);
    weft_status status = tools->items != NULL ? WEFT_OK : no_memory(err);
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        status = read_tool(tools, json_at(array, i), err);
        if (status != WEFT_OK) err_context(err, "tool %zu: ", i);
    }
    if (status != WEFT_OK) tool_list_deinit(tools);
    return status;
}

void tool_list_deinit(tool_list *tools)
{
    arena_deinit(&tools->memory);
    *tools = (tool_list){.n = 0};
}

const tool *tool_list_find(const tool_list *tools, str name)
{
    for (size_t i = 0; i < tools->n; i++) {
        if (str_equal(tools->items[i].name, name)) return &tools->items[i];
    }
    return NULL;
}

uint32_t tool_types(const tool *t, str parameter)
{
    for (size_t i = 0; t != NULL && i < t->n_parameters; i++) {
        if (str_equal(t->parameters[i].name, parameter)) return t->parameters[i].types;
    }
    return TOOL_TEXT;
}

/* ---- values ---------------------------------------------------------------------------------- */

static str trimmed(str text)
{
    while (text.len > 0 && (unsigned char)text.ptr[0] <= ' ') {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ') text.len--;
    return text;
}

static weft_status write_raw(str text, strbuf *out)
{
    json_scan s;
    weft_status status = WEFT_OK;
    json_scan_init(&s);
    for (size_t i = 0; i < text.len && status == WEFT_OK; i++) {
        bool in_text = json_scan_in_text(&s);
        (void)json_scan_push(&s, text.ptr[i]);
        status = json_scan_write(in_text, text.ptr[i], out);
    }
    return status;
}

static weft_status write_text(str text, strbuf *out)
{
    weft_status status = strbuf_add_char(out, '"');
    for (size_t i = 0; i < text.len && status == WEFT_OK; i++)
        status = json_scan_escape(text.ptr[i], out);
    return status == WEFT_OK ? strbuf_add_char(out, '"') : status;
}

/* The digits before the point of a JSON number without an exponent whose places behind it are all
 * 0; nothing when it is no whole number. */
static str whole_part(str number)
{
    const char *point = memchr(number.ptr, '.', number.len);
    size_t n = point == NULL ? number.len : (size_t)(point - number.ptr);
    for (size_t i = 0; i < number.len; i++) {
        if (number.ptr[i] == 'e' || number.ptr[i] == 'E') return (str){NULL, 0};
        if (i > n && number.ptr[i] != '0') return (str){NULL, 0};
    }
    return (str){number.ptr, n};
}

/* As Python has them, too. */
static const char *word_of(str text, uint32_t types)
{
    static const struct {
        const char *name, *value;
        uint32_t type;
    } WORDS[] = {{"true", "true", TOOL_BOOL},   {"false", "false", TOOL_BOOL},
                 {"null", "null", TOOL_NULL},   {"True", "true", TOOL_BOOL},
                 {"False", "false", TOOL_BOOL}, {"None", "null", TOOL_NULL}};
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if ((types & WORDS[i].type) != 0 && str_equal_text(text, WORDS[i].name))
            return WORDS[i].value;
    }
    return NULL;
}

weft_status tool_write_value(str text, uint32_t types, strbuf *out)
{
    str bare = trimmed(text);
    const char *word = word_of(bare, types);
    char first = bare.len > 0 ? bare.ptr[0] : '\0';
    bool number = first == '-' || (first >= '0' && first <= '9');
    if (word != NULL) return strbuf_add_text(out, word);
    if (number && (types & (TOOL_INT | TOOL_NUMBER)) != 0 && json_scan_all(bare)) {
        str whole = whole_part(bare);
        if ((types & TOOL_INT) != 0 && (types & TOOL_NUMBER) == 0 && whole.len > 0) bare = whole;
        return strbuf_add(out, bare.ptr, bare.len);
    }
    bool nested =
        (first == '{' && (types & TOOL_OBJECT) != 0) || (first == '[' && (types & TOOL_ARRAY) != 0);
    if (nested && json_scan_all(bare)) return write_raw(bare, out);
    return write_text(text, out);
}
