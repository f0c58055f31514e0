/* reader.h - the logits of a text, piece by piece, from an engine of its own. */
#ifndef CLI_READER_H
#define CLI_READER_H

#include "cli/session.h"

typedef struct reader {
    weft_engine *engine;
    weft_engine_info info;
    weft_handle handle; /* 0: no text is being read */
    float *logits;      /* [n_rows, n_vocab], of tokens first .. end - 1 of the text */
    uint32_t first, end;
    uint32_t n_rows, n_vocab;
} reader;

/* kv: a codec spec; NULL: as the options say. context: most tokens of a text. Close it also when
 * this fails. */
weft_status reader_open(reader *r, const session *s, const session_values *values, const char *kv,
                        uint32_t context, weft_error *err);
void reader_close(reader *r);

/* Begins another text; what was being read is given up. */
weft_status reader_begin(reader *r, const int32_t *ids, uint32_t n_ids, weft_error *err);

/* The next piece; there must be one. */
weft_status reader_next(reader *r, weft_error *err);

/* The logits that follow token i of the text, which the piece must hold. */
const float *reader_row(const reader *r, uint32_t i);

#endif
