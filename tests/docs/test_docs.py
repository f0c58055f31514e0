#!/usr/bin/env python3
"""test_docs.py - the documents against the program.

    tests/docs/test_docs.py WEFT SOURCE

docs/cli.md is what weft --help-markdown prints, so every command and option is in it and nothing else
is. In README.md each command of a console block runs, links lead somewhere, and the tables of what is
supported name every row of the tables in src/. Its server is started at a free port, and asked as its
clients are shown to ask: by curl and the package openai, or by the same requests where they are not there.
"""

import ast
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

WEFT = SOURCE = Path()
SECONDS = 300  # sanitizers are slow


def rows(table):
    """First fields of the rows of a .def, as written."""
    text = (SOURCE / "src" / table).read_text(encoding="utf-8")
    found = re.findall(r"^[A-Z_]+\((\w+)", text, re.MULTILINE)
    assert found, table
    return found


def console_blocks():
    """Of each in README.md the commands, which may have further lines behind their first."""
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", readme, re.MULTILINE | re.DOTALL):
        yield re.findall(r"^\$ (.*(?:\n    .*)*)", block, re.MULTILINE)


def post(url, body):
    request = urllib.request.Request(url, body.encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)


def output_of(words, folder):
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=SECONDS
    )
    return done.stdout.decode()


def ask_by_curl(words, folder):
    """The answer to curl URL -d BODY."""
    if shutil.which("curl"):
        return json.loads(output_of(words, folder))
    _, url, option, body = words
    assert option == "-d"
    return post(url, body)


def ask_by_openai(words, folder):
    """What python3 -c CODE prints, where CODE prints an attribute of one call of openai.OpenAI's."""
    if importlib.util.find_spec("openai"):
        return output_of([sys.executable, *words[1:]], folder).strip()
    code = words[2]
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    given = {ast.unparse(c.func): {k.arg: ast.literal_eval(k.value) for k in c.keywords} for c in calls}
    base = given["openai.OpenAI"]["base_url"]
    ((name, body),) = ((name, body) for name, body in given.items() if name.endswith(".create"))
    path = name[name.index(").") + 2 : -len(".create")].replace(".", "/")
    answer = post(f"{base}/{path}", json.dumps(body))
    # What output_text of the package is.
    return "".join(part["text"] for item in answer["output"] for part in item["content"])


