"""What only Gemini knows goes back to where it was; and our decoder reads what we write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.streams.content import content_of
from support.streams.corpus import each_recording_of
from support.streams.event_strategies import make_stream

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    accumulate,
    project,
)
from streamnorm._core.grammar import Sequencer
from streamnorm.codec import decoder
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.dialects.gemini.encode import GeminiEncoder
from streamnorm.recording import Recording


def encode(*events: Event, extras: bool = True) -> tuple[list[Any], tuple[Loss, ...]]:
    """Return the payloads, and what was lost."""
    writer = GeminiEncoder(extras=extras)
    wire = b"".join(map(writer.encode, events))
    frames = wire.decode().split("\r\n\r\n")[:-1]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames], writer.losses


def parts(*events: Event, extras: bool = True) -> list[dict[str, Any]]:
    """Return the parts of the chunks behind the first."""
    payloads, losses = encode(MessageStart("r", "m"), *events, extras=extras)
    assert losses == ()
    return [part for p in payloads[1:] for part in p["candidates"][0]["content"]["parts"]]


def candidate(**fields: Any) -> dict[str, Any]:
    return {"content": {"parts": [{"text": ""}], "role": "model"}, **fields, "index": 0}


NAMES = {"modelVersion": "m", "responseId": "r"}


def test_unicode_line_ends_in_a_whole_part_are_escaped() -> None:
    content = {"output": "a\u2028b\u2029c\x85d"}
    data = json.dumps(content, ensure_ascii=False)
    for block, field in (
        (ServerToolResult("x", "codeExecutionResult", content), "codeExecutionResult"),
        (OpaqueBlock("gemini", "sketch", data), "sketch"),
    ):
        writer = GeminiEncoder()
        events = [MessageStart("r", "m"), BlockStart(0, block)]
        frame = b"".join(map(writer.encode, events)).decode().split("\r\n\r\n")[1]
        assert len(frame.splitlines()) == 1
        (part,) = json.loads(frame[6:])["candidates"][0]["content"]["parts"]
        assert part == {field: content}


def test_unknown_fields_of_the_message_are_written_back() -> None:
    start = MessageStart("r", "m", {"createTime": "2026-11-22T07:00:00Z"})
    extra = {"safetyRatings": [], "avgLogprobs": -0.5, "modelStatus": {"stage": "STABLE"}}
    usage = Usage(19, 4, extra={"toolUsePromptTokenCount": 7, "trafficType": "ON_DEMAND"})
    stop = MessageStop("refusal", "RECITATION", extra=extra)
    payloads, losses = encode(start, UsageUpdate(usage), stop)
    assert losses == ()
    assert payloads == [
        {"candidates": [candidate()], "createTime": "2026-11-22T07:00:00Z", **NAMES},
        {
            "candidates": [
                candidate(finishReason="RECITATION", safetyRatings=[], avgLogprobs=-0.5)
            ],
            "modelStatus": {"stage": "STABLE"},
            "usageMetadata": {
                "toolUsePromptTokenCount": 7,
                "trafficType": "ON_DEMAND",
                "promptTokenCount": 12,
                "candidatesTokenCount": 4,
                "totalTokenCount": 23,
            },
            **NAMES,
        },
    ]


def test_total_that_is_no_sum_is_written_back() -> None:
    usage = UsageUpdate(Usage(9, 4, extra={"totalTokenCount": 99}))
    payloads, _ = encode(MessageStart("r", "m"), usage, MessageStop("end_turn"))
    assert payloads[1]["usageMetadata"]["totalTokenCount"] == 99


def test_fields_of_another_vendor_are_left_out() -> None:
    payloads, losses = encode(
        MessageStart("r", "m", {"x": 1}),
        BlockStart(0, ToolCall("c", "f"), extra={"x": 1}),
        BlockStop(0),
        UsageUpdate(Usage(1, 1, extra={"x": 1})),
        MessageStop("tool_use", extra={"x": 1}),
        extras=False,
    )
    assert '"x"' not in json.dumps(payloads)
    assert losses == (Loss("extra", "x", 4, "dropped"),)


def test_unknown_fields_of_a_part_are_written_back() -> None:
    start = BlockStart(0, ToolCall("c", "f"), extra={"partMetadata": {"n": 1}})
    call = {"functionCall": {"id": "c", "name": "f", "args": {}}}
    assert parts(start, BlockStop(0)) == [{**call, "partMetadata": {"n": 1}}]


def test_server_tool_call_is_its_own_part() -> None:
    code = '{"language":"PYTHON", "code":"print(1.0)\\n"}'
    executed = ServerToolCall("x", "code_execution", kind="executableCode")
    assert parts(BlockStart(0, executed), JSONDelta(0, code), BlockStop(0)) == [
        {"executableCode": {"language": "PYTHON", "code": "print(1.0)\n"}}
    ]


@pytest.mark.parametrize("kind", ["codeExecutionResult", "toolResponse", "functionResponse"])
def test_server_tool_result_is_its_own_part(kind: str) -> None:
    result = ServerToolResult("x", kind, {"outcome": "OUTCOME_OK", "output": "1"})
    assert parts(BlockStart(0, result), BlockStop(0)) == [
        {kind: {"outcome": "OUTCOME_OK", "output": "1"}}
    ]


def test_opaque_part_is_written_unchanged() -> None:
    block = OpaqueBlock("gemini", "videoClip", '{"frames":[1,\n2]}')
    start = BlockStart(0, block, extra={"thought": True})
    assert parts(start, BlockStop(0)) == [{"videoClip": {"frames": [1, 2]}, "thought": True}]


def test_image_within_a_thought_stays_a_thought_without_extras() -> None:
    block = OpaqueBlock("gemini", "inlineData", '{"mimeType":"image/png","data":"aWNl"}')
    start = BlockStart(0, block, extra={"thought": True, "partMetadata": {"n": 1}})
    payloads, _ = encode(MessageStart("r", "m"), start, BlockStop(0), extras=False)
    (part,) = payloads[1]["candidates"][0]["content"]["parts"]
    assert part == {"inlineData": {"mimeType": "image/png", "data": "aWNl"}, "thought": True}


HELLO: list[Event] = [MessageStart("r", "m"), BlockStart(0, Text()), TextDelta(0, "Hi")]


def written(*opaque: Opaque) -> tuple[list[Any], tuple[Loss, ...]]:
    payloads, losses = encode(*HELLO, *opaque)
    return payloads[2:], losses


@pytest.mark.parametrize("name", ["groundingMetadata", "citationMetadata", "logprobsResult"])
def test_opaque_data_of_a_candidate_is_its_field(name: str) -> None:
    frames, losses = written(Opaque("gemini", name, '{"n":[1]}', 0))
    assert frames == [{"candidates": [candidate(**{name: {"n": [1]}})], **NAMES}]
    assert losses == ()


def test_opaque_data_of_a_part_is_its_field() -> None:
    frames, losses = written(Opaque("gemini", "videoMetadata", '{"fps":1}', 0))
    content = {"parts": [{"text": "", "videoMetadata": {"fps": 1}}], "role": "model"}
    assert frames == [{"candidates": [{"content": content, "index": 0}], **NAMES}]
    assert losses == ()


def test_opaque_frame_is_written_as_a_frame() -> None:
    assert written(Opaque("gemini", "frame", '{"vendor":1}')) == ([{"vendor": 1}], ())


@pytest.mark.parametrize(("name", "data"), [("frame", "[1]"), ("ping", '"x"'), ("frame", "{")])
def test_opaque_frame_that_no_client_reads_is_a_loss(name: str, data: str) -> None:
    lost = Loss("opaque", name, 1, "no object, dropped")
    assert written(Opaque("gemini", name, data)) == ([], (lost,))


def test_opaque_data_of_another_dialect_is_a_loss() -> None:
    lost = Loss("opaque", "openai_chat logprobs", 1, "dropped")
    assert written(Opaque("openai_chat", "logprobs", "{}", 0)) == ([], (lost,))


# There and back


def assert_comes_back(events: list[Event], *, extras: bool = False) -> list[Event]:
    """Check that what is encoded comes back as it was projected, and return that."""
    writer, sequencer = GeminiEncoder(extras=extras), Sequencer()
    out: list[bytes] = []
    for event in events:
        for passed in writer.projector.push(event):
            out += [writer.render(ordered) for ordered in sequencer.push(passed)]
    passed_events, losses = project(events, "gemini", extras=extras)
    assert writer.losses == losses
    reader = GeminiDecoder()
    back = reader.feed(b"".join([*out, writer.close()])) + reader.close()
    assert content_of(back, "gemini") == content_of(passed_events, "gemini")
    # Two texts that are but the same signature are read as one; the API sends no ids with
    # code that it executes.
    places = {note.where for note in reader.notes if note.kind != "resent_signature"}
    assert places <= ({"server tool call"} if extras else set())
    return back


def test_blocked_prompt_has_no_candidates() -> None:
    told = {"promptFeedback": {"blockReason": "OTHER"}}
    usage = [UsageUpdate(Usage(input_tokens=9))]
    ends = MessageStop("refusal", "OTHER")
    blocked, _ = encode(MessageStart("r", "m", told), *usage, ends)
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 0, "totalTokenCount": 9}
    assert blocked == [{**told, **NAMES}, {"usageMetadata": counts, **NAMES}]
    assert encode(MessageStart("r", "m", told), ends)[0] == [{**told, **NAMES}]
    # What is blocked late, or was answered all the same, ends so.
    text = [BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]
    late = MessageStop("refusal", "OTHER", extra=told)
    assert encode(MessageStart("r", "m"), *text, late)[0][2:] == [{**told, **NAMES}]
    finished = {"candidates": [candidate(finishReason="STOP")], **NAMES}
    answered = [MessageStart("r", "m", told), *text, MessageStop("end_turn", "STOP")]
    assert encode(*answered)[0][2:] == [finished]


@given(d=draws(300))
def test_encoded_events_decode_to_the_projected_ones(d: Draws) -> None:
    assert_comes_back(make_stream(d, 1 + d.below(2), failing=d.flag(5), calls_only=True))


@each_recording_of("openai_chat", "anthropic")
def test_encoded_recording_decodes_to_the_projected_events(recording: Recording) -> None:
    reader = decoder(str(recording.dialect), server=recording.server)
    assert_comes_back(reader.feed(recording.body) + reader.close())


@each_recording_of("gemini")
def test_reencoded_recording_keeps_fields_without_a_unified_event(recording: Recording) -> None:
    reader = GeminiDecoder()
    events = reader.feed(recording.body) + reader.close()
    passed, _ = project(events, "gemini", extras=True)
    back = assert_comes_back(events, extras=True)
    if not isinstance(passed[-1], StreamError):
        got, wanted = accumulate(back), accumulate(passed)
        assert got.usage.extra == wanted.usage.extra
        assert (got.extra, got.stop_extra) == (wanted.extra, wanted.stop_extra)
        assert got.block_extras == wanted.block_extras
        assert got.raw_stop_reason == wanted.raw_stop_reason


def test_redacted_reasoning_is_a_signed_thought() -> None:
    for issuer, value in (("google", "c2ln"), ("x", "c24xLXJlZGFjdGVkLnguYzJsbg==")):
        block = RedactedReasoning("c2ln", issuer)
        assert parts(BlockStart(0, block), BlockStop(0), extras=False) == [
            {"text": "", "thought": True, "thoughtSignature": value}
        ]
