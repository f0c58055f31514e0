/* test_encodings.c - a small Llama in every form that a checkpoint may store its weights in: it
 * opens, and says what the same checkpoint says when its weights are stored decoded, as f32.
 *
 * Encodings without a loop of their own are decoded and then multiplied as f32, so the logits are
 * the same bits on every backend and instruction set, whatever inputs are rounded to. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kernel_cases.h"
#include "base/io.h"
#include "models/model.h"
#include "support/files.h"
#include "support/runs.h"

enum { LAYERS = 2, WIDTH = 256, KV_WIDTH = 128, MLP = 512, VOCAB = 96, PROMPT = 7, MAX_NEW = 3 };

/* What is written of a module: its codes and scales in one folder, all of it decoded in another. */
typedef struct pair {
    safetensors_builder coded, plain;
} pair;

typedef struct module {
    const char *path;
    uint32_t rows, cols;
} module;

static const module LAYER_MODULES[] = {
    {"self_attn.q_proj", WIDTH, WIDTH},    {"self_attn.k_proj", KV_WIDTH, WIDTH},
    {"self_attn.v_proj", KV_WIDTH, WIDTH}, {"self_attn.o_proj", WIDTH, WIDTH},
    {"mlp.gate_proj", MLP, WIDTH},         {"mlp.up_proj", MLP, WIDTH},
    {"mlp.down_proj", WIDTH, MLP},
};

/* ---- one module in a form -------------------------------------------------------------------- */

static void add(safetensors_builder *b, const char *path, const char *part, const char *type,
                const uint64_t dims[2], uint32_t n_dims, const void *data, size_t n_bytes)
{
    char name[192];
    snprintf(name, sizeof name, "%s%s", path, part);
    safetensors_add(b, name, type, dims, n_dims, data, n_bytes);
}

static void add_plane(safetensors_builder *b, const char *path, const char *part, const char *type,
                      const tensor *t, uint32_t plane, uint32_t size)
{
    uint64_t rows = t->n_rows;
    if (t->row_bytes[plane] == 0) rows = (rows + t->scale_rows - 1) / t->scale_rows;
    uint64_t dims[2] = {rows, t->plane_bytes[plane] / rows / size};
    add(b, path, part, type, dims, 2, t->planes[plane], (size_t)t->plane_bytes[plane]);
}

static void add_decoded(safetensors_builder *b, const char *path, const tensor *t)
{
    size_t n = (size_t)(t->n_rows * t->n_cols);
    float *values = case_alloc(n * sizeof *values);
    tensor_decode(t, values);
    uint64_t dims[2] = {t->n_rows, t->n_cols};
    add(b, path, ".weight", "F32", dims, 2, values, n * sizeof *values);
    free(values);
}

/* Writes t, made as the form says. */
typedef void write_fn(safetensors_builder *b, const char *path, tensor *t);

static void write_mlx(safetensors_builder *b, const char *path, tensor *t)
{
    t->factor = 0.0F;
    add_plane(b, path, ".weight", "U32", t, 0, 4);
    add_plane(b, path, ".scales", "U8", t, 1, 1);
}

static void write_affine(safetensors_builder *b, const char *path, tensor *t)
{
    add_plane(b, path, ".weight", "U32", t, 0, 4);
    add_plane(b, path, ".scales", "BF16", t, 1, 2);
    add_plane(b, path, ".biases", "BF16", t, 2, 2);
}

static void write_bf16(safetensors_builder *b, const char *path, tensor *t)
{
    add_plane(b, path, ".weight", "BF16", t, 0, 2);
}

static void write_blocks(safetensors_builder *b, const char *path, tensor *t)
{
    add_plane(b, path, ".weight", "F8_E4M3", t, 0, 1);
    add_plane(b, path, ".weight_scale_inv", "BF16", t, 1, 2);
}

