/* test_kernels.c - every loop of every instruction set that this processor has, against generic;
 * and promise P1: a result has the same bits alone, in any batch, and however the outputs are
 * divided. */
#include "backend/kernel_attend.h"

/* ---- linear */

static bool slot_takes(slot_id slot, const case_weight *cw)
{
    encoding_id id = cw->id;
    if (case_is_turned(cw) || slot == SLOT_linear_turned)
        return case_is_turned(cw) && slot == SLOT_linear_turned;
    if (slot == SLOT_linear_f32) return id == ENCODING_ID_F32;
    if (slot == SLOT_linear_f16) return id == ENCODING_ID_F16;
    if (slot == SLOT_linear_bf16 || slot == SLOT_linear_bf16_h) return id == ENCODING_ID_BF16;
    tensor t = {.encoding = encoding_by_id(id)};
    return kernel_weights_of(&t) == (slot == SLOT_linear_any ? KERNEL_ANY : KERNEL_CODES);
}

static case_form slot_bits(slot_id slot)
{
    if (slot == SLOT_linear_codes_q) return CASE_I16;
    return slot == SLOT_linear_codes_b ? CASE_I8 : CASE_NO_CODES;
}

typedef struct linear_slot {
    const cpu_kernels *isa, *generic;
    slot_id slot;
    kernel_linear_fn *fn, *reference;
    double bound;
} linear_slot;

typedef struct linear_case {
    const linear_slot *of;
    slot_id slot;
    tensor w;
    uint32_t rows, cols, n_tokens;
    case_input x;
    case_floats bias, add;
    float *scratch;
    char what[160];
} linear_case;

static linear_case linear_case_new(const linear_slot *of, const case_weight *cw, uint32_t rows,
                                   uint32_t cols, uint32_t n_tokens)
{
    linear_case c = {.of = of, .rows = rows, .cols = cols, .n_tokens = n_tokens};
    slot_id slot = c.slot = of->slot;
    c.w = case_tensor(cw, rows, cols);
    case_form bits = slot_bits(slot);
    bool rounded = slot == SLOT_linear_bf16_h || bits == CASE_I16;
    c.x = case_input_new(of->isa, of->generic, n_tokens, cols, rounded, bits);
    c.bias = case_floats_new(rows, 1, 1.0F);
    c.add = case_floats_new((size_t)n_tokens * (rows + 3), 1, 1.0F);
    c.scratch = case_alloc(kernel_linear_floats(&c.w) * sizeof(float));
    char label[64];
    encoding_label(&c.w, label, sizeof label);
    snprintf(c.what, sizeof c.what, "%s [%u, %u], %u tokens", label, rows, cols, n_tokens);
    return c;
}

static void linear_case_free(linear_case *c)
{
    case_tensor_free(&c->w);
    case_input_free(&c->x);
    free(c->bias.block);
    free(c->add.block);
    free(c->scratch);
}

/* n tokens from token on, rows first .. end - 1. */
typedef struct linear_part {
    uint32_t token, n, first, end;
} linear_part;

/* What is added: nothing, a bias, a bias and another array. */
typedef enum linear_form { FORM_PLAIN, FORM_BIAS, FORM_ADD, N_FORMS } linear_form;

/* y, bias and what is added are those of the whole call. */
static void linear_call(const linear_case *c, kernel_linear_fn *fn, linear_part part, float *y,
                        linear_form form)
{
    uint32_t token = part.token;
    size_t at = (size_t)token * c->cols;
    kernel_linear a = {.w = &c->w, .first = part.first, .end = part.end};
    a.n_tokens = part.n;
    a.stride = (size_t)c->rows + 3;
    if (slot_bits(c->slot) != CASE_NO_CODES) {
        const case_codes *codes = fn == c->of->fn ? &c->x.codes : &c->x.plain;
        a.x.codes = codes->at + token * codes->bytes;
    } else {
        a.x.f = c->x.f + at;
        a.x.h = c->slot == SLOT_linear_bf16_h ? c->x.h + at : NULL;
    }
    a.bias = form >= FORM_BIAS ? c->bias.at : NULL;
    a.add = form >= FORM_ADD ? c->add.at + token * a.stride : NULL;
    a.y = y + token * a.stride;
    a.scratch = c->scratch;
    fn(&a);
}

