#!/usr/bin/env python3
"""Writes tests/tensor/encodings.txt: rows of every encoding with what they decode to.

    pip install gguf numpy mlx[cpu]
    python3 tools/oracle/encodings.py MLX_VECTORS.json > tests/tensor/encodings.txt

ggml blocks are random bytes, so every code and packed scale occurs, with f16 scales made finite; half of
the blocks get small normal scales and one a subnormal. The expected bits are those of gguf's dequantize.
MLX_VECTORS.json holds quantized rows made by mlx.core.quantize, with their first eight values as
mlx.core.dequantize gives them for f32 parameters. All values of such a row are computed here in f32,
product and sum rounded once each, and checked against those eight. Floating codes with a plane of scales are
random, and what mlx.core.dequantize and from_fp8 make of them; a factor of the tensor, f32, stands in the third
plane and is multiplied as modelopt does: code * (scale * factor).

Lines are `name bits group n_cols planes... values`: planes and values in hex, a value as the eight digits of its
f32 bits, '-' for an absent plane.
"""
import json
import sys

import mlx.core as mx
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

SCALES = {  # offsets of f16 numbers in a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
LATER_SCALES = {  # the same, with numbers of their own: rows are only added at the end of the file
    "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64],
    "MXFP4": [], "NVFP4": [],
}
PLANES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}  # group, bits
PLAIN = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def hex_values(values):
    return "".join(f"{bits:08x}" for bits in np.ascontiguousarray(values, "<f4").view("<u4").ravel())


def place_scale(name, block, block_i, rng):
    """What is no f16 number in one place: IQ1_M's four bits in each of four words, and exponents."""
    if name == "IQ1_M":
        bits = int(np.array([rng.normal() * 0.01], "<f2").view("<u2")[0])
        for i in range(4):
            block[49 + 2 * i] = block[49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
    elif name == "MXFP4":
        block[0] = [0, 1, 2, 127, 120, 252][block_i]
    elif name == "NVFP4" and block_i == 0:
        block[:4] = [0, 0x7F, 0xFF, 0x85]


def ggml_row(name, n_blocks, rng):
    kind = GGMLQuantizationType[name]
    cols, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (n_blocks, size), dtype=np.uint8)
    for block_i, block in enumerate(blocks):
        place_scale(name, block, block_i, rng)
        for offset in {**SCALES, **LATER_SCALES}[name]:
            scale = np.float16(rng.normal() * (0.01 if block_i % 2 else 100))
            if block_i == 0:
                scale = np.float16(3e-6)
            block[offset:offset + 2] = np.array([scale]).view(np.uint8)
    values = dequantize(blocks.reshape(1, -1), kind)
    assert np.isfinite(values).all()
    print(name.lower(), 0, 0, n_blocks * cols, blocks.tobytes().hex(), "-", "-", hex_values(values))


def plain_row(name, rng):
    """Every exponent, both signs, subnormals and infinities."""
    if name == "F32":
        bits = rng.integers(0, 2**32, 24, dtype=np.uint32)
        bits[:4] = [0, 0x80000000, 1, 0x7F800000]
        raw = bits.astype("<u4")
    else:
        bits = rng.integers(0, 2**16, 72, dtype=np.uint16)
        bits[:6] = [0, 0x8000, 1, 0x03FF, 0x7C00 if name == "F16" else 0x7F80, 0xFBFF]
        raw = bits.astype("<u2")
    with np.errstate(invalid="ignore"):
        values = dequantize(raw.view(np.uint8).reshape(1, -1), GGMLQuantizationType[name])
    keep = ~np.isnan(values[0])
    raw, values = raw[keep], values[0][keep]
    print(name.lower(), 0, 0, len(raw), raw.tobytes().hex(), "-", "-", hex_values(values))


