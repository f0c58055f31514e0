/* shards.c - files of a limited size, and what stands before their data.
 *
 * Within a file numbers of four bytes come first, then those of two, then bytes, so that each lies
 * at a multiple of its size. */
#include "convert/shards.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static const char *const PARTS[TENSOR_PLANES] = {".weight", ".scales", ".biases"};

/* ---- where ----------------------------------------------------------------------------------- */

static const char *plain_dtype(encoding_id id)
{
    return id == ENCODING_ID_F32 ? "F32" : id == ENCODING_ID_F16 ? "F16" : "BF16";
}

static const char *dtype_of(const plan_tensor *t, uint32_t plane)
{
    if (!row_form_has_codes(&t->form)) return plain_dtype(t->form.encoding->id);
    if (plane == 0) return "U32";
    bool affine = t->form.encoding == &ENCODING_AFFINE;
    return affine ? plain_dtype((encoding_id)t->form.type) : "U8";
}

static uint32_t size_of(const char *dtype)
{
    return strcmp(dtype, "U8") == 0                                 ? 1
           : strcmp(dtype, "U32") == 0 || strcmp(dtype, "F32") == 0 ? 4
                                                                    : 2;
}

static void place(shards *s, uint32_t shard)
{
    uint64_t at = 0;
    for (uint32_t size = 4; size != 0; size /= 2) {
        for (uint32_t i = s->first[shard]; i < s->first[shard + 1]; i++) {
            for (uint32_t p = 0; p < TENSOR_PLANES; p++) {
                shard_entry *e = &s->entries[(size_t)i * TENSOR_PLANES + p];
                if (e->n_bytes == 0 || size_of(dtype_of(&s->plan->tensors[i], p)) != size) continue;
                e->offset = at;
                at += e->n_bytes;
            }
        }
    }
}

weft_status shards_init(shards *s, arena *a, const plan *p, uint64_t limit, weft_error *err)
{
    *s = (shards){.plan = p};
    s->first = arena_array(a, (size_t)p->n_tensors + 1, sizeof *s->first);
    s->entries = arena_array(a, (size_t)p->n_tensors * TENSOR_PLANES, sizeof *s->entries);
    if (s->first == NULL || s->entries == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a list of %u tensors", p->n_tensors);
    uint64_t used = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const plan_tensor *t = &p->tensors[i];
        uint64_t bytes[TENSOR_PLANES];
        uint64_t all = 0;
        row_form_bytes(&t->form, t->n_cols, bytes);
        for (uint32_t k = 0; k < TENSOR_PLANES; k++) {
            s->entries[(size_t)i * TENSOR_PLANES + k].n_bytes = bytes[k] * t->n_rows;
            all += bytes[k] * t->n_rows;
        }
        if (s->n_shards == 0 || used + all > limit) {
            s->first[s->n_shards++] = i;
            used = 0;
        }
        used += all;
        s->n_bytes += all;
    }
    s->first[s->n_shards] = p->n_tensors;
    if (s->n_shards > WEIGHTS_FILES) {
        return err_set(err, WEFT_LIMIT, "%u files of at most %llu bytes, at most %d", s->n_shards,
                       (unsigned long long)limit, WEIGHTS_FILES);
    }
    for (uint32_t i = 0; i < s->n_shards; i++) place(s, i);
    return WEFT_OK;
}

void shards_name(const shards *s, uint32_t shard, char name[SHARD_NAME_BYTES])
{
    if (s->n_shards == 1) {
        snprintf(name, SHARD_NAME_BYTES, "model.safetensors");
    } else {
        snprintf(name, SHARD_NAME_BYTES, "model-%05u-of-%05u.safetensors", shard + 1, s->n_shards);
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void add_name(const plan_tensor *t, uint32_t plane, strbuf *out)
{
    /* Names are a family's and a module's, without anything to escape. */
    const char *part = row_form_has_codes(&t->form) ? PARTS[plane] : "";
    strbuf_printf(out, "\"%s%s\":", t->name, part);
}

static void add_entry(const shards *s, uint32_t i, uint32_t plane, strbuf *out)
{
    const plan_tensor *t = &s->plan->tensors[i];
    const shard_entry *e = &s->entries[(size_t)i * TENSOR_PLANES + plane];
    const char *dtype = dtype_of(t, plane);
    strbuf_add_char(out, ',');
    add_name(t, plane, out);
    strbuf_printf(out, "{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (uint32_t k = 0; k < t->n_dims; k++) {
        uint64_t dim = t->dims[k];
        if (row_form_has_codes(&t->form) && k + 1 == t->n_dims)
            dim = plane == 0 ? dim * t->form.bits / 32 : dim / t->form.group;
        strbuf_printf(out, "%s%llu", k > 0 ? "," : "", (unsigned long long)dim);
    }
    strbuf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)e->offset,
                  (unsigned long long)(e->offset + e->n_bytes));
}

static weft_status finish(const strbuf *out, weft_error *err)
{
    if (out->status == WEFT_OK) return WEFT_OK;
    return err_set(err, out->status, "%s for %zu bytes of a header",
                   out->status == WEFT_LIMIT ? "no room" : "out of memory", out->len);
}

weft_status shards_header(const shards *s, uint32_t shard, strbuf *out, weft_error *err)
{
    char length[8] = {0};
    strbuf_add(out, length, sizeof length);
    strbuf_add_text(out, "{\"__metadata__\":{\"format\":\"mlx\"}");
    for (uint32_t size = 4; size != 0; size /= 2) {
        for (uint32_t i = s->first[shard]; i < s->first[shard + 1]; i++) {
            for (uint32_t p = 0; p < TENSOR_PLANES; p++) {
                bool here = s->entries[(size_t)i * TENSOR_PLANES + p].n_bytes != 0;
                if (here && size_of(dtype_of(&s->plan->tensors[i], p)) == size)
                    add_entry(s, i, p, out);
            }
        }
    }
    strbuf_add_char(out, '}');
    while (out->status == WEFT_OK && out->len % 8 != 0) strbuf_add_char(out, ' ');
    weft_status status = finish(out, err);
    if (status != WEFT_OK) return status;
    uint64_t n = out->len - sizeof length;
    memcpy(out->ptr, &n, sizeof n);
    return WEFT_OK;
}

weft_status shards_index(const shards *s, strbuf *out, weft_error *err)
{
    strbuf_printf(out, "{\"metadata\":{\"total_size\":%llu,\"total_parameters\":%llu},",
                  (unsigned long long)s->n_bytes, (unsigned long long)s->plan->n_params);
    strbuf_add_text(out, "\"weight_map\":{");
    bool any = false;
    for (uint32_t shard = 0; shard < s->n_shards; shard++) {
        char name[SHARD_NAME_BYTES];
        shards_name(s, shard, name);
        for (uint32_t i = s->first[shard]; i < s->first[shard + 1]; i++) {
            for (uint32_t p = 0; p < TENSOR_PLANES; p++) {
                if (s->entries[(size_t)i * TENSOR_PLANES + p].n_bytes == 0) continue;
                strbuf_add_text(out, any ? ",\n" : "\n");
                add_name(&s->plan->tensors[i], p, out);
                strbuf_printf(out, "\"%s\"", name);
                any = true;
            }
        }
    }
    strbuf_add_text(out, "\n}}\n");
    return finish(out, err);
}
