#!/usr/bin/env python3
"""bench_server.py - what HTTP costs, and what hostile clients cost the others.

    bench/bench_server.py [--model PATH] [--threads N] [--rows 1,4] [--seconds N] [--rounds N]
                          [--only start,tax,first,quiet] WEFT BENCH_STREAM SOURCE

Prints one JSON object:
  start          from the start of the process to /health being 200, median of 5
  tax            tokens/s of N streams at once, each token an event, read by bench_stream, which
                 parses nothing: as soon as there is anything (http), and only every 10 ms (lazy);
                 beside bench_stream with an engine in its own process and the same requests
                 (inside). share is http over inside; medians of `rounds`, taken in turn.
                 loop_us is processor time of the server's loop for a token, client_us that of the
                 reader
  first          a prompt of 2,000 tokens that are cached and 50 that are not: milliseconds to the
                 first token, beside the server's own time of a step of the same run
  quiet          milliseconds of a small completion, one after another, of one client that has the
                 server for itself, then beside hostile ones, which are another process of the
                 lowest priority (nobody attacks from the same processors); ratio is that of the
                 99th percentiles, the median of `rounds`, each beside one alone just before
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
from harness import Client, Server, request  # noqa: E402

TEXT = "/v1/completions"


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def serve(o, context, **more):
    words = ["--threads", o.threads] if o.threads else []
    return Server(o.weft, o.source, o.model, "--context", context, *words, **more)


def measure_start(o):
    times = []
    for _ in range(5):
        began = time.monotonic()
        server = serve(o, 2048, wait=False)
        while server.ask("GET", "/health").status != 200:
            time.sleep(0.001)
        times.append((time.monotonic() - began) * 1000)
        server.stop()
    return round(statistics.median(times), 1)


def stream_rate(o, *words):
    """tokens_s and processor_us of bench_stream."""
    words = [o.bench_stream, *map(str, words)]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


def loop_ns(server):
    """Processor time of the server's first thread, which is its loop."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def measure_tax(o):
    out = []
    for n in o.rows:
        inside, http, lazy, loop = [], [], [], []
        for _ in range(o.rounds):
            inside.append(stream_rate(o, o.model, n, o.tokens, o.threads)["tokens_s"])
            server = serve(o, 2048)
            stream_rate(o, f":{server.port}", n, 16)
            before = loop_ns(server)
            http.append(stream_rate(o, f":{server.port}", n, o.tokens, 0))
            loop.append((loop_ns(server) - before) / 1000 / n / o.tokens)
            lazy.append(stream_rate(o, f":{server.port}", n, o.tokens, 10)["tokens_s"])
            server.stop()
        middle = {
            "inside": statistics.median(inside),
            "http": statistics.median(h["tokens_s"] for h in http),
            "lazy": statistics.median(lazy),
        }
        out.append({"streams": n, **middle, "share": round(middle["http"] / middle["inside"], 3),
                    "share_lazy": round(middle["lazy"] / middle["inside"], 3),
                    "loop_us": round(statistics.median(loop), 1),
                    "client_us": statistics.median(h["processor_us"] for h in http)})
    return out


def measure_first(o):
    server = serve(o, 2048)
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


class Target:
    """What hostile clients know of a server."""

    def __init__(self, port):
        self.port = port

    def client(self, **options):
        return Client(self.port, **options)

    def post(self, path, body):
        with self.client() as c:
            c.send(request("POST", path, body, ["Connection: close"]))
            return c.reply()


def attack(kind, port):
    """Until it is ended."""
    os.nice(19)
    for call in HOSTILE:
        if call.__name__ == kind:
            call(Target(port), threading.Event())


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
    server = serve(o, 1024)
    quiet_times(server, 1)
    all_alone, out = [], {}
    for kind in HOSTILE:
        ratios, all_times = [], []
        for _ in range(o.rounds):
            alone = quiet_times(server, o.seconds)
            hostile = subprocess.Popen([sys.executable, __file__, "--attack", kind.__name__, str(server.port)])
            time.sleep(0.5)
            times = quiet_times(server, o.seconds)
            hostile.terminate()
            hostile.wait()
            time.sleep(0.5)
            ratios.append(percentile(times, 0.99) / percentile(alone, 0.99))
            all_alone += alone
            all_times += times
        out[kind.__name__] = {
            "n": len(all_times),
            "p50": round(percentile(all_times, 0.5), 2),
            "p99": round(percentile(all_times, 0.99), 2),
            "ratio": round(statistics.median(ratios), 2),
            "ratios": [round(r, 2) for r in ratios],
        }
    server.stop()
    out["alone"] = {"n": len(all_alone), "p50": round(percentile(all_alone, 0.5), 2),
                    "p99": round(percentile(all_alone, 0.99), 2)}
    return out


def main():
    if sys.argv[1:2] == ["--attack"]:
        attack(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rows", default="1,4")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="start,tax,first,quiet")
    parser.add_argument("weft")
    parser.add_argument("bench_stream")
    parser.add_argument("source")
    o = parser.parse_args()
    o.model = o.model or str(Path(o.source) / "models" / "tiny" / "draft")
    o.rows = [int(n) for n in o.rows.split(",")]
    calls = {"start": measure_start, "tax": measure_tax, "first": measure_first,
             "quiet": measure_quiet}
    found = {name: calls[name](o) for name in o.only.split(",")}
    print(json.dumps({**found, "load": [round(x, 1) for x in os.getloadavg()]}, indent=1))


if __name__ == "__main__":
    main()
