/* fuzz_dialects.c - a byte that chooses a dialect, one of flags, and an answer: its parts are the
 * same whole and byte by byte, and the arguments of every complete call are a JSON object. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/parser.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char TOOLS[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
    "\"integer\"}, \"o\": {\"type\": \"object\"}, \"s\": {\"type\": \"string\"}, \"u\": {}}}}}]";

enum { ONE_BY_ONE = 1, NO_CALLS = 2, IN_REASONING = 4, CUT = 8, ONE_CALL = 16 };

typedef struct heard {
    strbuf all, arguments;
    int last;
    uint32_t n_calls;
    bool open;
} heard;

static bool is_text(weft_part_kind kind)
{
    return kind == WEFT_PART_CONTENT || kind == WEFT_PART_REASONING || kind == WEFT_PART_ARGUMENTS;
}

static void take(heard *h, const weft_part *part, bool valid)
{
    if (!is_text(part->kind) || h->last != (int)part->kind)
        (void)strbuf_printf(&h->all, "\n%d:%u ", (int)part->kind, part->call);
    (void)strbuf_add(&h->all, part->text, part->n_bytes);
    h->last = (int)part->kind;
    switch (part->kind) {
    case WEFT_PART_CALL:
        ASSERT(!h->open && part->call == h->n_calls && part->n_bytes > 0);
        h->open = true;
        h->n_calls++;
        strbuf_clear(&h->arguments);
        break;
    case WEFT_PART_ARGUMENTS:
        ASSERT(h->open);
        (void)strbuf_add(&h->arguments, part->text, part->n_bytes);
        break;
    case WEFT_PART_CALL_END: {
        str text = {strbuf_text(&h->arguments), h->arguments.len};
        ASSERT(h->open && text.len > 0 && text.ptr[0] == '{' && (!valid || json_scan_all(text)));
        h->open = false;
        break;
    }
    case WEFT_PART_CALL_UNDONE:
        ASSERT(h->open);
        h->open = false;
        break;
    default:
        break;
    }
}

static void hear(const chat_reading *how, str text, uint32_t flags, heard *h)
{
    chat_parser p;
    bool valid = utf8_valid(text.ptr, text.len);
    weft_error err = {.status = WEFT_OK};
    *h = (heard){.last = 0};
    strbuf_init(&h->all, mem_system(), 0);
    strbuf_init(&h->arguments, mem_system(), 0);
    chat_parser_init(&p, mem_system(), how);
    size_t step = (flags & ONE_BY_ONE) != 0 ? 1 : text.len;
    for (size_t at = 0; at < text.len; at += step) {
        ASSERT(chat_parser_push(&p, (str){text.ptr + at, step}, &err) == WEFT_OK);
        for (weft_part part; (part = chat_parser_next(&p)).kind != WEFT_PART_NONE;)
            take(h, &part, valid);
    }
    weft_finish finish = (flags & CUT) != 0 ? WEFT_FINISH_LENGTH : WEFT_FINISH_STOP;
    ASSERT(chat_parser_end(&p, finish, &err) == WEFT_OK);
    for (weft_part part; (part = chat_parser_next(&p)).kind != WEFT_PART_NONE;)
        take(h, &part, valid);
    ASSERT(!h->open || (flags & CUT) != 0);
    chat_parser_deinit(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) return 0;
    uint32_t n_rows, flags = data[1];
    const dialect *d = dialect_table(&n_rows)[data[0] % n_rows];
    json_doc doc = {NULL};
    tool_list tools;
    ASSERT(json_parse(&doc, TOOLS, strlen(TOOLS), NULL) == WEFT_OK);
    ASSERT(tool_list_init(&tools, mem_system(), doc.root, NULL) == WEFT_OK);
    chat_reading how = {.dialect = d,
                        .think_open = d->think_open != NULL ? d->think_open : "<think>",
                        .think_close = d->think_close != NULL ? d->think_close : "</think>",
                        .tools = &tools,
                        .calls = (flags & NO_CALLS) == 0 && d->form != NULL,
                        .one_call = (flags & ONE_CALL) != 0,
                        .in_reasoning = (flags & IN_REASONING) != 0};
    str text = {malloc(n_bytes - 1), n_bytes - 2};
    ASSERT(text.ptr != NULL);
    memcpy((char *)(uintptr_t)text.ptr, data + 2, text.len);
    heard whole, pieces;
    hear(&how, text, flags & ~(uint32_t)ONE_BY_ONE, &whole);
    hear(&how, text, flags | ONE_BY_ONE, &pieces);
    ASSERT(whole.all.len == pieces.all.len);
    ASSERT(whole.all.len == 0 || memcmp(whole.all.ptr, pieces.all.ptr, whole.all.len) == 0);
    strbuf_deinit(&whole.all);
    strbuf_deinit(&whole.arguments);
    strbuf_deinit(&pieces.all);
    strbuf_deinit(&pieces.arguments);
    free((char *)(uintptr_t)text.ptr);
    tool_list_deinit(&tools);
    json_doc_free(&doc);
    return 0;
}
