#!/usr/bin/env python3
"""Differential fuzzing of src/chat/template*.c against Jinja2: random templates, same text or both refuse. A word
that only the variables hold must stand inside the spans of untrusted bytes, whatever was done to it.

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
    {"role": "user", "content": [{"type": "text", "text": "part"}]}], bos_token="<s>",
            secret="zqXJkv <zqxjkv> Zq", hidden={"zqxjkv": ["qxjkvz", "jkvzqx"]}, tools=[{"type": "function", "function": {"name": "f", "parameters": {"a": {"type": "string"}}}}])

NAMES = list(expressions.VARS) + ["missing", "x", "y", "ns", "messages", "bos_token", "tools", "secret", "hidden"]
TEXTS = ["a", " ", "", "Hello", "b,c", "\\n", "é", "x y", "  pad ", "A", "\\u2028", "ǆ", "\\x41\\t", "\\q"]
FILTERS = ["upper", "lower", "trim", "length", "list", "first", "last", "join", "join(',')", "string",
           "int", "float", "abs", "sort", "reverse", "tojson", "tojson(indent=2)", "default('d')",
           "default(1, true)", "title", "capitalize", "replace('a', 'b')", "unique", "sum", "max",
           "min", "items", "dictsort", "map('string')", "map('upper')", "map(attribute='n')",
           "select", "reject('none')", "selectattr('v')", "batch(2)", "slice(2)", "indent",
           "indent(2, true)", "round", "round(1)", "wordcount", "center(9)", "truncate(6)", "e",
           "urlencode", "count", "selectattr('role', 'equalto', 'user')", "groupby('n')", "safe",
           "map('length')", "rejectattr('v', 'gt', 1)", "filesizeformat", "attr('x')",
           "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'), sort_keys=true)",
           "tojson(ensure_ascii=false, indent='\t')", "tojson(indent=0)", "default(default_value='k', boolean=true)",
           "indent(width=3, first=true, blank=true)", "indent('> ')", "trim(chars='xl ')", "dictsort(by='value')",
           "dictsort(true, reverse=true)", "sort(attribute='n', reverse=true)", "sort(case_sensitive=true)",
           "join(d='-', attribute='n')", "join('', 'role')", "map(attribute='v', default=0)",
           "map(attribute='function.name')", "map('replace', 'a', 'o')", "map('default', 'q')", "map('tojson')",
           "select('in', [1, 2, 'a'])", "select('gt', 1)", "reject('odd')", "selectattr('content', 'string')",
           "selectattr('tool_calls', 'defined')", "rejectattr('role', 'in', ['user'])", "unique(attribute='n')",
           "max(attribute='v')", "min(attribute='v')", "sum(attribute='v', start=2)", "round(method='ceil')",
           "round(1, 'floor')", "batch(2, fill_with='-')", "slice(3, '.')", "truncate(8, true, '~', 0)",
           "truncate(length=5, leeway=1)", "int(default=-1, base=16)", "float(0.5)", "replace('l', 'L', count=1)",
           "groupby('role', default='z')", "format(1)", "list|length", "wordwrap(5)", "striptags", "pprint",
           "items|list", "first|default('none')", "string|trim|length", "upper|lower|title", "xmlattr"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence",
         "odd", "even", "true", "false", "boolean", "integer", "float", "lower", "upper",
         "in [1, 'a']", "eq 1", "divisibleby 2", "sameas none", "not none", "not string", "callable",
         "not defined", "in 'Hello a'", "not in l", "ge(2)", "lt 'm'", "divisibleby(3)", "equalto s",
         "ne none", "not mapping", "filter", "test", "escaped", "== 1", "sameas(true)"]
METHODS = [".upper()", ".strip()", ".split()", ".split(',')", ".items()", ".keys()", ".values()",
           ".get('a')", ".startswith('a')", ".endswith('b')", ".lower()", ".title()", ".n", ".a",
           ".role", ".content", "[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "['a']", ".find('l')",
           ".rstrip('x ')", ".replace('l', 'L')", ".count('l')", ".splitlines()", "[1:-1]",
           ".partition(',')", ".join(['p', 'q'])", ".index(1)", ".zfill(4)", ".isdigit()",
           ".split('l', 1)", ".rsplit(',', 1)", ".rsplit(maxsplit=1)", ".split(maxsplit=1)", ".lstrip()",
           ".capitalize()", ".swapcase()", ".isupper()", ".isalpha()", ".isspace()", ".rpartition('o')",
           ".removeprefix('He')", ".removesuffix('ld')", ".startswith(('a', 'H'))", ".endswith(('d', ''))",
           ".format(1, 2)", ".format(k='v')", ".ljust(7, '.')", ".rjust(7)", ".center(8, '*')", ".rfind('l')",
           ".get('zz', 'dd')", ".copy()", ".count(1)", "[-2:]", "[:-1]", "[::2]", "[3::-2]", "[5:1]", "[::]",
           "[-100:100]", "[x:y]", "[:n]", ".splitlines(true)", ".items()|list", ".keys()|list", ".0", ".1",
           "['items']", ".items", ".get", "[none]", "[1.0]", "[true]", "[missing]", "[0, 1]", ".expandtabs()",
           ".istitle()", ".isprintable()", ".casefold()"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
          "and", "or", "**"]
SPACE = ["", " ", "\n", "  ", "\n  ", "\t", "\n\n", " \n ", "\r\n", "\n\t "]
LITERALS = ["true", "false", "none", "2.5", "0.1", "[]", "{}", "10", "1e3", "True", "None", "0x1f", "1_0",
            "'%s|%r' % (1, 'a')", "'%d' % 3", "'a' 'b'", "(1,)", "()", "{1: 'one', none: 2}", "dict(a=1, b='c')",
            "range(3)", "range(5, 0, -2)", "\"it's\"", "'\"'", "[1, 2, 3,]", "{'a': 1,}", "namespace(a=[1])"]
TEXT_FILTERS = ["upper", "lower", "trim", "length", "list", "first", "last", "string", "int", "float", "sort", "reverse",
                "tojson", "default('d', true)", "title", "capitalize", "replace('l', 'b')", "replace(old='l', new='__', count=1)",
                "unique|list", "indent", "indent(2, true)", "indent(width='> ', first=true, blank=true)", "wordcount", "center(9)",
                "center(width=20)", "truncate(6)", "truncate(length=5, killwords=true, end='~', leeway=0)", "urlencode", "count",
                "batch(3)|list", "slice(2)|list", "join('-')", "map('upper')|join", "int(default=7, base=16)", "trim('lx ')",
                "tojson(ensure_ascii=true)", "max", "min", "string|upper|list"]
LIST_FILTERS = ["sort(attribute='n')", "reverse", "unique", "map('string')", "map(attribute='n')", "map(attribute='role')",
                "select", "reject", "select('string')", "reject('none')", "selectattr('v')", "rejectattr('v', 'defined')",
                "selectattr('role', 'equalto', 'user')", "selectattr('role', 'in', ['user', 'system'])", "batch(2, '-')",
                "slice(3, fill_with=0)", "groupby('role')", "map('tojson')", "map(attribute='v', default='q')", "list",
                "map('default', 'q')", "map(attribute='function.parameters.a.type')", "select('mapping')", "list",
                "map(attribute='content')|select('string')", "rejectattr('content', 'none')", "map('list')"]
SOUND_TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "true", "false",
               "boolean", "integer", "float", "callable", "eq 1", "equalto s", "sameas none", "in [1, 'a', none]", "ne ''"]
LOOPED = ["index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem",
          "nextitem", "cycle('a', 'b', 3)", "changed(x)", "changed(x, y)", "nosuch", "previtem.role",
          "nextitem.role", "index % 2", "previtem is defined", "nextitem is not defined"]


class Maker:
    """Macros and loops around the place are known, so that calls, jumps and loop() stand where they can."""

    def __init__(self, rng):
        self.rng = rng
        self.macros = []
        self.loops = []  # "recursive" or "" from the outermost inwards; a macro's body starts over

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, share):
        return self.rng.random() < share

    def atom(self, depth):
        kind = self.rng.randrange(11 if depth > 0 else 6)
        if kind < 3:
            return self.pick(NAMES)
        if kind == 3:
            return str(self.rng.randrange(12))  # Jinja folds -3 ** x to -(3 ** x)
        if kind == 4:
            return "'" + self.pick(TEXTS) + "'"
        if kind == 5:
            return self.pick(LITERALS)
        if kind == 6:
            return "[" + ", ".join(self.expr(depth - 1) for _ in range(self.rng.randrange(3))) + "]"
        if kind == 7:
            return "{" + ", ".join(f"'{self.pick('abn')}': {self.expr(depth - 1)}"
                                   for _ in range(self.rng.randrange(3))) + "}"
        if kind == 8:
            return self.call(depth - 1)
        if kind == 9 and self.loops:
            return "loop." + self.pick(LOOPED)
        return "(" + self.expr(depth - 1) + ")"

    def arguments(self, depth):
        items = [self.expr(depth) for _ in range(self.rng.randrange(3))]
        items += [f"{n}={self.expr(depth)}" for n in "xyzk" if self.chance(0.15)]
        if self.chance(0.1):
            items.append("*" + self.pick(["l", "w", "[1]", "s"]))
        if self.chance(0.1):
            items.append("**" + self.pick(["ed", "{'y': 5}", "{'k': x}"]))
        return ", ".join(items)

    def call(self, depth):
        if self.macros:
            return f"{self.pick(self.macros)}({self.arguments(depth)})"
        return self.pick(["joiner('|')()", "cycler(1, 2).next()", "strftime_now('%Y %b')", "dict(d, q=1)",
                          "raise_exception('r')", "caller()", "x(1)"])

    def text_of(self, depth):
        """What has every method of a string, and goes through every filter of one."""
        base = self.pick(["s", "u", "csv", "pad", "m", "e", "xml", "q", "bos_token", "secret", f"({self.expr(depth)}|string)",
                          f"({self.expr(depth)} ~ '')", "'" + self.pick(TEXTS) + "'"])
        kind = self.rng.randrange(4)
        if kind == 0:
            return base + self.pick([m for m in METHODS if m.startswith(".") and "(" in m])
        if kind == 1:
            return f"{base}|{self.pick(TEXT_FILTERS)}"
        if kind == 2:
            return f"{base}[{self.pick(['', '1', '-3', '2'])}:{self.pick(['', '-1', '5'])}{self.pick(['', ':2', ':-1'])}]"
        return base

    def list_of(self, depth):
        base = self.pick(["l", "w", "p", "mix", "el", "messages", "tools", "range(4)", "d|items", "s|list", "d|dictsort"])
        kind = self.rng.randrange(3)
        if kind == 0:
            return f"{base}|{self.pick(LIST_FILTERS)}|{self.pick(['list', 'list', 'length', 'first', 'last', 'join', 'string', 'tojson'])}"
        if kind == 1 and base[0] not in "s" and "|" not in base:
            return f"{base}[{self.pick(['', '1', '-3', '2'])}:{self.pick(['', '-1', '5'])}{self.pick(['', ':2', ':-1'])}]"
        return f"{base}|{self.pick(['length', 'tojson', 'first', 'join', 'list', 'string', 'last'])}"

    def sound(self, depth):
        """An expression that seldom fails."""
        kind = self.rng.randrange(8)
        if kind < 2:
            return self.text_of(depth - 1)
        if kind < 4:
            return self.list_of(depth - 1)
        if kind == 4:
            return f"({self.sound(depth - 1)}) {self.pick(['~', '~', '==', '!=', 'and', 'or'])} ({self.sound(depth - 1)})"
        if kind == 5:
            return f"{self.atom(0)} is {self.pick(['', 'not '])}{self.pick(SOUND_TESTS)}"
        if kind == 6:
            return f"{self.sound(depth - 1)} if {self.atom(0)} is {self.pick(SOUND_TESTS)} else {self.sound(depth - 1)}"
        return f"({self.atom(0)}, {self.atom(0)})[{self.pick(['0', '1', '-1', '5'])}]|{self.pick(['string', 'default(1)', 'tojson'])}"

    def expr(self, depth):
        if self.chance(0.6):
            return self.sound(depth)
        if depth <= 0:
            return self.atom(0)
        kind = self.rng.randrange(12)
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
            tail = "" if self.chance(0.2) else f" else {self.expr(depth - 1)}"
            return f"{self.expr(depth - 1)} if {self.expr(depth - 1)}{tail}"
        if kind == 9:
            bounds = [self.pick(["", "", "1", "-1", "2", "n", self.atom(0)]) for _ in range(self.pick([2, 2, 3]))]
            return f"{self.pick(['s', 'l', 'w', 'u', 'messages', self.atom(depth - 1)])}[{':'.join(bounds)}]"
        if kind == 10:
            return f"{self.atom(0)}{self.pick(METHODS)}{self.pick(METHODS)}|{self.pick(FILTERS)}|{self.pick(FILTERS)}"
        return f"not {self.atom(depth - 1)}|{self.pick(FILTERS)}{self.pick(METHODS)}"

    def tag(self, body):
        return ("{%" + self.pick(["", "", "-", "+"]) + " " + body + " " +
                self.pick(["", "", "-", "+"]) + "%}")

    def text(self):
        return self.pick(SPACE) + self.pick(["", "t", "<x>", "e\n", "{", "}}", "%}", "é\u2028"]) + self.pick(SPACE)

    def loop(self, depth):
        target = self.pick(["x", "x", "x, y", "(x, y)", "x, (y, z)"])
        source = self.pick(["l", "p", "messages", "d.items()", "range(3)", "s", "tools", "d|dictsort", "messages[::-1]",
                            "w|batch(2)", "messages|groupby('role')", "el", "mix", self.expr(2)])
        test = self.pick(["", "", "", " if x", " if x is odd", " if not loop is defined", " if x.role != 'user'",
                          " if x is not string and y is defined"])
        recursive = " recursive" if self.chance(0.25) else ""
        self.loops.append(recursive)
        body = "".join("{{ loop." + self.pick(LOOPED) + " }}" for _ in range(self.rng.randrange(3)))
        body += self.block(depth)
        if recursive:
            down = self.pick(["x", "x.tool_calls", "l", "[x]", "x[1:]", "x|list", "x.content", "d.items()"])
            guard = self.pick(["x is iterable and x is not string and loop.depth < 3", "loop.depth < 3 and loop.first",
                               "x.tool_calls", "loop.depth0 == 0"])
            body += f"{self.tag('if ' + guard)}<{{{{ loop({down}) }}}}>{self.tag('endif')}"
        self.loops.pop()
        tail = self.pick(["", "", self.tag("else") + self.block(depth - 1)])
        return self.tag(f"for {target} in {source}{test}{recursive}") + body + tail + self.tag("endfor")

    def macro(self, depth):
        name = self.pick(["mac", "m2", "x"])
        signature = self.pick(["", "x", "x, y='dy'", "x=1, y=x", "x, y=d.a, z=missing", "z, caller=none", "y=l|length"])
        outer, self.loops = self.loops, []
        body = self.block(depth) + self.pick(["", "{{ caller(3) if caller is defined }}", "{{ kwargs }}{{ varargs }}", "{{ x }}",
                                              "{{ caller() }}", "{% for v in varargs %}{{ v }};{% endfor %}",
                                              "{% for k, v in kwargs.items() %}{{ k }}={{ v }};{% endfor %}"])
        self.loops = outer
        text = self.tag(f"macro {name}({signature})") + body + self.tag("endmacro")
        self.macros.append(name)
        return text + self.pick(["", "{{ " + name + ".name }}", "{{ " + self.call(1) + " }}"])

    def call_block(self, depth):
        signature = self.pick(["", "", "(z)", "(x, y=2)", "()"])
        outer, self.loops = self.loops, []
        body = self.block(depth) + self.pick(["", "{{ z }}", "{{ x }}", "C"])
        self.loops = outer
        return self.tag(f"call{signature} {self.pick(self.macros)}({self.arguments(1)})") + body + self.tag("endcall")

    def assignment(self):
        return self.tag("set " + self.pick([
            f"{self.pick('xyn')} = {self.expr(2)}", f"x, y = {self.pick(['y, x', '(1, 2)', 's[:2]', self.expr(1)])}",
            "ns = namespace(a=1)", "ns = namespace({'a': 1}, b=[])", f"ns.{self.pick('abc')} = {self.expr(2)}",
            "ns.a = ns.a ~ x", "ns.a = ns.a + 1", f"x = x ~ {self.expr(1)}", f"messages = messages{self.pick(METHODS)}",
            "ns.a, x = 1, 2", "mac = x", "loop = 3"]))

    def statement(self, depth):
        kind = self.rng.randrange(18)
        if self.loops and self.chance(0.12):
            jump = self.pick(["break", "continue"])
            return self.tag("if " + self.pick(["loop.index == 2", "loop.first", "x", self.expr(1)])) + self.tag(jump) + self.tag("endif")
        if depth <= 0 or kind < 4:
            sign = self.pick(["", "", "-", "+"])
            return "{{" + sign + " " + self.expr(2) + " " + self.pick(["", "", ", 1 "]) + self.pick(["", "-"]) + "}}"
        if kind == 4:
            elif_ = self.tag("elif " + self.expr(1)) + self.block(depth - 1) if self.chance(0.5) else ""
            else_ = self.tag("else") + self.block(depth - 1) if self.chance(0.5) else ""
            return self.tag("if " + self.expr(2)) + self.block(depth - 1) + elif_ + else_ + self.tag("endif")
        if kind in (5, 6, 7):
            return self.loop(depth - 1)
        if kind in (8, 9):
            return self.assignment()
        if kind == 10:
            return self.tag("set ns = namespace(a=1)") + self.block(depth - 1) + "{{ ns.a }}{{ ns.b }}"
        if kind == 11:
            filtered = self.pick(["", " | upper", " | trim", " | replace('e', 'E') | indent(2)", " | length"])
            target = self.pick(["x", "x", "y", "ns.a"])
            return self.tag(f"set {target}{filtered}") + self.block(depth - 1) + self.tag("endset")
        if kind in (12, 13):
            return self.macro(depth - 1)
        if kind == 14 and self.macros:
            return self.call_block(depth - 1)
        if kind == 15:
            return (self.tag("filter " + self.pick(["upper", "trim", "indent(2)", "replace('e', 'E')", "upper | trim",
                                                    "indent(width=1, first=true)", "truncate(9)", "length"])) +
                    self.block(depth - 1) + self.tag("endfilter"))
        if kind == 16:
            return self.tag(f"with {self.pick(['x = ' + self.expr(1) + ', y = x', '', 'x, y = (1, 2)'])}") + self.block(depth - 1) + self.tag("endwith")
        if self.chance(0.4):
            outer, self.loops = self.loops, []
            body = self.block(depth - 1)
            self.loops = outer
            return self.tag("generation") + body + self.tag("endgeneration")
        return self.pick(["{# c #}", "{#- c -#}", "{%- raw -%} {{ r }} {% endraw %}", "{% raw %}\n x {% y +%}\n{% endraw +%}",
                          "{%- raw -%} {% x {%- endraw -%}", "{#+ c +#}\n", "{# {{ x }} #}\n", "\n  {# c #}\n", "{% print x, 1 %}"])

    def block(self, depth):
        return "".join(self.text() + self.statement(depth)
                       for _ in range(self.rng.randrange(1, 3))) + self.text()

    def template(self):
        self.macros, self.loops = [], []
        return self.block(self.pick([1, 2, 2, 3, 3]))


UNSTABLE = re.compile(r" at 0x[0-9a-f]+|<generator|<(list_)?reverse|<builtin|<bound|<function|<Loop|<dict_|Markup", re.IGNORECASE)
# Known differences: 64-bit integers, Markup, what Python says of its own objects, and slices of constants, which
# Jinja folds.
SKIP = re.compile(r"\|(e|safe)\b")
OBJECTS = r"map|select|reject|selectattr|rejectattr|batch|slice|unique|items|reverse"
OBJECT_AS_TEXT = re.compile(rf"\|({OBJECTS})\b(\([^|~]*\))?\)*( ~|\|(string|wordcount|upper|lower|replace|trim|format|center|title))")


def differs(template, text, error, answer):
    if answer["status"] == "UNSUPPORTED" or answer["status"] == "LIMIT":
        return False
    if error is not None:
        return answer["status"] == "OK" and not SKIP.search(template)
    if UNSTABLE.search(text) or SKIP.search(template):
        return False
    known = ("64 bits", "cannot slice", "a slice needs")
    if answer["status"] != "OK" and any(k in answer["text"] for k in known):
        return False
    if OBJECT_AS_TEXT.search(template):
        return False
    return answer["status"] != "OK" or answer["text"] != text


def tells(answer):
    """The part of the output outside the spans that holds the secret, else None."""
    if answer["status"] != "OK":
        return None
    clear = bytearray(answer["text"].encode())
    for first, n in answer["spans"]:
        clear[first:first + n] = bytes(n)
    return re.search(r".{0,20}(zqx|qxj|xjk|jkv|vkj|kjx|jxq|xqz).{0,20}", clear.decode(errors="replace"), re.IGNORECASE)


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
        template = maker.template()
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
        told = tells(answer)
        if differs(template, text, error, answer) or told:
            n_bad += 1
            if n_bad <= args.show:
                print(f"#{i} {template!r}\n  jinja {text!r} {error or ''}\n  weft  {answer}")
                print(f"  untrusted text outside the spans: {told[0]!r}\n" if told else "", end="")
    print(f"{args.count} templates, {n_text} with a text, {n_bad} different")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
