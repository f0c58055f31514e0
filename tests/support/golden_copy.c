/* golden_copy.c - writing a golden anew. */
#include "support/golden_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "models/model.h"

enum { CONFIG_BYTES = 16384 };

void golden_copy_open(golden_copy *s, const char *name)
{
    weft_error err = {0};
    *s = (golden_copy){.env = {.allocator = mem_system(), .io = io_system()}};
    snprintf(s->path, sizeof s->path, "%s/%s", WEFT_GOLDEN_DIR, name);
    assert_ok(weights_open(&s->env, s->path, &s->w, &err), &err);
}

void golden_copy_close(golden_copy *s)
{
    weights_close(s->w);
}

const tensor *golden_tensor(const golden_copy *s, const char *name)
{
    const tensor *t = weights_find(s->w, name);
    if (t == NULL) fail_msg("no tensor '%s'", name);
    return t;
}

void golden_add(safetensors_builder *b, const char *name, const tensor *t)
{
    safetensors_add(b, name, t->raw_type, t->dims, t->n_dims, t->planes[0],
                    (size_t)t->plane_bytes[0]);
}

static void replace(char text[CONFIG_BYTES], const char *const change[2])
{
    char all[CONFIG_BYTES];
    const char *at = strstr(text, change[0]);
    if (at == NULL) fail_msg("config.json does not have '%s'", change[0]);
    int n = snprintf(all, sizeof all, "%.*s%s%s", (int)(at - text), text, change[1],
                     at + strlen(change[0]));
    assert_true(n > 0 && n < CONFIG_BYTES);
    memcpy(text, all, (size_t)n + 1);
}

static void read_config(const golden_copy *s, char text[CONFIG_BYTES])
{
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", s->path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, CONFIG_BYTES - 1, file);
    fclose(file);
    assert_true(n > 100 && n < CONFIG_BYTES - 1);
    text[n] = '\0';
}

void golden_write_config(const golden_copy *s, test_folder *folder, const char *const change[2])
{
    char text[CONFIG_BYTES];
    read_config(s, text);
    if (change != NULL && change[0] != NULL) replace(text, change);
    test_folder_write(folder, "config.json", text, strlen(text));
}

void golden_write_changed(const golden_copy *s, const golden_change *change, test_folder *folder)
{
    safetensors_builder b;
    test_folder_create(folder);
    safetensors_init(&b);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        const tensor *t = &s->w->tensors[i];
        bool left_out = change->without != NULL && strcmp(t->name, change->without) == 0;
        if (!left_out) golden_add(&b, t->name, t);
    }
    if (change->more != NULL) golden_add(&b, change->more, golden_tensor(s, change->from));
    safetensors_write(&b, folder, "model.safetensors");
    safetensors_deinit(&b);
    golden_write_config(s, folder, change->config);
}

weft_status golden_open_changed(const golden_copy *s, const golden_change *change, weft_error *err)
{
    test_folder folder;
    llm *m = NULL;
    golden_write_changed(s, change, &folder);
    *err = (weft_error){0};
    weft_status status = llm_open(&s->env, folder.path, &m, err);
    llm_close(m);
    test_folder_remove(&folder);
    return status;
}

run golden_answer(const char *path, weft_act act)
{
    static const int32_t PROMPT[GOLDEN_PROMPT] = {3, 17, 250, 96, 4, 4, 181, 77, 12};
    weft_model *model = run_open_model(path);
    weft_engine_options options = {
        .struct_size = sizeof options, .act = act, .max_outputs = 64, .n_threads = 2};
    weft_engine *engine = run_open_engine(model, &options);
    const run wish = {
        .prompt = PROMPT, .n_prompt = GOLDEN_PROMPT, .max_new = 5, .want_prompt_logits = true};
    run r = wish;
    run_all(engine, run_n_vocab(model), &r, 1);
    weft_engine_close(engine);
    weft_experts_info experts = {.struct_size = sizeof experts};
    assert_ok(weft_model_experts(model, &experts, NULL), NULL);
    if (experts.n_all > 0) {
        run streamed = wish;
        options.expert_bytes = experts.bytes_least;
        engine = run_open_engine(model, &options);
        run_all(engine, run_n_vocab(model), &streamed, 1);
        run_assert_identical(&streamed, &r, run_n_vocab(model));
        run_free(&streamed);
        weft_engine_close(engine);
    }
    weft_model_close(model);
    return r;
}
