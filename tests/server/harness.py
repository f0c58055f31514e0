"""harness.py - a `weft serve` under test: started, asked over plain sockets, and looked at from
outside afterwards. Standard library only."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

SECONDS = 60  # most that anything here waits; sanitizers and busy machines are slow
SETTLE_S = 20  # most until the server has let go of what a client left behind
FLOOR_BYTES = 24 << 20  # of memory above the floor that allocators may keep


class Reply:
    """One answer, whole: status, headers by lower-case name, body without its frame."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def message(self):
        """Of an error, in OpenAI's form or Anthropic's."""
        return self.json()["error"]["message"]

    def events(self):
        """The data of a stream's events; comments are skipped."""
        return [
            line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")
        ]


class Client:
    """A connection that sends exactly what it is told to."""

    def __init__(self, port, timeout=SECONDS, receive_bytes=0, host="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect((host, port))
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes so that the other side gets an error, not an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def try_send(self, data):
        """False when the other side has had enough."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def more(self):
        """b"" at the end, also when it comes as an error."""
        try:
            return self.socket.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            return b""

    def line(self):
        while b"\n" not in self.rest:
            more = self.more()
            if not more:
                raise EOFError(self.rest)
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.rstrip(b"\r")

    def take(self, n):
        while len(self.rest) < n:
            more = self.more()
            if not more:
                raise EOFError(self.rest)
            self.rest += more
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def until_end(self):
        data = self.rest
        while more := self.more():
            data += more
        self.rest = b""
        return data

    def head(self):
        status = int(self.line().split()[1])
        headers = {}
        while line := self.line():
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        if status == 100:
            return self.head()
        return status, headers

    def reply(self, method="GET"):
        status, headers = self.head()
        body = b""
        if method == "HEAD" or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while n := int(self.line(), 16):
                body += self.take(n)
                self.line()
            self.line()
        elif "content-length" in headers:
            body = self.take(int(headers["content-length"]))
        else:
            body = self.until_end()
        return Reply(status, headers, body)

    def chunk(self):
        """The next piece of a stream whose head was read; b"" is its end."""
        n = int(self.line(), 16)
        data = self.take(n)
        self.line()
        return data


def request(method, path, body=None, headers=(), version="1.1"):
    """Bytes of a request; body: bytes, text, or what becomes JSON."""
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Server:
    """words: what follows `weft serve`; a model by name is one of models/tiny."""

    def __init__(self, program, source, *words, sanitized=False, files=None, wait=True):
        self.sanitized = sanitized
        self.log = tempfile.TemporaryFile()
        models = Path(source) / "models" / "tiny"
        words = [str(models / w if (models / w).is_dir() else w) for w in map(str, words)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        known = Path(__file__).resolve().parent / "tsan.txt"
        environment.setdefault("TSAN_OPTIONS", f"suppressions={known}")

        def limit():
            import resource

            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.process = subprocess.Popen(
            [program, "serve", *words, "--port", "0", "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=environment,
            preexec_fn=limit,
        )
        self.port = self.find_port()
        if wait:
            self.wait_well()
        self.floor = 0
        self.slack = FLOOR_BYTES

    # ---- the process

    def output(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors="replace")

    def find_port(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = re.search(r"serving .* at http://\S+:(\d+)\n", self.output())
            if found:
                return int(found[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError("the server did not start: " + self.output())

    def wait_well(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if self.ask("GET", "/health").status == 200:
                return
            time.sleep(0.05)
        raise AssertionError("the server is not well: " + self.output())

    def stop(self, number=signal.SIGTERM):
        """Its exit status; what a sanitizer has to say fails here."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end") from None
        text = self.output()
        self.log.close()
        if "Sanitizer" in text or "runtime error" in text:
            raise AssertionError(text)
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def rss(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s*(\d+)", text)[1]) << 10

    # ---- asking

    def client(self, **options):
        return Client(self.port, **options)

    def ask(self, method, path, body=None, headers=()):
        with self.client() as c:
            c.send(request(method, path, body, [*headers, "Connection: close"]))
            return c.reply(method)

    def post(self, path, body, headers=()):
        return self.ask("POST", path, body, headers)

    def complete(self, prompt="the", **fields):
        return self.post("/v1/completions", {"prompt": prompt, "max_tokens": 4, **fields})

    def chat(self, text="hi", **fields):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4, **fields}
        return self.post("/v1/chat/completions", body)

    def stats(self, headers=()):
        return self.ask("GET", "/stats", headers=headers).json()

    def model_stats(self, model_i=0):
        return self.stats()["models"][model_i]

    # ---- judging

    def wait_idle(self, seconds=SETTLE_S):
        """Until no sequence is busy; the state, last seen."""
        end = time.monotonic() + seconds
        while True:
            all_of_it = self.stats()
            # The one that asks is under way itself.
            busy = all_of_it["under_way"] - 1
            busy += sum(m.get("active", 0) + m.get("waiting", 0) for m in all_of_it["models"])
            if busy == 0:
                return all_of_it
            if time.monotonic() > end:
                raise AssertionError(f"still busy: {all_of_it}")
            time.sleep(0.02)

    def set_floor(self):
        """Memory at rest, after everything was used once."""
        for _ in range(3):
            self.complete()
        self.floor = self.rss()

    def check(self):
        """What must hold after anything that a client does."""
        if self.process.poll() is not None:
            raise AssertionError(f"the server is gone ({self.process.returncode}): " + self.output())
        health = self.ask("GET", "/health")
        if health.status != 200:
            raise AssertionError(f"/health is {health.status}: {health.body}")
        reply = self.complete("once upon", temperature=0)
        if reply.status != 200 or reply.json()["usage"]["completion_tokens"] != 4:
            raise AssertionError(f"a completion fails: {reply.status} {reply.body}")
        self.wait_idle()
        if self.sanitized or not self.floor:
            return
        end = time.monotonic() + SETTLE_S
        while self.rss() > self.floor + self.slack:
            if time.monotonic() > end:
                raise AssertionError(f"memory is {self.rss()}, the floor was {self.floor}")
            time.sleep(0.1)


@contextlib.contextmanager
def sampled(server, seconds=0.005):
    """The largest RSS while something goes on, in the list's only element."""
    most = [0]
    ended = threading.Event()

    def look():
        while not ended.wait(seconds):
            with contextlib.suppress(OSError, TypeError):
                most[0] = max(most[0], server.rss())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def together(n, call):
    """call(i) in n threads at once; results in order, the first failure raised."""
    results, failures = [None] * n, []

    def one(i):
        try:
            results[i] = call(i)
        except BaseException as failure:  # told to the caller
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
