#!/usr/bin/env python3
"""embed_page.py - the files of the chat page as C.

    tools/embed_page.py FOLDER OUT.c

Writes the table of src/server/page.h: every file of FOLDER, the page itself first. Blanks at the start of
lines, and lines that are nothing but a comment, are left out: a seventh of the bytes. So no text over several
lines may stand in a script; the tests of the page run on what this makes of it.
"""

import re
import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"


def shorten(name, text):
    lines = [line.strip() for line in text.split("\n")]
    if name.endswith(".js"):
        lines = [line for line in lines if not line.startswith("//")]
    text = "\n".join(line for line in lines if line) + "\n"
    if name.endswith((".js", ".css")):
        text = re.sub(r"^/\*.*?\*/\n", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def page_files(folder):
    """[(path, type, bytes)], the page itself first."""
    found = []
    for path in sorted(folder.iterdir(), key=lambda x: (x.name != INDEX, x.name)):
        kind = TYPES.get(path.suffix)
        if kind is None:
            raise SystemExit(f"embed_page.py: {path.name} is of no kind that is served")
        address = "/" if path.name == INDEX else f"/page/{path.name}"
        data = shorten(path.name, path.read_text(encoding="utf-8")).encode()
        found.append((address, kind, data))
    if not found or found[0][0] != "/":
        raise SystemExit(f"embed_page.py: there is no {INDEX} in {folder}")
    return found


def rows_of(data):
    return "\n".join(
        "    " + ", ".join(str(byte) for byte in data[i : i + 24]) + ","
        for i in range(0, len(data), 24)
    )


def c_text(files):
    parts = ['/* Written by tools/embed_page.py. */\n#include "server/page.h"\n']
    for i, (_, _, data) in enumerate(files):
        parts.append(f"static const unsigned char file_{i}[] = {{\n{rows_of(data)}\n}};\n")
    table = "\n".join(
        f'    {{"{path}", "{kind}", file_{i}, sizeof file_{i}}},'
        for i, (path, kind, _) in enumerate(files)
    )
    parts.append(f"const page_file page_files[] = {{\n{table}\n}};\n")
    parts.append("const uint32_t n_page_files = sizeof page_files / sizeof page_files[0];")
    return "\n".join(parts) + "\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    out = Path(sys.argv[2])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(c_text(page_files(Path(sys.argv[1]))), encoding="utf-8")


if __name__ == "__main__":
    main()
