#!/usr/bin/env python3
"""test_cli.py - the program from outside, on the models of the repository.

    tests/cli/test_cli.py WEFT SOURCE [CLASS]...

The checkpoints of tests/golden lie beside the program, in golden/.
"""

import array
import fcntl
import json
import math
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import zlib
from pathlib import Path

WEFT = SOURCE = GOLDEN = Path()
SECONDS = 120  # sanitizers are slow


def run(*words, **options):
    """stdin is empty unless given; output is text."""
    options.setdefault("input", "")
    return subprocess.run(
        [WEFT, *map(str, words)],
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=SECONDS,
        check=False,
        **options,
    )


def model(name):
    return SOURCE / "models" / "tiny" / name


def read_tensors(path):
    """name -> (dtype, shape, numbers) of a .safetensors file."""
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, row in json.loads(data[8 : 8 + n]).items():
        first, last = row["data_offsets"]
        values = array.array({"I32": "i", "F32": "f"}[row["dtype"]], data[8 + n + first : 8 + n + last])
        tensors[name] = (row["dtype"], row["shape"], values)
    return tensors


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def fine(self, *words, **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def sentence(self, status, *words, **options):
        """Fails with the status and one sentence, which is returned."""
        done = run(*words, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"\Aweft: [^\n]+\n\Z")
        self.assertNotRegex(done.stderr, r"[\x00-\x09\x0b-\x1f]")
        return done.stderr

    def copy_model(self, name="draft"):
        target = self.folder / name
        shutil.copytree(model(name), target)
        for path in target.iterdir():
            path.chmod(0o644)
        return target


class Usage(Case):
    def test_help(self):
        self.assertEqual(self.fine("--version"), "weft 0.1.0\n")
        text = self.fine("--help")
        for command in ("run", "serve", "tokenize", "embed", "inspect", "fit", "bench", "logits", "eval", "selfcheck", "convert", "pull", "list", "rm"):
            self.assertIn(f"  {command} ", text)
            self.assertRegex(self.fine(command, "--help"), rf"\Ausage: weft {command} (\S+ )*\[options\]\n")
            self.assertEqual(self.fine(command, "-h"), self.fine(command, "--help"))
        for line in self.fine("run", "--help").split("\n"):
            self.assertLessEqual(len(line), 100)

    def test_wrong_usage_is_2(self):
        draft = model("draft")
        for words, part in (
            ([], "which command"),
            (["nonsense"], "nonsense"),
            (["run"], "MODEL"),
            (["run", draft, "another"], "another"),
            (["run", draft, "--nonsense"], "--nonsense"),
            (["run", draft, "-z"], "-z"),
            (["run", draft, "-p"], "-p needs a value"),
            (["run", draft, "--temp"], "--temp needs a value"),
            (["run", draft, "--raw=1"], "--raw takes no value"),
            (["run", draft, "-p", "x", "-n", "0"], "'0'"),
            (["run", draft, "-p", "x", "-n", "4x"], "'4x'"),
            (["run", draft, "-p", "x", "--temp", "nan"], "'nan'"),
            (["run", draft, "-p", "x", "--temp", "-1"], "'-1'"),
            (["run", draft, "-p", "x", "--temp", "101"], "'101'"),
            (["run", draft, "-p", "x", "--top-p", "0"], "'0'"),
            (["run", draft, "-p", "x", "--typical-p", "0"], "'0'"),
            (["run", draft, "-p", "x", "--repetition-penalty", "0"], "'0'"),
            (["run", draft, "-p", "x", "--presence-penalty", "2.5"], "'2.5'"),
            (["run", draft, "-p", "x", "--xtc-threshold", "0.6"], "'0.6'"),
            (["run", draft, "-p", "x", "--top-logprobs", "33"], "'33'"),
            (["run", draft, "-p", "x", "--logit-bias", "7"], "--logit-bias is '7'"),
            (["run", draft, "-p", "x", "--logit-bias", "7=101"], "'7=101'"),
            (["run", draft, "-p", "x", "--logit-bias", "-1=1"], "'-1=1'"),
            (["run", draft, "-p", "x", *["--stop", "x"] * 17], "--stop is there more than 16 times"),
            (["run", draft, "-p", "x", "--seed", "18446744073709551616"], "18446744073709551616"),
            (["run", draft, "-p", "x", "--memory", "2T"], "'2T'"),
            (["run", draft, "-p", "x", "--memory", "18014398509481984K"], "18014398509481984K"),
            (["run", draft, "-p", "x", "--backend", "gpu"], "cpu|ref"),
            (["run", draft, "-p", "x", "--act", ""], "bf16|f32"),
            (["run", draft, "-p", "x", "--kv", "q99"], "q99"),
            (["run", draft, "-p", "x", "--context", "4000"], "4000"),
            (["run", draft, "-p", "x", "--raw", "--system", "s"], "--system"),
            (["tokenize", draft], "one of"),
            (["tokenize", draft, "-p", "x", "--jsonl", "-"], "only one of"),
            (["tokenize", draft, "-p", "x", "--render"], "--template"),
            (["tokenize", draft, "-p", "[1]", "--decode", "--plain"], "--decode"),
            (["logits", draft, "--out", "x"], "one of"),
            (["logits", draft, "--ids", "1", "-p", "x", "--out", "x"], "only one of"),
            (["logits", draft, "--ids", "1,,2", "--out", "x"], "''"),
            (["logits", draft, "--ids", "1"], "--out"),
            (["eval", "--text", "x", draft], "which eval, ppl|kl?"),
            (["eval", draft, "--text", "x"], "after eval, expected ppl|kl"),
            (["eval", "mean", draft, "--text", "x"], "'mean' after eval, expected ppl|kl"),
            (["eval", "ppl", draft], "--text"),
            (["eval", "ppl", draft, "--text", "x", "--against-kv", "f32"], "belong to kl"),
            (["eval", "kl", draft, "--text", "x"], "--against"),
            (["eval", "kl"], "MODEL is missing"),
            (["convert"], "SRC is missing"),
            (["convert", draft], "DST is missing"),
            (["convert", draft, "a", "b"], "'b' is one word too many after DST 'a'"),
            (["convert", draft, "x", "--bits", "7"], "not 7 bits"),
            (["convert", draft, "x", "--group", "48"], "groups of 48"),
            (["convert", draft, "x", "--mode", "q4"], "affine|mxfp4|nvfp4|mxfp8"),
            (["convert", draft, "x", "--mode", "mxfp4", "--bits", "8"], "mxfp4 has 4 bits"),
            (["convert", draft, draft], "is there already"),
            (["bench", draft, "--batch", "1,x"], "'1,x'"),
            (["bench", draft, "--batch", "0"], "'0'"),
            (["bench", draft, "--prompt", ",".join("1" * 33)], "at most 32"),
        ):
            with self.subTest(words=words):
                self.assertIn(part, self.sentence(2, *words))

    def test_bytes(self):
        for size in ("1G", "64M", "131072K", "100000000"):
            self.fine("run", model("draft"), "-p", "x", "-n", "1", "--memory", size)
        self.assertIn("4096", self.sentence(1, "run", model("draft"), "-p", "x", "--memory", "4K"))

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for words in (["--help"], ["inspect", model("draft")], ["tokenize", model("draft"), "-p", "x"]):
                done = subprocess.run([WEFT, *map(str, words)], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr.decode(), r"\Aweft: cannot write the output[^\n]*\n\Z")

    def test_file_beyond_a_limit(self):
        """A process may be limited in what it writes: a failed write like another, and nothing stays."""

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))

        out = self.folder / "out"
        for words in (
            ["convert", model("draft"), out, "--threads", "1"],
            ["logits", model("draft"), "--ids", ",".join(["1"] * 40), "--out", out],
        ):
            self.assertIn("File too large", self.sentence(1, *words, preexec_fn=limit))
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_reader_that_leaves(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            done = subprocess.run(
                [WEFT, "run", model("draft"), "-p", "Tell me a story."],
                stdout=pipe,
                stderr=subprocess.PIPE,
            )
        self.assertEqual((done.returncode, done.stderr), (1, b""))


class Failures(Case):
    """What is wrong with a model or a prompt is one sentence that names it."""

    def test_path(self):
        self.assertIn("nowhere", self.sentence(1, "run", self.folder / "nowhere", "-p", "x"))
        self.assertIn(str(self.folder), self.sentence(1, "run", self.folder, "-p", "x"))
        self.sentence(1, "inspect", "/dev/null")

    def test_name_with_an_escape_sequence(self):
        self.assertIn("?[31m", self.sentence(1, "inspect", self.folder / "\x1b[31mred"))

    def test_truncated_file(self):
        path = self.copy_model()
        weights = path / "model.safetensors"
        size = weights.stat().st_size
        for n in (0, 5, 100, size // 2, size - 1):
            with self.subTest(n=n):
                os.truncate(weights, n)
                self.assertIn("model.safetensors", self.sentence(1, "inspect", path))
                shutil.copyfile(model("draft") / "model.safetensors", weights)

    def test_file_cut_in_use(self):
        path = self.copy_model()
        weights = path / "model.safetensors"
        words = [WEFT, "embed", path, "--file", "-", "--batch", "1", "--format", "plain"]
        with subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdin.write(b"one\ntwo\n")
            process.stdin.flush()
            self.assertTrue(process.stdout.readline())
            os.truncate(weights, 4096)
            _, failure = process.communicate(b"three\nfour\n", timeout=SECONDS)
        self.assertEqual((process.returncode, failure), (1, b"weft: a file was cut while it was in use, or cannot be read\n"))

    def test_wrong_shape(self):
        path = self.copy_model()
        weights = path / "model.safetensors"
        data = weights.read_bytes()
        name = b'"model.layers.1.mlp.up_proj.weight"'
        at = data.index(b'"shape":[', data.index(name))
        end = data.index(b"]", at)
        changed = b'"shape":[128,384'
        self.assertEqual(len(changed), end - at)
        self.assertNotEqual(changed, data[at:end])
        weights.write_bytes(data[:at] + changed + data[end:])
        text = self.sentence(1, "inspect", path)
        self.assertIn("model.layers.1.mlp.up_proj.weight", text)
        self.assertIn("128", text)
        self.assertIn("384", text)

    def test_unknown_architecture(self):
        path = self.copy_model()
        config = json.loads((path / "config.json").read_text())
        config["model_type"] = "nonesuch"
        config["architectures"] = ["NonesuchForCausalLM"]
        (path / "config.json").write_text(json.dumps(config))
        self.assertIn("nonesuch", self.sentence(1, "run", path, "-p", "x").lower())

    def test_output_is_not_the_model(self):
        target = self.copy_model()
        before = (target / "model.safetensors").read_bytes()
        for out in ("model.safetensors", "config.json", "new.safetensors"):
            message = self.sentence(2, "logits", target, "--ids", "1,2", "--out", target / out)
            self.assertIn("belongs to the model", message)
        self.assertEqual((target / "model.safetensors").read_bytes(), before)
        self.fine("logits", target, "--ids", "1,2", "--out", self.folder / "out.safetensors")

    def test_normalizer_that_lengthens(self):
        target = self.copy_model()
        path = target / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["normalizer"] = {"type": "NFKC"}
        path.write_text(json.dumps(tokenizer))
        one = json.loads(self.fine("tokenize", target, "-p", "\ufdfa"))
        many = json.loads(self.fine("tokenize", target, "-p", "\ufdfa" * 40))
        self.assertGreater(len(one), 11)
        self.assertGreater(len(many), 400)

    def test_broken_tokenizer_is_one_sentence(self):
        target = self.copy_model()
        (target / "tokenizer_config.json").write_text("")
        message = self.sentence(1, "run", target, "-p", "x")
        self.assertEqual(message.count("weft: "), 1, message)
        lines = self.folder / "lines"
        lines.write_text('"a"\n')
        message = self.sentence(1, "tokenize", target, "--jsonl", lines)
        self.assertNotIn("line 1: token", message)
        self.assertNotIn(str(lines), message)

    def test_missing_tokenizer(self):
        path = self.copy_model()
        (path / "tokenizer.json").unlink()
        self.assertIn("tokenizer", self.sentence(1, "run", path, "-p", "x"))
        self.assertIn("tokenizer", self.sentence(1, "tokenize", path, "-p", "x"))
        # Ids need none.
        self.fine("logits", path, "--ids", "1,2", "--out", self.folder / "out")

    def test_prompts(self):
        draft = model("draft")
        text = self.sentence(1, "run", draft, "-p", "hello " * 3000)
        self.assertRegex(text, r"\d+ tokens.*2048")
        self.assertIn("64", self.sentence(1, "run", draft, "-p", "hello " * 100, "--context", "64"))
        self.sentence(1, "run", draft, "--raw", "-p", "")
        out = self.folder / "out"
        self.assertIn("4096", self.sentence(1, "logits", draft, "--ids", "1,4096", "--out", out))
        text = self.sentence(1, "logits", draft, "--ids", "1", "--gen", "2048", "--out", out)
        self.assertIn("2048", text)
        self.assertFalse(out.exists())
        text = self.sentence(1, "logits", draft, "--ids", "1", "--out", self.folder / "no" / "out")
        self.assertIn("no/out", text)
        self.assertIn("2048", self.sentence(1, "bench", draft, "--context", "3000"))

    def test_lines(self):
        draft = model("draft")
        for text, part in (
            ('"a"\n"b\n', "line 2"),
            ('"a"\n"b"\n[1]\n', "line 3: expected a string, found array"),
            ("\n", "line 1"),
            ('"\\ud800"\n', "line 1"),
        ):
            done = run("tokenize", draft, "--jsonl", "-", input=text)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
        for text in ("[1,4096]\n", "[-1]\n", "[1.0]\n", '["a"]\n', "3\n"):
            done = run("tokenize", draft, "--jsonl", "-", "--decode", input=text)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("line 1", done.stderr)


class Text(Case):
    TEXTS = [
        "",
        "Hello, world!",
        " two  spaces ",
        "naïve café – 東京 🦊\n\ttab",
        "<|user|>\nhi<|end|>",
        "1234567890",
        "\u200d\ufeff",
    ]

    def tokenize(self, texts, *words):
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        out = self.fine("tokenize", model("draft"), "--jsonl", "-", *words, input=lines)
        return [json.loads(line) for line in out.splitlines()]

    def test_round_trip(self):
        ids = self.tokenize(self.TEXTS)
        self.assertEqual(len(ids), len(self.TEXTS))
        self.assertEqual(self.tokenize(ids, "--decode"), self.TEXTS)
        plain = self.tokenize(self.TEXTS, "--plain")
        self.assertEqual(self.tokenize(plain, "--decode"), self.TEXTS)
        self.assertEqual(
            [a == b for a, b in zip(ids, plain)], ["<|" not in text for text in self.TEXTS]
        )
        path = self.folder / "texts.jsonl"
        path.write_text("".join(json.dumps(t, ensure_ascii=False) + "\n" for t in self.TEXTS))
        out = self.fine("tokenize", model("draft"), "--jsonl", path)
        self.assertEqual([json.loads(line) for line in out.splitlines()], ids)

    def test_one_text(self):
        for text in self.TEXTS:
            ids = self.fine("tokenize", model("draft"), "-p", text)
            self.assertEqual([json.loads(ids)], self.tokenize([text]))
            back = self.fine("tokenize", model("draft"), "-p", ids, "--decode")
            self.assertEqual(json.loads(back), text)

    def test_cut_characters(self):
        """An answer may end within a character: what is printed is UTF-8 behind every token."""
        for name in ("draft", "target-mlx8"):
            text = "a \U0001f9d1\u200d\U0001f680"
            ids = json.loads(self.fine("tokenize", model(name), "-p", text))
            self.assertGreater(len(ids), 4)
            for n in range(len(ids) + 1):
                done = self.fine("tokenize", model(name), "-p", json.dumps(ids[:n]), "--decode")
                whole = json.loads(done.encode("utf-8", "surrogateescape").decode("utf-8"))
                self.assertTrue(text.startswith(whole.rstrip("\ufffd")), whole)
                self.assertEqual(whole == text, n == len(ids))

    def test_conversations(self):
        cases = json.loads((model("reference.json")).read_text())["models"]["draft"]["cases"]
        path = self.folder / "messages.json"
        for case in cases:
            path.write_text(json.dumps(case["messages"]))
            words = ["tokenize", model("draft"), "--template", path]
            self.assertEqual(self.fine(*words, "--render"), case["rendered"])
            self.assertEqual(json.loads(self.fine(*words)), case["prompt_ids"])
            done = self.fine(*words, "--render", "--no-generation-prompt")
            self.assertEqual(done + "<|assistant|>\n", case["rendered"])
            piped = self.fine("tokenize", model("draft"), "--template", "-", input=path.read_text())
            self.assertEqual(json.loads(piped), case["prompt_ids"])

    def test_what_a_template_is_given(self):
        target = self.copy_model()
        (target / "chat_template.jinja").write_text(
            "{{ tools is none }} {{ documents is none }} {{ tools is defined and documents is defined }} "
            "{{ tools | length if tools is not none }} {{ messages[0].content }} {{ add_generation_prompt }}")
        words = ["tokenize", target, "--template", "-", "--render"]
        for text in ("hi", ".", ""):
            messages = json.dumps([{"role": "user", "content": text}])
            self.assertEqual(self.fine(*words, input=messages), f"True True True  {text} True")
        tools = self.folder / "tools.json"
        tools.write_text("[{}, {}]")
        self.assertEqual(self.fine(*words, "--tools", tools, input=messages), "False True True 2  True")

    def test_broken_conversations(self):
        for text in ("", "{}", "[1]", "[", '[{"role":"user"'):
            words = ["tokenize", model("draft"), "--template", "-"]
            self.sentence(1, *words, input=text)

    def test_control_characters_on_a_terminal(self):
        path = self.folder / "messages.json"
        path.write_text(json.dumps([{"role": "user", "content": "\x1b[31mred\x07\x7f\x9b"}]))
        words = ["tokenize", model("draft"), "--template", path, "--render"]
        self.assertIn("\x1b[31mred\x07", self.fine(*words))
        shown = Terminal(words, stdout_only=True).read_to_end()
        self.assertIn("␛[31mred␇␡�", shown)
        self.assertNotIn("\x1b", shown)


class Logits(Case):
    def logits(self, name, *words):
        out = self.folder / "out.safetensors"
        self.fine("logits", model(name), *words, "--out", out)
        return read_tensors(out)

    def test_file(self):
        tensors = self.logits("draft", "--ids", "2,203,469", "--gen", "4")
        self.assertEqual(list(tensors), ["input_ids", "logits", "gen_ids", "gen_logits"])
        self.assertEqual(tensors["input_ids"][:2], ("I32", [3]))
        self.assertEqual(list(tensors["input_ids"][2]), [2, 203, 469])
        self.assertEqual(tensors["logits"][:2], ("F32", [3, 4096]))
        self.assertEqual(tensors["gen_ids"][:2], ("I32", [4]))
        self.assertEqual(tensors["gen_logits"][:2], ("F32", [4, 4096]))
        rows = tensors["gen_logits"][2]
        self.assertEqual(rows[:4096], tensors["logits"][2][2 * 4096 :])
        for i, token in enumerate(tensors["gen_ids"][2]):
            row = rows[i * 4096 : (i + 1) * 4096]
            self.assertEqual(row.index(max(row)), token)
        self.assertEqual(list(self.logits("draft", "--ids", "7")), ["input_ids", "logits"])
        # The header is padded, so that the numbers are aligned.
        (n,) = struct.unpack("<Q", (self.folder / "out.safetensors").read_bytes()[:8])
        self.assertEqual(n % 8, 0)

    def test_text_is_its_ids(self):
        ids = json.loads(self.fine("tokenize", model("draft"), "-p", "A fox", "--specials"))
        tensors = self.logits("draft", "-p", "A fox")
        self.assertEqual(list(tensors["input_ids"][2]), ids)

    def test_chunks_and_threads_change_nothing(self):
        ids = ",".join(str(i * 37 % 4096) for i in range(150))
        for name in ("target-mlx8", "window-mlx4"):
            first = self.logits(name, "--ids", ids, "--gen", "3")
            for words in (["--chunk", "1"], ["--chunk", "17"], ["--threads", "1"], ["--threads", "3"]):
                with self.subTest(name=name, words=words):
                    again = self.logits(name, "--ids", ids, "--gen", "3", *words)
                    for key, value in first.items():
                        self.assertEqual(value[2].tobytes(), again[key][2].tobytes(), key)

    def test_rules_for_layers(self):
        ids = ",".join(str(i * 37 % 4096) for i in range(70))
        plain = self.logits("window-mlx4", "--ids", ids, "--kv", "k=f16,v=tv4")["logits"][2]
        for spec in ("turbo-k8v4,0..-1.k=f16", "v=tv4,0..2.k=f16,-3..5.k=f16", "k=f16,v=tv4,1=q8_0"):
            rules = self.logits("window-mlx4", "--ids", ids, "--kv", spec)["logits"][2]
            self.assertEqual(rules == plain, "q8_0" not in spec, spec)
        words = ["--ids", ids, "--act", "f32", "--kv", "affine4g64,0..1=bf16,2=turbo-k8v3,-2.v=tv5,start=40"]
        fast = self.logits("window-mlx4", *words)["logits"][2]
        slow = self.logits("window-mlx4", *words, "--backend", "ref")["logits"][2]
        self.assertLess(max(abs(x - y) for x, y in zip(fast, slow)), 1e-3)
        for status, spec, part in (
            (2, "bf16,0=f16", "kv override for layer 0: layer 0 is recurrent"),
            (2, "bf16,-7=f16", "kv override for layer -7: the model has 6 layers"),
            (2, "bf16,2=nonsense", "unknown kv codec 'nonsense'"),
            (1, "bf16,2.start=5", "'2.start=5'"),
        ):
            words = ["logits", model("hybrid-mlx4"), "--ids", "1", "--out", self.folder / "out"]
            self.assertIn(part, self.sentence(status, *words, "--kv", spec))

    def test_reference(self):
        """Greedy tokens of the reference implementation, in f32 from bf16 weights."""
        case = json.loads((model("reference.json")).read_text())["models"]["draft"]["cases"][0]
        ids = ",".join(map(str, case["prompt_ids"]))
        tensors = self.logits("draft", "--ids", ids, "--gen", "32", "--act", "f32")
        self.assertEqual(list(tensors["gen_ids"][2]), case["greedy"][:32])
        for token, value in zip(case["first_top5"]["ids"], case["first_top5"]["logits"]):
            self.assertAlmostEqual(tensors["gen_logits"][2][token], value, delta=0.01)


def png(path, width, height, pixel):
    """Writes a PNG of three colours; pixel(x, y) gives them."""
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(x, y)) for y in range(height))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    return path


