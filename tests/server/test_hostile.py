#!/usr/bin/env python3
"""test_hostile.py - the server and clients that mean it no good, on real sockets.

    tests/server/test_hostile.py [--sanitized] WEFT SOURCE [CLASS]...

After every case the server must be well, answer, hold no sequence, and have its memory back.
"""

import base64
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest
import zlib
from pathlib import Path

from harness import Client, Server, request, sampled, together

PROGRAM = SOURCE = ""
SANITIZED = False
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
CONTEXT = 512


def start(*words, **options):
    return Server(PROGRAM, SOURCE, *words, sanitized=SANITIZED, **options)


class Case(unittest.TestCase):
    WORDS = ("draft", "--context", CONTEXT)

    @classmethod
    def setUpClass(cls):
        cls.server = start(*cls.WORDS)
        cls.server.set_floor()

    @classmethod
    def tearDownClass(cls):
        if cls.server.stop() != 0:
            raise AssertionError("it did not end well")

    def tearDown(self):
        self.server.check()

    def refused(self, reply, status, *words):
        """The status, in JSON, naming what is wrong."""
        self.assertEqual(reply.status, status, reply.body[:400])
        message = reply.message()
        self.assertTrue(message)
        for word in words:
            self.assertIn(word, message)
        return message

    def raw(self, data):
        """Bytes in, everything that comes back until the server closes."""
        with self.server.client() as c:
            c.try_send(data)
            return c.until_end()

    def statuses(self, data):
        """Of all answers to these bytes, until the server closes or has nothing more to say."""
        with self.server.client(timeout=2) as c:
            c.try_send(data)
            got = []
            try:
                while True:
                    got.append(c.reply().status)
            except (EOFError, socket.timeout):
                return got


