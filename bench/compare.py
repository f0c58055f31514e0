#!/usr/bin/env python3
"""compare.py - weft beside llama.cpp on the same files, in turn.

    bench/compare.py [options] WEFT LLAMA MODEL.gguf...

WEFT is the program, LLAMA a folder with llama-bench and llama-batched-bench (docs/performance.md
says how to build them), or several with commas: the fastest build counts. A round measures each engine once, one behind the other, and what is
printed are medians over rounds. An engine reads a prompt from nothing, and decodes 1, 2, 4, ...
sequences at once that have stood at a few tokens each. Each run of weft measures a plain read of
memory besides, so that what the neighbours of a machine take shows beside what they take it from.

Prints tables in Markdown, and with --json FILE writes every single figure.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEGMENT = 16  # steps that weft bench times together, as src/cli/commands/bench.c has it
TIMEOUT_S = 1800
FLAGS = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile"]


# ---- the machine ------------------------------------------------------------------------------


def processor_model():
    names, flags = ["unknown"], []
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            names.append(value.strip())
        if key.strip() == "flags":
            flags = value.split()
    return {"name": names[-1], "n": len(names) - 1, "flags": [f for f in FLAGS if f in flags],
            "kernel": platform.release()}


def clock_ticks():
    """Of all processors since the start: in use, and taken away by the host."""
    user, nice, system, _idle, _wait, irq, soft, steal = (
        int(x) for x in Path("/proc/stat").read_text(encoding="ascii").split()[1:9])
    return user + nice + system + irq + soft, steal


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Watch:
    """What else the machine did meanwhile, in processors."""

    def __enter__(self):
        self.load = float(Path("/proc/loadavg").read_text(encoding="ascii").split()[0])
        self.began, self.ticks, self.children = time.monotonic(), clock_ticks(), children_s()
        return self

    def __exit__(self, *_):
        seconds = time.monotonic() - self.began
        used, stolen = (
            (b - a) / os.sysconf("SC_CLK_TCK") for a, b in zip(self.ticks, clock_ticks()))
        ours = children_s() - self.children
        self.found = {"seconds": round(seconds, 2), "load_before": self.load,
                      "others": round(max(0.0, used - ours) / seconds, 3),
                      "stolen": round(stolen / seconds, 3)}


def commit_of(folder):
    words = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def busy(found):
    return found["watch"]["others"] + found["watch"]["stolen"]


# ---- the engines ------------------------------------------------------------------------------


def output_of(o, words):
    words = shlex.split(o.under) + [str(w) for w in words]
    found = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if found.returncode != 0:
        tail = "\n".join(found.stderr.splitlines()[-5:])
        sys.exit(f"compare.py: {shlex.join(words)} ended with {found.returncode}\n{tail}")
    return found.stdout


def run_weft(o, model, act):
    """A segment is a repetition: prompts are read as often, and speeds are medians of those."""
    repeat = max(1, o.steps // SEGMENT)
    found = json.loads(output_of(o, [
        o.weft, "bench", model, "--json", "--threads", o.threads, "--act", act, "--kv", "bf16",
        "--prompt", o.prompt, "--context", o.context, "--batch", ",".join(map(str, o.batches)),
        "--repeat", repeat]))
    return {"prefill": found["prefill"][0]["tok_s"],
            "decode": {r["batch"]: r["tok_s"] for r in found["decode"]},
            "bytes": {r["batch"]: r["bytes_per_step"] for r in found["decode"]},
            "read_gb_s": found["read_gb_s"]}


def llama_bench(o, folder, model, extra):
    words = [folder / "llama-bench", "-m", model, "-t", o.threads, "-o", "json", *extra]
    return json.loads(output_of(o, words))[0]


def run_build(o, folder, model):
    """One sequence as llama-bench has it, more as llama-batched-bench has them, which decodes one
    in another place, too: the faster of both counts."""
    repeat = max(1, o.steps // SEGMENT)
    prefill = llama_bench(o, folder, model, ["-p", o.prompt, "-n", 0, "-r", repeat])
    single = llama_bench(
        o, folder, model, ["-p", 0, "-n", o.steps, "-d", o.context, "-r", 1])["avg_ts"]
    tokens = max(o.batches) * (o.context + o.steps)
    lines = output_of(o, [
        folder / "llama-batched-bench", "-m", model, "-t", o.threads, "-tb", o.threads,
        "-c", tokens, "-npp", o.context, "-ntg", o.steps, "-npl", ",".join(map(str, o.batches)),
        "--output-format", "jsonl"])
    rows = [json.loads(x) for x in lines.splitlines() if x.startswith("{")]
    decode = {r["pl"]: r["speed_tg"] for r in rows}
    decode[1] = max(decode.get(1, 0.0), single)
    settings = {k: prefill.get(k) for k in
                ("n_ubatch", "type_k", "type_v", "flash_attn", "load_mode", "repack")}
    return {"folder": str(folder), "prefill": prefill["avg_ts"], "decode": decode,
            "commit": prefill.get("build_commit", "unknown"), "settings": settings}


def run_llama(o, model):
    """Of several builds the faster one, figure by figure: which of its loops are used where is
    settled when it is built."""
    builds = [run_build(o, Path(folder), model) for folder in o.llama.split(",")]
    return {"prefill": max(b["prefill"] for b in builds),
            "decode": {n: max(b["decode"][n] for b in builds if n in b["decode"])
                       for n in set().union(*(b["decode"] for b in builds))},
            "builds": builds}


# ---- tables -----------------------------------------------------------------------------------


def median(rounds, *path):
    values = []
    for found in rounds:
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            values.append(found)
    return statistics.median(values) if values else None


def cell(value, form):
    return "-" if value is None else form.format(value)


def table_rows(o, rounds, names):
    """A row of text for each figure: of llama.cpp, then of weft with its ratio, and the share of
    the plain read for both."""
    read = statistics.median(
        r["read_gb_s"] for name in names for r in rounds[name]) * 1e9
    theirs = rounds["llama.cpp"]
    paths = [("prefill", f"prefill {o.prompt}", None)]
    paths += [(n, f"decode {n}", n) for n in o.batches]
    for key, title, batch in paths:
        path = ("prefill",) if batch is None else ("decode", key)
        base = median(theirs, *path)
        step_bytes = median(rounds[names[0]], "bytes", key) if batch is not None else None
        line = [title, cell(base, "{:.1f}")]
        share = None if None in (base, step_bytes) else base / batch * step_bytes / read
        line.append(cell(share, "{:.0%}"))
        for name in names:
            ours = median(rounds[name], *path)
            share = None if step_bytes is None else ours / batch * step_bytes / read
            ratio = ours / base if base else None
            line += [cell(ours, "{:.1f}"), cell(ratio, "{:.2f}"), cell(share, "{:.0%}")]
        yield line


def print_table(o, model, rounds, names):
    read = [r["read_gb_s"] for name in names for r in rounds[name]]
    watched = [r["watch"] for one in rounds.values() for r in one]
    step_bytes = median(rounds[names[0]], "bytes", o.batches[0])
    print(f"\n### {Path(model).name}\n")
    print(f"{step_bytes / 1e6:.1f} MB a step with batch {o.batches[0]}; plain read "
          f"{statistics.median(read):.1f} GB/s ({min(read):.1f} to {max(read):.1f}); others took "
          f"{statistics.mean(w['others'] for w in watched):.2f} processors, the host "
          f"{statistics.mean(w['stolen'] for w in watched):.2f}\n")
    head = ["tok/s", "llama.cpp", "share"]
    for name in names:
        head += [name, "ratio", "share"]
    print("| " + " | ".join(head) + " |")
    print("| " + " | ".join("---" for _ in head) + " |")
    for line in table_rows(o, rounds, names):
        print("| " + " | ".join(line) + " |")
    sys.stdout.flush()


# ---- the whole --------------------------------------------------------------------------------


def measure(o, model, name):
    """Again while others are at work, as often as told; the quietest of these counts."""
    best = None
    for _ in range(o.tries):
        with Watch() as watch:
            found = (run_llama(o, model) if name == "llama.cpp"
                     else run_weft(o, model, name.removeprefix("weft ")))
        found["watch"] = watch.found
        if best is None or busy(found) < busy(best):
            best = found
        if busy(best) <= o.quiet:
            break
    return best


def compare(o, model):
    names = [f"weft {act}" for act in o.act]
    rounds = {"llama.cpp": [], **{name: [] for name in names}}
    for i in range(o.rounds):
        for name in [*names, "llama.cpp"]:
            print(f"{Path(model).name}: round {i + 1} of {o.rounds}, {name}", file=sys.stderr)
            rounds[name].append(measure(o, model, name))
    print_table(o, model, rounds, names)
    return {"model": Path(model).name, "bytes": Path(model).stat().st_size, "rounds": rounds}


def counts(text):
    values = [int(x) for x in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError("counts begin with 1")
    return values


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("weft")
    p.add_argument("llama")
    p.add_argument("models", nargs="+")
    p.add_argument("--act", action="append", help="of weft, may be repeated (default: bf16)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", dest="batches", type=counts, default=[1, 2, 4, 8, 16, 32])
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--context", type=int, default=16, help="tokens before those decoded")
    p.add_argument("--steps", type=int, default=48, help="steps of decoding")
    p.add_argument("--quiet", type=float, default=0.1, metavar="N",
                   help="processors that others may take, beyond which a measurement is repeated")
    p.add_argument("--tries", type=int, default=1, help="how often at most (default: 1)")
    p.add_argument("--under", default="", help="what starts each command: 'nice -n -10'")
    p.add_argument("--json", metavar="FILE")
    o = p.parse_args()
    o.act = o.act or ["bf16"]
    machine = processor_model()
    print(f"{machine['name']}, {machine['n']} processors, {' '.join(machine['flags'])}; "
          f"{o.threads} threads; weft {commit_of(ROOT)}; load "
          f"{Path('/proc/loadavg').read_text(encoding='ascii').split()[0]}")
    found = [compare(o, model) for model in o.models]
    theirs = found[0]["rounds"]["llama.cpp"][0]["builds"][0]
    print(f"\nllama.cpp {theirs['commit']}: "
          + ", ".join(f"{k} {v}" for k, v in theirs["settings"].items()))
    if o.json:
        report = {"machine": machine, "commit": commit_of(ROOT), "options": vars(o),
                  "models": found}
        Path(o.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