static double linear_terms(const linear_case *c, uint32_t token, uint32_t row)
{
    c->w.encoding->decode_row(&c->w, row, c->scratch);
    double terms = 0.0;
    for (uint32_t k = 0; k < c->cols; k++) {
        size_t at = (size_t)token * c->cols + k;
        bool codes = slot_bits(c->slot) != CASE_NO_CODES;
        double x = codes ? case_codes_value(&c->x.plain, token, k) : (double)c->x.f[at];
        terms += fabs((double)c->scratch[k] * x);
    }
    return terms;
}

/* Every output against generic, with and without what is added. */
static void linear_values(const linear_case *c)
{
    size_t stride = (size_t)c->rows + 3;
    size_t n = c->n_tokens * stride;
    float *y = case_alloc(n * sizeof(float));
    float *expected = case_alloc(n * sizeof(float));
    linear_part all = {0, c->n_tokens, 0, c->rows};
    for (linear_form form = FORM_PLAIN; form < N_FORMS; form++) {
        for (size_t i = 0; i < n; i++) y[i] = expected[i] = 77.0F;
        linear_call(c, c->of->fn, all, y, form);
        linear_call(c, c->of->reference, all, expected, form);
        for (size_t i = 0; i < n; i++) {
            uint32_t token = (uint32_t)(i / stride);
            uint32_t row = (uint32_t)(i % stride);
            bool output = row < c->rows;
            if (!output) {
                check_near(y[i], 77.0F, 0.0, 0.0, "gap", i);
                continue;
            }
            double terms = linear_terms(c, token, row);
            if (form >= FORM_BIAS) terms += fabs((double)c->bias.at[row]);
            if (form >= FORM_ADD) terms += fabs((double)c->add.at[i]);
            check_near(y[i], expected[i], terms, c->of->bound, c->what, i);
        }
    }
    free(y);
    free(expected);
}

/* The whole call at once, then in batches of several sizes with rows divided at random: the same
 * bits. */
static void linear_batches(const linear_case *c)
{
    static const uint32_t SIZES[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 25, 33};
    size_t stride = (size_t)c->rows + 3;
    size_t n = c->n_tokens * stride;
    float *whole = case_alloc(n * sizeof(float));
    float *y = case_alloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) whole[i] = 77.0F;
    linear_call(c, c->of->fn, (linear_part){0, c->n_tokens, 0, c->rows}, whole, FORM_ADD);
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++) {
        for (size_t i = 0; i < n; i++) y[i] = 77.0F;
        for (uint32_t token = 0; token < c->n_tokens; token += SIZES[s]) {
            uint32_t left = c->n_tokens - token;
            uint32_t batch = left < SIZES[s] ? left : SIZES[s];
            uint32_t end = 0;
            for (uint32_t first = 0; first < c->rows; first = end) {
                end = first + 1 + case_bits() % (c->rows - first);
                linear_part part = {token, batch, first, end};
                linear_call(c, c->of->fn, part, y, FORM_ADD);
            }
        }
        check_same(y, whole, n * sizeof(float), c->what);
    }
    free(whole);
    free(y);
}

static void linear_one(const linear_slot *of, const case_weight *cw, uint32_t rows, uint32_t cols,
                       uint32_t n_tokens, bool batches)
{
    linear_case c = linear_case_new(of, cw, rows, cols, n_tokens);
    linear_values(&c);
    if (batches) linear_batches(&c);
    linear_case_free(&c);
}

/* y may be what is added; and an input that is not finite makes every output NaN that it
 * reaches. */
