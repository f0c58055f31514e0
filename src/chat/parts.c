/* parts.c - a list that is filled by a push and emptied before the next, as a rule. */
#include "chat/parts.h"

#include <string.h>

void part_list_init(part_list *list, const weft_allocator *allocator)
{
    *list = (part_list){.allocator = allocator};
    strbuf_init(&list->text, allocator, 0);
}

void part_list_deinit(part_list *list)
{
    mem_free(list->allocator, list->items, list->capacity * sizeof *list->items);
    strbuf_deinit(&list->text);
    *list = (part_list){0};
}

static bool is_text(weft_part_kind kind)
{
    return kind == WEFT_PART_CONTENT || kind == WEFT_PART_REASONING || kind == WEFT_PART_ARGUMENTS;
}

static bool grow(part_list *list)
{
    size_t capacity = list->capacity < 8 ? 8 : 2 * list->capacity;
    part_item *items = mem_resize(list->allocator, list->items, list->capacity * sizeof *items,
                                  capacity * sizeof *items);
    if (items == NULL) return false;
    list->items = items;
    list->capacity = capacity;
    return true;
}

void part_list_add(part_list *list, weft_part_kind kind, uint32_t call, const char *bytes,
                   size_t n_bytes)
{
    if (list->failed || (is_text(kind) && n_bytes == 0)) return;
    if (list->next == list->n) {
        list->n = list->next = 0;
        strbuf_clear(&list->text);
    }
    part_item *last = list->next < list->n ? &list->items[list->n - 1] : NULL;
    bool joins = last != NULL && is_text(kind) && last->kind == kind && last->call == call;
    size_t first = list->text.len;
    list->failed = (!joins && list->n == list->capacity && !grow(list)) ||
                   strbuf_add(&list->text, bytes, n_bytes) != WEFT_OK;
    if (list->failed) return;
    if (joins) {
        last->n_bytes += n_bytes;
    } else {
        list->items[list->n++] = (part_item){kind, call, first, n_bytes};
    }
}

weft_part part_list_next(part_list *list)
{
    weft_part out = {.struct_size = sizeof out, .text = ""};
    if (list->failed || list->next == list->n) return out;
    const part_item *p = &list->items[list->next++];
    out.kind = p->kind;
    out.call = p->call;
    out.n_bytes = p->n_bytes;
    if (p->n_bytes > 0) out.text = list->text.ptr + p->first;
    return out;
}
