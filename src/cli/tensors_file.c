/* tensors_file.c - a .safetensors file: the size of a JSON header, the header, the arrays.
 *
 * Written through, not by a temporary file that is renamed: the path may be a pipe or a device. */
#include "cli/tensors_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"

static uint64_t row_bytes(const tensors_file_row *row)
{
    uint64_t n = 4;
    for (uint32_t i = 0; i < row->n_dims; i++) n *= row->dims[i];
    return n;
}

static void add_header(const tensors_file_row *rows, uint32_t n_rows, strbuf *out)
{
    uint64_t at = 0;
    strbuf_add_char(out, '{');
    for (uint32_t i = 0; i < n_rows; i++) {
        const tensors_file_row *row = &rows[i];
        strbuf_printf(out, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i > 0 ? "," : "", row->name,
                      row->dtype);
        for (uint32_t k = 0; k < row->n_dims; k++)
            strbuf_printf(out, "%s%llu", k > 0 ? "," : "", (unsigned long long)row->dims[k]);
        strbuf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                      (unsigned long long)(at + row_bytes(row)));
        at += row_bytes(row);
    }
    strbuf_add_char(out, '}');
    while (out->status == WEFT_OK && out->len % 8 != 0) strbuf_add_char(out, ' ');
}

static weft_status fail(weft_error *err, const char *verb, const char *path)
{
    char reason[96];
    if (strerror_r(errno, reason, sizeof reason) != 0) reason[0] = '\0';
    return err_set(err, WEFT_IO, "cannot %s '%s': %s", verb, path, reason);
}

static bool write_rows(FILE *stream, const strbuf *header, const tensors_file_row *rows,
                       uint32_t n_rows)
{
    unsigned char size[8];
    for (uint32_t i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)header->len >> (8 * i));
    bool ok = fwrite(size, 1, sizeof size, stream) == sizeof size;
    ok = ok && fwrite(header->ptr, 1, header->len, stream) == header->len;
    for (uint32_t i = 0; i < n_rows && ok; i++) {
        size_t n = (size_t)row_bytes(&rows[i]);
        ok = fwrite(rows[i].data, 1, n, stream) == n;
    }
    return ok;
}

static bool same_file(const char *a, const char *b)
{
    struct stat of_a;
    struct stat of_b;
    if (stat(a, &of_a) != 0 || stat(b, &of_b) != 0) return false;
    return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

weft_status tensors_file_check(const char *path, const char *model_path, weft_error *err)
{
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    if (n >= sizeof folder) return err_set(err, WEFT_ARGUMENT, "'%s': the name is too long", path);
    if (n > 0) {
        memcpy(folder, path, n);
        folder[n] = '\0';
    }
    if (!same_file(path, model_path) && !same_file(folder, model_path)) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "'%s' belongs to the model, write to another place", path);
}

/* What is no file, such as a device, stays. */
static void remove_half(const char *path)
{
    struct stat of;
    if (lstat(path, &of) == 0 && S_ISREG(of.st_mode)) remove(path);
}

weft_status tensors_file_write(const char *path, const tensors_file_row *rows, uint32_t n_rows,
                               weft_error *err)
{
    strbuf header;
    strbuf_init(&header, mem_system(), 0);
    add_header(rows, n_rows, &header);
    if (header.status != WEFT_OK) {
        strbuf_deinit(&header);
        return err_set(err, WEFT_NOMEM, "out of memory for '%s'", path);
    }
    weft_status status = WEFT_OK;
    FILE *stream = fopen(path, "wb");
    if (stream == NULL) {
        status = fail(err, "create", path);
    } else {
        if (!write_rows(stream, &header, rows, n_rows)) status = fail(err, "write", path);
        if (fclose(stream) != 0 && status == WEFT_OK) status = fail(err, "write", path);
        if (status != WEFT_OK) remove_half(path);
    }
    strbuf_deinit(&header);
    return status;
}
