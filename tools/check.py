#!/usr/bin/env python3
"""check.py - the rules of this tree that a compiler does not know.

    tools/check.py --build build/release [--rule NAME]... [--root DIR]

layers   src/LAYERS: order of the layers, #include lines, symbols of the objects
globals  no mutable global and no thread-local variable in a library object
calls    the library neither prints, exits nor reads the environment; malloc in base/mem.c only
exports  both libraries export the functions of weft.h and nothing else
tables   a row of a .def has its file, and a file of a plug-in folder has its row
shape    sizes of files and functions, columns, include guards, unfinished work

Objects are those that compile_commands.json names: a glob would also find the stale object of a
deleted file. A rule that looked at nothing has failed. An exception is one line before what it
excuses (for a whole file: in its first ten lines), and is counted:

    // NOLINTNEXTLINE(check-NAME): reason
"""

import argparse
import bisect
import functools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCE_SUFFIXES = {".c", ".h", ".cu", ".def"}
PROGRAM_LAYERS = {"server", "cli", "hub"}  # not in the library
WEFT_CALLERS = {"api", "server", "cli"}

MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 70
MAX_KERNEL_LINES = 150
MAX_PARAMETERS = 8
MAX_LEVELS = 4
MAX_COLUMNS = 100
FILE_HEADER_LINES = 10  # where an exception for a whole file may stand

