/* json_stages.c - the stages around the model in tokenizer.json: a table of kinds for each.
 * Source: the serialized form of tokenizers 0.23. */
#include "base/assert.h"
#include "base/base64.h"
#include "tokenizer/load_json.h"

/* ---- stages that come in sequences ---- */

/* Reads one component that is no sequence. */
typedef weft_status component(tokenizer *t, str kind, const json *value, weft_error *err);

/* Calls read for a component or, in order, for those in a (nested) sequence. Null is none. */
static weft_status walk_stage(tokenizer *t, const json *value, const char *stage,
                              const char *list_key, component *read, weft_error *err)
{
    if (json_is_null(value)) return WEFT_OK;
    weft_status status = json_expect(value, JSON_KIND_OBJECT, stage, err);
    if (status != WEFT_OK) return status;
    str kind = json_text(json_get(value, "type"));
    if (!str_equal_text(kind, "Sequence")) return read(t, kind, value, err);
    const json *list = json_get(value, list_key);
    status = json_expect(list, JSON_KIND_ARRAY, list_key, err);
    for (size_t i = 0; i < json_length(list) && status == WEFT_OK; i++)
        status = walk_stage(t, json_at(list, i), stage, list_key, read, err);
    return status;
}

/* ---- what several kinds have ---- */

static weft_status read_behavior(const json *value, split_behavior fallback,
                                 split_behavior *behavior, weft_error *err)
{
    static const struct {
        const char *name;
        split_behavior behavior;
    } BEHAVIORS[] = {{"Isolated", SPLIT_ISOLATED},
                     {"Removed", SPLIT_REMOVED},
                     {"Contiguous", SPLIT_CONTIGUOUS},
                     {"MergedWithPrevious", SPLIT_MERGED_PREVIOUS},
                     {"MergedWithNext", SPLIT_MERGED_NEXT}};
    *behavior = fallback;
    if (json_is_null(value)) return WEFT_OK;
    str name = json_text(value);
    for (size_t i = 0; i < COUNT_OF(BEHAVIORS); i++) {
        *behavior = BEHAVIORS[i].behavior;
        if (str_equal_text(name, BEHAVIORS[i].name)) return WEFT_OK;
    }
    return json_unknown("behavior", name, err);
}

/* {"String": ...} or {"Regex": ...}. */
static weft_status read_pattern(const json *value, const char *what, str *text, bool *literal,
                                weft_error *err)
{
    const json *pattern = json_get(value, "pattern");
    const json *regex_text = json_get(pattern, "Regex");
    *literal = regex_text == NULL;
    const json *member = *literal ? json_get(pattern, "String") : regex_text;
    *text = json_text(member);
    return json_expect(member, JSON_KIND_TEXT, what, err);
}

static weft_status read_split(tokenizer *t, const json *value, weft_error *err)
{
    str text;
    bool literal;
    split_behavior behavior;
    weft_status status = read_pattern(value, "pattern of 'Split'", &text, &literal, err);
    if (status != WEFT_OK) return status;
    const json *name = json_get(value, "behavior");
    if (json_is_null(name)) return json_unknown("behavior", (str){"", 0}, err);
    status = read_behavior(name, SPLIT_ISOLATED, &behavior, err);
    if (status != WEFT_OK) return status;
    return pretoken_split(&t->pretoken, text, literal, behavior,
                          json_bool(json_get(value, "invert"), false), err);
}

/* Of 'Metaspace' as pre-tokenizer and decoder; older files have a flag instead. */
static weft_status read_metaspace(const json *value, str *mark, pretoken_ahead *ahead,
                                  weft_error *err)
{
    static const char *const SCHEMES[] = {"never", "first", "always"}; /* by pretoken_ahead */
    const json *scheme = json_get(value, "prepend_scheme");
    weft_status status = json_read_text(value, "replacement", mark, err);
    if (mark->len == 0) *mark = str_of("\xe2\x96\x81");
    *ahead = AHEAD_ALWAYS;
    if (!json_bool(json_get(value, "add_prefix_space"), true)) {
        *ahead = AHEAD_NEVER;
        return status;
    }
    if (status != WEFT_OK || json_is_null(scheme)) return status;
    for (size_t i = 0; i < COUNT_OF(SCHEMES); i++) {
        *ahead = (pretoken_ahead)i;
        if (str_equal_text(json_text(scheme), SCHEMES[i])) return WEFT_OK;
    }
    return json_unknown("prepend_scheme", json_text(scheme), err);
}

/* ---- normalizers ---- */

