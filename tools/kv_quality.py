#!/usr/bin/env python3
"""kv_quality.py - measures what each codec of keys and values costs, and writes docs/kv-quality.md.

    tools/kv_quality.py [--weft build/release/weft] [--threads N] [--model NAME]...

Each model reads a text with keys and values in f32 and, side by side, with each codec; weft eval kl says
how far the probabilities of the next token are apart. SmolLM2 and Gemma are those of
tools/fetch_models.sh build/models smollm2 gemma3. The texts are made from this repository: its documents,
and chats that models/tiny/draft writes. Results are kept in build/kv-quality: what is there is not measured
again unless --model names it. The document says of each what it was measured with.
"""

import argparse
import datetime
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "kv-quality"
DOCUMENT = ROOT / "docs" / "kv-quality.md"
TOKENS = 20480
CODECS = """f16 bf16 affine8g32 affine8g64 affine8g128 affine4g32 affine4g64 turbo-k8v8 turbo-k8v5 turbo-k8v4
turbo-k8v3 turbo-k8v2 turbo-k5v3 turbo-k4v3 turbo-k4v2""".split()

# name: title, path, text, tokens of a window. The toy model was trained on blocks of 512.
MODELS = {
    "tiny": ("models/tiny/target-mlx8", "models/tiny/target-mlx8", "chats", 512),
    "smollm2": (
        "SmolLM2-135M-Instruct, Q4_1",
        "build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "documents",
        1024,
    ),
    "gemma3": ("Gemma 3 270M, Q4_K_M", "build/models/gemma3/gemma-3-270m-q4_k_m.gguf", "documents", 1024),
}

NAMES = "Mia Tom Anna Ben Lily Max Rosa Sam Clara Leo Nora Finn Emma Jack Ruby Oscar Ella Hugo".split()
ANIMALS = "fox bear rabbit cat dog owl mouse duck horse turtle frog squirrel".split()
PLACES = "in the forest/by the sea/in a small town/on a farm".split("/")


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"kv_quality.py: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8")


def prompts():
    for i, animal in enumerate(ANIMALS):
        for k, name in enumerate(NAMES):
            place = PLACES[(i + k) % len(PLACES)]
            yield f"Tell me a story about a {animal} called {name} who lives {place}."


def chats(weft):
    """[(prompt, answer)], the same on every machine: no instruction set, no rounding of inputs."""
    pairs = []
    for seed, prompt in enumerate(prompts()):
        answer = run(
            *[weft, "run", "models/tiny/draft", "-p", prompt, "-n", 160, "--seed", seed],
            *["--temp", 0.8, "--isa", "generic", "--act", "f32", "--json", "--threads", 1],
        )
        pairs.append((prompt, json.loads(answer)["text"]))
    return pairs


def make_texts(weft):
    pairs = chats(weft)
    turns = "".join(
        f"<|user|>\n{prompt}<|end|>\n<|assistant|>\n{answer}<|end|>\n" for prompt, answer in pairs
    )
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    documents = "".join(path.read_text("utf-8") for path in paths if path != DOCUMENT)
    stories = "".join(answer + "\n\n" for _, answer in pairs)
    return {"documents": documents + stories, "chats": turns}


def sha256(path):
    digest = hashlib.sha256()
    for part in [path] if path.is_file() else sorted(path.iterdir()):
        digest.update(part.read_bytes())
    return digest.hexdigest()


def machine():
    lines = Path("/proc/cpuinfo").read_text().split("\n")
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} processors"


def commit():
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    changed = run("git", "status", "--porcelain", "--", *"src include tools docs README.md CONTRIBUTING.md".split())
    changed = any(not line.endswith(DOCUMENT.name) for line in changed.splitlines())
    return run(*words).strip() + (", changed" if changed else "")