static void linear_alias(const linear_slot *of, const case_weight *cw)
{
    kernel_linear_fn *fn = of->fn;
    slot_id slot = of->slot;
    uint32_t cols = case_columns(cw) == 1 ? 45 : 2 * case_columns(cw);
    linear_case c = linear_case_new(of, cw, 13, cols, 11);
    size_t n = (size_t)c.n_tokens * (c.rows + 3);
    float *y = case_alloc(n * sizeof(float));
    memcpy(y, c.add.at, n * sizeof(float));
    linear_call(&c, fn, (linear_part){0, c.n_tokens, 0, c.rows}, y, FORM_ADD);
    kernel_linear a = {.w = &c.w, .end = c.rows, .n_tokens = c.n_tokens, .stride = c.rows + 3u};
    a.x = (kernel_input){.f = c.x.f, .h = c.x.h, .codes = c.x.codes.at};
    a.bias = c.bias.at;
    a.add = c.add.at;
    a.y = c.add.at;
    a.scratch = c.scratch;
    fn(&a);
    check_same(c.add.at, y, n * sizeof(float), "add is y");
    if (slot_bits(slot) != CASE_NO_CODES) {
        kernel_numbers_put(c.x.codes.at + c.x.codes.bytes, 0, c.x.codes.form, NAN, 0);
        a.add = NULL;
        fn(&a);
        for (uint32_t row = 0; row < c.rows; row++) {
            assert_true(isfinite(a.y[row]));
            assert_true(isnan(a.y[a.stride + row]));
        }
    }
    free(y);
    linear_case_free(&c);
}

static void check_kernel_linear_fn(slot_id slot, kernel_linear_fn *fn, kernel_linear_fn *reference,
                                   double bound)
{
    cpu_kernels generic = kernels("generic");
    linear_slot of = {now_kernels, &generic, slot, fn, reference, bound};
    for (size_t i = 0; i < N_CASE_WEIGHTS; i++) {
        const case_weight *cw = &CASE_WEIGHTS[i];
        if (!slot_takes(slot, cw)) continue;
        uint32_t unit = case_columns(cw);
        bool dense = unit == 1;
        for (uint32_t n = 1; n <= (dense ? 69 : unit == 256 ? 3 : 640 / unit); n++) {
            linear_one(&of, cw, 1 + n % 11, n * unit, 1 + n % 5, false);
        }
        uint32_t cols = dense ? 301 : unit == 256 ? 512 : 9 * unit;
        for (uint32_t n_tokens = 1; n_tokens <= 17; n_tokens++) {
            uint32_t rows = 3 + n_tokens * 2;
            linear_one(&of, cw, rows, cols, n_tokens, false);
        }
        linear_one(&of, cw, 37, cols, 70, true);
        linear_one(&of, cw, 9, dense ? 1093 : 1792, 7, true);
        linear_one(&of, cw, 5, 4096, 1, false);
        linear_alias(&of, cw);
    }
}

/* ---- inputs */

/* Numbers of every kind: large, small, subnormal, ties of rounding, zeros of both signs. */
static float odd_number(void)
{
    switch (case_bits() % 8) {
    case 0:
        return fp_from_bits((case_bits() & 0x80ffffffu) | 0x3f000000u);
    case 1:
        return fp_from_bits((case_bits() & 0xffff0000u & ~0x40000000u) | 0x8000u);
    case 2:
        return case_bits() % 2 == 0 ? 0.0F : -0.0F;
    case 3:
        return fp_from_bits(case_bits() & 0x807fffffu);
    case 4:
        return fp_from_bits(case_bits() & 0xbfffffffu);
    default:
        return case_number() * 3.0F;
    }
}

static void check_kernel_prepare_bf16_fn(slot_id slot, kernel_prepare_bf16_fn *fn,
                                         kernel_prepare_bf16_fn *reference, double bound)
{
    (void)slot;
    assert_true(bound == 0.0);
    for (uint32_t n = 0; n <= 69; n++) {
        case_floats x = case_floats_new(n, n % 3, 1.0F);
        for (uint32_t i = 0; i < n; i++) x.at[i] = odd_number();
        if (n > 5) x.at[n - 3] = fp_from_bits(0x7f800001u);
        if (n > 9) x.at[n / 2] = fp_from_bits(0xffc12345u);
        if (n > 20) x.at[2] = -INFINITY;
        if (n > 30) x.at[4] = fp_from_bits(0x7f7fffffu);
        float *f = case_alloc(n * sizeof(float));
        float *f0 = case_alloc(n * sizeof(float));
        uint16_t *h = case_alloc(n * sizeof(uint16_t));
        uint16_t *h0 = case_alloc(n * sizeof(uint16_t));
        fn(x.at, n, f, h);
        reference(x.at, n, f0, h0);
        check_same(f, f0, n * sizeof(float), "f");
        check_same(h, h0, n * sizeof(uint16_t), "h");
        fn(x.at, n, x.at, h);
        check_same(x.at, f0, n * sizeof(float), "f in place");
        free(f);
        free(f0);
        free(h);
        free(h0);
        free(x.block);
    }
}

