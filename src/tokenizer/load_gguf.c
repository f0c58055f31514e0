/* load_gguf.c - a vocabulary from the metadata of a GGUF file.
 *
 * The file names its pre-tokenizer only ("tokenizer.ggml.pre"): what a name stands for is the
 * table below, each row as the tokenizer.json has it that the file was converted from. A name
 * that is not in the table is refused, since splitting otherwise gives other ids without any
 * sign of it.
 * Source: the GGUF specification of the ggml project, key-value pairs "Tokenizer". */
#include "tokenizer/pipeline.h"

#include <string.h>

#include "base/assert.h"

typedef struct pre_type {
    const char *name;
    const char *const *splits; /* each isolates its matches; NULL at the end */
    bool whole_words;          /* a word in the vocabulary is taken without merging */
    bool bos;                  /* where the file does not say */
} pre_type;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define SIGNS_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define AHEAD "[^\\r\\n\\p{L}\\p{N}]?"

static const char *const GPT2[] = {PRETOKEN_GPT2, NULL};
static const char *const DIGITS_GPT2[] = {"\\p{N}", PRETOKEN_GPT2, NULL};
static const char *const LLAMA3[] = {CONTRACTIONS "|" AHEAD "\\p{L}+|\\p{N}{1,3}" SIGNS, NULL};
static const char *const QWEN2[] = {CONTRACTIONS "|" AHEAD "\\p{L}+|\\p{N}" SIGNS, NULL};
static const char *const QWEN35[] = {
    CONTRACTIONS "|" AHEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES,
    NULL};
static const char *const TEKKEN[] = {
    AHEAD UPPER "*" LOWER "+|" AHEAD UPPER "+" LOWER "*|\\p{N}" SIGNS_SLASH, NULL};
static const char *const GPT4O[] = {AHEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" AHEAD UPPER
                                                "+" LOWER "*" CONTRACTIONS
                                                "?|\\p{N}{1,3}" SIGNS_SLASH,
                                    NULL};
static const char *const DEEPSEEK3[] = {
    "\\p{N}{1,3}", "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES,
    NULL};

static const pre_type PRE_TYPES[] = {
    {"gpt-2", GPT2, false, false},
    {"phi-2", GPT2, false, false},
    {"mpt", GPT2, false, false},
    {"olmo", GPT2, false, false},
    {"smollm", DIGITS_GPT2, false, false},
    {"starcoder", DIGITS_GPT2, false, false},
    {"refact", DIGITS_GPT2, false, false},
    {"command-r", DIGITS_GPT2, false, false},
    {"codeshell", DIGITS_GPT2, false, false},
    {"exaone", DIGITS_GPT2, false, false},
    {"qwen2", QWEN2, false, false},
    {"deepseek-r1-qwen", QWEN2, false, false},
    {"stablelm2", QWEN2, false, false},
    {"qwen35", QWEN35, false, false},
    {"llama-bpe", LLAMA3, true, true},
    {"llama3", LLAMA3, true, true},
    {"llama-v3", LLAMA3, true, true},
    {"falcon3", LLAMA3, true, true},
    {"dbrx", LLAMA3, false, false},
    {"smaug-bpe", LLAMA3, false, false},
    {"tekken", TEKKEN, true, true},
    {"gpt-4o", GPT4O, false, false},
    {"deepseek-v3", DEEPSEEK3, false, false},
};

/* ---- arrays ---- */

enum { UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 }; /* token types */

/* An array of one of two element types. */
static weft_status expect_array(const weights *w, const char *key, gguf_type type, gguf_type other,
                                const gguf_value **out, weft_error *err)
{
    const gguf_value *value = weights_metadata(w, key);
    *out = value;
    if (value == NULL) return WEFT_OK;
    if (value->type != GGUF_ARRAY) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s has type %d, expected an array (%d)", key,
                       (int)value->type, (int)GGUF_ARRAY);
    }
    if (value->element != type && value->element != other) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s has elements of type %d, expected %d", key,
                       (int)value->element, (int)type);
    }
    return WEFT_OK;
}

