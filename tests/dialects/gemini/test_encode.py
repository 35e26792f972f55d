"""Gemini SSE, as the protocol reference writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini.payloads import NAMES, START, chunk, encode

from streamnorm import (
    BlockStart,
    BlockStop,
    Document,
    Event,
    Image,
    JSONDelta,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    MessageStart,
    MessageStop,
    Ping,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    SignatureDelta,
    StopReason,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
    Usage,
    UsageUpdate,
)
from streamnorm.dialects.gemini.encode import GeminiEncoder


def losses(*events: Event) -> tuple[Loss, ...]:
    writer = GeminiEncoder()
    for event in (START, *events):
        writer.encode(event)
    return writer.losses


def end(reason: str, **beside: Any) -> Any:
    return chunk({"text": ""}, finishReason=reason, beside=beside)


def call(index: int, *pieces: str, id: str = "c1", name: str = "f") -> list[Event]:
    deltas = [JSONDelta(index, piece) for piece in pieces]
    return [BlockStart(index, ToolCall(id, name)), *deltas, BlockStop(index)]


def test_text_stream_is_written_byte_for_byte() -> None:
    writer = GeminiEncoder()
    events: list[Event] = [
        START,
        BlockStart(0, Text()),
        TextDelta(0, 'Hi "you"\n'),
        BlockStop(0),
        UsageUpdate(Usage(9, 4)),
        MessageStop("end_turn", "stop"),
    ]
    head, names = 'data: {"candidates":[{"content":{"parts":[{', json.dumps(NAMES)[1:]
    names = names.replace(": ", ":").replace(", ", ",")
    assert (b"".join(map(writer.encode, events)) + writer.close()).decode() == (
        f'{head}"text":""}}],"role":"model"}},"index":0}}],{names}\r\n\r\n'
        f'{head}"text":"Hi \\"you\\"\\n"}}],"role":"model"}},"index":0}}],{names}\r\n\r\n'
        f'{head}"text":""}}],"role":"model"}},"finishReason":"STOP","index":0}}],'
        '"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4,"totalTokenCount":13},'
        f"{names}\r\n\r\n"
    )
    assert writer.losses == ()


def test_thoughts_are_parts_of_their_own_kind() -> None:
    assert encode(
        BlockStart(0, Reasoning()), ReasoningDelta(0, "Hm"), ReasoningDelta(0, "."), BlockStop(0)
    ) == [chunk({"text": "Hm", "thought": True}), chunk({"text": ".", "thought": True})]


def test_parts_of_reasoning_are_joined() -> None:
    deltas = [ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1)]
    chunks = encode(BlockStart(0, Reasoning()), *deltas, BlockStop(0))
    assert [c["candidates"][0]["content"]["parts"][0]["text"] for c in chunks] == ["a", "\n\nb"]


def test_call_is_written_whole_when_it_stops() -> None:
    writer = GeminiEncoder()
    writer.encode(START)
    *before, stop = call(0, '{"a":', ' 1.50, "b": "é"}')
    assert b"".join(map(writer.encode, before)) == b""
    assert b'{"functionCall":{"id":"c1","name":"f","args":{"a": 1.50, "b": "' in writer.encode(stop)


@pytest.mark.parametrize("pieces", [[], ["{}"], [" "], ["null"], ["nu", "ll"]])
def test_call_without_arguments_gets_an_empty_object(pieces: list[str]) -> None:
    part = {"functionCall": {"id": "c1", "name": "f", "args": {}}}
    assert encode(*call(0, *pieces)) == [chunk(part)]
    null = Loss("null_arguments", "tool call", 1, "written as {}")
    assert losses(*call(0, *pieces)) == ((null,) if "".join(pieces) == "null" else ())


def test_arguments_with_line_ends_stay_on_one_line() -> None:
    writer = GeminiEncoder()
    events = [START, *call(0, '\n{\r\n  "a": "x\\n",\n', '"b": [1,\n2]\r}\n')]
    frame = b"".join(map(writer.encode, events)).split(b"\r\n\r\n")[1]
    assert b'"args":{    "a": "x\\n", "b": [1, 2] }}' in frame
    assert writer.losses == ()


def test_free_text_is_a_function_of_one_string() -> None:
    custom = BlockStart(0, ToolCall("c1", "f", kind="custom"))
    part = {"functionCall": {"id": "c1", "name": "f", "args": {"input": 'a "b"\n'}}}
    assert encode(custom, JSONDelta(0, "a "), JSONDelta(0, '"b"\n'), BlockStop(0)) == [chunk(part)]


BROKEN = ['{"a":', "[1]", '"x"', "1", '{"a":1}}', "{'a':1}", '{"a":NaN}', "nullx"]
DROPPED = Loss("broken_arguments", "ToolCall", 1, "call dropped")


@pytest.mark.parametrize("arguments", BROKEN)
@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "other"])
def test_arguments_that_are_no_object_fail_the_answer(arguments: str, reason: StopReason) -> None:
    """The call is not executed, and nothing looks like success."""
    events = [*call(0, arguments), *call(1, "{}", id="c2"), MessageStop(reason)]
    whole = {"functionCall": {"id": "c2", "name": "f", "args": {}}}
    message = "the arguments of a tool call are no JSON object"
    failed = chunk({"text": ""}, finishReason="MALFORMED_FUNCTION_CALL", finishMessage=message)
    assert encode(*events) == [chunk(whole), failed]
    assert losses(*events) == (DROPPED,)


@pytest.mark.parametrize(("reason", "word"), [("max_tokens", "MAX_TOKENS"), ("refusal", "SAFETY")])
def test_stop_reason_that_cut_a_call_is_reported(reason: StopReason, word: str) -> None:
    events = [*call(0, '{"a":'), MessageStop(reason)]
    assert encode(*events) == [end(word)]
    assert losses(*events) == (DROPPED,)


def test_nothing_follows_a_failed_answer() -> None:
    writer = GeminiEncoder()
    for event in [START, *call(0, "["), MessageStop("tool_use")]:
        writer.encode(event)
    assert writer.encode(Ping()) == b""
    assert writer.close() == b""


def test_strict_encoder_refuses_arguments_that_are_no_object() -> None:
    writer = GeminiEncoder(strict=True)
    *events, stop = [START, *call(0, "[]")]
    for event in events:
        writer.encode(event)
    with pytest.raises(LossyEncoding, match="broken_arguments in ToolCall"):
        writer.encode(stop)


def test_call_that_is_open_when_the_stream_fails_is_not_written() -> None:
    events = [*call(0, "{}")[:-1], StreamError("truncated", "cut")]
    assert encode(*events) == [{"error": {"code": 500, "message": "cut", "status": "INTERNAL"}}]
    assert losses(*events) == (DROPPED,)


def test_signature_of_text_is_an_empty_signed_part() -> None:
    signed = SignatureDelta(0, "c2ln", "google")
    assert encode(BlockStart(0, Text()), TextDelta(0, "a"), signed, BlockStop(0)) == [
        chunk({"text": "a"}),
        chunk({"text": "", "thoughtSignature": "c2ln"}),
    ]


def test_signature_of_thoughts_is_an_empty_thought_part() -> None:
    signed = SignatureDelta(0, "c2ln", "google")
    assert encode(BlockStart(0, Reasoning()), signed, BlockStop(0)) == [
        chunk({"text": "", "thoughtSignature": "c2ln", "thought": True})
    ]


@pytest.mark.parametrize("first", [True, False])
def test_signature_of_a_call_is_in_its_part(first: bool) -> None:
    start, *rest, stop = call(0, "{}")
    signed: Event = SignatureDelta(0, "c2ln", "google")
    rest = [signed, *rest] if first else [*rest, signed]
    part = {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}
    assert encode(start, *rest, stop) == [chunk(part)]


def test_refusal_is_text_and_a_stop_for_safety() -> None:
    refused = [BlockStart(0, Refusal()), RefusalDelta(0, "No."), BlockStop(0)]
    assert encode(*refused, MessageStop("end_turn")) == [chunk({"text": "No."}), end("SAFETY")]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (Image("image/png", "aWNl"), {"inlineData": {"mimeType": "image/png", "data": "aWNl"}}),
        (
            Image("image/png", url="gs://a"),
            {"fileData": {"mimeType": "image/png", "fileUri": "gs://a"}},
        ),
        (
            Image("image/png", "aWNl", signature="c2ln", issuer="google"),
            {
                "inlineData": {"mimeType": "image/png", "data": "aWNl"},
                "thoughtSignature": "c2ln",
            },
        ),
        (
            Document("application/pdf", "aWNl"),
            {"inlineData": {"mimeType": "application/pdf", "data": "aWNl"}},
        ),
        (
            Document("text/plain", "ice"),
            {"inlineData": {"mimeType": "text/plain", "data": "aWNl"}},
        ),
    ],
    ids=["image", "image elsewhere", "signed image", "document", "text"],
)
def test_files_are_parts(block: Image | Document, part: dict[str, Any]) -> None:
    assert encode(BlockStart(0, block), BlockStop(0)) == [chunk(part)]


@pytest.mark.parametrize(
    "block",
    [
        Image(url="gs://a"),
        Image("text/plain", "aWNl"),
        Image("image/png"),
        Document("application/pdf", "aWNl", title="Ice"),
    ],
    ids=repr,
)
def test_block_without_a_gemini_part_is_a_loss(block: Image | Document) -> None:
    events = [BlockStart(0, block), BlockStop(0)]
    assert encode(*events) == []
    (loss,) = losses(*events)
    assert (loss.where, loss.detail) == (type(block).__name__, "dropped")


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "STOP"),
        ("tool_use", "STOP"),
        ("max_tokens", "MAX_TOKENS"),
        ("stop_sequence", "STOP"),
        ("refusal", "SAFETY"),
        ("pause", "CONTINUATION"),
        ("other", "OTHER"),
    ],
)
def test_stops(reason: StopReason, word: str) -> None:
    assert encode(MessageStop(reason)) == [end(word)]
    lost = Loss("stop_reason", reason, 1, "written as end_turn")
    assert losses(MessageStop(reason)) == ((lost,) if reason == "stop_sequence" else ())


def test_usage_is_written_once_at_the_end() -> None:
    counts = [UsageUpdate(Usage(9, 1)), UsageUpdate(Usage(90, 40, 8, 2, 30))]
    wire = {
        "promptTokenCount": 90,
        "candidatesTokenCount": 10,
        "totalTokenCount": 130,
        "cachedContentTokenCount": 8,
        "thoughtsTokenCount": 30,
    }
    events = [*counts, MessageStop("end_turn")]
    assert encode(*events) == [end("STOP", usageMetadata=wire)]
    assert losses(*events) == (Loss("usage", "cache_write_tokens", 1, "dropped"),)


def test_unknown_count_is_written_as_zero() -> None:
    wire = {"promptTokenCount": 9, "candidatesTokenCount": 0, "totalTokenCount": 9}
    events = [UsageUpdate(Usage(9)), MessageStop("end_turn")]
    assert encode(*events) == [end("STOP", usageMetadata=wire)]
    assert losses(*events) == (Loss("usage_unknown", "output_tokens", 1, "written as 0"),)


def test_reasoning_tokens_never_exceed_output_tokens() -> None:
    wire = {
        "promptTokenCount": 9,
        "candidatesTokenCount": 0,
        "totalTokenCount": 25,
        "thoughtsTokenCount": 16,
    }
    usage = UsageUpdate(Usage(9, 16, reasoning_tokens=19))
    events = [usage, usage, MessageStop("end_turn")]
    assert encode(*events) == [end("STOP", usageMetadata=wire)]
    assert losses(*events) == (Loss("usage", "reasoning_tokens", 1, "written as output_tokens"),)


def test_usage_is_written_without_include_usage() -> None:
    """Only clients of Chat Completions have to ask."""
    events = [UsageUpdate(Usage(9, 4)), MessageStop("end_turn")]
    assert encode(*events, include_usage=False) == encode(*events)
    assert "usageMetadata" in encode(*events)[0]


def test_reasoning_none_leaves_reasoning_out() -> None:
    thought = [BlockStart(0, Reasoning()), ReasoningDelta(0, "Hm"), BlockStop(0)]
    assert encode(*thought, reasoning=None) == []


def test_another_model_and_no_names() -> None:
    assert b'"modelVersion":"mine"' in GeminiEncoder(model="mine").encode(START)
    bare = GeminiEncoder().encode(MessageStart())
    assert bare.endswith(b'"role":"model"},"index":0}]}\r\n\r\n')


def test_tokens_of_a_failed_stream_come_before_its_error() -> None:
    counts = {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}
    error = {"code": 500, "message": "cut", "status": "INTERNAL"}
    assert encode(UsageUpdate(Usage(3, 1)), StreamError("truncated", "cut")) == [
        chunk({"text": ""}, beside={"usageMetadata": counts}),
        {"error": error},
    ]


def test_tokens_that_the_client_has_seen_are_not_repeated() -> None:
    source = chunk({"text": "a"}, beside={"usageMetadata": {"promptTokenCount": 3}})
    original = b"data: " + json.dumps(source).encode() + b"\r\n\r\n"
    transcoder = Transcoder("gemini", "gemini")
    out = b"".join(transcoder.feed(original) + transcoder.close())
    assert out.startswith(original)
    assert b"usageMetadata" not in out[len(original) :]


@pytest.mark.parametrize("text", ["a\u2028b\u2029c\x85d", "é\u2028", "é\u2029", "é\x85", "\u2027"])
def test_unicode_line_ends_are_escaped(text: str) -> None:
    writer = GeminiEncoder()
    events = [START, BlockStart(0, Text()), TextDelta(0, text)]
    frame = b"".join(map(writer.encode, events)).decode().split("\r\n\r\n")[1]
    assert len(frame.splitlines()) == 1
    assert json.loads(frame[6:])["candidates"][0]["content"]["parts"] == [{"text": text}]
    assert writer.delta_writer(0)(text).decode() == frame + "\r\n\r\n"


def test_delta_writer_writes_what_render_does() -> None:
    for block, delta in (
        (Text(), TextDelta(0, "é")),
        (Reasoning(), ReasoningDelta(0, "é")),
    ):
        writer = GeminiEncoder()
        for event in [START, BlockStart(0, block), delta]:
            writer.encode(event)
        assert writer.delta_writer(0)("é") == writer.encode(delta)


def test_ping_is_a_blank_line() -> None:
    assert GeminiEncoder().ping() == b"\r\n"


def test_illegal_event_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        GeminiEncoder().encode(BlockStop(0))
