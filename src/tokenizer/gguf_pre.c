/* gguf_pre.c - the table of pre-tokenizers, each row as the tokenizer.json has it that the files
 * were converted from. Sources: those files; the names are llama.cpp's. */
#include "tokenizer/gguf_pre.h"

#include "base/assert.h"
#include "tokenizer/pretoken.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define SIGNS_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define AHEAD "[^\\r\\n\\p{L}\\p{N}]?"

#define UPPER_NO_HAN "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER_NO_HAN "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define BLOOM_WORDS " ?[^(\\s|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+"
#define CJK_OLD "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+"
#define GPT4O_WORDS                                                                                \
    AHEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" AHEAD UPPER "+" LOWER "*" CONTRACTIONS             \
                "?|\\p{N}{1,3}" SIGNS_SLASH

static const char *const GPT2[] = {PRETOKEN_GPT2, NULL};
static const char *const DIGITS_GPT2[] = {"\\p{N}", PRETOKEN_GPT2, NULL};
static const char *const LLAMA3[] = {CONTRACTIONS "|" AHEAD "\\p{L}+|\\p{N}{1,3}" SIGNS, NULL};
static const char *const QWEN2[] = {CONTRACTIONS "|" AHEAD "\\p{L}+|\\p{N}" SIGNS, NULL};
static const char *const QWEN35[] = {
    CONTRACTIONS "|" AHEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES,
    NULL};
static const char *const TEKKEN[] = {
    AHEAD UPPER "*" LOWER "+|" AHEAD UPPER "+" LOWER "*|\\p{N}" SIGNS_SLASH, NULL};
static const char *const GPT4O[] = {GPT4O_WORDS, NULL};
static const char *const DEEPSEEK3[] = {
    "\\p{N}{1,3}", "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES,
    NULL};

static const char *const FALCON[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", PRETOKEN_GPT2, "[0-9][0-9][0-9]",
                                     NULL};
static const char *const BLOOM[] = {BLOOM_WORDS, NULL};
static const char *const VIKING[] = {BLOOM_WORDS, "\\p{N}", NULL};
static const char *const BAILING[] = {
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    NULL};
static const char *const SEED[] = {
    CONTRACTIONS "|" AHEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES, NULL};
static const char *const SUPERBPE[] = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))", NULL};
static const char *const COHERE2[] = {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O_WORDS, NULL};
static const char *const KIMI[] = {"[\\p{Han}]+|" AHEAD UPPER_NO_HAN "*" LOWER_NO_HAN
                                   "+" CONTRACTIONS "?|" AHEAD UPPER_NO_HAN "+" LOWER_NO_HAN
                                   "*" CONTRACTIONS "?|\\p{N}{1,3}" SIGNS,
                                   NULL};
static const char *const DEEPSEEK_CODER[] = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                                             CJK_OLD,    "\\p{N}",      NULL};
static const char *const DEEPSEEK[] = {
    "[\\r\\n]",
    "\\s?[A-Za-z\\u00b5\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u01ba\\u01bc-\\u01bf\\u01c4-"
    "\\u0293\\u0295-\\u02af"
    "\\u0370-\\u0373\\u0376\\u0377\\u037b-\\u037d\\u037f\\u0386\\u0388-\\u038a\\u038c\\u038e-"
    "\\u03a1\\u03a3-\\u03f5"
    "\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556\\u10a0-\\u10c5\\u13a0-\\u13f5\\u13f8-"
    "\\u13fd\\u1c90-\\u1cba"
    "\\u1cbd-\\u1cbf\\u1d00-\\u1d2b\\u1d6b-\\u1d77\\u1d79-\\u1d9a\\u1e00-\\u1f15\\u1f18-"
    "\\u1f1d\\u1f20-\\u1f45"
    "\\u1f48-\\u1f4d\\u1f50-\\u1f57\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4\\u1fb6-"
    "\\u1fbc\\u1fbe"
    "\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb\\u1fe0-\\u1fec\\u1ff2-"
    "\\u1ff4\\u1ff6-\\u1ffc"
    "\\u2102\\u2107\\u210a-\\u2113\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128\\u212a-"
    "\\u212d\\u212f-\\u2134\\u2139"
    "\\u213c-\\u213f\\u2145-\\u2149\\u214e\\u2183\\u2184\\u2c00-\\u2c7b\\u2c7e-\\u2ce4\\u2ceb-"
    "\\u2cee\\u2cf2\\u2cf3"
    "\\ua640-\\ua66d\\ua680-\\ua69b\\ua722-\\ua76f\\ua771-\\ua787\\ua78b-\\ua78e\\uab70-"
    "\\uabbf\\ufb00-\\ufb06"
    "\\ufb13-\\ufb17\\uff21-\\uff3a\\uff41-\\uff5a\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"
    "\\x{1e900}-\\x{1e943}]+",
    "\\s?[!-/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+",
    "\\s+$",
    CJK_OLD,
    "\\p{N}+",
    NULL};

static const gguf_pre PRE_TYPES[] = {
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
    {"gigachat", GPT2, false, false},
    {"jais", GPT2, false, false},
    {"trillion", GPT2, false, false},
    {"granite-docling", GPT2, false, false},
    {"minerva-7b", DIGITS_GPT2, false, false},
    {"megrez", QWEN2, false, false},
    {"hunyuan", QWEN2, false, false},
    {"solar-open", QWEN2, false, false},
    {"grok-2", QWEN2, false, false},
    {"chatglm-bpe", LLAMA3, false, false},
    {"llama4", GPT4O, false, false},
    {"minimax-m2", GPT4O, false, false},
    {"hunyuan-dense", DEEPSEEK3, false, false},
    {"joyai-llm", DEEPSEEK3, false, false},
    {"deepseek-llm", DEEPSEEK, false, false},
    {"deepseek-coder", DEEPSEEK_CODER, false, false},
    {"falcon", FALCON, false, false},
    {"bloom", BLOOM, false, false},
    {"poro-chat", BLOOM, false, false},
    {"gpt3-finnish", BLOOM, false, false},
    {"viking", VIKING, false, false},
    {"bailingmoe", BAILING, false, false},
    {"bailingmoe2", BAILING, false, false},
    {"llada-moe", BAILING, false, false},
    {"seed-coder", SEED, false, false},
    {"superbpe", SUPERBPE, false, false},
    {"cohere2moe", COHERE2, false, false},
    {"kimi-k2", KIMI, false, false},
};

const gguf_pre *gguf_pre_at(size_t i)
{
    return i < COUNT_OF(PRE_TYPES) ? &PRE_TYPES[i] : NULL;
}

const gguf_pre *gguf_pre_find(str name)
{
    for (size_t i = 0; i < COUNT_OF(PRE_TYPES); i++) {
        if (str_equal_text(name, PRE_TYPES[i].name)) return &PRE_TYPES[i];
    }
    return NULL;
}
