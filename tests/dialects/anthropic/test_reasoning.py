"""Thinking and its signatures, in both directions."""

from __future__ import annotations

import json

import pytest
from support.anthropic import payloads
from support.anthropic.frames import STOP, block, body, delta, end, message, notes, start, stop
from support.streams.content import transcode_same

from streamnorm import (
    BlockStart,
    BlockStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
)
from streamnorm._core.text import tag_signature
from streamnorm.codec import encoder


def test_signature_follows_the_thinking_it_signs() -> None:
    frames = [
        block(0, "thinking", thinking="", signature=""),
        *(delta(0, "thinking_delta", thinking=piece) for piece in ("a", "", "b")),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
    ]
    assert body(*frames) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
    ]
    assert notes(*frames) == {}


def test_estimate_of_thinking_tokens_is_an_event_behind_the_thinking() -> None:
    """The beta `thinking-token-count-2026-05-13` counts what is thought without a text."""
    estimate = {"type": "thinking_delta", "thinking": "", "estimated_tokens": 50}
    value = {"type": "content_block_delta", "index": 0, "delta": estimate}
    frames = [
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="a", estimated_tokens=50),
        delta(0, "thinking_delta", thinking="b", estimated_tokens=None),
        stop(0),
    ]
    events = body(*frames)
    (found,) = [event for event in events if isinstance(event, Opaque)]
    assert json.loads(found.data) == value
    assert events == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        Opaque("anthropic", "content_block_delta", found.data, 0),
        *(ReasoningDelta(0, "b"), BlockStop(0)),
    ]
    written, _ = transcode_same([start(), *frames, end("end_turn"), STOP], "anthropic", model="m")
    assert b'"estimated_tokens":50' in written


def test_signature_in_the_start_is_emitted_at_the_stop() -> None:
    opening = block(0, "thinking", thinking="a", signature="c2ln")
    more = delta(0, "thinking_delta", thinking="b")
    assert body(opening, more, stop(0)) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
    ]


def test_signature_delta_replaces_the_signature_in_the_start() -> None:
    opening = block(0, "thinking", thinking="", signature="b2xk")
    events = body(opening, delta(0, "signature_delta", signature="bmV3"), stop(0))
    assert events[1:-1] == [SignatureDelta(0, "bmV3", "anthropic")]


def test_repeated_signature_is_ignored() -> None:
    signed = delta(0, "signature_delta", signature="c2ln")
    empty = delta(0, "signature_delta", signature="")
    frames = [block(0, "thinking", thinking="a"), empty, signed, signed, empty, stop(0)]
    assert body(*frames)[2:-1] == [SignatureDelta(0, "c2ln", "anthropic")]
    assert notes(*frames) == {"resent_signature": 1}


def test_thinking_after_a_signature_starts_a_new_block() -> None:
    frames = [
        block(0, "thinking", thinking="a"),
        delta(0, "signature_delta", signature="c2ln"),
        delta(0, "thinking_delta", thinking="b"),
        delta(0, "thinking_delta", thinking="c\ud83d"),
        delta(0, "signature_delta", signature="b3Ro"),
        delta(0, "signature_delta", signature="bGFzdA=="),
        stop(0),
    ]
    assert body(*frames) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "b"), ReasoningDelta(1, "c")),
        *(ReasoningDelta(1, "�"), SignatureDelta(1, "b3Ro", "anthropic"), BlockStop(1)),
        *(BlockStart(2, Reasoning()), SignatureDelta(2, "bGFzdA==", "anthropic"), BlockStop(2)),
    ]


@pytest.mark.parametrize(
    ("server", "issuer"),
    [(None, "anthropic"), ("vertex", "anthropic"), ("deepseek", "deepseek"), ("kimi", "kimi")],
)
def test_server_decides_the_issuer_of_signatures(server: str | None, issuer: str) -> None:
    content = [
        {"type": "thinking", "thinking": "a", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    ]
    assert message(start(content=content), STOP, server=server).blocks == (
        *(Reasoning(("a",), "c2ln", issuer), RedactedReasoning("ZGF0YQ==", issuer)),
    )


def test_tagged_signature_is_read_back() -> None:
    content = [
        {"type": "thinking", "thinking": "", "signature": tag_signature("Z29v", "google")},
        {"type": "redacted_thinking", "data": tag_signature("ZGF0YQ==", None)},
    ]
    assert message(start(content=content), STOP).blocks == (
        *(Reasoning((), "Z29v", "google"), RedactedReasoning("ZGF0YQ==", None)),
    )


def test_signature_of_anthropic_is_written_unchanged() -> None:
    assert payloads.encode(
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "why"),
        SignatureDelta(0, "c2ln", "anthropic"),
        BlockStop(0),
    ) == [
        payloads.start(0, type="thinking", thinking="", signature=""),
        payloads.delta(0, "thinking_delta", thinking="why"),
        payloads.delta(0, "signature_delta", signature="c2ln"),
        payloads.stop(0),
    ]


@pytest.mark.parametrize("issuer", ["google", None])
def test_signature_of_another_vendor_is_tagged(issuer: str | None) -> None:
    frames = payloads.encode(BlockStart(0, Reasoning()), SignatureDelta(0, "c2ln", issuer))
    assert frames[1] == payloads.delta(
        0, "signature_delta", signature=tag_signature("c2ln", issuer)
    )
    frames = payloads.encode(BlockStart(0, RedactedReasoning("ZGF0YQ==", issuer)), BlockStop(0))
    assert frames[0] == payloads.start(
        0, type="redacted_thinking", data=tag_signature("ZGF0YQ==", issuer)
    )


def test_redacted_thinking_of_anthropic_is_written_unchanged() -> None:
    frames = payloads.encode(
        BlockStart(0, RedactedReasoning("ZGF0YQ==", "anthropic")), BlockStop(0)
    )
    assert frames == [
        payloads.start(0, type="redacted_thinking", data="ZGF0YQ=="),
        payloads.stop(0),
    ]


def test_parts_of_reasoning_are_joined_by_a_blank_line_with_a_loss() -> None:
    writer = encoder("anthropic")
    wire = b"".join(
        writer.encode(event)
        for event in (
            payloads.START,
            BlockStart(0, Reasoning()),
            ReasoningDelta(0, "a"),
            ReasoningDelta(0, "b", 1),
        )
    )
    assert b'"thinking":"a"' in wire
    assert b'"thinking":"\\n\\nb"' in wire
    assert [loss.feature for loss in writer.losses] == ["reasoning_parts"]
