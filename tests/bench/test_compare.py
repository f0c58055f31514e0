#!/usr/bin/env python3
"""test_compare.py - bench/compare.py with engines that are scripts: what it tells them, and what it
makes of what they say."""

import json
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPARE = Path(__file__).resolve().parent.parent.parent / "bench" / "compare.py"

# Each notes its words; speeds differ from call to call, so that medians show.
WEFT = """
speed = [10, 40, 20][calls % 3]
decode = [{"batch": n, "tok_s": speed * n, "bytes_per_step": 5e8} for n in (1, 8)]
print(json.dumps({"read_gb_s": 20.0, "prefill": [{"tok_s": 300.0}], "decode": decode}))
"""
BENCH = """
prefill = words[words.index("-p") + 1] != "0"
print(json.dumps([{"avg_ts": 150.0 if prefill else 16.0, "build_commit": "abc", "type_k": "f16"}]))
"""
BATCHED = """
print("some line")
for n in (1, 8):
    print(json.dumps({"pl": n, "speed_tg": 5.0 * n}))
"""
HEAD = """#!{python}
import json, sys
from pathlib import Path
words = sys.argv[1:]
log = Path(__file__ + ".log")
calls = len(log.read_text().splitlines()) if log.exists() else 0
with log.open("a") as f:
    f.write(json.dumps(words) + "\\n")
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.model = self.folder / "some.gguf"
        self.model.write_bytes(b"GGUF")
        for name, text in (("weft", WEFT), ("llama-bench", BENCH), ("llama-batched-bench", BATCHED)):
            self.script(name, text)

    def script(self, name, text):
        path = self.folder / name
        path.write_text(HEAD.replace("{python}", sys.executable) + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def calls(self, name):
        text = (self.folder / f"{name}.log").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def run_it(self, *words):
        words = [sys.executable, COMPARE, *words, self.folder / "weft", self.folder, self.model]
        return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)

    def test_tables(self):
        out = self.folder / "out.json"
        found = self.run_it("--rounds", "3", "--batch", "1,8", "--json", out)
        self.assertEqual(found.returncode, 0, found.stderr)
        # The median of three, against the faster of what llama.cpp has for one sequence; 0.5 GB a
        # step of 20 GB/s.
        self.assertIn("| prefill 512 | 150.0 | - | 300.0 | 2.00 | - |", found.stdout)
        self.assertIn("| decode 1 | 16.0 | 40% | 20.0 | 1.25 | 50% |", found.stdout)
        self.assertIn("| decode 8 | 40.0 | 12% | 160.0 | 4.00 | 50% |", found.stdout)
        self.assertIn("plain read 20.0 GB/s", found.stdout)
        self.assertIn("llama.cpp abc: ", found.stdout)
        report = json.loads(out.read_text(encoding="utf-8"))
        rounds = report["models"][0]["rounds"]
        self.assertEqual([r["decode"]["1"] for r in rounds["weft bf16"]], [10, 40, 20])
        self.assertEqual({len(r) for r in rounds.values()}, {3})
        self.assertTrue(all("others" in r["watch"] for of in rounds.values() for r in of))

    def test_what_they_are_told(self):
        words = ["--rounds", "2", "--act", "bf16", "--act", "f32", "--threads", "3", "--context", "24", "--steps", "32"]
        found = self.run_it(*words)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("| tok/s | llama.cpp | share | weft bf16 | ratio | share | weft f32 | ratio | share |", found.stdout)
        told = self.calls("weft")
        self.assertEqual([w[w.index("--act") + 1] for w in told], ["bf16", "f32"] * 2)
        for name, threads, context in (("weft", "--threads", "--context"), ("llama-batched-bench", "-t", "-npp")):
            for w in self.calls(name):
                self.assertEqual((w[w.index(threads) + 1], w[w.index(context) + 1]), ("3", "24"))
        self.assertEqual(told[0][told[0].index("--batch") + 1], "1,2,4,8,16,32")
        # A batch that llama.cpp was not asked about has no ratio.
        self.assertIn("| decode 32 | - | - | - | - | - |", found.stdout)

    def test_the_faster_build_counts(self):
        other = self.folder / "other"
        other.mkdir()
        for name, text in (("llama-bench", BENCH), ("llama-batched-bench", BATCHED.replace("5.0 * n", "n * n"))):
            self.script(f"other/{name}", text)
        words = [sys.executable, COMPARE, "--rounds", "1", "--batch", "1,8", self.folder / "weft",
                 f"{self.folder},{other}", self.model]
        found = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("| decode 1 | 16.0 |", found.stdout)
        self.assertIn("| decode 8 | 64.0 |", found.stdout)

    def test_a_failure_is_told(self):
        self.script("llama-bench", "sys.exit('no such model')")
        found = self.run_it("--rounds", "1")
        self.assertEqual(found.returncode, 1)
        self.assertIn("ended with 1", found.stderr)
        self.assertIn("no such model", found.stderr)


if __name__ == "__main__":
    unittest.main()
