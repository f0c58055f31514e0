/* choose.c - choosing files by their names, which is all that is known of them. */
#include "hub/choose.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool at_root(const char *name)
{
    return strchr(name, '/') == NULL;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* "-00001-of-00003": bytes of it at the end of stem; 0: none. */
static size_t part_suffix(str stem)
{
    static const char FORM[] = "-#####-of-#####";
    size_t n = sizeof FORM - 1;
    if (stem.len < n) return 0;
    const char *at = stem.ptr + stem.len - n;
    for (size_t i = 0; i < n; i++) {
        bool digit = at[i] >= '0' && at[i] <= '9';
        if (FORM[i] == '#' ? !digit : at[i] != FORM[i]) return 0;
    }
    return n;
}

/* The name of a model without ".gguf" and the number of a part; empty when it is none: encoders of
 * images and matrices of importance are files of the same format. */
static str gguf_stem(const char *name)
{
    static const char END[] = ".gguf";
    str stem = str_of(name);
    size_t n = sizeof END - 1;
    if (stem.len <= n || strcasecmp(stem.ptr + stem.len - n, END) != 0) return (str){"", 0};
    const char *slash = strrchr(name, '/');
    const char *base = slash == NULL ? name : slash + 1;
    if (strncasecmp(base, "mmproj", 6) == 0 || strstr(base, "imatrix") != NULL) return (str){"", 0};
    stem.len -= n;
    stem.len -= part_suffix(stem);
    return stem;
}

/* quant stands in stem as words: letters and digits do not go on before it, nor, as "Q4_K" is not
 * "Q4_K_M", a '_' behind it. */
static bool has_quant(str stem, const char *quant)
{
    size_t n = strlen(quant);
    for (size_t i = 0; i + n <= stem.len; i++) {
        if (strncasecmp(stem.ptr + i, quant, n) != 0) continue;
        bool begins = i == 0 || !is_alnum(stem.ptr[i - 1]);
        bool ends = i + n == stem.len || (!is_alnum(stem.ptr[i + n]) && stem.ptr[i + n] != '_');
        if (begins && ends) return true;
    }
    return false;
}

/* The stem without folders. */
static str base_of(str stem)
{
    size_t n = stem.len;
    while (n > 0 && stem.ptr[n - 1] != '/') n--;
    return (str){stem.ptr + n, stem.len - n};
}

/* Bytes that all names have in front, up to a dash or dot. */
static size_t common_front(const hub_file *files, size_t n_files)
{
    str front = {NULL, 0};
    for (size_t i = 0; i < n_files; i++) {
        str base = base_of(gguf_stem(files[i].name));
        if (base.len == 0) continue;
        if (front.ptr == NULL) front = base;
        size_t n = 0;
        while (n < front.len && n < base.len && front.ptr[n] == base.ptr[n]) n++;
        front.len = n;
    }
    while (front.len > 0 && strchr("-.", front.ptr[front.len - 1]) == NULL) front.len--;
    return front.len;
}

/* What tells a model from the others. */
static str label_of(str stem, size_t n_front)
{
    str base = base_of(stem);
    return (str){base.ptr + n_front, base.len - n_front};
}

typedef struct gguf_choice {
    const hub_file *first;
    uint32_t n; /* models that match, parts of one counted once */
    str last;   /* stem of the last one */
} gguf_choice;

/* Which models match: exactly, or with quant among other words. */
static gguf_choice find_gguf(hub_file *files, size_t n_files, const char *quant, bool exactly)
{
    gguf_choice c = {.n = 0};
    size_t n_front = common_front(files, n_files);
    for (size_t i = 0; i < n_files; i++) {
        str stem = gguf_stem(files[i].name);
        files[i].chosen = false;
        if (stem.len == 0) continue;
        str label = label_of(stem, n_front);
        bool matches = label.len == strlen(quant) && strncasecmp(label.ptr, quant, label.len) == 0;
        if (!exactly) matches = quant[0] == '\0' || has_quant(stem, quant);
        if (!matches) continue;
        files[i].chosen = true;
        if (c.first == NULL) c.first = &files[i];
        if (!str_equal(stem, c.last)) c.n++;
        c.last = stem;
    }
    return c;
}

/* Of the files chosen, or of all GGUF models: labels for a sentence, lines for a person. */
static void list_gguf(const hub_file *files, size_t n_files, bool chosen, strbuf *labels,
                      strbuf *choices)
{
    str last = {"", 0};
    size_t n_front = common_front(files, n_files);
    for (size_t i = 0; i < n_files; i++) {
        str stem = gguf_stem(files[i].name);
        if (stem.len == 0 || (chosen && !files[i].chosen)) continue;
        strbuf_printf(choices, "%12llu %s\n", (unsigned long long)files[i].size, files[i].name);
        if (str_equal(stem, last)) continue;
        last = stem;
        if (labels->len > 0) strbuf_add_text(labels, ", ");
        str label = label_of(stem, n_front);
        strbuf_add(labels, label.ptr, label.len);
    }
}

/* As many labels as a sentence holds. */
static weft_status refuse_gguf(const hub_file *files, size_t n_files, const char *quant,
                               uint32_t n_found, strbuf *choices, weft_error *err)
{
    enum { SHOWN = 130 };
    strbuf labels;
    strbuf_init(&labels, choices->allocator, 1 << 20);
    list_gguf(files, n_files, n_found > 0, &labels, choices);
    const char *text = strbuf_text(&labels);
    int n = labels.len > SHOWN ? SHOWN : (int)labels.len;
    while (n < (int)labels.len && n > 0 && text[n] != ',') n--;
    const char *more = n < (int)labels.len ? ", ..." : "";
    if (labels.len == 0 && quant[0] != '\0') {
        err_set(err, WEFT_ARGUMENT, "there is no GGUF file, so none is '%s'", quant);
    } else if (labels.len == 0) {
        err_set(err, WEFT_ARGUMENT, "there is neither a model in safetensors nor one in GGUF");
    } else if (n_found == 0) {
        err_set(err, WEFT_ARGUMENT, "no GGUF file is '%s'; there are %.*s%s", quant, n, text, more);
    } else {
        err_set(err, WEFT_ARGUMENT, "%u GGUF models, say which with :QUANT; there are %.*s%s",
                n_found, n, text, more);
    }
    strbuf_deinit(&labels);
    return WEFT_ARGUMENT;
}

weft_status hub_choose_gguf(hub_file *files, size_t n_files, const char *quant, strbuf *choices,
                            const hub_file **first, weft_error *err)
{
    *first = NULL;
    gguf_choice c = {.n = 0};
    if (quant[0] != '\0') c = find_gguf(files, n_files, quant, true);
    if (c.n != 1) c = find_gguf(files, n_files, quant, false);
    if (c.n != 1) return refuse_gguf(files, n_files, quant, c.n, choices, err);
    *first = c.first;
    return WEFT_OK;
}

/* ---- safetensors ----------------------------------------------------------------------------- */

/* "model.safetensors", "model-00001-of-00002.safetensors": what is opened beside a config. Other
 * names at the root are the same weights in other forms, as "consolidated.safetensors". */
static bool is_weights(const char *name)
{
    str text = str_of(name);
    return at_root(name) && str_starts(text, "model") && str_ends(text, ".safetensors");
}

static bool is_part(const char *name)
{
    static const char END[] = ".safetensors";
    str stem = str_of(name);
    if (!is_weights(name)) return false;
    stem.len -= sizeof END - 1;
    return part_suffix(stem) > 0;
}

static bool is_other_weights(const char *name)
{
    return at_root(name) && str_ends(str_of(name), ".safetensors");
}

/* What a config, a tokenizer or a template is read from. Indexes of other formats are not. */
static bool is_small(const char *name)
{
    static const char *const ENDS[] = {".json", ".jinja", ".model", ".tiktoken"};
    static const char *const NAMES[] = {"vocab.txt", "merges.txt"};
    static const char TEMPLATES[] = "additional_chat_templates/";
    str text = str_of(name);
    if (str_ends(text, ".index.json")) return strcmp(name, "model.safetensors.index.json") == 0;
    /* "1_Pooling/config.json": a part of a model for embeddings. */
    if (name[0] >= '0' && name[0] <= '9' && name[1] == '_' && str_ends(text, "/config.json"))
        return true;
    if (str_starts(text, TEMPLATES)) return str_ends(text, ".jinja");
    if (!at_root(name) || name[0] == '.') return false;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(name, NAMES[i]) == 0) return true;
    }
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        if (str_ends(text, ENDS[i])) return true;
    }
    return false;
}

