"""An answer's calls have the names and kinds of the client's tools again, whole and as a stream."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from msgspec import structs
from support.bodies.checks import BODIES
from support.bodies.request_strategies import make_request
from support.draws import Draws, draws, with_half_the_examples
from support.streams.content import decode, encode, transcode

from streamnorm import (
    EncodeError,
    Message,
    Request,
    Tool,
    ToolCall,
    Usage,
    accumulate,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
    message_events,
)
from streamnorm.tools import CustomTool

CLIENTS = ("openai_chat", "openai_responses")  # which have custom tools
NAMES = (
    *("f", "get weather", "é", "a" * 70, "x.y", "1st", "-a", "mcp__srv__tool", "ns__f", "f__1"),
)


def request_of_tools(d: Draws) -> Request:
    """Return a request of tools whose names are not legal everywhere."""
    request = make_request(d)
    tools = [
        structs.replace(tool, name=d.pick(NAMES), deferred=False)
        for tool in request.tools
        if isinstance(tool, Tool | CustomTool)
    ]
    names = {(tool.name, tool.namespace and tool.namespace.name) for tool in tools}
    assume(len(names) == len(tools) > 0)
    messages = request.messages[:1]
    return structs.replace(request, tools=tuple(tools), tool_choice=None, messages=messages)


def answer(tool: Tool | CustomTool, *, wrapped: bool) -> Message:
    """Return an answer that calls a tool of the provider."""
    namespace = tool.namespace and tool.namespace.name
    if isinstance(tool, CustomTool):
        call = ToolCall("call_1", tool.name, "free", "custom", namespace=namespace)
    else:
        arguments = '{"input":"free"}' if wrapped else '{"a":1}'
        call = ToolCall("call_1", tool.name, arguments, namespace=namespace)
    return Message("id", "m", (call,), "tool_use", usage=Usage(1, 1))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("provider", BODIES)
@with_half_the_examples
@given(d=draws(250))
def test_calls_come_back_as_the_client_named_its_tools(
    provider: str, client: str, d: Draws
) -> None:
    request = request_of_tools(d)
    try:
        made = encode_request(request, provider)
    except EncodeError:
        return
    sent = decode_request(json.loads(json.dumps(made.body)), provider, path=made.path)
    offered = [tool for tool in sent.tools if isinstance(tool, Tool | CustomTool)]
    for tool, target in zip(request.tools, offered, strict=True):
        assert isinstance(tool, Tool | CustomTool)
        is_custom = isinstance(tool, CustomTool)
        message = answer(target, wrapped=is_custom)
        whole = encode_message(message, client, reply=made.reply).body
        call = decode_message(json.dumps(whole), client).tool_calls[0]
        assert call.kind == ("custom" if is_custom else "function")
        assert call.arguments == ("free" if is_custom else '{"a":1}')
        if tool.namespace is None or client == "openai_responses":
            assert call.name == tool.name
        wire, _ = encode([*message_events(message)], provider)
        out, _ = transcode([wire], provider, client, reply=made.reply)
        streamed = accumulate(decode([out], client).events).tool_calls[0]
        assert (streamed.name, streamed.kind) == (call.name, call.kind)
        assert streamed.arguments == call.arguments
