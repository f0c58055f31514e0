/* weft.h - the public interface of libweft: open a model, open an engine on it, submit requests,
 * run steps, poll events.
 *
 * Conventions
 * - Every function that can fail returns a weft_status and takes, last, a weft_error that may be
 *   NULL. On failure out-parameters are NULL or zero and nothing else has changed.
 * - Every struct the caller fills starts with struct_size; set it to sizeof.
 *   Fields beyond struct_size take their defaults; a longer struct is accepted when its tail is
 *   zero.
 * - Text is UTF-8. Counts are uint32_t, memory is size_t, token ids are int32_t.
 * - No function prints, exits, reads the environment or keeps global state. A model may be used by
 *   several engines; an engine is stepped by one thread at a time, while weft_submit, weft_poll,
 *   weft_cancel, weft_release and weft_engine_get_info may run in others.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/* ---- status and errors ----------------------------------------------------------------------- */

/* name, value, what the caller can do. Values are never reused. */
#define WEFT_STATUS_MAP(X)                                                                         \
    X(OK, 0, "nothing failed")                                                                     \
    X(NOMEM, -1, "the allocator refused; free memory or lower a limit, then try again")            \
    X(IO, -2, "a file or device could not be read or written; check the path and the medium")      \
    X(FORMAT, -3, "a file or text is malformed; it will not load as it is")                        \
    X(UNSUPPORTED, -4, "valid, but this build does not do it; the message names what")             \
    X(ARGUMENT, -5, "the call itself is wrong; the message names the argument")                    \
    X(LIMIT, -6, "a configured bound was met; the message has both numbers")                       \
    X(DEVICE, -7, "the compute device failed; close the engine")                                   \
    X(CANCELLED, -8, "the request was cancelled by its owner")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, value, help) WEFT_##name = value,
    WEFT_STATUS_MAP(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/* The caller's memory; message is one sentence, lower case, without a full stop. */
typedef struct weft_error {
    weft_status status;
    char message[252];
} weft_error;

/* "0.1.0"; static. */
WEFT_API const char *weft_version(void);

/* "OK", "NOMEM", ...; "UNKNOWN" for any other value. Static. */
WEFT_API const char *weft_status_name(weft_status status);

/* ---- memory and log -------------------------------------------------------------------------- */

/* One function for all of it, told exact sizes. ptr NULL allocates; new_size 0 frees and returns
 * NULL; NULL on failure leaves the old block as it was. align is a power of two, the same in every
 * call for one block. May be called from several threads. */
typedef struct weft_allocator {
    void *user;
    void *(*resize)(void *user, void *ptr, size_t old_size, size_t new_size, size_t align);
} weft_allocator;

typedef enum weft_log_level { WEFT_LOG_INFO = 0, WEFT_LOG_WARN = 1 } weft_log_level;

/* message is valid during the call only. May be called from several threads. */
typedef struct weft_log {
    void *user;
    void (*write)(void *user, weft_log_level level, const char *message);
} weft_log;

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct weft_model weft_model;

/* What a text's one vector is made of: hidden states of its tokens, after the model's last norm. */
typedef enum weft_pooling {
    WEFT_POOLING_DEFAULT = 0, /* as the checkpoint says, or its family is used */
    WEFT_POOLING_LAST = 1,    /* that of the last token */
    WEFT_POOLING_MEAN = 2,    /* of all */
    WEFT_POOLING_FIRST = 3,   /* that of the first token ([CLS]) */
    WEFT_POOLING_TOKENS = 4   /* none: a vector for each token */
} weft_pooling;

/* Whether vectors are brought to length 1. */
typedef enum weft_normalize {
    WEFT_NORMALIZE_DEFAULT = 0, /* as the checkpoint says; yes where it does not */
    WEFT_NORMALIZE_NO = 1,
    WEFT_NORMALIZE_YES = 2
} weft_normalize;

typedef struct weft_model_options {
    uint32_t struct_size;
    const weft_allocator *allocator; /* NULL: malloc; borrowed until the model is closed */
    const weft_log *log;             /* NULL: silent; borrowed until the model is closed */
    /* A folder for what a long tokenizer.json was turned into, so that it opens at once the next
     * time; NULL: none. Only the owner should be able to write to it. What cannot be read or
     * written there is no failure. */
    const char *cache_dir;
} weft_model_options;

/* path: a folder with config.json and *.safetensors, or a .gguf file. options may be NULL. */
WEFT_API weft_status weft_model_open(const char *path, const weft_model_options *options,
                                     weft_model **model, weft_error *err);

/* Accepts NULL. All engines on the model must be closed first. */
WEFT_API void weft_model_close(weft_model *model);

/* Strings and arrays are borrowed from the model. */
typedef struct weft_model_info {
    uint32_t struct_size;
    const char *family; /* "llama", "gemma3", ... */
    const char *format; /* "safetensors", "gguf" */
    uint32_t n_layers;
    uint32_t n_embd;    /* width of the residual stream */
    uint32_t n_vocab;   /* rows of the output matrix */
    uint32_t context;   /* largest number of positions the model was made for */
    uint32_t n_tensors; /* for weft_model_tensor */
    uint64_t n_params;  /* numbers in all tensors */
    uint64_t n_bytes;   /* bytes of all tensors as stored */
    bool has_tokenizer;
    bool has_template;
    const int32_t *stop_ids; /* ids that end an answer, [n_stop_ids] */
    uint32_t n_stop_ids;
    /* Defaults of the checkpoint's generation_config; greedy when it has none. */
    float temperature, top_p, min_p;
    uint32_t top_k;
    bool has_logits; /* false: an encoder, which samples nothing and gives vectors only */
    /* What a request for a vector gets that does not say; DEFAULT: it must, the checkpoint wants
     * what is not supported. */
    weft_pooling pooling;
    weft_normalize normalize;
    float repetition_penalty, typical_p; /* as temperature; 1: off */
    bool has_mtp;                        /* it has a head that drafts, for WEFT_ENGINE_MTP */
    bool has_vision;                     /* its prompts may have images */
    /* Not 0: it says nothing alone, but drafts for models of this width (draft_model). */
    uint32_t drafts_for;
} weft_model_info;

WEFT_API weft_status weft_model_get_info(const weft_model *model, weft_model_info *info,
                                         weft_error *err);

/* Strings are borrowed from the model. */
typedef struct weft_tensor_info {
    uint32_t struct_size;
    const char *name;     /* as in the file */
    const char *encoding; /* "bf16", "affine4g64", "q4_k", ... */
    uint32_t n_dims;
    uint64_t dims[4]; /* outermost first, in elements */
    uint64_t n_bytes; /* all planes */
} weft_tensor_info;

/* index < n_tensors of weft_model_get_info. */
WEFT_API weft_status weft_model_tensor(const weft_model *model, uint32_t index,
                                       weft_tensor_info *info, weft_error *err);

/* Of a model without experts all of it is 0. */
typedef struct weft_experts_info {
    uint32_t struct_size;
    uint32_t n_layers;  /* that have experts */
    uint32_t n_experts; /* of such a layer, and that a token goes to in it: the most of any */
    uint32_t n_top;
    uint64_t n_all;       /* of all layers */
    uint64_t n_bytes;     /* of all their matrices, as stored; part of the model's */
    uint64_t bytes_each;  /* of memory for one that is streamed: whole blocks of its files, and what
                             is kept beside them */
    uint64_t bytes_least; /* expert_bytes of an engine must be at least this */
} weft_experts_info;

/* What streaming experts would take. */
WEFT_API weft_status weft_model_experts(const weft_model *model, weft_experts_info *info,
                                        weft_error *err);

typedef struct weft_kv_info {
    uint32_t struct_size;
    uint64_t bytes_per_token; /* of layers that grow without bound */
    uint64_t bytes_fixed;     /* per sequence: windows and recurrent state, once they are full */
    uint32_t n_encoded;       /* layers whose keys and values are stored so */
    uint32_t n_recurrent;     /* layers whose state is f32 whatever the codec */
} weft_kv_info;

/* What one sequence's state costs with a codec spec ("bf16", "turbo-k8v4,0..1=bf16", ...: see
 * docs/kv.md). */
WEFT_API weft_status weft_model_kv(const weft_model *model, const char *spec, weft_kv_info *info,
                                   weft_error *err);

/* Strings are static. */
typedef struct weft_kv_layer_info {
    uint32_t struct_size;
    /* "full", "window", "chunked", "latent", "recurrent"; "shared": it reads the keys and values of
     * another layer and has none. */
    const char *layout;
    const char *k, *v; /* codecs; of a recurrent layer "f32" with any spec; "" when shared */
    uint32_t window;   /* positions of a window or chunk, else 0 */
    uint64_t bytes_per_token, bytes_fixed; /* as in weft_kv_info */
    /* Codec of the keys by which the layer chooses what it attends to; "": it has none. */
    const char *index;
} weft_kv_layer_info;

/* What one layer of the model, counted from 0, stores with a codec spec. */
WEFT_API weft_status weft_model_kv_layer(const weft_model *model, const char *spec, uint32_t layer,
                                         weft_kv_layer_info *info, weft_error *err);

/* ---- text ------------------------------------------------------------------------------------ */

enum {
    WEFT_TOKENIZE_PLAIN = 1,   /* added tokens in the text are not recognised */
    WEFT_TOKENIZE_SPECIALS = 2 /* add what the tokenizer puts around a text (bos, eos) */
};

/* ids: the caller's [capacity]; *n_ids is what was, or would have been, written: with LIMIT, call
 * again with that capacity. Few texts of n bytes need more than n + 8 ids. */
WEFT_API weft_status weft_tokenize(const weft_model *model, const char *text, size_t n_bytes,
                                   uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                                   weft_error *err);

/* The bytes that a token stands for in the middle of a text, special ones as they are spelt; they
 * need not be whole UTF-8. bytes: the caller's [capacity]; *n_bytes as n_ids of weft_tokenize. */
WEFT_API weft_status weft_token_bytes(const weft_model *model, int32_t id, char *bytes,
                                      size_t capacity, size_t *n_bytes, weft_error *err);

/* Streams ids to text; only whole UTF-8 sequences come out, invalid bytes as U+FFFD. */
typedef struct weft_detokenizer weft_detokenizer;

enum { WEFT_DETOKENIZE_SPECIALS = 1 /* special tokens appear as text */ };

WEFT_API weft_status weft_detokenizer_create(const weft_model *model, uint32_t flags,
                                             weft_detokenizer **detokenizer, weft_error *err);

/* *text is borrowed until the next call on the same object; it may be empty. */
WEFT_API weft_status weft_detokenizer_push(weft_detokenizer *detokenizer, int32_t id,
                                           const char **text, size_t *n_bytes, weft_error *err);

/* What is still held back: an incomplete sequence comes out as U+FFFD. */
WEFT_API weft_status weft_detokenizer_flush(weft_detokenizer *detokenizer, const char **text,
                                            size_t *n_bytes, weft_error *err);

WEFT_API void weft_detokenizer_destroy(weft_detokenizer *detokenizer);

enum { WEFT_CHAT_NO_GENERATION_PROMPT = 1 };

/* messages_json: an array of {"role", "content", ...}; tools_json: an array or NULL. The model's
 * own template renders them. text: the caller's [capacity], NUL-terminated. *n_bytes is
 * the length without the NUL, with LIMIT too: call again with a capacity of *n_bytes + 1. */
WEFT_API weft_status weft_chat_render(const weft_model *model, const char *messages_json,
                                      const char *tools_json, uint32_t flags, char *text,
                                      size_t capacity, size_t *n_bytes, weft_error *err);

/* The same, as token ids. Control tokens come from the template only: the content of a message
 * cannot spell one. */
WEFT_API weft_status weft_chat_tokenize(const weft_model *model, const char *messages_json,
                                        const char *tools_json, uint32_t flags, int32_t *ids,
                                        size_t capacity, size_t *n_ids, weft_error *err);

/* ---- engines --------------------------------------------------------------------------------- */

typedef struct weft_engine weft_engine;

/* What the input of a linear layer is rounded to; sums are f32 (docs/numerics.md). INT8: where the
 * weights are stored as integer codes, to 8 bits, 64 columns to a scale; else to bf16. */
typedef enum weft_act { WEFT_ACT_BF16 = 0, WEFT_ACT_F32 = 1, WEFT_ACT_INT8 = 2 } weft_act;

#define WEFT_NO_DRAFTS UINT32_MAX

typedef struct weft_engine_options {
    uint32_t struct_size;
    const char *backend; /* "cpu" (default), "ref" */
    const char *isa;     /* NULL: the best this processor has; "generic", "avx2", "avx512",
                            "avx512bf16" */
    const char *kv;      /* KV codec spec; NULL: the activation type, bf16 where that is int8 */
    weft_act act;
    uint32_t n_threads;     /* 0: one per available processor */
    uint32_t context;       /* most positions of one sequence; 0: the model's, at most 8192 */
    uint32_t max_sequences; /* sequences that may be active together; 0: 16 */
    uint32_t chunk_tokens;  /* most prompt tokens of one step, over all sequences; 0: 512 */
    uint32_t max_outputs;   /* tokens of one step whose logits can be had, at least max_sequences;
                               drafts share what exceeds it; 0: max_sequences + max_drafts */
    uint64_t memory_bytes;  /* budget for sequence state; 0: what one sequence of context needs, or
                               1 GiB if that is more */
    uint64_t cache_bytes;   /* most of memory_bytes that state of earlier requests may take, which
                               gives way to requests; 0: all that they leave */
    uint32_t flags;         /* of WEFT_ENGINE_ */
    uint32_t max_drafts;    /* most tokens of one request that a step verifies in advance, at most
                               32; 0: 8; WEFT_NO_DRAFTS: none */
    uint32_t max_image_tokens; /* most tokens that an image may come to; larger ones are made
                                  smaller. Memory for that is taken when the first image comes.
                                  0: 1280 */
    /* Not 0: experts are read from their files when tokens go to them, and so much memory holds
     * those that were used last; the answers are the same. LIMIT when that is less than
     * bytes_least of weft_experts_info, ARGUMENT when the model has no experts, UNSUPPORTED with
     * the backend "ref". A file that cannot be read ends the requests of its step with IO. */
    uint64_t expert_bytes;
    /* A smaller model whose guesses requests may take ("model"), borrowed until the engine is
     * closed; NULL: none. Its vocabulary must be the model's, token by token (ARGUMENT names the
     * first that is not). It runs on the same backend and threads. With expert_bytes it may have no
     * experts (UNSUPPORTED), and the head of WEFT_ENGINE_MTP neither. One that drafts for others
     * only (drafts_for) reads what the model has stored: heads and widths must be those it was made
     * for (ARGUMENT, UNSUPPORTED). Without one the two options that follow are ARGUMENT. */
    const weft_model *draft_model;
    const char *draft_kv; /* KV codec spec of its state; NULL: the activation type. ARGUMENT where
                             it has none: drafts_for */
    /* Budget for that state, beside memory_bytes: requests that find no room there are not drafted
     * for until there is. 0: what one sequence of context needs, or 256 MiB if that is more. */
    uint64_t draft_memory_bytes;
    /* A folder, which must be there (IO), for what the memory for earlier requests has no more room
     * for, and for all that is left when the engine is closed: requests find it there again, also
     * in another process with the same model, codec and arithmetic (docs/kv.md). Several engines
     * may share it. Opening then reads all weights once. Only its owner should be able to write to
     * it, and to read it: what users wrote can be told from it. NULL: none. ARGUMENT with
     * WEFT_ENGINE_NO_CACHE. */
    const char *state_dir;
    uint64_t state_dir_bytes; /* most that its files may take, those not used for longest give way;
                                 0: 4 GiB */
} weft_engine_options;

enum {
    WEFT_ENGINE_NO_CACHE = 1, /* no request begins with what another left */
    /* The head that the model has for drafts is run for every request, and its state is part of
     * theirs, so that any may draft by it ("mtp"). UNSUPPORTED when the model has none. */
    WEFT_ENGINE_MTP = 2
};

/* options may be NULL. The model is borrowed until the engine is closed. UNSUPPORTED for one that
 * says nothing alone (drafts_for). */
WEFT_API weft_status weft_engine_open(const weft_model *model, const weft_engine_options *options,
                                      weft_engine **engine, weft_error *err);

/* What an engine opened so promises a request that needs n_positions positions: tokens of its
 * prompt and all it may add but the last. The budget must hold that of all that run together. What
 * a draft model stores is beside it, by draft_memory_bytes, and promised to nobody. */
WEFT_API weft_status weft_model_state_bytes(const weft_model *model,
                                            const weft_engine_options *options,
                                            uint32_t n_positions, uint64_t *n_bytes,
                                            weft_error *err);

/* Accepts NULL. Requests still open are cancelled and released. */
WEFT_API void weft_engine_close(weft_engine *engine);

/* What is added to the logit of a token: -100 to 100, or minus infinity: it is never sampled. */
typedef struct weft_logit_bias {
    int32_t token;
    float bias;
} weft_logit_bias;

/* Most entries and bytes of a request's lists. */
enum {
    WEFT_LOGIT_BIASES = 1024,
    WEFT_STOP_TEXTS = 16,
    WEFT_STOP_TEXT_BYTES = 256,
    WEFT_DRY_BREAKERS = 16,
    WEFT_TOP_LOGPROBS = 32,
    WEFT_TAPS = 16
};

/* How a token is chosen; all 0: the one with the largest logit. docs/sampling.md has the formulas,
 * their sources and their order. What is out of its bounds is ARGUMENT, by its name. */
/* ---- grammars -------------------------------------------------------------------------------- */

/* What an answer must be: compiled once, for any number of requests (docs/grammar.md). */
typedef struct weft_grammar weft_grammar;

typedef enum weft_grammar_kind {
    WEFT_GRAMMAR_SCHEMA = 0, /* a JSON Schema (2020-12) */
    WEFT_GRAMMAR_JSON = 1,   /* any JSON object; without text */
    WEFT_GRAMMAR_REGEX = 2,  /* the whole answer matches the expression (ECMA 262) */
    WEFT_GRAMMAR_CHOICE = 3, /* a JSON array of texts, one of which it is */
    WEFT_GRAMMAR_RULES = 4,  /* name ::= ..., as GBNF has them; the answer is "root" */
    WEFT_GRAMMAR_PARTS = 5   /* a part in JSON, below */
} weft_grammar_kind;

/* A part is an object that has one of these, and beside it only what stands in its line:
 *     {"text": "..."}            this text; a control token that it spells is that token
 *     {"token": "<call>"}        this one token, by its text or id, not its letters
 *     {"until": "</think>", "token": false, "max_chars": N, "without": ["..."]}
 *                                any text in which it does not occur, and then it
 *     {"free": true, "max_chars": N, "without": ["..."]}      any text
 *     {"schema": {...}} {"json": true} {"regex": "..."} {"choice": ["..."]} {"rules": "..."}
 *                                as the kinds above
 *     {"all": [P, ...]}          each, one behind the other
 *     {"any": [P, ...]}          one of them
 *     {"optional": P}            it or nothing
 *     {"repeat": P, "min": 0, "max": N, "separator": P}
 * Control tokens come only where a part names them. docs/grammar.md says more. */

/* text: [n_bytes]. A text that is wrong (FORMAT, ARGUMENT) or cannot be honoured in full
 * (UNSUPPORTED, LIMIT) is refused, with its place and what of it. UNSUPPORTED, too, when the model
 * has no tokenizer or no token that ends an answer. The model stays open until it is closed. */
WEFT_API weft_status weft_grammar_open(const weft_model *model, weft_grammar_kind kind,
                                       const char *text, size_t n_bytes, weft_grammar **grammar,
                                       weft_error *err);

/* Accepts NULL. Requests that have it go on. */
WEFT_API void weft_grammar_close(weft_grammar *grammar);

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct weft_sampling {
    float temperature; /* 0: greedy, and of what follows only biases and penalties count; to 100 */
    float top_p;       /* (0, 1]; 0 or 1: off */
    float min_p;       /* [0, 1); 0: off */
    uint32_t top_k;    /* 0: off */
    uint64_t seed;     /* the same seed gives the same answer, in any company */
    float typical_p;   /* (0, 1]; 0 or 1: off */
    /* How often the likeliest tokens are left out, 0 to 1, and how likely those are and the one
     * that stays, above 0 to 0.5. */
    float xtc_probability, xtc_threshold;
    float repetition_penalty; /* [0.01, 100], of tokens of prompt and answer; 0 or 1: off */
    float presence_penalty;   /* [-2, 2], of tokens of the answer; 0: off */
    float frequency_penalty;  /* likewise, as often as they are there */
    uint32_t penalty_range;   /* how many of the last tokens these three look at; 0: all */
    float dry_multiplier;     /* [0, 100], of tokens that would repeat prompt or answer; 0: off */
    float dry_base;           /* [1, 100], for each further token of a repeat; 0: 1.75 */
    uint32_t dry_allowed_length; /* of a repeat that is not penalized yet; 0: 2 */
    uint32_t dry_range;          /* the last tokens that are looked at; 0: all */
    uint32_t n_dry_breakers;
    /* [n_dry_breakers]: no repeat reaches over a token that has one of these in its text. Not
     * empty, of at most WEFT_STOP_TEXT_BYTES; copied. */
    const char *const *dry_breakers;
    const weft_logit_bias *logit_bias; /* [n_logit_bias]; those of one token add up; copied */
    uint32_t n_logit_bias;
} weft_sampling;

enum {
    WEFT_REQUEST_IGNORE_STOP = 1, /* neither the model's nor the request's ids end it */
    WEFT_REQUEST_NO_CACHE = 2,    /* it neither begins with what another left nor leaves anything */
    WEFT_REQUEST_TEXT = 4,        /* events carry text; so they do where there are stop_texts */
    WEFT_REQUEST_SPECIALS = 8,    /* of text: special tokens appear in it */
    WEFT_REQUEST_SHOW_STOP = 16,  /* of text: a stop text that ends it is its end, too */
    WEFT_REQUEST_CONTINUES = 32   /* of text: it goes on from other text, so that its first token
                                     keeps the space that some tokenizers drop at a beginning */
};

enum { WEFT_IMAGE_AS_IS = 1 /* it is not resized: its sides must be what the model takes */ };

typedef struct weft_image {
    uint32_t struct_size;
    uint32_t flags;
    const uint8_t *pixels; /* [height, width, 3], red, green, blue; copied */
    uint32_t width, height;
} weft_image;

typedef struct weft_image_info {
    uint32_t struct_size;
    uint32_t width, height; /* what it is brought to */
    uint32_t n_tokens;      /* that stand in the prompt in the place of its placeholder */
} weft_image_info;

/* A JPEG or PNG file, turned upright by what it says of that. pixels are the library's until
 * weft_image_free; no more than 64 million of them. UNSUPPORTED for other formats, and where the
 * library was built without that one. */
WEFT_API weft_status weft_image_decode(const weft_model *model, const void *bytes, size_t n_bytes,
                                       weft_image *image, weft_error *err);

/* Of an image that weft_image_decode made; accepts NULL. */
WEFT_API void weft_image_free(const weft_model *model, weft_image *image);

/* What an image of a size comes to; UNSUPPORTED when the model sees none. */
WEFT_API weft_status weft_engine_image_info(const weft_engine *engine, uint32_t width,
                                            uint32_t height, weft_image_info *info,
                                            weft_error *err);

typedef struct weft_request {
    uint32_t struct_size;
    uint32_t flags;
    const int32_t *prompt; /* [n_prompt], n_prompt >= 1; copied */
    uint32_t n_prompt;
    uint32_t max_new; /* tokens to sample at most; 0: evaluate the prompt only */
    weft_sampling sampling;
    const int32_t *stop_ids; /* [n_stop_ids], besides the model's own; copied */
    uint32_t n_stop_ids;
    /* The caller's, written until DONE was polled or weft_release has returned. */
    float *prompt_logits; /* NULL, or [n_prompt, n_vocab] */
    float *new_logits;    /* likewise [max_new, n_vocab]: row i is what token i came from */
    const char *kv;       /* KV codec spec; NULL: the engine's. At most 16 in one engine */
    uint64_t cache_salt;  /* only requests with the same share state */
    /* What proposes tokens, so that one step may verify several: NULL, none; "ngram", what
     * followed the last tokens before; "model", the engine's draft_model; "mtp", the model's own
     * head. How many pay is found out from those before, and none are made while none do. The
     * answer is the same, bit for bit. */
    const char *draft;
    /* Not 0: prompt_logits is [prompt_logits_rows, n_vocab] and filled again and again, an event
     * LOGITS each time. The prompt is read no further until the poll after that event. */
    uint32_t prompt_logits_rows;
    /* Not NULL: what is asked for is the vector of the prompt, which lies here with the event
     * EMBEDDING: [n_embedding], of WEFT_POOLING_TOKENS [n_prompt, n_embedding]. max_new is 0. */
    float *embedding;
    uint32_t n_embedding; /* its first numbers, for models that were trained so; 0: n_embd */
    weft_pooling pooling;
    weft_normalize normalize;
    /* One placeholder a token of the prompt (the model's own for images) is replaced by each
     * image's tokens, in order; then n_prompt rows of prompt_logits and of embedding are as many
     * more, and cached tokens count these. [n_images], struct_size of the first apart. */
    uint32_t n_images;
    const weft_image *images;
    /* Higher ones come first, and pause lower ones where sequences or memory are short; what is
     * paused goes on later, with the same answer. For every WEFT_PRIORITY_STEPS steps that a
     * request has no part in it comes before one more priority, and is not paused for these, so
     * that nobody waits for ever. */
    int32_t priority;
    /* After so many milliseconds since the submit it ends before the next step; 0: it does not. */
    uint32_t deadline_ms;
    /* Tokens before which it does not end by itself: stop ids are not sampled there, or end nothing
     * where a grammar allows no other, and stop_texts are looked for in the text of later tokens
     * only. At most max_new. */
    uint32_t min_new;
    uint32_t n_top; /* events carry so many of the likeliest tokens; at most WEFT_TOP_LOGPROBS */
    /* [n_stop_texts], not empty, of at most WEFT_STOP_TEXT_BYTES; copied. The answer ends with the
     * token that completes one, wherever tokens begin; its text ends before it. */
    const char *const *stop_texts;
    uint32_t n_stop_texts; /* at most WEFT_STOP_TEXTS */
    /* What the answer must be; NULL: anything. Tokens that it does not allow are not sampled, and
     * where nothing may follow one that ends the answer is, whatever flags and min_new say.
     * Log-probabilities are those of the model. What it leaves no choice in is verified several
     * tokens a step, as drafts are. */
    const weft_grammar *grammar;
    /* Special tokens that appear in the text of events all the same, as a conversation's markers
     * do; [n_shown_ids], at most WEFT_SHOWN_IDS; copied. */
    const int32_t *shown_ids;
    uint32_t n_shown_ids;
    /* So many tokens that were not polled, and it rests until some were: a reader that is slow, or
     * gone, costs no steps. A step that drafts may add some more. 0: it never rests. */
    uint32_t max_ahead;
    /* Layers, counted from 0 and each once, of which what comes out of them is wanted for all
     * tokens of the prompt: [n_taps], copied. What a layer gives is what the next one begins with,
     * before any norm; it has the same bits whatever chunks and company a step has. */
    const uint32_t *tap_layers;
    uint32_t n_taps; /* at most WEFT_TAPS; UNSUPPORTED for encoders */
    /* [n_taps], each [n_prompt, n_embd]: the caller's, written until DONE was polled or
     * weft_release has returned. */
    float *const *taps;
} weft_request;

#define WEFT_SHOWN_IDS 64

#define WEFT_PRIORITY_STEPS 256

/* 0 is never a handle. */
typedef uint64_t weft_handle;

/* Everything is checked here: a request that could never finish is refused with both numbers.
 * Several answers to one prompt are several requests, with seeds of their own: those that find the
 * prompt being read for another wait for it, and share its state. */
WEFT_API weft_status weft_submit(weft_engine *engine, const weft_request *request,
                                 weft_handle *handle, weft_error *err);

/* Runs one step over every active sequence. *n_active: requests not yet done (0: nothing to do).
 * A failure of one request becomes its DONE event; a status other than OK is the engine's own. */
WEFT_API weft_status weft_step(weft_engine *engine, uint32_t *n_active, weft_error *err);

typedef enum weft_event_kind {
    WEFT_EVENT_NONE = 0,
    WEFT_EVENT_TOKEN = 1,
    WEFT_EVENT_DONE = 2,
    WEFT_EVENT_LOGITS = 3,   /* the first n_rows rows of prompt_logits are those of prompt tokens
                              from first on, until the next poll of the request */
    WEFT_EVENT_EMBEDDING = 4 /* embedding holds n_rows vectors */
} weft_event_kind;

typedef enum weft_finish {
    WEFT_FINISH_NONE = 0,
    WEFT_FINISH_STOP = 1,   /* a stop id was sampled, or a stop text completed, by the last TOKEN */
    WEFT_FINISH_LENGTH = 2, /* max_new tokens, or the context is full */
    WEFT_FINISH_CANCELLED = 3,
    WEFT_FINISH_ERROR = 4,   /* status and message say what */
    WEFT_FINISH_DEADLINE = 5 /* deadline_ms passed; tokens so far are those of the answer */
} weft_finish;

/* Why a request did not begin with all that was known of its prompt. */
typedef enum weft_cache_limit {
    WEFT_CACHE_LIMIT_NONE = 0,
    WEFT_CACHE_LIMIT_WINDOW = 1,    /* a layer with a window lacks positions that are seen there */
    WEFT_CACHE_LIMIT_RECURRENT = 2, /* no state of a recurrent layer is kept there */
    WEFT_CACHE_LIMIT_CONVERTED = 3, /* what is kept was converted later than that (start=) */
    WEFT_CACHE_LIMIT_ROOM = 4       /* memory_bytes has no room for that beside the request */
} weft_cache_limit;

typedef struct weft_top_logprob {
    int32_t token;
    float logprob;
} weft_top_logprob;

typedef struct weft_event {
    uint32_t struct_size;
    weft_event_kind kind;
    int32_t token;
    float logprob;      /* natural log of the token's probability before any sampler */
    weft_finish finish; /* with DONE */
    weft_error error;   /* with WEFT_FINISH_ERROR */
    /* Once it has begun: prompt tokens whose state was known from earlier requests, those that
     * needed not be forwarded for it, and why these are fewer. */
    uint32_t n_known, n_cached;
    weft_cache_limit cache_limit;
    /* With DONE: drafts that steps verified, and those that were what was sampled. */
    uint32_t n_drafted, n_accepted;
    uint32_t first;    /* with LOGITS */
    uint32_t n_rows;   /* with LOGITS and EMBEDDING */
    uint32_t n_paused; /* with DONE: how often it made room for others */
    /* With TOKEN: the n_top likeliest, as logprob has them, in descending order, equal ones by
     * ascending id; fewer where other logits are minus infinity. Borrowed until the next poll of
     * the request, as text is. */
    const weft_top_logprob *top;
    uint32_t n_top;
    /* With TOKEN and DONE: what there is to say now, whole UTF-8. What may be the beginning of a
     * character or of a stop text comes with a later event, the rest with DONE, where an incomplete
     * character is U+FFFD. A stop id has no text. */
    uint32_t n_text;
    const char *text; /* not NULL */
    /* With DONE: the id that ended it and which of stop_texts did; -1: none. */
    int32_t stop_id, stop_text;
    /* From the submit to the first token, and to the last one so far; 0: there is none. */
    uint64_t ns_first, ns_last;
} weft_event;

/* The next event of a request, NONE if there is none yet. */
WEFT_API weft_status weft_poll(weft_engine *engine, weft_handle handle, weft_event *event,
                               weft_error *err);

/* Takes effect before the next step: DONE with CANCELLED follows the events already queued. */
WEFT_API weft_status weft_cancel(weft_engine *engine, weft_handle handle, weft_error *err);

/* Forgets a request, cancelling it first if it is not done. The handle is invalid afterwards. */
WEFT_API weft_status weft_release(weft_engine *engine, weft_handle handle, weft_error *err);

/* ---- conversations --------------------------------------------------------------------------- */

/* A conversation made ready for requests: its prompt, what the answer must be, and how reasoning
 * and calls of tools are told from it (docs/chat.md). It does not change, may be used by several
 * threads, and serves any number of answers. The model stays open until it is closed. */
typedef struct weft_chat weft_chat;

/* Most bytes of messages, and of tools and variables; tools; bytes of a tool's name; calls of one
 * answer; bytes that one call may take. */
enum {
    WEFT_CHAT_MESSAGES_BYTES = 64 << 20,
    WEFT_CHAT_TOOLS_BYTES = 4 << 20,
    WEFT_CHAT_TOOLS = 512,
    WEFT_CHAT_NAME_BYTES = 128,
    WEFT_CHAT_CALLS = 128,
    WEFT_CHAT_CALL_BYTES = 4 << 20
};

typedef struct weft_chat_options {
    uint32_t struct_size;
    uint32_t flags; /* WEFT_CHAT_NO_GENERATION_PROMPT */
    /* As weft_chat_render. Arguments of calls may be text, as clients send them. An assistant's
     * message may have "answer_ids", the tokens as they were sampled without the one that ended
     * the answer: these stand in the prompt for its content, reasoning and calls, as far as the
     * template has a place for them. */
    const char *messages_json;
    /* [{"type": "function", "function": {"name", "description", "parameters", "strict"}}]; NULL:
     * none. */
    const char *tools_json;
    const char *variables_json; /* an object: more for the template, {"enable_thinking": false} */
    /* "auto" (NULL): calls as the model likes; "required": at least one, and nothing else;
     * "none": the template is shown no tools, and text that looks like a call is content. */
    const char *tool_choice;
    const char *tool_name; /* this tool must be called, as with "required"; NULL: any */
    bool one_call;         /* at most one call: what comes behind it is not given */
    /* What the content must be, as for weft_grammar_open. Reasoning is free, and calls are of
     * their tools' parameters: with "auto" the answer is calls or such content. */
    bool has_form;
    weft_grammar_kind form_kind;
    const char *form;
    size_t form_bytes;
} weft_chat_options;

/* ARGUMENT, FORMAT, LIMIT for what is wrong with options; UNSUPPORTED when the model has no
 * template or tokenizer, and for a form, or the parameters of a tool that must be called, that
 * cannot be honoured: they are never weakened. The message names the tool. */
WEFT_API weft_status weft_chat_open(const weft_model *model, const weft_chat_options *options,
                                    weft_chat **chat, weft_error *err);

/* Accepts NULL. Requests that were filled from it and are submitted go on; parsers of it are
 * destroyed before. */
WEFT_API void weft_chat_close(weft_chat *chat);

/* Sets prompt, grammar, stop_ids, shown_ids and WEFT_REQUEST_TEXT of a request; they are borrowed
 * until the chat is closed, and copied by weft_submit. struct_size is set before, the rest is the
 * caller's. */
WEFT_API weft_status weft_chat_fill(const weft_chat *chat, weft_request *request, weft_error *err);

/* Strings and arrays are borrowed from the chat. */
typedef struct weft_chat_info {
    uint32_t struct_size;
    const char *dialect; /* "hermes", "harmony", ..., "plain" */
    uint32_t n_prompt;
    const int32_t *prompt; /* [n_prompt] */
    uint32_t n_tools;      /* that may be called: 0 with "none" */
    bool in_reasoning;     /* the prompt ends within reasoning, where the answer begins */
    bool has_grammar;
    uint32_t n_replayed; /* messages of which answer_ids stand in the prompt, whole or in part */
} weft_chat_info;

WEFT_API weft_status weft_chat_get_info(const weft_chat *chat, weft_chat_info *info,
                                        weft_error *err);

/* The parts of one answer. However its text is divided, texts of parts of one kind that follow
 * each other, joined, are the same; of whole UTF-8, parts are whole UTF-8. */
typedef struct weft_parser weft_parser;

typedef enum weft_part_kind {
    WEFT_PART_NONE = 0,
    WEFT_PART_CONTENT = 1,    /* text */
    WEFT_PART_REASONING = 2,  /* text */
    WEFT_PART_CALL = 3,       /* a call begins; text is the tool's name, also of one not there */
    WEFT_PART_ARGUMENTS = 4,  /* text: more of the call's arguments, together a JSON object */
    WEFT_PART_CALL_END = 5,   /* it is complete; one that the answer's end cut has none */
    WEFT_PART_CALL_UNDONE = 6 /* it was none: its text follows as what it stood in */
} weft_part_kind;

typedef struct weft_part {
    uint32_t struct_size;
    weft_part_kind kind;
    uint32_t call;    /* which one, from 0 on */
    const char *text; /* not NULL, [n_bytes]; borrowed until the next call on the parser */
    size_t n_bytes;
} weft_part;

WEFT_API weft_status weft_parser_create(const weft_chat *chat, weft_parser **parser,
                                        weft_error *err);

/* Accepts NULL. */
WEFT_API void weft_parser_destroy(weft_parser *parser);

/* The text of an event. No text is an error; NOMEM ends the parser. */
WEFT_API weft_status weft_parser_push(weft_parser *parser, const char *text, size_t n_bytes,
                                      weft_error *err);

/* There is no more, by the finish of the event DONE: a call that STOP ended is complete when all
 * of its arguments are there, one that anything else ended is not. */
WEFT_API weft_status weft_parser_end(weft_parser *parser, weft_finish finish, weft_error *err);

/* The next part; NONE: there is none yet. */
WEFT_API weft_status weft_parser_next(weft_parser *parser, weft_part *part, weft_error *err);

/* Strings are borrowed from the engine. */
typedef struct weft_engine_info {
    uint32_t struct_size;
    const char *backend; /* "cpu", "ref" */
    const char *isa;     /* "avx512", ...; "" where there is no choice */
    const char *kv;      /* effective codec spec */
    uint32_t n_threads;
    uint32_t context;
    uint64_t kv_bytes_live; /* pages that sequences hold */
    uint64_t kv_bytes_budget;
    uint64_t weight_bytes_step; /* weights that a step of one token reads */
    uint64_t scratch_bytes;     /* memory of the plan */
    uint64_t kv_bytes_cached;   /* pages kept for requests to come; sequences may hold some, too */
    uint64_t n_cache_lookups, n_cache_hits;
    uint64_t n_cache_tokens;                    /* prompt tokens that needed not be forwarded */
    uint64_t n_drafted, n_accepted;             /* as in weft_event, of all requests so far */
    uint64_t n_states_saved, n_states_restored; /* files */
    uint64_t n_state_misses;                    /* files that could not be used */
    uint64_t n_kv_nonfinite; /* NaN and infinities in keys and values that a packed codec replaced:
                              * above 0 a model computes nonsense, or overflows */
    uint32_t n_active, n_waiting; /* requests that have a sequence, and those that have none yet */
    uint64_t n_paused;            /* times that a request made room for others */
    uint64_t n_steps;
    /* Time in weft_step; of that with the backend, and choosing tokens. */
    uint64_t ns_steps, ns_runs, ns_samples;
    uint64_t expert_bytes;   /* memory for experts that are streamed; 0: they are not, and what
                                follows is 0, too */
    uint64_t n_experts_used; /* counted in each layer of each step: experts that tokens went to; of
                                these, those that memory had already */
    uint64_t n_experts_there;
    uint64_t n_experts_ahead; /* read before it was known whether tokens would go to them; of these,
                                 those that tokens went to */
    uint64_t n_experts_ahead_used;
    uint64_t expert_bytes_read;
    uint64_t draft_bytes_live, draft_bytes_budget; /* of the draft model's state */
    /* With state_dir: times that state came from there, and tokens that needed not be forwarded for
     * it, beside those in memory; bytes of files, now, read, and written; files that were not
     * written, since they are larger than state_dir_bytes or a step would have taken too long; and
     * files that were damaged, or gone, and are no more. */
    uint64_t n_disk_hits, n_disk_tokens;
    uint64_t disk_bytes, disk_bytes_read, disk_bytes_written;
    uint64_t n_disk_skipped, n_disk_damaged;
} weft_engine_info;

WEFT_API weft_status weft_engine_get_info(const weft_engine *engine, weft_engine_info *info,
                                          weft_error *err);

/* Forgets what is kept for requests to come, in memory: it is not written to state_dir, and what is
 * there stays. */
WEFT_API weft_status weft_engine_drop_cache(weft_engine *engine, weft_error *err);

/* Writes what the engine knows of these tokens, from their first on, to a file that another engine
 * on the same model can begin with: the longest prefix whose state is kept. Of requests that named
 * neither kv nor cache_salt, when they have ended or forwarded their prompt. *n_saved: its tokens;
 * 0: nothing is known, and nothing written. The file is replaced as a whole, or stays (IO, NOMEM);
 * docs/kv-files.md has its format. The first call for a file reads all weights once, to know the
 * model by its content. Outside of a step, and other calls on the engine wait meanwhile;
 * UNSUPPORTED with WEFT_ENGINE_NO_CACHE. */
WEFT_API weft_status weft_state_save(weft_engine *engine, const int32_t *tokens, uint32_t n,
                                     const char *path, uint32_t *n_saved, weft_error *err);

typedef struct weft_restored {
    uint32_t struct_size;
    uint32_t n_tokens;  /* that the file has; 0 where it does not say */
    uint32_t n_usable;  /* of them, those that a request which goes on from them need not forward */
    bool set_aside;     /* it was damaged, and renamed to PATH.bad */
    const char *reason; /* why it is not used; "" when it is. Static */
} weft_restored;

/* Puts what a file holds where requests find it. A file that is not there, is damaged, or belongs
 * to another model, codec or arithmetic is no failure: restored says so. Outside of a step. */
WEFT_API weft_status weft_state_restore(weft_engine *engine, const char *path,
                                        weft_restored *restored, weft_error *err);

/* Measures where the time of steps goes, from here on and anew; off: no longer, and what was
 * measured is forgotten. Of the model's own graph: what drafts and what sees images is not part of
 * it. Results stay the same bits. Outside of a step; UNSUPPORTED with "ref". */
WEFT_API weft_status weft_engine_trace(weft_engine *engine, bool on, weft_error *err);

typedef struct weft_trace_part {
    uint32_t struct_size;
    uint32_t n_in, n_out; /* of matrices: columns, and rows of all that are computed together */
    const char *work;     /* "linear", "attend", ...; "barrier": threads met */
    const char *weights;  /* encodings that it reads, "q4_k+q6_k"; "": none. As the trace lives */
    uint64_t n_calls;
    uint64_t n_bytes;    /* of weights, or of keys and values, each once a call */
    double seconds;      /* of the thread that had most to do, each time */
    double idle_seconds; /* how much less the one with least had */
} weft_trace_part;

/* Part i of a trace, in the order of the graph, but that the barrier is the first; ARGUMENT when
 * there are no more. Together their seconds are the time of the runs. Outside of a step. */
WEFT_API weft_status weft_engine_trace_part(const weft_engine *engine, uint32_t i,
                                            weft_trace_part *part, weft_error *err);

/* The machine's plain read with the engine's threads: the fastest of several loops over n_bytes
 * (at least 1 GiB for a figure to publish), in bytes a second. Allocates n_bytes meanwhile. */
WEFT_API weft_status weft_engine_measure_read(weft_engine *engine, uint64_t n_bytes,
                                              double *bytes_per_second, weft_error *err);

/* ---- conversion ------------------------------------------------------------------------------ */

/* Strings are borrowed during the call. */
typedef struct weft_convert_progress {
    uint32_t struct_size;
    uint32_t n_tensors, all_tensors; /* done; in all */
    uint64_t n_bytes, all_bytes;     /* of weights: written; in all */
    const char *name;                /* of the tensor being written */
} weft_convert_progress;

typedef struct weft_convert_options {
    uint32_t struct_size;
    uint32_t bits;                   /* of a weight; 0: 4, with "mxfp8" 8 */
    const weft_allocator *allocator; /* NULL: malloc */
    const weft_log *log;             /* NULL: silent */
    const char *mode;                /* "affine" (NULL), "mxfp4", "nvfp4", "mxfp8" */
    uint32_t group;                  /* weights that share a scale; 0: 64, "nvfp4" 16, others 32 */
    uint32_t n_threads;              /* 0: one per available processor; the bytes are the same */
    const char *recipe; /* JSON: rules for some weights (docs/convert.md); NULL: none */
    size_t recipe_bytes;
    /* "f32", "f16", "bf16": of what is not quantized, and of scales; NULL: as it is stored, f32
     * where a GGUF file has blocks. */
    const char *type;
    /* The folder whose tokenizer and other small files are copied; NULL: the source, if it is
     * one. */
    const char *files;
    uint64_t shard_bytes; /* most in one file of weights; 0: 5 GiB */
    /* Called now and then; false ends the conversion with CANCELLED. NULL: none. */
    void *user;
    bool (*progress)(void *user, const weft_convert_progress *progress);
} weft_convert_options;

typedef struct weft_conversion {
    uint32_t struct_size;
    uint32_t n_tensors;   /* a quantized one with its scales is one */
    uint32_t n_quantized; /* of those */
    uint32_t n_whole;     /* matrices that are not: groups do not divide their columns */
    uint32_t n_files;     /* of weights */
    uint32_t n_copied;    /* small files */
    uint64_t n_params;    /* numbers in all tensors */
    uint64_t n_bytes;     /* of all tensors as stored */
} weft_conversion;

/* Writes a model of any format in MLX's form, quantized, to a new folder. source: as for
 * weft_model_open. target: there must be nothing of that name; it is there when it is complete and
 * synced, or not at all. Memory is taken for one tensor at a time. options and result may be
 * NULL. */
WEFT_API weft_status weft_convert(const char *source, const char *target,
                                  const weft_convert_options *options, weft_conversion *result,
                                  weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
