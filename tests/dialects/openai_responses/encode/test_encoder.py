"""Responses SSE, event by event as the protocol reference writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.streams import MESSAGE_START, encode, payloads_of, types, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Image,
    JSONDelta,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    Loss,
    MessageStop,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

SAID: list[Event] = [BlockStart(0, Text()), TextDelta(0, "hi"), BlockStop(0)]


def test_text_stream_is_written_byte_for_byte() -> None:
    writer = ResponsesEncoder()
    begun = len(writer.encode(MESSAGE_START))
    events = [*SAID, UsageUpdate(Usage(9, 4, 2, 1, 3)), MessageStop("end_turn")]
    wire = b"".join([*map(writer.encode, events), writer.close()]).decode()
    place = '"item_id":"msg_1_0","output_index":0,"content_index":0'
    item = '"id":"msg_1_0","type":"message"'
    empty = '{"type":"output_text","text":"","annotations":[],"logprobs":[]}'
    part = empty.replace('""', '"hi"')
    whole = f'{{{item},"status":"completed","role":"assistant","content":[{part}]}}'
    payloads = [
        (
            "response.output_item.added",
            f'"output_index":0,"item":{{{item},"status":"in_progress","role":"assistant",'
            '"content":[]}',
        ),
        ("response.content_part.added", f'{place},"part":{empty}'),
        ("response.output_text.delta", f'{place},"delta":"hi","logprobs":[]'),
        ("response.output_text.done", f'{place},"text":"hi","logprobs":[]'),
        ("response.content_part.done", f'{place},"part":{part}'),
        ("response.output_item.done", f'"output_index":0,"item":{whole}'),
    ]
    frames = [
        f'event: {name}\ndata: {{"type":"{name}","sequence_number":{number},{rest}}}\n\n'
        for number, (name, rest) in enumerate(payloads, 2)
    ]
    assert begun
    assert wire.startswith("".join(frames))
    last = json.loads(wire.removeprefix("".join(frames)).split("data: ")[1])
    assert last["response"]["output"] == [json.loads(whole)]
    assert last["response"]["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 13,
    }
    assert writer.losses == ()


def test_no_done_is_written_as_the_api_sends_none() -> None:
    writer = ResponsesEncoder()
    for event in (MESSAGE_START, MessageStop("end_turn")):
        writer.encode(event)
    assert writer.close() == b""


# The end


@pytest.mark.parametrize(
    ("blocks", "reason", "status", "why"),
    [
        ((Text(),), "end_turn", "completed", None),
        ((ToolCall("c", "f"),), "tool_use", "completed", None),
        ((Text(),), "max_tokens", "incomplete", "max_output_tokens"),
        ((Text(),), "refusal", "incomplete", "content_filter"),
        ((Refusal(),), "refusal", "completed", None),
        ((Refusal(), ToolCall("c", "f")), "refusal", "incomplete", "content_filter"),
        ((Text(),), "stop_sequence", "completed", None),
        ((Text(),), "pause", "completed", None),
        ((Text(),), "other", "completed", None),
    ],
)
def test_stop_reason_is_written_as_a_status(
    blocks: tuple[Any, ...], reason: Any, status: str, why: str | None
) -> None:
    said = [e for n, block in enumerate(blocks) for e in (BlockStart(n, block), BlockStop(n))]
    payloads, writer = write([MESSAGE_START, *said, UsageUpdate(Usage(1, 2)), MessageStop(reason)])
    last = payloads[-1]
    assert last["type"] == f"response.{status}"
    assert last["response"]["status"] == status
    assert last["response"]["incomplete_details"] == (None if why is None else {"reason": why})
    wordless = reason in ("stop_sequence", "pause", "other")
    losses = (Loss("stop_reason", reason, 1, "written as end_turn"),) if wordless else ()
    assert writer.losses == losses


def test_unknown_counts_are_zero_and_a_loss() -> None:
    payloads, writer = write([MESSAGE_START, MessageStop("end_turn")], include_usage=False)
    usage = payloads[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (0, 0, 0)
    assert [loss.feature for loss in writer.losses] == ["usage_unknown", "usage_unknown"]


def test_close_without_a_stop_writes_no_terminal() -> None:
    assert types(encode(*SAID))[-1] == "output_item.done"


# What has no place


def test_block_without_a_form_is_never_written() -> None:
    writer = ResponsesEncoder()
    writer.encode(MESSAGE_START)
    with pytest.raises(AssertionError, match="Image passed the projection"):
        writer.render(BlockStart(0, Image(url="u")))


def test_signature_of_a_call_is_written_on_reasoning_before_it() -> None:
    signed = ToolCall("c", "f", signature="s", issuer="google")
    payloads, writer = write([MESSAGE_START, BlockStart(0, signed), BlockStop(0)], strict=True)
    done = [each["item"] for each in payloads if each["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["reasoning", "function_call"]
    assert done[0]["encrypted_content"] == "sn1..sn1-of.c.google.s"
    assert writer.losses == ()


def test_signature_of_a_text_is_written_on_reasoning_after_it() -> None:
    text = [BlockStart(0, Text()), TextDelta(0, "a"), SignatureDelta(0, "s", "google")]
    payloads, writer = write([MESSAGE_START, *text, BlockStop(0)], strict=True)
    done = [each["item"] for each in payloads if each["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["message", "reasoning"]
    assert done[1]["encrypted_content"] == "sn1..sn1-of..google.s"
    assert writer.losses == ()


def test_illegal_event_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="expected an open block"):
        write([MESSAGE_START, TextDelta(0, "x")])


# What a transcoder uses


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Text(), TextDelta(0, "a")),
        (Reasoning(), ReasoningDelta(0, "a")),
        (ToolCall("c", "f"), JSONDelta(0, "a")),
    ],
)
def test_delta_writer_writes_what_render_does(start: Any, first: Any) -> None:
    plain, quick = ResponsesEncoder(), ResponsesEncoder()
    for writer in (plain, quick):
        for event in (MESSAGE_START, BlockStart(0, start), first):
            writer.encode(event)
    write_delta = quick.delta_writer(0)
    for _ in range(2):
        assert write_delta("a") == plain.encode(first)
    assert quick.encode(BlockStop(0)) == plain.encode(BlockStop(0))


def test_ping_is_an_event_within_the_response_and_else_a_comment() -> None:
    """Codex times out without events; the SDK's helpers fail if one precedes the response."""
    writer = ResponsesEncoder()
    assert writer.ping() == writer.encode(Ping()) == b": ping\n\n"
    writer.encode(MESSAGE_START)
    (ping,) = payloads_of(writer.ping())
    assert ping == {"type": "keepalive", "sequence_number": 2}
    writer.encode(MessageStop("end_turn"))
    assert writer.ping() == b": ping\n\n"


