#!/usr/bin/env python3
"""Makes tests/tokenizer/fixtures/kinds/: small tokenizers of many makes, and a sum of what Hugging Face's
`tokenizers` makes of two thousand texts with each.

    python3 tools/oracle/kinds.py tests/tokenizer/fixtures/kinds

texts.json is the list of texts. NAME.model is a vocabulary of SentencePiece or tiktoken, with the sums of what
`sentencepiece` or `tokenizers` makes of the texts in NAME.json, and the pieces for a GGUF file.
Training is not repeatable, so the tokenizer of a fixture that is there is kept: remove a file to have it made anew. NAME.json is {"tokenizer": ..., "cases": "...", "decoded": "..."}: eight
hexadecimal digits a text, the FNV-1a sum of its ids, its ids with specials, and both decoded; then the sums of
decoded random ids (random_ids below). Sums keep the fixture small: to see what differs, print both sides.
Needs the packages tokenizers and sentencepiece (oracle/requirements.txt).
"""
import base64
import io
import json
import os
import pathlib
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import sentencepiece  # noqa: E402
from sentencepiece import sentencepiece_model_pb2 as spm  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers  # noqa: E402
from tokenizers import pre_tokenizers, processors, trainers  # noqa: E402

import tokenizer as base  # noqa: E402