/* One number of a block, which stands KERNEL_TIMES times. */
static void check_number(const case_codes *c, uint32_t block, kernel_number which,
                         const void *expected)
{
    for (size_t k = 0; k < KERNEL_TIMES; k++) {
        check_same(case_codes_numbers(c, 0, block, which) + 4 * k, expected, 4, "number");
    }
}

/* What the two blocks that share a scale have in common. */
static void check_pair(const case_codes *c, uint32_t b, uint32_t n_blocks)
{
    int32_t both = 0;
    float scale;
    memcpy(&scale, case_codes_numbers(c, 0, b, KERNEL_SCALE), sizeof scale);
    for (uint32_t of = b / 2 * 2; of < n_blocks && of < b / 2 * 2 + 2; of++) {
        int32_t total;
        memcpy(&total, case_codes_numbers(c, 0, of, KERNEL_TOTAL), sizeof total);
        both += total;
    }
    float pair = scale * (float)both;
    check_number(c, b, KERNEL_PAIR, &pair);
}

/* The numbers that stand beside bytes only. */
static void check_totals(const case_codes *c, uint32_t n_blocks)
{
    for (uint32_t b = 0; b < n_blocks && !kernel_form_is_words(c->form); b++) {
        int32_t totals[4] = {0}; /* of the halves, high, low */
        for (uint32_t i = 0; i < KERNEL_BLOCK; i++) {
            int32_t q = case_codes_q(c, 0, b * KERNEL_BLOCK + i);
            int32_t low = q & 255;
            totals[i / 16] += q;
            totals[2] += (q - low) / 256;
            totals[3] += low;
        }
        bool bytes = c->form == KERNEL_FORM_BYTES;
        for (size_t i = 0; i < (bytes ? 2 : 4); i++) {
            check_number(c, b, (kernel_number)(KERNEL_FIRST + i), &totals[i]);
        }
        if (bytes) check_pair(c, b, n_blocks);
    }
}

static void check_kernel_prepare_codes_fn(slot_id slot, kernel_prepare_codes_fn *fn,
                                          kernel_prepare_codes_fn *reference, double bound)
{
    assert_true(bound == 0.0);
    const bool i8 = slot == SLOT_prepare_i8;
    const kernel_form form = i8 ? now_kernels->form_i8 : now_kernels->form_i16;
    for (uint32_t turn = 0; turn < 400; turn++) {
        uint32_t n_blocks = turn % 7;
        size_t n = (size_t)n_blocks * KERNEL_BLOCK;
        case_floats x = case_floats_new(n, turn % 3, turn % 5 == 0 ? 1e-36F : 5.0F);
        for (size_t i = 0; i < n; i++) {
            if (turn % 4 == 1) x.at[i] = odd_number();
            if (turn % 11 == 3 && i / KERNEL_BLOCK == 0) x.at[i] = i % 2 == 0 ? 0.0F : -0.0F;
        }
        if (n > 0 && turn % 6 == 0) x.at[n - 1 - turn % 32] = NAN;
        if (n > 40 && turn % 6 == 1) x.at[turn % 32] = -INFINITY;
        if (n > 40 && turn % 6 == 2) x.at[turn % 32] = fp_from_bits(0x7f7fffffu);
        case_codes c = case_codes_new(fn, form, x.at, 1, (uint32_t)n);
        case_codes c0 = case_codes_new(reference, KERNEL_FORM_WORD, x.at, 1, (uint32_t)n);
        const size_t size = (size_t)KERNEL_TIMES * 4;
        static const unsigned char ZEROS[KERNEL_TIMES * 4];
        for (uint32_t i = 0; i < kernel_codes_blocks(n_blocks, c.form) * KERNEL_BLOCK; i++) {
            int32_t q0 = i < n ? case_codes_q(&c0, 0, i) : 0;
            assert_int_equal(kernel_code(c.at, i, c.form, false), q0);
            assert_int_equal(kernel_code(c.at, i, c.form, true), q0);
        }
        check_totals(&c, n_blocks);
        for (uint32_t b = 0; b < kernel_codes_blocks(n_blocks, c.form); b++) {
            for (kernel_number which = KERNEL_SCALE; which <= KERNEL_TOTAL; which++) {
                const unsigned char *plain = ZEROS;
                if (b < n_blocks) plain = case_codes_numbers(&c0, 0, b, which);
                check_same(case_codes_numbers(&c, 0, b, which), plain, size, "numbers");
            }
        }
        free(c.at);
        free(c0.at);
        free(x.block);
    }
}