bool hub_has_safetensors(const hub_file *files, size_t n_files)
{
    bool config = false;
    bool weights = false;
    for (size_t i = 0; i < n_files; i++) {
        config = config || strcmp(files[i].name, "config.json") == 0;
        weights = weights || is_other_weights(files[i].name);
    }
    return config && weights;
}

static void choose_safetensors(hub_file *files, size_t n_files)
{
    bool index = false;
    bool parts = false;
    bool named = false;
    for (size_t i = 0; i < n_files; i++) {
        index = index || strcmp(files[i].name, "model.safetensors.index.json") == 0;
        parts = parts || is_part(files[i].name);
        named = named || is_weights(files[i].name);
    }
    for (size_t i = 0; i < n_files; i++) {
        const char *name = files[i].name;
        bool weights = is_other_weights(name);
        if (named) weights = is_weights(name);
        if (index && parts) weights = is_part(name);
        files[i].chosen = weights || is_small(name);
    }
}

/* ---- patterns -------------------------------------------------------------------------------- */

static weft_status choose_patterns(hub_file *files, size_t n_files, const hub_wish *wish,
                                   weft_error *err)
{
    for (uint32_t p = 0; p < wish->n_patterns; p++) {
        bool found = false;
        for (size_t i = 0; i < n_files; i++) {
            bool matches = strcmp(wish->patterns[p], files[i].name) == 0 ||
                           fnmatch(wish->patterns[p], files[i].name, 0) == 0;
            if (matches) files[i].chosen = true;
            found = found || matches;
        }
        if (!found)
            return err_set(err, WEFT_ARGUMENT, "no file is '%.100s', of %zu", wish->patterns[p],
                           n_files);
    }
    return WEFT_OK;
}

weft_status hub_choose(hub_file *files, size_t n_files, const hub_wish *wish, strbuf *choices,
                       weft_error *err)
{
    const hub_file *first;
    for (size_t i = 0; i < n_files; i++) files[i].chosen = false;
    if (wish->n_patterns > 0) return choose_patterns(files, n_files, wish, err);
    if (wish->quant[0] == '\0' && hub_has_safetensors(files, n_files)) {
        choose_safetensors(files, n_files);
        return WEFT_OK;
    }
    return hub_choose_gguf(files, n_files, wish->quant, choices, &first, err);
}
