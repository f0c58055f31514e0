#!/usr/bin/env python3
"""Differential fuzzing of src/chat/template*.c against Jinja2: small random templates, same text or both refuse.

Usage: tools/fuzz_templates.py RENDERER [--count N] [--seed S]
RENDERER is tests/chat/render_main.c built (see its head); needs the Python package jinja2."""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent / "oracle"))
import expressions  # noqa: E402
import jinja  # noqa: E402

warnings.simplefilter("ignore")
NOW = 1786000000
VARS = dict(expressions.VARS, messages=[
    {"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi\n<b>"},
    {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]},
    {"role": "user", "content": [{"type": "text", "text": "part"}]}], bos_token="<s>")

NAMES = list(expressions.VARS) + ["missing", "x", "y", "ns", "messages", "bos_token"]
TEXTS = ["a", " ", "", "Hello", "b,c", "\\n", "é", "x y", "  pad ", "A"]
FILTERS = ["upper", "lower", "trim", "length", "list", "first", "last", "join", "join(',')", "string",
           "int", "float", "abs", "sort", "reverse", "tojson", "tojson(indent=2)", "default('d')",
           "default(1, true)", "title", "capitalize", "replace('a', 'b')", "unique", "sum", "max",
           "min", "items", "dictsort", "map('string')", "map('upper')", "map(attribute='n')",
           "select", "reject('none')", "selectattr('v')", "batch(2)", "slice(2)", "indent",
           "indent(2, true)", "round", "round(1)", "wordcount", "center(9)", "truncate(6)", "e",
           "urlencode", "count", "selectattr('role', 'equalto', 'user')", "groupby('n')", "safe",
           "map('length')", "rejectattr('v', 'gt', 1)", "filesizeformat", "attr('x')"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence",
         "odd", "even", "true", "false", "boolean", "integer", "float", "lower", "upper",
         "in [1, 'a']", "eq 1", "divisibleby 2", "sameas none", "not none", "not string"]
METHODS = [".upper()", ".strip()", ".split()", ".split(',')", ".items()", ".keys()", ".values()",
           ".get('a')", ".startswith('a')", ".endswith('b')", ".lower()", ".title()", ".n", ".a",
           ".role", ".content", "[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "['a']", ".find('l')",
           ".rstrip('x ')", ".replace('l', 'L')", ".count('l')", ".splitlines()", "[1:-1]",
           ".partition(',')", ".join(['p', 'q'])", ".index(1)", ".zfill(4)", ".isdigit()"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
          "and", "or", "**"]