/* ---- rows */

static void check_kernel_rms_norm_fn(slot_id slot, kernel_rms_norm_fn *fn,
                                     kernel_rms_norm_fn *reference, double bound)
{
    (void)slot;
    for (uint32_t n = 1; n <= 71; n++) {
        uint32_t length = n <= 69 ? n : n * 61;
        float size = n % 7 == 0 ? 1e25F : n % 7 == 1 ? 1e-20F : 2.0F;
        case_floats x = case_floats_new(length, n % 3, size);
        case_floats w = case_floats_new(length, n % 2, 1.0F);
        case_floats y = case_floats_new(length, 1, 0.0F);
        case_floats y0 = case_floats_new(length, 0, 0.0F);
        fn(x.at, w.at, length, 1e-6F, y.at);
        reference(x.at, w.at, length, 1e-6F, y0.at);
        for (size_t i = 0; i < length; i++) {
            check_near(y.at[i], y0.at[i], fabs((double)y0.at[i]), bound, "rms_norm", i);
        }
        fn(x.at, w.at, length, 1e-6F, x.at);
        check_same(x.at, y.at, length * sizeof(float), "in place");
        free(x.block);
        free(w.block);
        free(y.block);
        free(y0.block);
    }
}

/* Relative to the terms of a sum: a number less the mean, and what is added. */
static void check_kernel_layer_norm_fn(slot_id slot, kernel_layer_norm_fn *fn,
                                       kernel_layer_norm_fn *reference, double bound)
{
    (void)slot;
    for (uint32_t n = 1; n <= 71; n++) {
        uint32_t length = n <= 69 ? n : n * 61;
        float size = n % 7 == 0 ? 1e25F : n % 7 == 1 ? 1e-20F : 2.0F;
        case_floats x = case_floats_new(length, n % 3, size);
        case_floats w = case_floats_new(length, n % 2, 1.0F);
        case_floats b = case_floats_new(length, n % 2, 1.0F);
        case_floats y = case_floats_new(length, 1, 0.0F);
        case_floats y0 = case_floats_new(length, 0, 0.0F);
        /* A mean far above the deviation. */
        for (size_t i = 0; i < length && n % 5 == 0; i++) x.at[i] += 300.0F * size;
        fn(x.at, w.at, b.at, length, 1e-6F, y.at);
        reference(x.at, w.at, b.at, length, 1e-6F, y0.at);
        for (size_t i = 0; i < length; i++) {
            double added = fabs((double)b.at[i]);
            double terms = fabs((double)y0.at[i] - (double)b.at[i]) + added;
            check_near(y.at[i], y0.at[i], terms, bound, "layer_norm", i);
        }
        fn(x.at, w.at, b.at, length, 1e-6F, x.at);
        check_same(x.at, y.at, length * sizeof(float), "in place");
        free(x.block);
        free(w.block);
        free(b.block);
        free(y.block);
        free(y0.block);
    }
}

