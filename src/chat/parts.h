/* parts.h - the parts of an answer that have been found and not yet handed out. */
#ifndef CHAT_PARTS_H
#define CHAT_PARTS_H

#include "base/str.h"

typedef struct part_item {
    weft_part_kind kind;
    uint32_t call;
    size_t first, n_bytes; /* of the list's text */
} part_item;

typedef struct part_list {
    const weft_allocator *allocator; /* borrowed */
    part_item *items;                /* [n], from next on to be handed out */
    size_t n, next, capacity;
    strbuf text;
    bool failed; /* memory was refused: what is here is not all */
} part_list;

void part_list_init(part_list *list, const weft_allocator *allocator);
void part_list_deinit(part_list *list);

/* Text joins the part before it when that is of the same kind and call. */
void part_list_add(part_list *list, weft_part_kind kind, uint32_t call, const char *bytes,
                   size_t n_bytes);

/* NONE when there is no more; text is borrowed until something is added. */
weft_part part_list_next(part_list *list);

#endif
