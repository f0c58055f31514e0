/* call.c - what the forms of calls share. */
#include "chat/call.h"

#include <string.h>

void call_reader_init(call_reader *r, const weft_allocator *allocator)
{
    *r = (call_reader){.phase = 0};
    strbuf_init(&r->name, allocator, 0);
    strbuf_init(&r->word, allocator, 0);
    strbuf_init(&r->value, allocator, 0);
    strbuf_init(&r->arguments, allocator, 0);
    strbuf_init(&r->seen, allocator, 0);
}

void call_reader_deinit(call_reader *r)
{
    strbuf_deinit(&r->name);
    strbuf_deinit(&r->word);
    strbuf_deinit(&r->value);
    strbuf_deinit(&r->arguments);
    strbuf_deinit(&r->seen);
}

void call_reader_reset(call_reader *r)
{
    r->announced = r->named = r->has_arguments = r->escaped = r->text_parameter = false;
    r->phase = r->n_nested = 0;
    r->n_parameters = 0;
    r->tool = NULL;
    strbuf_clear(&r->name);
    strbuf_clear(&r->word);
    strbuf_clear(&r->value);
    strbuf_clear(&r->arguments);
    strbuf_clear(&r->seen);
}

void call_put(call_reader *r, strbuf *text, char c)
{
    if (strbuf_add_char(text, c) != WEFT_OK) r->parts->failed = true;
}

bool call_word_ends(const call_reader *r, const char *with)
{
    return str_ends(call_text(&r->word), with);
}

str call_trim(str text)
{
    while (text.len > 0 && call_is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && call_is_space(text.ptr[text.len - 1])) text.len--;
    return text;
}

bool call_set_name(call_reader *r, str name)
{
    name = call_trim(name);
    strbuf_clear(&r->name);
    if (strbuf_add(&r->name, name.ptr, name.len) != WEFT_OK) r->parts->failed = true;
    r->named = true;
    r->tool = tool_list_find(r->tools, name);
    return tool_name_ok(name) && (r->tool != NULL || !r->known_only);
}

bool call_announce(call_reader *r)
{
    if (r->announced) return true;
    if (!r->named || r->n_calls == WEFT_CHAT_CALLS) return false;
    part_list_add(r->parts, WEFT_PART_CALL, r->n_calls, r->name.ptr, r->name.len);
    r->announced = true;
    return true;
}

void call_give(call_reader *r, str arguments)
{
    part_list_add(r->parts, WEFT_PART_ARGUMENTS, r->n_calls, arguments.ptr, arguments.len);
}

void call_finish(call_reader *r)
{
    part_list_add(r->parts, WEFT_PART_CALL_END, r->n_calls, "", 0);
    r->n_calls++;
    r->announced = false;
    r->completed = true;
}
