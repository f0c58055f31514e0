/* test_dense.c - dense decoders: their GGUF form, tensor by tensor and key by key, against the
 * golden that it is made from; windows by every rule; values that would be computed wrongly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "models/dense.h"
#include "models/model.h"
#include "support/compare.h"
#include "support/golden_copy.h"

enum { F32_GGUF = 0, BF16_GGUF = 30, PROMPT = 60, ANSWER = 5, NAME_BYTES = 160 };

/* What a file has otherwise: one matrix of queries, keys and values, and one bias; windows by a
 * number in place of a list, or by a list with a 2; tokens that see all of a text. */
enum { FUSED = 1, PERIOD = 2, NO_FLAG = 4, NOT_CAUSAL = 8 };

/* ---- the name of a tensor in a GGUF file ---- */

typedef struct place {
    uint32_t slot, layer, index;
    bool indexed; /* one tensor a matrix; in GGUF files a single one */
    const char *gguf_name;
    bool in_layer;
} place;

/* Whether name is the pattern, with a number for its "%u". */
static bool is_named(const char *pattern, const char *name, place *at)
{
    const char *mark = strstr(pattern, "%u");
    at->indexed = mark != NULL;
    at->index = 0;
    if (mark == NULL) return strcmp(pattern, name) == 0;
    size_t n = (size_t)(mark - pattern);
    if (strncmp(pattern, name, n) != 0) return false;
    char *end;
    at->index = (uint32_t)strtoul(name + n, &end, 10);
    return end != name + n && strcmp(end, mark + 2) == 0;
}

static bool try_source(const stack_source *source, const char *own, place *at)
{
    if (source->hf_name == NULL || source->gguf_name == NULL) return false;
    at->gguf_name = source->gguf_name;
    return is_named(source->hf_name, own, at);
}

static bool try_slot(const model_family *f, uint32_t slot_i, const char *own, place *at)
{
    const model_slot *slot = &f->slots[slot_i];
    at->slot = slot_i;
    for (uint32_t i = 0; i < f->n_names; i++) {
        if (f->names[i].slot == slot_i) return try_source(&f->names[i].source, own, at);
    }
    stack_source plain = {.hf_name = slot->hf_name, .gguf_name = slot->gguf_name};
    if (slot->stack == NULL) return try_source(&plain, own, at);
    for (uint32_t i = 0; i < slot->stack->n_sources; i++) {
        if (try_source(&slot->stack->sources[i], own, at)) return true;
    }
    return false;
}

static bool find_place(const llm *m, const char *name, place *at)
{
    const model_family *f = m->family;
    int n = 0;
    memset(at, 0, sizeof *at);
    const char *own = name;
    at->in_layer = sscanf(name, "model.layers.%u.%n", &at->layer, &n) == 1 && n > 0;
    if (at->in_layer) own = name + n;
    if (!at->in_layer && strncmp(name, "model.", 6) == 0) own = name + 6;
    for (uint32_t i = 0; i < f->n_slots; i++) {
        const model_slot *slot = &f->slots[i];
        if ((slot->place == SLOT_LAYER) != at->in_layer) continue;
        /* Two slots of one name: the one that this family has. */
        bool strict = slot->strict && slot->if_flag != SHAPE_NONE;
        const char *flag = (const char *)&m->params + (strict ? slot->if_flag : 0);
        if (strict && !*(const bool *)(const void *)flag) continue;
        if (try_slot(f, i, own, at)) return true;
    }
    return false;
}

/* ---- the file ---- */

static bool is_norm_weight(uint32_t slot)
{
    return slot == PART_FINAL_NORM || slot == PART_ATTN_NORM || slot == PART_MLP_NORM ||
           slot == DENSE_POST_ATTN_NORM || slot == DENSE_POST_MLP_NORM;
}

/* Rows as llama.cpp's converters permute them for families whose rope pairs halves: of a head, row
 * j of the first half comes to 2j, that of the second behind it. */