TEMPLATE = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<begin><image><end>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)


def seeing_model(folder):
    """The golden that sees images, with words for its ids."""
    shutil.copytree(GOLDEN / "qwen3_5-vision", folder, copy_function=shutil.copyfile)
    words = [f"w{i}" for i in range(128)]
    words[120:123] = ["<begin>", "<end>", "<image>"]
    added = [{"id": i, "content": words[i], "special": True} for i in range(120, 123)]
    added = [dict(row, single_word=False, lstrip=False, rstrip=False, normalized=False) for row in added]
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "w0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


class Embed(Case):
    TEXTS = ["Tell me a story about a fox.", "The fox", 'a "line"\nand another', "Zürich 你好"]

    def vectors(self, *words, **options):
        lines = self.fine("embed", model("draft"), *words, **options).splitlines()
        return [json.loads(line) for line in lines]

    def lines(self, name="texts"):
        path = self.folder / name
        path.write_text("".join(json.dumps(text) + "\n" for text in self.TEXTS), encoding="utf-8")
        return path

    def test_words_and_files_say_the_same(self):
        words = self.vectors(*self.TEXTS)
        self.assertEqual([v["index"] for v in words], [0, 1, 2, 3])
        self.assertEqual(words, self.vectors("--jsonl", self.lines()))
        self.assertEqual(words, self.vectors("--jsonl", "-", input=self.lines().read_text("utf-8")))
        for text, v in zip(self.TEXTS, words):
            self.assertEqual(v["embedding"], self.vectors(text)[0]["embedding"])
            ids = json.loads(self.fine("tokenize", model("draft"), "-p", text, "--specials"))
            self.assertEqual(v["tokens"], len(ids))
            self.assertAlmostEqual(math.hypot(*v["embedding"]), 1, 6)
        plain = self.folder / "plain"
        plain.write_text(self.TEXTS[0] + "\n" + self.TEXTS[1], encoding="utf-8")
        self.assertEqual(words[:2], self.vectors("--file", plain))
        self.assertEqual(words[:2], self.vectors("--file", "-", input=plain.read_text("utf-8")))

    def test_company_changes_nothing(self):
        alone = self.vectors("--jsonl", self.lines(), "--batch", 1, "--threads", 1)
        self.assertEqual(alone, self.vectors("--jsonl", self.lines(), "--threads", 2))
        self.assertEqual(alone, self.vectors("--jsonl", self.lines(), "--batch", 3))

    def test_pooling_and_length(self):
        text = self.TEXTS[0]
        (tokens,) = self.vectors(text, "--pooling", "none", "--no-normalize")
        rows = tokens["embedding"]
        self.assertEqual(len(rows), tokens["tokens"])
        for name, expected in (("last", rows[-1]), ("first", rows[0])):
            (one,) = self.vectors(text, "--pooling", name, "--no-normalize")
            self.assertEqual(one["embedding"], expected)
        (mean,) = self.vectors(text, "--pooling", "mean", "--no-normalize")
        for number, column in zip(mean["embedding"], zip(*rows)):
            self.assertAlmostEqual(number, sum(column) / len(rows), 5)
        (short,) = self.vectors(text, "--dims", 5, "--pooling", "mean", "--normalize")
        length = math.hypot(*mean["embedding"][:5])
        for a, b in zip(short["embedding"], mean["embedding"][:5]):
            self.assertAlmostEqual(a, b / length, 5)
        self.assertEqual(self.vectors(text), self.vectors(text, "--pooling", "last", "--normalize"))

    def test_formats(self):
        expected = [v["embedding"] for v in self.vectors(*self.TEXTS)]
        plain = self.fine("embed", model("draft"), *self.TEXTS, "--format", "plain")
        rows = [[float(word) for word in line.split(" ")] for line in plain.splitlines()]
        self.assertEqual(rows, expected)
        done = subprocess.run(
            [WEFT, "embed", model("draft"), *self.TEXTS, "--format", "raw"],
            capture_output=True, timeout=SECONDS, check=True,
        )
        numbers = array.array("f", done.stdout)
        self.assertEqual(list(numbers), [n for row in expected for n in (array.array("f", row))])

    def test_failures(self):
        draft = model("draft")
        for words, part in (
            ([], "one of texts, --file and --jsonl is needed"),
            (["a", "--file", "b"], "only one of texts"),
            (["a", "--normalize", "--no-normalize"], "do not go together"),
            (["a", "--pooling", "max"], "last|mean|first|none"),
            (["a", "--dims", "0"], "'0'"),
            (["a", "--dims", "100000"], "--dims is 100000, the model's vectors have"),
            (["a", "--batch", "257"], "'257'"),
        ):
            with self.subTest(words=words):
                self.assertIn(part, self.sentence(2, "embed", draft, *words))
        self.assertIn("cannot open", self.sentence(1, "embed", draft, "--file", self.folder / "none"))
        bad = self.folder / "bad"
        bad.write_text('"fine"\n[1]\n"not reached"\n', encoding="utf-8")
        done = run("embed", draft, "--jsonl", bad)
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 2: expected a string", done.stderr)
        self.assertEqual([json.loads(line)["index"] for line in done.stdout.splitlines()], [0])
        said = self.sentence(1, "embed", draft, "fox " * 400, "--context", "64")
        self.assertRegex(said, r"text 1: the prompt has \d+ tokens, the context holds 64")
        said = self.sentence(1, "embed", GOLDEN / "bert", "a")
        self.assertIn("no tokenizer", said)