static void write_rows(safetensors_builder *b, const char *path, tensor *t)
{
    add_plane(b, path, ".weight", "F8_E4M3", t, 0, 1);
    add_plane(b, path, ".weight_scale", "F32", t, 1, 4);
}

static const uint64_t ONE[2] = {1, 0};

/* One scale, with and without dimensions, and what a static scale of inputs leaves behind. */
static void write_whole(safetensors_builder *b, const char *path, tensor *t)
{
    static const float INPUT = 0.25F;
    t->scale_rows = 0;
    t->plane_bytes[1] = sizeof(float);
    add_plane(b, path, ".weight", "F8_E4M3", t, 0, 1);
    bool is_key = strstr(path, "k_proj") != NULL;
    add(b, path, ".weight_scale", "F32", ONE, is_key ? 1 : 0, t->planes[1], sizeof(float));
    add(b, path, ".input_scale", "F32", ONE, 0, &INPUT, sizeof INPUT);
    if (is_key) add(b, path, ".k_scale", "F32", ONE, 0, &INPUT, sizeof INPUT);
}

static void write_mxfp8(safetensors_builder *b, const char *path, tensor *t)
{
    add_plane(b, path, ".weight", "F8_E4M3", t, 0, 1);
    add_plane(b, path, ".weight_scale", "U8", t, 1, 1);
}

static void write_modelopt(safetensors_builder *b, const char *path, tensor *t)
{
    add_plane(b, path, ".weight", "U8", t, 0, 1);
    add_plane(b, path, ".weight_scale", "F8_E4M3", t, 1, 1);
    add(b, path, ".weight_scale_2", "F32", ONE, 0, &t->factor, sizeof t->factor);
}

static void write_packed(safetensors_builder *b, const char *path, tensor *t)
{
    float divisor = 3.7F;
    t->factor = 1.0F / divisor;
    add_plane(b, path, ".weight_packed", "U8", t, 0, 1);
    add_plane(b, path, ".weight_scale", "F8_E4M3", t, 1, 1);
    add(b, path, ".weight_global_scale", "F32", ONE, 1, &divisor, sizeof divisor);
    add(b, path, ".input_global_scale", "F32", ONE, 1, &divisor, sizeof divisor);
}

static void add_words(safetensors_builder *b, const char *path, const char *part, const tensor *t,
                      uint32_t plane, uint64_t rows)
{
    uint64_t dims[2] = {rows, t->plane_bytes[plane] / 4 / rows};
    add(b, path, part, "I32", dims, 2, t->planes[plane], (size_t)t->plane_bytes[plane]);
}

static void write_scales_and_zeros(safetensors_builder *b, const char *path, const tensor *t)
{
    uint64_t dims[2] = {t->n_cols / t->group, t->n_rows};
    add(b, path, ".scales", "F16", dims, 2, t->planes[1], (size_t)t->plane_bytes[1]);
    add_words(b, path, ".qzeros", t, 2, dims[0]);
}

/* The order of columns is given for some, and is theirs. */
static void write_gptq(safetensors_builder *b, const char *path, tensor *t)
{
    uint32_t order[MLP];
    for (uint32_t i = 0; i < t->n_cols; i++) order[i] = i / t->group;
    add_words(b, path, ".qweight", t, 0, t->n_cols * t->bits / 32);
    write_scales_and_zeros(b, path, t);
    const uint64_t dims[2] = {t->n_cols, 0};
    if (strstr(path, "mlp") == NULL) return;
    add(b, path, ".g_idx", "I32", dims, 1, order, (size_t)t->n_cols * sizeof *order);
}