static void add_permuted(gguf_builder *b, const char *name, const tensor *t, uint32_t head_dim)
{
    size_t bytes = (size_t)t->plane_bytes[0];
    size_t n_rows = (size_t)t->dims[0];
    size_t row = bytes / n_rows;
    unsigned char *rows = malloc(bytes);
    assert_non_null(rows);
    for (size_t r = 0; r < n_rows; r++) {
        size_t j = r % head_dim;
        size_t half = head_dim / 2;
        size_t to = r - j + (j < half ? 2 * j : 2 * (j - half) + 1);
        memcpy(rows + to * row, t->planes[0] + r * row, row);
    }
    gguf_add_tensor(b, name, BF16_GGUF, t->dims, t->n_dims, rows, bytes);
    free(rows);
}

static void add_offset(gguf_builder *b, const char *name, const tensor *t)
{
    size_t n = (size_t)t->n_cols;
    float *w = malloc(n * sizeof *w);
    assert_non_null(w);
    t->encoding->decode_row(t, 0, w);
    for (size_t i = 0; i < n; i++) w[i] += 1.0F;
    gguf_add_tensor(b, name, F32_GGUF, t->dims, t->n_dims, w, n * sizeof *w);
    free(w);
}

/* The vectors of all heads behind one another; the first of them is t. */
static void add_joined(gguf_builder *b, const golden_copy *s, const char *name, const tensor *t,
                       uint32_t count)
{
    size_t bytes = (size_t)t->plane_bytes[0];
    unsigned char *all = malloc(bytes * count);
    assert_non_null(all);
    for (uint32_t i = 0; i < count; i++) {
        char one[NAME_BYTES];
        const char *mark = strstr(t->name, "norms.0");
        assert_non_null(mark);
        snprintf(one, sizeof one, "%.*snorms.%u.weight", (int)(mark - t->name), t->name, i);
        memcpy(all + i * bytes, golden_tensor(s, one)->planes[0], bytes);
    }
    gguf_add_tensor(b, name, BF16_GGUF, (const uint64_t[]){count, t->dims[0]}, 2, all,
                    bytes * count);
    free(all);
}

/* Rows of q, k and v, or their numbers, behind one another; t is that of q. */
static void add_fused(gguf_builder *b, const golden_copy *s, const char *name, const tensor *t)
{
    file_bytes all = {0};
    uint64_t dims[2] = {0, t->n_cols};
    const char *mark = strstr(t->name, "q_proj");
    assert_non_null(mark);
    for (int i = 0; i < 3; i++) {
        char one[NAME_BYTES];
        snprintf(one, sizeof one, "%.*s%c%s", (int)(mark - t->name), t->name, "qkv"[i], mark + 1);
        const tensor *part = golden_tensor(s, one);
        file_bytes_add(&all, part->planes[0], (size_t)part->plane_bytes[0]);
        dims[0] += part->dims[0];
    }
    gguf_add_tensor(b, name, BF16_GGUF, dims, t->n_dims, all.data, all.n_bytes);
    file_bytes_free(&all);
}

static bool is_fused(const char *name, const char *which)
{
    const char *at = strstr(name, "_proj.");
    return at != NULL && at - name > 10 && strchr(which, at[-1]) != NULL &&
           strncmp(at - 11, "self_attn.", 10) == 0;
}

