"""kv_affine_groups.py - hashes of 100,000 random groups for each affine KV codec and type, as MLX's
quantize makes them on its CPU device (tests/kv/affine_groups.txt).

A line: codec, type of the row and its parameters, rows, SHA-256 of the first tenth of them, SHA-256 of
all. A row has 1,024 elements; its bytes are codes, scales, biases. tests/kv/test_affine.c makes the same
rows from the same draws; every element is exact in its type.
"""

import hashlib

import mlx.core as mx
import numpy as np

GROUPS = 100_000
COLUMNS = 1024
BLOCK = 250  # rows
# significant bits, and whether numbers may be far from 1
TYPES = {"bf16": (mx.bfloat16, 8, True), "f16": (mx.float16, 11, False), "f32": (mx.float32, 24, True)}


def mix(z):
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def draw(seed, counters):
    """rng_u64 of src/base/rng.c"""
    return mix(mix(np.full(1, seed, np.uint64)) ^ mix(counters ^ np.uint64(0x7765667400000001)))


def elements(first, n, group, bits, far):
    """Rows first .. first + n - 1 in f32."""
    counters = np.arange(first * COLUMNS // 2, (first + n) * COLUMNS // 2, dtype=np.uint64)
    r = draw(1, counters)
    r = np.stack([r & np.uint64(0xFFFFFFFF), r >> np.uint64(32)], axis=-1).reshape(-1, group).astype(np.int64)
    g = draw(2, np.arange(first * COLUMNS // group, (first + n) * COLUMNS // group, dtype=np.uint64))
    field = lambda shift, count: ((g >> np.uint64(shift)) % np.uint64(count)).astype(np.int64)[:, None]
    kind = field(0, 8)
    m = r & ((1 << bits) - 1)
    down = (r >> 28) & 3
    minus = (r >> 31) == 1
    minus = np.where(kind == 4, False, np.where(kind == 5, True, minus))
    near = kind == 6
    m = np.where(near, field(32, 1 << (bits - 2)) * 4 + (r & 3), m)
    down = np.where(near, 0, down)
    minus = np.where(near, field(8, 2) == 1, minus)
    m = np.where((kind == 7) & (((r >> 24) & 3) != 0), 0, m)
    exponent = field(16, 20) - 10 + (field(24, 61) - 30 if far else 0) - bits - down
    x = np.ldexp(np.where(minus, -m, m).astype(np.float64), exponent)
    return x.astype(np.float32).reshape(n, COLUMNS)


def encoded(x, dtype, group, bits):
    codes, scales, biases = mx.quantize(mx.array(x).astype(dtype), group_size=group, bits=bits)
    parts = [codes, scales, biases]
    if dtype != mx.float32:
        parts[1:] = [part.view(mx.uint16) for part in parts[1:]]
    parts = [np.ascontiguousarray(np.array(part)).view(np.uint8).reshape(len(x), -1) for part in parts]
    return np.concatenate(parts, axis=1).tobytes()


def main():
    mx.set_default_device(mx.cpu)
    for bits in (4, 8):
        for group in (32, 64, 128):
            rows = GROUPS * group // COLUMNS
            for name, (dtype, significant, far) in TYPES.items():
                tenth = hashlib.sha256()
                whole = hashlib.sha256()
                for first in range(0, rows, BLOCK):
                    n = min(BLOCK, rows - first)
                    x = elements(first, n, group, significant, far)
                    data = encoded(x, dtype, group, bits)
                    whole.update(data)
                    tenth_rows = max(0, min(n, rows // 10 - first))
                    tenth.update(data[: len(data) // n * tenth_rows])
                print(f"affine{bits}g{group}", name, rows, tenth.hexdigest(), whole.hexdigest(), flush=True)


if __name__ == "__main__":
    main()