N_TEXTS = 2000
N_DECODED = 300
MARK = "\u2581"
BYTES = ["<0x%02X>" % i for i in range(256)]
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
RULES = [("A\u030a", "\u00e5"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\u212b", "\u00c5"),
         ("\ufb01", "fi"), ("\u00b2", "2"), ("\u2460", "1"), ("\u2026", "..."), ("e\u0301", "\u00e9"), ("\u00ad", ""),
         ("\u200b", ""), ("abc", "x"), ("ab", "yz"), ("\u304b\u3099", "\u304c"), ("\u30ab", "\uff76"), ("\r\n", " ")]


def corpus():
    rng = random.Random(base.SEED)
    lines = [" ".join(rng.choice(base.WORDS) for _ in range(30)) for _ in range(60)]
    lines += ["na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \u304b\u3099 1000 2000 2026 ..."] * 6
    lines += ["aaaa aaaaaaaa !!!! don't I'll we're Hello hello WORLD (x) [y] <z> a_b a-b a.b"] * 6
    return lines


def bpe(trainer_options=None, **options):
    """Of characters; MARK is the space where the caller's texts have it."""
    options.setdefault("unk_token", "<unk>")
    fallback = options.get("byte_fallback", False)
    specials = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    affixes = {k: options[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in options}
    learner = Tokenizer(models.BPE(unk_token="<unk>", **affixes))
    learner.pre_tokenizer = pre_tokenizers.Metaspace() if fallback else pre_tokenizers.Whitespace()
    settings = dict(vocab_size=330 + len(specials), special_tokens=specials, show_progress=False)
    settings.update(affixes)
    settings.update(trainer_options or {})
    learner.train_from_iterator(corpus(), trainers.BpeTrainer(**settings))
    state = json.loads(learner.to_str())["model"]
    merges = [tuple(m) for m in state["merges"]]
    if options.pop("spaces", False):  # runs of spaces, as Llama's and Gemma's vocabularies have them
        vocab, two = state["vocab"], MARK * 2
        for run in (two, two * 2, two * 4):
            vocab[run] = len(vocab)
            merges.append((run[:len(run) // 2], run[:len(run) // 2]))
        merges.append((MARK, two)) if vocab.setdefault(MARK * 3, len(vocab)) else None
    return Tokenizer(models.BPE(vocab=state["vocab"], merges=merges, **options))


def byte_level_bpe(**options):
    suffix = {k: options[k] for k in ("end_of_word_suffix",) if k in options}
    learner = Tokenizer(models.BPE(**suffix))
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    settings = dict(vocab_size=500, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    if suffix:
        settings.update(suffix, vocab_size=800)
    learner.train_from_iterator(corpus(), trainers.BpeTrainer(**settings))
    state = json.loads(learner.to_str())["model"]
    return Tokenizer(models.BPE(vocab=state["vocab"], merges=[tuple(m) for m in state["merges"]], **options))


def unigram(byte_fallback=False, n=320):
    learner = Tokenizer(models.Unigram())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    learner.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=n, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    vocab = [tuple(piece) for piece in json.loads(learner.to_str())["model"]["vocab"]]
    if byte_fallback:
        vocab += [(b, 0.0) for b in BYTES]
    return Tokenizer(models.Unigram([(t, round(s, 6)) for t, s in vocab], unk_id=2, byte_fallback=byte_fallback))


def word_piece(**options):
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=330, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    vocab = json.loads(learner.to_str())["model"]["vocab"]
    return Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]", **options))


def charsmap(folder):
    rules = folder / "rules.tsv"
    rules.write_text("".join("\t".join(" ".join("%X" % ord(c) for c in side) for side in rule) + "\n"
                             for rule in RULES), encoding="utf-8")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=written, vocab_size=150, normalization_rule_tsv=str(rules),
        hard_vocab_limit=False, minloglevel=2)
    rules.unlink()
    model = spm.ModelProto()
    model.ParseFromString(written.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def template(t, before, after):
    single = " ".join(before + ["$A"] + after)
    return processors.TemplateProcessing(single=single, pair=single + " $B:1",
                                         special_tokens=[(x, t.token_to_id(x)) for x in dict.fromkeys(before + after)])


def made(t, normalizer=None, pre=None, decoder=None, around=None, added=()):
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    if decoder is not None:
        t.decoder = decoder
    for token in added:
        t.add_tokens([token]) if not token.special else t.add_special_tokens([token])
    if around is not None:
        t.post_processor = template(t, *around)
    return t


def llama_decoder():
    return decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(" ", 1, 0)])


def metaspace(scheme, split=True):
    return pre_tokenizers.Metaspace(MARK, prepend_scheme=scheme, split=split)


def chat(normalized=False):
    return [base.special(x, normalized=normalized) for x in ("<s>", "</s>", "<|user|>", "<|end|>")]


def bpe_pipelines():
    split = pre_tokenizers.Split
    yield "llama2", made(bpe(byte_fallback=True, fuse_unk=True, spaces=True),
                         normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None,
                         llama_decoder(), (["<s>"], []), chat())
    yield "llama2-first", made(bpe(byte_fallback=True, fuse_unk=True, spaces=True), None, metaspace("first", False),
                               llama_decoder(), (["<s>"], ["</s>"]), chat() + [AddedToken("<mask>", lstrip=True, rstrip=True)])
    yield "mistral", made(bpe(byte_fallback=True, spaces=True), None, metaspace("always"),
                          decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(MARK, "always")]),
                          (["<s>"], []), chat())
    yield "gemma", made(bpe(byte_fallback=True, fuse_unk=True, spaces=True), normalizers.Replace(" ", MARK),
                        split(" ", "merged_with_previous"),
                        decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]),
                        (["<s>"], []), chat() + [AddedToken("\n\n", normalized=False), AddedToken(MARK * 2, normalized=False),
                                                 AddedToken("<mask>", normalized=False)])
    yield "openai-gpt", made(bpe(end_of_word_suffix="</w>"),
                             normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer(),
                             decoders.BPEDecoder("</w>"))
    yield "clip", made(byte_level_bpe(end_of_word_suffix="</w>", unk_token="!"),
                       normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                             normalizers.Lowercase()]),
                       pre_tokenizers.Sequence([split(Regex(CLIP), "removed", True),
                                                pre_tokenizers.ByteLevel(add_prefix_space=False)]),
                       decoders.ByteLevel(), None, [base.special("<|End|>", normalized=True)])
    yield "prefixed", made(bpe(continuing_subword_prefix="##", fuse_unk=True),
                           normalizers.Sequence([normalizers.Nmt(), normalizers.Strip(True, True)]),
                           pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"),
                                                    pre_tokenizers.CharDelimiterSplit("-"),
                                                    pre_tokenizers.Whitespace()]),
                           decoders.WordPiece("##", False))
    partial = bpe(byte_fallback=True, spaces=True)
    state = json.loads(partial.to_str())
    for b in BYTES[0x80:0xE3]:
        state["model"]["vocab"]["~" + b] = state["model"]["vocab"].pop(b)
    yield "some-bytes", made(Tokenizer.from_str(json.dumps(state)), normalizers.Replace(Regex(r"[aeiou]\s"), "<" + MARK + ">"),
                             pre_tokenizers.Sequence([metaspace("never"), pre_tokenizers.Digits(True)]),
                             decoders.Sequence([decoders.Replace(Regex("[" + MARK + "n]"), "_"), decoders.ByteFallback(),
                                                decoders.Strip("t", 1, 1), decoders.Fuse(), decoders.Strip("_", 2, 2)]))
    yield "bytes-first", made(byte_level_bpe(), normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()]),
                              split(Regex(r"[\u0120]?\w+|[^\w]"), "isolated"), decoders.ByteLevel())
    yield "falcon", made(byte_level_bpe(), None,
                         pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False),
                                                  pre_tokenizers.Digits(False),
                                                  split(Regex("[0-9][0-9][0-9]"), "isolated")]), decoders.ByteLevel())
    yield "scripts", made(byte_level_bpe(), None,  # a space ahead of each piece shows every cut in the ids
                          pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.Digits(False),
                                                   pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]),
                          decoders.ByteLevel())
    roberta = byte_level_bpe()
    roberta.add_special_tokens([base.special(x) for x in ("<s>", "</s>")])
    roberta.post_processor = processors.RobertaProcessing(("</s>", roberta.token_to_id("</s>")),
                                                          ("<s>", roberta.token_to_id("<s>")))
    yield "roberta", made(roberta, None, pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel(), None,
                          [AddedToken("<mask>", lstrip=True, special=True)])