class Bodies(Case):
    """What JSON can be, and is not."""

    def fields(self, status, *words, **fields):
        self.refused(self.server.complete(**fields), status, *words)

    def test_extreme_numbers(self):
        for name, values in {
            "temperature": (1e6, -1, "hot", 1e308, True),
            "top_p": (-1, 2, "x"),
            "min_p": (-0.5, 1, 1e9),
            "typical_p": (-1, 7),
            "top_k": (1 << 31, -2, 1e300),
            "repeat_penalty": (0, -1, 1e9),
            "repetition_penalty": (0, -1),
            "presence_penalty": (-3, 3),
            "frequency_penalty": (1e38, -1e38),
            "n": (0, -1, 65, 1 << 40, 1.5),
            "max_tokens": (-1, 1.5, 1 << 40, "4"),
            "min_tokens": (-1, 1 << 40),
            "logprobs": (-1, 1000),
            "seed": (1 << 64, 1.5, "s"),
            "dry_base": (0, -1),
            "xtc_threshold": (0, 2),
        }.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.fields(400, name, **{name: value})

    def test_numbers_that_are_none(self):
        for text in ("NaN", "Infinity", "-Infinity", "1e999", "-", "01", "+1", ".5", "0x10"):
            body = '{"prompt":"a","temperature":%s}' % text
            self.refused(self.server.post(TEXT, body), 400)

    def test_max_tokens_of_zero(self):
        for _ in range(2):
            self.fields(400, "max_tokens", max_tokens=0)
            self.refused(self.server.chat(max_tokens=0), 400, "max_tokens")
        self.assertEqual(self.server.complete().status, 200)

    def test_forms_that_say_nothing(self):
        for form in (
            {"json_object": False},
            {"json": ""},
            {"regex": ""},
            {"choice": []},
            {"grammar": ""},
            {},
            {"other": 1},
            {"regex": "a", "choice": ["a"]},
            [],
            "x",
        ):
            with self.subTest(form=form):
                self.fields(400, structured_outputs=form)
        for name, value in {
            "guided_regex": "",
            "guided_json": "",
            "guided_choice": [],
            "grammar": "",
            "response_format": {"type": "json_schema"},
        }.items():
            self.fields(400, **{name: value})
        self.fields(400, response_format={"type": "none"})
        self.fields(400, response_format=5)

    def test_schemas_that_are_none(self):
        deep = {"type": "string"}
        for _ in range(200):
            deep = {"anyOf": [deep, {"type": "null"}]}
        wide = {"type": "integer"}
        for _ in range(20):
            wide = {"type": "array", "items": wide, "minItems": 1000, "maxItems": 100000}
        for schema in (
            {"properties": {"foo": "bar"}},
            {"$ref": "#"},
            {"anyOf": [{"$ref": "#/anyOf/0"}]},
            {"type": "string", "pattern": "^a\\\\!$("},
            {"type": "string", "pattern": "(((a{1,999}){1,999}){1,999}){1,999}"},
            {"$ref": "file:///etc/passwd"},
            {"$ref": "http://127.0.0.1/x"},
            wide,
            deep,
        ):
            began = time.monotonic()
            reply = self.server.complete(
                response_format={"type": "json_schema", "json_schema": {"schema": schema}}
            )
            # What can be enforced may be; nothing is left to chance, or to time.
            self.assertIn(reply.status, (200, 400), reply.body[:300])
            self.assertLess(time.monotonic() - began, 200 if SANITIZED else 20)

    def test_brackets_without_end(self):
        n = 1_000_000
        for text in (
            "[" * n,
            '{"a":' * n,
            '{"prompt":"a","user":' + "[" * n + "]" * n + "}",
            '{"prompt":"a","metadata":' + '{"a":' * n + "1" + "}" * n + "}",
            '{"prompt":' + "[" * n + "]" * n + "}",
        ):
            self.refused(self.server.post(TEXT, text), 400)
            self.refused(self.server.post(CHAT, text), 400)

    def test_what_is_no_object(self):
        for text in ("", " ", "null", "5", '"x"', "[]", "{", "{]", "\0", '{"a":1}x', "\ufeff{}"):
            with self.subTest(text=text):
                self.refused(self.server.post(TEXT, text), 400)
                self.refused(self.server.post(CHAT, text), 400)

    def test_utf8_that_is_torn(self):
        for piece in (b"\xc3", b"\xff", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80"):
            body = b'{"prompt":"a' + piece + b'"}'
            self.refused(self.server.post(TEXT, body), 400)
            self.refused(self.server.post(TEXT, b'{"' + piece + b'":1,"prompt":"a"}'), 400)
        # A lone surrogate is no text either.
        self.assertEqual(self.server.post(TEXT, b'{"prompt":"\\ud83d"}').status, 400)

    def test_texts_that_are_odd(self):
        for text in ("\0", "a\0b", "\u200d", "\U0001f9d1\u200d\U0001f680", "<|im_start|>", "\r\n", "."):
            reply = self.server.complete(text)
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(self.server.chat(text).status, 200)
        self.refused(self.server.complete(""), 400)

    def test_keys_that_are_there_twice(self):
        self.refused(self.server.post(TEXT, '{"prompt":"a","prompt":"b"}'), 400)

    def test_fields_that_nobody_knows(self):
        self.fields(400, "tempreature", tempreature=1)
        self.fields(400, "x" * 50, **{"x" * 100_000: 1})
        self.fields(400, **{"\U0001f600" * 40: 1})

    def test_prompts_of_wrong_kinds(self):
        for prompt in (5, True, {}, [], [[]], [[], []], [""], ["a", ""], ["a", 5], [1, "a"], [-1],
                       [1 << 40], [[1, -1]], [1.5], [None], ["a"] * 257, [[1 << 31]], [999999]):
            with self.subTest(prompt=prompt):
                self.refused(self.server.complete(prompt), 400)
        self.refused(self.server.post(TEXT, {}), 400, "prompt")
        self.refused(self.server.complete(["a"] * 256, n=64), 400)

    def test_lists_of_wrong_kinds(self):
        for name, values in {
            "stop": (5, [5], [""], "", ["a"] * 1000, "x" * 100_000, "a\0b", {}),
            "stop_token_ids": (5, "x", [-1], [1.5], [1 << 31], list(range(100_000)), ["1"]),
            "logit_bias": (5, "x", [1], {"a": 1}, {"1": "x"}, {"1": 1e9}, {"-1": 1},
                           {"99999999999": 1}, {str(i): 1 for i in range(100_000)}),
            "kv": ("nonsense", "f32\0", "x" * 1000, 5),
            "draft": ("nonsense", "x" * 1000, 5),
            "stream_options": (5, {"x": 1}, {"include_usage": 1}),
        }.items():
            for value in values:
                with self.subTest(name=name, value=str(value)[:40]):
                    self.fields(400, name.split("_")[0], **{name: value})

    def test_messages_that_are_none(self):
        for messages in (
            None, 5, "x", {}, [], [{}], [5], [[]], [{"role": "user"}],
            [{"role": "king", "content": "x"}], [{"role": "user", "content": 5}],
            [{"role": 5, "content": "x"}], [{"content": "x"}],
            [{"role": "user", "content": {}}], [{"role": "user", "content": [5]}],
            [{"role": "user", "content": [{"type": "text"}]}],
            [{"role": "user", "content": [{"type": "video", "text": "x"}]}],
            [{"role": "tool", "content": "x"}],
            [{"role": "user", "content": "x", "tool_calls": []}],
            [{"role": "assistant", "tool_calls": 5}],
            [{"role": "assistant", "tool_calls": [5]}],
            [{"role": "assistant", "tool_calls": [{"function": {}}]}],
            [{"role": "user", "content": "x", "weight": 5}],
            [{"role": "user", "content": "x"}] * 20_000,
        ):
            with self.subTest(messages=str(messages)[:60]):
                self.refused(self.server.post(CHAT, {"messages": messages}), 400)

    def test_messages_as_clients_write_them(self):
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for messages in (
            [{"role": "assistant", "content": None}, {"role": "user", "content": "hi"}],
            [{"content": "hi", "role": "user"}],
            [{"content": [{"text": "hi", "type": "text"}], "role": "user"}],
        ):
            reply = self.server.post(CHAT, {"messages": messages, "max_tokens": 2})
            self.assertEqual(reply.status, 200, reply.body)
        twice = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "content": "2", "tool_call_id": "c1"},
        ]
        self.refused(self.server.post(CHAT, {"messages": twice}), 400, "c1")

    def test_results_without_end(self):
        # As many as may be; each looks whether another is for its call.
        rows = [{"role": "tool", "tool_call_id": f"c{i}", "content": ""} for i in range(16_000)]
        began = time.monotonic()
        reply = self.server.post(CHAT, {"messages": rows, "max_tokens": 1})
        self.assertEqual(reply.status, 400, reply.body[:300])
        self.assertLess(time.monotonic() - began, 60 if SANITIZED else 8)

    def test_tools_that_are_none(self):
        for tools in (5, {}, [5], [{}], [{"type": "function"}], [{"type": "x"}],
                      [{"type": "function", "function": {"name": ""}}],
                      [{"type": "function", "function": {"name": "f"}}] * 5000):
            with self.subTest(tools=str(tools)[:60]):
                self.refused(self.server.chat(tools=tools), 400)
        for choice in ("required", "x", 5, {}, {"type": "function", "function": {"name": "f"}}):
            self.refused(self.server.chat(tool_choice=choice), 400, "tool_choice")


class Context(Case):
    """Prompts at the edge of what fits, and what a stream says of itself."""

    def ids(self, n):
        return [100 + i % 50 for i in range(n)]

    def test_the_edge(self):
        reply = self.server.complete(self.ids(CONTEXT - 1), max_tokens=5)
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(reply.json()["usage"]["completion_tokens"], 1)
        self.assertEqual(reply.json()["choices"][0]["finish_reason"], "length")
        for n in (CONTEXT, CONTEXT + 1, 5 * CONTEXT):
            for stream in (False, True):
                reply = self.server.complete(self.ids(n), stream=stream)
                self.refused(reply, 400, str(n), str(CONTEXT))
        self.refused(self.server.complete("the " * (5 * CONTEXT)), 400, str(CONTEXT))
        self.refused(self.server.chat("the " * (5 * CONTEXT)), 400, str(CONTEXT))

    def test_usage_comes_once(self):
        for path, body in (
            (TEXT, {"prompt": "a"}),
            (CHAT, {"messages": [{"role": "user", "content": "a"}]}),
        ):
            for wanted in (False, True, None):
                ask = dict(body, stream=True, max_tokens=4, ignore_eos=True)
                if wanted is not None:
                    ask["stream_options"] = {"include_usage": wanted}
                events = self.server.post(path, ask).events()
                self.assertEqual(events[-1], "[DONE]")
                with_usage = [e for e in map(json.loads, events[:-1]) if e.get("usage")]
                self.assertEqual(len(with_usage), 1 if wanted else 0)
                if wanted:
                    last = json.loads(events[-2])
                    self.assertEqual(last["choices"], [])
                    self.assertEqual(last["usage"]["completion_tokens"], 4)

    def test_a_text_that_is_all_body(self):
        # Much longer than could ever fit: refused in bounded time, with both numbers.
        began = time.monotonic()
        reply = self.server.complete("the quick brown fox " * (1 << 20))
        self.refused(reply, 400, str(CONTEXT))
        self.assertLess(time.monotonic() - began, 300 if SANITIZED else 30)
        reply = self.server.complete("a" * (8 << 20))
        self.refused(reply, 400, str(CONTEXT))


