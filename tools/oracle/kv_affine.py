"""kv_affine.py VECTORS - rows of the affine KV codecs as MLX's quantize makes them (tests/kv/affine.txt).

A line: codec, type of the row and its parameters, elements, the row as bytes, the record (codes,
scales, biases), and the first 8 elements decoded, as the bits of f32.
"""

import json
import sys


def stored(words, n_bytes):
    """Hexadecimal numbers -> their bytes, lowest first."""
    return "".join(int(word, 16).to_bytes(n_bytes, "little").hex() for word in words)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        vectors = json.load(file)["vectors"]
    for v in vectors:
        if v["bits"] not in (4, 8):
            continue
        size = 4 if v["type"] == "f32" else 2
        record = stored(v["words"], 4) + stored(v["scales"], size) + stored(v["biases"], size)
        name = f"affine{v['bits']}g{v['group']}"
        decoded = "".join(v["decoded_f32"])
        print(name, v["type"], len(v["x"]), stored(v["x"], size), record, decoded)


main()