static weft_status read_replace(tokenizer *t, const json *value, weft_error *err)
{
    str from;
    str to;
    bool literal;
    weft_status status = read_pattern(value, "pattern of 'Replace'", &from, &literal, err);
    if (status == WEFT_OK) status = json_read_text(value, "content", &to, err);
    return status == WEFT_OK ? normalizer_replace(&t->normalizer, from, literal, to, err) : status;
}

static weft_status read_prepend(tokenizer *t, const json *value, weft_error *err)
{
    str text;
    weft_status status = json_read_text(value, "prepend", &text, err);
    return status == WEFT_OK ? normalizer_prepend(&t->normalizer, text, false, err) : status;
}

static weft_status read_strip(tokenizer *t, const json *value, weft_error *err)
{
    return normalizer_strip(&t->normalizer, json_bool(json_get(value, "strip_left"), false),
                            json_bool(json_get(value, "strip_right"), false), err);
}

static weft_status read_precompiled(tokenizer *t, const json *value, weft_error *err)
{
    str text;
    size_t n = 0;
    weft_status status = json_read_text(value, "precompiled_charsmap", &text, err);
    if (status != WEFT_OK || text.len == 0) return status;
    size_t room = base64_room(text.len);
    char *blob = mem_alloc(t->allocator, room);
    if (blob == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a character map");
    if (base64_decode(text, 0, blob, &n)) {
        str bytes = {blob, n};
        status = normalizer_charsmap(&t->normalizer, NORMALIZE_CHARSMAP, bytes, err);
    } else {
        status = err_set(err, WEFT_FORMAT, "tokenizer: 'precompiled_charsmap' is not base64");
    }
    mem_free(t->allocator, blob, room);
    return status;
}

static weft_status read_bert(tokenizer *t, const json *value, weft_error *err)
{
    normalizer *n = &t->normalizer;
    bool lowercase = json_bool(json_get(value, "lowercase"), true);
    bool strip = json_bool(json_get(value, "strip_accents"), lowercase);
    weft_status status = WEFT_OK;
    if (json_bool(json_get(value, "clean_text"), true))
        status = normalizer_add(n, NORMALIZE_CLEAN, err);
    if (status == WEFT_OK && json_bool(json_get(value, "handle_chinese_chars"), true))
        status = normalizer_add(n, NORMALIZE_IDEOGRAPHS, err);
    if (status == WEFT_OK && strip) status = normalizer_add(n, NORMALIZE_NFD, err);
    if (status == WEFT_OK && strip) status = normalizer_add(n, NORMALIZE_NO_NONSPACING, err);
    if (status == WEFT_OK && lowercase) status = normalizer_add(n, NORMALIZE_LOWERCASE, err);
    return status;
}

static weft_status read_normalizer(tokenizer *t, str kind, const json *value, weft_error *err)
{
    static const struct {
        const char *name;
        normalizer_kind kind;
    } SIMPLE[] = {{"NFC", NORMALIZE_NFC},
                  {"NFD", NORMALIZE_NFD},
                  {"NFKC", NORMALIZE_NFKC},
                  {"NFKD", NORMALIZE_NFKD},
                  {"Lowercase", NORMALIZE_LOWERCASE},
                  {"StripAccents", NORMALIZE_NO_MARKS},
                  {"Nmt", NORMALIZE_NMT},
                  {"ByteLevel", NORMALIZE_BYTES}};
    static const struct {
        const char *name;
        weft_status (*read)(tokenizer *t, const json *value, weft_error *err);
    } OTHERS[] = {{"Strip", read_strip},
                  {"Replace", read_replace},
                  {"Prepend", read_prepend},
                  {"Precompiled", read_precompiled},
                  {"BertNormalizer", read_bert}};
    for (size_t i = 0; i < COUNT_OF(SIMPLE); i++) {
        if (str_equal_text(kind, SIMPLE[i].name))
            return normalizer_add(&t->normalizer, SIMPLE[i].kind, err);
    }
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        if (str_equal_text(kind, OTHERS[i].name)) return OTHERS[i].read(t, value, err);
    }
    return json_unknown("normalizer", kind, err);
}

/* ---- pre-tokenizers ---- */

static weft_status read_digits(tokenizer *t, const json *value, weft_error *err)
{
    bool individual = json_bool(json_get(value, "individual_digits"), false);
    return pretoken_class(&t->pretoken, char_is_numeric,
                          individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, err);
}

static weft_status read_punctuation(tokenizer *t, const json *value, weft_error *err)
{
    split_behavior behavior;
    weft_status status = read_behavior(json_get(value, "behavior"), SPLIT_ISOLATED, &behavior, err);
    if (status != WEFT_OK) return status;
    return pretoken_class(&t->pretoken, char_is_punctuation, behavior, err);
}