class Leaving(Case):
    """Clients that go: their sequence is free within a step."""

    LONG = {"prompt": "once", "max_tokens": 500, "ignore_eos": True}

    def gone_in(self, before, seconds=5):
        """Until the server has noticed, and holds nothing any more."""
        end = time.monotonic() + seconds * (10 if SANITIZED else 1)
        while True:
            stats = self.server.stats()
            m = stats["models"][0]
            done = stats["under_way"] == 1 and m["active"] == 0 and m["waiting"] == 0
            if done:
                return stats
            self.assertLess(time.monotonic(), end, stats)
            time.sleep(0.01)

    def leave(self, body, when, how, path=TEXT):
        before = self.server.stats()
        with self.server.client() as c:
            c.send(request("POST", path, body))
            when(c)
            how(c)
            stats = self.gone_in(before)
        return before, stats

    def test_before_the_first_byte(self):
        for stream in (False, True):
            for how in (Client.close, Client.reset, Client.half_close):
                before, after = self.leave(dict(self.LONG, stream=stream), lambda c: None, how)
                self.assertEqual(after["models"][0]["errors"], before["models"][0]["errors"])

    def test_in_a_prompt(self):
        prompt = [100 + i % 50 for i in range(CONTEXT - 4)]
        for stream in (False, True):
            body = {"prompt": [prompt] * 32, "max_tokens": 3, "stream": stream, "no_cache": True}
            for how in (Client.close, Client.reset, Client.half_close):
                self.leave(body, lambda c: time.sleep(0.05), how)

    def test_in_a_stream(self):
        for how in (Client.close, Client.reset, Client.half_close):
            body = dict(self.LONG, stream=True, n=8)
            before, after = self.leave(body, lambda c: (c.head(), c.chunk(), c.chunk()), how)
            n = [s["models"][0]["cancelled"] for s in (before, after)]
            self.assertGreater(n[1], n[0])

    def test_with_more_requests_behind(self):
        with self.server.client() as c:
            body = request("POST", TEXT, dict(self.LONG, n=8))
            c.send(body + body * 5)
            time.sleep(0.05)
        self.gone_in(None)

    def test_with_more_behind_than_is_read(self):
        """The end of the stream comes behind more than the server keeps."""
        with self.server.client(timeout=3) as c:
            c.try_send(request("POST", TEXT, dict(self.LONG, n=64, prompt=["once"] * 4)))
            time.sleep(0.05)
            c.try_send(request("GET", "/health") * 40_000)
        self.gone_in(None)

    def test_in_half_a_body(self):
        whole = request("POST", TEXT, dict(self.LONG))
        for n in (1, 10, len(whole) // 2, len(whole) - 1):
            with self.server.client() as c:
                c.send(whole[:n])
        self.gone_in(None)

    def test_many_at_once(self):
        def one(i):
            with self.server.client() as c:
                c.send(request("POST", TEXT, dict(self.LONG, stream=i % 2 == 0)))
                time.sleep(0.01 * (i % 7))
                (c.reset if i % 3 else c.close)()

        together(60, one)
        self.gone_in(None, 20)


class Wire(Case):
    """Bytes that are HTTP in part."""

    def test_smuggling(self):
        body = b'{"prompt":"a"}'
        begin = b"POST " + TEXT.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
        hidden = b"GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for head in (
            b"Content-Length: 14\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 14\r\n",
            b"Content-Length: 14\r\nContent-Length: 14\r\n",
            b"Content-Length: 14\r\nContent-Length: 5\r\n",
            b"Content-Length: 14, 14\r\n",
            b"Content-Length: +14\r\n",
            b"Content-Length: -1\r\n",
            b"Content-Length: 0x0e\r\n",
            b"Content-Length: 14 5\r\n",
            b"Content-Length: \r\n",
            b"Content-Length: 99999999999999999999999\r\n",
            b"Content-Length : 14\r\n",
            b" Content-Length: 14\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Transfer-Encoding: gzip, chunked, gzip\r\n",
            b"Transfer-Encoding: identity\r\n",
            b"Transfer-Encoding:\r\n",
            b"Transfer-Encoding: \x0bchunked\r\n",
            b"Transfer-Encoding\x00: chunked\r\n",
            b"Transfer-Encoding: chunked\r\n Content-Length: 14\r\n",
            b"X: a\r\n\tb\r\nContent-Length: 14\r\n",
            b"X: a\x00b\r\nContent-Length: 14\r\n",
            b"X: a\rContent-Length: 14\r\n",
            b"Host: other\r\nContent-Length: 14\r\n",
            b": x\r\nContent-Length: 14\r\n",
            b"NoColon\r\nContent-Length: 14\r\n",
        ):
            with self.subTest(head=head):
                got = self.statuses(begin + head + b"\r\n" + body + hidden)
                # One refusal, and nothing that follows is a request.
                self.assertEqual(len(got), 1, got)
                self.assertIn(got[0], (400, 411, 413, 501), got)

    def test_chunks(self):
        begin = b"POST " + TEXT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        whole = b'{"prompt":"a","max_tokens":1}'
        good = b"%x\r\n" % len(whole) + whole + b"\r\n0\r\n\r\n"
        one_by_one = b"".join(b"1\r\n%c\r\n" % c for c in whole) + b"0\r\n\r\n"
        for text in (good, one_by_one, good[:-2] + b"Trailer: x\r\n\r\n"):
            with self.server.client() as c:
                c.send(begin + text + request("GET", "/health"))
                self.assertEqual(c.reply().status, 200)
                self.assertEqual(c.reply().status, 200)
        for text in (
            b"g\r\n",
            b"-1\r\nx",
            b"ffffffffffffffffff\r\nx",
            b"10000000000000001\r\nx",
            b"ffffffffffffffff\r\n" + b"x" * 100_000,
            b"5\nhello\n0\n\n",
            b"5\r\nhello_\r\n0\r\n\r\n",
            b"5;" + b"a=b;" * 20_000 + b"\r\nhello\r\n0\r\n\r\n",
            b"1;a=b\r\nx\r\n" * 20_000,
            b"0\r\n" + b"T: x\r\n" * 20_000 + b"\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"\r\n\r\n",
        ):
            with self.subTest(text=text[:30]):
                got = self.statuses(begin + text)
                self.assertEqual(len(got), 1, got)
                self.assertIn(got[0], (400, 413, 431), got)
        got = self.statuses(begin.replace(b"1.1", b"1.0") + good)
        self.assertEqual(got, [400])

    def test_heads(self):
        for data, expected in (
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
            (b"GET /health HTTP/1.1\r\nHost:\r\n\r\n", 421),
            (b"GET /health HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 421),
            (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1.nip.io\r\n\r\n", 421),
            (b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
            (b"GET /health HTTP/0.9\r\nHost: localhost\r\n\r\n", 505),
            (b"GET /health HTTP/1.2\r\nHost: localhost\r\n\r\n", 505),
            (b"GET /health\r\n\r\n", None),
            (b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
            (b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", None),
            (b"GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n", 417),
            (b"POST " + TEXT.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 411),
            (b"POST " + TEXT.encode() + b" HTTP/1.0\r\n\r\n", 411),
            (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
            (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431),
            (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
            (b"\r\n" * 100, 400),
            (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
            (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
            (b"DELETE /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
            (b"GET " + TEXT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
        ):
            with self.subTest(data=data[:80]):
                got = self.statuses(data)
                self.assertEqual(len(got), 1, got)
                if expected is not None:
                    self.assertEqual(got[0], expected)
                else:
                    self.assertGreaterEqual(got[0], 400)

    def test_what_is_no_http_at_all(self):
        hello = bytes.fromhex("16030100c8010000c40303") + bytes(range(180))
        for data in (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
            hello,
            bytes(range(256)) * 40,
            b"\0" * 10_000,
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"\x80\0\0\0",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"{}\r\n\r\n",
        ):
            with self.subTest(data=data[:20]), self.server.client(timeout=1) as c:
                c.try_send(data)
                try:
                    answer = c.until_end()
                except socket.timeout:
                    continue  # a beginning of something; its time will come
                self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1."), answer)
                self.assertNotIn(b" 200 ", answer.split(b"\r\n")[0])

    def test_pieces(self):
        """A byte at a time."""
        with self.server.client() as c:
            c.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in request("POST", TEXT, {"prompt": "a", "max_tokens": 1}):
                c.send(bytes([byte]))
            self.assertEqual(c.reply().status, 200)

    def test_a_hundred_at_once(self):
        with self.server.client() as c:
            several = [
                request("GET", "/health"),
                request("POST", TEXT, {"prompt": "a", "max_tokens": 1}),
                request("POST", TEXT, {"prompt": "a", "max_tokens": 2, "stream": True}),
                request("GET", "/nothing"),
                request("POST", TEXT, "{"),
            ]
            c.send(b"".join(several[i % 5] for i in range(100)))
            got = [c.reply().status for _ in range(100)]
            self.assertEqual(got, [200, 200, 200, 404, 400] * 20)

    def test_http_1_0(self):
        with self.server.client() as c:
            c.send(b"GET /health HTTP/1.0\r\n\r\n")
            reply = c.reply()
            self.assertEqual((reply.status, c.until_end()), (200, b""))
        with self.server.client() as c:
            c.send(b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            self.assertEqual(c.reply().status, 200)
            c.send(request("POST", TEXT, {"prompt": "a", "stream": True}, version="1.0"))
            reply = c.reply()
            self.assertNotIn("transfer-encoding", reply.headers)
            self.assertTrue(reply.body.endswith(b"data: [DONE]\n\n"), reply.body)

    def test_expect(self):
        body = b'{"prompt":"a","max_tokens":1}'
        with self.server.client() as c:
            c.send(request("POST", TEXT, body, ["Expect: 100-continue"])[: -len(body)])
            self.assertIn(b"100", c.line())
            c.line()
            c.send(body)
            self.assertEqual(c.reply().status, 200)
        with self.server.client() as c:
            head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n"
            c.send(head % TEXT.encode())
            self.assertEqual(c.reply().status, 413)

    def test_head_and_options(self):
        reply = self.server.ask("HEAD", "/health")
        self.assertEqual((reply.status, reply.body), (200, b""))
        self.assertGreater(int(reply.headers["content-length"]), 0)
        reply = self.server.ask("OPTIONS", CHAT)
        self.assertEqual(reply.status, 204)
        self.assertNotIn("access-control-allow-origin", reply.headers)
        self.assertEqual(self.server.ask("OPTIONS", "*").status, 204)

    def test_other_origins(self):
        for origin in ("http://evil.example", "null", "http://localhost.evil.example", "x", "",
                       "https://", "http://localhost:1@evil.example"):
            for method, path in (("GET", "/health"), ("OPTIONS", CHAT), ("POST", CHAT)):
                reply = self.server.ask(method, path, b"{}", [f"Origin: {origin}"])
                if origin:
                    self.assertEqual(reply.status, 403, (origin, method))
                self.assertNotIn("access-control-allow-origin", reply.headers)
        with self.server.client() as c:
            c.send(request("GET", "/health", headers=["Origin: http://localhost"]))
            self.assertEqual(c.reply().status, 200)

    def test_answers_cannot_be_split(self):
        reply = self.server.ask("GET", "/v1/models/a%0d%0aSet-Cookie:%20x=1")
        self.assertEqual(reply.status, 404)
        self.assertNotIn("set-cookie", reply.headers)
        reply = self.server.complete(model="a\r\nSet-Cookie: x=1\0")
        self.assertEqual(reply.status, 404)
        self.assertNotIn("set-cookie", reply.headers)

    def test_absolute_targets(self):
        for target, expected in (
            (b"http://localhost/health", 200),
            (b"http://evil.example/health", 421),
            (b"http://localhost", 404),
            (b"file:///etc/passwd", 404),
        ):
            got = self.statuses(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertEqual(len(got), 1)
            self.assertIn(got[0], (expected, 400, 404), target)


class Floods(Case):
    """Much of everything."""

    def test_bodies_too_large(self):
        n = 64 << 20
        head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (TEXT.encode(), n)
        with self.server.client() as c:
            c.send(head)
            self.assertEqual(c.reply().status, 413)
        # Without waiting for the answer.
        with sampled(self.server) as most, self.server.client() as c:
            c.send(head)
            for _ in range(64):
                if not c.try_send(b"x" * (1 << 20)):
                    break
            self.assertEqual(c.head()[0], 413)
        if not SANITIZED:
            self.assertLess(most[0], self.server.floor + (8 << 20))
        begin = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % TEXT.encode()
        with self.server.client() as c:
            c.send(begin)
            for _ in range(64):
                if not c.try_send(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"):
                    break
            self.assertEqual(c.head()[0], 413)

    def test_many_large_bodies(self):
        """Bodies under way together are bounded together."""
        body = b'{"prompt":"a","user":"' + b"x" * (30 << 20)

        def one(_):
            with self.server.client() as c:
                c.send(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                       % (TEXT.encode(), len(body) + 2))
                c.try_send(body)
                time.sleep(1)
                c.try_send(b'"}')
                return c.reply().status

        with sampled(self.server) as most:
            statuses = together(12, one)
        self.assertEqual(set(statuses), {200, 503})
        if not SANITIZED:
            self.assertLess(most[0], self.server.floor + (1 << 30))

    def test_documents_that_swell(self):
        """Few bytes that become many values."""
        with sampled(self.server) as most:
            text = '{"prompt":"a","metadata":[' + "0," * (8 << 20) + "0]}"
            self.assertIn(self.server.post(TEXT, text).status, (200, 400))
        if not SANITIZED:
            self.assertLess(most[0], self.server.floor + (2 << 30))

    def test_heads_that_take_their_time(self):
        """A byte a second is cut off; others do not wait for it."""
        slow = [self.server.client() for _ in range(20)]
        began = time.monotonic()
        for c in slow:
            c.send(b"GET /health HT")
        while time.monotonic() - began < 30:
            time.sleep(0.5)
            for c in slow:
                c.try_send(b"T")
            quick = time.monotonic()
            self.assertEqual(self.server.ask("GET", "/health").status, 200)
            self.assertLess(time.monotonic() - quick, 10 if SANITIZED else 2)
            if time.monotonic() - began > 12:
                break
        for c in slow:
            answer = c.until_end()
            self.assertIn(b" 408 ", answer.split(b"\r\n")[0])
            c.close()
        self.assertLess(time.monotonic() - began, 30)

    def test_a_thousand_that_say_nothing(self):
        before = self.server.rss()
        idle = [self.server.client() for _ in range(1000)]
        self.assertEqual(self.server.complete().status, 200)
        self.assertGreater(self.server.stats()["connections"], 1000)
        if not SANITIZED:
            self.assertLess(self.server.rss(), before + (16 << 20))
        for c in idle:
            c.close()
        end = time.monotonic() + 20
        while self.server.stats()["connections"] > 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_answers_that_nobody_reads(self):
        """Requests without end, and not one answer read."""
        ask = request("GET", "/metrics") * 200
        with sampled(self.server) as most, self.server.client(timeout=1, receive_bytes=4096) as c:
            end = time.monotonic() + 5
            while time.monotonic() < end:
                try:
                    c.send(ask)
                except OSError:
                    break  # it has stopped reading
        if not SANITIZED:
            self.assertLess(most[0], self.server.floor + (32 << 20))

    def test_answers_that_are_read_late(self):
        ask = request("GET", "/metrics")
        n = 600
        with self.server.client(receive_bytes=4096) as c:
            writer = threading.Thread(target=c.send, args=(ask * n,))
            writer.start()
            time.sleep(0.5)
            for _ in range(n):
                self.assertEqual(c.reply().status, 200)
            writer.join()

    def test_streams_that_nobody_reads(self):
        """What they would be sent is not made, and others have their turn."""
        if SANITIZED:
            self.skipTest("the server's clocks are too short for sanitizers")
        body = {"prompt": "once", "max_tokens": 500, "ignore_eos": True, "stream": True,
                "logprobs": 20, "n": 4}
        deaf = []
        with sampled(self.server) as most:
            for _ in range(16):
                c = self.server.client(receive_bytes=4096)
                c.send(request("POST", TEXT, body))
                deaf.append(c)
            time.sleep(3)
            began = time.monotonic()
            self.assertEqual(self.server.complete().status, 200)
            waited = time.monotonic() - began
        for c in deaf:
            c.close()
        self.assertLess(most[0], self.server.floor + (64 << 20))
        self.assertLess(waited, 45)

    def test_connections_that_come_and_go(self):
        def one(i):
            for j in range(50):
                c = self.server.client()
                if (i + j) % 3 == 0:
                    c.try_send(b"GET ")
                if (i + j) % 5 == 0:
                    c.reset()
                else:
                    c.close()

        together(8, one)

    def test_refusals_that_nobody_reads(self):
        for _ in range(100):
            with self.server.client(receive_bytes=4096) as c:
                c.try_send(b"\0" * 100)


class Images(Case):
    """Pictures for a model that sees none, and what is no picture; nothing is fetched."""

    def ask(self, url, **more):
        part = {"type": "image_url", "image_url": {"url": url}, **more}
        body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "?"}, part]}]}
        return self.server.post(CHAT, body)

    def test_urls(self):
        with socket.create_server(("127.0.0.1", 0)) as trap:
            trap.settimeout(0.5)
            port = trap.getsockname()[1]
            for url in (
                f"http://127.0.0.1:{port}/x.png",
                f"https://127.0.0.1:{port}/x.png",
                "file:///etc/passwd",
                "../x",
                "/etc/passwd",
                "",
                "data:",
                "data:image/png",
                "data:image/png,raw",
                "data:image/png;base64",
                "data:image/png;base64,",
                "data:image/png;base64,====",
                "data:image/png;base64,a",
                "data:image/png;base64,\0\1",
                "DATA:image/png;base64,AAAA",
                "data:" + "x" * 1000 + ";base64,AAAA",
            ):
                with self.subTest(url=url[:40]):
                    message = self.refused(self.ask(url), 400)
                    self.assertLess(len(message), 300)
                    self.assertNotIn("0x", message)
            with self.assertRaises(socket.timeout):
                trap.accept()

    def test_files(self):
        def png(width, height):
            def block(kind, data):
                body = kind + data
                return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

            head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
            rows = zlib.compress(b"\0" * 4)
            return (b"\x89PNG\r\n\x1a\n" + block(b"IHDR", head) + block(b"IDAT", rows)
                    + block(b"IEND", b""))

        for data in (
            png(1, 1),
            png(60000, 60000),
            png(1 << 31, 1),
            png(0, 0),
            png(1, 1)[:30],
            b"\0\0\0\x0cjP  \r\n\x87\n",
            b"\xff\xd8\xff",
            b"GIF89a",
            b"x" * (21 << 20),
        ):
            with self.subTest(data=data[:20]):
                url = "data:image/png;base64," + base64.b64encode(data).decode()
                message = self.refused(self.ask(url), 400)
                self.assertLess(len(message), 300)

    def test_shapes(self):
        for image in (5, None, {}, {"url": 5}, {"url": None}, []):
            part = {"type": "image_url", "image_url": image}
            body = {"messages": [{"role": "user", "content": [part]}]}
            self.refused(self.server.post(CHAT, body), 400)
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        body = {"messages": [{"role": "user", "content": [part] * 33}]}
        self.refused(self.server.post(CHAT, body), 400)


class Models(Case):
    """Several, one of them broken; the others do not suffer."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        broken = Path(cls.folder.name) / "broken"
        broken.mkdir()
        source = Path(SOURCE) / "models" / "tiny" / "draft"
        for path in source.iterdir():
            data = path.read_bytes()
            (broken / path.name).write_bytes(data[:-1] if path.suffix == ".safetensors" else data)
        nowhere = Path(cls.folder.name) / "nowhere"
        cls.server = start("draft", f"broken={broken}", f"nowhere={nowhere}", "target-mlx8",
                           "--context", CONTEXT)
        cls.server.set_floor()
        cls.server.slack *= 3  # another model is loaded

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_the_broken_ones(self):
        for name in ("broken", "nowhere"):
            for _ in range(3):
                began = time.monotonic()
                reply = self.server.complete(model=name)
                self.assertIn(reply.status, (404, 500, 503), reply.body)
                self.assertLess(time.monotonic() - began, 20)
        rows = {m["id"]: m for m in self.server.ask("GET", "/v1/models").json()["data"]}
        self.assertEqual(rows["broken"]["status"]["value"], "failed")
        self.assertEqual(rows["draft"]["status"]["value"], "loaded")
        self.assertEqual(self.server.complete(model="draft").status, 200)

    def test_one_that_is_not_there(self):
        self.refused(self.server.complete(model="other"), 404, "other")
        self.assertEqual(self.server.ask("GET", "/v1/models/other").status, 404)

    def test_together(self):
        names = ["draft", "target-mlx8", "broken", "draft"]

        def one(i):
            return self.server.complete(model=names[i % 4]).status

        statuses = together(24, one)
        for i, status in enumerate(statuses):
            self.assertEqual(status, 500 if i % 4 == 2 else 200, (names[i % 4], status))

    def test_leaving_while_it_is_loaded(self):
        server = start("draft", "target-mlx8", "--context", CONTEXT, wait=False)
        try:
            for _ in range(20):
                with server.client() as c:
                    c.send(request("POST", TEXT, {"prompt": "a", "model": "target-mlx8"}))
            self.assertEqual(server.complete(model="target-mlx8").status, 200)
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()

    def test_no_patience(self):
        server = start("draft", "target-mlx8", "--context", CONTEXT, "--load-wait", 0, wait=False)
        try:
            reply = server.complete(model="target-mlx8")
            self.assertIn(reply.status, (200, 503))
            if reply.status == 503:
                self.assertIn("retry-after", reply.headers)
            server.wait_well()
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()

    def test_no_room(self):
        server = start("draft", "target-mlx8", "--context", CONTEXT, "--models-memory", "8M")
        try:
            for i in range(6):
                reply = server.complete(model=("draft", "target-mlx8")[i % 2])
                self.assertIn(reply.status, (200, 503), reply.body)
            self.assertEqual(server.ask("GET", "/v1/models").status, 200)
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()


class Keys(Case):
    """Who may ask what, before anything of a body is read."""

    WORDS = ("draft", "--context", CONTEXT, "--api-key", "user", "--api-key", "user2",
             "--admin-key", "admin")
    ADMIN = ("/metrics", "/stats")
    ROUTES = [("POST", TEXT), ("POST", CHAT), ("GET", "/v1/models"), ("GET", "/v1/models/draft"),
              ("GET", "/nothing"), ("POST", "/v1/embeddings"), ("POST", "/v1/messages"),
              ("POST", "/v1/responses"), ("GET", "/metrics"), ("GET", "/stats"),
              ("POST", "/kv/save"), ("POST", "/kv/restore")]

    def setUp(self):
        self.server.ask_plain = self.server.ask

    @classmethod
    def setUpClass(cls):
        cls.server = start(*cls.WORDS)
        # What the harness asks, it asks as an administrator.
        plain = cls.server.ask
        cls.plain = staticmethod(plain)
        cls.server.ask = lambda method, path, body=None, headers=(): plain(
            method, path, body, [*headers, "Authorization: Bearer admin"])
        cls.server.set_floor()

    def test_no_key(self):
        # Its body never comes, and is not waited for.
        for method, path in self.ROUTES:
            for headers in ([], ["Authorization: Bearer wrong"], ["Authorization: Bearer"],
                            ["Authorization: Basic user"], ["x-api-key: wrong"],
                            ["Authorization: Bearer user,admin"], ["Authorization: Bearer use"],
                            ["Authorization: Bearer userX"], ["x-api-key:"],
                            ["Authorization: " + "Bearer " * 100]):
                with self.subTest(path=path, headers=headers), self.server.client() as c:
                    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
                    if method == "POST":
                        lines.append("Content-Length: 1000000")
                    c.send("\r\n".join(lines).encode() + b"\r\n\r\n")
                    reply = c.reply()
                    self.assertEqual(reply.status, 401, (path, headers))
                    self.assertNotIn("user", json.dumps(reply.json()))

    def test_keys_of_users(self):
        for header in ("Authorization: Bearer user", "authorization: bearer user2",
                       "X-Api-Key: user", "Authorization: Bearer   user"):
            self.assertEqual(self.plain("GET", "/v1/models", None, [header]).status, 200, header)
            for path in self.ADMIN:
                self.assertEqual(self.plain("GET", path, None, [header]).status, 403, path)

    def test_keys_of_administrators(self):
        for path in self.ADMIN:
            self.assertEqual(self.plain("GET", path, None, ["X-Api-Key: admin"]).status, 200)

    def test_what_is_open(self):
        self.assertEqual(self.plain("GET", "/health").status, 200)
        self.assertEqual(self.plain("OPTIONS", CHAT).status, 204)

    def test_empty_keys(self):
        """A variable that was not set is no key that all know."""
        server = None
        try:
            with self.assertRaises(AssertionError):
                server = start("draft", "--api-key=")
        finally:
            if server:
                server.kill()


class Crowds(Case):
    """More prompts than the cache or the sequences hold."""

    WORDS = ("draft", "--context", CONTEXT, "--memory", "600K", "--sequences", "4")

    def test_distinct_prompts(self):
        def one(i):
            for j in range(2 if SANITIZED else 7):
                prompt = [200 + (i * 31 + j * 7 + k) % 300 for k in range(60 + 10 * i)]
                reply = self.server.complete(prompt, max_tokens=8, stream=(i + j) % 2 == 0)
                self.assertEqual(reply.status, 200, reply.body[:200])

        together(8, one)

    def test_more_than_there_is_room_for(self):
        def one(i):
            return self.server.complete([200 + i] * 300, max_tokens=100, ignore_eos=True).status

        for status in together(16, one):
            self.assertEqual(status, 200)

    def test_equal_alone_and_together(self):
        # With more of the same kind beside it, a seed gives the same answer.
        ask = {"temperature": 0.8, "seed": 7, "max_tokens": 12}
        alone = self.server.complete("once upon a", **ask).json()["choices"][0]["text"]
        replies = together(8, lambda i: self.server.complete("once upon a", **dict(ask, seed=7 if i == 3 else i)))
        self.assertEqual(replies[3].json()["choices"][0]["text"], alone)


class Deaf(Case):
    """As many streams as there are sequences, and not one is read."""

    WORDS = ("draft", "--context", 2048, "--sequences", 2)
    BODY = {"prompt": "once", "max_tokens": 1900, "ignore_eos": True, "stream": True, "logprobs": 20}

    def begin(self):
        deaf = [self.server.client(receive_bytes=4096) for _ in range(2)]
        for c in deaf:
            self.addCleanup(c.close)
            c.send(request("POST", TEXT, self.BODY))
        time.sleep(3)
        return deaf

    def test_others_have_their_turn(self):
        deaf = self.begin()
        began = time.monotonic()
        self.assertEqual(self.server.complete().status, 200)
        self.assertLess(time.monotonic() - began, 60 if SANITIZED else 20)
        for c in deaf:
            c.close()

    def test_who_reads_at_last_has_it_all(self):
        """Nobody else waits: there is no hurry."""
        for c in self.begin():
            self.assertTrue(c.reply().body.endswith(b"data: [DONE]\n\n"))


class Ends(unittest.TestCase):
    """SIGTERM: answers under way are ended first; a second one ends them."""

    LONG = {"prompt": "once", "max_tokens": 1500, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}}

    def begin(self, *words, wait=True):
        server = start("draft", "--context", 2048, *words, wait=wait)
        self.addCleanup(server.kill)
        return server

    def test_a_stream_ends_whole(self):
        server = self.begin()
        with server.client() as c, server.client() as idle, server.client() as begun:
            c.send(request("POST", TEXT, self.LONG))
            c.head()
            data = c.chunk()
            begun.send(b"GET /hea")
            idle.send(request("GET", "/health"))
            idle.reply()
            server.process.send_signal(signal.SIGTERM)
            while piece := c.chunk():
                data += piece
            self.assertTrue(data.endswith(b"data: [DONE]\n\n"), data[-200:])
            self.assertIn(b'"completion_tokens":1500', data)
            self.assertEqual(idle.until_end(), b"")
        self.assertEqual(server.stop(), 0)

    def test_a_whole_answer_ends_whole(self):
        server = self.begin()
        with server.client(receive_bytes=4096) as c:
            body = dict(self.LONG, stream=False, logprobs=20, max_tokens=600, stream_options=None)
            c.send(request("POST", TEXT, body))
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(c.reply().json()["usage"]["completion_tokens"], 600)
        self.assertEqual(server.stop(), 0)

    def test_an_answer_that_is_on_its_way(self):
        """It was made before the signal, and is read after it."""
        server = self.begin()
        with server.client(receive_bytes=4096) as c:
            body = dict(self.LONG, stream=False, logprobs=20, stream_options=None)
            c.send(request("POST", TEXT, body))
            end = time.monotonic() + 60
            while server.stats()["under_way"] > 1 or server.stats()["models"][0]["requests"] < 1:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            self.assertEqual(c.reply().json()["usage"]["completion_tokens"], 1500)
        self.assertEqual(server.stop(), 0)

    def test_twice(self):
        server = self.begin()
        with server.client() as c:
            c.send(request("POST", TEXT, dict(self.LONG, n=16)))
            c.head()
            c.chunk()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 30 if SANITIZED else 5)

    def test_no_patience(self):
        server = self.begin("--drain", "0")
        with server.client() as c:
            c.send(request("POST", TEXT, dict(self.LONG, n=16)))
            c.head()
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 30 if SANITIZED else 5)

    def test_while_it_is_loaded(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.begin(wait=False)
            with server.client() as c:
                c.send(request("POST", TEXT, {"prompt": "a", "stream": True}))
                self.assertEqual(server.stop(number), 0)

    def slow_model(self):
        """One that takes half a second and more to load, for its vocabulary."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = Path(SOURCE) / "models" / "tiny" / "draft"
        for path in source.iterdir():
            if path.name != "tokenizer.json":
                os.symlink(path.resolve(), Path(folder.name) / path.name)
        text = (source / "tokenizer.json").read_text()
        start = re.search(r'"vocab":\s*\{', text).end()
        more = "".join(f'"slow{i}":{10000 + i},' for i in range(1_500_000))
        (Path(folder.name) / "tokenizer.json").write_text(text[:start] + more + text[start:])
        return folder.name

    def test_what_cannot_be_interrupted(self):
        """A model that is being loaded keeps no server from ending: at once when nobody waits for
        it, and with the second signal when somebody does."""
        slow = self.slow_model()
        server = start(slow, "--no-cache", wait=False)
        self.addCleanup(server.kill)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(60), 0)
        self.assertIn("at work", server.output())
        server = start(slow, "--no-cache", wait=False)
        self.addCleanup(server.kill)
        with server.client() as c:
            c.send(request("POST", TEXT, {"prompt": "a"}))
            time.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
        self.assertIn("at work", server.output())

    def test_with_clients_that_do_not_read(self):
        server = self.begin("--drain", "1")
        deaf = []
        for _ in range(4):
            c = server.client(receive_bytes=4096)
            c.send(request("POST", TEXT, dict(self.LONG, logprobs=20)))
            c.send(request("GET", "/metrics") * 100)
            deaf.append(c)
        time.sleep(0.5)
        self.assertEqual(server.stop(), 0)
        for c in deaf:
            c.close()


class Memory(Case):
    """Less than requests ask for: those fail, and nothing else."""

    def setUp(self):
        if SANITIZED:
            self.skipTest("a sanitizer needs all the memory there is")

    def starve(self, spare):
        text = Path(f"/proc/{self.server.process.pid}/status").read_text()
        size = int(re.search(r"VmSize:\s*(\d+)", text)[1]) << 10
        resource.prlimit(self.server.process.pid, resource.RLIMIT_AS, (size + spare, -1))

    def tearDown(self):
        if not SANITIZED:
            resource.prlimit(self.server.process.pid, resource.RLIMIT_AS, (-1, -1))
            super().tearDown()

    def ask(self, path, body):
        try:
            status = self.server.post(path, body).status
        except (EOFError, OSError, ValueError, IndexError):
            return 0  # there was not even memory for an answer
        self.assertIn(status, (200, 400, 413, 503))
        return status

    def test_bodies(self):
        for spare in (1 << 20, 4 << 20, 16 << 20, 40 << 20):
            self.starve(spare)
            got = []
            for n in (1 << 10, 1 << 18, 1 << 20, 5 << 20, 20 << 20, 31 << 20):
                got.append(self.ask(TEXT, b'{"prompt":"a","user":"' + b"x" * n + b'"}'))
                got.append(self.ask(TEXT, b'{"prompt":"' + b"the " * (n // 4) + b'"}'))
                got.append(self.ask(CHAT, b'{"messages":[' + b'{"role":"user","content":"x"},' * (n // 30) + b"{}]}"))
                got.append(self.ask("/tokenize", b'{"prompt":"' + b"the " * (n // 4) + b'"}'))
            self.assertIn(200, got)
            self.assertTrue(503 in got or 0 in got, got)

    def test_crowds(self):
        def one(i):
            got = []
            for j in range(20):
                body = {"prompt": "the " * (50 * (i % 5) + 1), "max_tokens": 50, "n": 1 + j % 8,
                        "stream": j % 2 == 0, "logprobs": 5 if j % 3 == 0 else None}
                got.append(self.ask(TEXT, body))
            return got

        for spare in (0, 1 << 20, 4 << 20):
            self.starve(spare)
            together(12, one)


class Files(Case):
    """Fewer files than clients."""

    @classmethod
    def setUpClass(cls):
        cls.server = start("draft", "--context", CONTEXT, files=48)
        cls.server.set_floor()

    def test_more_connections_than_files(self):
        many = []
        for _ in range(120):
            try:
                many.append(self.server.client(timeout=5))
            except OSError:
                break
        for c in many:
            c.try_send(request("GET", "/health"))
        time.sleep(0.5)
        for c in many:
            c.close()
        end = time.monotonic() + 20
        while True:
            try:
                if self.server.ask("GET", "/health").status == 200:
                    break
            except (OSError, EOFError):
                self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_most_connections(self):
        server = start("draft", "--context", CONTEXT, "--max-connections", 10, "--max-requests", 3)
        try:
            many = [server.client() for _ in range(30)]
            for c in many:
                c.try_send(request("POST", TEXT, {"prompt": "a", "max_tokens": 400, "ignore_eos": True}))
            statuses = []
            for c in many:
                try:
                    statuses.append(c.reply().status)
                except EOFError:
                    statuses.append(0)
                c.close()
            self.assertIn(200, statuses)
            self.assertIn(0, statuses)
            self.assertLessEqual(set(statuses), {0, 200, 503})
            # What was closed counts until the server has seen it.
            end = time.monotonic() + 20
            while True:
                try:
                    server.check()
                    break
                except (OSError, EOFError):
                    self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()


def main():
    global PROGRAM, SOURCE, SANITIZED
    words = sys.argv[1:]
    if words and words[0] == "--sanitized":
        SANITIZED = True
        words.pop(0)
    PROGRAM, SOURCE = words[:2]
    unittest.main(argv=[sys.argv[0], *words[2:]], verbosity=2)


if __name__ == "__main__":
    main()