static void write_awq(safetensors_builder *b, const char *path, tensor *t)
{
    add_words(b, path, ".qweight", t, 0, t->n_cols);
    write_scales_and_zeros(b, path, t);
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* How modules are stored: the first row whose text their path contains. */
typedef struct storage {
    const char *part;
    case_weight weight;
    write_fn *write;
} storage;

static const storage MXFP4 = {"", {ENCODING_ID_MXFP4_PLANES, 4, 32, ENCODING_ID_NONE}, write_mlx};
#define AS_BF16 {ENCODING_ID_BF16, 0, 0, ENCODING_ID_NONE}, write_bf16
#define AS_MXFP4 {ENCODING_ID_MXFP4_PLANES, 4, 32, ENCODING_ID_NONE}, write_mlx
#define AS_MXFP8 {ENCODING_ID_MXFP8_PLANES, 8, 32, ENCODING_ID_NONE}, write_mlx
#define AS_NVFP4 {ENCODING_ID_NVFP4_PLANES, 4, 16, ENCODING_ID_NONE}, write_mlx
#define AS_AFFINE8 {ENCODING_ID_AFFINE, 8, 64, ENCODING_ID_BF16}, write_affine

/* What is left as it was by most. */
#define ENDS                                                                                       \
    {"embed", AS_BF16},                                                                            \
    {                                                                                              \
        "lm_head", AS_BF16                                                                         \
    }

#define MLX_MXFP4 "\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\"}"
#define FOREIGN(members) "\"quantization_config\": {" members "}"

typedef struct form {
    const char *config; /* a member of config.json */
    storage of[4];
    bool is_rounded; /* integer loops: only ref says the same */
} form;

// clang-format off
static const form FORMS[] = {
    {"\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\"}",
     {{"", AS_MXFP4}}, false},
    {"\"quantization_config\": {\"group_size\": 32, \"bits\": 8, \"mode\": \"mxfp8\"}",
     {{"", AS_MXFP8}}, false},
    {"\"quantization\": {\"mode\": \"nvfp4\"}, \"quantization_config\": {\"mode\": \"nvfp4\"}",
     {{"", AS_NVFP4}}, false},
    {"\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\","
     " \"lm_head\": false, \"model.layers.1.mlp.up_proj\": {\"mode\": \"mxfp8\"},"
     " \"language_model.model.layers.0.self_attn.o_proj\": {\"mode\": \"nvfp4\", \"bits\": 4},"
     " \"model.embed_tokens\": true}",
     {{"lm_head", AS_BF16}, {"1.mlp.up_proj", AS_MXFP8}, {"0.self_attn.o_proj", AS_NVFP4},
      {"", AS_MXFP4}}, false},
    {"\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\","
     " \"model.layers.1.self_attn.q_proj\": {\"bits\": 8, \"group_size\": 64}}",
     {{"1.self_attn.q_proj", AS_AFFINE8}, {"", AS_MXFP4}}, true},
    {FOREIGN("\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", \"weight_block_size\": [5, 16]"),
     {ENDS, {"", {ENCODING_ID_F8_E4M3, 8, 16, ENCODING_ID_BF16}, write_blocks}}, false},
    {FOREIGN("\"quant_method\": \"compressed-tensors\", \"format\": \"float-quantized\""),
     {ENDS, {"", {ENCODING_ID_F8_E4M3, 8, 0, ENCODING_ID_F32}, write_rows}}, false},
    {FOREIGN("\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\""),
     {ENDS, {"", {ENCODING_ID_F8_E4M3, 8, 0, ENCODING_ID_F32}, write_whole}}, false},
    {FOREIGN("\"quant_method\": \"modelopt\""),
     {ENDS, {"", {ENCODING_ID_MXFP8_PLANES, 8, 32, ENCODING_ID_NONE}, write_mxfp8}}, false},
    {FOREIGN("\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\""),
     {ENDS, {"", {ENCODING_ID_NVFP4_PLANES, 4, 16, ENCODING_ID_NONE}, write_modelopt}}, false},
    {FOREIGN("\"quant_method\": \"compressed-tensors\", \"format\": \"nvfp4-pack-quantized\""),
     {ENDS, {"", {ENCODING_ID_NVFP4_PLANES, 4, 16, ENCODING_ID_NONE}, write_packed}}, false},
    {FOREIGN("\"quant_method\": \"gptq\", \"bits\": 4, \"desc_act\": false"),
     {ENDS, {"", {ENCODING_ID_GPTQ, 4, 64, ENCODING_ID_F16}, write_gptq}}, false},
    {FOREIGN("\"quant_method\": \"awq\", \"bits\": 4, \"zero_point\": true, \"version\": \"gemm\""),
     {ENDS, {"", {ENCODING_ID_AWQ, 4, 128, ENCODING_ID_F16}, write_awq}}, false},
};
// clang-format on

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 256,"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 512,"
    " \"vocab_size\": 96, \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5, %s}";

/* What is bf16 stays so: avx512bf16 has an order of its own for it. */
static void add_module(pair *p, const form *f, const char *path, uint32_t rows, uint32_t cols)
{
    const storage *s = f->of;
    while (strstr(path, s->part) == NULL) s++;
    tensor t = case_tensor(&s->weight, rows, cols);
    s->write(&p->coded, path, &t);
    if (s->weight.id == ENCODING_ID_BF16) {
        s->write(&p->plain, path, &t);
    } else {
        add_decoded(&p->plain, path, &t);
    }
    case_tensor_free(&t);
}

static void add_norm(pair *p, const char *path)
{
    static const case_weight F32 = {ENCODING_ID_F32, 0, 0, ENCODING_ID_NONE};
    tensor t = case_tensor(&F32, 1, WIDTH);
    const uint64_t dims[2] = {WIDTH, 0};
    add(&p->coded, path, ".weight", "F32", dims, 1, t.planes[0], (size_t)t.plane_bytes[0]);
    add(&p->plain, path, ".weight", "F32", dims, 1, t.planes[0], (size_t)t.plane_bytes[0]);
    case_tensor_free(&t);
}

static void add_model(pair *p, const form *f)
{
    char path[128];
    safetensors_init(&p->coded);
    safetensors_init(&p->plain);
    add_module(p, f, "model.embed_tokens", VOCAB, WIDTH);
    add_module(p, f, "lm_head", VOCAB, WIDTH);
    add_norm(p, "model.norm");
    for (int layer = 0; layer < LAYERS; layer++) {
        snprintf(path, sizeof path, "model.layers.%d.input_layernorm", layer);
        add_norm(p, path);
        snprintf(path, sizeof path, "model.layers.%d.post_attention_layernorm", layer);
        add_norm(p, path);
        for (size_t i = 0; i < sizeof LAYER_MODULES / sizeof *LAYER_MODULES; i++) {
            const module *m = &LAYER_MODULES[i];
            snprintf(path, sizeof path, "model.layers.%d.%s", layer, m->path);
            add_module(p, f, path, m->rows, m->cols);
        }
    }
}

static void write_model(test_folder *folder, const safetensors_builder *b, const char *member)
{
    char config[2048];
    int n = snprintf(config, sizeof config, CONFIG, member);
    assert_in_range(n, 1, sizeof config - 1);
    test_folder_write(folder, "config.json", config, (size_t)n);
    safetensors_write(b, folder, "model.safetensors");
}

/* ---- the same answers ------------------------------------------------------------------------ */

static void check_on(const weft_model *coded, const weft_model *plain, weft_engine_options o)
{
    static const int32_t TOKENS[PROMPT] = {3, 95, 17, 0, 42, 42, 8};
    const weft_model *models[] = {coded, plain};
    uint32_t n_vocab = run_n_vocab(coded);
    run runs[2];
    for (size_t i = 0; i < 2; i++) {
        weft_engine *engine = run_open_engine(models[i], &o);
        runs[i] = (run){
            .prompt = TOKENS, .n_prompt = PROMPT, .max_new = MAX_NEW, .want_prompt_logits = true};
        run_all(engine, n_vocab, &runs[i], 1);
        weft_engine_close(engine);
    }
    assert_true(isfinite(runs[0].new_logits[0]) && runs[0].new_logits[0] != 0.0F);
    run_assert_identical(&runs[0], &runs[1], n_vocab);
    run_free(&runs[0]);
    run_free(&runs[1]);
}

/* only_ref: what is compared is computed otherwise elsewhere; it must run there all the same. */
static void check_models(const char *coded_path, const char *plain_path, bool only_ref)
{
    weft_model *coded = run_open_model(coded_path);
    weft_model *plain = run_open_model(plain_path);
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (int act = 0; act < 2; act++) {
        weft_engine_options o = {.struct_size = sizeof o,
                                 .backend = "ref",
                                 .act = act == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16,
                                 .max_outputs = 64};
        check_on(coded, plain, o);
        for (size_t i = 0; i < n_isas; i++) {
            o.backend = "cpu";
            o.isa = isas[i];
            o.n_threads = 2;
            check_on(coded, only_ref ? coded : plain, o);
        }
    }
    weft_model_close(coded);
    weft_model_close(plain);
}

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        test_folder coded, plain;
        pair p;
        case_seed = 100 + i;
        print_message("%s\n", FORMS[i].config);
        test_folder_create(&coded);
        test_folder_create(&plain);
        add_model(&p, &FORMS[i]);
        write_model(&coded, &p.coded, FORMS[i].config);
        write_model(&plain, &p.plain, "\"use_cache\": true");
        check_models(coded.path, plain.path, FORMS[i].is_rounded);
        safetensors_deinit(&p.coded);
        safetensors_deinit(&p.plain);
        test_folder_remove(&coded);
        test_folder_remove(&plain);
    }
}