static void add_golden_tensor(gguf_builder *b, const golden_copy *s, const llm *m, const tensor *t,
                              bool fused)
{
    const dense *d = m->family->dense;
    place at;
    char name[NAME_BYTES];
    if (!find_place(m, t->name, &at)) fail_msg("%s has no GGUF name", t->name);
    if (at.in_layer) snprintf(name, sizeof name, "blk.%u.%s", at.layer, at.gguf_name);
    if (!at.in_layer) snprintf(name, sizeof name, "%s", at.gguf_name);
    if (fused && is_fused(t->name, "kv")) return;
    if (fused && is_fused(t->name, "q")) {
        bool bias = strstr(t->name, ".bias") != NULL;
        snprintf(name, sizeof name, "blk.%u.attn_qkv.%s", at.layer, bias ? "bias" : "weight");
        add_fused(b, s, name, t);
        return;
    }
    bool permuted = d->gguf_interleaved && !d->interleaved;
    bool rotates =
        at.slot == PART_Q || at.slot == PART_K || at.slot == PART_Q_BIAS || at.slot == PART_K_BIAS;
    bool offset = d->norm == DENSE_RMS_OFFSET || d->norm == DENSE_LN_OFFSET;
    if (at.indexed) {
        uint32_t count = at.slot == DENSE_Q_NORMS ? m->params.n_heads : m->params.n_kv_heads;
        if (at.index == 0) add_joined(b, s, name, t, count);
    } else if (permuted && rotates) {
        add_permuted(b, name, t, m->params.head_dim);
    } else if (offset && is_norm_weight(at.slot)) {
        add_offset(b, name, t);
    } else {
        gguf_add_tensor(b, name, BF16_GGUF, t->dims, t->n_dims, t->planes[0],
                        (size_t)t->plane_bytes[0]);
    }
}

/* OLMo 3 is an olmo2 there. */
static const char *arch_of(const llm *m)
{
    bool named = m->family->gguf_types[0] != NULL;
    return named                                   ? m->family->gguf_types[0]
           : strcmp(m->family->name, "olmo3") == 0 ? "olmo2"
                                                   : NULL;
}

static void add_row(gguf_builder *b, const llm *m, const model_param *row)
{
    char key[NAME_BYTES];
    const void *field = (const char *)&m->params + row->offset;
    snprintf(key, sizeof key, "%s.%s", arch_of(m), row->gguf_key);
    bool theta = row->offset == SHAPE(rope_theta);
    if (row->type == PARAM_BOOL) {
        gguf_add_bool(b, key, *(const bool *)field);
    } else if (row->type == PARAM_F32) {
        float number = theta ? (float)m->params.ropes[0].theta : *(const float *)field;
        if (number != 0.0F) gguf_add_f32(b, key, number);
    } else if (*(const uint32_t *)field != 0) {
        gguf_add_u32(b, key, *(const uint32_t *)field);
    }
}

static bool has_key(const dense *d, const char *key)
{
    for (uint32_t i = 0; i < d->n_params; i++) {
        if (d->params[i].gguf_key != NULL && strcmp(d->params[i].gguf_key, key) == 0) return true;
    }
    return false;
}

/* The factors of the golden phi3-longrope. */
static void add_long_rope(gguf_builder *b, const llm *m)
{
    static const float LONG[] = {1.0F, 1.2F, 1.4F, 1.6F, 1.8F, 2.0F};
    static const float SHORT[] = {1.0F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F};
    const uint64_t dims[] = {COUNT_OF(LONG)};
    gguf_add_u32(b, "phi3.rope.scaling.original_context_length", 16);
    gguf_add_f32(b, "phi3.rope.scaling.attn_factor", m->ropes[0].magnitude);
    gguf_add_tensor(b, "rope_factors_long.weight", F32_GGUF, dims, 1, LONG, sizeof LONG);
    gguf_add_tensor(b, "rope_factors_short.weight", F32_GGUF, dims, 1, SHORT, sizeof SHORT);
}

static void add_real(gguf_builder *b, const llm *m, const char *own, double number)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.%s", arch_of(m), own);
    gguf_add_f32(b, key, (float)number);
}