class Docs(unittest.TestCase):
    maxDiff = None

    def test_cli(self):
        printed = subprocess.run(
            [WEFT, "--help-markdown"], capture_output=True, check=True, encoding="utf-8"
        ).stdout
        written = (SOURCE / "docs" / "cli.md").read_text(encoding="utf-8")
        self.assertEqual(written, printed, "write docs/cli.md by: weft --help-markdown > docs/cli.md")

    def test_cli_has_every_option_of_help(self):
        manual = (SOURCE / "docs" / "cli.md").read_text(encoding="utf-8")
        for command in rows("cli/commands/commands.def"):
            self.assertRegex(manual, rf"(?m)^## weft {command}( [A-Z\[a-z][^\s()]*)*$")
            text = subprocess.run(
                [WEFT, command, "--help"], capture_output=True, check=True, encoding="utf-8"
            ).stdout
            options = re.findall(r"^  (--?[\w-]+)", text, re.MULTILINE)
            self.assertIn("--help", options)
            for option in options:
                self.assertRegex(manual, rf"`?{re.escape(option)}\b")

    def test_readme_commands_run(self):
        commands = [
            command
            for block in console_blocks()
            if not block[0].startswith("weft serve ")
            for command in block
        ]
        self.assertTrue(commands)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "models").symlink_to(SOURCE / "models")
            for command in commands:
                with self.subTest(command=command):
                    words = shlex.split(command)
                    self.assertEqual(words[0], "weft")
                    subprocess.run(
                        [WEFT, *words[1:]],
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        check=True,
                    )

    def test_readme_server_answers(self):
        (block,) = (block for block in console_blocks() if block[0].startswith("weft serve "))
        words = [shlex.split(command) for command in block]
        self.assertEqual([w[0] for w in words], ["weft", "curl", "python3"])
        process = subprocess.Popen(
            [WEFT, *words[0][1:], "--port", "0", "-n", "40"],
            cwd=SOURCE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        timer = threading.Timer(2 * SECONDS, process.kill)
        timer.start()
        try:
            line = process.stderr.readline()
            self.assertRegex(line, r"127\.0\.0\.1:\d+$")
            address = re.search(r"127\.0\.0\.1:\d+", line).group()
            placed = [[w.replace("127.0.0.1:8080", address) for w in command] for command in words]
            self.assertTrue(all(address in " ".join(command) for command in placed[1:]))
            answer = ask_by_curl(placed[1], SOURCE)
            self.assertTrue(answer["choices"][0]["message"]["content"])
            self.assertTrue(ask_by_openai(placed[2], SOURCE))
            with urllib.request.urlopen(f"http://{address}/", timeout=SECONDS) as page:
                self.assertIn("text/html", page.headers["content-type"])
        finally:
            process.terminate()
            process.communicate()
            timer.cancel()
        self.assertEqual(process.returncode, 0)

    def test_readme_names_what_is_supported(self):
        readme = (SOURCE / "README.md").read_text(encoding="utf-8")
        for table in (
            "tensor/encodings.def",
            "kv/codecs/codecs.def",
            "formats/formats.def",
            "engine/drafters/drafters.def",
        ):
            path = SOURCE / "src" / table
            if not path.is_file():
                table = str(Path(table).parent.with_suffix(".def"))
            for row in rows(table):
                self.assertRegex(readme.lower(), rf"\b{row}\b", f"README.md does not name {row}")

    def test_server_has_every_endpoint_and_metric(self):
        manual = (SOURCE / "docs" / "server.md").read_text(encoding="utf-8")
        sources = "".join(
            path.read_text(encoding="utf-8")
            for path in sorted((SOURCE / "src" / "server" / "apis").glob("*.c"))
        )
        routes = {
            f"{method} {path}"
            for method, path in re.findall(r'\{"(GET|POST)", "([^"]+)",', sources)
        }
        self.assertTrue(routes)
        table = manual.split("## Endpoints")[1].split("##")[0]
        self.assertEqual(routes, set(re.findall(r"`((?:GET|POST) [^`]+)`", table)))
        metrics = set(re.findall(r'"((?:vllm|weft):[a-z0-9_]+)', sources))
        self.assertTrue(metrics)
        table = manual.split("## Metrics")[1].split("##")[0]
        self.assertEqual(metrics, set(re.findall(r"`((?:vllm|weft):[a-z0-9_]+)`", table)))
        fields = set()
        bodies = sorted((SOURCE / "src" / "server").rglob("*.c"))
        self.assertGreater(len(bodies), 20)
        for name in bodies:
            text = name.read_text(encoding="utf-8")
            fields |= set(re.findall(r'\{"(\w+)", FIELD_(?!IGNORED|REFUSED)', text))
        self.assertIn("max_output_tokens", fields)
        inner = {"json", "choice", "regex", "json_object"}  # of structured_outputs
        for field in sorted(fields - inner):
            self.assertIn(f"`{field}`", manual, f"docs/server.md does not name {field}")

    def test_dialects(self):
        page = (SOURCE / "docs/chat.md").read_text(encoding="utf-8")
        table = page[page.index("| dialect |") :]
        found = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        self.assertEqual(found, rows("chat/dialects/dialects.def"))

    def test_links(self):
        for path in [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *SOURCE.glob("docs/*.md")]:
            text = path.read_text(encoding="utf-8")
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
                if not target.startswith(("http://", "https://")):
                    with self.subTest(file=path.name, target=target):
                        self.assertTrue((path.parent / target).exists())


def main():
    global WEFT, SOURCE
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    WEFT, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Docs)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