class Run(Case):
    def answer(self, *words, **options):
        return self.fine("run", model("draft"), "-n", "24", *words, **options)

    def test_answer(self):
        text = self.answer("-p", "Tell me a story.", "--temp", "0")
        self.assertTrue(text.endswith("\n"))
        self.assertGreater(len(text), 40)
        self.assertEqual(self.answer(input="Tell me a story.\n", *["--temp", "0"]), text)
        done = run("run", model("draft"), "-p", "Tell me a story.", "-n", "5")
        self.assertRegex(
            done.stderr,
            r"\A\[\d+ prompt tokens, [\d.]+ tok/s; 5 new tokens, [\d.]+ tok/s; "
            r"first token after [\d.]+ s; stopped at -n 5\]\n\Z",
        )

    def test_forms(self):
        """The answer is what it must be, and as soon as it can be."""
        schema = self.folder / "schema.json"
        schema.write_text(json.dumps({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "old": {"type": "boolean"}}, "required": ["name", "old"], "additionalProperties": False}))
        rules = self.folder / "rules"
        rules.write_text('root ::= "(" [a-z]+ ")" | [0-9]{3}\n')
        words = ["-p", "Who?", "--seed", "4", "--temp", "1.0"]
        big = ["run", model("target-mlx8"), "-n", "200", *words]
        value = json.loads(self.fine(*big, "--schema", schema))
        self.assertEqual(list(value), ["name", "old"])
        self.assertRegex(self.fine(*big, "--regex", "(yes|no), [0-9]{2}"), r"\A(yes|no), \d\d\n\Z")
        self.assertRegex(self.fine(*big, "--rules", rules), r"\A(\([a-z]+\)|\d{3})\n\Z")
        self.assertIn("exclude", self.sentence(2, *big, "--regex", "a", "--rules", rules))
        schema.write_text('{"type": "object", "properties": {"a": "b"}}')
        self.assertIn("/properties/a", self.sentence(1, *big, "--schema", schema))

    def test_images(self):
        seeing = seeing_model(self.folder / "m")
        first = png(self.folder / "a.png", 64, 48, lambda x, y: (x * 4, y * 5, 0))
        second = png(self.folder / "b.png", 16, 64, lambda x, y: (255, x * y % 256, 7))

        def answer(*images):
            words = [word for image in images for word in ("--image", image)]
            return json.loads(self.fine("run", seeing, "-p", "w5 w6", *words, "-n", "6", "--temp", "0", "--json"))

        # 64 by 48 pixels are made 80 by 64, 16 by 64 are 32 by 112: squares of 16, between two tokens.
        self.assertEqual(answer(first)["prompt_tokens"], 2 + 22)
        self.assertEqual(answer(first, second)["prompt_tokens"], 2 + 22 + 16)
        self.assertEqual(answer(first)["ids"], answer(first)["ids"])
        answers = {str(answer(*images)["ids"]) for images in ([first], [second], [first, second], [second, first])}
        self.assertGreater(len(answers), 1)
        wrong = self.folder / "c.png"
        wrong.write_text("no image")
        self.assertIn("neither JPEG nor PNG", self.sentence(1, "run", seeing, "-p", "w5", "--image", wrong))
        self.assertIn("nowhere", self.sentence(1, "run", seeing, "-p", "w5", "--image", self.folder / "nowhere"))
        self.assertIn("sees no images", self.sentence(1, "run", model("draft"), "-p", "a", "--image", first))
        raw = self.sentence(1, "run", seeing, "--raw", "-p", "w5", "--image", first)
        self.assertIn("0 placeholders", raw)

    def test_answers_are_utf8(self):
        """Tokens drawn nearly evenly hold any bytes, and the answer ends behind any of them."""
        words = ["--raw", "-p", "a", "--temp", "100", "--top-k", "0", "--top-p", "1"]
        for seed in range(8):
            for json_flag in ([], ["--json"]):
                done = run("run", model("draft"), *words, "-n", 16 + seed, "--seed", seed, *json_flag)
                self.assertEqual(done.returncode, 0, done.stderr)
                done.stdout.encode("utf-8", "surrogateescape").decode("utf-8")

    def test_short_prompts(self):
        """Shorter than any look-back, block or window: down to one token."""
        names = ["draft", "target-mlx8", "window-mlx4"]
        if run("inspect", model("hybrid-mlx4")).returncode == 0:
            names.append("hybrid-mlx4")
        for name in names:
            for words in (["-p", "hi"], ["-p", "."], ["--raw", "-p", "a"], ["--raw", "-p", "."]):
                with self.subTest(model=name, words=words):
                    words = [*words, "-n", "2", "--temp", "0", "--json"]
                    answer = json.loads(self.fine("run", model(name), *words))
                    self.assertGreaterEqual(answer["new_tokens"], 1)
                    if "--raw" in words:
                        self.assertEqual(answer["prompt_tokens"], 1)

    def test_drafts(self):
        """The same answer, and how many of its tokens were guessed."""
        words = ["-p", "a b a b a b a b a b a b", "--raw", "-n", "60", "--json"]
        for temperature in ("0", "0.7"):
            more = [*words, "--temp", temperature, "--seed", "3"]
            plain = json.loads(self.answer(*more))
            drafted = json.loads(self.answer(*more, "--draft", "ngram"))
            self.assertEqual(drafted["ids"], plain["ids"])
            self.assertLessEqual(drafted["accepted"], drafted["drafted"])
            self.assertNotIn("drafted", plain)
        done = run("run", model("draft"), *words[:-1], "--draft", "ngram")
        self.assertRegex(done.stderr, r"\d+ of \d+ drafts right; first token")
        self.assertIn("mtp", self.sentence(1, "run", model("draft"), "-p", "x", "--draft", "mtp"))
        self.assertIn("nowhere", self.sentence(1, "run", model("draft"), "-p", "x", "--draft", "nowhere"))

    def test_draft_model(self):
        """The same answer by a smaller model, which is often right."""
        words = ["run", model("target-mlx8"), "-p", "Tell me a story.", "-n", "60", "--json"]
        for temperature in ("0", "0.7"):
            more = [*words, "--temp", temperature, "--seed", "3"]
            plain = json.loads(self.fine(*more))
            drafted = json.loads(self.fine(*more, "--draft", model("draft")))
            self.assertEqual(drafted["ids"], plain["ids"])
            self.assertGreater(drafted["accepted"], drafted["drafted"] // 4)

    def test_seed(self):
        words = ["-p", "Tell me a story.", "--temp", "1.5", "--top-k", "0", "--top-p", "1"]
        first = self.answer(*words, "--seed", "7")
        self.assertEqual(self.answer(*words, "--seed", "7", "--threads", "1"), first)
        self.assertNotEqual(self.answer(*words, "--seed", "8"), first)
        self.assertNotEqual(self.answer(*words), self.answer(*words))

    def test_json(self):
        words = ["-p", "Tell me a story.", "--temp", "1.5", "--json"]
        answer = json.loads(self.answer(*words))
        self.assertEqual(
            set(answer),
            set("model text ids finish prompt_tokens new_tokens temperature top_p top_k min_p seed "
                "first_token_s prefill_tok_s decode_tok_s".split()),
        )
        self.assertEqual(answer["new_tokens"], len(answer["ids"]))
        self.assertEqual(answer["temperature"], 1.5)
        again = json.loads(self.answer(*words, "--seed", str(answer["seed"])))
        self.assertEqual(again["ids"], answer["ids"])
        self.assertEqual(again["text"], answer["text"])

    def test_stop_token_has_no_text(self):
        words = ["-p", "Hello!", "--temp", "0", "--json"]
        answer = json.loads(self.fine("run", model("target-mlx8"), *words))
        self.assertEqual(answer["finish"], "stop")
        self.assertEqual(answer["ids"][-1], 4)
        self.assertNotIn("<|end|>", answer["text"])

    def test_stop_text(self):
        """The answer ends before the text, wherever tokens begin."""
        words = ["-p", "Tell me a story.", "--temp", "0", "-n", "40", "--json"]
        plain = json.loads(self.answer(*words))
        stop = plain["text"][30:36]
        self.assertEqual(len(stop), 6)
        answer = json.loads(self.answer(*words, "--stop", "never said, zq", "--stop", stop))
        self.assertEqual(answer["text"], plain["text"][: plain["text"].index(stop)])
        self.assertEqual((answer["finish"], answer["stop"]), ("stop", stop))
        self.assertEqual(answer["ids"], plain["ids"][: len(answer["ids"])])
        self.assertNotIn("stop", plain)
        self.assertEqual(self.answer(*words[:-1], "--stop", stop), answer["text"].rstrip("\n") + "\n")

    def test_sampling_options(self):
        """Each makes another answer of the same seed, and the same one twice."""
        words = ["-p", "Tell me a story.", "--temp", "0.8", "--seed", "5", "-n", "50", "--json"]
        plain = json.loads(self.answer(*words))["ids"]
        for more in (
            ["--typical-p", "0.3"],
            ["--xtc-probability", "1"],
            ["--repetition-penalty", "1.5"],
            ["--presence-penalty", "2"],
            ["--frequency-penalty", "-2"],
            ["--dry-multiplier", "5", "--dry-allowed-length", "1", "--dry-base", "2", "--dry-breaker", "zq"],
            ["--logit-bias", f"{plain[3]}=-inf", "--logit-bias", "7=2.5"],
        ):
            answer = json.loads(self.answer(*words, *more))["ids"]
            self.assertNotEqual(answer, plain, more)
            again = json.loads(self.answer(*words, *more, "--draft", "ngram", "--threads", "1"))
            self.assertEqual(again["ids"], answer, more)
        self.assertNotIn(plain[3], answer)
        penalty = ["--repetition-penalty", "1.5"]
        near = json.loads(self.answer(*words, *penalty, "--penalty-range", "4"))["ids"]
        self.assertNotEqual(near, json.loads(self.answer(*words, *penalty))["ids"])

    def test_least_tokens(self):
        words = ["-p", "Hello!", "--temp", "0", "--json"]
        answer = json.loads(self.fine("run", model("target-mlx8"), *words))
        n = answer["new_tokens"] + 10
        longer = json.loads(self.fine("run", model("target-mlx8"), *words, "--min-new", str(n), "-n", str(n)))
        self.assertEqual((longer["new_tokens"], longer["finish"]), (n, "length"))
        self.assertNotIn(4, longer["ids"])
        text = self.sentence(1, "run", model("draft"), "-p", "x", "-n", "3", "--min-new", "4")
        self.assertIn("min_new is 4, max_new 3", text)

    def test_top_logprobs(self):
        words = ["-p", "Tell me a story.", "--temp", "0", "-n", "9", "--json", "--top-logprobs", "3"]
        answer = json.loads(self.answer(*words, "--repetition-penalty", "1"))
        self.assertEqual([row["id"] for row in answer["logprobs"]], answer["ids"])
        for row in answer["logprobs"]:
            self.assertEqual(row["top"][0], [row["id"], row["logprob"]])
            values = [pair[1] for pair in row["top"]]
            self.assertEqual((len(values), values), (3, sorted(values, reverse=True)))

    def test_full_context_is_said(self):
        words = ["-p", "Tell me a story.", "--temp", "50", "--seed", "1", "--context", "40"]
        done = run("run", model("draft"), *words)
        self.assertEqual(done.returncode, 0)
        self.assertIn("stopped because the context of 40 tokens is full", done.stderr)

    def test_raw(self):
        text = self.answer("--raw", "-p", "Once upon a", "--temp", "0")
        self.assertNotEqual(text, self.answer("-p", "Once upon a", "--temp", "0"))
        path = self.copy_model()
        (path / "tokenizer_config.json").unlink()
        done = run("run", path, "-p", "Once upon a", "--temp", "0", "-n", "24")
        self.assertEqual((done.returncode, done.stdout), (0, text))
        self.assertRegex(done.stderr, r"\Aweft: the model has no chat template: [^\n]*--raw")
        self.assertIn("template", self.sentence(1, "run", path, "-p", "x", "--system", "y"))

    def test_system(self):
        words = ["-p", "Tell me a story.", "--temp", "0", "--json"]
        plain = json.loads(self.answer(*words))
        told = json.loads(self.answer(*words, "--system", "Speak of owls."))
        self.assertGreater(told["prompt_tokens"], plain["prompt_tokens"])

    def test_state(self):
        """A conversation that goes on in another process has the answers of one that did not end."""
        question = ["-p", "Tell me a story about a fox.", "--temp", "0", "-n", "12"]
        for name in ("target-mlx8", "window-mlx4", "hybrid-mlx4"):
            state = self.folder / name
            without = self.fine("run", model(name), *question)
            first = run("run", model(name), *question, "--state", state)
            self.assertEqual(first.stdout, without)
            self.assertIn(f"weft: '{state}' is not used: there is no such file\n", first.stderr)
            (n,) = re.findall(rf"weft: '{state}': (\d+) tokens are saved\n", first.stderr)
            second = run("run", model(name), *question, "--state", state)
            self.assertEqual(second.stdout, without)
            self.assertIn(f"weft: '{state}': {n} of {n} tokens can be used\n", second.stderr)
            self.assertEqual(os.listdir(self.folder), [name])
            state.write_bytes(state.read_bytes()[:-1])
            third = run("run", model(name), *question, "--state", state)
            self.assertEqual(third.stdout, without)
            self.assertIn(f"is not as long as it says; it is '{state}.bad' now\n", third.stderr)
            self.assertEqual(sorted(os.listdir(self.folder)), [name, name + ".bad"])
            os.remove(state)
            os.remove(f"{state}.bad")
        nowhere = self.folder / "no" / "state"
        failed = run("run", model("draft"), *question, "--state", nowhere)
        self.assertEqual(failed.returncode, 1)
        self.assertRegex(failed.stderr, r"weft: cannot create '[^']+': No such file or directory\n\Z")


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, words, stdout_only=False):
        parent, child = pty.openpty()
        environment = dict(os.environ, TERM="dumb", LC_ALL="C.UTF-8")
        self.process = subprocess.Popen(
            [WEFT, *map(str, words)],
            stdin=child,
            stdout=child,
            stderr=subprocess.PIPE if stdout_only else child,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=environment,
        )
        os.close(child)
        self.parent = parent
        self.seen = ""

    def read(self, seconds):
        """What comes within the time; None at the end."""
        ready, _, _ = select.select([self.parent], [], [], seconds)
        if not ready:
            return ""
        try:
            data = os.read(self.parent, 65536)
        except OSError:
            return None
        return data.decode("utf-8", "replace") if data else None

    def wait_for(self, pattern):
        """Reads until the pattern has come; what was read up to its end is used up."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            match = re.search(pattern, self.seen)
            if match:
                before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
                return before
            more = self.read(1)
            if more is None:
                break
            self.seen += more
        raise AssertionError(f"{pattern!r} did not come; there was {self.seen!r}")

    def type(self, text):
        os.write(self.parent, text.encode())

    def read_to_end(self):
        while (more := self.read(SECONDS)) is not None:
            self.seen += more
        self.close()
        return self.seen

    def close(self):
        status = self.process.wait(SECONDS)
        if self.process.stderr:
            self.process.stderr.close()
        os.close(self.parent)
        return status


class Chat(Case):
    PROMPT = r"(?:^|[\r\n])> "

    def start(self, name, *words):
        terminal = Terminal(["run", model(name), "--threads", "1", *words])
        self.addCleanup(terminal.process.kill)
        terminal.wait_for(r"/help lists")
        terminal.wait_for(self.PROMPT)
        return terminal

    def test_turns(self):
        chat = self.start("draft", "--temp", "0", "-n", "12")
        chat.type("Tell me a story.\r")
        first = int(re.search(r"\[(\d+) prompt", chat.wait_for(r"\[\d+ prompt.*\]")).group(1))
        chat.wait_for(self.PROMPT)
        chat.type("And another one.\r")
        second = int(re.search(r"\[(\d+) prompt", chat.wait_for(r"\[\d+ prompt.*\]")).group(1))
        # The history went along: the first prompt, twelve tokens, the next message.
        self.assertGreater(second, first + 12)
        chat.wait_for(self.PROMPT)
        chat.type("/clear\r")
        chat.wait_for("forgotten")
        chat.wait_for(self.PROMPT)
        chat.type("Tell me a story.\r")
        again = int(re.search(r"\[(\d+) prompt", chat.wait_for(r"\[\d+ prompt.*\]")).group(1))
        self.assertEqual(again, first)
        chat.wait_for(self.PROMPT)
        chat.type("/nonsense\r")
        chat.wait_for("no command /nonsense")
        chat.wait_for(self.PROMPT)
        chat.type("/help\r")
        chat.wait_for("/clear ")
        chat.wait_for(self.PROMPT)
        chat.type("/quit\r")
        self.assertEqual(chat.close(), 0)

    def interrupt_answer(self, chat):
        """An answer may end by itself before Ctrl-C comes: then another is asked for."""
        for _ in range(10):
            chat.type("Tell me a story.\r")
            time.sleep(0.3)
            chat.type("\x03")
            if "stopped by you" in chat.wait_for(r"\[\d+ prompt[^\]]*\]"):
                chat.wait_for(self.PROMPT)
                return
        self.fail("no answer was interrupted")

    def test_interrupt(self):
        # Hot enough to go on for long.
        chat = self.start("target-mlx8", "--temp", "50", "--top-k", "0", "--top-p", "1")
        self.interrupt_answer(chat)
        # The conversation goes on.
        self.interrupt_answer(chat)
        chat.type("\x03")
        chat.wait_for("Ctrl-C again")
        chat.wait_for(self.PROMPT)
        chat.type("\x03")
        self.assertEqual(chat.close(), 0)

    def test_end(self):
        chat = self.start("draft")
        # One that comes before the editor has taken the terminal is lost, or leaves a NUL in the
        # line, at which another would not be an end: that is deleted before it.
        for _ in range(SECONDS):
            chat.type("\x15\x04")
            try:
                chat.process.wait(1)
                break
            except subprocess.TimeoutExpired:
                continue
        self.assertEqual(chat.close(), 0)

    def test_full_context(self):
        chat = self.start("draft", "--context", "32", "--temp", "0")
        chat.type("Tell me a story.\r")
        chat.wait_for("context of 32 tokens is full")
        chat.wait_for(self.PROMPT)
        chat.type("And another one.\r")
        chat.wait_for(r"the prompt has \d+ tokens, the context holds 32")
        chat.wait_for("/clear")
        chat.wait_for(self.PROMPT)
        chat.type("/clear\r")
        chat.wait_for(self.PROMPT)
        chat.type("Tell me a story.\r")
        chat.wait_for("context of 32 tokens is full")
        chat.wait_for(self.PROMPT)
        chat.type("/quit\r")
        self.assertEqual(chat.close(), 0)

    def test_one_answer_can_be_interrupted(self):
        words = ["run", model("target-mlx8"), "-p", "Tell me a story.", "--temp", "50", "--threads", "1"]
        process = subprocess.Popen([WEFT, *map(str, words)], stdout=subprocess.PIPE)
        self.assertTrue(process.stdout.read(1))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(SECONDS), -signal.SIGINT)
        process.stdout.close()


class Bench(Case):
    """Each run reads a gigabyte several times, so there are few."""

    def bench(self, *words):
        words = ["--prompt", "40", "--context", "24", "--repeat", "1", "--batch", "1,3", *words]
        return json.loads(self.fine("bench", model("draft"), "--json", *words))

    def test_json(self):
        result = self.bench("--kv", "k=f16,v=f32", "--threads", "1")
        keys = "model backend threads read_gb_s load_ms prefill decode checksum agreement"
        self.assertEqual(list(result), keys.split())
        self.assertEqual(list(result["prefill"][0]), ["tokens", "tok_s", "tflop_s"])
        keys = "batch context kv tok_s bytes_per_step share"
        self.assertEqual(list(result["decode"][0]), keys.split())
        self.assertEqual(result["threads"], 1)
        self.assertEqual(result["prefill"][0]["tokens"], 40)
        self.assertEqual([row["batch"] for row in result["decode"]], [1, 3])
        self.assertEqual({row["kv"] for row in result["decode"]}, {"k=f16,v=f32"})
        for row in result["decode"]:
            self.assertGreater(row["tok_s"], 0)
            # share = bytes a step / time of a step / plain read
            share = row["bytes_per_step"] * row["tok_s"] / row["batch"] / (result["read_gb_s"] * 1e9)
            self.assertAlmostEqual(row["share"] / share, 1, delta=0.05)
        one, three = (row["bytes_per_step"] for row in result["decode"])
        # The weights are shared, and more than what a short context holds.
        self.assertTrue(one < three < 2 * one)
        # Threads change no token.
        self.assertRegex(result["checksum"], r"\A[0-9a-f]{16}\Z")
        again = self.bench("--kv", "k=f16,v=f32", "--threads", "2")
        self.assertEqual(again["checksum"], result["checksum"])

    def test_trace(self):
        """Speeds are as without, and what a step does adds up to it."""
        plain = self.bench("--threads", "2")
        traced = self.bench("--threads", "2", "--trace")
        self.assertNotIn("trace", plain)
        self.assertEqual(traced["checksum"], plain["checksum"])
        prefill, *decode = traced["trace"]
        self.assertEqual(prefill["prefill"], 40)
        self.assertEqual([(of["batch"], of["context"]) for of in decode], [(1, 24), (3, 24)])
        for of in traced["trace"]:
            parts = {part["work"]: part for part in of["parts"]}
            self.assertTrue({"barrier", "linear", "linear, glu", "head", "attend", "rms_norm"} <= set(parts))
            total = sum(part["seconds"] for part in of["parts"]) + of["sampling"] + of["rest"]
            self.assertAlmostEqual(total, of["seconds"], delta=0.02 * of["seconds"])
            weights = [part for part in of["parts"] if part["weights"]]
            self.assertTrue(all(part["bytes"] > 0 and part["rows"] > 0 for part in weights))
        # A step of a token reads the weights once, but for its row of the embedding.
        one = decode[0]
        weights = sum(part["bytes"] for part in one["parts"] if part["weights"])
        self.assertEqual(one["steps"], 16)
        self.assertAlmostEqual(weights / 16 / traced["decode"][0]["bytes_per_step"], 1, delta=0.3)
        self.assertLess(weights / 16, traced["decode"][0]["bytes_per_step"])

    def test_trace_table(self):
        words = ["bench", model("draft"), *"--prompt 8 --context 8 --batch 2 --repeat 2 --trace".split()]
        text = self.fine(*words)
        for part in ("prefill of 8 tokens: 2 steps", "decode, batch 2, context 8: 32 steps", "linear, glu", "GB/s",
                     "sampling", "rest of the engine"):
            self.assertIn(part, text)
        self.assertIn("does not measure", self.sentence(1, *words, "--backend", "ref"))

    def test_b03_codecs(self):
        """Tokens of each codec are told by a checksum, and held against those with f32."""
        for kv, least in (("f32", 40), ("q8_0", 24), ("affine4g64", 5), ("turbo-k8v4", 10)):
            result = self.bench("--kv", kv)
            self.assertRegex(result["checksum"], r"\A[0-9a-f]{16}\Z")
            agreement = result["agreement"]
            self.assertEqual(list(agreement), ["tokens", "same", "least"])
            self.assertEqual((agreement["tokens"], agreement["least"]), (40, least))
            self.assertGreaterEqual(agreement["same"], least)
        words = ["bench", GOLDEN / "llama", "--kv", "q8_0", "--context", "8", "--prompt", "8"]
        self.assertRegex(self.sentence(1, *words), "q8_0.* heads of 16")

    def test_drafts(self):
        plain = self.bench("--kv", "affine8g32")
        drafted = self.bench("--kv", "affine8g32", "--draft", "ngram")
        self.assertEqual(drafted["checksum"], plain["checksum"])
        for row in drafted["decode"]:
            self.assertLessEqual(row["accepted"], row["drafted"])
            self.assertGreater(row["tok_s"], 0)
        self.assertNotIn("drafted", plain["decode"][0])

    def test_assistants(self):
        """Checkpoints that draft for others only."""
        words = "--json --prompt 8 --context 16 --batch 2 --repeat 2 --threads 1".split()
        path = GOLDEN / "gemma4-assistant"
        plain = json.loads(self.fine("bench", path / "target", *words))
        for name in ("assistant", "assistant-centroid"):
            drafted = json.loads(self.fine("bench", path / "target", *words, "--draft", path / name))
            self.assertEqual(drafted["checksum"], plain["checksum"])
            self.assertGreater(drafted["decode"][0]["drafted"], 0)
            self.assertIn("for models of width 64", self.sentence(1, "bench", path / name, *words))
            self.assertIn("with --draft", self.sentence(1, "run", path / name, "-p", "x"))

    def test_table(self):
        words = "--prompt 8 --context 8 --batch 2 --repeat 2".split()
        text = self.fine("bench", model("window-mlx4"), "--kv", "turbo-k8v3", *words)
        for part in ("plain read", "GB/s", "prefill", "decode", "tok/s", "checksum of the tokens", " of 40 tokens are those"):
            self.assertIn(part, text)

    def test_made_models(self):
        tool = SOURCE / "tools" / "make_model.py"
        sizes = "--layers 2 --width 128 --heads 4 --kv-heads 2 --ff 256 --vocab 300".split()
        for encoding in ("bf16", "affine4", "affine8", "q4_0"):
            with self.subTest(encoding=encoding):
                path = self.folder / ("made.gguf" if encoding == "q4_0" else encoding)
                subprocess.run(
                    [sys.executable, tool, path, "--encoding", encoding, *sizes],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                out = self.folder / "out"
                self.fine("logits", path, "--ids", "1,2,3", "--gen", "2", "--out", out)
                listed = json.loads(self.fine("inspect", path, "--json"))["encodings"]
                wanted = encoding + "g64" if encoding.startswith("affine") else encoding
                self.assertIn(wanted, [row["encoding"] for row in listed])


class Selfcheck(Case):
    """What a fault looks like is tests/cli/test_checks.c's."""

    ROWS = (
        "chunks of 1|chunks of 7|chunks of 64|with 2 others|with 5 others|codecs mixed"
        "|other threads|drafts|converted|warm|restored|little memory|paused|trace"
    ).split("|")

    def table(self, path, *words):
        """codec -> row -> cell, and the line above and below the table."""
        text = self.fine("selfcheck", path, *words)
        lines = text.split("\n")
        self.assertEqual(lines[0], str(path))
        head = lines[3].split()
        table = {codec: {} for codec in head}
        for line in lines[4 : 4 + len(self.ROWS)]:
            label, *cells = re.split(r"  +", line)
            self.assertEqual(len(cells), len(head), line)
            for codec, cell in zip(head, cells):
                table[codec][label] = cell
        for column in table.values():
            self.assertEqual(list(column), self.ROWS)
        self.assertEqual(lines[4 + len(self.ROWS)], "")
        return table, lines[1], lines[5 + len(self.ROWS) :]

    def check_column(self, column, converts):
        for row, cell in column.items():
            if row == "drafts":
                # Random weights say nothing twice.
                self.assertIn(cell, ("equal", "skipped: nothing was drafted"))
            elif row == "converted" and not converts:
                self.assertEqual(cell, "skipped: as --act")
            elif row == "trace":
                # There is no tokenizer for forms.
                self.assertIn(cell, ("equal, without forms", "equal, without forms, drafts"))
            else:
                self.assertEqual(cell, "equal", row)

    def test_goldens(self):
        for name, codecs in (
            ("llama", "bf16,affine8g64,affine4g64,turbo-k8v4"),
            ("gemma3", "bf16,turbo-k8v4"),
            ("qwen3_5", "bf16,affine4g64"),
            ("qwen3_5-mtp", "bf16"),
            ("gemma4-ple", "affine8g64"),
        ):
            with self.subTest(model=name):
                path = GOLDEN / name
                words = [] if name == "llama" else ["--codecs", codecs]
                table, head, rest = self.table(path, "--quick", *words)
                self.assertEqual(",".join(table), codecs)
                self.assertIn("; prompts of 1, 63, 64, 65, 127, 128, 129, 200, 48 tokens", head)
                for codec, column in table.items():
                    self.check_column(column, codec != "bf16")
                n_compared = {
                    "llama": 282,
                    "gemma3": 138,
                    "qwen3_5": 138,
                    "qwen3_5-mtp": 68,
                    "gemma4-ple": 72,
                }[name]
                self.assertRegex(
                    "\n".join(rest),
                    rf"\A{n_compared} answers compared with those alone, bit for bit, in [\d.]+ s: "
                    r"all equal\n\Z",
                )

    def test_recurrent_model_drafts(self):
        table, _, _ = self.table(model("hybrid-mlx4"), "--quick", "--kv", "affine8g64")
        self.assertEqual(set(table["affine8g64"].values()), {"equal"})

    def test_refused_codec(self):
        path = GOLDEN / "deepseek_v3"
        words = ["--quick", "--act", "f32", "--threads", "1", "--context", "80"]
        table, head, rest = self.table(path, *words)
        self.assertEqual(list(table), ["f32", "affine8g64", "affine4g64", "turbo-k8v4"])
        self.assertIn("f32 activations, 1 thread; prompts of 1, 63, 64, 65, 74, 48 tokens", head)
        self.assertEqual(set(table["turbo-k8v4"].values()), {"refused"})
        self.assertEqual(table["f32"]["with 5 others"], "skipped: context too small")
        self.assertEqual(table["affine8g64"]["warm"], "equal")
        self.assertRegex(rest[0], r"\Aturbo-k8v4 refused: .*latent")
        self.assertEqual(len(rest), 3)
        said = self.sentence(1, "selfcheck", path, "--kv", "turbo-k8v4")
        self.assertIn("nothing was compared", said)

    def test_json(self):
        path = GOLDEN / "llama"
        spec = "k=tk8,v=bf16,start=30"
        result = json.loads(self.fine("selfcheck", path, "--quick", "--kv", spec, "--json"))
        keys = "model backend isa act threads prompts seed codecs checks compared failed seconds"
        self.assertEqual(list(result), keys.split())
        self.assertEqual(result["seed"], 20261130)
        self.assertEqual(result["codecs"], [{"kv": spec, "refused": None}])
        self.assertEqual([row["check"] for row in result["checks"]], self.ROWS)
        cells = {row["check"]: row["cells"][0] for row in result["checks"]}
        self.assertEqual(cells["converted"]["reason"], "has its own start")
        self.assertEqual(cells["warm"]["result"], "equal")
        # Of 64 tokens, 65 twice, 129 twice and 64, all that stood before but the last one.
        self.assertGreaterEqual(cells["warm"]["reused"], 63 + 64 + 128)
        self.assertEqual(result["compared"], sum(cell["compared"] for cell in cells.values()))
        self.assertEqual(result["failed"], 0)

    def trace(self, path, *words):
        result = json.loads(self.fine("selfcheck", path, "--kv", "bf16", "--json", *words))
        (row,) = [row for row in result["checks"] if row["check"] == "trace"]
        return result["seed"], row["cells"][0]

    def test_trace(self):
        cells = []
        for seed in range(1, 6):
            shown, cell = self.trace(GOLDEN / "qwen3", "--quick", "--seed", str(seed))
            self.assertEqual((shown, cell["result"], cell["compared"]), (seed, "equal", 14))
            for key in ("cancelled", "paused", "reused"):
                self.assertGreater(cell[key], 0, key)
            cells.append(cell)
        self.assertGreater(len({json.dumps(cell) for cell in cells}), 1)
        _, cell = self.trace(model("draft"))
        self.assertEqual((cell["result"], cell["compared"]), ("equal", 24))
        self.assertNotIn("without", cell)
        self.assertGreater(cell["drafted"], 0)

    def test_nothing_is_left_behind(self):
        there = self.folder / "place"
        there.mkdir()
        place = {**os.environ, "TMPDIR": str(there)}
        self.fine("selfcheck", GOLDEN / "llama", "--quick", "--kv", "bf16", env=place)
        self.assertEqual(list(there.iterdir()), [])
        self.sentence(1, "selfcheck", GOLDEN / "llama", "--memory", "1K", env=place)
        self.assertEqual(list(there.iterdir()), [])

    def test_no_place_for_files(self):
        place = {**os.environ, "TMPDIR": str(self.folder / "nowhere")}
        text = self.fine("selfcheck", GOLDEN / "llama", "--quick", "--kv", "bf16", env=place)
        self.assertRegex(text, r"(?m)^restored +skipped: no place for a file$")
        self.assertRegex(text, r"(?m)^trace +equal, without forms, (drafts, )?a folder$")

    def test_usage(self):
        path = GOLDEN / "llama"
        for words, part in (
            (["--codecs", "bf16", "--kv", "bf16"], "only one of"),
            (["--codecs", "bf16,bf16"], "twice"),
            (["--codecs", "bf16,"], "''"),
            (["--codecs", "affine9"], "affine9"),
            (["--codecs", ",".join(f"k{i}" for i in range(13))], "more than 12"),
            (["--codecs", "x" * 256], "255"),
            (["--isa", "avx9"], "avx9"),
        ):
            with self.subTest(words=words):
                self.assertIn(part, self.sentence(2, "selfcheck", path, *words))
        self.assertIn("budget is 1024", self.sentence(1, "selfcheck", path, "--memory", "1K"))

    def test_little_memory_is_no_company(self):
        path = GOLDEN / "llama"
        table, _, _ = self.table(path, "--quick", "--kv", "bf16", "--memory", "256K")
        self.assertEqual(table["bf16"]["with 5 others"], "skipped: --memory too small")
        self.assertEqual(table["bf16"]["codecs mixed"], "skipped: --memory too small")
        self.assertEqual(table["bf16"]["chunks of 7"], "equal")