def other_pipelines(folder):
    mask = [base.special("[MASK]"), base.special("[CLS]"), base.special("[SEP]")]
    bert = made(word_piece(), normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), None, mask)
    bert.post_processor = processors.BertProcessing(("[SEP]", bert.token_to_id("[SEP]")), ("[CLS]", bert.token_to_id("[CLS]")))
    yield "bert", bert
    yield "bert-cased", made(word_piece(max_input_chars_per_word=9),
                             normalizers.BertNormalizer(clean_text=False, strip_accents=False, lowercase=False),
                             pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")]),
                             decoders.WordPiece("##", True), (["[CLS]"], ["[SEP]"]), mask)
    precompiled = normalizers.Precompiled(charsmap(folder))
    yield "t5", made(unigram(), normalizers.Sequence([precompiled, normalizers.Strip(False, True),
                                                      normalizers.Replace(Regex(" {2,}"), MARK)]), metaspace("always"),
                     decoders.Metaspace(MARK, "always"), ([], ["</s>"]), [base.special("</s>"), base.special("<|user|>", lstrip=True)])
    yield "xlm-r", made(unigram(), precompiled,
                        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace("first")]),
                        decoders.Metaspace(MARK, "first"), (["</s>"], ["</s>"]), [AddedToken("<mask>", lstrip=True)])
    yield "albert", made(unigram(), normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'),
                                                          normalizers.NFKD(), normalizers.StripAccents(),
                                                          normalizers.Lowercase(), precompiled]), metaspace("always"),
                         decoders.Metaspace(MARK, "never"), None, [AddedToken("Caf\u00e9", normalized=True, single_word=True)])
    yield "unigram-bytes", made(unigram(byte_fallback=True), normalizers.Replace(" ", MARK), None, llama_decoder())
    words = {w: i for i, w in enumerate(["[UNK]"] + base.WORDS + ["hello", ".", ",", "'", "s", "caf\u00e9", "..."])}
    yield "words", made(Tokenizer(models.WordLevel(words, unk_token="[UNK]")), normalizers.Lowercase(),
                        pre_tokenizers.Whitespace(), None, None, [AddedToken("whole", single_word=True)])
    letters = {c: i for i, c in enumerate(["<pad>", "<unk>", "|", "'"] + [chr(c) for c in range(97, 123)])}
    yield "ctc", made(Tokenizer(models.WordLevel(letters, unk_token="<unk>")),
                      normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "|")]),
                      pre_tokenizers.FixedLength(1), decoders.CTC())


def fnv(sum_, data):
    for byte in data:
        sum_ = (sum_ ^ byte) * 0x01000193 & 0xFFFFFFFF
    return sum_


def fnv_ids(sum_, ids):
    return fnv(sum_, b"".join(i.to_bytes(4, "little") for i in ids))


def random_ids(state, usable):
    """A linear congruential generator, so that the test makes the same."""
    result = []
    for _ in range(1 + state[0] % 9):
        state[0] = (state[0] * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        result.append(usable[(state[0] >> 33) % len(usable)])
    return result


def sum_or_none(call):
    """None where `tokenizers` gives up: strips that overlap."""
    try:
        return "%08x" % call()
    except BaseException as panic:
        if not any(text in str(panic) for text in ("slice index", "out of bounds", "bad split")):
            raise
        return "-" * 8


def case_sum(t, text, decodes):
    ids = t.encode(text, add_special_tokens=False).ids
    around = t.encode(text, add_special_tokens=True).ids
    result = fnv_ids(fnv_ids(0x811C9DC5, ids), around)
    if decodes:
        result = fnv(result, t.decode(ids).encode())
        result = fnv(result, t.decode(around, skip_special_tokens=False).encode())
    return result


def fixture(t, texts):
    state = json.loads(t.to_str())
    decodes = not any(a["normalized"] for a in state["added_tokens"])
    usable = [i for text, i in sorted(t.get_vocab().items(), key=lambda item: item[1]) if text not in BYTES]
    if not decodes:
        usable = []
    seed = [1]
    decoded = []
    for _ in range(N_DECODED if usable else 0):
        ids = random_ids(seed, usable)
        decoded.append(sum_or_none(lambda: fnv(0x811C9DC5, t.decode(ids, skip_special_tokens=False).encode())))
    cases = [sum_or_none(lambda: case_sum(t, text, decodes)) for text in texts]
    return {"tokenizer": state, "decodes": decodes, "usable": usable if usable and len(usable) != t.get_vocab_size() else [],
            "decoded": "".join(decoded), "cases": "".join(cases)}


def sp_model(**options):
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=written, hard_vocab_limit=False, minloglevel=2,
        character_coverage=0.995, **options)
    return written.getvalue()