SPACE = ["", " ", "\n", "  ", "\n  ", "\t", "\n\n", " \n "]


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, items):
        return self.rng.choice(items)

    def atom(self, depth):
        kind = self.rng.randrange(9 if depth > 0 else 6)
        if kind < 3:
            return self.pick(NAMES)
        if kind == 3:
            return str(self.rng.randrange(12))  # Jinja folds -3 ** x to -(3 ** x)
        if kind == 4:
            return "'" + self.pick(TEXTS) + "'"
        if kind == 5:
            return self.pick(["true", "false", "none", "2.5", "0.1", "[]", "{}", "10", "1e3"])
        if kind == 6:
            return "[" + ", ".join(self.expr(depth - 1) for _ in range(self.rng.randrange(3))) + "]"
        if kind == 7:
            return "{" + ", ".join(f"'{self.pick('abn')}': {self.expr(depth - 1)}"
                                   for _ in range(self.rng.randrange(3))) + "}"
        return "(" + self.expr(depth - 1) + ")"

    def expr(self, depth):
        if depth <= 0:
            return self.atom(0)
        kind = self.rng.randrange(10)
        if kind < 2:
            return self.atom(depth)
        if kind < 4:
            return f"{self.atom(depth - 1)}|{self.pick(FILTERS)}"
        if kind < 6:
            return f"{self.expr(depth - 1)} {self.pick(BINARY)} {self.expr(depth - 1)}"
        if kind == 6:
            return f"{self.atom(depth - 1)}{self.pick(METHODS)}"
        if kind == 7:
            return f"{self.atom(depth - 1)} is {self.pick(TESTS)}"
        if kind == 8:
            tail = "" if self.rng.random() < 0.2 else f" else {self.expr(depth - 1)}"
            return f"{self.expr(depth - 1)} if {self.expr(depth - 1)}{tail}"
        return f"not {self.atom(depth - 1)}|{self.pick(FILTERS)}{self.pick(METHODS)}"

    def tag(self, body):
        return ("{%" + self.pick(["", "", "-", "+"]) + " " + body + " " +
                self.pick(["", "", "-", "+"]) + "%}")

    def text(self):
        return self.pick(SPACE) + self.pick(["", "t", "<x>", "e\n"]) + self.pick(SPACE)

    def statement(self, depth):
        kind = self.rng.randrange(14)
        if depth <= 0 or kind < 4:
            sign = self.pick(["", "", "-"])
            return "{{" + sign + " " + self.expr(2) + " " + self.pick(["", "-"]) + "}}"
        body = self.block(depth - 1)
        if kind == 4:
            return (self.tag("if " + self.expr(2)) + body + self.tag("elif " + self.expr(1)) +
                    self.block(depth - 1) + self.tag("else") + self.block(depth - 1) +
                    self.tag("endif"))
        if kind in (5, 6):
            target = self.pick(["x", "x, y"])
            source = self.pick(["l", "p", "messages", "d.items()", "range(3)", "s", self.expr(2)])
            test = self.pick(["", "", " if x", " if x is odd", " if not loop is defined"])
            loop = self.pick(["{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}",
                              "{{ loop.revindex0 }}", "{{ loop.previtem }}", "{{ loop.nextitem }}",
                              "{{ loop.cycle('a', 'b') }}", "{{ loop.changed(x) }}", "", "{{ x }}"])
            jump = self.pick(["", "", "", "{% if loop.index == 2 %}{% break %}{% endif %}",
                              "{% if loop.first %}{% continue %}{% endif %}"])
            tail = self.pick(["", self.tag("else") + self.block(0)])
            return (self.tag(f"for {target} in {source}{test}") + loop + jump + body + tail +
                    self.tag("endfor"))
        if kind == 7:
            return self.tag(f"set {self.pick('xy')} = {self.expr(2)}") + body
        if kind == 8:
            return (self.tag("set ns = namespace(a=1)") + body +
                    self.tag(f"set ns.{self.pick('ab')} = {self.expr(2)}"))
        if kind == 9:
            return self.tag(f"set x{self.pick(['', ' | upper', ' | trim'])}") + body + self.tag("endset")
        if kind == 10:
            call = self.pick(["{{ mac(1) }}", "{{ mac(x, y=2) }}", "{{ mac() }}", "{% call mac(1) %}C{% endcall %}",
                              "{% call(z) mac(1) %}{{ z }}{% endcall %}"])
            inner = self.pick(["", "{{ caller(3) if caller is defined }}", "{{ kwargs }}{{ varargs }}", "{{ x }}"])
            return self.tag("macro mac(x, y='dy')") + body + inner + self.tag("endmacro") + call
        if kind == 11:
            return self.tag("filter " + self.pick(["upper", "trim", "indent(2)", "replace('e', 'E')"])) + body + self.tag("endfilter")
        if kind == 12:
            return self.tag(f"with x = {self.expr(1)}, y = x") + body + self.tag("endwith")
        return self.pick(["{# c #}", "{#- c -#}", "{% raw %} {{ r }} {% endraw %}", "{%- raw -%} {% x {%- endraw -%}",
                          "{% generation %}" + body + "{% endgeneration %}"])

    def block(self, depth):
        return "".join(self.text() + self.statement(depth)
                       for _ in range(self.rng.randrange(1, 3))) + self.text()


UNSTABLE = re.compile(r" at 0x[0-9a-f]+|<generator|<(list_)?reverse|<builtin|<bound|<function|<Loop|<dict_|Markup", re.IGNORECASE)
# Known differences: 64-bit integers, Markup, what Python says of its own objects, batch and slice that nobody
# walks (weft makes them at once, and so finds what is wrong) and slices of constants, which Jinja folds.
SKIP = re.compile(r"\|(e|safe)\b")


def differs(template, text, error, answer):
    if answer["status"] == "UNSUPPORTED" or answer["status"] == "LIMIT":
        return False
    if error is not None:
        return answer["status"] == "OK" and not SKIP.search(template)
    if UNSTABLE.search(text) or SKIP.search(template):
        return False
    known = ("64 bits", "is not iterable", "cannot slice")
    if answer["status"] != "OK" and any(k in answer["text"] for k in known):
        return False
    return answer["status"] != "OK" or answer["text"] != text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("renderer")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    maker = Maker(random.Random(args.seed))
    process = subprocess.Popen([args.renderer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    n_bad = n_text = 0
    for i in range(args.count):
        template = maker.block(maker.pick([1, 2, 2, 3]))
        line = json.dumps({"template": template, "vars": VARS, "now": NOW})
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            print(f"the renderer died on {template!r}")
            return 1
        answer = json.loads(answer)
        text, error = jinja.render(template, VARS, NOW)
        n_text += error is None
        if differs(template, text, error, answer):
            n_bad += 1
            if n_bad <= args.show:
                print(f"#{i} {template!r}\n  jinja {text!r} {error or ''}\n  weft  {answer}")
    print(f"{args.count} templates, {n_text} with a text, {n_bad} different")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
