/* token_list.h - appending to the list that tokenizer.h declares. */
#ifndef TOKENIZER_TOKEN_LIST_H
#define TOKENIZER_TOKEN_LIST_H

#include "tokenizer/tokenizer.h"

/* NOMEM leaves the list as it was. */
weft_status token_list_add(token_list *list, int32_t id, weft_error *err);
weft_status token_list_add_all(token_list *list, const int32_t *ids, size_t n_ids, weft_error *err);

#endif