static weft_status expect_count(const gguf_value *value, const gguf_value *tokens, weft_error *err)
{
    if (value == NULL || value->n_elements == tokens->n_elements) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer: %s has %llu elements for %llu tokens", value->key,
                   (unsigned long long)value->n_elements, (unsigned long long)tokens->n_elements);
}

typedef struct arrays {
    const gguf_value *tokens;
    const gguf_value *types; /* NULL: all are normal */
    const gguf_value *merges;
} arrays;

static weft_status find_arrays(const weights *w, arrays *a, weft_error *err)
{
    const gguf_value *scores = NULL;
    weft_status status =
        expect_array(w, "tokenizer.ggml.tokens", GGUF_TEXT, GGUF_TEXT, &a->tokens, err);
    if (status == WEFT_OK)
        status = expect_array(w, "tokenizer.ggml.scores", GGUF_F32, GGUF_F32, &scores, err);
    if (status == WEFT_OK)
        status = expect_array(w, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, &a->types, err);
    if (status == WEFT_OK)
        status = expect_array(w, "tokenizer.ggml.merges", GGUF_TEXT, GGUF_TEXT, &a->merges, err);
    if (status != WEFT_OK) return status;
    if (a->tokens == NULL || a->merges == NULL) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s is missing",
                       a->tokens == NULL ? "tokenizer.ggml.tokens" : "tokenizer.ggml.merges");
    }
    if (a->tokens->n_elements > TOKENIZER_VOCAB || a->merges->n_elements > TOKENIZER_FILE_BYTES) {
        return err_set(err, WEFT_LIMIT, "tokenizer: %llu tokens and %llu merges are too many",
                       (unsigned long long)a->tokens->n_elements,
                       (unsigned long long)a->merges->n_elements);
    }
    status = expect_count(scores, a->tokens, err);
    return status == WEFT_OK ? expect_count(a->types, a->tokens, err) : status;
}