static weft_status read_byte_level(tokenizer *t, const json *value, weft_error *err)
{
    return pretoken_bytelevel(&t->pretoken, json_bool(json_get(value, "add_prefix_space"), true),
                              json_bool(json_get(value, "use_regex"), true), err);
}

static weft_status read_meta(tokenizer *t, const json *value, weft_error *err)
{
    str mark;
    pretoken_ahead ahead;
    weft_status status = read_metaspace(value, &mark, &ahead, err);
    if (status != WEFT_OK) return status;
    return pretoken_metaspace(&t->pretoken, mark, ahead, json_bool(json_get(value, "split"), true),
                              err);
}

static weft_status read_whitespace(tokenizer *t, const json *value, weft_error *err)
{
    (void)value;
    return pretoken_words(&t->pretoken, err);
}

static weft_status read_scripts(tokenizer *t, const json *value, weft_error *err)
{
    (void)value;
    return pretoken_scripts(&t->pretoken, err);
}

static weft_status read_whitespace_split(tokenizer *t, const json *value, weft_error *err)
{
    (void)value;
    return pretoken_class(&t->pretoken, char_is_space, SPLIT_REMOVED, err);
}

static weft_status read_bert_words(tokenizer *t, const json *value, weft_error *err)
{
    weft_status status = read_whitespace_split(t, value, err);
    if (status != WEFT_OK) return status;
    return pretoken_class(&t->pretoken, char_is_punctuation, SPLIT_ISOLATED, err);
}

static weft_status read_delimiter(tokenizer *t, const json *value, weft_error *err)
{
    str text;
    weft_status status = json_read_text(value, "delimiter", &text, err);
    if (status != WEFT_OK) return status;
    return pretoken_split(&t->pretoken, text, true, SPLIT_REMOVED, false, err);
}

static weft_status read_fixed(tokenizer *t, const json *value, weft_error *err)
{
    int64_t n = json_int(json_get(value, "length"), 5);
    if (n < 0) return err_set(err, WEFT_FORMAT, "tokenizer: a 'FixedLength' of %lld", (long long)n);
    return pretoken_fixed(&t->pretoken, (uint64_t)n, err);
}

static weft_status read_pre_tokenizer(tokenizer *t, str kind, const json *value, weft_error *err)
{
    static const struct {
        const char *name;
        weft_status (*read)(tokenizer *t, const json *value, weft_error *err);
    } KINDS[] = {{"ByteLevel", read_byte_level},
                 {"Split", read_split},
                 {"Digits", read_digits},
                 {"Punctuation", read_punctuation},
                 {"Metaspace", read_meta},
                 {"Whitespace", read_whitespace},
                 {"WhitespaceSplit", read_whitespace_split},
                 {"BertPreTokenizer", read_bert_words},
                 {"CharDelimiterSplit", read_delimiter},
                 {"UnicodeScripts", read_scripts},
                 {"FixedLength", read_fixed}};
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (str_equal_text(kind, KINDS[i].name)) return KINDS[i].read(t, value, err);
    }
    return json_unknown("pre-tokenizer", kind, err);
}

/* ---- decoders ---- */

static weft_status read_decode_bytes(tokenizer *t, const json *value, weft_error *err)
{
    (void)value;
    return decoder_add(&t->decoder, (decoder_step){.kind = DECODE_BYTELEVEL}, err);
}

static weft_status read_decode_fallback(tokenizer *t, const json *value, weft_error *err)
{
    (void)value;
    return decoder_add(&t->decoder, (decoder_step){.kind = DECODE_BYTE_FALLBACK}, err);
}

static weft_status read_decode_fuse(tokenizer *t, const json *value, weft_error *err)
{
    (void)value;
    (void)err;
    decoder_fuse(&t->decoder);
    return WEFT_OK;
}

static weft_status read_decode_meta(tokenizer *t, const json *value, weft_error *err)
{
    decoder_step step = {.kind = DECODE_METASPACE};
    pretoken_ahead ahead;
    weft_status status = read_metaspace(value, &step.text, &ahead, err);
    step.flag = ahead != AHEAD_NEVER;
    return status == WEFT_OK ? decoder_add(&t->decoder, step, err) : status;
}

static weft_status read_decode_wordpiece(tokenizer *t, const json *value, weft_error *err)
{
    decoder_step step = {.kind = DECODE_WORDPIECE};
    weft_status status = json_read_text(value, "prefix", &step.text, err);
    if (status == WEFT_OK) status = decoder_add(&t->decoder, step, err);
    if (status != WEFT_OK || !json_bool(json_get(value, "cleanup"), true)) return status;
    return decoder_add(&t->decoder, (decoder_step){.kind = DECODE_CLEANUP}, err);
}

