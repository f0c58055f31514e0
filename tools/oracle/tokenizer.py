#!/usr/bin/env python3
"""Makes tests/tokenizer/fixtures/*.json: small tokenizers with texts, and what Hugging Face's `tokenizers`
makes of them.

    python3 tools/oracle/tokenizer.py tests/tokenizer/fixtures      # the committed fixtures
    python3 tools/oracle/tokenizer.py OUT 2000                      # that many texts each, to compare by hand
    python3 tools/oracle/tokenizer.py OUT 2000 a/tokenizer.json...  # the same for given files

A fixture is {"tokenizer": ..., "cases": [[text, ids, ids with specials, decoded, decoded with specials]]}. All
share the vocabulary and merges of model.json: "@" stands for them.
Where an added token is normalized, "decoded" is null: there `tokenizers` shows the normalized spelling of the
token, also of a special one that was not asked for; a token stands for what its entry says.
Needs the package tokenizers (made with 0.23.3, Python 3.11). Characters are from blocks that all tables involved
know. The same command gives the same files.
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Regex, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
HAN = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
       r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ODD = r"\p{N}{2}+|[[a-c][^\x{62}-\x{10ffff}]x&&[^b]&&[^\t ]]+|\w{,2}\b|\h+|\d?+|(?m:z.)|\u00e9|\W"
SEED = 20261129

WORDS = """the of and to in is that it was for on are as with his they at be this have from or one had by word but
not what all were we when your can said there use an each which she do how their if will up other about out many then
them these so some her would make like him into time has look two more write go see number no way could people my
than first water been call who oil its now find long down day did get come made may part""".split()

FRAGMENTS = ["'s", "'S", "'ll", "'LL", "'re", "don't", "I'VE", "'\u017f", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n",
             "\u00a0", "\u2003", "\u3000", "\u0085", "\u180e", "\u200b", "\u2028", "\x0b", "\x00", "\x1f", "0", "7",
             "42", "1234567", "\u0663", "\u00b2", "\u2167", "\u4e09", "Hello", "hello", "WORLD", "CamelCase", "x",
             "\u00e9", "e\u0301", "\u00c5", "A\u030a", "\u212b", "\ufb01", "\ufdfa", "\u0130", "I\u0307", "\u00df",
             "\u1e9e", "\u03a3", "\u03c2", "a\u0315\u0300\u05ae\u0062", "q\u0323\u0307", "q\u0307\u0323", "\u1100\u1161\u11a8",
             "\uac01", "\u0958", "\u0344", "\u4f60\u597d", "\u65e5\u672c\u8a9e", "\u304b\u3099", "\u30ab", "\u0639\u0631\u0628\u064a",
             "\u0e20\u0e32\u0e29\u0e32", "\U0001f419", "\U0001f9d1\u200d\U0001f680", "\U0001f1eb\U0001f1f7", "\u2603\ufe0f",
             ".", ",", "!", "?", "...", "--", "_", "$", "+=", "<|", "|>", "<", ">", "(", ")", "[", "]", "/", "\\", "\"",
             "`", "#", "@", "%", "&&", "~", "^", "<|end|>", "<|user|>", "<|End|>", "<mask>", " <mask> ", "<left>",
             "<right>", "<both>", "whole", "wholesome", "a whole b", "Caf\u00e9", "cafe\u0301", "\ufffd", "\ufeff",
             "\u2460", "\u24b6", "\u0301", "abc", "cab", "ABC", "deadbeef", "zz\n", "xyz", "N\u00b0", "\u1f88"]


def old_characters():
    blocks = [(0x1, 0xFFFD), (0x10400, 0x1044F), (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x20000, 0x2A6D6)]
    return [chr(c) for first, last in blocks for c in range(first, last + 1)
            if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co", "Cs")]


def texts(rng, n, characters, added):
    fragments = FRAGMENTS + added * 3
    result = ["", " ", "No\u00ebl \u00e0 l'\u0153uvre \u2014 007 \U0001f419\n\n\tfin",
              "\u4f60\u597d123\u4e16\u754c 456", "a" * 70, "ab" * 40, " " * 50 + "x", "\u0301\u0316" * 20, "!" * 40]
    while len(result) < n:
        parts = []
        for _ in range(rng.randint(1, 9)):
            pick = rng.random()
            if pick < 0.65:
                parts.append(rng.choice(fragments))
            elif pick < 0.8:
                parts.append(rng.choice(["", " "]) + rng.choice(WORDS))
            else:
                parts.extend(rng.choice(characters) for _ in range(rng.randint(1, 4)))
        result.append("".join(parts))
    return result[:n]


def model(**options):  # a vocabulary of 480
    trainer = trainers.BpeTrainer(vocab_size=480, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rng = random.Random(SEED)
    corpus = [" ".join(rng.choice(WORDS) for _ in range(40)) for _ in range(60)]
    corpus += ["na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \u304b\u3099 1000 2000 2026  \n\n\t  ..."] * 8
    corpus += ["aaaa aaaaaaaa !!!! !!!!!!!! don't I'll we're"] * 8
    tokenizer.train_from_iterator(corpus, trainer)
    state = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(m) for m in state["merges"]]
    return state["vocab"], merges, Tokenizer(models.BPE(vocab=state["vocab"], merges=merges, **options))


def with_parts(normalizer=None, pre=None, post=None, decoder=None, added=(), options=None):
    tokenizer = model(**(options or {}))[2]
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoder or decoders.ByteLevel()
    if added:
        tokenizer.add_tokens(list(added))
    if post is not None:
        tokenizer.post_processor = post(tokenizer) if callable(post) else post
    return tokenizer


def special(text, **options):
    return AddedToken(text, special=True, normalized=options.pop("normalized", False), **options)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


def sequence(*parts):
    return pre_tokenizers.Sequence(list(parts))


def byte_level(**options):
    options.setdefault("add_prefix_space", False)
    return pre_tokenizers.ByteLevel(**options)


def template(tokenizer):
    ids = {t: tokenizer.token_to_id(t) for t in ("<|user|>", "<|end|>")}
    return processors.TemplateProcessing(single="<|user|> $A <|end|> <|end|>", pair="$A $B:1",
                                         special_tokens=list(ids.items()))


def pipelines():
    chat = [special("<|end|>"), special("<|user|>")]
    plain = byte_level(use_regex=False)
    yield "gpt2", with_parts(pre=byte_level(), added=chat)
    yield "digits", with_parts(
        pre=sequence(pre_tokenizers.Digits(individual_digits=True), byte_level()),
        post=lambda t: processors.Sequence([processors.ByteLevel(), template(t)]), added=chat)
    yield "nfc-llama3", with_parts(normalizer=normalizers.NFC(), pre=sequence(split(Regex(LLAMA3)), plain), added=chat,
                                   options={"ignore_merges": True})
    yield "nfkd-lower", with_parts(
        normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()]),
        pre=byte_level(add_prefix_space=True),
        added=[special("<|End|>", normalized=True), AddedToken("WHOLE", single_word=True, normalized=True),
               AddedToken("Caf\u00e9", normalized=True), AddedToken("<mask>", normalized=False, lstrip=True)])
    yield "nfkc-gpt4o", with_parts(normalizer=normalizers.NFKC(), pre=sequence(split(Regex(GPT4O)), plain))
    yield "nfd-han", with_parts(normalizer=normalizers.NFD(), pre=sequence(split(Regex(HAN)), plain))
    yield "strips", with_parts(
        pre=byte_level(),
        added=[AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
               AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
               AddedToken("whole", single_word=True, normalized=False), AddedToken("  ", normalized=False),
               AddedToken("\n", rstrip=True, normalized=False), AddedToken("\t\n", lstrip=True, normalized=False),
               special("<|end|>"), special("<|"), AddedToken("<|user", normalized=False)])
    yield "odd", with_parts(pre=sequence(split(Regex(ODD)), plain))
    behaviors = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
    for i, behavior in enumerate(behaviors):
        yield "split-" + behavior, with_parts(pre=sequence(split(" ", behavior, i % 2 == 1), plain))
        yield "regex-" + behavior, with_parts(pre=sequence(split(Regex(r"\p{L}|\s*"), behavior, i % 2 == 0), plain))
    yield "digits-groups", with_parts(pre=sequence(pre_tokenizers.Digits(False), split("", "isolated"), plain))
    yield "whole", with_parts(pre=plain)
    yield "characters", with_parts(options={"unk_token": "?", "fuse_unk": True})
    yield "characters-each", with_parts(options={"unk_token": "?"})
    yield "characters-dropped", with_parts()


def fixture(tokenizer, rng, n, characters):
    state = json.loads(tokenizer.to_str())
    added = [t["content"] for t in state["added_tokens"]]
    normalized = any(t["normalized"] for t in state["added_tokens"])
    cases = []
    for text in texts(rng, n, characters, added):
        try:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
        except BaseException as panic:  # where strips overlap, `tokenizers` may slice backwards and give up
            if "bad split" not in str(panic):
                raise
            continue
        around = tokenizer.encode(text, add_special_tokens=True).ids
        shown = [tokenizer.decode(ids), tokenizer.decode(around, skip_special_tokens=False)]
        cases.append([text, ids, around] + ([None, None] if normalized else shown))
    return {"tokenizer": state, "cases": cases}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    out = pathlib.Path(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    characters = old_characters()
    made = [(path.replace("/", "_"), Tokenizer.from_file(path)) for path in sys.argv[3:]] or pipelines()
    for name, tokenizer in made:
        rng = random.Random(SEED)
        made_fixture = fixture(tokenizer, rng, n, characters)
        if not sys.argv[3:]:
            state = made_fixture["tokenizer"]["model"]
            write(out / "model.json", {"vocab": state["vocab"], "merges": [" ".join(m) for m in state["merges"]]})
            state.update(vocab="@", merges="@")
        write(out / (name + ".json"), made_fixture)


if __name__ == "__main__":
    main()