ENDS_PROCESS = "exit _exit _Exit quick_exit abort __assert_fail raise kill"
PRINTS = "printf vprintf puts putchar perror stdout stderr"
HOST_STATE = (
    "getenv secure_getenv setenv putenv signal sigaction setlocale rand srand random srandom"
)
UNBOUNDED = "strcpy strcat stpcpy sprintf vsprintf gets strtok"
BY_LOCALE = "atof strtod strtof strtold"
LIBRARY_FORBIDDEN = set(f"{ENDS_PROCESS} {PRINTS} {HOST_STATE} {UNBOUNDED} {BY_LOCALE}".split())
MALLOC_FAMILY = set(
    "malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc pvalloc"
    " strdup strndup asprintf vasprintf getline getdelim open_memstream".split()
)
MALLOC_HOME = "src/base/mem.c"

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
EXCEPTION = re.compile(r"NOLINTNEXTLINE\(([^)]*)\)(:\s*\S)?")
COMMENT_OR_LITERAL = re.compile(
    r'//(?:[^\n\\]|\\.)*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|' r"'(?:[^'\\\n]|\\.)*'", re.DOTALL
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
TABLE_ROW = re.compile(r"^[ \t]*[A-Z][A-Z0-9_]*\([ \t]*(\w+)", re.MULTILINE)
NVCC_SYMBOL = re.compile(r"^(_ZL\d+)?_*(nv|cuda|fat)")


class Finding(NamedTuple):
    path: str  # from the root
    line: int  # 1 also stands for the whole file
    text: str


class Symbol(NamedTuple):
    name: str
    kind: str  # as nm prints it


class CheckError(Exception):
    """The tree or the build folder cannot be checked at all."""


def blank(text: str, keep_strings: bool) -> str:
    """Spaces for comments (and literals), so that positions and line numbers stay."""

    def spaces(match):
        token = match.group()
        if keep_strings and token[0] in "\"'":
            return token
        return re.sub(r"[^\n]", " ", token)

    return COMMENT_OR_LITERAL.sub(spaces, text)


def run_tool(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CheckError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise CheckError(f"{' '.join(command[:3])} ...: {done.stderr.strip()}")
    return done.stdout


class Tree:
    """The sources under root and the objects that build made of them, read once."""

    def __init__(self, root: Path, build: Path):
        self.root = root
        self.build = build
        self.missing_objects: list[Finding] = []

    @functools.cache
    def files(self, *folders: str) -> list[Path]:
        return sorted(
            path
            for folder in folders
            for path in (self.root / folder).rglob("*")
            if path.suffix in SOURCE_SUFFIXES and path.is_file()
        )

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    @functools.cache
    def text(self, path: Path) -> str:
        return path.read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def code(self, path: Path, keep_strings: bool = False) -> str:
        return blank(self.text(path), keep_strings)

    @functools.cache
    def includes(self, path: Path) -> list[tuple[int, str]]:
        code = self.code(path, True)
        return [(code.count("\n", 0, m.start()) + 1, m.group(1)) for m in INCLUDE.finditer(code)]

    def mentions(self, path: Path, word: str) -> list[int]:
        """Lines of code with the word; line 1 when a macro or a header brought it."""
        code = self.code(path)
        found = re.finditer(rf"\b{re.escape(word)}\b", code)
        return sorted({code.count("\n", 0, m.start()) + 1 for m in found}) or [1]

    @functools.cached_property
    def objects(self) -> list[tuple[Path, Path]]:
        """(source, object) of everything compiled from src/."""
        database = self.build / "compile_commands.json"
        if not database.is_file():
            raise CheckError(f"no {database}: build first")
        pairs = set()
        unseen = {path for path in self.files("src") if path.suffix == ".c"}
        for entry in json.loads(database.read_text(encoding="utf-8")):
            folder = Path(entry["directory"])
            source = (folder / entry["file"]).resolve()
            words = entry.get("arguments") or shlex.split(entry["command"])
            if not source.is_relative_to(self.root / "src") or "-o" not in words:
                continue
            unseen.discard(source)
            target = (folder / words[words.index("-o") + 1]).resolve()
            if target.is_file():
                pairs.add((source, target))
            else:
                self.missing_objects.append(Finding(self.name(source), 1, f"no object {target}"))
        self.missing_objects += [Finding(self.name(path), 1, "is not compiled") for path in unseen]
        return sorted(pairs)

    @functools.cache
    def symbols(self, target: Path) -> list[Symbol]:
        lines = run_tool("nm", "-g", "-P", str(target)).splitlines()
        return [Symbol(*line.split()[:2]) for line in lines if len(line.split()) >= 2]

    def library_objects(self) -> list[tuple[Path, Path]]:
        src = self.root / "src"
        return [
            (source, target)
            for source, target in self.objects
            if source.relative_to(src).parts[0] not in PROGRAM_LAYERS
        ]


# ---- layers


class Layers:
    """src/LAYERS: 'layer: layers it may use', '!header: folders that may include it'."""

    def __init__(self, tree: Tree):
        self.allowed: dict[str, set[str]] = {}
        self.headers: dict[str, set[str]] = {}
        self.findings: list[Finding] = []
        path = tree.root / "src" / "LAYERS"
        if not path.is_file():
            raise CheckError(f"no {path}")
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            name, colon, rest = line.partition(":")
            if not colon:
                self.findings.append(Finding("src/LAYERS", number, f"no colon in '{line}'"))
            elif name.startswith("!"):
                self.headers[name[1:].strip()] = set(rest.split())
            else:
                self.add(number, name.strip(), set(rest.split()))

    def add(self, number: int, name: str, uses: set[str]):
        if name in self.allowed:
            self.findings.append(Finding("src/LAYERS", number, f"{name} has a line already"))
        for layer in sorted(uses - set(self.allowed)):
            self.findings.append(
                Finding(
                    "src/LAYERS", number, f"{name} uses {layer}, which stands on no earlier line"
                )
            )
        self.allowed[name] = uses | {name}

    def of(self, relative: str) -> str | None:
        """The innermost folder with a line; relative is a path from src/."""
        folder = Path(relative).parent
        while folder != Path("."):
            if folder.as_posix() in self.allowed:
                return folder.as_posix()
            folder = folder.parent
        return None


def check_includes(tree: Tree, layers: Layers, path: Path) -> list[Finding]:
    src = tree.root / "src"
    relative = path.relative_to(src).as_posix()
    layer = layers.of(relative)
    if layer is None:
        return [Finding(tree.name(path), 1, "belongs to no layer of src/LAYERS")]
    findings = []
    for line, header in tree.includes(path):

        def report(text, line=line):
            findings.append(Finding(tree.name(path), line, text))

        if (src / header).is_file():
            other = layers.of(header)
            if other not in layers.allowed[layer]:
                report(f"{layer} may not include {header} of {other}")
        elif header in layers.headers:
            homes = layers.headers[header]
            if not any(relative.startswith(home + "/") for home in homes):
                report(f"<{header}> belongs to {', '.join(sorted(homes))}")
        elif f'"{header}"' in tree.text(path).splitlines()[line - 1]:
            if not (tree.root / "include" / header).is_file():
                report(f'"{header}" is neither under src/ nor under include/')
    return findings


def check_layers(tree: Tree):
    layers = Layers(tree)
    findings = list(layers.findings)
    sources = tree.files("src")
    for path in sources:
        findings += check_includes(tree, layers, path)

    placed = [
        (source, layers.of(source.relative_to(tree.root / "src").as_posix()), target)
        for source, target in tree.objects
    ]
    placed = [entry for entry in placed if entry[1] is not None]  # the others were reported above
    definers: dict[str, set[str]] = {}
    for _, layer, target in placed:
        for symbol in tree.symbols(target):
            if symbol.kind not in "Uwv":
                definers.setdefault(symbol.name, set()).add(layer)
    for source, layer, target in placed:
        for symbol in tree.symbols(target):
            if symbol.kind not in "Uwv":
                continue
            homes = definers.get(symbol.name, set())
            if symbol.name.startswith("weft_"):
                wrong = layer not in WEFT_CALLERS
            else:
                wrong = bool(homes) and not homes & layers.allowed[layer]
            if wrong:
                home = ", ".join(sorted(homes)) or "weft.h"
                findings += [
                    Finding(tree.name(source), line, f"{layer} may not use {symbol.name} of {home}")
                    for line in tree.mentions(source, symbol.name)
                ]
    return findings + tree.missing_objects, {"files": len(sources), "objects": len(placed)}


# ---- globals and calls


def check_globals(tree: Tree):
    """objdump, not nm: a static variable in a function is a global too."""
    findings = []
    objects = tree.library_objects()
    for source, target in objects:
        for line in run_tool("objdump", "-t", str(target)).splitlines():
            match = re.match(r"[0-9a-f]{8,} .{7} (\S+)\t([0-9a-f]+)\s+(?:\.hidden )?(\S+)", line)
            if not match:
                continue
            section, size, name = match.group(1), int(match.group(2), 16), match.group(3)
            if not re.match(r"\.(data|bss|tdata|tbss)\b|\*COM\*", section) or size == 0:
                continue
            if re.match(r"\.data\.rel\.ro\b", section):
                continue
            if source.suffix == ".cu" and NVCC_SYMBOL.match(name):
                continue
            plain = name.split(".")[0]
            findings.append(
                Finding(
                    tree.name(source),
                    tree.mentions(source, plain)[0],
                    f"{plain} is a mutable global: {size} bytes in {section}",
                )
            )
    return findings + tree.missing_objects, {"objects": len(objects)}


def fold(name: str) -> str:
    """__printf_chk and __isoc99_sscanf are what the compiler made of printf and sscanf."""
    match = re.fullmatch(r"__(?:isoc\d+_)?(\w+?)_chk|__isoc\d+_(\w+)", name)
    return (match.group(1) or match.group(2)) if match else name


def check_calls(tree: Tree):
    findings = []
    library = set(tree.library_objects())
    for source, target in tree.objects:
        name = tree.name(source)
        for symbol in tree.symbols(target):
            call = fold(symbol.name)
            if symbol.kind not in "Uwv":
                continue
            if call in LIBRARY_FORBIDDEN and (source, target) in library:
                reason = f"the library may not use {call}"
            elif call in MALLOC_FAMILY and name != MALLOC_HOME:
                reason = (
                    f"{call} belongs to {MALLOC_HOME}: memory comes from the caller's allocator"
                )
            else:
                continue
            findings += [Finding(name, line, reason) for line in tree.mentions(source, call)]
    return findings + tree.missing_objects, {"objects": len(tree.objects)}


# ---- exports


def check_exports(tree: Tree):
    header = tree.root / "include" / "weft.h"
    declared = (
        set(re.findall(r"^WEFT_API[^;(]*?\b(\w+)\(", tree.code(header), re.MULTILINE))
        if header.is_file()
        else set()
    )
    findings = []
    looked_at = {"declarations": len(declared)}
    for library, arguments in (
        ("libweft.so", ["-D", "--defined-only"]),
        ("libweft.a", ["-g", "--defined-only"]),
    ):
        path = tree.build / library
        looked_at[library] = 0
        if not path.is_file():
            continue
        names = set()
        for line in run_tool("nm", "-P", *arguments, str(path)).splitlines():
            words = line.split()
            if len(words) >= 2:
                names.add(words[0].split("@")[0])
        looked_at[library] = len(names)
        findings += [
            Finding(library, 1, f"exports {name}, which weft.h does not declare")
            for name in sorted(names - declared)
        ]
        findings += [
            Finding(library, 1, f"does not export {name} of weft.h")
            for name in sorted(declared - names)
        ]
    return findings, looked_at


# ---- tables


def check_table(tree: Tree, table: Path) -> tuple[list[Finding], int]:
    """things.def stands beside its rows' files, or beside the folder things/ that holds them."""
    code = tree.code(table)
    rows = [(code.count("\n", 0, m.start()) + 1, m.group(1)) for m in TABLE_ROW.finditer(code)]
    folder = table.parent / table.stem
    if not folder.is_dir():
        folder = table.parent
    files = [path for path in folder.iterdir() if path.suffix in {".c", ".h", ".cu"}]
    stems = {path.stem for path in files}
    findings = []
    seen = set()
    for line, row in rows:
        if row not in stems:
            findings.append(
                Finding(tree.name(table), line, f"row {row} has no file in {tree.name(folder)}")
            )
        if row in seen:
            findings.append(Finding(tree.name(table), line, f"row {row} stands twice"))
        seen.add(row)
    if not rows:
        findings.append(Finding(tree.name(table), 1, "has no rows"))

    # What others include, and its .c, is shared by the rows; what reads the table is its index.
    # Being included by the table itself makes no row.
    included = {
        header for path in tree.files("src") if path != table for _, header in tree.includes(path)
    }
    src = tree.root / "src"
    shared = {
        path.stem
        for path in files
        if path.suffix == ".h" and path.relative_to(src).as_posix() in included
    }
    table_name = table.relative_to(src).as_posix()
    for path in sorted(files):
        index = any(header == table_name for _, header in tree.includes(path))
        if path.stem not in seen | shared and not index:
            findings.append(Finding(tree.name(path), 1, f"has no row in {tree.name(table)}"))
    return findings, len(rows)


def check_tables(tree: Tree):
    findings = []
    tables = [path for path in tree.files("src") if path.suffix == ".def"]
    n_rows = 0
    for table in tables:
        found, rows = check_table(tree, table)
        findings += found
        n_rows += rows
    return findings, {"tables": len(tables), "rows": n_rows}


# ---- shape


def is_kernel(name: str) -> bool:
    return name.endswith(".cu") or re.fullmatch(r"src/backend/cpu/[^/]+\.[ch]", name) is not None


def expected_guard(name: str) -> str:
    """The path from the folder that is on the include path: src/kv/page.h is KV_PAGE_H."""
    return re.sub(r"[^A-Za-z0-9]", "_", name.split("/", 1)[1]).upper()


def check_guard(tree: Tree, path: Path) -> list[Finding]:
    guard = expected_guard(tree.name(path))
    lines = [line.split() for line in tree.code(path).splitlines() if line.strip()]
    if len(lines) < 3 or lines[0] != ["#ifndef", guard] or lines[1] != ["#define", guard]:
        return [Finding(tree.name(path), 1, f"include guard is not {guard}")]
    return []


def count_parameters(signature: str) -> int:
    inside = signature.strip()[1:-1].strip()
    if inside in ("", "void"):
        return 0
    depth = 0
    count = 1
    for char in inside:
        depth += (char in "([{") - (char in ")]}")
        count += char == "," and depth == 0
    return count


def block_levels(code: str) -> int:
    """The deepest nesting of braced blocks below a function's own. Braces of initialisers and
    compound literals do not count: before those stands an operator, not a word and its parentheses.
    """
    opened: list[bool] = []  # for each open brace: is it a block?
    before_paren: list[str] = []
    previous, word_before_group, deepest = "", "", 0
    for match in re.finditer(r"\w+|[^\s\w]", code):
        token = match.group()
        if token == "(":
            before_paren.append(previous)
        elif token == ")" and before_paren:
            word_before_group = before_paren.pop()
        elif token == "{":
            if previous == ")":
                block = (
                    re.fullmatch(r"[A-Za-z_]\w*", word_before_group) is not None
                    and word_before_group != "return"
                )
            else:
                block = previous in (";", "{", "}", ":", "else", "do") and (
                    not opened or opened[-1]
                )
            opened.append(block)
            deepest = max(deepest, sum(opened) - 1)
        elif token == "}" and opened:
            opened.pop()
        previous = token
    return deepest


def functions(tree: Tree, paths: list[Path]):
    """(path, name, first line, last line, signature) of every function, as ctags sees it."""
    for language, chosen in (
        ("C", [p for p in paths if p.suffix != ".cu"]),
        ("C++", [p for p in paths if p.suffix == ".cu"]),
    ):
        if not chosen:
            continue
        output = run_tool(
            "ctags",
            "--options=NONE",
            "-f",
            "-",
            "--output-format=json",
            "--fields=+neS",
            f"--language-force={language}",
            f"--kinds-{language}=f",
            *map(str, chosen),
        )
        for line in output.splitlines():
            tag = json.loads(line)
            if tag.get("_type") == "tag" and "end" in tag:
                yield Path(tag["path"]), tag["name"], tag["line"], tag["end"], tag.get(
                    "signature", "()"
                )


def check_function(
    tree: Tree, path: Path, name: str, span: tuple[int, int], signature: str
) -> list[Finding]:
    first, last = span
    file = tree.name(path)
    findings = []

    def report(what, value, limit):
        if value > limit:
            findings.append(Finding(file, first, f"{name} has {value} {what}, at most {limit}"))

    report("lines", last - first + 1, MAX_KERNEL_LINES if is_kernel(file) else MAX_FUNCTION_LINES)
    report("parameters", count_parameters(signature), MAX_PARAMETERS)
    report(
        "levels", block_levels("\n".join(tree.code(path).split("\n")[first - 1 : last])), MAX_LEVELS
    )
    return findings


def check_file_shape(tree: Tree, path: Path) -> list[Finding]:
    name = tree.name(path)
    lines = tree.text(path).split("\n")
    findings = []
    if len(lines) - 1 > MAX_FILE_LINES:
        findings.append(Finding(name, 1, f"has {len(lines) - 1} lines, at most {MAX_FILE_LINES}"))
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            findings.append(
                Finding(name, number, f"has {len(line)} columns, at most {MAX_COLUMNS}")
            )
    if path.suffix == ".h":
        findings += check_guard(tree, path)
    return findings


def check_shape(tree: Tree):
    sources = tree.files("src", "include", "tests", "bench", "examples")
    scripts = [
        path
        for folder in ("tools", "cmake", "tests")
        for path in sorted((tree.root / folder).rglob("*"))
        if path.suffix in {".py", ".sh", ".cmake"}
    ]
    findings = []
    n_functions = 0
    for path in sources:
        findings += check_file_shape(tree, path)
    for path in sources + scripts:
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            mark = UNFINISHED.search(line)
            if mark:
                findings.append(
                    Finding(
                        tree.name(path), number, f"{mark.group()}: unfinished work does not land"
                    )
                )
    for path, name, first, last, signature in functions(tree, sources):
        n_functions += 1
        findings += check_function(tree, path, name, (first, last), signature)
    return findings, {"files": len(sources), "functions": n_functions}


# ---- exceptions and the report


def exceptions_of(tree: Tree, rule: str) -> dict[str, dict[int, bool]]:
    """path -> line of the exception -> has it a reason."""
    found: dict[str, dict[int, bool]] = {}
    for path in tree.files("src", "include", "tests", "bench", "examples"):
        text = tree.text(path)
        if "NOLINTNEXTLINE" not in text:
            continue
        starts = [0] + [m.end() for m in re.finditer("\n", text)]
        for match in EXCEPTION.finditer(text):
            if f"check-{rule}" in re.split(r"[\s,]+", match.group(1)):
                line = bisect.bisect_right(starts, match.start())
                found.setdefault(tree.name(path), {})[line] = match.group(2) is not None
    return found


def excuse(finding: Finding, lines: dict[int, bool]) -> int | None:
    """The line of the exception that covers the finding."""
    if finding.line - 1 in lines:
        return finding.line - 1
    if finding.line == 1:
        return next((line for line in sorted(lines) if line <= FILE_HEADER_LINES), None)
    return None


RULES = {
    "layers": check_layers,
    "globals": check_globals,
    "calls": check_calls,
    "exports": check_exports,
    "tables": check_tables,
    "shape": check_shape,
}


def run_rule(tree: Tree, rule: str) -> bool:
    """Prints findings and one closing line; true when there is nothing to complain about."""
    try:
        findings, looked_at = RULES[rule](tree)
    except CheckError as error:
        print(f"check-{rule}: FAILED: {error}")
        return False
    exceptions = exceptions_of(tree, rule)
    used = set()
    left = []
    for finding in dict.fromkeys(findings):
        line = excuse(finding, exceptions.get(finding.path, {}))
        if line is None:
            left.append(finding)
        else:
            used.add((finding.path, line))
    for path, lines in exceptions.items():
        for line, has_reason in lines.items():
            if not has_reason:
                left.append(Finding(path, line, "an exception needs a reason after its colon"))
            if (path, line) not in used:
                left.append(Finding(path, line, "this exception excuses nothing"))
    for finding in sorted(left):
        print(f"{finding.path}:{finding.line}: check-{rule}: {finding.text}")
    nothing = [what for what, count in looked_at.items() if count == 0]
    if nothing:
        print(f"check-{rule}: FAILED: no {', no '.join(nothing)} found")
        return False
    seen = ", ".join(f"{count} {what}" for what, count in looked_at.items())
    verdict = f"FAILED: {len(left)} findings" if left else "ok"
    print(f"check-{rule}: {verdict} ({seen}; {len(used)} exceptions)")
    return not left


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the tree against its own rules.")
    parser.add_argument(
        "--build", type=Path, required=True, help="build folder, with compile_commands.json"
    )
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the tree"
    )
    parser.add_argument(
        "--rule", action="append", choices=list(RULES), help="only this one; may be repeated"
    )
    options = parser.parse_args()
    tree = Tree(options.root.resolve(), options.build.resolve())
    results = [run_rule(tree, rule) for rule in options.rule or RULES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
