"""Bodies of many megabytes: hostile ones, and histories of agents."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence

import msgspec

from streamnorm import (
    BlockStart,
    BlockStop,
    Image,
    InputMessage,
    JSONDelta,
    Message,
    MessageStart,
    MessageStop,
    Request,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    UsageUpdate,
    encode_message,
    encode_request,
)
from streamnorm.codec import encoder

__all__ = [
    "HOSTILE",
    "PATHS",
    "history",
    "large_answers",
    "large_events",
    "small_answer",
    "small_request",
    "stream_of",
    "stream_request",
]

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
    "gemini_interactions": "/v1beta/interactions",
}

_MAX_BYTES = 32_000_000
_START = {
    "anthropic": b'{"model":"m","max_tokens":9,',
    "openai_chat": b'{"model":"m",',
    "openai_responses": b'{"model":"m",',
    "gemini": b"{",
    "gemini_interactions": b'{"model":"m",',
}
_MESSAGES = {
    "openai_responses": b"input",
    "gemini": b"contents",
    "gemini_interactions": b"input",
}
_MESSAGE = {
    "gemini": b'{"role":"user","parts":[{"text":"a"}]}',
    "gemini_interactions": b'{"type":"user_input","content":[{"type":"text","text":"a"}]}',
}
_TOOL = {
    "anthropic": b'{"name":"f%d","input_schema":{"type":"object"}}',
    "openai_chat": b'{"type":"function","function":{"name":"f%d"}}',
    "openai_responses": b'{"type":"function","name":"f%d","parameters":{"type":"object"}}',
    "gemini": b'{"functionDeclarations":[{"name":"f%d"}]}',
    "gemini_interactions": b'{"type":"function","name":"f%d"}',
}
_CODE = 'def f(x: str) -> str:  # "a"\n    return x.removeprefix("a") + "\\n"\n'
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def _body(dialect: str, messages: Sequence[bytes], fields: bytes = b"") -> bytes:
    name = _MESSAGES.get(dialect, b"messages")
    return _START[dialect] + b'"%s":[%s]%s}' % (name, b",".join(messages), fields)


def _said(dialect: str, text: bytes = b"a") -> bytes:
    message = _MESSAGE.get(dialect, b'{"role":"user","content":"a"}')
    return message.replace(b'"a"', b'"%s"' % text)


def small_request(dialect: str) -> bytes:
    """Return a request with one short message."""
    return _body(dialect, [_said(dialect)])


def _of_messages(message: Callable[[str], bytes], count: int) -> Callable[[str], bytes]:
    def make(dialect: str) -> bytes:
        each = message(dialect)
        return _body(dialect, [each] * min(count, _MAX_BYTES // (len(each) + 1)))

    return make


def _of_text(text: bytes) -> Callable[[str], bytes]:
    return lambda dialect: _body(dialect, [_said(dialect, text * (_MAX_BYTES // len(text)))])


def _with_metadata(value: Callable[[], bytes]) -> Callable[[str], bytes]:
    return lambda dialect: _body(dialect, [_said(dialect)], b',"metadata":' + value())


def _array(item: bytes) -> Callable[[], bytes]:
    return lambda: b"[%s]" % b",".join([item] * (_MAX_BYTES // (len(item) + 1)))


def _many_tools(dialect: str) -> bytes:
    tools = b",".join([_TOOL[dialect] % number for number in range(350_000)])
    return _body(dialect, [_said(dialect)], b',"tools":[%s]' % tools)


def _most_messages(dialect: str) -> bytes:
    """Return the maximum number of messages, with the maximum text."""
    each = _said(dialect)
    values = each.count(b",") + each.count(b"[") + 3 * each.count(b"{") + 1
    messages = [each] * (499_000 // values)
    size = _MAX_BYTES - len(messages) * (len(each) + 1)
    return _body(dialect, [*messages, _said(dialect, b"x" * size)])


def _cut(dialect: str) -> bytes:
    return history(dialect, 24_000_000)[:-1]


def _half_pair(dialect: str) -> bytes:
    return history(dialect, 24_000_000).replace(b"I read a file.", rb"I read a \ud83dle.", 1)


#: Functions that return a body of a dialect, by what is hostile in it.
HOSTILE: dict[str, Callable[[str], bytes]] = {
    "1,000,000 tiny messages": _of_messages(_said, 1_000_000),
    "350,000 tools": _many_tools,
    "10,000,000 empty objects": _with_metadata(_array(b"{}")),
    "10,000,000 empty messages": _of_messages(lambda _: b"{}", 10_000_000),
    "arrays nested 100 deep": _with_metadata(_array(b"[" * 100 + b"]" * 100)),
    "an array nested 16,000,000 deep": _with_metadata(
        lambda: b"[" * 16_000_000 + b"]" * 16_000_000
    ),
    "an object of 2,500,000 names": _with_metadata(
        lambda: b"{%s}" % b",".join([b'"%07x":1' % number for number in range(2_500_000)])
    ),
    "an object of 499,000 names": _with_metadata(
        lambda: b"{%s}" % b",".join([b'"%07x":1' % number for number in range(499_000)])
    ),
    "16,000,000 numbers": _with_metadata(_array(b"1")),
    "as many messages as may be": _most_messages,
    "one long text": _of_text(b"x"),
    "one long text of lines": _of_text(rb"a line of code\n"),
    "one long text of escapes": _of_text(rb"\ud83d\ude00"),
    "one long text of halves of pairs": _of_text(rb"\ud83d"),
    "a history cut off": _cut,
    "a history with half of a pair": _half_pair,
}


def history(dialect: str, size: int) -> bytes:
    """Return an agent's request that reads and writes files and views pictures.

    Every fourth file holds a character that takes four bytes.
    """
    rounds = 200
    share = size // rounds
    dice = random.Random(1)  # noqa: S311 - no secret
    code = (_CODE * (share // len(_CODE) + 1))[: share // 2]
    messages = [InputMessage("user", (Text("Go on."),))]
    for number in range(rounds):
        written = {"path": f"src/module_{number}.py", "content": code[: share // 8]}
        read = ToolCall(f"read_{number:06}", "read", f'{{"path":"src/module_{number}.py"}}')
        write = ToolCall(f"write_{number:06}", "write", json.dumps(written))
        messages.append(InputMessage("assistant", (Text("I read a file."), read, write)))
        text = code if number % 4 else code[:-1] + "\U0001f600"
        results = (ToolResult(read.id, (Text(text),)), ToolResult(write.id, (Text("ok"),)))
        messages.append(InputMessage("user", results))
        picture = base64.b64encode(dice.randbytes(share // 5)).decode()
        look = Image(data=picture, media_type="image/png")
        messages.append(InputMessage("user", (Text("Look."), look)))
    tools = tuple(Tool(name, "does it", _SCHEMA) for name in ("read", "write"))
    request = Request(model="m", max_tokens=1000, tools=tools, messages=tuple(messages))
    return msgspec.json.encode(encode_request(request, dialect).body)


def small_answer(dialect: str) -> bytes:
    """Return a whole answer with one word."""
    return _answer(dialect, Text("Hi."))


def large_answers(dialect: str) -> dict[str, bytes]:
    """Return 15 MB answers, by the part that is large."""
    lines = _CODE * (13_000_000 // len(_CODE))
    empty = b",".join([b"{}"] * 5_000_000)
    return {
        "an answer of one text": _answer(dialect, Text(lines)),
        "an answer of one call": _answer(
            dialect, ToolCall("c", "f", json.dumps({"a": lines[:12_000_000]}))
        ),
        "an answer of empty objects": small_answer(dialect)[:-1] + b',"x":[%s]}' % empty,
    }


def large_events(dialect: str) -> dict[str, bytes]:
    """Return streams with a 13 MB event, by the part that is large."""
    lines = _CODE * (13_000_000 // len(_CODE))
    arguments = json.dumps({"a": lines[:12_000_000]})
    return {
        "an event of one text": stream_of(dialect, Text(), TextDelta(0, lines)),
        "an event of one call": stream_of(dialect, ToolCall("c", "f"), JSONDelta(0, arguments)),
    }


def stream_request(dialect: str) -> tuple[str, bytes]:
    """Return the path and body of a request for a stream."""
    if dialect == "gemini":
        return "/v1beta/models/m:streamGenerateContent?alt=sse", small_request(dialect)
    return PATHS[dialect], small_request(dialect)[:-1] + b',"stream":true}'


def stream_of(dialect: str, block: Text | ToolCall, *deltas: TextDelta | JSONDelta) -> bytes:
    """Return a stream with one block."""
    writer = encoder(dialect)
    start, end = MessageStart("x", "m"), MessageStop("end_turn")
    events = (start, BlockStart(0, block), *deltas, BlockStop(0), UsageUpdate(Usage(1, 1)), end)
    return b"".join(map(writer.encode, events))


def _answer(dialect: str, block: Text | ToolCall) -> bytes:
    blocks = (block,)
    message = Message(id="x", model="m", blocks=blocks, stop_reason="stop", usage=Usage(1, 1))
    return msgspec.json.encode(encode_message(message, dialect).body)
