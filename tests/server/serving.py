"""serving.py - a server with the repository's models, for the tests of this folder."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

SECONDS = 120  # sanitizers are slow

# The repository's own models know no tools: these templates make them known to the server. What such
# a model then says is nonsense, in the form that a forced call has.
TOOLS = """{%- if tools %}<|system|>
{% for t in tools %}{{ t | tojson }}
{% endfor %}Call them as <tool_call>{"name": "", "arguments": {}}</tool_call><|end|>
{% endif %}{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endif %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""

THINKS = """{% for m in messages %}<|{{ m.role }}|>
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}<think>
{% endif %}{% endif %}"""


def make_variant(source, folder, template):
    """The model in source with another template."""
    folder.mkdir()
    for path in source.iterdir():
        if path.name != "tokenizer_config.json":
            os.symlink(path.resolve(), folder / path.name)
    config = json.loads((source / "tokenizer_config.json").read_text())
    config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


class Server:
    """weft serve, until close. Models: plain, tools, thinks, and slow, for who wants to leave."""

    def __init__(self, weft, source, *options):
        self.folder = tempfile.TemporaryDirectory()
        base = Path(source) / "models" / "tiny" / "draft"
        models = [f"plain={base}"]
        for name, template in (("tools", TOOLS), ("thinks", THINKS)):
            make_variant(base, Path(self.folder.name) / name, template)
            models.append(f"{name}={self.folder.name}/{name}")
        models.append(f"slow={base.parent / 'target-mlx8'}")
        self.process = subprocess.Popen(
            [weft, "serve", *models, "--port", "0", "--context", "512", "--threads", "1", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            self.process.kill()
            raise RuntimeError(f"no server: {line}{self.process.stderr.read()}")
        self.port = int(found.group(1))
        os.set_blocking(self.process.stderr.fileno(), False)

    def close(self):
        self.process.terminate()
        try:
            code = self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.stderr.close()
            self.folder.cleanup()
        return code

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    def ask(self, path, body=None, headers=None):
        """status, headers, body; of JSON what it says."""
        connection = self.connect()
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, text, headers or {})
            answer = connection.getresponse()
            data = answer.read()
            is_json = answer.getheader("content-type", "").startswith("application/json")
            return answer.status, answer.headers, json.loads(data) if is_json else data.decode()

    def stream(self, path, body):
        """The events, as (name or None, data); data is what JSON says, or [DONE]."""
        connection = self.connect()
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps({**body, "stream": True}))
            answer = connection.getresponse()
            text = answer.read().decode()
            kind = answer.getheader("content-type", "")
        if answer.status != 200 or not kind.startswith("text/event-stream"):
            raise AssertionError(f"{answer.status} {kind}: {text}")
        return list(read_events(text))

    def wait_idle(self):
        """Until no answer is made; the last figures."""
        end = time.monotonic() + SECONDS
        while True:
            stats = self.ask("/stats")[2]
            if sum(m.get("active", 0) + m.get("waiting", 0) for m in stats["models"]) == 0:
                return stats
            if time.monotonic() > end:
                raise AssertionError(f"still at work: {stats}")
            time.sleep(0.02)


def read_events(text):
    for block in text.split("\n\n"):
        name, data = None, None
        for line in block.split("\n"):
            if line.startswith("event: "):
                name = line[len("event: ") :]
            if line.startswith("data: "):
                data = line[len("data: ") :]
        if data is not None:
            yield name, data if data == "[DONE]" else json.loads(data)
