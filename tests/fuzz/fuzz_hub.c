/* fuzz_hub.c - what comes from outside of a hub: its list of files, names of models and files.
 * The first byte says which; what is taken keeps the promises that paths are made of. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "hub/choose.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* A path below a folder stays below it. */
static void check_name(const char *name)
{
    size_t n = strlen(name);
    ASSERT(n > 0 && n <= HUB_FILE_BYTES_MOST && utf8_valid(name, n));
    while (*name != '\0') {
        size_t part = strcspn(name, "/");
        ASSERT(part > 0 && part <= HUB_PART_BYTES_MOST);
        ASSERT(!(part == 1 && name[0] == '.') && !(part == 2 && memcmp(name, "..", 2) == 0));
        for (size_t i = 0; i < part; i++) ASSERT((unsigned char)name[i] >= 0x20 && name[i] != 0x7f);
        name += part;
        if (*name == '/') ASSERT(*++name != '\0');
    }
}

static void try_listing(str text)
{
    static const char *const QUANTS[] = {"", "Q4_K_M", "q8_0", "m"};
    hub_listing l;
    weft_error err = {WEFT_OK, ""};
    weft_status status = hub_listing_parse(&l, mem_system(), text, &err);
    ASSERT(status == err.status && (status == WEFT_OK) == (err.message[0] == '\0'));
    for (size_t i = 0; i < l.n_files; i++) {
        const hub_file *f = &l.files[i];
        check_name(f->name);
        ASSERT(f->size <= HUB_FILE_SIZE_MOST);
        ASSERT(f->hash[0] == '\0' || hub_is_hex(str_of(f->hash), 40) ||
               hub_is_hex(str_of(f->hash), 64));
        ASSERT(i == 0 || strcmp(l.files[i - 1].name, f->name) < 0);
    }
    for (size_t i = 0; i < COUNT_OF(QUANTS) && status == WEFT_OK; i++) {
        strbuf choices;
        hub_wish wish = {.quant = QUANTS[i]};
        size_t n = 0;
        err_clear(&err);
        strbuf_init(&choices, mem_system(), 0);
        weft_status chose = hub_choose(l.files, l.n_files, &wish, &choices, &err);
        for (size_t k = 0; k < l.n_files; k++) n += l.files[k].chosen;
        ASSERT(chose == err.status && (chose != WEFT_OK || n > 0));
        strbuf_deinit(&choices);
    }
    hub_listing_deinit(&l);
}

static void try_id(str text)
{
    hub_id id;
    hub_id again;
    char repo[HUB_REPO_BYTES];
    char folder[HUB_REPO_BYTES + 16] = "models--";
    weft_error err = {WEFT_OK, ""};
    if (hub_id_parse(&id, text, &err) != WEFT_OK) {
        ASSERT(err.message[0] != '\0');
        return;
    }
    check_name(id.name);
    check_name(hub_id_revision(&id));
    hub_id_repo(&id, repo);
    check_name(repo);
    if (id.org[0] != '\0') strcat(strcat(folder, id.org), "--");
    strcat(folder, id.name);
    bool found = hub_id_of_folder(&again, str_of(folder));
    ASSERT(found && strcmp(id.org, again.org) == 0 && strcmp(id.name, again.name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0) return 0;
    size_t n = n_bytes - 1;
    char *copy = malloc(n + (n == 0));
    if (copy == NULL) return 0;
    if (n != 0) memcpy(copy, data + 1, n);
    str text = {copy, n};
    if (data[0] == 'i') {
        try_id(text);
    } else if (data[0] == 'f') {
        hub_id id;
        hub_id_of_folder(&id, text);
        hub_file_name_valid(text);
    } else {
        try_listing(text);
    }
    free(copy);
    return 0;
}
