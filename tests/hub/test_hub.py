#!/usr/bin/env python3
"""test_hub.py - weft pull, list, rm and run against a hub of this machine.

    tests/hub/test_hub.py WEFT SOURCE [CLASS]...
"""

import hashlib
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import standin  # noqa: E402

WEFT = SOURCE = Path()
SECONDS = 120  # sanitizers are slow
REPO = "tiny/model"


def tiny():
    return standin.read_folder(SOURCE / "models" / "tiny" / "draft")


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.hub = standin.Hub()
        self.addCleanup(self.hub.close)
        self.cache = self.folder / "home" / "hub"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "HF_HOME": str(self.folder / "home"),
            "HF_ENDPOINT": self.hub.address,
            # Nothing of this machine may be asked for what lies on it.
            "http_proxy": "http://127.0.0.1:9",
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""),
        }

    def start(self, *words, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("env", self.env)
        return subprocess.Popen(
            [WEFT, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
            **options,
        )

    def run_weft(self, *words, **options):
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    def fine(self, *words, **options):
        status, out, err = self.run_weft(*words, **options)
        self.assertEqual(status, 0, out + err)
        return out

    def fails(self, status, part, *words, **options):
        """Ends with the status and a last sentence that has the part."""
        got, out, err = self.run_weft(*words, **options)
        self.assertEqual(got, status, out + err)
        self.assertRegex(err, r"(\A|\n)weft: [^\n]+\n\Z")
        self.assertNotRegex(err, r"[\x00-\x09\x0b-\x1f]")
        self.assertIn(part, err.rstrip().split("\n")[-1])
        return out, err

    def pull(self, *words, **options):
        return Path(self.fine("pull", *(words or (REPO,)), **options).strip())

    def repo(self, repo=REPO):
        return self.cache / ("models--" + repo.replace("/", "--"))

    def blobs(self, repo=REPO):
        folder = self.repo(repo) / "blobs"
        return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.is_dir() else {}

    def check_snapshot(self, model, names=None, repo=REPO):
        """The snapshot has these files, as links to blobs that are named by their hashes."""
        root = self.repo(repo) / "snapshots" / model.commit
        found = {str(p.relative_to(root)): p for p in root.rglob("*") if not p.is_dir()}
        self.assertEqual(sorted(found), sorted(model.files if names is None else names))
        for name, path in found.items():
            self.assertTrue(path.is_symlink())
            data = path.read_bytes()
            self.assertEqual(data, model.files[name])
            target = Path(os.readlink(path))
            self.assertFalse(target.is_absolute())
            self.assertEqual((path.parent / target).resolve().parent, (self.repo(repo) / "blobs").resolve())
            self.assertIn(target.name, (standin.git_hash(data), hashlib.sha256(data).hexdigest()))
        for name in self.blobs(repo):
            self.assertNotIn("incomplete", name)

    def nothing_left(self, repo=REPO):
        """No snapshot, no ref; blobs that are there are right."""
        self.assertFalse((self.repo(repo) / "snapshots").exists())
        self.assertFalse((self.repo(repo) / "refs").exists())
        for name, data in self.blobs(repo).items():
            if not name.endswith(".incomplete"):
                self.assertIn(name, (standin.git_hash(data), hashlib.sha256(data).hexdigest()))

    def wait_for(self, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def begun(self, least=1, repo=REPO):
        return any(
            name.endswith(".incomplete") and len(data) >= least for name, data in self.blobs(repo).items()
        )


class Pull(Case):
    def test_pull_run_list_rm(self):
        files = {**tiny(), "pytorch_model.bin": b"pickle", "README.md": b"#", "onnx/model.onnx": b"x"}
        model = self.hub.add(REPO, files)
        path = self.pull()
        self.assertEqual(path, self.repo() / "snapshots" / model.commit)
        self.check_snapshot(model, tiny())
        self.assertEqual((self.repo() / "refs" / "main").read_text(), model.commit)
        sent = self.hub.sent()
        self.assertEqual(sent, sum(map(len, tiny().values())))

        words = ("-p", "Once", "-n", "5", "--temp", "0")
        text = self.fine("run", SOURCE / "models" / "tiny" / "draft", *words)
        self.assertEqual(self.fine("run", REPO, *words), text)
        for name in (f"{REPO}@main", f"{REPO}@{model.commit}", f"{REPO}@{model.commit[:9]}"):
            self.assertEqual(self.fine("tokenize", name, "-p", "x"), self.fine("tokenize", path, "-p", "x"))

        self.assertEqual(self.pull(), path)
        self.assertEqual(self.hub.sent(), sent)
        self.assertEqual(self.pull(f"{REPO}@{model.commit}"), path)

        (row,) = json.loads(self.fine("list", "--json"))
        self.assertRegex(row.pop("used"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        expected = {
            "repo": REPO,
            "revision": model.commit,
            "refs": "main",
            "bytes": sent,
            "files": len(tiny()),
            "kind": "safetensors",
            "path": str(path),
        }
        self.assertEqual(row, expected)
        self.assertIn(str(path), self.fine("list"))

        self.fails(2, "--yes", "rm", REPO)
        self.check_snapshot(model, tiny())
        self.assertIn("removed tiny/model", self.fine("rm", "--yes", REPO))
        self.assertFalse(self.repo().exists())
        self.assertEqual(json.loads(self.fine("list", "--json")), [])
        self.fails(1, "not in the cache", "rm", "--yes", REPO)
        out, _ = self.fails(1, "weft pull tiny/model", "run", REPO, "-p", "x")
        self.assertEqual(out, "")

    def test_one_line_a_file(self):
        self.hub.add(REPO, tiny())
        _, _, err = self.run_weft("pull", REPO)
        lines = err.rstrip().split("\n")
        self.assertEqual(len(lines), len(tiny()) + 1)
        self.assertRegex(lines[2], r"^3/5 model\.safetensors, 1\.8 MiB$")

    def test_bar_on_a_terminal(self):
        self.hub.add(REPO, tiny())
        self.hub.faults.slow = 0.05
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [WEFT, "pull", REPO], env=self.env, stdin=follower, stdout=subprocess.PIPE, stderr=follower
        )
        os.close(follower)
        seen = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        os.close(leader)
        process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(seen.decode(), r"\d+% #+\.* [\d.]+ \w+ of 2\.0 MiB, [\d.]+ \w+/s, \d+:\d\d left")

    def test_rm_asks_on_a_terminal(self):
        model = self.hub.add(REPO, tiny())
        self.pull()
        for answer, status in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
            self.check_snapshot(model)
            leader, follower = pty.openpty()
            os.write(leader, answer)
            got, out, err = self.run_weft("rm", REPO, stdin=follower)
            os.close(follower)
            os.close(leader)
            self.assertEqual(got, status, err)
            self.assertIn("remove tiny/model, 2.0 MiB? [y/N] ", out)
        self.assertFalse(self.repo().exists())

    def test_dry_run(self):
        model = self.hub.add(REPO, {**tiny(), "x.bin": b"x"})
        out = self.fine("pull", "--dry-run", REPO)
        self.assertIn("1838440 model.safetensors", out)
        self.assertIn(model.commit, out)
        self.assertNotIn("x.bin", out)
        self.assertFalse(self.cache.exists())
        self.assertEqual(self.hub.sent(), 0)

    def test_what_is_there_as_a_file_wins(self):
        self.hub.add(REPO, tiny())
        self.pull()
        shutil.copytree(SOURCE / "models" / "tiny" / "draft", self.folder / REPO)
        (self.folder / REPO / "config.json").write_text("{}")
        self.fails(1, "config.json", "run", REPO, "-p", "x", cwd=self.folder)

    def test_folders_and_strange_names(self):
        files = {**tiny(), "1_Pooling/config.json": b"{}", "sub/ä b#%.txt": b"1", "sub/deep/x": b"22"}
        model = self.hub.add(REPO, files)
        self.pull()
        self.check_snapshot(model, [*tiny(), "1_Pooling/config.json"])
        self.pull(REPO, "--file", "sub/*")
        self.check_snapshot(model, files)

    def test_two_revisions_share_blobs(self):
        old = self.hub.add(REPO, tiny(), revisions=("v1", "refs/pr/1"))
        new = self.hub.add(REPO, {**tiny(), "generation_config.json": b"{}", "extra.json": b"{ }"})
        self.pull(f"{REPO}@refs/pr/1")
        sent = self.hub.sent()
        self.pull()
        self.assertEqual(self.hub.sent(), sent + 5)
        self.assertEqual((self.repo() / "refs" / "refs" / "pr" / "1").read_text(), old.commit)
        rows = json.loads(self.fine("list", "--json"))
        self.assertEqual({(r["revision"], r["refs"]) for r in rows}, {(old.commit, "refs/pr/1"), (new.commit, "main")})
        before = set(self.blobs())
        self.fails(1, "no revision 'v1'", "rm", "--yes", f"{REPO}@v1")
        self.fine("rm", "--yes", f"{REPO}@{new.commit[:8]}")
        self.check_snapshot(old)
        gone = {standin.git_hash(b"{}"), standin.git_hash(b"{ }")}
        self.assertEqual(set(self.blobs()), before - gone)
        self.assertFalse((self.repo() / "refs" / "main").exists())
        self.fails(1, "weft pull", "run", REPO, "-p", "x")
        self.fine("rm", "--yes", f"{REPO}@refs/pr/1")
        self.assertFalse(self.repo().exists())

    def test_places(self):
        self.hub.add(REPO, tiny())
        del self.env["HF_HOME"]
        for name, value, where in (
            ("XDG_CACHE_HOME", self.folder / "xdg", self.folder / "xdg" / "huggingface" / "hub"),
            ("HF_HOME", "~/own", self.folder / "own" / "hub"),
            ("HF_HUB_CACHE", self.folder / "cache/", self.folder / "cache"),
        ):
            with self.subTest(name):
                self.env[name] = str(value)
                self.assertTrue(self.pull().is_relative_to(where))
        for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE"):
            del self.env[name]
        self.assertTrue(self.pull().is_relative_to(self.folder / ".cache" / "huggingface" / "hub"))
        del self.env["HOME"]
        self.fails(1, "HF_HUB_CACHE", "pull", REPO)

    def test_offline(self):
        model = self.hub.add(REPO, tiny())
        self.env["HF_HUB_OFFLINE"] = "1"
        self.fails(1, "HF_HUB_OFFLINE is set", "pull", REPO)
        self.assertEqual(self.hub.requests, [])
        del self.env["HF_HUB_OFFLINE"]
        path = self.pull()
        n = len(self.hub.requests)
        self.env["HF_HUB_OFFLINE"] = "1"
        self.assertEqual(self.pull(), path)
        self.fine("run", REPO, "-p", "x", "-n", "2")
        for words in (["--file", "*.gguf"], ["--verify"], ["--dry-run"]):
            self.fails(2, "ask the hub", "pull", REPO, *words)
        self.assertEqual(len(self.hub.requests), n)
        self.check_snapshot(model)

    def test_wrong_names_are_wrong_usage(self):
        for name in ("a/b/c", "../x", "a/..", "a/b@", "a/b@../x", "a/b:", "a/b:x/y", "a b/c", "", "a/-b", "a/b--c"):
            with self.subTest(name):
                self.fails(2, "'", "pull", name)
        self.fails(2, "both", "pull", "a/b:Q4", "--file", "x")
        self.assertEqual(self.hub.requests, [])
        self.assertFalse(self.cache.exists())


class Choice(Case):
    GGUF = {
        "My-Model-Q4_K_M.gguf": b"4",
        "My-Model-Q4_K_S.gguf": b"44",
        "My-Model-UD-Q4_K_M.gguf": b"444",
        "My-Model-Q8_0-00001-of-00002.gguf": b"8",
        "My-Model-Q8_0-00002-of-00002.gguf": b"88",
        "mmproj-F16.gguf": b"m",
        "BF16/My-Model-BF16.gguf": b"16",
        "README.md": b"#",
        "config.json": b"{}",
    }

    def test_gguf_by_quantization(self):
        model = self.hub.add(REPO, self.GGUF)
        for name, expected in (
            ("Q4_K_M", ["My-Model-Q4_K_M.gguf"]),
            ("q4_k_s", ["My-Model-Q4_K_S.gguf"]),
            ("UD-Q4_K_M", ["My-Model-UD-Q4_K_M.gguf"]),
            ("bf16", ["BF16/My-Model-BF16.gguf"]),
            ("Q8_0", ["My-Model-Q8_0-00001-of-00002.gguf", "My-Model-Q8_0-00002-of-00002.gguf"]),
        ):
            with self.subTest(name):
                path = self.pull(f"{REPO}:{name}")
                self.check_snapshot(model, expected)
                self.assertEqual(path, self.repo() / "snapshots" / model.commit / expected[0])
                self.assertEqual(self.pull(f"{REPO}:{name}", env={**self.env, "HF_HUB_OFFLINE": "1"}), path)
                shutil.rmtree(self.repo())

    def test_gguf_that_is_not_clear(self):
        self.hub.add(REPO, self.GGUF)
        out, err = self.fails(1, "5 GGUF models, say which with :QUANT", "pull", REPO)
        for label in ("Q4_K_M", "Q4_K_S", "Q8_0", "BF16"):
            self.assertIn(label, err)
        self.assertIn("2 My-Model-Q8_0-00002-of-00002.gguf\n", out)
        self.assertNotIn("mmproj", out)
        out, _ = self.fails(1, "no GGUF file is 'Q4_K'; there are", "pull", f"{REPO}:Q4_K")
        self.assertIn("My-Model-Q4_K_M.gguf", out)
        self.assertFalse(self.repo().exists())

    def test_one_gguf(self):
        model = self.hub.add(REPO, {"a.gguf": b"g", "mmproj-a.gguf": b"m"})
        self.assertEqual(self.pull(), self.repo() / "snapshots" / model.commit / "a.gguf")
        (row,) = json.loads(self.fine("list", "--json"))
        self.assertEqual(row["kind"], "gguf")
        self.fails(1, "a.gguf", "run", REPO, "-p", "x")  # found, and no model

    def test_files_by_name_and_pattern(self):
        model = self.hub.add(REPO, {**self.GGUF, "w.bin": b"pickle"})
        path = self.pull(REPO, "--file", "mmproj-F16.gguf")
        self.assertEqual(path.name, "mmproj-F16.gguf")
        self.pull(REPO, "--file", "*Q8_0*", "--file", "w.bin")
        names = [n for n in self.GGUF if "Q8_0" in n] + ["mmproj-F16.gguf", "w.bin"]
        self.check_snapshot(model, names)
        self.fails(1, "no file is 'nothing*'", "pull", REPO, "--file", "nothing*")

    def test_safetensors(self):
        data = {
            "config.json": b"{}",
            "model.safetensors.index.json": b"{} ",
            "model-00001-of-00002.safetensors": b"1",
            "model-00002-of-00002.safetensors": b"2",
            "model.safetensors": b"whole",
            "consolidated.safetensors": b"c",
            "original/consolidated.00.pth": b"p",
            "pytorch_model.bin": b"b",
            "pytorch_model.bin.index.json": b"{  }",
            "tokenizer.model": b"t",
            "chat_template.jinja": b"j",
            "vocab.txt": b"v",
            "LICENSE.txt": b"l",
            ".hidden.json": b"h",
            "model-Q4_0.gguf": b"g",
        }
        model = self.hub.add(REPO, data)
        self.pull()
        names = ["config.json", "model.safetensors.index.json", "tokenizer.model", "chat_template.jinja", "vocab.txt"]
        self.check_snapshot(model, [*names, *(n for n in data if "-of-" in n)])

    def test_neither(self):
        self.hub.add(REPO, {"pytorch_model.bin": b"b", "config.json": b"{}"})
        self.fails(1, "neither a model in safetensors nor one in GGUF", "pull", REPO)


class Broken(Case):
    """What breaks off goes on where it was."""

    def kill_and_resume(self, number):
        model = self.hub.add(REPO, tiny())
        self.hub.faults.slow = 0.1
        process = self.start("pull", REPO)
        self.wait_for(lambda: self.begun(3 << 16))
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        self.hub.faults.slow = 0.0
        self.nothing_left()
        there = sum(len(d) for n, d in self.blobs().items() if n.endswith(".incomplete"))
        self.assertGreaterEqual(there, 3 << 16)
        (row,) = json.loads(self.fine("list", "--json"))
        self.assertEqual((row["kind"], row["revision"]), ("incomplete", ""))
        n = len(self.hub.file_requests)
        self.pull()
        self.check_snapshot(model)
        self.assertEqual(self.hub.file_requests[n].range, f"bytes={there}-")
        weights = len(model.files["model.safetensors"])
        self.assertEqual(self.hub.file_requests[n].sent, weights - there)
        return process.returncode, err

    def test_killed(self):
        status, _ = self.kill_and_resume(signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL)

    def test_interrupted(self):
        status, err = self.kill_and_resume(signal.SIGINT)
        self.assertEqual(status, 1)
        self.assertIn("weft: stopped; what is there stays, and a later pull goes on\n", err)

    def test_cut_bodies_are_continued(self):
        model = self.hub.add(REPO, tiny())
        self.hub.faults.cut = [100, 50, 300_000, 0, 700_000]
        _, _, err = self.run_weft("pull", REPO)
        self.check_snapshot(model)
        self.assertEqual(self.hub.sent(), sum(map(len, tiny().values())))
        self.assertIn("again in 0.5 s", err)

    def test_a_host_without_ranges(self):
        model = self.hub.add(REPO, tiny())
        self.hub.faults.no_ranges = True
        self.hub.faults.cut = [717, 156, 300_000]
        self.pull()
        self.check_snapshot(model)

    def test_a_host_that_does_not_know_the_place(self):
        model = self.hub.add(REPO, tiny())
        self.hub.faults.cut = [717, 156, 300_000]
        self.hub.faults.file_statuses = [None, (416, {"Content-Range": "bytes */5"})]
        self.pull()
        self.check_snapshot(model)
        ranges = [r.range for r in self.hub.file_requests]
        self.assertEqual(ranges[:3], [None, "bytes=300000-", None])

    def test_longer_than_the_file(self):
        model = self.hub.add(REPO, tiny())
        name = hashlib.sha256(tiny()["model.safetensors"]).hexdigest() + ".incomplete"
        (self.repo() / "blobs").mkdir(parents=True)
        (self.repo() / "blobs" / name).write_bytes(bytes(2_000_000))
        self.pull()
        self.check_snapshot(model)

    def test_busy_hub(self):
        model = self.hub.add(REPO, tiny())
        self.hub.faults.statuses = [(503,), (429, {"Retry-After": "1"})]
        self.hub.faults.file_statuses = [(500,)]
        began = time.monotonic()
        self.pull()
        self.assertGreaterEqual(time.monotonic() - began, 0.5 + 1 + 0.5)
        self.check_snapshot(model)

    def test_a_hub_that_stays_busy(self):
        self.hub.add(REPO, tiny())
        self.hub.faults.statuses = [(503,)] * 20
        self.fails(1, "6 attempts in vain; the last: the hub answers 503", "pull", REPO)
        self.assertEqual(len(self.hub.requests), 6)

    def test_a_hub_that_asks_for_an_hour(self):
        self.hub.add(REPO, tiny())
        self.hub.faults.statuses = [(429, {"Retry-After": "3600"})]
        self.fails(1, "wait 3600 s, at most 60", "pull", REPO)
        self.assertEqual(len(self.hub.requests), 1)

    def test_nobody_there(self):
        self.hub.add(REPO, tiny())
        self.env["HF_ENDPOINT"] = "http://127.0.0.1:1"
        process = self.start("pull", REPO)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, r"weft: 127\.0\.0\.1: .*; again in 0\.5 s\n")
        self.assertIn("stopped", err)

    def test_a_file_that_cannot_grow(self):
        """As on a full disk: what is there stays."""
        model = self.hub.add(REPO, tiny())

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

        self.fails(1, "cannot write", "pull", REPO, preexec_fn=limit, restore_signals=False)
        self.nothing_left()
        self.assertTrue(self.begun(500_000))
        sent = self.hub.sent()
        self.pull()
        self.check_snapshot(model)
        self.assertEqual(self.hub.file_requests[-2].range, "bytes=500000-")
        self.assertGreater(sent, 0)

    def test_a_disk_without_room(self):
        model = self.hub.add(REPO, {**tiny(), "model.safetensors": b"x" * 20_000})
        model.find("model.safetensors")["lfs"]["size"] = 1 << 42
        _, err = self.fails(1, "free", "pull", REPO)
        self.assertRegex(err, r"needs 4398\d{9} more bytes, the disk of \S+ has \d+ free")
        self.assertEqual(self.hub.sent(), 0)

    def test_two_at_once(self):
        model = self.hub.add(REPO, tiny())
        self.hub.faults.slow = 0.15
        pulls = [self.start("pull", REPO)]
        self.wait_for(self.begun)
        pulls += [self.start("pull", REPO) for _ in range(2)]
        ends = [(p, *p.communicate(timeout=SECONDS)) for p in pulls]
        for process, out, err in ends:
            self.assertEqual(process.returncode, 0, err)
        self.assertEqual(len({out for _, out, _ in ends}), 1)
        self.assertEqual(sum("waiting" in err for _, _, err in ends), 2)
        self.assertEqual(self.hub.sent(), sum(map(len, tiny().values())))
        self.check_snapshot(model)

    def test_rm_waits_for_a_pull(self):
        self.hub.add(REPO, tiny())
        self.hub.faults.slow = 0.03
        process = self.start("pull", REPO)
        self.wait_for(self.begun)
        self.fine("rm", "--yes", REPO)
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, err)
        self.assertFalse(self.repo().exists())


class Wrong(Case):
    """A hub that errs or lies."""

    def test_a_wrong_byte_is_fetched_again(self):
        for repo, faults in (("tiny/small", [7]), ("tiny/large", [None, None, 1_000_000])):
            with self.subTest(repo):
                model = self.hub.add(repo, tiny())
                self.hub.faults.wrong = faults
                self.pull(repo)
                self.check_snapshot(model, repo=repo)
                self.assertEqual(self.hub.faults.wrong, [])

    def test_a_hash_that_stays_wrong(self):
        self.hub.add(REPO, tiny())
        self.hub.faults.wrong = [7, 7]
        self.fails(1, "'config.json' has hash", "pull", REPO)
        self.nothing_left()
        self.assertEqual(self.blobs(), {})

    def test_a_beginning_that_is_wrong(self):
        model = self.hub.add(REPO, tiny())
        name = hashlib.sha256(tiny()["model.safetensors"]).hexdigest() + ".incomplete"
        (self.repo() / "blobs").mkdir(parents=True)
        (self.repo() / "blobs" / name).write_bytes(bytes(1_000_000))
        self.pull()
        self.check_snapshot(model)

    def test_verify(self):
        model = self.hub.add(REPO, tiny())
        self.pull()
        path = next(p for p in (self.repo() / "blobs").iterdir() if p.stat().st_size > 1_000_000)
        data = bytearray(path.read_bytes())
        data[5] ^= 1
        path.write_bytes(data)
        sent = self.hub.sent()
        self.pull()
        self.assertEqual(self.hub.sent(), sent)
        self.pull(REPO, "--verify")
        self.assertEqual(self.hub.sent(), sent + len(data))
        self.check_snapshot(model)

    def test_a_file_that_changes_in_between(self):
        self.hub.add(REPO, tiny())
        for fault, value, part in (
            ("size", 5, "with 5 bytes, it said 1838440"),
            ("etag", "0" * 64, "with hash 000000000000..., it said"),
            ("etag", "0" * 40, "with hash 000000000000..., it said"),
            ("commit", "1" * 40, "of commit 111111111111"),
        ):
            with self.subTest(fault=fault, value=value):
                setattr(self.hub.faults, fault, value)
                self.fails(1, part, "pull", REPO)
                setattr(self.hub.faults, fault, None)
                self.nothing_left()
                shutil.rmtree(self.repo())

    def test_more_or_less_than_it_said(self):
        model = self.hub.add(REPO, tiny())
        row = model.find("config.json")
        row["size"] -= 1
        self.fails(1, "716", "pull", REPO)
        row["size"] += 2
        self.fails(1, "718", "pull", REPO)
        self.nothing_left()

    def test_hostile_names(self):
        model = self.hub.add(REPO, tiny())
        for name in (
            "../../../../escape.json",
            "/etc/passwd.json",
            "a/../b.json",
            "./config.json",
            "a//b.json",
            "a/",
            "",
            ".",
            "..",
            "new\nline.json",
            "nul\0.json",
            "escape\x1b[2J.json",
            "back\\slash.json",
            "x" * 241 + ".json",
            "/".join("abcdefghij"),
            7,
            None,
        ):
            with self.subTest(name=name):
                model.listing.append(standin.entry(name, b"{}"))
                self.fails(1, "the hub lists a file", "pull", REPO)
                model.listing.pop()
        model.listing.append(standin.entry("config.json", b"{}"))
        self.fails(1, "lists 'config.json' twice", "pull", REPO)
        model.listing.pop()
        self.assertFalse(self.cache.exists())
        self.assertEqual(self.hub.sent(), 0)

    def test_hostile_lists(self):
        model = self.hub.add(REPO, tiny())
        commit = model.commit
        for body, part in (
            (b"{", "the hub's answer"),
            (b"[]", "names no commit"),
            (b"[" * 100_000, "the hub's answer"),
            (json.dumps({"sha": "../" * 20, "siblings": []}).encode(), "names no commit"),
            (json.dumps({"sha": commit.upper() + "", "siblings": []}).encode() if commit.upper() != commit else b"{}", "names no commit"),
            (json.dumps({"sha": commit, "siblings": {}}).encode(), "lists no files"),
            (json.dumps({"sha": commit, "siblings": [1]}).encode(), "without a name"),
            (json.dumps({"sha": commit, "siblings": [{"rfilename": "a", "size": -1}]}).encode(), "no size"),
            (json.dumps({"sha": commit, "siblings": [{"rfilename": "a", "size": 1 << 50}]}).encode(), "no size"),
            (b" " * ((16 << 20) + 1), "more than 16777216 bytes"),
            (json.dumps({"sha": commit, "siblings": []}).encode(), "neither"),
            (
                json.dumps({"sha": commit, "siblings": [{"rfilename": "a.gguf", "size": 1}]}).encode(),
                "no hash of 'a.gguf'",
            ),
            (
                json.dumps(
                    {"sha": commit, "siblings": [{"rfilename": "a.gguf", "size": 1, "blobId": "../../x" + "0" * 33}]}
                ).encode(),
                "no hash of 'a.gguf'",
            ),
        ):
            with self.subTest(body=body[:60]):
                self.hub.faults.listing = body
                self.fails(1, part, "pull", REPO)
        self.assertFalse(self.cache.exists())

    def test_links_of_others_are_not_followed(self):
        """A link where a file is to grow is not written through."""
        self.hub.add(REPO, tiny())
        victim = self.folder / "victim"
        victim.write_bytes(b"mine")
        name = standin.git_hash(tiny()["config.json"]) + ".incomplete"
        (self.repo() / "blobs").mkdir(parents=True)
        (self.repo() / "blobs" / name).symlink_to(victim)
        self.fails(1, "cannot open", "pull", REPO)
        self.assertEqual(victim.read_bytes(), b"mine")
        outside = self.folder / "outside"
        outside.mkdir()
        (outside / "file").write_bytes(b"mine")
        (self.repo() / "snapshots").mkdir()
        (self.repo() / "snapshots" / ("a" * 40)).symlink_to(outside)
        self.fine("rm", "--yes", REPO)
        self.assertFalse(self.repo().exists())
        self.assertEqual((outside / "file").read_bytes(), b"mine")

    def test_redirects(self):
        self.hub.add(REPO, tiny())
        for address, part in (
            ("http://example.invalid/x", "not https"),
            ("file:///etc/passwd", "redirects to"),
            ("ftp://127.0.0.1/x", "redirects to"),
            (f"{self.hub.address}/{REPO}/resolve/main/model.safetensors", "more than 5 times"),
            ("http://[", "no address"),
        ):
            with self.subTest(address=address):
                self.hub.faults.redirect = lambda _, to=address: to
                self.fails(1, part, "pull", REPO)
        self.hub.faults.redirect = lambda address: address.replace("//127.0.0.1", "//localhost")
        self.pull()

    def test_endpoints(self):
        for address in ("http://example.invalid", "ftp://127.0.0.1", "nonsense", "http://127.0.0.1.example.invalid"):
            with self.subTest(address):
                self.env["HF_ENDPOINT"] = address
                self.fails(1, "the hub's address", "pull", REPO)
        self.env["HF_ENDPOINT"] = self.hub.address.replace("//", "//user:word@")
        self.fails(1, "the hub's address", "pull", REPO)
        self.assertEqual(self.hub.requests, [])


class Access(Case):
    TOKEN = "hf_0123456789"

    def test_a_token_stays_with_the_hub(self):
        model = self.hub.add(REPO, tiny())
        model.token = self.TOKEN
        model.private = True
        self.env["HF_TOKEN"] = self.TOKEN
        self.pull()
        self.check_snapshot(model)
        self.assertTrue(self.hub.requests and self.hub.file_requests)
        self.assertEqual({r.token for r in self.hub.requests}, {f"Bearer {self.TOKEN}"})
        self.assertEqual({r.token for r in self.hub.file_requests}, {None})

    def test_nor_goes_back_with_another_redirect(self):
        """Not to another name of this machine, though it is the same port."""
        model = self.hub.add(REPO, tiny())
        model.token = self.TOKEN
        self.env["HF_TOKEN"] = self.TOKEN
        self.hub.faults.redirect = lambda _: (
            self.hub.address.replace("127.0.0.1", "localhost") + f"/{REPO}/resolve/main/model.safetensors"
        )
        self.fails(1, "answers 401", "pull", REPO)

    def test_tokens_of_files(self):
        model = self.hub.add(REPO, tiny())
        model.token = self.TOKEN
        (self.folder / "home").mkdir()
        (self.folder / "home" / "token").write_text(self.TOKEN + "\n")
        self.pull()
        self.env["HF_TOKEN_PATH"] = str(self.folder / "nothing")
        self.fine("rm", "--yes", REPO)
        self.fails(1, "gated", "pull", REPO)

    def test_refusals(self):
        model = self.hub.add(REPO, tiny())
        model.token = self.TOKEN
        self.fails(1, f"gated: ask for access at {self.hub.address}/{REPO}, then set HF_TOKEN", "pull", REPO)
        self.env["HF_TOKEN"] = "hf_other"
        self.fails(1, "gated", "pull", REPO)
        model.private = True
        self.fails(1, "does not accept the token", "pull", REPO)
        del self.env["HF_TOKEN"]
        self.fails(1, "set HF_TOKEN", "pull", REPO)
        self.fails(1, "check the name, or set HF_TOKEN", "pull", "no/model")
        self.env["HF_TOKEN"] = self.TOKEN
        self.fails(1, "the hub has no model no/model (404)", "pull", "no/model")
        self.fails(1, "has no revision 'v9'", "pull", f"{REPO}@v9")
        model.find("config.json")["rfilename"] = "other.json"
        self.fails(1, "tiny/model: there is neither", "pull", REPO)
        self.fails(1, "has no file 'gone.json' (404)", "pull", REPO, "--file", self.gone(model))
        for token in ("with space", "line\nfeed", "x" * 1025):
            with self.subTest(token=token):
                self.env["HF_TOKEN"] = token
                self.fails(1, "the token", "pull", REPO)

    @staticmethod
    def gone(model):
        """Listed, and not there: the list changes while the file is asked for."""
        row = standin.entry("gone.json", b"{}")
        model.listing.append(row)
        model.find = lambda name: next(
            (e for e in model.listing if e["rfilename"] == name and name != "gone.json"), None
        )
        return "gone.json"

    def test_what_a_refusal_says_is_not_believed(self):
        self.hub.add(REPO, tiny())
        self.hub.faults.statuses = [(404, {"X-Error-Code": "x" * 5000}), (418, {}, b"\x1b[2J" * 500_000)]
        self.fails(1, "404", "pull", REPO)
        self.fails(1, "418", "pull", REPO)


if __name__ == "__main__":
    WEFT = Path(sys.argv[1]).resolve()
    SOURCE = Path(sys.argv[2]).resolve()
    said = subprocess.run(
        [WEFT, "pull", "a/b"], env={"HOME": "/nonexistent", "HF_ENDPOINT": "none"}, capture_output=True, text=True, check=False
    ).stderr
    if "without libcurl" in said:
        print("this weft was built without libcurl")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
