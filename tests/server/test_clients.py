#!/usr/bin/env python3
"""test_clients.py - the server as the packages of OpenAI and Anthropic see it.

    tests/server/test_clients.py WEFT SOURCE [CLASS]...

Without the packages nothing is tested, and that is said; tools/clients.sh has them.
"""

import base64
import json
import sys
import unittest

from serving import Server

try:
    import anthropic
    import openai
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI
except ImportError as error:
    print(f"test_clients.py: skipped: {error}; tools/clients.sh runs it with the packages")
    sys.exit(77)

WEFT = SOURCE = None
HELLO = [{"role": "user", "content": "Hello!"}]
TEXT = "Hello! I am doing well today."
CITY = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"],
        "additionalProperties": False}
ONCE = {"max_retries": 0, "timeout": 120}


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(WEFT, SOURCE, "--api-key", "secret", "--admin-key", "admin")
        url = f"http://127.0.0.1:{cls.server.port}"
        cls.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="secret", **ONCE)
        cls.anthropic = anthropic.Anthropic(base_url=url, api_key="secret", **ONCE)

    @classmethod
    def tearDownClass(cls):
        cls.openai.close()
        cls.anthropic.close()
        code = cls.server.close()
        assert code == 0, f"the server ended with {code}"

    def wait_cancelled(self, start):
        """start begins an answer and closes it; it must be given up."""
        count = lambda: sum(m["cancelled"] for m in self.stats()["models"])
        before = count()
        start()
        for _ in range(2000):
            if count() > before:
                return
        self.fail("the answer was not given up")

    def stats(self):
        return self.server.ask("/stats", headers={"authorization": "Bearer admin"})[2]


