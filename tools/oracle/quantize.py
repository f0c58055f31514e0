"""quantize.py - hashes of rows that MLX's quantize has made on its CPU device, for every mode, number of
bits and group of its (tests/convert/quantize.txt).

A line: mode, bits, group, type of the row (and of affine parameters), rows, SHA-256 of codes, scales and
biases of all rows, one row behind the other. The rows are those of kv_affine_groups.py, which
tests/support/drawn_rows.c draws alike; floating modes get none far from 1, since MLX loses there what is larger
than its largest scale allows (and lets the exponent of the least scales wrap around).
"""

import hashlib

import mlx.core as mx
import numpy as np
from kv_affine_groups import TYPES, elements

ROWS = 400
FORMS = [("affine", bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
FORMS += [("mxfp4", 4, 32), ("nvfp4", 4, 16), ("mxfp8", 8, 32)]


def encoded(x, dtype, mode, bits, group):
    parts = mx.quantize(mx.array(x).astype(dtype), group_size=group, bits=bits, mode=mode)
    parts = [part.view(mx.uint16) if part.dtype in (mx.bfloat16, mx.float16) else part for part in parts]
    parts = [np.ascontiguousarray(np.array(part)).view(np.uint8).reshape(len(x), -1) for part in parts]
    return np.concatenate(parts, axis=1).tobytes()


def main():
    mx.set_default_device(mx.cpu)
    for mode, bits, group in FORMS:
        for name, (dtype, significant, far) in TYPES.items():
            x = elements(0, ROWS, max(group, 32), significant, far and mode == "affine")
            digest = hashlib.sha256(encoded(x, dtype, mode, bits, group)).hexdigest()
            print(mode, bits, group, name, ROWS, digest, flush=True)


if __name__ == "__main__":
    main()