/* ---- GGUF: every block encoding that has no loop of its own ---------------------------------- */

static const module GGUF_MODULES[] = {
    {"attn_q", WIDTH, WIDTH},      {"attn_k", KV_WIDTH, WIDTH}, {"attn_v", KV_WIDTH, WIDTH},
    {"attn_output", WIDTH, WIDTH}, {"ffn_gate", MLP, WIDTH},    {"ffn_up", MLP, WIDTH},
    {"ffn_down", WIDTH, MLP},
};

static void gguf_module(gguf_builder b[2], const char *path, const case_weight *c,
                        const uint64_t dims[2])
{
    char name[128];
    tensor t = case_tensor(c, (uint32_t)dims[0], (uint32_t)dims[1]);
    size_t n = (size_t)(dims[0] * dims[1]);
    snprintf(name, sizeof name, "%s.weight", path);
    gguf_add_tensor(&b[0], name, (uint32_t)t.encoding->gguf_type, dims, 2, t.planes[0],
                    (size_t)t.plane_bytes[0]);
    if (c->id == ENCODING_ID_NVFP4 && strstr(path, "ffn") != NULL) {
        char scale[128];
        t.factor = 1.7F;
        snprintf(scale, sizeof scale, "%s.scale", path);
        gguf_add_tensor(&b[0], scale, 0, ONE, 1, &t.factor, sizeof t.factor);
    }
    float *values = case_alloc(n * sizeof *values);
    tensor_decode(&t, values);
    gguf_add_tensor(&b[1], name, 0, dims, 2, values, n * sizeof *values);
    free(values);
    case_tensor_free(&t);
}