static weft_status read_tokens(tokenizer *t, const arrays *a, weft_error *err)
{
    uint64_t offset = 0;
    str text;
    for (uint32_t id = 0; gguf_next_text(a->tokens, &offset, &text); id++) {
        int64_t type = 0;
        uint32_t flags = VOCAB_MODEL;
        if (a->types != NULL) gguf_array_i64(a->types, id, &type);
        if (type == UNUSED) flags = 0;
        if (type == USER_DEFINED) flags = VOCAB_ADDED;
        if (type == UNKNOWN) flags = VOCAB_SPECIAL;
        if (type == CONTROL) flags = VOCAB_ADDED | VOCAB_SPECIAL;
        weft_status status = vocab_put(&t->vocab, id, text, flags, err);
        if (status == WEFT_OK && (flags & VOCAB_ADDED) != 0)
            status = added_put(&t->added, text, (added_token){.id = (int32_t)id}, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* "a b": a space is never spelled as one, so the first one that is not the first byte parts
 * them. */
static weft_status read_merges(tokenizer *t, const gguf_value *merges, weft_error *err)
{
    uint64_t offset = 0;
    str text;
    for (uint32_t rank = 0; gguf_next_text(merges, &offset, &text); rank++) {
        const char *space = text.len < 3 ? NULL : memchr(text.ptr + 1, ' ', text.len - 1);
        if (space == NULL || space + 1 == text.ptr + text.len)
            return err_set(err, WEFT_FORMAT, "tokenizer: merge %u is not a pair", rank);
        size_t at = (size_t)(space - text.ptr);
        str left = {text.ptr, at};
        str right = {space + 1, text.len - at - 1};
        weft_status status = bpe_merge(&t->model.bpe, left, right, rank, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* ---- single values ---- */

static weft_status find_pre_type(const weights *w, const pre_type **pre, weft_error *err)
{
    str name;
    const gguf_value *value = weights_metadata(w, "tokenizer.ggml.pre");
    if (value == NULL)
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: the file names no pre-tokenizer");
    if (!gguf_text(value, &name))
        return err_set(err, WEFT_FORMAT, "tokenizer: tokenizer.ggml.pre is no text");
    for (size_t i = 0; i < COUNT_OF(PRE_TYPES); i++) {
        *pre = &PRE_TYPES[i];
        if (str_equal_text(name, PRE_TYPES[i].name)) return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "tokenizer: pre-tokenizer '%.*s' is not supported",
                   (int)(name.len < 80 ? name.len : 80), name.ptr);
}

/* -1 when absent. */
static weft_status read_id(const tokenizer *t, const weights *w, const char *key, int32_t *id,
                           weft_error *err)
{
    uint64_t number = 0;
    const gguf_value *value = weights_metadata(w, key);
    *id = -1;
    if (value == NULL) return WEFT_OK;
    if (!gguf_u64(value, &number) || number >= t->vocab.n) {
        return err_set(err, WEFT_FORMAT, "tokenizer: %s is %llu, expected a number below %u", key,
                       (unsigned long long)number, t->vocab.n);
    }
    *id = (int32_t)number;
    return WEFT_OK;
}

static weft_status read_flag(const weights *w, const char *key, bool fallback, bool *flag,
                             weft_error *err)
{
    const gguf_value *value = weights_metadata(w, key);
    *flag = fallback;
    if (value == NULL || gguf_bool(value, flag)) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer: %s is no boolean", key);
}

static weft_status read_around(tokenizer *t, const weights *w, const pre_type *pre, weft_error *err)
{
    bool bos;
    bool eos;
    weft_status status = read_id(t, w, "tokenizer.ggml.bos_token_id", &t->bos, err);
    if (status == WEFT_OK) status = read_id(t, w, "tokenizer.ggml.eos_token_id", &t->eos, err);
    if (status == WEFT_OK)
        status = read_flag(w, "tokenizer.ggml.add_bos_token", pre->bos, &bos, err);
    if (status == WEFT_OK) status = read_flag(w, "tokenizer.ggml.add_eos_token", false, &eos, err);
    if (status != WEFT_OK) return status;
    if (bos && t->bos >= 0) t->around.before[t->around.n_before++] = t->bos;
    if (eos && t->eos >= 0) t->around.after[t->around.n_after++] = t->eos;
    return WEFT_OK;
}

/* ---- the file ---- */

bool load_gguf_present(const weights *w)
{
    str kind;
    const gguf_value *value = weights_metadata(w, "tokenizer.ggml.model");
    if (value == NULL) return false;
    if (!gguf_text(value, &kind)) return true;
    return !str_equal_text(kind, "none") && !str_equal_text(kind, "no_vocab");
}

weft_status load_gguf(tokenizer *t, const weights *w, weft_error *err)
{
    str kind;
    if (!gguf_text(weights_metadata(w, "tokenizer.ggml.model"), &kind))
        return err_set(err, WEFT_FORMAT, "tokenizer: tokenizer.ggml.model is no text");
    if (!str_equal_text(kind, "gpt2")) {
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer: model '%.*s' is not supported",
                       (int)(kind.len < 80 ? kind.len : 80), kind.ptr);
    }
    const pre_type *pre = NULL;
    arrays a = {0};
    weft_status status = find_pre_type(w, &pre, err);
    if (status == WEFT_OK) status = find_arrays(w, &a, err);
    if (status == WEFT_OK) {
        status = pipeline_reserve(t, MODEL_BPE, (size_t)a.tokens->n_elements,
                                  (size_t)a.merges->n_elements, err);
    }
    if (status == WEFT_OK) status = read_tokens(t, &a, err);
    if (status == WEFT_OK) status = read_merges(t, a.merges, err);
    for (size_t i = 0; status == WEFT_OK && pre->splits[i] != NULL; i++) {
        status =
            pretoken_split(&t->pretoken, str_of(pre->splits[i]), false, SPLIT_ISOLATED, false, err);
    }
    if (status == WEFT_OK) status = pretoken_bytelevel(&t->pretoken, false, false, err);
    if (status == WEFT_OK) status = read_around(t, w, pre, err);
    if (status != WEFT_OK) return status;
    t->model.bpe.whole_words = pre->whole_words;
    status = decoder_add(&t->decoder, (decoder_step){.kind = DECODE_BYTELEVEL}, err);
    return status == WEFT_OK ? pipeline_finish(t, err) : status;
}
