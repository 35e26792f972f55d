"""The encoder: messages and text blocks, byte for byte as the protocol reference has them."""

from __future__ import annotations

import json

import pytest
from support.anthropic.payloads import START, delta, encode, encode_stream, start, stop

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
    Ping,
    Reasoning,
    ReasoningDelta,
    RefusalDelta,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import encoder


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


def test_ping_is_an_event() -> None:
    assert encode(Ping()) == [("ping", {})]
    assert encoder("anthropic").ping() == b'event: ping\ndata: {"type":"ping"}\n\n'


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


def test_unsupported_block_must_not_pass_the_projection() -> None:
    with pytest.raises(AssertionError, match="Image passed the projection"):
        encoder("anthropic").render(BlockStart(0, Image(url="u")))


def test_extra_fields_are_written_where_they_were_read() -> None:
    begun = MessageStart("msg_1", "claude-1", {"container": {"id": "c"}, "id": "forged"})
    stop_extra = {
        "stop_details": {"type": "refusal", "category": "cyber"},
        "container": {"id": "c"},
        "context_management": {"applied_edits": []},
        "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3},
    }
    called = BlockStart(0, ToolCall("t", "f"), extra={"caller": {"type": "direct"}, "name": "g"})
    events = (
        *(UsageUpdate(Usage(9, 4, extra={"speed": "fast", "input_tokens": 1})), called),
        *(BlockStop(0), MessageStop("refusal", extra=stop_extra)),
    )
    written = [payload for _, payload in encode_stream(begun, *events, extras=True)]
    message = written[0]["message"]
    assert (message["container"], message["id"]) == ({"id": "c"}, "msg_1")
    block = written[1]["content_block"]
    assert (block["caller"], block["name"]) == ({"type": "direct"}, "f")
    assert written[-2]["delta"] == {
        "stop_reason": "refusal",
        "stop_sequence": None,
        **{key: stop_extra[key] for key in ("stop_details", "container")},
    }
    assert written[-2]["context_management"] == {"applied_edits": []}
    assert (written[-2]["usage"]["speed"], written[-2]["usage"]["input_tokens"]) == ("fast", 9)
    assert written[-1] == {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}}
    plain = json.dumps(encode_stream(begun, *events))
    for word in ("container", "caller", "speed", "cyber", "context_management", "bedrock"):
        assert word not in plain


@pytest.mark.parametrize(
    ("tier", "expected"),
    [("default", "standard"), ("priority", "priority"), ("standard", "standard"), ("flex", None)],
)
def test_service_tier_is_translated(tier: str, expected: str | None) -> None:
    extra = {"service_tier": tier}
    for begun, events in [
        (MessageStart("m", "c", extra), [MessageStop("end_turn")]),
        (START, [UsageUpdate(Usage(1, 1, extra=extra)), MessageStop("end_turn")]),
        (START, [MessageStop("end_turn", extra=extra)]),
    ]:
        assert encode_stream(begun, *events)[-2][1]["usage"].get("service_tier") == expected
    writer = encoder("anthropic")
    writer.encode(MessageStart("m", "c", extra))
    lost = (Loss("service_tier", tier, 1, "dropped"),) if expected is None else ()
    assert writer.losses == lost


def test_refusal_must_not_pass_the_projection() -> None:
    with pytest.raises(AssertionError, match="refusal passed the projection"):
        encoder("anthropic").render(RefusalDelta(0, "no"))


def test_delta_writer_equals_render() -> None:
    for block, text in [
        (Text(), TextDelta(0, 'a"é')),
        (Reasoning(), ReasoningDelta(0, 'a"é')),
        (ToolCall("c", "f"), JSONDelta(0, 'a"é')),
    ]:
        writer = encoder("anthropic")
        for event in (START, BlockStart(0, block), text):
            writer.encode(event)
        assert writer.encode(text) == writer.delta_writer(0)('a"é')