static void check_kernel_rope_fn(slot_id slot, kernel_rope_fn *fn, kernel_rope_fn *reference,
                                 double bound)
{
    (void)slot;
    for (uint32_t n_pairs = 0; n_pairs <= 69; n_pairs++) {
        case_floats x = case_floats_new(2 * (size_t)n_pairs, n_pairs % 3, 4.0F);
        case_floats turn = case_floats_new(2 * (size_t)n_pairs, 1, 1.0F);
        case_floats x0 = case_floats_new(2 * (size_t)n_pairs, 0, 0.0F);
        memcpy(x0.at, x.at, 2 * (size_t)n_pairs * sizeof(float));
        fn(x.at, turn.at, n_pairs);
        reference(x0.at, turn.at, n_pairs);
        for (size_t i = 0; i < x.n; i++) {
            check_near(x.at[i], x0.at[i], fabs((double)x0.at[i]), bound, "rope", i);
        }
        free(x.block);
        free(turn.block);
        free(x0.block);
    }
}

static void check_kernel_glu_fn(slot_id slot, kernel_glu_fn *fn, kernel_glu_fn *reference,
                                double bound)
{
    (void)slot;
    static const float RANGES[] = {1e-30F, 0.1F, 1.0F, 5.0F, 12.0F, 80.0F, 1e10F, 3e38F};
    for (uint32_t n = 0; n <= 69 + 40; n++) {
        uint32_t length = n <= 69 ? n : 1000 + n;
        case_floats gate = case_floats_new(length, n % 3, RANGES[n % 8]);
        case_floats up = case_floats_new(length, n % 2, 1.0F);
        case_floats y = case_floats_new(length, 1, 0.0F);
        case_floats y0 = case_floats_new(length, 0, 0.0F);
        if (length > 3) gate.at[length - 2] = NAN;
        fn(gate.at, up.at, length, y.at);
        reference(gate.at, up.at, length, y0.at);
        for (size_t i = 0; i < length; i++) {
            check_near(y.at[i], y0.at[i], fabs((double)y0.at[i]), bound, "glu", i);
        }
        fn(gate.at, up.at, length, n % 2 == 0 ? gate.at : up.at);
        check_same(n % 2 == 0 ? gate.at : up.at, y.at, length * sizeof(float), "in place");
        free(gate.block);
        free(up.block);
        free(y.block);
        free(y0.block);
    }
}

/* ---- recurrent layers */

/* Columns one by one, and all at once: no bit depends on how they are divided. */
static void check_kernel_conv_fn(slot_id slot, kernel_conv_fn *fn, kernel_conv_fn *reference,
                                 double bound)
{
    (void)slot;
    for (uint32_t n = 1; n <= 70; n++) {
        uint32_t n_taps = 2 + n % 15;
        uint32_t stride = n + n % 5;
        case_floats w = case_floats_new((size_t)n_taps * stride, n % 3, 1.0F);
        case_floats x = case_floats_new((size_t)n_taps * n, n % 2, n % 4 == 0 ? 30.0F : 2.0F);
        case_floats y = case_floats_new(n, 1, 0.0F);
        case_floats y0 = case_floats_new(n, 0, 0.0F);
        const float *taps[16];
        kernel_conv a = {
            .x = taps, .w = w.at, .n_taps = n_taps, .n = n, .stride = stride, .y = y.at};
        for (uint32_t j = 0; j < n_taps; j++) taps[j] = x.at + (size_t)j * n;
        if (n > 4) x.at[n - 2] = NAN;
        fn(&a);
        a.y = y0.at;
        reference(&a);
        for (uint32_t c = 0; c < n; c++) {
            double terms = 0.0;
            for (uint32_t j = 0; j < n_taps; j++) {
                terms += fabs((double)w.at[j * stride + c] * (double)taps[j][c]);
            }
            check_near(y.at[c], y0.at[c], terms, bound, "conv", c);
        }
        for (uint32_t c = 0; c < n; c++) {
            for (uint32_t j = 0; j < n_taps; j++) taps[j] = x.at + (size_t)j * n + c;
            kernel_conv one = {taps, w.at + c, n_taps, 1, stride, y0.at + c};
            fn(&one);
        }
        check_same(y0.at, y.at, n * sizeof(float), "column by column");
        free(w.block);
        free(x.block);
        free(y.block);
        free(y0.block);
    }
}