def measure(weft, name, text, threads, made_of):
    _, path, _, window = MODELS[name]
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        words = ["eval", "kl", path, "--text", file.name, "--tokens", TOKENS, "--context", window]
        words += ["--act", "f32", "--against-kv", "f32", "--kv", " ".join(CODECS), "--json"]
        result = json.loads(run(weft, *words, *(["--threads", threads] if threads else [])))
    if result["tokens"] < TOKENS:
        sys.exit(f"kv_quality.py: the text for {name} has {result['tokens']} tokens, {TOKENS} are needed")
    sizes = json.loads(run(weft, "inspect", path, "--json"))["kv"]
    result["sizes"] = {row["codec"]: row["bytes_per_token"] for row in sizes}
    result["machine"] = machine()
    result["commit"] = made_of
    result["date"] = datetime.date.today().isoformat()
    return result


def rounded(value):
    return f"{value:.2e}" if value < 1e-4 else f"{value:#.3g}"


def section(name, result):
    title, _, text, window = MODELS[name]
    lines = [
        f"## {title}",
        "",
        f"{result['scored']} tokens of the {text} (SHA-256 `{result['key']['text']}`) in windows of {window};",
        f"perplexity with f32: {result['against']['perplexity']:.3f}. Measured {result['date']} on"
        f" {result['machine']} ({result['isa']}), commit {result['commit']}.",
        "",
        "| codec | bytes a token | mean KL | +/- | 99.9 % | largest | same likeliest | perplexity |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result["runs"]:
        lines.append(
            f"| {row['kv']} | {result['sizes'][row['kv']]} | {rounded(row['kl'])} | {rounded(row['kl_error'])}"
            f" | {rounded(row['kl_p999'])} | {rounded(row['kl_most'])} | {100 * row['same_top']:.2f} %"
            f" | {row['perplexity']:.3f} |"
        )
    return lines


OPENING = """<!-- Written by tools/kv_quality.py. -->
# What a codec costs

How far the probabilities of the next token are from those that the same model has with keys and values in f32:
the Kullback-Leibler divergence in nats a token, its mean with the standard error (as if tokens were independent),
its 99.9 % quantile and its maximum, and how often the likeliest token is the same. Everything else is the same on
both sides (`--act f32`). Bytes a token are those of `weft inspect`: of layers that keep every position, with the
parameters of affine in bf16. Here, with `--act f32`, these are f32; bf16 ones, the default, add to the error of
affine with 8 bits ([kv.md](kv.md#codecs)).

    tools/fetch_models.sh build/models smollm2 gemma3
    tools/kv_quality.py

The documents are README.md, CONTRIBUTING.md and docs/*.md without this page, and behind them the stories of the
chats, which models/tiny/draft writes at a temperature of 0.8 to prompts that the tool lists, as in its training.
Other models, other text, longer contexts: other numbers. Measure yours with `weft eval kl`.
"""


def document(results):
    parts = [OPENING]
    parts += ["\n".join(section(name, results[name])) + "\n" for name in MODELS if name in results]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--model", choices=list(MODELS), action="append")
    args = parser.parse_args()
    weft = args.weft.resolve()
    RESULTS.mkdir(parents=True, exist_ok=True)
    made_of = commit()  # what is measured may take hours; meanwhile the tree may change
    texts = {}
    results = {}
    for name, (_, path, text, _) in MODELS.items():
        kept = RESULTS / f"{name}.json"
        if not kept.is_file() or name in (args.model or []):
            if not (ROOT / path).exists():
                sys.exit(f"kv_quality.py: {path} is missing; see tools/fetch_models.sh")
            texts = texts or make_texts(weft)
            digest = hashlib.sha256(texts[text].encode("utf-8")).hexdigest()
            known = measure(weft, name, texts[text], args.threads, made_of)
            known["key"] = {"model": sha256(ROOT / path), "text": digest}
            kept.write_text(json.dumps(known, indent=1) + "\n")
        results[name] = json.loads(kept.read_text())
        DOCUMENT.write_text(document(results), "utf-8")


if __name__ == "__main__":
    main()
