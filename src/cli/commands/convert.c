/* convert.c - weft convert: a checkpoint in MLX's form, quantized. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/bytes.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/place.h"

typedef struct convert_values {
    const char *target;
    uint32_t bits, group, threads;
    uint64_t shard;
    const char *mode, *recipe, *type, *files;
} convert_values;

#define AT(field) offsetof(convert_values, field)

static const option_row OPTIONS[] = {
    {"bits", OPTION_COUNT, AT(bits), "N",
     "bits of a weight: 2, 3, 4, 5, 6 or 8 (default: 4, with --mode mxfp8 8)", 2, 8, NULL},
    {"group", OPTION_COUNT, AT(group), "N",
     "weights that share a scale: 32, 64 or 128 (default: 64; --mode nvfp4 has 16, mxfp4 and mxfp8 "
     "32)",
     16, 128, NULL},
    {"mode", OPTION_CHOICE, AT(mode), "NAME",
     "affine, or floating codes: mxfp4, nvfp4, mxfp8 (default: affine)", 0, 0,
     "affine|mxfp4|nvfp4|mxfp8"},
    {"recipe", OPTION_TEXT, AT(recipe), "FILE",
     "rules for some weights, as JSON (docs/convert.md); - is stdin", 0, 0, NULL},
    {"type", OPTION_CHOICE, AT(type), "TYPE",
     "f32, f16 or bf16: of what is not quantized, and of scales (default: as it is stored; f32 "
     "where a GGUF file has blocks)",
     0, 0, "f32|f16|bf16"},
    {"files", OPTION_TEXT, AT(files), "FOLDER",
     "copies the tokenizer and other small files from there (default: from SRC, if it is a folder)",
     0, 0, NULL},
    {"shard", OPTION_BYTES, AT(shard), "BYTES", "most in one file of weights (default: 5G)", 0, 0,
     NULL},
    {"threads", OPTION_COUNT, AT(threads), "N",
     "threads (default: one per processor); the result has the same bytes for any", 1, 256, NULL},
};

static const convert_values DEFAULTS = {.mode = "affine"};

static void log_line(void *user, weft_log_level level, const char *message)
{
    progress_clear(user);
    if (level == WEFT_LOG_WARN) report_note("%s", message);
}

static bool show(void *user, const weft_convert_progress *p)
{
    char done[BYTES_TEXT];
    char all[BYTES_TEXT];
    bytes_print_short(p->n_bytes, done);
    bytes_print_short(p->all_bytes, all);
    progress_show(user, "%.12s of %.12s, %u of %u tensors", done, all, p->n_tensors,
                  p->all_tensors);
    return !interrupt_take();
}

static void print_result(const weft_conversion *r, double seconds)
{
    char bytes[BYTES_TEXT];
    bytes_print(r->n_bytes, bytes);
    printf("%u tensors, %u of them quantized", r->n_tensors, r->n_quantized);
    if (r->n_whole > 0) printf(" (%u are not whole groups)", r->n_whole);
    printf("\n%s in %u %s, %.3f bits a weight; %u other files\n%.1f s\n", bytes, r->n_files,
           r->n_files == 1 ? "file" : "files",
           r->n_params > 0 ? 8.0 * (double)r->n_bytes / (double)r->n_params : 0.0, r->n_copied,
           seconds);
}

static int convert(const convert_values *v, const char *source, const strbuf *recipe)
{
    progress p = {.shown = false};
    weft_log sink = {&p, log_line};
    weft_convert_options options = {
        .struct_size = sizeof options,
        .bits = v->bits,
        .group = v->group,
        .mode = v->mode,
        .log = &sink,
        .n_threads = v->threads,
        .recipe = v->recipe != NULL ? strbuf_text(recipe) : NULL,
        .recipe_bytes = recipe->len,
        .type = v->type,
        .files = v->files,
        .shard_bytes = v->shard,
        .user = &p,
        .progress = show,
    };
    weft_conversion result = {.struct_size = sizeof result};
    weft_error err = {WEFT_OK, ""};
    uint64_t start = clock_now_ns();
    interrupt_arm();
    weft_status status = weft_convert(source, v->target, &options, &result, &err);
    interrupt_disarm();
    progress_clear(&p);
    if (status != WEFT_OK) return report_failure(&err, true);
    print_result(&result, (double)(clock_now_ns() - start) / 1e9);
    return EXIT_FINE;
}

static int run(const void *values, const char *source)
{
    const convert_values *v = values;
    weft_error err = {WEFT_OK, ""};
    strbuf recipe;
    strbuf_init(&recipe, mem_system(), INPUT_LIMIT);
    char path[IO_PATH_BYTES];
    weft_status status = place_find_model(source, path, &err);
    if (status == WEFT_OK && v->recipe != NULL) status = input_read_file(v->recipe, &recipe, &err);
    int code = status == WEFT_OK ? convert(v, path, &recipe) : report_failure(&err, false);
    strbuf_deinit(&recipe);
    return code;
}

const command COMMAND_convert = {
    .name = "convert",
    .operand = "SRC",
    .second = "DST",
    .second_at = AT(target),
    .summary = "writes a model in MLX's form, quantized, to a new folder",
    .details =
        "SRC is a MODEL of any format. DST is there when it is complete, or not at all; what "
        "exists is\nrefused. Matrices whose columns are not whole groups stay as they are, as "
        "norms, biases and\nconvolutions do. docs/convert.md says more.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};