class Inspect(Case):
    def test_json(self):
        for name in ("draft", "window-mlx4", "target-mlx8"):
            path = model(name)
            report = json.loads(self.fine("inspect", path, "--json", "--tensors"))
            tensors = report["tensor_list"]
            self.assertEqual(report["tensors"], len(tensors))
            self.assertEqual(report["bytes"], sum(row["bytes"] for row in tensors))
            self.assertEqual(report["bytes"], sum(row["bytes"] for row in report["encodings"]))
            self.assertEqual(report["tensors"], sum(row["tensors"] for row in report["encodings"]))
            params = sum(row["parameters"] for row in report["encodings"])
            self.assertEqual(report["parameters"], params)
            self.assertAlmostEqual(report["bits_per_weight"], 8 * report["bytes"] / params, places=3)
            codecs = [row["codec"] for row in report["kv"]]
            self.assertEqual(codecs[:3], ["f32", "f16", "bf16"])
            self.assertTrue({"affine8g64", "affine4g32", "q8_0", "turbo-k8v3"} <= set(codecs))
            config = json.loads((path / "config.json").read_text())
            self.assertEqual(report["layers"], config["num_hidden_layers"])
            self.assertNotIn("tensor_list", json.loads(self.fine("inspect", path, "--json")))

    def test_kv_bytes(self):
        """draft: two layers, one head of 64 for keys and one for values."""
        report = json.loads(self.fine("inspect", model("draft"), "--json"))
        sizes = {row["codec"]: row["bytes_per_token"] for row in report["kv"]}
        self.assertEqual([sizes[name] for name in ("f32", "f16", "bf16")], [1024, 512, 512])
        self.assertEqual(sizes["affine8g64"], 2 * 2 * (64 + 4))
        self.assertEqual(sizes["turbo-k8v3"], 2 * (64 + 8 + 24 + 4))
        self.assertEqual(report["parameters"], 918144)

    def test_assistant(self):
        """It drafts for others, stores nothing, and has integers among its tensors."""
        path = GOLDEN / "gemma4-assistant" / "assistant-centroid"
        report = json.loads(self.fine("inspect", path, "--json"))
        self.assertEqual((report["drafts_for"], report["kv"]), (64, []))
        self.assertEqual([row["encoding"] for row in report["encodings"]], ["bf16", "i64"])
        text = self.fine("inspect", path)
        self.assertIn("\ndrafts for    models of width 64, with --draft\n", text)
        self.assertNotIn("keys and values", text)
        self.assertNotIn("drafts for", self.fine("inspect", path.parent / "target"))

    def test_plan(self):
        plan = json.loads(self.fine("inspect", model("hybrid-mlx4"), "--json", "--kv", "affine8g64,-1.v=tv4"))["kv_plan"]
        self.assertEqual(plan["kv"], "affine8g64,-1.v=tv4")
        rows = [[row[key] for key in "first last layout k v window".split()] for row in plan["layers"]]
        self.assertEqual(rows, [
            [0, 1, "recurrent", "f32", "f32", 0],
            [2, 2, "full", "affine8g64", "affine8g64", 0],
            [3, 4, "recurrent", "f32", "f32", 0],
            [5, 5, "full", "affine8g64", "tv4", 0],
        ])
        report = json.loads(self.fine("inspect", model("hybrid-mlx4"), "--json"))
        self.assertNotIn("kv_plan", report)
        # With the same everywhere it comes to what the table of codecs says.
        for name in ("hybrid-mlx4", "window-mlx4"):
            report = json.loads(self.fine("inspect", model(name), "--json", "--kv", "turbo-k8v4"))
            sums = next(row for row in report["kv"] if row["codec"] == "turbo-k8v4")
            for key in ("bytes_per_token", "bytes_fixed"):
                found = sum(row[key] * (row["last"] - row["first"] + 1) for row in report["kv_plan"]["layers"])
                self.assertEqual(found, sums[key])
        windows = [row["window"] for row in report["kv_plan"]["layers"]]
        self.assertEqual(windows, [64, 0, 64, 0])
        shared = GOLDEN / "gemma4-ple"
        text = self.fine("inspect", shared, "--kv", "bf16,0=affine8g64")
        self.assertRegex(text, r"(?m)^0 +(window|full)[ 0-9]+affine8g64 ")
        self.assertRegex(text, r"(?m)^\S+ +shared +that of another +0 +0$")
        self.assertIn("layer 99", self.sentence(2, "inspect", shared, "--kv", "bf16,99=f16"))
        self.assertIn("shares", self.sentence(2, "inspect", shared, "--kv", "bf16,-1=f16"))

    def test_table(self):
        text = self.fine("inspect", model("window-mlx4"), "--tensors")
        for part in ("gemma3", "affine4g64", "bits each", "model.embed_tokens", "keys and values"):
            self.assertIn(part, text)