def sp_models(folder):
    rules = folder / "rules.tsv"
    rules.write_text("".join("\t".join(" ".join("%X" % ord(c) for c in side) for side in rule) + "\n"
                             for rule in RULES), encoding="utf-8")
    plain = dict(normalization_rule_name="identity", remove_extra_whitespaces=False)
    yield "sp-bpe", sp_model(model_type="bpe", vocab_size=600, byte_fallback=True,
                             user_defined_symbols=["<mask>", MARK * 2, MARK * 4], **plain)
    yield "sp-bpe-unk", sp_model(model_type="bpe", vocab_size=300, normalization_rule_tsv=str(rules))
    yield "sp-unigram", sp_model(vocab_size=260, normalization_rule_tsv=str(rules), user_defined_symbols=["<mask>"])
    yield "sp-unigram-bytes", sp_model(vocab_size=500, byte_fallback=True, add_dummy_prefix=False, **plain)
    rules.unlink()


def sp_sum(sp, text):
    """Without the text where something unknown is shown in SentencePiece's own way."""
    if any(sp.id_to_piece(i) in text for i in range(sp.get_piece_size()) if sp.is_control(i) or sp.is_unknown(i)):
        return "-" * 8
    ids = sp.encode(text)
    result = fnv_ids(0x811C9DC5, ids)
    return "%08x" % (result if sp.unk_id() in ids else fnv(result, sp.decode(ids).encode()))


def write_sp(out, name, model, texts):
    path = out / (name + ".model")
    if path.exists():
        model = path.read_bytes()
    path.write_bytes(model)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    proto = spm.ModelProto()
    proto.ParseFromString(model)
    base.write(out / (name + ".json"), {
        "kind": "t5" if proto.trainer_spec.model_type == 1 else "llama", "unknown": sp.unk_id(),
        "prefix": proto.normalizer_spec.add_dummy_prefix, "one_space": proto.normalizer_spec.remove_extra_whitespaces,
        "charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode(),
        "pieces": [[p.piece, p.score, p.type] for p in proto.pieces],
        "cases": "".join(sp_sum(sp, text) for text in texts)})


def write_tiktoken(out, name, texts):
    model = byte_level_bpe(ignore_merges=True)
    t = made(model, None,
             pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(base.LLAMA3), "isolated"),
                                      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
             decoders.ByteLevel())
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    odd = [b for b in range(256) if b not in plain]
    alphabet = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(odd)}
    lines = [base64.b64encode(bytes(alphabet[c] for c in text)).decode() + " %d\n" % i
             for text, i in sorted(t.get_vocab().items(), key=lambda item: item[1])]
    (out / (name + ".model")).write_text("".join(lines))
    sums = [fnv(fnv_ids(0x811C9DC5, ids), t.decode(ids).encode()) for ids in (t.encode(text).ids for text in texts)]
    base.write(out / (name + ".json"), {"kind": "", "unknown": -1, "cases": "".join("%08x" % s for s in sums)})


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    added = ["<s>", "</s>", "[MASK]", "[SEP]", "\u2581\u2581", "\n\n", "\u2581", "##a", "</w>", "<0x41>", "   ", "\u4e00\u4e8c"]
    texts = base.texts(random.Random(base.SEED + 1), N_TEXTS, base.old_characters(), added)
    base.write(out / "texts.json", texts)
    for name, t in list(bpe_pipelines()) + list(other_pipelines(out)):
        path = out / (name + ".json")
        if path.exists():
            t = Tokenizer.from_str(json.dumps(json.loads(path.read_text(encoding="utf-8"))["tokenizer"]))
        base.write(path, fixture(t, texts))
    for name, model in sp_models(out):
        write_sp(out, name, model, texts)
    write_tiktoken(out, "tiktoken", texts)


if __name__ == "__main__":
    main()
