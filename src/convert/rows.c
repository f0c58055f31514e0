/* rows.c - decoded, put into MLX's order, encoded; a row by one thread. */
#include "convert/rows.h"

#include <string.h>

#include "base/assert.h"

/* What is written at a time; a row that is longer is a batch of its own. */
enum { BATCH_BYTES = 4 << 20 };

weft_status row_maker_init(row_maker *m, const weft_allocator *allocator, const plan *p,
                           uint32_t n_threads, weft_error *err)
{
    *m = (row_maker){.allocator = allocator, .n_threads = n_threads};
    m->out_bytes = BATCH_BYTES;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        uint64_t bytes[TENSOR_PLANES];
        const plan_tensor *t = &p->tensors[i];
        row_form_bytes(&t->form, t->n_cols, bytes);
        uint64_t all = bytes[0] + bytes[1] + bytes[2];
        if (t->n_cols > m->most_cols) m->most_cols = t->n_cols;
        if (all > m->out_bytes) m->out_bytes = (size_t)all;
    }
    size_t n_scratch;
    bool fits = size_mul((size_t)m->most_cols, sizeof(float) * 2 * n_threads, &n_scratch);
    if (fits) m->scratch = mem_alloc(allocator, n_scratch);
    m->out = mem_alloc(allocator, m->out_bytes);
    m->bad = mem_alloc(allocator, sizeof *m->bad * 2 * n_threads);
    if (m->scratch == NULL || m->out == NULL || m->bad == NULL) {
        return err_set(err, WEFT_NOMEM, "out of memory for rows of %llu columns",
                       (unsigned long long)m->most_cols);
    }
    return thread_pool_create(allocator, n_threads, &m->pool, err);
}

static void drop_turned(row_maker *m)
{
    if (m->turned == NULL) return;
    mem_free(m->allocator, m->turned, (size_t)(m->t->n_rows * m->t->n_cols) * sizeof *m->turned);
    m->turned = NULL;
}

void row_maker_deinit(row_maker *m)
{
    drop_turned(m);
    thread_pool_destroy(m->pool);
    mem_free(m->allocator, m->scratch, (size_t)m->most_cols * sizeof(float) * 2 * m->n_threads);
    mem_free(m->allocator, m->out, m->out_bytes);
    mem_free(m->allocator, m->bad, sizeof *m->bad * 2 * m->n_threads);
    *m = (row_maker){0};
}

/* A turned tensor is small (a latent's matrices of heads), so it is decoded as a whole. */
static weft_status turn(row_maker *m, weft_error *err)
{
    const plan_tensor *t = m->t;
    uint64_t each = t->n_rows / t->n_parts;
    size_t bytes;
    if (size_mul((size_t)(t->n_rows * t->n_cols), sizeof *m->turned, &bytes))
        m->turned = mem_alloc(m->allocator, bytes);
    if (m->turned == NULL) {
        return err_set(err, WEFT_NOMEM, "out of memory to turn %llu rows of %llu",
                       (unsigned long long)t->n_rows, (unsigned long long)t->n_cols);
    }
    float *row = m->scratch;
    for (uint32_t part = 0; part < t->n_parts; part++) {
        float *matrix = m->turned + part * each * t->n_cols;
        for (uint64_t c = 0; c < t->n_cols; c++) {
            t->parts[part].encoding->decode_row(&t->parts[part], c, row);
            for (uint64_t r = 0; r < each; r++) matrix[r * t->n_cols + c] = row[r];
        }
    }
    return WEFT_OK;
}

weft_status row_maker_take(row_maker *m, const plan_tensor *t, weft_error *err)
{
    drop_turned(m);
    m->t = t;
    row_form_bytes(&t->form, t->n_cols, m->row_bytes);
    uint64_t all = m->row_bytes[0] + m->row_bytes[1] + m->row_bytes[2];
    m->batch = m->out_bytes / all;
    if (m->batch > t->n_rows) m->batch = t->n_rows;
    return t->turned ? turn(m, err) : WEFT_OK;
}

/* Where row or element i of heads of n comes from: pairs in the source are halves here. */
static uint64_t in_pairs(uint64_t i, uint64_t n)
{
    uint64_t head = i / n;
    uint64_t j = i % n;
    return head * n + (j < n / 2 ? 2 * j : 2 * (j - n / 2) + 1);
}