class Fit(Case):
    def fit(self, name, *words):
        report = json.loads(self.fine("fit", model(name), "--json", *words))
        self.assertEqual(report["left"], max(0, report["memory"] - report["weights"] - report["scratch"]))
        for row in report["kv"]:
            self.assertEqual(row["bytes_all"], row["bytes_sequence"] * report["sequences"])
            fits = report["weights"] + report["scratch"] + row["bytes_all"] <= report["memory"]
            self.assertEqual(row["fits"], fits)
        self.assertEqual(report["fits"], report["kv"][0]["fits"])
        return report

    def test_what_an_engine_takes(self):
        """The budget of one sequence is enough for it, and a byte less is not."""
        for name, spec in (("window-mlx4", "turbo-k8v3,0=bf16"), ("hybrid-mlx4", "f16,start=40"), ("draft", "bf16")):
            report = self.fit(name, "--context", "200", "--kv", spec)
            self.assertEqual(report["kv"][0]["kv"], spec)
            n = report["kv"][0]["bytes_sequence"]
            words = ["run", model(name), "--raw", "-p", "a", "--context", "200", "--kv", spec, "--memory"]
            self.fine(*words, n)
            message = self.sentence(1, *words, n - 1)
            self.assertIn(f"needs {n} bytes of state, the budget is {n - 1}", message)

    def test_limits(self):
        report = self.fit("target-mlx8", "--sequences", "3", "--memory", "40M", "--kv", "f32")
        self.assertEqual((report["memory"], report["context"], report["sequences"]), (40 << 20, 2048, 3))
        self.assertFalse(report["fits"])
        rows = {row["kv"]: row for row in report["kv"]}
        self.assertEqual(len(rows), len(report["kv"]))
        self.assertTrue({"f32", "bf16", "affine8g64", "turbo-k8v3"} <= set(rows))
        self.assertEqual(rows["turbo-k4v3"]["most_context"], 2048)
        for kv, most in (("f32", 1), ("bf16", 2048)):
            row = rows[kv]
            self.assertGreater(row["most_context"], 0)
            for context, fits in ((row["most_context"], True), (row["most_context"] + 1, False)):
                again = self.fit("target-mlx8", "--sequences", "3", "--kv", kv, "--context", context)
                self.assertEqual(again["kv"][0]["bytes_all"] <= report["left"], fits)
            n = row["most_sequences"]
            self.assertLessEqual(n * row["bytes_sequence"], report["left"])
            self.assertGreater((n + 1) * row["bytes_sequence"], report["left"])

    def test_sentences(self):
        words = ["fit", model("target-mlx8"), "--sequences", "3", "--kv", "f32"]
        text = self.fine(*words, "--memory", "60M")
        found = re.search(
            r"f32 does not fit, .* are missing. What fits: --kv (\S+), or --context (\d+), or --sequences (\d+)\n",
            text,
        )
        self.assertTrue(found, text)
        kv, context, n = found.groups()
        for change in (["--kv", kv], ["--context", context], ["--sequences", n]):
            self.assertIn(" fits, ", self.fine(*words, "--memory", "60M", *change))
        self.assertIn("alone are too much", self.fine(*words, "--memory", "1M"))
        self.assertIn("f32 fits, ", self.fine(*words))

    def test_machine(self):
        with open("/proc/meminfo", encoding="ascii") as file:
            total = int(re.search(r"MemTotal: +(\d+) kB", file.read()).group(1))
        self.assertEqual(self.fit("draft")["memory"], total * 1024)

    def test_failures(self):
        self.assertIn("2048", self.sentence(2, "fit", model("draft"), "--context", "2049"))
        self.assertIn("q99", self.sentence(2, "fit", model("draft"), "--kv", "q99"))
        self.assertIn("'0'", self.sentence(2, "fit", model("draft"), "--sequences", "0"))


