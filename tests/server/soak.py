#!/usr/bin/env python3
"""soak.py - a server under random clients of every kind, for a while.

    tests/server/soak.py [--sanitized] [--seconds N] [--seed N] [--threads N] WEFT SOURCE

Most of them behave; others leave, say nonsense, or do not read. Twice a second it is looked at from
outside; in the end it must be idle and well, and end by itself. The seed gives each client its
part; how they meet is the machine's affair.
"""

import argparse
import collections
import contextlib
import json
import random
import sys
import threading
import time

from harness import Client, Server, request

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
WORDS = "once upon a time there was the little girl who said hello to her friend and ran home".split()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def text_of(draw, n):
    return " ".join(draw.choice(WORDS) for _ in range(n))


def sampling_of(draw):
    fields = {"max_tokens": draw.choice([1, 2, 8, 40, 200]), "seed": draw.randrange(1 << 40)}
    for name, value in (
        ("temperature", draw.uniform(0, 2)),
        ("top_p", draw.uniform(0.1, 1)),
        ("top_k", draw.randrange(100)),
        ("min_p", draw.uniform(0, 0.5)),
        ("repetition_penalty", draw.uniform(0.8, 1.5)),
        ("presence_penalty", draw.uniform(-2, 2)),
        ("dry_multiplier", draw.uniform(0, 2)),
        ("logit_bias", {str(draw.randrange(300)): draw.choice([-100, 5])}),
        ("stop", [draw.choice(WORDS)]),
        ("ignore_eos", True),
        ("no_cache", True),
        ("cache_salt", str(draw.randrange(3))),
        ("draft", draw.choice(["none", "ngram"])),
        ("n", draw.choice([1, 2, 5])),
        ("stream", True),
    ):
        if draw.random() < 0.3:
            fields[name] = value
    return fields


