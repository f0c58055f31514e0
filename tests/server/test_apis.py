#!/usr/bin/env python3
"""test_apis.py - every interface of the server from outside: bodies, events in their order, errors.

    tests/server/test_apis.py WEFT SOURCE [CLASS]...
"""

import base64
import contextlib
import json
import struct
import sys
import time
import unittest

from serving import Server

WEFT = SOURCE = None
HELLO = [{"role": "user", "content": "Hello!"}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris"]}, "days": {"enum": [3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
CITY = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"],
        "additionalProperties": False}


class Case(unittest.TestCase):
    maxDiff = None
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(WEFT, SOURCE, *cls.options)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, f"the server ended with {code}"

    def ask(self, path, body=None, status=200):
        have, headers, answer = self.server.ask(path, body)
        self.assertEqual(have, status, answer)
        self.assertRegex(headers["x-request-id"], r"^req_\d+$")
        if path.startswith("/v1/messages"):
            # Where Anthropic's clients look for it.
            self.assertEqual(headers["request-id"], headers["x-request-id"])
            if status != 200:
                self.assertEqual(answer["request_id"], headers["x-request-id"])
        return answer

    def stream(self, path, body):
        return self.server.stream(path, body)

    def refused(self, path, body, *words, status=400):
        """The sentence, which has the words."""
        answer = self.ask(path, body, status)
        message = answer["error"]["message"]
        for word in words:
            self.assertIn(word, message)
        return answer


