/* id.h - names of models on a hub: ORG/NAME, with a revision or a quantization behind them, and the
 * names of files in them. */
#ifndef HUB_ID_H
#define HUB_ID_H

#include "base/err.h"
#include "base/str.h"

/* With the NUL. HUB_REPO_BYTES: "ORG/NAME". */
enum { HUB_NAME_BYTES = 97, HUB_REPO_BYTES = 2 * HUB_NAME_BYTES, HUB_REVISION_BYTES = 201 };
enum { HUB_QUANT_BYTES = 65, HUB_COMMIT_BYTES = 41 };

/* Of a file: its name, a part between slashes, and how many of those. */
enum { HUB_FILE_BYTES_MOST = 1024, HUB_PART_BYTES_MOST = 240, HUB_PARTS_MOST = 8 };

typedef struct hub_id {
    char org[HUB_NAME_BYTES]; /* "": one of the old names without */
    char name[HUB_NAME_BYTES];
    char revision[HUB_REVISION_BYTES]; /* "": none was said */
    char quant[HUB_QUANT_BYTES];       /* "": none was said */
} hub_id;

/* [ORG/]NAME[@REV][:QUANT]. ARGUMENT with a sentence. */
weft_status hub_id_parse(hub_id *id, str text, weft_error *err);

/* "ORG/NAME". */
void hub_id_repo(const hub_id *id, char repo[HUB_REPO_BYTES]);

/* "main" where none was said. */
const char *hub_id_revision(const hub_id *id);

/* The folder "models--ORG--NAME" of a cache; false when the text is none. */
bool hub_id_of_folder(hub_id *id, str folder);

/* 40 digits of a lower-case hexadecimal number: a commit. */
bool hub_is_hex(str text, size_t n_digits);

/* Whether a name that came from outside can be that of a file below a folder: parts between
 * slashes, none of them empty, "." or "..", no control characters, whole UTF-8, within the
 * bounds above. */
bool hub_file_name_valid(str name);

#endif
