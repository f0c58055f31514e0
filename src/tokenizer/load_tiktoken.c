/* load_tiktoken.c - vocabularies of tiktoken: each line the bytes of a token in base64, a space and
 * its rank, which is its id. Two tokens merge when together they are one, the lowest rank first. */
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "tokenizer/bytelevel.h"
#include "tokenizer/gguf_pre.h"
#include "tokenizer/load_sp.h"

enum { TOKEN_BYTES = BPE_PART_BYTES / 2 }; /* each byte is spelled with two at most */

typedef struct line {
    char bytes[TOKEN_BYTES + 4];
    size_t n;
    int64_t rank;
} line;

static weft_status wrong_line(size_t number, weft_error *err)
{
    return err_set(err, WEFT_FORMAT,
                   "tokenizer: line %zu is no base64 of at most %d bytes and a rank", number,
                   TOKEN_BYTES);
}

static bool read_rank(str text, int64_t *rank)
{
    *rank = 0;
    if (text.len == 0 || text.len > 9) return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
        *rank = *rank * 10 + (text.ptr[i] - '0');
    }
    return true;
}

static bool read_line(str text, line *l)
{
    if (text.len != 0 && text.ptr[text.len - 1] == '\r') text.len--;
    const char *space = text.len == 0 ? NULL : memchr(text.ptr, ' ', text.len);
    if (space == NULL) return false;
    str code = {text.ptr, (size_t)(space - text.ptr)};
    if (code.len == 0 || base64_room(code.len) > sizeof l->bytes + 3) return false;
    char room[TOKEN_BYTES + 8];
    if (!base64_decode(code, 0, room, &l->n) || l->n == 0 || l->n > TOKEN_BYTES) return false;
    memcpy(l->bytes, room, l->n);
    return read_rank((str){space + 1, text.len - code.len - 1}, &l->rank);
}

/* The line at *at, which moves behind it. False at the end. */
static bool next_line(str file, size_t *at, str *text)
{
    if (*at >= file.len) return false;
    const char *start = file.ptr + *at;
    const char *end = memchr(start, '\n', file.len - *at);
    size_t n = end == NULL ? file.len - *at : (size_t)(end - start);
    *text = (str){start, n};
    *at += n + 1;
    return true;
}

bool load_tiktoken_looks(str file)
{
    size_t at = 0;
    str text;
    line l;
    return next_line(file, &at, &text) && read_line(text, &l);
}

static size_t count_lines(str file)
{
    size_t n = 0;
    size_t at = 0;
    str text;
    while (next_line(file, &at, &text)) n += text.len != 0;
    return n;
}

static weft_status put_line(tokenizer *t, const line *l, weft_error *err)
{
    char spelled[2 * TOKEN_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += utf8_encode(bytelevel_char((uint8_t)l->bytes[i]), spelled + n);
    return vocab_put(&t->vocab, l->rank, (str){spelled, n}, VOCAB_MODEL, err);
}

static weft_status read_lines(tokenizer *t, str file, weft_error *err)
{
    size_t at = 0;
    size_t number = 0;
    str text;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && next_line(file, &at, &text)) {
        line l;
        number++;
        if (text.len == 0) continue;
        status = read_line(text, &l) ? put_line(t, &l, err) : wrong_line(number, err);
    }
    for (uint32_t id = 0; id < t->vocab.n && status == WEFT_OK; id++)
        status = bpe_merge_parts(&t->model.bpe, (int32_t)id, id, err);
    return status;
}

weft_status load_tiktoken(tokenizer *t, str file, const char *pre, const json *config,
                          weft_error *err)
{
    const gguf_pre *how = gguf_pre_find(str_of(pre));
    if (how == NULL)
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: pre-tokenizer '%s' is not supported",
                       pre);
    size_t n_tokens = count_lines(file) + load_json_n_added(config);
    weft_status status = pipeline_reserve(t, MODEL_BPE, n_tokens, 0, err);
    if (status == WEFT_OK) status = read_lines(t, file, err);
    if (status == WEFT_OK) status = load_json_added(t, config, err);
    for (size_t i = 0; status == WEFT_OK && how->splits[i] != NULL; i++) {
        status =
            pretoken_split(&t->pretoken, str_of(how->splits[i]), false, SPLIT_ISOLATED, false, err);
    }
    if (status == WEFT_OK) status = pretoken_bytelevel(&t->pretoken, false, false, err);
    if (status == WEFT_OK)
        status = decoder_add(&t->decoder, (decoder_step){.kind = DECODE_BYTELEVEL}, err);
    if (status != WEFT_OK) return status;
    t->model.bpe.whole_words = true;
    return pipeline_finish(t, err);
}
