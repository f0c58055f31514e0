#!/usr/bin/env python3
"""Writes tests/vision/resize.txt: images as Pillow resizes them.

    python3 tools/oracle/resize.py > tests/vision/resize.txt

A line: width, height, new width, new height, and the new pixels in hex; the test makes the old ones by the same rule.
"""
from PIL import Image

# Larger, smaller, one way and the other, by little, by much, and not at all in one direction.
CASES = [(7, 5, 16, 16), (40, 30, 16, 8), (33, 17, 32, 16), (5, 40, 12, 9), (64, 3, 8, 8), (1, 1, 4, 3), (9, 9, 9, 4),
         (12, 8, 5, 8), (200, 150, 6, 4), (2, 300, 4, 4)]


def pixel(x, y, c):
    """Noise, and edges from black to white, where a kernel overshoots."""
    if (x // 3 + y // 4) % 3 == 0:
        return 255 if c != 1 else 0
    return (x * x * 31 + y * 17 + c * 101 + x * y * 7) % 256


for width, height, to_width, to_height in CASES:
    data = bytes(pixel(x, y, c) for y in range(height) for x in range(width) for c in range(3))
    image = Image.frombytes("RGB", (width, height), data)
    resized = image.resize((to_width, to_height), Image.Resampling.BICUBIC)
    print(width, height, to_width, to_height, resized.tobytes().hex())