/* Of Ministral 3, whose queries grow, and of OLMo 3. */
static void add_yarn(gguf_builder *b, const llm *m)
{
    const rope_params *r = &m->params.ropes[0];
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch_of(m));
    gguf_add_text(b, key, "yarn");
    add_real(b, m, "rope.scaling.factor", r->factor);
    add_real(b, m, "rope.scaling.original_context_length", r->original_context);
    add_real(b, m, "rope.scaling.yarn_beta_fast", r->beta_fast);
    add_real(b, m, "rope.scaling.yarn_beta_slow", r->beta_slow);
    if (r->attention_factor != 0.0)
        add_real(b, m, "rope.scaling.yarn_attn_factor", r->attention_factor);
    if (r->mscale_all_dim != 0.0)
        add_real(b, m, "rope.scaling.yarn_log_multiplier", r->mscale_all_dim);
    if (m->params.query_beta != 0.0F)
        add_real(b, m, "attention.temperature_scale", (double)m->params.query_beta);
}

static void add_windows(gguf_builder *b, const llm *m, unsigned how)
{
    unsigned char flags[MODEL_LAYERS];
    uint32_t n = m->params.n_layers;
    char key[NAME_BYTES];
    for (uint32_t i = 0; i < n; i++) flags[i] = m->params.is_window[i];
    if ((how & NO_FLAG) != 0) flags[1] = 2;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", arch_of(m));
    if ((how & PERIOD) != 0) {
        gguf_add_u32(b, key, 4);
    } else {
        gguf_add_array(b, key, (how & NO_FLAG) != 0 ? GGUF_U8 : GGUF_BOOL, flags, n, n);
    }
}

static void write_gguf(const golden_copy *s, const llm *m, test_folder *folder, char path[512],
                       unsigned how)
{
    const dense *d = m->family->dense;
    gguf_builder b;
    gguf_init(&b, 3);
    gguf_add_text(&b, "general.architecture", arch_of(m));
    for (uint32_t i = 0; i < DENSE_N_PARAMS; i++) {
        const model_param *row = &DENSE_PARAMS[i];
        if (row->gguf_key != NULL && !has_key(d, row->gguf_key)) add_row(&b, m, row);
    }
    for (uint32_t i = 0; i < d->n_params; i++) {
        if (d->params[i].gguf_key != NULL) add_row(&b, m, &d->params[i]);
    }
    for (uint32_t i = 0; i < s->w->n_tensors; i++)
        add_golden_tensor(&b, s, m, &s->w->tensors[i], (how & FUSED) != 0);
    if (m->params.ropes[0].kind == ROPE_LONG) add_long_rope(&b, m);
    if (m->params.ropes[0].kind == ROPE_YARN) add_yarn(&b, m);
    if ((how & NOT_CAUSAL) != 0) gguf_add_bool(&b, "olmo2.attention.causal", false);
    if (m->family->gguf_types[0] == NULL) add_windows(&b, m, how);
    snprintf(path, 512, "%s", gguf_write(&b, folder, "m.gguf"));
    gguf_deinit(&b);
}

static run answer_of(const char *path)
{
    weft_model *model = run_open_model(path);
    weft_engine_options options = {
        .struct_size = sizeof options, .act = WEFT_ACT_F32, .max_outputs = PROMPT, .n_threads = 1};
    weft_engine *engine = run_open_engine(model, &options);
    uint32_t n_vocab = run_n_vocab(model);
    run r = {.prompt = run_random_ids(PROMPT, n_vocab, 5),
             .n_prompt = PROMPT,
             .max_new = ANSWER,
             .want_prompt_logits = true};
    run_all(engine, n_vocab, &r, 1);
    weft_engine_close(engine);
    weft_model_close(model);
    free((void *)(uintptr_t)r.prompt);
    r.prompt = NULL;
    return r;
}

