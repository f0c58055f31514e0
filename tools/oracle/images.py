#!/usr/bin/env python3
"""Writes tests/vision/images.txt: small image files, and their pixels as Transformers' load_image gets them from Pillow:
turned upright, then converted to RGB.

    python3 tools/oracle/images.py > tests/vision/images.txt

A line: name, the file in hex, width, height, the pixels in hex.
"""
import io

from PIL import Image, ImageOps


def picture(mode, width=9, height=7):
    channels = len(Image.new(mode, (1, 1)).getbands())
    data = bytes((x * 29 + y * 37 + c * 71 + x * y * 3) % 256
                 for y in range(height) for x in range(width) for c in range(channels))
    return Image.frombytes(mode, (width, height), data)


def palette():
    image = Image.frombytes("P", (9, 7), bytes((x * 3 + y) % 5 for y in range(7) for x in range(9)))
    image.putpalette([10, 200, 30, 40, 5, 250, 99, 98, 97, 255, 255, 0, 1, 2, 3])
    return image


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


CASES = [("jpeg", picture("RGB"), dict(format="JPEG", quality=90)),
         ("jpeg-444", picture("RGB"), dict(format="JPEG", quality=60, subsampling=0)),
         ("jpeg-grey", picture("L"), dict(format="JPEG")),
         ("jpeg-progressive", picture("RGB", 20, 3), dict(format="JPEG", progressive=True)),
         ("png", picture("RGB"), dict(format="PNG")),
         ("png-alpha", picture("RGBA"), dict(format="PNG")),
         ("png-grey-alpha", picture("LA"), dict(format="PNG")),
         ("png-bits", picture("L").convert("1"), dict(format="PNG")),
         ("png-palette", palette(), dict(format="PNG", transparency=1))]
CASES += [(f"jpeg-turned-{i}", picture("RGB"), dict(format="JPEG", quality=20, exif=turned(i))) for i in (2, 5, 6, 8)]
CASES += [(f"png-turned-{i}", picture("L", 5, 3), dict(format="PNG", exif=turned(i))) for i in (3, 4, 7)]

for name, image, how in CASES:
    file = io.BytesIO()
    image.save(file, **how)
    read = ImageOps.exif_transpose(Image.open(io.BytesIO(file.getvalue()))).convert("RGB")
    print(name, file.getvalue().hex(), *read.size, read.tobytes().hex())
