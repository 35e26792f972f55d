"""Each kind of part and its events."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from support.gemini.frames import blocks, decode, function_call, parts
from support.openai_chat.chunks import anonymous

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Completed,
    Document,
    Event,
    Failed,
    Image,
    JSONDelta,
    MessageStop,
    Note,
    Opaque,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
)

CALL = {"functionCall": {"id": "c1", "name": "tide", "args": {"port": "Wick"}}}


def one(part: dict[str, Any]) -> list[Event]:
    return blocks(parts(part))


def whole(block: Block, extra: dict[str, Any] | None = None) -> list[Event]:
    return [BlockStart(0, block, extra=extra), BlockStop(0)]


# Calls


def test_call_is_signed_start_arguments_stop() -> None:
    assert one({**CALL, "thoughtSignature": "c2ln"}) == [
        BlockStart(0, ToolCall("c1", "tide", signature="c2ln", issuer="google")),
        JSONDelta(0, '{"port": "Wick"}'),
        BlockStop(0),
    ]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ('{"a" : 1.0,\\u0020"b":"x"}', None),
        ('{"a" : 1.0,  "b":"\\u00e4"}', '{"a" : 1.0,  "b":"\\u00e4"}'),
        # Half of a character, which no reader of JSON text takes.
        ('{"a" : 1.0, "b":"\\ud83d"}', '{"a":1.0,"b":"�"}'),
        ("{}", "{}"),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ("[1, 2]", "[1, 2]"),
        ('{"a":NaN}', '{"a":null}'),
    ],
)
def test_arguments_are_byte_for_byte_those_of_the_wire(args: str, text: str | None) -> None:
    call = f'{{"functionCall": {{"id": "c1", "name": "f", "args": {args}}}}}'
    payload = f'{{"candidates": [{{"content": {{"parts": [{call}]}}, "finishReason": "STOP"}}]}}'
    events = decode(f"data: {payload}\r\n\r\n".encode()).events
    if text is None:
        assert isinstance(events[-1], StreamError)
        return
    assert events[1:-1] == [BlockStart(0, ToolCall("c1", "f")), JSONDelta(0, text), BlockStop(0)]


@pytest.mark.parametrize("call", [{"name": "now", "id": ""}, {"name": "now", "args": None}])
def test_call_without_arguments_or_id(call: dict[str, Any]) -> None:
    decoded = decode(parts({"functionCall": call}, {"functionCall": call}, finishReason="STOP"))
    first, second = (e.block for e in decoded.events if isinstance(e, BlockStart))
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert anonymous(first.id)
    assert first.id != second.id
    assert decoded.notes == (Note("minted_id", "tool call", 2),)
    assert decoded.events[-1] == MessageStop("tool_use", "STOP")


def test_unknown_fields_of_a_call_are_kept() -> None:
    call = {"functionCall": {**CALL["functionCall"], "mood": 1}, "partMetadata": {"a": 1}}
    assert one(call)[:2] == [
        Opaque("gemini", "functionCall", '{"mood":1}'),
        BlockStart(0, ToolCall("c1", "tide"), extra={"partMetadata": {"a": 1}}),
    ]


def test_partial_args_become_fragments_of_one_json_object() -> None:
    signed = {"functionCall": {"id": "c1", "name": "f", "willContinue": True}}
    entry = {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}
    last = {"jsonPath": "$.a", "stringValue": "y"}
    assert blocks(
        parts({**signed, "thoughtSignature": "c2ln"}),
        function_call(partialArgs=[entry]),
        function_call(partialArgs=[last], willContinue=True),
        function_call(),
    ) == [
        BlockStart(0, ToolCall("c1", "f", signature="c2ln", issuer="google")),
        *(JSONDelta(0, '{"a":"x'), JSONDelta(0, 'y"'), JSONDelta(0, "}"), BlockStop(0)),
    ]


def test_fragment_of_a_call_may_carry_its_signature() -> None:
    more = {"functionCall": {}, "thoughtSignature": "c2ln"}
    assert blocks(function_call(id="c1", name="f", willContinue=True), parts(more)) == [
        *(BlockStart(0, ToolCall("c1", "f")), SignatureDelta(0, "c2ln", "google"), BlockStop(0)),
    ]


def test_fragment_without_will_continue_ends_the_call() -> None:
    entry = {"jsonPath": "$.a", "numberValue": 1}
    started = function_call(id="c1", name="f", partialArgs=[entry], willContinue=True)
    ended = function_call(partialArgs=[{"jsonPath": "$.b", "numberValue": 2}])
    other = {"functionCall": {**CALL["functionCall"], "id": "c2"}}
    assert blocks(started, ended, function_call(), parts(other))[:5] == [
        *(BlockStart(0, ToolCall("c1", "f")), JSONDelta(0, '{"a":1'), JSONDelta(0, ',"b":2}')),
        *(BlockStop(0), BlockStart(1, ToolCall("c2", "tide"))),
    ]
    assert decode(started, ended, function_call(), parts(finishReason="STOP")).notes == (
        Note("extra_call_end", "tool call"),
    )


def test_call_without_its_end_stays_unfinished() -> None:
    entry = {"jsonPath": "$.a", "numberValue": 1}
    started = function_call(id="c1", name="f", partialArgs=[entry], willContinue=True)
    other = {"functionCall": {**CALL["functionCall"], "id": "c2"}}
    for following in (parts({"text": "x"}), parts(other), b""):
        decoded = decode(started, following, parts(finishReason="STOP"))
        assert decoded.events[2:4] == [JSONDelta(0, '{"a":1'), BlockStop(0)]
        assert decoded.outcome == Completed("tool_use", Usage())
        assert decoded.notes == (
            Note("missing_call_end", "tool call"),
            Note("unfinished_arguments", "tool call"),
        )


def test_call_that_is_cut_keeps_incomplete_arguments() -> None:
    entry = {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}
    started = function_call(id="c1", name="f", partialArgs=[entry])
    assert decode(started, parts(finishReason="MAX_TOKENS")).events[2:] == [
        *(JSONDelta(0, '{"a":"x'), BlockStop(0), MessageStop("max_tokens", "MAX_TOKENS")),
    ]


def test_call_without_its_end_and_arguments_is_not_one_without_arguments() -> None:
    started = function_call(id="c1", name="f", willContinue=True)
    decoded = decode(started, parts(finishReason="STOP"))
    assert decoded.events[2:4] == [JSONDelta(0, "{"), BlockStop(0)]
    assert Note("unfinished_arguments", "tool call") in decoded.notes


@pytest.mark.parametrize("end", [{}, {"willContinue": False}])
def test_unfinished_string_stays_open_at_the_end_of_its_call(end: dict[str, Any]) -> None:
    entry = {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}
    started = function_call(id="c1", name="f", partialArgs=[entry], willContinue=True)
    decoded = decode(started, function_call(**end), parts(finishReason="STOP"))
    assert decoded.events[2:4] == [JSONDelta(0, '{"a":"x'), BlockStop(0)]
    assert decoded.outcome == Completed("tool_use", Usage())
    assert decoded.notes == (Note("unfinished_arguments", "tool call"),)


def test_half_a_character_at_the_cut_is_replaced() -> None:
    entry = {"jsonPath": "$.a", "stringValue": "x\ud83d", "willContinue": True}
    started = function_call(id="c1", name="f", partialArgs=[entry])
    for end in (function_call(), b""):
        events = decode(started, end, parts(finishReason="STOP")).events
        texts = [event.partial_json for event in events if isinstance(event, JSONDelta)]
        assert "".join(texts) == '{"a":"x\ufffd'


@pytest.mark.parametrize(
    ("args", "count"),
    [('{"a":1}', 0), ("", 0), ("{}", 0), ('{"a":', 1), ("tide at noon", 1)],
)
def test_arguments_as_text_that_are_no_json_are_unfinished(args: str, count: int) -> None:
    call = {"functionCall": {"id": "c1", "name": "f", "args": args}}
    decoded = decode(parts(call, finishReason="STOP"))
    assert decoded.outcome == Completed("tool_use", Usage())
    assert decoded.notes == (Note("unfinished_arguments", "tool call"),) * count


@pytest.mark.parametrize(
    "call", [{"args": {}}, {"willContinue": True}, {"partialArgs": [{"jsonPath": "$.a"}]}]
)
def test_call_without_a_name_is_malformed(call: dict[str, Any]) -> None:
    assert decode(function_call(**call)).events[1:] == [
        StreamError("malformed", "function call without a name, expected one")
    ]


def test_part_with_two_kinds_of_data_is_malformed() -> None:
    outcome = decode(parts({"text": "a", **CALL})).outcome
    expected = "part with text and functionCall, expected one"
    assert outcome == Failed(StreamError("malformed", expected))
    assert blocks(parts({"text": "", **CALL})) == blocks(parts(CALL))


# The provider's own tools


def test_code_result_names_the_call_of_its_code() -> None:
    code, result = {"language": "PYTHON", "code": "1"}, {"outcome": "OUTCOME_OK", "output": "1"}
    events = blocks(parts({"executableCode": code}, {"codeExecutionResult": result}))
    start = events[0]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ServerToolCall)
    assert (start.block.name, start.block.kind) == ("code_execution", "executableCode")
    assert anonymous(start.block.id)
    assert events[1:] == [
        JSONDelta(0, json.dumps(code)),
        BlockStop(0),
        BlockStart(1, ServerToolResult(start.block.id, "codeExecutionResult", result)),
        BlockStop(1),
    ]


def test_call_with_a_result_is_not_left_to_the_client() -> None:
    answer = {"functionResponse": {"id": "c1", "name": "tide", "response": {"m": 2}}}
    events = decode(parts(CALL, answer, finishReason="STOP")).events
    result = ServerToolResult("c1", "functionResponse", answer["functionResponse"])
    assert events[4:] == [BlockStart(1, result), BlockStop(1), MessageStop("end_turn", "STOP")]


def test_result_without_an_id_answers_the_call_of_its_name() -> None:
    other = {"functionCall": {"id": "c2", "name": "wind"}}
    answer = {"functionResponse": {"name": "wind", "response": {}}}
    events = decode(parts(CALL, other, answer, finishReason="STOP")).events
    results = [e.block for e in events if isinstance(e, BlockStart)]
    assert isinstance(results[-1], ServerToolResult)
    assert results[-1].tool_call_id == "c2"
    assert events[-1] == MessageStop("tool_use", "STOP")  # the other one is still asked for


@pytest.mark.parametrize(
    ("field", "value", "is_error"),
    [
        ("codeExecutionResult", {"outcome": "OUTCOME_OK", "output": "error"}, False),
        ("codeExecutionResult", {"outcome": "OUTCOME_FAILED", "output": "x"}, True),
        ("codeExecutionResult", {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}, True),
        ("codeExecutionResult", {}, False),
        ("functionResponse", {"name": "tide", "response": {"error": "x"}}, True),
        ("functionResponse", {"name": "tide", "response": {"error": None, "output": 1}}, False),
        # What the Gemini API sends of its `mcpServers`.
        ("functionResponse", {"response": {"call_tool_result_json": '{"isError":true}'}}, True),
        ("functionResponse", {"response": {"call_tool_result_json": '{"isError":false}'}}, False),
        ("functionResponse", {"response": {"call_tool_result_json": "{"}}, False),
        ("toolResponse", {"response": {"error": "x"}}, False),
    ],
)
def test_failed_result_of_the_server_is_marked(
    field: str, value: dict[str, Any], *, is_error: bool
) -> None:
    events = blocks(parts({"executableCode": {"code": "1"}}, {field: value}))
    block = next(e.block for e in events if isinstance(e, BlockStart) and e.index == 1)
    assert isinstance(block, ServerToolResult)
    assert (block.content, block.is_error) == (value, is_error)


# Media, and what nobody knows


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("value", "block"),
    [
        ({"mimeType": "image/png", "data": "QUJD"}, Image("image/png", "QUJD")),
        ({"mimeType": "application/pdf", "data": "QUJD"}, Document("application/pdf", "QUJD")),
        ({"mimeType": "text/csv", "data": encoded("a;ä")}, Document("text/csv", "a;ä")),
    ],
    ids=str,
)
def test_data_is_an_image_or_a_document(value: dict[str, Any], block: Block) -> None:
    assert one({"inlineData": value, "partMetadata": {}}) == whole(block, {"partMetadata": {}})


def test_image_has_its_signature() -> None:
    """An image without it was refused: "Image part is missing a thought_signature"."""
    image = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    signed = Image("image/png", "QUJD", signature="c2ln", issuer="google")
    assert one({**image, "thoughtSignature": "c2ln"}) == whole(signed)
    assert one({**image, "thoughtSignature": "c2ln", "partMetadata": {}}) == whole(
        signed, {"partMetadata": {}}
    )
    # `sn1.vertex.s.1` in Base64: another vendor's, written by this library.
    foreign = Image("image/png", "QUJD", signature="s.1", issuer="vertex")
    assert one({**image, "thoughtSignature": "c24xLnZlcnRleC5zLjE="}) == whole(foreign)


def test_signature_of_a_document_stays_a_field() -> None:
    document = {"inlineData": {"mimeType": "application/pdf", "data": "QUJD"}}
    assert one({**document, "thoughtSignature": "c2ln"}) == whole(
        Document("application/pdf", "QUJD"), {"thoughtSignature": "c2ln"}
    )


@pytest.mark.parametrize(
    "value",
    [
        {"mimeType": "audio/ogg", "data": "QUJD"},
        {"mimeType": "text/csv", "data": "###"},
        {"mimeType": "text/csv", "data": "/w=="},
        {"mimeType": "image/png"},
        {"mimeType": "image/png", "data": "QUJD", "displayName": "x"},
        {"data": "QUJD"},
        {},
    ],
    ids=str,
)
def test_file_of_another_type_is_opaque(value: dict[str, Any]) -> None:
    data = json.dumps(value, separators=(",", ":"))
    assert one({"inlineData": value}) == whole(OpaqueBlock("gemini", "inlineData", data))


def test_file_is_named_by_its_url() -> None:
    image = {"mimeType": "image/png", "fileUri": "https://files.example/a"}
    assert one({"fileData": image}) == whole(Image("image/png", None, "https://files.example/a"))
    text = {"mimeType": "text/csv", "fileUri": "https://files.example/b"}
    assert one({"fileData": text}) == whole(Document("text/csv", None, "https://files.example/b"))


def test_image_within_a_thought_is_opaque() -> None:
    value = {"mimeType": "image/png", "data": "QUJD"}
    opaque = OpaqueBlock("gemini", "inlineData", '{"mimeType":"image/png","data":"QUJD"}')
    assert one({"inlineData": value, "thought": True}) == whole(opaque, {"thought": True})


@pytest.mark.parametrize("field", ["functionCall", "executableCode", "toolCall", "novelty"])
def test_unknown_part_is_opaque(field: str) -> None:
    assert one({field: "x"}) == whole(OpaqueBlock("gemini", field, '"x"'))


def test_field_beside_text_is_opaque() -> None:
    assert one({"text": "a", "partMetadata": {"k": 1}, "novelty": None}) == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(Opaque("gemini", "partMetadata", '{"k":1}', 0), BlockStop(0)),
    ]


@pytest.mark.parametrize("part", [{}, {"text": ""}, {"text": None}, {"thought": True}], ids=str)
def test_empty_part_gives_no_event(part: dict[str, Any]) -> None:
    assert one(part) == []