static weft_status read_decode_replace(tokenizer *t, const json *value, weft_error *err)
{
    str from;
    str to;
    bool literal;
    weft_status status = read_pattern(value, "pattern of 'Replace'", &from, &literal, err);
    if (status == WEFT_OK) status = json_read_text(value, "content", &to, err);
    return status == WEFT_OK ? decoder_replace(&t->decoder, from, literal, to, err) : status;
}

static weft_status read_decode_strip(tokenizer *t, const json *value, weft_error *err)
{
    decoder_step step = {.kind = DECODE_STRIP};
    int64_t left = json_int(json_get(value, "start"), 0);
    int64_t right = json_int(json_get(value, "stop"), 0);
    weft_status status = json_read_text(value, "content", &step.text, err);
    if (status != WEFT_OK) return status;
    if (left < 0 || right < 0 || left > UINT32_MAX || right > UINT32_MAX || step.text.len == 0) {
        return err_set(err, WEFT_FORMAT, "tokenizer: a 'Strip' of %lld and %lld characters",
                       (long long)left, (long long)right);
    }
    step.n_left = (uint32_t)left;
    step.n_right = (uint32_t)right;
    return decoder_add(&t->decoder, step, err);
}

static weft_status read_decode_suffix(tokenizer *t, const json *value, weft_error *err)
{
    str suffix = str_of("</w>");
    weft_status status = WEFT_OK;
    if (!json_is_null(json_get(value, "suffix")))
        status = json_read_text(value, "suffix", &suffix, err);
    return status == WEFT_OK ? decoder_suffix(&t->decoder, suffix, err) : status;
}

static weft_status read_decode_ctc(tokenizer *t, const json *value, weft_error *err)
{
    decoder_step step = {.kind = DECODE_CTC};
    str delimiter;
    weft_status status = json_read_text(value, "pad_token", &step.text, err);
    if (status == WEFT_OK) status = json_read_text(value, "word_delimiter_token", &delimiter, err);
    if (status == WEFT_OK) status = decoder_add(&t->decoder, step, err);
    if (status != WEFT_OK || !json_bool(json_get(value, "cleanup"), true)) return status;
    status = decoder_add(&t->decoder, (decoder_step){.kind = DECODE_CLEANUP}, err);
    if (status != WEFT_OK) return status;
    return decoder_replace(&t->decoder, delimiter, true, str_of(" "), err);
}

static weft_status read_decoder(tokenizer *t, str kind, const json *value, weft_error *err)
{
    static const struct {
        const char *name;
        weft_status (*read)(tokenizer *t, const json *value, weft_error *err);
    } KINDS[] = {{"ByteLevel", read_decode_bytes},
                 {"ByteFallback", read_decode_fallback},
                 {"Fuse", read_decode_fuse},
                 {"Metaspace", read_decode_meta},
                 {"WordPiece", read_decode_wordpiece},
                 {"Replace", read_decode_replace},
                 {"Strip", read_decode_strip},
                 {"BPEDecoder", read_decode_suffix},
                 {"CTC", read_decode_ctc}};
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (str_equal_text(kind, KINDS[i].name)) return KINDS[i].read(t, value, err);
    }
    return json_unknown("decoder", kind, err);
}

/* ---- post-processors ---- */

/* The ids that a template's special token stands for, appended to ids. */
static weft_status template_ids(const tokenizer *t, const json *specials, str name, around *ids,
                                bool behind, weft_error *err)
{
    const json *list = NULL;
    json_iter iter = {NULL};
    str key;
    const json *value;
    while (json_next(specials, &iter, &key, &value)) {
        if (str_equal(key, name)) list = json_get(value, "ids");
    }
    weft_status status =
        json_expect(list, JSON_KIND_ARRAY, "ids of a template's special token", err);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < json_length(list); i++) {
        int64_t id = json_int(json_at(list, i), -1);
        if (id < 0 || id >= (int64_t)t->vocab.n) {
            return err_set(err, WEFT_FORMAT,
                           "tokenizer: template id %lld is not below the vocabulary's %u",
                           (long long)id, t->vocab.n);
        }
        if (ids->n_before + ids->n_after == PIPELINE_AROUND) {
            return err_set(err, WEFT_LIMIT, "tokenizer: templates with more than %d ids",
                           PIPELINE_AROUND);
        }
        if (behind) {
            ids->after[ids->n_after++] = (int32_t)id;
        } else {
            ids->before[ids->n_before++] = (int32_t)id;
        }
    }
    return WEFT_OK;
}