def parameters(vector, field):
    """Bytes as a file holds them, and f32 values."""
    raw = [int(text, 16) for text in vector[field]]
    if vector["type"] == "f32":
        stored = np.array(raw, "<u4")
        return stored.tobytes(), stored.view("<f4").astype(np.float32)
    stored = np.array(raw, "<u2")
    if vector["type"] == "f16":
        return stored.tobytes(), stored.view("<f2").astype(np.float32)
    return stored.tobytes(), (stored.astype(np.uint32) << 16).view(np.float32)


def affine_row(vector):
    bits, group = vector["bits"], vector["group"]
    words = np.array([int(word, 16) for word in vector["words"]], "<u4")
    stream = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, bits)
    codes = (stream.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(axis=1).astype(np.float32)
    scale_bytes, scales = parameters(vector, "scales")
    bias_bytes, biases = parameters(vector, "biases")
    values = codes * np.repeat(scales, group) + np.repeat(biases, group)
    expected = np.array([int(text, 16) for text in vector["decoded_f32"]], np.uint32)
    assert values.dtype == np.float32 and (values.view(np.uint32)[:8] == expected).all(), vector
    print(f"affine_{vector['type']}", bits, group, len(values), words.tobytes().hex(), scale_bytes.hex(),
          bias_bytes.hex(), hex_values(values))


def planes_row(mode, rng, factor=None):
    """Every code, and scales without NaN or overflow; the first ones are the least there are."""
    group, bits = PLANES[mode]
    n_groups = 512 // group
    words = rng.integers(0, 2**32, (1, 512 * bits // 32), dtype=np.uint32)
    scales = rng.integers(1, 127 if mode == "nvfp4" else 240, (1, n_groups), dtype=np.uint8)
    scales[0, :2] = [0, 1]
    if mode == "nvfp4":
        scales[0, 2:4] = [0x80 | 9, 126]
    if bits == 8:
        codes = words.view(np.uint8)
        codes[codes & 127 == 127] = 0x3C
        codes[0, :256] = [code if code & 127 != 127 else 0 for code in range(256)]
    values = mx.dequantize(mx.array(words), mx.array(scales), group_size=group, bits=bits, mode=mode, dtype=mx.float32)
    values = np.array(values)[0]
    third = "-"
    if factor is not None:
        factor = np.float32(factor)
        one = mx.dequantize(mx.array(words), mx.array(np.full_like(scales, 0x38)), group_size=group, bits=bits,
                            mode=mode, dtype=mx.float32)
        real = np.array(mx.from_fp8(mx.array(scales), dtype=mx.float32))[0]
        values = np.array(one)[0] * np.repeat(real * factor, group)
        third = factor.tobytes().hex()
    assert np.isfinite(values).all() and values.dtype == np.float32
    print(mode + "_planes", bits, group, len(values), words.tobytes().hex(), scales.tobytes().hex(), third,
          hex_values(values))


def fp8_row():
    """All numbers there are."""
    codes = np.array([code for code in range(256) if code & 127 != 127] + [0], np.uint8)
    values = np.array(mx.from_fp8(mx.array(codes), dtype=mx.float32))
    print("f8_e4m3", 0, 0, len(codes), codes.tobytes().hex(), "-", "-", hex_values(values))


def later_rows():
    rng = np.random.default_rng(20270811)
    mx.set_default_device(mx.cpu)
    for name in LATER_SCALES:
        ggml_row(name, 6 if GGML_QUANT_SIZES[GGMLQuantizationType[name]][0] < 256 else 3, rng)
    fp8_row()
    for mode in PLANES:
        planes_row(mode, rng)
    planes_row("nvfp4", rng, 0.0123)


def main():
    rng = np.random.default_rng(20261129)
    for name in PLAIN:
        plain_row(name, rng)
    for name in SCALES:
        ggml_row(name, 3 if name.endswith("_K") else 6, rng)
    with open(sys.argv[1], encoding="utf-8") as file:
        for vector in json.load(file)["vectors"]:
            affine_row(vector)
    later_rows()


if __name__ == "__main__":
    main()
