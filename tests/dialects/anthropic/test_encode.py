"""Anthropic SSE, byte for byte as the protocol reference writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Image,
    JSONDelta,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    encoder,
)
from streamnorm._core.ids import tag_signature

START = MessageStart("msg_1", "model-1")


def encode(*events: Event, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return name and payload of each frame, behind `message_start`."""
    writer = encoder("anthropic", **options)
    wire = b"".join(writer.encode(event) for event in (START, *events)) + writer.close()
    frames = []
    for frame in wire.decode().removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        frames.append((payload.pop("type"), payload))
    return frames[1:]


def delta(index: int, kind: str, **fields: str) -> tuple[str, dict[str, Any]]:
    return "content_block_delta", {"index": index, "delta": {"type": kind, **fields}}


def start(index: int, **block: Any) -> tuple[str, dict[str, Any]]:
    return "content_block_start", {"index": index, "content_block": block}


def stop(index: int) -> tuple[str, dict[str, Any]]:
    return "content_block_stop", {"index": index}


def test_text_stream_is_written_byte_for_byte() -> None:
    writer = encoder("anthropic")
    events: list[Event] = [
        START,
        BlockStart(0, Text()),
        TextDelta(0, 'Hi "you"\n'),
        BlockStop(0),
        UsageUpdate(Usage(9, 4)),
        MessageStop("end_turn", "stop"),
    ]
    zero = '"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":'
    assert b"".join(map(writer.encode, events)).decode() == (
        "event: message_start\n"
        'data: {"type":"message_start","message":{"id":"msg_1","type":"message",'
        '"role":"assistant","model":"model-1","content":[],"stop_reason":null,'
        f'"stop_sequence":null,"usage":{{"input_tokens":0,{zero}0}}}}}}\n\n'
        "event: content_block_start\n"
        'data: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}\n\n'
        "event: content_block_delta\n"
        'data: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"Hi \\"you\\"\\n"}}\n\n'
        "event: content_block_stop\n"
        'data: {"type":"content_block_stop","index":0}\n\n'
        "event: message_delta\n"
        'data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        f'"usage":{{"input_tokens":9,{zero}4}}}}\n\n'
        "event: message_stop\n"
        'data: {"type":"message_stop"}\n\n'
    )
    assert writer.losses == ()


def test_tool_input_is_sent_by_deltas_alone() -> None:
    assert encode(
        BlockStart(0, ToolCall("call_1", "f")),
        JSONDelta(0, '{"a":'),
        JSONDelta(0, "1}"),
        BlockStop(0),
    ) == [
        start(0, type="tool_use", id="call_1", name="f", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"a":'),
        delta(0, "input_json_delta", partial_json="1}"),
        stop(0),
    ]


@pytest.mark.parametrize("arguments", [[], ["null"]])
def test_call_without_arguments_gets_an_empty_object(arguments: list[str]) -> None:
    deltas = [JSONDelta(0, text) for text in arguments]
    assert encode(BlockStart(0, ToolCall("c", "f")), *deltas, BlockStop(0))[2:] == [
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
    ]


def test_id_that_anthropic_rejects_is_escaped() -> None:
    ((_, payload), *_) = encode(BlockStart(0, ToolCall("functions.f:0", "f")))
    assert payload["content_block"]["id"] == "snid_functions_2ef_3a0"


def test_custom_tool_becomes_an_object_of_one_string() -> None:
    frames = encode(
        BlockStart(0, ToolCall("c", "f", kind="custom")),
        JSONDelta(0, 'say "hi"\n'),
        BlockStop(0),
    )
    written = "".join(p["delta"]["partial_json"] for name, p in frames if name.endswith("delta"))
    assert json.loads(written) == {"input": 'say "hi"\n'}


def test_signature_of_anthropic_is_written_unchanged() -> None:
    assert encode(
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "why"),
        SignatureDelta(0, "c2ln", "anthropic"),
        BlockStop(0),
    ) == [
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="why"),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
    ]


@pytest.mark.parametrize("issuer", ["google", None])
def test_signature_of_another_vendor_is_tagged(issuer: str | None) -> None:
    frames = encode(BlockStart(0, Reasoning()), SignatureDelta(0, "c2ln", issuer))
    assert frames[1] == delta(0, "signature_delta", signature=tag_signature("c2ln", issuer))
    frames = encode(BlockStart(0, RedactedReasoning("ZGF0YQ==", issuer)), BlockStop(0))
    assert frames[0] == start(0, type="redacted_thinking", data=tag_signature("ZGF0YQ==", issuer))