/* Puts the template's ids around those of the processors before it. */
static weft_status wrap_around(tokenizer *t, const around *ids, weft_error *err)
{
    around old = t->around;
    around all = *ids;
    if (ids->n_before + ids->n_after + old.n_before + old.n_after > PIPELINE_AROUND) {
        return err_set(err, WEFT_LIMIT, "tokenizer: templates with more than %d ids",
                       PIPELINE_AROUND);
    }
    for (uint32_t i = 0; i < old.n_before; i++) all.before[all.n_before++] = old.before[i];
    all.n_after = 0;
    for (uint32_t i = 0; i < old.n_after; i++) all.after[all.n_after++] = old.after[i];
    for (uint32_t i = 0; i < ids->n_after; i++) all.after[all.n_after++] = ids->after[i];
    t->around = all;
    return WEFT_OK;
}

static weft_status read_template(tokenizer *t, const json *value, weft_error *err)
{
    const json *single = json_get(value, "single");
    weft_status status = json_expect(single, JSON_KIND_ARRAY, "'single' of a template", err);
    around ids = {.n_before = 0};
    uint32_t n_texts = 0;
    for (size_t i = 0; i < json_length(single) && status == WEFT_OK; i++) {
        const json *special = json_get(json_at(single, i), "SpecialToken");
        const json *text = json_get(json_at(single, i), "Sequence");
        if (special != NULL) {
            status = template_ids(t, json_get(value, "special_tokens"),
                                  json_text(json_get(special, "id")), &ids, n_texts != 0, err);
        } else if (str_equal_text(json_text(json_get(text, "id")), "A")) {
            n_texts++;
        } else {
            return err_set(err, WEFT_FORMAT, "tokenizer: part %zu of a template is unknown", i);
        }
    }
    if (status != WEFT_OK) return status;
    if (n_texts != 1) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tokenizer: a template with the text %u times is not supported", n_texts);
    }
    return wrap_around(t, &ids, err);
}

/* ["token", id] of 'BertProcessing' and 'RobertaProcessing'. */
static weft_status read_pair(const tokenizer *t, const json *value, const char *key, int32_t *id,
                             weft_error *err)
{
    int64_t number = json_int(json_at(json_get(value, key), 1), -1);
    *id = (int32_t)number;
    if (number >= 0 && number < (int64_t)t->vocab.n) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer: '%s' id %lld is not below the vocabulary's %u",
                   key, (long long)number, t->vocab.n);
}

static weft_status read_bert_around(tokenizer *t, const json *value, weft_error *err)
{
    around ids = {.n_before = 1, .n_after = 1};
    weft_status status = read_pair(t, value, "cls", &ids.before[0], err);
    if (status == WEFT_OK) status = read_pair(t, value, "sep", &ids.after[0], err);
    return status == WEFT_OK ? wrap_around(t, &ids, err) : status;
}

/* ByteLevel moves offsets only. */
static weft_status read_post(tokenizer *t, str kind, const json *value, weft_error *err)
{
    if (str_equal_text(kind, "TemplateProcessing")) return read_template(t, value, err);
    if (str_equal_text(kind, "BertProcessing") || str_equal_text(kind, "RobertaProcessing"))
        return read_bert_around(t, value, err);
    return str_equal_text(kind, "ByteLevel") ? WEFT_OK : json_unknown("post-processor", kind, err);
}

/* ---- the stages ---- */

weft_status json_read_normalizer(tokenizer *t, const json *value, weft_error *err)
{
    return walk_stage(t, value, "normalizer", "normalizers", read_normalizer, err);
}

weft_status json_read_pre_tokenizer(tokenizer *t, const json *value, weft_error *err)
{
    return walk_stage(t, value, "pre-tokenizer", "pretokenizers", read_pre_tokenizer, err);
}

weft_status json_read_post_processor(tokenizer *t, const json *value, weft_error *err)
{
    return walk_stage(t, value, "post-processor", "processors", read_post, err);
}

/* Without a decoder, tokens are put together with spaces between them; bytes are read as bytes all
 * the same. */
weft_status json_read_decoder(tokenizer *t, const json *value, weft_error *err)
{
    bool bytes = t->pretoken.bytes || t->pretoken.spelled;
    decoder_step step = {.kind = bytes ? DECODE_BYTELEVEL : DECODE_JOIN};
    if (json_is_null(value)) return decoder_add(&t->decoder, step, err);
    return walk_stage(t, value, "decoder", "decoders", read_decoder, err);
}
