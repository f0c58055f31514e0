/* load_sp.c - SentencePiece's tokenizer.model. Only the fields that say something about encoding
 * are read; what would change ids and is not done here is refused.
 * Source: sentencepiece_model.proto, and the encoding of protocol buffers. */
#include "tokenizer/load_sp.h"

#include <string.h>

#include "tokenizer/load_json.h"
#include "tokenizer/sp.h"

/* ---- protocol buffers ---- */

/* Fields of a message that are left. */
typedef struct reader {
    const unsigned char *at;
    const unsigned char *end;
    bool broken;
} reader;

typedef struct field {
    uint32_t number;
    uint64_t value; /* of a varint, or the bits of a fixed one */
    str bytes;      /* of a string or message */
} field;

static reader reader_of(str bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.ptr;
    return (reader){at, at + bytes.len, false};
}

static uint64_t read_varint(reader *r)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end) break;
        unsigned char byte = *r->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    r->broken = true;
    return 0;
}

static uint64_t read_fixed(reader *r, size_t n)
{
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < n) {
        r->broken = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++) value |= (uint64_t)r->at[i] << (8 * i);
    r->at += n;
    return value;
}

/* False at the end and when the message is broken. */
static bool next_field(reader *r, field *f)
{
    if (r->at == r->end || r->broken) return false;
    uint64_t key = read_varint(r);
    *f = (field){.number = (uint32_t)(key >> 3), .bytes = {"", 0}};
    switch (key & 7) {
    case 0:
        f->value = read_varint(r);
        break;
    case 1:
        f->value = read_fixed(r, 8);
        break;
    case 5:
        f->value = read_fixed(r, 4);
        break;
    case 2:
        f->value = read_varint(r);
        if (f->value > (uint64_t)(r->end - r->at)) {
            r->broken = true;
            break;
        }
        f->bytes = (str){(const char *)r->at, (size_t)f->value};
        r->at += f->value;
        break;
    default:
        r->broken = true;
        break;
    }
    return !r->broken;
}

static weft_status broken(const reader *r, weft_error *err)
{
    if (!r->broken) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer.model: a message of protocol buffers is cut off");
}

/* ---- the model ---- */

enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3, DENORMALIZER = 5 };
enum { UNIGRAM = 1, BPE = 2 };

typedef struct sp_file {
    size_t n_pieces;
    uint64_t kind;
    bool bytes;
    int32_t unknown, bos, eos;
    sp_stages stages;
} sp_file;

typedef struct piece {
    str text;
    float score;
    uint64_t type;
} piece;

static weft_status read_piece(str bytes, piece *p, weft_error *err)
{
    reader r = reader_of(bytes);
    field f;
    *p = (piece){{"", 0}, 0.0f, SP_NORMAL};
    while (next_field(&r, &f)) {
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1) p->text = f.bytes;
        if (f.number == 2) memcpy(&p->score, &bits, sizeof bits);
        if (f.number == 3) p->type = f.value;
    }
    return broken(&r, err);
}

static weft_status unsupported(const char *what, weft_error *err)
{
    return err_set(err, WEFT_UNSUPPORTED, "tokenizer.model: '%s' is not supported", what);
}

static weft_status read_trainer(sp_file *s, str bytes, weft_error *err)
{
    reader r = reader_of(bytes);
    field f;
    while (next_field(&r, &f)) {
        if (f.number == 3) s->kind = f.value;
        if (f.number == 24 && f.value != 0) return unsupported("treat_whitespace_as_suffix", err);
        if (f.number == 35) s->bytes = f.value != 0;
        if (f.number == 40) s->unknown = (int32_t)f.value;
        if (f.number == 41) s->bos = (int32_t)f.value;
        if (f.number == 42) s->eos = (int32_t)f.value;
    }
    return broken(&r, err);
}

static weft_status read_normalizer(sp_file *s, str bytes, weft_error *err)
{
    reader r = reader_of(bytes);
    field f;
    while (next_field(&r, &f)) {
        if (f.number == 2) s->stages.charsmap = f.bytes;
        if (f.number == 3) s->stages.prefix = f.value != 0;
        if (f.number == 4) s->stages.one_space = f.value != 0;
        if (f.number == 5 && f.value == 0) return unsupported("escape_whitespaces false", err);
    }
    return broken(&r, err);
}

