#!/usr/bin/env python3
"""bench_server.py - what HTTP costs, and what hostile clients cost the others.

    bench/bench_server.py [--model PATH] [--rows 1,4] [--seconds N] WEFT SOURCE

Prints one JSON object:
  start_ms       from the start of the process to /health being 200, median of 5
  tax            tokens/s of N streams at once, against `weft bench` with as many rows; share is
                 the first over the second
  first          a prompt of 2,000 tokens that are cached and 50 that are not: milliseconds to the
                 first token, beside the server's own time of a step of the same run
  quiet          milliseconds of a small completion, one after another, of one client that has the
                 server for itself, then beside hostile ones; ratio is that of the 99th percentiles
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "server"))
from harness import Server, request, together  # noqa: E402

TEXT = "/v1/completions"


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def measure_start(o):
    times = []
    for _ in range(5):
        began = time.monotonic()
        server = Server(o.weft, o.source, o.model, wait=False)
        while server.ask("GET", "/health").status != 200:
            time.sleep(0.001)
        times.append((time.monotonic() - began) * 1000)
        server.stop()
    return round(statistics.median(times), 1)


def bench_rows(o, n):
    words = [o.weft, "bench", o.model, "--json", "--context", "64", "--batch", str(n)]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return found["decode"][0]["tok_s"]


def stream_rate(server, n):
    """Tokens a second of all, from when the last stream began to when the first one ends. With
    logprobs each token is an event."""

    def one(_):
        body = {"prompt": [100] * 64, "max_tokens": 1000, "ignore_eos": True, "stream": True,
                "logprobs": 0,
                "no_cache": True}
        stamps = []
        with server.client() as c:
            c.send(request("POST", TEXT, body))
            c.head()
            while c.chunk():
                stamps.append(time.monotonic())
        return stamps

    streams = together(n, one)
    first, last = max(s[0] for s in streams), min(s[-1] for s in streams)
    tokens = sum(sum(first < t <= last for t in s) for s in streams)
    return tokens / (last - first)


def measure_tax(o):
    out = []
    server = Server(o.weft, o.source, o.model, "--context", 2048)
    for n in o.rows:
        inside = bench_rows(o, n)
        rates = [stream_rate(server, n) for _ in range(3)]
        rate = statistics.median(rates)
        out.append({"streams": n, "sse_tokens_s": round(rate, 1), "bench_tokens_s": round(inside, 1),
                    "share": round(rate / inside, 3)})
    server.stop()
    return out


def measure_first(o):
    server = Server(o.weft, o.source, o.model, "--context", 2048)
    n = min(2000, server.ask("GET", "/v1/models").json()["data"][0]["max_model_len"] - 60)
    stem = [100 + i % 97 for i in range(n - 4)]
    times = []
    server.complete(stem, max_tokens=1)
    before = server.model_stats()
    for i in range(20):
        body = {"prompt": stem + [200 + (i * 7 + j) % 150 for j in range(50)], "max_tokens": 1,
                "stream": True}
        with server.client() as c:
            began = time.monotonic()
            c.send(request("POST", TEXT, body))
            c.head()
            c.chunk()
            times.append((time.monotonic() - began) * 1000)
    after = server.model_stats()
    steps = after["steps"] - before["steps"]
    step_ms = (after["step_seconds"] - before["step_seconds"]) * 1000 / steps
    server.stop()
    return {"prompt": n + 46, "cached": (after["cached_tokens"] - before["cached_tokens"]) / 20,
            "first_ms": round(statistics.median(times), 2), "steps": steps / 20,
            "step_ms": round(step_ms, 2)}


# ---- hostile clients: each goes on until the end


def slow_heads(server, over):
    clients = [server.client() for _ in range(50)]
    while not over.wait(0.2):
        for i, c in enumerate(clients):
            if not c.try_send(b"G"):
                c.close()
                clients[i] = server.client()
    for c in clients:
        c.close()


def garbage(server, over):
    while not over.wait(0.002):
        with server.client() as c:
            c.try_send(bytes(range(256)) * 8)


def brackets(server, over):
    body = b'{"prompt":"a","user":' + b"[" * 1_000_000
    while not over.wait(0.05):
        with contextlib.suppress(OSError, EOFError):
            server.post(TEXT, body)


def leavers(server, over):
    while not over.wait(0.005):
        with server.client() as c:
            c.try_send(request("POST", TEXT, {"prompt": "a", "max_tokens": 500, "stream": True}))


def unread(server, over):
    c = server.client(receive_bytes=4096, timeout=0.5)
    while not over.wait(0.01):
        with contextlib.suppress(OSError):
            c.send(request("GET", "/metrics") * 10)
    c.close()


def connections(server, over):
    while not over.wait(0.001):
        server.client().close()


def large_bodies(server, over):
    body = b'{"prompt":"a","user":"' + b"x" * (16 << 20) + b'"}'
    while not over.wait(0.1):
        with contextlib.suppress(OSError, EOFError):
            server.post(TEXT, body)


HOSTILE = (slow_heads, garbage, brackets, leavers, unread, connections, large_bodies)


def quiet_times(server, seconds):
    times = []
    end = time.monotonic() + seconds
    with server.client() as c:
        while time.monotonic() < end:
            began = time.monotonic()
            c.send(request("POST", TEXT, {"prompt": "once upon", "max_tokens": 8}))
            if c.reply().status != 200:
                raise AssertionError("the quiet client was refused")
            times.append((time.monotonic() - began) * 1000)
            time.sleep(0.005)
    return times


def measure_quiet(o):
    server = Server(o.weft, o.source, o.model, "--context", 1024)
    alone = quiet_times(server, o.seconds)
    out = {"alone": {"n": len(alone), "p50": round(percentile(alone, 0.5), 2),
                     "p99": round(percentile(alone, 0.99), 2)}}
    for kind in HOSTILE:
        over = threading.Event()
        thread = threading.Thread(target=kind, args=(server, over))
        thread.start()
        time.sleep(0.3)
        times = quiet_times(server, o.seconds)
        over.set()
        thread.join()
        out[kind.__name__] = {
            "n": len(times),
            "p50": round(percentile(times, 0.5), 2),
            "p99": round(percentile(times, 0.99), 2),
            "ratio": round(percentile(times, 0.99) / percentile(alone, 0.99), 2),
        }
    server.stop()
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--rows", default="1,4")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("weft")
    parser.add_argument("source")
    o = parser.parse_args()
    o.model = o.model or str(Path(o.source) / "models" / "tiny" / "draft")
    o.rows = [int(n) for n in o.rows.split(",")]
    print(json.dumps({"start_ms": measure_start(o), "tax": measure_tax(o),
                      "first": measure_first(o), "quiet": measure_quiet(o),
                      "load": [round(x, 1) for x in os.getloadavg()]}, indent=1))


if __name__ == "__main__":
    main()
