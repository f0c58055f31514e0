#!/usr/bin/env python3
"""kv_quality.py - measures what each codec of keys and values costs, and writes docs/kv-quality.md.

    tools/kv_quality.py [--weft build/release/weft] [--threads N] [--model NAME]... [--again]

Each model reads a text with keys and values in f32 and, side by side, with each codec; weft eval kl says
how far the probabilities of the next token are apart. SmolLM2 and Gemma are those of
tools/fetch_models.sh build/models smollm2 gemma3. The texts are made from this repository: its documents,
and chats that models/tiny/draft writes. Results are kept in build/kv-quality and used again while model
and text are the same; --again measures anew. The document has what was measured for every model so far.
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
    """name -> (text, what it is)."""
    pairs = chats(weft)
    turns = "".join(
        f"<|user|>\n{prompt}<|end|>\n<|assistant|>\n{answer}<|end|>\n" for prompt, answer in pairs
    )
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    documents = "".join(path.read_text("utf-8") for path in paths if path != DOCUMENT)
    stories = "".join(answer + "\n\n" for _, answer in pairs)
    return {
        "documents": (
            documents + stories,
            "README.md, CONTRIBUTING.md and docs/*.md without this page, then the stories of the chats below",
        ),
        "chats": (turns, "chats that models/tiny/draft wrote (tools/kv_quality.py has prompts and options)"),
    }


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
    """Three digits, without an exponent; seven places for what is next to nothing."""
    if value < 1e-4:
        return f"{value:.7f}"
    return f"{value:#.3g}" if value < 1 else f"{value:.2f}"


def section(name, result):
    title, _, text, window = MODELS[name]
    lines = [
        f"## {title}",
        "",
        f"{result['scored']} tokens of the {text}, windows of {window}; perplexity with f32"
        f" {result['against']['perplexity']:.3f}. Measured {result['date']} on {result['machine']}"
        f" ({result['isa']}), commit {result['commit']}.",
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


def document(results, texts):
    lines = [
        "<!-- Written by tools/kv_quality.py. -->",
        "# What a codec costs",
        "",
        "How far the probabilities of the next token are from those that the same model has with keys and"
        " values in f32:",
        "the Kullback-Leibler divergence in nats a token, its mean with the standard error, its 99.9 % quantile"
        " and its",
        "maximum, and how often the likeliest token is the same. Everything else is the same on both sides"
        " (`--act f32`).",
        "Bytes a token are those of `weft inspect`: layers that grow without bound, with the parameters of"
        " affine in bf16.",
        "Here, with `--act f32`, these are f32, so affine with 8 bits is somewhat worse by default than it is here.",
        "",
        "    tools/fetch_models.sh build/models smollm2 gemma3",
        "    tools/kv_quality.py",
        "",
        "| text | bytes | SHA-256 | what it is |",
        "|---|---|---|---|",
    ]
    for name, (text, what) in texts.items():
        data = text.encode("utf-8")
        lines.append(f"| {name} | {len(data)} | `{hashlib.sha256(data).hexdigest()}` | {what} |")
    for name in MODELS:
        if name in results:
            lines += ["", *section(name, results[name])]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--model", choices=list(MODELS), action="append")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    weft = args.weft.resolve()
    RESULTS.mkdir(parents=True, exist_ok=True)
    made_of = commit()  # what is measured may take hours; meanwhile the tree may change
    texts = make_texts(weft)
    results = {}
    for name, (_, path, text, _) in MODELS.items():
        key = {
            "model": sha256(ROOT / path) if (ROOT / path).exists() else "",
            "text": hashlib.sha256(texts[text][0].encode("utf-8")).hexdigest(),
            "codecs": CODECS,
        }
        kept = RESULTS / f"{name}.json"
        known = json.loads(kept.read_text()) if kept.is_file() else {}
        wanted = name in (args.model or MODELS)
        if known.get("key") != key or (wanted and args.again):
            if not wanted:
                continue
            if not key["model"]:
                sys.exit(f"kv_quality.py: {path} is missing; see tools/fetch_models.sh")
            known = {"key": key, **measure(weft, name, texts[text][0], args.threads, made_of)}
            kept.write_text(json.dumps(known, indent=1) + "\n")
        results[name] = known
        DOCUMENT.write_text(document(results, texts), "utf-8")


if __name__ == "__main__":
    main()