static void check_kernel_relu_sum_fn(slot_id slot, kernel_relu_sum_fn *fn,
                                     kernel_relu_sum_fn *reference, double bound)
{
    (void)slot;
    for (uint32_t n = 1; n <= 256; n += n < 70 ? 1 : 31) {
        uint32_t n_rows = n % 7 + 1 + (n % 5 == 0 ? 60 : 0);
        uint32_t stride = n + n % 3;
        case_floats s = case_floats_new((size_t)n_rows * stride, n % 3, 2.0F);
        case_floats w = case_floats_new(n_rows, n % 2, 1.0F);
        case_floats y = case_floats_new(n, 1, 0.5F);
        case_floats y0 = case_floats_new(n, 0, 0.0F);
        case_floats y1 = case_floats_new(n, 2, 0.0F);
        if (n > 5) s.at[n - 3] = NAN;
        if (n > 6) s.at[n - 5] = -0.0F;
        if (n > 7) s.at[n - 6] = INFINITY;
        memcpy(y0.at, y.at, n * sizeof(float));
        memcpy(y1.at, y.at, n * sizeof(float));
        kernel_relu_sum a = {s.at, stride, w.at, n_rows, n, y0.at};
        reference(&a);
        /* Rows in two parts, and columns one by one. */
        for (uint32_t j = 0; j < n; j++) {
            uint32_t half = n_rows / 2;
            kernel_relu_sum first = {s.at + j, stride, w.at, half, 1, y1.at + j};
            kernel_relu_sum rest = {
                s.at + half * stride + j, stride, w.at + half, n_rows - half, 1, y1.at + j};
            if (half > 0) fn(&first);
            fn(&rest);
        }
        a.y = y.at;
        fn(&a);
        for (uint32_t j = 0; j < n; j++) {
            if (isnan(y.at[j])) fail_msg("%s %s: a NaN does not count as 0", now_isa, now_slot);
            check_near(y.at[j], y0.at[j], 0.0, bound, "sum", j);
        }
        check_same(y1.at, y.at, n * sizeof(float), "column by column");
        free(s.block);
        free(w.block);
        free(y.block);
        free(y0.block);
        free(y1.block);
    }
}

/* A token over a matrix, against generic's; and its rows one by one. */
static void delta_one(kernel_delta_fn *fn, kernel_delta_fn *reference, double bound, uint32_t k_dim,
                      uint32_t v_dim)
{
    size_t size = (size_t)k_dim * v_dim;
    case_floats qk = case_floats_new((size_t)2 * k_dim, 1, 1.0F);
    case_floats v = case_floats_new(v_dim, k_dim % 3, 1.0F);
    case_floats s = case_floats_new(size, v_dim % 3, 1.0F);
    case_floats s0 = case_floats_new(size, 0, 0.0F);
    case_floats s1 = case_floats_new(size, 1, 0.0F);
    case_floats y = case_floats_new(v_dim, 1, 0.0F);
    case_floats y0 = case_floats_new(v_dim, 0, 0.0F);
    memcpy(s0.at, s.at, size * sizeof(float));
    memcpy(s1.at, s.at, size * sizeof(float));
    kernel_delta a = {.q = qk.at, .k = qk.at + k_dim, .v = v.at};
    a.decay = fabsf(case_number());
    a.rate = fabsf(case_number());
    a.k_dim = k_dim;
    a.v_dim = v_dim;
    kernel_delta b = a;
    kernel_delta one = a;
    b.s = s0.at;
    b.y = y0.at;
    reference(&b);
    one.v_dim = 1;
    for (uint32_t i = 0; i < v_dim; i++) {
        one.v = v.at + i;
        one.s = s1.at + (size_t)i * k_dim;
        one.y = y.at + i;
        fn(&one);
    }
    for (uint32_t i = 0; i < v_dim; i++) {
        double change = fabs((double)v.at[i]);
        double terms = 0.0;
        for (uint32_t j = 0; j < k_dim; j++) {
            change += fabs((double)a.decay * (double)s.at[i * k_dim + j] * (double)a.k[j]);
        }
        for (uint32_t j = 0; j < k_dim; j++) {
            size_t at = (size_t)i * k_dim + j;
            double of_s = fabs((double)a.decay * (double)s.at[at]) +
                          (double)a.rate * change * fabs((double)a.k[j]);
            check_near(s1.at[at], s0.at[at], of_s, bound, "state", at);
            terms += of_s * fabs((double)a.q[j]);
        }
        check_near(y.at[i], y0.at[i], terms, bound, "output", i);
    }
    memcpy(y0.at, y.at, v_dim * sizeof(float));
    a.s = s.at;
    a.y = y.at;
    fn(&a);
    check_same(s.at, s1.at, size * sizeof(float), "row by row");
    check_same(y.at, y0.at, v_dim * sizeof(float), "row by row");
    free(qk.block);
    free(v.block);
    free(s.block);
    free(s0.block);
    free(s1.block);
    free(y.block);
    free(y0.block);
}

