#!/usr/bin/env python3
"""test_check.py - plants faults in a small tree and asks whether check.py sees each of them.

Every test starts from the same clean tree, changes it, builds it with gcc and runs one rule.
"""

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent


def load_check():
    spec = importlib.util.spec_from_file_location("check", TOOLS / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load_check()

CLEAN = {
    "src/LAYERS": "# layers\nbase:\nshelf/things: base   # rows\nshelf: base\n"
    "api: base shelf/things shelf\ncli: base\n!pthread.h: base\n!immintrin.h: shelf/things\n",
    "include/weft.h": "#ifndef WEFT_H\n#define WEFT_H\n"
    '#define WEFT_API __attribute__((visibility("default")))\n'
    "WEFT_API int weft_open(const char *path,\n                       int flags);\n"
    "WEFT_API const char *weft_version(void);\n#endif\n",
    "src/base/mem.h": "#ifndef BASE_MEM_H\n#define BASE_MEM_H\n"
    "void *mem_get(unsigned long n);\n#endif\n",
    "src/base/mem.c": '#include "base/mem.h"\n\n#include <pthread.h>\n#include <stdlib.h>\n\n'
    "void *mem_get(unsigned long n)\n{\n    return malloc(n); /* printf() in a comment */\n}\n",
    "src/shelf/things/thing.h": "#ifndef SHELF_THINGS_THING_H\n#define SHELF_THINGS_THING_H\n"
    "typedef struct thing { int id; } thing;\n#endif\n",
    "src/shelf/things/things.def": "/* THING(name) */\nTHING(apple)\nTHING(pear)\n",
    "src/shelf/things/things.c": '#include "shelf/things/thing.h"\n\n'
    "#define THING(name) extern const thing THING_##name;\n"
    '#include "shelf/things/things.def"\n#undef THING\n\n'
    "const thing *const THINGS[] = {&THING_apple, &THING_pear};\n",
    "src/shelf/things/apple.c": '#include "shelf/things/thing.h"\n\n'
    "const thing THING_apple = {1};\n",
    "src/shelf/things/pear.c": '#include "shelf/things/thing.h"\n\nconst thing THING_pear = {2};\n',
    "src/shelf/shelf.h": "#ifndef SHELF_SHELF_H\n#define SHELF_SHELF_H\n"
    "int shelf_sum(int n);\n#endif\n",
    "src/shelf/shelf.c": '#include "shelf/shelf.h"\n\n#include "base/mem.h"\n\n'
    'static const char *const NAMES[] = {"TODAY", "x"};\n\n'
    "int shelf_sum(int n)\n{\n"
    "    return mem_get(1) == 0 ? n : NAMES[n & 1][0];\n}\n",
    "src/api/open.c": '#include "weft.h"\n\n#include "shelf/shelf.h"\n\n'
    "int weft_open(const char *path, int flags)\n{\n    return shelf_sum(flags + path[0]);\n}\n\n"
    'const char *weft_version(void)\n{\n    return "1";\n}\n',
    "src/cli/main.c": '#include <stdio.h>\n\n#include "weft.h"\n\n'
    'int main(void)\n{\n    return printf("%d\\n", weft_open("", 0)) < 0;\n}\n',
}


OBJECTS: dict[tuple[str, ...], bytes] = {}


class PlantedTree:
    """The clean tree with changes, in a temporary folder."""

    def __init__(self, folder: str, changes: dict[str, str | None]):
        self.root = Path(folder)
        self.build = self.root / "build"
        self.build.mkdir()
        for name, text in (CLEAN | changes).items():
            if text is None:
                continue
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def compile(self):
        """Objects, compile_commands.json and both libraries, as the real build makes them."""
        entries = []
        library = []
        headers = [path.read_text() for path in sorted(self.root.rglob("*.[hd]*"))]
        for source in sorted(self.root.glob("src/**/*.c")):
            name = source.relative_to(self.root).as_posix()
            target = self.build / (name.replace("/", "_") + ".o")
            command = ["gcc", "-std=c17", "-O1", "-w", "-fPIC", "-fvisibility=hidden"]
            command += [f"-I{self.root}/src", f"-I{self.root}/include"]
            command += ["-o", str(target), "-c", str(source)]
            inputs = (name, source.read_text(), *headers)
            if inputs not in OBJECTS:  # most tests change one file of many
                subprocess.run(command, check=True)
                OBJECTS[inputs] = target.read_bytes()
            target.write_bytes(OBJECTS[inputs])
            entries.append(
                {"directory": str(self.build), "file": str(source), "arguments": command}
            )
            if "/cli/" not in name:
                library.append(str(target))
        database = self.build / "compile_commands.json"
        database.write_text(json.dumps(entries), encoding="utf-8")
        if not library:
            return
        one = str(self.build / "one.o")
        archive = str(self.build / "libweft.a")
        for command in (
            ["gcc", "-shared", "-o", str(self.build / "libweft.so"), *library],
            ["ld", "-r", "-o", one, *library],
            ["objcopy", "--localize-hidden", one],
            ["ar", "rcs", archive, one],
        ):
            subprocess.run(command, check=True)

    def run(self, rule: str) -> tuple[bool, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            passed = check.run_rule(check.Tree(self.root, self.build), rule)
        return passed, output.getvalue()


def edited(name: str, old: str, new: str) -> dict[str, str]:
    assert CLEAN[name].count(old) == 1, f"'{old}' is not once in {name}"
    return {name: CLEAN[name].replace(old, new)}


def appended(name: str, text: str) -> dict[str, str]:
    return {name: CLEAN[name] + text}


class CheckTest(unittest.TestCase):
    def run_rule(self, rule, changes, compiled=True, after_build=None):
        with tempfile.TemporaryDirectory() as folder:
            tree = PlantedTree(folder, changes)
            if compiled:
                tree.compile()
            if after_build:
                after_build(tree)
            return tree.run(rule)

    def assert_reports(self, rule, changes, *expected, **options):
        passed, output = self.run_rule(rule, changes, **options)
        self.assertFalse(passed, f"{rule} saw nothing wrong:\n{output}")
        for text in expected:
            self.assertIn(text, output)

    def assert_passes(self, rule, changes, *expected):
        passed, output = self.run_rule(rule, changes)
        self.assertTrue(passed, output)
        for text in expected:
            self.assertIn(text, output)


class CleanTree(CheckTest):
    def test_every_rule_passes(self):
        for rule in check.RULES:
            with self.subTest(rule=rule):
                self.assert_passes(rule, {}, f"check-{rule}: ok")

    def test_nothing_to_look_at(self):
        nothing = dict.fromkeys(CLEAN)
        kept = {"src/LAYERS": CLEAN["src/LAYERS"]}
        for rule in check.RULES:
            with self.subTest(rule=rule):
                self.assert_reports(rule, nothing | kept, "FAILED: no ", after_build=None)

    def test_no_build(self):
        for rule in ("layers", "globals", "calls"):
            with self.subTest(rule=rule):
                self.assert_reports(rule, {}, "build first", compiled=False)

    def test_object_not_built(self):
        def remove(tree):
            (tree.build / "src_shelf_shelf.c.o").unlink()

        for rule in ("layers", "globals", "calls"):
            with self.subTest(rule=rule):
                self.assert_reports(
                    rule, {}, "src/shelf/shelf.c:1", "no object", after_build=remove
                )

    def test_source_not_compiled(self):
        def forget(tree):
            database = tree.build / "compile_commands.json"
            entries = json.loads(database.read_text())
            database.write_text(json.dumps([e for e in entries if "pear" not in e["file"]]))

        for rule in ("layers", "globals", "calls"):
            with self.subTest(rule=rule):
                self.assert_reports(rule, {}, "pear.c:1", "is not compiled", after_build=forget)


class LayersRule(CheckTest):
    def test_include_upwards(self):
        self.assert_reports(
            "layers",
            edited(
                "src/base/mem.c",
                "#include <stdlib.h>",
                '#include <stdlib.h>\n#include "shelf/shelf.h"',
            ),
            "src/base/mem.c:5",
            "base may not include shelf/shelf.h of shelf",
        )

    def test_include_in_angle_brackets(self):
        self.assert_reports(
            "layers",
            edited(
                "src/base/mem.c",
                "#include <stdlib.h>",
                "#include <stdlib.h>\n#include <shelf/shelf.h>",
            ),
            "base may not include shelf/shelf.h",
        )

    def test_include_from_the_folder_above(self):
        """shelf/things is a layer of its own, lower than shelf."""
        self.assert_reports(
            "layers",
            edited("src/shelf/things/pear.c", "\n\n", '\n#include "shelf/shelf.h"\n\n'),
            "shelf/things may not include shelf/shelf.h of shelf",
        )

    def test_include_in_def(self):
        self.assert_reports(
            "layers",
            edited("src/shelf/things/things.def", "*/\n", '*/\n#include "shelf/shelf.h"\n'),
            "src/shelf/things/things.def:2",
        )

    def test_include_not_found(self):
        self.assert_reports(
            "layers",
            edited("src/shelf/shelf.c", '"shelf/shelf.h"', '"shelf.h"') | {"include/shelf.h": None},
            '"shelf.h" is neither under src/ nor under include/',
            compiled=False,
            after_build=lambda tree: (tree.build / "compile_commands.json").write_text("[]"),
        )

    def test_include_in_comment_is_none(self):
        self.assert_passes(
            "layers", appended("src/base/mem.c", '/*\n#include "shelf/shelf.h"\n*/\n')
        )

    def test_bare_extern_symbol(self):
        self.assert_reports(
            "layers",
            appended(
                "src/base/mem.c",
                "extern int shelf_sum(int);\n\nint mem_x(void) { return shelf_sum(1); }\n",
            ),
            "src/base/mem.c:10",
            "base may not use shelf_sum of shelf",
        )

    def test_public_function_from_below(self):
        self.assert_reports(
            "layers",
            appended(
                "src/shelf/shelf.c",
                'int weft_open(const char *, int);\nint y(void) { return weft_open("", 1); }\n',
            ),
            "shelf may not use weft_open of api",
        )

    def test_private_function_from_program(self):
        self.assert_reports(
            "layers",
            appended(
                "src/cli/main.c",
                "extern int shelf_sum(int);\nint z(void) { return shelf_sum(1); }\n",
            ),
            "cli may not use shelf_sum of shelf",
        )

    def test_system_header_elsewhere(self):
        self.assert_reports(
            "layers",
            edited(
                "src/shelf/shelf.c",
                '#include "base/mem.h"',
                '#include <pthread.h>\n#include "base/mem.h"',
            ),
            "<pthread.h> belongs to base",
        )

    def test_system_header_in_sibling_folder(self):
        self.assert_reports(
            "layers",
            edited(
                "src/shelf/shelf.c",
                '#include "base/mem.h"',
                '#include <immintrin.h>\n#include "base/mem.h"',
            ),
            "<immintrin.h> belongs to shelf/things",
        )

    def test_order_of_layers(self):
        self.assert_reports(
            "layers",
            edited("src/LAYERS", "base:\n", "base: shelf\n"),
            "src/LAYERS:2",
            "base uses shelf, which stands on no earlier line",
        )

    def test_folder_without_layer(self):
        self.assert_reports(
            "layers",
            {"src/extra/extra.c": "int extra;\n"},
            "src/extra/extra.c:1",
            "belongs to no layer",
        )


class GlobalsRule(CheckTest):
    def plant(self, text, *expected):
        self.assert_reports(
            "globals", appended("src/shelf/shelf.c", text), "src/shelf/shelf.c:", *expected
        )

    def test_data(self):
        self.plant("int shelf_data = 4;\n", "shelf_data is a mutable global: 4 bytes in .data")

    def test_bss(self):
        self.plant(
            "static int counter;\nint shelf_n(void) { return ++counter; }\n", "counter", ".bss"
        )

    def test_static_in_function(self):
        self.plant("int shelf_n(void) { static int calls; return ++calls; }\n", "calls", ".bss")

    def test_thread_local(self):
        self.plant("_Thread_local int shelf_local;\n", "shelf_local", ".tbss")

    def test_thread_local_data(self):
        self.plant("_Thread_local int shelf_local = 1;\n", "shelf_local", ".tdata")

    def test_common(self):
        self.plant("__attribute__((common)) int shelf_common;\n", "shelf_common", "*COM*")

    def test_table_of_pointers_that_may_change(self):
        self.plant('const char *shelf_names[] = {"a"};\n', "shelf_names", ".data")

    def test_the_program_may(self):
        self.assert_passes("globals", appended("src/cli/main.c", "int verbose = 1;\n"))


class CallsRule(CheckTest):
    def plant(self, text, *expected, name="src/shelf/shelf.c"):
        self.assert_reports("calls", appended(name, text), name, *expected)

    def test_print(self):
        self.plant('#include <stdio.h>\nvoid p(int n) { printf("%d", n); }\n', "may not use printf")

    def test_print_that_became_puts(self):
        self.plant('#include <stdio.h>\nvoid p(void) { printf("x\\n"); }\n', "may not use puts")

    def test_stream(self):
        self.plant(
            '#include <stdio.h>\nvoid p(int n) { fprintf(stderr, "%d", n); }\n',
            "may not use stderr",
        )

    def test_checked_variant(self):
        self.plant(
            "int __sprintf_chk(char *, int, unsigned long, const char *, ...);\n"
            'void p(char *s) { __sprintf_chk(s, 1, 4, "%d", 1); }\n',
            "may not use sprintf",
        )

    def test_end_of_process(self):
        self.plant("#include <stdlib.h>\nvoid p(void) { abort(); }\n", "may not use abort")

    def test_assert(self):
        self.plant(
            "#include <assert.h>\nvoid p(int n) { assert(n); }\n", "may not use __assert_fail"
        )

    def test_environment(self):
        self.plant(
            '#include <stdlib.h>\nchar *p(void) { return getenv("HOME"); }\n', "may not use getenv"
        )

    def test_malloc_elsewhere(self):
        self.plant(
            "#include <stdlib.h>\nvoid p(void *x) { free(x); }\n", "free belongs to src/base/mem.c"
        )

    def test_strdup_in_program(self):
        self.plant(
            "char *strdup(const char *);\nchar *p(char *x) { return strdup(x); }\n",
            "strdup belongs to src/base/mem.c",
            name="src/cli/main.c",
        )


class ExportsRule(CheckTest):
    def test_visible_helper(self):
        self.assert_reports(
            "exports",
            edited(
                "src/shelf/shelf.c",
                "int shelf_sum(int n)",
                '__attribute__((visibility("default"))) int shelf_sum(int n)',
            ),
            "libweft.so:1",
            "libweft.a:1",
            "exports shelf_sum",
        )

    def test_undeclared_public_function(self):
        self.assert_reports(
            "exports",
            appended(
                "src/api/open.c",
                "WEFT_API int weft_more(void);\nint weft_more(void) { return 1; }\n",
            ),
            "exports weft_more, which weft.h does not declare",
        )

    def test_declared_but_missing(self):
        self.assert_reports(
            "exports",
            edited("include/weft.h", "#endif", "WEFT_API int weft_gone(void);\n#endif"),
            "does not export weft_gone",
        )

    def test_no_archive(self):
        self.assert_reports(
            "exports",
            {},
            "FAILED: no libweft.a found",
            after_build=lambda tree: (tree.build / "libweft.a").unlink(),
        )


class TablesRule(CheckTest):
    def test_row_without_file(self):
        self.assert_reports(
            "tables",
            appended("src/shelf/things/things.def", "THING(plum)\n"),
            "src/shelf/things/things.def:4",
            "row plum has no file",
            compiled=False,
        )

    def test_file_without_row(self):
        self.assert_reports(
            "tables",
            {"src/shelf/things/plum.c": CLEAN["src/shelf/things/pear.c"].replace("pear", "plum")},
            "src/shelf/things/plum.c:1",
            "has no row",
        )

    def test_header_row_without_row(self):
        """A codec is a header that only its table includes."""
        self.assert_reports(
            "tables",
            {"src/shelf/things/fig.h": "/* fig.h */\n"}
            | edited("src/shelf/things/things.def", "*/\n", '*/\n#include "shelf/things/fig.h"\n'),
            "src/shelf/things/fig.h:1",
            "has no row",
        )

    def test_row_in_comment(self):
        self.assert_reports(
            "tables",
            edited("src/shelf/things/things.def", "THING(pear)", "/* THING(pear) */"),
            "src/shelf/things/pear.c:1",
            compiled=False,
        )

    def test_row_twice(self):
        self.assert_reports(
            "tables",
            appended("src/shelf/things/things.def", "THING(pear)\n"),
            "stands twice",
            compiled=False,
        )

    def test_table_beside_its_folder(self):
        moved = {
            "src/shelf/things/things.def": None,
            "src/shelf/things/things.c": None,
            "src/shelf/things.def": "THING(apple)\nTHING(plum)\n",
            "src/shelf/things.c": '#include "shelf/things.def"\n',
        }
        self.assert_reports(
            "tables",
            moved,
            "row plum has no file in src/shelf/things",
            "src/shelf/things/pear.c:1",
            compiled=False,
        )

    def test_shared_file_of_rows(self):
        self.assert_passes(
            "tables",
            {
                "src/shelf/things/peel.h": "int peel(void);\n",
                "src/shelf/things/peel.c": "int peel(void) { return 1; }\n",
            }
            | edited("src/shelf/things/pear.c", "\n\n", '\n#include "shelf/things/peel.h"\n\n'),
        )


class ShapeRule(CheckTest):
    def plant(self, text, *expected, name="src/shelf/shelf.c"):
        self.assert_reports("shape", appended(name, text), name, *expected, compiled=False)

    def test_long_file(self):
        self.plant("\n" * 1000, "lines, at most 1000")

    def test_long_function(self):
        self.plant(
            "int shelf_long(int n)\n{\n" + "    n++;\n" * 67 + "    return n;\n}\n",
            "shelf_long has 71 lines, at most 70",
        )

    def test_function_of_the_limit(self):
        self.assert_passes(
            "shape",
            appended(
                "src/shelf/shelf.c",
                "int shelf_long(int n)\n{\n" + "    n++;\n" * 66 + "    return n;\n}\n",
            ),
        )

    def test_long_kernel(self):
        body = "int kernel(int n)\n{\n" + "    n++;\n" * 100 + "    return n;\n}\n"
        self.assert_passes("shape", {"src/backend/cpu/generic.c": body})
        self.assert_reports(
            "shape",
            {"src/backend/cpu/generic.c": body.replace("n++;", "n++;\n\n")},
            "at most 150",
            compiled=False,
        )

    def test_parameters(self):
        nine = ", ".join(f"int a{i}" for i in range(9))
        self.plant(
            f"int shelf_nine({nine})\n{{\n    return a0;\n}}\n", "has 9 parameters, at most 8"
        )

    def test_parameters_of_callbacks_do_not_count(self):
        text = (
            "int shelf_few(int a, int (*f)(int, int, int, int, int, int, int, int), int b)\n"
            "{\n    return a + b + !f;\n}\n"
        )
        self.assert_passes("shape", appended("src/shelf/shelf.c", text))

    def test_levels(self):
        body = "if (n) {\n" * 5 + "n++;\n" + "}\n" * 5
        self.plant(
            f"int shelf_deep(int n)\n{{\n{body}return n;\n}}\n",
            "shelf_deep has 5 levels, at most 4",
        )

    def test_levels_of_initialisers_do_not_count(self):
        text = (
            "struct v { int x[2]; };\nint shelf_flat(int n)\n{\n"
            "    while (n) {\n        do {\n            if (n) {\n"
            "                switch (n) {\n                case 1: n = ((struct v){{1, 2}}).x[0];\n"
            "                default: { }\n                }\n            }\n"
            "        } while (n);\n    }\n    return n;\n}\n"
        )
        self.plant(text, "shelf_flat has 5 levels")
        self.assert_passes(
            "shape", appended("src/shelf/shelf.c", text.replace("default: { }", "default: break;"))
        )

    def test_columns(self):
        self.plant("/* " + "x" * 100 + " */\n", "columns, at most 100")

    def test_columns_are_characters(self):
        self.assert_passes("shape", appended("src/shelf/shelf.c", "/* " + "\u00e4" * 90 + " */\n"))

    def test_guard(self):
        self.assert_reports(
            "shape",
            edited("src/shelf/things/thing.h", "#ifndef SHELF_THINGS_THING_H", "#ifndef THING_H"),
            "include guard is not SHELF_THINGS_THING_H",
            compiled=False,
        )

    def test_unfinished(self):
        for mark in ("TO" "DO", "FIX" "ME", "XX" "X"):
            with self.subTest(mark=mark):
                self.plant(f"/* {mark}: later */\n", f"{mark}: unfinished work")

    def test_unfinished_script(self):
        self.assert_reports("shape", {"tools/x.sh": "# TO" "DO\n"}, "tools/x.sh:1", compiled=False)


class Exceptions(CheckTest):
    TEXT = "#include <stdlib.h>\n{}void p(void) {{ abort(); }}\n"

    def test_counted(self):
        text = self.TEXT.format("// NOLINTNEXTLINE(check-calls): a test\n")
        self.assert_passes("calls", appended("src/shelf/shelf.c", text), "1 exceptions")

    def test_without_reason(self):
        text = self.TEXT.format("// NOLINTNEXTLINE(check-calls)\n")
        self.assert_reports("calls", appended("src/shelf/shelf.c", text), "needs a reason")

    def test_of_another_rule(self):
        text = self.TEXT.format("// NOLINTNEXTLINE(check-globals): a test\n")
        self.assert_reports("calls", appended("src/shelf/shelf.c", text), "may not use abort")

    def test_that_excuses_nothing(self):
        text = "// NOLINTNEXTLINE(check-calls): a test\nint shelf_fine(void);\n"
        self.assert_reports("calls", appended("src/shelf/shelf.c", text), "excuses nothing")

    def test_second_use_is_not_covered(self):
        text = (
            self.TEXT.format("// NOLINTNEXTLINE(check-calls): a test\n")
            + "void q(void) { abort(); }\n"
        )
        self.assert_reports("calls", appended("src/shelf/shelf.c", text), "may not use abort")

    def test_for_a_whole_file(self):
        text = "/* shelf.c - long. */\n// NOLINTNEXTLINE(check-shape): generated\n"
        self.assert_passes(
            "shape", {"src/shelf/shelf.c": text + CLEAN["src/shelf/shelf.c"] + "\n" * 1000}
        )


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