class Chat(Case):
    def ask(self, **more):
        return self.openai.chat.completions.create(
            **{"model": "plain", "messages": HELLO, "max_tokens": 8, "temperature": 0, **more})

    def test_whole(self):
        answer = self.ask(logprobs=True, top_logprobs=2, n=2, seed=1)
        self.assertEqual([c.message.content for c in answer.choices], [TEXT] * 2)
        self.assertEqual(len(answer.choices[0].logprobs.content), 8)
        self.assertEqual(answer.usage.completion_tokens, 16)

    def test_stream(self):
        chunks = list(self.ask(stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, TEXT)
        self.assertEqual(chunks[-1].usage.completion_tokens, 8)

    def test_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": CITY, "strict": True}}
        answer = self.ask(max_tokens=60, response_format=form)
        self.assertEqual(json.loads(answer.choices[0].message.content), {"city": "Paris"})

    def test_tools(self):
        tools = [{"type": "function", "function": {"name": "look", "parameters": CITY}}]
        body = {"model": "tools", "max_tokens": 80, "tools": tools, "tool_choice": "required",
                "parallel_tool_calls": False}
        (call,) = self.ask(**body).choices[0].message.tool_calls
        self.assertEqual(json.loads(call.function.arguments), {"city": "Paris"})
        text = ""
        for chunk in self.ask(stream=True, **body):
            for piece in chunk.choices[0].delta.tool_calls or []:
                text += piece.function.arguments or ""
        self.assertEqual(json.loads(text), {"city": "Paris"})

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(extra_body={"frob": 1})
        self.assertEqual(caught.exception.param, "frob")
        with self.assertRaises(openai.NotFoundError):
            self.ask(model="none")
        with self.assertRaises(openai.AuthenticationError):
            self.openai.with_options(api_key="wrong").models.list()

    def test_leaves(self):
        def start():
            stream = self.ask(model="slow", max_tokens=450, stream=True, extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()

        self.wait_cancelled(start)


class Rest(Case):
    def test_completions(self):
        body = {"model": "plain", "prompt": "Once upon", "max_tokens": 4, "temperature": 0}
        whole = self.openai.completions.create(**body)
        parts = self.openai.completions.create(stream=True, **body)
        self.assertEqual("".join(c.choices[0].text for c in parts if c.choices),
                         whole.choices[0].text)

    def test_embeddings(self):
        answer = self.openai.embeddings.create(model="plain", input=["Hello", "there"])
        self.assertEqual([len(row.embedding) for row in answer.data], [128, 128])

    def test_models(self):
        self.assertEqual([m.id for m in self.openai.models.list()], ["plain", "tools", "thinks", "slow"])
        self.assertEqual(self.openai.models.retrieve("tools").id, "tools")


class Loop(Case):
    """An agent's loop as LangChain runs it: a call, its result, an answer."""

    def model(self, **more):
        url = f"http://127.0.0.1:{self.server.port}/v1"
        return ChatOpenAI(model="tools", base_url=url, api_key="secret", max_tokens=96, max_retries=0,
                          temperature=0, stream_usage=True, **more)

    def run_loop(self, ask):
        weather = {"type": "function", "function": {"name": "get-weather", "parameters": CITY}}
        messages = [HumanMessage("What is the weather like in Paris?")]
        first = ask(self.model().bind_tools([weather], tool_choice="required",
                                               parallel_tool_calls=False), messages)
        calls = first.tool_calls
        self.assertTrue(calls)
        for call in calls:
            self.assertEqual((call["name"], call["args"]), ("get-weather", {"city": "Paris"}))
        self.assertEqual(first.response_metadata["finish_reason"], "tool_calls")
        messages += [first] + [ToolMessage("Rain.", tool_call_id=call["id"]) for call in calls]
        second = ask(self.model().bind_tools([weather], tool_choice="auto"), messages)
        self.assertIn(second.response_metadata["finish_reason"], ("stop", "length", "tool_calls"))
        # What was said stands in the second prompt as it was sampled.
        said = first.usage_metadata["total_tokens"]
        cached = second.usage_metadata["input_token_details"]["cache_read"]
        self.assertGreaterEqual(cached, said - 2)

    def test_whole(self):
        self.run_loop(lambda model, messages: model.invoke(messages))

    def test_stream(self):
        def ask(model, messages):
            whole = None
            for chunk in model.stream(messages):
                whole = chunk if whole is None else whole + chunk
            return whole

        self.run_loop(ask)


class Responses(Case):
    def ask(self, **more):
        return self.openai.responses.create(
            **{"model": "plain", "input": "Hello!", "max_output_tokens": 8, "temperature": 0,
               **more})

    def stream(self, **more):
        with self.openai.responses.stream(
                **{"model": "plain", "input": "Hello!", "max_output_tokens": 8, "temperature": 0,
                   **more}) as stream:
            events = list(stream)
        return events

    def test_whole(self):
        answer = self.ask(instructions="", include=["message.output_text.logprobs"])
        self.assertEqual(answer.output_text, TEXT)
        self.assertEqual(answer.status, "incomplete")
        self.assertEqual(len(answer.output[0].content[0].logprobs), 8)
        again = self.ask(input=[*HELLO, *[i.to_dict() for i in answer.output], *HELLO])
        self.assertGreater(again.usage.input_tokens, answer.usage.total_tokens)

    def test_stream(self):
        events = self.stream(max_output_tokens=300)
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.completed")
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(events[-1].response.output_text, text)
        self.assertTrue(text.startswith(TEXT))
        raw = list(self.ask(stream=True))
        self.assertEqual(raw[-1].response.output_text, TEXT)

    def test_schema(self):
        form = {"type": "json_schema", "name": "a", "schema": CITY, "strict": True}
        answer = self.ask(max_output_tokens=60, text={"format": form})
        self.assertEqual(json.loads(answer.output_text), {"city": "Paris"})

    def test_tools(self):
        tools = [{"type": "function", "name": "look", "parameters": CITY, "strict": True}]
        body = {"model": "tools", "max_output_tokens": 80, "tools": tools,
                "tool_choice": "required", "parallel_tool_calls": False}
        (call,) = self.ask(**body).output
        self.assertEqual(json.loads(call.arguments), {"city": "Paris"})
        done = [e for e in self.stream(**body)
                if e.type == "response.function_call_arguments.done"]
        self.assertEqual(json.loads(done[0].arguments), {"city": "Paris"})
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "4"}
        self.ask(**{**body, "input": [*HELLO, call.to_dict(), result]})

    def test_reasoning(self):
        answer = self.ask(model="thinks", reasoning={"effort": "low", "summary": "auto"})
        self.assertEqual(answer.output[0].type, "reasoning")
        events = self.stream(model="thinks")
        text = "".join(e.delta for e in events if e.type == "response.reasoning_text.delta")
        self.assertEqual(answer.output[0].content[0].text, text)
        off = self.ask(model="thinks", reasoning={"effort": "none"})
        self.assertEqual(off.output[0].type, "message")

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_leaves(self):
        def start():
            stream = self.ask(model="slow", max_output_tokens=450, stream=True,
                              extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()

        self.wait_cancelled(start)


class Messages(Case):
    def body(self, **more):
        extra = {"temperature": 0, **more.pop("extra_body", {})}
        return {"model": "plain", "messages": HELLO, "max_tokens": 8, "extra_body": extra, **more}

    def ask(self, **more):
        return self.anthropic.messages.create(**self.body(**more))

    def final(self, **more):
        with self.anthropic.messages.stream(**self.body(**more)) as stream:
            events = [event.type for event in stream]
            return stream.get_final_message(), events

    def test_whole(self):
        answer = self.ask(metadata={"user_id": "a"})
        self.assertEqual((answer.content[0].text, answer.stop_reason), (TEXT, "max_tokens"))
        count = self.anthropic.messages.count_tokens(model="plain", messages=HELLO)
        usage = answer.usage
        self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, count.input_tokens)

    def test_stream(self):
        answer, events = self.final()
        self.assertEqual((answer.content[0].text, answer.stop_reason), (TEXT, "max_tokens"))
        self.assertEqual(events[0], "message_start")
        self.assertEqual(events[-1], "message_stop")
        self.assertEqual(answer.usage.output_tokens, 8)
        usage = answer.usage
        self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, 8)
        with self.anthropic.messages.stream(**self.body()) as stream:
            self.assertEqual("".join(stream.text_stream), TEXT)
        raw = list(self.ask(stream=True))
        self.assertEqual(raw[-1].type, "message_stop")

    def test_ends(self):
        answer = self.ask(max_tokens=100, stop_sequences=["well"], system="")
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", "well"))

    def test_schema(self):
        form = {"format": {"type": "json_schema", "schema": CITY}}
        answer = self.ask(max_tokens=60, output_config=form)
        self.assertEqual(json.loads(answer.content[0].text), {"city": "Paris"})

    def test_tools(self):
        tools = [{"name": "look", "description": "Looks.", "input_schema": CITY}]
        body = {"model": "tools", "max_tokens": 80, "tools": tools,
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        answer = self.ask(**body)
        self.assertEqual(answer.stop_reason, "tool_use")
        self.assertEqual(answer.content[-1].input, {"city": "Paris"})
        streamed, _ = self.final(**body)
        self.assertEqual(streamed.content[-1].input, {"city": "Paris"})
        result = {"type": "tool_result", "tool_use_id": answer.content[-1].id, "content": "4"}
        turns = [*HELLO, {"role": "assistant", "content": answer.content},
                 {"role": "user", "content": [result]}]
        self.ask(**{**body, "messages": turns})
        counted = self.anthropic.messages.count_tokens(model="tools", messages=turns, tools=tools)
        self.assertGreater(counted.input_tokens, answer.usage.input_tokens)

    def test_thinking(self):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        answer = self.ask(model="thinks", thinking=thinking)
        self.assertEqual(answer.content[0].type, "thinking")
        streamed, _ = self.final(model="thinks", thinking=thinking)
        self.assertEqual(streamed.content[0].thinking, answer.content[0].thinking)
        self.assertTrue(streamed.content[0].signature)
        off = self.ask(model="thinks", thinking={"type": "disabled"})
        self.assertEqual(off.content[0].type, "text")

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.ask(extra_body={"frob": 1})
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.NotFoundError):
            self.ask(model="none")
        with self.assertRaises(anthropic.AuthenticationError):
            self.anthropic.with_options(api_key="wrong").messages.create(**self.body())
        source = {"type": "base64", "media_type": "image/png",
                  "data": base64.b64encode(b"a").decode()}
        with self.assertRaises(anthropic.BadRequestError):
            self.ask(messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])

    def test_leaves(self):
        def start():
            stream = self.ask(model="slow", max_tokens=450, stream=True, extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()

        self.wait_cancelled(start)


if __name__ == "__main__":
    WEFT, SOURCE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
