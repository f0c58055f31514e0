#!/usr/bin/env python3
"""Writes src/tokenizer/char_ranges.h: the characters that Hugging Face's `tokenizers` takes for marks, punctuation
and so on, and their scripts, found by asking it about each. Its tables are of several versions of Unicode, so no
library has them all.

    python3 tools/oracle/char_ranges.py >src/tokenizer/char_ranges.h
"""
from tokenizers import normalizers, pre_tokenizers

CLASSES = [
    ("WORD", "part of a word to 'Whitespace'"),
    ("NUMERIC", "set apart by 'Digits'"),
    ("PUNCTUATION", "set apart by 'BertPreTokenizer' and 'Punctuation'"),
    ("MARK", "dropped by 'StripAccents'"),
    ("NONSPACING", "dropped by 'BertNormalizer' with strip_accents"),
    ("CONTROL", "dropped by 'BertNormalizer' with clean_text; U+0000 and U+FFFD as well"),
]


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options})


def apart(how):
    return lambda c: len(how.pre_tokenize_str("a" + c + "a")) == 3


def dropped(how):
    return lambda c: how.normalize_str(c) == ""


def scripts():
    """(first character, number) of each run of one script, up to the next; 0 joins any script."""
    split = pre_tokenizers.UnicodeScripts().pre_tokenize_str
    samples, runs = [], [(0, -1)]
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        last = runs[-1][1]
        if not split(chr(c)):
            number = 0
        elif last > 0 and len(split(samples[last - 1] + chr(c))) == 1:
            continue
        else:
            same = (i for i, sample in enumerate(samples, 1) if len(split(sample + chr(c))) == 1)
            number = next(same, len(samples) + 1)
            if number > len(samples):
                samples.append(chr(c))
        if number != last:
            runs.append((c, number))
    return runs[1:]


def print_table(name, what, rows):
    print("\n/* %s. */\nstatic const uint32_t %s[][2] = {" % (what[0].upper() + what[1:], name))
    for i in range(0, len(rows), 4):
        print("    " + " ".join("{0x%x, 0x%x}," % tuple(r) for r in rows[i:i + 4]))
    print("};")


def main():
    whitespace = pre_tokenizers.Whitespace()
    found = {
        "WORD": lambda c: len(whitespace.pre_tokenize_str("a" + c + "a")) == 1,
        "NUMERIC": apart(pre_tokenizers.Digits()),
        "PUNCTUATION": apart(pre_tokenizers.Punctuation()),
        "MARK": dropped(normalizers.StripAccents()),
        "NONSPACING": dropped(bert(strip_accents=True)),
        "CONTROL": dropped(bert(clean_text=True)),
    }
    print("/* char_ranges.h - first and last characters of ranges, written by tools/oracle/char_ranges.py. */")
    print("#ifndef TOKENIZER_CHAR_RANGES_H\n#define TOKENIZER_CHAR_RANGES_H\n\n#include <stdint.h>\n\n// clang-format off")
    for name, what in CLASSES:
        ranges = []
        for c in range(1, 0x110000):
            if 0xD800 <= c < 0xE000 or c == 0xFFFD or not found[name](chr(c)):
                continue
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
        print_table(name, what, ranges)
    print_table("SCRIPTS", "first characters of runs of a script, and its number; 0 joins any script", scripts())
    print("// clang-format on\n\n#endif")


if __name__ == "__main__":
    main()