class Messages(Case):
    """Anthropic's."""

    path = "/v1/messages"

    def body(self, **more):
        return {"model": "plain", "max_tokens": 8, "temperature": 0, "messages": HELLO, **more}

    def text(self, **more):
        answer = self.ask(self.path, self.body(**more))
        return "".join(block.get("text", "") for block in answer["content"])

    def test_whole(self):
        answer = self.ask(self.path, self.body())
        self.assertRegex(answer.pop("id"), r"^msg_[0-9a-f]{24}$")
        usage = answer.pop("usage")
        self.assertEqual(answer, {
            "type": "message", "role": "assistant", "model": "plain",
            "content": [{"type": "text", "text": "Hello! I am doing well today."}],
            "stop_reason": "max_tokens", "stop_sequence": None})
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], 8)
        self.assertEqual(usage["output_tokens"], 8)
        self.assertEqual(usage["cache_creation_input_tokens"], 0)
        self.assertEqual(usage["output_tokens_details"], {"thinking_tokens": 0})

    def test_stream(self):
        self.ask(self.path, self.body())
        events = self.stream(self.path, self.body())
        for name, data in events:
            self.assertEqual(name, data["type"])
        names = [name for name, _ in events]
        self.assertEqual(names, ["message_start", "ping", "content_block_start",
                                 *["content_block_delta"] * 8, "content_block_stop",
                                 "message_delta", "message_stop"])
        start = events[0][1]["message"]
        self.assertEqual(start["content"], [])
        self.assertIsNone(start["stop_reason"])
        self.assertEqual(start["usage"]["input_tokens"], 8)
        self.assertEqual(events[2][1], {"type": "content_block_start", "index": 0,
                                        "content_block": {"type": "text", "text": ""}})
        deltas = [data for name, data in events if name == "content_block_delta"]
        self.assertTrue(all(d["index"] == 0 and d["delta"]["type"] == "text_delta" for d in deltas))
        self.assertEqual("".join(d["delta"]["text"] for d in deltas),
                         "Hello! I am doing well today.")
        delta = events[-2][1]
        self.assertEqual(delta["delta"], {"stop_reason": "max_tokens", "stop_sequence": None})
        # The second time, all but the last token is known.
        self.assertEqual(delta["usage"]["cache_read_input_tokens"], 7)
        self.assertEqual(delta["usage"]["input_tokens"], 1)
        self.assertEqual(delta["usage"]["output_tokens"], 8)
        self.assertEqual(events[-1][1], {"type": "message_stop"})

    def test_shapes(self):
        """Different ways to say the same have the same answer."""
        plain = self.text()
        block = {"text": "Hello!", "type": "text", "cache_control": {"type": "ephemeral"}}
        self.assertEqual(self.text(messages=[{"content": [block], "role": "user"}]), plain)
        halves = [{"role": "user", "content": "Hel"}, {"role": "user", "content": "lo!"}]
        self.assertEqual(self.text(messages=halves), plain)
        kind = self.text(system="Be kind.")
        self.assertEqual(self.text(system=[{"type": "text", "text": "Be kind."}]), kind)
        inside = [{"content": "Be kind.", "role": "system"}, *HELLO]
        self.assertEqual(self.text(messages=inside), kind)
        count = lambda **more: self.ask(self.path + "/count_tokens",
                                        {"model": "plain", **more})["input_tokens"]
        both = count(system="Be", messages=[{"role": "system", "content": "kind."}, *HELLO])
        self.assertEqual(both, count(system="Be\n\nkind.", messages=HELLO))
        self.text(messages=[*HELLO, {"role": "assistant", "content": None}, *HELLO])
        self.text(messages=[{"role": "user", "content": []}])

    def test_tool_results(self):
        call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
        result = {"tool_use_id": "t1", "type": "tool_result", "content": "4"}
        turns = [*HELLO, {"role": "assistant", "content": [call]},
                 {"role": "user", "content": [result, {"type": "text", "text": "So?"}]}]
        self.text(messages=turns, model="tools")
        # A later turn may use the id again.
        self.text(messages=[*turns, *turns[1:]], model="tools")
        for content in (None, "", [{"type": "text", "text": "4"}]):
            turns[2]["content"] = [{**result, "content": content, "is_error": True}]
            self.text(messages=turns, model="tools")
        turns[2]["content"] = [result, dict(result)]
        answer = self.refused(self.path, self.body(messages=turns, model="tools"), "'t1'")
        self.assertEqual(answer["type"], "error")
        self.assertEqual(answer["error"]["type"], "invalid_request_error")
        apart = [*turns[:2], {"role": "user", "content": [result]},
                 {"role": "user", "content": [result]}]
        self.refused(self.path, self.body(messages=apart, model="tools"), "'t1'")

    def test_ends(self):
        answer = self.ask(self.path, self.body(max_tokens=40, stop_sequences=["well", "never"]))
        self.assertEqual(answer["stop_reason"], "stop_sequence")
        self.assertEqual(answer["stop_sequence"], "well")
        self.assertEqual(answer["content"][0]["text"], "Hello! I am doing ")
        events = self.stream(self.path, self.body(max_tokens=40, stop_sequences=["well"]))
        self.assertEqual(events[-2][1]["delta"],
                         {"stop_reason": "stop_sequence", "stop_sequence": "well"})
        answer = self.ask(self.path, self.body(max_tokens=400))
        self.assertEqual(answer["stop_reason"], "end_turn")
        long = [{"role": "user", "content": "and " * 500}]
        answer = self.ask(self.path, self.body(max_tokens=400, messages=long, seed=1,
                                               ignore_eos=True))
        self.assertEqual(answer["stop_reason"], "model_context_window_exceeded")
        self.refused(self.path, self.body(messages=[{"role": "user", "content": "and " * 600}]),
                     "512")

    def test_refused(self):
        def message(content, role="user"):
            return {"messages": [{"role": role, "content": content}]}

        rows = [
            ({"frob": 1}, "frob"),
            ({"max_tokens": None}, "max_tokens"),
            ({"max_tokens": 0}, "max_tokens"),
            ({"messages": []}, "messages"),
            ({"messages": "a"}, "messages"),
            (message(7), "messages[0].content", "integer"),
            (message("a", "tool"), "messages[0].role", "'tool'"),
            ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
            ({"messages": [{"content": "a"}]}, "messages[0].role", "missing"),
            ({"messages": [*HELLO, {"role": "assistant", "content": "I"}]}, "assistant"),
            (message([{"type": "document"}]), "messages[0].content[0].type", "'document'"),
            (message([{"type": "tool_use"}]), "messages[0].content[0].type", "'tool_use'"),
            (message([{"type": "text"}]), "messages[0].content[0].text"),
            (message([{"type": "text", "text": "a", "colour": 1}]),
             "messages[0].content[0].colour"),
            (message([{"type": "image", "source": {"type": "url", "url": "http://a/b"}}]),
             "messages[0].content[0].source.type"),
            (message([{"type": "tool_result", "content": "a"}]), "tool_use_id"),
            ({"system": 1}, "system"),
            ({"system": [{"type": "image"}]}, "system[0].type"),
            ({"stop": ["a"]}, "stop"),
            ({"stop_sequences": "a"}, "stop_sequences"),
            ({"stop_sequences": [""]}, "stop_sequences"),
            ({"thinking": {"type": "loud"}}, "thinking.type"),
            ({"thinking": {"type": "enabled", "budget_tokens": "a"}}, "thinking.budget_tokens"),
            ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
             "tools[0].type", "'web_search_20250305'"),
            ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
            ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
            ({"tool_choice": {"type": "any"}}, "tool_choice"),
            ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
            ({"context_management": {"edits": []}}, "context_management"),
            ({"container": "a"}, "container"),
            ({"output_config": {"format": {"type": "regex"}}}, "output_config.format"),
            ({"output_config": {"colour": 1}}, "output_config.colour"),
            ({"temperature": 1000}, "temperature"),
        ]
        for change, *words in rows:
            with self.subTest(change):
                answer = self.refused(self.path, self.body(**change), *words)
                self.assertEqual(answer["type"], "error")
                self.assertEqual(answer["error"]["type"], "invalid_request_error")
        for ignored in ({"metadata": {"user_id": "a"}}, {"service_tier": "auto"},
                        {"context_management": None}, {"cache_control": {"type": "ephemeral"}}):
            self.ask(self.path, self.body(**ignored))
        answer = self.refused(self.path, self.body(model="none"), "'none'", status=404)
        self.assertEqual(answer["error"]["type"], "not_found_error")
        status, _, answer = self.server.ask(self.path)
        self.assertEqual((status, answer["error"]["type"]), (405, "invalid_request_error"))

    def test_image(self):
        data = base64.b64encode(b"not an image").decode()
        image = {"type": "image",
                 "source": {"type": "base64", "media_type": "image/png", "data": data}}
        body = self.body(messages=[{"role": "user", "content": [image]}])
        self.assertIn("image 1", self.refused(self.path, body)["error"]["message"])
        image["source"]["data"] = "*"
        self.refused(self.path, body, "source.data", "base64")

    def test_count(self):
        path = self.path + "/count_tokens"
        for messages in (HELLO, [*HELLO, {"role": "assistant", "content": "Hi."}, *HELLO]):
            count = self.ask(path, {"model": "plain", "messages": messages})
            usage = self.ask(self.path, self.body(messages=messages))["usage"]
            self.assertEqual(count, {"input_tokens": usage["input_tokens"] +
                                     usage["cache_read_input_tokens"]})
        self.refused(path, {"model": "plain", "messages": HELLO, "stream": True}, "stream")
        self.refused(path, {"model": "plain", "messages": HELLO, "frob": True}, "frob")

    def test_schema(self):
        form = {"type": "json_schema", "schema": CITY}
        for body in ({"output_config": {"format": form}}, {"output_format": form}):
            answer = self.ask(self.path, self.body(max_tokens=60, **body))
            self.assertEqual(answer["stop_reason"], "end_turn")
            self.assertEqual(json.loads(answer["content"][0]["text"]), {"city": "Paris"})

    TOOLS = [{"name": "look", "description": "Looks.", "input_schema": WEATHER},
             {"name": "listen", "input_schema": {"type": "object"}}]

    def forced(self, **more):
        return self.body(model="tools", max_tokens=80, tools=self.TOOLS,
                         tool_choice={"type": "tool", "name": "look",
                                      "disable_parallel_tool_use": True}, **more)

    def test_tools(self):
        answer = self.ask(self.path, self.forced())
        self.assertEqual(answer["stop_reason"], "tool_use")
        (block,) = [b for b in answer["content"] if b["type"] == "tool_use"]
        self.assertRegex(block.pop("id"), r"^toolu_[0-9a-f]+$")
        self.assertEqual(block, {"type": "tool_use", "name": "look",
                                 "input": {"city": "Paris", "days": 3}})

    def test_tools_stream(self):
        events = self.stream(self.path, self.forced())
        starts = [d for n, d in events if n == "content_block_start"]
        (start,) = [d for d in starts if d["content_block"]["type"] == "tool_use"]
        self.assertEqual(start["content_block"]["name"], "look")
        self.assertEqual(start["content_block"]["input"], {})
        text = "".join(d["delta"]["partial_json"] for n, d in events
                       if n == "content_block_delta" and d["index"] == start["index"])
        self.assertEqual(json.loads(text), {"city": "Paris", "days": 3})
        stops = [d["index"] for n, d in events if n == "content_block_stop"]
        self.assertEqual(stops, [d["index"] for d in starts])
        self.assertEqual(events[-2][1]["delta"]["stop_reason"], "tool_use")

    def test_tools_none(self):
        answer = self.ask(self.path, self.body(model="tools", tools=self.TOOLS,
                                               tool_choice={"type": "none"}))
        self.assertEqual([b["type"] for b in answer["content"]], ["text"])

    def test_answer_comes_back(self):
        """What was answered is known when it comes back with a result."""
        first = self.ask(self.path, self.forced())
        call = first["content"][-1]
        back = [*HELLO, {"role": "assistant", "content": first["content"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"],
                                              "content": "4"}]}]
        second = self.ask(self.path, self.forced(messages=back))
        self.assertGreaterEqual(second["usage"]["cache_read_input_tokens"],
                                first["usage"]["input_tokens"] + first["usage"]["output_tokens"] - 4)

    def test_thinking(self):
        answer = self.ask(self.path, self.body(model="thinks"))
        (block,) = answer["content"]
        self.assertEqual(block["type"], "thinking")
        self.assertTrue(block["signature"])
        self.assertEqual(answer["usage"]["output_tokens_details"]["thinking_tokens"], 8)
        body = self.body(model="thinks", thinking={"type": "enabled", "budget_tokens": 2000})
        events = self.stream(self.path, body)
        self.assertEqual(events[2][1]["content_block"],
                         {"type": "thinking", "thinking": "", "signature": ""})
        deltas = [d["delta"] for n, d in events if n == "content_block_delta"]
        self.assertEqual({d["type"] for d in deltas[:-1]}, {"thinking_delta"})
        self.assertEqual(deltas[-1]["type"], "signature_delta")
        self.assertEqual("".join(d["thinking"] for d in deltas[:-1]), block["thinking"])
        body["thinking"]["display"] = "omitted"
        self.assertEqual(self.ask(self.path, body)["content"][0]["thinking"], "")
        events = self.stream(self.path, body)
        self.assertEqual([d["delta"]["type"] for n, d in events if n == "content_block_delta"],
                         ["signature_delta"])
        off = self.ask(self.path, self.body(model="thinks", thinking={"type": "disabled"}))
        self.assertEqual([b["type"] for b in off["content"]], ["text"])
        back = [*HELLO, {"role": "assistant", "content": [
            block, {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Hi."}]},
            *HELLO]
        self.ask(self.path, self.body(model="thinks", messages=back))

    def test_leaves(self):
        before = self.server.wait_idle()
        connection = self.server.connect()
        connection.request("POST", self.path, json.dumps(
            self.body(model="slow", max_tokens=450, stream=True, ignore_eos=True)))
        answer = connection.getresponse()
        answer.read(200)
        answer.close()
        connection.close()
        after = self.server.wait_idle()
        count = lambda stats: stats["models"][-1]["cancelled"]
        self.assertEqual(count(after), count(before) + 1)


class Responses(Case):
    path = "/v1/responses"

    def body(self, **more):
        return {"model": "plain", "max_output_tokens": 8, "temperature": 0, "input": "Hello!",
                **more}

    def text(self, **more):
        answer = self.ask(self.path, self.body(**more))
        return answer["output"][-1]["content"][0]["text"]

    def test_whole(self):
        answer = self.ask(self.path, self.body(metadata={"a": "b"}, store=True))
        self.assertRegex(answer["id"], r"^resp_[0-9a-f]{24}$")
        (item,) = answer["output"]
        self.assertRegex(item.pop("id"), r"^msg_[0-9a-f]{26}$")
        self.assertEqual(item, {
            "type": "message", "role": "assistant", "status": "incomplete",
            "content": [{"type": "output_text", "annotations": [], "logprobs": [],
                         "text": "Hello! I am doing well today."}]})
        self.assertEqual(answer["status"], "incomplete")
        self.assertEqual(answer["incomplete_details"], {"reason": "max_output_tokens"})
        usage = answer["usage"]
        self.assertLessEqual(usage["input_tokens_details"].pop("cached_tokens"), 7)
        self.assertEqual(usage, {
            "input_tokens": 8, "input_tokens_details": {"cache_write_tokens": 0},
            "output_tokens": 8, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 16})
        for name, value in {
                "object": "response", "error": None, "model": "plain", "instructions": None,
                "metadata": {"a": "b"}, "tools": [], "tool_choice": "auto", "temperature": 0,
                "top_p": 0.9, "parallel_tool_calls": True, "previous_response_id": None,
                "store": False, "truncation": "disabled", "max_output_tokens": 8,
                "background": False, "text": {"format": {"type": "text"}}}.items():
            self.assertEqual(answer[name], value, name)
        whole = self.ask(self.path, self.body(max_output_tokens=400))
        self.assertEqual(whole["status"], "completed")
        self.assertEqual(whole["output"][0]["status"], "completed")
        self.assertIsNone(whole["incomplete_details"])

    def check_stream(self, events):
        """Numbers, names, and that the last response has the items as they were done."""
        for i, (name, data) in enumerate(events):
            self.assertEqual(name, data["type"])
            self.assertEqual(data["sequence_number"], i)
        items = [d["item"] for n, d in events if n == "response.output_item.done"]
        self.assertEqual(events[-1][1]["response"]["output"], items)
        return [name.removeprefix("response.") for name, _ in events]

    def test_stream(self):
        events = self.stream(self.path, self.body())
        self.assertEqual(self.check_stream(events), [
            "created", "in_progress", "output_item.added", "content_part.added",
            *["output_text.delta"] * 8, "output_text.done", "content_part.done",
            "output_item.done", "incomplete"])
        self.assertEqual(events[0][1]["response"]["status"], "in_progress")
        self.assertIsNone(events[0][1]["response"]["usage"])
        item = events[2][1]["item"]
        self.assertEqual(item["content"], [])
        self.assertEqual(item["status"], "in_progress")
        for _, data in events[3:14]:
            self.assertEqual((data["item_id"], data["output_index"], data["content_index"]),
                             (item["id"], 0, 0))
        text = "".join(d["delta"] for n, d in events if n == "response.output_text.delta")
        self.assertEqual(text, "Hello! I am doing well today.")
        self.assertEqual(events[12][1]["text"], text)
        self.assertEqual(events[-1][1]["response"]["usage"]["output_tokens"], 8)
        self.assertEqual(self.check_stream(self.stream(
            self.path, self.body(max_output_tokens=400)))[-1], "completed")

    def test_input(self):
        plain = self.text()
        part = {"type": "input_text", "text": "Hello!"}
        for item in ({"role": "user", "content": "Hello!"},
                     {"content": [part], "type": "message", "role": "user"}):
            self.assertEqual(self.text(input=[item]), plain)
        kind = self.text(instructions="Be kind.")
        for role in ("system", "developer"):
            items = [{"role": role, "content": "Be kind."}, {"role": "user", "content": "Hello!"}]
            self.assertEqual(self.text(input=items), kind)
        first = self.ask(self.path, self.body(max_output_tokens=400))
        again = self.ask(self.path, self.body(input=[
            {"role": "user", "content": "Hello!"}, *first["output"],
            {"role": "user", "content": "Go on."}]))
        self.assertGreaterEqual(again["usage"]["input_tokens_details"]["cached_tokens"],
                                7 + first["usage"]["output_tokens"])

    def test_logprobs(self):
        body = self.body(include=["message.output_text.logprobs"], top_logprobs=2)
        entries = self.ask(self.path, body)["output"][0]["content"][0]["logprobs"]
        self.assertEqual(len(entries), 8)
        for entry in entries:
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])
        events = self.stream(self.path, body)
        self.check_stream(events)
        deltas = [d["logprobs"] for n, d in events if n == "response.output_text.delta"]
        self.assertEqual(sum(deltas, []), entries)

    def test_refused(self):
        rows = [
            ({"frob": 1}, "frob"),
            ({"input": None}, "input"),
            ({"input": []}, "input"),
            ({"input": [{"type": "item_reference", "id": "a"}]}, "input[0].type"),
            ({"input": [{"role": "tool", "content": "a"}]}, "input[0].role"),
            ({"input": [{"role": "user"}]}, "input[0].content"),
            ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
             "input[0].content[0].type", "'input_file'"),
            ({"input": [{"type": "function_call", "name": "a"}]}, "input[0].call_id"),
            ({"input": [{"type": "function_call_output", "call_id": "c1", "output": "a"}] * 2},
             "input[1].call_id", "'c1'"),
            ({"previous_response_id": "resp_1"}, "previous_response_id", "stored"),
            ({"conversation": "conv_1"}, "conversation"),
            ({"background": True}, "background"),
            ({"truncation": "auto"}, "truncation"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'web_search'"),
            ({"tools": [{"type": "function"}]}, "tools[0].name"),
            ({"tool_choice": "required"}, "tool_choice"),
            ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
            ({"include": ["file_search_call.results"]}, "include", "'file_search_call.results'"),
            ({"text": {"verbosity": "high"}}, "text.verbosity"),
            ({"text": {"format": {"type": "xml"}}}, "text.format"),
            ({"reasoning": {"speed": 1}}, "reasoning.speed"),
            ({"max_output_tokens": 0}, "max_output_tokens"),
            ({"top_logprobs": 100}, "top_logprobs"),
        ]
        for change, *words in rows:
            with self.subTest(change):
                error = self.refused(self.path, self.body(**change), *words)["error"]
                self.assertEqual(error["type"], "invalid_request_error")
                self.assertEqual(error["param"], words[0])
        for ignored in ({"store": False}, {"store": True}, {"store": None}, {"background": False},
                        {"truncation": "disabled"}, {"previous_response_id": None},
                        {"include": ["reasoning.encrypted_content"]}, {"user": "a"}):
            self.ask(self.path, self.body(**ignored))

    def test_schema(self):
        form = {"type": "json_schema", "name": "city", "strict": True, "schema": CITY}
        text = self.text(max_output_tokens=60, text={"format": form})
        self.assertEqual(json.loads(text), {"city": "Paris"})
        text = self.text(max_output_tokens=200, seed=3, text={"format": {"type": "json_object"}})
        self.assertTrue(text.startswith("{"))

    TOOLS = [{"type": "function", "name": "look", "description": "Looks.", "parameters": WEATHER,
              "strict": True}]

    def forced(self, **more):
        return self.body(model="tools", max_output_tokens=80, tools=self.TOOLS,
                         tool_choice={"type": "function", "name": "look"},
                         parallel_tool_calls=False, **more)

    def test_tools(self):
        answer = self.ask(self.path, self.forced())
        self.assertEqual(answer["status"], "completed")
        self.assertEqual(answer["tools"], self.TOOLS)
        (item,) = answer["output"]
        self.assertRegex(item.pop("id"), r"^fc_[0-9a-f]+$")
        self.assertRegex(item["call_id"], r"^call_[0-9a-f]+$")
        self.assertEqual(json.loads(item["arguments"]), {"city": "Paris", "days": 3})
        self.assertEqual((item["type"], item["name"], item["status"]),
                         ("function_call", "look", "completed"))
        result = {"type": "function_call_output", "call_id": item["call_id"], "output": "4"}
        again = self.ask(self.path, self.forced(input=[
            {"role": "user", "content": "Hello!"}, item, result]))
        self.assertGreaterEqual(again["usage"]["input_tokens_details"]["cached_tokens"],
                                answer["usage"]["total_tokens"] - 4)

    def test_tools_stream(self):
        events = self.stream(self.path, self.forced())
        names = self.check_stream(events)
        n = names.count("function_call_arguments.delta")
        self.assertGreater(n, 0)
        self.assertEqual(names, ["created", "in_progress", "output_item.added",
                                 *["function_call_arguments.delta"] * n,
                                 "function_call_arguments.done", "output_item.done", "completed"])
        self.assertEqual(events[2][1]["item"]["arguments"], "")
        text = "".join(d["delta"] for _, d in events[3:3 + n])
        self.assertEqual(events[3 + n][1]["arguments"], text)
        self.assertEqual(json.loads(text), {"city": "Paris", "days": 3})

    def test_reasoning(self):
        answer = self.ask(self.path, self.body(model="thinks", reasoning={"effort": "low"}))
        (item,) = answer["output"]
        self.assertEqual((item["type"], item["summary"]), ("reasoning", []))
        self.assertEqual(answer["usage"]["output_tokens_details"], {"reasoning_tokens": 8})
        events = self.stream(self.path, self.body(model="thinks"))
        names = self.check_stream(events)
        self.assertEqual(names[2:5], ["output_item.added", "content_part.added",
                                      "reasoning_text.delta"])
        self.assertEqual(names[-4:], ["reasoning_text.done", "content_part.done",
                                      "output_item.done", "incomplete"])
        self.assertEqual(events[3][1]["part"], {"type": "reasoning_text", "text": ""})
        self.assertEqual(events[-4][1]["text"], item["content"][0]["text"])
        off = self.ask(self.path, self.body(model="thinks", reasoning={"effort": "none"}))
        self.assertEqual([i["type"] for i in off["output"]], ["message"])
        self.ask(self.path, self.body(model="thinks", input=[
            {"role": "user", "content": "Hello!"}, item, off["output"][0],
            {"role": "user", "content": "Hello!"}]))


class Chat(Case):
    path = "/v1/chat/completions"

    def body(self, **more):
        return {"model": "plain", "max_tokens": 8, "temperature": 0, "messages": HELLO, **more}

    def test_whole(self):
        answer = self.ask(self.path, self.body())
        self.assertEqual(answer["choices"], [{
            "index": 0, "logprobs": None, "finish_reason": "length",
            "message": {"role": "assistant", "content": "Hello! I am doing well today.",
                        "refusal": None}}])
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["usage"]["total_tokens"], 16)

    def test_stream(self):
        events = self.stream(self.path, self.body(stream_options={"include_usage": True}))
        self.assertEqual(events[-1], (None, "[DONE]"))
        chunks = [data for _, data in events[:-1]]
        self.assertEqual({c["object"] for c in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        text = "".join(c["choices"][0]["delta"]["content"] for c in chunks[1:-2])
        self.assertEqual(text, "Hello! I am doing well today.")
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 8)
        events = self.stream(self.path, self.body())
        self.assertFalse(any("usage" in c for _, c in events[:-1]))

    def test_tools(self):
        function = {"name": "look", "parameters": WEATHER}
        answer = self.ask(self.path, self.body(
            model="tools", max_tokens=80, tools=[{"type": "function", "function": function}],
            tool_choice={"type": "function", "function": {"name": "look"}},
            parallel_tool_calls=False))
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Paris", "days": 3})

    def test_refused(self):
        for change, word in (({"frob": 1}, "frob"), ({"messages": None}, "messages"),
                             ({"tools": [{"type": "web"}]}, "tools"),
                             ({"response_format": {"type": "xml"}}, "response_format"),
                             ({"response_format": {"type": "json_schema", "schema": CITY},
                               "structured_outputs": {"json_object": True}},
                              "structured_outputs.json_object"),
                             ({"chat_template_kwargs": 1}, "chat_template_kwargs")):
            with self.subTest(change):
                error = self.refused(self.path, self.body(**change), word)["error"]
                self.assertEqual((error["type"], error["param"]), ("invalid_request_error", word))
        self.refused(self.path, self.body(model="none"), "'none'", status=404)

    def test_results(self):
        result = {"role": "tool", "tool_call_id": "c1", "content": "4"}
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        turn = [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
        self.ask(self.path, self.body(model="tools", messages=[*HELLO, *turn, *turn]))
        self.refused(self.path, self.body(messages=[*HELLO, *turn, result]), "'c1'")
        # Eight times as many are not much more than eight times the work: pairwise it was 64 times.
        least = []
        for n in (2048, 16384):
            many = [{**result, "tool_call_id": f"c{i}"} for i in range(n)]
            seconds = []
            for _ in range(5):
                begun = time.monotonic()
                self.refused(self.path, self.body(messages=many), "512")
                seconds.append(time.monotonic() - begun)
            least.append(min(seconds))
        self.assertLess(least[1], 40 * least[0])


class Rest(Case):
    """Text, vectors, models, operations."""

    def test_completions(self):
        body = {"model": "plain", "prompt": "Once upon", "max_tokens": 4, "temperature": 0}
        answer = self.ask("/v1/completions", body)
        self.assertEqual(answer["object"], "text_completion")
        (choice,) = answer["choices"]
        events = self.stream("/v1/completions", body)
        self.assertEqual(events[-1], (None, "[DONE]"))
        text = "".join(c["choices"][0]["text"] for _, c in events[:-1] if c["choices"])
        self.assertEqual(text, choice["text"])
        self.assertEqual(choice["finish_reason"], "length")
        self.refused("/v1/completions", {**body, "frob": 1}, "frob")

    def test_embeddings(self):
        body = {"model": "plain", "input": ["Hello", "there"]}
        answer = self.ask("/v1/embeddings", body)
        vectors = [row["embedding"] for row in answer["data"]]
        self.assertEqual([row["index"] for row in answer["data"]], [0, 1])
        self.assertEqual([len(v) for v in vectors], [128, 128])
        packed = self.ask("/v1/embeddings", {**body, "encoding_format": "base64"})
        data = base64.b64decode(packed["data"][0]["embedding"])
        self.assertEqual(list(struct.unpack("<128f", data)),
                         [struct.unpack("<f", struct.pack("<f", x))[0] for x in vectors[0]])

    def test_models(self):
        answer = self.ask("/v1/models")
        self.assertEqual(answer["object"], "list")
        self.assertEqual([m["id"] for m in answer["data"]], ["plain", "tools", "thinks", "slow"])
        self.assertEqual(self.ask("/v1/models/tools")["id"], "tools")
        self.ask("/v1/models/none", status=404)

    def test_text(self):
        ids = self.ask("/tokenize", {"model": "plain", "prompt": "Hello there"})["tokens"]
        back = self.ask("/detokenize", {"model": "plain", "tokens": ids})
        self.assertIn("Hello there", back.values())
        self.assertEqual(self.ask("/tokenize", {"model": "plain", "content": ""})["count"], 0)

    def test_operations(self):
        self.assertEqual(self.ask("/health"), {"status": "ok"})
        self.assertIn("vllm:num_requests_running", self.ask("/metrics"))
        self.assertEqual(self.ask("/stats")["models"][0]["name"], "plain")
        self.ask("/v1/nothing", status=404)

    def test_other_method(self):
        status, headers, answer = self.server.ask("/v1/chat/completions")
        self.assertEqual((status, headers["allow"]), (405, "POST"))
        self.assertEqual(answer["error"]["message"], "/v1/chat/completions takes POST, not GET")
        status, headers, _ = self.server.ask("/health", {})
        self.assertEqual((status, headers["allow"]), (405, "GET"))


class Keys(Case):
    options = ("--api-key", "secret")

    def test_forms(self):
        body = {"model": "plain", "max_tokens": 1, "messages": HELLO}
        for path, want in (("/v1/messages", {"type": "error"}),
                           ("/v1/messages/count_tokens", {"type": "error"}),
                           ("/v1/chat/completions", {}), ("/v1/responses", {})):
            status, headers, answer = self.server.ask(path, body)
            self.assertEqual((status, headers["www-authenticate"]), (401, "Bearer"))
            self.assertEqual(answer["error"]["type"], "authentication_error")
            self.assertEqual(answer.get("type"), want.get("type"))
        for headers in ({"x-api-key": "secret"}, {"authorization": "Bearer secret"}):
            status, _, answer = self.server.ask("/v1/messages", body, {
                **headers, "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"})
            self.assertEqual(status, 200, answer)


class Heads(Case):
    """What is asked for all models and one has not is not kept quiet."""

    options = ("--draft", "mtp")

    def test_said(self):
        answer = self.ask("/v1/messages", {"model": "tools", "max_tokens": 4, "messages": HELLO})
        self.assertEqual(answer["stop_reason"], "max_tokens")
        said = self.server.process.stderr.read()
        for name in ("plain", "tools"):
            self.assertIn(f"'{name}' has no head that drafts (mtp)", said)


class Full(Case):
    """As many requests as there may be: the operator still sees what goes on."""

    options = ("--max-requests", "1")

    def test_full(self):
        body = {"model": "slow", "max_tokens": 400, "messages": HELLO, "stream": True}
        connection = self.server.connect()
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            answer = connection.getresponse()
            self.assertTrue(answer.readline().startswith(b"data: "))
            status, headers, answer = self.server.ask("/v1/chat/completions", body)
            self.assertEqual((status, headers["retry-after"]), (503, "2"), answer)
            for path in ("/health", "/metrics", "/stats", "/v1/models", "/"):
                status, _, answer = self.server.ask(path)
                self.assertEqual(status, 200, (path, answer))


if __name__ == "__main__":
    WEFT, SOURCE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