/* The part that has a row, which becomes its row in it. */
static const tensor *part_of(const plan_tensor *t, uint64_t *row)
{
    uint64_t each = t->parts[0].n_rows;
    if (!t->joined) {
        const tensor *part = &t->parts[*row / each];
        *row %= each;
        return part;
    }
    const tensor *part = t->parts;
    for (; *row >= part->n_rows; part++) *row -= part->n_rows;
    return part;
}

/* Whether the source's bytes are those to write. */
static bool is_copy(const plan_tensor *t, const tensor *s)
{
    bool moved = t->add != 0.0F || s->col_bytes != 0 || (t->halves != 0 && t->n_rows == 1);
    if (moved || s->encoding != t->form.encoding || s->factor != 0.0F) return false;
    if (s->encoding != &ENCODING_AFFINE) return true;
    return s->bits == t->form.bits && s->group == t->form.group && s->param_type == t->form.type;
}

static void read_row(const row_maker *m, uint64_t row, float *x, float *spare)
{
    const plan_tensor *t = m->t;
    if (t->turned) {
        memcpy(x, m->turned + row * t->n_cols, (size_t)t->n_cols * sizeof *x);
        return;
    }
    uint64_t r = row;
    const tensor *part = part_of(t, &r);
    if (t->halves != 0 && t->n_rows > 1) r = in_pairs(r, t->halves);
    if (t->halves == 0 || t->n_rows > 1) {
        part->encoding->decode_row(part, r, x);
    } else {
        part->encoding->decode_row(part, r, spare);
        for (uint64_t i = 0; i < t->n_cols; i++) x[i] = spare[in_pairs(i, t->halves)];
    }
    for (uint64_t i = 0; i < t->n_cols && t->add != 0.0F; i++) x[i] += t->add;
}

/* False where the row is made, not copied. */
static bool copy_row(const row_maker *m, uint64_t row, unsigned char *const planes[TENSOR_PLANES])
{
    const plan_tensor *t = m->t;
    if (t->turned) return false;
    uint64_t r = row;
    const tensor *part = part_of(t, &r);
    if (!is_copy(t, part)) return false;
    if (t->halves != 0) r = in_pairs(r, t->halves);
    for (uint32_t p = 0; p < TENSOR_PLANES; p++) {
        if (m->row_bytes[p] == 0) continue;
        memcpy(planes[p], part->planes[p] + r * part->row_bytes[p], (size_t)m->row_bytes[p]);
    }
    return true;
}

static void make_rows(void *user, uint32_t thread_i)
{
    row_maker *m = user;
    float *x = m->scratch + (size_t)thread_i * 2 * m->most_cols;
    uint64_t *bad = m->bad + (size_t)thread_i * 2;
    bad[0] = 0;
    for (uint64_t i = thread_i; i < m->n; i += m->n_threads) {
        unsigned char *planes[TENSOR_PLANES];
        uint64_t col;
        for (uint32_t p = 0; p < TENSOR_PLANES; p++) planes[p] = m->planes[p] + i * m->row_bytes[p];
        if (copy_row(m, m->first + i, planes)) continue;
        read_row(m, m->first + i, x, x + m->most_cols);
        if (row_encode(&m->t->form, x, m->t->n_cols, planes, &col)) continue;
        bad[0] = m->first + i + 1;
        bad[1] = col;
        return;
    }
}

weft_status row_maker_make(row_maker *m, uint64_t first, uint64_t n, weft_error *err)
{
    ASSERT(n <= m->batch && first + n <= m->t->n_rows);
    m->first = first;
    m->n = n;
    m->planes[0] = m->out;
    for (uint32_t p = 1; p < TENSOR_PLANES; p++)
        m->planes[p] = m->planes[p - 1] + n * m->row_bytes[p - 1];
    thread_pool_run(m->pool, make_rows, m);
    const uint64_t *worst = NULL;
    for (uint32_t i = 0; i < m->n_threads; i++) {
        const uint64_t *bad = m->bad + (size_t)i * 2;
        if (bad[0] != 0 && (worst == NULL || bad[0] < worst[0])) worst = bad;
    }
    if (worst == NULL) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "tensor '%s' has a number in row %llu, column %llu that is not finite or too "
                   "large to be quantized",
                   m->t->name, (unsigned long long)(worst[0] - 1), (unsigned long long)worst[1]);
}