def test_redacted_thinking_of_anthropic_is_written_unchanged() -> None:
    frames = encode(BlockStart(0, RedactedReasoning("ZGF0YQ==", "anthropic")), BlockStop(0))
    assert frames == [start(0, type="redacted_thinking", data="ZGF0YQ=="), stop(0)]


def test_parts_of_reasoning_are_joined_by_a_blank_line_with_a_loss() -> None:
    writer = encoder("anthropic")
    wire = b"".join(
        writer.encode(event)
        for event in (
            START,
            BlockStart(0, Reasoning()),
            ReasoningDelta(0, "a"),
            ReasoningDelta(0, "b", 1),
        )
    )
    assert b'"thinking":"a"' in wire
    assert b'"thinking":"\\n\\nb"' in wire
    assert [loss.feature for loss in writer.losses] == ["reasoning_parts"]


def test_leading_white_space_is_held_for_the_text() -> None:
    assert encode(BlockStart(0, Text()), TextDelta(0, "\n"), TextDelta(0, " a"), BlockStop(0)) == [
        start(0, type="text", text=""),
        delta(0, "text_delta", text="\n a"),
        stop(0),
    ]


def test_block_of_white_space_leaves_no_gap_in_the_indexes() -> None:
    writer = encoder("anthropic")
    events: list[Event] = [
        START,
        BlockStart(0, Text()),
        TextDelta(0, " \n"),
        BlockStop(0),
        BlockStart(1, Text()),
        TextDelta(1, "a"),
    ]
    wire = b"".join(map(writer.encode, events))
    assert b'"index":0' in wire
    assert b'"index":1' not in wire
    assert writer.losses == (Loss("whitespace_text", "block", 1, "dropped"),)


def test_refusal_is_text_with_its_own_stop_reason() -> None:
    frames = encode(
        BlockStart(0, Refusal()),
        RefusalDelta(0, "No."),
        BlockStop(0),
        UsageUpdate(Usage(1, 1)),
        MessageStop("end_turn", "stop"),
    )
    assert frames[1] == delta(0, "text_delta", text="No.")
    assert frames[3][1]["delta"] == {
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None},
    }


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("tool_use", "tool_use"),
        ("pause", "pause_turn"),
        ("other", "end_turn"),
    ],
)
def test_unified_stop_reason_is_written_as_anthropic_s(reason: Any, word: str) -> None:
    frames = encode(MessageStop(reason))
    assert frames[0][1]["delta"]["stop_reason"] == word
    assert frames[1] == ("message_stop", {})


def test_stop_sequence_is_written() -> None:
    frames = encode(MessageStop("stop_sequence", "stop", "END"))
    assert frames[0][1]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


@pytest.mark.parametrize(
    ("usage", "written"),
    [
        (Usage(2600, 50, 2000, 400, 20), (200, 400, 2000, 50, 20)),
        (Usage(10, 5), (10, 0, 0, 5, None)),
        (Usage(), (0, 0, 0, 0, None)),
        (Usage(3, 1, 5), (0, 0, 5, 1, None)),
    ],
)
def test_written_input_tokens_exclude_the_cache(
    usage: Usage, written: tuple[int, int, int, int, int | None]
) -> None:
    counts = encode(UsageUpdate(usage), MessageStop("end_turn"))[0][1]["usage"]
    names = ("input", "cache_creation_input", "cache_read_input", "output")
    assert tuple(counts[f"{name}_tokens"] for name in names) == written[:4]
    assert counts.get("output_tokens_details", {}).get("thinking_tokens") == written[4]


def test_unknown_usage_is_a_loss() -> None:
    writer = encoder("anthropic")
    for event in (START, MessageStop("end_turn")):
        writer.encode(event)
    assert [(loss.feature, loss.where) for loss in writer.losses] == [
        ("usage_unknown", "input_tokens"),
        ("usage_unknown", "output_tokens"),
    ]


