/* fields.h - members of a JSON object by a table: what is not in the table is refused by name, so
 * that nothing a client asks for is dropped. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include "base/json.h"

typedef enum field_kind {
    FIELD_IGNORED, /* changes nothing of the answer (a user's name, a tag) */
    FIELD_REFUSED, /* known, and not done here unless it is null or `only` */
    FIELD_FLAG,    /* bool */
    FIELD_COUNT,   /* uint32_t in [min, max] */
    FIELD_REAL,    /* float in [min, max] */
    FIELD_SEED,    /* uint64_t; integers of 64 bits, signed or not */
    FIELD_TEXT,    /* str, borrowed from the document */
    FIELD_JSON     /* const json *, borrowed likewise */
} field_kind;

typedef struct field_row {
    const char *name;
    field_kind kind;
    size_t offset;    /* in the values */
    double min, max;  /* COUNT, REAL */
    const char *only; /* REFUSED: the one value, as JSON, that may be there; NULL: none */
} field_row;

typedef struct field_table {
    const field_row *rows;
    size_t n_rows;
    void *values; /* already holds the defaults */
} field_table;

/* What a request is refused for: err says it, param [FIELD_NAME_BYTES] names the field. */
enum { FIELD_NAME_BYTES = 64 };

/* null counts as absent. ARGUMENT names the field. where: "" or what stands before the name, such
 * as "stream_options.". */
weft_status fields_read(const json *object, const char *where, const field_table *tables,
                        size_t n_tables, char *param, weft_error *err);

/* ARGUMENT that names the field, and puts it in param. */
weft_status field_wrong(char *param, const char *name, weft_error *err, const char *fmt, ...)
    ERR_PRINTF(4, 5);

/* The same, of a member that must be there; where as above. */
weft_status field_missing(char *param, const char *where, const char *name, weft_error *err);

/* The same, of the member "type", which is missing or none of those that are known. */
weft_status field_wrong_type(char *param, const char *where, str type, const char *known,
                             weft_error *err);

#endif