/* Bit for bit; where rows are permuted scores are added up in another order. */
static void check_gguf(const char *name, unsigned how, const model_family **seen, size_t *n_seen)
{
    golden_copy s;
    test_folder folder;
    char path[512];
    golden_copy_open(&s, name);
    weft_model *model = run_open_model(s.path);
    const dense *d = model->model->family->dense;
    uint32_t n_vocab = run_n_vocab(model);
    test_folder_create(&folder);
    write_gguf(&s, model->model, &folder, path, how);
    run hf = answer_of(s.path);
    run gguf = answer_of(path);
    if (d->gguf_interleaved && !d->interleaved) {
        assert_floats_near(gguf.prompt_logits, hf.prompt_logits, (size_t)PROMPT * n_vocab, 1e-4);
    } else {
        run_assert_identical(&gguf, &hf, n_vocab);
    }
    seen[(*n_seen)++] = model->model->family;
    run_free(&hf);
    run_free(&gguf);
    test_folder_remove(&folder);
    weft_model_close(model);
    golden_copy_close(&s);
}

static void test_gguf(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"llama",
                                        "qwen2",
                                        "qwen3",
                                        "gemma",
                                        "gemma2",
                                        "phi",
                                        "phi3",
                                        "olmo",
                                        "olmo2",
                                        "granite",
                                        "smollm3",
                                        "cohere",
                                        "cohere-qk",
                                        "glm4",
                                        "cohere2",
                                        "stablelm",
                                        "exaone4",
                                        "stablelm-parallel",
                                        "starcoder2",
                                        "seed_oss",
                                        "ernie4_5",
                                        "nemotron",
                                        "hunyuan_v1_dense",
                                        "phi3-longrope",
                                        "glm",
                                        "ministral3",
                                        "olmo3",
                                        "olmo3-yarn"};
    static const char *const JOINED[] = {"phi", "glm", "qwen2"};
    const model_family *seen[COUNT_OF(NAMES) + COUNT_OF(JOINED) + 1];
    size_t n_seen = 0;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        print_message("gguf %s\n", NAMES[i]);
        check_gguf(NAMES[i], 0, seen, &n_seen);
    }
    check_gguf("olmo3", PERIOD, seen, &n_seen);
    for (size_t i = 0; i < COUNT_OF(JOINED); i++) check_gguf(JOINED[i], FUSED, seen, &n_seen);
    uint32_t n;
    const model_family *const *table = model_family_table(&n);
    for (uint32_t i = 0; i < n; i++) {
        /* test_moe.c has those with experts. */
        bool found = table[i]->dense == NULL || table[i]->gguf_types[0] == NULL ||
                     table[i]->dense->moe != NULL;
        for (size_t k = 0; k < n_seen; k++) found = found || seen[k] == table[i];
        if (!found) fail_msg("the GGUF form of %s has no test", table[i]->name);
    }
}

/* Of OLMo 3 a file says that it is an olmo2, which has no windows in MLX. */
static void check_unconverted(const golden_copy *s, const llm *m)
{
    test_folder folder;
    char path[512];
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&folder);
    write_gguf(s, m, &folder, path, 0);
    const char *to = test_folder_path(&folder, "to");
    assert_status(WEFT_UNSUPPORTED, weft_convert(path, to, NULL, NULL, &err), &err);
    assert_message(&err, "windows of a GGUF file of 'olmo2' cannot be converted");
    test_folder_remove(&folder);
}

/* Keys of OLMo 3's file that say what is not computed. */
static void test_gguf_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned how;
        weft_status status;
        const char *message;
    } CASES[] = {
        {NOT_CAUSAL, WEFT_UNSUPPORTED, "attention.causal false is not supported for 'olmo2'"},
        {NO_FLAG, WEFT_FORMAT, "sliding_window_pattern of layer 1 is 2, expected 0 or 1"},
    };
    golden_copy s;
    golden_copy_open(&s, "olmo3");
    weft_model *model = run_open_model(s.path);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        test_folder folder;
        char path[512];
        llm *m = NULL;
        weft_error err = {WEFT_OK, ""};
        test_folder_create(&folder);
        write_gguf(&s, model->model, &folder, path, CASES[i].how);
        assert_status(CASES[i].status, llm_open(&s.env, path, &m, &err), &err);
        assert_message(&err, CASES[i].message);
        test_folder_remove(&folder);
    }
    check_unconverted(&s, model->model);
    weft_model_close(model);
    golden_copy_close(&s);
}

