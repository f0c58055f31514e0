/* choose.h - which files of a model are wanted. */
#ifndef HUB_CHOOSE_H
#define HUB_CHOOSE_H

#include "hub/listing.h"

typedef struct hub_wish {
    const char *quant;           /* "Q4_K_M": the GGUF file of that name; "": none was said */
    const char *const *patterns; /* [n_patterns] names or globs: these files and no others */
    uint32_t n_patterns;
} hub_wish;

/* Marks what is to be fetched:
 *   patterns   the files that they match, each at least one;
 *   quant      the one GGUF model that has it in its name, with all its parts;
 *   otherwise  where there are *.safetensors beside the model's config: these, its index, and the
 *              small files of config, tokenizer and template; else the one GGUF model.
 * Nothing that could hold a program, as pickles do, is chosen unless a pattern asks for it.
 * ARGUMENT when there is nothing of the kind, or more than one GGUF model: the message names some
 * and choices gets all of them, a line each "SIZE NAME". */
weft_status hub_choose(hub_file *files, size_t n_files, const hub_wish *wish, strbuf *choices,
                       weft_error *err);

/* The first file of the one GGUF model among files that has quant ("": any) in its name, as
 * hub_choose finds it; its parts are marked. */
weft_status hub_choose_gguf(hub_file *files, size_t n_files, const char *quant, strbuf *choices,
                            const hub_file **first, weft_error *err);

/* Whether there is a config with safetensors beside it. */
bool hub_has_safetensors(const hub_file *files, size_t n_files);

#endif
