#!/usr/bin/env python3
"""make_model.py - writes a llama-shaped checkpoint with random weights, for benchmarks and tests of size.

    tools/make_model.py DIR [--encoding bf16|affine4|affine8] [--layers N] [--width N] ...
    tools/make_model.py FILE.gguf --encoding q4_0 ...

The weights say nothing; their scale is that of a fresh model, so that sums stay sane. There is no
tokenizer: weft bench and weft logits --ids need none. Random blocks are repeated along a matrix at
odd strides, which is enough for a test of speed and makes a gigabyte in seconds.
"""

import argparse
import json
import math
import random
import struct
import sys
from pathlib import Path

GROUP = 64  # elements that share a scale in the affine encodings
DEVIATION = 0.02
BLOCK = 1 << 20  # bytes of random material, repeated
ALIGNMENT = 32  # of tensors in a GGUF file
UNIT = {"BF16": 2, "U32": 4}  # bytes an element
Q4_0_BYTES = 18  # of 32 elements

GGUF_U32, GGUF_F32, GGUF_TEXT = 4, 6, 8
GGML_F32, GGML_Q4_0 = 0, 2


def bf16(value):
    """The two bytes of a float rounded to nearest; no NaN comes here."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def repeated(block, n_bytes, tensor_i, unit):
    """n_bytes of the block again and again; each tensor starts elsewhere, at a multiple of unit."""
    start = tensor_i * 7919 % (len(block) // unit) * unit
    turned = block[start:] + block[:start]
    return (turned * (n_bytes // len(block) + 1))[:n_bytes]


class Material:
    """Random bytes and numbers from a seed, made once."""

    def __init__(self, seed):
        rng = random.Random(seed)
        # Lengths are odd in elements, so that rows of a power of two do not repeat each other.
        self.codes = rng.randbytes(BLOCK - 4)
        self.gauss = b"".join(bf16(rng.gauss(0, DEVIATION)) for _ in range((BLOCK >> 3) - 1))
        self.jitter = [rng.uniform(0.9, 1.1) for _ in range(4095)]

    def scales(self, step):
        return b"".join(bf16(step * j) for j in self.jitter)

    def q4_0(self, step):
        """Blocks of an f16 scale and 32 codes of four bits."""
        blocks = []
        for i, j in enumerate(self.jitter):
            blocks.append(struct.pack("<e", step * j))
            blocks.append(self.codes[16 * i : 16 * i + 16])
        return b"".join(blocks)


def code_step(bits):
    """The scale that gives evenly spread codes of so many bits the wanted deviation."""
    levels = 1 << bits
    return DEVIATION / ((levels * levels - 1) / 12) ** 0.5


# ---- what a model is made of


def matrices(o):
    """(name in safetensors, name in GGUF, rows, columns); columns None: a vector of ones."""
    head = o.width // o.heads
    yield "model.embed_tokens", "token_embd", o.vocab, o.width
    for i in range(o.layers):
        a, b = f"model.layers.{i}.", f"blk.{i}."
        yield a + "input_layernorm", b + "attn_norm", o.width, None
        yield a + "self_attn.q_proj", b + "attn_q", o.heads * head, o.width
        yield a + "self_attn.k_proj", b + "attn_k", o.kv_heads * head, o.width
        yield a + "self_attn.v_proj", b + "attn_v", o.kv_heads * head, o.width
        yield a + "self_attn.o_proj", b + "attn_output", o.width, o.heads * head
        yield a + "post_attention_layernorm", b + "ffn_norm", o.width, None
        yield a + "mlp.gate_proj", b + "ffn_gate", o.ff, o.width
        yield a + "mlp.up_proj", b + "ffn_up", o.ff, o.width
        yield a + "mlp.down_proj", b + "ffn_down", o.width, o.ff
    yield "model.norm", "output_norm", o.width, None
    # Not tied: a tied model of random weights repeats its last token.
    yield "lm_head", "output", o.vocab, o.width


# ---- safetensors, plain or MLX


def planes(name, rows, cols, bits):
    """(tensor name, dtype, shape, kind of material) of one matrix or vector."""
    if cols is None:
        return [(name + ".weight", "BF16", [rows], "ones")]
    if bits == 16:
        return [(name + ".weight", "BF16", [rows, cols], "gauss")]
    return [
        (name + ".weight", "U32", [rows, cols * bits // 32], "codes"),
        (name + ".scales", "BF16", [rows, cols // GROUP], "scales"),
        (name + ".biases", "BF16", [rows, cols // GROUP], "biases"),
    ]


def write_folder(o):
    bits = {"bf16": 16, "affine4": 4, "affine8": 8}[o.encoding]
    material = Material(o.seed)
    blocks = {"ones": bf16(1.0), "gauss": material.gauss, "codes": material.codes}
    if bits < 16:
        step = code_step(bits)
        blocks["scales"] = material.scales(step)
        blocks["biases"] = material.scales(-step * ((1 << bits) - 1) / 2)
    rows = [
        (i, *plane)
        for i, m in enumerate(matrices(o))
        for plane in planes(m[0], m[2], m[3], bits)
    ]
    header, at, sizes = {"__metadata__": {"format": "mlx" if bits < 16 else "pt"}}, 0, []
    for _, name, dtype, shape, _ in rows:
        n_bytes = UNIT[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n_bytes]}
        at += n_bytes
        sizes.append(n_bytes)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    o.out.mkdir(parents=True, exist_ok=True)
    with open(o.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for (i, _, dtype, _, kind), n_bytes in zip(rows, sizes):
            file.write(repeated(blocks[kind], n_bytes, i, UNIT[dtype]))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": o.width,
        "intermediate_size": o.ff,
        "num_hidden_layers": o.layers,
        "num_attention_heads": o.heads,
        "num_key_value_heads": o.kv_heads,
        "vocab_size": o.vocab,
        "max_position_embeddings": o.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    if bits < 16:
        config["quantization"] = {"group_size": GROUP, "bits": bits}
    (o.out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return at


# ---- GGUF


def gguf_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_metadata(o):
    prefix = "llama."
    yield "general.architecture", GGUF_TEXT, gguf_text("llama")
    for key, value in (
        ("block_count", o.layers),
        ("embedding_length", o.width),
        ("feed_forward_length", o.ff),
        ("attention.head_count", o.heads),
        ("attention.head_count_kv", o.kv_heads),
        ("context_length", o.context),
        ("vocab_size", o.vocab),
    ):
        yield prefix + key, GGUF_U32, struct.pack("<I", value)
    yield prefix + "attention.layer_norm_rms_epsilon", GGUF_F32, struct.pack("<f", 1e-5)
    yield prefix + "rope.freq_base", GGUF_F32, struct.pack("<f", 10000.0)


def write_gguf(o):
    material = Material(o.seed)
    q4_0 = material.q4_0(code_step(4))
    tensors, at, infos = [], 0, b""
    for _, name, rows, cols in matrices(o):
        dims = [rows] if cols is None else [cols, rows]  # innermost first
        n_bytes = rows * 4 if cols is None else rows * cols // 32 * Q4_0_BYTES
        kind = GGML_F32 if cols is None else GGML_Q4_0
        infos += gguf_text(name + ".weight") + struct.pack("<I", len(dims))
        infos += b"".join(struct.pack("<Q", dim) for dim in dims) + struct.pack("<IQ", kind, at)
        padded = n_bytes + -n_bytes % ALIGNMENT
        tensors.append((cols is None, n_bytes, padded - n_bytes))
        at += padded
    metadata = list(gguf_metadata(o))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, kind, value in metadata:
        head += gguf_text(key) + struct.pack("<I", kind) + value
    head += infos
    o.out.parent.mkdir(parents=True, exist_ok=True)
    with open(o.out, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT))
        for i, (is_vector, n_bytes, padding) in enumerate(tensors):
            block, unit = (struct.pack("<f", 1.0), 4) if is_vector else (q4_0, Q4_0_BYTES)
            file.write(repeated(block, n_bytes, i, unit) + b"\0" * padding)
    return at


def main():
    parser = argparse.ArgumentParser(description="Writes a llama-shaped model of random weights.")
    parser.add_argument("out", type=Path, help="a folder, or for q4_0 a .gguf file")
    parser.add_argument("--encoding", choices=("bf16", "affine4", "affine8", "q4_0"), default="bf16")
    for name, default in (
        ("layers", 16),
        ("width", 2048),
        ("heads", 32),
        ("kv-heads", 8),
        ("ff", 8192),
        ("vocab", 32000),
        ("context", 8192),
        ("seed", 1),
    ):
        parser.add_argument("--" + name, type=int, default=default)
    o = parser.parse_args()
    if min(o.layers, o.width, o.heads, o.kv_heads, o.ff, o.vocab, o.context) < 1:
        parser.error("numbers are at least 1")
    if o.width % o.heads != 0 or o.heads % o.kv_heads != 0:
        parser.error("heads divide the width, kv-heads the heads")
    if o.encoding != "bf16" and (o.width % GROUP != 0 or o.ff % GROUP != 0):
        parser.error(f"width and ff are multiples of {GROUP} in a quantized model")
    n_bytes = write_gguf(o) if o.encoding == "q4_0" else write_folder(o)
    print(f"{o.out}: {n_bytes} bytes of weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
