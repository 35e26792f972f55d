"""Properties of tools that Claude's vendors refuse: renamed for it, and back for the client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.content import decode, transcode_in_any_chunks

from streamnorm import (
    BlockStart,
    BlockStop,
    Conversation,
    Encoded,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    ToolCall,
    Transcoder,
    accumulate,
    decode_request,
    encode_message,
    message_events,
    translate_request,
)
from streamnorm._core.events import Failed
from streamnorm._core.limits import Limits
from streamnorm.codec import encoder
from streamnorm.validation import validate_request

SCHEMA = {
    "type": "object",
    "properties": {"filter[id]": {"type": "string"}, "$top": {"type": "number"}, "ok": {}},
    "required": ["filter[id]"],
}
CLAUDES = {"anthropic": "claude-opus-4-6", "bedrock_converse": "anthropic.claude-opus-4-6-v1"}
each_claude = pytest.mark.parametrize("to", CLAUDES)
RENAMED = Loss("property_renamed", "tools", 1, "written with a legal name")
CALL = '{"filter_id": "7", "top": 1.50, "ok": {"top": 1}}'
RESTORED = '{"filter[id]":"7","$top":1.50,"ok":{"top": 1}}'


def request(name: str = "look", model: str = "m", **more: Any) -> dict[str, Any]:
    function = {"name": name, "parameters": SCHEMA}
    plain = {"name": "plain", "parameters": {"type": "object", "properties": {"a": {}}}}
    tools = [{"type": "function", "function": each} for each in (function, plain)]
    question = {"role": "user", "content": "q"}
    return {"model": model, "messages": [question], "tools": tools, **more}


def encoded(to: str, name: str = "look", **more: Any) -> Encoded:
    body = request(name, CLAUDES.get(to, "m"), **more)
    return translate_request(body, dialect="openai_chat", to=to)


def schema_of(body: dict[str, Any], to: str) -> dict[str, Any]:
    if to == "anthropic":
        schema: dict[str, Any] = body["tools"][0]["input_schema"]
    else:
        schema = body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]
    return schema


@each_claude
def test_schema_has_names_that_claude_accepts(to: str) -> None:
    sent = encoded(to)
    schema = schema_of(sent.body, to)
    assert [*schema["properties"]] == ["filter_id", "top", "ok"]
    assert schema["required"] == ["filter_id"]
    assert RENAMED in sent.losses
    assert validate_request(sent.body, to, model=CLAUDES[to]) == []
    assert [*sent.reply.tools] == ["look"]


@each_claude
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Node", "$defs": {"Node": SCHEMA}},
        {"type": "object", "allOf": [{"$ref": "#/$defs/Node"}], "$defs": {"Node": SCHEMA}},
        {"anyOf": [{"anyOf": [SCHEMA]}]},
    ],
)
def test_schema_behind_references_has_names_that_claude_accepts(
    schema: dict[str, Any], to: str
) -> None:
    function = {"type": "function", "function": {"name": "look", "parameters": schema}}
    sent = encoded(to, tools=[function])
    assert validate_request(sent.body, to, model=CLAUDES[to]) == []
    properties = sent.reply.tools["look"].properties
    assert properties == {"filter_id": "filter[id]", "top": "$top"}


@each_claude
def test_earlier_calls_have_the_names_of_the_schema(to: str) -> None:
    arguments = '{"filter[id]": "7", "ok": {"$top": 1}}'
    called = {"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}
    answer = {"role": "assistant", "tool_calls": [called]}
    result = {"role": "tool", "tool_call_id": "c", "content": "snow"}
    messages = [{"role": "user", "content": "q"}, answer, result]
    content = encoded(to, messages=messages).body["messages"][1]["content"][0]
    written = content["input"] if to == "anthropic" else content["toolUse"]["input"]
    assert written == {"filter_id": "7", "ok": {"$top": 1}}


@pytest.mark.parametrize("to", ["openai_responses", "gemini", "gemini_interactions"])
def test_other_vendors_get_the_names_as_they_are(to: str) -> None:
    sent = encoded(to)
    assert RENAMED not in sent.losses
    assert "filter[id]" in json.dumps(sent.body)


def test_request_of_the_same_dialect_keeps_its_names() -> None:
    tool = {"name": "look", "input_schema": SCHEMA}
    body = {"model": "claude-opus-4-6", "max_tokens": 9, "messages": [], "tools": [tool]}
    body["messages"] = [{"role": "user", "content": "q"}]
    sent = translate_request(body, dialect="anthropic", to="anthropic")
    assert (sent.body["tools"], sent.losses) == ([tool], ())


def answer_stream(*calls: tuple[str, tuple[str, ...]], name: str = "look") -> list[bytes]:
    """Return a stream of Anthropic with calls, each with the pieces of its arguments."""
    writer = encoder("anthropic")
    pieces = [writer.encode(MessageStart("m", "claude"))]
    for index, (tool, arguments) in enumerate(calls):
        pieces.append(writer.encode(BlockStart(index, ToolCall(f"c{index}", tool))))
        pieces += [writer.encode(JSONDelta(index, piece)) for piece in arguments]
        pieces.append(writer.encode(BlockStop(index)))
    return [*pieces, writer.encode(MessageStop("tool_use")) + writer.close()]


@pytest.mark.parametrize("client", ["openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize("name", ["look", "look at [it]"])
def test_streamed_calls_have_the_names_of_the_client(client: str, name: str) -> None:
    reply = encoded("anthropic", name).reply
    (given,) = reply.tools
    pieces = (CALL[:9], CALL[9:20], *CALL[20:])
    chunks = answer_stream(("plain", ('{"a":', "1}")), (given, pieces), (given, ("{}",)))
    out, transcoder = transcode_in_any_chunks(chunks, "anthropic", client, reply=reply)
    for message in (accumulate(decode([out], client).events), transcoder.message):
        calls = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
        assert calls == [("plain", {"a": 1}), (name, json.loads(RESTORED)), (name, {})]


def test_values_of_streamed_arguments_keep_their_bytes() -> None:
    chunks = answer_stream(("look", (CALL,)))
    _, transcoder = transcode_in_any_chunks(
        chunks, "anthropic", "openai_chat", reply=encoded("anthropic").reply
    )
    assert transcoder.message.tool_calls[0].arguments == RESTORED


def test_whole_call_and_conversation_have_the_names_of_the_client() -> None:
    reply = encoded("anthropic").reply
    message = accumulate(decode(answer_stream(("look", (CALL,))), "anthropic").events)
    body = encode_message(message, "openai_chat", reply=reply).body
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == RESTORED
    conversation = Conversation(decode_request(request(), "openai_chat"))
    with conversation.append_stream(reply=reply) as answer:
        for event in message_events(message):
            answer.push(event)
    assert conversation.open_tool_calls()[0].arguments == RESTORED


def test_cut_arguments_stay_as_they_are() -> None:
    chunks = answer_stream(("look", ('{"filter_id": "7',)))
    _, transcoder = transcode_in_any_chunks(
        chunks, "anthropic", "openai_chat", reply=encoded("anthropic").reply
    )
    assert transcoder.message.tool_calls[0].arguments == '{"filter_id": "7'


def test_held_arguments_are_bounded() -> None:
    limits = Limits(max_accumulated_bytes=3000)
    chunks = answer_stream(("look", ('{"ok": "', *["a" * 100] * 40, '"}')))
    reply = encoded("anthropic").reply
    transcoder = Transcoder("anthropic", "openai_chat", reply=reply, limits=limits)
    for chunk in chunks:
        transcoder.feed(chunk)
    transcoder.close()
    assert isinstance(outcome := transcoder.outcome, Failed)
    assert outcome.error.code == "max_accumulated_bytes"