static void gguf_norm(gguf_builder b[2], const char *path)
{
    char name[128];
    float values[WIDTH];
    for (size_t i = 0; i < WIDTH; i++) values[i] = 1.0F + 0.1F * case_number();
    snprintf(name, sizeof name, "%s.weight", path);
    for (size_t i = 0; i < 2; i++)
        gguf_add_tensor(&b[i], name, 0, (const uint64_t[]){WIDTH}, 1, values, sizeof values);
}

static void gguf_model(gguf_builder b[2], const case_weight *c)
{
    for (size_t i = 0; i < 2; i++) {
        gguf_init(&b[i], 3);
        gguf_add_text(&b[i], "general.architecture", "llama");
        gguf_add_u32(&b[i], "llama.block_count", LAYERS);
        gguf_add_u32(&b[i], "llama.context_length", 128);
        gguf_add_u32(&b[i], "llama.embedding_length", WIDTH);
        gguf_add_u32(&b[i], "llama.feed_forward_length", MLP);
        gguf_add_u32(&b[i], "llama.attention.head_count", 4);
        gguf_add_u32(&b[i], "llama.attention.head_count_kv", 2);
        gguf_add_f32(&b[i], "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    }
    gguf_module(b, "token_embd", c, (const uint64_t[]){VOCAB, WIDTH});
    gguf_module(b, "output", c, (const uint64_t[]){VOCAB, WIDTH});
    gguf_norm(b, "output_norm");
    for (int layer = 0; layer < LAYERS; layer++) {
        char path[64];
        snprintf(path, sizeof path, "blk.%d.attn_norm", layer);
        gguf_norm(b, path);
        snprintf(path, sizeof path, "blk.%d.ffn_norm", layer);
        gguf_norm(b, path);
        for (size_t i = 0; i < sizeof GGUF_MODULES / sizeof *GGUF_MODULES; i++) {
            const module *m = &GGUF_MODULES[i];
            snprintf(path, sizeof path, "blk.%d.%s", layer, m->path);
            gguf_module(b, path, c, (const uint64_t[]){m->rows, m->cols});
        }
    }
}

static void test_gguf(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < N_CASE_WEIGHTS; i++) {
        const encoding *e = encoding_by_id(CASE_WEIGHTS[i].id);
        tensor any = {.encoding = e};
        if (e->gguf_type == GGUF_TYPE_NONE || kernel_weights_of(&any) != KERNEL_ANY) continue;
        test_folder folder;
        gguf_builder b[2];
        char paths[2][300];
        case_seed = 500 + i;
        print_message("%s\n", e->name);
        test_folder_create(&folder);
        gguf_model(b, &CASE_WEIGHTS[i]);
        for (size_t k = 0; k < 2; k++) {
            const char *path = gguf_write(&b[k], &folder, k == 0 ? "coded.gguf" : "plain.gguf");
            snprintf(paths[k], sizeof paths[k], "%s", path);
            gguf_deinit(&b[k]);
        }
        check_models(paths[0], paths[1], false);
        test_folder_remove(&folder);
        n++;
    }
    assert_int_equal(n, 16);
}

/* ---- a tensor of experts, as gpt-oss stores it ----------------------------------------------- */

static void test_experts(void **state)
{
    (void)state;
    enum { EXPERTS = 3, ROWS = 10, COLS = 96 };
    test_folder folder;
    safetensors_builder b;
    tensor expected = case_tensor(&MXFP4.weight, EXPERTS * ROWS, COLS);
    test_folder_create(&folder);
    safetensors_init(&b);
    const uint64_t dims[4] = {EXPERTS, ROWS, COLS / 32, 16};
    safetensors_add(&b, "mlp.experts.down_proj_blocks", "U8", dims, 4, expected.planes[0],
                    (size_t)expected.plane_bytes[0]);
    safetensors_add(&b, "mlp.experts.down_proj_scales", "U8", dims, 3, expected.planes[1],
                    (size_t)expected.plane_bytes[1]);
    write_model(&folder, &b, FOREIGN("\"quant_method\": \"mxfp4\""));
    weft_error err = {WEFT_OK, ""};
    env world = {.allocator = mem_system(), .io = io_system()};
    weights *w;
    model_source source;
    tensor t;
    bool used[2] = {false, false};
    assert_ok(weights_open(&world, folder.path, &w, &err), &err);
    assert_ok(source_init(&source, w, &err), &err);
    assert_true(llm_has_tensor(&source, "mlp.experts.down_proj"));
    assert_ok(llm_bind_tensor(&source, "mlp.experts.down_proj", &t, used, &err), &err);
    assert_true(used[0] && used[1]);
    assert_int_equal(t.n_dims, 3);
    assert_int_equal(t.dims[0], EXPERTS);
    assert_int_equal(t.dims[1], ROWS);
    assert_int_equal(t.dims[2], COLS);
    float values[2][EXPERTS * ROWS * COLS];
    tensor_decode(&t, values[0]);
    tensor_decode(&expected, values[1]);
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    weights_close(w);
    safetensors_deinit(&b);
    case_tensor_free(&expected);
    test_folder_remove(&folder);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* An MXFP4 checkpoint under another config, or with a tensor more. */
typedef struct refusal {
    const char *config, *extra, *type;
    weft_status status;
    const char *message;
} refusal;

// clang-format off
static const refusal REFUSALS[] = {
    {"\"quantization\": {\"mode\": \"mxfp6\"}", NULL, NULL,
     WEFT_UNSUPPORTED,
     "quantization mode 'mxfp6' is not supported"},
    {"\"quantization\": {\"mode\": \"mxfp4\", \"bits\": 8}", NULL, NULL,
     WEFT_UNSUPPORTED,
     "tensor 'model.embed_tokens.weight': mxfp4 with 8 bits in groups of 32 is not supported"},
    {"\"quantization\": {\"mode\": \"nvfp4\"}", NULL, NULL,
     WEFT_FORMAT, "that is not nvfp4_planes"},
    {"\"quantization\": {\"mode\": \"mxfp4\", \"model.layers.1.mlp.up_proj\": false}", NULL, NULL,
     WEFT_FORMAT,
     "tensor 'model.layers.1.mlp.up_proj.weight' has scales, and config.json says it is not"},
    {"\"quantization\": {\"mode\": \"mxfp4\", \"lm_head\": {\"bits\": 8}}", NULL, NULL,
     WEFT_FORMAT,
     "tensor 'lm_head.biases' is missing"},
    {MLX_MXFP4, "lm_head.biases", "U8", WEFT_FORMAT,
     "tensor 'lm_head.biases' has no place beside mxfp4_planes"},
    {MLX_MXFP4, "lm_head.g_idx", "U8", WEFT_UNSUPPORTED, "tensor 'lm_head.g_idx' has no place"},
    {FOREIGN("\"quant_method\": \"eetq\""), NULL, NULL,
     WEFT_UNSUPPORTED,
     "config.json: quantization method 'eetq' is not supported"},
    {FOREIGN("\"quant_method\": \"compressed-tensors\", \"format\": \"marlin-24\""), NULL, NULL,
     WEFT_UNSUPPORTED,
     "config.json: format 'marlin-24' of compressed-tensors is not supported"},
    {FOREIGN("\"quant_method\": \"compressed-tensors\", "
             "\"transform_config\": {\"r1\": 1}"), NULL, NULL,
     WEFT_UNSUPPORTED,
     "config.json: transform_config is not supported"},
    {FOREIGN("\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8_AWQ\""), NULL, NULL,
     WEFT_UNSUPPORTED,
     "config.json: quant_algo 'W4A8_AWQ' of modelopt is not supported"},
    {FOREIGN("\"quant_method\": \"gptq\", \"desc_act\": true"), NULL, NULL,
     WEFT_UNSUPPORTED,
     "config.json: desc_act true of gptq is not supported"},
};
// clang-format on

static void test_refusals(void **state)
{
    (void)state;
    const form f = {"", {MXFP4}, false};
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        const refusal *r = &REFUSALS[i];
        test_folder folder;
        pair p;
        test_folder_create(&folder);
        add_model(&p, &f);
        if (r->extra != NULL) add(&p.coded, r->extra, "", r->type, ONE, 1, NULL, 1);
        write_model(&folder, &p.coded, r->config);
        weft_error err = {WEFT_OK, ""};
        weft_model *model = NULL;
        assert_status(r->status, weft_model_open(folder.path, NULL, &model, &err), &err);
        assert_message(&err, r->message);
        safetensors_deinit(&p.coded);
        safetensors_deinit(&p.plain);
        test_folder_remove(&folder);
    }
}

/* Only the first module: what is wrong with it is said before the rest is missed. */
static void test_f8_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *config, *scale;
        const char *type;
        uint64_t dims[2];
        size_t bytes;
        const char *message;
    } CASES[] = {
        {"\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}",
         ".weight_scale_inv",
         "F32",
         {2, 2},
         16,
         "'model.embed_tokens.weight_scale_inv' is [2, 2] for 'model.embed_tokens.weight' [96, 256]"
         " in blocks of [128, 128]"},
        {"\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [0, 1]}",
         ".weight_scale_inv",
         "F32",
         {1, 2},
         8,
         "a block of scales is not two sizes"},
        {"\"use_cache\": true",
         ".weight_scale",
         "I32",
         {1, 1},
         4,
         "'model.embed_tokens.weight_scale' is i32, expected f32, f16 or bf16"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        test_folder folder;
        safetensors_builder b;
        test_folder_create(&folder);
        safetensors_init(&b);
        const uint64_t dims[2] = {VOCAB, WIDTH};
        add(&b, "model.embed_tokens", ".weight", "F8_E4M3", dims, 2, NULL, (size_t)VOCAB * WIDTH);
        add(&b, "model.embed_tokens", CASES[i].scale, CASES[i].type, CASES[i].dims, 2, NULL,
            CASES[i].bytes);
        write_model(&folder, &b, CASES[i].config);
        weft_error err = {WEFT_OK, ""};
        weft_model *model = NULL;
        assert_true(weft_model_open(folder.path, NULL, &model, &err) != WEFT_OK);
        assert_message(&err, CASES[i].message);
        safetensors_deinit(&b);
        test_folder_remove(&folder);
    }
}