def body_of(draw):
    """Path and body of a request that is right, but for the length of its prompt."""
    fields = sampling_of(draw)
    n = draw.choice([1, 5, 40, 200, 400, 2000])
    if draw.random() < 0.2:
        fields["response_format"] = draw.choice(
            [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": SCHEMA}}]
        )
    elif draw.random() < 0.1:
        fields["guided_regex"] = draw.choice(["[a-z]{3,9}", "(yes|no)", "\\d+"])
    if draw.random() < 0.5:
        if draw.random() < 0.2:
            fields["logprobs"] = draw.randrange(20)
        if draw.random() < 0.2:
            return TEXT, {"prompt": [text_of(draw, 5) for _ in range(draw.randrange(1, 9))], **fields}
        return TEXT, {"prompt": text_of(draw, n), **fields}
    messages = [{"role": "user", "content": text_of(draw, n)}]
    if draw.random() < 0.5:
        messages += [
            {"role": "assistant", "content": text_of(draw, 5)},
            {"role": "user", "content": text_of(draw, 5)},
        ]
    if draw.random() < 0.2:
        fields.update(logprobs=True, top_logprobs=draw.randrange(20))
    return CHAT, {"messages": messages, **fields}


class Soak:
    def __init__(self, server, seconds, seed):
        self.server, self.seed = server, seed
        self.end = time.monotonic() + seconds
        self.counts = collections.Counter()
        self.failures = []
        self.lock = threading.Lock()

    def note(self, what):
        with self.lock:
            self.counts[what] += 1

    def over(self):
        return time.monotonic() > self.end or self.failures

    def fail(self, what):
        with self.lock:
            self.failures.append(what)

    # ---- kinds of clients

    def ask(self, draw):
        path, body = body_of(draw)
        reply = self.server.post(path, body)
        self.note(reply.status)
        if reply.status not in (200, 400, 503):
            self.fail(f"{reply.status} for {body}: {reply.body[:300]}")
        # What a form asks for may be what the request forbids; then the stream says so.
        barred = "logit_bias" in body and b"no token may be sampled" in reply.body
        whole = reply.body.endswith(b"[DONE]\n\n") or barred
        if reply.status == 200 and body.get("stream") and not whole:
            self.fail(f"a stream ends with {reply.body[-300:]}")
        if reply.status == 200 and not body.get("stream"):
            reply.json()

    def leave(self, draw):
        path, body = body_of(draw)
        with self.server.client() as c:
            data = request("POST", path, body)
            c.send(data[: draw.choice([len(data), len(data), draw.randrange(len(data))])])
            if body.get("stream") and draw.random() < 0.7:
                c.socket.settimeout(0.5)
                with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
                    for _ in range(draw.randrange(6)):
                        c.line()
            else:
                time.sleep(draw.random() * 0.2)
            draw.choice([Client.close, Client.reset, Client.half_close])(c)
        self.note("left")

    def pipeline(self, draw):
        n = draw.randrange(1, 12)
        kinds = [
            lambda: request("GET", "/health"),
            lambda: request("GET", "/v1/models"),
            lambda: request("POST", *body_of(draw)),
            lambda: request("POST", "/tokenize", {"prompt": text_of(draw, 20)}),
        ]
        with self.server.client() as c:
            c.send(b"".join(draw.choice(kinds)() for _ in range(n)))
            for _ in range(n if draw.random() < 0.7 else n // 2):
                status = c.reply().status
                if status not in (200, 400, 503):
                    self.fail(f"{status} in a pipeline")
        self.note("pipelines")

    def nonsense(self, draw):
        path, body = body_of(draw)
        data = bytearray(request("POST", path, body))
        for _ in range(draw.choice([1, 3, 20])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        with self.server.client(timeout=draw.choice([0.05, 0.3])) as c:
            c.try_send(bytes(data))
            with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
                c.reply()
        self.note("nonsense")

    def deaf(self, draw):
        path, body = body_of(draw)
        body.update(stream=True, n=4, max_tokens=300, ignore_eos=True)
        with self.server.client(receive_bytes=4096) as c:
            c.send(request("POST", path, body) + request("GET", "/metrics") * 50)
            time.sleep(draw.random())
        self.note("deaf")

    def look(self, draw):
        path = draw.choice(["/health", "/metrics", "/stats", "/v1/models", "/v1/models/draft", "/x"])
        status = self.server.ask(draw.choice(["GET", "HEAD"]), path).status
        if status != (404 if path == "/x" else 200):
            self.fail(f"{path} is {status}")
        self.note("looks")

    def other(self, draw):
        path, body = draw.choice(
            [
                ("/tokenize", {"prompt": text_of(draw, 50)}),
                ("/tokenize", {"messages": [{"role": "user", "content": "x"}]}),
                ("/detokenize", {"tokens": [draw.randrange(400) for _ in range(50)]}),
                ("/v1/embeddings", {"input": text_of(draw, 10)}),
                ("/kv/save", {"name": "x", "prompt": "x"}),
                (TEXT, {"prompt": "a", "model": "other"}),
            ]
        )
        status = self.server.post(path, body).status
        if status >= 500 and status != 503:
            self.fail(f"{path} is {status}")
        self.note("others")

    # ---- the whole

    def client(self, i):
        draw = random.Random(self.seed * 1000 + i)
        kinds = [self.ask] * 8 + [self.leave] * 5 + [self.pipeline, self.nonsense] * 2
        kinds += [self.deaf, self.look, self.look, self.other]
        while not self.over():
            kind = draw.choice(kinds)
            try:
                kind(draw)
            except Exception as failure:  # the run ends with it
                self.fail(f"{kind.__name__}: {failure!r}")

    def run(self, n_threads):
        threads = [threading.Thread(target=self.client, args=(i,)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        most = 0
        while not self.over():
            time.sleep(0.5)
            if self.server.process.poll() is not None:
                self.fail("the server is gone: " + self.server.output())
                break
            most = max(most, self.server.rss())
        for thread in threads:
            thread.join()
        return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("weft")
    parser.add_argument("source")
    o = parser.parse_args()
    server = Server(o.weft, o.source, "draft", "--context", 1024, "--memory", "2M", "--sequences", 6,
                    sanitized=o.sanitized)
    try:
        server.set_floor()
        soak = Soak(server, o.seconds, o.seed)
        most = soak.run(o.threads)
        if not soak.failures:
            server.check()
        stats = server.model_stats() if server.process.poll() is None else {}
        rss = server.rss() if stats else 0
        if server.stop() != 0:
            soak.failures.append("it did not end well")
    finally:
        server.kill()
    print(json.dumps({"counts": {str(k): v for k, v in sorted(soak.counts.items(), key=str)},
                      "floor": server.floor, "most": most, "rss": rss, "stats": stats}))
    for failure in soak.failures[:5]:
        print(failure, file=sys.stderr)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
