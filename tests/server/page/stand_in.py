"""stand_in.py - a server with canned answers, so that the chat page can be tried without a model.

    tests/server/page/stand_in.py [PORT]      prints its address and serves until it is stopped

What the last message of a person says picks the answer; ANSWERS has the words. Files are those that the
program carries: tools/embed_page.py makes them, with the policy of src/server/page.h.
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent.parent
sys.path.insert(0, str(SOURCE / "tools"))
import embed_page  # noqa: E402

SHOWCASE = (HERE / "showcase.md").read_text(encoding="utf-8")
KEY = "sesame"
USAGE = {
    "prompt_tokens": 1320,
    "completion_tokens": 42,
    "total_tokens": 1362,
    "prompt_tokens_details": {"cached_tokens": 1310},
}
TIMINGS = {
    "prompt_n": 10,
    "prompt_ms": 18.2,
    "predicted_n": 42,
    "predicted_ms": 763.6,
    "prompt_per_second": 549.4,
    "predicted_per_second": 55.0,
}


def policy():
    text = (SOURCE / "src/server/page.h").read_text(encoding="utf-8")
    return re.search(r'PAGE_POLICY[\s\\]*"([^"]+)"', text).group(1)


def pieces(text, n):
    return [text[i : i + n] for i in range(0, len(text), n)]


class Stop(Exception):
    """The canned answer ends here, whatever a client thinks of it."""


# ---- answers: each takes a Reply

HOSTILE = """<script>window.hacked = 1</script> <img src=x onerror="window.hacked = 2">
[a](javascript:window.hacked=3) [b](data:text/html,x) [c](JaVaScRiPt:alert(1)) <javascript:alert(1)>
[good](https://example.org/a_(b)?q="x") ![far](https://example.org/p.png)
<a href="javascript:window.hacked=4">x</a> <iframe src="https://example.org"></iframe>

| <script>window.hacked = 5</script> | `a|b` |
|---|---|
| <b onclick="window.hacked=6">x</b> | [y](vbscript:z) |

```html"><script>window.hacked = 7</script>
<script>window.hacked = 8</script>
"""


def hello(reply):
    for piece in pieces("Hello! This is **weft**, in `C`.", 4):
        reply.delta(content=piece)
    reply.finish()


def slow(reply):
    for i in range(400):
        reply.delta(content=f"word{i} " if i % 12 else f"\n\nParagraph {i}: ")
        time.sleep(0.04)
    reply.finish()


def late(reply):
    time.sleep(3.4)
    reply.delta(content="Here it is.")
    reply.finish()


def think(reply):
    for piece in pieces("The user asks for a thought. First this, then **that**. " * 4, 9):
        reply.delta(reasoning_content=piece)
        time.sleep(0.02)
    for piece in pieces("The answer is 42.", 5):
        reply.delta(content=piece)
    reply.finish()


def tool(reply):
    reply.delta(
        tool_calls=[{"index": 0, "id": "c1", "type": "function",
                     "function": {"name": "get_weather", "arguments": ""}}]
    )  # fmt: skip
    for piece in ('{"city": ', '"Basel", "days"', ": 3}"):
        reply.delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}])
    reply.finish("tool_calls")


def refuse(reply):
    reply.error(400, "max_tokens is 900000, the context has 8192", "invalid_request_error")


def busy(reply):
    reply.raw_error(503, b"<html>bad gateway</html>")


def break_off(reply):
    reply.delta(content="This was going we")
    reply.event({"error": {"message": "a device failed: 3 of 4 are left", "type": "server_error"}})
    raise Stop


def garble(reply):
    reply.delta(content="So far so good")
    reply.event('{"choices": [')
    time.sleep(5)


def vanish(reply):
    reply.delta(content="Half an ans")
    raise Stop


def cut(reply):
    reply.delta(content="It goes on and on")
    reply.finish("length")


def hostile(reply):
    for piece in pieces(HOSTILE, 7):
        reply.delta(content=piece)
    reply.finish()


def huge(reply):
    words = "Every word of this paragraph is **plain** but for `some`, and there are many of them. "
    text = ""
    for i in range(80):
        text += f"## Part {i}\n\n{words * 8}\n\n- one\n- two\n  - three\n\n```c\nint f{i}(void) "
        text += "{ return 0; } /* a line of code that is of some length */\n" * 40 + "```\n\n"
    text = text[: 200 * 1024]
    for piece in pieces(text, 48):
        reply.delta(content=piece)
    reply.finish()


def endless(reply):
    """A fence that is never closed, and a table of 3,000 rows behind one that is."""
    for i in range(1500):
        reply.delta(content=("```python\n" if i == 0 else "") + f"value_{i} = call({i})  # note\n")
    reply.delta(content="```\n\n| a | b | c |\n|--:|---|:-:|\n")
    for i in range(3000):
        reply.delta(content=f"| {i} | cell `{i}` | **x** |\n")
    reply.delta(content="\n```\nnever closed")
    reply.finish()


def showcase(reply):
    if "gently" in reply.text:
        for piece in pieces("I compare the two ways and look for what holds in both. ", 6):
            reply.delta(reasoning_content=piece)
            time.sleep(0.02)
    for i, piece in enumerate(pieces(SHOWCASE, 5)):
        reply.delta(content=piece)
        if "gently" in reply.text and i > 60:
            time.sleep(0.05)
    reply.finish()


def picture(reply):
    reply.delta(content="A small red square.")
    reply.finish()


ANSWERS = {
    f.__name__.replace("_", " "): f
    for f in (
        slow, late, think, tool, refuse, busy, break_off, garble, vanish, cut, hostile, huge, endless,
        showcase, picture,
    )
}  # fmt: skip


class Reply:
    """One answer as a stream; the status line waits for the first event, so that it may be an error."""

    def __init__(self, handler, text):
        self.handler = handler
        self.text = text
        self.begun = False

    def begin(self):
        if self.begun:
            return
        self.begun = True
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()
        self.handler.close_connection = True

    def event(self, value):
        self.begin()
        text = value if isinstance(value, str) else json.dumps(value)
        self.handler.wfile.write(f"data: {text}\n\n".encode())
        self.handler.wfile.flush()

    def delta(self, **fields):
        self.event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})

    def finish(self, reason="stop"):
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.event({"choices": [], "usage": USAGE, "timings": TIMINGS})
        self.event("[DONE]")

    def error(self, status, message, kind):
        body = {"error": {"message": message, "type": kind, "code": status}}
        self.raw_error(status, json.dumps(body).encode(), "application/json")

    def raw_error(self, status, data, kind="text/html"):
        self.handler.answer(status, kind, data)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # noqa: A002
        pass

    def answer(self, status, kind, data):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", self.server.policy)
        self.end_headers()
        self.wfile.write(data)

    def allowed(self):
        if not self.server.needs_key or self.headers.get("Authorization") == f"Bearer {KEY}":
            return True
        Reply(self, "").error(401, "the API key is missing or wrong", "authentication_error")
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/v1/models":
            if self.allowed():
                data = {"object": "list", "data": self.server.models}
                self.answer(200, "application/json", json.dumps(data).encode())
        elif path in self.server.files:
            self.answer(200, *self.server.files[path])
        elif re.fullmatch(r"/unit\.(html|js)", path):
            kind = embed_page.TYPES[path[path.rindex(".") :]]
            self.answer(200, kind, (HERE / path[1:]).read_bytes())
        else:
            self.answer(404, "text/plain", b"not found")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        if not self.allowed():
            return
        content = body["messages"][-1]["content"]
        if isinstance(content, list):
            content = " ".join(part.get("text", "") for part in content)
        chosen = next((f for word, f in ANSWERS.items() if word in content.split("\n")[-1]), hello)
        try:
            chosen(Reply(self, content))
        except Stop:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self.server.n_gone += 1


class StandIn(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.files = {
            path: (kind, data) for path, kind, data in embed_page.page_files(SOURCE / "src/server/page")
        }
        self.policy = policy()
        self.requests = []
        self.n_gone = 0  # clients that left before the end
        self.needs_key = False
        self.models = [
            {"id": "qwen3.5-4b-4bit", "object": "model", "modalities": ["text", "image"]},
            {"id": "smollm2-360m", "object": "model", "modalities": ["text"]},
        ]
        self.address = f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request, client_address):
        pass  # a browser that closes a connection is no news

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


if __name__ == "__main__":
    server = StandIn(int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
    print(server.address, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
