#!/usr/bin/env python3
"""Writes src/tensor/grids.c: the grids of ggml's IQ encodings, from the tables of the gguf package.

    pip install gguf numpy
    python3 tools/oracle/grids.py > src/tensor/grids.c

A point is packed as grids.h says: an index of a value a column, 2 bits each for eight columns, 4 for four.
"""
import numpy as np
from gguf import quants

NAMES = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"]

HEADER = """/* grids.c - written by tools/oracle/grids.py from the tables of the gguf Python package. */
#include "tensor/grids.h"
"""


def points(name):
    of = getattr(quants, name)
    of.init_grid()
    values = {float(value): i for i, value in enumerate(of.grid_map)}
    n_points, n_cols = of.grid_shape
    grid = np.asarray(of.grid).reshape(n_points, n_cols)
    bits = 16 // n_cols
    return [sum(values[float(value)] << bits * i for i, value in enumerate(point)) for point in grid]


def main():
    print(HEADER)
    print("// clang-format off")
    for name in NAMES:
        packed = points(name)
        print(f"const uint16_t GRID_{name}[{len(packed)}] = {{")
        for i in range(0, len(packed), 12):
            print("    " + " ".join(f"0x{point:04x}," for point in packed[i:i + 12]))
        print("};")
    print("// clang-format on")


if __name__ == "__main__":
    main()