STORED: dict[str, tuple[list[Event], int]] = {
    "text": ([BlockStart(0, Text()), TextDelta(0, "é" * 9)], 18),
    "refusal": ([BlockStart(0, Refusal()), RefusalDelta(0, "abc")], 3),
    "arguments": ([BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "[1]")], 3),
    "reasoning": ([BlockStart(0, Reasoning()), ReasoningDelta(0, "abc")], 3),
    "another summary": (
        [*(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")), ReasoningDelta(0, "b", 1)],
        402,
    ),
    "whole item": (
        [BlockStart(0, OpaqueBlock("openai_responses", "k", '{"type":"k"}'))],
        len('{"type":"k"}'),
    ),
}


@pytest.mark.parametrize(("events", "size"), STORED.values(), ids=STORED)
def test_what_the_terminal_repeats_is_bounded(events: list[Event], size: int) -> None:
    """A batch of short texts is counted at the end of the block."""
    events = [MESSAGE_START, *events, BlockStop(0), MessageStop("end_turn")]
    for bound in (size, size + 1):
        writer = ResponsesEncoder(limits=Limits(max_accumulated_bytes=bound))
        (*_, terminal) = payloads_of(b"".join([writer.encode(event) for event in events]))
        assert len(terminal["response"]["output"]) == 1
    writer = ResponsesEncoder(limits=Limits(max_accumulated_bytes=size - 1))
    with pytest.raises(LimitExceeded) as caught:
        list(map(writer.encode, events[:-1]))
    assert caught.value.limit == "max_accumulated_bytes"
    (*_, terminal) = payloads_of(writer.encode(StreamError("upstream", "no")))
    assert terminal["type"] == "response.failed"