/* ---- windows ---- */

/* "W" a window, "R" rotates: of a layer "WR", "W-", "-R" or "--". */
static void check_layers(const char *name, const char *from, const char *to, uint32_t window,
                         const char *expected)
{
    golden_copy s;
    test_folder folder;
    llm *m = NULL;
    weft_error err = {0};
    golden_copy_open(&s, name);
    golden_change change = {.config = {from, to}};
    golden_write_changed(&s, &change, &folder);
    assert_ok(llm_open(&s.env, folder.path, &m, &err), &err);
    assert_int_equal(m->params.window, window);
    for (uint32_t i = 0; i < m->params.n_layers; i++) {
        char layer[3] = {m->params.is_window[i] ? 'W' : '-', m->params.is_unrotated[i] ? '-' : 'R',
                         0};
        if (strncmp(layer, expected + 2 * (size_t)i, 2) != 0)
            fail_msg("%s, layer %u is %s, expected %s", name, i, layer, expected);
    }
    llm_close(m);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

/* Without layer types, which each of these has but mistral. */
#define NO_TYPES "\"layer_types\"", "\"layer_kinds\""

static void test_windows(void **state)
{
    (void)state;
    check_layers("mistral", NULL, NULL, 24, "WRWRWRWR");
    check_layers("mistral", "\"sliding_window\": 24", "\"sliding_window\": null", 0, "-R-R-R-R");
    check_layers("mistral", "\"sliding_window\": 24", "\"other\": 24", 4096, "WRWRWRWR");
    check_layers("ministral", NULL, NULL, 24, "WRWRWR-R");
    check_layers("ministral", NO_TYPES, 24, "WRWRWRWR");
    check_layers("gemma2", NO_TYPES, 24, "WR-RWR-R");
    check_layers("olmo3", NO_TYPES, 24, "WRWRWR-R");
    check_layers("cohere2", NO_TYPES, 24, "WRWRWR--");
    check_layers("cohere2", "\"layer_types\"",
                 "\"sliding_window_pattern\": \"LG\", \"layer_kinds\"", 24, "WR--WR--");
    check_layers("cohere2", "\"layer_types\"", "\"sliding_window_pattern\": 2, \"layer_kinds\"", 24,
                 "WR--WR--");
    check_layers("exaone4", NO_TYPES, 24, "WRWRWR--");
    check_layers("qwen2-window", NULL, NULL, 24, "-R-RWRWR");
    check_layers("qwen2", NO_TYPES, 0, "-R-R-R-R");
    check_layers("smollm3", NULL, NULL, 0, "-R-R-R--");
    check_layers("smollm3", "\"no_rope_layers\"", "\"rope_layers\"", 0, "-R-R-R--");
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *from, *to;
        weft_status status;
        const char *message;
    } CASES[] = {
        {"phi", "\"qk_layernorm\": false", "\"qk_layernorm\": true", WEFT_UNSUPPORTED,
         "qk_layernorm is not supported"},
        {"nemotron", "\"relu2\"", "\"relu\"", WEFT_UNSUPPORTED, "hidden_act 'relu' is not"},
        {"llama", "\"silu\"", "\"relu2\"", WEFT_UNSUPPORTED, "hidden_act 'relu2' is not"},
        {"gemma2", "\"gelu_pytorch_tanh\"", "\"quick_gelu\"", WEFT_UNSUPPORTED,
         "hidden_activation 'quick_gelu' is not"},
        {"olmo", "\"clip_qkv\": null", "\"clip_qkv\": 8.0", WEFT_UNSUPPORTED, "clip_qkv 8 is not"},
        {"smollm3", "\"no_rope_layers\": [", "\"no_rope_layers\": [2, ", WEFT_FORMAT,
         "no_rope_layers of layer 0 is neither 0 nor 1"},
        {"smollm3", "\"no_rope_layers\": [", "\"no_rope_layers\": [1], \"x\": [", WEFT_FORMAT,
         "no_rope_layers has 1 entries for 4 layers"},
        {"phi3-longrope", "\"long_factor\": [", "\"long_factor\": [1.0, ", WEFT_FORMAT,
         "7 numbers in long_factor, expected 6"},
        {"phi3-longrope", "\"long_factor\": [\n      1.0", "\"long_factor\": [\n      0.0",
         WEFT_FORMAT, "long_factor of pair 0 is 0"},
        {"phi3-longrope", "\"longrope\"", "\"ntk\"", WEFT_UNSUPPORTED, "rope type 'ntk' is not"},
        {"hunyuan-alpha", "\"alpha\": 1000.0", "\"alpha\": 0.0", WEFT_UNSUPPORTED,
         "rope type 'dynamic' is not"},
        {"qwen3", "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\", \"alpha\": 8.0",
         WEFT_UNSUPPORTED, "rope type 'dynamic' is not"},
        {"ministral3", "\"llama_4_scaling_beta\": 0.1", "\"llama_4_scaling_beta\": -0.1",
         WEFT_FORMAT, "llama_4_scaling_beta is -0.1"},
        {"glm4", "    \"partial_rotary_factor\": 0.5", "    \"partial_rotary_factor\": 0.2",
         WEFT_FORMAT, "partial_rotary_factor 0.2 of heads of 16"},
        {"cohere2", "\"layer_types\"", "\"sliding_window_pattern\": \"LX\", \"layer_kinds\"",
         WEFT_FORMAT, "sliding_window_pattern 'LX'"},
        {"cohere2", "\"layer_types\"", "\"sliding_window_pattern\": 0.5, \"layer_kinds\"",
         WEFT_FORMAT, "sliding_window_pattern is 0.5"},
        {"granite", "\"rms_norm_eps\"", "\"rms_eps\"", WEFT_FORMAT, "has no rms_norm_eps"},
        {"seed_oss", "\"attention_out_bias\": false", "\"attention_out_bias\": true", WEFT_FORMAT,
         "self_attn.o_proj.bias"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        golden_copy s;
        weft_error err;
        golden_copy_open(&s, CASES[i].name);
        golden_change change = {.config = {CASES[i].from, CASES[i].to}};
        weft_status status = golden_open_changed(&s, &change, &err);
        if (status != CASES[i].status || strstr(err.message, CASES[i].message) == NULL)
            fail_msg("%s with %s: '%s'", CASES[i].name, CASES[i].to, err.message);
        golden_copy_close(&s);
    }
}

/* A bias that no flag of the config is about, and one that it denies, have no place. */
static void test_left_over(void **state)
{
    (void)state;
    static const golden_change CHANGES[] = {
        {.more = "lm_head.bias", .from = "model.norm.weight"},
        {.more = "model.layers.0.self_attn.q_proj.bias", .from = "model.norm.weight"},
        {.more = "model.layers.0.input_layernorm.bias", .from = "model.norm.weight"},
        {.more = "model.layers.0.self_attn.q_norm.weight", .from = "model.norm.weight"},
    };
    golden_copy s;
    golden_copy_open(&s, "mistral");
    for (size_t i = 0; i < COUNT_OF(CHANGES); i++) {
        weft_error err;
        assert_status(WEFT_UNSUPPORTED, golden_open_changed(&s, &CHANGES[i], &err), &err);
        assert_message(&err, CHANGES[i].more);
    }
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),      cmocka_unit_test(test_gguf_refused),
        cmocka_unit_test(test_windows),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_left_over),
    };
    return TEST_RUN("models/dense", tests);
}
