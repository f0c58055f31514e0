/* test_models.c - docs/models.md is what the table of families, the goldens and the trained models
 * say.
 *
 *     test_docs_models [--write]
 *
 * --write writes the page, which is otherwise compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/str.h"
#include "kv/layouts/layout.h"
#include "models/model.h"
#include "models/real_models.h"
#include "support/runs.h"

#define PAGE WEFT_SOURCE_DIR "/docs/models.md"

static const char HEAD[] =
    "<!-- Written by `make docs`; a test compares the two. -->\n"
    "# Models\n"
    "\n"
    "What weft opens, and how each is tested. The tables follow from `src/models/families/`, "
    "`tests/golden/`,\n"
    "`models/tiny/` and `tests/models/real_models.h`; what is not in them is refused with a "
    "sentence that names it.\n"
    "Safetensors checkpoints are Hugging Face's or MLX's.\n"
    "\n"
    "*Goldens* are tiny checkpoints with random weights, whose logits and greedy ids are compared "
    "with those of\n"
    "Transformers ([how](../tests/golden/README.md)). *Trained* models are compared with what "
    "Transformers or mlx-lm answers:\n"
    "the toys of `models/tiny`, and real ones where they have been fetched. A type of its own "
    "without a golden is\n"
    "read like the others of its family and has not been compared. *State* is what the layers of a "
    "family's goldens and\n"
    "toys keep ([kv.md](kv.md)); *shared* layers read another's.\n";

enum { CHECKPOINTS = 256, LAYOUTS = 16 };

/* A checkpoint in the tree, by what it was opened as. */
typedef struct checkpoint {
    char name[64], model_type[64];
    bool is_golden;
    const model_family *family;
    bool layouts[LAYOUTS], shares;
} checkpoint;

typedef struct shelf {
    checkpoint of[CHECKPOINTS];
    size_t n;
} shelf;

static bool read_type(const char *path, char text[64])
{
    char file[700];
    snprintf(file, sizeof file, "%s/config.json", path);
    if (!io_system()->exists(io_system(), file)) return false;
    json_doc doc = run_read_json(file);
    str type = json_text(json_get(doc.root, "model_type"));
    snprintf(text, 64, "%.*s", (int)type.len, type.ptr);
    json_doc_free(&doc);
    return true;
}

static void add_checkpoint(shelf *s, const char *folder, const char *name, bool is_golden)
{
    char path[600];
    env world = {.allocator = mem_system(), .io = io_system()};
    weft_error err = {WEFT_OK, ""};
    llm *m = NULL;
    assert_true(s->n < CHECKPOINTS);
    checkpoint *c = &s->of[s->n];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!read_type(path, c->model_type)) return;
    assert_ok(llm_open(&world, path, &m, &err), &err);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->is_golden = is_golden;
    c->family = m->family;
    c->shares = m->n_kv_layers < m->params.n_layers;
    for (uint32_t i = 0; i < m->n_kv_layers; i++) {
        assert_true(m->kv_layers[i].layout < LAYOUTS);
        c->layouts[m->kv_layers[i].layout] = true;
    }
    llm_close(m);
    s->n++;
}

static void add_folder(shelf *s, const char *folder, bool is_golden)
{
    char *names = run_checkpoints(folder);
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1)
        add_checkpoint(s, folder, name, is_golden);
    free(names);
}

/* ", " before all but the first of a cell. */
static void add_item(strbuf *out, size_t *n, const char *before, const char *text)
{
    strbuf_printf(out, "%s%s%s%s", (*n)++ > 0 ? ", " : "", before, text, before);
}

static void end_cell(strbuf *out, size_t n)
{
    strbuf_add_text(out, n > 0 ? " | " : "- | ");
}

static void add_names(strbuf *out, const char *const *names)
{
    size_t n = 0;
    for (; *names != NULL; names++) add_item(out, &n, "`", *names);
    end_cell(out, n);
}

static void add_state(strbuf *out, const shelf *s, const model_family *family)
{
    uint32_t n_layouts;
    size_t n = 0;
    bool shares = false;
    const kv_layout *const *layouts = kv_layout_table(&n_layouts);
    for (uint32_t i = 0; i < n_layouts; i++) {
        bool found = false;
        for (size_t k = 0; k < s->n; k++)
            if (s->of[k].family == family) found = found || s->of[k].layouts[layouts[i]->id];
        if (found) add_item(out, &n, "", layouts[i]->name);
    }
    for (size_t k = 0; k < s->n; k++)
        if (s->of[k].family == family) shares = shares || s->of[k].shares;
    if (shares) add_item(out, &n, "", "shared");
    end_cell(out, n);
}

static void add_trained(strbuf *out, const shelf *s, const model_family *family)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!s->of[i].is_golden && s->of[i].family == family) add_item(out, &n, "", s->of[i].name);
    for (size_t i = 0; i < N_REAL_MODELS; i++)
        if (strcmp(REAL_MODELS[i].family, family->name) == 0)
            add_item(out, &n, "", REAL_MODELS[i].name);
    end_cell(out, n);
}

static void write_page(strbuf *out, const shelf *s)
{
    uint32_t n_families;
    const model_family *const *families = model_family_table(&n_families);
    strbuf_add_text(out, HEAD);
    strbuf_add_text(out, "\n| family | `model_type` | GGUF | state | trained |\n"
                         "|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < n_families; i++) {
        strbuf_printf(out, "| %s | ", families[i]->name);
        add_names(out, families[i]->hf_types);
        add_names(out, families[i]->gguf_types);
        add_state(out, s, families[i]);
        add_trained(out, s, families[i]);
        out->ptr[--out->len] = '\0';
        strbuf_add_text(out, "\n");
    }
    strbuf_add_text(out, "\n| `model_type` | family | goldens |\n|---|---|---|\n");
    for (uint32_t i = 0; i < n_families; i++) {
        for (const char *const *type = families[i]->hf_types; *type != NULL; type++) {
            size_t n = 0;
            strbuf_printf(out, "| `%s` | %s | ", *type, families[i]->name);
            for (size_t k = 0; k < s->n; k++)
                if (s->of[k].is_golden && strcmp(s->of[k].model_type, *type) == 0)
                    add_item(out, &n, "", s->of[k].name);
            end_cell(out, n);
            out->ptr[--out->len] = '\0';
            strbuf_add_text(out, "\n");
        }
    }
    assert_int_equal(out->status, WEFT_OK);
}

static bool writes;

static void test_page(void **state)
{
    (void)state;
    const io *files = io_system();
    weft_error err = {WEFT_OK, ""};
    shelf *s = calloc(1, sizeof *s);
    strbuf page;
    char *written;
    size_t n_written;
    assert_non_null(s);
    strbuf_init(&page, mem_system(), 0);
    add_folder(s, WEFT_GOLDEN_DIR, true);
    add_folder(s, WEFT_SOURCE_DIR "/models/tiny", false);
    write_page(&page, s);
    if (writes) assert_ok(files->write(files, PAGE, page.ptr, page.len, &err), &err);
    assert_ok(io_read_file(files, mem_system(), PAGE, 1 << 20, &written, &n_written, &err), &err);
    if (strcmp(written, page.ptr) != 0) fail_msg("docs/models.md is another page: make docs");
    mem_free(mem_system(), written, n_written + 1);
    strbuf_deinit(&page);
    free(s);
}

int main(int n_words, char **words)
{
    writes = n_words > 1 && strcmp(words[1], "--write") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page)};
    return TEST_RUN("docs/models", tests);
}