/* A text on the way back. */
static weft_status check_denormalizer(str bytes, weft_error *err)
{
    reader r = reader_of(bytes);
    field f;
    while (next_field(&r, &f)) {
        if (f.number == 2 && f.bytes.len != 0) return unsupported("denormalizer_spec", err);
    }
    return broken(&r, err);
}

/* Everything but the pieces, which are counted. */
static weft_status read_file(sp_file *s, str bytes, weft_error *err)
{
    *s = (sp_file){.kind = UNIGRAM, .unknown = 0, .bos = 1, .eos = 2};
    s->stages = (sp_stages){.one_space = true, .prefix = true, .first = true};
    reader r = reader_of(bytes);
    field f;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && next_field(&r, &f)) {
        if (f.number == PIECES) s->n_pieces++;
        if (f.number == TRAINER) status = read_trainer(s, f.bytes, err);
        if (f.number == NORMALIZER) status = read_normalizer(s, f.bytes, err);
        if (f.number == DENORMALIZER) status = check_denormalizer(f.bytes, err);
    }
    if (status == WEFT_OK) status = broken(&r, err);
    if (status != WEFT_OK) return status;
    if (s->n_pieces == 0) return err_set(err, WEFT_FORMAT, "tokenizer.model: there are no pieces");
    if (s->kind != UNIGRAM && s->kind != BPE) {
        return err_set(err, WEFT_UNSUPPORTED, "tokenizer.model: model type %llu is not supported",
                       (unsigned long long)s->kind);
    }
    return WEFT_OK;
}

/* Twice through the pieces: a token can be merged only when its parts are there. */
static weft_status read_pieces(tokenizer *t, sp_file *s, str bytes, bool scores, weft_error *err)
{
    reader r = reader_of(bytes);
    field f;
    int32_t id = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && next_field(&r, &f)) {
        piece p;
        if (f.number != PIECES) continue;
        status = read_piece(f.bytes, &p, err);
        if (status != WEFT_OK) break;
        if (p.type == SP_BYTE) s->bytes = true;
        status = scores ? sp_score(t, id, (int64_t)p.type, (double)p.score, err)
                        : sp_token(t, id, p.text, (int64_t)p.type, err);
        id++;
    }
    return status;
}

static int32_t known_id(const tokenizer *t, int32_t id)
{
    return vocab_get(&t->vocab, id) == NULL ? -1 : id;
}

/* The file itself does not say what is put around a text: as Transformers does for its models. */
static void put_around(tokenizer *t, const sp_file *s, const json *config)
{
    t->bos = known_id(t, s->bos);
    t->eos = known_id(t, s->eos);
    if (t->bos >= 0 && json_bool(json_get(config, "add_bos_token"), s->kind == BPE))
        t->around.before[t->around.n_before++] = t->bos;
    if (t->eos >= 0 && json_bool(json_get(config, "add_eos_token"), s->kind == UNIGRAM))
        t->around.after[t->around.n_after++] = t->eos;
}

weft_status load_sp(tokenizer *t, str file, const json *config, weft_error *err)
{
    sp_file s;
    weft_status status = read_file(&s, file, err);
    if (status != WEFT_OK) return status;
    model_kind kind = s.kind == BPE ? MODEL_BPE : MODEL_UNIGRAM;
    status = pipeline_reserve(t, kind, s.n_pieces + load_json_n_added(config), 0, err);
    if (status == WEFT_OK) status = read_pieces(t, &s, file, false, err);
    if (status == WEFT_OK) status = read_pieces(t, &s, file, true, err);
    if (status == WEFT_OK) status = load_json_added(t, config, err);
    if (status != WEFT_OK) return status;
    put_around(t, &s, config);
    s.stages.bytes = s.bytes;
    s.stages.unknown = known_id(t, s.unknown);
    return sp_finish(t, &s.stages, err);
}