/* Columns in the order of their activations, and a packing that nobody names. */
static void test_gptq_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
    } CASES[] = {
        {FOREIGN("\"quant_method\": \"gptq\", \"bits\": 4"),
         "tensor 'model.embed_tokens.g_idx' has columns in another order (desc_act)"},
        {"\"use_cache\": true", "tensor 'model.embed_tokens.qweight' is packed as GPTQ or AWQ do"},
        {FOREIGN("\"quant_method\": \"gptq\", \"bits\": 8"), "are not gptq of 8 bits"},
        {FOREIGN("\"quant_method\": \"gptq\", \"checkpoint_format\": \"gptq_v2\""),
         "config.json: checkpoint_format 'gptq_v2' of gptq is not supported"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        static const char PATH[] = "model.embed_tokens";
        test_folder folder;
        safetensors_builder b;
        test_folder_create(&folder);
        safetensors_init(&b);
        add(&b, PATH, ".qweight", "I32", (const uint64_t[2]){WIDTH / 8, VOCAB}, 2, NULL,
            (size_t)WIDTH / 2 * VOCAB);
        add(&b, PATH, ".scales", "F16", (const uint64_t[2]){2, VOCAB}, 2, NULL, (size_t)4 * VOCAB);
        add(&b, PATH, ".qzeros", "I32", (const uint64_t[2]){2, VOCAB / 8}, 2, NULL, VOCAB);
        add(&b, PATH, ".g_idx", "I32", (const uint64_t[2]){WIDTH, 0}, 1, NULL, (size_t)4 * WIDTH);
        write_model(&folder, &b, CASES[i].config);
        weft_error err = {WEFT_OK, ""};
        weft_model *model = NULL;
        assert_true(weft_model_open(folder.path, NULL, &model, &err) != WEFT_OK);
        assert_message(&err, CASES[i].message);
        safetensors_deinit(&b);
        test_folder_remove(&folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),       cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_experts),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_f8_refusals), cmocka_unit_test(test_gptq_refusals),
    };
    return TEST_RUN("models/encodings", tests);
}