class Experts(Case):
    """Experts that are read when tokens go to them."""

    def fit(self, *words):
        return json.loads(self.fine("fit", GOLDEN / "qwen3_moe", "--context", "16", "--json", *words))

    def test_answers(self):
        of = self.fit()["experts"]
        self.assertEqual((of["n"], of["bytes"], of["bytes_least"]), (32, 0, 2 * of["bytes_each"]))
        words = ["logits", GOLDEN / "qwen3_moe", "--ids", "5,6,7,300,8", "--gen", "6", "--out"]
        self.fine(*words, self.folder / "whole")
        for n in (of["bytes_least"], "1G"):
            self.fine(*words, self.folder / "streamed", "--experts", f"stream={n}")
            self.assertEqual((self.folder / "whole").read_bytes(), (self.folder / "streamed").read_bytes())
        self.fine("selfcheck", GOLDEN / "qwen3_moe", "--experts", f"stream={16 * of['bytes_each']}")

    def test_counters(self):
        of = self.fit()["experts"]
        words = ["bench", GOLDEN / "qwen3_moe", "--prompt", "32", "--context", "32", "--batch", "1", "--repeat", "1"]
        words += ["--experts", f"stream={5 * of['bytes_each']}"]
        self.assertRegex(
            self.fine(*words),
            r"\[experts in \S+ \wiB: of \d+ that tokens went to [\d.]+% were there, "
            r"of \d+ read ahead [\d.]+% were used; \S+ \wiB read\]\n",
        )
        found = json.loads(self.fine(*words, "--json"))["experts"]
        self.assertEqual(found["bytes"], 5 * of["bytes_each"])
        self.assertTrue(0 < found["there"] < found["used"])
        self.assertTrue(0 < found["ahead_used"] <= found["ahead"])
        self.assertGreater(found["bytes_read"], of["bytes_all"])
        self.assertNotIn("experts", json.loads(self.fine(*words[:-2], "--json")))

    def test_plan(self):
        """What is said to fit does, and what is said to be missing is."""
        whole = self.fit()
        least = whole["experts"]["bytes_least"]
        streamed = self.fit("--experts", f"stream={least + 1}")
        self.assertEqual(streamed["experts"]["bytes"], least)
        self.assertEqual(streamed["weights"], whole["weights"] - whole["experts"]["bytes_all"])
        need = sum(streamed[key] for key in ("weights", "scratch")) + least + streamed["kv"][0]["bytes_all"]
        for extra, fits in ((0, True), (-1, False)):
            report = self.fit("--experts", f"stream={least}", "--memory", str(need + extra))
            self.assertEqual(report["fits"], fits)
            self.assertEqual(report["left"], report["memory"] - need + streamed["kv"][0]["bytes_all"])
        each = whole["experts"]["bytes_each"]
        for more in (0, 3 * each, 3 * each - 1):
            report = self.fit("--memory", str(need + more))
            self.assertFalse(report["fits"])
            self.assertEqual(report["experts"]["stream_most"], least + more // each * each)
        self.assertEqual(self.fit("--memory", str(need - 1))["experts"]["stream_most"], 0)
        words = ["fit", GOLDEN / "qwen3_moe", "--context", "16"]
        text = self.fine(*words, "--memory", str(need + each))
        self.assertIn(f"--experts stream={least + each}, the more the faster, from stream={least} on\n", text)
        self.assertRegex(text, r"(?m)^32 experts of .* in 4 layers, 2 of them a token and layer, among the weights$")
        text = self.fine(*words, "--experts", "stream=1G")
        self.assertRegex(text, r"(?m)^experts   .* bytes\)$")
        self.assertRegex(text, r"(?m), 32 in memory$")
        self.assertNotIn("experts", self.fine("fit", model("draft")))

    def test_failures(self):
        least = self.fit()["experts"]["bytes_least"]
        words = ["run", GOLDEN / "qwen3_moe", "--raw", "-p", "a", "--experts"]
        for value in ("2G", "stream=", "stream=0", "stream=-1", "resident", "stream=1T"):
            self.assertIn(f"'{value}', expected stream=a number of bytes", self.sentence(2, *words, value))
        for words in (["logits", "--ids", "1", "--out", self.folder / "x"], ["fit"]):
            few = ["--experts", f"stream={least - 1}"]
            message = self.sentence(1, words[0], GOLDEN / "qwen3_moe", *words[1:], *few)
            self.assertIn(f"through {least - 1} bytes, at least {least} are needed", message)
        words = ["--ids", "1", "--out", self.folder / "x", "--experts", f"stream={least}"]
        self.assertIn("has no experts", self.sentence(2, "logits", model("draft"), *words))
        self.assertIn("ref", self.sentence(1, "logits", GOLDEN / "qwen3_moe", *words, "--backend", "ref"))


class Convert(Case):
    def test_a_model(self):
        target = self.folder / "to"
        text = self.fine("convert", model("draft"), target, "--bits", "8", "--threads", "2")
        self.assertRegex(text, r"\A\d+ tensors, \d+ of them quantized\n.* in 1 file, 8\.\d+ bits a weight; \d+ other files\n")
        config = json.loads((target / "config.json").read_text(encoding="utf-8"))
        self.assertEqual(config["quantization"], {"group_size": 64, "bits": 8, "mode": "affine"})
        self.assertEqual(config["quantization"], config["quantization_config"])
        index = json.loads((target / "model.safetensors.index.json").read_text(encoding="utf-8"))
        self.assertEqual(set(index["weight_map"].values()), {"model.safetensors"})
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((target / name).read_bytes(), (model("draft") / name).read_bytes())
        told = json.loads(self.fine("inspect", target, "--json"))
        self.assertEqual({row["encoding"] for row in told["encodings"]} & {"affine8g64"}, {"affine8g64"})
        words = ("-p", "Hello", "--temp", "0", "-n", "8")
        self.assertTrue(self.fine("run", target, *words))
        self.assertIn("is there already", self.sentence(2, "convert", model("draft"), target))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["to"])

    def test_recipe(self):
        recipe = self.folder / "recipe.json"
        rules = [{"match": "*.down_proj", "layers": [-1, -1], "bits": 6}, {"match": "*.nowhere", "keep": True}]
        recipe.write_text(json.dumps({"rules": rules}), encoding="utf-8")
        target = self.folder / "to"
        done = run("convert", model("draft"), target, "--recipe", recipe)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "weft: rule 2 of the recipe, '*.nowhere', matches nothing\n")
        config = json.loads((target / "config.json").read_text(encoding="utf-8"))
        last = f"model.layers.{config['num_hidden_layers'] - 1}.mlp.down_proj"
        self.assertEqual(config["quantization"][last], {"group_size": 64, "bits": 6, "mode": "affine"})
        self.assertEqual(len(config["quantization"]), 4)
        recipe.write_text('{"rules": [{"match": "a"}, {"match": "b", "bits": 9}]}', encoding="utf-8")
        failure = self.sentence(1, "convert", model("draft"), self.folder / "other", "--recipe", recipe)
        self.assertIn("recipe: rule 2: affine has", failure)
        self.assertIn("cannot open", self.sentence(1, "convert", model("draft"), "x", "--recipe", "missing"))

    def test_failures(self):
        self.assertIn("missing", self.sentence(1, "convert", self.folder / "missing", self.folder / "to"))
        self.assertIn("cannot create", self.sentence(1, "convert", model("draft"), self.folder / "no" / "to"))
        self.assertEqual(list(self.folder.iterdir()), [])


