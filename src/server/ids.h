/* ids.h - token ids, of texts, of conversations and of JSON, in memory of just their number:
 * mem_system()'s, the caller's to free, and NULL where there are none. */
#ifndef SERVER_IDS_H
#define SERVER_IDS_H

#include "server/fields.h"

/* flags: WEFT_TOKENIZE_*. */
weft_status ids_of_text(const weft_model *model, str text, uint32_t flags, int32_t **ids,
                        size_t *n_ids, weft_error *err);

/* messages: the text of a JSON array, as templates take them. flags: WEFT_CHAT_*. */
weft_status ids_of_chat(const weft_model *model, const char *messages, const char *tools,
                        uint32_t flags, int32_t **ids, size_t *n_ids, weft_error *err);

/* An array of at most `most`. name: of the field. */
weft_status ids_read(const json *array, const char *name, size_t most, int32_t **ids, size_t *n_ids,
                     char *param, weft_error *err);

#endif
