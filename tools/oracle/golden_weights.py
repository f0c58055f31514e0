"""golden_weights.py - weights that follow from a name and a seed, and safetensors files.

weights.json of a golden lists what its model.safetensors holds:

    {"seed": 3, "reference": "text", ..., "tensors": [
      {"name": "model.norm.weight", "dtype": "BF16", "shape": [64], "mean": 1.01, "std": 0.1},
      {"name": "order", "dtype": "I64", "shape": [4], "values": [2, 0, 3, 1]}]}

Number i of a tensor is mean + std * sqrt(3) * (2 u - 1) in double, rounded to f32 and that to the
dtype, where u has the upper 24 bits of

    mix(mix(fnv1a(name) ^ mix(seed)) + (i + 1) * 0x9e3779b97f4a7c15)

and mix is the last part of splitmix64. tests/golden/weights.c computes the same bits.
"""

import json
import struct

import numpy as np

SQRT3 = 1.7320508075688772
GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def mix(z):
    """Of a Python integer or an array of uint64."""
    if isinstance(z, int):
        z ^= z >> 30
        z = z * 0xBF58476D1CE4E5B9 & MASK
        z ^= z >> 27
        z = z * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)
    z = z ^ (z >> np.uint64(30))
    z = z * np.uint64(0xBF58476D1CE4E5B9)
    z = z ^ (z >> np.uint64(27))
    z = z * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a(name):
    hash64 = 0xCBF29CE484222325
    for byte in name.encode("utf-8"):
        hash64 = (hash64 ^ byte) * 0x100000001B3 & MASK
    return hash64


def uniform(name, seed, n):
    """[n] numbers of [0, 1), of 24 bits."""
    key = mix(fnv1a(name) ^ mix(seed))
    with np.errstate(over="ignore"):
        steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(key)
        return (mix(steps) >> np.uint64(40)).astype(np.float64) * 2.0**-24


def ids(name, seed, n, n_vocab):
    """[n] token ids below n_vocab."""
    return (uniform(name, seed, n) * n_vocab).astype(np.int32)


def to_bf16(values):
    """float32 -> the bits of bf16, to the nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def tensor(row, seed):
    """What a row of weights.json stands for, as stored: bf16 as uint16."""
    n = int(np.prod(row["shape"], dtype=np.int64))
    if "values" in row:
        values = np.array(row["values"], dtype={"I64": np.int64, "I32": np.int32}[row["dtype"]])
    else:
        width = row["std"] * SQRT3
        values = row["mean"] + width * (2.0 * uniform(row["name"], seed, n) - 1.0)
        values = values.astype(np.float32)
        if row["dtype"] == "BF16":
            values = to_bf16(values)
        elif row["dtype"] != "F32":
            raise ValueError(f"{row['name']}: no dtype {row['dtype']}")
    return values.reshape(row["shape"])


def tensors(weights):
    """name -> (dtype, values) of a whole weights.json."""
    return {row["name"]: (row["dtype"], tensor(row, weights["seed"])) for row in weights["tensors"]}


NUMBERS = {
    "BF16": np.uint16, "F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8,
}  # fmt: skip


def read(path):
    """name -> (dtype, values) of a safetensors file."""
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    found = {}
    for name, row in header.items():
        first, last = (8 + n + at for at in row["data_offsets"])
        values = np.frombuffer(data[first:last], NUMBERS[row["dtype"]])
        found[name] = (row["dtype"], values.reshape(row["shape"]))
    return found


def write(path, rows):
    """The other way; values lie in the order of the rows."""
    header = {}
    at = 0
    for name, (dtype, values) in rows.items():
        assert values.dtype == NUMBERS[dtype], name
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(values).tobytes() for _, values in rows.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def rounded(x):
    """Four digits are enough for a statistic."""
    return float(f"{x:.4g}")


def describe(rows):
    """The tensors of weights.json with the statistics of those given."""
    found = []
    for name, (dtype, values) in rows.items():
        row = {"name": name, "dtype": dtype, "shape": list(values.shape)}
        if dtype in ("I32", "I64"):
            row["values"] = values.ravel().tolist()
        else:
            numbers = (from_bf16(values) if dtype == "BF16" else values).astype(np.float64)
            row["mean"] = rounded(numbers.mean())
            row["std"] = rounded(numbers.std())
        found.append(row)
    return found


def dump(path, weights):
    """weights.json, one tensor a line."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in weights.items() if key != "tensors"]
    body = ",\n".join(f"  {json.dumps(row)}" for row in weights["tensors"])
    path.write_text("{\n" + ",\n".join(head) + ',\n "tensors": [\n' + body + "\n ]\n}\n", encoding="utf-8")