class Eval(Case):
    """Losses and divergences against those that plain Python makes of the same logits."""

    TEXT = "Once upon a time there was a fox called Mia. She was kind, and liked to explore 27 woods. " * 3

    def setUp(self):
        super().setUp()
        self.text = self.folder / "text"
        self.text.write_text(self.TEXT)
        self.ids = json.loads(self.fine("tokenize", model("draft"), "-p", self.TEXT))

    def eval(self, verb, name, *words):
        path = name if isinstance(name, Path) else model(name)
        return json.loads(self.fine("eval", verb, path, "--text", self.text, "--json", *words))

    def rows(self, name, ids, *words):
        """Logits after each token but the last, and the log of the sum of their exponentials."""
        out = self.folder / "out.safetensors"
        path = name if isinstance(name, Path) else model(name)
        self.fine("logits", path, "--ids", ",".join(map(str, ids)), "--out", out, *words)
        _, (n, n_vocab), values = read_tensors(out)["logits"]
        for i in range(n - 1):
            row = values[i * n_vocab : (i + 1) * n_vocab]
            most = max(row)
            yield row, most + math.log(math.fsum(math.exp(x - most) for x in row))

    def losses(self, name, windows, *words):
        """windows: [(ids, first that counts)]"""
        return [
            log_sum - row[ids[i + 1]]
            for ids, first in windows
            for i, (row, log_sum) in enumerate(self.rows(name, ids, *words))
            if i + 1 >= first
        ]

    def check_loss(self, run, losses):
        mean = math.fsum(losses) / len(losses)
        variance = math.fsum((x - mean) ** 2 for x in losses) / (len(losses) - 1)
        self.assertAlmostEqual(run["loss"], mean, delta=1e-10)
        self.assertAlmostEqual(run["loss_error"] / math.sqrt(variance / len(losses)), 1, delta=1e-5)
        self.assertAlmostEqual(run["perplexity"] / math.exp(mean), 1, delta=1e-10)

    def test_perplexity(self):
        result = self.eval("ppl", "draft")
        self.assertEqual((result["tokens"], result["windows"]), (len(self.ids), 1))
        self.assertEqual(result["scored"], len(self.ids) - 1)
        self.assertEqual(result["runs"][0]["kv"], "bf16")
        self.check_loss(result["runs"][0], self.losses("draft", [(self.ids, 1)]))

    def test_windows(self):
        ids = self.ids[:50]
        windows = [(ids[0:16], 1), (ids[16:32], 1), (ids[32:48], 1), (ids[48:50], 1)]
        words = ["--context", "16", "--tokens", "50", "--kv", "f16"]
        result = self.eval("ppl", "draft", *words)
        self.assertEqual((result["windows"], result["scored"], result["context"]), (4, 46, 16))
        self.check_loss(result["runs"][0], self.losses("draft", windows, "--kv", "f16"))
        # Each sees at least eleven more, and counts once.
        windows = [(ids[0:16], 1)] + [(ids[at : at + 16], 11) for at in range(5, 35, 5)]
        result = self.eval("ppl", "draft", *words, "--stride", "5", "--tokens", "46")
        self.assertEqual((result["windows"], result["scored"]), (7, 45))
        self.check_loss(result["runs"][0], self.losses("draft", windows, "--kv", "f16"))
        # A last window with nothing before its only token.
        self.assertEqual(self.eval("ppl", "draft", *words, "--tokens", "33")["scored"], 30)

    def test_what_stands_before_a_text(self):
        path = self.copy_model()
        file = path / "tokenizer.json"
        tokenizer = json.loads(file.read_text())
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<|end|>", "type_id": 0}},
            ],
            "pair": [],
            "special_tokens": {
                name: {"id": name, "ids": [i], "tokens": [name]}
                for name, i in (("<|endoftext|>", 0), ("<|end|>", 4))
            },
        }
        file.write_text(json.dumps(tokenizer))
        ids = self.ids[:31]
        windows = [([0, *ids[0:15]], 1), ([0, *ids[15:30]], 1), ([0, ids[30]], 1)]
        result = self.eval("ppl", path, "--context", "16", "--tokens", "31")
        self.assertEqual((result["windows"], result["scored"]), (3, 31))
        self.check_loss(result["runs"][0], self.losses(path, windows))

    def check_divergence(self, run, truth, other):
        """truth, other: rows as of self.rows."""
        found = []
        same = 0
        for (p, p_sum), (q, q_sum) in zip(truth, other):
            found.append(math.fsum(math.exp(x - p_sum) * (x - p_sum - y + q_sum) for x, y in zip(p, q)))
            same += p.index(max(p)) == q.index(max(q))
        n = len(found)
        mean = math.fsum(found) / n
        error = math.sqrt(math.fsum((x - mean) ** 2 for x in found) / (n - 1) / n)
        self.assertAlmostEqual(run["kl"], mean, delta=1e-11)
        self.assertAlmostEqual(run["kl_error"] / error, 1, delta=1e-5)
        self.assertAlmostEqual(run["kl_most"], max(found), delta=1e-11)
        self.assertAlmostEqual(run["kl_p999"], sorted(found)[math.ceil(0.999 * n) - 1], delta=1e-11)
        self.assertEqual(round(run["same_top"] * n), same)
        self.assertGreater(run["kl"], 0)

    def test_codecs(self):
        ids = self.ids[:40]
        words = ["--tokens", "40", "--act", "f32"]
        specs = ["affine4g32", "turbo-k8v3,start=17", "k=f16,v=bf16"]
        result = self.eval("kl", "window-mlx4", *words, "--kv", "  ".join(specs), "--against-kv", "f32")
        self.assertEqual([run["kv"] for run in result["runs"]], specs)
        self.assertEqual(result["against"]["kv"], "f32")
        truth = list(self.rows("window-mlx4", ids, "--act", "f32", "--kv", "f32"))
        self.check_loss(result["against"], self.losses("window-mlx4", [(ids, 1)], "--act", "f32"))
        for spec, run in zip(specs, result["runs"]):
            with self.subTest(kv=spec):
                other = self.rows("window-mlx4", ids, "--act", "f32", "--kv", spec)
                self.check_divergence(run, truth, other)

    def test_models(self):
        ids = self.ids[:30]
        words = ["--tokens", "30", "--against", model("target-mlx8"), "--against-kv", "f16"]
        result = self.eval("kl", "draft", *words)
        self.assertEqual(result["against"]["model"], str(model("target-mlx8")))
        truth = self.rows("target-mlx8", ids, "--kv", "f16")
        self.check_divergence(result["runs"][0], truth, self.rows("draft", ids))

    def test_itself(self):
        for name in ("draft", "hybrid-mlx4"):
            words = ["--tokens", "60", "--context", "25", "--kv", "bf16 f32,start=9 affine8g64"]
            result = self.eval("kl", name, *words, "--against-kv", "bf16")
            run = result["runs"][0]
            self.assertEqual((run["kl"], run["kl_error"], run["kl_most"], run["same_top"]), (0, 0, 0, 1))
            self.assertEqual(run["loss"], result["against"]["loss"])
            self.assertGreater(result["runs"][2]["kl"], 0)
        self.assertIn("kv f32", self.fine("eval", "kl", model("draft"), "--text", self.text, "--against-kv", "f32"))
        # Inputs of 8 bits make a difference to codes alone, and a small one.
        words = ["--tokens", "60", "--act", "int8", "--against-act", "bf16"]
        self.assertEqual(self.eval("kl", "draft", *words)["runs"][0]["kl"], 0)
        apart = self.eval("kl", "window-mlx4", *words)["runs"][0]["kl"]
        self.assertTrue(0 < apart < 0.02, apart)

    def test_threads_change_nothing(self):
        words = ["--tokens", "70", "--kv", "turbo-k8v4 q8_0", "--against-kv", "f16", "--context", "33"]
        first = self.eval("kl", "draft", *words, "--threads", "1")
        self.assertEqual(self.eval("kl", "draft", *words, "--threads", "3"), first)
        piped = self.fine("eval", "kl", model("draft"), "--text", "-", "--json", *words, input=self.TEXT)
        self.assertEqual(json.loads(piped), first)

    def test_failures(self):
        draft = model("draft")
        words = ["eval", "ppl", draft, "--text", self.text]
        self.assertIn("nowhere", self.sentence(1, "eval", "ppl", draft, "--text", self.folder / "nowhere"))
        self.assertIn("kv 'q99'", self.sentence(2, *words, "--kv", "bf16 q99"))
        self.assertIn("empty", self.sentence(2, *words, "--kv", " "))
        self.assertIn("more than 32", self.sentence(1, *words, "--kv", "f16 " * 33))
        self.assertIn("2048", self.sentence(1, *words, "--context", "2049"))
        self.assertIn("20 tokens", self.sentence(2, *words, "--context", "20", "--stride", "21"))
        self.text.write_text("a")
        self.assertIn("1 tokens", self.sentence(1, *words))
        path = self.copy_model()
        tokenizer = json.loads((path / "tokenizer.json").read_text())
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:100]
        (path / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.text.write_text("Once upon a time")
        words = ["eval", "kl", draft, "--text", self.text, "--against", path]
        self.assertRegex(self.sentence(1, *words), r"tokenizers differ: token \d+ of")
        (path / "tokenizer.json").unlink()
        self.assertIn("tokenizer", self.sentence(1, *words))


class Serve(Case):
    """What whoever starts a server sees; tests/server has the rest."""

    def first_lines(self, n, *words):
        """Of stderr, then it is told to end."""
        process = subprocess.Popen(
            [WEFT, "serve", *map(str, words), "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        with process:
            lines = [process.stderr.readline() for _ in range(n)]
            process.terminate()
            process.communicate()
        timer.cancel()
        self.assertEqual(process.returncode, 0, lines)
        return lines

    def test_path(self):
        nowhere = self.folder / "nowhere"
        self.assertIn(f"there is no '{nowhere}'", self.sentence(1, "serve", nowhere))
        first, second = self.first_lines(2, model("draft"), f"x={nowhere}")
        self.assertEqual(first, f"weft: there is no '{nowhere}'\n")
        self.assertRegex(second, r"^weft: serving draft and others at ")

    def test_model_that_is_none_is_said(self):
        for words in ((), ("--quiet",)):
            first, second = self.first_lines(2, f"x={self.folder}", *words)
            self.assertRegex(first, r"^weft: serving x at http://127\.0\.0\.1:\d+$")
            self.assertRegex(second, r"^weft: 'x' is not loaded: cannot open '.*config\.json'")


class Cache(Case):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        self.caches = self.folder / "caches"
        shutil.copytree(model("draft"), self.model)
        with (self.model / "tokenizer.json").open("a") as file:
            file.write(" " * (1 << 20))  # long enough to be kept

    def ids(self, *words, **environment):
        outside = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "HOME")}
        return self.fine("tokenize", self.model, "-p", "Hello <|end|> there", *words, env=outside | environment)

    def kept(self, folder):
        return sorted(path.name for path in folder.rglob("*") if path.is_file())

    def test_same_ids(self):
        plain = self.ids("--no-cache", XDG_CACHE_HOME=str(self.caches))
        self.assertFalse(self.caches.exists())
        self.assertEqual(self.ids(XDG_CACHE_HOME=str(self.caches)), plain)
        names = self.kept(self.caches / "weft")
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], "^[0-9a-f]{32}$")
        before = (self.caches / "weft" / names[0]).stat().st_mtime_ns
        self.assertEqual(self.ids(XDG_CACHE_HOME=str(self.caches)), plain)
        self.assertEqual((self.caches / "weft" / names[0]).stat().st_mtime_ns, before)
        (self.caches / "weft" / names[0]).write_bytes(b"weft-tok")
        self.assertEqual(self.ids(XDG_CACHE_HOME=str(self.caches)), plain)
        self.assertGreater((self.caches / "weft" / names[0]).stat().st_size, 1000)

    def test_home(self):
        home = self.folder / "home"
        home.mkdir()
        plain = self.ids()
        self.assertEqual(self.ids(HOME=str(home), XDG_CACHE_HOME="relative"), plain)
        self.assertEqual(len(self.kept(home / ".cache" / "weft")), 1)
        self.assertEqual((home / ".cache" / "weft").stat().st_mode & 0o777, 0o700)

    def test_no_folder(self):
        file = self.folder / "file"
        file.write_text("")
        self.assertEqual(self.ids(XDG_CACHE_HOME=str(file)), self.ids())

    def test_short_ones_are_not_kept(self):
        self.fine("inspect", model("draft"), env=os.environ | {"XDG_CACHE_HOME": str(self.caches)})
        self.assertEqual(self.kept(self.caches), [])


def main():
    global WEFT, SOURCE, GOLDEN
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    WEFT, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    GOLDEN = WEFT.parent / "golden"
    suite = unittest.TestSuite()
    names = sys.argv[3:] or ["Usage", "Failures", "Text", "Embed", "Logits", "Run", "Chat", "Bench", "Inspect", "Cache"]
    for name in names:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(globals()[name]))
    with tempfile.TemporaryDirectory() as caches:  # not the user's
        os.environ["XDG_CACHE_HOME"] = caches
        result = unittest.TextTestRunner(verbosity=1).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