@pytest.mark.parametrize(
    ("error", "type"),
    [
        (StreamError("upstream", "m", status_hint=400), "invalid_request_error"),
        (StreamError("upstream", "m", status_hint=422), "invalid_request_error"),
        (StreamError("upstream", "m", status_hint=401), "authentication_error"),
        (StreamError("upstream", "m", status_hint=402), "billing_error"),
        (StreamError("upstream", "m", status_hint=403), "permission_error"),
        (StreamError("upstream", "m", status_hint=404), "not_found_error"),
        (StreamError("upstream", "m", status_hint=413), "request_too_large"),
        (StreamError("upstream", "m", status_hint=429), "rate_limit_error"),
        (StreamError("upstream", "m", status_hint=500), "api_error"),
        (StreamError("upstream", "m", status_hint=503), "overloaded_error"),
        (StreamError("upstream", "m", status_hint=529), "overloaded_error"),
        (StreamError("upstream", "m", status_hint=504), "timeout_error"),
        (StreamError("stalled", "m"), "timeout_error"),
        (StreamError("truncated", "m"), "api_error"),
        (StreamError("upstream", "m"), "api_error"),
    ],
)
def test_error_ends_the_stream_without_stops(error: StreamError, type: str) -> None:
    frames = encode(BlockStart(0, Text()), TextDelta(0, "a"), error)
    assert frames[-1] == ("error", {"error": {"type": type, "message": "m"}})
    assert [name for name, _ in frames].count("content_block_stop") == 0
    body = json.loads(encoder("anthropic").error_body(error))
    assert body == {"type": "error", "error": {"type": type, "message": "m"}}


def test_ping_is_an_event() -> None:
    assert encode(Ping()) == [("ping", {})]
    assert encoder("anthropic").ping() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_opaque_event_and_block_are_written_unchanged() -> None:
    frames = encode(
        Opaque("anthropic", "vertex_event", '{"type":"vertex_event","x":1}'),
        BlockStart(0, OpaqueBlock("anthropic", "sketch", '{"type":"sketch","lines":[1]}')),
        BlockStop(0),
    )
    assert frames == [("vertex_event", {"x": 1}), start(0, type="sketch", lines=[1]), stop(0)]


def test_compaction_is_written_as_an_empty_start_and_a_delta() -> None:
    data = '{"type":"compaction","content":"c","encrypted_content":"eA=="}'
    assert encode(BlockStart(0, OpaqueBlock("anthropic", "compaction", data)), BlockStop(0)) == [
        start(0, type="compaction", content=None),
        delta(0, "compaction_delta", content="c", encrypted_content="eA=="),
        stop(0),
    ]


def test_strict_encoder_raises_at_the_first_loss() -> None:
    writer = encoder("anthropic", strict=True)
    writer.encode(START)
    with pytest.raises(LossyEncoding, match="opaque in openai_chat logprobs") as raised:
        writer.encode(Opaque("openai_chat", "logprobs", "{}"))
    assert [loss.feature for loss in raised.value.losses] == ["opaque"]


def test_losses_are_reported_as_they_happen_and_counted_together() -> None:
    seen: list[Loss] = []
    writer = encoder("anthropic", on_loss=seen.append)
    for event in (
        START,
        Opaque("openai_chat", "logprobs", "{}"),
        Opaque("openai_chat", "logprobs", "1"),
    ):
        writer.encode(event)
    loss = Loss("opaque", "openai_chat logprobs", 1, "dropped")
    assert seen == [loss, loss]
    assert writer.losses == (Loss("opaque", "openai_chat logprobs", 2, "dropped"),)


def test_event_against_the_grammar_raises() -> None:
    with pytest.raises(LocalProtocolError, match="expected message_start"):
        encoder("anthropic").encode(TextDelta(0, "a"))


def test_model_option_replaces_the_model_of_the_message() -> None:
    assert b'"model":"asked"' in encoder("anthropic", model="asked").encode(START)


def test_close_writes_nothing() -> None:
    assert encoder("anthropic").close() == b""


def test_opaque_block_with_line_ends_stays_within_its_frame() -> None:
    block = OpaqueBlock("anthropic", "x", '{\r\n "type": "x",\n "a": "\\n"\r}')
    assert encode(BlockStart(0, block), BlockStop(0)) == [start(0, type="x", a="\n"), stop(0)]


def test_unsupported_block_must_not_pass_the_projection() -> None:
    with pytest.raises(AssertionError, match="Image passed the projection"):
        encoder("anthropic").render(BlockStart(0, Image(url="u")))
