/* image_settings.c - what a checkpoint's image processor says of sizes and numbers:
 * "image_processor" of processor_config.json, or preprocessor_config.json. What they leave out is
 * as the family has it; what would be computed otherwise here is refused. */
#include <math.h>

#include "base/assert.h"
#include "models/tower.h"

enum { FILE_MOST = 1 << 20 };

/* The number under a key, left alone when absent. */
static weft_status read_number(const json *o, const char *key, double least, double most,
                               double *number, weft_error *err)
{
    const json *value = json_get(o, key);
    if (json_kind_of(value) == JSON_KIND_NULL) return WEFT_OK;
    double n = json_number(value, (double)NAN);
    if (!(n >= least && n <= most)) {
        return err_set(err, WEFT_FORMAT, "%s is %s %g, expected %g to %g", key,
                       json_kind_name(json_kind_of(value)), n, least, most);
    }
    *number = n;
    return WEFT_OK;
}

/* A number that must be what vision_config says. */
static weft_status check_equal(const json *o, const char *key, uint32_t expected, weft_error *err)
{
    double number = (double)expected;
    weft_status status = read_number(o, key, 1.0, 65536.0, &number, err);
    if (status != WEFT_OK || number == (double)expected) return status;
    return err_set(err, WEFT_UNSUPPORTED, "%s is %g, vision_config has %u", key, number, expected);
}

/* A step of the processor that is done, or one that is not. */
static weft_status check_step(const json *o, const char *key, bool done, weft_error *err)
{
    json_kind kind = json_kind_of(json_get(o, key));
    if (kind != JSON_KIND_NULL && kind != JSON_KIND_BOOL)
        return err_set(err, WEFT_FORMAT, "%s is %s, expected true or false", key,
                       json_kind_name(kind));
    if (json_bool(json_get(o, key), done) == done) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "%s %s is not supported", key, done ? "false" : "true");
}

static weft_status read_colours(const json *o, const char *key, float to[VISION_COLOURS],
                                weft_error *err)
{
    const json *list = json_get(o, key);
    if (json_kind_of(list) == JSON_KIND_NULL) return WEFT_OK;
    bool ok = json_length(list) == VISION_COLOURS;
    for (uint32_t c = 0; c < VISION_COLOURS && ok; c++) {
        double x = json_number(json_at(list, c), (double)NAN);
        ok = x >= 0.0 && x <= 1.0;
        to[c] = (float)x;
    }
    return ok ? WEFT_OK : err_set(err, WEFT_FORMAT, "%s is not three numbers of 0 to 1", key);
}

/* Colours that are shifted and scaled, and sides by the number of pixels. */
static weft_status read_by_pixels(model_image *i, const json *o, weft_error *err)
{
    const json *size = json_get(o, "size");
    double least = (double)i->size.min_pixels;
    double most = (double)i->size.max_pixels;
    weft_status status = read_number(o, "min_pixels", 1.0, 1e12, &least, err);
    if (status == WEFT_OK) status = read_number(o, "max_pixels", 1.0, 1e12, &most, err);
    if (status == WEFT_OK) status = read_number(size, "shortest_edge", 1.0, 1e12, &least, err);
    if (status == WEFT_OK) status = read_number(size, "longest_edge", 1.0, 1e12, &most, err);
    if (status == WEFT_OK) status = check_step(o, "do_normalize", true, err);
    if (status == WEFT_OK) status = check_equal(o, "merge_size", i->stated_pool, err);
    if (status == WEFT_OK) status = check_equal(o, "temporal_patch_size", i->frames, err);
    if (status == WEFT_OK) status = read_colours(o, "image_mean", i->mean, err);
    if (status == WEFT_OK) status = read_colours(o, "image_std", i->std, err);
    for (uint32_t c = 0; c < VISION_COLOURS && status == WEFT_OK; c++) {
        if (!(i->std[c] > 0.0F)) status = err_set(err, WEFT_FORMAT, "image_std has a 0");
    }
    if (status != WEFT_OK) return status;
    if (least > most)
        return err_set(err, WEFT_FORMAT, "at least %g pixels, at most %g", least, most);
    i->size.min_pixels = (uint64_t)least;
    i->size.max_pixels = (uint64_t)most;
    return WEFT_OK;
}

/* The model itself does what there is to do with colours. */
static weft_status read_by_tokens(model_image *i, const json *o, weft_error *err)
{
    double tokens = (double)i->size.max_tokens;
    weft_status status = read_number(o, "max_soft_tokens", 1.0, 65536.0, &tokens, err);
    if (status == WEFT_OK) status = check_step(o, "do_normalize", false, err);
    if (status == WEFT_OK) status = check_equal(o, "pooling_kernel_size", i->stated_pool, err);
    i->size.max_tokens = (uint32_t)tokens;
    return status;
}

static weft_status read_settings(model_image *i, const json *o, weft_error *err)
{
    enum { BICUBIC = 3 };
    double factor = 1.0 / 255.0;
    double resample = BICUBIC;
    weft_status status = read_number(o, "rescale_factor", 0.0, 1.0, &factor, err);
    if (status == WEFT_OK) status = read_number(o, "resample", 0.0, 16.0, &resample, err);
    if (status == WEFT_OK) status = check_step(o, "do_rescale", true, err);
    if (status == WEFT_OK) status = check_step(o, "do_resize", true, err);
    if (status != WEFT_OK) return status;
    if (fabs(factor * 255.0 - 1.0) > 1e-6 || resample != BICUBIC) {
        return err_set(err, WEFT_UNSUPPORTED, "%s is not supported",
                       resample != BICUBIC ? "a resample other than 3 (bicubic)"
                                           : "a rescale_factor other than 1/255");
    }
    status = check_equal(o, "patch_size", i->stated_patch, err);
    if (status != WEFT_OK) return status;
    return i->size.rule == VISION_BY_PIXELS ? read_by_pixels(i, o, err) : read_by_tokens(i, o, err);
}

weft_status tower_read_settings(model_image *i, const model_source *source, weft_error *err)
{
    static const char *const NAMES[] = {"processor_config.json", "preprocessor_config.json"};
    const weights *w = source->weights;
    weft_status status = WEFT_OK;
    bool found = false;
    for (size_t k = 0; k < COUNT_OF(NAMES) && status == WEFT_OK && !found; k++) {
        char *text;
        size_t n_bytes;
        json_doc doc = {NULL};
        status = weights_read_sibling(w, NAMES[k], FILE_MOST, &text, &n_bytes, err);
        if (status != WEFT_OK || text == NULL) continue;
        status = json_parse(&doc, text, n_bytes, err);
        const json *o = k == 0 ? json_get(doc.root, "image_processor") : doc.root;
        found = json_kind_of(o) == JSON_KIND_OBJECT;
        if (status == WEFT_OK && found) status = read_settings(i, o, err);
        json_doc_free(&doc);
        mem_free(w->env.allocator, text, n_bytes + 1);
        if (status != WEFT_OK) err_context(err, "%s: ", NAMES[k]);
    }
    return status;
}