static void check_kernel_delta_fn(slot_id slot, kernel_delta_fn *fn, kernel_delta_fn *reference,
                                  double bound)
{
    (void)slot;
    for (uint32_t k_dim = 1; k_dim <= 40; k_dim++) {
        for (uint32_t v_dim = 1; v_dim <= 35; v_dim += 1 + k_dim % 3) {
            delta_one(fn, reference, bound, k_dim, v_dim);
        }
    }
    delta_one(fn, reference, bound, 128, 128);
    delta_one(fn, reference, bound, 256, 65);
}

/* ---- the walk */

// NOLINTNEXTLINE(readability-function-size): the map, spelt out
static void check_isa(const char *isa)
{
    cpu_kernels k = kernels(isa);
    cpu_kernels generic = kernels("generic");
    now_isa = isa;
    now_kernels = &k;
#define CHECK_SLOT(slot, type, bound)                                                              \
    now_slot = #slot;                                                                              \
    n_compared = 0;                                                                                \
    case_seed = 1 + SLOT_##slot;                                                                   \
    assert_non_null(k.slot);                                                                       \
    check_##type(SLOT_##slot, k.slot, generic.slot, bound);                                        \
    if (n_compared == 0) fail_msg("%s %s: nothing was compared", isa, now_slot);                   \
    print_message("%-8s %-16s %zu comparisons\n", isa, now_slot, n_compared);
    CPU_KERNEL_MAP(CHECK_SLOT)
#undef CHECK_SLOT
}

/* generic too: it must keep the promises it defines. */
static void test_every_isa(void **state)
{
    (void)state;
    size_t count = 0;
    size_t checked = 0;
    const cpu_isa *isas = cpu_isa_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (!isas[i].available()) {
            print_message("SKIPPED: this processor does not have %s\n", isas[i].name);
            continue;
        }
        check_isa(isas[i].name);
        checked++;
    }
    assert_true(checked > 0);
}

static void test_selection(void **state)
{
    (void)state;
    size_t count = 0;
    const cpu_isa *isas = cpu_isa_table(&count);
    const char *best = NULL;
    cpu_kernels k;
    weft_error err = {0};
    for (size_t i = 0; i < count; i++) {
        weft_status expected = isas[i].available() ? WEFT_OK : WEFT_UNSUPPORTED;
        if (isas[i].available()) best = isas[i].name;
        err = (weft_error){0};
        assert_true(cpu_kernels_select(isas[i].name, &k, &err) == expected);
        if (expected == WEFT_OK) assert_true(strcmp(k.isa, isas[i].name) == 0);
    }
    err = (weft_error){0};
    assert_true(cpu_kernels_select(NULL, &k, &err) == WEFT_OK);
    assert_true(best != NULL && strcmp(k.isa, best) == 0);
    assert_true(cpu_kernels_select("sse9", &k, &err) == WEFT_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_every_isa),
    };
    return TEST_RUN("backend/kernels", tests);
}
